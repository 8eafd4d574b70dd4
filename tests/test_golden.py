"""Accuracy metrics against stored values of other tools on MovieLens 100K.

The values are outside of the repository, because the data may not be redistributed:
`shared/golden`, whose README names each tool, its version and its settings. None was computed with
Weft. All tools were given the same lists, ordered by score and then by item id.
"""

import gzip
import json
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import weft

GOLDEN = Path(__file__).parents[2] / "shared" / "golden"
DATA = GOLDEN / "ml100k_tlo"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the golden values are not here: {GOLDEN}"
)

CUTOFFS = (1, 5, 10, 20, 50, 100)
# Tools that compute in float32, print four or five digits, or (ir_measures' exponential gain) call
# one that does.
TOLERANCES = {
    "torchmetrics": 1e-6,
    "warprec": 1e-6,
    "trec_eval_10.0-rc3": 5e-5,
    "ir_measures": 1e-5,
}
BINARY, GRADED = ("bin", "thr4"), ("rating", "rm1")
EVERY = BINARY + GRADED

# Relevances, tool, its name of the metric, Weft's name, and how Weft is to run where that is not as
# by default.
CONSENSUS = [
    (("bin",), "consensus", "ndcg@{k}", "nDCG@{k}"),
    (("bin",), "consensus", "ndcg@{k}", "nDCGRendle2020@{k}"),
    (("bin",), "consensus", "ap_divmin@{k}", "MAP@{k}"),
    (("bin",), "consensus", "ap_divrel@{k}", "MAP(normalizer=relevant)@{k}"),
    (("bin",), "consensus", "precision@{k}", "Precision@{k}"),
    (("bin",), "consensus", "recall@{k}", "Recall@{k}"),
    (("bin",), "consensus", "recall_capped@{k}", "Recall(normalizer=capped)@{k}"),
    (("bin",), "consensus", "hit@{k}", "HitRate@{k}"),
    (("bin",), "consensus", "mrr@{k}", "MRR@{k}"),
    (("bin",), "consensus", "f1@{k}", "F1@{k}"),
    (("bin",), "consensus", "auc_user_mean", "GAUC"),
    (GRADED, "consensus", "ndcg_linear@{k}", "nDCG(gain=linear)@{k}"),
    (GRADED, "consensus", "ndcg_exp@{k}", "nDCG@{k}"),
]
ZERO = {"empty_users": "zero"}
OF_NEGATIVES = ("AUC", "GAUC", "LAUC", "FallOut")  # which depend on the items that were offered
TOOLS = [
    # Users without a relevant item count 0, as there are in "thr4".
    (EVERY, "pytrec_eval", "ndcg_cut_{k}", "nDCG(gain=linear)@{k}", ZERO),
    (EVERY, "pytrec_eval", "ndcg", "nDCG(gain=linear, ideal=full)@100", ZERO),
    (EVERY, "pytrec_eval", "map_cut_{k}", "MAP(normalizer=relevant)@{k}", ZERO),
    (EVERY, "pytrec_eval", "P_{k}", "Precision@{k}", ZERO),
    (EVERY, "pytrec_eval", "recall_{k}", "Recall@{k}", ZERO),
    (EVERY, "pytrec_eval", "success_{k}", "HitRate@{k}", ZERO),
    (EVERY, "pytrec_eval", "recip_rank", "MRR@100", ZERO),
    (EVERY, "trec_eval_10.0-rc3", "ndcg_cut_{k}", "nDCG(gain=linear)@{k}", ZERO),
    (EVERY, "trec_eval_10.0-rc3", "map_cut_{k}", "MAP(normalizer=relevant)@{k}", ZERO),
    (EVERY, "ranx", "ndcg_burges@{k}", "nDCG@{k}", ZERO),
    (EVERY, "ranx", "mrr@{k}", "MRR@{k}", ZERO),
    (EVERY, "ranx", "f1@{k}", "F1@{k}", ZERO),
    (("bin", "thr4", "rm1"), "ir_measures", "nDCG(dcg='exp-log2')@{k}", "nDCG@{k}", ZERO),
    (BINARY, "torchmetrics", "MAP@{k}", "MAP(normalizer=hits)@{k}", ZERO),
    (("thr4",), "torchmetrics", "MAP@{k}|skip_empty", "MAP(normalizer=hits)@{k}"),
    # Elsewhere they are left out.
    (BINARY, "rectools", "NDCG@{k}", "nDCG(ideal=k)@{k}"),
    (BINARY, "rectools", "NDCG(divide_by_achievable)@{k}", "nDCG@{k}"),
    (BINARY, "rectools", "MAP@{k}", "MAP(normalizer=relevant)@{k}"),
    (BINARY, "rectools", "RPrecision@{k}", "Recall(normalizer=capped)@{k}"),
    (BINARY, "rectools", "F1Beta(beta=2)@{k}", "F1(beta=2)@{k}"),
    (BINARY, "replay", "MAP@{k}", "MAP@{k}"),
    (BINARY, "recpack", "CalibratedRecallK@{k}", "Recall(normalizer=capped)@{k}"),
    (BINARY, "cornac", "F1@{k}", "F1@{k}"),
    (BINARY, "recbole", "hit@{k}", "HitRate@{k}"),
    (EVERY, "warprec", "nDCG@{k}", "nDCG(gain=exponential_shifted)@{k}"),
    (EVERY, "warprec", "nDCGRendle2020@{k}", "nDCGRendle2020@{k}"),
    (EVERY, "warprec", "MAP@{k}", "MAP@{k}"),
    (EVERY, "warprec", "MAR@{k}", "MAR@{k}"),
    (
        EVERY,
        "warprec",
        "F1[Precision, MAP]@{k}",
        "F1(metric_name_2=MAP, beta=2)@{k}",
    ),  # WarpRec's name does not tell beta
    (
        EVERY,
        "warprec",
        "F1[nDCG, Recall]@{k}",
        "F1(metric_name_1=nDCG(gain=exponential_shifted))@{k}",
    ),
    (("rating",), "elliot", "nDCG@{k}|threshold=0", "nDCG(gain=exponential_shifted)@{k}"),
    (("rating",), "elliot", "nDCG@{k}", "nDCG@{k}"),
    # AUC over the whole ranking
    (BINARY, "sklearn", "roc_auc_score", "GAUC"),
    (BINARY, "recometrics", "ROC_AUC", "GAUC"),
    (BINARY, "recbole", "gauc", "AUC"),
    (BINARY, "recbole", "gauc", "GAUC(weight=positives)"),
    # WarpRec and Elliot count one negative more than there are: an item that is offered, below all
    # others.
    (BINARY, "warprec", "GAUC@10", "GAUC", {"view": "one more item"}),
    (BINARY, "warprec", "AUC@10", "AUC", {"view": "one more item"}),
    (BINARY, "warprec", "LAUC@{k}", "LAUC(completion=none)@{k}", {"view": "one more item"}),
    (BINARY, "elliot", "GAUC@10", "GAUC", {"view": "one more item"}),
    (BINARY, "elliot", "LAUC@{k}", "LAUC(completion=none)@{k}", {"view": "one more item"}),
    # For implicit, seen items are negatives that come last.
    (BINARY, "implicit", "auc@{k}", "LAUC@{k}", {"view": "seen items last"}),
    # Scores with ties
    (BINARY, "sklearn", "roc_auc_score|raw", "GAUC", {"view": "raw"}),
    (
        ("bin",),
        "sklearn",
        "roc_auc_score(all pairs pooled)|raw",
        "AUC(scope=pooled)",
        {"view": "raw"},
    ),
    (
        EVERY,
        "sklearn",
        "ndcg_score@{k}|raw",
        "nDCG(gain=linear)@{k}",
        {"view": "raw", "ties": "expected", **ZERO},
    ),
    (
        ("thr4",),
        "sklearn",
        "ndcg_score@{k}|raw|users with relevant",
        "nDCG@{k}",
        {"view": "raw", "ties": "expected"},
    ),
    (
        EVERY,
        "torchmetrics",
        "NDCG@{k}|raw",
        "nDCG(gain=linear)@{k}",
        {"view": "raw", "ties": "expected", **ZERO},
    ),
]
PERCENT = [f"{number / 5:.2f}" for number in range(1, 11)]
ORDER_LINEAR = [
    (EVERY, "pytrec_eval", "Rprec", "RPrecision@100", ZERO),
    *(
        (EVERY, "pytrec_eval", f"Rprec_mult_{x}", f"RPrecision(multiple={x})@100", ZERO)
        for x in PERCENT
    ),
    (EVERY, "ranx", "r-precision", "RPrecision@100", ZERO),
    (EVERY, "ir_measures", "RBP(p=0.5,rel=1)", "RBP(p=0.5)@100", ZERO),
    (EVERY, "ir_measures", "RBP(rel=1)", "RBP@100", ZERO),
    (EVERY, "ranx", "rbp.50", "RBP(p=0.5, relevance=graded)@100", ZERO),
    (BINARY, "lenskit", "RBP@{k}", "RBP(p=0.85)@{k}"),
    (BINARY, "lenskit", "RBP(normalize)@{k}", "RBP(p=0.85, normalize=True)@{k}"),
    (BINARY, "trec_eval_10.0-rc3", "rbp", "RBP(p=0.9)@100", ZERO),
    (EVERY, "ranx", "dcg@{k}", "DCG(gain=linear)@{k}", ZERO),
    (EVERY, "ranx", "dcg_burges@{k}", "DCG@{k}", ZERO),
    (EVERY, "sklearn", "dcg_score@{k}", "DCG(gain=linear)@{k}", ZERO),
    (BINARY, "recpack", "DCGK@{k}", "DCG@{k}"),
    (BINARY, "lenskit", "DCG@{k}", "DCG(discount=capped_log)@{k}"),
    (BINARY, "lenskit", "NDCG@{k}", "nDCG(discount=capped_log)@{k}"),
    (GRADED, "lenskit", "NDCG(gain)@{k}", "nDCG(gain=linear, discount=capped_log)@{k}"),
    (BINARY, "rectools", "MAP(divide_by_k)@{k}", "MAP(normalizer=k)@{k}"),
    (BINARY, "rectools", "Accuracy@{k}", "Accuracy(universe=catalogue)@{k}"),
    (BINARY, "rectools", "MCC@{k}", "MCC(universe=catalogue)@{k}"),
    (("bin",), "torchmetrics", "FallOut@{k}", "FallOut@{k}"),
]
ONE_ORDER = [
    (("bin", "thr4", "rm1"), "ir_measures", "ERR@{k}", "ERR(max_grade=4)@{k}", ZERO),
    (EVERY, "ir_measures", "Judged@{k}", "Judged(users=lists)@{k}"),
    (EVERY, "pytrec_eval", "bpref", "bpref@100", ZERO),
    (EVERY, "pytrec_eval", "infAP", "infAP@100", ZERO),
    (EVERY, "trec_eval_10.0-rc3", "11pt_avg", "IPrec(rounding=nearest)@100", ZERO),
    (EVERY, "trec_eval_10.0-rc3", "rbp_resid", "RBPResidual(p=0.9, users=lists)@100"),
    *(
        (EVERY, "pytrec_eval", f"iprec_at_recall_{x}0", f"IPrec(recall={x})@100", ZERO)
        # Of other levels r, pytrec_eval rounds down r |R| with a remainder below 0.1.
        for x in (0.0, 0.2, 0.4, 0.5, 0.8, 1.0)
    ),
]
ROWS = [(*row, {})[:5] for row in CONSENSUS + TOOLS + ORDER_LINEAR + ONE_ORDER]
CASES = [(relevance, *row[1:]) for row in ROWS for relevance in row[0]]


