"""The oracles against numbers worked out by hand."""

import itertools
import math
import statistics

import pytest

from oracles import LIST_METRICS, Case, RankedList, lauc, summary, user_value

OUT = -math.inf
LOG3 = math.log2(3)


def close(value):
    """Compare with no more than rounding between."""
    return pytest.approx(value, rel=1e-12, abs=1e-12, nan_ok=True)


def listed(items, likes, size, threshold=None):
    """Build a user whose list is `items` in order and who is offered nothing else."""
    scores = [OUT] * size
    for position, item in enumerate(items):
        scores[item] = -float(position)
    truth = likes if isinstance(likes, dict) else dict.fromkeys(likes, 1.0)
    return Case(tuple(scores), truth, threshold)


# One list, many answers: catalogue 1..12 (index 0 is never listed), k = 5

TOY = [
    listed([1, 2, 3, 4, 5], {1}, 13),
    listed([1, 2, 3, 4, 5], {1, 3, 5, 6, 7, 8, 9, 10}, 13),
    listed([6, 7], {7, 8}, 13),
    listed([9, 10, 11, 12, 1], {2, 3}, 13),
]


@pytest.mark.parametrize("ties", ["index", "expected", "pessimistic", "optimistic"])
@pytest.mark.parametrize(
    ("metric", "params", "printed", "exact"),
    [
        ("Precision", {}, 0.2500, (1 / 5 + 3 / 5 + 1 / 5) / 4),
        ("Precision", {"denominator": "list"}, 0.3250, (1 / 5 + 3 / 5 + 1 / 2) / 4),
        ("Recall", {}, 0.4688, (1 + 3 / 8 + 1 / 2) / 4),
        ("Recall", {"normalizer": "capped"}, 0.5250, (1 + 3 / 5 + 1 / 2) / 4),
        ("HitRate", {}, 0.7500, 3 / 4),
        ("MRR", {}, 0.6250, (1 + 1 + 1 / 2) / 4),
        ("F1", {}, 0.2701, (1 / 3 + 0.45 / 0.975 + 0.2 / 0.7) / 4),
        ("MAP", {"normalizer": "relevant"}, 0.3833, (1 + (1 + 2 / 3 + 3 / 5) / 8 + 1 / 4) / 4),
        ("MAP", {}, 0.4258, (1 + (1 + 2 / 3 + 3 / 5) / 5 + 1 / 4) / 4),
        ("MAP", {"normalizer": "hits"}, 0.5639, (1 + (1 + 2 / 3 + 3 / 5) / 3 + 1 / 2) / 4),
        ("MAR", {}, 0.3500, (1 + (1 + 2 + 3) / 8 / 5 + 1 / 2 / 2) / 4),
        ("nDCG", {}, 0.5067, None),
        ("nDCG", {"gain": "linear"}, 0.5067, None),
        ("nDCGRendle2020", {}, 0.5067, None),
        ("nDCG", {"ideal": "k"}, 0.2983, None),
        ("nDCGRendle2020", {"ideal": "k"}, 0.2983, None),
    ],
)
def test_variants_on_one_data_set(metric, params, printed, exact, ties):
    result = summary(metric, TOY, 5, ties=ties, **params)
    assert round(result.value, 4) == printed
    assert exact is None or result.value == close(exact)
    assert result.users == 4


def test_standard_error_is_the_sample_deviation_over_root_n():
    values = [1, 3 / 8, 1 / 2, 0]
    assert summary("Recall", TOY, 5).std_error == close(statistics.stdev(values) / 2)


# nDCG with graded ratings

WIKIPEDIA = listed([0, 1, 2, 3, 4, 5], {0: 3, 1: 2, 2: 3, 3: 0, 4: 1, 5: 2, 6: 3, 7: 2}, 8)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, 0.7511),
        ({"gain": "exponential_shifted"}, 0.7608),
        ({"gain": "linear"}, 0.7850),
    ],
)
def test_ndcg_of_the_wikipedia_example(params, expected):
    assert round(user_value("nDCG", WIKIPEDIA, 6, **params), 4) == expected


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, 1 / (3 + 1 / LOG3)),
        ({"gain": "linear"}, 1 / (2 + 1 / LOG3)),
        ({"gain": "binary"}, 1 / (1 + 1 / LOG3)),
        ({"gain": "exponential_shifted"}, 3 / (7 + 3 / LOG3)),
        ({"ideal": "full"}, 1 / (3 + 1 / LOG3 + 1 / 2)),
        ({"ideal": "k"}, 1 / (3 + 1 / LOG3)),
    ],
)
def test_ndcg_of_one_hit_among_three(params, expected):
    """List: a rating of 1, then a miss; the user also wants a rating of 2 and another of 1."""
    case = listed([0, 1], {0: 1, 2: 2, 3: 1}, 4)
    assert user_value("nDCG", case, 2, **params) == close(expected)


