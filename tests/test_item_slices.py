"""Metrics over groups of relevant items, against oracles and evaluations of a filtered truth."""

import html
import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import oracles
import weft
from doc_commands import run_weft
from local_engine import evaluate as evaluate_in_partitions
from metric_cases import BUILT_IN, BY_POSITION, FirstHalf, has_trait, make_labels
from weft.data.devices import treat_cpu_as_device
from weft.errors import InputError, MissingInput, SettingError

USERS, ITEMS = 40, 30
DRAW = np.random.default_rng(11)
SCORES = DRAW.integers(0, 12, (USERS, ITEMS)) / 4  # with ties
TRUTH = DRAW.integers(1, 6, (USERS, ITEMS)) * (DRAW.random((USERS, ITEMS)) < 0.2)
TRAIN = (DRAW.random((USERS, ITEMS)) < 0.15).astype(int)
LABELS = [("a", "b", None, "c", "b")[item % 5] for item in range(ITEMS)]
LISTS = {
    user: {int(item): float(SCORES[user, item]) for item in DRAW.permutation(ITEMS)[:12]}
    for user in range(USERS)
}
TIES = ["index", "random", "expected", "pessimistic", "optimistic"]
FIELDS = ("value", "std_error", "ci_low", "ci_high", "users")
ACCURACY = [name for name in BUILT_IN if has_trait(name, "family") == "accuracy"]


def group_rows(result, name, group):
    rows = result.slice(name).filter(pl.col("group") == group)
    return {row["metric"] + (f"@{row['k']}" if row["k"] else ""): row for row in rows.to_dicts()}


def assert_is_group(result, name, group, expected):
    """The rows of a group are the values of another result, metric by metric."""
    rows = group_rows(result, name, group)
    assert rows
    for metric, row in rows.items():
        value = expected.entry(metric)
        for field in FIELDS:
            other = getattr(value, field)
            assert row[field] == pytest.approx(other, rel=1e-11, abs=1e-14, nan_ok=True), (
                metric,
                field,
            )


def labelled(label):
    return np.array([own == label for own in LABELS])


# --------------------------------------------------------------------------------------------------
# Oracles


@st.composite
def cases(draw):
    users, items = draw(st.integers(1, 5)), draw(st.integers(1, 7))
    scores = st.lists(st.sampled_from([-math.inf, 0.0, 1.0, 2.0]), min_size=items, max_size=items)
    ratings = st.lists(st.integers(0, 5), min_size=items, max_size=items)
    labels = draw(st.lists(st.sampled_from(["a", "b", None]), min_size=items, max_size=items))
    return (
        [draw(scores) for _ in range(users)],
        [draw(ratings) for _ in range(users)],
        labels,
        draw(st.sampled_from([None, 2, 4])),
    )


def restricted_cases(scores, ratings, threshold, is_inside):
    """A case per user whose truth has only the ratings for which `is_inside(user, item)`."""
    return [
        oracles.Case(
            tuple(row),
            {i: r for i, r in enumerate(rated) if r and is_inside(user, i)},
            threshold,
            len(row),
        )
        for user, (row, rated) in enumerate(zip(scores, ratings))
    ]


ORACLE_METRICS = ["Recall", "Precision", "HitRate", "MRR", "MAP", "nDCG", "GAUC"]


@pytest.mark.parametrize("ties", ["index", "expected", "pessimistic", "optimistic"])
@given(case=cases(), k=st.integers(1, 4))
def test_values_are_those_of_the_oracle_with_a_restricted_truth(ties, case, k):
    scores, ratings, labels, threshold = case
    result = weft.evaluate(
        np.array(scores),
        np.array(ratings, dtype=float),
        metrics=ORACLE_METRICS,
        top_k=k,
        ties=ties,
        relevance_threshold=threshold,
        item_slices={"label": labels},
        **BY_POSITION,
    )
    groups = sorted({label for label in labels if label is not None})
    assert result.slice("label")["group"].unique().sort().to_list() == groups if groups else True
    for group in groups:
        rows = group_rows(result, "label", group)
        own = restricted_cases(
            scores, ratings, threshold, lambda user, item, group=group: labels[item] == group
        )
        for metric in ORACLE_METRICS:
            depth = None if metric == "GAUC" else k
            expected = oracles.summary(metric, own, depth, ties=ties)
            row = rows[metric if depth is None else f"{metric}@{k}"]
            assert row["value"] == pytest.approx(expected.value, nan_ok=True), metric
            assert row["std_error"] == pytest.approx(expected.std_error, nan_ok=True, abs=1e-12)
            assert row["users"] == expected.users


