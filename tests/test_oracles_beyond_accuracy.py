"""The oracles beyond accuracy against numbers worked out by hand."""

import math
import statistics
from dataclasses import replace

import pytest

from oracles import summary
from oracles_beyond_accuracy import Answer, World, answer, head, lists, missing_oracles, user_answer
from weft.metrics.registry import built_in_metrics

OUT, NAN = -math.inf, math.nan
LOG3 = math.log2(3)
TWO = 1 + 1 / LOG3  # d_1 + d_2
THREE = TWO + 1 / 2  # d_1 + d_2 + d_3

# Train: n = 3, 2, 1, 1, 0 (b's second 0 is the same cell), T = 7, four users. "t" is in the train
# alone. Lists:  a 2 3 4  b 1 3 4  c 4 3 1 (2 has no score)  d nothing (no row)  e 0 Relevant: a 0
# (masked) and 2; b 4; c 2; d 1; e nothing. Clusters P: 0 1, Q: 2 3, none: 4. Groups F: a c, M: b t,
# none: d e.
TRAIN = {"a": [0, 1], "b": [0, 0, 2], "c": [0], "t": [1, 3]}
WORLD = World(
    scores={
        "a": (9, 8, 3, 2, 1),
        "b": (1, 5, 9, 4, 3),
        "c": (9, 1, OUT, 2, 3),
        "d": None,
        "e": (1, OUT, OUT, OUT, OUT),
    },
    truth={
        "a": {2: 2.0, 0: 1.0},
        "b": {4: 1.0, 3: 0.0},
        "c": {2: 1.0},
        "d": {1: 3.0},
        "e": {0: 0.0},
    },
    num_items=5,
    train=TRAIN,
    user_groups={"a": "F", "b": "M", "c": "F", "e": None, "t": "M", "nobody": "Z"},
    item_clusters={0: "P", 1: "P", 2: "Q", 3: "Q", 4: None, 77: "Z"},
    item_features={0: ["x"], 2: ["x", "y"], 3: ["z"], 1: [], 4: ["w", "y"], 77: ["v"]},
)


def close(value):
    """Compare with no more than rounding between."""
    return pytest.approx(value, rel=1e-12, abs=1e-12, nan_ok=True)


def test_lists_are_as_documented():
    assert lists(WORLD, 9) == {"a": [2, 3, 4], "b": [1, 3, 4], "c": [4, 3, 1], "d": [], "e": [0]}
    assert lists(replace(WORLD, mask_seen=False), 2) == {
        "a": [0, 1],
        "b": [2, 1],
        "c": [0, 4],
        "d": [],
        "e": [0],
    }


