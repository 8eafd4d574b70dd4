"""Ranking of items: masking, ties, the exact top k, and ranks by counting."""

from weft.ranking.estimates import estimate_ranks, estimate_weights
from weft.ranking.kernels import count_offered, get_kernel, top_k
from weft.ranking.list_ranking import (
    break_ties,
    count_equal_scores,
    remove_seen,
    restrict_lists,
)
from weft.ranking.masked_scores import MaskedScores
from weft.ranking.negative_sampling import SampleSizes
from weft.ranking.ties import TIE_RULES, Ranking, TieRule

__all__ = [
    "TIE_RULES",
    "MaskedScores",
    "Ranking",
    "SampleSizes",
    "TieRule",
    "break_ties",
    "count_equal_scores",
    "count_offered",
    "estimate_ranks",
    "estimate_weights",
    "get_kernel",
    "remove_seen",
    "restrict_lists",
    "top_k",
]
