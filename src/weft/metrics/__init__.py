"""The metrics by class name, and the base classes of all metrics.

`weft.metrics.nDCG` is the registered metric of that name: adding a metric needs no line here. Names
are imported on first use, so that importing `weft.metrics.names` does not load torch.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; at run time names come from the registry
    from weft.metrics.accuracy import *
    from weft.metrics.base.formulas import RatingMetric, UserAverageMetric, UserAverageTopKMetric
    from weft.metrics.base.metric import BaseMetric
    from weft.metrics.base.summed import SummedMetric, SummedTopKMetric
    from weft.metrics.base.top_k_metric import TopKMetric
    from weft.metrics.bias import *
    from weft.metrics.bias_disparity import *
    from weft.metrics.coverage import *
    from weft.metrics.diversity import *
    from weft.metrics.expected_exposure import *
    from weft.metrics.fairness import *
    from weft.metrics.multiobjective import *
    from weft.metrics.novelty import *
    from weft.metrics.rating import *
    from weft.metrics.roc import *

_BASE_CLASSES = {
    "BaseMetric": "weft.metrics.base.metric",
    "RatingMetric": "weft.metrics.base.formulas",
    "SummedMetric": "weft.metrics.base.summed",
    "SummedTopKMetric": "weft.metrics.base.summed",
    "TopKMetric": "weft.metrics.base.top_k_metric",
    "UserAverageMetric": "weft.metrics.base.formulas",
    "UserAverageTopKMetric": "weft.metrics.base.formulas",
}
_MODULES = frozenset(module.name for module in pkgutil.iter_modules(__path__))


def load_families() -> None:
    """Import every module of this package, which registers the built-in metrics."""
    for name in sorted(_MODULES):
        importlib.import_module(f"weft.metrics.{name}")


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if name in _BASE_CLASSES:
        return getattr(importlib.import_module(_BASE_CLASSES[name]), name)
    if not name.startswith("_") and name not in _MODULES:
        from weft.metrics.registry import all_metrics

        for metric in all_metrics():
            if metric.__name__ == name:
                return metric
    raise AttributeError(f"module 'weft.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    from weft.metrics.registry import all_metrics

    return sorted([*_BASE_CLASSES, *(metric.__name__ for metric in all_metrics())])
