"""Gates: how they are read, what they compare, and when they fail."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import weft
from weft.config.gates import judge_gates, parse_gate, prepare_gates
from weft.errors import SettingError, UnknownMetric
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result


def result(name="als", profile=None, fingerprint="a", **values):
    """A result with values by a word that stands for the metric at 10."""
    found = tuple(MetricValue(metric, 10, value, 0.01, 5, True) for metric, value in values.items())
    settings = {"profile": profile, "ties": "index"}
    return Result(
        found, name, settings=settings, provenance={"fingerprint": {"truth": fingerprint}}
    )


def outcomes(text, *results, models=None, folder=Path(), profile=None):
    gates = prepare_gates(
        [parse_gate(text)],
        models=models or [one.name for one in results],
        profile=profile,
        folder=folder,
    )
    return judge_gates(gates, results)


@pytest.mark.parametrize(
    ("text", "model", "metric", "sign", "number", "file", "tolerance"),
    [
        ("nDCG@10 >= 0.31", None, "nDCG@10", ">=", 0.31, None, None),
        ("nDCG@10>=.31", None, "nDCG@10", ">=", 0.31, None, None),
        (" GAUC < 1e-3 ", None, "GAUC", "<", 0.001, None, None),
        ("nDCG@10 ≥ -2", None, "nDCG@10", ">=", -2.0, None, None),
        ("nDCG@10 == 0.5", None, "nDCG@10", "==", 0.5, None, None),
        ("Recall@20 > baseline.json", None, "Recall@20", ">", None, "baseline.json", None),
        ("Recall@20 > base-1.json", None, "Recall@20", ">", None, "base-1.json", None),
        (
            "Recall@20 >= baseline.json - 0.005",
            None,
            "Recall@20",
            ">=",
            None,
            "baseline.json",
            ("-", 0.005),
        ),
        (
            "Recall@20>=baseline.json*0.98",
            None,
            "Recall@20",
            ">=",
            None,
            "baseline.json",
            ("*", 0.98),
        ),
        ("Recall@20 <= a b/last + 1e-2", None, "Recall@20", "<=", None, "a b/last", ("+", 0.01)),
        ("als: nDCG@10 >= 0.31", "als", "nDCG@10", ">=", 0.31, None, None),
        ("v1:als: nDCG@10 >= 0.31", "v1:als", "nDCG@10", ">=", 0.31, None, None),
        ("bob's: nDCG@10 >= 0.31", "bob's", "nDCG@10", ">=", 0.31, None, None),
        ("'a > b': nDCG@10 >= 0.31", "a > b", "nDCG@10", ">=", 0.31, None, None),
        (
            "F1(metric_name_1=nDCG, beta=0.5)@5 > 0",
            None,
            "F1(metric_name_1=nDCG, beta=0.5)@5",
            ">",
            0.0,
            None,
            None,
        ),
        (
            "x: BiasDisparityBR@10['<25: F', Drama] < 2",
            "x",
            "BiasDisparityBR@10['<25: F', Drama]",
            "<",
            2.0,
            None,
            None,
        ),
    ],
)
def test_parses_gates(text, model, metric, sign, number, file, tolerance):
    gate = parse_gate(text)
    assert (gate.model, gate.metric, gate.sign, gate.number, gate.tolerance) == (
        model,
        metric,
        sign,
        number,
        tolerance,
    )
    assert gate.file == (None if file is None else Path(file))
    assert str(gate) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nDCG@10", "has no operator"),
        ("nDCG@10 = 0.3", "Write '==' instead of '='"),
        ("nDCG@10 => 0.3", "has an unknown operator"),
        ("nDCG@10 >> 0.3", "has an unknown operator"),
        ("nDCG@10 >=", "no number or result file"),
        (">= 0.3", "no metric"),
        (": nDCG@10 >= 0.3", "an empty model"),
        ("nDCG@10 >= nan", "is not a number"),
        ("nDCG@10 >= 31%", "is not a number"),
        ("nDCG@10 >= 1e999", "too large for a number"),
        (0.3, "expected a gate as text"),
    ],
)
def test_rejects_wrong_gates(text, message):
    with pytest.raises(SettingError, match=message):
        parse_gate(text)


@pytest.mark.parametrize(
    ("sign", "passed"),
    [(">=", (False, True, True)), (">", (False, False, True)), ("<=", (True, True, False))],
)
def test_operators(sign, passed):
    found, _ = outcomes(
        f"nDCG@10 {sign} 0.3", *(result(str(value), nDCG=value) for value in (0.2, 0.3, 0.4))
    )
    assert tuple(one.passed for one in found) == passed
    assert found[0].difference == pytest.approx(-0.1)


def test_equality_allows_rounding():
    values = (0.3, 0.1 + 0.2, 0.3 + 1e-6)
    found, _ = outcomes("nDCG@10 == 0.3", *(result(str(value), nDCG=value) for value in values))
    assert [one.passed for one in found] == [True, True, False]
    assert not outcomes("nDCG@10 < 0.3", result(nDCG=0.3))[0][0].passed


def test_applies_to_one_model_or_every_model():
    models = result("als", nDCG=0.4), result("pop", nDCG=0.2)
    assert [(one.model, one.passed) for one in outcomes("nDCG@10 > 0.3", *models)[0]] == [
        ("als", True),
        ("pop", False),
    ]
    assert [(one.model, one.passed) for one in outcomes("als: ndcg@10 > 0.3", *models)[0]] == [
        ("als", True)
    ]
    with pytest.raises(
        SettingError,
        match=r"'asl', which is not evaluated. Did you mean 'als'\? Evaluated: als, pop",
    ):
        outcomes("asl: nDCG@10 > 0.3", *models)


def test_undefined_values_pass_no_gate(tmp_path):
    (found,), _ = outcomes("nDCG@10 <= 0.3", result(nDCG=math.nan))
    assert not found.passed and "undefined" in str(found)
    result(nDCG=math.nan).save(tmp_path / "base.json")
    (found,), _ = outcomes("nDCG@10 >= base.json", result(nDCG=0.3), folder=tmp_path)
    assert not found.passed and "the value in base.json is undefined" in str(found)


@pytest.mark.parametrize(
    ("bound", "number"),
    [
        ("base.json", 0.5),
        ("base.json - 0.1", 0.4),
        ("base.json + 0.1", 0.6),
        ("base.json * 0.9", 0.45),
    ],
)
def test_files_give_the_value_of_the_same_metric(tmp_path, bound, number):
    result(nDCG=0.5, Recall=0.9).save(tmp_path / "base.json")
    (found,), notes = outcomes(f"nDCG@10 >= {bound}", result(nDCG=0.45), folder=tmp_path)
    assert found.bound == pytest.approx(number) and found.passed == (number <= 0.45) and notes == []
    assert f"({bound})" in str(found) and "0.45 >= " in str(found)


def test_checks_files_before_evaluating(tmp_path):
    gate = parse_gate("nDCG@10 >= base.json")
    with pytest.raises(
        SettingError, match=r"the gate 'nDCG@10 >= base.json': .*there is no such file"
    ):
        prepare_gates([gate], models=["als"], folder=tmp_path)
    for bound in ("base.json * 98%", "base.json - 2 %", "98% of base.json"):
        percent = parse_gate(f"nDCG@10 >= {bound}")
        with pytest.raises(SettingError, match=r"write '\* 0\.98' instead of '\* 98%' or '- 2%'"):
            prepare_gates([percent], models=["als"], folder=tmp_path)
    (tmp_path / "base.json").write_text("{}")
    with pytest.raises(SettingError, match="not a Weft result"):
        prepare_gates([gate], models=["als"], folder=tmp_path)
    result(Recall=0.5).save(tmp_path / "base.json")
    with pytest.raises(
        SettingError,
        match=r"compares nDCG@10, which is not in .*base.json\. Available: Recall@10\.$",
    ):
        prepare_gates([gate], models=["als"], folder=tmp_path)


def test_rejects_baselines_with_another_definition(tmp_path):
    """Under a profile the name means the profile's metric, in the file as in the run."""
    result(nDCG=0.5).save(tmp_path / "base.json")
    with pytest.raises(
        SettingError,
        match=(
            r"compares nDCG\(gain=linear\)@10, .* A metric with other parameters is a different "
            r"metric"
        ),
    ):
        prepare_gates(
            [parse_gate("nDCG@10 > base.json")],
            models=["als"],
            profile="trec_eval",
            folder=tmp_path,
        )
    theirs = Result((MetricValue("nDCG(gain=linear)", 10, 0.5),), settings={"profile": "trec_eval"})
    theirs.save(tmp_path / "trec.json")
    with pytest.raises(SettingError, match=r"compares nDCG@10, which"):
        prepare_gates([parse_gate("nDCG@10 > trec.json")], models=["als"], folder=tmp_path)
    (found,), _ = outcomes(
        "ndcg@10 >= trec.json",
        replace(theirs, name="als"),
        models=["als"],
        profile="trec_eval",
        folder=tmp_path,
    )
    assert found.passed and found.name == "nDCG(gain=linear)@10"


