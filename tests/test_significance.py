"""Comparisons against SciPy, statsmodels and brute force."""

import io
import itertools
import json
import math
import re

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

import weft
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result
from weft.report.terminal import comparison_tables, comparison_verdicts
from weft.statistics import pair_statistics, randomization
from weft.statistics.corrections import CORRECTIONS, FAMILIES, adjust, interval_alphas
from weft.statistics.effect_sizes import detectable_effects
from weft.statistics.letters import compact_letters
from weft.statistics.significance_tests import ALTERNATIVES, UNPAIRED, USER_TESTS

PAIRED = [test for test in USER_TESTS if test not in UNPAIRED]


def result(name, values, users=None, metric="MRR@5", **about):
    """A Result with these values per user."""
    values = np.asarray(values, dtype=float)
    users = list(range(len(values))) if users is None else users
    k = int(metric.split("@")[1]) if "@" in metric else None
    mean = float(np.nanmean(values)) if np.isfinite(values).any() else math.nan
    entry = MetricValue(metric.split("@")[0], k, mean, **({"higher_is_better": True} | about))
    return Result((entry,), name=name, per_user=pl.DataFrame({"user": users, metric: values}))


def joined(*results):
    """One Result with the metrics of several."""
    values = tuple(value for one in results for value in one.entries)
    table = pl.concat(
        [results[0].per_user, *(one.per_user.drop("user") for one in results[1:])], how="horizontal"
    )
    return Result(values, results[0].name, per_user=table)


def only_row(*values, **settings):
    comparison = weft.compare(
        [result(name, of_one) for name, of_one in zip("ab", values)], **settings
    )
    (row,) = comparison.rows
    return row


@pytest.fixture
def pair():
    generator = np.random.default_rng(0)
    first = generator.random(200)
    return first, np.clip(first + generator.normal(0.02, 0.1, 200), 0, 1)


# --------------------------------------------------------------------------------------------------

SHAPES = {
    "continuous": lambda generator, n: generator.random((2, n)),
    "ties": lambda generator, n: generator.integers(0, 5, (2, n)) / 4,
    "hits": lambda generator, n: (generator.random((2, n)) < [[0.4], [0.5]]).astype(float),
    "mostly equal": lambda generator, n: np.stack(
        [base := generator.random(n), np.where(generator.random(n) < 0.2, 0.5, base)]
    ),
    "negative": lambda generator, n: generator.normal(size=(2, n)) - [[1], [1.2]],
}


def unequal(shape, users):
    """Two models whose users do not all differ alike: there every test has something to say."""
    seeds = itertools.count(users)
    return next(
        (a, b)
        for a, b in (SHAPES[shape](np.random.default_rng(seed), users) for seed in seeds)
        if np.ptp(a - b) > 0
    )


def by_scipy(test, a, b, alternative):
    """Statistic and p-value."""
    if test == "paired_t":
        found = stats.ttest_rel(a, b, alternative=alternative)
    elif test == "wilcoxon":
        found = stats.wilcoxon(a - b, alternative=alternative)
    elif test == "sign":
        found = stats.binomtest(int((a > b).sum()), int((a != b).sum()), alternative=alternative)
    elif test == "mann_whitney":
        found = stats.mannwhitneyu(a, b, alternative=alternative)
    else:
        found = stats.kruskal(a, b)
    return float(found.statistic), float(found.pvalue)


@pytest.mark.parametrize("users", [3, 7, 9, 14, 30, 50, 51, 400, 3000])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("test", ["paired_t", "wilcoxon", "sign", "mann_whitney", "kruskal"])
def test_tests_match_scipy(test, shape, users):
    a, b = unequal(shape, users)
    with_holes = [
        [*one, *np.where(np.arange(4) % 2 == place, np.nan, 0.5)]
        for place, one in enumerate((a, b))
    ]
    for alternative in ALTERNATIVES if test != "kruskal" else ("two-sided",):
        row = only_row(*with_holes, tests=[test], correction="none", alternative=alternative)
        assert (row["statistic"], row["p_value"]) == pytest.approx(
            by_scipy(test, a, b, alternative), rel=1e-8, abs=1e-300
        )
        assert (row["users"], row["left_out"]) == (users, 4)


def test_small_p_values_keep_their_digits():
    a, b = np.random.default_rng(0).random((2, 700)) + np.array([[0.5], [0]])
    for test in ("paired_t", "wilcoxon", "sign", "mann_whitney"):
        row = only_row(a, b, tests=[test])
        assert 0 < row["p_value"] < 1e-50
        assert row["p_value"] == pytest.approx(by_scipy(test, a, b, "two-sided")[1], rel=1e-6)


@pytest.mark.parametrize("users", [10, 13])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_wilcoxon_with_ties_is_exact_for_few_users(users, alternative):
    """As SciPy does, which takes seconds for 13 users: ranks stay, signs change, users without a
    difference have none.
    """
    a, b = np.random.default_rng(users).integers(0, 5, (2, users)) / 4
    gaps = (a - b)[a != b]
    ranks = stats.rankdata(np.abs(gaps))
    sums = np.array(
        [
            sum(rank for rank, sign in zip(ranks, signs) if sign)
            for signs in itertools.product([0, 1], repeat=len(gaps))
        ]
    )
    observed = ranks[gaps > 0].sum()
    more, less = (sums >= observed).mean(), (sums <= observed).mean()
    expected = {"two-sided": min(1, 2 * min(more, less)), "greater": more, "less": less}[
        alternative
    ]
    assert only_row(a, b, tests="wilcoxon", alternative=alternative)["p_value"] == pytest.approx(
        expected
    )


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("users", [2, 5, 10, 13])
def test_exact_randomization_matches_scipy(users, shape, alternative):
    a, b = unequal(shape, users)
    expected = stats.permutation_test(
        (a - b,), np.mean, permutation_type="samples", n_resamples=10_000, alternative=alternative
    )
    row = only_row(a, b, tests="randomization", correction="none", alternative=alternative)
    assert (row["statistic"], row["p_value"]) == pytest.approx(
        (expected.statistic, expected.pvalue), rel=1e-9
    )


