"""User groups, item clusters, item features and train: forms, ids, labels, and missing values.

Also the metrics that read them: names with labels, notes, directions, and rejected parameters.
"""

import io
import itertools
import json
import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

import weft
import weft.config
from local_engine import evaluate as evaluate_locally
from metric_cases import ACCURACY, BUILT_IN, BY_POSITION, make_labels
from weft.cli import app
from weft.config.run import run as run_configuration
from weft.data import Interactions, Train
from weft.data.features import read_features
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError, MissingInput, SettingError, UnknownMetric, UnknownParameter
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result
from weft.metrics.names import parse_name, split_labels
from weft.metrics.registry import built_in_metrics, canonical_name, example_spec, find_metric
from weft.report.definitions import needed_inputs
from weft.report.terminal import comparison_tables, results_tables

# ------------------------------------------------------------------------------------------- popula


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=30),
    st.floats(1e-12, 1) | st.sampled_from([0.2, 0.5, 0.8, 1.0]),
)
def test_head_and_tail_match_the_definition(counts, pop_ratio):
    """Against a walk through the items in order; as many users as an item has interactions."""
    train = Train(Interactions.from_codes(*_cells(counts), max(counts, default=0), len(counts)))
    order = sorted(range(len(counts)), key=lambda item: (-counts[item], item))
    reached = list(itertools.accumulate(counts[item] for item in order))
    wanted = (pop_ratio - 1e-9) * sum(counts)
    size = (
        next(place for place, sum_ in enumerate(reached, 1) if sum_ >= wanted) if sum(counts) else 0
    )
    assert train.long_tail(pop_ratio).values.tolist() == [
        0.0 if item in order[:size] else 1.0 for item in range(len(counts))
    ]
    assert train.num_cold_items == counts.count(0)
    bins = [count.bit_length() for count in counts]
    found = train.popularity_bins
    assert found.bins.values.tolist() == bins
    assert found.items.tolist() == [bins.count(number) for number in range(max(bins) + 1)]
    assert found.interactions.tolist() == [
        sum(count for count, bin_ in zip(counts, bins) if bin_ == number)
        for number in range(max(bins) + 1)
    ]


def _cells(counts):
    cells = sorted((user, item) for item, count in enumerate(counts) for user in range(count))
    users, items = (np.array([cell[n] for cell in cells], dtype=np.int64) for n in (0, 1))
    return users, items, np.ones(len(cells))


def sparse_features(stored, is_sorted):
    columns = [0, 3, 4] if is_sorted else [4, 0, 3]
    values = [stored, 1.0, 1.0, 1.0]
    return columns, sp.csr_matrix((values, [*columns, 3], [0, 3, 3, 4]), shape=(3, 6))


@pytest.mark.parametrize("stored", [2.5, -1.0, 2.0])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_rejects_sparse_features_other_than_0_and_1(stored, is_sorted):
    _, matrix = sparse_features(stored, is_sorted)
    with pytest.raises(InputError, match=f"matrix with the value {stored:g}; expected 0 or 1"):
        read_features(matrix, "item_features", Vocabulary.from_size("item", 3))
    assert (
        read_features(matrix != 0, "item_features", Vocabulary.from_size("item", 3)).num_unlabelled
        == 1
    )


@pytest.mark.parametrize("stored", [1.0, 0.0])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_reads_sparse_features_in_any_order(stored, is_sorted):
    columns, matrix = sparse_features(stored, is_sorted)
    found = read_features(matrix, "item_features", Vocabulary.from_size("item", 3))
    first = [column for column, value in zip(columns, [stored, 1, 1]) if value]
    names = sorted({*first, 3})
    assert found.names == tuple(names) and found.offsets.values.tolist() == [
        0,
        len(first),
        len(first),
        len(first) + 1,
    ]
    assert found.codes.values.tolist() == [*sorted(map(names.index, first)), names.index(3)]
    assert found.num_unlabelled == 1
    twice = sp.csr_matrix(([1.0, 1.0], [2, 2], [0, 2, 2, 2]), shape=(3, 6))
    assert read_features(
        twice, "item_features", Vocabulary.from_size("item", 3)
    ).codes.values.tolist() == [0]
    with pytest.raises(InputError, match="not of finite numbers"):
        read_features(
            sp.csr_matrix(([np.nan], [2], [0, 1, 1, 1]), shape=(3, 6)),
            "item_features",
            Vocabulary.from_size("item", 3),
        )


# -------------------------------------------------------------------------------------------------

NAMES = {
    "strings": (["ann", "bob", "cid", "dee"], ["i0", "i1", "i2", "i3", "i4"]),
    "integers": ([40, 7, -3, 1000], [5, 900, -3, 44, 1]),
    "numbers": ([0, 1, 2, 3], [0, 1, 2, 3, 4]),  # of rows and columns, where no ids are given
}
# Lists at 2: 0 1, 1 3, 2 4, 0 3
SCORES = torch.tensor(
    [[5, 4, 3, 2, 1], [1, 7, 2, 4, 3], [3, 1, 5, 2, 4], [5, 3, 1, 4, 2]], dtype=torch.float64
)
RELEVANT = [[0, 2], [4], [4], [0]]  # hits: 0 at position 1; none; 4 at 2; 0 at 1
SEEN = [[1], [0, 4], [], []]
GROUPS = ["F", "M", None, "F"]
CLUSTERS = ["Drama", "Noir", None, "Drama", "Noir"]
FEATURES = [["a", "b"], ["b"], [], ["c"], ["a"]]
SECOND = 1 / math.log2(3)  # the discount of position 2
EXPECTED = {
    # Labelled slots of F: 0 1 0 3, three of Drama; of M: 1 3. Each cluster is half of the labelled
    # items.
    "BiasDisparityBR@2[F, Drama]": (3 / 4) / (1 / 2),
    "BiasDisparityBR@2[F, Noir]": (1 / 4) / (1 / 2),
    "BiasDisparityBR@2[M, Drama]": 1,
    "BiasDisparityBR@2[M, Noir]": 1,
    # Train of F: 1; of M: 0 4
    "BiasDisparityBS[F, Drama]": 0,
    "BiasDisparityBS[F, Noir]": 2,
    "BiasDisparityBS[M, Drama]": 1,
    "BiasDisparityBS[M, Noir]": 1,
    "BiasDisparityBD@2[F, Drama]": math.nan,
    "BiasDisparityBD@2[F, Noir]": (1 / 2 - 2) / 2,
    "BiasDisparityBD@2[M, Drama]": 0,
    "BiasDisparityBD@2[M, Noir]": 0,
    # Relevant and labelled: 0 and 0, both hit; 4 and 4, one of them
    "REO@2": (1 / 4) / (3 / 4),
    "REO@2[Drama]": 1,
    "REO@2[Noir]": 1 / 2,
    # Of eight offered slots each: 0 0 3 3; 1 1 4
    "RSP@2": (1 / 16) / (7 / 16),
    "RSP@2[Drama]": 4 / 8,
    "RSP@2[Noir]": 3 / 8,
    # Item 0 earns 1 in both lists, 3 and 1 nothing, 4 the second discount
    "ItemMADRanking@2": abs((1 + 0) / 2 - (0 + SECOND) / 2),
    "ItemMADRating@2": 5 - 4,
    # nDCG of F: 1 / (1 + SECOND) and 1; of M: 0
    "UserMADRanking@2": (1 / (1 + SECOND) + 1) / 2,
    "UserMADRating@2": abs((4.5 + 4.5) / 2 - 5.5),
    "SRecall@2": (1 + 0 + 1 + 1) / 4,
    "SRecall(denominator=catalogue, numerator=list)@2": (2 / 3 + 2 / 3 + 1 / 3 + 3 / 3) / 4,
    # Items 0, 1 and 4 have one interaction each, of two users and three in all
    "EPC@2": (1 / 2) * (1 + SECOND + 1) / (1 + SECOND) / 4,
    "EFD@2": math.log2(3) * (1 + SECOND + 1) / (1 + SECOND) / 4,
    "ARP@2": (1 + 1 / 2 + 1 / 2 + 1 / 2) / 4,
    # All three are the head: 80% of three interactions are more than two
    "ACLT@2": (0 + 1 + 1 + 1) / 4,
}
NEEDS = {
    **{name: {"train"} for name in ("EFD", "EPC", "ACLT", "APLT", "ARP", "PopREO", "PopRSP")},
    "SRecall": {"item_features"},
    "BiasDisparityBS": {"train", "user_groups", "item_clusters"},
    "BiasDisparityBR": {"user_groups", "item_clusters"},
    "BiasDisparityBD": {"train", "user_groups", "item_clusters"},
    **{name: {"item_clusters"} for name in ("REO", "RSP", "ItemMADRanking", "ItemMADRating")},
    **{name: {"user_groups"} for name in ("UserMADRanking", "UserMADRating")},
}
METRICS = list(dict.fromkeys(re.sub(r"@2|\[[^=]*\]$", "", name) for name in EXPECTED))


def by_id(ids, values):
    return dict(zip(ids, values))


def inputs(kind="strings", **changed):
    """All that `evaluate` is given beside the scores."""
    users, items = NAMES[kind]
    given = {
        "truth": {user: [items[n] for n in row] for user, row in zip(users, RELEVANT)},
        "train": {user: [items[n] for n in row] for user, row in zip(users, SEEN)},
        "user_groups": by_id(users, GROUPS),
        "item_clusters": by_id(items, CLUSTERS),
        "item_features": by_id(items, FEATURES),
    }
    given |= BY_POSITION if kind == "numbers" else {"users": users, "items": items}
    return {"metrics": METRICS, "top_k": [2], "mask_seen": False, **given, **changed}


def run(kind="strings", source=SCORES, **changed):
    return weft.evaluate(source, **inputs(kind, **changed))


COUNTS = {
    "user_groups": ("users_without_group", 1),
    "item_clusters": ("items_without_cluster", 1),
    "item_features": ("items_without_features", 1),
    "train": ("items_without_train", 2),
}


def check(result, renamed=None):
    """The values by hand of the metrics that were evaluated, under the labels of `renamed`."""
    new = {old: str(label) for old, label in (renamed or {}).items()}
    evaluated = {parse_name(name).name for name in result.settings["metrics"]}
    wanted = {
        name: value for name, value in EXPECTED.items() if re.match(r"\w+", name)[0] in evaluated
    }
    names = {
        re.sub(r"[A-Z]\w*(?=[],])", lambda found: new.get(found[0], found[0]), name): name
        for name in wanted
    }
    assert sorted(result) == sorted(names) != []
    for name, old in names.items():
        assert result[name] == pytest.approx(wanted[old], rel=1e-12, abs=1e-12, nan_ok=True), name
    for which in set().union(*(NEEDS[name] for name in evaluated)):
        name, count = COUNTS[which]
        assert result.counts[name] == count


def note(result, *words):
    """The one note that has all these words."""
    (found,) = [one for one in result.notes if all(word in one for word in words)]
    return found


@pytest.mark.parametrize("kind", NAMES)
def test_values_on_worked_example(kind):
    result = run(kind)
    check(result)
    assert note(result, "1 of 4 users has no label in user_groups and is in no group")
    assert note(result, "1 of 5 items has no label in item_clusters and is in no cluster")
    assert note(result, "1 of 5 items has no feature in item_features")
    assert note(result, "2 of 5 items have no train interaction")


def test_counts_only_inputs_that_metrics_read():
    result = run(metrics=["nDCG", "Gini"])
    assert not any(name.startswith("items_without") for name in result.counts) and not any(
        "label" in one for one in result.notes
    )


# --------------------------------------------------------------------------------------------------

KINDS = {
    "strings": {"F": "F", "M": "M", "Drama": "Drama", "Noir": "Noir"},
    "integers": {"F": 1, "M": 2, "Drama": -7, "Noir": 0},
    "booleans": {"F": False, "M": True, "Drama": False, "Noir": True},
    "fractions": {"F": 0.5, "M": 1.5, "Drama": -2.25, "Noir": 1e-3},
    "whole floats": {"F": 1.0, "M": 2.0, "Drama": 3.0, "Noir": 40.0},
}


def printed(kind):
    """What the labels of a kind are called: whole floats are integers, which pandas makes floats
    of.
    """
    return {old: int(new) if kind == "whole floats" else new for old, new in KINDS[kind].items()}


