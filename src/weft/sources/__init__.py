"""What a model produced: a score matrix, the model itself, a pair of factors, or recommendation lists."""

from weft.sources.base import Source, open_source
from weft.sources.factors import Factors
from weft.sources.lists import RecommendationLists
from weft.sources.matrix import ScoreMatrix
from weft.sources.model import Model

__all__ = ["Factors", "Model", "RecommendationLists", "ScoreMatrix", "Source", "open_source"]