def read(name):
    return json.loads(gzip.decompress((GOLDEN / name).read_bytes()))


@cache
def stored(case):
    """The values of each tool for a case, the consensus of all among them."""
    agreed = read("consensus.json.gz")["cases"].get(case, {})
    return {
        **read("golden.json.gz")[case],
        "consensus": {name: entry["value"] for name, entry in agreed.items()},
    }


@cache
def truth(relevance):
    rating = pl.col("rating")
    values = {
        "bin": pl.lit(1),
        "rating": rating,
        "rm1": rating - 1,
        "thr4": (rating >= 4).cast(int),
    }
    return pl.read_csv(DATA / "test.csv.gz").select("user", "item", rating=values[relevance])


@cache
def ids(what):
    return [int(line) for line in (DATA / f"{what}.txt").read_text().split()]


@cache
def scores(model, view):
    """Scores under the ids of users.txt and items.txt."""
    if model == "itemknn":
        raw = np.load(DATA / "scores_itemknn.npz")["scores"]
        seen = np.isneginf(raw)
    else:
        train = pl.read_csv(DATA / "train.csv.gz")
        rows, columns = (
            train["user"].to_numpy() - 1,
            train["item"].to_numpy() - 1,
        )  # ids are 1, 2, 3, ...
        seen = np.zeros((len(ids("users")), len(ids("items"))), dtype=bool)
        seen[rows, columns] = True
        raw = np.where(seen, -np.inf, np.bincount(columns, minlength=seen.shape[1]))
    if view == "raw":
        return raw
    ranks = np.argsort(np.argsort(-raw, axis=1, kind="stable"), axis=1)
    ordered = np.where(seen, -np.inf, -ranks) if view != "seen items last" else -ranks.astype(float)
    return np.pad(ordered, ((0, 0), (0, view == "one more item")), constant_values=-1e6)


