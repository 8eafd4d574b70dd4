"""What is to be checked, read as it is: rows that an evaluation would refuse come along, so that
they can be shown.
"""

from __future__ import annotations

import itertools
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

# What a table may tell beside its user and item.
LISTS, INTERACTIONS = ("score", "rank"), ("rating",)


@dataclass(frozen=True)
class RawTable:
    """Rows (user, item) under the caller's ids, with what was found of score, rank, rating,
    timestamp, and `row`, their number.

    `everyone` are the users that a dict or a matrix names, with rows or without; None: those with
    rows."""

    where: str
    frame: pl.DataFrame
    everyone: pl.Series | None = None
    file: FileTable | None = None
    rows: int = 0  # that were given
    width: int | None = None  # the columns of a matrix, which are all items
    without_ids: pl.DataFrame = field(
        default_factory=pl.DataFrame
    )  # rows without a user or an item
    fractional: tuple[str, ...] = ()  # "user", "item": whose ids came as 1.0, 2.0
    imprecise: pl.DataFrame = field(
        default_factory=pl.DataFrame
    )  # rows with scores that float64 cannot tell apart

    @cached_property
    def users(self) -> pl.Series:
        """Each user once."""
        return (self.frame["user"] if self.everyone is None else self.everyone).unique(
            maintain_order=True
        )

    @cached_property
    def items(self) -> pl.Series:
        """Each item once."""
        return self.frame["item"].unique(maintain_order=True)

    @cached_property
    def repetitions(self) -> pl.DataFrame:
        """The rows that repeat the user and item of an earlier one."""
        return self.frame.filter(pl.struct(PAIR).is_first_distinct().not_())

    def ids(self, kind: str) -> pl.Series:
        """Each user, or each item, once."""
        return self.users if kind == "user" else self.items

    def with_frame(self, frame: pl.DataFrame) -> RawTable:
        """The same with other rows of the same users."""
        return replace(self, frame=frame)

    def filter_users(self, users: pl.Series, *, keep: bool) -> RawTable:
        """Only the rows of some users, or all but those."""
        chosen = users.to_frame("user")
        how: Any = "semi" if keep else "anti"
        everyone = self.everyone
        if everyone is not None:
            everyone = everyone.to_frame("user").join(
                chosen, on="user", how=how, maintain_order="left"
            )["user"]
        return replace(
            self,
            frame=self.frame.join(chosen, on="user", how=how, maintain_order="left"),
            everyone=everyone,
        )

    def cast_ids(self, kind: str, dtype: Any) -> RawTable:
        """With the ids of users or items as text, or, where there are none, of any type."""
        everyone = (
            self.everyone.cast(dtype)
            if self.everyone is not None and kind == "user"
            else self.everyone
        )
        return replace(
            self, frame=self.frame.with_columns(pl.col(kind).cast(dtype)), everyone=everyone
        )

    def rename_ids(self, kind: str, names: pl.DataFrame) -> RawTable:
        """With some users or items under another name: `names` has the columns `old` and `new`."""

        def new(ids: pl.Series) -> pl.Series:
            found = ids.to_frame("old").join(names, on="old", how="left", maintain_order="left")
            return found["new"].fill_null(found["old"])

        everyone = (
            new(self.everyone) if self.everyone is not None and kind == "user" else self.everyone
        )
        return replace(
            self,
            frame=self.frame.with_columns(new(self.frame[kind]).alias(kind)),
            everyone=everyone,
        )

    def for_evaluation(self) -> Any:
        """What `weft.evaluate` takes: a frame, or a dict where users without rows count."""
        wanted = [name for name in (*PAIR, *LISTS, *INTERACTIONS) if name in self.frame.columns]
        frame = self.frame.select(wanted)
        if self.everyone is None:
            return frame
        value = next((name for name in ("score", "rating") if name in wanted), None)
        grouped = frame.group_by("user", maintain_order=True).agg(pl.exclude("user"))
        rows: dict[Any, Any] = {user: [] if value is None else {} for user in self.everyone}
        for row in grouped.iter_rows(
            named=True
        ):  # as many steps as the caller took to build a dict
            rows[row["user"]] = row["item"] if value is None else dict(zip(row["item"], row[value]))
        return rows

    def examples(self, frame: pl.DataFrame) -> tuple[dict[str, Any], ...]:
        """The first of some rows, each with its place: the line of a text file, or the number of
        the row.
        """
        known = [
            name for name in (*PAIR, *LISTS, *INTERACTIONS, "timestamp") if name in frame.columns
        ]
        shown = list(frame.head(MAX_EXAMPLES).select("row", *known).iter_rows(named=True))
        numbers = [row.pop("row") for row in shown]
        if self.file is None:
            return tuple({"row": number, **row} for number, row in zip(numbers, shown))
        path, places = str(self.file.file.path), self.file.locate_rows(numbers)
        return tuple({"file": path, "place": place, **row} for place, row in zip(places, shown))