@pytest.mark.parametrize(
    ("metric", "k", "params", "expected"),
    [
        # |s - r|: a 1, 8 (a masked item has a score); b 2, 4; c has none; d has none; e 1
        ("MAE", None, {}, 16 / 5),
        ("MAE", None, {"average": "users"}, (4.5 + 3 + 1) / 3),
        ("MSE", None, {}, 86 / 5),
        ("MSE", None, {"average": "users"}, (32.5 + 10 + 1) / 3),
        ("RMSE", None, {}, math.sqrt(86 / 5)),
        ("RMSE", None, {"average": "users"}, (math.sqrt(32.5) + math.sqrt(10) + 1) / 3),
        # items 2 1 4 0 at k = 1, and 3 at k = 2
        ("ItemCoverage", 1, {}, 4),
        ("ItemCoverage", 2, {}, 5),
        ("ItemCoverage", 1, {"as_fraction": True}, 4 / 5),
        ("UserCoverage", 2, {}, 4),
        ("UserCoverage", 2, {"as_fraction": True}, 4 / 5),
        ("NumRetrieved", 2, {}, (2 + 2 + 2 + 0 + 1) / 5),
        ("NumRetrieved", 9, {}, (3 + 3 + 3 + 0 + 1) / 5),
        ("UserCoverageAtN", 2, {}, 3),
        ("UserCoverageAtN", 9, {}, 0),
        ("UserCoverageAtN", 9, {"n": 3}, 3),
        ("UserCoverageAtN", 9, {"n": 1}, 4),
        ("UserCoverageAtN", 2, {"n": 3}, 0),  # n > k
        ("UserCoverageAtN", 2, {"as_fraction": True}, 3 / 5),
        ("UserCoverageAtN", 2, {"n": 1, "as_fraction": True}, 4 / 5),
        # nov 1/4 1/2 3/4 3/4 1; a hits item 2 first, b hits item 4 third; four evaluated users
        ("EPC", 2, {}, 0.75 / TWO / 4),
        ("EPC", 3, {}, (0.75 + 1 / 2) / THREE / 4),
        ("EPC", 2, {"relevance": "graded"}, 3 * 0.75 / TWO / 4),
        ("EPC", 2, {"relevance": "discounted"}, 3 * 0.75 / TWO / 4),
        (
            "EPC",
            2,
            {"relevance": "none"},
            (0.75 * TWO + (0.5 + 0.75 / LOG3) + (1 + 0.75 / LOG3)) / TWO / 4,
        ),
        # nov log2 of 7/3 7/2 7 7 and, for the cold item 4, 7
        ("EFD", 2, {}, math.log2(7) / TWO / 4),
        ("EFD", 3, {}, math.log2(7) * (1 + 1 / 2) / THREE / 4),
        ("EFD", 3, {"relevance": "graded"}, math.log2(7) * (3 + 1 / 2) / THREE / 4),
        ("EFD", 1, {"relevance": "none"}, (math.log2(7) + math.log2(7 / 2) + math.log2(7)) / 4),
        # c at k = 2: 1 1 1 3 1; ascending 1 1 1 1 3 times -4 -2 0 2 4 is 8; sum 7
        ("Gini", 2, {}, 8 / (4 * 7)),
        ("Gini", 2, {"denominator": "N"}, 8 / (5 * 7)),
        ("ShannonEntropy", 2, {}, 4 / 7 * math.log(7) + 3 / 7 * math.log(7 / 3)),
        ("ShannonEntropy", 2, {"base": 2}, 4 / 7 * math.log2(7) + 3 / 7 * math.log2(7 / 3)),
        ("ShannonEntropy", 1, {"base": 2}, 2),  # 1/4 each of 2 1 4 0
        ("ShannonEntropy", 1, {"normalized": True}, math.log(4) / math.log(5)),
        ("ShannonEntropy", 1, {"base": 2, "normalized": True}, 2 / math.log2(5)),
        # features wanted: a x y, b w y, c x y, d none (left out); of the hits: a x y; of the lists:
        # a x y z, b z, c w y z
        ("SRecall", 2, {}, (1 + 0 + 0) / 3),
        ("SRecall", 2, {"denominator": "catalogue"}, (2 / 4) / 4),
        ("SRecall", 2, {"numerator": "list"}, (3 / 2 + 1 / 2 + 3 / 2) / 3),
        (
            "SRecall",
            2,
            {"denominator": "catalogue", "numerator": "list"},
            (3 / 4 + 1 / 4 + 3 / 4 + 0) / 4,
        ),
        # tail 3 4; in the lists: a 1, b 1, c 2, d 0, e 0 (not evaluated)
        ("ACLT", 2, {}, 4 / 5),
        ("ACLT", 2, {"users": "evaluated"}, 4 / 4),
        ("ACLT", 2, {"pop_ratio": 0.4}, 6 / 5),  # the head is item 0 alone
        ("APLT", 2, {}, 4 / 2 / 5),
        ("APLT", 9, {}, 6 / 9 / 5),
        ("APLT", 9, {"denominator": "list"}, (2 / 3 + 2 / 3 + 2 / 3 + 0 + 0) / 5),
        ("APLT", 9, {"denominator": "list", "users": "evaluated"}, (2 / 3 + 2 / 3 + 2 / 3 + 0) / 4),
        ("APLT", 2, {"pop_ratio": 0.4, "users": "evaluated"}, 6 / 2 / 4),
        # a (1 + 1)/2, b (2 + 1)/2, c (0 + 1)/2, d left out, e 3
        ("ARP", 2, {}, (1 + 1.5 + 0.5 + 3) / 4),
        ("ARP", 2, {"users": "evaluated"}, (1 + 1.5 + 0.5) / 3),
        ("ARP", 2, {"unseen": 1}, (1 + 1.5 + 1 + 3) / 4),
        # head 0 1 2: relevant a0 a2 c2 d1, hit a2; tail 3 4: relevant b4, hit at k = 3
        ("PopREO", 2, {}, (1 / 8) / (1 / 8)),
        ("PopREO", 3, {}, (3 / 8) / (5 / 8)),
        # the head is 0: relevant a0, not offered, so 0; the tail: relevant a2 b4 c2 d1, hit 1
        ("PopREO", 2, {"pop_ratio": 0.4}, 1),
        # offered, head + tail: a 1 + 2, b 1 + 2, c 1 + 2, e 1 + 0; recommended 1 + 1, 1 + 1, 0 + 2,
        # 1 + 0: rates 3/4, 4/6
        ("PopRSP", 2, {}, (1 / 24) / (17 / 24)),
        ("PopRSP", 2, {"users": "evaluated"}, 0),  # 2/3, 4/6
        ("PopRSP", 2, {"pop_ratio": 0.4}, (1 / 6) / (5 / 6)),  # head e0: 1/1; tail 6/9
        # P: relevant a0 d1, no hit; Q: relevant a2 c2, hit a2; b4 has no cluster
        ("REO", 2, {}, (1 / 4) / (1 / 4)),
        # P: offered b1 c1 e0, recommended b1 e0; Q: offered a2 a3 b3 c3, all recommended
        ("RSP", 2, {}, (1 / 6) / (5 / 6)),
        # items shown to a, b, c: 2 once with gain 3 in front, 3 three times and 1 once with gain 0;
        # P 0, Q (3 + 0)/2
        ("ItemMADRanking", 2, {}, 3 / 2),
        ("ItemMADRanking", 2, {"gain": "linear"}, 2 / 2),
        ("ItemMADRanking", 2, {"gain": "binary"}, 1 / 2),
        ("ItemMADRanking", 2, {"gain": "exponential_shifted"}, 7 / 2),
        ("ItemMADRating", 9, {}, NAN),  # hits a2 (cluster Q) and b4 (no cluster)
        # nDCG: a 3 of 3 + 1/log2(3), c 0; b 0
        ("UserMADRanking", 2, {}, 3 / (3 + 1 / LOG3) / 2),
        ("UserMADRanking", 2, {"gain": "linear"}, 2 / (2 + 1 / LOG3) / 2),
        ("UserMADRanking", 2, {"gain": "binary"}, 1 / TWO / 2),
        ("UserMADRanking", 2, {"gain": "exponential_shifted"}, 7 / (7 + 3 / LOG3) / 2),
        # mean scores: a 5/2, c 5/2; b 9/2
        ("UserMADRating", 2, {}, 2),
    ],
)
def test_values_on_worked_example(metric, k, params, expected):
    assert answer(metric, WORLD, k, **params).value == close(expected)


