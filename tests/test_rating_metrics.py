"""Ratings against scores: percentage errors, explained variance and correlations."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

import weft
from oracles_ratings import BY_USER, SCORED

RATINGS, SCORES = [3, 5, 4, 1, 2], [2.5, 4, 4.5, 2, 2]
POOLED = ["R2", "ExplainedVariance", "Pearson"]
NAMES = ["MAPE", "SMAPE", *POOLED, *BY_USER]
GENERATOR = np.random.default_rng(11)


def evaluate(scores, ratings, metrics=NAMES, **settings):
    """One user with these scores and ratings of items 0, 1, ..."""
    lists, truth = {"a": dict(enumerate(scores))}, {"a": dict(enumerate(ratings))}
    return weft.evaluate(lists, truth, metrics=metrics, **settings)


def test_example_of_the_definitions():
    # R2 and ExplainedVariance: scikit-learn and recommenders 1.2.1; the others by formula.
    result = evaluate(SCORES, RATINGS)
    expected = {
        "R2": 0.75,
        "ExplainedVariance": 0.75,
        "Pearson": 0.876460,
        "MAPE": 0.298333,
        "SMAPE": 0.237671,
        "Kendall": 0.737865,
        "Spearman": 0.872082,
        "NDPM": 0.15,
    }
    for name, value in expected.items():
        assert result[name] == pytest.approx(value, abs=5e-7), name
    # rexmex 0.1.3: the order w x y z against x w z y
    assert evaluate([4, 3, 2, 1], [3, 4, 1, 2], ["NDPM"])["NDPM"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("kind", ["few", "many", "far"])
def test_values_match_scipy_and_scikit_learn(kind):
    size = 300
    ratings = GENERATOR.integers(1, 6, size).astype(float)
    scores = ratings + GENERATOR.normal(0, 2, size)
    if kind == "few":
        scores = scores.round()
    if kind == "far":
        scores, ratings = scores + 2.0**30, ratings + 2.0**30
    result = evaluate(scores, ratings, [*NAMES, *(f"{name}(average=users)" for name in POOLED)])
    expected = {
        "Pearson": scipy.stats.pearsonr(scores - scores.min(), ratings - ratings.min()).statistic,
        "Spearman": scipy.stats.spearmanr(scores, ratings).statistic,
        "Kendall": scipy.stats.kendalltau(scores, ratings).statistic,
    }
    sklearn = pytest.importorskip("sklearn.metrics")
    expected["R2"] = sklearn.r2_score(ratings, scores)
    expected["ExplainedVariance"] = sklearn.explained_variance_score(ratings, scores)
    expected["MAPE"] = sklearn.mean_absolute_percentage_error(ratings, scores)
    for name, value in expected.items():
        assert result[name] == pytest.approx(value, rel=1e-9), name
    for name in POOLED:
        assert result[f"{name}(average=users)"] == pytest.approx(result[name], rel=1e-9), name


def test_pooled_values_far_from_zero_do_not_depend_on_batches():
    users, items = 40, 9
    ratings = 2.0**30 + GENERATOR.integers(1, 6, (users, items)) / 8
    scores = 2.0**30 + GENERATOR.normal(0, 1, (users, items))
    cells = [
        (float(score), float(rating), True)
        for score, rating in zip(scores.reshape(-1), ratings.reshape(-1))
    ]
    for batch_size in (1, 7, 40):
        result = weft.evaluate(
            torch.from_numpy(scores),
            torch.from_numpy(ratings),
            metrics=POOLED,
            batch_size=batch_size,
        )
        for name in POOLED:
            assert result[name] == pytest.approx(SCORED[name](cells), rel=1e-9), (name, batch_size)


@pytest.mark.parametrize("constant", [0.1, 1 / 3, 4.0, 1e8 + 0.1])
@pytest.mark.parametrize("average", ["cells", "users"])
def test_equal_ratings_or_scores_have_no_correlation(constant, average):
    metrics = [f"{name}(average={average})" for name in POOLED]
    varied, equal = [0.3, 0.1, 0.7, 0.2, 0.9, 0.4, 1.1], [constant] * 7
    for result in (evaluate(varied, equal, metrics), evaluate(equal, equal, metrics)):
        assert all(math.isnan(value.value) for value in result.entries)
    constant_scores = evaluate(equal, varied, metrics)
    assert math.isnan(constant_scores[metrics[2]])
    assert constant_scores[metrics[1]] == pytest.approx(0, abs=1e-9)


def test_ratings_of_zero_are_left_out_of_mape_and_counted():
    result = evaluate([3.0, 1.5, 2.0, 0.0], [4, 1, 0, 0], ["MAPE", "SMAPE"])
    assert result["MAPE"] == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert result["SMAPE"] == pytest.approx((1 / 3.5 + 0.5 / 1.25 + 2 + 0) / 4)
    assert result.counts["zero_ratings"] == 2
    assert math.isnan(evaluate([1.0], [0], ["MAPE"])["MAPE"])


def test_order_of_users_with_few_ratings():
    lists = {"a": {1: 1.0}, "b": {1: 1.0, 2: 1.0}, "c": {1: 2.0, 2: 1.0, 9: 5.0}, "d": {}}
    truth = {"a": {1: 5}, "b": {1: 5, 2: 3}, "c": {1: 2, 2: 1, 3: 9}, "d": {1: 1, 2: 2}}
    result = weft.evaluate(lists, truth, metrics=list(BY_USER))
    assert [result[name] for name in BY_USER] == [1, 1, 0.25]
    assert [result.entry(name).users for name in BY_USER] == [1, 1, 2]


@pytest.mark.parametrize("name", BY_USER)
def test_only_the_order_of_scores_matters(name):
    outcome = weft.testing.check_metric(name, order_only=True)
    assert outcome["ignores_shift_and_scale"] == "passed"


def test_lists_without_scores_are_refused():
    for name in NAMES:
        with pytest.raises(weft.errors.MissingInput, match=f"{name} needs scores"):
            weft.evaluate({"a": [1, 2]}, {"a": {1: 1, 2: 2}}, metrics=name)


def test_scores_too_large_to_square_are_an_error():
    for name in (*POOLED, *(f"{name}(average=users)" for name in POOLED)):
        with pytest.raises(weft.errors.InputError, match="too large"):
            evaluate([1e200, -1e200, 1.0], [1, 2, 3], [name])


def test_states_merge_and_resample():
    users, items = 30, 8
    scores = torch.from_numpy(GENERATOR.normal(3, 1, (users, items)))
    ratings = torch.from_numpy(GENERATOR.integers(1, 6, (users, items)))
    whole = weft.evaluate(scores, ratings, metrics=NAMES, bootstrap=40, seed=1)
    halves = [weft.Evaluator(metrics=NAMES) for _ in range(2)]
    for part, evaluator in enumerate(halves):
        evaluator.update(scores[part::2], ratings[part::2], torch.arange(part, users, 2))
    halves[0].merge(halves[1])
    for value in halves[0].compute().entries:
        assert value.value == pytest.approx(whole[value.name], rel=1e-12)
    for value in whole.entries:
        assert value.boot_low < value.value < value.boot_high, value.name
