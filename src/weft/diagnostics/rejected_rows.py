"""Findings about rows that `weft.evaluate` rejects, and the repairs that make them usable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from weft.data.interactions import MAX_EXAMPLES
from weft.diagnostics.reading import PAIR, RawTable
from weft.diagnostics.what_if import (
    DraftFinding,
    Inputs,
    Treatment,
    draft_finding,
    drop_absent,
)
from weft.errors import agree

_REPEATS = "rows {repeat} the user and the item of an earlier row"


def _finite(column: str) -> pl.Expr:
    """Return an expression that is true for finite numbers that are not missing."""
    return pl.col(column).is_finite().fill_null(False)


def _repeated(columns: list[str]) -> pl.Expr:
    """Return an expression that is true for rows that repeat an earlier row in these columns."""
    return pl.struct(columns).is_first_distinct().not_()


# Repairs ------------------------------------------------------------------------------------------


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
        frame = frame.filter(_finite("rank"))
    if "score" in frame.columns and not_finite == "drop":
        frame = frame.filter(_finite("score"))
    elif "score" in frame.columns:
        lowest = pl.col("score").filter(_finite("score")).min().fill_null(0.0)
        frame = frame.with_columns(pl.when(_finite("score")).then("score").otherwise(lowest - 1))
    if len(table.repetitions):
        by = next(column for column in ("rank", "score", "row") if column in frame.columns)
        frame = _once_each(frame, by, duplicates)
    if "rank" in frame.columns and frame.select(_repeated(["user", "rank"]).any()).item():
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
    table: RawTable, threshold: float | None, *, duplicates: str = "best", negative: str = "zero"
) -> RawTable:
    """Return truth with finite ratings, not negative without a threshold, each item once per user.

    `negative`: set ratings below 0 to "zero", or "drop" their rows.
    """
    frame = table.frame.filter(_finite("rating"))
    if threshold is None and negative == "drop":
        frame = frame.filter(pl.col("rating") >= 0)
    elif threshold is None:
        frame = frame.with_columns(pl.col("rating").clip(0.0))
    if len(table.repetitions):
        frame = _once_each(frame, "rating", duplicates)
    return table.with_frame(frame)


def ignore_ratings(table: RawTable) -> RawTable:
    """Return truth with rating 1 for all ratings that are finite."""
    rating = pl.when(_finite("rating")).then(1.0).otherwise("rating").alias("rating")
    return table.with_frame(table.frame.with_columns(rating))


def repair_train(table: RawTable) -> RawTable:
    """Return train with rating 1 for ratings that are not finite (the item was seen)."""
    rating = pl.when(_finite("rating")).then("rating").otherwise(1.0)
    return table.with_frame(table.frame.with_columns(rating))


def _once_each(frame: pl.DataFrame, by: str, which: str) -> pl.DataFrame:
    """Return each (user, item) once: the "best" or the "worst" by rank, row, score or rating."""
    is_worst = which == "worst"
    is_falling = (by in ("score", "rating")) != is_worst
    ordered = frame.sort(by, "row", descending=[is_falling, is_worst])
    return ordered.unique(PAIR, keep="first", maintain_order=True).sort("row")


# Findings -----------------------------------------------------------------------------------------


def _not_finite(
    kind: str, table: RawTable, *treatments: Treatment, fix: str
) -> DraftFinding | None:
    """Return a finding about the column that the kind names, None if it is finite or missing."""
    column = kind.removeprefix("not-finite-").removesuffix("s")
    if column not in table.frame.columns:
        return None
    rows = table.frame.filter(~_finite(column))
    message = f"{column}s {{are}} missing, NaN or infinite."
    return draft_finding(
        kind, "error", table, rows, message=message, treatments=treatments, fix=fix
    )


def _beyond_precision(kind: str, table: RawTable, advice: str = "") -> DraftFinding | None:
    """Return a finding about integers that float64 rounds, None if there are none."""
    numbers = kind.removesuffix("-beyond-precision")
    return draft_finding(
        kind,
        "error",
        table,
        table.imprecise,
        message=f"{numbers} {{are}} beyond 2**53, where float64 cannot represent all integers.",
        treatments=(Treatment(f"{numbers} rounded to float64"),),
        fix=f"Rescale the {numbers}{advice}.",
    )


def check_truth_rows(truth: RawTable, threshold: float | None) -> list[DraftFinding]:
    """Find ratings that are not finite or negative, and repeated rows."""

    def repair_with(name: str, table: RawTable = truth, **how: str) -> Treatment:
        return Treatment(
            name, lambda data: replace(data, truth=repair_truth(table, threshold, **how))
        )

    not_finite = _not_finite(
        "not-finite-ratings",
        truth,
        Treatment("rows dropped"),
        repair_with("with the rating 1", repair_train(truth)),
        fix="Give each row a rating, or remove the column; without ratings, every row is relevant.",
    )
    is_negative = _finite("rating") & (pl.col("rating") < 0) & (threshold is None)
    negative = draft_finding(
        "negative-ratings",
        "error",
        truth,
        truth.frame.filter(is_negative),
        message="ratings {are} negative, and there is no relevance threshold.",
        treatments=(
            Treatment("with the rating 0 (not relevant)"),
            repair_with("rows dropped", negative="drop"),
        ),
        fix="Set relevance_threshold (--relevance-threshold), or remove these rows.",
    )
    repetitions = draft_finding(
        "duplicates-in-truth",
        "error",
        truth,
        truth.repetitions,
        message=_REPEATS + ".",
        treatments=(Treatment("keep-best"), repair_with("keep-worst", duplicates="worst")),
        fix="Keep one row per user and item, such as the highest rating or the latest row.",
    )
    return drop_absent(
        not_finite, _beyond_precision("ratings-beyond-precision", truth), negative, repetitions
    )


def check_train_rows(train: RawTable) -> list[DraftFinding]:
    """Find ratings that are not finite, and repeated rows (accepted, so only a note)."""
    rest = train.with_frame(train.frame.filter(_finite("rating")))
    not_finite = _not_finite(
        "not-finite-ratings",
        train,
        Treatment("rows kept"),
        Treatment("rows dropped", lambda data: replace(data, train=rest)),
        fix="Give each row a rating, or remove the column; metrics of train need no ratings.",
    )
    repetitions = draft_finding(
        "duplicates-in-train",
        "note",
        train,
        train.repetitions,
        message=_REPEATS + "; each pair counts once.",
        treatments=(Treatment("each pair counted once"),),
        fix="None needed if users can interact with an item several times; popularity counts "
        "users, not events.",
    )
    return drop_absent(
        not_finite, _beyond_precision("ratings-beyond-precision", train), repetitions
    )


def check_list_rows(lists: RawTable) -> list[DraftFinding]:
    """Find scores and ranks that are not finite or too large, repeated items and repeated ranks."""
    has_ranks = "rank" in lists.frame.columns
    dropped = Treatment("rows dropped")
    name = "kept at their rank" if has_ranks else "ranked last"
    kept = _repair_treatment(name, lists, not_finite="last")
    fix = (
        "Find out why the model has no {} for these rows, and remove the rows or give them a "
        "number."
    )
    not_finite_scores = _not_finite(
        "not-finite-scores", lists, dropped, kept, fix=fix.format("score")
    )
    not_finite_ranks = _not_finite("not-finite-ranks", lists, dropped, fix=fix.format("rank"))
    users = agree(lists.repetitions["user"].n_unique(), "{n} user{s}")
    repetitions = draft_finding(
        "duplicates-in-lists",
        "error",
        lists,
        lists.repetitions,
        message=f"rows {{repeat}} an item of the same list ({users}).",
        treatments=(
            Treatment("keep-best"),
            _repair_treatment("keep-worst", lists, duplicates="worst"),
        ),
        fix="Look for a join that duplicates rows. duplicates='keep-best' (--duplicates "
        "keep-best) keeps the best position of each item, and 'miss' counts the other positions "
        "as misses.",
    )
    return drop_absent(
        not_finite_scores,
        not_finite_ranks,
        _beyond_precision("scores-beyond-precision", lists, ", or give ranks"),
        repetitions,
        _repeated_ranks(lists) if has_ranks else None,
    )


def _repair_treatment(name: str, lists: RawTable, **how: str) -> Treatment:
    """Return the treatment that repairs the lists in another way; see `repair_lists`."""
    return Treatment(name, lambda data: replace(data, lists=repair_lists(lists, **how)))


def _repeated_ranks(lists: RawTable) -> DraftFinding | None:
    rows = lists.frame.filter(_finite("rank") & ~_repeated(PAIR))
    order = "score, then row" if "score" in lists.frame.columns else "row"
    return draft_finding(
        "repeated-ranks",
        "error",
        lists,
        rows.filter(_repeated(["user", "rank"])),
        message="rows {have} the same rank as another item of the same user.",
        treatments=(
            Treatment(f"equal ranks by {order}"),
            _repair_treatment("equal ranks in reverse", lists, equal_ranks="reverse"),
        ),
        fix="Give each item of a list a different rank, or give scores instead of ranks.",
    )


def check_catalogue(data: Inputs) -> Iterator[DraftFinding]:
    """Find items that the catalogue repeats, and items that occur but are not in it."""
    if data.items is None:
        return
    repetitions = data.items.filter(data.items.is_duplicated()).unique(maintain_order=True)
    if len(repetitions):
        yield DraftFinding(
            "duplicates-in-items",
            "error",
            "items",
            f"Items that occur more than once in the catalogue: {len(repetitions):,}.",
            len(repetitions),
            tuple({"item": item} for item in repetitions.head(MAX_EXAMPLES)),
            (Treatment("each item once"),),
            "List each item once.",
        )
    for table in data.tables().values():
        is_lists = table is data.lists
        yield from drop_absent(_outside_catalogue(table, data.items, are_lists=is_lists))


def _outside_catalogue(
    table: RawTable, items: pl.Series, *, are_lists: bool
) -> DraftFinding | None:
    is_known = pl.col("item").is_in(items.implode())
    rows = table.frame.filter(~is_known)

    def restrict(other: RawTable) -> RawTable:
        is_this = other.where == table.where
        return other.with_frame(other.frame.filter(is_known)) if is_this else other

    fix = (
        "Give the complete catalogue, or none; without a catalogue, it consists of all items "
        "that occur in the data."
    )
    empty: tuple[Treatment, ...] = ()
    if are_lists:
        fix += " If a model invents items, unknown_items='miss' counts them as misses."
        empty = (
            Treatment(
                "unknown_items='miss'",
                lambda data: replace(data, has_unknown_items=True),
                {"unknown_items": "miss"},
            ),
        )
    return draft_finding(
        "items-outside-catalogue",
        "error",
        table,
        rows,
        message=f"rows ({agree(rows['item'].n_unique(), '{n} item{s}')}) {{are}} not in the "
        f"catalogue of {items.n_unique():,} items.",
        treatments=(
            Treatment("items added to the catalogue"),
            Treatment(f"rows of {table.where} dropped", lambda data: data.map(restrict)),
            *empty,
        ),
        fix=fix,
    )
