"""Experiments: runs over seeds, folds and data sets, their variation and comparisons."""

import itertools
import math
import re
import statistics
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import weft
from weft.errors import InputError, SettingError
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result
from weft.statistics.experiment import Experiment
from weft.statistics.experiment.dataset_ranking import rank_models
from weft.statistics.experiment.run_tests import FoldValues, corrected_t, hierarchical, seeds_t

NDCG = MetricValue("nDCG", 10, 0.5, 0.01, 5, higher_is_better=True)


def run(value, *, per_user=None, metric="nDCG", error=0.01):
    """A result with one metric at 10, and its values per user if they are given."""
    table = None
    if per_user is not None:
        users = pl.Series("user", range(len(per_user)))
        table = pl.DataFrame([users, pl.Series(f"{metric}@10", np.asarray(per_user, float))])
        value = float(np.nanmean(per_user))
    entry = replace(NDCG, metric=metric, value=value, std_error=error)
    return Result((entry,), "model", per_user=table)


def fill(values):
    """An experiment from {(dataset, model, fold, seed): value}."""
    experiment = Experiment()
    for (dataset, model, fold, seed), value in values.items():
        experiment.add(run(value), model=model, dataset=dataset, fold=fold, seed=seed)
    return experiment


# --------------------------------------------------------------------------------------------------


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 2), st.integers(0, 3)), st.floats(0, 1, width=32), min_size=1
    )
)
def test_variation_is_that_of_plain_python(values):
    experiment = fill({("d", "als", *key): value for key, value in values.items()})
    (row,) = experiment.summary().iter_rows(named=True)
    folds = {}
    for (fold, _), value in values.items():
        folds.setdefault(fold, []).append(value)
    means = [statistics.fmean(fold) for fold in folds.values()]
    squares = [(v - statistics.fmean(fold)) ** 2 for fold in folds.values() for v in fold]
    freedom = len(values) - len(folds)

    def deviation(numbers):
        return statistics.stdev(numbers) if len(numbers) > 1 else math.nan

    assert (row["runs"], row["folds"]) == (len(values), len(folds))
    assert row["seeds"] == max(map(len, folds.values()))
    expected = {
        "mean": statistics.fmean(means),
        "std": deviation(list(values.values())),
        "fold_std": deviation(means),
        "seed_std": math.sqrt(sum(squares) / freedom) if freedom else math.nan,
    }
    for name, number in expected.items():
        assert row[name] == pytest.approx(number, abs=1e-9, nan_ok=True), name


def test_errors_over_users_are_reported_apart():
    experiment = Experiment()
    for seed, error in enumerate((0.03, 0.04)):
        experiment.add(run(0.5, error=error), seed=seed)
    (row,) = experiment.summary("ndcg@10").iter_rows(named=True)
    assert row["user_std_error"] == pytest.approx(math.sqrt((0.03**2 + 0.04**2) / 2))
    assert row["seed_std"] == 0 and math.isnan(row["fold_std"])


def test_frames_have_a_row_per_run():
    experiment = fill({("d", "als", None, 1): 0.1, ("d", "pop", 2, None): 0.2})
    frame = experiment.to_frame()
    assert frame.columns[:6] == ["dataset", "model", "fold", "seed", "metric", "k"]
    assert frame.select("model", "fold", "seed", "value").rows() == [
        ("als", None, "1", 0.1),
        ("pop", "2", None, 0.2),
    ]
    assert experiment.to_pandas()["value"].tolist() == [0.1, 0.2]
    assert experiment.models == ["als", "pop"] and experiment.metrics == ["nDCG@10"]


def test_warns_of_single_seeds_and_gaps():
    experiment = fill({("a", "als", 0, 0): 0.1, ("a", "als", 0, 1): 0.1, ("b", "pop", 1, 0): 0.2})
    first, second = experiment.notes
    assert first.startswith("there is only one seed of pop on b")
    assert "als on b, pop on a" in second or "pop on a, als on b" in second
    assert not fill({("a", m, 0, s): 0.1 for m in "xy" for s in (0, 1)}).notes
    folds = fill({("a", "x", f, s): 0.1 for f in (0, 1) for s in (0, 1)})
    folds.add(run(0.1), model="y", dataset="a", fold=0, seed=0)
    folds.add(run(0.1), model="y", dataset="a", fold=0, seed=1)
    assert folds.notes == [
        "the models do not have the same folds of a; comparisons use shared folds only"
    ]
    assert "- the models do not" in repr(folds)


