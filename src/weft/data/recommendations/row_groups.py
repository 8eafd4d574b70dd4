"""Rows of users in any order, grouped by user."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft._native import call, is_built
from weft.data.sorting import Numbers, sort_keys
from weft.data.team import share_loop

_MIN_THREAD_ROWS = 1 << 20


@dataclass(frozen=True)
class RowGroups:
    """Rows that are grouped by user; those of a user keep their order.

    Rows come in runs of one user each: `owners`, the user codes, and `lengths`; without lengths
    every row is a run. `offsets [users + 1]`: the first entry of each user after grouping.
    """

    owners: NDArray[Any]  # int32 or int64
    lengths: Numbers | None
    offsets: Numbers

    @classmethod
    def from_owners(
        cls, owners: NDArray[Any], num_users: int, lengths: Numbers | None = None
    ) -> RowGroups:
        """Return the groups of rows with these owners (below `num_users`)."""
        offsets = np.zeros(num_users + 1, dtype=np.int64)
        offsets[1:] = np.cumsum(np.bincount(owners, lengths, minlength=num_users))
        return cls(owners, lengths, offsets)

    @cached_property
    def are_in_order(self) -> bool:
        """True if the rows are grouped and in the order of users already."""
        return bool((self.owners[1:] >= self.owners[:-1]).all())

    @cached_property
    def _sorted_runs(self) -> tuple[Numbers, Numbers]:
        """The first row and the length of each run, in the order of users."""
        assert self.lengths is not None
        order = sort_keys(self.owners.astype(np.int64, copy=False), len(self.offsets) - 1)[1]
        starts = np.cumsum(self.lengths) - self.lengths
        return starts[order], self.lengths[order]

    @cached_property
    def rows(self) -> Numbers:
        """The row of each entry."""
        if self.are_in_order:
            return np.arange(self.offsets[-1])
        if self.lengths is None:
            owners = self.owners.astype(np.int64, copy=False)
            return sort_keys(owners, len(self.offsets) - 1)[1]
        starts, lengths = self._sorted_runs
        ends = np.cumsum(lengths)
        rows: Numbers = np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)
        return rows

    def group_all(self, *columns: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the values of columns by entry, each on a thread of its own."""
        if self.are_in_order or len(columns[0]) < _MIN_THREAD_ROWS:
            return [self.group(column) for column in columns]
        if self.lengths is not None:
            self._sorted_runs  # noqa: B018 - computed before the threads start
        grouped: dict[int, NDArray[Any]] = {}

        def group(number: int) -> None:
            grouped[number] = self.group(columns[number])

        share_loop(group, range(len(columns)))
        return [grouped[number] for number in range(len(columns))]

    def group(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return the values of a column by entry; the column itself if its rows are in order."""
        if self.are_in_order:
            return column
        width = column.dtype.itemsize
        if not is_built() or width not in (4, 8) or self.owners.dtype != np.int32:
            return column[self.rows]
        grouped = np.empty_like(column)
        if self.lengths is None:
            next_entries = self.offsets.copy()
            size = len(column)
            call("scatter_by_owner", self.owners, size, next_entries, width, column, grouped)
        else:
            starts, lengths = self._sorted_runs
            call("copy_runs", starts, lengths, len(starts), width, column, grouped)
        return grouped
