"""Gates about groups of users, gates that test differences, and their summaries for CI systems."""

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

import weft
from weft.config.gates import judge_gates, parse_gate, prepare_gates, to_junit, to_summary
from weft.errors import SettingError
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result, slice_column
from weft.statistics.noninferiority import measure_advantage


def user_result(name, values, *, metric="nDCG", higher=True, groups=None):
    """A result with these values of a metric at 10 per user, and users by their numbers."""
    values = np.asarray(values, dtype=float)
    users = pl.Series("user", range(len(values)))
    slices = labels = None
    if groups is not None:
        labels = pl.DataFrame([users, pl.Series(slice_column("gender"), groups)])
        rows = [
            {
                "slice": "gender",
                "group": group,
                "metric": metric,
                "k": 10,
                "value": float(np.mean(values[[one == group for one in groups]])),
                **dict.fromkeys(("std_error", "ci_low", "ci_high"), math.nan),
                "users": groups.count(group),
            }
            for group in sorted(set(groups) - {None})
        ]
        slices = pl.DataFrame(rows)
    return Result(
        (MetricValue(metric, 10, float(np.nanmean(values)), 0.01, len(values), higher),),
        name,
        per_user=pl.DataFrame([users, pl.Series(f"{metric}@10", values)]),
        user_labels=labels,
        slices=slices,
    )


def judge(text, result, *, slices=(), folder=Path(), models=None):
    gates = prepare_gates(
        [parse_gate(text)], models=models or [result.name], slices=slices, folder=folder
    )
    (outcome,), notes = judge_gates(gates, [result])
    return outcome, notes


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sign", "file", "margin", "is_percentage", "level"),
    [
        ("nDCG@10 not worse than base.json", "not worse than", "base.json", 1, True, 0.95),
        ("nDCG@10 Not  Worse than base.json", "not worse than", "base.json", 1, True, 0.95),
        ("nDCG@10 not worse than b.json by 0.02", "not worse than", "b.json", 0.02, False, 0.95),
        ("nDCG@10 not worse than b.json by 2%", "not worse than", "b.json", 2, True, 0.95),
        ("x: MRR@1 not worse than a b by 0 at 99%", "not worse than", "a b", 0, False, 0.99),
        ("nDCG@10 better than base.json", "better than", "base.json", 0, False, 0.95),
        ("nDCG@10 better than base.json at 90%", "better than", "base.json", 0, False, 0.9),
    ],
)
def test_parses_claims(text, sign, file, margin, is_percentage, level):
    gate = parse_gate(text)
    assert (gate.sign, gate.file, gate.claim.name) == (sign, Path(file), sign)
    assert (gate.claim.margin, gate.claim.is_percentage) == (margin, is_percentage)
    assert gate.claim.level == pytest.approx(level) and str(gate) == text


@pytest.mark.parametrize(
    ("text", "metric", "expected"),
    [
        ("Recall@20[gender=F] >= 0.2", "Recall@20", ("gender", "F")),
        ("als: Recall@20 [age group = '<25, new'] > 0", "Recall@20", ("age group", "<25, new")),
        ("BiasDisparityBR@10[F, Drama] < 2", "BiasDisparityBR@10[F, Drama]", None),
        ("REO@10['a=b'] < 2", "REO@10['a=b']", None),
        ("F1(beta=0.5)@5[gender=F] better than b.json", "F1(beta=0.5)@5", ("gender", "F")),
    ],
)
def test_parses_groups_of_users(text, metric, expected):
    gate = parse_gate(text)
    assert (gate.metric, gate.slice) == (metric, expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nDCG@10 not worse than 0.3", "write '>= 0.3'"),
        ("nDCG@10 not worse than b.json by -1", "a margin of at least 0"),
        ("nDCG@10 better than b.json by 2%", "'better than' takes no margin"),
        ("nDCG@10 better than b.json at 100%", "from 50 to below 100"),
        ("nDCG@10 better than b.json at 1e999%", "too large for a number"),
        ("nDCG@10[gender=F]", "has no operator"),
        (" not worse than b.json", "no metric"),
        ("nDCG@10 better than ", "no file after 'better than'"),
    ],
)
def test_rejects_wrong_claims(text, message):
    with pytest.raises(SettingError, match=message):
        parse_gate(text)


# --------------------------------------------------------------------------------------------------


