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
    r"""The coefficient of determination: 1 minus the mean squared error divided by the variance of
    the ratings.

    Always predicting the mean rating gives 0, and worse scores give a negative value.

    Formula: R^2 = 1 - \frac{\sum_{D} (s_{ui} - r_{ui})^2}{\sum_{D} (r_{ui} - \bar{r})^2}

    Symbols: $D$ is the set of ratings that have a score, and the bar denotes their mean.

    Parameters:
        average: As in MAE.

    Use: R2 answers how much better predicted ratings are than the mean rating. Use it next to RMSE,
    since it does not depend on the scale of the ratings. Scores must be on the scale of the
    ratings: for scores that only rank, use Pearson, Spearman or nDCG. A value of one user means
    little if the user's ratings hardly vary.

    Related: RMSE, ExplainedVariance, Pearson, MSE.

    Edge cases: the score of a masked item is its score before masking; a score of -inf counts as
    missing; undefined if all ratings that have a score are equal, or there are none.

    Example: the ratings 1, 2 and 3 are predicted as 1, 2 and 2: 1 - (1/3) / (2/3).

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
    r"""The share of the variance of the ratings that the scores explain: 1 minus the variance of
    the errors divided by the variance of the ratings.

    It is R2 without the penalty for a constant error.

    Formula: \mathrm{ExplainedVariance} = 1 - \frac{\sum_{D} (e_{ui} - \bar{e})^2}{\sum_{D} (r_{ui}
    - \bar{r})^2}, \quad e_{ui} = s_{ui} - r_{ui}

    Symbols: $D$ is the set of ratings that have a score, and bars denote means over $D$.

    Parameters:
        average: As in MAE.

    Use: ExplainedVariance answers how well predicted ratings follow the true ones, except for a
    constant offset. Compare it with R2: a large difference means that the scores are too high or
    too low on average. Do not report it alone as a measure of errors, because scores that are all
    wrong by 2 reach 1; use R2 or RMSE. To ignore the scale of the scores as well, use Pearson.

    Related: R2, Pearson, RMSE.

    Edge cases: the score of a masked item is its score before masking; a score of -inf counts as
    missing; undefined if all ratings that have a score are equal, or there are none.

    Example: the ratings 1, 2 and 3 are predicted as 3, 4 and 5, so all errors are 2 and have no
    variance.

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
    r"""The Pearson correlation of scores and ratings: their covariance divided by the product of
    their standard deviations.

    It does not depend on the scale or on the offset of the scores.

    Formula: \mathrm{Pearson} = \frac{\sum_{D} (s_{ui} - \bar{s})(r_{ui} - \bar{r})} {\sqrt{\sum_{D}
    (s_{ui} - \bar{s})^2 \, \sum_{D} (r_{ui} - \bar{r})^2}}

    Symbols: $D$ is the set of ratings that have a score, and bars denote means over $D$.

    Parameters:
        average: As in MAE.

    Use: Pearson answers how close the relation of scores and ratings is to a straight line. Use it
    for scores that are not on the scale of the ratings. Over all users, differences
    between generous and strict users can dominate the value: use `average="users"`, or Spearman or
    Kendall, to compare the items of one user. To judge predicted ratings as such, use RMSE or R2.

    Related: Spearman, Kendall, R2, ExplainedVariance.

    Edge cases: the score of a masked item is its score before masking; a score of -inf counts as
    missing; undefined if all ratings that have a score are equal, or all their scores are, or there
    are none.

    Example: the scores 10, 20 and 30 and the ratings 1, 2 and 3 are on a straight line.

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