@given(case=cases(), seen=st.sets(st.tuples(st.integers(0, 4), st.integers(0, 6))))
def test_targets_are_those_of_the_oracle(case, seen):
    scores, ratings, _, threshold = case
    train = np.zeros((len(scores), len(scores[0])))
    for user, item in seen:
        if user < len(train) and item < train.shape[1]:
            train[user, item] = 1
    for targets, is_seen in (("new", 0), ("repeated", 1)):
        result = weft.evaluate(
            np.array(scores),
            np.array(ratings, dtype=float),
            metrics=ORACLE_METRICS,
            top_k=2,
            train=train,
            mask_seen=False,
            relevance_threshold=threshold,
            targets=targets,
            item_slices={"repeat": "targets"},
            **BY_POSITION,
        )
        own = restricted_cases(
            scores, ratings, threshold, lambda user, item, s=is_seen: train[user, item] == s
        )
        rows = group_rows(result, "repeat", targets)
        for metric in ORACLE_METRICS:
            depth = None if metric == "GAUC" else 2
            expected = oracles.summary(metric, own, depth)
            name = metric if depth is None else f"{metric}@2"
            assert result[name] == pytest.approx(expected.value, nan_ok=True)
            assert result.entry(name).users == expected.users
            assert rows[name]["value"] == pytest.approx(expected.value, nan_ok=True)
        other = {"new": "repeated", "repeated": "new"}[targets]
        assert all(row["users"] == 0 for row in group_rows(result, "repeat", other).values())


# --------------------------------------------------------------------------------------------------
# A second evaluation, of a filtered truth


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("source", ["scores", "lists"])
def test_values_are_those_of_a_filtered_truth(source, ties):
    given_, names = SCORES, ACCURACY
    options = {"train": TRAIN, "mask_seen": True, "ties": ties, "top_k": [1, 5], **BY_POSITION}
    if source == "lists":
        given_, names = (
            LISTS,
            [name for name in ACCURACY if not has_trait(name, "needs_all_scores")],
        )
        options |= {"items": range(ITEMS), "users": None}
    names = [*names, "nDCG(relevance_threshold=3)", FirstHalf]
    slices = {"label": LABELS, "half": [item % 2 for item in range(ITEMS)]}
    result = weft.evaluate(given_, TRUTH, metrics=names, item_slices=slices, **options)
    for name, labels in slices.items():
        for group in {label for label in labels if label is not None}:
            truth = TRUTH * np.array([label == group for label in labels])
            expected = weft.evaluate(given_, truth, metrics=names, **options)
            assert_is_group(result, name, str(group), expected)
    plain = weft.evaluate(given_, TRUTH, metrics=names, **options)
    assert [value.value for value in result.entries] == pytest.approx(
        [value.value for value in plain.entries], nan_ok=True
    )


def test_gains_are_those_of_the_groups_own_ideal_list():
    """Items 0 (rated 5) and 1 (rated 1) are relevant; item 1 alone would be ideal at the top."""
    result = weft.evaluate(
        np.array([[3.0, 2.0, 1.0]]),
        np.array([[5.0, 1.0, 0.0]]),
        metrics="nDCG@3",
        item_slices={"label": ["head", "tail", "tail"]},
        **BY_POSITION,
    )
    assert group_rows(result, "label", "head")["nDCG@3"]["value"] == 1
    assert group_rows(result, "label", "tail")["nDCG@3"]["value"] == pytest.approx(1 / math.log2(3))


def test_empty_users_count_where_they_have_an_interaction_of_the_group():
    options = {"metrics": ["Recall@5"], "relevance_threshold": 4, "empty_users": "zero"}
    result = weft.evaluate(SCORES, TRUTH, item_slices={"label": LABELS}, **options, **BY_POSITION)
    truth = pl.DataFrame(
        [
            (user, item, float(TRUTH[user, item]))
            for user, item in zip(*np.nonzero(TRUTH * labelled("b")))
        ],
        schema=["user", "item", "rating"],
        orient="row",
    )
    expected = weft.evaluate(SCORES, truth, **options, **BY_POSITION)
    assert expected.entry("Recall@5").users < USERS
    assert_is_group(result, "label", "b", expected)


