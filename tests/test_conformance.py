"""Conformance checks of weft.testing over all metrics, each with a metric that fails it."""

import pytest
import torch

import weft
from metric_cases import BUILT_IN, OF_OTHER_INPUTS, VARIANTS
from weft.metrics.names import parse_name
from weft.metrics.registry import FAMILIES, built_in_metrics
from weft.testing import CHECKS, check_metric, run_check
from weft.testing.subject import Subject


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("metric", [*BUILT_IN, *VARIANTS, *OF_OTHER_INPUTS])
def test_built_in_metrics_conform(metric, check):
    run_check(check, metric)


def test_every_built_in_metric_is_documented():
    for metric in built_in_metrics():
        assert metric.family in FAMILIES, f"{metric.__name__} has no family"
        assert ">>> " in (metric.__doc__ or ""), f"{metric.__name__} has no example"
        assert metric.reference, f"{metric.__name__} has no reference"
        assert metric.higher_is_better is not None or metric.target is not None, (
            f"{metric.__name__} has no direction"
        )
        assert metric.bounds != (None, None), f"{metric.__name__} has no bounds"


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
    family = "accuracy"

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


class _OfScores(weft.TopKMetric):
    """The best and the worst score, with states that a test can choose."""

    reads_scores = True

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("best", torch.tensor(-torch.inf), dist_reduce_fx=self.how[0])
        self.add_state("worst", torch.tensor(torch.inf), dist_reduce_fx=self.how[1])

    def update(self, preds, **kwargs):
        offered = torch.where(preds > -torch.inf, preds, torch.inf)
        self.best, self.worst = (
            torch.maximum(self.best, preds.max()),
            torch.minimum(self.worst, offered.min()),
        )

    def compute(self):
        return self.best - self.worst


@weft.register
class Extremes(_OfScores):
    how = ("max", "min")


@weft.register
class ShapeOfAMean(_OfScores):
    how = ("max", "mean")


@weft.register
class InfiniteAtOne(_Broken):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel[:, 0] * 0 + 1 / torch.tensor(self.k - 1)


@weft.register
class ByType(_Broken):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel[:, 0] * 0 + preds.element_size() / 8


@weft.register
class AnotherAlone(_Broken):
    def rank(self, preds, *arguments, **options):
        return super().rank(preds.flip(1), *arguments, **options)


@weft.register
class ForgetsInCopies(_Broken):
    def __getstate__(self):
        return {**super().__getstate__(), "sums": torch.zeros_like(self.sums)}


@weft.register
class Swallows(_Broken):
    def __init__(self, k, **settings):
        super().__init__(k)


@weft.register
class Unnameable(_Broken):
    def __init__(self, k, *, alpha=1.0, **settings):
        super().__init__(k, **settings)
        self.alpha = float("inf")


@weft.register
class Unmarked(_Broken):
    def own_state_name(self):
        return "of_anybody"


@weft.register
class LosesShards(_Broken):
    def absorb(self, other):
        pass


B = weft.MetricBlock


@weft.register
class ClampsItems(_Broken):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        kwargs[f"top_{self.k}_indices"].clamp_(min=0)
        return top_k_rel.mean(1)


@weft.register
class WritesByNumpy(_Broken):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        preds.numpy()[:, 0] = 7.0
        return top_k_rel.mean(1)


@weft.register
class AddsToUsers(_OfScores):
    how = ("max", "min")
    _REQUIRED_COMPONENTS = {B.VALID_USERS, B.BINARY_RELEVANCE}

    def update(self, preds, **kwargs):
        users = kwargs["valid_users"]
        users += self.valid_users(kwargs["binary_relevance"])


@weft.register
class RoundsRatings(weft.RatingMetric):
    def compute_errors(self, preds, target):
        return (preds - target.round_()).abs()


@pytest.mark.parametrize(
    ("metric", "tensor"),
    [
        ("ClampsItems", "top_5_indices"),
        ("WritesByNumpy", "preds"),
        ("AddsToUsers", "valid_users"),
        ("RoundsRatings", "target"),
    ],
)
def test_writes_to_given_tensors_are_found(metric, tensor):
    with pytest.raises(AssertionError, match=rf"{metric}.* modifies {tensor}; .*\.clone\(\)"):
        run_check("leaves_its_tensors_unchanged", metric)


