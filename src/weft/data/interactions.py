"""Interactions by code, as compressed sparse rows."""

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
    """The interactions of `num_users` users with `num_items` items, by code.

    offsets `[num_users + 1]`; items `[n]`, ascending for each user; values `[n]`, ratings or 1.
    """

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
        """Return interactions `[n]` in any order, sorted by user and item; they may repeat."""
        keys = users * num_items
        keys += items
        if np.any(keys[1:] < keys[:-1]):
            if np.any(users[1:] < users[:-1]):
                order = sort_keys(keys, num_users * num_items)[1]
            else:  # most data come user by user: a sort that uses existing order is faster
                order = np.argsort(keys, kind="stable")
            users, items, values = users[order], items[order], values[order]
        offsets = np.zeros(num_users + 1, dtype=np.int64)
        np.cumsum(np.bincount(users, minlength=num_users), out=offsets[1:])
        # Writable, because torch shares the memory and requires it.
        items = np.require(items, requirements="W")
        return cls(offsets, items, np.require(values, requirements="W"), num_items)

    @property
    def num_users(self) -> int:
        """The number of users."""
        return len(self.offsets) - 1

    @property
    def users(self) -> NDArray[np.int64]:
        """The user of each interaction, `[n]`."""
        return np.repeat(np.arange(self.num_users, dtype=np.int64), np.diff(self.offsets))

    @property
    def flat_keys(self) -> NDArray[np.int64]:
        """The ascending index of each interaction in a flattened `[users, items]` matrix, `[n]`."""
        return self.users * self.num_items + self.items

    def find_duplicates(self) -> NDArray[np.bool_]:
        """Return a mask `[n]` of interactions that repeat the one before."""
        is_duplicate = np.zeros(len(self.items), dtype=np.bool_)
        np.equal(self.items[1:], self.items[:-1], out=is_duplicate[1:])
        first = self.offsets[:-1]
        is_duplicate[first[first < len(is_duplicate)]] = False
        return is_duplicate

    def filter(self, mask: NDArray[np.bool_]) -> Interactions:
        """Return the interactions of a mask `[n]`; all users stay."""
        if mask.all():
            return self
        return Interactions.from_codes(
            self.users[mask], self.items[mask], self.values[mask], self.num_users, self.num_items
        )

    def filter_relevant(self, threshold: float | None) -> Interactions:
        """Return interactions with `value >= threshold`; without a threshold, `value > 0`."""
        return self.filter(self.values > 0 if threshold is None else self.values >= threshold)

    def slice_users(self, start: int, stop: int) -> Interactions:
        """Return the interactions of users `start` to `stop - 1`, without copying."""
        first, last = self.offsets[start], self.offsets[stop]
        offsets = self.offsets[start : stop + 1] - first
        return Interactions(
            offsets, self.items[first:last], self.values[first:last], self.num_items
        )

    def select_users(self, users: NDArray[np.int64]) -> Interactions:
        """Return the interactions of some users, in their order."""
        lengths = np.diff(self.offsets)[users]
        offsets = np.zeros(len(users) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[users] - offsets[:-1], lengths)
        return Interactions(offsets, self.items[rows], self.values[rows], self.num_items)

    def fingerprint(self) -> str:
        """Return a short digest of the codes and values."""
        items = self.items.astype(np.int32) if self.num_items < 1 << 31 else self.items
        is_constant = (self.values == self.values[:1]).all()  # mostly all values are 1
        return digest(self.offsets, items, self.values[:1] if is_constant else self.values)


def digest(*arrays: NDArray[Any], about: object = "") -> str:
    """Return a short digest of arrays, and of the text of `about`."""
    # SHA-256, for which processors have instructions.
    sha = hashlib.sha256(repr(about).encode() if about else b"")
    for array in arrays:
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()[:16]


def digest_by_id(interactions: Interactions, users: Vocabulary, items: Vocabulary) -> str:
    """Return a short digest of interactions by id, which does not depend on their codes."""
    return digest_sums(hash_sums_by_id(interactions, users, items))


def hash_sums_by_id(
    interactions: Interactions, users: Vocabulary, items: Vocabulary
) -> NDArray[np.uint64]:
    """Return sums of hashes of interactions by id, `[3]`; those of several partitions add up."""
    hashes = hash_rows(
        users.hash_keys_of(interactions.users),
        items.hash_keys_of(interactions.items),
        interactions.values.astype(np.float64).view(np.int64),
    )
    # Sums do not depend on the order. Squares detect values that are exchanged between rows.
    return np.array(
        [len(hashes), hashes.sum(dtype=np.uint64), (hashes * hashes).sum(dtype=np.uint64)],
        dtype=np.uint64,
    )


def digest_sums(sums: NDArray[np.uint64]) -> str:
    """Return the digest of `hash_sums_by_id`."""
    return hashlib.sha256(sums.tobytes()).hexdigest()[:16]


def hash_rows(*columns: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a hash of the numbers of each row, computed in place to save memory, `[n]`."""
    hashes = np.full(len(columns[0]), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in columns:
        hashes ^= column.view(np.uint64)
        hashes *= np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(29)
    hashes *= np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(32)
    return hashes
