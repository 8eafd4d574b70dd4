"""The kernel for the CPU where a C++ compiler was at hand when Weft was installed: about one pass over the scores."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.rows import SparseRows
from weft.ranking.kernels.cpu import as_array, find_in_lists

__all__ = ["best_items", "count_offered", "double_ranks", "find_in_lists", "is_built"]

_PATH = Path(__file__).with_name("_native.so")
# Scores that are converted at once, where a type is.
_TILE = 1 << 19


def is_built() -> bool:
    """Whether there is a compiled library."""
    return _PATH.exists()


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(_PATH))


def _call(name: str, scores: NDArray[Any], *others: NDArray[Any] | int) -> None:
    """Run the function for the type of the scores. Whole numbers are passed as they are, arrays by address."""
    function = getattr(_library(), f"{name}_{'float' if scores.dtype == np.float32 else 'double'}")
    given = (scores, *scores.shape, *others)
    function(*(ctypes.c_int64(part) if isinstance(part, int) else ctypes.c_void_p(part.ctypes.data) for part in given))


def _tiles(scores: Tensor) -> list[tuple[int, NDArray[Any]]]:
    """The scores as float32 or float64, and at which row each part begins: all at once where they are that already."""
    step = len(scores) if scores.element_size() > 2 and scores.is_contiguous() else max(1, _TILE // max(1, scores.shape[1]))
    return [(start, as_array(scores[start : start + step])) for start in range(0, len(scores), max(1, step))]


def best_items(scores: Tensor, k: int) -> Tensor:
    """The k best items of each row."""
    best = np.empty((len(scores), k), dtype=np.int64)
    for start, tile in _tiles(scores):
        _call("best", tile, k, best[start : start + len(tile)])
    return torch.from_numpy(best)


def double_ranks(scores: Tensor, cells: SparseRows, values: Tensor) -> tuple[Tensor, Tensor]:
    """Ranks by counting, ties between above and below, times two and summed over a row; and how many are offered."""
    counted = (values > -torch.inf).numpy()
    return _count(scores, as_array(values)[counted], np.append(0, np.cumsum(counted))[cells.offsets.numpy()])


def count_offered(scores: Tensor) -> Tensor:
    """The number of scores above -inf in each row."""
    return _count(scores, as_array(scores.new_empty(0)), np.zeros(len(scores) + 1, dtype=np.int64))[1]


def _count(scores: Tensor, values: NDArray[Any], offsets: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """`double_ranks` for the values `offsets[row]` to `offsets[row + 1] - 1` of each row."""
    ranks, offered = np.empty((2, len(scores)), dtype=np.int64)
    for start, tile in _tiles(scores):
        stop = start + len(tile)
        _call("count", tile, values, offsets[start : stop + 1], ranks[start:stop], offered[start:stop])
    return torch.from_numpy(ranks), torch.from_numpy(offered)