def test_randomization_skips_users_without_a_difference():
    """Of 40 users 5 differ: their 32 choices of signs are all there is to try."""
    a, b = np.zeros((2, 40))
    a[:5] = [0.1, 0.2, 0.3, 0.4, -0.05]
    assert only_row(a, b, tests="randomization", resamples=50)["p_value"] == 4 / 32
    assert only_row(a, b, tests="randomization", resamples=31)["p_value"] != 4 / 32  # drawn


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("models", [2, 5])
def test_sampled_randomization_approximates_the_exact_test(models, alternative):
    """16 users have 65,536 choices of signs; a draw of 20,000 is within five standard errors."""
    generator = np.random.default_rng(models)
    values = {
        f"m{number}": generator.integers(0, 11, 16) / 10 + number / 20 for number in range(models)
    }
    results = [result(name, of_one) for name, of_one in values.items()]
    settings = {"tests": "randomization", "correction": "none", "alternative": alternative}
    drawn = weft.compare(results, resamples=20_000, seed=3, **settings)
    exact = weft.compare(results, resamples=2**16, **settings)
    for one, other in zip(drawn.rows, exact.rows):
        p = other["p_value"]
        assert one["p_value"] == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / 20_000) + 1e-4)
        assert one["statistic"] == other["statistic"]
    assert drawn.rows == weft.compare(results, resamples=20_000, seed=3, **settings).rows
    assert drawn.rows != weft.compare(results, resamples=20_000, seed=4, **settings).rows


def test_randomization_does_not_depend_on_tiles(monkeypatch):
    generator = np.random.default_rng(0)
    made = [
        joined(*(result(name, generator.random(70), metric=f"M{at}@1") for at in range(4)))
        for name in "abcd"
    ]
    whole = weft.compare(made, tests="randomization", resamples=500)
    monkeypatch.setattr(randomization, "_BUFFERED_VALUES", 1)
    assert weft.compare(made, tests="randomization", resamples=500).rows == whole.rows
    holes = [
        replaced(one, "M1@1", 3, math.nan) if one.name == "b" else one for one in made
    ]  # pairs with users of their own
    found = weft.compare(holes, tests="randomization", resamples=500).to_frame().filter(metric="M0")
    assert found["p_value"].to_list() == whole.to_frame().filter(metric="M0")["p_value"].to_list()


def replaced(one, column, row, value):
    values = one.per_user[column].to_list()
    values[row] = value
    return Result(
        one.entries, one.name, per_user=one.per_user.with_columns(pl.Series(column, values))
    )


def test_p_values_are_uniform_under_the_null():
    """400 pairs of models that do not differ: the p-values of 40 users lie on the diagonal."""
    generator = np.random.default_rng(7)
    a, b = generator.normal(size=(2, 400, 40))
    made = [
        joined(*(result(name, values, metric=f"M{at}@1") for at, values in enumerate(of_one)))
        for name, of_one in (("a", a), ("b", b))
    ]
    frame = weft.compare(made, tests=PAIRED, resamples=1000, correction="none").to_frame()
    for test in ("paired_t", "randomization"):
        assert stats.kstest(frame.filter(test=test)["p_value"], "uniform").pvalue > 1e-3
    close = frame.filter(test="randomization")["p_value"] - frame.filter(test="paired_t")["p_value"]
    assert close.abs().max() < 0.08


# --------------------------------------------------------------------------------------------------


def test_intervals_and_effect_sizes_match_scipy(pair):
    a, b = pair
    row = only_row(a, b)
    gaps = a - b
    interval = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (row["mean_a"], row["mean_b"], row["difference"]) == pytest.approx(
        (a.mean(), b.mean(), gaps.mean())
    )
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(interval), rel=1e-9)
    assert row["effect_size"] == pytest.approx(gaps.mean() / gaps.std(ddof=1))
    assert (row["wins"], row["ties"], row["losses"]) == pytest.approx(
        ((gaps > 0).mean(), (gaps == 0).mean(), (gaps < 0).mean())
    )
    assert row["cliffs_delta"] == pytest.approx(np.sign(a[:, None] - b[None, :]).mean(), abs=1e-12)
    assert row["detectable"] == pytest.approx(
        detectable_effects(np.array([200.0]), 0.05)[0] * gaps.std(ddof=1)
    )
    assert (row["users"], row["left_out"], row["paired"]) == (200, 0, True)


@given(
    st.integers(2, 5).flatmap(
        lambda models: st.lists(
            st.lists(
                st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0, -3.0, 7.5]),
                min_size=models,
                max_size=models,
            ),
            min_size=1,
            max_size=9,
        )
    )
)
@settings(deadline=None)
def test_rank_statistics_match_brute_force(rows):
    values = np.array(rows).T
    above, tied = pair_statistics.rank_statistics(values)
    for a, b in itertools.permutations(range(len(values)), 2):
        signs = np.sign(values[a][:, None] - values[b][None, :])
        assert above[a, b] == ((signs + 1) / 2).sum()
        times = np.unique([values[a] + 0.0, values[b] + 0.0], return_counts=True)[1]
        assert tied[a, b] == (times**3 - times).sum()


@pytest.mark.parametrize("shape", SHAPES)
def test_rank_statistics_of_many_users(shape):
    """By searching instead of counting, on more distinct values than are counted at a time."""
    generator = np.random.default_rng(2)
    values = np.concatenate([SHAPES[shape](generator, 6000) for _ in range(2)])
    above, tied = pair_statistics.rank_statistics(values)
    for a, b in itertools.combinations(range(4), 2):
        ordered = np.sort(values[b])
        below, until = (np.searchsorted(ordered, values[a], side) for side in ("left", "right"))
        assert above[a, b] == (below + until).sum() / 2
        times = np.unique(values[[a, b]], return_counts=True)[1].astype(float)
        assert tied[a, b] == (times**3 - times).sum()


