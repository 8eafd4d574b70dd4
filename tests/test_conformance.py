"""The conformance checks of weft.testing over the whole registry, and proof that each of them can fail."""

import pytest
import torch

import weft
from weft.registry import all_metrics
from weft.testing import CHECKS, check_metric, run_check

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
]
BUILT_IN = [metric.__name__ for metric in all_metrics() if metric.__module__.startswith("weft.")]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("metric", [*BUILT_IN, *VARIANTS])
def test_built_in_metrics_conform(metric, check):
    run_check(check, metric)


def test_the_twelve_accuracy_metrics_are_there():
    accuracy = {metric.__name__ for metric in all_metrics() if metric.family == "accuracy"}
    names = "AUC F1 GAUC HitRate LAUC MAP MAR MRR nDCG nDCGRendle2020 Precision Recall"
    assert " ".join(sorted(accuracy, key=str.casefold)) == names


def test_every_built_in_metric_is_documented():
    for metric in all_metrics():
        if metric.__module__.startswith("weft."):
            assert ">>> " in (metric.__doc__ or ""), f"{metric.__name__} has no example"
            assert metric.reference, f"{metric.__name__} has no reference"
            assert metric.higher_is_better is not None
            assert metric.bounds != (None, None)


class _Broken(weft.UserAverageTopKMetric):
    """A metric whose value per user a test can choose."""

    higher_is_better = True
    bounds = (0.0, 1.0)

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel.mean(1)


@weft.register
class OutOfBounds(_Broken):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel.sum(1)


@weft.register
class UpsideDown(_Broken):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return 1 - top_k_rel.mean(1)


@weft.register
class ByPlaceInBatch(_Broken):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel.mean(1) * torch.linspace(0, 1, len(preds))


@weft.register
class ByItemNumber(_Broken):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return (kwargs[f"top_{self.k}_indices"] == 0).float().mean(1)


@weft.register
class ByScore(_Broken):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return preds.amax(1).sigmoid()


@weft.register
class DividesByZero(_Broken):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return 1 / (kwargs[f"top_{self.k}_values"] > -torch.inf).sum(1)


@weft.register
class Remembers(weft.TopKMetric):
    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("seen", torch.zeros(()), dist_reduce_fx="sum")
        self.hidden = 0.0

    def update(self, preds, **kwargs):
        self.seen = self.seen + 1
        self.hidden += 1

    def compute(self):
        return self.seen / self.hidden + self.hidden / 64


@weft.register
class DeclaresTooMuch(weft.TopKMetric):
    _REQUIRED_COMPONENTS = {weft.MetricBlock.VALID_USERS, weft.MetricBlock.DISCOUNTED_RELEVANCE}

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("users", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, preds, **kwargs):
        self.users = self.users + kwargs["valid_users"].sum()

    def compute(self):
        return self.users


@weft.register
class ShapeOfAMean(weft.TopKMetric):
    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("best", torch.tensor(-torch.inf), dist_reduce_fx="max")

    def update(self, preds, **kwargs):
        self.best = torch.maximum(self.best, preds.max())

    def compute(self):
        return self.best


BREAKAGES = {
    "stays_in_bounds": "OutOfBounds",
    "prefers_the_perfect_ranking": "UpsideDown",
    "ignores_the_order_of_users": "ByPlaceInBatch",
    "ignores_batches": "ByPlaceInBatch",
    "ignores_item_numbers": "ByItemNumber",
    "ignores_shift_and_scale": "ByScore",
    "survives_empty_users": "DividesByZero",
    "forgets_on_reset": "Remembers",
    "uses_what_it_declares": "DeclaresTooMuch",
}


@pytest.mark.parametrize(("check", "metric"), BREAKAGES.items())
def test_checks_can_fail(check, metric):
    with pytest.raises(AssertionError, match=metric):
        run_check(check, metric, tolerance=1e-6)


def test_states_that_are_not_sums_cannot_be_merged():
    with pytest.raises(weft.errors.SettingError, match="not a sum"):
        run_check("merges_shards", "ShapeOfAMean")


@weft.register
class PlainPrecision(_Broken):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel.sum(dim=1).float() / self.k


def test_a_users_metric_conforms():
    check_metric("PlainPrecision", tolerance=1e-6)
