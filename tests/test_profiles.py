"""Profiles: every metric that a profile covers against the stored values of its tool, and how
profiles behave.

The stored values lie outside the repository (see test_golden.py); profiles that are not in
`PROFILED` are compared with values on the embedded data (test_profiles_embedded.py). Each row of
the first table names a tool's metric and Weft's plain name of it; the profile has to fill in the
rest. The second holds what profiles leave out and other inputs or parameters reproduce."""

import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl
import pytest
import torch

import test_golden_embedded as embedded
import weft
from metric_cases import BUILT_IN, OF_REFERENCE
from test_golden import CUTOFFS, DATA, GOLDEN, ids, scores, stored, truth
from test_golden import pytestmark as needs_golden
from weft.errors import InputError, SettingError
from weft.evaluation.setting_defaults import DEFAULTS
from weft.metrics.names import MetricSpec, format_labels, parse_name
from weft.metrics.profiles import PROFILES, profiled_name, tool_definitions
from weft.metrics.registry import find_metric, metric_parameters

# The settings that profiles change, and their defaults.
SETTING_DEFAULTS = {**DEFAULTS, "extra_users": None, "relevance_threshold": None}

# --------------------------------------------------------------------------------------------------

BIN, RATING, RM1, THR4 = "bin", "rating", "rm1", "thr4"
BINARY, EVERY = (BIN, THR4), (BIN, RATING, RM1, THR4)
CLUSTERED, ELLIOT = (BIN, RATING), (BIN, RATING, THR4)
TIED, RATED = ("bin|raw scores with ties",), ("ratings",)
MODELS = ("itemknn", "pop")
ALL_ITEMS = 1682  # a cut-off that cuts nothing

# The label columns of users and items, and how many labels each has.
CLUSTERS = {
    "A": ("gender_cluster", 2, "pop_tercile", 3),
    "B": ("age_cluster", 4, "genre_cluster", 19),
}
POINT = "metric_names=[nDCG, Recall]"
SKIP, RAW, B = {"empty_users": "skip"}, {"view": "raw"}, {"clusters": "B"}
ONE_MODEL = {"models": ("itemknn",)}
OLD_TREC_EVAL, NEW_TREC_EVAL = {"tools": ("pytrec_eval",)}, {"tools": ("trec_eval_10.0-rc3",)}


@dataclass(frozen=True)
class Of:
    """A number that a tool prints, from several of Weft's values."""

    formula: Callable  # of a lookup by name, and the cut-off
    names: tuple[str, ...]


@dataclass(frozen=True)
class Differs:
    """Where a tool prints something else than the definition says: when, what it prints, and what
    Weft says.
    """

    when: Callable  # of a lookup by name, the cut-off, and the numbers of the labels
    theirs: float
    ours: Callable = math.isnan


def rates(metric, clusters):
    return lambda value, k: [
        value(f"{metric}@{k}[{c}]") for c in range(1, CLUSTERS[clusters][3] + 1)
    ]


def fewer_than_two(metric, clusters):
    return lambda value, k, g, c: sum(rate > 0 for rate in rates(metric, clusters)(value, k)) < 2


def one_without(metric, clusters):
    return lambda value, k, g, c: not all(rate > 0 for rate in rates(metric, clusters)(value, k))


def undefined_rate(clusters):
    return lambda value, k, g, c: any(math.isnan(rate) for rate in rates("REO", clusters)(value, k))


def anything(value):
    return True


# WarpRec prints 0 without two clusters to compare, and where there is nothing to divide by.
ALONE_RECOMMENDED = {"differs": Differs(fewer_than_two("RSP", "A"), 0.0)}
ALONE_HIT = {"differs": Differs(fewer_than_two("REO", "A"), 0.0)}
NO_SHARE = {
    "differs": Differs(lambda value, k, g, c: value(f"BiasDisparityBS[{g}, {c}]") == 0, 0.0)
}
# Elliot prints NaN as soon as one cluster has no value; Weft leaves that cluster out.
NOT_RECOMMENDED = {
    v: {"clusters": v, "differs": Differs(one_without("RSP", v), math.nan, anything)}
    for v in CLUSTERS
}
NOT_RELEVANT = {
    v: {"clusters": v, "differs": Differs(undefined_rate(v), math.nan, anything)} for v in CLUSTERS
}

