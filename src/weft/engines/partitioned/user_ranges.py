"""Partitions by ranges of user ids, which workers read from Parquet files without a shuffle.

Files state the lowest and the highest user of each row group. If the rows of a user follow
each other, as in files written user by user, each partition reads few row groups of others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.engines.partitioned.parquet_rows import ParquetTable, RowReader, RowSpan
from weft.engines.partitioned.partitions import LazyFrames, Partition

if TYPE_CHECKING:
    import polars as pl

_Id = int | str
_MAX_FILES = 1 << 12  # the driver reads their footers
_MAX_FRAME_BYTES = 1 << 26  # of inputs in the driver's memory, which are sent with the partitions
# Rows that are looked at, as a multiple of all rows: splitting rows and moving them costs more.
_MAX_REPETITION = 2.0


@dataclass(frozen=True)
class UserRange:
    """The users from `low` to `high`, without `high`; None if the range has no limit there."""

    low: _Id | None
    high: _Id | None

    def contains(self, column: str) -> pl.Expr:
        """Return the condition that the user in a column belongs to the range."""
        import polars as pl

        user, condition = pl.col(column), pl.lit(True)
        if self.low is not None:
            condition &= user >= self.low
        if self.high is not None:
            condition &= user < self.high
        return condition


class _RowGroup(NamedTuple):
    """A row group of the file of this number; `low` and `high` limit its users."""

    file: int
    num_rows: int
    low: Any  # an int or a str
    high: Any


@dataclass(frozen=True)
class _UserRows:
    """The rows of some users in some files."""

    reader: RowReader
    spans: Sequence[RowSpan]  # whole files
    users: UserRange

    def read(self, roles: Collection[str] | None) -> pl.DataFrame:
        import polars as pl

        reader = self.reader if roles is None else self.reader.select(roles)
        return pl.concat([reader.read_users(span, self.users) for span in self.spans])


def split_into_ranges(
    tables: Mapping[str, ParquetTable], frames: Mapping[str, pl.DataFrame], number: int
) -> list[Partition] | None:
    """Return partitions of the users that workers read from the files, by input, when needed.

    `frames` are inputs in the memory of the driver. Returns None if that is not possible, or if the
    rows of users are spread over the files, so that splitting all rows once costs less.
    """
    groups = _read_all_groups(tables) if _can_send(frames) else None
    if groups is None or not _have_one_type(groups, tables, frames):
        return None
    edges = _find_edges(max(groups.values(), key=_count_rows), number)
    all_groups = [group for own in groups.values() for group in own]
    num_read = sum(group.num_rows * len(_find_ranges(group, edges)) for group in all_groups)
    if num_read > _MAX_REPETITION * _count_rows(all_groups):
        return None
    spans = {name: _select_files(table, groups[name], edges) for name, table in tables.items()}
    return _build_partitions(tables, frames, spans, edges)


def _build_partitions(
    tables: Mapping[str, ParquetTable],
    frames: Mapping[str, pl.DataFrame],
    spans: Mapping[str, Sequence[Any]],
    edges: Sequence[Any],
) -> list[Partition]:
    """Return a partition for each range between `edges`; `spans` are its files by table."""
    partitions = []
    for index, limits in enumerate(pairwise([None, *edges, None])):
        users = UserRange(*limits)
        readers: dict[str, Any] = {
            name: _UserRows(table.reader, spans[name][index], users).read
            for name, table in tables.items()
        }
        for name, frame in frames.items():
            readers[name] = partial(_return_all, frame.filter(users.contains("user")))
        partitions.append(Partition(LazyFrames(readers)))
    return partitions


def _can_send(frames: Mapping[str, pl.DataFrame]) -> bool:
    """Return True if frames are small, and each row has a user, who belongs to a range."""
    size = sum(frame.estimated_size() for frame in frames.values())
    return size <= _MAX_FRAME_BYTES and not any(
        frame["user"].null_count() for frame in frames.values()
    )


def _return_all(frame: pl.DataFrame, roles: Collection[str] | None) -> pl.DataFrame:
    return frame


def _count_rows(groups: Sequence[_RowGroup]) -> int:
    return sum(group.num_rows for group in groups)


def _read_all_groups(tables: Mapping[str, ParquetTable]) -> dict[str, list[_RowGroup]] | None:
    """Return the row groups of each table; None if the users of one of them are not known."""
    paths = [path for table in tables.values() for path, _ in table.files]
    if len(paths) > _MAX_FILES or any("://" in path for path in paths):
        return None
    groups = {}
    for name, table in tables.items():
        if table.reader.ranks_by_row:  # needs the number of each row
            return None
        own = _read_groups(table)
        if own is None:
            return None
        groups[name] = own
    return groups if any(groups.values()) else None


def _read_groups(table: ParquetTable) -> list[_RowGroup] | None:
    """Return the row groups of a table; None if one has rows without a user or no statistics."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    groups, column = [], table.reader.columns["user"]
    for file, (path, _) in enumerate(table.files):
        try:
            metadata = pq.read_metadata(path)
        except (OSError, pa.ArrowException):
            return None
        if pa.types.is_dictionary(metadata.schema.to_arrow_schema().field(column).type):
            return None  # has an order of its own
        names = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            found = group.column(names.index(column)).statistics
            if group.num_rows and not _is_complete(found):
                return None
            if group.num_rows:
                groups.append(_RowGroup(file, group.num_rows, found.min, found.max))
    return groups


