"""Columns of a scan, read into memory with strings as codes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from weft.data.readers.scans import collect

if TYPE_CHECKING:
    import polars as pl

# Reads columns of a scan by name, given their expressions and the names of those with strings.
CollectColumns = Callable[
    ["pl.LazyFrame", Mapping[str, "pl.Expr"], Collection[str]], dict[str, "pl.Series"]
]
# Rows from which it is decided whether users come in runs, and how long these must be.
_HEAD_ROWS = 1 << 12
_MIN_RUN_ROWS = 8


def collect_columns(
    scan: pl.LazyFrame, columns: Mapping[str, pl.Expr], strings: Collection[str]
) -> dict[str, pl.Series]:
    """Return columns by name, each in one chunk of memory.

    Those of `strings` become an `Enum` of their sorted values, so that codes are reproducible.
    """
    import polars as pl

    done: dict[str, pl.Series] = {}
    if "user" in strings and (users := _read_runs(scan, columns["user"])) is not None:
        done["user"] = users
    selected = {
        name: column.cast(pl.Categorical(pl.Categories.random())) if name in strings else column
        for name, column in columns.items()
        if name not in done
    }
    frame = collect(scan.select(**selected))
    # One column after the other, so that there are never two copies of all columns.
    for name in selected:
        join = _sort_categories if name in strings else pl.Series.rechunk
        done[name] = join(frame.drop_in_place(name))
    return {name: done[name] for name in columns}


def _sort_categories(column: pl.Series) -> pl.Series:
    """Return categories, which have codes in any order, as an `Enum` of their sorted values."""
    import polars as pl

    distinct = column.drop_nulls().unique(maintain_order=True)  # in polars 2.1 faster than without
    values = distinct.cast(pl.String)
    codes = distinct.to_physical().to_numpy().astype(np.int64)
    places = np.zeros(codes.max(initial=-1) + 1, dtype=np.uint32)
    places[codes] = np.arange(len(codes))
    by_code = values.cast(pl.Enum(values.sort())).gather(places)
    return by_code.gather(column.to_physical())


def _read_runs(scan: pl.LazyFrame, column: pl.Expr) -> pl.Series | None:
    """Return a column of strings as an `Enum`, several times faster if it has long runs.

    None if the first rows have none.
    """
    import polars as pl

    ids = scan.select(id=column)
    head = collect(ids.head(_HEAD_ROWS))["id"]
    if len(head) < _MIN_RUN_ROWS * head.rle_id().n_unique():
        return None
    runs = collect(ids.select(pl.col("id").rle()).unnest("id"))
    values = runs["value"].rechunk()
    codes = values.cast(pl.Enum(values.drop_nulls().unique().sort()))
    numbers = np.arange(len(runs), dtype=np.uint32)
    # A series, because `gather` copies an array.
    return codes.gather(pl.Series(np.repeat(numbers, runs["len"].to_numpy())))
