"""Metrics that combine others: each other metric is a `Part`, which borrows what the run adds up
and owns nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from weft.batch.topk import TopK
from weft.errors import MissingInput, SettingError
from weft.metrics.accumulators import Accumulator, StateView
from weft.metrics.base.formulas import SummedMetric, UserMeanMetric
from weft.metrics.base.metric import BaseMetric
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import build_metric, needs_cutoff


def combined_sampling_behaviour(parts: Iterable[ComponentMetric]) -> str:
    """What sampled negatives mean for the combined value."""
    return (
        "candidates"
        if any(part.metric.sampling_behaviour == "candidates" for part in parts)
        else "combined"
    )


class ComponentMetric:
    """Another metric, read at the cut-offs of its owner. `user_values`: whether it must have a value
    per user.
    """

    def __init__(
        self,
        given: str | MetricSpec,
        owner: BaseMetric,
        k: int,
        *,
        inputs: Mapping[str, Any] | None,
        per_user: bool = False,
    ) -> None:
        self._who = who = type(owner).__name__
        spec = parse_name(given) if isinstance(given, str) else given
        if not isinstance(spec, MetricSpec):
            raise SettingError(f"{who} combines metrics by their names; got {given!r}.")
        if spec.k is not None:
            raise SettingError(
                f"{who} reads {spec.name} at its own cut-off: write '{spec.with_cutoff(None)}' "
                f"without '@{spec.k}'."
            )
        self._inputs, self._settings = inputs, owner.settings()
        self._takes_k = needs_cutoff(spec.name)
        self._spec = spec
        self._built: dict[int | None, Any] = {}
        metric = self.at(k)
        if per_user and not (isinstance(metric, UserMeanMetric) and metric.has_user_values):
            raise SettingError(
                f"{who} cannot combine {type(metric).__name__}, which has no value per user; "
                "choose a metric that is a mean over users."
            )
        if not (isinstance(metric, SummedMetric) and metric.is_summed and metric.has_scalar_value):
            raise SettingError(
                f"{who} cannot combine {type(metric).__name__}, which has no single value that "
                "adds up over users."
            )
        self.metric: Any = metric

    @property
    def name(self) -> str | MetricSpec:
        """The canonical name without a cut-off, as a parameter holds it."""
        found: MetricSpec = self.metric.spec.with_cutoff(None)
        return found if found.params else found.name

    def at(self, k: int | None) -> Any:
        """The metric that gives the values at a cut-off; mostly it is the same for all."""
        k = k if self._takes_k else None
        if k not in self._built and any(
            metric.supports_all_cutoffs for metric in self._built.values()
        ):
            return self.metric
        if k not in self._built:
            try:
                self._built[k] = build_metric(
                    self._spec.with_cutoff(k),
                    inputs=self._inputs,
                    standalone=False,
                    **self._settings,
                )
            except MissingInput as error:
                if self._inputs is not None:
                    raise
                what = str(error).partition(";")[0]
                raise MissingInput(
                    f"{what}; give it to {self._who} as inputs={{'train': ..., ...}}."
                ) from None
        return self._built[k]

    def accumulators(self, k: int) -> tuple[Accumulator, ...]:
        """What the metric adds up."""
        totals: tuple[Accumulator, ...] = self.at(k).accumulators()
        return totals

    def value(self, sums: StateView) -> Tensor:
        """The metric's value."""
        value: Tensor = self.at(sums.k).compute_value(sums)
        return value

    def user_values(self, topk: TopK) -> Tensor:
        """The metric's values per user `[batch, cut-offs]`, shared with all who read them."""
        if not self._takes_k:
            values: Tensor = self.metric.values(topk)
            return values.expand(-1, len(topk.cutoffs))
        if self.metric.supports_all_cutoffs:
            fused: Tensor = self.metric.values(topk)
            return fused
        return torch.cat(
            [self.at(k).values(topk.batch.at_cutoffs((k,))) for k in topk.cutoffs], dim=1
        )
