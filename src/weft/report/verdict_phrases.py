"""Phrases of verdicts: values with intervals, tests, directions, and lists of models."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.errors import SettingError, UnknownMetric
from weft.evaluation.metric_value import Interval, MetricValue
from weft.metrics.names import parse_name, split_labels
from weft.metrics.registry import find_metric
from weft.report.number_format import number, places, with_places
from weft.statistics import Comparison
from weft.statistics.comparison_text import TEST_NAMES, describe_adjustment
from weft.statistics.significance_tests import UNPAIRED

_MAX_NAMES = 4  # models that a sentence names
_CHANCE_IS_HALF = ("AUC", "GAUC", "LAUC")  # a percentage of such a value means little


def name_test(comparison: Comparison, test: str) -> str:
    """Return the name of a test of a comparison."""
    one_sided = "" if comparison.alternative == "two-sided" else ", one-sided"
    unpaired = ", which ignores that the users are the same" if test in UNPAIRED else ""
    return TEST_NAMES[test] + one_sided + unpaired


def caption_test(comparison: Comparison, test: str) -> str:
    """Return the name of a test of a comparison, the correction of its p-values and alpha."""
    return f"{name_test(comparison, test)}, {describe_adjustment(comparison, test)}"


def describe_direction(value: MetricValue) -> str:
    """Return the direction of a metric unless higher is better."""
    if value.higher_is_better is None:
        return "" if value.target is None else f" (closer to {value.target:g} is better)"
    return "" if value.higher_is_better else " (lower is better)"


def with_interval(value: MetricValue) -> str:
    """Return a value and its interval, with the digits that the interval justifies."""
    low, high, kind = value.interval
    half = half_width(value.interval)
    if not half > 0:
        return number(value.value)
    digits = places(value.value, half)
    name = "95% interval" if kind == "normal" else "95% bootstrap interval"
    interval = format_ends(f" ({name} {{}} to {{}})", low, high, digits)
    return with_places(value.value, digits) + interval


def format_ends(template: str, low: float, high: float, digits: int) -> str:
    """Return both ends of an interval; nothing if there is none, or they are equal as shown."""
    ends = [with_places(end, digits) for end in (low, high)]
    return "" if math.isnan(low) or ends[0] == ends[1] else template.format(*ends)


def half_width(interval: Interval) -> float:
    """Return half the width of an interval."""
    return (interval.high - interval.low) / 2


def describe_overlap(first: Interval, second: Interval) -> str:
    """Return whether two intervals overlap, nothing if one is undefined."""
    if math.isnan(first.low) or math.isnan(second.low):
        return ""
    overlaps = first.low <= second.high and second.low <= first.high
    return f"; the two intervals {'overlap' if overlaps else 'do not overlap'}"


def has_ratio_scale(name: str, first: MetricValue, second: MetricValue) -> bool:
    """True if a percentage of the second value is meaningful: on a scale from 0, and not near 0."""
    try:
        metric = find_metric(parse_name(split_labels(name)[0]).name)
        starts_at_zero = metric.bounds[0] == 0 and metric.target is None
        is_ratio = starts_at_zero and metric.__name__ not in _CHANCE_IS_HALF
    except (UnknownMetric, SettingError):
        is_ratio = first.target is None and first.value >= 0
    half = half_width(second.interval)
    return is_ratio and second.value > max(1e-9, 0.0 if math.isnan(half) else half)


def join_names(names: Sequence[str]) -> str:
    """Return the names for a sentence, the first ones if there are many."""
    shown = [*names]
    if len(names) > _MAX_NAMES + 1:
        shown = [*names[:_MAX_NAMES], f"{len(names) - _MAX_NAMES} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def name_all(models: Sequence[str]) -> str:
    """Return the names of up to two models, else their number."""
    return join_names(models) if len(models) <= 2 else f"all {len(models)} models"
