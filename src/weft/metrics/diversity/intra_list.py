"""Intra-list diversity: how different the items of a list are from each other."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from weft._input_kinds import BUILT_IN_INPUTS
from weft.batch.topk import TopK
from weft.data import Train
from weft.errors import SettingError, check_choice
from weft.metrics.base.formulas import POPULATIONS, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.diversity.pair_distances import (
    category_distances,
    cooccurrence_distances,
    cosine_distances,
    hamming_distances,
    jaccard_distances,
)
from weft.metrics.parameter_types import ItemDistance, Population
from weft.metrics.registry import register

# The input that each distance is computed from, and the sums of the distances.
_DISTANCES: dict[str, tuple[str, Callable[[Any, TopK], tuple[Tensor, Tensor]]]] = {
    "cosine": ("item_vectors", cosine_distances),
    "category": ("item_clusters", category_distances),
    "hamming": ("item_features", hamming_distances),
    "jaccard": ("item_features", jaccard_distances),
    "cooccurrence": ("train", cooccurrence_distances),
}


class _IntraList(UserAverageTopKMetric):
    """The mean of a distance over the pairs of items of a list."""

    family = "diversity"
    needs = {
        name: replace(BUILT_IN_INPUTS[name], required=False) for name, _ in _DISTANCES.values()
    }
    is_exposure_metric = True
    undefined = "no list has two items that can be compared"
    reference = (
        "Ziegler et al. (2005), Improving recommendation lists through topic diversification, "
        "doi 10.1145/1060745.1060754"
    )
    _choices: ClassVar[tuple[str, ...]] = tuple(_DISTANCES)

    def __init__(
        self,
        k: int,
        *,
        distance: ItemDistance = "cosine",
        users: Population = "lists",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.distance = check_choice("distance", distance, self._choices)
        self.users = check_choice("users", users, POPULATIONS)
        name, self._sum_distances = _DISTANCES[self.distance]
        self._data = self.inputs.get(name)
        if isinstance(self._data, Train) and self._data.is_partial:
            raise SettingError(
                f"{type(self).__name__}(distance=cooccurrence) needs the train interactions of all "
                "users, but a partition has only those of its users; choose another distance, or "
                "evaluate without an engine."
            )

    def needed_inputs(self) -> Set[str]:
        return {_DISTANCES[self.distance][0]}

    def user_values(self, topk: TopK) -> Tensor:
        total, num_pairs = self._sum_distances(self._data, topk)
        return total / torch.where(num_pairs > 0, num_pairs, torch.nan)


@register
class ILD(_IntraList):
    r"""Intra-list diversity: the mean distance of two items of a list, over all pairs, averaged
    over all lists. Higher is more diverse.

    By default, the distance of two items is 1 minus the cosine of their vectors.

    Formula: \mathrm{ILD}_u = \frac{2}{{|L_u|} ({|L_u|} - 1)} \sum_{p < q} \left( 1 - \cos(v_{i_p},
    v_{i_q}) \right)

    Symbols: $v$ are the vectors of the items.

    Parameters:
        distance: Distance of two items: `"cosine"` is 1 minus the cosine of their vectors in
            `item_vectors`; `"category"` is 0 for equal and 1 for different labels in
            `item_clusters`; `"hamming"` is the number of features in `item_features` that exactly
            one of the items has; `"jaccard"` is 1 minus the number of common features divided by
            the number of features of either; `"cooccurrence"` is 1 - c / √(n m), with c the train
            users of both items and n and m those of each.
        users: As in ItemCoverage.

    Use: ILD answers how different the items of a list are from each other. Use it to see whether
    lists are monotonous, with vectors or categories that reflect what users perceive. Do not use
    the vectors of the evaluated model itself: its lists are similar by construction. Random lists
    are diverse, too, so report accuracy next to it; alpha_nDCG combines both.

    Related: ILS, CategoryEntropy, CategoryDiversity, alpha_nDCG, Personalization.

    Edge cases: items without a vector (or with a vector of zeros), items without a label and, for
    co-occurrence, items without train interactions are in no pair; the Jaccard distance of two
    items without features is 0; lists without a pair are left out.

    Example: the vectors of the first two items are parallel, and the third is orthogonal to them:
    distances of 0, 1 and 1.

    >>> import torch, weft
    >>> vectors = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> metric = weft.metrics.ILD(k=3, item_vectors=vectors)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.4]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.6667, dtype=torch.float64)
    """

    higher_is_better = True
    bounds: Bounds = (0.0, 2.0)
    example = "ILD(distance=category)"

    def __init__(self, k: int, **settings: Any) -> None:
        super().__init__(k, **settings)
        if self.distance != "cosine":
            self.bounds = (0.0, None if self.distance == "hamming" else 1.0)


@register
class ILS(_IntraList):
    r"""Intra-list similarity: the mean similarity of two items of a list, over all pairs, averaged
    over all lists. Lower is more diverse.

    The similarity of two items is 1 minus their distance, so that ILS is 1 - ILD.

    Formula: \mathrm{ILS}_u = \frac{2}{{|L_u|} ({|L_u|} - 1)} \sum_{p < q} \cos(v_{i_p}, v_{i_q})

    Symbols: $v$ are the vectors of the items.

    Parameters:
        distance: As in ILD. `"hamming"` is an error here, because that distance has no upper limit.
        users: As in ItemCoverage.

    Use: ILS answers how similar the items of a list are to each other. Use it to compare with work
    that reports similarities, or to check that a list keeps to one topic. It carries the same
    information as ILD, so report only one of them. The recommendations for ILD on the choice of
    vectors apply.

    Related: ILD, CategoryEntropy, CategoryDiversity, DuplicateRate.

    Edge cases: items without a vector (or with a vector of zeros), items without a label and, for
    co-occurrence, items without train interactions are in no pair; the Jaccard similarity of two
    items without features is 1; lists without a pair are left out.

    Example: one of three pairs is of the same category.

    >>> import torch, weft
    >>> clusters = ["a", "b", "b", "c"]
    >>> metric = weft.metrics.ILS(k=3, distance="category", item_clusters=clusters)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.4, 0.1]]), torch.tensor([[1, 0, 0, 0]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    higher_is_better = False
    bounds: Bounds = (-1.0, 1.0)
    example = "ILS(distance=category)"
    _choices = tuple(distance for distance in _DISTANCES if distance != "hamming")

    def __init__(self, k: int, **settings: Any) -> None:
        super().__init__(k, **settings)
        if self.distance != "cosine":
            self.bounds = (0.0, 1.0)

    def user_values(self, topk: TopK) -> Tensor:
        return 1 - super().user_values(topk)
