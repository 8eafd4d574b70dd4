"""Exact values, expectations and standard deviations of sampled metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from weft.statistics.sampling_theory.moments import NegativeDraws, sampled_moments
from weft.statistics.sampling_theory.rank_formulas import RankFormulas
from weft.statistics.sampling_theory.ranked_users import RankedUsers

if TYPE_CHECKING:
    from weft._choices import EstimatorName
    from weft.evaluation.argument_types import ItemCounts, Metric, UserRanks


def exact(
    ranks: UserRanks,
    *,
    num_items: ItemCounts,
    metrics: Metric | Iterable[Metric],
    top_k: Iterable[int] | int | None = None,
) -> dict[str, float]:
    """Return the metrics of the full ranking, by name.

    >>> import weft
    >>> weft.sampling.exact([1, 3], num_items=9, metrics=["MRR@2", "AUC"])
    {'MRR@2': 0.5, 'AUC': 0.875}
    """
    users = RankedUsers.read(ranks, num_items)
    formulas = RankFormulas.build(metrics, top_k)
    return formulas.by_name(formulas.means(users, formulas.exact_values(users)))


def expected(
    ranks: UserRanks,
    *,
    num_items: ItemCounts,
    num_negatives: int,
    metrics: Metric | Iterable[Metric],
    top_k: Iterable[int] | int | None = None,
    replacement: bool = False,
    estimator: EstimatorName | None = None,
    gamma: float | None = None,
) -> dict[str, float]:
    """Return the exact means of the sampled metrics over all draws, by name.

    With `estimator`, those of the metrics of estimated ranks.

    >>> import weft
    >>> values = weft.sampling.expected(
    ...     [1, 4], num_items=10, num_negatives=3, metrics=["MRR@3", "AUC"]
    ... )
    >>> [round(value, 6) for value in values.values()]
    [0.78869, 0.833333]
    """
    users = RankedUsers.read(ranks, num_items)
    draws = NegativeDraws.from_settings(num_negatives, replacement, estimator, gamma)
    formulas = RankFormulas.build(metrics, top_k)
    means, _ = sampled_moments(users, draws, formulas, variance=False)
    return formulas.by_name(formulas.means(users, means))


def deviation(
    ranks: UserRanks,
    *,
    num_items: ItemCounts,
    num_negatives: int,
    metrics: Metric | Iterable[Metric],
    top_k: Iterable[int] | int | None = None,
    replacement: bool = False,
    estimator: EstimatorName | None = None,
    gamma: float | None = None,
) -> dict[str, float]:
    """Return the exact standard deviations of the sampled metrics over all draws, by name.

    They are the random error of one sampled evaluation of these users, with independent draws for
    each. Several relevant items per user take time: a table of all pairs of positions per user.

    >>> import weft
    >>> weft.sampling.deviation([1, 1], num_items=10, num_negatives=3, metrics="MRR@3")
    {'MRR@3': 0.0}
    """
    users = RankedUsers.read(ranks, num_items)
    draws = NegativeDraws.from_settings(num_negatives, replacement, estimator, gamma)
    formulas = RankFormulas.build(metrics, top_k)
    _, variances = sampled_moments(users, draws, formulas, variance=True)
    return formulas.by_name(np.sqrt(formulas.variances(users, variances)))
