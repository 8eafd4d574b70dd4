"""The registry: metric names to classes and objects. Names ignore case.

Importing this module does not load torch; the metrics are imported at the first lookup.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from collections.abc import Hashable, Iterable, Mapping, Set
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from weft._input_kinds import BUILT_IN_INPUTS, InputKind
from weft.errors import (
    InputError,
    SettingError,
    UnknownMetric,
    UnknownParameter,
    check_threshold,
    check_type,
    did_you_mean,
    name_parameters,
    setting_ref,
)
from weft.metrics import declarations
from weft.metrics.aliases import suggest_metrics
from weft.metrics.author_errors import author_errors
from weft.metrics.declarations import (
    RUN_FACTS,
    constructor_parameters,
    declared_inputs,
    merge_kinds,
    metric_parameters,
    missing_input_error,
    required_inputs,
    takes_cutoff,
    unknown_input_error,
    without_metrics,
)
from weft.metrics.names import MetricSpec, holds_data, parse_name, restore_data

if TYPE_CHECKING:
    from weft.metrics.base.metric import BaseMetric

    MetricClass = TypeVar("MetricClass", bound=type[BaseMetric])

_classes: dict[str, type[BaseMetric]] = {}
_prototypes: dict[Hashable, BaseMetric] = {}

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

# Empty inputs of every kind, for metrics that are built for their properties.
EMPTY_INPUTS: Mapping[str, Any] = MappingProxyType({})


def register(metric: MetricClass) -> MetricClass:
    """Register a metric under its class name, and return the class.

    It is used as a class decorator. A class that is defined again, as in a notebook, replaces the
    earlier one. Raises `SettingError` if another metric has this name. The guide to custom metrics
    shows the use of the registered name.

    >>> import weft
    >>> weft.register(weft.metrics.Recall).__name__
    'Recall'
    """
    if not is_metric_class(metric):
        raise SettingError(
            f"{metric!r} is not a metric; register a class derived from weft.BaseMetric."
        )
    key = metric.__name__.casefold()
    known = _classes.get(key, metric)
    if (known.__module__, known.__qualname__) != (metric.__module__, metric.__qualname__):
        raise SettingError(
            f"a metric named {known.__name__!r} is already registered by {known.__module__}; "
            "choose another class name."
        )
    _classes[key] = metric
    canonical_name.cache_clear()
    return metric


def is_metric_class(value: object) -> bool:
    """Return whether a value is a class of metrics."""
    return isinstance(value, type) and hasattr(value, "parameter_aliases")


@cache
def _load() -> None:
    """Import the built-in metrics and those of installed packages (entry point `weft.metrics`)."""
    importlib.import_module("weft.metrics").load_families()
    for plugin in importlib.metadata.entry_points(group="weft.metrics"):
        try:
            loaded = plugin.load()
        except Exception as error:
            raise InputError(
                f"the entry point {plugin.name!r} ({plugin.value}) of the group weft.metrics "
                f"cannot be loaded: {error}. Repair or uninstall its package."
            ) from error
        if is_metric_class(loaded):
            register(loaded)


def all_metrics() -> list[type[BaseMetric]]:
    """Return every registered metric by family and name; families of other packages come last."""
    _load()

    def order(metric: type[BaseMetric]) -> tuple[int, str, str]:
        position = FAMILIES.index(metric.family) if metric.family in FAMILIES else len(FAMILIES)
        return position, metric.family, metric.__name__.casefold()

    return sorted(_classes.values(), key=order)


def built_in_metrics() -> list[type[BaseMetric]]:
    """Return Weft's own metrics by family and name."""
    return [metric for metric in all_metrics() if metric.__module__.startswith("weft.")]


def find_metric(name: str) -> type[BaseMetric]:
    """Return the metric class of a name; raises `UnknownMetric` with a suggestion."""
    _load()
    metric = _classes.get(name.casefold())
    if metric is None and name == "Composite":  # of arithmetic; by itself it is no metric
        from weft.metrics.base.composite_formula import Composite

        return Composite
    if metric is None:
        known = [metric.__name__ for metric in all_metrics()]
        suggestion = suggest_metrics(name, known) or did_you_mean(name, known)
        raise UnknownMetric(
            f"there is no metric named {name!r}.{suggestion} The command weft metrics lists all "
            "metrics. Register custom metrics with @weft.register; commands load them from "
            "installed packages, and from the modules in --custom-modules or custom_modules of a "
            "configuration."
        )
    return metric


@cache
def _required_parameters(metric: type[BaseMetric]) -> frozenset[str]:
    """Return the parameters without a default."""
    return frozenset(
        name
        for name, parameter in metric_parameters(metric).items()
        if parameter.default is inspect.Parameter.empty
    )


def needs_cutoff(metric: str | type[BaseMetric]) -> bool:
    """Return whether a metric must have a cut-off."""
    return declarations.needs_cutoff(find_metric(metric) if isinstance(metric, str) else metric)


# --------------------------------------------------------------------------------------------------
# From names to metric objects


