"""Variety of the categories of a list. Items carry sets of features, such as genres."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft._input_kinds import built_in_inputs
from weft.batch.topk import TopK
from weft.data import Features
from weft.errors import check_choice
from weft.metrics.base.formulas import POPULATIONS, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.browsing import DEFAULT_P, BrowsingModel
from weft.metrics.feature_sums import FeatureSums, reduce_list_features, relative_entropy
from weft.metrics.parameter_types import BrowsingWeight, Population
from weft.metrics.registry import register


class _CategoryMetric(UserAverageTopKMetric):
    """A number per list that depends on the categories of its items."""

    family = "diversity"
    needs = built_in_inputs("item_features")
    higher_is_better = True
    is_exposure_metric = True
    undefined = "no list has an item with a feature"
    reference = (
        "Castells, Hurley and Vargas (2015), Novelty and diversity in recommender systems, "
        "doi 10.1007/978-1-4899-7637-6_26"
    )

    def __init__(self, k: int, *, users: Population = "lists", **settings: Any) -> None:
        super().__init__(k, **settings)
        self._features: Features = self.inputs["item_features"]
        self.users = check_choice("users", users, POPULATIONS)


@register
class CategoryDiversity(_CategoryMetric):
    r"""The number of different categories in a list divided by k, averaged over all lists.

    Categories are item features; an item with several features counts for each of them, so the
    value exceeds 1 if a list has more categories than k.

    Formula: \mathrm{CategoryDiversity}_u = \frac{1}{k} \, {\Big| \bigcup_{i \in L_u} F_i \Big|}

    Parameters:
        users: As in ItemCoverage.

    Use: CategoryDiversity answers how many different categories a list offers. Use it if only the
    presence of a category matters and each item has one or few categories. One item of a category
    counts as much as ten: use CategoryEntropy to see the proportions, ILD for similarities between
    items, and SRecall to count the user's own interests only.

    Related: CategoryEntropy, ILD, SRecall, Calibration.

    Edge cases: items without features add nothing; empty lists are left out.

    Example: the two items of the list have two genres in all.

    >>> import torch, weft
    >>> genres = {0: ["drama"], 1: ["comedy", "drama"], 2: ["horror"]}
    >>> metric = weft.metrics.CategoryDiversity(k=2, item_features=genres, num_items=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    bounds: Bounds = (0.0, None)
    undefined = "all lists are empty"

    def user_values(self, topk: TopK) -> Tensor:
        counts = reduce_list_features(
            self._features,
            topk,
            lambda sums: sums.sum_rows((sums.values > 0).to(topk.k.dtype)),
            is_shared=True,  # without an effect: the sums are those of other metrics
        )
        return counts / torch.where(topk.num_listed > 0, topk.k, torch.nan)


@register
class CategoryEntropy(_CategoryMetric):
    r"""The entropy of the categories of a list in bits, averaged over all lists.

    Categories are item features; an item with m features adds 1/m to each of them, times the weight
    of its position (1 by default).

    Formula: \mathrm{CategoryEntropy}_u = -\sum_{f} q_{uf} \, \log_2 q_{uf}, \quad q_{uf} \propto
    \sum_{i \in L_u:\, f \in F_i} \frac{1}{|F_i|}

    Symbols: $q$ are the shares of the features, which sum to 1.

    Parameters:
        weight, p: As in AWRF.
        users: As in ItemCoverage.

    Use: CategoryEntropy answers how evenly a list is spread over categories: 2 to the power of the
    value is the effective number of categories. Use it instead of CategoryDiversity if proportions
    matter. An even spread is not what every user wants: Calibration compares the list with the
    user's own history. For the spread of all recommendations over items, use ShannonEntropy.

    Related: CategoryDiversity, Calibration, ILD, ShannonEntropy.

    Edge cases: items without features add nothing; lists without a feature are left out.

    Example: of two items, one is a drama and the other a comedy and a drama, which gives shares of
    3/4 and 1/4.

    >>> import torch, weft
    >>> genres = {0: ["drama"], 1: ["comedy", "drama"], 2: ["horror"]}
    >>> metric = weft.metrics.CategoryEntropy(k=2, item_features=genres, num_items=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.8113, dtype=torch.float64)
    """

    bounds: Bounds = (0.0, None)

    def __init__(
        self, k: int, *, weight: BrowsingWeight = "uniform", p: float = DEFAULT_P, **settings: Any
    ) -> None:
        super().__init__(k, **settings)
        self._browsing = BrowsingModel(weight, p)
        self.weight, self.p = self._browsing.weight, self._browsing.p

    def user_values(self, topk: TopK) -> Tensor:
        is_uniform = self.weight == "uniform"
        weights = None if is_uniform else self._browsing.weights(topk.positions)
        return reduce_list_features(self._features, topk, _entropy, weights=weights, is_shared=True)


def _entropy(sums: FeatureSums) -> Tensor:
    """Return the entropy in bits of the shares of each row, NaN if all sums are 0."""
    total = sums.sum_rows(sums.values)
    total = torch.where(total > 0, total, torch.nan)
    terms = relative_entropy(sums.values, torch.ones_like(sums.values))
    return (total.log2() - sums.sum_rows(terms) / total).clamp(min=0)
