"""Phrases and number formats for the descriptions of charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from weft.evaluation.metric_value import MetricValue
from weft.report.charts.theme import coloured_models, display_name
from weft.report.context import ReportContext

_NUM_FOLLOWERS = 4  # models that are listed after the leader, before the last one
_NUM_LISTED = 6  # names that are listed in full


def short_number(value: float, sign: str = "") -> str:
    """Return a number with four digits, at most three of them after the point."""
    if not math.isfinite(value):
        return "undefined"
    if 0 < abs(value) < 0.001:
        return f"{value:{sign}.2g}"
    integer_digits = len(f"{abs(value):.0f}")
    return f"{value:{sign},.{max(0, 4 - integer_digits)}f}"


def short_percent(part: float, total: float) -> str:
    """Return a share such as "41%", or "0.4%" if it is below one."""
    share = 100 * part / total if total else 0.0
    if 0 < share < 1 or 99 < share < 100:
        return f"{share:.1f}%"
    return f"{math.floor(share + 0.5)}%"  # rounds half up, as Vega does


def common_format(values: Iterable[float], digits: int = 3) -> str:
    """Return one number format for all values of a column."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    integer_digits = len(f"{largest:.0f}")
    return f",.{max(0, digits + 1 - integer_digits)}f"


def direction_suffix(value: MetricValue) -> str:
    """Return the direction of a metric, " (lower is better)", or nothing if it has none."""
    if value.higher_is_better is None:
        return "" if value.target is None else f" ({value.target:g} is neutral)"
    return f" ({'higher' if value.higher_is_better else 'lower'} is better)"


def name_with_direction(value: MetricValue) -> str:
    """Return the name of a metric with its direction: `Gini@10 (lower is better)`."""
    return value.plain_name + direction_suffix(value)


def describe_grey(context: ReportContext) -> str:
    """Return a sentence about the models without a colour of their own, if there are any."""
    num_grey = len(context.models) - len(coloured_models(context))
    if not num_grey:
        return ""
    subject = "1 other model is" if num_grey == 1 else f"The {num_grey} other models are"
    return f" {subject} grey and without a label; tooltips and the chart data have the names."


def describe_intervals(values: Iterable[MetricValue], mark: str) -> str:
    """Return a phrase on the marks of 95% intervals, nothing if no value has one."""
    has_intervals = any(math.isfinite(value.interval.low) for value in values)
    return f", with 95% intervals as {mark}" if has_intervals else ""


def list_names(names: Sequence[str]) -> str:
    """Return the names for a sentence, the first ones if there are many."""
    if len(names) <= _NUM_LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:5])} and {len(names) - 5} more"


def describe_omitted(omitted: Mapping[str, int]) -> str:
    """Return sentences about the small groups that are not shown, by section."""
    return "".join(
        f" {count} smaller group{'' if count == 1 else 's'} in {section!r} "
        f"{'is' if count == 1 else 'are'} not shown."
        for section, count in omitted.items()
    )


def best_first(values: Mapping[str, MetricValue]) -> list[str]:
    """Return the models from best to worst, by value if the metric has no direction."""

    def key(model: str) -> float:
        merit = values[model].merit
        return -(values[model].value if merit is None else merit)

    return sorted(values, key=key)


def describe_ranking(values: Mapping[str, MetricValue]) -> str:
    """Return the leader and the values of the models after it, without the full stop."""
    numbers = [
        (display_name(model), short_number(values[model].value)) for model in best_first(values)
    ]
    (first, value), *others = numbers
    merits = {value.merit for value in values.values()} - {None}
    if len(merits) < 2:  # there is no leader
        return _join_list([f"{name} has {number}" for name, number in numbers])
    followers = [f"{name} with {number}" for name, number in others]
    return f"{first} leads with {value}, followed by {_join_list(followers)}"


def _join_list(parts: Sequence[str]) -> str:
    """Return parts of a sentence, the first ones and the last one if there are many."""
    num_between = len(parts) - _NUM_FOLLOWERS - 1
    shown = [*parts]
    if num_between > 0:
        between = f"{num_between} other model{'' if num_between == 1 else 's'}"
        shown = [*parts[:_NUM_FOLLOWERS], between, parts[-1]]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
