"""Is one model better than another, or was it luck? Paired tests over users."""

from weft.significance.compare import compare
from weft.significance.comparison import Comparison
from weft.significance.pareto import Front

__all__ = ["Comparison", "Front", "compare"]
