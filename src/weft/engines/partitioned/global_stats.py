"""What all parts must know, so that the numbers of each mean the same: items, popularity, labels,
and where slices are cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.data import Label, Vocabulary, read_features, read_labels
from weft.data.axes import NO_HITS, check_common_items, no_common_user, read_ids
from weft.data.dataset import GlobalStats
from weft.data.grouping import GroupNames, slice_numbers
from weft.data.labels import label_names
from weft.data.popularity import TrainTotals
from weft.data.readers.files import is_file, read_table
from weft.data.slices import are_whole, parse_slices, ranges
from weft.data.vocabulary import distinct
from weft.engines.partitioned.order_statistics import PartitionedFloats
from weft.engines.partitioned.partitions import (
    Failure,
    Origin,
    Part,
    Parts,
    Portion,
    kept,
    merged,
    portion,
)
from weft.errors import InputError
from weft.evaluation.api import read_arguments
from weft.evaluation.runner import EvaluationRun, build_run
from weft.metrics.profiles import find_profile

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")
S = TypeVar("S")

# Arguments whose rows belong to users, and those that are about items.
OF_USERS = ("source", "truth", "train", "candidates", "users", "user_groups")
OF_ITEMS = ("items", "item_clusters", "item_features")
_FEW = 3  # ids that a message shows


def build_partition_run(
    part: Part, arguments: Mapping[str, Any], origins: Mapping[str, Origin], whole: GlobalStats
) -> EvaluationRun:
    """The evaluation of the users of a part."""
    tables = {name: portion(part.frames, name, origin) for name, origin in origins.items()}
    given: dict[str, Any] = {name: tables.get(name) for name in OF_USERS if name != "candidates"}
    if part.source is not None:
        given["source"] = part.source
        given["users"] = tables["users"].columns["user"] if "users" in tables else None
    if "candidates" in tables:
        given["candidates"] = tables["candidates"]
    slices = {
        name: (
            wanted
            if (where := f"slices[{name!r}]") not in tables
            else {"of": tables[where], "by": wanted["by"]}
            if isinstance(wanted, Mapping) and set(wanted) == {"of", "by"}
            else tables[where]
        )
        for name, wanted in (arguments["slices"] or {}).items()
    }
    given |= {"slices": slices or None, "progress": False, "checkpoint": None}
    given |= {name: None if name == "items" else whole.labels.get(name) for name in OF_ITEMS}
    return build_run(*read_arguments({**arguments, **given}), whole)


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Survey:
    """What is found in some parts, before anybody is evaluated."""

    rows: Counter[str]  # of each argument
    users: Counter[str]  # "source", "truth", "both", and "train", those with an interaction
    some_users: dict[str, pl.Series]  # a few of the source's and of the truth's
    items: dict[str, pl.Series]  # all that source, truth, train and candidates name, each once
    popularity: pl.DataFrame | None  # item, and how many users have met it in train
    labels: dict[
        str, tuple[frozenset[Label], int]
    ]  # of users: which there are, and how many belong to users nobody knows


def survey(parts: Parts[Part], origins: Mapping[str, Origin], slices: Sequence[str]) -> Survey:
    """What is found in all parts; `slices`: those by labels."""
    return merged(parts, partial(_survey, origins=origins, slices=slices), _one_survey)


def _survey(part: Part, origins: Mapping[str, Origin], slices: Sequence[str]) -> Survey:
    tables = {name: portion(part.frames, name, origin) for name, origin in origins.items()}
    of_items = [name for name in ("source", "truth", "train", "candidates") if name in tables]
    people = {
        name: _people(tables[name])
        for name in ("source", "users", "truth", "train")
        if name in tables
    }
    known = Vocabulary.from_data("user", list(people.values()), origin="source")
    if "users" in people or "source" not in people:
        people["source"] = people.get("users", people["truth"])
    both = (
        np.isin(people["source"].to_numpy(), people["truth"].to_numpy()).sum()
        if len(people["source"])
        else 0
    )
    popularity = None
    if "train" in tables:
        frame = part.frames["train"].select("user", "item").unique()
        popularity = frame.group_by("item").len("number")
    labels = {}
    for name in ("user_groups", *slices):
        if name in tables:
            read = read_labels(tables[name], name, known, in_order=0)
            labels[name] = frozenset(read.names), read.num_unknown
    return Survey(
        Counter({name: len(table) for name, table in tables.items()}),
        Counter(
            {
                "source": len(people["source"]),
                "truth": len(people["truth"]),
                "both": int(both),
                "train": len(people.get("train", ())),
            }
        ),
        {name: people[name].head(_FEW + 1) for name in ("source", "truth")},
        {name: distinct(tables[name].columns["item"]) for name in of_items},
        popularity,
        labels,
    )


def _people(table: Portion) -> pl.Series:
    return distinct(table.columns["user"] if table.all_users is None else table.all_users)


def _together(ids: Sequence[pl.Series]) -> pl.Series:
    """All these ids, each once and in order."""
    return Vocabulary.from_data("user", ids, origin="").ids


def _one_survey(parts: list[Survey]) -> Survey:
    import polars as pl

    first = parts[0]
    rows, users = Counter[str](), Counter[str]()
    for part in parts:
        rows.update(part.rows)
        users.update(part.users)
    popularity = None
    if first.popularity is not None:
        tables = [
            part.popularity
            for part in parts
            if part.popularity is not None and len(part.popularity)
        ]
        popularity = (
            pl.concat(tables).group_by("item").agg(pl.col("number").sum())
            if tables
            else first.popularity
        )
    return Survey(
        rows,
        users,
        {
            name: _together([part.some_users[name] for part in parts]).head(_FEW + 1)
            for name in first.some_users
        },
        {name: _together([part.items[name] for part in parts]) for name in first.items},
        popularity,
        {
            name: (
                frozenset[Label]().union(*(part.labels[name][0] for part in parts)),
                sum(part.labels[name][1] for part in parts),
            )
            for name in first.labels
        },
    )


def whole_of(
    found: Survey, origins: Mapping[str, Origin], arguments: Mapping[str, Any]
) -> GlobalStats:
    """What all parts must know; what is wrong with the whole is refused here."""
    source, truth = origins.get("source"), origins["truth"]
    for origin in (source, truth):
        name = "truth" if origin is truth else "source"
        if origin is not None and origin.path is not None and not found.rows[name]:
            raise InputError(f"{origin.where} has no rows.")
    items, notes = _catalogue(found, origins, arguments), list[str]()
    if (
        source is not None
        and found.users["source"]
        and found.users["truth"]
        and not found.users["both"]
    ):
        are_files = source.path is not None or truth.path is not None
        some = found.some_users["source"], found.some_users["truth"]
        notes.append(no_common_user(source.where, truth.where, *some, are_files=are_files))
    if source is not None and len(found.items["source"]) and len(found.items["truth"]):
        listed = Vocabulary.from_data("item", [found.items["source"]], origin=source.where)
        if (listed.encode(found.items["truth"], truth.where) < 0).all():
            notes.append(NO_HITS)
    totals = None
    if found.popularity is not None:
        places, counts = (
            items.encode(found.popularity["item"], "train"),
            np.zeros(items.size, dtype=np.int64),
        )
        known = (
            places >= 0
        )  # what is not in the catalogue is refused with its rows, where these are
        counts[places[known]] = found.popularity["number"].to_numpy()[known]
        totals = TrainTotals(counts, found.users["train"])
    in_order = items.size if arguments["items"] is not None else 0
    labels = {}
    for name in ("item_clusters", "item_features"):
        if (given := arguments[name]) is not None:
            given = read_table(given, name) if is_file(given) else given
            read = read_features if name == "item_features" else read_labels
            labels[name] = read(given, name, items, in_order=in_order)
    groups = {
        name: GroupNames(label_names(names, name), None, unknown)
        for name, (names, unknown) in found.labels.items()
    }
    return GlobalStats(items, totals, labels, groups, tuple(notes))


def _catalogue(
    found: Survey, origins: Mapping[str, Origin], arguments: Mapping[str, Any]
) -> Vocabulary:
    """The items: those given, or every item that occurs."""
    if (given := arguments["items"]) is not None:
        return read_ids("item", read_table(given, "items") if is_file(given) else given)
    if "source" not in origins:
        raise InputError(
            "the items that the model scores are not known; give their ids as items=[...]."
        )
    source, truth = origins["source"], origins["truth"]
    listed = Vocabulary.from_data("item", [found.items["source"]], origin=source.where)
    met = [found.items[name] for name in ("truth", "train") if name in found.items]
    if source.path is not None:
        check_common_items(source.where, truth.where, listed, met)
    everything = Vocabulary.from_data("item", list(found.items.values()), origin=source.where)
    tool = None if arguments["profile"] is None else find_profile(arguments["profile"])
    is_reversed = (
        tool is not None and tool.orders_ties_by_descending_id and arguments["ties"] is None
    )
    return everything.sorted_by_text_descending() if is_reversed else everything


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cut:
    """The numbers that a slice is cut by, of the users of a part who count for it; and what is
    known of all of them.
    """

    numbers: NDArray[np.float64]
    are_whole: bool


def _cuts(
    part: Part,
    names: Sequence[str],
    *,
    arguments: Mapping[str, Any],
    origins: Mapping[str, Origin],
    whole: GlobalStats,
) -> dict[str, _Cut]:
    run = build_partition_run(part, arguments, origins, whole)
    parsed = parse_slices(arguments["slices"], has_train=arguments["train"] is not None)
    found = {}
    for one in parsed:
        if one.where in names:
            table = (
                replace(one, source=portion(part.frames, one.where, origins[one.where]))
                if one.source is not None
                else one
            )
            dataset = run.dataset
            values = slice_numbers(table, dataset.users, 0, dataset.relevant, dataset.train)
            known = values.is_evaluated & ~np.isnan(values.numbers)
            found[one.where] = _Cut(values.numbers[known], are_whole(values.numbers))
    return found


def _of_cut(cuts: Mapping[str, _Cut], name: str) -> NDArray[np.float64]:
    return cuts[name].numbers


def with_cuts(
    parts: Parts[Part],
    arguments: Mapping[str, Any],
    origins: Mapping[str, Origin],
    whole: GlobalStats,
) -> GlobalStats:
    """Where slices by numbers are cut, which depends on all users."""
    wanted = parse_slices(arguments["slices"], has_train=arguments["train"] is not None)
    cut = [one for one in wanted if one.cut is not None]
    if not cut:
        return whole
    names = [one.where for one in cut]
    numbers = kept(
        parts, partial(_cuts, names=names, arguments=arguments, origins=origins, whole=whole)
    )
    whole_numbers = merged(numbers, _are_whole, _all_of_each)
    groups = dict(whole.groups)
    for one in cut:
        assert one.cut is not None
        ordered = PartitionedFloats(numbers, partial(_unfailed, partial(_of_cut, name=one.where)))
        starts = one.cut.find_edges(ordered) if ordered.size else []
        found = ranges(starts, are_whole=whole_numbers[one.where]) if ordered.size else []
        groups[one.where] = GroupNames(tuple(found), starts)
    numbers.release()
    return replace(whole, groups=groups)


def _are_whole(cuts: Mapping[str, _Cut]) -> dict[str, bool]:
    return {name: cut.are_whole for name, cut in cuts.items()}


def _all_of_each(parts: list[dict[str, bool]]) -> dict[str, bool]:
    return {name: all(part[name] for part in parts) for name in parts[0]}


def _unfailed(work: Callable[[T], S], part: T) -> S:
    assert not isinstance(part, Failure)  # they were looked at before
    return work(part)
