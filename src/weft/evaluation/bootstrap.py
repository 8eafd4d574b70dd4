"""Bootstrap intervals: the users of one evaluation are resampled with Poisson weights.

Sums over users are computed again under the weights of each resample (see `resample_weights`), and
each metric is computed from them by its own formula. Sums are scaled to the number of users, so
that metrics that count users keep their meaning.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.evaluation.contributions import ContributionStore, WeightedSums
from weft.evaluation.resample_weights import (
    Floats,
    KeepGroup,
    LeaveGroupOut,
    PoissonWeights,
    UserDigest,
    UserWeights,
    rows_per_block,
)
from weft.metrics.mean_sums import MEAN_SUMS
from weft.metrics.state_layout import StateLayout

JACKKNIFE_GROUPS = 200  # instead of single users, for metrics that are not means
_ROUNDING = 1e-11  # relative differences up to this count as equal


@dataclass(frozen=True)
class BootstrapInterval:
    """95% intervals by percentiles and BCa, and the standard deviation of the resamples.

    `undefined` is the number of resamples without a value. Missing intervals are NaN.
    """

    low: float = math.nan
    high: float = math.nan
    bca_low: float = math.nan
    bca_high: float = math.nan
    std_error: float = math.nan
    undefined: int = 0


def bootstrap_interval(
    estimate: float, resampled: Floats, acceleration: float
) -> BootstrapInterval:
    """Return the intervals of an estimate from its resampled values and a jackknife acceleration.

    BCa (Efron 1987, doi 10.1080/01621459.1987.10478410) is undefined where nearly all resamples are
    on one side of the estimate, so that the interval would not contain it.
    """
    values = resampled[np.isfinite(resampled)]
    undefined = len(resampled) - len(values)
    if math.isnan(estimate) or len(values) < 2:
        return BootstrapInterval(undefined=undefined)
    scale = max(abs(estimate), float(np.abs(values).max()))
    is_equal = np.abs(values - estimate) <= _ROUNDING * scale
    values = np.where(is_equal, estimate, values)
    if is_equal.all():
        return BootstrapInterval(estimate, estimate, estimate, estimate, 0.0, undefined)
    low, high = (float(end) for end in np.quantile(values, (0.025, 0.975)))
    share_below = float((values < estimate).mean() + is_equal.mean() / 2)
    bca = _bca_interval(values, share_below, acceleration)
    return BootstrapInterval(low, high, *bca, float(values.std(ddof=1)), undefined)


def _bca_interval(values: Floats, share_below: float, acceleration: float) -> tuple[float, float]:
    """Return the BCa interval, both ends NaN if it is undefined."""
    if 0 < share_below < 1 and not math.isnan(acceleration):
        normal = NormalDist()
        bias = normal.inv_cdf(share_below)
        shifted = [bias + normal.inv_cdf(level) for level in (0.025, 0.975)]
        levels = [
            normal.cdf(bias + z / (1 - acceleration * z)) if acceleration * z < 1 else math.nan
            for z in shifted
        ]
        if levels[0] <= share_below <= levels[1]:  # else the bias exceeds the spread
            low, high = np.quantile(values, levels).tolist()
            return low, high
    return math.nan, math.nan


def group_acceleration(left_out: Floats) -> float:
    """Return the acceleration from the values without each group of users in turn.

    NaN for fewer than two defined values.
    """
    values = left_out[np.isfinite(left_out)]
    if len(values) < 2:
        return math.nan
    influence = values.mean() - values
    largest = np.abs(influence).max()
    scaled = influence / (largest or 1.0)  # so that powers of small numbers do not underflow
    denominator = 6 * float(np.square(scaled).sum()) ** 1.5
    return float((scaled**3).sum()) / denominator if denominator > 0 else 0.0


# --------------------------------------------------------------------------------------------------

# Computes the values of all metrics that are not plain means over users from a vector of sums.
Formulas = Callable[[Tensor], Floats]


class Resampler:
    """Computes means and formulas of the stored users under weights.

    `formulas` returns the values `[num_formulas]` of metrics that are not plain means.
    """

    def __init__(
        self, store: ContributionStore, layout: StateLayout, formulas: Formulas, num_formulas: int
    ) -> None:
        self._store, self._layout = store, layout
        self._formulas, self._num_formulas = formulas, num_formulas

    def resample(self, resamples: int, seed: int) -> tuple[Floats, Floats]:
        """Return the means `[resamples, columns]` and formulas `[resamples, num_formulas]`."""
        return self._compute(PoissonWeights(seed, 0, resamples))

    def leave_groups_out(self) -> tuple[Floats, Floats]:
        """Return means and formulas without each of up to 200 groups of users in turn."""
        edges = self._group_edges(JACKKNIFE_GROUPS)
        return self._compute(LeaveGroupOut(edges, 0, len(edges) + 1))

    def mean_accelerations(self) -> Floats:
        """Return the accelerations of the means, for which each user is left out in turn."""
        full = self._store.weighted_sums(LeaveGroupOut.none(), terms=False)
        sums, counts = full.sums[0], full.counts[0]
        moments = self._store.jackknife_moments(sums, counts)
        return moments.acceleration(_ROUNDING * counts / np.maximum(moments.users, 1))

    def digest_users(self) -> str:
        """Return a digest of the set of the users."""
        totals = self._store.weighted_sums(UserDigest(), terms=False).total
        numbers = np.array([self._store.users, *totals.astype(np.int64)], dtype="<i8")
        return f"sha256:{hashlib.sha256(numbers.tobytes()).hexdigest()}"

    def group_terms(self, groups: int) -> Iterator[tuple[int, Floats]]:
        """Yield blocks of the terms of single groups of users: the first group, `[terms, groups]`.

        There are as many groups as users if these are fewer.
        """
        edges = self._group_edges(groups)
        weights = KeepGroup(edges, 0, len(edges) + 1)
        section = self._layout.other_sums
        step = rows_per_block(section.stop - section.start)
        for first in range(0, weights.num_rows, step):
            block = weights.block(first, first + step)
            yield first, self._store.weighted_sums(block, terms=True).terms

    def _group_edges(self, groups: int) -> NDArray[np.int64]:
        """Return the hashes at which groups of users of nearly equal size begin, but the first."""
        users = self._store.users
        groups = min(users, groups)
        starts = -(-np.arange(1, groups, dtype=np.int64) * users // groups)
        return self._store.hashes().select(starts)

    def _compute(self, weights: UserWeights) -> tuple[Floats, Floats]:
        """Return means and formulas under each row of weights, computed in blocks of rows."""
        section = self._layout.other_sums
        has_formulas = self._num_formulas > 0
        step = rows_per_block(section.stop - section.start if has_formulas else section.start)
        means, values = [], list[Floats]()
        for row in range(0, weights.num_rows, step):
            weighted = self._store.weighted_sums(weights.block(row, row + step), terms=has_formulas)
            means.append(weighted.sums / np.where(weighted.counts > 0, weighted.counts, np.nan))
            if has_formulas:
                values += self._formula_values(weighted)
        formulas = np.array(values).reshape(weights.num_rows, self._num_formulas)
        return np.concatenate(means), formulas

    def _formula_values(self, weighted: WeightedSums) -> Iterator[Floats]:
        """Yield the values of the formulas for each row of weights."""
        section = self._layout.other_sums
        vector = torch.zeros(section.stop, dtype=torch.float64)
        table = vector[: section.start].view(len(MEAN_SUMS), -1)
        table.fill_(math.nan)  # sums that only standard errors need are not resampled
        for row, total in enumerate(weighted.total):
            if total == 0:
                yield np.full(self._num_formulas, np.nan)
                continue
            # Sums are scaled to the number of users, for metrics that count users. Other terms
            # are only compared with each other, and stay integers.
            scale = self._store.users / total
            table[1] = torch.from_numpy(weighted.counts[row] * scale)
            table[2] = torch.from_numpy(weighted.sums[row] * scale)
            vector[section] = torch.from_numpy(weighted.terms[:, row])
            yield self._formulas(vector)
