"""p-values and intervals of a comparison, adjusted for the number of tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.statistics.comparison_text import row_metric
from weft.statistics.corrections import adjust, find_families, interval_alphas

if TYPE_CHECKING:
    from weft.statistics.comparison import Comparison

_FAMILY_COLUMNS = {
    "test": ("test",),
    "metric": ("test", "metric", "k"),
    "pair": ("test", "model_a", "model_b"),
    "all": (),
}


def adjust_rows(comparison: Comparison, correction: str) -> tuple[dict[str, Any], ...]:
    """Return the rows of a comparison, adjusted by a correction within each family."""
    from scipy import special

    rows, alpha = comparison.rows, comparison.alpha
    p_values, users, errors, differences = (
        np.array([row[name] for row in rows], dtype=float)
        for name in ("p_value", "users", "std_error", "difference")
    )
    p_adjusted, alphas, sizes = np.empty((3, len(rows)))
    columns = _FAMILY_COLUMNS[comparison.family]
    for family in find_families(tuple(row[name] for name in columns) for row in rows):
        p_adjusted[family] = adjust(p_values[family], correction)
        alphas[family] = interval_alphas(p_values[family], correction, alpha)
        sizes[family] = np.count_nonzero(~np.isnan(p_values[family]))
    if comparison.alternative != "two-sided":  # each end belongs to a one-sided test
        alphas = np.minimum(2 * alphas, 1)
    margins = special.stdtrit(np.maximum(users - 1, 1), 1 - alphas / 2) * errors
    adjusted = {
        "p_adjusted": p_adjusted,
        "family_size": sizes.astype(int),
        "ci_low": differences - margins,
        "ci_high": differences + margins,
        "ci_level": 1 - alphas,
    }
    table = zip(*(one.tolist() for one in adjusted.values()))
    return tuple(
        {**row, **dict(zip(adjusted, values)), "significant": _is_significant(values[0], alpha)}
        | _resampled_intervals(comparison, row, level)
        for row, values, level in zip(rows, table, alphas.tolist())
    )


def _is_significant(p_adjusted: float, alpha: float) -> bool | None:
    return None if math.isnan(p_adjusted) else p_adjusted <= alpha


def _resampled_intervals(
    comparison: Comparison, row: Mapping[str, Any], alpha: float
) -> dict[str, float]:
    """Return the intervals of a bootstrap test by column; empty for other tests."""
    if row["test"] != "bootstrap":
        return {}
    drawn = comparison.differences[row["model_a"], row["model_b"], row_metric(row)]
    ends = (*drawn.interval(alpha), *drawn.percentiles(alpha))
    return dict(zip(("ci_low", "ci_high", "boot_low", "boot_high"), ends))
