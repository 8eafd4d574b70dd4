"""Findings about the truth and about its split from train."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from weft.diagnostics.ids import nothing_in_common
from weft.diagnostics.reading import PAIR, RawTable
from weft.diagnostics.what_if import (
    KINDS,
    DraftFinding,
    Inputs,
    Treatment,
    draft_finding,
    drop_absent,
    leave_users_out,
)
from weft.errors import agree


def is_relevant(threshold: float | None) -> pl.Expr:
    """Return an expression that is true for ratings of relevant items."""
    return pl.col("rating") > 0 if threshold is None else pl.col("rating") >= threshold


def exclude_ids(ids: pl.Series, others: pl.Series) -> pl.Series:
    """Return the ids that are not in `others`, in order."""
    return ids.filter(~ids.is_in(others.implode()))


def check_truth(truth: RawTable, threshold: float | None, empty_users: str) -> list[DraftFinding]:
    """Find an empty truth, suspicious ratings, and users without a relevant item."""
    if not len(truth.users):
        empty = DraftFinding(
            "empty",
            "warning",
            "truth",
            "There are no rows.",
            0,
            (),
            (),
            "Give the test interactions.",
            "there are no users to evaluate",
        )
        return [empty]
    return drop_absent(
        _zero_ratings(truth) if threshold is None else None,
        _graded_truth(truth) if threshold is None else None,
        _users_without_relevant_items(truth, threshold, empty_users),
    )


def _zero_ratings(truth: RawTable) -> DraftFinding | None:
    is_zero = pl.col("rating") == 0

    def rate_as_one(data: Inputs) -> Inputs:
        rating = pl.when(is_zero).then(1.0).otherwise("rating").alias("rating")
        return replace(data, truth=truth.with_frame(truth.frame.with_columns(rating)))

    return draft_finding(
        "zero-ratings",
        "note",
        truth,
        truth.frame.filter(is_zero),
        message="rows {have} the rating 0 and {are} not relevant.",
        treatments=(Treatment("with the rating 1", rate_as_one),),
        fix="None needed if 0 means that the user rejected the item.",
    )


def _graded_truth(truth: RawTable) -> DraftFinding | None:
    ratings = truth.frame["rating"]
    levels = ratings.filter(ratings > 0).unique().sort()
    if not (3 <= len(levels) <= 20 and 3 <= float(levels[-1]) <= 10):
        return None
    high = 0.8 * float(levels[-1])
    low = truth.frame.filter((pl.col("rating") > 0) & (pl.col("rating") < high))
    rows_below = agree(len(low), "{n} of {total:,} rows {have}", total=truth.rows)
    return DraftFinding(
        "graded-truth",
        "note",
        "truth",
        f"Ratings range from {levels[0]:g} to {levels[-1]:g}, and without a threshold every rated "
        f"item is relevant: {rows_below} a rating below {high:g}.",
        len(low),
        truth.examples(low),
        (Treatment(f"relevance_threshold={high:g}", settings={"relevance_threshold": high}),),
        "None needed if items with low ratings are relevant; otherwise set "
        f"relevance_threshold={high:g} (--relevance-threshold {high:g}).",
    )


def _users_without_relevant_items(
    truth: RawTable, threshold: float | None, empty_users: str
) -> DraftFinding | None:
    with_relevant = truth.frame.filter(is_relevant(threshold))["user"].unique()
    without = exclude_ids(truth.users, with_relevant)
    other = "zero" if empty_users == "skip" else "skip"
    outcome = "{are} skipped" if empty_users == "skip" else "{count} as 0"
    fix = "None needed if this is intended; lower the threshold if too many users are skipped."
    if threshold is not None and threshold > 1 and not (truth.frame["rating"] > 1).any():
        fix = (
            "No rating is above 1, as if the truth had no ratings: name its column of ratings "
            "'rating', or remove the threshold."
        )
    return draft_finding(
        "users-without-relevant-items",
        "note" if len(with_relevant) else "warning",
        truth,
        without.to_frame("user"),
        message=f"{{n}} of {len(truth.users):,} users {{have}} no relevant item and {outcome}.",
        treatments=(Treatment(f"empty_users={other!r}", settings={"empty_users": other}),),
        fix=fix,
    )


def check_split(truth: RawTable, train: RawTable) -> list[DraftFinding]:
    """Find overlap between train and truth, and users and items of the truth without train."""
    for kind in KINDS:
        disjoint = nothing_in_common(kind, train, truth)
        if disjoint is not None:
            return [disjoint]
    return drop_absent(
        _train_in_truth(truth, train), _cold_items(truth, train), _users_without_train(truth, train)
    )


def _train_in_truth(truth: RawTable, train: RawTable) -> DraftFinding | None:
    both = truth.frame.join(train.frame, on=PAIR, how="semi", maintain_order="left")

    def remove(data: Inputs) -> Inputs | None:
        rest = truth.frame.join(both, on=PAIR, how="anti", maintain_order="left")
        return _replace_truth(data, truth.with_frame(rest))

    return draft_finding(
        "train-in-truth",
        "warning",
        truth,
        both,
        message="rows {are} also in train: the model was trained on {them}, and if seen items are "
        "masked, {they} can never be recommended.",
        treatments=(Treatment("removed from truth", remove),),
        fix="Split again so that no interaction is in both sets, or remove repeated interactions "
        "from the truth.",
    )


def _cold_items(truth: RawTable, train: RawTable) -> DraftFinding | None:
    cold = exclude_ids(truth.items, train.items)
    if not len(cold):
        return None
    rows, treatment = rows_of_items(truth, cold)
    return DraftFinding(
        "cold-items-in-truth",
        "note",
        "truth",
        agree(
            len(cold),
            f"{{n}} of {len(truth.items):,} items ({agree(len(rows), '{n} row{s}')}) "
            "{are} not in train; most models cannot recommend {them}.",
        ),
        len(cold),
        truth.examples(rows),
        (treatment,),
        "None needed if new items are part of the task; report this together with the results.",
    )


def _users_without_train(truth: RawTable, train: RawTable) -> DraftFinding | None:
    new = exclude_ids(truth.users, train.users)
    return draft_finding(
        "users-without-train",
        "note",
        truth,
        new.to_frame("user"),
        message=f"{{n}} of {len(truth.users):,} users "
        "{have} no rows in train and {are} unknown to the model.",
        treatments=(leave_users_out("these users", new),),
        fix="None needed if new users are part of the task.",
    )


def rows_of_items(truth: RawTable, items: pl.Series) -> tuple[pl.DataFrame, Treatment]:
    """Return the truth's rows of some items, and the treatment that removes them."""
    is_of_items = pl.col("item").is_in(items.implode())
    treatment = Treatment(
        "without these rows",
        lambda data: _replace_truth(data, truth.with_frame(truth.frame.filter(~is_of_items))),
    )
    return truth.frame.filter(is_of_items), treatment


