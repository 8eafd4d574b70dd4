"""Readers of numbers and vectors of users and items from frames, dicts, arrays and sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from weft.data.devices import read_array
from weft.data.frames import is_frame, library_of, open_frame
from weft.data.label_readers import check_in_order
from weft.data.readers.files import FileTable
from weft.data.readers.roles import COLUMNS, find_column_name
from weft.data.vocabulary import Vocabulary, id_series
from weft.errors import InputError, agree, check_unmasked, describe_type

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.floating[Any]]
_EXPECTED = {
    "number": "{id: number}, a frame with a column of ids and one of numbers, or a list",
    "vector": "a matrix [ids, d], {id: vector}, or a frame with a column of ids and one per "
    "dimension",
}


def read_values(
    data: Any, where: str, ids: Vocabulary, form: str, *, num_in_order: int
) -> tuple[NDArray[np.int64], Floats]:
    """Return the code of each value's id (-1: unknown), and the values, `[n]` or `[n, d]`.

    Missing numbers and vectors are NaN. Raises `InputError` for values that are not finite.
    """
    series, values = read_ids_and_values(data, where, ids.kind, form)
    if series is None:
        check_in_order(len(values), where, ids, num_in_order, value="value")
        return np.arange(len(values), dtype=np.int64), values
    return ids.encode(series, data.where if isinstance(data, FileTable) else where), values


def read_ids_and_values(
    data: Any, where: str, kind: str, form: str
) -> tuple[pl.Series | None, Floats]:
    """Return ids of users or items (`kind`), None for values in their order, and the values."""
    id_column: Any
    if isinstance(data, FileTable):
        where, id_column = data.where, data.columns[kind]
        values = _from_columns([_parse_text(one) for one in _value_columns(data)], form, where)
    elif isinstance(data, Mapping):
        id_column, values = list(data), _from_rows(list(data.values()), form, where)
    elif is_frame(data):
        id_column, values = _from_frame(data, kind, form, where)
    elif library_of(data) == "pandas" and hasattr(data, "index"):  # a series
        id_column, values = data.index, _from_rows(list(data), form, where)
    else:
        id_column, values = None, _from_sequence(data, form, where)
    _check_finite(values, where, form)
    is_read = id_column is None or _is_enum(id_column)
    return id_column if is_read else id_series(id_column, kind, where), values


def _is_enum(column: Any) -> bool:
    """True for ids of a file, which have been checked."""
    import polars as pl

    return isinstance(column, pl.Series) and isinstance(column.dtype, pl.Enum)


def _value_columns(table: FileTable) -> list[pl.Series]:
    return [column for role, column in table.columns.items() if role not in ("user", "item")]


def _parse_text(column: pl.Series) -> pl.Series:
    """Return a column of a table with numbers in the place of text that holds one."""
    import polars as pl

    if column.dtype != pl.String:
        return column
    numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == column.null_count() else column


def _from_frame(frame: Any, kind: str, form: str, where: str) -> tuple[Any, Floats]:
    """Return the ids and the values of a frame."""
    columns, column_of = open_frame(frame, where)
    id_column = find_column_name(columns, kind, where)
    if id_column is None:
        raise InputError(
            f"{where} has the columns {columns}; expected one named {COLUMNS[kind][0]!r} with the "
            f"{kind} ids."
        )
    others = [name for name in columns if name != id_column]
    chosen = [where] if where in others else others
    if not chosen or (form == "number" and len(chosen) > 1):
        raise InputError(
            f"{where} has the columns {columns}; expected {id_column!r} and one with the {form}s. "
            f"Select two columns, or name one of them {where!r}."
        )
    return column_of(id_column), _from_columns([column_of(name) for name in chosen], form, where)


def _from_columns(columns: Sequence[Any], form: str, where: str) -> Floats:
    """Return the values of columns: one of numbers, one of lists, or one per dimension."""
    import polars as pl

    first = columns[0].to_list() if isinstance(columns[0], pl.Series) else columns[0]
    is_nested = len(columns) == 1 and any(isinstance(row, (list, np.ndarray)) for row in first)
    if form == "vector" and is_nested:
        return _from_rows(first, form, where)
    numbers = [_read_column(column, where) for column in columns]
    return numbers[0] if form == "number" else np.stack(numbers, axis=1)


def _read_column(column: Any, where: str) -> Floats:
    """Return a column of numbers as an array; missing numbers are NaN."""
    import polars as pl

    if isinstance(column, pl.Series) and (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        return column.cast(pl.Float64).fill_null(np.nan).to_numpy().astype(np.float64)
    return _from_rows(list(column), "number", where)


def _from_sequence(data: Any, form: str, where: str) -> Floats:
    """Return the values of an array, a tensor or a sequence in the order of the ids."""
    if isinstance(data, (list, tuple)):
        return _from_rows(list(data), form, where)
    if not isinstance(data, (np.ndarray, Tensor)) and not hasattr(data, "__array__"):
        raise InputError(f"{where} is {describe_type(data)}; expected {_EXPECTED[form]}.")
    check_unmasked(data, where, "give array.filled(nan), where NaN means no value")
    array = read_array(data, where)
    if array.dtype.kind not in "iufb" or array.ndim != (1 if form == "number" else 2):
        raise InputError(
            f"{where} is an array of {array.dtype} and shape {list(array.shape)}; expected "
            f"{_EXPECTED[form]}."
        )
    # A vector of 16 bits would lose digits in every sum.
    is_single = form == "vector" and array.dtype in (np.float32, np.float16)
    return array.astype(np.float32 if is_single else np.float64)


def _from_rows(rows: list[Any], form: str, where: str) -> Floats:
    """Return Python numbers, or vectors of any type, as an array; None is NaN."""
    if form == "number":
        return _from_numbers(rows, where)
    vectors = [None if row is None else _read_vector(row, where) for row in rows]
    width = _find_width([vector for vector in vectors if vector is not None], where)
    empty = np.full(width, np.nan, dtype=np.float64)
    table = np.array([empty if vector is None else vector for vector in vectors])
    return table.reshape(len(rows), width)


def _find_width(vectors: list[Floats], where: str) -> int:
    """Return the length of all vectors, 1 without any."""
    lengths = sorted(set(map(len, vectors)))
    if len(lengths) > 1 or 0 in lengths:
        raise InputError(
            f"{where} has vectors of {' and '.join(map(str, lengths))} numbers; expected the same "
            "number in each vector, at least one."
        )
    return lengths[0] if lengths else 1


def _from_numbers(rows: list[Any], where: str) -> Floats:
    numbers = [np.nan if row is None else row for row in rows]
    wrong = next((row for row in numbers if not _is_number(row)), None)
    if wrong is not None:
        raise InputError(
            f"{where} has {wrong!r}, {describe_type(wrong)}, which is not a number; expected "
            f"{_EXPECTED['number']}."
        )
    return np.array([float(row) for row in numbers], dtype=np.float64)


def _is_number(value: Any) -> bool:
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:  # of NumPy or torch
        value = value.item()
    return isinstance(value, (int, float))


def _read_vector(row: Any, where: str) -> NDArray[np.float64]:
    array = read_array(row, where)
    if array.ndim != 1 or array.dtype.kind not in "iufb":
        raise InputError(
            f"{where} has the vector {row!r}; expected a list or an array of numbers for each id."
        )
    return array.astype(np.float64)


def _check_finite(values: Floats, where: str, form: str) -> None:
    """Raise `InputError` for infinite numbers, and for vectors with NaN among numbers."""
    is_wrong: NDArray[np.bool_] = np.isinf(values)
    if form == "vector":
        is_nan = np.isnan(values)
        is_wrong = np.any(is_wrong | is_nan, axis=1) & ~np.all(is_nan, axis=1)
    if is_wrong.any():
        row, num_wrong = int(np.flatnonzero(is_wrong)[0]), int(is_wrong.sum())
        wrong = agree(num_wrong, "{n} {form}{s} that {are}", form=form)
        raise InputError(
            f"{where} has {wrong} not finite, the first in row {row}: {values[row]}; remove or "
            f"repair {agree(num_wrong, '{them}')}."
        )