@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.2])
@pytest.mark.parametrize("users", [5, 10, 30, 99, 101, 1000])
def test_detectable_difference_matches_statsmodels(users, alpha):
    (found,) = detectable_effects(np.array([float(users)]), alpha)
    assert TTestPower().power(found, users, alpha, alternative="two-sided") == pytest.approx(
        0.8, abs=2e-5
    )


def test_detectable_difference_of_edge_cases():
    assert np.isnan(detectable_effects(np.array([0.0, 1.0]), 0.05)).all()
    assert detectable_effects(np.array([50.0, 5000.0]), 0.9) == pytest.approx([0, 0], abs=1e-12)
    users = np.array([2.0, 3, 5, 10, 50, 98, 99, 100, 101, 102, 103, 200])
    assert (
        np.diff(detectable_effects(users, 0.05)) < 0
    ).all()  # also where the approximation begins


def test_equal_difference_for_all_users():
    row = only_row(np.full(5, 0.7), np.full(5, 0.1))
    assert (row["statistic"], row["p_value"], row["significant"]) == (math.inf, 0.0, True)
    assert (row["ci_low"], row["ci_high"]) == (row["difference"], row["difference"]) == (0.6, 0.6)
    assert (
        math.isnan(row["effect_size"])
        and math.isnan(row["detectable"])
        and row["cliffs_delta"] == 1
    )


# --------------------------------------------------------------------------------------------------


def test_pairs_users_by_id_and_skips_undefined():
    a = result("a", [0.1, 0.2, 0.3, math.nan], users=["u", "v", "w", "x"])
    b = result("b", [0.9, 0.25, 0.2, 0.1, 0.5], users=["w", "v", "u", "x", "only b"])
    comparison = weft.compare([a, b])
    row = comparison.to_frame().row(0, named=True)
    assert (row["users"], row["left_out"]) == (3, 2)
    assert row["difference"] == pytest.approx(((0.1 - 0.2) + (0.2 - 0.25) + (0.3 - 0.9)) / 3)
    assert any("excluded: up to 2" in note for note in comparison.notes)


def test_compares_each_pair_over_its_common_users():
    generator = np.random.default_rng(0)
    values = generator.random((3, 30))
    ids = [list(range(30)), list(range(5, 35)), list(range(29, -1, -1))]
    values[2, :4] = math.nan
    made = [result(name, of_one, users=of_ids) for name, of_one, of_ids in zip("abc", values, ids)]
    for row in weft.compare(made, tests=USER_TESTS, correction="none").rows:
        one, other = ("abc".index(row[name]) for name in ("model_a", "model_b"))
        table = {user: (value, math.nan) for user, value in zip(ids[one], values[one])}
        for user, value in zip(ids[other], values[other]):
            table[user] = (table.get(user, (math.nan,))[0], value)
        x, y = np.array([both for both in table.values() if not any(map(math.isnan, both))]).T
        assert (row["users"], row["left_out"]) == (len(x), len(table) - len(x))
        assert (row["mean_a"], row["mean_b"]) == pytest.approx((x.mean(), y.mean()))
        assert row["cliffs_delta"] == pytest.approx(np.sign(x[:, None] - y[None, :]).mean())
        if row["test"] != "randomization":
            assert (row["statistic"], row["p_value"]) == pytest.approx(
                by_scipy(row["test"], x, y, "two-sided"), rel=1e-9
            )
    means = weft.compare(made).means["MRR@5"]
    assert means["a"] == pytest.approx(values[0][5:26].mean())


def test_matches_integer_ids_of_any_width(pair):
    a, b = pair
    for kind in (pl.Int32, pl.UInt64, pl.UInt8):
        other = result("b", b)
        other = Result(
            other.entries, "b", per_user=other.per_user.with_columns(pl.col("user").cast(kind))
        )
        assert (
            weft.compare([result("a", a), other]).rows
            == weft.compare([result("a", a), result("b", b)]).rows
        )


@given(st.integers(0, 10**6), st.sampled_from(ALTERNATIVES))
@settings(max_examples=25, deadline=None)
def test_swapping_models_and_shuffling_users(seed, alternative):
    generator = np.random.default_rng(seed)
    n = int(generator.choice([2, 6, 20, 70]))
    values = generator.integers(0, 6, (2, n)) / 5 if seed % 2 else generator.random((2, n))
    values[generator.random((2, n)) < 0.05] = math.nan
    opposite = {"two-sided": "two-sided", "greater": "less", "less": "greater"}[alternative]
    tests = [test for test in USER_TESTS if test != "kruskal" or alternative == "two-sided"]
    order = generator.permutation(n)
    a, b = (result(name, of_one) for name, of_one in zip("ab", values))
    shuffled = result("a", values[0][order], users=order.tolist())
    settings = {"tests": tests, "resamples": 300, "correction": "none"}
    plain, swapped, mixed = (
        weft.compare(models, alternative=one, **settings)
        for models, one in (([a, b], alternative), ([b, a], opposite), ([shuffled, b], alternative))
    )
    for one, other, third in zip(plain.rows, swapped.rows, mixed.rows):
        for name in one:
            if isinstance(one[name], float):
                assert third[name] == pytest.approx(one[name], nan_ok=True, rel=1e-9, abs=1e-12), (
                    name
                )
        assert other["p_value"] == pytest.approx(one["p_value"], nan_ok=True, rel=1e-9)
        for name in ("difference", "effect_size", "cliffs_delta"):
            assert other[name] == pytest.approx(-one[name], nan_ok=True, rel=1e-9, abs=1e-12)
        assert (
            other["wins"],
            other["losses"],
            other["ci_low"],
            other["detectable"],
        ) == pytest.approx(
            (one["losses"], one["wins"], -one["ci_high"], one["detectable"]),
            nan_ok=True,
            rel=1e-9,
            abs=1e-12,
        )


