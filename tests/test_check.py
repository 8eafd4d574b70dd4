"""`weft.check`: clean data has no finding; each defect has one, with count, rows and effect."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import weft
import weft.diagnostics
from weft.cli import app
from weft.diagnostics import check_models
from weft.errors import InputError, MissingInput, SettingError, UnknownParameter

K = 3
METRICS = ["nDCG", "Recall"]
NAMES = ["nDCG@3", "Recall@3"]


def pairs(*places):
    """(user, item) rows: user u0 to u5 meets the items 2u + place, of twelve."""
    rows = [(f"u{user}", f"i{(2 * user + place) % 12}") for user in range(6) for place in places]
    return pl.DataFrame(rows, schema=["user", "item"], orient="row")


LISTS = pairs(0, 1, 2, 3).with_columns(score=pl.Series([0.9, 0.7, 0.4, 0.2] * 6))
TRUTH = pairs(1, 5)
TRAIN = pairs(7, 8)
RANKED = LISTS.drop("score").with_columns(rank=pl.Series([1, 2, 3, 4] * 6))
ITEMS = [f"i{item}" for item in range(12)]


def check(lists=LISTS, truth=TRUTH, train=TRAIN, **settings):
    return weft.check(lists, truth, train=train, metrics=METRICS, top_k=K, **settings)


def evaluate(lists=LISTS, truth=TRUTH, train=TRAIN, **settings):
    result = weft.evaluate(lists, truth, train=train, metrics=METRICS, top_k=K, **settings)
    return {name: result[name] for name in NAMES}


def only(checked, kind, severity, where="lists"):
    """The one finding, which must be this."""
    assert [finding.kind for finding in checked.findings] == [kind]
    (finding,) = checked.findings
    assert (finding.severity, finding.where) == (severity, where)
    assert (
        finding.message.endswith((".", "?"))
        and finding.fix.endswith(".")
        and (finding.effects or finding.remark)
    )
    return finding


def treated(finding, treatment, model="lists"):
    found = {
        e.metric: e.treated
        for e in finding.effects
        if e.treatment == treatment and e.model == model
    }
    assert found, [effect.treatment for effect in finding.effects]
    return found


def before(finding):
    return {effect.metric: effect.value for effect in finding.effects}


def treatments(finding):
    return list(dict.fromkeys(effect.treatment for effect in finding.effects))


REFUSED = dict.fromkeys(NAMES)


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lists",
    [LISTS, RANKED, LISTS.select("user", "item"), LISTS.sample(fraction=1, shuffle=True, seed=3)],
)
def test_clean_data_has_no_finding(lists):
    checked = check(lists, items=ITEMS)
    assert checked.findings == () and checked.kinds == () and checked.refused == ()
    assert checked.values == {"lists": evaluate(lists, items=ITEMS)}
    assert "No problems found." in str(checked)


def test_describes_the_inputs():
    told = {
        one.name: (one.path, one.rows, one.users, one.items) for one in check(items=ITEMS).inputs
    }
    assert told == {
        "lists": (None, 24, 6, 12),
        "truth": (None, 12, 6, 6),
        "train": (None, 12, 6, 12),
        "items": (None, 12, None, 12),
    }


def test_reads_inputs_as_evaluate_does():
    pandas = pytest.importorskip("pandas")
    as_dict = {
        user: dict(zip(rows["item"], rows["score"]))
        for (user,), rows in LISTS.group_by("user", maintain_order=True)
    }
    assert check(as_dict).findings == () and check(as_dict).values == check().values
    best_first = {user: list(row) for user, row in as_dict.items()}
    assert check(best_first).values == check().values
    truth = {
        user: rows["item"].to_list()
        for (user,), rows in TRUTH.group_by("user", maintain_order=True)
    }
    assert check(truth=truth).findings == () and check(truth=truth).values == check().values
    frame = pandas.DataFrame(LISTS.to_dict(as_series=False))
    assert check(frame).findings == () and check(frame).values == check().values
    matrix = np.eye(4)
    lists = {user: [user, (user + 1) % 4] for user in range(4)}
    found = weft.check(lists, matrix, metrics="MRR", top_k=2)
    assert found.findings == () and found.values["lists"] == {"MRR@2": 1.0}
    wide = weft.check(lists, np.eye(4, 9), metrics=["ItemCoverage(as_fraction=True)"], top_k=2)
    assert wide.values["lists"] == {"ItemCoverage(as_fraction=True)@2": 4 / 9} and wide.kinds == (
        "items-never-recommended",
    )


def test_keeps_users_with_empty_rows():
    lists = {"a": ["x", "y"], "b": []}
    truth = {"a": ["x"], "b": ["y"], "c": []}
    checked = weft.check(lists, truth, metrics="Recall", top_k=2)
    assert checked.kinds == ("users-without-list", "short-lists", "users-without-relevant-items")
    assert checked.values["lists"] == {"Recall@2": 0.5}
    assert "1 of them empty" in checked.findings[1].message and checked.findings[1].examples == (
        {"user": "b", "items": 0},
    )


# --------------------------------------------------------------------------------------------------


def test_finds_ids_of_two_types():
    number = pl.col("user").str.slice(1).cast(pl.Int64)
    truth, train = TRUTH.with_columns(number), TRAIN.with_columns(number)
    lists = LISTS.with_columns(pl.col("user").str.slice(1))
    with pytest.raises(InputError, match="1 and '1' are different ids"):
        evaluate(lists, truth, train)
    finding = only(check(lists, truth, train), "id-types", "error", "ids")
    assert "The user ids are text in lists, but integers in truth and train" in finding.message
    assert finding.examples == ({"where": "lists", "user": "0"}, {"where": "truth", "user": 0})
    assert before(finding) == REFUSED and treated(finding, "ids converted to text") == evaluate()
    assert check(lists, truth, train).refused == ("lists",)


def test_a_catalogue_file_with_features_may_repeat_items(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("item,genre\n" + "".join(f"{item},a\n{item},b\n" for item in ITEMS))
    assert check(items=path).findings == () and evaluate(items=path) == evaluate(items=ITEMS)


def test_finds_a_catalogue_of_another_type():
    lists, truth = {"a": [1, 2]}, {"a": [1]}
    checked = weft.check(lists, truth, items=["1", "2"], metrics="MRR", top_k=2)
    assert (
        checked.kinds == ("id-types",)
        and "text in items, but integers in lists and truth" in checked.findings[0].message
    )
    assert checked.values["lists"] == {"MRR@2": 1.0}


@pytest.mark.parametrize(
    "spell",
    [
        pl.col("user").str.to_uppercase(),
        " " + pl.col("user") + " ",
        pl.col("user").str.replace("u", "u\t") + "",
    ],
    ids=["upper", "spaces", "tab inside"],
)
def test_finds_ids_of_another_spelling(spell):
    lists = LISTS.with_columns(spell.alias("user"))
    checked = check(lists)
    if "\t" in lists["user"][0]:  # not a spelling of the same id
        assert checked.kinds == ("nothing-in-common",)
        return
    assert checked.kinds == ("id-spelling", "nothing-in-common")
    finding = checked.findings[0]
    assert (finding.count, finding.severity) == (6, "warning")
    assert finding.examples[0] == {"user": lists["user"][0], "in the truth": "u0"}
    assert set(before(finding).values()) == {0.0}
    assert treated(finding, "ids written as in the truth") == evaluate()


def test_finds_leading_zeros_and_fractions_in_ids():
    truth = {"1": ["7"], "2": ["8"]}
    checked = weft.check({"01": ["7.0", "9"], "02": ["9", "8.0"]}, truth, metrics="MRR", top_k=2)
    spelled = [finding for finding in checked.findings if finding.kind == "id-spelling"]
    assert [finding.examples[0] for finding in spelled] == [
        {"user": "01", "in the truth": "1"},
        {"item": "7.0", "in the truth": "7"},
    ]
    # both kinds at once, because one alone matches nothing
    assert [treated(finding, "ids written as in the truth") for finding in spelled] == [
        {"MRR@2": 0.75}
    ] * 2


def test_ids_that_differ_in_case_are_different():
    checked = weft.check(
        {"a": ["x", "y"], "A": ["y", "x"]}, {"a": ["x"], "A": ["x"]}, metrics="MRR", top_k=2
    )
    assert checked.findings == ()


def test_finds_rows_without_ids():
    lists = pl.concat(
        [LISTS, pl.DataFrame({"user": [None, "u1"], "item": ["i1", None], "score": [0.5, 0.1]})]
    )
    with pytest.raises(InputError, match="no user id in row 24"):
        evaluate(lists)
    finding = only(check(lists), "missing-ids", "error")
    assert finding.count == 2
    assert finding.examples[0] == {"row": 24, "user": None, "item": "i1", "score": 0.5}
    assert before(finding) == REFUSED and treated(finding, "rows dropped") == evaluate()


def test_finds_ids_with_fractions():
    number = pl.col("user").str.slice(1).cast(pl.Int64)
    lists, truth, train = (table.with_columns(number) for table in (LISTS, TRUTH, TRAIN))
    floats = lists.with_columns(pl.col("user").cast(pl.Float64))
    finding = only(check(floats, truth, train), "fractional-ids", "error")
    assert treated(finding, "ids converted to integers") == evaluate()
    with pytest.raises(InputError, match=r"0\.5, .* as user ids"):
        check(floats.with_columns(pl.col("user") + 0.5), truth, train)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"user": [0.0, np.nan], "item": ["i1", "i2"]})
    assert check(lists, frame, train).kinds[:2] == ("missing-ids", "fractional-ids")


def test_finds_nothing_in_common():
    renamed = TRUTH.with_columns(item="other " + pl.col("item"))
    finding = only(check(truth=renamed, train=None), "nothing-in-common", "warning")
    assert (
        "None of its 12 items is among the 6 items of the truth" in finding.message
        and finding.effects == ()
        and finding.remark
    )
    finding = only(
        check(train=TRAIN.with_columns(user="other " + pl.col("user"))),
        "nothing-in-common",
        "warning",
        "train",
    )
    assert "None of its 6 users is among the 6 users of the truth" in finding.message


# --------------------------------------------------------------------------------------------------


def test_finds_duplicates_in_lists():
    again = pl.DataFrame({"user": ["u0", "u0"], "item": ["i1", "i1"], "score": [0.95, 0.1]})
    lists = pl.concat([LISTS, again])
    with pytest.raises(InputError, match="same item twice"):
        evaluate(lists)
    finding = only(check(lists), "duplicates-in-lists", "error")
    assert finding.count == 2 and finding.examples == tuple(
        {"row": 24 + row, **again.row(row, named=True)} for row in (0, 1)
    )
    assert treatments(finding) == ["keep-best", "keep-worst"] and before(finding) == REFUSED
    same = (pl.col("user") == "u0") & (pl.col("item") == "i1")
    for way, score in (("keep-best", 0.95), ("keep-worst", 0.1)):
        assert treated(finding, way) == evaluate(
            LISTS.with_columns(pl.when(same).then(score).otherwise("score").alias("score"))
        )
    assert treated(finding, "keep-best")["nDCG@3"] > treated(finding, "keep-worst")["nDCG@3"]
    assert all(math.isnan(effect.change) for effect in finding.effects)


def test_duplicates_in_lists_without_scores_keep_the_first():
    lists = {"a": ["y", "x", "y", "z", "x"], "b": ["x", "y", "z"]}
    checked = weft.check(lists, {"a": ["x"], "b": ["y"]}, metrics="MRR", top_k=3)
    finding = checked.findings[0]
    assert (finding.kind, finding.count) == ("duplicates-in-lists", 2)
    assert treated(finding, "keep-best") == {"MRR@3": 0.5}
    assert treated(finding, "keep-worst") == {"MRR@3": (1 / 3 + 1 / 2) / 2}  # y, z, x


def test_finds_duplicates_in_truth():
    rated = TRUTH.with_columns(rating=pl.lit(2.0))
    again = pl.DataFrame({"user": ["u2"], "item": ["i5"], "rating": [1.0]})
    finding = only(check(truth=pl.concat([rated, again])), "duplicates-in-truth", "error", "truth")
    assert finding.count == 1 and finding.examples == (
        {"row": 12, "user": "u2", "item": "i5", "rating": 1.0},
    )
    assert treated(finding, "keep-best") == evaluate(truth=rated)
    lower = (pl.col("user") == "u2") & (pl.col("item") == "i5")
    worst = rated.with_columns(pl.when(lower).then(1.0).otherwise("rating").alias("rating"))
    assert treated(finding, "keep-worst") == evaluate(truth=worst) != evaluate(truth=rated)


def test_notes_duplicates_in_train():
    finding = only(
        check(train=pl.concat([TRAIN, TRAIN.head(2)])), "duplicates-in-train", "note", "train"
    )
    assert (
        finding.count == 2
        and treated(finding, "each pair counted once") == before(finding) == evaluate()
    )


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf"), float("-inf")])
def test_finds_scores_that_are_not_numbers(bad):
    lists = LISTS.with_columns(
        pl.when(pl.col("item") == "i1")
        .then(pl.lit(bad, dtype=pl.Float64))
        .otherwise("score")
        .alias("score")
    )
    with pytest.raises(InputError, match="not finite"):
        evaluate(lists)
    # i1 stands in the lists of u0 and u5, which are then short of nothing: three items are left
    finding = only(check(lists), "not-finite-scores", "error")
    assert finding.count == 2 and [example["user"] for example in finding.examples] == ["u0", "u5"]
    assert treated(finding, "rows dropped") == evaluate(LISTS.filter(pl.col("item") != "i1"))
    last = LISTS.with_columns(
        pl.when(pl.col("item") == "i1").then(-5.0).otherwise("score").alias("score")
    )
    assert treated(finding, "ranked last") == evaluate(last)


def test_finds_ratings_that_are_not_numbers():
    rated = TRUTH.with_columns(rating=pl.when(pl.col("item") == "i1").then(None).otherwise(1.0))
    finding = only(check(truth=rated), "not-finite-ratings", "error", "truth")
    assert finding.count == 2
    assert treated(finding, "rows dropped") == evaluate(truth=TRUTH.filter(pl.col("item") != "i1"))
    assert treated(finding, "with the rating 1") == evaluate()
    rated = TRAIN.with_columns(rating=pl.when(pl.col("user") == "u3").then(None).otherwise(1.0))
    finding = only(check(train=rated), "not-finite-ratings", "error", "train")
    assert (
        finding.count == 2
        and treated(finding, "rows kept") == treated(finding, "rows dropped") == evaluate()
    )


def test_finds_negative_ratings():
    rated = TRUTH.with_columns(rating=pl.when(pl.col("item") == "i1").then(-1.0).otherwise(1.0))
    with pytest.raises(InputError, match="negative ratings"):
        evaluate(truth=rated)
    checked = check(truth=rated)
    assert checked.kinds == ("negative-ratings", "zero-ratings")
    finding = checked.findings[0]
    assert finding.count == 2 and finding.severity == "error"
    zero = rated.with_columns(pl.col("rating").clip(0))
    assert treated(finding, "with the rating 0 (not relevant)") == evaluate(truth=zero)
    assert treated(finding, "rows dropped") == evaluate(truth=rated.filter(pl.col("rating") > 0))
    assert check(truth=rated, relevance_threshold=0.5).findings == ()


def test_finds_repeated_ranks():
    lists = RANKED.with_columns(rank=pl.Series([1, 1, 2, 3] * 6))
    with pytest.raises(InputError, match="same rank to several items"):
        evaluate(lists)
    finding = only(check(lists), "repeated-ranks", "error")
    assert finding.count == 6
    assert treated(finding, "equal ranks by row") == evaluate(RANKED)
    assert treated(finding, "equal ranks in reverse") == evaluate(
        RANKED.with_columns(rank=pl.Series([2, 1, 3, 4] * 6))
    )
    scored = lists.with_columns(score=pl.Series([0.5, 0.6, 0.3, 0.2] * 6))
    assert treated(check(scored).findings[0], "equal ranks by score, then row") == treated(
        finding, "equal ranks in reverse"
    )


def test_finds_ranks_that_are_not_numbers():
    lists = RANKED.with_columns(rank=pl.when(pl.col("item") == "i1").then(None).otherwise("rank"))
    checked = check(lists)
    assert "not-finite-ranks" in checked.kinds and checked.findings[0].count == 2
    assert treated(checked.findings[0], "rows dropped") == evaluate(
        RANKED.filter(pl.col("item") != "i1")
    )


def test_finds_items_outside_the_catalogue():
    checked = check(items=[*ITEMS[:11], "i0"])
    assert checked.kinds == ("duplicates-in-items", "items-outside-catalogue")
    twice, lists, truth, train = checked.findings
    assert twice.examples == ({"item": "i0"},) and [f.where for f in (lists, truth, train)] == [
        "lists",
        "truth",
        "train",
    ]
    assert (lists.count, truth.count, train.count) == (2, 2, 1)
    assert (
        treated(twice, "each item once")
        == treated(lists, "items added to the catalogue")
        == evaluate()
    )
    assert treated(lists, "rows of lists dropped") == evaluate(
        LISTS.filter(pl.col("item") != "i11")
    )
    assert treated(truth, "rows of truth dropped") == evaluate(
        truth=TRUTH.filter(pl.col("item") != "i11")
    )


def test_repairs_several_errors_together():
    lists = pl.concat(
        [
            LISTS,
            LISTS.head(1),
            pl.DataFrame({"user": ["u1"], "item": ["i9"], "score": [float("nan")]}),
        ]
    )
    checked = check(lists, pl.concat([TRUTH, TRUTH.head(1)]))
    assert checked.kinds == ("duplicates-in-truth", "not-finite-scores", "duplicates-in-lists")
    assert checked.values == {"lists": evaluate()} and checked.refused == ("lists",)
    assert all(
        treated(finding, treatments(finding)[0]) == evaluate() for finding in checked.findings
    )


# --------------------------------------------------------------------------------------------------


def test_finds_users_without_a_list():
    finding = only(check(LISTS.filter(pl.col("user") != "u4")), "users-without-list", "warning")
    assert finding.count == 1 and finding.examples == ({"user": "u4"},)
    assert before(finding) == evaluate(LISTS.filter(pl.col("user") != "u4"))
    assert treated(finding, "missing_lists='skip'") == evaluate()  # all users score alike here


def test_treats_users_without_a_list_unlike_the_profile():
    lists = LISTS.filter(pl.col("user") != "u4")
    checked = check(lists, profile="trec_eval")
    (finding,) = [finding for finding in checked.findings if finding.kind == "users-without-list"]
    result = weft.evaluate(lists, TRUTH, train=TRAIN, metrics=METRICS, top_k=K, profile="trec_eval")
    assert before(finding) == {value.name: value.value for value in result.entries}
    assert result.settings["missing_lists"] == "skip"
    changed = weft.evaluate(
        lists,
        TRUTH,
        train=TRAIN,
        metrics=METRICS,
        top_k=K,
        profile="trec_eval",
        missing_lists="zero",
    )
    assert treated(finding, "missing_lists='zero'") == {
        value.name: value.value for value in changed.entries
    }


def test_finds_users_without_truth():
    truth = TRUTH.filter(pl.col("user") != "u4")
    checked = weft.check(LISTS, truth, metrics=["Recall", "ItemCoverage"], top_k=1)
    finding = only(checked, "users-without-truth", "note")
    assert finding.count == 1 and finding.examples == ({"user": "u4"},)
    assert (
        before(finding)["ItemCoverage@1"] == 6
        and treated(finding, "without their lists")["ItemCoverage@1"] == 5
    )


def test_finds_seen_items_in_lists():
    train = pl.concat([TRAIN, pairs(0)])
    finding = only(check(train=train), "seen-in-lists", "warning")
    assert finding.count == 6 and finding.examples[0] == {
        "row": 0,
        "user": "u0",
        "item": "i0",
        "score": 0.9,
    }
    assert before(finding) == evaluate(train=train)
    assert treated(finding, "mask_seen=True") == evaluate(train=train, mask_seen=True) != evaluate()


def test_finds_train_in_truth():
    train = pl.concat([TRAIN, pairs(5)])
    finding = only(check(train=train), "train-in-truth", "warning", "truth")
    assert finding.count == 6 and finding.examples[0] == {
        "row": 1,
        "user": "u0",
        "item": "i5",
        "rating": 1.0,
    }
    assert treated(finding, "removed from truth") == evaluate(truth=pairs(1)) != evaluate()


def test_no_effect_if_all_truth_is_in_train():
    checked = check(train=pl.concat([TRAIN, TRUTH]))
    finding = next(finding for finding in checked.findings if finding.kind == "train-in-truth")
    assert (
        finding.count == 12 and finding.effects == () and "no users would remain" in finding.remark
    )


def test_finds_cold_items_and_users():
    checked = check(train=TRAIN.filter(pl.col("item") != "i3"))
    finding = only(checked, "cold-items-in-truth", "note", "truth")
    assert finding.count == 1 and [example["user"] for example in finding.examples] == ["u1", "u5"]
    assert treated(finding, "without these rows") == evaluate(
        truth=TRUTH.filter(pl.col("item") != "i3")
    )
    nowhere = check(
        LISTS.filter(pl.col("item") != "i3"), train=TRAIN.filter(pl.col("item") != "i3")
    )
    assert nowhere.kinds == ("cold-items-in-truth", "unknown-items-in-truth")
    finding = nowhere.findings[1]
    assert (finding.where, finding.count, len(finding.examples)) == ("lists", 1, 2)
    rest = pl.col("item") != "i3"
    assert treated(finding, "without these rows") == evaluate(
        LISTS.filter(rest), TRUTH.filter(rest)
    )
    odd = pl.concat(
        [TRAIN.filter(pl.col("user") != "u2"), pl.DataFrame({"user": ["u0"], "item": ["i11"]})]
    )
    finding = only(check(train=odd), "users-without-train", "note", "truth")
    assert finding.examples == ({"user": "u2"},)
    rest = pl.col("user") != "u2"
    assert treated(finding, "without these users") == evaluate(
        LISTS.filter(rest), TRUTH.filter(rest)
    )


def test_finds_ratings_that_need_a_threshold():
    rated = TRUTH.with_columns(rating=pl.Series([5, 4, 3, 5, 2, 4, 5, 1, 4, 4, 3, 5]))
    finding = only(check(truth=rated), "graded-truth", "note", "truth")
    assert finding.count == 4 and "a rating below 4" in finding.message
    assert before(finding) == evaluate(truth=rated)
    assert treated(finding, "relevance_threshold=4") == evaluate(truth=rated, relevance_threshold=4)
    assert check(truth=rated.with_columns(pl.lit(3).alias("rating"))).findings == ()


def test_a_threshold_without_ratings_has_its_own_fix():
    (finding,) = check(relevance_threshold=4).findings
    assert (finding.kind, finding.severity) == ("users-without-relevant-items", "warning")
    assert "as if the truth had no ratings" in finding.fix
    rated = TRUTH.with_columns(rating=pl.when(pl.col("user") == "u1").then(2).otherwise(5))
    (finding,) = check(truth=rated, relevance_threshold=4).findings
    assert "lower the threshold" in finding.fix


def test_finds_users_without_relevant_items():
    rated = TRUTH.with_columns(rating=pl.when(pl.col("user") == "u1").then(0).otherwise(1))
    checked = check(truth=rated)
    assert checked.kinds == ("zero-ratings", "users-without-relevant-items")
    zero, empty = checked.findings
    assert (zero.count, zero.severity, empty.count, empty.severity) == (2, "note", 1, "note")
    assert treated(zero, "with the rating 1") == evaluate()
    assert (
        treated(empty, "empty_users='zero'")
        == evaluate(truth=rated, empty_users="zero")
        != evaluate(truth=rated)
    )


def test_finds_lists_without_hits():
    finding = only(check(truth=pairs(5)), "no-hits", "warning")
    assert finding.count == 6 and finding.effects == () and before(finding) == {}


def test_finds_items_that_are_never_recommended():
    items = [*ITEMS, "i12", "i13"]
    checked = weft.check(
        LISTS, TRUTH, train=TRAIN, items=items, metrics=["Gini", "Recall"], top_k=K
    )
    finding = only(checked, "items-never-recommended", "note")
    assert finding.examples == ({"item": "i12"}, {"item": "i13"})
    without = weft.evaluate(LISTS, TRUTH, train=TRAIN, metrics=["Gini"], top_k=K)["Gini@3"]
    assert (
        treated(finding, "without the catalogue")["Gini@3"] == without < before(finding)["Gini@3"]
    )


@pytest.mark.parametrize(
    "as_time",
    [
        lambda t: t,
        lambda t: t.cast(pl.Datetime("us")),
        lambda t: t.cast(pl.Datetime("us")).cast(pl.String),
    ],
)
def test_finds_train_later_than_truth(as_time):
    base = 1_600_000_000_000_000
    times = pl.Series("timestamp", range(12)) * 10
    train, truth = (TRAIN.with_columns(base + times), TRUTH.with_columns(base + times + 1))

    def timed(frame):
        return frame.with_columns(as_time(pl.col("timestamp")))

    # each user's second train row is later than the first of their truth
    checked = check(truth=timed(truth), train=timed(train))
    finding = only(checked, "train-after-truth", "warning", "train")
    assert finding.count == 6 and finding.effects == () and finding.remark
    late = pl.col("user") == "u3"
    train = train.with_columns(
        pl.when(late).then("timestamp").otherwise(base - 5).alias("timestamp")
    )
    finding = only(
        check(truth=timed(truth), train=timed(train)), "train-after-truth", "warning", "train"
    )
    assert finding.count == 1
    assert treated(finding, "without these users") == evaluate(
        LISTS.filter(~late), TRUTH.filter(~late)
    )


def test_finds_overlapping_times_of_users():
    users = pl.col("user").str.slice(1).cast(pl.Int64)
    train, truth = (
        TRAIN.with_columns(timestamp=10 * users),
        TRUTH.with_columns(timestamp=10 * users + 1),
    )
    finding = only(check(truth=truth, train=train), "train-overlaps-truth-in-time", "note", "train")
    assert finding.count == 10  # the rows of u1 to u5
    later = truth.filter(pl.col("user") == "u5")
    assert treated(finding, "only truth after train") == evaluate(truth=later)
    assert check(truth=truth.with_columns(pl.col("timestamp") + 100), train=train).findings == ()


# --------------------------------------------------------------------------------------------------


def test_finds_short_lists():
    short = LISTS.filter((pl.col("user") != "u1") | (pl.col("score") > 0.8))
    finding = only(check(short), "short-lists", "warning")
    assert finding.count == 1 and finding.examples == ({"user": "u1", "items": 1},)
    assert (
        "1 of 6 lists has fewer than 3 items; lengths range from 1 to 4, with median 4"
        in finding.message
    )
    rest = pl.col("user") != "u1"
    assert treated(finding, "without users with short lists") == evaluate(
        LISTS.filter(rest), TRUTH.filter(rest)
    )


def test_compares_short_lists_at_their_length():
    checked = weft.check(LISTS, TRUTH, train=TRAIN, metrics=[*METRICS, "Recall@2"], top_k=[10, 20])
    finding = only(checked, "short-lists", "warning")
    assert finding.count == 6
    at_4 = weft.evaluate(LISTS, TRUTH, metrics=METRICS, top_k=4)
    assert treated(finding, "cut-off 4") == {
        "nDCG@10": at_4["nDCG@4"],
        "nDCG@20": at_4["nDCG@4"],
        "Recall@10": at_4["Recall@4"],
        "Recall@20": at_4["Recall@4"],
        "Recall@2": weft.evaluate(LISTS, TRUTH, metrics="Recall@2")["Recall@2"],
    }


def test_compares_short_lists_under_a_profile():
    checked = weft.check(LISTS, TRUTH, metrics=["MAP"], top_k=10, profile="trec_eval")
    at_4 = weft.evaluate(LISTS, TRUTH, metrics=["MAP"], top_k=4, profile="trec_eval")
    assert treated(checked.findings[0], "cut-off 4") == {
        "MAP(normalizer=relevant)@10": at_4["MAP@4"]
    }

    class Nameless(weft.UserAverageTopKMetric):
        """A metric that is not registered."""

        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return top_k_rel.sum(dim=1).double()

    checked = weft.check(LISTS, TRUTH, metrics=[Nameless(k=10), "Recall@10"])
    assert list(checked.values["lists"]) == ["Nameless@10", "Recall@10"]
    assert list(treated(checked.findings[0], "cut-off 4")) == ["Recall@10"]


def test_finds_lists_of_different_lengths():
    more = pl.DataFrame(
        {"user": ["u0"] * 4, "item": ["i5", "i9", "i10", "i11"], "score": [0.1, 0.05, 0.04, 0.03]}
    )
    finding = only(check(pl.concat([LISTS, more])), "uneven-lists", "note")
    assert finding.count == 1 and finding.examples[0] == {"user": "u0", "items": 8}
    assert treated(finding, "all lists cut to 4 items") == before(finding) == evaluate()


def test_finds_ranks_from_zero_and_gaps():
    finding = only(check(RANKED.with_columns(pl.col("rank") - 1)), "ranks-not-from-1", "note")
    assert (
        finding.count == 6
        and "at 0;" in finding.message
        and treated(finding, "ranks from 1") == evaluate()
    )
    gaps = RANKED.with_columns(
        rank=pl.when(pl.col("user") == "u2").then(pl.col("rank") * 2 - 1).otherwise("rank")
    )
    finding = only(check(gaps), "gaps-in-ranks", "warning")
    assert finding.count == 1 and finding.examples == (
        {"user": "u2", "ranks": "1 to 7", "items": 4},
    )
    rest = pl.col("user") != "u2"
    assert treated(finding, "without users with gaps") == evaluate(
        LISTS.filter(rest), TRUTH.filter(rest)
    )


def test_finds_ranks_against_scores():
    both = RANKED.with_columns(score=pl.Series([0.9, 0.7, 0.4, 0.2] * 5 + [0.2, 0.4, 0.7, 0.9]))
    finding = only(check(both), "ranks-against-scores", "warning")
    assert finding.count == 1 and {example["user"] for example in finding.examples} == {"u5"}
    assert before(finding) == evaluate(RANKED) and treated(finding, "ordered by score") == evaluate(
        both.drop("rank")
    )
    assert check(RANKED.with_columns(LISTS["score"])).findings == ()


@pytest.mark.parametrize(
    ("scores", "kind", "count"),
    [
        ([1.0] * 24, "constant-scores", 6),
        ([0.5] * 4 + [0.9, 0.7, 0.4, 0.2] * 5, "constant-scores", 1),
    ],
)
def test_finds_constant_scores(scores, kind, count):
    lists = LISTS.with_columns(score=pl.Series(scores))
    finding = only(check(lists), kind, "warning")
    assert finding.count == count and before(finding) == evaluate(lists)
    for rule in ("pessimistic", "optimistic"):
        assert treated(finding, f"ties={rule!r}") == evaluate(lists, ties=rule)
    assert (
        treated(finding, "ties='pessimistic'")["nDCG@3"]
        < treated(finding, "ties='optimistic'")["nDCG@3"]
    )


def test_finds_scores_with_two_values():
    lists = LISTS.with_columns(score=pl.Series([1.0, 1.0, 0.0, 0.0] * 6))
    finding = only(check(lists), "two-scores", "warning")
    assert finding.count == 24 and "All 24 scores are 0 or 1" in finding.message
    assert treated(finding, "ties='optimistic'") == evaluate(lists, ties="optimistic")


def test_finds_ties():
    lists = LISTS.with_columns(
        score=pl.Series([0.9, 0.9, 0.4, 0.2] + [0.9, 0.7, 0.4, 0.4] + [0.9, 0.7, 0.4, 0.2] * 4)
    )
    finding = only(check(lists), "ties", "warning")
    assert (
        finding.count == 2
        and "2 of 6 lists" in finding.message
        and "equal scores at the cut-off 3: 1" in finding.message
    )
    assert treatments(finding) == ["ties='pessimistic'", "ties='optimistic'"]
    for rule in ("pessimistic", "optimistic"):
        assert treated(finding, f"ties={rule!r}") == evaluate(lists, ties=rule)
    assert check(lists.with_columns(RANKED["rank"])).findings == ()  # a rank settles them


def test_finds_orders_in_columns_that_are_not_read():
    """A score column with an unknown name leaves the order to the rows, which may be arbitrary."""
    named = LISTS.rename({"score": "affinity"})
    finding = only(check(named[::-1]), "order-of-rows", "warning")
    assert finding.count == 24 and "Columns that were not read: 'affinity'." in finding.message
    assert "--column score=NAME" in finding.fix
    assert before(finding) == evaluate(LISTS[::-1].drop("score"))
    assert treated(finding, "rows in reverse order") == evaluate()
    assert check(LISTS.drop("score")).findings == ()


def test_finds_rising_scores():
    lists = LISTS.with_columns(-pl.col("score"))
    finding = only(check(lists), "rising-scores", "warning")
    assert (
        finding.count == 6
        and before(finding) == evaluate(lists)
        and treated(finding, "lowest score first") == evaluate()
    )


def test_finds_equal_lists_of_all_users():
    lists = LISTS.with_columns(item=pl.Series(["i1", "i3", "i5", "i6"] * 6))
    checked = check(lists, train=None)
    finding = only(checked, "same-lists", "warning")
    assert finding.count == 6 and finding.message == "All 6 users have the same first 3 items."
    assert finding.examples == ({"item": "i1"}, {"item": "i3"}, {"item": "i5"})
    assert (
        check(
            LISTS.filter(pl.col("user") == "u0"), TRUTH.filter(pl.col("user") == "u0"), None
        ).findings
        == ()
    )


def test_finds_empty_tables():
    assert check(LISTS.head(0), train=None).kinds == ("empty",)
    assert check(truth=TRUTH.head(0), train=None).kinds == ("empty", "users-without-truth")
    assert set(map(math.isnan, check(truth=TRUTH.head(0)).values["lists"].values())) == {True}


def test_finds_scores_beyond_float_precision():
    lists = LISTS.with_columns(score=pl.Series([2**60 + 3, 2**60 + 2, 7, 5] * 6))
    with pytest.raises(InputError, match="cannot represent exactly"):
        evaluate(lists)
    checked = check(lists)
    assert checked.kinds == ("scores-beyond-precision", "ties") and checked.findings[0].count == 12
    assert treated(checked.findings[0], "scores rounded to float64") == evaluate(
        lists.with_columns(pl.col("score").cast(float))
    )


def test_does_not_compare_times_of_two_types():
    truth, train = (
        TRUTH.with_columns(timestamp=pl.lit(5)),
        TRAIN.with_columns(timestamp=pl.lit("2020-01-01")),
    )
    assert (
        only(check(truth=truth, train=train), "timestamps-of-two-kinds", "note", "train").effects
        == ()
    )


# --------------------------------------------------------------------------------------------------


def test_reports_findings_in_truth_once_for_all_models():
    worse = LISTS.with_columns(score=pl.Series([0.9, 0.9, 0.4, 0.2] * 6))
    truth = pl.concat([TRUTH, TRUTH.head(1)])
    checked = check_models({"a": LISTS, "b": worse}, truth, train=TRAIN, metrics=METRICS, top_k=K)
    assert [(finding.kind, finding.where) for finding in checked.findings] == [
        ("duplicates-in-truth", "truth"),
        ("ties", "b"),
    ]
    shared, ties = checked.findings
    assert treated(shared, "keep-best", "a") == evaluate() and treated(
        shared, "keep-best", "b"
    ) == evaluate(worse)
    assert {effect.model for effect in ties.effects} == {"b"} and checked.refused == ("a", "b")
    alone = check_models(
        {"a": LISTS, "b": pl.concat([worse, worse.head(1)])}, TRUTH, metrics=METRICS, top_k=K
    )
    assert alone.refused == ("b",)


def test_findings_of_one_model_do_not_change_another():
    """The type of b's ids, or an item that only b has, must not reach a."""
    numbers = LISTS.with_columns(pl.col("user").str.slice(1).cast(pl.Int64))
    stranger = pl.concat([LISTS, pl.DataFrame({"user": ["u0"], "item": ["zz"], "score": [0.95]})])
    settings = {"items": ITEMS, "metrics": ["Gini", "nDCG"], "top_k": K}
    expected = weft.evaluate(LISTS, TRUTH, **settings)
    for odd, kind in ((numbers, "id-types"), (stranger, "items-outside-catalogue")):
        checked = check_models({"a": LISTS, "b": odd}, TRUTH, **settings)
        assert checked.refused == ("b",) and {finding.kind for finding in checked.of("error")} == {
            kind
        }
        assert checked.values["a"] == {name: expected[name] for name in ("Gini@3", "nDCG@3")}
        assert {effect.model for finding in checked.of("error") for effect in finding.effects} == {
            "b"
        }


