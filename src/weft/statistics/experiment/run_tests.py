"""Tests of the difference of two models over folds, seeds and users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from weft.evaluation.resample_weights import poisson_weights, rows_per_block
from weft.statistics.pairing import Floats, Integers

_SEED_STREAM = 0x7365656473  # makes draws of seeds independent of those of users


@dataclass(frozen=True)
class RunTest:
    """A difference with its standard error, the degrees of freedom of Student's t, and its p-value.

    `runs` is the number of runs of both models that were used, `users` the number of users.
    """

    difference: float = math.nan
    std_error: float = math.nan
    freedom: float = math.nan
    runs: int = 0
    users: int | None = None

    @property
    def statistic(self) -> float:
        """The difference in standard errors."""
        if self.std_error == 0:
            return math.nan if self.difference == 0 else math.copysign(math.inf, self.difference)
        return self.difference / self.std_error

    @property
    def p_value(self) -> float:
        """The two-sided p-value; NaN if nothing varies and nothing differs."""
        from scipy import stats

        return float(2 * stats.t.sf(abs(self.statistic), self.freedom))

    def half_width(self, alpha: float) -> float:
        """Return half of the width of the interval at level 1 - alpha."""
        from scipy import stats

        return float(stats.t.ppf(1 - alpha / 2, self.freedom)) * self.std_error


# --------------------------------------------------------------------------------------------------


def corrected_t(differences: Sequence[float], *, test_ratio: float) -> RunTest:
    """Test differences of paired runs on several folds (Nadeau and Bengio 2003).

    The train sets of folds overlap, so that differences are dependent and their variance s² is too
    small. The corrected variance of their mean is (1/n + test_ratio) s², where `test_ratio` is the
    size of the test part over that of the train part. doi 10.1023/A:1024068626366
    """
    values = np.asarray(differences, dtype=np.float64)
    count = len(values)
    if count < 2 or np.isnan(values).any():
        return RunTest(runs=2 * count)
    error = math.sqrt((1 / count + test_ratio) * float(values.var(ddof=1)))
    return RunTest(float(values.mean()), error, count - 1, 2 * count)


# --------------------------------------------------------------------------------------------------


def seeds_t(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> RunTest:
    """Test the difference of two models over their seeds (Welch 1947).

    `first` and `second` are the values of the seeds of each fold. Seeds are independent
    repetitions, so that the variance of the mean of a fold is that of its seeds over their number.
    NaN if a fold has one seed.
    """
    runs = sum(len(fold) for folds in (first, second) for fold in folds)
    counts = [len(fold) for folds in (first, second) for fold in folds]
    if not counts or min(counts) < 2:
        return RunTest(runs=runs)
    means = [float(np.mean([np.mean(fold) for fold in folds])) for folds in (first, second)]
    parts = [
        (float(np.var(fold, ddof=1)) / len(fold) / len(folds) ** 2, len(fold) - 1)
        for folds in (first, second)
        for fold in folds
    ]
    error = math.sqrt(sum(variance for variance, _ in parts))
    return RunTest(means[0] - means[1], error, _satterthwaite(parts), runs)


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FoldValues:
    """Values per user of two models on one fold: `first` and `second` are `[seeds, users]`.

    `users` are numbers among all users of the experiment; users without a value in some run are
    left out.
    """

    users: Integers
    first: Floats
    second: Floats


def align_folds(
    pairs: Sequence[tuple[Sequence[pl.DataFrame], Sequence[pl.DataFrame]]], column: str
) -> list[FoldValues]:
    """Return the values of each fold from the per-user tables of the seeds of two models."""
    tables = [table for pair in pairs for seeds in pair for table in seeds]
    ids = pl.concat([table["user"] for table in tables], rechunk=True).unique().sort()
    index = pl.DataFrame({"user": ids, "number": np.arange(len(ids))})
    folds = []
    for pair in pairs:
        stacked = [_stack_seeds(seeds, index, column) for seeds in pair]
        users = np.flatnonzero(~np.isnan(np.concatenate(stacked)).any(axis=0))
        folds.append(FoldValues(users, stacked[0][:, users], stacked[1][:, users]))
    return [fold for fold in folds if len(fold.users)]


def _stack_seeds(tables: Sequence[pl.DataFrame], index: pl.DataFrame, column: str) -> Floats:
    """Return the values of the seeds of a model, `[seeds, users]`; NaN for users without one."""
    stacked = np.full((len(tables), len(index)), np.nan)
    for row, table in zip(stacked, tables):
        numbers = table.join(index, on="user", how="left", maintain_order="left")["number"]
        row[numbers.to_numpy()] = table[column].to_numpy()
    return stacked


def hierarchical(folds: Sequence[FoldValues], *, resamples: int, seed: int) -> RunTest:
    """Test the difference of two models by a bootstrap of users, and of seeds within folds.

    A resample draws users with Poisson weights, the same for both models and in all folds, and for
    each model and fold the seeds. The draw of n seeds varies by (n - 1) / n of the variance of
    seeds, for which its deviation from the mean is corrected (Rao and Wu 1988). The standard error
    is the deviation of the resampled differences. Student's t has the degrees of freedom of Welch
    and Satterthwaite, of which few seeds give few.
    """
    runs = sum(len(fold.first) + len(fold.second) for fold in folds)
    users = len(np.unique(np.concatenate([fold.users for fold in folds]))) if folds else 0
    if users < 2:
        return RunTest(runs=runs, users=users)
    difference = float(np.mean([fold.first.mean() - fold.second.mean() for fold in folds]))
    by_user, by_both = _resample(folds, resamples, seed)
    error = float(by_both.std(ddof=1))
    user_variance = float(by_user.var(ddof=1))
    parts = [(user_variance, users - 1)]
    for fold in folds:
        for values in (fold.first, fold.second):
            count = len(values)
            if count > 1:
                variance = float(values.mean(axis=1).var(ddof=1)) / count / len(folds) ** 2
                parts.append((variance, count - 1))
    return RunTest(difference, error, _satterthwaite(parts), runs, users)


def _satterthwaite(parts: Sequence[tuple[float, int]]) -> float:
    """Return the degrees of freedom of a sum of variances, each with its own."""
    total = sum(variance for variance, _ in parts)
    weighted = sum(variance**2 / freedom for variance, freedom in parts)
    return total**2 / weighted if weighted else float(max(freedom for _, freedom in parts))


def _resample(folds: Sequence[FoldValues], resamples: int, seed: int) -> tuple[Floats, Floats]:
    """Return resampled differences, `[resamples]`: of users only, and of users and seeds."""
    draw = np.random.default_rng([_SEED_STREAM, seed])
    num_users = 1 + int(max(fold.users.max() for fold in folds))
    keys = torch.arange(num_users)
    seeds = [
        [_draw_seeds(draw, resamples, len(values)) for values in (fold.first, fold.second)]
        for fold in folds
    ]
    by_user, by_both = np.zeros(resamples), np.zeros(resamples)
    step = rows_per_block(num_users)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        weights = poisson_weights(keys, seed, start, stop)
        for fold, draws in zip(folds, seeds):
            chosen = weights[:, fold.users]
            total = np.maximum(chosen.sum(axis=1, keepdims=True), 1)
            for sign, values, drawn in zip((1, -1), (fold.first, fold.second), draws):
                means = chosen @ values.T / total  # [resamples, seeds]
                by_user[start:stop] += sign * means.mean(axis=1) / len(folds)
                by_both[start:stop] += sign * (means * drawn[start:stop]).sum(axis=1) / len(folds)
    return by_user, by_both


def _draw_seeds(draw: np.random.Generator, resamples: int, count: int) -> Floats:
    """Return the weight of each seed, `[resamples, seeds]`; a row adds up to 1."""
    if count == 1:
        return np.ones((resamples, 1))
    shares = draw.multinomial(count, np.full(count, 1 / count), size=resamples) / count
    return 1 / count + math.sqrt(count / (count - 1)) * (shares - 1 / count)
