"""Tools of information retrieval."""

from __future__ import annotations

from weft.metrics.profiles.declaration import JUDGED, Profile, default

TREC_EVAL = Profile(
    "trec_eval",
    "10.0-rc3 (and pytrec_eval)",
    {
        **default("Precision", "Recall", "HitRate", "MRR", "RPrecision", "bpref", "infAP"),
        "MAP": {"normalizer": "relevant"},
        "nDCG": {"gain": "linear"},
        "F1": {"metric_name_1": "Precision(denominator=list)"},
        "RBP": {"p": 0.9},
        "RBPResidual": {"p": 0.9, "users": "lists"},
        "IPrec": {"rounding": "nearest"},
    },
    settings={**JUDGED, "missing_lists": "skip"},
    notes=(
        "The profile reproduces P, recall, success, recip_rank, map_cut, ndcg_cut, set_F, Rprec, "
        "bpref, infAP, rbp_resid and 11pt_avg (IPrec) and, if all judgements are 0 or 1, rbp.",
        "iprec_at_recall_0.10 is `IPrec(recall=0.1)`, for which pytrec_eval rounds differently. "
        "Rprec is `RPrecision`, Rprec_mult_0.50 is `RPrecision(multiple=0.5)`, relative_P is "
        "`Recall(normalizer=capped)`, and ndcg without a cut-off is `nDCG(gain=linear, "
        "ideal=full)`. For other measures without a cut-off, use a k that is not smaller than the "
        "longest list.",
        "rbp divides judgements above 1 by the highest judgement of the topic. Negative "
        "judgements count as judged in Weft.",
        "Tied scores are ordered by document id, descending as text. Weft does the same for "
        "recommendation lists, unless `items` gives an order or `ties` a rule; with a score "
        "matrix, give `items` in that order.",
        "trec_eval stores scores as float32, so that scores with a relative difference below "
        "about 6e-8 are tied; Weft compares them as float64. Cast the scores to float32 first to "
        "get the same order.",
        "With the option -c, users without a list count 0: set `missing_lists='zero'`.",
        "Judgements are integers, and judgements below 1 are not relevant, including negative "
        "ones; for another level (option -l), set `relevance_threshold`. Topics of a run without "
        "judgements are not part of any mean.",
    ),
    orders_ties_by_descending_id=True,
)

RANX = Profile(
    "ranx",
    "0.3.21",
    {
        **default("Precision", "Recall", "HitRate", "MRR", "F1", "RPrecision"),
        "MAP": {"normalizer": "relevant"},
        "nDCG": {"gain": "linear"},
        "DCG": {"gain": "linear"},
        "RBP": {"relevance": "graded"},
    },
    settings=JUDGED,
    notes=(
        "The profile reproduces ndcg and dcg; ndcg_burges and dcg_burges correspond to "
        "`gain=exponential`. rbp.80 is `RBP(p=0.8)` with a k that is not smaller than the longest "
        "list.",
        "Without a cut-off, precision and f1 divide by the length of the list: use a k that is "
        "not smaller than the longest list, with `Precision(denominator=list)` or "
        "`F1(metric_name_1=Precision(denominator=list))`. ndcg without a cut-off is "
        "`nDCG(gain=linear, ideal=full)`.",
        "The order of tied scores in ranx is not reproduced.",
        "Judgements are integers, and judgements below 1 are not relevant. Queries without "
        "judgements are not part of any mean, and queries without a result count 0 "
        "(make_comparable).",
    ),
)

IR_MEASURES = Profile(
    "ir_measures",
    "0.4.3",
    {
        **default("Precision", "Recall", "HitRate", "MRR", "RPrecision", "bpref", "infAP", "RBP"),
        "MAP": {"normalizer": "relevant"},
        "nDCG": {"gain": "linear"},
        "F1": {"metric_name_1": "Precision(denominator=list)"},
        "IPrec": {},
        "Judged": {"users": "lists"},
        "ERR": {"max_grade": 4},
        **default("alpha_nDCG", "P_IA", "SRecall"),
        "ERR_IA": {"normalize": False},
    },
    settings={**JUDGED, "extra_users": "skip"},
    excluded={
        "Accuracy": "Accuracy of ir_measures is the share of (relevant, other) pairs of the list "
        "that are in the correct order",
    },
    notes=(
        "The profile reproduces P, R, Success, AP, RR, nDCG, Rprec, Bpref, infAP, IPrec, SetF, "
        "Judged, RBP(rel=1) and ERR. For measures without a cut-off, use a k that is not smaller "
        "than the longest list.",
        "nDCG without a cut-off is `nDCG(gain=linear, ideal=full)`, SetP is "
        "`Precision(denominator=list)`, SetR is `Recall`, IPrec@0.1 is `IPrec(recall=0.1)`, "
        "nDCG(dcg='exp-log2') is `nDCG(gain=exponential)`, and AP(rel=2)@10 is "
        "`MAP(relevance_threshold=2)@10`.",
        "alpha_nDCG, ERR_IA, P_IA and StRecall (SRecall) read the subtopics of the judgements; "
        "Weft reads `item_features`. nERR_IA is `ERR_IA(normalize=True)`. At k = 1, pyndeval does "
        "not normalize ERR_IA.",
        "In IPrec, the required number of hits, level · |R|, is rounded down if its fraction is "
        "below 0.1; Weft always rounds it up.",
        "ERR and nDCG(dcg='exp-log2') are computed by gdeval, which prints five digits and "
        "accepts grades up to 4. Weft has no counterparts of SDCG, BPM, INST, INSQ, NERR, Compat "
        "and SetAP.",
        "Users without a list count 0, whereas trec_eval and pytrec_eval leave them out. In "
        "Judged they count 0, too; Weft leaves empty lists out.",
        "Tied scores are ordered by document id, descending as text. Weft does the same for "
        "recommendation lists, unless `items` gives an order or `ties` a rule. Judged orders ties "
        "by ascending id.",
    ),
    orders_ties_by_descending_id=True,
)