def test_rejects_wrong_settings_and_sources():
    with pytest.raises(MissingInput, match="GAUC needs the scores of all items"):
        weft.check(LISTS, TRUTH, metrics="GAUC")
    with pytest.raises(InputError, match=r"weft\.check reads recommendation lists"):
        weft.check(np.zeros((2, 3)), TRUTH)
    with pytest.raises(SettingError, match="'truth' cannot be the name"):
        check(name="truth")
    with pytest.raises(UnknownParameter, match=r"no argument 'profil'\. Did you mean 'profile'"):
        check(profil="elliot")
    with pytest.raises(SettingError, match="Choose one of 'error'"):
        check().of("eror")
    with pytest.raises(InputError, match="'user'"):
        check(LISTS.rename({"user": "whom"}))
    with pytest.raises(InputError, match="has scores for some users, but not for 'b'"):
        weft.check({"a": {"x": 1}, "b": ["x"]}, TRUTH)


def zipf(num_items):
    return np.random.default_rng(4).permutation(1 / (1 + np.arange(num_items)))


def popular_data(weights):
    """(lists, truth, train) of integer items drawn by weight; lists have the largest weights that
    the user has not seen, in part at random.
    """
    generator, num_items = np.random.default_rng(5), len(weights)
    weights = weights / weights.sum()
    lists, truth, train = {}, {}, {}
    for user in range(60):
        drawn = generator.choice(num_items, 18, replace=False, p=weights).tolist()
        train[user], truth[user] = drawn[::3] + drawn[1::3], drawn[2::3]
        noise = weights * generator.gamma(2, size=num_items)
        lists[user] = [item for item in np.argsort(-noise).tolist() if item not in train[user]][:10]
    return lists, truth, train


