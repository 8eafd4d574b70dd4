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
from weft.metrics.parameter_types import Population
from weft.metrics.registry import register
from weft.ranking.positions import rank_in_rows

_EPSILON = 1e-5  # of infAP, as in trec_eval


class _JudgedListMetric(AccuracyMetric):
    """A sum over the judged items of the list."""

    sampling_behaviour = "candidates"
    reads_judgements = True
    has_reference_values = False  # the order of the relevant items does not determine the value

    def __init__(self, k: int, *, users: Population = "evaluated", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.users = check_choice("users", users, POPULATIONS)


@register
class Judged(_JudgedListMetric):
    r"""The share of the recommended items that are judged, relevant or not: items of the truth /
    |L|.

    Formula: \mathrm{Judged}_u = \frac{|L_u \cap J_u|}{|L_u|}

    J_u are the judged items of the user: the items of the truth, relevant or not.

    Parameters:
        users: As in ItemCoverage.

    Use: it shows how much is known about the lists, since items without a judgement count as not
    relevant in most metrics. If two models differ much in it, their Precision or nDCG may differ
    only because one of them recommends items that were never judged; use bpref, which ignores such
    items. It does not measure quality: it counts relevant items and items that are judged as not
    relevant alike.

    Related: bpref, infAP, RBPResidual, Precision.

    Edge cases: undefined for an empty list; if the truth has relevant items only, it is their share
    of the list, and the result notes it.

    Example: one of two recommended items has a rating.

    >>> import torch, weft
    >>> metric = weft.metrics.Judged(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    undefined = "all evaluated lists are empty"
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
    r"""The largest amount that items without a judgement could add to RBP. Lower is better.

    Formula: \mathrm{RBPResidual}_u = 1 - (1 - \varphi) \sum_{q=1}^{|L_u|} [i_q \in J_u] \,
    \varphi^{q-1}, \qquad \varphi = 0.8

    J_u are the judged items of the user: the items of the truth, relevant or not. φ is the
    parameter `p`, as in RBP. The positions after the end of the list count as not judged.

    Parameters:
        p: As in RBP.
        users: As in ItemCoverage.

    Use: it states how far RBP could rise if all items were judged, and thereby whether a difference
    between two models could be due to missing judgements. Report it with RBP, with the same `p`. It
    needs a truth with items that are judged as not relevant; with implicit feedback all other items
    are unjudged and it is 1 - RBP.

    Related: RBP, Judged, bpref, infAP.

    Edge cases: 1 for an empty list; users without a relevant item are excluded by default.

    Example: the item at position 1 is judged and the item at position 2 is not: 0.5² + 0.5 · 0.5.

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
    r"""Binary preference: the share of the items judged as not relevant that a relevant item
    outranks, averaged over the relevant items.

    Formula: \mathrm{bpref}_u = \frac{1}{|R_u|} \sum_{p=1}^{|L_u|} [i_p \in R_u] \left(1 -
    \frac{\min(b_p, |R_u|)}{\min(|R_u|, |J_u \setminus R_u|)}\right)

    J_u are the judged items of the user: the items of the truth, relevant or not. b_p is the number
    of items judged as not relevant above position p, of which the first |R| count. Items without a
    judgement have no effect.

    Use: it compares models if the truth is incomplete and has explicit negatives, such as dislikes
    or low ratings. It is not suitable for implicit feedback, where no item is judged as not
    relevant and it equals Recall; use MAP or nDCG then. Use infAP if the judged items are a random
    sample.

    Related: infAP, Judged, MAP, RBPResidual.

    Edge cases: if no item is judged as not relevant, each hit counts 1, so that the value is the
    recall of the list, and the result notes it; with `ties="expected"` ties are broken at random,
    because there is no closed form; users without a relevant item are excluded.

    Example: item 0, which is judged as not relevant, is above one of the two relevant items: (1 + 1
    - 1/1) / 2.

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
    r"""Inferred average precision: average precision with the precision at each hit estimated from
    the judged items above it.

    Formula: \mathrm{infAP}_u = \frac{1}{|R_u|} \sum_{p=1}^{|L_u|} [i_p \in R_u] \, \frac{1}{p}
    \left(1 + j_p \, \frac{h_{p-1} + \epsilon}{j_p + 2 \epsilon}\right), \qquad \epsilon = 10^{-5}

    j_p is the number of judged items above position p: items of the truth, relevant or not. h_(p-1)
    is the number of hits among them. ε is that of trec_eval.

    Use: it reproduces the numbers of trec_eval. The estimate was designed for pools of which only a
    sample is judged. A truth does not contain pooled items without a judgement, so that the value
    differs from MAP(normalizer=relevant) by about ε only; use MAP then. Use bpref if judgements are
    incomplete.

    Related: MAP, bpref, Judged.

    Edge cases: items without a judgement count as not relevant; with `ties="expected"` ties are
    broken at random, because there is no closed form; users without a relevant item are excluded.

    Example: hits are at positions 1 and 3, and the item between them is judged: (1 + 2/3) / 2.

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
