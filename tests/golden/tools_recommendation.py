"""Sections of the tools for recommendation."""

import numpy as np
from inputs import (
    CUTOFFS,
    LISTS,
    MODELS,
    PER_USER_CASE,
    PER_USER_LIKED_CASE,
    RELEVANCES,
    candidates,
    frame,
    items,
    list_frame,
    lists,
    positives,
    predictions,
    relevance_matrix,
    surrogate_scores,
    train,
    truth_frame,
    users,
)


def make_rectools():
    """Users with a relevant item; 0 without a list."""
    from rectools import metrics

    made = {
        "Precision(k={k})": lambda k: metrics.Precision(k=k),
        "Precision(k={k}, r_precision=True)": lambda k: metrics.Precision(k=k, r_precision=True),
        "Recall(k={k})": lambda k: metrics.Recall(k=k),
        "HitRate(k={k})": lambda k: metrics.HitRate(k=k),
        "F1Beta(k={k})": lambda k: metrics.F1Beta(k=k),
        "F1Beta(k={k}, beta=2)": lambda k: metrics.F1Beta(k=k, beta=2),
        "MAP(k={k})": lambda k: metrics.MAP(k=k),
        "MRR(k={k})": lambda k: metrics.MRR(k=k),
        "NDCG(k={k})": lambda k: metrics.NDCG(k=k),
        "NDCG(k={k}, divide_by_achievable=True)": lambda k: metrics.NDCG(
            k=k, divide_by_achievable=True
        ),
        "CatalogCoverage(k={k})": lambda k: metrics.CatalogCoverage(k=k),
        "CatalogCoverage(k={k}, normalize=True)": lambda k: metrics.CatalogCoverage(
            k=k, normalize=True
        ),
        "CoveredUsers(k={k})": lambda k: metrics.CoveredUsers(k=k),
        "AvgRecPopularity(k={k})": lambda k: metrics.AvgRecPopularity(k=k),
    }
    named = {
        template.replace("{k}", str(k)): make(k) for template, make in made.items() for k in CUTOFFS
    }
    before = frame(train(), "user_id", "item_id")
    for model in LISTS:
        reco = list_frame(model, "user_id", "item_id", "score", "rank")
        for relevance in ("binary", "liked"):
            interactions = truth_frame(relevance, "user_id", "item_id", "weight")
            values = metrics.calc_metrics(named, reco, interactions, before, catalog=items())
            for name, value in values.items():
                yield f"{model}/{relevance}", name, float(value)
            if f"{model}/{relevance}" == PER_USER_LIKED_CASE:
                for name in ("NDCG(k=10)", "MAP(k=10)", "F1Beta(k=10, beta=2)"):
                    by_user = named[name].calc_per_user(reco, interactions)
                    yield (
                        PER_USER_LIKED_CASE,
                        name,
                        {user: float(value) for user, value in by_user.items()},
                    )


def make_recbole():
    """The metric classes, called directly, for users with a relevant item and full lists."""
    import torch

    np.float = float  # RecBole uses a name that NumPy has removed
    from recbole.evaluator import metrics
    from recbole.evaluator.collector import DataStruct

    config = {"topk": list(CUTOFFS), "metric_decimal_place": 16}
    number = {item: index + 1 for index, item in enumerate(items())}  # 0 is RecBole's padding
    counts = {number[item]: sum(other == item for _, other in train()) for item in items()}
    classes = (
        metrics.Hit,
        metrics.MRR,
        metrics.MAP,
        metrics.Recall,
        metrics.NDCG,
        metrics.Precision,
    )
    classes += (metrics.ItemCoverage, metrics.AveragePopularity, metrics.GiniIndex)
    for model in MODELS:
        for relevance in ("binary", "liked"):
            kept = positives(relevance)
            order = [user for user in users() if user in kept]
            data = DataStruct()
            hits = [
                [item in kept[user] for item, _ in lists(model)[user]] + [len(kept[user])]
                for user in order
            ]
            data.set("rec.topk", torch.tensor(hits, dtype=torch.int64))
            data.set(
                "rec.items",
                torch.tensor([[number[item] for item, _ in lists(model)[user]] for user in order]),
            )
            data.set("data.num_items", len(items()))
            data.set("data.count_items", counts)
            for metric in classes:
                for name, value in metric(config).calculate_metric(data).items():
                    yield f"{model}/{relevance}", name, float(value)
            for tied in (False, True):
                ranks = []
                for _, s, r in candidates(model, relevance, tied=tied):
                    if r.any():
                        above = (s[None, :] > s[:, None]).sum(axis=1)
                        equal = (s[None, :] == s[:, None]).sum(axis=1)
                        ranks.append([(above + (equal + 1) / 2)[r > 0].sum(), len(s), r.sum()])
                data.set("rec.meanrank", torch.tensor(ranks, dtype=torch.float64))
                value = metrics.GAUC(config).calculate_metric(data)["gauc"]
                yield f"{model}/{relevance}" + ("/tied" if tied else "/all"), "gauc", float(value)


