"""Weft against values that other tools print on a part of the embedded data set.

Input and values lie in `tests/golden`, which its README describes; no value was computed with Weft.
`TOOLS` says for every stored value which metric of Weft, under which profile or settings, has to
give it. A stored value that no row covers is an error.
"""

import csv
import gzip
import io
import json
import re
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import weft
from weft.cli.demo import demo_data

GOLDEN = Path(__file__).parent / "golden"
MODELS = ("popularity", "item_knn", "factors")
DEPTH = 50  # length of the stored lists
NUM_ITEMS = 425  # a cut-off that cuts nothing
LIKED = 4  # lowest rating that is relevant in the cases "liked"

# Absolute, and relative for values above 1. Values of float64 tools differ by the order of
# additions only; those of float32 tools have about seven digits, of which sums over users lose one.
TOLERANCES = {"float64": 1e-9, "float32": 1e-5}


@dataclass(frozen=True)
class Row:
    """Which of a tool's calls is which metric of Weft.

    In `call` and `metric`, `{k}` is the cut-off, `{g}` a user group, `{c}` an item cluster. The row
    applies to cases whose name matches `cases`.
    """

    call: str
    metric: str
    settings: dict = field(default_factory=dict)
    cases: str = ".*"
    tolerance: float | None = None  # of values with fewer digits than the tool's others

    def match(self, case, call):
        """Return Weft's name of the metric, or None if the row does not apply."""
        pattern = re.sub(r"\\{(\w)\\}", r"(?P<\1>\\d+)", re.escape(self.call))
        found = re.fullmatch(pattern, call) if re.fullmatch(self.cases, case) else None
        return self.metric.format(**found.groupdict()) if found else None


def rows(pairs, **options):
    return [Row(call, metric, **options) for call, metric in pairs.items()]


UNTIED = {"ties": "index"}  # the tool got an order without ties, by score and item id
SKIP = {"empty_users": "skip"}
LISTED = {"missing_lists": "skip"}  # the tool was given users with a list only
ABOVE = {"relevance_threshold": LIKED}
TREC = {"profile": "trec_eval"}
POINT = "metric_names=[nDCG, Recall]"

