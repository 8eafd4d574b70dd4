"""Ranks of relevant items among all offered items: MeanRank, PercentileRank and AMRI."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

import weft
from weft.errors import MissingInput

# The lists of the example of the definitions, continued by the other items in their order.
ORDERS = {"a": [3, 5, 4, 6, 7, 8], "b": [2, 4, 5, 7, 6, 8], "c": [2, 3, 4, 5, 6, 7, 8]}
LISTS = {
    user: {item: -position for position, item in enumerate(items)} for user, items in ORDERS.items()
}
TRUTH = {"a": {5: 2, 4: 1, 8: 3}, "b": {4: 3, 7: 1}, "c": {2: 1, 6: 2}}
NAMES = ["MeanRank", "MeanRank(average=items)", "MeanRank(mean=geometric)"]
NAMES += ["MeanRank(average=items, mean=geometric)", "PercentileRank", "AMRI"]
NAMES += ["PercentileRank(average=users)"]


def test_example_of_the_definitions():
    # MeanRank: rexmex 0.1.3; the others by formula.
    result = weft.evaluate(LISTS, TRUTH, metrics=NAMES, candidates="listed", per_user=True)
    assert result["MeanRank"] == pytest.approx(3.222222, abs=5e-7)
    assert result["MeanRank(average=items)"] == pytest.approx(3.2857, abs=5e-5)
    assert result["MeanRank(mean=geometric)"] == pytest.approx(2.788807, abs=5e-7)
    assert result["PercentileRank"] == pytest.approx(0.438095, abs=5e-7)
    assert result["AMRI"] == pytest.approx(0.135135, abs=5e-7)
    by_user = dict(zip(result.per_user["user"], result.per_user["MeanRank"]))
    assert by_user == pytest.approx({"a": 11 / 3, "b": 3.0, "c": 3.0})


def test_scores_and_complete_lists_agree():
    scores = torch.full((3, 9), -torch.inf)
    for row, ranked in enumerate(LISTS.values()):
        for item, score in ranked.items():
            scores[row, item] = score
    dense = weft.evaluate(
        scores, TRUTH, metrics=NAMES, users=list(TRUTH), items=list(range(9)), mask_seen=False
    )
    listed = weft.evaluate(LISTS, TRUTH, metrics=NAMES, candidates="listed")
    for value in dense.entries:
        assert value.value == pytest.approx(listed[value.name], rel=1e-12), value.name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("ties", ["index", "expected", "pessimistic"])
def test_ranks_match_scipy(dtype, ties):
    random = np.random.default_rng(5)
    scores = torch.from_numpy(random.integers(0, 40, (30, 200)) / 8).to(dtype)
    target = torch.from_numpy(random.random((30, 200)) < 0.05).int()
    ranks = [
        scipy.stats.rankdata(-row.double().numpy())[wanted.numpy() > 0]
        for row, wanted in zip(scores, target)
    ]
    evaluator = weft.Evaluator(metrics=NAMES, ties=ties)
    evaluator.update(scores, target)
    result = evaluator.compute()
    of_users = [of_user for of_user in ranks if len(of_user)]
    pooled = np.concatenate(ranks)
    assert result["MeanRank"] == pytest.approx(np.mean([row.mean() for row in of_users]), rel=1e-12)
    assert result["MeanRank(average=items)"] == pytest.approx(pooled.mean(), rel=1e-12)
    geometric = [scipy.stats.gmean(row) for row in of_users]
    assert result["MeanRank(mean=geometric)"] == pytest.approx(np.mean(geometric), rel=1e-12)
    assert result["MeanRank(average=items, mean=geometric)"] == pytest.approx(
        scipy.stats.gmean(pooled), rel=1e-12
    )
    assert result["PercentileRank"] == pytest.approx((pooled.mean() - 1) / 199, rel=1e-12)
    assert result["AMRI"] == pytest.approx(1 - (pooled.mean() - 1) / 99.5, rel=1e-9)


def test_constant_scores_are_random():
    result = weft.evaluate(torch.zeros(3, 5), torch.eye(3, 5), metrics=NAMES)
    assert (result["MeanRank"], result["PercentileRank"], result["AMRI"]) == (3, 0.5, 0)


def test_items_not_offered_are_left_out_and_counted():
    scores = torch.tensor([[3.0, 2.0, 1.0, -torch.inf], [1.0, 2.0, 3.0, 4.0], [-torch.inf] * 4])
    target = torch.tensor([[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]])
    result = weft.evaluate(scores, target, metrics=NAMES)
    assert result["MeanRank"] == 2 and result.entry("MeanRank").users == 1
    assert result["PercentileRank"] == 0.5 and result["AMRI"] == 0
    assert result.counts["relevant_not_offered"] == 2
    zero = weft.evaluate(scores, target, metrics=NAMES, empty_users="zero")
    assert zero["MeanRank"] == 2  # there is no rank 0
    only = weft.evaluate(torch.tensor([[1.0, -torch.inf]]), torch.tensor([[1, 0]]), metrics=NAMES)
    assert only["MeanRank"] == 1
    assert math.isnan(only["PercentileRank"]) and math.isnan(only["AMRI"])


def test_own_thresholds_match_thresholds_of_the_run():
    names = ["MeanRank", "MeanRank(average=items, mean=geometric)", "PercentileRank", "AMRI"]
    names += ["MeanRank(mean=geometric)", "LogLoss", "NE", "ScoreCalibration"]
    names += ["LogLoss(cells=offered)", "LogLoss(average=users)"]
    own = [
        f"{name[:-1]}, relevance_threshold=2)" if "(" in name else f"{name}(relevance_threshold=2)"
        for name in names
    ]
    both = weft.evaluate(LISTS, TRUTH, metrics=[*names, *own], candidates="listed")
    run = weft.evaluate(LISTS, TRUTH, metrics=names, candidates="listed", relevance_threshold=2)
    for name, with_threshold in zip(names, own):
        assert not math.isnan(run[name])
        assert both[with_threshold] == pytest.approx(run[name], rel=1e-12), name
        assert math.isnan(both[name]) or both[name] != pytest.approx(run[name]), name


def test_incomplete_lists_are_refused():
    with pytest.raises(MissingInput, match="MeanRank, AMRI need the scores of all items"):
        weft.evaluate(LISTS, TRUTH, metrics=["MeanRank", "AMRI"])


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("MeanRank(average=cells)", "'users', 'items'"),
        ("MeanRank(mean=harmonic)", "'arithmetic', 'geometric'"),
        ("PercentileRank(average=cells)", "'users', 'items'"),
        ("AMRI@5", "AMRI does not depend on a cut-off"),
    ],
)
def test_wrong_parameters(metric, message):
    with pytest.raises(weft.errors.SettingError, match=message):
        weft.evaluate(LISTS, TRUTH, metrics=metric, candidates="listed")
