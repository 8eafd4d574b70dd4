"""Recommendation lists: removing masked items, and ordering ties by the tie rule."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.data.devices import is_host_readable
from weft.data.recommendations import BatchLists
from weft.data.tensors import SparseRows
from weft.ranking.ties import TieRule


def remove_seen(lists: BatchLists, seen: SparseRows | None) -> BatchLists:
    """Return the lists without seen items; later items move up."""
    if seen is None or len(seen.items) == 0 or len(lists.items) == 0:
        return lists
    index, is_listed = lists.locate(seen.keys)
    is_listed = seen.fill_invalid(is_listed, False)
    if is_host_readable(lists.items.device) and not bool(is_listed.any()):
        return lists
    # Items that are not listed are written to one more element, which is dropped.
    is_kept = torch.ones(len(lists.items) + 1, dtype=torch.bool, device=lists.items.device)
    is_kept[torch.where(is_listed, index, len(lists.items))] = False
    return lists.filter(is_kept[:-1])


def restrict_lists(lists: BatchLists, allowed: Tensor | SparseRows | None) -> BatchLists:
    """Return the lists with only the allowed items: a mask `[items]`, or items of each user.

    Empty positions stay."""
    if allowed is None:
        return lists
    items = lists.items.clamp(min=0) if lists.has_empty else lists.items
    if isinstance(allowed, SparseRows):
        is_kept = allowed.contains(lists.rows * lists.num_items + items)
    else:
        is_kept = allowed[items]
    return lists.filter(is_kept | (lists.items < 0) if lists.has_empty else is_kept)


def break_ties(
    lists: BatchLists, rule: TieRule, *, user_keys: Tensor, relevant: SparseRows
) -> BatchLists:
    """Return the lists with equal scores in the order of the rule, instead of by item index."""
    if lists.is_order_given or rule.name == "index" or len(lists.items) < 2:
        return lists
    rows, scores = lists.rows, lists.scores
    equals_previous = torch.zeros(len(rows) + 1, dtype=torch.bool, device=rows.device)
    equals_previous[1:-1] = (scores[1:] == scores[:-1]) & (rows[1:] == rows[:-1])
    is_readable = is_host_readable(rows.device)
    # Where the host cannot read which are tied, all take part, most of them alone.
    tied = torch.arange(len(rows), device=rows.device)
    if is_readable:
        tied = (equals_previous[1:] | equals_previous[:-1]).nonzero().flatten()
    group = (~equals_previous[:-1]).cumsum(0)[tied]
    order = _tie_keys(lists, tied, rule, user_keys=user_keys, relevant=relevant)
    order = order.argsort(stable=True)
    order = order[group[order].argsort(stable=True)]
    return lists.exchange(tied, tied[order]) if is_readable else lists.reorder(order)


def _tie_keys(
    lists: BatchLists, tied: Tensor, rule: TieRule, *, user_keys: Tensor, relevant: SparseRows
) -> Tensor:
    """Return a sort key for each tied item, lower first."""
    if rule.name in ("random", "expected"):
        rows, items = lists.rows[tied], lists.items[tied]
        if lists.has_empty:  # drawn independently of each other
            items = torch.where(items >= 0, items, lists.offsets[rows] - tied - 1)
            return rule.hash_entries(user_keys[rows], items)
        return rule.hash(user_keys[rows], items[:, None])[:, 0]
    index, is_listed = lists.locate(relevant.keys)
    is_listed = relevant.fill_invalid(is_listed, False)
    grades = relevant.values.new_zeros(len(lists.items) + 1)
    grades[torch.where(is_listed, index, len(lists.items))] = relevant.values
    grades = grades[tied]
    return -grades if rule.name == "optimistic" else grades


def count_equal_scores(lists: BatchLists, values: Tensor) -> Tensor:
    """Return how many items of each list have the score `values [batch]`, `[batch]`."""
    is_equal = (lists.scores == values[lists.rows]).long()
    return is_equal.new_zeros(lists.num_rows).index_add_(0, lists.rows, is_equal)
