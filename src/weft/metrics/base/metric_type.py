"""The class of metric classes: builds metrics with their declared inputs and their states."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Any, ClassVar

import torch

from weft._input_kinds import InputKind
from weft.data.devices import DEFERRED_ERRORS
from weft.data.side_inputs import read_positional_inputs
from weft.errors import SettingError, did_you_mean
from weft.metrics.declarations import (
    SIZES,
    constructor_parameters,
    missing_input_error,
    own_parameters,
    required_inputs,
)


class MetricType(ABCMeta):
    """Adds the states of a metric after its constructor has run, among them the number of its rows
    under a name that no other metric has.

    TorchMetrics' `MetricCollection` shares one state between metrics with states of the same
    names and equal values after the first batch, as any two metrics without a hit do. The unique
    name prevents that, and also that states are loaded into or merged with another metric."""

    definitions: ClassVar[Counter[str]] = Counter()
    needs: Mapping[str, InputKind]

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's parameters with those of its base classes, for `help` and editors."""
        parameters = constructor_parameters(cls).values()
        return inspect.Signature(sorted(parameters, key=lambda parameter: parameter.kind))

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        standalone = kwargs.pop("standalone", True)
        own_threshold = kwargs.pop("own_threshold", None)
        is_shared = kwargs.pop("is_shared", False)
        inputs = {}
        if cls.needs:
            inputs = _take_inputs(cls, kwargs)
            _check_inputs(cls, required_inputs(cls) - inputs.keys(), kwargs)
        metric: Any = cls.__new__(cls)  # type: ignore[call-arg, arg-type]
        # Before the constructor, which may read them.
        metric.__dict__ |= {"inputs": inputs, "own_threshold": own_threshold}
        metric.__dict__["_is_shared"] = is_shared
        # A metric inside an evaluator needs no states, and preparing them takes most of the time.
        # Authors' classes may rely on what TorchMetrics prepares.
        metric.__dict__["_is_formula"] = not standalone and cls.__module__.startswith(
            "weft.metrics."
        )
        metric.__init__(*args, **kwargs)
        if "_spec" not in metric.__dict__:
            raise SettingError(
                f"{cls.__name__}.__init__ must call super().__init__ with its settings, and with k "
                "if it has a cut-off."
            )
        if cls.needs:
            _check_inputs(cls, metric.missing_inputs(inputs.keys()))
        if not standalone:
            return metric
        metric.add_states()
        errors = torch.zeros(len(DEFERRED_ERRORS))
        metric.add_state("faults_on_device", errors, dist_reduce_fx="sum", persistent=False)
        metric._own_state = metric.own_state_name()
        metric.add_state(
            metric._own_state,
            torch.zeros((), dtype=torch.int64),
            dist_reduce_fx="sum",
            persistent=any(metric._persistent.values()),  # saved if other states are
        )
        return metric


def _take_inputs(metric: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs that a metric declares in `needs` among its arguments, encoded by position.

    Those that are no parameters of its constructor are removed from the arguments."""
    declared: Mapping[str, InputKind] = metric.needs
    given = {name: arguments[name] for name in declared if arguments.get(name) is not None}
    sizes = {name: arguments.get(name) for name in SIZES}
    inputs = read_positional_inputs(given, declared, **sizes)
    own = own_parameters(metric)
    for name in (*SIZES, *declared):
        if name not in own:
            arguments.pop(name, None)
        elif name in given:
            arguments[name] = inputs[name]
    return {name: inputs[name] for name in given}


def _check_inputs(metric: Any, missing: Set[str], arguments: Iterable[str] = ()) -> None:
    """Raise `MissingInput` if a metric lacks inputs that it declares in `needs`,
    `UnknownParameter` if the name of one of them is misspelt among other arguments."""
    if missing := missing & metric.needs.keys():
        known = [*constructor_parameters(metric)]
        others = (name for name in arguments if name not in known)
        metric._check_keywords((name for name in others if did_you_mean(name, missing)), known)
        raise missing_input_error({metric.__name__: missing}, metric.needs, standalone=True)
