"""Evaluation of partitions of the users matches one process."""

import json
import pickle
import re

import numpy as np
import polars as pl
import polars.testing
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis.extra.numpy import arrays
from hypothesis.strategies import floats, integers

import weft
from local_engine import PickledPartitions, assert_same, evaluate, make_lists, split
from metric_cases import (
    BUILT_IN,
    VARIANTS,
    FarOff,
    FirstHalf,
    Keeper,
    ScoreRange,
    has_trait,
    make_labels,
)
from weft.data import Interactions, Vocabulary
from weft.data.interactions import hash_rows, hash_sums_by_id
from weft.engines.partitioned import order_statistics
from weft.engines.partitioned.driver import evaluate_partitions, take_user_inputs
from weft.engines.partitioned.partitions import InputOrigin
from weft.errors import InputError
from weft.evaluation.api import bind_arguments
from weft.metrics import registry

USERS, ITEMS = 60, 40
generator = np.random.default_rng(9)
SCORES, LISTS, TRUTH = make_lists(generator, USERS, ITEMS)
TRAIN = pl.DataFrame(
    [
        (user, int(item))
        for user in range(0, USERS + 20, 1)
        for item in generator.choice(ITEMS - 5, 1 + user % 7)
    ],  # may repeat
    schema=["user", "item"],
    orient="row",
)
GROUPS = dict(enumerate(make_labels(USERS + 30, ITEMS)["user_groups"]))
CLUSTERS = dict(enumerate(make_labels(USERS, ITEMS)["item_clusters"]))
FEATURES = dict(enumerate(make_labels(USERS, ITEMS)["item_features"]))
LABELS = {"user_groups": GROUPS, "item_clusters": CLUSTERS, "item_features": FEATURES}
OF_LISTS = [name for name in BUILT_IN if not has_trait(name, "needs_all_scores")]
SLICES = {
    "parity": {user: "odd" if user % 2 else "even" for user in range(USERS)},
    "activity": "quantiles(3)",
    "item_popularity": "quantiles(4)",
    "age": {"of": {user: float(user % 17) / 2 for user in range(USERS + 3)}, "by": "quantiles(5)"},
    "bins": {"of": {user: user % 11 for user in range(USERS)}, "by": "bins(3, 7)"},
    "large": {"of": {user: 1234560 + user for user in range(USERS)}, "by": "bins(1234567)"},
}

# Users without items in the lists, in the truth and in train, alone and together; user 11 is in
# nothing but an empty row of train.
EMPTY_TRAIN = {0: [1, 2], 1: [], 2: [3], 4: [], 5: [1], 7: [4, 2], 8: [], 11: [], 12: [2]}
WITH_EMPTY_ROWS = (
    {0: {3: 0.5, 4: 0.2}, 1: {1: 0.3, 2: 0.3}, 2: {}, 3: {2: 0.9}, 4: {4: 1.0, 1: 0.5}, 5: {}},
    {0: {4: 2}, 1: {2: 1, 3: 0}, 2: {1: 1}, 3: {}, 4: {1: 3}, 6: {}, 7: {3: 1}, 8: {5: 1}},
)
WITH_EMPTY_TRAIN = {
    "train": EMPTY_TRAIN,
    **{name: {id_: labels[id_] for id_ in range(14)} for name, labels in LABELS.items()},
    "items": list(range(14)),
    "slices": {"parity": {user: str(user % 2) for user in range(14)}, "activity": "quantiles(2)"},
}


class Prices(weft.UserAverageTopKMetric):
    """The prices of the hits, summed."""

    def __init__(self, k, *, prices, **settings):
        super().__init__(k, **settings)
        self.prices = prices

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        (prices,) = self.prices if isinstance(self.prices, (list, tuple)) else [self.prices]
        items = kwargs[f"top_{self.k}_indices"].clamp(min=0)
        return (top_k_rel * torch.as_tensor(prices)[items]).sum(1)


def both(source, truth, parts=3, **settings):
    assert_same(
        evaluate(source, truth, parts=parts, **settings), weft.evaluate(source, truth, **settings)
    )


