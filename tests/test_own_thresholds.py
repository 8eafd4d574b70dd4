"""Metrics with a relevance threshold of their own, beside others in one pass."""

import numpy as np
import pytest
import torch

import weft
from local_engine import evaluate as evaluate_in_partitions
from metric_cases import BUILT_IN, BY_POSITION, make_labels
from weft.errors import SettingError, UnknownParameter
from weft.metrics.names import parse_name
from weft.metrics.registry import build_metric, canonical_name, find_metric, needs_cutoff

USERS, ITEMS = 40, 30
DRAW = np.random.default_rng(6)
SCORES = DRAW.integers(0, 12, (USERS, ITEMS)) / 4  # with ties
TRUTH = DRAW.integers(1, 6, (USERS, ITEMS)) * (DRAW.random((USERS, ITEMS)) < 0.2)
TRAIN = (DRAW.random((USERS, ITEMS)) < 0.1).astype(int)
FIELDS = ("value", "std_error", "users", "floor", "ceiling", "bca_low", "bca_high")


def own_names():
    """The built-in metrics of family accuracy whose name may have a threshold."""
    for name in BUILT_IN:
        metric = find_metric(parse_name(name).name)
        if metric.family == "accuracy" and metric.supports_own_threshold:
            yield name


def with_threshold(name, threshold):
    spec = parse_name(name)
    params = (*spec.params, ("relevance_threshold", threshold))
    return type(spec)(spec.name, params, spec.k)


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        for field in FIELDS:
            expected_value = getattr(other, field)
            if expected_value is not None:  # as the standard error of a mean over items
                expected_value = pytest.approx(expected_value, rel=1e-12, nan_ok=True)
            assert getattr(one, field) == expected_value, (one.name, field)


@pytest.mark.parametrize("ties", ["index", "random", "expected", "pessimistic", "optimistic"])
@pytest.mark.parametrize("source", ["scores", "lists"])
def test_values_are_those_of_a_run_with_the_threshold(source, ties):
    given = SCORES
    names = list(own_names())
    if source == "lists":
        given = {
            user: {item: row[item] for item in DRAW.permutation(ITEMS)[:12]}
            for user, row in enumerate(SCORES.tolist())
        }
        names = [name for name in names if not find_metric(parse_name(name).name).needs_all_scores]
    options = {"train": TRAIN, "mask_seen": True, "ties": ties, "skill": True, "bootstrap": 10}
    options |= {"top_k": [1, 5], "items": "positions", "users": "positions"}
    if source == "lists":
        options |= {"items": range(ITEMS), "users": None}
    both = [*names, *(str(with_threshold(name, 4)) for name in names)]
    found = weft.evaluate(given, TRUTH, metrics=both, **options)
    plain = weft.evaluate(given, TRUTH, metrics=names, **options)
    strict = weft.evaluate(given, TRUTH, metrics=names, relevance_threshold=4, **options)
    size = len(plain.entries)
    assert_same(found.entries[:size], plain.entries)
    assert_same(found.entries[size:], strict.entries)


POINT = "EucDistance(metric_names=[nDCG, EPC], utopia_points=[1, 1]{})"


def test_values_of_other_families():
    names = [POINT.format(", scope=users")]
    for name in BUILT_IN:
        metric = find_metric(parse_name(name).name)
        if metric.supports_own_threshold and metric.family not in ("accuracy", "multi-objective"):
            names.append(name)
    options = {"train": TRAIN, "top_k": [1, 5], **make_labels(USERS, ITEMS), **BY_POSITION}
    own = [str(with_threshold(name, 4)) for name in names]
    found = weft.evaluate(SCORES, TRUTH, metrics=own, **options)
    expected = weft.evaluate(SCORES, TRUTH, metrics=names, relevance_threshold=4, **options)
    for one, other in zip(found.entries, expected.entries, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-12, nan_ok=True), one.name


def test_points_of_a_model_refuse_a_threshold():
    name = POINT.format(", relevance_threshold=4")
    with pytest.raises(SettingError, match="set it in the combined metrics instead"):
        weft.evaluate(SCORES, TRUTH, metrics=name, train=TRAIN, top_k=5)


