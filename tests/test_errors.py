"""Wrong input raises one clear message: what was got, what was expected, how to fix it.

It never raises an exception of torch, NumPy, polars or pandas, nor an internal KeyError.
"""

import contextlib
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch

import weft
from weft.errors import (
    InputError,
    MissingInput,
    SettingError,
    UnknownMetric,
    UnknownParameter,
    WeftError,
    check_int,
    describe_type,
)
from weft.metrics.names import MetricSpec
from weft.metrics.registry import all_metrics

SCORES = torch.tensor([[0.9, 0.1, 0.5], [0.2, 0.8, 0.4]])
TRUTH = {0: {0: 1}, 1: {2: 1}}
NAMES = {"users": ["ann", "bob"], "items": ["x", "y", "z"]}


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """The registry forgets what should not have been registered."""
    monkeypatch.setattr("weft.metrics.registry._classes", dict(weft.metrics.registry._classes))


def evaluate(source=SCORES, truth=TRUTH, **settings):
    return weft.evaluate(source, truth, **{"metrics": ["nDCG"], "top_k": [2], **settings})


def update(preds=SCORES, target=((0,), (2,)), users=None, **settings):
    evaluator = weft.Evaluator(**{"metrics": ["nDCG"], "top_k": [2], **settings})
    evaluator.update(preds, list(target) if isinstance(target, tuple) else target, users)
    return evaluator.compute()


def scores(value, dtype=torch.float32):
    return torch.tensor([[0.9, 0.1, 0.5], [0.2, value, 0.4]], dtype=dtype)


def frame(**columns):
    return pl.DataFrame({"user": [0, 1], "item": [0, 2], **columns})


def sparse_csr():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ones(2, 2, 3).to_sparse_csr()


def refuses(table):
    """Each row of the table: what is wrong, the call, the error, and what its message must say, in
    this order.
    """
    return pytest.mark.parametrize(
        ("call", "error", "says"), [row[1:] for row in table], ids=[row[0] for row in table]
    )


def check(call, error, says):
    with pytest.raises(error, match="(?s)" + ".*".join(says)) as caught:
        call()
    assert caught.type.__module__ == "weft.errors"
    assert len(str(caught.value)) < 900