TOOLS = {
    "pytrec_eval": rows(
        {
            "P_{k}": "Precision@{k}",
            "recall_{k}": "Recall@{k}",
            "success_{k}": "HitRate@{k}",
            "map_cut_{k}": "MAP@{k}",
            "ndcg_cut_{k}": "nDCG@{k}",
            # Not cut: the whole list.
            "recip_rank": f"MRR@{DEPTH}",
            "map": f"MAP@{DEPTH}",
            "ndcg": f"nDCG(ideal=full)@{DEPTH}",
            "set_P": f"Precision(denominator=list)@{DEPTH}",
            "set_recall": f"Recall@{DEPTH}",
            "set_F": f"F1@{DEPTH}",
        },
        settings=TREC,
    ),
    "ir_measures": [
        *rows(
            {
                "P@{k}": "Precision@{k}",
                "R@{k}": "Recall@{k}",
                "Success@{k}": "HitRate@{k}",
                "AP@{k}": "MAP@{k}",
                "nDCG@{k}": "nDCG@{k}",
                "RR@{k}": "MRR@{k}",
                "RR": f"MRR@{DEPTH}",
                "AP": f"MAP@{DEPTH}",
                "nDCG": f"nDCG(ideal=full)@{DEPTH}",
                "SetP": f"Precision(denominator=list)@{DEPTH}",
                "SetR": f"Recall@{DEPTH}",
                "SetF": f"F1@{DEPTH}",
                "Rprec": f"RPrecision@{DEPTH}",
                "Bpref": f"bpref@{DEPTH}",
                "infAP": f"infAP@{DEPTH}",
                "IPrec@0.{x}": f"IPrec(recall=0.{{x}})@{DEPTH}",
                "RBP(rel=1)": f"RBP@{DEPTH}",
                "RBP(rel=1,p=0.5)": f"RBP(p=0.5)@{DEPTH}",
                "alpha_nDCG@{k}": "alpha_nDCG@{k}",
                "ERR_IA@{k}": "ERR_IA@{k}",
                "nERR_IA@{k}": "ERR_IA(normalize=True)@{k}",
                "P_IA@{k}": "P_IA@{k}",
                "StRecall@{k}": "SRecall@{k}",
            },
            settings={"profile": "ir_measures"},
        ),
        *rows(
            {
                f"{theirs}(rel={LIKED})@{{k}}": f"{ours}@{{k}}"
                for theirs, ours in (
                    ("P", "Precision"),
                    ("R", "Recall"),
                    ("Success", "HitRate"),
                    ("AP", "MAP"),
                    ("RR", "MRR"),
                )
            },
            settings={"profile": "ir_measures", **ABOVE},
        ),
        # gdeval prints five digits.
        Row("ERR@{k}", "ERR@{k}", {"profile": "ir_measures"}, tolerance=1e-5),
        Row(
            "nDCG(dcg='exp-log2')@{k}",
            "nDCG(gain=exponential)@{k}",
            {"profile": "ir_measures"},
            tolerance=1e-5,
        ),
        Row("Judged@{k}", "Judged@{k}", {"profile": "ir_measures"}),
    ],
    "pyndeval": rows(
        {
            "alpha-nDCG@{k}": "alpha_nDCG@{k}",
            "nERR-IA@{k}": "ERR_IA@{k}",
            "ERR-IA@{k}": "ERR_IA(normalize=False)@{k}",
            "P-IA@{k}": "P_IA@{k}",
            "strec@{k}": "SRecall@{k}",
            "alpha-nDCG@{k} alpha=0.2": "alpha_nDCG(alpha=0.2)@{k}",
            "nERR-IA@{k} alpha=0.2": "ERR_IA(alpha=0.2)@{k}",
            "ERR-IA@{k} alpha=0.2": "ERR_IA(alpha=0.2, normalize=False)@{k}",
        },
        settings=LISTED,
    ),
    "ranx": [
        *rows(
            {
                "precision@{k}": "Precision@{k}",
                "recall@{k}": "Recall@{k}",
                "hit_rate@{k}": "HitRate@{k}",
                "mrr@{k}": "MRR@{k}",
                "f1@{k}": "F1@{k}",
                "map@{k}": "MAP@{k}",
                "ndcg@{k}": "nDCG@{k}",
                "mrr": f"MRR@{DEPTH}",
                "map": f"MAP@{DEPTH}",
                "ndcg": f"nDCG(ideal=full)@{DEPTH}",
            },
            settings={"profile": "ranx"},
        ),
        Row("ndcg_burges@{k}", "nDCG(gain=exponential)@{k}", {"empty_users": "zero"}),
    ],
    "sklearn": [
        *rows(
            {
                "mean_absolute_error": "MAE",
                "mean_squared_error": "MSE",
                "root_mean_squared_error": "RMSE",
            },
            settings={"profile": "sklearn"},
        ),
        *(
            row
            for view, ties in ((".*/all", UNTIED), (".*/tied", {}))
            for row in (
                Row("ndcg_score(k={k})", "nDCG@{k}", {"profile": "sklearn", **ties}, view),
                Row("roc_auc_score", "GAUC", {"profile": "sklearn", **ties, **SKIP}, view),
            )
        ),
        Row("roc_auc_score(pooled)", "AUC", {"profile": "sklearn", **SKIP}),
        Row(
            "average_precision_score",
            f"MAP@{NUM_ITEMS}",
            {"profile": "sklearn", **UNTIED, **SKIP},
        ),
    ],
    "torchmetrics": [
        *rows(
            {
                "MeanAbsoluteError": "MAE",
                "MeanSquaredError": "MSE",
                "MeanSquaredError(squared=False)": "RMSE",
            },
            settings={"profile": "torchmetrics"},
        ),
        *(
            Row(
                f"Retrieval{theirs}(top_k={{k}}, empty_target_action={action})",
                f"{ours}@{{k}}",
                {"profile": "torchmetrics", **ties, **users},
                view,
            )
            for action, users in (("neg", {}), ("skip", SKIP))
            for theirs, ours, view, ties in (
                ("NormalizedDCG", "nDCG", ".*/tied", {}),
                ("NormalizedDCG", "nDCG", ".*/all", UNTIED),
                ("Precision", "Precision", ".*/all", UNTIED),
                ("Recall", "Recall", ".*/all", UNTIED),
                ("HitRate", "HitRate", ".*/all", UNTIED),
                ("MRR", "MRR", ".*/all", UNTIED),
                ("MAP", "MAP", ".*/all", UNTIED),
            )
        ),
        Row(
            "RetrievalAUROC(empty_target_action=skip)",
            "GAUC",
            {"profile": "torchmetrics", **UNTIED, **SKIP},
        ),
    ],
    "rectools": rows(
        {
            "Precision(k={k})": "Precision@{k}",
            "Precision(k={k}, r_precision=True)": "Recall(normalizer=capped)@{k}",
            "Recall(k={k})": "Recall@{k}",
            "HitRate(k={k})": "HitRate@{k}",
            "F1Beta(k={k})": "F1@{k}",
            "F1Beta(k={k}, beta=2)": "F1(beta=2)@{k}",
            "MAP(k={k})": "MAP@{k}",
            "MRR(k={k})": "MRR@{k}",
            "NDCG(k={k})": "nDCG@{k}",
            "NDCG(k={k}, divide_by_achievable=True)": "nDCG(ideal=cut)@{k}",
            "CatalogCoverage(k={k})": "ItemCoverage@{k}",
            "CatalogCoverage(k={k}, normalize=True)": "ItemCoverage(as_fraction=True)@{k}",
            "CoveredUsers(k={k})": "UserCoverage@{k}",
            "AvgRecPopularity(k={k})": "ARP@{k}",
        },
        settings={"profile": "rectools"},
    ),
    "recbole": rows(
        {
            "hit@{k}": "HitRate@{k}",
            "mrr@{k}": "MRR@{k}",
            "map@{k}": "MAP@{k}",
            "recall@{k}": "Recall@{k}",
            "ndcg@{k}": "nDCG@{k}",
            "precision@{k}": "Precision@{k}",
            "itemcoverage@{k}": "ItemCoverage@{k}",
            "averagepopularity@{k}": "ARP@{k}",
            "giniindex@{k}": "Gini@{k}",
            "gauc": "GAUC",
        },
        settings={"profile": "recbole"},
    ),
    "replay": rows(
        {
            "HitRate@{k}": "HitRate@{k}",
            "Precision@{k}": "Precision@{k}",
            "Recall@{k}": "Recall@{k}",
            "MAP@{k}": "MAP@{k}",
            "MRR@{k}": "MRR@{k}",
            "NDCG@{k}": "nDCG@{k}",
            "Coverage@{k}": "ItemCoverage@{k}",
            "Surprisal@{k}": "Surprisal@{k}",
            "CategoricalDiversity@{k}": "CategoryDiversity@{k}",
            "Novelty@{k}": "NewToUser@{k}",
            "Unexpectedness@{k}": "Unexpectedness@{k}",
        },
        settings={"profile": "replay"},
    ),
    "lenskit": [
        *rows(
            {
                "NDCG(n={k})": "nDCG@{k}",
                "NDCG(n={k}, gain=rating)": "nDCG(gain=linear)@{k}",
                "NDCG(n={k}, weight=LogRankWeight(offset=1))": "nDCG(discount=log)@{k}",
                "NDCG(n={k}, gain=rating, weight=LogRankWeight(offset=1))": (
                    "nDCG(gain=linear, discount=log)@{k}"
                ),
                "DCG(n={k})": "DCG@{k}",
                "DCG(n={k}, gain=rating)": "DCG(gain=linear)@{k}",
                "RBP(n={k})": "RBP@{k}",
                "RBP(n={k}, patience=0.5)": "RBP(p=0.5)@{k}",
                "RBP(n={k}, normalize=True)": "RBP(normalize=True)@{k}",
                "Precision(n={k})": "Precision@{k}",
                "Recall(n={k})": "Recall@{k}",
                "Hit(n={k})": "HitRate@{k}",
                "RecipRank(n={k})": "MRR@{k}",
                "AveragePrecision(n={k})": "MAP@{k}",
                "MeanPopRank(n={k})": "PopularityQuantile@{k}",
                f"ListGini(n={{k}}, items={NUM_ITEMS})": "Gini@{k}",
                "RMSE: mean over users": "RMSE",
                "RMSE: global": "RMSE(average=cells)",
                "MAE: mean over users": "MAE",
                "MAE: global": "MAE(average=cells)",
            },
            settings={"profile": "lenskit"},
        ),
        # Sums of float32 numbers.
        Row(
            f"ExposureGini(n={{k}}, items={NUM_ITEMS})",
            "Gini(weight=geometric, p=0.85)@{k}",
            {"profile": "lenskit"},
            tolerance=1e-6,
        ),
    ],
    "recommenders": [
        # Users without a list count 0 here, and are left out elsewhere.
        *rows(
            {
                "ndcg_at_k(k={k}, score_type=binary)": "nDCG@{k}",
                "ndcg_at_k(k={k}, score_type=raw)": "nDCG(gain=linear)@{k}",
                "ndcg_at_k(k={k}, score_type=exp)": "nDCG(gain=exponential)@{k}",
            },
            settings={"profile": "recommenders", "missing_lists": "zero"},
        ),
        *rows(
            {
                "precision_at_k(k={k})": "Precision@{k}",
                "recall_at_k(k={k})": "Recall@{k}",
                "map_at_k(k={k})": "MAP@{k}",
                "map(k={k})": "MAP(normalizer=relevant)@{k}",
                "distributional_coverage: {k} items": "ShannonEntropy@{k}",
                "catalog_coverage: {k} items": "ItemCoverage@{k}",
                "novelty: {k} items": "SelfInformation@{k}",
                "diversity: {k} items": "ILD@{k}",
                "rmse": "RMSE",
                "mae": "MAE",
                "rsquared": "R2",
                "exp_var": "ExplainedVariance",
            },
            settings={"profile": "recommenders"},
        ),
    ],
    "cornac": rows(
        {
            "NDCG(k={k})": "nDCG@{k}",
            "NCRR(k={k})": "NCRR@{k}",
            "Precision(k={k})": "Precision@{k}",
            "Recall(k={k})": "Recall@{k}",
            "FMeasure(k={k})": "F1@{k}",
            "HitRatio(k={k})": "HitRate@{k}",
            "AUC": "GAUC",
            "MAP": f"MAP@{NUM_ITEMS}",
            "MRR": f"MRR@{NUM_ITEMS}",
            **{f"{name}(user_based=True)": name for name in ("MAE", "MSE", "RMSE")},
            **{
                f"{name}(user_based=False)": f"{name}(average=cells)"
                for name in ("MAE", "MSE", "RMSE")
            },
        },
        settings={"profile": "cornac"},
    ),
    "pyg": rows(
        {
            "LinkPredPrecision(k={k})": "Precision@{k}",
            "LinkPredRecall(k={k})": "Recall@{k}",
            "LinkPredF1(k={k})": "F1@{k}",
            "LinkPredMAP(k={k})": "MAP@{k}",
            "LinkPredNDCG(k={k})": "nDCG@{k}",
            "LinkPredNDCG(k={k}, weighted=True)": "nDCG(gain=linear)@{k}",
            "LinkPredMRR(k={k})": "MRR@{k}",
            "LinkPredHitRatio(k={k})": "HitRate@{k}",
            "LinkPredCoverage(k={k})": "ItemCoverage@{k}",
            "LinkPredDiversity(k={k})": "ILD@{k}",
            "LinkPredPersonalization(k={k})": "Personalization@{k}",
            "LinkPredAveragePopularity(k={k})": "ARP@{k}",
        },
        settings={"profile": "pyg"},
    ),
    "evidently": rows(
        {
            "PrecisionTopK(k={k})": "Precision@{k}",
            "RecallTopK(k={k})": "Recall@{k}",
            "MAP(k={k})": "MAP@{k}",
            "NDCG(k={k})": "nDCG@{k}",
            "MRR(k={k})": "MRR@{k}",
            "HitRate(k={k})": "HitRate@{k}",
            "PopularityBiasMetric(k={k}, metric=arp)": "ARP@{k}",
            "PopularityBiasMetric(k={k}, normalize_arp=True)": "ARP(normalize=max)@{k}",
            "PopularityBiasMetric(k={k}, metric=coverage)": "ItemCoverage@{k}",
            "Personalization(k={k})": "Personalization@{k}",
            "Novelty(k={k})": "MIUF@{k}",
        },
        settings={"profile": "evidently"},
    ),
    "implicit": rows(
        {
            "ranking_metrics_at_k(K={k})[map]": "MAP@{k}",
            "ranking_metrics_at_k(K={k})[ndcg]": "nDCG(gain=binary)@{k}",
        }
    ),
    "recpack": rows(
        {
            "NDCGK(K={k})": "nDCG@{k}",
            "DCGK(K={k})": "DCG@{k}",
            "PrecisionK(K={k})": "Precision@{k}",
            "RecallK(K={k})": "Recall@{k}",
            "CalibratedRecallK(K={k})": "Recall(normalizer=capped)@{k}",
            "ReciprocalRankK(K={k})": "MRR@{k}",
            "CoverageK(K={k})": "ItemCoverage@{k}",
            "IntraListDiversityK(K={k})": "ILD@{k}",
        },
        settings={"profile": "recpack"},
    ),
    "warprec": [
        *rows(
            {
                **{
                    f"{name}@{{k}}": f"{name}@{{k}}"
                    for name in (
                        *("Precision", "Recall", "HitRate", "MRR", "MAP", "MAR", "F1", "nDCG"),
                        *(
                            "nDCGRendle2020",
                            "ItemCoverage",
                            "NumRetrieved",
                            "UserCoverageAtN",
                            "Gini",
                        ),
                        *("ShannonEntropy", "SRecall", "EFD", "EPC", "ARP", "UserMADRanking"),
                        *("RSP", "REO", "UserMADRating"),
                    )
                },
                **{name: name for name in ("MAE", "MSE", "RMSE")},
                "BiasDisparityBS_UC{g}_IC{c}@10": "BiasDisparityBS[{g}, {c}]",
                "BiasDisparityBR_UC{g}_IC{c}@{k}": "BiasDisparityBR@{k}[{g}, {c}]",
                "BiasDisparityBD_UC{g}_IC{c}@{k}": "BiasDisparityBD@{k}[{g}, {c}]",
                "REO_IC{c}@{k}": "REO@{k}[{c}]",
                "RSP_IC{c}@{k}": "RSP@{k}[{c}]",
                "EFD[discounted]@{k}": "EFD(relevance=discounted)@{k}",
                "EPC[discounted]@{k}": "EPC(relevance=discounted)@{k}",
                "EucDistance[nDCG, Recall][1.0, 1.0]@{k}": (
                    f"EucDistance({POINT}, utopia_points=[1, 1])@{{k}}"
                ),
                "Hypervolume[nDCG, Recall][0.0, 0.0][true, true]@{k}": (
                    f"Hypervolume({POINT}, nadir_points=[0, 0])@{{k}}"
                ),
            },
            # It was given the user without a row in the truth too; its data loader leaves him out.
            settings={"profile": "warprec", "extra_users": "count"},
        ),
        *rows(
            {f"{name}@{{k}}": f"{name}@{{k}}" for name in ("ItemMADRanking", "ItemMADRating")},
            settings={"profile": "warprec"},
        ),
    ],
}