@pytest.mark.parametrize("test", USER_TESTS)
@pytest.mark.parametrize(
    "values",
    [
        ([0.5], [0.7]),
        ([math.nan, 0.5], [0.5, math.nan]),
        ([0.5] * 5, [0.5] * 5),
        ([math.nan] * 3, [0.1, 0.2, 0.3]),
    ],
    ids=["one user", "no common user", "one value", "undefined"],
)
def test_no_p_value_without_differences(test, values):
    comparison = weft.compare([result("a", values[0]), result("b", values[1])], tests=test)
    (row,) = comparison.rows
    assert (
        math.isnan(row["p_value"]) and math.isnan(row["p_adjusted"]) and row["significant"] is None
    )
    assert math.isnan(row["statistic"])
    assert any(
        "no p-value (and not counted by the correction)" in note and "a and b on MRR@5" in note
        for note in comparison.notes
    )
    for form in ("json", "csv", "markdown", "latex"):
        assert comparison.to_text(form) and comparison.to_text(form, pairs=True)


@pytest.mark.parametrize("test", PAIRED)
def test_paired_tests_of_identical_models_have_no_p_value(test, pair):
    assert math.isnan(only_row(pair[0], pair[0], tests=test)["p_value"])


def test_notes_unpaired_tests(pair):
    comparison = weft.compare(
        [result("a", pair[0]), result("b", pair[1])], tests=["kruskal", "sign", "mann_whitney"]
    )
    assert [row["paired"] for row in comparison.rows] == [False, True, False]
    (note,) = comparison.notes
    assert note.startswith(
        "kruskal and mann_whitney treat the users of two models as independent samples"
    )
    for text in (comparison.to_markdown(), comparison.to_markdown(pairs=True)):
        assert (
            "Kruskal-Wallis test†" in text
            and "Mann-Whitney U test†" in text
            and "sign test†" not in text
            and "† treats" in text
        )
    assert all(name in comparison.to_markdown(pairs=True) for name in ("kruskal†", "whitney†"))
    assert "kruskal\\textdagger{}" in comparison.to_latex(pairs=True)
    assert weft.compare([result("a", pair[0]), result("b", pair[1])]).notes == ()


# --------------------------------------------------------------------------------------------------

METHODS = {"bonferroni": "bonferroni", "holm": "holm", "fdr": "fdr_bh"}


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.05, 1.0, math.nan])),
        max_size=30,
    ),
    st.sampled_from(sorted(METHODS)),
)
@settings(max_examples=40, deadline=None)
def test_corrections_match_statsmodels(p_values, correction):
    p = np.array(p_values, dtype=float)
    adjusted = adjust(p, correction)
    defined = ~np.isnan(p)
    assert (np.isnan(adjusted) == ~defined).all() and (
        adjust(p, "none")[defined] == p[defined]
    ).all()
    if defined.any():
        reject, expected, *_ = multipletests(
            p[defined], alpha=0.0500001, method=METHODS[correction]
        )
        assert adjusted[defined] == pytest.approx(expected, rel=1e-12)
        assert ((adjusted[defined] <= 0.0500001) == reject).all()


def test_holm_and_benjamini_hochberg_on_worked_example():
    holm, fdr = (
        adjust(np.array([0.005, 0.01, 0.03, 0.04]), "holm"),
        adjust(np.array([0.01, 0.03, 0.035, 0.04]), "fdr"),
    )
    assert holm == pytest.approx([0.02, 0.03, 0.06, 0.06]) and (holm <= 0.05).tolist() == [
        True,
        True,
        False,
        False,
    ]
    assert fdr == pytest.approx([0.04] * 4) and (fdr <= 0.05).all()


def test_identical_models_are_not_in_the_family(pair):
    a, b = pair
    comparison = weft.compare(
        {"a": result("x", a), "same": result("x", a), "b": result("x", b)}, correction="bonferroni"
    )
    frame = comparison.to_frame()
    same = frame.filter(model_b="same").row(0, named=True)
    assert (
        math.isnan(same["p_value"])
        and math.isnan(same["p_adjusted"])
        and same["significant"] is None
    )
    other = frame.filter(model_b="b").row(0, named=True)
    assert other["p_adjusted"] == pytest.approx(2 * other["p_value"])
    assert any("a and same on MRR@5" in note for note in comparison.notes)


@pytest.fixture(scope="module")
def three():
    torch.manual_seed(0)
    truth = (torch.rand(60, 30) < 0.2).float()
    return [
        weft.evaluate(
            torch.rand(60, 30),
            truth,
            metrics=["nDCG", "Recall", "GAUC", "AUC"],
            top_k=[3, 5],
            per_user=True,
            name=name,
        )
        for name in "abc"
    ]


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_families(three, family, correction):
    comparison = weft.compare(
        three, tests=["paired_t", "wilcoxon"], correction=correction, family=family
    )
    rows = comparison.rows
    assert len(rows) == 2 * 3 * 5  # GAUC, which has no cut-off, is tested once
    for row in rows:
        alike = {
            "test": lambda other, row=row: other["test"] == row["test"],
            "metric": lambda other, row=row: all(
                other[name] == row[name] for name in ("test", "metric", "k")
            ),
            "pair": lambda other, row=row: all(
                other[name] == row[name] for name in ("test", "model_a", "model_b")
            ),
            "all": lambda other: True,
        }[family]
        members = [other for other in rows if alike(other)]
        assert len(members) == {"test": 15, "metric": 3, "pair": 5, "all": 30}[family]
        expected = adjust(np.array([other["p_value"] for other in members]), correction)[
            members.index(row)
        ]
        assert row["p_adjusted"] == pytest.approx(expected) and row["significant"] == (
            row["p_adjusted"] <= 0.05
        )
        assert row["family_size"] == len(members)
    assert (
        comparison.rows
        == weft.compare(three, tests=["paired_t", "wilcoxon"], family=family)
        .adjusted(correction)
        .rows
    )
    assert any("AUC" in note for note in comparison.notes)


