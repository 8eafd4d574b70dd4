"""The sparse rows of one batch as tensors on the batch's device.

Where the host cannot read values, no shape may depend on them: instead of removing interactions,
operations mark them as invalid (`is_valid`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from weft.data.devices import DeviceColumn, float_type, is_host_readable, to_device
from weft.data.interactions import Interactions


class RaggedRows:
    """Interactions of a batch, row by row: row r has `offsets[r]` to `offsets[r + 1] - 1`.

    `is_valid [n]`: False for padding; None if all interactions are valid."""

    offsets: Tensor
    items: Tensor
    is_valid: Tensor | None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    @cached_property
    def padded_lengths(self) -> Tensor:
        """Interactions per row, padding included, `[batch]`."""
        return self.offsets.diff()

    @cached_property
    def rows(self) -> Tensor:
        """The row of each interaction, `[n]`."""
        numbers = torch.arange(self.num_rows, device=self.items.device)
        return torch.repeat_interleave(numbers, self.padded_lengths, output_size=len(self.items))

    @cached_property
    def lengths(self) -> Tensor:
        """Valid interactions per row, `[batch]`."""
        if self.is_valid is None:
            return self.padded_lengths
        return torch.zeros_like(self.padded_lengths).index_add_(0, self.rows, self.is_valid.long())

    def fill_invalid(self, values: Tensor, fill: float) -> Tensor:
        """Return values `[n]` with `fill` at padding."""
        return values if self.is_valid is None else torch.where(self.is_valid, values, fill)

    def select_values(self, values: Tensor, mask: Tensor, fill: float) -> tuple[Tensor, Tensor]:
        """Return the values where a mask `[n]` is true, and their number per row, `[batch]`.

        Where the host cannot read the mask: all values, with `fill` where it is false."""
        if not is_host_readable(values.device):
            return torch.where(mask, values, fill), self.padded_lengths
        counts = torch.zeros_like(self.padded_lengths).index_add_(0, self.rows, mask.long())
        return values[mask], counts


@dataclass(frozen=True)
class SparseRows(RaggedRows):
    """Interactions of a batch: offsets `[batch + 1]`, items `[n]` ascending in a row, values `[n]`.

    Of two interactions with the same item only the first may be valid. `error_counts`: the number
    of invalid inputs by kind, where the host could not read them (see `DEFERRED_ERRORS`)."""

    offsets: Tensor
    items: Tensor
    values: Tensor
    num_items: int
    is_valid: Tensor | None = None
    error_counts: Mapping[str, Tensor] = field(default_factory=dict)

    @classmethod
    def from_interactions(cls, interactions: Interactions, device: torch.device) -> SparseRows:
        """Return encoded interactions as tensors on a device."""
        return cls(
            to_device(torch.as_tensor(interactions.offsets), device),
            to_device(torch.as_tensor(interactions.items), device),
            to_device(torch.as_tensor(interactions.values), device, float_type(device)),
            interactions.num_items,
        )

    def to(self, device: torch.device) -> SparseRows:
        """Return the rows on a device, values in the dtype in which that device sums."""
        return SparseRows(
            to_device(self.offsets, device),
            to_device(self.items, device),
            to_device(self.values, device, float_type(device)),
            self.num_items,
            None if self.is_valid is None else to_device(self.is_valid, device),
            {name: to_device(count, device) for name, count in self.error_counts.items()},
        )

    @cached_property
    def valid_ones(self) -> Tensor:
        """1 for each valid interaction, 0 for padding, `[n]`."""
        if self.is_valid is None:
            return torch.ones_like(self.values)
        return self.is_valid.to(self.values.dtype)

    @cached_property
    def keys(self) -> Tensor:
        """Indices of interactions in a flattened `[batch, items]` matrix, ascending, `[n]`."""
        first = torch.arange(self.num_rows, device=self.items.device) * self.num_items
        repeated = torch.repeat_interleave(first, self.padded_lengths, output_size=len(self.items))
        return repeated.add_(self.items)

    def find(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """Look up items `[batch, m]` (-1 = none) in their rows.

        Return the index of the interaction and whether there is one, both `[batch, m]`."""
        if len(self.items) == 0:
            return torch.zeros_like(items), torch.zeros_like(items, dtype=torch.bool)
        first = torch.arange(self.num_rows, device=items.device)[:, None] * self.num_items
        return self._find_keys(torch.where(items >= 0, first + items, -1))

    def contains(self, keys: Tensor) -> Tensor:
        """Return whether there is an interaction at each index of the flattened matrix."""
        if len(self.items) == 0:
            return torch.zeros_like(keys, dtype=torch.bool)
        return self._find_keys(keys)[1]

    def values_at(self, keys: Tensor, fill: float) -> Tensor:
        """Return the value at each index of the flattened matrix, `fill` where there is none."""
        if len(self.items) == 0:
            return torch.full(keys.shape, fill, dtype=self.values.dtype, device=keys.device)
        index, is_found = self._find_keys(keys)
        return torch.where(is_found, self.values[index], fill)

    def _find_keys(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        index = torch.searchsorted(self.keys, keys).clamp_(max=len(self.items) - 1)
        is_equal = self.keys[index] == keys
        return index, is_equal if self.is_valid is None else is_equal & self.is_valid[index]

    def sum_rows(self, values: Tensor) -> Tensor:
        """Return the row sums `[batch]` of values `[n]`."""
        sums = values.new_zeros(self.num_rows)
        return sums.index_add_(0, self.rows, self.fill_invalid(values, 0))

    def to_dense(self, values: Tensor) -> Tensor:
        """Return values `[n]` as a `[batch, items]` matrix with zeros elsewhere."""
        flat = values.new_zeros(self.num_rows * self.num_items)
        flat.index_add_(0, self.keys, self.fill_invalid(values, 0))
        return flat.view(self.num_rows, self.num_items)

    def select_rows(self, rows: Tensor) -> SparseRows:
        """Return some rows, in their order."""
        lengths = self.padded_lengths[rows]
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        first = torch.repeat_interleave(self.offsets[rows] - offsets[:-1], lengths)
        index = first + torch.arange(len(first), device=first.device)
        is_valid = None if self.is_valid is None else self.is_valid[index]
        return SparseRows(
            offsets,
            self.items[index],
            self.values[index],
            self.num_items,
            is_valid,
            self.error_counts,
        )

    def filter(self, mask: Tensor) -> SparseRows:
        """Return the rows with only the interactions where the mask `[n]` is true."""
        if not is_host_readable(mask.device):
            is_valid = mask if self.is_valid is None else mask & self.is_valid
            return SparseRows(self.offsets, self.items, self.values, self.num_items, is_valid)
        lengths = self.sum_rows(mask.to(self.values.dtype)).long()
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        return SparseRows(offsets, self.items[mask], self.values[mask], self.num_items)


class RowLookup:
    """The interactions of all users, to be looked up on the device that has the user numbers."""

    def __init__(self, interactions: Interactions) -> None:
        self._offsets = DeviceColumn(torch.as_tensor(interactions.offsets))
        self._items = DeviceColumn(torch.as_tensor(interactions.items))
        self.max_length = int(np.diff(interactions.offsets).max(initial=0))
        self._num_items = interactions.num_items

    def row_size(self, device: torch.device) -> int:
        """Return the number of interactions to expect in a row that `select` returns."""
        if is_host_readable(device):
            return len(self._items) // max(1, len(self._offsets) - 1) + 1
        return max(1, self.max_length)

    def select(self, users: Tensor) -> SparseRows:
        """Return the rows of some users; unknown users are empty.

        Where the host cannot read the lengths, each row is padded to the longest."""
        device, last = users.device, len(self._offsets) - 2
        offsets, items = self._offsets.to(device), self._items.to(device)
        row = users.clamp(0, max(0, last))
        first = offsets[row]
        length = torch.where(row == users, offsets[(row + 1).clamp(max=last + 1)] - first, 0)
        if is_host_readable(device):
            starts = torch.nn.functional.pad(length.cumsum(0), (1, 0))
            index = torch.repeat_interleave(first - starts[:-1], length)
            selected = items[index.add_(torch.arange(len(index)))]
            return SparseRows(
                starts, selected, torch.ones(len(index), dtype=torch.float64), self._num_items
            )
        index = torch.arange(self.max_length, device=device)
        is_valid = index < length[:, None]
        selected = items[torch.where(is_valid, first[:, None] + index, 0)]
        selected = torch.where(is_valid, selected, self._num_items - 1).reshape(-1)
        starts = torch.arange(len(users) + 1, device=device) * self.max_length
        ones = torch.ones(len(selected), dtype=float_type(device), device=device)
        return SparseRows(starts, selected, ones, self._num_items, is_valid.reshape(-1))
