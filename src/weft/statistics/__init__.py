"""Is one model better than another, or was it luck? Paired tests over users."""

from weft.statistics.compare import compare
from weft.statistics.comparison import Comparison
from weft.statistics.pareto import ParetoFront

__all__ = ["Comparison", "ParetoFront", "compare"]
