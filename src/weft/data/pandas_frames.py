"""Polars frames as pandas frames, without pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.errors import MissingExtra

if TYPE_CHECKING:
    import polars as pl


def to_pandas(frame: pl.DataFrame) -> Any:
    """Return a frame of numbers, texts and truth values as a pandas frame.

    Integers and truth values have the nullable types `Int64` and `boolean`, whether or not some are
    missing; undefined numbers are NaN. Raises `MissingExtra` if pandas is not installed.
    """
    import polars

    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtra(
            "to_pandas needs pandas; install it with: pip install pandas. to_frame returns a "
            "polars frame."
        ) from error

    def convert(column: pl.Series) -> Any:
        if column.dtype.is_float():
            return column.to_numpy()
        if column.dtype.is_integer():
            return pd.array(column.to_list(), dtype="Int64")
        if column.dtype == polars.Boolean:
            return pd.array(column.to_list(), dtype="boolean")
        return column.to_list()

    return pd.DataFrame({column.name: convert(column) for column in frame.get_columns()})