def test_default_family_is_metric(three):
    comparison = weft.compare(three)
    assert comparison.family == "metric"
    assert comparison.rows == weft.compare(three, family="metric").rows
    assert {row["family_size"] for row in comparison.rows} == {3}


# --------------------------------------------------------------------------------------------------
# Intervals and decisions.


def scattered(seed, models, metrics, users):
    """Models whose differences are near the border of significance, some equal, some undefined."""
    generator = np.random.default_rng(seed)
    shifts = generator.normal(0, 3 / math.sqrt(users), (models, metrics))
    shifts[generator.random((models, metrics)) < 0.3] = 0
    values = generator.normal(size=(models, metrics, users)) + shifts[:, :, None]
    values[generator.random(values.shape) < 0.1] = math.nan
    values[-1, 0] = values[0, 0]  # a pair without a p-value
    return [
        joined(*(result(f"m{at}", of_one[place], metric=f"M{place}@1") for place in range(metrics)))
        for at, of_one in enumerate(values)
    ]


@given(
    st.integers(0, 10**6),
    st.sampled_from(CORRECTIONS),
    st.sampled_from(FAMILIES),
    st.sampled_from(ALTERNATIVES),
    st.sampled_from([0.01, 0.05, 0.2]),
)
@settings(max_examples=60, deadline=None)
def test_t_interval_excludes_zero_iff_significant(seed, correction, family, alternative, alpha):
    models = scattered(seed, 2 + seed % 4, 1 + seed % 3, 12)
    comparison = weft.compare(
        models, correction=correction, family=family, alternative=alternative, alpha=alpha
    )
    for row in comparison.rows:
        if row["significant"] is None:
            continue
        excludes = {
            "two-sided": row["ci_low"] > 0 or row["ci_high"] < 0,
            "greater": row["ci_low"] > 0,
            "less": row["ci_high"] < 0,
        }[alternative]
        assert excludes == row["significant"], row
    again = comparison.adjusted("none").adjusted(correction)
    assert repr(again.rows) == repr(comparison.rows)  # NaN is not equal to itself


@pytest.mark.parametrize("correction", ["none", "bonferroni"])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_intervals_match_scipy_at_their_level(correction, alternative):
    models = scattered(3, 4, 1, 40)
    rows = weft.compare(models, correction=correction, alternative=alternative, alpha=0.1).rows
    values = {one.name: one.per_user["M0@1"].to_numpy() for one in models}
    size = 5 if correction == "bonferroni" else 1  # six pairs, of which one has no p-value
    for row in rows:
        a, b = values[row["model_a"]], values[row["model_b"]]
        if row["significant"] is None:
            assert (row["ci_low"], row["ci_high"]) == (0, 0)
            continue
        test = stats.ttest_rel(a, b, nan_policy="omit", alternative=alternative)
        interval = test.confidence_interval(1 - 0.1 / size)  # one end is infinite if one-sided
        level = 1 - 0.1 / size * (1 if alternative == "two-sided" else 2)
        assert row["ci_level"] == pytest.approx(level) and row["family_size"] == 5
        for name, end in zip(("ci_low", "ci_high"), interval):
            assert math.isinf(end) or row[name] == pytest.approx(end, rel=1e-9)
        gaps = (a - b)[~np.isnan(a - b)]
        assert row["std_error"] == pytest.approx(stats.sem(gaps), rel=1e-9)


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.0125, 0.05, 1.0, math.nan])),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(CORRECTIONS),
)
@settings(max_examples=100, deadline=None)
def test_levels_of_intervals_match_statsmodels(p_values, correction):
    """A test is significant by its adjusted p-value if and only if p is at most its own level."""
    alpha = 0.0500001  # no p-value lies on a border
    p = np.array(p_values)
    defined = ~np.isnan(p)
    levels = interval_alphas(p, correction, alpha)
    method = {"none": None, **METHODS}[correction]
    if method is None or not defined.any():
        assert (levels[defined] == alpha).all()
        return
    reject = multipletests(p[defined], alpha=alpha, method=method)[0]
    assert ((p[defined] <= levels[defined]) == reject).all()
    assert (levels >= alpha / defined.sum()).all() and (levels <= alpha * (1 + 1e-12)).all()


@pytest.mark.slow
def test_intervals_of_a_family_are_simultaneous():
    """Four models, 10,000 families: under Bonferroni all six intervals are right in 95%; under
    Holm the chance that one wrongly excludes 0 is at most 5%, and all are right in 90%.
    """
    generator = np.random.default_rng(0)
    users, alpha, families = 30, 0.05, 2000
    pairs = np.array(list(itertools.combinations(range(4), 2)))
    for shifts in ([0, 0, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 0, 1], [0, 0.4, 0.8, 1.2], [0, 0, 2, 2]):
        truth = np.array(shifts)[pairs] @ [1, -1]
        wrong = dict.fromkeys(("bonferroni", "holm", "holm on 0"), 0)
        for _ in range(families):
            values = generator.normal(size=(4, users)) + np.array(shifts)[:, None]
            gaps = values[pairs[:, 0]] - values[pairs[:, 1]]
            mean, error = gaps.mean(axis=1), stats.sem(gaps, axis=1)
            p = 2 * stats.t.sf(np.abs(mean / error), users - 1)
            for correction in ("bonferroni", "holm"):
                limit = stats.t.isf(interval_alphas(p, correction, alpha) / 2, users - 1)
                misses = np.abs(mean - truth) > limit * error
                wrong[correction] += misses.any()
                if correction == "holm":
                    wrong["holm on 0"] += misses[truth == 0].any()
        slack = 4 * math.sqrt(alpha * (1 - alpha) / families)
        assert wrong["bonferroni"] / families < alpha + slack
        assert wrong["holm on 0"] / families < alpha + slack
        assert wrong["holm"] / families < 2 * alpha + slack