# ------------------------------------------------------------------------------------ stored files


def read_text(name):
    content = (GOLDEN / name).read_bytes()
    return (gzip.decompress(content) if name.endswith(".gz") else content).decode()


def read_rows(name):
    return list(csv.DictReader(io.StringIO(read_text(name))))


@cache
def stored(tool):
    return json.loads(read_text(f"values/{tool}.json"))


@cache
def ids(name):
    return [row[name] for row in read_rows(f"{name}s.csv")]


@cache
def truth(relevance):
    value = {
        "binary": lambda rating: 1,
        "rating": int,
        "liked": lambda rating: int(int(rating) >= LIKED),
    }[relevance]
    cells = read_rows("truth.csv")
    return pl.DataFrame(
        {
            "user": [row["user"] for row in cells],
            "item": [row["item"] for row in cells],
            "rating": [value(row["rating"]) for row in cells],
        }
    )


@cache
def scores(model):
    return np.loadtxt(io.StringIO(read_text(f"scores_{model}.csv.gz")), delimiter=",")


def untied_scores(model):
    """Return scores without ties, equal scores in the order of item ids."""
    return scores(model) - np.arange(NUM_ITEMS) / 1024


@cache
def lists(model):
    kept = [row for row in read_rows("lists.csv.gz") if row["model"] == model]
    return {row["user"]: row["items"].split() for row in kept}