def read(given: Any, where: str, columns: tuple[str, ...]) -> RawTable:
    """Lists, truth or train from whatever `weft.evaluate` takes. `columns` are those to look for
    beside user and item.
    """
    if is_file(given):
        return _from_file(
            read_table(given, where, use="lists" if columns == LISTS else "timed"), where, columns
        )
    if is_frame(given):
        table = _from_columns(*open_frame(given, where), where, columns)
    elif isinstance(given, Mapping):
        table = _from_dict(given, where, columns)
    elif columns == LISTS:
        raise InputError(
            f"{where} is a {type(given).__name__}; weft.check reads recommendation lists: a file, "
            "a polars or pandas frame "
            "(user, item, and a score or a rank), {user: [items]} or {user: {item: score}}. "
            "What is odd about scores, the notes of weft.evaluate say."
        )
    else:
        cells = read_interactions(given, where)
        assert cells.shape is not None
        frame = pl.DataFrame({"user": cells.users, "item": cells.items, "rating": cells.values})
        everyone = pl.int_range(cells.shape[0], dtype=pl.Int64, eager=True)
        table = RawTable(
            where, frame.with_row_index("row"), everyone, rows=len(frame), width=cells.shape[1]
        )
    return table


def _from_file(read: FileTable, where: str, wanted: tuple[str, ...]) -> RawTable:
    ids = {kind: _plain_ids(read.columns[kind]) for kind in PAIR}
    numbers = {role: read.columns[role].cast(pl.Float64) for role in wanted if role in read.columns}
    frame = pl.DataFrame({**ids, **numbers}).with_row_index("row")
    if "rating" in wanted:
        frame = frame if "rating" in numbers else frame.with_columns(rating=pl.lit(1.0))
        if "timestamp" in read.columns:
            frame = frame.with_columns(_in_order(read.columns["timestamp"]))
    everyone = None if read.all_users is None else _plain_ids(read.all_users)
    return RawTable(where, frame, everyone, rows=len(frame), file=read)


def _plain_ids(ids: pl.Series) -> pl.Series:
    return ids.cast(pl.Int64 if ids.dtype.is_integer() else pl.String)


def read_items(given: Any) -> pl.Series:
    """A catalogue: ids, a frame or a file with a column of items."""
    if is_file(given):
        return _plain_ids(read_table(given, "items").columns["item"])
    if is_frame(given):
        columns, column = open_frame(given, "items")
        name = columns[0] if len(columns) == 1 else str(find_column(columns, "item", "items"))
        given = column(name)
    return id_series(given, "item", "items")


def _from_columns(
    columns: list[str], column: Callable[[str], Any], where: str, wanted: tuple[str, ...]
) -> RawTable:
    raw = {kind: column(str(find_column(columns, kind, where))) for kind in PAIR}
    named = np.logical_and(*(_present(raw[kind]) for kind in PAIR))
    numbers: dict[str, Any] = {}
    for role in wanted:
        name = find_column(columns, role, where)
        if name is not None:
            numbers[role] = read_numbers(column(name), name, where, role)
    rows = pl.DataFrame({"row": np.arange(len(named)), **numbers})
    if "rating" in wanted:
        rows = rows if "rating" in numbers else rows.with_columns(rating=pl.lit(1.0))
        rows = rows.with_columns(_times(columns, column, where))
    imprecise = np.zeros(len(named), dtype=np.bool_)
    if (name := find_column(columns, "score", where) if "score" in wanted else None) is not None:
        imprecise = _imprecise(column(name))
    ids, fractional = {}, []
    for kind in PAIR:
        part = _chosen(raw[kind], named)
        if isinstance(part, (pl.Series, np.ndarray)) and _is_float(part):
            part = _whole(part, kind, where)
            fractional.append(kind)
        ids[kind] = id_series(part, kind, where)
    lost = rows.filter(~named).with_columns(
        pl.Series(kind, _texts(_chosen(raw[kind], ~named)), dtype=pl.String) for kind in PAIR
    )
    frame = rows.filter(named).with_columns(**ids)
    beyond = frame.filter(imprecise[named])
    return RawTable(
        where,
        frame,
        rows=len(rows),
        without_ids=lost,
        fractional=tuple(fractional),
        imprecise=beyond,
    )


