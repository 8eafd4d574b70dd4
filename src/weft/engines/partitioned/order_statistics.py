"""Numbers that lie in parts, in order: found by counting, so that few of them ever come to one
place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data.sorted_values import SortedArray
from weft.engines.partitioned.partitions import Parts

Numbers = NDArray[np.int64]
# Numbers that may come to one place, and edges that parts count by in one round.
_FEW = 1 << 20
_EDGES = 1 << 16
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


class Scattered:
    """Whole numbers that lie in parts; `numbers` gives those of a part."""

    def __init__(self, parts: Parts[Any], numbers: Callable[[Any], Numbers]) -> None:
        self._parts, self._numbers = parts, numbers
        self.size: int = parts.merged(partial(_size, numbers=numbers), _total)

    @cached_property
    def _here(self) -> SortedArray[np.int64] | None:
        """All of them, if they are few."""
        return SortedArray(self._between([(_LOWEST, _HIGHEST)])) if self.size <= _FEW else None

    def select(self, places: Numbers) -> Numbers:
        """The numbers at these places: each is closed in by counting, until those that are left are
        few enough to be looked at.
        """
        if self._here is not None:
            return self._here.select(places)
        # For each place: the range that its number lies in, ends included, and how many lie below
        # and within it.
        found = [(_LOWEST, _HIGHEST, 0, self.size)] * len(places)
        while sum(within for _, _, _, within in set(found)) > _FEW and any(
            low < high for low, high, _, _ in found
        ):
            open_ranges = {(low, high) for low, high, _, _ in found if low < high}
            each = max(2, _EDGES // len(open_ranges))
            edges = sorted(
                {
                    low + (high - low) * number // each
                    for low, high in open_ranges
                    for number in range(1, each + 1)
                }
                - {_LOWEST}
            )
            counts = self.count_below(np.array(edges, dtype=np.int64)).tolist()
            found = [_closer(int(place), one, edges, counts) for place, one in zip(places, found)]
        numbers = np.sort(self._between(sorted({(low, high) for low, high, _, _ in found})))
        chosen = [
            np.searchsorted(numbers, low) + int(place) - below
            for place, (low, _, below, _) in zip(places, found)
        ]
        return numbers[np.array(chosen, dtype=np.int64)]

    def count_below(self, numbers: Numbers) -> Numbers:
        if self._here is not None:
            return self._here.count_below(numbers)
        return self._parts.merged(
            partial(_counted, numbers=self._numbers, wanted=numbers, side="left"), _sum
        )

    def count_up_to(self, numbers: Numbers) -> Numbers:
        if self._here is not None:
            return self._here.count_up_to(numbers)
        return self._parts.merged(
            partial(_counted, numbers=self._numbers, wanted=numbers, side="right"), _sum
        )

    def _between(self, found: list[tuple[int, int]]) -> Numbers:
        return self._parts.merged(
            partial(_within, numbers=self._numbers, ranges=found), _concatenated
        )


class ScatteredNumbers:
    """The same of floating numbers, by whole numbers that are in the same order."""

    def __init__(self, parts: Parts[Any], numbers: Callable[[Any], NDArray[np.float64]]) -> None:
        self._keys = Scattered(parts, partial(_as_keys, numbers=numbers))
        self.size = self._keys.size

    def select(self, places: Numbers) -> NDArray[np.float64]:
        return from_keys(self._keys.select(places))

    def count_below(self, numbers: NDArray[np.float64]) -> Numbers:
        return self._keys.count_below(to_keys(numbers))

    def count_up_to(self, numbers: NDArray[np.float64]) -> Numbers:
        return self._keys.count_up_to(to_keys(numbers))


def to_keys(numbers: NDArray[np.float64]) -> Numbers:
    """Whole numbers in the same order; 0 and -0 are one."""
    bits = (numbers + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ _HIGHEST, bits)


def from_keys(keys: Numbers) -> NDArray[np.float64]:
    """The numbers that such keys stand for."""
    return np.where(keys < 0, keys ^ _HIGHEST, keys).view(np.float64)


def _closer(
    place: int, known: tuple[int, int, int, int], edges: list[int], counts: list[int]
) -> tuple[int, int, int, int]:
    """The range between two edges that holds the number at a place."""
    import bisect

    low, high, below, within = known
    if low == high:
        return known
    first, last = bisect.bisect_right(edges, low), bisect.bisect_right(edges, high)
    number = bisect.bisect_right(
        counts, place, first, last
    )  # edges with at most so many below them
    if number > first:
        within -= counts[number - 1] - below
        low, below = edges[number - 1], counts[number - 1]
    if number < last:
        within = counts[number] - below
        high = edges[number] - 1
    return low, high, below, within


def _size(part: Any, numbers: Callable[[Any], NDArray[Any]]) -> int:
    return len(numbers(part))


def _as_keys(part: Any, numbers: Callable[[Any], NDArray[np.float64]]) -> Numbers:
    return to_keys(numbers(part))


def _counted(part: Any, numbers: Callable[[Any], Numbers], wanted: Numbers, side: Any) -> Numbers:
    return np.searchsorted(np.sort(numbers(part)), wanted, side)


def _within(part: Any, numbers: Callable[[Any], Numbers], ranges: list[tuple[int, int]]) -> Numbers:
    ordered = np.sort(numbers(part))
    lows, highs = (np.array(ends, dtype=np.int64) for ends in zip(*ranges))
    starts, stops = np.searchsorted(ordered, lows, "left"), np.searchsorted(ordered, highs, "right")
    return np.concatenate([ordered[start:stop] for start, stop in zip(starts, stops)])


def _total(parts: list[int]) -> int:
    return sum(parts)


def _sum(parts: list[Numbers]) -> Numbers:
    found: Numbers = np.sum(parts, axis=0)
    return found


def _concatenated(parts: list[Numbers]) -> Numbers:
    return np.concatenate(parts)