def test_sampled_candidates_stay_the_same():
    """The others of the user's relevant items stay in the list, and no new negative is drawn."""
    options = {"metrics": ["Recall", "MRR"], "top_k": 3, **BY_POSITION}
    sampled = {"strategy": "sampled", "num_negatives": 7, "seed": 3}
    result = weft.evaluate(SCORES, TRUTH, item_slices={"label": LABELS}, **options, **sampled)
    drawn = weft.evaluate(
        SCORES, TRUTH, keep_lists=True, metrics="Recall@99", **sampled, **BY_POSITION
    )
    lists = {
        user: rows["item"].to_list()
        for (user,), rows in drawn.lists.sort("rank").group_by("user", maintain_order=True)
    }
    truth = {u: [int(i) for i in np.flatnonzero(TRUTH[u] * labelled("b"))] for u in range(USERS)}
    hits = [
        len(set(lists[user][:3]) & set(relevant)) / len(relevant)
        for user, relevant in truth.items()
        if relevant
    ]
    row = group_rows(result, "label", "b")["Recall@3"]
    assert (row["value"], row["users"]) == (pytest.approx(np.mean(hits)), len(hits))


# --------------------------------------------------------------------------------------------------
# Rules


def test_head_and_tail_and_popularity_are_those_of_train():
    options = {"metrics": ["nDCG@5", "MRR@5"], "train": TRAIN, **BY_POSITION}
    slices = {"tail": "head_tail(0.5)", "popularity": "quantiles(3)", "plain": "head_tail"}
    result = weft.evaluate(SCORES, TRUTH, item_slices=slices, **options)
    counts = TRAIN.sum(0)
    order = sorted(range(ITEMS), key=lambda item: (-counts[item], item))
    head, total = set(), 0
    for item in order:
        if total >= 0.5 * counts.sum():
            break
        head.add(item)
        total += counts[item]
    is_head = np.array([item in head for item in range(ITEMS)])
    for group, mask in {"head": is_head, "tail": ~is_head}.items():
        assert_is_group(result, "tail", group, weft.evaluate(SCORES, TRUTH * mask, **options))
    for group in result.slice("popularity")["group"].unique():
        numbers = [int(word) for word in group.split() if word.isdigit()]
        low, high = {"up": (0, numbers[-1]), "and": (numbers[0], 10**9)}.get(
            "up" if group.startswith("up") else "and" if "more" in group else "",
            (numbers[0], numbers[-1]),
        )
        mask = (counts >= low) & (counts <= high)
        assert_is_group(result, "popularity", group, weft.evaluate(SCORES, TRUTH * mask, **options))
    assert result.settings["item_slices"] == {
        "tail": "head_tail(0.5)",
        "popularity": "quantiles(3)",
        "plain": "head_tail(0.8)",
    }


def test_an_item_with_several_features_is_in_several_groups():
    about = make_labels(USERS, ITEMS)
    options = {"metrics": ["nDCG@5"], **BY_POSITION}
    result = weft.evaluate(
        SCORES,
        TRUTH,
        item_slices={"genre": "item_features", "cluster": "item_clusters"},
        item_features=about["item_features"],
        item_clusters=about["item_clusters"],
        **options,
    )
    for group in ("drama", 1, 2):
        mask = np.array([group in own for own in about["item_features"]])
        assert_is_group(result, "genre", str(group), weft.evaluate(SCORES, TRUTH * mask, **options))
    outside = np.array([not own for own in about["item_features"]])
    assert result.counts["relevant_outside_genre"] == np.count_nonzero(TRUTH * outside)
    assert any("are in no group of the item slice 'genre'" in note for note in result.notes)
    assert not any("no metric of this run uses it" in note for note in result.notes)


def test_numbers_of_items_are_cut():
    years = {item: 1990 + item for item in range(ITEMS) if item != 3}
    options = {"metrics": ["Recall@5"], **BY_POSITION}
    result = weft.evaluate(
        SCORES, TRUTH, item_slices={"year": {"of": years, "by": "bins(2000, 2010)"}}, **options
    )
    masks = {
        "up to 1999": [item < 10 and item != 3 for item in range(ITEMS)],
        "2000 to 2009": [10 <= item < 20 for item in range(ITEMS)],
        "2010 and more": [item >= 20 for item in range(ITEMS)],
    }
    assert result.slice("year")["group"].to_list() == list(masks)
    for group, mask in masks.items():
        assert_is_group(
            result, "year", group, weft.evaluate(SCORES, TRUTH * np.array(mask), **options)
        )
    assert result.counts["relevant_outside_year"] == np.count_nonzero(TRUTH[:, 3])