def scored_lists(model):
    columns = {item: column for column, item in enumerate(ids("item"))}
    return {
        user: {item: scores(model)[row, columns[item]] for item in lists(model).get(user, ())}
        for row, user in enumerate(ids("user"))
    }


def predicted_ratings():
    by_user = {}
    for row in read_rows("truth.csv"):
        by_user.setdefault(row["user"], {})[row["item"]] = float(row["prediction"])
    return by_user


def number(labels):
    """Number labels from 1 in the order of their names, as the tools were given them."""
    names = sorted(set(labels.values()))
    return {key: names.index(label) + 1 for key, label in labels.items()}


@cache
def side_inputs():
    users, items = read_rows("users.csv"), read_rows("items.csv")
    return {
        "train": pl.DataFrame(read_rows("train.csv")),
        "user_groups": number({row["user"]: row["gender"] or "withheld" for row in users}),
        "item_clusters": number({row["item"]: row["genres"].split("|")[0] for row in items}),
        "item_features": {row["item"]: row["genres"].split("|") for row in items},
    }


# -------------------------------------------------------------------------------------- comparison


def find_row(tool, case, call):
    """Return Weft's name of a tool's call, and the row."""
    for row in TOOLS[tool]:
        if (name := row.match(case, call)) is not None:
            return name, row
    raise LookupError(f"no row covers {tool}: {call} in {case}")


