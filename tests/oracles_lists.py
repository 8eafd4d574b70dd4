"""Slow oracles of metrics of one list, in plain Python; `oracles` has the others.

They are written from the definitions and use nothing of the code that is compared with them.
Names follow the definitions: `L_u` is the ranked list cut at k, `R_u` the relevant items, `N_u` the
offered items that are not relevant."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

NAN = math.nan


@dataclass(frozen=True)
class RankedList:
    """L_u as the accuracy metrics see it."""

    grades: tuple[float, ...]  # of the items of L_u in order; 0 is a miss
    wanted: tuple[float, ...]  # grades of R_u, best first; never empty
    negatives: int  # |N_u|
    k: int
    judged: tuple[bool, ...] = ()  # whether the items of L_u are in the truth
    num_judged: int = 0  # rows of the user in the truth
    num_items: int = 0  # N, the catalogue

    @property
    def rel(self) -> list[int]:
        """Give rel_p: 1 for a hit."""
        return [int(grade > 0) for grade in self.grades]

    @property
    def hit_ranks(self) -> list[int]:
        """Give the positions, from 1, of the hits."""
        return [p for p, hit in enumerate(self.rel, start=1) if hit]

    @property
    def hits(self) -> int:
        """Count the hits."""
        return len(self.hit_ranks)

    @property
    def capped(self) -> int:
        """Give min(|R_u|, k)."""
        return min(len(self.wanted), self.k)


# Gains and discounts


def gain_of(grade: float, gain: Any) -> float:
    """Give the gain of a grade; 0 for an item that is not relevant, whatever the kind of gain.

    A list of (grade, gain) pairs gives some gains; other grades are their own.
    """
    if grade == 0:
        return 0.0
    if not isinstance(gain, str):
        return dict(gain).get(grade, grade)
    kinds: dict[str, Callable[[], float]] = {
        "exponential": lambda: 2.0**grade - 1.0,
        "linear": lambda: grade,
        "binary": lambda: 1.0,
        "exponential_shifted": lambda: 2.0 ** (grade + 1.0) - 1.0,
    }
    return kinds[gain]()


def discount_of(position: int, discount: str) -> float:
    """Give d_p of a position, from 1."""
    kinds: dict[str, Callable[[], float]] = {
        "log": lambda: 1 / math.log2(position + 1),
        "capped_log": lambda: 1 / max(math.log2(position), 1.0),
        "reciprocal": lambda: 1 / position,
    }
    return kinds[discount]()


def discounted_sum(gains: Sequence[float], discount: str) -> float:
    """Sum of g_p * d_p."""
    return math.fsum(g * discount_of(p, discount) for p, g in enumerate(gains, start=1))


def dcg(row: RankedList, gain: Any = "exponential", discount: str = "log") -> float:
    """Sum of g_p * d_p over L_u."""
    return discounted_sum([gain_of(grade, gain) for grade in row.grades], discount)


def ideal_gains(row: RankedList, gain: Any, ideal: str) -> list[float]:
    """Give the user's gains, best first: "cut" at k, "full", or continued to "k" places with
    ratings of 1.
    """
    own = sorted((gain_of(grade, gain) for grade in row.wanted), reverse=True)
    lists = {"cut": own[: row.k], "full": own, "k": (own + [gain_of(1.0, gain)] * row.k)[: row.k]}
    return lists[ideal]


def ndcg(
    row: RankedList, gain: Any = "exponential", ideal: str = "cut", discount: str = "log"
) -> float:
    """DCG / DCG of the ideal list; NaN where the ideal list is worth 0."""
    best = discounted_sum(ideal_gains(row, gain, ideal), discount)
    return dcg(row, gain, discount) / best if best else NAN


def ncrr(row: RankedList) -> float:
    """Sum of 1 / p over the hits / the same of a list that begins with min(|R_u|, k) hits."""
    best = math.fsum(1 / p for p in range(1, row.capped + 1))
    return math.fsum(1 / p for p in row.hit_ranks) / best


# Hits


def r_precision(row: RankedList, multiple: float = 1.0) -> float:
    """Hits among the first x |R_u| positions (and the first k) / x |R_u|, rounded as trec_eval."""
    places = max(1, math.floor(len(row.wanted) * multiple + 0.9))
    return sum(row.rel[:places]) / places


def rbp(
    row: RankedList,
    p: float = 0.8,
    relevance: str = "binary",
    max_grade: float | None = None,
    normalize: bool = False,
) -> float:
    """(1 - p) * sum of rel_p * p^(position - 1), over that of a list of min(|R_u|, |L_u|) hits if
    normalized.
    """
    scale = 1.0 if max_grade is None else max_grade
    values = {"binary": row.rel, "graded": [grade / scale for grade in row.grades]}[relevance]
    value = (1 - p) * math.fsum(x * p**nth for nth, x in enumerate(values))
    if not normalize:
        return value
    best = (1 - p) * math.fsum(p**nth for nth in range(min(len(row.wanted), len(row.grades))))
    return value / best if best else 0.0


# Confusion matrix


def fall_out(row: RankedList) -> float:
    """Misses / |N_u|; NaN without negatives."""
    return (len(row.grades) - row.hits) / row.negatives if row.negatives else NAN


def confusion(row: RankedList, universe: str) -> tuple[int, int, int, int]:
    """Give tp, fp, fn, tn over R_u and N_u, or over the catalogue."""
    others = {"offered": row.negatives, "catalogue": row.num_items - len(row.wanted)}[universe]
    misses = len(row.grades) - row.hits
    return row.hits, misses, len(row.wanted) - row.hits, others - misses


def accuracy(row: RankedList, universe: str = "offered") -> float:
    """(tp + tn) / all."""
    tp, fp, fn, tn = confusion(row, universe)
    return (tp + tn) / (tp + fp + fn + tn)


def mcc(row: RankedList, universe: str = "offered") -> float:
    """Give the correlation of the confusion matrix, 0 where a factor below is 0."""
    tp, fp, fn, tn = confusion(row, universe)
    below = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(below) if below else 0.0


# A reader who stops


def expected_reciprocal_rank(grades: Sequence[float], max_grade: float) -> float:
    """Sum of 1 / p * s_p * product of 1 - s above, s = (2^g - 1) / 2^max_grade."""
    total, goes_on = 0.0, 1.0
    for p, grade in enumerate(grades, start=1):
        stops = (2.0**grade - 1) / 2.0**max_grade
        total += goes_on * stops / p
        goes_on *= 1 - stops
    return total


def err(row: RankedList, max_grade: float = 5.0) -> float:
    """ERR of L_u."""
    return expected_reciprocal_rank(row.grades, max_grade)


def nerr(row: RankedList, max_grade: float = 5.0) -> float:
    """ERR of L_u / ERR of the grades of R_u, best first, cut at k."""
    return err(row, max_grade) / expected_reciprocal_rank(row.wanted[: row.k], max_grade)


# Levels of recall


def iprec(
    row: RankedList, recall: Any = tuple(n / 10 for n in range(11)), rounding: str = "up"
) -> float:
    """Mean over the levels of the best precision at positions with enough hits, 0 if none."""
    levels = recall if isinstance(recall, (list, tuple)) else [recall]
    found = [sum(row.rel[:p]) for p in range(1, len(row.rel) + 1)]
    values = []
    for level in levels:
        exact = level * len(row.wanted)
        needed = {"up": math.ceil(exact - 1e-9), "nearest": math.floor(exact + 0.5)}[rounding]
        values.append(max((h / p for p, h in enumerate(found, 1) if h >= needed), default=0.0))
    return math.fsum(values) / len(values)


# Judged items


def judged(row: RankedList, users: str = "evaluated") -> float:
    """Judged items of L_u / |L_u|; NaN for an empty list."""
    return sum(row.judged) / len(row.judged) if row.judged else NAN


def rbp_residual(row: RankedList, p: float = 0.8, users: str = "evaluated") -> float:
    """p^|L_u| + (1 - p) * sum of p^(position - 1) over the positions that are not judged."""
    unjudged = math.fsum(p**nth for nth, is_judged in enumerate(row.judged) if not is_judged)
    return p ** len(row.judged) + (1 - p) * unjudged


def bpref(row: RankedList) -> float:
    """Sum over the hits of 1 - min(n, |R_u|) / min(|R_u|, J), / |R_u|."""
    wanted, others = len(row.wanted), row.num_judged - len(row.wanted)
    total = 0.0
    for p in row.hit_ranks:
        above = sum(row.judged[: p - 1]) - sum(row.rel[: p - 1])
        total += 1 - min(above, wanted) / min(wanted, others) if others else 1.0
    return total / wanted


def inf_ap(row: RankedList) -> float:
    """Sum over the hits of 1/p + (p-1)/p * J/(p-1) * (r + eps) / (r + n + 2 eps), / |R_u|."""
    total, eps = 0.0, 1e-5
    for p in row.hit_ranks:
        relevant = sum(row.rel[: p - 1])
        others = sum(row.judged[: p - 1]) - relevant
        if p == 1:
            total += 1.0
            continue
        share = (relevant + others) / (p - 1)
        precision = (relevant + eps) / (relevant + others + 2 * eps)
        total += 1 / p + (p - 1) / p * share * precision
    return total / len(row.wanted)


FURTHER_LIST_METRICS: dict[str, Callable[..., float]] = {
    "nDCG": ndcg,
    "DCG": dcg,
    "NCRR": ncrr,
    "RPrecision": r_precision,
    "RBP": rbp,
    "FallOut": fall_out,
    "Accuracy": accuracy,
    "MCC": mcc,
    "ERR": err,
    "nERR": nerr,
    "IPrec": iprec,
    "Judged": judged,
    "RBPResidual": rbp_residual,
    "bpref": bpref,
    "infAP": inf_ap,
}
