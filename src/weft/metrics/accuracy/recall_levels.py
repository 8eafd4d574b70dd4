"""Accuracy by the precision at levels of recall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from weft._choices import choices
from weft.batch.topk import TopK
from weft.errors import SettingError, check_choice, check_float
from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.parameter_types import Rounding
from weft.metrics.registry import register

_ELEVEN_LEVELS = tuple(number / 10 for number in range(11))
_ROUNDING = 1e-9  # of a level of recall times |R|


@register
class IPrec(AccuracyMetric):
    r"""Interpolated precision: the highest precision at any position with at least a given recall,
    averaged over levels of recall.

    Formula: \mathrm{IPrec}_u = \frac{1}{11} \sum_{\lambda \in \{0, 0.1, \dots, 1\}} \; \max_{p \le
    |L_u| : \, h_p \ge \lambda |R_u|} \frac{h_p}{p}

    The maximum is 0 if the list does not reach the level λ.

    Parameters:
        recall: Level λ from 0 to 1, or several levels, over which the precision is averaged. The
            default levels, 0, 0.1, ..., 1, give the 11-point average precision.
        rounding: Conversion of λ |R| to an integer: `"up"` rounds up, and `"nearest"` rounds to the
            nearest integer, halves up, as in trec_eval 10.

    Use: it describes the precision-recall curve, as TREC reports do: one level answers how precise
    a list is at the position where it has found that part of the relevant items. It needs lists
    that are long compared with |R|, since levels that a list does not reach count 0; use MAP or
    nDCG for short lists. With one relevant item per user all levels are the same and it equals MRR.

    Related: MAP, Precision, Recall, RPrecision.

    Edge cases: 0 at a level that the list does not reach; with `ties="expected"` ties are broken at
    random, because there is no closed form; users without a relevant item are excluded.

    Example: the two relevant items are at positions 1 and 4, and a recall of 1 is reached with a
    precision of 2/4.

    >>> import torch, weft
    >>> metric = weft.metrics.IPrec(k=4, recall=1.0)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.3, 0.1]]), torch.tensor([[1, 0, 0, 1]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    has_expected_tie_form = False
    sampling_behaviour = "candidates"
    reference = (
        "Manning, Raghavan and Schütze (2008), Introduction to information retrieval, "
        "doi 10.1017/CBO9780511809071"
    )

    def __init__(
        self,
        k: int,
        *,
        recall: float | Sequence[float] = _ELEVEN_LEVELS,
        rounding: Rounding = "up",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.rounding = check_choice("rounding", rounding, choices(Rounding))
        several = isinstance(recall, Sequence) and not isinstance(recall, str)
        levels = tuple(map(_check_level, recall if several else (recall,)))  # type: ignore[arg-type]
        if not levels:
            raise SettingError("got recall=[]; give at least one level of recall.")
        self.recall = levels if several else levels[0]
        self._levels = levels

    def user_values(self, topk: TopK) -> Tensor:
        hits = topk.batch.observed_positions.per_position(topk.batch.relevant.valid_ones)
        num_hits = hits.cumsum(1)
        precision = num_hits / topk.positions
        columns = [
            self._mean_precision(precision[:, :k], num_hits[:, :k], topk.num_relevant)
            for k in topk.cutoffs
        ]
        return torch.cat(columns, dim=1)

    def _mean_precision(self, precision: Tensor, num_hits: Tensor, num_relevant: Tensor) -> Tensor:
        """Return the mean over the levels, `[batch, 1]`, from values by position `[batch, k]`."""
        best = precision.flip(1).cummax(1).values.flip(1)  # at each position, and all after it
        best = torch.nn.functional.pad(best, (0, 1))  # a level that is not reached
        values = torch.zeros_like(num_relevant)
        for level in self._levels:
            needed = level * num_relevant
            if self.rounding == "up":
                needed = torch.ceil(needed - _ROUNDING)
            else:
                needed = torch.floor(needed + 0.5)
            first = (num_hits < needed.clamp(min=1)).sum(1, keepdim=True)
            values = values + best.gather(1, first)
        return values / len(self._levels)


def _check_level(level: float) -> float:
    """Return a level of recall, from 0 to 1. Raises `SettingError`."""
    expected = " from 0 to 1, or a list of such numbers"
    if not 0 <= check_float("recall", level, more=expected) <= 1:
        raise SettingError(f"got recall={level!r}; it must be a number{expected}.")
    return float(level)
