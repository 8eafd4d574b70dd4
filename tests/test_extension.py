"""Custom metrics: base classes, blocks, registration, and use with TorchMetrics."""

import contextlib
import copy
import importlib.metadata
import pickle
import subprocess
import sys
from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection

import weft
from metric_cases import BUILT_IN, make_labels
from weft.batch.batch import Batch
from weft.data.tensors import SparseRows
from weft.errors import MetricError, SettingError, UnknownMetric, UnknownParameter
from weft.metrics import MRR, HitRate, Precision
from weft.metrics.names import parse_name
from weft.metrics.registry import all_metrics, build_metric
from weft.ranking import TieRule, kernels

B = weft.MetricBlock
USERS, ITEMS, K = 20, 12, 4
GENERATOR = torch.Generator().manual_seed(5)
SCORES = torch.rand(USERS, ITEMS, generator=GENERATOR)
SCORES[:, 3] = SCORES[:, 5]  # ties
SCORES[torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.15] = -torch.inf
SCORES[1] = -torch.inf  # nothing is offered
TARGET = torch.randint(1, 6, (USERS, ITEMS), generator=GENERATOR) * (
    torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.3
)
TARGET[2] = 0  # nothing is relevant
TRAIN = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.2).int()


class ByScores(weft.UserAverageTopKMetric):
    """The guide's first style, word for word."""

    def compute_scores(
        self, preds: Tensor, target: Tensor, top_k_rel: Tensor, **kwargs: Any
    ) -> Tensor:
        return top_k_rel.sum(dim=1).float() / self.k


class ByBlocks(weft.TopKMetric):
    """The guide's second style: declared blocks, a slot per user, the number of users from
    the run.
    """

    _REQUIRED_COMPONENTS: ClassVar[set[B]] = {
        B.BINARY_RELEVANCE,
        B.VALID_USERS,
        B.TOP_K_BINARY_RELEVANCE,
    }

    def __init__(self, k: int, num_users: int, **kwargs: Any):
        super().__init__(k, **kwargs)
        self.add_state("hits", torch.zeros(num_users), dist_reduce_fx="sum")
        self.add_state("users", torch.zeros(num_users), dist_reduce_fx="sum")

    def update(self, preds: Tensor, **kwargs: Any):
        target: Tensor = kwargs["binary_relevance"]
        users = kwargs["valid_users"]
        top_k_rel = kwargs[f"top_{self.k}_binary_relevance"]
        assert target.shape == preds.shape
        self.hits.index_add_(0, kwargs["user_indices"], top_k_rel.sum(dim=1) / self.k * users)
        self.users.index_add_(0, kwargs["user_indices"], users)

    def compute(self):
        return self.hits.sum() / self.users.sum()


class ByDefaults(ByBlocks):
    """The same with `kwargs.get`, as the guide prints it."""

    def __init__(self, k: int, num_users: int = USERS, *, scale: float = 1.0, **kwargs: Any):
        super().__init__(k, num_users, **kwargs)
        self.scale = scale

    def update(self, preds: Tensor, **kwargs: Any):
        target: Tensor = kwargs.get("binary_relevance", torch.zeros_like(preds))
        users = kwargs.get("valid_users", self.valid_users(target))
        top_k_rel: Tensor = kwargs.get(
            f"top_{self.k}_binary_relevance", self.top_k_relevance(preds, target, self.k)
        )
        self.hits.index_add_(
            0, kwargs["user_indices"], self.scale * top_k_rel.sum(dim=1) / self.k * users
        )
        self.users.index_add_(0, kwargs["user_indices"], users)


class OnlyDense(ByDefaults):
    """The helpers of the base class have to do the rest."""

    _REQUIRED_COMPONENTS: ClassVar[set[B]] = {B.BINARY_RELEVANCE}


class Scaled(weft.UserAverageTopKMetric):
    """Parameters of every kind of value."""

    _REQUIRED_COMPONENTS: ClassVar[set[B]] = set()

    def __init__(
        self, k: int, *, factor: float = 1.0, of: Any = "hits", weights: Any = (1, 2), **kwargs: Any
    ):
        super().__init__(k, **kwargs)
        self.factor, self.of, self.weights = factor, of, weights

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return self.factor * top_k_rel.mean(dim=1)


STYLES = {
    "compute_scores": ByScores,
    "blocks": ByBlocks,
    "kwargs.get": ByDefaults,
    "helpers": OnlyDense,
}


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """The registry forgets what a test registers; caches of names go with it."""
    monkeypatch.setattr("weft.metrics.registry._classes", dict(weft.metrics.registry._classes))
    yield weft.metrics.registry
    monkeypatch.undo()
    weft.metrics.registry.canonical_name.cache_clear()


def make(style, k=K):
    return style(k) if style is ByScores else style(k, num_users=USERS)


def value(metric, scores=SCORES, target=TARGET, batch=USERS):
    for start in range(0, len(scores), batch):
        rows = slice(start, start + batch)
        metric.update(scores[rows], target[rows], torch.arange(len(scores))[rows])
    return float(metric.compute())


close = pytest.approx


def expected(k=K):
    return close(value(Precision(k)), rel=1e-6)