@pytest.mark.slow
def test_more_partitions_than_users():
    both(
        LISTS,
        TRUTH,
        100,
        metrics=["nDCG", "Gini", "UserMADRanking"],
        top_k=[3, 8],
        train=TRAIN,
        user_groups=GROUPS,
        slices=SLICES,
    )


@pytest.mark.parametrize("parts", [1, 3])
def test_all_metrics_of_lists_match_one_process(parts):
    both(
        LISTS,
        TRUTH,
        parts,
        metrics=OF_LISTS,
        top_k=[3, 8],
        train=TRAIN,
        **LABELS,
        slices=SLICES,
        per_user=True,
        exposure=True,
    )


@pytest.mark.parametrize("order", ["score", "rank", "rows"])
@pytest.mark.parametrize("ties", ["index", "random", "expected", "pessimistic", "optimistic"])
def test_tie_rules_and_orders_match_one_process(order, ties):
    lists = LISTS.with_columns(rank=pl.col("score").rank("ordinal").over("user")).sort(
        "user", "rank"
    )
    lists = {
        "score": LISTS,
        "rank": lists.select("user", "item", "rank"),
        "rows": lists.select("user", "item"),
    }[order]
    both(lists, TRUTH, metrics=["nDCG", "MAP", "Gini"], top_k=[2, 5], ties=ties, seed=3)


@pytest.mark.parametrize(
    "profile", ["warprec", "elliot", "trec_eval", "ranx", "recbole", "rectools"]
)
def test_profiles_match_one_process(profile):
    both(LISTS, TRUTH, metrics=["nDCG", "Recall", "MRR"], top_k=[2, 5], profile=profile)


def test_metric_variants_match_one_process():
    variants = [name for name in VARIANTS if not has_trait(name, "needs_all_scores")]
    variants = [name for name in variants if "cooccurrence" not in name]
    both(LISTS, TRUTH, metrics=variants, top_k=[3], train=TRAIN, **LABELS)


def test_refuses_cooccurrence_in_the_train_of_all_users():
    with pytest.raises(weft.errors.SettingError, match="needs the train interactions of"):
        evaluate(LISTS, TRUTH, parts=3, metrics="ILD(distance=cooccurrence)@3", train=TRAIN)


def test_bootstrap_of_all_metrics_matches_one_process():
    both(LISTS, TRUTH, 5, metrics=OF_LISTS, top_k=[3], train=TRAIN, **LABELS, bootstrap=40, seed=5)


def test_skipped_users_without_truth_match_one_process():
    both(
        LISTS,
        TRUTH,
        3,
        metrics=OF_LISTS,
        top_k=[3],
        train=TRAIN,
        **LABELS,
        extra_users="skip",
        bootstrap=20,
        slices={"activity": "quantiles(3)"},
        per_user=True,
        exposure=True,
    )


def test_bootstrap_of_means_matches_one_process():
    both(
        LISTS,
        TRUTH,
        4,
        metrics=["nDCG", "RMSE(average=users)", "GAUC(weight=positives)"][:2],
        top_k=[3, 9],
        bootstrap=30,
    )


def test_bootstrap_with_a_grouped_jackknife_matches_one_process():
    users = 500
    lists = {user: generator.choice(30, 5, False).tolist() for user in range(users)}
    truth = {user: generator.choice(30, 3, False).tolist() for user in range(users)}
    both(lists, truth, 3, metrics=["Gini", "nDCG"], top_k=5, bootstrap=20)


@pytest.mark.parametrize(
    "settings",
    [
        {"strategy": "sampled", "num_negatives": 7},
        {
            "strategy": "sampled",
            "num_negatives": 9,
            "negative_sampling": "popularity",
            "train": TRAIN,
        },
        {"candidates": "warm", "train": TRAIN, "mask_seen": True},
        {"candidates": "cold", "train": TRAIN},
        {"candidates": "listed"},
        {"candidates": LISTS.select("user", "item").vstack(TRAIN.select("user", "item"))},
        {"missing_lists": "skip", "empty_users": "zero", "relevance_threshold": 2},
        {"mask_seen": True, "train": TRAIN},
        {"extra_users": "skip", "train": TRAIN},
        {"extra_users": "skip", "strategy": "sampled", "num_negatives": 7, "train": TRAIN},
    ],
)
def test_candidates_match_one_process(settings):
    both(
        LISTS,
        TRUTH,
        metrics=["nDCG", "Recall", "ItemCoverage", "PopRSP"] if "train" in settings else ["nDCG"],
        top_k=5,
        **settings,
    )


