"""Unit vectors of items: their products are cosines."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.data.devices import float_type
from weft.data.numbers import Numbers


def unit_vectors(vectors: Numbers, items: Tensor) -> tuple[Tensor, Tensor]:
    """Return the unit vectors `[*items, d]` of items (-1: none), and whether they exist.

    Vectors that are missing or of length 0 have none, and are 0 here."""
    values = vectors.lookup(items).to(float_type(items.device))
    norm = values.norm(dim=-1, keepdim=True)
    exists = norm > 0  # False for NaN
    return torch.where(exists, values / norm, 0), exists[..., 0]