def quantities_of_batches(monkeypatch):
    """Return a list that gets the computed quantities of every batch that is closed from now on."""
    quantities, close = [], Batch.close

    def collecting(self):
        names = {*vars(self), *self._cache, *vars(vars(self).get("offered", Empty()))}
        names |= {("gains", kind) for kind in self._gains}
        names |= {("hits", k) for k, topk in self._topk.items() if "hits" in vars(topk)}
        quantities.append(names)
        close(self)

    monkeypatch.setattr(Batch, "close", collecting)
    return quantities


class Empty:
    """An object without attributes."""


# ------------------------------------------------------------------------------------- the two styl


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("k", [1, K, ITEMS, 3 * ITEMS])
def test_custom_metrics_alone(style, k):
    assert 0 < value(make(style, k)) == expected(k)
    metric = make(style, k)
    assert value(metric, batch=7) == expected(k)
    metric.reset()
    assert value(metric, batch=1) == expected(k)


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_forward_returns_the_batch_and_accumulates(style):
    metric = make(style)
    rows = [slice(0, 8), slice(8, USERS)]
    for part in rows:
        assert float(metric(SCORES[part], TARGET[part])) == close(
            value(Precision(K), SCORES[part], TARGET[part]), rel=1e-6
        )
    assert float(metric.compute()) == expected()


def test_accepts_given_blocks():
    metric = ByDefaults(K)
    relevance = (TARGET > 0).float()
    metric.update(SCORES, user_indices=torch.arange(USERS), binary_relevance=relevance)
    assert float(metric.compute()) == expected()


@pytest.mark.parametrize("style", [ByScores, ByBlocks, ByDefaults])
@pytest.mark.parametrize(
    "form", ["object", "registered object", "registered class", "registered name"]
)
def test_custom_metrics_in_an_evaluator(style, form):
    if form.startswith("registered"):
        weft.register(style)
    metric = {"registered class": style, "registered name": style.__name__.upper()}.get(
        form
    ) or make(style)
    evaluator = weft.Evaluator(
        [metric, "Precision", "AUC"], top_k=K, train=TRAIN, num_users=USERS, num_items=ITEMS
    )
    for rows in torch.arange(USERS).split(7):
        evaluator.update(SCORES[rows], TARGET[rows], rows)
    result = evaluator.compute()
    assert result[f"{style.__name__}@{K}"] == close(result[f"Precision@{K}"], rel=1e-6)
    evaluator.reset()
    evaluator.update(SCORES[:5], TARGET[:5], torch.arange(5))
    again = evaluator.compute()
    assert (
        again[f"{style.__name__}@{K}"]
        == close(again[f"Precision@{K}"], rel=1e-6)
        != result[f"Precision@{K}"]
    )


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_custom_metrics_in_evaluate(style):
    weft.register(style)
    truth = {
        f"u{row}": {int(i): float(TARGET[row, i]) for i in TARGET[row].nonzero()}
        for row in range(USERS)
    }
    settings = {
        "metrics": [style.__name__, "Precision"],
        "top_k": [2, K],
        "users": [f"u{n}" for n in range(USERS)],
    }
    for more in ({}, {"gone": {0: 1.0}, "away": {1: 1.0}}):
        result = weft.evaluate(SCORES, truth | more, batch_size=6, **settings)
        assert result[f"{style.__name__}@2"] == close(result["Precision@2"], rel=1e-6)
        assert result[f"{style.__name__}@{K}"] == close(result[f"Precision@{K}"], rel=1e-6)


def test_custom_metrics_do_not_replace_built_in_ones():
    own = type(
        "Recall",
        (weft.UserAverageTopKMetric,),
        {"compute_scores": lambda self, preds, target, rel, **_: rel[:, 0] * 0 + 0.125},
    )
    with pytest.raises(
        SettingError, match="has the name of the registered metric Recall; rename it"
    ):
        weft.Evaluator([own(k=K)])


def test_overriding_compute_scores_of_built_in_metrics():
    with contextlib.suppress(SettingError):
        constant = type(
            "Constant",
            (Precision,),
            {"compute_scores": lambda self, preds, target, rel, **_: rel[:, 0] * 0 + 0.125},
        )
        assert value(constant(K)) == 0.125


def test_f1_combines_registered_metrics():
    weft.register(ByScores)
    result = weft.evaluate(
        SCORES, TARGET, metrics=["F1(metric_name_1=byscores)", "F1"], top_k=[2, K]
    )
    for k in (2, K):
        assert result[f"F1(metric_name_1=ByScores)@{k}"] == close(result[f"F1@{k}"], rel=1e-6)


def test_accepts_constructors_with_args():
    class Guide(weft.TopKMetric):
        def __init__(
            self, k: int, num_users: int, *args: Any, dist_sync_on_step: bool = False, **kwargs: Any
        ):
            super().__init__(k, dist_sync_on_step=dist_sync_on_step, **kwargs)

    assert str(Guide(3, 10).spec) == "Guide@3"


# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [ByScores, ByDefaults])
def test_collections_separate_metrics(own):
    metrics = {
        f"{metric.__name__}{k}": metric(k)
        for metric in (own, Precision, HitRate, MRR)
        for k in (1, 3)
    }
    collection = MetricCollection(metrics)  # compute_groups=True is the default
    scores = torch.arange(9.0, 0, -1).expand(4, 9)
    miss, hit = torch.zeros(4, 9), torch.zeros(4, 9)
    miss[:, 8], hit[:, 1] = 1, 1
    for target in (miss, hit):
        collection.update(scores, target, torch.arange(4))
    got = {name: float(value) for name, value in collection.compute().items()}
    name = own.__name__
    assert got == close(
        {
            f"{name}1": 0,
            "Precision1": 0,
            "HitRate1": 0,
            "MRR1": 0,
            f"{name}3": 1 / 6,
            "Precision3": 1 / 6,
            "HitRate3": 0.5,
            "MRR3": 0.25,
        }
    )


def test_collections_separate_settings():
    collection = MetricCollection(
        {
            "all": Precision(2),
            "liked": Precision(2, relevance_threshold=4),
            "zero": Precision(2, empty_users="zero"),
        }
    )
    scores = torch.tensor([[0.9, 0.8, 0.1, 0.0]])
    for target in ([[0, 0, 5, 0]], [[3, 5, 5, 0]], [[0, 0, 0, 0]]):
        collection.update(scores, torch.tensor(target))
    assert {name: float(value) for name, value in collection.compute().items()} == close(
        {"all": 0.5, "liked": 0.25, "zero": 1 / 3}
    )


def test_collections_separate_classes_of_one_name():
    class Once:
        class Worth(weft.UserAverageTopKMetric):
            def compute_scores(self, preds, target, top_k_rel, **kwargs):
                return top_k_rel[:, 0]

    class Twice:
        class Worth(weft.UserAverageTopKMetric):
            def compute_scores(self, preds, target, top_k_rel, **kwargs):
                return 2 * top_k_rel[:, 0]

    collection = MetricCollection({"one": Once.Worth(1), "two": Twice.Worth(1)})
    scores = torch.tensor([[0.9, 0.8]])
    for target in ([[0, 1]], [[1, 0]]):
        collection.update(scores, torch.tensor(target))
    assert {name: float(value) for name, value in collection.compute().items()} == {
        "one": 0.5,
        "two": 1.0,
    }


@pytest.mark.parametrize(
    "clone",
    [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))],
    ids=["deepcopy", "pickle"],
)
@pytest.mark.parametrize("style", [ByScores, ByDefaults])
def test_metrics_and_evaluators_can_be_copied(style, clone):
    weft.register(style)
    metric = make(style)
    metric.update(SCORES[:9], TARGET[:9], torch.arange(9))
    other = clone(metric)
    other.update(SCORES[9:], TARGET[9:], torch.arange(9, USERS))
    assert float(other.compute()) == expected() and other.spec == metric.spec
    metric.reset()
    assert float(other.compute()) == expected()
    evaluator = weft.Evaluator(
        [style.__name__, "nDCG", "AUC(scope=pooled)"],
        top_k=K,
        num_users=USERS,
        num_items=ITEMS,
        per_user=True,
    )
    whole = copy.deepcopy(evaluator)
    evaluator.update(SCORES[:9], TARGET[:9], torch.arange(9))
    further = clone(evaluator)
    further.update(SCORES[9:], TARGET[9:], torch.arange(9, USERS))
    whole.update(SCORES, TARGET, torch.arange(USERS))
    got, wanted = further.compute(), whole.compute()
    assert [got[name] for name in got] == close([wanted[name] for name in wanted])
    assert got.per_user.equals(wanted.per_user) and evaluator.compute().counts["users"] == 9


# ----------------------------------------------------------------------------------------------- th


