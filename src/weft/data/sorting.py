"""Sorting many lists at once, by item and by merit: in portions that stay in the processor's cache,
never list by list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
# Cells of one portion.
TILE = 1 << 16


@dataclass(frozen=True)
class Portion:
    """Some lists, sorted in two ways. Cells are numbered from the first of the portion.

    `keys [cells]` are places in a flattened `[lists, items]` matrix, ascending, `by_item` the cells
    there; `order [cells]` are the cells of each list, best first (None: as they stand)."""

    keys: Numbers
    by_item: Numbers
    order: Numbers | None

    def repeated(self) -> Numbers:
        """The cells that hold an item which stands in their list already."""
        return np.compress(self.keys[1:] == self.keys[:-1], self.by_item[1:])

    def worse(self) -> Numbers:
        """The cells that hold an item which stands further up in their list."""
        standing = np.arange(len(self.keys))  # of each cell, once the lists are best first
        if self.order is not None:
            standing[self.order] = np.arange(len(self.order))
        order = np.lexsort((standing[self.by_item], self.keys))
        return np.compress(self.keys[1:] == self.keys[:-1], self.by_item[order][1:])

    def tied(self, merit: NDArray[np.float64], offsets: Numbers) -> Numbers:
        """The cells that have the merit of the one before them in their list."""
        order = np.arange(len(merit)) if self.order is None else self.order
        same = np.zeros(len(merit), dtype=np.bool_)
        np.equal(merit[order[1:]], merit[order[:-1]], out=same[1:])
        same[_starts(offsets)] = False
        return order[same]


def sort_lists(
    items: NDArray[Any], merit: NDArray[np.float64] | None, offsets: Numbers, num_items: int
) -> Portion:
    """Lists by item, and by merit: the highest first, equal ones by item. Without merit a list
    keeps its order.
    """
    keys, cells = by_item(items, offsets, num_items)
    if merit is None or _is_falling(merit, items, offsets):
        return Portion(keys, cells, None)
    return Portion(keys, cells, cells[_falling(merit[cells], offsets)])


def by_item(items: NDArray[Any], offsets: Numbers, num_items: int) -> tuple[Numbers, Numbers]:
    """Places in a flattened `[lists, items]` matrix, ascending, and the cells there."""
    length, numbers = repetitions(offsets), np.arange(len(offsets) - 1)
    if (
        isinstance(length, int)
        and length
        and num_items.bit_length() + (bits := length.bit_length()) < 32
    ):
        # Lists of one length, as most are, are the rows of a matrix: short rows of 32 bits are
        # sorted several times as fast.
        packed = items.reshape(-1, length).astype(np.int32) << bits
        packed |= np.arange(length, dtype=np.int32)
        packed.sort(axis=1)
        keys = (packed >> bits) + numbers[:, None] * num_items
        cells = (packed & ((1 << bits) - 1)) + numbers[:, None] * length
        return keys.reshape(-1), cells.reshape(-1)
    return sorted_keys(np.repeat(numbers, length) * num_items + items, len(numbers) * num_items)


def repetitions(offsets: Numbers) -> Numbers | int:
    """How often to repeat what belongs to each list; one number, which is faster, where all are of
    one length.
    """
    lengths = np.diff(offsets)
    return int(lengths[0]) if len(lengths) and (lengths == lengths[0]).all() else lengths


def portions(offsets: Numbers) -> Iterator[tuple[int, int]]:
    """Lists in portions of about `TILE` cells, from where to where; a longer list is a portion of
    its own.
    """
    first, lists = 0, len(offsets) - 1
    while first < lists:
        last = max(
            first + 1, int(np.searchsorted(offsets, offsets[first] + TILE, side="right")) - 1
        )
        yield first, last
        first = last


def together(owners: Numbers, starts: Numbers, lengths: Numbers, limit: int) -> Numbers:
    """Rows in the order of their owners, from stretches of rows of one owner (from 0 below `limit`)
    each.
    """
    order = sorted_keys(owners, limit)[1]
    starts, lengths = starts[order], lengths[order]
    ends = np.cumsum(lengths)
    rows: Numbers = np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)
    return rows


def sorted_keys(keys: Numbers, limit: int) -> tuple[Numbers, Numbers]:
    """Keys from 0 below `limit` in ascending order, and which they are; equal ones in the order
    given.
    """
    bits = len(keys).bit_length()
    if limit.bit_length() + bits < 64:
        # The number of each key rides along below it: plain sorting is several times faster than
        # finding an order.
        packed = keys << bits
        packed |= np.arange(len(keys))
        packed.sort()
        return packed >> bits, packed & ((1 << bits) - 1)
    order = np.argsort(keys, kind="stable")
    return keys[order], order


def _starts(offsets: Numbers) -> Numbers:
    """The first cell of each list that has one."""
    return offsets[:-1][np.diff(offsets) > 0]


def _is_falling(merit: NDArray[np.float64], items: Numbers, offsets: Numbers) -> bool:
    good = np.ones(len(merit), dtype=np.bool_)
    np.less(merit[1:], merit[:-1], out=good[1:])
    good[_starts(offsets)] = True
    left = np.flatnonzero(~good)
    return bool(((merit[left] == merit[left - 1]) & (items[left] > items[left - 1])).all())


def _falling(values: NDArray[np.float64], offsets: Numbers) -> Numbers:
    """The order that sorts the values of each list, highest first; equal ones stay in order.

    Lists of about one length are sorted together, so that a long one does not make the others wide.
    """
    lengths = np.diff(offsets)
    order = np.arange(len(values))
    classes = np.frexp(lengths.astype(np.float64))[1]
    for kind in np.unique(classes[lengths > 1]):
        chosen = np.flatnonzero((classes == kind) & (lengths > 1))
        places = np.arange(lengths[chosen].max())
        cells = offsets[chosen][:, None] + places
        listed = places < lengths[chosen][:, None]
        if not listed.all():
            cells[~listed] = 0
        low = -values[cells]
        low[~listed] = np.inf  # behind all that is listed
        columns = np.argsort(
            low, axis=1
        )  # not stable, and much faster: lists in which that shows are sorted again
        found = np.take_along_axis(low, columns, 1)
        moved = ((found[:, 1:] == found[:, :-1]) & (columns[:, 1:] < columns[:, :-1])).any(1)
        if moved.any():
            columns[moved] = np.argsort(low[moved], axis=1, kind="stable")
        order[cells[listed]] = np.take_along_axis(cells, columns, 1)[listed]
    return order