def check_popularity(lists, truth, train, **settings):
    return weft.check(lists, truth, train=train, metrics="Recall", top_k=10, **settings)


def popularity_mismatch(checked):
    return [finding for finding in checked.findings if finding.kind == "popularity-mismatch"]


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize(
    ("treatment", "spoil"),
    [
        ("item ids reversed", lambda item: 79 - item),
        ("item ids shifted by 1", lambda item: (item - 1) % 80),
        ("item ids shifted by -1", lambda item: (item + 1) % 80),
    ],
)
def test_finds_item_ids_in_another_order(treatment, spoil, as_text):
    lists, truth, train = popular_data(zipf(80))
    assert popularity_mismatch(check_popularity(lists, truth, train)) == []
    spoilt = {user: [spoil(item) for item in row] for user, row in lists.items()}
    if as_text:
        spoilt, truth, train, lists = (
            {user: [f"i{item:02}" for item in row] for user, row in table.items()}
            for table in (spoilt, truth, train, lists)
        )
    checked = check_popularity(spoilt, truth, train)
    (finding,) = popularity_mismatch(checked)
    assert (finding.severity, finding.where, finding.count) == ("warning", "lists", 600)
    assert "Item ids may be reversed, shifted or shuffled." in finding.message
    right = weft.evaluate(lists, truth, metrics="Recall", top_k=10)["Recall@10"]
    assert treated(finding, treatment) == {"Recall@10": right}
    assert right > 2 * before(finding)["Recall@10"]


