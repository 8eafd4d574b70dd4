"""Hiding what may not be recommended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from weft.data.rows import SparseRows


@contextmanager
def hidden(scores: Tensor, cells: SparseRows | None) -> Iterator[tuple[Tensor, Tensor | None]]:
    """The scores with `-inf` at the cells, which get their values back at the end; and these values.

    In place, because a copy would double the memory of a batch. Only scores that cannot be written to are copied: rows that
    share memory, and inference tensors outside inference mode.
    """
    scores = scores.contiguous()
    if cells is None or len(cells.items) == 0:
        yield scores, None
        return
    if scores.is_inference() and not torch.is_inference_mode_enabled():
        scores = scores.clone()
    # `.data`: the values come back, so autograd need not know that they were away.
    flat = scores.data.view(-1)
    kept = flat.index_select(0, cells.keys)
    if cells.counted is None:
        flat.scatter_(0, cells.keys, torch.full_like(kept, -torch.inf))  # a tensor is written several times faster than a number
    else:  # a cell that does not count may have the place of one that does
        flat.scatter_reduce_(0, cells.keys, torch.where(cells.counted, -torch.inf, torch.inf).to(kept.dtype), "amin")
    try:
        yield scores, kept
    finally:
        flat.scatter_(0, cells.keys, kept)
