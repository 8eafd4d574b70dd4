"""Popularity lift: how much more popular the recommended items are than those in train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from weft._input_kinds import UserLabels, built_in_inputs
from weft.batch.topk import TopK
from weft.data import Label, Labels, Train
from weft.metrics.accumulators import Accumulator, Contribution
from weft.metrics.base.metric import Bounds
from weft.metrics.base.summed import SummedTopKMetric
from weft.metrics.group_rates import rates
from weft.metrics.names import MetricSpec
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView


@dataclass(frozen=True)
class PopularitySums(Accumulator):
    """The mean popularity of the list and of the profile of each user, summed over the users who
    have both: of all users, and of each group.
    """

    key: MetricSpec
    groups: Labels | None
    metric: PopularityLift = field(compare=False)

    @property
    def num_rows(self) -> int:
        return 2 if self.groups is None else 2 + 2 * len(self.groups.names)

    def contributions(self, topk: TopK) -> Contribution:
        both = self.metric.mean_popularity(topk)
        if self.groups is None:
            return Contribution(both)
        group = self.groups.lookup(topk.batch.users)[:, None, None]
        width = len(topk.cutoffs)
        first = torch.arange(2 * width, device=both.device).view(2, width)
        second = first + (group + 1) * 2 * width
        by_group = torch.where(group >= 0, both, 0)
        indices = torch.cat([first.expand_as(both), second.clamp(min=0)], dim=1)
        return Contribution(torch.cat([both, by_group], dim=1), indices)


@register
class PopularityLift(SummedTopKMetric):
    r"""How much more popular the recommended items are than the items of the users' own train
    interactions, as a relative difference. 0 is neutral; above 0, the lists are more popular.

    The popularity of a list, and of the user's train interactions, is the mean number of train
    interactions of the items. With `user_groups`, there is also a value for each group, such as
    `PopularityLift@10[F]`.

    Formula: \mathrm{PopularityLift} = \frac{\sum_{u \in U} \bar{n}(L_u)}{\sum_{u \in U}
    \bar{n}(P_u)} - 1, \quad \bar{n}(S) = \frac{1}{|S|} \sum_{i \in S} n_i

    Symbols: $U$ are all users with a list and with train interactions.

    Use: PopularityLift answers whether a model amplifies the users' own taste for popular items.
    Use it with `user_groups` to compare groups, for example users of niche and of mainstream items.
    If users themselves prefer popular items, it is a better measure of bias than ARP. Differences
    between users can cancel out in the total, and the value does not depend on relevance: report
    accuracy by group next to it.

    Related: ARP, PopularityQuantile, BiasDisparityBD, Calibration, UserMADRanking.

    Edge cases: users with an empty list or without train interactions are left out.

    Example: the list has an item with 1 train interaction, and the user's own item has 2: (1 - 2) /
    2.

    >>> import torch, weft
    >>> train = torch.tensor([[1, 0, 0], [1, 1, 0]])
    >>> metric = weft.metrics.PopularityLift(k=1, train=train)
    >>> metric.update(torch.tensor([[0.1, 0.9, 0.5]]), torch.tensor([[0, 1, 0]]))
    >>> metric.compute()
    tensor(-0.5000, dtype=torch.float64)
    """

    family = "bias"
    needs = {**built_in_inputs("train"), "user_groups": UserLabels(required=False)}
    is_exposure_metric = True
    reads_history = True
    bounds: Bounds = (-1.0, None)
    target = 0.0
    undefined = "no user has both a list and train interactions"
    undefined_cell = "no user of the group has both a list and train interactions"
    reference = (
        "Abdollahpouri, Mansoury, Burke and Mobasher (2019), The unfairness of popularity bias in "
        "recommendation, doi 10.48550/arXiv.1907.13286"
    )

    def __init__(self, k: int, **settings: Any) -> None:
        super().__init__(k, **settings)
        self._train: Train = self.inputs["train"]
        self._groups: Labels | None = self.inputs.get("user_groups")

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (PopularitySums(self.spec.with_cutoff(None), self._groups, self),)

    def mean_popularity(self, topk: TopK) -> Tensor:
        """Return the mean popularity of lists and of profiles `[batch, 2, cut-offs]`, 0 for users
        who lack one of them.
        """
        total, length = topk.sum_column(self._train.popularity), topk.num_listed
        profile = self._train.profile_popularity.lookup(topk.batch.users, torch.nan)[:, None]
        has_both = (length > 0) & ~torch.isnan(profile)
        both = torch.stack([total / length.clamp(min=1), profile.expand_as(total)], dim=1)
        return torch.where(has_both[:, None], both, 0)

    def _lifts(self, state: StateView) -> Tensor:
        """Return the lift of all users and of each group, `[1 + groups]`."""
        (sums,) = self.accumulators()
        lists, profiles = state[sums].view(-1, 2).unbind(1)
        return rates(lists, profiles) - 1

    def compute_value(self, state: StateView) -> Tensor:
        return self._lifts(state)[0]

    def label_values(self, state: StateView) -> Mapping[tuple[Label, ...], Tensor]:
        names = () if self._groups is None else self._groups.names
        return dict(zip(((name,) for name in names), self._lifts(state)[1:].unbind()))