def test_notes_another_truth_or_setting(tmp_path):
    result(nDCG=0.5, fingerprint="b").save(tmp_path / "base.json")
    _, notes = outcomes(
        "nDCG@10 > base.json", result(nDCG=0.6), result("pop", nDCG=0.6), folder=tmp_path
    )
    assert notes == [
        "base.json was evaluated on another truth, so the values describe other users and items"
    ]
    other = replace(result(nDCG=0.5), settings={"profile": None, "ties": "random"})
    other.save(tmp_path / "base.json")
    _, notes = outcomes("nDCG@10 > base.json", result(nDCG=0.6), folder=tmp_path)
    assert notes == ["base.json was evaluated with ties 'random', this run with 'index'"]


def test_notes_tolerances_as_large_as_the_value(tmp_path):
    """A tolerance of 2 for a value below 1 was probably meant as 2%: nothing could fail."""
    result(nDCG=0.5, Gini=0.5).save(tmp_path / "base.json")
    ours = result(nDCG=0.1, Gini=0.9)
    for text, instead in (
        ("nDCG@10 >= base.json - 2", "* 0.98"),
        ("nDCG@10 > base.json - 0.5", "* 0.98"),
        ("Gini@10 <= base.json + 2", "* 1.02"),
    ):
        _, (note,) = outcomes(text, ours, folder=tmp_path)
        assert note.startswith(f"the gate {text!r} allows a loss of ")
        assert note.endswith(
            f"not below the value in base.json (0.5), so that it detects hardly any loss; for 2%, "
            f"write '{instead}'"
        )
    for text in ("nDCG@10 >= base.json - 0.4", "nDCG@10 >= base.json + 2", "Gini@10 <= base.json"):
        assert outcomes(text, ours, folder=tmp_path)[1] == []


