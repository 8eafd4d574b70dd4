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
