"""`weft.prepare`: inputs read once give the results of `weft.evaluate`, for every source."""

import dataclasses
import gc
import inspect
import re
import threading
import weakref

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import weft
from metric_cases import make_labels
from weft.data import evaluation_inputs
from weft.errors import InputError, SettingError, UnknownMetric, WeftError

USERS, ITEMS = 30, 25
GENERATOR = np.random.default_rng(7)
SCORES = [GENERATOR.normal(size=(USERS, ITEMS)).astype(np.float32) for _ in range(3)]
TRUTH = {
    user: {int(item): int(rating) for item, rating in zip(GENERATOR.choice(ITEMS, 3, False), "125")}
    for user in range(USERS - 3)
}
MATRIX = csr_matrix(
    (
        [rating for row in TRUTH.values() for rating in row.values()],
        (
            [user for user, row in TRUTH.items() for _ in row],
            [item for row in TRUTH.values() for item in row],
        ),
    ),
    shape=(USERS, ITEMS),
)
TRAIN = {user: GENERATOR.choice(ITEMS, 1 + user % 4, False).tolist() for user in range(USERS)}
CANDIDATES = {user: GENERATOR.choice(ITEMS, 9, False).tolist() for user in range(USERS)}
LABELS = {name: dict(enumerate(labels)) for name, labels in make_labels(USERS, ITEMS).items()}
METRICS = ["nDCG", "Recall", "Gini", "EPC", "REO", "MAP"]


def as_lists(scores, length):
    return {
        user: {int(item): float(row[item]) for item in np.argsort(-row)[: length + user % 3]}
        for user, row in enumerate(scores)
    }


class Scorer:
    """A model that can be asked for candidates only."""

    def __init__(self, scores):
        self.matrix = scores

    def score(self, users, items=None):
        rows = self.matrix[np.asarray(users)]
        return torch.from_numpy(rows if items is None else np.take_along_axis(rows, items, 1))


SOURCES = {
    "torch": lambda number: torch.from_numpy(SCORES[number]),
    "NumPy": lambda number: SCORES[number],
    "integers": lambda number: (SCORES[number] * 100).astype(np.int32),
    "factors": lambda number: weft.Factors(SCORES[number][:, :4], SCORES[0][:, :4][:ITEMS]),
    "callable": lambda number: lambda users: torch.from_numpy(SCORES[number][np.asarray(users)]),
    "lists": lambda number: as_lists(SCORES[number], 4 + number),
    "frame": lambda number: pl.DataFrame(
        [(user, item) for user, row in as_lists(SCORES[number], 6).items() for item in row],
        schema=["user", "item"],
        orient="row",
    ),
}
OPTIONS = {
    "ties": ["random", "expected", "optimistic"],
    "relevance_threshold": [2.0, 0.5],
    "mask_seen": [False, True],
    "strategy": ["sampled"],
    "candidates": [CANDIDATES, "cold", "warm", "listed"],
    "per_user": [True],
    "bootstrap": [20],
    "slices": [{"activity": "quantiles(2)", "group": LABELS["user_groups"]}],
    "exposure": [True],
    "empty_users": ["zero"],
    "missing_lists": ["skip"],
    "extra_users": ["skip"],
    "profile": ["warprec"],
    "batch_size": [7],
    "train": [csr_matrix(np.eye(USERS, ITEMS))],
    "user_groups": [LABELS["user_groups"]],
    "items": [list(range(ITEMS))],
}
drawn_options = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values) for name, values in OPTIONS.items()}
)


