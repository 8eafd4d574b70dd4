"""Phrases and number formats for the descriptions of charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from weft.evaluation.metric_value import MetricValue
from weft.report.charts.theme import display_name
from weft.report.context import ReportContext

_NUM_FOLLOWERS = 4  # models that are listed after the leader
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


def count_models(context: ReportContext) -> str:
    """Return the number of models in words."""
    return "1 model" if len(context.models) == 1 else f"{len(context.models)} models"


def count_users(count: int) -> str:
    """Return a number of users in words."""
    return "1 user" if count == 1 else f"{count:,} users"


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
    """Return the leader and the values of the models after it."""
    first, *others = best_first(values)
    merits = {value.merit for value in values.values()} - {None}

    def has(model: str, verb: str = "has") -> str:
        return f"{display_name(model)} {verb} {short_number(values[model].value)}"

    parts = [has(first, "leads with" if len(merits) > 1 else "has")]
    parts += [has(model) for model in others[:_NUM_FOLLOWERS]]
    num_between = len(others) - _NUM_FOLLOWERS - 1
    if num_between > 0:
        parts.append(f"{num_between} more models are between, and {has(others[-1])}")
    elif num_between == 0:
        parts.append(has(others[-1]))
    return ", ".join(parts)
