"""Accuracy by the gains of the relevant items, discounted by position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from weft.batch.gains import DISCOUNTS, check_gain, compute_gain
from weft.batch.topk import TopK
from weft.errors import check_choice
from weft.metrics.accuracy.base import AccuracyMetric, resolve_alias
from weft.metrics.base.metric import Bounds
from weft.metrics.registry import register

_JARVELIN = (
    "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques, "
    "doi 10.1145/582415.582418"
)
GainSetting = str | Mapping[float, float] | Iterable[tuple[float, float]]


class _DiscountedGain(AccuracyMetric):
    """A metric with the parameters `gain` (alias `gains`) and `discount`."""

    reference = _JARVELIN
    parameter_aliases = {"gains": "gain"}

    def __init__(
        self, k: int, *, gain: GainSetting = "exponential", discount: str = "log", **settings: Any
    ) -> None:
        gain = resolve_alias(
            type(self).__name__,
            ("gain", "gains"),
            value=gain,
            default="exponential",
            settings=settings,
        )
        super().__init__(k, **settings)
        self.gain = check_gain(gain)
        self.discount = check_choice("discount", discount, DISCOUNTS)


@register
class DCG(_DiscountedGain):
    """Discounted cumulative gain: the sum over the list of g_p / log2(p + 1).

    `gain` and `discount` are those of nDCG.

    Edge cases: an empty list counts 0; the value grows with the number of relevant items, so that
    users with many of them weigh most; a user without a relevant item is left out.

    Example: ratings 1 and 2 are at positions 1 and 3: 1 / 1 + 3 / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.DCG(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 2]]))
    >>> metric.compute()
    tensor(2.5000, dtype=torch.float64)
    """

    hit_sum = "plain"
    bounds: Bounds = (0.0, None)

    def user_values(self, topk: TopK) -> Tensor:
        return topk.dcg(self.gain, self.discount)


@register
class nDCG(_DiscountedGain):  # noqa: N801 - the paper's name
    """Discounted cumulative gain, Σ g_p / log2(p + 1), over that of the best possible list.

    `gain` is the value of a relevant item of rating r: `"exponential"` 2^r - 1, `"linear"` r,
    `"binary"` 1, `"exponential_shifted"` 2^(r+1) - 1; or it gives the gains of ratings, `{1: 3, 2:
    9}` (in a name `[[1, 3], [2, 9]]`; `gains` is an alias), where other ratings are their own gain.
    `discount` of position p: `"log"` 1 / log2(p + 1), `"capped_log"` 1 / max(log2(p), 1), as in the
    reference and in LensKit, or `"reciprocal"` 1 / p. `ideal`: the best list `"cut"` at k, `"full"`
    (not cut), or `"k"`: k relevant items even if the user has fewer, the missing ones with the gain
    of a rating of 1.

    Edge cases: ratings below the relevance threshold have gain 0; positions after the end of a list
    add 0; ratings with a gain that overflows are refused; undefined for a user with relevant items
    of gain 0 only; a user without a relevant item is left out.

    Example: ratings 3 and 1 are at positions 2 and 1: (1/1 + 7/1.585) / (7/1 + 1/1.585).

    >>> import torch, weft
    >>> metric = weft.metrics.nDCG(k=2)
    >>> metric.update(torch.tensor([[0.5, 0.9, 0.1]]), torch.tensor([[3, 1, 0]]))
    >>> metric.compute()
    tensor(0.7098, dtype=torch.float64)
    """

    hit_sum = "normalized"
    undefined = "no user has a relevant item with a gain above 0"

    def __init__(
        self,
        k: int,
        *,
        gain: GainSetting = "exponential",
        ideal: str = "cut",
        discount: str = "log",
        **settings: Any,
    ) -> None:
        super().__init__(k, gain=gain, discount=discount, **settings)
        self.ideal = check_choice("ideal", ideal, ("cut", "full", "k"))
        # Of positions without a relevant item; not computed in `update`, which reads no values.
        rating_of_1 = torch.ones(1, dtype=torch.float64)
        self._missing_gain = (
            compute_gain(rating_of_1, self.gain).item() if self.ideal == "k" else 0.0
        )

    def user_values(self, topk: TopK) -> Tensor:
        dcg = topk.dcg(self.gain, self.discount)
        if self.ideal == "full":
            return dcg / topk.full_ideal_dcg(self.gain, self.discount)
        return dcg / topk.ideal_dcg(self.gain, self.discount, missing_gain=self._missing_gain)


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

    hit_sum = "normalized"
    reference = (
        "Krichene and Rendle (2020), On sampled metrics for item recommendation, "
        "doi 10.1145/3394486.3403226"
    )

    def user_values(self, topk: TopK) -> Tensor:
        return topk.dcg("binary") / topk.ideal_dcg("binary")


@register
class NCRR(AccuracyMetric):
    """Cumulated reciprocal rank: the sum of 1 / p over the hits, over that of the best possible
    list.

    It is nDCG with binary gain and the discount 1 / p.

    Edge cases: a list without a hit counts 0; a user without a relevant item is left out.

    Example: hits at positions 1 and 3 of two relevant items: (1/1 + 1/3) / (1/1 + 1/2).

    >>> import torch, weft
    >>> metric = weft.metrics.NCRR(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 1, 0]]))
    >>> metric.compute()
    tensor(0.8889, dtype=torch.float64)
    """

    hit_sum = "normalized"
    reference = (
        "Cornac's metric: Truong, Salah and Lauw (2021), Multi-modal recommender systems: hands-on "
        "exploration, doi 10.1145/3460231.3473324"
    )

    def user_values(self, topk: TopK) -> Tensor:
        return topk.dcg("binary", "reciprocal") / topk.ideal_dcg("binary", "reciprocal")
