"""Comparisons against SciPy, and the traps of corrections."""

import math

import numpy as np
import polars as pl
import pytest
import torch
from scipy import stats

import weft
from weft.result import MetricValue, Result
from weft.significance.tests import adjust, paired_test, unpaired_test


def result(name, values, users=None, metric="MRR@5"):
    """A Result with these values per user."""
    values = np.asarray(values, dtype=float)
    users = list(range(len(values))) if users is None else users
    entry = MetricValue(metric.split("@")[0], int(metric.split("@")[1]), float(np.nanmean(values)), higher_is_better=True)
    return Result((entry,), name=name, per_user=pl.DataFrame({"user": users, metric: values}))


@pytest.fixture
def pair():
    generator = np.random.default_rng(0)
    first = generator.random(200)
    return first, np.clip(first + generator.normal(0.02, 0.1, 200), 0, 1)


def test_paired_t_and_wilcoxon_equal_scipy(pair):
    a, b = pair
    frame = weft.compare([result("a", a), result("b", b)], tests=["paired_t", "wilcoxon"], correction="none").to_frame()
    t, w = stats.ttest_rel(a, b), stats.wilcoxon(a - b)
    assert frame["statistic"].to_list() == pytest.approx([t.statistic, w.statistic], rel=1e-12)
    assert frame["p_value"].to_list() == pytest.approx([t.pvalue, w.pvalue], rel=1e-12)
    row = frame.row(0, named=True)
    difference = a - b
    assert row["difference"] == pytest.approx(difference.mean())
    assert row["ci_high"] == pytest.approx(difference.mean() + 1.959964 * difference.std(ddof=1) / math.sqrt(200))
    assert row["effect_size"] == pytest.approx(difference.mean() / difference.std(ddof=1))
    assert (row["mean_a"], row["mean_b"], row["users"], row["left_out"]) == (
        pytest.approx(a.mean()),
        pytest.approx(b.mean()),
        200,
        0,
    )


def test_kruskal_and_mann_whitney_equal_scipy_and_say_that_they_do_not_pair(pair):
    a, b = pair
    comparison = weft.compare([result("a", a), result("b", b)], tests=["kruskal", "mann_whitney"], correction="none")
    expected = stats.kruskal(a, b), stats.mannwhitneyu(a, b)
    assert [row["statistic"] for row in comparison.rows] == pytest.approx([test.statistic for test in expected], rel=1e-12)
    assert [row["p_value"] for row in comparison.rows] == pytest.approx([test.pvalue for test in expected], rel=1e-12)
    assert [row["test"] for row in comparison.rows] == ["kruskal", "mann_whitney"]
    (note,) = comparison.notes
    assert note.startswith("kruskal and mann_whitney take the users of two models for independent samples")
    assert weft.compare([result("a", a), result("b", b)]).notes == ()


@pytest.mark.parametrize("test", ["kruskal", "mann_whitney"])
def test_unpaired_tests_that_are_undefined(test):
    same, one = np.full(5, 0.5), np.array([0.5])
    for of_a, of_b in ((same, same), (one, one + 1), (one[:0], one[:0])):
        assert unpaired_test(test, of_a, of_b) == pytest.approx((math.nan, math.nan), nan_ok=True)
    assert unpaired_test(test, same, same + 1)[1] < 0.05


def test_users_are_paired_by_id_and_undefined_ones_left_out():
    a = result("a", [0.1, 0.2, 0.3, math.nan], users=["u", "v", "w", "x"])
    b = result("b", [0.9, 0.25, 0.2, 0.1, 0.5], users=["w", "v", "u", "x", "only b"])
    row = weft.compare([a, b]).to_frame().row(0, named=True)
    assert (row["users"], row["left_out"]) == (3, 2)
    assert row["difference"] == pytest.approx(((0.1 - 0.2) + (0.2 - 0.25) + (0.3 - 0.9)) / 3)


