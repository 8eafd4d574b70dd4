"""Slices: groups of users, by a label or by a number that is cut into ranges.

Groups are numbered alike in all partitions of the users."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from weft._input_kinds import split_column
from weft.data.devices import DeviceColumn
from weft.data.interactions import Interactions
from weft.data.labels import GroupNames, Labels, read_labels
from weft.data.popularity import Train
from weft.data.readers.files import File, is_file, read_table
from weft.data.sorted_values import SortedArray, SortedValues
from weft.data.vocabulary import Vocabulary
from weft.errors import (
    InputError,
    MissingInput,
    SettingError,
    describe_type,
    did_you_mean,
    setting_ref,
)

BUILT_IN = ("activity", "item_popularity")  # numbers that train gives for every user
_EXPRESSION = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")
_EXPECTED = (
    "quantiles(4) (groups of about equal size) or bins(5, 20) (below 5, from 5 to below 20, from "
    "20 up)"
)


def _is_group_count(numbers: tuple[float, ...]) -> bool:
    return len(numbers) == 1 and numbers[0].is_integer() and numbers[0] >= 2


def _are_group_starts(numbers: tuple[float, ...]) -> bool:
    is_ascending = all(low < high for low, high in pairwise(numbers))
    return is_ascending and all(map(math.isfinite, numbers))


# By kind of cut, the test of its numbers and what they should be.
_CUTS = {
    "quantiles": (
        _is_group_count,
        "quantiles take one integer of at least 2, as in quantiles(4)",
    ),
    "bins": (
        _are_group_starts,
        "bins take the lower bounds of the groups in ascending order, as in bins(5, 20)",
    ),
}


@dataclass(frozen=True)
class Cut:
    """A rule to cut numbers into groups: a number of `"quantiles"`, or the starts of `"bins"`."""

    kind: str
    numbers: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(f'{number:g}' for number in self.numbers)})"

    @classmethod
    def parse(cls, text: Any, where: str) -> Cut:
        """Return the rule of `"quantiles(4)"` or `"bins(5, 20)"`; raise `SettingError` if wrong."""
        match = _EXPRESSION.fullmatch(text) if isinstance(text, str) else None
        setting = where.partition("[")[0]
        kind = match[1].casefold() if match else ""
        if match is None or kind not in _CUTS:
            hint = did_you_mean(kind or str(text), _CUTS)
            raise SettingError(
                f"{where} has {text!r}.{hint} Expected {_EXPECTED}.", setting=setting
            )
        try:
            numbers = tuple(float(number) for number in match[2].split(","))
        except ValueError:
            raise SettingError(
                f"{where} has {text!r}, which contains a value that is not a number; expected "
                f"{_EXPECTED}.",
                setting=setting,
            ) from None
        is_valid, expected = _CUTS[kind]
        if not is_valid(numbers):
            raise SettingError(f"{where} has {text!r}; {expected}.", setting=setting)
        return cls(kind, numbers)

    def find_edges(self, ordered: SortedValues[np.float64]) -> list[float]:
        """Return the start of each group but the first.

        Quantiles never separate equal numbers, so that there may be fewer groups.
        """
        if self.kind == "bins":
            return list(self.numbers)
        if ordered.size == 0:
            return []
        count = int(self.numbers[0])
        ranks = np.arange(1, count) * ordered.size / count
        tied = ordered.select(np.minimum(ranks.astype(np.int64), ordered.size - 1))
        # Equal numbers go to the group that leaves the sizes of groups most alike.
        ends = np.stack([ordered.count_below(tied), ordered.count_up_to(tied)])
        distances = np.where((ends > 0) & (ends < ordered.size), np.abs(ends - ranks), np.inf)
        nearest = ends[distances.argmin(0), np.arange(len(ranks))]
        cuts = np.unique(nearest[np.isfinite(distances.min(0))])
        return sorted({float(number) for number in ordered.select(cuts)})


@dataclass(frozen=True)
class UserSlice:
    """A requested slice: labels of users (`cut` is None), or numbers of users and their cut.

    `source` is None for the built-in number with the name of the slice.
    """

    name: str
    source: Any
    cut: Cut | None

    @property
    def where(self) -> str:
        """The name of the slice in messages."""
        return f"slices[{self.name!r}]"

    def read_labels(self, users: Vocabulary, num_in_order: int) -> Labels:
        """Return the label of each user; see `labels.read_labels`."""
        return read_slice_labels(self.source, self.where, users, num_in_order)

    def read_numbers(self, users: Vocabulary, num_in_order: int) -> NDArray[np.float64]:
        """Return the number of each user, NaN for none, `[users]`."""
        return read_slice_numbers(self.source, self.where, users, num_in_order)


def read_slice_labels(data: Any, where: str, ids: Vocabulary, num_in_order: int) -> Labels:
    """Return the label of each user or item of a slice; see `labels.read_labels`."""
    path, column = split_column(data) if isinstance(data, str) else (data, None)
    if column is not None:
        data = File(Path(path), columns={"label": column})
    if is_file(data):
        use = "user_groups" if ids.kind == "user" else "item_clusters"
        data = read_table(data, where, use=use)
    return read_labels(data, where, ids, num_in_order=num_in_order)


def read_slice_numbers(
    data: Any, where: str, ids: Vocabulary, num_in_order: int
) -> NDArray[np.float64]:
    """Return the number of each user or item, NaN for none, `[ids]`."""
    labels = read_slice_labels(data, where, ids, num_in_order)
    values = np.array([*(_to_number(name, where, ids.kind) for name in labels.names), math.nan])
    numbers: NDArray[np.float64] = values[labels.codes.values.numpy()]
    return numbers


def _to_number(label: Any, where: str, kind: str) -> float:
    try:
        number = math.inf if isinstance(label, bool) else float(label)  # files hold text
    except ValueError:
        number = math.inf
    if math.isinf(number):
        raise InputError(
            f"{where} has {label!r}, which is not a finite number; expected a number for each "
            f"{kind}, or none."
        )
    return number


def parse_slices(slices: Mapping[str, Any] | None, *, has_train: bool) -> tuple[UserSlice, ...]:
    """Return the requested slices; raise `SettingError` before any data is read."""
    if slices is None:
        return ()
    if not isinstance(slices, Mapping):
        raise SettingError(
            f"slices is {describe_type(slices)}; expected "
            "{name: labels of users, or a rule that groups them}.",
            setting="slices",
        )
    return tuple(_parse_slice(name, request, has_train) for name, request in slices.items())


def _parse_slice(name: Any, request: Any, has_train: bool) -> UserSlice:
    if not isinstance(name, str) or not name.strip():
        raise SettingError(f"slices has the name {name!r}; expected a string.", setting="slices")
    where = f"slices[{name!r}]"
    if isinstance(request, Mapping) and set(request) == {"of", "by"}:
        return UserSlice(name, request["of"], Cut.parse(request["by"], f"{where}['by']"))
    if not isinstance(request, str) or not (name in BUILT_IN or _EXPRESSION.fullmatch(request)):
        return UserSlice(name, request, None)
    cut = Cut.parse(request, where)
    if name not in BUILT_IN:
        raise SettingError(
            f"{where} is {request!r}, but {name!r} is not a known number of "
            f"users.{did_you_mean(name, BUILT_IN)} Known: {', '.join(BUILT_IN)}; for your own "
            f"numbers give {{'of': a number per user, 'by': {request!r}}}.",
            setting="slices",
        )
    if not has_train:
        raise MissingInput(
            f"{where} counts train interactions and needs {setting_ref('train')}.",
            setting="slices",
        )
    return UserSlice(name, None, cut)


def are_integers(numbers: NDArray[np.float64]) -> bool:
    """True if all numbers that are not NaN are integers."""
    known = numbers[~np.isnan(numbers)]
    return bool((known == np.floor(known)).all())


def format_ranges(edges: list[float], *, are_integers: bool) -> list[str]:
    """Return the range of each group in words."""
    if not edges:
        return ["all"]
    starts = [math.ceil(edge) for edge in edges]
    if are_integers and len(set(starts)) == len(starts):
        middle = [
            f"{low} to {high - 1}" if high - 1 > low else f"{low}" for low, high in pairwise(starts)
        ]
        return [f"up to {starts[0] - 1}", *middle, f"{starts[-1]} and more"]
    for digits in range(4, 18):
        shown = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(shown)) == len(edges):
            break
    middle = [f"{low} to below {high}" for low, high in pairwise(shown)]
    return [f"below {shown[0]}", *middle, f"{shown[-1]} and more"]


@dataclass(frozen=True)
class CutNumbers:
    """A number per user, `[users]`, NaN for none, that a slice cuts into groups.

    Quantiles are those of the users with a relevant item, `is_evaluated [users]`.
    """

    numbers: NDArray[np.float64]
    is_evaluated: NDArray[np.bool_]
    cut: Cut

    def group_names(self) -> GroupNames:
        """Return the groups, if these are all users."""
        known = self.numbers[~np.isnan(self.numbers) & self.is_evaluated]
        if not len(known):
            return GroupNames((), [])
        starts = self.cut.find_edges(SortedArray(known))
        return GroupNames(
            tuple(format_ranges(starts, are_integers=are_integers(self.numbers))), starts
        )

    def assign(self, groups: GroupNames) -> Labels:
        """Return the group of each user; none for NaN."""
        assert groups.starts is not None
        names = tuple(map(str, groups.names))
        has_no_group = np.isnan(self.numbers) | (len(names) == 0)
        codes = np.where(has_no_group, -1, np.searchsorted(groups.starts, self.numbers, "right"))
        return Labels(DeviceColumn(torch.as_tensor(codes.astype(np.int64))), names)


def read_slices(
    slices: Sequence[UserSlice],
    users: Vocabulary,
    *,
    num_in_order: int,
    relevant: Interactions,
    train: Train | None,
) -> dict[str, Labels | CutNumbers]:
    """Return the slices, by their name in messages.

    Labels without ids are those of the first `num_in_order` users.
    """
    values: dict[str, Labels | CutNumbers] = {}
    for one in slices:
        if one.cut is None:
            values[one.where] = one.read_labels(users, num_in_order)
        else:
            values[one.where] = slice_numbers(one, users, num_in_order, relevant, train)
    return values


def slice_numbers(
    wanted: UserSlice,
    users: Vocabulary,
    num_in_order: int,
    relevant: Interactions,
    train: Train | None,
) -> CutNumbers:
    """Return the number of each user that a slice is cut by."""
    assert wanted.cut is not None
    is_evaluated = np.diff(relevant.offsets) > 0
    if wanted.source is not None:
        numbers = wanted.read_numbers(users, num_in_order)[: len(is_evaluated)]
        return CutNumbers(numbers, is_evaluated, wanted.cut)
    assert train is not None
    numbers = np.diff(train.interactions.offsets)[: len(is_evaluated)].astype(np.float64)
    if wanted.name == "item_popularity":
        totals = np.bincount(
            relevant.users, weights=train.item_counts[relevant.items], minlength=len(is_evaluated)
        )
        numbers = totals / np.where(is_evaluated, np.diff(relevant.offsets), np.nan)
    return CutNumbers(numbers, is_evaluated, wanted.cut)


def slice_notes(slices: Sequence[UserSlice], grouped: Mapping[str, Labels]) -> Iterator[str]:
    """Yield notes about slices with fewer groups than expected."""
    for one in slices:
        if one.name not in grouped:
            continue
        groups = len(grouped[one.name].names)
        if groups == 0:
            kind = "label" if one.cut is None else "number"
            yield f"the slice {one.name!r} has no group: no user has a {kind}"
        elif one.cut is not None and one.cut.kind == "quantiles" and groups < one.cut.numbers[0]:
            yield (
                f"the slice {one.name!r} has {groups} of the groups of {one.cut}: too many users "
                "have the same number"
            )
