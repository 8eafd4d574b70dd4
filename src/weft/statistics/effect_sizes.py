"""Effect sizes, standard errors and detectable differences."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from weft.statistics.pair_statistics import PairStatistics
from weft.statistics.pairing import Floats

_POWER = 0.8
_EXACT_USERS = 100  # up to which the exact distribution of the deviation is used


def effect_sizes(statistics: PairStatistics, alpha: float) -> dict[str, Floats]:
    """Return the columns of a comparison that describe the size of differences, by name.

    Each has the shape of the statistics; see `Comparison.to_frame`.
    """
    n, deviation = statistics.users, statistics.deviation
    detectable = detectable_effects(n, alpha)
    unadjusted = np.full_like(n, np.nan)  # intervals depend on the correction
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "mean_a": statistics.mean_a,
            "mean_b": statistics.mean_b,
            "difference": statistics.difference,
            "std_error": deviation / np.sqrt(n),
            "ci_low": unadjusted,
            "ci_high": unadjusted,
            "ci_level": unadjusted,
            "effect_size": np.where(deviation > 0, statistics.difference / deviation, np.nan),
            "cliffs_delta": 2 * statistics.u_statistic / n**2 - 1,
            "wins": statistics.wins / n,
            "ties": (n - statistics.wins - statistics.losses) / n,
            "losses": statistics.losses / n,
            "detectable": np.where(deviation > 0, detectable * deviation, np.nan),
        }


def detectable_effects(users: Floats, alpha: float) -> Floats:
    """Return the mean differences that a two-sided paired t-test detects with a power of 0.8.

    They are in standard deviations of the differences, for each number of users.
    """
    from scipy import special

    is_small = users <= _EXACT_USERS
    exact = np.vectorize(lambda n: _exact_detectable_effect(float(n), alpha), otypes=[float])(
        np.where(is_small, users, 0.0)
    )
    n = np.where(is_small, _EXACT_USERS, users)
    df = n - 1
    limit = special.stdtrit(df, 1 - alpha / 2)
    # The sample deviation is nearly normal, and so is limit · deviation, with this mean and scale.
    mean, scale = limit * (1 - 1 / (4 * df)), np.sqrt(1 + limit**2 / (2 * df))
    low, high = np.zeros_like(n), mean + special.ndtri(_POWER) * scale
    for _ in range(60):  # bisection; the far tail matters for large alphas only
        shift = (low + high) / 2
        power = special.ndtr((shift - mean) / scale) + special.ndtr((-shift - mean) / scale)
        is_enough = power >= _POWER
        low, high = np.where(is_enough, low, shift), np.where(is_enough, shift, high)
    approximate: Floats = high / np.sqrt(n)
    return np.where(is_small, exact, approximate)


@lru_cache(maxsize=4096)
def _exact_detectable_effect(users: float, alpha: float) -> float:
    """Return the detectable effect without an approximation; NaN for fewer than two users.

    The power is the mean of a normal power over the distribution of the sample deviation.

    >>> round(_exact_detectable_effect(100, 0.05), 4)
    0.2829
    """
    from scipy import optimize, special

    if users < 2:
        return math.nan
    df = users - 1
    limit = special.stdtrit(df, 1 - alpha / 2)
    points, step = np.linspace(-8.5, 8.5, 4001, retstep=True)  # quantiles of a normal distribution
    low = special.gammaincinv(df / 2, special.ndtr(points))
    high = special.gammainccinv(df / 2, special.ndtr(-points))
    limits = limit * np.sqrt(2 / df * np.where(points < 0, low, high))
    weights = step * np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)

    def excess_power(shift: float) -> float:
        power = special.ndtr(shift - limits) + special.ndtr(-shift - limits)
        return float(weights @ power) - _POWER

    if excess_power(0.0) >= 0:  # with such an alpha no difference is needed
        return 0.0
    upper = 1.0
    while excess_power(upper) < 0:
        upper *= 2
    return float(optimize.brentq(excess_power, 0.0, upper, xtol=1e-12)) / math.sqrt(users)
