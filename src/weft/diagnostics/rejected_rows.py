"""What `weft.evaluate` refuses, with the repairs that let it go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import polars as pl

from weft.diagnostics.reading import PAIR, RawTable
from weft.diagnostics.repairs import finite, repair_lists, repair_train, repair_truth, repeated
from weft.diagnostics.what_if import Found, Inputs, Treatment, first_ids, many


def refused_truth(truth: RawTable, threshold: float | None) -> Iterator[Found]:
    """Ratings that are no numbers or below 0, and repeated rows."""
    frame = truth.frame
    bad = frame.filter(~finite("rating"))
    if count := len(bad):
        yield Found(
            "not-finite-ratings",
            "error",
            "truth",
            f"{count:,} of {truth.rows:,} ratings are missing, NaN or infinite.",
            count,
            truth.examples(bad),
            (
                Treatment("rows dropped"),
                Treatment(
                    "counted as rated 1",
                    lambda data: replace(
                        data,
                        truth=repair_truth(
                            truth.with_frame(repair_train(truth).frame), threshold=threshold
                        ),
                    ),
                ),
            ),
            "Give each row a rating, or leave the column out: without it every row is relevant.",
        )
    negative = frame.filter(finite("rating") & (pl.col("rating") < 0))
    if threshold is None and (count := len(negative)):
        yield Found(
            "negative-ratings",
            "error",
            "truth",
            f"{count:,} of {truth.rows:,} ratings are below 0, and there is no threshold that says "
            "what they mean.",
            count,
            truth.examples(negative),
            (
                Treatment("counted as rated 0, not relevant"),
                Treatment(
                    "rows dropped",
                    lambda data: replace(
                        data, truth=repair_truth(truth, threshold=threshold, negative="drop")
                    ),
                ),
            ),
            "Give relevance_threshold (--relevance-threshold), or remove these rows.",
        )
    again = truth.repetitions
    if count := len(again):
        yield Found(
            "duplicates-in-truth",
            "error",
            "truth",
            f"{count:,} of {truth.rows:,} rows repeat the user and item of an earlier row.",
            count,
            truth.examples(again),
            (
                Treatment("keep-best"),
                Treatment(
                    "keep-worst",
                    lambda data: replace(
                        data, truth=repair_truth(truth, threshold=threshold, duplicates="worst")
                    ),
                ),
            ),
            "Keep one row per user and item: the best, or the last in time.",
        )


def refused_train(train: RawTable) -> Iterator[Found]:
    """Ratings that are no numbers, and repeated rows, which are not refused but told."""
    bad = train.frame.filter(~finite("rating"))
    if count := len(bad):
        yield Found(
            "not-finite-ratings",
            "error",
            "train",
            f"{count:,} of {train.rows:,} ratings are missing, NaN or infinite.",
            count,
            train.examples(bad),
            (
                Treatment("rows kept as seen"),
                Treatment(
                    "rows dropped",
                    lambda data: replace(
                        data, train=train.with_frame(train.frame.filter(finite("rating")))
                    ),
                ),
            ),
            "Give each row a rating, or leave the column out: train says what was seen.",
        )
    again = train.repetitions
    if count := len(again):
        yield Found(
            "duplicates-in-train",
            "note",
            "train",
            f"{count:,} of {train.rows:,} rows repeat the user and item of an earlier row; each "
            "pair counts once.",
            count,
            train.examples(again),
            (Treatment("each pair once"),),
            "Nothing, if users may meet an item several times; popularity counts users here, not "
            "events.",
        )


def refused_lists(table: RawTable) -> Iterator[Found]:
    """Scores and ranks that are no numbers, repeated items and repeated ranks."""
    frame = table.frame
    for column in ("score", "rank"):
        if column not in frame.columns or not (count := len(bad := frame.filter(~finite(column)))):
            continue
        ways = [Treatment("rows dropped")]
        if column == "score":
            ways.append(
                Treatment(
                    "ranked last",
                    lambda data: replace(data, lists=repair_lists(table, not_finite="last")),
                )
                if "rank" not in frame.columns
                else Treatment(
                    "kept at their rank",
                    lambda data: replace(data, lists=repair_lists(table, not_finite="last")),
                )
            )
        yield Found(
            f"not-finite-{column}s",
            "error",
            table.where,
            f"{count:,} of {table.rows:,} {column}s are missing, NaN or infinite.",
            count,
            table.examples(bad),
            tuple(ways),
            f"Find out why the model has no {column} there; leave these rows out, or give them a "
            "number.",
        )
    if count := len(table.imprecise):
        yield Found(
            "scores-beyond-precision",
            "error",
            table.where,
            f"{count:,} of {table.rows:,} scores are whole numbers beyond 2**53, which float64 "
            "cannot tell apart.",
            count,
            table.examples(table.imprecise),
            (Treatment("scores rounded to float64"),),
            "Scale the scores down, or give ranks.",
        )
    again = table.repetitions
    if count := len(again):
        yield Found(
            "duplicates-in-lists",
            "error",
            table.where,
            f"{count:,} of {table.rows:,} rows repeat an item in their list "
            f"({many(again['user'].n_unique(), 'user')}).",
            count,
            table.examples(again),
            (
                Treatment("keep-best"),
                Treatment(
                    "keep-worst",
                    lambda data: replace(data, lists=repair_lists(table, duplicates="worst")),
                ),
            ),
            "duplicates='keep-best' (--duplicates keep-best) goes on with the best of each; look "
            "for a join that doubles rows.",
        )
    if "rank" in frame.columns:
        twice = frame.filter(finite("rank") & ~repeated(PAIR)).filter(repeated(["user", "rank"]))
        if count := len(twice):
            by = "score, then row" if "score" in frame.columns else "row"
            yield Found(
                "repeated-ranks",
                "error",
                table.where,
                f"{count:,} of {table.rows:,} rows have a rank that another item of the same user "
                "has, too.",
                count,
                table.examples(twice),
                (
                    Treatment(f"equal ranks by {by}"),
                    Treatment(
                        "equal ranks in reverse",
                        lambda data: replace(
                            data, lists=repair_lists(table, equal_ranks="reverse")
                        ),
                    ),
                ),
                "Give each item of a list a rank of its own, or give scores instead of ranks.",
            )


def outside_catalogue(whole: Inputs) -> Iterator[Found]:
    """A catalogue that repeats items, or lacks some that occur."""
    if whole.items is None:
        return
    again = whole.items.filter(whole.items.is_duplicated()).unique(maintain_order=True)
    if len(again):
        yield Found(
            "duplicates-in-items",
            "error",
            "items",
            f"{len(again):,} items stand in the catalogue more than once.",
            len(again),
            first_ids("item", again),
            (Treatment("each item once"),),
            "Write each item once.",
        )
    catalogue = whole.items.to_frame("item")
    for name, table in whole.tables().items():
        rows = table.frame.join(catalogue, on="item", how="anti", maintain_order="left")
        if count := len(rows):
            yield Found(
                "items-outside-catalogue",
                "error",
                name,
                f"{count:,} of {table.rows:,} rows ({many(rows['item'].n_unique(), 'item')}) are "
                "not in the catalogue of "
                f"{whole.items.n_unique():,} items.",
                count,
                table.examples(rows),
                (
                    Treatment("catalogue widened by them"),
                    Treatment(
                        f"rows of {name} dropped",
                        partial(_inside, name=name, catalogue=catalogue),
                    ),
                ),
                "Give the whole catalogue, or leave it out: it is then every item that occurs.",
            )


def _inside(data: Inputs, *, name: str, catalogue: pl.DataFrame) -> Inputs:
    """The data without the rows of one table whose items are not in the catalogue."""

    def inside(table: RawTable) -> RawTable:
        return table.with_frame(
            table.frame.join(catalogue, on="item", how="semi", maintain_order="left")
        )

    return data.map(lambda table: inside(table) if table.where == name else table)