def test_ideal_k_fills_up_with_ratings_of_one():
    case = listed([0], {0: 2}, 1)
    assert user_value("nDCG", case, 3, ideal="k") == close(3 / (3 + 1 / LOG3 + 1 / 2))
    assert user_value("nDCG", case, 3, ideal="k", gain="exponential_shifted") == close(
        7 / (7 + 3 / LOG3 + 3 / 2)
    )
    assert user_value("nDCG", case, 3, ideal="k", gain="linear") == close(
        2 / (2 + 1 / LOG3 + 1 / 2)
    )


def test_items_below_the_threshold_have_no_gain():
    case = listed([0, 1], {0: 3, 1: 4, 2: -1}, 3, threshold=4)
    assert user_value("nDCG", case, 2) == close(1 / LOG3)
    assert user_value("nDCG", case, 2, gain="exponential_shifted") == close(1 / LOG3)
    assert user_value("Recall", case, 2) == 1
    assert user_value("MRR", case, 2) == 0.5


# Perfect lists, short lists and no lists


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_perfect_list(size):
    case = listed(range(6), set(range(size)), 6)
    for metric in ["Recall", "HitRate", "MAP", "MRR", "nDCG", "nDCGRendle2020"]:
        assert user_value(metric, case, 5) == close(1)
    assert user_value("MAR", case, 5) == close((size + 1) / (2 * size))
    assert user_value("Precision", case, 5) == close(size / 5)


def test_cutoff_beyond_the_catalogue():
    case = listed([1, 0], {0}, 2)
    assert user_value("Precision", case, 10) == close(1 / 10)
    assert user_value("Precision", case, 10, denominator="list") == close(1 / 2)
    assert user_value("nDCG", case, 10) == close(1 / LOG3)


@pytest.mark.parametrize("ties", ["index", "expected", "pessimistic", "optimistic"])
@pytest.mark.parametrize("scores", [None, (OUT, OUT, OUT)])
def test_no_item_offered(scores, ties):
    case = Case(scores, {0: 1.0})
    undefined = {"LAUC", "FallOut", "Judged"}
    for metric in LIST_METRICS.keys() - undefined - {"RBPResidual"} | {"F1"}:
        assert user_value(metric, case, 2, ties=ties) == 0
    assert user_value("Precision", case, 2, denominator="list") == 0
    assert user_value("MAP", case, 2, normalizer="hits") == 0
    assert all(math.isnan(user_value(metric, case, 2, ties=ties)) for metric in undefined)
    assert user_value("RBPResidual", case, 2, ties=ties) == 1
    assert math.isnan(user_value("GAUC", case, None))
    assert summary("AUC", [case], None).users == 0


def test_skips_users_without_a_relevant_item():
    nobody = Case((1.0, 0.0), {0: 0.0})
    for metric in [*LIST_METRICS, "F1", "GAUC"]:
        assert math.isnan(user_value(metric, nobody, 2))
    result = summary("Recall", [nobody, Case(None, {0: 1.0}), Case((1.0, 0.0), {0: 1.0})], 1)
    assert (result.value, result.users, result.std_error) == (0.5, 2, close(0.5))
    empty = summary("Recall", [nobody], 1)
    assert math.isnan(empty.value) and math.isnan(empty.std_error) and empty.users == 0
    assert math.isnan(summary("Recall", [Case((1.0,), {0: 1.0})], 1).std_error)


# F1 of other pairs

PAIR = listed([0, 1], {1, 2}, 3)  # at 2: Precision 1/2, MRR 1/2, MAP 1/4, nDCG 1 / (1 + log2 3)


def test_f1_parts_and_beta():
    ndcg = (1 / LOG3) / (1 + 1 / LOG3)
    parts = {"metric_name_1": ("nDCG", {"gain": "linear"}), "metric_name_2": "MAP"}
    assert user_value("F1", PAIR, 2, **parts) == close(2 * ndcg * 0.25 / (ndcg + 0.25))
    assert user_value("F1", PAIR, 2, **parts, beta=2) == close(5 * ndcg * 0.25 / (4 * ndcg + 0.25))
    assert user_value("F1", PAIR, 2, metric_1="MAP", metric_2=("Precision", {})) == close(
        0.25 / 0.75
    )
    assert math.isnan(user_value("F1", Case((1.0,), {0: 1.0}), 1, metric_name_2="GAUC"))


