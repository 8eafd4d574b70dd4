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
    """Return the metrics of the full ranking.

    Parameters
    ----------
    ranks
        Rank from 1 of the relevant item of each user, `[users]`, or a list of ranks for each user.
    num_items
        Number of ranked items: one number for all users, or one for each.
    metrics
        Names of metrics that are sums over the relevant items of a user: AUC, GAUC, HitRate, MAP,
        MAR, MRR, nDCG, nDCGRendle2020, Precision and Recall.
    top_k
        Cut-offs of the metrics that are named without one.

    Returns
    -------
    dict
        Values by the name of the metric.

    Examples
    --------
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
    """Return the expected values of sampled metrics over all draws of negatives.

    The values are exact.

    Parameters
    ----------
    ranks, num_items, metrics, top_k
        As in `weft.sampling.exact`.
    num_negatives
        Number of negatives that are drawn uniformly for each user.
    replacement
        Whether negatives are drawn with replacement. Default: False.
    estimator
        Return the values of the metrics of ranks that are estimated from the sample:
        `"rank_estimate"` or `"bias_variance"`. Only without replacement.
    gamma
        Weight of variance against bias for `estimator="bias_variance"`. Default: 0.1.

    Returns
    -------
    dict
        Values by the name of the metric.

    Examples
    --------
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
    """Return the standard deviations of sampled metrics over all draws of negatives.

    They are exact, and are the random error of one sampled evaluation of these users with
    independent draws. With several relevant items per user the computation takes longer: it uses a
    table of all pairs of positions of each user.

    Parameters
    ----------
    ranks, num_items, metrics, top_k
        As in `weft.sampling.exact`.
    num_negatives, replacement, estimator, gamma
        As in `weft.sampling.expected`.

    Returns
    -------
    dict
        Standard deviations by the name of the metric.

    Examples
    --------
    >>> import weft
    >>> weft.sampling.deviation([1, 1], num_items=10, num_negatives=3, metrics="MRR@3")
    {'MRR@3': 0.0}
    """
    users = RankedUsers.read(ranks, num_items)
    draws = NegativeDraws.from_settings(num_negatives, replacement, estimator, gamma)
    formulas = RankFormulas.build(metrics, top_k)
    _, variances = sampled_moments(users, draws, formulas, variance=True)
    return formulas.by_name(np.sqrt(formulas.variances(users, variances)))
