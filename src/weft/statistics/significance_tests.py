"""Tests between two models' values per user. Undefined is NaN: fewer than two users, or nothing
that differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.statistics.pair_statistics import Pairs, PairStatistics
from weft.statistics.pairing import Floats

UNPAIRED = (
    "kruskal",
    "mann_whitney",
)  # these take the users of two models for two independent samples
TESTS = ("paired_t", "wilcoxon", "randomization", "sign", *UNPAIRED)
ALTERNATIVES = ("two-sided", "greater", "less")  # a differs from b, a > b, a < b
UNDIRECTED = ("kruskal",)  # these know no other alternative than a difference
Outcome = tuple[Floats, Floats]  # statistics and p-values

_EXACT_WILCOXON = 50  # users
_ALL_FLIPS = 13
_EXACT_MANN_WHITNEY = 8


# --------------------------------------------------------------------------------------------------


def paired_t(measures: PairStatistics, alternative: str) -> Outcome:
    """Student's t of the mean difference."""
    from scipy import special

    n = measures.users
    with np.errstate(divide="ignore", invalid="ignore"):
        # The same difference for everyone has no spread to compare it with: infinite, and p = 0.
        t = np.where(n > 1, measures.difference / (measures.deviation / np.sqrt(n)), np.nan)
    return t, _tail(t, alternative, lambda below: special.stdtr(np.maximum(n - 1, 1), below))


def sign(measures: PairStatistics, alternative: str) -> Outcome:
    """The share of users who win among those who win or lose, and the binomial test that it is one
    half.
    """
    from scipy import special

    decided = measures.wins + measures.losses
    defined = (decided > 0) & (measures.users > 1)
    with np.errstate(invalid="ignore"):
        share = np.where(defined, measures.wins / decided, np.nan)
    at_most = {
        "two-sided": np.minimum(measures.wins, measures.losses),
        "greater": measures.losses,
        "less": measures.wins,
    }[alternative]
    p = special.bdtr(at_most, np.maximum(decided, 1).astype(int), 0.5)
    return share, np.where(
        defined, np.minimum(2 * p, 1) if alternative == "two-sided" else p, np.nan
    )


def mann_whitney(measures: PairStatistics, alternative: str) -> Outcome:
    """U of the first model, and its normal approximation with corrections for ties and continuity."""
    from scipy import special

    n = measures.users
    defined, spread = _rank_spread(measures)
    u = np.where(defined, measures.above, np.nan)
    centre = n * n / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        above, below = ((side - centre - 0.5) / spread for side in (u, n * n - u))
    p = {
        "two-sided": 2 * special.ndtr(-np.maximum(above, below)),
        "greater": special.ndtr(-above),
        "less": special.ndtr(-below),
    }[alternative]
    return u, np.minimum(p, 1)


def kruskal(measures: PairStatistics, alternative: str = "two-sided") -> Outcome:
    """H of the mean ranks of two models, and its chi-squared approximation."""
    from scipy import special

    defined, spread = _rank_spread(measures)
    with np.errstate(invalid="ignore", divide="ignore"):
        h = np.where(defined, ((measures.above - measures.users**2 / 2) / spread) ** 2, np.nan)
    return h, special.chdtrc(1, h)


def _rank_spread(measures: PairStatistics) -> tuple[NDArray[np.bool_], Floats]:
    """Where tests on ranks are defined, and the standard deviation of U without a difference."""
    n, both = measures.users, 2 * measures.users
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = n * n / 12 * ((both + 1) - measures.tied / (both * (both - 1)))
    one_value = measures.tied >= both**3 - both
    return (n > 1) & ~one_value, np.sqrt(np.where(one_value, 0.0, variance))


def _tail(statistic: Floats, alternative: str, below: Any) -> Floats:
    """The p-value of a statistic that is symmetric around 0, given the probability of values below
    one.
    """
    if alternative == "two-sided":
        p = 2 * below(-np.abs(statistic))
    else:
        p = below(-statistic if alternative == "greater" else statistic)
    return np.where(np.isnan(statistic), np.nan, p)


