"""Floors, ceilings and skill: the value of a random order, and the best reachable value."""

import itertools
import json
import math

import numpy as np
import pytest
import torch

import weft
from metric_cases import BUILT_IN, VARIANTS, has_trait
from weft.metrics.base.formulas import UserMeanMetric
from weft.metrics.names import parse_name
from weft.metrics.registry import find_metric, needs_cutoff
from weft.report.result_formats import to_csv, to_markdown

# The toy data of eight items: train, graded truth.
TRAIN = np.array([[1, 1, 0, 0, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0]])
TRUTH = np.array([[0, 0, 0, 1, 2, 0, 0, 3], [0, 0, 0, 3, 0, 0, 1, 0], [0, 1, 0, 0, 0, 2, 0, 0]])
SCORES = np.random.default_rng(3).random((3, 8))
# For metrics that need them; others ignore them.
FEATURES = [["x"], ["x", "y"], [], ["y"], ["y", "z"], ["x"], ["z"], ["x", "y", "z"]]
METRICS = [
    name
    for name in BUILT_IN + VARIANTS
    if issubclass(find_metric(parse_name(name).name), UserMeanMetric)
    and has_trait(name, "has_reference_values")
]


def references(result):
    return {value.name: (value.floor, value.ceiling) for value in result.entries}


def test_toy_values():
    """Computed by hand from the formulas of a random draw without replacement."""
    names = ["Recall", "Precision", "HitRate", "MRR", "nDCG(gain=binary)", "Recall@2"]
    result = weft.evaluate(SCORES, TRUTH, train=TRAIN, metrics=names, top_k=4, skill=True)
    floors = {name: floor for name, (floor, _) in references(result).items()}
    expected = {
        "Recall@4": 0.634921,
        "Precision@4": 0.373016,
        "HitRate@4": 0.930159,
        "MRR@4": 0.594378,
        "nDCG(gain=binary)@4": 0.524452,
        "Recall@2": 0.317460,
    }
    assert floors == pytest.approx(expected, abs=1e-6)
    assert result.entry("Recall@2").ceiling == pytest.approx(8 / 9)
    assert result.entry("Precision@4").ceiling == pytest.approx(7 / 12)
    for value in result.entries:
        share = (value.value - value.floor) / (value.ceiling - value.floor)
        assert value.skill == pytest.approx(share)


# Ratings and seen items of one user of six items.
ONE_USER = [
    ([2, 1, 3, 0, 0, 0], [1, 0, 0, 0, 0, 0]),  # a relevant item is masked
    ([5, 4, 0, 3, 0, 1], [0, 0, 0, 0, 0, 1]),
    ([1, 1, 1, 1, 1, 1], [0, 1, 0, 0, 0, 0]),  # there are no negatives
    ([1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]),  # the only relevant item is masked
]


@pytest.mark.parametrize("name", METRICS)
def test_floor_and_ceiling_are_mean_and_best_of_all_orders(name):
    orders = np.array(list(itertools.permutations(range(5))))  # of the five offered items
    best = np.max if has_trait(name, "higher_is_better") else np.min
    cutoffs = [1, 2, 3, 5, 8] if needs_cutoff(parse_name(name).name) else None
    for ratings, seen in ONE_USER:
        scores = np.zeros((len(orders), 6))
        scores[:, np.equal(seen, 0)] = orders
        data = {
            "truth": np.tile(ratings, (len(orders), 1)),
            "train": np.tile(seen, (len(orders), 1)),
            "item_features": FEATURES[:6],
        }
        result = weft.evaluate(
            scores, metrics=name, top_k=cutoffs, skill=True, per_user=True, **data
        )
        for value in result.entries:
            values = result.per_user[value.name].to_numpy()
            expected = [values.mean(), values.mean(), best(values)]
            found = [value.value, value.floor, value.ceiling]
            assert found == pytest.approx(expected, abs=1e-12, nan_ok=True), (value.name, ratings)


