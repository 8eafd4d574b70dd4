"""Scans of files by polars, with its panics as errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

FIELD_SEPARATOR = "\x1f"  # a character that text files may not contain


@contextmanager
def catch_panics() -> Iterator[None]:
    """Raise a `PolarsError` for a panic of polars, which derives from `BaseException` alone."""
    import polars as pl

    try:
        yield
    except pl.exceptions.PanicException as error:
        raise pl.exceptions.ComputeError(f"polars could not read the file: {error}") from None


def collect(scan: pl.LazyFrame) -> pl.DataFrame:
    """Return the rows of a scan; raise `PolarsError` or `OSError` if it cannot be read."""
    with catch_panics():
        return scan.collect(engine="streaming")


def scan_parquet(path: Path) -> pl.LazyFrame:
    """Scan one Parquet file; its name is no pattern."""
    import polars as pl

    return pl.scan_parquet(path, glob=False)


def scan_lines(path: Path, num_skipped: int = 0) -> pl.LazyFrame:
    """Scan the lines of a text file, after `num_skipped` ones, as the column `line`."""
    import polars as pl

    return pl.scan_csv(
        path,
        has_header=False,
        skip_rows=num_skipped,
        separator=FIELD_SEPARATOR,
        quote_char=None,
        schema={"line": pl.String},
        glob=False,
    )