@pytest.mark.parametrize(
    ("metric", "k", "params", "values"),
    [
        ("NumRetrieved", 2, {}, {"a": 2, "b": 2, "c": 2, "d": 0, "e": 1}),
        ("UserCoverage", 2, {"as_fraction": True}, {"a": 1, "b": 1, "c": 1, "d": 0, "e": 1}),
        ("UserCoverageAtN", 2, {"as_fraction": True}, {"a": 1, "b": 1, "c": 1, "d": 0, "e": 0}),
        ("EPC", 2, {}, {"a": 0.75 / TWO, "b": 0, "c": 0, "d": 0, "e": NAN}),
        ("EFD", 1, {}, {"a": math.log2(7), "b": 0, "c": 0, "d": 0, "e": NAN}),
        ("SRecall", 2, {}, {"a": 1, "b": 0, "c": 0, "d": NAN, "e": NAN}),
        (
            "SRecall",
            2,
            {"denominator": "catalogue"},
            {"a": 1 / 2, "b": 0, "c": 0, "d": 0, "e": NAN},
        ),
        ("ACLT", 2, {}, {"a": 1, "b": 1, "c": 2, "d": 0, "e": 0}),
        ("APLT", 2, {"users": "evaluated"}, {"a": 1 / 2, "b": 1 / 2, "c": 1, "d": 0, "e": NAN}),
        ("ARP", 2, {}, {"a": 1, "b": 1.5, "c": 0.5, "d": NAN, "e": 3}),
        ("ARP", 2, {"users": "evaluated"}, {"a": 1, "b": 1.5, "c": 0.5, "d": NAN, "e": NAN}),
        ("MAE", None, {"average": "users"}, {"a": 4.5, "b": 3, "c": NAN, "d": NAN, "e": 1}),
        ("MSE", None, {"average": "users"}, {"a": 32.5, "b": 10, "c": NAN, "d": NAN, "e": 1}),
        (
            "RMSE",
            None,
            {"average": "users"},
            {"a": math.sqrt(32.5), "b": math.sqrt(10), "c": NAN, "d": NAN, "e": 1},
        ),
        ("Recall", 3, {}, {"a": 1 / 2, "b": 1, "c": 0, "d": 0, "e": NAN}),
        # a: Recall 1/2, EPC 0.75/TWO; the others 0 and 0
        (
            "EucDistance",
            2,
            {"metric_names": ["Recall", "EPC"], "utopia_points": [1, 0.5], "scope": "users"},
            {
                "a": math.hypot(1 / 2, 0.75 / TWO - 1 / 2),
                "b": math.hypot(1, 0.5),
                "c": math.hypot(1, 0.5),
                "d": math.hypot(1, 0.5),
            },
        ),
        # ARP is better when lower, and undefined for d
        (
            "Hypervolume",
            2,
            {"metric_names": ["Recall", "ARP"], "nadir_points": [-1, 1.25], "scope": "users"},
            {"a": 1.5 * 0.25, "b": 0, "c": 1 * 0.75},
        ),
        (
            "F1",
            2,
            {"metric_name_1": "Recall", "metric_name_2": "NumRetrieved"},
            {"a": 2 * 0.5 * 2 / 2.5, "b": 0, "c": 0, "d": 0},
        ),
        (
            "F1",
            2,
            {"metric_1": "ARP", "metric_2": "Recall", "beta": 2.0},
            {"a": 5 * 1 * 0.5 / (4 * 1 + 0.5), "b": 0, "c": 0},
        ),
    ],
)
def test_values_per_user_mean_and_standard_error(metric, k, params, values):
    assert {user: user_answer(metric, WORLD, user, k, **params) for user in WORLD.scores} == close(
        {user: values.get(user, NAN) for user in WORLD.scores}
    )
    known = [value for value in values.values() if not math.isnan(value)]
    found = answer(metric, WORLD, k, **params)
    assert (found.value, found.users, found.cells) == (
        close(statistics.fmean(known)),
        len(known),
        {},
    )
    assert found.std_error == close(statistics.stdev(known) / math.sqrt(len(known)))


def test_user_counts_have_no_standard_error():
    for metric, params in (("UserCoverage", {}), ("UserCoverageAtN", {"n": 1})):
        assert [user_answer(metric, WORLD, user, 2, **params) for user in WORLD.scores] == [
            1,
            1,
            1,
            0,
            1,
        ]
        assert (
            answer(metric, WORLD, 2, **params).users,
            answer(metric, WORLD, 2, **params).std_error,
        ) == (None, close(NAN))


