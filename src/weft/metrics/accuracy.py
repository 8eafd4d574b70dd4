"""Accuracy: how well the lists find the relevant items. Higher is better.

`L` is the list of a user cut at k, `R` the user's relevant items. Users without a relevant item are
left out. Each formula computes all cut-offs at once: its quantities are `[batch, cut-offs]`. The
metrics of the ROC curve are in `weft.metrics.roc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from weft.batch.batch import GAINS
from weft.batch.topk import TopK
from weft.errors import SettingError, check_choice, check_float
from weft.metrics.base.composites import CompositeMetric
from weft.metrics.base.formulas import UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.names import MetricSpec
from weft.metrics.registry import register

_HERLOCKER = (
    "Herlocker et al. (2004), Evaluating collaborative filtering recommender systems, "
    "doi 10.1145/963770.963772"
)


class AccuracyMetric(UserAverageTopKMetric):
    """The common properties of accuracy metrics with a cut-off."""

    family = "accuracy"
    has_expected_tie_form = True
    sampling_behaviour = "corrected"
    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)
    undefined = "no user has a relevant item"

    @property
    def has_reference_values(self) -> bool:  # type: ignore[override]
        """True for formulas over positions; authors' blocks describe the lists of the model."""
        return self.has_expected_tie_form and not self.takes_blocks()


