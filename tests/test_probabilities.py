"""Scores as probabilities: LogLoss, NE, ScoreCalibration and ECE."""

import math

import numpy as np
import pytest
import torch

import weft
from oracles_ratings import SCORED
from weft.data.devices import treat_cpu_as_device
from weft.errors import InputError, MissingInput

# The example of the definitions: stored ratings of 0 are not relevant.
LOGITS = {"a": {5: 2.0, 4: 0.5, 3: -1.0}, "b": {4: 1.0, 2: 0.0}, "c": {2: -0.5}}
LABELS = {"a": {5: 1, 4: 1, 3: 0}, "b": {4: 1, 2: 0}, "c": {2: 1}}
NAMES = ["LogLoss", "NE", "ScoreCalibration", "ECE(bins=2)", "ECE"]
GENERATOR = np.random.default_rng(7)
USERS, ITEMS = 40, 30
SCORES = torch.from_numpy(GENERATOR.normal(0, 2, (USERS, ITEMS)))
TRUTH = {
    user: {
        int(item): int(GENERATOR.integers(0, 2))
        for item in GENERATOR.choice(ITEMS, GENERATOR.integers(1, 9), replace=False)
    }
    for user in range(USERS)
}
IDS = {"users": "positions", "items": "positions"}


def flat(scores):
    """The scores and labels of all interactions of the truth."""
    cells = [(user, item, label) for user, row in TRUTH.items() for item, label in row.items()]
    return [float(scores[user, item]) for user, item, _ in cells], [label for *_, label in cells]


def test_example_of_the_definitions():
    # LogLoss: scikit-learn 1.8; the others by formula.
    result = weft.evaluate(LOGITS, LABELS, metrics=NAMES)
    assert result["LogLoss"] == pytest.approx(0.482459, abs=5e-7)
    assert result["NE"] == pytest.approx(0.757970, abs=5e-7)
    assert result["ScoreCalibration"] == pytest.approx(0.845199, abs=5e-7)
    assert result["ECE(bins=2)"] == pytest.approx(0.1032, abs=5e-5)


@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_values_match_scikit_learn_and_the_oracle(kind):
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    scores = SCORES if kind == "logits" else SCORES.sigmoid()
    params = f"scores={kind}"
    names = [f"LogLoss({params})", f"NE({params})", f"ScoreCalibration({params})"]
    names += [f"ECE({params})", f"ECE({params}, bins=4)"]
    result = weft.evaluate(scores, TRUTH, metrics=names, **IDS)
    predicted, labels = flat(SCORES.sigmoid())
    expected = sklearn_metrics.log_loss(labels, predicted)
    assert result.entries[0].value == pytest.approx(expected, rel=1e-12)
    cells = [(score, label, bool(label)) for score, label in zip(*flat(scores))]
    for value in result.entries:
        name, _, inside = value.metric.partition("(")
        bins = {"bins": 4} if "bins=4" in inside else {}
        assert value.value == pytest.approx(SCORED[name](cells, kind, **bins), rel=1e-12)


def test_certain_probabilities_have_a_finite_loss():
    lists, labels = {"a": {1: 0.0, 2: 1.0, 3: 1.0}}, {"a": {1: 1, 2: 0, 3: 1}}
    result = weft.evaluate(lists, labels, metrics=["LogLoss(scores=probabilities)", "LogLoss"])
    assert result["LogLoss(scores=probabilities)"] == pytest.approx(2 * -math.log(1e-15) / 3, 1e-3)
    extreme = {"a": {1: -800.0, 2: 800.0, 3: 800.0}}
    assert weft.evaluate(extreme, labels, metrics="LogLoss")["LogLoss"] == 1600 / 3


def test_ends_of_bins():
    lists = {"a": {1: 0.0, 2: 0.5, 3: 1.0, 4: 0.4999}}
    result = weft.evaluate(
        lists, {"a": {1: 0, 2: 1, 3: 1, 4: 0}}, metrics="ECE(scores=probabilities, bins=2)"
    )
    assert result.entries[0].value == pytest.approx((0.4999 + (2 - 1.5)) / 4)


@pytest.mark.parametrize("score", [-0.25, 1.5])
@pytest.mark.parametrize("name", ["LogLoss", "NE", "ScoreCalibration", "ECE"])
def test_probabilities_outside_the_range_are_refused(name, score):
    metric = f"{name}(scores=probabilities)"
    with pytest.raises(InputError, match=f"contain {score:g}.*from 0 to 1.*logits"):
        weft.evaluate({"a": {1: score}}, {"a": {1: 1}}, metrics=metric)
    with treat_cpu_as_device():
        standalone = getattr(weft.metrics, name)(scores="probabilities")
        standalone.update(torch.tensor([[score, 0.5]]), torch.tensor([[1, 0]]).to_sparse())
        with pytest.raises(InputError, match="outside \\[0, 1\\]"):
            standalone.compute()