def make_replay():
    """Users with a relevant item; 0 without a list."""
    import polars as pl
    from replay import metrics

    names = ("HitRate", "Precision", "Recall", "MAP", "MRR", "NDCG")
    columns = ("query_id", "item_id", "rating")
    for model in LISTS:
        recommended = pl.DataFrame(list_frame(model, *columns, "rank").to_dict("list")).drop("rank")
        for relevance in ("binary", "liked"):
            relevant = pl.DataFrame(truth_frame(relevance, *columns).to_dict("list"))
            for name in names:
                for call, value in getattr(metrics, name)(list(CUTOFFS))(
                    recommended, relevant
                ).items():
                    yield f"{model}/{relevance}", call, float(value)
            if f"{model}/{relevance}" == PER_USER_LIKED_CASE:
                for name in ("NDCG", "MAP"):
                    metric = getattr(metrics, name)([10], mode=metrics.PerUser())
                    for call, by_user in metric(recommended, relevant).items():
                        values = {user: float(value) for user, value in by_user.items()}
                        yield PER_USER_LIKED_CASE, call.replace("-PerUser", ""), values


def make_lenskit():
    """Users with a list and a relevant item; the plain mean over their lists."""
    from lenskit.data import ItemList
    from lenskit.metrics import MAE, NDCG, RMSE, Hit, ListGini, Precision, Recall, RecipRank
    from lenskit.metrics.ranking import AveragePrecision, LogRankWeight

    shifted = LogRankWeight(offset=1)
    graded = {
        "NDCG(n={k}, gain=rating, weight=LogRankWeight(offset=1))": lambda k: NDCG(
            k, gain="rating", weight=shifted
        ),
    }
    binary = {
        "NDCG(n={k}, weight=LogRankWeight(offset=1))": lambda k: NDCG(k, weight=shifted),
        "Precision(n={k})": Precision,
        "Recall(n={k})": Recall,
        "Hit(n={k})": Hit,
        "RecipRank(n={k})": RecipRank,
        "AveragePrecision(n={k})": AveragePrecision,
    }
    for model in LISTS:
        ranked = {
            user: ItemList([item for item, _ in each], ordered=True)
            for user, each in lists(model).items()
        }
        for relevance in RELEVANCES:
            kept = {user: rated for user, rated in positives(relevance).items() if user in ranked}
            relevant = {
                u: ItemList(list(rated), rating=[float(r) for r in rated.values()])
                for u, rated in kept.items()
            }
            for template, make in (graded if relevance == "rating" else binary).items():
                if model == "short" and make is AveragePrecision:
                    continue  # divides by the length of a list shorter than k
                for k in CUTOFFS:
                    metric = make(k)
                    by_user = {
                        user: float(metric.measure_list(ranked[user], relevant[user]))
                        for user in kept
                    }
                    call = template.replace("{k}", str(k))
                    yield f"{model}/{relevance}", call, float(np.mean(list(by_user.values())))
                    if f"{model}/{relevance}" == PER_USER_CASE and k == 10:
                        yield PER_USER_CASE, call, by_user
        for k in CUTOFFS if model != "short" else ():
            gini = ListGini(k, items=len(items()))
            parts = [gini.compute_list_data(each, None) for each in ranked.values()]
            yield (
                f"{model}/binary",
                f"ListGini(n={k}, items={len(items())})",
                float(gini.global_aggregate(parts)),
            )
    for metric, name in ((RMSE(), "RMSE"), (MAE(), "MAE")):
        parts = []
        by_user = {}
        for user, cells in predictions().items():
            names, rating, predicted = zip(*cells)
            pair = (
                ItemList(list(names), scores=list(predicted)),
                ItemList(list(names), rating=list(rating)),
            )
            parts.append(metric.compute_list_data(*pair))
            by_user[user] = float(metric.measure_list(*pair))
        yield "predictions/rating", f"{name}: global", float(metric.global_aggregate(parts))
        yield (
            "predictions/rating",
            f"{name}: mean over users",
            float(np.mean(list(by_user.values()))),
        )


def make_recommenders():
    """Users of the truth; 0 without a list."""
    from recommenders.evaluation import python_evaluation as tool

    columns = {"col_user": "user", "col_item": "item"}
    ranked = {**columns, "col_prediction": "score", "relevancy_method": "top_k"}
    before = frame(train(), "user", "item")
    for model in LISTS:
        predicted = list_frame(model, "user", "item", "score", "rank").drop(columns="rank")
        for relevance in RELEVANCES:
            case = f"{model}/{relevance}"
            relevant = truth_frame(relevance, "user", "item", "rating")
            for k in CUTOFFS:
                for kind in ("binary",) if relevance != "rating" else ("raw", "exp"):
                    value = tool.ndcg_at_k(
                        relevant, predicted, **ranked, col_rating="rating", k=k, score_type=kind
                    )
                    yield case, f"ndcg_at_k(k={k}, score_type={kind})", float(value)
                for name in (
                    ("precision_at_k", "recall_at_k", "map_at_k") if relevance != "rating" else ()
                ):
                    yield (
                        case,
                        f"{name}(k={k})",
                        float(getattr(tool, name)(relevant, predicted, **ranked, k=k)),
                    )
        for k in CUTOFFS:
            cut = (
                list_frame(model, "user", "item", "score", "rank")
                .query(f"rank <= {k}")
                .drop(columns=["score", "rank"])
            )
            value = tool.distributional_coverage(before, cut, **columns)
            yield f"{model}/binary", f"distributional_coverage: {k} items", float(value)
    rated = [(user, *cell) for user, cells in predictions().items() for cell in cells]
    true = frame(
        ((user, item, rating) for user, item, rating, _ in rated), "user", "item", "rating"
    )
    predicted = frame(
        ((user, item, score) for user, item, _, score in rated), "user", "item", "prediction"
    )
    names = {**columns, "col_rating": "rating", "col_prediction": "prediction"}
    yield "predictions/rating", "rmse", float(tool.rmse(true, predicted, **names))
    yield "predictions/rating", "mae", float(tool.mae(true, predicted, **names))


