"""Names of all built-in metrics, labels for them, and custom metrics of all four base classes."""

import numpy as np
import torch
from torchmetrics.utilities import dim_zero_cat

import weft
from weft.metrics.names import parse_name
from weft.metrics.registry import all_metrics, built_in_metrics, needs_cutoff, prototype

# Metrics that always need an input that is not among the arguments of `evaluate`.
OF_REFERENCE = ["Intersection", "Unexpectedness"]
BUILT_IN = [
    metric.example or metric.__name__
    for metric in built_in_metrics()
    if metric.__name__ not in OF_REFERENCE
]
# Names with other parameters.
VARIANTS = [
    "Precision(denominator=list)",
    "Recall(normalizer=capped)",
    "MAP(normalizer=relevant)",
    "MAP(normalizer=k)",
    "MAP(normalizer=list)",
    "MAP(normalizer=hits)",
    "RPrecision(multiple=0.5)",
    "RPrecision@3",
    "RBP(p=0.5, relevance=graded)",
    "RBP(relevance=graded, max_grade=5)",
    "RBP(normalize=True)",
    "IPrec(recall=0.5)",
    "IPrec(recall=[0.25, 0.5])",
    "Judged(users=lists)",
    "RBPResidual(p=0.5, users=lists)",
    "Accuracy(universe=catalogue)",
    "MCC(universe=catalogue)",
    "DCG(gain=linear, discount=reciprocal)",
    "nDCG(gain=linear)",
    "nDCG(gain=exponential_shifted, ideal=full)",
    "nDCG(gain=binary, ideal=k)",
    "nDCG(gain=[[1, 3], [2, 9]], discount=capped_log)",
    "LAUC(completion=none)",
    "IPSRecall(power=0.25)",
    "SNIPSDCG(power=1, clip=0.3)",
    "IPS(metric=RBP(p=0.5), self_normalized=True)",
    "IPS(metric=Precision(denominator=list), power=1)",
    "GAUC(weight=positives)",
    "GAUC(weight=interactions)",
    "GAUC(max_fpr=0.2)",
    "PartialAUC(insufficient=exclude)",
    "PAP(insufficient=exclude)",
    "AUC(scope=pooled)",
    "F1(metric_name_1=nDCG(gain=linear), metric_name_2=GAUC, beta=0.5)",
    "F1(metric_name_1=EPC, metric_name_2=SRecall)",
    "RMSE(average=users)",
    "LogLoss(cells=offered)",
    "LogLoss(average=users)",
    "ECE(bins=3)",
    "MeanRank(average=items)",
    "MeanRank(mean=geometric)",
    "PercentileRank(average=users)",
    "MAPE(average=users)",
    "R2(average=users)",
    "ExplainedVariance(average=users)",
    "Pearson(average=users)",
    "UserCoverageAtN(n=2, as_fraction=True)",
    "UserCoverage(as_fraction=True, users=evaluated)",
    "NumRetrieved(users=evaluated)",
    "ValidRate(users=evaluated)",
    "DuplicateRate(users=evaluated)",
    "EFD(relevance=graded, gain=linear)",
    "EPC(relevance=none, unseen=1)",
    "EFD(denominator=list)",
    "MIUF(cold_items=skip, denominator=k)",
    "Surprisal(denominator=list, users=evaluated)",
    "Gini(denominator=N, users=evaluated)",
    "Gini(denominator=N, weight=geometric, p=0.5)",
    "ARP(normalize=max)",
    "ARP(unseen=skip)",
    "ItemCoverage(as_fraction=True, universe=train)",
    "APLT(tail_ratio=0.5)",
    "ExpectedExposureLoss(weight=log)",
    "AWRF(weight=geometric)",
    "ShannonEntropy(base=2, normalized=True)",
    "ShannonEntropy(users=evaluated, weights=lists)",
    "Personalization(overlap=cosine, users=evaluated)",
    "ILD(distance=hamming)",
    "ILD(distance=jaccard, users=evaluated)",
    "ILD(distance=cooccurrence)",
    "ILS(distance=jaccard)",
    "Calibration(divergence=js)",
    "Calibration(divergence=hellinger, users=evaluated)",
    "CategoryEntropy(weight=geometric, p=0.5)",
    "alpha_nDCG(alpha=0.25)",
    "ERR_IA(normalize=False)",
    "SRecall(denominator=catalogue, numerator=list)",
    "APLT(denominator=list, users=evaluated, pop_ratio=0.5)",
    "PopRSP(users=evaluated)",
    "ItemMADRanking(discount=False, gain=binary)",
    "ItemMADRanking(users=lists)",
    "ItemMADRating(appearances=all)",
    "UserMADRating(users=evaluated)",
    "EucDistance(metric_names=[Gini, nDCG(gain=linear), RMSE], utopia_points=[0, 1, 0])",
    "EucDistance(metric_names=[nDCG, ARP], utopia_points=[1, 0], scope=users)",
    "Hypervolume(metric_names=[REO, ItemCoverage], nadir_points=[9, 0])",
]
# Metrics of the scores of the truth before masking: neither candidates nor lists change them.
RATINGS = [metric.__name__ for metric in built_in_metrics() if metric.family == "rating"]
# Names of metrics that need inputs that are not among the arguments of `evaluate`.
OF_OTHER_INPUTS = [
    *OF_REFERENCE,
    "ILD",
    "ILS",
    "Serendipity(definition=dissimilarity)",
    "Serendipity(definition=base)",
    "Unexpectedness(users=evaluated)",
    "Intersection(ref_k=2)",
]
# Metrics of accuracy that need scores and truth only.
ACCURACY = [
    metric.example or metric.__name__
    for metric in all_metrics()
    if metric.family == "accuracy" and not metric.needs
]


