"""Metrics of aspects: edge cases, ties, and the greedy list that they compare with."""

import math

import pytest
import torch

import weft
from weft.errors import InputError, MissingInput, SettingError

NAMES = ["alpha_nDCG", "ERR_IA", "ERR_IA(normalize=False)", "P_IA"]
FEATURES = {1: ["x", "y"], 2: ["y", "z"], 3: ["x", "w"], 4: [], 6: ["x"]}
LOG3 = math.log2(3)


def run(lists, truth, metrics, features=FEATURES, **settings):
    return weft.evaluate(
        lists, truth, metrics=metrics, items=range(1, 7), item_features=features, **settings
    )


@pytest.mark.parametrize("name", NAMES)
def test_users_without_an_aspect_are_left_out(name):
    lists, truth = {"a": [1, 2], "b": [4, 1]}, {"a": [1], "b": [4, 5]}
    both = run(lists, truth, f"{name}@2").entries[0]
    assert both.value == run({"a": [1, 2]}, {"a": [1]}, f"{name}@2").entries[0].value
    assert both.users == 1
    alone = run({"b": [4, 1]}, {"b": [4, 5]}, f"{name}@2")
    assert math.isnan(alone.entries[0].value)
    assert any("no user has a relevant item with a feature" in note for note in alone.notes)


@pytest.mark.parametrize("name", NAMES)
def test_no_item_has_a_feature(name):
    assert math.isnan(run({"a": [1]}, {"a": [1]}, f"{name}@2", {}).entries[0].value)


@pytest.mark.parametrize("name", NAMES)
def test_empty_lists_count_zero(name):
    assert run({"a": [], "b": [1]}, {"a": [1], "b": [2]}, f"{name}@3").entries[0].value == 0


@pytest.mark.parametrize("name", ["alpha_nDCG", "ERR_IA"])
def test_cutoffs_beyond_the_catalogue_change_nothing(name):
    found = run({"a": [2, 5, 1]}, {"a": [1, 2, 3]}, f"{name}", top_k=[6, 100])
    assert found[f"{name}@6"] == found[f"{name}@100"] > 0


def test_long_cutoffs_divide_by_more_positions():
    """Item 6 at position 1 has the only aspect: 1 / (sum over p to 10 of 0.5^(p - 1) / p)."""
    found = run({"a": [6]}, {"a": [6]}, ["ERR_IA(normalize=False)@10", "P_IA@10"])
    perfect = sum(0.5 ** (p - 1) / p for p in range(1, 11))
    assert found["ERR_IA(normalize=False)@10"] == pytest.approx(1 / perfect)
    assert found["P_IA@10"] == pytest.approx(1 / 10)


def test_greedy_list_takes_the_last_of_equal_items():
    """Items 1, 2 and 3 have two aspects each. The greedy list begins with item 3, and adds item 2,
    of which both aspects are new. With the aspects of 1 and 3 exchanged it begins with (x, y),
    and each other item repeats one of them: the list 1 2 is then better than the greedy one."""
    truth = {"a": [1, 2, 3]}
    for lists, value in ({"a": [3, 2]}, 1), ({"a": [1, 2]}, (2 + 1.5 / LOG3) / (2 + 2 / LOG3)):
        assert run(lists, truth, "alpha_nDCG@2").entries[0].value == pytest.approx(value)
    exchanged = {**FEATURES, 1: FEATURES[3], 3: FEATURES[1]}
    found = run({"a": [1, 2]}, truth, "alpha_nDCG@2", exchanged).entries[0].value
    assert found == pytest.approx((2 + 2 / LOG3) / (2 + 1.5 / LOG3)) and found > 1