def test_a_group_without_relevant_items_is_undefined():
    labels = {**dict.fromkeys(range(ITEMS), "all"), 7: "none"}
    truth = TRUTH.copy()
    truth[:, 7] = 0
    result = weft.evaluate(
        SCORES, truth, metrics="MRR@5", item_slices={"label": labels}, **BY_POSITION
    )
    row = group_rows(result, "label", "none")["MRR@5"]
    assert math.isnan(row["value"]) and row["users"] == 0
    assert_is_group(
        result, "label", "all", weft.evaluate(SCORES, truth, metrics="MRR@5", **BY_POSITION)
    )


def test_metrics_without_values_are_named():
    result = weft.evaluate(
        SCORES,
        TRUTH,
        metrics=["nDCG", "ItemCoverage", "RMSE(average=users)", "ARP"],
        top_k=3,
        train=TRAIN,
        item_slices={"label": LABELS},
        **BY_POSITION,
    )
    assert set(result.slices["metric"]) == {"nDCG"}
    (note,) = [note for note in result.notes if "have no values in item slices" in note]
    assert note.startswith("ItemCoverage, RMSE(average=users), ARP have")


def test_slices_of_users_and_of_items_stand_side_by_side():
    groups = ["young" if user % 3 else "old" for user in range(USERS)]
    options = {"metrics": ["nDCG", "GAUC(weight=positives)"], "top_k": [2, 5], **BY_POSITION}
    both = weft.evaluate(
        SCORES, TRUTH, slices={"age": groups}, item_slices={"label": LABELS}, **options
    )
    users = weft.evaluate(SCORES, TRUTH, slices={"age": groups}, **options)
    items = weft.evaluate(SCORES, TRUTH, item_slices={"label": LABELS}, **options)
    assert_frame_equal(both.slices, pl.concat([users.slices, items.slices]))


# --------------------------------------------------------------------------------------------------
# Time

