"""Evaluation of one partition: the state to merge, and the values of users, which stay there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from weft.data import Interactions, Labels
from weft.data.dataset import EvaluationData, GlobalStats
from weft.data.interactions import hash_sums_by_id
from weft.data.sorted_values import SortedValues
from weft.engines.partitioned.global_stats import Origins, build_partition_run
from weft.engines.partitioned.input_arguments import Arguments
from weft.engines.partitioned.order_statistics import PartitionedIntegers
from weft.engines.partitioned.partitions import Partition, Partitions
from weft.evaluation.contributions import (
    ROW_PREFIX,
    JackknifeMoments,
    LocalContributions,
    UserContributions,
    WeightedSums,
)
from weft.evaluation.resample_weights import UserWeights, jackknife_hashes
from weft.evaluation.runner import NO_SOURCE
from weft.evaluation.state import EvaluationState, combine_states

if TYPE_CHECKING:
    import polars as pl

    from weft.metrics.base.metric import BaseMetric

Integers = NDArray[np.int64]
_Tables = tuple["pl.DataFrame | None", "pl.DataFrame | None"]


@dataclass(frozen=True)
class PartialState:
    """The mergeable state of some partitions, with the counts and digests of a result."""

    state: EvaluationState
    counts: Counter[str]
    candidates: list[dict[str, list[int]]]  # the state of each partition's candidate provider
    digests: dict[str, NDArray[np.uint64]]
    train_by_label: Integers | None  # train interactions by user group and item cluster
    num_users: int  # users with stored contributions
    source_kind: str


@dataclass(frozen=True)
class PartitionResult:
    """The result of a partition; all but its partial state is about users and stays there."""

    partial_state: PartialState
    contributions: LocalContributions | None
    values: pl.DataFrame | None  # (user, a column per metric)
    labels: pl.DataFrame | None  # (user, a column per slice)


def evaluate_partition(
    partition: Partition,
    *,
    arguments: Arguments,
    origins: Origins,
    stats: GlobalStats,
    custom_metrics: Sequence[type[BaseMetric]],
    own_states: Sequence[str],
) -> PartitionResult:
    """Evaluate the users of a partition, on a worker.

    `own_states` are the names of the number of rows in the states of the driver's metrics. Here
    they differ, because they depend on the inputs of a metric, and labels are those of some users.
    """
    run = build_partition_run(partition, arguments, origins, stats, custom_metrics)
    run.run()
    run.evaluator.to("cpu")
    state = run.evaluator.state
    metric_states = tuple(
        {own if name == metric._own_state else name: tensor for name, tensor in states.items()}
        for metric, own, states in zip(run.evaluator.own_metrics, own_states, state.metric_states)
    )
    rows = {
        name: values[:0] for name, values in state.rows.items() if not name.startswith(ROW_PREFIX)
    }
    contributions = UserContributions.from_rows(state.rows, run.evaluator.metric_set.layout)
    partial_state = PartialState(
        _compress(replace(state, rows=rows, metric_states=metric_states)),
        run.counts,
        [run.candidates.state()],
        _digest_inputs(run.dataset),
        _count_train_by_label(run.dataset),
        0 if contributions is None else len(contributions.keys),
        run.dataset.source.kind,
    )
    values, labels = (_cast_users(table, partition) for table in run.user_tables())
    local = None if contributions is None else LocalContributions(contributions)
    return PartitionResult(partial_state, local, values, labels)


def _cast_users(table: pl.DataFrame | None, partition: Partition) -> pl.DataFrame | None:
    """Return a table with the type of ids of the partition, which also one without users has."""
    if table is None:
        return None
    users = partition.select(["user"]).frames["truth"]["user"]
    return table.with_columns(table["user"].cast(users.dtype))


def _count_train_by_label(dataset: EvaluationData) -> Integers | None:
    groups, clusters = dataset.side.get("user_groups"), dataset.side.get("item_clusters")
    if dataset.train is None or not isinstance(groups, Labels) or not isinstance(clusters, Labels):
        return None
    return dataset.train.count_by_label(groups, clusters)


def _digest_inputs(dataset: EvaluationData) -> dict[str, NDArray[np.uint64]]:
    """Return digests of the inputs by id: sums, which do not depend on the partitioning."""
    interactions = {"truth": dataset.truth}
    if dataset.train is not None:
        interactions["train"] = dataset.train.interactions
    digests = {
        name: hash_sums_by_id(rows, dataset.all_users, dataset.items)
        for name, rows in interactions.items()
    }
    if (lists := dataset.lists) is not None:
        scores = np.zeros(len(lists.items)) if lists.scores is None else lists.scores
        entries = Interactions(lists.offsets, lists.items.astype(np.int64), scores, lists.num_items)
        digests["source"] = hash_sums_by_id(entries, dataset.users, dataset.items)
    return digests | dataset.hash_user_inputs()


def _compress(state: EvaluationState) -> EvaluationState:
    """Return the state with sparse sums if most of them are 0 (few users, many items)."""
    is_sparse = 4 * int(torch.count_nonzero(state.sums)) < len(state.sums)
    return replace(state, sums=state.sums.to_sparse() if is_sparse else state.sums.clone())


def combine_partial_states(
    states: list[PartialState], *, stateful_metrics: Sequence[BaseMetric]
) -> PartialState:
    """Merge the states of partitions; sums, counts and digests add up."""
    counts = Counter[str]()
    for each in states:
        counts.update(each.counts)
    by_label = [each.train_by_label for each in states if each.train_by_label is not None]
    dense = [replace(each.state, sums=each.state.sums.to_dense()) for each in states]
    return PartialState(
        combine_states(dense, stateful_metrics),
        counts,
        [candidates for each in states for candidates in each.candidates],
        {
            name: np.sum([each.digests[name] for each in states], axis=0, dtype=np.uint64)
            for name in states[0].digests
        },
        np.sum(by_label, axis=0) if by_label else None,
        sum(each.num_users for each in states),
        states[0].source_kind,
    )


# --------------------------------------------------------------------------------------------------


def get_user_values(result: PartitionResult) -> pl.DataFrame:
    """Return the values of the users of a partition: user, and a column per metric."""
    assert result.values is not None
    return result.values.drop(NO_SOURCE)


def collect_user_tables(results: Partitions[Any]) -> _Tables:
    """Return the values and the labels of all users, sorted, in the memory of this process."""
    tables = results.map_reduce(attrgetter("values", "labels"), _concat_tables)
    values, labels = (
        None if table is None else table.sort(NO_SOURCE, "user").drop(NO_SOURCE) for table in tables
    )
    return values, labels


def _concat_tables(partitions: list[_Tables]) -> _Tables:
    import polars as pl

    values, labels = (
        [table for table in tables if table is not None] for tables in zip(*partitions)
    )
    return pl.concat(values) if values else None, pl.concat(labels) if labels else None


class RemoteContributions:
    """The contributions of users to every sum, stored in their partitions."""

    def __init__(self, results: Partitions[Any], users: int) -> None:
        self._results, self.users = results, users

    def weighted_sums(self, weights: UserWeights, *, terms: bool) -> WeightedSums:
        call = methodcaller("weighted_sums", weights, terms=terms)
        sums: WeightedSums = self._map_reduce(call, WeightedSums.merge)
        return sums

    def jackknife_moments(
        self, sums: NDArray[np.float64], counts: NDArray[np.float64]
    ) -> JackknifeMoments:
        call = methodcaller("jackknife_moments", sums, counts)
        moments: JackknifeMoments = self._map_reduce(call, JackknifeMoments.merge)
        return moments

    def hashes(self) -> SortedValues[np.int64]:
        return PartitionedIntegers(self._results, _jackknife_hashes)

    def _map_reduce(
        self, function: Callable[[LocalContributions], Any], merge: Callable[[list[Any]], Any]
    ) -> Any:
        """Merge what a function returns for the partitions that have users."""
        return self._results.map_reduce(partial(_apply, function), partial(_merge_present, merge))


def _apply(function: Callable[[LocalContributions], Any], result: PartitionResult) -> Any:
    return None if result.contributions is None else function(result.contributions)


def _merge_present(merge: Callable[[list[Any]], Any], values: list[Any]) -> Any:
    present = [value for value in values if value is not None]
    return merge(present) if present else None


def _jackknife_hashes(result: PartitionResult) -> Integers:
    if result.contributions is None:
        return np.empty(0, dtype=np.int64)
    return jackknife_hashes(result.contributions.keys)
