"""Fairness of exposure: how much attention items get by their positions, against a target.

The weight of a position is the probability that a user looks at it (`weft.metrics.browsing`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from weft._input_kinds import built_in_inputs
from weft.batch.topk import TopK
from weft.data import DeviceColumn, Labels
from weft.errors import check_choice, check_int
from weft.metrics.base.formulas import POPULATIONS, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.browsing import DEFAULT_P, BrowsingModel
from weft.metrics.feature_sums import FeatureSums, reduce_list_features, relative_entropy
from weft.metrics.parameter_types import BrowsingWeight, Population
from weft.metrics.registry import register


class _ExpectedExposure(UserAverageTopKMetric):
    """A comparison of the exposure e of items in a list and their target exposure e*."""

    family = "fairness"
    has_expected_tie_form = True  # linear in the weights of the hits
    bounds: Bounds = (0.0, None)
    undefined = "no user has a relevant item"
    reference = (
        "Diaz, Mitra, Ekstrand, Biega and Carterette (2020), Evaluating stochastic rankings with "
        "expected exposure, doi 10.1145/3340531.3411962"
    )

    def __init__(
        self,
        k: int,
        *,
        num_items: int,
        weight: BrowsingWeight = "geometric",
        p: float = 0.5,
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.num_items = check_int("num_items", num_items, least=0)
        self._browsing = BrowsingModel(weight, p)
        self.weight = self._browsing.weight
        self.p = self._browsing.p if self.weight == "geometric" else 0.5

    @cached_property
    def _cumulative(self) -> tuple[DeviceColumn, DeviceColumn]:
        """The sums of the weights of the first n positions and of their squares, by n."""
        weights = self._browsing.weights(torch.arange(1, self.num_items + 1, dtype=torch.float64))
        sums = (torch.nn.functional.pad(one.cumsum(0), (1, 0)) for one in (weights, weights**2))
        return DeviceColumn(next(sums)), DeviceColumn(next(sums))

    def _sum_weights(self, topk: TopK, power: int) -> Tensor:
        """Return the sum over listed items of the weights of their positions to a power, 1 or 2."""
        if not topk.has_empty:
            return self._cumulative[power - 1].lookup(topk.list_length.long())
        weights = self._browsing.weights(topk.positions) ** power
        return topk.sum_positions(torch.where(topk.batch.items >= 0, weights, 0))

    def disparity(self, topk: TopK) -> Tensor:
        """Return the sum of e² over items."""
        return self._sum_weights(topk, 2)

    def targets(self, topk: TopK) -> tuple[Tensor, Tensor]:
        """Return e* of relevant items and of others, `[batch, 1]`."""
        relevant, all_positions = (
            topk.num_relevant,
            torch.full_like(topk.num_relevant, self.num_items),
        )
        first, every = (
            self._cumulative[0].lookup(number.long()) for number in (relevant, all_positions)
        )
        others = (every - first) / (all_positions - relevant).clamp(min=1)
        return first / relevant.clamp(min=1), others

    def agreement(self, topk: TopK) -> Tensor:
        """Return the sum of e e* over items."""
        relevant, others = self.targets(topk)
        weights = self._browsing.weights(topk.positions)
        hits = topk.relevant_positions.hits(topk.cutoffs, weights)
        exposure = self._sum_weights(topk, 1)
        return relevant * hits + others * (exposure - hits)


@register
class ExpectedExposureLoss(_ExpectedExposure):
    r"""EE-L: the squared distance between the exposure of items in a list and their target
    exposure, averaged over users. Lower is better.

    The exposure of an item is the weight of its position in the list, and 0 if it is not in the
    list. In the target, all orders with the |R| relevant items first are equally likely: relevant
    items have the mean weight of the first |R| positions, and other items the mean weight of all
    further positions, up to the number of items in the catalogue.

    EE-L is EE-D - 2 EE-R plus the sum of the squared targets. A single list cannot give items that
    share a target the same exposure, so 0 is not reached in general.

    Formula: \mathrm{ExpectedExposureLoss}_u = \sum_{i \in I} (e_{ui} - t_{ui})^2, \quad e_{ui} =
    w_p \text{ for } i = i_p, \quad w_p = 0.5^{p-1}

    Symbols: $e$ is the exposure of an item, which is 0 outside the list, $w$ are the default
    weights of positions, and $t$ is the target exposure.

    Parameters:
        weight, p: As in AWRF.

    Use: ExpectedExposureLoss answers how far the attention that items get is from giving equally
    relevant items the same attention. It was designed for stochastic rankers, of which the exposure
    is the mean over several lists of a user. Weft evaluates one list per user: the value mostly
    follows accuracy, since no single list can share attention equally, and nDCG is easier to read.
    For groups of items rather than single items, use AWRF.

    Related: ExpectedExposureRelevance, ExpectedExposureDisparity, AWRF, nDCG.

    Edge cases: an empty list gives no exposure.

    Example: of two items, the relevant one is in the list: the exposures are (1, 0) and the targets
    (1, 1/2).

    >>> import torch, weft
    >>> metric = weft.metrics.ExpectedExposureLoss(k=1, num_items=2)
    >>> metric.update(torch.tensor([[0.9, 0.5]]), torch.tensor([[1, 0]]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)
    """

    higher_is_better = False

    def user_values(self, topk: TopK) -> Tensor:
        relevant, others = self.targets(topk)
        num_relevant = topk.num_relevant
        target = num_relevant * relevant**2 + (self.num_items - num_relevant) * others**2
        return (self.disparity(topk) - 2 * self.agreement(topk) + target).clamp(min=0)


@register
class ExpectedExposureDisparity(_ExpectedExposure):
    r"""EE-D: how unequally exposure is spread over the items, as the sum of squared exposures of a
    list, averaged over users. Lower is more equal.

    The exposure of an item is the weight of its position in the list, as for ExpectedExposureLoss.
    With one list per user, the value depends only on the length of the list.

    Formula: \mathrm{ExpectedExposureDisparity}_u = \sum_{i \in I} e_{ui}^2, \quad e_{ui} = w_p
    \text{ for } i = i_p, \quad w_p = 0.5^{p-1}

    Symbols: $e$ is the exposure of an item, which is 0 outside the list, and $w$ are the default
    weights of positions.

    Parameters:
        weight, p: As in AWRF.

    Use: ExpectedExposureDisparity is a part of ExpectedExposureLoss, the part that does not depend
    on relevance. Use it next to ExpectedExposureRelevance to see why the loss changes. With one
    list per user it is the same for all models that fill k positions, so it cannot rank them: use
    Gini for the spread of exposure over the items of the catalogue.

    Related: ExpectedExposureLoss, ExpectedExposureRelevance, Gini, AWRF.

    Edge cases: an empty list counts 0.

    Example: the weights of the two positions are 1 and 1/2: 1 + 1/4.

    >>> import torch, weft
    >>> metric = weft.metrics.ExpectedExposureDisparity(k=2, num_items=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(1.2500, dtype=torch.float64)
    """

    higher_is_better = False
    is_exposure_metric = True

    def user_values(self, topk: TopK) -> Tensor:
        return self.disparity(topk)


@register
class ExpectedExposureRelevance(_ExpectedExposure):
    r"""EE-R: how much exposure goes to relevant items, as the sum over items of exposure times
    target exposure, averaged over users. Higher is better.

    The exposure and its target are those of ExpectedExposureLoss.

    Formula: \mathrm{ExpectedExposureRelevance}_u = \sum_{i \in I} e_{ui} \, t_{ui}, \quad e_{ui} =
    w_p \text{ for } i = i_p, \quad w_p = 0.5^{p-1}

    Symbols: $e$ is the exposure of an item, which is 0 outside the list, $w$ are the default
    weights of positions, and $t$ is the target exposure of ExpectedExposureLoss.

    Parameters:
        weight, p: As in AWRF.

    Use: ExpectedExposureRelevance answers how much of the users' attention relevant items get. Use
    it next to ExpectedExposureDisparity to see why ExpectedExposureLoss changes. It is a measure of
    accuracy rather than of fairness, and its upper limit depends on the number of relevant items:
    to compare accuracy alone, use nDCG or RBP.

    Related: ExpectedExposureLoss, ExpectedExposureDisparity, RBP, nDCG.

    Edge cases: an empty list counts 0.

    Example: of two items, the relevant one is in the list: the exposures are (1, 0) and the targets
    (1, 1/2).

    >>> import torch, weft
    >>> metric = weft.metrics.ExpectedExposureRelevance(k=1, num_items=2)
    >>> metric.update(torch.tensor([[0.9, 0.5]]), torch.tensor([[1, 0]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    higher_is_better = True

    def user_values(self, topk: TopK) -> Tensor:
        return self.agreement(topk)


@register
class AWRF(UserAverageTopKMetric):
    r"""Attention-weighted rank fairness: 1 minus the Jensen-Shannon divergence, in bits, between
    the exposure of item clusters in a list and their shares of the catalogue, averaged over all
    lists. 1 is fair.

    The exposure of a cluster is the sum of the weights of its positions in the list; by default,
    the weight of position r is 1 / log2(r + 1).

    Formula: \mathrm{AWRF}_u = 1 - \frac{1}{2} \sum_{c} \left( q_{uc} \, \log_2 \frac{2 \,
    q_{uc}}{q_{uc} + t_c} + t_c \, \log_2 \frac{2 \, t_c}{q_{uc} + t_c} \right)

    Symbols: $q$ is a cluster's share of the exposure in the list, and $t$ its share of the
    catalogue.

    Parameters:
        weight: Weight of position r: `"uniform"` is 1, `"geometric"` is p^(r - 1), `"log"` is 1 /
            log2(r + 1), and `"reciprocal"` is 1 / r. With all but `"uniform"`, the first positions
            count most.
        p: Probability that a user who looks at a position also looks at the next one, between 0 and
            1: the base of the weight `"geometric"`. It has no effect on other weights.
        users: As in ItemCoverage.

    Use: AWRF answers whether clusters of items, such as providers, get attention in lists in
    proportion to their size. Use it if the first positions matter more than the rest; RSP counts
    all positions alike. It asks each single list to be fair, which short lists cannot be if there
    are many clusters, so compare models at the same k. It ignores relevance: REO compares relevant
    items only.

    Related: RSP, REO, ExpectedExposureLoss, Gini, BiasDisparityBR.

    Edge cases: items without a label are left out of both shares; lists without an item that has a
    label are left out.

    Example: each of two clusters has half of the catalogue, and the list has an item of one: 1 -
    (1/2 log2(4/3) + 1/4 log2(2/3) + 1/4).

    >>> import torch, weft
    >>> metric = weft.metrics.AWRF(k=1, item_clusters=["a", "b"])
    >>> metric.update(torch.tensor([[0.9, 0.5]]), torch.tensor([[1, 0]]))
    >>> metric.compute()
    tensor(0.6887, dtype=torch.float64)
    """

    family = "fairness"
    needs = built_in_inputs("item_clusters")
    higher_is_better = True
    is_exposure_metric = True
    bounds: Bounds = (0.0, 1.0)
    undefined = "no list has an item with a label"
    reference = (
        "Raj and Ekstrand (2022), Measuring fairness in ranked results, doi 10.1145/3477495.3532018"
    )

    def __init__(
        self,
        k: int,
        *,
        weight: BrowsingWeight = "log",
        p: float = DEFAULT_P,
        users: Population = "lists",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self._clusters: Labels = self.inputs["item_clusters"]
        self._browsing = BrowsingModel(weight, p)
        self.weight, self.p = self._browsing.weight, self._browsing.p
        self.users = check_choice("users", users, POPULATIONS)
        sizes = self._clusters.sizes
        self._targets = DeviceColumn(sizes / sizes.sum())

    def user_values(self, topk: TopK) -> Tensor:
        weights = self._browsing.weights(topk.positions)
        return reduce_list_features(self._clusters, topk, self._fairness, weights=weights)

    def _fairness(self, sums: FeatureSums) -> Tensor:
        """Return the values `[rows, cut-offs]` from the exposure of the clusters in lists."""
        q, target = sums.shares(sums.values), sums.lookup(self._targets)
        mean = (q + target) / 2
        terms = relative_entropy(q, mean) + relative_entropy(target, mean)
        # A cluster that is not in the list adds its target share.
        divergence = (1 + sums.sum_rows(terms - target)) / 2
        has_exposure = sums.sum_rows(sums.values) > 0
        return torch.where(has_exposure, (1 - divergence).clamp(0, 1), torch.nan)
