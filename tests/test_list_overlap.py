"""Lists that a result keeps, and the similarity of the lists of two models."""

import json
import math
import random

import numpy as np
import polars as pl
import pytest
import torch
from typer.testing import CliRunner

import weft
from local_engine import evaluate as evaluate_in_partitions
from weft import cli
from weft.errors import InputError, SettingError

TRUTH = {"a": [5], "b": [4], "c": [2]}
OPTIONS = {"metrics": "nDCG", "top_k": [2, 4], "per_user": True, "keep_lists": True}
FIRST = {"a": [3, 5, 4, 6], "b": [2, 4, 5, 7], "c": [2, 3, 4, 5]}
SECOND = {"a": [5, 3, 8, 4], "b": [2, 4, 5, 7], "c": [3, 2, 6, 5]}
SHORT = {"a": [5, 8], "b": [2, 4], "c": [6, 2]}


def compare(first, second):
    lists = {"first": first, "second": second}
    results = [
        weft.evaluate(some, TRUTH, items=range(10), name=name, **OPTIONS)
        for name, some in lists.items()
    ]
    return weft.compare(results)


def test_a_result_keeps_its_lists_under_the_callers_ids():
    lists = {"a": ["x", "z"], "c": ["y", "x", "w"]}
    result = weft.evaluate(lists, {"a": ["x"], "b": ["y"]}, metrics="nDCG@2", keep_lists=True)
    rows = [("a", 1, "x"), ("a", 2, "z"), ("c", 1, "y"), ("c", 2, "x")]  # cut at 2; b has no list
    assert result.lists.rows() == rows
    assert result.lists.columns == ["user", "rank", "item"]
    plain = weft.evaluate(lists, {"a": ["x"], "b": ["y"]}, metrics="nDCG@2")
    assert plain.lists is None and plain["nDCG@2"] == result["nDCG@2"]


def test_lists_of_scores_are_the_ranked_items():
    scores = np.array([[0.1, 0.9, 0.5], [-np.inf, 0.2, -np.inf], [0.3, 0.2, 0.1]])
    train = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    result = weft.evaluate(
        scores, np.eye(3), train=train, metrics="Recall@5", keep_lists=True, batch_size=2
    )
    assert result.lists.rows() == [
        *[(0, 1, 2), (0, 2, 0)],
        (1, 1, 1),
        *[(2, 1, 0), (2, 2, 1), (2, 3, 2)],
    ]


def test_batches_and_states_keep_lists(tmp_path):
    scores, target = torch.rand(6, 5, generator=torch.Generator().manual_seed(1)), torch.ones(6, 5)
    parts = [weft.Evaluator("MRR@3", keep_lists=True) for _ in range(3)]
    parts[0].update(scores, target, user_indices=range(6))
    parts[1].update(scores[:2], target[:2], user_indices=range(2))
    parts[2].update(scores[2:], target[2:], user_indices=range(2, 6))
    paths = [weft.save_state(part, tmp_path / str(i)) for i, part in enumerate(parts[1:])]
    expected = parts[0].compute().lists
    assert expected.equals(weft.merge_states(paths).lists)
    assert expected["item"].to_list() == scores.topk(3).indices.flatten().tolist()


def test_an_empty_evaluator_merges(tmp_path):
    full = weft.Evaluator("MRR@3", keep_lists=True)
    full.update(torch.rand(2, 2), torch.ones(2, 2))  # fewer items than the cut-off
    empty = weft.Evaluator("MRR@3", keep_lists=True)
    empty.merge(full)
    assert empty.compute().lists.equals(full.compute().lists)
    assert len(full.compute().lists) == 4


def test_repeated_users_keep_their_first_list():
    evaluator = weft.Evaluator("MRR@1", keep_lists=True, repeated_users="drop")
    scores = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    evaluator.update(scores, torch.ones(2, 2), user_indices=[4, 4])
    assert evaluator.compute().lists.rows() == [(4, 1, 0)]


def test_saved_results_have_their_lists(tmp_path):
    result = weft.evaluate(FIRST, TRUTH, **OPTIONS)
    path = result.save(tmp_path / "first.json")
    assert json.loads(path.read_text())["lists"] == "first.lists.parquet"
    assert weft.load_result(path).lists.equals(result.lists)


def test_checkpoints_keep_lists(tmp_path):
    options = OPTIONS | {"batch_size": 1, "checkpoint": tmp_path / "state"}
    assert weft.evaluate(FIRST, TRUTH, **options).lists.equals(
        weft.evaluate(FIRST, TRUTH, **OPTIONS).lists
    )


