"""Corrections of p-values for multiple testing."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from weft._choices import CorrectionFamily, CorrectionName, choices
from weft.statistics.pairing import Floats

CORRECTIONS = choices(CorrectionName)
# Families of p-values, within which they are adjusted: of one test, of one test and metric, of one
# test and pair of models, or all.
FAMILIES = choices(CorrectionFamily)


def find_families(keys: Iterable[Hashable]) -> list[list[int]]:
    """Return the indices of the tests of each family; tests with equal keys are one family."""
    members: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        members.setdefault(key, []).append(index)
    return list(members.values())


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


def interval_alphas(p_values: Floats, correction: str, alpha: float) -> Floats:
    """Return for each test of a family the level alpha of its confidence interval.

    The interval of the difference then excludes 0 if and only if the adjusted p-value is at most
    alpha, provided that the interval belongs to the test. With m tests the level is

    - "none": alpha;
    - "bonferroni": alpha / m, so that all intervals hold at once with a probability of 1 - alpha;
    - "holm": alpha / m as well, except for tests that are significant by Holm only: they have the
      level alpha / (m - i + 1) of their step i, at which they were decided;
    - "fdr": alpha r / m if r tests are significant, at least alpha / m. The expected share of wrong
      intervals among those of significant tests is then at most alpha (Benjamini and Yekutieli
      2005, doi 10.1198/016214504000001907).

    >>> interval_alphas(np.array([0.03, 0.01, 0.2]), "holm", 0.06).round(3).tolist()
    [0.03, 0.02, 0.02]
    """
    size = max(1, int(np.count_nonzero(~np.isnan(p_values))))
    if correction == "none":
        return np.full(len(p_values), alpha)
    is_significant = adjust(p_values, correction) <= alpha
    if correction == "fdr":
        return np.full(len(p_values), alpha * max(1, int(is_significant.sum())) / size)
    alphas = np.full(len(p_values), alpha / size)
    if correction == "holm":
        steps = np.empty(len(p_values), dtype=np.int64)
        steps[np.argsort(p_values)] = np.arange(len(p_values))
        by_holm_only = is_significant & (p_values > alpha / size)
        alphas[by_holm_only] = alpha / (size - steps[by_holm_only])
    return alphas
