"""The kernel for any device: torch alone, with shapes that do not depend on the data.

Nothing forces a device synchronization."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from weft.data.devices import is_host_readable
from weft.data.tensors import SparseRows
from weft.ranking.kernels.row_scan import compose_scan
from weft.ranking.masked_scores import MaskedScores

# Scores and rows of a tile: more rows of few items are no faster, and take memory.
_TILE_SCORES, _TILE_ROWS = 1 << 20, 128
# The largest batch `[batch, items]` in which positions are looked up in tables.
_TABLE_SCORES = 1 << 23
_INDEX_BITS = 32
_VECTOR_SCORES = 32  # scores that the CPU reduces at once


def read(scores: MaskedScores, rows: SparseRows) -> Tensor:
    """Return the score of each interaction."""
    values = scores.data.view(-1).index_select(0, rows.keys)
    if scores.masked is None:
        return values
    return torch.where(scores.masked.contains(rows.keys), -torch.inf, values)


def top_k(scores: MaskedScores, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best of each row."""
    parts = []
    for _, tile in scores.tiles(_rows_of_tile(scores.shape[1])):
        items = _top_k_of_tile(tile, k)
        parts.append((tile.gather(1, items), items))
    values = torch.cat([values for values, _ in parts])
    return reveal_masked(values, scores), torch.cat([items for _, items in parts])


def reveal_masked(values: Tensor, scores: MaskedScores) -> Tensor:
    """Write masked scores that are NaN or +inf to the first column of `values [batch, k]`."""
    if scores.masked is not None and scores.has_masks:
        masked = scores.masked
        hidden = masked.fill_invalid(read(MaskedScores(scores.data), masked), -torch.inf)
        if not is_host_readable(values.device) or not bool(hidden.amax() < torch.inf):
            highest = hidden.new_full((len(values),), -torch.inf)
            highest = highest.scatter_reduce(0, masked.rows, hidden, "amax")  # NaN is the highest
            values[:, 0] = torch.where(highest < torch.inf, values[:, 0], highest)
    return values


def _rows_of_tile(num_items: int) -> int:
    return min(max(1, _TILE_SCORES // max(1, num_items)), _TILE_ROWS)


def _top_k_of_tile(scores: Tensor, k: int) -> Tensor:
    num_rows, num_items = scores.shape
    # Reading maxima costs items / size, reading k blocks k * size: the sum is least near the root.
    # Whole vectors are read faster.
    size = max(1, math.isqrt(num_items // k))
    size = size if size < _VECTOR_SCORES // 2 else -(-size // _VECTOR_SCORES) * _VECTOR_SCORES
    blocks = num_items // size
    if size < 2 or blocks <= k:
        return _select_best(scores, k)
    # Blocks are contiguous: of two equal maxima the lower block also holds the lower item, so that
    # the k best blocks by (maximum, block) hold the k best items by (score, item). Items after the
    # last block always take part.
    maxima = scores[:, : blocks * size].view(num_rows, blocks, size).amax(2)
    best = _select_best(maxima, k, is_sorted=False)
    if scores.dtype == torch.float64:  # here ties go by index: items must ascend
        best = best.sort(1).values
    inside = torch.arange(size, device=scores.device)
    items = (best[:, :, None] * size + inside).flatten(1)
    rest = torch.arange(blocks * size, num_items, device=scores.device).expand(num_rows, -1)
    items = torch.cat([items, rest], dim=1)
    return items.gather(1, _select_best(scores.gather(1, items), k, items))


def _select_best(
    scores: Tensor, k: int, items: Tensor | None = None, *, is_sorted: bool = True
) -> Tensor:
    """Return the indices `[rows, k]` of the k best scores by (score descending, item ascending).

    NaN and +inf come first. Without `items`, of the shape of the scores, and in float64, ties go by
    index. `is_sorted=False` allows any order."""
    if scores.dtype == torch.float64:
        return torch.sort(scores, dim=1, descending=True, stable=True).indices[:, :k]
    # NaN, which may have a sign, counts as +inf, and -0.0 as 0.0. In place: allocating memory costs
    # more than the arithmetic.
    finite = scores.float().nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
    bits = finite.add_(0.0).view(torch.int32)
    bits ^= (bits >> 31).bitwise_and_(0x7FFFFFFF)  # integers in the order of the scores
    keys = bits.long()
    keys <<= _INDEX_BITS
    keys -= torch.arange(scores.shape[1], device=scores.device) if items is None else items
    return keys.topk(k, dim=1, sorted=is_sorted).indices


def double_ranks(scores: MaskedScores, rows: SparseRows, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return row sums of doubled ranks, and the number of offered items."""
    ranks = torch.empty_like(rows.rows)
    step = _rows_of_tile(scores.shape[1])
    for start in range(0, len(ranks), step):
        some = slice(start, start + step)
        compared, value = scores.select(rows.rows[some]), values[some, None]
        ranks[some] = (compared > value).sum(1) + (compared >= value).sum(1)
    offered = torch.empty(scores.shape[0], dtype=torch.int64, device=ranks.device)
    for tile_rows, tile in scores.tiles(_rows_of_tile(scores.shape[1])):
        offered[tile_rows] = (tile > -torch.inf).sum(1)
    return rows.sum_rows(torch.where(values > -torch.inf, ranks, 0)), offered


def find_positions(items: Tensor, values: Tensor, rows: SparseRows, scores: Tensor) -> Tensor:
    """Return the position of each interaction in the list of its row."""
    depth = items.shape[1]
    positions = torch.arange(depth, device=items.device).expand_as(items)
    if items.shape[0] * rows.num_items <= _TABLE_SCORES:
        return _find_by_table(items, positions, rows)
    index, is_hit = rows.find(items)
    # Items without an interaction are written to one more element, which is dropped.
    out = torch.full((len(rows.items) + 1,), depth, device=items.device)
    index = torch.where(is_hit, index, len(rows.items))
    return out.scatter_(0, index.reshape(-1), positions.reshape(-1))[:-1]


def _find_by_table(items: Tensor, positions: Tensor, rows: SparseRows) -> Tensor:
    """Find positions by a table of all items of some rows: faster than searching for few items."""
    (num_rows, depth), num_items = items.shape, rows.num_items
    step = _rows_of_tile(num_items)
    unused = step * num_items  # one more element, for missing items and for other rows
    table = torch.full((unused + 1,), depth, dtype=torch.int32, device=items.device)
    out = torch.full_like(rows.items, depth)
    first = torch.arange(step, device=items.device)[:, None] * num_items
    for start in range(0, num_rows, step):
        tile = items[start : start + step]
        keys = torch.where(tile >= 0, first[: len(tile)] + tile, unused).reshape(-1)
        table.scatter_(0, keys, positions[: len(tile)].reshape(-1).int())
        index = rows.keys - start * num_items
        is_in_tile = (index >= 0) & (index < unused)
        looked_up = table.gather(0, torch.where(is_in_tile, index, unused)).long()
        out = torch.where(is_in_tile, looked_up, out)
        table.scatter_(0, keys, depth)
    return rows.fill_invalid(out, depth)


scan = compose_scan(top_k, read, find_positions, double_ranks)