# AUC, GAUC and LAUC


def test_auc_of_constant_scores_is_one_half():
    cases = [Case((0.0, -0.0, 0.0, 0.0), {0: 1.0}), Case((7.0,) * 4, {1: 1.0, 3: 1.0})]
    assert summary("AUC", cases, None).value == 0.5
    assert summary("AUC", cases[:1], None, scope="pooled").value == 0.5
    assert summary("GAUC", cases, None).value == 0.5
    for k in range(1, 6):
        assert summary("LAUC", cases, k, ties="expected").value == close(0.5)


AUC_CASES = [
    Case(
        (3.0, 2.0, 1.0, 2.0), {0: 1.0, 3: 1.0, 2: 0.0}
    ),  # 0 beats both; 3 ties one, beats one: (1 + 3/4) / 2
    Case((OUT, 9.0, 8.0, OUT), {0: 1.0, 2: 1.0, 1: 0.0}),  # 0 is not offered, 2 loses to 1: 0
    Case((5.0, 4.0, 3.0, 6.0), {1: 1.0}),  # beats one of three: 1/3
    Case((1.0, OUT, OUT, OUT), {0: 1.0}),  # no negative
    Case(None, {0: 1.0}),
    Case((1.0, 2.0, 3.0, 4.0), {}),
]


def test_auc_on_worked_example():
    assert [user_value("GAUC", case, None) for case in AUC_CASES] == close(
        [7 / 8, 0, 1 / 3] + [math.nan] * 3
    )
    result = summary("AUC", AUC_CASES, None)
    assert result.value == close((1 + 3 / 4 + 0 + 0 + 1 / 3) / 5)
    assert result.users == 3 and math.isnan(result.std_error)
    # negatives 2, 1, 9, 5, 3, 6; positives 3, 2, not offered, 8, 4
    pooled = summary("AUC", AUC_CASES, None, scope="pooled")
    assert pooled.value == close((2.5 + 1.5 + 0 + 5 + 3) / 6 / 5)
    assert pooled.users == 3
    with pytest.raises(ValueError, match="per user"):
        user_value("AUC", AUC_CASES[0], None)


def test_gauc_weights():
    uniform = summary("GAUC", AUC_CASES, None)
    assert uniform.value == close((7 / 8 + 0 + 1 / 3) / 3)
    assert uniform.std_error == close(statistics.stdev([7 / 8, 0, 1 / 3]) / math.sqrt(3))
    positives = summary("GAUC", AUC_CASES, None, weight="positives")
    assert positives.value == close(summary("AUC", AUC_CASES, None).value)
    cells = summary("GAUC", AUC_CASES, None, weight="interactions")
    mean = (3 * 7 / 8 + 3 * 0 + 1 / 3) / 7
    squares = 9 * (7 / 8 - mean) ** 2 + 9 * mean**2 + (1 / 3 - mean) ** 2
    assert (cells.value, cells.std_error, cells.users) == close(
        (mean, math.sqrt(3 / 2 * squares) / 7, 3)
    )


def test_lauc_of_documented_cases():
    assert lauc(RankedList((), (1.0, 1.0), negatives=5, k=3)) == 0.5  # an empty list
    assert lauc(RankedList((1.0, 1.0), (1.0, 1.0), negatives=5, k=2)) == close(
        1
    )  # all relevant items first
    assert lauc(RankedList((1.0, 1.0, 0.0), (1.0, 1.0), negatives=5, k=3)) == close(1)
    assert math.isnan(lauc(RankedList((1.0,), (1.0,), negatives=0, k=1)))


def test_lauc_on_worked_example():
    """Hit, miss, hit, cut; of three relevant items and four negatives."""
    case = Case((7.0, 6.0, 5.0, 4.0, 3.0, 2.0, OUT), {0: 1.0, 2: 1.0, 6: 1.0})
    assert user_value("LAUC", case, 3) == close(1 / 3 * 1 / 4 + 3 / 4 * (2 / 3 + 1) / 2)
    assert user_value("LAUC", case, 3, completion="none") == close((1 + 3 / 4) / 3)
    assert user_value("LAUC", case, 2, completion="none") == close(1 / 2)


def test_lauc_of_the_whole_list_is_gauc():
    for scores in itertools.product([2.0, 1.0, OUT], repeat=4):
        case = Case(scores, {0: 1.0, 2: 1.0})
        assert user_value("LAUC", case, 4, ties="expected") == close(user_value("GAUC", case, None))