# Per profile: relevances, the tool's name, Weft's name under the profile, and how to run where that
# is not as usual.
PROFILED = {
    "warprec": [
        *(
            (EVERY, f"{name}@{{k}}", f"{name}@{{k}}")
            for name in ("Precision", "Recall", "HitRate", "MRR", "MAP", "MAR", "F1", "nDCG")
        ),
        (EVERY, "nDCGRendle2020@{k}", "nDCGRendle2020@{k}"),
        (
            EVERY,
            "F1[Precision, MAP]@{k}",
            "F1(metric_name_2=MAP, beta=2)@{k}",
        ),  # WarpRec's name does not tell beta
        (EVERY, "F1[nDCG, Recall]@{k}", "F1(metric_name_1=nDCG)@{k}"),
        (RATED, "MAE@10", "MAE"),
        (RATED, "MSE@10", "MSE"),
        (RATED, "RMSE@10", "RMSE"),
        *(
            (EVERY, f"{name}@{{k}}", f"{name}@{{k}}")
            for name in ("ItemCoverage", "NumRetrieved", "UserCoverageAtN", "Gini")
        ),
        *(
            (EVERY, f"{name}@{{k}}", f"{name}@{{k}}")
            for name in ("ShannonEntropy", "SRecall", "EFD", "EPC", "ARP")
        ),
        (EVERY, "EFD[discounted]@{k}", "EFD(relevance=discounted)@{k}"),
        (EVERY, "EPC[discounted]@{k}", "EPC(relevance=discounted)@{k}"),
        (
            EVERY,
            "EucDistance[nDCG, Recall][1.0, 1.0]@{k}",
            f"EucDistance({POINT}, utopia_points=[1, 1])@{{k}}",
        ),
        (
            EVERY,
            "Hypervolume[nDCG, Recall][0.0, 0.0][true, true]@{k}",
            f"Hypervolume({POINT}, nadir_points=[0, 0])@{{k}}",
        ),
        *(
            (CLUSTERED, f"A:{name}@{{k}}", f"{name}@{{k}}")
            for name in ("REO", "RSP", "UserMADRanking", "UserMADRating")
        ),
        (CLUSTERED, "A:REO_IC{c}@{k}", "REO@{k}[{c}]"),
        (CLUSTERED, "A:RSP_IC{c}@{k}", "RSP@{k}[{c}]"),
        (CLUSTERED, "A:BiasDisparityBS_UC{g}_IC{c}@{k}", "BiasDisparityBS[{g}, {c}]"),
        (CLUSTERED, "A:BiasDisparityBR_UC{g}_IC{c}@{k}", "BiasDisparityBR@{k}[{g}, {c}]"),
        (CLUSTERED, "A:BiasDisparityBD_UC{g}_IC{c}@{k}", "BiasDisparityBD@{k}[{g}, {c}]", NO_SHARE),
        (CLUSTERED, "A:ItemMADRanking@{k}", "ItemMADRanking@{k}", ALONE_RECOMMENDED),
        (CLUSTERED, "A:ItemMADRating@{k}", "ItemMADRating@{k}", ALONE_HIT),
        *(
            (CLUSTERED, f"B:{name}@{{k}}", f"{name}@{{k}}", B)
            for name in ("REO", "RSP", "UserMADRanking", "UserMADRating")
        ),
        (CLUSTERED, "B:REO_IC{c}@{k}", "REO@{k}[{c}]", B),
        (CLUSTERED, "B:RSP_IC{c}@{k}", "RSP@{k}[{c}]", B),
        (CLUSTERED, "B:BiasDisparityBS_UC{g}_IC{c}@{k}", "BiasDisparityBS[{g}, {c}]", B),
        (CLUSTERED, "B:BiasDisparityBR_UC{g}_IC{c}@{k}", "BiasDisparityBR@{k}[{g}, {c}]", B),
        (
            CLUSTERED,
            "B:BiasDisparityBD_UC{g}_IC{c}@{k}",
            "BiasDisparityBD@{k}[{g}, {c}]",
            B | NO_SHARE,
        ),
        (CLUSTERED, "B:ItemMADRanking@{k}", "ItemMADRanking@{k}", B),
        (CLUSTERED, "B:ItemMADRating@{k}", "ItemMADRating@{k}", B | ONE_MODEL),  # pop: see BY_HAND
    ],
    "elliot": [
        *(
            (ELLIOT, f"{name}@{{k}}", f"{name}@{{k}}")
            for name in ("Precision", "Recall", "MRR", "F1", "nDCG", "nDCGRendle2020")
        ),
        (ELLIOT, "HR@{k}", "HitRate@{k}"),
        (ELLIOT, "DSC@{k}", "F1(beta=2)@{k}"),
        ((RATING,), "nDCG@{k}|threshold=0", "nDCG(gain=exponential_shifted)@{k}"),
        *(
            (ELLIOT, f"{name}@{{k}}", f"{name}@{{k}}")
            for name in ("ItemCoverage", "NumRetrieved", "UserCoverage", "UserCoverageAtN")
        ),
        *(
            (ELLIOT, f"{name}@{{k}}", f"{name}@{{k}}")
            for name in ("EFD", "EPC", "SRecall", "ACLT", "APLT", "ARP", "PopREO", "PopRSP")
        ),
        (ELLIOT, "ExtendedEFD@{k}", "EFD(relevance=graded)@{k}"),
        (ELLIOT, "ExtendedEPC@{k}", "EPC(relevance=graded)@{k}"),
        (ELLIOT, "SEntropy@{k}", "ShannonEntropy@{k}"),
        (ELLIOT, "ExtendedPopREO@{k}", "PopREO(pop_ratio=0.5)@{k}"),
        (ELLIOT, "ExtendedPopRSP@{k}", "PopRSP(pop_ratio=0.5)@{k}"),
        *(
            (relevances, f"{v}:{theirs}", ours, {"clusters": v} | how.get(v, {}))
            for v in CLUSTERS
            for relevances, theirs, ours, how in (
                (ELLIOT, "REO_items:i@{k}", "REO@{k}", NOT_RELEVANT),
                (ELLIOT, "RSP_items:i@{k}", "RSP@{k}", {}),
                (ELLIOT, "REO-ProbToBeRanked_items:i-{c0}@{k}", "REO@{k}[{c}]", {}),
                (ELLIOT, "RSP-ProbToBeRanked_items:i-{c0}@{k}", "RSP@{k}[{c}]", {}),
                (
                    ELLIOT,
                    "BiasDisparityBS_users:u-{g0}_items:i-{c0}@{k}",
                    "BiasDisparityBS[{g}, {c}]",
                    {},
                ),
                (
                    ELLIOT,
                    "BiasDisparityBR_users:u-{g0}_items:i-{c0}@{k}",
                    "BiasDisparityBR@{k}[{g}, {c}]",
                    {},
                ),
                (
                    ELLIOT,
                    "BiasDisparityBD_users:u-{g0}_items:i-{c0}@{k}",
                    "BiasDisparityBD@{k}[{g}, {c}]",
                    {},
                ),
                (ELLIOT, "UserMADranking_u@{k}", "UserMADRanking@{k}", {}),
                (ELLIOT, "UserMADrating_u@{k}", "UserMADRating@{k}", {}),
                (ELLIOT, "ItemMADranking_i@{k}", "ItemMADRanking@{k}", NOT_RECOMMENDED),
                (ELLIOT, "ItemMADrating_i@{k}", "ItemMADRating@{k}", NOT_RECOMMENDED),
                (
                    (RATING,),
                    "UserMADranking_u@{k}|threshold=0",
                    "UserMADRanking(gain=exponential_shifted)@{k}",
                    {},
                ),
                (
                    (RATING,),
                    "ItemMADranking_i@{k}|threshold=0",
                    "ItemMADRanking(gain=exponential_shifted)@{k}",
                    NOT_RECOMMENDED,
                ),
            )
        ),
    ],
    "trec_eval": [
        *(
            (relevances, theirs, ours, how)
            for relevances, how in (
                (EVERY, {}),
                (TIED, {"view": "docno order", "models": ("pop",)}),
            )
            for theirs, ours in (
                ("P_{k}", "Precision@{k}"),
                ("recall_{k}", "Recall@{k}"),
                ("success_{k}", "HitRate@{k}"),
                ("map_cut_{k}", "MAP@{k}"),
                ("ndcg_cut_{k}", "nDCG@{k}"),
                # Not cut: the lists hold 100 items.
                ("recip_rank", "MRR@100"),
                ("map", "MAP@100"),
                ("ndcg", "nDCG(ideal=full)@100"),
            )
        ),
        *(
            (relevances, theirs, f"{ours}@100", how)
            for relevances, how in (
                (EVERY, {}),
                (TIED, {"view": "docno order", "models": ("pop",), **NEW_TREC_EVAL}),
            )
            for theirs, ours in (("Rprec", "RPrecision"), ("bpref", "bpref"), ("infAP", "infAP"))
        ),
        (EVERY, "11pt_avg", "IPrec@100", NEW_TREC_EVAL),
        (EVERY, "rbp_resid", "RBPResidual@100", NEW_TREC_EVAL),
        (EVERY, "set_P", "Precision(denominator=list)@100"),
        (EVERY, "set_recall", "Recall@100"),
        (EVERY, "set_F", "F1@100"),
        *(
            (EVERY, f"Rprec_mult_{x / 5:.2f}", f"RPrecision(multiple={x / 5})@100", OLD_TREC_EVAL)
            for x in range(1, 11)
        ),
        (BINARY, "rbp", "RBP@100", NEW_TREC_EVAL),
    ],
    "ranx": [
        (EVERY, "precision@{k}", "Precision@{k}"),
        (EVERY, "recall@{k}", "Recall@{k}"),
        (EVERY, "hit_rate@{k}", "HitRate@{k}"),
        (EVERY, "mrr@{k}", "MRR@{k}"),
        (EVERY, "f1@{k}", "F1@{k}"),
        (EVERY, "map@{k}", "MAP@{k}"),
        (EVERY, "ndcg@{k}", "nDCG@{k}"),
        # Not cut: the lists hold 100 items.
        (EVERY, "precision", "Precision(denominator=list)@100"),
        (EVERY, "recall", "Recall@100"),
        (EVERY, "hit_rate", "HitRate@100"),
        (EVERY, "mrr", "MRR@100"),
        (EVERY, "f1", "F1@100"),
        (EVERY, "map", "MAP@100"),
        (EVERY, "ndcg", "nDCG(ideal=full)@100"),
        (EVERY, "r-precision", "RPrecision@100"),
        (EVERY, "dcg@{k}", "DCG@{k}"),
        (EVERY, "dcg", "DCG@100"),
        (EVERY, "rbp.50", "RBP(p=0.5)@100"),
        (EVERY, "rbp.80", "RBP(p=0.8)@100"),
    ],
    "recbole": [
        (BINARY, "precision@{k}", "Precision@{k}"),
        (BINARY, "recall@{k}", "Recall@{k}"),
        (BINARY, "hit@{k}", "HitRate@{k}"),
        (BINARY, "mrr@{k}", "MRR@{k}"),
        (BINARY, "map@{k}", "MAP@{k}"),
        (BINARY, "ndcg@{k}", "nDCG@{k}"),
        (BINARY, "gauc", "GAUC"),
        (BINARY, "itemcoverage@{k}", "ItemCoverage@{k}"),
        (BINARY, "giniindex@{k}", "Gini@{k}"),
        (BINARY, "averagepopularity@{k}", "ARP@{k}"),
    ],
    "torchmetrics": [
        *(
            (relevances, theirs + suffix, ours, how)
            for suffix, binary, every, how in (
                ("", BINARY, EVERY, {}),
                ("|skip_empty", (THR4,), (THR4,), SKIP),
            )
            for relevances, theirs, ours in (
                (binary, "Precision@{k}", "Precision@{k}"),
                (binary, "Recall@{k}", "Recall@{k}"),
                (binary, "HitRate@{k}", "HitRate@{k}"),
                (binary, "MRR@{k}", "MRR@{k}"),
                (binary, "MAP@{k}", "MAP@{k}"),
                (every, "NDCG@{k}", "nDCG@{k}"),
            )
        ),
        ((RATING,), "NDCG", f"nDCG@{ALL_ITEMS}", ONE_MODEL),
        *(
            ((THR4,), theirs + suffix, f"{ours}@{ALL_ITEMS}", how | ONE_MODEL)
            for suffix, how in (("", {}), ("|skip_empty", SKIP))
            for theirs, ours in (
                ("Recall", "Recall"),
                ("MRR", "MRR"),
                ("MAP", "MAP"),
                ("NDCG", "nDCG"),
            )
        ),
        (EVERY, "NDCG@{k}|raw", "nDCG@{k}", RAW),
        ((THR4,), "NDCG@{k}|skip_empty|raw", "nDCG@{k}", RAW | SKIP),
        ((BIN,), "AUROC(scaled to (0,1), skip_empty)", "GAUC"),
        ((THR4,), "AUROC(scaled to (0,1), skip_empty)", "GAUC", SKIP),
        *((RATED, name, name) for name in ("MAE", "MSE", "RMSE")),
    ],
    "rectools": [
        *(
            (BINARY, f"{name}@{{k}}", f"{name}@{{k}}")
            for name in ("Precision", "Recall", "HitRate", "MRR", "MAP", "ARP")
        ),
        (BINARY, "NDCG@{k}", "nDCG@{k}"),
        (BINARY, "NDCG(divide_by_achievable)@{k}", "nDCG(ideal=cut)@{k}"),
        (BINARY, "RPrecision@{k}", "Recall(normalizer=capped)@{k}"),
        (BINARY, "F1Beta@{k}", "F1@{k}"),
        (BINARY, "F1Beta(beta=2)@{k}", "F1(beta=2)@{k}"),
        (BINARY, "CatalogCoverage@{k}", "ItemCoverage@{k}"),
        (BINARY, "CatalogCoverage(normalize)@{k}", "ItemCoverage(as_fraction=True)@{k}"),
        (BINARY, "CoveredUsers@{k}", "UserCoverage@{k}"),
        (BINARY, "MAP(divide_by_k)@{k}", "MAP(normalizer=k)@{k}"),
        (BINARY, "NDCG(log_base=3)@{k}", "nDCG@{k}"),
        (BINARY, "Accuracy@{k}", "Accuracy@{k}"),
        (BINARY, "MCC@{k}", "MCC@{k}"),
    ],
    "sklearn": [
        *(
            (relevances, f"ndcg_score@{{k}}{raw}{suffix}", "nDCG@{k}", how | view)
            for raw, view in (("", {}), ("|raw", RAW))
            for suffix, relevances, how in (
                ("", EVERY, {}),
                ("|users with relevant", (THR4,), SKIP),
            )
        ),
        *(
            (relevances, f"ndcg_score{raw}{suffix}", f"nDCG@{ALL_ITEMS}", how | view)
            for raw, view in (("", ONE_MODEL), ("|raw", RAW | {"models": ("pop",)}))
            for suffix, relevances, how in (
                ("", (RATING, THR4), {}),
                ("|users with relevant", (THR4,), SKIP),
            )
        ),
        # Undefined for users without relevant items, who were left out; there are some in "thr4".
        *(
            ((relevance,), theirs, ours, how | view)
            for relevance, how in ((BIN, {}), (THR4, SKIP))
            for theirs, ours, view in (
                ("roc_auc_score", "GAUC", {}),
                ("roc_auc_score|raw", "GAUC", RAW),
                ("average_precision_score", f"MAP@{ALL_ITEMS}", {}),
                ("label_ranking_average_precision_score", f"MAP@{ALL_ITEMS}", {}),
            )
        ),
        ((BIN,), "roc_auc_score(all pairs pooled)|raw", "AUC", RAW),
        (EVERY, "dcg_score@{k}", "DCG@{k}"),
        (RATED, "mean_absolute_error", "MAE"),
        (RATED, "mean_squared_error", "MSE"),
        (RATED, "root_mean_squared_error", "RMSE"),
    ],
}

