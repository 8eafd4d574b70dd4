"""Mistakes of other tools, each with the correct value from a worked example.

A comment names the tool and its mistake. The last tests check for every metric that evaluations are
independent of each other.
"""

import doctest
import inspect
import math
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import stats
from torchmetrics import MetricCollection

import weft
from metric_cases import BUILT_IN, by_position, make_labels
from weft.errors import InputError, MetricError, SettingError, UnknownMetric
from weft.metrics.names import parse_name
from weft.metrics.registry import build_metric, built_in_metrics, needs_cutoff
from weft.ranking import TIE_RULES

NONE = -math.inf


def evaluate(scores, truth, metrics, top_k=None, **settings):
    scores = torch.tensor(scores, dtype=torch.float64) if isinstance(scores, list) else scores
    settings = {"metrics": metrics, "top_k": top_k, **by_position(scores), **settings}
    return weft.evaluate(scores, truth, **settings)


def ranked(lists, items):
    """Scores of ranked lists: what is not listed is not offered."""
    return [[-float(row.index(item)) if item in row else NONE for item in items] for row in lists]


def note(result, *words):
    """The one note that has all these words."""
    (found,) = [one for one in result.notes if all(word in one for word in words)]
    return found


# ------------------------------------------------------------------------------------------ one lis

