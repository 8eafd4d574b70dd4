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

from weft._choices import choices
from weft._input_kinds import BUILT_IN_INPUTS
from weft.batch.topk import TopK
from weft.data.recommendations.list_policy import REPEATED, REPEATED_UNKNOWN, UNKNOWN
from weft.errors import check_bool, check_choice, check_int
from weft.metrics.accumulators import Accumulator, ItemExposure
from weft.metrics.base.formulas import POPULATIONS, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.base.summed import ComputedValue, SummedTopKMetric
from weft.metrics.parameter_types import CoverageUniverse, Population
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView

_GE = (
    "Ge, Delgado-Battenfeld and Jannach (2010), Beyond accuracy: evaluating recommender systems by "
    "coverage and serendipity, doi 10.1145/1864708.1864761"
)


@register
class ItemCoverage(SummedTopKMetric):
    r"""The number of distinct items that are recommended to at least one user.

    By default, all lists count, also those of users without relevant items.

    Formula: \mathrm{ItemCoverage} = {\Big| \bigcup_{u \in U} L_u \Big|}

    Symbols: $U$ are all users, with or without relevant items.

    Parameters:
        as_fraction: True divides by the number of items that can count: those of the `universe`.
        universe: Items that can count: `"catalogue"` means all items of the catalogue, and
            `"train"` those with train interactions, as in RePlay and evidently.
        users: Lists that count: `"lists"` means those of all users, with or without relevant items,
            and `"evaluated"` those of users with a relevant item.

    Use: ItemCoverage answers how much of the catalogue a model makes visible at all. Use
    `as_fraction=True` to compare catalogues of different sizes. The value grows with the number of
    users, so compare models on the same users. An item that is recommended once counts as much as
    one in every list: use Gini or ShannonEntropy to see how evenly recommendations are spread.

    Related: Gini, ShannonEntropy, UserCoverage, APLT.

    Edge cases: an item that is not a candidate of a user is never in the user's list, even if the
    list is shorter than k.

    Example: both lists begin with item 0; at k = 2 they also hold items 1 and 2.

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
        universe: CoverageUniverse = "catalogue",
        users: Population = "lists",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.num_items = check_int("num_items", num_items, least=0)
        self.users = check_choice("users", users, POPULATIONS)
        self.as_fraction = check_bool("as_fraction", as_fraction)
        self.universe = check_choice("universe", universe, choices(CoverageUniverse))
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

    def __init__(self, k: int, *, users: Population = "lists", **settings: Any) -> None:
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
    r"""The number of users who are recommended at least one item.

    Formula: \mathrm{UserCoverage} = \sum_{u \in U} [{|L_u|} \ge 1]

    Symbols: $U$ are all users, with or without relevant items.

    Parameters:
        as_fraction: True divides by the number of users that count, with or without
            recommendations.
        users: As in ItemCoverage.

    Use: UserCoverage answers for how many users a model can recommend anything. Use it next to
    accuracy for models that cannot serve everyone, such as neighbourhood models or rules that fail
    for new users. Models that score all items reach every user, so it distinguishes them only if
    candidates are filtered; UserCoverageAtN also finds lists that are too short.

    Related: UserCoverageAtN, NumRetrieved, ItemCoverage.

    Edge cases: by default, users without relevant items count as well.

    Example: all items of the second user are masked, so only the first user counts.

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
    r"""The number of users who are recommended at least `n` items (by default, k items).

    Formula: \mathrm{UserCoverageAtN} = \sum_{u \in U} [{|L_u|} \ge n], \quad n = k

    Symbols: $U$ are all users, with or without relevant items.

    Parameters:
        n: Lowest number of items in a list, an integer of at least 1. None means k.
        as_fraction: As in UserCoverage.
        users: As in ItemCoverage.

    Use: UserCoverageAtN answers for how many users a page with n places can be filled. Use it if
    filters, thresholds or business rules shorten lists. It does not measure the quality of the
    items, so report it next to an accuracy metric; NumRetrieved gives the mean length of the lists
    instead.

    Related: UserCoverage, NumRetrieved, ItemCoverage.

    Edge cases: `n` may be larger than k; the value is then 0.

    Example: the first user has two candidates and the second has one, so one list has two items.

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
    r"""The mean number of recommended items per list, at most k.

    By default, all lists count, also those of users without relevant items.

    Formula: \mathrm{NumRetrieved}_u = {|L_u|}

    Parameters:
        users: As in ItemCoverage.

    Use: NumRetrieved answers how long lists really are. Look at it first if Precision or Recall is
    lower than expected, because positions that are not filled count as misses. It is no measure of
    quality; to find out how many users get too few items, use UserCoverageAtN.

    Related: UserCoverageAtN, UserCoverage, Precision.

    Edge cases: an empty list counts 0.

    Example: the lists have two items and one item.

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
    r"""The share of the first k positions of a list that hold an item of the catalogue, averaged
    over all lists.

    It measures how often a generative model invents items: with a catalogue (`items`) and
    `unknown_items="miss"`, items outside the catalogue keep their positions. An item that repeats
    an earlier one is valid; DuplicateRate counts such items.

    Formula: \mathrm{ValidRate}_u = \frac{1}{|L_u|} \sum_{p=1}^{|L_u|} [i_p \in I]

    Parameters:
        users: As in ItemCoverage.

    Use: ValidRate answers how many generated recommendations exist. Use it for language models and
    generative retrieval, where an output need not be an item. It is always 1 for models that score
    the catalogue. Valid items can still be irrelevant or repeated, so report it with Recall or nDCG
    and with DuplicateRate.

    Related: DuplicateRate, NumRetrieved, ItemCoverage, Recall.

    Edge cases: a list shorter than k is divided by its own length; empty lists are left out; the
    value is 1 for scores and for lists without unknown items.

    Example: one of three items is not in the catalogue; scores have no such items.

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
    r"""The share of the first k positions of a list that repeat an item of an earlier position,
    averaged over all lists. Lower is better.

    With `duplicates="miss"`, repeated items keep their positions. Items are compared by their ids,
    whether or not they are in the catalogue.

    Formula: \mathrm{DuplicateRate}_u = \frac{1}{|L_u|} \sum_{p=1}^{|L_u|} [i_p \in \{ i_1, \ldots,
    i_{p-1} \}]

    Parameters:
        users: As in ItemCoverage.

    Use: DuplicateRate answers how many positions of a list are wasted on repeated items. Use it for
    generative models and for lists that are merged from several sources. It finds items with the
    same id only: for items that are alike, use ILS. It is always 0 for models that score the
    catalogue.

    Related: ValidRate, ILS, NumRetrieved.

    Edge cases: a list shorter than k is divided by its own length; empty lists are left out; the
    value is 0 for scores and if `duplicates="keep-best"` has removed repeated items.

    Example: one of four positions repeats an item; scores rank each item once.

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
