"""Accuracy by the gains of the relevant items, discounted by position."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from weft.batch.batch import GAINS
from weft.batch.topk import TopK
from weft.errors import check_choice
from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.registry import register


@register
class nDCG(AccuracyMetric):  # noqa: N801 - the paper's name
    """Discounted cumulative gain, Σ g_p / log2(p + 1), over that of the best possible list.

    `gain` is the value of a relevant item of rating r: `"exponential"` 2^r - 1, `"linear"` r,
    `"binary"` 1, `"exponential_shifted"` 2^(r+1) - 1. `ideal`: the best list `"cut"` at k, `"full"`
    (not cut), or `"k"`: k relevant items even if the user has fewer, the missing ones with the gain
    of a rating of 1.

    Edge cases: ratings below the relevance threshold have gain 0; positions after the end of a list
    add 0; ratings whose gain overflows are refused; a user without a relevant item is left out.

    Example: ratings 3 and 1 are at positions 2 and 1: (1/1 + 7/1.585) / (7/1 + 1/1.585).

    >>> import torch, weft
    >>> metric = weft.metrics.nDCG(k=2)
    >>> metric.update(torch.tensor([[0.5, 0.9, 0.1]]), torch.tensor([[3, 1, 0]]))
    >>> metric.compute()
    tensor(0.7098, dtype=torch.float64)
    """

    reference = (
        "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques, "
        "doi 10.1145/582415.582418"
    )

    def __init__(
        self, k: int, *, gain: str = "exponential", ideal: str = "cut", **settings: Any
    ) -> None:
        super().__init__(k, **settings)
        self.gain = check_choice("gain", gain, GAINS)
        self.ideal = check_choice("ideal", ideal, ("cut", "full", "k"))

    def user_values(self, topk: TopK) -> Tensor:
        if self.ideal == "full":
            return topk.dcg(self.gain) / topk.full_ideal_dcg(self.gain)
        missing_gain = 0.0
        if self.ideal == "k":  # the gain of a rating of 1
            missing_gain = 3.0 if self.gain == "exponential_shifted" else 1.0
        return topk.dcg(self.gain) / topk.ideal_dcg(self.gain, missing_gain=missing_gain)


@register
class nDCGRendle2020(AccuracyMetric):  # noqa: N801 - its name in other tools
    """nDCG with binary gain: a relevant item counts 1, whatever its rating.

    Edge cases: as for nDCG.

    Example: the only relevant item is at position 2: 1 / log2(3).

    >>> import torch, weft
    >>> metric = weft.metrics.nDCGRendle2020(k=2)
    >>> metric.update(torch.tensor([[0.5, 0.9, 0.1]]), torch.tensor([[5, 0, 0]]))
    >>> metric.compute()
    tensor(0.6309, dtype=torch.float64)
    """

    reference = (
        "Krichene and Rendle (2020), On sampled metrics for item recommendation, "
        "doi 10.1145/3394486.3403226"
    )

    def user_values(self, topk: TopK) -> Tensor:
        return topk.dcg("binary") / topk.ideal_dcg("binary")
