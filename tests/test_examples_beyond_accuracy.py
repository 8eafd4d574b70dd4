"""Novelty, diversity, popularity and exposure on a small example, and values of other tools.

Each value was computed by formula and, where a tool is named, by running that tool on the same
data: RecTools 0.19.0, RePlay 0.22.0, recommenders 1.2.1, evidently 0.7.23, recmetrics 0.1.5,
PyG 2.8.1, LensKit 2025.8.1, ndeval of pyndeval 0.0.8."""

import pytest
import torch

import weft
from weft.errors import InputError

LISTS = {"a": [3, 5, 4, 6], "b": [2, 4, 5, 7], "c": [2, 3, 4, 5]}
TRAIN = {"a": [1, 2], "b": [1, 3], "c": [1], "d": [1, 2, 4]}
TRUTH = {"a": {5: 2, 4: 1, 8: 3}, "b": {4: 3, 7: 1}, "c": {2: 1, 6: 2}}
CATEGORIES = {1: "A", 2: "A", 3: "B", 4: "B", 5: "C", 6: "C", 7: "A", 8: "C"}


VECTORS = {"A": (1, 0), "B": (0, 1), "C": (1, 1)}


def run(metric, lists=LISTS, **changes):
    inputs = {
        "train": TRAIN,
        "items": list(range(1, 9)),
        "item_clusters": CATEGORIES,
        "item_features": {item: [category] for item, category in CATEGORIES.items()},
        "inputs": {
            "item_vectors": {item: VECTORS[CATEGORIES[item]] for item in CATEGORIES},
            "reference": {"a": [5, 8], "b": [2, 4], "c": [6, 2]},
        },
    }
    inputs |= {"mask_seen": False, "per_user": True}
    return weft.evaluate(lists, TRUTH, metrics=[metric], **inputs | changes)


@pytest.mark.parametrize(
    ("metric", "value", "by_user"),
    [
        ("MIUF@4", 1.833333, [2, 1.75, 1.75]),  # RecTools
        ("MIUF(cold_items=skip)@4", 1.722222, None),  # evidently
        ("SelfInformation@4", 2.833333, [3, 2.75, 2.75]),
        ("Surprisal@4", 0.916667, [1, 0.875, 0.875]),  # RePlay
        ("ILD(distance=category)@4", 0.777778, [0.666667, 0.833333, 0.833333]),  # PyG
        # recommenders
        ("ILD(distance=cooccurrence)@4", 0.685730, [1, 0.292893, 0.764298]),
        ("ILS(distance=cooccurrence)@4", 1 - 0.685730, None),
        ("Personalization@4", 0.333333, None),  # PyG, recmetrics
        ("Personalization(overlap=cosine)@4", 0.333333, None),
        ("ILD@4", 0.384941, [0.195262, 0.479780, 0.479780]),  # recommenders
        ("ILS@4", 0.615059, None),  # recmetrics
        ("Serendipity(definition=dissimilarity)@4", 0.191074, [0.323223, 0.25, 0]),  # recommenders
        ("Serendipity@4", 0.145833, [0.21875, 0.1875, 0.03125]),  # RecTools
        ("Serendipity(definition=base)@4", 0.166667, [0.25, 0.25, 0]),
        ("Unexpectedness@2", 0.333333, [0.5, 0, 0.5]),  # RePlay
        ("Unexpectedness@4", 0.666667, [0.75, 0.5, 0.75]),  # RePlay
        ("Intersection@4", 0.333333, [0.25, 0.5, 0.25]),  # RecTools
        ("Calibration@4", 3.031345, [6.643856, 0.492822, 1.957356]),
        ("Calibration(divergence=js)@4", 0.568145, [1, 0.155639, 0.548795]),
        ("Calibration(divergence=hellinger)@4", 0.696597, None),
        ("ARP(normalize=interactions)@4", 0.09375, None),  # RecTools
        ("PopularityQuantile@4", 0.28125, [0.1875, 0.28125, 0.375]),  # LensKit
        ("PopularityLift@4", -0.763158, None),
        ("ExpectedExposureLoss@4", 1.192524, [1.376705, 1.350922, 0.849945]),
        ("ExpectedExposureDisparity@4", 1.328125, None),
        ("ExpectedExposureRelevance@4", 0.628353, [0.491992, 0.571289, 0.821777]),
        ("AWRF@4", 0.893078, [0.761783, 0.966090, 0.951360]),
        ("Gini(denominator=N, weight=geometric, p=0.5)@4", 0.552778, None),  # LensKit
        ("Gini(denominator=N)@4", 0.416667, None),  # LensKit
        ("alpha_nDCG@4", 0.621776, [0.601261, 0.650921, 0.613147]),  # ndeval
        ("ERR_IA@4", 0.555556, [0.5, 0.5, 0.666667]),  # ndeval's nERR-IA
        ("P_IA@4", 0.208333, [0.25, 0.25, 0.125]),  # ndeval
        ("SRecall@4", 0.833333, None),  # ndeval
        ("CategoryDiversity@4", 0.666667, [0.5, 0.75, 0.75]),  # RePlay
        ("CategoryEntropy@4", 1.333333, [1, 1.5, 1.5]),
        # LensKit's with 1e-6 added to each count
        (
            "CategoryEntropy(weight=geometric)@4",
            1.323859,
            [0.995253, 1.491003, 1.485323],
        ),
    ],
)
def test_values_on_example(metric, value, by_user):
    check(metric, value, by_user)


