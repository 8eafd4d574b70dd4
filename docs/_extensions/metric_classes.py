"""The classes of `weft.metrics` by family, each with its parameters and a link to its page."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from weft.metrics.base.metric import BaseMetric
from weft.metrics.declarations import metric_parameters, needs_cutoff, takes_cutoff
from weft.metrics.registry import FAMILIES, built_in_metrics
from weft.report import definitions


def render() -> str:
    """Return an entry for each metric as MyST Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for family in FAMILIES:
        yield from (f"## {family.capitalize()}", "")
        for metric in built_in_metrics():
            if metric.family == family:
                name = metric.__name__
                yield f"```{{py:class}} weft.metrics.{name}{_signature(metric)}"
                yield definitions.describe(metric).summary
                yield from (f"See [{definitions.title(metric)}](../../metrics/{name}.md).", "")
                yield from (
                    f":param {one.name}: {one.text}"
                    for one in definitions.describe_parameters(metric)
                )
                yield "```"
        yield ""


def _signature(metric: type[BaseMetric]) -> str:
    """Return the parameters of a metric, without the settings that all metrics share."""
    parameters = metric_parameters(metric)
    keywords = [f"{name}{_default(one)}" for name, one in parameters.items()]
    keywords += [f"{name}{'' if kind.required else '=None'}" for name, kind in metric.needs.items()]
    first = ["k" if needs_cutoff(metric) else "k=None"] if takes_cutoff(metric) else []
    return f"({', '.join([*first, '*', *keywords, '**settings'])})"


def _default(parameter: inspect.Parameter) -> str:
    return "" if parameter.default is parameter.empty else f"={parameter.default!r}"
