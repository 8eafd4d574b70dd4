"""The name of a metric object, and the comparison of two metrics that are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.errors import SettingError
from weft.metrics.names import MetricSpec, as_value
from weft.metrics.registry import metric_parameters

if TYPE_CHECKING:
    from weft.metrics.base.metric import BaseMetric


def build_spec(metric: BaseMetric) -> MetricSpec:
    """Return the name, the parameters that differ from their defaults, and the cut-off."""
    params = []
    for name, parameter in metric_parameters(type(metric)).items():
        given = metric.parameter(name)
        if given is parameter.default:
            continue
        value = as_value(given)
        if value != as_value(parameter.default):
            params.append((name, value))
    return MetricSpec(type(metric).__name__, tuple(params), metric.k)


def check_same_metric(metric: BaseMetric, other: BaseMetric) -> None:
    """Raise `SettingError` unless both have the same class, parameters, settings and inputs."""
    own, others = ((type(one), one.spec, one.settings()) for one in (metric, other))
    if own != others:
        raise SettingError(
            f"{metric.spec} cannot absorb {other.spec}: the two are not the same metric with the "
            "same settings."
        )
    other_inputs = other.own_inputs()
    for name, value in metric.own_inputs().items():
        if not value.equals(other_inputs[name]):
            raise SettingError(
                f"{metric.spec} cannot absorb a metric that was made with another {name}."
            )
