"""The kernel for any device: torch alone, with shapes that do not depend on the data, so that
nothing waits for the device.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from weft.data.rows import SparseRows

# Scores that a comparison may hold at once, and rows: of short rows more are no faster, and take
# memory.
_TILE, _MOST_ROWS = 1 << 20, 128
# Up to so many cells of a batch `[rows, items]`, lists are looked up in tables.
_TABLE = 1 << 23
_INDEX_BITS = 32
_VECTORS = 32  # scores that the CPU reduces at once


def hide(scores: Tensor, cells: SparseRows) -> Tensor:
    """Write `-inf` over some cells. What stood there."""
    flat = scores.view(-1)
    hidden = flat.index_select(0, cells.keys)
    if cells.counted is None:
        flat.scatter_(
            0, cells.keys, torch.full_like(hidden, -torch.inf)
        )  # a tensor is written several times faster than a number
    else:  # a cell that does not count may have the place of one that does
        flat.scatter_reduce_(
            0,
            cells.keys,
            torch.where(cells.counted, -torch.inf, torch.inf).to(hidden.dtype),
            "amin",
        )
    return hidden


def show(scores: Tensor, cells: SparseRows, hidden: Tensor) -> None:
    """Put back what was hidden."""
    scores.view(-1).scatter_(0, cells.keys, hidden)


def best(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best of each row."""
    rows = _rows_at_once(scores.shape[1])
    items = torch.cat(
        [_best_of_tile(scores[start : start + rows], k) for start in range(0, len(scores), rows)]
    )
    return scores.gather(1, items), items


def _rows_at_once(num_items: int) -> int:
    return min(max(1, _TILE // max(1, num_items)), _MOST_ROWS)


def _best_of_tile(scores: Tensor, k: int) -> Tensor:
    num_rows, num_items = scores.shape
    # Reading maxima costs items / size, looking into k blocks k * size: least near the root. Whole
    # vectors are read faster.
    size = max(1, math.isqrt(num_items // k))
    size = size if size < _VECTORS // 2 else -(-size // _VECTORS) * _VECTORS
    blocks = num_items // size
    if size < 2 or blocks <= k:
        return _ordered(scores, k)
    # Contiguous blocks: of two equal maxima the lower block also holds the lower item, so that the
    # k best blocks by (maximum, block) are sure to hold the k best items by (score, item). What is
    # left over at the end always takes part.
    best = _ordered(
        scores[:, : blocks * size].view(num_rows, blocks, size).amax(2), k, in_order=False
    )
    if (
        scores.dtype == torch.float64
    ):  # whose ties are decided by the place, as ascending items have it
        best = best.sort(1).values
    inside = torch.arange(size, device=scores.device)
    items = (best[:, :, None] * size + inside).flatten(1)
    rest = torch.arange(blocks * size, num_items, device=scores.device).expand(num_rows, -1)
    items = torch.cat([items, rest], dim=1)
    return items.gather(1, _ordered(scores.gather(1, items), k, items))


def _ordered(
    scores: Tensor, k: int, items: Tensor | None = None, *, in_order: bool = True
) -> Tensor:
    """The k best places of each row by (score descending, item ascending), NaN and +inf first; or
    the same in any order.

    Without `items [rows, scores]`, and in float64, the place decides in the item's stead.
    """
    if scores.dtype == torch.float64:
        return torch.sort(scores, dim=1, descending=True, stable=True).indices[:, :k]
    # NaN, which may have a sign, counts as +inf, and -0.0 as 0.0. In place: new memory costs more
    # than the arithmetic.
    bits = (
        scores.float()
        .nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
        .add_(0.0)
        .view(torch.int32)
    )
    bits ^= (bits >> 31).bitwise_and_(0x7FFFFFFF)  # now ordered as the scores are
    keys = bits.long()
    keys <<= _INDEX_BITS
    keys -= torch.arange(scores.shape[1], device=scores.device) if items is None else items
    return keys.topk(k, dim=1, sorted=in_order).indices


def double_ranks(scores: Tensor, cells: SparseRows, values: Tensor) -> tuple[Tensor, Tensor]:
    """Ranks by counting, ties between above and below, times two and summed over a row; and how
    many are offered.
    """
    ranks = torch.empty_like(cells.rows)
    step = _rows_at_once(scores.shape[1])
    for start in range(0, len(ranks), step):
        part = slice(start, start + step)
        compared, value = scores[cells.rows[part]], values[part, None]
        ranks[part] = (compared > value).sum(1) + (compared >= value).sum(1)
    return cells.sum(torch.where(values > -torch.inf, ranks, 0)), count_offered(scores)


def count_offered(scores: Tensor) -> Tensor:
    """The number of scores above -inf in each row."""
    offered = torch.empty(len(scores), dtype=torch.int64, device=scores.device)
    step = _rows_at_once(scores.shape[1])
    for start in range(0, len(scores), step):
        offered[start : start + step] = (scores[start : start + step] > -torch.inf).sum(1)
    return offered


def find_in_lists(items: Tensor, values: Tensor, cells: SparseRows, scores: Tensor) -> Tensor:
    """The position of each cell in its row's list."""
    depth = items.shape[1]
    places = torch.arange(depth, device=items.device).expand_as(items)
    if items.shape[0] * cells.num_items <= _TABLE:
        return _find_by_table(items, places, cells)
    number, found = cells.find(items)
    # What hits nothing is written to one more cell, which is cut off.
    positions = torch.full((len(cells.items) + 1,), depth, device=items.device)
    return positions.scatter_(
        0, torch.where(found, number, len(cells.items)).reshape(-1), places.reshape(-1)
    )[:-1]


def _find_by_table(items: Tensor, places: Tensor, cells: SparseRows) -> Tensor:
    """The same by a table of all cells of some rows: faster than searching, where there are few
    items.
    """
    (num_rows, depth), num_items = items.shape, cells.num_items
    step = _rows_at_once(num_items)
    nowhere = (
        step * num_items
    )  # where what is no item is written, and cells of other rows are looked up
    table = torch.full((nowhere + 1,), depth, dtype=torch.int32, device=items.device)
    positions = torch.full_like(cells.items, depth)
    rows = torch.arange(step, device=items.device)[:, None] * num_items
    for start in range(0, num_rows, step):
        listed = items[start : start + step]
        keys = torch.where(listed >= 0, rows[: len(listed)] + listed, nowhere).reshape(-1)
        table.scatter_(0, keys, places[: len(listed)].reshape(-1).int())
        wanted = cells.keys - start * num_items
        is_here = (wanted >= 0) & (wanted < nowhere)
        positions = torch.where(
            is_here, table.gather(0, torch.where(is_here, wanted, nowhere)).long(), positions
        )
        table.scatter_(0, keys, depth)
    return cells.only(positions, depth)