class Offered(weft.BaseMetric):
    """The share of the catalogue that is offered; no cut-off, sees what the run hands over."""

    def __init__(self, num_users: int | None = None, num_items: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.sizes = (num_users, num_items)
        self.add_state("seen", torch.zeros(2), dist_reduce_fx="sum")
        self.handed: list[dict[str, Tensor]] = []

    def update(self, preds: Tensor, **kwargs: Any):
        self.handed.append(kwargs)
        self.seen += torch.tensor([(preds > -torch.inf).sum(), preds.numel()])

    def compute(self):
        return self.seen[0] / self.seen[1]


def test_metrics_without_cutoff_get_inputs_and_blocks():
    weft.register(Offered)
    evaluator = weft.Evaluator(["Offered"], num_users=USERS, num_items=ITEMS, train=TRAIN)
    evaluator.update(SCORES, TARGET, torch.arange(USERS))
    (metric,) = evaluator.own_metrics
    assert metric.sizes == (USERS, ITEMS)
    assert metric.handed[0].keys() == {
        "binary_relevance",
        "discounted_relevance",
        "valid_users",
        "user_indices",
    }
    shown = SCORES.masked_fill(TRAIN > 0, -torch.inf)
    assert evaluator.compute()["offered"] == close(float((shown > -torch.inf).float().mean()))
    assert (
        weft.evaluate(SCORES, TARGET, metrics="Offered")["Offered"] > evaluator.compute()["Offered"]
    )
    with pytest.raises(SettingError, match=r"without '@5'"):
        weft.Evaluator("Offered@5")


def test_base_metrics_need_no_constructor():
    class Bare(weft.BaseMetric):
        def update(self, preds, **kwargs):
            self.rows = len(preds)

        def compute(self):
            return torch.tensor(float(self.rows))

    assert value(Bare()) == USERS


class Absolute(weft.RatingMetric):
    def compute_errors(self, preds: Tensor, target: Tensor) -> Tensor:
        return (preds - target).abs()


def test_rating_metrics_see_ratings_before_masking():
    weft.register(Absolute)
    result = weft.evaluate(
        SCORES, TARGET, train=TRAIN, metrics=["Absolute"], relevance_threshold=4, batch_size=7
    )
    cells = (TARGET > 0) & SCORES.isfinite()
    assert result["Absolute"] == close(float((SCORES.double() - TARGET)[cells].abs().mean()))
    assert (
        result.counts["ratings_without_score"] == int(((TARGET > 0) & ~SCORES.isfinite()).sum()) > 0
    )
    assert value(Absolute(), batch=3) == close(result["Absolute"])
    assert result.entry("Absolute").higher_is_better is False


def test_metrics_get_user_indices():
    seen = []

    class Who(weft.TopKMetric):
        def update(self, preds, **kwargs):
            seen.append(kwargs["user_indices"].tolist())

        def compute(self):
            return torch.tensor(0.0)

    weft.register(Who)
    weft.evaluate(SCORES, TARGET, metrics="Who@1", batch_size=8)
    assert seen == [list(range(8)), list(range(8, 16)), list(range(16, 20))]
    seen.clear()
    evaluator = weft.Evaluator("Who@1")
    evaluator.update(SCORES[:2], TARGET[:2], torch.tensor([9, 4]))
    Who(1).update(SCORES[:2], TARGET[:2], torch.tensor([8, 3]))
    assert seen == [[9, 4], [8, 3]]


# --------------------------------------------------------------------------------------------------


def blocks_of(required, k, scores=SCORES, target=TARGET):
    """What a metric that declares this is given."""
    given: dict[str, Tensor] = {}

    class Spy(weft.TopKMetric):
        _REQUIRED_COMPONENTS = required

        def update(self, preds, **kwargs):
            given.update(kwargs)

        def compute(self):
            return torch.tensor(0.0)

    Spy(k).update(scores, target)
    return given


def test_offers_declared_blocks_or_all():
    offered = {block.keyword(3) for block in B if block is not B.RATINGS}
    assert blocks_of(None, 3).keys() == offered | {"user_indices"}
    for block in B:
        assert blocks_of({block}, 3).keys() == {block.keyword(3), "user_indices"}
    assert blocks_of(set(), 3).keys() == {"user_indices"}
    assert (
        B.TOP_K_VALUES.keyword(10) == "top_10_values" and B.VALID_USERS.keyword(10) == "valid_users"
    )


@pytest.mark.parametrize("k", [1, K, ITEMS, 3 * ITEMS])
def test_blocks_match_their_definitions(k):
    given = blocks_of(None, k)
    relevance, gains = (TARGET > 0).double(), torch.where(TARGET > 0, 2.0 ** TARGET.double() - 1, 0)
    assert torch.equal(given["binary_relevance"].double(), relevance)
    assert torch.equal(given["discounted_relevance"].double(), gains)
    assert (
        torch.equal(given["valid_users"].double(), relevance.amax(1))
        and given["valid_users"].sum() == USERS - 1
    )
    names = ("indices", "values", "binary_relevance", "discounted_relevance")
    indices, values, rel, gain = (given[f"top_{k}_{name}"] for name in names)
    assert all(tuple(block.shape) == (USERS, k) for block in (indices, values, rel, gain))
    for row in range(USERS):
        offered = [item for item in range(ITEMS) if SCORES[row, item] > -torch.inf]
        ranked = sorted(offered, key=lambda item: (-float(SCORES[row, item]), item))[:k]
        behind = k - len(ranked)
        assert indices[row].tolist() == ranked + [-1] * behind
        assert values[row].tolist() == SCORES[row, ranked].tolist() + [-torch.inf] * behind
        assert rel[row].tolist() == relevance[row, ranked].tolist() + [0] * behind
        assert gain[row].tolist() == gains[row, ranked].tolist() + [0] * behind


@pytest.mark.parametrize("k", [1, K, 3 * ITEMS])
def test_helpers_match_the_blocks(k):
    given, metric = blocks_of(None, k), ByScores(k)
    relevance = given["binary_relevance"]
    assert torch.equal(
        metric.top_k_relevance(SCORES, relevance, k), given[f"top_{k}_binary_relevance"]
    )
    assert torch.equal(
        metric.top_k_relevance(SCORES.T.contiguous().T, TARGET, k) > 0,
        given[f"top_{k}_binary_relevance"] > 0,
    )
    assert torch.equal(metric.valid_users(TARGET), given["valid_users"])


def test_blocks_respect_the_threshold_and_the_mask():
    weft.register(Offered)
    evaluator = weft.Evaluator("Offered", relevance_threshold=4)
    evaluator.update(SCORES, TARGET)
    (handed,) = evaluator.own_metrics[0].handed
    assert torch.equal(handed["binary_relevance"] > 0, TARGET >= 4)
    assert torch.equal(handed["discounted_relevance"] > 0, TARGET >= 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"binary_relevence"},
        {"BINARY_RELEVANCE", B.VALID_USERS},
        {"top_k_indices"},
        B.VALID_USERS,
        "valid_users",
    ],
)
def test_rejects_unknown_blocks(wrong):
    with pytest.raises(SettingError, match=r"Misspelt declares.*MetricBlock.*VALID_USERS"):
        type("Misspelt", (weft.TopKMetric,), {"_REQUIRED_COMPONENTS": wrong})
    with pytest.raises(AttributeError):
        B.BINARY_RELEVENCE  # noqa: B018


