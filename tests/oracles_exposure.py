"""Slow oracles of popularity and exposure, in plain Python, written from the definitions."""

import math
import statistics
from collections import Counter
from collections.abc import Callable

from oracle_world import (
    Label,
    User,
    World,
    cluster_of,
    clusters,
    counted,
    evaluated,
    group_of,
    groups,
    lists,
    popularity,
    ranked,
    tail,
    train_cells,
)
from oracles import NAN, relevant
from oracles_diversity import POSITION_WEIGHTS, jensen_shannon


def tail_items(world: World, pop_ratio: float, tail_ratio: float | None) -> set[int]:
    """Give the long tail: all but the head, or the last `tail_ratio` of the items, at least one, of
    which the less popular ones and, of equally popular ones, those of higher index come last.
    """
    if tail_ratio is None:
        return tail(world, pop_ratio)
    counts = popularity(world)
    order = sorted(range(world.num_items), key=lambda item: (-counts[item], item))
    return set(order[-max(1, math.floor(tail_ratio * world.num_items + 1e-9)) :])


def aclt(
    world: World,
    user: User,
    k: int,
    pop_ratio: float = 0.8,
    tail_ratio: float | None = None,
    users: str = "lists",
) -> float:
    """Tail items in the list; 0 for an empty one."""
    rare = tail_items(world, pop_ratio, tail_ratio)
    found = sum(item in rare for item in ranked(world, user, k))
    return float(found) if user in counted(world, users) else NAN


def aplt(
    world: World,
    user: User,
    k: int,
    pop_ratio: float = 0.8,
    tail_ratio: float | None = None,
    users: str = "lists",
    denominator: str = "k",
) -> float:
    """Tail items in the list / k, or / list length; 0 for an empty one."""
    length = {"k": k, "list": len(ranked(world, user, k))}[denominator]
    return aclt(world, user, k, pop_ratio, tail_ratio, users) / (length or 1)


def arp(
    world: World,
    user: User,
    k: int,
    users: str = "lists",
    unseen: float | str = 0,
    normalize: str = "none",
) -> float:
    """Mean n_i over the list, `unseen` for an item without interactions ("skip": those that have
    some), / T or / the highest n; NaN for an empty list.
    """
    items, counts = ranked(world, user, k), popularity(world)
    if unseen == "skip":
        items = [item for item in items if counts[item]]
    scale = {"none": 1, "interactions": sum(counts), "max": max(counts, default=0)}[normalize]
    if not items or not scale or user not in counted(world, users):
        return NAN
    return statistics.fmean(counts[item] or unseen for item in items) / scale


def popularity_quantile(world: World, user: User, k: int, users: str = "lists") -> float:
    """Mean over the list of the mean rank of n_i among the items with interactions, ascending, /
    their number; 0 for items without any.
    """
    items, counts = ranked(world, user, k), popularity(world)
    known = sorted(count for count in counts if count)
    quantiles = {
        count: statistics.fmean(rank for rank, one in enumerate(known, start=1) if one == count)
        / len(known)
        for count in set(known)
    }
    if not items or user not in counted(world, users):
        return NAN
    return statistics.fmean(quantiles.get(counts[item], 0.0) for item in items)


def lift_of(world: World, k: int, users: list[User]) -> float:
    """(mean of the lists' mean n_i - mean of the profiles') / the latter, of the users who have a
    list and a profile.
    """
    counts, pairs = popularity(world), []
    for user in users:
        items = ranked(world, user, k)
        seen = [item for owner, item in train_cells(world) if owner == user]
        if items and seen:
            means = [
                statistics.fmean(counts[item] for item in several) for several in (items, seen)
            ]
            pairs.append(means)
    if not pairs:
        return NAN
    shown, own = (statistics.fmean(column) for column in zip(*pairs))
    return (shown - own) / own


def popularity_lift(world: World, k: int) -> float:
    """Lift of all users."""
    return lift_of(world, k, list(world.scores))


def popularity_lift_cells(world: World, k: int) -> dict[tuple[Label, ...], float]:
    """Lift of each group of users."""
    return {
        (group,): lift_of(world, k, [u for u in world.scores if group_of(world, u) == group])
        for group in groups(world)
    }


