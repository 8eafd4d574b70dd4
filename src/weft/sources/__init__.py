"""What a model produced: a score matrix, the model itself, or a pair of factors."""

from weft.sources.base import Source, open_source
from weft.sources.factors import Factors
from weft.sources.matrix import ScoreMatrix
from weft.sources.model import Model

__all__ = ["Factors", "Model", "ScoreMatrix", "Source", "open_source"]
