"""Accuracy by the positions of the relevant items in the list."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from weft._choices import choices
from weft.batch.topk import TopK
from weft.errors import check_choice
from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.parameter_types import PrecisionNormalizer
from weft.metrics.registry import register


@register
class MRR(AccuracyMetric):
    r"""Mean reciprocal rank: 1 / p for the position p of the first hit, 0 without a hit.

    Formula: \mathrm{MRR}_u = \frac{1}{\min \{p : i_p \in R_u\}}

    Use: it answers how early a user finds the first relevant item, as in a search for one known
    item or a next-item prediction. It ignores all hits after the first one; use MAP or nDCG if
    several relevant items matter. A first hit at position 2 instead of 1 costs as much as no hit at
    all instead of one at position 2; use HitRate if the exact position should not matter.

    Related: HitRate, NCRR, ERR, MAP, MeanRank.

    Edge cases: a list without a hit, such as an empty list, counts 0; users without a relevant item
    are excluded.

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
    r"""Mean average precision: the sum of the precision at each hit, divided by min(|R|, k).

    Formula: \mathrm{MAP}_u = \frac{1}{\min(|R_u|, k)} \sum_{p=1}^{|L_u|} [i_p \in R_u] \,
    \frac{h_p}{p}

    h_p / p is the precision at position p.

    Parameters:
        normalizer: Divisor of the sum: `"capped"` is min(|R|, k), `"relevant"` is |R| (as in
            trec_eval), `"k"` is k, `"list"` is min(|R|, |L|) (as in LensKit), which differs from
            the default if a list is shorter than k, and `"hits"` is the number of hits (as in
            TorchMetrics).

    Use: it summarizes how many relevant items the list finds and how early, with binary relevance.
    It ignores the size of ratings; use nDCG or ERR for graded relevance. Tools divide by different
    numbers, so that published values are comparable only if the normalizer is the same; `"hits"` in
    particular ignores relevant items that the list misses.

    Related: nDCG, MAR, MRR, Precision, infAP.

    Edge cases: a list without a hit counts 0 with every normalizer; users without a relevant item
    are excluded.

    Example: the two relevant items are at positions 1 and 3: (1/1 + 2/3) / 2.

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

    def __init__(
        self, k: int, *, normalizer: PrecisionNormalizer = "capped", **settings: Any
    ) -> None:
        super().__init__(k, **settings)
        self.normalizer = check_choice("normalizer", normalizer, choices(PrecisionNormalizer))
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
    r"""Mean average recall: the sum of the recall at each hit, divided by min(|R|, k).

    Formula: \mathrm{MAR}_u = \frac{1}{\min(|R_u|, k)} \sum_{p=1}^{|L_u|} [i_p \in R_u] \,
    \frac{h_p}{|R_u|}

    A perfect list reaches 1 only for a user with one relevant item: with |R| <= k it reaches (|R| +
    1) / (2 |R|).

    Use: it reproduces the numbers of tools and papers that report average recall. It depends only
    on the number of hits and not on their positions, in spite of its name; use MAP or nDCG to
    evaluate the order, and Recall for a value that is easier to interpret.

    Related: Recall, MAP.

    Edge cases: a list without a hit counts 0; users without a relevant item are excluded.

    Example: both relevant items are found, at a recall of 1/2 and 2/2: (0.5 + 1) / 2.

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
