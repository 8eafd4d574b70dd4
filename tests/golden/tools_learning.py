"""Sections of the tools for machine learning."""

import numpy as np
from inputs import (
    CUTOFFS,
    MODELS,
    RELEVANCES,
    candidates,
    item_clusters,
    items,
    lists,
    positives,
    predictions,
    rank_scores,
    relevance_matrix,
    scores,
    train,
    users,
)


def make_sklearn():
    """Whole rankings of the items that are not in train, user by user; the mean over the users."""
    from sklearn import metrics

    for model in MODELS:
        for relevance in RELEVANCES:
            for tied in (False, True):
                case = f"{model}/{relevance}" + ("/tied" if tied else "/all")
                rows = list(candidates(model, relevance, tied=tied))
                for k in CUTOFFS:
                    by_user = {user: metrics.ndcg_score([r], [s], k=k) for user, s, r in rows}
                    yield case, f"ndcg_score(k={k})", float(np.mean(list(by_user.values())))
                    if model == "item_knn" and relevance == "rating" and k == 10:
                        yield case, f"ndcg_score(k={k})", by_user
                if relevance == "rating":
                    continue
                rows = [(user, s, r) for user, s, r in rows if r.any()]
                by_user = {user: metrics.roc_auc_score(r, s) for user, s, r in rows}
                yield case, "roc_auc_score", float(np.mean(list(by_user.values())))
                if model == "item_knn" and relevance == "binary":
                    yield case, "roc_auc_score", by_user
                if tied:  # untied scores of different users cannot be compared
                    pooled = [np.concatenate(parts) for parts in list(zip(*rows))[1:]]
                    value = metrics.roc_auc_score(pooled[1], pooled[0])
                    yield case, "roc_auc_score(pooled)", value
                else:  # scikit-learn takes a tie as one threshold
                    values = [metrics.average_precision_score(r, s) for _, s, r in rows]
                    yield case, "average_precision_score", float(np.mean(values))
    rated = [cell for cells in predictions().values() for cell in cells]
    y_true, y_pred = [cell[1] for cell in rated], [cell[2] for cell in rated]
    for name in ("mean_absolute_error", "mean_squared_error", "root_mean_squared_error"):
        yield "predictions/rating", name, getattr(metrics, name)(y_true, y_pred)


def make_torchmetrics():
    """Whole rankings, scores in (0, 1); tied scores only where TorchMetrics averages over them."""
    import torch
    import torchmetrics
    from torchmetrics import retrieval

    cut = {
        "RetrievalPrecision": retrieval.RetrievalPrecision,
        "RetrievalRecall": retrieval.RetrievalRecall,
        "RetrievalHitRate": retrieval.RetrievalHitRate,
        "RetrievalMRR": retrieval.RetrievalMRR,
        "RetrievalMAP": retrieval.RetrievalMAP,
    }

    def measure(metric, rows):
        indexes = np.concatenate([np.full(len(s), number) for number, (_, s, _) in enumerate(rows)])
        preds, target = (np.concatenate(parts) for parts in list(zip(*rows))[1:])
        tensors = (
            torch.tensor(preds, dtype=torch.float32),
            torch.tensor(target),
            torch.tensor(indexes),
        )
        return float(metric(tensors[0], tensors[1], indexes=tensors[2]))

    for model in MODELS:
        for relevance in RELEVANCES:
            rows = list(candidates(model, relevance, tied=False))
            tied = [(user, s, r) for user, s, r in candidates(model, relevance, tied=True)]
            case = f"{model}/{relevance}"
            for action in ("neg", "skip"):
                for k in CUTOFFS:
                    setting = f"(top_k={k}, empty_target_action={action})"
                    ndcg = retrieval.RetrievalNormalizedDCG(top_k=k, empty_target_action=action)
                    yield f"{case}/all", f"RetrievalNormalizedDCG{setting}", measure(ndcg, rows)
                    yield f"{case}/tied", f"RetrievalNormalizedDCG{setting}", measure(ndcg, tied)
                    for name, metric in cut.items() if relevance != "rating" else ():
                        value = measure(metric(top_k=k, empty_target_action=action), rows)
                        yield f"{case}/all", f"{name}{setting}", value
            if relevance != "rating":
                auroc = retrieval.RetrievalAUROC(empty_target_action="skip")
                yield (
                    f"{case}/all",
                    "RetrievalAUROC(empty_target_action=skip)",
                    measure(auroc, rows),
                )
    rated = [cell for cells in predictions().values() for cell in cells]
    target, preds = (
        torch.tensor([cell[1] for cell in rated]),
        torch.tensor([cell[2] for cell in rated]),
    )
    yield (
        "predictions/rating",
        "MeanAbsoluteError",
        float(torchmetrics.MeanAbsoluteError()(preds, target)),
    )
    yield (
        "predictions/rating",
        "MeanSquaredError",
        float(torchmetrics.MeanSquaredError()(preds, target)),
    )
    rmse = torchmetrics.MeanSquaredError(squared=False)
    yield "predictions/rating", "MeanSquaredError(squared=False)", float(rmse(preds, target))