def test_rank_tests_can_contradict_the_interval():
    """The interval is of the mean: a few users decide it, but not a test of signs or ranks."""
    base = np.linspace(0, 1, 60)
    other = base + np.where(np.arange(60) < 4, -5.0, 0.1 + base / 50)
    for test in ("wilcoxon", "sign"):
        row = only_row(base, other, tests=test)
        assert row["significant"] and row["ci_low"] < 0 < row["ci_high"]
    assert not only_row(base, other)["significant"]


def test_selects_metrics_by_any_spelling(three):
    only = weft.compare(three, metrics=["ndcg@5", "nDCG@5"], correction="bonferroni").to_frame()
    assert only["metric"].to_list() == ["nDCG"] * 3 and only["k"].to_list() == [5] * 3
    assert weft.compare(three, metrics="GAUC", tests="sign").to_frame()["k"].to_list() == [None] * 3


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("models", "differ", "letters"),
    [
        ("ABC", [], "a a a"),
        ("ABC", ["AC"], "a ab b"),  # a chain
        ("ABC", ["AB", "AC", "BC"], "a b c"),
        ("ABCD", ["AD"], "a ab ab b"),
        ("ABCD", ["AC", "AD", "BD"], "a ab bc c"),
        ("ABCD", ["AB"], "a b ab ab"),
        ("ABCDE", ["AB", "CD"], "ab cd ac bd abcd"),
        ("A", [], "a"),
    ],
)
def test_letters_of_known_cases(models, differ, letters):
    assert " ".join(compact_letters(models, [tuple(pair) for pair in differ]).values()) == letters


@given(
    st.integers(2, 8).flatmap(
        lambda n: st.tuples(
            st.just(n), st.sets(st.sampled_from(list(itertools.combinations(range(n), 2))))
        )
    )
)
@settings(deadline=None)
def test_models_share_a_letter_iff_they_do_not_differ(case):
    n, differ = case
    letters = compact_letters(
        [str(model) for model in range(n)], [(str(a), str(b)) for a, b in differ]
    )
    for a, b in itertools.combinations(range(n), 2):
        assert bool(set(letters[str(a)]) & set(letters[str(b)])) == ((a, b) not in differ)
    assert letters["0"].startswith("a")


def test_many_groups_have_distinct_letters():
    """12 disjoint pairs of models that differ allow 2^12 groups; 7 pairs 128, more than there are
    letters.
    """
    models = [f"{side}{pair}" for pair in range(7) for side in "xy"]
    letters = compact_letters(models, [(f"x{pair}", f"y{pair}") for pair in range(7)])
    groups = {model: set(re.findall(r"[a-zA-Z]\d*", text)) for model, text in letters.items()}
    assert (
        len(set.union(*groups.values())) == 128
        and not groups["x3"] & groups["y3"]
        and groups["x3"] & groups["x4"]
    )


def test_letters_and_best_follow_the_direction():
    generator = np.random.default_rng(0)
    base = generator.random(300)
    shifted = {
        "low": base,
        "middle": base + 0.2 + generator.normal(0, 0.05, 300),
        "high": base + 0.21 + 2 * np.where(np.arange(300) % 2, 1, -1),
    }
    for about, best, letters in (
        ({"higher_is_better": True}, "high", None),
        ({"higher_is_better": False}, "low", {"low": "a"}),
        ({"higher_is_better": None, "target": 0.7}, "middle", None),
        ({"higher_is_better": None}, None, None),
    ):
        made = [result(name, values, **about) for name, values in shifted.items()]
        comparison = weft.compare(made)
        (line,) = comparison.grid("paired_t").values()
        assert [name for name, cell in line.items() if cell.best] == ([best] if best else [])
        differ = {(row["model_a"], row["model_b"]) for row in comparison.rows if row["significant"]}
        assert differ  # low and middle do
        for a, b in itertools.combinations(shifted, 2):
            assert bool(set(line[a].mark) & set(line[b].mark)) == ((a, b) not in differ)
        if letters:
            assert line["low"].mark.startswith("a")
    one_sided = weft.compare(made, alternative="greater")
    assert (
        all(not cell.mark for cell in one_sided.grid("paired_t")["MRR@5"].values())
        and one_sided.letters("paired_t") == {}
    )
    with pytest.raises(weft.WeftError, match="test='wilcoxon' is not known"):
        comparison.letters("wilcoxon")


# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def comparison():
    truth = {user: ["a", "b"] for user in range(6)}
    lists = {user: ["a", "b" if user % 2 else "x"] for user in range(6)}
    worse = {user: ["x", "a" if user % 2 else "y"] for user in range(6)}
    volume = "Hypervolume(metric_names=[nDCG, Gini], nadir_points=[0, 1])"
    found = {
        name: weft.evaluate(one, truth, metrics=["nDCG", "Gini", volume], top_k=2, per_user=True)
        for name, one in {"good_1": lists, "bad|1": worse}.items()
    }
    return weft.compare(found)