@given(
    arrays(np.float64, st.integers(2, 30), elements=st.floats(-1, 1, width=32)),
    st.floats(0, 0.5),
    st.sampled_from([0.9, 0.95, 0.99]),
)
def test_the_test_is_that_of_scipy(differences, margin, level):
    found = measure_advantage(differences, margin=margin, level=level)
    assert found.users == len(differences)
    if np.ptp(differences) == 0:
        assert found.low == found.advantage and found.p_value in (0, 1)
        return
    with np.errstate(all="ignore"):
        expected = stats.ttest_1samp(differences, -margin, alternative="greater")
        low = expected.confidence_interval(level).low
    if np.std(differences) > 1e-9:  # SciPy warns about the precision of nearly equal values
        assert found.p_value == pytest.approx(expected.pvalue, abs=1e-9)
        assert found.low == pytest.approx(low, abs=1e-9)
        if abs(found.low + margin) > 1e-9:
            assert (found.low > -margin) == (found.p_value < 1 - level)


def test_undefined_differences_are_left_out():
    found = measure_advantage(np.array([0.1, np.nan, 0.3]), level=0.95)
    assert found.users == 2 and found.advantage == pytest.approx(0.2)
    assert math.isnan(measure_advantage(np.array([0.1, np.nan]), level=0.95).low)
    assert math.isnan(measure_advantage(np.array([np.nan]), level=0.95).advantage)


def test_a_claim_needs_more_than_a_better_mean(tmp_path):
    """A mean that is worse by less than the margin fails if its noise reaches beyond the margin."""
    draw = np.random.default_rng(0)
    base = draw.uniform(0.4, 0.6, 200)
    user_result("base", base).save(tmp_path / "base.json")
    quiet = user_result("quiet", base - 0.002 + draw.normal(0, 0.001, 200))
    noisy = user_result("noisy", base - 0.002 + draw.normal(0, 0.1, 200))
    for result, passed in ((quiet, True), (noisy, False)):
        outcome, _ = judge("nDCG@10 not worse than base.json", result, folder=tmp_path)
        assert outcome.passed is passed, str(outcome)
        assert outcome.bound == pytest.approx(base.mean())
        assert "95% confidence: at least" in str(outcome) and "200 users" in str(outcome)
    assert not judge("nDCG@10 better than base.json", quiet, folder=tmp_path)[0].passed
    better = user_result("better", base + 0.002 + draw.normal(0, 0.001, 200))
    assert judge("nDCG@10 better than base.json", better, folder=tmp_path)[0].passed


def test_margins_are_numbers_or_shares_of_the_baseline(tmp_path):
    base = np.linspace(0.1, 0.9, 50)
    noise = np.tile([0.001, -0.001], 25)
    user_result("base", base).save(tmp_path / "base.json")
    worse = user_result("worse", base - 0.02 + noise)  # 4% of 0.5
    for margin, passed in (("0.015", False), ("0.025", True), ("3%", False), ("5 %", True)):
        outcome, _ = judge(f"nDCG@10 not worse than base.json by {margin}", worse, folder=tmp_path)
        assert outcome.passed is passed, str(outcome)


def test_claims_follow_the_direction_of_the_metric(tmp_path):
    base, noise = np.linspace(5, 9, 40), np.tile([0.01, -0.01], 20)
    user_result("base", base, metric="ARP", higher=False).save(tmp_path / "base.json")
    lower = user_result("lower", base - 1 + noise, metric="ARP", higher=False)
    higher = user_result("higher", base + 1 + noise, metric="ARP", higher=False)
    for text, result, passed in (
        ("ARP@10 better than base.json", lower, True),
        ("ARP@10 not worse than base.json", lower, True),
        ("ARP@10 better than base.json", higher, False),
        ("ARP@10 not worse than base.json by 0.5", higher, False),
    ):
        outcome, _ = judge(text, result, folder=tmp_path)
        assert outcome.passed is passed and "at most" in str(outcome), str(outcome)
    assert "difference +1 " in str(outcome)


def test_pairs_users_by_id(tmp_path):
    """Users in another order, and users that only one result has."""
    base = user_result("base", [0.1, 0.2, 0.9, 0.8])
    base = replace(base, per_user=base.per_user[[3, 1, 0, 2]])
    base.save(tmp_path / "base.json")
    ours = user_result("ours", [0.11, 0.22, 0.93])
    outcome, _ = judge("nDCG@10 better than base.json", ours, folder=tmp_path)
    assert outcome.value == pytest.approx(0.42) and outcome.bound == pytest.approx(0.4)
    expected = stats.ttest_1samp([0.01, 0.02, 0.03], 0, alternative="greater")
    assert f"p = {expected.pvalue:.2g}, 3 users" in str(outcome)


def test_checks_baselines_of_claims_before_evaluating(tmp_path):
    base = user_result("base", [0.1, 0.2])
    gate = [parse_gate("nDCG@10 better than base.json")]
    for broken, message in (
        (replace(base, per_user=None), "base.json: it has no values per user, which 'better than'"),
        (replace(base, per_user=base.per_user[["user"]]), "nDCG@10 has neither per-user values"),
        (user_result("base", [0.1], higher=None), "nDCG@10 has no direction"),
    ):
        broken.save(tmp_path / "base.json")
        with pytest.raises(SettingError, match=message):
            prepare_gates(gate, models=["als"], folder=tmp_path)


