"""Three small classic recommenders for the demo and the examples.

Each is fitted on a SciPy CSR matrix `[users, items]` with positive stored values (1, or ratings).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import csr_matrix  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor


def popularity(train: csr_matrix) -> Callable[[np.ndarray | Tensor], Tensor]:
    """Score every item by its number of train interactions, for all users alike.

    Returns a function from row numbers `[batch]` to scores `[batch, items]`, float32, with many
    ties.
    """
    counts = torch.from_numpy(train.getnnz(axis=0)).to(torch.float32)
    return lambda rows: counts.repeat(len(rows), 1)


def item_knn(train: csr_matrix, neighbours: int = 100) -> Tensor:
    """Return scores `[users, items]`, float32, of item-based neighbours (Sarwar et al. 2001).

    The score of an item is the sum of similarity times the user's value, over those of its
    `neighbours` most cosine-similar items that the user has. The result is dense: for small data.
    """
    ratings = torch.from_numpy(train.toarray()).to(torch.float32)
    columns = torch.nn.functional.normalize(ratings, dim=0)
    similarity = (columns.T @ columns).fill_diagonal_(0)
    nearest = similarity.topk(min(neighbours, len(similarity)), dim=0)
    return ratings @ torch.zeros_like(similarity).scatter_(0, nearest.indices, nearest.values)


def factor_model(
    train: csr_matrix,
    dimensions: int = 32,
    *,
    confidence: float = 1.0,
    regularisation: float = 10.0,
    sweeps: int = 8,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Factorize implicit feedback by alternating least squares (Hu, Koren and Volinsky 2008).

    Returns user `[users, dimensions]` and item `[items, dimensions]` embeddings, float32; a score
    is their dot product. A stored value r has the target 1 with weight 1 + `confidence` * r, all
    other pairs have the target 0 with weight 1. `sweeps` is how often users and items are fitted,
    one or more.
    """
    weights = (train * confidence).astype(np.float32)
    weights_by_item = weights.T.tocsr()
    generator = torch.Generator().manual_seed(seed)
    items = torch.randn(train.shape[1], dimensions, generator=generator) / dimensions**0.5
    for _ in range(sweeps):
        users = _least_squares(weights, items, regularisation)
        items = _least_squares(weights_by_item, users, regularisation)
    return users, items


def _least_squares(extra_weights: csr_matrix, fixed: Tensor, regularisation: float) -> Tensor:
    """Return row embeddings `[rows, dimensions]` that fit best to the `fixed` column embeddings."""
    dimensions = fixed.shape[1]
    outer = (fixed[:, :, None] * fixed[:, None, :]).flatten(1)
    # As in the paper: the Gram matrix of all columns once, plus the few stored entries of each row.
    gram = torch.from_numpy(extra_weights @ outer.numpy()).view(-1, dimensions, dimensions)
    gram += fixed.T @ fixed + regularisation * torch.eye(dimensions)
    liked = extra_weights.copy()
    liked.data += 1
    embeddings: Tensor = torch.linalg.solve(gram, torch.from_numpy(liked @ fixed.numpy()))
    return embeddings