CATALOGUE = list(range(1, 13))
LISTS = ranked([[1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [6, 7], [9, 10, 11, 12, 1]], CATALOGUE)
LIKES = {"u1": [1], "u2": [1, 3, 5, 6, 7, 8, 9, 10], "u3": [7, 8], "u4": [2, 3]}
ONE_LIST = {"users": list(LIKES), "items": CATALOGUE}
# Hits at 5: 1, 3, 1, 0 of 1, 8, 2, 2 liked items; sums of precision at the hits: 1, 1 + 2/3 + 3/5,
# 1/2, 0.
ANSWERS = [
    (
        "Precision",
        [None, "trec_eval", "ranx", "warprec", "recbole", "torchmetrics", "rectools", "elliot"],
        0.2500,
    ),
    (
        "Recall(normalizer=capped)",
        [None],
        0.5250,
    ),  # RecTools' Precision(r_precision=True): hits / min(k, R)
    (
        "Recall",
        [None, "trec_eval", "ranx", "warprec", "recbole", "torchmetrics", "rectools", "elliot"],
        0.4688,
    ),
    (
        "MRR",
        [None, "trec_eval", "ranx", "warprec", "recbole", "torchmetrics", "rectools", "elliot"],
        0.6250,
    ),
    ("F1", [None, "ranx", "warprec", "rectools", "elliot"], 0.2701),
    ("MAP(normalizer=relevant)", [None], 0.3833),
    ("MAP", ["trec_eval", "ranx", "rectools", "sklearn"], 0.3833),  # / R
    ("MAP", [None, "warprec", "recbole"], 0.4258),  # / min(k, R), also RePlay's
    ("MAP(normalizer=capped)", ["trec_eval"], 0.4258),  # what the name itself says holds
    ("MAP(normalizer=hits)", [None], 0.5639),
    ("MAP", ["torchmetrics"], 0.5639),  # / hits
    (
        "nDCG",
        [None, "trec_eval", "ranx", "torchmetrics", "warprec", "recbole", "sklearn", "elliot"],
        0.5067,
    ),  # also RePlay's
    ("nDCG(ideal=k)", [None], 0.2983),
    ("nDCG", ["rectools"], 0.2983),
    ("nDCG(ideal=cut)", ["rectools"], 0.5067),  # RecTools' divide_by_achievable=True
]


@pytest.mark.parametrize(
    ("metric", "profile", "value"),
    [(metric, profile, value) for metric, profiles, value in ANSWERS for profile in profiles],
)
def test_tools_disagree_on_one_data_set(metric, profile, value):
    result = evaluate(LISTS, LIKES, metric, 5, profile=profile, **ONE_LIST)
    assert result[f"{metric}@5"] == pytest.approx(value, abs=5.01e-5)
    assert result.entries[0].users == 4


def test_values_per_user_give_other_definitions():
    """The value of each user is enough to have them."""
    metrics = ["Precision", "MAP(normalizer=relevant)"]
    table = evaluate(LISTS, LIKES, metrics, 5, per_user=True, **ONE_LIST).per_user
    hits, relevant = (
        5 * table["Precision@5"].to_numpy(),
        np.array([len(LIKES[user]) for user in table["user"]]),
    )
    assert hits.sum() / np.minimum(relevant, 5).sum() == pytest.approx(
        0.5
    )  # implicit's precision: 5 hits of 1 + 5 + 2 + 2
    divided_by_k = table["MAP(normalizer=relevant)@5"].to_numpy() * relevant / 5
    assert divided_by_k.mean() == pytest.approx(0.1883, abs=5e-5)  # RecTools' MAP(divide_by_k=True)


def test_tie_rules_and_batches_do_not_matter_without_ties():
    """Nothing is tied, so that no rule has anything to decide."""
    metrics = ["Precision", "Recall", "MRR", "F1", "MAP", "nDCG"]
    base = evaluate(LISTS, LIKES, metrics, 5, **ONE_LIST)
    for ties in TIE_RULES:
        other = evaluate(LISTS, LIKES, metrics, 5, ties=ties, batch_size=1, **ONE_LIST)
        assert [other[name] for name in base] == pytest.approx(
            [base[name] for name in base], abs=1e-12
        )


# --------------------------------------------------------------------------------------------------

FORWARD = torch.tensor([[2.0, 1.0]])
PAIR = {
    "train": torch.tensor([[1, 1]]),
    "mask_seen": False,
    "user_groups": ["F"],
    "item_clusters": ["a", "b"],
}


def test_warprec_composites_keep_state_after_reset():
    # WarpRec: F1 and BiasDisparityBD own their child metrics, which reset() does not reach.
    evaluator = weft.Evaluator(["F1", "BiasDisparityBD"], top_k=1, **PAIR)
    evaluator.update(FORWARD, [[0]], [0])
    # BS is (1/2) / (1/2) = 1 for both clusters; the list holds a alone, so that BR is 2 and 0.
    first = evaluator.compute()
    assert (first["F1@1"], first["BiasDisparityBD@1[F, a]"], first["BiasDisparityBD@1[F, b]"]) == (
        1,
        1,
        -1,
    )
    evaluator.reset()
    evaluator.update(-FORWARD, [[0]], [0])
    second = evaluator.compute()  # the first model's hit would leave F1 = 0.5 and a bias of 0
    assert (
        second["F1@1"],
        second["BiasDisparityBD@1[F, a]"],
        second["BiasDisparityBD@1[F, b]"],
    ) == (0, -1, 1)


def test_warprec_recommends_masked_items_if_fewer_than_k_remain():
    # WarpRec: items at -inf fill up the list, and with it coverage, Gini, ARP and rates above 1.
    train = {0: [0, 1, 2], 1: [0, 1, 2, 3]}
    metrics = [
        "NumRetrieved",
        "ItemCoverage",
        "UserCoverageAtN",
        "Gini",
        "ShannonEntropy",
        "ARP",
        "ACLT",
        "APLT",
        "RSP",
    ]
    metrics += ["BiasDisparityBR", "PopRSP"]
    about_items = {"item_clusters": ["a", "a", "a", "a", "b"], "user_groups": ["F", "F"]}
    result = evaluate(
        [[5, 4, 3, 2, 1]] * 2, {0: [3], 1: [4]}, metrics, 3, train=train, **about_items
    )
    # The lists are 3 4 and 4.
    assert result["NumRetrieved@3"] == 1.5
    assert result["ItemCoverage@3"] == 2
    assert result["UserCoverageAtN@3"] == 0
    # Lists with each item, ascending: 0 0 0 1 2; (2 * 4 - 6) * 1 + (2 * 5 - 6) * 2 = 10 over 4 * 3
    assert result["Gini@3"] == pytest.approx(10 / 12)
    assert result["ShannonEntropy@3"] == pytest.approx(-(math.log(1 / 3) + 2 * math.log(2 / 3)) / 3)
    # Interactions of items 3 and 4: 1 and 0
    assert result["ARP@3"] == pytest.approx((0.5 + 0) / 2)
    # 2 + 2 + 2 of 7 interactions reach 80%: items 3 and 4 are the tail
    assert (result["ACLT@3"], result["APLT@3"]) == (1.5, 0.5)
    # Of a only item 3 was offered, once, and of b item 4, twice; all of it was recommended
    assert (result["RSP@3[a]"], result["RSP@3[b]"], result["RSP@3"]) == (1, 1, 0)
    assert result["BiasDisparityBR@3[F, a]"] == pytest.approx((1 / 3) / (4 / 5))
    assert math.isnan(result["PopRSP@3"]) and note(result, "PopRSP@3", "no candidate")
    assert note(result, "2 users have fewer than 3 recommended items")


def test_warprec_user_coverage_counts_users_with_test_items():
    # WarpRec would say 1: only the first user has a test item. But only the others are recommended
    # anything.
    scores = [[NONE, NONE], [1.0, NONE], [1.0, 2.0]]
    result = evaluate(
        scores,
        {0: [0], 1: [], 2: []},
        ["UserCoverage", "UserCoverage(as_fraction=True)", "UserCoverageAtN"],
        2,
    )
    assert result["UserCoverage@2"] == 2
    assert result["UserCoverage(as_fraction=True)@2"] == pytest.approx(2 / 3)
    assert result["UserCoverageAtN@2"] == 1


@pytest.mark.parametrize("place", range(10))
@pytest.mark.parametrize("ties", TIE_RULES)
def test_warprec_and_cornac_auc_depends_on_item_order(place, ties):
    # WarpRec gives 0.69 or 0.51 for constant scores, Cornac's strict comparison 0.
    result = evaluate(
        torch.zeros(1, 10), {0: [place]}, ["AUC", "GAUC", "AUC(scope=pooled)"], ties=ties
    )
    assert [value.value for value in result.entries] == [0.5, 0.5, 0.5]


def test_warprec_auc_counts_one_negative_too_many():
    # WarpRec: one positive below nine negatives gives 1 / 10, not 0.
    scores = torch.arange(10.0)[None]
    metrics = ["AUC", "GAUC", "AUC(scope=pooled)", "LAUC@10"]
    assert [value.value for value in evaluate(scores, {0: [0]}, metrics).entries] == [0, 0, 0, 0]
    assert [value.value for value in evaluate(scores, {0: [9]}, metrics).entries] == [1, 1, 1, 1]
    assert evaluate(scores, {0: [3]}, "AUC")["AUC"] == pytest.approx(3 / 9)


def test_warprec_raises_if_k_exceeds_the_catalogue():
    scores, truth = [[3.0, 2.0, 1.0], [1.0, 3.0, 2.0]], {0: [1], 1: [1, 2]}
    settings = {"train": {0: [2]}, "mask_seen": False, **make_labels(2, 3)}
    far = evaluate(scores, truth, BUILT_IN, [3, 100], **settings)
    assert not any(math.isinf(value.value) for value in far.entries)
    assert far["Precision@100"] == pytest.approx((1 / 100 + 2 / 100) / 2)  # the denominator stays k
    assert far["APLT(denominator='k')@100"] == pytest.approx(
        2 / 100
    )  # item 2 is the head, two others are the tail
    for same in (
        "Recall",
        "nDCG",
        "MAP",
        "MRR",
        "LAUC",
        "ItemCoverage",
        "NumRetrieved",
        "Gini",
        "ARP",
        "SRecall",
        "RSP",
    ):
        assert far[f"{same}@100"] == pytest.approx(far[f"{same}@3"], nan_ok=True), same
    assert far["UserCoverageAtN@3"] == 2 and far["UserCoverageAtN@100"] == 0
    # Novelty is divided by the discounts of all k positions, empty ones too: u0's hit is second;
    # u1's hits are first and second.
    discounts = [1 / math.log2(position + 1) for position in range(1, 101)]
    assert far["EPC@100"] == pytest.approx(
        (discounts[1] + discounts[0] + 0 * discounts[1]) / 2 / sum(discounts)
    )


def test_warprec_bias_disparity_is_huge_without_source_interactions():
    # WarpRec prints 3.4e38. F's train is on cluster a alone, so that BS[F, b] = 0.
    result = evaluate(
        [[1.0, 2.0]],
        {0: [1]},
        ["BiasDisparityBD", "BiasDisparityBR", "BiasDisparityBS"],
        1,
        train={0: [0]},
        user_groups=["F"],
        item_clusters=["a", "b"],
    )
    assert (result["BiasDisparityBS[F, a]"], result["BiasDisparityBS[F, b]"]) == (2, 0)
    assert (result["BiasDisparityBR@1[F, a]"], result["BiasDisparityBR@1[F, b]"]) == (0, 2)
    assert result["BiasDisparityBD@1[F, a]"] == -1
    assert math.isnan(result["BiasDisparityBD@1[F, b]"])
    assert note(
        result, "BiasDisparityBD@1 for [F, b] is undefined", "no train interaction with the cluster"
    )


def test_warprec_rating_errors_are_infinite_for_masked_items():
    # WarpRec takes the masked score, -inf, of a test item that is also a train item; and RMSE is a
    # mean of per-user RMSEs.
    truth = {0: {0: 2.0, 1: 2.0, 2: 2.0}, 1: {0: 5.0}}
    metrics = [
        f"{name}{average}" for name in ("MAE", "MSE", "RMSE") for average in ("", "(average=users)")
    ]
    result = evaluate(
        [[3.0, 1.0, 3.0], [2.0, 0.0, 0.0]], truth, metrics, train={0: [0, 1, 2], 1: [0]}
    )
    # Errors: 1, -1, 1 of the first user, -3 of the second
    assert [result[name] for name in metrics] == pytest.approx(
        [6 / 4, 2, 12 / 4, (1 + 9) / 2, math.sqrt(3), (1 + 3) / 2]
    )
    assert result.counts["relevant_seen"] == 4 and result.counts["ratings_without_score"] == 0


def test_ratings_without_a_score_are_skipped_and_counted():
    result = evaluate(
        [[3.0, NONE], [NONE, NONE]],
        {0: {0: 1.0, 1: 5.0}, 1: {0: 1.0}},
        ["MAE", "RMSE", "MAE(average=users)"],
    )
    assert [value.value for value in result.entries] == [2, 2, 2]
    assert result.counts["ratings_without_score"] == 2


def test_warprec_f1_ignores_its_parameters():
    # WarpRec: metric_name_1/2 are ignored, results of other betas overwrite each other, a mis-cased
    # sub-metric gives 0.
    names = [
        "F1",
        "F1(metric_name_1=nDCG, metric_name_2=MAP)",
        "F1(beta=2)",
        "F1(beta=0.5)",
        "F1(metric_1=map, metric_2=MRR)",
    ]
    # One user likes items 0, 2, 3 and gets 0 1: precision 1/2, recall 1/3, MRR 1, MAP 1 / min(3, 2)
    result = evaluate([[4.0, 3.0, 2.0, 1.0]], {0: [0, 2, 3]}, names, 2)
    assert len(result) == 5
    assert result["F1@2"] == pytest.approx(2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3))
    assert result["F1(beta=2)@2"] == pytest.approx(5 * (1 / 2) * (1 / 3) / (4 * (1 / 2) + 1 / 3))
    assert result["F1(beta=0.5)@2"] == pytest.approx(
        1.25 * (1 / 2) * (1 / 3) / ((1 / 2) / 4 + 1 / 3)
    )
    assert result["F1(metric_name_1=MAP, metric_name_2=MRR)@2"] == pytest.approx(
        2 * (1 / 2) / (3 / 2)
    )
    ndcg = 1 / (1 + 1 / math.log2(3))
    assert result["F1(metric_name_1=nDCG, metric_name_2=MAP)@2"] == pytest.approx(
        2 * ndcg / 2 / (ndcg + 1 / 2)
    )
    with pytest.raises(UnknownMetric, match="Did you mean 'nDCG'"):
        evaluate([[1.0]], {0: [0]}, "F1(metric_name_1=nDGC)@1")


