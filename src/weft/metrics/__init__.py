"""Every built-in metric by its name, and the base classes of all metrics.

Names are imported on first use, so that importing `weft.metrics.names` does not load torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from weft.metrics.base.formulas import RatingMetric, UserAverageTopKMetric
    from weft.metrics.base.metric import BaseMetric, TopKMetric
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
    from weft.metrics.multiobjective import EucDistance, Hypervolume
    from weft.metrics.novelty import EFD, EPC
    from weft.metrics.rating import MAE, MSE, RMSE

_MODULES = (
    "accuracy",
    "rating",
    "coverage",
    "novelty",
    "diversity",
    "bias",
    "fairness",
    "multiobjective",
    "base.metric",
    "base.formulas",
)

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


def load_all() -> None:
    """Import every module of built-in metrics, which registers them."""
    for name in _MODULES:
        importlib.import_module(f"weft.metrics.{name}")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            found = getattr(importlib.import_module(f"weft.metrics.{module}"), name, None)
            if found is not None:
                return found
    raise AttributeError(f"module 'weft.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
