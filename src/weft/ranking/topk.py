"""The exact top k of every row, in the order (score descending, item index ascending), on any device.

Both paths look at the maxima of small blocks first: only blocks whose maximum is among the best can hold a top-k item, so that
most of a row is read once and never sorted. The torch path runs anywhere with fixed shapes; on the CPU, NumPy's vectorised
partition and sort are several times faster. Both give the same lists.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_TILE_BYTES = 1 << 22
_INDEX_BITS = 32


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Values and item indices `[batch, min(k, items)]` of the k best of each row of `scores [batch, items]`.

    Equal scores go by item index, lower first; -0.0 equals 0.0. NaN is not allowed.

    >>> values, items = top_k(torch.tensor([[0.5, 0.9, 0.5, 0.1]]), 3)
    >>> items
    tensor([[1, 0, 2]])
    """
    k = min(k, scores.shape[1])
    if k == 0 or len(scores) == 0:
        empty = scores.new_empty((len(scores), k))
        return empty, empty.long()
    choose = _numpy_tile if scores.device.type == "cpu" else _torch_tile
    rows = max(1, min(_TILE_BYTES // (scores.shape[1] * scores.element_size()), -(-len(scores) // 4)))
    items = torch.cat([choose(scores[start : start + rows], k) for start in range(0, len(scores), rows)])
    return scores.gather(1, items), items


def _block_size(num_items: int, k: int) -> int:
    """Items per block. Reading maxima costs items / size, looking into k blocks k * size: least near the root."""
    return max(1, math.isqrt(num_items // k))


# ---------------------------------------------------------------------------------------------------- any device


def _torch_tile(scores: Tensor, k: int) -> Tensor:
    num_rows, num_items = scores.shape
    size = _block_size(num_items, k)
    blocks = num_items // size
    if size < 2 or blocks <= k:
        return _ordered(scores, k)
    # Contiguous blocks: of two equal maxima the lower block also holds the lower item, so that the k best blocks by
    # (maximum, block) are sure to hold the k best items by (score, item). What is left over at the end always takes part.
    best = _ordered(scores[:, : blocks * size].view(num_rows, blocks, size).amax(2), k).sort(1).values
    inside = torch.arange(size, device=scores.device)
    items = (best[:, :, None] * size + inside).flatten(1)
    rest = torch.arange(blocks * size, num_items, device=scores.device).expand(num_rows, -1)
    items = torch.cat([items, rest], dim=1)  # ascending, so that the place among them decides a tie as the index does
    return items.gather(1, _ordered(scores.gather(1, items), k))


def _ordered(scores: Tensor, k: int) -> Tensor:
    """The k best places of each row by (score descending, place ascending)."""
    if scores.dtype == torch.float64:
        return torch.sort(scores, dim=1, descending=True, stable=True).indices[:, :k]
    bits = (scores.float() + 0.0).view(torch.int32)  # + 0.0 turns -0.0 into 0.0
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    places = torch.arange(scores.shape[1], device=scores.device)
    keys = (ordered << _INDEX_BITS) - places
    return keys.topk(k, dim=1, sorted=True).indices


# ----------------------------------------------------------------------------------------------------------- CPU


def _numpy_tile(tile: Tensor, k: int) -> Tensor:
    if tile.dtype in (torch.bfloat16, torch.float16):
        tile = tile.float()  # exact
    num_rows, num_items = tile.shape
    size = _block_size(num_items, k)
    blocks = num_items // size
    scores = tile.numpy()
    if size < 2 or blocks <= k:
        rows, items = np.divmod(np.arange(num_rows * num_items), num_items)
        return torch.from_numpy(_best_candidates(scores, rows, items, k))
    # Blocks are strided here (block b holds items b, b + blocks, b + 2 * blocks, ...): their maxima are vertical and vectorise.
    maxima = tile[:, : blocks * size].reshape(num_rows, size, blocks).amax(1).numpy()
    # The k-th best maximum bounds the k-th best score from below: every item that reaches it is a candidate, ties included.
    least = np.partition(maxima, blocks - k, axis=1)[:, blocks - k]
    good_blocks = maxima >= least[:, None]
    tied = np.flatnonzero(np.count_nonzero(good_blocks, axis=1) > 2 * k + 64)
    good_blocks[tied] = False
    rows, first = np.divmod(np.flatnonzero(good_blocks), blocks)
    places = (rows * num_items + first)[:, None] + np.arange(size) * blocks
    good = np.flatnonzero(np.take(scores, places) >= least[rows][:, None])
    rows = rows[good // size]
    items = np.take(places, good) - rows * num_items
    if blocks * size < num_items:
        least[tied] = np.inf
        rest_rows, rest_items = np.nonzero(scores[:, blocks * size :] >= least[:, None])
        rows, items = np.concatenate([rows, rest_rows]), np.concatenate([items, rest_items + blocks * size])
        order = np.argsort(rows, kind="stable")
        rows, items = rows[order], items[order]
    if len(tied) == 0:
        return torch.from_numpy(_best_candidates(scores, rows, items, k))
    best = np.empty((num_rows, k), dtype=np.int64)
    for row in tied:
        best[row] = _best_of_tied_row(scores[row], k)
    calm = np.setdiff1d(np.arange(num_rows), tied)
    best[calm] = _best_candidates(scores[calm], np.searchsorted(calm, rows), items, k) if len(calm) else 0
    return torch.from_numpy(best)


def _best_candidates(scores: NDArray[Any], rows: NDArray[np.int64], items: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The k best of each row's candidates (rows ascending), as `[rows, k]`. Every row has k or more of them."""
    num_rows, num_items = scores.shape
    counts = np.bincount(rows, minlength=num_rows)
    starts = np.cumsum(counts) - counts
    if scores.dtype == np.float64:  # (score, item) does not fit into one integer
        order = np.lexsort((items, -scores[rows, items], rows))
        places: NDArray[np.int64] = order[starts[:, None] + np.arange(k)]
        return items[places]
    bits = (scores[rows, items] + np.float32(0)).view(np.int32)  # + 0 turns -0.0 into 0.0
    ordered = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits).astype(np.int64)
    keys = np.full((num_rows, counts.max()), np.iinfo(np.int64).min)
    keys[rows, np.arange(len(rows)) - starts[rows]] = (ordered << _INDEX_BITS) + (num_items - 1 - items)
    keys.sort(axis=1)
    best: NDArray[np.int64] = num_items - 1 - (keys[:, : -k - 1 : -1] & ((1 << _INDEX_BITS) - 1))
    return best


def _best_of_tied_row(row: NDArray[Any], k: int) -> NDArray[np.int64]:
    """The k best of one row in which very many items tie: found by value, without ordering the ties."""
    kth = np.partition(row, len(row) - k)[len(row) - k]
    above = np.flatnonzero(row > kth)
    above = above[np.argsort(-row[above], kind="stable")]
    return np.concatenate([above, np.flatnonzero(row == kth)[: k - len(above)]])
