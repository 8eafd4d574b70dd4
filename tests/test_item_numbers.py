"""Truth as item numbers `[users]`, one relevant item for each user, as `update` takes it."""

import numpy as np
import polars as pl
import pytest
import torch

import weft
from local_engine import evaluate as evaluate_partitions
from weft.errors import InputError

USERS, ITEMS = 30, 12
GENERATOR = np.random.default_rng(4)
SCORES = GENERATOR.normal(size=(USERS, ITEMS)).astype(np.float32)
NUMBERS = GENERATOR.integers(0, ITEMS, USERS)
NUMBERS[[3, 9]] = -1
NUMBERS[5] = -100
MATRIX = np.zeros((USERS, ITEMS), dtype=np.float32)
MATRIX[np.flatnonzero(NUMBERS >= 0), NUMBERS[NUMBERS >= 0]] = 1
TRAIN = (GENERATOR.random((USERS, ITEMS)) < 0.2) & (MATRIX == 0)
METRICS = {"metrics": ["nDCG", "Recall", "MRR", "Gini", "GAUC"], "top_k": [1, 5]}
FORMS = {
    "numpy": NUMBERS,
    "int32": NUMBERS.astype(np.int32),
    "torch": torch.from_numpy(NUMBERS),
    "int16": torch.from_numpy(NUMBERS).short(),
}


def assert_equal(result, expected):
    assert [(one.name, one.users) for one in result.entries] == [
        (one.name, one.users) for one in expected.entries
    ]
    for field in ("value", "std_error", "boot_low"):
        found, wanted = (
            [getattr(value, field) for value in one.entries] for one in (result, expected)
        )
        assert found == pytest.approx(wanted, nan_ok=True)
    assert result.counts == expected.counts
    assert result.notes == expected.notes
    assert result.provenance["fingerprint"] == expected.provenance["fingerprint"]


@pytest.mark.parametrize("form", FORMS)
def test_equals_a_matrix(form):
    result = weft.evaluate(SCORES, FORMS[form], **METRICS)
    assert_equal(result, weft.evaluate(SCORES, MATRIX, **METRICS))
    assert result.counts["evaluated_users"] == USERS - 3


def test_equals_update():
    evaluator = weft.Evaluator(METRICS["metrics"], METRICS["top_k"], num_items=ITEMS)
    evaluator.update(torch.from_numpy(SCORES), torch.from_numpy(NUMBERS))
    result = weft.evaluate(SCORES, NUMBERS, **METRICS)
    for one, other in zip(result.entries, evaluator.compute().entries):
        assert (one.name, one.users) == (other.name, other.users)
        assert one.value == pytest.approx(other.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"train": TRAIN},
        {"users": [f"u{row}" for row in range(USERS)], "items": list("abcdefghijkl")},
        {"strategy": "sampled", "num_negatives": 4},
        {"implicit": True, "bootstrap": 20, "per_user": True},
    ],
)
def test_equals_a_matrix_with_other_settings(settings):
    result = weft.evaluate(SCORES, NUMBERS, **METRICS, **settings)
    assert_equal(result, weft.evaluate(SCORES, MATRIX, **METRICS, **settings))


def test_models_and_factors_are_asked_for_all_rows():
    def score(users):
        return SCORES[np.asarray(users, dtype=int)]

    factors = weft.Factors(torch.from_numpy(SCORES), torch.eye(ITEMS))
    for source in (score, factors):
        result = weft.evaluate(source, NUMBERS, **METRICS)
        assert_equal(result, weft.evaluate(source, MATRIX, **METRICS))


def test_prepared_evaluations_take_them():
    prepared = weft.prepare(NUMBERS, **METRICS)
    for scores in (SCORES, -SCORES):
        assert_equal(prepared.evaluate(scores), weft.evaluate(scores, MATRIX, **METRICS))


def test_in_lists_the_numbers_are_ids_or_positions_in_items():
    ranked = np.argsort(-SCORES, axis=1)[:, :6]
    settings = {"metrics": ["nDCG", "Recall"], "top_k": 5}
    expected = weft.evaluate(weft.TopKItems(ranked), MATRIX, **settings)
    result = weft.evaluate(weft.TopKItems(ranked), NUMBERS, **settings)
    assert dict(zip(result, map(result.__getitem__, result))) == pytest.approx(
        {name: expected[name] for name in expected}
    )
    lists = {user: ranked[user].tolist() for user in range(USERS)}
    assert weft.evaluate(lists, NUMBERS, **settings)["nDCG@5"] == expected["nDCG@5"]
    named = {user: [f"i{item:02}" for item in items] for user, items in lists.items()}
    names = [f"i{item:02}" for item in range(ITEMS)]
    by_position = weft.evaluate(named, NUMBERS, items=names, **settings)
    assert by_position["nDCG@5"] == expected["nDCG@5"]
    with pytest.raises(InputError, match="item"):  # names against numbers
        weft.evaluate(named, NUMBERS, **settings)


def test_check_reads_them():
    lists = {user: np.argsort(-SCORES[user])[:6].tolist() for user in range(USERS)}
    rows = {row: [int(item)] if item >= 0 else [] for row, item in enumerate(NUMBERS)}
    found, expected = (weft.check(lists, truth, top_k=5).findings for truth in (NUMBERS, rows))
    assert [(one.kind, one.message) for one in found] == [
        (one.kind, one.message) for one in expected
    ]
    assert found


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        (np.where(NUMBERS == -1, -2, NUMBERS), r"item number -2 in row 3; .* -1 or -100 for none"),
        (np.where(NUMBERS == -1, ITEMS, NUMBERS), r"(?s)not columns of the scores.*0 to 11.*row"),
        (NUMBERS[:-1], "truth has 29 item numbers, but there are 30 users; give one"),
        (NUMBERS.astype(float), r"shape \[30\].*a vector \[users\] of integers"),
        (NUMBERS >= 0, r"shape \[30\]"),
        (np.array([2**64 - 1] * USERS, dtype=np.uint64), "item number 18446744073709551615"),
    ],
)
def test_mistakes_are_refused(truth, message):
    with pytest.raises(InputError, match=message):
        weft.evaluate(SCORES, truth, **METRICS)


def test_train_and_engines_refuse_them():
    with pytest.raises(InputError, match=r"Only the truth can be a vector \[users\] of integers"):
        weft.evaluate(SCORES, NUMBERS, train=NUMBERS, **METRICS)
    lists = pl.DataFrame({"user": [0, 1], "item": [1, 2], "score": [1.0, 2.0]})
    with pytest.raises(InputError, match="truth is an array of numbers; on the test"):
        evaluate_partitions(lists, NUMBERS, metrics="Recall@2")
