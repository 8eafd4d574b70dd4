"""Public names of `weft.statistics.sampling_theory`: effects of sampled negatives on metrics."""

from weft.statistics.sampling_theory import (
    Identification,
    deviation,
    draw,
    exact,
    expected,
    is_identified,
)

__all__ = ["Identification", "deviation", "draw", "exact", "expected", "is_identified"]
