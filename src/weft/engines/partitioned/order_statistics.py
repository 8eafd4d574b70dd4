"""Order statistics of numbers that are distributed over partitions.

The k-th smallest number is found by counting in every partition how many numbers are below some
edges, so that only a few numbers are ever collected on the driver.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.data.sorted_values import SortedArray
from weft.engines.partitioned.partitions import Partitions

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
_MAX_COLLECTED = 1 << 20  # numbers that may be collected on the driver
_EDGES_PER_ROUND = 1 << 16  # edges below which partitions count in one round
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


class _Range(NamedTuple):
    """A range that contains one order statistic; both ends belong to it."""

    low: int
    high: int
    num_below: int  # numbers below the range
    num_inside: int

    def narrow(self, position: int, edges: list[int], counts: list[int]) -> _Range:
        """Return the range between two edges that contains the number at `position`.

        `counts[i]` is the number of numbers below `edges[i]`.
        """
        low, high, num_below, num_inside = self
        if low == high:
            return self
        first, last = bisect.bisect_right(edges, low), bisect.bisect_right(edges, high)
        edge = bisect.bisect_right(counts, position, first, last)
        if edge > first:
            num_inside -= counts[edge - 1] - num_below
            low, num_below = edges[edge - 1], counts[edge - 1]
        if edge < last:
            num_inside = counts[edge] - num_below
            high = edges[edge] - 1
        return _Range(low, high, num_below, num_inside)


class PartitionedIntegers:
    """The integers of all partitions in ascending order; `numbers(partition)` returns its own."""

    def __init__(self, partitions: Partitions[Any], numbers: Callable[[Any], Integers]) -> None:
        self._partitions, self._numbers = partitions, numbers
        self.size: int = partitions.map_reduce(partial(_size, numbers=numbers), _total)

    @cached_property
    def _collected(self) -> SortedArray[np.int64] | None:
        """All numbers if there are few, else None."""
        if self.size > _MAX_COLLECTED:
            return None
        return SortedArray(self._collect([(_LOWEST, _HIGHEST)]))

    def select(self, ranks: Integers) -> Integers:
        """Return the numbers at these positions, from 0, of the ascending order."""
        if self._collected is not None:
            return self._collected.select(ranks)
        ranges = [_Range(_LOWEST, _HIGHEST, 0, self.size)] * len(ranks)
        while _needs_narrowing(ranges):
            edges = _choose_edges(ranges)
            counts = self.count_below(np.array(edges, dtype=np.int64)).tolist()
            ranges = [
                current.narrow(int(rank), edges, counts) for rank, current in zip(ranks, ranges)
            ]
        numbers = np.sort(self._collect(sorted({(each.low, each.high) for each in ranges})))
        indices = [
            np.searchsorted(numbers, each.low) + int(rank) - each.num_below
            for rank, each in zip(ranks, ranges)
        ]
        return numbers[np.array(indices, dtype=np.int64)]

    def count_below(self, numbers: Integers) -> Integers:
        """Return how many numbers are below each of `numbers`."""
        if self._collected is not None:
            return self._collected.count_below(numbers)
        return self._count(numbers, "left")

    def count_up_to(self, numbers: Integers) -> Integers:
        """Return how many numbers are at most each of `numbers`."""
        if self._collected is not None:
            return self._collected.count_up_to(numbers)
        return self._count(numbers, "right")

    def _count(self, edges: Integers, side: str) -> Integers:
        count = partial(_count_below_edges, numbers=self._numbers, edges=edges, side=side)
        return self._partitions.map_reduce(count, _sum)

    def _collect(self, ranges: list[tuple[int, int]]) -> Integers:
        select = partial(_select, numbers=self._numbers, ranges=ranges)
        return self._partitions.map_reduce(select, np.concatenate)


class PartitionedFloats:
    """The floats of all partitions in ascending order, compared by integer keys of equal order."""

    def __init__(self, partitions: Partitions[Any], numbers: Callable[[Any], Floats]) -> None:
        self._keys = PartitionedIntegers(partitions, partial(_partition_keys, numbers=numbers))
        self.size = self._keys.size

    def select(self, ranks: Integers) -> Floats:
        """Return the numbers at these positions, from 0, of the ascending order."""
        return from_keys(self._keys.select(ranks))

    def count_below(self, numbers: Floats) -> Integers:
        """Return how many numbers are below each of `numbers`."""
        return self._keys.count_below(to_keys(numbers))

    def count_up_to(self, numbers: Floats) -> Integers:
        """Return how many numbers are at most each of `numbers`."""
        return self._keys.count_up_to(to_keys(numbers))


def to_keys(numbers: Floats) -> Integers:
    """Return integers in the order of the floats; 0 and -0 have the same key."""
    bits = (numbers + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ _HIGHEST, bits)


def from_keys(keys: Integers) -> Floats:
    """Return the floats of `to_keys`."""
    return np.where(keys < 0, keys ^ _HIGHEST, keys).view(np.float64)


def _needs_narrowing(ranges: list[_Range]) -> bool:
    """Return True if the ranges contain too many numbers to collect and can become smaller."""
    too_many = sum(each.num_inside for each in set(ranges)) > _MAX_COLLECTED
    return too_many and any(each.low < each.high for each in ranges)


def _choose_edges(ranges: list[_Range]) -> list[int]:
    """Return ascending edges that divide every range evenly."""
    wide = {(each.low, each.high) for each in ranges if each.low < each.high}
    steps = max(2, _EDGES_PER_ROUND // len(wide))
    edges = {
        low + (high - low) * step // steps for low, high in wide for step in range(1, steps + 1)
    }
    return sorted(edges - {_LOWEST})


def _size(partition: Any, numbers: Callable[[Any], NDArray[Any]]) -> int:
    return len(numbers(partition))


def _total(sizes: list[int]) -> int:
    return sum(sizes)


def _partition_keys(partition: Any, numbers: Callable[[Any], Floats]) -> Integers:
    return to_keys(numbers(partition))


def _count_below_edges(
    partition: Any, numbers: Callable[[Any], Integers], edges: Integers, side: Any
) -> Integers:
    return np.searchsorted(np.sort(numbers(partition)), edges, side)


def _select(
    partition: Any, numbers: Callable[[Any], Integers], ranges: list[tuple[int, int]]
) -> Integers:
    """Return the numbers of a partition inside the given ranges."""
    ordered = np.sort(numbers(partition))
    lows, highs = (np.array(ends, dtype=np.int64) for ends in zip(*ranges))
    starts, stops = np.searchsorted(ordered, lows, "left"), np.searchsorted(ordered, highs, "right")
    return np.concatenate([ordered[start:stop] for start, stop in zip(starts, stops)])


def _sum(counts: list[Integers]) -> Integers:
    total: Integers = np.sum(counts, axis=0)
    return total
