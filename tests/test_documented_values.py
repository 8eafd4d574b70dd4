"""Values that the documentation or the tests of other tools state, on their small cases.

LensKit's values for the lists of its Java predecessor lie outside of the repository (see
test_golden.py)."""

import math

import polars as pl
import pytest

import weft
from test_golden import GOLDEN

LENSKIT = GOLDEN / "lenskit"
DISCOUNTS = [1 / math.log2(position + 1) for position in (1, 2, 3)]

# The example of RePlay's pages.
REPLAY_LISTS = {1: [3, 7, 10, 11, 2], 2: [5, 8, 11, 1, 3], 3: [4, 9, 2]}
REPLAY_TRUTH = {1: [5, 6, 7, 8, 9, 10], 2: [6, 7, 4, 10, 11], 3: [1, 2, 3, 4, 5]}
REPLAY_TRAIN = {1: [5, 6, 8, 9, 2], 2: [5, 8, 11, 1, 3], 3: [4, 9, 2]}
REPLAY_BASE = {1: [2, 3, 7], 2: [5, 8, 3], 3: [4, 9]}


def measure(lists, truth, metrics, **how):
    """Return values by name, and the values of users by name and user."""
    result = weft.evaluate(lists, truth, metrics=metrics, per_user=True, **how)
    users = result.per_user["user"].to_list()
    by_user = {
        name: dict(zip(users, result.per_user[result.entry(name).name].to_list()))
        for name in metrics
        if result.entry(name).name in result.per_user.columns
    }
    return {name: result[name] for name in metrics}, by_user


def test_replay():
    means, by_user = measure(
        REPLAY_LISTS,
        REPLAY_TRUTH,
        ["MAP@2", "nDCG@2", "MRR@2", "HitRate@2", "Precision@2", "Recall@2"],
        profile="replay",
    )
    assert means == pytest.approx(
        {
            "MAP@2": 0.25,
            "nDCG@2": 0.3333333333333333,
            "MRR@2": 0.5,
            "HitRate@2": 0.6666666666666666,
            "Precision@2": 0.3333333333333333,
            "Recall@2": 0.12222222222222223,
        }
    )
    expected = {
        "MAP@2": {1: 0.25, 2: 0.0, 3: 0.5},
        "nDCG@2": {1: 0.38685280723454163, 2: 0.0, 3: 0.6131471927654584},
        "MRR@2": {1: 0.5, 2: 0.0, 3: 1.0},
        "HitRate@2": {1: 1.0, 2: 0.0, 3: 1.0},
        "Precision@2": {1: 0.5, 2: 0.0, 3: 0.5},
        "Recall@2": {1: 0.16666666666666666, 2: 0.0, 3: 0.2},
    }
    for name, values in expected.items():
        assert by_user[name] == pytest.approx(values), name


def test_replay_beyond_accuracy():
    names = ["Surprisal@2", "NewToUser@2", "ItemCoverage@2", "Unexpectedness@2", "Unexpectedness@4"]
    means, by_user = measure(
        REPLAY_LISTS,
        REPLAY_TRUTH,
        names,
        train=REPLAY_TRAIN,
        mask_seen=False,
        inputs={"reference": REPLAY_BASE},
        profile="replay",
    )
    expected = (0.6845351232142715, 1 / 3, 0.5555555555555556, 0.16666666666666666, 0.5)
    assert list(means.values()) == pytest.approx(expected)
    surprisal = {1: 1.0, 2: 0.3690702464285426, 3: 0.6845351232142713}
    assert by_user["Surprisal@2"] == pytest.approx(surprisal)
    assert by_user["NewToUser@2"] == pytest.approx({1: 1.0, 2: 0.0, 3: 0.0})
    assert by_user["Unexpectedness@4"] == pytest.approx({1: 0.5, 2: 0.5, 3: 0.5})
    categories = {item: [str(item)] for item in range(1, 12)}  # each item its own
    means, _ = measure(
        REPLAY_LISTS,
        REPLAY_TRUTH,
        ["CategoryDiversity@3", "CategoryDiversity@5"],
        item_features=categories,
        profile="replay",
    )
    assert list(means.values()) == pytest.approx([1.0, 0.8666666666666667])


