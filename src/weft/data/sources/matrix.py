"""A score matrix as the source of an evaluation."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.sources.base import as_tensor, check_scores, digest_samples
from weft.data.topk_items import check_no_item_ids
from weft.errors import InputError


class ScoreMatrix:
    """Scores `[users, items]`, torch or NumPy; batches are views, or converted one by one.

    Masked cells of a NumPy masked array are -inf."""

    kind = "score matrix"
    user_ids: Any = None
    item_ids: Any = None
    path: str | None = None
    supports_item_subsets = True

    def __init__(self, scores: Any) -> None:
        check_scores(scores, "the score matrix")
        if scores.ndim != 2:
            raise InputError(
                f"the score matrix has shape {list(scores.shape)}; expected [users, items]."
            )
        check_no_item_ids(scores)
        self._scores = scores
        self._rows: NDArray[np.int64] | None = None  # None: all rows
        self.has_scores_in_memory = _supports_views(scores)
        self.num_users: int | None = scores.shape[0]
        self.num_items: int | None = scores.shape[1]

    def scores(self, start: int, stop: int, users: Any, items: Any = None) -> Tensor:
        """Return the scores of all items; see `Source`."""
        rows = slice(start, stop) if self._rows is None else self._rows[start:stop]
        return as_tensor(self._scores[rows], "the score matrix")

    def scores_for_items(self, rows: Tensor, users: Any, items: Tensor, ids: Any) -> Tensor:
        """Return the scores of some items of each row; see `Source`."""
        if self._rows is not None:
            rows = torch.from_numpy(self._rows[rows.numpy()])
        if isinstance(self._scores, Tensor):
            rows, items = rows.to(self._scores.device), items.to(self._scores.device)
            return as_tensor(self._scores[rows[:, None], items], "the score matrix")
        return as_tensor(self._scores[rows.numpy()[:, None], items.numpy()], "the score matrix")

    def select_users(self, rows: NDArray[np.int64]) -> ScoreMatrix:
        """Return a source of some rows, which are copied batch by batch."""
        selected = copy(self)
        selected._rows, selected.num_users, selected.has_scores_in_memory = rows, len(rows), False
        return selected

    def fingerprint(self) -> str:
        """Return a digest of a sample of the scores."""
        return digest_samples(self._scores)


def _supports_views(scores: Any) -> bool:
    """True if rows can be used without copying: contiguous floating-point numbers."""
    if isinstance(scores, Tensor):
        return scores.is_floating_point() and scores.is_contiguous()
    if np.ma.is_masked(scores):
        return False
    return bool(scores.dtype.kind == "f" and scores.dtype.isnative and scores.flags.c_contiguous)
