"""What is odd about the truth, and between truth, train, catalogue and lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from weft.diagnostics.ids import nothing_in_common, spelling
from weft.diagnostics.list_checks import placed
from weft.diagnostics.reading import PAIR, RawTable
from weft.diagnostics.what_if import KINDS, Found, Inputs, Treatment, first_ids, many
from weft.metrics.profiles import find_profile, resolve_defaults


def between_tables(
    data: Inputs, settings: Mapping[str, Any], cutoffs: list[int]
) -> Iterator[Found]:
    """Everything odd about the truth and between tables."""
    threshold = settings["relevance_threshold"]
    profile = settings["profile"]
    counts = resolve_defaults(
        None if profile is None else find_profile(profile), empty_users=None, missing_lists=None
    )
    yield from spelling(data)
    yield from _ratings(data.truth, threshold, counts["empty_users"])
    if data.train is not None:
        yield from _train_and_truth(data, data.train)
        yield from _time(data, data.train)
    table = data.lists
    yield from _lists_and_truth(data, table, threshold, counts["missing_lists"])
    if data.train is not None:
        yield from _seen(table, data.train)
        yield from _nowhere(data, data.train)
    if data.items is not None:
        yield from _never_recommended(data.items.unique(maintain_order=True), table, cutoffs)


def _ratings(truth: RawTable, threshold: float | None, empty_users: str) -> Iterator[Found]:
    frame, ratings = truth.frame, truth.frame["rating"]
    if not len(truth.users):
        yield Found(
            "empty",
            "warning",
            "truth",
            "There is no row.",
            0,
            (),
            (),
            "Give the held-out interactions.",
            "nobody can be evaluated",
        )
        return
    zero = frame.filter(pl.col("rating") == 0)
    if threshold is None and len(zero):
        yield Found(
            "zero-ratings",
            "note",
            "truth",
            f"{len(zero):,} of {truth.rows:,} rows are rated 0 and so are not relevant.",
            len(zero),
            truth.examples(zero),
            (
                Treatment(
                    "counted as rated 1",
                    lambda data: replace(
                        data,
                        truth=data.truth.with_frame(
                            data.truth.frame.with_columns(
                                pl.when(pl.col("rating") == 0)
                                .then(1.0)
                                .otherwise("rating")
                                .alias("rating")
                            )
                        ),
                    ),
                ),
            ),
            "Nothing, if 0 means that the item was shown and not wanted.",
        )
    levels = ratings.filter(ratings > 0).unique().sort()
    if threshold is None and 3 <= len(levels) <= 20 and 3 <= float(levels[-1]) <= 10:
        high = 0.8 * float(levels[-1])
        low = frame.filter((pl.col("rating") > 0) & (pl.col("rating") < high))
        yield Found(
            "graded-truth",
            "note",
            "truth",
            f"Ratings run from {levels[0]:g} to {levels[-1]:g}, and without a threshold every "
            "rated item is relevant: "
            f"{len(low):,} of {truth.rows:,} rows are rated below {high:g}.",
            len(low),
            truth.examples(low),
            (Treatment(f"relevance_threshold={high:g}", settings={"relevance_threshold": high}),),
            f"Nothing, if a low rating is still a hit; else relevance_threshold={high:g} "
            f"(--relevance-threshold {high:g}).",
        )
    wanted = frame.filter(
        pl.col("rating") > 0 if threshold is None else pl.col("rating") >= threshold
    )["user"].unique()
    users = truth.users
    without = users.filter(~users.is_in(wanted.implode()))
    if len(without):
        other = "zero" if empty_users == "skip" else "skip"
        done = "are left out" if empty_users == "skip" else "count as 0"
        yield Found(
            "users-without-relevant-items",
            "note" if len(wanted) else "warning",
            "truth",
            f"{len(without):,} of {len(users):,} users have no relevant item; they {done}.",
            len(without),
            first_ids("user", without),
            (Treatment(f"empty_users={other!r}", settings={"empty_users": other}),),
            "Nothing, if that is meant; lower the threshold if too many users are left out.",
        )


def _train_and_truth(data: Inputs, train: RawTable) -> Iterator[Found]:
    truth = data.truth
    for kind in KINDS:
        if (
            found := nothing_in_common(kind, "train", "truth", train.ids(kind), truth.ids(kind))
        ) is not None:
            yield found
            return
    both = truth.frame.join(train.frame, on=PAIR, how="semi", maintain_order="left")
    if len(both):
        yield Found(
            "train-in-truth",
            "warning",
            "truth",
            f"{len(both):,} of {truth.rows:,} rows are in train, too: a model has seen what it is "
            "asked for, and if seen items are "
            "masked they can never be hit.",
            len(both),
            truth.examples(both),
            (
                Treatment(
                    "removed from truth",
                    lambda data: _unless_empty(
                        data,
                        data.truth.with_frame(
                            data.truth.frame.join(both, on=PAIR, how="anti", maintain_order="left")
                        ),
                    ),
                ),
            ),
            "Split again, so that no interaction is on both sides; or remove repeated interactions "
            "from the truth.",
        )
    cold = truth.items.to_frame("item").join(
        train.items.to_frame("item"), on="item", how="anti", maintain_order="left"
    )["item"]
    if len(cold):
        rows = truth.frame.join(cold.to_frame("item"), on="item", how="semi", maintain_order="left")
        yield Found(
            "cold-items-in-truth",
            "note",
            "truth",
            f"{len(cold):,} of {len(truth.items):,} items ({many(len(rows), 'row')}) are not in "
            "train: most models cannot "
            "recommend them.",
            len(cold),
            truth.examples(rows),
            (
                Treatment(
                    "their rows removed from truth",
                    lambda data: _without_items(data, cold),
                ),
            ),
            "Nothing, if new items are part of the task; say so beside the numbers.",
        )
    users = truth.users
    new = users.filter(~users.is_in(train.users.implode()))
    if len(new):
        yield Found(
            "users-without-train",
            "note",
            "truth",
            f"{len(new):,} of {len(users):,} users have no row in train: nothing was known about "
            "them.",
            len(new),
            first_ids("user", new),
            (
                Treatment(
                    "users without train left out", lambda data: data.of_users(new, keep=False)
                ),
            ),
            "Nothing, if new users are part of the task.",
        )


def _without_items(data: Inputs, items: pl.Series) -> Inputs | None:
    """The data without the truth about some items."""
    rest = data.truth.frame.join(
        items.to_frame("item"), on="item", how="anti", maintain_order="left"
    )
    return _unless_empty(data, data.truth.with_frame(rest))


def _unless_empty(data: Inputs, truth: RawTable) -> Inputs | None:
    return replace(data, truth=truth) if len(truth.frame) else None


def _time(data: Inputs, train: RawTable) -> Iterator[Found]:
    """Train that is later than truth, where both tell the time in the same way."""
    frames = (train.frame, data.truth.frame)
    if not all("timestamp" in frame.columns for frame in frames):
        return
    kinds = [str(frame["timestamp"].dtype) for frame in frames]
    if kinds[0] != kinds[1]:
        yield Found(
            "timestamps-of-two-kinds",
            "note",
            "train",
            f"Timestamps are {kinds[0]} in train and {kinds[1]} in truth, so that nobody can tell "
            "which is later.",
            len(train.frame),
            (),
            (),
            "Write the time in the same way in both files.",
            remark="times cannot be compared",
        )
        return
    begins = data.truth.frame.group_by("user").agg(begins=pl.col("timestamp").min())
    late = train.frame.join(begins, on="user", how="inner", maintain_order="left").filter(
        pl.col("timestamp") > pl.col("begins")
    )
    if len(late):
        users = late["user"].unique(maintain_order=True)
        yield Found(
            "train-after-truth",
            "warning",
            "train",
            f"{len(late):,} of {train.rows:,} rows are later than the first truth row of their "
            f"user ({many(len(users), 'user')}): "
            "the model may have learned from the future of those it is tested on.",
            len(late),
            train.examples(late),
            (Treatment("these users left out", lambda data: data.of_users(users, keep=False)),),
            "Split each user's history by time, or say that the split is random.",
        )
    first, last = data.truth.frame["timestamp"].min(), train.frame["timestamp"].max()
    after = train.frame.filter(pl.col("timestamp") > first)
    if not len(late) and len(after):
        later = data.truth.frame.filter(pl.col("timestamp") > last)
        yield Found(
            "train-overlaps-truth-in-time",
            "note",
            "train",
            f"{len(after):,} of {train.rows:,} rows are later than the first row of the truth: "
            "other users' future is in train. "
            f"{len(later):,} of {data.truth.rows:,} truth rows are later than all of train.",
            len(after),
            train.examples(after),
            (
                Treatment(
                    "only truth later than train",
                    lambda data: _unless_empty(
                        data,
                        replace(
                            data.truth,
                            frame=data.truth.frame.filter(pl.col("timestamp") > last),
                            everyone=None,
                        ),
                    ),
                ),
            ),
            "Nothing, if users are split one by one; split at one point in time to come close to a "
            "system that runs.",
            remark="" if len(later) else "no truth row is later than all of train",
        )


def _lists_and_truth(
    data: Inputs, table: RawTable, threshold: float | None, missing_lists: str
) -> Iterator[Found]:
    truth, name = data.truth, table.where
    if not len(table.frame):
        remark = "nothing is recommended"
        yield Found(
            "empty",
            "warning",
            name,
            "There is no recommendation.",
            0,
            (),
            (),
            "Give the model's lists.",
            remark,
        )
        return
    for kind in KINDS:
        severity = "error" if _refuses_strangers(data, kind) else "warning"
        if (
            found := nothing_in_common(
                kind, name, "truth", table.ids(kind), truth.ids(kind), severity
            )
        ) is not None:
            yield found
            return
    users, listed = truth.users, table.users
    missing = users.filter(~users.is_in(listed.implode()))
    if len(missing):
        other = "skip" if missing_lists == "zero" else "zero"
        done = "count with an empty list" if missing_lists == "zero" else "are left out"
        yield Found(
            "users-without-list",
            "warning",
            name,
            f"{len(missing):,} of the {len(users):,} users of the truth have no list; they {done}.",
            len(missing),
            first_ids("user", missing),
            (Treatment(f"missing_lists={other!r}", settings={"missing_lists": other}),),
            "Make lists for all users of the truth, or say missing_lists='skip' (--missing-lists "
            "skip) if they are not to be "
            "served.",
        )
    others = listed.filter(~listed.is_in(users.implode()))
    if len(others):
        yield Found(
            "users-without-truth",
            "note",
            name,
            f"{len(others):,} of {len(listed):,} lists are of users who are not in the truth; they "
            "count only for metrics of all "
            "lists, such as coverage.",
            len(others),
            first_ids("user", others),
            (
                Treatment(
                    "their lists left out",
                    lambda data: replace(data, lists=table.of_users(users, keep=True)),
                ),
            ),
            "Nothing, if coverage is to be that of all lists.",
        )
    relevant = truth.frame.filter(
        pl.col("rating") > 0 if threshold is None else pl.col("rating") >= threshold
    )
    if len(relevant) and not len(relevant.join(table.frame, on=PAIR, how="semi")):
        yield Found(
            "no-hits",
            "warning",
            name,
            f"Not one of the {len(relevant):,} relevant items stands in its user's list, at any "
            "depth.",
            len(relevant),
            truth.examples(relevant),
            (),
            "Look whether both files number users and items in the same way, and whether the lists "
            "are of these users.",
            remark="every metric of hits is 0 however it is treated",
        )


def _refuses_strangers(data: Inputs, kind: str) -> bool:
    """Whether `weft.evaluate` refuses lists and truth without a user, or an item, in common: it
    does for files.
    """
    if kind == "user":
        return data.lists.file is not None or data.truth.file is not None
    in_train = data.train is not None and data.lists.items.is_in(data.train.items.implode()).any()
    return data.lists.file is not None and data.items is None and not in_train


def _seen(table: RawTable, train: RawTable) -> Iterator[Found]:
    seen = table.frame.join(train.frame, on=PAIR, how="semi", maintain_order="left")
    if len(seen):
        yield Found(
            "seen-in-lists",
            "warning",
            table.where,
            f"{len(seen):,} of {table.rows:,} recommended items are in their user's train "
            f"({many(seen['user'].n_unique(), 'user')}).",
            len(seen),
            table.examples(seen),
            (Treatment("mask_seen=True", settings={"mask_seen": True}),),
            "mask_seen=True (--mask-seen) removes them and closes the lists up; or make the lists "
            "without them.",
        )


def _nowhere(data: Inputs, train: RawTable) -> Iterator[Found]:
    """Items of the truth that neither train nor the lists know."""
    items = data.truth.items.to_frame("item")
    for table in (train, data.lists):
        items = items.join(
            table.items.to_frame("item"), on="item", how="anti", maintain_order="left"
        )
    unknown = items["item"]
    if len(unknown) and len(unknown) < len(data.truth.items):
        rows = data.truth.frame.join(items, on="item", how="semi", maintain_order="left")
        yield Found(
            "unknown-items-in-truth",
            "note",
            data.lists.where,
            f"{len(unknown):,} of the {len(data.truth.items):,} items of the truth "
            f"({many(len(rows), 'row')}) are neither in "
            "train nor in any list: nobody could hit them.",
            len(unknown),
            data.truth.examples(rows),
            (
                Treatment(
                    "their rows removed from truth", lambda data: _without_items(data, unknown)
                ),
            ),
            "Nothing, if these are new items; else look whether they are called by another id.",
        )


def _never_recommended(items: pl.Series, table: RawTable, cutoffs: list[int]) -> Iterator[Found]:
    shown = placed(table).filter(pl.col("place") <= max(cutoffs)) if cutoffs else table.frame
    never = items.filter(~items.is_in(shown["item"].unique().implode()))
    if len(never) and len(table.frame):
        yield Found(
            "items-never-recommended",
            "note",
            table.where,
            f"{len(never):,} of the {len(items):,} items of the catalogue are in nobody's list"
            f"{f' of {max(cutoffs)}' if cutoffs else ''}.",
            len(never),
            first_ids("item", never),
            (Treatment("without a catalogue", lambda data: replace(data, items=None)),),
            "Nothing; ItemCoverage and Gini measure it.",
        )
