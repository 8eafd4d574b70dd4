"""Sections of the tools for information retrieval."""

import numpy as np
from inputs import (
    CUTOFFS,
    LISTS,
    PER_USER_CASE,
    PER_USER_LIKED_CASE,
    RELEVANCES,
    fill,
    genres,
    lists,
    positives,
    surrogate_scores,
    truth,
    users,
)


def make_pytrec_eval():
    """Every judged user of the run counts; equal scores rank by item id, descending."""
    import pytrec_eval

    measures = fill(("P_{k}", "recall_{k}", "map_cut_{k}", "ndcg_cut_{k}"))
    measures += [
        "success_1",
        "success_5",
        "success_10",
        "recip_rank",
        "map",
        "ndcg",
        "set_P",
        "set_recall",
        "set_F",
    ]
    asked = {
        f"{name}.{','.join(map(str, CUTOFFS))}" for name in ("P", "recall", "map_cut", "ndcg_cut")
    }
    asked |= {"success.1,5,10", "recip_rank", "map", "ndcg", "set_P", "set_recall", "set_F"}
    cases = [
        (f"{model}/{relevance}", surrogate_scores(model), relevance)
        for model in LISTS
        for relevance in RELEVANCES
    ]
    for model in ("popularity", "item_knn"):  # with the ties of their scores
        tied = {user: dict(ranked) for user, ranked in lists(model).items()}
        cases += [
            (f"{model}/{relevance}/tied", tied, relevance) for relevance in ("binary", "rating")
        ]
    for case, run, relevance in cases:
        by_user = pytrec_eval.RelevanceEvaluator(truth(relevance), asked).evaluate(run)
        for measure in measures:
            yield case, measure, float(np.mean([values[measure] for values in by_user.values()]))
        if case in (PER_USER_CASE, PER_USER_LIKED_CASE):
            for measure in ("ndcg_cut_10", "map_cut_10", "recall_10", "recip_rank"):
                yield case, measure, {user: values[measure] for user, values in by_user.items()}


def make_ir_measures():
    """Every judged user counts, 0 without a list. gdeval (ERR, exponential nDCG) takes numbers as
    topics, and grades of 0 to 4; it prints five digits."""
    import ir_measures

    names = fill(("P@{k}", "R@{k}", "AP@{k}", "nDCG@{k}", "Success@{k}", "RR@{k}", "Judged@{k}"))
    names += ["AP", "nDCG", "RR", "SetP", "SetR", "SetF", "Rprec", "Bpref", "infAP"]
    names += ["IPrec@0.0", "IPrec@0.1", "IPrec@0.5", "RBP(rel=1)", "RBP(rel=1,p=0.5)"]
    above = fill(
        ("P(rel=4)@{k}", "R(rel=4)@{k}", "AP(rel=4)@{k}", "Success(rel=4)@{k}", "RR(rel=4)@{k}")
    )
    numbered = fill(("ERR@{k}", "nDCG(dcg='exp-log2')@{k}"))
    number = {user: str(index + 1) for index, user in enumerate(users())}
    for model in LISTS:
        run = {number[user]: ranked for user, ranked in surrogate_scores(model).items()}
        for relevance in RELEVANCES:
            qrels = {number[user]: rated for user, rated in truth(relevance).items()}
            asked = names + (above if relevance == "rating" else numbered)
            if model == "short":  # users without a list count 0 in Judged too
                asked = [name for name in asked if not name.startswith("Judged")]
            measures = [ir_measures.parse_measure(name) for name in asked]
            values = ir_measures.calc_aggregate(measures, qrels, run)
            for name, measure in zip(asked, measures):
                yield f"{model}/{relevance}", name, float(values[measure])
        names_of_aspects = fill(
            ("alpha_nDCG@{k}", "ERR_IA@{k}", "nERR_IA@{k}", "P_IA@{k}", "StRecall@{k}"), (5, 10)
        )
        measures = [ir_measures.parse_measure(name) for name in names_of_aspects]
        qrels = [
            ir_measures.GenericQrel(number[user], item, 1, genre)
            for user, rated in truth("binary").items()
            for item in rated
            for genre in genres()[item]
        ]
        values = ir_measures.calc_aggregate(measures, qrels, run)
        for name, measure in zip(names_of_aspects, measures):
            yield f"{model}/binary", name, float(values[measure])


def make_ranx():
    """Every judged user counts, 0 without a list."""
    import ranx

    names = fill(
        (
            "precision@{k}",
            "recall@{k}",
            "hit_rate@{k}",
            "mrr@{k}",
            "f1@{k}",
            "map@{k}",
            "ndcg@{k}",
            "ndcg_burges@{k}",
        )
    )
    names += ["map", "mrr", "ndcg"]
    for model in LISTS:
        run = ranx.Run(surrogate_scores(model))
        for relevance in RELEVANCES:
            qrels = ranx.Qrels(truth(relevance))
            values = ranx.evaluate(qrels, run, names, make_comparable=True)
            for name in names:
                yield f"{model}/{relevance}", name, float(values[name])
            if f"{model}/{relevance}" == PER_USER_CASE:
                for name in ("ndcg_burges@10", "f1@10"):
                    by_user = ranx.evaluate(
                        qrels, run, name, return_mean=False, make_comparable=True
                    )
                    order = sorted(qrels.keys())
                    assert len(order) == len(by_user)
                    yield (
                        PER_USER_CASE,
                        name,
                        {user: float(value) for user, value in zip(order, by_user)},
                    )


def make_pyndeval():
    """Users with a list and a relevant item count; the genres of an item are its aspects."""
    import pyndeval

    # Cut-offs go to 20; ERR-IA at 1 lacks the division of the other cut-offs.
    names = fill(("alpha-nDCG@{k}", "nERR-IA@{k}", "P-IA@{k}", "strec@{k}"), (1, 5, 10, 20))
    names += fill(("ERR-IA@{k}",), (5, 10, 20))
    for model in LISTS:
        run = [
            (user, item, score)
            for user, ranked in surrogate_scores(model).items()
            for item, score in ranked.items()
        ]
        for relevance in ("binary", "liked"):
            qrels = [
                (user, genre, item, 1)
                for user, rated in positives(relevance).items()
                for item in rated
                for genre in genres()[item]
            ]
            for alpha in (0.5, 0.2):
                by_user = pyndeval.ndeval(qrels, run, names, alpha=alpha)
                suffix = "" if alpha == 0.5 else f" alpha={alpha}"
                for name in names:
                    values = {user: found[name] for user, found in by_user.items()}
                    is_new = alpha == 0.5 or not name.startswith(("P-IA", "strec"))
                    if is_new:
                        yield (
                            f"{model}/{relevance}",
                            name + suffix,
                            float(np.mean(list(values.values()))),
                        )
                    if f"{model}/{relevance}" == PER_USER_LIKED_CASE and name == "alpha-nDCG@10":
                        yield PER_USER_LIKED_CASE, name + suffix, values