def test_rejects_top_k_blocks_without_cutoff():
    with pytest.raises(SettingError, match="TOP_K_INDICES"):
        type("NoCut", (Offered,), {"_REQUIRED_COMPONENTS": {B.TOP_K_INDICES}})().update(
            SCORES, TARGET
        )


@pytest.mark.parametrize("ties", ["index", "expected", "optimistic"])
def test_computes_each_quantity_once_per_batch(ties, monkeypatch):
    for metric in (ByScores, ByDefaults, Scaled):
        weft.register(metric)
    calls: Counter[str] = Counter()
    made = quantities_of_batches(monkeypatch)

    def count(owner, name, label=None):
        original = getattr(owner, name)

        def counting(*args, **kwargs):
            calls[label or name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    count(TieRule, "rank")
    count(SparseRows, "to_dense")
    count(weft.batch.batch, "compute_gain")
    for name in ("scan", "find_positions", "double_ranks"):
        count(kernels.get_kernel(SCORES.device), name)
    metrics = [
        "ByScores",
        "ByDefaults",
        "Scaled",
        "Scaled(factor=2.0)",
        *BUILT_IN,
        "nDCG(gain=linear)",
        "nDCG(ideal=full)",
        "MAP(normalizer=hits)",
    ]
    settings = {
        "top_k": [1, 2, 5, 10, 20],
        "ties": ties,
        "batch_size": 10,
        **make_labels(*SCORES.shape),
    }
    weft.evaluate(SCORES, TARGET, train=TRAIN, metrics=metrics, **settings)
    assert len(made) == 2
    for names in made:
        assert {B.BINARY_RELEVANCE, B.TOP_K_BINARY_RELEVANCE, "ranking", "pairwise_wins"} <= names
        assert len([name for name in names if isinstance(name, tuple) and name[0] == "hits"]) == 1
    per_batch = {name: number / len(made) for name, number in calls.items()}
    ranks = 2 if ties == "expected" else 1  # ties with the last item of a list are counted too
    # Two dense blocks: ByScores declares nothing and is offered everything. Gains: exponential,
    # linear, binary.
    if ties == "index":  # one pass over the scores finds everything
        passes = {"scan": 1}
    else:
        passes = {"rank": 1, "find_positions": 1, "double_ranks": ranks}
    assert per_batch == {**passes, "to_dense": 2, "compute_gain": 3}


@pytest.mark.parametrize(
    ("metrics", "absent"),
    [
        (["AUC", "GAUC"], {"ranking", "items", "positions", "hit_positions"}),
        (
            ["Precision@3", "MRR@3"],
            {"pairwise_wins", "counts", "num_negatives", ("gains", "exponential")},
        ),
        (["nDCG(gain=linear)@3"], {"pairwise_wins", ("gains", "exponential")}),
        (["Scaled@3"], {"pairwise_wins"}),
    ],
)
def test_computes_only_requested_quantities(metrics, absent, monkeypatch):
    weft.register(Scaled)
    made = quantities_of_batches(monkeypatch)
    weft.evaluate(SCORES, TARGET, metrics=metrics)
    assert made and not made[0] & (absent | {B.BINARY_RELEVANCE, B.DISCOUNTED_RELEVANCE})


def test_metrics_cannot_change_shared_blocks():
    class Spoiling(weft.UserAverageTopKMetric):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            top_k_rel.zero_()
            return top_k_rel[:, 0]

    weft.register(Spoiling)
    weft.register(ByScores)
    result = weft.evaluate(SCORES, TARGET, metrics=["Spoiling", "Precision", "ByScores"], top_k=K)
    assert result[f"Precision@{K}"] == expected()


# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("scaled(factor=2)@3", "Scaled(factor=2)@3"),
        ("Scaled(FACTOR=1.0)@3", "Scaled@3"),
        ("scaled(weights=[1, 2], of=hits)@3", "Scaled@3"),
        ("scaled(weights=[3, [4]], factor=0.5)@3", "Scaled(factor=0.5, weights=[3, [4]])@3"),
        ("scaled(of='two words')@3", "Scaled(of='two words')@3"),
        ("scaled(of=nDCG(gain=linear))@3", "Scaled(of=nDCG(gain=linear))@3"),
        ("scaled(of=None)@3", "Scaled(of=None)@3"),
    ],
)
def test_reads_parameters_in_names(written, printed):
    weft.register(Scaled)
    result = weft.evaluate(SCORES, TARGET, metrics=[written, "Precision@3"])
    factor = 2 if "=2" in written else 0.5 if "0.5" in written else 1
    assert list(result) == [printed, "Precision@3"]
    assert result[written] == close(factor * result["precision@3"], rel=1e-6)