def check(metric, value, by_user=None, **changes):
    result = run(metric, **changes)
    assert result.entries[0].value == pytest.approx(value, abs=5e-7)
    if by_user is not None:
        users = dict(zip(result.per_user["user"], result.per_user[result.entries[0].name]))
        assert [users[user] for user in "abc"] == pytest.approx(by_user, abs=5e-7)


def test_hamming_distance_on_example():
    """RecTools, with the binary features A (1, 0), B (0, 1), C (1, 1)."""
    sets = {"A": ["x"], "B": ["y"], "C": ["x", "y"]}
    features = {item: sets[category] for item, category in CATEGORIES.items()}
    check("ILD(distance=hamming)@4", 1, [0.666667, 1.166667, 1.166667], item_features=features)


def test_new_to_user_on_example():
    """RePlay's Novelty, which counts users of train without a list as 1: .75 here."""
    result = run("NewToUser@2", {"a": [1, 5], "b": [3, 4]}, missing_lists="skip")
    assert result["NewToUser@2"] == 0.5


def test_history_needs_user_numbers():
    scores, target = torch.rand(3, 4), torch.tensor([[1, 0, 0, 0]] * 3)
    train = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0]])
    evaluator = weft.Evaluator("NewToUser@2", train=train, mask_seen=False)
    with pytest.raises(InputError, match="needs user_indices to know the train interactions"):
        evaluator.update(scores, target)
    with pytest.raises(
        InputError, match="user_indices contains 2; expected rows of train, from 0 to 1"
    ):
        evaluator.update(scores, target, torch.arange(3))
    with pytest.raises(
        InputError, match="user_indices contains 2; expected rows of train, from 0 to 1"
    ):
        weft.metrics.NewToUser(k=2, train=train).update(scores, target)


def test_serendipity_is_computed_in_float64():
    """The cold item 3 is at position 2 of 5: 4/5 over a list of 2."""
    metric = weft.metrics.Serendipity(k=2, train=torch.tensor([[1, 0, 0, 0, 0]]))
    metric.update(torch.tensor([[0.1, 0.9, 0.0, 0.5, 0.2]]), torch.tensor([[0, 0, 0, 1, 0]]))
    assert float(metric.compute()) == pytest.approx(0.4, abs=1e-15)
