"""What the class of a metric declares: the parameters of its constructor and its inputs.

Importing this module does not load torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence, Set
from functools import cache
from typing import TYPE_CHECKING, Any

from weft._input_kinds import BUILT_IN_INPUTS, NAMED_INPUTS, InputKind
from weft.errors import MissingInput, SettingError, did_you_mean, setting_ref

if TYPE_CHECKING:
    from weft.metrics.base.metric import BaseMetric

# Constructor arguments that a run supplies, not the user, by the axis that they count.
SIZES = {"num_users": "the number of users", "num_items": "the number of items of the catalogue"}
MAX_RATING = "max_rating"
RUN_FACTS = {**SIZES, MAX_RATING: "the highest rating of the truth"}
# Settings that all metrics of a run share, so that they are not part of a name.
METRIC_SETTINGS = ("relevance_threshold", "ties", "seed", "empty_users")
# Names that inputs of metrics cannot have, because arguments and digests have them.
_TAKEN_NAMES = {"k", "inputs", "nan_scores", "source", "source_kind", "truth", "users", "items"}
_TAKEN_NAMES |= {"candidates", *RUN_FACTS, *METRIC_SETTINGS}
_STARRED = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


@cache
def own_parameters(metric: type[BaseMetric]) -> dict[str, inspect.Parameter]:
    """Return the named parameters of the constructors themselves.

    Constructors of Weft pass `**settings` on to their base class, and have its parameters too. An
    author's constructor may set those of its base class, and has only its own."""
    parameters: dict[str, inspect.Parameter] = {}
    for base in (base for base in metric.__mro__ if "__init__" in vars(base)):
        # Not inspect.signature(base), from which the metaclass's __call__ hides the constructor.
        _, *own = inspect.signature(vars(base)["__init__"]).parameters.values()
        named = [one for one in own if one.kind not in _STARRED]
        parameters |= {one.name: one for one in named if one.name not in parameters}
        if len(named) == len(own) or not base.__module__.startswith("weft."):
            break
    return parameters


@cache
def constructor_parameters(metric: type[BaseMetric]) -> dict[str, inspect.Parameter]:
    """Return the named parameters with which a metric is built, its declared inputs among them."""
    parameters = dict(own_parameters(metric))
    declared: dict[str, Any] = {
        name: inspect.Parameter.empty if kind.required else None
        for name, kind in metric.needs.items()
    }
    if declared:  # sizes, for inputs that do not tell them
        declared |= dict.fromkeys(SIZES)
    for name, default in declared.items():
        if name not in parameters:
            parameters[name] = inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Any
            )
    return parameters


@cache
def takes_cutoff(metric: type[BaseMetric]) -> bool:
    """Return whether a metric can have a cut-off."""
    return "k" in constructor_parameters(metric)


@cache
def needs_cutoff(metric: type[BaseMetric]) -> bool:
    """Return whether a metric must have a cut-off: with the default `k=None` it is optional.

    A name without an optional cut-off means the metric without one, also in a run with cut-offs."""
    cutoff = constructor_parameters(metric).get("k")
    return cutoff is not None and cutoff.default is not None


@cache
def metric_parameters(metric: type[BaseMetric]) -> dict[str, inspect.Parameter]:
    """Return the parameters that a user can set, in constructor order, without the cut-off."""
    inputs = declared_inputs(metric)
    supplied = ("k", "inputs", "nan_scores", *RUN_FACTS, *inputs, *METRIC_SETTINGS)
    parameters = constructor_parameters(metric).items()
    return {name: parameter for name, parameter in parameters if name not in supplied}


@cache
def declared_inputs(metric: type[BaseMetric]) -> dict[str, InputKind]:
    """Return the inputs that a metric declares in `needs`, or names as a constructor's parameter.

    The latter are inputs that Weft names, such as train."""
    own = own_parameters(metric)
    named = {name: BUILT_IN_INPUTS[name] for name in NAMED_INPUTS if name in own}
    return named | dict(metric.needs)


@cache
def required_inputs(metric: type[BaseMetric]) -> frozenset[str]:
    """Return the inputs and sizes of a run without which a metric cannot be built."""
    names = {*SIZES, *declared_inputs(metric)}
    return frozenset(
        name
        for name, parameter in constructor_parameters(metric).items()
        if name in names and parameter.default is inspect.Parameter.empty
    )


