"""What is known about every two models on one metric, from their values per user: all that the
tests and effect sizes need.

One metric at a time, all pairs of models together, so that the memory taken is a few copies of one
metric's values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from weft.statistics.pairing import Floats

Pairs = Sequence[tuple[int, int]]  # numbers of models
_TILE = (
    1 << 12
    # distinct values that are counted at a time; for larger products threads would wait for each
    # other
)


@dataclass(frozen=True, eq=False)
class PairStatistics:
    """Of each pair (a, b) over the users where both have a value, `[pairs]`, or `[pairs, metrics]`."""

    users: Floats
    mean_a: Floats
    mean_b: Floats
    difference: Floats  # mean of a - b
    # standard deviation of a - b; NaN for fewer than two users, exactly 0 if all differ alike
    deviation: Floats
    wins: Floats  # users with a > b
    losses: Floats  # users with a < b
    # of all users of a against all of b, how many pairs have a > b, ties counted half: Mann and
    # Whitney's U
    above: Floats
    tied: Floats  # sum of t³ - t over the values that occur t times in a and b together


def stack(measures: Sequence[PairStatistics]) -> PairStatistics:
    """Those of several metrics as one, `[pairs, metrics]`."""
    return PairStatistics(
        *(
            np.stack([getattr(one, field.name) for one in measures], axis=1)
            for field in fields(PairStatistics)
        )
    )


def measure(values: Floats, pairs: Pairs) -> PairStatistics:
    """All pairs of models, from their values `[models, users]`, NaN where undefined."""
    defined = ~np.isnan(values)
    if (defined == defined[0]).all():
        return _measure(
            values if defined[0].all() else np.ascontiguousarray(values[:, defined[0]]), pairs
        )
    found = []
    for a, b in pairs:  # each pair over its own users
        both = defined[a] & defined[b]
        found.append(_measure(values[[a, b]][:, both], [(0, 1)]))
    return PairStatistics(
        *(
            np.concatenate([getattr(one, field.name) for one in found])
            for field in fields(PairStatistics)
        )
    )


def _measure(values: Floats, pairs: Pairs) -> PairStatistics:
    """The same for models whose users are all defined."""
    n = values.shape[1]
    of_a, of_b = np.array(pairs).T
    if n == 0:
        undefined, none = np.full(len(pairs), np.nan), np.zeros(len(pairs))
        return PairStatistics(
            none, undefined, undefined, undefined, undefined, none, none, none, none
        )
    means = values.mean(axis=1)
    difference, deviation, wins, losses = (np.empty(len(pairs)) for _ in range(4))
    for at, (a, b) in enumerate(pairs):
        gaps = values[a] - values[b]
        wins[at], losses[at] = np.count_nonzero(gaps > 0), np.count_nonzero(gaps < 0)
        first = gaps[0]
        gaps -= first  # so that equal gaps have a deviation of exactly 0
        mean = gaps.sum() / n
        gaps -= mean
        difference[at] = first + mean
        deviation[at] = np.sqrt(gaps @ gaps / (n - 1)) if n > 1 else np.nan
    above, tied = overlaps(values)
    return PairStatistics(
        np.full(len(pairs), float(n)),
        means[of_a],
        means[of_b],
        difference,
        deviation,
        wins,
        losses,
        above[of_a, of_b],
        tied[of_a, of_b],
    )


def overlaps(values: Floats) -> tuple[Floats, Floats]:
    """For every two models, over all pairs of one's value and the other's: how many are above, and
    the ties among all of them.

    How often each model has each distinct value, and a smaller one, gives every pair by a product
    of matrices.

    >>> above, tied = overlaps(np.array([[1.0, 2.0], [0.0, 2.0]]))
    >>> above[0, 1], tied[0, 1]
    (np.float64(2.5), np.float64(6.0))
    """
    models, n = values.shape
    until = _counts_until(values)
    distinct = until.shape[1]
    above, both, square = (np.zeros((models, models)) for _ in range(3))
    cubes = np.zeros(models)
    before = np.zeros((models, 1))
    for start in range(0, distinct, _TILE):
        counted = np.concatenate([before, until[:, start : start + _TILE]], axis=1)
        before = counted[:, -1:]
        times = counted[:, 1:] - counted[:, :-1]
        above += times @ counted[:, 1:].T
        if distinct < models * n:
            squares = times * times
            both += times @ times.T
            square += squares @ times.T
            cubes += (squares * times).sum(axis=1)
    if distinct == models * n:  # no ties but with oneself
        both, square, cubes = n * np.eye(models), n * np.eye(models), np.full(models, float(n))
    # A value is not above its equals, of which half count; and Σ (t_a + t_b)³ over the values, less
    # the number of values.
    return above - both / 2, cubes[:, None] + 3 * (square + square.T) + cubes[None, :] - 2 * n


def _counts_until(values: Floats) -> NDArray[np.int64] | NDArray[np.int32]:
    """How many values of each model are at most each distinct value, ascending, `[models, distinct
    values]`.
    """
    models, n = values.shape
    ordered = np.sort(values, axis=1)
    own = [row[np.append(True, row[1:] != row[:-1])] for row in ordered]
    if sum(map(len, own)) < n // 4:  # few values: look each up
        distinct = np.unique(np.concatenate(own))
        return np.stack([np.searchsorted(row, distinct, side="right") for row in ordered])
    order = np.argsort(ordered, axis=None, kind="stable")  # which merges what is sorted already
    merged = ordered.reshape(-1)[order]
    ends = np.append(
        np.flatnonzero(merged[1:] != merged[:-1]), models * n - 1
    )  # of the runs of equal values
    owners = np.repeat(np.arange(models, dtype=np.int16), n)[order]
    found = np.empty((models, len(ends)), dtype=np.int32)
    for model in range(models):
        counts = (owners == model).astype(np.int32)
        found[model] = np.cumsum(counts, out=counts)[ends]
    return found
