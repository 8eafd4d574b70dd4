"""The common properties of fairness metrics that compare groups of users or clusters of items."""

from __future__ import annotations

from typing import Any

from weft._input_kinds import built_in_inputs
from weft.data import Labels
from weft.metrics.accumulators import ItemAccumulator
from weft.metrics.base.metric import Bounds
from weft.metrics.base.summed import SummedTopKMetric


class FairnessMetric(SummedTopKMetric):
    """A comparison of groups of users or clusters of items."""

    family = "fairness"
    higher_is_better = False
    bounds: Bounds = (0.0, None)
    target = 0.0


class ClusterMetric(FairnessMetric):
    """A comparison of item clusters."""

    needs = built_in_inputs("item_clusters")

    def __init__(self, k: int, **settings: Any) -> None:
        super().__init__(k, **settings)
        self._clusters: Labels = self.inputs["item_clusters"]
        self._num_items = len(self._clusters.codes)

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        """Return the numerator and the denominator of what is compared."""
        raise NotImplementedError
