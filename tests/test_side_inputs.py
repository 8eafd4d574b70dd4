"""Inputs that metrics declare: numbers, vectors and labels of items and users."""

import json
import math
import os
import pickle
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from typer.testing import CliRunner

import local_engine
import weft
from engines import require_ray, require_spark
from weft import cli, config
from weft._input_kinds import BUILT_IN_INPUTS
from weft.config import run as config_run
from weft.errors import InputError, MissingInput, SettingError, UnknownParameter
from weft.metrics import registry
from weft.metrics.declarations import own_parameters
from weft.metrics.registry import built_in_metrics
from weft.report.context import ReportContext
from weft.report.rerun import rerun

USERS, ITEMS, K = 12, 9, 3
SCORES = torch.rand((USERS, ITEMS), generator=torch.Generator().manual_seed(5))
TRUTH = (torch.rand((USERS, ITEMS), generator=torch.Generator().manual_seed(6)) < 0.3).int()
PRICES = [1.5, 2.0, None, 4.25, 0.5, None, 8.0, 3.0, 1.0]
BUDGETS = [float(number + 1) for number in range(USERS)]
REGIONS = ["north", "south", None] * (USERS // 3)
VECTORS = np.random.default_rng(7).normal(size=(ITEMS, 4))
USER_IDS = [f"u{number}" for number in range(USERS)]
ITEM_IDS = [f"i{number}" for number in range(ITEMS)]


@weft.register
class ListRevenue(weft.UserAverageTopKMetric):
    """The prices of the relevant items in a list, summed; at most the budget of the user."""

    needs = {
        "price": weft.ItemNumbers(missing=0.0, description="the price of each item"),
        "budget": weft.UserNumbers(required=False),
    }
    _REQUIRED_COMPONENTS = {weft.MetricBlock.TOP_K_INDICES}

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        prices = self.inputs["price"].lookup(kwargs[f"top_{self.k}_indices"])
        revenue = (top_k_rel * prices).sum(dim=1)
        if "budget" in self.inputs:
            budgets = self.inputs["budget"].lookup(kwargs["user_indices"])
            revenue = torch.minimum(revenue, budgets)
        return revenue


@weft.register
class MeanNorm(weft.UserAverageTopKMetric):
    """The mean Euclidean norm of the vectors of the items in a list, over all lists."""

    needs = {"item_vectors": weft.ItemVectors(missing=math.nan)}
    users = "lists"
    _REQUIRED_COMPONENTS = {weft.MetricBlock.TOP_K_INDICES}

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        items = kwargs[f"top_{self.k}_indices"]
        norms = self.inputs["item_vectors"].lookup(items).norm(dim=-1)
        return torch.where(items >= 0, norms, torch.nan).nanmean(dim=1)


@weft.register
class NorthernHits(weft.TopKMetric):
    """The number of relevant items in the lists of users of the region "north"."""

    needs = {"region": weft.UserLabels()}
    _REQUIRED_COMPONENTS = {weft.MetricBlock.TOP_K_BINARY_RELEVANCE}

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("hits", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, preds, **kwargs):
        region = self.inputs["region"]
        north = region.names.index("north") if "north" in region.names else -2
        is_north = region.lookup(kwargs["user_indices"]) == north
        self.hits += kwargs[f"top_{self.k}_binary_relevance"][is_north].sum()

    def compute(self):
        return self.hits


@weft.register
class Affinity(weft.UserAverageTopKMetric):
    """The mean dot product of the vector of a user and those of the items in the list."""

    needs = {
        "item_vectors": weft.ItemVectors(missing=math.nan),
        "taste": weft.UserVectors(missing=0.0),
    }
    users = "lists"
    _REQUIRED_COMPONENTS = {weft.MetricBlock.TOP_K_INDICES}

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        items = self.inputs["item_vectors"].lookup(kwargs[f"top_{self.k}_indices"])
        taste = self.inputs["taste"].lookup(kwargs["user_indices"])
        if taste.shape[-1] != items.shape[-1]:
            raise weft.WeftError(f"users have {taste.shape[-1]} dimensions")
        return torch.einsum("ukd,ud->uk", items, taste).mean(dim=1)


METRICS = ["ListRevenue", "MeanNorm", "NorthernHits"]
BY_POSITION = {"price": PRICES, "budget": BUDGETS, "item_vectors": VECTORS, "region": REGIONS}


def expected_values():
    """Return the values from the definitions, in plain Python."""
    order = SCORES.argsort(dim=1, descending=True)[:, :K].tolist()
    relevant = [set(row.nonzero().flatten().tolist()) for row in TRUTH]
    revenue = [
        min(budget, sum(PRICES[item] or 0.0 for item in items if item in wanted))
        for items, wanted, budget in zip(order, relevant, BUDGETS)
        if wanted
    ]
    norms = [
        sum(math.sqrt(sum(x * x for x in VECTORS[item])) for item in items) / K for items in order
    ]
    hits = sum(
        len(wanted & set(items))
        for items, wanted, region in zip(order, relevant, REGIONS)
        if region == "north"
    )
    return {
        f"ListRevenue@{K}": sum(revenue) / len(revenue),
        f"MeanNorm@{K}": sum(norms) / len(norms),
        f"NorthernHits@{K}": float(hits),
    }


def by_id(values, ids, *, seed):
    """Return values by id in a shuffled order, without the missing ones."""
    order = np.random.default_rng(seed).permutation(len(ids))
    return {ids[number]: values[number] for number in order if values[number] is not None}


SHUFFLED = {
    "price": by_id(PRICES, ITEM_IDS, seed=1),
    "budget": by_id(BUDGETS, USER_IDS, seed=2),
    "item_vectors": by_id(VECTORS.tolist(), ITEM_IDS, seed=3),
    "region": by_id(REGIONS, USER_IDS, seed=4),
}
TRUTH_BY_ID = {
    USER_IDS[user]: [ITEM_IDS[item] for item in TRUTH[user].nonzero().flatten()]
    for user in range(USERS)
}


def agree(result, expected=None):
    expected = expected_values() if expected is None else expected
    assert {name: result[name] for name in expected} == pytest.approx(expected, rel=1e-12)


def as_frames(inputs, library):
    """Return inputs as frames: an id, and a value or a column per dimension."""
    frames = {}
    for name, values in inputs.items():
        kind = "item" if name in ("price", "item_vectors") else "user"
        rows = list(values.values())
        columns = {name: rows}
        if name == "item_vectors":
            columns = {f"x{number}": list(column) for number, column in enumerate(zip(*rows))}
        frames[name] = library.DataFrame({f"{kind}_id": list(values), **columns})
    return frames


def options(**changes):
    return {"metrics": METRICS, "top_k": K, "inputs": BY_POSITION} | changes


@pytest.mark.parametrize("batch_size", [None, 5])
def test_by_position(batch_size):
    result = weft.evaluate(SCORES, TRUTH, **options(), batch_size=batch_size)
    agree(result)
    assert "2 of 9 items have no number in price and count as 0" in result.notes
    assert "4 of 12 users have no label in region and are in no group" in result.notes
    assert result.counts["items_without_price"] == 2


@pytest.mark.parametrize(
    "inputs",
    [
        SHUFFLED,
        as_frames(SHUFFLED, pl),
        as_frames(SHUFFLED, pd),
        {name: pd.Series(values) for name, values in SHUFFLED.items()},
        {
            **SHUFFLED,
            "item_vectors": pl.DataFrame(
                {
                    "item": list(SHUFFLED["item_vectors"]),
                    "vector": list(SHUFFLED["item_vectors"].values()),
                }
            ),
        },
        {
            **SHUFFLED,
            "price": PRICES,
            "item_vectors": torch.tensor(VECTORS),
            "budget": np.array(BUDGETS),
        },
    ],
    ids=["dicts", "polars", "pandas", "series", "lists", "arrays"],
)
def test_by_id(inputs):
    """Ids in any order, and in every form."""
    result = weft.evaluate(
        SCORES, TRUTH_BY_ID, users=USER_IDS, items=ITEM_IDS, **options(inputs=inputs)
    )
    agree(result)


def test_lists_and_users_of_train_alone():
    """Inputs follow the ids of lists; users of train alone need no value."""
    order = SCORES.argsort(dim=1, descending=True)
    lists = {user: [ITEM_IDS[item] for item in row] for user, row in zip(USER_IDS, order)}
    train = {"someone else": ["i3"], "u4": ["i1"]}
    result = weft.evaluate(lists, TRUTH_BY_ID, train=train, **options(inputs=SHUFFLED))
    agree(result)
    others = {**SHUFFLED["price"], "unknown": 3.0}
    result = weft.evaluate(lists, TRUTH_BY_ID, **options(inputs={**SHUFFLED, "price": others}))
    assert "1 number of price belongs to unknown items" in result.notes


def test_skipped_users_keep_their_inputs():
    truth = {user: items for user, items in TRUTH_BY_ID.items() if items and user != "u0"}
    settings = options(inputs=SHUFFLED, users=USER_IDS, items=ITEM_IDS)
    skipped = weft.evaluate(SCORES, truth, **settings, extra_users="skip")
    counted = weft.evaluate(SCORES, truth, **settings)
    for name in (f"ListRevenue@{K}", f"NorthernHits@{K}"):
        assert skipped[name] == counted[name]


def test_evaluator_and_prepare():
    evaluator = weft.Evaluator(**options(inputs={**BY_POSITION, "train": TRUTH}), mask_seen=False)
    for rows in torch.arange(USERS).split(5):
        evaluator.update(SCORES[rows], TRUTH[rows], rows)
    agree(evaluator.compute())
    prepared = weft.prepare(TRUTH, **options())
    agree(prepared.evaluate(SCORES))
    agree(prepared.evaluate(SCORES))


def test_metrics_on_their_own():
    expected = expected_values()
    for metric in (
        ListRevenue(K, price=PRICES, budget=BUDGETS),
        MeanNorm(K, item_vectors=dict(enumerate(VECTORS)), num_items=ITEMS),
        NorthernHits(K, region=REGIONS),
    ):
        for rows in torch.arange(USERS).split(5):
            metric.update(SCORES[rows], TRUTH[rows], rows)
        copy = pickle.loads(pickle.dumps(metric))
        assert float(copy.compute()) == float(metric.compute())
        assert float(metric.compute()) == pytest.approx(expected[f"{type(metric).__name__}@{K}"])


def test_optional_inputs():
    without = weft.evaluate(SCORES, TRUTH, metrics="ListRevenue", top_k=K, inputs={"price": PRICES})
    rich = weft.evaluate(SCORES, TRUTH, **options(inputs={**BY_POSITION, "budget": [99.0] * USERS}))
    assert without[f"ListRevenue@{K}"] == rich[f"ListRevenue@{K}"]


def test_composites_pass_inputs_on():
    names = ["EucDistance(metric_names=[ListRevenue, Recall], utopia_points=[1, 1])"]
    result = weft.evaluate(SCORES, TRUTH, metrics=names, top_k=K, inputs={"price": PRICES})
    assert len(result) == 1 and not math.isnan(next(iter(result.entries)).value)


def test_built_in_inputs_are_entries():
    train = (SCORES < 0.4).int()
    named = weft.evaluate(SCORES, TRUTH, metrics="EPC", top_k=K, train=train)
    entry = weft.evaluate(SCORES, TRUTH, metrics="EPC", top_k=K, inputs={"train": train})
    assert named.to_tensors() == entry.to_tensors() and named.notes == entry.notes
    with pytest.raises(SettingError, match=r"train is given twice, as train= and in inputs="):
        weft.evaluate(SCORES, TRUTH, metrics="EPC", top_k=K, train=train, inputs={"train": train})


def test_states_keep_inputs(tmp_path):
    paths = []
    for number, rows in enumerate(torch.arange(USERS).split(5)):
        evaluator = weft.Evaluator(**options())
        evaluator.update(SCORES[rows], TRUTH[rows], rows)
        paths.append(weft.save_state(evaluator, tmp_path / f"{number}.state"))
    agree(weft.merge_states(paths))
    other = weft.Evaluator(**options(inputs={**BY_POSITION, "price": [1.0] * ITEMS}))
    other.update(SCORES, TRUTH, torch.arange(USERS))
    paths.append(weft.save_state(other, tmp_path / "other.state"))
    with pytest.raises(SettingError, match="differ in price"):
        weft.merge_states(paths)
    with pytest.raises(SettingError, match="a different price"):
        ListRevenue(K, price=PRICES).merge_state(ListRevenue(K, price=[1.0] * ITEMS))


@pytest.mark.parametrize("name", ["ListRevenue", "MeanNorm"])
def test_conformance_checks_make_inputs(name):
    outcomes = weft.testing.check_metric(name)
    assert outcomes["ignores_the_order_of_users"] == "passed"


def test_results_name_their_inputs():
    result = weft.evaluate(SCORES, TRUTH, **options())
    other = weft.evaluate(SCORES, TRUTH, **options(inputs={**BY_POSITION, "price": [1] * ITEMS}))
    digests, others = (one.provenance["fingerprint"] for one in (result, other))
    assert digests["price"] != others["price"] and digests["budget"] == others["budget"]
    text = rerun(ReportContext({"one": result}))[0][1]
    assert "inputs={" in text and "'price': price" in text and "'budget': budget" in text


def test_checkpoints_keep_inputs_apart(tmp_path, monkeypatch):
    """An interrupted evaluation resumes with the same inputs only."""
    monkeypatch.setattr("weft.evaluation.checkpoint._SAVE_SECONDS", 0.0)
    path = tmp_path / "progress"

    def fail_at(row):
        def score(users):
            if max(users) >= row:
                raise RuntimeError("out of power")
            return SCORES[users]

        return score

    numbers = {"users": range(USERS), "items": range(ITEMS)}
    settings = options(**numbers, batch_size=4, checkpoint=path)
    with pytest.raises(RuntimeError, match="out of power"):
        weft.evaluate(fail_at(8), TRUTH, **settings)
    others = {"inputs": {**BY_POSITION, "price": [1.0] * ITEMS}}
    with pytest.raises(SettingError, match="differ in price"):
        weft.evaluate(fail_at(99), TRUTH, **settings | others)
    agree(weft.evaluate(fail_at(99), TRUTH, **settings))


def test_embeddings_of_factors():
    factors = weft.Factors(torch.rand(USERS, 4), torch.tensor(VECTORS).float())
    inputs = {"item_vectors": factors.item_embeddings}
    result = weft.evaluate(factors, TRUTH, metrics="MeanNorm", top_k=K, inputs=inputs)
    order = factors.scores(0, USERS, users=None).argsort(dim=1, descending=True)[:, :K]
    norms = torch.tensor(VECTORS).float().norm(dim=1)[order].mean(dim=1)
    assert result[f"MeanNorm@{K}"] == pytest.approx(float(norms.mean()), rel=1e-6)
    # The factors themselves, for built-in metrics, lists, evaluators and metrics on their own.
    whole = {"item_vectors": factors}
    lists = {user: order[user].tolist() for user in range(USERS)}
    names = {"metrics": ["ILD", "Serendipity(definition=dissimilarity)"], "top_k": K}
    for source, ids in ((factors, {}), (lists, {"items": range(ITEMS)})):
        settings = {**names, **ids, "train": {0: [0, 2]}, "mask_seen": False}
        found, expected = (
            weft.evaluate(source, TRUTH, inputs=vectors, **settings) for vectors in (whole, inputs)
        )
        assert list(found.values()) == list(expected.values()) and found[f"ILD@{K}"] > 0
    evaluator = weft.Evaluator("ILD", K, inputs=whole)
    metric = weft.metrics.ILD(k=K, item_vectors=factors)
    for one in (evaluator, metric):
        one.update(factors.scores(0, USERS, users=None), [[0]] * USERS)
    assert evaluator.compute()[f"ILD@{K}"] == pytest.approx(float(metric.compute()))
    with pytest.raises(InputError, match="price is a Factors; expected"):
        weft.evaluate(SCORES, TRUTH, metrics="ListRevenue", top_k=K, inputs={"price": factors})


def test_unused_inputs_are_noted():
    result = weft.evaluate(SCORES, TRUTH, metrics="nDCG", top_k=K, inputs={"price": PRICES})
    assert (
        "price was given, but no metric of this run uses it (metrics that do: ListRevenue)"
        in result.notes
    )


WRONG = {
    "lists": ({"price": [1.0, 2.0]}, r"price has 2 values for 9 items; give one for each"),
    "text": ({"price": {0: "cheap"}}, r"price has 'cheap', a str, which is not a number"),
    "infinite": ({"price": {0: math.inf}}, r"price has 1 number that is not finite"),
    "twice": (
        {"price": pl.DataFrame({"item": [0, 0], "price": [1.0, 2.0]})},
        r"price gives more than one value to the same item: 0\. Each item has one",
    ),
    "columns": (
        {"price": pl.DataFrame({"item": [0], "a": [1.0], "b": [2.0]})},
        r"expected 'item' and one with the numbers\. Select two columns, or name one of them 'pr",
    ),
    "no ids": ({"price": pl.DataFrame({"x": [0], "price": [1.0]})}, r"expected one named 'item'"),
    "missing": ({"budget": {0: 1.0}}, r"budget has no number for 11 of 12 users: 1, 2, "),
    "number": ({"price": 3.0}, r"price is a float; expected \{id: number\}"),
    "shape": ({"item_vectors": PRICES}, r"item_vectors has the vector 1\.5"),
    "flat": ({"item_vectors": np.ones(ITEMS)}, r"shape \[9\]; expected a matrix \[ids, d\]"),
    "ragged": (
        {"item_vectors": {0: [1, 2], 1: [1]}},
        r"vectors of 1 and 2 numbers; expected the same number",
    ),
    "nan": ({"item_vectors": {0: [1.0, math.nan]}}, r"1 vector that is not finite"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_values(case):
    inputs, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        weft.evaluate(SCORES, TRUTH, **options(inputs={**BY_POSITION, **inputs}))
    with pytest.raises(InputError, match=message):
        weft.Evaluator(
            **options(inputs={**BY_POSITION, **inputs}), num_users=USERS, num_items=ITEMS
        )


def test_missing_and_unknown_inputs():
    message = (
        r"ListRevenue@3 needs price, the price of each item; give inputs=\{'price': \.\.\.\} "
        r"\(a file, a frame, \{item: number\} or a list\)"
    )
    with pytest.raises(MissingInput, match=message):
        weft.evaluate(SCORES, TRUTH, metrics="ListRevenue", top_k=K)
    with pytest.raises(MissingInput, match=r"ListRevenue needs price, .*; give price= \(a file"):
        ListRevenue(K)
    message = r"ListRevenue has no parameter 'prise'. Did you mean 'price'\? Known: k, .*price"
    with pytest.raises(UnknownParameter, match=message):
        ListRevenue(K, prise=PRICES)
    with pytest.raises(
        SettingError,
        match=r"inputs has 'prise', which no metric declares. Did you "
        r"mean 'price'\? Known inputs: .*budget",
    ):
        weft.evaluate(SCORES, TRUTH, metrics="nDCG", top_k=K, inputs={"prise": PRICES})
    with pytest.raises(SettingError, match="inputs is a list; expected a dict"):
        weft.evaluate(SCORES, TRUTH, metrics="nDCG", top_k=K, inputs=[1])


def test_built_in_metrics_declare_their_inputs():
    """Inputs of Weft's own metrics are declared in `needs`, so that they are compared and saved."""
    for metric in built_in_metrics():
        assert not own_parameters(metric).keys() & BUILT_IN_INPUTS.keys(), metric


def test_wrong_declarations():
    with pytest.raises(SettingError, match=r"declares the input 'a' as 3; expected an input kind"):
        type("Wrong", (weft.BaseMetric,), {"needs": {"a": 3}})
    with pytest.raises(
        SettingError, match=r"'train' as ItemNumbers, but Weft defines an input with this"
    ):
        type("Wrong", (weft.BaseMetric,), {"needs": {"train": weft.ItemNumbers()}})
    with pytest.raises(
        SettingError, match=r"missing='nothing'; expected a finite number, math.nan"
    ):
        weft.ItemNumbers(missing="nothing")
    other = type(
        "OtherPrice", (weft.UserAverageTopKMetric,), {"needs": {"price": weft.ItemNumbers()}}
    )
    with pytest.raises(SettingError, match=r"ListRevenue and OtherPrice declare the input 'price'"):
        weft.evaluate(
            SCORES, TRUTH, metrics=["ListRevenue", other], top_k=K, inputs={"price": PRICES}
        )


# --------------------------------------------------------------------------------------------------
# Files


def write_files(folder):
    """Return the inputs as files of several formats, the ids in shuffled orders."""
    frames = as_frames(SHUFFLED, pl)
    vectors = SHUFFLED["item_vectors"]
    nested = pl.DataFrame({"item": list(vectors), "embedding": list(vectors.values())})
    frames["price"].with_columns(title=pl.lit("x")).write_csv(folder / "price.csv")
    frames["budget"].write_csv(folder / "budget.tsv", separator="\t", include_header=False)
    frames["region"].write_ndjson(folder / "region.jsonl")
    frames["item_vectors"].write_csv(folder / "vectors.csv")
    nested.write_parquet(folder / "vectors.parquet")
    nested.write_ndjson(folder / "vectors.jsonl")
    np.save(folder / "vectors.npy", VECTORS)
    np.savez(folder / "vectors.npz", vectors=VECTORS)
    names = {"price": "price.csv", "budget": "budget.tsv", "region": "region.jsonl"}
    return {name: folder / file for name, file in names.items()}


@pytest.mark.parametrize("file", ["csv", "parquet", "jsonl", "npy", "npz"])
def test_files(tmp_path, file):
    inputs = {**write_files(tmp_path), "item_vectors": tmp_path / f"vectors.{file}"}
    settings = options(inputs=inputs, users=USER_IDS, items=ITEM_IDS)
    result = weft.evaluate(SCORES, TRUTH_BY_ID, **settings)
    agree(result)
    assert result.provenance["files"]["price"] == str(inputs["price"])


def test_wrong_files(tmp_path):
    settings = options(users=USER_IDS, items=ITEM_IDS)
    path = tmp_path / "price.csv"

    def refuse(content, message, name="price", file=path):
        path.write_text(content)
        inputs = {**SHUFFLED, name: file}
        with pytest.raises(InputError, match=message):
            weft.evaluate(SCORES, TRUTH_BY_ID, **settings | {"inputs": inputs})

    refuse("item,price\ni1,cheap\n", r"price.csv, line 2: the value \(column 'price'\) is 'cheap'")
    refuse("item,a,b\ni1,1,2\n", r"expected 'item' and one with the values. Name it with columns=")
    refuse("item,price\ni1,1\ni1,2\n", r"price .*gives more than one value to the same item: 'i1'")
    refuse("item\ni1\n", r"has one column", name="item_vectors")
    np.savez(tmp_path / "two.npz", a=VECTORS, b=VECTORS)
    refuse("", r"has the arrays a, b; expected one", "item_vectors", tmp_path / "two.npz")
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    refuse("", r"objects.npy\) cannot be read", "item_vectors", tmp_path / "objects.npy")
    chosen = weft.File(path, columns={"value": "b"})
    rows = (f"{item},0,{value}\n" for item, value in SHUFFLED["price"].items())
    path.write_text("item,a,b\n" + "".join(rows))
    settings |= {"inputs": {**SHUFFLED, "price": chosen}}
    agree(weft.evaluate(SCORES, TRUTH_BY_ID, **settings))


@pytest.fixture
def folder(tmp_path):
    """A folder with lists, truth and inputs as files, and a configuration."""
    write_files(tmp_path)
    order = SCORES.argsort(dim=1, descending=True)
    rows = [
        (user, ITEM_IDS[item], rank)
        for user, row in zip(USER_IDS, order)
        for rank, item in enumerate(row.tolist(), 1)
    ]
    pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row").write_csv(
        tmp_path / "recs.csv"
    )
    pairs = [(user, item) for user, items in TRUTH_BY_ID.items() for item in items]
    pl.DataFrame(pairs, schema=["user", "item"], orient="row").write_csv(tmp_path / "truth.csv")
    (tmp_path / "config.yaml").write_text(CONFIGURATION)
    return tmp_path


CONFIGURATION = """
data:
  truth: truth.csv
  inputs:
    price: price.csv
    budget: {path: budget.tsv, header: false}
    region: region.jsonl
    item_vectors: vectors.parquet
models: {one: recs.csv}
evaluation: {metrics: [ListRevenue, MeanNorm, NorthernHits], top_k: 3}
"""


def test_configuration(folder):
    configuration = config.load(folder / "config.yaml")
    (result,) = config_run.run(configuration)
    agree(result)
    again = config.from_mapping(result.provenance["configuration"])
    (repeated,) = config_run.run(again)
    assert repeated.to_tensors() == result.to_tensors()
    text = rerun(ReportContext({"one": result}))[0][1]
    assert "inputs:" in text and "price.csv" in text


def test_wrong_configuration(folder):
    def refuse(old, new, message):
        (folder / "wrong.yaml").write_text(CONFIGURATION.replace(old, new))
        with pytest.raises(SettingError, match=message):
            config.load(folder / "wrong.yaml")

    place = r"wrong.yaml:5:\d+: data.inputs"
    refuse("    price:", "    prise:", rf"{place}.prise: .* Did you mean 'price'")
    refuse("price.csv", "cost.csv", rf"{place}.price: there is no file")
    missing = r"ListRevenue@3 needs price, .*; give data.inputs.price \(a file"
    refuse("    price: price.csv\n", "", missing)
    # An unknown metric is one problem, not one more for each input.
    unknown = r"\A\S+: evaluation.metrics.\S+ there is no [^\n]* custom_modules [^\n]*\Z"
    refuse("ListRevenue", "ListIncome", unknown)


def test_command_line(folder):
    run = partial(CliRunner().invoke, cli.app)
    command = ["evaluate", str(folder / "config.yaml"), "--format", "json"]
    values = {one["name"]: one["value"] for one in json.loads(run(command).stdout)[0]["values"]}
    assert values == pytest.approx(expected_values())
    prices = folder / "costs.csv"
    prices.write_text("sku,cost,title\n" + "".join(f"{item},1,x\n" for item in ITEM_IDS))
    command += ["--input", f"price={prices}", "--column", "price.item=sku"]
    command += ["--column", "price.value=cost"]
    changed = {one["name"]: one["value"] for one in json.loads(run(command).stdout)[0]["values"]}
    assert changed[f"MeanNorm@{K}"] == values[f"MeanNorm@{K}"]
    assert changed[f"ListRevenue@{K}"] != values[f"ListRevenue@{K}"]
    done = run([*command, "--input", f"price={prices}"])
    assert "--input price=" in done.output and "price is given twice; remove one" in done.output
    done = run(["check", str(folder / "config.yaml")])
    assert done.exit_code == 0, done.output


def test_columns_of_all_files(folder):
    """Columns of ids are those of all files, also of inputs; each reads those that it has."""
    names = {"user_id": "who", "user": "who", "item_id": "what", "item": "what"}
    files = {"price": "price.csv", "recs": "recs.csv", "truth": "truth.csv", "budget": "b.csv"}
    as_frames(SHUFFLED, pl)["budget"].write_csv(folder / "b.csv")
    for file in files.values():
        pl.read_csv(folder / file).rename(names, strict=False).write_csv(folder / file)
    paths = {name: str(folder / file) for name, file in files.items()}
    command = ["evaluate", "--recs", paths["recs"], "--truth", paths["truth"]]
    command += ["--input", f"price={paths['price']}", "--input", f"budget={paths['budget']}"]
    command += ["-m", "ListRevenue", "-k", str(K), "--format", "json"]
    command += ["--column", "user=who", "--column", "item=what"]
    done = CliRunner().invoke(cli.app, command)
    assert done.exit_code == 0, done.output
    (value,) = json.loads(done.stdout)[0]["values"]
    assert value["value"] == pytest.approx(expected_values()[f"ListRevenue@{K}"])
    done = CliRunner().invoke(cli.app, [*command, "--column", "value=price"])
    assert "--column value=price: unknown role 'value'" in done.output


def test_check_takes_inputs(folder):
    checked = weft.check(
        folder / "recs.csv", folder / "truth.csv", metrics="ListRevenue", top_k=K, inputs=SHUFFLED
    )
    assert checked.values["lists"][f"ListRevenue@{K}"] == pytest.approx(
        expected_values()[f"ListRevenue@{K}"]
    )


# --------------------------------------------------------------------------------------------------
# Engines


def read_lists(folder):
    return pl.read_csv(folder / "recs.csv"), pl.read_csv(folder / "truth.csv")


@pytest.mark.parametrize("parts", [1, 3])
def test_partitions(folder, parts):
    """Partitions give the result of one process: values, counts and notes."""
    lists, truth = read_lists(folder)
    inputs = {
        **SHUFFLED,
        "price": {**SHUFFLED["price"], "other": 1.0},
        "budget": {**SHUFFLED["budget"], "nobody": 2.5},
    }
    settings = options(inputs=inputs, bootstrap=20)
    alone = weft.evaluate(lists, truth, **settings)
    agree(alone)
    partitioned = local_engine.evaluate(lists, truth, **settings, parts=parts)
    local_engine.assert_same(partitioned, alone)
    others = {**inputs, "budget": {**inputs["budget"], "u3": 7.5}}
    changed = local_engine.evaluate(lists, truth, **options(inputs=others), parts=parts)
    digests, expected = (one.provenance["fingerprint"] for one in (changed, partitioned))
    assert [name for name in expected if digests[name] != expected[name]] == ["budget"]
    files = {**write_files(folder), "item_vectors": folder / "vectors.parquet"}
    agree(local_engine.evaluate(lists, truth, **options(inputs=files), parts=parts))


TASTES = {"nobody": [1.0] * 4, **{f"u{number}": VECTORS[number].tolist() for number in (7, 2, 4)}}


def make_tastes(form, folder):
    """Return vectors of some users in one of several forms."""
    nested = pl.DataFrame({"user": list(TASTES), "vector": list(TASTES.values())})
    columns = zip(*TASTES.values())
    wide = {f"x{number}": list(column) for number, column in enumerate(columns)}
    if form == "file":
        nested.write_parquet(folder / "tastes.parquet")
        return folder / "tastes.parquet"
    forms = {"dict": TASTES, "lists": nested}
    return forms.get(form, pd.DataFrame({"user_id": list(TASTES), **wide}))


def expected_affinity():
    order = SCORES.argsort(dim=1, descending=True)[:, :K].tolist()
    values = [
        sum(a * b for item in items for a, b in zip(VECTORS[item], TASTES.get(user, [0] * 4))) / K
        for user, items in zip(USER_IDS, order)
    ]
    return sum(values) / USERS


def test_workers_cut_slices(folder, monkeypatch):
    """Workers that do not know the metrics of the caller cut slices by numbers, too."""
    cut = {"of": SHUFFLED["budget"], "by": "quantiles(2)"}
    settings = options(inputs=SHUFFLED, slices={"spender": cut})
    alone = weft.evaluate(*read_lists(folder), **settings)
    run = local_engine.PickledPartitions.map

    def run_elsewhere(partitions, function):
        known = dict(registry._classes)
        function = pickle.dumps(function)  # on the driver
        for name in METRICS:
            del registry._classes[name.casefold()]
        registry.canonical_name.cache_clear()
        try:
            return run(partitions, pickle.loads(function))
        finally:
            registry._classes.update(known)

    monkeypatch.setattr(local_engine.PickledPartitions, "map", run_elsewhere)
    local_engine.assert_same(local_engine.evaluate(*read_lists(folder), **settings), alone)


def test_partitions_refuse():
    lists, truth = {"a": ["x"]}, {"a": ["x"]}
    with pytest.raises(InputError, match=r"budget has no number for 1 of 1 users: 'a'"):
        local_engine.evaluate(
            lists, truth, metrics="ListRevenue", top_k=1, inputs={"price": {}, "budget": {"b": 1}}
        )
    inputs = {"item_vectors": {"x": [1.0]}, "taste": np.ones((1, 1))}
    with pytest.raises(InputError, match=r"taste is an ndarray, but partitioned users have no or"):
        local_engine.evaluate(lists, truth, metrics="Affinity", top_k=1, inputs=inputs)


@pytest.mark.parametrize("form", ["dict", "frame", "lists", "file"])
def test_partitioned_vectors_of_users(folder, form):
    """Vectors of users give the result of one process, also where a partition has none."""
    lists, truth = read_lists(folder)
    inputs = {"item_vectors": SHUFFLED["item_vectors"], "taste": make_tastes(form, folder)}
    settings = {"metrics": "Affinity", "top_k": K, "inputs": inputs, "bootstrap": 20}
    alone = weft.evaluate(lists, truth, **settings)
    assert alone[f"Affinity@{K}"] == pytest.approx(expected_affinity(), rel=1e-12)
    assert "1 vector of taste belongs to unknown users" in alone.notes
    local_engine.assert_same(local_engine.evaluate(lists, truth, **settings, parts=7), alone)


def all_values():
    return {**expected_values(), f"Affinity@{K}": expected_affinity()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own, of its own settings
def test_ray(folder):
    require_ray()
    import ray

    from weft.engines import ray as on_ray

    lists, truth = read_lists(folder)
    folders = [str(Path(weft.__file__).parents[1]), str(Path(__file__).parent)]
    ray.init(
        "local",  # not a cluster of another test on this machine
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(folders)}},
    )
    try:
        as_frames(SHUFFLED, pl)["budget"].write_parquet(folder / "budget.parquet")
        inputs = {
            **SHUFFLED,
            "budget": folder / "budget.parquet",
            "item_vectors": folder / "vectors.parquet",
            "price": folder / "price.csv",
            "taste": ray.data.from_arrow(make_tastes("lists", folder).to_arrow()),
        }
        settings = options(inputs=inputs, metrics=[*METRICS, "Affinity"])
        agree(on_ray.evaluate(lists, truth, **settings, parts=3), all_values())
    finally:
        ray.shutdown()


@pytest.mark.slow
def test_spark(folder):
    require_spark()
    from pyspark import cloudpickle

    from weft.engines import spark as on_spark

    cloudpickle.register_pickle_by_value(sys.modules[__name__])

    lists, truth = read_lists(folder)
    frames = as_frames(SHUFFLED, pl)
    with on_spark.session("local[2]") as session:
        inputs = {
            **SHUFFLED,
            "budget": session.createDataFrame(frames["budget"].to_arrow()),
            "price": session.createDataFrame(frames["price"].to_arrow()),
            "item_vectors": folder / "vectors.npy",
            "taste": session.createDataFrame(make_tastes("lists", folder).to_arrow()),
        }
        settings = options(inputs=inputs, metrics=[*METRICS, "Affinity"])
        agree(on_spark.evaluate(lists, truth, items=ITEM_IDS, **settings, parts=2), all_values())
