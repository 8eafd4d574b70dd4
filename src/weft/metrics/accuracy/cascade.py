"""Accuracy of a reader who goes down the list and stops at an item that satisfies."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import torch
from torch import Tensor

from weft.batch.topk import TopK
from weft.metrics.accuracy.base import AccuracyMetric, check_max_grade
from weft.metrics.declarations import MAX_RATING, missing_input_error
from weft.metrics.registry import register
from weft.ranking.positions import ObservedPositions

_CHAPELLE = (
    "Chapelle et al. (2009), Expected reciprocal rank for graded relevance, "
    "doi 10.1145/1645953.1646033"
)


class _CascadeMetric(AccuracyMetric):
    """The common properties of metrics with a product over the hits above each hit."""

    has_expected_tie_form = False
    sampling_behaviour = "candidates"
    reference = _CHAPELLE

    def __init__(
        self,
        k: int,
        *,
        max_grade: float | None = None,
        max_rating: float | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.max_grade = None if max_grade is None else check_max_grade(max_grade)
        if max_grade is None and max_rating is None:
            raise missing_input_error({type(self).__name__: {MAX_RATING}}, {})
        self._max_grade: float = self.max_grade or max_rating or 1.0

    def needed_inputs(self) -> Set[str]:
        return {*super().needed_inputs(), *(() if self.max_grade else (MAX_RATING,))}

    def used_gains(self) -> Set[str]:
        return {"exponential"}

    def reciprocal_rank(self, topk: TopK, positions: ObservedPositions, gains: Tensor) -> Tensor:
        """Return the expected reciprocal rank of items with these gains at these positions."""
        stops = positions.per_position(gains * 2.0**-self._max_grade)
        goes_on = torch.nn.functional.pad((1 - stops).cumprod(1), (1, 0), value=1.0)[:, :-1]
        return topk.sum_positions(stops * goes_on / topk.positions)

    def user_values(self, topk: TopK) -> Tensor:
        batch = topk.batch
        batch.validation.check_max_grade(batch.relevant, self._max_grade)
        return self.reciprocal_rank(topk, batch.observed_positions, batch.gains("exponential"))


@register
class ERR(_CascadeMetric):
    """Expected reciprocal rank: the mean of 1 / p, where p is the position at which a reader stops.

    An item of rating r stops the reader with probability s = (2^r - 1) / 2^max_grade: the sum over
    positions of s_p / p, times the product of 1 - s over the positions above. `max_grade` is the
    highest rating of the scale, by default the highest one of the truth, which the result notes; a
    rating above it is an error. It must be given where batches come one by one.

    Edge cases: a list without a hit counts 0; ties have no closed form and are drawn; a user
    without a relevant item is left out.

    Example: ratings 1 and 2 are at positions 1 and 2, s = 1/4 and 3/4: 1/4 + 3/4 · 3/4 / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.ERR(k=3, max_grade=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 2, 0]]))
    >>> metric.compute()
    tensor(0.5312, dtype=torch.float64)
    """

    example = "ERR(max_grade=5)"


@register
class nERR(_CascadeMetric):  # noqa: N801 - its name in other tools
    """Expected reciprocal rank over that of the best possible list.

    `max_grade` is that of ERR.

    Edge cases: as for ERR.

    Example: ratings 1 and 2 are at positions 1 and 2: (1/4 + 3/4 · 3/4 / 2) / (3/4 + 1/4 · 1/4 /
    2).

    >>> import torch, weft
    >>> metric = weft.metrics.nERR(k=3, max_grade=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 2, 0]]))
    >>> metric.compute()
    tensor(0.6800, dtype=torch.float64)
    """

    example = "nERR(max_grade=5)"

    def user_values(self, topk: TopK) -> Tensor:
        gains, positions = topk.ideal_order("exponential")
        return super().user_values(topk) / self.reciprocal_rank(topk, positions, gains)
