"""Rows of comparisons: one per test, pair of models and metric."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

_NAMES_IN_NOTE = 5
# The columns of a row in their order, and their values where a test does not have them.
_EMPTY_ROW: dict[str, Any] = {
    "model_a": "",
    "model_b": "",
    "metric": "",
    "k": None,
    "test": "",
    "statistic": math.nan,
    "p_value": math.nan,
    "p_adjusted": math.nan,
    "significant": None,
    "family_size": 0,
    "mean_a": math.nan,
    "mean_b": math.nan,
    "difference": math.nan,
    "std_error": math.nan,
    "ci_low": math.nan,
    "ci_high": math.nan,
    "ci_level": math.nan,
    "effect_size": math.nan,
    "cliffs_delta": math.nan,
    "wins": math.nan,
    "ties": math.nan,
    "losses": math.nan,
    "detectable": math.nan,
    "users": 0,
    "left_out": 0,
    "paired": True,
    "form": None,
    "boot_low": None,
    "boot_high": None,
}


def build_row(**columns: Any) -> dict[str, Any]:
    """Return a row with these columns and a p-value that is not adjusted."""
    row = {**_EMPTY_ROW, **columns}
    return {**row, "p_adjusted": row["p_value"]}


def shorten(names: Iterable[str]) -> str:
    """Join the first names of a note and count the others."""
    listed = list(names)
    more = len(listed) - _NAMES_IN_NOTE
    return ", ".join(listed[:_NAMES_IN_NOTE]) + (f" and {more} more" if more > 0 else "")
