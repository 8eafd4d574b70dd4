"""Readers of truth, train and candidates from rows and matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data.interactions import InteractionTable
from weft.data.readers.files import is_file
from weft.data.readers.role_assignment import ROLES_OF_USE
from weft.data.row_readers import is_frame, library_of, read_rows
from weft.errors import InputError, check_unmasked


def read_interactions(data: Any, where: str) -> InteractionTable:
    """Return truth or train in any accepted form; raise `InputError` for invalid rows.

    `where` ("truth", "train") names the data in messages.
    """
    table = _read_unchecked(data, where, use=where if where in ROLES_OF_USE else "truth")
    table.check_finite()
    return table


def read_pairs(data: Any, where: str) -> InteractionTable:
    """Return users and items in any of these forms, without values."""
    table = _read_unchecked(data, where, use="candidates")
    table.check_finite()
    return table.without_values()


def _read_unchecked(data: Any, where: str, *, use: str) -> InteractionTable:
    """Return truth or train in any accepted form; values may be NaN or infinite."""
    if isinstance(data, Mapping) or is_file(data) or is_frame(data):
        table = read_rows(data, where, use=use).to_interactions("rating", 1.0)
        return replace(table, value_name="rating")
    library = library_of(data)
    if library == "scipy" and hasattr(data, "tocoo"):
        return _from_scipy(data, where)
    if library == "torch" and hasattr(data, "layout"):
        return _from_torch(data, where)
    if isinstance(data, np.ndarray):
        check_unmasked(data, where, "give array.filled(0), where 0 is no interaction")
        return _from_dense(data, where)
    raise InputError(
        f"{where} is a {type(data).__name__}; expected a path, a polars or pandas frame (user, "
        "item, rating), a scipy or torch sparse matrix, a dense [users, items] matrix, {user: "
        "{item: rating}} or {user: [(item, rating), ...]}."
    )


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
