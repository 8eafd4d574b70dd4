"""The interface of sources of scores, and the conversion of scores to tensors."""

from __future__ import annotations

import hashlib
from copy import copy
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.devices import check_has_data, float_type, is_host_readable
from weft.data.precision import EXACT_LIMIT, inexact_integers
from weft.errors import InputError, describe_type

_SAMPLES_PER_AXIS = 256  # of a digest


class Source(Protocol):
    """A source of scores for ranges of users.

    `num_users` is None if the source can score any user; `num_items` is None until the first
    scores are known. `has_scores_in_memory`: `scores` returns views, so that a batch takes no
    memory. `supports_item_subsets`: `scores_for_items` computes only the requested scores.
    `user_ids` and `item_ids` are the ids of the rows and columns if the source has them, `path` its
    file.
    """

    kind: str
    num_users: int | None
    num_items: int | None
    has_scores_in_memory: bool
    supports_item_subsets: bool
    user_ids: Any
    item_ids: Any
    path: str | None

    def scores(self, start: int, stop: int, users: Any, items: Any = None) -> Tensor:
        """Return the scores `[stop - start, items]` of rows `start` to `stop - 1`.

        `users` are the ids of these rows, `items` the ids of the catalogue.
        """
        ...

    def scores_for_items(self, rows: Tensor, users: Any, items: Tensor, ids: Any) -> Tensor:
        """Return the scores `[rows, n]` of some items of each row.

        `items [rows, n]` are columns; `ids` are the ids of all columns.
        """
        ...

    def select_users(self, rows: NDArray[np.int64]) -> Source:
        """Return a source of some rows, in their order."""
        ...

    def fingerprint(self) -> str | None:
        """Return a digest of the scores; None if they cannot be read without computing them."""
        ...


def own_ids(source: Source) -> dict[str, Any]:
    """Return the ids of the rows (`users`) and of the columns (`items`) that a source has."""
    ids = {"users": source.user_ids, "items": source.item_ids}
    return {name: given for name, given in ids.items() if given is not None}


def without_own_ids(source: Source) -> Source:
    """Return the source without the ids of its rows and columns."""
    source = copy(source)
    source.user_ids = source.item_ids = None
    return source


def check_scores(scores: Any, what: str) -> None:
    """Raise `InputError` unless `scores` is a dense array or tensor of real numbers."""
    if isinstance(scores, np.ndarray):
        is_readable = scores.dtype.kind in "fiub" and scores.dtype.itemsize <= 8
    elif isinstance(scores, Tensor):
        floats = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
        is_real = scores.dtype in floats or not (scores.is_floating_point() or scores.is_complex())
        is_readable = is_real and scores.layout == torch.strided
    else:
        raise InputError(
            f"{what} is {describe_type(scores)}; expected a torch tensor or a NumPy array."
        )
    if isinstance(scores, Tensor):
        check_has_data(scores, what)
    if not is_readable:
        layout = f", {scores.layout}, on {scores.device}" if isinstance(scores, Tensor) else ""
        raise InputError(
            f"{what} has the type {scores.dtype}{layout}; scores must be real numbers, as a dense "
            "matrix of float64, float32, float16, bfloat16 or integers."
        )


def as_tensor(data: Any, what: str) -> Tensor:
    """Return scores as a floating-point tensor; integers become float64, exact up to 2**53.

    The masked cells of a masked array become -inf."""
    check_scores(data, what)
    if isinstance(data, np.ma.MaskedArray):
        return _fill_masked(data, what)
    if isinstance(data, np.ndarray):
        data = _share_array(data)
    scores: Tensor = data.detach()
    if scores.is_floating_point():
        return scores
    is_wide = scores.dtype in (torch.int64, torch.uint64)
    if not is_host_readable(scores.device):
        # Integers that are too large become NaN, which is counted and raised later.
        floats = scores.to(float_type(scores.device))
        limit = 2 / torch.finfo(floats.dtype).eps
        if is_wide or limit < EXACT_LIMIT:
            return torch.where(floats.abs() <= limit, floats, torch.nan)
        return floats
    if is_wide and scores.numel():
        _check_exact(scores, what)
    return scores.double()


def _check_exact(scores: Tensor, what: str) -> None:
    """Raise `InputError` for integers that float64 rounds."""
    integers = scores.long()  # unsigned ones from 2**63 on become negative
    lowest = 0 if scores.dtype == torch.uint64 else -EXACT_LIMIT
    low, high = torch.aminmax(integers)
    if low < lowest or high > EXACT_LIMIT:
        cell = tuple(((integers < lowest) | (integers > EXACT_LIMIT)).nonzero()[0].tolist())
        raise inexact_integers(what, f"position {list(cell)}", scores[cell].item(), "score")


def _fill_masked(array: np.ma.MaskedArray[Any, Any], what: str) -> Tensor:
    scores = as_tensor(array.data, what)
    if not np.ma.is_masked(array):
        return scores
    return scores.masked_fill(torch.from_numpy(np.ma.getmaskarray(array)), -torch.inf)


def _share_array(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor that shares the memory of an array; a copy if torch cannot share it."""
    if not array.dtype.isnative or any(stride < 0 for stride in array.strides):
        array = np.array(array, dtype=array.dtype.newbyteorder("="))
    if not array.flags.writeable:
        array = np.asarray(_UnlockedArray(array))
    return torch.from_numpy(array)


class _UnlockedArray:
    """The memory of a read-only array without that mark, about which torch would warn.

    Nothing in Weft writes to the tensors of callers."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array  # keeps the memory alive
        address = array.__array_interface__["data"][0]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def digest_samples(*arrays: Any) -> str:
    """Return a digest of shapes, types and up to 65,536 evenly spaced elements of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            continue
        digest.update(f"{tuple(array.shape)}{array.dtype}".encode())
        rows, columns = (max(1, size // _SAMPLES_PER_AXIS) for size in (*array.shape, 1)[:2])
        sample = array[::rows] if array.ndim == 1 else array[::rows, ::columns]
        digest.update(as_tensor(sample, "a sample").cpu().double().numpy().tobytes())
    return digest.hexdigest()[:16]
