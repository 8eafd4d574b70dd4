"""Evaluation of a LightningModule by a callback, with no metric in the module: `pip install
'weft[lightning]'`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torchmetrics
from torch import Tensor

from weft.errors import InputError, MissingExtra, SettingError, check_choice, did_you_mean
from weft.evaluation.evaluator import Evaluator
from weft.evaluation.result import Result
from weft.metrics.profiles import adopted_name
from weft.metrics.registry import as_list, canonical

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] != "lightning":  # it is there, and lacks something itself
        raise
    raise MissingExtra(
        "weft.integrations.lightning needs Lightning; install it with: pip install "
        "'weft[lightning]'"
    ) from error

STAGES = ("val", "test")
GIVEN = ("preds", "target", "user_indices", "items")  # the arguments of Evaluator.update
STEPS = {"val": "validation_step", "test": "test_step"}
Inputs = Callable[[LightningModule, Any], Mapping[str, Any]]


class EvaluationCallback(Callback):  # type: ignore[misc, unused-ignore]
    """Evaluates at the end of validation, test or both, with all the metrics of an `Evaluator`.

    What is evaluated is what `validation_step` and `test_step` return: a dict with `"preds"`
    (scores `[batch, items]`), `"target"`, and, as far as the evaluator needs them, `"user_indices"`
    and `"items"`, as `Evaluator.update` takes them. Other keys do not matter. With `inputs=`, a
    function of the module and the batch returns such a dict instead, and the steps may return
    anything.

    All values are logged, as `val_nDCG@10` and `test_nDCG@10`, so that every logger,
    `ModelCheckpoint(monitor="val_nDCG@10")` and `EarlyStopping` have them; those of
    `prog_bar=["nDCG@10"]` are also shown on the progress bar. `results["val"]` and
    `results["test"]` are the latest Results, `result` is the latest of all. `save_to` writes them,
    in one process only: into a folder, a file for each stage, epoch and step, or, for one stage,
    into the one file of a name with `.json`. With several dataloaders each has its own Result,
    named `val/dataloader_idx_0` as Lightning would. The sanity check is not counted.

    The evaluator is copied, and not changed. Where there is more than one process each user counts
    once, whatever a sampler has filled up its share with, unless the evaluator was made with
    `repeated_users="count"`; for that `"user_indices"` must be there."""

    def __init__(
        self,
        evaluator: Evaluator,
        *,
        stages: Iterable[str] | str = STAGES,
        inputs: Inputs | None = None,
        prog_bar: Iterable[str] | str = (),
        save_to: str | Path | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(evaluator, Evaluator):
            raise SettingError(
                f"EvaluationCallback takes a weft.Evaluator; got a {type(evaluator).__name__}."
            )
        self.stages = tuple(check_choice("stages", stage, STAGES) for stage in as_list(stages))
        if not self.stages:
            raise SettingError("stages is empty; choose 'val', 'test' or both.")
        if inputs is not None and not callable(inputs):
            raise SettingError(
                f"inputs is a {type(inputs).__name__}; expected a function (module, batch) -> dict."
            )
        self.evaluator, self.inputs = evaluator, inputs
        self.shown = tuple(self._known(name) for name in as_list(prog_bar))
        self.save_to = None if save_to is None else Path(save_to)
        if self._saves_one_file and len(self.stages) > 1:
            raise SettingError(
                f"save_to={str(save_to)!r} is one file for two stages; give a folder, or "
                "stages='val' or stages='test'."
            )
        self.results: dict[str, Result] = {}
        self._evaluators: dict[str, list[Evaluator]] = {}  # of each stage, one for each dataloader
        self._latest: tuple[str, ...] = ()

    @property
    def result(self) -> Result:
        """What the latest evaluation found."""
        if len(self._latest) != 1:
            found = f"the latest evaluation has several results; take one of results: {', '.join(self._latest)}."
            raise SettingError(
                found
                if self._latest
                else "nothing was evaluated yet; run trainer.fit, validate or test first."
            )
        return self.results[self._latest[0]]

    @property
    def _saves_one_file(self) -> bool:
        return self.save_to is not None and self.save_to.suffix.lower() == ".json"

    def _known(self, name: str) -> str:
        """The name of a metric of the evaluator, as it is logged."""
        known, profile = [str(spec) for spec in self.evaluator.specs], self.evaluator.profile
        spelt = name
        if isinstance(name, str) and name not in known:
            with suppress(SettingError):  # no metric at all: refused below, with what there is
                spelt = canonical(name) if profile is None else adopted_name(name, profile.tool)
        if spelt not in known:
            raise SettingError(
                f"prog_bar has {name!r}, which is not evaluated.{did_you_mean(str(name), known)} "
                f"There is: {', '.join(known)}."
            )
        return str(spelt)

    # ----------------------------------------------------------------------------------------------

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined, unused-ignore]
        for other in callbacks:
            if not isinstance(other, EvaluationCallback) or other is self:
                continue
            if both := set(self._names()) & set(other._names()):
                raise SettingError(
                    f"two EvaluationCallbacks would log {min(both)!r}; give one of the evaluators "
                    "a prefix=, or other metrics."
                )
        if trainer.world_size > 1 and not self.evaluator.sync_on_compute:
            raise SettingError(
                "the evaluator was made with sync_on_compute=False, so that each of the "
                f"{trainer.world_size} processes would log "
                "and monitor values of its own; leave it out."
            )

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._start("val", trainer, pl_module, len(trainer.num_val_batches))

    def on_test_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._start("test", trainer, pl_module, len(trainer.num_test_batches))

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._add("val", trainer, pl_module, outputs, batch, dataloader_idx)

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._add("test", trainer, pl_module, outputs, batch, dataloader_idx)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self._finish("val", trainer, pl_module)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._finish("test", trainer, pl_module)

    # ----------------------------------------------------------------------------------------------

    def _names(self) -> Iterator[str]:
        return (
            f"{stage}_{self.evaluator.prefix}{spec}{self.evaluator.postfix}"
            for stage in self.stages
            for spec in self.evaluator.specs
        )

    def _start(self, stage: str, trainer: Trainer, module: LightningModule, loaders: int) -> None:
        if stage not in self.stages:
            return
        if loaders > 1 and self._saves_one_file:
            raise SettingError(
                f"save_to={str(self.save_to)!r} is one file for {loaders} dataloaders; give a "
                "folder."
            )
        parts = (module, trainer.datamodule)  # type: ignore[attr-defined, unused-ignore]
        may_skip = any(
            getattr(part, "allow_zero_length_dataloader_with_multiple_devices", False)
            for part in parts
        )
        if trainer.world_size > 1 and loaders == 1 and may_skip:
            raise SettingError(
                "with allow_zero_length_dataloader_with_multiple_devices Lightning leaves out the "
                "evaluation on a process whose "
                "dataloader is empty, and the others would wait for it for ever; leave it off, and "
                "give such a process an "
                "IterableDataset that yields nothing."
            )
        once = (
            trainer.world_size > 1
            and self.evaluator.repeated_users is None
            and self.evaluator.knows_its_rows
        )
        self._evaluators[stage] = [
            self.evaluator.clone(prefix=f"{stage}_{self.evaluator.prefix}") for _ in range(loaders)
        ]
        for copy in self._evaluators[stage]:
            copy.reset()
            copy.to(module.device)
            if once:
                copy.repeated_users = "drop"

    def _add(
        self,
        stage: str,
        trainer: Trainer,
        module: LightningModule,
        outputs: Any,
        batch: Any,
        loader: int,
    ) -> None:
        """Add a batch; also in the sanity check, where it finds mistakes early, though nothing
        comes of it.
        """
        if stage not in self.stages:
            return
        if self.inputs is None:
            given = _checked(
                outputs, f"{STEPS[stage]} returned", "or give EvaluationCallback inputs="
            )
        else:
            plugin = trainer.precision_plugin
            with plugin.val_step_context() if stage == "val" else plugin.test_step_context():
                given = _checked(
                    self.inputs(module, batch), "inputs returned", "as Evaluator.update takes them"
                )
            for name in given:
                if name not in GIVEN:
                    raise InputError(
                        f"inputs returned {name!r}, which is not "
                        f"known.{did_you_mean(str(name), GIVEN)}"
                    )
        evaluator = self._evaluators[stage][loader]
        if evaluator.drops_repeats and given.get("user_indices") is None:
            raise InputError(
                "there is no 'user_indices' in what "
                f"{STEPS[stage] if self.inputs is None else 'inputs'} returned, so that users "
                "whom a sampler gave to two processes would count twice; add it, or make the "
                "Evaluator with repeated_users='count'."
            )
        evaluator.update(
            given["preds"], given["target"], given.get("user_indices"), given.get("items")
        )

    def _finish(self, stage: str, trainer: Trainer, module: LightningModule) -> None:
        if stage not in self.stages:
            return
        evaluators = self._evaluators[stage]
        suffixes = (
            [f"/dataloader_idx_{number}" for number in range(len(evaluators))]
            if len(evaluators) > 1
            else [""]
        )
        self._latest = tuple(f"{stage}{suffix}" for suffix in suffixes)
        about = {"stage": stage, "epoch": trainer.current_epoch, "step": trainer.global_step}
        for name, suffix, evaluator in zip(self._latest, suffixes, evaluators):
            found = evaluator.compute()
            result = replace(
                found, name=type(module).__name__, provenance={**found.provenance, **about}
            )
            self.results[name] = result
            self._log(result, suffix, module)
            self._save(result, suffix, trainer)
            evaluator.reset()  # what was kept of each user is not needed any more

    def _log(self, result: Result, suffix: str, module: LightningModule) -> None:
        for value, (name, tensor) in zip(result.values, result.as_dict().items()):
            shown = value.plain_name in self.shown
            module.log(
                name + suffix,
                _Settled(tensor),
                prog_bar=shown,
                metric_attribute="",
                add_dataloader_idx=False,
                on_epoch=True,
            )

    def _save(self, result: Result, suffix: str, trainer: Trainer) -> None:
        if self.save_to is None or not trainer.is_global_zero:
            return
        path = self.save_to
        if not self._saves_one_file:
            about = result.provenance
            path /= f"{about['stage']}-epoch{about['epoch']}-step{about['step']}{suffix.replace('/', '-')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        result.save(path)


class _Settled(torchmetrics.Metric):  # type: ignore[misc, unused-ignore]
    """A value that all processes have in common already: a metric Lightning leaves as it is, a
    tensor it would want to reduce.
    """

    def __init__(self, value: Tensor) -> None:
        super().__init__(sync_on_compute=False)
        self.update(value)

    def update(self, value: Tensor) -> None:
        self.settled = value

    def compute(self) -> Tensor:
        return self.settled


def _checked(given: Any, who: str, hint: str) -> Mapping[str, Any]:
    """The dict that a step has returned, with what is needed in it."""
    expected = "expected a dict with 'preds', 'target' and 'user_indices'"
    if not isinstance(given, Mapping):
        got = "nothing" if given is None else f"a {type(given).__name__}"
        raise InputError(f"{who} {got}; {expected}, {hint}.")
    for name in GIVEN[:2]:
        if given.get(name) is None:
            keys = ", ".join(map(repr, given)) or "nothing"
            raise InputError(f"{who} a dict without {name!r} (it has {keys}); {expected}, {hint}.")
    return given
