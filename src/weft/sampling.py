"""Public name of `weft.statistics.sampling`: what sampled negatives do to metrics."""

from weft.statistics.sampling import (
    Identification,
    deviation,
    draw,
    exact,
    expected,
    is_identified,
)

__all__ = ["Identification", "deviation", "draw", "exact", "expected", "is_identified"]
