"""The NumPy kernel for the CPU: vectorized partition, sort, comparison and count by tiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.tensors import SparseRows
from weft.ranking.kernels.any_device import read, reveal_masked
from weft.ranking.kernels.row_scan import compose_scan
from weft.ranking.masked_scores import MaskedScores

__all__ = ["double_ranks", "find_positions", "read", "scan", "top_k"]

Scores = NDArray[Any]
Indices = NDArray[np.int64]

# Scores of a tile, which stay in the cache between the passes over it; and its rows: too few would
# not be worth the overhead.
_TILE_SCORES = 1 << 20
_MIN_TILE_ROWS, _MAX_TILE_ROWS = 4, 256
_INDEX_BITS = 32
_LOW_BITS = (1 << _INDEX_BITS) - 1
# Scores of a row that are compared at once, and values they are compared with: larger calls cost
# less, until the cache is full.
_SPAN_SCORES = 1 << 16
_SPAN_VALUES = 32
# Rows of at most so many scores are compared as a whole, which is cheaper than block by block.
_SHORT_ROW_SCORES = 1 << 16


def top_k(scores: MaskedScores, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best of each row."""
    num_rows, num_items = scores.shape
    # 16-bit types are converted, which takes memory.
    size = _TILE_SCORES if scores.data.element_size() > 2 else _TILE_SCORES // 4
    step = min(max(size // num_items, _MIN_TILE_ROWS), _MAX_TILE_ROWS)
    values = scores.data.new_empty((num_rows, k))
    best = torch.empty((num_rows, k), dtype=torch.int64)
    for rows, tile in scores.tiles(step):
        best[rows] = torch.from_numpy(_top_k_of_tile(as_array(tile), k))
        torch.gather(tile, 1, best[rows], out=values[rows])
    return reveal_masked(values, scores), best


def as_array(scores: Tensor) -> Scores:
    """Return scores as a contiguous NumPy array; 16-bit types become float32, which is exact.

    Misaligned memory, which native code may not read, is copied."""
    wide = scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores
    array: Scores = np.require(wide.numpy(), requirements=("C", "A"))
    return array


def _top_k_of_tile(scores: Scores, k: int) -> Indices:
    maxima, size = _block_maxima(scores, k)
    # The k-th best maximum is a lower bound of the k-th best score: scores that reach it are
    # candidates.
    top = np.partition(maxima, maxima.shape[1] - k, axis=1)[:, maxima.shape[1] - k :]
    bound = top[:, :1]
    if not top.max() < np.inf:
        return _sort_with_nan_first(scores, k)
    is_open = maxima >= bound
    if np.count_nonzero(is_open) <= 2 * k * len(scores):
        return _sort_candidates(scores, _find_candidates(scores, is_open, bound, size), k)
    # Many blocks reach the bound: rows with many equal scores are handled separately.
    is_tied = np.count_nonzero(is_open, axis=1) > 2 * k
    if is_tied.all():
        return _top_k_of_ties(scores, maxima > bound, bound, size=size, k=k)
    best = np.empty((len(scores), k), dtype=np.int64)
    others = ~is_tied
    candidates = _find_candidates(scores[others], is_open[others], bound[others], size)
    best[others] = _sort_candidates(scores[others], candidates, k)
    best[is_tied] = _top_k_of_ties(
        scores[is_tied], maxima[is_tied] > bound[is_tied], bound[is_tied], size=size, k=k
    )
    return best


def _block_maxima(scores: Scores, k: int) -> tuple[Scores, int]:
    """Return the maxima of strided blocks `[rows, blocks]`, and the largest block size.

    Block b holds the items b, b + blocks, b + 2 * blocks, ...: such maxima vectorize."""
    num_rows, num_items = scores.shape
    # Ordering maxima costs items / size, reading k blocks k * size: the sum is least near the root.
    # Blocks of short rows are not read.
    is_short = num_items <= _SHORT_ROW_SCORES
    size = math.isqrt(2 * num_items // k if is_short else num_items // (2 * k))
    blocks = -(-num_items // max(1, size))
    if size < 2 or blocks <= k:
        return scores, 1
    size = -(-num_items // blocks)  # the last layer may be short, but not empty
    full = num_items // blocks
    maxima = np.maximum.reduce(scores[:, : full * blocks].reshape(num_rows, full, blocks), axis=1)
    if full < size:
        short = maxima[:, : num_items - full * blocks]
        np.maximum(short, scores[:, full * blocks :], out=short)
    return maxima, size


def _find_candidates(
    scores: Scores, is_open: NDArray[np.bool_], bound: Scores, size: int, *, above: bool = False
) -> Indices:
    """Return the indices in the flattened tile of scores that reach the bound (or are above it).

    Only open blocks are read; indices come row by row."""
    num_items, blocks = scores.shape[1], is_open.shape[1]
    compare = np.greater if above else np.greater_equal
    if size == 1:
        return np.flatnonzero(is_open)
    if num_items <= _SHORT_ROW_SCORES:
        return np.flatnonzero(compare(scores, bound))
    block = np.flatnonzero(is_open)
    rows = block // blocks
    first = block - rows * blocks
    index = (first + rows * num_items)[:, None] + np.arange(0, size * blocks, blocks)
    values = scores.reshape(-1).take(index, mode="clip")
    # After the end of a row: NaN, which compares as false.
    values[first + (size - 1) * blocks >= num_items, -1] = np.nan
    candidates: Indices = index.reshape(-1).take(np.flatnonzero(compare(values, bound[rows])))
    return candidates


def _sort_candidates(scores: Scores, candidates: Indices, k: int) -> Indices:
    """Return the items `[rows, k]` of the k best candidates of each row.

    `candidates` are indices in the flattened tile, row by row. A row with fewer than k gets
    arbitrary items at its end."""
    num_rows, num_items = scores.shape
    rows = candidates // num_items
    starts = np.searchsorted(rows, np.arange(num_rows + 1))
    counts = np.diff(starts)
    width = max(k, int(counts.max()))
    items = candidates - rows * num_items
    index = np.arange(len(rows)) + np.repeat(np.arange(num_rows) * width - starts[:-1], counts)
    values = scores.reshape(-1).take(candidates)
    if scores.dtype == np.float64:  # (score, item) does not fit into one integer
        order = np.lexsort((items, -values, rows))
        listed = np.zeros((num_rows, width), dtype=np.int64)
        listed.reshape(-1)[index] = items[order]
        return listed[:, :k]
    bits = (values + np.float32(0)).view(np.int32)  # + 0 turns -0.0 into 0.0
    ordered = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
    keys = np.full((num_rows, width), np.iinfo(np.int64).min)
    keys.reshape(-1)[index] = (ordered << _INDEX_BITS) | (_LOW_BITS - items)
    keys.sort(axis=1)
    best: Indices = _LOW_BITS - (keys[:, : -k - 1 : -1] & _LOW_BITS)
    return best


def _top_k_of_ties(
    scores: Scores, is_above: NDArray[np.bool_], bound: Scores, *, size: int, k: int
) -> Indices:
    """Return the k best of rows in which very many items score exactly the bound.

    Of these the first are enough. `is_above [rows, blocks]`: blocks with scores above the bound."""
    candidates = _find_candidates(scores, is_above, bound, size, above=True)
    best = _sort_candidates(scores, candidates, k)
    counts = np.bincount(candidates // scores.shape[1], minlength=len(scores))
    for row in np.flatnonzero(counts < k):
        best[row, counts[row] :] = _find_first(scores[row], bound[row, 0], k - counts[row])
    return best


def _find_first(row: Scores, value: Any, count: int) -> Indices:
    """Return the first `count` indices of a value, which occurs at least so often."""
    reach = 4 * count
    while True:
        indices = np.flatnonzero(row[:reach] == value)
        if len(indices) >= count:
            return indices[:count]
        reach *= 8


def _sort_with_nan_first(scores: Scores, k: int) -> Indices:
    """Return the k best by a full sort, NaN first. Used only for scores that will be refused."""
    return np.stack([np.lexsort((-row, ~np.isnan(row)))[:k] for row in scores])


def double_ranks(scores: MaskedScores, rows: SparseRows, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return row sums of doubled ranks, and the number of offered items."""
    num_rows, num_items = scores.shape
    compared, offsets = as_array(values)[:, None], rows.offsets.numpy()
    if len(compared) and not compared.min() > -np.inf:
        is_finite = compared[:, 0] > -np.inf
        compared, offsets = compared[is_finite], np.append(0, np.cumsum(is_finite))[offsets]
    span = max(1, -(-num_items // max(1, -(-num_items // _SPAN_SCORES))))  # equal parts of a row
    most_values = min(_SPAN_VALUES, int(np.diff(offsets).max(initial=1)))
    flags = np.empty((2 * most_values, span), dtype=np.bool_)
    bounds = offsets.tolist()
    ranks, offered = [0] * num_rows, [0] * num_rows
    step = max(1, _TILE_SCORES // 4 // max(1, num_items))
    for tile_rows, tile in scores.tiles(step):
        for number, row in enumerate(as_array(tile), tile_rows.start):
            values_of_row = compared[bounds[number] : bounds[number + 1]]
            for first in range(0, num_items, span):
                part = row[first : first + span]
                counted = flags[:, : len(part)]
                offered[number] += int(np.count_nonzero(np.greater(part, -np.inf, out=counted[0])))
                ranks[number] += _count_ranks(part, values_of_row, counted)
    return torch.tensor(ranks), torch.tensor(offered)


def _count_ranks(part: Scores, values: Scores, flags: NDArray[np.bool_]) -> int:
    """Return the sum over values `[n, 1]` of the scores above plus those at least as high."""
    most_values, ranks = len(flags) // 2, 0
    for low in range(0, len(values), most_values):
        value = values[low : low + most_values]
        np.greater(part, value, out=flags[: len(value)])
        np.greater_equal(part, value, out=flags[len(value) : 2 * len(value)])
        ranks += int(np.count_nonzero(flags[: 2 * len(value)]))
    return ranks


def find_positions(items: Tensor, values: Tensor, rows: SparseRows, scores: Tensor) -> Tensor:
    """Return the position of each interaction in the list of its row."""
    depth = items.shape[1]
    positions = np.full(len(rows.items), depth, dtype=np.int64)
    # Items below the last score of a list, and items that are not offered, are not in it.
    last = values[:, -1][rows.rows] if depth else scores
    possible = ((scores >= last) & (scores > -torch.inf)).nonzero().flatten().numpy()
    lists, row_numbers, row_items = items.numpy(), rows.rows.numpy(), rows.items.numpy()
    step = max(1, _SPAN_SCORES // max(1, depth))
    for start in range(0, len(possible), step):
        index = possible[start : start + step]
        is_equal = lists[row_numbers[index]] == row_items[index, None]
        number, position = np.divmod(np.flatnonzero(is_equal), max(1, depth))
        positions[index[number]] = position
    return torch.from_numpy(positions)


scan = compose_scan(top_k, read, find_positions, double_ranks)