def test_rank_estimator_matches_one_process():
    both(
        model,
        TRUTH,
        metrics=["Recall", "nDCG"],
        top_k=5,
        strategy="sampled",
        num_negatives=10,
        estimator="rank_estimate",
        items=list(range(ITEMS)),
    )


def model(users):
    return torch.from_numpy(SCORES[users.numpy()])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"users": list(range(USERS + 6))},
        {"train": TRAIN, "mask_seen": False},
        {"strategy": "sampled"},
    ],
)
def test_models_match_one_process(settings):
    both(
        model,
        TRUTH,
        metrics=["nDCG", "AUC", "GAUC", "ItemCoverage", "RMSE"],
        top_k=5,
        items=list(range(ITEMS)),
        **settings,
        per_user=True,
    )


def text(frame):
    return frame.with_columns(user=pl.format("{}é", "user"), item=pl.format("i{}", "item"))


def test_text_ids_match_one_process():
    clusters = {f"i{item}": label for item, label in CLUSTERS.items()}
    both(
        text(LISTS),
        text(TRUTH),
        4,
        metrics=["nDCG", "Gini", "ItemMADRanking"],
        top_k=5,
        train=text(TRAIN),
        item_clusters=clusters,
        ties="random",
        per_user=True,
        bootstrap=20,
    )


@pytest.mark.parametrize(
    "labels", [(1, 2.5, None), (True, False, None), (1, 2.0, 3), (np.int32(4), np.int32(5), None)]
)
def test_labels_of_any_type_match_one_process(labels):
    groups = {user: labels[user % 3] for user in range(USERS)}
    both(
        LISTS,
        TRUTH,
        metrics=["UserMADRanking", "nDCG"],
        top_k=5,
        user_groups=groups,
        slices={
            "g": pl.DataFrame(
                {"user": list(groups), "label": [str(label) for label in groups.values()]}
            )
        },
    )


def test_users_with_empty_lists_match_one_process():
    lists = {"ann": ["tea", "rye"], "bob": [], "cyd": ["oat"]}
    truth = {"ann": {"rye": 2}, "bob": ["tea"], "dan": [], "eve": ["oat"]}
    for parts in (1, 2, 9):
        both(lists, truth, parts, metrics=["nDCG", "ItemCoverage"], top_k=2, per_user=True)


@pytest.mark.parametrize("parts", [1, 2, 9])
def test_users_without_items_in_train_do_not_count(parts):
    """Whoever counts users of train counts those with interactions, as in one process."""
    both(*WITH_EMPTY_ROWS, parts, metrics=OF_LISTS, top_k=[2, 4], **WITH_EMPTY_TRAIN)
    result = evaluate(*WITH_EMPTY_ROWS, parts=parts, metrics=["EPC@2", "EFD@2"], **WITH_EMPTY_TRAIN)
    rows = {user: row for user, row in WITH_EMPTY_TRAIN["train"].items() if row}
    without = weft.evaluate(
        *WITH_EMPTY_ROWS, metrics=["EPC@2", "EFD@2"], **{**WITH_EMPTY_TRAIN, "train": rows}
    )
    assert result["EPC@2"] == pytest.approx(without["EPC@2"], abs=1e-12)
    assert result["EFD@2"] == pytest.approx(without["EFD@2"], abs=1e-12)


def test_users_without_items_in_a_train_file_do_not_count(tmp_path):
    train = {str(user): dict.fromkeys(map(str, row), 1) for user, row in EMPTY_TRAIN.items()}
    (tmp_path / "train.json").write_text(json.dumps(train))
    both(*WITH_EMPTY_ROWS, metrics=["EPC", "EFD"], top_k=2, train=tmp_path / "train.json")


@pytest.mark.parametrize("settings", [{}, {"users": list(range(12))}])
def test_users_without_items_and_a_model_match_one_process(settings):
    both(
        model,
        WITH_EMPTY_ROWS[1],
        metrics=["EPC", "EFD", "UserCoverage", "nDCG"],
        top_k=3,
        items=list(range(ITEMS)),
        train=EMPTY_TRAIN,
        per_user=True,
        **settings,
    )


