"""The tools, each as its manual shows it.

From scores `[users, items]`, a sparse truth and a sparse train to numbers. What depends on the
truth or on train alone is prepared once and not timed (a dict of judgements, a padded tensor, a
dense truth): it serves all models. What must be done again for each model is timed: hiding the seen
items and `torch.topk` where the tool wants lists, putting the lists into the tool's form, all
metrics at all cut-offs, the means."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix

from benchmarks.data import CUTOFFS, SIX, Problem
from benchmarks.peers.peer import LARGE, WITHOUT_CUTOFF, Peer, Run, Values, cell, cells

Names = dict[str, str]  # a tool's name of a value, and Weft's


def _top_lists(problem: Problem) -> Callable[[], Any]:
    """For tools that take lists: hide the seen items, then `torch.topk`. All of it in a copy, which
    is made once.
    """
    scores = problem.scores.clone()
    seen = tuple(torch.from_numpy(where.astype(np.int64)) for where in problem.train.nonzero())

    def top() -> Any:
        scores[seen] = -torch.inf
        return torch.topk(scores, max(CUTOFFS))

    return top


def _padded(matrix: csr_matrix, fill: int) -> torch.Tensor:
    """The items of each row, filled up to the longest."""
    rows = [
        torch.from_numpy(row.astype(np.int64))
        for row in np.split(matrix.indices, matrix.indptr[1:-1])
    ]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=fill)


def _judgements(problem: Problem) -> dict[str, dict[str, int]]:
    """The truth as TREC tools want it."""
    rows = np.split(problem.truth.indices, problem.truth.indptr[1:-1])
    return {str(user): {str(item): 1 for item in row} for user, row in enumerate(rows)}


def _trec_run(problem: Problem) -> Callable[[], dict[str, dict[str, float]]]:
    """The lists as TREC tools want them: by the names of users and items, which are known
    beforehand.
    """
    top = _top_lists(problem)
    users = [str(user) for user in range(problem.users)]
    items = [str(item) for item in range(problem.items)]

    def run() -> dict[str, dict[str, float]]:
        scores, lists = (found.tolist() for found in top())
        return {
            user: {items[item]: score for item, score in zip(chosen, given)}
            for user, chosen, given in zip(users, lists, scores)
        }

    return run


def _batches(problem: Problem) -> list[slice]:
    """1,024 users at a time, WarpRec's default; fewer where the scores of a batch would be more
    than half a gigabyte.
    """
    step = min(1024, (1 << 27) // problem.items)
    return [
        slice(start, min(start + step, problem.users)) for start in range(0, problem.users, step)
    ]


def _warprec(problem: Problem, metrics: list[str]) -> Run:
    """Its evaluator with a model that knows all scores. WarpRec hides the seen items itself, in
    place.
    """
    from torch.utils.data import DataLoader
    from warprec.data.eval_loaders import EvaluationDataset, sparse_eval_collate
    from warprec.evaluation import Evaluator

    scores = problem.scores.clone()
    model = SimpleNamespace(
        eval=lambda: None,
        predict=lambda user_indices: scores[user_indices[0] : user_indices[-1] + 1],
    )
    dataset = SimpleNamespace(
        train_set=SimpleNamespace(get_sparse=lambda: problem.train), train_transactions=None
    )
    size = _batches(problem)[0].stop
    loader = DataLoader(
        EvaluationDataset(problem.truth), batch_size=size, collate_fn=sparse_eval_collate
    )
    evaluator = Evaluator(metrics, CUTOFFS, problem.train)

    def run() -> Values:
        evaluator.evaluate(model, loader, "full", dataset)
        return {
            cell(name, None if name in WITHOUT_CUTOFF else k): value.nanmean().item()
            if torch.is_tensor(value)
            else value
            for k, values in evaluator.compute_results().items()
            for name, value in values.items()
        }

    return run


def _replay(problem: Problem, metrics: list[str]) -> Run:
    from replay.metrics.torch_metrics_builder import TorchMetricsBuilder

    theirs = {name: "coverage" if name == "ItemCoverage" else name.lower() for name in metrics}
    top, truth, train = _top_lists(problem), _padded(problem.truth, -1), _padded(problem.train, -2)
    builder = TorchMetricsBuilder(list(theirs.values()), CUTOFFS, problem.items)

    def run() -> Values:
        lists = top().indices
        builder.reset()
        for batch in _batches(problem):
            builder.add_prediction(lists[batch], truth[batch], train[batch])
        values = builder.get_metrics()
        return {
            f"{name}@{k}": float(values[f"{theirs[name]}@{k}"]) for name in metrics for k in CUTOFFS
        }

    return run


def _torchmetrics(problem: Problem, metrics: list[str]) -> Run:
    """One row per user and unseen item. Scores are scaled to (0, 1): items with a score of 0 or
    less are never hits there.
    """
    from torchmetrics import MetricCollection, retrieval

    theirs = {
        "Precision": retrieval.RetrievalPrecision,
        "Recall": retrieval.RetrievalRecall,
        "HitRate": retrieval.RetrievalHitRate,
        "MAP": retrieval.RetrievalMAP,
        "MRR": retrieval.RetrievalMRR,
        "nDCG": retrieval.RetrievalNormalizedDCG,
        "GAUC": retrieval.RetrievalAUROC,
    }
    collection = MetricCollection(
        {cell(name, k): theirs[name](top_k=k) for name, k in cells(metrics)}
    )
    unseen = torch.from_numpy(problem.train.toarray() == 0)
    relevant = torch.from_numpy(problem.truth.toarray() > 0)[unseen]
    users = torch.arange(problem.users).unsqueeze(1).expand_as(unseen)[unseen]

    def run() -> Values:
        low, high = problem.scores.aminmax()
        collection.reset()
        collection.update(((problem.scores - low) / (high - low))[unseen], relevant, indexes=users)
        return {name: value.item() for name, value in collection.compute().items()}

    return run


def _ranx(problem: Problem, metrics: list[str]) -> Run:
    """Its `Qrels` and `Run`. It also takes bare arrays of equally long lists, much faster, which
    its manual does not show.
    """
    import ranx

    names, judgements, lists = (
        ranx_names(metrics),
        ranx.Qrels(_judgements(problem)),
        _trec_run(problem),
    )

    def run() -> Values:
        values = ranx.evaluate(judgements, ranx.Run(lists()), list(names), threads=1)
        return {names[name]: float(value) for name, value in values.items()}

    return run


def ranx_names(metrics: list[str]) -> Names:
    """Metrics as ranx spells them, and as Weft does."""
    theirs = {"HitRate": "hit_rate"}
    return {f"{theirs.get(name, name.lower())}@{k}": f"{name}@{k}" for name, k in cells(metrics)}


def _pytrec_eval(problem: Problem, metrics: list[str]) -> Run:
    import pytrec_eval

    names = pytrec_names(metrics)
    evaluator = pytrec_eval.RelevanceEvaluator(_judgements(problem), list(names))
    lists = _trec_run(problem)

    def run() -> Values:
        per_user = evaluator.evaluate(lists()).values()
        return {
            names[name]: float(np.mean([values[name] for values in per_user])) for name in names
        }

    return run


def pytrec_names(metrics: list[str]) -> Names:
    """Metrics as trec_eval spells them, and as Weft does."""
    theirs = {
        "Precision": "P",
        "Recall": "recall",
        "HitRate": "success",
        "MAP": "map_cut",
        "nDCG": "ndcg_cut",
    }
    return {
        "recip_rank" if name == "MRR" else f"{theirs[name]}_{k}": f"{name}@{k}"
        for name, k in cells(metrics)
    }


def _ir_measures(problem: Problem, metrics: list[str]) -> Run:
    import ir_measures

    theirs = {"Precision": "P", "Recall": "R", "HitRate": "Success", "MAP": "AP", "nDCG": "nDCG"}
    names = {
        ir_measures.parse_measure("RR" if name == "MRR" else f"{theirs[name]}@{k}"): f"{name}@{k}"
        for name, k in cells(metrics)
    }
    evaluator = ir_measures.evaluator(list(names), _judgements(problem))
    lists = _trec_run(problem)

    def run() -> Values:
        return {
            names[measure]: value for measure, value in evaluator.calc_aggregate(lists()).items()
        }

    return run


def _rectools(problem: Problem, metrics: list[str]) -> Run:
    import pandas as pd
    from rectools import Columns
    from rectools.metrics import calc_metrics

    asked = rectools_metrics(metrics)
    truth, train = (
        pd.DataFrame({Columns.User: users, Columns.Item: items})
        for users, items in (problem.truth.nonzero(), problem.train.nonzero())
    )
    top, longest = _top_lists(problem), max(CUTOFFS)

    def run() -> Values:
        lists = pd.DataFrame(
            {
                Columns.User: np.repeat(np.arange(problem.users), longest),
                Columns.Item: top().indices.numpy().ravel(),
                Columns.Rank: np.tile(np.arange(1, longest + 1), problem.users),
            }
        )
        values = calc_metrics(asked, lists, truth, train, catalog=range(problem.items))
        return {name: float(value) for name, value in values.items()}

    return run


def rectools_metrics(metrics: list[str]) -> dict[str, Any]:
    """RecTools' metrics by Weft's names."""
    from rectools import metrics as classes

    theirs = {"nDCG": "NDCG", "ItemCoverage": "CatalogCoverage", "ARP": "AvgRecPopularity"}
    return {
        f"{name}@{k}": getattr(classes, theirs.get(name, name))(k=k) for name, k in cells(metrics)
    }


def _recbole(problem: Problem, metrics: list[str]) -> Run:
    """Its collector and evaluator, as its trainer calls them for each batch of scores."""
    np.float = float  # type: ignore[attr-defined] # removed from NumPy after RecBole's last release
    from recbole.evaluator import Collector, Evaluator

    theirs = {"HitRate": "hit", "Gini": "giniindex", "ARP": "averagepopularity"}
    names = {name: theirs.get(name, name.lower()) for name in metrics}
    config = {
        "metrics": list(names.values()),
        "topk": CUTOFFS,
        "metric_decimal_place": 12,
        "eval_args": {"mode": {"test": "full"}},
        "device": "cpu",
    }
    collector, evaluator = Collector(config), Evaluator(config)
    scores = problem.scores.clone()
    batches = _batches(problem)
    seen, relevant = (
        [
            tuple(torch.from_numpy(where.astype(np.int64)) for where in matrix[batch].nonzero())
            for batch in batches
        ]
        for matrix in (problem.train, problem.truth)
    )
    popularity = dict(enumerate(problem.train.getnnz(axis=0).tolist()))

    def run() -> Values:
        for batch, hidden, wanted in zip(batches, seen, relevant):
            batch_scores = scores[batch]
            batch_scores[hidden] = -torch.inf
            collector.eval_batch_collect(batch_scores, None, *wanted)
        collected = collector.get_data_struct()
        collected.set("data.num_items", problem.items)
        collected.set("data.count_items", popularity)
        values = evaluator.evaluate(collected)
        return {cell(name, k): float(values[cell(names[name], k)]) for name, k in cells(metrics)}

    return run


def _sklearn(problem: Problem, metrics: list[str]) -> Run:
    """With a dense truth. Seen items get a very low score for nDCG, since infinity is refused; each
    user's AUC leaves them out.
    """
    from sklearn.metrics import ndcg_score, roc_auc_score

    truth = problem.truth.toarray()
    scores = problem.scores.numpy().copy()
    seen = problem.train.nonzero()
    unseen = problem.train.toarray() == 0

    def run() -> Values:
        scores[seen] = -1e9
        values = {
            f"nDCG@{k}": float(ndcg_score(truth, scores, k=k, ignore_ties=True)) for k in CUTOFFS
        }
        if "GAUC" in metrics:
            each = [
                roc_auc_score(wanted[rest], given[rest])
                for wanted, given, rest in zip(truth, scores, unseen)
            ]
            values["GAUC"] = float(np.mean(each))
        return values

    return run


_HEAD_AND_TAIL = (
    "WarpRec sorts items by popularity with an unstable sort, so that which items at the border "
    "are head is chance"
)
_PLUS_ONE = "WarpRec counts one negative more than there are"
_MRR_OF_LIST = [name for name in SIX if name != "MRR"] + [
    f"MRR@{max(CUTOFFS)}"
]  # TREC's recip_rank has no cut-off

PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "warprec",
            "warprec",
            "warprec.evaluation",
            _warprec,
            LARGE,
            profile="warprec",
            most_users={"M large": 500, "L large": 64},
            differs={
                "AUC": _PLUS_ONE,
                "GAUC": _PLUS_ONE,
                "APLT": _HEAD_AND_TAIL,
                "PopREO": _HEAD_AND_TAIL,
            },
            tolerance=1e-5,
        ),
        Peer(
            "replay",
            "replay-rec",
            "replay.metrics.torch_metrics_builder",
            _replay,
            [*(name for name in SIX if name != "HitRate"), "ItemCoverage"],
            differs={
                "ItemCoverage": "RePlay's coverage is the share of the items of train, not a "
                "number of items"
            },
            tolerance=1e-5,
        ),
        Peer(
            "torchmetrics",
            "torchmetrics",
            "torchmetrics.retrieval",
            _torchmetrics,
            [*SIX, "GAUC"],
            profile="torchmetrics",
            most_users={"S": 200, "M": 20, "L": 2},
            tolerance=1e-5,
        ),
        Peer("ranx", "ranx", "ranx", _ranx, SIX, profile="ranx"),
        Peer(
            "pytrec_eval",
            "pytrec_eval-terrier",
            "pytrec_eval",
            _pytrec_eval,
            _MRR_OF_LIST,
            profile="trec_eval",
        ),
        Peer(
            "ir_measures",
            "ir_measures",
            "ir_measures",
            _ir_measures,
            _MRR_OF_LIST,
            profile="trec_eval",
        ),
        Peer(
            "rectools",
            "rectools",
            "rectools.metrics",
            _rectools,
            [*SIX, "ItemCoverage", "ARP"],
            profile="rectools",
        ),
        Peer(
            "recbole",
            "recbole",
            "recbole.evaluator",
            _recbole,
            [*SIX, "GAUC", "ItemCoverage", "Gini", "ShannonEntropy", "ARP"],
            profile="recbole",
            differs={
                "ShannonEntropy": "RecBole divides the entropy by the number of distinct "
                "recommended items"
            },
            tolerance=1e-5,
        ),
        Peer(
            "sklearn",
            "scikit-learn",
            "sklearn.metrics",
            _sklearn,
            ["nDCG", "GAUC"],
            profile="sklearn",
            most_users={"S": 500, "M": 100, "L": 4},
        ),
    )
}
