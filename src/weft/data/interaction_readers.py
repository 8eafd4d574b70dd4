"""Readers of truth, train and candidates from rows and matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from weft.data.frames import is_frame, library_of
from weft.data.interactions import InteractionTable
from weft.data.precision import find_inexact, inexact_integers
from weft.data.readers.files import is_file
from weft.data.readers.role_assignment import ROLES_OF_USE
from weft.data.row_readers import read_rows
from weft.errors import InputError, check_unmasked, describe_type

# Padding of labels that losses of torch and Hugging Face ignore; -1 is padding too.
IGNORED_ITEM = -100


def read_interactions(data: Any, where: str, *, reads_times: bool = False) -> InteractionTable:
    """Return truth or train in any accepted form; raise `InputError` for invalid rows.

    `where` ("truth", "train") names the data in messages. `reads_times`: also timestamps, if there
    are some.
    """
    use = where if where in ROLES_OF_USE else "truth"
    table = read_unchecked(data, where, use="timed" if reads_times else use)
    table.check_finite()
    return table


def read_pairs(data: Any, where: str) -> InteractionTable:
    """Return users and items in any of these forms, without values."""
    table = read_unchecked(data, where, use="candidates")
    table.check_finite()
    return table.without_values()


def read_unchecked(data: Any, where: str, *, use: str) -> InteractionTable:
    """Return truth or train in any accepted form; values may be NaN or infinite."""
    if isinstance(data, Mapping) or is_file(data) or is_frame(data):
        table = read_rows(data, where, use=use).to_interactions("rating", 1.0)
        return replace(table, value_name="rating")
    if _is_item_per_row(data, where):
        return _from_item_numbers(data, where)
    library = library_of(data)
    if library == "scipy" and hasattr(data, "tocoo"):
        return _from_scipy(data, where)
    if library == "torch" and hasattr(data, "layout"):
        return _from_torch(data, where)
    if isinstance(data, np.ndarray):
        check_unmasked(data, where, "give array.filled(0), where 0 means no interaction")
        return _from_dense(data, where)
    raise InputError(
        f"{where} is {describe_type(data)}; expected a path, a polars or pandas frame or Arrow "
        "table (user, item, rating), a scipy or torch sparse matrix, a dense [users, items] "
        "matrix, {user: {item: rating}} or {user: [(item, rating), ...]}."
    )


def _is_item_per_row(data: Any, where: str) -> bool:
    """Return True for a truth of integers `[users]`, of NumPy or torch."""
    if where != "truth":
        return False
    if isinstance(data, np.ndarray):
        return data.ndim == 1 and data.dtype.kind in "iu"
    if library_of(data) != "torch" or getattr(data, "ndim", 0) != 1:
        return False
    import torch

    return not (data.is_floating_point() or data.is_complex() or data.dtype == torch.bool)


def _from_item_numbers(data: Any, where: str) -> InteractionTable:
    """Return one relevant item for each row by its number, without rows that have none."""
    import polars as pl

    if isinstance(data, np.ndarray):
        check_unmasked(data, where, "give array.filled(-1), where -1 means no item")
    else:
        data = data.detach().cpu().numpy()
    numbers = data.astype(np.int64)
    is_padding = np.isin(numbers, (-1, IGNORED_ITEM)) & (data.dtype.kind == "i")
    is_wrong = (numbers < 0) & ~is_padding  # also unsigned numbers that no int64 holds
    if is_wrong.any():
        row = int(np.flatnonzero(is_wrong)[0])
        raise InputError(
            f"{where} has the item number {data[row]} in row {row}; expected one relevant item "
            "for each row, numbered from 0, or -1 or -100 for none."
        )
    rows = np.flatnonzero(numbers >= 0)
    return InteractionTable(
        where,
        pl.Series(rows.astype(np.int64)),
        pl.Series(numbers[rows]),
        np.ones(len(rows)),
        all_users=pl.int_range(len(numbers), dtype=pl.Int64, eager=True),
        num_rows=len(numbers),
    )


def _from_matrix(
    users: Any, items: Any, values: NDArray[Any], shape: tuple[int, ...], where: str
) -> InteractionTable:
    """Return the stored entries of a matrix by row and column number.

    Raises `InputError` for numbers outside of the matrix, which neither torch nor SciPy checks."""
    import polars as pl

    if values.dtype.kind not in "biuf":
        raise InputError(f"{where} is a matrix of {values.dtype}; its values must be real numbers.")
    codes = [np.asarray(numbers, dtype=np.int64) for numbers in (users, items)]
    for numbers, size, axis in zip(codes, shape, ("row", "column")):
        if len(numbers) != len(values):
            _refuse_indices(f"{len(values)} values but {len(numbers)} {axis} indices", shape, where)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < size:
            outside = numbers[(numbers < 0) | (numbers >= size)][0]
            _refuse_indices(f"a value in {axis} {outside}", shape, where)
    if len(large := find_inexact(values)):
        cell = [int(numbers[large[0]]) for numbers in codes]
        raise inexact_integers(where, f"position {cell}", values[large[0]], "rating")
    ratings = values.astype(np.float64, copy=False)
    users, items = map(pl.Series, codes)
    return InteractionTable(where, users, items, ratings, (shape[0], shape[1]))


def _refuse_indices(got: str, shape: tuple[int, ...], where: str) -> NoReturn:
    raise InputError(
        f"{where} is a sparse matrix {list(shape)} with {got}; expected indices within the shape "
        "of the matrix. Build it with check_invariants=True (torch), or call its check_format() "
        "(SciPy CSR and CSC), to find the invalid index."
    )


def _check_pointers(
    pointers: NDArray[Any], size: int, num_values: int, shape: tuple[int, ...], where: str
) -> None:
    """Check the row pointers of a CSR matrix, or the column pointers of a CSC matrix."""
    is_valid = len(pointers) == size + 1 and pointers[0] == 0 and pointers[-1] <= num_values
    if not is_valid or (pointers[1:] < pointers[:-1]).any():
        _refuse_indices(
            "index pointers that do not increase from 0 to the number of values", shape, where
        )


def check_scipy_pointers(matrix: Any, where: str) -> None:
    """Check the index pointers of a CSR, CSC or BSR matrix, which SciPy follows in native code."""
    size = matrix.shape[matrix.format == "csc"]
    if matrix.format == "bsr":
        size //= matrix.blocksize[0]
    num_values = min(len(matrix.indices), len(matrix.data))
    _check_pointers(matrix.indptr, size, num_values, matrix.shape, where)


def _from_scipy(matrix: Any, where: str) -> InteractionTable:
    _check_two_dimensions(matrix.shape, where)
    if hasattr(matrix, "indptr"):
        check_scipy_pointers(matrix, where)
    try:
        coo = matrix.tocoo()  # keeps stored zeros and repeated entries, which are checked later
    except ValueError as error:
        _refuse_indices(f"invalid indices ({error})", matrix.shape, where)
    return _from_matrix(coo.row, coo.col, coo.data, coo.shape, where)


def _from_torch(tensor: Any, where: str) -> InteractionTable:
    import torch

    from weft.data.devices import check_has_data

    check_has_data(tensor, where)
    _check_two_dimensions(tuple(tensor.shape), where)

    def to_array(part: Any) -> NDArray[Any]:
        part = part.detach().cpu()
        array: NDArray[Any] = (part.float() if part.dtype == torch.bfloat16 else part).numpy()
        return array

    if tensor.layout == torch.strided:
        return _from_dense(to_array(tensor), where)
    if tensor.layout == torch.sparse_csr:
        columns, values = to_array(tensor.col_indices()), tensor.values()
        pointers = to_array(tensor.crow_indices())
        _check_pointers(pointers, tensor.shape[0], len(columns), tuple(tensor.shape), where)
        rows = np.repeat(np.arange(tensor.shape[0]), np.diff(pointers))
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
            f"{where} has shape {list(shape)}; a matrix of ratings has the shape [users, items], "
            "with 0 for no interaction. Only the truth can be a vector [users] of integers, one "
            "item number for each user."
        )
