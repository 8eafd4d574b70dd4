"""The demonstration: three recommenders on the embedded data set, evaluated with one call each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

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
TOP_K = (5, 10, 20)
SHOWN_CUTOFF = 10  # of the table in the terminal


def shorten_result(result: Result) -> Result:
    """Return the part of a result that fits a terminal: one cut-off, no values by label."""
    values = (value for value in result.values if value.k in (None, SHOWN_CUTOFF))
    return replace(result, values=tuple(value for value in values if not value.cell), slices=None)


def run(step: Callable[[str], None]) -> list[Result]:
    """Fit and evaluate the recommenders; `step` is called with each of five steps."""
    return list(_evaluate_models(step))


def _evaluate_models(step: Callable[[str], None]) -> Iterator[Result]:
    step("generating the data set")
    data = demo_data.load()
    users, items = data.users["user"].to_list(), data.items["item"].to_list()
    rows, columns = (
        {name: number for number, name in enumerate(names)} for names in (users, items)
    )
    cells = (
        [rows[user] for user in data.train["user"]],
        [columns[item] for item in data.train["item"]],
    )
    train = sparse.csr_matrix(
        (np.ones(len(data.train), dtype=np.float32), cells), shape=(len(users), len(items))
    )

    step("fitting a factor model")
    factors = Factors(*recommenders.factor_model(train))
    step("fitting item-kNN")
    similar = recommenders.item_knn(train)
    popularity = recommenders.popularity(train)

    # Three kinds of source: a callable of user ids, a score matrix, a pair of embeddings.
    models = {
        "popularity": lambda names: popularity(np.array([rows[name] for name in names])),
        "item_knn": similar,
        "factors": factors,
    }
    main_genre = data.items.select("item", pl.col("genres").list.first())
    step("evaluating")
    for name, model in models.items():
        yield evaluate(
            model,
            data.test,
            train=data.train,
            users=users,
            items=items,
            user_groups=data.users.select("user", "gender"),
            item_clusters=main_genre,
            item_features=data.items.select("item", "genres"),
            metrics=METRICS,
            top_k=TOP_K,
            per_user=True,
            exposure=True,
            slices={"gender": data.users.select("user", "gender"), "activity": "quantiles(4)"},
            name=name,
        )
    step("done")