# Ties

TIED = Case(
    (1.0, 0.0, -0.0, 0.0, -1.0), {2: 2.0, 3: 1.0}
)  # a miss, then {miss, rating 2, rating 1}, then a miss


@pytest.mark.parametrize(
    ("metric", "k", "index", "expected", "pessimistic", "optimistic"),
    [
        # each of the three tied items is second in a third of the orders
        ("Precision", 2, 0, 1 / 3, 0, 1 / 2),
        ("Recall", 2, 0, 1 / 3, 0, 1 / 2),
        ("HitRate", 2, 0, 2 / 3, 0, 1),
        ("HitRate", 3, 1, 1, 1, 1),
        ("MRR", 4, 1 / 3, 2 / 3 / 2 + 1 / 3 / 3, 1 / 3, 1 / 2),
        # places 2 and 3, 2 and 4, or 3 and 4, a third each
        (
            "MAP",
            4,
            (1 / 3 + 2 / 4) / 2,
            (7 / 6 + 1 + 5 / 6) / 6,
            (1 / 3 + 2 / 4) / 2,
            (1 / 2 + 2 / 3) / 2,
        ),
        # place 2 holds a gain of 3, 1 or 0, a third each
        ("nDCG", 2, 0, 4 / 3 / (3 * LOG3 + 1), 0, 3 / (3 * LOG3 + 1)),
        # the pessimist puts the smaller gain first, the optimist the larger
        (
            "nDCG",
            4,
            (3 / 2 + 1 / math.log2(5)) / (3 + 1 / LOG3),
            4 / 3 * (1 / LOG3 + 1 / 2 + 1 / math.log2(5)) / (3 + 1 / LOG3),
            (1 / 2 + 3 / math.log2(5)) / (3 + 1 / LOG3),
            (3 / LOG3 + 1 / 2) / (3 + 1 / LOG3),
        ),
        # both parts are as above
        ("F1", 2, 0, 1 / 3, 0, 1 / 2),
    ],
)
def test_tie_rules_on_worked_example(metric, k, index, expected, pessimistic, optimistic):
    rules = ["index", "expected", "pessimistic", "optimistic"]
    values = [user_value(metric, TIED, k, ties=ties) for ties in rules]
    assert values == close([index, expected, pessimistic, optimistic])


def test_f1_combines_expected_parts():
    value = user_value("F1", TIED, 2, ties="expected", metric_name_2="HitRate")
    assert value == close(2 * (1 / 3) * (2 / 3) / (1 / 3 + 2 / 3))


def test_map_by_hits_is_the_mean_of_the_ratio():
    """Two places for {hit, hit, miss}: both hits, or a hit and a miss either way round, a third
    each.
    """
    case = Case((0.0, 0.0, 0.0), {0: 1.0, 1: 1.0})
    assert user_value("MAP", case, 2, ties="expected", normalizer="hits") == close(
        (1 + 1 + 1 / 2) / 3
    )
    assert user_value("MAP", case, 2, ties="expected") == close((1 + 1 / 2 + 1 / 4) / 3)


@pytest.mark.parametrize("metric", LIST_METRICS)
def test_expected_lies_between_the_bounds(metric):
    for scores in itertools.product([1.0, 0.0, OUT], repeat=4):
        case = Case((*scores, 0.0), {0: 1.0, 2: 2.0})
        for k in range(1, 6):
            low, mid, high = (
                user_value(metric, case, k, ties=t)
                for t in ("pessimistic", "expected", "optimistic")
            )
            if metric in ("FallOut", "RBPResidual"):  # lower is better
                low, high = high, low
            assert math.isnan(mid) or low - 1e-12 <= mid <= high + 1e-12


# Refusals


@pytest.mark.parametrize(
    "arguments",
    [
        ((math.nan,), {}),
        ((math.inf,), {}),
        ((1.0,), {0: -1.0}),
        ((1.0,), {1: 1.0}),
        ((1.0,), {0: 1.0}, 0.0),
    ],
)
def test_rejects_wrong_cases(arguments):
    with pytest.raises(ValueError):
        Case(*arguments)


def test_rejects_wrong_calls():
    case = Case((1.0,), {0: 1.0})
    with pytest.raises(ValueError, match="cut-off"):
        user_value("Recall", case, None)
    with pytest.raises(ValueError, match="ties"):
        user_value("Recall", case, 1, ties="random")
    with pytest.raises(TypeError):
        user_value("Recall", case, 1, denominator="k")
    with pytest.raises(KeyError):
        user_value("Recall", case, 1, normalizer="hits")
