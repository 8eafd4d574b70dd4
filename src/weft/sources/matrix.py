"""Scores that are already there, as one matrix."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from weft.errors import InputError
from weft.sources.base import as_tensor, sample_digest


class ScoreMatrix:
    """Scores `[users, items]`, torch or NumPy; batches are views of it."""

    kind = "score matrix"

    def __init__(self, scores: Any) -> None:
        self._scores = as_tensor(scores, "the score matrix")
        if self._scores.ndim != 2:
            raise InputError(f"the score matrix has shape {list(self._scores.shape)}; expected [users, items].")
        self.num_users: int | None = self._scores.shape[0]
        self.num_items: int | None = self._scores.shape[1]

    def scores(self, start: int, stop: int, users: Any) -> Tensor:
        return self._scores[start:stop]

    def fingerprint(self) -> str:
        return sample_digest(self._scores)
