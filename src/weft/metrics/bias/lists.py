"""Popularity of the items of a list, and the share of the long tail.

Items are ordered by train interactions, highest first (ties: lower item index first). The shortest
prefix that reaches `pop_ratio` of all interactions is the head; the rest is the tail.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from weft._choices import choices
from weft._input_kinds import built_in_inputs
from weft.batch.topk import TopK
from weft.data import Train
from weft.data.popularity import check_ratio, check_unseen
from weft.errors import check_choice
from weft.metrics.base.formulas import POPULATIONS, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.parameter_types import ListDenominator, PopularityDivisor, Population
from weft.metrics.registry import register

_TAIL_REFERENCE = (
    "Abdollahpouri, Burke and Mobasher (2017), Controlling popularity bias in learning-to-rank "
    "recommendation, doi 10.1145/3109859.3109912"
)


class _PopularityMetric(UserAverageTopKMetric):
    """A number per list, over all lists or those of users with a relevant item."""

    family = "bias"
    needs = built_in_inputs("train")
    is_exposure_metric = True
    bounds: Bounds = (0.0, None)
    undefined = "there are no lists"

    def __init__(self, k: int, *, users: Population = "lists", **settings: Any) -> None:
        super().__init__(k, **settings)
        self._train: Train = self.inputs["train"]
        self.users = check_choice("users", users, POPULATIONS)


@register
class ACLT(_PopularityMetric):
    r"""The mean number of long-tail items in a list, over all lists.

    The head consists of the most popular items, which by default have 80% of all train
    interactions; the other items are the tail.

    Formula: \mathrm{ACLT}_u = {|L_u \cap I_{\mathrm{tail}}|}

    Symbols: $I_{\mathrm{tail}}$ are the items of the tail.

    Parameters:
        pop_ratio: Share of all train interactions that the head has, above 0 and at most 1. Items
            are ordered by train interactions, most popular first, and equally popular items by item
            index (columns of the scores, the order of `items=`, or else sorted ids). The head is
            the shortest prefix with at least this share. The order of equally popular items at the
            border affects the value; the rule for ties does not change it, since it concerns
            scores.
        tail_ratio: Share of the items of the catalogue that are the tail, above 0 and at most 1:
            the least popular ones in the same order, at least one item. `pop_ratio` then has no
            effect. None determines the tail by `pop_ratio`.
        users: As in ItemCoverage.

    Use: ACLT answers how many positions of a list go to items outside the mainstream. Use it to
    measure popularity bias if lists have k items; for lists of different lengths or several
    cut-offs, APLT is easier to compare. It counts tail items whether or not they are relevant:
    PopREO shows whether relevant tail items are found.

    Related: APLT, ARP, PopREO, ItemCoverage.

    Edge cases: an empty list counts 0; items without train interactions are in the tail; if train
    is empty, all items are in the tail.

    Example: item 0 has 4 of 5 train interactions and is the head; the list holds one tail item.

    >>> import torch, weft
    >>> train = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]])
    >>> metric = weft.metrics.ACLT(k=2, train=train)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    higher_is_better = True
    reference = _TAIL_REFERENCE

    def __init__(
        self,
        k: int,
        *,
        pop_ratio: float = 0.8,
        tail_ratio: float | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.pop_ratio = check_ratio("pop_ratio", pop_ratio)
        self.tail_ratio = tail_ratio
        if tail_ratio is not None:
            self.tail_ratio = check_ratio("tail_ratio", tail_ratio)
            self.pop_ratio = 0.8  # without an effect

    def user_values(self, topk: TopK) -> Tensor:
        if self.tail_ratio is not None:
            return topk.sum_column(self._train.least_popular(self.tail_ratio))
        return topk.sum_column(self._train.long_tail(self.pop_ratio))


@register
class APLT(ACLT):
    r"""The share of long-tail items in a list, averaged over all lists.

    The head consists of the most popular items, which by default have 80% of all train
    interactions; the other items are the tail.

    Formula: \mathrm{APLT}_u = \frac{|L_u \cap I_{\mathrm{tail}}|}{k}

    Symbols: $I_{\mathrm{tail}}$ are the items of the tail.

    Parameters:
        pop_ratio, tail_ratio: As in ACLT.
        denominator: Divisor: `"k"` is k, and `"list"` is the length of the list.
        users: As in ItemCoverage.

    Use: APLT answers which part of the recommendations goes to items outside the mainstream. Use it
    as the standard measure of long-tail exposure, and compare it with the tail's share of the train
    interactions, which is at most 1 - `pop_ratio`. The value depends on where the tail begins, so
    report `pop_ratio`; ARP and PopularityQuantile need no border. Tail items need not be relevant:
    PopREO covers that.

    Related: ACLT, ARP, PopularityQuantile, PopREO, Gini.

    Edge cases: an empty list counts 0.

    Example: item 0 has 4 of 5 train interactions and is the head; one of the two items of the list
    is in the tail.

    >>> import torch, weft
    >>> train = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]])
    >>> metric = weft.metrics.APLT(k=2, train=train)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    bounds: Bounds = (0.0, 1.0)

    def __init__(
        self,
        k: int,
        *,
        pop_ratio: float = 0.8,
        users: Population = "lists",
        denominator: ListDenominator = "k",
        **settings: Any,
    ) -> None:
        super().__init__(k, pop_ratio=pop_ratio, users=users, **settings)
        self.denominator = check_choice("denominator", denominator, choices(ListDenominator))

    def user_values(self, topk: TopK) -> Tensor:
        length = topk.k if self.denominator == "k" else topk.num_listed.clamp(min=1)
        return super().user_values(topk) / length


@register
class ARP(_PopularityMetric):
    r"""The average popularity of recommended items: the mean number of train interactions of the
    items of a list, averaged over all lists. Lower means less popular items.

    Formula: \mathrm{ARP}_u = \frac{1}{|L_u|} \sum_{i \in L_u} n_i

    Parameters:
        unseen: Popularity of an item without train interactions: a number of at least 0, or
            `"skip"`, which leaves out such items, and lists without other items.
        normalize: Divisor of the popularity: `"none"` is 1, `"interactions"` is the number of train
            interactions of all items, and `"max"` that of the most popular item.
        users: As in ItemCoverage.

    Use: ARP answers how popular the recommended items are. Use it to compare models on one data
    set; values of different data sets need `normalize` or PopularityQuantile. A few bestsellers
    dominate the mean: PopularityQuantile and APLT are robust against that. A high value need not be
    bias, if users themselves prefer popular items; PopularityLift compares lists with the users'
    own history.

    Related: PopularityLift, PopularityQuantile, APLT, MIUF, Gini.

    Edge cases: empty lists are left out; undefined with `normalize` if train is empty.

    Example: the items of the list have 3 and 1 train interactions.

    >>> import torch, weft
    >>> metric = weft.metrics.ARP(k=2, train=torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(2., dtype=torch.float64)
    """

    higher_is_better = False
    undefined = "all lists are empty, or train is empty and popularity is normalized"
    reference = (
        "Yin et al. (2012), Challenging the long tail recommendation, doi 10.14778/2311906.2311916"
    )

    def __init__(
        self,
        k: int,
        *,
        users: Population = "lists",
        unseen: float | str = 0,
        normalize: PopularityDivisor = "none",
        **settings: Any,
    ) -> None:
        super().__init__(k, users=users, **settings)
        is_skipped = isinstance(unseen, str) and unseen == "skip"
        self.unseen = "skip" if is_skipped else check_unseen(unseen)
        self.normalize = check_choice("normalize", normalize, choices(PopularityDivisor))
        if self.normalize != "none" and (isinstance(self.unseen, str) or self.unseen <= 1):
            self.bounds = (0.0, 1.0)

    def user_values(self, topk: TopK) -> Tensor:
        if isinstance(self.unseen, str):
            popularity, length = self._train.popularity, topk.sum_column(self._train.is_warm)
        else:
            popularity, length = (
                self._train.popularity_with_default(self.unseen),
                topk.num_listed,
            )
        mean = topk.sum_column(popularity) / torch.where(length > 0, length, torch.nan)
        if self.normalize == "none":
            return mean
        counts = self._train.item_counts
        scale = counts.sum() if self.normalize == "interactions" else counts.max(initial=0)
        return mean / (float(scale) if scale else math.nan)


@register
class PopularityQuantile(_PopularityMetric):
    r"""The mean popularity rank of the items of a list, from 0 (least popular) to 1 (most popular),
    averaged over all lists. Lower means less popular items.

    Items with train interactions are ranked from the least to the most popular one, and the rank is
    divided by their number; equally popular items share their mean rank.

    Formula: \mathrm{PopularityQuantile}_u = \frac{1}{|L_u|} \sum_{i \in L_u} \frac{t_i}{M}

    Symbols: $M$ is the number of items with train interactions, and $t$ the rank of an item among
    them.

    Parameters:
        users: As in ItemCoverage.

    Use: PopularityQuantile answers where the recommended items are in the ranking by popularity.
    Use it instead of ARP to compare data sets, or if a few bestsellers dominate ARP. Since most
    items of a catalogue are rarely used, values close to 1 are normal for good models; compare
    models with each other rather than with 0.5. To compare lists with the users' own history, use
    PopularityLift.

    Related: ARP, PopularityLift, APLT, MIUF.

    Edge cases: items without train interactions count 0; empty lists are left out.

    Example: items 0 and 1 have 3 and 1 train interactions, ranks 2 and 1 of 2: (2/2 + 1/2) / 2.

    >>> import torch, weft
    >>> train = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0]])
    >>> metric = weft.metrics.PopularityQuantile(k=2, train=train)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)
    """

    higher_is_better = False
    bounds: Bounds = (0.0, 1.0)
    undefined = "all lists are empty"
    reference = (
        "Celma and Cano (2008), From hits to niches? or how popular artists can bias music "
        "recommendation and discovery, doi 10.1145/1722149.1722154"
    )

    def user_values(self, topk: TopK) -> Tensor:
        total = topk.sum_column(self._train.popularity_quantiles)
        return total / torch.where(topk.num_listed > 0, topk.num_listed, torch.nan)