def test_finds_shifted_item_ids():
    """Most popular items stay popular when ids are shifted, but the shift back fits better."""
    trend = np.exp(-np.arange(200) / 40)
    weights = trend * np.random.default_rng(3).gamma(0.7, size=200)
    lists, truth, train = popular_data(weights)
    assert popularity_mismatch(check_popularity(lists, truth, train)) == []
    shifted = {user: [(item + 1) % 200 for item in row] for user, row in lists.items()}
    (finding,) = popularity_mismatch(check_popularity(shifted, truth, train))
    assert "would agree better with the popularity in train" in finding.message
    assert "if item ids were shifted by -1: they have" in finding.message
    assert (
        treated(finding, "item ids shifted by -1")
        == check_popularity(lists, truth, train).values["lists"]
    )


def test_finds_a_shifted_catalogue():
    lists, truth, train = popular_data(zipf(80))
    items = np.random.default_rng(1).permutation(80)
    place = np.argsort(items)
    spoilt = {user: items[(place[row] - 1) % 80].tolist() for user, row in lists.items()}
    (finding,) = popularity_mismatch(check_popularity(spoilt, truth, train, items=items))
    right = weft.evaluate(lists, truth, metrics="Recall", top_k=10)["Recall@10"]
    assert treated(finding, "item ids shifted by 1") == {"Recall@10": right}


