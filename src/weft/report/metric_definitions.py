"""Definitions of the metrics of a report, with the parameters that the run used."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from weft.errors import SettingError, UnknownMetric
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import find_metric, metric_parameters
from weft.report import definitions as known
from weft.report.context import ReportContext


@dataclass(frozen=True)
class MetricDefinition:
    """The definition of a metric; only the name is known if it is not registered here."""

    name: str  # without a cut-off: nDCG(gain=linear)
    summary: str
    definition: str = ""  # paragraphs
    better: str = ""
    range: str = ""
    parameters: tuple[tuple[str, str], ...] = ()  # with "(default)" after values that were not set
    reference: str = ""


def definitions(context: ReportContext) -> list[MetricDefinition]:
    """Return the definition of each metric, once for all its cut-offs and labels."""
    names = dict.fromkeys(
        value.metric for row in context.metric_rows for value in row.values if value is not None
    )
    return [_define(name) for name in names]


def _define(name: str) -> MetricDefinition:
    try:
        spec = parse_name(name)
        metric = find_metric(spec.name)
    except (UnknownMetric, SettingError):
        return MetricDefinition(name, "not known here")
    words = known.describe(metric)
    set_parameters = dict(spec.params)
    parameters = [(key, _format_parameter(value)) for key, value in set_parameters.items()]
    for parameter in metric_parameters(metric).values():
        has_default = parameter.default is not inspect.Parameter.empty
        if parameter.name not in set_parameters and has_default:
            parameters.append((parameter.name, f"{_format_parameter(parameter.default)} (default)"))
    return MetricDefinition(
        name,
        words.summary,
        "\n\n".join(part for part in (words.definition, words.edge_cases) if part),
        known.direction(metric),
        known.value_range(metric),
        tuple(parameters),
        metric.reference,
    )


def _format_parameter(value: Any) -> str:
    """Return a value as the names of metrics spell it."""
    return str(MetricSpec("", (("", value),)))[2:-1]
