"""The name of a metric object, the comparison of two metrics that are merged, and the check for
metrics inside a metric.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

from torch import nn
from torchmetrics.metric import Metric as TorchMetric

from weft.errors import SettingError
from weft.metrics.declarations import metric_parameters
from weft.metrics.names import MetricSpec, as_value

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
    if metric.own_threshold is not None:
        threshold = metric.own_threshold
        value = int(threshold) if threshold.is_integer() else threshold
        params.append(("relevance_threshold", as_value(value)))
    return MetricSpec(type(metric).__name__, tuple(params), metric.k)


def own_threshold_hint(metric: BaseMetric, setting: str) -> str:
    """Return how a metric gets a relevance threshold of its own, for messages on that setting."""
    if setting != "relevance_threshold" or not metric.supports_own_threshold:
        return ""
    return ", or set the threshold of this metric alone, such as 'nDCG(relevance_threshold=4)@10'"


def build_state_name(metric: BaseMetric) -> str:
    """Return a name from class, parameters, settings and, unless they are shared, inputs."""
    named = {} if metric._is_shared else metric.own_inputs()
    inputs = " ".join(value.fingerprint() for value in named.values())
    module = type(metric).__module__
    if module.startswith("weft.metrics."):  # by family, so that a metric may change its module
        module = f"weft.metrics.{metric.family.replace('-', '')}"
    name = f"{module} {type(metric).__qualname__} {metric._definition}"
    description = f"of {name} {metric.spec.definition} {metric.settings()} {inputs}"
    return re.sub(r"\W+", "_", description).rstrip("_")


def check_same_metric(metric: BaseMetric, other: BaseMetric) -> None:
    """Raise `SettingError` unless both have the same class, parameters, settings and inputs."""
    own, others = ((type(one), one.spec, one.settings()) for one in (metric, other))
    if own != others:
        raise SettingError(
            f"{metric.spec} cannot be merged with {other.spec}; expected the same metric with the "
            "same settings."
        )
    other_inputs = other.own_inputs()
    for name, value in metric.own_inputs().items():
        if name not in other_inputs or not value.equals(other_inputs[name]):
            raise SettingError(
                f"{metric.spec} cannot be merged with a metric that was made with a different "
                f"{name}; expected the same inputs."
            )


def check_no_children(metric: BaseMetric) -> None:
    """Raise `SettingError` for an author's metric that keeps other metrics in its attributes."""
    attributes = {**vars(metric), **metric._modules}
    del attributes["_modules"]
    for name, value in attributes.items():
        for child in _find_metrics(value):
            raise SettingError(
                f"{metric.spec} has a metric of the class {type(child).__name__} in self.{name}, "
                "which a run does not reset, merge or synchronize. Combine the values of metrics "
                "with weft.Composite instead."
            )


def _find_metrics(value: Any) -> Iterator[TorchMetric]:
    """Yield the metrics in an attribute, also those in lists, dicts and modules."""
    if isinstance(value, nn.Module):
        yield from (one for one in value.modules() if isinstance(one, TorchMetric))
    elif isinstance(value, Mapping):
        yield from _find_metrics(list(value.values()))
    elif isinstance(value, (list, tuple, Set)):
        for one in value:
            yield from _find_metrics(one)