def _replace_truth(data: Inputs, truth: RawTable) -> Inputs | None:
    """Return the inputs with another truth, or None if that has no rows."""
    return replace(data, truth=truth) if len(truth.frame) else None


def check_time(truth: RawTable, train: RawTable, *, is_random: bool) -> list[DraftFinding]:
    """Find train rows later than truth, if the timestamps of both can be compared.

    `is_random`: a manifest records that the split is random, so that such rows are expected.
    """
    frames = (train.frame, truth.frame)
    if not all("timestamp" in frame.columns for frame in frames):
        return []
    in_train, in_truth = (str(frame["timestamp"].dtype) for frame in frames)
    if in_train == in_truth:
        late = _train_after_truth(truth, train, "note" if is_random else "warning")
        return drop_absent(late or _overlap_in_time(truth, train))
    unknown = DraftFinding(
        "timestamps-of-two-kinds",
        "note",
        "train",
        f"Timestamps are {in_train} in train but {in_truth} in truth, so they cannot be compared.",
        len(train.frame),
        (),
        (),
        "Use the same type of timestamps in both files.",
        remark="timestamps cannot be compared",
    )
    return [unknown]


def _train_after_truth(truth: RawTable, train: RawTable, severity: str) -> DraftFinding | None:
    """Find train rows later than the first truth row of their own user."""
    starts = truth.frame.group_by("user").agg(start=pl.col("timestamp").min())
    rows = train.frame.join(starts, on="user", how="inner", maintain_order="left")
    late = rows.filter(pl.col("timestamp") > pl.col("start"))
    users = late["user"].unique(maintain_order=True)
    return draft_finding(
        "train-after-truth",
        severity,
        train,
        late,
        message="rows {are} later than the first truth row of {their} user "
        f"({agree(len(users), '{n} user{s}')}): the model may have been trained on the future of "
        "its test users.",
        treatments=(leave_users_out("these users", users),),
        fix="Split the interactions of each user by time, or report that the split is random.",
    )


def _overlap_in_time(truth: RawTable, train: RawTable) -> DraftFinding | None:
    """Find train rows later than the first truth row of any user."""
    first, last = truth.frame["timestamp"].min(), train.frame["timestamp"].max()
    later = truth.frame.filter(pl.col("timestamp") > last)
    rows_later = agree(len(later), "{n} of {total:,} truth rows {are}", total=truth.rows)
    return draft_finding(
        "train-overlaps-truth-in-time",
        "note",
        train,
        train.frame.filter(pl.col("timestamp") > first),
        message="rows {are} later than the first row of the truth, so train contains the future of "
        f"other users. {rows_later} later than all of train.",
        treatments=(
            Treatment(
                "only truth after train",
                lambda data: _replace_truth(data, replace(truth, frame=later, all_users=None)),
            ),
        ),
        fix="None needed if each user is split separately; a split at one point in time is closer "
        "to a system in production.",
        remark="" if len(later) else "no truth row is later than all of train",
    )