def test_baselines_without_their_table_say_which_file_is_missing(tmp_path):
    """A JSON file that was copied without its Parquet files has no lack of --per-user."""
    user_result("base", [0.1, 0.2]).save(tmp_path / "base.json")
    (tmp_path / "base.per_user.parquet").unlink()
    message = (
        r"base\.json: the per-user values were saved in base\.per_user\.parquet, which is not in "
        r"the folder of base\.json; 'better than' needs them: put the file there"
    )
    with pytest.raises(SettingError, match=message):
        judge("nDCG@10 better than base.json", user_result("als", [0.9, 0.9]), folder=tmp_path)
    results = {"base": weft.load_result(tmp_path / "base.json"), "als": user_result("als", [1, 1])}
    message = r"saved in base\.per_user\.parquet, .* a comparison pairs them: put the file there"
    with pytest.raises(weft.errors.InputError, match=message):
        weft.compare(results)


def test_notes_margins_as_large_as_the_value(tmp_path):
    """A margin of 2 for a value below 1 was probably meant as 2%: nothing could fail."""
    user_result("base", [0.4, 0.5, 0.6]).save(tmp_path / "base.json")
    poor = user_result("poor", [0.01, 0.02, 0.03])
    for margin in ("2", "100%", "0.5"):
        text = f"nDCG@10 not worse than base.json by {margin}"
        _, (note,) = judge(text, poor, folder=tmp_path)
        assert note.startswith(f"the gate {text!r} allows a loss of ")
        assert "not below the value in base.json (0.5)" in note and note.endswith("'by 2%'")
    assert judge("nDCG@10 not worse than base.json by 0.4", poor, folder=tmp_path)[1] == []
    assert judge("nDCG@10 better than base.json", poor, folder=tmp_path)[1] == []


def test_too_few_shared_users_pass_no_claim(tmp_path):
    user_result("base", [0.1]).save(tmp_path / "base.json")
    outcome, _ = judge("nDCG@10 better than base.json", user_result("als", [0.9]), folder=tmp_path)
    assert not outcome.passed and "too few shared users" in str(outcome)
    far = user_result("far", [0.1, 0.2])
    far = replace(far, per_user=far.per_user.with_columns(user=pl.Series([7, 8])))
    outcome, _ = judge("nDCG@10 better than base.json", far, folder=tmp_path)
    assert not outcome.passed and "share no user" in str(outcome)


# --------------------------------------------------------------------------------------------------


def test_compares_groups_of_users(tmp_path):
    groups = ["F", "M", "F", None]
    base = user_result("base", [0.2, 0.9, 0.4, 0.1], groups=groups)
    base.save(tmp_path / "base.json")
    ours = user_result("ours", [0.21, 0.1, 0.42, 0.9], groups=groups)
    known = {"slices": ["gender"], "folder": tmp_path}
    outcome, _ = judge("nDCG@10[gender=F] >= 0.3", ours, **known)
    assert outcome.passed and outcome.value == pytest.approx(0.315)
    assert outcome.name == "nDCG@10[gender=F]"
    assert not judge("nDCG@10[gender=M] >= base.json - 0.5", ours, **known)[0].passed
    assert judge("nDCG@10[gender=M] >= base.json - 0.9", ours, **known)[0].passed
    outcome, _ = judge("nDCG@10[gender=F] not worse than base.json at 90%", ours, **known)
    assert outcome.passed and outcome.value == pytest.approx(0.315)
    assert outcome.bound == pytest.approx(0.3) and "2 users" in str(outcome)


def test_rejects_unknown_slices_and_groups(tmp_path):
    ours = user_result("ours", [0.2, 0.4], groups=["F", "M"])
    with pytest.raises(SettingError, match=r"the slice 'gendr', .* Did you mean 'gender'\?"):
        judge("nDCG@10[gendr=F] > 0", ours, slices=["gender"])
    outcome, _ = judge("nDCG@10[gender=X] > 0", ours, slices=["gender"])
    assert not outcome.passed and "has no group 'X'. Available: F, M" in str(outcome)
    user_result("base", [0.2, 0.4]).save(tmp_path / "base.json")
    with pytest.raises(SettingError, match=r"base.json: there is no slice 'gender'"):
        judge("nDCG@10[gender=F] > base.json", ours, slices=["gender"], folder=tmp_path)