def test_rejects_repeated_and_unknown_runs():
    experiment = fill({("d", "als", 0, 0): 0.1})
    with pytest.raises(
        SettingError, match=r"has a run of dataset 'd', model 'als', fold 0, seed 0"
    ):
        experiment.add(run(0.2), model="als", dataset="d", fold=0, seed=0)
    with pytest.raises(SettingError, match=r"'Recall@10' is not in every run\. All runs"):
        experiment.summary("Recall@10")
    with pytest.raises(SettingError, match="baseline='knn' is not a model of the experiment"):
        experiment.compare(baseline="knn")
    with pytest.raises(InputError, match="the experiment has no runs"):
        Experiment().summary()
    with pytest.raises(weft.errors.WeftError, match="result"):
        experiment.add("als.json")


def test_reads_results_by_a_pattern(tmp_path, monkeypatch):
    for dataset, fold, seed in itertools.product(("ml", "fm"), (0, 1), (7, 8)):
        path = tmp_path / dataset / f"als-f{fold}-s{seed}-old.json"
        path.parent.mkdir(exist_ok=True)
        run(fold + seed / 10).save(path)
    monkeypatch.chdir(tmp_path)
    for start in ("", f"{tmp_path}/"):
        read = Experiment.read(start + "{dataset}/{model}-f{fold}-s{seed}-{}.json")
        assert {one.labels for one in read.runs} == {
            (dataset, "als", fold, seed)
            for dataset in ("ml", "fm")
            for fold in (0, 1)
            for seed in (7, 8)
        }
    named = Experiment.read("ml/als-f0-s{seed}-old.json", dataset="MovieLens")
    assert [one.labels for one in named.runs] == [
        ("MovieLens", "model", None, 7),
        ("MovieLens", "model", None, 8),
    ]
    with pytest.raises(InputError, match="no result file matches"):
        Experiment.read("{model}.yaml")
    with pytest.raises(SettingError, match=r"placeholder \{user\}"):
        Experiment.read("{user}.json")


# --------------------------------------------------------------------------------------------------


def test_corrected_t_follows_its_formula():
    """Five folds, of which each trains on four parts: the ratio is 1 / 4."""
    differences = [0.02, 0.03, 0.01, 0.05, 0.04]
    variance = statistics.variance(differences)
    error = math.sqrt((1 / 5 + 1 / 4) * variance)
    outcome = corrected_t(differences, test_ratio=1 / 4)
    assert outcome.difference == pytest.approx(0.03) and outcome.std_error == pytest.approx(error)
    assert outcome.p_value == pytest.approx(2 * stats.t.sf(0.03 / error, 4))
    plain = corrected_t(differences, test_ratio=0)
    assert plain.p_value == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    assert math.isnan(corrected_t([0.1], test_ratio=0.5).p_value)


def test_folds_are_paired_by_seed_or_by_their_means():
    values = {("d", "x", f, s): 0.5 + 0.1 * f + 0.01 * s for f in (0, 1, 2) for s in (0, 1)}
    same = {("d", "y", f, s): 0.4 + 0.1 * f + 0.03 * s * f for f in (0, 1, 2) for s in (0, 1)}
    other = {("d", "y", f, s + 7): value for (_, _, f, s), value in same.items()}
    (row,) = fill(values | same).compare(tests="corrected_t").rows
    expected = corrected_t(
        [values["d", "x", f, s] - same["d", "y", f, s] for f in (0, 1, 2) for s in (0, 1)],
        test_ratio=1 / 2,
    )
    assert row["p_value"] == pytest.approx(expected.p_value) and row["runs"] == 12
    (row,) = fill(values | other).compare(tests="corrected_t", test_ratio=0.25).rows
    expected = corrected_t(
        [sum(values["d", "x", f, s] - same["d", "y", f, s] for s in (0, 1)) / 2 for f in (0, 1, 2)],
        test_ratio=0.25,
    )
    assert row["p_value"] == pytest.approx(expected.p_value) and row["df"] == 2


