"""Which items each user is offered, in which order: masking, ties, the exact top k, and ranks by
counting.
"""

from weft.ranking.estimates import estimate_ranks, estimate_weights
from weft.ranking.kernels import kernel_for
from weft.ranking.list_ranking import count_equal, settle_ties, within, without
from weft.ranking.masking import hidden
from weft.ranking.negative_sampling import Drawn
from weft.ranking.ties import TIE_RULES, Ranking, TieRule, count_above
from weft.ranking.topk import top_k

__all__ = [
    "TIE_RULES",
    "Drawn",
    "Ranking",
    "TieRule",
    "count_above",
    "count_equal",
    "estimate_ranks",
    "estimate_weights",
    "hidden",
    "kernel_for",
    "settle_ties",
    "top_k",
    "within",
    "without",
]
