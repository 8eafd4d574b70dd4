"""Accuracy by the number of relevant items in the list."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.batch.topk import TopK
from weft.batch.uncut_hits import count_hits_within
from weft.errors import SettingError, check_choice, check_float
from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.registry import register

_HERLOCKER = (
    "Herlocker et al. (2004), Evaluating collaborative filtering recommender systems, "
    "doi 10.1145/963770.963772"
)


@register
class Precision(AccuracyMetric):
    r"""The share of the list that is relevant: hits / k.

    Formula: \mathrm{Precision}_u = \frac{|L_u \cap R_u|}{k}

    Use: it answers which part of the recommendations is useful, for example when a page shows
    exactly k items and each position counts the same. It ignores the order within the list; use
    nDCG or MAP if higher positions matter more. With few relevant items per user it is bounded by
    |R| / k, so that values at different cut-offs or of different data sets are not comparable; use
    Recall or RPrecision then.

    Related: Recall, RPrecision, F1, MAP.

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

    hit_sum = "normalized"
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

    hit_sum = "normalized"
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
class RPrecision(AccuracyMetric):
    """The precision at |R|: hits among the first |R| positions / |R|.

    It needs no cut-off: the name without one reads each list as far as |R|, whatever cut-offs the
    run has. `RPrecision@k` ends lists at k: of users with more than k relevant items, the hits
    among the first k positions count. `multiple` moves the position: hits among the first x |R| /
    x |R|, with x |R| rounded up from a remainder of 0.1 on, and at least 1, as in trec_eval.

    Edge cases: positions after the end of a list are misses; a user without a relevant item is left
    out. Without a cut-off, users with more than the largest k of the run are ranked again, and
    estimates from sampled negatives are not made.

    Example: of the two relevant items one is among the first two.

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
