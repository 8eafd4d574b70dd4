"""Metrics with several values: `compute` that returns a dict or a vector, everywhere."""

import json
import math

import pytest
import torch
from torchmetrics import MetricCollection

import weft
from local_engine import evaluate as evaluate_partitions
from local_engine import make_lists
from weft.errors import SettingError

B = weft.MetricBlock
GENERATOR = torch.Generator().manual_seed(11)
SCORES = torch.rand(30, 12, generator=GENERATOR, dtype=torch.float64)
TRUTH = (torch.rand(30, 12, generator=GENERATOR) < 0.3).double()


class HalfHits(weft.TopKMetric):
    """Hits in the first and in the second half of the list, with states of its own."""

    _REQUIRED_COMPONENTS = {B.TOP_K_BINARY_RELEVANCE}

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("halves", torch.zeros(2, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, preds, **kwargs):
        hits = kwargs[f"top_{self.k}_binary_relevance"].double()
        half = self.k // 2
        self.halves += torch.stack([hits[:, :half].sum(), hits[:, half:].sum()])

    def compute(self):
        return {"first": self.halves[0], "second": float(self.halves[1])}


class HalfVector(HalfHits):
    """The same as a vector with labels."""

    value_labels = ("first", "second")

    def compute(self):
        return self.halves


def expected_halves(k):
    halves = [0.0, 0.0]
    for scores, truth in zip(SCORES.tolist(), TRUTH.tolist()):
        ranked = sorted(range(len(scores)), key=lambda item: -scores[item])[:k]
        for position, item in enumerate(ranked):
            halves[position >= k // 2] += truth[item]
    return halves


@pytest.mark.parametrize("metric", [HalfHits, HalfVector])
def test_values_by_label_in_the_result(metric, tmp_path):
    result = weft.evaluate(SCORES, TRUTH, metrics=[metric, "Recall"], top_k=[2, 6])
    name = metric.__name__
    for k in (2, 6):
        first, second = expected_halves(k)
        assert result[f"{name}@{k}[first]"] == first
        assert result[f"{name}@{k}[second]"] == second
        assert result.entry(f"{name}@{k}[first]").cell == ("first",)
    assert f"{name}@2" not in list(result)
    assert f"{name}@6[second]" in result.to_tensors()
    assert "[first]" in str(result)
    result.save(tmp_path / "result.json")
    rows = json.loads((tmp_path / "result.json").read_text())["values"]
    assert ["first"] in [row["cell"] for row in rows]
    assert weft.load_result(tmp_path / "result.json")[f"{name}@6[first]"] == expected_halves(6)[0]


@pytest.mark.parametrize("metric", [HalfHits, HalfVector])
def test_values_by_label_under_torchmetrics(metric):
    alone, collection = metric(4), MetricCollection([metric(4), weft.metrics.Recall(k=4)])
    for rows in (slice(0, 13), slice(13, None)):
        alone.update(SCORES[rows], TRUTH[rows])
        collection.update(SCORES[rows], TRUTH[rows])
    first, second = expected_halves(4)
    value, values = alone.compute(), collection.compute()
    if metric is HalfHits:
        assert {name: float(one) for name, one in value.items()} == {
            "first": first,
            "second": second,
        }
        assert float(values["second"]) == second
    else:
        assert value.tolist() == values["HalfVector"].tolist() == [first, second]
    assert 0 < float(values["Recall"]) < 1


@pytest.mark.parametrize("metric", [HalfHits, HalfVector])
def test_values_by_label_pass_the_checks(metric):
    weft.register(metric)
    outcomes = weft.testing.check_metric(f"{metric.__name__}@4")
    assert outcomes["stays_separate_in_a_collection"] == "passed"
    assert outcomes["uses_what_it_declares"] == "passed"


def test_values_by_label_in_partitions():
    import numpy as np

    _, lists, truth = make_lists(np.random.default_rng(1), 30, 20)
    weft.register(HalfHits)
    options = {"metrics": ["HalfHits@4"], "missing_lists": "skip"}
    expected = weft.evaluate(lists, truth, **options)
    found = evaluate_partitions(lists, truth, **options)
    assert found.to_tensors() == expected.to_tensors()
    assert set(found.to_tensors()) == {"HalfHits@4[first]", "HalfHits@4[second]"}


@pytest.mark.parametrize("metric", [HalfHits, HalfVector])
def test_nan_scores_make_all_labels_undefined(metric):
    scores = SCORES.clone()
    scores[0, 0] = torch.nan
    alone = metric(4, nan_scores="nan")
    alone.update(scores, TRUTH)
    value = alone.compute()
    numbers = value.values() if isinstance(value, dict) else value
    assert all(math.isnan(one) for one in numbers)
    evaluator = weft.Evaluator([metric(4)], nan_scores="nan")
    evaluator.update(scores, TRUTH)
    assert all(math.isnan(one) for one in evaluator.compute().to_tensors().values())


def test_undefined_labels_have_a_note():
    class Undefined(HalfHits):
        undefined = "nothing is counted"

        def compute(self):
            return {"only": torch.tensor(torch.nan)}

    result = weft.evaluate(SCORES, TRUTH, metrics=[Undefined(4)])
    assert any("Undefined@4 for [only] is undefined: nothing is counted" in n for n in result.notes)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.ones(3), r"shape \[3\]; expected one number, or a dict .*value_labels"),
        ([1.0, 2.0], r"shape \[2\]; expected one number"),
        (None, "returned None; expected one number"),
        ({"a": torch.ones(2)}, r"shape \[2\] for the label 'a'; expected one number"),
        ({"a": "b"}, "for the label 'a', returned a str"),
        ({None: 1.0}, "the key None; keys are labels"),
        ({(): 1.0}, r"the key \(\); keys are labels"),
        ({1: 1.0, "1": 2.0}, "two labels with the same text"),
    ],
)
def test_other_values_are_refused(value, message):
    class Wrong(HalfHits):
        def compute(self):
            return value

    with pytest.raises(SettingError, match=f"Wrong.compute.*{message}"):
        weft.evaluate(SCORES, TRUTH, metrics=[Wrong(4)])


def test_labels_must_fit_the_vector():
    class Wrong(HalfVector):
        value_labels = ("first", "second", "third")

    with pytest.raises(SettingError, match=r"shape \[2\].*For the 3 labels of value_labels"):
        weft.evaluate(SCORES, TRUTH, metrics=[Wrong(4)])
