"""Exceptions in the code of authors' metrics are errors of these metrics, by name."""

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import weft
from engines import write_custom_metrics
from local_engine import evaluate, make_lists
from weft.cli import app
from weft.errors import MetricError, SettingError, WeftError
from weft.metrics import registry

GENERATOR = torch.Generator().manual_seed(1)
SCORES = torch.rand(20, 15, generator=GENERATOR)
TRUTH = (torch.rand(20, 15, generator=GENERATOR) < 0.2).float()


def look_up(values):
    return values[:, 99]


class FailsInScores(weft.UserAverageTopKMetric):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return look_up(top_k_rel)


class FailsInUpdate(weft.TopKMetric):
    def update(self, preds, **kwargs):
        raise AttributeError("no attribute")


class FailsInCompute(weft.TopKMetric):
    def update(self, preds, **kwargs):
        pass

    def compute(self):
        return 1 / 0


class FailsInConstructor(weft.UserAverageTopKMetric):
    def __init__(self, k, *, train, **settings):
        super().__init__(k, **settings)
        self.first = [][0]


class FailsInErrors(weft.RatingMetric):
    def compute_errors(self, preds, target):
        return preds @ target @ preds


class RefusesInput(weft.UserAverageTopKMetric):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        raise weft.errors.InputError("the author's own message")


