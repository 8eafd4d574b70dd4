"""Slow oracles of the accuracy metrics, in plain Python.

They are written from the definitions, one user and one list at a time, and use nothing of the code
that is compared with them. Names follow the definitions: `L_u` is
the ranked list cut at k, `R_u` the relevant items, `N_u` the offered items that are not relevant,
`d_p = 1 / log2(p + 1)`."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oracles_lists import FURTHER_LIST_METRICS, RankedList, ndcg

NAN = math.nan


@dataclass(frozen=True)
class Case:
    """One user: what the model says and what the user wanted."""

    scores: (
        tuple[float, ...] | None
    )  # one per item, after masking; -inf: not offered; None: no row in the source
    truth: Mapping[int, float]  # item index -> rating
    threshold: float | None = None  # relevance_threshold
    num_items: int = 0  # of the catalogue, where there are no scores

    def __post_init__(self) -> None:
        """Refuse what the definitions call an error."""
        if self.threshold is not None and not self.threshold > 0:
            raise ValueError(f"a relevance threshold must be above 0, got {self.threshold}")
        if self.threshold is None and any(rating < 0 for rating in self.truth.values()):
            raise ValueError("negative ratings need a relevance threshold")
        if self.scores is not None and any(
            math.isnan(score) or score == math.inf for score in self.scores
        ):
            raise ValueError("scores must not be NaN or +inf")
        if self.scores is not None and not set(self.truth) <= set(range(len(self.scores))):
            raise ValueError("the truth holds an item outside the catalogue")


@dataclass(frozen=True)
class Summary:
    """A metric over many users."""

    value: float
    std_error: float  # NaN for fewer than two users and for AUC, which is not a mean over users
    users: int  # how many users the value ran over


# Items of one user


def relevant(case: Case) -> list[int]:
    """Give R_u: rated at least the threshold, or above 0 where there is none."""
    if case.threshold is None:
        return [item for item, rating in case.truth.items() if rating > 0]
    return [item for item, rating in case.truth.items() if rating >= case.threshold]


def offered(case: Case) -> list[int]:
    """Give the items with a finite score, by index; nothing where the source has no row."""
    if case.scores is None:
        return []
    return [item for item, score in enumerate(case.scores) if score != -math.inf]


def negatives(case: Case) -> list[int]:
    """Give N_u: offered and not relevant."""
    wanted = relevant(case)
    return [item for item in offered(case) if item not in wanted]


def grade(case: Case, item: int) -> float:
    """Give the rating of a relevant item and 0 for any other; so a hit is a grade above 0."""
    return case.truth[item] if item in relevant(case) else 0.0


# Order of the items, and ties


def tied_groups(case: Case) -> list[list[int]]:
    """Give the offered items best score first, in groups of equal score; -0.0 equals 0.0."""
    scores = case.scores or ()
    levels = sorted({scores[item] for item in offered(case)}, reverse=True)
    return [[item for item in offered(case) if scores[item] == level] for level in levels]


def orders(case: Case, k: int, ties: str) -> Iterator[list[int]]:
    """Give the orders the tie rule allows: one, or for "expected" all that can differ in the first
    k.
    """
    groups = tied_groups(case)
    if ties == "index":
        choices = [[sorted(group)] for group in groups]
    elif ties == "pessimistic":
        choices = [[sorted(group, key=lambda item: (grade(case, item), item))] for group in groups]
    elif ties == "optimistic":
        choices = [[sorted(group, key=lambda item: (-grade(case, item), item))] for group in groups]
    elif ties == "expected":
        starts = itertools.accumulate((len(group) for group in groups), initial=0)
        choices = [
            list(itertools.permutations(group)) if start < k else [group]
            for start, group in zip(starts, groups, strict=False)
        ]
    else:
        raise ValueError(f"no oracle for ties={ties!r}")
    for choice in itertools.product(*choices):
        yield list(itertools.chain.from_iterable(choice))


# Metrics of one list


def precision(row: RankedList, denominator: str = "k") -> float:
    """hits / k, or / list length (0 for an empty list)."""
    length = {"k": row.k, "list": len(row.grades)}[denominator]
    return row.hits / length if length else 0.0


def recall(row: RankedList, normalizer: str = "relevant") -> float:
    """hits / |R_u|, or / min(|R_u|, k)."""
    return row.hits / {"relevant": len(row.wanted), "capped": row.capped}[normalizer]


def hit_rate(row: RankedList) -> float:
    """1 if any hit."""
    return 1.0 if row.hits else 0.0


def average_precision(row: RankedList, normalizer: str = "capped") -> float:
    """Sum of hits_p / p over the hits, divided by what the normalizer says; 0 without a hit."""
    total = math.fsum(nth / p for nth, p in enumerate(row.hit_ranks, start=1))
    divisors = {"capped": row.capped, "relevant": len(row.wanted), "k": row.k, "hits": row.hits}
    divisors["list"] = min(len(row.wanted), len(row.grades))
    divisor = divisors[normalizer]
    return total / divisor if divisor else 0.0


def average_recall(row: RankedList) -> float:
    """Sum of hits_p / |R_u| over the hits / min(|R_u|, k)."""
    return math.fsum(nth / len(row.wanted) for nth in range(1, row.hits + 1)) / row.capped


def reciprocal_rank(row: RankedList) -> float:
    """1 / rank of the first hit, 0 if none."""
    return 1.0 / row.hit_ranks[0] if row.hits else 0.0


def ndcg_rendle_2020(row: RankedList, ideal: str = "cut") -> float:
    """Give nDCG with binary gain."""
    return ndcg(row, gain="binary", ideal=ideal)


def lauc(row: RankedList, completion: str = "line") -> float:
    """Area under the ROC curve along the list, completed by a "line" to (1, 1) or by "none"; NaN
    without negatives.
    """
    complete = {"line": lauc_line, "none": lauc_none}[completion]
    return complete(row) if row.negatives else NAN


def lauc_line(row: RankedList) -> float:
    """Each miss adds a column of width 1 / |N_u| and height TPR so far; a trapezium to (1, 1) adds
    the rest.
    """
    tpr = area = fpr = 0.0
    for hit in row.rel:
        if hit:
            tpr += 1 / len(row.wanted)
        else:
            area += tpr / row.negatives
            fpr += 1 / row.negatives
    return area + (1 - fpr) * (tpr + 1) / 2


def lauc_none(row: RankedList) -> float:
    """Each hit counts the share of the negatives not met before it; mean over min(|R_u|, k)."""
    misses_before = [p - nth for nth, p in enumerate(row.hit_ranks, start=1)]
    return (
        math.fsum((row.negatives - misses) / row.negatives for misses in misses_before) / row.capped
    )


LIST_METRICS: dict[str, Callable[..., float]] = {
    "Precision": precision,
    "Recall": recall,
    "HitRate": hit_rate,
    "MAP": average_precision,
    "MAR": average_recall,
    "MRR": reciprocal_rank,
    "nDCGRendle2020": ndcg_rendle_2020,
    "LAUC": lauc,
    **FURTHER_LIST_METRICS,
}


def ranked_list(case: Case, order: Sequence[int], k: int) -> RankedList:
    """Cut an order of the offered items at k."""
    wanted = sorted((grade(case, item) for item in relevant(case)), reverse=True)
    return RankedList(
        tuple(grade(case, item) for item in order[:k]),
        tuple(wanted),
        len(negatives(case)),
        k,
        judged=tuple(item in case.truth for item in order[:k]),
        num_judged=len(case.truth),
        num_items=len(case.scores) if case.scores is not None else case.num_items,
    )


# Metrics of one user


def list_value(metric: str, case: Case, k: int | None, ties: str, **params: Any) -> float:
    """Give the mean of a list metric over the orders that the tie rule allows."""
    if k is None or k < 1:
        raise ValueError(f"{metric} needs a cut-off of at least 1, got {k}")
    if not relevant(case):
        return NAN
    values = [
        LIST_METRICS[metric](ranked_list(case, order, k), **params)
        for order in orders(case, k, ties)
    ]
    return math.fsum(values) / len(values)


def wins(positive: Iterable[float], negative: Sequence[float]) -> list[float]:
    """Give, for each positive score, (negatives below + half of the negatives tied) / negatives."""
    return [
        math.fsum(1.0 if n < s else 0.5 if n == s else 0.0 for n in negative) / len(negative)
        for s in positive
    ]


def split_scores(case: Case) -> tuple[list[float], list[float]]:
    """Give the scores of R_u and of N_u; a relevant item that was not offered (-inf) beats and ties
    nothing.
    """
    scores = case.scores or ()
    positive = [scores[item] for item in relevant(case)] if case.scores is not None else []
    return positive, [scores[item] for item in negatives(case)]


def gauc(case: Case, weight: str = "uniform", max_fpr: float | None = None) -> float:
    """AUC of one user, which no weight changes; NaN without a relevant item or without a
    negative. With `max_fpr`: the area up to it, scaled so that a random order has 1/2.
    """
    positive, negative = split_scores(case)
    if not positive or not negative:
        return NAN
    if max_fpr is None:
        return statistics.fmean(wins(positive, negative))
    area = roc_area(positive, negative, max_fpr)
    least, most = max_fpr**2 / 2, max_fpr
    return (1 + (area - least) / (most - least)) / 2


def roc_area(positive: Sequence[float], negative: Sequence[float], last: float) -> float:
    """Area under the ROC curve, with a straight line over each tie, from 0 to `last`."""
    levels = sorted({*positive, *negative} - {-math.inf}, reverse=True)
    points = [(0.0, 0.0)]
    for level in levels:
        points.append(
            (
                sum(s >= level for s in negative) / len(negative),
                sum(s >= level for s in positive) / len(positive),
            )
        )
    area = 0.0
    for (x, y), (next_x, next_y) in itertools.pairwise(points):
        end = min(next_x, last)
        if end > x:
            height = y + (next_y - y) * (end - x) / (next_x - x)
            area += (end - x) * (y + height) / 2
    return area


def is_insufficient(case: Case, k: int) -> bool:
    """Whether fewer than k negatives are offered, and not all relevant items."""
    return len(negatives(case)) < k and not set(relevant(case)) <= set(offered(case))


def first_negatives(case: Case, k: int, num_hits: int) -> float:
    """Sum over the first hits of max(k - misses before, 0), as a mean over all orders of ties."""
    total, hits, misses = 0.0, 0, 0
    for group in tied_groups(case):
        wanted = sum(item in relevant(case) for item in group)
        places = list(itertools.combinations(range(len(group)), wanted))
        wins = (
            max(k - misses - (place - nth), 0)
            for chosen in places
            for nth, place in enumerate(chosen)
            if hits + nth < num_hits
        )
        total += sum(wins) / len(places)
        hits, misses = hits + wanted, misses + len(group) - wanted
    return total


def partial_auc(case: Case, k: int, insufficient: str = "ignore") -> float:
    """Give the wins of all hits / (k |R_u|)."""
    if insufficient == "exclude" and is_insufficient(case, k):
        return NAN
    size = len(relevant(case))
    return first_negatives(case, k, size) / (k * size)


def pap(case: Case, k: int, insufficient: str = "ignore") -> float:
    """Give the wins of the first k hits / (k min(|R_u|, k))."""
    if insufficient == "exclude" and is_insufficient(case, k):
        return NAN
    return first_negatives(case, k, k) / (k * min(len(relevant(case)), k))


# Metrics of the whole ranking of a user, which no tie rule changes.
RANKING_METRICS: dict[str, Callable[..., float]] = {"PartialAUC": partial_auc, "PAP": pap}


def f1(
    case: Case,
    k: int | None,
    ties: str,
    metric_name_1: Any = "Precision",
    metric_name_2: Any = "Recall",
    beta: float = 1.0,
    metric_1: Any = None,
    metric_2: Any = None,
) -> float:
    """(1 + beta^2) a b / (beta^2 a + b) of the user's two values (NaN if one is), 0 when the
    denominator is 0.
    """
    a = part_value(metric_1 or metric_name_1, case, k, ties)
    b = part_value(metric_2 or metric_name_2, case, k, ties)
    below = beta**2 * a + b
    return 0.0 if below == 0 else (1 + beta**2) * a * b / below


def part_value(part: Any, case: Case, k: int | None, ties: str) -> float:
    """Give the value of a part of F1, named "nDCG" or ("nDCG", {"gain": "linear"})."""
    name, params = (part, {}) if isinstance(part, str) else part
    return user_value(name, case, k, ties=ties, **params)


def user_value(
    metric: str, case: Case, k: int | None, *, ties: str = "index", **params: Any
) -> float:
    """Value of one user; NaN where it is undefined, and for a user without a relevant item."""
    if metric == "F1":
        return f1(case, k, ties, **params)
    if metric == "GAUC":
        return gauc(case, **params)
    if metric in RANKING_METRICS:
        return RANKING_METRICS[metric](case, k, **params) if relevant(case) else NAN
    if metric in LIST_METRICS:
        return list_value(metric, case, k, ties, **params)
    raise ValueError(f"{metric} has no value per user")


# Metrics of many users


def gauc_weight(case: Case, weight: str) -> float:
    """Give a user's weight: 1, |R_u|, or the number of truth cells, relevant or not."""
    return {"uniform": 1, "positives": len(relevant(case)), "interactions": len(case.truth)}[weight]