def _from_dict(given: Mapping[Any, Any], where: str, wanted: tuple[str, ...]) -> RawTable:
    value = wanted[0]  # score or rating
    scored = [isinstance(row, Mapping) for row in given.values()]
    parts: list[Any] = []
    for user, row in given.items():
        if (
            isinstance(row, (str, bytes))
            or (value == "score" and isinstance(row, (set, frozenset)))
            or not hasattr(row, "__iter__")
        ):
            expected = "a list of items, best first," if value == "score" else "a list of items"
            raise InputError(
                f"{where}[{user!r}] is {row!r}; expected {expected} or {{item: {value}}}."
            )
        parts.append(row if hasattr(row, "__len__") else list(row))
    if value == "score" and any(scored) and not all(scored):
        user = next(user for user, has_scores in zip(given, scored) if not has_scores)
        raise InputError(
            f"{where} has scores for some users but none for {user!r}; give {{item: score}} for "
            "all, or lists for all."
        )
    everyone = id_series(list(given), "user", where)
    users = (
        everyone.gather(np.repeat(np.arange(len(parts)), list(map(len, parts))))
        if parts
        else everyone
    )
    frame = pl.DataFrame(
        {
            "user": users,
            "item": id_series(list(itertools.chain.from_iterable(parts)), "item", where),
        }
    )
    if value == "rating" or any(scored):
        flat = itertools.chain.from_iterable(
            row.values() if isinstance(row, Mapping) else itertools.repeat(1.0, len(row))
            for row in parts
        )
        try:
            numbers = np.array(
                [float("nan") if number is None else float(number) for number in flat],
                dtype=np.float64,
            )
        except (TypeError, ValueError):
            raise InputError(
                f"{where} has {value}s that are not numbers; give {{item: {value}}} with numbers."
            ) from None
        frame = frame.with_columns(pl.Series(value, numbers))
    return RawTable(where, frame.with_row_index("row"), everyone, rows=len(frame))


def _present(ids: Any) -> Any:
    """Which ids are there: neither missing nor NaN."""
    if isinstance(ids, pl.Series):
        there = ids.is_not_null()
        return (
            there & ids.is_not_nan().fill_null(False) if ids.dtype.is_float() else there
        ).to_numpy()
    if isinstance(ids, np.ndarray):
        return ~np.isnan(ids) if ids.dtype.kind == "f" else np.ones(len(ids), dtype=np.bool_)
    return np.array([value is not None for value in ids], dtype=np.bool_)


def _chosen(ids: Any, which: Any) -> Any:
    if isinstance(ids, pl.Series):
        return ids.filter(pl.Series(which))
    return ids[which] if isinstance(ids, np.ndarray) else list(itertools.compress(ids, which))


def _texts(ids: Any) -> list[str | None]:
    return [None if value is None or value != value else str(value) for value in ids]


def _is_float(ids: pl.Series | Any) -> bool:
    return bool(ids.dtype.is_float()) if isinstance(ids, pl.Series) else ids.dtype.kind == "f"


def _imprecise(scores: Any) -> Any:
    """Which scores are whole numbers that float64 would round."""
    numbers = scores if isinstance(scores, pl.Series) else pl.Series(scores, strict=False)
    if not numbers.dtype.is_integer():
        return np.zeros(len(numbers), dtype=np.bool_)
    return ((numbers > 2**53) | (numbers < -(2**53))).fill_null(False).to_numpy()


def _whole(ids: Any, kind: str, where: str) -> pl.Series:
    """Ids such as 1.0 as whole numbers."""
    numbers = pl.Series(ids)
    whole = numbers.cast(pl.Int64, strict=False)
    wrong = numbers.filter((whole.cast(pl.Float64) != numbers).fill_null(True))
    if len(wrong):
        raise InputError(f"{where} has the {kind} id {wrong[0]!r}; ids are integers or strings.")
    return whole


def _times(columns: list[str], column: Callable[[str], Any], where: str) -> list[pl.Series]:
    """The column of timestamps, if there is one whose order can be told: numbers, dates, or text
    that begins with a date.
    """
    name = find_column(columns, "timestamp", where)
    if name is None:
        return []
    times = column(name)
    return _in_order(times if isinstance(times, pl.Series) else pl.Series(times, strict=False))


def _in_order(times: pl.Series) -> list[pl.Series]:
    """Times in a type whose order is that of time, if there is one."""
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