def test_no_popularity_finding_without_enough_data():
    generator = np.random.default_rng(2)
    lists, truth, train = popular_data(np.ones(80))
    shuffled = {user: generator.choice(80, 10, replace=False).tolist() for user in lists}
    assert popularity_mismatch(check_popularity(shuffled, truth, train)) == []
    lists, truth, train = popular_data(zipf(40))
    reverse = {user: [39 - item for item in row] for user, row in lists.items()}
    assert popularity_mismatch(check_popularity(reverse, truth, train)) == []
    assert popularity_mismatch(weft.check(reverse, truth, metrics="Recall", top_k=10)) == []
    lists, truth, train = popular_data(zipf(80))
    outside = {user: [100 + item for item in row] for user, row in lists.items()}
    checked = check_popularity(outside, truth, train, items=range(80))
    assert "items-outside-catalogue" in checked.kinds and popularity_mismatch(checked) == []


PLAYS = {"a": {"x": 5000, "y": 3}, "b": {"z": 7}}  # 2^5000 overflows
PLAYED = {"a": ["x", "y"], "b": ["y", "z", "x"]}


def test_failing_metrics_are_findings():
    with pytest.raises(InputError, match="too large"):
        weft.evaluate(PLAYED, PLAYS, metrics="nDCG", top_k=3)
    checked = weft.check(PLAYED, PLAYS, top_k=3)
    assert checked.kinds == ("failing-metric", "short-lists") and checked.refused == ("lists",)
    failing, short = checked.findings
    assert (failing.severity, failing.where, failing.count) == ("error", "lists", 1)
    assert failing.message.startswith("nDCG@3 cannot be evaluated: the rating 5000 is too large")
    recall = weft.evaluate(PLAYED, PLAYS, metrics="Recall", top_k=3)["Recall@3"]
    assert checked.values == {"lists": {"Recall@3": recall}}
    assert [effect.metric for effect in short.effects] == ["Recall@3"]
    linear = weft.check(PLAYED, PLAYS, metrics="nDCG(gain=linear)", top_k=3)
    assert linear.kinds == ("short-lists",)


