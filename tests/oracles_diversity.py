"""Slow oracles of diversity, in plain Python, written from the definitions."""

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from oracle_world import (
    Label,
    User,
    World,
    cluster_of,
    cosine,
    counted,
    given,
    lists,
    ranked,
    train_cells,
)
from oracles import NAN


def personalization(world: World, k: int, overlap: str = "k", users: str = "lists") -> float:
    """1 - mean over the pairs of lists with an item of the common items / k, or / the root of the
    product of both lengths; NaN without a pair.
    """
    shown = [set(items) for user, items in lists(world, k).items() if user in counted(world, users)]
    overlaps = [
        len(one & other) / (k if overlap == "k" else math.sqrt(len(one) * len(other)))
        for one, other in itertools.combinations([items for items in shown if items], 2)
    ]
    return 1 - statistics.fmean(overlaps) if overlaps else NAN


# Distances of two items; None if they cannot be compared


def category_distance(world: World, one: int, other: int) -> float | None:
    """0 or 1 if the clusters are equal or differ."""
    labels = [cluster_of(world, one), cluster_of(world, other)]
    return None if None in labels else float(labels[0] != labels[1])


def features_of(world: World, item: int) -> set[Label]:
    """Give the features of an item."""
    return set(given(world, "item_features").get(item, ()))


def hamming_distance(world: World, one: int, other: int) -> float:
    """Number of features that one of both has."""
    return float(len(features_of(world, one) ^ features_of(world, other)))


def jaccard_distance(world: World, one: int, other: int) -> float:
    """1 - common features / all features of both; 0 for two empty sets."""
    first, second = features_of(world, one), features_of(world, other)
    return 1 - len(first & second) / len(first | second) if first | second else 0.0


def cooccurrence_distance(world: World, one: int, other: int) -> float | None:
    """1 - users of both / root of the product of the users of each, in the train."""
    first, second = (
        {user for user, item in train_cells(world) if item == this} for this in (one, other)
    )
    if not first or not second:
        return None
    return 1 - len(first & second) / math.sqrt(len(first) * len(second))


def cosine_distance(world: World, one: int, other: int) -> float | None:
    """1 - cosine of the vectors."""
    similarity = cosine(world, one, other)
    return None if similarity is None else 1 - similarity


DISTANCES: dict[str, Callable[[World, int, int], float | None]] = {
    "cosine": cosine_distance,
    "category": category_distance,
    "hamming": hamming_distance,
    "jaccard": jaccard_distance,
    "cooccurrence": cooccurrence_distance,
}


def ild(world: World, user: User, k: int, distance: str = "cosine", users: str = "lists") -> float:
    """Mean distance over the pairs of the list that can be compared; NaN without any."""
    pairs = itertools.combinations(ranked(world, user, k), 2)
    distances = [DISTANCES[distance](world, *pair) for pair in pairs]
    known = [value for value in distances if value is not None]
    return statistics.fmean(known) if known and user in counted(world, users) else NAN


def ils(world: World, user: User, k: int, distance: str = "cosine", users: str = "lists") -> float:
    """Mean similarity, 1 - distance, over the pairs of the list that can be compared."""
    pairs = itertools.combinations(ranked(world, user, k), 2)
    distances = [DISTANCES[distance](world, *pair) for pair in pairs]
    known = [1 - value for value in distances if value is not None]
    return statistics.fmean(known) if known and user in counted(world, users) else NAN


# Categories of a list

POSITION_WEIGHTS: dict[str, Callable[[int, float], float]] = {
    "uniform": lambda position, p: 1.0,
    "geometric": lambda position, p: p ** (position - 1),
    "log": lambda position, p: 1 / math.log2(position + 1),
    "reciprocal": lambda position, p: 1 / position,
}


def category_shares(
    world: World, items: Sequence[int], weights: Sequence[float]
) -> Mapping[Label, float]:
    """Give the share of each category; an item with m features gives 1 / m of its weight to each,
    one without features gives nothing.
    """
    amounts: Counter[Label] = Counter()
    for item, weight in zip(items, weights):
        for feature in features_of(world, item):
            amounts[feature] += weight / len(features_of(world, item))
    return {feature: amount / sum(amounts.values()) for feature, amount in amounts.items()}


def category_diversity(world: World, user: User, k: int, users: str = "lists") -> float:
    """Different categories of the list / k; NaN for an empty list."""
    items = ranked(world, user, k)
    different = {feature for item in items for feature in features_of(world, item)}
    return len(different) / k if items and user in counted(world, users) else NAN


def category_entropy(
    world: World, user: User, k: int, weight: str = "uniform", p: float = 0.85, users: str = "lists"
) -> float:
    """Minus the sum of q log2 q; NaN without a category."""
    items = ranked(world, user, k)
    weights = [POSITION_WEIGHTS[weight](position, p) for position in range(1, len(items) + 1)]
    shares = category_shares(world, items, weights)
    if not shares or user not in counted(world, users):
        return NAN
    return -math.fsum(share * math.log2(share) for share in shares.values())


def calibration(
    world: World,
    user: User,
    k: int,
    divergence: str = "kl",
    alpha: float = 0.01,
    users: str = "lists",
) -> float:
    """Divergence of the category shares of the user's train, p, and of the list, q; NaN without a
    category in either.
    """
    seen = [item for owner, item in train_cells(world) if owner == user]
    items = ranked(world, user, k)
    p = category_shares(world, seen, [1.0] * len(seen))
    q = category_shares(world, items, [1.0] * len(items))
    if not p or not q or user not in counted(world, users):
        return NAN
    both = [(p.get(label, 0.0), q.get(label, 0.0)) for label in {*p, *q}]
    if divergence == "hellinger":
        return math.sqrt(math.fsum((math.sqrt(a) - math.sqrt(b)) ** 2 for a, b in both) / 2)
    if divergence == "js":
        return jensen_shannon(both)
    return math.fsum(a * math.log2(a / ((1 - alpha) * b + alpha * a)) for a, b in both if a)


def jensen_shannon(both: Sequence[tuple[float, float]]) -> float:
    """Mean divergence, in bits, of two distributions from their mean."""
    return (
        math.fsum(
            part * math.log2(part / ((a + b) / 2)) for a, b in both for part in (a, b) if part
        )
        / 2
    )


USER_METRICS: dict[str, Callable[..., float]] = {
    "ILD": ild,
    "ILS": ils,
    "Calibration": calibration,
    "CategoryDiversity": category_diversity,
    "CategoryEntropy": category_entropy,
}
GLOBAL_METRICS: dict[str, Callable[..., float]] = {"Personalization": personalization}
LOWER_IS_BETTER = ("ILS", "Calibration")
