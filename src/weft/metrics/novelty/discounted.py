"""Novelty weighted by relevance and position.

Both metrics are Σ_p w_p · nov(i_p) · d_p ÷ Σ_{p=1..k} d_p with d_p = 1 / log2(p + 1), averaged over
users with a relevant item. With `denominator="list"` the divisor is the sum over the positions that
the list has.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import torch
from torch import Tensor

from weft._choices import GainName, choices
from weft._input_kinds import built_in_inputs
from weft.batch.gains import GAINS
from weft.batch.topk import TopK
from weft.data import Train
from weft.data.popularity import check_unseen
from weft.errors import check_choice
from weft.metrics.base.formulas import UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.parameter_types import ListDenominator, NoveltyRelevance
from weft.metrics.registry import register


class _Novelty(UserAverageTopKMetric):
    """The common formula of the novelty metrics."""

    family = "novelty"
    needs = built_in_inputs("train")
    higher_is_better = True
    undefined = "no user has a relevant item, or train is empty"
    reference = (
        "Vargas and Castells (2011), Rank and relevance in novelty and diversity metrics for "
        "recommender systems, doi 10.1145/2043932.2043955"
    )

    def __init__(
        self,
        k: int,
        *,
        relevance: NoveltyRelevance = "binary",
        gain: GainName = "exponential",
        denominator: ListDenominator = "k",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self._train: Train = self.inputs["train"]
        self.denominator = check_choice("denominator", denominator, choices(ListDenominator))
        self.relevance = check_choice("relevance", relevance, choices(NoveltyRelevance)).replace(
            "discounted", "graded"
        )
        self.gain = check_choice("gain", gain, GAINS)
        self.is_exposure_metric = self.relevance == "none"
        if self.relevance == "graded":
            self.bounds = (0.0, None)
        else:  # the gain has no effect
            self.gain = "exponential"

    def used_gains(self) -> Set[str]:
        return {self.gain} if self.relevance == "graded" else set()

    def novelty(self, popularity: Tensor) -> Tensor:
        """Return the novelty of items from their numbers of train interactions."""
        raise NotImplementedError

    def user_values(self, topk: TopK) -> Tensor:
        if self._train.num_interactions == 0:
            return torch.full_like(topk.num_listed, torch.nan)
        discounts = topk.all_discounts[None]
        if self.denominator == "list":
            discounts = torch.where(topk.batch.items >= 0, topk.discounts, 0)
        maximum = topk.sum_positions(discounts)
        maximum = torch.where(maximum > 0, maximum, 1)  # 0 for an empty list
        popularity = self._train.popularity
        if self.relevance == "none":

            def discounted_novelty(items: Tensor, _: Tensor) -> Tensor:
                return (items >= 0) * self.novelty(popularity.lookup(items)) * topk.discounts

            return topk.sum_items(discounted_novelty) / maximum
        batch = topk.batch
        novelty = self.novelty(popularity.lookup(batch.relevant.items))
        gains = batch.gains("binary" if self.relevance == "binary" else self.gain)
        hits = batch.observed_positions
        return hits.gains(topk.cutoffs, gains * novelty, topk.discounts) / maximum


@register
class EPC(_Novelty):
    r"""Expected popularity complement: the share of train users who have not interacted with a
    recommended item, summed over the relevant items of a list with a discount by position, averaged
    over users.

    The novelty of an item is 1 minus its train interactions divided by the number of users with a
    train interaction.

    Formula: \mathrm{EPC}_u = \frac{1}{\sum_{p=1}^{k} d_p} \sum_{p=1}^{|L_u|} [i_p \in R_u] \, d_p
    \left( 1 - \frac{n_{i_p}}{|U_{\mathrm{train}}|} \right)

    Symbols: $U_{\mathrm{train}}$ are the users with a train interaction.

    Parameters:
        relevance: Items that count: `"binary"` counts the relevant items, `"graded"` (or its alias
            `"discounted"`) the relevant items with their gain, and `"none"` all items of the list,
            relevant or not.
        gain: As in nDCG. It has an effect with `relevance="graded"` only.
        unseen: Number of train interactions that an item without any is assumed to have, at least
            0.
        denominator: Divisor: `"k"` is the sum of the discounts of all k positions, and `"list"`
            that of the positions that the list has.

    Use: EPC answers whether a model finds relevant items that are not popular anyway, with the
    first positions counting most. Use it to compare models in novelty and accuracy at once. With
    the default `relevance="binary"`, a model with more hits scores higher even if its items are
    popular: for the novelty of the lists alone, use `relevance="none"` or MIUF. EFD weighs rare
    items more.

    Related: EFD, MIUF, Surprisal, ARP, Serendipity.

    Edge cases: an item without train interactions has novelty 1 (unless `unseen` is given);
    positions after the end of a list add 0; an empty list counts 0; undefined if train is empty.

    Example: the relevant item is at position 1, and one of the two train users has interacted with
    it: (1 - 1/2) · 1 ÷ (1 + 0.6309).

    >>> import torch, weft
    >>> metric = weft.metrics.EPC(k=2, train=torch.tensor([[1, 1, 0], [0, 1, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.3066, dtype=torch.float64)
    """

    bounds: Bounds = (0.0, 1.0)

    def __init__(
        self,
        k: int,
        *,
        relevance: NoveltyRelevance = "binary",
        gain: GainName = "exponential",
        unseen: float = 0,
        **settings: Any,
    ) -> None:
        super().__init__(k, relevance=relevance, gain=gain, **settings)
        self.unseen = check_unseen(unseen)
        if self.unseen > 1:  # possibly more interactions than users
            self.bounds = (None, self.bounds[1])

    def novelty(self, popularity: Tensor) -> Tensor:
        return 1 - torch.where(popularity == 0, self.unseen, popularity) / self._train.num_users


@register
class EFD(_Novelty):
    r"""Expected free discovery: the information content of the recommended items in bits, summed
    over the relevant items of a list with a discount by position, averaged over users.

    The information content of an item is -log2(n / T), with n the train interactions of the item
    and T those of all items.

    Formula: \mathrm{EFD}_u = \frac{1}{\sum_{p=1}^{k} d_p} \sum_{p=1}^{|L_u|} [i_p \in R_u] \, d_p
    \, \log_2 \frac{T}{\max(n_{i_p}, 1)}

    Parameters:
        relevance: As in EPC.
        gain: As in nDCG. It has an effect with `relevance="graded"` only.
        denominator: As in EPC.

    Use: EFD answers how surprising the relevant items of a list are, with rare items counting most.
    Use it instead of EPC if differences within the long tail matter; EPC hardly distinguishes 1
    from 10 interactions among many users. With the default `relevance="binary"`, more hits raise
    the value: for the novelty of the lists alone, use `relevance="none"` or SelfInformation. Values
    depend on the size of the train set and are comparable within one data set only.

    Related: EPC, SelfInformation, MIUF, ARP.

    Edge cases: an item without train interactions counts like an item with a single one, log2 T;
    positions after the end of a list add 0; an empty list counts 0; undefined if train is empty.

    Example: the relevant item is at position 1 and has 1 of 4 train interactions: log2(4) · 1 ÷ (1
    + 0.6309).

    >>> import torch, weft
    >>> metric = weft.metrics.EFD(k=2, train=torch.tensor([[1, 1, 0], [0, 1, 0], [0, 1, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(1.2263, dtype=torch.float64)
    """

    bounds: Bounds = (0.0, None)

    def novelty(self, popularity: Tensor) -> Tensor:
        return -torch.log2(popularity.clamp(min=1) / self._train.num_interactions)