def test_seeds_are_tested_as_welch_does():
    first, second = [0.50, 0.52, 0.47], [0.40, 0.45, 0.41, 0.39]
    outcome, expected = seeds_t([first], [second]), stats.ttest_ind(first, second, equal_var=False)
    assert outcome.p_value == pytest.approx(expected.pvalue)
    assert outcome.statistic == pytest.approx(expected.statistic) and outcome.runs == 7
    assert outcome.freedom == pytest.approx(expected.df)
    twice = seeds_t([first, first], [second, second])
    assert twice.difference == pytest.approx(outcome.difference)
    assert twice.std_error == pytest.approx(outcome.std_error / math.sqrt(2))
    assert math.isnan(seeds_t([[0.1]], [second]).p_value)
    values = {("d", "x", None, seed): value for seed, value in enumerate(first)}
    values |= {("d", "y", None, seed): value for seed, value in enumerate(second)}
    (row,) = fill(values).compare().rows  # neither values per user nor folds
    assert row["test"] == "seeds_t" and row["p_value"] == pytest.approx(expected.pvalue)
    single = fill({("d", "x", None, 0): 0.1, ("d", "y", None, 0): 0.2}).compare()
    assert single.rows == () and len(single.notes) == 4


def test_the_hierarchical_error_has_users_and_seeds():
    """For one fold it is near the closed form: variance of users plus variances of seeds."""
    draw = np.random.default_rng(3)
    users = draw.normal(0, 1, 300)
    first = users + draw.normal(0.1, 0.4, 300) + draw.normal(0, 0.2, (4, 1))
    second = users + draw.normal(0, 0.4, 300) + draw.normal(0, 0.2, (3, 1))
    outcome = hierarchical([FoldValues(np.arange(300), first, second)], resamples=4000, seed=0)
    difference = first.mean() - second.mean()
    by_user = (first.mean(axis=0) - second.mean(axis=0)).var(ddof=1) / 300
    by_seed = [one.mean(axis=1).var(ddof=1) / len(one) for one in (first, second)]
    assert outcome.difference == pytest.approx(difference)
    assert outcome.std_error == pytest.approx(math.sqrt(by_user + sum(by_seed)), rel=0.05)
    variances = [(by_user, 299), (by_seed[0], 3), (by_seed[1], 2)]
    freedom = sum(v for v, _ in variances) ** 2 / sum(v**2 / df for v, df in variances)
    assert outcome.freedom == pytest.approx(freedom, rel=0.1)
    assert (outcome.runs, outcome.users) == (7, 300)


def test_one_seed_is_the_paired_test_over_users():
    draw = np.random.default_rng(5)
    first, second = draw.normal(0.2, 1, (1, 500)), draw.normal(0, 1, (1, 500))
    outcome = hierarchical([FoldValues(np.arange(500), first, second)], resamples=4000, seed=1)
    expected = stats.ttest_rel(first[0], second[0])
    assert outcome.p_value == pytest.approx(expected.pvalue, abs=0.005)


def test_users_of_several_folds_are_resampled_together():
    """A user who is in every fold is one user: more folds of the same values add nothing."""
    draw = np.random.default_rng(6)
    fold = FoldValues(np.arange(100), draw.normal(0.2, 1, (1, 100)), draw.normal(0, 1, (1, 100)))
    once, thrice = (hierarchical([fold] * n, resamples=500, seed=0) for n in (1, 3))
    assert once.std_error == pytest.approx(thrice.std_error) and thrice.users == 100


def test_compares_with_values_per_user():
    draw = np.random.default_rng(0)
    base = draw.uniform(0, 1, 80)
    experiment = Experiment()
    for model, gain in (("pop", 0.0), ("als", 0.3), ("twin", 0.0)):
        for seed in range(3):
            values = base + gain + draw.normal(0, 0.05, 80)
            experiment.add(run(None, per_user=values), model=model, seed=seed)
    comparison = experiment.compare(baseline="pop")
    frame = comparison.to_frame()
    assert frame.select("model_a", "model_b", "test").rows() == [
        ("als", "pop", "hierarchical"),
        ("twin", "pop", "hierarchical"),
    ]
    assert frame["significant"].to_list() == [True, False]
    assert frame["difference"][0] == pytest.approx(0.3, abs=0.03)
    assert frame["ci_low"][0] < 0.3 < frame["ci_high"][0] and frame["users"][0] == 80
    assert frame["p_adjusted"][0] == pytest.approx(2 * frame["p_value"][0])  # Holm over two pairs
    assert comparison.notes == (
        "no p-value for corrected_t: two models need at least two shared folds",
    )
    assert re.search(r"als - pop +- +nDCG@10 +hierarchical +\+0\.", repr(comparison))
    assert len(experiment.compare().rows) == 3
    again = experiment.compare(baseline="pop").to_frame()
    assert again.equals(frame) and len(comparison.to_pandas()) == 2


