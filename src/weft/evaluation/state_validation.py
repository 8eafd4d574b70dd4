"""Validation of states that come from files, checkpoints or the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torchmetrics.utilities import dim_zero_cat

from weft.evaluation.contributions import ROW_PREFIX
from weft.evaluation.document_fields import (
    check_flag,
    check_list,
    check_mapping,
    check_whole,
    describe,
    reject,
)
from weft.evaluation.state import EvaluationState
from weft.evaluation.tensor_fields import FLOATS, INTEGERS, check_codes, check_counts, check_tensor
from weft.metrics.base.metric import BaseMetric

if TYPE_CHECKING:
    from weft.evaluation.evaluator_state import EvaluatorState

_FIELDS = tuple(field.name for field in fields(EvaluationState))


def validate_state(state: Mapping[str, Any], evaluator: EvaluatorState) -> EvaluationState:
    """Return a state with fields that all fit the evaluator, from its fields and `identity`.

    Raises `InputError` with the name of a field that does not fit: types, shapes, and the ranges of
    all indices and counts."""
    state = check_mapping(state, "state", (*_FIELDS, "identity"))
    layout, counter = evaluator.metric_set.layout, evaluator.counter
    sums = check_tensor(state["sums"], "sums", FLOATS, (layout.size,))
    check_counts(layout.count_sums(sums), "sums")
    counts = check_tensor(state["counts"], "counts", FLOATS, (len(counter.names),))
    check_counts(counts, "counts")
    num_rows, num_items = check_whole(state["num_rows"], "num_rows"), state["num_items"]
    if num_items is not None and check_whole(num_items, "num_items") != (
        num_items if evaluator.num_items is None else evaluator.num_items
    ):
        reject("num_items", describe(num_items), f"{evaluator.num_items}, the number of items")
    flags = {name: check_flag(state[name], name) for name in _FIELDS if name.startswith("has_")}
    metric_states = check_list(
        state["metric_states"], "metric_states", len(evaluator.stateful_metrics)
    )
    return EvaluationState(
        sums,
        counts,
        _validate_rows(state["rows"], evaluator, num_rows),
        tuple(map(_check_metric_states, evaluator.stateful_metrics, metric_states)),
        num_rows,
        num_items,
        **flags,
    )


def _validate_rows(rows: object, evaluator: EvaluatorState, num_rows: int) -> dict[str, Tensor]:
    """Return the rows by user: indices inside of the inputs, and tensors of the same length."""
    rows = check_mapping(rows, "rows")
    num_users = _count_labelled_users(evaluator)
    users = check_codes(rows.get("users"), "rows['users']", num_users)
    length = len(users) if evaluator.drops_repeats else None
    known = {"users"}
    if columns := evaluator.table_columns():
        users = check_codes(
            rows.get("table_users"), "rows['table_users']", num_users, length=length
        )
        _check_columns(rows, evaluator, len(users))
        known |= columns.keys()
    contributed = {name for name in rows if name.startswith(ROW_PREFIX)}
    if contributed and evaluator.stores_contributions:
        known |= contributed
        _check_contributions(rows, evaluator, length)
    if evaluator.drops_repeats and len(users) and not contributed:
        reject("rows", "without the contributions of users", "those of each user")
    check_mapping(rows, "rows", known)
    return rows


def _check_columns(rows: Mapping[str, Any], evaluator: EvaluatorState, num_users: int) -> None:
    """Check the columns of the tables by user."""
    columns = evaluator.table_columns()
    for name, (dtype, shape) in columns.items():
        types = FLOATS if dtype.is_floating_point else (dtype,)
        check_tensor(rows.get(name), f"rows[{name!r}]", types, (num_users, *shape))
    if "table_items" in columns:
        items = rows["table_items"].reshape(-1)
        check_codes(items, "rows['table_items']", evaluator.num_items, least=-1)


def _count_labelled_users(evaluator: EvaluatorState) -> int | None:
    """Return the number of users that all slices and inputs of users have; None without any."""
    inputs = [*evaluator.slices.values(), *evaluator.user_inputs.values()]
    return min((one.size for one in inputs), default=None)


def _check_contributions(
    rows: Mapping[str, Any], evaluator: EvaluatorState, length: int | None
) -> None:
    """Check the rows of `UserContributions`; their names have the prefix."""
    rows = {
        name.removeprefix(ROW_PREFIX): row
        for name, row in rows.items()
        if name.startswith(ROW_PREFIX)
    }
    layout = evaluator.metric_set.layout
    num_counts = len(evaluator.counter.names) if evaluator.drops_repeats else 0
    num_terms = layout.other_sums.stop - layout.other_sums.start
    weights = {name for name in rows if name.startswith("weights_")}
    known = {"keys", "values", "counts", "lengths", "indices", "terms", *weights}
    check_mapping(rows, "contributions", known)
    doubles = (torch.float64,)
    users = len(check_tensor(rows["keys"], "contributions['keys']", INTEGERS, (length,)))
    check_tensor(rows["values"], "contributions['values']", doubles, (users, layout.num_means))
    check_tensor(rows["counts"], "contributions['counts']", doubles, (users, num_counts))
    check_counts(rows["counts"], "contributions['counts']")
    indices = check_codes(rows["indices"], "contributions['indices']", num_terms)
    terms = check_tensor(rows["terms"], "contributions['terms']", doubles, (len(indices),))
    check_counts(layout.term_counts(indices, terms), "contributions['terms']")
    lengths = check_codes(
        rows["lengths"], "contributions['lengths']", len(indices) + 1, length=users
    )
    if int(lengths.double().sum()) != len(indices):
        reject(
            "contributions['lengths']", describe(lengths), f"numbers that add up to {len(indices)}"
        )
    columns = {f"weights_{column}" for column in range(layout.num_means)}
    for name in weights:
        if name not in columns:
            reject(f"contributions[{name!r}]", describe(rows[name]), "no such weights")
        check_tensor(rows[name], f"contributions[{name!r}]", doubles, (users,))
    for name in ("values", "terms", *weights):
        if torch.isinf(rows[name]).any():
            reject(f"contributions[{name!r}]", "with infinity among its numbers", "finite numbers")


def _check_metric_states(metric: BaseMetric, states: object) -> dict[str, Any]:
    """Return the states of a metric that owns some: tensors of its types and shapes."""
    names = metric.states()
    checked = check_mapping(states, f"the state of {metric.spec}", names)
    for name, own in names.items():
        field, state = f"the state {name!r} of {metric.spec}", checked[name]
        if isinstance(own, list):
            state = check_list(state, field)
        for one in state if isinstance(own, list) else [state]:
            is_tensor = isinstance(one, Tensor) and one.layout == torch.strided
            if not is_tensor or not (isinstance(own, list) or _fits(metric, name, one, own)):
                reject(field, describe(one), f"{describe(own)}, as this metric has it")
        checked[name] = state if isinstance(own, list) else state.detach().to(own.dtype)
    metric.check_states(checked)
    return checked


def _fits(metric: BaseMetric, name: str, state: Tensor, own: Tensor) -> bool:
    """True if a tensor has the type of a metric's state, and the shape if that does not grow."""
    is_growing = metric._reductions[name] is dim_zero_cat
    shapes = state.shape == own.shape or (is_growing and state.ndim > 0)
    return shapes and torch.can_cast(state.dtype, own.dtype)
