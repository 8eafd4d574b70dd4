"""What reads the scores, and how on which device: the one place to add a faster way for a device.

`anywhere` is torch alone, with fixed shapes, for any device; `cpu` is NumPy on the CPU's memory,
several times faster there; `native` is compiled, faster still, and there if a compiler was when
Weft was installed. All give the same answers to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import torch
from torch import Tensor

from weft._native import is_built
from weft.data.devices import is_host_readable
from weft.data.rows import SparseRows
from weft.ranking.kernels import any_device as anywhere
from weft.ranking.kernels import native_cpu as native
from weft.ranking.kernels import numpy_cpu as cpu


class Kernel(Protocol):
    """The operations that read scores `[rows, items]`."""

    def hide(self, scores: Tensor, cells: SparseRows) -> Tensor:
        """Write `-inf` over some cells of contiguous scores, in place. What stood there, `[cells]`."""
        ...

    def show(self, scores: Tensor, cells: SparseRows, hidden: Tensor) -> None:
        """Put back what was hidden."""
        ...

    def best(self, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k best of each row by (score descending, item ascending): scores and items, `[rows,
        k]`; k from 1 to all items.

        A row with NaN begins with one, so that whoever looks at the first value sees it.
        """
        ...

    def double_ranks(
        self, scores: Tensor, cells: SparseRows, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """For a value given per cell, how many scores of its row are above it, plus how many are at
        least as high: row sums.

        Values of -inf are left out. And what `count_offered` gives, which costs little while a row
        is at hand."""
        ...

    def count_offered(self, scores: Tensor) -> Tensor:
        """The number of scores above -inf in each row, `[rows]`."""
        ...

    def find_in_lists(
        self, items: Tensor, values: Tensor, cells: SparseRows, scores: Tensor
    ) -> Tensor:
        """The position of each cell in its row's list `[rows, depth]`, `depth` where it is not
        there.

        Lists are by falling `values`, -1 behind their end; `scores` are those of the cells.
        """
        ...


_everywhere: ContextVar[Kernel | None] = ContextVar("kernel", default=None)


def get_kernel(device: torch.device) -> Kernel:
    """The fastest way on a device."""
    return _everywhere.get() or (
        anywhere if not is_host_readable(device) else native if is_built() else cpu
    )


@contextmanager
def using(kernel: Kernel) -> Iterator[None]:
    """One way for all devices, to test and to measure it."""
    token = _everywhere.set(kernel)
    try:
        yield
    finally:
        _everywhere.reset(token)
