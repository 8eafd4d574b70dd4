"""Evaluation of users in partitions, as the driver runs it, for every engine.

Facts about all partitions are computed first; each partition then evaluates its users; their
states are merged. The values are those of an evaluation in one process.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from weft.data.dataset import GlobalStats
from weft.data.interactions import digest_sums
from weft.data.slices import parse_slices
from weft.engines.partitioned.empty_run import build_empty_run, empty_stats
from weft.engines.partitioned.global_stats import (
    ITEM_INPUTS,
    Arguments,
    Origins,
    add_slice_edges,
    build_global_stats,
    has_number_column,
    summarize,
)
from weft.engines.partitioned.partition_results import (
    PartialState,
    RemoteContributions,
    combine_partial_states,
    evaluate_partition,
    get_partial_state,
)
from weft.engines.partitioned.partitions import Partition, Partitions, map_partitions, map_reduce
from weft.evaluation.result import Result
from weft.evaluation.runner import EvaluationRun
from weft.metrics.registry import all_metrics

if TYPE_CHECKING:
    from weft.metrics.base.metric import BaseMetric


def evaluate_partitions(
    partitions: Partitions[Partition], origins: Origins, arguments: Arguments, *, engine: str
) -> tuple[Result, Partitions[Any]]:
    """Return the result and the `PartitionResult` of each partition, which stays on its worker.

    `origins` has one entry per input with rows in the partitions. `arguments` are those of
    `weft.evaluate`; of its data, only items, item_clusters and item_features are read here.
    """
    item_inputs = {name: arguments[name] for name in ITEM_INPUTS}
    arguments = _remove_data(arguments, origins)
    slices = parse_slices(arguments["slices"], has_train=arguments["train"] is not None)
    # Wrong settings raise an error before any data is read.
    build_empty_run(arguments, origins, empty_stats(arguments, slices))
    summary = summarize(partitions, origins, [each.where for each in slices if each.cut is None])
    stats = build_global_stats(summary, origins, {**arguments, **item_inputs})
    stats = add_slice_edges(partitions, arguments, origins, stats)
    run = build_empty_run(arguments, origins, stats)
    evaluate = partial(
        evaluate_partition,
        arguments=arguments,
        origins=origins,
        stats=replace(stats, notes=()),
        custom_metrics=_custom_metrics(run),
    )
    results = map_partitions(partitions, evaluate)
    combine = partial(combine_partial_states, stateful_metrics=run.evaluator.stateful_metrics)
    merged = map_reduce(results, get_partial_state, combine)
    run = build_empty_run(arguments, origins, _add_train_by_label(stats, merged))
    contributions = None
    if arguments["bootstrap"] is not None:
        contributions = RemoteContributions(results, merged.num_users)
    return _build_result(run, merged, contributions, engine), results


def _add_train_by_label(stats: GlobalStats, merged: PartialState) -> GlobalStats:
    if merged.train_by_label is None or stats.train is None:
        return stats
    return replace(stats, train=replace(stats.train, by_label=merged.train_by_label))


def _build_result(
    run: EvaluationRun,
    merged: PartialState,
    contributions: RemoteContributions | None,
    engine: str,
) -> Result:
    """Load the merged state into an empty run and return its result, without per-user tables."""
    run.evaluator.restore(merged.state)
    run.counts.update(merged.counts)
    run.candidates.merge(merged.candidates)
    fingerprint: dict[str, Any] = dict.fromkeys(("truth", "train", "source"))
    fingerprint |= {name: digest_sums(sums) for name, sums in merged.digests.items()}
    fingerprint["source_kind"] = merged.source_kind
    if run.candidates.are_per_user:
        fingerprint["candidates"] = run.candidates.fingerprint()
    result = run.result(contributions, fingerprint)
    provenance = {**result.provenance, "engine": engine, "parts": merged.num_partitions}
    return replace(result, provenance=provenance, per_user=None, user_labels=None)


def _remove_data(arguments: Arguments, origins: Origins) -> dict[str, Any]:
    """Return the arguments to send to workers: data that exists elsewhere is replaced by True."""
    slices = {
        name: _remove_slice_data(definition, is_in_partitions=f"slices[{name!r}]" in origins)
        for name, definition in (arguments["slices"] or {}).items()
    }
    labels = {
        name: None if arguments[name] is None else True
        for name in ("item_clusters", "item_features")
    }
    in_partitions = dict.fromkeys((name for name in origins if name in arguments), True)
    removed = {"items": None, "source": None, "slices": slices or None}
    return {**arguments, **in_partitions, **labels, **removed}


def _remove_slice_data(definition: Any, *, is_in_partitions: bool) -> Any:
    if has_number_column(definition):
        return {"of": True, "by": definition["by"]}
    is_expression = isinstance(definition, str) and not is_in_partitions  # else a path
    return definition if is_expression else True


def _custom_metrics(run: EvaluationRun) -> list[type[BaseMetric]]:
    """Return the metrics of a run that are defined outside weft, unknown to other processes."""
    names = " ".join(map(str, run.classes))
    custom = [metric for metric in all_metrics() if not metric.__module__.startswith("weft.")]
    return [metric for metric in custom if metric.__name__ in names]
