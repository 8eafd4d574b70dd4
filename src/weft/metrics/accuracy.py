"""Accuracy: how well the lists find what users wanted. Higher is better.

`L` is a user's list cut at k, `R` their relevant items, `N` the offered items that are not
relevant. Users without a relevant item are left out. Each formula is written once for all cut-offs:
its quantities are `[batch, cut-offs]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torchmetrics.utilities import dim_zero_cat

from weft.batch.batch import GAINS, Batch
from weft.batch.topk import TopK
from weft.data.devices import float_type
from weft.errors import SettingError, check_choice, check_float
from weft.metrics.accumulators import Accumulator, PairWins, StateView
from weft.metrics.base.composites import ComponentMetric, combined_sampling_behaviour
from weft.metrics.base.formulas import (
    ComputedValue,
    SummedMetric,
    UserAverageTopKMetric,
    UserMeanMetric,
)
from weft.metrics.base.metric import Bounds
from weft.metrics.names import MetricSpec
from weft.metrics.registry import register


class _Accuracy(UserAverageTopKMetric):
    """What the accuracy metrics with a cut-off have in common."""

    family = "accuracy"
    has_expected_tie_form = True
    sampling_behaviour = "corrected"
    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)
    undefined = "no user has a relevant item"


@register
class Precision(_Accuracy):
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

    reference = "Herlocker et al. (2004), Evaluating collaborative filtering recommender systems, doi 10.1145/963770.963772"

    def __init__(self, k: int, *, denominator: str = "k", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.denominator = check_choice("denominator", denominator, ("k", "list"))
        if self.denominator == "list":  # the length is that of the list of candidates
            self.sampling_behaviour = "candidates"

    def user_values(self, topk: TopK) -> Tensor:
        return topk.hits / (topk.k if self.denominator == "k" else topk.list_length.clamp(min=1))


@register
class Recall(_Accuracy):
    """The share of the relevant items that the list holds: hits / |R|.

    `normalizer="capped"` divides by min(|R|, k), so that a perfect list reaches 1 for every user.

    Edge cases: relevant items that were not offered, because they are masked or have no score, stay
    in |R|; a user without a relevant item is left out.

    Example: of the relevant items 0, 1 and 2 the list holds 0.

    >>> import torch, weft
    >>> metric = weft.metrics.Recall(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.2, 0.5]]), torch.tensor([[1, 1, 1, 0]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    reference = "Herlocker et al. (2004), Evaluating collaborative filtering recommender systems, doi 10.1145/963770.963772"

    def __init__(self, k: int, *, normalizer: str = "relevant", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.normalizer = check_choice("normalizer", normalizer, ("relevant", "capped"))

    def user_values(self, topk: TopK) -> Tensor:
        return topk.hits / (topk.num_relevant if self.normalizer == "relevant" else topk.max_hits)


@register
class HitRate(_Accuracy):
    """1 for a user with at least one relevant item in the list, else 0.

    Edge cases: an empty list has no hit; a user without a relevant item is left out.

    Example: the first user's list has a hit, the second's has none.

    >>> import torch, weft
    >>> metric = weft.metrics.HitRate(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    reference = "Deshpande and Karypis (2004), Item-based top-N recommendation algorithms, doi 10.1145/963770.963776"

    def user_values(self, topk: TopK) -> Tensor:
        return topk.first_hit()


@register
class MRR(_Accuracy):
    """The reciprocal rank of the first relevant item, 0 if the list has none.

    Edge cases: an empty list counts 0; a user without a relevant item is left out.

    Example: the first relevant item stands at position 2.

    >>> import torch, weft
    >>> metric = weft.metrics.MRR(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[0, 1, 1]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    reference = "Voorhees (1999), The TREC-8 question answering track report, doi 10.6028/NIST.SP.500-246.qa-overview"

    def user_values(self, topk: TopK) -> Tensor:
        return topk.first_hit(1 / topk.positions)


@register
class MAP(_Accuracy):
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

    reference = "Buckley and Voorhees (2000), Evaluating evaluation measure stability, doi 10.1145/345508.345543"

    def __init__(self, k: int, *, normalizer: str = "capped", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.normalizer = check_choice("normalizer", normalizer, ("capped", "relevant", "hits"))
        if self.normalizer == "hits":  # no sum over the relevant items
            self.sampling_behaviour = "candidates"

    def user_values(self, topk: TopK) -> Tensor:
        if self.normalizer == "hits":
            return topk.precision_per_hit()
        precision_at_hits = topk.cumulative_hits(1 / topk.positions)
        return precision_at_hits / (
            topk.max_hits if self.normalizer == "capped" else topk.num_relevant
        )


@register
class MAR(_Accuracy):
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

    reference = "The recall counterpart of average precision: Buckley and Voorhees (2000), doi 10.1145/345508.345543"

    def user_values(self, topk: TopK) -> Tensor:
        return topk.cumulative_hits() / topk.num_relevant / topk.max_hits


@register
class nDCG(_Accuracy):  # noqa: N801 - the paper's name
    """Discounted cumulative gain over that of the best possible list: Σ g_p / log2(p + 1),
    normalised.

    `gain`: what a relevant item of rating r is worth: `"exponential"` 2^r - 1, `"linear"` r,
    `"binary"` 1, `"exponential_shifted"` 2^(r+1) - 1. `ideal`: the best list `"cut"` at k, `"full"`
    (not cut), or `"k"`: k relevant items even if the user has fewer, the missing ones with the gain
    of a rating of 1.

    Edge cases: ratings below the relevance threshold have gain 0; positions behind the end of a
    list add 0; ratings whose gain overflows are refused; a user without a relevant item is left
    out.

    Example: ratings 3 and 1 stand at positions 2 and 1: (1/1 + 7/1.585) / (7/1 + 1/1.585).

    >>> import torch, weft
    >>> metric = weft.metrics.nDCG(k=2)
    >>> metric.update(torch.tensor([[0.5, 0.9, 0.1]]), torch.tensor([[3, 1, 0]]))
    >>> metric.compute()
    tensor(0.7098, dtype=torch.float64)
    """

    reference = "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques, doi 10.1145/582415.582418"

    def __init__(
        self, k: int, *, gain: str = "exponential", ideal: str = "cut", **settings: Any
    ) -> None:
        super().__init__(k, **settings)
        self.gain = check_choice("gain", gain, GAINS)
        self.ideal = check_choice("ideal", ideal, ("cut", "full", "k"))

    def user_values(self, topk: TopK) -> Tensor:
        return normalized_gain(topk, self.gain, self.ideal)


@register
class nDCGRendle2020(_Accuracy):  # noqa: N801 - the name under which other tools know it
    """nDCG with binary gain: a relevant item is worth 1, whatever its rating.

    Edge cases: as for nDCG.

    Example: the only relevant item stands at position 2: 1 / log2(3).

    >>> import torch, weft
    >>> metric = weft.metrics.nDCGRendle2020(k=2)
    >>> metric.update(torch.tensor([[0.5, 0.9, 0.1]]), torch.tensor([[5, 0, 0]]))
    >>> metric.compute()
    tensor(0.6309, dtype=torch.float64)
    """

    reference = "Krichene and Rendle (2020), On sampled metrics for item recommendation, doi 10.1145/3394486.3403226"

    def user_values(self, topk: TopK) -> Tensor:
        return normalized_gain(topk, "binary", "cut")


def normalized_gain(topk: TopK, gain: str, ideal: str) -> Tensor:
    """Discounted gain of the lists over that of the ideal ones, `[batch, cut-offs]`."""
    reached = topk.dcg(gain)
    if ideal == "full":
        return reached / topk.full_ideal_dcg(gain)
    missing = 0.0 if ideal == "cut" else 3.0 if gain == "exponential_shifted" else 1.0
    return reached / topk.ideal_dcg(gain, missing_gain=missing)


@register
class LAUC(_Accuracy):
    """Area under the ROC curve that follows the list and is completed by a straight line from its
    end to (1, 1).

    A list that holds all relevant items first reaches 1, an empty list 0.5, a random one about 0.5
    for every k. Undefined for a user without negatives. `completion="none"`: relevant items beyond
    the list get 0, and the sum is divided by min(|R|, k).

    Edge cases: relevant items that were not offered are never hit; undefined for a user without
    negatives, or for whom a model has no scores. With recommendation lists every item that is not
    masked is offered, so that a user without a list gets 0.5.

    Example: one hit, then one miss, of one relevant item and three negatives: the curve is at
    height 1 from the start.

    >>> import torch, weft
    >>> metric = weft.metrics.LAUC(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 0, 0]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    sampling_behaviour = "candidates"  # the line to (1, 1) depends on what is not in the list
    undefined = "no user has both a relevant item and a negative"
    reference = (
        "Schröder, Thiele and Lehner (2011), Setting goals and choosing metrics for recommender "
        "system evaluations; on ROC curves Fawcett (2006), An introduction to ROC analysis, doi "
        "10.1016/j.patrec.2005.10.010"
    )

    def __init__(self, k: int, *, completion: str = "line", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.completion = check_choice("completion", completion, ("line", "none"))

    def user_values(self, topk: TopK) -> Tensor:
        negatives, pairs = topk.num_negatives, topk.cumulative_hits()
        if self.completion == "none":
            # Before the hit at p stand p - hits_p misses.
            beaten = negatives * topk.hits - topk.hit_position_sum + pairs
            return _defined(beaten / negatives / topk.max_hits, negatives)
        # A miss adds a column as high as the hits so far: each hit counts once at its own and every
        # later position, hits left out.
        area = topk.hits * (topk.list_length + 1) - topk.hit_position_sum - pairs
        hits_squared = (
            2 * pairs - topk.hits
        )  # 1 + 2 + ... + h = (h² + h) / 2, which also holds in expectation
        passed = (
            topk.hits - topk.list_length + negatives
        )  # negatives not in the list, as far as hits are certain
        line = (
            passed * topk.num_relevant + (negatives - topk.list_length) * topk.hits + hits_squared
        ) / 2
        return _defined((area + line) / (topk.num_relevant * negatives), negatives)


@register
class GAUC(UserMeanMetric):
    """The AUC of each user, averaged over users.

    The AUC of a user is the share of (relevant item, negative) pairs in which the relevant item
    scores higher; ties count half. Users without negatives are left out. `weight`: how much a user
    counts: `"uniform"`, by the number of relevant items (`"positives"`), or of ratings in the truth
    (`"interactions"`).

    Edge cases: a relevant item that was not offered beats nothing; tie rules play no part;
    recommendation lists, which lack the scores of all other items, are refused (LAUC takes them),
    unless they hold all that was offered (`candidates="listed"`).

    Example: the first user's relevant item beats both negatives, the second's one of two.

    >>> import torch, weft
    >>> metric = weft.metrics.GAUC()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0], [0, 1, 0]]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)
    """

    family = "accuracy"
    has_expected_tie_form = True
    sampling_behaviour = "unbiased"  # a share of the negatives
    needs_all_scores = True
    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)
    undefined = "no user has both a relevant item and a negative"
    reference = "Zhu et al. (2017), Optimized cost per click in Taobao display advertising, doi 10.1145/3097983.3098134"

    def __init__(self, *, weight: str = "uniform", **settings: Any) -> None:
        super().__init__(**settings)
        self.weight = check_choice("weight", weight, ("uniform", "positives", "interactions"))

    def user_values(self, topk: TopK) -> Tensor:
        return _defined(
            topk.batch.offered.pairwise_wins[:, None] / topk.num_relevant, topk.num_negatives
        )

    def user_weights(self, batch: Batch) -> Tensor | None:
        if self.weight == "uniform":
            return None
        return (
            batch.num_relevant
            if self.weight == "positives"
            else batch.truth.lengths.to(batch.dtype)
        )


@register
class AUC(SummedMetric):
    """The share of negatives that a relevant item beats, averaged over all relevant items of all
    users; ties count half.

    Users without negatives are left out; a relevant item that was not offered beats none.
    `scope="pooled"` draws one ROC curve over all users' items instead, comparing scores across
    users; it keeps every offered score until the end, as much memory as the score matrix.

    Edge cases: a relevant item that was not offered beats nothing; tie rules play no part; constant
    scores give 0.5; recommendation lists, which lack the scores of all other items, are refused
    (LAUC takes them), unless they hold all that was offered (`candidates="listed"`).

    Example: three relevant items beat 2 of 2, 1 of 2 and 0 of 1 negatives: (1 + 1/2 + 0) / 3.

    >>> import torch, weft
    >>> metric = weft.metrics.AUC()
    >>> scores = torch.tensor([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1], [0.1, 0.5, -torch.inf]])
    >>> metric.update(scores, torch.tensor([[1, 0, 0], [0, 1, 0], [1, 0, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    family = "accuracy"
    has_expected_tie_form = True
    sampling_behaviour = "unbiased"  # a share of the negatives
    needs_all_scores = True
    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)
    reference = "Hanley and McNeil (1982), The meaning and use of the area under a ROC curve, doi 10.1148/radiology.143.1.7063747"
    undefined = "no user has both a relevant item and a negative"

    supports_row_filtering = True
    # Of the pooled area: all scores, row by row; and of each row its relevant items, and its scores
    # among the two.
    positive_scores: list[Tensor]
    negative_scores: list[Tensor]
    row_counts: list[Tensor]

    def __init__(self, *, scope: str = "positives", **settings: Any) -> None:
        super().__init__(**settings)
        self.scope = check_choice("scope", scope, ("positives", "pooled"))
        if self.scope == "pooled":  # users with many candidates weigh more than with few
            self.sampling_behaviour = "candidates"

    def add_states(self) -> None:
        super().add_states()
        if self.scope == "pooled":
            for name in ("positive_scores", "negative_scores", "row_counts"):
                self.add_state(name, [], dist_reduce_fx="cat")

    @property
    def is_summed(self) -> bool:
        return self.scope == "positives"

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (PairWins(),)

    def compute_value(self, sums: StateView) -> Tensor:
        return sums[PairWins()][0] / sums[PairWins()][1]

    def summarize(self, sums: StateView) -> ComputedValue:
        return ComputedValue(self.compute_value(sums), users=int(sums[PairWins()][2]))

    def accumulate(self, batch: Batch) -> None:
        if self.is_summed:
            super().accumulate(batch)
            return
        judged = batch.offered.has_pairs
        cells = batch.relevant.fill_invalid(judged[batch.relevant.rows], False)
        offered = batch.relevant_scores > -torch.inf
        positives, of_positives = batch.relevant.select_values(
            batch.relevant_scores, cells & offered, -torch.inf
        )
        negatives, of_negatives = batch.offered.negative_scores(judged)
        counted = torch.where(judged, batch.relevant.lengths, 0)
        self.positive_scores.append(positives.to(batch.dtype))
        self.negative_scores.append(negatives)
        self.row_counts.append(torch.stack([counted, of_positives, of_negatives], dim=1))

    def num_users_counted(self) -> Tensor:
        counted = (rows[:, 0] > 0 for rows in _listed(self.row_counts))
        return torch.stack([torch.zeros(()), *(some.sum().cpu() for some in counted)]).sum()

    def filter_rows(self, states: dict[str, Any], rows: Tensor) -> dict[str, Any]:
        if self.is_summed:
            return super().filter_rows(states, rows)
        counts = dim_zero_cat(states["row_counts"])
        rows = rows.to(counts.device)
        found: dict[str, Any] = {**states, "row_counts": [counts[rows]]}
        for name, numbers in (("positive_scores", counts[:, 1]), ("negative_scores", counts[:, 2])):
            found[name] = [dim_zero_cat(states[name])[rows.repeat_interleave(numbers)]]
        return found

    def compute(self) -> Any:
        if self.is_summed:
            return super().compute()
        if len(self.row_counts) == 0:
            return torch.tensor(torch.nan, dtype=float_type(self.device), device=self.device)
        kept = (dim_zero_cat(scores) for scores in (self.positive_scores, self.negative_scores))
        positives, negatives = (scores[scores > -torch.inf] for scores in kept)
        ordered = negatives.sort().values
        below, up_to = (
            torch.searchsorted(ordered, positives),
            torch.searchsorted(ordered, positives, right=True),
        )
        return (
            (below + up_to).to(ordered.dtype).sum()
            / 2
            / len(negatives)
            / dim_zero_cat(self.row_counts)[:, 0].sum()
        )


def _listed(state: list[Tensor] | Tensor) -> list[Tensor]:
    """A list of tensors, which TorchMetrics makes one tensor when processes are synchronised."""
    return state if isinstance(state, list) else [state]


@register
class F1(_Accuracy):
    """The harmonic mean of two metrics, per user: (1 + β²) a b / (β² a + b), 0 where the
    denominator is 0.

    `metric_name_1`, `metric_name_2`: any two metrics that have a value per user, with parameters if
    need be (`"nDCG(gain=linear)"`); `beta` above 1 favours the second. A user for whom a part is
    undefined is left out.

    Edge cases: 0 where both parts are 0; undefined where a part is.

    Example: precision 1/2 and recall 1 give 2 · 0.5 / 1.5.

    >>> import torch, weft
    >>> metric = weft.metrics.F1(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.6667, dtype=torch.float64)
    """

    undefined = "for every user with a relevant item one of the two parts is undefined, or there is no such user"
    reference = "van Rijsbergen (1979), Information Retrieval; Chinchor (1992), MUC-4 evaluation metrics, doi 10.3115/1072064.1072067"
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
        metric_name_1, metric_name_2 = (
            _either(name, given, default, settings)
            for name, given, default in (
                ("1", metric_name_1, "Precision"),
                ("2", metric_name_2, "Recall"),
            )
        )
        super().__init__(k, **settings)
        if check_float("F1 got beta", beta, more=" above 0") <= 0:
            raise SettingError(f"F1 got beta={beta!r}; it must be a number above 0.")
        self._parts = [
            ComponentMetric(name, self, k, inputs=inputs, per_user=True)
            for name in (metric_name_1, metric_name_2)
        ]
        self.metric_name_1, self.metric_name_2 = (part.name for part in self._parts)
        self.beta = float(beta)
        self.has_expected_tie_form = all(part.metric.has_expected_tie_form for part in self._parts)
        self.sampling_behaviour = combined_sampling_behaviour(self._parts)
        self.reads_scores = any(part.metric.reads_scores for part in self._parts)
        self.needs_all_scores = any(part.metric.needs_all_scores for part in self._parts)
        self.is_exposure_metric = any(part.metric.is_exposure_metric for part in self._parts)
        highest = [high for part in self._parts if (high := part.metric.bounds[1]) is not None]
        self.bounds = (0.0, max(highest) if len(highest) == 2 else None)

    def needed_inputs(self) -> set[str]:
        return set[str]().union(*(part.metric.needed_inputs() for part in self._parts))

    def own_inputs(self) -> dict[str, Any]:
        return {
            name: given for part in self._parts for name, given in part.metric.own_inputs().items()
        }

    def user_values(self, topk: TopK) -> Tensor:
        a, b = (part.user_values(topk) for part in self._parts)
        below = self.beta**2 * a + b
        return torch.where(below == 0, 0, (1 + self.beta**2) * a * b / below)


def _either(
    number: str, given: str | MetricSpec, default: str, settings: dict[str, Any]
) -> str | MetricSpec:
    """A part of F1 under one of its two names."""
    alias = settings.pop(f"metric_{number}", None)
    if alias is not None and given != default:
        raise SettingError(f"F1 got metric_name_{number} twice, once as metric_{number}; give one.")
    return given if alias is None else alias


def _defined(values: Tensor, negatives: Tensor) -> Tensor:
    """NaN for users without negatives."""
    return torch.where(negatives > 0, values, torch.nan)