def mean_summary(values: Sequence[float], weights: Sequence[float]) -> Summary:
    """Weighted mean of the values that are not NaN; with equal weights its error is the sample std
    / sqrt(n).
    """
    pairs = [(x, w) for x, w in zip(values, weights, strict=True) if not math.isnan(x)]
    if not pairs:
        return Summary(NAN, NAN, 0)
    n, total = len(pairs), math.fsum(w for _, w in pairs)
    mean = math.fsum(w * x for x, w in pairs) / total
    spread = math.fsum((w * (x - mean)) ** 2 for x, w in pairs)
    return Summary(mean, math.sqrt(n / (n - 1) * spread) / total if n > 1 else NAN, n)


def auc(cases: Sequence[Case], scope: str = "positives") -> Summary:
    """Mean over all relevant items, each against its user's negatives, or "pooled": against
    everybody's.
    """
    users = [
        (positive, negative)
        for positive, negative in map(split_scores, cases)
        if positive and negative
    ]
    pool = [score for _, negative in users for score in negative]
    against = {"positives": lambda negative: negative, "pooled": lambda negative: pool}[scope]
    credited = [
        credit for positive, negative in users for credit in wins(positive, against(negative))
    ]
    return Summary(statistics.fmean(credited) if credited else NAN, NAN, len(users))


def summary(
    metric: str, cases: Sequence[Case], k: int | None, *, ties: str = "index", **params: Any
) -> Summary:
    """Value over all users: a mean over those where the metric is defined, except AUC."""
    if metric == "AUC":
        return auc(cases, **params)
    values = [user_value(metric, case, k, ties=ties, **params) for case in cases]
    weight = params.get("weight", "uniform") if metric == "GAUC" else "uniform"
    return mean_summary(values, [gauc_weight(case, weight) for case in cases])
