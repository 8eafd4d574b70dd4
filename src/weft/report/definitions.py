"""What a metric is, in words: for the terminal and for the docs, all of it taken from the registry
and the profiles.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from weft.evaluation.api import evaluate
from weft.evaluation.result import Result
from weft.metrics.base.metric import BaseMetric
from weft.metrics.names import MetricSpec, format_labels
from weft.metrics.profiles import PROFILES, apply_profile, tool_definitions
from weft.metrics.registry import (
    RUN_INPUTS,
    example_spec,
    metric_parameters,
    needs_cutoff,
    prototype,
)

# Four users and twelve items on which definitions of other tools differ visibly: with ratings of 1,
# and with ratings of 1 to 5.
K = 5
LISTS = {"u1": [1, 2, 3, 4, 5], "u2": [1, 2, 3, 4, 5], "u3": [6, 7], "u4": [9, 10, 11, 12, 1]}
LIKED = {"u1": [1], "u2": [1, 3, 5, 6, 7, 8, 9, 10], "u3": [7, 8], "u4": [2, 3]}
RATED = {user: {item: 1 + item % 5 for item in items} for user, items in LIKED.items()}
TRAIN = {"u1": [6, 7, 8], "u2": [11, 12], "u3": [1, 2, 3], "u4": [4, 5, 6, 7, 8]}
GROUPS = {"u1": "F", "u2": "M", "u3": "F", "u4": "M"}
CLUSTERS = {item: "film" if item <= 6 else "series" for item in range(1, 13)}
FEATURES = {item: ["drama", "comedy", "horror"][: item % 3 + 1] for item in range(1, 13)}
_UNDER_SAMPLING = {
    "corrected": "estimator= estimates the value among all items",
    "unbiased": "unbiased as it is",
    "combined": "combines the estimates of its parts",
    "candidates": "the value is of the candidates; there is no estimator",
}


@dataclass(frozen=True)
class Words:
    """A metric's docstring, taken apart."""

    summary: str
    definition: str
    edge_cases: str
    example: str  # what is to be seen
    code: str  # and the code that shows it


def words(metric: type[BaseMetric]) -> Words:
    """The parts of a docstring: a summary, further paragraphs, "Edge cases: ...", "Example: ..."
    and the example's code.
    """
    text = inspect.cleandoc(metric.__doc__ or "")
    text, _, code = text.partition("\n>>> ")
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    named = {"Edge cases: ": "", "Example: ": ""}
    plain = []
    for paragraph in paragraphs:
        start = next((start for start in named if paragraph.startswith(start)), None)
        if start is None:
            plain.append(paragraph)
        else:
            named[start] = (
                paragraph.removeprefix(start)[:1].upper() + paragraph.removeprefix(start)[1:]
            )
    return Words(
        plain[0],
        "\n\n".join(plain[1:]),
        named["Edge cases: "],
        named["Example: "],
        f">>> {code}" if code else "",
    )


def title(metric: type[BaseMetric]) -> str:
    """The name, with `@k` if it depends on a cut-off."""
    return f"{metric.__name__}@k" if needs_cutoff(metric) else metric.__name__


def better(metric: type[BaseMetric]) -> str:
    """In which direction a value is better."""
    if metric.higher_is_better is None:
        return "not stated" if metric.target is None else f"closer to {metric.target:g}"
    return ("higher" if metric.higher_is_better else "lower") + (
        "" if metric.target is None else f" ({metric.target:g} is fair)"
    )


def value_range(metric: BaseMetric | type[BaseMetric]) -> str:
    """The range of values, in words."""
    low, high = metric.bounds
    return f"{'-∞' if low is None else f'{low:g}'} to {'∞' if high is None else f'{high:g}'}"


def needs(metric: type[BaseMetric]) -> list[str]:
    """The inputs of a run that the metric asks for; sizes, which every run knows, are no matter."""
    wanted = prototype(example_spec(metric)).needed_inputs()
    return [name for name in RUN_INPUTS if name in wanted and not name.startswith("num_")]


def sampling_behaviour(metric: type[BaseMetric]) -> str:
    """What a value among sampled negatives says of the value among all items."""
    return _UNDER_SAMPLING[prototype(example_spec(metric)).sampling_behaviour]


def facts(metric: type[BaseMetric]) -> Iterator[tuple[str, str]]:
    """What is known of a metric beside its words."""
    for parameter in metric_parameters(metric).values():
        default = (
            "must be given"
            if parameter.default is inspect.Parameter.empty
            else f"= {parameter.default!r}"
        )
        yield "parameter", f"{parameter.name} {default}"
    yield "family", metric.family
    yield "better", better(metric)
    yield "range", value_range(metric)
    yield "needs", ", ".join(needs(metric)) or "scores and truth only"
    yield "sampled", sampling_behaviour(metric)
    if metric.reference:
        yield "reference", metric.reference


@dataclass(frozen=True)
class Definition:
    """A metric as one tool defines it, with its value on the example; or why the tool's number
    cannot be had.
    """

    tool: str
    name: str
    binary: str = ""  # the value where every rating is 1
    graded: str = ""  # and where ratings are 1 to 5
    reason: str = ""


def side_by_side(metric: type[BaseMetric]) -> list[Definition]:
    """The metric on the same four lists under every tool's definition, Weft's own first."""
    own = example_spec(metric)
    found = [Definition("weft", str(own), *_on_example(own, None))]
    for tool, definition in tool_definitions(metric.__name__).items():
        if isinstance(definition, MetricSpec):
            spec = prototype(apply_profile(own, PROFILES[tool])).spec
            found.append(Definition(tool, str(spec), *_on_example(spec, tool)))
        else:
            found.append(Definition(tool, "", reason=definition))
    return found


@cache
def _on_example(spec: MetricSpec, tool: str | None) -> tuple[str, str]:
    import torch

    users, items = list(LISTS), list(CLUSTERS)
    scores = torch.full((len(users), len(items)), -math.inf, dtype=torch.float64)
    for row, listed in enumerate(LISTS.values()):
        for position, item in enumerate(listed):
            scores[row, item - 1] = (5 - position) / 5
    inputs: dict[str, Any] = {
        "user_groups": GROUPS,
        "item_clusters": CLUSTERS,
        "item_features": FEATURES,
        "train": TRAIN,
    }
    inputs |= {"users": users, "items": items, "mask_seen": False, "profile": tool}
    binary, graded = (
        _shown(evaluate(scores, truth, metrics=[spec], **inputs)) for truth in (LIKED, RATED)
    )
    return binary, graded


def _shown(result: Result) -> str:
    if not result.values[0].cell:
        return f"{result.values[0].value:.4f}"
    return ", ".join(
        f"{format_labels(value.cell)[1:-1]}: {value.value:.4f}" for value in result.values
    )


def tools() -> list[str]:
    """The tools that have a profile."""
    return list(PROFILES)
