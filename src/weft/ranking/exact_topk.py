"""The exact top k of every row by (score descending, item index ascending), on any device.

Only blocks with one of the best maxima can hold a top-k item, so that most of a row is read once
and never sorted."""

from __future__ import annotations

from torch import Tensor

from weft.ranking.kernels import get_kernel


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best scores of each row of `scores [batch, items]`, and their item indices.

    Both are `[batch, min(k, items)]`. Equal scores go by item index, lower first; -0.0 equals 0.0.
    A row with NaN begins with one.

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