# Profiles that are compared in full on the embedded data: some of their values on MovieLens.
ALSO_PROFILED = {
    "replay": [
        *(
            (BINARY, f"{theirs}@{{k}}", f"{ours}@{{k}}")
            for theirs, ours in (
                *((name, name) for name in ("Precision", "Recall", "HitRate", "MRR", "MAP")),
                *(("NDCG", "nDCG"), ("Coverage", "ItemCoverage"), ("Surprisal", "Surprisal")),
            )
        ),
    ],
    "lenskit": [
        *(
            ((BIN,), f"{theirs}@{{k}}", f"{ours}@{{k}}")
            for theirs, ours in (
                *(("Precision", "Precision"), ("Recall", "Recall"), ("Hit", "HitRate")),
                *(("RecipRank", "MRR"), ("AveragePrecision", "MAP"), ("NDCG", "nDCG")),
                *(("DCG", "DCG"), ("RBP", "RBP"), ("RBP(normalize)", "RBP(normalize=True)")),
                *(("NDCG(offset=1)", "nDCG(discount=log)"), ("ListGini", "Gini")),
                ("MeanPopRank", "PopularityQuantile"),
            )
        ),
        ((RATING, RM1), "NDCG(gain)@{k}", "nDCG(gain=linear)@{k}"),
        (RATED, "MAE(per-user mean)", "MAE"),
        (RATED, "RMSE(per-user mean)", "RMSE"),
    ],
    "ir_measures": [
        *(
            (EVERY, f"{theirs}@{{k}}", f"{ours}@{{k}}")
            for theirs, ours in (
                *(("AP", "MAP"), ("nDCG", "nDCG"), ("P", "Precision"), ("R", "Recall")),
                *(("RR", "MRR"), ("Success", "HitRate"), ("Judged", "Judged")),
            )
        ),
        *(
            (EVERY, theirs, f"{ours}@100")
            for theirs, ours in (("Bpref", "bpref"), ("Rprec", "RPrecision"), ("infAP", "infAP"))
        ),
    ],
    "recommenders": [
        (BINARY, "precision_at_k@{k}", "Precision@{k}"),
        (BINARY, "recall_at_k@{k}", "Recall@{k}"),
        (BINARY, "map_at_k@{k}", "MAP@{k}"),
        (BINARY, "ndcg_at_k(binary)@{k}", "nDCG@{k}"),
        ((RATING, RM1), "ndcg_at_k(raw)@{k}", "nDCG(gain=linear)@{k}"),
        ((BIN,), "distributional_coverage@{k}", "ShannonEntropy@{k}"),
        ((BIN,), "catalog_coverage@{k}", "ItemCoverage@{k}"),
        ((BIN,), "novelty@{k}", "SelfInformation@{k}"),
        *(
            (RATED, theirs, ours)
            for theirs, ours in (
                *(("mae", "MAE"), ("rmse", "RMSE"), ("rsquared", "R2")),
                ("exp_var", "ExplainedVariance"),
            )
        ),
    ],
    "cornac": [
        *(
            (BINARY, f"{theirs}@{{k}}", f"{ours}@{{k}}")
            for theirs, ours in (
                *(("Precision", "Precision"), ("Recall", "Recall"), ("F1", "F1")),
                *(("HitRatio", "HitRate"), ("NDCG", "nDCG"), ("NCRR", "NCRR")),
            )
        ),
        (RATED, "MAE", "MAE(average=cells)"),
        (RATED, "RMSE", "RMSE(average=cells)"),
    ],
    "recpack": [
        (BINARY, "CalibratedRecallK@{k}", "Recall(normalizer=capped)@{k}"),
        *(
            (BINARY, f"{theirs}K@{{k}}", f"{ours}@{{k}}")
            for theirs, ours in (
                *(("NDCG", "nDCG"), ("DCG", "DCG"), ("Precision", "Precision")),
                *(("Recall", "Recall"), ("ReciprocalRank", "MRR"), ("Coverage", "ItemCoverage")),
            )
        ),
    ],
}

HEADS, ONE_MORE = {"view": "WarpRec's heads"}, {"view": "one more item"}


def mean_to(k, value, metric):
    return sum(value(f"{metric}@{j}") for j in range(1, k + 1)) / k


# What profiles leave out and other inputs or parameters reproduce: the tool in front, and no
# profile.
BY_HAND = [
    # WarpRec's head is Weft's, if the catalogue lists equally popular items in WarpRec's order.
    *(
        (
            "warprec",
            EVERY,
            f"{name}{suffix}@{{k}}",
            f"{name}({', '.join(params + more)})@{{k}}",
            HEADS,
        )
        for suffix, more in (("", ()), ("[Pop50%]", ("pop_ratio=0.5",)))
        for name, params in (
            ("ACLT", ("users=evaluated",)),
            ("APLT", ("users=evaluated",)),
            ("PopREO", ()),
            ("PopRSP", ()),
        )
    ),
    # Both count one negative more than there are: an item that is offered, below all others.
    *(
        (tool, relevances, theirs, ours, ONE_MORE)
        for tool, relevances in (("warprec", EVERY), ("elliot", ELLIOT))
        for theirs, ours in (
            ("AUC@10", "AUC"),
            ("GAUC@10", "GAUC"),
            ("LAUC@{k}", "LAUC(completion=none)@{k}"),
        )
    ),
    # WarpRec counts the users with relevant items, whatever they were recommended: everybody, but
    # in "thr4".
    ("warprec", (BIN, RATING, RM1), "UserCoverage@10", "UserCoverage@10"),
    # Among equal scores, WarpRec took the higher item here.
    (
        "warprec",
        CLUSTERED,
        "B:ItemMADRating@10",
        "ItemMADRating@10",
        B | {"view": "ids descending", "models": ("pop",)},
    ),
    (
        "elliot",
        ELLIOT,
        "Gini@{k}",
        Of(lambda value, k: 1 - value(f"Gini@{k}"), tuple(f"Gini@{k}" for k in CUTOFFS)),
    ),
    *(
        (
            "elliot",
            ELLIOT,
            f"{theirs}@{{k}}",
            Of(
                lambda value, k, of=of: mean_to(k, value, of),
                tuple(f"{of}@{j}" for j in range(1, 101)),
            ),
        )
        for theirs, of in (("MAP", "Precision"), ("MAR", "Recall"))
    ),
    ("recbole", BINARY, "gauc", "AUC"),
    (
        "recbole",
        BINARY,
        "shannonentropy@{k}",
        Of(
            lambda value, k: (
                value(f"ShannonEntropy(users=evaluated)@{k}")
                / value(f"ItemCoverage(users=evaluated)@{k}")
            ),
            tuple(
                f"{name}(users=evaluated)@{k}"
                for name in ("ShannonEntropy", "ItemCoverage")
                for k in CUTOFFS
            ),
        ),
    ),
    (
        "rectools",
        BINARY,
        "ARP(normalize)@{k}",
        Of(lambda value, k: value(f"ARP@{k}") / len(train()), tuple(f"ARP@{k}" for k in CUTOFFS)),
    ),
    ("sklearn", BINARY, "label_ranking_loss", Of(lambda value, k: 1 - value("GAUC"), ("GAUC",))),
]

# How far values may be off: relative, absolute, and why. Everything else computes in float64.
EXACT = (1e-9, 0.0)
TOLERANCES = {
    "warprec": (1e-6, 0.0, "float32"),
    "torchmetrics": (1e-6, 0.0, "float32"),
    "trec_eval_10.0-rc3": (0.0, 5.001e-5, "prints four digits"),
    "lenskit MAE": (1e-8, 0.0, "an array of predictions becomes float32"),
    # Differences of nearly equal float32 means, right to a few 1e-7 of the means: of nDCG (up to
    # 1), of scores (up to 54 for itemknn and 528 for pop) and of gains (up to 63); and of a ratio
    # and 1.
    "warprec UserMADRanking": (1e-6, 4e-7, "float32"),
    "warprec UserMADRating itemknn": (1e-6, 3e-5, "float32"),
    "warprec UserMADRating pop": (1e-6, 3e-4, "float32"),
    "warprec ItemMADRanking": (1e-6, 4e-6, "float32"),
    "warprec ItemMADRating": (1e-6, 2e-5, "float32"),
    "warprec BiasDisparityBD": (1e-6, 4e-7, "float32"),
}

# What a profile covers though no value of the tool is stored, and why.
NOT_STORED: dict[tuple[str, str], str] = {
    ("rectools", "PartialAUC"): "of lists, not of all scores: test_golden.py compares it",
    ("rectools", "PAP"): "of lists, not of all scores: test_golden.py compares it",
}

# Parameters and settings of profiles that no stored value can tell from Weft's defaults, and why.
INVISIBLE = {
    ("warprec", "ARP", "unseen"): "no list of 100 holds an item without train interactions",
    ("warprec", "EPC", "unseen"): "no list of 100 holds an item without train interactions",
    ("trec_eval", "F1", "metric_name_1"): "every list holds 100 items",
    (
        "recbole",
        "nDCG",
        "gain",
    ): "all gains are alike where relevance is binary, and nothing else is stored",
    (
        "rectools",
        "nDCG",
        "gain",
    ): "all gains are alike where relevance is binary, and nothing else is stored",
    ("sklearn", "MAP", "normalizer"): "both are alike where nothing is cut",
    (
        "trec_eval",
        "",
        "missing_lists",
    ): "every user has a list; test_users_without_a_list compares it",
    # Every user has a full list and a test row; the tests of the edge cases compare these.
    **dict.fromkeys(
        (
            ("elliot", "NumRetrieved", "users"),
            ("elliot", "EFD", "denominator"),
            ("elliot", "EPC", "denominator"),
            ("elliot", "APLT", "denominator"),
            ("elliot", "ShannonEntropy", "weights"),
            ("elliot", "", "missing_lists"),
            ("elliot", "", "extra_users"),
        ),
        "test_elliot_and_users_without_lists_or_truth_and_short_lists compares it",
    ),
    **{
        (tool, "", "extra_users"): "test_a_profile_leaves_out_the_users_whom_the_tool_does_not_see"
        for tool in ("warprec", "recbole")
    },
    **{
        (tool, "", "relevance_threshold"): "test_negative_judgements_are_not_relevant"
        for tool in ("trec_eval", "ranx")
    },
    ("rectools", "UserCoverage", "users"): "test_rectools_covers_users_of_the_truth",
    **{
        ("warprec", metric, "users"): "every user has a relevant item where a value is stored; "
        "test_golden_embedded.py compares it"
        for metric in ("ItemMADRanking", "UserMADRating")
    },
}