def test_f1_is_zero_if_both_parts_are():
    assert evaluate([[1.0, 2.0]], {0: [0]}, "F1@1")["F1@1"] == 0


def test_warprec_gain_differs_from_its_documentation():
    # Wikipedia's list: 3 2 3 0 1 2, with a 3 and a 2 below the cut. WarpRec's 2^(r+1) - 1 gives
    # 0.7608.
    ratings = dict(enumerate([3, 2, 3, 0, 1, 2, 3, 2]))
    result = evaluate(
        -torch.arange(8.0)[None],
        {0: ratings},
        ["nDCG", "nDCG(gain=exponential_shifted)", "nDCG(gain=linear)"],
        6,
    )
    assert result["nDCG@6"] == pytest.approx(0.7511, abs=5e-5)
    assert result["nDCG(gain=exponential_shifted)@6"] == pytest.approx(0.7608, abs=5e-5)
    assert result["nDCG(gain=linear)@6"] == pytest.approx(0.785, abs=5e-5)  # Wikipedia's own number
    theirs = evaluate(-torch.arange(8.0)[None], {0: ratings}, "nDCG", 6, profile="warprec")
    assert theirs["nDCG@6"] == result["nDCG(gain=exponential_shifted)@6"]


@pytest.fixture(scope="module")
def rivals():
    """Two models that agree on the first position: MRR@1 is the same for everybody."""
    generator = torch.Generator().manual_seed(5)
    scores = torch.rand(40, 12, generator=generator)
    other = torch.rand(40, 12, generator=generator)
    best = scores.argmax(1, keepdim=True)
    scores, other = (table.scatter(1, best, 2.0) for table in (scores, other))
    truth = (torch.rand(40, 12, generator=generator) < 0.25).int()
    metrics = ["MRR", "Recall", "GAUC", "MAE(average=users)"]
    return [
        evaluate(table, truth, metrics, [1, 3], per_user=True, name=name)
        for name, table in (("a", scores), ("b", other))
    ]