def test_a_threshold_may_be_lower_than_that_of_the_run():
    names = ["nDCG@5", "nDCG(relevance_threshold=2)@5"]
    found = weft.evaluate(SCORES, TRUTH, metrics=names, relevance_threshold=4)
    low, high = (
        weft.evaluate(SCORES, TRUTH, metrics="nDCG@5", relevance_threshold=threshold)["nDCG@5"]
        for threshold in (2, 4)
    )
    assert [found[name] for name in names] == pytest.approx([high, low], rel=1e-12)
    assert low != pytest.approx(high)


def test_tables_slices_states_and_partitions():
    names = ["Recall@5", "Recall(relevance_threshold=5)@5"]
    slices = {"half": [str(user % 2) for user in range(USERS)]}
    options = {"metrics": names, "slices": slices}
    result = weft.evaluate(SCORES, TRUTH, per_user=True, **options)
    strict = weft.evaluate(
        SCORES, TRUTH, metrics="Recall@5", slices=slices, per_user=True, relevance_threshold=5
    )
    assert (
        result.slices.filter(metric="Recall(relevance_threshold=5)")
        .drop("metric")
        .equals(strict.slices.drop("metric"))
    )
    table = result.per_user.select("user", names[1]).drop_nans(names[1])
    assert table.rows() == strict.per_user.rows()
    evaluators = [weft.Evaluator(**options) for _ in range(2)]
    for evaluator, rows in zip(evaluators, np.split(np.arange(USERS), 2)):
        scores, truth = (torch.from_numpy(data[rows]) for data in (SCORES, TRUTH))
        evaluator.update(scores, truth, user_indices=rows)
    evaluators[0].merge(evaluators[1])
    assert evaluators[0].compute()[names[1]] == pytest.approx(strict["Recall@5"])


def test_partitions():
    lists = {f"u{user}": [f"i{item}" for item in DRAW.permutation(9)[:4]] for user in range(20)}
    truth = {
        user: {f"i{item}": float(rating) for item, rating in enumerate(DRAW.integers(0, 6, 9))}
        for user in lists
    }
    options = {"metrics": ["MAP", "MAP(relevance_threshold=3)"], "top_k": 3}
    expected = weft.evaluate(lists, truth, **options)
    found = evaluate_in_partitions(lists, truth, **options)
    assert found == pytest.approx(expected)


def test_metrics_alone():
    metric = build_metric(parse_name("Precision(relevance_threshold=4)@5"))
    metric.update(torch.from_numpy(SCORES), torch.from_numpy(TRUTH))
    setting = weft.metrics.Precision(k=5, relevance_threshold=4)
    setting.update(torch.from_numpy(SCORES), torch.from_numpy(TRUTH))
    assert metric.compute() == setting.compute()


def test_objects_are_refused_with_the_name_to_give():
    with pytest.raises(
        SettingError,
        match=r"to the evaluation instead, or set the threshold of this metric .*threshold=4\)",
    ):
        weft.evaluate(SCORES, TRUTH, metrics=[weft.metrics.nDCG(k=5, relevance_threshold=4)])


def test_notes_do_not_state_the_threshold_of_the_run_for_others():
    names = ["Recall(relevance_threshold=5)@5", "nDCG(relevance_threshold=5)@5"]
    assert not any("relevant" in note for note in _rating_notes(names[:1]))
    (note,) = _rating_notes(names)
    assert "every rating above 0 is relevant except in metrics with their own" in note
    (note,) = _rating_notes(["nDCG@5"])
    assert "every rating above 0 is relevant. To change this" in note


def _rating_notes(names):
    notes = weft.evaluate(SCORES, TRUTH, metrics=names).notes
    return [note for note in notes if "the truth has ratings" in note]


def test_names():
    assert canonical_name("precision(relevance_threshold=4.0)@5") == (
        "Precision(relevance_threshold=4)@5"
    )
    assert canonical_name("nDCG(relevance_threshold=2.5,gain=linear)@5") == (
        "nDCG(gain=linear, relevance_threshold=2.5)@5"
    )
    for name in ("Gini", "RMSE", "AUC"):
        cutoff = "@3" if needs_cutoff(name) else ""
        with pytest.raises(UnknownParameter, match="has no parameter 'relevance_threshold'"):
            canonical_name(f"{name}(relevance_threshold=2){cutoff}")
    for wrong in ("-1", "0", "high", "true"):
        with pytest.raises(SettingError, match="it must be a number above 0"):
            canonical_name(f"nDCG(relevance_threshold={wrong})@3")
