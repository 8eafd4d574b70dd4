"""Coverage: how many items and users the lists reach, and how much of the lists is valid.

All lists count: those of every user of the truth or of the source, with or without relevant items,
empty lists included.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from weft._input_kinds import BUILT_IN_INPUTS
from weft.batch.topk import TopK
from weft.data.recommendations.list_policy import REPEATED, REPEATED_UNKNOWN, UNKNOWN
from weft.errors import check_bool, check_choice, check_int
from weft.metrics.accumulators import Accumulator, ItemExposure
from weft.metrics.base.formulas import POPULATIONS, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.base.summed import ComputedValue, SummedTopKMetric
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView

_GE = (
    "Ge, Delgado-Battenfeld and Jannach (2010), Beyond accuracy: evaluating recommender systems by "
    "coverage and serendipity, doi 10.1145/1864708.1864761"
)


@register
class ItemCoverage(SummedTopKMetric):
    """The number of distinct items in at least one list.

    `as_fraction=True` divides by the number of items in the catalogue; `users="evaluated"` counts
    the lists of users with a relevant item only. `universe="train"` counts items with train
    interactions only, as a fraction of such items (RePlay, evidently).

    Edge cases: an item that is not a candidate of a user is never in the user's list, however short
    the list is.

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
    is_item_statistic = True
    higher_is_better = True
    bounds: Bounds = (0.0, None)
    undefined = "the catalogue, or train with universe=train, is empty"
    reference = _GE
    needs = {"train": replace(BUILT_IN_INPUTS["train"], required=False)}

    def __init__(
        self,
        k: int,
        *,
        num_items: int,
        as_fraction: bool = False,
        universe: str = "catalogue",
        users: str = "lists",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.num_items = check_int("num_items", num_items, least=0)
        self.users = check_choice("users", users, POPULATIONS)
        self.as_fraction = check_bool("as_fraction", as_fraction)
        self.universe = check_choice("universe", universe, ("catalogue", "train"))
        if self.as_fraction:
            self.bounds = (0.0, 1.0)

    def needed_inputs(self) -> Set[str]:
        return {"train"} if self.universe == "train" else frozenset()

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (ItemExposure(self.num_items, self.users),)

    def compute_value(self, state: StateView) -> Tensor:
        exposure = state.at_items(ItemExposure(self.num_items, self.users))
        is_covered = (exposure > 0).to(exposure.dtype)
        num_items: float = self.num_items
        if self.universe == "train":
            is_warm = self.inputs["train"].is_warm.to(exposure.device)
            is_covered, num_items = is_covered * is_warm, float(is_warm.sum()) or math.nan
        return is_covered.sum() / num_items if self.as_fraction else is_covered.sum()


class _ListMetric(UserAverageTopKMetric):
    """A number per list, over all lists or those of users with a relevant item."""

    family = "coverage"
    is_exposure_metric = True
    higher_is_better = True
    bounds: Bounds = (0.0, None)
    undefined = "there are no users"
    reference = _GE

    def __init__(self, k: int, *, users: str = "lists", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.users = check_choice("users", users, POPULATIONS)


class _CoveredUsers(_ListMetric):
    """The number of users with a list that fulfils a condition, or their share."""

    def __init__(self, k: int, *, as_fraction: bool = False, **settings: Any) -> None:
        super().__init__(k, **settings)
        self.as_fraction = check_bool("as_fraction", as_fraction)
        if self.as_fraction:
            self.bounds = (0.0, 1.0)

    @property
    def is_user_mean(self) -> bool:
        return self.as_fraction

    def compute_value(self, state: StateView) -> Tensor:
        if self.as_fraction:
            return super().compute_value(state)
        return state[self.mean_sums][2]  # the sum over users

    def summarize(self, state: StateView) -> ComputedValue:
        if self.as_fraction:
            return super().summarize(state)
        return ComputedValue(self.compute_value(state))


@register
class UserCoverage(_CoveredUsers):
    """The number of users who are recommended at least one item.

    `as_fraction=True` divides by the number of users, those without any recommendation included.
    `users="evaluated"` counts users with a relevant item only.

    Edge cases: by default users without relevant items count too.

    Example: everything is masked for the second user.

    >>> import torch, weft
    >>> metric = weft.metrics.UserCoverage(k=2)
    >>> scores = torch.tensor([[0.9, 0.5], [-torch.inf, -torch.inf]])
    >>> metric.update(scores, torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    def user_values(self, topk: TopK) -> Tensor:
        return (topk.num_listed >= 1).to(topk.k.dtype)


@register
class UserCoverageAtN(_CoveredUsers):
    """The number of users who are recommended at least `n` items; without `n`, at least k.

    `as_fraction=True` divides by the number of users, those without any recommendation included.
    `users="evaluated"` counts users with a relevant item only.

    Edge cases: `n` above k is allowed and gives 0.

    Example: the first user has two candidates, the second one.

    >>> import torch, weft
    >>> metric = weft.metrics.UserCoverageAtN(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.9, -torch.inf]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    def __init__(self, k: int, *, n: int | None = None, **settings: Any) -> None:
        super().__init__(k, **settings)
        self.n = None if n is None else check_int("UserCoverageAtN got n", n)

    def user_values(self, topk: TopK) -> Tensor:
        return (topk.num_listed >= (topk.k if self.n is None else self.n)).to(topk.k.dtype)


@register
class NumRetrieved(_ListMetric):
    """The length of the lists: the mean number of items recommended, at most k.

    `users="evaluated"` counts the lists of users with a relevant item only.

    Edge cases: an empty list counts 0.

    Example: lists of two items and of one.

    >>> import torch, weft
    >>> metric = weft.metrics.NumRetrieved(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.9, -torch.inf]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute()
    tensor(1.5000, dtype=torch.float64)
    """

    def user_values(self, topk: TopK) -> Tensor:
        return topk.num_listed


class _PositionShare(_ListMetric):
    """The share of the positions of a list that fulfil a condition."""

    bounds: Bounds = (0.0, 1.0)
    undefined = "all lists are empty"
    reference = (
        "Rajput et al. (2023), Recommender systems with generative retrieval (on invalid ids), "
        "doi 10.48550/arXiv.2305.05065"
    )

    def share(self, topk: TopK, number: Tensor | int) -> Tensor:
        """Return a number of positions divided by all of the list cut at k."""
        length = topk.list_length
        return number / torch.where(length > 0, length, torch.nan)


@register
class ValidRate(_PositionShare):
    """The share of the first k positions of a list that hold an item of the catalogue, averaged
    over lists.

    It measures how often a generative model invents items: with a catalogue (`items`) and
    `unknown_items="miss"`, items outside the catalogue keep their positions. An item that repeats
    an earlier one is valid, too; see DuplicateRate. `users="evaluated"` counts the lists of users
    with a relevant item only.

    Edge cases: lists shorter than k are divided by their own length; an empty list is left out; 1
    for scores, and for lists without items that are unknown.

    Example: of three items, one is not in the catalogue; scores have no such items.

    >>> import torch, weft
    >>> lists, truth = {"ann": ["tea", "unicorn milk", "rye"]}, {"ann": ["rye"]}
    >>> result = weft.evaluate(
    ...     lists, truth, items=["fig", "rye", "tea"], unknown_items="miss", metrics="ValidRate@3"
    ... )
    >>> round(result["ValidRate@3"], 4)
    0.6667
    >>> metric = weft.metrics.ValidRate(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    def user_values(self, topk: TopK) -> Tensor:
        return self.share(topk, topk.list_length - topk.count_empty(UNKNOWN, REPEATED_UNKNOWN))


@register
class DuplicateRate(_PositionShare):
    """The share of the first k positions of a list that repeat an item of an earlier position,
    averaged over lists. Lower is better.

    With `duplicates="miss"`, repeated items keep their positions. Items are compared by their ids,
    in the catalogue or not. `users="evaluated"` counts the lists of users with a relevant item
    only.

    Edge cases: lists shorter than k are divided by their own length; an empty list is left out; 0
    for scores, and where `duplicates="keep-best"` has removed repeated items.

    Example: of four items, one occurs twice; scores rank each item once.

    >>> import torch, weft
    >>> lists, truth = {"ann": ["tea", "rye", "tea", "fig"]}, {"ann": ["rye"]}
    >>> weft.evaluate(lists, truth, duplicates="miss", metrics="DuplicateRate@4")["DuplicateRate@4"]
    0.25
    >>> metric = weft.metrics.DuplicateRate(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0., dtype=torch.float64)
    """

    higher_is_better = False

    def user_values(self, topk: TopK) -> Tensor:
        number = topk.list_length * 0 + topk.count_empty(REPEATED, REPEATED_UNKNOWN)
        return self.share(topk, number)