NOT_OURS = "no metric of Weft's"
UNCUT = "not cut, which takes long: one model and some relevances are compared"
# What is stored of the tools and not compared, and why: patterns of the whole name.
NOT_COMPARED = {
    "warprec": {
        r"(SN)?IPS(DCG|Recall)@\d+|LogLoss@10": NOT_OURS,
        r"UserCoverage@10": "of thr4: test_users_are_counted_as_the_tools_count_them",
    },
    "elliot": {},
    "pytrec_eval": {
        r"binG|G|gm_map|Rndcg|set_map": NOT_OURS,
        r"11pt_avg|iprec_at_recall_.*": "rounds otherwise: test_golden.py compares some",
        r".*\|-c": "every user has a list, so that -c changes nothing",
        r"num_.*|n_topics": "counts of the run",
    },
    "trec_eval_10.0-rc3": {
        r"gm_map|Rndcg|set_map": NOT_OURS,
        r"rbp": "of ratings: it divides by the highest one of the user",
        r"raw: (rbp(_resid)?|11pt_avg)": "compared without ties",
        r"raw: set_.*": "they do not depend on the order",
        r".*\|-c": "every user has a list, so that -c changes nothing",
        r"num_.*": "counts of the run",
    },
    "ranx": {
        r"hits(@\d+)?": NOT_OURS,
        r"n?dcg_burges(@\d+)?": "another gain: test_golden.py compares it",
        r"raw: .*": "ties in an order of its own: "
        "test_ties_in_an_order_of_its_own_lie_between_the_bounds",
    },
    "recbole": {
        r"(tail_ratio=.*:)?tailpercentage@\d+": "the tail is a share of the items",
        r"n_users": "a count of the run",
    },
    "torchmetrics": {
        r"(FallOut@\d+|RPrecision)(\|skip_empty)?|R2": NOT_OURS,
        r"(MAP|MRR|NDCG|Recall)(\|skip_empty)?": UNCUT,
        r"AUROC(\|raw|@\d+)?": "saturates: scores outside [0, 1] go through a sigmoid in float32",
        r"AUROC\(.*\)@\d+": "the AUC inside the top k, which is not LAUC",
    },
    "rectools": {
        r"(MIUF|Serendipity|UnrepeatedReco|ILD\(.*\))@\d+": NOT_OURS,
        r"(PAP|PartialAUC)@\d+": "of lists, not of all scores: test_golden.py compares it",
        r"Intersection@.*": NOT_OURS,
        r".*debiased.*": "computed on another test set, which is not here",
        r"SufficientReco@\d+": "a share, and 1 wherever lists are full",
    },
    "sklearn": {
        r"dcg_score(\|raw)?": UNCUT,
        r"dcg_score@\d+\|raw": "ndcg_score of the same ties is compared",
        r"coverage_error(\|raw)?|(explained|median|r2).*": NOT_OURS,
        r".*\(rating>=4.*": "classification of ratings",
        r"ndcg_score(\|raw)?(\|users with relevant)?": UNCUT,
        r"ndcg_score\(ignore_ties\).*": "ties in an order of its own: "
        "test_ties_in_an_order_of_its_own_lie_between_the_bounds",
        r"(label_ranking_)?average_precision_score\|raw|label_ranking_loss\|raw": "a tie is one "
        "threshold, or "
        "an error",
        r"roc_auc_score\(all pairs pooled\)\|raw": "on thr4 users without relevant items are in "
        "the pool too",
        r"n_users\(auc\)": "a count of the run",
    },
}
STORED_AS = {"trec_eval": ("pytrec_eval", "trec_eval_10.0-rc3")}


@dataclass(frozen=True)
class Case:
    """One metric of one tool for one model and relevance, at all cut-offs and labels."""

    profile: str | None
    tool: str
    model: str
    relevance: str
    theirs: str
    ours: str | Of
    view: str
    clusters: str
    empty_users: str | None
    differs: Differs | None

    @property
    def metric(self):
        return (
            parse_name(self.ours.partition("[{")[0].replace("{k}", "1")).name
            if isinstance(self.ours, str)
            else ""
        )

    @property
    def golden(self):
        return f"ml100k_tlo/{self.model}/{self.relevance}"

    @property
    def key(self):
        """What one run is for."""
        return self.profile, self.model, self.relevance, self.view, self.clusters, self.empty_users

    @property
    def names(self):
        """What to ask Weft for: a name per cut-off, without labels."""
        if isinstance(self.ours, Of):
            return self.ours.names
        name = re.sub(r"\[\{.*\}\]", "", self.ours)
        return tuple(name.format(k=k) for k in CUTOFFS) if "{k}" in name else (name,)

    def pairs(self):
        """The tool's name of each value, its cut-off, the numbers of its labels, and
        Weft's name.
        """
        _, groups, _, clusters = CLUSTERS[self.clusters]
        for k in CUTOFFS if "{k}" in self.theirs else (None,):
            for g in range(1, groups + 1) if "{g" in self.theirs else (0,):
                for c in range(1, clusters + 1) if "{c" in self.theirs else (0,):
                    theirs = self.theirs.format(k=k, g=g, c=c, g0=g - 1, c0=c - 1)
                    yield (
                        theirs,
                        k,
                        g,
                        c,
                        self.ours.format(k=k, g=g, c=c)
                        if isinstance(self.ours, str)
                        else self.ours,
                    )

    def tolerance(self):
        keys = (f"{self.tool} {self.metric} {self.model}", f"{self.tool} {self.metric}", self.tool)
        return next((TOLERANCES[key][:2] for key in keys if key in TOLERANCES), EXACT)


def cases_of(profile, tool, row):
    relevances, theirs, ours, how = (*row, {})[:4]
    if tool not in how.get("tools", (tool,)):
        return
    models = ("bias",) if relevances == RATED else how.get("models", MODELS)
    # Fairness of scores needs the scores; ties by index are the order that all tools were given.
    view = how.get("view") or (
        "predictions"
        if relevances == RATED
        else "raw"
        if profile in ("warprec", "elliot")
        else "gold"
    )
    for relevance in relevances:
        for model in models:
            clusters, empty_users, differs = (
                how.get("clusters", "A"),
                how.get("empty_users"),
                how.get("differs"),
            )
            yield Case(
                profile, tool, model, relevance, theirs, ours, view, clusters, empty_users, differs
            )


CASES = [
    case
    for profile, rows in PROFILED.items()
    for tool in STORED_AS.get(profile, (profile,))
    for row in rows
    for case in cases_of(profile, tool, row)
]
OTHERS = [case for tool, *row in BY_HAND for case in cases_of(None, tool, row)]
MORE = [
    case
    for profile, rows in ALSO_PROFILED.items()
    for row in rows
    for case in cases_of(profile, profile, row)
]


def title(case):
    how = [case.view, case.clusters] + [case.empty_users] * (case.empty_users is not None)
    return f"{case.tool} {case.theirs} {case.model} {case.relevance} ({', '.join(how)})"


# --------------------------------------------------------------------------------------------------


@cache
def train():
    return pl.read_csv(DATA / "train.csv.gz")


@cache
def labels(which):
    of_users, _, of_items, _ = CLUSTERS[which]
    users, items = (pl.read_csv(DATA / f"{kind}_clusters.csv") for kind in ("user", "item"))
    genres = pl.read_csv(GOLDEN / "ml100k_items.csv").with_columns(
        pl.col("genres").fill_null("").str.split("|")
    )
    return {
        "user_groups": dict(zip(users["user"], users[of_users])),
        "item_clusters": dict(zip(items["item"], items[of_items])),
        "item_features": {
            item: [genre for genre in some if genre] for item, some in genres.iter_rows()
        },
    }


@cache
def posed(model, view):
    """Scores, and the items of their columns."""
    items = np.array(ids("items"))
    if view == "predictions":
        cells = pl.read_csv(DATA / "pred_bias.csv.gz")
        predicted = np.full((len(ids("users")), len(items)), -np.inf)
        predicted[cells["user"].to_numpy() - 1, cells["item"].to_numpy() - 1] = cells["prediction"]
        return predicted, items
    if view == "one more item":
        return scores(model, view), np.append(items, -1)
    if view == "WarpRec's heads":
        heads = pl.read_csv(DATA / "warprec_head_tail.csv")
        order = np.lexsort((items, -heads["head_0.8"].to_numpy(), -heads["head_0.5"].to_numpy()))
        return scores(model, "gold")[:, order], items[order]
    if view == "ids descending":
        return scores(model, "raw")[:, ::-1].copy(), items[::-1]
    if view == "docno order":  # by id as text, descending, and nothing beyond the lists
        order = np.argsort([str(item) for item in items])[::-1]
        return listed(model)[:, order], items[order]
    return scores(model, view), items


@cache
def listed(model):
    """The raw scores of the lists that the tools were given, and nothing else."""
    lists = pl.read_csv(DATA / f"rec_{model}.csv.gz")
    found = np.full((len(ids("users")), len(ids("items"))), -np.inf)
    found[lists["user"].to_numpy() - 1, lists["item"].to_numpy() - 1] = lists["score"]
    return found


@cache
def judged(profile, relevance):
    """The truth. Elliot had the ratings and a threshold of 4 in "thr4", from which its
    gain counts.
    """
    if profile == "elliot" and relevance == THR4:
        return truth(RATING).with_columns(rating=(pl.col("rating") - 3).clip(lower_bound=0))
    return truth(RATING if relevance in RATED else relevance.partition("|")[0])


def evaluate(metrics, model, relevance, view="gold", clusters="A", **how):
    found, items = posed(model, view)
    given = {"users": ids("users"), "items": items.tolist(), "train": train(), **labels(clusters)}
    return weft.evaluate(
        found, judged(how.get("profile"), relevance), metrics=metrics, **given, **how
    )


@cache
def run(key):
    """One run for everything that is compared of it."""
    profile, model, relevance, view, clusters, empty_users = key
    names = dict.fromkeys(
        name for case in CASES + OTHERS + MORE if case.key == key for name in case.names
    )
    return evaluate(
        list(names), model, relevance, view, clusters, profile=profile, empty_users=empty_users
    )


