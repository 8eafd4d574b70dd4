"""Accuracy: how well the lists find the relevant items.

`L` is the list of a user cut at k, `R` the user's relevant items. Users without a relevant item are
left out. Each formula computes all cut-offs at once: its quantities are `[batch, cut-offs]`. The
metrics of the ROC curve are in `weft.metrics.roc`.
"""

from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.accuracy.cascade import ERR, nERR
from weft.metrics.accuracy.confusion import MCC, Accuracy, FallOut
from weft.metrics.accuracy.discounted_gain import DCG, NCRR, nDCG, nDCGRendle2020
from weft.metrics.accuracy.harmonic_mean import F1
from weft.metrics.accuracy.hit_positions import MAP, MAR, MRR
from weft.metrics.accuracy.hits import HitRate, Precision, Recall, RPrecision
from weft.metrics.accuracy.judgements import Judged, RBPResidual, bpref, infAP
from weft.metrics.accuracy.partial_ranking import PAP, PartialAUC
from weft.metrics.accuracy.propensity import IPSDCG, SNIPSDCG, IPSRecall, SNIPSRecall
from weft.metrics.accuracy.rank_biased import RBP
from weft.metrics.accuracy.ranks import AMRI, MeanRank, PercentileRank
from weft.metrics.accuracy.recall_levels import IPrec
from weft.metrics.accuracy.weighted_hits import IPS

__all__ = [
    "AMRI",
    "DCG",
    "ERR",
    "F1",
    "IPS",
    "IPSDCG",
    "MAP",
    "MAR",
    "MCC",
    "MRR",
    "NCRR",
    "PAP",
    "RBP",
    "SNIPSDCG",
    "Accuracy",
    "AccuracyMetric",
    "FallOut",
    "HitRate",
    "IPSRecall",
    "IPrec",
    "Judged",
    "MeanRank",
    "PartialAUC",
    "PercentileRank",
    "Precision",
    "RBPResidual",
    "RPrecision",
    "Recall",
    "SNIPSRecall",
    "bpref",
    "infAP",
    "nDCG",
    "nDCGRendle2020",
    "nERR",
]
