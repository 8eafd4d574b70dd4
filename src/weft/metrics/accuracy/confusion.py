"""Accuracy by the confusion matrix of a user: listed or not, relevant or not."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import torch
from torch import Tensor

from weft.batch.topk import TopK
from weft.errors import check_choice, check_int
from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.registry import register


@register
class FallOut(AccuracyMetric):
    """The share of the negatives that are in the list: misses / negatives. Lower is better.

    Negatives are the candidates that are not relevant.

    Edge cases: an empty list counts 0; undefined for a user without negatives; a user without a
    relevant item is left out.

    Example: the list holds one of three negatives.

    >>> import torch, weft
    >>> metric = weft.metrics.FallOut(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 0, 0]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    higher_is_better = False
    sampling_behaviour = "candidates"  # the negatives are those of the candidates
    undefined = "no user has both a relevant item and a negative"
    reference = (
        "Manning, Raghavan and Schütze (2008), Introduction to information retrieval, "
        "doi 10.1017/CBO9780511809071"
    )

    def user_values(self, topk: TopK) -> Tensor:
        negatives = topk.num_negatives
        return torch.where(negatives > 0, (topk.list_length - topk.hits) / negatives, torch.nan)


class _ConfusionMetric(AccuracyMetric):
    """The common parameter `universe` of metrics that count items outside the list."""

    sampling_behaviour = "candidates"  # the items outside the list are those of the candidates

    def __init__(
        self, k: int, *, universe: str = "offered", num_items: int | None = None, **settings: Any
    ) -> None:
        super().__init__(k, **settings)
        self.universe = check_choice("universe", universe, ("offered", "catalogue"))
        self.num_items = None if num_items is None else check_int("num_items", num_items, least=0)

    def needed_inputs(self) -> Set[str]:
        return {"num_items"} if self.universe == "catalogue" else frozenset()

    def num_negatives(self, topk: TopK) -> Tensor:
        """Return the number of items of the universe that are not relevant, `[batch, 1]`."""
        if self.universe == "catalogue" and self.num_items is not None:
            return self.num_items - topk.num_relevant + topk.num_empty
        return topk.num_negatives


@register
class Accuracy(_ConfusionMetric):
    """The share of the items that are where they belong: relevant ones in the list, others outside.

    (TP + TN) / (TP + TN + FP + FN), with TP = hits, FP = |L| - hits, FN = |R| - hits. `universe`:
    the other items TN are those that could be recommended (`"offered"`), or those of the whole
    `"catalogue"`, train included.

    Edge cases: relevant items that are not candidates count as missed; with a large catalogue
    nearly every value is close to 1; a user without a relevant item is left out.

    Example: of four items, one hit and two others outside the list are right, one miss is not.

    >>> import torch, weft
    >>> metric = weft.metrics.Accuracy(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 0, 0]]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)
    """

    reference = (
        "Herlocker et al. (2004), Evaluating collaborative filtering recommender systems, "
        "doi 10.1145/963770.963772"
    )

    def user_values(self, topk: TopK) -> Tensor:
        negatives = self.num_negatives(topk)
        is_right = negatives - topk.list_length + 2 * topk.hits
        return is_right / (negatives + topk.num_relevant)


@register
class MCC(_ConfusionMetric):
    """Matthews correlation coefficient of being in the list and being relevant.

    (TP TN - FP FN) / √((TP + FP)(TP + FN)(TN + FP)(TN + FN)), with TP = hits, FP = |L| - hits, FN =
    |R| - hits. `universe`: the other items TN are those that could be recommended (`"offered"`), or
    those of the whole `"catalogue"`, train included.

    Edge cases: 0 if a factor of the denominator is 0, as for an empty list; relevant items that are
    not candidates count as missed; a user without a relevant item is left out.

    Example: one hit, one miss and two other items outside the list: (1 · 2 - 1 · 0) / √(2 · 1 · 3 ·
    2).

    >>> import torch, weft
    >>> metric = weft.metrics.MCC(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 0, 0]]))
    >>> metric.compute()
    tensor(0.5774, dtype=torch.float64)
    """

    bounds: Bounds = (-1.0, 1.0)
    reference = (
        "Matthews (1975), Comparison of the predicted and observed secondary structure of T4 phage "
        "lysozyme, doi 10.1016/0005-2795(75)90109-9"
    )

    def user_values(self, topk: TopK) -> Tensor:
        length, relevant, negatives = topk.list_length, topk.num_relevant, self.num_negatives(topk)
        items = negatives + relevant
        # TP TN - FP FN, in which the squares of the hits cancel.
        agreement = topk.hits * items - length * relevant
        product = length * relevant * negatives * (items - length)
        return torch.where(product > 0, agreement / product.clamp(min=1).sqrt(), 0)
