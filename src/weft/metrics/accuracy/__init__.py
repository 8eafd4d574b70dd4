"""Accuracy: how well the lists find the relevant items. Higher is better.

`L` is the list of a user cut at k, `R` the user's relevant items. Users without a relevant item are
left out. Each formula computes all cut-offs at once: its quantities are `[batch, cut-offs]`. The
metrics of the ROC curve are in `weft.metrics.roc`.
"""

from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.accuracy.discounted_gain import nDCG, nDCGRendle2020
from weft.metrics.accuracy.harmonic_mean import F1
from weft.metrics.accuracy.hit_positions import MAP, MAR, MRR
from weft.metrics.accuracy.hits import HitRate, Precision, Recall

__all__ = [
    "F1",
    "MAP",
    "MAR",
    "MRR",
    "AccuracyMetric",
    "HitRate",
    "Precision",
    "Recall",
    "nDCG",
    "nDCGRendle2020",
]
