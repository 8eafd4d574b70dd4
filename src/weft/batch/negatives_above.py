"""The negatives that outrank each relevant item of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.data import BatchLists
from weft.ranking import MaskedScores

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
    above, at_least = torch.zeros_like(batch.relevant.rows), torch.zeros_like(batch.relevant.rows)
    if batch.scores is not None:
        _count_in_scores(batch, batch.scores.mask(batch.relevant), above, at_least)
    is_ranked = batch.relevant_scores > -torch.inf
    return NegativesAbove(above, at_least, is_ranked, batch.offered.num_negatives)


def _count_in_scores(
    batch: Batch, negatives: MaskedScores, above: Tensor, at_least: Tensor
) -> None:
    """Write the numbers among scores in which relevant items are masked."""
    rows, own = batch.relevant.rows, batch.relevant_scores
    step = max(1, _TILE_SCORES // max(1, negatives.shape[1]))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        compared, value = negatives.select(rows[some]), own[some, None]
        above[some], at_least[some] = (compared > value).sum(1), (compared >= value).sum(1)


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
