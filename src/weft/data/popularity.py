"""Train interactions, how popular they make each item, and what follows from it: the short head and
the long tail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from weft.data.devices import DeviceColumn
from weft.data.interaction_readers import read_interactions
from weft.data.interactions import Interactions
from weft.data.labels import Labels
from weft.data.tensors import PaddedRows
from weft.data.vocabulary import Vocabulary
from weft.errors import SettingError, check_float

_USERS_AT_ONCE = 1024


class PopularityBins(NamedTuple):
    """Items in bins by their interactions: 0, 1, 2 to 3, 4 to 7 and so on, up to the most that an
    item has.
    """

    bins: DeviceColumn  # of each item
    items: NDArray[np.int64]  # how many there are in each bin
    interactions: NDArray[np.int64]  # how many these have

    @property
    def ranges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The fewest and the most interactions that an item of each bin can have."""
        first = np.arange(len(self.items), dtype=np.int64)
        return (1 << first) // 2, (1 << first) - 1


@dataclass(frozen=True)
class TrainTotals:
    """What the interactions of all users come to, for whoever holds those of some.

    `item_counts`: the interactions of each item; `num_users`: users with one. `by_label`: those of
    each group of users with each cluster of items, as `Train.count_by_label` has them; None where
    nobody asks."""

    item_counts: NDArray[np.int64]
    num_users: int
    by_label: NDArray[np.int64] | None = None