SCORE_ERRORS = [
    (
        "NaN",
        lambda: evaluate(scores(math.nan)),
        InputError,
        ["NaN", "row 1, column 1", "1 of 2 rows of this batch has", "finite"],
    ),
    (
        "NaN float16",
        lambda: evaluate(scores(math.nan, torch.float16)),
        InputError,
        ["NaN", "row 1, column 1"],
    ),
    ("NaN in numpy", lambda: evaluate(scores(math.nan).numpy()), InputError, ["NaN"]),
    (
        "NaN beside -inf",
        lambda: evaluate(torch.tensor([[-math.inf, math.nan, 1.0], [0, 0, 0]])),
        InputError,
        ["NaN", "row 0, column 1"],
    ),
    (
        "+inf",
        lambda: evaluate(scores(math.inf)),
        InputError,
        [r"\+inf", "row 1, column 1", "-inf for items that are not candidates"],
    ),
    (
        "NaN in a later batch",
        lambda: evaluate(scores(math.nan), batch_size=1),
        InputError,
        ["NaN", "row 1, column 1"],
    ),
    (
        "NaN from a model",
        lambda: evaluate(lambda users: scores(math.nan)),
        InputError,
        ["NaN", "row 1"],
    ),
    (
        "overflowing factors",
        lambda: evaluate(weft.Factors(torch.full((2, 1), 1e30), torch.full((3, 1), 1e30))),
        InputError,
        [r"\+inf"],
    ),
    ("NaN in update", lambda: update(scores(math.nan)), InputError, ["NaN", "row 1, column 1"]),
    (
        "NaN in a metric",
        lambda: weft.metrics.AUC().update(scores(math.nan), [[0], [1]]),
        InputError,
        ["NaN"],
    ),
    ("a vector", lambda: evaluate(SCORES[0]), InputError, [r"shape \[3\]", r"\[users, items\]"]),
    (
        "a cube",
        lambda: evaluate(SCORES[None].numpy()),
        InputError,
        [r"shape \[1, 2, 3\]", r"\[users, items\]"],
    ),
    ("a list", lambda: evaluate([[0.1, 0.2]]), InputError, ["list", "tensor or array"]),
    ("nothing", lambda: evaluate(None), InputError, ["None", "expected scores"]),
    (
        "a pandas frame",
        lambda: evaluate(pd.DataFrame({"score": [1.0]})),
        InputError,
        ["DataFrame", "read as recommendation lists", "weft.Scores"],
    ),
    ("strings", lambda: evaluate(np.array([["a"]])), InputError, ["<U1", "must be real numbers"]),
    (
        "objects",
        lambda: evaluate(np.array([[None]])),
        InputError,
        ["object", "must be real numbers"],
    ),
    ("complex", lambda: evaluate(SCORES + 0j), InputError, ["complex64", "real numbers"]),
    ("sparse", lambda: evaluate(SCORES.to_sparse()), InputError, ["sparse_coo", "dense"]),
    (
        "long double",
        lambda: evaluate(SCORES.numpy().astype(np.longdouble)),
        InputError,
        ["score matrix", "(long|float128)"],
    ),
    (
        "float8",
        lambda: evaluate(SCORES.to(torch.float8_e4m3fn)),
        InputError,
        ["score matrix", "float8"],
    ),
    ("meta tensor", lambda: evaluate(SCORES.to("meta")), InputError, ["score matrix", "meta"]),
    (
        "integers beyond float64",
        lambda: evaluate(torch.full((2, 3), 2**60)),
        InputError,
        [r"2\*\*53", "rescale"],
    ),
    (
        "most negative integer",
        lambda: evaluate(torch.full((2, 3), -(2**63))),
        InputError,
        [r"2\*\*53", "rescale"],
    ),
    (
        "no answer",
        lambda: evaluate(lambda users: None),
        InputError,
        ["model's answer is None", "tensor"],
    ),
    (
        "too few rows",
        lambda: evaluate(lambda users: SCORES[:1]),
        InputError,
        ["2 users", r"shape \[1, 3\]", r"\[2, items\]"],
    ),
    (
        "a vector from a model",
        lambda: evaluate(lambda users: SCORES[0]),
        InputError,
        ["2 users", r"shape \[3\]", r"\[2, items\]"],
    ),
    (
        "other columns than the truth",
        lambda: evaluate(lambda users: torch.ones(2, 4), torch.ones(2, 3)),
        InputError,
        ["4 columns", "3 items", "(expected|[Gg]ive)"],
    ),
    (
        "other columns than items",
        lambda: evaluate(lambda u: SCORES, {0: ["a"], 1: ["b"]}, items=["a", "b"]),
        InputError,
        ["3 columns", "2 items"],
    ),
    (
        "columns that change",
        lambda: evaluate(lambda users: torch.ones(1, 3 + int(users[0])), batch_size=1),
        InputError,
        ["4 columns", "3 items"],
    ),
    (
        "factors that do not fit",
        lambda: weft.Factors(torch.ones(2, 3), torch.ones(4, 2)),
        InputError,
        [r"\[2, 3\]", r"\[4, 2\]", "same d"],
    ),
    (
        "factors from lists",
        lambda: weft.Factors([[1.0]], [[1.0]]),
        InputError,
        ["user_embeddings is a list", "tensor"],
    ),
    (
        "too few biases",
        lambda: weft.Factors(torch.ones(2, 3), torch.ones(4, 3), item_biases=torch.ones(3)),
        InputError,
        ["item_biases has 3 values", "4 embeddings", "one for each"],
    ),
    (
        "a bias that is a number",
        lambda: weft.Factors(torch.ones(2, 3), torch.ones(4, 3), user_biases=1.0),
        InputError,
        ["user_biases"],
    ),
]


@refuses(SCORE_ERRORS)
def test_rejects_wrong_scores(call, error, says):
    check(call, error, says)


def two(truth, **settings):
    return lambda: evaluate(SCORES, truth, **settings)