def test_ratings_that_are_ignored_raise_no_finding(tmp_path):
    graded = pl.DataFrame(
        {"user": ["a", "a", "b", "b"], "item": ["x", "y", "z", "x"], "rating": [5000.0, 0, 3, -1]}
    )
    lists = {"a": ["x", "y"], "b": ["y", "z"]}
    found = weft.check(lists, graded, top_k=2).kinds
    assert found == ("negative-ratings", "failing-metric", "zero-ratings")
    checked = weft.check(lists, graded, top_k=2, implicit=True)
    assert checked.findings == ()
    result = weft.evaluate(lists, graded, metrics=METRICS, top_k=2, implicit=True)
    assert checked.values["lists"] == dict(result)
    missing = graded.with_columns(rating=pl.Series([5000.0, 0, 3, None]))
    assert weft.check(lists, missing, top_k=2, implicit=True).kinds == ("not-finite-ratings",)
    with pytest.raises(SettingError, match="implicit"):
        weft.check(lists, graded, top_k=2, implicit=True, relevance_threshold=2)
    graded.write_csv(tmp_path / "truth.csv")
    rows = [(user, item) for user, row in lists.items() for item in row]
    pl.DataFrame(rows, schema=["user", "item"], orient="row").write_csv(tmp_path / "lists.csv")
    files = ["--recs", str(tmp_path / "lists.csv"), "--truth", str(tmp_path / "truth.csv")]
    done = CliRunner().invoke(app, ["check", *files, "-k", "2", "--implicit", "--strict"])
    assert done.exit_code == 0, done.output
    (tmp_path / "run.yaml").write_text(
        "data: {truth: {path: truth.csv, ratings: false}}\nmodels: {lists: lists.csv}\n"
    )
    done = CliRunner().invoke(app, ["check", str(tmp_path / "run.yaml"), "-k", "2", "--strict"])
    assert done.exit_code == 0, done.output


def test_check_of_only_failing_metrics():
    checked = weft.check(PLAYED, PLAYS, metrics=["nDCG@3", "nDCG@2"], top_k=1)
    assert checked.kinds == ("failing-metric", "short-lists")
    messages = [finding.message for finding in checked.findings]
    assert messages[0].startswith("nDCG@3 cannot") and messages[1].startswith("nDCG@2 cannot")
    assert checked.values == {"lists": {}}
    short = checked.findings[-1]
    assert short.effects == () and short.remark == "no metric can be evaluated"


def test_errors_of_custom_metrics_are_findings():
    class Broken(weft.UserAverageTopKMetric):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            raise ZeroDivisionError("no items")

    checked = weft.check(LISTS, TRUTH, metrics=[Broken, "MRR"], top_k=K)
    assert checked.kinds == ("failing-metric",)
    assert (
        checked.findings[0].message == "Broken@3 cannot be evaluated: ZeroDivisionError: no items."
    )
    assert list(checked.values["lists"]) == ["MRR@3"]


