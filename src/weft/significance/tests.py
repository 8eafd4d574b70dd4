"""Tests between two models' values per user, and what many tests at once do to their p-values."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

UNPAIRED = ("kruskal", "mann_whitney")  # these take the users of two models for two independent samples
TESTS = ("paired_t", "wilcoxon", *UNPAIRED)
CORRECTIONS = ("none", "bonferroni", "holm", "fdr")
Floats = NDArray[np.float64]


def paired_test(name: str, differences: Floats) -> tuple[float, float]:
    """Statistic and two-sided p-value of the hypothesis that the differences lie around 0.

    NaN, NaN where the test is undefined: fewer than two users, or no difference anywhere.
    """
    from scipy import stats

    if len(differences) < 2 or not differences.any():
        return math.nan, math.nan
    if name == "paired_t":
        if np.ptp(differences) == 0:  # the same difference for everyone has no spread to compare it with
            return math.copysign(math.inf, differences[0]), 0.0
        outcome = stats.ttest_1samp(differences, 0.0)
    else:
        outcome = stats.wilcoxon(differences)
    return float(outcome.statistic), float(outcome.pvalue)


def unpaired_test(name: str, of_a: Floats, of_b: Floats) -> tuple[float, float]:
    """Statistic and two-sided p-value of the hypothesis that both samples come from one distribution.

    NaN, NaN where the test is undefined: fewer than two users, or one value everywhere.
    """
    from scipy import stats

    if len(of_a) < 2 or np.ptp(np.concatenate([of_a, of_b])) == 0:
        return math.nan, math.nan
    outcome = stats.kruskal(of_a, of_b) if name == "kruskal" else stats.mannwhitneyu(of_a, of_b)
    return float(outcome.statistic), float(outcome.pvalue)


def adjust(p_values: Floats, correction: str) -> Floats:
    """Adjusted p-values for a family of tests; NaN stays NaN and out of the family.

    >>> adjust(np.array([0.005, 0.01, 0.03, 0.04]), "holm").round(3).tolist()
    [0.02, 0.03, 0.06, 0.06]
    """
    adjusted = p_values.copy()
    defined = ~np.isnan(p_values)
    p = p_values[defined]
    if correction == "none" or len(p) == 0:
        return adjusted
    if correction == "fdr":
        from scipy import stats

        adjusted[defined] = stats.false_discovery_control(p, method="bh")
        return adjusted
    if correction == "bonferroni":
        adjusted[defined] = np.minimum(p * len(p), 1)
        return adjusted
    order = np.argsort(p)
    # Holm: the smallest of m is held against alpha / m, the next against alpha / (m - 1), ...; never below an earlier one.
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    found = np.empty_like(p)
    found[order] = np.minimum(stepped, 1)
    adjusted[defined] = found
    return adjusted
