"""Rows (user, item, values) of frames, dicts, files and `TopKItems`, with their errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data.frames import library_of, open_frame
from weft.data.interactions import InteractionTable
from weft.data.precision import find_inexact, has_large_numbers, inexact_integers
from weft.data.readers.files import FileTable, is_file, read_table
from weft.data.readers.role_assignment import ROLES_OF_USE
from weft.data.readers.roles import ID_ROLES, check_unique_columns, find_column, find_column_name
from weft.data.topk_items import TopKItems
from weft.data.vocabulary import id_series, series_of_ids
from weft.errors import InputError, describe_type

if TYPE_CHECKING:
    import polars as pl

_DictRow = tuple[list[Any], list[Any] | None]  # the items of a user, and their values


@dataclass(frozen=True)
class RowErrors:
    """Rows with one kind of error in the column of a role, and what `weft.evaluate` raises.

    `kind` is "missing-id" (the table lacks these rows), "fractional-id" (ids such as 1.0, which
    the table has as integers) or "beyond-precision" (integers that float64 rounds).
    """

    kind: str
    role: str
    rows: NDArray[np.int64]  # numbers of the rows in the input
    error: InputError


@dataclass(frozen=True)
class RowTable:
    """Rows of an input under the caller's ids, and the errors in its rows.

    `frame` has the columns user and item (Int64, String or Enum) and those of rating, score, rank
    (Float64, NaN for missing numbers) and timestamp that the input has.
    """

    where: str  # the data in messages
    frame: pl.DataFrame
    all_users: pl.Series | None = None  # users with or without rows; None: the users of the rows
    file: FileTable | None = None
    unused_columns: tuple[str, ...] = ()
    errors: tuple[RowErrors, ...] = ()
    row_numbers: NDArray[np.int64] | None = None  # numbers of the rows in the input; None: all
    rejected: pl.DataFrame | None = None  # rows without a user or an item, with their `row` number
    has_undeclared_rows: bool = False  # users are row numbers, which the caller does not say

    def to_interactions(self, value_name: str, default: float) -> InteractionTable:
        """Return the table with one column of values; raise the first of the row errors.

        Without the column, values are `default` and `value_name` becomes empty.
        """
        if self.errors:
            raise self.errors[0].error
        has_values = value_name in self.frame.columns
        return InteractionTable(
            self.where,
            self.frame["user"],
            self.frame["item"],
            self.frame[value_name].to_numpy() if has_values else np.full(len(self.frame), default),
            all_users=self.all_users,
            value_name=value_name if has_values else "",
            table=self.file,
            times=self.frame["timestamp"] if "timestamp" in self.frame.columns else None,
        )


def read_rows(data: Any, where: str, *, use: str) -> RowTable:
    """Return the rows of a file, a frame, a dict or `TopKItems`, with the errors in its rows.

    `use` decides which columns are read: "lists" (score and rank), "truth" and "train" (rating),
    "timed" (rating and timestamp) or "candidates" (none). `weft.evaluate` raises row errors (see
    `RowTable.to_interactions`), `weft.check` lists them. Numbers that are not finite stay in the
    table. `InputError` is raised for data that cannot be read as rows, and for errors in the rows
    of files, which are found while a file is read.
    """
    if is_file(data):
        table = read_table(data, where, use=use)
        frame = _frame_of_columns(table.columns)
        return RowTable(table.where, frame, table.all_users, table, table.unused_columns)
    if isinstance(data, TopKItems):
        is_undeclared = data.has_undeclared_rows
        return RowTable(where, data.to_frame(), data.users, has_undeclared_rows=is_undeclared)
    if isinstance(data, Mapping):
        return _read_dict(data, where, is_list=use == "lists")
    roles = ROLES_OF_USE[use][2:] + (("rank",) if use == "lists" else ())
    return _read_frame(data, where, roles)


def _read_frame(frame: Any, where: str, roles: tuple[str, ...]) -> RowTable:
    import polars as pl

    columns, get_column = open_frame(frame, where)
    if "score" in roles:
        _check_list_columns(frame, columns, where)
    names = {role: find_column(columns, role, where) for role in (*ID_ROLES, *roles)}
    ids = {role: get_column(str(names[role])) for role in ID_ROLES}
    values, errors = {}, []
    for role in roles:
        if (name := names[role]) is None:
            continue
        column = get_column(name)
        if role == "timestamp":
            values[role] = pl.Series(column, strict=False)
            continue
        values[role] = read_numbers(column, name, where, role)
        errors += _find_inexact(column, f"{where}: the column {name!r}", role)
    unused = tuple(name for name in columns if name not in names.values())
    table = _check_ids(where, ids, values)
    return replace(table, unused_columns=unused, errors=(*table.errors, *errors))


def check_list_frame(data: Any) -> None:
    """Raise `InputError` for a frame in memory that has no items and is therefore no list."""
    if library_of(data) in ("polars", "pandas") and type(data).__name__ == "DataFrame":
        columns = [str(name) for name in data.columns]
        check_unique_columns(columns, "source")
        _check_list_columns(data, columns, "source")


def _check_list_columns(frame: Any, columns: list[str], where: str) -> None:
    if find_column_name(columns, "item", where) is None:
        shown = ", ".join(map(repr, columns[:6])) + (", ..." if len(columns) > 6 else "")
        raise InputError(
            f"{where} is {describe_type(frame)} with the columns {shown}. Frames are read as "
            "recommendation lists: expected the columns 'user', 'item' and optionally 'score' or "
            "'rank'. Give scores with a row per user and a column per item as weft.Scores(frame)."
        )


def read_numbers(column: Any, name: str, where: str, role: str) -> pl.Series:
    """Return a column of numbers as Float64, NaN where one is missing."""
    import polars as pl

    numbers = column if isinstance(column, pl.Series) else pl.Series(column, strict=False)
    is_empty = numbers.null_count() == len(numbers)
    if not (numbers.dtype.is_numeric() or numbers.dtype == pl.Boolean or is_empty):
        raise InputError(
            f"{where}: the column {name!r} has the type {numbers.dtype}; {role}s must be numbers."
        )
    return numbers.cast(pl.Float64).fill_null(float("nan"))


def _find_inexact(column: Any, what: str, role: str) -> list[RowErrors]:
    """Return the rows with integers that float64 would merge into ties."""
    rows = find_inexact(column)
    if not len(rows):
        return []
    error = inexact_integers(what, f"row {rows[0]}", column[int(rows[0])], role)
    return [RowErrors("beyond-precision", role, rows, error)]


def _check_ids(
    where: str, values_of_ids: Mapping[str, Any], numbers: Mapping[str, pl.Series]
) -> RowTable:
    """Return the rows that have a user and an item; the others are errors."""
    import polars as pl

    ids, errors = {}, []
    for role, values in values_of_ids.items():
        ids[role], found = _read_ids(values, role, where)
        errors += found
    frame = _frame_of_columns({**ids, **numbers})
    if not errors:
        return RowTable(where, frame)
    has_ids = frame["user"].is_not_null() & frame["item"].is_not_null()
    rejected = frame.with_row_index("row").filter(~has_ids)
    return RowTable(
        where,
        frame.filter(has_ids),
        errors=tuple(errors),
        row_numbers=np.flatnonzero(has_ids.to_numpy()),
        rejected=rejected.with_columns(pl.col(*ID_ROLES).cast(pl.String)),
    )


def _read_ids(values: Any, role: str, where: str) -> tuple[pl.Series, list[RowErrors]]:
    """Return ids, null where one is missing, and the errors of their rows."""
    import polars as pl

    try:
        return id_series(values, role, where), []
    except InputError as error:
        reason = error
    ids = series_of_ids(values, role, where)
    errors = []
    if ids.dtype.is_float():
        ids = ids.fill_nan(None)
        integers = ids.cast(pl.Int64, strict=False)
        if not (integers.cast(pl.Float64) == ids).all() or integers.null_count() > ids.null_count():
            raise reason
        rows = ids.is_not_null().arg_true().to_numpy()
        errors.append(RowErrors("fractional-id", role, rows.astype(np.int64), reason))
        ids = integers
    rows = ids.is_null().arg_true().to_numpy()
    if len(rows):
        errors.append(RowErrors("missing-id", role, rows.astype(np.int64), reason))
    valid = id_series(ids.drop_nulls(), role, where)  # raises all other errors
    return ids.cast(valid.dtype), errors


def _frame_of_columns(columns: Mapping[str, pl.Series]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame([column.alias(role) for role, column in columns.items()])


def _read_dict(data: Mapping[Any, Any], where: str, *, is_list: bool) -> RowTable:
    """Return `{user: items}`, `{user: {item: value}}` or `{user: [(item, rating), ...]}`.

    Values are the scores of lists, which may not be pairs, or ratings; items without one have 1.
    """
    import polars as pl

    value = "score" if is_list else "rating"
    rows = [_read_row(row, user, where, is_list=is_list) for user, row in data.items()]
    without = [user for user, (items, values) in zip(data, rows) if values is None and len(items)]
    has_values = any(values is not None for _, values in rows) or not any(
        items for items, _ in rows
    )
    if is_list and has_values and without:
        raise InputError(
            f"{where} has scores for some users, but not for {without[0]!r}; give {{item: score}} "
            "for all users, or lists for all users."
        )
    all_users = id_series(list(data), "user", where)
    owners = np.repeat(np.arange(len(rows)), [len(items) for items, _ in rows] or 0)
    ids = {
        "user": all_users.gather(owners),
        "item": list(chain.from_iterable(items for items, _ in rows)),
    }
    numbers: dict[str, pl.Series] = {}
    errors: list[RowErrors] = []
    if has_values:
        floats = [_to_floats(row, user, where, value) for user, row in zip(data, rows)]
        numbers[value] = pl.Series(list(chain.from_iterable(floats)), dtype=pl.Float64)
        if has_large_numbers(numbers[value]):
            pairs = (values or [1] * len(items) for items, values in rows)
            errors = _find_inexact(list(chain.from_iterable(pairs)), where, value)
    table = _check_ids(where, ids, numbers)
    return replace(table, all_users=all_users, errors=(*table.errors, *errors))


def _read_row(row: Any, user: Any, where: str, *, is_list: bool) -> _DictRow:
    """Return the items of a user, and their values if they have some."""
    unordered = (set, frozenset) if is_list else ()
    if isinstance(row, (str, bytes, *unordered)) or not hasattr(row, "__iter__"):
        expected = "{item: rating} or a list of items or of (item, rating)."
        if is_list:
            expected = "a list of items, best first, or {item: score}."
        raise InputError(f"{where}[{user!r}] is {row!r}; expected {expected}")
    if isinstance(row, Mapping):
        return list(row), list(row.values())
    items = row.tolist() if hasattr(row, "tolist") else list(row)
    if is_list or not items or not isinstance(items[0], (tuple, list)):
        return items, None
    wrong = [pair for pair in items if not isinstance(pair, (tuple, list)) or len(pair) != 2]
    if wrong:
        raise InputError(
            f"{where}[{user!r}] has the entry {wrong[0]!r}; expected (item, rating) for each "
            "item, or only items."
        )
    return [item for item, _ in items], [value for _, value in items]


def _to_floats(row: _DictRow, user: Any, where: str, value: str) -> list[float]:
    """Return the scores or ratings of a user's items; NaN for None, 1 if items have none."""
    items, values = row
    if values is None:
        return [1.0] * len(items)
    floats = []
    for number in values:
        try:
            floats.append(np.nan if number is None else float(number))
        except OverflowError:  # an integer
            floats.append(np.inf)
        except (TypeError, ValueError):
            raise InputError(
                f"{where}[{user!r}] has the {value} {number!r}; {value}s must be numbers."
            ) from None
    return floats
