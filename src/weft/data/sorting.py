"""Sorting of many lists at once, by item and by merit, in tiles that fit the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft._native import call, is_built
from weft.data.team import num_sharing, share_loop

Numbers = NDArray[np.int64]
TILE_ENTRIES = 1 << 16
_MAX_NATIVE_LISTS = 1 << 31
_MIN_THREAD_LISTS = 1 << 12


@dataclass(frozen=True)
class SortedLists:
    """Some lists, sorted in two ways. Entries are numbered from the first list of the tile.

    `keys [n]`: indices in a flattened `[lists, items]` matrix, ascending; `by_item [n]`: their
    entries; `order [n]`: the entries of each list, best first (None: in their given order)."""

    keys: Numbers
    by_item: Numbers
    order: Numbers | None

    def find_repeated(self) -> Numbers:
        """Return the entries with an item that an earlier entry of their list has."""
        return np.compress(self.keys[1:] == self.keys[:-1], self.by_item[1:])

    def find_worse(self) -> Numbers:
        """Return the entries with an item that a better entry of their list has."""
        positions = np.arange(len(self.keys))  # of each entry, in the lists best first
        if self.order is not None:
            positions[self.order] = np.arange(len(self.order))
        order = np.lexsort((positions[self.by_item], self.keys))
        return np.compress(self.keys[1:] == self.keys[:-1], self.by_item[order][1:])

    def find_tied(self, merit: NDArray[np.float64], offsets: Numbers) -> Numbers:
        """Return the entries with the merit of the previous entry of their list."""
        order = np.arange(len(merit)) if self.order is None else self.order
        is_tied = np.zeros(len(merit), dtype=np.bool_)
        np.equal(merit[order[1:]], merit[order[:-1]], out=is_tied[1:])
        is_tied[_first_entries(offsets)] = False
        return order[is_tied]


def sort_lists(
    items: NDArray[Any], merit: NDArray[np.float64] | None, *, offsets: Numbers, num_items: int
) -> SortedLists:
    """Sort lists by item, and by merit: highest first, equal ones by item.

    Without merit a list keeps its order."""
    keys, entries = sort_by_item(items, offsets, num_items=num_items)
    if merit is None or _is_sorted(merit, items, offsets):
        return SortedLists(keys, entries, None)
    return SortedLists(keys, entries, entries[_sort_descending(merit[entries], offsets)])


def are_sorted(
    items: NDArray[Any],
    merit: NDArray[np.float64] | None,
    *,
    offsets: Numbers,
    num_items: int,
    are_distinct: bool,
) -> bool:
    """Return True if the native check finds that lists are best first and repeat no item.

    Lists of most files are, so that they need no sorting. With `are_distinct`, entries of a list
    with the same merit are not in order."""
    num_lists = len(offsets) - 1
    if not is_built() or items.dtype != np.int32 or num_lists >= _MAX_NATIVE_LISTS:
        return False
    step = max(_MIN_THREAD_LISTS, -(-num_lists // num_sharing()))
    answers = []

    def check(first: int) -> None:
        part = offsets[first : first + step + 1]
        lists = (part, len(part) - 1, items, merit, num_items, int(are_distinct))
        answers.append(call("lists_are_in_order", *lists))

    share_loop(check, range(0, num_lists, step))
    return all(answers)


def sort_by_item(
    items: NDArray[Any], offsets: Numbers, *, num_items: int
) -> tuple[Numbers, Numbers]:
    """Return ascending indices in a flattened `[lists, items]` matrix, and the entries at these."""
    length, numbers = repeat_counts(offsets), np.arange(len(offsets) - 1)
    bits = length.bit_length() if isinstance(length, int) else 0
    if isinstance(length, int) and length and num_items.bit_length() + bits < 32:
        # Lists of one length, the usual case, are the rows of a matrix: short rows of 32 bits are
        # sorted several times as fast.
        packed = items.reshape(-1, length).astype(np.int32) << bits
        packed |= np.arange(length, dtype=np.int32)
        packed.sort(axis=1)
        keys = (packed >> bits) + numbers[:, None] * num_items
        entries = (packed & ((1 << bits) - 1)) + numbers[:, None] * length
        return keys.reshape(-1), entries.reshape(-1)
    return sort_keys(np.repeat(numbers, length) * num_items + items, len(numbers) * num_items)


def repeat_counts(offsets: Numbers) -> Numbers | int:
    """Return the list lengths for `np.repeat`; one number, which is faster, if all are equal."""
    lengths = np.diff(offsets)
    return int(lengths[0]) if len(lengths) and (lengths == lengths[0]).all() else lengths


def tile_lists(offsets: Numbers) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, last) of lists with about `TILE_ENTRIES` entries, at least one list."""
    first, num_lists = 0, len(offsets) - 1
    while first < num_lists:
        end = offsets[first] + TILE_ENTRIES
        last = max(first + 1, int(np.searchsorted(offsets, end, side="right")) - 1)
        yield first, last
        first = last


def sort_keys(keys: Numbers, limit: int) -> tuple[Numbers, Numbers]:
    """Return keys (from 0, below `limit`) in ascending order, and the order, which is stable."""
    bits = len(keys).bit_length()
    if limit.bit_length() + bits < 64:
        # With the number of each key in its low bits, a plain sort is several times faster than
        # an argsort.
        packed = keys << bits
        packed |= np.arange(len(keys))
        packed.sort()
        return packed >> bits, packed & ((1 << bits) - 1)
    order = np.argsort(keys, kind="stable")
    return keys[order], order


def _first_entries(offsets: Numbers) -> Numbers:
    """Return the first entry of each list that is not empty."""
    return offsets[:-1][np.diff(offsets) > 0]


def _is_sorted(merit: NDArray[np.float64], items: Numbers, offsets: Numbers) -> bool:
    is_lower = np.ones(len(merit), dtype=np.bool_)
    np.less(merit[1:], merit[:-1], out=is_lower[1:])
    is_lower[_first_entries(offsets)] = True
    left = np.flatnonzero(~is_lower)
    return bool(((merit[left] == merit[left - 1]) & (items[left] > items[left - 1])).all())


def _sort_descending(values: NDArray[np.float64], offsets: Numbers) -> Numbers:
    """Return the stable order that sorts the values of each list, highest first.

    Lists of similar length are sorted at once, so that a long one does not widen the others."""
    lengths = np.diff(offsets)
    order = np.arange(len(values))
    exponents = np.frexp(lengths.astype(np.float64))[1]
    for exponent in np.unique(exponents[lengths > 1]):
        lists = np.flatnonzero((exponents == exponent) & (lengths > 1))
        positions = np.arange(lengths[lists].max())
        entries = offsets[lists][:, None] + positions
        is_entry = positions < lengths[lists][:, None]
        if not is_entry.all():
            entries[~is_entry] = 0
        negated = -values[entries]
        negated[~is_entry] = np.inf  # after all entries
        # Not stable, and much faster: rows in which that matters are sorted again.
        columns = np.argsort(negated, axis=1)
        sorted_values = np.take_along_axis(negated, columns, 1)
        is_equal = sorted_values[:, 1:] == sorted_values[:, :-1]
        is_unstable = (is_equal & (columns[:, 1:] < columns[:, :-1])).any(1)
        if is_unstable.any():
            columns[is_unstable] = np.argsort(negated[is_unstable], axis=1, kind="stable")
        order[entries[is_entry]] = np.take_along_axis(entries, columns, 1)[is_entry]
    return order
