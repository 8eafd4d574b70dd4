"""The kernel for the CPU where a C++ compiler was at hand when Weft was installed: about one pass
over the scores.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft._native import call
from weft.data.rows import SparseRows
from weft.ranking.kernels import any_device as anywhere
from weft.ranking.kernels.numpy_cpu import as_array, find_in_lists

__all__ = ["best", "count_offered", "double_ranks", "find_in_lists", "hide", "show"]

# Scores that are worth a thread; and that are converted at once, where they are.
_TILE = 1 << 19


def _read(
    name: str, scores: Tensor, *given: NDArray[Any] | int, rows: tuple[NDArray[Any], ...]
) -> None:
    """Run a function over the scores as float32 or float64, a stretch of rows at a time, on as many
    threads as torch has.

    Numbers and arrays are `given` to it as they are; of `rows`, which have a row for each row of
    scores, each stretch gets its own."""
    threads = min(torch.get_num_threads(), -(-scores.numel() // _TILE))
    step = -(-len(scores) // max(1, threads))
    if scores.element_size() == 2:  # converted, which takes memory
        step = min(step, max(1, _TILE // max(1, scores.shape[1])))

    def read(start: int) -> None:
        part = as_array(scores[start : start + step])
        kind = "float" if part.dtype == np.float32 else "double"
        call(f"{name}_{kind}", part, *part.shape, *given, *(array[start:] for array in rows))

    starts = range(0, len(scores), max(1, step))
    if threads <= 1:
        for start in starts:
            read(start)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, starts))  # a list, so that an error is raised


def hide(scores: Tensor, cells: SparseRows) -> Tensor:
    """Write `-inf` over some cells. What stood there."""
    if scores.element_size() == 2:
        return anywhere.hide(scores, cells)
    hidden = scores.new_empty(len(cells.items))
    _write("hide", scores, cells, hidden)
    return hidden


def show(scores: Tensor, cells: SparseRows, hidden: Tensor) -> None:
    """Put back what was hidden."""
    if scores.element_size() == 2:
        anywhere.show(scores, cells, hidden)
    else:
        _write("show", scores, cells, hidden)


def _write(name: str, scores: Tensor, cells: SparseRows, hidden: Tensor) -> None:
    kind = "float" if scores.dtype == torch.float32 else "double"
    call(
        f"{name}_{kind}",
        scores.numpy(),
        *scores.shape,
        cells.offsets.numpy(),
        cells.items.numpy(),
        hidden.numpy(),
    )


def best(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best of each row."""
    values = np.empty(
        (len(scores), k), dtype=np.float64 if scores.dtype == torch.float64 else np.float32
    )
    items = np.empty((len(scores), k), dtype=np.int64)
    _read("best", scores, k, rows=(values, items))
    return torch.from_numpy(values).to(scores.dtype), torch.from_numpy(items)


def double_ranks(scores: Tensor, cells: SparseRows, values: Tensor) -> tuple[Tensor, Tensor]:
    """Ranks by counting, ties between above and below, times two and summed over a row; and how
    many are offered.
    """
    counted = (values > -torch.inf).numpy()
    return _count(
        scores, as_array(values)[counted], np.append(0, np.cumsum(counted))[cells.offsets.numpy()]
    )


def count_offered(scores: Tensor) -> Tensor:
    """The number of scores above -inf in each row."""
    return _count(scores, as_array(scores.new_empty(0)), np.zeros(len(scores) + 1, dtype=np.int64))[
        1
    ]


def _count(
    scores: Tensor, values: NDArray[Any], offsets: NDArray[np.int64]
) -> tuple[Tensor, Tensor]:
    """`double_ranks` for the values `offsets[row]` to `offsets[row + 1] - 1` of each row."""
    ranks, offered = np.empty((2, len(scores)), dtype=np.int64)
    _read("count", scores, values, rows=(offsets, ranks, offered))
    return torch.from_numpy(ranks), torch.from_numpy(offered)
