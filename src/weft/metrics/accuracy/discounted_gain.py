"""Accuracy by the gains of the relevant items, discounted by position."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft._choices import Discount, choices
from weft.batch.gains import DISCOUNTS, GainSetting, check_gain, compute_gain
from weft.batch.topk import TopK
from weft.errors import check_choice
from weft.metrics.accuracy.base import AccuracyMetric, resolve_alias
from weft.metrics.base.metric import Bounds
from weft.metrics.parameter_types import IdealList
from weft.metrics.registry import register

_JARVELIN = (
    "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques, "
    "doi 10.1145/582415.582418"
)


class _DiscountedGain(AccuracyMetric):
    """A metric with the parameters `gain` (alias `gains`) and `discount`."""

    reference = _JARVELIN
    parameter_aliases = {"gains": "gain"}

    def __init__(
        self,
        k: int,
        *,
        gain: GainSetting = "exponential",
        discount: Discount = "log",
        **settings: Any,
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
    r"""Discounted cumulative gain: the sum of gain / log2(p + 1) over the positions p of the list.

    Formula: \mathrm{DCG}_u = \sum_{p=1}^{|L_u|} g_p \, d_p = \sum_{p=1}^{|L_u|} \frac{g_p}{\log_2(p
    + 1)}

    Parameters:
        gain, discount: As in nDCG.

    Use: it is the unnormalized total, for comparison with tools that report it. Users with many
    relevant items or high ratings dominate the mean, and values of different data sets are not
    comparable; use nDCG for both.

    Related: nDCG, IPSDCG, ERR.

    Edge cases: an empty list counts 0; the value grows with the number of relevant items; users
    without a relevant item are excluded.

    Example: ratings 1 and 2 are at positions 1 and 3, with gains 1 and 3: 1 / 1 + 3 / 2.

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
    r"""Normalized discounted cumulative gain: the sum of gain / log2(p + 1) over the positions p of
    the list, divided by that of the best possible list.

    Formula: \mathrm{nDCG}_u = \frac{\sum_{p=1}^{|L_u|} g_p \, d_p} {\sum_{p=1}^{\min(|R_u|, k)}
    g^*_p \, d_p}, \qquad g_p = 2^{r_{u i_p}} - 1, \quad d_p = \frac{1}{\log_2(p + 1)}

    Symbols: $g^*_p$ is the p-th largest gain among all relevant items of the user.

    Parameters:
        gain: Gain of a relevant item with rating r: `"exponential"` is 2^r - 1, `"linear"` is r,
            `"binary"` is 1, and `"exponential_shifted"` is 2^(r+1) - 1. In nDCG and DCG it can also
            be the gains of single ratings, `{1: 3, 2: 9}`, or `[[1, 3], [2, 9]]` in a name; other
            ratings are then their own gain, and `gains` is an alias.
        ideal: Best list, by which the value is divided: `"cut"` has the k largest gains of the
            user, `"full"` those of all relevant items, and `"k"` has k gains even if the user has
            fewer relevant items, where each missing one has the gain of a rating of 1.
        discount: Weight of position p: `"log"` is 1 / log2(p + 1), `"capped_log"` is 1 /
            max(log2(p), 1), as in the reference and in LensKit, and `"reciprocal"` is 1 / p.

    Use: it evaluates the order of a list with binary or graded relevance, and is the usual main
    metric of top-k recommendation. The exponential gain lets the highest ratings dominate; use
    `gain="linear"` or `"binary"` if ratings are counts or other large numbers. A single value does
    not tell whether items are missing or in a poor order; report Recall with it.

    Related: DCG, nDCGRendle2020, MAP, ERR, Recall, alpha_nDCG.

    Edge cases: ratings below the relevance threshold have gain 0; positions after the end of a list
    add 0; ratings with a gain that overflows are an error; a user with relevant items that all have
    gain 0 is undefined; users without a relevant item are excluded.

    Example: ratings 1 and 3 are at positions 1 and 2: (1/1 + 7/1.585) / (7/1 + 1/1.585).

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
        ideal: IdealList = "cut",
        discount: Discount = "log",
        **settings: Any,
    ) -> None:
        super().__init__(k, gain=gain, discount=discount, **settings)
        self.ideal = check_choice("ideal", ideal, choices(IdealList))
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
    r"""nDCG with binary gain: each relevant item counts 1, whatever its rating.

    Formula: \mathrm{nDCGRendle2020}_u = \frac{\sum_{p=1}^{|L_u|} [i_p \in R_u] \, d_p}
    {\sum_{p=1}^{\min(|R_u|, k)} d_p}

    Use: it is the nDCG of implicit feedback, and gives the same value for implicit and explicit
    data. It equals `nDCG(gain=binary)`; the name exists because other tools use it. Use nDCG if the
    size of ratings matters.

    Related: nDCG, NCRR, MAP.

    Edge cases: positions after the end of a list add 0; users without a relevant item are excluded.

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
    r"""Normalized cumulative reciprocal rank: the sum of 1 / p over the hits, divided by that of
    the best possible list.

    Formula: \mathrm{NCRR}_u = \frac{\sum_{p=1}^{|L_u|} [i_p \in R_u] \, \frac{1}{p}}
    {\sum_{p=1}^{\min(|R_u|, k)} \frac{1}{p}}

    It is nDCG with binary gain and the discount 1 / p.

    Use: it extends MRR to all hits, and weighs the first positions more than nDCG does. Use MRR if
    only the first hit matters, and nDCG for graded relevance or for comparison with published
    results, which rarely report this metric.

    Related: MRR, nDCG, nDCGRendle2020.

    Edge cases: a list without a hit counts 0; users without a relevant item are excluded.

    Example: the two relevant items are at positions 1 and 3: (1/1 + 1/3) / (1/1 + 1/2).

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