def test_notes_another_sample(tmp_path):
    scores, truth = torch.rand(20, 30), {user: [user] for user in range(20)}
    sampled = {"strategy": "sampled", "num_negatives": 5, "ties": "index", "metrics": "nDCG@10"}
    full, drawn = (
        weft.evaluate(scores, truth, metrics="nDCG@10"),
        weft.evaluate(scores, truth, **sampled),
    )
    again = weft.evaluate(
        scores, truth, **{**sampled, "num_negatives": 6}, estimator="rank_estimate"
    )
    for baseline, result_of_run, expected in (
        (full, drawn, ["strategy 'full', this run with 'sampled'"]),
        (drawn, drawn, []),
        (
            drawn,
            again,
            [
                "other candidates",
                "num_negatives 5",
                "estimator None, this run with 'rank_estimate'",
            ],
        ),
    ):
        baseline.save(tmp_path / "base.json")
        _, notes = outcomes(
            "nDCG@10 > base.json", replace(result_of_run, name="als"), folder=tmp_path
        )
        assert len(notes) == len(expected) and all(
            part in note for part, note in zip(expected, notes)
        ), notes


def test_rejects_wrong_names():
    with pytest.raises(
        UnknownMetric,
        match=r"the gate 'nDGC@10 > 0': there is no metric named 'nDGC'. Did you mean 'nDCG'",
    ):
        prepare_gates([parse_gate("nDGC@10 > 0")], models=["als"])
    with pytest.raises(SettingError, match="nDCG needs a cut-off: write 'nDCG@10'"):
        prepare_gates([parse_gate("nDCG > 0")], models=["als"])
    with pytest.raises(SettingError, match="GAUC does not depend on a cut-off"):
        prepare_gates([parse_gate("GAUC@10 > 0")], models=["als"])


def test_selects_values_by_label():
    lists, truth = {1: ["a", "b"], 2: ["b", "c"]}, {1: ["a"], 2: ["c"]}
    groups, clusters = {1: "F", 2: "M"}, {"a": "x", "b": "x", "c": "<y>"}
    evaluated = weft.evaluate(
        lists,
        truth,
        train={1: ["c"], 2: ["a"]},
        user_groups=groups,
        item_clusters=clusters,
        metrics="BiasDisparityBR@2",
    )
    cell = next(
        value
        for value in evaluated.entries
        if value.cell == ("F", "x") and not math.isnan(value.value)
    )
    (found,), _ = outcomes(f"biasdisparitybr@2[F, x] == {cell.value!r}", evaluated)
    assert found.passed and found.name == "BiasDisparityBR@2[F, x]"
    assert parse_gate("BiasDisparityBR@2[F, x] > 0").plain_metric == "BiasDisparityBR@2"
    with pytest.raises(SettingError, match=r"BiasDisparityBR@2\[F, z\]' was not evaluated"):
        outcomes("BiasDisparityBR@2[F, z] > 0", evaluated)


def test_accepts_any_saved_result_as_baseline(tmp_path):
    """As written by Result.save, not only by the command line."""
    saved = weft.evaluate(
        {1: ["a"], 2: ["b"]}, {1: ["a"], 2: ["c"]}, metrics="MRR@1", per_user=True
    ).save(tmp_path / "base.json")
    assert json.loads(saved.read_text())["values"][0]["value"] == 0.5
    better = weft.evaluate(
        {1: ["a"], 2: ["c"]}, {1: ["a"], 2: ["c"]}, metrics="MRR@1", name="better"
    )
    (found,), notes = outcomes("MRR@1 > base.json", better, folder=tmp_path)
    assert found.passed and found.difference == 0.5 and notes == []
    for other in ({1: ["c"], 2: ["a"]}, {1: ["a"], 2: {"c": 2}}, {1: ["a"], 3: ["c"]}):
        elsewhere = weft.evaluate({1: ["a"], 2: ["c"]}, other, metrics="MRR@1", name="elsewhere")
        assert "another truth" in outcomes("MRR@1 > base.json", elsewhere, folder=tmp_path)[1][0]
