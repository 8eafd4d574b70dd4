"""Mean absolute differences (MAD) between the means of item clusters or of user groups."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft._choices import GainName, choices
from weft._input_kinds import built_in_inputs
from weft.batch.gains import GAINS
from weft.batch.topk import TopK
from weft.data import Labels
from weft.errors import check_bool, check_choice
from weft.metrics.accumulators import (
    Accumulator,
    GroupMeanSums,
    ItemAccumulator,
    ItemExposure,
    ItemGains,
    ItemHits,
    ItemHitScores,
)
from weft.metrics.base.composites import ComponentMetric
from weft.metrics.base.formulas import POPULATIONS
from weft.metrics.base.metric import Bounds
from weft.metrics.fairness.group_comparison import ClusterMetric, FairnessMetric
from weft.metrics.group_rates import mean_difference, rates
from weft.metrics.names import MetricSpec
from weft.metrics.parameter_types import Appearances, Population
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView, sum_by_group

_DELDJOO = (
    "Deldjoo et al. (2021), A flexible framework for evaluating user and item fairness in "
    "recommender systems, doi 10.1007/s11257-020-09285-1"
)


class _ItemMAD(ClusterMetric):
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
    r"""The difference between item clusters in the gain of their recommended items: the mean
    absolute difference over all pairs of clusters. 0 is fair.

    The value of an item is the mean over its appearances in lists of its gain times the discount of
    its position, where the gain is 0 if it is not relevant to the user. The value of a cluster is
    the mean over its items that appear in a list. By default, only the lists of users with a
    relevant item count.

    Formula: \mathrm{ItemMADRanking} = \frac{2}{m (m - 1)} \sum_{a < b} {|x_a - x_b|}, \quad x_a =
    \frac{1}{|V_a|} \sum_{i \in V_a} \frac{1}{c_i} \sum_{u:\, i \in L_u} g_{ui} \, d_{p}

    Symbols: $a$ and $b$ are clusters, of which $m$ have a value $x$; $V$ are the items of a cluster
    that appear in a list, $c$ is the number of lists with an item, and $p$ is the position of the
    item in the list of $u$.

    Parameters:
        discount: True multiplies the gain by the discount of the position, 1 / log2(p + 1). False
            does not.
        gain: As in nDCG.
        users: As in ItemCoverage.

    Use: ItemMADRanking answers whether the recommendations of some clusters succeed more than those
    of others. Use it to compare the quality of what is recommended from each cluster. It ignores
    how often clusters are recommended, since an item counts only where it appears: use RSP or AWRF
    for exposure and REO for missed items. The value depends on the scale of the gains.

    Related: REO, ItemMADRating, RSP, UserMADRanking.

    Edge cases: items that appear in no list that counts are left out; undefined for fewer than two
    clusters with a value.

    Example: item 0 of cluster a is relevant at position 1 and has the value 1; item 1 of cluster b
    is not relevant and has the value 0.

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
        gain: GainName = "exponential",
        users: Population = "evaluated",
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
    r"""The difference between item clusters in the scores of their items that are recommended and
    relevant: the mean absolute difference over all pairs of clusters. 0 is fair.

    The value of an item is its mean score over the lists in which it is a hit. The value of a
    cluster is the mean over its items that are hit at least once.

    Formula: \mathrm{ItemMADRating} = \frac{2}{m (m - 1)} \sum_{a < b} {|x_a - x_b|}, \quad x_a =
    \frac{1}{|V_a|} \sum_{i \in V_a} \frac{1}{h_i} \sum_{u:\, i \in L_u \cap R_u} s_{ui}

    Symbols: $a$ and $b$ are clusters, of which $m$ have a value $x$; $V$ are the items of a cluster
    that are hit at least once, and $h$ is the number of lists in which an item is a hit.

    Parameters:
        appearances: Lists over which the score of an item is averaged: `"relevant"` means those in
            which it is a hit, and `"all"` every list of a user with a relevant item that contains
            it, with a score of 0 where it is not relevant.

    Use: ItemMADRating answers whether a model gives systematically higher scores to the relevant
    items of some clusters. Use it for models with scores on a fixed scale, such as predicted
    ratings. Scores of different models are not comparable, so neither are the values, unless the
    scale is the same; ItemMADRanking and REO depend on the order alone.

    Related: ItemMADRanking, REO, UserMADRating, MAE.

    Edge cases: items that are never hit are left out (with `appearances="all"`, items that are in
    no list); undefined for fewer than two clusters with a value.

    Example: items 0 and 1 are of two clusters, and both are hits, with scores of 0.75 and 0.5.

    >>> import torch, weft
    >>> metric = weft.metrics.ItemMADRating(k=2, item_clusters=["a", "b", "b"])
    >>> metric.update(torch.tensor([[0.75, 0.5, 0.0]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)
    """

    reads_scores = True
    undefined = "fewer than two clusters have an item that is recommended and relevant"

    def __init__(self, k: int, *, appearances: Appearances = "relevant", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.appearances = check_choice("appearances", appearances, choices(Appearances))

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        scores = ItemHitScores(self._num_items)
        if self.appearances == "relevant":
            return scores, ItemHits(self._num_items)
        return scores, ItemExposure(self._num_items, "evaluated")


class _UserMAD(FairnessMetric):
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
    r"""The difference between user groups in the quality of their lists: the mean absolute
    difference of their mean nDCG, over all pairs of groups. 0 is fair.

    Formula: \mathrm{UserMADRanking} = \frac{2}{m (m - 1)} \sum_{a < b} {|x_a - x_b|}, \quad x_a =
    \frac{1}{|U_a|} \sum_{u \in U_a} \mathrm{nDCG}_u

    Symbols: $a$ and $b$ are groups, of which $m$ have a value $x$; $U_a$ are the users of a group
    with a relevant item.

    Parameters:
        gain: As in nDCG.

    Use: UserMADRanking answers whether groups of users get recommendations of different quality.
    Use it to audit a model by gender, age, country or activity. A model that is equally bad for
    everyone is fair, and the value does not tell which group is worse: look at nDCG by group with
    slices. Small groups make the value larger by chance, so compare it with the uncertainty of the
    groups' means.

    Related: nDCG, UserMADRating, PopularityLift, BiasDisparityBD.

    Edge cases: users without a relevant item or without a label are left out; undefined for fewer
    than two groups with such users.

    Example: group F has an nDCG of 1 and group M of 0.

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

    def __init__(self, k: int, *, gain: GainName = "exponential", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.gain = check_choice("gain", gain, GAINS)
        spec = MetricSpec("nDCG", (("gain", self.gain),))
        self._ndcg = ComponentMetric(spec, self, k=k, inputs=None, needs_user_values=True)

    def accumulators(self) -> tuple[Accumulator, ...]:
        ndcg = self._ndcg.metric
        return (GroupMeanSums(ndcg.spec.with_cutoff(None), self._groups, ndcg.averaged_values),)


@register
class UserMADRating(_UserMAD):
    r"""The difference between user groups in the scores of their lists: the mean absolute
    difference of their mean scores, over all pairs of groups. 0 is fair.

    The value of a user is the mean score over the user's list. The value of a group is the mean
    over its users.

    Formula: \mathrm{UserMADRating} = \frac{2}{m (m - 1)} \sum_{a < b} {|x_a - x_b|}, \quad x_a =
    \frac{1}{|U_a|} \sum_{u \in U_a} \frac{1}{|L_u|} \sum_{i \in L_u} s_{ui}

    Symbols: $a$ and $b$ are groups, of which $m$ have a value $x$; $U_a$ are the users of a group
    with a list.

    Parameters:
        users: As in ItemCoverage.

    Use: UserMADRating answers whether a model scores the recommendations of some groups higher than
    those of others. Use it for scores on a fixed scale, such as predicted ratings. It shows nothing
    about relevance, since it never looks at the truth: use UserMADRanking for the quality of lists.
    Values of models with different scales are not comparable.

    Related: UserMADRanking, ItemMADRating, MAE.

    Edge cases: by default all lists count except empty ones; users without a label are left out;
    undefined for fewer than two groups with a list.

    Example: the first items have a score of 0.75 for F and of 0.5 for M.

    >>> import torch, weft
    >>> metric = weft.metrics.UserMADRating(k=1, user_groups=["F", "M"])
    >>> metric.update(torch.tensor([[0.75, 0.5], [0.25, 0.5]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)
    """

    reads_scores = True
    is_exposure_metric = True
    undefined = "fewer than two groups have a user with a recommended item"

    def __init__(self, k: int, *, users: Population = "lists", **settings: Any) -> None:
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
