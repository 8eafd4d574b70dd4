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
    """The mean absolute error: the mean of |score - rating| over all ratings that have a score.

    `average="users"` is the mean over users of their own mean error, so that users with many
    ratings count no more than others.

    Edge cases: the score of a masked item is the one before masking; a score of -inf is no score;
    undefined if no rating has a score.

    Example: ratings 4 and 1 are predicted as 3 and 1.5: (1 + 0.5) / 2.

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
    """The mean squared error: the mean of (score - rating)² over all ratings that have a score.

    `average="users"` is the mean over users of their own mean error.

    Edge cases: as for MAE.

    Example: ratings 4 and 1 are predicted as 3 and 1.5: (1 + 0.25) / 2.

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
    """The root of the mean squared error over all ratings that have a score.

    `average="users"` is the mean over users of the root of their own mean squared error.

    Edge cases: as for MAE.

    Example: ratings 4 and 1 are predicted as 2 and 1: the root of (4 + 0) / 2.

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
    """The mean absolute percentage error: the mean of |score - rating| / |rating| over all ratings
    that have a score and are not 0.

    `average="users"` is the mean over users of their own mean error.

    Edge cases: as for MAE; ratings of 0 are left out and counted (`counts["zero_ratings"]`).

    Example: ratings 4 and 1 are predicted as 3 and 1.5: (1/4 + 1/2) / 2.

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
    """The symmetric mean absolute percentage error: the mean of |score - rating| divided by the
    mean of |score| and |rating|, over all ratings that have a score.

    `average="users"` is the mean over users of their own mean error.

    Edge cases: as for MAE; a rating of 0 that is predicted as 0 has no error.

    Example: ratings 4 and 1 are predicted as 3 and 1.5: (1 / 3.5 + 0.5 / 1.25) / 2.

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
