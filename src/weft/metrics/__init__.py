"""The metrics, one module per family. Each is a TorchMetrics metric; each is known to the registry by its name."""

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
from weft.metrics.base import BaseMetric, RatingMetric, TopKMetric, UserAverageTopKMetric

__all__ = [
    "AUC",
    "F1",
    "GAUC",
    "LAUC",
    "MAP",
    "MAR",
    "MRR",
    "BaseMetric",
    "HitRate",
    "Precision",
    "RatingMetric",
    "Recall",
    "TopKMetric",
    "UserAverageTopKMetric",
    "nDCG",
    "nDCGRendle2020",
]
