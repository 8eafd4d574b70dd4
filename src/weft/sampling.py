"""Effects of sampled negatives on metrics, from ranks alone.

Ranks are 1-based: of one relevant item per user (`[users]`), or of several (a list of ranks for
each user), in a full ranking of `num_items` items, a number for all users or one for each. A
sampled evaluation ranks the relevant items among `num_negatives` others, which are drawn uniformly:
without replacement, or with (`replacement=True`), as in Krichene and Rendle (2020), doi
10.1145/3394486.3403226. Metrics are given by name and computed by their own formulas. Metrics that
are sums over the relevant items of a user are supported: AUC, GAUC, DCG, HitRate, MAP, MAR, MRR,
NCRR, nDCG, nDCGRendle2020, Precision, RBP, Recall, and RPrecision with a cut-off.
"""

from weft.evaluation.candidates import draw
from weft.statistics.sampling_theory.expectations import deviation, exact, expected
from weft.statistics.sampling_theory.identification import (
    is_identified,
    is_identified_from_sample,
)
from weft.statistics.sampling_theory.model_order import Identification

__all__ = [
    "Identification",
    "deviation",
    "draw",
    "exact",
    "expected",
    "is_identified",
    "is_identified_from_sample",
]
