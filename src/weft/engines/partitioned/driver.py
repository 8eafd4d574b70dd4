"""Evaluation of users in partitions, as the driver runs it, for every engine.

Facts about all partitions are computed first; each partition then evaluates its users; their
states are merged. The values are those of an evaluation in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from weft._choices import CandidatePool, choices
from weft.data import Vocabulary
from weft.data.dataset import GlobalStats
from weft.data.evaluation_inputs import LISTS_NAME_USERS
from weft.data.interactions import digest_sums
from weft.data.item_slices import has_times
from weft.data.labels import NO_LABELS, GroupNames
from weft.data.popularity import TrainTotals
from weft.data.positions import PositionalIds, are_positions, check_declared
from weft.data.side_inputs import read_item_inputs
from weft.data.slices import UserSlice, parse_slices
from weft.data.sources import Factors, Model
from weft.data.topk_items import TopKItems
from weft.data.truth_groups import LabelGroups
from weft.engines.partitioned.global_stats import (
    Origins,
    build_global_stats,
    build_partition_run,
    find_max_rating,
    summarize,
)
from weft.engines.partitioned.input_arguments import (
    ITEM_SIDE_INPUTS,
    Arguments,
    input_key,
    item_inputs,
    item_slices,
    replace_item_slices,
    spread_inputs,
    user_inputs,
)
from weft.engines.partitioned.local_inputs import DriverInput
from weft.engines.partitioned.partition_results import (
    PartialState,
    PartitionResult,
    RemoteContributions,
    combine_partial_states,
    evaluate_partition,
)
from weft.engines.partitioned.partitions import (
    InputOrigin,
    Partition,
    Partitions,
    map_partitions,
    map_reduce,
)
from weft.engines.partitioned.slice_edges import add_slice_edges
from weft.errors import InputError, SettingError, setting_ref
from weft.evaluation.result import Result
from weft.evaluation.runner import EvaluationRun
from weft.evaluation.setting_rules import read_metrics, split_candidates
from weft.metrics.declarations import MAX_RATING, own_parameters
from weft.metrics.registry import all_metrics

if TYPE_CHECKING:
    from weft.metrics.base.metric import BaseMetric

# Columns of the inputs with rows of users, and inputs about items, which the driver reads.
_COLUMNS = {
    "source": ("user", "item", "score"),
    "truth": ("user", "item", "rating"),
    "train": ("user", "item", "rating"),
    "users": ("user",),
    "user_groups": ("user", "label"),
    "candidates": ("user", "item"),
}
ITEM_INPUTS = ("items", *ITEM_SIDE_INPUTS)
_IN_PARTITIONS = True  # replaces data that is in the partitions


def take_user_inputs(
    arguments: Arguments, *, has_lists: bool, engine: str, has_table_names: bool = False
) -> tuple[dict[str, Any], dict[str, Any], PositionalIds]:
    """Return the inputs with rows of users, the arguments of `weft.evaluate` without them, and what
    the caller declared about ids that are positions.

    With `has_table_names`, strings may also be names of tables. Raises an error for settings that
    are wrong or unsupported, before any data is read.
    """
    arguments = spread_inputs(arguments)
    _check_supported(arguments, has_lists=has_lists, engine=engine)
    positions = _read_positions(arguments)
    arguments = {**arguments, **{f"{kind}s": None for kind in positions.declared}}
    slices = parse_slices(arguments["slices"], has_train=arguments["train"] is not None)
    inputs = {
        name: arguments[name] for name in _COLUMNS if arguments[name] is not None or name == "truth"
    }
    if not has_lists:
        inputs.pop("source", None)
    if _names_pool(arguments["candidates"], has_table_names=has_table_names):
        del inputs["candidates"]
    remaining = {**arguments, **dict.fromkeys(inputs, _IN_PARTITIONS), "source": None}
    for name, kind in user_inputs(arguments).items():
        data = arguments["inputs"][name]
        is_on_driver = kind.form in ("vector", "list")
        inputs[input_key(name)] = DriverInput(data, name, kind) if is_on_driver else data
        remaining["inputs"] = {**remaining["inputs"], name: _IN_PARTITIONS}
    for each in slices:
        if each.source is not None:
            inputs[each.where] = each.source
            request = remaining["slices"][each.name]
            request = _IN_PARTITIONS if each.cut is None else {**request, "of": _IN_PARTITIONS}
            remaining["slices"] = {**remaining["slices"], each.name: request}
    origins = {
        name: InputOrigin(name, columns=_find_columns(name, data)) for name, data in inputs.items()
    }
    run = _build_empty_run(remaining, origins, _empty_stats(remaining, slices))
    _check_mergeable(run, engine)
    return inputs, remaining, positions


def _find_columns(name: str, data: Any) -> tuple[str, ...]:
    """Return the columns of an input with rows of users, before it is read."""
    if isinstance(data, DriverInput) and data.kind.form == "list":
        return ("user", "item", "rank")
    return _COLUMNS.get(name, ("user", "label"))


def _read_positions(arguments: Arguments) -> PositionalIds:
    given = {name: arguments[name] for name in ("truth", "train") if arguments[name] is not None}
    positions = PositionalIds(
        {},
        frozenset(kind for kind in ("user", "item") if are_positions(arguments[f"{kind}s"])),
        inputs=tuple(given),
        frames=tuple(name for name, data in given.items() if not isinstance(data, Mapping)),
        is_unsaid=arguments["users"] is None and arguments["items"] is None,
    )
    source = arguments["source"]
    if isinstance(source, TopKItems) and source.has_undeclared_rows:
        sizes = {"user": len(source.users)}
        return replace(positions, sizes=sizes, is_unsaid=True, origin="weft.TopKItems")
    return positions


def _check_supported(arguments: Arguments, *, has_lists: bool, engine: str) -> None:
    if arguments["keep_lists"]:
        raise SettingError(
            f"{setting_ref('keep_lists', True)} is supported only in one process, not on {engine}."
        )
    if arguments["checkpoint"] is not None:
        raise SettingError(
            f"{setting_ref('checkpoint')} is supported only in one process; {engine} recomputes "
            "lost partitions itself. Remove it."
        )
    if has_times(arguments["item_slices"]):
        raise SettingError(
            f"{setting_ref('item_slices')} by time is supported only in one process; on {engine} "
            "the timestamps of the truth are not read. Give {'of': ..., 'by': ...} or labels of "
            "items, or evaluate it with weft.evaluate."
        )
    _check_no_numbers(arguments, engine)
    is_model = not has_lists and not isinstance(arguments["source"], Factors)
    check_declared(arguments["users"], arguments["items"], has_lists=has_lists, is_model=is_model)
    if has_lists and arguments["users"] is not None:
        raise SettingError(LISTS_NAME_USERS)


def _check_no_numbers(arguments: Arguments, engine: str) -> None:
    """Raise `InputError` for arrays, which have row and column numbers in place of ids."""
    for name in ("truth", "train", "candidates", "items", "item_clusters"):
        data = arguments[name]
        is_matrix = getattr(data, "ndim", 0) == 2 and not hasattr(data, "columns")
        if is_matrix or (name == "truth" and getattr(data, "ndim", 0) == 1):
            form = "a matrix with row and column numbers" if is_matrix else "an array of numbers"
            raise InputError(
                f"{name} is {form}; on {engine}, users and items "
                "have ids. Give a frame or a file, or evaluate it in one process with "
                "weft.evaluate."
            )


def _names_pool(candidates: Any, *, has_table_names: bool) -> bool:
    """Return True for "all", "warm" and the like, False for data; raise an error for the rest."""
    if has_table_names and isinstance(candidates, str):
        return candidates.casefold() in choices(CandidatePool)
    return split_candidates(candidates)[1] is None


def _check_mergeable(run: EvaluationRun, engine: str) -> None:
    """Raise `SettingError` for metrics with states that do not merge over partitions."""
    counting = [
        str(spec)
        for spec, metric in run.evaluator.metric_set.classes.items()
        if "num_users" in own_parameters(metric) and not metric.__module__.startswith("weft.")
    ]
    if counting:
        raise SettingError(
            f"{', '.join(counting)} takes num_users, but on {engine} each partition has only its "
            "own users, numbered from 0. Use sums over users instead of a state with one row per "
            "user, or evaluate it in one process with weft.evaluate."
        )
    metrics = run.evaluator.metric_set.stateful.items()
    unsupported = [
        str(spec)
        for spec, metric in metrics
        if any(isinstance(default, list) for default in metric._defaults.values())
    ]
    if unsupported:
        raise SettingError(
            f"{', '.join(unsupported)} keeps data of every row or score, which would be collected "
            "on one machine; evaluate it in one process with weft.evaluate, or remove it on "
            f"{engine}."
        )


# --------------------------------------------------------------------------------------------------


def collect_item_inputs(arguments: dict[str, Any], collect: Callable[[Any, str], Any]) -> None:
    """Replace the inputs about items by data in memory; `collect` takes data and its name."""
    for name in ITEM_INPUTS:
        arguments[name] = collect(arguments[name], name)
    arguments["item_slices"] = replace_item_slices(arguments, collect)
    arguments["inputs"] = {name: collect(data, name) for name, data in arguments["inputs"].items()}


def evaluate_partitions(
    partitions: Partitions[Partition],
    origins: Origins,
    arguments: Arguments,
    positions: PositionalIds,
    *,
    engine: str,
) -> tuple[Result, Partitions[Any] | None]:
    """Return the result and the `PartitionResult` of each partition, which stays on its worker.

    It is None if nothing but its state is needed.
    `origins` has one entry per input with rows in the partitions; `arguments` and `positions` are
    those of `take_user_inputs`, with the inputs about items as `weft.evaluate` takes them.
    """
    summary = summarize(partitions, origins, _find_labels(arguments))
    stats = build_global_stats(summary, origins, arguments, positions)
    arguments = _mark_item_inputs(arguments)
    run = _build_empty_run(arguments, origins, stats)
    if MAX_RATING in run.evaluator.metric_set.needs:
        highest = find_max_rating(partitions, origins, implicit=arguments["implicit"])
        stats = replace(stats, max_rating=highest)
    custom_metrics = _custom_metrics(run)
    stats = add_slice_edges(partitions, arguments, origins, stats, custom_metrics)
    run = _build_empty_run(arguments, origins, stats)
    evaluate_users = partial(
        evaluate_partition,
        arguments=arguments,
        origins=origins,
        stats=replace(stats, notes=()),
        custom_metrics=custom_metrics,
        own_states=[metric._own_state for metric in run.evaluator.stateful_metrics],
    )
    combine = partial(combine_partial_states, stateful_metrics=run.evaluator.stateful_metrics)
    results = None
    if arguments["per_user"] or arguments["bootstrap"] is not None:
        results = map_partitions(partitions, evaluate_users)
        merged = map_reduce(results, attrgetter("partial_state"), combine)
    else:
        merged = map_reduce(partitions, partial(_evaluate_state, evaluate_users), combine)
    if merged.train_by_label is not None and stats.train is not None:
        totals = replace(stats.train, by_label=merged.train_by_label)
        run = _build_empty_run(arguments, origins, replace(stats, train=totals))
    contributions = None
    if results is not None and arguments["bootstrap"] is not None and merged.num_users:
        contributions = RemoteContributions(results, merged.num_users)
    return _build_result(run, merged, contributions, engine), results


def _mark_item_inputs(arguments: Arguments) -> Arguments:
    """Return the arguments without the data about items, which the global stats have."""
    slices = replace_item_slices(arguments, lambda data, name: _IN_PARTITIONS)
    inputs = dict.fromkeys(arguments["inputs"], _IN_PARTITIONS)
    return {
        **arguments,
        **dict.fromkeys(ITEM_INPUTS),
        "item_slices": slices,
        "inputs": inputs,
    }


def _find_labels(arguments: Arguments) -> dict[str, bool]:
    """Return the inputs about users by name: True for labels, False for numbers and lists."""
    slices = parse_slices(arguments["slices"], has_train=arguments["train"] is not None)
    labels = {
        input_key(name): kind.form == "label" for name, kind in user_inputs(arguments).items()
    }
    return labels | {each.where: True for each in slices if each.cut is None}


def _evaluate_state(
    evaluate_users: Callable[[Partition], PartitionResult], partition: Partition
) -> PartialState:
    return evaluate_users(partition).partial_state


def _build_result(
    run: EvaluationRun,
    merged: PartialState,
    contributions: RemoteContributions | None,
    engine: str,
) -> Result:
    """Load the merged state into an empty run and return its result, without per-user tables."""
    run.evaluator.restore(merged.state)
    run.counts.update(merged.counts)
    for state in merged.candidates:
        run.candidates.merge(state)
    fingerprint: dict[str, Any] = dict.fromkeys(("truth", "train", "source"))
    fingerprint |= {name: digest_sums(sums) for name, sums in merged.digests.items()}
    fingerprint["source_kind"] = merged.source_kind
    fingerprint |= {
        name: value.fingerprint() for name, value in run.dataset.stats.item_inputs.items()
    }
    if run.candidates.are_per_user:
        fingerprint["candidates"] = run.candidates.fingerprint()
    result = run.result(contributions, fingerprint)
    provenance = {**result.provenance, "engine": engine, "parts": len(merged.candidates)}
    return replace(result, provenance=provenance, per_user=None, user_labels=None)


def _custom_metrics(run: EvaluationRun) -> list[type[BaseMetric]]:
    """Return the metrics of a run that are defined outside weft, unknown to other processes."""
    names = " ".join(map(repr, run.classes))  # with the metrics that composites combine
    custom = [metric for metric in all_metrics() if not metric.__module__.startswith("weft.")]
    return [metric for metric in custom if metric.__name__ in names]


# --------------------------------------------------------------------------------------------------


def _build_empty_run(arguments: Arguments, origins: Origins, stats: GlobalStats) -> EvaluationRun:
    """Return a run without users, to check settings or to load merged states into."""
    import polars as pl

    types = {"user": pl.Int64, "item": pl.Int64, "label": pl.String}
    frames = {
        name: pl.DataFrame(
            schema={column: types.get(column, pl.Float64) for column in origin.columns}
        )
        for name, origin in origins.items()
    }
    partition = Partition(frames, None if "source" in origins else Model(_score_no_items))
    # The driver may lack the device of the workers.
    return build_partition_run(partition, {**arguments, "device": None}, origins, stats)


def _score_no_items(users: Any) -> Tensor:
    return torch.empty((len(users), 0))


def _empty_stats(arguments: Arguments, slices: Sequence[UserSlice]) -> GlobalStats:
    """Return the stats of inputs without rows, for a run that only checks settings."""
    sizes = [getattr(metric, "num_items", None) for metric in read_metrics(arguments["metrics"])]
    items = Vocabulary.from_size("item", next((size for size in sizes if isinstance(size, int)), 0))
    totals = None
    if arguments["train"] is not None:
        totals = TrainTotals(np.zeros(items.size, dtype=np.int64), 0)
    kinds = {name: kind.without_error() for name, kind in item_inputs(arguments).items()}
    labels = read_item_inputs({name: {} for name in kinds}, kinds, items, num_in_order=0)
    groups = {each.name: LabelGroups(NO_LABELS) for each in item_slices(arguments)}
    names = ["user_groups", *user_inputs(arguments), *(each.where for each in slices)]
    user_groups = dict.fromkeys(names, GroupNames((), []))
    return GlobalStats(items, totals, labels, user_groups, item_groups=groups)
