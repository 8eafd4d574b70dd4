"""Accuracy among the first negatives: the relevant items that few negatives outrank."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.batch.negatives_above import NegativesAbove, count_negatives_above
from weft.batch.topk import TopK
from weft.errors import check_choice
from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.registry import register
from weft.ranking.positions import rank_in_rows


class _FirstNegativesMetric(AccuracyMetric):
    """A sum over relevant items of the first k negatives that are below each."""

    sampling_behaviour = "candidates"
    has_reference_values = False  # the whole ranking counts, not the positions up to k

    def __init__(self, k: int, *, insufficient: str = "ignore", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.insufficient = check_choice("insufficient", insufficient, ("ignore", "exclude"))

    def wins(self, topk: TopK, negatives: NegativesAbove) -> Tensor:
        """Return the number of the first k negatives below each relevant item, `[n, cut-offs]`."""
        num_above = (negatives.above + negatives.at_least)[:, None].to(topk.k.dtype) / 2
        return torch.where(negatives.is_ranked[:, None], (topk.k - num_above).clamp(min=0), 0)

    def average(self, topk: TopK, negatives: NegativesAbove, wins: Tensor, pairs: Tensor) -> Tensor:
        """Return the wins of each user over the pairs that a perfect list wins."""
        relevant = topk.batch.relevant
        values = wins.new_zeros((topk.batch.size, len(topk.cutoffs)))
        values = values.index_add_(0, relevant.rows, wins) / pairs
        if self.insufficient == "ignore":
            return values
        num_ranked = relevant.sum_rows(negatives.is_ranked.to(values.dtype))[:, None]
        is_short = (negatives.num_ranked[:, None] < topk.k) & (num_ranked < topk.num_relevant)
        return torch.where(is_short, torch.nan, values)


@register
class PartialAUC(_FirstNegativesMetric):
    """The share of (relevant item, negative) pairs in the right order, of the first k negatives.

    The sum over the relevant items of the first k negatives that are below each, divided by k |R|.
    The list is not cut at k: it is read to the k-th negative. Lists that hold fewer negatives, and
    not all relevant items, are `insufficient`: `"ignore"` takes them as they are, `"exclude"`
    leaves the user out.

    Edge cases: negatives that are tied with a relevant item count half, and tie rules have no
    effect; a relevant item that is not listed adds 0; a user without a relevant item is left out.

    Example: the relevant item is below one of the first two negatives.

    >>> import torch, weft
    >>> metric = weft.metrics.PartialAUC(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[0, 1, 0, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    reference = (
        "Dodd and Pepe (2003), Partial AUC estimation and regression, doi 10.1111/1541-0420.00071"
    )

    def user_values(self, topk: TopK) -> Tensor:
        negatives = topk.batch.cached("negatives", lambda: count_negatives_above(topk.batch))
        wins = self.wins(topk, negatives)
        return self.average(topk, negatives, wins, topk.k * topk.num_relevant)


@register
class PAP(_FirstNegativesMetric):
    """The share of pairs in the right order, of the first k hits and the first k negatives.

    The sum over the k best placed relevant items of the first k negatives that are below each,
    divided by k min(|R|, k). `insufficient` is that of PartialAUC.

    Edge cases: as for PartialAUC.

    Example: of the first hit and the first negative, the hit is above.

    >>> import torch, weft
    >>> metric = weft.metrics.PAP(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 1, 0]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    reference = (
        "Hiranandani et al. (2020), Optimization and analysis of the pAp@k metric for recommender "
        "systems, ICML; on partial areas Dodd and Pepe (2003), doi 10.1111/1541-0420.00071"
    )

    def user_values(self, topk: TopK) -> Tensor:
        batch = topk.batch
        negatives = batch.cached("negatives", lambda: count_negatives_above(batch))
        last = 2 * batch.truth.num_items + 1
        order = torch.where(negatives.is_ranked, negatives.above + negatives.at_least, last)
        ranks = rank_in_rows(order, batch.relevant, last + 1)[:, None]
        wins = torch.where(ranks <= topk.k, self.wins(topk, negatives), 0)
        return self.average(topk, negatives, wins, topk.k * topk.max_hits)