FORTY = pl.DataFrame({"user": [0, 1] * 20, "item": [0, 2] * 20})
TRUTH_ERRORS = [
    (
        "negative rating",
        two({0: {1: -2.0}}),
        InputError,
        ["negative", "user 0, item 1, rating -2", "relevance_threshold="],
    ),
    (
        "negative in a matrix",
        two(np.array([[0, -1, 0], [1, 0, 0]])),
        InputError,
        ["negative", "item 1", "relevance_threshold="],
    ),
    (
        "NaN rating",
        two({0: {1: math.nan}}),
        InputError,
        ["not finite", "user 0, item 1, rating nan", "Remove"],
    ),
    (
        "null rating",
        two(frame(rating=[1, None])),
        InputError,
        ["not finite", "row 1: user 1, item 2", "Remove"],
    ),
    (
        "infinite rating",
        two(sp.csr_matrix([[math.inf, 0, 0], [0, 0, 0]])),
        InputError,
        ["not finite", "item 0"],
    ),
    (
        "NaN in a dense truth",
        two(torch.tensor([[math.nan, 0, 0], [0, 0, 0]])),
        InputError,
        ["not finite", "user 0, item 0"],
    ),
    (
        "matrix of another shape",
        two(torch.ones(2, 4)),
        InputError,
        [r"\[2, 4\]", "2 users and 3 items", r"expected shape \[2, 3\]"],
    ),
    (
        "csr of another shape",
        two(sp.csr_matrix((3, 3))),
        InputError,
        [r"\[3, 3\]", r"expected shape \[2, 3\]"],
    ),
    ("a vector", two(torch.ones(3)), InputError, [r"shape \[3\]", r"\[users, items\]"]),
    (
        "repeated rows",
        two(frame().vstack(frame())),
        InputError,
        ["truth has 2 repeated", "row 2: user 0, item 0", "row 3", "drop"],
    ),
    (
        "many repeated rows",
        two(FORTY),
        InputError,
        ["truth has 38 repeated", "row 2", "row 6", "38 rows in all"],
    ),
    (
        "repeated cells of a csr",
        two(sp.csr_matrix((np.ones(2), np.array([1, 1]), np.array([0, 2, 2])), shape=(2, 3))),
        InputError,
        ["1 repeated", "user 0, item 1"],
    ),
    (
        "repeated cells of a coo",
        two(sp.coo_matrix((np.ones(2), ([0, 0], [1, 1])), shape=(2, 3))),
        InputError,
        ["1 repeated", "item 1"],
    ),
    (
        "repeated cells of a coo_array",
        two(sp.coo_array((np.ones(2), ([0, 0], [1, 1])), shape=(2, 3))),
        InputError,
        ["1 repeated"],
    ),
    (
        "repeated cells of torch",
        two(torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 1.0], (2, 3), check_invariants=True)),
        InputError,
        ["1 repeated", "item 1"],
    ),
    ("repeated items of a list", two({0: [1, 1]}), InputError, ["1 repeated", "user 0, item 1"]),
    (
        "unknown item",
        two({"ann": ["x", "q"]}, **NAMES),
        InputError,
        ["not in the catalogue of 3", "user 'ann', item 'q'", r"items="],
    ),
    (
        "column out of range",
        two({0: [3]}),
        InputError,
        ["column numbers 0 to 2", "user 0, item 3", r"items="],
    ),
    ("negative column", two({0: [-1]}), InputError, ["column numbers 0 to 2", "item -1"]),
    (
        "row out of range",
        two({2: [0]}),
        InputError,
        ["not rows of the scores", "0 to 1", "user 2", r"users="],
    ),
    (
        "strings for rows",
        two({"ann": [0]}),
        InputError,
        ["strings", "'ann'", "row numbers", r"users="],
    ),
    (
        "strings for columns",
        two({0: ["x"]}),
        InputError,
        ["strings", "'x'", "column numbers", r"items="],
    ),
    (
        "integers for strings",
        two({1: ["x"]}, **NAMES),
        InputError,
        ["integers", "strings", "'1' are different"],
    ),
    (
        "strings for integers",
        two({"1": ["x"]}, users=[1, 2], items=NAMES["items"]),
        InputError,
        ["strings", "integers", "Convert"],
    ),
    (
        "mixed ids",
        two({0: [0, "x"]}),
        InputError,
        ["truth mixes item ids of types int, str", "all integers or all strings"],
    ),
    (
        "mixed ids of pandas",
        two(pd.DataFrame({"user": [0, "a"], "item": [0, 1]}), users=["0", "a"]),
        InputError,
        ["mixes", "int, str"],
    ),
    ("float ids", two({0.5: [0]}), InputError, ["user ids of type float", "integers or strings"]),
    (
        "float ids in a frame",
        two(frame(user=[0.0, 1.0])),
        InputError,
        ["Float64", "integers or strings"],
    ),
    ("boolean ids", two({True: [0]}), InputError, ["bool", "integers or strings"]),
    ("tuples as ids", two({(0, 1): [0]}), InputError, ["tuple", "integers or strings"]),
    ("no id", two(frame(user=[0, None])), InputError, ["no user id in row 1"]),
    (
        "no id in pandas",
        two(pd.DataFrame({"user": ["a", None], "item": [0, 1]})),
        InputError,
        ["no user id in row 1"],
    ),
    (
        "pandas NA",
        two(pd.DataFrame({"user": pd.array([0, None], "Int64"), "item": [0, 1]})),
        InputError,
        ["no user id in row 1"],
    ),
    (
        "pandas NA string",
        two(pd.DataFrame({"user": [0, 1], "item": pd.array(["x", None], "string")})),
        InputError,
        ["no item id in row 1"],
    ),
    (
        "pandas NA rating",
        two(pd.DataFrame({"user": [0, 1], "item": [0, 1], "rating": pd.array([1, None], "Int64")})),
        InputError,
        ["not finite", "row 1"],
    ),
    ("ids beyond 64 bits", two({2**70: [0]}), InputError, ["truth", "user"]),
    (
        "unsigned ids beyond 63 bits",
        two(frame(user=pl.Series([0, 2**63], dtype=pl.UInt64))),
        InputError,
        ["truth", "user"],
    ),
    (
        "no user column",
        two(frame().rename({"user": "usr"})),
        InputError,
        ["'usr', 'item'", "'user'", "Did you mean 'user'", "Rename"],
    ),
    (
        "no item column",
        two(pd.DataFrame({"user": [0], "thing": [0]})),
        InputError,
        ["'thing'", "'item'", "Rename"],
    ),
    (
        "a column twice",
        two(pd.DataFrame([[0, 0, 1]], columns=["user", "user", "item"])),
        InputError,
        ["'user'", "twice|2 times|repeat"],
    ),
    (
        "ratings of text",
        two(frame(rating=["good", "bad"])),
        InputError,
        ["'rating' has the type String", "must be numbers"],
    ),
    (
        "ratings of text in a dict",
        two({0: {1: "good"}}),
        InputError,
        [r"truth\[0\]", "good", "must be numbers"],
    ),
    (
        "a rating for no item",
        two({0: 5}),
        InputError,
        [r"truth\[0\] is 5", "{item: rating} or a list"],
    ),
    (
        "a triple among pairs",
        two({0: [(1, 2), (0, 1, 3)]}),
        InputError,
        [r"truth\[0\] has the entry \(0, 1, 3\); expected \(item, rating\)"],
    ),
    (
        "a pair with a rating of text",
        two({0: [(1, "good")]}),
        InputError,
        [r"truth\[0\] has the rating 'good'; ratings must be numbers"],
    ),
    ("a word for items", two({0: "x"}), InputError, [r"truth\[0\] is 'x'", "a list of items"]),
    (
        "a user without items beyond the rows",
        two({0: [1], 9: []}),
        InputError,
        ["user 9", "users="],
    ),
    ("a path", two("test.csv"), InputError, ["truth .test.csv.: there is no such file"]),
    ("a list", two([[0], [2]]), InputError, ["truth is a list", "{user: {item: rating}}"]),
    ("nothing", two(None), InputError, ["truth is None", "frame"]),
    ("a polars series", two(pl.Series([1])), InputError, ["truth is a Series", "frame"]),
    ("a pandas series", two(pd.Series([1])), InputError, ["truth is a Series", "frame"]),
    ("an expression", two(pl.col("a")), InputError, ["truth is a(n)? Expr", "frame"]),
    ("a module", two(torch.nn.Linear(1, 1)), InputError, ["truth is a Linear", "frame"]),
    ("text in an array", two(np.array([["a"] * 3] * 2)), InputError, ["truth", "<U1", "numbers"]),
    (
        "objects in an array",
        two(np.array([["a", 1, 0], [0, 0, 1]], dtype=object)),
        InputError,
        ["truth", "object", "numbers"],
    ),
    ("complex array", two(np.ones((2, 3)) * 1j), InputError, ["truth", "complex", "numbers"]),
    ("complex tensor", two(torch.ones(2, 3) * 1j), InputError, ["truth", "complex", "numbers"]),
    (
        "complex csr",
        two(sp.csr_matrix(np.ones((2, 3)) * 1j)),
        InputError,
        ["truth", "complex", "numbers"],
    ),
    (
        "sparse vector",
        two(sp.coo_array(np.ones(3))),
        InputError,
        ["truth", r"\[3\]", r"\[users, items\]|matrix"],
    ),
    ("sparse cube", two(torch.ones(2, 3, 2).to_sparse()), InputError, ["truth", r"\[2, 3, 2\]"]),
    ("hybrid sparse", two(torch.ones(2, 3, 2).to_sparse(2)), InputError, ["truth", r"\[2, 3, 2\]"]),
    ("batched csr", two(sparse_csr()), InputError, ["truth", r"\[2, 2, 3\]"]),
    ("torch csc", two(torch.ones(2, 3).to_sparse_csc()), InputError, ["sparse_csc", "sparse CSR"]),
    (
        "rating too large for its gain",
        two({0: {0: 5000.0}}),
        InputError,
        ["5000", r"2\^r", "overflow", 'gain="binary"', 'gain="linear"', "implicit"],
    ),
    (
        "shifted gain too large",
        two({0: {0: 1023.5}}, metrics="nDCG(gain=exponential_shifted)"),
        InputError,
        ["1023.5", 'gain="linear"'],
    ),
]


