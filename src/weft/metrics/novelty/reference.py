"""Lists against those of another model, the reference: how much a model recommends beyond it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft._input_kinds import built_in_inputs
from weft.batch.topk import TopK
from weft.data.item_lists import ItemLists
from weft.errors import check_choice, check_int
from weft.metrics.base.formulas import POPULATIONS, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.parameter_types import Population
from weft.metrics.registry import register


class _ReferenceMetric(UserAverageTopKMetric):
    """A number of items that a list has in common with the list of the reference."""

    family = "novelty"
    needs = built_in_inputs("reference")
    is_exposure_metric = True
    bounds: Bounds = (0.0, 1.0)
    undefined = "no user has both a list with an item and a list in reference"

    def __init__(self, k: int, *, users: Population = "lists", **settings: Any) -> None:
        super().__init__(k, **settings)
        self._reference: ItemLists = self.inputs["reference"]
        self.users = check_choice("users", users, POPULATIONS)

    def common_items(self, topk: TopK, ref_k: int | None = None) -> Tensor:
        """Return how many items of the first k the reference has in its first `ref_k`, or k.

        NaN for an empty list and for users without a list of the reference."""
        batch = topk.batch
        ranks = self._reference.find_ranks(batch.users, batch.items)
        common = [
            ((ranks[:, :k] > 0) & (ranks[:, :k] <= (ref_k or k))).sum(1) for k in topk.cutoffs
        ]
        lacks = self._reference.lacks(batch.users)[:, None] | (topk.num_listed == 0)
        return torch.where(lacks, torch.nan, torch.stack(common, dim=1).to(topk.k.dtype))


@register
class Unexpectedness(_ReferenceMetric):
    r"""The share of a list that is not among the first k items that another model recommends,
    averaged over all lists.

    The list of the other model is the user's list in the input `reference`.

    Formula: \mathrm{Unexpectedness}_u = 1 - \frac{|L_u \cap B_u|}{k}

    Symbols: $B$ is the list in `reference`, cut at $k$.

    Parameters:
        users: As in ItemCoverage.

    Use: Unexpectedness answers how much a model recommends that an obvious model, such as the most
    popular items, would not. Use it with a simple baseline as `reference`. Unexpected items need
    not be relevant: Serendipity with `definition="base"` counts relevant ones only. If lists are
    shorter than k, use Intersection, which divides by the length of the list.

    Related: Serendipity, Intersection, NewToUser, MIUF.

    Edge cases: empty lists and lists of users without a list in `reference` are left out; positions
    after the end of a shorter list count as unexpected; if the list in `reference` is empty, the
    value is 1.

    Example: of items 0 and 2, the other model recommends item 2.

    >>> import torch, weft
    >>> metric = weft.metrics.Unexpectedness(k=2, reference=[[2, 1]])
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    higher_is_better = True
    reference = (
        "Adamopoulos and Tuzhilin (2014), On unexpectedness in recommender systems, "
        "doi 10.1145/2559952"
    )

    def user_values(self, topk: TopK) -> Tensor:
        return 1 - self.common_items(topk) / topk.k


@register
class Intersection(_ReferenceMetric):
    r"""The share of a list that another model recommends as well, averaged over all lists. Lower
    means more items beyond the known model.

    The list of the other model is the user's list in the input `reference`.

    Formula: \mathrm{Intersection}_u = \frac{|L_u \cap B_u|}{|L_u|}

    Symbols: $B$ is the list in `reference`, cut at $k$.

    Parameters:
        ref_k: Cut-off of the list in `reference`, an integer of at least 1. None means
            k.
        users: As in ItemCoverage.

    Use: Intersection answers how much two models recommend in common, for example whether a new
    model differs from the one in production. Use it before an A/B test: if lists are nearly the
    same, no test will find a difference. It ignores positions and relevance; to find out whether
    the new items are useful, use Serendipity with `definition="base"`.

    Related: Unexpectedness, Serendipity, Personalization.

    Edge cases: empty lists and lists of users without a list in `reference` are left out; if the
    list in `reference` is empty, the value is 0.

    Example: of items 0 and 2, the other model recommends item 2, at position 3.

    >>> import torch, weft
    >>> metric = weft.metrics.Intersection(k=2, ref_k=3, reference=[[1, 3, 2]])
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5, 0.2]]), torch.tensor([[1, 0, 0, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    higher_is_better = False
    reference = (
        "RecTools' metric; Fagin, Kumar and Sivakumar (2003), Comparing top k lists, "
        "doi 10.1137/S0895480102412856"
    )

    def __init__(self, k: int, *, ref_k: int | None = None, **settings: Any) -> None:
        super().__init__(k, **settings)
        self.ref_k = None if ref_k is None else check_int("ref_k", ref_k)

    def user_values(self, topk: TopK) -> Tensor:
        return self.common_items(topk, self.ref_k) / topk.num_listed
