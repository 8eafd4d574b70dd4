"""Checks of tensors that were read from a file, as `document_fields` has them for plain values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from weft.evaluation.document_fields import check_mapping, describe, reject

FLOATS = (torch.float64, torch.float32)
INTEGERS = (torch.int64,)


def check_plain(value: object, field: str, names: Collection[str] | None = None) -> dict[str, Any]:
    """Return a mapping as `check_mapping` does, without tensors."""
    fields = check_mapping(value, field, names)
    for name, inner in _walk(fields, field):
        if isinstance(inner, Tensor):
            reject(name, describe(inner), "plain values")
    return fields


def _walk(value: object, field: str) -> Iterator[tuple[str, object]]:
    """Yield every value inside of lists and mappings, with its name."""
    yield field, value
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _walk(inner, f"{field}[{name!r}]")
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _walk(inner, field)


def check_tensor(
    value: object,
    field: str,
    dtypes: Collection[torch.dtype],
    shape: tuple[int | None, ...],
) -> Tensor:
    """Return a dense tensor of one of these types; None in `shape` is any length."""
    if not (isinstance(value, Tensor) and value.dtype in dtypes and _has_shape(value, shape)):
        lengths = ", ".join("n" if length is None else str(length) for length in shape)
        names = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        reject(field, describe(value), f"a tensor [{lengths}] of {names}")
    return value.detach()


def _has_shape(tensor: Tensor, shape: tuple[int | None, ...]) -> bool:
    """Return True for a dense tensor of a shape, in which None is any length."""
    return (
        tensor.layout == torch.strided
        and len(shape) == tensor.ndim
        and all(wanted in (None, length) for wanted, length in zip(shape, tensor.shape))
    )


def check_codes(
    value: object, field: str, size: int | None, *, length: int | None = None, least: int = 0
) -> Tensor:
    """Return integers `[length]` from `least` to below `size`; None is any length or size."""
    codes = check_tensor(value, field, INTEGERS, (length,))
    end = 1 << 63 if size is None else size
    if len(codes) and not least <= int(codes.min()) <= int(codes.max()) < end:
        outside = codes[(codes < least) | (codes > end - 1)][0]
        what = f"of at least {least}" if size is None else f"from {least} to {size - 1}"
        reject(field, f"with {int(outside)} among its numbers", f"numbers {what}")
    return codes


def check_counts(value: Tensor, field: str) -> None:
    """Check floats that are numbers of users, lists or errors."""
    is_count = (value >= 0) & (value < 2**53) & (value == value.floor())
    if not is_count.all():
        wrong = float(value[~is_count].reshape(-1)[0])
        reject(field, f"with {wrong} among its counts", "integers of at least 0")


def check_offsets(value: object, field: str, end: int) -> Tensor:
    """Return offsets `[n + 1]` that ascend from 0 to `end`."""
    offsets = check_tensor(value, field, INTEGERS, (None,))
    is_valid = len(offsets) > 0 and int(offsets[0]) == 0 and int(offsets[-1]) == end
    if not is_valid or bool((offsets[1:] < offsets[:-1]).any()):
        reject(field, describe(offsets), f"numbers that ascend from 0 to {end}")
    return offsets
