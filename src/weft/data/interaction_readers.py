"""Readers of truth, train and candidates from files, frames, dicts and matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data.interaction_table import InteractionTable
from weft.data.readers.files import FileTable, is_file, read_table
from weft.data.readers.roles import ID_ROLES, check_unique_columns, find_column
from weft.data.vocabulary import id_series
from weft.errors import InputError

if TYPE_CHECKING:
    import polars as pl

GetColumn = Callable[[str], Any]


def read_interactions(data: Any, where: str) -> InteractionTable:
    """Return truth or train; raise `InputError` for values that are not finite.

    `where` ("truth", "train") names the data in messages.
    """
    table = read_unchecked(data, where)
    table.check_finite()
    return table


def read_unchecked(data: Any, where: str) -> InteractionTable:
    """Return truth or train in any accepted form; values may be NaN or infinite."""
    if isinstance(data, Mapping):
        return _from_dict(data, where)
    if is_file(data):
        return _from_file(read_table(data, where))
    if is_frame(data):
        return _from_frame(*open_frame(data, where), where)
    library = _library(data)
    if library == "scipy" and hasattr(data, "tocoo"):
        return _from_scipy(data, where)
    if library == "torch" and hasattr(data, "layout"):
        return _from_torch(data, where)
    if isinstance(data, np.ndarray):
        return _from_dense(data, where)
    raise InputError(
        f"{where} is a {type(data).__name__}; expected a path, a polars or pandas frame (user, "
        "item, rating), a scipy or torch sparse matrix, a dense [users, items] matrix, or {user: "
        "{item: rating}}."
    )


def read_pairs(data: Any, where: str) -> InteractionTable:
    """Return users and items in any of these forms, without values."""
    if is_frame(data):
        users, items = read_ids(*open_frame(data, where), where)
        return InteractionTable(where, users, items, np.ones(len(users)), value_name="")
    table = read_interactions(data, where)
    return replace(table, values=np.ones(len(table.values)), value_name="")


def _library(data: Any) -> str:
    return type(data).__module__.partition(".")[0]


def is_frame(data: Any) -> bool:
    """True for a polars or pandas frame."""
    frames = {"polars": ("DataFrame", "LazyFrame"), "pandas": ("DataFrame",)}
    return type(data).__name__ in frames.get(_library(data), ())


def open_frame(frame: Any, where: str) -> tuple[list[str], GetColumn]:
    """Return the unique column names of a frame, and a function that returns a column."""
    if _library(frame) == "pandas":
        columns = [str(name) for name in frame.columns]
        check_unique_columns(columns, where)
        return columns, lambda name: _from_pandas(frame[name])
    frame = frame.collect() if hasattr(frame, "collect") else frame
    return frame.columns, frame.__getitem__


def _from_pandas(column: Any) -> Any:
    """Return a pandas column as an array of numbers, or as a list with None for missing values."""
    # Polars' own conversion needs pyarrow, which is not a dependency.
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iufb":
        return column.to_numpy()
    return [
        None if is_missing else value for value, is_missing in zip(column.tolist(), column.isna())
    ]


def _from_dict(data: Mapping[Any, Any], where: str) -> InteractionTable:
    users: list[Any] = []
    items: list[Any] = []
    values: list[float] = []
    for user, row in data.items():
        if isinstance(row, (str, bytes)) or not hasattr(row, "__iter__"):
            raise InputError(
                f"{where}[{user!r}] is {row!r}; expected {{item: rating}} or a list of items."
            )
        row_items = list(row)
        ratings = row.values() if isinstance(row, Mapping) else [1.0] * len(row_items)
        users.extend([user] * len(row_items))
        items.extend(row_items)
        try:
            values.extend(np.nan if rating is None else float(rating) for rating in ratings)
        except (TypeError, ValueError):
            raise InputError(
                f"{where}[{user!r}] is {row!r}; its ratings must be numbers."
            ) from None
    return InteractionTable(
        where,
        id_series(users, "user", where),
        id_series(items, "item", where),
        np.asarray(values, dtype=np.float64),
        all_users=id_series(list(data), "user", where),
    )


def _from_file(table: FileTable) -> InteractionTable:
    ratings = table.columns.get("rating")
    return InteractionTable(
        table.where,
        table.columns["user"],
        table.columns["item"],
        np.ones(len(table)) if ratings is None else ratings.to_numpy(),
        all_users=table.all_users,
        table=table,
    )


def _from_frame(columns: list[str], get_column: GetColumn, where: str) -> InteractionTable:
    users, items = read_ids(columns, get_column, where)
    name = find_column(columns, "rating", where)
    values = np.ones(len(users)) if name is None else read_numbers(get_column(name), name, where)
    return InteractionTable(where, users, items, values)


def read_ids(columns: list[str], get_column: GetColumn, where: str) -> tuple[pl.Series, pl.Series]:
    """Return the user and the item of each row of a frame."""
    users, items = (
        id_series(get_column(str(find_column(columns, role, where))), role, where)
        for role in ID_ROLES
    )
    return users, items


def read_numbers(
    column: Any, name: str, where: str, value_name: str = "rating"
) -> NDArray[np.float64]:
    """Return a column of numbers, NaN where one is missing."""
    import polars as pl

    numbers = column if isinstance(column, pl.Series) else pl.Series(column, strict=False)
    is_empty = numbers.null_count() == len(numbers)
    if not (numbers.dtype.is_numeric() or numbers.dtype == pl.Boolean or is_empty):
        raise InputError(
            f"{where}: the column {name!r} holds {numbers.dtype}; {value_name}s must be numbers."
        )
    return numbers.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _from_matrix(
    users: Any, items: Any, values: NDArray[Any], shape: tuple[int, ...], where: str
) -> InteractionTable:
    """Return the stored entries of a matrix by row and column number."""
    import polars as pl

    if values.dtype.kind not in "biuf":
        raise InputError(f"{where} is a matrix of {values.dtype}; ratings must be real numbers.")
    users, items = (pl.Series(np.asarray(codes, dtype=np.int64)) for codes in (users, items))
    numbers = values.astype(np.float64, copy=False)
    return InteractionTable(where, users, items, numbers, (shape[0], shape[1]))


def _from_scipy(matrix: Any, where: str) -> InteractionTable:
    _check_two_dimensions(matrix.shape, where)
    coo = matrix.tocoo()  # keeps stored zeros and repeated entries, which are checked later
    return _from_matrix(coo.row, coo.col, coo.data, coo.shape, where)


def _from_torch(tensor: Any, where: str) -> InteractionTable:
    import torch

    _check_two_dimensions(tuple(tensor.shape), where)

    def to_array(part: Any) -> NDArray[Any]:
        part = part.detach().cpu()
        array: NDArray[Any] = (part.float() if part.dtype == torch.bfloat16 else part).numpy()
        return array

    if tensor.layout == torch.strided:
        return _from_dense(to_array(tensor), where)
    if tensor.layout == torch.sparse_csr:
        lengths = np.diff(to_array(tensor.crow_indices()))
        rows = np.repeat(np.arange(tensor.shape[0]), lengths)
        columns, values = to_array(tensor.col_indices()), tensor.values()
    elif tensor.layout == torch.sparse_coo and tensor.dense_dim() == 0:
        (rows, columns), values = to_array(tensor._indices()), tensor._values()
    else:
        raise InputError(
            f"{where} has the torch layout {tensor.layout}; expected a sparse CSR, sparse COO or "
            "dense matrix."
        )
    return _from_matrix(rows, columns, to_array(values), tuple(tensor.shape), where)


def _from_dense(matrix: NDArray[Any], where: str) -> InteractionTable:
    _check_two_dimensions(matrix.shape, where)
    rows, columns = np.nonzero(matrix)
    return _from_matrix(rows, columns, matrix[rows, columns], matrix.shape, where)


def _check_two_dimensions(shape: tuple[int, ...], where: str) -> None:
    if len(shape) != 2:
        raise InputError(
            f"{where} has shape {list(shape)}; a matrix of ratings is [users, items], 0 where "
            "absent."
        )