# --------------------------------------------------------------------------------------------------


def over_pairs(name: str, values: Floats, pairs: Pairs, users: Floats, alternative: str) -> Outcome:
    """A test that needs the values themselves, `[models, users]`, for every pair: statistics and
    p-values `[pairs]`.

    `users` tells how many each pair has. `mann_whitney` is NaN where the normal approximation
    serves, that is, for more than a few users or with ties."""
    test = wilcoxon if name == "wilcoxon" else exact_mann_whitney
    found = np.full((2, len(pairs)), np.nan)
    for at, (a, b) in enumerate(pairs):
        if name == "mann_whitney" and users[at] > _EXACT_MANN_WHITNEY:
            continue
        of_a, of_b = values[a], values[b]
        if users[at] < len(of_a):
            both = ~(np.isnan(of_a) | np.isnan(of_b))
            of_a, of_b = of_a[both], of_b[both]
        found[:, at] = test(of_a, of_b, alternative)
    return found[0], found[1]


def wilcoxon(of_a: Floats, of_b: Floats, alternative: str) -> tuple[float, float]:
    """Wilcoxon's signed ranks, users without a difference left out.

    The statistic is the smaller sum of ranks, or for one-sided alternatives that of the users who
    win. As SciPy chooses, the p-value is exact for up to 50 users without ties or zeros, by all
    flips of signs for up to 13 users with them, and else of the normal approximation."""
    from scipy import special, stats

    gaps = of_a - of_b
    users = len(gaps)
    gaps = gaps[gaps != 0]
    if users < 2 or len(gaps) == 0:
        return np.nan, np.nan
    # The sign moves from the first bit to the last: as whole numbers, floats without a sign sort in
    # their own order.
    bits = gaps.view(np.uint64)
    keys = (bits << np.uint64(1)) | (bits >> np.uint64(63))
    keys.sort()
    sizes = keys >> np.uint64(1)
    ends = np.append(np.flatnonzero(sizes[1:] != sizes[:-1]), len(sizes) - 1)
    times = np.diff(ends, prepend=-1).astype(np.float64)
    ranks = ends + 1 - (times - 1) / 2  # a tie has the mean of its ranks
    lost = np.diff(np.cumsum(keys & np.uint64(1))[ends].astype(np.float64), prepend=0.0)
    n = float(len(gaps))
    positive = float((times - lost) @ ranks)
    statistic = (
        min(positive, n * (n + 1) / 2 - positive) if alternative == "two-sided" else positive
    )
    if users <= _EXACT_WILCOXON and len(ends) == users:
        p = float(stats.wilcoxon(gaps, alternative=alternative, method="exact").pvalue)
    elif users <= _ALL_FLIPS:
        sums = every_choice(len(gaps)) @ np.repeat(ranks, times.astype(int))
        more, less = float(np.mean(sums >= positive)), float(np.mean(sums <= positive))
        p = {"two-sided": min(2 * min(more, less), 1.0), "greater": more, "less": less}[alternative]
    else:
        variance = (n * (n + 1) * (2 * n + 1) - (times**3 - times).sum() / 2) / 24
        p = float(
            _tail(
                np.array((positive - n * (n + 1) / 4) / np.sqrt(variance)),
                alternative,
                special.ndtr,
            )
        )
    return statistic, p


def every_choice(number: int) -> Floats:
    """Every subset of so many things, one a row, 1 for what is in it."""
    return ((np.arange(2**number)[:, None] >> np.arange(number)) & 1).astype(np.float64)


def exact_mann_whitney(of_a: Floats, of_b: Floats, alternative: str) -> tuple[float, float]:
    """Mann and Whitney's U for a few users without ties, by its exact distribution; else NaN."""
    from scipy import stats

    if not 2 <= len(of_a) <= _EXACT_MANN_WHITNEY or len(np.unique([of_a, of_b])) < 2 * len(of_a):
        return np.nan, np.nan
    outcome = stats.mannwhitneyu(of_a, of_b, alternative=alternative, method="exact")
    return float(outcome.statistic), float(outcome.pvalue)
