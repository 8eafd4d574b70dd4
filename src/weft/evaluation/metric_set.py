"""`MetricSet`: the metrics of a run, with shared accumulators and one formula for all cut-offs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.data import Labels
from weft.data.forks import check_fork
from weft.data.truth_groups import TruthGroups
from weft.errors import InputError
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import SLICE_COLUMNS, frame_schema
from weft.evaluation.state import MetricStates
from weft.metrics.accumulators import Accumulator, ItemExposure
from weft.metrics.base.formulas import UserAverageMetric, UserMeanMetric
from weft.metrics.base.identity import check_no_children
from weft.metrics.base.metric import BaseMetric
from weft.metrics.base.summed import ComputedValue, SummedMetric
from weft.metrics.base.value_labels import read_values
from weft.metrics.names import MetricSpec
from weft.metrics.registry import build_metric
from weft.metrics.state_layout import NO_CUTOFF, StateLayout, StateView
from weft.metrics.truth_group_sums import GroupOfTruthSums

if TYPE_CHECKING:
    import polars as pl


MetricClasses = Mapping[MetricSpec, type[BaseMetric]]


@dataclass(frozen=True)
class MetricGroup:
    """A metric at all its cut-offs: one formula, evaluated once per batch."""

    metric: SummedMetric
    cutoffs: tuple[int, ...]
    specs: tuple[MetricSpec, ...]


class MetricSet:
    """The metrics of a run, each at its cut-offs.

    `classes` are the metrics with their cut-offs, `inputs` the inputs of the run by name,
    `counting` the settings that all metrics share. `stateful` metrics own states; all others are
    formulas over the sums of the `layout`. `exposure` is the number of items with recommendations
    counted at every cut-off, None if they are counted only for metrics that need it.
    With `skill`, accuracy metrics have a floor and a ceiling.
    """

    def __init__(
        self,
        classes: MetricClasses,
        *,
        inputs: Mapping[str, Any],
        counting: Mapping[str, Any],
        slices: Mapping[str, Labels],
        item_slices: Mapping[str, TruthGroups] | None = None,
        exposure: int | None = None,
        skill: bool = False,
    ) -> None:
        self.classes = classes
        self.specs = tuple(classes)
        self.slices, self.item_slices = slices, item_slices or {}
        # Names without cut-offs, and the classes of these names.
        self.names: dict[MetricSpec, str] = {}
        self.classes_by_name: dict[str, type[BaseMetric]] = {}
        self.formulas: dict[MetricSpec, SummedMetric] = {}
        self.stateful: dict[MetricSpec, BaseMetric] = {}
        self._groups: dict[MetricSpec, MetricGroup] = {}
        self.needs: set[str] = set()  # inputs that some metric reads
        for spec, metric_class in classes.items():
            self._add_metric(spec, metric_class, inputs, counting)
        cutoffs = {spec.k for spec in self.specs if spec.k is not None}
        cutoffs = cutoffs.union(*(metric.cutoffs for metric in self.formulas.values()))
        self.cutoffs = tuple(sorted(cutoffs))
        self.depth = max(self.cutoffs, default=0)
        self.counts_ranks = any(metric.needs_all_scores for metric in self.formulas.values())
        self._has_skill = skill
        self.layout = self._build_layout(exposure)

    def _add_metric(
        self,
        spec: MetricSpec,
        metric_class: type[BaseMetric],
        inputs: Mapping[str, Any],
        counting: Mapping[str, Any],
    ) -> None:
        """Build a metric, or add a cut-off to the formula that computes all cut-offs."""
        base = spec.with_cutoff(None)
        self.names[spec] = name = str(base)
        self.classes_by_name[name] = metric_class
        group = self._groups.get(base)
        if group is not None and group.cutoffs and spec.k is not None:
            self.formulas[spec] = group.metric
            self._groups[base] = MetricGroup(
                group.metric, (*group.cutoffs, spec.k), (*group.specs, spec)
            )
            return
        metric = build_metric(
            spec, metric_class=metric_class, inputs=inputs, standalone=False, **counting
        )
        if not metric_class.__module__.startswith("weft."):
            check_no_children(metric)
        self.needs |= metric.needed_inputs() | (metric.declared_inputs().keys() & inputs.keys())
        if isinstance(metric, SummedMetric) and metric.is_summed:
            self.formulas[spec] = metric
            key = base if metric.supports_all_cutoffs else spec
            self._groups[key] = MetricGroup(metric, () if spec.k is None else (spec.k,), (spec,))
        else:
            self.stateful[spec] = build_metric(
                spec, metric_class=metric_class, inputs=inputs, is_shared=True, **counting
            )

    def _build_layout(self, exposure: int | None) -> StateLayout:
        """Return the layout of all accumulators; those shared by several metrics occur once."""
        cutoffs: dict[Accumulator, set[int]] = {}
        for group in self._groups.values():
            needed = group.metric.accumulator_cutoffs(group.cutoffs)
            if self._has_skill:
                columns = set(group.cutoffs) or {NO_CUTOFF}
                needed |= dict.fromkeys(_reference_sums(group.metric), columns)
            needed |= self._truth_group_sums(group)
            for accumulator, own in needed.items():
                cutoffs.setdefault(accumulator, set()).update(own)
        if exposure is not None and self.cutoffs:
            cutoffs.setdefault(ItemExposure(exposure), set()).update(self.cutoffs)
        return StateLayout(cutoffs, self.slices)

    def _truth_group_sums(self, group: MetricGroup) -> dict[Accumulator, set[int]]:
        """Return the accumulators of a metric for all groups of item slices, with its cut-offs."""
        metric = group.metric
        if not isinstance(metric, UserMeanMetric) or not metric.has_truth_groups:
            return {}
        columns = set(group.cutoffs) or {NO_CUTOFF}
        return {
            GroupOfTruthSums(metric.mean_sums.key, metric, name, number, groups): columns
            for name, groups in self.item_slices.items()
            for number in range(len(groups.names))
        }

    @property
    def has_slices(self) -> bool:
        """True if there are slices of users or of relevant items."""
        return bool(self.slices or self.item_slices)

    @property
    def is_shareable(self) -> bool:
        """True if several runs can use the metrics: none keeps anything of a run."""
        modules = (metric.__module__ for metric in self.classes.values())
        return not self.stateful and all(module.startswith("weft.") for module in modules)

    @cached_property
    def _user_means(self) -> list[MetricGroup]:
        """The metrics that have a value per user."""
        return [
            group
            for group in self._groups.values()
            if isinstance(group.metric, UserMeanMetric) and group.metric.has_user_values
        ]

    @property
    def user_columns(self) -> list[MetricSpec]:
        """The metrics that have a value per user, in the order of `user_values`."""
        return [spec for group in self._user_means for spec in group.specs]

    def user_values(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return `[batch]` whether each user belongs in the per-user table, and the values
        `[batch, columns]`.

        Users do if they are evaluated or have a value in some column.
        """
        columns = [batch.truth.values.new_empty((batch.size, 0))]
        for group in self._user_means:
            assert isinstance(group.metric, UserMeanMetric)
            cutoffs = self.layout.cutoffs[group.metric.accumulators()[0]]
            values = group.metric.averaged_values(batch.at_cutoffs(cutoffs))
            columns += [values[:, cutoffs.index(k), None] for k in group.cutoffs or (1,)]
        table = torch.cat(columns, dim=1)
        return (batch.relevant.lengths > 0) | (~torch.isnan(table)).any(1), table

    @property
    def needs_dense_blocks(self) -> bool:
        """True if a metric needs blocks of `[batch, items]`, as metrics of users' own may."""
        return len(self.stateful) > 0 or any(
            isinstance(group.metric, UserAverageMetric) and group.metric.takes_blocks()
            for group in self._groups.values()
        )

    @property
    def gains(self) -> dict[str, list[str]]:
        """The names, without cut-offs, of the metrics that read ratings as gains, by gain."""
        by_gain: dict[str, dict[str, None]] = {}
        for spec, metric in self.formulas.items():
            for gain in metric.used_gains() - {"binary"}:
                by_gain.setdefault(gain, {})[self.names[spec]] = None
        return {gain: list(names) for gain, names in sorted(by_gain.items())}

    def select_names(self, predicate: Callable[[BaseMetric], bool]) -> list[str]:
        """Return the names, without cut-offs, of the metrics for which the predicate is true."""
        metrics: dict[MetricSpec, BaseMetric] = {**self.formulas, **self.stateful}
        names = [self.names[spec] for spec, metric in metrics.items() if predicate(metric)]
        return list(dict.fromkeys(names))

    # ---------------------------------------------------------------------------------------------

    def values(
        self,
        view_at: Callable[[int | None], StateView],
        metric_states: Sequence[MetricStates] = (),
    ) -> Iterator[MetricValue]:
        """Yield all values, from a view of the sums and from the states of stateful metrics."""
        states = dict(zip(self.stateful, metric_states))
        for spec, name in self.names.items():
            metric: BaseMetric
            references = (math.nan, math.nan)
            if spec in self.formulas:
                metric = formula = self.formulas[spec]
                view = view_at(spec.k)
                computed = formula.summarize(view)
                if self._has_skill:
                    references = _read_references(formula, view)
            else:
                metric = self.stateful[spec]
                computed = _compute_stateful(metric, states[spec])
            about: dict[str, Any] = {
                "higher_is_better": metric.higher_is_better,
                "target": type(metric).target,
            }
            if computed.value is not None:
                yield MetricValue(
                    name,
                    spec.k,
                    _check_finite(spec, metric, computed.value),
                    computed.std_error,
                    computed.users,
                    **about,
                    parts=computed.parts,
                    by_power=computed.by_power,
                    floor=references[0],
                    ceiling=references[1],
                )
                about = {}  # the values by label of a scalar have no direction of their own
            for labels, value in computed.by_label.items():
                number = _check_finite(spec, metric, value)
                yield MetricValue(name, spec.k, number, cell=tuple(map(str, labels)), **about)

    def by_slice(self, sums: Tensor) -> pl.DataFrame:
        """Return `Result.slices`: the metrics with a value per user by group of users, then those
        that have one by group of relevant items.
        """
        import polars as pl

        check_fork("a table of slices")
        rows: list[tuple[Any, ...]] = []
        means = [
            (spec, formula)
            for spec, formula in self.formulas.items()
            if isinstance(formula, UserMeanMetric) and formula.has_user_values
        ]
        for name, labels in self.slices.items():
            for group, label in enumerate(labels.names):
                table = self.layout.select_group(sums, name, group=group)
                rows += self._slice_rows((name, str(label)), table, means)
        means = [(spec, formula) for spec, formula in means if formula.has_truth_groups]
        for name, groups in self.item_slices.items():
            for group, label in enumerate(groups.names):
                table = self.layout.select_truth_group(sums, name, group=group)
                rows += self._slice_rows((name, str(label)), table, means)
        return pl.DataFrame(rows, schema=frame_schema("slices"), orient="row")

    def _slice_rows(
        self, group: tuple[str, str], table: Tensor, means: list[tuple[MetricSpec, UserMeanMetric]]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a group in `Result.slices`, from its mean table."""
        view_at = self.layout.view(table)
        for spec, formula in means:
            computed = formula.summarize(view_at(spec.k))
            assert computed.value is not None
            value = MetricValue(
                self.names[spec],
                spec.k,
                _check_finite(spec, formula, computed.value),
                computed.std_error,
                computed.users,
            )
            yield (*group, *(getattr(value, column) for column in SLICE_COLUMNS[2:]))


def _compute_stateful(metric: BaseMetric, states: MetricStates) -> ComputedValue:
    """Return the value of a metric for some states; the metric keeps its own."""
    # A copy, because an interrupt could come before the metric has its own states again.
    other = object.__new__(type(metric))
    other.__dict__.update(metric.__dict__)
    other.restore(states)
    # The undecorated method: TorchMetrics' wrapper warns unless update() was called, but batches
    # were added by accumulate().
    values = read_values(metric, type(metric).compute(other), "compute")
    users = other.num_users_counted()
    return ComputedValue(
        values.pop((), None), users=None if users is None else int(users), by_label=values
    )


def _check_finite(spec: MetricSpec, metric: BaseMetric, value: Tensor) -> float:
    """Return the value as a float. Raises `InputError` if it is infinite."""
    number = float(value)
    if not math.isinf(number):
        return number
    if metric.reads_scores:
        raise InputError(f"{spec} is infinite: the scores or ratings are too large; rescale them.")
    raise InputError(
        f"{spec} is infinite: a division by zero, or ratings too large for the gain 2^r - 1. "
        "A metric's undefined values must be NaN; for large ratings use gain=binary or "
        "gain=linear, rescale them, or ignore them with the setting implicit."
    )


def _reference_sums(metric: SummedMetric) -> Sequence[Accumulator]:
    """Return the accumulators of the floor and the ceiling of a metric, if it has them."""
    return (isinstance(metric, UserMeanMetric) and metric.reference_sums) or ()


def _read_references(formula: SummedMetric, view: StateView) -> tuple[float, float]:
    """Return the floor and the ceiling of a metric; NaN if it has none."""
    references = _reference_sums(formula)
    if not references:
        return math.nan, math.nan
    floor, ceiling = (view[sums] for sums in references)
    return float(floor[2] / floor[1]), float(ceiling[2] / ceiling[1])