@cache
def look_up(key):
    """The values of a run by name."""
    result = run(key)
    known = {value.name: value.value for value in result.entries}
    return lambda name: known[name] if name in known else result[name]


def number(value):
    return math.nan if value == "nan" else value


def compare(case, value=None):
    """The values of the tool and of Weft, where they are to be equal."""
    values, value = stored(case.golden)[case.tool], value or look_up(case.key)
    wanted, found = {}, {}
    for theirs, k, g, c, ours in case.pairs():
        if theirs not in values:
            continue
        mine = value(ours) if isinstance(ours, str) else ours.formula(value, k)
        if case.differs is not None and case.differs.when(look_up(case.key), k, g, c):
            assert number(values[theirs]) == pytest.approx(case.differs.theirs, nan_ok=True), (
                f"{theirs}: no longer as the table says"
            )
            assert case.differs.ours(mine), f"{theirs}: {mine}"
            continue
        wanted[theirs], found[theirs] = number(values[theirs]), mine
    return wanted, found


def close(case, wanted):
    relative, absolute = case.tolerance()
    return pytest.approx(wanted, rel=relative, abs=absolute, nan_ok=True)


# --------------------------------------------------------------------------------------------------


@needs_golden
@pytest.mark.parametrize("case", CASES + MORE, ids=title)
def test_profiles_match_their_tools(case):
    assert any(theirs in stored(case.golden)[case.tool] for theirs, *_ in case.pairs())
    wanted, found = compare(case)
    assert found == close(case, wanted)


@needs_golden
@pytest.mark.parametrize("case", OTHERS, ids=title)
def test_excluded_metrics_match_with_parameters(case):
    wanted, found = compare(case)
    assert wanted
    assert found == close(case, wanted)


def test_compares_every_covered_metric():
    compared = {(case.profile, find_metric(case.metric).__name__) for case in CASES}
    covered = {(tool, metric) for tool in PROFILED for metric in PROFILES[tool].covers}
    assert compared | NOT_STORED.keys() == covered
    assert not compared & NOT_STORED.keys()


@needs_golden
@pytest.mark.parametrize(
    "tool", [tool for profile in PROFILED for tool in STORED_AS.get(profile, (profile,))]
)
def test_compares_or_names_every_stored_value(tool):
    used = set()
    for case in CASES + OTHERS:
        if case.tool == tool:
            used |= {(case.golden, theirs) for theirs, *_ in case.pairs()}
    left, met = [], set()
    for golden in sorted({case.golden for case in CASES}):
        for name in stored(golden).get(tool, {}):
            if (golden, name) in used:
                continue
            shown = (name, f"raw: {name}") if golden.endswith("ties") else (name,)
            patterns = {
                pattern
                for pattern in NOT_COMPARED[tool]
                if any(re.fullmatch(pattern, one) for one in shown)
            }
            left += [(golden, name)] * (not patterns)
            met |= patterns
    assert not left
    assert met == NOT_COMPARED[tool].keys()


PARAMETERS = [
    (tool, metric, name)
    for tool, profile in PROFILES.items()
    for metric, given in profile.covers.items()
    for name in given
]
PARAMETERS_STORED = [each for each in PARAMETERS if each[0] in PROFILED]


def spoil(name, parameter):
    """The name with Weft's default of a parameter written out, which the profile then
    leaves alone.
    """
    spec = parse_name(name)
    default = metric_parameters(find_metric(spec.name))[parameter].default
    return str(MetricSpec(spec.name, (*spec.params, (parameter, default)), spec.k))


def spoilable(key):
    """The cases of a run, and the parameters that their profile sets for them."""
    of_run = [case for case in CASES if case.key == key]
    return [
        (case, parameter)
        for case in of_run
        for parameter in PROFILES[case.profile].covers[case.metric]
        if parameter not in case.ours
    ]


@cache
def spoiled_run(key):
    """One run for all parameters of a profile, each spoiled in its turn."""
    profile, model, relevance, view, clusters, empty_users = key
    names = dict.fromkeys(
        spoil(name, parameter) for case, parameter in spoilable(key) for name in case.names
    )
    return evaluate(
        list(names), model, relevance, view, clusters, profile=profile, empty_users=empty_users
    )


@needs_golden
@pytest.mark.parametrize(("tool", "metric", "parameter"), PARAMETERS_STORED)
def test_every_parameter_of_a_profile_is_needed(tool, metric, parameter):
    """With Weft's default in its place the tool's numbers do not come out."""

    def is_spoiled(case):
        result = spoiled_run(case.key)
        wanted, found = compare(
            case, value=lambda name: result[profiled_name(spoil(name, parameter), tool)]
        )
        assert wanted
        return found != close(case, wanted)

    # One model shows it, on ratings or where some users have nothing relevant.
    keys = dict.fromkeys(
        case.key
        for case in CASES
        if case.profile == tool and case.metric == metric and case.clusters == "A"
    )
    keys = [
        key
        for key in keys
        if key[1] != "pop" and (key[2] in (RATING, THR4, *RATED) or metric == "AUC")
    ]
    cases = [
        case
        for key in keys
        for case, name in spoilable(key)
        if case.metric == metric and name == parameter
    ]
    assert any(map(is_spoiled, cases)) == ((tool, metric, parameter) not in INVISIBLE)


@needs_golden
@pytest.mark.parametrize(
    ("tool", "setting"),
    [(tool, name) for tool in PROFILED for name in PROFILES[tool].settings],
)
def test_every_setting_of_a_profile_is_needed(tool, setting):
    def is_spoiled(case):
        how = {"empty_users": case.empty_users, setting: SETTING_DEFAULTS[setting]}
        result = evaluate(
            list(case.names),
            case.model,
            case.relevance,
            case.view,
            case.clusters,
            profile=tool,
            **how,
        )
        wanted, found = compare(case, value=result.__getitem__)
        assert wanted
        return found != close(case, wanted)

    cases = [
        case
        for case in CASES
        if (case.profile, case.ours, case.model) == (tool, "nDCG@{k}", "pop")
        and case.empty_users is None
    ]
    cases = [case for case in cases if case.tool == cases[0].tool]
    assert any(map(is_spoiled, reversed(cases))) == ((tool, "", setting) not in INVISIBLE)


def test_exceptions_are_needed():
    settings = {(tool, "", name) for tool in PROFILED for name in PROFILES[tool].settings}
    assert {*PARAMETERS_STORED, *settings} >= INVISIBLE.keys()
    assert {key.split()[0] for key in TOLERANCES} <= {case.tool for case in CASES + MORE}
    assert NOT_COMPARED.keys() == {case.tool for case in CASES}


@needs_golden
@pytest.mark.parametrize("model", MODELS)
def test_counts_of_users_match_the_tools(model):
    tools = stored(f"ml100k_tlo/{model}/thr4")
    warprec, trec, recbole = (
        run((profile, model, THR4, view, "A", None))
        for profile, view in (("warprec", "raw"), ("trec_eval", "gold"), ("recbole", "gold"))
    )
    assert warprec.counts["evaluated_users"] == tools["warprec"]["UserCoverage@10"] == 904
    assert recbole.entry("nDCG@10").users == tools["recbole"]["n_users"] == 904
    assert (
        trec.entry("nDCG@10").users
        == tools["pytrec_eval"]["num_q"]
        == tools["trec_eval_10.0-rc3"]["num_q"]
        == 943
    )


@needs_golden
@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ({"metrics": "nDCG@10", "profile": "trec_eval"}, 0.167085),
        (
            {"metrics": "nDCG@10", "profile": "trec_eval", "missing_lists": "zero"},
            0.148564,
        ),  # trec_eval -c
        ({"metrics": "nDCG@10", "profile": "ranx"}, 0.148564),
        ({"metrics": "nDCG(ideal=cut)@10", "profile": "rectools"}, 0.148564),
    ],
    ids=str,
)
def test_users_without_a_list_match_the_tools(how, wanted):
    """The README's split with users without a list, with a short one or without truth; it tells the
    numbers to six digits.
    """
    everyone = np.array(ids("users"))
    found = scores("itemknn", "gold").copy()
    short = everyone % 10 == 1
    found[short] = np.where(found[short] >= -2, found[short], -np.inf)  # the best three
    some = everyone % 10 != 0
    edge = pl.read_csv(GOLDEN / "ml100k_edge" / "test.csv.gz").select(
        "user", "item", rating=pl.lit(1)
    )
    result = weft.evaluate(
        found[some], edge, users=everyone[some].tolist(), items=ids("items"), **how
    )
    assert result[how["metrics"]] == pytest.approx(wanted, rel=0, abs=5e-7)


def mean_of_pairs(by_label):
    """The mean difference of the means of all pairs of labels."""
    means = [statistics.fmean(values) for values in by_label.values()]
    return statistics.fmean(abs(a - b) for a, b in itertools.combinations(means, 2))


def spread(rates):
    return statistics.pstdev(rates) / statistics.fmean(rates)