def _is_complete(statistics: Any) -> bool:
    """Return True if statistics of a column have its limits, and there is no null."""
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count:
        return False
    return not statistics.null_count


def _have_one_type(
    groups: Mapping[str, Sequence[_RowGroup]],
    tables: Mapping[str, ParquetTable],
    frames: Mapping[str, pl.DataFrame],
) -> bool:
    """Return True if users are integers in all inputs, or strings, before and after reading."""
    types = {type(user) for own in groups.values() for group in own for user in group[2:]}
    types |= {str if "user" in table.reader.string_ids else int for table in tables.values()}
    for frame in frames.values():
        if len(frame):
            types.add(int if frame.schema["user"].is_integer() else str)
    return len(types) == 1


def _find_edges(groups: Sequence[_RowGroup], number: int) -> list[Any]:
    """Return the users at which ranges begin, except for the first of `number` ranges.

    Ranges have about the same number of rows, if the users of a row group are spread evenly between
    its lowest and its highest. Strings are cut between row groups only. Some ranges may be empty.
    """
    _, sizes, lows, highs = zip(*groups)
    values = sorted({*lows, *highs})
    numbers = isinstance(values[0], int)
    places = {value: float(value if numbers else index) for index, value in enumerate(values)}
    starts = np.array([places[low] for low in lows])
    ends = np.array([places[high] for high in highs]) + 1
    density = np.array(sizes) / np.maximum(ends - starts, 1)
    points, where = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    changes = np.bincount(where, np.concatenate([density, -density]))
    rows = np.maximum(np.cumsum(changes)[:-1], 0) * np.diff(points)
    before = np.concatenate([[0.0], np.cumsum(rows)])
    cuts = np.ceil(np.interp(before[-1] * np.arange(1, number) / number, before, points))
    if numbers:
        return [min(max(int(cut), values[0]), values[-1]) for cut in cuts]
    return [values[min(int(cut), len(values) - 1)] for cut in cuts]


def _find_ranges(group: _RowGroup, edges: Sequence[Any]) -> range:
    """Return the numbers of the ranges that may have users of a row group."""
    return range(bisect_right(edges, group.low), bisect_right(edges, group.high) + 1)


def _select_files(
    table: ParquetTable, groups: Sequence[_RowGroup], edges: Sequence[Any]
) -> list[list[RowSpan]]:
    """Return the files of each range; one of them at least, from which the types are known."""
    files: list[dict[int, None]] = [{} for _ in range(len(edges) + 1)]
    for group in groups:
        for index in _find_ranges(group, edges):
            files[index][group.file] = None
    spans = [RowSpan(path, 0, num_rows, 0) for path, num_rows in table.files]
    return [[spans[file] for file in sorted(own)] or spans[:1] for own in files]
