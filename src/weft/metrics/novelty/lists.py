"""Novelty of whole lists: the mean over the items of a list, relevant or not, without discounts."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from weft._choices import choices
from weft._input_kinds import built_in_inputs
from weft.batch.topk import TopK
from weft.data import DeviceColumn, Train
from weft.errors import check_choice
from weft.metrics.base.formulas import POPULATIONS, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.parameter_types import ColdItems, ListDenominator, Population
from weft.metrics.registry import register

_ZHOU = (
    "Zhou et al. (2010), Solving the apparent diversity-accuracy dilemma of recommender systems, "
    "doi 10.1073/pnas.1000488107"
)


class _ListNovelty(UserAverageTopKMetric):
    """The mean over a list of a novelty that follows from the train interactions of an item."""

    family = "novelty"
    needs = built_in_inputs("train")
    higher_is_better = True
    is_exposure_metric = True
    bounds: Bounds = (0.0, None)
    undefined = "train is empty, or no list has an item with a novelty"
    reference = _ZHOU

    def __init__(
        self,
        k: int,
        *,
        cold_items: ColdItems = "one",
        denominator: ListDenominator = "list",
        users: Population = "lists",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self._train: Train = self.inputs["train"]
        self.cold_items = check_choice("cold_items", cold_items, choices(ColdItems))
        self.denominator = check_choice("denominator", denominator, choices(ListDenominator))
        self.users = check_choice("users", users, POPULATIONS)

    def novelty(self, popularity: Tensor) -> Tensor:
        """Return the novelty of items from their numbers of train interactions, 1 or more."""
        raise NotImplementedError

    def _counts(self, popularity: Tensor) -> Tensor:
        """Return 1 for items that count, from their numbers of train interactions."""
        return (popularity >= (self.cold_items == "skip")).to(popularity.dtype)

    @cached_property
    def _is_counted(self) -> DeviceColumn:
        """1 for items that count, `[items]`."""
        return self._train.by_count(self._counts)

    @cached_property
    def _novelty(self) -> DeviceColumn:
        """The novelty of each item, 0 if it does not count, `[items]`."""
        return self._train.by_count(lambda n: self.novelty(n.clamp(min=1)) * self._counts(n))

    def user_values(self, topk: TopK) -> Tensor:
        if self._train.num_interactions == 0:
            return torch.full_like(topk.num_listed, torch.nan)
        counted = topk.num_listed
        if self.cold_items == "skip":
            counted = topk.sum_column(self._is_counted)
        length = topk.k if self.denominator == "k" else counted
        return topk.sum_column(self._novelty) / torch.where(counted > 0, length, torch.nan)


@register
class MIUF(_ListNovelty):
    r"""Mean inverse user frequency: the mean over the items of a list of log2(train users / train
    interactions of the item), averaged over all lists.

    Train users are users with a train interaction.

    Formula: \mathrm{MIUF}_u = \frac{1}{|L_u|} \sum_{i \in L_u} \log_2
    \frac{|U_{\mathrm{train}}|}{\max(n_i, 1)}

    Symbols: $U_{\mathrm{train}}$ are the users with a train interaction.

    Parameters:
        cold_items: Treatment of items without train interactions: `"one"` counts them as if they
            had one, and `"skip"` leaves them out.
        denominator: Divisor: `"list"` is the number of items of the list that count, and `"k"` is
            k.
        users: As in ItemCoverage.

    Use: MIUF answers how unpopular the recommended items are, relevant or not; each halving of an
    item's users adds 1. Use it as the standard novelty of lists. A random recommender scores very
    well, so report it next to an accuracy metric, or use EPC or EFD, which count relevant items
    only. To compare data sets of different sizes, use Surprisal.

    Related: Surprisal, SelfInformation, EPC, ARP, PopularityQuantile.

    Edge cases: empty lists are left out, and so are lists without an item that counts; undefined if
    train is empty.

    Example: both train users have interacted with item 0, and one of them with item 1: (0 + 1) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.MIUF(k=2, train=torch.tensor([[1, 1, 0], [1, 0, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    def novelty(self, popularity: Tensor) -> Tensor:
        return torch.log2(self._train.num_users / popularity)


@register
class SelfInformation(_ListNovelty):
    r"""The mean information content of the items of a list in bits, averaged over all lists.

    The information content of an item is log2(T / n), with n its train interactions and T those of
    all items.

    Formula: \mathrm{SelfInformation}_u = \frac{1}{|L_u|} \sum_{i \in L_u} \log_2 \frac{T}{\max(n_i,
    1)}

    Parameters:
        cold_items, denominator: As in MIUF.
        users: As in ItemCoverage.

    Use: SelfInformation answers how improbable the recommended items are in the train interactions.
    Use it to compare with tools that report it as novelty. It differs from MIUF by a constant of
    the data set (without cold items), so one of the two is enough; MIUF is easier to interpret.
    Like all novelty of lists it rewards random lists: report accuracy next to it.

    Related: MIUF, Surprisal, EFD, ARP.

    Edge cases: empty lists are left out, and so are lists without an item that counts; undefined if
    train is empty.

    Example: items 0 and 1 have 2 and 1 of 4 train interactions: (1 + 2) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.SelfInformation(k=2, train=torch.tensor([[1, 1, 0], [1, 0, 1]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(1.5000, dtype=torch.float64)
    """

    reference = (
        "Vargas and Castells (2011), Rank and relevance in novelty and diversity metrics for "
        "recommender systems, doi 10.1145/2043932.2043955"
    )

    def novelty(self, popularity: Tensor) -> Tensor:
        return torch.log2(self._train.num_interactions / popularity)


@register
class Surprisal(_ListNovelty):
    r"""The normalized inverse user frequency of the items of a list, from 0 (all train users know
    the items) to 1 (at most one train user knows each item), averaged over all lists.

    It is MIUF divided by its highest possible value. By default, the sum is divided by k, so that
    positions after the end of a list add 0.

    Formula: \mathrm{Surprisal}_u = \frac{1}{k} \sum_{i \in L_u} \frac{\log_2
    ({|U_{\mathrm{train}}|} / \max(n_i, 1))}{\log_2 {|U_{\mathrm{train}}|}}

    Symbols: $U_{\mathrm{train}}$ are the users with a train interaction.

    Parameters:
        cold_items, denominator: As in MIUF.
        users: As in ItemCoverage.

    Use: Surprisal answers how unpopular the recommended items are, on a scale of 0 to 1 that does
    not depend on the number of users. Use it instead of MIUF to compare data sets. Lists shorter
    than k lower the value, so use `denominator="list"` if models return lists of different lengths.
    Random lists score high: report accuracy next to it, or use EPC.

    Related: MIUF, SelfInformation, EPC, PopularityQuantile.

    Edge cases: empty lists are left out, and so are lists without an item that counts; undefined if
    train has fewer than two users.

    Example: of four train users, two have interacted with item 0 and one with item 1: (1/2 + 2/2) /
    2.

    >>> import torch, weft
    >>> train = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]])
    >>> metric = weft.metrics.Surprisal(k=2, train=train)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)
    """

    bounds: Bounds = (0.0, 1.0)
    undefined = "train has fewer than two users, or no list has an item with a novelty"

    def __init__(self, k: int, *, denominator: ListDenominator = "k", **settings: Any) -> None:
        super().__init__(k, denominator=denominator, **settings)

    def novelty(self, popularity: Tensor) -> Tensor:
        num_users = torch.full_like(popularity, self._train.num_users)
        # 0 / 0 for a single user: the items all have one interaction.
        return torch.log2(num_users / popularity) / torch.log2(num_users)
