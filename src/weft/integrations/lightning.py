"""A Lightning callback that evaluates a LightningModule: `pip install 'weft[lightning]'`."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing.context import get_spawning_popen
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

from weft.errors import (
    InputError,
    MissingExtra,
    SettingError,
    check_bool,
    check_choice,
    describe_type,
    did_you_mean,
)
from weft.evaluation.atomic_files import write_files
from weft.evaluation.evaluator import Evaluator
from weft.evaluation.result import Result
from weft.evaluation.setting_rules import read_metrics
from weft.integrations.lightning_log import log_result
from weft.metrics.profiles import profiled_name
from weft.metrics.registry import canonical_name

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] != "lightning":  # Lightning itself fails to import
        raise
    raise MissingExtra(
        "weft.integrations.lightning needs Lightning; install it with: pip install "
        "'weft[lightning]'"
    ) from error

__all__ = ["EvaluationCallback"]

Stage = Literal["val", "test"]
STAGES: tuple[Stage, ...] = get_args(Stage)
_UPDATE_ARGUMENTS = ("preds", "target", "user_indices", "items")  # of Evaluator.update
_STEP_METHODS = {"val": "validation_step", "test": "test_step"}
Inputs = Callable[[LightningModule, Any], Mapping[str, Any]]


class EvaluationCallback(Callback):  # type: ignore[misc, unused-ignore]
    """A Lightning callback that evaluates at the end of validation or test, or both.

    Every value is logged, as `val_nDCG@10` or `test_nDCG@10`, for loggers,
    `ModelCheckpoint(monitor="val_nDCG@10")` and `EarlyStopping`. With several dataloaders each has
    its own result, named `val/dataloader_idx_0` as in Lightning. The sanity check is not evaluated.

    With several processes each user counts once, even if a sampler repeats users to fill up its
    shard, unless the evaluator has `repeated_users="count"`. This needs `"user_indices"`.

    Parameters
    ----------
    evaluator
        Evaluator with the metrics. It is copied and not changed.
    stages
        `"val"`, `"test"` or both (default).
    inputs
        Function `(module, batch) -> dict` that returns `"preds"` (scores `[batch, items]`),
        `"target"` and, if the evaluator needs them, `"user_indices"` and `"items"`, in the forms of
        `Evaluator.update`. By default `validation_step` and `test_step` return this dict; other
        keys are ignored.
    prog_bar
        Names of metrics that are also shown on the progress bar.
    log_std_errors
        Also log standard errors, `val_nDCG@10/std_error`.
    log_slices
        Also log the values of each slice, `val_nDCG@10[gender=F]`.
    save_to
        Folder for the results, one file per stage, epoch and step; or a `.json` file for a single
        stage. Only one process writes.

    Attributes
    ----------
    results
        The latest `Result` of each stage and dataloader: `results["val"]`. Also available in the
        parent process of the strategy `ddp_spawn`, as is `result`.
    result
        The `Result` of the most recent evaluation.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        *,
        stages: Iterable[Stage] | Stage = STAGES,
        inputs: Inputs | None = None,
        prog_bar: Iterable[str] | str = (),
        log_std_errors: bool = False,
        log_slices: bool = False,
        save_to: str | Path | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(evaluator, Evaluator):
            raise SettingError(
                f"EvaluationCallback takes a weft.Evaluator; got {describe_type(evaluator)}."
            )
        self.stages = tuple(check_choice("stages", stage, STAGES) for stage in read_metrics(stages))
        if not self.stages:
            raise SettingError("stages is empty; choose 'val', 'test' or both.")
        if inputs is not None and not callable(inputs):
            raise SettingError(
                f"inputs is {describe_type(inputs)}; expected a function (module, batch) -> dict."
            )
        self.evaluator, self.inputs = evaluator, inputs
        self.prog_bar = tuple(self._logged_name(name) for name in read_metrics(prog_bar))
        self.log_std_errors = check_bool("log_std_errors", log_std_errors)
        self.log_slices = check_bool("log_slices", log_slices)
        if log_slices and not evaluator.metric_set.has_slices:
            raise SettingError(
                "log_slices=True needs an evaluator with slices; give the Evaluator slices=."
            )
        self.save_to = None if save_to is None else Path(save_to)
        if self._saves_one_file and len(self.stages) > 1:
            raise SettingError(
                f"save_to={str(save_to)!r} is one file for two stages; give a folder, or "
                "stages='val' or stages='test'."
            )
        self._results: dict[str, Result] = {}
        self._evaluators: dict[str, list[Evaluator]] = {}  # per stage, one per dataloader
        self._latest: tuple[str, ...] = ()
        # A file through which a spawned process returns its results, and its folder.
        self._returned: Path | None = None
        self._folder: TemporaryDirectory[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Prepare a file for the results, if Lightning sends the callback to a new process."""
        if get_spawning_popen() is not None and self._returned is None:
            self._folder = TemporaryDirectory(prefix="weft-")
            self._returned = Path(self._folder.name, "results")
        return {**self.__dict__, "_folder": None}

    def _return_results(self, trainer: Trainer) -> None:
        """Write the results for the process that spawned this one, the owner of the folder."""
        if self._returned is None or self._folder is not None or not trainer.is_global_zero:
            return
        content = (self._results, self._latest)
        write_files({self._returned: lambda file: pickle.dump(content, file)})

    @property
    def results(self) -> dict[str, Result]:
        """The latest Result of each stage and dataloader."""
        if self._folder is not None and self._returned is not None and self._returned.exists():
            results, self._latest = pickle.loads(self._returned.read_bytes())
            self._returned.unlink()
            self._results |= results
        return self._results

    @property
    def result(self) -> Result:
        """The Result of the most recent evaluation."""
        results = self.results
        if not self._latest:
            raise SettingError(
                "nothing has been evaluated yet; run trainer.fit, validate or test first."
            )
        if len(self._latest) > 1:
            raise SettingError(
                "the latest evaluation has several results; use one of results: "
                f"{', '.join(self._latest)}."
            )
        return results[self._latest[0]]

    @property
    def _saves_one_file(self) -> bool:
        return self.save_to is not None and self.save_to.suffix.lower() == ".json"

    def _logged_name(self, name: str) -> str:
        """Return the name under which a metric of the evaluator is logged."""
        known = [str(spec) for spec in self.evaluator.specs]
        profile = self.evaluator.settings.profile
        spelling = name
        if isinstance(name, str) and name not in known:
            with suppress(SettingError):  # an unknown metric is refused below
                spelling = canonical_name(name) if profile is None else profiled_name(name, profile)
        if spelling not in known:
            raise SettingError(
                f"prog_bar has {name!r}, which is not evaluated.{did_you_mean(str(name), known)} "
                f"Evaluated metrics: {', '.join(known)}."
            )
        return str(spelling)

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
                "the evaluator was made with sync_on_compute=False, so each of the "
                f"{trainer.world_size} processes would log different values; remove it."
            )

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        stage = _stage(trainer)
        if stage not in self.stages:
            return
        loaders = len(trainer.num_val_batches if stage == "val" else trainer.num_test_batches)
        if loaders > 1 and self._saves_one_file:
            raise SettingError(
                f"save_to={str(self.save_to)!r} is one file for {loaders} dataloaders; give a "
                "folder."
            )
        if trainer.world_size > 1 and loaders == 1:
            _check_loaders_run(trainer, pl_module)
        self._evaluators[stage] = [self._copy_evaluator(trainer, stage) for _ in range(loaders)]
        for copy in self._evaluators[stage]:
            copy.to(pl_module.device)

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Add a batch, also in the sanity check, where mistakes are detected early."""
        stage = _stage(trainer)
        if stage not in self.stages:
            return
        if self.inputs is None:
            values = _check_inputs(
                outputs, f"{_STEP_METHODS[stage]} returned", "or give EvaluationCallback inputs="
            )
        else:
            values = self._call_inputs(stage, trainer, pl_module, batch)
        evaluator = self._evaluators[stage][dataloader_idx]
        if evaluator.drops_repeats and values.get("user_indices") is None:
            origin = _STEP_METHODS[stage] if self.inputs is None else "inputs"
            raise InputError(
                f"{origin} returned no 'user_indices', so users that a sampler assigns to two "
                "processes would count twice; add it, or create the Evaluator with "
                "repeated_users='count'."
            )
        evaluator.update(
            values["preds"], values["target"], values.get("user_indices"), values.get("items")
        )

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        stage = _stage(trainer)
        if stage not in self.stages or trainer.sanity_checking:
            return
        evaluators = self._evaluators[stage]
        suffixes = [""]
        if len(evaluators) > 1:
            suffixes = [f"/dataloader_idx_{number}" for number in range(len(evaluators))]
        self._latest = tuple(f"{stage}{suffix}" for suffix in suffixes)
        about = {"stage": stage, "epoch": trainer.current_epoch, "step": trainer.global_step}
        for name, suffix, evaluator in zip(self._latest, suffixes, evaluators):
            result = evaluator.compute()
            provenance = {**result.provenance, **about}
            result = replace(result, name=type(pl_module).__name__, provenance=provenance)
            self._results[name] = result
            log_result(
                result,
                suffix,
                pl_module,
                prog_bar=self.prog_bar,
                std_errors=self.log_std_errors,
                slices=self.log_slices,
            )
            self._save(result, suffix, trainer)
            evaluator.reset()  # frees the per-user contributions
        self._return_results(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raise SettingError after the sanity check if the module logs a name of this callback."""
        if not trainer.sanity_checking or "val" not in self.stages:
            return
        names = set(self._names())
        for logged in trainer._results or ():
            name = str(logged).partition(".")[2]
            if name in names:
                raise SettingError(
                    f"the module and the EvaluationCallback would both log {name!r}; remove it "
                    "from the module, or give the evaluator a prefix=."
                )

    on_test_epoch_start = on_validation_epoch_start
    on_test_batch_end = on_validation_batch_end
    on_test_epoch_end = on_validation_epoch_end

    # ----------------------------------------------------------------------------------------------

    def _names(self) -> Iterator[str]:
        return (
            f"{stage}_{self.evaluator.prefix}{spec}{self.evaluator.postfix}"
            for stage in self.stages
            for spec in self.evaluator.specs
        )

    def _copy_evaluator(self, trainer: Trainer, stage: str) -> Evaluator:
        """Return an empty evaluator, which counts each user once if there are several processes."""
        copy = self.evaluator.clone(prefix=f"{stage}_{self.evaluator.prefix}")
        copy.reset()
        if trainer.world_size > 1 and copy.settings.repeated_users is None:
            copy.drop_repeated_users()
        return copy

    def _call_inputs(
        self, stage: str, trainer: Trainer, module: LightningModule, batch: Any
    ) -> Mapping[str, Any]:
        """Return the arguments of `Evaluator.update` from the function `inputs`."""
        assert self.inputs is not None
        plugin = trainer.precision_plugin
        with plugin.val_step_context() if stage == "val" else plugin.test_step_context():
            values = _check_inputs(
                self.inputs(module, batch), "inputs returned", "as Evaluator.update takes them"
            )
        for name in values:
            if name not in _UPDATE_ARGUMENTS:
                hint = did_you_mean(str(name), _UPDATE_ARGUMENTS)
                raise InputError(f"inputs returned {name!r}, which is not known.{hint}")
        return values

    def _save(self, result: Result, suffix: str, trainer: Trainer) -> None:
        if self.save_to is None or not trainer.is_global_zero:
            return
        path = self.save_to
        if not self._saves_one_file:
            stage, epoch, step = (result.provenance[key] for key in ("stage", "epoch", "step"))
            path /= f"{stage}-epoch{epoch}-step{step}{suffix.replace('/', '-')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        result.save(path)


def _stage(trainer: Trainer) -> str:
    """Return "test", or "val" for validation, also inside `fit` and in the sanity check."""
    return "test" if trainer.testing else "val"


def _check_loaders_run(trainer: Trainer, module: LightningModule) -> None:
    """Raise an error if Lightning may skip the evaluation on some of the processes."""
    owners = (module, trainer.datamodule)  # type: ignore[attr-defined, unused-ignore]
    option = "allow_zero_length_dataloader_with_multiple_devices"
    if any(getattr(owner, option, False) for owner in owners):
        raise SettingError(
            f"with {option} Lightning skips the evaluation on a process with an empty dataloader, "
            "and the other processes would wait forever; disable it, and give such a process an "
            "IterableDataset that yields nothing."
        )


def _check_inputs(values: Any, origin: str, hint: str) -> Mapping[str, Any]:
    """Return the dict that a step or `inputs` returned; raise InputError if an entry is missing."""
    expected = "expected a dict with 'preds', 'target' and 'user_indices'"
    if not isinstance(values, Mapping):
        got = "nothing" if values is None else describe_type(values)
        raise InputError(f"{origin} {got}; {expected}, {hint}.")
    for name in ("preds", "target"):
        if values.get(name) is None:
            keys = ", ".join(map(repr, values)) or "nothing"
            raise InputError(
                f"{origin} a dict without {name!r} (it has {keys}); {expected}, {hint}."
            )
    return values