def gini(
    world: World,
    k: int,
    denominator: str = "N-1",
    users: str = "lists",
    weight: str = "uniform",
    p: float = 0.85,
) -> float:
    """Sum over j of (2j - N - 1) c_j / ((N - 1) * sum of c), c ascending, the weights of the
    positions of each item; NaN where nothing is recommended, else 0 for N = 1.
    """
    amounts: Counter[int] = Counter()
    for user in counted(world, users):
        for position, item in enumerate(lists(world, k)[user], start=1):
            amounts[item] += POSITION_WEIGHTS[weight](position, p)
    n = world.num_items
    ascending = sorted(float(amounts[item]) for item in range(n))
    if not sum(ascending):
        return NAN
    below = {"N-1": n - 1, "N": n}[denominator] * math.fsum(ascending)
    total = math.fsum((2 * j - n - 1) * amount for j, amount in enumerate(ascending, start=1))
    return total / below if n > 1 else 0.0


# Expected exposure


def exposures(
    world: World, user: User, k: int, weight: str, p: float
) -> tuple[list[float], list[float]]:
    """Give the exposure of each item in the list, and in the target: relevant items share the
    weights of the first |R| positions, the others those of the rest, up to N.
    """
    weigh, n = POSITION_WEIGHTS[weight], world.num_items
    shown = {item: weigh(r, p) for r, item in enumerate(ranked(world, user, k), start=1)}
    wanted = relevant(world.cases()[user])
    every = [weigh(r, p) for r in range(1, n + 1)]
    parts = {True: every[: len(wanted)], False: every[len(wanted) :]}
    means = {
        is_relevant: statistics.fmean(several) if several else 0.0
        for is_relevant, several in parts.items()
    }
    return [shown.get(item, 0.0) for item in range(n)], [means[item in wanted] for item in range(n)]


def ee_loss(world: World, user: User, k: int, weight: str = "geometric", p: float = 0.5) -> float:
    """Sum of (e - e*)^2."""
    if user not in evaluated(world):
        return NAN
    return math.fsum((e - t) ** 2 for e, t in zip(*exposures(world, user, k, weight, p)))


def ee_disparity(
    world: World, user: User, k: int, weight: str = "geometric", p: float = 0.5
) -> float:
    """Sum of e^2."""
    if user not in evaluated(world):
        return NAN
    return math.fsum(e * e for e in exposures(world, user, k, weight, p)[0])


def ee_relevance(
    world: World, user: User, k: int, weight: str = "geometric", p: float = 0.5
) -> float:
    """Sum of e e*."""
    if user not in evaluated(world):
        return NAN
    return math.fsum(e * t for e, t in zip(*exposures(world, user, k, weight, p)))


def awrf(
    world: World, user: User, k: int, weight: str = "log", p: float = 0.85, users: str = "lists"
) -> float:
    """1 - Jensen-Shannon divergence of the clusters' shares of the weights of the list and of the
    labelled items of the catalogue; NaN without a labelled item in the list.
    """
    amounts: Counter[Label] = Counter()
    for position, item in enumerate(ranked(world, user, k), start=1):
        if cluster_of(world, item) is not None:
            amounts[cluster_of(world, item)] += POSITION_WEIGHTS[weight](position, p)
    if not amounts or user not in counted(world, users):
        return NAN
    labels = [cluster_of(world, item) for item in range(world.num_items)]
    catalogue = Counter(label for label in labels if label is not None)
    both = [
        (amounts[label] / sum(amounts.values()), catalogue[label] / sum(catalogue.values()))
        for label in clusters(world)
    ]
    return 1 - jensen_shannon(both)


USER_METRICS: dict[str, Callable[..., float]] = {
    "ACLT": aclt,
    "APLT": aplt,
    "ARP": arp,
    "PopularityQuantile": popularity_quantile,
    "ExpectedExposureLoss": ee_loss,
    "ExpectedExposureDisparity": ee_disparity,
    "ExpectedExposureRelevance": ee_relevance,
    "AWRF": awrf,
}
GLOBAL_METRICS: dict[str, Callable[..., float]] = {"Gini": gini}
CELL_METRICS: dict[str, Callable[..., dict[tuple[Label, ...], float]]] = {
    "PopularityLift": popularity_lift_cells
}
LOWER_IS_BETTER = (
    "ARP",
    "PopularityQuantile",
    "ExpectedExposureLoss",
    "ExpectedExposureDisparity",
)
# Metrics with cells whose value is not the spread of the cells.
SCALARS: dict[str, Callable[..., float]] = {"PopularityLift": popularity_lift}
