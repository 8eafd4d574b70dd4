"""Read inputs without rejecting rows, so that invalid rows can be reported."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from weft.data.interaction_readers import is_frame, open_frame, read_interactions, read_numbers
from weft.data.interaction_table import MAX_EXAMPLES
from weft.data.readers.files import FileTable, is_file, read_table
from weft.data.readers.roles import find_column
from weft.data.vocabulary import id_series
from weft.errors import InputError

PAIR = ["user", "item"]

# Columns of a table in addition to user and item.
LISTS, INTERACTIONS = ("score", "rank"), ("rating",)


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
        columns = [name for name in (*PAIR, *LISTS, *INTERACTIONS) if name in self.frame.columns]
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
        columns = [
            name for name in (*PAIR, *LISTS, *INTERACTIONS, "timestamp") if name in frame.columns
        ]
        numbers = [row["row"] for row in shown]
        shown = [{name: row[name] for name in columns} for row in shown]
        if self.file is None:
            return tuple({"row": number, **row} for number, row in zip(numbers, shown))
        path, places = str(self.file.file.path), self.file.locate_rows(numbers)
        return tuple({"file": path, "place": place, **row} for place, row in zip(places, shown))


def read(data: Any, where: str, columns: tuple[str, ...]) -> RawTable:
    """Read lists, truth or train in any form that `weft.evaluate` accepts.

    `columns` are the columns to read in addition to user and item. Raises InputError if the type
    is not supported.
    """
    if is_file(data):
        use = "lists" if columns == LISTS else "timed"
        return _from_file(read_table(data, where, use=use), where, columns)
    if is_frame(data):
        return _from_columns(*open_frame(data, where), where, columns)
    if isinstance(data, Mapping):
        return _from_dict(data, where, columns[0])
    if columns == LISTS:
        raise InputError(
            f"{where} is a {type(data).__name__}; weft.check reads recommendation lists: a file, "
            "a polars or pandas frame (user, item, and a score or a rank), {user: [items]} or "
            "{user: {item: score}}. For scores, see the notes of weft.evaluate."
        )
    matrix = read_interactions(data, where)
    assert matrix.shape is not None
    frame = pl.DataFrame({"user": matrix.users, "item": matrix.items, "rating": matrix.values})
    users = pl.int_range(matrix.shape[0], dtype=pl.Int64, eager=True)
    return RawTable(
        where, frame.with_row_index("row"), users, rows=len(frame), width=matrix.shape[1]
    )


def _from_file(table: FileTable, where: str, roles: tuple[str, ...]) -> RawTable:
    ids = {kind: _plain_ids(table.columns[kind]) for kind in PAIR}
    numbers = {
        role: table.columns[role].cast(pl.Float64) for role in roles if role in table.columns
    }
    frame = pl.DataFrame({**ids, **numbers}).with_row_index("row")
    if "rating" in roles:
        frame = frame if "rating" in numbers else frame.with_columns(rating=pl.lit(1.0))
        if "timestamp" in table.columns:
            frame = frame.with_columns(_sortable_times(table.columns["timestamp"]))
    all_users = None if table.all_users is None else _plain_ids(table.all_users)
    return RawTable(where, frame, all_users, rows=len(frame), file=table)


def _plain_ids(ids: pl.Series) -> pl.Series:
    return ids.cast(pl.Int64 if ids.dtype.is_integer() else pl.String)


def read_items(data: Any) -> pl.Series:
    """Read a catalogue: ids, or a frame or file with a column of items."""
    if is_file(data):
        return _plain_ids(read_table(data, "items").columns["item"])
    if is_frame(data):
        columns, column = open_frame(data, "items")
        name = columns[0] if len(columns) == 1 else str(find_column(columns, "item", "items"))
        data = column(name)
    return id_series(data, "item", "items")


def _from_columns(
    columns: list[str], column: Callable[[str], Any], where: str, roles: tuple[str, ...]
) -> RawTable:
    raw = {kind: column(str(find_column(columns, kind, where))) for kind in PAIR}
    has_ids = np.logical_and(*(_present(raw[kind]) for kind in PAIR))
    rows = pl.DataFrame({"row": np.arange(len(has_ids))})
    imprecise = np.zeros(len(has_ids), dtype=np.bool_)
    for role in roles:
        name = find_column(columns, role, where)
        if name is not None:
            numbers = read_numbers(column(name), name, where, role)
            rows = rows.with_columns(pl.Series(role, numbers))
            imprecise = _imprecise(column(name)) if role == "score" else imprecise
    if "rating" in roles:
        rows = rows if "rating" in rows.columns else rows.with_columns(rating=pl.lit(1.0))
        rows = rows.with_columns(_times(columns, column, where))
    ids, fractional = {}, []
    for kind in PAIR:
        values = _select(raw[kind], has_ids)
        if isinstance(values, (pl.Series, np.ndarray)) and _is_float(values):
            values = _to_integers(values, kind, where)
            fractional.append(kind)
        ids[kind] = id_series(values, kind, where)
    without_ids = rows.filter(~has_ids).with_columns(
        pl.Series(kind, _to_texts(_select(raw[kind], ~has_ids)), dtype=pl.String) for kind in PAIR
    )
    frame = rows.filter(has_ids).with_columns(**ids)
    return RawTable(
        where,
        frame,
        rows=len(rows),
        without_ids=without_ids,
        fractional=tuple(fractional),
        imprecise=frame.filter(imprecise[has_ids]),
    )


def _from_dict(data: Mapping[Any, Any], where: str, value: str) -> RawTable:
    """Read {user: items} or {user: {item: value}}; `value` is "score" or "rating"."""
    rows = _dict_rows(data, where, value)
    users = id_series(list(data), "user", where)
    lengths = [len(row) for row in rows]
    frame = pl.DataFrame(
        {
            "user": users.gather(np.repeat(np.arange(len(rows)), lengths)) if rows else users,
            "item": id_series(list(itertools.chain.from_iterable(rows)), "item", where),
        }
    )
    if value == "rating" or any(isinstance(row, Mapping) for row in rows):
        frame = frame.with_columns(pl.Series(value, _dict_values(rows, where, value)))
    return RawTable(where, frame.with_row_index("row"), users, rows=len(frame))


def _dict_rows(data: Mapping[Any, Any], where: str, value: str) -> list[Any]:
    """Return the rows of a dict as sized collections; raise InputError for other values."""
    is_list = value == "score"
    not_items: tuple[type, ...] = (str, bytes, set, frozenset) if is_list else (str, bytes)
    for user, row in data.items():
        if isinstance(row, not_items) or not hasattr(row, "__iter__"):
            expected = "a list of items, best first," if is_list else "a list of items"
            raise InputError(
                f"{where}[{user!r}] is {row!r}; expected {expected} or {{item: {value}}}."
            )
    without_scores = [user for user, row in data.items() if not isinstance(row, Mapping)]
    if is_list and 0 < len(without_scores) < len(data):
        raise InputError(
            f"{where} has scores for some users but none for {without_scores[0]!r}; give "
            "{item: score} for all, or lists for all."
        )
    return [row if hasattr(row, "__len__") else list(row) for row in data.values()]


def _dict_values(rows: list[Any], where: str, value: str) -> Any:
    """Return the scores or ratings of all rows, float64; items without one have 1."""
    numbers = itertools.chain.from_iterable(
        row.values() if isinstance(row, Mapping) else itertools.repeat(1.0, len(row))
        for row in rows
    )
    try:
        floats = [math.nan if number is None else float(number) for number in numbers]
    except (TypeError, ValueError):
        raise InputError(
            f"{where} has {value}s that are not numbers; give {{item: {value}}} with numbers."
        ) from None
    return np.array(floats, dtype=np.float64)


def _present(ids: Any) -> Any:
    """Return a mask [rows] of the ids that are neither missing nor NaN."""
    if isinstance(ids, pl.Series):
        present = ids.is_not_null()
        if ids.dtype.is_float():
            present &= ids.is_not_nan().fill_null(False)
        return present.to_numpy()
    if isinstance(ids, np.ndarray):
        return ~np.isnan(ids) if ids.dtype.kind == "f" else np.ones(len(ids), dtype=np.bool_)
    return np.array([value is not None for value in ids], dtype=np.bool_)


def _select(ids: Any, mask: Any) -> Any:
    if isinstance(ids, pl.Series):
        return ids.filter(pl.Series(mask))
    return ids[mask] if isinstance(ids, np.ndarray) else list(itertools.compress(ids, mask))


def _to_texts(ids: Any) -> list[str | None]:
    return [None if value is None or value != value else str(value) for value in ids]


def _is_float(ids: pl.Series | Any) -> bool:
    return bool(ids.dtype.is_float()) if isinstance(ids, pl.Series) else ids.dtype.kind == "f"


def _imprecise(scores: Any) -> Any:
    """Return a mask [rows] of the integer scores that float64 would round."""
    numbers = scores if isinstance(scores, pl.Series) else pl.Series(scores, strict=False)
    if not numbers.dtype.is_integer():
        return np.zeros(len(numbers), dtype=np.bool_)
    return ((numbers > 2**53) | (numbers < -(2**53))).fill_null(False).to_numpy()


def _to_integers(ids: Any, kind: str, where: str) -> pl.Series:
    """Convert ids such as 1.0 to integers; raise InputError for other fractions."""
    numbers = pl.Series(ids)
    integers = numbers.cast(pl.Int64, strict=False)
    wrong = numbers.filter((integers.cast(pl.Float64) != numbers).fill_null(True))
    if len(wrong):
        raise InputError(f"{where} has the {kind} id {wrong[0]!r}; ids are integers or strings.")
    return integers


def _times(columns: list[str], column: Callable[[str], Any], where: str) -> list[pl.Series]:
    """Return the timestamp column if it can be sorted: numbers, dates, text that starts so."""
    name = find_column(columns, "timestamp", where)
    if name is None:
        return []
    times = column(name)
    return _sortable_times(
        times if isinstance(times, pl.Series) else pl.Series(times, strict=False)
    )


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