def shuffled(frame):
    return frame.sample(fraction=1.0, shuffle=True, seed=4)


def polars(ids, labels, key="user", name="label"):
    return pl.DataFrame({key: ids, name: pl.Series(labels, strict=True)})


def pandas(ids, labels, key="user", name="label", **how):
    return pd.DataFrame({key: ids, name: pd.Series(labels, **how)})


def nullable(labels):
    kinds = {str: "string", bool: "boolean", int: "Int64", float: "Float64"}
    return pd.array(labels, dtype=kinds[type(labels[0])])


def holes(labels, hole):
    return [hole if label is None else label for label in labels]


LABEL_FORMS = {
    "dict": by_id,
    "dict backwards": lambda ids, labels: by_id(ids[::-1], labels[::-1]),
    "dict without the missing": lambda ids, labels: {
        i: label for i, label in zip(ids, labels) if label is not None
    },
    "dict with NaN": lambda ids, labels: by_id(ids, holes(labels, math.nan)),
    "dict with pandas.NA": lambda ids, labels: by_id(ids, holes(labels, pd.NA)),
    "dict with pandas.NaT": lambda ids, labels: by_id(ids, holes(labels, pd.NaT)),
    "dict of NumPy scalars": lambda ids, labels: {
        np.array(i)[()]: np.array(x)[()] for i, x in zip(ids, labels) if x is not None
    },
    "dict of NumPy NaN": lambda ids, labels: by_id(ids, holes(labels, np.float32("nan"))),
    "list": lambda ids, labels: list(labels),
    "tuple": lambda ids, labels: tuple(labels),
    "list with NaN": lambda ids, labels: holes(labels, math.nan),
    "list with pandas.NA": lambda ids, labels: holes(labels, pd.NA),
    "list of NumPy scalars": lambda ids, labels: [
        None if label is None else np.array(label)[()] for label in labels
    ],
    "NumPy objects": lambda ids, labels: np.array(labels, dtype=object),
    "NumPy objects with NaN": lambda ids, labels: np.array(holes(labels, math.nan), dtype=object),
    "polars series": lambda ids, labels: pl.Series(labels),
    "polars": polars,
    "polars shuffled": lambda ids, labels, key: shuffled(polars(ids, labels, key)),
    "polars without the missing": lambda ids, labels, key: polars(ids, labels, key).drop_nulls(),
    "polars, another name": lambda ids, labels, key: polars(ids, labels, key, "whatever"),
    "polars, ids by another name": lambda ids, labels, key: polars(
        ids, labels, f"{key.upper()}_ID"
    ),
    "polars, ids last": lambda ids, labels, key: polars(ids, labels, key).select("label", key),
    "polars, further columns": lambda ids, labels, key: polars(
        ids, labels, key, "Cluster"
    ).with_columns(age=pl.lit(3), more=pl.lit("x")),
    "polars, every row twice": lambda ids, labels, key: pl.concat([polars(ids, labels, key)] * 2),
    "lazy": lambda ids, labels, key: polars(ids, labels, key).lazy(),
    "pandas": pandas,
    "pandas objects": lambda ids, labels, key: pandas(ids, labels, key, dtype=object),
    "pandas nullable": lambda ids, labels, key: pd.DataFrame({key: ids, "label": nullable(labels)}),
    "pandas categorical": lambda ids, labels, key: pd.DataFrame(
        {key: ids, "label": pd.Categorical(labels)}
    ),
    "pandas, odd index": lambda ids, labels, key: (
        pandas(ids, labels, key, dtype=object).set_axis(list(range(len(ids)))[::-1]).iloc[::-1]
    ),
    "pandas, nullable ids": lambda ids, labels, key: pandas(pd.array(ids), labels, key),
}
ONLY_NUMBERS = {
    "NumPy with NaN": lambda ids, labels: np.array(holes(labels, math.nan), dtype=np.float64),
    "NumPy float32": lambda ids, labels: np.array(holes(labels, math.nan), dtype=np.float32),
    "tensor": lambda ids, labels: torch.tensor(holes(labels, math.nan), dtype=torch.float64),
    "dict of tensors": lambda ids, labels: {
        i: torch.tensor(x, dtype=torch.float64) for i, x in zip(ids, labels) if x is not None
    },
}
ONLY_STRINGS = {
    "polars categorical": lambda ids, labels, key: polars(ids, labels, key).cast(
        {"label": pl.Categorical}
    ),
    "polars enum": lambda ids, labels, key: polars(ids, labels, key).cast(
        {"label": pl.Enum(sorted({x for x in labels if x}))}
    ),
    "NumPy of text": lambda ids, labels: np.array(holes(labels, None), dtype=object),
}
NUMERIC = ("integers", "whole floats", "fractions")
FORMED = [
    *itertools.product(LABEL_FORMS, KINDS),
    *(
        (form, kind)
        for form, kind in itertools.product(ONLY_NUMBERS, NUMERIC)
        if (form, kind) != ("NumPy float32", "fractions")
    ),
    *((form, "strings") for form in ONLY_STRINGS),
]


def formed(form, ids, labels, key):
    make = {**LABEL_FORMS, **ONLY_NUMBERS, **ONLY_STRINGS}[form]
    return make(ids, labels, key) if make.__code__.co_argcount > 2 else make(ids, labels)


OF_LABELS = ["BiasDisparityBR", "BiasDisparityBS", "REO", "UserMADRating"]


def labelled(kind, old):
    return [None if label is None else KINDS[kind][label] for label in old]


@pytest.mark.parametrize("ids", ["strings", "integers"])
@pytest.mark.parametrize(("form", "kind"), FORMED)
def test_reads_every_form_of_labels(form, kind, ids):
    users, items = NAMES[ids]
    groups = formed(form, users, labelled(kind, GROUPS), "user")
    clusters = formed(form, items, labelled(kind, CLUSTERS), "item")
    check(run(ids, metrics=OF_LABELS, user_groups=groups, item_clusters=clusters), printed(kind))


@pytest.mark.parametrize("form", LABEL_FORMS)
def test_reads_every_form_of_positional_labels(form):
    users, items = NAMES["numbers"]
    labels = {
        "user_groups": formed(form, users, GROUPS, "user"),
        "item_clusters": formed(form, items, CLUSTERS, "item"),
    }
    check(run("numbers", **labels))
    evaluator = weft.Evaluator(
        METRICS,
        2,
        train=dense(SEEN),
        mask_seen=False,
        num_users=4,
        item_features=FEATURES,
        **labels,
    )
    evaluator.update(SCORES, RELEVANT, users)
    check(evaluator.compute())


def test_reads_typed_arrays_of_labels():
    groups, clusters = ["F", "M", "F", "M"], [3, 1, 3, 1, 1]
    expected = run(user_groups=groups, item_clusters=clusters)
    for words, numbers in itertools.product(
        (np.array, pd.array, pl.Series), (np.array, torch.tensor, pl.Series, pd.array)
    ):
        other = run(user_groups=words(groups), item_clusters=numbers(clusters))
        assert repr(other.entries) == repr(expected.entries)
    small = run(user_groups=groups, item_clusters=torch.tensor(clusters, dtype=torch.int8))
    assert repr(small.entries) == repr(expected.entries)


def test_orders_numbers_before_words():
    result = run(metrics=["RSP"], item_clusters=[10, 9, "b", "B", None])
    assert list(result) == ["RSP@2", "RSP@2[9]", "RSP@2[10]", "RSP@2[B]", "RSP@2[b]"]


def test_does_not_change_inputs():
    groups, features = (
        polars(NAMES["strings"][0], GROUPS),
        {item: list(row) for item, row in zip(NAMES["strings"][1], FEATURES)},
    )
    clusters = pandas(NAMES["strings"][1], CLUSTERS, "item")
    kept = groups.clone(), clusters.copy(), {item: list(row) for item, row in features.items()}
    run(user_groups=groups, item_clusters=clusters, item_features=features)
    assert groups.equals(kept[0]) and clusters.equals(kept[1]) and features == kept[2]


def test_reads_unnamed_pandas_columns():
    # What series.reset_index() makes of a series of labels
    series = pd.Series(by_id(NAMES["strings"][0], GROUPS)).rename_axis("user")
    assert list(series.reset_index().columns) == ["user", 0]
    check(run(user_groups=series.reset_index()))


def test_reads_pandas_series_by_index():
    users, items = NAMES["strings"]
    groups, features = (
        pd.Series(by_id(users[::-1], GROUPS[::-1])),
        pd.Series(by_id(items[::-1], FEATURES[::-1])),
    )
    clusters = pd.Series(CLUSTERS, index=items).sample(frac=1, random_state=1)
    check(run(user_groups=groups, item_clusters=clusters, item_features=features))
    refused(
        ["user_groups has integers", "strings"], user_groups=pd.Series(GROUPS)
    )  # its index are numbers


def test_rejects_pandas_series_with_repeated_ids():
    refused(
        ["more than one label to the same user", "'ann'"],
        user_groups=pd.Series(["F", "M"], index=["ann", "ann"]),
    )


def test_reads_pandas_series_with_a_row_per_feature():
    check(
        run(
            metrics=OF_FEATURES,
            item_features=pd.Series(FEATURES, index=NAMES["strings"][1]).explode(),
        )
    )


def test_rejects_pandas_series_with_missing_ids():
    refused(
        ["user_groups has no user id in row 1"],
        user_groups=pd.Series(["F", "M"], index=["ann", None]),
    )


def test_lists_of_labels_need_users():
    with pytest.raises(InputError, match="users="):
        weft.evaluate(
            lambda users: torch.ones(len(users), 2),
            {"zoe": [0], "ann": [1]},
            metrics="UserMADRating@1",
            user_groups=["group of zoe", "group of ann"],
        )


@pytest.mark.parametrize("form", [np.array, torch.tensor])
def test_reads_or_rejects_columns_of_labels(form):
    column = form([[3], [1], [0], [3], [1]])
    try:
        result = run(metrics=["RSP"], item_clusters=column)
    except InputError:
        return
    assert list(result) == ["RSP@2", "RSP@2[0]", "RSP@2[1]", "RSP@2[3]"]


def test_rejects_true_and_1_as_labels():
    with pytest.raises(InputError, match=r"both (True|1) and (True|1)"):
        run(item_clusters=[True, 1, 2, 2, None])


# --------------------------------------------------------------------------------------------------


def dense(rows, width=5):
    """Rows of numbers as a matrix of 0 and 1."""
    return np.array([[int(column in row) for column in range(width)] for row in rows])


def letters(rows):
    return dense([["abc".index(letter) for letter in row] for row in rows], 3)


def long(rows, ids):
    return [(item, feature) for item, row in zip(ids, rows) for feature in row]


OF_FEATURES = ["SRecall", "SRecall(denominator=catalogue, numerator=list)"]
FEATURE_FORMS = {
    "dict of lists": by_id,
    "dict of tuples": lambda ids, rows: by_id(ids, map(tuple, rows)),
    "dict of sets": lambda ids, rows: by_id(ids, map(set, rows)),
    "dict of frozensets": lambda ids, rows: by_id(ids, map(frozenset, rows)),
    "dict of arrays": lambda ids, rows: by_id(ids, map(np.array, rows)),
    "dict without the empty": lambda ids, rows: {item: row for item, row in zip(ids, rows) if row},
    "dict with missing ones": lambda ids, rows: by_id(
        ids, [[*row, None, math.nan, pd.NA] if row else None for row in rows]
    ),
    "dict with repetitions": lambda ids, rows: by_id(ids, [row * 2 for row in rows]),
    "dict to a word or a list": lambda ids, rows: by_id(
        ids, [row[0] if len(row) == 1 else row for row in rows]
    ),
    "list of lists": lambda ids, rows: rows,
    "list of sets": lambda ids, rows: [set(row) for row in rows],
    "list with None": lambda ids, rows: [row or None for row in rows],
    "NumPy objects": lambda ids, rows: np.array(rows, dtype=object),
    "polars series": lambda ids, rows: pl.Series(rows),
    "polars, a list column": lambda ids, rows: pl.DataFrame({"item": ids, "genres": rows}),
    "polars, a list column with null": lambda ids, rows: pl.DataFrame(
        {"item": ids, "genres": [row or None for row in rows]}
    ),
    "polars, a row per feature": lambda ids, rows: pl.DataFrame(
        long(rows, ids), schema=["item", "feature"], orient="row"
    ),
    "polars, shuffled rows twice": lambda ids, rows: shuffled(
        pl.DataFrame(long(rows, ids) * 2, schema=["item_id", "feature"], orient="row")
    ),
    "lazy": lambda ids, rows: pl.LazyFrame(
        long(rows, ids), schema=["item", "feature"], orient="row"
    ),
    "pandas, a list column": lambda ids, rows: pd.DataFrame({"item": ids, "genres": rows}),
    "pandas, a column of arrays": lambda ids, rows: pd.DataFrame(
        {"item": ids, "genres": list(map(np.array, rows))}
    ),
    "pandas, a row per feature": lambda ids, rows: pd.DataFrame(
        long(rows, ids), columns=["item", "feature"]
    ),
    "pandas exploded": lambda ids, rows: pd.DataFrame({"item": ids, "genre": rows}).explode(
        "genre"
    ),
    "matrix": lambda ids, rows: letters(rows),
    "matrix of bool": lambda ids, rows: letters(rows) > 0,
    "matrix of integers": lambda ids, rows: letters(rows).astype(int),
    "tensor": lambda ids, rows: torch.tensor(letters(rows)),
    "sparse tensor": lambda ids, rows: torch.tensor(letters(rows)).to_sparse(),
    "csr": lambda ids, rows: sp.csr_matrix(letters(rows)),
    "coo_array": lambda ids, rows: sp.coo_array(letters(rows)),
}