@pytest.mark.parametrize(
    "metric",
    ["Gini", "ItemCoverage", "ShannonEntropy", "PopREO", "PopRSP", "REO", "RSP", "UserMADRating"],
)
def test_global_metrics_have_no_values_per_user(metric):
    assert (answer(metric, WORLD, 2).users, answer(metric, WORLD, 2).std_error) == (
        None,
        close(NAN),
    )
    with pytest.raises(ValueError, match="no value per user"):
        user_answer(metric, WORLD, "a", 2)


def test_one_user_has_no_standard_error():
    one = replace(WORLD, scores={"a": WORLD.scores["a"]}, truth={})
    assert answer("NumRetrieved", one, 2) == Answer(2.0, {}, close(NAN), 1)


# Cells


def test_values_by_label_on_worked_example():
    """Half of the four labelled items are in each cluster, so that a disparity is twice
    the share.
    """
    # F: a0 a1 c0 on P. M: b0 t1 on P, b2 t3 on Q.
    source = {("F", "P"): 2, ("F", "Q"): 0, ("M", "P"): 1, ("M", "Q"): 1}
    assert answer("BiasDisparityBS", WORLD, None) == Answer(
        close(NAN), close(source), close(NAN), None
    )
    # F: a2 a3 c3 on Q, and c4 on nothing. M: b1 on P, b3 on Q.
    shown = {("F", "P"): 0, ("F", "Q"): 2, ("M", "P"): 1, ("M", "Q"): 1}
    assert answer("BiasDisparityBR", WORLD, 2).cells == close(shown)
    between = {("F", "P"): -1, ("F", "Q"): NAN, ("M", "P"): 0, ("M", "Q"): 0}
    assert answer("BiasDisparityBD", WORLD, 2).cells == close(between)
    assert answer("REO", WORLD, 2).cells == close({("P",): 0, ("Q",): 1 / 2})
    assert answer("RSP", WORLD, 2).cells == close({("P",): 2 / 3, ("Q",): 1})


def test_catalogue_share_counts_labelled_items():
    """Of three labelled items one is in P: F has only P in the train (1 / (1/3)), M has b0 of b0,
    b2, t3 (1/3 / (1/3)).
    """
    world = replace(WORLD, item_clusters={0: "P", 2: "Q", 3: "Q"})
    expected = {("F", "P"): 3, ("F", "Q"): 0, ("M", "P"): 1, ("M", "Q"): 1}
    assert answer("BiasDisparityBS", world, None).cells == close(expected)


def test_labels_only_in_train_or_catalogue():
    """Group 0 is that of t, who is in the train alone; cluster 9 is in nobody's train, truth or
    list. Labels may be 0.
    """
    world = replace(
        WORLD, user_groups={"a": 1, "t": 0}, item_clusters={0: 7, 1: 7, 2: 8, 3: 8, 4: 9}
    )
    world = replace(world, truth={"a": {2: 1.0}, "d": {1: 1.0}})
    # a: 0 1 of 7; t: 1 of 7, 3 of 8; shares of the catalogue 2/5 2/5 1/5
    source = {(1, 7): 2.5, (1, 8): 0, (1, 9): 0, (0, 7): 1.25, (0, 8): 1.25, (0, 9): 0}
    assert answer("BiasDisparityBS", world, None).cells == close(source)
    # a is shown 2 3 of 8; t has no list
    shown = {(1, 7): 0, (1, 8): 2.5, (1, 9): 0, (0, 7): NAN, (0, 8): NAN, (0, 9): NAN}
    assert answer("BiasDisparityBR", world, 2).cells == close(shown)
    disparity = {(1, 7): -1, (1, 8): NAN, (1, 9): NAN, (0, 7): NAN, (0, 8): NAN, (0, 9): NAN}
    assert answer("BiasDisparityBD", world, 2).cells == close(disparity)
    # relevant: d1 of 7 (no list), a2 of 8 (hit), none of 9
    assert answer("REO", world, 2).cells == close({(7,): 0, (8,): 1, (9,): NAN})
    assert answer("REO", world, 2).value == close(1)


def test_clusters_that_are_not_offered_have_no_rate():
    """Without a and b: offered are c1 c3 c4 and e0; shown are c4 c3 and e0."""
    scores = {"c": WORLD.scores["c"], "d": None, "e": WORLD.scores["e"]}
    world = replace(
        WORLD, scores=scores, truth={}, item_clusters={0: "P", 1: "P", 2: "Q", 3: "R", 4: "R"}
    )
    assert answer("RSP", world, 2).cells == close({("P",): 1 / 2, ("Q",): NAN, ("R",): 1})
    assert answer("RSP", world, 2).value == close((1 / 4) / (3 / 4))


