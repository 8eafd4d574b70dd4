"""The paired randomisation test: how often a random choice of signs makes the mean difference as
large as it is.

If two models were equally good, each user's difference could as well have the other sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.statistics.pair_statistics import Pairs
from weft.statistics.pairing import AlignedUsers, Floats
from weft.statistics.significance_tests import every_choice

_HELD = 1 << 25  # values, and sums of flipped values, that are held at a time
_SIGNS = 1 << 22  # and signs


@dataclass(frozen=True, eq=False)
class _Drawn:
    """A metric that waits for the draws: columns of values, and of each pair what it needs."""

    columns: Floats  # [users, columns]; 0 where undefined
    pairs: NDArray[np.int64]
    plus: NDArray[np.int64]  # the column, or the two, that the differences of the pair are
    minus: NDArray[np.int64] | None
    sums: Floats
    spreads: Floats
    p_values: Floats  # where they go, of all pairs


def randomization(
    aligned: AlignedUsers,
    metrics: Sequence[str],
    pairs: Pairs,
    alternative: str,
    resamples: int,
    seed: int,
) -> tuple[Floats, Floats]:
    """Mean differences and p-values, `[pairs, metrics]`; all pairs and metrics meet the same draws.

    Where all choices of signs for the users that differ are at most `resamples`, all are tried;
    otherwise so many are drawn, and the p-value is (as extreme + 1) / (resamples + 1)."""
    statistics, p_values = np.full((2, len(pairs), len(metrics)), np.nan)
    waiting: list[_Drawn] = []
    held = 0
    for at, metric in enumerate(metrics):
        values = aligned.values(metric)[:, aligned.order]
        sums, sizes, spreads = _observe(values, pairs, statistics[:, at])
        exact = (sizes > 0) & (2.0 ** np.minimum(sizes, 1000) <= resamples)
        for pair in np.flatnonzero(exact).tolist():
            gaps = values[pairs[pair][0]] - values[pairs[pair][1]]
            p_values[pair, at] = _all_flips(gaps[~np.isnan(gaps) & (gaps != 0)], alternative)
        left = np.flatnonzero((sizes > 0) & ~exact)
        if len(left):
            waiting.append(_drawn(values, pairs, left, sums, spreads, p_values[:, at]))
            held += waiting[-1].columns.shape[1] * max(resamples, len(aligned.users))
        if held > _HELD:
            _draw(waiting, alternative, resamples, seed)
            waiting, held = [], 0
    if waiting:
        _draw(waiting, alternative, resamples, seed)
    return statistics, p_values


def _observe(values: Floats, pairs: Pairs, means: Floats) -> tuple[Floats, Floats, Floats]:
    """The sum of each pair's differences, how many are not 0, and the root of the sum of squares;
    writes the means.
    """
    sums, sizes, spreads = np.zeros((3, len(pairs)))
    for at, (a, b) in enumerate(pairs):
        gaps = values[a] - values[b]
        users = np.count_nonzero(~np.isnan(gaps))
        gaps = np.nan_to_num(gaps, copy=False)
        sums[at], sizes[at], spreads[at] = gaps.sum(), np.count_nonzero(gaps), np.sqrt(gaps @ gaps)
        if users < 2:
            sizes[at] = 0
        if sizes[at]:
            means[at] = sums[at] / users
    return sums, sizes, spreads


def _drawn(
    values: Floats,
    pairs: Pairs,
    left: NDArray[np.int64],
    sums: Floats,
    spreads: Floats,
    p_values: Floats,
) -> _Drawn:
    """The models themselves where all are defined for the same users and are fewer than the pairs;
    else the differences.
    """
    a, b = np.array([pairs[pair] for pair in left]).T
    defined = ~np.isnan(values)
    if len(left) > len(values) and (defined == defined[0]).all():
        columns, plus, minus = (
            values - values.mean(axis=0),
            a,
            b,
        )  # what all models share would only take digits
    else:
        columns, plus, minus = values[a] - values[b], np.arange(len(left)), None
    return _Drawn(np.nan_to_num(columns).T, left, plus, minus, sums[left], spreads[left], p_values)


def _draw(waiting: Sequence[_Drawn], alternative: str, resamples: int, seed: int) -> None:
    """Flip signs at random, the same for all that wait, and write their p-values."""
    flipped = _flipped_sums([drawn.columns for drawn in waiting], resamples, seed)
    for drawn, sampled in zip(waiting, flipped):
        rounding = np.finfo(np.float64).eps * len(drawn.columns) * np.abs(drawn.columns).max()
        for number, pair in enumerate(drawn.pairs):
            found = sampled[drawn.plus[number]]
            if drawn.minus is not None:
                found = found - sampled[drawn.minus[number]]
            extreme = _extreme(
                found, drawn.sums[number], 1e-9 * drawn.spreads[number] + rounding, alternative
            )
            drawn.p_values[pair] = (extreme + 1) / (resamples + 1)


def _all_flips(gaps: Floats, alternative: str) -> float:
    """The share of all choices of signs that are as extreme."""
    halves = (
        gaps[: len(gaps) // 2],
        gaps[len(gaps) // 2 :],
    )  # each choice of one with each of the other
    sums = np.add.outer(*((1 - 2 * every_choice(len(half))) @ half for half in halves)).ravel()
    return _extreme(sums, gaps.sum(), 1e-12 * np.abs(gaps).sum(), alternative) / len(sums)


def _flipped_sums(columns: Sequence[Floats], resamples: int, seed: int) -> Iterator[Floats]:
    """For each table `[users, columns]` its sums under each draw of signs, `[columns, resamples]`."""
    values = np.concatenate(columns, axis=1)
    users = len(values)
    positive = np.zeros((resamples, values.shape[1]))
    generator = np.random.default_rng(seed)
    step = max(8, _SIGNS // resamples // 8 * 8)
    for start in range(0, users, step):
        some = values[start : start + step]
        bits = np.frombuffer(generator.bytes(resamples * step // 8), dtype=np.uint8)
        signs = np.unpackbits(bits).reshape(resamples, step)[:, : len(some)]
        positive += signs.astype(np.float64) @ some
    positive *= 2
    positive -= values.sum(axis=0)
    return iter(
        np.split(
            np.ascontiguousarray(positive.T), np.cumsum([table.shape[1] for table in columns])[:-1]
        )
    )


def _extreme(sampled: Floats, observed: float, rounding: float, alternative: str) -> int:
    """How many are as extreme as what was observed; what is equal but for rounding counts."""
    if alternative == "two-sided":
        return int(np.count_nonzero(np.abs(sampled) >= abs(observed) - rounding))
    if alternative == "greater":
        return int(np.count_nonzero(sampled >= observed - rounding))
    return int(np.count_nonzero(sampled <= observed + rounding))
