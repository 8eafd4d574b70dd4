"""Summary statistics of every pair of models on one metric, from per-user values.

Tests and effect sizes are computed from them. Each metric is processed alone, for all pairs of
models, so that memory is bounded by a few copies of the values of one metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from weft.statistics.pairing import Floats

Pairs = Sequence[tuple[int, int]]  # indices of models
_TILE_VALUES = 1 << 12  # distinct values per matrix product; threads would wait in larger ones


@dataclass(frozen=True, eq=False)
class PairStatistics:
    """Statistics of each pair (a, b) over the users with both values.

    Arrays are `[pairs]`.
    """

    users: Floats
    mean_a: Floats
    mean_b: Floats
    difference: Floats  # mean of a - b
    # Standard deviation of a - b; NaN for fewer than two users, exactly 0 if all differ alike.
    deviation: Floats
    wins: Floats  # users with a > b
    losses: Floats  # users with a < b
    u_statistic: Floats  # Mann-Whitney U of a: pairs of values with a > b, ties counted half
    tie_term: Floats  # sum of t³ - t over values that occur t times in a and b

    @classmethod
    def compute(cls, values: Floats, pairs: Pairs) -> PairStatistics:
        """Return the statistics of all pairs from values `[models, users]`, NaN if undefined."""
        is_defined = ~np.isnan(values)
        if (is_defined == is_defined[0]).all():
            if not is_defined[0].all():
                values = np.ascontiguousarray(values[:, is_defined[0]])
            return _compute_complete(values, pairs)
        parts = []
        for a, b in pairs:  # each pair over its own users
            both = is_defined[a] & is_defined[b]
            parts.append(_compute_complete(values[[a, b]][:, both], [(0, 1)]))
        columns = ([getattr(part, field.name) for part in parts] for field in fields(cls))
        return cls(*map(np.concatenate, columns))


def _compute_complete(values: Floats, pairs: Pairs) -> PairStatistics:
    """Return the statistics of all pairs from values without NaN."""
    n = values.shape[1]
    a_models, b_models = np.array(pairs).T
    if n == 0:
        nan, zero = np.full(len(pairs), np.nan), np.zeros(len(pairs))
        return PairStatistics(zero, nan, nan, nan, nan, zero, zero, zero, zero)
    means = values.mean(axis=1)
    difference, deviation, wins, losses = (np.empty(len(pairs)) for _ in range(4))
    for pair, (a, b) in enumerate(pairs):
        gaps = values[a] - values[b]
        wins[pair], losses[pair] = np.count_nonzero(gaps > 0), np.count_nonzero(gaps < 0)
        first = gaps[0]
        gaps -= first  # so that equal gaps have a deviation of exactly 0
        mean = gaps.sum() / n
        gaps -= mean
        difference[pair] = first + mean
        deviation[pair] = np.sqrt(gaps @ gaps / (n - 1)) if n > 1 else np.nan
    u_statistics, tie_terms = rank_statistics(values)
    return PairStatistics(
        np.full(len(pairs), float(n)),
        means[a_models],
        means[b_models],
        difference,
        deviation,
        wins,
        losses,
        u_statistics[a_models, b_models],
        tie_terms[a_models, b_models],
    )


def rank_statistics(values: Floats) -> tuple[Floats, Floats]:
    """Return U statistics and tie terms of every two models, `[models, models]` both.

    Cumulative counts of the distinct values of each model give all pairs by matrix products.

    >>> u, ties = rank_statistics(np.array([[1.0, 2.0], [0.0, 2.0]]))
    >>> u[0, 1], ties[0, 1]
    (np.float64(2.5), np.float64(6.0))
    """
    models, n = values.shape
    cumulative = _cumulative_counts(values)
    distinct = cumulative.shape[1]
    at_most, equal, square = (np.zeros((models, models)) for _ in range(3))
    cubes = np.zeros(models)
    before = np.zeros((models, 1))
    for start in range(0, distinct, _TILE_VALUES):
        tile = np.concatenate([before, cumulative[:, start : start + _TILE_VALUES]], axis=1)
        before = tile[:, -1:]
        counts = tile[:, 1:] - tile[:, :-1]
        at_most += counts @ tile[:, 1:].T
        if distinct < models * n:
            squares = counts * counts
            equal += counts @ counts.T
            square += squares @ counts.T
            cubes += (squares * counts).sum(axis=1)
    if distinct == models * n:  # a model is tied with itself only
        equal, square, cubes = n * np.eye(models), n * np.eye(models), np.full(models, float(n))
    # Σ (t_a + t_b)³ over the distinct values, less the number of values.
    tie_terms = cubes[:, None] + 3 * (square + square.T) + cubes[None, :] - 2 * n
    return at_most - equal / 2, tie_terms


def _cumulative_counts(values: Floats) -> NDArray[np.int64] | NDArray[np.int32]:
    """Count the values of each model up to each distinct value, `[models, distinct values]`."""
    models, n = values.shape
    ordered = np.sort(values, axis=1)
    own = [row[np.append(True, row[1:] != row[:-1])] for row in ordered]
    if sum(map(len, own)) < n // 4:  # few distinct values: look each up
        distinct = np.unique(np.concatenate(own))
        return np.stack([np.searchsorted(row, distinct, side="right") for row in ordered])
    order = np.argsort(ordered, axis=None, kind="stable")  # merges the sorted rows
    merged = ordered.reshape(-1)[order]
    run_ends = np.append(np.flatnonzero(merged[1:] != merged[:-1]), models * n - 1)
    owners = np.repeat(np.arange(models, dtype=np.int16), n)[order]
    cumulative = np.empty((models, len(run_ends)), dtype=np.int32)
    for model in range(models):
        counts = (owners == model).astype(np.int32)
        cumulative[model] = np.cumsum(counts, out=counts)[run_ends]
    return cumulative
