"""Names under which people look for metrics that have another name here.

Aliases are no names of metrics: they are found by `weft metrics` and suggested in errors, because
most of them mean several definitions. Importing this module does not load torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# By the alias in lower case, without "_" and "-"; metrics that are not registered are left out of
# answers.
_ALIASES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("hr", "hit", "hits", "success", "hitratio"), ("HitRate",)),
    **dict.fromkeys(("p", "prec", "setp", "tophit"), ("Precision",)),
    **dict.fromkeys(("r", "setr", "sensitivity", "tpr", "calibratedrecall"), ("Recall",)),
    **dict.fromkeys(("ap", "averageprecision", "meanaverageprecision"), ("MAP",)),
    **dict.fromkeys(("rr", "reciprank", "reciprocalrank", "meanreciprocalrank"), ("MRR",)),
    **dict.fromkeys(("fmeasure", "fscore", "fbeta", "f1beta", "setf", "dsc"), ("F1",)),
    **dict.fromkeys(("auroc", "rocauc"), ("AUC", "GAUC", "LAUC")),
    "rprec": ("RPrecision",),
    **dict.fromkeys(("normalizeddcg", "ndcgburges", "sdcg"), ("nDCG",)),
    **dict.fromkeys(("mr", "averagerank", "rank"), ("MeanRank", "PercentileRank", "AMRI")),
    **dict.fromkeys(("mpr", "percentileranking"), ("PercentileRank",)),
    **dict.fromkeys(("11ptavg", "iprecatrecall", "interpolatedprecision"), ("IPrec",)),
    **dict.fromkeys(("nerria", "intentawareerr"), ("ERR_IA",)),
    **dict.fromkeys(("strecall", "subtopicrecall"), ("SRecall",)),
    **dict.fromkeys(("bce", "crossentropy", "binarycrossentropy", "nll"), ("LogLoss",)),
    "normalizedentropy": ("NE",),
    **dict.fromkeys(("calibrationerror", "reliability"), ("ECE", "ScoreCalibration")),
    **dict.fromkeys(("rsquared", "rsq"), ("R2",)),
    "expvar": ("ExplainedVariance",),
    "correlation": ("Pearson", "Spearman", "Kendall"),
    **dict.fromkeys(("tau", "kendalltau"), ("Kendall",)),
    **dict.fromkeys(("coverage", "catalogcoverage"), ("ItemCoverage", "UserCoverage")),
    **dict.fromkeys(("coveredusers", "sufficientreco"), ("UserCoverage", "UserCoverageAtN")),
    **dict.fromkeys(("novelty", "mss"), ("EPC", "EFD", "MIUF", "SelfInformation", "Surprisal")),
    **dict.fromkeys(("newitems", "unseenitems"), ("NewToUser",)),
    **dict.fromkeys(
        ("diversity", "intralistdiversity"),
        ("ILD", "Personalization", "CategoryDiversity", "Gini", "ShannonEntropy", "SRecall"),
    ),
    "categoricaldiversity": ("CategoryDiversity",),
    "rankbiasedentropy": ("CategoryEntropy",),
    **dict.fromkeys(("giniindex", "ginicoefficient", "listgini", "exposuregini"), ("Gini",)),
    **dict.fromkeys(("entropy", "shannon", "distributionalcoverage"), ("ShannonEntropy",)),
    **dict.fromkeys(
        ("popularity", "popularitybias", "averagepopularity", "avgrecpopularity"),
        ("ARP", "APLT", "ACLT", "PopularityQuantile"),
    ),
    "meanpoprank": ("PopularityQuantile",),
    **dict.fromkeys(("longtail", "tail", "tailpercentage"), ("APLT", "ACLT")),
    "ipshitrate": ("IPSRecall", "SNIPSRecall"),
    "fairness": ("REO", "RSP", "UserMADRanking", "ItemMADRanking", "BiasDisparityBD"),
}
# What tools put before and after such names: LinkPredMAP (PyG), RetrievalMAP (torchmetrics),
# map_at_k (recommenders), PrecisionTopK (evidently), NDCGK (RecPack), ndcg_score (scikit-learn),
# map_cut (trec_eval).
_PREFIXES = ("linkpred", "retrieval", "mean")
_SUFFIXES = ("atk", "topk", "cut", "score", "metric", "k")


def _readings(name: str) -> Iterator[str]:
    """Yield a name in lower case without "_" and "-", then without what tools put around it."""
    text = name.casefold().replace("_", "").replace("-", "")
    yield text
    starts = [text, *(text.removeprefix(each) for each in _PREFIXES)]
    yield from starts[1:]
    for start in starts:
        yield from (start.removesuffix(each) for each in _SUFFIXES)


def aliased_metrics(name: str, known: Iterable[str]) -> list[str]:
    """Return the known metrics of an alias, none if it is no alias."""
    registered = {metric: metric.casefold().replace("_", "") for metric in known}
    for text in _readings(name):
        found = [metric for metric in _ALIASES.get(text, ()) if metric in registered]
        if found := found or [metric for metric, folded in registered.items() if folded == text]:
            return found
    return []


def suggest_metrics(name: str, known: Iterable[str]) -> str:
    """Return `" Did you mean 'HitRate'?"` for an alias, else an empty string."""
    metrics = aliased_metrics(name, known)
    return f" Did you mean {' or '.join(map(repr, metrics))}?" if metrics else ""
