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
        self, k: int, *, distance: str = "cosine", users: str = "lists", **settings: Any
    ) -> None:
        super().__init__(k, **settings)
        self.distance = check_choice("distance", distance, self._choices)
        self.users = check_choice("users", users, POPULATIONS)
        name, self._sum_distances = _DISTANCES[self.distance]
        self._data = self.inputs.get(name)
        if isinstance(self._data, Train) and self._data.is_partial:
            raise SettingError(
                f"{type(self).__name__}(distance=cooccurrence) needs the train interactions of all "
                "users at once, and a partition has those of its own users; choose another "
                "distance, or evaluate without an engine."
            )

    def needed_inputs(self) -> Set[str]:
        return {_DISTANCES[self.distance][0]}

    def user_values(self, topk: TopK) -> Tensor:
        total, num_pairs = self._sum_distances(self._data, topk)
        return total / torch.where(num_pairs > 0, num_pairs, torch.nan)


@register
class ILD(_IntraList):
    """Intra-list diversity: the mean distance of the items of a list, over all pairs, averaged over
    lists. Higher is more diverse.

    `distance` of two items: 1 - the cosine of their vectors in `item_vectors` (`"cosine"`); 0 or 1
    if they have the same or different labels in `item_clusters` (`"category"`); the number of
    features in `item_features` that one of them has (`"hamming"`); 1 - common features ÷ features
    of both (`"jaccard"`); 1 - c_ij / √(n_i n_j) with c_ij the train users of both and n_i those of
    one (`"cooccurrence"`). `users="evaluated"` counts the lists of users with a relevant item only.

    Edge cases: items without a vector (or with a vector of zeros), items without a label, and for
    co-occurrence items without train interactions are in no pair; the Jaccard distance of two items
    without features is 0; lists without a pair are left out.

    Example: the vectors of the first two items are equal, that of the third is orthogonal:
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
    """Intra-list similarity: the mean similarity of the items of a list, over all pairs, averaged
    over lists. Lower is more diverse.

    The similarity of two items is 1 minus a `distance`: `"cosine"`, `"category"`, `"jaccard"` or
    `"cooccurrence"`, each as for ILD, so that ILS is 1 - ILD. `users="evaluated"` counts the lists
    of users with a relevant item only.

    Edge cases: as for ILD; lists without a pair are left out.

    Example: of three pairs, one is of the same category.

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
