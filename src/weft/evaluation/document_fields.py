"""Checks of fields that were read from a file, before anything uses them.

Each raises `InputError` with the name of the field, its content and what was expected. A digest
shows that a file was damaged, not who wrote it: every index is checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn

import torch
from torch import Tensor

from weft.errors import InputError

_SHOWN_LENGTH = 60  # of a wrong value in a message

FLOATS = (torch.float64, torch.float32)
INTEGERS = (torch.int64,)


def reject(field: str, got: object, expected: str) -> NoReturn:
    """Raise `InputError` for a field; `got` is the value, or a text about it."""
    text = got if isinstance(got, str) else describe(got)
    raise InputError(f"{field} is {text}; expected {expected}. It is damaged, or was changed.")


def describe(value: object) -> str:
    """Return a value for a message, shortened."""
    if isinstance(value, Tensor):
        return f"a tensor {list(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, (Mapping, list)):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}..."


def check_mapping(
    value: object, field: str, names: Collection[str] | None = None
) -> dict[str, Any]:
    """Return a mapping from strings, with exactly these names if they are given."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        reject(field, value, "fields by name")
    if names is not None:
        for name in names:
            if name not in value:
                reject(f"{field}[{name!r}]", "missing", "a value")
        for name in value:
            if name not in names:
                reject(f"{field}[{describe(name)}]", value[name], "no such field")
    return dict(value)


def check_plain(value: object, field: str, names: Collection[str] | None = None) -> dict[str, Any]:
    """Return a mapping as `check_mapping` does, without tensors."""
    fields = check_mapping(value, field, names)
    for name, inner in _walk(fields, field):
        if isinstance(inner, Tensor):
            reject(name, inner, "plain values")
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


def check_list(value: object, field: str, length: int | None = None) -> list[Any]:
    """Return a list, of this length if one is given."""
    if not isinstance(value, (list, tuple)) or length not in (None, len(value)):
        reject(field, value, "a list" if length is None else f"a list of {length}")
    return list(value)


def check_text(value: object, field: str) -> str:
    """Return a string."""
    if not isinstance(value, str):
        reject(field, value, "a text")
    return value


def check_whole(value: object, field: str, *, least: int = 0, end: int = 1 << 63) -> int:
    """Return an integer from `least` to below `end`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < end:
        reject(field, value, f"a whole number from {least} to below {end}")
    return value


def check_flag(value: object, field: str) -> bool:
    """Return a bool."""
    if not isinstance(value, bool):
        reject(field, value, "True or False")
    return value


def check_tensor(
    value: object,
    field: str,
    dtypes: Collection[torch.dtype],
    shape: tuple[int | None, ...],
) -> Tensor:
    """Return a dense tensor of one of these types; None in `shape` is any length."""
    is_valid = (
        isinstance(value, Tensor)
        and value.layout == torch.strided
        and value.dtype in dtypes
        and len(shape) == value.ndim
        and all(wanted in (None, length) for wanted, length in zip(shape, value.shape))
    )
    if not is_valid:
        lengths = ", ".join("n" if length is None else str(length) for length in shape)
        names = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        reject(field, value, f"a tensor [{lengths}] of {names}")
    assert isinstance(value, Tensor)
    return value.detach()


def check_codes(
    value: object, field: str, size: int | None, *, length: int | None = None, least: int = 0
) -> Tensor:
    """Return integers `[length]` from `least` to below `size`; None is any length or size."""
    codes = check_tensor(value, field, INTEGERS, (length,))
    end = 1 << 63 if size is None else size
    if len(codes) and not least <= int(codes.min()) <= int(codes.max()) < end:
        outside = codes[(codes < least) | (codes > end - 1)][0]
        what = f"from {least} up" if size is None else f"from {least} to {size - 1}"
        reject(field, f"with {int(outside)} among its numbers", f"numbers {what}")
    return codes


def check_counts(value: Tensor, field: str) -> None:
    """Check floats that are numbers of users, lists or errors."""
    is_count = (value >= 0) & (value < 2**53) & (value == value.floor())
    if not is_count.all():
        wrong = float(value[~is_count].reshape(-1)[0])
        reject(field, f"with {wrong} among its counts", "whole numbers from 0 up")


def check_offsets(value: object, field: str, end: int) -> Tensor:
    """Return offsets `[n + 1]` that ascend from 0 to `end`."""
    offsets = check_tensor(value, field, INTEGERS, (None,))
    is_valid = len(offsets) > 0 and int(offsets[0]) == 0 and int(offsets[-1]) == end
    if not is_valid or bool((offsets[1:] < offsets[:-1]).any()):
        reject(field, offsets, f"numbers that ascend from 0 to {end}")
    return offsets
