"""What a report is about: the models with their results, how they compare, and which of many
metrics stand first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from weft.errors import SettingError, UnknownMetric
from weft.evaluation.result import Result
from weft.metrics.names import parse_name, split_labels
from weft.metrics.registry import find_metric
from weft.report.tables import Line, lines
from weft.statistics import Comparison

USUAL_CUTOFF = 10  # is shown first


@dataclass(frozen=True, eq=False)
class Subject:
    """Results by the names of their models, in order; `comparison`, where the models were compared
    user by user.

    `warnings`: what was said of the run as a whole, such as why the models could not be compared.
    """

    results: Mapping[str, Result]
    comparison: Comparison | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, shown: Any) -> Subject:
        """What a result or a comparison is about."""
        if isinstance(shown, Comparison):
            return cls(shown.results, shown)
        if isinstance(shown, Result):
            return cls({shown.name: shown})
        raise SettingError(
            f"a report is about a Result or a Comparison; got a {type(shown).__name__}."
        )

    @property
    def models(self) -> list[str]:
        """The names of the models, in order."""
        return list(self.results)

    @property
    def test(self) -> str | None:
        """The test whose outcome is shown: the first one."""
        return self.comparison.tests[0] if self.comparison is not None else None

    @cached_property
    def lines(self) -> list[Line]:
        """Every metric at its cut-off, with the values of all models."""
        return lines([*self.results.values()])

    @cached_property
    def headlines(self) -> list[str]:
        """The metrics that stand first: of each family the first one that has a direction, at
        cut-off 10 if there is one.
        """
        found: dict[str, str] = {}
        metrics: dict[str, str] = {}
        for line in self.lines:
            value = next(value for value in line.values if value is not None)
            if (
                value.cell
                or value.merit is None
                or all(one is None or math.isnan(one.value) for one in line.values)
            ):
                continue
            family = family_of(line.name)
            if metrics.setdefault(family, value.metric) == value.metric and (
                family not in found or value.k == USUAL_CUTOFF
            ):
                found[family] = line.name
        return list(found.values())

    def leader(self, name: str) -> str | None:
        """The best model on a metric, in its own direction; the first one of equals. None if no
        value is better than another.
        """
        merits = {}
        for model, result in self.results.items():
            merit = result.entry(name).merit if name in result else None
            if merit is not None and not math.isnan(merit):
                merits[model] = merit
        return max(merits, key=lambda model: merits[model]) if merits else None


def family_of(name: str) -> str:
    """The family of a metric, by its name; that of metrics that are not registered here is "other"."""
    try:
        return find_metric(parse_name(split_labels(name)[0]).name).family
    except (UnknownMetric, SettingError):
        return "other"
