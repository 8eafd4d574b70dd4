"""Errors: how far scores are from the ratings that they predict. Lower is better."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.metrics.base.formulas import RatingMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.registry import register


class _Rating(RatingMetric):
    """The common properties of the built-in rating metrics."""

    family = "rating"
    bounds: Bounds = (0.0, None)


@register
class MAE(_Rating):
    r"""The mean absolute error: the mean of |score - rating| over all ratings that have a score.

    Formula: \mathrm{MAE} = \frac{1}{|D|} \sum_{D} {|s_{ui} - r_{ui}|}

    Symbols: $D$ is the set of ratings that have a score.

    Parameters:
        average: `"cells"` computes one value from the interactions of all users, so that users with
            many of them weigh more. `"users"` computes a value for each user from the user's own
            interactions, and averages over users.

    Use: MAE answers how far a predicted rating is from the true one, in units of the rating scale.
    Use it for models that predict explicit ratings, if all errors count in proportion to their
    size; RMSE penalizes large errors more. A low error does not mean good recommendations, since it
    covers rated items only and all of them alike: for lists, use nDCG or Recall.

    Related: RMSE, MSE, MAPE, R2, nDCG.

    Edge cases: the score of a masked item is its score before masking; a score of -inf counts as
    missing; undefined if no rating has a score.

    Example: the ratings 4 and 1 are predicted as 3 and 1.5: (1 + 0.5) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.MAE()
    >>> metric.update(torch.tensor([[3.0, 1.5, 2.0]]), torch.tensor([[4, 1, 0]]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)
    """

    reference = (
        "Herlocker et al. (2004), Evaluating collaborative filtering recommender systems, "
        "doi 10.1145/963770.963772"
    )

    def compute_errors(self, preds: Tensor, target: Tensor) -> Tensor:
        return (preds - target).abs()


@register
class MSE(_Rating):
    r"""The mean squared error: the mean of (score - rating)² over all ratings that have a score.

    Formula: \mathrm{MSE} = \frac{1}{|D|} \sum_{D} (s_{ui} - r_{ui})^2

    Symbols: $D$ is the set of ratings that have a score.

    Parameters:
        average: As in MAE.

    Use: MSE answers how large errors of predicted ratings are, with large errors weighted most. Use
    it to compare with the training loss of a rating model. Its unit is the square of a rating, so
    RMSE is easier to read in reports, and R2 is comparable across rating scales. For the quality of
    lists, use nDCG or Recall.

    Related: RMSE, MAE, R2.

    Edge cases: the score of a masked item is its score before masking; a score of -inf counts as
    missing; undefined if no rating has a score.

    Example: the ratings 4 and 1 are predicted as 3 and 1.5: (1 + 0.25) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.MSE()
    >>> metric.update(torch.tensor([[3.0, 1.5, 2.0]]), torch.tensor([[4, 1, 0]]))
    >>> metric.compute()
    tensor(0.6250, dtype=torch.float64)
    """

    reference = (
        "Willmott and Matsuura (2005), Advantages of the mean absolute error over the root mean "
        "square error, doi 10.3354/cr030079"
    )

    def compute_errors(self, preds: Tensor, target: Tensor) -> Tensor:
        return (preds - target) ** 2


@register
class RMSE(MSE):
    r"""The root mean squared error over all ratings that have a score.

    Formula: \mathrm{RMSE} = \sqrt{\frac{1}{|D|} \sum_{D} (s_{ui} - r_{ui})^2}

    Symbols: $D$ is the set of ratings that have a score.

    Parameters:
        average: As in MAE.

    Use: RMSE answers how large the typical error of a predicted rating is, in units of the rating
    scale and with large errors weighted most. Use it for models that predict explicit ratings and
    to compare with published results on rating prediction. A few outliers can dominate it; MAE is
    more robust. A lower RMSE does not imply better top-k lists, so report nDCG or Recall if the
    model is used to recommend.

    Related: MAE, MSE, R2, nDCG.

    Edge cases: the score of a masked item is its score before masking; a score of -inf counts as
    missing; undefined if no rating has a score.

    Example: the ratings 4 and 1 are predicted as 2 and 1: the root of (4 + 0) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.RMSE()
    >>> metric.update(torch.tensor([[2.0, 1.0, 2.0]]), torch.tensor([[4, 1, 0]]))
    >>> metric.compute()
    tensor(1.4142, dtype=torch.float64)
    """

    reference = (
        "Koren, Bell and Volinsky (2009), Matrix factorization techniques for recommender systems, "
        "doi 10.1109/MC.2009.263"
    )

    def transform_mean(self, mean: Tensor) -> Tensor:
        return mean.sqrt()


@register
class MAPE(_Rating):
    r"""The mean absolute percentage error: the mean of |score - rating| / |rating| over all ratings
    other than 0 that have a score.

    Formula: \mathrm{MAPE} = \frac{1}{|D|} \sum_{D} \frac{|s_{ui} - r_{ui}|}{|r_{ui}|}

    Symbols: $D$ is the set of ratings other than 0 that have a score.

    Parameters:
        average: As in MAE.

    Use: MAPE answers how large errors are in proportion to the true value. Use it for targets that
    span orders of magnitude, such as watch times or counts. On a scale of 1 to 5 it mostly measures
    errors on low ratings, and it favours predictions that are too low; use MAE there, and SMAPE if
    targets are close to 0.

    Related: SMAPE, MAE, RMSE.

    Edge cases: the score of a masked item is its score before masking; a score of -inf counts as
    missing; ratings of 0 are left out and counted (`counts["zero_ratings"]`); undefined if no other
    rating has a score.

    Example: the ratings 4 and 1 are predicted as 3 and 1.5: (1/4 + 1/2) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.MAPE()
    >>> metric.update(torch.tensor([[3.0, 1.5, 2.0]]), torch.tensor([[4, 1, 0]]))
    >>> metric.compute()
    tensor(0.3750, dtype=torch.float64)
    """

    undefined = "no rating other than 0 has a score"
    reference = (
        "Hyndman and Koehler (2006), Another look at measures of forecast accuracy, "
        "doi 10.1016/j.ijforecast.2006.03.001"
    )

    def compute_errors(self, preds: Tensor, target: Tensor) -> Tensor:
        return (preds - target).abs() / target.abs()

    def rating_errors(self, batch: Batch) -> tuple[Tensor, Tensor]:
        errors, is_scored = super().rating_errors(batch)
        is_counted = is_scored & (batch.truth.values != 0)
        return torch.where(is_counted, errors, 0), is_counted


@register
class SMAPE(_Rating):
    r"""The symmetric mean absolute percentage error: the mean of |score - rating| divided by the
    mean of |score| and |rating|, over all ratings that have a score.

    Formula: \mathrm{SMAPE} = \frac{1}{|D|} \sum_{D} \frac{|s_{ui} - r_{ui}|}{({|s_{ui}|} +
    {|r_{ui}|}) / 2}

    Symbols: $D$ is the set of ratings that have a score.

    Parameters:
        average: As in MAE.

    Use: SMAPE answers how large errors are in proportion to the values, with an upper limit of 2
    for each error. Use it instead of MAPE if targets can be 0 or close to 0. It penalizes
    predictions that are too low more than predictions that are too high by the same amount; MAE
    treats both alike and is the better choice on a fixed rating scale.

    Related: MAPE, MAE, RMSE.

    Edge cases: the score of a masked item is its score before masking; a score of -inf counts as
    missing; a rating of 0 that is predicted as 0 has no error; undefined if no rating has a score.

    Example: the ratings 4 and 1 are predicted as 3 and 1.5: (1 / 3.5 + 0.5 / 1.25) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.SMAPE()
    >>> metric.update(torch.tensor([[3.0, 1.5, 2.0]]), torch.tensor([[4, 1, 0]]))
    >>> metric.compute()
    tensor(0.3429, dtype=torch.float64)
    """

    bounds = (0.0, 2.0)
    reference = (
        "Hyndman and Koehler (2006), Another look at measures of forecast accuracy, "
        "doi 10.1016/j.ijforecast.2006.03.001"
    )

    def compute_errors(self, preds: Tensor, target: Tensor) -> Tensor:
        size = (preds.abs() + target.abs()) / 2
        return torch.where(size > 0, (preds - target).abs() / size, 0)