@pytest.mark.parametrize(
    ("given", "printed"),
    [({"weights": [3, 4]}, "weights=[3, 4]"), ({"factor": np.float64(2.0)}, "factor=2.0")],
)
def test_metric_objects_have_canonical_names(given, printed):
    weft.register(Scaled)
    evaluator = weft.Evaluator([Scaled(3, **given), "Precision@3"])
    evaluator.update(SCORES, TARGET)
    name = f"Scaled({printed})@3"
    result = evaluator.compute()
    assert list(result) == [name, "Precision@3"]
    assert result[name] == close(given.get("factor", 1) * result["Precision@3"], rel=1e-6)


class Weighted(weft.UserAverageTopKMetric):
    """The weights of the hits, by item number; any array will do."""

    def __init__(self, k: int, *, weights: Any = None, **kwargs: Any):
        super().__init__(k, **kwargs)
        self.weights = weights

    def compute_scores(
        self, preds: Tensor, target: Tensor, top_k_rel: Tensor, **kwargs: Any
    ) -> Tensor:
        items = kwargs[f"top_{self.k}_indices"].clamp(min=0)
        return (top_k_rel * torch.as_tensor(self.weights)[items]).sum(dim=1)


class WeightedSum(weft.BaseMetric):
    """A metric with states of its own, and an array in a list."""

    def __init__(self, *, weights: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.weights = weights
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, preds: Tensor, **kwargs: Any):
        self.total += (kwargs["binary_relevance"] * torch.as_tensor(self.weights[0])).sum()

    def compute(self):
        return self.total


FIRST = torch.rand(2000, generator=GENERATOR, dtype=torch.float64)  # torch prints six numbers of it
SECOND = FIRST.clone()
SECOND[5] += 1e-9  # and four digits of each
SECOND[: ITEMS - 1] += 1e-7
FORMS = {"tensor": lambda vector: vector, "array": lambda vector: vector.numpy()}


@pytest.mark.parametrize("form", FORMS)
def test_metrics_with_array_parameters_are_distinct(form):
    """Two vectors that are printed alike give two metrics, in one run and one after the other."""
    first, second = (Weighted(K, weights=FORMS[form](vector)) for vector in (FIRST, SECOND))
    apart = [weft.evaluate(SCORES, TARGET, metrics=one).entries[0] for one in (first, second)]
    result = weft.evaluate(
        SCORES, TARGET, metrics=[first, second, first], per_user=True, bootstrap=20
    )
    assert [one.name for one in result.entries] == [one.name for one in apart]
    assert [one.value for one in result.entries] == [close(one.value, rel=1e-12) for one in apart]
    assert abs(apart[0].value - apart[1].value) > 1e-9 and apart[0].name != apart[1].name
    for metric, value in zip((first, second), result.entries):
        metric.update(SCORES, TARGET)
        assert float(metric.compute()) == pytest.approx(value.value, abs=1e-12)
        assert result.per_user[value.name].mean() == pytest.approx(value.value, abs=1e-12)
        assert result[value.name] == value.value and value.name == str(metric.spec)
    assert first.own_state_name() != second.own_state_name()


@pytest.mark.parametrize("form", FORMS)
def test_metrics_with_arrays_in_lists_are_distinct(form):
    metrics = [WeightedSum(weights=[FORMS[form](one[:ITEMS])]) for one in (FIRST, SECOND)]
    evaluator = weft.Evaluator(metrics, top_k=[K])
    evaluator.update(SCORES, TARGET)
    values = [one.value for one in evaluator.compute().entries]
    wanted = [((TARGET > 0) * one[:ITEMS]).sum().item() for one in (FIRST, SECOND)]
    assert values == pytest.approx(wanted, abs=1e-12) and values[0] != values[1]
    collection = MetricCollection({str(metric.spec): metric for metric in metrics})
    collection.update(SCORES, target=TARGET)
    found = collection.compute()
    assert [float(found[str(metric.spec)]) for metric in metrics] == pytest.approx(wanted)
    assert len(set(map(float, found.values()))) == 2


def test_changed_arrays_are_other_parameters():
    vector = FIRST.clone()
    metric = Weighted(K, weights=vector)
    before = weft.evaluate(SCORES, TARGET, metrics=metric).entries[0]
    vector += 1
    after = weft.evaluate(SCORES, TARGET, metrics=metric).entries[0]
    again = weft.evaluate(SCORES, TARGET, metrics=Weighted(K, weights=FIRST)).entries[0]
    assert after.value > before.value and after.name != before.name
    assert (again.name, again.value) == (before.name, before.value)


@pytest.mark.parametrize(
    "weights",
    [
        torch.ones(ITEMS, dtype=torch.bfloat16),
        torch.ones(ITEMS).to_sparse(),
        torch.ones(ITEMS, requires_grad=True),
        np.ones(ITEMS)[::-1],
        np.ones((ITEMS, 1))[:, 0],
    ],
)
def test_names_arrays_by_content(weights):
    spec = Weighted(K, weights=weights).spec
    same, other = (Weighted(K, weights=made).spec for made in (weights * 1, weights * 2))
    assert spec == same and hash(spec) == hash(same) and str(spec) == str(same)
    assert spec != other and str(spec) != str(other)


