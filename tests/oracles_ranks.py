"""Slow oracles of the metrics of ranks among all offered items, in plain Python.

They are written from the definitions, like `oracles.py`, and use nothing of the code that is
compared with them. A place is that of a relevant item: (rank, number of offered items).
"""

import math
import statistics
from collections.abc import Callable, Sequence

from oracles import NAN, Case, offered, relevant

Place = tuple[float, int]


def places(case: Case) -> list[Place]:
    """Give the places of R_u, without items that were not offered; ties have their mean rank."""
    scores, items = case.scores or (), offered(case)
    return [
        (
            1
            + sum(scores[other] > scores[item] for other in items)
            + (sum(scores[other] == scores[item] for other in items) - 1) / 2,
            len(items),
        )
        for item in relevant(case)
        if item in items
    ]


def mean_rank(found: Sequence[Place], mean: str = "arithmetic") -> float:
    """Mean rank, or the root of the product of n ranks."""
    if not found:
        return NAN
    ranks = [rank for rank, _ in found]
    if mean == "geometric":
        return math.exp(math.fsum(math.log(rank) for rank in ranks) / len(ranks))
    return statistics.fmean(ranks)


def percentile_rank(found: Sequence[Place]) -> float:
    """Mean (rank - 1) / (M - 1), where there is more than one item."""
    shares = [(rank - 1) / (size - 1) for rank, size in found if size > 1]
    return statistics.fmean(shares) if shares else NAN


def amri(found: Sequence[Place]) -> float:
    """1 - (mean rank - 1) / (mean of (M + 1) / 2 - 1)."""
    if all(size == 1 for _, size in found):
        return NAN
    expected = statistics.fmean((size + 1) / 2 for _, size in found)
    return 1 - (mean_rank(found) - 1) / (expected - 1)


RANKED: dict[str, Callable[..., float]] = {
    "MeanRank": mean_rank,
    "PercentileRank": percentile_rank,
    "AMRI": amri,
}
DEFAULT_AVERAGES = {"MeanRank": "users", "PercentileRank": "items", "AMRI": "items"}
