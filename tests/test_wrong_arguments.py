"""Arguments of a wrong type give a result or a `WeftError`, at every public entry point."""

import inspect
import warnings

import numpy as np
import polars as pl
import pytest
import torch

import weft
import weft.engines.distributed
import weft.sampling
import weft.testing
from weft.errors import WeftError
from weft.metrics.declarations import declared_inputs
from weft.metrics.registry import built_in_metrics, constructor_parameters, needs_cutoff

SCORES = np.random.default_rng(5).random((4, 6))
TRUTH = {user: {user: 1.0, 5: 2.0} for user in range(4)}


class Strange:
    """An object that is nothing that anybody expects."""


# Values that hardly any argument takes; those that it takes give a result.
VALUES = {
    "None": None,
    "bool": True,
    "zero": 0,
    "number": 7,
    "negative": -3,
    "fraction": 2.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "large": 10**30,
    "complex": 1j,
    "text": "nothing",
    "empty text": "",
    "null character": "a\0b",
    "bytes": b"bytes",
    "object": Strange(),
    "class": Strange,
    "function": lambda: None,
    "lambda": lambda *args, **kwargs: args,
    "generator": (n for n in range(3)),
    "empty list": [],
    "list": [1, "a", None],
    "nested list": [[1, 2], [3]],
    "list of objects": [Strange()],
    "tuple": (1, 2),
    "set": {1, 2},
    "empty dict": {},
    "dict": {"a": 1},
    "dict of objects": {Strange(): Strange()},
    "dict of dicts": {0: {None: "x"}},
    "scalar array": np.array(1.0),
    "empty array": np.zeros((0, 3)),
    "vector": np.arange(3),
    "cube": np.zeros((2, 2, 2)),
    "bool array": np.ones((4, 6), bool),
    "text array": np.array([["a", "b"]]),
    "object array": np.array([[None, {}]], dtype=object),
    "complex array": np.ones((4, 6), complex),
    "dates": np.array(["2020-01-01"], "datetime64[D]"),
    "record array": np.zeros(2, dtype=[("user", int), ("item", int)]),
    "nan array": np.full((4, 6), np.nan),
    "tensor": torch.zeros(2, 3, 4),
    "scalar tensor": torch.tensor(1.0),
    "complex tensor": torch.ones(4, 6, dtype=torch.complex64),
    "sparse tensor": torch.ones(4, 6).to_sparse(),
    "meta tensor": torch.ones(4, 6, device="meta"),
    "frame": pl.DataFrame({"a": [1]}),
    "empty frame": pl.DataFrame(),
    "lazy frame": pl.LazyFrame({"a": [1]}),
    "series": pl.Series([1, 2]),
    "module": warnings,
    "dtype": torch.float32,
    "exception": ValueError("x"),
    "range": range(3),
    "result": weft.evaluate(SCORES, TRUTH, metrics=["nDCG@2"], per_user=True),
}


def evaluator():
    return weft.Evaluator(["nDCG", "Gini"], top_k=2, num_items=6, num_users=4)


def filled_evaluator():
    filled = evaluator()
    filled.update(torch.tensor(SCORES), torch.ones(4, 6))
    return filled


def per_user_result(name="m", scores=SCORES):
    return weft.evaluate(scores, TRUTH, metrics=["nDCG@2"], per_user=True, name=name)


RESULTS = [per_user_result("a"), per_user_result("b", SCORES[:, ::-1].copy())]
COMPARISON = weft.compare(RESULTS)
RANKS = [1, 2, 5]
BATCH = {
    "preds": torch.tensor(SCORES),
    "target": torch.ones(4, 6),
    "user_indices": torch.arange(4),
}
DATA = {"source": SCORES, "truth": TRUTH, "metrics": ["nDCG@2"]}
SAMPLED = {"ranks": RANKS, "num_items": 50, "metrics": ["nDCG"], "num_negatives": 5, "top_k": 2}


def parameters(function, **valid):
    """Return the defaults of a function with valid arguments for the others."""
    found = inspect.signature(function).parameters.values()
    defaults = {one.name: one.default for one in found if one.default is not one.empty}
    return {name: value for name, value in {**defaults, **valid}.items() if name != "progress"}