@refuses(TRUTH_ERRORS)
def test_rejects_wrong_truth(call, error, says):
    check(call, error, says)


TRAIN_ERRORS = [
    (
        "another shape",
        two(TRUTH, train=torch.ones(2, 4)),
        InputError,
        ["train", r"\[2, 4\]", r"\[2, 3\]"],
    ),
    (
        "unknown item",
        two({"ann": ["x"]}, train={"ann": ["q"]}, **NAMES),
        InputError,
        ["train has items", "item 'q'"],
    ),
    ("row out of range", two(TRUTH, train={5: [0]}), InputError, ["train has users", "user 5"]),
    (
        "integers for strings",
        two({"ann": ["x"]}, train={1: ["x"]}, **NAMES),
        InputError,
        ["train", "integers", "strings"],
    ),
    (
        "no columns",
        two(TRUTH, train=pl.DataFrame({"a": [1]})),
        InputError,
        ["train has the columns", "'user'"],
    ),
    (
        "a path",
        two(TRUTH, train="train.csv"),
        InputError,
        ["train .train.csv.: there is no such file"],
    ),
    ("NaN", two(TRUTH, train={0: {0: math.nan}}), InputError, ["train", "not finite"]),
    (
        "pandas NA",
        two(TRUTH, train=pd.DataFrame({"user": pd.array([0, None], "Int64"), "item": [0, 1]})),
        InputError,
        ["train", "row 1"],
    ),
    (
        "mask without train",
        two(TRUTH, mask_seen=True),
        MissingInput,
        ["mask_seen=True needs train="],
    ),
    (
        "unknown masking",
        two(TRUTH, train=TRUTH, mask_seen="yes"),
        SettingError,
        ["mask_seen='yes'", "True, False or 'auto'"],
    ),
    (
        "masking 0",
        two(TRUTH, train=TRUTH, mask_seen=0),
        SettingError,
        ["mask_seen=0", "True, False or 'auto'"],
    ),
    (
        "masking 1",
        two(TRUTH, train=TRUTH, mask_seen=1),
        SettingError,
        ["mask_seen=1", "True, False or 'auto'"],
    ),
    (
        "masking array",
        two(TRUTH, train=TRUTH, mask_seen=np.ones(2)),
        SettingError,
        ["mask_seen=", "True, False or 'auto'"],
    ),
]


