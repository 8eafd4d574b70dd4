"""Inputs of an evaluation in partitions: those that the driver reads, and those of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft._input_kinds import BUILT_IN_INPUTS, NAMED_INPUTS, SIDE_INPUTS, InputKind
from weft.data.item_slices import ItemSlice, parse_item_slices
from weft.data.side_inputs import merge_inputs
from weft.evaluation.setting_rules import read_metrics
from weft.metrics.registry import find_input_kinds

Arguments = Mapping[str, Any]  # those of `weft.evaluate`, by name
ITEM_SIDE_INPUTS = tuple(name for name in SIDE_INPUTS if BUILT_IN_INPUTS[name].axis == "item")


def spread_inputs(arguments: Arguments) -> dict[str, Any]:
    """Return the arguments with each input that has one of its own there, and not in `inputs`."""
    named = {name: arguments[name] for name in NAMED_INPUTS}
    merged = merge_inputs(arguments["inputs"], **named)
    named |= {name: merged.pop(name) for name in NAMED_INPUTS if name in merged}
    return {**arguments, **named, "inputs": merged}


def input_key(name: str) -> str:
    """Return the name of an input of users in partitions and messages."""
    return f"inputs[{name!r}]"


def _input_kinds(arguments: Arguments) -> dict[str, InputKind]:
    """Return the kinds of the inputs in the argument `inputs`, by name."""
    return find_input_kinds(arguments["inputs"], read_metrics(arguments["metrics"]))


def item_inputs(arguments: Arguments) -> dict[str, InputKind]:
    """Return the inputs about items that are given, which the driver reads, with their kinds."""
    named = {
        name: BUILT_IN_INPUTS[name] for name in ITEM_SIDE_INPUTS if arguments[name] is not None
    }
    return named | {
        name: kind for name, kind in _input_kinds(arguments).items() if kind.axis == "item"
    }


def item_slices(arguments: Arguments) -> tuple[ItemSlice, ...]:
    """Return the item slices. Raises an error for wrong ones."""
    names = {"train", *ITEM_SIDE_INPUTS}
    available = {name for name in names if arguments[name] is not None} | set(arguments["inputs"])
    return parse_item_slices(
        arguments["item_slices"], available=available, user_slices=arguments["slices"] or ()
    )


def replace_item_slices(
    arguments: Arguments, collect: Callable[[Any, str], Any]
) -> dict[str, Any] | None:
    """Return the item slices with other data; `collect` takes the data of a slice and its name."""
    slices = dict(arguments["item_slices"] or {})
    for each in item_slices(arguments):
        if each.is_own_data:
            data, request = collect(each.source, each.where), slices[each.name]
            slices[each.name] = data if each.rule is None else {**request, "of": data}
    return slices or None


def user_inputs(arguments: Arguments) -> dict[str, InputKind]:
    """Return the inputs in the argument `inputs` that are about users, with their kinds."""
    return {name: kind for name, kind in _input_kinds(arguments).items() if kind.axis == "user"}
