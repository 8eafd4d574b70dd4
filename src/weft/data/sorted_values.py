"""Sorted values: order statistics and counts, also of values on other machines."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.int64, np.float64)


class SortedValues(Protocol[Number]):
    """`size` values in ascending order, wherever they are stored."""

    size: int

    def select(self, ranks: NDArray[np.int64]) -> NDArray[Number]:
        """Return the values at ranks from 0."""
        ...

    def count_below(self, values: NDArray[Number]) -> NDArray[np.int64]:
        """Return how many are smaller than each value."""
        ...

    def count_up_to(self, values: NDArray[Number]) -> NDArray[np.int64]:
        """Return how many are not larger than each value."""
        ...


class SortedArray(Generic[Number]):
    """Sorted values in memory."""

    def __init__(self, values: NDArray[Number]) -> None:
        self._values: NDArray[Number] = np.sort(values)
        self.size = len(values)

    def select(self, ranks: NDArray[np.int64]) -> NDArray[Number]:
        selected: NDArray[Number] = self._values[ranks]
        return selected

    def count_below(self, values: NDArray[Number]) -> NDArray[np.int64]:
        return np.searchsorted(self._values, values, "left")

    def count_up_to(self, values: NDArray[Number]) -> NDArray[np.int64]:
        return np.searchsorted(self._values, values, "right")
