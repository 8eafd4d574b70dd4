"""Mergeable state of an evaluation: combining the states of batches, files and processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from weft.errors import InputError, SettingError
from weft.metrics.base.metric import BaseMetric

MetricStates = dict[str, Any]  # states of a metric that owns some: tensors, or lists of tensors
# Inputs that are identified by a digest, which messages do not print.
_DIGESTS = (
    "train",
    "user_groups",
    "item_clusters",
    "item_features",
    "truth",
    "source",
    "users",
    "items",
    "candidates given",
)


@dataclass(frozen=True)
class EvaluationState:
    """State accumulated by an evaluator.

    `sums` (values of all accumulators) and `counts` (see `counts.BatchCounter`) are added when
    states are combined; `rows` (tensors with one row per evaluated user) are concatenated;
    `metric_states` belong to metrics that own states and are combined by these metrics.

    `num_rows` is the number of rows so far, `num_items` the number of items, None before the first
    batch. `has_user_indices` is True if every batch came with user indices (in `rows["users"]`);
    otherwise rows are numbered in order of arrival. `has_lists` is True if the source gives
    recommendation lists, not scores; `has_candidates` if candidates are not the whole catalogue.
    """

    sums: Tensor
    counts: Tensor
    rows: Mapping[str, Tensor] = field(default_factory=dict)
    metric_states: tuple[MetricStates, ...] = ()
    num_rows: int = 0
    num_items: int | None = None
    has_user_indices: bool = True
    has_lists: bool = False
    has_candidates: bool = False


def combine_states(
    states: Sequence[EvaluationState], own_metrics: Sequence[BaseMetric]
) -> EvaluationState:
    """Combine states into one. Raises `SettingError` if their numbers of items differ.

    `own_metrics` are the metrics that own states, in the order of `metric_states`.
    """
    return replace(
        _concatenate_rows(states, own_metrics),
        sums=_add([state.sums for state in states]),
        counts=_add([state.counts for state in states]),
    )


def _add(vectors: Sequence[Tensor]) -> Tensor:
    total = vectors[0].clone()
    for vector in vectors[1:]:
        total += vector.to(total.device)
    return total


def _concatenate_rows(
    states: Sequence[EvaluationState], own_metrics: Sequence[BaseMetric]
) -> EvaluationState:
    """Combine everything except the sums and counts, which are those of the first state."""
    num_items = {state.num_items for state in states} - {None}
    if len(num_items) > 1:
        sizes = " and ".join(map(str, sorted(num_items, key=str)))
        raise SettingError(f"cannot merge evaluations of {sizes} items.")
    kinds = {frozenset(state.rows) for state in states if any(map(len, state.rows.values()))}
    if len(kinds) > 1:
        names = ", ".join(sorted(frozenset.union(*kinds) - frozenset.intersection(*kinds)))
        raise InputError(f"cannot merge states if only some of them have the rows {names}.")
    rows: dict[str, list[Tensor]] = {}
    num_rows = 0
    for state in states:
        for name, values in state.rows.items():
            # Rows without user indices are renumbered, so that no two share a number.
            is_renumbered = name == "table_users" and not state.has_user_indices
            rows.setdefault(name, []).append(values + num_rows if is_renumbered else values)
        num_rows += state.num_rows
    metric_states = list(states[0].metric_states)
    for state in states[1:]:
        metric_states = [
            metric.join_states(*both)
            for metric, *both in zip(own_metrics, metric_states, state.metric_states)
        ]
    device = states[0].sums.device
    return replace(
        states[0],
        rows={name: torch.cat([part.to(device) for part in parts]) for name, parts in rows.items()},
        metric_states=tuple(metric_states),
        num_rows=num_rows,
        num_items=next(iter(num_items), None),
        has_user_indices=all(state.has_user_indices for state in states),
        has_lists=any(state.has_lists for state in states),
        has_candidates=any(state.has_candidates for state in states),
    )


def check_compatible(ours: Mapping[str, Any], theirs: Mapping[str, Any], subject: str) -> None:
    """Raise `SettingError` if two evaluations with these identities cannot be merged.

    `subject` starts the message: "cannot merge evaluators that" (differ in ...). Files hold tuples
    as lists, which are equal here.
    """
    for name in {**ours, **theirs}:
        our_value, their_value = (_tuples_to_lists(one.get(name)) for one in (ours, theirs))
        if our_value != their_value:
            is_digest = name in _DIGESTS or "[" in name
            detail = "; give both the same" if is_digest else f": {our_value!r} and {their_value!r}"
            raise SettingError(f"{subject} differ in {name}{detail}.")


def _tuples_to_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _tuples_to_lists(one) for name, one in value.items()}
    return [_tuples_to_lists(one) for one in value] if isinstance(value, (list, tuple)) else value


# --------------------------------------------------------------------------------------------------


def num_processes() -> int:
    """Return the number of processes of torch.distributed, 1 where it is not in use."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def synchronize(
    state: EvaluationState, identity: Mapping[str, Any], own_metrics: Sequence[BaseMetric]
) -> EvaluationState:
    """Return the combined state of all processes, equal on each. A collective: all must call it.

    Two collectives suffice: rows and other small parts are exchanged as objects, then sums are
    reduced. Raises `SettingError` on every process if the identities differ.
    """
    without_sums = replace(
        state,
        sums=state.sums[:0].cpu(),
        counts=state.counts[:0].cpu(),
        rows={name: values.cpu() for name, values in state.rows.items()},
        metric_states=tuple(
            {name: _to_cpu(value) for name, value in states.items()}
            for states in state.metric_states
        ),
    )
    ranks: list[Any] = [None] * num_processes()
    dist.all_gather_object(ranks, (dict(identity), without_sums))
    for rank, (theirs, _) in enumerate(ranks):
        check_compatible(ranks[0][0], theirs, f"cannot merge processes (rank 0 and {rank}) that")
    combined = _concatenate_rows([theirs for _, theirs in ranks], own_metrics)
    # Gloo reduces on the CPU, other backends on their devices.
    device = torch.device("cpu") if "gloo" in str(dist.get_backend()) else state.sums.device
    totals = torch.cat([state.sums, state.counts]).to(device)
    dist.all_reduce(totals)
    totals = totals.cpu()
    size = len(state.sums)
    return replace(combined, sums=totals[:size], counts=totals[size:])


def _to_cpu(value: Any) -> Any:
    return [part.cpu() for part in value] if isinstance(value, list) else value.cpu()
