"""Significance tests between the per-user values of two models.

Statistics and p-values are NaN if undefined: fewer than two users, or no difference. Where
summary statistics suffice, all pairs and metrics are tested at once; the tests of SciPy would pass
over the values of each pair again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft._choices import Alternative, TestName, choices
from weft.statistics.pair_statistics import Pairs, PairStatistics
from weft.statistics.pairing import Floats

UNPAIRED = ("kruskal", "mann_whitney")  # treat the users of two models as independent samples
TESTS = choices(TestName)
ALTERNATIVES = choices(Alternative)  # a differs from b, a > b, a < b
UNDIRECTED = ("kruskal",)  # tests that have only the two-sided alternative
TestResult = tuple[Floats, Floats]  # statistics and p-values

_EXACT_WILCOXON_USERS = 50
_ALL_SIGNS_USERS = 13
_EXACT_MANN_WHITNEY_USERS = 8


# --------------------------------------------------------------------------------------------------
# Tests on summary statistics.


def paired_t(statistics: PairStatistics, alternative: str) -> TestResult:
    """Return Student's t of the mean difference and its p-value."""
    from scipy import special

    n = statistics.users
    with np.errstate(divide="ignore", invalid="ignore"):
        # An equal difference for all users has no deviation: t is infinite, and p = 0.
        t = np.where(n > 1, statistics.difference / (statistics.deviation / np.sqrt(n)), np.nan)
    return t, _tail(t, alternative, lambda x: special.stdtr(np.maximum(n - 1, 1), x))


def sign(statistics: PairStatistics, alternative: str) -> TestResult:
    """Return the share of wins among wins and losses, and the binomial test that it is 1/2."""
    from scipy import special

    wins, losses = statistics.wins, statistics.losses
    decided = wins + losses
    is_defined = (decided > 0) & (statistics.users > 1)
    with np.errstate(invalid="ignore"):
        share = np.where(is_defined, wins / decided, np.nan)
    at_most = {"two-sided": np.minimum(wins, losses), "greater": losses, "less": wins}[alternative]
    p = special.bdtr(at_most, np.maximum(decided, 1).astype(int), 0.5)
    if alternative == "two-sided":
        p = np.minimum(2 * p, 1)
    return share, np.where(is_defined, p, np.nan)


def mann_whitney(statistics: PairStatistics, alternative: str) -> TestResult:
    """Return U of the first model and its normal p-value, corrected for ties and continuity."""
    from scipy import special

    n = statistics.users
    is_defined, deviation = _u_deviation(statistics)
    u = np.where(is_defined, statistics.u_statistic, np.nan)
    centre = n * n / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        above, below = ((side - centre - 0.5) / deviation for side in (u, n * n - u))
    p = {
        "two-sided": 2 * special.ndtr(-np.maximum(above, below)),
        "greater": special.ndtr(-above),
        "less": special.ndtr(-below),
    }[alternative]
    return u, np.minimum(p, 1)


def kruskal(statistics: PairStatistics, alternative: str = "two-sided") -> TestResult:
    """Return H of the mean ranks of two models and its chi-squared p-value."""
    from scipy import special

    is_defined, deviation = _u_deviation(statistics)
    centre = statistics.users**2 / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        h = np.where(is_defined, ((statistics.u_statistic - centre) / deviation) ** 2, np.nan)
    return h, special.chdtrc(1, h)


def _u_deviation(statistics: PairStatistics) -> tuple[NDArray[np.bool_], Floats]:
    """Return where rank tests are defined, and the standard deviation of U without an effect."""
    n, both = statistics.users, 2 * statistics.users
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = n * n / 12 * ((both + 1) - statistics.tie_term / (both * (both - 1)))
    is_constant = statistics.tie_term >= both**3 - both
    return (n > 1) & ~is_constant, np.sqrt(np.where(is_constant, 0.0, variance))


def _tail(statistic: Floats, alternative: str, cdf: Callable[[Any], Any]) -> Floats:
    """Return the p-value of a statistic with a distribution that is symmetric around 0."""
    if alternative == "two-sided":
        p = 2 * cdf(-np.abs(statistic))
    else:
        p = cdf(-statistic if alternative == "greater" else statistic)
    return np.where(np.isnan(statistic), np.nan, p)


SUMMARY_TESTS: dict[str, Callable[[PairStatistics, str], TestResult]] = {
    "paired_t": paired_t,
    "sign": sign,
    "mann_whitney": mann_whitney,
    "kruskal": kruskal,
}


# --------------------------------------------------------------------------------------------------
# Tests on values.


