"""Frameworks that train and evaluate recommenders."""

from __future__ import annotations

from weft.metrics.profiles.declaration import BY_LIST, BY_USERS, Profile, default

_ONE_MORE_NEGATIVE = (
    "{} counts one negative too many and gives no credit to ties; the value of Weft is exact"
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
        "UserCoverage": "WarpRec counts users with test items, with or without a list",
        **dict.fromkeys(
            ("ACLT", "APLT", "PopREO", "PopRSP"),
            "WarpRec sorts items by popularity with an unstable sort, so that the division of "
            "equally popular items into head and tail depends on the machine",
        ),
    },
    notes=(
        "WarpRec evaluates the users of the test set. Lists of other users do not count.",
        "WarpRec computes in float32. Differences of nearly equal numbers (the MAD metrics, "
        "BiasDisparityBD) agree to a few 1e-7 of the subtracted values, which can be 3e-5 of the "
        "difference.",
        "If fewer than two clusters have a value, WarpRec prints 0. If BS is 0, its "
        "BiasDisparityBD is 0 or a very large number. Weft returns NaN in both cases.",
        "WarpRec orders tied scores at random. It recommends items masked with -inf if fewer than "
        "k others remain, so that its NumRetrieved is always min(k, items).",
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
        "Gini": "Elliot prints 1 - Gini, for which higher is more even",
        "MAP": "Elliot's MAP is the mean of Precision@1 to Precision@k, not average precision",
        "MAR": "Elliot's MAR is the mean of Recall@1 to Recall@k",
    },
    notes=(
        "Elliot evaluates the users with both a test row and a list. An empty list is an error.",
        "Elliot never recommends items of train. With recommendation lists, set `mask_seen=True`; "
        "otherwise items of train are candidates in RSP and PopRSP. In REO and PopREO, Elliot "
        "leaves out relevant items that are in the train data of the user; Weft counts them.",
        "With a relevance threshold t, the gain of Elliot is 2^(r-t+1) - 1. Subtract t - 1 from "
        "the ratings before comparing nDCG, UserMADRanking, and EFD and EPC with graded relevance.",
        "In Elliot, REO, ItemMADRanking and ItemMADRating are NaN if any cluster has no value; "
        "Weft omits such clusters.",
        "In EFD, an item without train interactions has the novelty of the least popular item of "
        "train; in Weft, it has the novelty of an item with one interaction.",
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
        "APLT": "TailPercentage of RecBole takes the tail from the items with train interactions; "
        "the closest definition, APLT(tail_ratio=0.1), takes it from all items",
    },
    notes=(
        "RecBole evaluates only users with test items.",
        "RecBole counts its padding as an item in ItemCoverage and Gini; to get the values of a "
        "run, add an item such as [PAD] to the catalogue.",
    ),
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
        "The profile reproduces Hit, RecipRank, Precision, Recall, AveragePrecision, NDCG, DCG, "
        "RBP, ListGini and MeanPopRank (PopularityQuantile).",
        "NDCG(gain='rating') is `nDCG(gain=linear)`, and with weight=LogRankWeight(offset=1) it "
        "is `nDCG(gain=linear, discount=log)`. ExposureGini, which LensKit computes in float32, "
        "is `Gini(weight=geometric, p=0.85)`.",
        "With the default discount of LensKit, positions 1 and 2 have the same weight.",
        "LensKit evaluates the lists that it is given. Users without a list are not part of any "
        "mean. A list without test data has a Precision of 0 and is undefined in the other "
        "metrics; Weft leaves it out.",
        "MAE and RMSE are means over users, as in the table of lists; the global values are "
        "`MAE(average=cells)` and `RMSE(average=cells)`. LensKit casts arrays of scores to "
        "float32.",
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
        "The profile reproduces NDCG, NCRR, Precision, Recall, FMeasure and HitRatio and, if no "
        "scores are tied, AUC (GAUC), MAP and MRR.",
        "Cornac computes AUC, MAP and MRR on the whole ranking: use a k that is not smaller than "
        "the catalogue.",
        "AUC gives no credit to ties; Weft gives half. MAP treats a tie as one threshold, which "
        "differs from every order of the tied items.",
        "Ratings below rating_threshold, by default 1, are not relevant; set "
        "`relevance_threshold` for another value. With exclude_unknowns=True, its default, Cornac "
        "ignores users and items that are not in train: remove them from the truth and set "
        "`candidates='warm'`.",
        "NCRR divides by the length of the list if that is smaller than k and |R|. Rating errors "
        "are means over users, as in an Experiment by default; user_based=False corresponds to "
        "`average=cells`.",
    ),
)
