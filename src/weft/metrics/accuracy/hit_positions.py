"""Accuracy by the positions of the relevant items in the list."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from weft.batch.topk import TopK
from weft.errors import check_choice
from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.registry import register


@register
class MRR(AccuracyMetric):
    """The reciprocal rank of the first relevant item, 0 if the list has none.

    Edge cases: an empty list counts 0; a user without a relevant item is left out.

    Example: the first relevant item is at position 2.

    >>> import torch, weft
    >>> metric = weft.metrics.MRR(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[0, 1, 1]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    reference = (
        "Voorhees (1999), The TREC-8 question answering track report, "
        "doi 10.6028/NIST.SP.500-246.qa-overview"
    )

    def user_values(self, topk: TopK) -> Tensor:
        return topk.first_hit(1 / topk.positions)


@register
class MAP(AccuracyMetric):
    """Average precision: the precision at each hit, summed over the hits of the list and divided by
    min(|R|, k).

    `normalizer="relevant"` divides by |R| (as trec_eval), `"k"` by k, `"list"` by min(|R|, |L|)
    (as LensKit), which differs where a list is shorter than k, `"hits"` by the number of hits (as
    torchmetrics; 0 without a hit).

    Edge cases: a list without a hit counts 0, under every normalizer; a user without a relevant
    item is left out.

    Example: hits at positions 1 and 3 of two relevant items: (1/1 + 2/3) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.MAP(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 1, 0]]))
    >>> metric.compute()
    tensor(0.8333, dtype=torch.float64)
    """

    reference = (
        "Buckley and Voorhees (2000), Evaluating evaluation measure stability, "
        "doi 10.1145/345508.345543"
    )

    def __init__(self, k: int, *, normalizer: str = "capped", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.normalizer = check_choice(
            "normalizer", normalizer, ("capped", "relevant", "k", "list", "hits")
        )
        if self.normalizer in ("list", "hits"):  # not a sum over the relevant items
            self.sampling_behaviour = "candidates"

    def user_values(self, topk: TopK) -> Tensor:
        if self.normalizer == "hits":
            return topk.precision_per_hit()
        return topk.cumulative_hits(1 / topk.positions) / self._divisor(topk)

    def _divisor(self, topk: TopK) -> Tensor:
        """Return the divisor; the length of lists is read for "list" alone."""
        if self.normalizer == "list":
            return topk.max_hits.minimum(topk.list_length).clamp(min=1)  # an empty list counts 0
        return {"capped": topk.max_hits, "relevant": topk.num_relevant, "k": topk.k}[
            self.normalizer
        ]


@register
class MAR(AccuracyMetric):
    """Average recall: the recall at each hit, summed over the hits of the list and divided by
    min(|R|, k).

    A perfect list reaches 1 only for a user with one relevant item: with |R| <= k it reaches (|R| +
    1) / (2 |R|).

    Edge cases: a list without a hit counts 0; a user without a relevant item is left out.

    Example: both relevant items are found, at recall 1/2 and 2/2: (0.5 + 1) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.MAR(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 1, 0]]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)
    """

    reference = (
        "The recall counterpart of average precision: Buckley and Voorhees (2000), "
        "doi 10.1145/345508.345543"
    )

    def user_values(self, topk: TopK) -> Tensor:
        return topk.cumulative_hits() / topk.num_relevant / topk.max_hits
