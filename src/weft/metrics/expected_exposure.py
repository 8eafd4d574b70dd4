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
        weight: str = "geometric",
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
    """EE-L, the squared distance of the exposure of items from their target: Σ_i (e_i - e*_i)²,
    averaged over users.

    e_i is the `weight` of the position of item i in the list, 0 if it is not in it. In the target,
    all orders with the |R| relevant items first are equally likely: relevant items have the mean
    weight of the first |R| positions, others the mean weight of all further ones up to N, the
    number of items in the catalogue. `weight` of position r: 1 (`"uniform"`), p^(r - 1)
    (`"geometric"`), 1 / log2(r + 1) (`"log"`) or 1/r (`"reciprocal"`). EE-L is EE-D - 2 EE-R + Σ
    e*²; a single order cannot reach the target of items that share it, so that 0 is not reached.

    Edge cases: an empty list has no exposure.

    Example: of two items the relevant one is listed: e and e* are (1, 0) and (1, 1/2).

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
    """EE-D, how unequally exposure is spread over items: Σ_i e_i², averaged over users.

    e_i is the `weight` of the position of item i in the list, as for ExpectedExposureLoss. With one
    list per user, it depends on the length of the list alone.

    Edge cases: an empty list counts 0.

    Example: weights 1 and 1/2 of two positions: 1 + 1/4.

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
    """EE-R, how much exposure goes to relevant items: Σ_i e_i e*_i, averaged over users.

    The exposure e, its target e* and `weight` are those of ExpectedExposureLoss.

    Edge cases: an empty list counts 0.

    Example: of two items the relevant one is listed: e and e* are (1, 0) and (1, 1/2).

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
    """Attention-weighted rank fairness: 1 minus the Jensen-Shannon divergence, in bits, of the
    exposure of item clusters in a list and their shares of the catalogue, averaged over lists. 1 is
    fair.

    The exposure of a cluster is the sum of the weights of its positions. `weight` of position r: 1
    (`"uniform"`), p^(r - 1) (`"geometric"`), 1 / log2(r + 1) (`"log"`) or 1/r (`"reciprocal"`).
    `users="evaluated"` counts the lists of users with a relevant item only.

    Edge cases: items without a label are left out of both shares; lists without an item that has a
    label are left out.

    Example: each of two clusters has half of the catalogue, and the list an item of one: 1 - (1/2
    log2(4/3) + 1/4 log2(2/3) + 1/4).

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
        weight: str = "log",
        p: float = DEFAULT_P,
        users: str = "lists",
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
