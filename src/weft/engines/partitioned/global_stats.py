"""Facts about all partitions that each of them needs: items, popularity, labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.data import Label, Vocabulary, read_labels
from weft.data.common_ids import NO_HITS, check_common_items, no_common_user
from weft.data.dataset import GlobalStats
from weft.data.evaluation_inputs import UNKNOWN_NEEDS_ITEMS, read_ids
from weft.data.item_slices import read_item_slices
from weft.data.label_readers import number_labels
from weft.data.labels import GroupNames
from weft.data.number_files import read_input_files
from weft.data.popularity import NO_TRAIN, Train, TrainTotals
from weft.data.positions import PositionalIds, describe_ids
from weft.data.readers.files import is_file, read_table
from weft.data.side_inputs import read_item_inputs, with_separator
from weft.data.truth_groups import TruthGroups
from weft.data.vocabulary import distinct_ids
from weft.engines.partitioned.input_arguments import (
    ITEM_SIDE_INPUTS,
    Arguments,
    input_key,
    item_inputs,
    item_slices,
)
from weft.engines.partitioned.partitions import (
    InputOrigin,
    Partition,
    Partitions,
    PartitionTable,
    map_reduce,
    read_partition_table,
)
from weft.errors import InputError, MissingInput, setting_ref
from weft.evaluation.arguments import read_arguments
from weft.evaluation.prepared import PreparedEvaluation
from weft.evaluation.runner import EvaluationRun
from weft.metrics.profiles import find_profile
from weft.metrics.registry import register

if TYPE_CHECKING:
    import polars as pl

    from weft.metrics.base.metric import BaseMetric

Origins = Mapping[str, InputOrigin]  # by input

_MAX_EXAMPLES = 3  # ids that a message shows


def build_partition_run(
    partition: Partition,
    arguments: Arguments,
    origins: Origins,
    stats: GlobalStats,
    custom_metrics: Sequence[type[BaseMetric]] = (),
) -> EvaluationRun:
    """Return the evaluation of the users of a partition, on a worker; register the caller's own
    metrics there."""
    for metric in custom_metrics:
        register(metric)
    tables = _read_tables(partition, origins)
    inputs: dict[str, Any] = {name: table for name, table in tables.items() if name in arguments}
    if partition.source is not None:
        inputs["source"] = partition.source
        inputs["users"] = tables["users"].columns["user"] if "users" in tables else None
    slices = dict(arguments["slices"] or {})
    for name, definition in slices.items():
        if (table := tables.get(f"slices[{name!r}]")) is not None:
            slices[name] = {**definition, "of": table} if isinstance(definition, dict) else table
    inputs |= {"slices": slices or None, "progress": False, "checkpoint": None, "items": None}
    inputs |= {name: stats.item_inputs.get(name) for name in ITEM_SIDE_INPUTS}
    inputs["inputs"] = {
        name: tables[input_key(name)] if input_key(name) in tables else stats.item_inputs.get(name)
        for name in arguments["inputs"]
    }
    data, settings = read_arguments({**arguments, **inputs})
    return PreparedEvaluation(data, settings, stats).start(data.source)


def _read_tables(partition: Partition, origins: Origins) -> dict[str, PartitionTable]:
    return {
        name: read_partition_table(partition.frames, name, origin)
        for name, origin in origins.items()
    }


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartitionSummary:
    """Counts, items and labels of some partitions, before any user is evaluated."""

    num_rows: Counter[str]  # by input
    num_users: Counter[str]  # "source", "truth", "both", and "train" (users with interactions)
    example_users: dict[str, pl.Series]  # the first and the last of source, truth and train
    items: dict[str, pl.Series]  # distinct ids in source, truth, train and candidates
    popularity: pl.DataFrame | None  # (item, number): users per item in train
    labels: dict[str, tuple[frozenset[Label], int]]  # names; number of labels of unknown users


def summarize(
    partitions: Partitions[Partition], origins: Origins, labels: Mapping[str, bool]
) -> PartitionSummary:
    """Return the summary of all partitions; `labels` are inputs and slices besides user_groups with
    a label (True), or a number, a vector or a list (False) of each user.
    """
    summarize_each = partial(_summarize_partition, origins=origins, label_names=labels)
    return map_reduce(partitions, summarize_each, _combine_summaries)


def find_max_rating(
    partitions: Partitions[Partition], origins: Origins, *, implicit: bool
) -> float:
    """Return the highest rating of the truth of all partitions, 1 if none is above 0."""
    if implicit or "rating" not in origins["truth"].columns:
        return 1.0
    read_highest = partial(_find_partition_max, origin=origins["truth"])
    highest: float = map_reduce(partitions, read_highest, max)
    return highest or 1.0


def _find_partition_max(partition: Partition, origin: InputOrigin) -> float:
    frames = partition.select(("user", "item", "rating")).frames
    ratings = read_partition_table(frames, "truth", origin).columns["rating"]
    return float(ratings.cast(float).to_numpy().max(initial=0))


def _summarize_partition(
    partition: Partition, origins: Origins, label_names: Mapping[str, bool]
) -> PartitionSummary:

    tables = _read_tables(partition.select(("user", "item", "label")), origins)
    users: dict[str, pl.Series] = {
        name: _distinct_users(tables[name])
        for name in ("source", "users", "truth", "train")
        if name in tables
    }
    known = Vocabulary.from_data("user", list(users.values()), origin="source")
    labels = _summarize_labels(tables, label_names, known)
    users["source"] = users.get("users", users.get("source", users["truth"]))
    num_users = Counter[str]({name: len(ids) for name, ids in users.items()})
    both = _union([users["source"], users["truth"]])
    num_users["both"] = num_users["source"] + num_users["truth"] - len(both)
    return PartitionSummary(
        Counter({name: len(table) for name, table in tables.items()}),
        num_users,
        {name: _select_examples(ids) for name, ids in users.items()},
        {
            name: distinct_ids(table.columns["item"])
            for name, table in tables.items()
            if "item" in table.columns and name not in label_names  # not items of other lists
        },
        _count_users_by_item(tables["train"]) if "train" in tables else None,
        labels,
    )


def _count_users_by_item(train: PartitionTable) -> pl.DataFrame:
    """Return the number of users of each item, as the columns `item` and `number`."""
    import polars as pl

    pairs = pl.DataFrame({role: train.columns[role] for role in ("user", "item")}).unique()
    return pairs.group_by("item").len("number")


def _summarize_labels(
    tables: Mapping[str, PartitionTable], label_names: Mapping[str, bool], users: Vocabulary
) -> dict[str, tuple[frozenset[Label], int]]:
    """Return the labels in each input about users, and how many rows belong to other users."""
    labels: dict[str, tuple[frozenset[Label], int]] = {}
    for name in ("user_groups", *label_names):
        if name not in tables:
            continue
        if label_names.get(name, True):
            user_labels = read_labels(tables[name], name, users, num_in_order=0)
            labels[name] = frozenset(user_labels.names), user_labels.num_unknown
        else:
            ids, where = tables[name].columns["user"], tables[name].where
            is_list = "item" in tables[name].columns
            codes = users.encode(_distinct_users(tables[name]) if is_list else ids, where)
            labels[name] = frozenset(), int((codes < 0).sum())
    return labels


def _distinct_users(table: PartitionTable) -> pl.Series:
    return distinct_ids(table.columns["user"] if table.all_users is None else table.all_users)


def _select_examples(ids: pl.Series) -> pl.Series:
    """Return the first ids, enough for a message, and the last one."""
    return ids if len(ids) <= _MAX_EXAMPLES + 1 else ids.gather([*range(_MAX_EXAMPLES + 1), -1])


def _union(ids: Sequence[pl.Series]) -> pl.Series:
    """Return the distinct ids in ascending order."""
    return Vocabulary.from_data("user", ids, origin="").ids


def _combine_summaries(summaries: list[PartitionSummary]) -> PartitionSummary:
    first = summaries[0]
    num_rows, num_users = Counter[str](), Counter[str]()
    for summary in summaries:
        num_rows.update(summary.num_rows)
        num_users.update(summary.num_users)
    return PartitionSummary(
        num_rows,
        num_users,
        {
            name: _select_examples(_union([each.example_users[name] for each in summaries]))
            for name in first.example_users
        },
        {name: _union([each.items[name] for each in summaries]) for name in first.items},
        _add_popularity([each.popularity for each in summaries]),
        {
            name: (
                frozenset[Label]().union(*(each.labels[name][0] for each in summaries)),
                sum(each.labels[name][1] for each in summaries),
            )
            for name in first.labels
        },
    )


def _add_popularity(tables: Sequence[pl.DataFrame | None]) -> pl.DataFrame | None:
    import polars as pl

    filled = [table for table in tables if table is not None and len(table)]
    if not filled:
        return tables[0]
    return pl.concat(filled).group_by("item").agg(pl.col("number").sum())


def build_global_stats(
    summary: PartitionSummary, origins: Origins, arguments: Arguments, positions: PositionalIds
) -> GlobalStats:
    """Return the facts about all partitions; raise InputError if the inputs are inconsistent."""
    _check_num_rows(summary, origins)
    items = _build_catalogue(summary, origins, arguments)
    _check_rows(summary, origins, positions)
    ids = {
        "user": [summary.example_users[name] for name in positions.inputs],
        "item": [summary.items[name] for name in positions.inputs],
    }
    notes = (*_overlap_notes(summary, origins), *positions.notes(ids))
    item_inputs = _read_item_inputs(arguments, items)
    inputs = {input_key(name): name for name in arguments["inputs"]}
    groups = {
        inputs.get(key, key): GroupNames(number_labels(list(names), key)[0], None, num_unknown)
        for key, (names, num_unknown) in summary.labels.items()
    }
    listed = [kind for kind in ("user", "item") if arguments[f"{kind}s"] is not None]
    described = describe_ids(positions.sizes, listed, has_lists="source" in origins)
    totals = _count_train(summary, items)
    item_groups = _read_item_groups(arguments, items, item_inputs, totals)
    return GlobalStats(items, totals, item_inputs, groups, notes, described, item_groups)


def _read_item_groups(
    arguments: Arguments,
    items: Vocabulary,
    inputs: Mapping[str, Any],
    totals: TrainTotals | None,
) -> dict[str, TruthGroups]:
    """Return the groups of the item slices that are about items."""
    train = None
    if totals is not None:
        train = Train(replace(NO_TRAIN.interactions, num_items=items.size), totals)
    in_order = 0 if arguments["items"] is None else items.size
    return read_item_slices(
        item_slices(arguments), items, num_in_order=in_order, inputs=inputs, train=train
    )


def _check_num_rows(summary: PartitionSummary, origins: Origins) -> None:
    """Raise `InputError` for files without rows, and for inputs that change during the run."""
    for name in ("source", "truth"):
        if name in origins and origins[name].path is not None and not summary.num_rows[name]:
            raise InputError(f"{origins[name].where} has no rows.")
    for name, origin in origins.items():
        num_rows = summary.num_rows[name]
        if origin.num_rows not in (None, num_rows):
            raise InputError(
                f"{origin.where} has {num_rows:,} rows now, but had {origin.num_rows:,} before; "
                "it must not change during the evaluation."
            )


def _read_item_inputs(arguments: Arguments, items: Vocabulary) -> dict[str, Any]:
    kinds = with_separator(item_inputs(arguments), arguments["feature_separator"])
    given = {name: arguments["inputs"].get(name, arguments.get(name)) for name in kinds}
    in_order = 0 if arguments["items"] is None else items.size
    return read_item_inputs(read_input_files(given, kinds), kinds, items, num_in_order=in_order)


def _check_rows(summary: PartitionSummary, origins: Origins, positions: PositionalIds) -> None:
    """Raise InputError for users that are not rows of the scores; partitions check the items."""
    if "user" not in positions.sizes:
        return
    size = positions.sizes["user"]
    for name in positions.inputs:
        users = summary.example_users[name]
        unknown = users.filter((users < 0) | (users >= size))
        if len(unknown):
            raise InputError(
                f"{origins[name].where} has the user {unknown[0]!r}, but the rows of the scores "
                f"are numbered 0 to {size - 1}. Give the ids of the rows as "
                f"{setting_ref('users')}[...]."
            )


def _count_train(summary: PartitionSummary, items: Vocabulary) -> TrainTotals | None:
    if summary.popularity is None:
        return None
    counts = np.zeros(items.size, dtype=np.int64)
    codes = items.encode(summary.popularity["item"], "train")
    is_known = codes >= 0  # partitions raise errors for unknown items, with their rows
    counts[codes[is_known]] = summary.popularity["number"].to_numpy()[is_known]
    return TrainTotals(counts, summary.num_users["train"])


def _overlap_notes(summary: PartitionSummary, origins: Origins) -> Iterator[str]:
    """Yield notes about a source and a truth without common users or items."""
    if "source" not in origins:
        return
    source, truth, num_users = origins["source"], origins["truth"], summary.num_users
    if num_users["source"] and num_users["truth"] and not num_users["both"]:
        are_files = source.path is not None or truth.path is not None
        examples = summary.example_users["source"], summary.example_users["truth"]
        yield no_common_user(source.where, truth.where, *examples, are_files=are_files)
    if len(summary.items["source"]) and len(summary.items["truth"]):
        listed = Vocabulary.from_data("item", [summary.items["source"]], origin=source.where)
        if (listed.encode(summary.items["truth"], truth.where) < 0).all():
            yield NO_HITS


def _build_catalogue(
    summary: PartitionSummary, origins: Origins, arguments: Arguments
) -> Vocabulary:
    """Return the items of the argument `items`, or else every item that occurs."""
    if (items := arguments["items"]) is not None:
        return read_ids("item", read_table(items, "items") if is_file(items) else items)
    if "source" not in origins:
        raise InputError(
            "the items that the model scores are not known; give their ids as "
            f"{setting_ref('items')}[...]."
        )
    if arguments["unknown_items"] == "miss":
        raise MissingInput(UNKNOWN_NEEDS_ITEMS)
    source, truth = origins["source"], origins["truth"]
    if source.path is not None:
        listed = Vocabulary.from_data("item", [summary.items["source"]], origin=source.where)
        others = [summary.items[name] for name in ("truth", "train") if name in summary.items]
        check_common_items(source.where, truth.where, listed, others)
    catalogue = Vocabulary.from_data("item", list(summary.items.values()), origin=source.where)
    is_descending = _orders_ties_by_descending_id(arguments)
    return catalogue.sorted_by_text_descending() if is_descending else catalogue


def _orders_ties_by_descending_id(arguments: Arguments) -> bool:
    """Return True if the profile decides on ties, by descending id."""
    if arguments["profile"] is None or arguments["ties"] is not None:
        return False
    return find_profile(arguments["profile"]).orders_ties_by_descending_id