INPUTS = {
    "num_items": 6,
    "num_users": 4,
    "train": np.ones((4, 6)),
    "item_features": [[1], [2], [1], [2], [1], [2]],
    "item_clusters": [1, 2, 1, 2, 1, 2],
    "user_groups": ["a", "b", "a", "b"],
    "metric_names": ["nDCG", "Recall"],
    "utopia_points": [1, 1],
    "nadir_points": [0, 0],
    "metric": "nDCG",  # of IPS
    "reference": [[1, 2], [3], [], [0]],
}
# Defaults that need other data than those of `INPUTS`.
EXAMPLES = {
    "ILD": {"distance": "category"},
    "ILS": {"distance": "category"},
    "ERR": {"max_grade": 5},
    "nERR": {"max_grade": 5},
}


def construct(metric):
    """Return an entry that constructs a metric."""
    found = constructor_parameters(metric)
    required = {
        name: INPUTS[name]
        for name, one in found.items()
        if one.default is one.empty and name in INPUTS
    }
    defaults = {name: one.default for name, one in found.items() if one.default is not one.empty}
    cutoff = {"k": 2} if needs_cutoff(metric) else {}
    declared = {name: INPUTS[name] for name in declared_inputs(metric) if name in INPUTS}
    example = EXAMPLES.get(metric.__name__, {})
    return metric, {**defaults, **required, **declared, **cutoff, **example}


def update(metric):
    """Return an entry that updates a metric."""
    return lambda **given: metric.clone().update(**given), {**BATCH, "items": None}


