"""Reads the arguments of `evaluate`: the inputs, and the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft._input_kinds import NAMED_INPUTS
from weft.data.evaluation_inputs import EvaluationInputs
from weft.data.item_slices import has_times
from weft.data.side_inputs import merge_inputs
from weft.evaluation.setting_rules import split_candidates
from weft.evaluation.settings import EvaluationSettings
from weft.metrics.registry import find_input_kinds


def read_arguments(arguments: Mapping[str, Any]) -> tuple[EvaluationInputs, EvaluationSettings]:
    """Return the inputs and the settings among the arguments of `evaluate`, by name."""
    pool, given = split_candidates(arguments["candidates"])
    names = [field.name for field in EvaluationSettings.fields() if field.option.in_evaluate]
    options = {name: arguments[name] for name in names} | {"candidates": pool}
    named = {name: arguments[name] for name in NAMED_INPUTS}
    settings = EvaluationSettings.from_options(**options)
    side = merge_inputs(arguments["inputs"], **named)
    data = {name: arguments[name] for name in ("source", "truth", "users", "items")}
    return build_inputs(settings, side, **data, candidates=given), settings


def build_inputs(
    settings: EvaluationSettings, side: dict[str, Any], **data: Any
) -> EvaluationInputs:
    """Return the inputs; `side` are those of metrics by name, train among them."""
    kinds = find_input_kinds(side, settings.metrics)
    train = side.pop("train", None)
    reads_times = has_times(settings.item_slices)
    return EvaluationInputs(**data, train=train, side=side, kinds=kinds, reads_times=reads_times)