def test_groups_of_an_evaluation(tmp_path):
    """Slices, labels and values per user of real results fit together."""
    lists = {user: ["a", "b", "c"] for user in range(6)}
    truth = {user: ["abc"[user % 3]] for user in range(6)}
    options = {
        "metrics": ["MRR@3", "Gini@3"],
        "slices": {"gender": {user: "FM"[user % 2] for user in range(6)}},
        "per_user": True,
    }
    weft.evaluate(lists, truth, name="base", **options).save(tmp_path / "base.json")
    best = weft.evaluate(
        {user: [*truth[user], "z"] for user in range(6)}, truth, name="best", **options
    )
    known = {"slices": ["gender"], "folder": tmp_path}
    outcome, notes = judge("MRR@3[gender=F] better than base.json at 60%", best, **known)
    assert outcome.passed and outcome.value == 1 and "3 users" in str(outcome) and notes == []
    assert outcome.bound == pytest.approx((1 + 1 / 3 + 1 / 2) / 3)
    with pytest.raises(SettingError, match="Gini@3 has neither per-user values to pair"):
        judge("Gini@3 better than base.json", best, **known)


def test_metrics_without_values_per_user_are_tested_by_resamples(tmp_path):
    """Coverage of random lists exceeds that of equal lists, and does not reach it the other way."""
    draw = np.random.default_rng(0)
    truth = {user: [int(draw.integers(60))] for user in range(80)}
    options = {"metrics": ["ItemCoverage@5", "Gini@5"], "bootstrap": 200, "items": list(range(60))}
    same = weft.evaluate({user: [0, 1, 2, 3, 4] for user in truth}, truth, name="same", **options)
    varied = weft.evaluate(
        {user: draw.choice(60, 5, replace=False).tolist() for user in truth},
        truth,
        name="varied",
        **options,
    )
    same.save(tmp_path / "same.json")
    varied.save(tmp_path / "varied.json")
    for text, result, passed in (
        ("ItemCoverage@5 better than same.json", varied, True),
        ("Gini@5 better than same.json", varied, True),
        ("ItemCoverage@5 not worse than varied.json by 10%", same, False),
        ("Gini@5 not worse than varied.json", same, False),
        ("Gini@5 not worse than varied.json", varied, True),
    ):
        outcome, _ = judge(text, result, folder=tmp_path)
        assert outcome.passed is passed and "by bootstrap, 80 users" in str(outcome), str(outcome)
    other = weft.evaluate({0: [1]}, truth, name="other", **{**options, "bootstrap": 100})
    outcome, _ = judge("Gini@5 better than same.json", other, folder=tmp_path)
    assert not outcome.passed and "100 and 200 resamples" in str(outcome)


# --------------------------------------------------------------------------------------------------


def outcomes():
    good, bad = (user_result(name, [value, value]) for name, value in (("a|b", 0.4), ("<&>", 0.2)))
    gates = prepare_gates([parse_gate("nDCG@10 >= 0.3")], models=["a|b", "<&>"])
    return judge_gates(gates, [good, bad])[0], [good, bad]


def test_summary_in_markdown():
    judged, results = outcomes()
    text = to_summary(judged, ["base.json was evaluated on another truth"], results)
    lines = text.splitlines()
    assert lines[0] == "### 1 of 2 gates failed"
    assert "✅ passed" in text and "❌ **FAILED**" in text and r"a\|b" in text
    assert "- base.json was evaluated on another truth" in lines
    assert "<details><summary>All values</summary>" in lines and "0.4000" in text
    assert to_summary(judged[:1], [], results).startswith("### All gates passed\n")


def test_junit_names_every_gate_and_model():
    judged, _ = outcomes()
    broken = replace(judged[1], model="odd \x00\ud800 name")
    root = ElementTree.fromstring(to_junit([*judged, broken]).encode())
    assert root.attrib == {"name": "weft", "tests": "3", "failures": "2", "errors": "0"}
    cases = root.findall("testsuite/testcase")
    assert [case.get("classname") for case in cases[:2]] == ["a|b", "<&>"]
    assert [case.get("name") for case in cases[:2]] == ["nDCG@10 >= 0.3"] * 2
    failures = [case.find("failure") for case in cases]
    assert failures[0] is None and failures[1].get("message") == "nDCG@10 0.2 >= 0.3"
    assert "difference -0.1" in failures[1].text


def test_outcomes_without_a_test_show_the_values(tmp_path):
    user_result("old", [0.1, 0.3, 0.5]).save(tmp_path / "old.json")
    new = replace(user_result("new", [0.2, 0.4, 0.6]), per_user=None)
    outcome, _ = judge("nDCG@10 not worse than old.json", new, folder=tmp_path)
    assert not outcome.passed and "no values per user" in outcome.detail
    assert outcome.comparison == "0.4 not worse than 0.3 (old.json)"
    grouped = user_result("new", [0.2, 0.4], groups=["F", "M"])
    outcome, _ = judge("nDCG@10[gender=X] >= 0.1", grouped, slices=["gender"])
    assert not outcome.passed and outcome.comparison == "nan >= 0.1"