def test_columns_of_the_frame(comparison):
    assert comparison.to_frame().columns == [
        *(
            "model_a",
            "model_b",
            "metric",
            "k",
            "test",
            "statistic",
            "p_value",
            "p_adjusted",
            "significant",
            "family_size",
        ),
        *(
            "mean_a",
            "mean_b",
            "difference",
            "std_error",
            "ci_low",
            "ci_high",
            "ci_level",
            "effect_size",
            "cliffs_delta",
            "wins",
            "ties",
            "losses",
        ),
        *("detectable", "users", "left_out", "paired", "form", "boot_low", "boot_high"),
    ]


def test_text_formats_of_a_comparison(comparison):
    frame = comparison.to_frame()
    assert pl.read_csv(comparison.to_csv().encode()).columns == frame.columns
    document = json.loads(comparison.to_json())
    (row,) = document["rows"]
    assert row["difference"] == frame["difference"][0] and list(row) == frame.columns
    assert (document["models"], document["tests"], document["correction"]) == (
        ["good_1", "bad|1"],
        ["paired_t"],
        "holm",
    )
    assert document["means"]["nDCG@2"]["good_1"] == pytest.approx(frame["mean_a"][0])
    assert document["letters"] == {"paired_t": {"nDCG@2": {"good_1": "a", "bad|1": "b"}}}
    markdown = comparison.to_markdown()
    assert (
        f"**{frame['mean_a'][0]:.4f}** \\*" in markdown
        and "bad\\|1" in markdown
        and repr(comparison).splitlines()[0].startswith("nDCG@2: good_1 leads")
    )
    latex = comparison.to_latex()
    assert rf"good\_1 & \textbf{{{frame['mean_a'][0]:.4f}}}\textsuperscript{{{{*}}}} \\" in latex
    assert r"\toprule" in latex and r"bad\textbar{}1 & " in latex
    pairs = comparison.to_markdown(pairs=True)
    assert "good\\_1" in pairs and " yes " in pairs and f"{frame['difference'][0]:.4f}" in pairs
    assert "good\\_1 & bad\\textbar{}1 & nDCG@2 & paired\\_t" in comparison.to_latex(pairs=True)


def test_front_is_in_every_output(comparison):
    ((name, front),) = comparison.fronts.items()
    assert front.models == ("good_1",) or set(front.models) == {"good_1", "bad|1"}
    said = f"hypervolume {front.hypervolume:.4f}"
    for pairs in (False, True):
        assert said in comparison.to_markdown(pairs=pairs) and said in comparison.to_latex(
            pairs=pairs
        )
    assert json.loads(comparison.to_json())["fronts"][name]["hypervolume"] == pytest.approx(
        front.hypervolume
    )
    frame = comparison.front_frame()
    assert frame.columns == ["front", "model", "on_front", "hypervolume"] and len(frame) == 2
    assert frame.filter("on_front")["model"].to_list() == list(front.models)


def test_three_models_get_letters_in_every_output(three):
    generator = np.random.default_rng(0)
    base = generator.random(100)
    made = [
        result(name, base + at / 10 + generator.normal(0, 0.1, 100))
        for at, name in enumerate(["x", "y", "z_1"])
    ]
    comparison = weft.compare(made)
    assert comparison.letters("paired_t") == {"MRR@5": {"x": "c", "y": "b", "z_1": "a"}}
    assert (
        r"\textsuperscript{c}" in comparison.to_latex()
        and r"z\_1 & \textbf{" in comparison.to_latex()
    )
    assert "** a |" in comparison.to_markdown() and "share a letter" in comparison.to_markdown()
    assert (
        weft.compare(three).to_markdown().startswith("| metric")
    )  # more metrics than models run down


# --------------------------------------------------------------------------------------------------

LONG = "F1(metric_name_1=nDCG, metric_name_2=MAP, beta=0.5)@10"


def printed(comparison, width, **settings):
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    for said, tables in comparison_tables(comparison, width, **settings).blocks:
        console.print(said, markup=False)
        for table in tables:
            console.print(table)
    return console.file.getvalue()


@pytest.mark.parametrize("models", [2, 3, 10])
@pytest.mark.parametrize("width", [80, 200])
def test_tables_fit_the_terminal(models, width):
    """Every number whole, in a line that is not wider than the terminal."""
    generator = np.random.default_rng(0)
    base = generator.random(80)
    names = [
        "a_model_with_a_name_that_is_long_indeed",
        *(f"model_{place}" for place in range(1, models)),
    ]
    made = [
        joined(
            result(name, base + at / 40 + generator.normal(0, 0.2, 80), metric="nDCG@10"),
            result(
                name,
                4000 * base + 200 * at + generator.normal(0, 900, 80),
                metric="ARP@10",
                higher_is_better=False,
            ),
            result(name, base, metric=LONG),
        )
        for at, name in enumerate(names)
    ]
    comparison = weft.compare(made, tests=["paired_t", "kruskal"])
    text = printed(comparison, width, pairs=True)
    assert all(len(line) <= width for line in text.splitlines())
    if models > 2:
        for metric, line in comparison.grid("paired_t").items():
            for cell in line.values():
                number = (
                    f"{cell.mean:,.0f}" if metric == "ARP@10" else f"{cell.mean:.4f}"
                )  # as many digits as say something
                assert f"{number}{'*' if cell.best else ' '}" in text
    for row in comparison.rows:
        if row["metric"] == "nDCG":
            difference, half = f"{row['difference']:+.4f}", row["ci_high"] - row["difference"]
            ends = f"[{row['ci_low']:.4f}, {row['ci_high']:.4f}]"
            column = rf"{re.escape(difference)} *│ +{re.escape(ends)}"
            assert f"{difference} ± {half:.4f}" in text or re.search(column, text)
            p = "<0.001" if row["p_adjusted"] < 0.001 else f"{row['p_adjusted']:.2g}"
            assert f"{p}{'*' if row['significant'] else ' '}" in text
    assert "Kruskal-Wallis test†" in text
    titles = [f"{a} - {b}" for a, b in itertools.combinations(names, 2)]
    shown = printed(comparison, width).splitlines()
    for title in titles:
        assert shown.count(title) == (0 if models > 3 else 2)  # under each test


