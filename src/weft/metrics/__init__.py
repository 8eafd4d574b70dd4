"""Every built-in metric by its name, and the base classes of all metrics."""

from weft.metrics.accuracy import (
    AUC,
    F1,
    GAUC,
    LAUC,
    MAP,
    MAR,
    MRR,
    HitRate,
    Precision,
    Recall,
    nDCG,
    nDCGRendle2020,
)
from weft.metrics.base import BaseMetric, TopKMetric
from weft.metrics.bias import ACLT, APLT, ARP, PopREO, PopRSP
from weft.metrics.coverage import ItemCoverage, NumRetrieved, UserCoverage, UserCoverageAtN
from weft.metrics.diversity import Gini, ShannonEntropy, SRecall
from weft.metrics.fairness import (
    REO,
    RSP,
    BiasDisparityBD,
    BiasDisparityBR,
    BiasDisparityBS,
    ItemMADRanking,
    ItemMADRating,
    UserMADRanking,
    UserMADRating,
)
from weft.metrics.means import RatingMetric, UserAverageTopKMetric
from weft.metrics.multiobjective import EucDistance, Hypervolume
from weft.metrics.novelty import EFD, EPC
from weft.metrics.rating import MAE, MSE, RMSE

__all__ = [
    "ACLT",
    "APLT",
    "ARP",
    "AUC",
    "EFD",
    "EPC",
    "F1",
    "GAUC",
    "LAUC",
    "MAE",
    "MAP",
    "MAR",
    "MRR",
    "MSE",
    "REO",
    "RMSE",
    "RSP",
    "BaseMetric",
    "BiasDisparityBD",
    "BiasDisparityBR",
    "BiasDisparityBS",
    "EucDistance",
    "Gini",
    "HitRate",
    "Hypervolume",
    "ItemCoverage",
    "ItemMADRanking",
    "ItemMADRating",
    "NumRetrieved",
    "PopREO",
    "PopRSP",
    "Precision",
    "RatingMetric",
    "Recall",
    "SRecall",
    "ShannonEntropy",
    "TopKMetric",
    "UserAverageTopKMetric",
    "UserCoverage",
    "UserCoverageAtN",
    "UserMADRanking",
    "UserMADRating",
    "nDCG",
    "nDCGRendle2020",
]
