"""Names to metrics and back. A metric is known by its class name, in any case."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from collections.abc import Iterable, Mapping, Set
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from weft.data import NO_FEATURES, NO_LABELS, NO_TRAIN
from weft.errors import (
    InputError,
    MissingInput,
    SettingError,
    UnknownMetric,
    UnknownParameter,
    did_you_mean,
)
from weft.metrics.names import MetricSpec, parse_name

if TYPE_CHECKING:
    from weft.metrics.base.metric import BaseMetric

    MetricClass = TypeVar("MetricClass", bound=type[BaseMetric])

_classes: dict[str, type[BaseMetric]] = {}

FAMILIES = (
    "accuracy",
    "rating",
    "coverage",
    "novelty",
    "diversity",
    "bias",
    "fairness",
    "multi-objective",
)

# What a run tells a metric that asks for it in its constructor, rather than what a user sets: what
# it is, how to give it.
RUN_INPUTS = {
    "num_users": ("the number of users", "num_users="),
    "num_items": ("the number of items of the catalogue", "num_items="),
    "train": (
        "the train interactions",
        "train= (a frame, a matrix or {user: [items]}; --train FILE on the command line)",
    ),
    "user_groups": (
        "a label per user",
        "user_groups= ({user: label} or a frame; --user-groups FILE on the command line)",
    ),
    "item_clusters": (
        "a label per item",
        "item_clusters= ({item: label} or a frame; --item-clusters FILE on the command line)",
    ),
    "item_features": (
        "the features of each item",
        "item_features= ({item: [features]} or a frame; --item-features FILE on the command line)",
    ),
}
# How a metric counts: the same for all metrics of a run, and so no part of a name.
METRIC_SETTINGS = ("relevance_threshold", "ties", "seed", "empty_users")


def register(metric: MetricClass) -> MetricClass:
    """Make a metric known by its class name: a class decorator.

    Defining the same class again, as a notebook does, replaces it; taking another metric's name is
    an error."""
    if not is_metric_class(metric):
        raise SettingError(
            f"{metric!r} is not a metric; register a class derived from weft.BaseMetric."
        )
    name = metric.__name__
    known = _classes.get(name.casefold())
    if known is not None and (known.__module__, known.__qualname__) != (
        metric.__module__,
        metric.__qualname__,
    ):
        raise SettingError(
            f"a metric named {known.__name__!r} is registered already, by {known.__module__}; "
            "choose another class name."
        )
    _classes[name.casefold()] = metric
    canonical_name.cache_clear()
    return metric


def is_metric_class(given: object) -> bool:
    """Whether this is a class of metrics."""
    return isinstance(given, type) and hasattr(given, "parameter_aliases")


@cache
def _load() -> None:
    """Import the built-in metrics and those that installed packages announce under the entry point
    `weft.metrics`.
    """
    importlib.import_module("weft.metrics").load_all()
    for plugin in importlib.metadata.entry_points(group="weft.metrics"):
        try:
            announced = plugin.load()
        except Exception as error:
            raise InputError(
                f"the metrics that a package announces as {plugin.name!r} ({plugin.value}) cannot "
                f"be loaded: {error}. "
                "Repair or uninstall that package."
            ) from error
        if is_metric_class(announced):
            register(announced)


def all_metrics() -> list[type[BaseMetric]]:
    """Every registered metric, by family and name; families that are not Weft's own come last."""
    _load()

    def order(metric: type[BaseMetric]) -> tuple[int, str, str]:
        place = FAMILIES.index(metric.family) if metric.family in FAMILIES else len(FAMILIES)
        return place, metric.family, metric.__name__.casefold()

    return sorted(_classes.values(), key=order)


def find_metric(name: str) -> type[BaseMetric]:
    """The metric of this name."""
    _load()
    metric = _classes.get(name.casefold())
    if metric is None:
        known = [metric.__name__ for metric in all_metrics()]
        raise UnknownMetric(
            f"there is no metric named {name!r}.{did_you_mean(name, known)} Known metrics: "
            f"{', '.join(known)}. "
            "A metric of your own joins with @weft.register."
        )
    return metric


@cache
def _signature(metric: type[BaseMetric]) -> dict[str, inspect.Parameter]:
    # Of the constructor itself: the metaclass's __call__ hides it from inspect.signature(metric).
    return dict(list(inspect.signature(metric.__init__).parameters.items())[1:])