@refuses(TRAIN_ERRORS)
def test_rejects_wrong_train(call, error, says):
    check(call, error, says)


ID_ERRORS = [
    (
        "too few users",
        two(TRUTH, users=[1]),
        InputError,
        ["users= has 1 id,", "2 rows", "one id for each"],
    ),
    (
        "too many items",
        two(TRUTH, items=list("abcd")),
        InputError,
        ["items= has 4 ids", "3 columns", "one id for each"],
    ),
    (
        "a user twice",
        two(TRUTH, users=["a", "a"]),
        InputError,
        ["users= has the id 'a' 2 times", "once"],
    ),
    ("a set", two(TRUTH, items={"a", "b", "c"}), InputError, ["set", "no order", "list"]),
    ("mixed", two(TRUTH, users=[1, "a"]), InputError, ["users= mixes user ids of types int, str"]),
    (
        "floats",
        two(TRUTH, users=np.array([1.0, 2.0])),
        InputError,
        ["users=", "Float64", "integers or strings"],
    ),
    (
        "a missing one",
        two(TRUTH, users=["a", None]),
        InputError,
        ["users= has no user id in row 1"],
    ),
    ("a number", two(TRUTH, users=2), InputError, ["users=", "list"]),
    ("a word", two({"a": [0]}, users="ab"), InputError, ["users .ab.: there is no such file"]),
    (
        "a matrix",
        two(TRUTH, users=np.zeros((2, 2), int)),
        InputError,
        ["users=", "integers or strings"],
    ),
    ("a frame", two(TRUTH, users=pl.DataFrame({"u": [1, 2]})), InputError, ["users="]),
    ("beyond 64 bits", two(TRUTH, users=[1, 2**70]), InputError, ["users="]),
]


@refuses(ID_ERRORS)
def test_rejects_wrong_ids(call, error, says):
    check(call, error, says)


def named(name, error, *says):
    return (f"name {name}", two(TRUTH, metrics=[name]), error, list(says))


