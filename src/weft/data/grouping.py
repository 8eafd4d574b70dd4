"""Groups of users: labels and slices, numbered alike in all partitions of the users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data.interactions import Interactions
from weft.data.label_readers import Label
from weft.data.labels import Labels, read_labels
from weft.data.popularity import Train
from weft.data.slices import Cut, UserSlice, are_integers, assign_groups, format_ranges
from weft.data.sorted_values import SortedArray
from weft.data.vocabulary import Vocabulary


@dataclass(frozen=True)
class GroupNames:
    """The groups of user labels or of a slice, over all users.

    `starts` are the lower ends of all groups but the first, if numbers are cut into groups.
    `unknown` labels belong to users who are not known.
    """

    names: tuple[Label, ...]
    starts: list[float] | None = None
    unknown: int = 0


@dataclass(frozen=True)
class UserLabels:
    """A label per user, as the caller gives it."""

    labels: Labels

    def group_names(self) -> GroupNames:
        """Return the groups, if these are all users."""
        return GroupNames(self.labels.names, unknown=self.labels.num_unknown)

    def assign(self, groups: GroupNames) -> Labels:
        """Return the group of each user."""
        if groups.names == self.labels.names:
            return replace(self.labels, num_unknown=groups.unknown)
        return replace(self.labels.renumber(groups.names), num_unknown=groups.unknown)


@dataclass(frozen=True)
class UserNumbers:
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
        return assign_groups(self.numbers, groups.starts, tuple(map(str, groups.names)))


def read_user_groups(
    labels: Mapping[str, Any],
    slices: Sequence[UserSlice],
    users: Vocabulary,
    *,
    num_in_order: int,
    relevant: Interactions,
    train: Train | None,
) -> dict[str, UserLabels | UserNumbers]:
    """Return user_groups and the slices, by their name in messages.

    Labels without ids are those of the first `num_in_order` users.
    """
    values: dict[str, UserLabels | UserNumbers] = {}
    if "user_groups" in labels:
        values["user_groups"] = UserLabels(
            read_labels(labels["user_groups"], "user_groups", users, num_in_order=num_in_order)
        )
    for one in slices:
        if one.cut is None:
            values[one.where] = UserLabels(one.read_labels(users, num_in_order))
        else:
            values[one.where] = slice_numbers(one, users, num_in_order, relevant, train)
    return values


def slice_numbers(
    wanted: UserSlice,
    users: Vocabulary,
    num_in_order: int,
    relevant: Interactions,
    train: Train | None,
) -> UserNumbers:
    """Return the number of each user that a slice is cut by."""
    assert wanted.cut is not None
    is_evaluated = np.diff(relevant.offsets) > 0
    if wanted.source is not None:
        numbers = wanted.read_numbers(users, num_in_order)[: len(is_evaluated)]
        return UserNumbers(numbers, is_evaluated, wanted.cut)
    assert train is not None
    numbers = np.diff(train.interactions.offsets)[: len(is_evaluated)].astype(np.float64)
    if wanted.name == "item_popularity":
        totals = np.bincount(
            relevant.users, weights=train.item_counts[relevant.items], minlength=len(is_evaluated)
        )
        numbers = totals / np.where(is_evaluated, np.diff(relevant.offsets), np.nan)
    return UserNumbers(numbers, is_evaluated, wanted.cut)


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