def sources(tool, case):
    """Return what Weft is given for a case: `{name: (source, inputs)}`."""
    model, _, view = (*case.split("/"), "")[:3]
    if model == "predictions":
        return {"predictions": (predicted_ratings(), {})}
    if tool == "pytrec_eval" and view == "tied":  # the profile ranks equal scores by item id
        return {"scored lists": (scored_lists(model), {})}
    catalogue = {"items": ids("item"), **side_inputs()}
    if tool == "replay":  # which takes one category per item
        clusters = side_inputs()["item_clusters"]
        catalogue["item_features"] = {item: [str(label)] for item, label in clusters.items()}
        catalogue["inputs"] = {"reference": lists("popularity")}
    if view == "unmasked":
        order = np.argsort(-scores(model), axis=1, kind="stable")[:, :DEPTH]
        ranked = {user: [ids("item")[i] for i in row] for user, row in zip(ids("user"), order)}
        return {"lists": (ranked, catalogue)}
    matrix = {"users": ids("user"), **catalogue}
    if view == "tied":
        return {"scores": (scores(model), matrix)}
    if view in ("all", "untied"):
        return {"scores": (untied_scores(model), matrix)}
    found = {"lists": (lists(model), catalogue)}
    return found | ({"scores": (scores(model), matrix)} if model in MODELS else {})


