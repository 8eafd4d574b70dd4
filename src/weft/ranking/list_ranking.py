"""Lists that a source gave: what is masked leaves them, and the tie rule orders the items that
score alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.data.devices import is_host_readable
from weft.data.recommendations import BatchLists
from weft.data.rows import SparseRows
from weft.ranking.ties import TieRule


def without(lists: BatchLists, seen: SparseRows | None) -> BatchLists:
    """The lists without the seen cells; they close up."""
    if seen is None or len(seen.items) == 0 or len(lists.items) == 0:
        return lists
    cells, found = lists.locate(seen.keys)
    found = seen.only(found, False)
    if is_host_readable(lists.items.device) and not bool(found.any()):
        return lists
    # What is not listed is written to one more cell, which is cut off.
    kept = torch.ones(len(lists.items) + 1, dtype=torch.bool, device=lists.items.device)
    kept[torch.where(found, cells, len(lists.items))] = False
    return lists.filter(kept[:-1])


def within(lists: BatchLists, offered: Tensor | SparseRows | None) -> BatchLists:
    """The lists with nothing but what can be recommended: some items (a mask `[items]`), or some
    cells. They close up.
    """
    if offered is None:
        return lists
    if isinstance(offered, SparseRows):
        return lists.filter(offered.contains(lists.rows * lists.num_items + lists.items))
    return lists.filter(offered[lists.items])


def break_ties(
    lists: BatchLists, rule: TieRule, user_keys: Tensor, relevant: SparseRows
) -> BatchLists:
    """The lists with equal scores in the order of the rule. They come with equal scores by item
    index.
    """
    if lists.is_order_given or rule.name == "index" or len(lists.items) < 2:
        return lists
    rows, scores = lists.rows, lists.scores
    like_last = torch.zeros(len(rows) + 1, dtype=torch.bool, device=rows.device)
    like_last[1:-1] = (scores[1:] == scores[:-1]) & (rows[1:] == rows[:-1])
    cells = torch.arange(len(rows), device=rows.device)
    # Like the next one, or the one before. Where the host does not see which are tied, all are
    # ordered, and most alone.
    tied = (
        (like_last[1:] | like_last[:-1]).nonzero().flatten()
        if is_host_readable(rows.device)
        else cells
    )
    group = (~like_last[:-1]).cumsum(0)[tied]
    order = _draw(lists, tied, rule, user_keys, relevant).argsort(stable=True)
    order = order[group[order].argsort(stable=True)]
    return lists.reorder(cells.scatter(0, tied, tied[order]))


def _draw(
    lists: BatchLists, tied: Tensor, rule: TieRule, user_keys: Tensor, relevant: SparseRows
) -> Tensor:
    """For each tied cell a number: the lower comes first."""
    if rule.name in ("random", "expected"):
        return rule.hash(user_keys[lists.rows[tied]], lists.items[tied][:, None])[:, 0]
    cells, found = lists.locate(relevant.keys)
    grades = relevant.values.new_zeros(len(lists.items) + 1)
    grades[torch.where(relevant.only(found, False), cells, len(lists.items))] = relevant.values
    grades = grades[tied]
    return -grades if rule.name == "optimistic" else grades


def count_equal_scores(lists: BatchLists, values: Tensor) -> Tensor:
    """How many cells of each list have the score `values [batch]`."""
    equal = (lists.scores == values[lists.rows]).long()
    return equal.new_zeros(lists.num_rows).index_add_(0, lists.rows, equal)
