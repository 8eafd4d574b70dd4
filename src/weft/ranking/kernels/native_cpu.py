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
from weft.data.threads import count_threads
from weft.ranking.kernels import any_device
from weft.ranking.kernels.numpy_cpu import as_array, find_positions
from weft.ranking.masked_scores import MaskedScores

__all__ = ["double_ranks", "find_positions", "read", "top_k"]

# Scores per thread, at least; and scores of 16 bits that are converted at once, at most.
_TILE_SCORES = 1 << 19


def _masked_items(scores: MaskedScores) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the masked items, and the offsets of those of each row."""
    if scores.masked is None:
        return np.empty(0, dtype=np.int64), np.zeros(len(scores.data) + 1, dtype=np.int64)
    return scores.masked.items.numpy(), scores.masked.offsets.numpy()


def _run(
    name: str, scores: MaskedScores, argument: NDArray[Any] | int, by_row: tuple[NDArray[Any], ...]
) -> None:
    """Run a native function over the scores as float32 or float64, on as many threads as are free.

    Each call gets some rows of the scores, the masked items, the `argument`, and its part of the
    offsets of masked items and of the arrays `by_row`, which have a row for each row of scores."""
    data, (masked, offsets) = scores.data, _masked_items(scores)
    threads = min(count_threads(), -(-data.numel() // _TILE_SCORES))
    step = -(-len(data) // max(1, threads))
    if data.element_size() == 2:  # the conversion takes memory
        step = min(step, max(1, _TILE_SCORES // max(1, data.shape[1])))

    def run_tile(start: int) -> None:
        tile = as_array(data[start : start + step])
        parts = (array[start:] for array in (offsets, *by_row))
        call(f"{name}_{tile.dtype}", tile, *tile.shape, masked, argument, *parts)

    starts = range(0, len(data), max(1, step))
    if threads <= 1:
        for start in starts:
            run_tile(start)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run_tile, starts))  # `list` raises the errors of the threads


def read(scores: MaskedScores, rows: SparseRows) -> Tensor:
    """Return the score of each interaction."""
    data, (masked, offsets) = scores.data, _masked_items(scores)
    if data.element_size() == 2:
        return any_device.read(scores, rows)
    values = data.new_empty(len(rows.items))
    indices = masked, offsets, rows.items.numpy(), rows.offsets.numpy()
    call(f"read_{as_array(data[:0]).dtype}", data.numpy(), *data.shape, *indices, values.numpy())
    return values


def top_k(scores: MaskedScores, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best of each row."""
    data = scores.data
    values = np.empty((len(data), k), dtype=as_array(data[:0]).dtype)
    items = np.empty((len(data), k), dtype=np.int64)
    _run("best", scores, k, (values, items))
    return torch.from_numpy(values).to(data.dtype), torch.from_numpy(items)


def double_ranks(scores: MaskedScores, rows: SparseRows, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return row sums of doubled ranks, and the number of offered items."""
    is_finite = (values > -torch.inf).numpy()
    offsets = np.append(0, np.cumsum(is_finite))[rows.offsets.numpy()]
    ranks, offered = np.empty((2, len(scores.data)), dtype=np.int64)
    _run("count", scores, as_array(values)[is_finite], (offsets, ranks, offered))
    return torch.from_numpy(ranks), torch.from_numpy(offered)