def build_metric(
    spec: MetricSpec,
    *,
    metric_class: type[BaseMetric] | None = None,
    inputs: Mapping[str, Any] | None = None,
    standalone: bool = True,
    **settings: Any,
) -> BaseMetric:
    """Build the metric of a name, of the registered class or of `metric_class`.

    `inputs` are those of the run, `settings` the `METRIC_SETTINGS`. With `standalone=False` the
    metric has no states: an evaluator accumulates for it. Raises `SettingError` or `MissingInput`.
    """
    if inputs is None:
        inputs = {}
    check_type("inputs", inputs, Mapping, "a dict of inputs by name")
    metric = metric_class or find_metric(spec.name)
    signature, arguments = constructor_parameters(metric), _read_arguments(spec, metric)
    declared = declared_inputs(metric)
    given = _empty_inputs(declared) if inputs is EMPTY_INPUTS else inputs
    if missing := required_inputs(metric) - given.keys():
        raise missing_input_error({str(spec): missing}, declared)
    names = signature.keys() & (RUN_FACTS.keys() | declared.keys())
    arguments |= {name: given[name] for name in names if name in given}
    if "inputs" in signature:  # a composite, which passes them on to its components
        arguments["inputs"] = inputs
    if not standalone:
        arguments["standalone"] = False
    try:
        if "relevance_threshold" in arguments:
            arguments["own_threshold"] = check_threshold(arguments.pop("relevance_threshold"))
        with author_errors():
            return metric(**arguments, **settings)
    except SettingError as error:
        if metric.__name__ in str(error) or isinstance(error, UnknownMetric):
            raise
        # Say which of the metrics is concerned.
        message = name_parameters(error.message, {*signature, "relevance_threshold"})
        raise type(error)(f"{metric.__name__}: {message}") from None


def _read_arguments(spec: MetricSpec, metric: type[BaseMetric]) -> dict[str, Any]:
    """Return the parameters of a name, as the constructor spells them, and the cut-off."""
    arguments: dict[str, Any] = {}
    for written, value in spec.params:
        name = _find_parameter(written, metric)
        if name in arguments:
            raise SettingError(f"{spec} has the parameter {name!r} twice; remove one.")
        arguments[name] = restore_data(value, spec)
    if lacking := _required_parameters(metric) - arguments.keys():
        missing = [name for name in metric_parameters(metric) if name in lacking]
        given = ", ".join(f"{name}=..." for name in missing)
        example = metric.example or f"{metric.__name__}({given})"
        raise SettingError(f"{spec} needs {' and '.join(missing)}: write for example '{example}'.")
    if needs_cutoff(metric) and spec.k is None:
        raise SettingError(
            f"{spec} needs a cut-off: write '{spec}@10', or give {setting_ref('top_k', 10)}."
        )
    if not takes_cutoff(metric) and spec.k is not None:
        raise SettingError(
            f"{metric.__name__} does not depend on a cut-off: write '{spec.with_cutoff(None)}' "
            f"without '@{spec.k}'."
        )
    return arguments if spec.k is None else {**arguments, "k": spec.k}


def _find_parameter(written: str, metric: type[BaseMetric]) -> str:
    """Return the spelling of a parameter in the constructor; raises `UnknownParameter`."""
    known = metric_parameters(metric)
    by_folded_name = {name.casefold(): name for name in known} | metric.parameter_aliases
    if metric.supports_own_threshold:
        by_folded_name["relevance_threshold"] = "relevance_threshold"
    if written.casefold() in by_folded_name:
        return by_folded_name[written.casefold()]
    listed = f"Its parameters: {', '.join(known)}." if known else "It has no parameters."
    raise UnknownParameter(
        f"{metric.__name__} has no parameter {written!r}."
        f"{did_you_mean(written, by_folded_name)} {listed}"
    )


def prototype(spec: MetricSpec, metric_class: type[BaseMetric] | None = None) -> BaseMetric:
    """Return a metric without states, built with empty inputs, for its name and its properties.

    Prototypes are kept, because building a metric takes longer than evaluating a user; but not
    those with arrays as parameters, which may change in place."""
    metric = metric_class or find_metric(spec.name)
    key = (metric, spec, str(spec))  # 1, 1.0 and True are equal, but printed differently
    if key in _prototypes:
        return _prototypes[key]
    built = build_metric(spec, metric_class=metric, inputs=EMPTY_INPUTS, standalone=False)
    if not holds_data(spec):
        _prototypes[key] = built
    return built


def _empty_inputs(declared: Mapping[str, InputKind]) -> dict[str, Any]:
    """Return inputs of no user and no item, and facts of a run."""
    from weft.data.side_inputs import empty_input

    facts = dict.fromkeys(RUN_FACTS, 1)
    return facts | {name: empty_input(kind) for name, kind in declared.items()}


def default_spec(metric: type[BaseMetric]) -> MetricSpec:
    """Return a metric with its default parameters, or those of its example if some are required."""
    if _required_parameters(metric):
        return example_spec(metric)
    return MetricSpec(metric.__name__, (), 5 if needs_cutoff(metric) else None)


