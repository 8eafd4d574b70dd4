"""Names to metrics and back. A metric is known by its class name, in any case."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from weft.errors import SettingError, UnknownMetric, UnknownParameter, did_you_mean
from weft.names import Spec, parse

if TYPE_CHECKING:
    from weft.metrics.base import BaseMetric

    MetricClass = TypeVar("MetricClass", bound=type[BaseMetric])

_classes: dict[str, type[BaseMetric]] = {}

# What a run tells a metric that asks for it in its constructor, rather than what a user sets.
RUN_INPUTS = ("num_users", "num_items")


def register(metric: MetricClass) -> MetricClass:
    """Make a metric known by its class name: a class decorator.

    Defining the same class again, as a notebook does, replaces it; taking another metric's name is an error.
    """
    name = metric.__name__
    known = _classes.get(name.casefold())
    if known is not None and (known.__module__, known.__qualname__) != (metric.__module__, metric.__qualname__):
        raise SettingError(
            f"a metric named {known.__name__!r} is registered already, by {known.__module__}; choose another class name."
        )
    _classes[name.casefold()] = metric
    canonical.cache_clear()
    formula.cache_clear()
    return metric


@cache
def _load() -> None:
    """Import the built-in metrics and those that installed packages announce under the entry point `weft.metrics`."""
    importlib.import_module("weft.metrics")
    for plugin in importlib.metadata.entry_points(group="weft.metrics"):
        plugin.load()


def all_metrics() -> list[type[BaseMetric]]:
    """Every registered metric, by family and name."""
    _load()
    return sorted(_classes.values(), key=lambda metric: (metric.family, metric.__name__.casefold()))


def find(name: str) -> type[BaseMetric]:
    """The metric of this name."""
    _load()
    metric = _classes.get(name.casefold())
    if metric is None:
        known = [metric.__name__ for metric in all_metrics()]
        raise UnknownMetric(
            f"there is no metric named {name!r}.{did_you_mean(name, known)} Known metrics: {', '.join(known)}. "
            "A metric of your own joins with @weft.register."
        )
    return metric


@cache
def _signature(metric: type[BaseMetric]) -> dict[str, inspect.Parameter]:
    # Of the constructor itself: the metaclass's __call__ hides it from inspect.signature(metric).
    return dict(list(inspect.signature(metric.__init__).parameters.items())[1:])


def parameters(metric: type[BaseMetric]) -> dict[str, inspect.Parameter]:
    """What a user can set on a metric beside its cut-off, in the order of its constructor."""
    return {
        name: parameter
        for name, parameter in _signature(metric).items()
        if name not in ("k", *RUN_INPUTS) and parameter.kind != inspect.Parameter.VAR_KEYWORD
    }


def build(spec: Spec, *, inputs: dict[str, Any] | None = None, **settings: Any) -> BaseMetric:
    """The metric that a name means. `inputs` are the run's, `settings` how it counts."""
    metric = find(spec.name)
    known = parameters(metric)
    folded = {name.casefold(): name for name in known} | metric.parameter_aliases
    given: dict[str, Any] = {}
    for name, value in spec.params:
        real = folded.get(name.casefold())
        if real is None:
            offers = f"Its parameters: {', '.join(known)}." if known else "It has no parameters."
            raise UnknownParameter(f"{metric.__name__} has no parameter {name!r}.{did_you_mean(name, folded)} {offers}")
        if real in given:
            raise SettingError(f"{spec} gives the parameter {real!r} twice; keep one.")
        given[real] = value
    signature = _signature(metric)
    if "k" in signature:
        if spec.k is None:
            raise SettingError(f"{spec} needs a cut-off: write '{spec}@10', or give top_k.")
        given["k"] = spec.k
    elif spec.k is not None:
        raise SettingError(f"{metric.__name__} does not depend on a cut-off: write '{spec.at(None)}' without '@{spec.k}'.")
    wanted = {name: value for name, value in (inputs or {}).items() if name in signature}
    return metric(**given, **wanted, **settings)


@cache
def formula(spec: Spec) -> BaseMetric:
    """A metric for its formula alone, shared by all who combine it; nothing is ever accumulated in it."""
    return build(spec)


@cache
def canonical(name: str) -> str:
    """The one spelling of a name: `ndcg(gain=exponential)@10` is `nDCG@10`."""
    spec = parse(name)
    if spec.k is None and takes_k(spec.name):
        return str(build(spec.at(1)).spec.at(None))
    return str(build(spec).spec)


def takes_k(name: str) -> bool:
    """Whether the metric depends on a cut-off."""
    return "k" in _signature(find(name))


def expand(metrics: Iterable[Any], top_k: Iterable[int]) -> list[Spec]:
    """Names, specs, metric objects and classes to canonical specs, each at every cut-off it needs, without repetition."""
    cutoffs: list[int | None] = list(top_k)
    specs: dict[Spec, None] = {}
    known: dict[tuple[Spec, bool], Spec] = {}
    for metric in metrics:
        if isinstance(metric, str):
            spec = parse(metric)
        elif isinstance(metric, Spec):
            spec = metric
        elif isinstance(metric, type) and hasattr(metric, "parameter_aliases"):
            spec = Spec(metric.__name__)
        elif hasattr(metric, "spec"):
            spec = metric.spec
        else:
            raise SettingError(f"{metric!r} is not a metric; give names like 'nDCG@10', or metric objects.")
        wanted = [spec.k] if spec.k is not None or not takes_k(spec.name) else cutoffs
        if not wanted:
            raise SettingError(f"{spec} needs a cut-off: write '{spec}@10', or give top_k=[10, 20].")
        key = (spec.at(None), wanted[0] is None)
        if key not in known:  # the same at every cut-off, so that one metric need be made
            known[key] = build(spec.at(wanted[0])).spec
        specs.update({known[key].at(k): None for k in wanted})
    if not specs:
        raise SettingError("no metrics were asked for; give for example metrics=['nDCG', 'Recall'].")
    return list(specs)
