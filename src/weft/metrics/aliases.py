"""Names under which people look for metrics that have another name here.

Aliases are no names of metrics: they are found by `weft metrics` and suggested in errors, because
most of them mean several definitions. Importing this module does not load torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# Aliases as people write them; a lookup ignores case, spaces, "_" and "-". Metrics that are not
# registered are left out of answers.
_ALIASES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("HR", "Hit", "hits", "Success", "hit ratio"), ("HitRate",)),
    **dict.fromkeys(("P", "Prec", "SetP", "TopHit"), ("Precision",)),
    **dict.fromkeys(("R", "SetR", "sensitivity", "TPR", "calibrated recall"), ("Recall",)),
    **dict.fromkeys(("AP", "average precision", "mean average precision"), ("MAP",)),
    **dict.fromkeys(("RR", "RecipRank", "reciprocal rank", "mean reciprocal rank"), ("MRR",)),
    **dict.fromkeys(("F-measure", "F-score", "F-beta", "F1Beta", "SetF", "DSC"), ("F1",)),
    **dict.fromkeys(("AUROC", "ROC AUC"), ("AUC", "GAUC", "LAUC")),
    "Rprec": ("RPrecision",),
    **dict.fromkeys(("normalized DCG", "NDCG Burges", "SDCG"), ("nDCG",)),
    **dict.fromkeys(("MR", "average rank", "rank"), ("MeanRank", "PercentileRank", "AMRI")),
    **dict.fromkeys(("MPR", "percentile ranking"), ("PercentileRank",)),
    **dict.fromkeys(("11pt_avg", "iprec_at_recall", "interpolated precision"), ("IPrec",)),
    **dict.fromkeys(("nERR_IA", "intent-aware ERR"), ("ERR_IA",)),
    **dict.fromkeys(("StRecall", "subtopic recall"), ("SRecall",)),
    **dict.fromkeys(("BCE", "cross entropy", "binary cross entropy", "NLL"), ("LogLoss",)),
    "normalized entropy": ("NE",),
    **dict.fromkeys(("calibration error", "reliability"), ("ECE", "ScoreCalibration")),
    **dict.fromkeys(("R squared", "RSQ"), ("R2",)),
    "exp_var": ("ExplainedVariance",),
    "correlation": ("Pearson", "Spearman", "Kendall"),
    **dict.fromkeys(("tau", "Kendall tau"), ("Kendall",)),
    **dict.fromkeys(("coverage", "catalog coverage"), ("ItemCoverage", "UserCoverage")),
    **dict.fromkeys(("CoveredUsers", "SufficientReco"), ("UserCoverage", "UserCoverageAtN")),
    **dict.fromkeys(("novelty", "MSS"), ("EPC", "EFD", "MIUF", "SelfInformation", "Surprisal")),
    **dict.fromkeys(("new items", "unseen items"), ("NewToUser",)),
    **dict.fromkeys(
        ("diversity", "intra-list diversity"),
        ("ILD", "Personalization", "CategoryDiversity", "Gini", "ShannonEntropy", "SRecall"),
    ),
    "categorical diversity": ("CategoryDiversity",),
    "rank-biased entropy": ("CategoryEntropy",),
    **dict.fromkeys(("Gini index", "Gini coefficient", "ListGini", "ExposureGini"), ("Gini",)),
    **dict.fromkeys(("entropy", "Shannon", "distributional coverage"), ("ShannonEntropy",)),
    **dict.fromkeys(
        ("popularity", "popularity bias", "average popularity", "AvgRecPopularity"),
        ("ARP", "APLT", "ACLT", "PopularityQuantile"),
    ),
    "MeanPopRank": ("PopularityQuantile",),
    **dict.fromkeys(("long tail", "tail", "tail percentage"), ("APLT", "ACLT")),
    "IPS hit rate": ("IPSRecall", "SNIPSRecall"),
    "fairness": ("REO", "RSP", "UserMADRanking", "ItemMADRanking", "BiasDisparityBD"),
}
# Aliases with a definition other than the default one of the metric, or of a wider meaning.
_NOT_SYNONYMS = frozenset(
    {"SetP", "SetF", "SDCG", "calibrated recall", "rank-biased entropy", "ListGini", "ExposureGini"}
    | {"distributional coverage", "new items", "unseen items"}
)
# What tools put before and after such names: LinkPredMAP (PyG), RetrievalMAP (torchmetrics),
# map_at_k (recommenders), PrecisionTopK (evidently), NDCGK (RecPack), ndcg_score (scikit-learn),
# map_cut (trec_eval).
_PREFIXES = ("linkpred", "retrieval", "mean")
_SUFFIXES = ("atk", "topk", "cut", "score", "metric", "k")


def _fold(name: str) -> str:
    """Return a name in lower case, without spaces, "_" and "-"."""
    return "".join(name.casefold().split()).replace("_", "").replace("-", "")


_BY_FOLDED = {_fold(alias): metrics for alias, metrics in _ALIASES.items()}


def _readings(name: str) -> Iterator[str]:
    """Yield the folded name, then the name without the affixes that tools add to it."""
    text = _fold(name)
    yield text
    starts = [text, *(text.removeprefix(each) for each in _PREFIXES)]
    yield from starts[1:]
    for start in starts:
        yield from (start.removesuffix(each) for each in _SUFFIXES)


def aliased_metrics(name: str, known: Iterable[str]) -> list[str]:
    """Return the known metrics of an alias, none if it is no alias."""
    registered = {metric: _fold(metric) for metric in known}
    for text in _readings(name):
        found = [metric for metric in _BY_FOLDED.get(text, ()) if metric in registered]
        if found := found or [metric for metric, folded in registered.items() if folded == text]:
            return found
    return []


def metric_aliases(metric: str) -> tuple[list[str], list[str]]:
    """Return the aliases that are other names of the metric, and those that only lead to it."""
    matches = {alias: names for alias, names in _ALIASES.items() if metric in names}
    own = [
        alias for alias, names in matches.items() if len(names) == 1 and alias not in _NOT_SYNONYMS
    ]
    return own, [alias for alias in matches if alias not in own]


def suggest_metrics(name: str, known: Iterable[str]) -> str:
    """Return `" Did you mean 'HitRate'?"` for an alias, else an empty string."""
    metrics = aliased_metrics(name, known)
    return f" Did you mean {' or '.join(map(repr, metrics))}?" if metrics else ""
