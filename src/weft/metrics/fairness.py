"""Fairness: whether groups of users and clusters of items are treated alike. 0 is fair.

A user or an item has one label or none. Those without a label belong to no group and are left out
of every quantity, totals and shares included. Bias disparity, which is also of this family, is in
`weft.metrics.bias_disparity`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from weft._input_kinds import built_in_inputs
from weft.batch.gains import GAINS
from weft.batch.topk import TopK
from weft.data import Label, Labels
from weft.errors import check_bool, check_choice
from weft.metrics.accumulators import (
    Accumulator,
    GroupMeanSums,
    ItemAccumulator,
    ItemCandidacy,
    ItemExposure,
    ItemGains,
    ItemHits,
    ItemHitScores,
    ItemRelevance,
)
from weft.metrics.base.composites import ComponentMetric
from weft.metrics.base.formulas import POPULATIONS
from weft.metrics.base.metric import Bounds
from weft.metrics.base.summed import SummedTopKMetric
from weft.metrics.group_rates import mean_difference, rates, relative_spread
from weft.metrics.names import MetricSpec
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView, sum_by_group

_ZHU = (
    "Zhu, Wang and Caverlee (2020), Measuring and mitigating item under-recommendation bias in "
    "personalized ranking systems, doi 10.1145/3397271.3401177"
)
_DELDJOO = (
    "Deldjoo et al. (2021), A flexible framework for evaluating user and item fairness in "
    "recommender systems, doi 10.1007/s11257-020-09285-1"
)


class _FairnessMetric(SummedTopKMetric):
    """A comparison of groups of users or clusters of items."""

    family = "fairness"
    higher_is_better = False
    bounds: Bounds = (0.0, None)
    target = 0.0


class _ClusterMetric(_FairnessMetric):
    """A comparison of item clusters."""

    needs = built_in_inputs("item_clusters")

    def __init__(self, k: int, **settings: Any) -> None:
        super().__init__(k, **settings)
        self._clusters: Labels = self.inputs["item_clusters"]
        self._num_items = len(self._clusters.codes)

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        """Return the numerator and the denominator of what is compared."""
        raise NotImplementedError


class _ClusterRates(_ClusterMetric):
    """A rate for each cluster, and how much the rates differ."""

    reference = _ZHU

    def _rates(self, state: StateView) -> Tensor:
        codes, number = self._clusters.codes, len(self._clusters.names)
        successes, chances = (state.by_group(one, codes, number) for one in self.accumulators())
        return rates(successes, chances)

    def compute_value(self, state: StateView) -> Tensor:
        return relative_spread(self._rates(state))

    def label_values(self, state: StateView) -> Mapping[tuple[Label, ...], Tensor]:
        return dict(zip(((name,) for name in self._clusters.names), self._rates(state).unbind()))


@register
class REO(_ClusterRates):
    """Equal opportunity of item clusters: the share of relevant items that are recommended,
    compared between clusters.

    Per cluster: relevant items recommended ÷ relevant items, both summed over users; the value is
    the standard deviation of the rates over their mean. 0 is fair. The rate of each cluster is part
    of the result, as `REO@10[Drama]`.

    Edge cases: relevant items that are not candidates count in the denominator; clusters without a
    relevant item have no rate; undefined for fewer than two rates, or if all are 0.

    Example: of cluster a the relevant item is recommended (1/1), of b one of two (1/2): 0.25 /
    0.75.

    >>> import torch, weft
    >>> metric = weft.metrics.REO(k=2, item_clusters=["a", "b", "b"])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 1, 1]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    undefined = "fewer than two clusters have a relevant item, or no relevant item is recommended"
    undefined_cell = "the cluster has no relevant item"

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        return ItemHits(self._num_items), ItemRelevance(self._num_items)


