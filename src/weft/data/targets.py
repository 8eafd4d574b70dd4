"""The `target` argument of `update`: the truth of a batch, read as sparse rows."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from weft.data.devices import check_has_data, float_type, is_host_readable, to_device
from weft.data.interaction_readers import IGNORED_ITEM, read_interactions
from weft.data.interactions import Interactions
from weft.data.tensors import SparseRows
from weft.errors import InputError, check_unmasked

_REPEATED = "target contains the same (row, item) pair twice; each item may occur once per row."


def read_target(
    target: Any,
    batch: int,
    *,
    num_items: int,
    device: torch.device,
    candidates: Tensor | None = None,
) -> SparseRows:
    """Return the truth of a batch as sparse rows on a device.

    `target` is a dense `[batch, items]` tensor, a sparse matrix (torch or scipy), or the items of
    each row: a list of lists, or integers `[batch, n]` (n not the number of items) padded with -1
    or -100. With `candidates [batch, n]`, a dense matrix of that shape holds their ratings. NumPy
    arrays are read like tensors.

    A target on the host is read there and sent to the device. On another device, the number of
    nonzero values of a dense matrix forces a synchronization; the other forms do not."""
    if isinstance(target, SparseRows):
        return target
    if candidates is not None and _has_shape(target, candidates.shape):
        check_unmasked(target, "target", "give array.filled(0), where 0 means no interaction")
        dense = torch.as_tensor(target)
        if _is_dense(dense):
            return _read_candidate_ratings(
                to_device(dense.detach(), device), candidates, num_items=num_items
            )
    if isinstance(target, np.ndarray) and target.dtype.kind in "biuf":
        check_unmasked(target, "target", "give array.filled(0), where 0 means no interaction")
        target = torch.as_tensor(target)
    if isinstance(target, Tensor) and _is_dense(target):
        return _read_strided(target, batch, num_items=num_items).to(device)
    if isinstance(target, (list, tuple)):
        return _read_items(_pad_lists(target), batch, num_items=num_items).to(device)
    if target is None or isinstance(target, Mapping):
        got = "is None" if target is None else "names users and items by ids"
        _refuse_form(got, batch, num_items)
    if isinstance(target, Tensor) and not is_host_readable(target.device):
        rows = _read_sparse_on_device(target, batch, num_items=num_items)
        if rows is not None:
            return rows.to(device)
    return _read_sparse(target, batch, num_items=num_items, device=device)


def _has_shape(target: Any, shape: Sequence[int]) -> bool:
    return isinstance(target, (Tensor, np.ndarray)) and tuple(target.shape) == tuple(shape)


def _is_dense(target: Tensor) -> bool:
    return target.layout == torch.strided and not target.is_complex()


def _refuse_form(got: str, batch: int, num_items: int) -> NoReturn:
    raise InputError(
        f"target {got}, but preds has {batch} rows and {num_items} items; expected a [{batch}, "
        f"{num_items}] matrix, dense or sparse, or the relevant items of each row: a list of "
        "lists, or integers padded with -1 or -100."
    )


def _refuse_item(item: int, num_items: int) -> NoReturn:
    raise InputError(
        f"target contains the item {item}; items are the columns of preds, 0 to {num_items - 1}."
    )


def _read_strided(target: Tensor, batch: int, *, num_items: int) -> SparseRows:
    """Read the items of each row, or a dense matrix of ratings."""
    if not target.is_floating_point() and target.dtype != torch.bool:
        if target.ndim == 1:
            return _read_items(target[:, None], batch, num_items=num_items)
        if target.ndim == 2 and target.shape[1] != num_items:
            return _read_items(target, batch, num_items=num_items)
    check_has_data(target, "target")
    target = target.detach()
    if target.ndim != 2 or tuple(target.shape) != (batch, num_items):
        _refuse_form(f"has shape {list(target.shape)}", batch, num_items)
    rows, items = target.nonzero(as_tuple=True)  # forces a synchronization on other devices
    offsets = torch.searchsorted(rows, torch.arange(batch + 1, device=rows.device))
    return SparseRows(offsets, items, target[rows, items], num_items)


def _read_candidate_ratings(target: Tensor, items: Tensor, *, num_items: int) -> SparseRows:
    """Read a rating for each candidate, `[batch, n]`; 0 is no interaction."""
    num_without_item = ((target != 0) & (items < 0)).sum()
    if not is_host_readable(items.device):
        ids = torch.where((target != 0) & (items >= 0) & (items < num_items), items, num_items)
        ids, order = ids.sort(dim=1)
        rows = _rows_of_equal_length(ids, target.gather(1, order), num_items)
        return replace(rows, error_counts={"bad_candidates": num_without_item})
    if bool(num_without_item):
        raise InputError("target has a rating where items is -1 (padding); expected 0 there.")
    row_numbers, columns = target.nonzero(as_tuple=True)
    rated = items[row_numbers, columns]
    order = (row_numbers * num_items + rated).argsort()
    ratings = target[row_numbers, columns][order].to(float_type(target.device))
    offsets = torch.searchsorted(
        row_numbers, torch.arange(len(items) + 1, device=row_numbers.device)
    )
    return SparseRows(offsets, rated[order], ratings, num_items)


def _read_sparse(target: Any, batch: int, *, num_items: int, device: torch.device) -> SparseRows:
    """Read a sparse matrix on the host."""
    table = read_interactions(target, "target")
    if table.shape is None:
        _refuse_form("names users and items by ids", batch, num_items)
    if table.shape != (batch, num_items):
        _refuse_form(f"has shape {list(table.shape)}", batch, num_items)
    codes = table.users.to_numpy(), table.items.to_numpy()
    rows = Interactions.from_codes(*codes, table.values, batch, num_items)
    if rows.find_duplicates().any():
        raise InputError(_REPEATED)
    return SparseRows.from_interactions(rows, device)


def _read_sparse_on_device(target: Tensor, batch: int, *, num_items: int) -> SparseRows | None:
    """Read a sparse matrix that the host cannot read; None for other layouts."""
    if target.ndim != 2 or target.is_complex():
        return None
    is_coo = target.layout == torch.sparse_coo and target.dense_dim() == 0
    if not is_coo and target.layout != torch.sparse_csr:
        return None
    if tuple(target.shape) != (batch, num_items):
        _refuse_form(f"has shape {list(target.shape)}", batch, num_items)
    if is_coo:
        (rows, items), values = target._indices(), target._values()
    else:
        items, values = target.col_indices(), target.values()
        rows = _expand_pointers(target.crow_indices(), len(items))
        if len(target.crow_indices()) != batch + 1:
            _refuse_form(f"has {len(target.crow_indices())} row pointers", batch, num_items)
    is_unknown = (items < 0) | (items >= num_items) | (rows < 0) | (rows >= batch)
    rows = rows.long().clamp(0, max(0, batch - 1))
    keys, order = (rows * num_items + items.clamp(0, max(0, num_items - 1))).sort()
    offsets = torch.searchsorted(keys, torch.arange(batch + 1, device=keys.device) * num_items)
    is_repeated = torch.zeros_like(keys, dtype=torch.bool)
    is_repeated[1:] = keys[1:] == keys[:-1]
    error_counts = {"bad_targets": is_repeated.sum() + is_unknown.sum()}
    return SparseRows(
        offsets, keys % max(1, num_items), values[order], num_items, ~is_repeated, error_counts
    )


def _expand_pointers(pointers: Tensor, num_values: int) -> Tensor:
    """Return the row of each value of a CSR matrix, -1 if the row pointers are invalid."""
    is_valid = (pointers[:1] == 0) & (pointers[-1:] == num_values)
    is_valid = is_valid & (pointers[1:] >= pointers[:-1]).all()
    numbers = torch.arange(num_values, device=pointers.device, dtype=pointers.dtype)
    rows = torch.searchsorted(pointers, numbers, right=True) - 1
    return torch.where(is_valid, rows, -1)


def _rows_of_equal_length(items: Tensor, values: Tensor, num_items: int) -> SparseRows:
    """Return rows of one length from items `[batch, n]`, ascending, `num_items` as padding."""
    width = items.shape[1] if num_items else 0
    offsets = torch.arange(len(items) + 1, device=items.device) * width
    items = items[:, :width].reshape(-1)
    values = values[:, :width].reshape(-1).to(float_type(items.device))
    return SparseRows(offsets, items.clamp(max=num_items - 1), values, num_items, items < num_items)


def _pad_lists(lists: Sequence[Any]) -> Tensor:
    """Return lists of items as a tensor `[batch, n]`, short ones padded with -1."""
    rows = []
    for number, items in enumerate(lists):
        is_array = isinstance(items, (Tensor, np.ndarray))
        check_unmasked(items, f"row {number} of target", "give array.compressed()")
        row = torch.as_tensor(items) if is_array else _as_integers(items)
        is_invalid = row is None or row.ndim > 1 or row.is_complex()
        if row is None or is_invalid or (row.is_floating_point() and row.numel()):
            raise InputError(
                f"target has {items!r} for row {number}; expected a list of item numbers."
            )
        rows.append(row.reshape(-1).long())
    if not rows:
        return torch.empty((0, 0), dtype=torch.int64)
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)


def _as_integers(items: Any) -> Tensor | None:
    items = [items] if isinstance(items, int) else items
    if isinstance(items, Mapping):  # its ratings would be lost
        return None
    try:
        return torch.tensor([operator.index(item) for item in items], dtype=torch.int64)
    except TypeError:
        return None


def _read_items(items: Tensor, batch: int, *, num_items: int) -> SparseRows:
    """Read the items of each row, `[batch, n]` padded; every rating is 1."""
    if len(items) != batch:
        _refuse_form(f"has {len(items)} rows", batch, num_items)
    items = items.long()
    items = torch.where(items == IGNORED_ITEM, -1, items)
    if not is_host_readable(items.device):
        return _read_items_on_device(items, num_items)
    if items.numel() and (int(items.max()) >= num_items or int(items.min()) < -1):
        _refuse_item(int(items[(items >= num_items) | (items < -1)][0]), num_items)
    items = items.sort(dim=1).values
    repeated = (items[:, 1:] == items[:, :-1]) & (items[:, 1:] >= 0)
    if repeated.any():
        row, column = repeated.nonzero()[0].tolist()
        raise InputError(
            f"{_REPEATED} Row {row} contains the item {int(items[row, column])} more than once. "
            "These integers are item numbers, and -1 or -100 pads short rows; a matrix of ratings "
            f"has one column per item, [{batch}, {num_items}]."
        )
    is_item = items >= 0
    offsets = torch.nn.functional.pad(is_item.sum(1).cumsum(0), (1, 0))
    items = items[is_item]
    return SparseRows(offsets, items, torch.ones_like(items, dtype=torch.float64), num_items)


def _read_items_on_device(items: Tensor, num_items: int) -> SparseRows:
    num_unknown = ((items >= num_items) | (items < -1)).sum()
    items = torch.where(items < 0, num_items, items).clamp(max=num_items).sort(dim=1).values
    num_repeated = ((items[:, 1:] == items[:, :-1]) & (items[:, 1:] < num_items)).sum()
    rows = _rows_of_equal_length(items, torch.ones_like(items), num_items)
    return replace(rows, error_counts={"bad_targets": num_unknown + num_repeated})