def test_names_unhashable_parameters():
    specs = [Weighted(K, weights=made).spec for made in ({"a": FIRST}, {"a": SECOND}, {1, 2})]
    assert len(set(specs)) == 3 and len(set(map(str, specs))) == 3


def test_parses_names_of_arrays_without_building_them(tmp_path):
    """It parses and prints back; the metric object is needed, for saved states too."""
    metric = Weighted(K, weights=FIRST.numpy())
    name = str(metric.spec)
    assert str(parse_name(name)) == name and parse_name(name) == metric.spec
    with pytest.raises(
        SettingError, match="the name contains only a digest; give the metric object"
    ):
        build_metric(parse_name(name), metric_class=Weighted)
    made = [weft.Evaluator([Weighted(K, weights=FIRST.numpy())]) for _ in range(2)]
    for part, rows in zip(made, (slice(0, 9), slice(9, USERS))):
        part.update(SCORES[rows], TARGET[rows])
        weft.save_state(part, tmp_path / f"{rows.start}.state")
    files = sorted(tmp_path.iterdir())
    with pytest.raises(SettingError, match=r"0\.state"):
        weft.merge_states(files)
    merged = weft.merge_states(files, evaluator=weft.Evaluator([metric]))
    whole = weft.evaluate(SCORES, TARGET, metrics=metric)
    assert merged[name] == pytest.approx(whole[name], abs=1e-12)
    with pytest.raises(SettingError, match="metrics"):
        weft.merge_states(files, evaluator=weft.Evaluator([Weighted(K, weights=SECOND.numpy())]))


def test_saves_results_with_array_parameters(tmp_path):
    result = weft.evaluate(SCORES, TARGET, metrics=Weighted(K, weights=FIRST), per_user=True)
    loaded = weft.load_result(result.save(tmp_path / "a.json"))
    assert [one.name for one in loaded.entries] == [one.name for one in result.entries]
    compared = weft.compare({"a": loaded, "b": result})
    name = result.entries[0].metric
    assert name in repr(loaded)
    assert name.replace(" ", "") in "".join(repr(compared).split())  # long names are folded


def test_rejects_unknown_parameters():
    weft.register(Scaled)
    with pytest.raises(
        UnknownParameter, match=r"Scaled has no parameter 'facter'.*Did you mean 'factor'"
    ):
        weft.Evaluator("Scaled(facter=2)@3")
    with pytest.raises(UnknownParameter, match=r"'facter'.*Did you mean 'factor'"):
        Scaled(3, facter=2)
    with pytest.raises(SettingError, match=r"Forgetful must store its parameter as self.size"):
        type(
            "Forgetful",
            (weft.TopKMetric,),
            {"__init__": lambda self, k, size=3: weft.TopKMetric.__init__(self, k)},
        )(3)


def test_registers_metrics():
    with pytest.raises(UnknownMetric, match=r"'ByScores'.*@weft.register"):
        weft.Evaluator("ByScores@3")
    assert weft.register(ByScores) is ByScores
    assert weft.register(ByScores) is ByScores  # again, as when a cell of a notebook is run twice
    assert ByScores in all_metrics()
    with pytest.raises(
        SettingError,
        match=r"'nDCG' is already registered by weft.metrics.accuracy.discounted_gain",
    ):
        weft.register(type("NDCG", (ByScores,), {}))
    assert weft.metrics.registry.find_metric("ndcg") is weft.metrics.nDCG


def test_registering_again_replaces_a_class():
    for worth in (0.25, 0.5):
        weft.register(
            type(
                "Again",
                (ByScores,),
                {"compute_scores": lambda self, p, t, rel, w=worth, **_: rel[:, 0] * 0 + w},
            )
        )
        assert weft.evaluate(SCORES, TARGET, metrics="Again@2")["again@2"] == worth
        assert weft.evaluate(
            SCORES, TARGET, metrics="F1(metric_name_1=Again, metric_name_2=Again)@2"
        )["F1(metric_name_1=Again, metric_name_2=Again)@2"] == close(worth)


PLUGIN = """
import weft

@weft.register
class FromAfar(weft.UserAverageTopKMetric):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel.sum(dim=1).float() / self.k

class Plain(FromAfar):
    pass
"""
USE = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, weft
for name in ("fromafar", "Plain"):
    try:
        result = weft.evaluate(torch.eye(3), torch.eye(3), metrics=[name, "Precision"], top_k=2)
        print(list(result)[0], result[name + "@2"] == result["Precision@2"] == 0.5)
    except weft.WeftError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def with_plugin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    (folder / "far_metrics.py").write_text(PLUGIN)
    info = folder / "far-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: far\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[weft.metrics]\nwhole = far_metrics\nplain = far_metrics:Plain\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", USE, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_installed_packages_register_metrics(with_plugin):
    assert with_plugin[0] == "FromAfar@2 True"


def test_entry_points_need_no_decorator(with_plugin):
    assert with_plugin[1] == "Plain@2 True"


def test_errors_name_broken_packages(monkeypatch):
    broken = importlib.metadata.EntryPoint(
        "far", "a_package_that_is_not_there:Metric", "weft.metrics"
    )
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [broken])
    with pytest.raises(weft.WeftError, match=r"far.*a_package_that_is_not_there"):
        weft.metrics.registry._load.__wrapped__()


# --------------------------------------------------------------------------------------------------


