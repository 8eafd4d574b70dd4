"""Every built-in metric by an example name, and whatever they may ask of a run."""

from weft.registry import all_metrics

BUILT_IN = [metric.example or metric.__name__ for metric in all_metrics() if metric.__module__.startswith("weft.")]
# Some of them with other parameters.
VARIANTS = [
    "Precision(denominator=list)",
    "Recall(normalizer=capped)",
    "MAP(normalizer=relevant)",
    "MAP(normalizer=hits)",
    "nDCG(gain=linear)",
    "nDCG(gain=exponential_shifted, ideal=full)",
    "nDCG(gain=binary, ideal=k)",
    "LAUC(completion=none)",
    "GAUC(weight=positives)",
    "GAUC(weight=interactions)",
    "AUC(scope=pooled)",
    "F1(metric_name_1=nDCG(gain=linear), metric_name_2=GAUC, beta=0.5)",
    "F1(metric_name_1=EPC, metric_name_2=SRecall)",
    "RMSE(average=users)",
    "UserCoverageAtN(n=2, as_fraction=True)",
    "EFD(relevance=graded, gain=linear)",
    "EPC(relevance=none, unseen=1)",
    "Gini(denominator=N, users=evaluated)",
    "ShannonEntropy(base=2, normalized=True)",
    "SRecall(denominator=catalogue, numerator=list)",
    "APLT(denominator=list, users=evaluated, pop_ratio=0.5)",
    "PopRSP(users=evaluated)",
    "ItemMADRanking(discount=False, gain=binary)",
    "ItemMADRating(appearances=all)",
    "UserMADRating(users=evaluated)",
    "EucDistance(metric_names=[Gini, nDCG(gain=linear), RMSE], utopia_points=[0, 1, 0])",
    "EucDistance(metric_names=[nDCG, ARP], utopia_points=[1, 0], scope=users)",
    "Hypervolume(metric_names=[REO, ItemCoverage], nadir_points=[9, 0])",
]
ACCURACY = [metric.__name__ for metric in all_metrics() if metric.family == "accuracy"]


def about(num_users, num_items):
    """Labels and features in the order of the ids; some are missing."""
    return {
        "user_groups": [("F", "M", None, "M")[number % 4] for number in range(num_users)],
        "item_clusters": [(1, 2, 3, 2, None)[number % 5] for number in range(num_items)],
        "item_features": [{"drama", number % 3} - {0} if number % 4 else set() for number in range(num_items)],
    }
