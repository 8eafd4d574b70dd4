"""The base of metrics with a cut-off."""

from __future__ import annotations

from typing import Any

from weft.errors import check_int
from weft.metrics.base.metric import BaseMetric
from weft.metrics.declarations import needs_cutoff


class TopKMetric(BaseMetric):
    """Base class of metrics with a cut-off.

    `k` is the cut-off, an integer of at least 1. A subclass can make it optional by `k=None` in its
    constructor.

    >>> import weft
    >>> isinstance(weft.metrics.nDCG(k=10), weft.TopKMetric)
    True
    """

    k: int

    def __init__(self, k: int | None, **settings: Any) -> None:
        super().__init__(**settings)
        if k is not None or needs_cutoff(type(self)):  # else that of BaseMetric, None
            self.k = check_int(f"{type(self).__name__} got the cut-off k", k)