def test_values_are_the_same_with_and_without_skill():
    settings = {"train": TRAIN, "metrics": METRICS, "top_k": [2, 4], "bootstrap": 20, "seed": 5}
    settings["item_features"] = FEATURES
    plain = weft.evaluate(SCORES, TRUTH, **settings)
    other = weft.evaluate(SCORES, TRUTH, skill=True, **settings)
    for one, two in zip(plain.entries, other.entries, strict=True):
        assert (one.value, one.std_error, one.bca_low) == (two.value, two.std_error, two.bca_low)
        assert math.isnan(one.floor) and math.isnan(one.ceiling) and math.isnan(one.skill)
    assert "skill" not in plain.settings and other.settings["skill"] is True


def test_only_accuracy_metrics_of_positions_have_them():
    names = ["nDCG", "Gini", "F1", "ItemCoverage", "RMSE", "AUC"]
    result = weft.evaluate(SCORES, TRUTH, train=TRAIN, metrics=names, top_k=4, skill=True)
    assert [value.metric for value in result.entries if not math.isnan(value.floor)] == ["nDCG"]


def test_metrics_of_authors_have_none():
    class Own(weft.UserAverageTopKMetric):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return top_k_rel.sum(1) / self.k

    class OwnPrecision(weft.metrics.Precision):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return top_k_rel.sum(1) / self.k

    result = weft.evaluate(SCORES, TRUTH, metrics=[Own(k=2), OwnPrecision(k=2)], skill=True)
    assert all(math.isnan(value.floor) for value in result.entries)


# Users a and b have lists, c has none; item 0 of a and b is in train.
LISTS = {"a": [3, 4, 5], "b": [2, 1]}
LIST_TRUTH = {"a": [4, 2], "b": [1], "c": [5]}
LIST_TRAIN = {"a": [0], "b": [0]}


def test_lists_offer_everything_that_is_not_masked():
    options = {"train": LIST_TRAIN, "items": range(6), "metrics": "Recall@2", "skill": True}
    masked = weft.evaluate(LISTS, LIST_TRUTH, mask_seen=True, **options).entry("Recall@2")
    shares = [2 / 5, 2 / 5, 2 / 6]  # a random order of five, five and six items, cut at 2
    assert masked.floor == pytest.approx(sum(shares) / 3)
    assert masked.ceiling == pytest.approx(1)
    kept = weft.evaluate(LISTS, LIST_TRUTH, mask_seen=False, **options).entry("Recall@2")
    assert kept.floor == pytest.approx(1 / 3)


def test_candidates_are_what_was_offered():
    candidates = {"a": [3, 4], "b": [1, 2, 3, 5], "c": [4]}
    result = weft.evaluate(
        LISTS, LIST_TRUTH, items=range(6), candidates=candidates, metrics="Recall@1", skill=True
    )
    # a: one of the two relevant items is a candidate; b: one of four candidates; c: none.
    assert result.entry("Recall@1").floor == pytest.approx((1 / 4 + 1 / 4 + 0) / 3)
    assert result.entry("Recall@1").ceiling == pytest.approx((1 / 2 + 1 + 0) / 3)


def test_masked_relevant_items_lower_the_ceiling():
    truth = np.array([[1, 1, 0, 0]])
    train = np.array([[1, 0, 0, 0]])
    result = weft.evaluate(
        np.ones((1, 4)), truth, train=train, metrics=["Recall@2", "nDCG@2"], skill=True
    )
    assert result.entry("Recall@2").ceiling == 0.5
    ideal = 1 / (1 + 1 / math.log2(3))
    assert result.entry("nDCG@2").ceiling == pytest.approx(ideal)


def test_skill_is_undefined_if_every_order_has_the_same_value():
    result = weft.evaluate(np.ones((1, 2)), np.array([[1, 0]]), metrics="Recall@2", skill=True)
    value = result.entry("Recall@2")
    assert (value.floor, value.ceiling, value.value) == (1, 1, 1) and math.isnan(value.skill)


