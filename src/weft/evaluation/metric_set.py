"""The metrics of a run, put together: one formula for all cut-offs of a metric, what several of
them add up only once.

From a batch to what it adds, and from the sums of all batches to values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.data import Label, Labels
from weft.errors import InputError, SettingError
from weft.evaluation.bootstrap import Resampler
from weft.evaluation.contributions import ContributionStore
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.resample_weights import Floats
from weft.evaluation.result import SLICE_COLUMNS, frame_schema
from weft.metrics.accumulators import Accumulator, ItemExposure, StateLayout, StateView
from weft.metrics.base.formulas import (
    ComputedValue,
    SummedMetric,
    UserAverageTopKMetric,
    UserMeanMetric,
)
from weft.metrics.base.metric import BaseMetric
from weft.metrics.names import MetricSpec
from weft.metrics.registry import build_metric, expand_metrics

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Group:
    """A metric at all its cut-offs: one formula, evaluated once per batch."""

    metric: SummedMetric
    cutoffs: tuple[int, ...]
    specs: tuple[MetricSpec, ...]


class MetricSet:
    """Metrics by name at their cut-offs, with the inputs that they need and how the run counts.

    `own`: metrics that keep states of their own; all others are formulas over the sums of the
    `layout`. `exposure`: the number of items whose recommendations are counted at every cut-off,
    whether a metric asks for it or not."""

    def __init__(
        self,
        metrics: list[Any],
        cutoffs: list[int],
        *,
        inputs: Mapping[str, Any],
        counting: Mapping[str, Any],
        slices: Mapping[str, Labels],
        exposure: int | None = None,
    ) -> None:
        self.classes = expand_metrics(metrics, cutoffs, available=set(inputs))
        self.specs = tuple(self.classes)
        self.cutoffs = tuple(sorted({spec.k for spec in self.specs if spec.k is not None}))
        self.depth = max(self.cutoffs, default=0)
        self.slices = slices
        self._groups, self.own = self._fuse(inputs, counting)
        found = {spec: group.metric for group in self._groups for spec in group.specs}
        self.formulas = {spec: found[spec] for spec in self.specs if spec in found}
        self._user_means = [
            group
            for group in self._groups
            if isinstance(group.metric, UserMeanMetric) and group.metric.has_user_values
        ]
        self.layout = self._build_layout(exposure)

    def _fuse(
        self, inputs: Mapping[str, Any], counting: Mapping[str, Any]
    ) -> tuple[list[Group], dict[MetricSpec, BaseMetric]]:
        """Formulas over totals, in groups that differ in nothing but the cut-off; and metrics that
        keep states of their own.
        """
        groups: dict[MetricSpec, Group] = {}
        own: dict[MetricSpec, BaseMetric] = {}
        for spec in self.specs:
            group = groups.get(spec.with_cutoff(None))
            if group is not None and spec.k is not None:
                groups[spec.with_cutoff(None)] = Group(
                    group.metric, (*group.cutoffs, spec.k), (*group.specs, spec)
                )
                continue
            metric = build_metric(
                spec, metric_class=self.classes[spec], inputs=inputs, standalone=False, **counting
            )
            if isinstance(metric, SummedMetric) and metric.is_summed:
                key = spec.with_cutoff(None) if metric.supports_all_cutoffs else spec
                groups[key] = Group(metric, () if spec.k is None else (spec.k,), (spec,))
            else:
                own[spec] = build_metric(
                    spec, metric_class=self.classes[spec], inputs=inputs, **counting
                )
        return list(groups.values()), own

    def _build_layout(self, exposure: int | None) -> StateLayout:
        """All that the metrics add up, what several of them need once."""
        wanted: dict[Accumulator, set[int]] = {}
        for group in self._groups:
            for total in group.metric.accumulators():
                wanted.setdefault(total, set()).update(group.cutoffs or (1,))
        if exposure is not None and self.cutoffs:
            wanted.setdefault(ItemExposure(exposure), set()).update(self.cutoffs)
        return StateLayout(wanted, self.slices)

    @property
    def user_columns(self) -> list[MetricSpec]:
        """The metrics that have a value per user, in the order of `user_values`."""
        return [spec for group in self._user_means for spec in group.specs]

    def user_values(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Whether each user is evaluated or has a value in some column, `[batch]`; and the values,
        `[batch, columns]`.
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
    def wants_dense(self) -> bool:
        """Whether a metric is handed blocks of `[batch, items]`, as authors' metrics are."""
        formulas = [
            group.metric
            for group in self._groups
            if isinstance(group.metric, UserAverageTopKMetric)
        ]
        return len(self.own) > 0 or any(
            type(metric).user_values is UserAverageTopKMetric.user_values for metric in formulas
        )

    @property
    def needs(self) -> set[str]:
        """The inputs that some metric looks at."""
        return set[str]().union(
            *(metric.needed_inputs() for metric in (*self.formulas.values(), *self.own.values()))
        )

    def names_of(self, holds: Callable[[BaseMetric], bool]) -> list[str]:
        """The metrics, without their cut-offs, for which something holds."""
        metrics: dict[MetricSpec, BaseMetric] = {**self.formulas, **self.own}
        return list(
            dict.fromkeys(
                str(spec.with_cutoff(None)) for spec, metric in metrics.items() if holds(metric)
            )
        )

    # ---------------------------------------------------------------------------------------------

    def values(self, read: Callable[[int | None], StateView]) -> Iterator[MetricValue]:
        """All values, from the sums of the layout (`StateLayout.view`) and the states of metrics that
        have their own.
        """
        for spec in self.specs:
            metric: BaseMetric
            cells: Mapping[tuple[Label, ...], Tensor] = {}
            if spec in self.formulas:
                metric = formula = self.formulas[spec]
                reading, cells = formula.summarize(read(spec.k)), formula.label_values(read(spec.k))
            else:
                metric = self.own[spec]
                reading = _read_own(spec, metric)
            about: dict[str, Any] = {
                "higher_is_better": type(metric).higher_is_better,
                "target": type(metric).target,
            }
            name = str(spec.with_cutoff(None))
            if reading.value is not None:
                value = _finite(spec, metric, reading.value)
                yield MetricValue(
                    name,
                    spec.k,
                    value,
                    reading.std_error,
                    reading.users,
                    **about,
                    parts=reading.parts,
                )
                about = {}  # the rates behind a value have no direction of their own
            for labels, cell in cells.items():
                yield MetricValue(
                    name, spec.k, _finite(spec, metric, cell), cell=tuple(map(str, labels)), **about
                )

    def by_slice(self, sums: Tensor) -> pl.DataFrame:
        """The metrics with a value per user, by group."""
        import polars as pl

        rows = []
        formulas = [
            (spec, one)
            for spec, one in self.formulas.items()
            if isinstance(one, UserMeanMetric) and one.has_user_values
        ]
        for name, labels in self.slices.items():
            for group, label in enumerate(labels.names):
                read = self.layout.view(self.layout.select_group(sums, name, group))
                for spec, formula in formulas:
                    found = formula.summarize(read(spec.k))
                    assert found.value is not None
                    value = MetricValue(
                        str(spec.with_cutoff(None)),
                        spec.k,
                        _finite(spec, formula, found.value),
                        found.std_error,
                        found.users,
                    )
                    rows.append(
                        (
                            name,
                            str(label),
                            *(getattr(value, column) for column in SLICE_COLUMNS[2:]),
                        )
                    )
        return pl.DataFrame(rows, schema=frame_schema("slices"), orient="row")

    def resample(
        self,
        kept: ContributionStore | None,
        values: tuple[MetricValue, ...],
        number: int,
        seed: int,
    ) -> dict[str, tuple[Floats, float]]:
        """What each value is in every resample of the users, and its acceleration, by name. Nothing
        for fewer than two users.
        """
        formulas = self.formulas
        means = {
            str(spec): self._column(spec, formula)
            for spec, formula in formulas.items()
            if _is_mean(formula)
        }
        named = set(map(str, formulas))
        others = [
            value.name for value in values if value.name not in means and value.plain_name in named
        ]
        if kept is None or kept.users < 2:
            return {}

        def read_others(sums: Tensor) -> Floats:
            read = self.layout.view(sums)
            found: list[Tensor] = []
            for spec, formula in formulas.items():
                if formula.has_scalar_value and not _is_mean(formula):
                    found.append(formula.compute_value(read(spec.k)))
                found += formula.label_values(read(spec.k)).values()
            return np.array([float(value) for value in found])

        resampling = Resampler(kept, self.layout, read_others, len(others))
        of_means, of_others = resampling.resample(number, seed)
        bent_means, bent_others = resampling.accelerations()
        found = {
            name: (of_means[:, column], float(bent_means[column])) for name, column in means.items()
        }
        return found | {
            name: (of_others[:, place], float(bent_others[place]))
            for place, name in enumerate(others)
        }

    def _column(self, spec: MetricSpec, formula: SummedMetric) -> int:
        """Where the mean of a metric at its cut-off lies in the table of means."""
        total = formula.accumulators()[0]
        cutoffs = self.layout.cutoffs[total]
        first: int = self.layout.columns(total).start
        return first + (cutoffs.index(spec.k) if total.has_cutoffs and spec.k is not None else 0)


def _read_own(spec: MetricSpec, metric: BaseMetric) -> ComputedValue:
    # The plain method: TorchMetrics' wrapper counts update() calls, and this metric was fed by
    # accumulate().
    value = torch.as_tensor(type(metric).compute(metric))
    if value.numel() != 1:
        raise SettingError(
            f"{spec} computed a value of shape {list(value.shape)}; expected one number."
        )
    users = metric.num_users_counted()
    return ComputedValue(value, users=None if users is None else int(users))


def _is_mean(metric: SummedMetric) -> bool:
    return isinstance(metric, UserMeanMetric) and metric.is_user_mean


def _finite(spec: MetricSpec, metric: BaseMetric, value: Tensor) -> float:
    """A value that is a number or undefined, never infinite."""
    number = float(value)
    if not math.isinf(number):
        return number
    if metric.reads_scores:
        raise InputError(
            f"{spec} is infinite: the scores or ratings are too large to compute with; rescale "
            "them."
        )
    raise InputError(
        f"{spec} is infinite: a division by zero, or ratings too large for the gain 2^r - 1. "
        "A metric's undefined values must be NaN; for large ratings use gain=linear, or rescale "
        "them."
    )
