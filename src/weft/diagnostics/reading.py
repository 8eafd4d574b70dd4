"""Read inputs without rejecting rows, so that invalid rows can be reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from weft.data.interaction_readers import read_interactions
from weft.data.interactions import MAX_EXAMPLES
from weft.data.readers.files import FileTable, is_file, read_table
from weft.data.recommendations import are_lists
from weft.data.row_readers import RowTable, read_rows
from weft.data.vocabulary import id_series
from weft.errors import InputError, describe_type

PAIR = ["user", "item"]
_VALUES = ("score", "rank", "rating")


@dataclass(frozen=True)
class RawTable:
    """Rows (user, item) with the caller's ids and the row number `row`.

    The frame may also have the columns score, rank, rating and timestamp. `all_users` are the users
    of a dict or a matrix, including those without rows; None means the users with rows.
    """

    where: str
    frame: pl.DataFrame
    all_users: pl.Series | None = None
    file: FileTable | None = None
    rows: int = 0  # number of rows in the input
    width: int | None = None  # number of columns (items) of a matrix
    without_ids: pl.DataFrame = field(
        default_factory=pl.DataFrame
    )  # rows without a user or an item
    fractional: tuple[str, ...] = ()  # kinds ("user", "item") with ids such as 1.0
    # Rows with integer scores that float64 cannot represent exactly.
    imprecise: pl.DataFrame = field(default_factory=pl.DataFrame)
    unused_columns: tuple[str, ...] = ()

    @cached_property
    def users(self) -> pl.Series:
        """Distinct users, in order of appearance."""
        users = self.frame["user"] if self.all_users is None else self.all_users
        return users.unique(maintain_order=True)

    @cached_property
    def items(self) -> pl.Series:
        """Distinct items, in order of appearance."""
        return self.frame["item"].unique(maintain_order=True)

    @cached_property
    def repetitions(self) -> pl.DataFrame:
        """Rows that repeat the user and item of an earlier row."""
        return self.frame.filter(pl.struct(PAIR).is_first_distinct().not_())

    @cached_property
    def ranked(self) -> pl.DataFrame:
        """Rows sorted by user, best first, with their `position` in the list, from 1."""
        if "rank" in self.frame.columns:
            ordered = self.frame.sort("user", "rank")
        elif "score" in self.frame.columns:
            ordered = self.frame.sort("user", "score", "item", descending=[False, True, False])
        else:
            ordered = self.frame.sort("user", "row")
        start = pl.col("user").is_first_distinct()
        index = pl.int_range(pl.len())
        return ordered.with_columns(position=index - pl.when(start).then(index).forward_fill() + 1)

    def ids(self, kind: str) -> pl.Series:
        """Return the distinct users or items."""
        return self.users if kind == "user" else self.items

    def with_frame(self, frame: pl.DataFrame) -> RawTable:
        """Return the table with other rows of the same users."""
        return replace(self, frame=frame)

    def filter_users(self, users: pl.Series, *, keep: bool) -> RawTable:
        """Return the table with only the rows of these users, or with all other rows."""
        is_kept = pl.col("user").is_in(users.implode()) == keep
        all_users = self.all_users
        if all_users is not None:
            all_users = all_users.to_frame("user").filter(is_kept).to_series()
        return replace(self, frame=self.frame.filter(is_kept), all_users=all_users)

    def map_ids(self, changes: Mapping[str, pl.Expr]) -> RawTable:
        """Return the table with other ids: expressions of the columns "user" and "item"."""
        all_users = self.all_users
        if all_users is not None and "user" in changes:
            all_users = all_users.to_frame("user").select(changes["user"]).to_series()
        return replace(self, frame=self.frame.with_columns(**changes), all_users=all_users)

    def for_evaluation(self) -> Any:
        """Return the input of `weft.evaluate`: a frame, or a dict if users without rows count."""
        columns = [name for name in (*PAIR, *_VALUES) if name in self.frame.columns]
        frame = self.frame.select(columns)
        if self.all_users is None:
            return frame
        value = next((name for name in ("score", "rating") if name in columns), None)
        grouped = frame.group_by("user", maintain_order=True).agg(pl.exclude("user"))
        rows: dict[Any, Any] = {user: [] if value is None else {} for user in self.all_users}
        for row in grouped.iter_rows(named=True):
            rows[row["user"]] = row["item"] if value is None else dict(zip(row["item"], row[value]))
        return rows

    def examples(self, frame: pl.DataFrame) -> tuple[dict[str, Any], ...]:
        """Return the first rows as examples.

        Rows of the table, which have their number `row`, get their line in a text file or `row`;
        other rows are returned as they are.
        """
        shown = list(frame.head(MAX_EXAMPLES).iter_rows(named=True))
        if "row" not in frame.columns:
            return tuple(shown)
        columns = [name for name in (*PAIR, *_VALUES, "timestamp") if name in frame.columns]
        numbers = [row["row"] for row in shown]
        shown = [{name: row[name] for name in columns} for row in shown]
        if self.file is None:
            return tuple({"row": number, **row} for number, row in zip(numbers, shown))
        path, places = self.file.path, self.file.locate_rows(numbers)
        return tuple({"file": path, "place": place, **row} for place, row in zip(places, shown))


def read(data: Any, where: str, *, use: str) -> RawTable:
    """Read lists (`use="lists"`), or truth and train (`use="timed"`), as `weft.evaluate` does.

    Raises InputError if the type is not supported.
    """
    if are_lists(data):
        return _from_rows(read_rows(data, where, use=use), where, use)
    if use == "lists":
        raise InputError(
            f"{where} is {describe_type(data)}; weft.check reads recommendation lists: a file, "
            "a polars or pandas frame (user, item, and a score or a rank), {user: [items]} or "
            "{user: {item: score}}. Scores are checked by weft.evaluate, which adds notes to the "
            "result."
        )
    matrix = read_interactions(data, where)
    num_rows, width = matrix.shape or (matrix.num_rows, None)
    assert num_rows is not None
    frame = pl.DataFrame({"user": matrix.users, "item": matrix.items, "rating": matrix.values})
    users = pl.int_range(num_rows, dtype=pl.Int64, eager=True)
    return RawTable(where, frame.with_row_index("row"), users, rows=len(frame), width=width)


def _from_rows(table: RowTable, where: str, use: str) -> RawTable:
    numbers = np.arange(len(table.frame)) if table.row_numbers is None else table.row_numbers
    frame = table.frame.with_columns(*(_plain_ids(table.frame[kind]) for kind in PAIR), row=numbers)
    rejected = frame.clear() if table.rejected is None else table.rejected
    if use == "timed":
        frame, rejected = _complete(frame), _complete(rejected)
    rounded = [error.rows for error in table.errors if error.kind == "beyond-precision"]
    return RawTable(
        where,
        frame,
        None if table.all_users is None else _plain_ids(table.all_users),
        table.file,
        rows=len(frame) + len(rejected),
        without_ids=rejected,
        fractional=tuple(error.role for error in table.errors if error.kind == "fractional-id"),
        imprecise=frame.filter(np.isin(numbers, np.concatenate([[], *rounded]))),
        unused_columns=table.unused_columns,
    )


def _plain_ids(ids: pl.Series) -> pl.Series:
    return ids.cast(pl.Int64 if ids.dtype.is_integer() else pl.String)


def _complete(frame: pl.DataFrame) -> pl.DataFrame:
    """Return interactions with a rating, 1 by default, and with times only if they sort."""
    if "rating" not in frame.columns:
        frame = frame.with_columns(rating=pl.lit(1.0))
    if "timestamp" in frame.columns:
        times = _sortable_times(frame["timestamp"])
        frame = frame.drop("timestamp").with_columns(times)
    return frame


def read_items(data: Any) -> pl.Series:
    """Read a catalogue: ids, or a file with a column of items."""
    if not is_file(data):
        return id_series(data, "item", "items")
    table = read_table(data, "items")
    ids = _plain_ids(table.columns["item"])
    return ids if table.num_columns == 1 else ids.unique(maintain_order=True)


def _sortable_times(times: pl.Series) -> list[pl.Series]:
    """Return times in a type that sorts chronologically, or an empty list."""
    if (
        times.dtype == pl.String
        and (numbers := times.cast(pl.Float64, strict=False)).null_count() == times.null_count()
    ):
        times = numbers
    if times.dtype.is_numeric():
        return [times.cast(pl.Float64).fill_nan(None).alias("timestamp")]
    if times.dtype == pl.Date or isinstance(times.dtype, pl.Datetime):
        return [times.cast(pl.Datetime("us")).alias("timestamp")]
    if times.dtype == pl.String and times.str.contains(r"^\d{4}-\d\d-\d\d").all():
        return [times.alias("timestamp")]
    return []