def metric_parameters(metric: type[BaseMetric]) -> dict[str, inspect.Parameter]:
    """What a user can set on a metric beside its cut-off, in the order of its constructor."""
    starred = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {
        name: parameter
        for name, parameter in _signature(metric).items()
        if name not in ("k", "inputs", *RUN_INPUTS, *METRIC_SETTINGS)
        and parameter.kind not in starred
    }


def needs_cutoff(metric: str | type[BaseMetric]) -> bool:
    """Whether the metric depends on a cut-off."""
    return "k" in _signature(find_metric(metric) if isinstance(metric, str) else metric)


def required_inputs(metric: type[BaseMetric]) -> set[str]:
    """The inputs of a run that the constructor insists on."""
    wanted = {
        name: parameter for name, parameter in _signature(metric).items() if name in RUN_INPUTS
    }
    return {
        name for name, parameter in wanted.items() if parameter.default is inspect.Parameter.empty
    }


def build_metric(
    spec: MetricSpec,
    *,
    metric_class: type[BaseMetric] | None = None,
    inputs: Mapping[str, Any] | None = None,
    standalone: bool = True,
    **settings: Any,
) -> BaseMetric:
    """The metric that a name means: of the registered class, or the given one.

    `inputs` are the run's, `settings` how it counts. A metric that is not `standalone` has no states:
    something else adds up for it."""
    inputs = inputs or {}
    metric = metric_class or find_metric(spec.name)
    known = metric_parameters(metric)
    folded = {name.casefold(): name for name in known} | metric.parameter_aliases
    given: dict[str, Any] = {}
    for name, value in spec.params:
        real = folded.get(name.casefold())
        if real is None:
            offers = f"Its parameters: {', '.join(known)}." if known else "It has no parameters."
            raise UnknownParameter(
                f"{metric.__name__} has no parameter {name!r}.{did_you_mean(name, folded)} {offers}"
            )
        if real in given:
            raise SettingError(f"{spec} gives the parameter {real!r} twice; keep one.")
        given[real] = value
    if needs_cutoff(metric):
        if spec.k is None:
            raise SettingError(f"{spec} needs a cut-off: write '{spec}@10', or give top_k.")
        given["k"] = spec.k
    elif spec.k is not None:
        raise SettingError(
            f"{metric.__name__} does not depend on a cut-off: write '{spec.with_cutoff(None)}' without "
            f"'@{spec.k}'."
        )
    unset = [
        name
        for name, parameter in known.items()
        if parameter.default is inspect.Parameter.empty and name not in given
    ]
    if unset:
        example = (
            metric.example or f"{metric.__name__}({', '.join(f'{name}=...' for name in unset)})"
        )
        raise SettingError(f"{spec} needs {' and '.join(unset)}: write for example '{example}'.")
    if lacking := required_inputs(metric) - inputs.keys():
        raise missing_input_error({str(spec): lacking})
    given |= {
        name: inputs[name] for name in RUN_INPUTS if name in inputs and name in _signature(metric)
    }
    if "inputs" in _signature(metric):  # a composite, which hands them on
        given["inputs"] = inputs
    if not standalone:
        given["standalone"] = False
    try:
        return metric(**given, **settings)
    except SettingError as error:
        if metric.__name__ in str(error):
            raise
        raise type(error)(
            f"{metric.__name__}: {error}"
        ) from None  # which of the many that were asked for


def missing_input_error(lacking: Mapping[str, Set[str]]) -> MissingInput:
    """The error that says which metrics need which inputs, and how to give them."""
    by_input: dict[str, list[str]] = {}
    for metric, names in lacking.items():
        for name in sorted(names):
            by_input.setdefault(name, []).append(metric)
    lines = []
    for name, metrics in by_input.items():
        what, how = RUN_INPUTS[name]
        lines.append(
            f"{', '.join(metrics)} {'need' if len(metrics) > 1 else 'needs'} {name}, {what}; give "
            f"{how}."
        )
    return MissingInput("\n".join(lines))


_prototypes: dict[tuple[str, type[BaseMetric]], BaseMetric] = {}
# Stand-ins for what only a run knows, where a metric is made for its name alone.
_ANY_RUN = {
    "num_users": 1,
    "num_items": 1,
    "train": NO_TRAIN,
    "user_groups": NO_LABELS,
    "item_clusters": NO_LABELS,
    "item_features": NO_FEATURES,
}


