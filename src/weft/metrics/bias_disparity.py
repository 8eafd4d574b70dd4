"""Fairness by bias disparity: how much more of an item cluster a user group gets than the cluster's
share of the catalogue, in train and in the recommendations.

Users and items without a label belong to no group and are left out of every quantity, totals and
shares included. Results carry the labels: `BiasDisparityBR@10[F, Drama]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from weft._input_kinds import built_in_inputs
from weft.data import Label, Labels, Train
from weft.errors import InputError
from weft.metrics.accumulators import Accumulator, GroupExposure
from weft.metrics.base.metric import Bounds
from weft.metrics.base.summed import SummedMetric
from weft.metrics.base.top_k_metric import TopKMetric
from weft.metrics.group_rates import rates
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView


class _BiasDisparity(SummedMetric):
    """A number for each pair of a user group and an item cluster."""

    family = "fairness"
    needs = built_in_inputs("user_groups", "item_clusters")
    has_scalar_value = False
    bounds: Bounds = (0.0, None)
    target = 1.0
    reference = (
        "Tsintzou, Pitoura and Tsaparas (2019), Bias disparity in recommendation systems, "
        "doi 10.48550/arXiv.1811.01461"
    )

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._groups: Labels = self.inputs["user_groups"]
        self._clusters: Labels = self.inputs["item_clusters"]
        if "train" in self.inputs:
            self._check_users(self.inputs["train"])

    def accumulators(self) -> tuple[Accumulator, ...]:
        return ()

    def _bias(self, counts: Tensor) -> Tensor:
        """Return the bias `[groups, clusters]` of counts `[groups * clusters]`: the cluster's share
        of the group's counts over its share of the catalogue.
        """
        by_cluster = counts.reshape(len(self._groups.names), len(self._clusters.names))
        catalogue = self._clusters.sizes.to(counts.device, counts.dtype)
        return rates(by_cluster, by_cluster.sum(1, keepdim=True)) / (catalogue / catalogue.sum())

    def _train_bias(self) -> Tensor:
        counts = self.inputs["train"].count_by_label(self._groups, self._clusters)
        return self._bias(torch.as_tensor(counts, dtype=torch.float64))

    def _list_bias(self, state: StateView) -> Tensor:
        return self._bias(state[GroupExposure(self._groups, self._clusters)])

    def _check_users(self, train: Train) -> None:
        """Raise `InputError` if train has more users than there are labels."""
        if self._groups.size < train.interactions.num_users:
            raise InputError(
                f"user_groups has labels for {self._groups.size} users, but train has "
                f"{train.interactions.num_users} users; give a label or None for each user."
            )

    def _by_label(self, table: Tensor) -> Mapping[tuple[Label, ...], Tensor]:
        groups, clusters = self._groups.names, self._clusters.names
        pairs = [(group, cluster) for group in groups for cluster in clusters]
        return dict(zip(pairs, table.reshape(-1).unbind()))


@register
class BiasDisparityBS(_BiasDisparity):
    r"""Bias in the source data: the share of a user group's train interactions that fall on an item
    cluster, divided by the cluster's share of the catalogue. 1 is neutral.

    There is a value for each user group and item cluster. The value does not depend on the model.

    Formula: \mathrm{BiasDisparityBS} = \frac{M_{gc}}{\sum_{b} M_{gb}} \Big/ \frac{|I_c|}{\sum_{b}
    {|I_b|}}

    Symbols: $M$ is the number of train interactions of the users of a group with the items of a
    cluster, and $I_c$ is the set of items of a cluster.

    Use: BiasDisparityBS answers which clusters a group of users prefers in the train data. Use it
    as the baseline of BiasDisparityBR and BiasDisparityBD, which tell what a model makes of that
    preference. It describes users and data, so it cannot tell whether a model is fair. Clusters
    with few items in the catalogue give extreme values.

    Related: BiasDisparityBD, BiasDisparityBR, PopularityLift.

    Edge cases: each (user, item) pair of train counts once; users and items without a label are
    left out of both shares; undefined for a group without train interactions.

    Example: there are two clusters of one item each. All interactions of F fall on item 0, and two
    of the three interactions of M on item 1.

    >>> import torch, weft
    >>> train = torch.tensor([[1, 0], [1, 1], [0, 1]])
    >>> labels = {"user_groups": ["F", "M", "M"], "item_clusters": ["a", "b"]}
    >>> metric = weft.metrics.BiasDisparityBS(train=train, **labels)
    >>> metric.update(torch.tensor([[0.9, 0.5]]), torch.tensor([[1, 0]]))
    >>> for name, value in metric.compute().items():
    ...     print(name, round(float(value), 4))
    BiasDisparityBS[F, a] 2.0
    BiasDisparityBS[F, b] 0.0
    BiasDisparityBS[M, a] 0.6667
    BiasDisparityBS[M, b] 1.3333
    """

    needs = built_in_inputs("train", "user_groups", "item_clusters")
    has_expected_tie_form = True  # there are no lists, and so no ties
    undefined = undefined_cell = "the group has no train interaction with an item that has a label"

    def compute_value(self, state: StateView) -> Mapping[tuple[Label, ...], Tensor]:
        return self._by_label(self._train_bias())


@register
class BiasDisparityBR(TopKMetric, _BiasDisparity):
    r"""Bias in the recommendations: the share of a user group's recommendations that come from an
    item cluster, divided by the cluster's share of the catalogue. 1 is neutral.

    There is a value for each user group and item cluster. All positions of a list count alike.

    Formula: \mathrm{BiasDisparityBR} = \frac{M_{gc}}{\sum_{b} M_{gb}} \Big/ \frac{|I_c|}{\sum_{b}
    {|I_b|}}

    Symbols: $M$ is the number of positions in the lists of a group that hold an item of a cluster,
    and $I_c$ is the set of items of a cluster.

    Use: BiasDisparityBR answers how much more of a cluster a group of users is recommended than the
    catalogue offers. Use it to find groups that are steered to certain clusters. A value far from 1
    may just follow the users' own preference: BiasDisparityBD relates it to the train data. All
    positions count alike; AWRF weighs the first ones more.

    Related: BiasDisparityBD, BiasDisparityBS, RSP, AWRF.

    Edge cases: all lists count; users and items without a label are left out of both shares;
    undefined for a group that is recommended no item with a label.

    Example: there are two clusters of one item each, and F is recommended item 0.

    >>> import torch, weft
    >>> metric = weft.metrics.BiasDisparityBR(k=1, user_groups=["F"], item_clusters=["a", "b"])
    >>> metric.update(torch.tensor([[0.9, 0.5]]), torch.tensor([[1, 0]]))
    >>> {name: float(value) for name, value in metric.compute().items()}
    {'BiasDisparityBR@1[F, a]': 2.0, 'BiasDisparityBR@1[F, b]': 0.0}
    """

    is_exposure_metric = True
    undefined = undefined_cell = "the group is recommended no item that has a label"

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (GroupExposure(self._groups, self._clusters),)

    def compute_value(self, state: StateView) -> Mapping[tuple[Label, ...], Tensor]:
        return self._by_label(self._list_bias(state))


@register
class BiasDisparityBD(BiasDisparityBR):
    r"""Bias disparity: the relative change from the bias in the train interactions
    (BiasDisparityBS) to the bias in the recommendations (BiasDisparityBR). 0 is neutral.

    There is a value for each user group and item cluster. 0 means that the lists keep the group's
    bias, a value above 0 that they strengthen it, and -1 that the cluster is missing from the
    group's lists.

    Formula: \mathrm{BiasDisparityBD} = \frac{\mathrm{BR}_{gc} - \mathrm{BS}_{gc}}{\mathrm{BS}_{gc}}

    Symbols: BS and BR are BiasDisparityBS and BiasDisparityBR of the user group $g$ and the item
    cluster $c$.

    Use: BiasDisparityBD answers whether a model amplifies or weakens the preferences that groups of
    users have in the train data. Use it to find stereotyping, for example if a small preference of
    one gender becomes a large one. It takes the train data as the norm, so it does not notice bias
    that is already in the data: look at BiasDisparityBS and BiasDisparityBR. Where a group has few
    train interactions with a cluster, values are large by chance.

    Related: BiasDisparityBR, BiasDisparityBS, PopularityLift, Calibration.

    Edge cases: undefined where BS is 0, or where BS or BR is undefined.

    Example: BS is 2/3 for item 0 (one of three interactions, half of the catalogue), and BR is 2:
    (2 - 2/3) / (2/3).

    >>> import torch, weft
    >>> train = torch.tensor([[1, 1], [0, 1]])
    >>> labels = {"user_groups": ["M", "M"], "item_clusters": ["a", "b"]}
    >>> metric = weft.metrics.BiasDisparityBD(k=1, train=train, **labels)
    >>> metric.update(torch.tensor([[0.9, 0.5]]), torch.tensor([[1, 0]]))
    >>> {name: round(float(value), 4) for name, value in metric.compute().items()}
    {'BiasDisparityBD@1[M, a]': 2.0, 'BiasDisparityBD@1[M, b]': -1.0}
    """

    needs = built_in_inputs("train", "user_groups", "item_clusters")
    bounds: Bounds = (-1.0, None)
    target = 0.0
    undefined = undefined_cell = (
        "the group has no train interaction with the cluster, or is recommended no item that has a "
        "label"
    )

    def compute_value(self, state: StateView) -> Mapping[tuple[Label, ...], Tensor]:
        list_bias = self._list_bias(state)
        train_bias = self._train_bias().to(list_bias.device)
        change = (list_bias - train_bias) / torch.where(train_bias > 0, train_bias, torch.nan)
        return self._by_label(change)