def test_marks_the_winner_by_direction():
    generator = np.random.default_rng(0)
    base = generator.random(90)
    made = [
        joined(
            *(
                result(name, base + up + generator.normal(0, 0.1, 90), metric=metric, **about)
                for metric, about in METRICS.items()
            )
        )
        for name, up in (("low", 0), ("high", 0.3))
    ]
    table = [
        line.split("│") for line in printed(weft.compare(made), 80).splitlines() if "│" in line
    ]
    (head,) = (line for line in table if line[0].strip() == "metric")
    lines = [line for line in table if "@" in line[0]]
    assert {line[0].strip(): tuple("*" in cell for cell in line[1:3]) for line in lines} == {
        "Up@1": (False, True),
        "Down@1": (True, False),
        "Odd@1": (False, False),
    }
    p = [word.strip() for word in head].index("p-value")
    assert all("*" in line[p] for line in lines)


def test_verdicts_are_about_compared_metrics(pair):
    """Of several cut-offs the usual one is told, unless only others were compared."""
    made = [
        joined(*(result(name, values, metric=f"MRR@{k}") for k in (5, 10)))
        for name, values in zip("ab", pair)
    ]
    assert [verdict.metric for verdict in comparison_verdicts(weft.compare(made))] == ["MRR@10"]
    (verdict,) = comparison_verdicts(weft.compare(made, metrics="MRR@5"))
    assert (verdict.metric, verdict.leader, verdict.significant) == ("MRR@5", "b", False)


METRICS = {"Up@1": {}, "Down@1": {"higher_is_better": False}, "Odd@1": {"higher_is_better": None}}


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["c.json", "c.csv", "c.md", "c.tex", "c.PARQUET"])
def test_saves_by_file_suffix(comparison, tmp_path, name):
    path = comparison.save(tmp_path / "new" / name)
    assert path.exists() and [file.name for file in path.parent.iterdir()] == [name]
    if name == "c.PARQUET":
        assert pl.read_parquet(path).equals(comparison.to_frame())
    else:
        form = {"md": "markdown", "tex": "latex"}.get(name[2:], name[2:])
        assert path.read_text() == comparison.to_text(form)


def test_rejects_unknown_suffixes(comparison, tmp_path):
    with pytest.raises(weft.WeftError, match="ends in one of"):
        comparison.save(tmp_path / "c.html")
    assert list(tmp_path.iterdir()) == []


def test_front_of_any_metrics(three):
    values = {"a": (0.5, 0.9), "b": (0.4, 0.2), "c": (0.3, 0.3)}
    made = {
        name: Result(
            (
                MetricValue("nDCG", 10, ndcg, higher_is_better=True),
                MetricValue("Gini", 10, gini, higher_is_better=False),
                MetricValue("Odd", 10, 1.0),
            ),
            per_user=pl.DataFrame({"user": [1, 2], "nDCG@10": [ndcg, ndcg + 0.1]}),
        )
        for name, (ndcg, gini) in values.items()
    }
    comparison = weft.compare(made)
    assert comparison.pareto(["nDCG@10", "Gini@10"]) == (
        "a",
        "b",
    )  # c has less nDCG and more Gini than b
    assert comparison.pareto("gini@10") == ("b",)
    with pytest.raises(weft.WeftError, match="has no direction"):
        comparison.pareto(["nDCG@10", "Odd@10"])
    with pytest.raises(weft.WeftError, match="was not evaluated for 'a'"):
        comparison.pareto(["Recall@10"])


def test_numbers_models_with_the_same_name(pair):
    frame = weft.compare([result("m", pair[0]), result("m", pair[1])]).to_frame()
    assert frame.row(0, named=True)["model_b"] == "m (2)"


TWO = [result("a", [1, 2]), result("b", [1, 2])]


@pytest.mark.parametrize(
    ("results", "settings", "message"),
    [
        ([result("a", [1, 2])], {}, "at least two"),
        ([result("a", [1, 2]), Result((), name="b")], {}, "per_user=True"),
        ([result("a", [1, 2]), result("b", [1, 2], users=["0", "1"])], {}, "different users"),
        ([result("a", [1, 2]), result("b", [1, 2], users=[7, 8])], {}, "share no user"),
        (
            [*TWO, result("c", [1, 2], users=[1, 7]), result("d", [1, 2], users=[7, 8])],
            {},
            "'a' and 'd' share no user",
        ),
        ([result("a", [1, 2]), result("b", [1, 2], users=[1, 1])], {}, "'b' has the user 1 more "
                                                                       "than once"),
        ([result("a", []), result("b", [])], {}, "no user"),
        ([result("a", [1, 2]), result("b", [1, 2], metric="MAP@5")], {}, "share no metric"),
        (TWO, {"tests": ["t"]}, "paired_t"),
        (TWO, {"tests": []}, "tests is empty"),
        (TWO, {"alpha": 5}, "between 0 and 1"),
        (TWO, {"alpha": "0.05"}, "between 0 and 1"),
        (TWO, {"family": "tests"}, "Did you mean 'test'"),
        (TWO, {"alternative": "bigger"}, "'greater'"),
        (
            TWO,
            {"alternative": "less", "tests": ["sign", "kruskal"]},
            "tests='kruskal' is always two-sided, but the setting is alternative='less'",
        ),
        (TWO, {"resamples": 0}, "integer of at least 1"),
        (TWO, {"seed": -1}, "integer of at least 0"),
        (TWO, {"metrics": ["MAP@5"]}, "'MAP@5' was not evaluated for"),
    ],
)  # fmt: skip
def test_rejects_wrong_comparisons(results, settings, message):
    with pytest.raises(weft.WeftError, match=message):
        weft.compare(results, **settings)
