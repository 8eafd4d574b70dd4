"""Section of WarpRec."""

import numpy as np
from inputs import (
    CUTOFFS,
    MODELS,
    RELEVANCES,
    item_clusters,
    items,
    predictions,
    read_rows,
    relevance_matrix,
    scores,
    train,
    untie,
    user_groups,
    users,
)


def make_warprec():
    """The steps of WarpRec's evaluator, for all users at once and with untied scores."""
    import torch
    from scipy.sparse import csr_matrix
    from warprec.evaluation.evaluator import Evaluator
    from warprec.utils.config import ComplexMetricConfig

    columns = {item: column for column, item in enumerate(items())}
    rows = {user: row for row, user in enumerate(users())}
    cells = [rows[user] for user, _ in train()], [columns[item] for _, item in train()]
    matrix = csr_matrix(
        (np.ones(len(train()), dtype=np.float32), cells), shape=(len(users()), len(items()))
    )
    groups, clusters = torch.tensor(user_groups()[1]), torch.tensor(item_clusters()[1])
    names = sorted({name for row in read_rows("items.csv") for name in row["genres"].split("|")})
    features = [
        [float(name in row["genres"].split("|")) for name in names]
        for row in read_rows("items.csv")
    ]
    lookup = torch.tensor([*features, [0.0] * len(names)])

    def measure(metrics, cutoffs, predictions, relevant, settings=(), kept=None):
        kept = np.arange(len(users())) if kept is None else kept
        evaluator = Evaluator(
            list(metrics),
            list(cutoffs),
            matrix,
            complex_metrics=[
                ComplexMetricConfig(name=name, params=params) for name, params in settings
            ],
            feature_lookup=lookup,
            user_cluster=groups,
            item_cluster=clusters,
        )
        evaluator._compute_metrics_step(
            torch.tensor(predictions[kept], dtype=torch.float32),
            torch.tensor(relevant[kept], dtype=torch.float32),
            torch.tensor(kept),
            None,
        )
        for k, values in evaluator.compute_results().items():
            for name, value in values.items():
                number = (
                    float(np.nanmean(value.numpy().astype(np.float64)))
                    if torch.is_tensor(value)
                    else value
                )
                if np.isfinite(number):  # what WarpRec leaves undefined is left out
                    yield f"{name}@{k}", number

    listed = (
        *("Precision", "Recall", "HitRate", "MRR", "MAP", "MAR", "F1", "nDCG", "nDCGRendle2020"),
        *("ItemCoverage", "NumRetrieved", "UserCoverageAtN", "Gini", "ShannonEntropy", "SRecall"),
        *("EFD", "EPC", "ARP", "UserMADRanking", "UserMADRating", "RSP", "REO"),
    )
    disparities = ("BiasDisparityBS", "BiasDisparityBR", "BiasDisparityBD")
    points = {"metric_names": ["nDCG", "Recall"]}
    special = [
        ("EFD", {"relevance": "discounted"}),
        ("EPC", {"relevance": "discounted"}),
        ("EucDistance", {**points, "utopia_points": [1.0, 1.0]}),
        ("Hypervolume", {**points, "nadir_points": [0.0, 0.0], "higher_is_better": [True, True]}),
    ]
    for model in MODELS:
        untied = np.nan_to_num(untie(scores(model)), nan=-np.inf)
        for relevance in RELEVANCES:
            relevant = relevance_matrix(relevance)
            case = f"{model}/{relevance}/untied"
            for call, value in measure(listed, CUTOFFS, untied, relevant):
                if not call.startswith(("RSP_", "REO_")):
                    yield case, call, value
            for call, value in measure((), (10,), untied, relevant, special):
                yield case, call, value
            if case == "item_knn/binary/untied":
                values = dict(measure(disparities, (10,), untied, relevant))
                for call, value in values.items():
                    # BD is 0 or a huge number where BS is 0.
                    if "BD" not in call or values[call.replace("BD", "BS")] > 0:
                        yield case, call, value
                # Weft looks at users with a relevant item, WarpRec at all that it is given.
                kept = np.flatnonzero(relevant.any(axis=1))
                deviations = ("ItemMADRanking", "ItemMADRating")
                yield from (
                    (case, call, value)
                    for call, value in measure(deviations, (10,), untied, relevant, kept=kept)
                )
                for call, value in measure(("RSP", "REO"), (50,), untied, relevant):
                    if "_" in call:
                        yield case, call, value
    predicted = np.zeros((len(users()), len(items())))
    for user, rated in predictions().items():
        for item, _, prediction in rated:
            predicted[rows[user], columns[item]] = prediction
    for call, value in measure(
        ("MAE", "MSE", "RMSE"), (10,), predicted, relevance_matrix("rating")
    ):
        yield "predictions/rating", call.removesuffix("@10"), value
