"""Metrics that are given the same tensors share one ranking, and nothing else changes."""

import copy
import gc
import pickle
import threading
import weakref
from contextlib import nullcontext, suppress

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torchmetrics import MetricCollection

import weft
from metric_cases import BUILT_IN, CUSTOM_METRICS, VARIANTS, make_labels
from weft.data.devices import treat_cpu_as_device
from weft.errors import InputError
from weft.metrics import MRR, HitRate, Precision, nDCG
from weft.metrics.base import metric as metric_module
from weft.metrics.base.shared_batches import SHARED_BATCHES
from weft.metrics.names import parse_name
from weft.metrics.registry import build_metric, needs_cutoff

USERS, ITEMS = 23, 17


def draw(seed=0):
    """Return scores with ties and `-inf`, and ratings from 0 to 3."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 9, (USERS, ITEMS), generator=generator) / 8
    scores[torch.rand((USERS, ITEMS), generator=generator) < 0.1] = -torch.inf
    target = torch.randint(-7, 4, (USERS, ITEMS), generator=generator).clamp(min=0).double()
    return scores, target


@pytest.fixture(autouse=True)
def rankings(monkeypatch):
    """The depth of each ranking that metrics compute."""
    SHARED_BATCHES.__init__()
    depths = []

    def rank(inputs, options):
        depths.append(options.depth)
        return rank_batch(inputs, options)

    rank_batch = metric_module.rank_batch
    monkeypatch.setattr(metric_module, "rank_batch", rank)
    return depths


def value_alone(metric, *batches):
    """Return the value of a new copy of a metric that shares nothing: every tensor is its own."""
    metric = metric.clone()
    metric.reset()
    for arguments in batches:
        metric.update(*(None if one is None else one.clone() for one in arguments))
    return metric.compute()


def same(left, right):
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    return torch.equal(left, right) or bool(torch.isnan(left) & torch.isnan(right))


# --------------------------------------------------------------------------------------------------


def test_metrics_in_a_row_share_one_ranking(rankings):
    scores, target = draw()
    for metric in (nDCG(5), HitRate(5), Precision(3), weft.metrics.AUC()):
        metric.update(scores, target)
    assert rankings == [5]


def test_a_collection_learns_its_largest_cutoff(rankings):
    collection = MetricCollection({f"nDCG@{k}": nDCG(k) for k in (2, 4, 9)})
    for batch in range(3):
        collection.update(*draw(batch))
    assert rankings == [2, 4, 9, 9, 9]
    alone = nDCG(2)
    alone.update(*draw(4))
    alone.update(*draw(5))  # the largest cut-off is that of the batch before
    assert rankings[5:] == [9, 2]


def test_forward_of_a_collection_shares(rankings):
    collection = MetricCollection({"nDCG": nDCG(4), "HitRate": HitRate(4)})
    scores, target = draw()
    found = collection(scores, target)
    assert rankings == [4]
    assert all(same(found[name], value_alone(collection[name], (scores, target))) for name in found)


@pytest.mark.parametrize("ties", ["index", "random", "expected", "pessimistic", "optimistic"])
@pytest.mark.parametrize("threshold", [None, 2.0])
def test_every_metric_has_the_value_that_it_has_alone(ties, threshold, rankings):
    train = (torch.rand((USERS, ITEMS), generator=torch.Generator().manual_seed(1)) < 0.3).int()
    inputs = {**make_labels(USERS, ITEMS), "train": train, "num_users": USERS, "num_items": ITEMS}
    settings = {"relevance_threshold": threshold, "ties": ties, "seed": 3}
    metrics = {}
    for k in (3, 7):
        specs = [parse_name(name) for name in (*BUILT_IN, *VARIANTS)]
        specs = [spec.with_cutoff(k) if needs_cutoff(spec.name) else spec for spec in specs]
        metrics |= {str(spec): build_metric(spec, inputs=inputs, **settings) for spec in specs}
        metrics |= {f"{one.__name__}@{k}": one(k) for one in CUSTOM_METRICS if needs_cutoff(one)}
    batches = [(*draw(seed), torch.arange(USERS)) for seed in range(2)]
    for batch in batches:
        for metric in metrics.values():
            metric.update(*batch)
    assert len(rankings) <= 8
    for name, metric in metrics.items():
        assert same(metric.compute(), value_alone(metric, *batches)), name


def test_candidates_share(rankings):
    scores, target = draw()
    scores.clamp_(min=-1)
    items = torch.stack([torch.randperm(40)[:ITEMS] for _ in range(USERS)])
    metrics = [nDCG(4), HitRate(6), weft.metrics.ItemCoverage(5, num_items=50)]
    for metric in metrics:
        metric.update(scores, target, items=items)
    assert rankings == [4, 6, 6]  # the last has another number of items
    for metric in metrics:
        alone = metric.clone()
        alone.reset()
        alone.update(scores.clone(), target.clone(), items=items.clone())
        assert same(metric.compute(), alone.compute())


# --------------------------------------------------------------------------------------------------
# Arguments and settings that make another ranking


def write_between(arguments, name, write):
    """Update two metrics with the same tensors, one of which is written to in between."""
    first, second = HitRate(3, ties="random"), nDCG(3, ties="random")
    first.update(**arguments)
    write(arguments[name])
    second.update(**arguments)
    alone = nDCG(3, ties="random")
    alone.update(**{name: value.clone() for name, value in arguments.items()})
    return second.compute(), alone.compute()


@pytest.mark.parametrize("name", ["preds", "target", "user_indices", "items"])
@pytest.mark.parametrize("is_view", [False, True])
def test_writing_to_a_tensor_is_noticed(name, is_view):
    items = torch.stack([torch.randperm(ITEMS) for _ in range(USERS)])
    arguments = dict(zip(("preds", "target"), draw()))
    arguments |= {"user_indices": torch.arange(USERS), "items": items}
    arguments["preds"].clamp_(min=-1)
    base = arguments[name]
    if is_view:
        base = torch.cat([base, base])
        arguments[name] = base[:USERS]
    found, alone = write_between(arguments, name, lambda _: base.copy_(base.flip(0)))
    assert same(found, alone)


def test_tensors_with_equal_content_are_not_taken_for_each_other(rankings):
    scores, target = draw()
    nDCG(3).update(scores, target)
    HitRate(3).update(scores.clone(), target)
    HitRate(3).update(scores, target.clone())
    assert len(rankings) == 3


def test_a_metric_does_not_get_the_same_batch_twice():
    """A buffer may be written to through NumPy, which has no version counter."""
    buffer, target, users = np.zeros((USERS, ITEMS), np.float32), draw()[1], torch.arange(USERS)
    preds = torch.from_numpy(buffer)
    metrics = [nDCG(3), HitRate(3)]
    batches = [(draw(seed)[0], target, users) for seed in range(3)]
    for scores, *_ in batches:
        buffer[:] = scores.numpy()
        for metric in metrics:
            metric.update(preds, target, users)
    for metric in metrics:
        assert same(metric.compute(), value_alone(metric, *batches))


@pytest.mark.parametrize(
    ("settings", "others"),
    [
        ({}, {"ties": "random"}),
        ({"ties": "random"}, {"ties": "random", "seed": 1}),
        ({"ties": "optimistic"}, {"ties": "pessimistic"}),
        ({}, {"relevance_threshold": 2.0}),
    ],
)
def test_other_settings_rank_for_themselves(settings, others, rankings):
    scores, target = draw()
    metrics = [nDCG(4, **settings), nDCG(4, **others), HitRate(4, **settings), MRR(4, **others)]
    for metric in metrics:
        metric.update(scores, target)
    assert len(rankings) == 2
    for metric in metrics:
        assert same(metric.compute(), value_alone(metric, (scores, target)))


def test_rows_are_numbered_by_each_metric():
    """Random ties depend on the row numbers, which go on after the rows that a metric has had."""
    first, later = draw(0), draw(1)
    metric, other = nDCG(4, ties="random"), HitRate(4, ties="random")
    metric.update(*first)
    for one in (metric, other):
        one.update(*later)
    assert same(metric.compute(), value_alone(metric, first, later))
    assert same(other.compute(), value_alone(other, later))


def to_sparse(lists):
    return csr_matrix(np.eye(ITEMS)[np.asarray(lists)].sum(1))


@pytest.mark.parametrize("convert", [list, to_sparse])
def test_targets_that_are_no_tensors_are_not_shared(convert, rankings):
    scores, _ = draw()
    relevant = convert([[row % ITEMS, (row + 1) % ITEMS] for row in range(USERS)])
    metrics = [nDCG(3), HitRate(3)]
    metrics[0].update(scores, relevant)
    if isinstance(relevant, list):
        relevant.reverse()
    else:
        relevant.indices[:] = (relevant.indices + 1) % ITEMS
        relevant.has_sorted_indices = False
    metrics[1].update(scores, relevant)
    alone = HitRate(3)
    alone.update(scores.clone(), copy.deepcopy(relevant))
    assert same(metrics[1].compute(), alone.compute())
    assert len(rankings) == 3


# --------------------------------------------------------------------------------------------------
# Modes of torch


def test_inference_tensors_have_no_version_and_are_not_shared(rankings):
    with torch.inference_mode():
        scores, target = draw()
        metrics = [nDCG(3), HitRate(3)]
        metrics[0].update(scores, target)
        scores.neg_().clamp_(max=1)
        metrics[1].update(scores, target)
        assert len(rankings) == 2
        assert same(metrics[1].compute(), value_alone(metrics[1], (scores, target)))


def test_rankings_of_inference_mode_are_not_used_outside(rankings):
    scores, target = draw()
    metrics = [nDCG(3), HitRate(3), nDCG(3), HitRate(3)]
    with torch.inference_mode():
        for metric in metrics[:2]:
            metric.update(scores, target)
    for metric in metrics[2:]:
        metric.update(scores, target)
    assert len(rankings) == 2
    for metric in metrics:
        assert same(metric.compute(), value_alone(metric, (scores, target)))


def test_gradients_and_autocast():
    scores, target = draw()
    scores = scores.clamp(min=-1).requires_grad_()
    metrics = [nDCG(3), HitRate(3), weft.metrics.AUC()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        metrics[0].update(scores, target)
    metrics[1](scores, target)
    with torch.no_grad():
        metrics[2].update(scores, target)
    for metric in metrics:
        assert not metric.compute().requires_grad
        assert same(metric.compute(), value_alone(metric, (scores.detach(), target)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_compiled_functions():
    scores, target = draw()
    metric = HitRate(3)

    @torch.compile(backend="eager")
    def step(preds, truth):
        preds = preds + 1
        metric.update(preds, truth)
        return preds.sum()

    step(scores, target)
    assert same(metric.compute(), value_alone(metric, (scores + 1, target)))


def test_faults_on_a_device_belong_to_the_metric_with_the_input():
    groups = ["a", "b"] * 5
    grouped = build_metric(
        parse_name("BiasDisparityBR").with_cutoff(3),
        inputs={
            "user_groups": groups,
            "item_clusters": ["x"] * ITEMS,
            "train": torch.ones(10, ITEMS),
            "num_items": ITEMS,
        },
    )
    plain, (scores, target) = nDCG(3), draw()
    with treat_cpu_as_device():
        for metric in (grouped, plain):
            metric.update(scores, target, torch.arange(USERS))
    assert plain.compute() > 0
    with pytest.raises(InputError, match="user_indices"):
        grouped.compute()


# --------------------------------------------------------------------------------------------------
# Errors, lifetime, threads, copies


class Failing(weft.UserAverageTopKMetric):
    """A metric that damages what it is given, and fails if it is told to."""

    fails = True

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        for tensor in (preds, target, top_k_rel, *kwargs.values()):
            tensor.zero_()
        if self.fails:
            raise RuntimeError("the author's error")
        return top_k_rel.sum(1)


@pytest.mark.parametrize("fails", [True, False])
def test_metrics_of_authors_do_not_disturb_others(fails):
    scores, target = draw()
    metrics = [nDCG(3), Failing(3), HitRate(3)]
    metrics[1].fails = fails
    metrics[0].update(scores, target)
    with pytest.raises(RuntimeError, match="author") if fails else nullcontext():
        metrics[1].update(scores, target)
    metrics[2].update(scores, target)
    for metric in (metrics[0], metrics[2]):
        assert same(metric.compute(), value_alone(metric, (scores, target)))


def test_every_metric_refuses_bad_scores():
    scores, target = draw()
    scores[3, 4] = torch.nan
    for metric in (nDCG(3), HitRate(3)):
        with pytest.raises(InputError, match="NaN"):
            metric.update(scores, target)
    scores[3, 4] = 0
    metric = HitRate(3)
    metric.update(scores, target)
    assert same(metric.compute(), value_alone(metric, (scores, target)))


class Outer(weft.TopKMetric):
    """A metric that updates another one inside its own update."""

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("total", torch.zeros(()), dist_reduce_fx="sum")
        self.inner = None

    def update(self, preds, **kwargs):
        self.inner[0].update(*self.inner[1])
        self.total += kwargs[f"top_{self.k}_values"][:, 0].clamp(min=0).sum()

    def compute(self):
        return self.total


@pytest.mark.parametrize("has_same_tensors", [True, False])
def test_updates_inside_updates(has_same_tensors):
    batch, other = draw(0), draw(1)
    outer, inner, last = Outer(3), nDCG(3), HitRate(5)
    outer.inner = (inner, batch if has_same_tensors else other)
    outer.update(*batch)
    last.update(*batch)
    assert same(inner.compute(), value_alone(inner, outer.inner[1]))
    assert same(last.compute(), value_alone(last, batch))
    assert float(outer.compute()) == float(batch[0].amax(1).clamp(min=0).sum())


@pytest.mark.parametrize("freed", ["preds", "target"])
@pytest.mark.parametrize("is_view", [False, True])
def test_no_tensor_is_kept_alive(freed, is_view):
    arrays = [tensor.numpy() for tensor in draw()]
    tensors = dict(zip(("preds", "target"), map(torch.from_numpy, arrays)))
    metrics = [nDCG(3), weft.metrics.AUC(), Failing(3)]
    metrics[2].fails = False
    gc.disable()  # no cycle holds the memory either
    try:
        memory = weakref.ref(arrays[freed == "target"])
        if is_view:
            tensors = {name: tensor[:9] for name, tensor in tensors.items()}
        for metric in metrics:
            metric.update(**tensors)
        batch = next(iter(SHARED_BATCHES._latest._rankings.values()))
        assert vars(batch)
        del arrays, tensors[freed]
        assert memory() is None
        assert not vars(batch) and not SHARED_BATCHES._latest._rankings
    finally:
        gc.enable()


def test_an_error_frees_the_batch():
    array = draw()[0].numpy()
    preds, target, memory = torch.from_numpy(array), draw()[1], weakref.ref(array)
    gc.disable()
    try:
        with suppress(RuntimeError):
            Failing(3).update(preds, target)
        del array, preds
        assert memory() is None
    finally:
        gc.enable()


def test_the_next_batch_frees_the_one_before():
    scores, target = draw()
    nDCG(3).update(scores, target)
    batch = next(iter(SHARED_BATCHES._latest._rankings.values()))
    later = draw(1)
    nDCG(3).update(*later)
    assert not vars(batch)
    assert len(SHARED_BATCHES._latest._rankings) == 1


def run_in_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    return thread


def test_threads_do_not_share(rankings):
    scores, target = draw()
    nDCG(3).update(scores, target)
    run_in_thread(HitRate(3).update, scores, target).join()
    assert len(rankings) == 2


def test_threads_find_the_same_values():
    scores, target = draw()
    started, errors = threading.Barrier(4), []

    def work(seed):
        try:
            started.wait()
            for _ in range(5):
                metrics = [nDCG(3), HitRate(5), weft.metrics.AUC()]
                own = draw(seed)
                for metric in metrics:
                    metric.update(scores, target)
                for metric in metrics:
                    metric.update(*own)
                for metric in metrics:
                    assert same(metric.compute(), value_alone(metric, (scores, target), own))
        except BaseException as error:
            errors.append(error)

    for thread in [run_in_thread(work, seed) for seed in range(4)]:
        thread.join()
    assert not errors


def test_the_ranking_is_no_part_of_a_metric():
    scores, target = draw()
    metric = nDCG(3)
    before = len(pickle.dumps(metric))
    metric.update(scores, target)
    assert len(pickle.dumps(metric)) < before + 500
    copies = [copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), metric.clone()]
    for one in (metric, *copies):
        one.update(scores, target)
        assert same(one.compute(), value_alone(metric, (scores, target), (scores, target)))
