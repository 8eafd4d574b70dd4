"""Users in parts: whatever the parts, what comes out is what one process finds."""

import numpy as np
import polars as pl
import polars.testing  # noqa: F401
import pytest
import torch

import weft
from apart import assert_same, evaluate
from everything import BUILT_IN, VARIANTS, about

USERS, ITEMS = 60, 40
generator = np.random.default_rng(9)
SCORES = np.round(generator.normal(size=(USERS + 6, ITEMS)), 1)  # with ties
LISTS = pl.DataFrame(
    [
        (user, int(item), float(SCORES[user, item]))
        for user in range(3, USERS + 6)
        for item in generator.choice(ITEMS, int(generator.integers(1, 15)), False)
    ],
    schema=["user", "item", "score"],
    orient="row",
)
TRUTH = pl.DataFrame(
    [(user, int(item), float(rating)) for user in range(USERS) for item, rating in zip(generator.choice(ITEMS, 4, False), (0, 1, 2, 4))],
    schema=["user", "item", "rating"],
    orient="row",
)
TRAIN = pl.DataFrame(
    [(user, int(item)) for user in range(0, USERS + 20, 1) for item in generator.choice(ITEMS - 5, 1 + user % 7)],  # may repeat
    schema=["user", "item"],
    orient="row",
)
GROUPS = {user: label for user, label in enumerate(about(USERS + 30, ITEMS)["user_groups"])}
CLUSTERS = {item: label for item, label in enumerate(about(USERS, ITEMS)["item_clusters"])}
FEATURES = {item: labels for item, labels in enumerate(about(USERS, ITEMS)["item_features"])}
LABELS = {"user_groups": GROUPS, "item_clusters": CLUSTERS, "item_features": FEATURES}
OF_LISTS = [name for name in BUILT_IN if name not in ("AUC", "GAUC")]
SLICES = {
    "parity": {user: "odd" if user % 2 else "even" for user in range(USERS)},
    "activity": "quantiles(3)",
    "item_popularity": "quantiles(4)",
    "age": {"of": {user: float(user % 17) / 2 for user in range(USERS + 3)}, "by": "quantiles(5)"},
    "bins": {"of": {user: user % 11 for user in range(USERS)}, "by": "bins(3, 7)"},
}


def both(source, truth, parts=3, **settings):
    assert_same(evaluate(source, truth, parts=parts, **settings), weft.evaluate(source, truth, **settings))


@pytest.mark.parametrize("parts", [1, 3, 200])
def test_everything_of_lists_is_what_one_process_finds(parts):
    both(LISTS, TRUTH, parts, metrics=OF_LISTS, top_k=[3, 8], train=TRAIN, **LABELS, slices=SLICES, per_user=True, exposure=True)
