"""Masking of scores in place, for the duration of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from weft.data.tensors import SparseRows
from weft.ranking.kernels import get_kernel


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
