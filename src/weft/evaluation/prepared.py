"""`PreparedEvaluation`: inputs that are read and checked once, for any number of models."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from weft.data.dataset import DatasetBuilder, GlobalStats
from weft.data.evaluation_inputs import EvaluationInputs
from weft.data.forks import check_fork
from weft.data.row_readers import check_list_frame
from weft.data.sources import ListSource, open_source
from weft.data.team import open_team
from weft.data.threads import count_threads, one_thread
from weft.errors import MissingInput, SettingError, setting_ref
from weft.evaluation.metric_set import MetricClasses
from weft.evaluation.result import Result
from weft.evaluation.runner import EvaluationRun
from weft.evaluation.settings import EvaluationSettings
from weft.metrics.declarations import RUN_FACTS
from weft.metrics.registry import expand_metrics, prototype

if TYPE_CHECKING:
    from weft.evaluation.argument_types import EvaluationSource


class PreparedEvaluation:
    """Inputs and settings on which models are evaluated; returned by `weft.prepare`.

    Several threads can call `evaluate` at the same time.
    """

    def __init__(
        self,
        inputs: EvaluationInputs,
        settings: EvaluationSettings,
        stats: GlobalStats | None = None,
    ) -> None:
        """`stats` are those of all users, if these are some of them."""
        self._inputs, self._settings = inputs, settings
        self._builder = DatasetBuilder(inputs, stats)
        # By whether the source has lists: settings with their defaults, and the metrics.
        self._resolved: dict[bool, tuple[EvaluationSettings, MetricClasses]] = {}

    def read(self) -> None:
        """Check the settings and read the inputs now rather than with the first model."""
        check_fork("these inputs", *self._inputs.others)
        for error in self._settings.conflicts():
            raise error
        _expand_metrics(self._settings, self._inputs)
        _ = self._builder.tables

    def evaluate(self, source: EvaluationSource, *, name: str | None = None) -> Result:
        """Return the result of a model.

        `source` is the model: scores, factors, a function or recommendation lists, as in
        `weft.evaluate`. Scores of all models must be of the same users and items; lists contain
        their own ids. `name` is the name of the model in the result. Raises `InputError` for a
        source that cannot be evaluated.
        """
        run = self.start(source, name=name)
        run.run()
        return run.result()

    @one_thread
    def start(self, source: Any, *, name: str | None = None) -> EvaluationRun:
        """Return the run over all users. None of them is scored yet, except those that a model
        without known items is asked for first.
        """
        inputs = self._inputs
        if inputs.source is not source:
            inputs = replace(inputs, source=source)
        lists = source if inputs.has_lists else None
        settings = self._settings
        options = (settings.per_user or None, settings.slices, settings.item_slices)
        check_fork("these inputs", lists, *inputs.others, *options)
        settings, classes = self._resolve(inputs)
        if name is not None:
            settings = settings.model_copy(
                update={"name": EvaluationSettings.from_options(name=name).name}
            )
        check_list_frame(source)
        if inputs.has_lists and settings.candidates != "listed":
            _check_trait(classes, "needs_all_scores", ALL_SCORES)
        device = None if settings.device is None else _find_device(settings.device)
        with open_team(count_threads(settings.threads)):
            return self._start(source, settings, classes, device)

    def _start(
        self,
        source: Any,
        settings: EvaluationSettings,
        classes: MetricClasses,
        device: torch.device | None,
    ) -> EvaluationRun:
        """Read the source and encode all inputs, on the threads of the present team."""
        source = open_source(source, settings.memory)
        if isinstance(source, ListSource) and not source.table.has_scores:
            _check_trait(
                classes,
                "reads_scores",
                f"{_NO_SCORES}add a column 'score', or give {{user: {{item: score}}}}",
            )
            _check_trait(
                classes,
                "needs_all_scores",
                f"{_NO_SCORES}use a metric of lists, such as LAUC or nDCG",
            )
        return EvaluationRun(self._builder.build(source, settings), settings, classes, device)

    def _resolve(self, inputs: EvaluationInputs) -> tuple[EvaluationSettings, MetricClasses]:
        """Return the settings with every default filled in, and the metrics by name."""
        if inputs.has_lists not in self._resolved:
            settings = self._settings.resolve(inputs.available)
            self._resolved[inputs.has_lists] = settings, _expand_metrics(settings, inputs)
        return self._resolved[inputs.has_lists]


def _expand_metrics(settings: EvaluationSettings, inputs: EvaluationInputs) -> MetricClasses:
    available = {*RUN_FACTS, *inputs.available}
    return expand_metrics(settings.metrics, settings.top_k or (), available=available)


# What metrics need that do not support recommendation lists, for messages.
ALL_SCORES = (
    "the scores of all items, which lists do not have; use a metric of lists, such as LAUC or "
    f"nDCG, or set {setting_ref('candidates', 'listed')} if the lists contain every scored item"
)
_NO_SCORES = "scores, which these lists do not have; "


def _check_trait(classes: MetricClasses, trait: str, need: str) -> None:
    """Raise `MissingInput` for metrics with a trait; `need` is what they need."""
    metrics = {str(spec.with_cutoff(None)): (spec, metric) for spec, metric in classes.items()}
    names = [name for name, metric in metrics.items() if getattr(prototype(*metric), trait)]
    if names:
        raise MissingInput(f"{', '.join(names)} {'need' if len(names) > 1 else 'needs'} {need}.")


def _find_device(device: Any) -> torch.device:
    """Return the device of a setting, with its number. Raises `SettingError` if there is none."""
    shown = str(device) if isinstance(device, torch.device) else device
    try:
        numbered = torch.empty(0, device=device).device
        if numbered.type == "meta":
            raise ValueError("tensors on it have no data")
        return numbered
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise SettingError(
            f"{setting_ref('device', shown)} cannot be used here: {reason}. Without this "
            "setting, the device of the scores is used."
        ) from None
