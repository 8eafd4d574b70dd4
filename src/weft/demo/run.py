"""The demonstration: three recommenders on the embedded data set, evaluated in one call each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sparse

from weft.demo import dataset, recommenders
from weft.result import Result
from weft.run import evaluate
from weft.sources import Factors

METRICS = (
    *("nDCG", "Recall", "Precision", "MAP", "MRR", "HitRate", "GAUC"),
    *("ItemCoverage", "Gini", "EPC", "ARP", "SRecall", "UserMADRanking"),
)
TOP_K = (10, 20)


def run(step: Callable[[str], None]) -> list[Result]:
    """Fit and evaluate; `step` is told what begins, five times."""
    return list(_run(step))


def _run(step: Callable[[str], None]) -> Iterator[Result]:
    step("generating the data set")
    data = dataset.load()
    users, items = data.users["user"].to_list(), data.items["item"].to_list()
    rows, columns = ({name: number for number, name in enumerate(names)} for names in (users, items))
    cells = ([rows[user] for user in data.train["user"]], [columns[item] for item in data.train["item"]])
    train = sparse.csr_matrix((np.ones(len(data.train), dtype=np.float32), cells), shape=(len(users), len(items)))

    step("fitting a factor model")
    factors = Factors(*recommenders.factor_model(train))
    step("fitting item-kNN")
    similar = recommenders.item_knn(train)
    popularity = recommenders.popularity(train)

    # Three kinds of source: a callable that is asked for users, a score matrix, a pair of embeddings.
    models = {
        "popularity": lambda names: popularity(np.array([rows[name] for name in names])),
        "item_knn": similar,
        "factors": factors,
    }
    step("evaluating")
    for name, model in models.items():
        yield evaluate(
            model,
            data.test,
            train=data.train,
            users=users,
            items=items,
            user_groups=data.users.select("user", "gender"),
            item_features=data.items.select("item", "genres"),
            metrics=METRICS,
            top_k=TOP_K,
            per_user=True,
            name=name,
        )
    step("done")