def test_metrics_that_fail_after_a_treatment_are_undefined():
    truth = pl.DataFrame({"user": ["a", "b"], "item": ["x", "z"], "rating": [-2000.0, 1.0]})
    lists = pl.DataFrame({"user": ["a", "a", "b"], "item": ["x", "x", "z"], "score": [1.0, 9, 1]})

    class TopScore(weft.UserAverageTopKMetric):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            if preds[preds > -math.inf].max() < 2:
                raise ValueError("low")
            return preds.max(1).values

    checked = weft.check(lists, truth, metrics=[TopScore, "MRR"], top_k=1)
    repeated = next(one for one in checked.findings if one.kind == "duplicates-in-lists")
    worst = treated(repeated, "keep-worst")
    assert math.isnan(worst["TopScore@1"]) and worst["MRR@1"] == 1
    assert "undefined" in str(checked)


def test_failing_metrics_on_the_command_line(tmp_path):
    (tmp_path / "lists.csv").write_text("user,item,score\na,x,2\na,y,1\nb,y,2\nb,z,1\n")
    (tmp_path / "plays.csv").write_text("user,item,rating\na,x,5000\na,y,3\nb,z,7\n")
    files = ["--recs", str(tmp_path / "lists.csv"), "--truth", str(tmp_path / "plays.csv")]
    done = CliRunner().invoke(app, ["check", *files, "-k", "2"])
    assert done.exit_code == 1 and "error: failing-metric in lists" in done.stdout
    assert "Traceback" not in done.output


def test_results_are_frozen():
    checked = check(LISTS.filter(pl.col("user") != "u4"))
    with pytest.raises(AttributeError):
        checked.findings = ()
    with pytest.raises(AttributeError):
        checked.findings[0].kind = "other"


IDS = st.sampled_from(["a", "b", "c", "A"])
SCORES = st.sampled_from([0.0, 0.5, 1.0, 2.0, -1.0, float("nan"), float("inf"), None])
ROUGH = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), IDS, SCORES, st.integers(0, 4)), max_size=10
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    ROUGH,
    ROUGH,
    st.none() | ROUGH,
    st.none() | st.lists(IDS, min_size=1),
    st.sampled_from(["score", "rank", "both", "none"]),
    st.booleans(),
)
def test_errors_match_those_of_evaluate(lists, truth, train, items, order, numbers):
    """Whatever the data: the values are those of weft.evaluate where it gives some, and where it
    refuses there is an error.
    """

    def frame(rows, *columns):
        table = pl.DataFrame(
            rows, schema={"user": str, "item": str, "score": float, "rank": int}, orient="row"
        )
        return table.select("user", "item", *columns)

    columns = {"score": ["score"], "rank": ["rank"], "both": ["score", "rank"], "none": []}[order]
    rated = pl.col("score").alias("rating")
    tables = frame(lists, *columns), frame(truth, rated)
    if numbers:
        tables = (
            tables[0],
            tables[1].with_columns(
                user=pl.col("user").replace_strict({"a": 1, "b": 2, "c": 3}, default=None)
            ),
        )
    others = {"train": None if train is None else frame(train, rated), "items": items}
    checked = weft.check(*tables, **others, metrics=METRICS, top_k=2)
    try:
        result = weft.evaluate(*tables, **others, metrics=METRICS, top_k=2)
    except InputError:
        assert checked.refused == ("lists",) and checked.of("error")
    else:
        assert checked.refused == () and not checked.of("error")
        for name, value in checked.values["lists"].items():
            assert value == result[name] or (math.isnan(value) and math.isnan(result[name]))
    assert str(checked) and json.loads(checked.to_json())["refused"] == list(checked.refused)


# --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, frame in {
        "knn": LISTS,
        "test": TRUTH,
        "train": TRAIN,
        "few": LISTS.filter(pl.col("user") != "u4"),
    }.items():
        frame.write_csv(f"{name}.csv")
    pl.concat([LISTS, LISTS.head(1)]).write_csv("twice.csv")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["check", *arguments])


BASIC = ("--truth", "test.csv", "--train", "train.csv", "-k", "3")


def test_command_prints_lines_and_exit_codes(folder):
    clean = run("--recs", "knn.csv", *BASIC)
    assert clean.exit_code == 0 and "No problems found." in clean.output
    warned = run("--recs", "few.csv", *BASIC)
    assert (
        warned.exit_code == 0
        and "warning: users-without-list in few" in warned.output
        and "1 warning." in warned.output
    )
    assert run("--recs", "few.csv", *BASIC, "--strict").exit_code == 1
    wrong = run("--recs", "knn.csv", "--recs", "b=twice.csv", *BASIC)
    assert wrong.exit_code == 1 and "error: duplicates-in-lists in b" in wrong.output
    assert (
        "line 26: user 'u0', item 'i0', score 0.9" in wrong.output
    )  # 24 rows behind the header, then this one
    assert "weft evaluate raises an error for: b." in wrong.output
    assert all(
        len(line) <= 80 for part in (clean, warned, wrong) for line in part.output.splitlines()
    )


def test_finds_files_without_common_ids(folder):
    TRUTH.with_columns(user="other " + pl.col("user")).write_csv("others.csv")
    with pytest.raises(InputError, match="no user in common"):
        weft.evaluate("knn.csv", "others.csv", metrics="MRR@3")
    done = run("--recs", "knn.csv", "--truth", "others.csv", "-k", "3")
    assert (
        done.exit_code == 1
        and "error: nothing-in-common in knn" in done.stdout
        and "weft evaluate raises an error for: knn." in done.stdout
    )
    TRUTH.with_columns(item="other " + pl.col("item")).write_csv("others.csv")
    with pytest.raises(InputError, match="no item in common"):
        weft.evaluate("knn.csv", "others.csv", metrics="MRR@3")
    assert run("--recs", "knn.csv", "--truth", "others.csv", "-k", "3").exit_code == 1


def test_output_fits_80_columns(folder):
    pl.concat(
        [
            TRUTH.with_columns(rating=pl.lit(1.0)),
            pl.DataFrame({"user": ["u1"], "item": ["i0"], "rating": [-1.0]}),
        ]
    ).write_csv("test.csv")
    done = run(
        "--recs",
        "a=knn.csv",
        "--recs",
        "b=few.csv",
        *BASIC,
        "-m",
        "MAP(normalizer=relevant),nDCG(gain=linear, ideal=k)",
    )
    assert done.exit_code == 1 and done.stdout.count("with the rating 0 (not relevant)") == 2
    assert all(len(line) <= 80 for line in done.output.splitlines())
    assert re.search(r"^    b +as given +with the rating 0", done.stdout, re.MULTILINE)
    assert re.search(r"^ +errors repaired  missing_lists='skip'$", done.stdout, re.MULTILINE)


def test_json_has_all_findings(folder):
    told = json.loads(
        run(
            "--recs", "few.csv", *BASIC, "-m", "nDCG,Recall@2", "-m", "MRR", "--format", "json"
        ).stdout
    )
    (finding,) = told["findings"]
    assert (finding["kind"], finding["severity"], finding["where"], finding["count"]) == (
        "users-without-list",
        "warning",
        "few",
        1,
    )
    assert [effect["metric"] for effect in finding["effects"]] == ["nDCG@3", "Recall@2", "MRR@3"]
    for effect in finding["effects"]:
        assert effect["change"] == effect["treated"] - effect["value"]
    assert told["values"]["few"]["MRR@3"] == pytest.approx(5 / 12) and told["refused"] == []
    assert told["inputs"][0] == {
        "name": "few",
        "path": "few.csv",
        "rows": 20,
        "users": 5,
        "items": 12,
    }
    Path("nan.csv").write_text(
        "user,item,score\nu0,i0,NaN\n" + LISTS.write_csv(include_header=False)
    )
    told = json.loads(run("--recs", "nan.csv", *BASIC, "--format", "json").stdout)
    finding = next(
        finding for finding in told["findings"] if finding["kind"] == "not-finite-scores"
    )
    assert finding["examples"][0] == {
        "file": "nan.csv",
        "place": "line 2",
        "user": "u0",
        "item": "i0",
        "score": "nan",
    }
    assert finding["effects"][0]["value"] is None and finding["effects"][0]["change"] is None