@cache
def run(model, relevance, settings):
    """One run for everything that is compared under these settings, which are a tuple of items."""
    names = [
        name for of, _, _, name, how in CASES if of == relevance and tuple(how.items()) == settings
    ]
    how = dict(settings)
    view = how.pop("view", "gold")
    items = ids("items") + [-1] * (view == "one more item")
    metrics = [name.format(k=k) for name in names for k in CUTOFFS]
    return weft.evaluate(
        scores(model, view),
        truth(relevance),
        metrics=metrics,
        users=ids("users"),
        items=items,
        **how,
    )


@pytest.mark.parametrize("model", ["itemknn", "pop"])
@pytest.mark.parametrize(
    ("relevance", "tool", "theirs", "ours", "how"),
    CASES,
    ids=[" ".join(case[:4]) for case in CASES],
)
def test_values_match_other_tools(model, relevance, tool, theirs, ours, how):
    values = stored(f"ml100k_tlo/{model}/{relevance}")[tool]
    result = run(model, relevance, tuple(how.items()))
    compared = {
        ours.format(k=k): values[theirs.format(k=k)]
        for k in CUTOFFS
        if theirs.format(k=k) in values
    }
    assert compared
    found = {name: result[name] for name in compared}
    assert found == pytest.approx(compared, rel=0, abs=TOLERANCES.get(tool, 1e-9))


