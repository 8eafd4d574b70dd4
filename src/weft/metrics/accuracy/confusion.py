"""Accuracy by the confusion matrix of a user: listed or not, relevant or not."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import torch
from torch import Tensor

from weft._choices import choices
from weft.batch.topk import TopK
from weft.errors import check_choice, check_int
from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.parameter_types import ConfusionUniverse
from weft.metrics.registry import register


@register
class FallOut(AccuracyMetric):
    r"""The share of the negatives that are in the list: misses / negatives. Lower is better.

    Formula: \mathrm{FallOut}_u = \frac{|L_u \cap N_u|}{|N_u|} = \frac{|L_u| - |L_u \cap
    R_u|}{|N_u|}

    Negatives are the candidates that are not relevant.

    Use: it is the false positive rate of the list, the counterpart of Recall on the horizontal axis
    of a ROC curve. With a large catalogue the value is close to 0 for every model and differs only
    in small digits; use Precision to describe the misses within the list. An empty list has the
    best value, so that the metric should not be used alone.

    Related: Precision, Recall, LAUC, Accuracy.

    Edge cases: an empty list counts 0; undefined for a user without negatives; users without a
    relevant item are excluded.

    Example: the list contains one of three negatives.

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
        self,
        k: int,
        *,
        universe: ConfusionUniverse = "offered",
        num_items: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.universe = check_choice("universe", universe, choices(ConfusionUniverse))
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
    r"""The share of the items that are classified correctly: relevant items in the list, and other
    items outside of it.

    Formula: \mathrm{Accuracy}_u = \frac{\mathrm{TP}_u + \mathrm{TN}_u}{\mathrm{TP}_u +
    \mathrm{TN}_u + \mathrm{FP}_u + \mathrm{FN}_u}, \qquad \mathrm{TP}_u = |L_u \cap R_u|, \quad
    \mathrm{FP}_u = |L_u| - \mathrm{TP}_u, \quad \mathrm{FN}_u = |R_u| - \mathrm{TP}_u, \quad
    \mathrm{TN}_u = |N_u| - \mathrm{FP}_u

    TP are the hits, FP the other items of the list, FN the relevant items outside of the list, and
    TN the negatives outside of it.

    Parameters:
        universe: Items that can be negatives: `"offered"` means the candidates of the user, and
            `"catalogue"` all items of the catalogue, including those that are masked as seen in
            train.

    Use: it is meant for small sets of candidates, where each user has both items to recommend and
    items to avoid. With a large catalogue nearly all items are true negatives and every model
    reaches a value close to 1; use Precision and Recall, or MCC if one number is needed.

    Related: MCC, FallOut, Precision, Recall.

    Edge cases: relevant items that are not candidates count as missed; users without a relevant
    item are excluded.

    Example: of four items, one hit and two negatives outside of the list are correct, and one miss
    is not.

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
    r"""Matthews correlation coefficient between being in the list and being relevant.

    Formula: \mathrm{MCC}_u = \frac{\mathrm{TP}_u \, \mathrm{TN}_u - \mathrm{FP}_u \, \mathrm{FN}_u}
    {\sqrt{(\mathrm{TP}_u + \mathrm{FP}_u)(\mathrm{TP}_u + \mathrm{FN}_u)(\mathrm{TN}_u +
    \mathrm{FP}_u)(\mathrm{TN}_u + \mathrm{FN}_u)}}

    TP are the hits, FP = |L| - TP the other items of the list, FN = |R| - TP the relevant items
    outside of the list, and TN = |N| - FP the negatives outside of it.

    Parameters:
        universe: As in Accuracy.

    Use: it describes the whole confusion matrix in one number and is robust if relevant items are
    rare: 0 is the expected value of a random list, 1 that of a list with exactly the relevant
    items. A list of fixed length k cannot reach 1 unless |R| = k, so that values at different
    cut-offs are not comparable; use RPrecision or nDCG to compare rankings.

    Related: Accuracy, F1, Precision, Recall.

    Edge cases: 0 if a factor of the denominator is 0, as for an empty list; relevant items that are
    not candidates count as missed; users without a relevant item are excluded.

    Example: one hit, one miss and two negatives outside of the list: (1 · 2 - 1 · 0) / √(2 · 1 · 3
    · 2).

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
