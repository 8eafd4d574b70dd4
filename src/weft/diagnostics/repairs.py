"""Tables that an evaluation would refuse, repaired so that it takes them, one way or another."""

from __future__ import annotations

import polars as pl

from weft.diagnostics.reading import PAIR, RawTable


def finite(column: str) -> pl.Expr:
    """Whether a number is there and finite."""
    return pl.col(column).is_finite().fill_null(False)


def repeated(columns: list[str]) -> pl.Expr:
    """Whether a row repeats an earlier one in these columns."""
    return pl.struct(columns).is_first_distinct().not_()


def repair_lists(
    table: RawTable,
    *,
    not_finite: str = "drop",
    duplicates: str = "best",
    equal_ranks: str = "in order",
) -> RawTable:
    """Lists with finite scores and ranks, each item once per user, and ranks that differ.

    `not_finite`: rows without a finite score are "drop"ped or ranked "last". `duplicates`: the
    "best" or the "worst" of each stays. `equal_ranks`: items of one rank stand "in order" of their
    scores and rows, or in "reverse"."""
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
        order = {
            "user": False,
            "rank": False,
            **({"score": True} if "score" in frame.columns else {}),
            "row": False,
        }
        if equal_ranks == "reverse":
            order = {
                name: falls if name in ("user", "rank") else not falls
                for name, falls in order.items()
            }
        ordered = frame.sort(list(order), descending=list(order.values()))
        ranks = pl.int_range(1, pl.len() + 1).over("user").cast(pl.Float64)
        frame = ordered.with_columns(rank=ranks).sort("row")
    return table.with_frame(frame)


def repair_truth(
    table: RawTable, *, threshold: float | None, duplicates: str = "best", negative: str = "zero"
) -> RawTable:
    """Truth with finite ratings, none below 0 unless there is a threshold, and each item once per
    user.

    `negative`: ratings below 0 become "zero", or their rows are "drop"ped.
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
    """Train with finite ratings: without one, an item has been seen all the same."""
    return table.with_frame(
        table.frame.with_columns(pl.when(finite("rating")).then("rating").otherwise(1.0))
    )


def _once_each(frame: pl.DataFrame, by: str, which: str) -> pl.DataFrame:
    """Each (user, item) once: the "best" or the "worst", by the lowest rank or row, or the highest
    score or rating.
    """
    falling = by in ("score", "rating")
    ordered = frame.sort(
        by, "row", descending=[falling if which == "best" else not falling, which != "best"]
    )
    return ordered.unique(PAIR, keep="first", maintain_order=True).sort("row")
