"""Rank-biased precision: a reader who goes on to the next position with a fixed probability."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import torch
from torch import Tensor

from weft._choices import choices
from weft.batch.topk import TopK
from weft.errors import SettingError, check_bool, check_choice, check_float
from weft.metrics.accuracy.base import AccuracyMetric, check_max_grade
from weft.metrics.parameter_types import RbpRelevance
from weft.metrics.registry import register

MOFFAT = (
    "Moffat and Zobel (2008), Rank-biased precision for measurement of retrieval effectiveness, "
    "doi 10.1145/1416950.1416952"
)


def check_persistence(p: float) -> float:
    """Return the probability of going on, between 0 and 1. Raises `SettingError`."""
    if not 0 < check_float("p", p, more=" between 0 and 1") < 1:
        raise SettingError(f"got p={p!r}; it must be a number between 0 and 1.")
    return float(p)


@register
class RBP(AccuracyMetric):
    r"""Rank-biased precision: (1 - p) times the sum of p^(position - 1) over the hits.

    Formula: \mathrm{RBP}_u = (1 - \varphi) \sum_{q=1}^{|L_u|} [i_q \in R_u] \, \varphi^{q-1},
    \qquad \varphi = 0.8

    φ is the parameter `p`, the probability that the user continues to the next position.

    Parameters:
        p: Probability φ that the user continues to the next position, between 0 and 1.
        relevance: Value of a hit: `"binary"` is 1, and `"graded"` is its rating, divided by
            `max_grade` if that is given.
        max_grade: Highest rating of the scale, a number above 0, only with `relevance="graded"`. A
            rating above it is an error. Without it, ratings are not divided, and the value may
            exceed 1.
        normalize: True divides by the value of a list that begins with min(|R|, |L|) hits, so that
            a perfect list reaches 1; only with `relevance="binary"`.

    Use: it is the expected rate of relevant items for a user who continues with a fixed
    probability, about 1 / (1 - p) positions on average. Choose `p` from the behaviour of users: 0.5
    for impatient, 0.95 for patient ones. It does not depend on |R|, and RBPResidual bounds the
    effect of items without a judgement; use nDCG if a perfect list should reach 1.

    Related: RBPResidual, nDCG, ERR, Precision.

    Edge cases: a perfect list does not reach 1 unless it is normalized; an empty list counts 0;
    users without a relevant item are excluded.

    Example: hits are at positions 1 and 3: 0.5 · (1 + 0.5²).

    >>> import torch, weft
    >>> metric = weft.metrics.RBP(k=3, p=0.5)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 1, 0]]))
    >>> metric.compute()
    tensor(0.6250, dtype=torch.float64)
    """

    hit_sum = "normalized"
    reference = MOFFAT

    def __init__(
        self,
        k: int,
        *,
        p: float = 0.8,
        relevance: RbpRelevance = "binary",
        max_grade: float | None = None,
        normalize: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.p = check_persistence(p)
        self.relevance = check_choice("relevance", relevance, choices(RbpRelevance))
        self.max_grade = None if max_grade is None else check_max_grade(max_grade)
        self.normalize = check_bool("normalize", normalize)
        if self.relevance == "graded" and max_grade is None:
            self.bounds = (0.0, None)
        if self.relevance == "binary" and max_grade is not None:
            raise SettingError(
                f"got max_grade={max_grade!r} with relevance='binary', which does not use it; "
                "remove it, or use relevance='graded'."
            )
        if self.normalize and self.relevance == "graded":
            raise SettingError(
                "got normalize=True with relevance='graded', which has no normalized form; remove "
                "it, or use relevance='binary'."
            )
        if self.normalize:  # the length is that of the list of candidates
            self.sampling_behaviour = "candidates"

    def used_gains(self) -> Set[str]:
        return {"linear"} if self.relevance == "graded" else set()

    def user_values(self, topk: TopK) -> Tensor:
        weights, positions = self.p ** (topk.positions - 1), topk.relevant_positions
        if self.relevance == "graded":
            grades = topk.batch.gains("linear")
            if self.max_grade is not None:
                topk.batch.validation.check_max_grade(topk.batch.relevant, self.max_grade)
                grades = grades / self.max_grade
            return (1 - self.p) * positions.gains(topk.cutoffs, grades, weights)
        values = (1 - self.p) * positions.hits(topk.cutoffs, weights)
        if not self.normalize:
            return values
        best = torch.minimum(topk.num_relevant, topk.list_length).clamp(min=1)
        return values / (1 - self.p**best)
