"""Metrics that combine others. They read what the run accumulates for their components, which own
no states.

`CompositeMetric` is the base of built-in metrics that combine others at their own cut-off;
`weft.metrics.base.composite_formula` has those with a formula of the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, TypeGuard

import torch
from torch import Tensor

from weft._input_kinds import InputKind
from weft.batch.topk import TopK
from weft.errors import MissingInput, SettingError, UnknownMetric
from weft.metrics.accumulators import Accumulator
from weft.metrics.arithmetic import CompositeSpec
from weft.metrics.base.formulas import UserAverageTopKMetric, UserMeanMetric
from weft.metrics.base.metric import BaseMetric
from weft.metrics.base.summed import SummedMetric
from weft.metrics.declarations import merge_kinds, without_metrics
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import build_metric, find_metric, needs_cutoff
from weft.metrics.state_layout import StateView


class ComponentMetric:
    """Another metric, read at the cut-offs of its owner.

    Raises `SettingError` for a metric that cannot be combined; with `needs_user_values` it must be
    a mean over users."""

    def __init__(
        self,
        name: str | MetricSpec,
        owner: BaseMetric,
        *,
        k: int,
        inputs: Mapping[str, Any] | None,
        needs_user_values: bool = False,
    ) -> None:
        self._owner = type(owner).__name__
        spec = parse_name(name) if isinstance(name, str) else name
        if not isinstance(spec, MetricSpec):
            raise SettingError(
                f"{self._owner} got the component {name!r}; expected the name of a metric."
            )
        if spec.k is not None:
            raise SettingError(
                f"{self._owner} evaluates {spec.name} at the cut-off of {self._owner}; write "
                f"'{spec.with_cutoff(None)}' without '@{spec.k}'."
            )
        self._inputs, self._settings = inputs, owner.settings()
        self._needs_cutoff = needs_cutoff(spec.name)
        self._spec = spec
        self._by_cutoff: dict[int | None, Any] = {}
        self.metric: Any = self.at_cutoff(k)
        if isinstance(spec, CompositeSpec):
            raise SettingError(
                f"{self._owner} cannot combine the composite {spec}; combine all metrics in one "
                "weft.Composite."
            )
        check_component(self.metric, owner=self._owner, needs_user_values=needs_user_values)

    @property
    def name(self) -> str | MetricSpec:
        """The canonical name without a cut-off, as a parameter holds it."""
        spec: MetricSpec = self.metric.spec.with_cutoff(None)
        return spec if spec.params else spec.name

    def at_cutoff(self, k: int | None) -> Any:
        """Return the metric object for a cut-off; most metrics have one for all cut-offs."""
        k = k if self._needs_cutoff else None
        if k in self._by_cutoff:
            return self._by_cutoff[k]
        if any(metric.supports_all_cutoffs for metric in self._by_cutoff.values()):
            return self.metric
        metric = build_component(
            self._spec.with_cutoff(k), owner=self._owner, inputs=self._inputs, **self._settings
        )
        self._by_cutoff[k] = metric
        return metric

    def accumulators(self, k: int) -> tuple[Accumulator, ...]:
        """Return the accumulators of the metric."""
        accumulators: tuple[Accumulator, ...] = self.at_cutoff(k).accumulators()
        return accumulators

    def value(self, state: StateView) -> Tensor:
        """Return the value of the metric."""
        value: Tensor = self.at_cutoff(state.k).compute_value(state)
        return value

    def user_values(self, topk: TopK) -> Tensor:
        """Return the values per user `[batch, cut-offs]`, shared with other metrics of the run."""
        values: Tensor
        if self._needs_cutoff and not self.metric.supports_all_cutoffs:
            columns = [
                self.at_cutoff(k).shared_user_values(topk.batch.at_cutoffs((k,)))
                for k in topk.cutoffs
            ]
            return torch.cat(columns, dim=1)
        values = self.metric.shared_user_values(topk)
        return values if self._needs_cutoff else values.expand(-1, len(topk.cutoffs))


def build_component(
    spec: MetricSpec, *, owner: str, inputs: Mapping[str, Any] | None, **settings: Any
) -> Any:
    """Return a component without states; raises `MissingInput` if it needs further inputs."""
    try:
        return build_metric(spec, inputs=inputs, standalone=False, **settings)
    except MissingInput as error:
        reason, instruction, _ = str(error).partition("; give ")
        if inputs is not None or not instruction:  # max_grade is a parameter, not an input
            raise
        raise MissingInput(
            f"{reason}; give it to {owner} as inputs={{'train': ..., ...}}."
        ) from None


def adds_up(metric: object) -> TypeGuard[SummedMetric]:
    """Return True for a metric with a single value that adds up over users."""
    return isinstance(metric, SummedMetric) and metric.is_summed and metric.has_scalar_value


def is_combinable(metric: object) -> TypeGuard[SummedMetric]:
    """Return True for a metric that can be part of a composite, which builds it by its name."""
    return adds_up(metric) and find_class(metric.spec.name) is type(metric)


def find_class(name: str) -> type[BaseMetric] | None:
    """Return the metric class of a name, None if there is none."""
    try:
        return find_metric(name)
    except UnknownMetric:
        return None


def check_component(metric: BaseMetric, *, owner: str, needs_user_values: bool = False) -> None:
    """Raise `SettingError` for a metric that cannot be combined."""
    if needs_user_values and not (isinstance(metric, UserMeanMetric) and metric.has_user_values):
        raise SettingError(
            f"{owner} cannot combine {type(metric).__name__}, which has no value per user; choose "
            "a metric that is a mean over users."
        )
    if not adds_up(metric):
        raise SettingError(
            f"{owner} cannot combine {type(metric).__name__}, which has no single value that is "
            "computed from sums over users; choose another metric."
        )


class CombinedMetric(SummedMetric):
    """A metric with properties that follow from those of its components."""

    @property
    def components(self) -> list[Any]:
        """The metrics that are combined."""
        raise NotImplementedError

    def _adopt_properties(self) -> None:
        metrics = self.components
        self.has_expected_tie_form = all(metric.has_expected_tie_form for metric in metrics)
        self.reads_scores = any(metric.reads_scores for metric in metrics)
        self.needs_all_scores = any(metric.needs_all_scores for metric in metrics)
        self.reads_judgements = any(metric.reads_judgements for metric in metrics)
        self.reads_history = any(metric.reads_history for metric in metrics)
        self.is_exposure_metric = any(metric.is_exposure_metric for metric in metrics)
        self.is_item_statistic = any(metric.is_item_statistic for metric in metrics)
        is_biased = any(metric.sampling_behaviour == "candidates" for metric in metrics)
        self.sampling_behaviour = "candidates" if is_biased else "combined"

    def needed_inputs(self) -> Set[str]:
        return frozenset[str]().union(*(metric.needed_inputs() for metric in self.components))

    def missing_inputs(self, available: Set[str]) -> Set[str]:
        return frozenset[str]().union(*(one.missing_inputs(available) for one in self.components))

    def declared_inputs(self) -> Mapping[str, InputKind]:
        kinds: dict[str, tuple[str, InputKind]] = {}
        for metric in self.components:
            merge_kinds(kinds, type(metric).__name__, metric.declared_inputs())
        return without_metrics(kinds)

    def used_gains(self) -> Set[str]:
        return frozenset[str]().union(*(metric.used_gains() for metric in self.components))

    def own_inputs(self) -> dict[str, Any]:
        inputs: dict[str, Any] = {}
        for metric in self.components:
            inputs |= metric.own_inputs()
        return inputs


class CompositeMetric(CombinedMetric, UserAverageTopKMetric):
    """A metric that combines others at its own cut-off."""

    _components: list[ComponentMetric]

    def _set_components(
        self,
        names: Iterable[str | MetricSpec],
        *,
        k: int,
        inputs: Mapping[str, Any] | None,
        needs_user_values: bool,
    ) -> None:
        self._components = [
            ComponentMetric(name, self, k=k, inputs=inputs, needs_user_values=needs_user_values)
            for name in names
        ]
        self._adopt_properties()

    @property
    def components(self) -> list[Any]:
        return [component.metric for component in self._components]