def test_one_table_of_models_data_sets_and_metrics():
    """Means over runs with deviations; the best in bold; † and ‡ against the baseline."""
    draw = np.random.default_rng(0)
    experiment = Experiment()
    for dataset, model, seed in itertools.product(("ml", "fm"), ("pop", "als", "bad"), range(3)):
        gain = {"pop": 0.0, "als": 0.3, "bad": -0.2}[model]
        values = 0.4 + gain + draw.normal(0, 0.01, 60)
        experiment.add(run(None, per_user=values), model=model, dataset=dataset, seed=seed)
    table = experiment.table(
        "nDCG@10", baseline="pop", test="hierarchical", digits=2, rows="models"
    )
    text = table.to_markdown()
    assert "ml: nDCG@10 ↑" in text and "fm: nDCG@10 ↑" in text
    assert text.count("**0.70** † ± 0.00") == 2 and text.count("0.20 ‡ ± 0.00") == 2
    assert (
        "† significantly better than pop, ‡ worse (test hierarchical, p-values adjusted by Holm's "
        "correction over the pairs of models on each data set and metric, alpha = 0.05)."
    ) in text
    assert r"\toprule" in table.to_latex() and len(table.to_frame()) == 18
    percent = experiment.table(percent=True, digits=0).to_markdown()
    assert "ml: nDCG@10 (%) ↑" in percent and "**70**" in percent
    single = Experiment()
    single.add(run(0.5), model="als")
    assert "| als   | 0.5000 ± 0.0196 |" in single.table().to_markdown()  # over users
    with pytest.raises(SettingError, match="marks differences from a model"):
        experiment.table(test="corrected_t")


def test_table_names_values_without_a_p_value():
    """Without a mark, such a value would read as not significantly different."""
    experiment = Experiment()
    for dataset, model in itertools.product(("ml", "fm"), ("pop", "als", "knn")):
        values = np.arange(20) / 40 + {"pop": 0, "als": 0.3, "knn": 0.1}[model]
        result = run(None, per_user=values)
        result = replace(result, entries=(*result.entries, *run(0.5, metric="Gini").entries))
        if (dataset, model) == ("fm", "knn"):
            result = replace(result, per_user=None)
        experiment.add(result, model=model, dataset=dataset)
    text = experiment.table(baseline="pop", test="hierarchical").to_markdown()
    assert "no p-value: ml: Gini@10, fm: nDCG@10 (knn), fm: Gini@10." in text
    text = experiment.table("nDCG@10", baseline="pop", test="hierarchical").to_markdown()
    assert "ml: Gini" not in text and "no p-value: fm: nDCG@10 (knn)." in text


def test_table_marks_values_of_labels():
    experiment = Experiment()
    for model, seed in itertools.product(("pop", "als"), range(3)):
        value = 0.2 + 0.001 * seed + (0.3 if model == "als" else 0)
        (entry,) = run(value, metric="REO").entries
        result = Result((replace(entry, cell=("film",)),), model)
        experiment.add(result, seed=seed)
    text = experiment.table(baseline="pop", test="seeds_t").to_markdown()
    assert "0.5010** † ± 0.0010" in text and "no p-value" not in text


def test_printed_differences_without_a_test_have_a_dash():
    values = {("d", "x", None, 0): 0.5, ("d", "y", None, 0): 0.4}
    text = repr(fill(values).compare(tests="seeds_t"))
    assert "nan" not in text and re.search(r"x - y +d +nDCG@10 +seeds_t +- +- +-", text)


def test_notes_what_tests_lack():
    values = {("d", m, f, 0): 0.1 + f + (m == "x") for m in "xy" for f in (0, 1)}
    comparison = fill(values).compare(tests=["hierarchical", "corrected_t"])
    assert [row["test"] for row in comparison.rows] == ["hierarchical", "corrected_t"]
    assert math.isnan(comparison.rows[0]["p_value"]) and comparison.rows[0]["significant"] is None
    assert "not every run has a value of nDCG@10 per user" in comparison.notes[0]
    assert comparison.notes[1].startswith("some folds have one seed")
    for options, message in (
        ({"tests": "t"}, "tests='t'"),
        ({"alpha": 2}, "between 0 and 1"),
        ({"test_ratio": -1}, "a number of at least 0"),
        ({"correction": "most"}, "correction='most'"),
    ):
        with pytest.raises(SettingError, match=message):
            fill(values).compare(**options)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "seed_deviation"), [(3, 0.1), (5, 0.1), (1, 0.0)])