@register
class RSP(_ClusterRates):
    """Statistical parity of item clusters: the share of candidates that are recommended, compared
    between clusters.

    Per cluster: recommended ÷ candidate (user, item) pairs over all lists; the value is the
    standard deviation of the rates over their mean. 0 is fair. The rate of each cluster is part of
    the result, as `RSP@10[Drama]`.

    Edge cases: masked items are not candidates; clusters without candidates have no rate; undefined
    for fewer than two rates, or if nothing is recommended.

    Example: item 0 of cluster a is recommended (1/1), one of the two items of b is (1/2): 0.25 /
    0.75.

    >>> import torch, weft
    >>> metric = weft.metrics.RSP(k=2, item_clusters=["a", "b", "b"])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    is_exposure_metric = True
    undefined = "fewer than two clusters have candidates, or no item with a label is recommended"
    undefined_cell = "the cluster has no candidate"

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        return ItemExposure(self._num_items), ItemCandidacy(self._num_items)


class _ItemMAD(_ClusterMetric):
    """The mean of a quantity per item, averaged over the items of a cluster that have one, compared
    between clusters.
    """

    is_item_statistic = True
    undefined = "fewer than two clusters have an item with a value"
    reference = _DELDJOO

    def compute_value(self, state: StateView) -> Tensor:
        numerator, denominator = self.accumulators()
        codes, num_clusters = self._clusters.codes, len(self._clusters.names)
        total, count = state.at_items(numerator), state.at_items(denominator, like=numerator)
        item_means = torch.where(count > 0, total / count, 0)
        sums = sum_by_group(item_means, codes.lookup(state.items(numerator), -1), num_clusters)
        items = state.by_group(denominator, codes, num_clusters, count_items=True)
        return mean_difference(rates(sums, items))


@register
class ItemMADRanking(_ItemMAD):
    """The difference between item clusters in the gain of their items where they are recommended.

    Per item: the mean over its appearances of its gain times the discount 1 / log2(p + 1), 0 where
    it is not relevant; per cluster: the mean over its items that appear; the value is the mean
    absolute difference over all pairs of clusters. 0 is fair. `discount=False` omits the discount;
    `gain` as for nDCG. `users="lists"` counts all lists, not only those of users with a relevant
    item.

    Edge cases: items that are in no list that counts are left out; undefined for fewer than two
    clusters with a value.

    Example: item 0 of cluster a is relevant and at position 1 (1), item 1 of cluster b is not
    relevant (0).

    >>> import torch, weft
    >>> metric = weft.metrics.ItemMADRanking(k=2, item_clusters=["a", "b", "b"])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    is_exposure_metric = True

    def __init__(
        self,
        k: int,
        *,
        discount: bool = True,
        gain: str = "exponential",
        users: str = "evaluated",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.discount = check_bool("discount", discount)
        self.gain = check_choice("gain", gain, GAINS)
        self.users = check_choice("users", users, POPULATIONS)

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        gains = ItemGains(self._num_items, self.gain, self.discount)
        return gains, ItemExposure(self._num_items, self.users)


@register
class ItemMADRating(_ItemMAD):
    """The difference between item clusters in the scores of their items where they are recommended
    and relevant.

    Per item: its mean score over the appearances where it is relevant; per cluster: the mean over
    its items with such a score; the value is the mean absolute difference over all pairs of
    clusters. 0 is fair. `appearances="all"` takes the mean over all appearances in lists of users
    with a relevant item, a score of 0 where the item is not relevant.

    Edge cases: items that are never hit are left out (with `appearances="all"`: items that are in
    no list); undefined for fewer than two clusters with a value.

    Example: items 0 and 1, of two clusters, are both hits with scores 0.75 and 0.5.

    >>> import torch, weft
    >>> metric = weft.metrics.ItemMADRating(k=2, item_clusters=["a", "b", "b"])
    >>> metric.update(torch.tensor([[0.75, 0.5, 0.0]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)
    """

    reads_scores = True
    undefined = "fewer than two clusters have an item that is recommended and relevant"

    def __init__(self, k: int, *, appearances: str = "relevant", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.appearances = check_choice("appearances", appearances, ("relevant", "all"))

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        scores = ItemHitScores(self._num_items)
        if self.appearances == "relevant":
            return scores, ItemHits(self._num_items)
        return scores, ItemExposure(self._num_items, "evaluated")


class _UserMAD(_FairnessMetric):
    """The mean of a value per user over each user group, compared between groups."""

    needs = built_in_inputs("user_groups")
    reference = _DELDJOO

    def __init__(self, k: int, **settings: Any) -> None:
        super().__init__(k, **settings)
        self._groups: Labels = self.inputs["user_groups"]

    def compute_value(self, state: StateView) -> Tensor:
        total, users = state[self.accumulators()[0]].reshape(2, -1)
        return mean_difference(rates(total, users))


@register
class UserMADRanking(_UserMAD):
    """The difference between user groups in the quality of their lists: the mean absolute
    difference of their mean nDCG over all pairs.

    0 is fair. `gain` as for nDCG.

    Edge cases: users without a relevant item or without a label are left out; undefined for fewer
    than two groups with such users.

    Example: the group F has an nDCG of 1, the group M of 0.

    >>> import torch, weft
    >>> metric = weft.metrics.UserMADRanking(k=1, user_groups=["F", "M"])
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.9, 0.5]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    has_expected_tie_form = True
    sampling_behaviour = "combined"  # from the nDCG of the groups
    bounds: Bounds = (0.0, 1.0)
    undefined = "fewer than two groups have a user with a relevant item"

    def __init__(self, k: int, *, gain: str = "exponential", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.gain = check_choice("gain", gain, GAINS)
        spec = MetricSpec("nDCG", (("gain", self.gain),))
        self._ndcg = ComponentMetric(spec, self, k=k, inputs=None, needs_user_values=True)

    def accumulators(self) -> tuple[Accumulator, ...]:
        ndcg = self._ndcg.metric
        return (GroupMeanSums(ndcg.spec.with_cutoff(None), self._groups, ndcg.averaged_values),)


@register
class UserMADRating(_UserMAD):
    """The difference between user groups in the scores of their lists: the mean absolute difference
    of their mean scores over all pairs.

    Per user: the mean score over the list; per group: the mean over users. 0 is fair.
    `users="evaluated"` counts the lists of users with a relevant item only.

    Edge cases: by default all lists count except empty ones; users without a label are left out;
    undefined for fewer than two groups with a list.

    Example: the first items have scores 0.75 for F and 0.5 for M.

    >>> import torch, weft
    >>> metric = weft.metrics.UserMADRating(k=1, user_groups=["F", "M"])
    >>> metric.update(torch.tensor([[0.75, 0.5], [0.25, 0.5]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)
    """

    reads_scores = True
    is_exposure_metric = True
    undefined = "fewer than two groups have a user with a recommended item"

    def __init__(self, k: int, *, users: str = "lists", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.users = check_choice("users", users, POPULATIONS)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (GroupMeanSums(self.spec.with_cutoff(None), self._groups, self._mean_scores),)

    def _mean_scores(self, topk: TopK) -> Tensor:
        total = topk.sum_items(
            lambda items, scores: torch.where(items >= 0, scores.to(topk.k.dtype), 0)
        )
        is_counted = (topk.num_listed > 0) & ((topk.num_relevant > 0) | (self.users == "lists"))
        return total / torch.where(is_counted, topk.num_listed, torch.nan)