def test_three_clusters_use_the_population_deviation():
    """Rates 0, 1/2, 1: mean 1/2, variance 1/6."""
    scores = {"u": (4.0, 3.0, 2.0, 1.0)}
    world = World(
        scores,
        {"u": dict.fromkeys(range(4), 1.0)},
        4,
        item_clusters={0: "x", 1: "y", 2: "y", 3: "z"},
    )
    assert answer("REO", world, 2).cells == close({("x",): 1, ("y",): 1 / 2, ("z",): 0})
    assert answer("REO", world, 2).value == close(math.sqrt(1 / 6) / (1 / 2))
    assert answer("RSP", world, 2).cells == answer("REO", world, 2).cells


# Mean absolute differences

# u is shown 0 1 2 and wants 1 (rating 1) and 2 (rating 2); v is shown 2 1 0 and wants 1 (rating 2);
# w wants nothing.
MAD = World(
    scores={"u": (9.0, 6.0, 4.0, OUT), "v": (1.0, 2.0, 5.0, OUT), "w": (0.0, 0.0, 0.0, 8.0)},
    truth={"u": {1: 1.0, 2: 2.0}, "v": {1: 2.0}, "w": {3: 0.0}},
    num_items=4,
    user_groups={"u": "F", "v": "M", "w": "X"},
    item_clusters={0: "A", 1: "B", 2: "C", 3: "D"},
)


@pytest.mark.parametrize(
    ("metric", "params", "expected"),
    [
        # A 0; B (1/log2(3) + 3/log2(3))/2; C (3/2 + 0)/2; D, shown to w alone, nothing
        ("ItemMADRanking", {}, [0, 2 / LOG3, 3 / 4]),
        ("ItemMADRanking", {"discount": False}, [0, 2, 3 / 2]),
        ("ItemMADRanking", {"gain": "linear"}, [0, 3 / 2 / LOG3, 1 / 2]),
        ("ItemMADRanking", {"gain": "binary"}, [0, 1 / LOG3, 1 / 4]),
        ("ItemMADRanking", {"gain": "exponential_shifted", "discount": False}, [0, 5, 7 / 2]),
        # A never hit; B (6 + 2)/2; C 4 of u (v's score of 2 is no hit)
        ("ItemMADRating", {}, [4, 4]),
        # u (1/log2(3) + 3/2) of 3 + 1/log2(3); v 1/log2(3); w not evaluated
        ("UserMADRanking", {}, [(1 / LOG3 + 3 / 2) / (3 + 1 / LOG3), 1 / LOG3]),
        ("UserMADRanking", {"gain": "binary"}, [(1 / LOG3 + 1 / 2) / TWO, 1 / LOG3]),
        # u 19/3, v 8/3, w (8 + 0 + 0)/3
        ("UserMADRating", {}, [19 / 3, 8 / 3, 8 / 3]),
    ],
)
def test_mean_absolute_differences_on_worked_example(metric, params, expected):
    pairs = [(a, b) for place, a in enumerate(expected) for b in expected[place + 1 :]]
    assert answer(metric, MAD, 3, **params).value == close(
        sum(abs(a - b) for a, b in pairs) / len(pairs)
    )


def test_cluster_values_average_items_not_appearances():
    """At k = 2: item 0 once 0; item 1 (1/log2(3) + 3/log2(3))/2; item 2 once 0. A holds 0 and 1, B
    holds 2.
    """
    world = replace(MAD, item_clusters={0: "A", 1: "A", 2: "B"})
    assert answer("ItemMADRanking", world, 2).value == close(abs((0 + 2 / LOG3) / 2 - 0))
    # A: item 1 (6 + 2)/2 alone, for 0 is never hit; B: item 2, at k = 3
    assert answer(
        "ItemMADRating", replace(world, scores={**MAD.scores, "v": (1.0, 2.0, 5.0, 0.0)}), 3
    ).value == close(0)
    assert answer(
        "ItemMADRating", replace(world, scores={**MAD.scores, "v": (1.0, 3.0, 5.0, 0.0)}), 3
    ).value == close(0.5)


def test_ratings_below_the_threshold_have_an_error_but_no_gain():
    """With a threshold of 2, u wants item 2 alone; v's rating of -1 is a cell of the rating
    metrics.
    """
    world = replace(
        MAD,
        threshold=2.0,
        truth={"u": {1: 1.0, 2: 2.0}, "v": {1: -1.0}},
        train={"u": [0], "v": [1]},
    )
    assert answer("EPC", world, 2).users == 1
    assert answer("MAE", world, None).value == close((5 + 2 + 3) / 3)  # v's item 1 is masked
    assert answer("MAE", world, None, average="users").users == 2
    # u is shown 1 2 for 0 is masked; nov of item 2 is 1
    assert answer("EPC", world, 2).value == close(1 / LOG3 / TWO)
    assert answer("EPC", world, 2, relevance="graded").value == close(3 / LOG3 / TWO)
    with pytest.raises(ValueError, match="threshold"):
        replace(world, threshold=None)


# Head and tail


@pytest.mark.parametrize(
    ("pop_ratio", "expected"),
    [
        (0.01, {0}),
        (3 / 7, {0}),
        (0.43, {0, 1}),
        (5 / 7, {0, 1}),
        (0.8, {0, 1, 2}),
        (0.9, {0, 1, 2, 3}),
        (1.0, {0, 1, 2, 3}),
    ],
)
def test_popular_head_is_the_shortest_prefix(pop_ratio, expected):
    """n = 3 2 1 1 0: the prefixes hold 3 5 6 7 7 of 7; of 2 and 3, which tie, the lower index is
    first.
    """
    assert head(WORLD, pop_ratio) == expected


