"""Libraries of recommenders or of their metrics."""

from __future__ import annotations

from weft.metrics.profiles.declaration import Profile, default

RECTOOLS = Profile(
    "rectools",
    "0.19.0",
    {
        **default("Precision", "Recall", "HitRate", "MRR", "F1", "ItemCoverage", "ARP"),
        **default("PartialAUC", "PAP"),
        "MAP": {"normalizer": "relevant"},
        "nDCG": {"gain": "binary", "ideal": "k"},
        "UserCoverage": {"as_fraction": True, "users": "evaluated"},
        "Accuracy": {"universe": "catalogue"},
        "MCC": {"universe": "catalogue"},
    },
    excluded={
        "LAUC": "RecTools' PartialAUC looks at the first k negatives only, and is another number"
    },
    notes=(
        "NDCG by default, CatalogCoverage, CoveredUsers and F1Beta are reproduced. "
        "NDCG(divide_by_achievable=True) is nDCG(gain=binary); "
        "Precision(r_precision=True) is Recall(normalizer=capped), MAP(divide_by_k=True) "
        "is MAP(normalizer=k), and another log_base of NDCG changes nothing.",
        "Accuracy and MCC count the missing positions of a short list as misses in "
        "RecTools; in Weft a list has the items that it has.",
        "CatalogCoverage and AvgRecPopularity count all lists, CoveredUsers the users of "
        "the truth. In AvgRecPopularity every row of train counts; in Weft a repeated "
        "(user, item) row counts once.",
    ),
)
