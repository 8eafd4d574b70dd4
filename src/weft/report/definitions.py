"""Descriptions of metrics for the terminal and the docs, derived from the registry, the docstrings
and the profiles.
"""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from weft.errors import InputError, SettingError, UnknownMetric
from weft.evaluation.api import evaluate
from weft.evaluation.result import Result
from weft.metrics.aliases import aliased_metrics
from weft.metrics.base.metric import BaseMetric
from weft.metrics.declarations import metric_parameters, own_parameters, takes_cutoff
from weft.metrics.names import MetricSpec, format_labels, parse_name
from weft.metrics.profiles import PROFILES, apply_profile, tool_definitions
from weft.metrics.registry import (
    all_metrics,
    default_spec,
    example_spec,
    find_metric,
    needs_cutoff,
    prototype,
)
from weft.report.context import ReportContext

# An example of four users and twelve items on which the definitions of tools differ visibly, with
# ratings of 1 and with ratings of 1 to 5.
K = 5
LISTS = {"u1": [1, 2, 3, 4, 5], "u2": [1, 2, 3, 4, 5], "u3": [6, 7], "u4": [9, 10, 11, 12, 1]}
LIKED = {"u1": [1], "u2": [1, 3, 5, 6, 7, 8, 9, 10], "u3": [7, 8], "u4": [2, 3]}
RATED = {user: {item: 1 + item % 5 for item in items} for user, items in LIKED.items()}
TRAIN = {"u1": [6, 7, 8], "u2": [11, 12], "u3": [1, 2, 3], "u4": [4, 5, 6, 7, 8]}
REFERENCE = {user: [1, 2, 6, 9, 11] for user in LISTS}  # the lists of another model
GROUPS = {"u1": "F", "u2": "M", "u3": "F", "u4": "M"}
CLUSTERS = {item: "film" if item <= 6 else "series" for item in range(1, 13)}
FEATURES = {item: ["drama", "comedy", "horror"][: item % 3 + 1] for item in range(1, 13)}
SCORES_AND_TRUTH = "scores and truth only"
_SAMPLING_TEXTS = {
    "corrected": "an estimator corrects the value to that among all items",
    "unbiased": "unbiased without a correction",
    "combined": "combines the estimates of its components",
    "candidates": "the value holds for the sampled candidates; there is no estimator",
}


@dataclass(frozen=True)
class MetricDescription:
    """The sections of a metric's docstring."""

    summary: str
    definition: str
    formula: str  # LaTeX
    symbols: str  # of the formula, beyond those of the common notation
    parameters: Mapping[str, str]  # texts by name, without those of base classes
    use: str  # the question that the metric answers, and when another one is better
    edge_cases: str
    example: str  # the explanation of the code
    related: tuple[str, ...]  # names of metrics
    code: str


@dataclass(frozen=True)
class ParameterDescription:
    """A parameter of a metric, or a setting of all metrics."""

    name: str
    default: str  # as in Python; "" if the parameter is required
    text: str  # "" without a description


_SECTIONS = ("Formula", "Symbols", "Use", "Related", "Edge cases", "Example")
_PARAMETERS = "Parameters:\n"
_ENTRY = re.compile(r"^(?=\w[\w, ]*: )", re.M)
_REFERENCE = re.compile(r"As in (\w+)\.")


def describe(metric: type[BaseMetric]) -> MetricDescription:
    """Split the docstring of a metric: a summary, further paragraphs, "Formula: ...",
    "Symbols: ...", "Parameters:" with an entry for each parameter, "Use: ...", "Related: ...",
    "Edge cases: ...", "Example: ..." and the code of the example.
    """
    text, _, code = inspect.cleandoc(vars(metric).get("__doc__") or "").partition("\n>>> ")
    sections = dict.fromkeys(_SECTIONS, "")
    parameters: dict[str, str] = {}
    plain = []
    for block in text.split("\n\n"):
        paragraph = " ".join(block.split())
        title, _, content = paragraph.partition(": ")
        if block.startswith(_PARAMETERS):
            parameters |= _read_entries(block.removeprefix(_PARAMETERS))
        elif title in sections:
            sections[title] = content
        else:
            plain.append(paragraph)
    return MetricDescription(
        plain[0],
        "\n\n".join(plain[1:]),
        formula=sections["Formula"],
        symbols=_capitalize(sections["Symbols"]),
        parameters=parameters,
        use=_capitalize(sections["Use"]),
        edge_cases=_capitalize(sections["Edge cases"]),
        example=_capitalize(sections["Example"]),
        related=tuple(name for name in sections["Related"].removesuffix(".").split(", ") if name),
        code=f">>> {code}" if code else "",
    )


