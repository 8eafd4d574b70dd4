"""Item slices: groups of relevant items, for which metrics are computed one by one.

Groups are by a label, features or a number of the item, by its popularity in train, by whether it
is in the user's train, or by the time of the interaction.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.data.devices import DeviceColumn
from weft.data.features import Features
from weft.data.interactions import Interactions, InteractionTable
from weft.data.labels import Labels
from weft.data.numbers import Numbers
from weft.data.popularity import Train, check_ratio
from weft.data.slices import Cut, CutNumbers, read_slice_labels, read_slice_numbers
from weft.data.truth_groups import (
    FeatureGroups,
    LabelGroups,
    PairGroups,
    RepeatGroups,
    TruthGroups,
)
from weft.data.truth_times import TimeRule, read_times
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError, MissingInput, SettingError, did_you_mean, setting_ref

POPULARITY = "popularity"  # the number that train gives for every item
HEAD_RATIO = 0.8
_HEAD_TAIL = re.compile(r"\s*head_tail\s*(?:\(([^()]*)\))?\s*", re.IGNORECASE)
_EXPRESSION = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")
_INPUTS = ("item_clusters", "item_features")
_RULES = ("head_tail", "quantiles", "bins", "time", "targets")
_MAX_GROUPS = 1000  # each costs as much as an evaluation without its ranking


@dataclass(frozen=True)
class HeadTail:
    """The rule of short head and long tail: the head has `ratio` of the train interactions."""

    ratio: float = HEAD_RATIO

    def __str__(self) -> str:
        return f"head_tail({self.ratio:g})"


class Repeats:
    """The rule of new and repeated items."""

    def __str__(self) -> str:
        return "targets"


@dataclass(frozen=True)
class InputOfItems:
    """The groups are those of an input about items of this name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ItemSlice:
    """A requested item slice. `rule` is None for labels, which `source` holds; with a `Cut`,
    `source` holds a number per item, None for the popularity in train.
    """

    name: str
    rule: HeadTail | Repeats | InputOfItems | TimeRule | Cut | None
    source: Any = None

    @property
    def where(self) -> str:
        """The name of the slice in messages."""
        return f"item_slices[{self.name!r}]"

    @property
    def definition(self) -> str:
        """The slice in `Result.settings`."""
        return "labels" if self.rule is None else str(self.rule)

    @property
    def needs_train(self) -> bool:
        """True if the groups follow from train."""
        is_popularity = isinstance(self.rule, Cut) and self.source is None
        return is_popularity or isinstance(self.rule, (HeadTail, Repeats))

    @property
    def is_own_data(self) -> bool:
        """True if the caller gives a label or a number per item for this slice alone."""
        return self.source is not None and not isinstance(self.source, InputOfItems)

    @property
    def is_about_items(self) -> bool:
        """True if all interactions with an item are in the same groups."""
        return not isinstance(self.rule, (Repeats, TimeRule))


def parse_item_slices(
    slices: Mapping[str, Any] | None,
    *,
    available: Collection[str],
    user_slices: Collection[str] = (),
) -> tuple[ItemSlice, ...]:
    """Return the requested item slices; raise `SettingError` before any data is read.

    `available` are the names of the inputs of the run, `user_slices` those of the user slices."""
    parsed = []
    for name, request in (slices or {}).items():
        if not isinstance(name, str) or not name.strip():
            raise SettingError(
                f"item_slices has the name {name!r}; expected a string.", setting="item_slices"
            )
        if name in user_slices:
            raise SettingError(
                f"{setting_ref('slices')} and {setting_ref('item_slices')} both have the name "
                f"{name!r}; use different names.",
                setting="item_slices",
            )
        one = _parse_slice(name, request, available)
        if one.needs_train and "train" not in available:
            raise MissingInput(
                f"{one.where} is {one.definition!r} and needs {setting_ref('train')}.",
                setting="item_slices",
            )
        parsed.append(one)
    return tuple(parsed)


