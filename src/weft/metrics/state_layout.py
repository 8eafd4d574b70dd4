"""The state of a run as one vector of sums: where each accumulator is, and how to read it.

Batches, shards and processes merge by adding vectors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import attrgetter

import numpy as np
import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.data import DeviceColumn, Labels
from weft.errors import SettingError
from weft.metrics.accumulators import (
    Accumulator,
    Contribution,
    ItemAccumulator,
    ItemExposure,
    ListedItemAccumulator,
    UserMeanSums,
)
from weft.metrics.mean_sums import (
    MEAN_SUMS,
    PLAIN_SUMS,
    mean_sums,
    mean_sums_by_group,
    plain_sums,
)
from weft.metrics.truth_group_sums import GroupOfTruthSums

# Up to this number of items, reading all of them is cheaper than finding those that occur.
_SMALL_CATALOGUE = 1 << 17
# The cut-off of accumulators of a metric that has none.
NO_CUTOFF = 0
# Means over users that are added at once: few operations, and bounded memory.
_CHUNK_MEANS = 8


class StateLayout:
    """The sections of the state vector, and how a batch is added to it.

    The first section is the mean table: `MEAN_SUMS` for each mean over users and cut-off. The other
    accumulators follow (`other_sums`), then the mean table of each group of each slice.
    `accumulators` are given with the cut-offs at which they are needed. Without standard errors
    (and slices), a mean has `PLAIN_SUMS` alone."""

    def __init__(
        self,
        accumulators: Mapping[Accumulator, set[int]],
        slices: Mapping[str, Labels] | None = None,
        *,
        has_standard_errors: bool = True,
    ) -> None:
        self._num_sums = len(MEAN_SUMS if has_standard_errors else PLAIN_SUMS)
        self._sum_up = mean_sums if has_standard_errors else plain_sums
        self.cutoffs: dict[Accumulator, tuple[int, ...]] = {}
        self._columns: dict[UserMeanSums, slice] = {}
        self._sections: dict[Accumulator, slice] = {}
        self._single_columns: set[Accumulator] = set()  # that do not depend on a cut-off
        width = 0
        for accumulator, cutoffs in accumulators.items():
            has_cutoffs = accumulator.has_cutoffs
            if isinstance(accumulator, UserMeanSums):
                has_cutoffs = accumulator.metric.k is not None
                num_columns = len(cutoffs) if has_cutoffs else 1
                self._columns[accumulator] = slice(width, width + num_columns)
                width += num_columns
            if not has_cutoffs:
                self._single_columns.add(accumulator)
            self.cutoffs[accumulator] = tuple(sorted(cutoffs)) if has_cutoffs else (1,)
        self.num_means = width  # columns of the mean table
        self._mean_table = slice(0, self._num_sums * width)
        end = self._mean_table.stop
        for accumulator, columns in self.cutoffs.items():
            if not isinstance(accumulator, UserMeanSums):
                section = slice(end, end + accumulator.num_rows * len(columns))
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
        terms: list[tuple[slice, Contribution]] = []
        if self._columns:
            chunks, weights = self._value_chunks(batch), self.user_weights(batch)
            terms += self._mean_tables(chunks, weights, batch.users)
        for accumulator in sorted(self._sections, key=attrgetter("is_per_position")):
            section, topk = self._sections[accumulator], batch.at_cutoffs(self.cutoffs[accumulator])
            if by_user:
                terms.append((section, accumulator.contributions(topk)))
            else:
                total = accumulator.batch_total(topk)
                terms.append((section, total.reduce(section.stop - section.start)))
        return terms

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
        slice_parts: defaultdict[str, list[Tensor]] = defaultdict(list)
        weighted: dict[int, Tensor] = {}
        first = 0
        for values in chunks:
            parts.append(self._sum_up(values))
            for name, groups in self.slices.items():
                slice_parts[name].append(mean_sums_by_group(values, groups, users=users))
            for column in weights:
                if 0 <= column - first < values.shape[1]:
                    weighted[column] = values[:, column - first, None]
            first += values.shape[1]
        table = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        for column, values in weighted.items():
            table[:, column, None] = self._sum_up(values, weights[column])
        yield self._mean_table, Contribution(table.reshape(1, -1))
        for name, groups in self.slices.items():
            slice_table = torch.cat(slice_parts[name], dim=2)
            for column, values in weighted.items():
                slice_table[:, :, column, None] = mean_sums_by_group(
                    values, groups, users=users, weights=weights[column]
                )
            yield self._slice_tables[name], Contribution(slice_table.reshape(1, -1))

    def _value_chunks(self, batch: Batch) -> Iterator[Tensor]:
        """Yield the averaged values of some means at a time, `[batch, their columns]`."""
        means = list(self._columns)
        for start in range(0, len(means), _CHUNK_MEANS):
            columns = []
            for mean in means[start : start + _CHUNK_MEANS]:
                columns.append(mean.values(batch.at_cutoffs(self.cutoffs[mean])))
            yield columns[0] if len(columns) == 1 else torch.cat(columns, dim=1)

    def user_values(self, batch: Batch) -> Tensor:
        """Return the averaged values `[batch, columns of the mean table]`; NaN if undefined."""
        empty = batch.truth.values.new_empty((batch.size, 0))
        return torch.cat([empty, *self._value_chunks(batch)], dim=1)

    def user_weights(self, batch: Batch) -> dict[int, Tensor]:
        """Return the weights `[batch]` of users, for the columns of weighted means."""
        weights: dict[int, Tensor] = {}
        for accumulator, columns in self._columns.items():
            of_users = accumulator.user_weights(batch)
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
        return partial(StateView, self, sums, {})

    def mean_column(self, accumulator: Accumulator, k: int | None) -> int:
        """Return the column of a mean over users at a cut-off in the mean table."""
        assert isinstance(accumulator, UserMeanSums)
        first: int = self._columns[accumulator].start
        return first + self.column(accumulator, k)

    def column(self, accumulator: Accumulator, k: int | None) -> int:
        """Return the column of a cut-off among those of an accumulator."""
        if k is None or accumulator in self._single_columns:
            return 0
        return self.cutoffs[accumulator].index(k)

    def select(self, sums: Tensor, accumulator: Accumulator) -> Tensor:
        """Return the stored sums of an accumulator, `[rows, cut-offs]`."""
        if isinstance(accumulator, UserMeanSums):
            return sums[self._mean_table].view(self._num_sums, -1)[:, self._columns[accumulator]]
        shape = (accumulator.num_rows, len(self.cutoffs[accumulator]))
        return sums[self._sections[accumulator]].view(shape)

    def term_section(self, accumulator: Accumulator) -> slice:
        """Return where the sums of an accumulator that is no mean are inside `other_sums`."""
        section, first = self._sections[accumulator], self.other_sums.start
        return slice(section.start - first, section.stop - first)

    def count_sums(self, sums: Tensor) -> Tensor:
        """Return the sums that are numbers of users or lists, for validation."""
        counts = [sums[: self.num_means]]
        for accumulator in self._sections:
            counts.append(self.select(sums, accumulator)[accumulator.count_rows].reshape(-1))
        for section in self._slice_tables.values():
            tables = sums[section].view(-1, len(MEAN_SUMS), max(1, self.num_means))
            counts.append(tables[:, 0].reshape(-1))
        return torch.cat(counts)

    def term_counts(self, indices: Tensor, terms: Tensor) -> Tensor:
        """Return the terms of users `[n]` that are numbers of lists, for validation.

        `indices [n]` are positions in `other_sums`."""
        is_count = torch.zeros(self.size, dtype=torch.bool)
        for accumulator in self._sections:
            self.select(is_count, accumulator)[accumulator.count_rows] = True
        return terms[is_count[self.other_sums][indices.long()]]

    def select_group(self, sums: Tensor, name: str, *, group: int) -> Tensor:
        """Return the mean table of a group of a slice, from which its means can be read."""
        shape = (len(self.slices[name].names), self._mean_table.stop)
        return sums[self._slice_tables[name]].view(shape)[group]

    def select_truth_group(self, sums: Tensor, name: str, *, group: int) -> Tensor:
        """Return the mean table of a group of an item slice; NaN for means that it does not have.

        Those that it has are where those of all relevant items are."""
        table = sums[self._mean_table].view(self._num_sums, -1)
        of_group = torch.full_like(table, torch.nan)
        for accumulator, columns in self._columns.items():
            if isinstance(accumulator, GroupOfTruthSums) and (
                (accumulator.slice_name, accumulator.group) == (name, group)
            ):
                whole = self._columns[accumulator.metric.mean_sums]
                of_group[:, whole] = table[:, columns]
        return of_group.reshape(-1)


class StateView:
    """The accumulators of a state at one cut-off; `state[accumulator]` is `[rows]`, or a scalar.

    Each accumulator is read once for all cut-offs: `cache` is shared by the views of one state.
    Most items of a large catalogue are in no list: quantities per item are read only for the items
    that occur."""

    def __init__(
        self, layout: StateLayout, sums: Tensor, cache: dict[object, Tensor], k: int | None
    ) -> None:
        self.layout, self.k = layout, k
        self._sums, self._cache = sums, cache

    def at_cutoff(self, k: int | None) -> StateView:
        """Return the view of the same state at another cut-off."""
        return StateView(self.layout, self._sums, self._cache, k)

    def __getitem__(self, accumulator: Accumulator) -> Tensor:
        if accumulator not in self.layout.cutoffs:
            raise SettingError(
                f"a metric reads the sums of {accumulator!r}, which it does not declare; set the "
                "accumulator as an attribute in its constructor, and read sums[self.name]."
            )
        sums = self._read(accumulator)[:, self.layout.column(accumulator, self.k)]
        return sums[0] if accumulator.is_scalar else sums

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
        if accumulator.num_items <= _SMALL_CATALOGUE:
            return self[accumulator]
        values = self._read_items(accumulator, like or accumulator)
        return values[:, self.layout.column(accumulator, self.k)]

    def by_group(
        self,
        accumulator: ItemAccumulator,
        groups: DeviceColumn,
        num_groups: int,
        *,
        count_items: bool = False,
    ) -> Tensor:
        """Return the sums over groups of items, `[groups]`; items without a group are left out.

        With `count_items`: the number of items with a value above 0 in each group."""
        key = ("by_group", accumulator, groups, count_items)
        if key not in self._cache:
            codes = groups.to(self._sums.device)
            if accumulator.is_sparse and accumulator.num_items > _SMALL_CATALOGUE:
                values = self._read_items(accumulator, accumulator)
                codes = codes.index_select(0, self.items(accumulator))
            else:
                values = self._read(accumulator)
            if count_items:
                values = (values > 0).to(values.dtype)
            codes = codes.long()
            columns = [sum_by_group(column, codes, num_groups) for column in values.unbind(1)]
            self._cache[key] = torch.stack(columns, dim=1)
        return self._cache[key][:, self.layout.column(accumulator, self.k)]

    # ----------------------------------------------------------------------------------------------

    def _read(self, accumulator: Accumulator) -> Tensor:
        """Return an accumulator at all cut-offs, `[rows, cut-offs]`."""
        if accumulator not in self._cache:
            sums = self.layout.select(self._sums, accumulator)
            self._cache[accumulator] = accumulator.decode(sums)
        return self._cache[accumulator]

    def _read_items(self, accumulator: ItemAccumulator, like: ItemAccumulator) -> Tensor:
        """Return an accumulator at the items of another, at all cut-offs, `[items, cut-offs]`."""
        key = ("at_items", accumulator, like)
        if key not in self._cache:
            sums = self.layout.select(self._sums, accumulator)
            self._cache[key] = accumulator.decode(sums.index_select(0, self.items(like)))
        return self._cache[key]

    def _find_items(self, accumulator: ItemAccumulator) -> Tensor:
        sums = self.layout.select(self._sums, accumulator)
        if accumulator.num_items <= _SMALL_CATALOGUE:
            return torch.arange(accumulator.num_items, device=sums.device)
        # NumPy is several times faster than torch here.
        items = np.flatnonzero(sums.cpu().numpy() != 0) // sums.shape[1]
        distinct = items[np.diff(items, prepend=-1) > 0]
        return torch.from_numpy(distinct).to(sums.device)


def sum_by_group(values: Tensor, codes: Tensor, num_groups: int) -> Tensor:
    """Return the sums of values over each group, `[groups]`; entries with code -1 are left out."""
    return torch.bincount(codes + 1, weights=values, minlength=num_groups + 1)[1:]
