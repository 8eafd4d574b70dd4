"""Accuracy where some items are judged, relevant or not, and others are not.

The judged items of a user are those of the truth; the ones that are not relevant have a rating of 0
or below the relevance threshold.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.batch.topk import TopK
from weft.data.recommendations.list_policy import NO_ITEM
from weft.errors import check_choice
from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.accuracy.rank_biased import MOFFAT, check_persistence
from weft.metrics.base.formulas import POPULATIONS
from weft.metrics.registry import register
from weft.ranking.positions import rank_in_rows

_EPSILON = 1e-5  # of infAP, as in trec_eval


class _JudgedListMetric(AccuracyMetric):
    """A sum over the judged items of the list."""

    sampling_behaviour = "candidates"
    reads_judgements = True
    has_reference_values = False  # the order of the relevant items does not determine the value

    def __init__(self, k: int, *, users: str = "evaluated", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.users = check_choice("users", users, POPULATIONS)


@register
class Judged(_JudgedListMetric):
    """The share of the list that is judged, relevant or not: items of the truth / |L|.

    `users`: those with a relevant item (`"evaluated"`), or all with a list (`"lists"`).

    Edge cases: undefined for an empty list; where the truth has relevant items only, it is their
    share of the list, and the result notes it.

    Example: of two listed items one has a rating.

    >>> import torch, weft
    >>> metric = weft.metrics.Judged(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    undefined = "all lists that count are empty"
    reference = (
        "Buckley and Voorhees (2004), Retrieval evaluation with incomplete information, "
        "doi 10.1145/1008992.1009000"
    )

    def user_values(self, topk: TopK) -> Tensor:
        length = topk.num_listed
        judged = topk.batch.judged.positions.hits(topk.cutoffs)
        return torch.where(length > 0, judged / length, torch.nan)


@register
class RBPResidual(_JudgedListMetric):
    """The most that items without a judgement could add to RBP. Lower is better.

    p^|L| + (1 - p) times the sum of p^(position - 1) over the positions of the list that are not
    judged, which is 1 less the RBP of all judged items. `p` is that of RBP. `users`: those with a
    relevant item (`"evaluated"`), or all with a list (`"lists"`).

    Edge cases: 1 for an empty list; a user without a relevant item is left out by default.

    Example: the item at position 1 is judged, that at position 2 is not: 0.5² + 0.5 · 0.5.

    >>> import torch, weft
    >>> metric = weft.metrics.RBPResidual(k=2, p=0.5)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    higher_is_better = False
    reference = MOFFAT

    def __init__(self, k: int, *, p: float = 0.8, **settings: Any) -> None:
        super().__init__(k, **settings)
        self.p = check_persistence(p)

    def user_values(self, topk: TopK) -> Tensor:
        weights = self.p ** (topk.positions - 1)
        known = topk.batch.judged.positions.hits(topk.cutoffs, weights)
        if topk.has_empty:  # they hold nothing that could be relevant
            is_empty = topk.batch.ranking.items[:, : topk.batch.depth] < NO_ITEM
            known = known + topk.sum_positions(torch.where(is_empty, weights, 0))
        return 1 - (1 - self.p) * known


class _JudgedOrderMetric(AccuracyMetric):
    """A sum over the hits of a value that depends on the judged items above."""

    has_expected_tie_form = False
    sampling_behaviour = "candidates"
    reads_judgements = True

    def values_of_hits(self, batch: Batch, relevant: Tensor, others: Tensor) -> Tensor:
        """Return the value of each item of the truth as a hit, `[n]`, from the number of relevant
        and of other judged items above it.
        """
        raise NotImplementedError

    def user_values(self, topk: TopK) -> Tensor:
        batch = topk.batch
        is_relevant, relevant, others = batch.cached(
            "judged_above", lambda: _count_judged_above(batch)
        )
        values = torch.where(is_relevant, self.values_of_hits(batch, relevant, others), 0)
        return batch.judged.observed.gains(topk.cutoffs, values) / topk.num_relevant


def _count_judged_above(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return which items of the truth are relevant, and the number of relevant and of other judged
    items above each that is in the list, `[n]` all.
    """
    truth, positions, beyond = batch.truth, batch.judged.indices, batch.depth + 1
    is_relevant = truth.fill_invalid(batch.relevant.contains(truth.keys), False)
    judged = rank_in_rows(positions, truth, beyond) - 1
    relevant = rank_in_rows(torch.where(is_relevant, positions, beyond), truth, beyond + 1) - 1
    return is_relevant, relevant.to(batch.dtype), (judged - relevant).to(batch.dtype)


@register
class bpref(_JudgedOrderMetric):  # noqa: N801 - the paper's name
    """Binary preference: the share of the judged items that are not relevant and rank below a hit,
    averaged over the relevant items.

    The sum over the hits of 1 - min(n, |R|) / min(|R|, J), divided by |R|, where n is the number of
    judged items above the hit that are not relevant, and J of all of them.

    Edge cases: each hit counts 1 where no item is judged as not relevant, so that the value is the
    recall of the list, and the result notes it; ties have no closed form and are drawn; a user
    without a relevant item is left out.

    Example: item 0 is judged and not relevant, and is above one of the two relevant items: (1 + 1 -
    1/1) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.bpref(k=3, relevance_threshold=2)
    >>> metric.update(torch.tensor([[0.5, 0.9, 0.1]]), torch.tensor([[1, 2, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    reference = (
        "Buckley and Voorhees (2004), Retrieval evaluation with incomplete information, "
        "doi 10.1145/1008992.1009000"
    )

    def values_of_hits(self, batch: Batch, relevant: Tensor, others: Tensor) -> Tensor:
        num_others = batch.truth.lengths - batch.relevant.lengths
        most = torch.minimum(batch.relevant.lengths, num_others).clamp(min=1)
        rows = batch.truth.rows
        above = torch.minimum(others, batch.num_relevant[rows])
        return 1 - above / most[rows]


@register
class infAP(_JudgedOrderMetric):  # noqa: N801 - the paper's name
    """Inferred average precision: MAP of a sample of judgements, divided by |R|.

    The precision at a hit of position p is taken as (1 + J (r + ε) / (J + 2ε)) / p, where J items
    above it are judged and r of them are relevant, with ε = 10⁻⁵ as in trec_eval.

    Edge cases: where every item of a list is judged, it is nearly MAP(normalizer=relevant); ties
    have no closed form and are drawn; a user without a relevant item is left out.

    Example: hits at positions 1 and 3, the item between them is judged: (1 + 2/3) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.infAP(k=3, relevance_threshold=2)
    >>> metric.update(torch.tensor([[0.5, 0.9, 0.1]]), torch.tensor([[1, 2, 2]]))
    >>> metric.compute()
    tensor(0.8333, dtype=torch.float64)
    """

    reference = (
        "Yilmaz and Aslam (2006), Estimating average precision with incomplete and imperfect "
        "judgments, doi 10.1145/1183614.1183633"
    )

    def values_of_hits(self, batch: Batch, relevant: Tensor, others: Tensor) -> Tensor:
        judged = relevant + others
        share = (relevant + _EPSILON) / (judged + 2 * _EPSILON)
        return (1 + judged * share) / (batch.judged.indices + 1)
