"""The common properties of accuracy metrics with a cut-off, and checks of their parameters."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from weft.errors import SettingError, check_float
from weft.metrics.base.formulas import UserAverageTopKMetric
from weft.metrics.base.metric import Bounds

Value = TypeVar("Value")


class AccuracyMetric(UserAverageTopKMetric):
    """The common properties of accuracy metrics with a cut-off."""

    family = "accuracy"
    has_expected_tie_form = True
    sampling_behaviour = "corrected"
    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)
    undefined = "no user has a relevant item"
    # "normalized" or "plain" if `user_values` is a sum over the hits, of values that depend on the
    # position and the rating of each alone, with or without a normalizer. Not inherited by a class
    # with a formula of its own.
    hit_sum: ClassVar[str] = ""

    @property
    def has_reference_values(self) -> bool:  # type: ignore[override]
        """True for formulas over positions; authors' blocks describe the lists of the model."""
        return self.has_expected_tie_form and not self.takes_blocks()


def resolve_alias(
    metric: str, names: tuple[str, str], *, value: Value, default: Value, settings: dict[str, Any]
) -> Value:
    """Return a parameter from its own name or its alias (`names`), removed from `settings`."""
    name, alias = names
    if settings.get(alias) is None:
        settings.pop(alias, None)
        return value
    if value != default:
        raise SettingError(f"{metric} got both {name} and its alias {alias}; remove one of them.")
    aliased: Value = settings.pop(alias)
    return aliased


def check_max_grade(max_grade: float) -> float:
    """Return the highest rating of a scale, above 0. Raises `SettingError`."""
    if check_float("max_grade", max_grade, more=" above 0") <= 0:
        raise SettingError(f"got max_grade={max_grade!r}; it must be a number above 0.")
    return float(max_grade)