@pytest.mark.parametrize("ids", NAMES)
@pytest.mark.parametrize("form", FEATURE_FORMS.values(), ids=FEATURE_FORMS)
def test_reads_every_form_of_features(form, ids):
    check(run(ids, metrics=OF_FEATURES, item_features=form(NAMES[ids][1], FEATURES)))


def test_reads_one_feature_per_item():
    """Relevant: 0 2, of whose features one of two is hit; 4, not hit; 4 and 0, both hit."""
    for features in (
        "xyzzy",
        ["x", "y", "z", "z", "y"],
        np.array([1, 2, 3, 3, 2]),
        torch.tensor([1, 2, 3, 3, 2]),
    ):
        given = by_id(NAMES["strings"][1], features) if isinstance(features, str) else features
        assert run(metrics=["SRecall"], item_features=given)["SRecall@2"] == (1 / 2 + 0 + 1 + 1) / 4
    number = {"i0": 7, "i4": 7.0}
    assert (
        run(metrics=["SRecall(denominator=catalogue)"], item_features=number).entries[0].value
        == 3 / 4
    )  # one feature


def test_reads_lists_of_arrays_of_features():
    check(run(item_features=[np.array(row) for row in FEATURES]))


def test_stored_zeros_are_no_features():
    rows, columns = letters(FEATURES).nonzero()
    matrix = sp.csr_matrix(([1] * 5 + [0], ([*rows, 2], [*columns, 0])), shape=(5, 3))
    assert matrix.nnz == 6
    check(run(metrics=OF_FEATURES, item_features=matrix))


# --------------------------------------------------------------------------------------------------


def cells(rows, ids):
    users, items = ids
    return [(users[user], items[item]) for user, row in enumerate(rows) for item in row]


TRAIN_FORMS = {
    "dict": lambda ids: {user: [ids[1][n] for n in row] for user, row in zip(ids[0], SEEN)},
    "dict without the empty": lambda ids: {
        user: [ids[1][n] for n in row] for user, row in zip(ids[0], SEEN) if row
    },
    "ratings": lambda ids: {
        user: {ids[1][n]: 0.5 + n for n in row} for user, row in zip(ids[0], SEEN)
    },
    "ratings of 0": lambda ids: {
        user: {ids[1][n]: 0.0 for n in row} for user, row in zip(ids[0], SEEN)
    },
    "polars": lambda ids: pl.DataFrame(cells(SEEN, ids), schema=["user", "item"], orient="row"),
    "lazy": lambda ids: pl.LazyFrame(cells(SEEN, ids), schema=["user", "item"], orient="row"),
    "pandas": lambda ids: pd.DataFrame(cells(SEEN, ids), columns=["user_id", "item_id"]).assign(
        rating=3
    ),
    "csr": lambda ids: sp.csr_matrix(dense(SEEN)),
    "dense": lambda ids: dense(SEEN),
    "tensor": lambda ids: torch.tensor(dense(SEEN)),
    "bool": lambda ids: torch.tensor(dense(SEEN) > 0),
}


@pytest.mark.parametrize("ids", NAMES)
@pytest.mark.parametrize("form", TRAIN_FORMS.values(), ids=TRAIN_FORMS)
def test_reads_every_form_of_train(form, ids):
    check(run(ids, train=form(NAMES[ids])))


def test_repeated_train_rows_count_once():
    again = pl.DataFrame(cells(SEEN, NAMES["strings"]) * 3, schema=["user", "item"], orient="row")
    result = run(train=again)
    check(result)
    assert result.counts["train_repetitions"] == 6 and note(
        result, "train contains 6 repeated (user, item) rows; each pair is counted once"
    )


def test_users_only_in_train_count_in_popularity():
    """They count in popularity and in the bias of the source, and are nobody's missing list."""
    train = inputs()["train"] | {"eve": ["i0", "i4", "i4"], "fay": ["i2"], "gus": ["i0"]}
    groups = inputs()["user_groups"] | {"eve": "M", "fay": "X", "gus": None}
    result = run(train=train, user_groups=groups)
    assert (
        result.counts["users"] == 4 == result.entry("ARP@2").users
        and result.counts["missing_users"] == 0
    )
    assert result.counts["users_without_group"] == 1
    assert note(result, "5 rows of train belong to users that are not evaluated")
    assert not any("labels of user_groups" in one for one in result.notes)  # they are known
    # Of M: 0 4 and eve's 0 4; of X: 2, which has no cluster
    assert result["BiasDisparityBS[M, Drama]"] == result["BiasDisparityBS[M, Noir]"] == 1
    assert math.isnan(result["BiasDisparityBS[X, Drama]"]) and math.isnan(
        result["BiasDisparityBR@2[X, Noir]"]
    )
    assert note(
        result, "BiasDisparityBS for [X, Drama], [X, Noir] is undefined", "no train interaction"
    )
    assert note(
        result, "BiasDisparityBR@2 for [X, Drama], [X, Noir] is undefined", "recommended no item"
    )
    # n: 3 1 1 0 2 of seven interactions by five users
    assert result["ARP@2"] == pytest.approx((2 + 1 / 2 + 3 / 2 + 3 / 2) / 4)
    first, last = 1 - 3 / 5, 1 - 2 / 5
    assert result["EPC@2"] == pytest.approx((first + last * SECOND + first) / (1 + SECOND) / 4)
    assert result["EFD@2"] == pytest.approx(
        (2 * math.log2(7 / 3) + math.log2(7 / 2) * SECOND) / (1 + SECOND) / 4
    )
    for name in ("REO@2", "RSP@2", "UserMADRanking@2", "BiasDisparityBR@2[F, Drama]", "SRecall@2"):
        assert result[name] == pytest.approx(EXPECTED[name]), name


def test_reads_train_of_users_without_scores():
    """A user of the truth without scores has an empty list, and train and a label all the same."""
    truth, train = inputs()["truth"] | {"eve": ["i0"]}, inputs()["train"] | {"eve": ["i0"]}
    result = run(truth=truth, train=train, user_groups=inputs()["user_groups"] | {"eve": "M"})
    assert result.counts["users"] == 5 and result.counts["missing_users"] == 1
    assert result["BiasDisparityBS[M, Drama]"] == pytest.approx((2 / 3) / (1 / 2))
    assert result["REO@2[Drama]"] == pytest.approx(
        2 / 3
    )  # eve's item is relevant and was not recommended
    assert result["ARP@2"] == pytest.approx(
        (3 / 2 + 1 / 2 + 1 / 2 + 1) / 4
    )  # her list is empty and left out
    assert result["ACLT@2"] == pytest.approx(3 / 5)  # and counts 0 here
    assert result["UserMADRating@2"] == pytest.approx(EXPECTED["UserMADRating@2"])


def test_masking_does_not_change_popularity():
    masked = run(mask_seen=True, metrics=["EPC", "ARP", "RSP", "BiasDisparityBS"])
    # Seen: 1 of ann, 0 and 4 of bob. Lists: 0 2, 1 3, 2 4, 0 3
    assert masked["ARP@2"] == pytest.approx((1 / 2 + 1 / 2 + 1 / 2 + 1 / 2) / 4)
    assert masked["RSP@2[Drama]"] == pytest.approx(4 / 7) and masked[
        "RSP@2[Noir]"
    ] == pytest.approx(2 / 6)
    assert masked["BiasDisparityBS[F, Noir]"] == 2


# -------------------------------------------------------------------------------------------------


def test_counts_unknown_ids():
    result = run(
        user_groups={**inputs()["user_groups"], "nobody": "Q", "no one": "F", "none": None},
        item_clusters=pl.concat(
            [polars(NAMES["strings"][1], CLUSTERS, "item"), polars(["q"], ["Western"], "item")]
        ),
        item_features={**inputs()["item_features"], "q": ["a", "z"], "r": [], "s": ["y"]},
    )
    check(result)  # no group Q, no cluster Western, no feature more in the catalogue
    assert note(result, "2 labels of user_groups", "unknown users")
    assert note(result, "1 label of item_clusters", "unknown items")
    assert note(result, "3 labels of item_features", "unknown items")


def test_counts_unknown_positions():
    result = run(
        "numbers", item_clusters={**inputs("numbers")["item_clusters"], 5: "Drama", -1: "Noir"}
    )
    check(result)
    assert note(result, "2 labels of item_clusters")


def test_evaluator_counts_unknown_positions():
    evaluator = weft.Evaluator("REO@2", num_items=5, item_clusters={0: "a", 1: "b", 99: "c"})
    evaluator.update(SCORES, RELEVANT)
    assert note(evaluator.compute(), "1 label of item_clusters")


NOBODY = {
    "nothing": {},
    "strangers": {"x": "F", "y": "M"},
    "missing ones": {"ann": None, "bob": math.nan},
    "an empty frame": pl.DataFrame({"user": [], "label": []}),
    "an empty typed frame": pl.DataFrame(schema={"user": pl.String, "label": pl.String}),
    "an empty pandas frame": pd.DataFrame({"user": [], "label": []}),
    "a list of None": [None] * 4,
    "an array of NaN": np.full(4, math.nan),
    "a frame of nulls": pl.DataFrame({"user": ["ann"], "label": [None]}),
}


@pytest.mark.parametrize("groups", NOBODY.values(), ids=NOBODY)
def test_no_user_has_a_label(groups):
    result = run(user_groups=groups)
    assert result.counts["users_without_group"] == 4 and note(
        result, "4 of 4 users have no label in user_groups"
    )
    assert math.isnan(result["UserMADRanking@2"]) and math.isnan(result["UserMADRating@2"])
    assert note(result, "UserMADRanking@2 is undefined", "fewer than two groups")
    assert result["REO@2"] == pytest.approx(EXPECTED["REO@2"])
    assert not [name for name in result if name.startswith("BiasDisparity")]


def test_notes_metrics_without_a_value():
    result = run(user_groups={}, metrics=["BiasDisparityBR"])
    assert any("BiasDisparityBR@2" in one for one in result.notes)


@pytest.mark.parametrize(
    "empty",
    [{}, dict.fromkeys(NAMES["strings"][1]), [None] * 5, [[]] * 5, {"i0": []}, {"q": ["a"]}],
)
def test_no_item_has_a_label_or_feature(empty):
    features, clusters = (
        run(item_features=empty),
        run(item_clusters=empty if empty != {"q": ["a"]} else {"q": "a"}),
    )
    assert features.counts["items_without_features"] == 5 and math.isnan(features["SRecall@2"])
    assert note(
        features, "SRecall@2, SRecall(denominator=catalogue, numerator=list)@2 are undefined"
    )
    assert clusters.counts["items_without_cluster"] == 5
    assert all(
        math.isnan(clusters[f"{name}@2"])
        for name in ("REO", "RSP", "ItemMADRanking", "ItemMADRating")
    )


