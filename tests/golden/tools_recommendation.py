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
    item_clusters,
    items,
    list_frame,
    lists,
    positives,
    predictions,
    rank_scores,
    read_rows,
    relevance_matrix,
    scores,
    surrogate_scores,
    train,
    truth_frame,
    unmasked_lists,
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
    before = pl.DataFrame(train(), schema=["query_id", "item_id"], orient="row")
    categories = pl.DataFrame({"item_id": items(), "category_id": item_clusters()[1]})
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
        for name in ("Coverage", "Surprisal"):
            values = getattr(metrics, name)(list(CUTOFFS))(recommended, before)
            yield from ((f"{model}/binary", call, float(value)) for call, value in values.items())
        if model != "popularity":
            base = pl.DataFrame(list_frame("popularity", *columns, "rank").to_dict("list"))
            values = metrics.Unexpectedness(list(CUTOFFS))(recommended, base.drop("rank"))
            yield from ((f"{model}/binary", call, float(value)) for call, value in values.items())
        labelled = recommended.join(categories, on="item_id").drop("item_id")
        diversity = metrics.CategoricalDiversity(list(CUTOFFS))(labelled)
        yield from ((f"{model}/binary", call, float(value)) for call, value in diversity.items())
    for model in MODELS:
        rows = [
            (user, item, -float(rank))
            for user, ranked in unmasked_lists(model).items()
            for rank, item in enumerate(ranked)
        ]
        recommended = pl.DataFrame(rows, schema=list(columns), orient="row")
        for call, value in metrics.Novelty(list(CUTOFFS))(recommended, before).items():
            yield f"{model}/binary/unmasked", call, float(value)


