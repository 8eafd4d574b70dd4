"""What a model produced: a score matrix, the model itself, a pair of factors, or recommendation
lists.
"""

from weft.data.sources.base import Source, open_source
from weft.data.sources.factors import Factors
from weft.data.sources.list_source import ListSource
from weft.data.sources.matrix import ScoreMatrix
from weft.data.sources.model import Model

__all__ = ["Factors", "ListSource", "Model", "ScoreMatrix", "Source", "open_source"]
