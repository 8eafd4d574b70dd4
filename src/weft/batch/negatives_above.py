"""The negatives that outrank each relevant item of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.data import BatchLists
from weft.ranking import top_k
from weft.ranking.ties import count_above

if TYPE_CHECKING:
    from weft.batch.batch import Batch

# Elements of a tile that compares scores over the whole catalogue.
_TILE_SCORES = 1 << 20


@dataclass(frozen=True)
class NegativesAbove:
    """Numbers of negatives that score `above` each relevant item, and `at_least` as high, `[n]`.

    `is_ranked [n]`: False for items that are not offered or, in incomplete lists, not listed; their
    numbers have no meaning. `num_ranked [batch]`: the negatives that are offered or listed."""

    above: Tensor
    at_least: Tensor
    is_ranked: Tensor
    num_ranked: Tensor


def count_negatives_above(batch: Batch) -> NegativesAbove:
    """Count the negatives above each relevant item of a batch, not cut at any position."""
    if batch.lists is not None:
        return _count_in_lists(batch, batch.ordered_lists)
    counts = torch.zeros((2, len(batch.relevant.rows)), dtype=torch.int64, device=batch.device)
    if batch.scores is not None:
        counts = _count_in_scores(batch, slice(None))
    return _from_counts(batch, counts)


def _from_counts(batch: Batch, counts: Tensor) -> NegativesAbove:
    """Return counts `[2, n]` with the items of scores that are ranked."""
    is_ranked = batch.relevant_scores > -torch.inf
    return NegativesAbove(counts[0], counts[1], is_ranked, batch.offered.num_negatives)


def _count_in_scores(batch: Batch, selected: Tensor | slice) -> Tensor:
    """Return the negatives above, and at least as high as, some relevant items, `[2, n]`."""
    assert batch.scores is not None
    negatives = batch.scores.mask(batch.relevant)
    rows, own = batch.relevant.rows[selected], batch.relevant_scores[selected]
    counts = torch.empty((2, len(rows)), dtype=torch.int64, device=batch.device)
    step = max(1, _TILE_SCORES // max(1, negatives.shape[1]))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        compared, value = negatives.select(rows[some]), own[some, None]
        counts[0, some], counts[1, some] = (compared > value).sum(1), (compared >= value).sum(1)
    return counts


def count_first_negatives_above(batch: Batch, k: int) -> NegativesAbove:
    """Count the negatives above each relevant item up to k.

    Where k or more are above, both numbers may be those of all items instead. Most items are there:
    the best items of each row tell, and only ties at their end are compared with all scores."""
    relevant, scores = batch.relevant, batch.scores
    if scores is None or not batch.is_host_readable or 0 in (len(relevant.rows), scores.shape[1]):
        return count_negatives_above(batch)
    num_items = scores.shape[1]
    # With no more than so many relevant items, the list has k negatives.
    best = top_k(scores, k + min(k, int(relevant.lengths.max())) + 1)[0]
    counts = torch.full((2, len(relevant.rows)), num_items)
    own, last = batch.relevant_scores, best[:, -1].index_select(0, relevant.rows)
    is_listed = (own >= last) & (own > -torch.inf)
    listed = is_listed.nonzero().flatten()
    counts[:, listed] = _count_in_best(best, relevant.rows[listed], own[listed])
    if best.shape[1] < num_items:
        # Of items after the list, all its negatives are above, of which there are at least so many.
        num_negatives = best.shape[1] - relevant.sum_rows(is_listed.to(batch.dtype))
        least = torch.where(is_listed, counts[0], num_negatives.index_select(0, relevant.rows))
        is_cut = (own <= last) & (own > -torch.inf) & (least < k)
        cut = is_cut.nonzero().flatten()
        if len(cut):
            counts[:, cut] = _count_in_scores(batch, cut)
    return _from_counts(batch, torch.where(counts[0] < k, counts, num_items))


def _count_in_best(best: Tensor, rows: Tensor, own: Tensor) -> Tensor:
    """Return the negatives above, and at least as high as, relevant items, `[2, n]`.

    `best [batch, depth]` are the highest scores of each row, falling; `rows` and `own`, `[n]`, are
    the rows and scores of the relevant items that are not below the last. Where an item ties with
    the last, the second number has no meaning."""
    above, at_least = (count_above(best, rows, own, or_equal=either) for either in (False, True))
    width = best.shape[1] + 1
    keys = rows * width + above
    ordered = keys.sort().values
    first = torch.searchsorted(ordered, rows * width)
    relevant_above, relevant_at_least = (
        torch.searchsorted(ordered, keys, right=right) - first for right in (False, True)
    )
    return torch.stack([above - relevant_above, at_least - relevant_at_least])


def _count_in_lists(batch: Batch, lists: BatchLists) -> NegativesAbove:
    relevant = batch.relevant
    index, is_listed = lists.locate(relevant.keys)
    is_listed = relevant.fill_invalid(is_listed, False)
    # Relevant items that are not listed are written to one more element, which is dropped.
    is_negative = torch.ones(len(lists.items) + 1, dtype=torch.bool, device=batch.device)
    is_negative[torch.where(is_listed, index, len(lists.items))] = False
    is_negative = lists.fill_invalid(is_negative[:-1], False)
    before = torch.nn.functional.pad(is_negative.long().cumsum(0), (1, 0))
    first = before[lists.offsets]
    num_ranked = first.diff().to(batch.dtype)
    if not len(lists.items):
        nothing = torch.zeros_like(relevant.rows)
        return NegativesAbove(nothing, nothing, is_listed, num_ranked)
    above, at_least = (before[bounds[index]] - first[relevant.rows] for bounds in lists.tie_bounds)
    return NegativesAbove(above, at_least, is_listed, num_ranked)