def make_cornac():
    """Users with a list and a relevant item; whole rankings for AUC and MAP."""
    from cornac import metrics

    number = {item: index for index, item in enumerate(items())}
    made = {
        "NDCG(k={k})": metrics.NDCG,
        "Precision(k={k})": metrics.Precision,
        "Recall(k={k})": metrics.Recall,
        "FMeasure(k={k})": metrics.FMeasure,
        "HitRatio(k={k})": metrics.HitRatio,
    }
    for model in LISTS:
        for relevance in ("binary", "liked"):
            kept = [
                user for user in users() if user in positives(relevance) and user in lists(model)
            ]
            for template, make in made.items():
                for k in CUTOFFS:
                    values = []
                    for user in kept:
                        ranked = np.array([number[item] for item, _ in lists(model)[user]])
                        relevant = np.array([number[item] for item in positives(relevance)[user]])
                        values.append(float(make(k).compute(gt_pos=relevant, pd_rank=ranked)))
                    yield (
                        f"{model}/{relevance}",
                        template.replace("{k}", str(k)),
                        float(np.mean(values)),
                    )
    for model in MODELS:
        for relevance in ("binary", "liked"):
            rows = [(s, r) for _, s, r in candidates(model, relevance, tied=False) if r.any()]
            for name, metric in (("AUC", metrics.AUC()), ("MAP", metrics.MAP())):
                values = [
                    float(
                        metric.compute(
                            item_indices=np.arange(len(s)),
                            pd_scores=s,
                            gt_pos=np.flatnonzero(r),
                            gt_neg=np.flatnonzero(r == 0),
                        )
                    )
                    for s, r in rows
                ]
                yield f"{model}/{relevance}/all", name, float(np.mean(values))


def make_implicit():
    """Users with a relevant item, through a model that recommends the stored lists."""
    import scipy.sparse as sparse
    from implicit import evaluation

    number = {item: index for index, item in enumerate(items())}

    class Stored:
        def __init__(self, model):
            self.lists = lists(model)

        def recommend(self, ids, user_items=None, N=10, **_):
            ranked = np.array(
                [[number[item] for item, _ in self.lists[users()[row]][:N]] for row in ids],
                dtype=np.int32,
            )
            return ranked, -np.broadcast_to(
                np.arange(ranked.shape[1], dtype=np.float32), ranked.shape
            )

    nothing = sparse.csr_matrix((len(users()), len(items())), dtype=np.float32)
    for model in MODELS:
        for relevance in ("binary", "liked"):
            test = sparse.csr_matrix((relevance_matrix(relevance) > 0).astype(np.float32))
            for k in CUTOFFS:
                values = evaluation.ranking_metrics_at_k(
                    Stored(model), nothing, test, K=k, show_progress=False, num_threads=1
                )
                for name in ("map", "ndcg"):
                    yield (
                        f"{model}/{relevance}",
                        f"ranking_metrics_at_k(K={k})[{name}]",
                        float(values[name]),
                    )


def make_recpack():
    """Users with a relevant item; 0 without a list. CoverageK looks at their lists only."""
    import scipy.sparse as sparse
    from recpack import metrics

    rows = {user: row for row, user in enumerate(users())}
    columns = {item: column for column, item in enumerate(items())}
    names = ("NDCGK", "PrecisionK", "RecallK", "CalibratedRecallK", "ReciprocalRankK", "CoverageK")
    for model in LISTS:
        cells = [
            (rows[u], columns[i], s)
            for u, ranked in surrogate_scores(model).items()
            for i, s in ranked.items()
        ]
        row, column, score = (np.array(part) for part in zip(*cells))
        predicted = sparse.csr_matrix((score, (row, column)), shape=(len(users()), len(items())))
        for relevance in ("binary", "liked"):
            relevant = sparse.csr_matrix((relevance_matrix(relevance) > 0).astype(np.float64))
            for name in names:
                for k in CUTOFFS:
                    metric = getattr(metrics, name)(k)
                    metric.calculate(relevant, predicted)
                    yield f"{model}/{relevance}", f"{name}(K={k})", float(metric.value)
