"""Kernels: the operations that read all scores, in one module per kind of device.

`any_device` is torch alone, with fixed shapes. `numpy_cpu` is several times faster on the CPU.
`native_cpu` is compiled, faster still, and available if a C++ compiler was present at installation.
All give bit-equal answers, and none writes to the scores. `scan` answers everything that a batch
needs; the compiled kernel does so in one pass over each row. `top_k` uses the kernel of the scores'
device."""

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
from weft.ranking.kernels.row_scan import RowScan
from weft.ranking.masked_scores import MaskedScores


class Kernel(Protocol):
    """The operations that read scores `[batch, items]`."""

    def scan(self, scores: MaskedScores, k: int, rows: SparseRows, counts_ranks: bool) -> RowScan:
        """Return the k best of each row, and the scores and positions of interactions.

        With `counts_ranks`, also the doubled ranks of the interactions, and the number of offered
        items. k is at least 2, and may exceed the number of items, which is at least 1."""
        ...

    def read(self, scores: MaskedScores, rows: SparseRows) -> Tensor:
        """Return the score of each interaction, `[n]`; contiguous scores are expected."""
        ...

    def top_k(self, scores: MaskedScores, k: int) -> tuple[Tensor, Tensor]:
        """Return the k best of each row by (score descending, item ascending), k from 1 to items.

        Scores and items, `[batch, k]`; masked items may be in any order. A row with NaN, or with
        NaN or +inf among its masked scores, begins with one, so that the first value reveals it."""
        ...

    def double_ranks(
        self, scores: MaskedScores, rows: SparseRows, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return row sums of doubled ranks, and the number of offered items, `[batch]` both.

        The doubled rank of a value `[n]` counts the scores of its row above it plus those at least
        as high. Values of `-inf` are left out. Offered are scores above `-inf`."""
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


def count_offered(scores: MaskedScores) -> Tensor:
    """Return the number of scores above `-inf` in each row, `[batch]`."""
    none, (num_rows, num_items) = scores.data.new_empty(0), scores.shape
    offsets = none.new_zeros(num_rows + 1, dtype=torch.int64)
    rows = SparseRows(offsets, none.long(), none, num_items)
    return get_kernel(none.device).double_ranks(scores, rows, none)[1]


@contextmanager
def using(kernel: Kernel) -> Iterator[None]:
    """Use one kernel for all devices, for tests and measurements."""
    token = _selected.set(kernel)
    try:
        yield
    finally:
        _selected.reset(token)


def top_k(scores: Tensor | MaskedScores, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best scores of each row of `scores [batch, items]`, and their item indices.

    Both are `[batch, min(k, items)]`. Equal scores go by item index, lower first; -0.0 equals 0.0.
    A row with NaN begins with one. Only blocks with one of the best maxima can hold a top-k item,
    so that most of a row is read once and never sorted.

    >>> import torch
    >>> values, items = top_k(torch.tensor([[0.5, 0.9, 0.5, 0.1]]), 3)
    >>> items
    tensor([[1, 0, 2]])
    """
    scores = MaskedScores(scores) if isinstance(scores, Tensor) else scores
    num_rows, num_items = scores.shape
    k = min(k, num_items)
    if k == 0 or num_rows == 0:
        empty = scores.data.new_empty((num_rows, k))
        return empty, empty.long()
    return get_kernel(scores.data.device).top_k(scores, k)
