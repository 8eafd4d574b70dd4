"""Accuracy by the number of relevant items in the list."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft._choices import choices
from weft.batch.topk import TopK
from weft.batch.uncut_hits import count_hits_within
from weft.errors import SettingError, check_choice, check_float
from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.parameter_types import ListDenominator, RecallNormalizer
from weft.metrics.registry import register

_HERLOCKER = (
    "Herlocker et al. (2004), Evaluating collaborative filtering recommender systems, "
    "doi 10.1145/963770.963772"
)


@register
class Precision(AccuracyMetric):
    r"""The share of the recommended items that are relevant: hits / k.

    Formula: \mathrm{Precision}_u = \frac{|L_u \cap R_u|}{k}

    Parameters:
        denominator: Divisor of the hits: `"k"` is k, and `"list"` is the length of the list, which
            is at most k; an empty list then counts 0.

    Use: it answers which part of the recommendations is useful, for example when a page shows
    exactly k items and each position counts the same. It ignores the order within the list; use
    nDCG or MAP if higher positions matter more. It cannot exceed |R| / k, so that values at
    different cut-offs or of different data sets are not comparable; use Recall or RPrecision then.

    Related: Recall, RPrecision, F1, MAP.

    Edge cases: the missing positions of a list shorter than k count as misses, unless
    `denominator="list"`; users without a relevant item are excluded.

    Example: the list contains items 0 and 2, and items 0 and 1 are relevant.

    >>> import torch, weft
    >>> metric = weft.metrics.Precision(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    hit_sum = "normalized"
    reference = _HERLOCKER

    def __init__(self, k: int, *, denominator: ListDenominator = "k", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.denominator = check_choice("denominator", denominator, choices(ListDenominator))
        if self.denominator == "list":  # the length is that of the list of candidates
            self.sampling_behaviour = "candidates"

    def user_values(self, topk: TopK) -> Tensor:
        return topk.hits / (topk.k if self.denominator == "k" else topk.list_length.clamp(min=1))


@register
class Recall(AccuracyMetric):
    r"""The share of the relevant items that are in the list: hits / |R|.

    Formula: \mathrm{Recall}_u = \frac{|L_u \cap R_u|}{|R_u|}

    Parameters:
        normalizer: Divisor of the hits: `"relevant"` is |R|, and `"capped"` is min(|R|, k), so that
            a perfect list reaches 1 for every user.

    Use: it answers which part of the relevant items the list finds, as for the candidate generation
    of a two-stage recommender. It ignores the order within the list; use nDCG or MAP to evaluate
    the order. Users with more than k relevant items cannot reach 1; use `normalizer="capped"` if
    many users have so many, and state it, because some tools call this variant recall, too.

    Related: Precision, HitRate, RPrecision, MAR, IPSRecall.

    Edge cases: relevant items that are not candidates, because they are masked or have no score,
    count in |R|; users without a relevant item are excluded.

    Example: items 0, 1 and 2 are relevant, and the list contains one of them.

    >>> import torch, weft
    >>> metric = weft.metrics.Recall(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.2, 0.5]]), torch.tensor([[1, 1, 1, 0]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    hit_sum = "normalized"
    reference = _HERLOCKER

    def __init__(
        self, k: int, *, normalizer: RecallNormalizer = "relevant", **settings: Any
    ) -> None:
        super().__init__(k, **settings)
        self.normalizer = check_choice("normalizer", normalizer, choices(RecallNormalizer))

    def user_values(self, topk: TopK) -> Tensor:
        return topk.hits / (topk.num_relevant if self.normalizer == "relevant" else topk.max_hits)


@register
class HitRate(AccuracyMetric):
    r"""The share of users with at least one relevant item in the list.

    Formula: \mathrm{HitRate}_u = [L_u \cap R_u \neq \emptyset]

    Use: it answers how many users find anything at all, and is common in leave-one-out evaluation,
    where each user has one relevant item and it equals Recall. With several relevant items per user
    it grows quickly with k and no longer separates models; use Recall or nDCG then. It ignores the
    position of the hit; use MRR if the first hit should come early.

    Related: Recall, MRR, Precision.

    Edge cases: an empty list has no hit; users without a relevant item are excluded.

    Example: the list of the first user has a hit, and the list of the second user has none.

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
class RPrecision(AccuracyMetric):
    r"""The precision at position |R|: the hits among the first |R| positions, divided by |R|.

    Formula: \mathrm{RPrecision}_u = \frac{h_{|R_u|}}{|R_u|}

    It needs no cut-off: without one, each list is read up to position |R|, whatever cut-offs the
    run has. `RPrecision@k` ends lists at k: for a user with more than k relevant items, the hits
    among the first k positions are divided by |R|.

    Parameters:
        multiple: Factor x, a number above 0: the hits among the first x |R| positions are divided
            by x |R|. As in trec_eval, x |R| is rounded up from a fraction of 0.1 on, and is at
            least 1.

    Use: it compares users with different numbers of relevant items on equal terms, because a
    perfect ranking reaches 1 for each of them and precision equals recall at that position. It does
    not describe a list of fixed length; use Precision or Recall at k for that. It ignores the order
    within the first |R| positions; use MAP or nDCG to evaluate the order.

    Related: Precision, Recall, MAP, IPrec.

    Edge cases: positions after the end of a list are misses; users without a relevant item are
    excluded. Without a cut-off, users with more relevant items than the largest k of the run are
    ranked again, and there are no estimates from sampled negatives.

    Example: one of the two relevant items is among the first two positions.

    >>> import torch, weft
    >>> metric = weft.metrics.RPrecision()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 1, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    reference = (
        "Manning, Raghavan and Schütze (2008), Introduction to information retrieval, "
        "doi 10.1017/CBO9780511809071"
    )

    k: int | None  # type: ignore[assignment]

    def __init__(self, k: int | None = None, *, multiple: float = 1.0, **settings: Any) -> None:
        super().__init__(k, **settings)
        # Each cut-off is a metric of its own, and so is the metric without one.
        self.supports_all_cutoffs = False
        if k is None:
            self.sampling_behaviour = "candidates"
        self.multiple = float(check_float("multiple", multiple, more=" above 0"))
        if self.multiple <= 0:
            raise SettingError(f"got multiple={multiple!r}; it must be a number above 0.")

    def user_values(self, topk: TopK) -> Tensor:
        positions = torch.floor(topk.num_relevant * self.multiple + 0.9).clamp(min=1)
        if self.k is None:
            return count_hits_within(topk, positions) / positions
        return topk.hits_within(positions) / positions
