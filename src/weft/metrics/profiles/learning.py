"""Libraries for machine learning."""

from __future__ import annotations

from weft.metrics.profiles.declaration import ZERO, Profile, default

_USERS_OF_THE_TRUTH = (
    "A user without an interaction in the truth counts as 0 only if the truth has an entry for "
    "this user, as a matrix or `{user: {}}` has; in a frame, such users are excluded and noted."
)
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
        "The default empty_target_action='neg' counts users without relevant items as 0; for "
        "'skip', set `empty_users='skip'`.",
        _USERS_OF_THE_TRUTH,
        "RetrievalNormalizedDCG averages over tied scores; the other metrics order them as torch "
        "sorts them.",
        "In torchmetrics, Precision, Recall, MAP and MRR are 0 for negative scores, and AUROC "
        "saturates outside [0, 1]. Scale the scores to (0, 1) for a comparison.",
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
        "The profile reproduces ndcg_score, dcg_score, average_precision_score and roc_auc_score.",
        _USERS_OF_THE_TRUTH,
        "average_precision_score has no cut-off: use a k that is not smaller than the catalogue. "
        "It treats a tie as one threshold, which differs from every order of the tied items.",
        "roc_auc_score is undefined for users without relevant items: set `empty_users='skip'` "
        "with GAUC. Computed over all pairs at once, it includes users without relevant items; "
        "the AUC of Weft does not.",
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
        "The profile reproduces LinkPredPrecision, LinkPredRecall, LinkPredF1, LinkPredMAP, "
        "LinkPredNDCG, LinkPredMRR, LinkPredHitRatio, LinkPredCoverage, LinkPredDiversity (ILD), "
        "LinkPredPersonalization and LinkPredAveragePopularity (ARP).",
        "LinkPredNDCG(weighted=True) is `nDCG(gain=linear)`. Weft has no counterpart of "
        "LinkPredRecall(weighted=True).",
        "PyG expects k items for every user and computes in float32. Users without a relevant "
        "item are left out of the accuracy metrics; their lists count in the other metrics.",
        "LinkPredDiversity divides by 0 at k = 1. LinkPredPersonalization uses the first 4096 "
        "users by default (max_src_nodes); Weft uses all users.",
    ),
)
