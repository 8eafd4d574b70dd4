"""Edges of slices by numbers, over the users of all partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.data.dataset import GlobalStats
from weft.data.labels import GroupNames
from weft.data.slices import are_integers, format_ranges, parse_slices, slice_numbers
from weft.engines.partitioned.global_stats import Origins, build_partition_run
from weft.engines.partitioned.input_arguments import Arguments
from weft.engines.partitioned.order_statistics import PartitionedFloats
from weft.engines.partitioned.partitions import (
    Partition,
    Partitions,
    map_partitions,
    map_reduce,
    read_partition_table,
)

if TYPE_CHECKING:
    from weft.metrics.base.metric import BaseMetric


class _SliceNumbers(NamedTuple):
    """The numbers by which a slice is cut, of the evaluated users of a partition."""

    numbers: NDArray[np.float64]
    are_integers: bool  # also those of users who are not evaluated


def add_slice_edges(
    partitions: Partitions[Partition],
    arguments: Arguments,
    origins: Origins,
    stats: GlobalStats,
    custom_metrics: Sequence[type[BaseMetric]],
) -> GlobalStats:
    """Return the stats with the edges of slices by numbers, which depend on all users."""
    parsed = parse_slices(arguments["slices"], has_train=arguments["train"] is not None)
    cuts = {user_slice.where: user_slice.cut for user_slice in parsed if user_slice.cut is not None}
    if not cuts:
        return stats
    read = partial(
        _read_slice_numbers,
        names=tuple(cuts),
        arguments=arguments,
        origins=origins,
        stats=stats,
        custom_metrics=custom_metrics,
    )
    numbers = map_partitions(partitions, read)
    have_integers = map_reduce(numbers, _are_integers, _all_by_name)
    groups = dict(stats.groups)
    for name, cut in cuts.items():
        ordered = PartitionedFloats(numbers, partial(_select_numbers, name=name))
        starts = cut.find_edges(ordered) if ordered.size else []
        names = format_ranges(starts, are_integers=have_integers[name]) if ordered.size else []
        groups[name] = GroupNames(tuple(names), starts)
    numbers.release()
    return replace(stats, groups=groups)


def _read_slice_numbers(
    partition: Partition,
    names: Sequence[str],
    *,
    arguments: Arguments,
    origins: Origins,
    stats: GlobalStats,
    custom_metrics: Sequence[type[BaseMetric]],
) -> dict[str, _SliceNumbers]:
    dataset = build_partition_run(partition, arguments, origins, stats, custom_metrics).dataset
    numbers = {}
    for user_slice in parse_slices(arguments["slices"], has_train=arguments["train"] is not None):
        name = user_slice.where
        if name not in names:
            continue
        if user_slice.source is not None:
            table = read_partition_table(partition.frames, name, origins[name])
            user_slice = replace(user_slice, source=table)
        values = slice_numbers(user_slice, dataset.users, 0, dataset.relevant, dataset.train)
        known = values.is_evaluated & ~np.isnan(values.numbers)
        numbers[name] = _SliceNumbers(values.numbers[known], are_integers(values.numbers))
    return numbers


def _select_numbers(slices: Mapping[str, _SliceNumbers], name: str) -> NDArray[np.float64]:
    return slices[name].numbers


def _are_integers(slices: Mapping[str, _SliceNumbers]) -> dict[str, bool]:
    return {name: each.are_integers for name, each in slices.items()}


def _all_by_name(partitions: list[dict[str, bool]]) -> dict[str, bool]:
    return {name: all(each[name] for each in partitions) for name in partitions[0]}
