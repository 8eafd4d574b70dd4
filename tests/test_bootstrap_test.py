"""The paired bootstrap test: against SciPy, by definition, on files and engines, by simulation."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import scipy.stats
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import weft
from local_engine import assert_same, make_lists
from local_engine import evaluate as evaluate_partitioned
from weft.errors import InputError, SettingError
from weft.evaluation.exposure_parts import NUM_PARTS
from weft.evaluation.resamples import Resamples
from weft.statistics.resampled_difference import ResampledDifference

USERS, ITEMS = 90, 40
GENERATOR = torch.Generator().manual_seed(11)
TRUTH = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.1).int()
NOISE = [torch.rand(USERS, ITEMS, generator=GENERATOR) for _ in range(3)]
SCORES = {"a": NOISE[0], "b": NOISE[1] + 0.1 * TRUTH, "c": NOISE[2] + torch.linspace(0, 1, ITEMS)}
METRICS = ["nDCG", "Gini", "ItemCoverage", "Personalization", "RSP"]
CLUSTERS = [str(item % 3) for item in range(ITEMS)]
DISTANCE = "EucDistance(metric_names=[nDCG, Gini], utopia_points=[1, 0])"


def evaluate(scores, **more):
    settings = {"metrics": METRICS, "top_k": [3, 10], "item_clusters": CLUSTERS, "bootstrap": 80}
    return weft.evaluate(scores, TRUTH, **{**settings, **more})


@pytest.fixture(scope="module")
def results():
    return {name: evaluate(scores) for name, scores in SCORES.items()}


def rows_of(comparison):
    return {
        (row["model_a"], row["model_b"], row["metric"], row["k"]): row for row in comparison.rows
    }


# ------------------------------------------------------------------------ p-values and intervals


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_agrees_with_scipy_on_a_mean(alternative):
    one, other = (
        evaluate(SCORES[name], metrics="nDCG@10", bootstrap=4000, per_user=True)
        for name in ("a", "b")
    )
    gaps = (one.per_user["nDCG@10"] - other.per_user["nDCG@10"]).to_numpy()
    comparison = weft.compare({"a": one, "b": other}, tests="bootstrap", alternative=alternative)
    (row,) = comparison.rows
    assert row["form"] == "bca" and row["difference"] == pytest.approx(gaps.mean())
    error = gaps.std(ddof=1) / math.sqrt(len(gaps))
    assert row["std_error"] == pytest.approx(error, rel=0.06)
    level = 0.95 if alternative == "two-sided" else 0.9
    ends = {
        method: scipy.stats.bootstrap(
            (gaps,), np.mean, confidence_level=level, n_resamples=4000, method=method, rng=1
        ).confidence_interval
        for method in ("BCa", "percentile")
    }
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(ends["BCa"]), abs=0.2 * error)
    percentiles = (row["boot_low"], row["boot_high"])
    assert percentiles == pytest.approx(tuple(ends["percentile"]), abs=0.2 * error)
    tested = scipy.stats.ttest_1samp(gaps, 0, alternative=alternative).pvalue
    assert row["p_value"] == pytest.approx(tested, abs=0.03)


@given(
    st.lists(st.integers(-6, 9), min_size=5, max_size=60),
    st.sampled_from(["bca", "percentile"]),
    st.integers(-3, 6),
    st.floats(0.01, 0.5),
)
@example([0, 0, 1, 1, 1], "bca", 0, 0.5)  # no draw below 0: nothing supports "less"
def test_p_value_is_the_smallest_level_whose_interval_excludes_zero(draws, form, difference, alpha):
    left_out = np.linspace(-1, 2, 9) ** 3 + difference
    made = ResampledDifference.from_bootstrap(
        float(difference), np.array(draws, float), left_out, form, 10.0
    )
    p = made.p_value("two-sided")
    if math.isnan(p):
        assert difference == 0 and not any(draws)
        return
    size = len(draws) + 1
    assert 2 / size <= p + 1e-12 and p <= 1
    low, high = made.interval(alpha)
    if abs(p - alpha) > 1e-6 and alpha >= 2 / size:
        assert (low > 0 or high < 0) == (p < alpha)
    if made.form == "percentile":
        below, above = (sum(sign * draw <= 0 for draw in draws) + 1 for sign in (1, -1))
        assert p == pytest.approx(min(1, 2 * min(below, above) / size))
        assert made.p_value("greater") == pytest.approx(below / size)
        assert made.p_value("less") == pytest.approx(above / size)


@given(
    st.lists(st.integers(-9, 9), min_size=4, max_size=50), st.integers(-9, 9), st.floats(0.02, 0.9)
)
def test_p_value_of_swaps_counts_differences_as_large(draws, difference, alpha):
    made = ResampledDifference.from_swaps(float(difference), np.array(draws, float), 9.0)
    p = made.p_value("two-sided")
    if not any(draws) and difference == 0:
        assert math.isnan(p) and made.interval(alpha) == (0, 0)
        return
    as_large = sum(abs(draw) >= abs(difference) for draw in draws) + 1
    assert p == pytest.approx(as_large / (len(draws) + 1))
    toward = "greater" if difference >= 0 else "less"
    assert made.p_value(toward) == pytest.approx(p / 2)
    low, high = made.interval(alpha)
    if abs(p - alpha) > 1e-9 and not math.isnan(low):
        assert (low > 0 or high < 0) == (p < alpha)


def test_bca_moves_the_percentiles_by_bias_and_acceleration():
    generator = np.random.default_rng(0)
    draws = generator.gamma(2, size=999) + 0.2
    left_out = generator.gamma(2, size=50)
    made = ResampledDifference.from_bootstrap(2.0, draws, left_out, "bca", 9.0)
    share = (draws < 2).mean()
    z = scipy.stats.norm.ppf(share)
    influence = left_out.mean() - left_out
    a = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5)
    assert made.bias == pytest.approx(z) and made.acceleration == pytest.approx(a)
    levels = [z + q for q in scipy.stats.norm.ppf([0.025, 0.975])]
    levels = [scipy.stats.norm.cdf(z + level / (1 - a * level)) for level in levels]
    for end, level in zip(made.interval(0.05), levels):  # one draw of 999 is a share of 0.001
        assert level == pytest.approx((draws < end).mean(), abs=0.0021)


def test_bca_is_undefined_where_all_draws_are_on_one_side():
    draws = np.linspace(1, 2, 99)
    made = ResampledDifference.from_bootstrap(0.5, draws, np.arange(5.0), "bca", 2.0)
    assert made.form == "percentile" and made.p_value("two-sided") == pytest.approx(0.02)
    few = ResampledDifference.from_bootstrap(1.5, draws, np.full(5, np.nan), "bca", 2.0)
    assert few.form == "percentile"
    assert all(map(math.isnan, few.interval(0.001)))  # 99 draws cannot give it


# ----------------------------------------------------------------------------------------- swaps


def lists_of(scores, k):
    return scores.topk(k, dim=1).indices.tolist()


def gini(counts):
    ordered, n = sorted(counts), len(counts)
    weighted = sum((2 * place - n - 1) * count for place, count in enumerate(ordered, 1))
    return weighted / ((n - 1) * sum(counts))


def test_swaps_exchange_the_lists_of_whole_parts():
    """Few users are one part each: the differences are those of exchanged lists."""
    users = 4
    scores = [SCORES[name][:users] for name in ("a", "c")]
    settings = {"metrics": ["Gini", "ItemCoverage"], "top_k": 3, "bootstrap": 300}
    pair = [weft.evaluate(one, TRUTH[:users], empty_users="zero", **settings) for one in scores]
    comparison = weft.compare({"a": pair[0], "b": pair[1]})
    of_models = [lists_of(one, 3) for one in scores]
    possible = {"Gini@3": set(), "ItemCoverage@3": set()}
    for swap in itertools.product([0, 1], repeat=users):
        counts = []
        for model in (0, 1):
            items = [of_models[model ^ side][user] for user, side in enumerate(swap)]
            counts.append([sum(item in row for row in items) for item in range(ITEMS)])
        covered = [sum(count > 0 for count in one) for one in counts]
        possible["Gini@3"].add(round(abs(gini(counts[0]) - gini(counts[1])), 9))
        possible["ItemCoverage@3"].add(abs(covered[0] - covered[1]))
    for (_, _, metric), difference in comparison.differences.items():
        assert difference.form == "swaps" and len(difference.draws) == 300
        assert set(difference.draws.round(9)) == possible[metric]


def test_swapping_nothing_gives_the_values_of_the_results(results):
    from weft.statistics import exposure_swaps

    names = [name for name, form in results["a"].resamples.forms.items() if form == "swaps"]
    assert len(names) == 6
    parts = [results[name].resamples.parts for name in ("a", "b")]
    assert set(parts[0].part) == set(range(NUM_PARTS))
    swaps = exposure_swaps._ListSwaps.align(*parts, names)
    (kept,) = swaps.differences(np.ones((NUM_PARTS, 1)))
    (exchanged,) = swaps.differences(np.zeros((NUM_PARTS, 1)))
    expected = [results["a"][name] - results["b"][name] for name in names]
    assert kept[0] == pytest.approx(expected) and exchanged[0] == pytest.approx(
        [-one for one in expected]
    )


def test_items_are_matched_by_id():
    """The same lists with items in another order give the same swaps."""
    order = torch.randperm(ITEMS, generator=torch.Generator().manual_seed(3))
    users, items = [f"u{number}" for number in range(USERS)], [f"i{n}" for n in range(ITEMS)]
    named = {name: [items[item] for item in row.nonzero()] for name, row in zip(users, TRUTH)}
    settings = {"users": users, "metrics": ["Gini"], "top_k": 5, "bootstrap": 50}
    one = weft.evaluate(SCORES["a"], named, items=items, **settings)
    plain, other = (
        weft.evaluate(SCORES["c"][:, by], named, items=[items[n] for n in by], **settings)
        for by in (torch.arange(ITEMS), order)
    )
    expected, found = (weft.compare({"a": one, "b": b}) for b in (plain, other))
    assert found.rows[0]["p_value"] == expected.rows[0]["p_value"]
    assert found.to_frame().equals(expected.to_frame())


# ------------------------------------------------------------------------------------ comparisons


def test_tests_every_metric_with_a_value(results):
    comparison = weft.compare(results)
    assert comparison.tests == ("bootstrap",)  # no values per user
    rows = rows_of(comparison)
    assert len(rows) == 3 * len(results["a"].entries)
    for row in comparison.rows:
        name = row["metric"].partition("[")[0]
        expected = "swaps" if name in ("Gini", "ItemCoverage", "Personalization") else "bca"
        assert row["form"] == expected and row["users"] == USERS and row["paired"]
        assert math.isnan(row["effect_size"]) and math.isnan(row["wins"])
        if not math.isnan(row["p_value"]):
            assert row["significant"] == (row["ci_low"] > 0 or row["ci_high"] < 0)
    assert rows["a", "c", "Gini", 10]["significant"]
    assert rows["a", "c", "RSP[0]", 10]["test"] == "bootstrap"
    assert set(comparison.letters("bootstrap")) == set(results["a"])
    for text in (comparison.to_markdown(pairs=True), comparison.to_latex(), comparison.to_csv()):
        assert "RSP" in text
    assert len(pl.read_csv(comparison.to_csv().encode())) == len(rows)
    assert comparison.adjusted("none").rows[0]["family_size"] == 3


def test_default_tests_the_other_metrics_by_bootstrap():
    pair = {name: evaluate(SCORES[name], per_user=True) for name in ("a", "b")}
    comparison = weft.compare(pair)
    assert comparison.tests == ("paired_t", "bootstrap")
    tests = {(row["metric"], row["test"]) for row in comparison.rows}
    assert ("nDCG", "paired_t") in tests and ("nDCG", "bootstrap") not in tests
    assert ("Gini", "bootstrap") in tests and len(comparison.grid("paired_t")) == 2
    assert weft.compare(pair, tests="paired_t").tests == ("paired_t",)
    both = weft.compare(pair, tests=["bootstrap", "paired_t"], metrics="nDCG@10")
    assert [row["test"] for row in both.rows] == ["bootstrap", "paired_t"]  # as requested
    assert weft.compare(pair, metrics=["Gini@10"]).tests == ("bootstrap",)
    with pytest.raises(SettingError, match=r"only the bootstrap test can.*tests='bootstrap'"):
        weft.compare(pair, tests="paired_t", metrics="Gini@10")


def test_composites_of_items_have_percentile_intervals():
    pair = [evaluate(SCORES[name], metrics=[DISTANCE], top_k=5) for name in ("a", "b")]
    (row,) = weft.compare(pair).rows
    assert row["form"] == "percentile"
    assert (row["ci_low"], row["ci_high"]) == (row["boot_low"], row["boot_high"])


def test_equal_models_have_no_p_value(results):
    comparison = weft.compare({"a": results["a"], "same": evaluate(SCORES["a"])})
    assert all(math.isnan(row["p_value"]) and row["ci_low"] == 0 for row in comparison.rows)
    assert any("nothing differs" in note for note in comparison.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "the seeds 0 and 1; evaluate both with one seed"),
        ({"bootstrap": 81}, "80 and 81 resamples"),
        ({"bootstrap": None}, "the result 'b' has no resamples"),
    ],
)
def test_resamples_that_are_not_paired_are_refused(results, change, message):
    other = evaluate(SCORES["b"], per_user=True, **change)
    with pytest.raises(InputError, match=message):
        weft.compare({"a": results["a"], "b": other}, tests="bootstrap")
    if change == {"bootstrap": None}:
        message = "the result 'a' has no values per user"
    with pytest.raises(InputError, match=message):
        weft.compare({"a": results["a"], "b": other})
    if change != {"bootstrap": None}:
        by_user = weft.compare({"a": evaluate(SCORES["a"], per_user=True), "b": other})
        assert by_user.tests == ("paired_t",)
        assert by_user.notes[0].startswith("no bootstrap test: the resamples of 'a' and 'b'")


def test_other_users_are_refused(results):
    other = weft.evaluate(
        SCORES["b"][:-1],
        TRUTH[:-1],
        metrics=METRICS,
        top_k=10,
        item_clusters=CLUSTERS,
        bootstrap=80,
    )
    with pytest.raises(InputError, match="different users"):
        weft.compare({"a": results["a"], "b": other}, tests="bootstrap")
    renamed = replace(results["b"].resamples, users="another digest")
    with pytest.raises(InputError, match="different users"):
        weft.compare({"a": results["a"], "b": replace(results["b"], resamples=renamed)})


def test_other_catalogues_cannot_be_swapped(results):
    wide = torch.nn.functional.pad(SCORES["b"], (0, 1), value=-5.0)
    truth = torch.nn.functional.pad(TRUTH, (0, 1))
    settings = {"metrics": ["nDCG", "Gini"], "top_k": 10, "bootstrap": 80}
    other = weft.evaluate(wide, truth, **settings)
    with pytest.raises(InputError, match=r"Gini@10 cannot be tested.* different items"):
        weft.compare({"a": results["a"], "b": other}, tests="bootstrap")
    comparison = weft.compare({"a": results["a"], "b": other})
    assert [row["metric"] for row in comparison.rows] == ["nDCG"]
    assert comparison.notes[0].startswith("Gini@10 cannot be tested")


def test_too_few_resamples_are_noted():
    pair = [evaluate(SCORES[name], metrics="nDCG@10", bootstrap=30) for name in ("a", "b")]
    comparison = weft.compare(pair)
    assert comparison.notes[-1].startswith("30 resamples are too few for the bootstrap test")
    assert math.isnan(comparison.rows[0]["ci_low"])


# ---------------------------------------------------------------------------------- files, engines


def test_resamples_are_saved_and_loaded(results, tmp_path):
    loaded = {
        name: weft.load_result(one.save(tmp_path / f"{name}.json")) for name, one in results.items()
    }
    kept, found = results["a"].resamples, loaded["a"].resamples
    assert found.names == kept.names and np.array_equal(found.values, kept.values, equal_nan=True)
    assert found.to_dict() == kept.to_dict()
    assert kept.to_frame().shape == (80, len(results["a"].entries))
    assert weft.compare(loaded).to_frame().equals(weft.compare(results).to_frame())
    (tmp_path / "a.exposure_parts.parquet").unlink()
    partly = weft.load_result(tmp_path / "a.json")
    assert "exposures of items were saved in" in partly.notes[-1]
    comparison = weft.compare({**loaded, "a": partly})
    assert not any(row["form"] == "swaps" for row in comparison.rows)
    assert "lacks the exposure of its items" in comparison.notes[0]


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("resamples", lambda frame: frame.cast({"nDCG@3": pl.String})),
        ("resamples", lambda frame: frame.drop("kind")),
        ("exposure_parts", lambda frame: frame.with_columns(part=pl.lit(99))),
        ("exposure_parts", lambda frame: frame.drop("value")),
        ("exposure_parts", lambda frame: frame.with_columns(quantity=pl.lit(-1))),
    ],
)
def test_wrong_tables_are_refused(results, table, change):
    kept = results["a"].resamples
    tables = kept.to_tables()
    with pytest.raises(InputError, match="the table of"):
        Resamples.from_tables(kept.to_dict(), {**tables, table: change(tables[table])})


def test_resamples_of_other_metrics_are_refused(results, tmp_path):
    results["a"].save(tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    del document["digests"]  # as in files that were put together by hand
    (tmp_path / "a.json").write_text(json.dumps(document))
    table = pl.read_parquet(tmp_path / "a.resamples.parquet")
    table.rename({"nDCG@3": "Recall@3"}).write_parquet(tmp_path / "a.resamples.parquet")
    with pytest.raises(InputError, match="of 'Recall@3'; expected metrics that have a value"):
        weft.load_result(tmp_path / "a.json")
    del document["resampling"]
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="resampling is None"):
        weft.load_result(tmp_path / "a.json")


def test_partitions_have_the_resamples_of_one_process():
    _, lists, truth = make_lists(np.random.default_rng(4), 50, 30)
    settings = {"metrics": ["nDCG", "Gini", "Recall"], "top_k": [3, 10], "bootstrap": 40}
    whole = weft.evaluate(lists, truth, **settings)
    parts = evaluate_partitioned(lists, truth, **settings)
    assert_same(parts, whole)
    assert parts.resamples.parts is not None


# -------------------------------------------------------------------------------------- simulation


@pytest.mark.slow
def test_false_positives_of_equal_models():
    """120 pairs of equal models: each bound is exceeded with a probability below 0.1%."""
    from benchmarks.false_positives import compare_equal_models

    pairs = 120
    found = [
        compare_equal_models(
            seed,
            metrics=["nDCG", "Gini", "ItemCoverage"],
            users=100,
            items=300,
            exponent=1.0,
            resamples=99,
        )
        for seed in range(pairs)
    ]
    upper = scipy.stats.binom.ppf(0.999, pairs, 0.05)
    for metric in found[0]:
        p_values = np.array([one[metric][1] for one in found])
        assert (p_values <= 0.05).sum() <= upper
        assert 0.35 < np.nanmedian(p_values) < 0.65
