"""Differences between devices: reading values, copying tensors, and deferred errors."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.errors import InputError, describe_type, setting_ref

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")

# Invalid inputs that `update` refuses at once where the host can read them. Elsewhere that would
# force a synchronization: `update` counts them on the device, and `compute` raises.
DEFERRED_ERRORS = {
    "bad_scores": "the scores contain NaN or +inf; scores must be finite, or -inf for items that "
    "are not candidates.",
    "bad_targets": (
        "target has items that are not columns of preds, or the same (row, item) twice; items are "
        "numbered from 0, -1 pads short rows, and each item may occur once per row."
    ),
    "bad_ratings": (
        "the truth has ratings that are not finite numbers, negative ones without "
        f"{setting_ref('relevance_threshold')}, or ratings above the max_grade of a metric; "
        "remove or repair them, set a threshold, or give another max_grade."
    ),
    "bad_candidates": (
        "items has invalid item numbers, or a row with the same item twice, or a rating in target "
        "where items is -1; items are numbered from 0, -1 pads short rows, and each candidate may "
        "occur once."
    ),
    "bad_probabilities": (
        "the scores contain values outside [0, 1], but a metric reads them as probabilities. Use "
        'scores="logits" in the metric if the scores are log-odds, or rescale them.'
    ),
    "bad_users": "user_indices has numbers that are not rows of train, user_groups or slices; "
    "give the user of each row, numbered from 0.",
}

_is_cpu_treated_as_device: ContextVar[bool] = ContextVar("cpu_as_device", default=False)


def is_host_readable(device: torch.device) -> bool:
    """Return True if reading values does not force a device synchronization: on the CPU.

    Only there may shapes depend on the data."""
    return device.type == "cpu" and not _is_cpu_treated_as_device.get()


@contextmanager
def treat_cpu_as_device() -> Iterator[None]:
    """Treat the CPU as a device that the host cannot read, for tests and measurements."""
    token = _is_cpu_treated_as_device.set(True)
    try:
        yield
    finally:
        _is_cpu_treated_as_device.reset(token)


def float_type(device: torch.device) -> torch.dtype:
    """Return the dtype of sums: float64, or float32 if the device has no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def check_has_data(tensor: Tensor, where: str) -> None:
    """Raise `InputError` for a tensor on the device "meta"; `where` names it."""
    if tensor.is_meta:
        raise InputError(
            f'{where} is a tensor on the device "meta", which has no data; give a tensor on the '
            "CPU or another device."
        )


def read_array(data: Any, where: str) -> NDArray[Any]:
    """Return a tensor or anything that NumPy reads as an array; `where` names it in errors."""
    if isinstance(data, Tensor):
        check_has_data(data, where)
        if data.layout != torch.strided:
            raise InputError(f"{where} is a sparse tensor; give a dense one: tensor.to_dense().")
        data = data.detach().cpu()
    try:
        return np.asarray(data)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{where} is {describe_type(data)} that cannot be converted to an array ({error}); "
            "give an array, or lists of equal length."
        ) from None


def read_tensor(data: Any, where: str, device: torch.device) -> Tensor:
    """Return data that torch reads as a tensor on a device; `where` names it in errors."""
    try:
        tensor = torch.as_tensor(data)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{where} is {describe_type(data)} that cannot be converted to a tensor ({reason}); "
            "give a tensor, an array or a list of numbers."
        ) from None
    check_has_data(tensor, where)
    return tensor if tensor.device == device else to_device(tensor, device)


def to_device(values: Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Return a tensor on a device. Copies from the host do not block."""
    # On MPS, the host's memory must outlive an asynchronous copy.
    is_asynchronous = values.device.type == "cpu" and device.type not in ("cpu", "mps")
    if is_asynchronous and device.type == "cuda":
        # Only copies from pinned memory do not block. The caller may write to its own memory
        # meanwhile, so that it is copied first.
        values = (values.clone() if values.is_pinned() else values).pin_memory()
    return values.to(device, dtype or values.dtype, non_blocking=is_asynchronous)


def dtype_preserving(move: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Wrap a function that moves tensors so that dtypes stay, whatever the precision of a model.

    The exception is float64 on devices without it."""

    def move_preserving(values: Tensor) -> Tensor:
        device = move(torch.empty(0, device=values.device)).device
        values = values.to(float_type(device)) if values.dtype == torch.float64 else values
        moved = move(values)
        return moved if moved.dtype == values.dtype else values.to(device)

    return move_preserving


def raise_deferred_errors(counts: Mapping[str, float]) -> None:
    """Raise `InputError` for the first kind of invalid input that was counted."""
    for name, message in DEFERRED_ERRORS.items():
        if counts.get(name):
            raise InputError(message)


class DeviceColumn:
    """A value for each item or user by code, `[n]`, or a vector, `[n, d]`. Each device gets its
    copy once."""

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self._copies: dict[torch.device, Tensor] = {values.device: values}

    def __len__(self) -> int:
        return len(self.values)

    def to(self, device: torch.device) -> Tensor:
        """Return the values on a device."""
        if device not in self._copies:
            dtype = float_type(device) if self.values.dtype == torch.float64 else None
            self._copies[device] = to_device(self.values, device, dtype)
        return self._copies[device]

    def lookup(self, codes: Tensor, fill: float = 0) -> Tensor:
        """Return the value of each code, `[*codes]` or `[*codes, d]`; `fill` for the code -1.

        Where the host cannot read the codes, unknown codes get `fill` too."""
        values = self.to(codes.device)
        shape = (*codes.shape, *values.shape[1:])
        if len(values) == 0:
            return torch.full(shape, fill, dtype=values.dtype, device=codes.device)
        flat = codes.reshape(-1)
        if not is_host_readable(codes.device):
            known = flat.clamp(0, len(values) - 1)
            is_known = (known == flat).view(-1, *(1 for _ in values.shape[1:]))
            return torch.where(is_known, values.index_select(0, known), fill).view(shape)
        if len(flat) == 0 or int(flat.min()) >= 0:
            return values.index_select(0, flat).view(shape)
        is_none = (flat < 0).view(-1, *(1 for _ in values.shape[1:]))
        selected = values.index_select(0, flat.clamp(min=0))
        return selected.masked_fill_(is_none, fill).view(shape)


def run_eagerly(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Keep `torch.compile` out of a function: a compiled caller has a graph break there.

    A decorator. `torch.compiler.disable` alone would import the compiler, which takes a second,
    for callers who never compile."""

    disabled: Callable[Parameters, Returned] | None = None

    @functools.wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        nonlocal disabled
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if disabled is None:
            disabled = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
        return disabled(*args, **kwargs)

    return run
