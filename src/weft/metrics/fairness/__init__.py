"""Fairness: whether groups of users and clusters of items are treated alike. 0 is fair.

A user or an item has one label or none. Those without a label belong to no group and are left out
of every quantity, totals and shares included. Bias disparity and fairness of exposure, which are of
this family too, are in `weft.metrics.bias_disparity` and `weft.metrics.expected_exposure`.
"""

from weft.metrics.fairness.cluster_rates import REO, RSP
from weft.metrics.fairness.mean_differences import (
    ItemMADRanking,
    ItemMADRating,
    UserMADRanking,
    UserMADRating,
)

__all__ = [
    "REO",
    "RSP",
    "ItemMADRanking",
    "ItemMADRating",
    "UserMADRanking",
    "UserMADRating",
]