def author(**body):
    return weft.register(type("Mistaken", (body.pop("base", weft.UserAverageTopKMetric),), body))


MISTAKES = {
    "wrong shape": (
        lambda: author(compute_scores=lambda s, p, t, rel, **_: rel),
        r"Mistaken.compute_scores returned a tensor of shape \[20, 4\]; expected.*\[20\]",
    ),
    "no tensor": (
        lambda: author(compute_scores=lambda s, p, t, rel, **_: 0.5),
        "returned a float; expected a tensor",
    ),
    "no method": (author, "Mistaken must define compute_scores"),
    "no update": (
        lambda: author(base=weft.TopKMetric),
        r"Mistaken must define update\(self, preds, \*\*kwargs\)",
    ),
    "no errors": (lambda: author(base=weft.RatingMetric), "Mistaken must define compute_errors"),
    "no compute": (
        lambda: author(base=weft.TopKMetric, update=lambda s, preds, **_: None),
        "Mistaken must define compute",
    ),
    "no keywords": (
        lambda: author(
            base=weft.TopKMetric, update=lambda s, preds: None, compute=lambda s: torch.tensor(0.0)
        ),
        r"Mistaken.*update\(self, preds, \*\*kwargs\)",
    ),
    "several values": (
        lambda: author(
            base=weft.TopKMetric, update=lambda s, preds, **_: None, compute=lambda s: torch.ones(2)
        ),
        r"Mistaken.* shape \[2\]; expected one number",
    ),
}


@pytest.mark.parametrize(("define", "says"), MISTAKES.values(), ids=MISTAKES)
def test_rejects_wrong_metric_classes(define, says):
    with pytest.raises(SettingError, match=says):  # noqa: PT012 - some mistakes are seen in the definition, some in use
        metric = define()
        weft.evaluate(
            SCORES,
            TARGET,
            metrics="Mistaken" if metric.__base__ is weft.RatingMetric else f"Mistaken@{K}",
        )


def test_rejects_infinite_values():
    author(compute_scores=lambda s, p, t, rel, **_: 1 / (rel.sum(1) * 0))
    with pytest.raises(weft.errors.InputError, match=r"Mistaken@2 is infinite"):
        weft.evaluate(SCORES, TARGET, metrics="Mistaken@2")


def test_exceptions_in_metrics_roll_back_the_batch():
    broken = [True]

    class Moody(weft.TopKMetric):
        def update(self, preds, **kwargs):
            if broken[0]:
                raise ArithmeticError("not today")

        def compute(self):
            return torch.tensor(0.0)

    weft.register(Moody)
    evaluator = weft.Evaluator(["Precision", "Moody"], top_k=K)
    with pytest.raises(MetricError, match="ArithmeticError"):
        evaluator.update(SCORES[:3], TARGET[:3])
    broken[0] = False
    evaluator.update(SCORES, TARGET)
    assert evaluator.compute()[f"Precision@{K}"] == expected()


@pytest.mark.parametrize("how", ["max", "mean"])
def test_rejects_merging_states_without_a_reduction(how):
    class Top(weft.TopKMetric):
        def __init__(self, k, **kwargs):
            super().__init__(k, **kwargs)
            self.add_state("top", torch.tensor(0.0), dist_reduce_fx=how)

        def update(self, preds, **kwargs):
            self.top = torch.maximum(self.top, kwargs[f"top_{self.k}_values"].max())

        def compute(self):
            return self.top

    weft.register(Top)
    a, b, whole = (weft.Evaluator(f"Top@{K}") for _ in range(3))
    a.update(SCORES[:5], TARGET[:5])
    b.update(SCORES[5:], TARGET[5:])
    whole.update(SCORES, TARGET)
    if how == "max":
        a.merge(b)
        assert a.compute()[f"Top@{K}"] == whole.compute()[f"Top@{K}"] > 0
    else:
        with pytest.raises(
            SettingError,
            match=r"Top@4 cannot be merged: its state 'top' is not a sum, a minimum, a maximum or ",
        ):
            a.merge(b)


def test_rejected_batches_are_rolled_back_for_all_metrics():
    class Rows(weft.TopKMetric):
        def __init__(self, k, **settings):
            super().__init__(k, **settings)
            self.add_state("rows", torch.zeros(()), dist_reduce_fx="sum")
            self.add_state("seen", [], dist_reduce_fx="cat")

        def update(self, preds, **kwargs):
            self.rows += len(preds)  # in place
            self.seen.append(preds[:, 0])

        def compute(self):
            return self.rows + len(self.seen) / 100

    class Failing(Rows):
        def update(self, preds, **kwargs):
            super().update(preds, **kwargs)
            if len(preds) < 5:
                raise ArithmeticError("not today")

    evaluator = weft.Evaluator([Rows(K), Failing(K), weft.metrics.Precision(K)])
    with pytest.raises(MetricError, match="ArithmeticError"):
        evaluator.update(SCORES[:3], TARGET[:3])
    evaluator.update(SCORES, TARGET)
    result = evaluator.compute()
    assert result[f"Rows@{K}"] == result[f"Failing@{K}"] == pytest.approx(len(SCORES) + 0.01)
    assert result[f"Precision@{K}"] == expected() and result.counts["users"] == len(SCORES)