@pytest.mark.parametrize("model", ["itemknn", "pop"])
def test_counts_of_users_match_other_tools(model):
    tools = stored(f"ml100k_tlo/{model}/thr4")
    skipped, zero = (run(model, "thr4", settings) for settings in ((), (("empty_users", "zero"),)))
    assert skipped.entry("GAUC").users == tools["sklearn"]["n_users(auc)"] == 904
    assert zero.entry("MRR@100").users == tools["pytrec_eval"]["num_q"] == 943
    assert skipped.counts["users_without_relevant"] == 39


@pytest.mark.parametrize("model", ["itemknn", "pop"])
def test_lists_train_and_threshold_match_scores(model):
    """The stored lists for the order, train for what is masked, a threshold on the ratings for what
    is relevant.
    """
    recommended = pl.read_csv(DATA / f"rec_{model}.csv.gz")
    listed = np.full((len(ids("users")), len(ids("items"))), -np.inf)
    listed[recommended["user"].to_numpy() - 1, recommended["item"].to_numpy() - 1] = (
        1000 - recommended["rank"].to_numpy()
    )
    train = pl.read_csv(DATA / "train.csv.gz")
    names = {
        "nDCG(gain=binary)": "NDCG(divide_by_achievable)",
        "Recall": "Recall",
        "MRR": "MRR",
        "MAP(normalizer=relevant)": "MAP",
    }
    how = {
        "metrics": list(names),
        "top_k": CUTOFFS,
        "users": ids("users"),
        "items": ids("items"),
        "relevance_threshold": 4,
    }
    values = stored(f"ml100k_tlo/{model}/thr4")["rectools"]
    wanted = {
        f"{name}@{k}": values[f"{theirs}@{k}"] for name, theirs in names.items() for k in CUTOFFS
    }
    for source, masked in ((listed, None), (scores(model, "seen items last"), train)):
        result = weft.evaluate(source, truth("rating"), train=masked, **how)
        assert {name: result[name] for name in wanted} == pytest.approx(wanted, rel=0, abs=1e-9)


