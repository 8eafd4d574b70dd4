"""`finalize`: builds the Result of an evaluation from its state, in one place."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from weft.data import Train, Vocabulary
from weft.evaluation.bootstrap import BootstrapInterval, bootstrap_interval
from weft.evaluation.contributions import ContributionStore, LocalContributions, UserContributions
from weft.evaluation.exposure import exposure_frames
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.notes import (
    NoteContext,
    count_items_without_input,
    count_notes,
    interval_notes,
    undefined_notes,
)
from weft.evaluation.result import Result, slice_column
from weft.evaluation.state import EvaluationState

if TYPE_CHECKING:
    import polars as pl

    from weft.evaluation.evaluator import Evaluator

UserTables = tuple["pl.DataFrame | None", "pl.DataFrame | None"]


@dataclass(frozen=True)
class RunReport:
    """Facts about the inputs of a run for its Result: empty for batches that a caller adds.

    `users` are the ids of the users; without them, user indices are kept.
    """

    name: str = "model"
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    users: Vocabulary | None = None


def finalize(
    state: EvaluationState,
    evaluator: Evaluator,
    report: RunReport | None = None,
    *,
    contributions: ContributionStore | None = None,
) -> Result:
    """Return the Result of a state: values, intervals, counts, notes, settings and tables.

    `contributions` are those of all users, if they are not in the state.
    """
    report = RunReport() if report is None else report
    metric_set, settings = evaluator.metric_set, evaluator.settings
    state, local, num_repeated = _drop_repeated_users(state, evaluator)
    counts = _read_counts(state, evaluator, num_repeated)
    sums = state.sums.cpu()
    view = metric_set.layout.view(sums)
    with _loaded_metric_states(evaluator, state):
        values = tuple(metric_set.values(view))
    context = NoteContext(
        metric_set,
        evaluator.inputs,
        evaluator.rule.name,
        str(settings.empty_users),
        evaluator.estimator,
        state.has_lists,
        state.has_candidates,
        evaluator.drops_repeats,
    )
    notes = count_notes(context, counts)
    notes += undefined_notes(metric_set, values, notes)
    if settings.bootstrap is not None:
        if contributions is None and local is not None:
            contributions = LocalContributions(local)
        values, further = _add_intervals(values, evaluator, settings.bootstrap, contributions)
        notes += further
    per_user, labels = user_tables(state, evaluator, report.users)
    exposure, popularity = exposure_frames(metric_set.layout, view, evaluator.inputs.get("train"))
    return Result(
        values=values,
        name=report.name,
        counts={**counts, **report.counts},
        notes=(*report.notes, *notes),
        settings={**evaluator.record_settings(), **report.settings},
        provenance={**versions(), **report.provenance},
        per_user=per_user,
        slices=metric_set.by_slice(sums) if evaluator.slices else None,
        exposure=exposure,
        popularity=popularity,
        user_labels=labels,
        prefix=evaluator.prefix,
        postfix=evaluator.postfix,
    )


def _read_counts(state: EvaluationState, evaluator: Evaluator, num_repeated: int) -> dict[str, int]:
    counts = evaluator.counter.read(state.counts)
    counts["items"] = evaluator.num_items or state.num_items or 0
    counts |= count_items_without_input(evaluator.metric_set, evaluator.inputs)
    if num_repeated or evaluator.drops_repeats:
        counts["repeated_users"] = num_repeated
    train: Train | None = evaluator.inputs.get("train")
    if train is not None:
        counts["train_interactions"] = train.num_interactions
    return counts


def _drop_repeated_users(
    state: EvaluationState, evaluator: Evaluator
) -> tuple[EvaluationState, UserContributions | None, int]:
    """Return the state of each user's first row if repeated users are dropped.

    Also returns the contributions of users, if they are stored, and the number of repeated rows.
    """
    layout, contributions = evaluator.metric_set.layout, None
    if evaluator.stores_contributions:
        contributions = UserContributions.from_rows(state.rows, layout)
    first = state.first_rows()
    num_repeated = 0 if first is None else len(first) - int(first.sum())
    if not num_repeated or not evaluator.drops_repeats:
        return state, contributions, num_repeated
    assert first is not None and contributions is not None
    contributions = contributions.select(first.cpu().numpy())
    kept = replace(
        state,
        sums=contributions.total(layout, state.rows["users"][first].cpu()),
        counts=torch.from_numpy(contributions.counts.sum(0)),
        rows={
            name: values[first] for name, values in state.rows.items() if name.startswith("table_")
        },
        metric_states=tuple(
            metric.filter_rows(states, first)
            for metric, states in zip(evaluator.stateful_metrics, state.metric_states)
        ),
    )
    return kept, contributions, num_repeated


@contextmanager
def _loaded_metric_states(evaluator: Evaluator, state: EvaluationState) -> Iterator[None]:
    """Load the states of metrics that own some; restore their previous states on exit."""
    metrics = evaluator.stateful_metrics
    before = [metric.states() for metric in metrics]
    for metric, states in zip(metrics, state.metric_states):
        metric.restore(states)
    try:
        yield
    finally:
        for metric, states in zip(metrics, before):
            metric.restore(states)


def _add_intervals(
    values: tuple[MetricValue, ...],
    evaluator: Evaluator,
    resamples: int,
    contributions: ContributionStore | None,
) -> tuple[tuple[MetricValue, ...], list[str]]:
    """Return the values with bootstrap intervals, and notes about these."""
    metric_set = evaluator.metric_set
    resampled = metric_set.resample(contributions, values, resamples, evaluator.rule.seed)
    if not resampled:
        return values, [
            "fewer than two users cannot be resampled: there are no bootstrap intervals"
        ]
    intervals = {
        value.name: bootstrap_interval(value.value, *resampled[value.name])
        for value in values
        if value.name in resampled and (value.users is None or value.users > 1)
    }
    values = tuple(_with_interval(value, intervals.get(value.name)) for value in values)
    return values, list(interval_notes(metric_set, values, intervals, resamples))


def _with_interval(value: MetricValue, interval: BootstrapInterval | None) -> MetricValue:
    interval = interval or BootstrapInterval()
    return replace(
        value,
        boot_low=interval.low,
        boot_high=interval.high,
        bca_low=interval.bca_low,
        bca_high=interval.bca_high,
        boot_std_error=interval.std_error,
    )


# --------------------------------------------------------------------------------------------------


def user_tables(
    state: EvaluationState, evaluator: Evaluator, users: Vocabulary | None = None
) -> UserTables:
    """Return `Result.per_user` and `Result.user_labels`, None where they are not kept.

    With `users`, rows are sorted by user index, and ids replace the indices.
    """
    if not evaluator.settings.per_user:
        return None, None
    values = _user_values(state.rows, evaluator)
    labels = _user_labels(values["user"], evaluator) if state.has_user_indices else None
    return _with_ids(values, users), None if labels is None else _with_ids(labels, users)


def _with_ids(rows: pl.DataFrame, users: Vocabulary | None) -> pl.DataFrame:
    if users is None:
        return rows
    rows = rows.sort("user")
    return rows.with_columns(users.ids.gather(rows["user"].to_numpy()).alias("user"))


def _user_values(rows: Mapping[str, Tensor], evaluator: Evaluator) -> pl.DataFrame:
    import polars as pl

    kept = rows["table_kept"]
    users, values = rows["table_users"][kept].cpu(), rows["table_values"][kept].cpu()
    columns, table = evaluator.metric_set.user_columns, values.double().numpy()
    order = [spec for spec in evaluator.specs if spec in columns]
    return pl.DataFrame(
        [
            pl.Series("user", users.numpy()),
            *(pl.Series(str(spec), table[:, columns.index(spec)]) for spec in order),
        ]
    )


def _user_labels(users: pl.Series, evaluator: Evaluator) -> pl.DataFrame | None:
    """Return the activity, group and slices of each user; None if none is known."""
    import polars as pl

    indices, columns = users.to_numpy(), list[pl.Series]()
    if "train" in evaluator.inputs:
        activity = np.diff(evaluator.inputs["train"].interactions.offsets)
        known = indices < len(activity)  # without masking, users need not be rows of train
        counts = activity[np.where(known, indices, 0)] if len(activity) else indices * 0
        columns.append(pl.Series("activity", counts, dtype=pl.Int64).set(pl.Series(~known), None))
    named = {slice_column(name): labels for name, labels in evaluator.slices.items()}
    if "user_groups" in evaluator.inputs:
        named = {"user_groups": evaluator.inputs["user_groups"], **named}
    for name, labels in named.items():
        codes = labels.codes.values.cpu().numpy()[indices]
        texts = pl.Series(name, [*map(str, labels.names), None], dtype=pl.String)
        columns.append(texts.gather(np.where(codes < 0, len(labels.names), codes)))
    return pl.DataFrame([users, *columns]) if columns else None


@cache
def versions() -> dict[str, str]:
    """Return the versions of the software that computes a result."""
    from importlib.metadata import version

    return {
        "weft": version("weft"),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