BREAKAGES = {
    "leaves_its_tensors_unchanged": "ClampsItems",
    "takes_any_cutoff": "InfiniteAtOne",
    "agrees_between_float_types": "ByType",
    "agrees_standalone": "AnotherAlone",
    "survives_copies": "ForgetsInCopies",
    "merges_shards": "LosesShards",
    "refuses_unknown_parameters": "Swallows",
    "has_a_name_that_parses_back": "Unnameable",
    "stays_separate_in_a_collection": "Unmarked",
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
def test_checks_fail_for_broken_metrics(check, metric):
    with pytest.raises(AssertionError, match=rf"^{metric}.* \(check {check}\)$"):
        run_check(check, metric, tolerance=1e-6)


@weft.register
class WrongDirection(_Broken):
    family, higher_is_better = "accuracy", False


def test_failures_of_the_direction_name_the_rankings():
    message = r"the values 0\.8\d+ of a perfect ranking, .* and 0\.0 of the worst .*=False \("
    with pytest.raises(AssertionError, match=message):
        run_check("prefers_the_perfect_ranking", "WrongDirection")


def test_failures_of_float32_suggest_a_tolerance():
    subject = Subject(parse_name("Recall@5"), 1e-9)
    with pytest.raises(AssertionError, match=r"expected 0\.2; .* float32, set tolerance=1e-6$"):
        subject.agree(0.20000001, 0.2, "batches of 1")
    with pytest.raises(AssertionError, match=r"expected 0\.2$"):
        subject.agree(0.201, 0.2, "batches of 1")


def test_unknown_checks_and_negative_tolerances_are_refused():
    with pytest.raises(weft.errors.SettingError, match=r"tolerance=-1; it must be .* at least 0"):
        check_metric("Recall@5", tolerance=-1)
    with pytest.raises(weft.errors.SettingError, match="Did you mean 'stays_in_bounds'"):
        run_check("stays_in_bound", "Recall@5")


def test_every_check_has_a_broken_metric():
    assert set(BREAKAGES) == set(CHECKS)


def test_rejects_states_that_cannot_be_merged():
    run_check("merges_shards", "Extremes")
    with pytest.raises(
        weft.errors.SettingError, match=r"'worst' is not a sum.*'sum', 'min', 'max' or 'cat'"
    ):
        run_check("merges_shards", "ShapeOfAMean")


@weft.register
class PlainPrecision(_Broken):
    family = "accuracy"

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel.sum(dim=1).float() / self.k


def test_custom_metrics_conform():
    outcomes = check_metric("PlainPrecision", tolerance=1e-6)
    assert outcomes.keys() == CHECKS.keys()
    needless = outcomes.pop("uses_what_it_declares")
    assert needless == "not applicable: it has no update method that declares blocks"
    assert set(outcomes.values()) == {"passed"}


def test_metrics_are_judged_by_what_they_declare():
    @weft.register
    class Misses(weft.UserAverageTopKMetric):
        """A metric of the family custom, in which more hits need not be better."""

        higher_is_better = True

        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return 1 - top_k_rel.mean(1)

    outcomes = check_metric("Misses", tolerance=1e-6)
    assert "family custom" in outcomes["prefers_the_perfect_ranking"]
    assert outcomes["takes_any_cutoff"] == "passed"


def test_inputs_are_those_of_a_run():
    @weft.register
    class MeanPopularity(weft.UserAverageTopKMetric):
        """Reads the popularity of train as a run supplies it."""

        _REQUIRED_COMPONENTS = {weft.MetricBlock.TOP_K_INDICES}

        def __init__(self, k, *, train, user_groups, **settings):
            super().__init__(k, **settings)
            self.popularity, self.num_groups = train.popularity, len(user_groups.names)

        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            listed = kwargs[f"top_{self.k}_indices"]
            return self.popularity.lookup(listed, fill=0).double().mean(1) * self.num_groups

    assert check_metric("MeanPopularity")["agrees_standalone"] == "passed"
