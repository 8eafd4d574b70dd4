"""Findings about rows that `weft.evaluate` rejects, with the repairs that make them usable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import polars as pl

from weft.diagnostics.reading import PAIR, RawTable
from weft.diagnostics.repairs import finite, repair_lists, repair_train, repair_truth, repeated
from weft.diagnostics.what_if import (
    DraftFinding,
    Inputs,
    Treatment,
    count_noun,
    draft_from_rows,
    drop_absent,
    first_ids,
)

_NOT_FINITE = "are missing, NaN or infinite."
_REPEATS = "rows repeat the user and item of an earlier row"


def check_truth_rows(truth: RawTable, threshold: float | None) -> list[DraftFinding]:
    """Find ratings that are not finite or negative, and repeated rows."""
    return drop_absent(
        _not_finite_truth(truth, threshold),
        _negative_ratings(truth) if threshold is None else None,
        _repeated_truth(truth, threshold),
    )


def _not_finite_truth(truth: RawTable, threshold: float | None) -> DraftFinding | None:
    def rate_as_one(data: Inputs) -> Inputs:
        return replace(data, truth=repair_truth(repair_train(truth), threshold=threshold))

    return draft_from_rows(
        "not-finite-ratings",
        "error",
        truth,
        truth.frame.filter(~finite("rating")),
        message=f"ratings {_NOT_FINITE}",
        treatments=(Treatment("rows dropped"), Treatment("counted as rated 1", rate_as_one)),
        fix="Give each row a rating, or leave the column out: without it every row is relevant.",
    )


def _negative_ratings(truth: RawTable) -> DraftFinding | None:
    def drop(data: Inputs) -> Inputs:
        return replace(data, truth=repair_truth(truth, threshold=None, negative="drop"))

    return draft_from_rows(
        "negative-ratings",
        "error",
        truth,
        truth.frame.filter(finite("rating") & (pl.col("rating") < 0)),
        message="ratings are below 0, and there is no threshold that says what they mean.",
        treatments=(
            Treatment("counted as rated 0, not relevant"),
            Treatment("rows dropped", drop),
        ),
        fix="Give relevance_threshold (--relevance-threshold), or remove these rows.",
    )


def _repeated_truth(truth: RawTable, threshold: float | None) -> DraftFinding | None:
    def keep_worst(data: Inputs) -> Inputs:
        return replace(data, truth=repair_truth(truth, threshold=threshold, duplicates="worst"))

    return draft_from_rows(
        "duplicates-in-truth",
        "error",
        truth,
        truth.repetitions,
        message=f"{_REPEATS}.",
        treatments=(Treatment("keep-best"), Treatment("keep-worst", keep_worst)),
        fix="Keep one row per user and item: the best, or the last in time.",
    )


def check_train_rows(train: RawTable) -> list[DraftFinding]:
    """Find ratings that are not finite, and repeated rows (accepted, so only a note)."""

    def drop(data: Inputs) -> Inputs:
        return replace(data, train=train.with_frame(train.frame.filter(finite("rating"))))

    not_finite = draft_from_rows(
        "not-finite-ratings",
        "error",
        train,
        train.frame.filter(~finite("rating")),
        message=f"ratings {_NOT_FINITE}",
        treatments=(Treatment("rows kept as seen"), Treatment("rows dropped", drop)),
        fix="Give each row a rating, or leave the column out: train says what was seen.",
    )
    repetitions = draft_from_rows(
        "duplicates-in-train",
        "note",
        train,
        train.repetitions,
        message=f"{_REPEATS}; each pair counts once.",
        treatments=(Treatment("each pair once"),),
        fix="Nothing, if users may interact with an item several times; popularity counts users "
        "here, not events.",
    )
    return drop_absent(not_finite, repetitions)


def check_list_rows(table: RawTable) -> list[DraftFinding]:
    """Find scores and ranks that are not finite or too large, repeated items and repeated ranks."""
    has_ranks = "rank" in table.frame.columns
    return drop_absent(
        _not_finite_scores(table) if "score" in table.frame.columns else None,
        _not_finite_ranks(table) if has_ranks else None,
        _imprecise_scores(table),
        _repeated_items(table),
        _repeated_ranks(table) if has_ranks else None,
    )


def _fix_not_finite(column: str) -> str:
    return (
        f"Find out why the model has no {column} there; leave these rows out, or give them a "
        "number."
    )


def _not_finite_scores(table: RawTable) -> DraftFinding | None:
    def keep(data: Inputs) -> Inputs:
        return replace(data, lists=repair_lists(table, not_finite="last"))

    alternative = "kept at their rank" if "rank" in table.frame.columns else "ranked last"
    return draft_from_rows(
        "not-finite-scores",
        "error",
        table,
        table.frame.filter(~finite("score")),
        message=f"scores {_NOT_FINITE}",
        treatments=(Treatment("rows dropped"), Treatment(alternative, keep)),
        fix=_fix_not_finite("score"),
    )


def _not_finite_ranks(table: RawTable) -> DraftFinding | None:
    return draft_from_rows(
        "not-finite-ranks",
        "error",
        table,
        table.frame.filter(~finite("rank")),
        message=f"ranks {_NOT_FINITE}",
        treatments=(Treatment("rows dropped"),),
        fix=_fix_not_finite("rank"),
    )


def _imprecise_scores(table: RawTable) -> DraftFinding | None:
    return draft_from_rows(
        "scores-beyond-precision",
        "error",
        table,
        table.imprecise,
        message="scores are whole numbers beyond 2**53, which float64 cannot tell apart.",
        treatments=(Treatment("scores rounded to float64"),),
        fix="Scale the scores down, or give ranks.",
    )


def _repeated_items(table: RawTable) -> DraftFinding | None:
    def keep_worst(data: Inputs) -> Inputs:
        return replace(data, lists=repair_lists(table, duplicates="worst"))

    repetitions = table.repetitions
    users = count_noun(repetitions["user"].n_unique(), "user")
    return draft_from_rows(
        "duplicates-in-lists",
        "error",
        table,
        repetitions,
        message=f"rows repeat an item in their list ({users}).",
        treatments=(Treatment("keep-best"), Treatment("keep-worst", keep_worst)),
        fix="duplicates='keep-best' (--duplicates keep-best) goes on with the best of each; look "
        "for a join that doubles rows.",
    )


def _repeated_ranks(table: RawTable) -> DraftFinding | None:
    def reverse(data: Inputs) -> Inputs:
        return replace(data, lists=repair_lists(table, equal_ranks="reverse"))

    rows = table.frame.filter(finite("rank") & ~repeated(PAIR))
    order = "score, then row" if "score" in table.frame.columns else "row"
    return draft_from_rows(
        "repeated-ranks",
        "error",
        table,
        rows.filter(repeated(["user", "rank"])),
        message="rows have a rank that another item of the same user has, too.",
        treatments=(
            Treatment(f"equal ranks by {order}"),
            Treatment("equal ranks in reverse", reverse),
        ),
        fix="Give each item of a list a rank of its own, or give scores instead of ranks.",
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
            f"{len(repetitions):,} items are in the catalogue more than once.",
            len(repetitions),
            first_ids("item", repetitions),
            (Treatment("each item once"),),
            "Write each item once.",
        )
    for table in data.tables().values():
        yield from drop_absent(_outside_catalogue(table, data.items))


def _outside_catalogue(table: RawTable, items: pl.Series) -> DraftFinding | None:
    catalogue, name = items.to_frame("item"), table.where
    rows = table.frame.join(catalogue, on="item", how="anti", maintain_order="left")
    return draft_from_rows(
        "items-outside-catalogue",
        "error",
        table,
        rows,
        message=f"rows ({count_noun(rows['item'].n_unique(), 'item')}) are not in the catalogue "
        f"of {items.n_unique():,} items.",
        treatments=(
            Treatment("catalogue widened by them"),
            Treatment(
                f"rows of {name} dropped",
                partial(_restrict_to_catalogue, name=name, catalogue=catalogue),
            ),
        ),
        fix="Give the whole catalogue, or leave it out: it is then every item that occurs.",
    )


def _restrict_to_catalogue(data: Inputs, *, name: str, catalogue: pl.DataFrame) -> Inputs:
    """Return the inputs without the rows of table `name` with items outside the catalogue."""

    def restrict(table: RawTable) -> RawTable:
        if table.where != name:
            return table
        frame = table.frame.join(catalogue, on="item", how="semi", maintain_order="left")
        return table.with_frame(frame)

    return data.map(restrict)
