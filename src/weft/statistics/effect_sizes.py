"""How large a difference is, how sure that is, and what could have been seen at all."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from weft.statistics.pair_statistics import PairStatistics
from weft.statistics.pairing import Floats

POWER = 0.8
_FEW = 100  # users; up to so many the exact distribution is worth its time


def effects(measures: PairStatistics, alpha: float) -> dict[str, Floats]:
    """What stands beside a p-value, by name; each of the shape of the measures."""
    from scipy import special

    n, spread = measures.users, measures.deviation
    margin = special.stdtrit(np.maximum(n - 1, 1), 0.975) * spread / np.sqrt(np.maximum(n, 1))
    seen = detectable_effects(n, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "mean_a": measures.mean_a,
            "mean_b": measures.mean_b,
            "difference": measures.difference,
            "ci_low": measures.difference - margin,
            "ci_high": measures.difference + margin,
            "effect_size": np.where(spread > 0, measures.difference / spread, np.nan),
            "cliffs_delta": 2 * measures.above / n**2 - 1,
            "wins": measures.wins / n,
            "ties": (n - measures.wins - measures.losses) / n,
            "losses": measures.losses / n,
            "detectable": np.where(spread > 0, seen * spread, np.nan),
        }


def detectable_effects(users: Floats, alpha: float) -> Floats:
    """The mean differences, in standard deviations, that a two-sided paired t-test of so many users
    finds with a power of 0.8.
    """
    from scipy import special

    few = users <= _FEW
    found = np.vectorize(lambda n: _of_few(float(n), alpha), otypes=[float])(
        np.where(few, users, 0.0)
    )
    n = np.where(few, _FEW, users)
    df = n - 1
    limit = special.stdtrit(df, 1 - alpha / 2)
    # The standard deviation of the users is nearly normal: so is limit · deviation, around limit ·
    # (1 - 1 / 4df).
    middle, scale = limit * (1 - 1 / (4 * df)), np.sqrt(1 + limit**2 / (2 * df))
    low, high = np.zeros_like(n), middle + special.ndtri(POWER) * scale
    for _ in range(60):  # halves; the far tail matters for large alphas only
        shift = (low + high) / 2
        enough = (
            special.ndtr((shift - middle) / scale) + special.ndtr((-shift - middle) / scale)
            >= POWER
        )
        low, high = np.where(enough, low, shift), np.where(enough, shift, high)
    effects_of_many: Floats = high / np.sqrt(n)
    return np.where(few, found, effects_of_many)


@lru_cache(maxsize=4096)
def _of_few(users: float, alpha: float) -> float:
    """The same without an approximation: the power is the mean of a normal one over the
    distribution of the deviation.

    >>> round(_of_few(100, 0.05), 4)
    0.2829
    """
    from scipy import optimize, special

    if users < 2:
        return math.nan
    df = users - 1
    limit = special.stdtrit(df, 1 - alpha / 2)
    points, step = np.linspace(-8.5, 8.5, 4001, retstep=True)  # quantiles of a normal distribution
    low, high = (
        special.gammaincinv(df / 2, special.ndtr(points)),
        special.gammainccinv(df / 2, special.ndtr(-points)),
    )
    limits = limit * np.sqrt(2 / df * np.where(points < 0, low, high))
    weights = step * np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)

    def lacking(shift: float) -> float:
        return (
            float(weights @ (special.ndtr(shift - limits) + special.ndtr(-shift - limits))) - POWER
        )

    if lacking(0.0) >= 0:  # with such an alpha even nothing is found often enough
        return 0.0
    most = 1.0
    while lacking(most) < 0:
        most *= 2
    return float(optimize.brentq(lacking, 0.0, most, xtol=1e-12)) / math.sqrt(users)
