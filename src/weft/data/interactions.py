"""Interactions by code, as compressed sparse rows, and as they are read, under the caller's ids."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft._native import call, is_built
from weft.data.sorting import sort_keys
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError, agree, setting_ref

if TYPE_CHECKING:
    import polars as pl

    from weft.data.readers.files import FileTable

MAX_EXAMPLES = 5  # rows shown in a message
_TILE_USERS = 1 << 14  # compared at once, to save memory
_TILE_ROWS = 1 << 15  # hashed at once, in the cache of a core


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
        if is_built():
            return cls(*_sort_natively(users, items, values, num_users), num_items)
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
        numbers = np.arange(len(self.offsets) - 1, dtype=np.int64)
        return np.repeat(numbers, np.diff(self.offsets))

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

    def count_common(self, other: Interactions) -> int:
        """Return how many interactions `other`, with the same or more users, has too."""
        if is_built():
            rows = (self.offsets, self.items, other.offsets, other.items)
            return call("count_common", *map(np.ascontiguousarray, rows), self.num_users)
        common = 0
        for start in range(0, self.num_users, _TILE_USERS):
            stop = min(start + _TILE_USERS, self.num_users)
            keys = self.slice_users(start, stop).flat_keys
            others = other.slice_users(start, stop).flat_keys
            places = np.searchsorted(others, keys)
            is_inside = places < len(others)
            common += int((others[places[is_inside]] == keys[is_inside]).sum())
        return common

    def fingerprint(self) -> str:
        """Return a short digest of the codes and values."""
        items = self.items.astype(np.int32) if self.num_items < 1 << 31 else self.items
        is_constant = (self.values == self.values[:1]).all()  # mostly all values are 1
        return digest(self.offsets, items, self.values[:1] if is_constant else self.values)


def _sort_natively(
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    values: NDArray[np.float64],
    num_users: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return offsets, items and values of interactions, sorted by user and item."""
    users, items = (np.ascontiguousarray(codes, dtype=np.int64) for codes in (users, items))
    values = np.ascontiguousarray(values, dtype=np.float64)
    offsets = np.zeros(num_users + 1, dtype=np.int64)
    is_sorted = call("count_by_user", users, items, len(users), num_users, offsets)
    assert is_sorted >= 0, "a user is not in the vocabulary"
    if is_sorted:
        # Writable, because torch shares the memory and requires it.
        return offsets, np.require(items, requirements="W"), np.require(values, requirements="W")
    rows = (users, items, values, len(users), num_users)
    items, values = np.empty_like(items), np.empty_like(values)
    call("sort_by_user", *rows, offsets[:-1].copy(), items, values)
    return offsets, items, values


def digest(*arrays: NDArray[Any], about: object = "") -> str:
    """Return a short digest of arrays, and of the text of `about`."""
    # SHA-256, for which processors have instructions.
    sha = hashlib.sha256(repr(about).encode() if about else b"")
    for array in arrays:
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()[:16]


def hash_sums_by_id(
    interactions: Interactions, users: Vocabulary, items: Vocabulary
) -> NDArray[np.uint64]:
    """Return sums of hashes of interactions by id, `[3]`: independent of codes, and they add up."""
    lengths = np.diff(interactions.offsets)
    user_keys = users.hash_keys_of(np.flatnonzero(lengths))
    user_keys = np.repeat(user_keys[: len(lengths)], lengths)
    codes = interactions.items[interactions.items >= 0]  # without empty positions of lists
    item_keys = np.append(items.hash_keys_of(codes), np.arange(-4, 0))  # which are their own keys
    sums = np.zeros(3, dtype=np.uint64)
    for start in range(0, len(user_keys), _TILE_ROWS):
        tile = slice(start, start + _TILE_ROWS)
        values = interactions.values[tile].astype(np.float64).view(np.int64)
        hashes = hash_rows(user_keys[tile], item_keys[interactions.items[tile]], values)
        sums += sum_hashes(hashes)
    return sums


