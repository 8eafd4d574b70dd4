"""Drafts of findings, alternative treatments of the data, and their effects on the metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from weft.data.evaluation_inputs import EvaluationInputs
from weft.data.side_inputs import Kinds
from weft.diagnostics.check_report import Effect, Finding
from weft.diagnostics.reading import RawTable
from weft.errors import MetricError, WeftError, agree
from weft.evaluation.prepared import PreparedEvaluation
from weft.evaluation.result import Result
from weft.evaluation.settings import EvaluationSettings
from weft.metrics.names import MetricSpec

KINDS = ("user", "item")


@dataclass(frozen=True)
class Inputs:
    """The inputs of the evaluation of one model: lists, truth, train, catalogue, side inputs."""

    lists: RawTable
    truth: RawTable
    train: RawTable | None
    items: pl.Series | None
    side: Mapping[str, Any]  # other inputs of metrics
    kinds: Kinds  # of each of them
    has_unknown_items: bool = False  # whether items of lists outside the catalogue stay outside

    @property
    def available(self) -> set[str]:
        """The names of the inputs that exist, as `EvaluationSettings.resolve` takes them."""
        return {"lists", *self.side} | ({"train"} if self.train is not None else set())

    def tables(self) -> dict[str, RawTable]:
        """Return all tables by name."""
        tables = (self.lists, self.truth, self.train)
        return {table.where: table for table in tables if table is not None}

    def map(self, change: Callable[[RawTable], RawTable]) -> Inputs:
        """Return the inputs with a function applied to every table."""
        train = None if self.train is None else change(self.train)
        return replace(self, lists=change(self.lists), truth=change(self.truth), train=train)

    def filter_users(self, users: pl.Series, *, keep: bool) -> Inputs | None:
        """Return the inputs with only some users of lists and truth, or with all others.

        None if the truth then has no users.
        """
        truth = self.truth.filter_users(users, keep=keep)
        if not len(truth.users):
            return None
        return replace(self, lists=self.lists.filter_users(users, keep=keep), truth=truth)

    def for_evaluation(self) -> EvaluationInputs:
        """Return the inputs of an evaluation; the catalogue has every item that occurs, those of
        lists unless `has_unknown_items`.
        """
        items = self.items
        if items is not None:
            tables = [table for table in self.tables().values() if len(table.frame)]
            occurring = (
                table.items
                for table in tables
                if table is not self.lists or not self.has_unknown_items
            )
            items = pl.concat([items, *occurring]).unique(maintain_order=True)
        lists, truth = self.lists.for_evaluation(), self.truth.for_evaluation()
        train = None if self.train is None else self.train.for_evaluation()
        return EvaluationInputs(lists, truth, train, items=items, side=self.side, kinds=self.kinds)

    def evaluate(self, settings: EvaluationSettings) -> tuple[Result | None, list[MetricFailure]]:
        """Return the result, None without metrics, and the metrics that fail on these data.

        Raises `WeftError` for settings that are wrong, and for inputs that cannot be read.
        """
        if not settings.metrics:
            return None, []
        inputs = self.for_evaluation()
        run = PreparedEvaluation(inputs, settings).start(inputs.source)
        try:
            run.run()
            return run.result(), []
        except Exception as error:  # of any metric, also one that is not Weft's own
            if len(settings.metrics) == 1:
                return None, [MetricFailure(settings.metrics[0], tuple(run.classes), error)]
            failures = [
                failure
                for metric in settings.metrics
                for failure in self.evaluate(settings.model_copy(update={"metrics": (metric,)}))[1]
            ]
            if not failures:  # each metric works alone
                raise
        return self.evaluate(leave_metrics_out(settings, failures))[0], failures


@dataclass(frozen=True)
class MetricFailure:
    """A metric as it was requested, its names at all cut-offs, and the error that it raises."""

    metric: Any
    specs: tuple[MetricSpec, ...]
    error: Exception

    def draft(self, where: str) -> DraftFinding:
        """Return the finding about this metric of the model `where`."""
        error: BaseException = self.error
        if isinstance(error, MetricError) and error.__cause__ is not None:
            error = error.__cause__  # without the lines of the author's code
        is_explained = isinstance(error, WeftError)
        reason = str(error) if is_explained else f"{type(error).__name__}: {error}"
        return DraftFinding(
            "failing-metric",
            "error",
            where,
            f"{', '.join(map(str, self.specs))} cannot be evaluated: {reason.rstrip('.')}.",
            1,
            (),
            (),
            "Choose other parameters or metrics, or repair the data; the other findings are "
            "computed without this metric.",
            remark="the metric has no value",
        )


def leave_metrics_out(
    settings: EvaluationSettings, failures: Iterable[MetricFailure]
) -> EvaluationSettings:
    """Return the settings with the metrics that do not fail."""
    failing = [failure.metric for failure in failures]
    metrics = tuple(
        metric for metric in settings.metrics if not any(metric is other for other in failing)
    )
    return settings.model_copy(update={"metrics": metrics})


@dataclass(frozen=True, eq=False)
class Treatment:
    """An alternative evaluation with changed data (`change`) or changed settings.

    Without either, the values are those of the repaired data. `change` returns None if nothing is
    left to evaluate. `names` maps a requested metric to the metric that replaces it.
    """

    name: str
    change: Callable[[Inputs], Inputs | None] = lambda data: data
    settings: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


def leave_users_out(description: str, users: pl.Series) -> Treatment:
    """Return the treatment that removes users from lists and truth."""
    return Treatment(f"without {description}", lambda data: data.filter_users(users, keep=False))


@dataclass(frozen=True)
class DraftFinding:
    """A finding before its effects are evaluated."""

    kind: str
    severity: str
    where: str
    message: str
    count: int
    examples: tuple[Mapping[str, Any], ...]
    treatments: tuple[Treatment, ...]
    fix: str
    remark: str = ""


def draft_finding(
    kind: str,
    severity: str,
    table: RawTable,
    found: pl.DataFrame,
    *,
    message: str,
    fix: str,
    treatments: tuple[Treatment, ...] = (),
    remark: str = "",
) -> DraftFinding | None:
    """Return a finding with one row of `found` for each occurrence, or None if there are none.

    `found` are rows of the table with their number `row`, or other columns to show as examples,
    such as a user and a length. The message is a template of `agree` about their number; for rows
    of the table, it begins with "3 of 24".
    """
    if not len(found):
        return None
    if "row" in found.columns:
        message = f"{{n}} of {table.rows:,} {message}"
    examples = table.examples(found)
    return DraftFinding(
        kind,
        severity,
        table.where,
        agree(len(found), message),
        len(found),
        examples,
        treatments,
        fix,
        remark,
    )


def drop_absent(*drafts: DraftFinding | None) -> list[DraftFinding]:
    """Return the findings that are not None, in order."""
    return [draft for draft in drafts if draft is not None]


class EffectEvaluator:
    """Evaluates treatments and compares them with the repaired data, each treatment once."""

    def __init__(
        self, repaired: Inputs, settings: EvaluationSettings, values: Mapping[str, float]
    ) -> None:
        self._repaired = repaired
        self._settings = settings
        self._values = values
        self._cache: dict[Treatment, Mapping[str, float]] = {}

    def complete(self, draft: DraftFinding) -> Finding:
        """Return the finding with the effects of its treatments."""
        is_error = draft.severity == "error"
        effects = tuple(
            Effect(
                self._repaired.lists.where,
                treatment.name,
                metric,
                None if is_error else self._values[metric],
                treated,
            )
            for treatment in draft.treatments
            for metric, treated in self._values_after(treatment).items()
        )
        remark = draft.remark
        if not remark and not self._values:
            remark = "no metric can be evaluated"
        if not remark and not effects:
            remark = "no users would remain"
        fields = {name: value for name, value in vars(draft).items() if name != "treatments"}
        return Finding(**{**fields, "effects": effects, "remark": remark})

    def _values_after(self, treatment: Treatment) -> Mapping[str, float]:
        """Return the requested metrics after a treatment; none if nothing is left to evaluate."""
        if treatment not in self._cache:
            self._cache[treatment] = self._evaluate(treatment)
        return self._cache[treatment]

    def _evaluate(self, treatment: Treatment) -> Mapping[str, float]:
        data = treatment.change(self._repaired)
        if data is self._repaired and not treatment.settings:
            return self._values
        if data is None or not self._values:
            return {}
        settings = self._settings.model_copy(update=dict(treatment.settings))
        if any(settings.conflicts()):  # the treatment does not apply to these settings
            return {}
        result, _ = data.evaluate(settings)
        values: Mapping[str, float] = {} if result is None else result
        # Metrics that fail after the treatment are undefined.
        names = treatment.names or dict(zip(self._values, self._values))
        return {
            metric: values.get(name, math.nan)
            for metric, name in names.items()
            if metric in self._values
        }


def join_words(parts: list[str]) -> str:
    """Join words into a phrase: `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
