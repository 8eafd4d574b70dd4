"""Which items each user is offered, in which order: masking, ties, the exact top k, and ranks by
counting.
"""

from weft.ranking.estimates import estimate_ranks, estimate_weights
from weft.ranking.kernels import get_kernel
from weft.ranking.list_ranking import break_ties, count_equal_scores, within, without
from weft.ranking.masking import hidden
from weft.ranking.negative_sampling import SampleSizes
from weft.ranking.ties import TIE_RULES, Ranking, TieRule, count_above
from weft.ranking.topk import top_k

__all__ = [
    "TIE_RULES",
    "SampleSizes",
    "Ranking",
    "TieRule",
    "count_above",
    "count_equal_scores",
    "estimate_ranks",
    "estimate_weights",
    "hidden",
    "get_kernel",
    "break_ties",
    "top_k",
    "within",
    "without",
]
