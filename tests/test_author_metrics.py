"""Metrics of users: means without a cut-off, the blocks they get, and their errors."""

import math

import pytest
import torch
from torchmetrics import MetricCollection

import weft
from weft.errors import SettingError

B = weft.MetricBlock
USERS, ITEMS = 24, 15
GENERATOR = torch.Generator().manual_seed(3)
SCORES = torch.rand(USERS, ITEMS, generator=GENERATOR, dtype=torch.float64)
RATINGS = torch.randint(0, 6, (USERS, ITEMS), generator=GENERATOR).double()
RATINGS[torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.6] = 0
RATINGS[:3] = 0  # users without an interaction
TRUTH = {
    user: {item: float(RATINGS[user, item]) for item in range(ITEMS) if RATINGS[user, item]}
    for user in range(3, USERS)
}


class RelevantCount(weft.UserAverageMetric):
    """The number of relevant items."""

    higher_is_better = True

    def compute_scores(self, preds, target, **kwargs):
        return target.sum(1)


class ListedCount(RelevantCount):
    """The number of relevant items, over all users with scores."""

    users = "lists"


def evaluate(metrics, **options):
    options.setdefault("users", range(USERS))
    return weft.evaluate(SCORES, TRUTH, metrics=metrics, **options)


@pytest.mark.parametrize("threshold", [None, 3.0])
def test_mean_without_cutoff(threshold):
    relevant = RATINGS > 0 if threshold is None else threshold <= RATINGS
    counts = [int(row.sum()) for row in relevant]
    evaluated = [count for count in counts if count]
    result = evaluate([RelevantCount(), ListedCount()], relevance_threshold=threshold)
    entry = result.entry("RelevantCount")
    assert entry.value == pytest.approx(sum(evaluated) / len(evaluated))
    assert entry.users == len(evaluated) and entry.std_error > 0
    assert result["ListedCount"] == pytest.approx(sum(counts) / USERS)
    assert result.entry("ListedCount").users == USERS


def test_mean_without_cutoff_has_everything_that_a_mean_has():
    labels = ["a", "b"] * (USERS // 2)
    options = {
        "per_user": True,
        "bootstrap": 20,
        "slices": {"half": dict(zip(range(USERS), labels))},
    }
    result = evaluate([RelevantCount(), "Recall@3"], **options)
    counts = [int(row.sum()) for row in RATINGS > 0]
    entry = result.entry("RelevantCount")
    assert entry.boot_low < entry.value < entry.boot_high
    table = dict(result.per_user.select("user", "RelevantCount").iter_rows())
    assert {user: count for user, count in enumerate(counts) if count} == table
    rows = result.slices.filter(result.slices["metric"] == "RelevantCount")
    by_group = dict(zip(rows["group"], rows["value"]))
    for group in ("a", "b"):
        own = [count for count, label in zip(counts, labels) if label == group and count]
        assert by_group[group] == pytest.approx(sum(own) / len(own))


def test_mean_without_cutoff_as_torchmetrics_metric():
    collection = MetricCollection({"count": RelevantCount(), "recall": weft.metrics.Recall(k=3)})
    for rows in (slice(0, 10), slice(10, None)):
        collection.update(SCORES[rows], RATINGS[rows])
    assert float(collection.compute()["count"]) == pytest.approx(
        evaluate([RelevantCount()])["RelevantCount"]
    )


def test_mean_without_cutoff_passes_the_checks():
    weft.register(RelevantCount)
    weft.testing.check_metric("RelevantCount", tolerance=1e-6)


@pytest.mark.parametrize("threshold", [None, 3.0])
def test_ratings_are_those_of_the_truth(threshold):
    class MeanRating(weft.UserAverageMetric):
        _REQUIRED_COMPONENTS = {B.RATINGS}

        def compute_scores(self, preds, target, ratings, **kwargs):
            assert target is None
            return ratings.sum(1) / (ratings > 0).sum(1)

    result = evaluate([MeanRating()], relevance_threshold=threshold)
    relevant = RATINGS > 0 if threshold is None else threshold <= RATINGS
    means = [
        float(row.sum() / (row > 0).sum()) for row, mask in zip(RATINGS, relevant) if mask.any()
    ]
    assert result["MeanRating"] == pytest.approx(sum(means) / len(means), rel=1e-12)


def test_log_discounted_gains_sum_to_the_dcg():
    class OwnDCG(weft.UserAverageTopKMetric):
        _REQUIRED_COMPONENTS = {B.TOP_K_LOG_DISCOUNTED_RELEVANCE, B.TOP_K_DISCOUNTED_RELEVANCE}

        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            plain = kwargs[f"top_{self.k}_discounted_relevance"]
            discounted = kwargs[f"top_{self.k}_log_discounted_relevance"]
            discounts = torch.log2(torch.arange(2, self.k + 2).double())
            assert torch.allclose(discounted * discounts, plain)
            return discounted.sum(1)

    expected = []
    for user, ratings in TRUTH.items():
        ranked = sorted(range(ITEMS), key=lambda item: -SCORES[user, item])[:5]
        gains = [2 ** ratings.get(item, 0) - 1 for item in ranked]
        expected.append(sum(gain / math.log2(place + 2) for place, gain in enumerate(gains)))
    assert evaluate([OwnDCG(k=5)])["OwnDCG@5"] == pytest.approx(sum(expected) / len(expected))
    assert evaluate([OwnDCG(k=40)])["OwnDCG@40"] > 0  # positions beyond the catalogue


@pytest.mark.parametrize(
    ("keyword", "message"),
    [
        ("top_5_value", "Did you mean 'top_5_values'"),
        ("ratings", "declare them in _REQUIRED_COMPONENTS: .*RATINGS"),
    ],
)
def test_unknown_blocks_are_named(keyword, message):
    class Mistaken(weft.UserAverageTopKMetric):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return kwargs[keyword].sum(1)

    class MistakenUpdate(weft.TopKMetric):
        def __init__(self, k, **settings):
            super().__init__(k, **settings)
            self.add_state("total", torch.zeros(()), dist_reduce_fx="sum")

        def update(self, preds, **kwargs):
            self.total += kwargs[keyword].sum()

        def compute(self):
            return self.total

    for metric in (Mistaken(k=5), MistakenUpdate(k=5)):
        with pytest.raises(SettingError, match=message) as raised:
            evaluate([metric])
        assert type(metric).__name__ in str(raised.value) and keyword in str(raised.value)


def test_key_errors_of_other_lookups_are_not_changed():
    def look_up(table):
        return table["missing"]

    class Unlucky(weft.UserAverageTopKMetric):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return look_up({})

    with pytest.raises(KeyError, match="missing"):
        Unlucky(k=5).update(SCORES, RATINGS)


def test_unknown_populations_are_refused():
    with pytest.raises(SettingError, match="OfAll declares users = 'all'; expected one of 'lists'"):

        class OfAll(weft.UserAverageTopKMetric):
            users = "all"


class WithoutSuper(weft.SummedTopKMetric):
    def __init__(self, k, **settings):
        self.hits = weft.UserSum(self.count_hits)

    def count_hits(self, lists):
        return lists.hits


def test_constructors_must_call_that_of_the_base_class():
    with pytest.raises(SettingError, match=r"WithoutSuper.__init__ must call super\(\).__init__"):
        weft.evaluate([[0.1, 0.2]], {0: [1]}, metrics=[WithoutSuper], top_k=1)
    with pytest.raises(SettingError, match=r"WithoutSuper.__init__ must call super\(\).__init__"):
        WithoutSuper(1)
