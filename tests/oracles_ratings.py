"""Slow oracles of the metrics that compare scores with ratings and labels, in plain Python.

They are written from the definitions, like `oracles.py`, and use nothing of the code that is
compared with them. A cell is an interaction with a score: (score, rating, whether it is relevant).
"""

import math
import statistics
from collections.abc import Callable, Sequence

NAN = math.nan
Cell = tuple[float, float, bool]


def probability(score: float, scores: str) -> float:
    """Give the score itself, or 1 / (1 + e^-score), without an overflow."""
    if scores == "probabilities":
        return score
    return 1 / (1 + math.exp(-score)) if score >= 0 else math.exp(score) / (1 + math.exp(score))


def loss(cell: Cell, scores: str) -> float:
    """-ln of the probability of the label, which is clipped to [1e-15, 1 - 1e-15]; of a logit, in
    closed form.
    """
    score, _, relevant = cell
    if scores == "logits":
        return max(score, 0.0) - score * relevant + math.log1p(math.exp(-abs(score)))
    clipped = min(max(score, 1e-15), 1 - 1e-15)
    return -math.log(clipped) if relevant else -math.log1p(-clipped)


def log_loss(cells: Sequence[Cell], scores: str = "logits") -> float:
    """Mean loss."""
    return math.fsum(loss(cell, scores) for cell in cells) / len(cells) if cells else NAN


def ne(cells: Sequence[Cell], scores: str = "logits") -> float:
    """Mean loss / entropy of the share of relevant cells; NaN if all are alike."""
    labels = [int(relevant) for _, _, relevant in cells]
    if len(set(labels)) < 2:
        return NAN
    q = statistics.fmean(labels)
    return log_loss(cells, scores) / -(q * math.log(q) + (1 - q) * math.log(1 - q))


def score_calibration(cells: Sequence[Cell], scores: str = "logits") -> float:
    """Sum of p / number of relevant cells."""
    wanted = sum(relevant for _, _, relevant in cells)
    predicted = math.fsum(probability(score, scores) for score, _, _ in cells)
    return predicted / wanted if wanted else NAN


def ece(cells: Sequence[Cell], scores: str = "logits", bins: int = 10) -> float:
    """Sum over bins b / bins <= p < (b + 1) / bins, the last one closed, of |bin| / n * |share of
    relevant cells - mean p|.
    """
    if not cells:
        return NAN
    total = 0.0
    for b in range(bins):
        members = [
            (p, relevant)
            for p, relevant in ((probability(s, scores), relevant) for s, _, relevant in cells)
            if b / bins <= p and (p < (b + 1) / bins or b == bins - 1)
        ]
        if members:
            share = statistics.fmean(int(relevant) for _, relevant in members)
            gap = abs(share - statistics.fmean(p for p, _ in members))
            total += len(members) / len(cells) * gap
    return total


SCORED: dict[str, Callable[..., float]] = {
    "LogLoss": log_loss,
    "NE": ne,
    "ScoreCalibration": score_calibration,
    "ECE": ece,
}
