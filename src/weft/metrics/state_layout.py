"""The state of a run as one vector of sums: where each accumulator is, and how to read it.

Batches, shards and processes merge by adding vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.data import DeviceColumn, Labels
from weft.metrics.accumulators import (
    MEAN_SUMS,
    Accumulator,
    Contribution,
    ItemAccumulator,
    ItemExposure,
    ListedItemAccumulator,
    UserMeanSums,
    mean_sums,
    mean_sums_by_group,
)
from weft.metrics.group_rates import sum_by_group

# Up to this number of items, reading all of them is cheaper than finding those that occur.
_SMALL_CATALOGUE = 1 << 17
# Means over users that are added at once: few operations, and bounded memory.
_CHUNK_MEANS = 8


class StateLayout:
    """The sections of the state vector, and how a batch is added to it.

    The first section is the mean table: `MEAN_SUMS` for each mean over users and cut-off. The other
    accumulators follow (`other_sums`), then the mean table of each group of each slice.
    `accumulators` are given with the cut-offs at which they are needed."""

    def __init__(
        self,
        accumulators: Mapping[Accumulator, set[int]],
        slices: Mapping[str, Labels] | None = None,
    ) -> None:
        self.cutoffs = {
            accumulator: tuple(sorted(cutoffs)) if accumulator.has_cutoffs else (1,)
            for accumulator, cutoffs in accumulators.items()
        }
        self._columns: dict[UserMeanSums, slice] = {}
        self._sections: dict[Accumulator, slice] = {}
        width = 0
        for accumulator, cutoffs in self.cutoffs.items():
            if isinstance(accumulator, UserMeanSums):
                self._columns[accumulator] = slice(width, width + len(cutoffs))
                width += len(cutoffs)
        self._mean_table = slice(0, len(MEAN_SUMS) * width)
        end = self._mean_table.stop
        for accumulator, cutoffs in self.cutoffs.items():
            if not isinstance(accumulator, UserMeanSums):
                section = slice(end, end + accumulator.num_rows * len(cutoffs))
                self._sections[accumulator], end = section, section.stop
        self.other_sums = slice(self._mean_table.stop, end)
        self.slices = dict(slices or {})
        self._slice_tables: dict[str, slice] = {}
        for name, groups in self.slices.items():
            section = slice(end, end + len(groups.names) * self._mean_table.stop)
            self._slice_tables[name], end = section, section.stop
        self.size = end

    # ----------------------------------------------------------------------------------------------
    # Adding a batch

    def contributions(
        self, batch: Batch, *, by_user: bool = False
    ) -> list[tuple[slice, Contribution]]:
        """Return what a batch adds, by section of the state.

        With `by_user`, contributions keep their users; those of means over users are in
        `user_values`. Accumulators with a value per position come last, so that little memory is
        held while metrics are computed."""

        def contribution(accumulator: Accumulator) -> tuple[slice, Contribution]:
            topk = batch.at_cutoffs(self.cutoffs[accumulator])
            section = self._sections[accumulator]
            if by_user:
                return section, accumulator.contributions(topk)
            return section, accumulator.batch_total(topk).reduce(section.stop - section.start)

        small = [contribution(one) for one in self._sections if not one.is_per_position]
        means = list(self._columns)
        chunks = (
            self._values(means[start : start + _CHUNK_MEANS], batch)
            for start in range(0, len(means), _CHUNK_MEANS)
        )
        if means:
            small += self._mean_tables(chunks, self.user_weights(batch), batch.users)
        return small + [contribution(one) for one in self._sections if one.is_per_position]

    def mean_tables(
        self, values: Tensor, weights: Mapping[int, Tensor], users: Tensor
    ) -> Iterable[tuple[slice, Contribution]]:
        """Return the contributions to the mean tables of values `[users, columns of the table]`.

        `weights [users]` are given for the columns that have some; `users` are user numbers."""
        if not values.shape[1]:
            return ()
        return self._mean_tables(iter(torch.split(values, _CHUNK_MEANS, dim=1)), weights, users)

    def _mean_tables(
        self, chunks: Iterator[Tensor], weights: Mapping[int, Tensor], users: Tensor
    ) -> Iterable[tuple[slice, Contribution]]:
        """Yield the contributions to the mean tables, from the values of some columns at a time."""
        parts: list[Tensor] = []
        slice_parts: dict[str, list[Tensor]] = {name: [] for name in self.slices}
        weighted: dict[int, Tensor] = {}
        first = 0
        for values in chunks:
            parts.append(mean_sums(values))
            for name, groups in self.slices.items():
                slice_parts[name].append(mean_sums_by_group(values, groups, users=users))
            for column in weights:
                if 0 <= column - first < values.shape[1]:
                    weighted[column] = values[:, column - first, None]
            first += values.shape[1]
        table = torch.cat(parts, dim=1)
        slice_tables = {name: torch.cat(tables, dim=2) for name, tables in slice_parts.items()}
        for column, values in weighted.items():
            weight = weights[column]
            table[:, column, None] = mean_sums(values, weight)
            for name, groups in self.slices.items():
                sums = mean_sums_by_group(values, groups, users=users, weights=weight)
                slice_tables[name][:, :, column, None] = sums
        yield self._mean_table, Contribution(table.reshape(1, -1))
        for name, slice_table in slice_tables.items():
            yield self._slice_tables[name], Contribution(slice_table.reshape(1, -1))

    def _values(self, means: Iterable[UserMeanSums], batch: Batch) -> Tensor:
        """Return the averaged values of some means, `[batch, their columns]`."""
        columns = [batch.truth.values.new_empty((batch.size, 0))]
        for mean in means:
            columns.append(mean.metric.averaged_values(batch.at_cutoffs(self.cutoffs[mean])))
        return torch.cat(columns, dim=1)

    def user_values(self, batch: Batch) -> Tensor:
        """Return the averaged values `[batch, columns of the mean table]`; NaN if undefined."""
        return self._values(self._columns, batch)

    def user_weights(self, batch: Batch) -> dict[int, Tensor]:
        """Return the weights `[batch]` of users, for the columns of weighted means."""
        weights: dict[int, Tensor] = {}
        for accumulator, columns in self._columns.items():
            of_users = accumulator.metric.user_weights(batch)
            if of_users is not None:
                weights |= dict.fromkeys(range(columns.start, columns.stop), of_users)
        return weights

    @staticmethod
    def add(sums: Tensor, contributions: list[tuple[slice, Contribution]]) -> None:
        """Add contributions to the state vector, in place."""
        for section, contribution in contributions:
            if section.start < section.stop:
                contribution.add_to(sums[section])

    # ----------------------------------------------------------------------------------------------
    # Reading

    def view(self, sums: Tensor) -> Callable[[int | None], StateView]:
        """Return a function from a cut-off to the state at that cut-off."""
        return StateView(self, sums).at_cutoff

    def columns(self, accumulator: Accumulator) -> slice:
        """Return the columns of a mean over users in the mean table, one for each cut-off."""
        assert isinstance(accumulator, UserMeanSums)
        return self._columns[accumulator]

    def select(self, sums: Tensor, accumulator: Accumulator) -> Tensor:
        """Return the stored sums of an accumulator, `[rows, cut-offs]`."""
        if isinstance(accumulator, UserMeanSums):
            return sums[self._mean_table].view(len(MEAN_SUMS), -1)[:, self._columns[accumulator]]
        shape = (accumulator.num_rows, len(self.cutoffs[accumulator]))
        return sums[self._sections[accumulator]].view(shape)

    def select_group(self, sums: Tensor, name: str, *, group: int) -> Tensor:
        """Return the mean table of a group of a slice, from which its means can be read."""
        return sums[self._slice_tables[name]].view(-1, self._mean_table.stop)[group]


class StateView:
    """The accumulators of a state at one cut-off; `state[accumulator]` is `[rows]`.

    Each accumulator is read once for all cut-offs. Most items of a large catalogue are in no list:
    quantities per item are read only for the items that occur."""

    def __init__(self, layout: StateLayout, sums: Tensor, k: int | None = None) -> None:
        self.layout, self.k = layout, k
        self._sums = sums
        self._cache: dict[object, Tensor] = {}

    def at_cutoff(self, k: int | None) -> StateView:
        """Return the view at another cut-off, which shares what has been read."""
        view = StateView(self.layout, self._sums, k)
        view._cache = self._cache
        return view

    def __getitem__(self, accumulator: Accumulator) -> Tensor:
        return self._select_cutoff(accumulator, self._read(accumulator))

    def items(self, accumulator: ItemAccumulator) -> Tensor:
        """Return the items of `at_items`: those with a value other than 0 at any cut-off, and
        possibly other items that are in a list; all items of a small catalogue.
        """
        exposure, cutoffs = ItemExposure(accumulator.num_items), self.layout.cutoffs
        if (
            isinstance(accumulator, ListedItemAccumulator)
            and exposure in cutoffs
            and cutoffs[exposure][-1] >= cutoffs[accumulator][-1]
        ):
            accumulator = exposure  # includes the items of every accumulator over lists
        key = ("items", accumulator)
        if key not in self._cache:
            self._cache[key] = self._find_items(accumulator)
        return self._cache[key]

    def at_items(self, accumulator: ItemAccumulator, like: ItemAccumulator | None = None) -> Tensor:
        """Return an accumulator at its items, or at those of another accumulator, `[items]`."""
        return self._select_cutoff(accumulator, self._read_at_items(accumulator, like))

    def by_group(
        self, accumulator: ItemAccumulator, groups: DeviceColumn, num_groups: int
    ) -> Tensor:
        """Return the sums over groups of items, `[groups]`; items without a group are left out."""
        return self._by_group(accumulator, groups, num_groups, count=False)

    def items_by_group(
        self, accumulator: ItemAccumulator, groups: DeviceColumn, num_groups: int
    ) -> Tensor:
        """Return the number of items with a value above 0 in each group, `[groups]`."""
        return self._by_group(accumulator, groups, num_groups, count=True)

    # ----------------------------------------------------------------------------------------------

    def _select_cutoff(self, accumulator: Accumulator, values: Tensor) -> Tensor:
        if self.k is None or not accumulator.has_cutoffs:
            return values[:, 0]
        return values[:, self.layout.cutoffs[accumulator].index(self.k)]

    def _read(self, accumulator: Accumulator) -> Tensor:
        """Return an accumulator at all cut-offs, `[rows, cut-offs]`."""
        if accumulator not in self._cache:
            sums = self.layout.select(self._sums, accumulator)
            self._cache[accumulator] = accumulator.decode(sums)
        return self._cache[accumulator]

    def _read_at_items(self, accumulator: ItemAccumulator, like: ItemAccumulator | None) -> Tensor:
        if accumulator.num_items <= _SMALL_CATALOGUE:
            return self._read(accumulator)
        key = ("at_items", accumulator, like)
        if key not in self._cache:
            sums = self.layout.select(self._sums, accumulator)
            items = self.items(like or accumulator)
            self._cache[key] = accumulator.decode(sums.index_select(0, items))
        return self._cache[key]

    def _find_items(self, accumulator: ItemAccumulator) -> Tensor:
        sums = self.layout.select(self._sums, accumulator)
        if accumulator.num_items <= _SMALL_CATALOGUE:
            return torch.arange(accumulator.num_items, device=sums.device)
        # NumPy is several times faster than torch here.
        items = np.flatnonzero(sums.cpu().numpy() != 0) // sums.shape[1]
        distinct = items[np.diff(items, prepend=-1) > 0]
        return torch.from_numpy(distinct).to(sums.device)

    def _by_group(
        self, accumulator: ItemAccumulator, groups: DeviceColumn, num_groups: int, *, count: bool
    ) -> Tensor:
        key = ("by_group", accumulator, groups, count)
        if key not in self._cache:
            codes = groups.to(self._sums.device)
            if accumulator.is_sparse and accumulator.num_items > _SMALL_CATALOGUE:
                values = self._read_at_items(accumulator, None)
                codes = codes.index_select(0, self.items(accumulator))
            else:
                values = self._read(accumulator)
            if count:
                values = (values > 0).to(values.dtype)
            codes = codes.long()
            columns = [sum_by_group(column, codes, num_groups) for column in values.unbind(1)]
            self._cache[key] = torch.stack(columns, dim=1)
        return self._select_cutoff(accumulator, self._cache[key])