def test_empty_train():
    for train in ({}, pl.DataFrame({"user": [], "item": []}), sp.csr_matrix((4, 5))):
        result = run(train=train, metrics=[*METRICS, "APLT", "PopREO", "PopRSP"])
        assert math.isnan(result["EPC@2"]) and math.isnan(result["EFD@2"]) and result["ARP@2"] == 0
        assert result["ACLT@2"] == 2 and result["APLT@2"] == 1  # the head is empty
        assert math.isnan(result["PopREO@2"]) and math.isnan(result["PopRSP@2"])
        assert all(
            math.isnan(result[name])
            for name in result
            if name.startswith(("BiasDisparityBS", "BiasDisparityBD"))
        )
        assert (
            note(result, "EPC@2, EFD@2 are undefined", "train is empty")
            and result.counts["items_without_train"] == 5
        )


# --------------------------------------------------------------------------------------------------


def refused(says, error=InputError, **changed):
    """The call is refused, with these words in this order, before the model is asked for
    anything.
    """
    with pytest.raises(error, match="(?s)" + ".*".join(says)) as caught:
        run(source=unready, **changed)
    assert caught.type.__module__ == "weft.errors" and len(str(caught.value)) < 900


def unready(users):
    raise AssertionError("the model was asked for scores")


USER_FRAME = pl.DataFrame({"user": ["ann", "bob", "ann"], "label": ["F", "M", "M"]})
WRONG_LABELS = {
    "two labels": (
        {"user_groups": USER_FRAME},
        ["user_groups", "more than one label", "'ann'", "one label"],
    ),
    "two labels in pandas": (
        {"user_groups": pd.DataFrame({"user": ["bob", "bob"], "g": [1, 2]})},
        ["more than one label to the same user", "'bob'"],
    ),
    "two labels in a list": (
        {"item_clusters": {"i0": ["a", "b"]}},
        ["item_clusters", "more than one label", "'i0'"],
    ),
    "two labels each": (
        {"item_clusters": pl.DataFrame({"item": NAMES["strings"][1] * 2, "c": list(range(10))})},
        ["more than one label", "'i0', 'i1', 'i2', 'i3', 'i4'"],
    ),
    "two columns of a matrix": ({"user_groups": np.ones((4, 2))}, ["user_groups"]),
    "too short": (
        {"user_groups": ["F"]},
        ["user_groups has 1 label for 4 users", "one for each", "{id: label}"],
    ),
    "too long": ({"item_clusters": list("abcdef")}, ["item_clusters has 6 labels for 5 items"]),
    "nothing for somebody": ({"user_groups": []}, ["user_groups has 0 labels for 4 users"]),
    "too few features": ({"item_features": [["a"]]}, ["item_features has 1 label for 5 items"]),
    "too short an array": (
        {"item_clusters": np.arange(4)},
        ["item_clusters has 4 labels for 5 items"],
    ),
    "too few rows": (
        {"item_features": np.ones((4, 2))},
        ["item_features is a matrix of 4 rows", "5 items"],
    ),
    "too many rows": (
        {"item_features": sp.csr_matrix((6, 2))},
        ["item_features is a matrix of 6 rows", "5 items"],
    ),
    "integers for strings": (
        {"user_groups": {1: "F"}},
        ["user_groups has integers", "strings", "'1' are different"],
    ),
    "items as integers": (
        {"item_clusters": {1: "F"}},
        ["item_clusters has integers", "strings", "Convert"],
    ),
    "features of integers": (
        {"item_features": pl.DataFrame({"item": [1], "feature": ["a"]})},
        ["item_features has integers", "strings"],
    ),
    "mixed ids": (
        {"user_groups": {"ann": "F", 1: "M"}},
        ["user_groups mixes user ids of types int, str"],
    ),
    "fractions as ids": (
        {"user_groups": {0.5: "F"}},
        ["user_groups", "float", "integers or strings"],
    ),
    "booleans as ids": (
        {"user_groups": {True: "F"}},
        ["user_groups", "bool", "integers or strings"],
    ),
    "pairs as ids": (
        {"item_clusters": {("i0", 1): "F"}},
        ["item_clusters", "tuple", "integers or strings"],
    ),
    "no id": (
        {"user_groups": pl.DataFrame({"user": ["ann", None], "g": ["F", "M"]})},
        ["user_groups has no user id in row 1"],
    ),
    "None as an id": (
        {"user_groups": {"ann": "F", None: "M"}},
        ["user_groups has no user id in row 1"],
    ),
    "no column of users": (
        {"user_groups": pl.DataFrame({"usr": ["ann"], "g": ["F"]})},
        ["'usr', 'g'", "'user'"],
    ),
    "items for users": (
        {"user_groups": pl.DataFrame({"item": ["ann"], "g": ["F"]})},
        ["'item', 'g'", "'user'", "user ids"],
    ),
    "users for items": (
        {"item_clusters": pd.DataFrame({"user": ["i0"], "g": ["F"]})},
        ["'user', 'g'", "'item'", "item ids"],
    ),
    "no labels": (
        {"user_groups": pl.DataFrame({"user": ["ann"]})},
        ["'user'", "one with the labels", r"frame\[\['user', 'label'\]\]"],
    ),
    "two unnamed": (
        {"user_groups": pl.DataFrame({"user": ["ann"], "a": [1], "b": [2]})},
        ["'user', 'a', 'b'", "Select two"],
    ),
    "two named": (
        {"item_features": pl.DataFrame({"item": ["i0"], "feature": [1], "cluster": [2]})},
        ["Select two columns"],
    ),
    "one-hot columns": (
        {"item_features": pl.DataFrame({"item": ["i0"], "a": [1], "b": [0]})},
        ["'item', 'a', 'b'", "Select"],
    ),
    "labels twice": (
        {"user_groups": pd.DataFrame([["ann", "F", "M"]], columns=["user", "g", "g"])},
        ["'g' twice"],
    ),
    "a word": ({"user_groups": "F"}, ["user_groups .F.: there is no such file"]),
    "a path": (
        {"item_clusters": "clusters.csv"},
        ["item_clusters .clusters.csv.: there is no such file"],
    ),
    "a number": ({"item_features": 3}, ["item_features is a(n)? int", "{id: label}"]),
    "a set": ({"user_groups": {"F", "M"}}, ["user_groups is a set"]),
    "a generator": ({"user_groups": (group for group in GROUPS)}, ["user_groups is a generator"]),
    "a function": ({"user_groups": lambda user: "F"}, ["user_groups is a function"]),
    "a dict as a label": (
        {"user_groups": {"ann": {"F": 1}}},
        ["user_groups has the label {'F': 1}, a dict", "strings or numbers"],
    ),
    "bytes as a label": (
        {"item_clusters": {"i0": b"a"}},
        ["item_clusters has the label b'a', a bytes"],
    ),
    "a date as a label": (
        {"item_clusters": {"i0": pd.Timestamp("2020-01-01")}},
        ["item_clusters has the label Timestamp"],
    ),
    "complex labels": ({"item_clusters": [1j] * 5}, ["item_clusters has the label 1j, a complex"]),
    "sets of sets": (
        {"item_features": {"i0": [["a"]]}},
        ["item_features has the label \\['a'\\], a list"],
    ),
    "1 and '1'": (
        {"item_clusters": [1, "1", 2, 2, 2]},
        ["item_clusters has both 1 and '1'", "use one of them"],
    ),
    "True and 'True'": (
        {"item_features": {"i0": [True], "i1": ["True"]}},
        ["item_features has both True and 'True'"],
    ),
}


@pytest.mark.parametrize(("changed", "says"), WRONG_LABELS.values(), ids=WRONG_LABELS)
def test_rejects_wrong_labels(changed, says):
    refused(says, **changed)


WRONG_NUMBERS = {
    "strings for numbers": (
        {"user_groups": {"0": "F"}},
        ["user_groups has strings", "row numbers", "0 to 3", "users="],
    ),
    "strings for columns": (
        {"item_clusters": {"0": "F"}},
        ["item_clusters has strings", "column numbers", "items="],
    ),
}


@pytest.mark.parametrize(("changed", "says"), WRONG_NUMBERS.values(), ids=WRONG_NUMBERS)
def test_rejects_wrong_positional_labels(changed, says):
    with pytest.raises(InputError, match="(?s)" + ".*".join(says)):
        run("numbers", **changed)


def test_rejects_repeated_id_columns():
    refused(
        ["user_groups", "'user'", "twice"],
        user_groups=pd.DataFrame([["ann", "bob", "F"]], columns=["user", "user", "g"]),
    )


@pytest.mark.parametrize(
    ("kind", "ids"),
    [("strings", ["ann", None]), ("integers", pd.array([40, None], "Int64"))],
    ids=["string", "Int64"],
)
def test_rejects_missing_pandas_ids(kind, ids):
    with pytest.raises(InputError, match="user_groups has no user id in row 1"):
        run(kind, user_groups=pd.DataFrame({"user": ids, "g": ["F", "M"]}))


@pytest.mark.parametrize(
    "matrix", [np.full((5, 2), math.nan), np.full((5, 2), "x")], ids=["NaN", "text"]
)
def test_rejects_wrong_matrices_of_features(matrix):
    with pytest.raises(InputError, match="item_features") as caught:
        run(item_features=matrix)
    assert not re.search("rating|user", str(caught.value))


def test_evaluator_needs_sizes_of_labels():
    for name, kind in (
        ("user_groups", "user"),
        ("item_clusters", "item"),
        ("item_features", "item"),
    ):
        with pytest.raises(
            SettingError,
            match=f"{name}= does not determine the number of {kind}s; give num_{kind}s=",
        ):
            weft.Evaluator("nDCG@2", **{name: {0: "F"}})
    with pytest.raises(InputError, match="item_clusters has 2 labels for 5 items"):
        weft.Evaluator("REO@2", item_clusters=["a", "b"], num_items=5)
    with pytest.raises(InputError, match="item_features has 2 labels for 3 items"):
        weft.Evaluator(
            ["REO@2", "SRecall@2"], item_clusters=["a", "b", "a"], item_features=["x", "y"]
        )
    with pytest.raises(InputError, match="preds has 5 items, but num_items=3"):
        weft.Evaluator("REO@2", item_clusters=["a", "b", "a"]).update(SCORES, RELEVANT)
    with pytest.raises(
        InputError, match="user_indices contains 3; expected rows of user_groups, from 0 to 2"
    ):
        weft.Evaluator("UserMADRating@2", user_groups=["a", "b", "a"]).update(
            SCORES, RELEVANT, range(4)
        )
    with pytest.raises(InputError, match="needs user_indices to know the groups"):
        weft.Evaluator("UserMADRating@2", user_groups=["a", "b", "a", "b"]).update(SCORES, RELEVANT)


@pytest.mark.parametrize("metric", ["BiasDisparityBS", "BiasDisparityBD@2"])
def test_rejects_groups_that_do_not_fit_train(metric):
    with pytest.raises(InputError, match="user_groups"):
        weft.Evaluator(
            metric,
            train=np.ones((7, 5)),
            mask_seen=False,
            user_groups=GROUPS,
            item_clusters=CLUSTERS,
        )


def test_hints_name_existing_parameters():
    with pytest.raises(SettingError) as caught:
        weft.metrics.EPC(k=2, train={0: [1]})
    for name in re.findall(r"num_\w+(?==)", str(caught.value)):
        weft.metrics.EPC(k=2, train=np.ones((2, 2)), **{name: 2})


def test_metric_objects_with_their_own_inputs():
    own = weft.metrics.REO(k=2, item_clusters=["x", "y", "y", "y", "y"])
    try:
        result = run("numbers", metrics=[own])
    except SettingError:
        return  # as for relevance_threshold and ties of an object
    assert "REO@2[x]" in result


def test_composite_objects_with_their_own_inputs():
    own = weft.metrics.F1(k=2, metric_name_1="EPC", inputs={"train": np.ones((4, 5))})
    with pytest.raises(SettingError, match="another train"):
        run("numbers", metrics=[own])


# --------------------------------------------------------------------------------------------------

