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
    r"""Expected reciprocal rank: the expected value of 1 / p, where p is the position at which the
    user stops reading the list.

    Formula: \mathrm{ERR}_u = \sum_{p=1}^{|L_u|} \frac{\theta_p}{p} \prod_{q=1}^{p-1} (1 -
    \theta_q), \qquad \theta_p = \frac{2^{r_{u i_p}} - 1}{2^{r_{\max}}}

    θ_p is the probability that the user stops at the item of position p; it is 0 for an item that
    is not relevant. r_max is the highest rating of the scale.

    Parameters:
        max_grade: Highest rating of the scale, r_max, a number above 0. By default, it is the
            highest rating of the truth, and the result notes it. It is required if the whole truth
            is not known in advance, that is, if batches are passed one by one. A rating above it is
            an error.

    Use: it models a user who reads from the top and is satisfied by one highly rated item, so that
    items below a very relevant one count little. It needs graded ratings on a known scale; with
    binary relevance use MRR or nDCG. Set `max_grade` to the top of the scale, since the default
    depends on the data and makes values of different data sets incomparable. Use nDCG if users want
    many relevant items.

    Related: nERR, MRR, nDCG, RBP, ERR_IA.

    Edge cases: a list without a hit counts 0; with `ties="expected"` ties are broken at random,
    because there is no closed form; users without a relevant item are excluded.

    Example: ratings 1 and 2 are at positions 1 and 2, with stopping probabilities of 1/4 and 3/4:
    1/4 + 3/4 · 3/4 / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.ERR(k=3, max_grade=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 2, 0]]))
    >>> metric.compute()
    tensor(0.5312, dtype=torch.float64)
    """

    example = "ERR(max_grade=5)"


@register
class nERR(_CascadeMetric):  # noqa: N801 - its name in other tools
    r"""Normalized expected reciprocal rank: ERR divided by that of the best possible list.

    Formula: \mathrm{nERR}_u = \frac{\mathrm{ERR}_u} {\sum_{p=1}^{\min(|R_u|, k)}
    \frac{\theta^*_p}{p} \prod_{q=1}^{p-1} (1 - \theta^*_q)}

    θ*_p is the stopping probability of ERR for the p-th highest rating of the user.

    Parameters:
        max_grade: As in ERR.

    Use: it makes ERR comparable between users and data sets, since a perfect list reaches 1 for
    every user. Use ERR to compare with published results, which mostly report the value without
    normalization, and nDCG if users want many relevant items.

    Related: ERR, nDCG, MRR.

    Edge cases: a list without a hit counts 0; with `ties="expected"` ties are broken at random,
    because there is no closed form; users without a relevant item are excluded.

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