def example_spec(metric: type[BaseMetric], k: int = 5) -> MetricSpec:
    """Return a metric with its required parameters, and a cut-off if it needs one."""
    return parse_name(metric.example or metric.__name__).with_cutoff(
        k if needs_cutoff(metric) else None
    )


@cache
def canonical_name(name: str) -> str:
    """Return the canonical spelling: `ndcg(gain=exponential)@10` is `nDCG@10`."""
    spec = parse_name(name)
    if spec.k is None and needs_cutoff(spec.name):
        return str(prototype(spec.with_cutoff(1)).spec.with_cutoff(None))
    return str(prototype(spec).spec)


def expand_metrics(
    metrics: Iterable[Any], top_k: Iterable[int], *, available: Set[str]
) -> dict[MetricSpec, type[BaseMetric]]:
    """Return canonical specs and classes of names, specs, metric objects and classes, without
    repetition, at every cut-off of `top_k` unless a name has its own.

    `available` are the inputs of the run; raises `MissingInput` if a metric needs another."""
    cutoffs: list[int | None] = list(top_k)
    specs: dict[MetricSpec, type[BaseMetric]] = {}
    missing: dict[str, Set[str]] = {}
    kinds: dict[str, tuple[str, InputKind]] = {}
    for requested in metrics:
        spec, metric = _resolve_metric(requested)
        own_cutoffs = cutoffs if spec.k is None and needs_cutoff(metric) else [spec.k]
        if not own_cutoffs:
            raise SettingError(
                f"{spec} needs a cut-off: write '{spec}@10', or give "
                f"{setting_ref('top_k', [10, 20])}."
            )
        # Parameters do not depend on the cut-off: one prototype is enough.
        built = prototype(spec.with_cutoff(own_cutoffs[0]), metric)
        merge_kinds(kinds, str(built.spec.with_cutoff(None)), built.declared_inputs())
        if lacking := built.missing_inputs(available):
            missing[str(built.spec)] = lacking
        for k in own_cutoffs:
            name = built.spec.with_cutoff(k)
            if specs.setdefault(name, metric) is not metric:
                raise SettingError(
                    f"two different metrics are named {name}; rename one of the classes."
                )
    if missing:
        raise missing_input_error(missing, without_metrics(kinds))
    if not specs:
        raise SettingError(
            "got no metrics; give at least one, for example "
            f"{setting_ref('metrics', ['nDCG', 'Recall'])}."
        )
    return specs


def find_input_kinds(names: Iterable[str], metrics: Iterable[Any]) -> dict[str, InputKind]:
    """Return the kinds of inputs that are given to a run of some metrics, by name.

    Inputs that none of them declares may be of another metric that is registered. Raises
    `SettingError` for a name that no metric declares."""
    kinds = {name: kind for name, kind in BUILT_IN_INPUTS.items() if name in set(names)}
    if kinds.keys() >= set(names):
        return kinds
    others = [name for name in names if name not in kinds]
    declared = _declared_kinds(metrics)
    for name in others:
        if name not in declared:
            raise unknown_input_error(name, declared.keys() | BUILT_IN_INPUTS.keys())
    return kinds | {name: declared[name] for name in others}


def _declared_kinds(metrics: Iterable[Any]) -> dict[str, InputKind]:
    """Return the inputs that some metrics declare, and others that registered metrics do."""
    known: dict[str, tuple[str, InputKind]] = {}
    for requested in metrics:
        spec, metric = _resolve_metric(requested)
        cutoff = (spec.k or 1) if needs_cutoff(metric) else spec.k
        built = prototype(spec.with_cutoff(cutoff), metric)
        merge_kinds(known, str(spec), built.declared_inputs())
    declared = without_metrics(known)
    for registered in all_metrics():
        declared = {**declared_inputs(registered), **declared}
    return declared


def _resolve_metric(requested: Any) -> tuple[MetricSpec, type[BaseMetric]]:
    """Return the spec and class of a name, spec, metric object or class.

    Classes need not be registered, but may not have the name of a registered metric."""
    if isinstance(requested, (str, MetricSpec)):
        spec = parse_name(requested) if isinstance(requested, str) else requested
        return spec, find_metric(spec.name)
    if is_metric_class(requested):
        spec, metric = MetricSpec(requested.__name__), requested
    elif is_metric_class(type(requested)):
        spec, metric = requested.spec, type(requested)
    else:
        is_combined = type(requested).__name__ == "CompositionalMetric"
        raise SettingError(
            f"{requested!r} is a combination by TorchMetrics, because one of its metrics is not a "
            "metric of Weft, is not registered, has custom states or was already updated; combine "
            "new, registered metrics, or their names, with weft.Composite."
            if is_combined
            else f"{requested!r} is not a metric; give names such as 'nDCG@10', or metric objects."
        )
    _load()
    registered = _classes.get(metric.__name__.casefold(), metric)
    if registered is not metric:
        raise SettingError(
            f"the class {metric.__name__} of {metric.__module__} has the name of the registered "
            f"metric {registered.__name__}; rename it."
        )
    return spec, metric
