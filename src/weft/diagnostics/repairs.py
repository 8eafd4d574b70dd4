"""Repairs of tables that an evaluation would reject."""

from __future__ import annotations

import polars as pl

from weft.diagnostics.reading import PAIR, RawTable


def finite(column: str) -> pl.Expr:
    """Return an expression that is true for finite numbers that are not missing."""
    return pl.col(column).is_finite().fill_null(False)


def repeated(columns: list[str]) -> pl.Expr:
    """Return an expression that is true for rows that repeat an earlier row in these columns."""
    return pl.struct(columns).is_first_distinct().not_()


def repair_lists(
    table: RawTable,
    *,
    not_finite: str = "drop",
    duplicates: str = "best",
    equal_ranks: str = "in order",
) -> RawTable:
    """Return lists with finite scores and ranks, each item once per user, and distinct ranks.

    `not_finite`: "drop" rows without a finite score, or rank them "last". `duplicates`: keep the
    "best" or the "worst". `equal_ranks`: sort items of equal rank "in order" of their scores and
    rows, or in "reverse".
    """
    frame = table.frame
    if "rank" in frame.columns:
        frame = frame.filter(finite("rank"))
    if "score" in frame.columns:
        if not_finite == "drop":
            frame = frame.filter(finite("score"))
        else:
            lowest = pl.col("score").filter(finite("score")).min().fill_null(0.0)
            frame = frame.with_columns(pl.when(finite("score")).then("score").otherwise(lowest - 1))
    if len(table.repetitions):
        by = next(column for column in ("rank", "score", "row") if column in frame.columns)
        frame = _once_each(frame, by, duplicates)
    if "rank" in frame.columns and frame.select(repeated(["user", "rank"]).any()).item():
        frame = _distinct_ranks(frame, is_reversed=equal_ranks == "reverse")
    return table.with_frame(frame)


def _distinct_ranks(frame: pl.DataFrame, *, is_reversed: bool) -> pl.DataFrame:
    """Renumber ranks from 1; equal ranks in order of score (highest first) and row, or reversed."""
    columns, descending = ["user", "rank", "row"], [False, False, is_reversed]
    if "score" in frame.columns:
        columns.insert(2, "score")
        descending.insert(2, not is_reversed)
    ranks = pl.int_range(1, pl.len() + 1).over("user").cast(pl.Float64)
    return frame.sort(columns, descending=descending).with_columns(rank=ranks).sort("row")


def repair_truth(
    table: RawTable, *, threshold: float | None, duplicates: str = "best", negative: str = "zero"
) -> RawTable:
    """Return truth with finite ratings, not negative without a threshold, each item once per user.

    `negative`: set ratings below 0 to "zero", or "drop" their rows.
    """
    frame = table.frame.filter(finite("rating"))
    if threshold is None:
        frame = (
            frame.filter(pl.col("rating") >= 0)
            if negative == "drop"
            else frame.with_columns(pl.col("rating").clip(0.0))
        )
    return table.with_frame(
        _once_each(frame, "rating", duplicates) if len(table.repetitions) else frame
    )


def repair_train(table: RawTable) -> RawTable:
    """Return train with rating 1 for ratings that are not finite (the item was seen)."""
    return table.with_frame(
        table.frame.with_columns(pl.when(finite("rating")).then("rating").otherwise(1.0))
    )


def _once_each(frame: pl.DataFrame, by: str, which: str) -> pl.DataFrame:
    """Return each (user, item) once: the "best" or the "worst" by rank, row, score or rating."""
    falling = by in ("score", "rating")
    ordered = frame.sort(
        by, "row", descending=[falling if which == "best" else not falling, which != "best"]
    )
    return ordered.unique(PAIR, keep="first", maintain_order=True).sort("row")
