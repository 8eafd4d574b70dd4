"""The compiled kernel for the CPU: everything that is asked for in one pass over the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft._native import call
from weft.data.team import num_sharing, share_loop
from weft.data.tensors import SparseRows
from weft.ranking.kernels import any_device
from weft.ranking.kernels.numpy_cpu import as_array, find_positions
from weft.ranking.kernels.row_scan import RowScan, pad_lists
from weft.ranking.masked_scores import MaskedScores

__all__ = ["double_ranks", "find_positions", "read", "scan", "top_k"]

Array = NDArray[Any]
# Scores of a native call if threads share them, at least and at most.
_TILE_SCORES, _MAX_TILE_SCORES = 1 << 19, 1 << 22
# 2: AVX-512, 1: AVX2, 0: any processor; of a higher number than the processor has, its highest.
_INSTRUCTION_SET = 2


@dataclass(frozen=True)
class _Request:
    """Arrays of a native scan: those to be filled, and interactions. None: not asked for.

    `values` and `items`, `[batch, k]`; `cells [n]` with their `offsets`; `scores [n]`, which are
    given if there are no cells; `positions [n]`; `ranks` and `offered`, `[batch]`."""

    k: int = 0
    values: Array | None = None
    items: Array | None = None
    cells: Array | None = None
    offsets: Array | None = None
    scores: Array | None = None
    positions: Array | None = None
    ranks: Array | None = None
    offered: Array | None = None

    def run(self, scores: MaskedScores) -> None:
        """Scan the scores as float32 or float64, on the threads that share the rows."""
        data, threads = scores.data, num_sharing()
        least, most = (
            max(1, size // max(1, data.shape[1])) for size in (_TILE_SCORES, _MAX_TILE_SCORES)
        )
        step = max(1, len(data))
        if data.element_size() == 2:  # the conversion takes memory
            step = least
        elif threads > 1:  # several calls per thread, so that all end at about the same time
            step = min(max(-(-len(data) // (4 * threads)), least), most)
        starts = range(0, len(data), step)
        share_loop(lambda start: self._run_tile(scores, start, step), starts)

    def _run_tile(self, scores: MaskedScores, start: int, step: int) -> None:
        """Scan the rows `start` to `start + step - 1`."""
        tile, masked = as_array(scores.data[start : start + step]), scores.masked
        rows = self.values, self.items, self.offsets, self.ranks, self.offered
        values, items, offsets, ranks, offered = (
            None if array is None else array[start:] for array in rows
        )
        none = np.zeros(len(tile) + 1, dtype=np.int64)
        call(
            f"scan_{tile.dtype}",
            _INSTRUCTION_SET,
            tile,
            *tile.shape,
            none if masked is None else masked.items.numpy(),
            none if masked is None else masked.offsets.numpy()[start:],
            self.k,
            values,
            items,
            self.cells,
            offsets,
            self.scores,
            self.positions,
            ranks,
            offered,
        )


def scan(scores: MaskedScores, k: int, rows: SparseRows, counts_ranks: bool) -> RowScan:
    """Return the k best of each row, where interactions are among them, and ranks if asked for."""
    values, items = _empty_lists(scores, k)
    own, positions = np.empty(len(rows.items), values.dtype), np.empty(len(rows.items), np.int64)
    counts = np.empty((2, len(values)), dtype=np.int64) if counts_ranks else (None, None)
    _Request(
        values.shape[1],
        values,
        items,
        rows.items.numpy(),
        rows.offsets.numpy(),
        own,
        positions,
        *counts,
    ).run(scores)
    np.putmask(positions, positions >= min(k - 1, values.shape[1]), k - 1)
    lists = pad_lists(*_as_lists(scores, values, items), k)
    own_scores, found = torch.from_numpy(own).to(scores.data.dtype), torch.from_numpy(positions)
    ranks, offered = (None if array is None else torch.from_numpy(array) for array in counts)
    return RowScan(*lists, own_scores, found, ranks, offered)


def _empty_lists(scores: MaskedScores, k: int) -> tuple[Array, Array]:
    """Return arrays for the scores and items of min(k, items) positions."""
    shape = len(scores.data), min(k, scores.shape[1])
    return np.empty(shape, dtype=as_array(scores.data[:0]).dtype), np.empty(shape, dtype=np.int64)


def _as_lists(scores: MaskedScores, values: Array, items: Array) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(values).to(scores.data.dtype), torch.from_numpy(items)


def read(scores: MaskedScores, rows: SparseRows) -> Tensor:
    """Return the score of each interaction."""
    data = scores.data
    if data.element_size() == 2:
        return any_device.read(scores, rows)
    values = data.new_empty(len(rows.items))
    cells, offsets = rows.items.numpy(), rows.offsets.numpy()
    _Request(cells=cells, offsets=offsets, scores=values.numpy()).run(scores)
    return values


def top_k(scores: MaskedScores, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best of each row."""
    values, items = _empty_lists(scores, k)
    _Request(k, values, items).run(scores)
    return _as_lists(scores, values, items)


def double_ranks(scores: MaskedScores, rows: SparseRows, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return row sums of doubled ranks, and the number of offered items."""
    ranks, offered = np.empty((2, len(scores.data)), dtype=np.int64)
    offsets = rows.offsets.numpy()
    _Request(offsets=offsets, scores=as_array(values), ranks=ranks, offered=offered).run(scores)
    return torch.from_numpy(ranks), torch.from_numpy(offered)
