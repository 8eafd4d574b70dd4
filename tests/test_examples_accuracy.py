"""Accuracy metrics on a small example, and values of other tools.

Each value was computed by formula and, where a tool is named, by running that tool on the same
data: the code of trec_eval in pytrec_eval-terrier 0.5.11, ir_measures 0.4.3 (cwl, gdeval, pyndeval
0.0.8), ranx 0.3.21, LensKit 2025.8.1, Cornac 3.0.1, recommenders 1.2.1, torchmetrics 1.9.0,
RecTools 0.19.0."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import weft

LISTS = {"a": [3, 5, 4, 6], "b": [2, 4, 5, 7], "c": [2, 3, 4, 5]}
TRAIN = {"a": [1, 2], "b": [1, 3], "c": [1], "d": [1, 2, 4]}
# Ratings of 0 are judged and not relevant.
TRUTH = {"a": {5: 2, 4: 1, 8: 3, 3: 0, 6: 0}, "b": {4: 3, 7: 1, 2: 0}, "c": {2: 1, 6: 2, 3: 0}}


@pytest.mark.parametrize(
    ("metric", "value", "by_user"),
    [
        ("RPrecision", 0.555556, [0.666667, 0.5, 0.5]),  # trec_eval, ranx
        ("RPrecision@4", 0.555556, [0.666667, 0.5, 0.5]),
        ("RPrecision@2", 0.444444, [0.333333, 0.5, 0.5]),  # recommenders
        ("RBP(p=0.5)@4", 0.395833, [0.375, 0.3125, 0.5]),  # cwl
        ("RBP(p=0.8)@4", 0.250133, [0.288, 0.2624, 0.2]),  # cwl
        ("RBP(p=0.85)@4", 0.201831, [0.235875, 0.219619, 0.15]),  # LensKit
        ("RBP(p=0.8, relevance=graded)@4", 0.410133, [0.448, 0.5824, 0.2]),  # ranx
        (
            "RBP(p=0.8, relevance=graded, max_grade=3)@4",
            0.410133 / 3,
            [0.448 / 3, 0.5824 / 3, 0.2 / 3],
        ),
        ("RBP(p=0.85, normalize=True)@4", 0.647744, [0.611273, 0.791419, 0.540541]),  # LensKit
        ("DCG(gain=linear)@4", 1.695108, [1.761860, 2.323466, 1]),  # ranx
        ("DCG@4", 2.746658, [2.392789, 4.847185, 1]),  # ranx
        ("NCRR@4", 0.540404, [0.454545, 0.5, 0.666667]),  # Cornac
        ("MAP(normalizer=k)@4", 0.263889, [0.291667, 0.25, 0.25]),
        ("FallOut@2", 0.261111, [0.333333, 0.25, 0.2]),  # torchmetrics
        ("FallOut@4", 0.588889, [0.666667, 0.5, 0.6]),  # torchmetrics
        ("Accuracy(universe=catalogue)@4", 0.625, [0.625, 0.75, 0.5]),  # RecTools
        ("MCC(universe=catalogue)@4", 0.278516, [0.258199, 0.577350, 0]),  # RecTools
        ("ERR(max_grade=4)@4", 0.133572, [0.110677, 0.227539, 0.0625]),  # gdeval
        ("ERR(max_grade=3)@4", 0.259983, [0.213542, 0.441406, 0.125]),
        ("nERR(max_grade=3)@4", 0.346237, [0.236823, 0.5, 0.301887]),
        ("Judged@2", 1, [1, 1, 1]),  # ir_measures
        ("Judged@4", 0.75, [1, 0.75, 0.5]),  # ir_measures
        ("bpref@4", 0.277778, [0.333333, 0, 0.5]),  # trec_eval
        ("infAP@4", 0.462964, [0.388891, 0.500002, 0.5]),  # trec_eval
        ("RBPResidual(p=0.8)@4", 0.529067, [0.4096, 0.5376, 0.64]),
        ("IPrec(recall=0)@4", 0.722222, [0.666667, 0.5, 1]),  # trec_eval
        ("IPrec(recall=0.5)@4", 0.722222, [0.666667, 0.5, 1]),  # trec_eval
        ("IPrec(recall=1)@4", 0.166667, [0, 0.5, 0]),  # trec_eval
        ("IPrec@4", 0.489899, None),  # trec_eval's 11pt_avg
        ("PartialAUC@1", 0.166667, [0, 0, 0.5]),  # RecTools
        ("PartialAUC@2", 0.361111, [0.333333, 0.25, 0.5]),  # RecTools
        ("PAP@1", 0.333333, [0, 0, 1]),  # RecTools
        ("PAP@2", 0.416667, [0.5, 0.25, 0.5]),  # RecTools
        # Offered are 6, 6 and 7 items.
        ("Accuracy@4", 0.531746, [3 / 6, 4 / 6, 3 / 7]),
        ("MCC@4", (0.5 - 1 / 120**0.5) / 3, [0, 0.5, -1 / 120**0.5]),
    ],
)
def test_values_on_example(metric, value, by_user):
    result = weft.evaluate(
        LISTS, TRUTH, train=TRAIN, mask_seen=True, items=range(1, 9), metrics=metric, per_user=True
    )
    assert result.entries[0].value == pytest.approx(value, abs=5e-7)
    users = dict(zip(result.per_user["user"], result.per_user[result.entries[0].name]))
    if by_user is not None:
        assert [users[user] for user in "abc"] == pytest.approx(by_user, abs=5e-7)


def test_curve_of_precision_and_recall():
    """torchmetrics."""
    result = weft.evaluate(
        LISTS, TRUTH, items=range(1, 9), metrics=["Precision", "Recall"], top_k=[1, 2, 3, 4]
    )
    curves = {
        "Precision": [0.3333, 0.5, 0.4444, 0.4167],
        "Recall": [0.1667, 0.4444, 0.5556, 0.7222],
    }
    for name, expected in curves.items():
        found = [result[f"{name}@{k}"] for k in (1, 2, 3, 4)]
        assert found == pytest.approx(expected, abs=5e-5)


def test_popularity_as_scores():
    """Recall, as a mean over the orders of equally popular items."""
    popularity = dict(zip(range(1, 9), [4, 2, 1, 1, 0, 0, 0, 0]))
    result = weft.evaluate(
        dict.fromkeys("abc", popularity),
        TRUTH,
        train=TRAIN,
        mask_seen=True,
        metrics="Recall@4",
        ties="expected",
    )
    assert result["Recall@4"] == pytest.approx(0.680556, abs=5e-7)


def evaluate(metric, truth=TRUTH, **settings):
    return weft.evaluate(LISTS, truth, items=range(1, 9), metrics=metric, **settings)


def test_gains_of_ratings():
    """a: rating 2 has gain 9 at position 2, 1 has 3 at 3, and 3 keeps its own."""
    result = evaluate("nDCG(gain=[[1, 3], [2, 9]])@4", per_user=True)
    discounts = [1, 1 / 1.584962500721156, 1 / 2]
    best = 9 * discounts[0] + 3 * discounts[1] + 3 * discounts[2]
    by_user = dict(zip(result.per_user["user"], result.per_user[result.entries[0].name]))
    assert by_user["a"] == pytest.approx((9 * discounts[1] + 3 * discounts[2]) / best)
    alias = evaluate("nDCG(gains=[[2, 9], [1, 3]])@4")
    objects = [
        weft.metrics.nDCG(k=4, gain={1: 3, 2: 9}),
        weft.metrics.nDCG(k=4, gains={2: 9, 1: 3}),
    ]
    for metric in objects:
        assert str(metric.spec) == "nDCG(gain=[[1.0, 3.0], [2.0, 9.0]])@4" == alias.entries[0].name
        assert (
            evaluate(metric).entries[0].value == result.entries[0].value == alias.entries[0].value
        )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nDCG(gain=[])@4", "gains of at least 0 by rating"),
        ("nDCG(gain=[[1, -1]])@4", "gains of at least 0"),
        ("nDCG(gain=[1, 2])@4", "gains of at least 0 by rating"),
        ("nDCG(gain=[[1, linear]])@4", "gains of at least 0 by rating"),
        ("nDCG(gain=linear, gains=[[1, 2]])@4", "has the parameter 'gain' twice"),
        ("DCG(discount=none)@4", "discount"),
        ("RBP(p=1)@4", "p=1; it must be a number between 0 and 1"),
        ("RBP(max_grade=3)@4", "got max_grade=3 with relevance='binary'"),
        ("RBP(relevance=graded, normalize=True)@4", "got normalize=True with relevance='graded'"),
        ("RBP(relevance=graded, max_grade=0)@4", "a number above 0"),
        ("RPrecision(multiple=0)@4", "a number above 0"),
        ("MCC(universe=users)@4", "universe"),
        ("IPrec(recall=[])@4", "at least one level"),
        ("IPrec(recall=1.5)@4", "from 0 to 1"),
        ("IPrec(recall=all)@4", "a number from 0 to 1, or a list of such numbers"),
        ("Judged(users=all)@4", "users"),
        ("PAP(insufficient=drop)@4", "insufficient"),
        ("GAUC(max_fpr=0)", "above 0 and at most 1"),
    ],
)
def test_rejects_wrong_parameters(name, reason):
    with pytest.raises(weft.WeftError, match=reason):
        evaluate(name)


def test_gain_and_its_alias_exclude_each_other():
    with pytest.raises(weft.WeftError, match="nDCG got both gain and its alias gains; remove one"):
        weft.metrics.nDCG(k=4, gain="linear", gains={1: 2})


@pytest.mark.parametrize("name", ["RBP(relevance=graded, max_grade=2)@4", "nERR(max_grade=2)@4"])
def test_grade_above_the_scale_is_an_error(name):
    with pytest.raises(weft.WeftError, match="rating 3, but a metric has max_grade=2; give the"):
        evaluate(name)


NO_OTHERS = "no item of the truth is judged as not relevant"


def test_notes_that_all_judged_items_are_relevant():
    """Judged is then the precision of the list, bpref its recall."""
    names = ["Judged", "bpref", "infAP", "Precision(denominator=list)", "Recall"]
    truth = {user: {item: r for item, r in rated.items() if r} for user, rated in TRUTH.items()}
    result = evaluate(names, truth, top_k=4)
    (note,) = (note for note in result.notes if note.startswith(NO_OTHERS))
    assert "Judged, bpref, infAP treat all other items as not judged" in note
    assert result["Judged@4"] == result["Precision(denominator=list)@4"]
    assert result["bpref@4"] == pytest.approx(result["Recall@4"])
    assert result.counts["judged_not_relevant"] == 0


def test_ratings_below_the_threshold_are_judged():
    result = evaluate("bpref@4")
    assert result.counts["judged_not_relevant"] == 4
    assert not [note for note in result.notes if note.startswith(NO_OTHERS)]
    higher = {user: {item: r + 2 for item, r in rated.items()} for user, rated in TRUTH.items()}
    again = evaluate("bpref@4", higher, relevance_threshold=3)
    assert again["bpref@4"] == result["bpref@4"]
    assert again.counts["judged_not_relevant"] == 4


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "nDCG(gain=[[1, 0], [2, 0], [3, 0]])@4",
            "no user has a relevant item with a gain above 0",
        ),
        ("PAP(insufficient=exclude)@9", "all of these users are excluded"),
        ("PartialAUC(insufficient=exclude)@9", "all of these users are excluded"),
    ],
)
def test_undefined_values_name_their_reason(name, reason):
    result = evaluate(name, {user: TRUTH[user] for user in "ac"})  # b's list has all relevant items
    assert np.isnan(result.entries[0].value)
    (note,) = (note for note in result.notes if " is undefined: " in note)
    assert note.startswith(result.entries[0].name) and note.endswith(reason)


def test_judged_of_empty_lists():
    result = weft.evaluate(
        {"a": [], "b": []}, TRUTH, items=range(1, 9), metrics="Judged(users=lists)@4"
    )
    assert np.isnan(result["Judged(users=lists)@4"])
    assert [note for note in result.notes if note.endswith("all evaluated lists are empty")]


def test_judged_of_all_lists():
    """d has a list and no relevant item, of which one of two items is judged."""
    lists, truth = {**LISTS, "d": [1, 2]}, {**TRUTH, "d": {2: 0}}
    settings = {"items": range(1, 9), "metrics": ["Judged", "Judged(users=lists)"], "top_k": 4}
    result = weft.evaluate(lists, truth, **settings)
    assert result["Judged@4"] == pytest.approx(0.75)
    assert result["Judged(users=lists)@4"] == pytest.approx((1 + 0.75 + 0.5 + 0.5) / 4)


@pytest.mark.parametrize("max_fpr", [0.05, 0.3, 1.0])
def test_partial_area_matches_scikit_learn(max_fpr):
    rng = np.random.default_rng(0)
    scores, truth = rng.integers(0, 9, (40, 30)).astype(float), rng.random((40, 30)) < 0.2
    truth[:, 0] = True
    name = f"GAUC(max_fpr={max_fpr})"
    result = weft.evaluate(scores, truth.astype(int), metrics=name, per_user=True)
    areas = [roc_auc_score(y, x, max_fpr=max_fpr) for y, x in zip(truth, scores)]
    assert result.per_user[name].to_list() == pytest.approx(areas, abs=1e-12)