def base_name(name):
    """Return the metric with its parameters and cut-off, without the labels of one cell."""
    return re.sub(r"\[\d+(, \d+)?\]$", "", name)


def run(tool, case, source, calls, per_user=False):
    """Return the results of Weft that hold these calls: `{call: (name, result)}`."""
    given, inputs = sources(tool, case)[source]
    by_settings = {}
    for call in calls:
        name, row = find_row(tool, case, call)
        by_settings.setdefault(tuple(row.settings.items()), {})[call] = name
    found = {}
    for settings, names in by_settings.items():
        metrics = list(dict.fromkeys(base_name(name) for name in names.values()))
        relevance = truth(case.split("/")[1])
        result = weft.evaluate(
            given, relevance, metrics=metrics, per_user=per_user, **inputs, **dict(settings)
        )
        found |= {call: (name, result) for call, name in names.items()}
    return found


def tolerance_of(tool, case, call):
    return find_row(tool, case, call)[1].tolerance or TOLERANCES[stored(tool)["precision"]]


def differences(found, expected, tolerance):
    """Return `{call: (found, expected)}` of the values that differ by more than the tolerance,
    which is a number, or a function of the call."""
    limit = tolerance if callable(tolerance) else lambda call: tolerance
    return {
        call: (found[call], value)
        for call, value in expected.items()
        if not abs(found[call] - value) <= limit(call) * max(1.0, abs(value))
    }


def cases_of(kind):
    return [
        pytest.param(tool, case, source, id=f"{tool} {case} {source}")
        for tool in TOOLS
        for case, kinds in stored(tool)["cases"].items()
        if kind in kinds
        for source in sources(tool, case)
    ]


@pytest.mark.parametrize(("tool", "case", "source"), cases_of("means"))
def test_values_match_other_tools(tool, case, source):
    expected = stored(tool)["cases"][case]["means"]
    found = {
        call: result[name] for call, (name, result) in run(tool, case, source, expected).items()
    }
    assert differences(found, expected, partial(tolerance_of, tool, case)) == {}


