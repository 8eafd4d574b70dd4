"""Weights of positions: how likely a user is to look at each position of a list."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weft._choices import choices
from weft.errors import SettingError, check_choice, check_float, setting_ref
from weft.metrics.parameter_types import BrowsingWeight

WEIGHTS = choices(BrowsingWeight)
DEFAULT_P = 0.85


@dataclass(frozen=True)
class BrowsingModel:
    """The weight of position r, from 1: 1 ("uniform"), p^(r - 1) ("geometric"), 1 / log2(r + 1)
    ("log") or 1 / r ("reciprocal").

    Raises `SettingError` for another `weight`, and unless `p` is between 0 and 1."""

    weight: str
    p: float = DEFAULT_P

    def __post_init__(self) -> None:
        number = float(check_float("p", self.p, more=" between 0 and 1"))
        if not 0 < number < 1:
            raise SettingError(f"{setting_ref('p', self.p)}; it must be a number between 0 and 1.")
        weight = check_choice("weight", self.weight, WEIGHTS)
        object.__setattr__(self, "weight", weight)
        # Without an effect otherwise: models that are equal have equal names.
        object.__setattr__(self, "p", number if weight == "geometric" else DEFAULT_P)

    def weights(self, positions: Tensor) -> Tensor:
        """Return the weights of positions, of the same shape."""
        if self.weight == "uniform":
            return torch.ones_like(positions)
        if self.weight == "geometric":
            return self.p ** (positions - 1)
        return 1 / (torch.log2(positions + 1) if self.weight == "log" else positions)
