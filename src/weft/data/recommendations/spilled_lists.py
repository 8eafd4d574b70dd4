"""Recommendation lists of files that do not fit into memory, sorted on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data.interactions import InteractionTable
from weft.data.memory import memory_budget
from weft.data.readers.files import File, FileTable, is_file, read_table
from weft.data.readers.row_streams import RowStream, estimate_rows
from weft.data.readers.scans import collect
from weft.data.recommendations.disk_arrays import DiskArray
from weft.data.recommendations.encoded_lists import EncodedLists
from weft.data.recommendations.list_policy import ListPolicy
from weft.data.recommendations.list_table import (
    COUNT_AS_MISSES,
    Duplicates,
    ListTable,
    check_similar_names,
    check_unique,
    code_type,
    ranking_criterion,
    read_lists,
)
from weft.data.recommendations.row_groups import RowGroups
from weft.data.sorting import Numbers
from weft.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl

# Bytes of memory per row: if all are read at once, and of a partition that is sorted.
_ROW_BYTES = 40
_SORTED_ROW_BYTES = 96
_PARTITION_SHARE = 4  # of the memory, a partition takes a quarter
_MIN_PARTITION_ROWS = 1 << 16
_HEAD_ROWS = 64  # with ids that messages show
_Encode = Callable[[ListTable, Vocabulary, Vocabulary], tuple[EncodedLists, Duplicates]]


def open_lists(data: Any, memory: int | None = None) -> ListTable | SpilledLists:
    """Return lists in any accepted form; files that need more than `memory` bytes are not read yet.

    By default the memory is half of what is available.
    """
    if not is_file(data) or isinstance(data, FileTable):
        return read_lists(data)
    file = data if isinstance(data, File) else File(Path(data))
    num_rows, are_parquet = estimate_rows(file.path, f"source ({file.path})")
    memory = memory_budget(memory)
    if num_rows * _ROW_BYTES <= memory:
        return read_lists(data)
    rows = RowStream(in_place=are_parquet)
    table = read_table(file, "source", use="lists", collect=rows.collect)
    if rows.frame is None:
        note = (
            f"{file.path.name} is one JSON object, which is read into memory regardless of its size"
        )
        return read_lists(replace(table, notes=(*table.notes, note)))
    return SpilledLists(table, rows, memory)


class SpilledLists:
    """Lists in a file that does not fit into memory; `encode` sorts them on disk.

    It is used in place of a `ListTable`. `file` has the columns of the file, but not its rows.
    """

    has_undeclared_rows = False

    def __init__(self, file: FileTable, rows: RowStream, memory: int) -> None:
        self.file, self._rows, self._memory = file, rows, memory
        self.where, self.unused_columns = file.where, file.unused_columns
        self.has_scores, self._has_ranks = "score" in file.columns, "rank" in file.columns
        if self.order == "rows":
            check_similar_names(self.unused_columns, self.where)
        if rows.has_invalid_numbers:
            self._raise_invalid_numbers()

    @property
    def order(self) -> str:
        """The criterion of ranking: "rank", "score", or "rows" for the order of rows."""
        return ranking_criterion(has_scores=self.has_scores, has_ranks=self._has_ranks)

    @cached_property
    def _counts(self) -> pl.DataFrame:
        """The distinct users and the number of their rows: (user, len)."""
        assert self._rows.frame is not None
        return collect(self._rows.frame.group_by("user").len())

    @property
    def users(self) -> pl.Series:
        """The users of the lists."""
        return self._counts["user"]

    @cached_property
    def items(self) -> pl.Series:
        """The items of the lists."""
        return self._rows.distinct("item")

    def encode(
        self, users: Vocabulary, items: Vocabulary, policy: ListPolicy | None = None
    ) -> EncodedLists:
        """Return the lists by code, best item first, on disk; see `ListTable.encode`."""
        policy, num_items = policy or ListPolicy(), items.size
        items = policy.extend(items, self.items, self.where)
        self._check_items(items)
        offsets = np.zeros(users.size + 1, dtype=np.int64)
        offsets[1 + users.encode(self.users, self.where)] = self._counts["len"].to_numpy()
        np.cumsum(offsets, out=offsets)
        bounds = _divide_users(offsets, self._memory // _PARTITION_SHARE // _SORTED_ROW_BYTES)
        columns = self._partition_rows(users, items, offsets=offsets, bounds=bounds)
        lists = self._sort(
            columns,
            users,
            items,
            offsets=offsets,
            bounds=bounds,
            encode=partial(ListTable.encode_unchecked, policy=policy, num_items=num_items),
        )
        return replace(lists, num_items=num_items, has_empty=policy.leaves_empty)

    def _partition_rows(
        self, users: Vocabulary, items: Vocabulary, *, offsets: Numbers, bounds: Numbers
    ) -> dict[str, DiskArray]:
        """Write the columns of the rows, grouped by partition of the users.

        The rows of a partition keep their order. The column `row` has their numbers.
        """
        num_rows = self._rows.num_rows
        types: dict[str, Any] = {"user": code_type(users), "item": code_type(items)}
        types["row"] = np.uint32 if num_rows < 1 << 32 else np.int64
        types |= {name: np.float64 for name in ("score", "rank") if name in self.file.columns}
        columns = {name: DiskArray(dtype, num_rows) for name, dtype in types.items()}
        starts, first_row = offsets[bounds[:-1]], 0
        for batch in self._encoded_batches(users, items):
            batch["row"] = np.arange(first_row, first_row + len(batch["user"]))
            owners = np.searchsorted(bounds, batch["user"], side="right") - 1
            groups = RowGroups.from_owners(owners.astype(np.int32), len(bounds) - 1)
            for name, column in columns.items():
                values = groups.group(batch[name].astype(types[name], copy=False))
                for start, (first, last) in zip(starts, pairwise(groups.offsets)):
                    column.values[start : start + last - first] = values[first:last]
                column.release()
            starts = starts + np.diff(groups.offsets)
            first_row += len(batch["user"])
        return columns

    def _encoded_batches(
        self, users: Vocabulary, items: Vocabulary
    ) -> Iterator[dict[str, NDArray[Any]]]:
        import polars as pl

        selected = {name: pl.col(name) for name in self.file.columns}
        vocabularies = {"user": users, "item": items}
        for name, vocabulary in vocabularies.items():
            if not vocabulary.ids.dtype.is_integer():  # one hash table for all batches
                codes = pl.Enum(vocabulary.ids)
                selected[name] = selected[name].cast(codes).to_physical()
        for batch in self._rows.batches(selected):
            columns = {name: batch[name].to_numpy() for name in batch.columns}
            for name, vocabulary in vocabularies.items():
                if vocabulary.ids.dtype.is_integer():
                    columns[name] = vocabulary.encode(batch[name], self.where)
            yield columns

    def _sort(
        self,
        columns: Mapping[str, DiskArray],
        users: Vocabulary,
        items: Vocabulary,
        *,
        offsets: Numbers,
        bounds: Numbers,
        encode: _Encode,
    ) -> EncodedLists:
        """Sort the lists of each partition in memory, and write them back."""
        scores = columns.get("score")
        disk_arrays = tuple(columns[name] for name in ("item", "score") if name in columns)
        num_dropped = num_rank_gaps = end = 0
        found: list[Duplicates] = []
        sorted_offsets = np.zeros_like(offsets)
        catalogue = Vocabulary.from_size("item", items.size)
        for first, last in pairwise(bounds):
            lists, duplicates = self._sort_partition(
                columns, catalogue, offsets[first : last + 1], first_user=first, encode=encode
            )
            found.append(_restore_ids(duplicates, users, items, first_user=int(first)))
            num_dropped += lists.num_dropped
            num_rank_gaps += lists.num_rank_gaps
            sorted_offsets[first + 1 : last + 1] = end + lists.offsets[1:]
            start, end = end, end + len(lists.items)
            for array, values in zip(disk_arrays, (lists.items, lists.scores)):
                array.values[start:end] = values
            for column in columns.values():
                column.release()
        check_unique(_merge_duplicates(found))
        return EncodedLists(
            sorted_offsets,
            columns["item"].values[:end],
            None if scores is None else scores.values[:end],
            items.size,
            is_order_given=self.order != "score",
            num_dropped=num_dropped,
            num_rank_gaps=0 if self._has_fractional_ranks else num_rank_gaps,
            disk_arrays=disk_arrays,
        )

    def _sort_partition(
        self,
        columns: Mapping[str, DiskArray],
        items: Vocabulary,
        offsets: Numbers,
        *,
        first_user: int,
        encode: _Encode,
    ) -> tuple[EncodedLists, Duplicates]:
        """Return the lists of the users from `first_user`, and the rows that repeat a value.

        `offsets` are those of their rows. Users have codes from 0 in the lists and in the rows.
        """
        part = slice(offsets[0], offsets[-1])
        rows = {name: np.array(column.values[part]) for name, column in columns.items()}
        rows["user"] -= rows["user"].dtype.type(first_user)
        users = Vocabulary.from_size("user", len(offsets) - 1)
        return encode(self._build_table(rows), users, items)

    def _build_table(self, rows: Mapping[str, NDArray[Any]]) -> ListTable:
        import polars as pl

        values = rows["score"] if self.has_scores else np.zeros(len(rows["user"]))
        entries = InteractionTable(
            self.where,
            pl.Series(rows["user"]),
            pl.Series(rows["item"]),
            values,
            value_name="score" if self.has_scores else "",
            table=self.file,
            row_numbers=rows["row"].astype(np.int64),
        )
        return ListTable(entries, rows.get("rank"))

    @property
    def _has_fractional_ranks(self) -> bool:
        import polars as pl

        if not self._has_ranks:
            return False
        assert self._rows.frame is not None
        is_fraction = (pl.col("rank") % 1 != 0).any()
        return bool(collect(self._rows.frame.select(is_fraction)).item())

    # ----------------------------------------------------------------------------------------------
    # Errors

    def _raise_invalid_numbers(self) -> None:
        """Raise `InputError` with the first rows with a score or rank that is not finite."""
        import polars as pl

        for name in ("score", "rank"):
            if name in self.file.columns:
                table = self._read_rows(~pl.col(name).is_finite().fill_null(False), name)
                table.check_finite()

    def _check_items(self, items: Vocabulary) -> None:
        """Raise `InputError` with the rows of items that are not in the catalogue."""
        import polars as pl

        assert self._rows.frame is not None
        head = collect(self._rows.frame.select("item").head(_HEAD_ROWS))
        items.encode(head["item"], self.where)  # raises for ids of another type
        unknown = self.items.filter(items.encode(self.items, self.where) < 0)
        if len(unknown):
            name = "score" if self.has_scores else ""
            rows = self._read_rows(pl.col("item").is_in(unknown.implode()), name)
            rows.encode_items(items, remedy=COUNT_AS_MISSES)

    def _read_rows(self, rows: pl.Expr, value_name: str) -> InteractionTable:
        """Return some rows as a table for a message."""
        frame = self._rows.filter(rows)
        values = np.zeros(len(frame))
        if value_name:
            values = frame[value_name].fill_null(float("nan")).to_numpy()
        return InteractionTable(
            self.where,
            frame["user"],
            frame["item"],
            values,
            value_name=value_name,
            table=self.file,
            row_numbers=frame["row"].to_numpy().astype(np.int64),
        )


def _divide_users(offsets: Numbers, max_rows: int) -> Numbers:
    """Return the first user of each partition, and the number of users.

    Partitions have at most `max_rows` rows, but at least one user."""
    max_rows = max(max_rows, _MIN_PARTITION_ROWS)
    bounds, num_users = [0], len(offsets) - 1
    while bounds[-1] < num_users:
        end = offsets[bounds[-1]] + max_rows
        last = int(np.searchsorted(offsets, end, side="right")) - 1
        bounds.append(max(last, bounds[-1] + 1))
    return np.array(bounds, dtype=np.int64)


def _restore_ids(
    duplicates: Duplicates, users: Vocabulary, items: Vocabulary, *, first_user: int
) -> Duplicates:
    """Return rows under the caller's ids instead of codes; code 0 is `first_user`."""
    return {
        kind: replace(
            table,
            users=users.ids.gather(table.users + first_user),
            items=items.ids.gather(table.items),
        )
        for kind, table in duplicates.items()
    }


def _merge_duplicates(found: list[Duplicates]) -> Duplicates:
    """Return the rows of all partitions in the order of the file."""
    import polars as pl

    merged: Duplicates = {}
    for kind in ("item", "rank"):
        tables = [each[kind] for each in found if kind in each]
        if not tables:
            continue
        numbers = np.concatenate(
            [table.row_numbers for table in tables if table.row_numbers is not None]
        )
        order = np.argsort(numbers)
        merged[kind] = replace(
            tables[0],
            users=pl.concat([table.users for table in tables]).gather(order),
            items=pl.concat([table.items for table in tables]).gather(order),
            values=np.concatenate([table.values for table in tables])[order],
            row_numbers=numbers[order],
        )
    return merged
