"""Train interactions, and the popularity of items: short head and long tail."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.devices import DeviceColumn
from weft.data.interaction_readers import read_interactions
from weft.data.interactions import Interactions
from weft.data.labels import Labels
from weft.data.tensors import RowLookup
from weft.data.vocabulary import Vocabulary
from weft.errors import SettingError, check_float, setting_ref

_TILE_USERS = 1024


class PopularityBins(NamedTuple):
    """Items in bins by their number of interactions: 0, 1, 2 to 3, 4 to 7, and so on."""

    bins: DeviceColumn  # of each item
    low: NDArray[np.int64]  # fewest interactions of an item of each bin
    high: NDArray[np.int64]  # most interactions
    items: NDArray[np.int64]  # items of each bin
    interactions: NDArray[np.int64]  # interactions with the items of each bin


@dataclass(frozen=True)
class TrainTotals:
    """Statistics of the train interactions of all users, for a partition of the users.

    `item_counts [items]`; `num_users` with an interaction; `by_label`: `Train.count_by_label` of
    all users, None if no metric needs it.
    """

    item_counts: NDArray[np.int64]
    num_users: int
    by_label: NDArray[np.int64] | None = None


class Train:
    """Train interactions by code, each (user, item) once, and the popularity of items.

    `num_items` is the size of the catalogue; `num_duplicates` rows were repetitions. `totals`:
    statistics of all users, if the interactions are those of a partition.
    """

    def __init__(self, interactions: Interactions, totals: TrainTotals | None = None) -> None:
        is_duplicate = interactions.find_duplicates()
        self.interactions = interactions.filter(~is_duplicate)
        self.num_items = interactions.num_items
        self.num_duplicates = int(is_duplicate.sum())
        self._totals = totals
        self._tails: dict[tuple[str, float], DeviceColumn] = {}
        self._popularity: dict[float, DeviceColumn] = {}
        self._by_label: dict[tuple[Labels, Labels], NDArray[np.int64]] = {}

    @classmethod
    def read(cls, data: Any, num_users: int | None = None, num_items: int | None = None) -> Train:
        """Return train from a matrix, or from interactions of row and column numbers."""
        if isinstance(data, Train):
            return data
        if isinstance(data, Interactions):
            return cls(data)
        table = read_interactions(data, "train")
        shape = (num_users, num_items) if table.shape is None else table.shape
        if shape[0] is None or shape[1] is None:
            raise SettingError(
                "train does not determine the number of users and items; give it as a matrix "
                "[users, items].",
                setting="train",
            )
        users = Vocabulary.from_size("user", num_users or shape[0])
        items = Vocabulary.from_size("item", num_items or shape[1])
        codes = table.encode(users, items)
        return cls(Interactions.from_codes(*codes, table.values, users.size, items.size))

    def select_users(self, users: NDArray[np.int64]) -> Train:
        """Return train with the rows of some users, in their order."""
        return Train(self.interactions.select_users(users), self._totals)

    def equals(self, other: Train) -> bool:
        """True if both have the same interactions."""
        mine, others = self.interactions, other.interactions
        return np.array_equal(mine.users, others.users) and np.array_equal(mine.items, others.items)

    @cached_property
    def on_device(self) -> RowLookup:
        """The interactions for lookups on any device."""
        return RowLookup(self.interactions)

    @cached_property
    def users_of_items(self) -> RowLookup:
        """The users of each item, for lookups on any device."""
        rows = self.interactions
        return RowLookup(
            Interactions.from_codes(
                rows.items, rows.users, rows.values, self.num_items, rows.num_users
            )
        )

    @property
    def is_partial(self) -> bool:
        """True if these are the interactions of a partition of the users."""
        return self._totals is not None

    def fingerprint(self) -> str:
        """Return a short digest of the interactions."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        return self.interactions.fingerprint()

    @property
    def num_interactions(self) -> int:
        """T, the number of interactions."""
        if self._totals is None:
            return len(self.interactions.items)
        return int(self.item_counts.sum())

    @cached_property
    def num_users(self) -> int:
        """The number of users with an interaction."""
        if self._totals is None:
            return int(np.count_nonzero(np.diff(self.interactions.offsets)))
        return self._totals.num_users

    @cached_property
    def item_counts(self) -> NDArray[np.int64]:
        """n_i, the number of interactions with each item, `[items]`."""
        if self._totals is None:
            return np.bincount(self.interactions.items, minlength=self.num_items)
        return self._totals.item_counts

    @cached_property
    def _num_items_by_count(self) -> NDArray[np.int64]:
        """The number of items with n interactions, by n; far fewer numbers than items."""
        return np.bincount(self.item_counts)

    @property
    def num_cold_items(self) -> int:
        """The number of items without an interaction."""
        return int(self._num_items_by_count[:1].sum())

    @cached_property
    def popularity(self) -> DeviceColumn:
        """n_i as a column for lookups on any device."""
        return DeviceColumn(torch.as_tensor(self.item_counts, dtype=torch.float64))

    def by_count(self, function: Callable[[Tensor], Tensor]) -> DeviceColumn:
        """Return an elementwise function of n_i for each item, `[items]`.

        It is computed for each number of interactions, of which there are far fewer than items."""
        values = function(torch.arange(len(self._num_items_by_count), dtype=torch.float64))
        return DeviceColumn(values.index_select(0, torch.as_tensor(self.item_counts)))

    @cached_property
    def is_warm(self) -> DeviceColumn:
        """1 for items with an interaction, 0 for others."""
        return self.by_count(lambda counts: (counts > 0).double())

    @cached_property
    def popularity_bins(self) -> PopularityBins:
        """The items in bins, each twice as wide as the one before."""
        num_items = self._num_items_by_count
        counts = np.arange(len(num_items))
        bin_of_count = np.frexp(counts)[1].astype(np.int64)  # the number of binary digits
        starts = np.flatnonzero(np.diff(bin_of_count, prepend=-1))
        bins = DeviceColumn(torch.as_tensor(bin_of_count.take(self.item_counts)))
        first = np.arange(len(starts), dtype=np.int64)
        return PopularityBins(
            bins,
            (1 << first) // 2,
            (1 << first) - 1,
            np.add.reduceat(num_items, starts),
            np.add.reduceat(num_items * counts, starts),
        )

    def popularity_with_default(self, unseen: float) -> DeviceColumn:
        """Return n_i with `unseen` for items without an interaction."""
        if unseen == 0:
            return self.popularity
        if unseen not in self._popularity:
            counts = self.popularity.values
            self._popularity[unseen] = DeviceColumn(torch.where(counts == 0, unseen, counts))
        return self._popularity[unseen]

    def long_tail(self, pop_ratio: float) -> DeviceColumn:
        """Return 1 for items of the long tail, 0 for items of the short head, `[items]`.

        The head is the shortest prefix of items, by descending popularity (ties: lower code first),
        that has `pop_ratio` of all interactions.
        """
        key = ("interactions", pop_ratio)
        if key not in self._tails:
            is_tail = self._is_tail((pop_ratio - 1e-9) * self.num_interactions)
            self._tails[key] = DeviceColumn(torch.from_numpy(is_tail.astype(np.float64)))
        return self._tails[key]

    def least_popular(self, tail_ratio: float) -> DeviceColumn:
        """Return 1 for the least popular items, 0 for others, `[items]`.

        They are the last `tail_ratio` of all items, rounded down, but at least one, by descending
        popularity (ties: lower code first).
        """
        key = ("items", tail_ratio)
        if key not in self._tails:
            order = np.argsort(-self.item_counts, kind="stable")
            is_tail = np.zeros(self.num_items)
            is_tail[order[-max(1, int(tail_ratio * self.num_items + 1e-9)) :]] = 1
            self._tails[key] = DeviceColumn(torch.from_numpy(is_tail))
        return self._tails[key]

    @cached_property
    def popularity_quantiles(self) -> DeviceColumn:
        """The rank of each item by popularity among those with an interaction, over their number.

        The least popular items come first; equally popular ones have their mean rank. 0 without an
        interaction."""
        num_items = self._num_items_by_count.astype(np.float64)
        num_items[:1] = 0
        ranks = np.cumsum(num_items) - (num_items - 1) / 2
        ranks[:1] = 0
        quantiles = (ranks / max(1.0, num_items.sum())).take(self.item_counts)
        return DeviceColumn(torch.from_numpy(quantiles))

    @cached_property
    def profile_popularity(self) -> DeviceColumn:
        """The mean popularity of the items of each user, NaN without an interaction, `[users]`."""
        rows, means = self.interactions, np.full(self.interactions.num_users, np.nan)
        for start in range(0, rows.num_users, _TILE_USERS):
            tile = rows.slice_users(start, min(start + _TILE_USERS, rows.num_users))
            lengths = np.diff(tile.offsets)
            owners = np.repeat(np.arange(tile.num_users), lengths)
            counts = self.item_counts.take(tile.items)
            sums = np.bincount(owners, weights=counts, minlength=tile.num_users)
            has_items = lengths > 0
            means[start : start + tile.num_users][has_items] = (sums / lengths.clip(1))[has_items]
        return DeviceColumn(torch.from_numpy(means))

    def _is_tail(self, target: float) -> NDArray[np.bool_]:
        """Return a mask of items after the shortest prefix with `target` interactions."""
        if not self.num_interactions:
            return np.ones(self.num_items, dtype=np.bool_)
        # No sorting: items with n interactions come after all items with more.
        counts = np.arange(len(self._num_items_by_count))
        cumulative = np.cumsum((self._num_items_by_count * counts)[::-1])
        place = int(np.searchsorted(cumulative, target))
        last_count = len(cumulative) - 1 - place  # interactions of the last item of the head
        before = int(cumulative[place - 1]) if place else 0
        is_tail = self.item_counts < last_count
        tied = np.flatnonzero(self.item_counts == last_count)
        is_tail[tied[max(1, math.ceil((target - before) / last_count)) :]] = True
        return is_tail

    def count_by_label(self, groups: Labels, clusters: Labels) -> NDArray[np.int64]:
        """Return the interactions of user groups with item clusters, `[groups * clusters]`."""
        if self._totals is not None and self._totals.by_label is not None:
            return self._totals.by_label
        if (groups, clusters) not in self._by_label:
            self._by_label[groups, clusters] = self._count_by_label(groups, clusters)
        return self._by_label[groups, clusters]

    def _count_by_label(self, groups: Labels, clusters: Labels) -> NDArray[np.int64]:
        num_users = self.interactions.num_users
        width = len(clusters.names) + 1  # one more group and cluster for missing labels
        group = (groups.codes.values.numpy()[:num_users] + 1) * width
        cluster = clusters.codes.values.numpy() + 1
        counts = np.zeros((len(groups.names) + 1) * width, dtype=np.int64)
        for start in range(0, num_users, _TILE_USERS):
            tile = self.interactions.slice_users(start, min(start + _TILE_USERS, num_users))
            pairs = np.repeat(group[start : start + tile.num_users], np.diff(tile.offsets))
            counts += np.bincount(pairs + cluster.take(tile.items), minlength=len(counts))
        return counts.reshape(-1, width)[1:, 1:].reshape(-1)


NO_TRAIN = Train(
    Interactions(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0), 0)
)


def check_ratio(name: str, ratio: object) -> float:
    """Return the share of a head or tail; raise unless it is above 0 and at most 1."""
    number = float(check_float(name, ratio, more=" above 0 and at most 1"))
    if not 0 < number <= 1:
        raise SettingError(
            f"{setting_ref(name, ratio)}; it must be a number above 0 and at most 1."
        )
    return number


def check_unseen(unseen: object) -> float:
    """Return the count of items without interactions; raise unless it is at least 0."""
    number = check_float("unseen", unseen, more=" of at least 0")
    if number < 0:
        raise SettingError(f"{setting_ref('unseen', unseen)}; it must be a number of at least 0.")
    return number