def _parse_slice(name: str, request: Any, available: Collection[str]) -> ItemSlice:
    where = f"item_slices[{name!r}]"
    if isinstance(request, Mapping) and set(request) == {"of", "by"}:
        cut = Cut.parse(request["by"], f"{where}['by']")
        return ItemSlice(name, cut, _find_input(request["of"], available))
    if not isinstance(request, str):
        return ItemSlice(name, None, request)
    if (rule := _parse_rule(request, where)) is not None:
        return ItemSlice(name, rule)
    if request in _INPUTS and request not in available:
        raise MissingInput(
            f"{where} is {request!r} and needs {setting_ref(request)}.", setting="item_slices"
        )
    if request in available:
        return ItemSlice(name, InputOfItems(request))
    if (match := _EXPRESSION.fullmatch(request)) is None:
        return ItemSlice(name, None, request)  # a path
    return _parse_cut(name, request, match[1].casefold())


def _find_input(source: Any, available: Collection[str]) -> Any:
    """Return the input of the run that a text names, or else the caller's own data."""
    return InputOfItems(source) if isinstance(source, str) and source in available else source


def _parse_rule(request: str, where: str) -> Repeats | HeadTail | TimeRule | None:
    """Return the rule that a text names, None if it names none."""
    if request.strip().casefold() == "targets":
        return Repeats()
    if (match := _HEAD_TAIL.fullmatch(request)) is not None:
        return HeadTail(_read_ratio(match[1], where))
    return TimeRule.parse(request, where)


def _read_ratio(text: str | None, where: str) -> float:
    if text is None:
        return HEAD_RATIO
    try:
        return check_ratio(where, float(text))
    except (SettingError, ValueError):
        raise SettingError(
            f"{where} is 'head_tail({text})'; expected the share of the train interactions in the "
            "head, above 0 and at most 1, as in head_tail(0.8).",
            setting="item_slices",
        ) from None


def _parse_cut(name: str, request: str, kind: str) -> ItemSlice:
    where = f"item_slices[{name!r}]"
    if kind not in ("quantiles", "bins"):
        raise SettingError(
            f"{where} has {request!r}.{did_you_mean(kind, _RULES)} Expected head_tail, targets, "
            "time(month), quantiles(4) or bins(5, 20), or a label per item.",
            setting="item_slices",
        )
    cut = Cut.parse(request, where)
    if name != POPULARITY:
        raise SettingError(
            f"{where} is {request!r}, but {name!r} is not a known number of "
            f"items.{did_you_mean(name, [POPULARITY])} Known: {POPULARITY}, the train "
            "interactions; for your own numbers give "
            f"{{'of': a number per item, 'by': {request!r}}}.",
            setting="item_slices",
        )
    return ItemSlice(name, cut)


def has_times(slices: Mapping[str, Any] | None) -> bool:
    """True if some item slice is by time; wrong ones are not refused here."""
    texts = (one for one in (slices or {}).values() if isinstance(one, str))
    return any(re.match(r"\s*time\s*\(", text, re.IGNORECASE) for text in texts)


# --------------------------------------------------------------------------------------------------


def read_item_slices(
    slices: Sequence[ItemSlice],
    items: Vocabulary,
    *,
    num_in_order: int,
    inputs: Mapping[str, Any],
    train: Train | None,
) -> dict[str, TruthGroups]:
    """Return the groups of the slices that are about items, by name.

    Labels without ids are those of the first `num_in_order` items; `inputs` are encoded."""
    groups: dict[str, TruthGroups] = {}
    for one in slices:
        if one.is_about_items:
            groups[one.name] = _read_groups(one, items, num_in_order, inputs, train)
            check_group_count(one, groups[one.name])
    return groups


def _read_groups(
    wanted: ItemSlice,
    items: Vocabulary,
    num_in_order: int,
    inputs: Mapping[str, Any],
    train: Train | None,
) -> TruthGroups:
    rule = wanted.rule
    if isinstance(wanted.source, Features):  # of a state that was saved
        return FeatureGroups(wanted.source)
    if rule is None:
        return LabelGroups(read_slice_labels(wanted.source, wanted.where, items, num_in_order))
    if isinstance(rule, HeadTail):
        assert train is not None
        is_tail = train.long_tail(rule.ratio).values.long()
        return LabelGroups(Labels(DeviceColumn(is_tail), ("head", "tail")))
    if isinstance(rule, InputOfItems):
        return _groups_of_input(wanted, inputs[rule.name])
    assert isinstance(rule, Cut)
    numbers = _item_numbers(wanted, items, num_in_order, inputs, train)
    cut = CutNumbers(numbers, np.ones(len(numbers), dtype=np.bool_), rule)
    return LabelGroups(cut.assign(cut.group_names()))