def test_errors():
    with pytest.raises(SettingError, match="no metric has one; add a metric such as nDCG@10"):
        weft.evaluate(np.ones((1, 2)), np.ones((1, 2)), metrics="GAUC", keep_lists=True)
    with pytest.raises(SettingError, match="is supported only in one process"):
        evaluate_in_partitions(FIRST, TRUTH, metrics="nDCG@2", keep_lists=True)
    comparison = compare(FIRST, SECOND)
    with pytest.raises(SettingError, match="k=9, but the kept lists end at 4"):
        comparison.lists(k=9)
    for p in (0, 1, "x"):
        with pytest.raises(SettingError, match="between 0 and 1"):
            comparison.lists(p=p)
    plain = [weft.evaluate(FIRST, TRUTH, metrics="nDCG@2", per_user=True, name=n) for n in "ab"]
    assert weft.compare(plain).describe_lists() == []
    with pytest.raises(InputError, match="'a' has no lists to compare; evaluate it with keep"):
        weft.compare(plain).lists()


# --------------------------------------------------------------------------------------------------
# Similarity


def oracle(first, second, k, p):
    """Return the similarity of two lists by the definitions."""
    a, b = first[:k], second[:k]
    shares = [len(set(a[:d]) & set(b[:d])) / d for d in range(1, k + 1)]
    shared = len(set(a) & set(b))
    rbo = (1 - p) * sum(p ** (d - 1) * share for d, share in enumerate(shares, 1))
    ranks = [second.index(item) + 1 for item in a if item in second]
    return {
        "overlap": shared / k,
        "intersection": shared / len(a),
        "jaccard": shared / len(set(a) | set(b)),
        "rbo": rbo,
        "rbo_normalized": rbo / ((1 - p) * sum(p ** (d - 1) for d in range(1, k + 1))),
        "rbo_extrapolated": rbo + shares[-1] * p**k,
        "promoted": len(a) - shared,
        "deepest_promotion": max([0, *(rank - k for rank in ranks)]),
    }


def test_worked_example():
    row = compare(FIRST, SECOND).lists(p=0.9).row(0, named=True)
    assert (row["model_a"], row["model_b"], row["k"], row["users"]) == ("first", "second", 4, 3)
    assert row["rbo"] == pytest.approx(0.247083, abs=1e-6)
    assert row["rbo_normalized"] == pytest.approx(0.718474, abs=1e-6)  # LensKit
    assert row["rbo_extrapolated"] == pytest.approx(0.793833, abs=1e-6)
    # RecTools: the share of lists of four that is in lists of two.
    assert compare(FIRST, SHORT).lists(k=4)["intersection"][0] == pytest.approx(1 / 3)


@pytest.mark.parametrize("seed", range(5))
def test_similarity_matches_the_definitions(seed):
    draw = random.Random(seed)

    def lists():
        users = "abcdef"[: draw.choice((5, 6))]
        return {user: draw.sample(range(10), draw.randint(1, 6)) for user in users}

    first, second, k, p = lists(), lists(), draw.randint(1, 3), draw.random()
    options = {"metrics": ["nDCG@3", "nDCG@6"], "per_user": True, "keep_lists": True}
    results = {
        name: weft.evaluate(some, {"a": [1], "b": [2]}, items=range(10), **options)
        for name, some in {"first": first, "second": second}.items()
    }
    frame = weft.compare(results).lists(k=k, p=p)
    users = sorted(first.keys() & second.keys())
    for a, b, row in [(first, second, 0), (second, first, 1)]:
        found = frame.row(row, named=True)
        each = [oracle(a[user], b[user], k, p) for user in users]
        assert found["users"] == len(users)
        for name in each[0]:
            mean = math.fsum(one[name] for one in each) / len(users)
            assert found[name] == pytest.approx(mean, abs=1e-12), name


def test_equal_and_disjoint_lists():
    same = compare(FIRST, FIRST).lists().row(0, named=True)
    assert all(same[name] == pytest.approx(1) for name in ("overlap", "jaccard", "rbo_normalized"))
    other = compare(FIRST, {user: [0, 1, 8, 9] for user in FIRST}).lists()
    assert other.drop("model_a", "model_b", "k", "users", "promoted").sum_horizontal().max() == 0
    assert other["promoted"].to_list() == [4, 4]


def test_the_commands_write_and_compare_lists(tmp_path):
    for name, lists in {"first": FIRST, "second": SECOND, "truth": TRUTH}.items():
        rows = [(user, item, -rank) for user in lists for rank, item in enumerate(lists[user])]
        frame = pl.DataFrame(rows, schema=["user", "item", "score"], orient="row")
        (frame.drop("score") if name == "truth" else frame).write_csv(tmp_path / f"{name}.csv")
    files = [str(tmp_path / f"{name}.csv") for name in ("first", "second", "truth")]
    words = ["evaluate", "--recs", files[0], "--recs", files[1], "--truth", files[2]]
    words += ["-m", "nDCG@4", "--keep-lists", "--per-user"]
    refused = CliRunner().invoke(cli.app, words)
    assert (
        refused.exit_code == 2 and "give a folder for the results with --out DIR" in refused.output
    )
    done = CliRunner().invoke(cli.app, [*words, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    results = [str(tmp_path / "out" / f"{name}.json") for name in ("first", "second")]
    done = CliRunner().invoke(cli.app, ["compare", *results])
    assert done.exit_code == 0, done.output
    assert "lists of first and second at 4: overlap 0.8333, RBO 0.7938" in done.output