def has_trait(name, trait):
    """Whether the metric of a name has a property, such as `needs_all_scores`."""
    spec = parse_name(name)
    return getattr(prototype(spec.with_cutoff(1) if needs_cutoff(spec.name) else spec), trait)


def make_labels(num_users, num_items):
    """Return positional labels and features; some are missing."""
    return {
        "user_groups": [("F", "M", None, "M")[number % 4] for number in range(num_users)],
        "item_clusters": [(1, 2, 3, 2, None)[number % 5] for number in range(num_items)],
        "item_features": [
            {"drama", number % 3} - {0} if number % 4 else set() for number in range(num_items)
        ],
    }


BY_POSITION = {"users": "positions", "items": "positions"}


def by_position(source):
    """Arguments of `evaluate` for ids that are row and column numbers of the source."""
    if isinstance(source, (torch.Tensor, np.ndarray, weft.Factors)):
        return BY_POSITION
    is_model = callable(source) or hasattr(source, "score")
    return {"items": "positions"} if is_model else {}


class FirstHalf(weft.UserAverageTopKMetric):
    """Precision in the first half of the list."""

    higher_is_better = True
    bounds = (0.0, 1.0)

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        half = (self.k + 1) // 2
        return top_k_rel[:, :half].sum(dim=1) / half


class FarOff(weft.RatingMetric):
    """Share of ratings with an error above one."""

    bounds = (0.0, 1.0)

    def compute_errors(self, preds, target):
        return ((preds - target).abs() > 1).to(target.dtype)


class ScoreRange(weft.BaseMetric):
    """Highest minus lowest score, from states that are a maximum and a minimum."""

    reads_scores = True

    def __init__(self, **settings):
        super().__init__(**settings)
        self.add_state(
            "highest", torch.tensor(-torch.inf, dtype=torch.float64), dist_reduce_fx="max"
        )
        self.add_state("lowest", torch.tensor(torch.inf, dtype=torch.float64), dist_reduce_fx="min")

    def update(self, preds, **kwargs):
        self.highest = torch.maximum(self.highest, preds.max())
        self.lowest = torch.minimum(
            self.lowest, torch.where(preds > -torch.inf, preds, torch.inf).min()
        )

    def compute(self):
        return self.highest - self.lowest


class Keeper(weft.TopKMetric):
    """A metric with list states of several dtypes and dimensions."""

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        for name in ("listed", "valid", "best", "sizes"):
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, preds, **kwargs):
        self.listed.append(kwargs[f"top_{self.k}_indices"])  # int64, two dimensions
        self.valid.append(kwargs["valid_users"] > 0)  # bool
        self.best.append(kwargs[f"top_{self.k}_values"][:, 0].half())
        self.sizes.append(torch.tensor(len(preds), dtype=torch.int32))  # no dimension

    def compute(self):
        if len(self.sizes) == 0:
            return torch.tensor(torch.nan)
        listed, valid, best, sizes = map(
            dim_zero_cat, (self.listed, self.valid, self.best, self.sizes)
        )
        assert (listed.dtype, valid.dtype, best.dtype, sizes.dtype) == (
            torch.int64,
            torch.bool,
            torch.float16,
            torch.int32,
        )
        assert len(listed) == len(valid) == len(best) == sizes.sum()
        by_place = listed.double() @ torch.logspace(
            0, self.k - 1, self.k, base=3.0, dtype=torch.float64
        )
        return (by_place[valid].sqrt().sum() + best.double().square().sum()) / sizes.sum()


CUSTOM_METRICS = (FirstHalf, FarOff, ScoreRange, Keeper)
