"""Paired randomization test: the distribution of the mean difference under random signs.

If two models were equally good, the difference of each user could as well have the other sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.statistics.pair_statistics import Pairs
from weft.statistics.pairing import AlignedUsers, Floats
from weft.statistics.significance_tests import all_subsets

_BUFFERED_VALUES = 1 << 25  # values, and sums under all draws, of metrics that share their draws
_BLOCK_SIGNS = 1 << 22  # signs that are drawn at a time


@dataclass(frozen=True)
class RandomizationTest:
    """Settings of the test. If there are at most `resamples` sign vectors, all are enumerated."""

    alternative: str
    resamples: int
    seed: int

    def run(
        self, aligned: AlignedUsers, metrics: Sequence[str], pairs: Pairs
    ) -> tuple[Floats, Floats]:
        """Return mean differences and p-values, `[metrics, pairs]`.

        All pairs and metrics share their draws, which are independent of the order of tables. The
        p-value of drawn signs is (number as extreme + 1) / (resamples + 1).
        """
        statistics, p_values = np.full((2, len(metrics), len(pairs)), np.nan)
        buffer: list[_SampledMetric] = []
        buffered = 0
        for column, metric in enumerate(metrics):
            values = aligned.values(metric)[:, aligned.order]
            gaps = _GapStatistics.compute(values, pairs)
            statistics[column] = gaps.means
            is_exact = (gaps.nonzero > 0) & (
                2.0 ** np.minimum(gaps.nonzero, 1000) <= self.resamples
            )
            for pair in np.flatnonzero(is_exact).tolist():
                p_values[column, pair] = self._enumerate(_nonzero_gaps(values, pairs[pair]))
            sampled = np.flatnonzero((gaps.nonzero > 0) & ~is_exact)
            if len(sampled):
                buffer.append(_SampledMetric.build(values, pairs, sampled, gaps, p_values[column]))
                buffered += buffer[-1].columns.shape[1] * max(self.resamples, len(aligned.users))
            if buffered > _BUFFERED_VALUES:
                self._sample(buffer)
                buffer, buffered = [], 0
        if buffer:
            self._sample(buffer)
        return statistics, p_values

    def _enumerate(self, gaps: Floats) -> float:
        """Return the share of all sign vectors that are as extreme as the observed one."""
        middle = len(gaps) // 2  # each vector of one half is combined with each of the other
        halves = (
            (1 - 2 * all_subsets(len(half))) @ half for half in (gaps[:middle], gaps[middle:])
        )
        sums = np.add.outer(*halves).ravel()
        return self._count_extreme(sums, gaps.sum(), 1e-12 * np.abs(gaps).sum()) / len(sums)

    def _sample(self, buffer: Sequence[_SampledMetric]) -> None:
        """Write the p-values of the buffered metrics, with the same random signs for all."""
        sums_by_metric = _signed_sums(
            [metric.columns for metric in buffer], self.resamples, self.seed
        )
        for metric, sums in zip(buffer, sums_by_metric):
            eps = np.finfo(np.float64).eps
            rounding = eps * len(metric.columns) * np.abs(metric.columns).max()
            for index, pair in enumerate(metric.pairs):
                pair_sums = sums[metric.plus[index]]
                if metric.minus is not None:
                    pair_sums = pair_sums - sums[metric.minus[index]]
                tolerance = 1e-9 * metric.norms[index] + rounding
                extreme = self._count_extreme(pair_sums, metric.sums[index], tolerance)
                metric.p_values[pair] = (extreme + 1) / (self.resamples + 1)

    def _count_extreme(self, sums: Floats, observed: float, tolerance: float) -> int:
        """Count the sums at least as extreme as the observed one, up to rounding."""
        if self.alternative == "two-sided":
            return int(np.count_nonzero(np.abs(sums) >= abs(observed) - tolerance))
        if self.alternative == "greater":
            return int(np.count_nonzero(sums >= observed - tolerance))
        return int(np.count_nonzero(sums <= observed + tolerance))


@dataclass(frozen=True, eq=False)
class _GapStatistics:
    """Per pair: sum, mean, root of the sum of squares and number of nonzero differences.

    Pairs with fewer than two users, or without a difference, have 0 nonzero and a NaN mean.
    """

    sums: Floats
    means: Floats
    norms: Floats
    nonzero: Floats

    @classmethod
    def compute(cls, values: Floats, pairs: Pairs) -> _GapStatistics:
        sums, norms, nonzero = np.zeros((3, len(pairs)))
        means = np.full(len(pairs), np.nan)
        for pair, (a, b) in enumerate(pairs):
            gaps = values[a] - values[b]
            users = np.count_nonzero(~np.isnan(gaps))
            gaps = np.nan_to_num(gaps, copy=False)
            sums[pair], norms[pair] = gaps.sum(), np.sqrt(gaps @ gaps)
            nonzero[pair] = np.count_nonzero(gaps) if users > 1 else 0
            if nonzero[pair]:
                means[pair] = sums[pair] / users
        return cls(sums, means, norms, nonzero)


def _nonzero_gaps(values: Floats, pair: tuple[int, int]) -> Floats:
    gaps = values[pair[0]] - values[pair[1]]
    nonzero: Floats = gaps[~np.isnan(gaps) & (gaps != 0)]
    return nonzero


@dataclass(frozen=True, eq=False)
class _SampledMetric:
    """A metric that waits for random signs."""

    columns: Floats  # [users, columns]; 0 if undefined
    pairs: NDArray[np.int64]  # indices of the pairs to test
    plus: NDArray[np.int64]  # the column of each pair, or of its first model
    minus: NDArray[np.int64] | None  # the column of its second model
    sums: Floats
    norms: Floats
    p_values: Floats  # [all pairs], written to

    @classmethod
    def build(
        cls,
        values: Floats,
        pairs: Pairs,
        selected: NDArray[np.int64],
        gaps: _GapStatistics,
        p_values: Floats,
    ) -> _SampledMetric:
        """Use a column per model if these are fewer than the pairs, else one per difference.

        Models as columns need to be defined for the same users.
        """
        a, b = np.array([pairs[pair] for pair in selected]).T
        is_defined = ~np.isnan(values)
        plus, minus = np.arange(len(selected)), None
        if len(selected) > len(values) and (is_defined == is_defined[0]).all():
            columns, plus, minus = values - values.mean(axis=0), a, b  # centred for precision
        else:
            columns = values[a] - values[b]
        columns = np.nan_to_num(columns).T
        return cls(
            columns, selected, plus, minus, gaps.sums[selected], gaps.norms[selected], p_values
        )


def _signed_sums(tables: Sequence[Floats], resamples: int, seed: int) -> Iterator[Floats]:
    """Yield the sums `[columns, resamples]` of each table `[users, columns]` under random signs."""
    values = np.concatenate(tables, axis=1)
    positive = np.zeros((resamples, values.shape[1]))
    generator = np.random.default_rng(seed)
    step = max(8, _BLOCK_SIGNS // resamples // 8 * 8)
    for start in range(0, len(values), step):
        block = values[start : start + step]
        bits = np.frombuffer(generator.bytes(resamples * step // 8), dtype=np.uint8)
        signs = np.unpackbits(bits).reshape(resamples, step)[:, : len(block)]
        positive += signs.astype(np.float64) @ block
    positive *= 2
    positive -= values.sum(axis=0)
    ends = np.cumsum([table.shape[1] for table in tables])[:-1]
    return iter(np.split(np.ascontiguousarray(positive.T), ends))