@register
class Precision(AccuracyMetric):
    """The share of the list that is relevant: hits / k.

    `denominator="list"` divides by the length of the list where it is shorter than k (0 for an
    empty list).

    Edge cases: a list shorter than k counts as if filled up with misses; a user without a relevant
    item is left out.

    Example: items 0 and 2 rank first, 0 and 1 are relevant.

    >>> import torch, weft
    >>> metric = weft.metrics.Precision(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    reference = _HERLOCKER

    def __init__(self, k: int, *, denominator: str = "k", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.denominator = check_choice("denominator", denominator, ("k", "list"))
        if self.denominator == "list":  # the length is that of the list of candidates
            self.sampling_behaviour = "candidates"

    def user_values(self, topk: TopK) -> Tensor:
        return topk.hits / (topk.k if self.denominator == "k" else topk.list_length.clamp(min=1))


@register
class Recall(AccuracyMetric):
    """The share of the relevant items that are in the list: hits / |R|.

    `normalizer="capped"` divides by min(|R|, k), so that a perfect list reaches 1 for every user.

    Edge cases: relevant items that are not candidates, because they are masked or have no score,
    count in |R|; a user without a relevant item is left out.

    Example: of the relevant items 0, 1 and 2 the list holds 0.

    >>> import torch, weft
    >>> metric = weft.metrics.Recall(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.2, 0.5]]), torch.tensor([[1, 1, 1, 0]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    reference = _HERLOCKER

    def __init__(self, k: int, *, normalizer: str = "relevant", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.normalizer = check_choice("normalizer", normalizer, ("relevant", "capped"))

    def user_values(self, topk: TopK) -> Tensor:
        return topk.hits / (topk.num_relevant if self.normalizer == "relevant" else topk.max_hits)


@register
class HitRate(AccuracyMetric):
    """1 for a user with at least one relevant item in the list, else 0.

    Edge cases: an empty list has no hit; a user without a relevant item is left out.

    Example: the first user's list has a hit, the second's has none.

    >>> import torch, weft
    >>> metric = weft.metrics.HitRate(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    reference = (
        "Deshpande and Karypis (2004), Item-based top-N recommendation algorithms, "
        "doi 10.1145/963770.963776"
    )

    def user_values(self, topk: TopK) -> Tensor:
        return topk.first_hit()


@register
class MRR(AccuracyMetric):
    """The reciprocal rank of the first relevant item, 0 if the list has none.

    Edge cases: an empty list counts 0; a user without a relevant item is left out.

    Example: the first relevant item is at position 2.

    >>> import torch, weft
    >>> metric = weft.metrics.MRR(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[0, 1, 1]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    reference = (
        "Voorhees (1999), The TREC-8 question answering track report, "
        "doi 10.6028/NIST.SP.500-246.qa-overview"
    )

    def user_values(self, topk: TopK) -> Tensor:
        return topk.first_hit(1 / topk.positions)


@register
class MAP(AccuracyMetric):
    """Average precision: the precision at each hit, summed over the hits of the list and divided by
    min(|R|, k).

    `normalizer="relevant"` divides by |R| (as trec_eval), `"hits"` by the number of hits (as
    torchmetrics; 0 without a hit).

    Edge cases: a list without a hit counts 0, under every normalizer; a user without a relevant
    item is left out.

    Example: hits at positions 1 and 3 of two relevant items: (1/1 + 2/3) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.MAP(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 1, 0]]))
    >>> metric.compute()
    tensor(0.8333, dtype=torch.float64)
    """

    reference = (
        "Buckley and Voorhees (2000), Evaluating evaluation measure stability, "
        "doi 10.1145/345508.345543"
    )

    def __init__(self, k: int, *, normalizer: str = "capped", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.normalizer = check_choice("normalizer", normalizer, ("capped", "relevant", "hits"))
        if self.normalizer == "hits":  # not a sum over the relevant items
            self.sampling_behaviour = "candidates"

    def user_values(self, topk: TopK) -> Tensor:
        if self.normalizer == "hits":
            return topk.precision_per_hit()
        precision_at_hits = topk.cumulative_hits(1 / topk.positions)
        return precision_at_hits / (
            topk.max_hits if self.normalizer == "capped" else topk.num_relevant
        )


@register
class MAR(AccuracyMetric):
    """Average recall: the recall at each hit, summed over the hits of the list and divided by
    min(|R|, k).

    A perfect list reaches 1 only for a user with one relevant item: with |R| <= k it reaches (|R| +
    1) / (2 |R|).

    Edge cases: a list without a hit counts 0; a user without a relevant item is left out.

    Example: both relevant items are found, at recall 1/2 and 2/2: (0.5 + 1) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.MAR(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 1, 0]]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)
    """

    reference = (
        "The recall counterpart of average precision: Buckley and Voorhees (2000), "
        "doi 10.1145/345508.345543"
    )

    def user_values(self, topk: TopK) -> Tensor:
        return topk.cumulative_hits() / topk.num_relevant / topk.max_hits


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


@register
class F1(CompositeMetric):
    """The harmonic mean of two metrics, per user: (1 + β²) a b / (β² a + b), 0 where the
    denominator is 0.

    `metric_name_1`, `metric_name_2`: any two metrics that have a value per user, with parameters if
    needed (`"nDCG(gain=linear)"`); `beta` above 1 favours the second. A user for whom a component
    is undefined is left out.

    Edge cases: 0 where both components are 0; undefined where a component is.

    Example: precision 1/2 and recall 1 give 2 · 0.5 / 1.5.

    >>> import torch, weft
    >>> metric = weft.metrics.F1(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.6667, dtype=torch.float64)
    """

    family = "accuracy"
    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)
    undefined = (
        "for every user with a relevant item one of the two components is undefined, or there is "
        "no such user"
    )
    reference = (
        "van Rijsbergen (1979), Information Retrieval; Chinchor (1992), MUC-4 evaluation metrics, "
        "doi 10.3115/1072064.1072067"
    )
    parameter_aliases = {"metric_1": "metric_name_1", "metric_2": "metric_name_2"}

    def __init__(
        self,
        k: int,
        *,
        metric_name_1: str | MetricSpec = "Precision",
        metric_name_2: str | MetricSpec = "Recall",
        beta: float = 1.0,
        inputs: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        names = [
            _resolve_alias("1", metric_name_1, "Precision", settings),
            _resolve_alias("2", metric_name_2, "Recall", settings),
        ]
        super().__init__(k, **settings)
        if check_float("F1 got beta", beta, more=" above 0") <= 0:
            raise SettingError(f"F1 got beta={beta!r}; it must be a number above 0.")
        self.beta = float(beta)
        self._set_components(names, k=k, inputs=inputs, needs_user_values=True)
        self.metric_name_1, self.metric_name_2 = (one.name for one in self._components)
        highest = [high for one in self._components if (high := one.metric.bounds[1]) is not None]
        self.bounds = (0.0, max(highest) if len(highest) == 2 else None)

    def user_values(self, topk: TopK) -> Tensor:
        a, b = (component.user_values(topk) for component in self._components)
        denominator = self.beta**2 * a + b
        return torch.where(denominator == 0, 0, (1 + self.beta**2) * a * b / denominator)


def _resolve_alias(
    number: str, value: str | MetricSpec, default: str, settings: dict[str, Any]
) -> str | MetricSpec:
    """Return a component of F1 from `metric_name_N`, or from `metric_N`, removed from settings."""
    alias = settings.pop(f"metric_{number}", None)
    if alias is not None and value != default:
        raise SettingError(f"F1 got metric_name_{number} twice, once as metric_{number}; give one.")
    return value if alias is None else alias