def place_hits(positions, num_relevant):
    """Return a list with hits at these positions, and the relevant items."""
    ranked = [f"miss {position}" for position in range(1, 10)]
    for number, position in enumerate(positions):
        ranked[position - 1] = f"hit {number}"
    return ranked, [f"hit {number}" for number in range(num_relevant)]


@pytest.mark.parametrize(
    ("metric", "hits", "num_relevant", "expected"),
    [
        ("MAP@1", [1], 6, 1 / 6),
        ("MAP@1", [1], 3, 1 / 3),
        ("MAP@1", [3], 1, 0),
        ("MAP@3", [3], 1, 1 / 3),
        ("MAP@3", [1, 3, 5, 7, 9], 6, (1 + 2 / 3) / 6),
        ("MAP@3", [1, 2, 3], 3, 1),
        ("MAP@3", [2], 1, 1 / 2),
        ("MAP@3", [9], 2, 0),
        ("MAP(normalizer=k)@3", [3], 1, 1 / 9),
        ("MAP(normalizer=k)@3", [1, 3, 5, 7, 9], 6, (1 + 2 / 3) / 3),
        ("MAP(normalizer=k)@3", [1], 1, 1 / 3),
        ("MAP(normalizer=k)@3", [2], 1, 1 / 6),
        ("MAP(normalizer=k)@1", [1], 6, 1),
        ("nDCG@1", [1], 1, 1),
        ("nDCG@3", [1, 2, 3], 3, 1),
        ("nDCG@3", [1], 1, 1 / sum(DISCOUNTS)),
        ("nDCG@3", [3, 7, 9], 4, 0.5 / sum(DISCOUNTS)),
        ("MRR@3", [3, 7, 9], 4, 1 / 3),
        ("MRR@1", [3, 7, 9], 4, 0),
        ("MRR@3", [1, 2, 3], 3, 1),
    ],
)
def test_rectools(metric, hits, num_relevant, expected):
    ranked, relevant = place_hits(hits, num_relevant)
    means, _ = measure({"u": ranked}, {"u": relevant}, [metric], profile="rectools")
    assert means[metric] == pytest.approx(expected)


def test_pyg():
    """The second user has nothing relevant; PyG's tests compute in float32."""
    lists = {0: [1, 0], 1: [1, 2], 2: [0, 2]}
    truth = {0: {0: 1.0, 1: 2.0, 2: 0.1}, 2: {2: 3.0, 1: 0.5}}
    expected = {
        "Recall@2": (2 / 3 + 0.5) / 2,
        "F1@2": 0.65,
        "MAP@2": 0.625,
        "nDCG@2": 0.6934264,
        "nDCG(gain=linear)@2": 0.7854486,
    }
    means, _ = measure(lists, truth, list(expected), profile="pyg")
    assert means == pytest.approx(expected, rel=1e-6)
    lists |= {3: [0, 1]}
    means, _ = measure(lists, {0: [0, 1], 2: [2, 1], 3: [2]}, ["MRR@2"], profile="pyg")
    assert means["MRR@2"] == pytest.approx((1 + 0.5 + 0) / 3)


@pytest.mark.skipif(not LENSKIT.is_dir(), reason=f"the golden values are not here: {LENSKIT}")
def test_lenskit():
    """A hundred lists of eight recommenders, of 100 items each; the ideal is not cut."""
    expected = pl.read_csv(LENSKIT / "topn-java-metrics.csv")
    recommended = pl.read_csv(LENSKIT / "topn-java-recs.csv.gz")
    truth = pl.read_csv(LENSKIT / "topn-java-truth.csv")
    names = ["nDCG(gain=linear, ideal=full)@100", "MRR@100"]
    compared = 0
    for (algorithm,), rows in expected.group_by("Algorithm"):
        of_algorithm = recommended.filter(pl.col("Algorithm") == algorithm)
        lists = {
            user: each.sort("rank")["item"].to_list()
            for (user,), each in of_algorithm.group_by("user")
        }
        _, by_user = measure(lists, truth, names, profile="lenskit")
        for _, user, ndcg, reciprocal_rank in rows.iter_rows():
            assert by_user[names[0]][user] == pytest.approx(ndcg), (algorithm, user)
            assert by_user[names[1]][user] == pytest.approx(reciprocal_rank)
            compared += ndcg > 0
    assert compared >= 30
