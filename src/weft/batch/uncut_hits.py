"""Hits up to a position that depends on the user, in lists that no cut-off ends."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.batch.batch import Batch, BatchInputs, RankingOptions
from weft.batch.topk import TopK
from weft.ranking import MaskedScores

# Scores of a tile of users who are ranked again.
_TILE_SCORES = 1 << 22


def count_hits_within(topk: TopK, limits: Tensor) -> Tensor:
    """Return the number of relevant items in the first positions, `[batch, 1]`; its mean over all
    orders of ties for the tie rule `expected`.

    `limits [batch, 1]` have integer values, which may exceed the depth to which the batch is
    ranked: then users are ranked again, as deep as needed."""
    batch = topk.batch
    if topk.order != "model":
        return _count_in_reference(topk, limits)
    if batch.lists is not None:
        return _count_in_lists(batch, limits)
    if batch.scores is None:
        return torch.zeros_like(limits)
    if not batch.is_host_readable:  # nor is it known how deep, so that all items are ranked
        part = _rank_scores(batch, batch.scores, depth=batch.truth.num_items)
        return part.positions.hits_within(limits.long())
    return _count_in_scores(batch, batch.scores, limits)


def _count_in_reference(topk: TopK, limits: Tensor) -> Tensor:
    """Count the hits of a random or the ideal order of the offered items."""
    batch = topk.batch
    is_offered = batch.offered.is_relevant_offered.to(batch.dtype)
    relevant, offered = batch.relevant.sum_rows(is_offered)[:, None], topk.num_offered[:, None]
    if topk.order == "ideal":
        return torch.minimum(relevant, limits)
    return relevant * torch.minimum(limits, offered) / offered.clamp(min=1)


def _count_in_lists(batch: Batch, limits: Tensor) -> Tensor:
    """Count the hits of lists, which are as long as they were given."""
    lists, relevant = batch.ordered_lists, batch.relevant
    if not len(lists.items):
        return torch.zeros_like(limits)
    index, is_listed = lists.locate(relevant.keys)
    limit = limits.index_select(0, relevant.rows)[:, 0]
    first = lists.offsets.index_select(0, relevant.rows)
    if batch.tie_rule.name == "expected" and not batch.is_tie_free:
        start, stop = (bounds.index_select(0, index) - first for bounds in lists.tie_bounds)
        share = ((limit - start) / (stop - start)).clamp(0, 1)
    else:
        share = (index - first < limit).to(batch.dtype)
    return relevant.sum_rows(torch.where(is_listed, share, 0))[:, None]


def _count_in_scores(batch: Batch, scores: MaskedScores, limits: Tensor) -> Tensor:
    """Count the hits in the ranking of the batch, and of the users for whom it ends too early."""
    hits = torch.zeros_like(limits)
    if batch.depth:
        hits = batch.positions.hits_within(limits.long())
    limits = limits.clamp(max=batch.truth.num_items)
    is_cut = (limits[:, 0] > batch.depth) & ~batch.has_no_relevant[:, 0]
    cut_rows = is_cut.nonzero().flatten()
    step = max(1, _TILE_SCORES // max(1, batch.truth.num_items))
    for start in range(0, len(cut_rows), step):
        rows = cut_rows[start : start + step]
        own = limits[rows].long()
        part = _rank_scores(batch, scores, depth=int(own.max()), rows=rows)
        hits[rows] = part.positions.hits_within(own)
    return hits


def _rank_scores(
    batch: Batch, scores: MaskedScores, *, depth: int, rows: Tensor | None = None
) -> Batch:
    """Return some rows of a batch (default: all) ranked to a depth, with their relevant items."""
    relevant, users, user_keys = batch.relevant, batch.users, batch.user_keys
    if rows is None:
        dense = scores.to_dense()
    else:
        dense, relevant = scores.select(rows), relevant.select_rows(rows)
        users, user_keys = users[rows], user_keys[rows]
    inputs = BatchInputs(dense, relevant, users, user_keys=user_keys, relevant=relevant)
    part = Batch(inputs, RankingOptions(batch.tie_rule, depth))
    part.rank()
    return part
