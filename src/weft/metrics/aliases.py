"""Names under which people look for metrics that have another name here.

Aliases are no names of metrics: they are found by `weft metrics` and suggested in errors, because
most of them mean several definitions. Importing this module does not load torch.
"""

from __future__ import annotations

from collections.abc import Iterable

# By the folded alias; metrics that are not registered are left out of answers.
_ALIASES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("hr", "hit", "hits", "success", "hitratio"), ("HitRate",)),
    **dict.fromkeys(("p", "prec", "tophit"), ("Precision",)),
    **dict.fromkeys(("r", "sensitivity", "tpr"), ("Recall",)),
    **dict.fromkeys(("ap", "averageprecision", "meanaverageprecision"), ("MAP",)),
    **dict.fromkeys(("rr", "recip_rank", "reciprocalrank", "meanreciprocalrank"), ("MRR",)),
    **dict.fromkeys(("fmeasure", "fscore", "fbeta", "dsc"), ("F1",)),
    **dict.fromkeys(("auroc", "rocauc", "roc_auc"), ("AUC", "GAUC", "LAUC")),
    **dict.fromkeys(("rprec", "r_precision"), ("RPrecision",)),
    **dict.fromkeys(("mr", "averagerank", "rank"), ("MeanRank", "PercentileRank", "AMRI")),
    "mpr": ("PercentileRank",),
    **dict.fromkeys(("bce", "crossentropy", "binarycrossentropy", "nll"), ("LogLoss",)),
    "normalizedentropy": ("NE",),
    **dict.fromkeys(("calibrationerror", "reliability"), ("ECE", "ScoreCalibration")),
    **dict.fromkeys(("rsquared", "r2score", "rsq"), ("R2",)),
    "correlation": ("Pearson", "Spearman", "Kendall"),
    **dict.fromkeys(("tau", "kendalltau"), ("Kendall",)),
    **dict.fromkeys(("coverage", "catalogcoverage"), ("ItemCoverage", "UserCoverage")),
    **dict.fromkeys(("novelty", "mss"), ("EPC", "EFD", "MIUF", "SelfInformation", "Surprisal")),
    **dict.fromkeys(
        ("diversity", "intralistdiversity"),
        ("ILD", "Personalization", "CategoryDiversity", "Gini", "ShannonEntropy", "SRecall"),
    ),
    **dict.fromkeys(("alphandcg", "alpha-ndcg", "andcg"), ("alpha_nDCG",)),
    **dict.fromkeys(("erria", "err-ia", "nerr_ia", "nerr-ia"), ("ERR_IA",)),
    **dict.fromkeys(("pia", "p-ia", "precision-ia"), ("P_IA",)),
    **dict.fromkeys(("strec", "subtopicrecall"), ("SRecall",)),
    **dict.fromkeys(("giniindex", "ginicoefficient"), ("Gini",)),
    **dict.fromkeys(("entropy", "shannon"), ("ShannonEntropy",)),
    **dict.fromkeys(("popularity", "popularitybias", "averagepopularity"), ("ARP", "APLT", "ACLT")),
    **dict.fromkeys(("longtail", "tail"), ("APLT", "ACLT")),
    "fairness": ("REO", "RSP", "UserMADRanking", "ItemMADRanking", "BiasDisparityBD"),
}


def aliased_metrics(name: str, known: Iterable[str]) -> list[str]:
    """Return the known metrics of an alias, none if it is no alias."""
    registered = set(known)
    metrics = _ALIASES.get(name.casefold(), ())
    return [metric for metric in metrics if metric in registered]


def suggest_metrics(name: str, known: Iterable[str]) -> str:
    """Return `" Did you mean 'HitRate'?"` for an alias, else an empty string."""
    metrics = aliased_metrics(name, known)
    return f" Did you mean {' or '.join(map(repr, metrics))}?" if metrics else ""
