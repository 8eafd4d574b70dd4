"""The data that the oracles beyond accuracy see, and what they share: lists, train, labels.

Written from the definitions, like `oracles.py`. `n_i` are the train interactions of item i, `T`
their sum; "all lists" are the users of `World.scores`, "evaluated" those of them with a relevant
item."""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from oracles import Case, orders, relevant

User = Hashable
Label = Hashable
Lists = dict[User, list[int]]


@dataclass(frozen=True)
class World:
    """Everything that one evaluation sees."""

    scores: Mapping[
        User, tuple[float, ...] | None
    ]  # before masking; -inf: not offered; None: no row in the source
    truth: Mapping[User, Mapping[int, float]]  # item -> rating
    num_items: int
    train: Mapping[User, Collection[int]] | None = None
    mask_seen: bool = True
    threshold: float | None = None
    user_groups: Mapping[User, Label] | None = None  # None, or no entry: no label
    item_clusters: Mapping[int, Label] | None = None
    item_features: Mapping[int, Collection[Label]] | None = None
    item_vectors: Mapping[int, Sequence[float]] | None = None
    propensities: Mapping[int, float] | None = None  # None: estimated from train
    reference: Mapping[User, Sequence[int]] | None = None  # another model's lists, best first

    def __post_init__(self) -> None:
        """Refuse what the definitions call an error."""
        items = set(range(self.num_items))
        if not set(self.truth) <= set(self.scores):
            raise ValueError("the truth holds a user without an entry in scores")
        if any(row is not None and len(row) != self.num_items for row in self.scores.values()):
            raise ValueError("a row of scores is not as long as the catalogue")
        if not all(
            set(held) <= items for held in (*self.truth.values(), *(self.train or {}).values())
        ):
            raise ValueError("the truth or the train holds an item outside the catalogue")
        self.cases()

    def cases(self) -> dict[User, Case]:
        """Give every user as `oracles.py` sees them: scores after masking."""
        return self._cases

    @cached_property
    def _cases(self) -> dict[User, Case]:
        masked = (self.train or {}) if self.mask_seen else {}
        cases = {}
        for user, row in self.scores.items():
            seen = masked.get(user, ())
            left = (
                None
                if row is None
                else tuple(-math.inf if item in seen else score for item, score in enumerate(row))
            )
            cases[user] = Case(left, self.truth.get(user, {}), self.threshold, self.num_items)
        return cases


def given(world: World, name: str) -> Any:
    """Give an input, or say that it is missing."""
    if getattr(world, name) is None:
        raise ValueError(f"{name} is missing")
    return getattr(world, name)


# Lists and users


def ranked(world: World, user: User, k: int) -> list[int]:
    """Give L_u: the offered items by score, equal ones by index, cut at k."""
    return next(orders(world.cases()[user], k, "index"))[:k]


def lists(world: World, k: int) -> Lists:
    """Give L_u of every user."""
    return {user: ranked(world, user, k) for user in world.scores}


def evaluated(world: World) -> list[User]:
    """Give the users with a relevant item."""
    return [user for user, case in world.cases().items() if relevant(case)]


def counted(world: World, users: str) -> list[User]:
    """Give the users that the parameter `users` means: all "lists" or the "evaluated" ones."""
    return {"lists": list(world.scores), "evaluated": evaluated(world)}[users]


def discount(position: int) -> float:
    """d_p."""
    return 1 / math.log2(position + 1)


# Train: popularity, head and tail


def train_cells(world: World) -> set[tuple[User, int]]:
    """Give the distinct (user, item) of the train."""
    return {(user, item) for user, items in given(world, "train").items() for item in items}


def popularity(world: World) -> list[int]:
    """Give n_i of every item."""
    counts = Counter(item for _, item in train_cells(world))
    return [counts[item] for item in range(world.num_items)]


def head(world: World, pop_ratio: float) -> set[int]:
    """Give the shortest prefix, most popular first, whose interactions reach pop_ratio * T;
    tolerance 1e-9 * T.
    """
    if not 0 < pop_ratio <= 1:
        raise ValueError(f"pop_ratio must be in (0, 1], got {pop_ratio}")
    counts = popularity(world)
    total, reached, found = sum(counts), 0, set()
    for item in sorted(range(world.num_items), key=lambda item: (-counts[item], item)):
        if reached >= pop_ratio * total - 1e-9 * total:
            break
        found.add(item)
        reached += counts[item]
    return found


def tail(world: World, pop_ratio: float) -> set[int]:
    """Give all items but the head."""
    return set(range(world.num_items)) - head(world, pop_ratio)


# Labels


def group_of(world: World, user: User) -> Label | None:
    """Give a user's group, None if there is none."""
    return given(world, "user_groups").get(user)


def cluster_of(world: World, item: int) -> Label | None:
    """Give an item's cluster, None if there is none."""
    return given(world, "item_clusters").get(item)


def groups(world: World) -> list[Label]:
    """Give the labels that a user of the lists, or a user with a train interaction, has."""
    users = dict.fromkeys(
        [*world.scores, *(user for user, items in (world.train or {}).items() if items)]
    )
    return list(
        dict.fromkeys(group_of(world, user) for user in users if group_of(world, user) is not None)
    )


def clusters(world: World) -> list[Label]:
    """Give the labels that an item of the catalogue has."""
    return list(
        dict.fromkeys(
            cluster_of(world, i) for i in range(world.num_items) if cluster_of(world, i) is not None
        )
    )


def features(world: World, items: Iterable[int]) -> set[Label]:
    """Give the features that these items have between them."""
    return {feature for item in items for feature in given(world, "item_features").get(item, ())}


def cosine(world: World, one: int, other: int) -> float | None:
    """Give the cosine of the vectors of two items; None if one has no vector, or one of zeros."""
    vectors = given(world, "item_vectors")
    if not any(vectors.get(one, ())) or not any(vectors.get(other, ())):
        return None
    product = math.fsum(a * b for a, b in zip(vectors[one], vectors[other], strict=True))
    return product / (math.hypot(*vectors[one]) * math.hypot(*vectors[other]))
