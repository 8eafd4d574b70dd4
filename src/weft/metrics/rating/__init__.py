"""Rating: how well scores predict the ratings, or the relevance, of the interactions of the truth.

Metrics of this family have no cut-off. They use the interactions of the truth that have a score
before masking; interactions without a score are left out and counted.
"""

from weft.metrics.rating.probabilities import ECE, NE, LogLoss, ScoreCalibration
from weft.metrics.rating.rank_correlations import NDPM, Kendall, Spearman
from weft.metrics.rating.rating_errors import MAE, MAPE, MSE, RMSE, SMAPE
from weft.metrics.rating.variance import R2, ExplainedVariance, Pearson

__all__ = [
    "ECE",
    "MAE",
    "MAPE",
    "MSE",
    "NDPM",
    "NE",
    "R2",
    "RMSE",
    "SMAPE",
    "ExplainedVariance",
    "Kendall",
    "LogLoss",
    "Pearson",
    "ScoreCalibration",
    "Spearman",
]
