"""What many tests at once do to their p-values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from weft.statistics.pairing import Floats

CORRECTIONS = ("none", "bonferroni", "holm", "fdr")
# Over which tests p-values are adjusted together: all of one test, of one test and metric, of one
# test and pair of models, or all.
FAMILIES = ("test", "metric", "pair", "all")


def adjust_families(p_values: Floats, families: Sequence[Hashable], correction: str) -> Floats:
    """Adjusted p-values, each within its family."""
    members: dict[Hashable, list[int]] = {}
    for at, family in enumerate(families):
        members.setdefault(family, []).append(at)
    adjusted = np.empty_like(p_values)
    for places in members.values():
        adjusted[places] = adjust(p_values[places], correction)
    return adjusted


def adjust(p_values: Floats, correction: str) -> Floats:
    """Adjusted p-values for a family of tests; NaN stays NaN and out of the family.

    >>> adjust(np.array([0.005, 0.01, 0.03, 0.04]), "holm").round(3).tolist()
    [0.02, 0.03, 0.06, 0.06]
    """
    adjusted = p_values.copy()
    defined = ~np.isnan(p_values)
    p = p_values[defined]
    size = len(p)
    if correction == "none" or size == 0:
        return adjusted
    order = np.argsort(p)
    ascending, place = p[order], np.arange(size)
    if correction == "bonferroni":
        stepped = ascending * size
    elif correction == "holm":
        # The smallest of m is held against alpha / m, the next against alpha / (m - 1), ...; never
        # below an earlier one.
        stepped = np.maximum.accumulate(ascending * (size - place))
    else:
        # Benjamini and Hochberg: the i-th smallest is held against i alpha / m; never above a later
        # one.
        stepped = np.minimum.accumulate((ascending * (size / (place + 1)))[::-1])[::-1]
    found = np.empty_like(p)
    found[order] = np.minimum(stepped, 1)
    adjusted[defined] = found
    return adjusted