def test_duplicates_are_dropped_and_counted():
    twice = pl.concat([LISTS, LISTS.head(9).with_columns(pl.col("score") - 1)])
    both(twice, TRUTH, metrics=["nDCG"], top_k=5, duplicates="keep-best")


def test_custom_metrics_match_one_process():
    both(LISTS, TRUTH, metrics=[FirstHalf(4), FarOff(), ScoreRange(), "nDCG@4"])


def test_metrics_with_arrays_match_one_process():
    """Arrays that are printed alike stay two metrics on the workers, too."""
    first = np.linspace(1, 2, 5000)
    second = np.where(first < 1.1, first + 1e-7, first)
    metrics = [Prices(4, prices=first), Prices(4, prices=second), Prices(4, prices=[second])]
    both(LISTS, TRUTH, metrics=metrics, bootstrap=20)


def test_ignored_ratings_match_one_process():
    truth = TRUTH.with_columns(rating=pl.int_range(len(TRUTH)) * 7.0)
    both(LISTS, truth, metrics=["nDCG", "Recall"], top_k=4, train=TRAIN, implicit=True)
    both(LISTS, truth, metrics=["nDCG(gain=linear)", "Recall"], top_k=4, train=TRAIN)


def test_bootstrap_with_partitions_without_users():
    lists, truth = {"ann": ["a", "b"], "bob": ["b", "c"]}, {"ann": ["a"], "bob": ["c"]}
    settings = {"metrics": ["nDCG", "Gini"], "top_k": 2, "bootstrap": 20}
    alone = weft.evaluate(lists, truth, **settings)
    assert_same(evaluate(lists, truth, **settings, parts=9), alone)
    nobody = {"metrics": "nDCG", "top_k": 2, "bootstrap": 20, "extra_users": "skip"}
    alone = weft.evaluate(lists, {"eve": []}, **nobody)
    assert_same(evaluate(lists, {"eve": []}, **nobody, parts=2), alone)


def test_custom_metrics_by_name_match_one_process():
    weft.register(FirstHalf)
    try:
        both(
            LISTS,
            TRUTH,
            metrics=["FirstHalf", "F1(metric_name_1=FirstHalf, metric_name_2=nDCG)"],
            top_k=4,
        )
    finally:
        registry._classes.pop("firsthalf")


# --------------------------------------------------------------------------------------------------


def error_of(work):
    with pytest.raises(weft.WeftError) as caught:
        work()
    return type(caught.value), str(caught.value)


def changed(frame, row, **values):
    """The frame with other values in one row."""
    number = pl.int_range(len(frame))
    return frame.with_columns(
        **{
            name: pl.when(number == row).then(pl.lit(value)).otherwise(pl.col(name))
            for name, value in values.items()
        }
    )


@pytest.mark.parametrize(
    ("source", "truth", "settings"),
    [
        (changed(LISTS, 7, score=float("nan")), TRUTH, {}),
        (pl.concat([LISTS, LISTS[5:6]]), TRUTH, {}),
        (LISTS, pl.concat([TRUTH, TRUTH[5:6]]), {}),
        (LISTS, changed(TRUTH, 7, rating=-3.0), {}),
        (LISTS, changed(TRUTH, 7, item=77), {"items": list(range(ITEMS))}),
        (LISTS.with_columns(rank=pl.lit(1.0)).filter(pl.col("user") == 5).head(2), TRUTH, {}),
    ],
)
def test_errors_of_rows_match_one_process(source, truth, settings):
    """But for the number of a row, which nobody knows any more."""
    here = error_of(lambda: weft.evaluate(source, truth, metrics="nDCG", top_k=5, **settings))
    there = error_of(lambda: evaluate(source, truth, metrics="nDCG", top_k=5, **settings))
    assert there[0] is here[0]
    assert re.sub(r"  row \d+:", "  a row:", there[1]) == re.sub(r"  row \d+:", "  a row:", here[1])


