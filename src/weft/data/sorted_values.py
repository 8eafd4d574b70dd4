"""Numbers in order: which stands at a place, and how many stand below one."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.int64, np.float64)


class SortedValues(Protocol[Number]):
    """Some numbers in order, wherever they are. `size`: how many."""

    size: int

    def at(self, places: NDArray[np.int64]) -> NDArray[Number]:
        """The numbers at these places, from 0 on."""
        ...

    def below(self, numbers: NDArray[Number]) -> NDArray[np.int64]:
        """How many are smaller than each of these."""
        ...

    def up_to(self, numbers: NDArray[Number]) -> NDArray[np.int64]:
        """How many are not larger than each of these."""
        ...


class SortedArray(Generic[Number]):
    """Numbers that are here."""

    def __init__(self, numbers: NDArray[Number]) -> None:
        self._numbers: NDArray[Number] = np.sort(numbers)
        self.size = len(numbers)

    def at(self, places: NDArray[np.int64]) -> NDArray[Number]:
        found: NDArray[Number] = self._numbers[places]
        return found

    def below(self, numbers: NDArray[Number]) -> NDArray[np.int64]:
        return np.searchsorted(self._numbers, numbers, "left")

    def up_to(self, numbers: NDArray[Number]) -> NDArray[np.int64]:
        return np.searchsorted(self._numbers, numbers, "right")