class Train:
    """Train interactions by code, each (user, item) once; `repetitions` says how many rows were
    collapsed.

    `totals`: those of all users, where the cells are those of some.
    """

    def __init__(self, cells: Interactions, totals: TrainTotals | None = None) -> None:
        repeated = cells.find_duplicates()
        self.interactions = cells.filter(~repeated)
        self.num_duplicates = int(repeated.sum())
        self._totals = totals
        self._tails: dict[float, DeviceColumn] = {}
        self._popularity: dict[float, DeviceColumn] = {}
        self._by_label: dict[tuple[Labels, Labels], NDArray[np.int64]] = {}

    @classmethod
    def read(cls, given: Any, num_users: int | None = None, num_items: int | None = None) -> Train:
        """A matrix, or cells of row and column numbers."""
        if isinstance(given, Train):
            return given
        if isinstance(given, Interactions):
            return cls(given)
        cells = read_interactions(given, "train")
        found = (num_users, num_items) if cells.shape is None else cells.shape
        if found[0] is None or found[1] is None:
            raise SettingError(
                "train does not tell how many users and items there are; give it as a matrix "
                "[users, items]."
            )
        sizes = (
            Vocabulary.from_size("user", num_users or found[0]),
            Vocabulary.from_size("item", num_items or found[1]),
        )
        users, items = cells.encode(*sizes)
        return cls(
            Interactions.from_codes(users, items, cells.values, sizes[0].size, sizes[1].size)
        )

    def equals(self, other: Train) -> bool:
        """Whether both hold the same cells."""
        mine, theirs = self.interactions, other.interactions
        return np.array_equal(mine.users, theirs.users) and np.array_equal(mine.items, theirs.items)

    @cached_property
    def on_device(self) -> PaddedRows:
        """The cells, to be looked up where the users' numbers are."""
        return PaddedRows(self.interactions)

    def fingerprint(self) -> str:
        """A short digest of the cells."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        return self.interactions.fingerprint()

    @property
    def num_items(self) -> int:
        """Items of the catalogue."""
        return self.interactions.num_items

    @property
    def num_interactions(self) -> int:
        """T, the number of interactions."""
        return len(self.interactions.items) if self._totals is None else int(self.item_counts.sum())

    @cached_property
    def num_users(self) -> int:
        """Users with an interaction."""
        return (
            int(np.count_nonzero(np.diff(self.interactions.offsets)))
            if self._totals is None
            else self._totals.num_users
        )

    @cached_property
    def item_counts(self) -> NDArray[np.int64]:
        """n_i, the interactions of each item."""
        return (
            np.bincount(self.interactions.items, minlength=self.num_items)
            if self._totals is None
            else self._totals.item_counts
        )

    @cached_property
    def _items_with(self) -> NDArray[np.int64]:
        """How many items have n interactions, by n, up to the most that an item has: far fewer
        numbers than items.
        """
        return np.bincount(self.item_counts)

    @property
    def num_cold_items(self) -> int:
        """Items without an interaction."""
        return int(self._items_with[:1].sum())

    @cached_property
    def popularity(self) -> DeviceColumn:
        """n_i as a column."""
        return DeviceColumn(torch.as_tensor(self.item_counts, dtype=torch.float64))

    @cached_property
    def popularity_bins(self) -> PopularityBins:
        """The items in bins, each twice as wide as the one before."""
        items, numbers = self._items_with, np.arange(len(self._items_with))
        bin_of = np.frexp(numbers)[1].astype(np.int64)  # how many binary digits a number has
        starts = np.flatnonzero(np.diff(bin_of, prepend=-1))
        bins = DeviceColumn(torch.as_tensor(bin_of.take(self.item_counts)))
        return PopularityBins(
            bins, np.add.reduceat(items, starts), np.add.reduceat(items * numbers, starts)
        )

    def popularity_with_default(self, unseen: float) -> DeviceColumn:
        """The same, with another number for items without an interaction."""
        if unseen not in self._popularity:
            counts = self.popularity.values
            self._popularity[unseen] = (
                self.popularity
                if unseen == 0
                else DeviceColumn(torch.where(counts == 0, unseen, counts))
            )
        return self._popularity[unseen]

    def long_tail(self, pop_ratio: float) -> DeviceColumn:
        """1 for an item of the long tail, 0 for one of the head.

        The head is the shortest prefix, by falling popularity (ties: lower item first), that
        reaches `pop_ratio` of the total."""
        if pop_ratio not in self._tails:
            self._tails[pop_ratio] = DeviceColumn(
                torch.from_numpy(
                    self._is_tail((pop_ratio - 1e-9) * self.num_interactions).astype(np.float64)
                )
            )
        return self._tails[pop_ratio]

    def _is_tail(self, wanted: float) -> NDArray[np.bool_]:
        """Whether an item is behind the shortest prefix that has so many interactions."""
        if not self.num_interactions:
            return np.ones(self.num_items, dtype=np.bool_)
        # Nothing is sorted: the items with n interactions stand behind all those with more.
        reached = np.cumsum((self._items_with * np.arange(len(self._items_with)))[::-1])
        place = int(np.searchsorted(reached, wanted))
        last = len(reached) - 1 - place  # the interactions of the last item of the head
        before = int(reached[place - 1]) if place else 0
        is_tail = self.item_counts < last
        among = np.flatnonzero(self.item_counts == last)
        is_tail[among[max(1, math.ceil((wanted - before) / last)) :]] = True
        return is_tail

    def count_by_label(self, groups: Labels, clusters: Labels) -> NDArray[np.int64]:
        """How many interactions the users of each group have with the items of each cluster,
        `[groups * clusters]`.
        """
        if self._totals is not None and self._totals.by_label is not None:
            return self._totals.by_label
        if (groups, clusters) not in self._by_label:
            width = len(clusters.names) + 1  # one more group and cluster for those without a label
            group = (groups.codes.values.numpy()[: self.interactions.num_users] + 1) * width
            cluster, counts = (
                clusters.codes.values.numpy() + 1,
                np.zeros((len(groups.names) + 1) * width, dtype=np.int64),
            )
            for start in range(0, self.interactions.num_users, _USERS_AT_ONCE):
                some = self.interactions.slice_users(
                    start, min(start + _USERS_AT_ONCE, self.interactions.num_users)
                )
                pair = np.repeat(group[start : start + some.num_users], np.diff(some.offsets))
                counts += np.bincount(pair + cluster.take(some.items), minlength=len(counts))
            self._by_label[groups, clusters] = counts.reshape(-1, width)[1:, 1:].reshape(-1)
        return self._by_label[groups, clusters]


NO_TRAIN = Train(
    Interactions(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0), 0)
)


def check_pop_ratio(pop_ratio: object) -> float:
    """The share of all interactions that the head reaches: above 0, at most 1."""
    number = float(check_float("pop_ratio", pop_ratio, more=" above 0 and at most 1"))
    if not 0 < number <= 1:
        raise SettingError(f"pop_ratio={pop_ratio!r}; it must be a number above 0 and at most 1.")
    return number


def check_unseen(unseen: object) -> float:
    """With how many interactions an item without any counts: a number from 0 up."""
    number = check_float("unseen", unseen, more=" from 0 up")
    if number < 0:
        raise SettingError(f"unseen={unseen!r}; it must be a number from 0 up.")
    return number