def _read_entries(lines: str) -> dict[str, str]:
    """Return the texts of parameters from lines `name: text` or `name, name: text`.

    Further lines of an entry are indented."""
    entries: dict[str, str] = {}
    for entry in filter(None, _ENTRY.split(textwrap.dedent(lines))):
        names, _, text = " ".join(entry.split()).partition(": ")
        entries |= dict.fromkeys(names.split(", "), text)
    return entries


def describe_parameters(metric: type[BaseMetric]) -> list[ParameterDescription]:
    """Return the parameters that a name of the metric can set, except `relevance_threshold`."""
    return _describe(metric, metric_parameters(metric))


def describe_settings() -> list[ParameterDescription]:
    """Return the settings that all metrics have."""
    parameters = own_parameters(BaseMetric)
    return _describe(
        BaseMetric, {name: parameters[name] for name in describe(BaseMetric).parameters}
    )


def _describe(
    metric: type[BaseMetric], parameters: Mapping[str, inspect.Parameter]
) -> list[ParameterDescription]:
    texts = parameter_texts(metric)
    return [
        ParameterDescription(
            name, _format_default(one.default), _resolve(name, texts.get(name, ""))
        )
        for name, one in parameters.items()
    ]


def parameter_texts(metric: type[BaseMetric]) -> dict[str, str]:
    """Return the texts of parameters in the docstrings of a metric and, for parameters that it
    does not describe, of its base classes.
    """
    texts: dict[str, str] = {}
    for base in metric.__mro__:
        if issubclass(base, BaseMetric):
            texts = {**describe(base).parameters, **texts}
    return texts


def _resolve(name: str, text: str) -> str:
    """Return a text with "As in Recall." replaced by the text of Recall for this parameter."""
    reference = _REFERENCE.match(text)
    if reference is None:
        return text
    other = {metric.__name__: metric for metric in all_metrics()}.get(reference[1])
    shared = "" if other is None else parameter_texts(other).get(name, "")
    return f"{shared}{text.removeprefix(reference[0])}" if shared else text


def _format_default(default: object) -> str:
    """Return a default as in Python, with double quotes as in the texts."""
    if default is inspect.Parameter.empty:
        return ""
    return f'"{default}"' if isinstance(default, str) else repr(default)


