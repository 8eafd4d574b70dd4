"""Metrics at their cut-offs, with the values of several models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result


@dataclass(frozen=True)
class MetricRow:
    """A metric at its cut-off with the values of all models, None for a model without it.

    `is_skill`: the values are the skill of the models in a metric.
    """

    name: str
    values: tuple[MetricValue | None, ...]
    is_skill: bool = False

    def is_best(self, value: MetricValue | None) -> bool:
        """True if no model is better than `value` and some are worse.

        No value is best if the metric is undefined or has no direction.
        """
        merits = {
            value.merit
            for value in self.values
            if value and value.merit is not None and not math.isnan(value.value)
        }
        return value is not None and len(merits) > 1 and value.merit == max(merits)

    @property
    def any_value(self) -> MetricValue:
        """The value of the first model that has one."""
        return next(value for value in self.values if value is not None)


def unique_names(results: Sequence[Result]) -> dict[str, Result]:
    """Return results by name; a name that others have before gets a number."""
    named: dict[str, Result] = {}
    for result in results:
        name, copy = result.name, 2
        while name in named:
            name, copy = f"{result.name} ({copy})", copy + 1
        named[name] = result
    return named


def metric_rows(results: Sequence[Result]) -> list[MetricRow]:
    """Return every metric of any of the models, in order."""
    names = list(dict.fromkeys(name for result in results for name in result))
    by_name = [{value.name: value for value in result.entries} for result in results]
    return [MetricRow(name, tuple(values.get(name) for values in by_name)) for name in names]


def skill_rows(rows: Sequence[MetricRow]) -> list[MetricRow]:
    """Return a row with the skill of the models for each metric that has a floor and a ceiling."""
    return [
        MetricRow(f"skill of {row.name}", tuple(map(_to_skill, row.values)), is_skill=True)
        for row in rows
        if any(value is not None and not math.isnan(value.floor) for value in row.values)
    ]


def _to_skill(value: MetricValue | None) -> MetricValue | None:
    """Return the skill as a value of its own, with the same floor and ceiling."""
    if value is None:
        return None
    return MetricValue(
        f"skill of {value.metric}",
        value.k,
        value.skill,
        users=value.users,
        higher_is_better=True,
        floor=value.floor,
        ceiling=value.ceiling,
    )
