"""Whether scores order a user's rated items as the ratings do.

Each metric is computed for a user over the ratings that have a score, and averaged over users.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.batch.topk import TopK
from weft.data.tensors import SparseRows
from weft.metrics.base.formulas import UserMeanMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.moment_sums import row_spread
from weft.metrics.rating.variance import correlation, scored_ratings
from weft.metrics.registry import register


@dataclass(frozen=True)
class OrderedPairs:
    """Numbers of pairs of rated items of each user, `[batch]`: all of them, those in the opposite
    order by rating and score, and those with equal ratings, equal scores, or both.
    """

    number: Tensor
    discordant: Tensor
    equal_ratings: Tensor
    equal_scores: Tensor
    equal_both: Tensor


def count_pairs(batch: Batch) -> OrderedPairs:
    """Return the numbers of pairs of each user, counted by sorting."""
    ratings, scores, is_scored = scored_ratings(batch)
    dtype, num_rows = batch.dtype, batch.size
    if len(ratings) == 0:
        none = torch.zeros(num_rows, dtype=dtype, device=batch.device)
        return OrderedPairs(none, none, none, none, none)
    rows = torch.where(is_scored, batch.truth.rows, num_rows)  # one more row, which is dropped
    order = _sort_in_rows(rows, ratings, scores)
    rows, ratings, scores = rows[order], ratings[order], scores[order]
    starts = _starts(rows)
    starts_rating = starts | _starts(ratings)
    starts_both = starts_rating | _starts(scores)
    by_score = _sort_in_rows(rows, scores)
    starts_score = starts | _starts(scores[by_score])
    # Numbers from 0 in the order of the scores of a row, equal for equal scores.
    dense, number = torch.empty_like(rows), starts_score.cumsum(0)
    dense[by_score] = number - torch.where(starts, number, 0).cummax(0).values

    # The row of what has no score may be the longest.
    longest = len(rows)
    if batch.is_host_readable:
        longest = int(torch.bincount(rows).max())

    def sum_rows(values: Tensor, of: Tensor) -> Tensor:
        sums = torch.zeros(num_rows + 1, dtype=dtype, device=batch.device)
        return sums.index_add_(0, of, values.to(dtype))[:num_rows]

    return OrderedPairs(
        sum_rows(_position(starts), rows),
        sum_rows(_count_inversions(rows, dense, longest), rows),
        sum_rows(_position(starts_rating), rows),
        sum_rows(_position(starts_score), rows),
        sum_rows(_position(starts_both), rows),
    )


def _sort_in_rows(rows: Tensor, *keys: Tensor) -> Tensor:
    """Return the indices that sort by row, then by the keys; all `[n]`."""
    order = torch.arange(len(rows), device=rows.device)
    for key in (*reversed(keys), rows):
        order = order[key[order].argsort(stable=True)]
    return order


def _starts(values: Tensor) -> Tensor:
    """Return whether each of sorted values `[n]` differs from the one before."""
    starts = torch.ones(len(values), dtype=torch.bool, device=values.device)
    starts[1:] = values[1:] != values[:-1]
    return starts


def _position(starts: Tensor) -> Tensor:
    """Return the position from 0 of each element in its group, of which the first is marked.

    The sum of these over a group is its number of pairs."""
    index = torch.arange(len(starts), device=starts.device)
    return index - torch.where(starts, index, 0).cummax(0).values


def _count_inversions(rows: Tensor, values: Tensor, limit: int) -> Tensor:
    """Return the number of larger values before each one in its row, `[n]`; rows ascend.

    Values, from 0 to below a limit, are split bit by bit, the highest first: a pair is in the wrong
    order at the first bit in which it differs."""
    count = torch.zeros_like(values)
    order = torch.arange(len(values), device=values.device)
    group = rows
    for bit in reversed(range(limit.bit_length())):
        is_high = (values[order] >> bit) & 1
        before = is_high.cumsum(0) - is_high
        starts = _starts(group)
        first = torch.where(starts, before, 0).cummax(0).values
        count[order] += torch.where(is_high == 0, before - first, 0)
        group, moved = (2 * group + is_high).sort(stable=True)
        group = _starts(group).cumsum(0)  # small numbers in the same order
        order = order[moved]
    return count


class _RankCorrelation(UserMeanMetric):
    """The common properties of metrics of the order of rated items."""

    family = "rating"
    supports_own_threshold = False  # ratings need not be relevant
    higher_is_better = True
    bounds: Bounds = (-1.0, 1.0)
    has_expected_tie_form = True  # there are no lists: ties are part of the formula
    sampling_behaviour = "unbiased"  # there are no negatives
    reads_scores = True
    users = "lists"  # all users with two ratings that have a score
    undefined = "no user has both different ratings and different scores of them"

    def pairs(self, topk: TopK) -> OrderedPairs:
        """Return the numbers of pairs of each user."""
        batch = topk.batch
        return batch.cached("ordered_pairs", lambda: count_pairs(batch))


@register
class Kendall(_RankCorrelation):
    r"""Kendall's rank correlation (tau-b) of scores and ratings, averaged over users.

    A pair of rated items of a user is concordant if scores and ratings order it alike, and
    discordant if they order it in opposite ways; a pair with equal scores or equal ratings is
    neither. The value of a user is the number of concordant minus the number of discordant pairs,
    divided by √(pairs with different ratings · pairs with different scores).

    Formula: \mathrm{Kendall}_u = \frac{\sum_{i<j} \mathrm{sgn}(r_{ui} - r_{uj}) \,
    \mathrm{sgn}(s_{ui} - s_{uj})} {\sqrt{\sum_{i<j} [r_{ui} \ne r_{uj}] \, \sum_{i<j} [s_{ui} \ne
    s_{uj}]}}

    Symbols: $i$ and $j$ are items that the user has rated and that have a score.

    Use: Kendall answers whether scores order the items that a user has rated as the user does,
    whatever their scale. Use it for explicit ratings with several items per user. It covers rated
    items only and weighs all pairs alike, so it shows little about the top of a list over the whole
    catalogue; nDCG is better there. Spearman penalizes large displacements more.

    Related: Spearman, NDPM, Pearson, nDCG.

    Edge cases: the score of a masked item is its score before masking; a score of -inf counts as
    missing; undefined for a user with fewer than two ratings that have a score, or with all
    ratings, or all scores, equal.

    Example: one of the three pairs is in the wrong order: (2 - 1) / √(3 · 3).

    >>> import torch, weft
    >>> metric = weft.metrics.Kendall()
    >>> metric.update(torch.tensor([[0.2, 0.1, 0.3]]), torch.tensor([[1, 2, 3]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    reference = (
        "Kendall (1945), The treatment of ties in ranking problems, doi 10.1093/biomet/33.3.239"
    )

    def user_values(self, topk: TopK) -> Tensor:
        pairs = self.pairs(topk)
        by_rating, by_score = pairs.number - pairs.equal_ratings, pairs.number - pairs.equal_scores
        ordered = by_rating - pairs.equal_scores + pairs.equal_both
        return ((ordered - 2 * pairs.discordant) / (by_rating * by_score).sqrt())[:, None]


@register
class Spearman(_RankCorrelation):
    r"""Spearman's rank correlation of scores and ratings, averaged over users: the Pearson
    correlation of the ranks of the items that a user has rated.

    Equal ratings share the mean of their ranks, and so do equal scores.

    Formula: \mathrm{Spearman}_u = \frac{\sum_{i} (a_{ui} - \bar{a}_u)(b_{ui} - \bar{b}_u)}
    {\sqrt{\sum_{i} (a_{ui} - \bar{a}_u)^2 \, \sum_{i} (b_{ui} - \bar{b}_u)^2}}

    Symbols: $a$ and $b$ are the ranks of the items that the user has rated, by rating and by score;
    bars denote means.

    Use: Spearman answers whether scores order the items that a user has rated as the user does,
    with large displacements counting more than small ones. Use it for explicit ratings if the scale
    of the scores has no meaning. With few ratings per user, or many equal ones, Kendall is easier
    to interpret. For the quality of top-k lists, use nDCG.

    Related: Kendall, NDPM, Pearson, nDCG.

    Edge cases: the score of a masked item is its score before masking; a score of -inf counts as
    missing; undefined for a user with fewer than two ratings that have a score, or with all
    ratings, or all scores, equal.

    Example: the ranks are 2, 1, 3 by score and 1, 2, 3 by rating: 1 - 6 · (1 + 1) / (3 · 8).

    >>> import torch, weft
    >>> metric = weft.metrics.Spearman()
    >>> metric.update(torch.tensor([[0.2, 0.1, 0.3]]), torch.tensor([[1, 2, 3]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    reference = (
        "Spearman (1904), The proof and measurement of association between two things, "
        "doi 10.2307/1412159"
    )

    def user_values(self, topk: TopK) -> Tensor:
        batch = topk.batch
        ratings, scores, is_scored = scored_ratings(batch)
        x, y = (_double_ranks(values, is_scored, batch.truth) for values in (ratings, scores))
        return correlation(row_spread(x, y, is_scored, batch.truth))[:, None]


def _double_ranks(values: Tensor, is_counted: Tensor, rows: SparseRows) -> Tensor:
    """Return twice the rank of each counted value in its row, the mean rank of ties, `[n]`."""
    row = torch.where(is_counted, rows.rows, rows.num_rows)
    order = _sort_in_rows(row, values)
    starts = _starts(row[order])
    starts_value = starts | _starts(values[order])
    group = starts_value.cumsum(0) - 1
    size = torch.zeros_like(group).index_add_(0, group, torch.ones_like(group))
    first = _position(starts) - _position(starts_value)
    ranks = torch.empty_like(values)
    ranks[order] = (2 * first + size[group] + 1).to(values.dtype)
    return ranks


@register
class NDPM(_RankCorrelation):
    r"""The normalized distance-based performance measure: the share of pairs of rated items that
    the scores order wrongly, averaged over users. Lower is better.

    Only pairs with different ratings count; of these, a pair with equal scores counts half.

    Formula: \mathrm{NDPM}_u = \frac{W_u + \frac{1}{2} E_u}{Q_u}

    Symbols: $Q$ is the number of pairs of rated items with different ratings; of these, the scores
    order $W$ wrongly, and $E$ have equal scores.

    Use: NDPM answers how often a model contradicts a preference that a user has stated. Use it for
    explicit ratings if users give many equal ones, which NDPM ignores and which limit Kendall and
    Spearman. It covers rated items only and weighs all pairs alike; for the top of a list, use
    nDCG.

    Related: Kendall, Spearman, GAUC, nDCG.

    Edge cases: the score of a masked item is its score before masking; a score of -inf counts as
    missing; undefined for a user without two different ratings that have a score; if all scores of
    a user are equal, the value is 0.5.

    Example: one of the three pairs is in the wrong order.

    >>> import torch, weft
    >>> metric = weft.metrics.NDPM()
    >>> metric.update(torch.tensor([[0.2, 0.1, 0.3]]), torch.tensor([[1, 2, 3]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    higher_is_better = False
    bounds = (0.0, 1.0)
    undefined = "no user has different ratings that have a score"
    reference = (
        "Yao (1995), Measuring retrieval effectiveness based on user preference of documents, "
        "doi 10.1002/(SICI)1097-4571(199503)46:2<133::AID-ASI6>3.0.CO;2-Z"
    )

    def user_values(self, topk: TopK) -> Tensor:
        pairs = self.pairs(topk)
        undecided = pairs.equal_scores - pairs.equal_both
        distance = pairs.discordant + undecided / 2
        return (distance / (pairs.number - pairs.equal_ratings))[:, None]
