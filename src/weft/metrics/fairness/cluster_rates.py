"""Rates of item clusters, and how much they differ."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from weft.data import Label
from weft.metrics.accumulators import (
    ItemAccumulator,
    ItemCandidacy,
    ItemExposure,
    ItemHits,
    ItemRelevance,
)
from weft.metrics.fairness.group_comparison import ClusterMetric
from weft.metrics.group_rates import rates, relative_spread
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView


class _ClusterRates(ClusterMetric):
    """A rate for each cluster, and how much the rates differ."""

    reference = (
        "Zhu, Wang and Caverlee (2020), Measuring and mitigating item under-recommendation bias in "
        "personalized ranking systems, doi 10.1145/3397271.3401177"
    )

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
    r"""Equal opportunity of item clusters: the share of relevant items that are recommended,
    compared between clusters. 0 is fair.

    The rate of a cluster is the number of its relevant items that are recommended divided by the
    number of its relevant items, both summed over users. The value is the standard deviation of the
    rates divided by their mean. The rate of each cluster is part of the result, such as
    `REO@10[Drama]`.

    Formula: \mathrm{REO} = \frac{1}{\bar{x}} \sqrt{\frac{1}{m} \sum_{c} (x_c - \bar{x})^2}, \quad
    x_c = \frac{\sum_{u \in U} {|L_u \cap R_u \cap I_c|}}{\sum_{u \in U} {|R_u \cap I_c|}}

    Symbols: $x$ are the rates of the $m$ clusters that have one, the bar denotes their mean, and
    $I_c$ is the set of items of a cluster.

    Use: REO answers whether relevant items have the same chance to be recommended in every cluster,
    such as genre or provider. Use it if fair means that an item which users want is found, whatever
    its cluster; RSP asks for equal exposure instead. A bad model can be fair, and the value does
    not tell which cluster loses: look at the rates and at Recall. Clusters with few relevant items
    make it noisy.

    Related: RSP, PopREO, ItemMADRanking, AWRF, Recall.

    Edge cases: relevant items that are not candidates count in the denominator; clusters without a
    relevant item have no rate; undefined for fewer than two rates, or if all rates are 0.

    Example: the relevant item of cluster a is recommended (1/1), and one of two of cluster b is
    (1/2): 0.25 / 0.75.

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
    r"""Statistical parity of item clusters: the share of candidates that are recommended, compared
    between clusters. 0 is fair.

    The rate of a cluster is the number of its recommended (user, item) pairs divided by the number
    of its candidate pairs, over all lists. The value is the standard deviation of the rates divided
    by their mean. The rate of each cluster is part of the result, such as `RSP@10[Drama]`.

    Formula: \mathrm{RSP} = \frac{1}{\bar{x}} \sqrt{\frac{1}{m} \sum_{c} (x_c - \bar{x})^2}, \quad
    x_c = \frac{\sum_{u \in U} {|L_u \cap I_c|}}{\sum_{u \in U} {|C_u \cap I_c|}}

    Symbols: $x$ are the rates of the $m$ clusters that have one, the bar denotes their mean, $I_c$
    is the set of items of a cluster, and $U$ are all users, with or without relevant items.

    Use: RSP answers whether items of every cluster are equally likely to be recommended, whatever
    users like. Use it if equal exposure is the goal, for example between providers. If clusters
    differ in how many users want them, an accurate model cannot be fair in this sense: use REO,
    which compares relevant items only. All positions count alike; AWRF weighs the first ones more.

    Related: REO, AWRF, PopRSP, BiasDisparityBR.

    Edge cases: masked items are not candidates; clusters without candidates have no rate; undefined
    for fewer than two rates, or if nothing is recommended.

    Example: item 0 of cluster a is recommended (1/1), and one of the two items of cluster b is
    (1/2): 0.25 / 0.75.

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