def sum_hashes(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return sums of hashes of rows, `[3]`, which add up and do not depend on their order."""
    # Squares detect values that are exchanged between rows.
    return np.array([len(hashes), hashes.sum(), np.dot(hashes, hashes)], dtype=np.uint64)


def digest_sums(sums: NDArray[np.uint64]) -> str:
    """Return the digest of sums of hashes."""
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


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InteractionTable:
    """Interactions, one per row.

    `users` and `items` are ids, or row and column numbers of a matrix of size `shape`. `value_name`
    is "rating", "score", "rank", or empty if the values mean nothing. `num_rows` is given for
    numbers of rows and items if the number of columns is not known: see `with_columns`.
    """

    where: str  # the data in messages
    users: pl.Series
    items: pl.Series
    values: NDArray[np.float64]
    shape: tuple[int, int] | None = None
    all_users: pl.Series | None = None  # users with or without rows; None: the users of the rows
    value_name: str = "rating"
    table: FileTable | None = None  # the file that the rows are from
    row_numbers: NDArray[np.int64] | None = None  # numbers of the rows in the input; None: all
    num_rows: int | None = None
    times: pl.Series | None = None  # timestamps of the rows, as they are, if they were read

    @property
    def named_users(self) -> pl.Series:
        """The users of the rows, with repetitions, and the users without rows."""
        return self.users if self.all_users is None else self.all_users

    def check_finite(self) -> None:
        """Raise `InputError` with the first rows that have no finite value."""
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(self.values.sum()):  # without a temporary array
                return
        is_invalid = ~np.isfinite(self.values)
        if is_invalid.any():
            raise InputError(
                f"{self.where} has {self.value_name}s that are not finite numbers:\n"
                f"{self.format_rows(is_invalid)}\nRemove or repair these rows."
            )

    def format_rows(self, mask: NDArray[np.bool_]) -> str:
        """Return the first rows of a mask for a message, one per line."""
        rows = np.flatnonzero(mask)
        shown = rows[:MAX_EXAMPLES].tolist()
        numbers = shown if self.row_numbers is None else self.row_numbers[shown].tolist()
        if self.table is None:
            locations = [f"row {number}" for number in numbers]
        else:
            locations = self.table.locate_rows(numbers)
        lines = [
            f"  {location}: user {self.users[int(row)]!r}, item {self.items[int(row)]!r}"
            + (f", {self.value_name} {self.values[row]:g}" if self.value_name else "")
            for location, row in zip(locations, shown)
        ]
        if len(rows) > MAX_EXAMPLES:
            lines.append(f"  ... {len(rows):,} rows in all")
        return "\n".join(lines)

    def format_all(self) -> str:
        """Return the first rows for a message, one per line."""
        return self.format_rows(np.ones(len(self.values), dtype=np.bool_))

    def filter(self, mask: NDArray[np.bool_]) -> InteractionTable:
        """Return the rows of a mask, with their numbers and with all users."""
        rows = np.flatnonzero(mask)
        return replace(
            self,
            users=self.users.filter(mask),
            items=self.items.filter(mask),
            values=self.values[rows],
            all_users=self.users.unique() if self.all_users is None else self.all_users,
            row_numbers=rows if self.row_numbers is None else self.row_numbers[rows],
            times=None if self.times is None else self.times.filter(mask),
        )

    def without_values(self) -> InteractionTable:
        """Return the table with the value 1 for each row."""
        return replace(self, values=np.ones(len(self.values)), value_name="")

    def with_columns(self, number: int) -> InteractionTable:
        """Return item numbers as a matrix of a number of columns; other tables as they are.

        Raises `InputError` for an item that is no column."""
        if self.num_rows is None:
            return self
        outside = self.items.to_numpy() >= number
        if outside.any():
            raise InputError(
                f"{self.where} has item numbers that are not columns of the scores or of "
                f"{setting_ref('items')}, 0 to {number - 1}:\n{self.format_rows(outside)}\nGive "
                "column numbers, with -1 or -100 for none, or give the ids of users and items as "
                "a frame."
            )
        return replace(self, shape=(self.num_rows, number))

    def with_ids(self, items: Vocabulary) -> InteractionTable:
        """Return a matrix under ids: its row numbers, and the item of each column."""
        import polars as pl

        if self.shape is None:
            return self
        if self.shape[1] != items.size:
            raise InputError(
                f"{self.where} is a matrix with {agree(self.shape[1], '{n} column{s}')} for "
                f"{agree(items.size, '{n} item{s}')}; expected one column for each item."
            )
        all_users = pl.int_range(self.shape[0], dtype=pl.Int64, eager=True)
        ids = items.ids.gather(self.items)
        return replace(self, items=ids, shape=None, num_rows=None, all_users=all_users)

    def encode(
        self, users: Vocabulary, items: Vocabulary
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return user codes (-1 for unknown users) and item codes; raise for unknown items."""
        if self.shape is not None:
            if self.num_rows not in (None, users.size):
                raise InputError(
                    f"{self.where} has {agree(self.num_rows, '{n} item number{s}')}, but "
                    f"{agree(users.size, 'there {are} {n} user{s}')}; give one for each, in the "
                    "order of the scores, -1 or -100 for none."
                )
            if self.shape != (users.size, items.size):
                raise InputError(
                    f"{self.where} is a matrix of shape {list(self.shape)} for "
                    f"{agree(users.size, '{n} user{s}')} and {agree(items.size, '{n} item{s}')}; "
                    f"expected shape [{users.size}, {items.size}], in the order of the scores."
                )
            return self.users.to_numpy(), self.items.to_numpy()
        item_codes = self.encode_items(items)
        user_codes = users.encode(self.users, self.where)
        if users.is_positional and (user_codes < 0).any():
            raise InputError(
                f"{self.where} has users that are not rows of the scores{_describe_range(users)}:\n"
                f"{self.format_rows(user_codes < 0)}\n"
                f"{_describe_start(self.users, users)}Give the ids of the rows of the scores with "
                f"{setting_ref('users')}."
            )
        return user_codes, item_codes

    def encode_items(
        self, items: Vocabulary, *, dtype: type[np.signedinteger[Any]] = np.int64, remedy: str = ""
    ) -> NDArray[Any]:
        """Return the code of each item; raise `InputError`, with a remedy, for unknown items."""
        codes = items.encode(self.items, self.where, dtype=dtype)
        if len(codes) and codes.min() < 0:
            raise InputError(
                f"{self.where} has items that are not in the catalogue of {items.size} items"
                f"{_describe_range(items)}:\n{self.format_rows(codes < 0)}\n"
                f"{_describe_start(self.items, items)}Remove these rows, or give the whole "
                f"catalogue with {setting_ref('items')}.{remedy}"
            )
        return codes


def build_unique(
    table: InteractionTable,
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    size: tuple[int, int],
) -> Interactions:
    """Return encoded interactions; raise `InputError` with rows that repeat a user and item.

    `users` and `items` are the codes of the rows; `size` is (number of users, number of items).
    """
    interactions = Interactions.from_codes(users, items, table.values, *size)
    is_duplicate = interactions.find_duplicates()
    if is_duplicate.any():
        keys = users * size[1] + items
        is_first = np.zeros(len(keys), dtype=np.bool_)
        is_first[np.unique(keys, return_index=True)[1]] = True
        repeated = agree(int(is_duplicate.sum()), "{n} repeated (user, item) row{s}")
        raise InputError(
            f"{table.where} has {repeated}:\n{table.format_rows(~is_first)}\n"
            "Each item may occur once per user; aggregate or drop the repetitions."
        )
    return interactions


def _describe_range(vocabulary: Vocabulary) -> str:
    if not vocabulary.is_positional:
        return ""
    axis = "row" if vocabulary.kind == "user" else "column"
    return f" ({axis} numbers 0 to {vocabulary.size - 1})"


def _describe_start(ids: pl.Series, positions: Vocabulary) -> str:
    """Return a hint, for ids that are no positions, that they count from 1 if they seem to."""
    if not positions.is_positional or ids.min() != 1 or ids.max() != positions.size:
        return ""
    return f"The {positions.kind} ids are 1 to {positions.size}: they start at 1, not at 0. "