def wilcoxon(values_a: Floats, values_b: Floats, alternative: str) -> tuple[float, float]:
    """Return Wilcoxon's signed-rank statistic and p-value, without users that do not differ.

    The statistic is the smaller rank sum, for one-sided alternatives that of the wins. As in SciPy,
    the p-value is exact for up to 50 users without ties or zeros, from all signs for up to 13 users
    with them, and from the normal approximation otherwise.
    """
    from scipy import special, stats

    gaps = values_a - values_b
    users = len(gaps)
    gaps = gaps[gaps != 0]
    if users < 2 or len(gaps) == 0:
        return np.nan, np.nan
    tie_sizes, ranks, losses = _signed_ranks(gaps)
    n = float(len(gaps))
    positive = float((tie_sizes - losses) @ ranks)
    statistic = positive
    if alternative == "two-sided":
        statistic = min(positive, n * (n + 1) / 2 - positive)
    if users <= _EXACT_WILCOXON_USERS and len(tie_sizes) == users:
        p = float(stats.wilcoxon(gaps, alternative=alternative, method="exact").pvalue)
    elif users <= _ALL_SIGNS_USERS:
        sums = all_subsets(len(gaps)) @ np.repeat(ranks, tie_sizes.astype(int))
        greater, less = float(np.mean(sums >= positive)), float(np.mean(sums <= positive))
        two_sided = min(2 * min(greater, less), 1.0)
        p = {"two-sided": two_sided, "greater": greater, "less": less}[alternative]
    else:
        variance = (n * (n + 1) * (2 * n + 1) - (tie_sizes**3 - tie_sizes).sum() / 2) / 24
        z = np.array((positive - n * (n + 1) / 4) / np.sqrt(variance))
        p = float(_tail(z, alternative, special.ndtr))
    return statistic, p


def _signed_ranks(gaps: Floats) -> tuple[Floats, Floats, Floats]:
    """Return for each distinct absolute gap: the number of gaps, their mean rank, the negatives.

    The sign bit is moved to the end: as integers, floats without sign sort by absolute value.
    """
    bits = gaps.view(np.uint64)
    keys = (bits << np.uint64(1)) | (bits >> np.uint64(63))
    keys.sort()
    sizes = keys >> np.uint64(1)
    ends = np.append(np.flatnonzero(sizes[1:] != sizes[:-1]), len(sizes) - 1)
    tie_sizes = np.diff(ends, prepend=-1).astype(np.float64)
    ranks = ends + 1 - (tie_sizes - 1) / 2
    negatives = np.diff(np.cumsum(keys & np.uint64(1))[ends].astype(np.float64), prepend=0.0)
    return tie_sizes, ranks, negatives


def all_subsets(size: int) -> Floats:
    """Return all subsets of `size` things as rows of 0 and 1, `[2^size, size]`."""
    return ((np.arange(2**size)[:, None] >> np.arange(size)) & 1).astype(np.float64)


def exact_mann_whitney(values_a: Floats, values_b: Floats, alternative: str) -> tuple[float, float]:
    """Return U and its exact p-value for a few users without ties, else NaN."""
    from scipy import stats

    n = len(values_a)
    is_small = 2 <= n <= _EXACT_MANN_WHITNEY_USERS
    if not is_small or len(np.unique([values_a, values_b])) < 2 * n:
        return np.nan, np.nan
    result = stats.mannwhitneyu(values_a, values_b, alternative=alternative, method="exact")
    return float(result.statistic), float(result.pvalue)


# Tests that need values. `mann_whitney` is NaN where the normal approximation is to be used.
VALUE_TESTS = {"wilcoxon": wilcoxon, "mann_whitney": exact_mann_whitney}


def run_value_test(
    name: str, values: Floats, pairs: Pairs, *, users: Floats, alternative: str
) -> TestResult:
    """Run a test of `VALUE_TESTS` on the values `[models, users]` of every pair, `[pairs]` both.

    `users` is the number of users with both values, `[pairs]`.
    """
    results = np.full((2, len(pairs)), np.nan)
    for pair, (a, b) in enumerate(pairs):
        if name == "mann_whitney" and users[pair] > _EXACT_MANN_WHITNEY_USERS:
            continue
        values_a, values_b = values[a], values[b]
        if users[pair] < len(values_a):
            both = ~(np.isnan(values_a) | np.isnan(values_b))
            values_a, values_b = values_a[both], values_b[both]
        results[:, pair] = VALUE_TESTS[name](values_a, values_b, alternative)
    return results[0], results[1]
