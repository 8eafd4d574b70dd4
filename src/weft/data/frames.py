"""Frames of polars, pandas and any library with Arrow's stream interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.data.readers.roles import check_unique_columns
from weft.errors import InputError

GetColumn = Callable[[str], Any]
_FRAMES = {"polars": ("DataFrame", "LazyFrame"), "pandas": ("DataFrame",)}
# Types with Arrow's stream interface that are a column and not a table.
_COLUMNS = ("Series", "ChunkedArray")


def library_of(data: Any) -> str:
    """Return the name of the package that defines the type of `data`."""
    return type(data).__module__.partition(".")[0]


def is_frame(data: Any) -> bool:
    """True for a polars or pandas frame, and for a table of another library that Arrow can read.

    Those have the method `__arrow_c_stream__`, as tables of pyarrow, DuckDB and Ibis.
    """
    name, library = type(data).__name__, library_of(data)
    if library in _FRAMES:
        return name in _FRAMES[library]
    is_instance = not isinstance(data, type)
    return is_instance and hasattr(data, "__arrow_c_stream__") and name not in _COLUMNS


def collect_frame(frame: Any, where: str) -> Any:
    """Return a pandas frame as it is, and any other frame as a polars frame with its rows."""
    library = library_of(frame)
    if library == "pandas":
        return frame
    if library == "polars":
        return frame.collect() if hasattr(frame, "collect") else frame
    import polars as pl

    try:
        return pl.DataFrame(frame)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{where} is a {library} {type(frame).__name__} that cannot be read as an Arrow table: "
            f"{reason}. Convert it to a polars or pandas frame."
        ) from error


def open_frame(frame: Any, where: str) -> tuple[list[str], GetColumn]:
    """Return the unique column names of a frame, and a function that returns a column."""
    frame = collect_frame(frame, where)
    if library_of(frame) == "pandas":
        columns = [str(name) for name in frame.columns]
        check_unique_columns(columns, where)
        return columns, lambda name: _from_pandas(frame[name])
    return frame.columns, frame.__getitem__


def _from_pandas(column: Any) -> Any:
    """Return a pandas column as an array of numbers, or as a list with None for missing values."""
    # Polars' own conversion needs pyarrow, which is not a dependency.
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iufb":
        return column.to_numpy()
    return [
        None if is_missing else value for value, is_missing in zip(column.tolist(), column.isna())
    ]
