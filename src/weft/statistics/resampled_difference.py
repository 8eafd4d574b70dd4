"""The difference of two models in resamples of their users: p-values and intervals.

The p-value is the smallest level alpha at which the interval of confidence 1 - alpha excludes 0.
The ends of intervals are resampled differences. If r of B resampled differences are at least as far
out as a value, the share in that tail is (r + 1) / (B + 1), so that no p-value is 0: the + 1 is the
observed difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np

from weft.evaluation.bootstrap import group_acceleration
from weft.evaluation.resamples import ITEM_FORM, SMOOTH_FORM, SWAP_FORM
from weft.statistics.pairing import Floats

_ROUNDING = 1e-11  # relative differences up to this count as equal
_LARGEST_BIAS = 1.96  # in standard deviations, beyond which BCa intervals are undefined
_NORMAL = NormalDist()


@dataclass(frozen=True, eq=False)
class ResampledDifference:
    """The difference of two values and its resampled differences `draws`, ascending.

    `form`: "bca" intervals with this `bias` and `acceleration`, "percentile" intervals, or "swaps":
    the draws are differences after swaps of the models, and vary around 0.
    """

    difference: float
    draws: Floats
    form: str
    bias: float = 0.0
    acceleration: float = 0.0

    @classmethod
    def from_bootstrap(
        cls, difference: float, draws: Floats, left_out: Floats, form: str, scale: float
    ) -> ResampledDifference:
        """Build the difference from bootstrap draws and those without groups of users.

        Differences that are rounding errors of values up to `scale` count as equal. BCa becomes
        "percentile" where it is undefined: nearly all draws are on one side of the difference.
        """
        draws = _round_draws(draws, difference, scale)
        made = cls(difference, np.sort(draws), ITEM_FORM)
        if form != SMOOTH_FORM or not made.is_defined:
            return made
        share = float((draws < difference).mean() + (draws == difference).mean() / 2)
        left_out = np.where(
            np.abs(left_out - difference) <= _ROUNDING * scale, difference, left_out
        )
        acceleration = group_acceleration(left_out)
        if not 0 < share < 1 or math.isnan(acceleration):
            return made
        bias = _NORMAL.inv_cdf(share)
        if abs(bias) > _LARGEST_BIAS:
            return made
        return replace(made, form=SMOOTH_FORM, bias=bias, acceleration=acceleration)

    @classmethod
    def from_swaps(cls, difference: float, draws: Floats, scale: float) -> ResampledDifference:
        """Build the difference from draws in which the lists of two models were swapped."""
        size = abs(difference)
        draws = np.abs(_round_draws(draws, 0.0, scale))
        draws = np.where(np.abs(draws - size) <= _ROUNDING * scale, size, draws)
        return cls(difference, np.sort(draws), SWAP_FORM)

    @property
    def is_defined(self) -> bool:
        """False if there is nothing to test: no value, or no resample that differs."""
        if math.isnan(self.difference) or len(self.draws) < 2:
            return False
        return self.difference != 0 or bool(self.draws.any())

    @cached_property
    def std_error(self) -> float:
        """The standard deviation of the draws, around 0 for swaps."""
        if math.isnan(self.difference) or len(self.draws) < 2:
            return math.nan
        if self.form == SWAP_FORM:
            return float(np.sqrt(np.square(self.draws).mean()))
        return float(self.draws.std(ddof=1))

    # ----------------------------------------------------------------------------------------------

    def p_value(self, alternative: str) -> float:
        """Return the p-value; NaN if there is nothing to test."""
        if not self.is_defined:
            return math.nan
        greater, less = self._one_sided()
        two_sided = min(1.0, 2 * min(greater, less))
        return {"two-sided": two_sided, "greater": greater, "less": less}[alternative]

    def _one_sided(self) -> tuple[float, float]:
        """Return the p-values of the alternatives that the first model has greater values, or
        smaller ones.
        """
        size = len(self.draws) + 1
        if self.form == SWAP_FORM:  # each swap has a complement with the opposite difference
            tail = (np.count_nonzero(self.draws >= abs(self.difference)) + 1) / size / 2
            return (tail, 1 - tail) if self.difference >= 0 else (1 - tail, tail)
        up_to_0, from_0 = (
            (int(np.count_nonzero(is_counted)) + 1) / size
            for is_counted in (self.draws <= 0, self.draws >= 0)
        )
        if self.form == ITEM_FORM:
            return up_to_0, from_0
        greater, less = self._level_of(up_to_0), 1 - self._level_of(1 - from_0)
        return max(greater, 1 / size), max(less, 1 / size)

    def _level_of(self, share: float) -> float:
        """Return the level of the BCa end below which this share of the draws is."""
        if not 0 < share < 1:  # no draw is on the other side of 0
            return share
        distance = _NORMAL.inv_cdf(share) - self.bias
        room = 1 + self.acceleration * distance
        if room <= 0:
            return 0.0 if distance < 0 else 1.0
        return _NORMAL.cdf(distance / room - self.bias)

    # ----------------------------------------------------------------------------------------------

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the interval of the difference; NaN where so few draws cannot give it."""
        if not self.is_defined:
            is_constant = not math.isnan(self.difference) and len(self.draws) > 1
            return (self.difference,) * 2 if is_constant else (math.nan, math.nan)
        if self.form == SWAP_FORM:
            margin = self._draw(alpha, from_above=True)
            return self.difference - margin, self.difference + margin
        if self.form == ITEM_FORM:
            return self.percentiles(alpha)
        if alpha / 2 < 1 / (len(self.draws) + 1):  # below all p-values
            return math.nan, math.nan
        low, high = self._bca_level(alpha / 2), self._bca_level(1 - alpha / 2)
        return self._draw(low), self._draw(1 - high, from_above=True)

    def percentiles(self, alpha: float) -> tuple[float, float]:
        """Return the percentile interval of the bootstrap; NaN for swaps."""
        if self.form == SWAP_FORM:
            return math.nan, math.nan
        return self._draw(alpha / 2), self._draw(alpha / 2, from_above=True)

    def _bca_level(self, level: float) -> float:
        """Return the share of the draws at the end of this level."""
        if not 0 < level < 1:
            return level
        shifted = self.bias + _NORMAL.inv_cdf(level)
        room = 1 - self.acceleration * shifted
        if room <= 0:
            return 1.0 if shifted > 0 else 0.0
        return _NORMAL.cdf(self.bias + shifted / room)

    def _draw(self, share: float, *, from_above: bool = False) -> float:
        """Return the draw beyond which this share of the draws is; NaN if it has no draw."""
        beyond = math.floor(round(share * (len(self.draws) + 1), 9)) - 1
        if not 0 <= beyond < len(self.draws):
            return math.nan
        return float(self.draws[-1 - beyond if from_above else beyond])


def _round_draws(draws: Floats, value: float, scale: float) -> Floats:
    """Return the defined draws, those that equal a value up to rounding as this value."""
    draws = draws[np.isfinite(draws)]
    for exact in (value, 0.0):
        draws = np.where(np.abs(draws - exact) <= _ROUNDING * scale, exact, draws)
    return draws