def test_users_without_relevant_items_count_zero_in_both():
    truth, scores = np.array([[1, 0, 0], [0, 0, 0]]), np.ones((2, 3))
    for policy, share in {"skip": 1, "zero": 2}.items():
        result = weft.evaluate(
            scores, truth, metrics="Recall@1", skill=True, empty_users=policy, ties="expected"
        )
        value = result.entry("Recall@1")
        assert value.floor == pytest.approx(1 / 3 / share) == pytest.approx(value.value)
        assert value.ceiling == pytest.approx(1 / share)


@pytest.mark.parametrize("estimator", [None, "rank_estimate", "bias_variance"])
def test_estimates_among_all_items_have_the_floor_of_all_items(estimator):
    draw = np.random.default_rng(8)
    scores, truth = draw.random((20, 60)), (draw.random((20, 60)) < 0.1).astype(int)
    truth[:, 0] = 1
    options = {"metrics": ["nDCG", "Recall", "MRR"], "top_k": [1, 5], "skill": True}
    full = references(weft.evaluate(scores, truth, **options))
    sampled = weft.evaluate(
        scores, truth, strategy="sampled", num_negatives=10, estimator=estimator, **options
    )
    for name, (floor, ceiling) in references(sampled).items():
        assert ceiling == pytest.approx(full[name][1])
        if estimator is None:
            assert floor > 1.5 * full[name][0]  # among ten negatives
        else:
            assert floor == pytest.approx(full[name][0])


def test_batches_states_and_loops_agree():
    options = {"metrics": METRICS, "top_k": [2, 4], "train": TRAIN, "skill": True}
    options["item_features"] = FEATURES
    expected = weft.evaluate(SCORES, TRUTH, **options)
    evaluator, other = weft.Evaluator(**options), weft.Evaluator(**options)
    scores, truth = torch.from_numpy(SCORES), torch.from_numpy(TRUTH)
    evaluator.update(scores[:1], truth[:1], user_indices=[0])
    other.update(scores[1:], truth[1:], user_indices=[1, 2])
    evaluator.merge(other)
    for one, two in zip(evaluator.compute().entries, expected.entries, strict=True):
        for field in ("value", "floor", "ceiling"):
            assert getattr(one, field) == pytest.approx(getattr(two, field), abs=1e-12)


def test_tables_files_and_reports_show_them(tmp_path):
    options = {"metrics": ["nDCG", "Gini"], "top_k": 2, "train": TRAIN, "skill": True}
    result = weft.evaluate(SCORES, TRUTH, name="plain", **options)
    value = result.entry("nDCG@2")
    frame = result.to_frame()
    assert frame.row(0, named=True)["skill"] == value.skill
    assert math.isnan(frame.row(1, named=True)["floor"])
    head, line, gini, *_ = repr(result).splitlines()[1:]
    assert head.split()[-3:] == ["floor", "ceiling", "skill"]
    shown = [f"{number:.4f}" for number in (value.floor, value.ceiling, value.skill)]
    assert line.split()[-3:] == shown and gini.split()[-1] != shown[-1]
    cells = [line for line in to_markdown([result]).splitlines() if "|" in line][-1].split("|")
    assert [cell.strip() for cell in cells[1:-1]] == ["skill of nDCG@2 ↑", shown[-1]]
    assert to_csv([result]).splitlines()[0].endswith("higher_is_better,floor,ceiling,skill")
    path = result.save(tmp_path / "result.json")
    assert weft.load_result(path).entry("nDCG@2") == value
    assert "floor" not in json.loads(path.read_text())["values"][1]
    page = result.to_html()
    assert "skill of nDCG@2" in page and f"({value.floor:.4f} to {value.ceiling:.4f})" in page
