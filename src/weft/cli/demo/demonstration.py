"""The demonstration: three recommenders on the embedded data set, evaluated with one call each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sparse

from weft.cli.demo import demo_data, recommenders
from weft.data.sources import Factors
from weft.evaluation.api import evaluate
from weft.evaluation.result import Result

# Every family except rating errors: these models predict no ratings.
METRICS = (
    *("nDCG", "Recall", "Precision", "MAP", "MRR", "HitRate", "GAUC", "ItemCoverage", "EPC", "EFD"),
    *("Gini", "ShannonEntropy", "SRecall", "ARP", "APLT(pop_ratio=0.5)", "UserMADRanking"),
    *("REO", "RSP", "BiasDisparityBD"),
    "EucDistance(metric_names=[nDCG, EPC], utopia_points=[1, 1])",
)
# The models by name, which is also that of their files.
MODELS = {
    "pop": "popularity",
    "knn": "item-based nearest neighbours",
    "als": "matrix factorization by alternating least squares",
}
TOP_K = (5, 10, 20)
SHOWN_CUTOFF = 10  # of the table in the terminal


def shorten_result(result: Result) -> Result:
    """Return the part of a result that fits a terminal: one cut-off, no values by label."""
    values = (value for value in result.entries if value.k in (None, SHOWN_CUTOFF))
    return replace(result, entries=tuple(value for value in values if not value.cell), slices=None)


def run(step: Callable[[str], None]) -> list[Result]:
    """Fit and evaluate the recommenders; `step` is called with each of five steps."""
    step("generating the data set")
    data = demo_data.load()
    users, items = data.users["user"].to_list(), data.items["item"].to_list()
    models = _fit_models(data.train, users, items, step)
    genders = data.users.select("user", "gender")
    step("evaluating")
    results = [
        evaluate(
            model,
            data.test,
            train=data.train,
            users=users,
            items=items,
            user_groups=genders,
            item_clusters=data.items.select("item", pl.col("genres").list.first()),
            item_features=data.items.select("item", "genres"),
            metrics=METRICS,
            top_k=TOP_K,
            per_user=True,
            exposure=True,
            keep_lists=True,
            slices={"gender": genders, "activity": "quantiles(4)"},
            name=name,
        )
        for name, model in models.items()
    ]
    step("done")
    return results


def _fit_models(
    train: pl.DataFrame, users: list[str], items: list[str], step: Callable[[str], None]
) -> dict[str, Any]:
    """Return three kinds of source: a callable of user ids, a score matrix, two embeddings."""
    rows = {name: number for number, name in enumerate(users)}
    columns = {name: number for number, name in enumerate(items)}
    codes = [rows[user] for user in train["user"]], [columns[item] for item in train["item"]]
    matrix = sparse.csr_matrix(
        (np.ones(len(train), dtype=np.float32), codes), shape=(len(users), len(items))
    )
    step("fitting a factor model")
    factors = Factors(*recommenders.factor_model(matrix))
    step("fitting item-kNN")
    scores = recommenders.item_knn(matrix)
    popularity = recommenders.popularity(matrix)
    return {
        "pop": lambda names: popularity(np.array([rows[name] for name in names])),
        "knn": scores,
        "als": factors,
    }