def test_equal_models_are_seldom_different(seeds, seed_deviation):
    """At 5%, 400 pairs of equal models give at most 34 false positives in 99.9% of cases."""
    draw = np.random.default_rng(seeds)
    false = 0
    for number in range(400):
        base = draw.normal(0, 1, 100)
        models = [
            base + draw.normal(0, 0.5, 100) + draw.normal(0, seed_deviation, (seeds, 1))
            for _ in range(2)
        ]
        fold = FoldValues(np.arange(100), *models)
        false += hierarchical([fold], resamples=200, seed=number).p_value < 0.05
    assert false <= stats.binom.ppf(0.999, 400, 0.05)
    assert false >= 2  # the test can reject at all


# --------------------------------------------------------------------------------------------------


def summary(values):
    """A summary of one metric from {dataset: {model: value}}."""
    rows = [
        {"dataset": dataset, "model": model, "mean": value}
        for dataset, models in values.items()
        for model, value in models.items()
    ]
    return pl.DataFrame(rows)


def table(values):
    """Values `[data sets, models]` by names."""
    return {f"d{i}": {f"m{j}": v for j, v in enumerate(row)} for i, row in enumerate(values)}


@given(st.integers(2, 8), st.integers(3, 6), st.randoms(use_true_random=False))
def test_friedman_is_that_of_scipy(datasets, models, random):
    values = [[random.choice([0.1, 0.2, 0.3, 0.4]) for _ in range(models)] for _ in range(datasets)]
    ranking = rank_models(summary(table(values)), NDCG)
    if all(len(set(row)) == 1 for row in values):
        assert ranking.friedman.p_value == 1
        return
    expected = stats.friedmanchisquare(*np.array(values).T)
    assert ranking.friedman.statistic == pytest.approx(expected.statistic, abs=1e-9)
    assert ranking.friedman.p_value == pytest.approx(expected.pvalue, abs=1e-9)
    average = stats.rankdata(-np.array(values), axis=1).mean(axis=0)
    for name, rank in ranking.average_ranks.items():
        assert rank == pytest.approx(average[int(name[1:])])
    assert list(ranking.average_ranks.values()) == sorted(ranking.average_ranks.values())


def test_average_ranks_of_the_example_of_demsar():
    """14 data sets and 4 models with average ranks 3.143, 2.000, 2.893 and 1.964.

    The paper gives a statistic of 9.28, without the correction for ties, and a critical difference
    of 1.25. The rows below have these average ranks and one tie."""
    rows = [
        "3412",
        "4132",
        "4123",
        "4132",
        "3421",
        "4213",
        "2341",
        "3241",
        "1243",
        "3241",
        "1243",
        "4231",
        "4132",
    ]
    ranks = [[4, 1, 2.5, 2.5], *([int(digit) for digit in row] for row in rows)]
    ranking = rank_models(summary(table([[-rank for rank in row] for row in ranks])), NDCG)
    average = [round(ranking.average_ranks[f"m{number}"], 3) for number in range(4)]
    assert average == [3.143, 2.0, 2.893, 1.964]
    without_ties = ranking.friedman.statistic * (14 * 5 - 0.5) / (14 * 5)
    assert without_ties == pytest.approx(9.28, abs=0.01)
    assert ranking.critical_difference == pytest.approx(1.25, abs=0.005)


def test_iman_davenport():
    values = [[0.1, 0.2, 0.3], [0.1, 0.3, 0.2], [0.2, 0.1, 0.3], [0.1, 0.2, 0.3]]
    friedman = rank_models(summary(table(values)), NDCG).friedman
    expected = 3 * friedman.statistic / (4 * 2 - friedman.statistic)
    assert friedman.f_statistic == pytest.approx(expected)
    assert friedman.f_p_value == pytest.approx(stats.f.sf(expected, 2, 6))
    same = rank_models(summary(table([[0.1, 0.2, 0.3]] * 3)), NDCG).friedman
    assert same.f_statistic == math.inf and same.f_p_value == 0


def test_directions_decide_the_ranks():
    values = table([[1.0, 2.0, 3.5], [1.0, 2.0, 3.5]])
    best = {
        True: ("m2", "m1", "m0"),
        False: ("m0", "m1", "m2"),
    }
    for higher, order in best.items():
        entry = replace(NDCG, higher_is_better=higher)
        assert tuple(rank_models(summary(values), entry).average_ranks) == order
    entry = replace(NDCG, higher_is_better=None, target=2.2)
    assert tuple(rank_models(summary(values), entry).average_ranks) == ("m1", "m0", "m2")
    with pytest.raises(SettingError, match="has no direction"):
        rank_models(summary(values), replace(NDCG, higher_is_better=None))


