"""Integers that float64 rounds: scores and ratings must be exact, or they become ties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError

if TYPE_CHECKING:
    import polars as pl

EXACT_LIMIT = 2**53  # integers beyond it are rounded by float64
_NONE = np.empty(0, dtype=np.int64)


def find_inexact(numbers: Any) -> NDArray[np.int64]:
    """Return the positions of integers beyond 2**53 in an array, a polars column or a list."""
    import polars as pl

    if isinstance(numbers, np.ndarray):
        if numbers.dtype.kind not in "iu":
            return _NONE
        return np.flatnonzero((numbers > EXACT_LIMIT) | (numbers < -EXACT_LIMIT))
    if isinstance(numbers, pl.Series):
        kind = numbers.dtype
        if kind == pl.UInt64:
            return (numbers > EXACT_LIMIT).arg_true().to_numpy().astype(np.int64)
        is_whole_decimal = isinstance(kind, pl.Decimal) and kind.scale == 0
        if kind not in (pl.Int64, pl.Int128) and not is_whole_decimal:
            return _NONE  # floats, and integers that are too narrow
        is_large = (numbers > EXACT_LIMIT) | (numbers < -EXACT_LIMIT)
        return is_large.arg_true().to_numpy().astype(np.int64)
    rows = [row for row, number in enumerate(numbers) if _is_inexact(number)]
    return np.array(rows, dtype=np.int64)


def _is_inexact(number: Any) -> bool:
    return isinstance(number, (int, np.integer)) and abs(int(number)) > EXACT_LIMIT


def has_large_numbers(numbers: pl.Series) -> bool:
    """True if floats are so large that integers in their place would have been rounded."""
    bounds: list[Any] = [numbers.min(), numbers.max()]  # without a temporary array
    return any(bound is not None and abs(bound) >= EXACT_LIMIT for bound in bounds)


def inexact_integers(what: str, location: str, number: object, role: str) -> InputError:
    """Return the error for integers that float64 rounds, with the first of them.

    `what` names the data and, if it has one, the column; `role` is "score", "rating" or "rank".
    """
    shown = str(number)
    shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
    advice = ", or give ranks" if role == "score" else ""
    return InputError(
        f"{what} has integers beyond 2**53, which float64 cannot represent exactly ({location}: "
        f"{shown}); rescale the {role}s, for example by subtracting the smallest{advice}."
    )
