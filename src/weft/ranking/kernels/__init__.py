"""Kernels: the operations that read all scores, in one module per kind of device.

`any_device` is torch alone, with fixed shapes. `numpy_cpu` is several times faster on the CPU.
`native_cpu` is compiled, faster still, and available if a C++ compiler was present at installation.
All give bit-equal answers. `top_k` and `masked_scores` use the kernel of the scores' device."""

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


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best scores of each row of `scores [batch, items]`, and their item indices.

    Both are `[batch, min(k, items)]`. Equal scores go by item index, lower first; -0.0 equals 0.0.
    A row with NaN begins with one. Only blocks with one of the best maxima can hold a top-k item,
    so that most of a row is read once and never sorted.

    >>> import torch
    >>> values, items = top_k(torch.tensor([[0.5, 0.9, 0.5, 0.1]]), 3)
    >>> items
    tensor([[1, 0, 2]])
    """
    k = min(k, scores.shape[1])
    if k == 0 or len(scores) == 0:
        empty = scores.new_empty((len(scores), k))
        return empty, empty.long()
    return get_kernel(scores.device).top_k(scores, k)


@contextmanager
def masked_scores(
    scores: Tensor, interactions: SparseRows | None
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Set scores to `-inf` at some interactions until the context ends.

    Yield the masked scores and the masked values `[n]` (None if there are none). The scores are
    changed in place, since a copy would double the memory of a batch, and restored on every exit.
    Only scores that cannot be written to are copied: rows that share memory, and inference tensors
    outside inference mode."""
    scores = scores.contiguous()
    if interactions is None or len(interactions.items) == 0:
        yield scores, None
        return
    if scores.is_inference() and not torch.is_inference_mode_enabled():
        scores = scores.clone()
    # `.data`: autograd need not record a change that is undone.
    data, kernel = scores.data, get_kernel(scores.device)
    hidden = kernel.mask(data, interactions)
    try:
        yield scores, hidden
    finally:
        kernel.unmask(data, interactions, hidden)
