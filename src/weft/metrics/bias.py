"""Popularity bias: how the lists and the hits divide between popular items and the long tail.

By the number of their train interactions, highest first (ties: lower item first), the shortest run
of items that reaches `pop_ratio` of all interactions is the head; the rest is the tail."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.batch.topk import TopK
from weft.data import Train
from weft.data.popularity import check_pop_ratio, check_unseen
from weft.errors import check_choice
from weft.metrics.accumulators import (
    ItemAccumulator,
    ItemCandidacy,
    ItemExposure,
    ItemHits,
    ItemRelevance,
    StateView,
)
from weft.metrics.base.formulas import POPULATIONS, SummedMetric, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds, TopKMetric
from weft.metrics.group_rates import rates, relative_spread
from weft.metrics.registry import register

_TAIL_REFERENCE = (
    "Abdollahpouri, Burke and Mobasher (2017), Controlling popularity bias in learning-to-rank "
    "recommendation, doi 10.1145/3109859.3109912"
)


class _OfLists(UserAverageTopKMetric):
    """A number per list, over all lists or those of users with a relevant item."""

    family = "bias"
    is_exposure_metric = True
    bounds: Bounds = (0.0, None)
    undefined = "no list counts"

    def __init__(self, k: int, *, train: Any, users: str = "lists", **settings: Any) -> None:
        super().__init__(k, **settings)
        self._train = Train.read(train)
        self.users = check_choice("users", users, POPULATIONS)


@register
class ACLT(_OfLists):
    """The number of long-tail items in a list, averaged over all lists.

    `pop_ratio`: the share of all train interactions that makes the head. `users="evaluated"` looks
    at the lists of users with a relevant item only.

    Edge cases: an empty list counts 0; items without train interactions are in the tail; with an
    empty train everything is tail.

    Example: item 0 has 4 of 5 train interactions and is the head; the list holds one tail item.

    >>> import torch, weft
    >>> metric = weft.metrics.ACLT(k=2, train=torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    higher_is_better = True
    reference = _TAIL_REFERENCE

    def __init__(
        self, k: int, *, train: Any, pop_ratio: float = 0.8, users: str = "lists", **settings: Any
    ) -> None:
        super().__init__(k, train=train, users=users, **settings)
        self.pop_ratio = check_pop_ratio(pop_ratio)

    def user_values(self, topk: TopK) -> Tensor:
        return topk.sum_column(self._train.long_tail(self.pop_ratio))


@register
class APLT(ACLT):
    """The share of long-tail items in a list, averaged over all lists.

    `denominator="list"` divides by the length of the list instead of k. `pop_ratio` and `users` as
    for ACLT.

    Edge cases: an empty list counts 0.

    Example: item 0 has 4 of 5 train interactions and is the head; one of two items is in the tail.

    >>> import torch, weft
    >>> metric = weft.metrics.APLT(k=2, train=torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    bounds: Bounds = (0.0, 1.0)

    def __init__(
        self,
        k: int,
        *,
        train: Any,
        pop_ratio: float = 0.8,
        users: str = "lists",
        denominator: str = "k",
        **settings: Any,
    ) -> None:
        super().__init__(k, train=train, pop_ratio=pop_ratio, users=users, **settings)
        self.denominator = check_choice("denominator", denominator, ("k", "list"))

    def user_values(self, topk: TopK) -> Tensor:
        return super().user_values(topk) / (
            topk.k if self.denominator == "k" else topk.list_length.clamp(min=1)
        )


@register
class ARP(_OfLists):
    """The average popularity of the recommended items: the mean number of train interactions over a
    list, averaged over lists.

    `users="evaluated"` looks at the lists of users with a relevant item only; `unseen`: what an
    item without train interactions counts.

    Edge cases: empty lists are left out.

    Example: the items of the list have 3 and 1 train interactions.

    >>> import torch, weft
    >>> metric = weft.metrics.ARP(k=2, train=torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(2., dtype=torch.float64)
    """

    higher_is_better = False
    undefined = "all lists are empty"
    reference = (
        "Yin et al. (2012), Challenging the long tail recommendation, doi 10.14778/2311906.2311916"
    )

    def __init__(
        self, k: int, *, train: Any, users: str = "lists", unseen: float = 0, **settings: Any
    ) -> None:
        super().__init__(k, train=train, users=users, **settings)
        self.unseen = check_unseen(unseen)

    def user_values(self, topk: TopK) -> Tensor:
        met = topk.sum_column(self._train.popularity_with_default(self.unseen))
        return met / torch.where(topk.list_length > 0, topk.list_length, torch.nan)


class _HeadAndTail(TopKMetric, SummedMetric):
    """How much the rates of head and tail differ: their standard deviation over their mean, from 0
    (fair) to 1 (one is 0).
    """

    family = "bias"
    higher_is_better = False
    bounds: Bounds = (0.0, 1.0)
    target = 0.0
    reference = (
        "Zhu, Wang and Caverlee (2020), Measuring and mitigating item under-recommendation bias "
        "in personalized ranking systems, doi 10.1145/3397271.3401177"
    )

    def __init__(self, k: int, *, train: Any, pop_ratio: float = 0.8, **settings: Any) -> None:
        super().__init__(k, **settings)
        self._train = Train.read(train)
        self.pop_ratio = check_pop_ratio(pop_ratio)

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        """What is recommended, and what might have been."""
        raise NotImplementedError

    def compute_value(self, sums: StateView) -> Tensor:
        tail = self._train.long_tail(self.pop_ratio)
        successes, chances = (sums.by_group(total, tail, 2) for total in self.accumulators())
        return relative_spread(rates(successes, chances))


@register
class PopREO(_HeadAndTail):
    """Equal opportunity between head and tail: the share of relevant items that is recommended,
    compared between the two.

    Per group: relevant items recommended ÷ relevant items, both summed over users; the value is the
    standard deviation of the two rates over their mean. 0 is fair. `pop_ratio`: the share of all
    train interactions that makes the head.

    Edge cases: relevant items that were not offered count below; undefined if a group has no
    relevant item, or no relevant item is recommended.

    Example: item 0 is the head. Its relevant item is recommended (1/1), one of two in the tail is
    (1/2): 0.25 / 0.75.

    >>> import torch, weft
    >>> metric = weft.metrics.PopREO(k=2, train=torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 1, 1]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    undefined = "head or tail has no relevant item, or no relevant item is recommended"

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        return ItemHits(self._train.num_items), ItemRelevance(self._train.num_items)


@register
class PopRSP(_HeadAndTail):
    """Statistical parity between head and tail: the share of offered slots that is recommended,
    compared between the two.

    Per group: recommended ÷ offered (user, item) pairs over all lists; the value is the standard
    deviation of the two rates over their mean. 0 is fair. `pop_ratio` as for PopREO;
    `users="evaluated"` looks at users with a relevant item only.

    Edge cases: masked items are not offered; undefined if a group is not offered at all, or nothing
    is recommended.

    Example: item 0 is the head and is recommended (1/1), one of the two tail items is (1/2): 0.25 /
    0.75.

    >>> import torch, weft
    >>> metric = weft.metrics.PopRSP(k=2, train=torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    is_exposure_metric = True
    undefined = "head or tail is not offered, or nothing is recommended"

    def __init__(
        self, k: int, *, train: Any, pop_ratio: float = 0.8, users: str = "lists", **settings: Any
    ) -> None:
        super().__init__(k, train=train, pop_ratio=pop_ratio, **settings)
        self.users = check_choice("users", users, POPULATIONS)

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        return ItemExposure(self._train.num_items, self.users), ItemCandidacy(
            self._train.num_items, self.users
        )
