"""Accuracy among the first negatives: the relevant items that few negatives outrank."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft._choices import choices
from weft.batch.negatives_above import NegativesAbove, count_first_negatives_above
from weft.batch.topk import TopK
from weft.errors import check_choice
from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.parameter_types import TooFewItems
from weft.metrics.registry import register
from weft.ranking.positions import log_choose, rank_in_rows

# Numbers of a temporary.
_TILE_VALUES = 1 << 18


class _FirstNegativesMetric(AccuracyMetric):
    """A sum over relevant items of the first k negatives that are below each."""

    sampling_behaviour = "candidates"
    undefined = "no user has a relevant item, or all of these users are excluded"
    has_reference_values = False  # the whole ranking counts, not the positions up to k

    def __init__(self, k: int, *, insufficient: TooFewItems = "ignore", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.insufficient = check_choice("insufficient", insufficient, choices(TooFewItems))

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
    r"""The share of (relevant item, negative) pairs in the correct order, among the first k
    negatives of the ranking.

    Formula: \mathrm{PartialAUC}_u = \frac{1}{k \, |R_u|} \sum_{i \in R_u} \max(0, \, k - b_{ui})

    b_ui is the number of negatives above item i. The ranking is not cut at k but read up to the
    k-th negative.

    Parameters:
        insufficient: Treatment of a user for whom the ranking has fewer than k negatives and lacks
            relevant items, as a short list may: `"ignore"` evaluates it as it is, and `"exclude"`
            leaves the user out.

    Use: it is the area under the left part of the ROC curve, for applications in which only the top
    of the ranking is shown. In contrast to GAUC, changes far down the ranking have no effect. The
    cut-off counts negatives and not positions, so that values are not comparable with those of
    metrics at the same k; use PAP if only the first k relevant items should count, and nDCG for a
    list of fixed length.

    Related: PAP, GAUC, LAUC, nDCG.

    Edge cases: tied items count as the mean over their orders, whatever the tie rule; a relevant
    item that is not in the ranking adds 0; users without a relevant item are excluded.

    Example: one of the first two negatives is above the relevant item.

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
        negatives = _count_first_negatives(topk)
        # Among the orders of ties, 0, 1, ... of the tied negatives are above an item equally often.
        num_orders = (negatives.at_least - negatives.above + 1)[:, None]
        most = (topk.k - negatives.above[:, None]).clamp(min=0)
        num_won = torch.minimum(most, num_orders)
        wins = num_won * (2 * most - num_won + 1) / (2 * num_orders)
        wins = torch.where(negatives.is_ranked[:, None], wins, 0)
        return self.average(topk, negatives, wins, topk.k * topk.num_relevant)


@register
class PAP(_FirstNegativesMetric):
    r"""The share of (relevant item, negative) pairs in the correct order, among the first k
    relevant items and the first k negatives of the ranking.

    Formula: \mathrm{PAP}_u = \frac{1}{k \min(|R_u|, k)} \sum_{i \in R_u^{(k)}} \max(0, \, k -
    b_{ui})

    R_u^(k) are the min(|R|, k) relevant items with the best ranks, and b_ui is the number of
    negatives above item i.

    Parameters:
        insufficient: As in PartialAUC.

    Use: it compares the top of the ranking with the top of the negatives, and a perfect list
    reaches 1 for users with many relevant items, too. Use PartialAUC if all relevant items should
    count, GAUC if the whole ranking matters, and nDCG or Precision for a list of fixed length.

    Related: PartialAUC, GAUC, Precision.

    Edge cases: tied items count as the mean over their orders, whatever the tie rule; a relevant
    item that is not in the ranking adds 0; users without a relevant item are excluded.

    Example: the first relevant item is above the first negative.

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
        negatives = _count_first_negatives(topk)
        wins, ranks = _wins_in_order(topk, negatives)
        wins = torch.where(negatives.is_ranked[:, None] & (ranks[:, None] <= topk.k), wins, 0)
        return self.average(topk, negatives, wins, topk.k * topk.max_hits)


def _count_first_negatives(topk: TopK) -> NegativesAbove:
    """Count the negatives above each relevant item, exactly up to the largest cut-off."""
    batch, k = topk.batch, topk.cutoffs[-1]
    return batch.cached(("first_negatives", k), lambda: count_first_negatives_above(batch, k))


def _wins_in_order(topk: TopK, negatives: NegativesAbove) -> tuple[Tensor, Tensor]:
    """Return the number of the first k negatives below the hit of each rank, as a mean over all
    orders of ties `[n, cut-offs]`, and the rank among the relevant items of the user `[n]`.
    """
    relevant, num_items = topk.batch.relevant, topk.batch.truth.num_items
    if topk.has_empty and topk.batch.lists is not None:
        num_items += len(topk.batch.lists.items)  # each empty position is one more negative
    limit = 2 * num_items + 2
    order = torch.where(negatives.is_ranked, negatives.above + negatives.at_least, limit - 1)
    ranks = rank_in_rows(order, relevant, limit)
    others = torch.where(negatives.is_ranked, negatives.at_least - negatives.above, 0)
    wins = (topk.k - negatives.above[:, None]).clamp(min=0)
    tied = torch.arange(len(others), device=others.device)
    if topk.batch.is_host_readable:
        tied = others.nonzero().flatten()
    if len(tied) == 0:
        return wins, ranks
    keys = relevant.rows * limit + order
    ordered = keys.sort().values
    first, stop = (torch.searchsorted(ordered, keys, right=right) for right in (False, True))
    number = ranks - (first - relevant.offsets.index_select(0, relevant.rows))
    columns = (one[tied, None] for one in (number, stop - first, negatives.above, others))
    tiles = zip(*(torch.split(one, _TILE_VALUES // topk.cutoffs[-1] + 1) for one in columns))
    wins[tied] = torch.cat([_expected_wins(topk, tile) for tile in tiles])
    return wins, ranks


def _expected_wins(topk: TopK, columns: tuple[Tensor, ...]) -> Tensor:
    """Return the mean number of the first k negatives below hits, `[n, cut-offs]`.

    Columns `[n, 1]`: the number of a hit among the relevant items tied with it, their number, the
    negatives above and those tied. Of the latter, 0, 1, ... are above the hit.
    """
    # As many for all items, since the order in which they are added depends on their number.
    most = topk.cutoffs[-1]
    if not topk.has_empty:
        most = min(most, topk.batch.truth.num_items + 1)
    j = torch.arange(most, device=topk.k.device).to(topk.k.dtype)
    number, tied, above, others = (one.to(topk.k.dtype) for one in columns)
    chance = torch.exp(
        log_choose(number - 1 + j, j)
        + log_choose(tied - number + others - j, others - j)
        - log_choose(tied + others, others)
    )
    chance = torch.where(j <= others, chance, 0)
    won = [(chance * (k - above - j).clamp(min=0)).sum(1) for k in topk.cutoffs]
    return torch.stack(won, dim=1)