def test_rounding_does_not_decide_between_equal_gains():
    """0.7 + 0.343 and 0.343 + 0.7, in the order of features, with two items of each aspect."""
    features = {1: ["a"], 2: ["b"], 3: ["b"], 4: ["b"], 5: ["a", "b", "c"], 6: ["c", "b", "a"]}
    truth, lists = {"u": [1, 2, 3, 4, 5, 6]}, {"u": [6, 5, 4, 3, 2, 1]}
    found = run(lists, truth, "alpha_nDCG(alpha=0.3)@6", features).entries[0].value
    gains = [3, 3 * 0.7, 0.49, 0.343, 0.2401, 0.49]
    dcg = sum(gain / math.log2(p + 2) for p, gain in enumerate(gains))
    best = sorted(gains, reverse=True)
    ideal = sum(gain / math.log2(p + 2) for p, gain in enumerate(best))
    assert found == pytest.approx(dcg / ideal)


def test_alpha_of_zero_counts_every_aspect_in_full():
    truth, lists = {"a": [1, 2, 3, 6]}, {"a": [6, 1, 5, 2]}
    gains = [1, 2, 0, 2]
    best = [2, 2, 2, 1]
    dcg, ideal = (
        sum(gain / math.log2(p + 2) for p, gain in enumerate(these)) for these in (gains, best)
    )
    assert run(lists, truth, "alpha_nDCG(alpha=0)@4").entries[0].value == pytest.approx(dcg / ideal)
    # With 1, only new aspects count: x, then y, then z; the best are (x, w), (y, z).
    found = run(lists, truth, "ERR_IA(alpha=1)@4").entries[0].value
    assert found == pytest.approx((1 + 1 / 2 + 1 / 4) / (2 + 2 / 2))


def test_ties_are_drawn_where_there_is_no_closed_form():
    scores, truth = torch.zeros(1, 6), {0: [0, 1, 2]}
    features = [["x"], ["x"], ["y"], ["y"], [], ["z"]]
    settings = {
        "metrics": ["alpha_nDCG@2", "P_IA@2"],
        "ties": "expected",
        "item_features": features,
    }
    results = [weft.evaluate(scores, truth, seed=seed, **settings) for seed in range(20)]
    assert len({result["alpha_nDCG@2"] for result in results}) > 1
    # Each of the three relevant items has an aspect, two in all: 3/6 · 2 positions / (2 · 2).
    assert {round(result["P_IA@2"], 12) for result in results} == {0.25}
    assert any("alpha_nDCG" in note and "random" in note for note in results[0].notes)


def test_slices_and_bootstrap():
    draw = torch.Generator().manual_seed(4)
    scores = torch.rand(40, 12, generator=draw)
    truth = (torch.rand(40, 12, generator=draw) < 0.3).long()
    features = [[f"g{number % 5}", f"h{number % 3}"] for number in range(12)]
    groups = ["one" if user % 2 else "two" for user in range(40)]
    settings = {"metrics": NAMES, "top_k": [2, 5], "item_features": features}
    result = weft.evaluate(
        scores, truth, slices={"group": groups}, bootstrap=50, per_user=True, **settings
    )
    part = weft.evaluate(scores[1::2], truth[1::2], **settings)
    rows = result.slices.filter(result.slices["group"] == "one")
    assert dict(zip(rows["metric"] + "@" + rows["k"].cast(str), rows["value"])) == pytest.approx(
        {value.name: value.value for value in part.entries}
    )
    assert all(value.bca_low < value.value < value.bca_high for value in result.entries)
    # Batches of any size give the same values per user.
    small = weft.evaluate(scores, truth, batch_size=7, per_user=True, **settings)
    assert small.per_user.equals(result.per_user)


def test_wrong_parameters():
    for alpha in (-0.1, 1.5, "much", True):
        with pytest.raises(SettingError, match=r"alpha.*it must be a number from 0 to 1"):
            weft.metrics.alpha_nDCG(k=2, alpha=alpha, item_features=[["x"]])
    with pytest.raises(SettingError, match=r"normalize.*must be True or False"):
        weft.metrics.ERR_IA(k=2, normalize="no", item_features=[["x"]])
    with pytest.raises(MissingInput, match="alpha_nDCG@2 needs item_features"):
        weft.evaluate({"a": [1]}, {"a": [1]}, metrics="alpha_nDCG@2")
    with pytest.raises(InputError, match="not a vector"):
        run({"a": [1]}, {"a": [1]}, "P_IA@2", {1: [0.5]})
