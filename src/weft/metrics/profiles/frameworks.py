"""Frameworks that train and evaluate recommenders."""

from __future__ import annotations

from weft.metrics.profiles.declaration import BY_LIST, BY_USERS, Profile, default

_ONE_MORE_NEGATIVE = (
    "{} counts one negative more than there are and gives ties no credit; Weft's value is exact"
)

WARPREC = Profile(
    "warprec",
    "2.2.8",
    {
        **default("Precision", "Recall", "HitRate", "MRR", "MAP", "MAR", "F1", "nDCGRendle2020"),
        "nDCG": {"gain": "exponential_shifted"},
        **dict.fromkeys(("MAE", "MSE", "RMSE"), BY_USERS),
        **default(
            "ItemCoverage",
            "NumRetrieved",
            "UserCoverageAtN",
            "Gini",
            "ShannonEntropy",
            "SRecall",
        ),
        "EFD": {"gain": "exponential_shifted"},
        "EPC": {"gain": "exponential_shifted", "unseen": 1},
        "ARP": {"users": "evaluated", "unseen": 1},
        **default("BiasDisparityBS", "BiasDisparityBR", "BiasDisparityBD", "REO", "RSP"),
        "ItemMADRanking": {
            "gain": "exponential_shifted",
            "discount": False,
            "users": "lists",
        },
        "ItemMADRating": {},
        "UserMADRanking": {"gain": "exponential_shifted"},
        "UserMADRating": {"users": "evaluated"},
        "EucDistance": {"scope": "users"},
        "Hypervolume": {"scope": "users"},
    },
    settings={"extra_users": "skip"},
    excluded={
        **dict.fromkeys(("AUC", "GAUC", "LAUC"), _ONE_MORE_NEGATIVE.format("WarpRec")),
        "UserCoverage": "WarpRec counts users with test items, whatever is recommended",
        **dict.fromkeys(
            ("ACLT", "APLT", "PopREO", "PopRSP"),
            "WarpRec sorts items by popularity with an unstable sort: which of the "
            "equally popular items at the border are head depends on the machine",
        ),
    },
    notes=(
        "WarpRec evaluates the users of the test set. Lists of other users do not count.",
        "WarpRec computes in float32: differences of nearly equal numbers (the MADs, "
        "BiasDisparityBD) agree to a few 1e-7 of what is subtracted, which may be 3e-5 of "
        "the difference.",
        "Where fewer than two clusters have a value WarpRec prints 0, and BiasDisparityBD "
        "is 0 or a huge number where BS is 0; Weft returns NaN.",
        "WarpRec orders tied scores at random; items masked with -inf are recommended "
        "when fewer than k remain, so that NumRetrieved is min(k, items) whatever the "
        "lists hold.",
    ),
)

ELLIOT = Profile(
    "elliot",
    "0.3.1",
    {
        **default("Precision", "Recall", "HitRate", "MRR", "F1", "nDCG", "nDCGRendle2020"),
        **default("ItemCoverage", "UserCoverage", "UserCoverageAtN"),
        "NumRetrieved": {"users": "evaluated"},
        **dict.fromkeys(("EFD", "EPC", "APLT"), BY_LIST),
        "ShannonEntropy": {"base": 2, "weights": "lists"},
        "SRecall": {"denominator": "catalogue"},
        **default("ACLT", "ARP", "PopREO", "PopRSP"),
        **default(
            "BiasDisparityBS",
            "BiasDisparityBR",
            "BiasDisparityBD",
            "REO",
            "RSP",
            "UserMADRanking",
        ),
        "ItemMADRanking": {"discount": False},
        "ItemMADRating": {"appearances": "all"},
        "UserMADRating": {"users": "evaluated"},
    },
    settings={"missing_lists": "skip", "extra_users": "skip"},
    excluded={
        **dict.fromkeys(("AUC", "GAUC", "LAUC"), _ONE_MORE_NEGATIVE.format("Elliot")),
        "Gini": "Elliot prints 1 - Gini, so that higher is more even",
        "MAP": "Elliot's MAP is the mean of Precision@1 to Precision@k, not average precision",
        "MAR": "Elliot's MAR is the mean of Recall@1 to Recall@k",
    },
    notes=(
        "Elliot evaluates the users who have a test row and a list; it stops with an error "
        "at an empty list.",
        "Elliot never recommends items of train. With lists, give mask_seen=True: if not, "
        "items of train are candidates in RSP and PopRSP. In REO and PopREO it leaves out "
        "relevant items that are in the user's train; Weft counts them.",
        "With a relevance threshold t Elliot's gain is 2^(r-t+1) - 1: subtract t - 1 from "
        "the ratings before comparing nDCG, UserMADRanking or graded EFD and EPC.",
        "REO, ItemMADRanking and ItemMADRating are NaN in Elliot as soon as one cluster "
        "has no value; Weft omits such clusters.",
        "In EFD an item without train interactions has the novelty of the least popular "
        "one in train; in Weft that of one interaction.",
    ),
)

