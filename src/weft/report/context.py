"""The data of a report: models with their results, their comparison, and the headline metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from weft.errors import SettingError, UnknownMetric, describe_type
from weft.evaluation.result import Result
from weft.metrics.names import parse_name, split_labels
from weft.metrics.registry import find_metric
from weft.statistics import Comparison
from weft.statistics.comparison_text import row_metric
from weft.statistics.metric_rows import MetricRow, metric_rows

USUAL_CUTOFF = 10  # the cut-off that is shown first


@dataclass(frozen=True, eq=False)
class ReportContext:
    """Results by model name, in order, and their comparison, if the models were compared.

    `warnings` concern the run as a whole, such as the reason why models could not be compared.
    """

    results: Mapping[str, Result]
    comparison: Comparison | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_result(cls, result: Any) -> ReportContext:
        """Return the context of a `Result` or a `Comparison`. Raises `SettingError` for others."""
        if isinstance(result, Comparison):
            return cls(result.results, result)
        if isinstance(result, Result):
            return cls({result.name: result})
        raise SettingError(
            f"a report is about a Result or a Comparison; got {describe_type(result)}."
        )

    @property
    def models(self) -> list[str]:
        """The names of the models, in order."""
        return list(self.results)

    @cached_property
    def tests(self) -> dict[str, str]:
        """The test that the report shows of each compared metric: the first one."""
        tests: dict[str, str] = {}
        for row in () if self.comparison is None else self.comparison.rows:
            tests.setdefault(row_metric(row), row["test"])
        return tests

    @cached_property
    def metric_rows(self) -> list[MetricRow]:
        """Every metric at its cut-off, with the values of all models."""
        return metric_rows([*self.results.values()])

    @cached_property
    def headlines(self) -> list[str]:
        """The headline metrics: the first one of each family with a direction.

        At cut-off 10 if it is there, else at the first cut-off.
        """
        headlines: dict[str, str] = {}
        metrics: dict[str, str] = {}
        for row in self.metric_rows:
            value = row.any_value
            is_defined = any(one is not None and not math.isnan(one.value) for one in row.values)
            if value.cell or value.merit is None or not is_defined:
                continue
            family = metric_family(row.name)
            if metrics.setdefault(family, value.metric) != value.metric:
                continue
            if family not in headlines or value.k == USUAL_CUTOFF:
                headlines[family] = row.name
        return list(headlines.values())


def metric_family(name: str) -> str:
    """Return the family of a metric by its full name, "other" if it is not registered here."""
    try:
        return find_metric(parse_name(split_labels(name)[0]).name).family
    except (UnknownMetric, SettingError):
        return "other"
