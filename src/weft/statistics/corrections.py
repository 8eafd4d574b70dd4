"""Corrections of p-values for multiple testing."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from weft._choices import CorrectionFamily, CorrectionName, choices
from weft.statistics.pairing import Floats

CORRECTIONS = choices(CorrectionName)
# Families of p-values, within which they are adjusted: of one test, of one test and metric, of one
# test and pair of models, or all.
FAMILIES = choices(CorrectionFamily)


def adjust_families(p_values: Floats, families: Sequence[Hashable], correction: str) -> Floats:
    """Return adjusted p-values, each within its family."""
    members: dict[Hashable, list[int]] = {}
    for index, family in enumerate(families):
        members.setdefault(family, []).append(index)
    adjusted = np.empty_like(p_values)
    for indices in members.values():
        adjusted[indices] = adjust(p_values[indices], correction)
    return adjusted


def adjust(p_values: Floats, correction: str) -> Floats:
    """Return adjusted p-values of a family of tests; NaN stays NaN and does not count.

    >>> adjust(np.array([0.005, 0.01, 0.03, 0.04]), "holm").round(3).tolist()
    [0.02, 0.03, 0.06, 0.06]
    """
    adjusted = p_values.copy()
    is_defined = ~np.isnan(p_values)
    p = p_values[is_defined]
    size = len(p)
    if correction == "none" or size == 0:
        return adjusted
    order = np.argsort(p)
    ascending, rank = p[order], np.arange(size)
    if correction == "bonferroni":
        stepped = ascending * size
    elif correction == "holm":  # step down: never below an earlier one
        stepped = np.maximum.accumulate(ascending * (size - rank))
    else:  # Benjamini and Hochberg, step up: never above a later one
        stepped = np.minimum.accumulate((ascending * (size / (rank + 1)))[::-1])[::-1]
    in_order = np.empty_like(p)
    in_order[order] = np.minimum(stepped, 1)
    adjusted[is_defined] = in_order
    return adjusted
