"""Models of other shapes as sources, and metrics for the Trainer of Hugging Face."""

import re
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

import weft
from weft.errors import InputError, SettingError
from weft.integrations.huggingface import ComputeMetrics

USERS, ITEMS = 11, 13
GENERATOR = torch.Generator().manual_seed(2)
TABLE = torch.rand(USERS, ITEMS, generator=GENERATOR)
TRUTH = {user: [(user * 3) % ITEMS, (user * 3 + 4) % ITEMS] for user in range(USERS)}
METRICS = ["nDCG@5", "Recall@5", "GAUC"]
EXPECTED = weft.evaluate(TABLE, TRUTH, metrics=METRICS)


class Pairs(nn.Module):
    """Scores pairs, and records how it was called."""

    def __init__(self, is_column=False):
        super().__init__()
        self.dropout, self.is_column, self.sizes = nn.Dropout(0.5), is_column, []

    def forward(self, user_ids, item_ids):
        self.sizes.append(len(user_ids))
        scores = self.dropout(TABLE[user_ids, item_ids])
        return scores[:, None] if self.is_column else scores


class Predictor:
    """An object with `predict`, as in LightFM and Surprise; it gets arrays."""

    def predict(self, user_ids, item_ids):
        assert isinstance(user_ids, np.ndarray) and user_ids.shape == item_ids.shape
        return TABLE.numpy()[user_ids, item_ids]


def evaluate(model, **options):
    return weft.evaluate(model, TRUTH, items=range(ITEMS), metrics=METRICS, **options)


@pytest.mark.parametrize(
    "model",
    [Pairs(), Pairs(is_column=True), Predictor(), lambda users, items: TABLE[users, items]],
)
@pytest.mark.parametrize("batch_pairs", [1, 20, 1 << 20])
def test_models_of_pairs(model, batch_pairs):
    result = evaluate(weft.PairwiseModel(model, batch_pairs=batch_pairs), batch_size=4)
    assert result == EXPECTED


def test_modules_of_pairs_are_in_evaluation_mode_for_the_call():
    model = Pairs().train()
    assert evaluate(weft.PairwiseModel(model)) == EXPECTED
    assert model.training and model.dropout.training


def test_candidates_are_the_only_pairs():
    model = Pairs()
    candidates = {user: [*items, 12] for user, items in TRUTH.items()}
    result = evaluate(weft.PairwiseModel(model), candidates=candidates)
    assert sum(model.sizes) <= USERS * 3
    expected = weft.evaluate(TABLE, TRUTH, candidates=candidates, metrics=METRICS)
    assert result == expected


def test_text_ids_arrive_as_lists():
    names = [f"u{user}" for user in range(USERS)]
    titles = [f"i{item}" for item in range(ITEMS)]

    def predict(users, items):
        assert isinstance(users, list) and isinstance(items, list)
        return [float(TABLE[int(user[1:]), int(item[1:])]) for user, item in zip(users, items)]

    truth = {names[user]: [titles[item] for item in items] for user, items in TRUTH.items()}
    result = weft.evaluate(weft.PairwiseModel(predict), truth, items=titles, metrics=METRICS)
    assert result == pytest.approx(EXPECTED)


def test_wrong_answers_are_named():
    with pytest.raises(InputError, match=r"for 143 pairs.*shape \[2, 2\].*\[143\]"):
        evaluate(weft.PairwiseModel(lambda users, items: torch.zeros(2, 2)))
    with pytest.raises(InputError, match="PairwiseModel got an int"):
        weft.PairwiseModel(3)
    with pytest.raises(InputError, match=re.escape("give their ids with items=")):
        weft.evaluate(weft.PairwiseModel(Pairs()), TRUTH, metrics=METRICS)


@pytest.mark.parametrize("model", [Pairs(), lambda users, item_ids: 0, Predictor()])
def test_models_of_pairs_need_the_adapter(model):
    with pytest.raises(InputError, match=r"weft\.PairwiseModel\(model\)"):
        evaluate(model)


