"""What differs between devices: whether the host can look at values, how tensors get there, and
what is refused when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from weft.errors import InputError

# What `update` refuses at once where the host can look. Elsewhere it would have to wait to know: it
# counts, and `compute` refuses.
DEFERRED_ERRORS = {
    "bad_scores": "the scores hold NaN or +inf; scores must be finite, or -inf for items that are "
    "not offered.",
    "bad_targets": (
        "target holds items that are no columns of preds, or the same (row, item) twice; items go "
        "from 0 up, -1 fills up short "
        "rows, and each item may occur once per row."
    ),
    "bad_ratings": (
        "the truth has ratings that are not finite numbers, or negative ones without "
        "relevance_threshold=; remove or repair them, "
        "or say from which rating on an item is relevant."
    ),
    "bad_candidates": (
        "items holds numbers that are no items, or the same item twice in a row, or a rating in "
        "target where it is -1; item "
        "numbers go from 0 up, -1 fills up short rows, and each candidate may occur once."
    ),
    "bad_users": "user_indices holds numbers that are no rows of train, user_groups or slices; "
    "give each row's user, from 0 up.",
}

_elsewhere: ContextVar[bool] = ContextVar("elsewhere", default=False)


def is_host_readable(device: torch.device) -> bool:
    """Whether the host sees values without waiting for them: on the CPU. There, shapes may depend
    on the data.
    """
    return device.type == "cpu" and not _elsewhere.get()


@contextmanager
def treat_cpu_as_device() -> Iterator[None]:
    """Treat the CPU like a device for which the host would have to wait: to test and to measure
    that way.
    """
    token = _elsewhere.set(True)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def float_type(device: torch.device) -> torch.dtype:
    """The type in which sums are kept: float64, or float32 where the device has no better."""
    return torch.float32 if device.type == "mps" else torch.float64


def to_device(values: Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor on a device. What comes from the host is on its way when this returns; nobody waits
    for it.
    """
    from_host = values.device.type == "cpu" and device.type not in (
        "cpu",
        "mps",
    )  # there, memory must outlive the copy
    if from_host and device.type == "cuda":
        # Only from pinned memory the copy does not wait; and from a copy of our own, because the
        # caller may go on to write to his.
        values = (values.clone() if values.is_pinned() else values).pin_memory()
    return values.to(device, dtype or values.dtype, non_blocking=from_host)


def dtype_preserving(move: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A function that moves tensors, such that types stay, whatever the precision of a model
    around; but for missing float64.
    """

    def moved(values: Tensor) -> Tensor:
        device = move(torch.empty(0, device=values.device)).device
        kept = values.to(float_type(device)) if values.dtype == torch.float64 else values
        found = move(kept)
        return found if found.dtype == kept.dtype else kept.to(device)

    return moved


def raise_deferred_errors(faults: Mapping[str, float]) -> None:
    """Refuse what was counted, if anything was."""
    for name, message in DEFERRED_ERRORS.items():
        if faults[name]:
            raise InputError(message)