def test_masked_scores_of_the_truth_are_read_and_missing_ones_left_out():
    lists, truth = {"a": {1: 1.0, 2: -1.0}}, {"a": {1: 1, 2: 0, 3: 1}, "b": {1: 1}}
    masked = weft.evaluate(lists, truth, train={"a": [1]}, mask_seen=True, metrics=NAMES)
    plain = weft.evaluate(lists, truth, metrics=NAMES)
    assert masked.to_tensors() == plain.to_tensors()
    assert plain.counts["ratings_without_score"] == 2
    assert plain["LogLoss"] == pytest.approx(math.log1p(math.exp(-1)))


def test_offered_items_are_candidates_of_users_of_the_truth():
    scores = torch.tensor(
        [[1.0, -2.0, 0.5, -torch.inf], [0.0, 3.0, 1.0, 2.0], [9.0, 9.0, 9.0, 9.0]]
    )
    names = ["LogLoss(cells=offered)", "LogLoss(cells=offered, average=users)"]
    truth = {0: {0: 1, 1: 0, 3: 1}, 1: {2: 1}}
    result = weft.evaluate(scores, truth, train={1: [3]}, metrics=names, **IDS)
    first = [-math.log(sigmoid(1)), -math.log(1 - sigmoid(-2)), -math.log(1 - sigmoid(0.5))]
    second = [-math.log(0.5), -math.log(1 - sigmoid(3)), -math.log(sigmoid(1))]
    assert result[names[0]] == pytest.approx(sum(first + second) / 6)
    assert result[names[1]] == pytest.approx((sum(first) / 3 + sum(second) / 3) / 2)
    assert result.entry(names[1]).users == 2
    as_probabilities = weft.evaluate(
        torch.where(scores > -torch.inf, scores.double().sigmoid(), scores),
        truth,
        train={1: [3]},
        metrics="LogLoss(scores=probabilities, cells=offered)",
        **IDS,
    )
    assert as_probabilities.entries[0].value == pytest.approx(result[names[0]])


def sigmoid(score):
    return 1 / (1 + math.exp(-score))


def test_offered_items_need_all_scores():
    with pytest.raises(MissingInput, match=r"\(cells=offered\) needs the scores of all items"):
        weft.evaluate(LOGITS, LABELS, metrics="LogLoss(cells=offered)")
    listed = weft.evaluate(LOGITS, LABELS, metrics="LogLoss(cells=offered)", candidates="listed")
    assert listed.entries[0].value == pytest.approx(0.482459, abs=5e-7)


def test_undefined_values():
    nothing = weft.evaluate({"a": {2: 1.0}}, {"a": {1: 1}}, metrics=NAMES)
    assert all(math.isnan(value.value) for value in nothing.entries)
    relevant = weft.evaluate({"a": {1: 1.0}}, {"a": {1: 1}}, metrics=NAMES)
    assert math.isnan(relevant["NE"]) and not math.isnan(relevant["LogLoss"])
    other = weft.evaluate({"a": {1: 1.0}}, {"a": {1: 0}}, metrics=NAMES)
    assert math.isnan(other["NE"]) and math.isnan(other["ScoreCalibration"])
    assert any("NE" in note and "all interactions are relevant" in note for note in other.notes)


def test_batches_shards_and_resamples_agree():
    names = [*NAMES, "LogLoss(cells=offered)", "LogLoss(average=users)"]
    whole = weft.evaluate(SCORES, TRUTH, metrics=names, bootstrap=30, seed=3, **IDS)
    small = weft.evaluate(SCORES, TRUTH, metrics=names, bootstrap=30, seed=3, batch_size=7, **IDS)
    for one, other in zip(whole.entries, small.entries):
        assert not math.isnan(one.value)
        assert (one.value, one.boot_low, one.boot_high) == pytest.approx(
            (other.value, other.boot_low, other.boot_high), rel=1e-12
        )
    target = torch.zeros(USERS, ITEMS)
    for user, row in TRUTH.items():
        for item, label in row.items():
            target[user, item] = 1 + 4 * label  # a rating of 1 or 5
    halves = [weft.Evaluator(metrics=names, relevance_threshold=4) for _ in range(2)]
    for part, evaluator in enumerate(halves):
        evaluator.update(SCORES[part::2], target[part::2], torch.arange(part, USERS, 2))
    halves[0].merge(halves[1])
    for value in halves[0].compute().entries:
        assert value.value == pytest.approx(whole[value.name], rel=1e-12)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("LogLoss(scores=odds)", "'logits', 'probabilities'"),
        ("LogLoss(cells=all)", "'truth', 'offered'"),
        ("LogLoss(average=items)", "'cells', 'users'"),
        ("ECE(bins=0)", "ECE got bins=0; it must be an integer of at least 1"),
    ],
)
def test_wrong_parameters(metric, message):
    with pytest.raises(weft.errors.SettingError, match=message):
        weft.evaluate(LOGITS, LABELS, metrics=metric)
