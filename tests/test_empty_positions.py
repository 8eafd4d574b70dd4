"""Positions of lists with unknown or repeated items that stay empty (`"miss"`)."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from local_engine import assert_same
from local_engine import evaluate as evaluate_partitions
from metric_cases import ACCURACY, has_trait
from weft.data.devices import treat_cpu_as_device
from weft.errors import InputError, MissingInput, SettingError

ITEMS = [f"i{number}" for number in range(6)]
MISS = {"items": ITEMS, "unknown_items": "miss", "duplicates": "miss"}
TOP_K = [1, 2, 3, 5, 9]
FEATURES = {item: {"ab"[number % 2], "cde"[number % 3]} for number, item in enumerate(ITEMS)}
CLUSTERS = {item: "xyz"[number // 2] for number, item in enumerate(ITEMS)}
# Whose values depend on the number of items in the catalogue, or that count listed items only.
OF_CATALOGUE = {"LAUC", "FallOut", "Accuracy", "MCC"}
LISTED_ITEMS = {"Judged", "RBPResidual"}
HIT_METRICS = [
    name
    for name in ACCURACY
    if not has_trait(name, "needs_all_scores") and name not in OF_CATALOGUE | LISTED_ITEMS
]
# Metrics of the items that are listed, whatever their positions.
ITEM_METRICS = [
    "ItemCoverage",
    "UserCoverage",
    "NumRetrieved",
    "Gini",
    "ShannonEntropy(weights=lists)",
    "Personalization(overlap=cosine)",
    "ARP",
    "PopularityQuantile",
    "PopularityLift",
    "ACLT",
    "APLT(denominator=list)",
    "MIUF",
    "Surprisal(denominator=list)",
    "NewToUser",
    "ILD(distance=category)",
    "ILD(distance=hamming)",
    "ILD(distance=jaccard)",
    "ILD(distance=cooccurrence)",
    "CategoryEntropy",
    "SRecall(numerator=list)",
    "Calibration",
    "RSP",
    "BiasDisparityBR",
    "Judged(users=lists)",
]

few_examples = settings(max_examples=8)  # each evaluates many metrics twice
items = st.sampled_from(ITEMS)
generated_lists = st.dictionaries(
    st.sampled_from(["u0", "u1", "u2", "u3"]),
    st.lists(st.one_of(items, st.sampled_from(["x0", "x1", "x2"])), max_size=8),
    min_size=1,
)
some_items = st.dictionaries(
    st.sampled_from(["u0", "u1", "u2", "u4"]), st.lists(items, unique=True, min_size=1, max_size=4)
)
ratings = st.dictionaries(
    st.sampled_from(["u0", "u1", "u2", "u4"]),
    st.dictionaries(items, st.sampled_from([0, 1, 2, 3]), min_size=1),
    min_size=1,
)


def are_empty(held):
    """Whether each position of a list holds an unknown or a repeated item."""
    return [item not in ITEMS or item in held[:place] for place, item in enumerate(held)]


def with_stand_ins(lists):
    """Return lists with another new item at each empty position, and all new items."""
    filled, new = {}, []
    for user, held in lists.items():
        filled[user] = []
        for item, is_empty in zip(held, are_empty(held)):
            if is_empty:
                new.append(f"~{len(new)}")
            filled[user].append(new[-1] if is_empty else item)
    return filled, new


def assert_equal_values(ours, expected):
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-12, err_msg=name)


@few_examples
@given(generated_lists, ratings)
def test_an_empty_position_counts_as_an_item_that_is_not_relevant(lists, truth):
    filled, new = with_stand_ins(lists)
    how = {"metrics": HIT_METRICS, "top_k": TOP_K}
    ours = weft.evaluate(lists, truth, **MISS, **how)
    assert_equal_values(ours, weft.evaluate(filled, truth, items=ITEMS + new, **how))
    assert ours.counts["items"] == len(ITEMS)


@few_examples
@given(st.lists(st.one_of(items, st.just("x")), max_size=8), ratings)
def test_an_empty_position_is_one_more_negative_of_its_user(held, truth):
    truth = {"u0": truth.popitem()[1]}
    filled, new = with_stand_ins({"u0": held})
    how = {
        "metrics": [*sorted(OF_CATALOGUE), "LAUC(completion=none)", "MCC(universe=catalogue)"],
        "top_k": max(1, len(held)),
    }
    ours = weft.evaluate({"u0": held}, truth, **MISS, **how)
    assert_equal_values(ours, weft.evaluate(filled, truth, items=ITEMS + new, **how))


@pytest.mark.parametrize("ties", ["index", "expected", "pessimistic", "optimistic"])
@few_examples
@given(
    st.dictionaries(
        st.sampled_from(["u0", "u1", "u2"]),
        st.dictionaries(
            st.one_of(items, st.sampled_from(["x0", "x1", "x2"])), st.sampled_from([0.5, 1, 2])
        ),
        min_size=1,
    ),
    ratings,
)
def test_unknown_items_of_equal_scores_are_tied(ties, lists, truth):
    new, names = ["x0", "x1", "x2"], HIT_METRICS
    if ties == "expected":  # others draw the order of ties
        names = [name for name in names if has_trait(name, "has_expected_tie_form")]
    how = {"metrics": names, "top_k": TOP_K, "ties": ties}
    ours = weft.evaluate(lists, truth, **MISS, **how)
    expected = weft.evaluate(lists, truth, items=ITEMS + new, **how)
    assert_equal_values(ours, expected)
    for k in (1, 2, 3, 5):  # beyond the catalogue nothing is tied
        assert ours.counts[f"ties@{k}"] == expected.counts[f"ties@{k}"]


def test_random_ties_put_an_unknown_item_anywhere():
    users = range(600)
    lists = {user: {"i0": 1.0, "x0": 1.0, "x1": 1.0} for user in users}
    truth = {user: ["i0"] for user in users}
    result = weft.evaluate(
        lists, truth, **MISS, metrics="HitRate", top_k=[1, 2, 3], ties="random", seed=5
    )
    assert abs(result["HitRate@1"] - 1 / 3) < 0.06 and abs(result["HitRate@2"] - 2 / 3) < 0.06
    assert result["HitRate@3"] == 1


@pytest.mark.parametrize("k", [1, 3, 9])
@few_examples
@given(generated_lists, ratings, some_items)
def test_metrics_of_items_read_the_listed_items_alone(k, lists, truth, train):
    closed = {
        user: [item for item, is_empty in zip(held[:k], are_empty(held)) if not is_empty]
        for user, held in lists.items()
    }
    how = {
        "metrics": ITEM_METRICS,
        "train": train,
        "item_features": FEATURES,
        "item_clusters": CLUSTERS,
        "user_groups": {"u0": "m", "u1": "f", "u2": "f", "u3": "m", "u4": "f"},
    }
    ours = weft.evaluate(lists, truth, **MISS, **how, top_k=k)
    expected = weft.evaluate(closed, truth, items=ITEMS, **how, top_k=9)
    for name_at_9, value in expected.items():
        name = name_at_9.replace("@9", f"@{k}")
        np.testing.assert_allclose(ours[name], value, rtol=1e-12, err_msg=name)


# The shares of valid and of repeated positions


def valid_share(held, k):
    """Positions with an item of the catalogue / positions."""
    cut = held[:k]
    return sum(item in ITEMS for item in cut) / len(cut) if cut else math.nan


def repeated_share(held, k):
    """Positions with an item of an earlier position / positions."""
    cut = held[:k]
    repeated = [place for place, item in enumerate(cut) if cut.index(item) < place]
    return len(repeated) / len(cut) if cut else math.nan


@given(generated_lists, ratings)
def test_shares_of_positions(lists, truth):
    result = weft.evaluate(
        lists, truth, **MISS, metrics=["ValidRate", "DuplicateRate"], top_k=TOP_K, per_user=True
    )
    for k in TOP_K:
        for metric, share in (("ValidRate", valid_share), ("DuplicateRate", repeated_share)):
            shares = [share(held, k) for held in lists.values()]
            defined = [one for one in shares if not math.isnan(one)]
            expected = sum(defined) / len(defined) if defined else math.nan
            np.testing.assert_allclose(result[f"{metric}@{k}"], expected, rtol=1e-12)
    unknown = sum(item not in ITEMS for held in lists.values() for item in held)
    repeated = sum(held.index(item) < n for held in lists.values() for n, item in enumerate(held))
    assert result.counts["unknown_in_lists"] == unknown
    assert result.counts["repeated_in_lists"] == repeated


def test_scores_are_valid_and_repeat_nothing():
    result = weft.evaluate(np.eye(3), np.eye(3), metrics=["ValidRate", "DuplicateRate"], top_k=2)
    assert (result["ValidRate@2"], result["DuplicateRate@2"]) == (1, 0)


def test_says_where_a_share_tells_nothing():
    names = ["ValidRate", "DuplicateRate"]
    result = weft.evaluate(
        {"u": ["a", "b", "a"]}, {"u": ["b"]}, metrics=names, top_k=3, duplicates="keep-best"
    )
    assert (result["ValidRate@3"], result["DuplicateRate@3"]) == (1, 0)
    assert any("ValidRate is 1 because" in note for note in result.notes)
    assert any("DuplicateRate is 0 because" in note for note in result.notes)
    told = weft.evaluate({"u": ["i1", "i1", "x"]}, {"u": ["i1"]}, **MISS, metrics=names, top_k=3)
    assert not any("because" in note for note in told.notes)
    assert (
        "1 recommended item is not in the catalogue; its position counts as a miss"
    ) in told.notes
    assert any("1 recommended item repeats an earlier item" in note for note in told.notes)


# Examples by hand: i1 is relevant, and third behind an unknown and a repeated item

LISTS = {"ann": ["i0", "x0", "i1", "i0"], "bob": ["x0", "x1"]}
TRUTH = {"ann": {"i1": 1}, "bob": {"i2": 1}}


def run(*metrics, lists=LISTS, top_k=(4,), **settings):
    return weft.evaluate(lists, TRUTH, **{**MISS, **settings}, metrics=metrics, top_k=top_k)


def test_values_of_an_example():
    result = run("Precision", "Precision(denominator=list)", "MRR", "nDCG", "MAP", "NumRetrieved")
    assert result["Precision@4"] == (1 / 4 + 0) / 2
    assert result["Precision(denominator=list)@4"] == (1 / 4 + 0 / 2) / 2
    assert result["MRR@4"] == result["MAP@4"] == (1 / 3) / 2
    assert result["nDCG@4"] == pytest.approx(1 / math.log2(4) / 2)
    assert result["NumRetrieved@4"] == (2 + 0) / 2
    assert result.counts["short_lists@4"] == 1  # bob's; ann's four positions are a list of four
    assert result.settings["unknown_items"] == result.settings["duplicates"] == "miss"


def test_items_keep_the_weights_of_their_positions():
    train = {"ann": ["i0"], "cid": ["i0", "i1"]}
    result = run(
        "Gini(denominator=N, weight=reciprocal)",
        "ExpectedExposureDisparity(weight=reciprocal)",
        "EPC(relevance=none)",
        "RBPResidual(p=0.5)",
        train=train,
        mask_seen=False,
    )
    exposed = sorted([1, 1 / 3, 0, 0, 0, 0])
    gini = sum((2 * j - 7) * c for j, c in enumerate(exposed, 1)) / (6 * sum(exposed))
    assert result["Gini(denominator=N, weight=reciprocal)@4"] == pytest.approx(gini)
    assert result["ExpectedExposureDisparity(weight=reciprocal)@4"] == pytest.approx(
        (1 + 1 / 9 + 0) / 2
    )
    # Of ann's list positions 2 to 4 are known: i1 is judged, the others cannot be relevant.
    assert result["RBPResidual(p=0.5)@4"] == pytest.approx(
        ((1 - 0.5 * (0.5 + 0.25 + 0.125)) + (1 - 0.5 * (1 + 0.5))) / 2
    )


def test_only_repeated_or_only_unknown_items_are_left_empty():
    lists = {"ann": ["i0", "i0", "i1"]}
    assert run("MRR", lists=lists, unknown_items="error")["MRR@4"] == (1 / 3) / 2
    assert run("MRR", lists=lists, duplicates="keep-best")["MRR@4"] == (1 / 2) / 2
    with pytest.raises(InputError, match=r"(?s)same item twice.*other positions as misses"):
        run("MRR", lists=lists, duplicates="error")
    both = {"ann": ["x0", "x0", "i1"]}
    with pytest.raises(InputError, match="same item twice"):
        run("MRR", lists=both, duplicates="error")
    assert run("MRR", lists=both, duplicates="keep-best")["MRR@4"] == (1 / 2) / 2
    with pytest.raises(InputError, match=r"(?s)not in the catalogue.*unknown_items='miss'"):
        run("MRR", lists=both, unknown_items="error", duplicates="keep-best")


def test_lists_may_be_longer_than_the_catalogue():
    held = [*(f"x{number}" for number in range(8)), "i1"]
    result = run("MRR", "HitRate", lists={"ann": held}, top_k=[8, 9, 20], keep_lists=True)
    assert (result["HitRate@8"], result["MRR@9"], result["MRR@20"]) == (0, 1 / 9 / 2, 1 / 9 / 2)
    assert result.lists.rows() == [("ann", 9, "i1")]


def test_seen_items_are_removed_and_empty_positions_stay():
    train = {"ann": ["i0"]}
    result = run("MRR", "ValidRate", train=train, mask_seen=True, keep_lists=True)
    assert result["MRR@4"] == (1 / 2) / 2  # x0, i1, and the second i0, which stays empty
    assert result.lists.rows() == [("ann", 2, "i1")]
    assert result.counts["seen_in_lists"] == 1


@pytest.mark.parametrize("candidates", ["warm", {"ann": ["i1", "i2"], "bob": ["i2"]}], ids=str)
def test_candidates_leave_empty_positions(candidates):
    train = {"cid": ["i1", "i2"]}  # i0 is no candidate
    result = run("MRR", train=train, candidates=candidates, mask_seen=False)
    assert result["MRR@4"] == (1 / 2) / 2
    if candidates != "warm":
        assert result.counts["candidates_not_listed"] == 2


def test_users_left_out_do_not_count():
    lists = {**LISTS, "zoe": ["x5", "i1", "i1"]}
    assert run("MRR", lists=lists).counts["unknown_in_lists"] == 4
    skipped = run("MRR", lists=lists, extra_users="skip")
    assert skipped.counts["unknown_in_lists"] == 3 and skipped.counts["repeated_in_lists"] == 1


def test_a_metric_of_an_author_sees_empty_positions():
    class Listed(weft.UserAverageTopKMetric):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            assert list(preds.shape) == [2, 6]
            return (preds > -math.inf).sum(1).double() + 10 * top_k_rel[:, 2]

    assert run(Listed(k=4))["Listed@4"] == (12 + 0) / 2


# Sources


def as_frame(lists):
    rows = [
        (user, item, float(place), -float(place))
        for user, held in lists.items()
        for place, item in enumerate(held, 1)
    ]
    schema = {"user": pl.String, "item": pl.String, "rank": pl.Float64, "score": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


SOURCE_METRICS = ["nDCG", "LAUC", "Gini", "ValidRate", "DuplicateRate", "NumRetrieved"]


@pytest.mark.parametrize("columns", [["rank"], ["score"], ["rank", "score"], []], ids=str)
@few_examples
@given(generated_lists.filter(lambda lists: all(lists.values())), ratings)
def test_frames_and_dicts_agree(columns, lists, truth):
    how = {**MISS, "metrics": SOURCE_METRICS, "top_k": TOP_K}
    expected = weft.evaluate(lists, truth, **how)
    frame = as_frame(lists).select("user", "item", *columns)
    assert_equal_values(weft.evaluate(frame, truth, **how), expected)
    if columns:
        shuffled = frame.sample(fraction=1, shuffle=True, seed=3)
        assert_equal_values(weft.evaluate(shuffled, truth, **how), expected)


def many_lists(integers):
    """Return lists and truth of 300 users, with unknown and repeated items."""
    generator = np.random.default_rng(3)
    held = generator.integers(0, 60, (300, 12))
    frame = pl.DataFrame(
        {
            "user": np.repeat(np.arange(300), 12),
            "item": held.reshape(-1),
            "rank": np.tile(np.arange(1.0, 13), 300),
        }
    )
    truth = pl.DataFrame({"user": np.arange(300), "item": generator.integers(0, 50, 300)})
    if not integers:
        texts = [pl.format("n{}", "user").alias("user"), pl.format("n{}", "item").alias("item")]
        frame, truth = frame.with_columns(texts), truth.with_columns(texts)
    return frame.sample(fraction=1, shuffle=True, seed=1), truth


@pytest.mark.parametrize("duplicates", ["miss", "keep-best"])
@pytest.mark.parametrize("integers", [True, False], ids=["integers", "texts"])
def test_lists_sorted_on_disk_agree(integers, duplicates, tmp_path, monkeypatch):
    monkeypatch.setattr("weft.data.recommendations.spilled_lists._MIN_PARTITION_ROWS", 500)
    frame, truth = many_lists(integers)
    frame.write_csv(tmp_path / "lists.csv")
    items = list(range(50)) if integers else [f"n{number}" for number in range(50)]
    how = {
        "items": items,
        "unknown_items": "miss",
        "duplicates": duplicates,
        "metrics": SOURCE_METRICS,
        "top_k": [5, 10],
    }
    expected = weft.evaluate(frame, truth, **how)
    spilled = weft.evaluate(tmp_path / "lists.csv", truth, **how, memory=1)
    assert_equal_values(spilled, expected)
    assert spilled.counts == expected.counts and spilled.counts["unknown_in_lists"] > 500
    with pytest.raises(InputError, match="not in the catalogue of 50 items"):
        weft.evaluate(tmp_path / "lists.csv", truth, **{**how, "unknown_items": "error"}, memory=1)


def test_matrices_of_item_ids():
    top = weft.TopKItems(np.array([[7, 99, 3, 7], [98, 3, -1, -1]]), users=["ann", "bob"])
    result = weft.evaluate(
        top,
        {"ann": [3], "bob": [3]},
        items=[3, 5, 7],
        unknown_items="miss",
        duplicates="miss",
        metrics=["MRR", "ValidRate", "DuplicateRate"],
        top_k=4,
    )
    assert result["MRR@4"] == (1 / 3 + 1 / 2) / 2
    assert result["ValidRate@4"] == (3 / 4 + 1 / 2) / 2
    assert result["DuplicateRate@4"] == (1 / 4 + 0) / 2


@pytest.mark.parametrize("ties", ["index", "expected", "random"])
def test_partitions_agree_with_one_process(ties):
    frame, truth = many_lists(integers=True)
    frame = frame.with_columns(score=-(pl.col("rank") // 3)).drop("rank")
    how = {
        **{"items": list(range(50)), "unknown_items": "miss", "duplicates": "miss"},
        **{"metrics": SOURCE_METRICS, "top_k": [5, 10], "ties": ties, "keep_lists": False},
    }
    ours = evaluate_partitions(frame, truth, parts=3, **how)
    assert_same(ours, weft.evaluate(frame, truth, **how))
    with pytest.raises(MissingInput, match="unknown_items='miss' needs the catalogue"):
        evaluate_partitions(frame, truth, parts=3, **{**how, "items": None})


@pytest.mark.parametrize("settings", [{}, {"mask_seen": True}, {"candidates": "warm"}], ids=str)
def test_devices_that_the_host_cannot_read_agree(settings):
    train = {"ann": ["i0"], "cid": ["i1", "i2"]}
    names = [*SOURCE_METRICS, "PartialAUC", "Surprisal", "ILD(distance=cooccurrence)", "PAP"]
    how = {**settings, "train": train, "top_k": [1, 3, 9]}
    expected = run(*names, **how)
    with treat_cpu_as_device():
        assert_equal_values(run(*names, **how), expected)


# Refusals


def test_needs_a_catalogue():
    with pytest.raises(MissingInput, match=r"unknown_items='miss' needs the catalogue.*items="):
        weft.evaluate(LISTS, TRUTH, unknown_items="miss", metrics="MRR@2")
    # The columns of a matrix are one.
    held = {0: [1, 7, 0]}
    assert (
        weft.evaluate(held, np.eye(1, 3), unknown_items="miss", metrics="MRR@3")["MRR@3"] == 1 / 3
    )


@pytest.mark.parametrize("name", ["truth", "train"])
def test_other_inputs_have_items_of_the_catalogue(name):
    data = {"truth": TRUTH, "train": {"ann": ["i0"]}}
    data[name] = {"ann": ["x0"]}
    with pytest.raises(InputError, match=f"{name} has items that are not in the catalogue"):
        weft.evaluate(LISTS, data["truth"], train=data["train"], **MISS, metrics="MRR@2")


def test_ids_of_another_type_are_an_error():
    with pytest.raises(InputError, match="1 and '1' are different ids"):
        weft.evaluate({"ann": [1, 2]}, TRUTH, **MISS, metrics="MRR@2")


def test_lists_of_candidates_have_no_empty_positions():
    for other in ({"candidates": "listed"}, {"strategy": "sampled"}):
        with pytest.raises(SettingError, match="leaves positions of lists empty"):
            run("MRR", **other)


def test_check_shows_what_unknown_items_cost():
    lists = {"ann": ["x0", "i1"]}
    report = weft.check(lists, {"ann": ["i1"]}, items=ITEMS, metrics="MRR", top_k=2)
    (finding,) = (one for one in report.findings if one.kind == "items-outside-catalogue")
    treated = {effect.treatment: effect.treated for effect in finding.effects}
    assert treated == {
        "items added to the catalogue": 0.5,
        "rows of lists dropped": 1,
        "unknown_items='miss'": 0.5,
    }
    assert "unknown_items='miss'" in finding.fix
