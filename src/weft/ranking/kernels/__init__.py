"""Kernels: the operations that read all scores, in one module per kind of device.

`any_device` is torch alone, with fixed shapes. `numpy_cpu` is several times faster on the CPU.
`native_cpu` is compiled, faster still, and available if a C++ compiler was present at installation.
All give bit-equal answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import torch
from torch import Tensor

from weft._native import is_built
from weft.data.devices import is_host_readable
from weft.data.tensors import SparseRows
from weft.ranking.kernels import any_device, native_cpu, numpy_cpu


class Kernel(Protocol):
    """The operations that read scores `[batch, items]`."""

    def mask(self, scores: Tensor, interactions: SparseRows) -> Tensor:
        """Set contiguous scores to `-inf` in place; return the previous values, `[n]`."""
        ...

    def unmask(self, scores: Tensor, interactions: SparseRows, hidden: Tensor) -> None:
        """Restore the values that `mask` returned."""
        ...

    def top_k(self, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k best of each row by (score descending, item ascending), k from 1 to items.

        Scores and items, `[batch, k]`. A row with NaN begins with one, so that the first value
        reveals it."""
        ...

    def double_ranks(
        self, scores: Tensor, rows: SparseRows, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return row sums of doubled ranks, and the number of offered items, `[batch]` both.

        The doubled rank of a value `[n]` counts the scores of its row above it plus those at least
        as high. Values of `-inf` are left out. Counting the offered items as `count_offered` does
        costs little along with it."""
        ...

    def count_offered(self, scores: Tensor) -> Tensor:
        """Return the number of scores above `-inf` in each row, `[batch]`."""
        ...

    def find_positions(
        self, items: Tensor, values: Tensor, rows: SparseRows, scores: Tensor
    ) -> Tensor:
        """Return the position of each interaction in the list of its row, `depth` if not there.

        Lists are `items [batch, depth]`, -1 after their end, by falling `values`; `scores [n]` are
        those of the interactions."""
        ...


_selected: ContextVar[Kernel | None] = ContextVar("kernel", default=None)


def get_kernel(device: torch.device) -> Kernel:
    """Return the fastest kernel for a device."""
    selected = _selected.get()
    if selected is not None:
        return selected
    if not is_host_readable(device):
        return any_device
    return native_cpu if is_built() else numpy_cpu


@contextmanager
def using(kernel: Kernel) -> Iterator[None]:
    """Use one kernel for all devices, for tests and measurements."""
    token = _selected.set(kernel)
    try:
        yield
    finally:
        _selected.reset(token)