def test_optional_parameters_of_models_are_left_alone():
    def score(users, temperature=1.0, **more):
        return TABLE[users] / temperature

    assert evaluate(score) == EXPECTED


# --------------------------------------------------------------------------------------------------
# Hugging Face


def prediction(rows=slice(None), labels=None):
    labels = np.array([TRUTH[user] + [-100] for user in range(USERS)]) if labels is None else labels
    return SimpleNamespace(predictions=TABLE.numpy()[rows], label_ids=labels[rows])


def test_compute_metrics_of_everything():
    evaluator = weft.Evaluator(METRICS)
    compute = ComputeMetrics(evaluator)
    assert compute(prediction()) == pytest.approx(EXPECTED)
    assert compute(prediction()) == pytest.approx(EXPECTED)  # each call starts anew
    assert compute.result.entry("nDCG@5").users == USERS
    outputs = prediction()
    outputs.predictions = (outputs.predictions, np.zeros(3))  # further outputs of the model
    assert compute(outputs) == pytest.approx(EXPECTED)


def test_compute_metrics_batch_by_batch():
    compute = ComputeMetrics(weft.Evaluator(METRICS))
    for _ in range(2):
        assert compute(prediction(slice(0, 4)), compute_result=False) == {}
        assert compute(prediction(slice(4, 8)), compute_result=False) == {}
        assert compute(prediction(slice(8, None)), compute_result=True) == pytest.approx(EXPECTED)


def test_compute_metrics_with_one_label_per_row():
    labels = np.array([TRUTH[user][0] for user in range(USERS)])
    expected = weft.evaluate(
        TABLE, {user: [item] for user, item in enumerate(labels)}, metrics=METRICS
    )
    assert ComputeMetrics(weft.Evaluator(METRICS))(prediction(labels=labels)) == pytest.approx(
        expected
    )


def test_compute_metrics_with_inputs():
    compute = ComputeMetrics(
        weft.Evaluator(METRICS),
        inputs=lambda given: {
            "preds": -given.predictions,
            "target": given.label_ids,
            "user_indices": given.inputs,
        },
    )
    given = prediction()
    given.predictions, given.inputs = -given.predictions, np.arange(USERS)
    assert compute(given) == pytest.approx(EXPECTED)


def test_compute_metrics_names_what_is_missing():
    with pytest.raises(SettingError, match=r"takes a weft\.Evaluator; got a list"):
        ComputeMetrics(["nDCG@5"])
    with pytest.raises(InputError, match=r"the prediction has no label_ids.*label_names"):
        ComputeMetrics(weft.Evaluator(METRICS))(SimpleNamespace(predictions=TABLE, label_ids=None))

    several = SimpleNamespace(predictions=TABLE, label_ids=(prediction().label_ids, np.arange(3)))
    with pytest.raises(InputError, match=r"label_ids of the prediction is a tuple of 2.*inputs="):
        ComputeMetrics(weft.Evaluator(METRICS))(several)


def test_factors_and_frames_of_other_libraries():
    """The one-liners of the documentation, for objects of the shape that these libraries have."""
    left, right = torch.rand(USERS, 3), torch.rand(ITEMS, 3)
    implicit = SimpleNamespace(user_factors=left.numpy(), item_factors=right.numpy())
    factors = weft.Factors(implicit.user_factors, implicit.item_factors)
    expected = weft.evaluate(left @ right.T, TRUTH, metrics=METRICS)
    assert weft.evaluate(factors, TRUTH, metrics=METRICS) == pytest.approx(expected)
    top = TABLE.topk(5)
    frame = pl.DataFrame(
        {
            "user_id": np.repeat(np.arange(USERS), 5),
            "item_id": top.indices.flatten().numpy(),
            "rank": np.tile(np.arange(1, 6), USERS),
        }
    )
    listed = weft.evaluate(frame, TRUTH, items=range(ITEMS), metrics=METRICS[:2])
    assert listed["nDCG@5"] == pytest.approx(EXPECTED["nDCG@5"])