class AsElliot:
    """Elliot's numbers from its source: lists of users with a test row, each cut at k.

    `lists` and `truth` are {user: {item: score}} and {user: {item: rating}}, from which Elliot
    takes the users who have both."""

    def __init__(self, k, lists, truth, train, items):
        self.k, self.truth, self.train, self.items = k, truth, train, items
        self.lists = {u: dict(list(r.items())[:k]) for u, r in lists.items() if truth.get(u)}
        self.relevant = {u: {i for i, r in truth[u].items() if r > 0} for u in self.lists}
        self.judged = {u: r for u, r in self.lists.items() if self.relevant[u]}
        self.popularity = Counter(item for row in train.values() for item in row)
        total, self.tail = 0, set(items)
        for item in sorted(items, key=lambda i: -self.popularity[i]):
            if total >= 0.3 * self.popularity.total():
                break
            total += self.popularity[item]
            self.tail.remove(item)

    def mean(self, value, users):
        return statistics.fmean(value(user, row) for user, row in users.items())

    def novelty(self, novelty):
        def value(user, row):
            discounts = [1 / math.log2(p + 2) for p in range(len(row))]
            hits = [(d, i) for d, i in zip(discounts, row) if i in self.relevant[user]]
            return sum(d * novelty(i) for d, i in hits) / sum(discounts)

        return self.mean(value, self.judged)

    def rate(self, users, of, chances):
        shown = sum(len({i for i in row if chances(u, i)} & of) for u, row in users.items())
        return shown / sum(sum(chances(u, i) for i in of) for u in users)

    def parity(self, groups):
        return [self.rate(self.lists, g, lambda u, i: i not in self.train[u]) for g in groups]

    def opportunity(self, groups):
        return [self.rate(self.judged, g, lambda u, i: i in self.relevant[u]) for g in groups]

    def entropy(self):
        count = Counter(item for row in self.lists.values() for item in row)
        bits = {item: -math.log2(n / count.total()) for item, n in count.items()}
        return self.mean(lambda _, row: statistics.fmean(bits[i] for i in row), self.lists)

    def item_mad(self, clusters, value):
        of_items = {}
        for user, row in self.judged.items():
            for item, score in row.items():
                gain = value(score) if item in self.relevant[user] else 0
                of_items.setdefault(item, []).append(gain)
        of_clusters = {}
        for item, gains in of_items.items():
            of_clusters.setdefault(clusters[item], []).append(statistics.fmean(gains))
        return mean_of_pairs(of_clusters)

    def user_mad(self, groups):
        by_group = {}
        for user, row in self.judged.items():
            by_group.setdefault(groups[user], []).append(statistics.fmean(row.values()))
        return mean_of_pairs(by_group)

    def values(self, groups, clusters):
        head_tail = [set(self.items) - self.tail, self.tail]
        clustered = [{i for i in self.items if clusters[i] == c} for c in set(clusters.values())]
        size, count = self.popularity.total(), len(self.train)
        in_tail = {user: len(self.tail & row.keys()) for user, row in self.lists.items()}
        hits = {user: len(self.relevant[user] & row.keys()) for user, row in self.judged.items()}
        return {
            "ItemCoverage": len({item for row in self.lists.values() for item in row}),
            "UserCoverage": len(self.lists),
            "UserCoverageAtN": sum(len(row) == self.k for row in self.lists.values()),
            "NumRetrieved": self.mean(lambda _, row: len(row), self.judged),
            "Precision": statistics.fmean(hits.values()) / self.k,
            "EFD": self.novelty(lambda item: -math.log2(max(1, self.popularity[item]) / size)),
            "EPC": self.novelty(lambda item: 1 - self.popularity[item] / count),
            "ShannonEntropy": self.entropy(),
            "ACLT(pop_ratio=0.3)": statistics.fmean(in_tail.values()),
            "APLT(pop_ratio=0.3)": self.mean(
                lambda user, row: in_tail[user] / len(row), self.lists
            ),
            "ARP": self.mean(
                lambda _, row: statistics.fmean(self.popularity[i] for i in row), self.lists
            ),
            "PopRSP(pop_ratio=0.3)": spread(self.parity(head_tail)),
            "PopREO(pop_ratio=0.3)": spread(self.opportunity(head_tail)),
            "RSP": spread(self.parity(clustered)),
            "ItemMADRanking": self.item_mad(clusters, lambda score: 1),
            "ItemMADRating": self.item_mad(clusters, lambda score: score),
            "UserMADRating": self.user_mad(groups),
        }


def edge(relevance):
    """Lists of three items, users without a list and users without a row in the truth, of the
    embedded data set; users and items by id.
    """
    users, side = embedded.ids("user"), embedded.side_inputs()
    train = {}
    for user, item in side["train"].iter_rows():
        train.setdefault(user, []).append(item)
    lists = {
        user: {item: 90.0 - place + number / 64 for place, item in enumerate(row)}
        for number, (user, row) in enumerate(embedded.lists("short").items())
    }
    truth = {}
    for user, item, rating in embedded.truth(relevance).iter_rows():
        if users.index(user) % 10 != 7:
            truth.setdefault(user, {})[item] = rating
    # The clusters of a few genres would have no item in any list, which Elliot cannot print.
    clusters = {item: number % 3 for item, number in side["item_clusters"].items()}
    return lists, truth, train, {"user_groups": side["user_groups"], "item_clusters": clusters}


@pytest.mark.parametrize("relevance", ["binary", "liked"])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_elliot_matches_on_edge_cases(relevance, k):
    lists, truth, train, labels = edge(relevance)
    assert {len(row) for row in lists.values()} == {3, 50}
    assert truth.keys() - lists.keys() and lists.keys() - truth.keys()
    items = embedded.ids("item")
    expected = AsElliot(k, lists, truth, train, items).values(*labels.values())
    # Without masking, items of train would be candidates of RSP and PopRSP.
    result = weft.evaluate(
        lists,
        truth,
        metrics=list(expected),
        top_k=k,
        train=train,
        items=items,
        mask_seen=True,
        profile="elliot",
        **labels,
    )
    assert {name: result[f"{name}@{k}"] for name in expected} == pytest.approx(expected, rel=1e-9)
    assert 0 < expected["APLT(pop_ratio=0.3)"] < 1
    counted = ("evaluated_users", "users_without_relevant")
    assert result.counts["users"] == sum(result.counts[name] for name in counted)


@pytest.mark.parametrize("profile", [name for name, p in PROFILES.items() if p.settings])
def test_profiles_skip_users_that_the_tool_does_not_see(profile):
    """Lists of users without a test row, and test rows of users without a list, change nothing
    where the tool never sees them.
    """
    lists, truth, train, labels = edge("liked")
    side = {"train": train, "items": embedded.ids("item"), **labels}
    side |= {"item_features": embedded.side_inputs()["item_features"], "top_k": 5}
    metrics = [
        name
        for name in covered(profile)
        if find_metric(parse_name(name).name) not in (weft.metrics.AUC, weft.metrics.GAUC)
    ]
    how = {"metrics": metrics, "profile": profile, **side}
    result = weft.evaluate(lists, truth, **how)
    settings = PROFILES[profile].settings
    if settings.get("extra_users") == "skip":
        lists = {user: row for user, row in lists.items() if user in truth}
        same(result, weft.evaluate(lists, truth, **how))
    if settings.get("missing_lists") == "skip":
        same(result, weft.evaluate(lists, {u: r for u, r in truth.items() if u in lists}, **how))
    assert result.counts["users_without_truth"] == 10


def test_rectools_covers_users_of_the_truth():
    """RecTools 0.19.0 prints 0.75 for these lists, and 3 for the catalogue of their items."""
    lists = {1: [10, 11], 2: [11], 3: [12], 5: [10]}
    truth = {1: [10], 2: [10], 4: [11], 5: [12]}
    result = weft.evaluate(
        lists, truth, metrics=["UserCoverage@2", "ItemCoverage@2"], profile="rectools"
    )
    assert (result["UserCoverage@2"], result["ItemCoverage@2"]) == (0.75, 3)


JUDGED_RUN = {"a": {"x": 3.0, "y": 2.0, "w": 1.0}, "b": {"y": 1.0}, "d": {"x": 1.0}}


@pytest.mark.parametrize("form", ["dict", "file"])
def test_negative_judgements_are_not_relevant(form, tmp_path):
    """pytrec_eval 0.5.11 and ranx 0.3.21 print these numbers."""
    judgements = {"a": {"x": 1, "y": -1, "z": 2}, "b": {"x": 1}, "c": {"y": 0}}
    truth = judgements
    if form == "file":
        truth = tmp_path / "judgements.qrels"
        rows = [(u, i, r) for u, row in judgements.items() for i, r in row.items()]
        truth.write_text("".join(f"{user} 0 {item} {rating}\n" for user, item, rating in rows))
    expected = {
        "nDCG@5": 0.38009376671593426,
        "Precision@5": 0.2,
        "Recall@5": 0.5,
        "MAP@5": 0.5,
        "Precision(denominator=list)@5": 1 / 3,
        "F1(metric_name_1=Precision(denominator=list))@5": 0.4,
    }  # of "a"; 0 for the others
    for profile, users in (("trec_eval", 2), ("ranx", 3)):
        result = weft.evaluate(JUDGED_RUN, truth, metrics=list(expected), profile=profile)
        assert {name: result[name] * users for name in expected} == pytest.approx(expected)
        assert result.settings["relevance_threshold"] == 1
        report = weft.check(JUDGED_RUN, truth, metrics="nDCG@5", profile=profile)
        assert "negative-ratings" not in {finding.kind for finding in report.findings}
    if form == "dict":
        with pytest.raises(InputError, match="negative ratings"):
            weft.evaluate(JUDGED_RUN, truth, metrics="nDCG@5")


@needs_golden
@pytest.mark.parametrize("tool", ["ranx", "sklearn"])
def test_ties_of_tools_lie_between_the_bounds(tool):
    """ranx ranks ties, and scikit-learn with `ignore_ties`, as their sort leaves them: no worse and
    no better than any order.
    """
    if tool == "ranx":
        values, found = stored(f"ml100k_tlo/pop/{TIED[0]}")["ranx"], listed("pop")
        cut = {
            "precision": "Precision",
            "recall": "Recall",
            "hit_rate": "HitRate",
            "map": "MAP",
            "ndcg": "nDCG",
        }
        names = {f"{theirs}@{k}": f"{ours}@{k}" for theirs, ours in cut.items() for k in CUTOFFS}
        names |= {"ndcg": "nDCG(ideal=full)@100", "map": "MAP@100", "mrr": "MRR@100"}
        assert names.keys() == values.keys()
    else:
        values, found = stored("ml100k_tlo/pop/bin")["sklearn"], scores("pop", "raw")
        names = {f"ndcg_score(ignore_ties)@{k}|raw": f"nDCG@{k}" for k in CUTOFFS}
    assert values.keys() >= names.keys()
    given = {
        "metrics": list(names.values()),
        "users": ids("users"),
        "items": ids("items"),
        "profile": tool,
    }
    low, high = (
        weft.evaluate(found, truth(BIN), ties=ties, **given)
        for ties in ("pessimistic", "optimistic")
    )
    rounding = 1e-12
    for theirs, ours in names.items():
        assert low[ours] - rounding <= values[theirs] <= high[ours] + rounding
    assert any(low[ours] < high[ours] for ours in names.values())


# --------------------------------------------------------------------------------------------------

