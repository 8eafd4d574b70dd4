"""`RPrecision` without a cut-off: its values under every tie rule, and its name everywhere."""

import math

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import weft
from metric_cases import has_trait
from oracles import relevant, user_value
from test_accuracy import close, problems, quick
from weft.cli import app
from weft.errors import SettingError
from weft.metrics.names import parse_name
from weft.metrics.registry import canonical_name, expand_metrics, needs_cutoff
from weft.ranking import TIE_RULES

LISTS = {"a": [3, 5, 4, 6], "b": [2, 4, 5, 7], "c": [2, 3, 4, 5]}
TRUTH = {"a": [5, 4, 8], "b": [4, 7], "c": [2, 6]}
MULTIPLES = (1.0, 0.35, 2.0)


@quick(40)
@given(problem=problems(tied=True), ties=st.sampled_from(["index", "pessimistic", "optimistic"]))
def test_values_match_the_oracle(problem, ties):
    specs = [("RPrecision", {"multiple": multiple}) for multiple in MULTIPLES]
    named = [f"RPrecision(multiple={multiple})" for multiple in MULTIPLES]
    result = weft.evaluate(
        problem.scores,
        problem.truth,
        metrics=[*named, "nDCG@2"],
        users=list(problem.users),
        items="positions",
        train=problem.train,
        relevance_threshold=problem.threshold,
        per_user=True,
        ties=ties,
        batch_size=4,
    )
    cases = {user: case for user, case in problem.cases().items() if relevant(case)}
    for name, (metric, params) in zip(named, specs):
        expected = {
            user: user_value(metric, case, problem.scores.shape[1], ties=ties, **params)
            for user, case in cases.items()
        }
        found = dict(result.per_user.select("user", canonical_name(name)).iter_rows())
        assert found == close(expected)


@quick(60)
@given(
    problem=problems(tied=True),
    ties=st.sampled_from(TIE_RULES),
    form=st.sampled_from(["scores", "scored lists", "lists"]),
)
def test_values_are_those_of_a_cutoff_that_cuts_nothing(problem, ties, form):
    """Also beside a short cut-off, and alone, with other thresholds, and with references."""
    source, users = problem.scores, {"users": list(problem.users)}
    if form != "scores":
        rows = (dict(enumerate(row)) for row in problem.scores.double().tolist())
        kept = [{item: score for item, score in row.items() if score > -math.inf} for row in rows]
        source, users = dict(zip(problem.users, kept)), {}
        if form == "lists":
            source = {user: list(row) for user, row in source.items()}
    num_items = problem.scores.shape[1]
    settings = {
        "items": list(range(num_items)),
        "train": problem.train,
        "mask_seen": problem.train is not None,
        "relevance_threshold": problem.threshold,
        "ties": ties,
        "skill": True,
        "per_user": True,
        **users,
    }
    variants = ["", "(multiple=0.35)", "(multiple=2.0)", "(relevance_threshold=1)"]
    plain = weft.evaluate(
        source, problem.truth, metrics=[f"RPrecision{one}" for one in variants], **settings
    )
    beside = weft.evaluate(
        source,
        problem.truth,
        metrics=[f"RPrecision{one}" for one in variants] + ["Recall@1"],
        **settings,
    )
    cut = weft.evaluate(
        source,
        problem.truth,
        metrics=[f"RPrecision{one}@{2 * num_items}" for one in variants],
        **settings,
    )
    for one, other, last in zip(plain.entries, beside.entries, cut.entries):
        for field in ("value", "std_error", "users", "floor", "ceiling"):
            expected = close(getattr(last, field))
            assert getattr(one, field) == expected and getattr(other, field) == expected, field
        assert list(plain.per_user[one.name]) == close(list(cut.per_user[last.name]))


def test_cutoffs_of_the_run_do_not_apply():
    """Three metrics in one pass: without, with an own cut-off, and of the run."""
    names = ["RPrecision", "RPrecision@2", "RPrecision@1", "Recall"]
    for metrics in (names, names[::-1]):
        result = weft.evaluate(LISTS, TRUTH, items=range(1, 9), metrics=metrics, top_k=[1, 2])
        values = {value.name: value.value for value in result.entries}
        assert values == pytest.approx(
            {
                "RPrecision": 5 / 9,
                "RPrecision@2": 4 / 9,
                "RPrecision@1": 1 / 6,
                "Recall@1": 1 / 6,
                "Recall@2": 4 / 9,
            }
        )
    assert needs_cutoff("Recall") and not needs_cutoff("RPrecision")
    assert [*expand_metrics(["rprecision"], [5], available=set())] == [parse_name("RPrecision")]


def test_users_are_ranked_as_deep_as_they_need():
    """One of 300 users has 120 relevant items, others have one."""
    draw = np.random.default_rng(3)
    scores = draw.random((300, 400))
    truth = {user: [int(draw.integers(400))] for user in range(300)}
    truth[7] = draw.permutation(400)[:120].tolist()
    result = weft.evaluate(scores, truth, metrics=["RPrecision", "nDCG@5"], per_user=True)
    best = set(np.argsort(-scores[7], kind="stable")[:120].tolist())
    table = dict(result.per_user.select("user", "RPrecision").iter_rows())
    assert table[7] == pytest.approx(len(best & set(truth[7])) / 120)
    first = scores.argmax(1)
    assert all(table[user] == (first[user] in truth[user]) for user in truth if user != 7)


