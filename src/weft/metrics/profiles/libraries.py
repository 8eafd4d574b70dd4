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
    excluded={"LAUC": "RecTools has PartialAUC, which uses the first k negatives only"},
    notes=(
        "The profile reproduces NDCG with its default parameters, CatalogCoverage, CoveredUsers "
        "and F1Beta.",
        "NDCG(divide_by_achievable=True) is `nDCG(gain=binary)`, Precision(r_precision=True) is "
        "`Recall(normalizer=capped)`, and MAP(divide_by_k=True) is `MAP(normalizer=k)`. Another "
        "log_base of NDCG does not change its value.",
        "In RecTools, Accuracy and MCC count the missing positions of a short list as misses; "
        "Weft counts only the items of the list.",
        "CatalogCoverage and AvgRecPopularity count all lists, CoveredUsers the users of the "
        "truth. In AvgRecPopularity every row of train counts; in Weft a repeated (user, item) "
        "row counts once.",
    ),
)

REPLAY = Profile(
    "replay",
    "0.22.0",
    {
        **default("Precision", "Recall", "HitRate", "MRR", "MAP", "Surprisal", "NewToUser"),
        "nDCG": {"gain": "binary"},
        "ItemCoverage": {"as_fraction": True, "universe": "train"},
        **default("CategoryDiversity", "Unexpectedness"),
    },
    excluded=dict.fromkeys(
        ("AUC", "GAUC", "LAUC"),
        "RocAuc of RePlay is the AUC within the top k: 1 without a miss, 0 without a hit",
    ),
    notes=(
        "The profile reproduces HitRate, Precision, Recall, MAP, MRR, NDCG, Surprisal, Novelty "
        "(NewToUser), Coverage (ItemCoverage), CategoricalDiversity (CategoryDiversity, with one "
        "category per item as `item_features`) and Unexpectedness (with the base recommendations "
        "as `reference`).",
        "The accuracy metrics are means over the users of the truth; users without a list count "
        "0. Coverage, Surprisal and CategoricalDiversity use all lists. Novelty is a mean over "
        "the users of train, and users without a list count 1; Weft leaves them out.",
        "Tied scores are ordered by descending item id: use scores without ties, or give `items` "
        "in that order.",
    ),
)

RECOMMENDERS = Profile(
    "recommenders",
    "1.2.1",
    {
        **default("Precision", "Recall", "MAP", "MAE", "RMSE", "R2", "ExplainedVariance"),
        "SelfInformation": {},
        "nDCG": {"gain": "binary"},
        "ShannonEntropy": {"base": 2},
        "ItemCoverage": {"as_fraction": True, "universe": "train"},
        "ILD": {"distance": "cooccurrence"},
    },
    settings={"missing_lists": "skip"},
    excluded={
        "RPrecision": "r_precision_at_k is a mean over only the users with a hit among the first "
        "|R| items",
        "Serendipity": "by default serendipity compares items by co-occurrence and counts all as "
        "relevant; with feature vectors and a relevance column it is "
        "Serendipity(definition=dissimilarity)",
        "AUC": "auc is the AUC of rated pairs, not of all items",
        "LogLoss": "logloss expects labels of 0 and 1 for the rated pairs",
    },
    notes=(
        "The profile reproduces precision_at_k, recall_at_k, map_at_k, ndcg_at_k, "
        "distributional_coverage (ShannonEntropy), catalog_coverage (ItemCoverage), diversity "
        "(ILD), novelty (SelfInformation), rmse, mae, rsquared and exp_var.",
        "map is `MAP(normalizer=relevant)`, ndcg_at_k(score_type='raw') is `nDCG(gain=linear)`, "
        "score_type='exp' is `nDCG(gain=exponential)`, and diversity with item feature vectors is "
        "`ILD(distance=cosine)`.",
        "Users without a list are left out of every mean except that of ndcg_at_k, where they "
        "count 0: set `missing_lists='zero'`.",
        "novelty is a mean over all recommended items, which equals the mean over lists of Weft "
        "if all lists have the same length.",
        "Items that are not in train add 0 to novelty, count in catalog_coverage, which can then "
        "exceed 1, and have a similarity of 0 in diversity. In Weft they count as seen once in "
        "SelfInformation, do not count in ItemCoverage, and are in no pair of ILD.",
    ),
)

RECPACK = Profile(
    "recpack",
    "0.3.6",
    {
        **default("Precision", "Recall", "MRR"),
        "nDCG": {"gain": "binary"},
        "DCG": {"gain": "binary"},
        "ItemCoverage": {"as_fraction": True, "users": "evaluated"},
        "ILD": {"distance": "jaccard", "users": "evaluated"},
    },
    excluded={
        "HitRate": "RecPack's HitK is the number of hits, which is k times Precision",
        "IPSRecall": "RecPack's IPSHitRateK is a sum over hits, with n_i / T as propensities",
        "PercentileRank": "RecPack divides ranks by the number of items, multiplies them by 100, "
        "and places items that are not in the list in the middle of the remaining ranks",
    },
    notes=(
        "The profile reproduces PrecisionK, RecallK, ReciprocalRankK, NDCGK, DCGK, CoverageK and "
        "IntraListDiversityK. CalibratedRecallK is `Recall(normalizer=capped)`.",
        "RecPack evaluates only users with a relevant item; without a list they count 0. In "
        "IntraListDiversityK, lists of one item count 0; Weft leaves them out.",
    ),
)

EVIDENTLY = Profile(
    "evidently",
    "0.7.23",
    {
        **default("Recall", "HitRate", "MRR", "Personalization"),
        "Precision": {"denominator": "list"},
        "MAP": {"normalizer": "relevant"},
        "nDCG": {"gain": "linear"},
        "ARP": {"unseen": "skip"},
        "MIUF": {"cold_items": "skip"},
        "ItemCoverage": {"as_fraction": True, "universe": "train"},
    },
    excluded={
        "F1": "FBetaTopK of evidently combines the mean Precision and the mean Recall, instead of "
        "averaging over users",
        "MAR": "evidently divides by |R|, not by min(|R|, k)",
        "Gini": "evidently counts only items that are recommended",
        "ILD": "evidently divides the sum over pairs by the length of the list, not by the number "
        "of pairs",
        "Serendipity": "evidently sums the similarity over the relevant items, so that the value "
        "falls below 0 if there are several",
    },
    notes=(
        "The profile reproduces PrecisionTopK, RecallTopK, MAP, NDCG, MRR, HitRate, "
        "Personalization, Novelty (MIUF) and PopularityBiasMetric (ARP and ItemCoverage; "
        "normalize_arp=True is `ARP(normalize=max)`).",
        "evidently takes the relevant items from its table of recommendations, which must "
        "therefore contain all of them. Its rows must be ordered by rank; otherwise MAP differs. "
        "NDCG and MRR are computed with ranks that are too high by one.",
        "no_feedback_users=True counts users without relevant items as 0: set "
        "`empty_users='zero'`. Personalization differs for lists shorter than k.",
    ),
)
