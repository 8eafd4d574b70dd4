"""Integers beyond 2**53, which float64 rounds, are an error in every form of scores and ratings."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch

import weft
from weft.errors import InputError

LARGE = 2**53 + 1
TRUTH = {"a": ["x"], "b": ["y"]}


def frame(large, column="score"):
    return pl.DataFrame(
        {"user": ["a", "a", "b"], "item": ["x", "y", "y"], column: [7, large, -large]}
    )


ROWS = [("a", "x", "7"), ("a", "y", "LARGE"), ("b", "y", "-LARGE")]


def table(separator, column, quote=""):
    rows = [("user", "item", column), *ROWS]
    fields = [[f"{quote}{field}{quote}" for field in row] for row in rows]
    return "".join(f"{separator.join(row)}\n" for row in fields)


def files(column):
    """Text files with LARGE in the place of a number."""
    lines = [f'{{"user": "{row[0]}", "item": "{row[1]}", "{column}": {row[2]}}}' for row in ROWS]
    return {
        "a.csv": table(",", column),
        "quoted.csv": table(",", column, '"'),
        "a.tsv": table("\t", column),
        "spaces.txt": table("  ", column),
        "colons.dat": table("::", column),
        "a.jsonl": "\n".join(lines),
        "a.json": '{"a": {"x": 7, "y": LARGE}, "b": {"y": -LARGE}}',
    }


def evaluate(lists, truth=TRUTH, **options):
    return weft.evaluate(lists, truth, metrics=["MRR", "Precision"], top_k=1, **options)


LOCATIONS = {"a.jsonl": "line 2", "a.json": "query 'a', document 'y'"}


@pytest.mark.parametrize(("name", "text"), files("score").items())
@pytest.mark.parametrize("large", [str(LARGE), "1763452800123456789", "1" * 400], ids=len)
def test_files_with_large_scores(name, text, large, tmp_path):
    path = tmp_path / name
    path.write_text(text.replace("LARGE", large))
    with pytest.raises(InputError) as caught:
        evaluate(path)
    shown = large if len(large) < 40 else f"{large[:40]}..."
    assert name in str(caught.value)
    assert str(caught.value).endswith(
        "has integers beyond 2**53, which float64 cannot represent exactly "
        f"({LOCATIONS.get(name, 'line 3')}: {shown}); rescale the scores, for example by "
        "subtracting the smallest, or give ranks."
    )


@pytest.mark.parametrize(("name", "text"), files("score").items())
@pytest.mark.parametrize("large", [str(2**53), "1e300", "9007199254740993.0"])
def test_files_with_scores_that_are_exact(name, text, large, tmp_path):
    path = tmp_path / name
    path.write_text(text.replace("LARGE", large))
    lists = {"a": {"x": 7, "y": float(large)}, "b": {"y": -float(large)}}
    assert evaluate(path) == evaluate(lists)


def test_trec_runs_and_folders(tmp_path):
    (tmp_path / "a.trec").write_text(f"a Q0 x 1 7 t\na Q0 y 2 {LARGE} t\n")
    with pytest.raises(InputError, match=rf"a.trec.*beyond 2\*\*53.*\(line 2: {LARGE}\)"):
        evaluate(tmp_path / "a.trec")
    folder = tmp_path / "parts"
    folder.mkdir()
    frame(5).write_parquet(folder / "1.parquet")
    frame(LARGE).with_columns(user="user" + pl.col("user")).write_parquet(folder / "2.parquet")
    with pytest.raises(InputError, match=rf"2.parquet: the column 'score'.*\(row 1: {LARGE}\)"):
        evaluate(folder)


def test_rows_far_from_the_start(tmp_path):
    path = tmp_path / "a.jsonl"
    line = '{{"user": "a", "item": "i{}", "score": {}}}\n'
    numbers = [1.5, *range(500), LARGE]
    path.write_text("".join(line.format(row, number) for row, number in enumerate(numbers)))
    with pytest.raises(InputError, match=rf"a.jsonl: the key 'score'.*\(line 502: {LARGE}\)"):
        evaluate(path)


MATRIX = np.array([[7, LARGE], [7, -LARGE]])
SCORES = {
    "polars": (frame(LARGE), "row 1"),
    "unsigned": (frame(LARGE).head(2).cast({"score": pl.UInt64}), "row 1"),
    "128 bits": (frame(LARGE).cast({"score": pl.Int128}), "row 1"),
    "decimal": (frame(LARGE).cast({"score": pl.Decimal(38, 0)}), "row 1"),
    "pandas": (frame(LARGE).to_pandas(), "row 1"),
    "pandas with missing numbers": (frame(LARGE).to_pandas().astype({"score": "Int64"}), "row 1"),
    "pandas objects": (
        pd.DataFrame({"user": ["a", "a"], "item": ["x", "y"], "score": [0.5, LARGE]}, dtype=object),
        "row 1",
    ),
    "dict": ({"a": {"x": 7, "y": LARGE}, "b": {"y": -LARGE}}, "row 1"),
    "dict of numpy": ({"a": {"x": 7.5, "y": np.int64(LARGE)}}, "row 1"),
    "dict of huge integers": ({"a": {"x": 7, "y": 10**400}}, "row 1"),
    "array": (MATRIX, r"position \[0, 1\]"),
    "unsigned array": (np.array([[7, 2**64 - 1, 7]], dtype=np.uint64), r"position \[0, 1\]"),
    "tensor": (torch.tensor(MATRIX), r"position \[0, 1\]"),
    "masked array": (np.ma.masked_less(np.array([[7, LARGE, 7]]), 2), r"position \[0, 1\]"),
}


@pytest.mark.parametrize("form", SCORES)
def test_data_with_large_scores(form):
    data, location = SCORES[form]
    options, truth = {}, TRUTH
    if "position" in location:
        options, truth = {"users": "positions", "items": "positions"}, {0: [1]}
    with pytest.raises(InputError, match=rf"beyond 2\*\*53.*\({location}: .*or give ranks"):
        evaluate(data, truth, **options)


def test_top_k_items_with_large_scores():
    with pytest.raises(InputError, match=rf"beyond 2\*\*53.*\(position \[0, 0\]: {LARGE}\)"):
        weft.TopKItems([[1, 0]], scores=[[LARGE, 7]])


@pytest.mark.parametrize(("name", "text"), files("rating").items())
@pytest.mark.parametrize("argument", ["truth", "train"])
def test_files_with_large_ratings(name, text, argument, tmp_path):
    path = tmp_path / name
    path.write_text(text.replace("-LARGE", "1").replace("LARGE", str(LARGE)))
    inputs = {"truth": TRUTH} | {argument: path}
    with pytest.raises(InputError, match=rf"beyond 2\*\*53.*: {LARGE}\); rescale the ratings, for"):
        evaluate({"a": ["x"], "b": ["y"]}, **inputs)


RATINGS = {
    "frame": frame(LARGE, "rating"),
    "pandas": frame(LARGE, "rating").to_pandas(),
    "dict": {"a": {"x": 7, "y": LARGE}},
    "pairs": {"a": [("x", 7), ("y", LARGE)]},
    "matrix": MATRIX,
    "tensor": torch.tensor(MATRIX),
    "sparse": scipy.sparse.csr_matrix(MATRIX),
    "sparse tensor": torch.tensor(MATRIX).to_sparse(),
}


@pytest.mark.parametrize("form", RATINGS)
def test_data_with_large_ratings(form):
    source = {"a": ["x"], "b": ["y"]} if form in ("frame", "pandas", "dict", "pairs") else {0: [1]}
    with pytest.raises(InputError, match=rf"beyond 2\*\*53.*: {LARGE}\); rescale the ratings, for"):
        evaluate(source, RATINGS[form])


def test_check_finds_large_ratings():
    lists = {"a": ["x"], "b": ["y"]}
    for inputs in ({"truth": frame(LARGE, "rating")}, {"train": frame(LARGE, "rating")}):
        found = weft.check(lists, **({"truth": TRUTH} | inputs), metrics="MRR", top_k=1).findings
        kinds = {finding.kind: finding.count for finding in found}
        assert kinds["ratings-beyond-precision"] == 2


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt8, pl.Int32, pl.UInt32, pl.Float32])
def test_narrow_numbers_are_exact(dtype):
    lists = frame(9).with_columns(pl.col("score").abs().cast(dtype))
    assert evaluate(lists)["MRR@1"] == 0.5