COMPOSITES = {
    "F1(metric_name_1=EPC)": {"train"},
    "F1(metric_name_2=SRecall)": {"item_features"},
    "F1(metric_name_1=EFD(relevance=none), metric_name_2=SRecall)": {"train", "item_features"},
    "EucDistance(metric_names=[Gini, EPC], utopia_points=[0, 1])": {"train"},
    "EucDistance(metric_names=[F1(metric_name_1=EPC), REO], utopia_points=[1, 0])": {
        "train",
        "item_clusters",
    },
    "EucDistance(metric_names=[EPC, nDCG], utopia_points=[1, 1], scope=users)": {"train"},
    "Hypervolume(metric_names=[nDCG, UserMADRanking], nadir_points=[0, 1])": {"user_groups"},
    "Hypervolume(metric_names=[EucDistance(metric_names=[ARP], utopia_points=[0]), Recall], "
    "nadir_points=[1, 0])": {"train"},
}
HOW = {
    "train": "{user: [items]}",
    "user_groups": "{user: label}",
    "item_clusters": "{item: label}",
    "item_features": "{item: [features]}",
}
LACKING = [
    (name, which) for name, needs in {**NEEDS, **COMPOSITES}.items() for which in sorted(needs)
]


def test_metrics_declare_needed_inputs():
    for metric in built_in_metrics():
        if not needed_inputs(metric):
            weft.evaluate(SCORES, {0: [0]}, metrics=str(example_spec(metric, 2)))
    assert {name: set(needed_inputs(find_metric(name))) for name in NEEDS} == NEEDS


@pytest.mark.parametrize(("name", "which"), LACKING)
def test_rejects_missing_inputs_before_reading(name, which):
    given = inputs(metrics=["nDCG", "Precision@1", name])
    del given[which]
    with pytest.raises(MissingInput) as caught:
        weft.evaluate(unready, **given)
    (line,) = str(caught.value).splitlines()
    at = "" if name == "BiasDisparityBS" else "@2"
    assert (
        line.startswith(f"{name}{at} needs {which}, ")
        and f"give {which}=" in line
        and HOW[which] in line
    )
    assert "nDCG@2" not in line and "Precision" not in line
    with pytest.raises(MissingInput, match=f"needs {which}"):
        weft.evaluate(unready, **{**given, which: None})


@pytest.mark.parametrize(("name", "which"), LACKING)
def test_evaluator_rejects_missing_inputs(name, which):
    given = {
        "train": dense(SEEN),
        "user_groups": GROUPS,
        "item_clusters": CLUSTERS,
        "item_features": FEATURES,
        "mask_seen": False,
    }
    del given[which]
    with pytest.raises(MissingInput, match=re.escape(name) + f".*needs {which}, .*give {which}="):
        weft.Evaluator([name], top_k=[2], num_users=4, num_items=5, **given)


@pytest.mark.parametrize(
    "name",
    [
        "Gini",
        "ItemCoverage",
        "ShannonEntropy",
        "EucDistance(metric_names=[Gini, nDCG], utopia_points=[0, 1])",
    ],
)
def test_evaluator_needs_num_items(name):
    with pytest.raises(
        MissingInput,
        match=re.escape(name) + "@2 needs num_items, the number of items.*give num_items=",
    ):
        weft.Evaluator(name, top_k=[2])
    for telling in (
        {"num_items": 5},
        {"item_clusters": CLUSTERS},
        {"train": dense(SEEN), "mask_seen": False},
    ):
        evaluator = weft.Evaluator(name, top_k=[2], **telling)
        evaluator.update(SCORES, RELEVANT)
        assert (
            evaluator.compute().entries[0].value
            == weft.evaluate(SCORES, dense(RELEVANT), metrics=name, top_k=2).entries[0].value
        )


def test_reports_all_missing_inputs():
    with pytest.raises(MissingInput) as caught:
        weft.evaluate(unready, None, metrics=[*NEEDS, *COMPOSITES, "nDCG"], top_k=[2, 5])
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    for line in lines:
        names, rest = re.split(" needs? ", line)
        which = rest.partition(",")[0]
        wanted = [
            canonical_name(name)
            for name, needs in {**NEEDS, **COMPOSITES}.items()
            if which in needs
        ]
        for name in sorted(wanted, key=len, reverse=True):
            spelt = name if name == "BiasDisparityBS" else f"{name}@2"
            assert spelt in names, line
            names = names.replace(spelt, "", 1)
        assert not names.strip(", ") and f"give {which}=" in rest and HOW[which] in rest


@pytest.mark.parametrize(
    "metric",
    [weft.metrics.EPC, "epc", weft.metrics.EPC(k=2, train=dense(SEEN))],
    ids=["class", "name", "object"],
)
def test_rejects_missing_inputs_of_any_form_of_metric(metric):
    with pytest.raises(MissingInput, match="EPC@2 needs train"):
        weft.evaluate(unready, {0: [0]}, metrics=metric, top_k=2)


def test_rejects_missing_inputs_under_a_profile():
    with pytest.raises(MissingInput, match=r"EPC\(unseen=1\)@2 needs train"):
        weft.evaluate(unready, {0: [0]}, metrics="EPC", top_k=2, profile="warprec")


def test_composites_reject_missing_inputs():
    with pytest.raises(MissingInput, match="EPC@2 needs train") as caught:
        weft.metrics.F1(k=2, metric_name_1="EPC")
    how = (
        {"inputs": {"train": dense(SEEN)}}
        if "inputs=" in str(caught.value)
        else {"train": dense(SEEN)}
    )
    weft.metrics.F1(k=2, metric_name_1="EPC", **how)


# --------------------------------------------------------------------------------------------------

ODD = [
    "Sci-Fi",
    "Film, Noir",
    "a 'b' c",
    '"q"',
    "[x]",
    "(y)",
    " blank ",
    "",
    "O'Neill",
    "2",
    "-1.5",
    "a=b",
    "x@5",
    "\\",
    "\\'",
    "None",
]
ODD += [
    "True",
    "nan",
    "a]b[c",
    "tab\there",
    "ä ö",
    "🎬",
    "'",
    '"',
    "F, Sci-Fi",
    "a\\,b",
    "1e5",
    "..",
    "[",
    "]",
    "'a', 'b'",
]


@pytest.mark.parametrize("label", ODD)
def test_labels_of_any_type_are_names(label, tmp_path):
    result = run(
        metrics=["BiasDisparityBR", "BiasDisparityBS", "REO"],
        item_clusters=[label, "Noir", None, label, "Noir"],
        user_groups=[label, "M", None, label],
    )
    assert result[f"BiasDisparityBR@2{quoted(label, label)}"] == 1.5
    assert result[f"biasdisparitybr@2 {quoted(label, 'Noir')}"] == 0.5
    assert result[f"BiasDisparityBS{quoted(label, 'Noir')}"] == 2
    assert result[f"REO@2{quoted(label)}"] == 1 and result["REO@2[Noir]"] == 1 / 2
    for name in result:
        assert name in result and result.entry(name).name == name
        assert split_labels(name) == (result.entry(name).plain_name, result.entry(name).cell)
    assert result.entry(f"BiasDisparityBR@2{quoted(label, label)}").cell == (label, label)
    loaded = weft.load_result(result.save(tmp_path / "a.json"))
    assert repr(loaded.entries) == repr(result.entries) and list(loaded) == list(result)
    assert all(loaded[name] == result[name] for name in result)
    frame = result.to_frame()
    assert frame["metric"].n_unique() == len(frame) == len(result)
    for value, row in zip(result.entries, frame.iter_rows(named=True)):
        assert (
            row["value"] == value.value
            and row["k"] == value.k
            and row["metric"].startswith(value.metric)
        )


def quoted(*labels):
    """Labels in double quotes, which always is a way to write them."""
    return (
        "["
        + ",".join('"' + label.replace("\\", "\\\\").replace('"', '\\"') + '"' for label in labels)
        + "]"
    )


def test_names_with_labels():
    result = run(
        metrics=["BiasDisparityBR", "REO"],
        user_groups=["F", "M, X", None, "F"],
        item_clusters=["Sci-Fi", "Film Noir", None, "Sci-Fi", 7],
    )
    assert [name for name in result if name.startswith("Bias")] == [
        "BiasDisparityBR@2[F, 7]",
        "BiasDisparityBR@2[F, Film Noir]",
        "BiasDisparityBR@2[F, Sci-Fi]",
        "BiasDisparityBR@2['M, X', 7]",
        "BiasDisparityBR@2['M, X', Film Noir]",
        "BiasDisparityBR@2['M, X', Sci-Fi]",
    ]
    # F: 0 1 0 3 are three of Sci-Fi, which is half of the labelled items
    for name in (
        "BiasDisparityBR@2[F, Sci-Fi]",
        "biasdisparitybr@2[F,Sci-Fi]",
        "BiasDisparityBR@2[ 'F' , \"Sci-Fi\" ]",
    ):
        assert result[name] == 1.5 and name in result
    assert result.entry("BiasDisparityBR@2[F, Sci-Fi]").cell == ("F", "Sci-Fi")
    for name in (
        "BiasDisparityBR@2",
        "BiasDisparityBR@2[F]",
        "BiasDisparityBR@2[f, Sci-Fi]",
        "BiasDisparityBR@2[Sci-Fi, F]",
    ):
        assert name not in result
        with pytest.raises(KeyError, match=r"was not evaluated.*Did you mean 'BiasDisparityBR@2\["):
            result[name]
    assert "REO@2[" not in result and "REO@2[]" not in result and "REO@2[Sci-Fi" not in result


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    labels=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(ODD),
        min_size=2,
        max_size=2,
        unique=True,
    )
)
def test_accepts_any_text_as_label(labels):
    first, second = labels
    result = run(
        metrics=["BiasDisparityBR", "REO"],
        item_clusters=[first, second, None, first, second],
        user_groups=[first, second, None, first],
    )
    assert (
        result[f"BiasDisparityBR@2{quoted(first, second)}"] == 0.5
        and result[f"REO@2{quoted(second)}"] == 0.5
    )
    assert {name: result[name] for name in result} == {
        value.name: value.value for value in result.entries
    }
    assert len(set(result)) == len(result) == 4 + 3
    assert [split_labels(name)[1] for name in result] == [value.cell for value in result.entries]
    document = json.loads(json.dumps([value.name for value in result.entries]))
    assert [result.entry(name).cell for name in document] == [
        value.cell for value in result.entries
    ]


def test_prints_each_value_on_one_line():
    result = run(metrics=["REO"], item_clusters=["two\nlines", "b", None, "b", "b"])
    assert len(repr(result).splitlines()) == 2 + len(result) + len(result.notes)


def test_looking_up_labels_is_linear(monkeypatch):
    values = tuple(
        MetricValue("BiasDisparityBR", 10, 1.0, target=1.0, cell=("g", str(number)))
        for number in range(150)
    )
    written = []
    monkeypatch.setattr(
        "weft.evaluation.metric_value.format_labels",
        lambda labels, write=weft.evaluation.metric_value.format_labels: (
            written.append(1),
            write(labels),
        )[1],
    )
    results_tables([Result(values, name="x"), Result(values, name="y")], 300)
    assert 0 < len(written) < 20 * 2 * len(values)


def test_labels_with_profiles_and_parameters():
    result = run(metrics=["ItemMADRanking", "REO", "BiasDisparityBR"], profile="elliot")
    assert result["ItemMADRanking@2"] == result["ItemMADRanking(discount=False)@2"]
    assert result["reo@2[Noir]"] == 1 / 2 and result["BiasDisparityBR@2[F,Noir]"] == 1 / 2


# --------------------------------------------------------------------------------------------------