def _groups_of_input(wanted: ItemSlice, value: Any) -> TruthGroups:
    if isinstance(value, Labels):
        return LabelGroups(value)
    if isinstance(value, Features):
        return FeatureGroups(value)
    raise SettingError(
        f"{wanted.where} is {str(wanted.rule)!r}, an input that has neither a label nor features "
        f"for each item; for numbers, give {{'of': {str(wanted.rule)!r}, 'by': 'quantiles(4)'}}.",
        setting="item_slices",
    )


def _item_numbers(
    wanted: ItemSlice,
    items: Vocabulary,
    num_in_order: int,
    inputs: Mapping[str, Any],
    train: Train | None,
) -> Any:
    """Return the number of each item, NaN for none, `[items]`."""
    source = wanted.source
    if source is None:
        assert train is not None
        return train.item_counts.astype(np.float64)
    if not isinstance(source, InputOfItems):
        return read_slice_numbers(source, wanted.where, items, num_in_order)
    value = inputs[source.name]
    if not isinstance(value, Numbers) or value.is_vector:
        raise SettingError(
            f"{wanted.where} groups {source.name!r}, which is not a number for each item.",
            setting="item_slices",
        )
    missing = value.missing.values.cpu().numpy()
    return np.where(missing, np.nan, value.values.values.cpu().numpy().astype(np.float64))


def check_group_count(wanted: ItemSlice, groups: TruthGroups) -> None:
    """Raise `InputError` for a slice with too many groups."""
    if len(groups.names) > _MAX_GROUPS:
        raise InputError(
            f"{wanted.where} has {len(groups.names):,} groups; expected at most {_MAX_GROUPS:,}, "
            "because every metric is computed for each. Give fewer labels, or a longer period."
        )


def group_truth(
    slices: Sequence[ItemSlice],
    table: InteractionTable,
    users: Vocabulary,
    items: Vocabulary,
    train: Train | None,
) -> dict[str, TruthGroups]:
    """Return the groups of the slices that differ by user, by name. `table` is the truth."""
    groups: dict[str, TruthGroups] = {}
    for one in slices:
        if isinstance(one.rule, Repeats):
            assert train is not None
            groups[one.name] = RepeatGroups(train)
        elif isinstance(one.rule, TimeRule):
            groups[one.name] = _group_by_time(one.rule, one, table, users, items)
            check_group_count(one, groups[one.name])
    return groups


def _group_by_time(
    rule: TimeRule,
    wanted: ItemSlice,
    table: InteractionTable,
    users: Vocabulary,
    items: Vocabulary,
) -> PairGroups:
    if table.times is None:
        raise MissingInput(
            f"{wanted.where} is {str(rule)!r}, but {table.where} has no timestamps; give the truth "
            "as a frame or file with a column 'timestamp'.",
            setting="item_slices",
        )
    codes, names = rule.assign(read_times(table.times, table.where))
    user_codes, item_codes = table.encode(users, items)
    known = codes >= 0
    pairs = Interactions.from_codes(
        user_codes[known],
        item_codes[known],
        codes[known].astype(np.float64),
        users.size,
        items.size,
    )
    return PairGroups(pairs, names)


def item_slice_notes(
    slices: Sequence[ItemSlice], groups: Mapping[str, TruthGroups], *, masks_seen: bool
) -> Iterator[str]:
    """Yield notes about item slices with fewer groups than expected or groups that have no hit."""
    for one in slices:
        number, rule = len(groups[one.name].names), one.rule
        if number == 0:
            yield f"the item slice {one.name!r} has no group: nothing has a label"
        elif isinstance(rule, Cut) and rule.kind == "quantiles" and number < rule.numbers[0]:
            yield (
                f"the item slice {one.name!r} has {number} of the groups of {rule}: too many items "
                "have the same number"
            )
        if isinstance(rule, Repeats) and masks_seen:
            yield (
                f"the repeated items of the item slice {one.name!r} are masked because they are in "
                "train, and cannot be hit; mask_seen=False keeps them"
            )
