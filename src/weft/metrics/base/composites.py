"""Metrics that combine others. Each component is a `ComponentMetric`, which reads what the run
accumulates and owns no states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import torch
from torch import Tensor

from weft.batch.topk import TopK
from weft.errors import MissingInput, SettingError
from weft.metrics.accumulators import Accumulator
from weft.metrics.base.formulas import SummedMetric, UserAverageTopKMetric, UserMeanMetric
from weft.metrics.base.metric import BaseMetric
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import build_metric, needs_cutoff
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
            raise SettingError(f"{self._owner} combines metrics by their names; got {name!r}.")
        if spec.k is not None:
            raise SettingError(
                f"{self._owner} reads {spec.name} at its own cut-off: write "
                f"'{spec.with_cutoff(None)}' without '@{spec.k}'."
            )
        self._inputs, self._settings = inputs, owner.settings()
        self._needs_cutoff = needs_cutoff(spec.name)
        self._spec = spec
        self._by_cutoff: dict[int | None, Any] = {}
        self.metric: Any = self.at_cutoff(k)
        self._check(self.metric, needs_user_values)

    def _check(self, metric: BaseMetric, needs_user_values: bool) -> None:
        if needs_user_values and not (
            isinstance(metric, UserMeanMetric) and metric.has_user_values
        ):
            raise SettingError(
                f"{self._owner} cannot combine {type(metric).__name__}, which has no value per "
                "user; choose a metric that is a mean over users."
            )
        if not (isinstance(metric, SummedMetric) and metric.is_summed and metric.has_scalar_value):
            raise SettingError(
                f"{self._owner} cannot combine {type(metric).__name__}, which has no single value "
                "that adds up over users."
            )

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
        spec = self._spec.with_cutoff(k)
        try:
            metric = build_metric(spec, inputs=self._inputs, standalone=False, **self._settings)
        except MissingInput as error:
            if self._inputs is not None:
                raise
            reason = str(error).partition(";")[0]
            raise MissingInput(
                f"{reason}; give it to {self._owner} as inputs={{'train': ..., ...}}."
            ) from None
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


class CompositeMetric(UserAverageTopKMetric):
    """A metric that combines others; its properties follow from those of its components."""

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
        metrics = [component.metric for component in self._components]
        self.has_expected_tie_form = all(metric.has_expected_tie_form for metric in metrics)
        self.reads_scores = any(metric.reads_scores for metric in metrics)
        self.needs_all_scores = any(metric.needs_all_scores for metric in metrics)
        self.is_exposure_metric = any(metric.is_exposure_metric for metric in metrics)
        is_biased = any(metric.sampling_behaviour == "candidates" for metric in metrics)
        self.sampling_behaviour = "candidates" if is_biased else "combined"

    def needed_inputs(self) -> Set[str]:
        return frozenset[str]().union(*(one.metric.needed_inputs() for one in self._components))

    def used_gains(self) -> Set[str]:
        return frozenset[str]().union(*(one.metric.used_gains() for one in self._components))

    def own_inputs(self) -> dict[str, Any]:
        inputs: dict[str, Any] = {}
        for component in self._components:
            inputs |= component.metric.own_inputs()
        return inputs
