"""Slow oracles of novelty, in plain Python, written from the definitions."""

import math
from collections.abc import Callable, Mapping

from oracle_world import User, World, cosine, counted, given, popularity, ranked, train_cells
from oracles import NAN, relevant


def list_novelty(
    world: World,
    user: User,
    k: int,
    novelties: Mapping[int, float],
    *,
    cold_items: str,
    denominator: str,
    users: str,
) -> float:
    """Sum of the novelties of the list / its length (or k); NaN without a train or an item that
    counts. Items that nobody has seen are left out with cold_items="skip".
    """
    counts = popularity(world)
    items = [item for item in ranked(world, user, k) if counts[item] or cold_items == "one"]
    if not items or not train_cells(world) or user not in counted(world, users):
        return NAN
    return math.fsum(novelties[item] for item in items) / (k if denominator == "k" else len(items))


def num_train_users(world: World) -> int:
    """Give the number of users with a train interaction."""
    return len({user for user, _ in train_cells(world)})


def miuf(
    world: World,
    user: User,
    k: int,
    cold_items: str = "one",
    denominator: str = "list",
    users: str = "lists",
) -> float:
    """Mean of -log2(max(n_i, 1) / U)."""
    total = num_train_users(world) or 1
    novelties = {i: -math.log2(max(n, 1) / total) for i, n in enumerate(popularity(world))}
    how = {"cold_items": cold_items, "denominator": denominator, "users": users}
    return list_novelty(world, user, k, novelties, **how)


def self_information(
    world: World,
    user: User,
    k: int,
    cold_items: str = "one",
    denominator: str = "list",
    users: str = "lists",
) -> float:
    """Mean of -log2(max(n_i, 1) / T)."""
    total = len(train_cells(world)) or 1
    novelties = {i: -math.log2(max(n, 1) / total) for i, n in enumerate(popularity(world))}
    how = {"cold_items": cold_items, "denominator": denominator, "users": users}
    return list_novelty(world, user, k, novelties, **how)


def surprisal(
    world: World,
    user: User,
    k: int,
    cold_items: str = "one",
    denominator: str = "k",
    users: str = "lists",
) -> float:
    """Sum of log2(U / n_i) / log2(U) / k, 1 for an item that nobody has seen; NaN for U = 1."""
    total = num_train_users(world)
    if total < 2:
        return NAN
    novelties = {
        i: math.log2(total / n) / math.log2(total) if n else 1.0
        for i, n in enumerate(popularity(world))
    }
    how = {"cold_items": cold_items, "denominator": denominator, "users": users}
    return list_novelty(world, user, k, novelties, **how)


def new_to_user(world: World, user: User, k: int, users: str = "lists") -> float:
    """Share of the list that is not in the user's train; NaN for an empty list."""
    items = ranked(world, user, k)
    if not items or user not in counted(world, users):
        return NAN
    return sum((user, item) not in train_cells(world) for item in items) / len(items)


def dissimilar_hits(world: World, user: User, k: int) -> float:
    """Mean over the list of 1 - mean cosine with the user's train, of relevant items; 0 for items
    without a vector, NaN for users without a train item that has one.
    """
    wanted, items = relevant(world.cases()[user]), ranked(world, user, k)
    seen = [item for owner, item in train_cells(world) if owner == user]
    if all(cosine(world, item, item) is None for item in seen):
        return NAN
    total = 0.0
    for item in items:
        known = [value for one in seen if (value := cosine(world, item, one)) is not None]
        if item in wanted and known:
            total += 1 - math.fsum(known) / len(known)
    return total / len(items) if items else 0.0


def hits_beyond(world: World, user: User, k: int) -> float:
    """Relevant items of the list that the reference's first k lack / k; NaN without a reference."""
    reference, wanted = given(world, "reference"), relevant(world.cases()[user])
    if not wanted or user not in reference:
        return NAN
    return len((set(ranked(world, user, k)) & set(wanted)) - set(reference[user][:k])) / k


def unexpectedness(world: World, user: User, k: int, users: str = "lists") -> float:
    """1 - |L_u ∩ B_u| / k; NaN for an empty list or without a reference."""
    items, reference = ranked(world, user, k), given(world, "reference")
    if not items or user not in reference or user not in counted(world, users):
        return NAN
    return 1 - len(set(items) & set(reference[user][:k])) / k


def intersection(
    world: World, user: User, k: int, ref_k: int | None = None, users: str = "lists"
) -> float:
    """|L_u ∩ B_u| / |L_u|, B_u cut at ref_k or k; NaN for an empty list or without a reference."""
    items, reference = ranked(world, user, k), given(world, "reference")
    if not items or user not in reference or user not in counted(world, users):
        return NAN
    return len(set(items) & set(reference[user][: k if ref_k is None else ref_k])) / len(items)


def serendipity(world: World, user: User, k: int, definition: str = "popularity") -> float:
    """Mean over the list of max((N + 1 - p) / N - (N + 1 - rank_i) / N, 0) of relevant items, the
    rank dense by train interactions, the last term 0 for items without any.
    """
    case, counts, n = world.cases()[user], popularity(world), world.num_items
    if definition == "base":
        return hits_beyond(world, user, k)
    if not relevant(case) or not train_cells(world):
        return NAN
    if definition == "dissimilarity":
        return dissimilar_hits(world, user, k)
    ranks = {count: rank for rank, count in enumerate(sorted(set(counts), reverse=True), start=1)}
    items = ranked(world, user, k)
    total = 0.0
    for position, item in enumerate(items, start=1):
        expected = (n + 1 - ranks[counts[item]]) / n if counts[item] else 0.0
        if item in relevant(case):
            total += max((n + 1 - position) / n - expected, 0)
    return total / len(items) if items else 0.0


USER_METRICS: dict[str, Callable[..., float]] = {
    "MIUF": miuf,
    "SelfInformation": self_information,
    "Surprisal": surprisal,
    "NewToUser": new_to_user,
    "Serendipity": serendipity,
    "Unexpectedness": unexpectedness,
    "Intersection": intersection,
}
