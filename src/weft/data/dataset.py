"""`build_dataset`: encodes the inputs of an evaluation, and raises all input errors."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data.common_ids import NO_HITS, common_user_notes, has_common_items
from weft.data.encoding import DatasetSettings, EncodedInteractions, encode_interactions
from weft.data.evaluation_inputs import (
    Axes,
    EvaluationInputs,
    InputTables,
    list_axes,
    position_notes,
    positional_axes,
    score_axes,
)
from weft.data.extra_users import skip_extra_users
from weft.data.interactions import digest_sums, hash_sums_by_id
from weft.data.item_lists import ItemLists
from weft.data.item_slices import (
    ItemSlice,
    group_truth,
    item_slice_notes,
    parse_item_slices,
    read_item_slices,
)
from weft.data.labels import GroupNames, Labels
from weft.data.numbers import Numbers
from weft.data.popularity import TrainTotals
from weft.data.positions import check_declared, describe_ids
from weft.data.readers.files import FileTable
from weft.data.side_inputs import (
    Kinds,
    UserValue,
    hash_user_input,
    read_input,
    read_item_inputs,
    with_separator,
)
from weft.data.slices import (
    CutNumbers,
    UserSlice,
    parse_slices,
    read_slices,
    slice_notes,
)
from weft.data.sources import ListSource, Model, Source
from weft.data.sources.base import own_ids, without_own_ids
from weft.data.truth_groups import TruthGroups
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError


@dataclass(frozen=True)
class GlobalStats:
    """Facts about all users, so that codes and counts mean the same in every partition of them.

    `train` has the totals over all partitions, None if the train rows at hand are all.
    `item_inputs` are those about items, encoded. `groups` has the groups of each label of users
    and, by their name in messages, of slices; a slice that is not cut yet is missing.
    """

    items: Vocabulary
    train: TrainTotals | None
    item_inputs: Mapping[str, Any]
    groups: Mapping[str, GroupNames]
    notes: tuple[str, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict)  # how the ids of users and items were read
    # The groups of item slices that are about items, by name.
    item_groups: Mapping[str, TruthGroups] = field(default_factory=dict)
    max_rating: float = 1.0  # of the truth; 1 if no rating is above 0, or no metric reads it


@dataclass(frozen=True)
class EvaluationData(EncodedInteractions):
    """The inputs of an evaluation as integer codes."""

    source: Source | ListSource
    items: Vocabulary  # the catalogue
    num_rows: int  # users of the source
    num_probed: int  # users that a model has scored already
    side: dict[str, Any]  # inputs of metrics besides train, by name
    kinds: Kinds  # of each input
    slices: dict[str, Labels]
    item_slices: dict[str, TruthGroups]
    definitions: dict[str, dict[str, str]]  # of the slices, by setting and name
    stats: GlobalStats
    files: dict[str, FileTable]  # by the name of the input
    notes: tuple[str, ...]
    # Values that depend on everything but the source: computed once for all sources.
    derived: dict[str, Any]

    @property
    def user_inputs(self) -> dict[str, UserValue]:
        """The inputs of metrics that are about users, by name."""
        return {name: one for name, one in self.side.items() if self.kinds[name].axis == "user"}

    def input_digests(self) -> dict[str, str | None]:
        """Return digests of truth, train and the other inputs of metrics."""
        if "digests" not in self.derived:
            self.derived["digests"] = {
                "truth": digest_sums(hash_sums_by_id(self.truth, self.users, self.items)),
                "train": None if self.train is None else self.train.interactions.fingerprint(),
                **{name: digest_sums(sums) for name, sums in self.hash_user_inputs().items()},
                **{name: one.fingerprint() for name, one in self.stats.item_inputs.items()},
            }
        digests: dict[str, str | None] = self.derived["digests"]
        return digests

    def hash_user_inputs(self) -> dict[str, NDArray[np.uint64]]:
        """Return sums of hashes of the inputs about users, by name; those of partitions add up."""
        return {
            name: hash_user_input(value, self.all_users, self.items)
            for name, value in self.user_inputs.items()
        }


def build_dataset(inputs: EvaluationInputs, settings: DatasetSettings) -> EvaluationData:
    """Read and encode the inputs of an evaluation. The source must be open, settings resolved.

    Raises `InputError` for data that cannot be evaluated.
    """
    return DatasetBuilder(inputs).build(inputs.source, settings)


class DatasetBuilder:
    """Builds the datasets of one source after another from inputs that are read once.

    `stats` are given if these are some of the users; otherwise they are computed. The inputs are
    encoded once for scores, which must all have the same users and items, and for each source of
    lists, which name their own. Several threads may use a builder.
    """

    def __init__(self, inputs: EvaluationInputs, stats: GlobalStats | None = None) -> None:
        self._inputs, self._stats = inputs, stats
        self._encoded: dict[object, tuple[Axes, dict[str, Any]]] = {}
        self._lock = threading.RLock()

    @cached_property
    def tables(self) -> InputTables:
        """The inputs, read at the first use."""
        return InputTables.read(self._inputs)

    def build(self, source: Source | ListSource, settings: DatasetSettings) -> EvaluationData:
        """Return the dataset of a source. Raises `InputError` if it cannot be evaluated."""
        if not isinstance(source, ListSource) and (ids := own_ids(source)):
            return self._with_ids(ids).build(without_own_ids(source), settings)
        has_lists = isinstance(source, ListSource)
        has_train = self._inputs.train is not None
        slices = parse_slices(settings.slices, has_train=has_train) if settings.slices else ()
        check_declared(
            self._inputs.users,
            self._inputs.items,
            has_lists=has_lists,
            is_model=isinstance(source, Model),
        )
        item_slices = parse_item_slices(
            settings.item_slices,
            available=self._inputs.available,
            user_slices=settings.slices or (),
        )
        requests = (slices, item_slices)
        with self._lock:
            if isinstance(source, ListSource):
                axes = self._list_axes(source, settings)
                fields = self._encode(source, axes, settings, *requests)
            else:
                axes, fields = self._encode_once(source, settings, *requests)
        dataset = EvaluationData(**fields, source=source, num_probed=axes.num_probed)
        return skip_extra_users(dataset) if settings.extra_users == "skip" else dataset

    def _with_ids(self, ids: Mapping[str, Any]) -> DatasetBuilder:
        """Return a builder with the ids of a source in the place of those of the caller."""
        builder = DatasetBuilder(self._inputs.with_ids(ids), self._stats)
        builder.tables = self.tables.with_ids(**ids)
        return builder

    def _list_axes(self, source: ListSource, settings: DatasetSettings) -> Axes:
        items = None if self._stats is None else self._stats.items
        return list_axes(
            self.tables,
            source,
            items,
            orders_ties_by_id=settings.orders_ties_by_id,
            needs_items=settings.unknown_items == "miss",
        )

    def _encode_once(
        self,
        source: Source,
        settings: DatasetSettings,
        slices: Sequence[UserSlice],
        item_slices: Sequence[ItemSlice],
    ) -> tuple[Axes, dict[str, Any]]:
        """Return the axes of scores, and the inputs as encoded for the first scores of the kind."""
        items = None if self._stats is None else self._stats.items
        axes = score_axes(self.tables, source, items, settings.batch_size)
        kind = (isinstance(source, Model), source.num_users is None)
        if kind not in self._encoded:
            fields = self._encode(source, axes, settings, slices, item_slices)
            self._encoded[kind] = axes, fields
        first, fields = self._encoded[kind]
        if (axes.users.size, axes.items.size) != (first.users.size, first.items.size):
            raise InputError(
                f"the scores have {axes.users.size} users and {axes.items.size} items, but this "
                f"evaluation was prepared for {first.users.size} users and {first.items.size} "
                "items; prepare another one, or give scores of the same users and items."
            )
        return axes, fields

    def _encode(
        self,
        source: Source | ListSource,
        axes: Axes,
        settings: DatasetSettings,
        slices: Sequence[UserSlice],
        item_slices: Sequence[ItemSlice],
    ) -> dict[str, Any]:
        """Return the fields of the dataset that do not depend on the scores of the source."""
        tables, stats = self._complete_tables(source, axes, settings), self._stats
        totals = None if stats is None else stats.train
        rows = encode_interactions(tables, source, axes, settings, totals)
        user_values = self._read_user_values(source, slices, axes, rows)
        if stats is None:
            item_inputs = self._read_item_inputs(source, axes, settings) if tables.side else {}
            stats = _local_stats(tables, source, axes, rows, user_values, item_inputs)
            stats = _describe_ids(stats, self._inputs, self.tables, source, axes)
            groups = self._read_item_groups(source, item_slices, axes, item_inputs, rows)
            stats = replace(stats, item_groups=groups)
        side, sliced = _label_users(user_values, slices, stats)
        of_truth = group_truth(item_slices, tables.truth, rows.users, axes.items, rows.train)
        item_groups = {**stats.item_groups, **of_truth}
        masks_seen = settings.mask_seen is True
        return {
            **vars(rows),
            "items": stats.items,
            "num_rows": axes.users.size,
            "side": side,
            "kinds": self._inputs.kinds,
            "slices": sliced,
            "item_slices": {one.name: item_groups[one.name] for one in item_slices},
            "definitions": _define_slices(slices, item_slices),
            "stats": stats,
            "files": self.tables.files(source),
            "notes": (
                *stats.notes,
                *slice_notes(slices, sliced),
                *item_slice_notes(item_slices, item_groups, masks_seen=masks_seen),
            ),
            "derived": {},
        }

    def _complete_tables(
        self, source: Source | ListSource, axes: Axes, settings: DatasetSettings
    ) -> InputTables:
        """Return the tables with the number of columns of item numbers, or with ids of lists.

        The truth is without ratings if it is implicit."""
        has_lists, tables = isinstance(source, ListSource), self.tables
        if not has_lists or tables.items is not None:
            tables = replace(tables, truth=tables.truth.with_columns(axes.items.size))
        if has_lists:
            tables = tables.with_item_ids(axes.items)
        if settings.implicit:
            tables = replace(tables, truth=tables.truth.without_values())
        return tables

    def _read_item_inputs(
        self, source: Source | ListSource, axes: Axes, settings: DatasetSettings
    ) -> dict[str, Any]:
        """Return the inputs that are about items, those that are given, encoded."""
        tables = self.tables
        in_order = axes.items.size if tables.has_item_order(source) else 0
        kinds = with_separator(self._inputs.kinds, settings.feature_separator)
        return read_item_inputs(tables.side, kinds, axes.items, num_in_order=in_order)

    def _read_item_groups(
        self,
        source: Source | ListSource,
        slices: Sequence[ItemSlice],
        axes: Axes,
        inputs: Mapping[str, Any],
        rows: EncodedInteractions,
    ) -> dict[str, TruthGroups]:
        """Return the groups of the item slices that are about items."""
        in_order = axes.items.size if self.tables.has_item_order(source) else 0
        return read_item_slices(
            slices, axes.items, num_in_order=in_order, inputs=inputs, train=rows.train
        )

    def _read_user_values(
        self,
        source: Source | ListSource,
        slices: Sequence[UserSlice],
        axes: Axes,
        rows: EncodedInteractions,
    ) -> dict[str, UserValue | CutNumbers]:
        """Return the inputs that are about users, and the slices, by their name in messages."""
        tables, kinds = self.tables, self._inputs.kinds
        has_user_order = tables.users is not None or source.num_users is not None
        in_order = axes.users.size if has_user_order else 0
        values: dict[str, Any] = {
            name: read_input(
                data,
                name,
                kinds[name],
                rows.all_users,
                items=axes.items,
                num_in_order=in_order,
                num_required=rows.users.size,
            )
            for name, data in tables.side.items()
            if kinds[name].axis == "user"
        }
        return values | read_slices(
            slices,
            rows.all_users,
            num_in_order=in_order,
            relevant=rows.relevant,
            train=rows.train,
        )


def _define_slices(
    slices: Sequence[UserSlice], item_slices: Sequence[ItemSlice]
) -> dict[str, dict[str, str]]:
    """Return the definition of each slice, by setting and name, without settings that have none."""
    definitions = {
        "slices": {one.name: str(one.cut or "labels") for one in slices},
        "item_slices": {one.name: one.definition for one in item_slices},
    }
    return {setting: names for setting, names in definitions.items() if names}


def _label_users(
    user_values: Mapping[str, UserValue | CutNumbers],
    slices: Sequence[UserSlice],
    stats: GlobalStats,
) -> tuple[dict[str, Any], dict[str, Labels]]:
    """Return all side inputs, and the slices by name, without those that are not cut yet."""
    side = dict(stats.item_inputs)
    for name, values in user_values.items():
        if isinstance(values, (Numbers, ItemLists)):
            known = stats.groups.get(name)  # of all partitions
            unknown = values.num_unknown if known is None else known.unknown
            side = {name: replace(values, num_unknown=unknown), **side}
        elif name in stats.groups:
            side = {name: values.assign(stats.groups[name]), **side}
    sliced = {one.name: side.pop(one.where) for one in slices if one.where in side}
    return side, sliced


def _describe_ids(
    stats: GlobalStats,
    inputs: EvaluationInputs,
    tables: InputTables,
    source: Source | ListSource,
    axes: Axes,
) -> GlobalStats:
    """Return the stats with how ids were read, and with notes about ids that are positions."""
    positional = {axis.kind for axis in (axes.users, axes.items) if axis.is_positional}
    positional |= {axis.kind for axis in positional_axes(source, axes)}
    given = {"user": inputs.users, "item": inputs.items}
    listed = [kind for kind, value in given.items() if value is not None]
    ids = describe_ids(positional, listed, has_lists=isinstance(source, ListSource))
    notes = position_notes(inputs, tables, source, axes)
    return replace(stats, notes=(*stats.notes, *notes), ids=ids)


def _local_stats(
    tables: InputTables,
    source: Source | ListSource,
    axes: Axes,
    rows: EncodedInteractions,
    user_values: Mapping[str, UserValue | CutNumbers],
    item_inputs: Mapping[str, Any],
) -> GlobalStats:
    """Return the facts about all users, where these are all."""
    notes: list[str] = []
    if isinstance(source, ListSource) and rows.lists is not None:
        notes += common_user_notes(source, axes.users, tables.truth)
        if not has_common_items(rows.lists, rows.truth.items):
            notes.append(NO_HITS)
    groups = {
        name: values.group_names()
        for name, values in user_values.items()
        if not isinstance(values, (Numbers, ItemLists))
    }
    highest = float(rows.truth.values.max(initial=0)) or 1.0
    return GlobalStats(axes.items, None, item_inputs, groups, tuple(notes), max_rating=highest)
