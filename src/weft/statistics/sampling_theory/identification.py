"""Identification: whether a sampled evaluation shows the order of models in the full ranking."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import (
    InputError,
    SettingError,
    agree,
    check_float,
    check_int,
    describe_type,
    setting_ref,
)
from weft.statistics.pairing import Integers
from weft.statistics.sampling_theory.model_order import Identification, ModelPair
from weft.statistics.sampling_theory.moments import (
    NegativeDraws,
    draw_probabilities,
    item_values,
    sampled_moments,
)
from weft.statistics.sampling_theory.rank_formulas import RankFormulas
from weft.statistics.sampling_theory.ranked_users import RankedUsers

if TYPE_CHECKING:
    from weft._choices import EstimatorName
    from weft.evaluation.argument_types import ItemCounts, Metric, UserRanks

_CONSTRAINTS = 100  # positions at which distribution functions are compared
_GRID_STEPS = 400  # of the grid of ranks
_ROUNDING = 1e-12  # differences up to this count as equal


def is_identified(
    models: Mapping[str, UserRanks],
    *,
    metric: Metric,
    num_items: ItemCounts,
    num_negatives: int,
    replacement: bool = False,
    estimator: EstimatorName | None = None,
    gamma: float | None = None,
    confidence: float = 0.95,
) -> Identification:
    """Return whether a sampled evaluation orders models like the metric of the full ranking.

    A pair of models is identified if the expected sampled metrics have the order of the full
    metrics, and one sampled evaluation of these users shows this order with a probability of at
    least `confidence`. The probability is normal, with the exact variance, and assumes independent
    draws for users and models. (Models that share their candidates differ less by chance where they
    rank the same items first.)

    Parameters
    ----------
    models
        Full ranks of the same users by the name of the model: the rank from 1 of one relevant item
        of each user, `[users]`, or a list of ranks for each user.
    metric
        Name of the metric, as in `weft.sampling.exact`.
    num_items
        Number of ranked items: one number for all users, or one for each.
    num_negatives, replacement, gamma
        As in `weft.sampling.expected`.
    estimator
        Test the metric of estimated ranks, as in `weft.sampling.expected`.
    confidence
        Required probability, between 0 and 1.

    Returns
    -------
    Identification
        The pairs of models; true if all of them are identified.

    Examples
    --------
    >>> import weft
    >>> models = {"A": [100] * 500, "B": [1, 9000] * 250}
    >>> settings = {"metric": "MRR@10", "num_items": 10_000, "num_negatives": 99}
    >>> verdict = weft.sampling.is_identified(models, **settings)
    >>> bool(verdict)
    False
    >>> print(verdict)
    The order by MRR@10 is not identified with 99 sampled negatives:
      no   A, B: B is better (0 and 0.5), but the sample favours A (expected 0.636 and 0.5); probability of the right order 0
    """  # noqa: E501
    formula, confidence = _check(models, metric, confidence)
    draws = NegativeDraws.from_settings(num_negatives, replacement, estimator, gamma)
    metrics: dict[str, _SampledMetricMoments] = {}
    num_users = set()
    for name, ranks in models.items():
        users = RankedUsers.read(ranks, num_items, f"the ranks of {name}")
        num_users.add(len(users.counts))
        means, variances = sampled_moments(users, draws, formula, variance=True)
        metrics[name] = _SampledMetricMoments(
            full=float(formula.means(users, formula.exact_values(users))[0]),
            mean=float(formula.means(users, means)[0]),
            variance=float(formula.variances(users, variances)[0]),
        )
    if len(num_users) > 1:
        raise InputError(
            f"the models have ranks of different numbers of users: {sorted(num_users)}; give those "
            "of the same users."
        )
    pairs = (
        _compare_moments((a, metrics[a]), (b, metrics[b]), confidence)
        for a, b in itertools.combinations(models, 2)
    )
    return Identification(formula.names[0], draws.num_negatives, tuple(pairs))


def _check(models: Mapping[str, Any], metric: Any, confidence: float) -> tuple[RankFormulas, float]:
    """Return the formula of the metric and the confidence. Raises `SettingError`."""
    if not isinstance(models, Mapping) or len(models) < 2:
        is_mapping = isinstance(models, Mapping)
        got = agree(len(models), "{n} model{s}") if is_mapping else describe_type(models)
        raise SettingError(
            f"is_identified compares two or more models: give {{name: ranks, ...}}; got {got}."
        )
    formula = RankFormulas.build([metric], None)
    if len(formula.metrics) != 1:
        raise SettingError(f"is_identified takes one metric; got {metric!r}.")
    level = float(check_float("confidence", confidence, more=" between 0 and 1"))
    if not 0 < level < 1:
        raise SettingError(
            f"{setting_ref('confidence', confidence)}; it must be a number between 0 and 1."
        )
    return formula, level


@dataclass(frozen=True)
class _SampledMetricMoments:
    """The full metric of a model, and the mean and variance of the sampled one."""

    full: float
    mean: float
    variance: float


def _compare_moments(
    model_a: tuple[str, _SampledMetricMoments],
    model_b: tuple[str, _SampledMetricMoments],
    confidence: float,
) -> ModelPair:
    (a, of_a), (b, of_b) = model_a, model_b
    full_gap, sampled_gap = of_a.full - of_b.full, of_a.mean - of_b.mean
    deviation = math.sqrt(of_a.variance + of_b.variance)
    expectations = f"(expected {of_a.mean:.3g} and {of_b.mean:.3g})"
    if abs(full_gap) < _ROUNDING:
        identified = abs(sampled_gap) < _ROUNDING and deviation < _ROUNDING
        probability = float(identified)
        why = f"equal ({of_a.full:.3g}), " + (
            "and equal on every sample"
            if identified
            else f"but a sample ranks one higher {expectations}"
        )
    else:
        better, worse = (a, b) if full_gap > 0 else (b, a)
        agrees = full_gap * sampled_gap > 0
        probability = _probability_above_zero(
            sampled_gap if full_gap > 0 else -sampled_gap, deviation
        )
        identified = agrees and probability >= confidence
        verdict = "and the sample agrees" if agrees else f"but the sample favours {worse}"
        why = (
            f"{better} is better ({of_a.full:.3g} and {of_b.full:.3g}), {verdict} {expectations}; "
            f"probability of the right order {probability:.2g}"
        )
    bounds = (of_a.full, of_a.full, of_b.full, of_b.full)
    sampled = (of_a.mean, of_b.mean)
    return ModelPair(str(a), str(b), identified, *bounds, *sampled, probability, why)


def _probability_above_zero(mean: float, deviation: float) -> float:
    """Return the probability that a normal number is positive."""
    if deviation < _ROUNDING:
        return float(mean > 0)
    return 0.5 * (1 + math.erf(mean / deviation / math.sqrt(2)))


# --------------------------------------------------------------------------------------------------


def is_identified_from_sample(
    models: Mapping[str, UserRanks],
    *,
    metric: Metric,
    num_items: int,
    num_negatives: int,
    replacement: bool = False,
    confidence: float = 0.95,
) -> Identification:
    """Return whether the positions that a sampled evaluation observed identify the order of models.

    Many distributions of full ranks explain the same positions. Those that do so, within the error
    of a sample of this number of users (inequality of Dvoretzky, Kiefer and Wolfowitz, for all
    models jointly), give an interval for the full metric of each model. A pair of models is
    identified if their intervals do not overlap.

    Parameters
    ----------
    models
        Position from 1 among the candidates of one relevant item of each user, `[users]`, by the
        name of the model.
    metric
        Name of the metric, as in `weft.sampling.exact`.
    num_items
        Number of items in the full ranking.
    num_negatives, replacement
        As in `weft.sampling.expected`.
    confidence
        Confidence that all intervals contain the full metric.

    Returns
    -------
    Identification
        The pairs of models; true if all of them are identified.

    Examples
    --------
    >>> import weft
    >>> positions = {"als": [1] * 300, "random": [*range(1, 101)] * 3}
    >>> found = weft.sampling.is_identified_from_sample(
    ...     positions, metric="nDCG@10", num_items=1000, num_negatives=99
    ... )
    >>> bool(found)
    True
    """
    formula, confidence = _check(models, metric, confidence)
    draws = NegativeDraws.from_settings(num_negatives, replacement, None, None)
    size = check_int("num_items", num_items)
    eligible = size - 1
    drawn = int(draws.num_drawn(np.array([eligible]))[0])
    if drawn == 0:
        raise SettingError(
            f"{setting_ref('num_items', size)} leaves no negative to sample; give the number of "
            "items that are ranked in full."
        )
    observed: dict[str, tuple[float, float, float]] = {}
    by_position = item_values(formula, draws, count=1, m=drawn, eligible=eligible)[0, :, 0]
    bounds = _MetricBounds(formula, eligible, drawn, draws.replacement)
    for name, positions in models.items():
        users = RankedUsers.read(positions, drawn + 1, f"the positions of {name}")
        if (users.counts != 1).any():
            raise InputError(
                f"the positions of {name} are of several relevant items per user; give one per "
                "user."
            )
        low, high = bounds.compute(users.above, (1 - confidence) / len(models), name=str(name))
        observed[name] = low, high, float(by_position[users.above].mean())
    pairs = (
        _compare_bounds((a, observed[a]), (b, observed[b]))
        for a, b in itertools.combinations(models, 2)
    )
    return Identification(formula.names[0], draws.num_negatives, tuple(pairs))


def _compare_bounds(
    model_a: tuple[str, tuple[float, float, float]], model_b: tuple[str, tuple[float, float, float]]
) -> ModelPair:
    """Compare two models by the lowest and highest full metric, and the sampled one of each."""
    (a, (low_a, high_a, sampled_a)), (b, (low_b, high_b, sampled_b)) = model_a, model_b
    identified = low_a > high_b or low_b > high_a
    verdict = "either may be better"
    if identified:
        verdict = f"{a if low_a > high_b else b} is better"
    why = (
        f"all items give {a} {low_a:.3g} to {high_a:.3g} and {b} {low_b:.3g} to {high_b:.3g}: "
        f"{verdict}"
    )
    bounds, sampled = (low_a, high_a, low_b, high_b), (sampled_a, sampled_b)
    return ModelPair(str(a), str(b), identified, *bounds, *sampled, math.nan, why)


@dataclass(frozen=True)
class _MetricBounds:
    """Bounds of the full metric over all distributions of ranks that explain sampled positions.

    `eligible` irrelevant items are ranked in full, of which `drawn` are sampled.
    """

    formula: RankFormulas
    eligible: int
    drawn: int
    replacement: bool

    def compute(self, positions: Integers, error: float, *, name: str) -> tuple[float, float]:
        """Return the bounds for positions `[users]`, with an error probability.

        The distribution function of the positions is known up to the bound of Dvoretzky, Kiefer
        and Wolfowitz, and is linear in the distribution of ranks: a linear programme over a grid of
        ranks.
        """
        from scipy.optimize import linprog

        is_complete = self.drawn == self.eligible and not self.replacement  # positions are ranks
        grid = positions if is_complete else self._rank_grid()
        values = self.formula.exact_values(
            RankedUsers(np.ones_like(grid), grid, np.full_like(grid, self.eligible))
        )[:, 0]
        if is_complete:
            return float(values.mean()), float(values.mean())
        at = np.arange(0, self.drawn, max(1, self.drawn // _CONSTRAINTS))
        probabilities = draw_probabilities(
            grid[:, None], self.eligible, self.drawn, self.replacement
        )
        below = probabilities.cumsum(1)[:, at].T
        observed = (positions[:, None] <= at).mean(0)
        margin = math.sqrt(math.log(2 / error) / (2 * len(positions)))
        bounds = []
        for sign in (1, -1):
            solution = linprog(
                sign * values,
                A_ub=np.concatenate([below, -below]),
                b_ub=np.concatenate([observed + margin, margin - observed]),
                A_eq=np.ones((1, len(grid))),
                b_eq=[1.0],
                method="highs",
            )
            if not solution.success:
                raise InputError(
                    f"no ranks explain the positions of {name}: they are not those of items among "
                    f"{self.drawn} of {self.eligible} negatives that were drawn uniformly. Check "
                    "num_items and num_negatives."
                )
            bounds.append(float(sign * solution.fun))
        return bounds[0], bounds[1]

    def _rank_grid(self) -> Integers:
        """Return ranks from 0 to `eligible`: all first ones, then ever fewer."""
        cutoffs = (k for k in self.formula.cutoffs if k < self.eligible)
        finest = min(self.eligible, max([_GRID_STEPS, *cutoffs]))
        coarse = [
            np.geomspace(finest, self.eligible, _GRID_STEPS),
            np.linspace(0, self.eligible, _GRID_STEPS),
        ]
        rounded = np.concatenate(coarse).round().astype(np.int64)
        return np.union1d(np.arange(finest + 1), rounded)
