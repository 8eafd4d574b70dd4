"""The common properties of accuracy metrics with a cut-off."""

from __future__ import annotations

from weft.metrics.base.formulas import UserAverageTopKMetric
from weft.metrics.base.metric import Bounds


class AccuracyMetric(UserAverageTopKMetric):
    """The common properties of accuracy metrics with a cut-off."""

    family = "accuracy"
    has_expected_tie_form = True
    sampling_behaviour = "corrected"
    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)
    undefined = "no user has a relevant item"

    @property
    def has_reference_values(self) -> bool:  # type: ignore[override]
        """True for formulas over positions; authors' blocks describe the lists of the model."""
        return self.has_expected_tie_form and not self.takes_blocks()