NOT_OFFERED = torch.full_like(SCORES, -math.inf)
SITUATIONS = {
    "plain": {},
    "no truth": {"truth": {}},
    "nothing relevant": {"truth": {"ann": {"i0": 0.0}, "bob": []}},
    "one user": {"truth": {"ann": ["i0"]}},
    "everything relevant": {"truth": dict.fromkeys(NAMES["strings"][0], NAMES["strings"][1])},
    "nothing offered": {"source": NOT_OFFERED},
    "one item each": {"source": SCORES.where(SCORES >= 5, -math.inf)},
    "everything masked": {
        "train": dict.fromkeys(NAMES["strings"][0], NAMES["strings"][1]),
        "mask_seen": True,
    },
    "no train": {"train": {}},
    "train of strangers": {"train": {"q": ["i0"]}},
    "no groups": {"user_groups": {}},
    "one group": {"user_groups": dict.fromkeys(NAMES["strings"][0], "F")},
    "a group of nobody's list": {"source": SCORES.index_fill(0, torch.tensor([1]), -math.inf)},
    "no clusters": {"item_clusters": {}},
    "one cluster": {"item_clusters": dict.fromkeys(NAMES["strings"][1], "a")},
    "a cluster each": {"item_clusters": by_id(NAMES["strings"][1], range(5))},
    "no features": {"item_features": {}},
    "everything missing": {
        "truth": {},
        "train": {},
        "user_groups": {},
        "item_clusters": {},
        "item_features": {},
    },
}
VARIANTS = [
    "ItemCoverage(as_fraction=True)",
    "ShannonEntropy(normalized=True)",
    "SRecall(denominator=catalogue)",
    "AUC(scope=pooled)",
]
VARIANTS += [
    "MAE(average=users)",
    "EPC(relevance=graded)",
    "ARP(users=evaluated)",
    "APLT(denominator=list)",
    "PopRSP(users=evaluated)",
]
VARIANTS += [
    "EucDistance(metric_names=[nDCG, EPC], utopia_points=[1, 1], scope=users)",
    "F1(metric_name_1=EPC)",
]


@pytest.fixture(scope="module")
def situations():
    return {
        name: run(**{"metrics": [*BUILT_IN, *VARIANTS], "top_k": [1, 3], **changed})
        for name, changed in SITUATIONS.items()
    }


NOBODY_RELEVANT = "no user has a relevant item: every mean over evaluated users is undefined"


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_undefined_value_has_a_note(name, situations):
    result = situations[name]
    reasons = [one.partition(" undefined: ") for one in result.notes if " undefined: " in one]
    for value in result.entries:
        shown = re.escape(value.plain_name) + (r" for \[" if value.cell else r"(,| is| are)")
        named = [reason for names, _, reason in reasons if re.search(rf"(^|, ){shown}", names)]
        told = named or (value.users == 0 and NOBODY_RELEVANT in result.notes)
        assert not math.isnan(value.value) or (told and len(named) <= 1 and "" not in named), (
            value.name
        )
        if not (value.cell or math.isnan(value.value)):
            assert not named, value.name  # and nothing else has one


def test_notes_clusters_without_a_rate():
    result = run(
        metrics=["REO"],
        item_clusters=["a", "b", "c", "c", "b"],
        truth={"ann": ["i0"], "bob": ["i1"]},
    )
    assert math.isnan(result["REO@2[c]"]) and result["REO@2"] == 0
    assert note(result, "REO@2 for [c] is undefined", "the cluster has no relevant item")


@pytest.mark.parametrize(
    ("metric", "changed"),
    [
        ("F1(metric_name_1=EPC)", {"train": {}}),
        ("F1(metric_name_1=SRecall)", {"item_features": {}}),
    ],
)
def test_notes_the_right_reason(metric, changed):
    result = run(metrics=[metric], **changed)
    assert result.counts["evaluated_users"] == 4 and math.isnan(result[f"{metric}@2"])
    assert not any("no user has a relevant item" in one for one in result.notes)


@pytest.mark.parametrize("name", SITUATIONS)
def test_no_value_is_infinite(name, situations):
    for value in situations[name].entries:
        for number in (value.value, value.std_error, value.ci_low, value.ci_high, *value.parts):
            assert math.isnan(number) or abs(number) < 100, value.name


def test_situations_have_undefined_values(situations):
    """So that the tests above look at something undefined."""
    undefined = {
        name: sum(math.isnan(value.value) for value in result.entries)
        for name, result in situations.items()
    }
    assert (
        undefined["plain"] < len(situations["plain"].entries) / 10
        and min(undefined[name] for name in ("no truth", "nothing offered", "everything missing"))
        > 20
    )


def test_rejects_values_that_are_too_large():
    huge = torch.tensor([[1e200, 1.0]], dtype=torch.float64)
    assert weft.evaluate(huge, {0: [0]}, metrics="MAE")["MAE"] == 1e200
    with pytest.raises(InputError, match="MSE is infinite"):
        weft.evaluate(huge, {0: [0]}, metrics="MSE")


def test_error_of_large_ratings_does_not_mention_gains():
    with pytest.raises(InputError, match="MSE") as caught:
        weft.evaluate(torch.tensor([[1e200, 1.0]], dtype=torch.float64), {0: [0]}, metrics="MSE")
    assert "gain" not in str(caught.value) and "score" in str(caught.value)


def test_standard_error_that_overflows_is_not_zero():
    scores = torch.tensor([[1e200], [3e200]], dtype=torch.float64)
    entry = weft.evaluate(scores, {0: [0], 1: [0]}, metrics="MAE(average=users)").entries[0]
    assert entry.value == pytest.approx(2e200)
    assert math.isnan(entry.std_error) or entry.std_error == pytest.approx(1e200)


@pytest.mark.parametrize(
    "metric",
    [
        "EucDistance(metric_names=[nDCG], utopia_points=[1e30])",
        "Hypervolume(metric_names=[nDCG], nadir_points=[-1e30])",
    ],
)
def test_distant_reference_points(metric):
    assert run(metrics=[metric]).entries[0].value == pytest.approx(1e30)


# --------------------------------------------------------------------------------------------------

UP, DOWN, FAIR = (True, None), (False, None), (False, 0.0)
UNIT, OPEN = (0, 1), (0, None)
DIRECTIONS = {
    **dict.fromkeys((parse_name(name).name for name in ACCURACY), (*UP, UNIT)),
    "DCG": (*UP, OPEN),
    "FallOut": (*DOWN, UNIT),
    "MCC": (*UP, (-1, 1)),
    **dict.fromkeys(["MAE", "MSE", "RMSE", "LogLoss", "NE"], (*DOWN, OPEN)),
    "ScoreCalibration": (None, 1.0, OPEN),
    "MeanRank": (*DOWN, (1, None)),
    "PercentileRank": (*DOWN, UNIT),
    "AMRI": (*UP, (-1, 1)),
    "MAPE": (*DOWN, OPEN),
    "SMAPE": (*DOWN, (0, 2)),
    **dict.fromkeys(["R2", "ExplainedVariance"], (*UP, (None, 1))),
    **dict.fromkeys(["Pearson", "Kendall", "Spearman"], (*UP, (-1, 1))),
    "NDPM": (*DOWN, UNIT),
    "ECE": (*DOWN, UNIT),
    "RBPResidual": (*DOWN, UNIT),
    **dict.fromkeys(
        ["ItemCoverage", "UserCoverage", "NumRetrieved", "UserCoverageAtN"], (*UP, OPEN)
    ),
    "EPC": (*UP, UNIT),
    "EFD": (*UP, OPEN),
    "Gini": (*DOWN, UNIT),
    "ShannonEntropy": (*UP, OPEN),
    "SRecall": (*UP, UNIT),
    "ACLT": (*UP, OPEN),
    "APLT": (*UP, UNIT),
    "ARP": (*DOWN, OPEN),
    **dict.fromkeys(["PopREO", "PopRSP"], (*FAIR, UNIT)),  # std over mean of two rates is at most 1
    **dict.fromkeys(["BiasDisparityBS", "BiasDisparityBR"], (None, 1.0, OPEN)),
    "BiasDisparityBD": (None, 0.0, (-1, None)),
    **dict.fromkeys(
        ["REO", "RSP", "ItemMADRanking", "ItemMADRating", "UserMADRating"], (*FAIR, OPEN)
    ),
    "UserMADRanking": (*FAIR, UNIT),
    "EucDistance": (*DOWN, OPEN),
    "Hypervolume": (*UP, OPEN),
}
BOUNDS = {
    "ItemCoverage(as_fraction=True)": UNIT,
    "UserCoverage(as_fraction=True)": UNIT,
    "UserCoverageAtN(as_fraction=True)": UNIT,
    "ShannonEntropy(normalized=True)": UNIT,
    "EPC(relevance=graded)": OPEN,  # gains have no upper end
    "SRecall(numerator=list)": OPEN,
    "SRecall(numerator=list, denominator=catalogue)": UNIT,
    "F1(metric_name_1=EFD)": OPEN,
    "F1(metric_name_1=EPC)": UNIT,
}


def test_metrics_have_directions():
    for name, expected in DIRECTIONS.items():
        metric = find_metric(name)
        assert (metric.higher_is_better, metric.target, metric.bounds) == expected, name


def test_result_has_directions(situations):
    for value in situations["plain"].entries:
        metric = find_metric(parse_name(value.metric).name)
        higher, target = metric.higher_is_better, metric.target
        if value.cell and not value.metric.startswith("BiasDisparity"):
            assert (value.higher_is_better, value.target, value.merit) == (
                None,
                None,
                None,
            )  # a rate is neither good nor bad
        else:
            assert (value.higher_is_better, value.target) == (higher, target), value.name


@pytest.mark.parametrize("name", [*DIRECTIONS, *BOUNDS])
def test_values_stay_in_bounds(name, situations):
    low, high = BOUNDS.get(name) or DIRECTIONS[name][2]
    asked = next(
        known
        for known in [*BUILT_IN, *BOUNDS]
        if known == name or (name not in BOUNDS and parse_name(known).name == name)
    )
    evaluated = [
        run(**{"metrics": [asked], "top_k": [1, 3], **SITUATIONS[one]})
        for one in ("plain", "one user", "a cluster each")
    ]
    for value in (value for result in evaluated for value in result.entries):
        assert math.isnan(value.value) or (
            value.value >= low and (high is None or value.value <= high)
        ), value.name


def test_epc_bounds_include_unseen_items():
    metric = weft.metrics.EPC(k=2, train=dense(SEEN), relevance="none", unseen=100)
    metric.update(SCORES, RELEVANT)
    low = metric.bounds[0]
    assert low is None or float(metric.compute()) >= low


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_follow_the_parameters(name):
    given = {"train": dense(SEEN), "item_features": FEATURES, "num_items": 5}
    metric = weft.metrics.registry.build_metric(parse_name(name).with_cutoff(2), inputs=given)
    assert metric.bounds == BOUNDS[name]


# --------------------------------------------------------------------------------------------------

# Lists at 1 over four users, F F M M, and four items, a a b b. Every user's train and the models'
# scores are 0 or 1.
PICKS = {"x": [0, 0, 2, 2], "y": [0, 2, 0, 2], "z": [3, 3, 3, 3]}
STARS = {
    "HitRate@1": "x",  # 0 and 2 of users 0 and 2: higher is better
    "MAE": "x",  # 2 of 4 ratings wrong by 1, the others 3: lower is better
    "ARP@1": "z",  # item 3 is new: lower is better
    "Gini@1": "xy",  # two items twice each, against one four times: lower is better
    "ItemCoverage@1": "xy",
    "BiasDisparityBR@1[F, a]": "y",  # 2, 1, 0: 1 is best
    "BiasDisparityBR@1[M, b]": "y",  # 2, 1, 2
    "BiasDisparityBD@1[F, a]": "y",  # 1, 0, -1: 0 is best
    "BiasDisparityBS[F, a]": "",  # the same for all: nothing to choose
    "RSP@1": "xy",  # 0, 0, 1: 0 is fair
    "RSP@1[a]": "",  # a rate has no direction
    # 1/2, 3/4, 3/4: lower is better
    "EucDistance(metric_names=[HitRate], utopia_points=[1])@1": "x",
    # 1/2, 1/4, 3/4: higher is better
    "Hypervolume(metric_names=[HitRate, ARP], nadir_points=[0, 3])@1": "z",
}


def models():
    for name, picks in PICKS.items():
        scores = torch.nn.functional.one_hot(torch.tensor(picks), 4).double()
        yield weft.evaluate(
            scores,
            {user: [user] for user in range(4)},
            train={0: [0], 1: [2], 2: [0], 3: [2]},
            mask_seen=False,
            metrics=list(
                dict.fromkeys(
                    name.partition("[")[0] if name.startswith(("Bias", "RSP")) else name
                    for name in STARS
                )
            ),
            user_groups=["F", "F", "M", "M"],
            item_clusters=["a", "a", "b", "b"],
            name=name,
        )


def starred(*results):
    """For each row of the table the models with a star, and without."""
    console = Console(width=300, file=io.StringIO())
    _, (table,) = results_tables(results, 300)
    console.print(table)
    rows = [line.split("│") for line in console.file.getvalue().splitlines()[1:] if "│" in line]
    return {
        row[0].strip(): "".join(one.name for one, cell in zip(results, row[1:]) if "*" in cell)
        for row in rows
    }


