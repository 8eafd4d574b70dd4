"""The kernel for the CPU: NumPy's vectorised partition, sort, compare and count, a tile of rows at
a time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.rows import SparseRows
from weft.ranking.kernels.any_device import hide, show

__all__ = ["best", "count_offered", "double_ranks", "find_in_lists", "hide", "show"]

Scores = NDArray[Any]
Indices = NDArray[np.int64]

# Scores in a tile: what stays in the cache between the passes over it; and rows, for which the
# overhead of a tile is worth it.
_TILE = 1 << 21
_FEWEST_ROWS, _MOST_ROWS = 4, 256
_INDEX_BITS = 32
_LOW_BITS = (1 << _INDEX_BITS) - 1
# Scores of a row that are compared at once, and with how many values: fewer and larger calls cost
# less, until the cache is full.
_SPAN = 1 << 16
_AT_ONCE = 32
# Up to here a comparison of all scores is cheaper than a look into the best blocks.
_SHORT_ROW = 1 << 16


def best(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best of each row."""
    tile = (
        _TILE if scores.element_size() > 2 else _TILE // 4
    )  # 16-bit types are converted, and take memory
    rows = min(max(tile // scores.shape[1], _FEWEST_ROWS), _MOST_ROWS)
    tiles = [
        _best_of_tile(as_array(scores[start : start + rows]), k)
        for start in range(0, len(scores), rows)
    ]
    items = torch.from_numpy(np.concatenate(tiles) if len(tiles) > 1 else tiles[0])
    return scores.gather(1, items), items


def as_array(scores: Tensor) -> Scores:
    """Scores as NumPy knows them; 16-bit types become float32, which is exact."""
    wide = scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores
    array: Scores = np.ascontiguousarray(wide.numpy())
    return array


# --------------------------------------------------------------------------------------------------


def _best_of_tile(scores: Scores, k: int) -> Indices:
    maxima, size = _block_maxima(scores, k)
    # The k-th best maximum bounds the k-th best score from below: whatever reaches it is a
    # candidate.
    top = np.partition(maxima, maxima.shape[1] - k, axis=1)[:, maxima.shape[1] - k :]
    least = top[:, :1]
    if not top.max() < np.inf:
        return _with_nan_first(scores, k)
    good = maxima >= least
    if np.count_nonzero(good) <= 2 * k * len(scores):
        return _best_candidates(scores, _candidates(scores, good, least, size), k)
    # Many blocks reach the bound: rows with many equal scores are taken apart.
    tied = np.count_nonzero(good, axis=1) > 2 * k
    if tied.all():
        return _best_of_tied(scores, maxima > least, least, size, k)
    best = np.empty((len(scores), k), dtype=np.int64)
    calm = ~tied
    best[calm] = _best_candidates(
        scores[calm], _candidates(scores[calm], good[calm], least[calm], size), k
    )
    best[tied] = _best_of_tied(scores[tied], maxima[tied] > least[tied], least[tied], size, k)
    return best


def _block_maxima(scores: Scores, k: int) -> tuple[Scores, int]:
    """The maxima of strided blocks, and how many items a block has at most.

    Block b of `blocks` holds the items b, b + blocks, b + 2 * blocks, ...: maxima are vertical, and
    vectorise."""
    num_rows, num_items = scores.shape
    # Ordering maxima costs items / size, looking into k blocks k * size: least near the root. Short
    # rows are not looked into.
    size = math.isqrt(2 * num_items // k if num_items <= _SHORT_ROW else num_items // (2 * k))
    blocks = -(-num_items // max(1, size))
    if size < 2 or blocks <= k:
        return scores, 1
    size = -(-num_items // blocks)  # the last layer may be short, but not empty
    whole = num_items // blocks
    maxima = np.maximum.reduce(scores[:, : whole * blocks].reshape(num_rows, whole, blocks), axis=1)
    if whole < size:
        short = maxima[:, : num_items - whole * blocks]
        np.maximum(short, scores[:, whole * blocks :], out=short)
    return maxima, size


def _candidates(
    scores: Scores, good: NDArray[np.bool_], least: Scores, size: int, *, above: bool = False
) -> Indices:
    """The places in the flattened tile of all scores that reach the bound (or are above it), row by
    row.
    """
    num_items, blocks = scores.shape[1], good.shape[1]
    compare = np.greater if above else np.greater_equal
    if size == 1:
        return np.flatnonzero(good)
    if num_items <= _SHORT_ROW:
        return np.flatnonzero(compare(scores, least))
    block = np.flatnonzero(good)
    rows = block // blocks
    first = block - rows * blocks
    places = (first + rows * num_items)[:, None] + np.arange(0, size * blocks, blocks)
    found = scores.reshape(-1).take(places, mode="clip")
    found[first + (size - 1) * blocks >= num_items, -1] = (
        np.nan
    )  # behind the end of the row; compares as false
    candidates: Indices = places.reshape(-1).take(np.flatnonzero(compare(found, least[rows])))
    return candidates


def _best_candidates(scores: Scores, candidates: Indices, k: int) -> Indices:
    """The k best of each row's candidates `[rows, k]`, whose places come row by row. A row with
    fewer gets anything at its end.
    """
    num_rows, num_items = scores.shape
    rows = candidates // num_items
    starts = np.searchsorted(rows, np.arange(num_rows + 1))
    counts = np.diff(starts)
    width = max(k, int(counts.max()))
    items = candidates - rows * num_items
    places = np.arange(len(rows)) + np.repeat(np.arange(num_rows) * width - starts[:-1], counts)
    values = scores.reshape(-1).take(candidates)
    if scores.dtype == np.float64:  # (score, item) does not fit into one integer
        order = np.lexsort((items, -values, rows))
        listed = np.zeros((num_rows, width), dtype=np.int64)
        listed.reshape(-1)[places] = items[order]
        return listed[:, :k]
    bits = (values + np.float32(0)).view(np.int32)  # + 0 turns -0.0 into 0.0
    ordered = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
    keys = np.full((num_rows, width), np.iinfo(np.int64).min)
    keys.reshape(-1)[places] = (ordered << _INDEX_BITS) | (_LOW_BITS - items)
    keys.sort(axis=1)
    best: Indices = _LOW_BITS - (keys[:, : -k - 1 : -1] & _LOW_BITS)
    return best


def _best_of_tied(
    scores: Scores, good: NDArray[np.bool_], least: Scores, size: int, k: int
) -> Indices:
    """The k best of rows in which very many items have the bound itself as their score: of these
    the first are enough.
    """
    candidates = _candidates(scores, good, least, size, above=True)
    best = _best_candidates(scores, candidates, k)
    above = np.bincount(candidates // scores.shape[1], minlength=len(scores))
    for row in np.flatnonzero(above < k):
        best[row, above[row] :] = _first_equal(scores[row], least[row, 0], k - above[row])
    return best


def _first_equal(row: Scores, value: Any, count: int) -> Indices:
    """The first `count` places that hold a value; there are as many."""
    reach = 4 * count
    while True:
        found = np.flatnonzero(row[:reach] == value)
        if len(found) >= count:
            return found[:count]
        reach *= 8


def _with_nan_first(scores: Scores, k: int) -> Indices:
    """The k best by a full sort, NaN before everything. Only scores that are about to be refused
    come here.
    """
    return np.stack([np.lexsort((-row, ~np.isnan(row)))[:k] for row in scores])


# --------------------------------------------------------------------------------------------------


def double_ranks(scores: Tensor, cells: SparseRows, values: Tensor) -> tuple[Tensor, Tensor]:
    """Ranks by counting, ties between above and below, times two and summed over a row; and how
    many are offered.
    """
    num_rows, num_items = scores.shape
    wanted, offsets = as_array(values)[:, None], cells.offsets.numpy()
    if len(wanted) and not wanted.min() > -np.inf:
        counted = wanted[:, 0] > -np.inf
        wanted, offsets = wanted[counted], np.append(0, np.cumsum(counted))[offsets]
    span = max(1, -(-num_items // max(1, -(-num_items // _SPAN))))  # equal parts of a row
    flags = np.empty(
        (2 * min(_AT_ONCE, int(np.diff(offsets).max(initial=1))), span), dtype=np.bool_
    )
    at_once = len(flags) // 2
    borders = offsets.tolist()
    ranks, offered = [0] * num_rows, [0] * num_rows
    tile = max(1, _TILE // 4 // max(1, num_items))
    for top in range(0, num_rows, tile):
        rows = as_array(scores[top : top + tile])
        for number, row in enumerate(rows, top):
            start, stop = borders[number], borders[number + 1]
            for first in range(0, num_items, span):
                part = row[first : first + span]
                found = flags[:, : len(part)]
                offered[number] += int(np.count_nonzero(np.greater(part, -np.inf, out=found[0])))
                for low in range(start, stop, at_once):
                    value = wanted[low : min(low + at_once, stop)]
                    np.greater(part, value, out=found[: len(value)])
                    np.greater_equal(part, value, out=found[len(value) : 2 * len(value)])
                    ranks[number] += int(np.count_nonzero(found[: 2 * len(value)]))
    return torch.tensor(ranks), torch.tensor(offered)


def count_offered(scores: Tensor) -> Tensor:
    """The number of scores above -inf in each row."""
    flags = np.empty(scores.shape[1], dtype=np.bool_)
    counts = [
        int(np.count_nonzero(np.greater(as_array(row), -np.inf, out=flags))) for row in scores
    ]
    return torch.as_tensor(counts, dtype=torch.int64)


# --------------------------------------------------------------------------------------------------


def find_in_lists(items: Tensor, values: Tensor, cells: SparseRows, scores: Tensor) -> Tensor:
    """The position of each cell in its row's list."""
    depth = items.shape[1]
    positions = np.full(len(cells.items), depth, dtype=np.int64)
    # A cell below the last score of a list, and one that was not offered, is not in it.
    last = values[:, -1][cells.rows] if depth else scores
    possible = ((scores >= last) & (scores > -torch.inf)).nonzero().flatten().numpy()
    lists, rows, wanted = items.numpy(), cells.rows.numpy(), cells.items.numpy()
    step = max(1, _SPAN // max(1, depth))
    for start in range(0, len(possible), step):
        cell = possible[start : start + step]
        number, place = np.divmod(
            np.flatnonzero(lists[rows[cell]] == wanted[cell, None]), max(1, depth)
        )
        positions[cell[number]] = place
    return torch.from_numpy(positions)
