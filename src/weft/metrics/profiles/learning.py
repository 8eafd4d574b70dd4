"""Libraries for machine learning."""

from __future__ import annotations

from weft.metrics.profiles.declaration import ZERO, Profile, default

TORCHMETRICS = Profile(
    "torchmetrics",
    "1.9.0",
    {
        **default("Precision", "Recall", "HitRate", "MRR", "GAUC", "MAE", "MSE", "RMSE"),
        "MAP": {"normalizer": "hits"},
        "nDCG": {"gain": "linear"},
    },
    settings={**ZERO, "ties": "expected"},
    notes=(
        "empty_target_action='neg', its default, counts users without relevant items as "
        "0; for 'skip' give empty_users='skip'.",
        "Tied scores are averaged in RetrievalNormalizedDCG; the other metrics take them "
        "as torch sorts them.",
        "Precision, Recall, MAP and MRR are 0 in torchmetrics for negative scores, and "
        "AUROC saturates outside [0, 1]: compare on scores scaled to (0, 1).",
    ),
)

SKLEARN = Profile(
    "sklearn",
    "1.9.1",
    {
        "nDCG": {"gain": "linear"},
        "DCG": {"gain": "linear"},
        "MAP": {"normalizer": "relevant"},
        "GAUC": {},
        "AUC": {"scope": "pooled"},
        **default("MAE", "MSE", "RMSE"),
    },
    settings={**ZERO, "ties": "expected"},
    notes=(
        "ndcg_score, dcg_score, average_precision_score and roc_auc_score are reproduced. "
        "average_precision_score is not cut: give a k that holds the catalogue; it treats "
        "a tie as one threshold, which no order of the tied items gives.",
        "roc_auc_score is undefined for users without relevant items: give "
        "empty_users='skip' with GAUC. Over all pairs pooled, it takes users without "
        "relevant items too; Weft's AUC does not.",
    ),
)

PYG = Profile(
    "pyg",
    "2.8.1",
    {
        **default("Precision", "Recall", "HitRate", "MRR", "MAP", "F1", "Personalization", "ARP"),
        "nDCG": {"gain": "binary"},
        "ItemCoverage": {"as_fraction": True},
        "ILD": {"distance": "category"},
    },
    notes=(
        "LinkPredPrecision, LinkPredRecall, LinkPredF1, LinkPredMAP, LinkPredNDCG, LinkPredMRR, "
        "LinkPredHitRatio, LinkPredCoverage, LinkPredDiversity (ILD), LinkPredPersonalization and "
        "LinkPredAveragePopularity (ARP) are reproduced. LinkPredNDCG(weighted=True) is "
        "nDCG(gain=linear); LinkPredRecall(weighted=True) is not a metric of Weft.",
        "PyG takes k items for every user and computes in float32. Users without a relevant item "
        "are in no mean of the accuracy metrics, and their lists count in the others.",
        "LinkPredDiversity divides by 0 at k = 1. LinkPredPersonalization looks at the first 4096 "
        "users by default (max_src_nodes); Weft at all.",
    ),
)