def test_states_batches_and_bootstrap():
    draw = torch.Generator().manual_seed(2)
    scores, truth = torch.rand(30, 20, generator=draw), torch.rand(30, 20, generator=draw) < 0.3
    names = ["RPrecision", "RPrecision@2", "RPrecision@20"]
    whole = weft.evaluate(scores, truth.long(), metrics=names, bootstrap=30)
    one, other = (weft.Evaluator(names, bootstrap=30) for _ in range(2))
    one.update(scores[:11], truth[:11].long(), range(11))
    other.update(scores[11:], truth[11:].long(), range(11, 30))
    one.merge(other)
    merged = one.compute()
    for value in whole.entries:
        assert merged[value.name] == pytest.approx(value.value)
    assert whole["RPrecision"] == whole["RPrecision@20"]
    assert whole.entry("RPrecision").bca_low == whole.entry("RPrecision@20").bca_low
    metric = weft.metrics.RPrecision()
    for part in (slice(0, 11), slice(11, 30)):
        metric.update(scores[part], truth[part].long())
    assert float(metric.compute()) == pytest.approx(whole["RPrecision"])
    assert (str(metric.spec), metric.k) == ("RPrecision", None)
    assert str(weft.metrics.RPrecision(k=3).spec) == "RPrecision@3"


def test_sampled_negatives():
    """Without a cut-off the value is among the candidates, also with an estimator."""
    draw = np.random.default_rng(5)
    scores, truth = draw.random((50, 200)), (draw.random((50, 200)) < 0.05).astype(int)
    settings = {"strategy": "sampled", "num_negatives": 20, "seed": 4}
    plain = weft.evaluate(scores, truth, metrics=["RPrecision", "RPrecision@200"], **settings)
    assert plain["RPrecision"] == pytest.approx(plain["RPrecision@200"])
    estimated = weft.evaluate(
        scores, truth, metrics="RPrecision", estimator="rank_estimate", **settings
    )
    assert estimated["RPrecision"] == pytest.approx(plain["RPrecision"])
    assert has_trait("RPrecision", "sampling_behaviour") == "candidates"
    assert any("RPrecision" in note and "candidates" in note for note in estimated.notes)


def test_composites_and_arithmetic_read_it():
    result = weft.evaluate(
        LISTS,
        TRUTH,
        items=range(1, 9),
        metrics=["F1(metric_name_1=RPrecision, metric_name_2=Recall)@2", "RPrecision * 2"],
    )
    name = "F1(metric_name_1=RPrecision, metric_name_2=Recall)@2"
    by_user = [2 * 2 / 3 * 1 / 3, 1 / 2, 1 / 2]  # of RPrecision 2/3, 1/2, 1/2, Recall 1/3, 1/2, 1/2
    assert result[name] == pytest.approx(sum(by_user) / 3)
    assert result["RPrecision * 2"] == pytest.approx(10 / 9)


def test_command_line_and_configuration(tmp_path):
    rows = [(user, item) for user, items in LISTS.items() for item in items]
    wanted = [(user, item) for user, items in TRUTH.items() for item in items]
    for name, pairs in (("lists", rows), ("truth", wanted)):
        frame = pl.DataFrame(pairs, schema=["user", "item"], orient="row")
        frame.write_csv(tmp_path / f"{name}.csv")
    files = [f"--recs={tmp_path}/lists.csv", f"--truth={tmp_path}/truth.csv"]
    flags = ["-m", "RPrecision,RPrecision@2,Recall", "-k", "2", "-f", "csv"]
    output = CliRunner().invoke(app, ["evaluate", *files, *flags])
    assert output.exit_code == 0, output.output
    table = pl.read_csv(output.stdout.encode())
    found = dict(zip(zip(table["metric"], table["k"]), table["value"]))
    assert found == pytest.approx(
        {("RPrecision", None): 5 / 9, ("RPrecision", 2): 4 / 9, ("Recall", 2): 4 / 9}
    )
    (tmp_path / "run.yaml").write_text(
        f"data: {{truth: {tmp_path}/truth.csv}}\n"
        f"models: {{m: {tmp_path}/lists.csv}}\n"
        "evaluation: {metrics: [RPrecision, Recall], top_k: [2], gates: ['RPrecision >= 0.5']}\n"
    )
    output = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run.yaml"), "-f", "csv"])
    assert output.exit_code == 0, output.output
    assert "RPrecision" in output.output


def test_other_metrics_keep_their_cutoff():
    with pytest.raises(SettingError, match=r"Recall needs a cut-off"):
        weft.evaluate(LISTS, TRUTH, metrics="Recall")
    with pytest.raises(SettingError, match=r"cut-off k"):
        weft.metrics.Recall(k=None)
    with pytest.raises(SettingError, match=r"AUC does not depend on a cut-off"):
        weft.evaluate(LISTS, TRUTH, metrics="AUC@3")