@pytest.mark.parametrize("relevance", BINARY)
@pytest.mark.parametrize("model", ["itemknn", "pop"])
def test_partial_areas_of_lists_match_rectools(model, relevance):
    """RecTools reads the lists of 100 items, which may hold fewer than k misses."""
    lists = pl.read_csv(DATA / f"rec_{model}.csv.gz").select("user", "item", "rank")
    names = [f"{name}@{k}" for name in ("PartialAUC", "PAP") for k in CUTOFFS]
    result = weft.evaluate(lists, truth(relevance), metrics=names, items=ids("items"))
    values = stored(f"ml100k_tlo/{model}/{relevance}")["rectools"]
    assert {name: result[name] for name in names} == pytest.approx(
        {name: values[name] for name in names}, rel=0, abs=1e-9
    )


@pytest.mark.parametrize("relevance", EVERY)
@pytest.mark.parametrize("model", ["itemknn", "pop"])
@pytest.mark.parametrize("columns", [("rank",), ("score",), ()], ids=["ranks", "scores", "rows"])
def test_stored_lists_match_other_tools(model, relevance, columns):
    """The lists that every tool was given, as they lie there; where scores rank them, equal ones go
    by item.
    """
    lists = pl.read_csv(DATA / f"rec_{model}.csv.gz").select("user", "item", *columns)
    cases = [
        (tool, theirs, ours, how)
        for of, tool, theirs, ours, how in CASES
        if of == relevance and "view" not in how and not ours.startswith(OF_NEGATIVES)
    ]
    for settings in ({}, ZERO):
        chosen = [case[:3] for case in cases if case[3] == settings]
        names = [ours.format(k=k) for _, _, ours in chosen for k in CUTOFFS]
        result = weft.evaluate(
            lists, truth(relevance), metrics=names, items=ids("items"), **settings
        )
        for tool, theirs, ours in chosen:
            values = stored(f"ml100k_tlo/{model}/{relevance}")[tool]
            compared = {
                ours.format(k=k): values[theirs.format(k=k)]
                for k in CUTOFFS
                if theirs.format(k=k) in values
            }
            assert compared
            found = {name: result[name] for name in compared}
            assert found == pytest.approx(compared, rel=0, abs=TOLERANCES.get(tool, 1e-9)), (
                tool,
                theirs,
            )