RECBOLE = Profile(
    "recbole",
    "1.2.1",
    {
        **default("Precision", "Recall", "HitRate", "MRR", "MAP"),
        "nDCG": {"gain": "binary"},
        "GAUC": {"weight": "positives"},
        "ItemCoverage": {"as_fraction": True, "users": "evaluated"},
        "Gini": {"denominator": "N", "users": "evaluated"},
        "ARP": {"users": "evaluated"},
    },
    settings={"extra_users": "skip"},
    excluded={
        "ShannonEntropy": "RecBole divides the entropy by the number of distinct recommended items",
        "APLT": "RecBole's TailPercentage takes a share of the items, not of the "
        "interactions, as the tail",
    },
    notes=("RecBole evaluates users with test items only.",),
)

LENSKIT = Profile(
    "lenskit",
    "2025.8.1",
    {
        **default("HitRate", "MRR", "PopularityQuantile"),
        "Precision": BY_LIST,
        "Recall": {"normalizer": "capped"},
        "MAP": {"normalizer": "list"},
        "nDCG": {"gain": "binary", "discount": "capped_log"},
        "DCG": {"gain": "binary", "discount": "capped_log"},
        "RBP": {"p": 0.85},
        "Gini": {"denominator": "N"},
        **dict.fromkeys(("MAE", "RMSE"), BY_USERS),
    },
    settings={"missing_lists": "skip"},
    excluded={
        "CategoryEntropy": "LensKit adds 1e-6 to the weight of every category, which makes its "
        "values slightly higher",
    },
    notes=(
        "Hit, RecipRank, Precision, Recall, AveragePrecision, NDCG, DCG, RBP, ListGini and "
        "MeanPopRank (PopularityQuantile) are reproduced. NDCG(gain='rating') is nDCG(gain=linear),"
        " and with weight=LogRankWeight(offset=1) nDCG(gain=linear, discount=log). "
        "ExposureGini, which LensKit computes in float32, is "
        "Gini(weight=geometric, p=0.85).",
        "By default ranks 1 and 2 have the same discount.",
        "LensKit measures the lists that it is given: users without a list are in no mean, and a "
        "list without test data has Precision 0 and is undefined in the other metrics; Weft leaves "
        "it out.",
        "MAE and RMSE are means over users in the table of lists; the global values are "
        "MAE(average=cells) and RMSE(average=cells). LensKit casts arrays of scores to float32.",
    ),
)

CORNAC = Profile(
    "cornac",
    "3.0.1",
    {
        **default("Precision", "Recall", "HitRate", "MRR", "F1", "NCRR", "GAUC"),
        "MAP": {"normalizer": "relevant"},
        "nDCG": {"gain": "binary"},
        **dict.fromkeys(("MAE", "MSE", "RMSE"), BY_USERS),
    },
    settings={"relevance_threshold": 1, "missing_lists": "skip"},
    notes=(
        "NDCG, NCRR, Precision, Recall, FMeasure, HitRatio and, where no scores are tied, AUC "
        "(GAUC), MAP and MRR are reproduced. AUC, MAP and MRR look at the whole ranking: give a k "
        "that holds the catalogue.",
        "AUC gives ties no credit, Weft half; MAP treats a tie as one threshold, which no order of "
        "the tied items gives.",
        "Ratings below rating_threshold, 1 by default, are not relevant; another one: "
        "relevance_threshold. With exclude_unknowns=True, its default, users and items that are "
        "not in train do not exist: leave them out of the truth and give candidates='warm'.",
        "NCRR divides by the list's own length if that is below k and |R|. Rating errors are means "
        "over users, as an Experiment does by default; user_based=False is average=cells.",
    ),
)