SETTING_ERRORS = [
    named("nDGC@10", UnknownMetric, "'nDGC'", "Did you mean 'nDCG'", "lists all", "@weft.register"),
    named("Zebra@10", UnknownMetric, "'Zebra'", "weft metrics lists all", "@weft.register"),
    named("HR@10", UnknownMetric, "'HR'", "Did you mean 'HitRate'?", "lists all"),
    named("Novelty@10", UnknownMetric, "'Novelty'", "Did you mean 'EPC' or 'EFD' or"),
    named("coverage@10", UnknownMetric, "Did you mean 'ItemCoverage' or 'UserCoverage'?"),
    named(
        "nDCG(gian=linear)@10",
        UnknownParameter,
        "nDCG has no parameter 'gian'",
        "Did you mean 'gain'",
        "gain, ideal",
    ),
    named(
        "HitRate(beta=1)@10", UnknownParameter, "HitRate has no parameter 'beta'", "no parameters"
    ),
    named("nDCG(k=5)", UnknownParameter, "no parameter 'k'"),
    named(
        "nDCG(gain=linaer)@10",
        SettingError,
        "gain='linaer'",
        "'exponential', 'linear'",
        "Did you mean 'linear'",
    ),
    named("GAUC(weight=3)", SettingError, "weight=3", "'uniform', 'positives'"),
    named("nDCG(gain=linear, GAIN=binary)@3", SettingError, "'gain' twice", "remove one"),
    named("F1(metric_1=MAP, metric_name_1=MAP)@2", SettingError, "'metric_name_1' twice"),
    named(
        "F1(metric_name_1=AUC)@10",
        SettingError,
        "F1 cannot combine AUC",
        "no value per user",
        "mean over users",
    ),
    named(
        "F1(metric_name_1=nDCG@5)@10", SettingError, "at the cut-off of F1", "'nDCG' without '@5'"
    ),
    named("F1(metric_name_1=nDGC)@10", UnknownMetric, "Did you mean 'nDCG'"),
    named(
        "F1(metric_name_1=3)@10",
        SettingError,
        "got the component 3",
        "expected the name of a metric",
    ),
    named("F1(beta=0)@10", SettingError, "beta=0", "above 0"),
    named("F1(beta=high)@10", SettingError, "beta='high'", "above 0"),
    named("AUC@10", SettingError, "AUC does not depend on a cut-off", "'AUC' without '@10'"),
    named("nDCG@0", SettingError, "an integer of at least 1", "character 6"),
    (
        "no cut-off",
        two(TRUTH, top_k=()),
        SettingError,
        ["nDCG needs a cut-off", "'nDCG@10'", r"top_k=\[10, 20\]"],
    ),
    ("k = 0", two(TRUTH, top_k=0), SettingError, ["top_k=0", "integers of at least 1"]),
    ("k = -1", two(TRUTH, top_k=[5, -1]), SettingError, ["top_k=-1", "integers"]),
    ("k = 2.5", two(TRUTH, top_k=[2.5]), SettingError, ["top_k=2.5", "integers"]),
    ("k = True", two(TRUTH, top_k=True), SettingError, ["top_k=True", "integers"]),
    ("k a float", two(TRUTH, top_k=10.0), SettingError, ["top_k", "10.0", "integers"]),
    ("k = None", two(TRUTH, top_k=None), SettingError, ["nDCG needs a cut-off", "top_k="]),
    ("k a word", two(TRUTH, top_k="10"), SettingError, ["top_k", "10'", "integers"]),
    ("no metrics", two(TRUTH, metrics=[]), SettingError, ["no metrics", "metrics="]),
    ("metrics=None", two(TRUTH, metrics=None), SettingError, ["metrics", "None"]),
    ("metrics=5", two(TRUTH, metrics=5), SettingError, ["metrics?", "5"]),
    (
        "another kind of metric",
        two(TRUTH, metrics=[torch.nn.Linear]),
        SettingError,
        ["not a metric", "'nDCG@10'"],
    ),
    (
        "threshold 0",
        two(TRUTH, relevance_threshold=0),
        SettingError,
        ["relevance_threshold=0", "above 0"],
    ),
    (
        "threshold -1",
        two(TRUTH, relevance_threshold=-1),
        SettingError,
        ["relevance_threshold=-1", "above 0"],
    ),
    (
        "threshold NaN",
        two(TRUTH, relevance_threshold=math.nan),
        SettingError,
        ["relevance_threshold=nan", "above 0"],
    ),
    (
        "threshold inf",
        two(TRUTH, relevance_threshold=math.inf),
        SettingError,
        ["relevance_threshold=inf"],
    ),
    (
        "threshold a word",
        two(TRUTH, relevance_threshold="4"),
        SettingError,
        ["relevance_threshold='4'", "number"],
    ),
    ("batch_size 0", two(TRUTH, batch_size=0), SettingError, ["batch_size=0", "at least 1"]),
    ("batch_size 1.5", two(TRUTH, batch_size=1.5), SettingError, ["batch_size=1.5", "at least 1"]),
    ("ties", two(TRUTH, ties="worst"), SettingError, ["ties='worst'", "'pessimistic'"]),
    ("ties misspelt", two(TRUTH, ties="randon"), SettingError, ["Did you mean 'random'"]),
    (
        "empty_users",
        two(TRUTH, empty_users="drop"),
        SettingError,
        ["empty_users='drop'", "'skip', 'zero'"],
    ),
    (
        "missing_lists",
        two(TRUTH, missing_lists=0),
        SettingError,
        ["missing_lists=0.*'skip', 'zero'"],
    ),
    ("seed a word", two(TRUTH, seed="x", ties="random"), SettingError, ["seed='x'"]),
    ("seed a fraction", two(TRUTH, seed=1.5), SettingError, ["seed=1.5"]),
    ("seed too large", two(TRUTH, seed=2**70, ties="random"), SettingError, ["seed="]),
    ("no such device", two(TRUTH, device="gpu"), SettingError, ["device='gpu'"]),
    (
        "keyword of a metric",
        lambda: weft.metrics.nDCG(k=2, gian="linear"),
        UnknownParameter,
        ["'gian'", "Did you mean 'gain'"],
    ),
    (
        "k of a metric",
        lambda: weft.metrics.Recall(k=0),
        SettingError,
        ["Recall got the cut-off k=0", "at least 1"],
    ),
    (
        "threshold of a metric",
        lambda: weft.metrics.Recall(k=2, relevance_threshold=0),
        SettingError,
        ["relevance_threshold=0"],
    ),
    ("ties of a metric", lambda: weft.metrics.Recall(k=2, ties="x"), SettingError, ["ties='x'"]),
    (
        "both names of a part",
        lambda: weft.metrics.F1(k=2, metric_1="MAP", metric_name_1="MRR"),
        SettingError,
        ["metric_name_1", "twice|both"],
    ),
    (
        "registering what is no metric",
        lambda: weft.register(dict),
        SettingError,
        ["dict", "metric"],
    ),
]