def test_popular_head_has_a_tolerance():
    """Ten items seen once: three tenths are 3 of them, though 0.1 + 0.2 is more than 0.3 by
    rounding.
    """
    world = World({}, {}, 10, train={"u": range(10)})
    assert head(world, 0.1 + 0.2) == {0, 1, 2}
    assert head(world, 0.31) == {0, 1, 2, 3}
    with pytest.raises(ValueError, match="pop_ratio"):
        head(world, 0)
    with pytest.raises(ValueError, match="pop_ratio"):
        head(world, 1.1)


def test_popularity_bias_is_undefined_if_head_or_tail_is_empty():
    """With pop_ratio 1 the tail is the cold item 4; nobody wants it here, and then nobody is
    offered it.
    """
    world = replace(WORLD, truth={"a": {2: 1.0}})
    assert answer("PopREO", world, 2, pop_ratio=1.0) == Answer(close(NAN), {}, close(NAN), None)
    offered = replace(WORLD, scores={"e": WORLD.scores["e"]}, truth={})
    assert answer("PopRSP", offered, 2, pop_ratio=1.0).value == close(NAN)
    # both sides have a relevant item and no hit
    missed = replace(WORLD, truth={"a": {0: 1.0}, "d": {4: 1.0}})
    assert answer("PopREO", missed, 2).value == close(NAN)


# Awkward worlds

KNOWN = {
    "user_groups": {"u": "F", "v": "M"},
    "item_clusters": {0: "A", 1: "B"},
    "item_features": {0: ["x"], 1: ["y"]},
}
EVERY_LIST_METRIC = [
    "ItemCoverage UserCoverage NumRetrieved UserCoverageAtN EFD EPC Gini ShannonEntropy SRecall "
    "ACLT APLT ARP PopREO PopRSP",
    "REO RSP ItemMADRanking ItemMADRating UserMADRanking UserMADRating",
]


def values(world, k=2):
    return {
        metric: answer(metric, world, k).value
        for line in EVERY_LIST_METRIC
        for metric in line.split()
    }


def test_no_recommendations():
    """u is masked, v has no row; both want both items, in vain. Train: n = 1 1, T = 2, head 0 1,
    tail nothing.
    """
    world = World(
        {"u": (1.0, 2.0), "v": None},
        {"u": {0: 1.0, 1: 1.0}, "v": {0: 1.0, 1: 1.0}},
        2,
        train={"u": [0, 1]},
        **KNOWN,
    )
    zero = [
        "ItemCoverage",
        "UserCoverage",
        "NumRetrieved",
        "UserCoverageAtN",
        "EFD",
        "EPC",
        "SRecall",
        "ACLT",
        "APLT",
        "UserMADRanking",
    ]
    assert values(world) == close(
        {metric: 0 if metric in zero else NAN for metric in values(world)}
    )
    assert answer("MAE", world, None).value == close((0 + 1) / 2)  # the masked scores
    assert answer("REO", world, 2).cells == {("A",): 0, ("B",): 0}
    assert answer("RSP", world, 2).cells == close({("A",): NAN, ("B",): NAN})
    # u, of F, has one train interaction in each cluster, each with half of the catalogue
    assert answer("BiasDisparityBS", world, None).cells == close(
        {("F", "A"): 1, ("F", "B"): 1, ("M", "A"): NAN, ("M", "B"): NAN}
    )
    assert answer("BiasDisparityBR", world, 2).cells == close(
        dict.fromkeys(answer("BiasDisparityBS", world, None).cells, NAN)
    )
    assert answer("BiasDisparityBD", world, 2).cells == close(
        dict.fromkeys(answer("BiasDisparityBS", world, None).cells, NAN)
    )


def test_no_users():
    world = World(
        {},
        {},
        2,
        train={"t": [0, 0]},
        user_groups={"t": "F"},
        item_clusters={0: "A"},
        item_features={},
    )
    zero = ["ItemCoverage", "UserCoverage", "UserCoverageAtN"]
    assert values(world) == close(
        {metric: 0 if metric in zero else NAN for metric in values(world)}
    )
    assert answer("NumRetrieved", world, 2).users == 0
    assert answer("UserCoverage", world, 2, as_fraction=True) == Answer(
        close(NAN), {}, close(NAN), 0
    )
    assert answer("ItemCoverage", world, 2, as_fraction=True).value == 0
    assert answer("MSE", world, None).value == close(NAN)
    assert answer("BiasDisparityBS", world, None).cells == {("F", "A"): 1}