@pytest.mark.parametrize(
    ("correction", "p", "adjusted"),
    [
        ("holm", [0.03, 0.005, 0.04, 0.01], [0.06, 0.02, 0.06, 0.03]),
        ("bonferroni", [0.03, 0.005, 0.4, 0.01], [0.12, 0.02, 1.0, 0.04]),
        ("fdr", [0.01, 0.03, 0.035, 0.04], [0.04, 0.04, 0.04, 0.04]),
        ("none", [0.01, 0.03], [0.01, 0.03]),
        ("holm", [math.nan, 0.02, 0.03], [math.nan, 0.04, 0.04]),
        ("fdr", [math.nan, 0.02], [math.nan, 0.02]),
        ("holm", [math.nan], [math.nan]),
    ],
)
def test_corrections(correction, p, adjusted):
    assert adjust(np.array(p), correction) == pytest.approx(np.array(adjusted), nan_ok=True)


def test_holm_rejects_two_and_benjamini_hochberg_all_four():
    assert (adjust(np.array([0.005, 0.01, 0.03, 0.04]), "holm") < 0.05).sum() == 2
    assert (adjust(np.array([0.01, 0.03, 0.035, 0.04]), "fdr") < 0.05).sum() == 4


def test_identical_models_have_no_p_value_and_stay_out_of_the_family(pair):
    a, b = pair
    frame = weft.compare({"a": result("x", a), "same": result("x", a), "b": result("x", b)}, correction="bonferroni").to_frame()
    same = frame.filter(model_b="same").row(0, named=True)
    assert math.isnan(same["p_value"]) and math.isnan(same["p_adjusted"]) and same["significant"] is None
    other = frame.filter(model_b="b").row(0, named=True)
    assert other["p_adjusted"] == pytest.approx(2 * other["p_value"])


def test_the_same_difference_for_everyone():
    assert paired_test("paired_t", np.full(5, 0.5)) == (math.inf, 0.0)
    assert paired_test("paired_t", np.array([0.5])) == pytest.approx((math.nan, math.nan), nan_ok=True)


def test_family_is_per_test_over_pairs_and_metrics():
    torch.manual_seed(0)
    truth = (torch.rand(60, 30) < 0.2).float()
    results = [
        weft.evaluate(torch.rand(60, 30), truth, metrics=["nDCG", "Recall", "AUC"], top_k=[3, 5], per_user=True, name=name)
        for name in "abc"
    ]
    comparison = weft.compare(results, tests=["paired_t", "wilcoxon"], correction="bonferroni")
    frame = comparison.to_frame()
    assert len(frame) == 3 * 4 * 2
    expected = np.minimum(frame["p_value"].to_numpy() * 12, 1)
    assert frame["p_adjusted"].to_numpy() == pytest.approx(expected)
    assert any("AUC" in note for note in comparison.notes)
    only = weft.compare(results, metrics=["ndcg@5"], correction="bonferroni").to_frame()
    assert only["metric"].to_list() == ["nDCG"] * 3 and only["k"].to_list() == [5] * 3


def test_models_of_one_name_are_told_apart(pair):
    frame = weft.compare([result("m", pair[0]), result("m", pair[1])]).to_frame()
    assert frame.row(0, named=True)["model_b"] == "m (2)"


@pytest.mark.parametrize(
    ("results", "settings", "message"),
    [
        ([result("a", [1, 2])], {}, "at least two"),
        ([result("a", [1, 2]), Result((), name="b")], {}, "per_user=True"),
        ([result("a", [1, 2]), result("b", [1, 2], users=["0", "1"])], {}, "different users"),
        ([result("a", [1, 2]), result("b", [1, 2], users=[7, 8])], {}, "share no user"),
        ([result("a", [1, 2]), result("b", [1, 2], metric="MAP@5")], {}, "share no metric"),
        ([result("a", [1, 2]), result("b", [1, 2])], {"tests": ["t"]}, "paired_t"),
        ([result("a", [1, 2]), result("b", [1, 2])], {"alpha": 5}, "between 0 and 1"),
        ([result("a", [1, 2]), result("b", [1, 2])], {"metrics": ["MAP@5"]}, "cannot be compared"),
    ],
)
def test_errors(results, settings, message):
    with pytest.raises(weft.WeftError, match=message):
        weft.compare(results, **settings)