def prototype(spec: MetricSpec, metric_class: type[BaseMetric] | None = None) -> BaseMetric:
    """A metric made for its name alone, once: making one takes longer than evaluating a user."""
    metric = metric_class or find_metric(spec.name)
    key = (repr(spec), metric)  # not the spec, in which 1, 1.0 and True are equal
    if key not in _prototypes:
        _prototypes[key] = build_metric(
            spec, metric_class=metric, inputs=_ANY_RUN, standalone=False
        )
    return _prototypes[key]


def example_spec(metric: type[BaseMetric], k: int = 5) -> MetricSpec:
    """A metric with the parameters that it cannot do without, and a cut-off if it needs one."""
    return parse_name(metric.example or metric.__name__).with_cutoff(
        k if needs_cutoff(metric) else None
    )


@cache
def canonical_name(name: str) -> str:
    """The one spelling of a name: `ndcg(gain=exponential)@10` is `nDCG@10`."""
    spec = parse_name(name)
    if spec.k is None and needs_cutoff(spec.name):
        return str(prototype(spec.with_cutoff(1)).spec.with_cutoff(None))
    return str(prototype(spec).spec)


def expand_metrics(
    metrics: Iterable[Any], top_k: Iterable[int], *, available: Set[str]
) -> dict[MetricSpec, type[BaseMetric]]:
    """Names, specs, metric objects and classes to canonical specs and their classes, each at every
    cut-off it needs, once.

    `available` are the inputs that the run has; a metric that needs another is refused.
    """
    cutoffs: list[int | None] = list(top_k)
    specs: dict[MetricSpec, type[BaseMetric]] = {}
    known: dict[tuple[MetricSpec, bool], MetricSpec] = {}
    lacking: dict[str, Set[str]] = {}
    for given in metrics:
        spec, metric = _resolve(given)
        wanted = [spec.k] if spec.k is not None or not needs_cutoff(metric) else cutoffs
        if not wanted:
            raise SettingError(
                f"{spec} needs a cut-off: write '{spec}@10', or give top_k=[10, 20]."
            )
        key = (spec.with_cutoff(None), wanted[0] is None)
        if key not in known:  # the same at every cut-off, so that one metric need be made
            named = prototype(spec.with_cutoff(wanted[0]), metric)
            known[key] = named.spec
            if missing := named.needed_inputs() - available:
                lacking[str(named.spec)] = missing
        for k in wanted:
            if specs.setdefault(known[key].with_cutoff(k), metric) is not metric:
                raise SettingError(
                    f"two different metrics are named {known[key].with_cutoff(k)}; rename one of the "
                    "classes."
                )
    if lacking:
        raise missing_input_error(lacking)
    if not specs:
        raise SettingError(
            "no metrics were asked for; give for example metrics=['nDCG', 'Recall']."
        )
    return specs


def as_metric_list(metrics: Any) -> list[Any]:
    """What was given as `metrics`, as a list; one metric needs none."""
    if (
        isinstance(metrics, (str, MetricSpec))
        or is_metric_class(metrics)
        or hasattr(metrics, "parameter_aliases")
    ):
        return [metrics]
    if not isinstance(metrics, Iterable):
        raise SettingError(
            f"metrics={metrics!r}; give names, like metrics=['nDCG', 'Recall'], or metric objects."
        )
    return list(metrics)


def _resolve(given: Any) -> tuple[MetricSpec, type[BaseMetric]]:
    """The spec and class of one thing that was asked for. Classes need not be registered, but may
    not borrow another's name.
    """
    if isinstance(given, (str, MetricSpec)):
        spec = parse_name(given) if isinstance(given, str) else given
        return spec, find_metric(spec.name)
    if is_metric_class(given):
        spec, metric = MetricSpec(given.__name__), given
    elif is_metric_class(type(given)):
        spec, metric = given.spec, type(given)
    else:
        raise SettingError(
            f"{given!r} is not a metric; give names like 'nDCG@10', or metric objects."
        )
    _load()
    namesake = _classes.get(metric.__name__.casefold(), metric)
    if namesake is not metric:
        raise SettingError(
            f"the class {metric.__name__} of {metric.__module__} has the name of the registered "
            f"metric {namesake.__name__}; "
            "rename it."
        )
    return spec, metric
