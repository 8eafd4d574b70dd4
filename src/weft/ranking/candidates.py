"""Which items a user's list is ranked from: all of them, those given, or the relevant ones among sampled negatives."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Drawn:
    """How many negatives stand among the candidates of each user, and how many there were to draw from, `[batch]` both."""

    negatives: Tensor
    eligible: Tensor