@pytest.mark.parametrize(
    ("source", "truth", "settings"),
    [
        (LISTS, text(TRUTH), {}),
        (text(LISTS).with_columns(user=LISTS["user"]), TRUTH, {}),
        (LISTS, TRUTH, {"train": text(TRAIN)}),
        (LISTS.with_columns(pl.col("user").cast(pl.Float64)), TRUTH, {}),
        (LISTS, TRUTH, {"metrics": "nDGC"}),
        (LISTS, TRUTH, {"metrics": "EPC"}),
        (LISTS, TRUTH, {"metrics": "AUC"}),
        (
            LISTS.select("user", "item").with_columns(
                rank=pl.int_range(len(LISTS)).cast(pl.Float64)
            ),
            TRUTH,
            {"metrics": "RMSE"},
        ),
        (LISTS, TRUTH, {"ties": "coin"}),
        (LISTS, TRUTH, {"users": [1, 2]}),
        (LISTS, TRUTH, {"users": "positions"}),
        (LISTS, TRUTH, {"items": "positions"}),
        (model, TRUTH, {"users": "positions", "items": list(range(ITEMS))}),
        (LISTS, TRUTH, {"strategy": "sampled", "num_negatives": 0}),
        (LISTS, TRUTH, {"slices": {"activity": "quantiles(3)"}}),
        (LISTS, TRUTH, {"slices": {"age": "quantiles(3)"}}),
        (LISTS, TRUTH, {"metrics": "ItemMADRanking", "item_clusters": {0: {"a": 1}}}),
        (model, TRUTH, {"candidates": "listed", "items": list(range(ITEMS))}),
    ],
)
def test_errors_of_settings_match_one_process(source, truth, settings):
    settings = {"metrics": "nDCG", "top_k": 5, **settings}
    here = error_of(lambda: weft.evaluate(source, truth, **settings))
    there = error_of(lambda: evaluate(source, truth, **settings))
    assert there[0] is here[0]
    assert re.sub(r" \([^()]*\)", "", there[1]) == re.sub(
        r" \([^()]*\)", "", here[1]
    )  # other examples of the ids


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"checkpoint": "here"}, "checkpoint= is supported only in one process"),
        ({"train": np.ones((3, 3))}, "train is a matrix"),
        ({"metrics": "AUC(scope=pooled)", "candidates": "listed"}, "keeps data of every row"),
        ({"metrics": [Keeper(3)]}, "Keeper@3 keeps data of every row"),
        ({"user_groups": ["a", "b"]}, "have no order"),
        ({"user_groups": {1: "a", 2: 3}}, "numbers and strings as labels, such as 3 and 'a'"),
    ],
)
def test_rejects_unsupported_settings(settings, words):
    with pytest.raises(weft.WeftError, match=re.escape(words)):
        evaluate(LISTS, TRUTH, **{"metrics": "nDCG", "top_k": 5, **settings})


def test_errors_show_rows_without_ids():
    for name, frames in (
        ("source", (changed(LISTS, 3, user=None), TRUTH)),
        ("truth", (LISTS, changed(TRUTH, 3, item=None))),
    ):
        frames = [frame.with_columns(pl.col("user", "item").cast(pl.Int64)) for frame in frames]
        with pytest.raises(
            InputError, match=rf"(?s)^{name} has no (user|item) id in .*row.*Every row needs one"
        ):
            in_parts(*frames, metrics="nDCG", top_k=5)


def in_parts(lists, truth, **settings):
    """As an engine does that reads the frames itself."""
    _, arguments, positions = take_user_inputs(
        bind_arguments(lists, truth, settings), has_lists=True, engine="the test"
    )
    origins = {
        "source": InputOrigin("source", columns=("user", "item", "score")),
        "truth": InputOrigin("truth", columns=("user", "item", "rating")),
    }
    partitions = split({"source": lists, "truth": truth}, 4)
    return evaluate_partitions(partitions, origins, arguments, positions, engine="the test")[0]


def test_errors_of_several_partitions_are_one_error():
    error = error_of(
        lambda: in_parts(
            LISTS.with_columns(score=pl.lit(float("inf"))), TRUTH, metrics="nDCG", top_k=5
        )
    )
    assert error[1].startswith("source has scores that are not finite numbers:\n  a row: user")
    assert error[1].endswith(
        "3 other partitions of the users also failed; their errors are not shown."
    )


