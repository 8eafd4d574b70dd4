"""Slow oracles of diversity, in plain Python, written from the definitions."""

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from oracle_world import (
    Label,
    User,
    World,
    cluster_of,
    cosine,
    counted,
    discount,
    given,
    lists,
    ranked,
    train_cells,
)
from oracles import NAN, relevant


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


# Aspects: the features of a user's relevant items


def aspect_gain(
    world: World,
    relevant_items: Collection[int],
    items: Sequence[int],
    alpha: float,
    weight: Callable[[int], float],
) -> float:
    """Sum over the relevant items of a list of weight(position) * sum over the features of
    (1 - alpha) ^ number of relevant items above with the feature.
    """
    met: Counter[Label] = Counter()
    total = 0.0
    for position, item in enumerate(items, start=1):
        for feature in features_of(world, item) if item in relevant_items else ():
            total += weight(position) * (1 - alpha) ** met[feature]
            met[feature] += 1
    return total


def greedy_list(world: World, relevant_items: Collection[int], k: int, alpha: float) -> list[int]:
    """Take the relevant item that adds most, of equal ones the last, up to k times."""
    chosen: list[int] = []
    met: Counter[Label] = Counter()
    while len(chosen) < min(k, len(relevant_items)):
        left = [item for item in sorted(relevant_items) if item not in chosen]
        # Rounded, so that sums of the same terms in another order are equal.
        added = [
            round(math.fsum((1 - alpha) ** met[one] for one in features_of(world, item)), 11)
            for item in left
        ]
        best = max(item for item, gain in zip(left, added) if gain == max(added))
        chosen.append(best)
        met.update(features_of(world, best))
    return chosen


def normalized_aspect_gain(
    world: World, user: User, k: int, alpha: float, weight: Callable[[int], float]
) -> float:
    """Gain of the list / gain of the greedy one; NaN without a relevant item with a feature."""
    found = relevant(world.cases()[user])
    if not any(features_of(world, item) for item in found):
        return NAN
    ideal = aspect_gain(world, found, greedy_list(world, found, k, alpha), alpha, weight)
    return aspect_gain(world, found, ranked(world, user, k), alpha, weight) / ideal


def alpha_ndcg(world: World, user: User, k: int, alpha: float = 0.5) -> float:
    """Gains discounted by 1 / log2(position + 1)."""
    return normalized_aspect_gain(world, user, k, alpha, discount)


def err_ia(world: World, user: User, k: int, alpha: float = 0.5, normalize: bool = True) -> float:
    """Gains discounted by 1 / position, / those of the greedy list or of a list whose items all
    have all aspects.
    """
    if normalize:
        return normalized_aspect_gain(world, user, k, alpha, lambda position: 1 / position)
    found = relevant(world.cases()[user])
    aspects = {feature for item in found for feature in features_of(world, item)}
    if not aspects:
        return NAN
    gain = aspect_gain(world, found, ranked(world, user, k), alpha, lambda position: 1 / position)
    perfect = math.fsum((1 - alpha) ** (p - 1) / p for p in range(1, k + 1))
    return gain / (len(aspects) * perfect)


def p_ia(world: World, user: User, k: int) -> float:
    """Mean over the aspects of the share of k positions with a relevant item of the aspect."""
    found = relevant(world.cases()[user])
    aspects = {feature for item in found for feature in features_of(world, item)}
    if not aspects:
        return NAN
    hits = [item for item in ranked(world, user, k) if item in found]
    return statistics.fmean(
        sum(aspect in features_of(world, item) for item in hits) / k for aspect in aspects
    )


USER_METRICS: dict[str, Callable[..., float]] = {
    "ERR_IA": err_ia,
    "P_IA": p_ia,
    "alpha_nDCG": alpha_ndcg,
    "ILD": ild,
    "ILS": ils,
    "Calibration": calibration,
    "CategoryDiversity": category_diversity,
    "CategoryEntropy": category_entropy,
}
GLOBAL_METRICS: dict[str, Callable[..., float]] = {"Personalization": personalization}
LOWER_IS_BETTER = ("ILS", "Calibration")
