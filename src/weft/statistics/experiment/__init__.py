"""Experiments: results of several models over data sets, folds and seeds."""

from weft.statistics.experiment.dataset_ranking import DatasetRanking
from weft.statistics.experiment.run_comparison import RunComparison
from weft.statistics.experiment.runs import Experiment, Run

__all__ = ["DatasetRanking", "Experiment", "Run", "RunComparison"]
