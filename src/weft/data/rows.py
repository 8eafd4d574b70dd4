"""The sparse rows of one batch as tensors on the batch's device."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from weft.data.cells import read_cells
from weft.data.interactions import Interactions
from weft.errors import InputError


def float_type(device: torch.device) -> torch.dtype:
    """The type in which sums are kept: float64, or float32 where the device has no better."""
    return torch.float32 if device.type == "mps" else torch.float64


class InRows:
    """Cells of a batch, row by row: those of row r are `offsets[r]` to `offsets[r + 1] - 1`."""

    offsets: Tensor
    items: Tensor

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> Tensor:
        """Cells per row, `[batch]`."""
        return self.offsets.diff()

    @cached_property
    def rows(self) -> Tensor:
        """The row of each cell, `[cells]`."""
        numbers = torch.arange(self.num_rows, device=self.items.device)
        return torch.repeat_interleave(numbers, self.lengths, output_size=len(self.items))


@dataclass(frozen=True)
class SparseRows(InRows):
    """Cells of a batch: offsets `[batch + 1]`, items `[cells]` ascending within a row, values `[cells]`."""

    offsets: Tensor
    items: Tensor
    values: Tensor
    num_items: int

    @classmethod
    def of(cls, cells: Interactions, device: torch.device) -> SparseRows:
        """Rows of the data station, moved to a device."""
        values = torch.as_tensor(cells.values).to(device, float_type(device))
        offsets, items = (torch.as_tensor(part).to(device) for part in (cells.offsets, cells.items))
        return cls(offsets, items, values, cells.num_items)

    @cached_property
    def keys(self) -> Tensor:
        """The place of each cell in a flattened `[batch, items]` matrix, ascending, `[cells]`."""
        first = torch.arange(self.num_rows, device=self.items.device) * self.num_items
        return torch.repeat_interleave(first, self.lengths, output_size=len(self.items)).add_(self.items)

    def find(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """For items `[batch, n]` (-1 = none): the number of the row's cell that holds each, and whether there is one."""
        if len(self.items) == 0:
            return torch.zeros_like(items), torch.zeros_like(items, dtype=torch.bool)
        first = torch.arange(self.num_rows, device=items.device)[:, None] * self.num_items
        wanted = torch.where(items >= 0, first + items, -1)
        return self._find_keys(wanted)

    def holds(self, keys: Tensor) -> Tensor:
        """Whether a cell stands at each of these places of the flattened matrix."""
        return self._find_keys(keys)[1] if len(self.items) else torch.zeros_like(keys, dtype=torch.bool)

    def _find_keys(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        cells = torch.searchsorted(self.keys, keys).clamp_(max=len(self.items) - 1)
        return cells, self.keys[cells] == keys

    def sum(self, values: Tensor) -> Tensor:
        """Row sums `[batch]` of values given per cell."""
        return values.new_zeros(self.num_rows).index_add_(0, self.rows, values)

    def padded(self, values: Tensor, fill: float) -> Tensor:
        """Values given per cell as `[batch, longest row]`, short rows filled up."""
        width = int(self.lengths.max()) if self.num_rows and len(values) else 0
        out = values.new_full((self.num_rows * width,), fill)
        first = torch.arange(self.num_rows, device=values.device) * width - self.offsets[:-1]
        places = first.index_select(0, self.rows) + torch.arange(len(values), device=values.device)
        return out.scatter_(0, places, values).view(self.num_rows, width)

    def dense(self, values: Tensor) -> Tensor:
        """Values given per cell as a `[batch, items]` matrix with zeros elsewhere."""
        out = values.new_zeros(self.num_rows, self.num_items)
        out.view(-1)[self.keys] = values
        return out

    def keep(self, cells: Tensor) -> SparseRows:
        """Only the cells where the mask `[cells]` is true."""
        kept = self.sum(cells.to(self.values.dtype)).long()
        offsets = torch.nn.functional.pad(kept.cumsum(0), (1, 0))
        return SparseRows(offsets, self.items[cells], self.values[cells], self.num_items)


def rows_of_target(target: Any, batch: int, num_items: int, device: torch.device, candidates: Tensor | None = None) -> SparseRows:
    """The truth of a batch in the forms that `update` takes.

    A dense `[batch, items]` tensor, a sparse one (torch or scipy), or the items of each row: a list of lists, or an integer
    tensor `[batch, n]` (n not the number of items) padded with -1. With `candidates [batch, n]`, a dense matrix of their shape
    is about these.
    """
    if isinstance(target, SparseRows):
        return target
    if candidates is not None and isinstance(target, (Tensor, np.ndarray)) and tuple(target.shape) == tuple(candidates.shape):
        dense = torch.as_tensor(target)
        if dense.layout == torch.strided and not dense.is_complex():
            return _rows_of_candidates(dense.detach().to(device), candidates, num_items)
    if isinstance(target, Tensor) and target.layout == torch.strided and not target.is_complex():
        integers = not target.is_floating_point() and target.dtype != torch.bool
        if integers and (target.ndim == 1 or (target.ndim == 2 and target.shape[1] != num_items)):
            return _rows_of_ids(target[:, None] if target.ndim == 1 else target, batch, num_items, device)
        return _rows_of_dense(target.detach().to(device), batch, num_items)
    if isinstance(target, (list, tuple)):
        return _rows_of_ids(_pad(target), batch, num_items, device)
    if isinstance(target, Mapping):
        _refuse("names users and items by ids", batch, num_items)
    if target is None:
        _refuse(f"is a {type(target).__name__}", batch, num_items)
    cells = read_cells(target, "target")
    if cells.shape is None:
        _refuse("names users and items by ids", batch, num_items)
    if cells.shape != (batch, num_items):
        _refuse(f"has shape {list(cells.shape)}", batch, num_items)
    rows = Interactions.from_codes(cells.users.to_numpy(), cells.items.to_numpy(), cells.values, batch, num_items)
    if rows.repeated().any():
        raise InputError("target holds the same (row, item) twice; each item may occur once per row.")
    return SparseRows.of(rows, device)


def _refuse(got: str, batch: int, num_items: int) -> NoReturn:
    raise InputError(
        f"target {got}, but preds has {batch} rows and {num_items} items; expected a [{batch}, {num_items}] "
        "matrix, dense or sparse, or the relevant items of each row: a list of lists, or an integer tensor padded with -1."
    )


def _rows_of_dense(target: Tensor, batch: int, num_items: int) -> SparseRows:
    if target.ndim != 2 or tuple(target.shape) != (batch, num_items):
        _refuse(f"has shape {list(target.shape)}", batch, num_items)
    rows, items = target.nonzero(as_tuple=True)
    offsets = torch.searchsorted(rows, torch.arange(batch + 1, device=rows.device))
    return SparseRows(offsets, items, target[rows, items].to(float_type(target.device)), num_items)


def _rows_of_candidates(target: Tensor, items: Tensor, num_items: int) -> SparseRows:
    """A rating for each candidate, 0 where it has none."""
    if bool(((target != 0) & (items < 0)).any()):
        raise InputError("target has a rating where items is -1, which is no item; expected 0 there.")
    rows, places = target.nonzero(as_tuple=True)
    found = items[rows, places]
    order = (rows * num_items + found).argsort()
    offsets = torch.searchsorted(rows, torch.arange(len(items) + 1, device=rows.device))
    return SparseRows(offsets, found[order], target[rows, places][order].to(float_type(target.device)), num_items)


def _pad(lists: Sequence[Any]) -> Tensor:
    """Lists of items as one tensor, short ones filled up with -1."""
    rows = []
    for number, given in enumerate(lists):
        row = torch.as_tensor(given) if isinstance(given, (Tensor, np.ndarray)) else _as_integers(given)
        if row is None or row.ndim > 1 or row.is_complex() or (row.is_floating_point() and row.numel()):
            raise InputError(f"target has {given!r} for row {number}; expected a list of item numbers.")
        rows.append(row.reshape(-1).long())
    empty = torch.empty((0, 0), dtype=torch.int64)
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1) if rows else empty


def _as_integers(given: Any) -> Tensor | None:
    items = [given] if isinstance(given, int) else given
    if isinstance(items, Mapping):  # its ratings would be lost
        return None
    try:
        return torch.tensor([operator.index(item) for item in items], dtype=torch.int64)
    except TypeError:
        return None


def _rows_of_ids(ids: Tensor, batch: int, num_items: int, device: torch.device) -> SparseRows:
    if len(ids) != batch:
        _refuse(f"has {len(ids)} rows", batch, num_items)
    ids = ids.to(device).long()
    if ids.numel() and (int(ids.max()) >= num_items or int(ids.min()) < -1):
        bad = ids[(ids >= num_items) | (ids < -1)][0]
        raise InputError(f"target holds the item {int(bad)}; items are the columns of preds, 0 to {num_items - 1}.")
    ids = ids.sort(dim=1).values
    if ((ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)).any():
        raise InputError("target holds the same (row, item) twice; each item may occur once per row.")
    present = ids >= 0
    offsets = torch.nn.functional.pad(present.sum(1).cumsum(0), (1, 0))
    items = ids[present]
    return SparseRows(offsets, items, torch.ones(len(items), dtype=float_type(device), device=device), num_items)