def _capitalize(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def search_metrics(text: str) -> list[type[BaseMetric]]:
    """Return the metrics of which a text is an alias, or else those with the text in their
    name or summary.
    """
    known = all_metrics()
    if aliased := aliased_metrics(text, [metric.__name__ for metric in known]):
        return [metric for metric in known if metric.__name__ in aliased]
    name = "".join(text.split())  # "hit rate" is HitRate
    return [
        metric
        for metric in known
        if name.casefold() in metric.__name__.casefold()
        or text.casefold() in f"{metric.__name__} {describe(metric).summary}".casefold()
    ]


def title(metric: type[BaseMetric]) -> str:
    """Return the name, with `@k` if the metric must have a cut-off, `[@k]` if it can have one."""
    if needs_cutoff(metric):
        return f"{metric.__name__}@k"
    return f"{metric.__name__}[@k]" if takes_cutoff(metric) else metric.__name__


def direction(metric: type[BaseMetric]) -> str:
    """Return the direction in which a value is better."""
    if metric.higher_is_better is None:
        return "not stated" if metric.target is None else f"closer to {metric.target:g}"
    fair = "" if metric.target is None else f" ({metric.target:g} is fair)"
    return ("higher" if metric.higher_is_better else "lower") + fair


def value_range(metric: BaseMetric | type[BaseMetric]) -> str:
    """Return the range of values."""
    low, high = metric.bounds
    return f"{'-∞' if low is None else f'{low:g}'} to {'∞' if high is None else f'{high:g}'}"


def needed_inputs(metric: type[BaseMetric]) -> list[str]:
    """Return the inputs of a run that the metric needs, without sizes, which every run knows."""
    return missing_inputs(metric, frozenset())


def describe_inputs(metric: type[BaseMetric], write: Callable[[str], str] = str) -> str:
    """Return the needed inputs as text, each as `write` shows it; empty if there are none."""
    names = metric_parameters(metric).get("metric_names")
    if names is not None and names.default is inspect.Parameter.empty:
        return "the inputs of its metrics"
    return ", ".join(map(write, needed_inputs(metric)))


def missing_inputs(metric: type[BaseMetric], given: Set[str]) -> list[str]:
    """Return the inputs that a run with the `given` ones lacks for the metric, without sizes."""
    built = prototype(default_spec(metric))
    missing = built.missing_inputs(given)
    return [name for name in built.declared_inputs() if name in missing]


def sampling_text(metric: type[BaseMetric]) -> str:
    """Return how a value among sampled negatives relates to the value among all items."""
    return _SAMPLING_TEXTS[prototype(example_spec(metric)).sampling_behaviour]


def list_facts(metric: type[BaseMetric]) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of the properties of a metric."""
    yield "family", metric.family
    yield "better", direction(metric)
    yield "range", value_range(metric)
    yield "needs", describe_inputs(metric) or SCORES_AND_TRUTH
    yield "sampled", sampling_text(metric)
    if related := describe(metric).related:
        yield "related", ", ".join(related)
    if metric.reference:
        yield "reference", metric.reference


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


def metric_definitions(context: ReportContext) -> list[MetricDefinition]:
    """Return the definition of each metric of a report, once for all its cut-offs and labels."""
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
    words = describe(metric)
    set_parameters = dict(spec.params)
    parameters = [(key, _format_parameter(value)) for key, value in set_parameters.items()]
    for parameter in metric_parameters(metric).values():
        has_default = parameter.default is not inspect.Parameter.empty
        if parameter.name not in set_parameters and has_default:
            parameters.append((parameter.name, f"{_format_parameter(parameter.default)} (default)"))
    texts = [f"`{one.name}`: {one.text}" for one in describe_parameters(metric) if one.text]
    return MetricDefinition(
        name,
        words.summary,
        "\n\n".join(part for part in (words.definition, *texts, words.edge_cases) if part),
        direction(metric),
        value_range(metric),
        tuple(parameters),
        metric.reference,
    )


def _format_parameter(value: Any) -> str:
    """Return a value as the names of metrics spell it."""
    return str(MetricSpec("", (("", value),)))[2:-1]


@dataclass(frozen=True)
class ToolDefinition:
    """A metric as one tool defines it, with its value on the example, or why it is excluded."""

    tool: str
    name: str
    binary: str = ""  # the value if every rating is 1
    graded: str = ""  # the value with ratings of 1 to 5
    reason: str = ""


def compare_definitions(metric: type[BaseMetric]) -> list[ToolDefinition]:
    """Return the metric on the example under the definition of each tool, Weft's own first."""
    own = example_spec(metric)
    rows = [ToolDefinition("weft", str(own), *_evaluate_example(own, None))]
    for tool, definition in tool_definitions(metric.__name__).items():
        if isinstance(definition, MetricSpec):
            tool_parameters = dict(definition.params)  # take precedence over those of the example
            shared = tuple(item for item in own.params if item[0] not in tool_parameters)
            spec = prototype(apply_profile(replace(own, params=shared), PROFILES[tool])).spec
            rows.append(ToolDefinition(tool, str(spec), *_evaluate_example(spec, tool)))
        else:
            rows.append(ToolDefinition(tool, "", reason=definition))
    return rows


@cache
def _evaluate_example(spec: MetricSpec, tool: str | None) -> tuple[str, str]:
    """Return the values of a metric on the example, with ratings of 1 and of 1 to 5, as text.

    A value is "error" if ratings are higher than the definition accepts."""
    import torch

    users, items = list(LISTS), list(CLUSTERS)
    scores = torch.full((len(users), len(items)), -math.inf, dtype=torch.float64)
    for row, recommended in enumerate(LISTS.values()):
        for position, item in enumerate(recommended):
            scores[row, item - 1] = (5 - position) / 5
    inputs: dict[str, Any] = {
        "user_groups": GROUPS,
        "item_clusters": CLUSTERS,
        "item_features": FEATURES,
        "train": TRAIN,
        "inputs": {"reference": REFERENCE},
        "users": users,
        "items": items,
        "mask_seen": False,
        "profile": tool,
    }

    def evaluate_truth(truth: Any) -> str:
        try:
            return _format_values(evaluate(scores, truth, metrics=[spec], **inputs))
        except InputError:
            return "error"

    return evaluate_truth(LIKED), evaluate_truth(RATED)


def _format_values(result: Result) -> str:
    if not result.entries[0].cell:
        return f"{result.entries[0].value:.4f}"
    return ", ".join(
        f"{format_labels(value.cell)[1:-1]}: {value.value:.4f}" for value in result.entries
    )


def differing_parameters(rows: Sequence[ToolDefinition]) -> dict[str, dict[str, list[str]]]:
    """Return the tools by parameter and value, where parameters differ from Weft's defaults.

    Parameters without a default are compared with those of the example.
    `rows` are those of `compare_definitions`. An example is
    `{"normalizer": {"relevant": ["trec_eval", "ranx"]}}`."""
    example = parse_name(rows[0].name)
    parameters = metric_parameters(find_metric(example.name))
    defaults = {key: one.default for key, one in parameters.items()}
    required = {key for key, default in defaults.items() if default is inspect.Parameter.empty}
    own = defaults | {key: value for key, value in example.params if key in required}
    tools: dict[str, dict[str, list[str]]] = {}
    for row in rows[1:]:
        for parameter, value in parse_name(row.name).params if row.name else ():
            if own.get(parameter) != value:
                by_value = tools.setdefault(parameter, {})
                by_value.setdefault(_format_parameter(value), []).append(row.tool)
    return tools


def profile_tools() -> list[str]:
    """Return the tools that have a profile."""
    return list(PROFILES)
