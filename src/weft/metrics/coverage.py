"""Coverage: how many items and users the lists reach. Higher is better.

All lists count: those of every user of the truth or of the source, relevant items or not, empty
lists included."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from weft.batch.topk import TopK
from weft.errors import check_bool, check_choice, check_int
from weft.metrics.accumulators import Accumulator, ItemExposure, StateView
from weft.metrics.base.formulas import (
    POPULATIONS,
    ComputedValue,
    SummedMetric,
    UserAverageTopKMetric,
)
from weft.metrics.base.metric import Bounds, TopKMetric
from weft.metrics.registry import register


@register
class ItemCoverage(TopKMetric, SummedMetric):
    """The number of different items that stand in at least one list.

    `as_fraction=True` divides by the number of items in the catalogue; `users="evaluated"` looks at
    the lists of users with a relevant item only.

    Edge cases: an item that is not offered to a user is never in that user's list, however short
    the list gets.

    Example: both users are recommended item 0 first; at k = 2 the lists also hold items 1 and 2.

    >>> import torch, weft
    >>> metric = weft.metrics.ItemCoverage(k=2, num_items=4)
    >>> scores = torch.tensor([[0.9, 0.5, 0.1, 0.0], [0.9, 0.1, 0.5, 0.0]])
    >>> metric.update(scores, torch.tensor([[1, 0, 0, 0], [0, 0, 0, 1]]))
    >>> metric.compute()
    tensor(3., dtype=torch.float64)
    """

    family = "coverage"
    is_exposure_metric = True
    higher_is_better = True
    bounds: Bounds = (0.0, None)
    undefined = "the catalogue is empty"
    reference = (
        "Ge, Delgado-Battenfeld and Jannach (2010), Beyond accuracy: evaluating recommender "
        "systems by coverage and serendipity, doi 10.1145/1864708.1864761"
    )

    def __init__(
        self,
        k: int,
        *,
        num_items: int,
        as_fraction: bool = False,
        users: str = "lists",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.num_items = check_int("num_items", num_items, least=0)
        self.users = check_choice("users", users, POPULATIONS)
        self.as_fraction = check_bool("as_fraction", as_fraction)
        if self.as_fraction:
            self.bounds = (0.0, 1.0)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (ItemExposure(self.num_items, self.users),)

    def compute_value(self, sums: StateView) -> Tensor:
        exposure = sums.at_items(ItemExposure(self.num_items, self.users))
        covered = (exposure > 0).sum().to(exposure.dtype)
        return covered / self.num_items if self.as_fraction else covered


class _OfUsers(UserAverageTopKMetric):
    """What the coverage metrics over users have in common: a number per list, over all lists."""

    family = "coverage"
    is_exposure_metric = True
    higher_is_better = True
    bounds: Bounds = (0.0, None)
    users = "lists"
    undefined = "there are no users"
    reference = (
        "Ge, Delgado-Battenfeld and Jannach (2010), Beyond accuracy: evaluating recommender "
        "systems by coverage and serendipity, doi 10.1145/1864708.1864761"
    )


class _CoveredUsers(_OfUsers):
    """The number of users for whom something holds, or their share."""

    def __init__(self, k: int, *, as_fraction: bool = False, **settings: Any) -> None:
        super().__init__(k, **settings)
        self.as_fraction = check_bool("as_fraction", as_fraction)
        if self.as_fraction:
            self.bounds = (0.0, 1.0)

    @property
    def is_user_mean(self) -> bool:
        return self.as_fraction

    def compute_value(self, sums: StateView) -> Tensor:
        return super().compute_value(sums) if self.as_fraction else sums[self._user_sums()][2]

    def summarize(self, sums: StateView) -> ComputedValue:
        return (
            super().summarize(sums) if self.as_fraction else ComputedValue(self.compute_value(sums))
        )


@register
class UserCoverage(_CoveredUsers):
    """The number of users who are recommended at least one item.

    `as_fraction=True` divides by the number of users, those without any recommendation included.

    Edge cases: whether a user has relevant items plays no part.

    Example: everything is masked for the second user.

    >>> import torch, weft
    >>> metric = weft.metrics.UserCoverage(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5], [-torch.inf, -torch.inf]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    def user_values(self, topk: TopK) -> Tensor:
        return (topk.list_length >= 1).to(topk.k.dtype)


@register
class UserCoverageAtN(_CoveredUsers):
    """The number of users who are recommended at least `n` items; without `n`, at least k.

    `as_fraction=True` divides by the number of users, those without any recommendation included.

    Edge cases: `n` above k is allowed and gives 0.

    Example: two items are offered to the first user, one to the second.

    >>> import torch, weft
    >>> metric = weft.metrics.UserCoverageAtN(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.9, -torch.inf]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    def __init__(
        self, k: int, *, n: int | None = None, as_fraction: bool = False, **settings: Any
    ) -> None:
        super().__init__(k, as_fraction=as_fraction, **settings)
        self.n = None if n is None else check_int("UserCoverageAtN got n", n)

    def user_values(self, topk: TopK) -> Tensor:
        return (topk.list_length >= (topk.k if self.n is None else self.n)).to(topk.k.dtype)


@register
class NumRetrieved(_OfUsers):
    """The length of the lists: the mean number of items recommended, at most k.

    Edge cases: an empty list counts 0.

    Example: lists of two items and of one.

    >>> import torch, weft
    >>> metric = weft.metrics.NumRetrieved(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.9, -torch.inf]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute()
    tensor(1.5000, dtype=torch.float64)
    """

    def user_values(self, topk: TopK) -> Tensor:
        return topk.list_length