def test_marks_the_best_model():
    found = starred(*models())
    assert {name: found[name] for name in STARS} == STARS
    assert starred(*list(models())[::-1])["Gini@1"] == "yx"


def results(values, **about):
    return [
        Result((MetricValue("M", 1, value, **about),), name=name)
        for name, value in zip("xyz", values)
    ]


@pytest.mark.parametrize(
    ("values", "about_metric", "stars"),
    [
        ([0.1, math.nan, 0.3], {"higher_is_better": True}, "z"),
        ([0.1, math.nan, 0.3], {"higher_is_better": False}, "x"),
        ([math.nan, 2.0, 0.25], {"target": 1.0}, "z"),
        ([-0.5, 0.25, 1.0], {"target": 0.0}, "y"),
        ([-3.0, -0.5, -1.0], {"higher_is_better": True}, "y"),
        ([0.5, 0.5, 0.75], {"higher_is_better": False}, "xy"),
        ([0.5, 0.5, 0.5], {"higher_is_better": False}, ""),
        ([0.1, 0.2, 0.3], {}, ""),
        ([math.nan] * 3, {"target": 0.0}, ""),
        ([math.nan, math.nan, 0.3], {"higher_is_better": True}, ""),
        # 0 is fair, and below 0 there is nothing
        ([0.4, 0.1, 0.2], {"higher_is_better": False, "target": 0.0}, "y"),
    ],
)
def test_marks_the_best_model_by_direction(values, about_metric, stars):
    assert starred(*results(values, **about_metric)) == {"M@1": stars}


def test_marks_equal_models():
    assert starred(*results([0.5, 1.5, 3.0], target=1.0)) == {"M@1": "xy"}


def test_comparison_follows_the_direction():
    scores = torch.rand(60, 8, generator=torch.Generator().manual_seed(1))
    train = np.tril(np.ones((60, 8)))  # the first items are the most popular ones
    popular, rare = (scores + torch.linspace(up, -up, 8) for up in (1, -1))
    settings = {
        "truth": dense([[n % 8] for n in range(60)], 8),
        "train": train,
        "mask_seen": False,
        "per_user": True,
    }
    evaluated = [
        weft.evaluate(table, metrics=["ARP", "EPC(relevance=none)"], top_k=2, name=name, **settings)
        for name, table in (("popular", popular), ("rare", rare))
    ]
    (_, (_, (table,))) = comparison_tables(weft.compare(evaluated), 300).blocks
    console = Console(width=300, file=io.StringIO())
    console.print(table)
    rows = [line for line in console.file.getvalue().splitlines() if "@2" in line]
    assert len(rows) == 2 and all(
        "*" in row.split("│")[2] and "*" not in row.split("│")[1] for row in rows
    )


# --------------------------------------------------------------------------------------------------

POINT = "EucDistance(metric_names={}, utopia_points={})"
VOLUME = "Hypervolume(metric_names=[nDCG, Gini], nadir_points=[0, 1], higher_is_better={})"
WRONG = {
    **{
        f"{name}(pop_ratio={bad})": ["pop_ratio=", "above 0 and at most 1"]
        for name in ("ACLT", "APLT", "PopREO", "PopRSP")
        for bad in ("0", "1.5", "-1", "x", "True", "None", "[0.5]")
    },
    **{
        f"{name}(users=all)": ["users='all'", "'lists', 'evaluated'"]
        for name in (
            "ACLT",
            "APLT",
            "ARP",
            "PopRSP",
            "Gini",
            "ItemCoverage",
            "ShannonEntropy",
            "UserMADRating",
        )
    },
    **{
        f"{name}(unseen={bad})": ["unseen=", "number of at least 0"]
        for name in ("ARP", "EPC")
        for bad in ("-1", "x", "None", "True")
    },
    **{
        f"{name}(gain=squared)": ["gain='squared'", "'exponential', 'linear'"]
        for name in ("EPC", "EFD", "ItemMADRanking", "UserMADRanking")
    },
    **{
        f"{name}(relevance=ternary)": ["relevance='ternary'", "'binary', 'graded', 'none'"]
        for name in ("EPC", "EFD")
    },
    **{
        f"{name}(average=items)": ["average='items'", "'cells', 'users'"]
        for name in ("MAE", "MSE", "RMSE")
    },
    **{
        f"{name}@5": [f"{name} does not depend on a cut-off", f"'{name}' without '@5'"]
        for name in ("MAE", "MSE", "RMSE", "BiasDisparityBS")
    },
    **{
        f"UserCoverageAtN(n={bad})": ["UserCoverageAtN got n=", "integer of at least 1"]
        for bad in ("0", "-1", "2.5", "x", "True")
    },
    **{
        f"ShannonEntropy(base={bad})": ["base=", "Choose 'e' or 2"]
        for bad in ("10", "x", "'2'", "True", "None", "[2]")
    },
    "Gini(denominator=k)": ["denominator='k'", "'N-1', 'N'"],
    "APLT(denominator=N)": ["denominator='N'", "'k', 'list'"],
    "SRecall(denominator=k)": ["denominator='k'", "'relevant', 'catalogue'"],
    "SRecall(numerator=k)": ["numerator='k'", "'relevant', 'list'"],
    "ItemMADRating(appearances=some)": ["appearances='some'", "'relevant', 'all'"],
    POINT.format("[]", "[]"): ["EucDistance got metric_names=", "list of names"],
    POINT.format("nDCG", "1"): ["EucDistance got metric_names='nDCG'", "list of names"],
    POINT.format("[nDCG, EPC]", "[1]"): [
        "EucDistance got utopia_points=",
        "one number for each of its 2 metrics",
    ],
    POINT.format("[nDCG]", "[1, 1]"): [
        "EucDistance got utopia_points=",
        "one number for each of its 1 metrics",
    ],
    POINT.format("[nDCG]", "1"): ["EucDistance got utopia_points=1", "one number for each"],
    POINT.format("[nDCG]", "[x]"): ["EucDistance got utopia_points=", "numbers"],
    POINT.format("[nDCG]", "['1']"): ["EucDistance got utopia_points=", "numbers"],
    POINT.format("[nDCG]", "[True]"): ["EucDistance got utopia_points=", "numbers"],
    POINT.format("[nDCG]", "[None]"): ["EucDistance got utopia_points=", "numbers"],
    POINT.format("[nDCG@5]", "[1]"): [
        "EucDistance evaluates nDCG at the cut-off of EucDistance",
        "'nDCG' without '@5'",
    ],
    POINT.format("[nDGC]", "[1]"): ["'nDGC'", "Did you mean 'nDCG'"],
    POINT.format("[nDCG(gian=linear)]", "[1]"): [
        "nDCG has no parameter 'gian'",
        "Did you mean 'gain'",
    ],
    POINT.format("[3]", "[1]"): ["EucDistance got the component 3; expected the name of a metric"],
    POINT.format("[BiasDisparityBR]", "[1]"): [
        "EucDistance cannot combine BiasDisparityBR",
        "no single value",
    ],
    POINT.format("[BiasDisparityBS]", "[1]"): [
        "EucDistance cannot combine BiasDisparityBS",
        "no single value",
    ],
    POINT.format("[AUC(scope=pooled)]", "[1]"): ["EucDistance cannot combine AUC"],
    POINT.format("[nDCG]", "[1], scope=model"): ["scope='model'", "'system', 'users'"],
    POINT.format("[Gini]", "[1], scope=users"): [
        "EucDistance cannot combine Gini",
        "no value per user",
    ],
    POINT.format("[MAE]", "[1], scope=users"): [
        "EucDistance cannot combine MAE",
        "no value per user",
    ],
    "EucDistance(metric_names=[nDCG])": ["needs utopia_points", "write for example 'EucDistance"],
    "EucDistance": ["EucDistance@2 needs metric_names and utopia_points"],
    "Hypervolume(metric_names=[nDCG], utopia_points=[1])": [
        "Hypervolume has no parameter 'utopia_points'",
        "nadir_points",
    ],
    "Hypervolume(metric_names=[BiasDisparityBD], nadir_points=[0])": [
        "Hypervolume cannot combine BiasDisparityBD"
    ],
    "Hypervolume(metric_names=[nDCG], nadir_points=[])": [
        "Hypervolume got nadir_points",
        "each of its 1 metrics",
    ],
    VOLUME.format("[True]"): [
        "Hypervolume got higher_is_better=",
        "True or False for each of its 2 metrics",
    ],
    VOLUME.format("[True, 1]"): ["Hypervolume got higher_is_better=", "True or False"],
    VOLUME.format("[True, None]"): ["Hypervolume got higher_is_better=", "True or False"],
    VOLUME.format("[]"): ["Hypervolume got higher_is_better=", "True or False"],
    VOLUME.format("up"): ["Hypervolume got higher_is_better='up'", "True or False"],
    "F1(metric_name_1=Gini)": ["F1 cannot combine Gini", "no value per user"],
    "F1(metric_name_1=REO)": ["F1 cannot combine REO", "no value per user"],
    "F1(metric_name_2=BiasDisparityBR)": ["F1 cannot combine BiasDisparityBR"],
    "F1(metric_name_2=MAE)": ["F1 cannot combine MAE", "no value per user"],
    "REO(gain=linear)": ["REO has no parameter 'gain'", "no parameters"],
    "EPC(train=x)": ["EPC has no parameter 'train'"],
    "Gini(num_items=3)": ["Gini has no parameter 'num_items'"],
    "NumRetrieved(as_fraction=True)": ["NumRetrieved has no parameter 'as_fraction'"],
    "PopREO(users=lists)": ["PopREO has no parameter 'users'", "pop_ratio"],
}


@pytest.mark.parametrize("name", WRONG)
def test_rejects_wrong_parameters(name):
    error = (
        UnknownMetric
        if "nDGC" in name
        else UnknownParameter
        if "no parameter" in WRONG[name][0]
        else SettingError
    )
    refused(WRONG[name], error, metrics=["nDCG", name])


def flag(name, bad):
    return {
        f"{metric}({name}={bad})"
        for metric in {
            "as_fraction": ["ItemCoverage", "UserCoverage", "UserCoverageAtN"],
            "normalized": ["ShannonEntropy"],
            "discount": ["ItemMADRanking"],
        }[name]
    }


@pytest.mark.parametrize(
    "name",
    sorted(
        set().union(
            *(
                flag(name, bad)
                for name in ("as_fraction", "normalized", "discount")
                for bad in ("no", "'False'", "2", "None")
            )
        )
    ),
)
def test_rejects_wrong_boolean_parameters(name):
    refused(["(as_fraction|normalized|discount)=", "True or False"], SettingError, metrics=[name])


@pytest.mark.parametrize("bad", ["True", "5"])
def test_rejects_one_direction_for_several_metrics(bad):
    refused(
        ["Hypervolume got higher_is_better=", "True or False for each"],
        SettingError,
        metrics=[VOLUME.format(bad)],
    )


def test_entropy_base_has_one_name():
    assert canonical_name("ShannonEntropy(base=2.0)@5") == canonical_name(
        "ShannonEntropy(base=2)@5"
    )


def test_relevance_graded_has_one_name():
    assert canonical_name("EPC(relevance=Graded)@5") == canonical_name(
        "EPC(relevance=Discounted)@5"
    )


NUMPY = {
    "pop_ratio": lambda: weft.metrics.ACLT(k=2, train=dense(SEEN), pop_ratio=np.float32(0.5)),
    "unseen": lambda: weft.metrics.ARP(k=2, train=dense(SEEN), unseen=np.int64(1)),
    "beta": lambda: weft.metrics.F1(k=2, beta=np.float32(0.5)),
    "points": lambda: weft.metrics.EucDistance(
        k=2, metric_names=["nDCG"], utopia_points=[np.int64(1)]
    ),
    "an array of points": lambda: weft.metrics.EucDistance(
        k=2, metric_names=["nDCG"], utopia_points=np.array([1.0])
    ),
    "higher_is_better": lambda: weft.metrics.Hypervolume(
        k=2, metric_names=["nDCG"], nadir_points=[0], higher_is_better=[np.True_]
    ),
}


