"""Order statistics of numbers that are distributed over partitions.

The k-th smallest number is found by counting in every partition how many numbers are below some
edges, so that many numbers are never collected on the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data.sorted_values import SortedArray
from weft.engines.partitioned.partitions import Partitions

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
_MAX_COLLECTED = 1 << 20  # numbers that may be collected on the driver
_EDGES_PER_ROUND = 1 << 18  # edges below which partitions count in one round
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


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
        return SortedArray(self._partitions.map_reduce(self._numbers, np.concatenate))

    def select(self, ranks: Integers) -> Integers:
        """Return the numbers at these positions, from 0, of the ascending order."""
        if self._collected is not None:
            return self._collected.select(ranks)
        low, high = np.full(len(ranks), _LOWEST), np.full(len(ranks), _HIGHEST)
        while (low < high).any():
            edges = _choose_edges(low, high)
            places = np.searchsorted(self._count(edges, "left"), ranks, "right")
            low = np.maximum(low, np.concatenate([[_LOWEST], edges])[places])
            high = np.minimum(high, np.concatenate([edges - 1, [_HIGHEST]])[places])
        return low

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
        return self._partitions.map_reduce(count, partial(np.sum, axis=0))


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


def _choose_edges(low: Integers, high: Integers) -> Integers:
    """Return ascending edges that divide every range from `low` to `high` evenly."""
    wide = {pair for pair in zip(low.tolist(), high.tolist()) if pair[0] < pair[1]}
    steps = max(2, _EDGES_PER_ROUND // len(wide))
    edges = {
        first + (last - first) * step // steps
        for first, last in wide
        for step in range(1, steps + 1)
    }
    return np.array(sorted(edges - {_LOWEST}), dtype=np.int64)


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