CASES = {
    "FailsInScores": (FailsInScores, IndexError, "in compute_scores", "in look_up"),
    "FailsInUpdate": (FailsInUpdate, AttributeError, "in update"),
    "FailsInCompute": (FailsInCompute, ZeroDivisionError, "in compute"),
    "FailsInConstructor": (FailsInConstructor, IndexError, "in __init__"),
    "FailsInErrors": (FailsInErrors, RuntimeError, "in compute_errors"),
    "formula": (
        weft.Composite("formula", ["nDCG@5"], lambda ndcg: look_up(ndcg)),
        IndexError,
        "in <lambda>",
        "in look_up",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_names_the_metric_and_its_line(name):
    metric, kind, *places = CASES[name]
    with pytest.raises(
        MetricError, match=f"^the metric {name}(@3)? failed: {kind.__name__}"
    ) as error:
        weft.evaluate(
            SCORES, TRUTH, train=1 - TRUTH, mask_seen=False, metrics=[metric, "nDCG"], top_k=3
        )
    assert isinstance(error.value, WeftError)
    assert isinstance(error.value.__cause__, kind)
    text = str(error.value)
    assert all(place in text for place in places), text
    assert "test_author_errors.py" in text
    assert "state_layout.py" not in text  # nothing of Weft before the author's code


class ScoresWithoutKeywords(weft.UserAverageTopKMetric):
    def compute_scores(self, preds, target, top_k_rel):
        return top_k_rel.sum(1)


class ErrorsWithoutTarget(weft.RatingMetric):
    def compute_errors(self, preds):
        return preds


class ConstructorWithoutSettings(weft.UserAverageTopKMetric):
    def __init__(self, k):
        super().__init__(k)


class ValueWithoutSums(weft.SummedTopKMetric):
    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.hits = weft.UserSum(self.count_hits)

    def count_hits(self, lists):
        return lists.hits

    def compute_value(self):
        return 1


class SumsWithoutLists(ValueWithoutSums):
    def count_hits(self):
        return 1


@pytest.mark.parametrize(
    ("metric", "hint"),
    [
        (ScoresWithoutKeywords, "compute_scores(self, preds, target, top_k_rel, **kwargs)."),
        (ErrorsWithoutTarget, "compute_errors(self, preds, target)."),
        (ConstructorWithoutSettings, "must take **settings and pass them to super().__init__."),
        (ValueWithoutSums, "It must be defined as compute_value(self, sums)."),
        (SumsWithoutLists, "It must be defined as count_hits(self, lists)."),
    ],
)
def test_the_error_shows_the_parameters_of_a_method(metric, hint):
    with pytest.raises(MetricError, match=f"^the metric {metric.__name__}(@3)? failed") as error:
        weft.evaluate(SCORES, TRUTH, metrics=[metric], top_k=3)
    assert str(error.value).endswith(hint)
    assert isinstance(error.value.__cause__, TypeError)


def test_packages_beside_weft_are_of_authors(monkeypatch):
    """A package `weft_extras` is installed in the same folder as Weft."""
    source = """
import weft
class Extra(weft.UserAverageTopKMetric):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel[:, 99]
"""
    path = f"{Path(weft.__file__).parent}_extras/__init__.py"
    names = {"__name__": "weft_extras"}
    exec(compile(source, path, "exec"), names)
    with pytest.raises(MetricError, match=r"the class weft_extras\.Extra"):
        weft.evaluate(SCORES, TRUTH, metrics=[names["Extra"]], top_k=3)


def test_evaluators_raise_it_too():
    evaluator = weft.Evaluator([FailsInScores, FailsInCompute], top_k=3)
    with pytest.raises(MetricError, match="FailsInScores@3"):
        evaluator.update(SCORES, TRUTH)
    evaluator = weft.Evaluator([FailsInCompute], top_k=3)
    evaluator.update(SCORES, TRUTH)
    with pytest.raises(MetricError, match="FailsInCompute@3"):
        evaluator.compute()


def test_errors_of_weft_and_of_its_own_metrics_stay_as_they_are(monkeypatch):
    with pytest.raises(weft.errors.InputError, match="the author's own message"):
        weft.evaluate(SCORES, TRUTH, metrics=[RefusesInput], top_k=3)

    def fail(self, topk):
        return look_up(topk.batch.users)

    monkeypatch.setattr("weft.metrics.accuracy.Recall.user_values", fail)
    with pytest.raises(IndexError):  # a bug of Weft is no error of an author
        weft.evaluate(SCORES, TRUTH, metrics=["Recall@3"])


def test_partitions_report_it():
    _, lists, truth = make_lists(np.random.default_rng(5), 20, 15)
    with pytest.raises(MetricError, match=r"(?s)the metric FailsInScores@3 failed: .*in look_up"):
        evaluate(lists, truth, metrics=[FailsInScores(3)])


def test_commands_report_it_as_an_error_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.metrics.registry._classes", dict(registry._classes))
    path = str(write_custom_metrics(tmp_path))
    done = CliRunner().invoke(app, ["evaluate", path, "--metrics", "OwnShare@7"])
    assert done.exit_code == 2, done.output
    assert "error: the metric OwnShare@7 failed: ArithmeticError: not by seven" in done.stderr
    assert "own_helper.py" in done.stderr and "bug in Weft" not in done.stderr
    assert CliRunner().invoke(app, ["evaluate", path]).exit_code == 0


def test_partitions_refuse_a_state_for_each_user_and_merge_those_of_groups(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.metrics.registry._classes", dict(registry._classes))
    path = write_custom_metrics(tmp_path)
    assert CliRunner().invoke(app, ["evaluate", str(path)]).exit_code == 0  # registers the metrics
    files = {name: tmp_path / f"{name}.csv" for name in ("lists", "truth", "groups")}
    with pytest.raises(
        SettingError, match="OwnRows@5 takes num_users, but on the test each partition"
    ):
        evaluate(files["lists"], files["truth"], metrics=["OwnRows@5"])
    settings = {"metrics": ["OwnGroupHits@5"], "user_groups": files["groups"]}
    expected = weft.evaluate(files["lists"], files["truth"], **settings)
    result = evaluate(files["lists"], files["truth"], **settings)
    assert result["OwnGroupHits@5"] == expected["OwnGroupHits@5"] > 0


FAILING_MODULE = """
import weft

@weft.register
class FailsWithoutPower(weft.UserAverageTopKMetric):
    def __init__(self, k, *, power=1, **settings):
        super().__init__(k, **settings)
        self.power = 1 / power
"""


def test_configurations_report_it_once_in_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.metrics.registry._classes", dict(registry._classes))
    (tmp_path / "failing_metrics.py").write_text(FAILING_MODULE)
    (tmp_path / "run.yaml").write_text("""
data: {truth: truth.csv, inputs: {price: prices.csv}}
models: {als: als.csv}
evaluation:
  custom_modules: failing_metrics.py
  metrics: ['FailsWithoutPower(power=0)@3']
""")
    done = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run.yaml")])
    assert done.exit_code == 2, done.output
    assert done.stderr.count("the metric FailsWithoutPower failed: ZeroDivisionError") == 1
    assert "\n    self.power = 1 / power" in done.stderr