@refuses(SETTING_ERRORS)
def test_rejects_wrong_settings(call, error, says):
    check(call, error, says)


def test_rejected_classes_are_not_registered():
    with pytest.raises(WeftError):
        weft.register(type("NoMetric", (), {}))
    assert evaluate()["nDCG@2"] > 0 and "NoMetric" not in str(all_metrics())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_rejects_missing_devices():
    check(two(TRUTH, device="cuda"), SettingError, ["device='cuda'"])


def test_accepts_numpy_numbers():
    expected = evaluate(ties="random", seed=3, relevance_threshold=0.5, batch_size=1)
    given = {
        "top_k": np.int64(2),
        "seed": np.int64(3),
        "relevance_threshold": np.float32(0.5),
        "batch_size": np.int32(1),
    }
    assert evaluate(ties="random", **given)["nDCG@2"] == expected["nDCG@2"]
    assert weft.metrics.nDCG(k=np.int64(2)).k == 2


@pytest.mark.parametrize(
    "metrics",
    [weft.metrics.nDCG(k=2), weft.metrics.nDCG, MetricSpec("nDCG", (), 2)],
    ids=["object", "class", "spec"],
)
def test_accepts_a_single_metric(metrics):
    assert evaluate(metrics=metrics)["nDCG@2"] == evaluate()["nDCG@2"]


def test_sums_of_gains_that_overflow():
    truth = {0: dict.fromkeys(range(3), 1023.9), 1: {0: 1}}
    with contextlib.suppress(InputError):  # a refusal is as good as the value
        assert evaluate(SCORES, truth, top_k=[3]).entry("nDCG@3").users == 2


def alone(*args, **kwargs):
    return lambda: weft.metrics.nDCG(k=2).update(*args, **kwargs)


def up(*args, **kwargs):
    return lambda: update(*args, **kwargs)


TRAINED = {"train": {0: [1]}, "num_users": 2, "num_items": 3}
UPDATE_ERRORS = [
    ("preds lists", up(SCORES.tolist()), InputError, ["preds is a list", r"\[batch, items\]"]),
    ("preds a cube", up(SCORES[None]), InputError, [r"\[1, 2, 3\]", r"\[batch, items\]"]),
    ("preds sparse", up(SCORES.to_sparse()), InputError, ["preds", "sparse"]),
    ("preds complex", up(SCORES + 0j), InputError, ["preds", "complex"]),
    (
        "target of another shape",
        up(target=torch.ones(2, 4)),
        InputError,
        [r"\[2, 4\]", "2 rows and 3 items", r"\[2, 3\]"],
    ),
    (
        "sparse target of another shape",
        up(target=sp.csr_matrix((3, 3))),
        InputError,
        [r"\[3, 3\]", r"\[2, 3\]"],
    ),
    ("too few lists", up(target=((0,),)), InputError, ["target has", "2 rows", "list of lists"]),
    ("no target", up(target=None), InputError, ["target is None", "(lists?|items) of"]),
    (
        "target by ids",
        up(target={0: [1]}),
        InputError,
        ["target names users and items by ids", "items of each row"],
    ),
    ("target a frame", up(target=frame()), InputError, ["target names users and items by ids"]),
    ("target item out of range", up(target=((0,), (3,))), InputError, ["item 3", "0 to 2"]),
    ("target item negative", up(target=((0,), (-2,))), InputError, ["item -2", "0 to 2"]),
    ("target item twice", up(target=((0, 0), (1,))), InputError, ["same .row, item. pair twice"]),
    (
        "target padded with 0",
        up(target=torch.tensor([[2, 0, 0, 0], [1, 2, 0, 0]])),
        InputError,
        ["same .row, item. pair twice", "Row 0 contains the item 0", "-1 or -100 pads short rows"],
    ),
    (
        "target a matrix with too few columns",
        up(target=torch.tensor([[1, 0], [1, 1]])),
        InputError,
        ["Row 1 contains the item 1 more than once", r"one column per item, \[2, 3\]"],
    ),
    (
        "target csr cell twice",
        up(target=sp.csr_matrix((np.ones(2), [1, 1], [0, 2, 2]), (2, 3))),
        InputError,
        ["same .row, item. pair twice"],
    ),
    ("target of words", up(target=(("x",), ("y",))), InputError, ["target", "x"]),
    ("target of fractions", up(target=((1.5,), (1,))), InputError, ["target", "1.5"]),
    ("target of ratings by item", up(target=({0: 5.0}, {1: 3.0})), InputError, ["target"]),
    ("target ragged", up(target=(((1,), (2, 3)), (1,))), InputError, ["target"]),
    ("target complex", up(target=torch.ones(2, 3) * 1j), InputError, ["target", "complex"]),
    ("target of text", up(target=np.array([["a"] * 3] * 2)), InputError, ["target", "<U1"]),
    ("target NaN", up(target=torch.full((2, 3), math.nan)), InputError, ["not finite"]),
    (
        "target negative",
        up(target=-torch.ones(2, 3)),
        InputError,
        ["negative rating -1", "relevance_threshold="],
    ),
    (
        "target -1 among columns",
        up(target=torch.tensor([[0, -1, -1], [1, -1, -1]])),
        InputError,
        ["-1", "padded|relevance_threshold="],
    ),
    (
        "user_indices of another length",
        up(users=torch.arange(3)),
        InputError,
        [r"user_indices has shape \[3\]", "2 rows", "one user index per row"],
    ),
    ("user_indices a list too long", up(users=[0, 1, 2]), InputError, ["user_indices"]),
    (
        "user_indices fractions",
        up(users=torch.tensor([0.5, 1.0]), **TRAINED),
        InputError,
        ["user_indices"],
    ),
    (
        "user_indices out of range",
        up(users=torch.tensor([0, 7]), **TRAINED),
        InputError,
        ["user_indices contains 7", "0 to 1"],
    ),
    (
        "user_indices negative",
        up(users=torch.tensor([-3, 1]), **TRAINED),
        InputError,
        ["user_indices contains -3", "0 to 1"],
    ),
    (
        "train without user_indices",
        up(**TRAINED),
        InputError,
        ["needs user_indices", "mask_seen=False"],
    ),
    ("train of unknown size", up(train={0: [1]}), SettingError, ["num_users= and num_items="]),
    (
        "train of another size",
        up(train=torch.ones(3, 3), num_users=2, num_items=3),
        InputError,
        [r"\[3, 3\]", r"\[2, 3\]"],
    ),
    ("num_items", up(num_items=4), InputError, ["3 items", "num_items=4"]),
    (
        "num_users a word",
        up(train={0: [1]}, num_users="2", num_items=3),
        SettingError,
        ["num_users='2'"],
    ),
    ("metric without target", alone(SCORES), InputError, [r"nDCG.update\(\) needs a target"]),
    (
        "metric with a block",
        alone(SCORES, [[0], [1]], valid_users=1),
        InputError,
        ["'valid_users' in addition to a target", "preds, target, user_indices and items"],
    ),
    ("metric with lists", alone(SCORES.tolist(), [[0], [1]]), InputError, ["preds is a list"]),
    (
        "metric with a list of users too long",
        alone(SCORES, [[0], [1]], [0, 1, 2]),
        InputError,
        ["user_indices"],
    ),
    (
        "metric with a target too wide",
        alone(SCORES, torch.ones(2, 4)),
        InputError,
        [r"\[2, 4\]", r"\[2, 3\]"],
    ),
    (
        "merging what is no evaluator",
        lambda: weft.Evaluator("AUC").merge(5),
        SettingError,
        ["merge", "int"],
    ),
]


