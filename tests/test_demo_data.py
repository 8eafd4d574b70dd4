"""The embedded demo data set and its recommenders: documented properties and fixed numbers."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import polars as pl
import pytest
import torch
from scipy.sparse import csr_matrix

from weft.cli.demo import demo_data, recommenders

# Ids, integers and strings only, so the digest does not depend on a platform's floats. A new digest
# changes the demo's numbers: say so in the changelog.
DIGEST = "d68a11dcf8b74f03178f1960fb41a84d70f181024b96dae9bfc762eacd9d7510"
NUM_USERS, NUM_ITEMS = 1_000, 1_700


@pytest.fixture(scope="module")
def data() -> demo_data.DemoData:
    return demo_data.load()


@pytest.fixture(scope="module")
def interactions(data: demo_data.DemoData) -> pl.DataFrame:
    return pl.concat([data.train, data.test])


def to_matrix(frame: pl.DataFrame) -> csr_matrix:
    """Binary `[users, items]`; ids count from 1."""
    rows, columns = (
        frame[name].str.slice(1).cast(pl.Int64).to_numpy() - 1 for name in ("user", "item")
    )
    return csr_matrix(
        (np.ones(len(frame), np.float32), (rows, columns)), shape=(NUM_USERS, NUM_ITEMS)
    )


@pytest.fixture(scope="module")
def train(data: demo_data.DemoData) -> csr_matrix:
    return to_matrix(data.train)


def test_columns_and_sizes(data: demo_data.DemoData, interactions: pl.DataFrame) -> None:
    schema = {"user": pl.String, "item": pl.String, "rating": pl.Int64, "timestamp": pl.Int64}
    assert dict(data.train.schema) == dict(data.test.schema) == schema
    assert data.users.columns == ["user", "gender", "age_group"]
    assert dict(data.items.schema) == {
        "item": pl.String, "title": pl.String, "genres": pl.List(pl.String), "year": pl.Int64,
    }  # fmt: skip
    assert (
        len(data.users)
        == data.users["user"].n_unique()
        == interactions["user"].n_unique()
        == NUM_USERS
    )
    assert (
        len(data.items)
        == data.items["item"].n_unique()
        == data.items["title"].n_unique()
        == NUM_ITEMS
    )
    assert 95_000 < len(interactions) < 105_000
    assert interactions["item"].is_in(data.items["item"].implode()).all()


def test_rows_are_reproducible(data: demo_data.DemoData) -> None:
    demo_data.load.cache_clear()
    again = demo_data.load()
    digest = hashlib.sha256()
    for name in ("train", "test", "users", "items"):
        frame = getattr(data, name)
        assert frame.equals(getattr(again, name))
        digest.update(json.dumps(frame.rows()).encode())
    assert digest.hexdigest() == DIGEST


def test_each_pair_of_user_and_item_occurs_once(interactions: pl.DataFrame) -> None:
    assert not interactions.select("user", "item").is_duplicated().any()


def test_skew_of_items_and_users(data: demo_data.DemoData, interactions: pl.DataFrame) -> None:
    per_item = interactions["item"].value_counts()["count"].sort(descending=True)
    assert 0.45 < per_item[: NUM_ITEMS // 10].sum() / len(interactions) < 0.55
    per_user = interactions["user"].value_counts()["count"]
    assert 20 <= per_user.min() <= 30
    assert 300 <= per_user.max() <= 500
    assert per_user.median() < 0.8 * per_user.mean()
    cold = data.test.filter(~pl.col("item").is_in(data.train["item"].unique().implode()))[
        "item"
    ].n_unique()
    assert 10 <= cold <= 60


def test_ratings_and_attributes(data: demo_data.DemoData, interactions: pl.DataFrame) -> None:
    assert set(interactions["rating"]) == {1, 2, 3, 4, 5}
    assert interactions["rating"].mean() == pytest.approx(3.5, abs=0.1)
    assert set(data.items["genres"].list.len()) == {1, 2, 3}
    assert {genre for genres in data.items["genres"] for genre in genres} == set(demo_data.GENRES)
    assert 0 < data.users["gender"].null_count() < 50
    assert set(data.users["age_group"]) == set(demo_data.AGE_GROUPS)


def test_last_fifth_of_each_user_is_test(
    data: demo_data.DemoData, interactions: pl.DataFrame
) -> None:
    per_user = (
        data.train.group_by("user")
        .agg(pl.len().alias("train"), pl.col("timestamp").max().alias("last_train"))
        .join(
            data.test.group_by("user").agg(
                pl.len().alias("test"), pl.col("timestamp").min().alias("first_test")
            ),
            on="user",
            how="full",
        )
    )
    assert len(per_user) == NUM_USERS
    assert (
        per_user.null_count().sum_horizontal().item() == 0
    )  # every user has train rows and test rows
    assert (per_user["last_train"] < per_user["first_test"]).all()
    assert (per_user["test"] == (per_user["train"] + per_user["test"]) // 5).all()
    assert interactions["timestamp"].max() - interactions["timestamp"].min() <= 730 * 86_400


def hit_rate_at_10(scores: np.ndarray, train: csr_matrix, test: csr_matrix) -> float:
    unseen = np.where(train.toarray() > 0, -np.inf, scores)
    best = np.argsort(-unseen, axis=1, kind="stable")[:, :10]
    return float(np.take_along_axis(test.toarray(), best, axis=1).any(axis=1).mean())


@pytest.mark.slow
def test_personal_recommenders_beat_popularity(data: demo_data.DemoData, train: csr_matrix) -> None:
    test = to_matrix(data.test)
    users, items = recommenders.factor_model(train)
    popular = hit_rate_at_10(
        recommenders.popularity(train)(np.arange(NUM_USERS)).numpy(), train, test
    )
    assert 0.5 < popular < 0.8
    assert hit_rate_at_10(recommenders.item_knn(train).numpy(), train, test) > popular + 0.05
    assert hit_rate_at_10((users @ items.T).numpy(), train, test) > popular + 0.05


def test_popularity_counts_rows_and_has_ties(train: csr_matrix) -> None:
    score = recommenders.popularity(train)
    scores = score(torch.tensor([3, 999]))
    assert scores.shape == (2, NUM_ITEMS)
    assert scores.dtype == torch.float32
    assert scores[0].tolist() == scores[1].tolist() == train.toarray().sum(axis=0).tolist()
    assert len(scores[0].unique()) < NUM_ITEMS


def test_item_knn_on_worked_example() -> None:
    # Items 0 and 1 share one of their users: cosine 1 / (sqrt(1) * sqrt(2)). Item 2 shares none
    # with either.
    train = csr_matrix(np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]], dtype=np.float32))
    half = 0.5**0.5
    expected = torch.tensor([[half, half, 0], [half, 0, 0], [0, 0, 0]])
    torch.testing.assert_close(recommenders.item_knn(train, neighbours=1), expected)


def test_factor_model_solves_the_least_squares() -> None:
    # The last half-sweep solves for the items: they must fulfil the normal equations of the
    # returned users.
    generator = np.random.default_rng(0)
    ratings = generator.integers(0, 6, (20, 15)) * (generator.random((20, 15)) < 0.4)
    users, items = recommenders.factor_model(
        csr_matrix(ratings), 4, confidence=2.0, regularisation=0.5, sweeps=3
    )
    for item, embedding in enumerate(items.double()):
        weights = torch.diag(1 + 2.0 * torch.from_numpy(ratings[:, item]).double())
        liked = torch.from_numpy(ratings[:, item] > 0).double()
        x = users.double()
        expected = torch.linalg.solve(
            x.T @ weights @ x + 0.5 * torch.eye(4).double(), x.T @ weights @ liked
        )
        torch.testing.assert_close(embedding, expected, rtol=1e-4, atol=1e-5)


def test_factor_model_is_deterministic(train: csr_matrix) -> None:
    first, second = (recommenders.factor_model(train, 8, sweeps=1) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