TEXT = {"pairs": False, "guard_formulas": True}
FACTORS = parameters(weft.Factors, user_embeddings=np.ones((4, 2)), item_embeddings=np.ones((6, 2)))
ENTRIES = {
    "evaluate": (weft.evaluate, parameters(weft.evaluate, **DATA)),
    "evaluate lists": (
        weft.evaluate,
        parameters(weft.evaluate, **{**DATA, "source": {0: [1, 2], 1: [3]}, "train": {0: [4]}}),
    ),
    "evaluate sampled": (
        weft.evaluate,
        {**DATA, "strategy": "sampled", "num_negatives": 2, "negative_sampling": None, "seed": 0},
    ),
    "evaluate on processes": (weft.engines.distributed.evaluate, DATA),
    "check": (
        weft.check,
        parameters(weft.check, **{**DATA, "source": {0: [1, 2]}, "user_groups": None}),
    ),
    "compare": (weft.compare, parameters(weft.compare, results=RESULTS)),
    "Evaluator": (weft.Evaluator, parameters(weft.Evaluator.__init__, metrics=["nDCG"], top_k=2)),
    "update": (
        lambda **given: evaluator().update(**given),
        parameters(weft.Evaluator.update, **BATCH),
    ),
    "forward": (lambda **given: evaluator().forward(**given), BATCH),
    "clone": (lambda **given: evaluator().clone(**given), {"prefix": None, "postfix": None}),
    "merge": (lambda **given: evaluator().merge(**given), {"other": filled_evaluator()}),
    "Factors": (weft.Factors, FACTORS),
    "Factors in evaluate": (
        lambda **given: weft.evaluate(weft.Factors(**given), TRUTH, metrics=["nDCG@2"]),
        FACTORS,
    ),
    "File": (weft.File, parameters(weft.File, path="x.csv")),
    "TopKItems": (weft.TopKItems, parameters(weft.TopKItems, ids=[[1, 2], [3, 4]])),
    "TopKItems in evaluate": (
        lambda **given: weft.evaluate(weft.TopKItems(**given), TRUTH, metrics=["nDCG@2"]),
        parameters(weft.TopKItems, ids=[[1, 2], [3, 4]]),
    ),
    "PairwiseModel": (
        weft.PairwiseModel,
        parameters(weft.PairwiseModel, model=lambda users, items: users),
    ),
    "load_result": (weft.load_result, {"path": "missing.json"}),
    "save_state": (weft.save_state, {"evaluator": filled_evaluator(), "path": "state"}),
    "load_state": (weft.load_state, parameters(weft.load_state, path="missing")),
    "merge_states": (weft.merge_states, parameters(weft.merge_states, paths=["missing"])),
    "get_topk_ranks": (
        weft.get_topk_ranks,
        parameters(
            weft.get_topk_ranks, pred_scores=torch.tensor(SCORES), target=torch.arange(4), topk=3
        ),
    ),
    **{
        f"{metric.__name__} of one target construct": (metric, {"k": 3})
        for metric in (weft.HR, weft.NDCG, weft.MRR)
    },
    **{
        f"{metric.__name__} of one target update": (
            lambda metric=metric, **given: metric(3).update(*given.values()),
            {"ranks": torch.tensor([1, 2])},
        )
        for metric in (weft.HR, weft.NDCG, weft.MRR)
    },
    "register": (weft.register, {"metric": weft.metrics.nDCG}),
    "check_metric": (
        weft.testing.check_metric,
        parameters(weft.testing.check_metric, metric="Precision"),
    ),
    "Result entry": (RESULTS[0].entry, {"name": "nDCG@2"}),
    "Result item": (RESULTS[0].__getitem__, {"name": "nDCG@2"}),
    "Result slice": (RESULTS[0].slice, {"name": "x"}),
    "Result save": (RESULTS[0].save, {"path": "r.json"}),
    "Result to_html": (RESULTS[0].to_html, {"path": None, "title": None}),
    "Result plot": (RESULTS[0].plot, {"kind": "values"}),
    "Comparison save": (COMPARISON.save, {"path": "c.json", **TEXT}),
    "Comparison to_text": (COMPARISON.to_text, {"form": "csv", **TEXT}),
    "Comparison pareto": (COMPARISON.pareto, {"metrics": ["nDCG@2"]}),
    "Comparison adjusted": (COMPARISON.adjusted, {"correction": "fdr"}),
    "Comparison letters": (COMPARISON.letters, {"test": "paired_t"}),
    "sampling exact": (
        weft.sampling.exact,
        {key: SAMPLED[key] for key in ("ranks", "num_items", "metrics", "top_k")},
    ),
    "sampling expected": (weft.sampling.expected, parameters(weft.sampling.expected, **SAMPLED)),
    "sampling deviation": (weft.sampling.deviation, parameters(weft.sampling.deviation, **SAMPLED)),
    "sampling is_identified": (
        weft.sampling.is_identified,
        parameters(
            weft.sampling.is_identified,
            models={"a": RANKS, "b": [2, 2, 2]},
            metric="nDCG@2",
            num_items=50,
            num_negatives=5,
        ),
    ),
    "sampling draw": (
        weft.sampling.draw,
        parameters(weft.sampling.draw, truth=TRUTH, num_negatives=2, items=range(6)),
    ),
    **{f"{metric.__name__} construct": construct(metric) for metric in built_in_metrics()},
    **{
        f"{type(metric).__name__} update": update(metric)
        for metric in (
            weft.metrics.nDCG(2),
            weft.metrics.Gini(2, num_items=6),
            weft.metrics.AUC(),
            weft.metrics.RMSE(),
        )
    },
}
# Entries whose valid arguments name files that do not exist, or slices that a result lacks.
REFUSED_ANYWAY = {"load_result", "load_state", "merge_states", "Result slice"}
# Documented errors: of mappings, and of failed checks.
DOCUMENTED = {
    "Result entry": KeyError,
    "Result item": KeyError,
    "Result slice": KeyError,
    "check_metric": AssertionError,
}


def outcome(function, arguments, documented=WeftError):
    """Return None for a result or an error of Weft, the text of any other error."""
    try:
        function(**arguments)
    except (WeftError, documented) as error:
        return None if str(error) else "an error without a message"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entry", ENTRIES)
def test_wrong_arguments_give_a_result_or_a_weft_error(entry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, valid = ENTRIES[entry]
    if entry not in REFUSED_ANYWAY:
        function(**valid)
    found = {}
    for parameter in valid:
        for label, value in VALUES.items():
            if parameter == "source" and label in ("class", "function"):
                continue  # errors of the caller's own function are not Weft's
            given = {**valid, parameter: iter(range(3)) if label == "generator" else value}
            documented = DOCUMENTED.get(entry, WeftError)
            found[f"{parameter}={label}"] = outcome(function, given, documented)
    assert {name: error for name, error in found.items() if error} == {}
