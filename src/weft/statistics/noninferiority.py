"""One-sided tests over paired users: whether a model is not worse than another, or better."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weft.statistics.pairing import Floats


@dataclass(frozen=True)
class AdvantageTest:
    """The mean advantage of one model over another, and its one-sided confidence bound.

    The advantage is the difference in the direction in which the metric improves. `p_value` is that
    of the hypothesis that the advantage is at most `-margin`.
    """

    advantage: float
    low: float
    p_value: float
    users: int


def measure_advantage(differences: Floats, *, margin: float = 0.0, level: float) -> AdvantageTest:
    """Test paired differences `[users]` by the t distribution; NaN are left out.

    The low end of the one-sided interval is above `-margin` exactly if the p-value is below
    1 - level. Fewer than two users have no interval (NaN). If all differences are equal, the
    interval has no width.
    """
    from scipy import stats

    defined = differences[~np.isnan(differences)]
    users = len(defined)
    if users == 0:
        return AdvantageTest(math.nan, math.nan, math.nan, 0)
    mean = float(defined.mean())
    if users == 1:
        return AdvantageTest(mean, math.nan, math.nan, 1)
    if defined.min() == defined.max():
        return AdvantageTest(mean, mean, float(mean <= -margin), users)
    error = float(defined.std(ddof=1)) / math.sqrt(users)
    student = stats.t(users - 1)
    low = mean - float(student.ppf(level)) * error
    return AdvantageTest(mean, low, float(student.sf((mean + margin) / error)), users)
