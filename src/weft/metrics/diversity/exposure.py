"""How evenly recommendations spread over the items, and how much the lists of users differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft._choices import choices
from weft.batch.topk import TopK
from weft.errors import SettingError, check_bool, check_choice, check_int
from weft.metrics.accumulators import (
    Accumulator,
    Contribution,
    ItemAccumulator,
    ItemExposure,
    ListedItemAccumulator,
)
from weft.metrics.base.formulas import POPULATIONS
from weft.metrics.base.metric import Bounds
from weft.metrics.base.summed import SummedTopKMetric
from weft.metrics.browsing import DEFAULT_P, BrowsingModel
from weft.metrics.parameter_types import (
    BrowsingWeight,
    EntropyWeights,
    GiniDenominator,
    Overlap,
    Population,
)
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView


class _Spread(SummedTopKMetric):
    """A number that describes the exposure of items: in how many lists each item is, of all users
    or of evaluated users.
    """

    family = "diversity"
    is_exposure_metric = True
    is_item_statistic = True

    def __init__(
        self, k: int, *, num_items: int, users: Population = "lists", **settings: Any
    ) -> None:
        super().__init__(k, **settings)
        self.num_items = check_int("num_items", num_items, least=0)
        self.users = check_choice("users", users, POPULATIONS)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (ItemExposure(self.num_items, self.users),)


@dataclass(frozen=True)
class ItemListShares(ItemAccumulator):
    """The share of each item in a list cut at k, 1 / its length ** power, summed over lists: of all
    users ("lists") or of those with a relevant item ("evaluated").
    """

    users: str = "lists"
    power: float = 1
    is_per_position = True

    def contributions(self, topk: TopK) -> Contribution:
        items = topk.batch.items[:, : topk.cutoffs[-1], None]
        is_counted = (items >= 0) & (topk.positions[: topk.cutoffs[-1], None] <= topk.k)
        if self.users == "evaluated":
            is_counted = is_counted & (topk.num_relevant > 0)[:, None]
        share = 1 / topk.num_listed.clamp(min=1) ** self.power
        shares = torch.where(is_counted, share[:, None], 0)
        columns = torch.arange(len(topk.cutoffs), device=items.device)
        return Contribution(shares, items.clamp(min=0) * len(topk.cutoffs) + columns)


@dataclass(frozen=True)
class ItemWeightedExposure(ListedItemAccumulator):
    """The weights of the positions at which each item is listed: of all users ("lists") or of those
    with a relevant item ("evaluated").
    """

    users: str
    browsing: BrowsingModel
    is_per_position = True

    def contributions(self, topk: TopK) -> Contribution:
        items = topk.batch.items[:, : topk.cutoffs[-1]]
        is_counted = items >= 0
        if self.users == "evaluated":
            is_counted = is_counted & (topk.num_relevant > 0)
        weights = self.browsing.weights(topk.positions[: items.shape[1]])
        return Contribution(is_counted * weights, topk.item_slots)


@register
class Gini(_Spread):
    r"""The Gini index of the exposure of items: 0 if every item is in equally many lists, 1 if one
    item is in all of them and no other is in any. Lower is more even.

    All items of the catalogue count. The exposure of an item is the number of lists that hold it,
    or the sum of the weights of its positions.

    Formula: \mathrm{Gini} = \frac{\sum_{j=1}^{|I|} (2j - {|I|} - 1) \, c_j}{({|I|} - 1)
    \sum_{j=1}^{|I|} c_j}

    Symbols: $c$ are the numbers of lists that hold each item, in ascending order.

    Parameters:
        denominator: Factor in the denominator: `"N-1"` is the number of items minus 1, so that the
            value can reach 1, and `"N"` is the number of items.
        weight, p: As in AWRF.
        users: As in ItemCoverage.

    Use: Gini answers how concentrated recommendations are on few items. Use it to monitor whether a
    model favours bestsellers, next to ItemCoverage. All values are close to 1 if the lists have far
    fewer positions in total than the catalogue has items, so compare models on the same users, k
    and catalogue. It does not tell which items are favoured: use ARP or APLT for popularity and
    AWRF or RSP for groups of items.

    Related: ShannonEntropy, ItemCoverage, ARP, APLT, Personalization.

    Edge cases: by default all lists count, also those of users without relevant items; a catalogue
    of one item gives 0; undefined if nothing is recommended.

    Example: of three items, one is in both lists and the others are in none.

    >>> import torch, weft
    >>> metric = weft.metrics.Gini(k=1, num_items=3)
    >>> scores = torch.tensor([[0.9, 0.5, 0.1], [0.9, 0.1, 0.5]])
    >>> metric.update(scores, torch.tensor([[1, 0, 0], [0, 0, 1]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    higher_is_better = False
    bounds: Bounds = (0.0, 1.0)
    undefined = "nothing is recommended"
    reference = (
        "Castells, Hurley and Vargas (2015), Novelty and diversity in recommender systems, "
        "doi 10.1007/978-1-4899-7637-6_26"
    )

    def __init__(
        self,
        k: int,
        *,
        denominator: GiniDenominator = "N-1",
        weight: BrowsingWeight = "uniform",
        p: float = DEFAULT_P,
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.denominator = check_choice("denominator", denominator, choices(GiniDenominator))
        self._browsing = BrowsingModel(weight, p)
        self.weight, self.p = self._browsing.weight, self._browsing.p

    def accumulators(self) -> tuple[ItemAccumulator, ...]:
        if self.weight == "uniform":
            return (ItemExposure(self.num_items, self.users),)
        return (ItemWeightedExposure(self.num_items, self.users, self._browsing),)

    def compute_value(self, state: StateView) -> Tensor:
        exposure, n = state.at_items(*self.accumulators()), self.num_items
        if n <= 1:
            return torch.where(exposure.sum() > 0, 0.0, torch.nan).to(exposure.dtype)
        total = (n - 1 if self.denominator == "N-1" else n) * exposure.sum()
        if self.weight != "uniform":
            last = torch.arange(n - len(exposure), n, device=exposure.device) + 1
            return ((2 * last - n - 1) * exposure.sort().values).sum() / total
        # Many items are in equally many lists. For m of them with a items below, 2j - N - 1 sums to
        # m (2a + m - N).
        num_items = torch.bincount(exposure.long(), minlength=1).to(exposure.dtype)
        num_items[0] += n - len(exposure)
        below = num_items.cumsum(0) - num_items
        num_lists = torch.arange(len(num_items), dtype=exposure.dtype, device=exposure.device)
        numerator = (num_lists * num_items * (2 * below + num_items - n)).sum()
        return numerator / total


@register
class ShannonEntropy(_Spread):
    r"""The entropy of the exposure of items: how evenly all recommendations are spread over the
    items. Higher is more varied.

    Formula: \mathrm{ShannonEntropy} = -\sum_{i \in I} q_i \, \ln q_i, \quad q_i =
    \frac{c_i}{\sum_{j \in I} c_j}

    Symbols: $q$ is the share of an item in all recommendations.

    Parameters:
        base: Base of the logarithm: `"e"` or 2. It has no effect with `normalized=True`.
        normalized: True divides by the logarithm of the number of items, so that 1 is an even
            spread over the catalogue.
        weights: `"positions"` gives all recommendations the same weight. `"lists"` gives all lists
            the same weight, however short they are: the value is -Σ w log q, with q the share of an
            item in all recommendations and w its mean share in a list.
        users: As in ItemCoverage.

    Use: ShannonEntropy answers over how many items recommendations effectively spread: e to the
    power of the value is that number. Use it next to ItemCoverage, which counts an item in one list
    as much as one in every list. It weighs rarely recommended items more than Gini does. Neither
    shows whether single lists are diverse: use ILD or CategoryEntropy for that.

    Related: Gini, ItemCoverage, Personalization, CategoryEntropy.

    Edge cases: by default all lists count; undefined if nothing is recommended, or if normalized
    over a catalogue of one item.

    Example: two lists have one item each, and the items differ: two equal shares, log 2.

    >>> import torch, weft
    >>> metric = weft.metrics.ShannonEntropy(k=1, num_items=3)
    >>> scores = torch.tensor([[0.9, 0.5, 0.1], [0.1, 0.5, 0.9]])
    >>> metric.update(scores, torch.tensor([[1, 0, 0], [0, 0, 1]]))
    >>> metric.compute()
    tensor(0.6931, dtype=torch.float64)
    """

    higher_is_better = True
    bounds: Bounds = (0.0, None)
    undefined = (
        "nothing is recommended, or the entropy is normalized and the catalogue has one item"
    )
    reference = (
        "Shannon (1948), A mathematical theory of communication, "
        "doi 10.1002/j.1538-7305.1948.tb01338.x"
    )

    def __init__(
        self,
        k: int,
        *,
        base: str | int = "e",
        normalized: bool = False,
        weights: EntropyWeights = "positions",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.weights = check_choice("weights", weights, choices(EntropyWeights))
        is_two = isinstance(base, (int, float)) and not isinstance(base, bool) and base == 2
        self.base: str | int = 2 if is_two else "e"
        if not is_two and str(base).casefold() != "e":
            raise SettingError(f"base={base!r} is not known. Choose 'e' or 2.")
        self.normalized = check_bool("normalized", normalized)
        if self.normalized and self.weights == "positions":
            self.bounds = (0.0, 1.0)

    def accumulators(self) -> tuple[ItemAccumulator, ...]:
        exposure = ItemExposure(self.num_items, self.users)
        if self.weights == "positions":
            return (exposure,)
        return exposure, ItemListShares(self.num_items, self.users)

    def compute_value(self, state: StateView) -> Tensor:
        exposure, *_ = self.accumulators()
        p, *others = (state.at_items(one, like=exposure) for one in self.accumulators())
        p = p / p.sum()
        w = others[0] / others[0].sum() if others else p
        nats = 0 - torch.xlogy(w, p).sum()  # not -x, which would print -0.0
        if self.normalized:
            if self.num_items <= 1:
                return torch.full_like(nats, torch.nan)
            return nats / math.log(self.num_items)
        return nats if self.base == "e" else nats / math.log(2)


@dataclass(frozen=True)
class NumLists(Accumulator):
    """The number of lists with an item: of all users ("lists") or of those with a relevant item
    ("evaluated").
    """

    users: str = "lists"
    has_cutoffs = False
    count_rows = slice(0, 1)

    @property
    def num_rows(self) -> int:
        return 1

    def contributions(self, topk: TopK) -> Contribution:
        is_counted = (topk.batch.items >= 0).any(1)
        if self.users == "evaluated":
            is_counted = is_counted & (topk.batch.num_relevant > 0)
        return Contribution(is_counted[:, None].to(topk.k.dtype))


@register
class Personalization(_Spread):
    r"""How much the lists of different users differ: 1 minus the mean overlap of two lists, over
    all pairs of users. 1 if no two users share an item, 0 if all lists have the same items.

    Formula: \mathrm{Personalization} = 1 - \frac{2}{{|U|} ({|U|} - 1)} \sum_{u < v} \frac{|L_u \cap
    L_v|}{k}

    Symbols: $U$ are all users with a list that is not empty; $u < v$ denotes pairs of them.

    Parameters:
        overlap: Overlap of two lists: `"k"` is the number of common items divided by k, and
            `"cosine"` that number divided by the root of the product of the lengths of the lists,
            which differs for lists shorter than k.
        users: As in ItemCoverage.

    Use: Personalization answers whether users get different recommendations. Use it to find models
    that recommend the same popular items to everyone. Random lists from a large catalogue have a
    value close to 1, so report it next to accuracy. It compares lists with each other: for
    differences within a list use ILD, and for the spread over the catalogue Gini.

    Related: Gini, ItemCoverage, ShannonEntropy, ILD, Intersection.

    Edge cases: empty lists are left out; undefined for fewer than two lists.

    Example: the lists of two users share one of two items.

    >>> import torch, weft
    >>> metric = weft.metrics.Personalization(k=2, num_items=3)
    >>> scores = torch.tensor([[0.9, 0.5, 0.1], [0.9, 0.1, 0.5]])
    >>> metric.update(scores, torch.tensor([[1, 0, 0], [0, 0, 1]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)
    undefined = "fewer than two lists have an item"
    reference = (
        "Zhou et al. (2010), Solving the apparent diversity-accuracy dilemma of recommender "
        "systems, doi 10.1073/pnas.1000488107"
    )

    def __init__(self, k: int, *, overlap: Overlap = "k", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.overlap = check_choice("overlap", overlap, choices(Overlap))

    def accumulators(self) -> tuple[Accumulator, ...]:
        return self._items(), NumLists(self.users)

    def _items(self) -> ItemAccumulator:
        if self.overlap == "k":
            return ItemExposure(self.num_items, self.users)
        return ItemListShares(self.num_items, self.users, power=0.5)

    def compute_value(self, state: StateView) -> Tensor:
        # The sum of squares over items has the overlap of each ordered pair of users, and of each
        # list with itself: c_i for all its items, or 1.
        items, users = state.at_items(self._items()), state[NumLists(self.users)][0]
        num_pairs = torch.where(users > 1, users * (users - 1), torch.nan)
        if self.overlap == "k":
            assert state.k is not None
            return 1 - (items * (items - 1)).sum() / (num_pairs * state.k)
        return 1 - ((items * items).sum() - users) / num_pairs
