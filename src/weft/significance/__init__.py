"""Is one model better than another, or was it luck? Paired tests over users."""

from weft.significance.compare import Comparison, compare

__all__ = ["Comparison", "compare"]