def test_one_item():
    """N = 1: the item is head (n = 1, T = 1), everybody's list and everybody's wish. It is never
    seen by u.
    """
    world = World({"u": (3.0,)}, {"u": {0: 1.0}}, 1, train={"t": [0]}, **KNOWN)
    expected = {
        "ItemCoverage": 1,
        "UserCoverage": 1,
        "NumRetrieved": 1,
        "UserCoverageAtN": 0,  # n = k = 2
        "EFD": 0,  # log2 of T = 1
        "EPC": 0,  # every train user has it
        "Gini": 0,
        "ShannonEntropy": 0,
        "SRecall": 1,
        "ACLT": 0,
        "APLT": 0,
        "ARP": 1,
    }
    assert values(world) == close({metric: expected.get(metric, NAN) for metric in values(world)})
    assert answer("Gini", world, 2, denominator="N").value == 0
    assert answer("ShannonEntropy", world, 2, normalized=True).value == close(NAN)
    assert answer("REO", world, 2).cells == {("A",): 1}
    assert answer("RSP", world, 2).cells == {("A",): 1}
    assert answer("Gini", replace(world, train={"u": [0]}), 2).value == close(
        NAN
    )  # nothing recommended
    # EPC of a cold item is 1, at the first of two positions
    assert answer(
        "EPC", replace(world, num_items=2, scores={"u": (OUT, 3.0)}, truth={"u": {1: 1.0}}), 2
    ).value == close(1 / TWO)


@pytest.mark.parametrize("train", [{}, {"a": [], "t": []}])
def test_empty_train(train):
    """n = 0 everywhere: the head is empty, every item is tail; without masks the lists are a 0 1, b
    2 1, c 0 4, d -, e 0.
    """
    world = replace(WORLD, train=train)
    assert head(world, 0.8) == set()
    for relevance in ("binary", "graded", "none"):
        for metric in ("EPC", "EFD"):
            assert answer(metric, world, 2, relevance=relevance) == Answer(
                close(NAN), {}, close(NAN), 0
            )
    assert answer("ACLT", world, 2).value == close(7 / 5)
    assert answer("APLT", world, 2).value == close(7 / 10)
    assert answer("ARP", world, 2).value == 0
    assert answer("ARP", world, 2, unseen=1).value == 1
    assert answer("PopREO", world, 2).value == close(NAN)
    assert answer("PopRSP", world, 2).value == close(NAN)
    for metric, k in (("BiasDisparityBS", None), ("BiasDisparityBD", 2)):
        cells = answer(metric, world, k).cells
        assert all(math.isnan(value) for value in cells.values())
        assert {group for group, _ in cells} == {"F", "M"}
    assert ("T", "P") not in answer(
        "BiasDisparityBR", replace(world, user_groups={"a": "F", "t": "T"}), 2
    ).cells


def test_rejects_missing_train():
    world = replace(WORLD, train=None)
    for metric in ("EPC", "EFD", "ACLT", "APLT", "ARP", "PopREO", "PopRSP", "BiasDisparityBD"):
        with pytest.raises(ValueError, match="train is missing"):
            answer(metric, world, 2)
    assert answer("NumRetrieved", world, 9).value == close((5 + 5 + 4 + 0 + 1) / 5)
    assert answer("BiasDisparityBR", world, 1).cells[("F", "P")] == 2


def test_one_cluster_and_no_cluster():
    """All items in one cluster: a rate, no spread; every share is 1. None labelled: no cells at
    all.
    """
    one = replace(
        WORLD, item_clusters=dict.fromkeys(range(5), 1), user_groups=dict.fromkeys("abcde", 0)
    )
    for metric in (
        "REO",
        "RSP",
        "ItemMADRanking",
        "ItemMADRating",
        "UserMADRanking",
        "UserMADRating",
    ):
        assert answer(metric, one, 2).value == close(NAN)
    assert answer("REO", one, 2).cells == {(1,): 1 / 5}
    assert answer("RSP", one, 2).cells == {(1,): 7 / 10}
    for metric, k, value in (
        ("BiasDisparityBS", None, 1),
        ("BiasDisparityBR", 2, 1),
        ("BiasDisparityBD", 2, 0),
    ):
        assert answer(metric, one, k).cells == {(0, 1): value}
    none = replace(WORLD, item_clusters={0: None}, user_groups={"nobody": "Z"})
    for metric in (
        "REO",
        "RSP",
        "ItemMADRanking",
        "ItemMADRating",
        "UserMADRanking",
        "UserMADRating",
        "BiasDisparityBR",
    ):
        assert answer(metric, none, 2) == Answer(close(NAN), {}, close(NAN), None)
    assert answer("BiasDisparityBS", none, None).cells == {}


def test_groups_without_a_labelled_recommendation():
    """M (b) is shown 1 and 3, of which none has a label now; and has seen 0 and 2, of which 0 has
    one.
    """
    world = replace(
        WORLD, item_clusters={0: "P", 4: "Q"}, train={"a": [0, 1], "b": [0, 2], "c": [0]}
    )
    assert answer("BiasDisparityBR", world, 2).cells == close(
        {("F", "P"): 0, ("F", "Q"): 2, ("M", "P"): NAN, ("M", "Q"): NAN}  # c4
    )
    assert answer("BiasDisparityBS", world, None).cells == {
        ("F", "P"): 2,
        ("F", "Q"): 0,
        ("M", "P"): 2,
        ("M", "Q"): 0,
    }
    assert answer("BiasDisparityBD", world, 2).cells == close(
        {("F", "P"): -1, ("F", "Q"): NAN, ("M", "P"): NAN, ("M", "Q"): NAN}
    )