@pytest.mark.parametrize("correction", ["holm", "fdr", "bonferroni"])
def test_warprec_corrections_fail_on_undefined_p_values(rivals, correction):
    # WarpRec: a NaN p-value breaks Holm and FDR, and a metric without a cut-off enters the family
    # once per cut-off.
    frame = weft.compare(rivals, correction=correction, family="test").to_frame()
    tested = list(zip(frame["metric"], frame["k"]))
    assert sorted(tested, key=str) == sorted(
        [
            ("MRR", 1),
            ("MRR", 3),
            ("Recall", 1),
            ("Recall", 3),
            ("GAUC", None),
            ("MAE(average=users)", None),
        ],
        key=str,
    )
    undefined = frame.filter(frame["p_value"].is_nan())
    assert list(zip(undefined["metric"], undefined["k"])) == [("MRR", 1), ("Recall", 1)]
    assert undefined["p_adjusted"].is_nan().all() and undefined["significant"].null_count() == 2
    rest = frame.filter(frame["p_value"].is_not_nan()).sort("p_value")
    p = rest["p_value"].to_numpy()
    one, two = (result.per_user["GAUC"].to_numpy() for result in rivals)
    assert rest.filter(metric="GAUC")["p_value"].to_list() == pytest.approx(
        [stats.ttest_rel(one, two, nan_policy="omit").pvalue]
    )
    wanted = {
        "bonferroni": np.minimum(4 * p, 1),
        "holm": np.minimum(np.maximum.accumulate(p * [4, 3, 2, 1]), 1),
        "fdr": np.minimum.accumulate((p * [4, 2, 4 / 3, 1])[::-1])[::-1],
    }[correction]
    assert rest["p_adjusted"].to_numpy() == pytest.approx(wanted, rel=1e-9)


# --------------------------------------------------------------------------------------------------


def test_torchmetrics_retrieval_is_zero_for_negative_scores():
    # torchmetrics: Precision, Recall, MAP and MRR are 0 for scores below 0, as those of any
    # log-probability.
    metrics = [
        "Precision",
        "Recall",
        "MAP",
        "MRR",
        "HitRate",
        "nDCG",
        "LAUC",
        "AUC",
        "GAUC",
        "AUC(scope=pooled)",
    ]
    scores, truth = torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.3, 0.8]]), {0: [1], 1: [2, 0]}
    base, shifted = (evaluate(table, truth, metrics, 2) for table in (scores, scores - 2))
    assert {name: shifted[name] for name in shifted} == {name: base[name] for name in base}
    # The hits: second of one; first of two
    assert (
        base["MRR@2"] == 0.75
        and base["Precision@2"] == 0.5
        and base["Recall@2"] == 0.75
        and base["MAP@2"] == 0.5
    )


def test_torchmetrics_map_divides_by_the_hits_found():
    # torchmetrics: one hit at rank 1, of 100 relevant items, scores 1.0.
    scores = torch.zeros(1, 200)
    scores[0, :100] = -2.0
    scores[0, 0] = 1.0
    metrics = ["MAP", "MAP(normalizer=relevant)", "MAP(normalizer=hits)"]
    result = evaluate(scores, {0: list(range(100))}, metrics, 10)
    assert [value.value for value in result.entries] == pytest.approx([1 / 10, 1 / 100, 1])


@pytest.mark.parametrize("order", [["MRR", "HitRate", "nDCG"], ["nDCG", "MRR", "HitRate"]])
def test_torchmetrics_collection_merges_metrics_with_equal_states(order):
    # torchmetrics: metrics whose states agree after the first batch, here one without a hit, share
    # one state from then on.
    collection = MetricCollection({name: getattr(weft.metrics, name)(k=2) for name in order})
    collection.update(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[0, 0, 1]]))
    collection.update(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[0, 1, 0]]))
    found = {name: float(value) for name, value in collection.compute().items()}
    assert found == pytest.approx({"MRR": 1 / 4, "HitRate": 1 / 2, "nDCG": 1 / math.log2(3) / 2})


def test_torchmetrics_collection_separates_cutoffs_and_parameters():
    made = {
        "1": weft.metrics.Recall(k=1),
        "2": weft.metrics.Recall(k=2),
        "capped": weft.metrics.Recall(k=1, normalizer="capped"),
    }
    collection = MetricCollection(made)
    for target in ([[0, 0, 1]], [[0, 1, 1]], [[1, 1, 0]]):
        collection.update(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor(target))
    # Lists 0 and 0 1: no hit at all; then item 1 of two at k = 2; then 0 of two at k = 1 and both
    # at k = 2
    found = {name: float(value) for name, value in collection.compute().items()}
    assert found == pytest.approx({"1": 0.5 / 3, "2": 1.5 / 3, "capped": 1 / 3})


# ------------------------------------------------------------------------- shards: torchmetrics, Re

STATEFUL = [*BUILT_IN, "AUC(scope=pooled)", "GAUC(weight=positives)", "MAE(average=users)"]
USERS, ITEMS, K = 13, 9, 3
EVERYONE = torch.arange(USERS)