USERS, ITEMS, K = 12, 9, 3
_RANDOM = np.random.default_rng(7)
SCORES = np.round(_RANDOM.random((USERS, ITEMS)), 1)  # some are equal
TRUTH = _RANDOM.integers(1, 5, (USERS, ITEMS)) * (_RANDOM.random((USERS, ITEMS)) < 0.3)
TRUTH[4] = 0  # nothing is relevant
DATA_OF_ALL = {
    "train": (_RANDOM.random((USERS, ITEMS)) < 0.2).astype(int),
    "user_groups": ["x", "y"] * (USERS // 2),
    "item_clusters": ["a", "b", "c"] * (ITEMS // 3),
    "item_features": [["red"], ["blue"], ["red", "green"]] * (ITEMS // 3),
    "inputs": {
        "item_vectors": _RANDOM.random((ITEMS, 2)),
        "reference": {user: [0, 1, 2] for user in range(USERS)},
    },
}
POINTS = {"EucDistance": "utopia_points=[1, 1]", "Hypervolume": "nadir_points=[0, 0]"}
BUILT_IN_NAMES = {parse_name(example).name for example in (*BUILT_IN, *OF_REFERENCE)}


def plain(metric):
    """The metric's name with no more than it must have."""
    return f"{metric}({POINT}, {POINTS[metric]})" if metric in POINTS else metric


def covered(profile):
    return [plain(metric) for metric in PROFILES[profile].covers]


def small(metrics, **how):
    return weft.evaluate(SCORES, TRUTH, metrics=metrics, top_k=K, **DATA_OF_ALL, **how)


def same(one, other):
    assert list(one) == list(other)
    assert {name: one[name] for name in one} == pytest.approx(
        {name: other[name] for name in other}, rel=1e-12, nan_ok=True
    )


def full_name(metric, profile):
    """The name under which a result holds what was asked for."""
    (name,) = {value.metric for value in small([metric], profile=profile).entries}
    return name


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles_equal_their_parameters(profile):
    tool = PROFILES[profile]
    spelled = []
    for metric, params in tool.covers.items():
        spec = parse_name(
            plain(metric).replace(
                "nDCG,", f"nDCG(gain={tool.covers['nDCG'].get('gain', 'exponential')}),"
            )
        )
        spelled.append(MetricSpec(spec.name, (*spec.params, *params.items())))
    settings = {name: value for name, value in tool.settings.items() if name != "missing_lists"}
    same(small(covered(profile), profile=profile), small(spelled, **settings))


@pytest.mark.parametrize("profile", PROFILES)
def test_evaluator_takes_a_profile(profile):
    whole = small(covered(profile), profile=profile)
    how = {"num_users": USERS, "num_items": ITEMS, **DATA_OF_ALL}
    evaluator = weft.Evaluator(covered(profile), K, profile=profile, **how)
    for rows in (range(5), range(5, USERS)):
        evaluator.update(
            torch.as_tensor(SCORES[rows]),
            torch.as_tensor(TRUTH[rows]),
            user_indices=torch.tensor(rows),
        )
    result = evaluator.compute()
    same(whole, result)
    recorded = ("metrics", "ties", "empty_users", "profile")
    assert {name: result.settings[name] for name in recorded} == {
        name: whole.settings[name] for name in recorded
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_settings_record_the_profile(profile):
    result = small("nDCG", profile=profile.upper())
    assert result.settings["profile"] == profile
    settings = {**SETTING_DEFAULTS, **PROFILES[profile].settings}
    assert {name: result.settings.get(name) for name in settings} == settings
    gain = PROFILES[profile].covers["nDCG"].get("gain", "exponential")
    assert result.settings["metrics"] == list(result)
    assert parse_name(result.settings["metrics"][0]).params[:1] == (
        (("gain", gain),) if gain != "exponential" else ()
    )


def test_no_profile_by_default():
    result = small("nDCG")
    assert result.settings["profile"] is None
    assert list(result) == [f"nDCG@{K}"]
    assert {name: result.settings.get(name) for name in SETTING_DEFAULTS} == SETTING_DEFAULTS


@pytest.mark.parametrize("profile", PROFILES)
def test_finds_values_by_plain_names(profile, tmp_path):
    result = small(covered(profile), profile=profile)
    loaded = weft.load_result(result.save(tmp_path / "result.json"))
    assert loaded.settings["profile"] == profile
    for value in result.entries:
        asked = plain(parse_name(value.metric).name) + (f"@{value.k}" if value.k else "")
        for name in (asked + format_labels(value.cell), asked.lower() + format_labels(value.cell)):
            assert name in result and name in loaded
            assert result.entry(name) is value
            assert loaded.entry(name).name == value.name
            assert loaded[name] == pytest.approx(value.value, rel=0, abs=0, nan_ok=True)
    assert "nDCG@7" not in loaded
    with pytest.raises(KeyError, match="nDCG@7"):
        loaded["nDCG@7"]


def test_finds_values_by_full_names():
    result = small(["nDCG", "REO"], profile="warprec")
    assert result[f"nDCG@{K}"] == result[f"ndcg(gain=exponential_shifted)@{K}"]
    assert f"nDCG(gain=linear)@{K}" not in result
    assert result[f"reo@{K}[a]"] == result[f"REO@{K}[a]"]


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_rejects_excluded_metrics_with_the_reason(profile):
    tool = PROFILES[profile]
    assert not tool.excluded.keys() & tool.covers.keys()
    assert tool.excluded.keys() | tool.covers.keys() <= BUILT_IN_NAMES
    for metric, reason in tool.excluded.items():
        for given in (
            metric,
            f"{metric.upper()}@{K}",
            getattr(weft.metrics, metric),
            MetricSpec(metric),
        ):
            with pytest.raises(
                SettingError, match=re.escape(f"profile={profile!r} excludes {metric}: {reason}.")
            ):
                small([given], profile=profile)
        with pytest.raises(SettingError, match=re.escape(reason)):
            weft.Evaluator([metric], K, profile=profile)
    for metric in BUILT_IN_NAMES - tool.excluded.keys() - tool.covers.keys():
        with pytest.raises(
            SettingError,
            match=f"does not cover {metric}. It covers: "
            f"{re.escape(', '.join(sorted(tool.covers)))}",
        ):
            small([plain(metric)], profile=profile)


def test_rejects_excluded_metrics_inside_composites():
    with pytest.raises(
        SettingError, match=r"excludes MAP: Elliot's MAP is the mean of Precision@1"
    ):
        small("F1(metric_name_2=MAP)", profile="elliot")
    with pytest.raises(SettingError, match=r"excludes LAUC"):
        small(
            "EucDistance(metric_names=[nDCG, F1(metric_1=LAUC)], utopia_points=[1, 1])",
            profile="warprec",
        )
    with pytest.raises(SettingError, match="does not cover EPC"):
        small("F1(metric_name_1=EPC)", profile="ranx")


def test_rejects_unknown_profiles_with_a_suggestion():
    for run_it in (
        lambda name: small("nDCG", profile=name),
        lambda name: weft.Evaluator("nDCG", K, profile=name),
    ):
        with pytest.raises(
            SettingError,
            match=(
                r"profile='warp_rec' is not known\..*'warprec', 'elliot'.*"
                r"Did you mean 'warprec'\?"
            ),
        ):
            run_it("warp_rec")
        with pytest.raises(SettingError, match="profile='' is not known"):
            run_it("")
        with pytest.raises(SettingError, match="profile=3 is not known"):
            run_it(3)


def test_definitions_of_each_tool():
    for metric in BUILT_IN_NAMES:
        found = tool_definitions(metric.lower())
        assert found.keys() == {
            tool
            for tool, profile in PROFILES.items()
            if metric in profile.covers.keys() | profile.excluded.keys()
        }
        for tool, meant in found.items():
            if metric in PROFILES[tool].excluded:
                assert meant == PROFILES[tool].excluded[metric]
            else:
                assert (meant.name, dict(meant.params)) == (metric, PROFILES[tool].covers[metric])
    assert tool_definitions("MAP")["elliot"].startswith("Elliot's MAP is the mean of Precision@1")
    assert str(tool_definitions("MAP")["torchmetrics"]) == "MAP(normalizer=hits)"


def test_rejects_excluded_metrics_before_reading():
    with pytest.raises(SettingError, match="excludes MAP"):
        weft.evaluate(
            lambda users: pytest.fail("was asked for scores"),
            TRUTH,
            metrics="MAP@2",
            profile="elliot",
        )


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "metric", "parameter"),
    [each for each in PARAMETERS if each[1:] != ("ERR", "max_grade")],  # which has no default
)
def test_parameters_in_names_override_the_profile(tool, metric, parameter):
    default = metric_parameters(find_metric(metric))[parameter].default
    spec = parse_name(plain(metric))
    for key in (parameter, parameter.upper()):
        said = dict(
            parse_name(full_name(MetricSpec(metric, (*spec.params, (key, default))), tool)).params
        )
        assert said.get(parameter, default) == default
        # The rest is still the profile's.
        others = {name for name in PROFILES[tool].covers[metric] if name != parameter}
        assert others <= said.keys() or metric in (
            "EFD",
            "EPC",
        )  # which look at no gain, if relevance is not graded


@pytest.mark.parametrize(
    ("given", "profile", "wanted"),
    [
        ("nDCG(gain=binary)", "warprec", "nDCG(gain=binary)"),
        ("nDCG(gain=exponential)", "warprec", "nDCG(gain=exponential)"),
        ("ndcg(GAIN=binary)", "trec_eval", "nDCG(gain=binary)"),
        ("nDCG(ideal=cut)", "rectools", "nDCG(gain=binary, ideal=cut)"),
        ("nDCG(gain=linear)", "rectools", "nDCG(gain=linear, ideal=k)"),
        ("F1(metric_1=Precision)", "trec_eval", "F1(metric_name_1=Precision)"),
        (
            "F1(metric_name_1=nDCG(gain=exponential))",
            "ranx",
            "F1(metric_name_1=nDCG(gain=exponential))",
        ),
        ("F1(metric_1=nDCG)", "trec_eval", "F1(metric_name_1=nDCG(gain=linear))"),
        ("F1(beta=2)", "trec_eval", "F1(metric_name_1=Precision(denominator=list), beta=2.0)"),
        ("EFD(relevance=discounted)", "warprec", "EFD(relevance=graded, gain=exponential_shifted)"),
        (
            "EPC(relevance=graded, gain=linear)",
            "warprec",
            "EPC(relevance=graded, gain=linear, unseen=1)",
        ),
        ("ARP(unseen=2)", "warprec", "ARP(users=evaluated, unseen=2)"),
        # Metrics inside others
        (
            "F1(metric_name_1=nDCG, metric_name_2=MAP)",
            "ranx",
            "F1(metric_name_1=nDCG(gain=linear), metric_name_2=MAP(normalizer=relevant))",
        ),
        ("F1(METRIC_NAME_1=nDCG(gain=binary))", "ranx", "F1(metric_name_1=nDCG(gain=binary))"),
        (
            f"EucDistance({POINT}, utopia_points=[1, 1])",
            "warprec",
            "EucDistance(metric_names=[nDCG(gain=exponential_shifted), Recall], utopia_points=[1, "
            "1], scope=users)",
        ),
        (
            f"EucDistance({POINT}, utopia_points=[1, 1], scope=system)",
            "warprec",
            "EucDistance(metric_names=[nDCG(gain=exponential_shifted), Recall], utopia_points=[1, "
            "1], scope=system)",
        ),
        (
            "Hypervolume(metric_names=[nDCG(gain=linear), F1(metric_1=nDCG(ideal=k))], "
            "nadir_points=[0, 0], scope=system)",
            "warprec",
            "Hypervolume(metric_names=[nDCG(gain=linear), "
            "F1(metric_name_1=nDCG(gain=exponential_shifted, ideal=k))], "
            "nadir_points=[0, 0], scope=system)",
        ),
    ],
)
def test_names_under_a_profile(given, profile, wanted):
    assert full_name(given, profile) == wanted
    settings = {
        name: value for name, value in PROFILES[profile].settings.items() if name != "missing_lists"
    }
    mine, spelled = small(given, profile=profile), small(wanted, **settings)
    assert mine[f"{given}@{K}"] == mine[f"{wanted}@{K}"] == spelled[f"{wanted}@{K}"]


def test_variants_beside_the_profile_have_their_own_names(tmp_path):
    """`nDCG` is the tool's, whatever else was asked for, in any order."""
    alone = {name: small(name, profile="ranx") for name in ("nDCG", "nDCG(gain=exponential)")}
    for names in (list(alone), list(alone)[::-1]):
        result = small(names, profile="ranx", per_user=True)
        assert set(result) == {f"nDCG(gain=linear)@{K}", f"nDCG(gain=exponential)@{K}"}
        assert result[f"nDCG@{K}"] == result[f"ndcg@{K}"] == alone["nDCG"][f"nDCG@{K}"]
        for name in ("nDCG(gain=exponential)", "NDCG(Gain=exponential)"):
            found = result[f"{name}@{K}"]
            assert found == alone["nDCG(gain=exponential)"][f"nDCG(gain=exponential)@{K}"]
            assert found != result[f"nDCG@{K}"]
        assert set(result.per_user.columns) == {"user", *result}
        assert small(result.settings["metrics"], profile="ranx")[f"nDCG@{K}"] == result[f"nDCG@{K}"]
    how = {"num_users": USERS, "num_items": ITEMS, "profile": "ranx"}
    evaluator = weft.Evaluator(["nDCG(gain=exponential)", "nDCG", weft.metrics.GAUC()], K, **how)
    evaluator.update(torch.as_tensor(SCORES), torch.as_tensor(TRUTH))
    loaded = weft.load_state(weft.save_state(evaluator, tmp_path / "ranx.state"))
    same(loaded.compute(), evaluator.compute())
    assert f"nDCG(gain=exponential)@{K}" in list(loaded.compute())


def test_profiles_apply_to_classes_and_specs_not_objects():
    for given in (weft.metrics.nDCG, MetricSpec("nDCG"), parse_name("ndcg")):
        assert full_name(given, "ranx") == "nDCG(gain=linear)"
    assert full_name(weft.metrics.nDCG(k=K), "ranx") == "nDCG(gain=exponential)"
    assert full_name(weft.metrics.nDCG(k=K, gain="binary"), "ranx") == "nDCG(gain=binary)"


# Scores for "a", "b" and "d"; "b" has nothing relevant, "c" no scores, "d" is not in the truth.
NAMED = {
    "source": np.array([[0.5, 0.5, 0.1], [0.9, 0.5, 0.1], [0.9, 0.5, 0.1]]),
    "truth": {"a": {"j": 2}, "b": {"i": 0}, "c": {"i": 1}},
    "users": ["a", "b", "d"],
    "items": ["i", "j", "l"],
    "metrics": ["nDCG", "HitRate"],
    "top_k": 1,
}


def hit_rate(**how):
    result = weft.evaluate(
        NAMED["source"],
        NAMED["truth"],
        **{name: NAMED[name] for name in NAMED if name not in ("source", "truth")},
        **how,
    )
    entry = result.entry("HitRate@1")
    settings = {name: result.settings.get(name) for name in SETTING_DEFAULTS}
    return entry.value, entry.users, settings


@pytest.mark.parametrize(
    ("profile", "value", "users"),
    [
        # "a" misses at index 1, or has a half of each of its tied items; "b" and "c" count 0 or not
        # at all.
        ("warprec", 0.0, 2),
        ("elliot", 0.0, 1),
        ("recbole", 0.0, 2),
        ("rectools", 0.0, 2),
        ("ranx", 0.0, 3),
        ("trec_eval", 0.0, 2),
        ("torchmetrics", 0.5 / 3, 3),
    ],
)
def test_profiles_set_which_users_count(profile, value, users):
    assert hit_rate(profile=profile) == (
        pytest.approx(value),
        users,
        {**SETTING_DEFAULTS, **PROFILES[profile].settings},
    )


@pytest.mark.parametrize("profile", ["trec_eval", "torchmetrics", "warprec"])
def test_given_settings_override_the_profile(profile):
    says = {**SETTING_DEFAULTS, **PROFILES[profile].settings}
    for empty_users in ("zero", "skip"):
        for missing_lists in ("zero", "skip"):
            for ties in ("index", "expected", "optimistic"):
                given = {"empty_users": empty_users, "missing_lists": missing_lists, "ties": ties}
                users = 1 + (empty_users == "zero") + (missing_lists == "zero")
                value = {"index": 0.0, "expected": 0.5, "optimistic": 1.0}[ties] / users
                expected = {**says, **given}
                assert hit_rate(profile=profile, **given) == (pytest.approx(value), users, expected)
    # One alone leaves the others to the profile.
    for name, value in (
        ("empty_users", "skip"),
        ("empty_users", "zero"),
        ("missing_lists", "skip"),
        ("ties", "pessimistic"),
    ):
        assert hit_rate(profile=profile, **{name: value})[2] == {**says, name: value}


def test_given_settings_of_an_evaluator_override_the_profile():
    evaluator = weft.Evaluator(["nDCG"], 1, profile="sklearn", ties="index", empty_users="skip")
    evaluator.update(torch.tensor([[0.5, 0.5], [0.9, 0.1]]), torch.tensor([[0, 1], [0, 0]]))
    result = evaluator.compute()
    assert (result["nDCG@1"], result.entry("nDCG@1").users) == (0.0, 1)
    assert (result.settings["ties"], result.settings["empty_users"]) == ("index", "skip")


# --------------------------------------------------------------------------------------------------


class Depth(weft.UserAverageTopKMetric):
    """The cut-off, times a parameter that has the name of one that profiles set."""

    def __init__(self, k, *, gain="exponential", **settings):
        super().__init__(k, **settings)
        self.gain = gain

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return torch.full(
            (len(preds),),
            self.k * {"exponential": 1.0, "linear": 2.0}[self.gain],
            dtype=torch.float64,
        )


class Bolder(weft.metrics.nDCG):
    """Derived from a metric that profiles change."""


@pytest.fixture
def own_metrics(monkeypatch):
    monkeypatch.setattr("weft.metrics.registry._classes", dict(weft.metrics.registry._classes))
    weft.register(Depth)
    weft.register(Bolder)


@pytest.mark.usefixtures("own_metrics")
@pytest.mark.parametrize("profile", PROFILES)
def test_profiles_do_not_change_custom_metrics(profile):
    result = small(
        ["Depth", "Depth(gain=linear)", Bolder, "nDCG"],
        profile=profile,
        empty_users="skip",
        ties="index",
    )
    assert (result[f"Depth@{K}"], result[f"Depth(gain=linear)@{K}"]) == (K, 2 * K)
    assert result[f"Bolder@{K}"] == pytest.approx(small("nDCG")[f"nDCG@{K}"], rel=1e-12)
    names = [value.metric for value in result.entries]
    assert names[:3] == ["Depth", "Depth(gain=linear)", "Bolder"]


@pytest.mark.usefixtures("own_metrics")
def test_profiles_do_not_change_custom_metrics_inside_composites():
    assert (
        full_name("F1(metric_name_1=Bolder, metric_name_2=nDCG)", "ranx")
        == "F1(metric_name_1=Bolder, metric_name_2=nDCG(gain=linear))"
    )


def test_unregistered_classes_under_a_profile():
    assert small([Depth], profile="ranx")[f"Depth@{K}"] == pytest.approx(
        small([Depth], empty_users="zero")[f"Depth@{K}"]
    )


def test_rejects_classes_with_a_built_in_name():
    namesake = type("nDCG", (Depth,), {})
    for how in ({}, {"profile": "ranx"}):
        with pytest.raises(SettingError, match="has the name of the registered metric nDCG"):
            small([namesake], **how)


def test_scores_cast_to_float32_have_the_ties_of_trec_eval():
    # trec_eval ties these two scores, and ranks the higher id first.
    lists = pl.DataFrame({"user": ["q", "q"], "item": ["d1", "d2"], "score": [0.5 + 1e-9, 0.5]})
    settings = {"metrics": "MRR@2", "profile": "trec_eval"}
    assert weft.evaluate(lists, {"q": ["d1"]}, **settings)["MRR@2"] == 1.0
    cast = lists.with_columns(pl.col("score").cast(pl.Float32))
    assert weft.evaluate(cast, {"q": ["d1"]}, **settings)["MRR@2"] == 0.5
    assert any("float32" in note for note in PROFILES["trec_eval"].notes)