def make_torcheval():
    """One target per user, the relevant item that comes last in the catalogue; no ties."""
    import torch
    from torcheval.metrics.functional import hit_rate, reciprocal_rank

    for model in MODELS:
        matrix = rank_scores(scores(model))
        relevant = relevance_matrix("binary")
        kept = relevant.any(axis=1)
        preds = torch.tensor(np.nan_to_num(matrix[kept], nan=-1.0), dtype=torch.float32)
        target = torch.tensor(relevant.shape[1] - 1 - relevant[kept][:, ::-1].argmax(axis=1))
        for k in CUTOFFS:
            yield (
                f"{model}/target/all",
                f"hit_rate(k={k})",
                float(hit_rate(preds, target, k=k).mean()),
            )
            yield (
                f"{model}/target/all",
                f"reciprocal_rank(k={k})",
                float(reciprocal_rank(preds, target, k=k).mean()),
            )


def make_pyg():
    """Full lists of all users; users without a relevant item count in the metrics of lists only."""
    import torch
    from torch_geometric import metrics

    number = {item: index for index, item in enumerate(items())}
    counts = [sum(other == item for _, other in train()) for item in items()]
    popularity, category = torch.tensor(counts), torch.tensor(item_clusters()[1])
    ranked = {
        "LinkPredPrecision(k={k})": metrics.LinkPredPrecision,
        "LinkPredRecall(k={k})": metrics.LinkPredRecall,
        "LinkPredF1(k={k})": metrics.LinkPredF1,
        "LinkPredMAP(k={k})": metrics.LinkPredMAP,
        "LinkPredNDCG(k={k})": metrics.LinkPredNDCG,
        "LinkPredMRR(k={k})": metrics.LinkPredMRR,
        "LinkPredHitRatio(k={k})": metrics.LinkPredHitRatio,
    }
    weighted = {
        "LinkPredNDCG(k={k}, weighted=True)": lambda k: metrics.LinkPredNDCG(k, weighted=True)
    }
    listed = {
        "LinkPredCoverage(k={k})": lambda k: metrics.LinkPredCoverage(k, len(items())),
        "LinkPredDiversity(k={k})": lambda k: metrics.LinkPredDiversity(k, category),
        "LinkPredPersonalization(k={k})": metrics.LinkPredPersonalization,
        "LinkPredAveragePopularity(k={k})": lambda k: metrics.LinkPredAveragePopularity(
            k, popularity
        ),
    }
    for model in MODELS:
        rows = torch.tensor([[number[item] for item, _ in lists(model)[user]] for user in users()])
        for relevance in RELEVANCES:
            cells = [
                (row, number[item], value)
                for row, user in enumerate(users())
                for item, value in positives(relevance).get(user, {}).items()
            ]
            edges = torch.tensor([cell[:2] for cell in cells]).T
            weights = torch.tensor([float(cell[2]) for cell in cells])
            made = weighted if relevance == "rating" else ranked
            for template, make in {**made, **(listed if relevance == "binary" else {})}.items():
                for k in CUTOFFS:
                    if k == 1 and "Diversity" in template:
                        continue  # divides by k - 1
                    metric = make(k)
                    metric.update(rows, edges, weights)
                    call = template.replace("{k}", str(k))
                    yield f"{model}/{relevance}", call, float(metric.compute())
