"""Calls of public functions that type checkers must accept, and wrong choices that they must not.

mypy checks this module with `src`; it is not run. `warn_unused_ignores` reports a line with
`type: ignore` that mypy would accept.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import torch
from scipy import sparse

import weft
from weft.engines import distributed
from weft.metrics import Recall, nDCG


class Model:
    """A model with the method that Weft calls."""

    def score(self, users: list[str]) -> torch.Tensor:
        return torch.rand(len(users), 4)


class CandidateModel:
    """A model that scores some items of each user."""

    def score(self, users: list[str], items: list[list[str]]) -> torch.Tensor:
        return torch.rand(len(users), len(items[0]))


def evaluate_all_kinds_of_inputs(lists: pl.LazyFrame, frame: pd.DataFrame) -> None:
    truth = {"ann": {"tea": 5.0}, "bob": {"rye": 3.0}}
    weft.evaluate({"ann": ["tea"], "bob": ["rye"]}, truth, metrics=["nDCG", nDCG(k=5)], top_k=10)
    weft.evaluate({"ann": {"tea": 0.9}}, {"ann": ["tea"]}, metrics="nDCG@10")
    weft.evaluate(torch.rand(2, 3), np.eye(2, 3), train=sparse.eye(2, 3), metrics=Recall(k=5))
    weft.evaluate(lists, frame, train=Path("train.csv"), items=["tea", "rye"], metrics="MRR@5")
    weft.evaluate("lists.csv", weft.File("truth.csv", ids="string"), metrics="MRR@5")
    weft.evaluate(Model(), truth, items=["tea", "rye"], metrics="MRR@5", users="positions")
    weft.evaluate(CandidateModel(), truth, items=["tea", "rye"], metrics="MRR@5")
    weft.evaluate(CandidateModel().score, truth, items=["tea", "rye"], metrics="MRR@5")
    weft.evaluate(torch.nn.Linear(2, 3), truth, metrics="MRR@5", top_k=[10, 20], memory="4GiB")
    weft.evaluate(lambda users: torch.rand(len(users), 3), truth, metrics="MRR@5")
    weft.evaluate(weft.TopKItems(np.array([[1, 2]])), truth, metrics="MRR@5", candidates="listed")
    factors = weft.Factors(torch.rand(2, 4), torch.rand(3, 4))
    weft.evaluate(factors, truth, metrics="MRR@5", item_features={"tea": ["hot", "leaf"]})
    distributed.evaluate("lists.csv", "truth.csv", metrics="MRR@5")


def evaluate_with_wrong_choices() -> None:
    weft.evaluate("a.csv", "t.csv", metrics="MRR@5", ties="first")  # type: ignore[arg-type]
    weft.evaluate("a.csv", "t.csv", metrics="MRR@5", profile="trec")  # type: ignore[arg-type]
    weft.evaluate("a.csv", "t.csv", metrics="MRR@5", mask_seen="yes")  # type: ignore[arg-type]
    weft.evaluate("a.csv", "t.csv", metrics="MRR@5", duplicates="drop")  # type: ignore[arg-type]
    weft.evaluate("a.csv", 3, metrics="MRR@5")  # type: ignore[arg-type]
    weft.evaluate("a.csv", [[0], [1]], metrics="MRR@5")  # type: ignore[arg-type]
    weft.evaluate("a.csv", "t.csv", metrics=5)  # type: ignore[arg-type]
    weft.Evaluator("nDCG", 10, nan_scores="skip")  # type: ignore[arg-type]
    weft.File("a.csv", format="xlsx")  # type: ignore[arg-type]


def use_results() -> None:
    prepared = weft.prepare("truth.csv", metrics=["nDCG"], top_k=[10], train="train.csv")
    als: weft.Result = prepared.evaluate("als.csv", name="als")
    pop = weft.evaluate("pop.csv", "truth.csv", metrics="nDCG@10", per_user=True, ties="expected")
    value: float = als["nDCG@10"]
    comparison: weft.Comparison = weft.compare([als, pop], tests=["wilcoxon", "sign"])
    weft.compare({"als": als, "pop": pop}, tests="paired_t", correction="none", alpha=value)
    weft.compare([als, pop], tests="t")  # type: ignore[arg-type]
    weft.compare([als, pop], correction="sidak")  # type: ignore[arg-type]
    text: str = weft.table(comparison).to_latex()
    Path("table.tex").write_text(text)
    weft.check("als.csv", "truth.csv", train="train.csv", candidates="warm", profile="rectools")
    parts = weft.split("ratings.csv", "timeline", test_share=0.2, cold_users="drop")
    parts.save("parts", format="parquet")
    weft.split("ratings.csv", "time")  # type: ignore[arg-type]
    weft.split("ratings.csv", "random", per="item")  # type: ignore[arg-type]


def update_in_a_loop(batches: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, torch.Tensor]:
    evaluator = weft.Evaluator(["nDCG", "Recall"], [10, 20], ties="random", empty_users="zero")
    for scores, target in batches:
        evaluator.update(scores, target)
    metric = nDCG(k=10, gain="linear", ties="expected")
    metric.update(batches[0][0], batches[0][1])
    nDCG(k=10, discount="log2")  # type: ignore[arg-type]
    nDCG(k=10, gain={5: 3.0})
    return evaluator.compute().to_tensors()


def sample() -> None:
    weft.sampling.exact([1, 3], num_items=9, metrics=["MRR@2", "AUC"])
    weft.sampling.expected(
        np.array([1, 4]), num_items=10, num_negatives=3, metrics="AUC", estimator="rank_estimate"
    )
    weft.sampling.is_identified({"a": [1], "b": [2]}, metric="AUC", num_items=9, num_negatives=3)
