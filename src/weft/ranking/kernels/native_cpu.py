"""The compiled kernel for the CPU: about one pass over the scores per operation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft._native import call
from weft.data.tensors import SparseRows
from weft.ranking.kernels import any_device
from weft.ranking.kernels.numpy_cpu import as_array, find_positions

__all__ = ["count_offered", "double_ranks", "find_positions", "mask", "top_k", "unmask"]

# Scores per thread, at least; and scores of 16 bits that are converted at once, at most.
_TILE_SCORES = 1 << 19


def _run(
    name: str,
    scores: Tensor,
    *arguments: NDArray[Any] | int,
    by_row: tuple[NDArray[Any], ...],
) -> None:
    """Run a native function over the scores as float32 or float64, on as many threads as torch has.

    Each call gets some rows of the scores, the `arguments` as they are, and its part of the arrays
    `by_row`, which have a row for each row of scores."""
    threads = min(torch.get_num_threads(), -(-scores.numel() // _TILE_SCORES))
    step = -(-len(scores) // max(1, threads))
    if scores.element_size() == 2:  # the conversion takes memory
        step = min(step, max(1, _TILE_SCORES // max(1, scores.shape[1])))

    def run_tile(start: int) -> None:
        tile = as_array(scores[start : start + step])
        kind = "float" if tile.dtype == np.float32 else "double"
        call(f"{name}_{kind}", tile, *tile.shape, *arguments, *(array[start:] for array in by_row))

    starts = range(0, len(scores), max(1, step))
    if threads <= 1:
        for start in starts:
            run_tile(start)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run_tile, starts))  # `list` raises the errors of the threads


def mask(scores: Tensor, interactions: SparseRows) -> Tensor:
    """Set scores to `-inf` in place; return the previous values."""
    if scores.element_size() == 2:
        return any_device.mask(scores, interactions)
    hidden = scores.new_empty(len(interactions.items))
    _write("hide", scores, interactions, hidden)
    return hidden


def unmask(scores: Tensor, interactions: SparseRows, hidden: Tensor) -> None:
    """Restore masked values."""
    if scores.element_size() == 2:
        any_device.unmask(scores, interactions, hidden)
    else:
        _write("show", scores, interactions, hidden)


def _write(name: str, scores: Tensor, interactions: SparseRows, hidden: Tensor) -> None:
    kind = "float" if scores.dtype == torch.float32 else "double"
    call(
        f"{name}_{kind}",
        scores.numpy(),
        *scores.shape,
        interactions.offsets.numpy(),
        interactions.items.numpy(),
        hidden.numpy(),
    )


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best of each row."""
    dtype = np.float64 if scores.dtype == torch.float64 else np.float32
    values = np.empty((len(scores), k), dtype=dtype)
    items = np.empty((len(scores), k), dtype=np.int64)
    _run("best", scores, k, by_row=(values, items))
    return torch.from_numpy(values).to(scores.dtype), torch.from_numpy(items)


def double_ranks(scores: Tensor, rows: SparseRows, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return row sums of doubled ranks, and the number of offered items."""
    is_finite = (values > -torch.inf).numpy()
    offsets = np.append(0, np.cumsum(is_finite))[rows.offsets.numpy()]
    return _count(scores, as_array(values)[is_finite], offsets)


def count_offered(scores: Tensor) -> Tensor:
    """Return the number of scores above -inf in each row."""
    offsets = np.zeros(len(scores) + 1, dtype=np.int64)
    return _count(scores, as_array(scores.new_empty(0)), offsets)[1]


def _count(
    scores: Tensor, values: NDArray[Any], offsets: NDArray[np.int64]
) -> tuple[Tensor, Tensor]:
    """Count for the values `offsets[row]` to `offsets[row + 1] - 1` of each row."""
    ranks, offered = np.empty((2, len(scores)), dtype=np.int64)
    _run("count", scores, values, by_row=(offsets, ranks, offered))
    return torch.from_numpy(ranks), torch.from_numpy(offered)
