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
        "RePlay's RocAuc is the AUC of the items inside the top k, 1 without a miss and 0 without "
        "a hit",
    ),
    notes=(
        "HitRate, Precision, Recall, MAP, MRR, NDCG, Surprisal, Novelty (NewToUser), Coverage "
        "(ItemCoverage) and CategoricalDiversity (CategoryDiversity, with a category per item as "
        "item_features) and Unexpectedness (with the base recommendations as reference) are "
        "reproduced.",
        "The accuracy metrics are means over the users of the truth, who count 0 without a list. "
        "Coverage, Surprisal and CategoricalDiversity look at all lists. Novelty is a mean over "
        "the users of train, who count 1 without a list; Weft leaves these out.",
        "Tied scores rank by item id, descending: give untied scores, or items= in that order.",
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
        "RPrecision": "r_precision_at_k is a mean over the users with a hit among their first |R| "
        "items only",
        "Serendipity": "by default serendipity compares items by co-occurrence and counts all as "
        "relevant; with feature vectors and a relevance column it is "
        "Serendipity(definition=dissimilarity)",
        "AUC": "auc is the AUC of rated pairs, not of all items",
        "LogLoss": "logloss takes labels of 0 and 1 for the rated pairs",
    },
    notes=(
        "precision_at_k, recall_at_k, map_at_k, ndcg_at_k, distributional_coverage "
        "(ShannonEntropy), catalog_coverage (ItemCoverage), diversity (ILD), novelty "
        "(SelfInformation), rmse, mae, rsquared and exp_var are reproduced. map is "
        "MAP(normalizer=relevant), ndcg_at_k(score_type='raw') is nDCG(gain=linear), 'exp' is "
        "nDCG(gain=exponential), and item feature vectors make ILD(distance=cosine).",
        "Users without a list are in no mean but that of ndcg_at_k, where they count 0: "
        "missing_lists='zero'.",
        "novelty is a mean over all recommended items, which is Weft's mean over lists if they are "
        "equally long. Items that are not in train add 0 to it, count in catalog_coverage, which "
        "may then exceed 1, and have similarity 0 in diversity; Weft counts them as seen once, not "
        "at all, and in no pair.",
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
        "PercentileRank": "RecPack divides ranks by the number of items, multiplies by 100, and "
        "puts items that are not in the list half-way behind it",
    },
    notes=(
        "PrecisionK, RecallK, ReciprocalRankK, NDCGK, DCGK, CoverageK and IntraListDiversityK are "
        "reproduced. CalibratedRecallK is Recall(normalizer=capped).",
        "RecPack sees the users with a relevant item only, who count 0 without a list. In "
        "IntraListDiversityK lists of one item count 0; Weft leaves them out.",
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
        "F1": "evidently's FBetaTopK is made of the mean Precision and the mean Recall, not a mean "
        "over users",
        "MAR": "evidently divides by |R|, not by min(|R|, k)",
        "Gini": "evidently looks at the recommended items only",
        "ILD": "evidently divides the sum over pairs by the length of the list, not by the number "
        "of pairs",
        "Serendipity": "evidently sums the similarity over the relevant items, and falls below 0 "
        "with several",
    },
    notes=(
        "PrecisionTopK, RecallTopK, MAP, NDCG, MRR, HitRate, Personalization, Novelty (MIUF) and "
        "PopularityBiasMetric (ARP and ItemCoverage; normalize_arp=True is ARP(normalize=max)) are "
        "reproduced.",
        "evidently knows the relevant items of its table only: the table has to hold all of them. "
        "Its rows have to be in the order of the ranks, or MAP is another number. NDCG and MRR are "
        "printed with ranks that are one too high.",
        "no_feedback_users=True counts users without relevant items as 0: empty_users='zero'. "
        "Personalization of lists shorter than k is another number.",
    ),
)