@refuses(UPDATE_ERRORS)
def test_rejects_wrong_updates(call, error, says):
    check(call, error, says)


@pytest.mark.parametrize(
    "target",
    [
        torch.empty(0, dtype=torch.int64),
        torch.empty((0, 2), dtype=torch.int64),
        [],
        torch.empty(0, 3),
    ],
)
def test_accepts_an_empty_batch(target):
    assert update(SCORES[:0], target).counts["users"] == 0


def test_errors_do_not_change_the_state():
    evaluator = weft.Evaluator(["nDCG", "AUC"], top_k=2)
    evaluator.update(SCORES, [[0], [1]])
    before = evaluator.compute()
    for preds, target in (
        (scores(math.nan), [[0], [1]]),
        (SCORES, [[0], [7]]),
        (SCORES, torch.full((2, 3), 2000.0)),
    ):
        with pytest.raises(InputError):
            evaluator.update(preds, target)
    after = evaluator.compute()
    assert [after[name] for name in after] == [
        before[name] for name in before
    ] and after.counts == before.counts


def test_errors_share_a_base_class():
    for error in (InputError, MissingInput, SettingError, UnknownMetric, UnknownParameter):
        assert issubclass(error, WeftError) and issubclass(error, ValueError)
    assert issubclass(UnknownParameter, TypeError)


@pytest.mark.parametrize(
    ("value", "described"),
    [
        (None, "None"),
        (3, "an int"),
        (np.zeros(1), "an ndarray"),
        (np.uint8(1), "a uint8"),
        ("", "a str"),
    ],
    ids=repr,
)
def test_describes_types_with_their_article(value, described):
    assert describe_type(value) == described


@pytest.mark.parametrize(
    ("setting", "call"),
    [
        ("bins", lambda: check_int("ECE got bins", 0)),
        ("slices", lambda: evaluate(SCORES, slices={"activity": "quantiles(1)"})),
        ("item_slices", lambda: evaluate(SCORES, item_slices={"old": "head_tail(2)"})),
        ("results", lambda: weft.compare([1, 2])),
        ("device", lambda: evaluate(SCORES, device="meta")),
    ],
)
def test_errors_name_the_argument(setting, call):
    with pytest.raises(SettingError) as caught:
        call()
    assert caught.value.setting == setting