def _show(value):
    """Return the repr of a value without the addresses of objects in it."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def outcome(evaluate):
    """Return everything that a result holds, as texts and frames, or the error."""
    try:
        result = evaluate()
    except WeftError as error:
        return type(error), str(error)
    fields = {name.name: getattr(result, name.name) for name in dataclasses.fields(result)}
    frames = {name: value for name, value in fields.items() if isinstance(value, pl.DataFrame)}
    return (
        {name: _show(value) for name, value in fields.items() if name not in frames},
        {name: (frame.schema, frame.rows()) for name, frame in frames.items()},
    )


@settings(max_examples=60, deadline=None)
@given(
    drawn_options,
    st.sampled_from([TRUTH, TRUTH, MATRIX]),
    st.lists(
        st.tuples(st.sampled_from(sorted(SOURCES)), st.integers(0, 2)), min_size=2, max_size=4
    ),
)
@pytest.mark.filterwarnings("ignore")
def test_every_source_has_the_result_of_evaluate(options, truth, sources):
    options = {"train": TRAIN, **options, "metrics": METRICS, "top_k": [2, 5]}
    clusters = LABELS["item_clusters"]  # by position, if there is an order of items
    clusters = list(clusters.values()) if truth is MATRIX else clusters
    options |= {"item_clusters": clusters, "seed": 4}
    try:
        prepared = weft.prepare(truth, **options)
    except WeftError as error:
        for kind, number in sources:  # an error that does not depend on the source
            with pytest.raises(type(error)):
                weft.evaluate(SOURCES[kind](number), truth, **options)
        return
    for kind, number in sources:
        name = None if number else f"{kind} {number}"
        expected = outcome(
            lambda kind=kind, number=number, name=name: weft.evaluate(
                SOURCES[kind](number), truth, name=name, **options
            )
        )
        found = outcome(
            lambda kind=kind, number=number, name=name: prepared.evaluate(
                SOURCES[kind](number), name=name
            )
        )
        assert found == expected


def test_the_comparison_sees_differences():
    first, second = (
        outcome(lambda scores=scores: weft.evaluate(scores, TRUTH, metrics="MRR@5", per_user=True))
        for scores in SCORES[:2]
    )
    assert first[0]["entries"] != second[0]["entries"] and first[1] != second[1]


# --------------------------------------------------------------------------------------------------


def test_inputs_are_read_once(monkeypatch, tmp_path):
    read = []
    original = evaluation_inputs.read_interactions
    monkeypatch.setattr(
        evaluation_inputs,
        "read_interactions",
        lambda data, name, **more: read.append(name) or original(data, name, **more),
    )
    path = tmp_path / "truth.csv"
    rows = [(user, item, rating) for user, row in TRUTH.items() for item, rating in row.items()]
    pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row").write_csv(path)
    prepared = weft.prepare(
        path, train=TRAIN, metrics=["nDCG"], top_k=5, users=range(USERS), items=range(ITEMS)
    )
    assert read == ["truth", "train"]
    path.unlink()
    for scores in SCORES:
        prepared.evaluate(scores)
    assert read == ["truth", "train"]


def test_scores_of_other_users_or_items_are_refused():
    prepared = weft.prepare(TRUTH, train=TRAIN, metrics=["nDCG"], top_k=5)
    prepared.evaluate(SCORES[0])
    with pytest.raises(InputError, match=r"30 users and 24 items.*prepared for 30 users and 25"):
        prepared.evaluate(SCORES[0][:, :-1])
    with pytest.raises(InputError, match=r"29 users and 25 items.*prepare another one"):
        prepared.evaluate(SCORES[0][:-1])
    assert prepared.evaluate(SCORES[1])["nDCG@5"] > 0


def test_prepare_raises_errors_of_inputs_and_settings():
    with pytest.raises(InputError, match="negative ratings"):
        weft.prepare({0: {1: -2}}, metrics=["nDCG"], top_k=5).evaluate(SCORES[0])
    with pytest.raises(InputError, match="truth"):
        weft.prepare({0: {1: float("nan")}}, metrics=["nDCG"], top_k=5)
    with pytest.raises(SettingError, match="ties"):
        weft.prepare(TRUTH, metrics=["nDCG"], top_k=5, ties="none")
    with pytest.raises(SettingError, match="implicit"):
        weft.prepare(TRUTH, metrics=["nDCG"], top_k=5, implicit=True, relevance_threshold=2)
    with pytest.raises(UnknownMetric, match="nDCH"):
        weft.prepare(TRUTH, metrics=["nDCH"], top_k=5)
    with pytest.raises(TypeError, match="unknown"):
        weft.prepare(TRUTH, metrics=["nDCG"], unknown=5)
    with pytest.raises(TypeError, match="source"):
        weft.prepare(TRUTH, metrics=["nDCG"], source=SCORES[0])
    with pytest.raises(SettingError, match="name"):
        weft.prepare(TRUTH, metrics=["nDCG"], top_k=5).evaluate(SCORES[0], name=3)


def test_signature_lists_the_options_of_evaluate():
    options = dict(inspect.signature(weft.evaluate).parameters)
    del options["source"], options["name"]
    assert dict(inspect.signature(weft.prepare).parameters) == options


class Counting(weft.TopKMetric):
    """A metric with its own states: the number of rows."""

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("rows", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, preds, **kwargs):
        self.rows += len(preds)

    def compute(self):
        return self.rows


def test_metrics_with_states_start_empty():
    prepared = weft.prepare(TRUTH, metrics=[Counting(3), "nDCG@3"])
    assert [prepared.evaluate(scores)["Counting@3"] for scores in SCORES] == [USERS] * 3


def test_sources_are_not_kept():
    prepared = weft.prepare(TRUTH, train=TRAIN, metrics=["nDCG", "Gini"], top_k=5)
    scores = SCORES[0].copy()
    memory = weakref.ref(scores)
    prepared.evaluate(scores)
    del scores
    gc.collect()
    assert memory() is None


def test_threads_evaluate_at_the_same_time():
    options = {"train": TRAIN, "metrics": METRICS, "top_k": [2, 5], **LABELS}
    expected = [outcome(lambda one=one: weft.evaluate(one, TRUTH, **options)) for one in SCORES]
    prepared = weft.prepare(TRUTH, **options)
    started, found = threading.Barrier(6), {}

    def work(number):
        started.wait()
        scores = SCORES[number % 3]
        found[number] = [outcome(lambda: prepared.evaluate(scores)) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: [expected[number % 3]] * 3 for number in range(6)} == found