def test_users_and_items_without_matches():
    others = TRUTH.with_columns(pl.col("user") + 1000)
    assert_same(
        evaluate(LISTS, others, metrics="nDCG", top_k=5),
        weft.evaluate(LISTS, others, metrics="nDCG", top_k=5),
    )
    others = TRUTH.with_columns(pl.col("item") + 1000)
    assert_same(
        evaluate(LISTS, others, metrics="nDCG", top_k=5),
        weft.evaluate(LISTS, others, metrics="nDCG", top_k=5),
    )


def test_rejects_files_without_common_ids(tmp_path):
    LISTS.write_csv(tmp_path / "lists.csv")
    TRUTH.with_columns(pl.col("user") + 1000).write_csv(tmp_path / "users.csv")
    TRUTH.with_columns(pl.col("item") + 1000).write_csv(tmp_path / "items.csv")
    TRUTH.clear().write_csv(tmp_path / "empty.csv")
    for name in ("users.csv", "items.csv", "empty.csv"):
        settings = {
            "source": tmp_path / "lists.csv",
            "truth": tmp_path / name,
            "metrics": "nDCG",
            "top_k": 5,
        }
        assert error_of(lambda settings=settings: evaluate(**settings)) == error_of(
            lambda settings=settings: weft.evaluate(**settings)
        )
    TRUTH.write_csv(tmp_path / "truth.csv")
    both(tmp_path / "lists.csv", tmp_path / "truth.csv", metrics="nDCG", top_k=5)


# --------------------------------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch):
    """As if nothing but a few numbers could come to one place."""
    monkeypatch.setattr(order_statistics, "_MAX_COLLECTED", 3)
    monkeypatch.setattr(order_statistics, "_EDGES_PER_ROUND", 16)


def parts_of(numbers, count=3):
    return PickledPartitions([pickle.dumps(part) for part in np.array_split(numbers, count)])


def identity(part):
    return part


@pytest.mark.usefixtures("few")
@given(
    arrays(
        np.float64,
        integers(1, 40),
        elements=floats(-5, 5, width=16) | floats(allow_nan=False, allow_infinity=False),
    )
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_order_statistics_of_partitioned_floats(numbers):
    found, expected = (
        order_statistics.PartitionedFloats(parts_of(numbers), identity),
        np.sort(numbers),
    )
    assert found.size == len(numbers)
    assert np.array_equal(found.select(np.arange(len(numbers))), expected)
    assert np.array_equal(found.count_below(numbers), np.searchsorted(expected, numbers, "left"))
    assert np.array_equal(found.count_up_to(numbers), np.searchsorted(expected, numbers, "right"))


@pytest.mark.usefixtures("few")
def test_order_statistics_of_partitioned_integers():
    numbers = generator.integers(-(2**63), 2**63 - 1, 500, endpoint=True)
    numbers[:4] = -(2**63), 2**63 - 1, 0, 0
    found = order_statistics.PartitionedIntegers(parts_of(numbers, 7), identity)
    places = np.array([0, 1, 250, 499, 499, 7])
    assert np.array_equal(found.select(places), np.sort(numbers)[places])


@pytest.mark.usefixtures("few")
def test_slices_and_intervals_do_not_depend_on_the_gather_limit():
    both(LISTS, TRUTH, metrics=["nDCG", "Gini"], top_k=5, train=TRAIN, slices=SLICES, bootstrap=20)


def test_digests_do_not_depend_on_tiles(monkeypatch):
    ids = {kind: pl.Series(["b", "a", "d", "c"]) for kind in ("user", "item")}
    users, items = (Vocabulary.from_ids(kind, series) for kind, series in ids.items())
    rows = Interactions(np.array([0, 2, 2, 5]), np.array([3, 0, 1, 2, 3]), np.arange(5.0), 4)
    codes = np.array([0, 0, 2, 2, 2])
    keys = users.hash_keys()[codes], items.hash_keys()[rows.items], rows.values.view(np.int64)
    hashes = hash_rows(*keys)
    expected = [5, hashes.sum(), (hashes * hashes).sum()]
    for size in (2, 5, 100):
        monkeypatch.setattr("weft.data.interactions._TILE_ROWS", size)
        assert hash_sums_by_id(rows, users, items).tolist() == expected
