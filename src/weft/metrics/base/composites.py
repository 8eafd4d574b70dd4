"""Metrics that combine others: each other metric is a `Part`, which borrows what the run adds up
and owns nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from weft.batch.batch import TopK
from weft.errors import MissingInput, SettingError
from weft.metrics.accumulators import Sums, Total
from weft.metrics.base.formulas import SummedMetric, UserMean
from weft.metrics.base.metric import BaseMetric
from weft.metrics.names import Spec, parse
from weft.metrics.registry import build, takes_k


def combined_sampling(parts: Iterable[Part]) -> str:
    """What sampled negatives mean for the combined value."""
    return (
        "candidates"
        if any(part.metric.under_sampling == "candidates" for part in parts)
        else "combined"
    )


class Part:
    """Another metric, read at the cut-offs of its owner. `per_user`: whether it must have a value
    per user.
    """

    def __init__(
        self,
        given: str | Spec,
        owner: BaseMetric,
        k: int,
        *,
        inputs: Mapping[str, Any] | None,
        per_user: bool = False,
    ) -> None:
        self._who = who = type(owner).__name__
        spec = parse(given) if isinstance(given, str) else given
        if not isinstance(spec, Spec):
            raise SettingError(f"{who} combines metrics by their names; got {given!r}.")
        if spec.k is not None:
            raise SettingError(
                f"{who} reads {spec.name} at its own cut-off: write '{spec.at(None)}' without "
                f"'@{spec.k}'."
            )
        self._inputs, self._settings = inputs, owner.settings()
        self._takes_k = takes_k(spec.name)
        self._spec = spec
        self._built: dict[int | None, Any] = {}
        metric = self.at(k)
        if per_user and not (isinstance(metric, UserMean) and metric.has_user_values):
            raise SettingError(
                f"{who} cannot combine {type(metric).__name__}, which has no value per user; "
                "choose a metric that is a mean over users."
            )
        if not (isinstance(metric, SummedMetric) and metric.is_summed and metric.has_value):
            raise SettingError(
                f"{who} cannot combine {type(metric).__name__}, which has no single value that "
                "adds up over users."
            )
        self.metric: Any = metric

    @property
    def name(self) -> str | Spec:
        """The canonical name without a cut-off, as a parameter holds it."""
        found: Spec = self.metric.spec.at(None)
        return found if found.params else found.name

    def at(self, k: int | None) -> Any:
        """The metric that gives the values at a cut-off; mostly it is the same for all."""
        k = k if self._takes_k else None
        if k not in self._built and any(metric.fuses_cutoffs for metric in self._built.values()):
            return self.metric
        if k not in self._built:
            try:
                self._built[k] = build(
                    self._spec.at(k), inputs=self._inputs, alone=False, **self._settings
                )
            except MissingInput as error:
                if self._inputs is not None:
                    raise
                what = str(error).partition(";")[0]
                raise MissingInput(
                    f"{what}; give it to {self._who} as inputs={{'train': ..., ...}}."
                ) from None
        return self._built[k]

    def totals(self, k: int) -> tuple[Total, ...]:
        """What the metric adds up."""
        totals: tuple[Total, ...] = self.at(k).totals()
        return totals

    def value(self, sums: Sums) -> Tensor:
        """The metric's value."""
        value: Tensor = self.at(sums.k).finish(sums)
        return value

    def user_values(self, topk: TopK) -> Tensor:
        """The metric's values per user `[batch, cut-offs]`, shared with all who read them."""
        if not self._takes_k:
            values: Tensor = self.metric.values(topk)
            return values.expand(-1, len(topk.cutoffs))
        if self.metric.fuses_cutoffs:
            fused: Tensor = self.metric.values(topk)
            return fused
        return torch.cat([self.at(k).values(topk.batch.at((k,))) for k in topk.cutoffs], dim=1)