@pytest.mark.parametrize(("tool", "case", "source"), cases_of("users"))
def test_values_per_user_match_other_tools(tool, case, source):
    expected = stored(tool)["cases"][case]["users"]
    for call, (name, result) in run(tool, case, source, expected, per_user=True).items():
        column = result.entry(name).name
        table = dict(result.per_user.select("user", column).iter_rows())
        assert table.keys() == expected[call].keys()
        assert differences(table, expected[call], tolerance_of(tool, case, call)) == {}, call


@pytest.mark.parametrize("model", MODELS)
def test_single_target_metrics_match_torcheval(model):
    """The target of a user is the relevant item that comes last in the catalogue."""
    columns = {item: column for column, item in enumerate(ids("item"))}
    rows_of = {user: row for row, user in enumerate(ids("user"))}
    matrix = torch.from_numpy(scores(model).copy())
    for user, item in side_inputs()["train"].iter_rows():
        matrix[rows_of[user], columns[item]] = -torch.inf
    last = {}
    for user, item in truth("binary").select("user", "item").iter_rows():
        last[user] = max(last.get(user, 0), columns[item])
    users = [user for user in ids("user") if user in last]
    preds = matrix[[rows_of[user] for user in users]]
    ranks = weft.get_topk_ranks(preds, torch.tensor([last[user] for user in users]), DEPTH)
    classes = {"hit_rate(k={k})": weft.HR, "reciprocal_rank(k={k})": weft.MRR}
    expected = stored("torcheval")["cases"][f"{model}/target/all"]["means"]
    found = {}
    for call in expected:
        template, k = re.sub(r"\d+", "{k}", call), int(re.search(r"\d+", call)[0])
        metric = classes[template](k)
        metric.update(ranks)
        found[call] = float(metric.compute())
    assert differences(found, expected, TOLERANCES["float32"]) == {}


# --------------------------------------------------------------------------- checks of the checks


def test_input_is_part_of_the_embedded_data_set():
    data = demo_data.load()
    part = pl.col("user").is_in(ids("user")) & pl.col("item").is_in(ids("item"))
    assert ids("user") == data.users["user"].to_list()[::10]
    assert ids("item") == data.items["item"].to_list()[::4]
    train, test = data.train.filter(part), data.test.filter(part)
    assert side_inputs()["train"].equals(train.select("user", "item"))
    assert truth("rating").equals(test.select("user", "item", "rating"))


@pytest.mark.parametrize("model", [*MODELS, "short"])
def test_stored_lists_follow_from_the_scores(model):
    seen = set(side_inputs()["train"].iter_rows())
    matrix = scores("factors" if model == "short" else model)
    for row, user in zip(matrix, ids("user")):
        order = [ids("item")[column] for column in np.argsort(-row, kind="stable")]
        ranked = [item for item in order if (user, item) not in seen][:DEPTH]
        stored_list = lists(model).get(user, [])
        assert ranked[: len(stored_list)] == stored_list
        assert len(stored_list) in ((0, 3, DEPTH) if model == "short" else (DEPTH,))


def test_every_file_of_values_is_compared_and_described():
    readme = read_text("README.md")
    for path in (GOLDEN / "values").iterdir():
        assert path.stem in TOOLS or path.stem == "torcheval"
        assert f"| {path.stem} | {stored(path.stem)['version']} |" in readme


@pytest.mark.parametrize("tool", TOOLS)
def test_every_row_matches_a_stored_value(tool):
    """A row of the table that no stored value uses compares nothing."""
    pairs = [
        (case, call)
        for case, kinds in stored(tool)["cases"].items()
        for known in kinds.values()
        for call in known
    ]
    for row in TOOLS[tool]:
        assert any(row.match(case, call) for case, call in pairs), row


@pytest.mark.parametrize("tool", TOOLS)
def test_finds_a_wrong_value(tool):
    """Moving any value by ten times the tolerance makes the comparison fail."""
    case, kinds = next(iter(stored(tool)["cases"].items()))
    source = next(iter(sources(tool, case)))
    expected = kinds["means"]
    found = {
        call: result[name] for call, (name, result) in run(tool, case, source, expected).items()
    }
    for call, value in expected.items():
        moved = value + 10 * tolerance_of(tool, case, call) * max(1.0, abs(value))
        limit = partial(tolerance_of, tool, case)
        assert differences(found, {**expected, call: moved}, limit).keys() == {call}


def test_rejects_a_value_without_a_row():
    with pytest.raises(LookupError, match="no row covers ranx: rbp"):
        find_row("ranx", "item_knn/binary", "rbp.95")
