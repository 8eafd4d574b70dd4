"""`build_dataset`: encodes the inputs of an evaluation, and raises all input errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.data.evaluation_inputs import (
    NO_HITS,
    Axes,
    EvaluationInputs,
    InputTables,
    common_user_notes,
    has_common_items,
    list_axes,
    named_users,
    position_notes,
    positional_axes,
    score_axes,
)
from weft.data.extra_users import skip_extra_users
from weft.data.features import read_item_labels
from weft.data.interactions import Interactions, InteractionTable, build_unique
from weft.data.labels import GroupNames, Labels
from weft.data.popularity import Train, TrainTotals
from weft.data.positions import describe_ids
from weft.data.readers.files import FileTable
from weft.data.recommendations import EncodedLists
from weft.data.slices import (
    UserNumbers,
    UserSlice,
    parse_slices,
    read_user_groups,
    slice_notes,
)
from weft.data.sources import ListSource, Source
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError, setting_ref


class DatasetSettings(Protocol):
    """The settings of an evaluation that `build_dataset` reads."""

    @property
    def relevance_threshold(self) -> float | None: ...
    @property
    def implicit(self) -> bool: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def duplicates(self) -> str: ...
    @property
    def extra_users(self) -> str | None: ...
    @property
    def feature_separator(self) -> str | None: ...
    @property
    def slices(self) -> Mapping[str, Any] | None: ...
    @property
    def mask_seen(self) -> bool | str: ...
    @property
    def orders_ties_by_id(self) -> bool: ...


@dataclass(frozen=True)
class GlobalStats:
    """Facts about all users, so that codes and counts mean the same in every partition of them.

    `train` has the totals over all partitions, None if the train rows at hand are all. `labels` has
    item_clusters and item_features, encoded. `groups` has the groups of user_groups and, by their
    name in messages, of slices; a slice that is not cut yet is missing.
    """

    items: Vocabulary
    train: TrainTotals | None
    labels: Mapping[str, Any]
    groups: Mapping[str, GroupNames]
    notes: tuple[str, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict)  # how the ids of users and items were read


@dataclass(frozen=True)
class EncodedInteractions:
    """Truth, train, candidates and lists as rows of users.

    Users are the rows of the source, followed by users of the truth without scores or a list.
    Train rows follow the order of users, then come those of users who are not evaluated.
    """

    users: Vocabulary
    truth: Interactions
    relevant: Interactions
    is_judged: NDArray[np.bool_]  # [users], True for users of the truth
    train: Train | None
    all_users: Vocabulary  # also those of train alone
    candidates: Interactions | None
    lists: EncodedLists | None
    counts: Counter[str]  # facts about the inputs, which add up over partitions of the users


@dataclass(frozen=True)
class EvaluationData(EncodedInteractions):
    """The inputs of an evaluation as integer codes."""

    source: Source | ListSource
    items: Vocabulary  # the catalogue
    num_rows: int  # users of the source
    num_probed: int  # users that a model has scored already
    labels: dict[str, Any]  # user_groups, item_clusters, item_features
    slices: dict[str, Labels]
    slice_definitions: dict[str, str]
    stats: GlobalStats
    files: dict[str, FileTable]  # by the name of the input
    notes: tuple[str, ...]


def build_dataset(
    inputs: EvaluationInputs, settings: DatasetSettings, stats: GlobalStats | None = None
) -> EvaluationData:
    """Read and encode the inputs of an evaluation. The source must be open, settings resolved.

    `stats` are known if these are some of the users; otherwise they are computed here. Raises
    `InputError` for data that cannot be evaluated.
    """
    has_train = inputs.train is not None
    slices = parse_slices(settings.slices, has_train=has_train) if settings.slices else ()
    tables = read = InputTables.read(inputs)
    if settings.implicit:
        tables = replace(tables, truth=tables.truth.without_values())
    catalogue, totals = (None, None) if stats is None else (stats.items, stats.train)
    if isinstance(tables.source, ListSource):
        axes = list_axes(tables, catalogue, orders_ties_by_id=settings.orders_ties_by_id)
        tables = tables.with_item_ids(axes.items)
    else:
        axes = score_axes(tables, catalogue, settings.batch_size)
    rows = _encode_interactions(tables, axes, settings, totals)
    user_values = {}
    if slices or "user_groups" in tables.labels:
        user_values = _read_user_values(tables, slices, axes, rows)
    if stats is None:
        stats = _local_stats(tables, axes, rows, user_values, settings.feature_separator)
        stats = _describe_ids(stats, inputs, read, axes)
    labels, sliced = _label_users(user_values, slices, stats)
    dataset = EvaluationData(
        **vars(rows),
        source=tables.source,
        items=stats.items,
        num_rows=axes.users.size,
        num_probed=axes.num_probed,
        labels=labels,
        slices=sliced,
        slice_definitions={one.name: str(one.cut or "labels") for one in slices},
        stats=stats,
        files=read.files(),
        notes=(*stats.notes, *slice_notes(slices, sliced)),
    )
    return skip_extra_users(dataset) if settings.extra_users == "skip" else dataset


def _read_user_values(
    tables: InputTables, slices: Sequence[UserSlice], axes: Axes, rows: EncodedInteractions
) -> dict[str, Labels | UserNumbers]:
    """Return user_groups and the slices, by their name in messages."""
    has_user_order = tables.users is not None or tables.source.num_users is not None
    return read_user_groups(
        tables.labels,
        slices,
        rows.all_users,
        num_in_order=axes.users.size if has_user_order else 0,
        relevant=rows.relevant,
        train=rows.train,
    )


def _label_users(
    user_values: Mapping[str, Labels | UserNumbers],
    slices: Sequence[UserSlice],
    stats: GlobalStats,
) -> tuple[dict[str, Any], dict[str, Labels]]:
    """Return all labels by input, and the slices by name, without those that are not cut yet."""
    labels = dict(stats.labels)
    for name, values in user_values.items():
        if name in stats.groups:
            labels = {name: values.assign(stats.groups[name]), **labels}
    sliced = {one.name: labels.pop(one.where) for one in slices if one.where in labels}
    return labels, sliced


def _describe_ids(
    stats: GlobalStats, inputs: EvaluationInputs, tables: InputTables, axes: Axes
) -> GlobalStats:
    """Return the stats with how ids were read, and with notes about ids that are positions."""
    positional = {axis.kind for axis in (axes.users, axes.items) if axis.is_positional}
    positional |= {axis.kind for axis in positional_axes(tables.source, axes)}
    given = {"user": inputs.users, "item": inputs.items}
    listed = [kind for kind, value in given.items() if value is not None]
    ids = describe_ids(positional, listed, has_lists=inputs.has_lists)
    return replace(stats, notes=(*stats.notes, *position_notes(inputs, tables, axes)), ids=ids)


def _encode_interactions(
    tables: InputTables, axes: Axes, settings: DatasetSettings, totals: TrainTotals | None
) -> EncodedInteractions:
    counts = Counter(dict.fromkeys(("train_repetitions", "train_rows_unmatched"), 0))
    lists = None
    if isinstance(tables.source, ListSource):
        keep_best = settings.duplicates == "keep-best"
        lists = tables.source.encode(axes.users, axes.items, keep_best=keep_best)
    truth, users, is_judged = _encode_truth(tables.truth, axes, settings.relevance_threshold)
    counts["users_without_source"] = users.size - axes.users.size
    train, all_users = None, users
    if tables.train is not None:
        train, all_users = _encode_train(tables.train, users, axes, totals, counts)
        counts["truth_interactions"] = len(truth.items)
        counts["truth_in_train"] = truth.count_common(train.interactions)
    if lists is not None:
        _count_lists(lists, train, axes, settings, counts)
    candidates = None
    if tables.candidates is not None:
        candidates = _encode_candidates(tables.candidates, users, axes, counts)
    return EncodedInteractions(
        users=users,
        truth=truth,
        relevant=truth.filter_relevant(settings.relevance_threshold),
        is_judged=is_judged,
        train=train,
        all_users=all_users,
        candidates=candidates,
        lists=lists,
        counts=counts,
    )


def _encode_truth(
    table: InteractionTable, axes: Axes, threshold: float | None
) -> tuple[Interactions, Vocabulary, NDArray[np.bool_]]:
    """Return the truth as rows, all users, and `[users]` whether each is a user of the truth.

    Users of the truth without scores or a list follow those of the source. In a matrix every row
    is a user of the truth.
    """
    users = axes.users
    user_codes, item_codes = table.encode(users, axes.items)
    is_judged = np.ones(users.size, dtype=np.bool_)
    if table.shape is None:
        judged = named_users(table)
        missing = judged.filter(users.encode(judged, "truth") < 0)
        if len(missing) and users.is_positional:
            raise InputError(
                f"truth names the user {missing[0]!r}, who is not a row of the scores, 0 to "
                f"{users.size - 1}; give the ids of the scores' rows as "
                f"{setting_ref('users')}[...]."
            )
        if len(missing):
            users = users.extend(missing)
            user_codes = users.encode(table.users, "truth")
        is_judged = np.zeros(users.size, dtype=np.bool_)
        is_judged[users.encode(judged, "truth")] = True
    negative = table.values < 0
    if threshold is None and negative.any():
        raise InputError(
            f"truth has negative ratings:\n{table.format_rows(negative)}\nGive "
            f"{setting_ref('relevance_threshold')} to say from which rating on an item is "
            "relevant, or remove them."
        )
    return (
        build_unique(table, user_codes, item_codes, (users.size, axes.items.size)),
        users,
        is_judged,
    )


def _encode_train(
    table: InteractionTable,
    users: Vocabulary,
    axes: Axes,
    totals: TrainTotals | None,
    counts: Counter[str],
) -> tuple[Train, Vocabulary]:
    """Return train as rows, and all users: those who are evaluated, then those of train alone."""
    rows = axes.users if table.shape is not None else users
    user_codes, item_codes = table.encode(rows, axes.items)
    unmatched = user_codes < 0
    if unmatched.any():
        users = users.extend(table.users.filter(unmatched).unique(maintain_order=True))
        user_codes = users.encode(table.users, "train")
    train = Train(
        Interactions.from_codes(user_codes, item_codes, table.values, users.size, axes.items.size),
        totals,
    )
    counts["train_repetitions"] = train.num_duplicates
    counts["train_rows_unmatched"] = int(unmatched.sum())
    return train, users


def _encode_candidates(
    table: InteractionTable, users: Vocabulary, axes: Axes, counts: Counter[str]
) -> Interactions:
    """Return the candidates of the evaluated users as rows, each once."""
    if table.shape is not None:
        user_codes, item_codes = table.encode(axes.users, axes.items)
    else:
        user_codes = users.encode(table.users, table.where)
        item_codes = table.encode_items(axes.items)
    known = user_codes >= 0
    rows = Interactions.from_codes(
        user_codes[known], item_codes[known], table.values[known], users.size, axes.items.size
    )
    repeated = rows.find_duplicates()
    counts["candidates_unmatched"] = int((~known).sum())
    counts["candidates_repeated"] = int(repeated.sum())
    return rows.filter(~repeated)


def _count_lists(
    lists: EncodedLists,
    train: Train | None,
    axes: Axes,
    settings: DatasetSettings,
    counts: Counter[str],
) -> None:
    """Count gaps in ranks, repeated items of lists, and items that are in their user's train."""
    counts["lists_with_rank_gaps"] = lists.num_rank_gaps
    if settings.duplicates == "keep-best":
        counts["duplicates_dropped"] = lists.num_dropped
    if train is not None and settings.mask_seen is not False:
        counts["seen_in_lists"] = lists.count_listed(
            train.interactions.slice_users(0, axes.users.size)
        )


def _local_stats(
    tables: InputTables,
    axes: Axes,
    rows: EncodedInteractions,
    user_values: Mapping[str, Labels | UserNumbers],
    feature_separator: str | None,
) -> GlobalStats:
    """Return the facts about all users, where these are all."""
    notes: list[str] = []
    if isinstance(tables.source, ListSource) and rows.lists is not None:
        notes += common_user_notes(tables.source, axes.users, tables.truth)
        if not has_common_items(rows.lists.items, rows.truth.items, axes.items.size):
            notes.append(NO_HITS)
    in_order = axes.items.size if tables.has_item_order else 0
    labels = read_item_labels(
        tables.labels, axes.items, num_in_order=in_order, feature_separator=feature_separator
    )
    groups = {name: values.group_names() for name, values in user_values.items()}
    return GlobalStats(axes.items, None, labels, groups, tuple(notes))