def test_nemenyi_pairs_wins_and_cliques():
    """Ten data sets: m0 always first, m1 and m2 change places, m3 always last."""
    rows = [[0.9, 0.5, 0.4, 0.1] if n % 2 else [0.9, 0.4, 0.5, 0.1] for n in range(10)]
    ranking = rank_models(summary(table(rows)), NDCG)
    pairs = {(pair["model_a"], pair["model_b"]): pair for pair in ranking.pairs}
    error = math.sqrt(4 * 5 / 60)
    assert pairs["m0", "m1"]["rank_difference"] == pytest.approx(-1.5)
    assert pairs["m0", "m1"]["z"] == pytest.approx(-1.5 / error)
    expected = stats.studentized_range.sf(1.5 / error * math.sqrt(2), 4, np.inf)
    assert pairs["m0", "m1"]["p_adjusted"] == pytest.approx(expected)
    for pair in ranking.pairs:  # the critical difference and the p-values decide alike
        is_far = abs(pair["rank_difference"]) >= ranking.critical_difference
        assert pair["significant"] == is_far
    assert [pairs["m0", "m3"][name] for name in ("wins", "ties", "losses")] == [10, 0, 0]
    assert [pairs["m1", "m2"][name] for name in ("wins", "ties", "losses")] == [5, 0, 5]
    assert ["m1", "m2"] in [sorted(group)[-2:] for group in ranking.cliques]
    frame = ranking.leaderboard()
    assert frame["model"].to_list()[0] == "m0" and frame["d0"].to_list()[0] == 0.9
    assert "critical difference" in repr(ranking) and len(ranking.to_frame()) == 6
    assert len(ranking.to_pandas()) == 6


def test_holm_against_a_baseline():
    rows = [[0.9, 0.5, 0.4], [0.8, 0.5, 0.4], [0.9, 0.4, 0.5], [0.9, 0.5, 0.4], [0.7, 0.5, 0.4]]
    ranking = rank_models(summary(table(rows)), NDCG, posthoc="holm", baseline="m2")
    assert [(pair["model_a"], pair["model_b"]) for pair in ranking.pairs] == [
        ("m0", "m2"),
        ("m1", "m2"),
    ]
    error = math.sqrt(3 * 4 / 30)
    plain = sorted(
        2 * stats.norm.sf(abs(pair["rank_difference"]) / error) for pair in ranking.pairs
    )
    adjusted = sorted(pair["p_adjusted"] for pair in ranking.pairs)
    assert adjusted == pytest.approx([2 * plain[0], max(2 * plain[0], plain[1])])
    assert ranking.cliques == [] and math.isnan(ranking.critical_difference)
    assert "p-values adjusted by Holm's correction over 2 pairs\nm0 vs. m2" in repr(ranking)
    with pytest.raises(SettingError, match="choose 'holm'"):
        rank_models(summary(table(rows)), NDCG, baseline="m2")


def test_ranks_need_every_model_on_every_data_set():
    values = table([[0.1, 0.2], [0.1, 0.2]])
    del values["d1"]["m1"]
    with pytest.raises(InputError, match="m1 has no value on the data set 'd1'"):
        rank_models(summary(values), NDCG)
    with pytest.raises(InputError, match="got 2 models and 1 data sets"):
        rank_models(summary(table([[0.1, 0.2]])), NDCG)
    few = rank_models(summary(table([[0.1, 0.2], [0.1, 0.2]])), NDCG)
    assert few.notes[0].startswith("there are only 2 data sets")


def test_ranks_of_an_experiment():
    values = {
        (dataset, model, None, seed): quality + 0.01 * seed
        for dataset in "abcdef"
        for model, quality in (("als", 0.5), ("pop", 0.3), ("knn", 0.4))
        for seed in (0, 1)
    }
    ranking = fill(values).rank_datasets("nDCG@10")
    assert ranking.average_ranks == {"als": 1, "knn": 2, "pop": 3}
    assert ranking.metric == "nDCG@10" and ranking.notes == ()
    text = ranking.plot(width=500).to_json()
    assert "1.00  als" in text and "critical difference" in text
    with pytest.raises(SettingError, match="is not a model"):
        fill(values).rank_datasets("nDCG@10", posthoc="holm", baseline="x")