MINUTES = DRAW.integers(0, 400 * 24 * 60, (USERS, ITEMS))
START = np.datetime64("2023-11-20T00:00", "m")
TIMED = pl.DataFrame(
    [
        (user, item, float(TRUTH[user, item]), (START + MINUTES[user, item]).item())
        for user, item in zip(*map(np.ndarray.tolist, np.nonzero(TRUTH)))
    ],
    schema={"user": pl.Int64, "item": pl.Int64, "rating": pl.Float64, "timestamp": pl.Datetime},
    orient="row",
)
SECONDS = pl.col("timestamp").dt.epoch("s")
FORMS = {
    "datetime": pl.col("timestamp"),
    "zone": pl.col("timestamp").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"),
    "seconds": SECONDS,
    "milliseconds": SECONDS * 1000,
    "microseconds": SECONDS * 1_000_000,
    "nanoseconds": SECONDS * 1_000_000_000,
    "floats": SECONDS.cast(pl.Float64),
    "text": pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S"),
    "numbers as text": SECONDS.cast(pl.String),
}
PERIODS = {
    "time(month)": lambda time: f"{time:%Y-%m}",
    "time(year)": lambda time: f"{time:%Y}",
    "time(hour)": lambda time: f"{time:%H}:00",
    "time(weekday)": lambda time: f"{time:%A}",
    "time(2024-01-01, 2024-06-01)": lambda time: (
        "before 2024-01-01"
        if time.year < 2024
        else "2024-01-01 to before 2024-06-01"
        if time.month < 6
        else "2024-06-01 and later"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_time_is_that_of_each_interaction(form):
    truth = TIMED.with_columns(FORMS[form])
    rules = PERIODS if form == "datetime" else {"time(month)": PERIODS["time(month)"]}
    options = {"metrics": ["nDCG@5"], **BY_POSITION}
    result = weft.evaluate(SCORES, truth, item_slices={rule: rule for rule in rules}, **options)
    for rule, name_period in rules.items():
        periods = [name_period(time) for time in TIMED["timestamp"]]
        assert set(result.slice(rule)["group"]) == set(periods)
        for group in set(periods):
            own = TIMED.filter(pl.Series([period == group for period in periods]))
            assert_is_group(result, rule, group, weft.evaluate(SCORES, own, **options))
    months = result.slice("time(month)")["group"].to_list()
    assert months == sorted(months)


def test_interactions_without_a_time_are_in_no_group():
    truth = TIMED.with_columns(
        pl.when(pl.int_range(pl.len()) % 4 == 0)
        .then(None)
        .otherwise("timestamp")
        .alias("timestamp")
    )
    result = weft.evaluate(
        SCORES, truth, metrics="MRR@5", item_slices={"month": "time(month)"}, **BY_POSITION
    )
    assert result.counts["relevant_outside_month"] == truth["timestamp"].null_count()


def test_times_of_files(tmp_path):
    lists = pl.DataFrame(
        [(user, item, score) for user, row in LISTS.items() for item, score in row.items()],
        schema=["user", "item", "score"],
        orient="row",
    )
    expected = weft.evaluate(lists, TIMED, metrics="MRR@5", item_slices={"m": "time(month)"})
    TIMED.write_csv(tmp_path / "truth.csv")
    TIMED.with_columns(SECONDS.alias("timestamp")).write_parquet(tmp_path / "truth.parquet")
    for name in ("truth.csv", "truth.parquet"):
        result = weft.evaluate(
            lists, tmp_path / name, metrics="MRR@5", item_slices={"m": "time(month)"}
        )
        assert_frame_equal(result.slices, expected.slices)


def test_skipped_users_keep_the_groups_of_the_others():
    lists = {**LISTS, **{user + 100: LISTS[user] for user in range(5)}}
    lists = dict(sorted(lists.items(), key=lambda one: one[0] % 7))  # extra users in between
    train = pl.DataFrame(
        [(int(user), int(item)) for user, item in zip(*np.nonzero(TRAIN))],
        schema=["user", "item"],
        orient="row",
    )
    options = {
        "metrics": "nDCG@5",
        "train": train,
        "item_slices": {"m": "time(month)", "r": "targets", "label": dict(enumerate(LABELS))},
    }
    skipped = weft.evaluate(lists, TIMED, extra_users="skip", **options)
    assert skipped.counts["users_without_truth"] == 5
    assert_frame_equal(skipped.slices, weft.evaluate(LISTS, TIMED, **options).slices)


# --------------------------------------------------------------------------------------------------
# Other ways to evaluate

SLICES = {"label": LABELS, "tail": "head_tail", "repeat": "targets", "genre": "item_features"}
ABOUT = {"item_features": make_labels(USERS, ITEMS)["item_features"]}
EVALUATED = weft.evaluate(
    SCORES,
    TRUTH,
    metrics=ACCURACY,
    top_k=[1, 5],
    train=TRAIN,
    mask_seen=False,
    item_slices=SLICES,
    **ABOUT,
    **BY_POSITION,
)


def make_evaluator(**more):
    return weft.Evaluator(
        ACCURACY, [1, 5], train=TRAIN, mask_seen=False, item_slices=SLICES, **ABOUT, **more
    )


def add_batches(evaluator, users=range(USERS)):
    for rows in torch.tensor(list(users)).split(7):
        evaluator.update(torch.tensor(SCORES)[rows], torch.tensor(TRUTH)[rows], rows)


@pytest.mark.parametrize("is_device", [False, True])
def test_batches_give_the_same_values(is_device):
    evaluator = make_evaluator()
    if is_device:
        with treat_cpu_as_device():
            add_batches(evaluator)
            result = evaluator.compute()
    else:
        add_batches(evaluator)
        result = evaluator.compute()
    assert_frame_equal(result.slices, EVALUATED.slices)
    assert result.counts["relevant_outside_label"] == EVALUATED.counts["relevant_outside_label"]


@pytest.mark.parametrize("targets", ["new", "repeated"])
@pytest.mark.parametrize("is_device", [False, True])
def test_targets_of_batches(targets, is_device):
    expected = weft.evaluate(
        SCORES,
        TRUTH,
        metrics=["nDCG", "RMSE", "GAUC"],
        top_k=5,
        train=TRAIN,
        mask_seen=False,
        targets=targets,
        **BY_POSITION,
    )
    evaluator = weft.Evaluator(
        ["nDCG", "RMSE", "GAUC"], 5, train=TRAIN, mask_seen=False, targets=targets
    )
    if is_device:
        with treat_cpu_as_device():
            add_batches(evaluator)
            result = evaluator.compute()
    else:
        add_batches(evaluator)
        result = evaluator.compute()
    assert [one.value for one in result.entries] == pytest.approx(
        [one.value for one in expected.entries]
    )
    left_out = np.count_nonzero(TRUTH * (int(targets == "new") == TRAIN))
    assert result.counts["truth_outside_targets"] == left_out
    assert expected.counts["truth_outside_targets"] == left_out
    relation = "in" if targets == "new" else "not in"
    note = f"{left_out} interactions of the truth are {relation} their user's train"
    assert any(text.startswith(note) for text in expected.notes)


def test_states_are_saved_and_merged(tmp_path):
    paths = []
    for part in (range(17), range(17, USERS)):
        evaluator = make_evaluator()
        add_batches(evaluator, part)
        paths.append(weft.save_state(evaluator, tmp_path / f"{part.start}.state"))
    assert_frame_equal(weft.merge_states(paths).slices, EVALUATED.slices)
    loaded = weft.load_state(paths[0])
    add_batches(loaded, range(17, USERS))
    assert_frame_equal(loaded.compute().slices, EVALUATED.slices)
    other = weft.Evaluator(
        ACCURACY,
        [1, 5],
        train=TRAIN,
        mask_seen=False,
        item_slices={**SLICES, "label": LABELS[::-1]},
        **ABOUT,
    )
    with pytest.raises(SettingError, match="differ in item_slices"):
        weft.load_state(paths[0], other)


def test_repeated_users_are_dropped():
    evaluator = make_evaluator(repeated_users="drop")
    add_batches(evaluator)
    add_batches(evaluator, range(10, 20))
    assert_frame_equal(evaluator.compute().slices, EVALUATED.slices)


def test_bootstrap_is_not_changed():
    options = {"metrics": ["nDCG", "Gini"], "top_k": 5, "bootstrap": 20, **BY_POSITION}
    found = weft.evaluate(SCORES, TRUTH, item_slices={"label": LABELS}, **options)
    plain = weft.evaluate(SCORES, TRUTH, **options)
    assert_frame_equal(found.to_frame(), plain.to_frame())


def test_prepared_evaluations_share_the_groups():
    options = {"metrics": ["nDCG@5"], "train": TRAIN, "item_slices": SLICES, **ABOUT, **BY_POSITION}
    prepared = weft.prepare(TRUTH, **options)
    for scores in (SCORES, -SCORES):
        expected = weft.evaluate(scores, TRUTH, **options)
        assert_frame_equal(prepared.evaluate(scores).slices, expected.slices)


@pytest.mark.parametrize("targets", ["all", "new", "repeated"])
def test_partitions_give_the_same_slices(targets):
    frames = {
        name: pl.DataFrame(
            [(f"u{u}", f"i{i}", float(table[u, i])) for u, i in zip(*np.nonzero(table))],
            schema=["user", "item", "rating"],
            orient="row",
        )
        for name, table in {"truth": TRUTH, "train": TRAIN}.items()
    }
    lists = pl.DataFrame(
        [(f"u{u}", f"i{i}", score) for u, row in LISTS.items() for i, score in row.items()],
        schema=["user", "item", "score"],
        orient="row",
    )
    options = {
        "metrics": ["nDCG", "MAP", "ItemCoverage"],
        "top_k": [1, 5],
        "train": frames["train"],
        "targets": targets,
        "item_features": {f"i{i}": one for i, one in enumerate(ABOUT["item_features"])},
        "item_slices": {
            "label": {f"i{i}": label for i, label in enumerate(LABELS)},
            "tail": "head_tail",
            "popularity": "quantiles(3)",
            "repeat": "targets",
            "genre": "item_features",
            "number": {"of": {f"i{i}": i for i in range(ITEMS)}, "by": "bins(10, 20)"},
        },
    }
    found = evaluate_in_partitions(lists, frames["truth"], **options)
    expected = weft.evaluate(lists, frames["truth"], **options)
    assert_frame_equal(found.slices, expected.slices)
    assert found.settings == expected.settings
    assert (found.counts, found.notes) == (expected.counts, expected.notes)
    options["item_slices"] = {"m": "time(month)"}
    with pytest.raises(SettingError, match="by time is supported only in one process"):
        evaluate_in_partitions(lists, frames["truth"], **options)


# --------------------------------------------------------------------------------------------------
# Command line, YAML and tables


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files of the evaluation, ids as text."""
    monkeypatch.chdir(tmp_path)
    ids = pl.col("user", "item").cast(pl.String)
    TIMED.with_columns(ids).write_csv("truth.csv")
    pairs = [(u, i) for u, i in zip(*map(np.ndarray.tolist, np.nonzero(TRAIN)))]
    train = pl.DataFrame(pairs, schema=["user", "item"], orient="row").with_columns(ids)
    train.write_csv("train.csv")
    rows = [(u, i, score) for u, row in LISTS.items() for i, score in row.items()]
    lists = pl.DataFrame(rows, schema=["user", "item", "score"], orient="row").with_columns(ids)
    lists.write_csv("als.csv")
    labels = [(str(i), label) for i, label in enumerate(LABELS) if label is not None]
    pl.DataFrame(labels, schema=["item", "label"], orient="row").write_csv("labels.csv")
    years = [(str(i), 1990 + i) for i in range(ITEMS)]
    pl.DataFrame(years, schema=["item", "label"], orient="row").write_csv("years.csv")
    return tmp_path


FILE_SLICES = {
    "tail": "head_tail",
    "popularity": "quantiles(3)",
    "repeat": "targets",
    "month": "time(month)",
    "label": "labels.csv",
    "cluster": "item_clusters",
    "year": {"of": "years.csv", "by": "bins(2000, 2010)"},
}


@pytest.mark.parametrize("targets", ["all", "new", "repeated"])
def test_command_line_and_yaml_give_the_same_slices(folder, targets):
    expected = weft.evaluate(
        "als.csv",
        "truth.csv",
        train="train.csv",
        item_clusters="labels.csv",
        metrics=["nDCG", "MRR"],
        top_k=5,
        targets=targets,
        item_slices=FILE_SLICES,
    )
    assert set(expected.slices["slice"]) == set(FILE_SLICES)
    flags = [f"{name}={rule}" for name, rule in FILE_SLICES.items() if isinstance(rule, str)]
    flags.append("year=bins(2000, 2010) of years.csv")
    words = [
        "evaluate",
        "--recs",
        "als.csv",
        "--truth",
        "truth.csv",
        "--train",
        "train.csv",
        "-m",
        "nDCG,MRR",
        "-k",
        "5",
    ]
    words += ["--item-clusters", "labels.csv", "--targets", targets, "--out", "flags"]
    words += [word for flag in flags for word in ("--item-slice", flag)]
    (folder / "run.yaml").write_text(
        "data: {truth: truth.csv, train: train.csv, item_clusters: labels.csv}\n"
        "models: {als: als.csv}\n"
        f"evaluation: {{metrics: [nDCG, MRR], top_k: 5, targets: {targets}, item_slices: "
        f"{json.dumps(FILE_SLICES)}}}\n"
    )
    for arguments, out in ((words, "flags"), (["evaluate", "run.yaml", "--out", "yaml"], "yaml")):
        done = run_weft(arguments)
        assert done.code == 0, done.output
        assert "als by year" in done.output and "als by month" in done.output
        result = weft.load_result(folder / out / "als.json")
        assert_frame_equal(result.slices, expected.slices)
        assert result.settings["item_slices"] == expected.settings["item_slices"]
        assert len(pl.read_csv(folder / out / "slices.csv")) == len(expected.slices)
        plain = result.provenance["configuration"]["evaluation"]
        assert plain["item_slices"]["tail"] == "head_tail"
        assert plain.get("targets", "all") == targets


def test_a_wrong_option_is_refused(folder):
    words = [
        "evaluate",
        "--recs",
        "als.csv",
        "--truth",
        "truth.csv",
        "-m",
        "nDCG",
        "-k",
        "5",
        "--item-slice",
    ]
    for rule, message in {
        "tail": "--item-slice tail: expected NAME=GROUPS",
        "tail=head_tail": "needs --train FILE",
        "price=quantiles(4)": "is not a known number of items",
    }.items():
        done = run_weft([*words, rule])
        assert done.code == 2 and message in " ".join(done.output.split()), done.output


def test_gates_read_item_slices(folder):
    words = ["evaluate", "--recs", "als.csv", "--truth", "truth.csv", "--train", "train.csv"]
    words += ["-m", "nDCG", "-k", "5", "--item-slice", "tail=head_tail", "--per-user"]
    done = run_weft([*words, "--out", "first"])
    assert done.code == 0, done.output
    value = weft.load_result(folder / "first" / "als.json").slice("tail")["value"][1]
    low, high, file = f"{value - 0.01:.6f}", f"{value + 0.01:.6f}", "first/als.json"
    for gate, code in {
        f"nDCG@5[tail=tail] >= {low}": 0,
        f"nDCG@5[tail=tail] >= {high}": 1,
        f"nDCG@5[tail=tail] >= {file}": 0,
        f"nDCG@5[tail=tail] not worse than {file} by 1%": 1,
        "nDCG@5[tial=tail] >= 0": 2,
    }.items():
        done = run_weft([*words, "--gate", gate, "--out", "second"])
        assert done.code == code, (gate, done.output)
        if "not worse" in gate:
            assert "slice of relevant items" in " ".join(done.output.split())


def test_reports_show_item_slices():
    text = html.unescape(EVALUATED.to_html())
    assert "item_slices={'label': labels, 'tail': 'head_tail(0.8)'" in text
    assert "relevant items without a group in the item slice label" in text


# --------------------------------------------------------------------------------------------------
# Errors and notes


@pytest.mark.parametrize(
    ("slices", "kind", "message"),
    [
        ({"tail": "head_tail"}, MissingInput, "needs train"),
        ({"r": "targets"}, MissingInput, "needs train"),
        ({"popularity": "bins(3)"}, MissingInput, "needs train"),
        ({"tail": "head_tail(1.5)"}, SettingError, "above 0 and at most 1"),
        ({"tail": "head_tail(x)"}, SettingError, "above 0 and at most 1"),
        ({"price": "quantiles(4)"}, SettingError, "is not a known number of items"),
        ({"m": "tme(month)"}, SettingError, "time"),
        ({"m": "time(mnth)"}, SettingError, "month"),
        ({"m": "time(2024-06-01, 2024-01-01)"}, SettingError, "ascending"),
        ({"m": "time(month)"}, MissingInput, "has no timestamps"),
        ({"g": "item_features"}, MissingInput, "needs item_features"),
        ({"g": "none.csv"}, InputError, "none.csv"),
        ({"": LABELS}, SettingError, "expected a string"),
        ({"g": {"of": {0: "x"}, "by": "bins(3)"}}, InputError, "number for each item"),
        ({"g": {i: f"label {i}" for i in range(2000)}}, InputError, None),
        ([LABELS], SettingError, "expected {name: labels of items"),
    ],
)
def test_wrong_item_slices_are_refused(slices, kind, message):
    scores, truth = np.zeros((1, 2000)), np.ones((1, 2000))
    with pytest.raises(kind, match=message or "2,000 groups"):
        weft.evaluate(scores, truth, metrics="MRR@1", item_slices=slices, **BY_POSITION)


def test_names_are_unique_and_batches_have_no_times():
    with pytest.raises(SettingError, match="both have the name 'a'"):
        weft.evaluate(
            SCORES,
            TRUTH,
            metrics="MRR@1",
            slices={"a": ["x"] * USERS},
            item_slices={"a": LABELS},
            **BY_POSITION,
        )
    with pytest.raises(SettingError, match="batches have no timestamps"):
        weft.Evaluator("MRR", 1, item_slices={"m": "time(month)"})
    evaluator = weft.Evaluator("MRR", 1, item_slices={"a": LABELS})
    with pytest.raises(InputError, match=f"num_items={ITEMS}"):
        evaluator.update(torch.zeros(1, ITEMS + 1), torch.ones(1, ITEMS + 1))
    evaluator = weft.Evaluator("MRR", 1, train=TRAIN, mask_seen=False, targets="new")
    with pytest.raises(InputError, match="needs user_indices"):
        evaluator.update(torch.zeros(1, ITEMS), torch.ones(1, ITEMS))


@pytest.mark.parametrize("text", ["2024-13-01", "soon"])
def test_text_that_is_no_time_is_refused(text):
    truth = pl.DataFrame({"user": [0], "item": [1], "timestamp": [text]})
    with pytest.raises(InputError, match=text):
        weft.evaluate(
            SCORES, truth, metrics="MRR@1", item_slices={"m": "time(month)"}, **BY_POSITION
        )


def test_targets_need_train_and_repeated_ones_a_ranking_with_them():
    options = {"metrics": "MRR@1", **BY_POSITION}
    with pytest.raises(MissingInput, match="train"):
        weft.evaluate(SCORES, TRUTH, targets="new", **options)
    for mask_seen in ("auto", True):
        with pytest.raises(SettingError, match="there could be no hits"):
            weft.evaluate(
                SCORES, TRUTH, train=TRAIN, targets="repeated", mask_seen=mask_seen, **options
            )
    with pytest.raises(SettingError, match="targets"):
        weft.evaluate(SCORES, TRUTH, train=TRAIN, targets="old", **options)
    with pytest.raises(SettingError, match="sampled negative"):
        weft.evaluate(
            SCORES,
            TRUTH,
            strategy="sampled",
            estimator="rank_estimate",
            item_slices={"a": LABELS},
            **options,
        )
    result = weft.evaluate(SCORES, TRUTH, train=TRAIN, item_slices={"repeat": "targets"}, **options)
    assert any("cannot be hit; mask_seen=False keeps them" in note for note in result.notes)
    assert group_rows(result, "repeat", "repeated")["MRR@1"]["value"] == 0


def test_results_with_other_targets_are_not_comparable():
    options = {"metrics": "MRR@1", "train": TRAIN, "per_user": True, **BY_POSITION}
    both = [
        replace(weft.evaluate(SCORES, TRUTH, targets=targets, **options), name=targets)
        for targets in ("all", "new")
    ]
    assert both[0].settings.get("targets") is None and both[1].settings["targets"] == "new"
    comparison = weft.compare(both)
    assert any("targets" in note for note in comparison.notes)
