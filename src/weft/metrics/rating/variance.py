"""How much of the variation of ratings the scores explain. Higher is better."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.batch.topk import TopK
from weft.metrics.accumulators import Accumulator, UserSums
from weft.metrics.base.formulas import PooledMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.moment_sums import (
    NUM_MOMENT_SUMS,
    Spread,
    moment_sums,
    read_spread,
    row_spread,
)
from weft.metrics.registry import register


def scored_ratings(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return ratings, their scores before masking (0 for none), and whether they have a score, all
    `[n]`.
    """
    is_scored = batch.raw_scores > -torch.inf
    scores = torch.where(is_scored, batch.raw_scores.to(batch.dtype), 0)
    return batch.truth.values, scores, is_scored


def rating_moments(batch: Batch) -> Tensor:
    """Return the sums of each user's ratings and scores, `[batch, NUM_MOMENT_SUMS]`."""
    return moment_sums(*scored_ratings(batch), batch.truth)


class _VarianceMetric(PooledMetric):
    """The common properties of metrics of the spread of ratings (x) and scores (y)."""

    family = "rating"
    supports_own_threshold = False  # ratings need not be relevant
    higher_is_better = True
    bounds: Bounds = (None, 1.0)
    has_expected_tie_form = True  # there are no lists, and so no ties
    sampling_behaviour = "unbiased"  # there are no negatives
    reads_scores = True
    users = "lists"  # all users who have a rating with a score
    undefined = "no rating has a score, or all ratings are equal"

    def formula(self, spread: Spread) -> Tensor:
        """Return the value; NaN if undefined."""
        raise NotImplementedError

    def user_values(self, topk: TopK) -> Tensor:
        batch = topk.batch
        spread = batch.cached(
            "rating_spread", lambda: row_spread(*scored_ratings(batch), batch.truth)
        )
        return self.formula(spread)[:, None]

    def pooled_sums(self) -> Accumulator:
        return UserSums("rating_moments", NUM_MOMENT_SUMS, rating_moments)

    def pooled_value(self, sums: Tensor) -> Tensor:
        return self.formula(read_spread(sums))


@register
class R2(_VarianceMetric):
    """The coefficient of determination: 1 - MSE / variance of the ratings.

    Predicting the mean rating for everything gives 0, worse scores a negative value.
    `average="users"` is the mean over users of their own value, each with the variance of the
    user's own ratings.

    Edge cases: as for MAE; undefined if all ratings that have a score are equal.

    Example: ratings 1, 2 and 3 are predicted as 1, 2 and 2: 1 - (1/3) / (2/3).

    >>> import torch, weft
    >>> metric = weft.metrics.R2()
    >>> metric.update(torch.tensor([[1.0, 2.0, 2.0]]), torch.tensor([[1, 2, 3]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    reference = "Kvålseth (1985), Cautionary note about R², doi 10.1080/00031305.1985.10479448"

    def formula(self, spread: Spread) -> Tensor:
        return _defined(1 - spread.squared_difference / spread.x, spread.x)


@register
class ExplainedVariance(_VarianceMetric):
    """The share of the variance of the ratings that the scores explain: 1 - variance of the errors
    / variance of the ratings.

    As R2, but a constant error costs nothing. `average="users"` is the mean over users of their own
    value.

    Edge cases: as for MAE; undefined if all ratings that have a score are equal.

    Example: ratings 1, 2 and 3 are predicted as 3, 4 and 5, all errors are 2.

    >>> import torch, weft
    >>> metric = weft.metrics.ExplainedVariance()
    >>> metric.update(torch.tensor([[3.0, 4.0, 5.0]]), torch.tensor([[1, 2, 3]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    reference = (
        "Achen (1990), What does explained variance explain?, Political Analysis 2, "
        "doi 10.1093/pan/2.1.173"
    )

    def formula(self, spread: Spread) -> Tensor:
        return _defined(1 - spread.difference / spread.x, spread.x)


@register
class Pearson(_VarianceMetric):
    """The correlation of scores and ratings (Pearson): covariance / (standard deviation of the
    scores · standard deviation of the ratings).

    It does not depend on the scale of the scores. `average="users"` is the mean over users of their
    own correlation.

    Edge cases: as for MAE; undefined if all ratings that have a score, or all their scores, are
    equal.

    Example: the scores rise with the ratings on a straight line.

    >>> import torch, weft
    >>> metric = weft.metrics.Pearson()
    >>> metric.update(torch.tensor([[10.0, 20.0, 30.0]]), torch.tensor([[1, 2, 3]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    bounds = (-1.0, 1.0)
    undefined = "no rating has a score, all ratings are equal, or all scores are"
    reference = (
        "Herlocker et al. (2004), Evaluating collaborative filtering recommender systems, "
        "doi 10.1145/963770.963772"
    )

    def formula(self, spread: Spread) -> Tensor:
        return correlation(spread)


def correlation(spread: Spread) -> Tensor:
    """Return the correlation of x and y; NaN if one of them does not vary."""
    value = spread.covariance / (spread.x.sqrt() * spread.y.sqrt())
    return _defined(value.clamp(-1, 1), spread.x, spread.y)


def _defined(value: Tensor, *variances: Tensor) -> Tensor:
    """Return the value; NaN where a variance is 0, and infinite, which is refused, where it is."""
    for variance in variances:
        value = torch.where(variance > 0, value, torch.nan)
    for variance in variances:
        value = torch.where(torch.isinf(variance), torch.inf, value)
    return value
