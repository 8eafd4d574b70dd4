"""Findings about pairs of tables: lists against truth, train and catalogue."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.diagnostics.ids import check_spelling, nothing_in_common
from weft.diagnostics.manifest_checks import check_origins, find_origins, is_random
from weft.diagnostics.reading import PAIR, RawTable
from weft.diagnostics.split_checks import (
    check_split,
    check_time,
    check_truth,
    exclude_ids,
    is_relevant,
    rows_of_items,
)
from weft.diagnostics.what_if import (
    KINDS,
    DraftFinding,
    Inputs,
    Treatment,
    draft_finding,
    drop_absent,
)
from weft.errors import agree
from weft.evaluation.settings import EvaluationSettings

# Numbers of items and users from which the popularity of recommended items means something.
_MANY_ITEMS, _MANY_USERS = 50, 20
# Bounds of rank correlations in standard deviations: below the first nothing is related, from the
# second on it surely is, and a difference of the third is no chance.
_UNRELATED, _RELATED, _MUCH_BETTER = 2, 3, 4
# Other orders of a catalogue, in which item ids may be mistaken.
_ORDERS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "reversed": lambda column: column[::-1],
    "shifted by 1": lambda column: np.roll(column, -1),
    "shifted by -1": lambda column: np.roll(column, 1),
}


def check_across_tables(
    data: Inputs, settings: EvaluationSettings, cutoffs: list[int]
) -> Iterator[DraftFinding]:
    """Find everything suspicious about the truth and between tables. The settings are resolved."""
    yield from check_spelling(data)
    yield from check_truth(data.truth, settings.relevance_threshold, str(settings.empty_users))
    origins, unreadable = find_origins(data.truth, data.train)
    yield from (*unreadable, *check_origins(origins))
    if data.train is not None:
        yield from check_split(data.truth, data.train)
        yield from check_time(data.truth, data.train, is_random=is_random(origins))
    yield from _check_lists(data, settings)
    if data.train is not None:
        yield from drop_absent(
            _seen_items(data.lists, data.train),
            _unknown_items(data, data.train),
            _popularity_mismatch(data, data.train, cutoffs),
        )
    if data.items is not None and len(data.lists.frame):
        items = data.items.unique(maintain_order=True)
        yield from drop_absent(_never_recommended(items, data.lists, cutoffs))


def _check_lists(data: Inputs, settings: EvaluationSettings) -> list[DraftFinding]:
    """Find empty lists, and users or hits missing between lists and truth."""
    lists, truth = data.lists, data.truth
    if not len(lists.frame):
        empty = DraftFinding(
            "empty",
            "warning",
            lists.where,
            "There are no recommendations.",
            0,
            (),
            (),
            "Give the recommendation lists of the model.",
            "there are no recommendations",
        )
        return [empty]
    for kind in KINDS:
        severity = "error" if _rejects_disjoint_ids(data, kind) else "warning"
        disjoint = nothing_in_common(kind, lists, truth, severity)
        if disjoint is not None:
            return [disjoint]
    return drop_absent(
        _users_without_list(lists, truth.users, str(settings.missing_lists)),
        _users_without_truth(lists, truth.users),
        _no_hits(lists, truth, settings.relevance_threshold),
    )


def _rejects_disjoint_ids(data: Inputs, kind: str) -> bool:
    """Return True if `weft.evaluate` rejects lists and truth without a common user or item.

    It does so for files only.
    """
    if kind == "user":
        return data.lists.file is not None or data.truth.file is not None
    in_train = data.train is not None and data.lists.items.is_in(data.train.items.implode()).any()
    return data.lists.file is not None and data.items is None and not in_train


def _users_without_list(
    lists: RawTable, users: pl.Series, missing_lists: str
) -> DraftFinding | None:
    missing = exclude_ids(users, lists.users)
    other = "skip" if missing_lists == "zero" else "zero"
    outcome = "{count} with an empty list" if missing_lists == "zero" else "{are} skipped"
    return draft_finding(
        "users-without-list",
        "warning",
        lists,
        missing.to_frame("user"),
        message=f"{{n}} of the {len(users):,} users of the truth {{have}} no list and {outcome}.",
        treatments=(Treatment(f"missing_lists={other!r}", settings={"missing_lists": other}),),
        fix="Create lists for all users of the truth, or set missing_lists='skip' "
        "(--missing-lists skip) to leave these users out.",
    )


def _users_without_truth(lists: RawTable, users: pl.Series) -> DraftFinding | None:
    others = exclude_ids(lists.users, users)

    def restrict(data: Inputs) -> Inputs:
        return replace(data, lists=lists.filter_users(users, keep=True))

    return draft_finding(
        "users-without-truth",
        "note",
        lists,
        others.to_frame("user"),
        message=f"{{n}} of {len(lists.users):,} lists "
        "{belong} to users who are not in the truth; {they} {count} only in metrics of all lists, "
        "such as coverage.",
        treatments=(Treatment("without their lists", restrict),),
        fix="None needed if metrics such as coverage should include all lists; otherwise set "
        "extra_users='skip' (--extra-users skip).",
    )


def _no_hits(lists: RawTable, truth: RawTable, threshold: float | None) -> DraftFinding | None:
    relevant = truth.frame.filter(is_relevant(threshold))
    if not len(relevant) or len(relevant.join(lists.frame, on=PAIR, how="semi")):
        return None
    return DraftFinding(
        "no-hits",
        "warning",
        lists.where,
        f"None of the {agree(len(relevant), '{n} relevant item{s}')} is in the list of its user, "
        "at any depth.",
        len(relevant),
        truth.examples(relevant),
        (),
        "Check that both files use the same user and item ids, and that the lists belong to these "
        "users.",
        remark="every metric of hits is 0 in any case",
    )


def _seen_items(lists: RawTable, train: RawTable) -> DraftFinding | None:
    seen = lists.frame.join(train.frame, on=PAIR, how="semi", maintain_order="left")
    users = agree(seen["user"].n_unique(), "{n} user{s}")
    return draft_finding(
        "seen-in-lists",
        "warning",
        lists,
        seen,
        message=f"recommended items {{are}} in {{their}} user's train ({users}).",
        treatments=(Treatment("mask_seen=True", settings={"mask_seen": True}),),
        fix="Set mask_seen=True (--mask-seen) to remove them from the lists, or create the lists "
        "without them.",
    )


def _unknown_items(data: Inputs, train: RawTable) -> DraftFinding | None:
    """Find items of the truth that are neither in train nor in the lists."""
    truth = data.truth
    unknown = exclude_ids(exclude_ids(truth.items, train.items), data.lists.items)
    if not 0 < len(unknown) < len(truth.items):
        return None
    rows, treatment = rows_of_items(truth, unknown)
    return DraftFinding(
        "unknown-items-in-truth",
        "note",
        data.lists.where,
        agree(
            len(unknown),
            f"{{n}} of the {len(truth.items):,} items of the truth "
            f"({agree(len(rows), '{n} row{s}')}) "
            "{are} neither in train nor in any list, so {they} can never be recommended.",
        ),
        len(unknown),
        truth.examples(rows),
        (treatment,),
        "None needed if these are new items; otherwise check whether other files use different "
        "ids for them.",
    )


def _recommended(lists: RawTable, cutoffs: list[int]) -> pl.DataFrame:
    """Return the rows up to the largest cut-off, all rows without one."""
    if not cutoffs:
        return lists.frame
    return lists.ranked.filter(pl.col("position") <= max(cutoffs))


def _popularity_mismatch(data: Inputs, train: RawTable, cutoffs: list[int]) -> DraftFinding | None:
    """Find recommendations that do not fit the popularity of the items in train.

    They are unrelated to it, or fit it much better with the item ids in another order. The truth is
    the control: if its items are not popular either, nothing is suspicious.
    """
    shown = _recommended(data.lists, cutoffs)
    tables = {"train": train.frame.unique(PAIR), "lists": shown, "truth": data.truth.frame}
    items = _count_rows(tables, data.items)
    is_small = len(items) < _MANY_ITEMS or shown["user"].n_unique() < _MANY_USERS
    if is_small or not items["lists"].sum():
        return None
    popularity, in_lists, in_truth = (_standardize(items[name]) for name in tables)
    score = _correlate(in_lists, popularity)
    others = {name: _correlate(in_lists, change(popularity)) for name, change in _ORDERS.items()}
    best = max(others, key=lambda name: others[name])
    relation = "are unrelated to the popularity of items in train"
    if score >= _UNRELATED:
        relation = f"would agree better with the popularity in train if item ids were {best}"
        if others[best] < score + _MUCH_BETTER:
            return None
    if _correlate(in_truth, popularity) < _RELATED:
        return None
    means = {name: float(np.average(items["train"], weights=items[name])) for name in tables}
    return DraftFinding(
        "popularity-mismatch",
        "warning",
        data.lists.where,
        f"The recommended items {relation}: they have {means['lists']:.4g} interactions in train "
        f"on average, items at random {items['train'].to_numpy().mean():.4g}, items of the truth "
        f"{means['truth']:.4g}. Item ids may be reversed, shifted or shuffled.",
        len(shown),
        (),
        tuple(
            Treatment(
                f"item ids {name}", partial(_reorder_items, items=items["item"], change=change)
            )
            for name, change in _ORDERS.items()
        ),
        "Check that the item ids are in the order of the columns of the scores (items=). None "
        "needed if the model avoids popular items.",
    )


def _count_rows(tables: Mapping[str, pl.DataFrame], order: pl.Series | None) -> pl.DataFrame:
    """Return each item, in the order of the catalogue or sorted, and its rows in each table."""
    if order is None:
        order = pl.concat([frame["item"] for frame in tables.values()]).sort()
    items = order.unique(maintain_order=True).alias("item").to_frame()
    for name, frame in tables.items():
        lengths = frame.group_by("item").agg(pl.len().cast(pl.Float64).alias(name))
        items = items.join(lengths, on="item", how="left", maintain_order="left")
    return items.fill_null(0.0)


def _reorder_items(
    data: Inputs, *, items: pl.Series, change: Callable[[NDArray[Any]], NDArray[Any]]
) -> Inputs:
    new = items.gather(change(np.arange(len(items))))
    return replace(data, lists=data.lists.map_ids({"item": pl.col("item").replace(items, new)}))


def _standardize(counts: pl.Series) -> NDArray[np.float64]:
    """Return the ranks of counts with a mean of 0 and a deviation of 1, or 0 if all are equal."""
    ranks = counts.rank().to_numpy()
    standardized: NDArray[np.float64] = (ranks - ranks.mean()) / (ranks.std() or 1.0)
    return standardized


def _correlate(ranks: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Return the rank correlation of two columns; it has a deviation of 1 if they are unrelated."""
    return float(ranks @ others) / math.sqrt(len(ranks))


def _never_recommended(
    items: pl.Series, lists: RawTable, cutoffs: list[int]
) -> DraftFinding | None:
    depth = f" of {max(cutoffs)}" if cutoffs else ""
    never = exclude_ids(items, _recommended(lists, cutoffs)["item"].unique())
    return draft_finding(
        "items-never-recommended",
        "note",
        lists,
        never.to_frame("item"),
        message=f"{{n}} of the {len(items):,} items of the catalogue {{are}} in no list{depth}.",
        treatments=(Treatment("without the catalogue", lambda data: replace(data, items=None)),),
        fix="None needed; ItemCoverage and Gini measure this.",
    )
