"""The forms of predictions and targets that `update` takes: arrays, item numbers and padding."""

import json

import numpy as np
import pytest
import torch

import weft
from weft.errors import InputError

SCORES = torch.rand(6, 9, generator=torch.Generator().manual_seed(1))
ITEMS = [[0, 4], [8], [], [3, 5, 7], [1], [2]]
DENSE = torch.zeros(6, 9).index_put_(
    tuple(torch.tensor([[row, item] for row, items in enumerate(ITEMS) for item in items]).T),
    torch.tensor(1.0),
)
METRICS = ["nDCG@3", "Recall@3", "AUC"]


def pad(filling):
    return [items + [filling] * (3 - len(items)) for items in ITEMS]


def evaluate(preds, target, **more):
    evaluator = weft.Evaluator(METRICS, num_items=9)
    evaluator.update(preds, target, **more)
    alone = weft.metrics.nDCG(k=3)
    alone.update(preds, target, **more)
    values = dict(evaluator.compute())
    assert float(alone.compute()) == values["nDCG@3"]
    return values


EXPECTED = evaluate(SCORES, ITEMS)


@pytest.mark.parametrize("preds", [SCORES, SCORES.numpy(), SCORES.numpy().astype(np.float64)])
@pytest.mark.parametrize(
    "target",
    [
        DENSE.numpy(),
        DENSE.numpy().astype(bool),
        DENSE.numpy().astype(np.int8),
        np.array(pad(-1)),
        np.array(pad(-100), dtype=np.int32),
        torch.tensor(pad(-100)),
        pad(-100),
        [np.array(items, dtype=np.int64) for items in ITEMS],
    ],
)
def test_arrays_and_paddings_are_read_like_tensors(preds, target):
    assert evaluate(preds, target) == EXPECTED
    indices = np.arange(6)
    assert evaluate(preds, target, user_indices=indices) == EXPECTED


def test_one_target_per_row_as_an_array():
    targets = np.array([4, 8, -100, 3, 1, 2])
    expected = evaluate(SCORES, [[4], [8], [], [3], [1], [2]])
    assert evaluate(SCORES.numpy(), targets) == expected
    assert evaluate(SCORES, torch.from_numpy(targets)) == expected


@pytest.mark.parametrize("wrong", [-2, -99, -101, 9])
def test_other_numbers_are_no_padding(wrong):
    with pytest.raises(InputError, match=f"target contains the item {wrong}"):
        evaluate(SCORES, np.array([wrong, 1, 2, 3, 4, 5]))


@pytest.mark.parametrize("preds", [[[0.5, 1.0]], SCORES[0], SCORES[0].numpy(), "scores"])
def test_other_predictions_are_refused(preds):
    with pytest.raises(InputError, match=r"preds is .*expected scores \[batch, items\]"):
        evaluate(preds, ITEMS)


def test_masked_targets_are_refused():
    masked = np.ma.masked_array(DENSE.numpy(), mask=DENSE.numpy() == 0)
    with pytest.raises(InputError, match="target"):
        evaluate(SCORES, masked)


def test_values_have_a_json_form():
    evaluator = weft.Evaluator(["nDCG@3", "Recall@3"], prefix="val_")
    evaluator.update(SCORES, ITEMS)
    result = evaluator.compute()
    values = json.loads(json.dumps(result.to_dict()))["values"]
    assert [value["value"] for value in values] == list(result.values())
    assert [*result.to_tensors()] == ["val_nDCG@3", "val_Recall@3"]
    evaluator.reset()
    evaluator.update(SCORES, [[]] * 6)
    assert {value["value"] for value in evaluator.compute().to_dict()["values"]} == {None}