@pytest.mark.parametrize("make", NUMPY.values(), ids=NUMPY)
def test_names_of_numpy_parameters_parse(make):
    metric = make()
    assert parse_name(str(metric.spec)) == metric.spec


def test_accepts_numpy_parameters():
    assert (
        str(weft.metrics.ACLT(k=2, train=dense(SEEN), pop_ratio=np.float64(0.5)).spec)
        == "ACLT(pop_ratio=0.5)@2"
    )
    assert str(weft.metrics.UserCoverageAtN(k=2, n=np.int64(1)).spec) == "UserCoverageAtN(n=1)@2"


def test_parameters_in_any_case_and_order():
    for one, other in {
        "gini(Denominator=n)": "Gini(denominator=N)",
        "EPC(relevance=NONE)": "EPC(relevance=none)",
        "epc(relevance=discounted)": "EPC(relevance=graded)",
        "EPC(gain=linear)": "EPC",  # no gain is looked at
        "ACLT(users=Lists, pop_ratio=0.8)": "ACLT",
        "ARP(unseen=0.0)": "ARP",
        "UserCoverageAtN(n=None)": "UserCoverageAtN",
        "ItemCoverage(as_fraction=false)": "ItemCoverage",
        "eucdistance(utopia_points=[1.0], metric_names=[ndcg(GAIN=exponential)])": POINT.format(
            "[nDCG]", "[1]"
        ),
    }.items():
        assert canonical_name(f"{one}@5") == canonical_name(f"{other}@5") == f"{other}@5"


def test_shared_labels_have_missing_values():
    """The inputs of the other tests hold what these tests are about."""
    given = make_labels(8, 10)
    assert (
        None in given["user_groups"]
        and None in given["item_clusters"]
        and set() in given["item_features"]
    )


# ------------------------------------------------------------------------------------ unused inputs

UNUSED = {
    "user_groups": {"ann": "F", "bob": "M"},
    "item_clusters": {"tea": 1, "rye": 2},
    "item_features": {"tea": ["hot"], "rye": ["grain"]},
}
TWO_LISTS = {"ann": ["tea", "rye"], "bob": ["rye", "tea"]}
TWO_TRUTHS = {"ann": ["tea"], "bob": ["tea"]}


def unused_notes(result):
    return [note for note in result.notes if "no metric of this run uses it" in note]


@pytest.mark.parametrize("name", UNUSED)
def test_notes_unused_labels(name):
    one = {name: UNUSED[name]}
    result = weft.evaluate(TWO_LISTS, TWO_TRUTHS, metrics="nDCG", top_k=2, **one)
    (note,) = unused_notes(result)
    assert note.startswith(
        f"{name} was given, but no metric of this run uses it (metrics that do: "
    )
    assert {"item_features": "CategoryDiversity"}.get(name, "BiasDisparityBD") in note
    distributed = evaluate_locally(TWO_LISTS, TWO_TRUTHS, metrics="nDCG", top_k=2, **one)
    assert unused_notes(distributed) == [note]
    readers = {"user_groups": "UserMADRanking", "item_clusters": "RSP", "item_features": "SRecall"}
    used = weft.evaluate(TWO_LISTS, TWO_TRUTHS, metrics=[readers[name], "nDCG"], top_k=2, **one)
    assert unused_notes(used) == []
    composite = f"F1(metric_name_1={readers[name]}, metric_name_2=nDCG)"
    if name == "item_features":
        used = weft.evaluate(TWO_LISTS, TWO_TRUTHS, metrics=composite, top_k=2, **one)
        assert unused_notes(used) == []


def test_groups_are_used_by_values_per_user():
    groups = {"user_groups": UNUSED["user_groups"]}
    result = weft.evaluate(TWO_LISTS, TWO_TRUTHS, metrics="nDCG", top_k=2, per_user=True, **groups)
    assert unused_notes(result) == [] and "user_groups" in result.user_labels.columns


def test_evaluator_notes_unused_labels():
    evaluator = weft.Evaluator("nDCG", top_k=1, item_features=[["a"], ["b"]], num_items=2)
    evaluator.update(torch.tensor([[0.1, 0.2]]), torch.tensor([[0.0, 1.0]]))
    assert len(unused_notes(evaluator.compute())) == 1


def test_notes_unused_labels_in_yaml_and_on_the_command_line(tmp_path):
    (tmp_path / "lists.csv").write_text("user,item,score\nann,tea,2\nann,rye,1\n")
    (tmp_path / "truth.csv").write_text("user,item\nann,rye\n")
    (tmp_path / "genres.csv").write_text("item,genre\ntea,hot\nrye,grain\n")
    flags = [f"--recs={tmp_path}/lists.csv", f"--truth={tmp_path}/truth.csv", "-m", "MRR@2"]
    flags += [f"--item-features={tmp_path}/genres.csv"]
    done = CliRunner().invoke(app, ["evaluate", *flags, "--format", "json"])
    assert done.exit_code == 0, done.output
    assert "item_features was given, but no metric of this run uses it" in done.stdout
    (tmp_path / "run.yaml").write_text(
        "data: {truth: truth.csv, item_features: genres.csv}\nmodels: {lists: lists.csv}\n"
        "evaluation: {metrics: [MRR@2]}\n"
    )
    (result,) = run_configuration(weft.config.load(tmp_path / "run.yaml"))
    assert len(unused_notes(result)) == 1


# -------------------------------------------------------------------------------- feature separator

GENRES = {"tea": "Hot|Leaf", "rye": "Grain", "oat": "Grain | Hot||", "fig": None}
SPLIT = {"tea": ["Hot", "Leaf"], "rye": ["Grain"], "oat": ["Grain", "Hot"]}
GENRE_LISTS = {"ann": ["tea", "rye"], "bob": ["fig", "oat"]}
GENRE_TRUTH = {"ann": ["tea", "oat"], "bob": ["oat", "rye"]}
GENRE_FORMS = {
    "dict": GENRES,
    "series": pd.Series(GENRES),
    "pandas": pd.DataFrame({"item": list(GENRES), "genres": list(GENRES.values())}),
    "polars": pl.DataFrame({"item": list(GENRES), "genres": list(GENRES.values())}),
    "a row per value": pl.DataFrame(
        {"item": ["tea", "tea", "rye", "oat"], "genre": ["Hot", "Leaf|Hot", "Grain", "Grain|Hot"]}
    ),
    "lists of values": {"tea": ["Hot|Leaf", "Hot"], "rye": ["Grain"], "oat": {"Grain|Hot"}},
}


def genre_recall(features, **settings):
    return weft.evaluate(
        GENRE_LISTS, GENRE_TRUTH, metrics="SRecall@2", item_features=features, **settings
    )


@pytest.mark.parametrize("features", GENRE_FORMS.values(), ids=GENRE_FORMS)
def test_splits_text_with_several_features(features):
    expected = genre_recall(SPLIT)["SRecall@2"]
    result = genre_recall(features, feature_separator="|")
    assert result["SRecall@2"] == expected and result.settings["feature_separator"] == "|"
    assert not any("separator" in note for note in result.notes)
    apart = evaluate_locally(
        GENRE_LISTS, GENRE_TRUTH, metrics="SRecall@2", item_features=features, feature_separator="|"
    )
    assert apart["SRecall@2"] == expected
    assert genre_recall(GENRES)["SRecall@2"] != expected


def test_separators_of_several_characters_and_numbers_as_features():
    assert (
        genre_recall(
            {item: "; ".join(parts) for item, parts in SPLIT.items()}, feature_separator="; "
        )["SRecall@2"]
        == genre_recall(SPLIT)["SRecall@2"]
    )
    numbers = {"tea": [1, 2], "rye": [3], "oat": [3, 1]}
    result = genre_recall(numbers, feature_separator="|")
    assert result["SRecall@2"] == genre_recall(SPLIT)["SRecall@2"]
    assert "no value of item_features contains the feature_separator '|'" in result.notes


def test_splits_features_in_every_interface(tmp_path):
    (tmp_path / "lists.csv").write_text("user,item\nann,tea\nann,rye\nbob,fig\nbob,oat\n")
    (tmp_path / "truth.csv").write_text("user,item\nann,tea\nann,oat\nbob,oat\nbob,rye\n")
    genres = "".join(f"{item},{value or ''}\n" for item, value in GENRES.items())
    (tmp_path / "genres.csv").write_text("item,genres\n" + genres)
    expected = genre_recall(SPLIT)["SRecall@2"]
    assert genre_recall(tmp_path / "genres.csv", feature_separator="|")["SRecall@2"] == expected
    flags = [f"--recs={tmp_path}/lists.csv", f"--truth={tmp_path}/truth.csv", "-m", "SRecall@2"]
    flags += [f"--item-features={tmp_path}/genres.csv", "--format", "json"]
    done = CliRunner().invoke(app, ["evaluate", *flags, "--feature-separator", "|"])
    assert done.exit_code == 0 and f'"value": {expected}' in done.stdout, done.output
    done = CliRunner().invoke(app, ["check", *flags, "--feature-separator", "|"])
    assert done.exit_code == 0 and json.loads(done.stdout)["values"] == {
        "lists": {"SRecall@2": expected}
    }
    (tmp_path / "run.yaml").write_text(
        "data: {truth: truth.csv, item_features: genres.csv}\nmodels: {lists: lists.csv}\n"
        "evaluation: {metrics: [SRecall@2], feature_separator: '|'}\n"
    )
    (result,) = run_configuration(weft.config.load(tmp_path / "run.yaml"))
    assert result["SRecall@2"] == expected


def test_evaluator_splits_features():
    evaluator = weft.Evaluator(
        "SRecall@1", item_features=["a|b", "b", "c|a"], feature_separator="|", num_items=3
    )
    evaluator.update(torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([[1.0, 0.0, 0.0]]))
    assert evaluator.compute()["SRecall@1"] == 0.0  # no hit
    evaluator.reset()
    evaluator.update(torch.tensor([[0.4, 0.2, 0.3]]), torch.tensor([[1.0, 0.0, 1.0]]))
    assert evaluator.compute()["SRecall@1"] == 2 / 3


@pytest.mark.parametrize("separator", ["|", ";", ","])
def test_notes_values_with_several_features(separator):
    given = {item: separator.join(parts) for item, parts in SPLIT.items()}
    notes = [note for note in genre_recall(given).notes if "separator" in note]
    assert notes == [
        f"2 of 3 values of item_features contain {separator!r}, such as "
        f"{f'Grain{separator}Hot'!r}, and count as one feature each; "
        f"feature_separator={separator!r} splits them"
    ]
    few = {**given, **{f"item {number}": f"feature {number}" for number in range(8)}}
    result = genre_recall(few, items=[*few, "fig"])
    assert not any("separator" in note for note in result.notes)


def test_rejects_a_separator_without_features():
    with pytest.raises(MissingInput, match=r"feature_separator='\|' needs item_features="):
        weft.evaluate(GENRE_LISTS, GENRE_TRUTH, metrics="MRR@2", feature_separator="|")
    with pytest.raises(SettingError, match="must be a string"):
        genre_recall(GENRES, feature_separator="")


VECTORS = np.array([[0.3, 0.7], [-0.2, 0.1], [0.5, 0.4]])


@pytest.mark.parametrize(
    "vectors",
    [
        VECTORS,
        torch.tensor(VECTORS),
        sp.csr_matrix(VECTORS),
        sp.coo_array(VECTORS),
        VECTORS * 10 // 1,
    ],
)
def test_rejects_matrices_of_weights_as_features(vectors):
    with pytest.raises(
        InputError, match=r"item_features is a matrix with the value .*; expected 0 or 1"
    ):
        weft.evaluate(
            torch.rand(2, 3), {0: [1], 1: [2]}, metrics="SRecall@2", item_features=vectors
        )


@pytest.mark.parametrize("form", [dict, list], ids=["dict", "list"])
def test_rejects_vectors_as_features(form):
    vectors = {item: row.tolist() for item, row in zip(("tea", "rye", "oat"), VECTORS)}
    with pytest.raises(InputError, match=r"has the feature -0\.2; features are a set of strings"):
        weft.evaluate(
            {"ann": ["tea", "rye"]},
            {"ann": ["oat"]},
            items=list(vectors),
            metrics="SRecall@2",
            item_features=vectors if form is dict else list(vectors.values()),
        )
