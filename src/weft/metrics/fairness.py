"""Fairness: whether groups of users and clusters of items are treated alike.

A user or an item has one label or none. Those without a label form no group and stay out of every
quantity here, totals and shares included. Results carry the labels: `BiasDisparityBR@10[F, Drama]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from weft.batch.batch import GAINS
from weft.batch.topk import TopK
from weft.data import Label, Train
from weft.data.labels import read_positional_labels
from weft.errors import InputError, check_bool, check_choice
from weft.metrics.accumulators import (
    Accumulator,
    GroupExposure,
    GroupSums,
    ItemAccumulator,
    ItemCandidacy,
    ItemExposure,
    ItemGains,
    ItemHits,
    ItemHitScores,
    ItemRelevance,
    StateView,
)
from weft.metrics.base.composites import ComponentMetric
from weft.metrics.base.formulas import POPULATIONS, SummedMetric
from weft.metrics.base.metric import Bounds, TopKMetric
from weft.metrics.group_rates import by_group, mean_difference, rates, relative_spread
from weft.metrics.names import MetricSpec
from weft.metrics.registry import register

_BIAS_REFERENCE = "Tsintzou, Pitoura and Tsaparas (2019), Bias disparity in recommendation systems, doi 10.48550/arXiv.1811.01461"
_PARITY_REFERENCE = (
    "Zhu, Wang and Caverlee (2020), Measuring and mitigating item under-recommendation bias in "
    "personalized ranking systems, doi 10.1145/3397271.3401177"
)
_MAD_REFERENCE = (
    "Deldjoo et al. (2021), A flexible framework for evaluating user and item fairness in "
    "recommender systems, doi 10.1007/s11257-020-09285-1"
)


class _BiasDisparity(SummedMetric):
    """A number for each pair of a user group and an item cluster."""

    family = "fairness"
    has_scalar_value = False
    bounds: Bounds = (0.0, None)
    target = 1.0

    def __init__(
        self,
        *,
        user_groups: Any,
        item_clusters: Any,
        num_users: int | None,
        num_items: int | None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._groups = read_positional_labels(user_groups, "user_groups", "user", num_users)
        self._clusters = read_positional_labels(item_clusters, "item_clusters", "item", num_items)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return ()

    def _bias(self, slots: Tensor) -> Tensor:
        """The share of each group's slots `[groups * clusters]` that a cluster has, over the
        cluster's share of the catalogue.
        """
        by_cluster = slots.reshape(len(self._groups.names), len(self._clusters.names))
        catalogue = self._clusters.sizes.to(slots.device, slots.dtype)
        return rates(by_cluster, by_cluster.sum(1, keepdim=True)) / (catalogue / catalogue.sum())

    def _bias_in_train(self, train: Train) -> Tensor:
        return self._bias(
            torch.as_tensor(train.count_by_label(self._groups, self._clusters), dtype=torch.float64)
        )

    def _fitting(self, train: Train) -> Train:
        """Train, if there may be a label for each of its users."""
        if self._groups.size < train.interactions.num_users:
            raise InputError(
                f"user_groups has labels for {self._groups.size} users, but train has "
                f"{train.interactions.num_users}; give a label or None for each."
            )
        return train

    def _labelled(self, table: Tensor) -> Mapping[tuple[Label, ...], Tensor]:
        pairs = [
            (group, cluster) for group in self._groups.names for cluster in self._clusters.names
        ]
        return dict(zip(pairs, table.reshape(-1).unbind()))


@register
class BiasDisparityBS(_BiasDisparity):
    """Bias in the source: how much more of a group's train interactions fall on a cluster than its
    share of the catalogue.

    For each user group g and item cluster c: (share of g's train interactions on c) ÷ (share of the
    catalogue's items in c). 1 is neutral. It does not depend on the model.

    Edge cases: each (user, item) of train counts once; users and items without a label are left out
    of both shares; undefined for a group without train interactions.

    Example: two clusters of one item each; all of F's interactions fall on item 0, two of M's three
    on item 1.

    >>> import torch, weft
    >>> train = torch.tensor([[1, 0], [1, 1], [0, 1]])
    >>> metric = weft.metrics.BiasDisparityBS(train=train, user_groups=["F", "M", "M"], item_clusters=["a", "b"])
    >>> metric.update(torch.tensor([[0.9, 0.5]]), torch.tensor([[1, 0]]))
    >>> {name: round(float(value), 4) for name, value in metric.compute().items()}  # doctest: +NORMALIZE_WHITESPACE
    {'BiasDisparityBS[F, a]': 2.0, 'BiasDisparityBS[F, b]': 0.0,
     'BiasDisparityBS[M, a]': 0.6667, 'BiasDisparityBS[M, b]': 1.3333}
    """

    has_expected_tie_form = True  # there are no lists, and so no ties
    undefined = undefined_cell = "the group has no train interaction with an item that has a label"
    reference = _BIAS_REFERENCE

    def __init__(
        self,
        *,
        train: Any,
        user_groups: Any,
        item_clusters: Any,
        num_users: int | None = None,
        num_items: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            user_groups=user_groups,
            item_clusters=item_clusters,
            num_users=num_users,
            num_items=num_items,
            **settings,
        )
        self._train = self._fitting(Train.read(train, num_users, num_items))

    def label_values(self, sums: StateView) -> Mapping[tuple[Label, ...], Tensor]:
        return self._labelled(self._bias_in_train(self._train))


@register
class BiasDisparityBR(TopKMetric, _BiasDisparity):
    """Bias in the recommendations: how much more of a group's recommended slots a cluster has than
    its share of the catalogue.

    For each user group g and item cluster c: (share of the slots of g's lists that hold an item of
    c) ÷ (share of the catalogue's items in c). 1 is neutral.

    Edge cases: all lists count; users and items without a label are left out of both shares;
    undefined for a group that is recommended no item with a label.

    Example: two clusters of one item each; F is recommended item 0.

    >>> import torch, weft
    >>> metric = weft.metrics.BiasDisparityBR(k=1, user_groups=["F"], item_clusters=["a", "b"])
    >>> metric.update(torch.tensor([[0.9, 0.5]]), torch.tensor([[1, 0]]))
    >>> {name: float(value) for name, value in metric.compute().items()}
    {'BiasDisparityBR@1[F, a]': 2.0, 'BiasDisparityBR@1[F, b]': 0.0}
    """

    is_exposure_metric = True
    undefined = undefined_cell = "the group is recommended no item that has a label"
    reference = _BIAS_REFERENCE

    def __init__(
        self,
        k: int,
        *,
        user_groups: Any,
        item_clusters: Any,
        num_users: int | None = None,
        num_items: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            k,
            user_groups=user_groups,
            item_clusters=item_clusters,
            num_users=num_users,
            num_items=num_items,
            **settings,
        )

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (GroupExposure(self._groups, self._clusters),)

    def label_values(self, sums: StateView) -> Mapping[tuple[Label, ...], Tensor]:
        return self._labelled(self._bias(sums[GroupExposure(self._groups, self._clusters)]))


@register
class BiasDisparityBD(BiasDisparityBR):
    """Bias disparity: how the recommendations change the bias of the train interactions, (BR - BS)
    / BS.

    For each user group and item cluster. 0 keeps the bias, above 0 strengthens it, -1 removes the
    cluster from the group's lists.

    Edge cases: undefined where BS is 0, or BS or BR is undefined.

    Example: BS is 2/3 for item 0 (one of three interactions, half of the catalogue), BR is 2: (2 -
    2/3) / (2/3).

    >>> import torch, weft
    >>> train = torch.tensor([[1, 1], [0, 1]])
    >>> metric = weft.metrics.BiasDisparityBD(k=1, train=train, user_groups=["M", "M"], item_clusters=["a", "b"])
    >>> metric.update(torch.tensor([[0.9, 0.5]]), torch.tensor([[1, 0]]))
    >>> {name: round(float(value), 4) for name, value in metric.compute().items()}
    {'BiasDisparityBD@1[M, a]': 2.0, 'BiasDisparityBD@1[M, b]': -1.0}
    """

    bounds: Bounds = (-1.0, None)
    target = 0.0
    undefined = undefined_cell = (
        "the group has no train interaction with the cluster, or is recommended no item that has "
        "a label"
    )

    def __init__(
        self,
        k: int,
        *,
        train: Any,
        user_groups: Any,
        item_clusters: Any,
        num_users: int | None = None,
        num_items: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            k,
            user_groups=user_groups,
            item_clusters=item_clusters,
            num_users=num_users,
            num_items=num_items,
            **settings,
        )
        self._train = self._fitting(Train.read(train, num_users, num_items))

    def label_values(self, sums: StateView) -> Mapping[tuple[Label, ...], Tensor]:
        in_train = self._bias_in_train(self._train).to(sums[self.accumulators()[0]].device)
        in_lists = self._bias(sums[GroupExposure(self._groups, self._clusters)])
        return self._labelled(
            (in_lists - in_train) / torch.where(in_train > 0, in_train, torch.nan)
        )


class _OfClusters(TopKMetric, SummedMetric):
    """A comparison of item clusters. 0 is fair."""

    family = "fairness"
    higher_is_better = False
    bounds: Bounds = (0.0, None)
    target = 0.0

    def __init__(
        self, k: int, *, item_clusters: Any, num_items: int | None = None, **settings: Any
    ) -> None:
        super().__init__(k, **settings)
        self._clusters = read_positional_labels(item_clusters, "item_clusters", "item", num_items)
        self._num_items = len(self._clusters.codes)

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        """What is compared, over what."""
        raise NotImplementedError


class _Rates(_OfClusters):
    """A rate for each cluster, and how much they differ."""

    def _rates(self, sums: StateView) -> Tensor:
        clusters = self._clusters
        successes, chances = (
            sums.by_group(total, clusters.codes, len(clusters.names))
            for total in self.accumulators()
        )
        return rates(successes, chances)

    def compute_value(self, sums: StateView) -> Tensor:
        return relative_spread(self._rates(sums))

    def label_values(self, sums: StateView) -> Mapping[tuple[Label, ...], Tensor]:
        return dict(zip(((name,) for name in self._clusters.names), self._rates(sums).unbind()))


@register
class REO(_Rates):
    """Equal opportunity between item clusters: the share of relevant items that is recommended,
    compared between clusters.

    Per cluster: relevant items recommended ÷ relevant items, both summed over users; the value is
    the standard deviation of the rates over their mean. 0 is fair. The rate of each cluster is part
    of the result, as `REO@10[Drama]`.

    Edge cases: relevant items that were not offered count below; clusters without a relevant item
    have no rate; undefined for fewer than two rates, or if all are 0.

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
    reference = _PARITY_REFERENCE

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        return ItemHits(self._num_items), ItemRelevance(self._num_items)


@register
class RSP(_Rates):
    """Statistical parity between item clusters: the share of offered slots that is recommended,
    compared between clusters.

    Per cluster: recommended ÷ offered (user, item) pairs over all lists; the value is the standard
    deviation of the rates over their mean. 0 is fair. The rate of each cluster is part of the
    result, as `RSP@10[Drama]`.

    Edge cases: masked items are not offered; clusters that are not offered have no rate; undefined
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
    undefined = "fewer than two clusters are offered, or no item with a label is recommended"
    undefined_cell = "the cluster is not offered"
    reference = _PARITY_REFERENCE

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        return ItemExposure(self._num_items), ItemCandidacy(self._num_items)


class _ItemMAD(_OfClusters):
    """The mean of a quantity per item, averaged over the items of a cluster that have one, compared
    between clusters.
    """

    undefined = "fewer than two clusters have an item with a value"
    reference = _MAD_REFERENCE

    def compute_value(self, sums: StateView) -> Tensor:
        earned, counted = self.accumulators()
        codes, number = self._clusters.codes, len(self._clusters.names)
        quantity, count = sums.at_items(earned), sums.at_items(counted, like=earned)
        means = by_group(
            torch.where(count > 0, quantity / count, 0),
            codes.lookup(sums.items(earned), -1),
            number,
        )
        return mean_difference(rates(means, sums.items_by_group(counted, codes, number)))


@register
class ItemMADRanking(_ItemMAD):
    """How much item clusters differ in the gain that their items earn where they are recommended.

    Per item: the mean over its appearances of its gain times the discount 1 / log2(p + 1), 0 where
    it is not relevant; per cluster: the mean over its items that appear; the value is the mean
    absolute difference over all pairs of clusters. 0 is fair. `discount=False` leaves the discount
    out; `gain` as for nDCG.

    Edge cases: lists of users with a relevant item count; items that no list holds are left out;
    undefined for fewer than two clusters with a value.

    Example: item 0 of cluster a is relevant and stands first (1), item 1 of cluster b is not
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
        item_clusters: Any,
        num_items: int | None = None,
        discount: bool = True,
        gain: str = "exponential",
        **settings: Any,
    ) -> None:
        super().__init__(k, item_clusters=item_clusters, num_items=num_items, **settings)
        self.discount = check_bool("discount", discount)
        self.gain = check_choice("gain", gain, GAINS)

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        earned = ItemGains(self._num_items, self.gain, self.discount)
        return earned, ItemExposure(self._num_items, "evaluated")


@register
class ItemMADRating(_ItemMAD):
    """How much item clusters differ in the scores of their items where they are recommended and
    relevant.

    Per item: its mean score over the appearances where it is relevant; per cluster: the mean over
    its items with such a score; the value is the mean absolute difference over all pairs of
    clusters. 0 is fair. `appearances="all"` takes the mean over all appearances in lists of users
    with a relevant item, a score of 0 where the item is not relevant.

    Edge cases: items that are never hit are left out (with `appearances="all"`: items that no list
    holds); undefined for fewer than two clusters with a value.

    Example: items 0 and 1, of two clusters, are both hits with scores 0.75 and 0.5.

    >>> import torch, weft
    >>> metric = weft.metrics.ItemMADRating(k=2, item_clusters=["a", "b", "b"])
    >>> metric.update(torch.tensor([[0.75, 0.5, 0.0]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)
    """

    reads_scores = True
    undefined = "fewer than two clusters have an item that is recommended and relevant"

    def __init__(
        self,
        k: int,
        *,
        item_clusters: Any,
        num_items: int | None = None,
        appearances: str = "relevant",
        **settings: Any,
    ) -> None:
        super().__init__(k, item_clusters=item_clusters, num_items=num_items, **settings)
        self.appearances = check_choice("appearances", appearances, ("relevant", "all"))

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        counted: ItemAccumulator = (
            ItemHits(self._num_items)
            if self.appearances == "relevant"
            else ItemExposure(self._num_items, "evaluated")
        )
        return ItemHitScores(self._num_items), counted


class _UserMAD(TopKMetric, SummedMetric):
    """The mean of a value per user over each user group, compared between groups. 0 is fair."""

    family = "fairness"
    higher_is_better = False
    bounds: Bounds = (0.0, None)
    target = 0.0
    reference = _MAD_REFERENCE

    def __init__(
        self, k: int, *, user_groups: Any, num_users: int | None = None, **settings: Any
    ) -> None:
        super().__init__(k, **settings)
        self._groups = read_positional_labels(user_groups, "user_groups", "user", num_users)

    def compute_value(self, sums: StateView) -> Tensor:
        total, users = sums[self.accumulators()[0]].reshape(2, -1)
        return mean_difference(rates(total, users))


@register
class UserMADRanking(_UserMAD):
    """How much user groups differ in the quality of their lists: the mean absolute difference of
    their mean nDCG over all pairs.

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
    sampling_behaviour = "combined"  # of the groups' nDCG
    bounds: Bounds = (0.0, 1.0)
    undefined = "fewer than two groups have a user with a relevant item"

    def __init__(
        self,
        k: int,
        *,
        user_groups: Any,
        num_users: int | None = None,
        gain: str = "exponential",
        **settings: Any,
    ) -> None:
        super().__init__(k, user_groups=user_groups, num_users=num_users, **settings)
        self.gain = check_choice("gain", gain, GAINS)
        self._ndcg = ComponentMetric(
            MetricSpec("nDCG", (("gain", self.gain),)), self, k, inputs=None, per_user=True
        )

    def accumulators(self) -> tuple[Accumulator, ...]:
        ndcg = self._ndcg.metric
        return (GroupSums(ndcg.spec.with_cutoff(None), self._groups, ndcg.averaged_values),)


@register
class UserMADRating(_UserMAD):
    """How much user groups differ in the scores of their lists: the mean absolute difference of
    their mean scores over all pairs.

    Per user: the mean score over the list; per group: the mean over users. 0 is fair.
    `users="evaluated"` looks at the lists of users with a relevant item only.

    Edge cases: by default all lists count but empty ones; users without a label are left out;
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

    def __init__(
        self,
        k: int,
        *,
        user_groups: Any,
        num_users: int | None = None,
        users: str = "lists",
        **settings: Any,
    ) -> None:
        super().__init__(k, user_groups=user_groups, num_users=num_users, **settings)
        self.users = check_choice("users", users, POPULATIONS)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (GroupSums(self.spec.with_cutoff(None), self._groups, self._mean_scores),)

    def _mean_scores(self, topk: TopK) -> Tensor:
        total = topk.sum_items(
            lambda items, scores: torch.where(items >= 0, scores.to(topk.k.dtype), 0)
        )
        counted = (topk.list_length > 0) & ((topk.num_relevant > 0) | (self.users == "lists"))
        return total / torch.where(counted, topk.list_length, torch.nan)
