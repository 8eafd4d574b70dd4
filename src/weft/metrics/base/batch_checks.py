"""Checks of the tensors that a caller passes to `update`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.batch.input_validation import validation_for
from weft.data import BatchLists
from weft.data.devices import is_host_readable, read_tensor
from weft.data.sources.base import as_tensor
from weft.errors import InputError, check_unmasked, describe_type


def check_batch(preds: Any, user_indices: Any, *, first: int = 0) -> tuple[Tensor, Tensor]:
    """Return scores `[batch, items]` and the user number of each row `[batch]`.

    Rows without user numbers are counted from `first`."""
    is_array = isinstance(preds, (Tensor, np.ndarray))
    if not is_array or preds.ndim != 2:
        got = f"of shape {list(preds.shape)}" if is_array else describe_type(preds)
        raise InputError(f"preds is {got}; expected scores [batch, items] as a tensor or an array.")
    scores = as_tensor(preds, "preds")
    if user_indices is None:
        return scores, torch.arange(first, first + len(scores), device=scores.device)
    check_unmasked(user_indices, "user_indices", "give the number of each user")
    users = read_tensor(user_indices, "user_indices", scores.device)
    if users.shape != scores.shape[:1]:
        raise InputError(
            f"user_indices has shape {list(users.shape)}, but preds has {len(scores)} rows; give "
            "one user index per row."
        )
    if not is_integer(users):
        raise InputError(
            f"user_indices has the type {users.dtype}; expected integers, one per row."
        )
    # A copy, since they are kept and the caller may reuse the tensor.
    return scores, users.to(torch.int64, copy=True)


def replace_invalid_scores(scores: Tensor, nan_scores: str) -> tuple[Tensor, Tensor | int]:
    """Return scores with `-inf` instead of NaN and +inf, and the number of rows with such scores.

    With `nan_scores="raise"`, they are left for the checks that raise. The caller's scores are not
    written to."""
    if nan_scores == "raise":
        return scores, 0
    is_valid = scores < torch.inf
    num_rows = (~is_valid).any(1).sum()
    if is_host_readable(scores.device) and not bool(num_rows):
        return scores, num_rows
    return torch.where(is_valid, scores, -torch.inf), num_rows


def check_item_numbers(items: Any, scores: Tensor) -> Tensor:
    """Return the item number of each score, `[batch, n]`."""
    check_unmasked(items, "items", "give array.filled(-1), where -1 pads short rows")
    numbers = read_tensor(items, "items", scores.device)
    if numbers.shape != scores.shape:
        raise InputError(
            f"items has shape {list(numbers.shape)}, but preds has shape {list(scores.shape)}; "
            "expected one item for each score."
        )
    if not is_integer(numbers):
        raise InputError(
            f"items has the type {numbers.dtype}; expected integer item numbers, with -1 as "
            "padding of short rows."
        )
    return numbers.long()


def read_predictions(
    scores: Tensor, candidates: Tensor | None, *, users: Tensor, num_items: int
) -> Tensor | BatchLists:
    """Return the scores, as lists if they are those of candidates."""
    if candidates is None:
        return scores
    return validation_for(scores.device).read_candidates(
        scores, candidates, users=users, num_items=num_items
    )


def count_items(target: Any, candidates: Tensor) -> int:
    """Return the catalogue size where only candidates have scores.

    It is the number of columns of a target that is a matrix; otherwise the highest item number that
    occurs determines it."""
    shape = tuple(getattr(target, "shape", ()))
    is_ids = isinstance(target, Tensor) and not (
        target.is_floating_point() or target.dtype == torch.bool or target.is_sparse
    )
    if len(shape) == 2 and not is_ids and shape != tuple(candidates.shape):
        return int(shape[1])
    numbers = [candidates]
    if isinstance(target, (list, tuple)) or (is_ids and shape != tuple(candidates.shape)):
        numbers += [torch.as_tensor(row, device=candidates.device) for row in target]
    return 1 + max((int(some.max()) for some in numbers if some.numel()), default=-1)


def is_integer(numbers: Tensor) -> bool:
    """Return True for a tensor of integers, or without elements."""
    is_other = numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool
    return not is_other or numbers.numel() == 0


def check_users(users: Tensor, size: int, argument: str) -> None:
    """Raise `InputError` for user numbers that are not rows of an input of `size` users.

    On a device that is not host-readable, `count_users_outside` counts them instead."""
    if not is_host_readable(users.device) or len(users) == 0:
        return
    if int(users.min()) < 0 or int(users.max()) >= size:
        outside = int(users[(users < 0) | (users >= size)][0])
        raise InputError(
            f"user_indices contains {outside}; expected rows of {argument}, from 0 to {size - 1}."
        )


def count_users_outside(users: Tensor, size: int) -> Tensor:
    """Return the number of user numbers that are not rows of an input of `size` users."""
    return ((users < 0) | (users >= size)).sum()