def data(seed, hidden):
    """Scores with ties, some of which are not offered, and ratings; one user has none."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-4, 5, (USERS, ITEMS), generator=generator).double()
    scores[torch.rand(USERS, ITEMS, generator=generator) < hidden] = NONE
    target = torch.randint(1, 5, (USERS, ITEMS), generator=generator) * (
        torch.rand(USERS, ITEMS, generator=generator) < 0.4
    )
    target[seed % USERS] = 0
    return scores, target


A, B = data(1, hidden=0.5), data(2, hidden=0.1)
INPUTS = {
    "train": (torch.rand(USERS, ITEMS, generator=torch.Generator().manual_seed(3)) < 0.3).int(),
    **make_labels(USERS, ITEMS),
}


def alone(name):
    """The metric by itself."""
    spec = parse_name(name)
    return build_metric(
        spec.with_cutoff(K if needs_cutoff(spec.name) else None),
        inputs={**INPUTS, "num_users": USERS, "num_items": ITEMS},
    )


def values(metric):
    """What it computes, by name."""
    found = metric.compute()
    return {
        name: float(value)
        for name, value in (found if isinstance(found, dict) else {"value": found}).items()
    }


def same(found, expected):
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", STATEFUL)
def test_torchmetrics_a_process_without_data(name):
    # torchmetrics: a rank whose lists of states are empty aborts the process, or gets garbage.
    whole, idle = alone(name), alone(name)
    whole.update(*A, EVERYONE)
    whole.absorb(idle)
    expected = alone(name)
    expected.update(*A, EVERYONE)
    same(values(whole), values(expected))


def test_merging_into_a_metric_without_data():
    first, second = weft.metrics.Recall(k=1), weft.metrics.Recall(k=1)
    second.update(FORWARD, [[0]])
    first.absorb(second)
    assert float(first.compute()) == 1  # a warning is an error here


def test_merging_clears_the_cached_value():
    first, second = weft.metrics.Recall(k=1), weft.metrics.Recall(k=1)
    first.update(FORWARD, [[0]])
    second.update(FORWARD, [[1]])
    assert float(first.compute()) == 1
    first.absorb(second)
    assert float(first.compute()) == 0.5


# RePlay and RecBole average the values of ranks: unequal ranks weigh alike, and AUC, Gini and
# coverage have no such mean. One user in the first shard, three in the second; 0 1 2 3 are the
# items. Lists at 1: 0, then 1 1 2.
SHARDS = torch.tensor(
    [[3.0, 2.0, 1.0, 0.0], [2.0, 3.0, 1.0, 0.0], [2.0, 3.0, 1.0, 0.0], [1.0, 2.0, 3.0, 0.0]]
)
WANTED = [[0], [3], [3], [3, 2]]
MERGED = {
    "HitRate": 2 / 4,  # mean of the shards' means: (1 + 1/3) / 2
    "AUC": (1 + 0 + 0 + 0 + 1) / 5,  # over positives; of the shards: (1 + 1/4) / 2
    "GAUC": (1 + 0 + 0 + 1 / 2) / 4,
    "ItemCoverage": 3,
    "Gini": (1 * 1 - 1 * 1 + 3 * 2)
    / (3 * 4),  # lists with each item, ascending: 0 1 1 2, times -3 -1 1 3
    "ShannonEntropy": -(2 * math.log(1 / 4) / 4 + math.log(1 / 2) / 2),
    "NumRetrieved": 1,
}


@pytest.mark.parametrize("first", [1, 3, 4, 0])
def test_replay_and_recbole_average_values_of_processes(first):
    parts = [(SHARDS[:first], WANTED[:first]), (SHARDS[first:], WANTED[first:])]
    one, other = (weft.Evaluator(list(MERGED), top_k=1, num_items=4) for _ in parts)
    for evaluator, part in zip((one, other), parts):
        if part[1]:
            evaluator.update(*part)
    one.merge(other)
    result = one.compute()
    assert {value.metric: value.value for value in result.entries} == pytest.approx(MERGED)
    assert result.counts["users"] == 4 and result.entry("HitRate@1").users == 4
    for name, expected in MERGED.items():
        metric = getattr(weft.metrics, name)
        given = {"k": 1} if needs_cutoff(metric) else {}
        given |= {"num_items": 4} if "num_items" in inspect.signature(metric).parameters else {}
        shards = [metric(**given) for _ in parts]
        for shard, part in zip(shards, parts):
            if part[1]:
                shard.update(*part)
        into, of = shards if first else shards[::-1]
        into.absorb(of)
        assert float(into.compute()) == pytest.approx(expected), name


OTHER_INPUTS = {
    "train": (
        "EPC",
        {"train": torch.tensor([[0, 1]]), "mask_seen": False},
        {"train": torch.tensor([[1, 0]]), "mask_seen": False},
    ),
    "item_clusters": ("REO", {"item_clusters": ["a", "b"]}, {"item_clusters": ["b", "a"]}),
    "item_features": (
        "SRecall",
        {"item_features": ["x", "y"]},
        {"item_features": [["x", "y"], []]},
    ),
}


@pytest.mark.parametrize("which", OTHER_INPUTS)
def test_rejects_merging_evaluators_with_other_inputs(which):
    # A shard that was given only its own part of train counts popularity by that part: the sum is
    # no value at all.
    metric, *inputs = OTHER_INPUTS[which]
    one, other = (weft.Evaluator(metric, top_k=1, **given) for given in inputs)
    for evaluator in (one, other):
        evaluator.update(FORWARD, [[0]], [0])
    with pytest.raises(SettingError, match=f"cannot merge evaluators that differ in .*{which}"):
        one.merge(other)


def absorbed(first, second):
    for metric in (first, second):
        metric.update(FORWARD, [[0]])
    with pytest.raises(SettingError):
        first.absorb(second)


@pytest.mark.parametrize(
    "other",
    [weft.metrics.Recall(k=2), weft.metrics.MRR(k=1), weft.metrics.Recall(k=1, ties="random")],
    ids=repr,
)
def test_rejects_merging_different_metrics(other):
    absorbed(weft.metrics.Recall(k=1), other)


def test_rejects_merging_metrics_with_other_labels():
    absorbed(
        *(weft.metrics.REO(k=1, item_clusters=clusters) for clusters in (["a", "b"], ["b", "a"]))
    )


def test_rejects_merging_composites_with_other_inputs():
    trains = (torch.tensor([[0, 1]]), torch.tensor([[1, 0]]))
    absorbed(
        *(weft.metrics.F1(k=1, metric_name_1="EPC", inputs={"train": train}) for train in trains)
    )


def test_rejects_merging_metrics_of_another_catalogue():
    first, second = weft.metrics.Gini(k=1, num_items=2), weft.metrics.Gini(k=1, num_items=3)
    with pytest.raises(SettingError):
        first.absorb(second)


ONE_MORE = {"user_groups": {"user_groups": ["F"]}, "item_clusters": {"item_clusters": ["a", "b"]}}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("which", ["user_groups", "item_clusters"])
def test_merging_evaluators_with_unused_inputs(which, turned):
    pair = [weft.Evaluator("Recall@1", num_items=2, **given) for given in (ONE_MORE[which], {})]
    one, other = pair[::-1] if turned else pair
    for evaluator, target in ((one, [[0]]), (other, [[1]])):
        evaluator.update(FORWARD, target, [0])
    try:
        one.merge(other)
    except SettingError:
        return  # to refuse is as good
    assert one.compute()["Recall@1"] == 0.5


# ----------------------------------------------------------------------------------------------- Re


def test_replay_users_without_ground_truth_count_as_zeros():
    # RePlay: 1/2, as if the second user had been disappointed.
    result = evaluate(
        [[2.0, 1.0], [2.0, 1.0]],
        {0: [0], 1: []},
        ["HitRate", "nDCG", "EPC"],
        1,
        train={0: [1]},
        mask_seen=False,
    )
    assert result["HitRate@1"] == result["nDCG@1"] == 1 and result.entry("HitRate@1").users == 1
    assert result["EPC@1"] == 1  # nobody has met item 0
    assert result.counts["users_without_relevant"] == 1
    assert note(result, "1 of 2 users has no relevant item and is excluded from the means")
    asked = evaluate([[2.0, 1.0], [2.0, 1.0]], {0: [0], 1: []}, "HitRate", 1, empty_users="zero")
    assert asked["HitRate@1"] == 0.5 and note(asked, "counts as 0")


def test_rectools_ideal_has_k_relevant_items_even_if_the_user_has_fewer():
    # RecTools: the only relevant item stands first, and nDCG@3 is 1 / (1 + 0.631 + 0.5) = 0.469.
    result = evaluate(
        [[4.0, 3.0, 2.0, 1.0]], {0: [0]}, ["nDCG", "nDCG(ideal=k)", "nDCG(ideal=full)"], 3
    )
    assert result["nDCG@3"] == result["nDCG(ideal=full)@3"] == 1
    assert result["nDCG(ideal=k)@3"] == pytest.approx(0.469, abs=5e-4)
    profiled = evaluate([[4.0, 3.0, 2.0, 1.0]], {0: {0: 5.0}}, "nDCG", 3, profile="rectools")
    assert profiled["nDCG@3"] == result["nDCG(ideal=k)@3"]


def test_recbole_entropy_is_divided_by_the_number_of_items():
    # RecBole: log(4) / 4 for four items shown equally often, so that more variety can score less.
    scores = torch.eye(4)
    result = evaluate(
        scores,
        {0: [0]},
        ["ShannonEntropy", "ShannonEntropy(base=2)", "ShannonEntropy(normalized=True)"],
        1,
    )
    assert [value.value for value in result.entries] == pytest.approx([math.log(4), 2, 1])
    two = evaluate(scores[[0, 0, 1, 1]], {0: [0]}, "ShannonEntropy", 1)
    assert two["ShannonEntropy@1"] == pytest.approx(math.log(2))


def test_entropy_of_one_item_is_not_minus_zero():
    result = evaluate([[2.0, 1.0]], {0: [0]}, "ShannonEntropy", 1)
    assert result["ShannonEntropy@1"] == 0 and "-0.0000" not in repr(result)


def test_implicit_precision_is_divided_by_the_relevant_items():
    # implicit: hits / min(k, R), which is a recall. One relevant item, found: its precision@5 is
    # 1/5, not 1.
    result = evaluate(
        torch.arange(9.0)[None], {0: [8]}, ["Precision", "Recall", "Recall(normalizer=capped)"], 5
    )
    assert [value.value for value in result.entries] == pytest.approx([1 / 5, 1, 1])
    short = evaluate([[2.0, NONE, 1.0]], {0: [0]}, ["Precision", "Precision(denominator=list)"], 5)
    assert [value.value for value in short.entries] == pytest.approx([1 / 5, 1 / 2])


# -------------------------------------------------------------------------------------------- ids:

STRINGS, NUMBERS = {"users": ["1", "2"], "items": ["7", "8"]}, {"users": [1, 2], "items": [7, 8]}
MISMATCHED = {
    "truth's users": ({1: ["7"]}, {}, STRINGS),
    "truth's items": ({"1": [7]}, {}, STRINGS),
    "numbers": ({"1": ["7"]}, {}, NUMBERS),
    "frame": (pl.DataFrame({"user": ["1"], "item": ["7"]}), {}, NUMBERS),
    "pandas": (pd.DataFrame({"user": [1], "item": ["7"]}), {}, STRINGS),
    "train": ({"1": ["7"]}, {"train": {1: ["7"]}}, STRINGS),
    "train's items": ({"1": ["7"]}, {"train": {"1": [7]}}, STRINGS),
    "groups": ({"1": ["7"]}, {"user_groups": {1: "F"}}, STRINGS),
    "clusters": ({1: [7]}, {"item_clusters": {"7": "a"}}, NUMBERS),
    "features": (
        {1: [7]},
        {"item_features": pl.DataFrame({"item": ["7"], "feature": ["a"]})},
        NUMBERS,
    ),
}


@pytest.mark.parametrize("case", MISMATCHED)
def test_recommenders_and_rectools_do_not_match_ids_of_another_type(case):
    # Joins of 1 with "1" find nothing, and every metric is 0.
    truth, more, ids = MISMATCHED[case]
    with pytest.raises(InputError, match=r"integers.*strings|strings.*integers"):
        evaluate([[1.0, 2.0]] * 2, truth, "Recall", 1, **ids, **more)


@pytest.mark.parametrize(
    "truth",
    [
        {"1": ["7", "7"]},
        pl.DataFrame({"user": ["1", "1"], "item": ["7", "7"]}),
        pd.DataFrame({"user": ["1"] * 2, "item": ["7"] * 2}),
    ],
    ids=["dict", "polars", "pandas"],
)
def test_recommenders_recall_changes_with_duplicate_rows(truth):
    # recommenders: a row that is there twice is two relevant items, and recall is 1/2.
    with pytest.raises(
        InputError, match=r"(?s)1 repeated .user, item. row:.*user '1', item '7'.*drop"
    ):
        evaluate([[1.0, 2.0]] * 2, truth, "Recall", 1, **STRINGS)


def test_duplicate_train_rows_count_once():
    once, twice = (
        evaluate(
            [[2.0, 1.0]] * 2,
            {"1": ["7"]},
            ["EPC", "EFD", "ARP"],
            1,
            train=train,
            mask_seen=False,
            **STRINGS,
        )
        for train in ({"1": ["8"], "2": ["7", "8"]}, {"1": ["8", "8"], "2": ["7", "8", "7"]})
    )
    assert {name: twice[name] for name in twice} == {name: once[name] for name in once}
    assert (
        once["EPC@1"] == 0.5 and once["EFD@1"] == pytest.approx(math.log2(3)) and once["ARP@1"] == 1
    )
    assert note(twice, "train contains 2 repeated (user, item) rows; each pair is counted once")


# ------------------------------------------------------------------------------ ties: trec_eval, pa


@pytest.mark.parametrize("place", range(4))
def test_trec_eval_orders_ties_by_id(place):
    # trec_eval ranks ties by id, descending: a run of equal scores has MAP 1.0 if the relevant id
    # sorts last.
    expected = evaluate(
        torch.zeros(1, 4), {0: [place]}, ["MAP", "nDCG", "MRR", "Recall"], [2, 4], ties="expected"
    )
    ranks = [1, 1 / 2, 1 / 3, 1 / 4]
    assert expected["MAP@4"] == expected["MRR@4"] == pytest.approx(sum(ranks) / 4)
    assert expected["MAP@2"] == pytest.approx(sum(ranks[:2]) / 4) and expected[
        "Recall@2"
    ] == pytest.approx(1 / 2)
    assert expected["nDCG@4"] == pytest.approx(sum(1 / math.log2(p + 1) for p in range(1, 5)) / 4)
    stated = evaluate(torch.zeros(1, 4), {0: [place]}, "MAP", [2, 4])
    assert stated["MAP@4"] == pytest.approx(ranks[place]) and stated.settings["ties"] == "index"
    assert note(stated, "1 user has equal scores at positions 2 and 3", "the tie rule 'index'")
    bounds = [
        evaluate(torch.zeros(1, 4), {0: [place]}, "MAP@4", ties=ties)["MAP@4"]
        for ties in ("pessimistic", "optimistic")
    ]
    assert bounds == pytest.approx([1 / 4, 1])


@pytest.mark.parametrize("profile", [None, "trec_eval", "ranx", "sklearn"])
def test_trec_eval_truncates_fractions_of_relevance(profile):
    # trec_eval reads 0.9 and 0.4 as 0: nothing is relevant, unless the threshold is lower.
    metric = "nDCG" if profile else "nDCG(gain=linear)"
    scores, truth = [[1.0, 2.0, 0.0]], {0: {0: 0.9, 1: 0.4}}
    threshold = {}
    if profile in ("trec_eval", "ranx"):
        result = evaluate(scores, truth, metric, 2, profile=profile)
        assert result["nDCG@2"] == 0 and result.settings["relevance_threshold"] == 1
        assert note(result, "1 of 1 users has no relevant item")
        threshold = {"relevance_threshold": 0.1}
    result = evaluate(scores, truth, metric, 2, profile=profile, **threshold)
    second = 1 / math.log2(3)
    assert result[f"{metric}@2"] == pytest.approx((0.4 + 0.9 * second) / (0.9 + 0.4 * second))


def test_evidently_coverage_ignores_k():
    # Lists 0 1 2 and 1 0 2: two items at 1, the same two at 2, three at 3.
    result = evaluate(
        [[3.0, 2.0, 1.0, 0.0], [2.0, 3.0, 1.0, 0.0]],
        {0: [0]},
        ["ItemCoverage", "ItemCoverage(as_fraction=True)"],
        [1, 2, 3],
    )
    assert [value.value for value in result.entries] == [2, 2, 3, 0.5, 0.5, 0.75]


@pytest.mark.parametrize("ties", ["expected", "random", "pessimistic"])
def test_papers_rank_the_target_first_among_ties(ties):
    # Code of many papers: the target is item 0, or the first candidate, and a constant model has a
    # hit rate of 1.
    num_users, num_items, k = 300, 20, 5
    found = [
        evaluate(
            torch.zeros(num_users, num_items),
            {u: [place] for u in range(num_users)},
            ["HitRate", "MRR"],
            k,
            ties=ties,
        )
        for place in (0, 7, 19)
    ]
    wanted = {
        "expected": pytest.approx(k / num_items, abs=1e-12),
        "pessimistic": 0,
        "random": pytest.approx(k / num_items, abs=0.1),
    }[ties]
    assert [one[f"HitRate@{k}"] for one in found] == [wanted] * 3
    if ties == "expected":
        assert found[0]["MRR@5"] == pytest.approx(sum(1 / p for p in range(1, k + 1)) / num_items)
        assert found[0]["MRR@5"] == found[1]["MRR@5"] == found[2]["MRR@5"]


def test_notes_ties_decided_by_index():
    result = evaluate(torch.zeros(3, 20), {0: [0], 1: [0], 2: [0]}, "HitRate", 5)
    assert result["HitRate@5"] == 1  # the stated rule, and what it did:
    assert note(
        result, "3 users have equal scores at positions 5 and 6", "the tie rule 'index' decides"
    )


# ------------------------------------------------------------------------------------- examples in


@pytest.mark.parametrize(
    "metric",
    built_in_metrics(),
    ids=lambda m: m.__name__,
)
def test_docstring_examples_follow_from_their_data(metric):
    # Elsewhere: a row's top 3 that its scores do not give, YAML that does not parse, a harmonic
    # mean of keys that do not exist.
    runner = doctest.DocTestRunner(verbose=False)
    (example,) = doctest.DocTestFinder(recurse=False).find(
        metric, metric.__name__, module=sys.modules[metric.__module__]
    )
    outcome = runner.run(example, out=lambda text: None)
    assert outcome.failed == 0 and outcome.attempted >= 3


def test_documented_names_exist():
    for name in BUILT_IN:
        spec = parse_name(name)
        spec = spec.with_cutoff(K if needs_cutoff(spec.name) else None)
        result = evaluate([[2.0, 1.0]], {0: [0]}, str(spec), train={0: [1]}, **make_labels(1, 2))
        assert all(result.entry(found).name == found for found in result)
        assert len(result) or "BiasDisparity" in name


# ------------------------------------------------------------------------ nothing leaks into the ne


def everything(**settings):
    made = {
        "metrics": STATEFUL,
        "top_k": [1, K, 20],
        "per_user": True,
        "num_users": USERS,
        "num_items": ITEMS,
    }
    return weft.Evaluator(**{**made, **INPUTS, **settings})


def fed(evaluator, *batches):
    for scores, target in batches:
        evaluator.update(scores, target, EVERYONE)
    return evaluator


def equal(found, expected):
    assert (
        list(found) == list(expected)
        and found.counts == expected.counts
        and found.notes == expected.notes
    )
    for one, other in zip(found.entries, expected.entries):
        same([one.value, one.std_error], [other.value, other.std_error])
        assert (one.name, one.users) == (other.name, other.users)
    assert found.per_user.equals(expected.per_user)


@pytest.fixture(scope="module")
def b_alone():
    return fed(everything(), B).compute()


def test_state_of_an_earlier_batch_changes_values(b_alone):
    """Else nothing below could fail: without a reset every metric has another value at some
    cut-off.
    """
    mixed = fed(everything(), A, B).compute()
    changed = {
        value.metric
        for value in b_alone.entries
        if value.value == value.value and value.value != mixed[value.name]
    }
    # BiasDisparityBS is of train alone; NE is undefined where every interaction is relevant; every
    # item that was not masked is new to its user; ranked items are valid, and none is repeated.
    unchanged = {value.metric for value in b_alone.entries} - changed
    assert unchanged == {"BiasDisparityBS", "NE", "NewToUser", "ValidRate", "DuplicateRate"}


def test_reset_clears_all_metrics(b_alone):
    evaluator = fed(everything(), A, A)
    evaluator.compute()
    evaluator.reset()
    equal(fed(evaluator, B).compute(), b_alone)


@pytest.mark.parametrize("name", STATEFUL)
def test_reset_clears_each_metric(name):
    in_run = {"metrics": name}
    evaluator = fed(everything(**in_run), A)
    evaluator.compute()
    evaluator.reset()
    equal(fed(evaluator, B).compute(), fed(everything(**in_run), B).compute())

    used, fresh = alone(name), alone(name)
    used.update(*A, EVERYONE)
    used.compute()
    used.reset()
    for metric in (used, fresh):
        metric.update(*B, EVERYONE)
    same(values(used), values(fresh))


def test_evaluations_are_independent():
    settings = {"metrics": STATEFUL, "top_k": [1, K, 20], "per_user": True, **INPUTS}
    once = weft.evaluate(*B, **settings)
    weft.evaluate(*A, **settings)
    equal(weft.evaluate(*B, **settings), once)


def spoiled(scores, target):
    """Batches that are refused, each for another reason and at another station."""
    nan, item, huge = scores.clone(), [[0]] * (USERS - 1) + [[ITEMS]], target.double()
    nan[USERS - 1, 0] = math.nan
    huge[USERS - 1, 0] = 2000.0  # 2^r overflows, which is seen when the gains are made
    return {
        "NaN": (nan, target, EVERYONE),
        "unknown item": (scores, item, EVERYONE),
        "huge rating": (scores, huge, EVERYONE),
        "unknown user": (scores, target, EVERYONE + 1),
        "too few items": (scores[:, 1:], target[:, 1:], EVERYONE),
        "negative rating": (scores, -target, EVERYONE),
        "nobody named": (scores, target, None),
    }


@pytest.mark.parametrize("reason", spoiled(*A))
def test_rejected_batches_do_not_change_the_state(reason, b_alone):
    evaluator = fed(everything(), A)
    with pytest.raises(weft.WeftError):
        evaluator.update(*spoiled(*A)[reason])
    equal(fed(evaluator, B).compute(), fed(everything(), A, B).compute())
    with pytest.raises(weft.WeftError):
        evaluator.update(*spoiled(*B)[reason])
    evaluator.reset()
    equal(fed(evaluator, B).compute(), b_alone)


@pytest.mark.parametrize(
    "name", ["nDCG", "EPC(relevance=graded)", "ItemMADRanking", "UserMADRanking"]
)
def test_batches_that_a_metric_rejects_do_not_change_its_state(name):
    metric, fresh = alone(name), alone(name)
    for one in (metric, fresh):
        one.update(*A, EVERYONE)
    with pytest.raises(InputError, match="too large"):
        metric.update(*spoiled(*A)["huge rating"])
    same(values(metric), values(fresh))


def test_rejected_first_batch_does_not_set_the_number_of_items():
    evaluator = weft.Evaluator("Recall@1")
    with pytest.raises(InputError, match="item 9"):
        evaluator.update(torch.ones(1, 5), [[9]])
    evaluator.update(FORWARD, [[0]])
    assert evaluator.compute()["Recall@1"] == 1


@pytest.fixture
def own_metrics(monkeypatch):
    """Two metrics with states of their own, the second of which fails on negative scores after it
    has counted the batch.
    """
    monkeypatch.setattr("weft.metrics.registry._classes", dict(weft.metrics.registry._classes))

    @weft.register
    class Rows(weft.BaseMetric):
        _REQUIRED_COMPONENTS = {weft.MetricBlock.VALID_USERS}

        def __init__(self, **settings):
            super().__init__(**settings)
            self.add_state("rows", torch.zeros(()), dist_reduce_fx="sum")

        def update(self, preds, **kwargs):
            self.rows = self.rows + len(preds)

        def compute(self):
            return self.rows

    @weft.register
    class FragileRows(Rows):
        def update(self, preds, **kwargs):
            self.rows = self.rows + len(preds)
            if (preds < 0).any():
                raise ArithmeticError("the metric's own")


def failed(metrics):
    """An evaluator of one good batch and one in which a metric raised."""
    evaluator = weft.Evaluator(metrics, top_k=1)
    evaluator.update(FORWARD, [[0]])
    with pytest.raises(MetricError, match="ArithmeticError"):
        evaluator.update(-FORWARD, [[0]])
    return evaluator


def test_batches_in_which_a_metric_raises_count_for_no_metric(own_metrics):
    evaluator = failed(["Rows", "FragileRows", "Recall"])
    assert [value.value for value in evaluator.compute().entries] == [1, 1, 1]
    evaluator.reset()
    evaluator.update(FORWARD, [[1]])
    assert [value.value for value in evaluator.compute().entries] == [1, 1, 0]


def test_failing_metrics_are_rolled_back(own_metrics):
    assert [value.value for value in failed(["FragileRows", "Recall"]).compute().entries] == [1, 1]


def test_merges_without_the_failed_batch(own_metrics):
    sound = weft.Evaluator(["Rows", "FragileRows", "Recall"], top_k=1)
    sound.update(FORWARD, [[0]])
    sound.merge(failed(["Rows", "FragileRows", "Recall"]))
    assert [value.value for value in sound.compute().entries] == [2, 2, 1]


def test_list_states_are_rolled_back(own_metrics):
    """Pooled AUC has appended to its states when the metric behind it fails."""
    evaluator = failed(["AUC(scope=pooled)", "FragileRows"])
    assert [value.value for value in evaluator.compute().entries] == [1, 1]
    evaluator.update(
        -FORWARD.abs() + 4, [[0]]
    )  # 2, 3: pooled with 2, 1, the positives 2 2 and the negatives 1 3
    assert [value.value for value in evaluator.compute().entries] == [0.5, 2]