def check_needs(metric: str, needs: object) -> None:
    """Raise `SettingError` unless `needs` of a metric maps names to kinds of inputs."""
    if not isinstance(needs, Mapping):
        raise SettingError(
            f"{metric} declares needs = {needs!r}; expected a dict of input kinds by name, such as "
            "{'price': weft.ItemNumbers()}."
        )
    for name, kind in needs.items():
        is_free = isinstance(name, str) and name.isidentifier() and name not in _TAKEN_NAMES
        if not is_free:
            raise SettingError(
                f"{metric} declares an input named {name!r}; expected a valid Python identifier, "
                f"except the reserved names {', '.join(sorted(_TAKEN_NAMES))}."
            )
        if not isinstance(kind, InputKind):
            raise SettingError(
                f"{metric} declares the input {name!r} as {kind!r}; expected an input kind such as "
                "weft.ItemNumbers() or weft.UserLabels()."
            )
        built_in = BUILT_IN_INPUTS.get(name, kind)
        if not built_in.agrees(kind):
            raise SettingError(
                f"{metric} declares the input {name!r} as {type(kind).__name__}, but Weft defines "
                f"an input with this name as {built_in!r}; choose another name."
            )


def merge_kinds(
    kinds: dict[str, tuple[str, InputKind]], metric: str, declared: Mapping[str, InputKind]
) -> None:
    """Add the inputs that a metric declares to those of others, by name and with the metric.

    Raises `SettingError` if two metrics declare the same name as different kinds."""
    for name, kind in declared.items():
        other, known = kinds.setdefault(name, (metric, kind))
        if not known.agrees(kind):
            raise SettingError(
                f"{other} and {metric} declare the input {name!r} as different kinds, {known!r} "
                f"and {kind!r}; rename one of them, or evaluate the metrics separately."
            )


def without_metrics(kinds: Mapping[str, tuple[str, InputKind]]) -> dict[str, InputKind]:
    """Return kinds of `merge_kinds` by name, without the metrics that declare them."""
    return {name: kind for name, (_, kind) in kinds.items()}


def unknown_input_error(name: str, known: Set[str]) -> SettingError:
    """Return the error for an input that no metric declares."""
    return SettingError(
        f"inputs has {name!r}, which no metric declares.{did_you_mean(name, known)} Known inputs: "
        f"{', '.join(sorted(known))}. A metric declares its inputs in the class attribute needs.",
        setting="inputs",
    )


def input_ref(name: str) -> str:
    """Return a reference to an input of a run, for messages."""
    has_own_argument = name in NAMED_INPUTS or name in SIZES
    return setting_ref(name if has_own_argument else f"inputs.{name}")


def missing_input_error(
    missing: Mapping[str, Set[str]], kinds: Mapping[str, InputKind], *, standalone: bool = False
) -> MissingInput:
    """Return the error for metrics (by name) that lack inputs, with how to supply each input.

    A `standalone` metric takes all of them as arguments."""
    by_input: dict[str, list[str]] = {}
    for metric, names in missing.items():
        for name in sorted(names):
            by_input.setdefault(name, []).append(metric)
    lines = []
    for name, metrics in by_input.items():
        if name == MAX_RATING:
            lines.append(_need_max_grade(metrics))
            continue
        kind = kinds.get(name)
        description = SIZES[name] if kind is None else kind.describe()
        forms = "" if kind is None else f" ({kind.accepted})"
        given = setting_ref(name) if standalone else input_ref(name)
        lines.append(
            f"{', '.join(metrics)} {'need' if len(metrics) > 1 else 'needs'} {name}, "
            f"{description}; give {given}{forms}."
        )
    return MissingInput("\n".join(lines))


def _need_max_grade(metrics: Sequence[str]) -> str:
    """Return the message for metrics that lack the highest rating, which batches do not tell."""
    return (
        f"{', '.join(metrics)} {'need' if len(metrics) > 1 else 'needs'} max_grade, the highest "
        "rating of the scale, because the complete truth is not known in advance; write for "
        "example 'ERR(max_grade=5)', or use weft.evaluate."
    )
