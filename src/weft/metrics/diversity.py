"""Diversity: how evenly recommendations spread over the items, and how many of a user's interests
a list covers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft._input_kinds import built_in_inputs
from weft.batch.topk import TopK
from weft.data import Features
from weft.errors import SettingError, check_bool, check_choice, check_int
from weft.metrics.accumulators import Contribution, ItemAccumulator, ItemExposure
from weft.metrics.base.formulas import POPULATIONS, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.base.summed import SummedTopKMetric
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView


class _Spread(SummedTopKMetric):
    """A number that describes the exposure of items: in how many lists each item is, of all users
    or of evaluated users.
    """

    family = "diversity"
    is_exposure_metric = True

    def __init__(self, k: int, *, num_items: int, users: str = "lists", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.num_items = check_int("num_items", num_items, least=0)
        self.users = check_choice("users", users, POPULATIONS)

    def accumulators(self) -> tuple[ItemAccumulator, ...]:
        return (ItemExposure(self.num_items, self.users),)


@dataclass(frozen=True)
class ItemListShares(ItemAccumulator):
    """The share of each item in a list cut at k, 1 / its length, summed over lists: of all users
    ("lists") or of those with a relevant item ("evaluated").
    """

    users: str = "lists"
    is_per_position = True

    def contributions(self, topk: TopK) -> Contribution:
        items = topk.batch.items[:, : topk.cutoffs[-1], None]
        is_counted = (items >= 0) & (topk.positions[: topk.cutoffs[-1], None] <= topk.k)
        if self.users == "evaluated":
            is_counted = is_counted & (topk.num_relevant > 0)[:, None]
        shares = torch.where(is_counted, 1 / topk.list_length.clamp(min=1)[:, None], 0)
        columns = torch.arange(len(topk.cutoffs), device=items.device)
        return Contribution(shares, items.clamp(min=0) * len(topk.cutoffs) + columns)


@register
class Gini(_Spread):
    """The Gini index of exposure: 0 if every item is in equally many lists, 1 if one item has all
    of them. Lower is more even.

    With c_j the number of lists that hold an item, ascending over all N items of the catalogue: Σ_j
    (2j - N - 1) · c_j ÷ ((N - 1) · Σ c). `denominator="N"` divides by N · Σ c; `users="evaluated"`
    counts the lists of users with a relevant item only.

    Edge cases: by default all lists count, of users without relevant items too; a catalogue of one
    item gives 0; undefined if nothing is recommended.

    Example: of three items one is in both lists, the others are in none.

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

    def __init__(self, k: int, *, denominator: str = "N-1", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.denominator = check_choice("denominator", denominator, ("N-1", "N"))

    def compute_value(self, state: StateView) -> Tensor:
        exposure, n = state.at_items(*self.accumulators()), self.num_items
        if n <= 1:
            return torch.where(exposure.sum() > 0, 0.0, torch.nan).to(exposure.dtype)
        # Many items are in equally many lists. For m of them with a items below, 2j - N - 1 sums to
        # m (2a + m - N).
        num_items = torch.bincount(exposure.long(), minlength=1).to(exposure.dtype)
        num_items[0] += n - len(exposure)
        below = num_items.cumsum(0) - num_items
        num_lists = torch.arange(len(num_items), dtype=exposure.dtype, device=exposure.device)
        numerator = (num_lists * num_items * (2 * below + num_items - n)).sum()
        return numerator / ((n - 1 if self.denominator == "N-1" else n) * exposure.sum())


@register
class ShannonEntropy(_Spread):
    """The entropy of exposure: -Σ p_i log p_i with p_i the share of item i in all recommendations.
    Higher is more varied.

    `base` of the logarithm: `"e"` or `2`. `normalized=True` divides by log N, so that 1 is an even
    spread over the catalogue. `users="evaluated"` counts the lists of users with a relevant item
    only. `weights="lists"` gives all lists the same weight, however short: -Σ w_i log p_i with w_i
    the mean share of item i in a list.

    Edge cases: by default all lists count; undefined if nothing is recommended, or normalised over
    a catalogue of one item.

    Example: two lists of one item each, both different: two equal shares, log 2.

    >>> import torch, weft
    >>> metric = weft.metrics.ShannonEntropy(k=1, num_items=3)
    >>> scores = torch.tensor([[0.9, 0.5, 0.1], [0.1, 0.5, 0.9]])
    >>> metric.update(scores, torch.tensor([[1, 0, 0], [0, 0, 1]]))
    >>> metric.compute()
    tensor(0.6931, dtype=torch.float64)
    """

    higher_is_better = True
    bounds: Bounds = (0.0, None)
    undefined = "nothing is recommended, or the catalogue of a normalised entropy has one item"
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
        weights: str = "positions",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.weights = check_choice("weights", weights, ("positions", "lists"))
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


@register
class SRecall(UserAverageTopKMetric):
    """Subtopic recall: of the features of a user's relevant items, the share that the relevant
    items in the list have.

    Items carry sets of features, such as genres. `denominator="catalogue"` divides by all features
    of the catalogue instead; `numerator="list"` counts the features of all items in the list, so
    that the value may exceed 1.

    Edge cases: users whose relevant items have no feature are left out (with
    `denominator="catalogue"` they count 0); items without features add none.

    Example: the relevant items have two genres; the one in the list has the first of them.

    >>> import torch, weft
    >>> genres = {0: ["drama"], 1: ["comedy", "drama"], 2: ["horror"]}
    >>> metric = weft.metrics.SRecall(k=2, item_features=genres, num_items=3)
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    family = "diversity"
    needs = built_in_inputs("item_features")
    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)
    undefined = "no user has a relevant item with a feature"
    reference = (
        "Zhai, Cohen and Lafferty (2003), Beyond independent relevance: methods and evaluation "
        "metrics for subtopic retrieval, doi 10.1145/860435.860440"
    )

    def __init__(
        self,
        k: int,
        *,
        denominator: str = "relevant",
        numerator: str = "relevant",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self._features: Features = self.inputs["item_features"]
        self.denominator = check_choice("denominator", denominator, ("relevant", "catalogue"))
        self.numerator = check_choice("numerator", numerator, ("relevant", "list"))
        self.is_exposure_metric = self.numerator == "list"
        if (self.numerator, self.denominator) == ("list", "relevant"):
            self.bounds = (0.0, None)

    def user_values(self, topk: TopK) -> Tensor:
        batch = topk.batch
        relevant = batch.relevant
        relevant_items = relevant.fill_invalid(relevant.items, -1)
        by_cutoff = in_relevant = self._count_features(
            topk, relevant.rows, items=relevant_items, positions=batch.hit_positions
        )
        if self.numerator == "list":
            rows, positions = torch.meshgrid(
                torch.arange(batch.size, device=batch.device),
                torch.arange(batch.depth, device=batch.device),
                indexing="ij",
            )
            by_cutoff = self._count_features(
                topk,
                rows.reshape(-1),
                items=batch.items.reshape(-1),
                positions=positions.reshape(-1),
            )
        covered = by_cutoff[:, :-1].cumsum(1)
        if self.denominator == "relevant":
            total = in_relevant.sum(1, keepdim=True)
            return covered / torch.where(total > 0, total, torch.nan)
        num_features = len(self._features.names)
        return covered / num_features if num_features else torch.full_like(covered, torch.nan)

    def _count_features(
        self, topk: TopK, rows: Tensor, *, items: Tensor, positions: Tensor
    ) -> Tensor:
        """Return the number of distinct features of each row by the first cut-off that includes
        them, `[batch, cut-offs + 1]`; the last column is for features beyond all cut-offs.

        `items` (-1 = none) with their rows and positions, `[n]` each."""
        num_positions, width = topk.batch.depth + 1, len(topk.cutoffs) + 1
        size = topk.batch.size
        key = self._feature_keys(rows, items, positions, size=size, num_positions=num_positions)
        key = key.sort().values
        pair = key.div(num_positions, rounding_mode="floor")
        is_first = torch.ones_like(pair, dtype=torch.bool)
        is_first[1:] = pair[1:] != pair[:-1]
        row = pair.div_(max(1, len(self._features.names)), rounding_mode="floor")
        cutoff = topk.cutoff_index.index_select(0, key.remainder_(num_positions))
        counts = torch.zeros((size + 1) * width, dtype=topk.k.dtype, device=key.device)
        counts.index_add_(0, cutoff.add_(row, alpha=width), is_first.to(counts.dtype))
        return counts.view(-1, width)[:-1]

    def _feature_keys(
        self, rows: Tensor, items: Tensor, positions: Tensor, *, size: int, num_positions: int
    ) -> Tensor:
        """Return (row, feature, position) of each feature of each item as one integer: in sorted
        order the first position of a (row, feature) pair comes first.

        Row `size` is for items without a feature."""
        index, code = self._features.lookup(items)
        num_features = max(1, len(self._features.names))
        row = torch.where(code < 0, size, rows.index_select(0, index))
        key = row.mul_(num_features).add_(code.clamp(min=0))
        key = key.mul_(num_positions).add_(positions.index_select(0, index))
        # 32 bits sort faster and take less memory.
        return key.int() if (size + 1) * num_features * num_positions < 1 << 31 else key
