"""Slow oracles of the metrics that compare scores with ratings and labels, in plain Python.

They are written from the definitions, like `oracles.py`, and use nothing of the code that is
compared with them. A cell is an interaction with a score: (score, rating, whether it is relevant).
"""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from fractions import Fraction

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


def mape(cells: Sequence[Cell]) -> float:
    """Mean |s - r| / |r|, without ratings of 0."""
    shares = [abs(s - r) / abs(r) for s, r, _ in cells if r]
    return math.fsum(shares) / len(shares) if shares else NAN


def smape(cells: Sequence[Cell]) -> float:
    """Mean |s - r| / ((|s| + |r|) / 2), 0 where both are 0."""
    shares = [abs(s - r) / ((abs(s) + abs(r)) / 2) if s or r else 0.0 for s, r, _ in cells]
    return math.fsum(shares) / len(shares) if shares else NAN


def variance(values: Sequence[Fraction]) -> Fraction:
    """Population variance, exactly."""
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def exactly(cells: Sequence[Cell]) -> tuple[list[Fraction], list[Fraction]]:
    """Give scores and ratings as fractions."""
    return [Fraction(s) for s, _, _ in cells], [Fraction(r) for _, r, _ in cells]


def r2(cells: Sequence[Cell]) -> float:
    """1 - mean (s - r)^2 / variance of r; NaN where r does not vary."""
    scores, ratings = exactly(cells)
    if len(set(ratings)) < 2:
        return NAN
    mean_square = sum((s - r) ** 2 for s, r in zip(scores, ratings)) / len(cells)
    return float(1 - mean_square / variance(ratings))


def explained_variance(cells: Sequence[Cell]) -> float:
    """1 - variance of s - r / variance of r; NaN where r does not vary."""
    scores, ratings = exactly(cells)
    if len(set(ratings)) < 2:
        return NAN
    return float(1 - variance([s - r for s, r in zip(scores, ratings)]) / variance(ratings))


def correlation(first: Sequence[Fraction], second: Sequence[Fraction]) -> float:
    """Covariance / product of the standard deviations; NaN where one does not vary."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return NAN
    mean_1, mean_2 = sum(first) / len(first), sum(second) / len(second)
    covariance = sum((a - mean_1) * (b - mean_2) for a, b in zip(first, second)) / len(first)
    square = covariance**2 / (variance(first) * variance(second))
    return math.copysign(math.sqrt(square), covariance)


def pearson(cells: Sequence[Cell]) -> float:
    """Correlation of scores and ratings."""
    return correlation(*exactly(cells))


def ranks(values: Sequence[Fraction]) -> list[Fraction]:
    """Give the rank of each value, lowest first, ties their mean rank."""
    return [
        Fraction(sum(other < value for other in values))
        + Fraction(1 + sum(other == value for other in values), 2)
        for value in values
    ]


def spearman(cells: Sequence[Cell]) -> float:
    """Correlation of the ranks."""
    scores, ratings = exactly(cells)
    return correlation(ranks(scores), ranks(ratings))


def signs(cells: Sequence[Cell]) -> list[tuple[int, int]]:
    """Give, for each pair of cells, which has the higher score, and which the higher rating."""
    return [
        ((s > t) - (s < t), (r > q) - (r < q))
        for (s, r, _), (t, q, _) in itertools.combinations(cells, 2)
    ]


def kendall(cells: Sequence[Cell]) -> float:
    """tau-b: (concordant - discordant) / sqrt(pairs of different scores * of different ratings)."""
    pairs = signs(cells)
    below = sum(s != 0 for s, _ in pairs) * sum(r != 0 for _, r in pairs)
    return sum(s * r for s, r in pairs) / math.sqrt(below) if below else NAN


def ndpm(cells: Sequence[Cell]) -> float:
    """(pairs in the wrong order + half of those with equal scores) / pairs of different ratings."""
    pairs = [(s, r) for s, r in signs(cells) if r]
    wrong = sum(s * r < 0 for s, r in pairs) + sum(s == 0 for s, _ in pairs) / 2
    return wrong / len(pairs) if pairs else NAN


BY_USER = ("Kendall", "Spearman", "NDPM")  # always the mean over users
SCORED: dict[str, Callable[..., float]] = {
    "MAPE": mape,
    "SMAPE": smape,
    "R2": r2,
    "ExplainedVariance": explained_variance,
    "Pearson": pearson,
    "Kendall": kendall,
    "Spearman": spearman,
    "NDPM": ndpm,
    "LogLoss": log_loss,
    "NE": ne,
    "ScoreCalibration": score_calibration,
    "ECE": ece,
}
