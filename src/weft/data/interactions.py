"""User-item cells as compressed sparse rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data.sorting import sort_keys

if TYPE_CHECKING:
    from weft.data.vocabulary import Vocabulary


@dataclass(frozen=True)
class Interactions:
    """The cells of `num_users` users over `num_items` items, by code.

    offsets `[num_users + 1]`, items `[cells]` ascending within each user, values `[cells]` (a
    rating, or 1)."""

    offsets: NDArray[np.int64]
    items: NDArray[np.int64]
    values: NDArray[np.float64]
    num_items: int

    @classmethod
    def from_codes(
        cls,
        users: NDArray[np.int64],
        items: NDArray[np.int64],
        values: NDArray[np.float64],
        num_users: int,
        num_items: int,
    ) -> Interactions:
        """Sort cells into rows; cells may repeat."""
        keys = users * num_items
        keys += items
        if np.any(keys[1:] < keys[:-1]):
            if np.any(users[1:] < users[:-1]):
                order = sort_keys(keys, num_users * num_items)[1]
            # user by user, as most data come: a sort that goes by what is in order already is
            # faster
            else:
                order = np.argsort(keys, kind="stable")
            users, items, values = users[order], items[order], values[order]
        offsets = np.zeros(num_users + 1, dtype=np.int64)
        np.cumsum(np.bincount(users, minlength=num_users), out=offsets[1:])
        # Writable, because torch shares their memory and wants nothing less.
        return cls(
            offsets,
            np.require(items, requirements="W"),
            np.require(values, requirements="W"),
            num_items,
        )

    @property
    def num_users(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    @property
    def users(self) -> NDArray[np.int64]:
        """The user of each cell."""
        return np.repeat(np.arange(self.num_users, dtype=np.int64), np.diff(self.offsets))

    @property
    def flat_keys(self) -> NDArray[np.int64]:
        """The place of each cell in a flattened `[users, items]` matrix, ascending."""
        return self.users * self.num_items + self.items

    def find_duplicates(self) -> NDArray[np.bool_]:
        """True for each cell that repeats the one before it."""
        same = np.zeros(len(self.items), dtype=np.bool_)
        np.equal(self.items[1:], self.items[:-1], out=same[1:])
        same[self.offsets[:-1][self.offsets[:-1] < len(same)]] = (
            False  # the first of a row repeats nothing
        )
        return same

    def filter(self, cells: NDArray[np.bool_]) -> Interactions:
        """Only the chosen cells; every user stays."""
        if cells.all():
            return self
        return Interactions.from_codes(
            self.users[cells], self.items[cells], self.values[cells], self.num_users, self.num_items
        )

    def filter_relevant(self, threshold: float | None) -> Interactions:
        """The cells that count as relevant: `value >= threshold`, without one `value > 0`."""
        return self.filter(self.values > 0 if threshold is None else self.values >= threshold)

    def slice_users(self, start: int, stop: int) -> Interactions:
        """Users `start` to `stop - 1`, without copying."""
        first, last = self.offsets[start], self.offsets[stop]
        offsets = self.offsets[start : stop + 1] - first
        return Interactions(
            offsets, self.items[first:last], self.values[first:last], self.num_items
        )

    def select_users(self, users: NDArray[np.int64]) -> Interactions:
        """The rows of these users, in their order."""
        lengths = np.diff(self.offsets)[users]
        offsets = np.zeros(len(users) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        cells = np.arange(offsets[-1]) + np.repeat(self.offsets[users] - offsets[:-1], lengths)
        return Interactions(offsets, self.items[cells], self.values[cells], self.num_items)

    def fingerprint(self) -> str:
        """A short digest of the cells."""
        items = self.items.astype(np.int32) if self.num_items < 1 << 31 else self.items
        values = (
            self.values[:1] if (self.values == self.values[:1]).all() else self.values
        )  # mostly all are 1
        return digest(self.offsets, items, values)


def digest(*arrays: NDArray[Any], about: object = "") -> str:
    """A short digest of arrays, and of what is said about them."""
    found = hashlib.sha256(
        repr(about).encode() if about else b""
    )  # which processors have an instruction for
    for array in arrays:
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()[:16]


def digest_by_id(cells: Interactions, users: Vocabulary, items: Vocabulary) -> str:
    """A short digest of the cells by their ids: the same whatever numbers stand for them, as other
    lists bring other catalogues.
    """
    return digest_sums(hash_sums_by_id(cells, users, items))


def hash_sums_by_id(
    cells: Interactions, users: Vocabulary, items: Vocabulary
) -> NDArray[np.uint64]:
    """What such a digest is made of. Those of the cells of other users add up."""
    hashes = mixed(
        users.hash_keys_of(cells.users),
        items.hash_keys_of(cells.items),
        cells.values.astype(np.float64).view(np.int64),
    )
    # Sums do not depend on the order of the cells; that of squares leaves no room for cells that
    # trade places.
    return np.array(
        [len(hashes), hashes.sum(dtype=np.uint64), (hashes * hashes).sum(dtype=np.uint64)],
        dtype=np.uint64,
    )


def digest_sums(sums: NDArray[np.uint64]) -> str:
    """The digest of what was added up."""
    return hashlib.sha256(sums.tobytes()).hexdigest()[:16]


def mixed(*columns: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of the numbers of each row, by multiplication and shifts; in place, because new memory
    costs more.
    """
    mixed = np.full(len(columns[0]), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in columns:
        mixed ^= column.view(np.uint64)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(32)
    return mixed