def test_no_item_has_features():
    world = replace(WORLD, item_features={77: ["v"]})
    for denominator in ("relevant", "catalogue"):
        assert answer("SRecall", world, 2, denominator=denominator) == Answer(
            close(NAN), {}, close(NAN), 0
        )
    with pytest.raises(ValueError, match="item_features is missing"):
        answer("SRecall", replace(WORLD, item_features=None), 2)


# Multi-objective


def test_euclidean_distance_of_the_system():
    """Recall@2 is 1/8 (a 1/2 of four), Gini@2 2/7, MAE 16/5."""
    names = ["Recall", ("Gini", {"denominator": "N"}), "MAE"]
    found = answer("EucDistance", WORLD, 2, metric_names=names, utopia_points=[1, 0, 3])
    assert found == Answer(
        close(math.sqrt((7 / 8) ** 2 + (8 / 35) ** 2 + (1 / 5) ** 2)), {}, close(NAN), None
    )
    undefined = answer(
        "EucDistance", WORLD, 2, metric_names=["Recall", "ItemMADRating"], utopia_points=[1, 0]
    )
    assert undefined.value == close(NAN)


@pytest.mark.parametrize(
    ("names", "nadir", "higher_is_better", "expected"),
    [
        (["Recall", "Gini"], [0, 1], None, 1 / 8 * 5 / 7),
        (["Recall", "Gini"], [0, 1], [True, False], 1 / 8 * 5 / 7),
        (["Recall", "Gini"], [0, 0], [True, True], 1 / 8 * 2 / 7),
        (["Recall", "Gini"], [1, 1], [False, False], 7 / 8 * 5 / 7),
        (["Recall", "Gini"], [0.5, 0], None, 0),  # two gaps below 0 are no product above it
        (["ARP", "REO", "RSP", "PopREO", "MAE"], [2, 2, 1, 3, 4], None, 0.5 * 1 * 0.8 * 2 * 0.8),
        (["UserMADRating", "ItemMADRanking", "PopRSP"], [3, 2, 1], None, 1 * 0.5 * 16 / 17),
        (["ShannonEntropy", "ItemMADRating"], [9, 1], None, NAN),  # even though the other gap is 0
        # Distance 7/8. GAUC: a 1 for item 2 and 0 for item 0, which is masked; b 0; c 0, for 2 has
        # no score; d undefined
        (
            [("EucDistance", {"metric_names": ["Recall"], "utopia_points": [1]}), "GAUC"],
            [1, 0],
            None,
            1 / 8 * (1 / 2) / 3,
        ),
    ],
)
def test_hypervolume_of_the_system(names, nadir, higher_is_better, expected):
    found = answer(
        "Hypervolume",
        WORLD,
        2,
        metric_names=names,
        nadir_points=nadir,
        higher_is_better=higher_is_better,
    )
    assert found == Answer(close(expected), {}, close(NAN), None)


@pytest.mark.parametrize("metric", ["BiasDisparityBS", "BiasDisparityBR", "BiasDisparityBD"])
def test_hypervolume_rejects_metrics_with_a_target(metric):
    with pytest.raises(ValueError, match="target"):
        answer("Hypervolume", WORLD, 2, metric_names=["Recall", metric], nadir_points=[0, 0])


def test_user_scope_needs_values_per_user():
    with pytest.raises(ValueError, match="no value per user"):
        answer(
            "EucDistance",
            WORLD,
            2,
            metric_names=["Recall", "Gini"],
            utopia_points=[1, 0],
            scope="users",
        )
    with pytest.raises(ValueError, match="no value per user"):
        answer(
            "EucDistance",
            WORLD,
            2,
            metric_names=["Recall", "MAE"],
            utopia_points=[1, 0],
            scope="users",
        )
    by_user = answer(
        "EucDistance",
        WORLD,
        2,
        metric_names=["Recall", ("MAE", {"average": "users"})],
        utopia_points=[1, 0],
        scope="users",
    )
    # a 1/2 and 4.5, b 0 and 3; e is not evaluated, c and d have no scored cell
    assert by_user.value == close((math.hypot(0.5, 4.5) + math.hypot(1, 3)) / 2)
    assert by_user.users == 2


def test_accuracy_matches_the_accuracy_oracles():
    cases = list(WORLD.cases().values())
    for metric, k in (("nDCG", 2), ("F1", 3), ("GAUC", None), ("MAP", 3)):
        found = summary(metric, cases, k)
        assert answer(metric, WORLD, k) == Answer(
            found.value, {}, close(found.std_error), found.users
        )
    assert answer("AUC", WORLD, None) == Answer(
        summary("AUC", cases, None).value, {}, close(NAN), None
    )


def test_every_built_in_metric_has_an_oracle():
    assert missing_oracles(metric.__name__ for metric in built_in_metrics()) == []


def test_rejects_wrong_cutoffs():
    for metric, k in (
        ("Gini", None),
        ("MAE", 2),
        ("EPC", 0),
        ("BiasDisparityBS", 2),
        ("nDCG", None),
    ):
        with pytest.raises(ValueError, match="cut-off"):
            answer(metric, WORLD, k)