@pytest.mark.slow
def test_process_has_exit_codes(folder):
    def start(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "weft", "check", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
        )

    assert start("--recs", "twice.csv", *BASIC).returncode == 1
    for arguments, message in (
        (["--recs", "knn.csv", "--recs", "knn=few.csv", *BASIC], "there is already a model 'knn'"),
        (["--recs", "knn.csv", *BASIC, "-k", "ten"], "--top-k ten; cut-offs are integers"),
        (["--recs", "knn.csv", *BASIC, "--format", "jsn"], "Did you mean 'json'?"),
        (["--recs", "knn.csv", *BASIC, "-m", "nDGC"], "Did you mean 'nDCG'?"),
    ):
        done = start(*arguments)
        assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr
        assert done.stderr.startswith("error: ") and message in done.stderr


# --------------------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "guide" / "check.md").read_text(encoding="utf-8")


def test_page_shows_the_output(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    example, shown = (
        re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[1] for kind in ("python", "text")
    )
    exec(compile(example, "docs/guide/check.md", "exec"), {})
    assert capsys.readouterr().out == shown
    command = re.search(r"^weft check (.*)$", PAGE, re.MULTILINE)[1]
    assert run(*command.split()).stdout == shown


def test_page_lists_every_finding():
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in Path(weft.diagnostics.__file__).parent.glob("*.py")
    )
    makers = "DraftFinding|draft_finding|_not_finite|_beyond_precision"
    kinds = set(re.findall(rf'(?:{makers})\(\s*"([\w-]+)"', source))
    listed = re.findall(r"^\| (`.*?) \| (?:error|warning|note) \|", PAGE, re.MULTILINE)
    assert len(kinds) > 35 and kinds == {
        kind for row in listed for kind in re.findall(r"`([\w-]+)`", row)
    }


# --------------------------------------------------------------------------------------------------

GOLDEN = Path(__file__).parents[2] / "shared" / "golden"
golden = pytest.mark.skipif(
    not (GOLDEN / "ml100k_edge").is_dir(), reason=f"the golden values are not here: {GOLDEN}"
)


@golden
def test_finds_the_edge_cases_of_the_golden_data():
    """The README of the data tells how the lists were made awkward, and what other tools make of
    users without a list.
    """
    users = pl.col("user") % 10
    lists = pl.read_csv(GOLDEN / "ml100k_tlo" / "rec_itemknn.csv.gz").filter(
        (users != 0) & ((users != 1) | (pl.col("rank") <= 3))
    )
    truth = pl.read_csv(GOLDEN / "ml100k_edge" / "test.csv.gz").drop("rating")
    train = GOLDEN / "ml100k_tlo" / "train.csv.gz"
    checked = weft.check(lists, truth, train=train, metrics="nDCG", top_k=10, name="itemknn")
    found = {finding.kind: finding for finding in checked.findings}
    assert set(found) == {
        "users-without-list",
        "short-lists",
        "users-without-truth",
        "cold-items-in-truth",
        "unknown-items-in-truth",
        "train-overlaps-truth-in-time",
    }
    assert [
        found[kind].count for kind in ("users-without-list", "short-lists", "users-without-truth")
    ] == [94, 95, 95]
    assert {one.name: one.users for one in checked.inputs} == {
        "itemknn": 849,
        "truth": 848,
        "train": 943,
    }
    (effect,) = found["users-without-list"].effects
    assert effect.value == pytest.approx(0.148564, abs=5e-7) and effect.treated == pytest.approx(
        0.167085, abs=5e-7
    )


@golden
def test_finds_ties_of_popularity():
    data = GOLDEN / "ml100k_tlo"
    lists = pl.read_csv(data / "rec_pop.csv.gz")
    truth = pl.read_csv(data / "test.csv.gz")
    checked = weft.check(
        lists.drop("rank"),
        truth,
        train=data / "train.csv.gz",
        relevance_threshold=4,
        metrics="nDCG",
        top_k=10,
    )
    found = {finding.kind: finding for finding in checked.findings}
    assert set(found) == {
        "ties",
        "users-without-relevant-items",
        "cold-items-in-truth",
        "unknown-items-in-truth",
        "train-overlaps-truth-in-time",
    }
    assert (
        found["users-without-relevant-items"].count == 39
        and found["cold-items-in-truth"].count == 70
    )
    low, high = (effect for effect in found["ties"].effects)
    assert low.treated < low.value < high.treated
    assert "ties" not in weft.check(lists, truth, metrics="nDCG", top_k=10).kinds


def test_checks_configurations(tmp_path):
    LISTS.rename({"user": "who"}).write_csv(tmp_path / "lists.csv", separator=";")
    TRUTH.write_csv(tmp_path / "truth.csv")
    TRAIN.write_csv(tmp_path / "train.csv")
    groups = pl.DataFrame({"user": [f"u{user}" for user in range(6)], "label": list("ababab")})
    groups.write_csv(tmp_path / "groups.csv")
    (tmp_path / "run.yaml").write_text(
        "data: {truth: truth.csv, train: train.csv, user_groups: groups.csv}\n"
        "models: {knn: {path: lists.csv, separator: ';', columns: {user: who}}}\n"
        "evaluation: {metrics: [nDCG, UserMADRanking], top_k: 3, profile: warprec}\n"
    )
    found = json.loads(run(str(tmp_path / "run.yaml"), "--format", "json").stdout)
    direct = weft.evaluate(
        LISTS,
        TRUTH,
        train=TRAIN,
        user_groups=groups,
        metrics=["nDCG", "UserMADRanking"],
        top_k=3,
        profile="warprec",
    )
    assert found["values"] == {"knn": {value.name: value.value for value in direct.entries}}


def test_checks_candidates_of_a_configuration(tmp_path):
    """A pool by its name is that of the evaluation; a file of candidates is not looked at."""
    for name, frame in (("lists", LISTS), ("truth", TRUTH)):
        frame.write_csv(tmp_path / f"{name}.csv")
    text = (
        "data: {{truth: truth.csv{file}}}\nmodels: {{knn: lists.csv}}\nevaluation: {{metrics: "
        "{metric}, top_k: 3{pool}}}\n"
    )
    (tmp_path / "run.yaml").write_text(
        text.format(file="", metric="AUC", pool=", candidates: listed")
    )
    found = json.loads(run(str(tmp_path / "run.yaml"), "--format", "json").stdout)
    assert (
        found["values"]["knn"]["AUC"]
        == weft.evaluate(LISTS, TRUTH, metrics="AUC", candidates="listed")["AUC"]
    )
    (tmp_path / "run.yaml").write_text(
        text.format(file=", candidates: lists.csv", metric="nDCG", pool="")
    )
    found = json.loads(run(str(tmp_path / "run.yaml"), "--format", "json").stdout)
    assert (
        found["values"]["knn"]["nDCG@3"] == weft.evaluate(LISTS, TRUTH, metrics="nDCG@3")["nDCG@3"]
    )


def test_flags_describe_files(tmp_path):
    LISTS.rename({"user": "who"}).write_csv(tmp_path / "lists.csv", separator=";")
    TRUTH.write_csv(tmp_path / "truth.csv", separator=";")
    given = [
        "--recs",
        str(tmp_path / "lists.csv"),
        "--truth",
        str(tmp_path / "truth.csv"),
        "-k",
        "3",
    ]
    refused = run(*given)
    assert (
        refused.exit_code == 2 and "user" in refused.stderr and "--column user=" in refused.stderr
    )
    found = run(*given, "--separator", ";", "--column", "recs.user=who", "--format", "json")
    assert json.loads(found.stdout)["values"]["lists"] == evaluate(train=None)


def test_rejects_missing_files():
    assert (
        "--recs and --truth must be given, or a configuration, as in 'weft check --recs"
        in run().stderr
    )