def make_lenskit():
    """Users with a list and a relevant item; the plain mean over their lists."""
    from lenskit.data import ItemList, from_interactions_df
    from lenskit.metrics import (
        DCG,
        MAE,
        NDCG,
        RBP,
        RMSE,
        Hit,
        ListGini,
        MeanPopRank,
        Precision,
        Recall,
        RecipRank,
    )
    from lenskit.metrics.ranking import AveragePrecision, ExposureGini, LogRankWeight

    shifted = LogRankWeight(offset=1)
    seen = from_interactions_df(frame(train(), "user_id", "item_id"))
    graded = {
        "NDCG(n={k}, gain=rating)": lambda k: NDCG(k, gain="rating"),
        "DCG(n={k}, gain=rating)": lambda k: DCG(k, gain="rating"),
        "NDCG(n={k}, gain=rating, weight=LogRankWeight(offset=1))": lambda k: NDCG(
            k, gain="rating", weight=shifted
        ),
    }
    binary = {
        "NDCG(n={k}, weight=LogRankWeight(offset=1))": lambda k: NDCG(k, weight=shifted),
        "NDCG(n={k})": NDCG,
        "DCG(n={k})": DCG,
        "RBP(n={k})": RBP,
        "RBP(n={k}, patience=0.5)": lambda k: RBP(k, patience=0.5),
        "RBP(n={k}, normalize=True)": lambda k: RBP(k, normalize=True),
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
        for k in CUTOFFS:
            for gini in (ListGini(k, items=len(items())), ExposureGini(k, items=len(items()))):
                parts = [gini.compute_list_data(each, None) for each in ranked.values()]
                call = f"{type(gini).__name__}(n={k}, items={len(items())})"
                yield f"{model}/binary", call, float(gini.global_aggregate(parts))
            popularity = MeanPopRank(seen, n=k)
            values = [popularity.measure_list(each, None) for each in ranked.values()]
            yield f"{model}/binary", f"MeanPopRank(n={k})", float(np.mean(values))
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
                    ("precision_at_k", "recall_at_k", "map_at_k", "map")
                    if relevance != "rating"
                    else ()
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
            case = f"{model}/binary"
            value = tool.distributional_coverage(before, cut, **columns)
            yield case, f"distributional_coverage: {k} items", float(value)
            if set(cut["item"]) <= set(before["item"]):  # it counts others in odd ways
                value = tool.catalog_coverage(before, cut, **columns)
                yield case, f"catalog_coverage: {k} items", float(value)
                if model != "short":  # a mean over items, not over lists
                    value = tool.novelty(before, cut, **columns)
                    yield case, f"novelty: {k} items", float(value)
            if k in (5, 10):
                value = tool.diversity(before, cut, **columns)
                yield case, f"diversity: {k} items", float(value)
    rated = [(user, *cell) for user, cells in predictions().items() for cell in cells]
    true = frame(
        ((user, item, rating) for user, item, rating, _ in rated), "user", "item", "rating"
    )
    predicted = frame(
        ((user, item, score) for user, item, _, score in rated), "user", "item", "prediction"
    )
    names = {**columns, "col_rating": "rating", "col_prediction": "prediction"}
    for name in ("rmse", "mae", "rsquared", "exp_var"):
        yield "predictions/rating", name, float(getattr(tool, name)(true, predicted, **names))


def make_cornac():
    """Users with a list and a relevant item; whole rankings for AUC and MAP."""
    from cornac import metrics

    number = {item: index for index, item in enumerate(items())}
    made = {
        "NDCG(k={k})": metrics.NDCG,
        "NCRR(k={k})": metrics.NCRR,
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
                if model == "short" and make is metrics.NCRR:
                    continue  # its ideal is no longer than the list
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
            values = [
                float(metrics.MRR().compute(gt_pos=np.flatnonzero(r), pd_rank=np.argsort(-s)))
                for s, r in rows
            ]
            yield f"{model}/{relevance}/all", "MRR", float(np.mean(values))
    for user_based in (True, False):
        for metric, value in _rating_errors(user_based).items():
            yield "predictions/rating", f"{metric}(user_based={user_based})", value


def _rating_errors(user_based):
    """Return the errors that Cornac's `rating_eval` prints."""
    from cornac import metrics
    from cornac.data import Dataset
    from cornac.eval_methods.base_method import rating_eval

    rated = [(user, *cell) for user, cells in predictions().items() for cell in cells]
    data = Dataset.from_uir([(user, item, rating) for user, item, rating, _ in rated])
    predicted = {(data.uid_map[u], data.iid_map[i]): value for u, i, _, value in rated}

    class Stored:
        def rate(self, user_idx, item_idx):
            return np.float64(predicted[user_idx, item_idx])

    made = (metrics.MAE(), metrics.MSE(), metrics.RMSE())
    values, _ = rating_eval(Stored(), made, data, user_based=user_based)
    return {metric.name: float(value) for metric, value in zip(made, values)}


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
    names += ("DCGK",)
    genres = [row["genres"].split("|") for row in read_rows("items.csv")]
    labels = sorted({name for some in genres for name in some})
    features = sparse.csr_matrix([[name in some for name in labels] for some in genres])
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
            if relevance == "binary" and model != "short":  # users without a list count 0
                diversity = metrics.IntraListDiversityK(5)
                diversity.fit(features)
                diversity.calculate(relevant, predicted)
                yield f"{model}/{relevance}", "IntraListDiversityK(K=5)", float(diversity.value)


def make_evidently():
    """A table with all items that are not in train, in the order of the scores, of all users."""
    import pandas as pd
    from evidently import DataDefinition, Dataset, Recsys, Report
    from evidently import metrics as tool

    definition = DataDefinition(
        ranking=[
            Recsys(
                user_id="user",
                item_id="item",
                target="target",
                prediction="prediction",
                recommendations_type="score",
            )
        ]
    )
    cut = (tool.PrecisionTopK, tool.RecallTopK, tool.MAP, tool.MRR, tool.HitRate)
    before = Dataset.from_pandas(frame(train(), "user", "item"), data_definition=definition)
    for model in MODELS:
        matrix = rank_scores(scores(model))
        for relevance in RELEVANCES:
            values = relevance_matrix(relevance)
            rows, columns = np.nonzero(~np.isnan(matrix))
            table = pd.DataFrame(
                {
                    "user": np.array(users())[rows],
                    "item": np.array(items())[columns],
                    "prediction": matrix[rows, columns],
                    "target": values[rows, columns],
                }
            ).sort_values(["user", "prediction"], ascending=[True, False], ignore_index=True)
            data = Dataset.from_pandas(table, data_definition=definition)
            for k in CUTOFFS:
                made = {f"NDCG(k={k})": tool.NDCG(k=k)}
                if relevance != "rating":
                    made |= {f"{make.__name__}(k={k})": make(k=k) for make in cut}
                if relevance == "binary":
                    made |= {
                        f"PopularityBiasMetric(k={k}, metric={name})": tool.PopularityBiasMetric(
                            k=k, metric=name
                        )
                        for name in ("arp", "coverage")
                    }
                    made[f"PopularityBiasMetric(k={k}, normalize_arp=True)"] = (
                        tool.PopularityBiasMetric(k=k, normalize_arp=True)
                    )
                    made[f"Personalization(k={k})"] = tool.Personalization(k=k)
                    made[f"Novelty(k={k})"] = tool.Novelty(k=k)
                run = Report(list(made.values())).run(
                    data, None, additional_data={"current_train_data": before}
                )
                for call, entry in zip(made, run.dict()["metrics"], strict=True):
                    value = entry["value"]  # a number, or a column with one per cut-off
                    number = value["value"][k - 1] if isinstance(value, dict) else value
                    yield f"{model}/{relevance}/all", call, float(number)
