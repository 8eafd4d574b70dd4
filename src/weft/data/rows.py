"""The sparse rows of one batch as tensors on the batch's device."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from weft.data.columns import DeviceColumn
from weft.data.devices import float_type, is_host_readable, to_device
from weft.data.interaction_table import read_interactions
from weft.data.interactions import Interactions
from weft.errors import InputError


class RaggedRows:
    """Cells of a batch, row by row: those of row r are `offsets[r]` to `offsets[r + 1] - 1`.

    `counted [cells]`: which cells are there at all; None: all. Cells that do not count keep shapes
    from depending on the data, where the host would have to wait for them."""

    offsets: Tensor
    items: Tensor
    counted: Tensor | None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> Tensor:
        """Cells per row, `[batch]`."""
        return self.offsets.diff()

    @cached_property
    def rows(self) -> Tensor:
        """The row of each cell, `[cells]`."""
        numbers = torch.arange(self.num_rows, device=self.items.device)
        return torch.repeat_interleave(numbers, self.sizes, output_size=len(self.items))

    @cached_property
    def lengths(self) -> Tensor:
        """Cells per row that count, `[batch]`."""
        if self.counted is None:
            return self.sizes
        return torch.zeros_like(self.sizes).index_add_(0, self.rows, self.counted.long())

    def only(self, values: Tensor, fill: float) -> Tensor:
        """Values given per cell, `fill` where a cell does not count."""
        return values if self.counted is None else torch.where(self.counted, values, fill)

    def chosen(self, values: Tensor, which: Tensor, fill: float) -> tuple[Tensor, Tensor]:
        """Values given per cell where a mask is true, and how many each row has, `[batch]`.

        Where the host would have to wait to know how many these are: all values, `fill` where it is
        not true."""
        if not is_host_readable(values.device):
            return torch.where(which, values, fill), self.sizes
        return values[which], torch.zeros_like(self.sizes).index_add_(0, self.rows, which.long())


@dataclass(frozen=True)
class SparseRows(RaggedRows):
    """Cells of a batch: offsets `[batch + 1]`, items `[cells]` ascending within a row, values
    `[cells]`.

    Of two cells with the same item only the first may count. `faults`: how much was wrong with what
    the rows were made from, where the host could not look (see `DEFERRED_ERRORS`)."""

    offsets: Tensor
    items: Tensor
    values: Tensor
    num_items: int
    counted: Tensor | None = None
    faults: Mapping[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, cells: Interactions, device: torch.device) -> SparseRows:
        """Rows of the data station, moved to a device."""
        parts = (
            torch.as_tensor(cells.offsets),
            torch.as_tensor(cells.items),
            torch.as_tensor(cells.values),
        )
        return cls(*parts, cells.num_items).on(device)

    def on(self, device: torch.device) -> SparseRows:
        """The same on a device, values as that device sums them."""
        offsets, items = (to_device(part, device) for part in (self.offsets, self.items))
        counted = None if self.counted is None else to_device(self.counted, device)
        faults = {name: to_device(count, device) for name, count in self.faults.items()}
        return SparseRows(
            offsets,
            items,
            to_device(self.values, device, float_type(device)),
            self.num_items,
            counted,
            faults,
        )

    @cached_property
    def ones(self) -> Tensor:
        """1 for each cell that counts, else 0, `[cells]`."""
        return (
            torch.ones_like(self.values)
            if self.counted is None
            else self.counted.to(self.values.dtype)
        )

    @cached_property
    def keys(self) -> Tensor:
        """The place of each cell in a flattened `[batch, items]` matrix, ascending, `[cells]`."""
        first = torch.arange(self.num_rows, device=self.items.device) * self.num_items
        return torch.repeat_interleave(first, self.sizes, output_size=len(self.items)).add_(
            self.items
        )

    def find(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """For items `[batch, n]` (-1 = none): the number of the row's cell that holds each, and
        whether there is one.
        """
        if len(self.items) == 0:
            return torch.zeros_like(items), torch.zeros_like(items, dtype=torch.bool)
        first = torch.arange(self.num_rows, device=items.device)[:, None] * self.num_items
        wanted = torch.where(items >= 0, first + items, -1)
        return self._find_keys(wanted)

    def contains(self, keys: Tensor) -> Tensor:
        """Whether a cell stands at each of these places of the flattened matrix."""
        return (
            self._find_keys(keys)[1]
            if len(self.items)
            else torch.zeros_like(keys, dtype=torch.bool)
        )

    def _find_keys(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        cells = torch.searchsorted(self.keys, keys).clamp_(max=len(self.items) - 1)
        found = self.keys[cells] == keys
        return cells, found if self.counted is None else found & self.counted[cells]

    def sum(self, values: Tensor) -> Tensor:
        """Row sums `[batch]` of values given per cell."""
        return values.new_zeros(self.num_rows).index_add_(0, self.rows, self.only(values, 0))

    def dense(self, values: Tensor) -> Tensor:
        """Values given per cell as a `[batch, items]` matrix with zeros elsewhere."""
        out = values.new_zeros(self.num_rows * self.num_items)
        return out.index_add_(0, self.keys, self.only(values, 0)).view(
            self.num_rows, self.num_items
        )

    def keep(self, cells: Tensor) -> SparseRows:
        """Only the cells where the mask `[cells]` is true."""
        if not is_host_readable(cells.device):
            counted = cells if self.counted is None else cells & self.counted
            return SparseRows(self.offsets, self.items, self.values, self.num_items, counted)
        kept = self.sum(cells.to(self.values.dtype)).long()
        offsets = torch.nn.functional.pad(kept.cumsum(0), (1, 0))
        return SparseRows(offsets, self.items[cells], self.values[cells], self.num_items)


class PaddedRows:
    """Rows of the data station by number, to be looked up where the numbers are."""

    def __init__(self, cells: Interactions) -> None:
        self._offsets, self._items = (
            DeviceColumn(torch.as_tensor(part)) for part in (cells.offsets, cells.items)
        )
        self.longest = int(np.diff(cells.offsets).max(initial=0))
        self._num_items = cells.num_items

    def select(self, numbers: Tensor) -> SparseRows:
        """These rows, each as long as the longest; what is no number of a row is an empty one."""
        device, last = numbers.device, len(self._offsets) - 2
        offsets, items = self._offsets.on(device), self._items.on(device)
        row = numbers.clamp(0, max(0, last))
        first = offsets[row]
        length = torch.where(row == numbers, offsets[(row + 1).clamp(max=last + 1)] - first, 0)
        place = torch.arange(self.longest, device=device)
        counted = place < length[:, None]
        found = torch.where(
            counted, items[torch.where(counted, first[:, None] + place, 0)], self._num_items - 1
        ).reshape(-1)
        starts = torch.arange(len(numbers) + 1, device=device) * self.longest
        ones = torch.ones(len(found), dtype=float_type(device), device=device)
        return SparseRows(starts, found, ones, self._num_items, counted.reshape(-1))


def read_target(
    target: Any, batch: int, num_items: int, device: torch.device, candidates: Tensor | None = None
) -> SparseRows:
    """The truth of a batch in the forms that `update` takes.

    A dense `[batch, items]` tensor, a sparse one (torch or scipy), or the items of each row: a list
    of lists, or an integer tensor `[batch, n]` (n not the number of items) padded with -1. With
    `candidates [batch, n]`, a dense matrix of their shape is about these.

    What is on the host is read there, and sent to the device. On the device, how many cells a dense
    matrix has must be waited for; the other forms say it by their shape."""
    if isinstance(target, SparseRows):
        return target
    if (
        candidates is not None
        and isinstance(target, (Tensor, np.ndarray))
        and tuple(target.shape) == tuple(candidates.shape)
    ):
        dense = torch.as_tensor(target)
        if dense.layout == torch.strided and not dense.is_complex():
            return _rows_of_candidates(to_device(dense.detach(), device), candidates, num_items)
    if isinstance(target, Tensor) and target.layout == torch.strided and not target.is_complex():
        integers = not target.is_floating_point() and target.dtype != torch.bool
        if integers and (target.ndim == 1 or (target.ndim == 2 and target.shape[1] != num_items)):
            return _rows_of_ids(
                target[:, None] if target.ndim == 1 else target, batch, num_items, device
            )
        return _rows_of_dense(target.detach(), batch, num_items, device)
    if isinstance(target, (list, tuple)):
        return _rows_of_ids(_pad(target), batch, num_items, device)
    if isinstance(target, Mapping):
        _refuse("names users and items by ids", batch, num_items)
    if target is None:
        _refuse(f"is a {type(target).__name__}", batch, num_items)
    if (
        isinstance(target, Tensor)
        and target.ndim == 2
        and not is_host_readable(target.device)
        and not target.is_complex()
    ):
        if target.layout == torch.sparse_coo and target.dense_dim() == 0:
            (row_of, item_of), ratings = target._indices(), target._values()
            return _rows_of_cells(row_of, item_of, ratings, target.shape, batch, num_items).on(
                device
            )
        if target.layout == torch.sparse_csr:
            given = SparseRows(
                target.crow_indices(), target.col_indices(), target.values(), num_items
            )
            return _rows_of_cells(
                given.rows, given.items, given.values, target.shape, batch, num_items
            ).on(device)
    cells = read_interactions(target, "target")
    if cells.shape is None:
        _refuse("names users and items by ids", batch, num_items)
    if cells.shape != (batch, num_items):
        _refuse(f"has shape {list(cells.shape)}", batch, num_items)
    items = cells.items.to_numpy()
    if len(
        outside := items[(items < 0) | (items >= num_items)]
    ):  # torch and scipy do not look at the indices that they are given
        _refuse_item(int(outside[0]), num_items)
    rows = Interactions.from_codes(cells.users.to_numpy(), items, cells.values, batch, num_items)
    if rows.find_duplicates().any():
        raise InputError(
            "target holds the same (row, item) twice; each item may occur once per row."
        )
    return SparseRows.of(rows, device)


def _refuse(got: str, batch: int, num_items: int) -> NoReturn:
    raise InputError(
        f"target {got}, but preds has {batch} rows and {num_items} items; expected a [{batch}, "
        f"{num_items}] "
        "matrix, dense or sparse, or the relevant items of each row: a list of lists, or an "
        "integer tensor padded with -1."
    )


def _refuse_item(item: int, num_items: int) -> NoReturn:
    raise InputError(
        f"target holds the item {item}; items are the columns of preds, 0 to {num_items - 1}."
    )


def _rows_of_dense(target: Tensor, batch: int, num_items: int, device: torch.device) -> SparseRows:
    if target.ndim != 2 or tuple(target.shape) != (batch, num_items):
        _refuse(f"has shape {list(target.shape)}", batch, num_items)
    rows, items = target.nonzero(
        as_tuple=True
    )  # waits, where the host does not see it: how many cells there are is data
    offsets = torch.searchsorted(rows, torch.arange(batch + 1, device=rows.device))
    return SparseRows(offsets, items, target[rows, items], num_items).on(device)


def _rows_of_candidates(target: Tensor, items: Tensor, num_items: int) -> SparseRows:
    """A rating for each candidate, 0 where it has none."""
    astray = ((target != 0) & (items < 0)).sum()
    if not is_host_readable(items.device):
        ids = torch.where((target != 0) & (items >= 0) & (items < num_items), items, num_items)
        ids, order = ids.sort(dim=1)
        return replace(
            _fixed(ids, target.gather(1, order), num_items), faults={"bad_candidates": astray}
        )
    if bool(astray):
        raise InputError(
            "target has a rating where items is -1, which is no item; expected 0 there."
        )
    rows, places = target.nonzero(as_tuple=True)
    found = items[rows, places]
    order = (rows * num_items + found).argsort()
    offsets = torch.searchsorted(rows, torch.arange(len(items) + 1, device=rows.device))
    return SparseRows(
        offsets, found[order], target[rows, places][order].to(float_type(target.device)), num_items
    )


def _rows_of_cells(
    rows: Tensor, items: Tensor, values: Tensor, shape: Sequence[int], batch: int, num_items: int
) -> SparseRows:
    """Cells in any order, where the host would have to wait to look at them."""
    if tuple(shape) != (batch, num_items):
        _refuse(f"has shape {list(shape)}", batch, num_items)
    outside = (items < 0) | (items >= num_items)
    keys, order = (rows.long() * num_items + items.clamp(0, max(0, num_items - 1))).sort()
    offsets = torch.searchsorted(keys, torch.arange(batch + 1, device=keys.device) * num_items)
    repeated = torch.zeros_like(keys, dtype=torch.bool)
    repeated[1:] = keys[1:] == keys[:-1]
    sorted_items = keys % max(1, num_items)
    faults = {"bad_targets": repeated.sum() + outside.sum()}
    return SparseRows(offsets, sorted_items, values[order], num_items, ~repeated, faults)


def _fixed(ids: Tensor, values: Tensor, num_items: int) -> SparseRows:
    """Rows that are all equally long: ids `[batch, n]`, ascending in a row, `num_items` behind its
    end.
    """
    width = ids.shape[1] if num_items else 0
    offsets = torch.arange(len(ids) + 1, device=ids.device) * width
    ids, values = (
        ids[:, :width].reshape(-1),
        values[:, :width].reshape(-1).to(float_type(ids.device)),
    )
    return SparseRows(offsets, ids.clamp(max=num_items - 1), values, num_items, ids < num_items)


def _pad(lists: Sequence[Any]) -> Tensor:
    """Lists of items as one tensor, short ones filled up with -1."""
    rows = []
    for number, given in enumerate(lists):
        row = (
            torch.as_tensor(given)
            if isinstance(given, (Tensor, np.ndarray))
            else _as_integers(given)
        )
        if (
            row is None
            or row.ndim > 1
            or row.is_complex()
            or (row.is_floating_point() and row.numel())
        ):
            raise InputError(
                f"target has {given!r} for row {number}; expected a list of item numbers."
            )
        rows.append(row.reshape(-1).long())
    empty = torch.empty((0, 0), dtype=torch.int64)
    return (
        torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1) if rows else empty
    )


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
    ids = ids.long()
    if not is_host_readable(ids.device):
        return _rows_of_unseen_ids(ids, num_items).on(device)
    if ids.numel() and (int(ids.max()) >= num_items or int(ids.min()) < -1):
        _refuse_item(int(ids[(ids >= num_items) | (ids < -1)][0]), num_items)
    ids = ids.sort(dim=1).values
    if ((ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)).any():
        raise InputError(
            "target holds the same (row, item) twice; each item may occur once per row."
        )
    present = ids >= 0
    offsets = torch.nn.functional.pad(present.sum(1).cumsum(0), (1, 0))
    items = ids[present]
    return SparseRows(offsets, items, torch.ones_like(items, dtype=torch.float64), num_items).on(
        device
    )


def _rows_of_unseen_ids(ids: Tensor, num_items: int) -> SparseRows:
    """The same where the host would have to wait to look at them."""
    outside = ((ids >= num_items) | (ids < -1)).sum()
    ids = torch.where(ids < 0, num_items, ids).clamp(max=num_items).sort(dim=1).values
    repeated = ((ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] < num_items)).sum()
    rows = _fixed(ids, torch.ones_like(ids), num_items)
    return replace(rows, faults={"bad_targets": outside + repeated})
