"""`finalize`: builds the Result of an evaluation from its state, in one place."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data import Train, Vocabulary
from weft.data.forks import check_fork
from weft.errors import agree
from weft.evaluation.bootstrap import BootstrapInterval, bootstrap_interval
from weft.evaluation.contributions import ContributionStore, LocalContributions, UserContributions
from weft.evaluation.counts import items_without
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.notes import interval_notes, state_notes
from weft.evaluation.rating_notes import large_rating_notes
from weft.evaluation.resamples import Resamples, resample_metrics
from weft.evaluation.result import FRAMES, Result, slice_column
from weft.evaluation.state import EvaluationState
from weft.metrics.accumulators import ItemExposure
from weft.metrics.author_errors import author_errors
from weft.metrics.state_layout import StateLayout, StateView

if TYPE_CHECKING:
    import polars as pl

    from weft.evaluation.evaluator import Evaluator

Floats = NDArray[np.float64]
UserTables = tuple["pl.DataFrame | None", "pl.DataFrame | None"]
_PERCENT = np.arange(101) / 100


@dataclass(frozen=True)
class RunReport:
    """Facts about the inputs of a run for its Result: empty for batches that a caller adds.

    `users` and `items` are the ids of users and items; without them, their indices are kept.
    """

    name: str = "model"
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    users: Vocabulary | None = None
    items: Vocabulary | None = None


@author_errors()
def finalize(
    state: EvaluationState,
    evaluator: Evaluator,
    report: RunReport,
    *,
    contributions: ContributionStore | None = None,
) -> Result:
    """Return the Result of a state: values, intervals, counts, notes, settings and tables.

    `contributions` are those of all users, if they are not in the state.
    """
    metric_set, settings = evaluator.metric_set, evaluator.settings
    state, local, num_repeated = _drop_repeated_users(state, evaluator)
    counts = {**_read_counts(state, evaluator, num_repeated), **report.counts}
    view = metric_set.layout.view(state.sums.cpu())
    values = tuple(metric_set.values(view, state.metric_states))
    if counts.get("invalid_scores"):
        return _undefined_result(values, evaluator, report, counts)
    warnings = list(large_rating_notes(metric_set, counts)) if counts["large_ratings"] else []
    notes = state_notes(evaluator, state, counts, values)
    resamples = None
    if settings.bootstrap is not None:
        if contributions is None and local is not None:
            contributions = LocalContributions(local)
        values, resamples, further = _add_intervals(values, evaluator, contributions, report.items)
        notes += further
    tables = user_tables(state, evaluator, report.users) if settings.per_user else (None, None)
    exposure, popularity = exposure_frames(metric_set.layout, view, evaluator.inputs.get("train"))
    return Result(
        entries=values,
        name=report.name,
        counts=counts,
        notes=(*warnings, *report.notes, *notes),
        settings={**evaluator.record_settings(), **report.settings},
        provenance={**versions(), **report.provenance},
        per_user=tables[0],
        slices=metric_set.by_slice(state.sums.cpu()) if metric_set.has_slices else None,
        exposure=exposure,
        popularity=popularity,
        user_labels=tables[1],
        lists=list_table(state, report) if settings.keep_lists else None,
        resamples=resamples,
        prefix=evaluator.prefix,
        postfix=evaluator.postfix,
    )


def _undefined_result(
    values: Sequence[MetricValue], evaluator: Evaluator, report: RunReport, counts: dict[str, int]
) -> Result:
    """Return a Result in which every value is NaN, because scores were NaN or +inf."""
    nan = math.nan
    return Result(
        entries=tuple(replace(value, value=nan, std_error=nan, parts=()) for value in values),
        name=report.name,
        counts=counts,
        notes=(
            agree(
                counts["invalid_scores"],
                "every value is NaN: {n} row{s} {have} scores that are NaN or +inf",
            ),
            *report.notes,
        ),
        settings={**evaluator.record_settings(), **report.settings},
        provenance={**versions(), **report.provenance},
        prefix=evaluator.prefix,
        postfix=evaluator.postfix,
    )


def _read_counts(state: EvaluationState, evaluator: Evaluator, num_repeated: int) -> dict[str, int]:
    allows_nan = evaluator.settings.nan_scores == "nan"
    counts = evaluator.counter.read(state.counts, allows_nan=allows_nan)
    counts["items"] = evaluator.num_items or state.num_items or 0
    for name, kind in evaluator.kinds.items():
        if kind.axis != "user" and name in evaluator.metric_set.needs:
            given = evaluator.inputs[name]
            is_train = isinstance(given, Train)
            number = given.num_cold_items if is_train else given.num_unlabelled
            counts[items_without(name)] = number
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
    contributions = None
    if evaluator.stores_contributions:
        contributions = UserContributions.from_rows(state.rows, evaluator.metric_set.layout)
    first = _first_rows(state)
    num_repeated = 0 if first is None else len(first) - int(first.sum())
    if not num_repeated or not evaluator.drops_repeats:
        return state, contributions, num_repeated
    assert first is not None and contributions is not None
    contributions = contributions.select(first.cpu().numpy())
    return _select_rows(state, evaluator, contributions, first), contributions, num_repeated


def _select_rows(
    state: EvaluationState, evaluator: Evaluator, contributions: UserContributions, first: Tensor
) -> EvaluationState:
    """Return the state of the rows in the mask `first`, which have these contributions."""
    users = state.rows["users"][first].cpu()
    counts = torch.from_numpy(contributions.counts.sum(0))
    skipped = evaluator.counter.names.index("users_without_truth")  # they contribute nothing
    counts[skipped] = state.counts[skipped]
    return replace(
        state,
        sums=contributions.total(evaluator.metric_set.layout, users),
        counts=counts,
        rows={
            name: values[first] for name, values in state.rows.items() if name.startswith("table_")
        },
        metric_states=tuple(
            metric.filter_rows(states, first) if metric.supports_row_filtering else states
            for metric, states in zip(evaluator.stateful_metrics, state.metric_states)
        ),
    )


def _first_rows(state: EvaluationState) -> Tensor | None:
    """Return a mask `[rows]` of the first row of each user; None without user indices."""
    users = state.rows.get("users")
    if users is None or not len(users) or not state.has_user_indices:
        return None
    order = users.sort(stable=True)
    is_first = torch.ones_like(users, dtype=torch.bool)
    is_first[1:] = order.values.diff() != 0
    return torch.empty_like(is_first).scatter_(0, order.indices, is_first)


def _add_intervals(
    values: tuple[MetricValue, ...],
    evaluator: Evaluator,
    contributions: ContributionStore | None,
    items: Vocabulary | None,
) -> tuple[tuple[MetricValue, ...], Resamples | None, list[str]]:
    """Return the values with bootstrap intervals, their resamples, and notes about these."""
    settings = evaluator.settings
    assert settings.bootstrap is not None
    kept = resample_metrics(
        evaluator.metric_set,
        contributions,
        values,
        resamples=settings.bootstrap,
        seed=evaluator.rule.seed,
        items=items,
    )
    if kept is None:
        note = "there are fewer than two users to resample, so there are no bootstrap intervals"
        return values, None, [note]
    resamples, accelerations = kept
    columns = dict(zip(resamples.names, zip(resamples.values.T, accelerations.tolist())))
    intervals = {
        value.name: bootstrap_interval(value.value, *columns[value.name])
        for value in values
        if value.name in columns and (value.users is None or value.users > 1)
    }
    values = tuple(_with_interval(value, intervals.get(value.name)) for value in values)
    notes = interval_notes(values, intervals, len(resamples.values))
    return values, resamples, list(notes)


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
    """Return `Result.per_user` and `Result.user_labels`, None if no label is known.

    With `users`, rows are sorted by user index, and ids replace the indices.
    """
    check_fork("a table per user")
    values = _user_values(state.rows, evaluator)
    labels = _user_labels(values["user"], evaluator) if state.has_user_indices else None
    return _with_ids(values, users), None if labels is None else _with_ids(labels, users)


def list_table(state: EvaluationState, report: RunReport) -> pl.DataFrame:
    """Return `Result.lists`: a row for each user and position, by user and rank."""
    import polars as pl

    check_fork("a table of lists")
    items = state.rows["table_items"].cpu().numpy()
    number, position = (items >= 0).nonzero()
    listed = pl.Series("item", items[number, position])
    if report.items is not None:
        listed = report.items.ids.gather(listed).alias("item")
    users = pl.Series("user", state.rows["table_users"].cpu().numpy()[number])
    ranks = pl.Series("rank", position + 1, dtype=pl.Int64)
    rows = pl.DataFrame([users, ranks, listed])
    return _with_ids(rows, report.users)


def _with_ids(rows: pl.DataFrame, users: Vocabulary | None) -> pl.DataFrame:
    if users is None:
        return rows
    rows = rows.sort("user", maintain_order=True)
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


# --------------------------------------------------------------------------------------------------
# Distribution of recommendations over the items of the catalogue


def exposure_frames(
    layout: StateLayout, view: Callable[[int | None], StateView], train: Train | None
) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
    """Return `Result.exposure`, and `Result.popularity` if there is train.

    They have rows for each cut-off at which recommendations were counted by item; None if there is
    none, or nothing was recommended. `view(k)` reads the state at a cut-off.
    """
    for exposure in layout.cutoffs:
        if isinstance(exposure, ItemExposure) and exposure.users == "lists":
            break
    else:
        return None, None
    curves, bins = [], []
    for k in layout.cutoffs[exposure]:
        counts = _to_integers(view(k).at_items(exposure))
        if not counts.any():
            continue
        curve = lorenz_curve(counts, exposure.num_items)
        curves.append((np.full(len(curve[0]), k), *curve))
        if train is not None:
            by_item, *columns = train.popularity_bins
            recommended = _to_integers(view(k).by_group(exposure, by_item, len(columns[0])))
            bins.append((np.full(len(recommended), k), *columns, recommended))
    return _frame("exposure", curves), _frame("popularity", bins)


def _to_integers(counts: Tensor) -> NDArray[np.int64]:
    return counts.cpu().numpy().astype(np.int64)


def _frame(name: str, blocks: Sequence[tuple[NDArray[Any], ...]]) -> pl.DataFrame | None:
    """Return a table of a result from blocks of rows, each a tuple of columns."""
    if not blocks:
        return None
    import polars as pl

    return pl.DataFrame(dict(zip(FRAMES[name], map(np.concatenate, zip(*blocks)))))


def lorenz_curve(counts: NDArray[np.int64], num_items: int) -> tuple[Floats, Floats]:
    """Return points of the Lorenz curve: shares of the least recommended items, of recommendations.

    `counts` are the recommendations of items, at least one positive; items without a count, up to
    `num_items`, have 0. There is a point at each percent of the items and at each percent of the
    recommendations, so that steep parts are followed, too.
    """
    frequency = np.bincount(counts)  # number of items by number of recommendations
    frequency[0] += num_items - len(counts)
    levels = np.flatnonzero(frequency)
    items, recommendations = frequency[levels].cumsum(), (levels * frequency[levels]).cumsum()
    corners_x = np.append(0.0, items / items[-1])
    corners_y = np.append(0.0, recommendations / recommendations[-1])
    start = int(levels[0] == 0)  # after the items that were never recommended
    x = np.append(_PERCENT, np.interp(_PERCENT, corners_y[start:], corners_x[start:]))
    y = np.append(np.interp(_PERCENT, corners_x, corners_y), _PERCENT)
    # The curve is monotone: sorting each coordinate keeps the pairs and removes rounding errors.
    x, y = np.sort(x), np.sort(y)
    is_new = np.append(True, (np.diff(x) > 0) | (np.diff(y) > 0))
    return x[is_new], y[is_new]


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
