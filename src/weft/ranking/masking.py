"""Hiding what may not be recommended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from weft.data.rows import SparseRows
from weft.ranking.kernels import get_kernel


@contextmanager
def hidden(scores: Tensor, cells: SparseRows | None) -> Iterator[tuple[Tensor, Tensor | None]]:
    """The scores with `-inf` at the cells, which get their values back at the end; and these
    values.

    In place, because a copy would double the memory of a batch. Only scores that cannot be written
    to are copied: rows that share memory, and inference tensors outside inference mode."""
    scores = scores.contiguous()
    if cells is None or len(cells.items) == 0:
        yield scores, None
        return
    if scores.is_inference() and not torch.is_inference_mode_enabled():
        scores = scores.clone()
    # `.data`: the values come back, so autograd need not know that they were away.
    data, kernel = scores.data, get_kernel(scores.device)
    kept = kernel.hide(data, cells)
    try:
        yield scores, kept
    finally:
        kernel.show(data, cells, kept)
