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
        "P, recall, success, recip_rank, map_cut, ndcg_cut, set_F, Rprec, bpref, infAP, "
        "rbp_resid, 11pt_avg (IPrec; iprec_at_recall_0.10 is IPrec(recall=0.1), which "
        "pytrec_eval rounds otherwise) and, where judgements are 0 or 1, rbp are "
        "reproduced. Rprec is RPrecision; for others without a "
        "cut-off, give a k that holds the whole list. Uncut ndcg is nDCG(gain=linear, "
        "ideal=full), Rprec_mult_0.50 is RPrecision(multiple=0.5), relative_P is "
        "Recall(normalizer=capped).",
        "rbp divides judgements above 1 by the highest one of the topic. Negative "
        "judgements count as judged in Weft.",
        "Tied scores rank by document id, descending as text. Weft does so in "
        "recommendation lists, unless items= gives an order or ties= a rule; with a score "
        "matrix, give items= in that order.",
        "trec_eval stores scores as float32, so that scores that differ by less than about "
        "6e-8 of their size are tied; Weft compares them as float64. For the tool's order "
        "cast the scores to float32 before they are given or written.",
        "With -c users without a list count 0: missing_lists='zero'.",
        "Judgements are integers, and those below 1, also negative ones, are not relevant "
        "(another level, -l: relevance_threshold). Topics of a run without judgements are "
        "in no mean.",
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
        "ndcg and dcg are reproduced; ndcg_burges and dcg_burges have gain=exponential, "
        "rbp.80 is RBP(p=0.8) with a k that holds the whole list. Without a cut-off, "
        "precision and f1 divide by the length of the list: give a k that holds the whole "
        "list, and Precision(denominator=list), or F1(metric_name_1="
        "Precision(denominator=list)). Uncut ndcg is nDCG(gain=linear, ideal=full).",
        "ranx orders tied scores in its own way.",
        "Judgements are integers, and those below 1 are not relevant. Queries without "
        "judgements are in no mean, those without a result count 0 (make_comparable).",
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
        "that are in order",
    },
    notes=(
        "P, R, Success, AP, RR, nDCG, Rprec, Bpref, infAP, IPrec, SetF, Judged, RBP(rel=1) and "
        "ERR are reproduced. Those without a cut-off: give a k that holds the whole list. Uncut "
        "nDCG is nDCG(gain=linear, ideal=full), SetP is Precision(denominator=list), SetR is "
        "Recall, IPrec@0.1 is IPrec(recall=0.1), nDCG(dcg='exp-log2') is nDCG(gain=exponential), "
        "AP(rel=2)@10 is MAP(relevance_threshold=2)@10.",
        "alpha_nDCG, ERR_IA, P_IA and StRecall (SRecall) read the subtopics of the judgements; "
        "Weft reads item_features. nERR_IA is ERR_IA(normalize=True); at k = 1 pyndeval does not "
        "normalize ERR_IA.",
        "In IPrec r |R| is rounded down if its remainder is below 0.1, and in Weft never.",
        "ERR and nDCG(dcg='exp-log2') come from gdeval, which prints five digits and takes grades "
        "up to 4. SDCG, BPM, INST, INSQ, NERR, Compat and SetAP are not metrics of Weft.",
        "Users without a list count 0 (trec_eval and pytrec_eval leave them out); in Judged they "
        "count 0 too, whereas Weft leaves empty lists out.",
        "Tied scores rank by document id, descending as text. Weft does so in recommendation "
        "lists, unless items= gives an order or ties= a rule. Judged orders ties by ascending id.",
    ),
    orders_ties_by_descending_id=True,
)
