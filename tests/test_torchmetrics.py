"""Metrics as TorchMetrics metrics: alone, in collections and in wrappers."""

import copy
import pickle
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib import pyplot
from torchmetrics import MetricCollection, MetricTracker
from torchmetrics.wrappers import (
    BinaryTargetTransformer,
    BootStrapper,
    ClasswiseWrapper,
    LambdaInputTransformer,
    MinMaxMetric,
    MultitaskWrapper,
    Running,
)

import weft
from metric_cases import CUSTOM_METRICS, Keeper, make_labels
from test_torchmetrics_sync import ITEMS, USERS, K, arguments, computed, data, feed, metrics
from weft.errors import InputError, SettingError
from weft.metrics.mean_sums import PLAIN_SUMS
from weft.metrics.registry import needs_cutoff

matplotlib.use("Agg")
PRISTINE = metrics()
SCORES, TARGET = data()
EVERYONE = torch.arange(USERS)
SAME = {"abs": 1e-12, "rel": 1e-12, "nan_ok": True}
every_metric = pytest.mark.parametrize("name", PRISTINE)


def fresh(name):
    return PRISTINE[name].clone()


def floats(value):
    return (
        {key: float(one) for key, one in value.items()}
        if isinstance(value, dict)
        else {"value": float(value)}
    )


@pytest.fixture(scope="module")
def whole():
    """Every metric over all users."""
    return {name: computed(feed(fresh(name))) for name in PRISTINE}


# --------------------------------------------------------------------------------------------------


@every_metric
def test_forward_returns_the_batch_value_and_accumulates(name, whole):
    metric = fresh(name)
    for rows in (slice(0, 9), slice(9, 10), slice(10, USERS)):
        alone = fresh(name)
        alone.update(*arguments(alone, rows))
        assert floats(metric(*arguments(metric, rows))) == pytest.approx(computed(alone), **SAME)
    assert computed(metric) == pytest.approx(whole[name], **SAME)
    assert metric.update_count == 3
    metric.reset()
    assert computed(feed(metric)) == pytest.approx(whole[name], **SAME)


@every_metric
def test_forward_with_full_state_update_gives_the_same_value(name, whole):
    metric = fresh(name)
    metric.dist_sync_on_step = True  # updates twice per batch; there is only one process
    values = [floats(metric(*arguments(metric, rows))) for rows in (slice(0, 9), slice(9, USERS))]
    assert values[0] == pytest.approx(computed(feed(fresh(name), 0, 9)), **SAME)
    assert computed(metric) == pytest.approx(whole[name], **SAME)


@every_metric
def test_merge_state(name, whole):
    """With the metric, its states and its saved states; what was computed before is computed anew,
    and nobody is warned.
    """
    for how in (
        lambda other: other,
        lambda other: other.metric_state,
        lambda other: other.state_dict(),
    ):
        one, other = feed(fresh(name), 0, 11), feed(fresh(name), 11, USERS)
        other.persistent(True)
        computed(one)
        one.merge_state(how(other))
        assert computed(one) == pytest.approx(whole[name], **SAME)
        empty = fresh(name)
        empty.merge_state(how(one if how(other) is other else other))
        assert computed(empty) == pytest.approx(
            whole[name] if how(other) is other else computed(other), **SAME
        )


@every_metric
def test_saved_states(name, whole):
    metric = feed(fresh(name), 0, 17)
    assert (
        metric.state_dict() == {}
    )  # TorchMetrics' habit: nothing in a model's checkpoints unless asked for
    metric.persistent(True)
    saved = pickle.loads(pickle.dumps(metric.state_dict()))
    loaded = fresh(name)
    loaded.load_state_dict(saved)
    assert computed(loaded) == pytest.approx(computed(metric), **SAME)
    assert computed(feed(loaded, 17, USERS)) == pytest.approx(whole[name], **SAME)
    feed(metric, 17, USERS)  # nothing that goes on changes what was saved, or the other way round
    again = fresh(name)
    again.load_state_dict(saved)
    assert computed(again) == pytest.approx(computed(feed(fresh(name), 0, 17)), **SAME)
    untouched = fresh(name)
    untouched.load_state_dict({})
    assert computed(feed(untouched)) == pytest.approx(whole[name], **SAME)


@every_metric
def test_copies_continue_accumulating(name, whole):
    half = feed(fresh(name), 0, 17)
    for other in (copy.deepcopy(half), pickle.loads(pickle.dumps(half)), half.clone()):
        assert computed(feed(other, 17, USERS)) == pytest.approx(whole[name], **SAME)
    assert computed(half) == pytest.approx(computed(feed(fresh(name), 0, 17)), **SAME)


def types(metric):
    return {
        key: [one.dtype for one in (state if isinstance(state, list) else [state])]
        for key, state in metric.metric_state.items()
    }


@every_metric
def test_half_precision_modules_keep_the_dtype_of_sums(name, whole):
    """A model of half precision, as Lightning makes it, leaves the sums as they are."""
    metric = feed(fresh(name), 0, 17)
    before = types(metric)
    module = torch.nn.Module()
    module.metric = metric
    for change in (
        "half",
        "float",
        "double",
        "bfloat16",
        lambda one: one.to(torch.float16),
        lambda one: one.to("cpu", torch.bfloat16),
    ):
        for one in (metric, module):
            if not (one is metric and change == "bfloat16"):  # which TorchMetrics does not shield
                getattr(one, change)() if isinstance(change, str) else change(one)
    assert types(metric) == before
    assert computed(feed(metric, 17, USERS)) == pytest.approx(whole[name], **SAME)
    metric.reset()
    assert computed(feed(metric)) == pytest.approx(whole[name], **SAME)
    module.to("meta")
    states = [
        one
        for state in metric.metric_state.values()
        for one in (state if isinstance(state, list) else [state])
    ]
    assert {one.device.type for one in states} == {metric.device.type} == {"meta"}


def test_set_dtype_changes_the_dtype_of_sums():
    metric = feed(weft.metrics.nDCG(K))
    metric.set_dtype(torch.float32)
    assert {one.dtype for one in metric.metric_state.values()} == {torch.float32, torch.int64}
    assert float(feed(metric).compute()) == pytest.approx(
        float(feed(weft.metrics.nDCG(K)).compute()), abs=1e-6
    )


@pytest.mark.slow
@every_metric
def test_plots_have_title_and_bounds(name):
    metric = feed(fresh(name))
    value = metric.compute()
    _, axes = metric.plot()
    assert axes.get_ylabel() == metric.title
    low, high = metric.bounds
    bottom, top = axes.get_ylim()
    assert (low is None or bottom <= low) and (high is None or high <= top < high + 1)
    assert metric.plot([value, value, value], ax=axes)[1] is axes
    pyplot.close("all")


@pytest.mark.parametrize("name", ["nDCG", "ItemCoverage", "BiasDisparityBR", "hr"])
def test_plots_undefined_values(name, tmp_path):
    metric = feed(fresh(name))
    value = metric.compute()
    undefined = (
        {key: one * torch.nan for key, one in value.items()}
        if isinstance(value, dict)
        else value * torch.nan
    )
    for place, given in enumerate((None, undefined, [value, undefined], [value, value])):
        metric.plot(given)[0].savefig(tmp_path / f"{place}.png")
    if not isinstance(value, dict):
        assert metric.plot([0.25, 0.5])[1].lines[0].get_ydata().tolist() == [0.25, 0.5]
    with pytest.raises(InputError, match="no value to plot"):
        metric.plot([])
    pyplot.close("all")


@every_metric
def test_arithmetic_and_hashes(name):
    metric, other = feed(fresh(name)), feed(fresh(name), 0, 11)
    assert len({metric, other, metric}) == 2
    value = metric.compute()
    if not isinstance(value, dict):
        half = (metric + other) / 2
        assert float(half.compute()) == pytest.approx(
            (float(value) + float(other.compute())) / 2, **SAME
        )
        half.reset()
        half.update(*arguments(metric, slice(0, 11)))
        assert float(half.compute()) == pytest.approx(
            float(feed(fresh(name), 0, 11).compute()), **SAME
        )


@pytest.mark.parametrize("name", ["AUC(scope=pooled)", "Keeper"])
def test_list_states_on_the_cpu(name, whole):
    made = (
        Keeper(K, compute_on_cpu=True)
        if name == "Keeper"
        else weft.metrics.AUC(scope="pooled", compute_on_cpu=True)
    )
    assert computed(feed(made, size=7)) == pytest.approx(whole[name], **SAME)
    made.merge_state(made.clone())
    assert computed(made) == pytest.approx(
        whole[name], **SAME
    )  # everybody twice is nothing new here


def test_numbers_rows_without_user_indices():
    """Random ties hash the row's number: `forward`, saving and merging must not begin anew."""
    scores = torch.zeros(30, 9)
    target = torch.arange(30)[:, None] % 9
    parts = [slice(0, 10), slice(10, 13), slice(13, 30)]

    def made():
        return weft.metrics.nDCG(k=3, ties="random", seed=4)

    whole = made()
    whole.update(scores, target)
    stepwise, saved = made(), made()
    for rows in parts:
        stepwise(scores[rows], target[rows])
        resumed = made()
        saved.persistent(True)
        resumed.load_state_dict(saved.state_dict())
        resumed.update(scores[rows], target[rows])
        saved = resumed
    assert (
        float(whole.compute())
        == float(stepwise.compute())
        == pytest.approx(float(saved.compute()), abs=1e-15)
    )
    full = weft.metrics.nDCG(k=3, ties="random", seed=4, dist_sync_on_step=True)
    for rows in parts:
        full(scores[rows], target[rows])
    assert float(full.compute()) == pytest.approx(float(whole.compute()), abs=1e-15)
    whole.reset()
    whole.update(scores, target)
    assert float(whole.compute()) == float(stepwise.compute())


@pytest.mark.parametrize(
    "name", [name for name in PRISTINE if name != "ScoreRange"]
)  # its author takes the maximum of nothing
def test_empty_batches_add_nothing(name, whole):
    metric = feed(fresh(name), 0, 17)
    before = computed(metric)
    metric(*arguments(metric, slice(0, 0)))
    assert computed(metric) == pytest.approx(before, **SAME)
    metric.update(*arguments(metric, slice(0, 0)))
    assert computed(feed(metric, 17, USERS)) == pytest.approx(whole[name], **SAME)


class WithRawInputs(weft.BaseMetric):
    """Of an author: keeps what it was given as it is."""

    def __init__(self, *, train, **settings):
        super().__init__(**settings)
        self._train = train
        self.add_state("rows", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, preds, **kwargs):
        self.rows = self.rows + len(preds)

    def compute(self):
        return self.rows / len(self._train)


def test_custom_metrics_may_store_inputs():
    one, other = (WithRawInputs(train=other_train(seed)) for seed in (1, 2))
    one(SCORES, TARGET)
    other.update(SCORES[:3], TARGET[:3])
    one.merge_state(other)
    assert float(one.compute()) == pytest.approx((USERS + 3) / USERS)


@every_metric
def test_failed_updates_do_not_change_the_state(name):
    metric = feed(fresh(name), 0, 17)
    value = computed(metric)
    bad = (
        (torch.tensor([[0]]),)
        if "ranks" in metric._update_signature.parameters
        else (SCORES * torch.nan, TARGET, EVERYONE)
    )
    for failing in (metric, metric.update):
        with pytest.raises(InputError):
            failing(*bad)
        assert computed(metric) == pytest.approx(value, **SAME)
    assert computed(feed(metric, 17, USERS)) == pytest.approx(computed(feed(fresh(name))), **SAME)


# --------------------------------------------------------------------------------------------------


def other_train(seed):
    return (torch.rand((USERS, ITEMS), generator=torch.Generator().manual_seed(seed)) < 0.3).int()


OTHERS = {
    "another metric": lambda: (weft.metrics.Recall(K), weft.metrics.Precision(K)),
    "another cut-off": lambda: (weft.metrics.Recall(K), weft.metrics.Recall(K + 1)),
    "another parameter": lambda: (
        weft.metrics.Recall(K),
        weft.metrics.Recall(K, normalizer="capped"),
    ),
    "another setting": lambda: (weft.metrics.Recall(K), weft.metrics.Recall(K, ties="random")),
    "another input": lambda: (
        weft.metrics.EPC(K, train=other_train(1)),
        weft.metrics.EPC(K, train=other_train(2)),
    ),
    "another size": lambda: (
        weft.metrics.Gini(K, num_items=ITEMS),
        weft.metrics.Gini(K, num_items=ITEMS + 1),
    ),
    "another of ranks": lambda: (weft.HR(K), weft.MRR(K)),
    "another cut-off of ranks": lambda: (weft.HR(K), weft.HR(K + 1)),
    "ranks and lists": lambda: (weft.MRR(K), weft.metrics.MRR(K)),
    "lists and ranks": lambda: (weft.metrics.MRR(K), weft.MRR(K)),
    "somebody's": lambda: (weft.metrics.MRR(K), Running(weft.metrics.MRR(K), 2)),
    "theirs": lambda: (weft.HR(K), Running(weft.metrics.MRR(K), 2)),
}


@pytest.mark.parametrize("pair", OTHERS.values(), ids=OTHERS)
def test_rejects_states_of_other_metrics(pair):
    metric, other = pair()
    other.persistent(True)
    for merged in (other, other.metric_state, other.state_dict()):
        with pytest.raises(SettingError, match=f"^{metric.title}.*(cannot be merged|cannot load)"):
            metric.merge_state(merged)
    for persistent in (False, True):
        metric.persistent(persistent)
        with pytest.raises((SettingError, RuntimeError), match=r"cannot load|Unexpected key"):
            metric.load_state_dict(other.state_dict())
    assert all(float(state.sum()) == 0 for state in metric.metric_state.values())


def test_rejects_values_that_are_not_states():
    metric = weft.metrics.Recall(K)
    for wrong in ([1], None, 3.0):
        with pytest.raises(
            SettingError, match=r"Recall@5 cannot be merged with (a list|None|a float); expected"
        ):
            metric.merge_state(wrong)
    with pytest.raises(SettingError, match=r"states without 'sums'; got no states"):
        metric.merge_state({})
    metric.persistent(True)
    states = metric.state_dict()
    for cut in (states["sums"][:2], [states["sums"]]):
        with pytest.raises(
            SettingError,
            match=rf"cannot load the state 'sums', which is.*expected shape \[{len(PLAIN_SUMS)}\]",
        ):
            metric.load_state_dict(states | {"sums": cut})


def test_modules_load_checkpoints_with_and_without_metric_states():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.metrics = MetricCollection({"a": weft.metrics.nDCG(K), "b": weft.HR(K)})

    model = Model()
    model.metrics["a"].update(SCORES, TARGET)
    plain = model.state_dict()
    assert set(plain) == {"layer.weight", "layer.bias"}
    model.metrics["a"].persistent(True)
    full = model.state_dict()
    other = Model()
    other.load_state_dict(full)
    assert float(other.metrics["a"].compute()) == float(model.metrics["a"].compute())
    model.load_state_dict(plain)
    assert float(other.metrics["a"].compute()) == float(model.metrics["a"].compute())


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [name for name, metric in PRISTINE.items() if isinstance(metric, weft.BaseMetric)]
)
def test_candidates_match_the_evaluator(name):
    """Some scores with their items, as `Evaluator.update` takes them; all items that way are the
    same as the scores of all.
    """
    metric = fresh(name)
    drawn = torch.rand((USERS, ITEMS), generator=torch.Generator().manual_seed(2)).argsort(1)[:, :9]
    drawn[3, 5:] = -1
    scores = SCORES.gather(1, drawn.clamp(min=0))
    metric.update(scores, TARGET, EVERYONE, items=drawn)
    inputs = {
        **make_labels(USERS, ITEMS),
        "train": other_train(1),
        "num_users": USERS,
        "num_items": ITEMS,
    }
    evaluator = weft.Evaluator([metric], mask_seen=False, **inputs)
    evaluator.update(scores, TARGET, EVERYONE, items=drawn)
    result, found = evaluator.compute(), computed(metric)
    for key, value in found.items():
        assert value == pytest.approx(result[metric.title if key == "value" else key], **SAME)
    every = fresh(name)
    order = torch.arange(ITEMS).flip(0).expand(USERS, -1)
    every.update(SCORES.flip(1), TARGET.flip(1), EVERYONE, items=order)
    assert computed(every) == pytest.approx(computed(feed(fresh(name))), **SAME)


def test_number_of_items_with_candidates():
    """A matrix or the metric's inputs tell; else it is enough to know the numbers that occur."""
    scores, items = torch.tensor([[0.9, 0.5, 0.7]]), torch.tensor([[4, 30, 7]])
    dense = torch.zeros(1, 50)
    dense[0, 30] = 1
    for target in (
        dense,
        dense.bool(),
        dense.to_sparse(),
        [[30]],
        torch.tensor([[30]]),
        torch.tensor([30]),
        torch.tensor([[0, 1, 0]]),
    ):
        metric = weft.metrics.MRR(k=5)
        metric.update(scores, target, items=items)
        assert float(metric.compute()) == pytest.approx(1 / 3)
    covered = weft.metrics.ItemCoverage(k=2, num_items=50)
    covered.update(scores, [[30]], items=items)
    assert float(covered.compute()) == 2
    with pytest.raises(InputError, match="items has 30; item numbers range from 0 to 9"):
        weft.metrics.ItemCoverage(k=2, num_items=10).update(scores, [[3]], items=items)
    with pytest.raises(InputError, match="items has shape"):
        weft.metrics.MRR(k=5).update(scores, [[30]], items=items[:, :2])


# --------------------------------------------------------------------------------------------------


def all_misses():
    """A first batch without a hit, after which many states look alike."""
    target = torch.zeros_like(TARGET)
    return SCORES, target.scatter_(1, SCORES.argmin(1, keepdim=True), 1.0), EVERYONE


def in_collections():
    found = {
        name: metric
        for name, metric in PRISTINE.items()
        if isinstance(metric, weft.BaseMetric) and "." not in name
    }
    return {name: fresh(name) for name in found}


def test_collection_of_all_metrics_matches_the_evaluator():
    inputs = {
        **make_labels(USERS, ITEMS),
        "train": other_train(1),
        "num_users": USERS,
        "num_items": ITEMS,
    }
    members = in_collections()
    assert len(members) > 60
    evaluator = weft.Evaluator(list(members.values()), mask_seen=False, **inputs)
    collection = MetricCollection(members, prefix="val_", postfix="_full")
    batches = [
        all_misses(),
        (SCORES[:7], TARGET[:7], EVERYONE[:7]),
        (SCORES[7:], TARGET[7:], EVERYONE[7:]),
    ]
    for _ in range(2):
        for scores, target, users in batches:
            evaluator.update(scores, target, users)
            collection.update(scores, target, user_indices=users)
        result, found = evaluator.compute(), collection.compute()
        assert all(len(group) == 1 for group in collection.compute_groups.values())
        names = {f"val_{name}_full": metric.title for name, metric in members.items()}
        for key, value in found.items():
            title = names.get(key, key.removeprefix("val_").removesuffix("_full"))
            assert float(value) == pytest.approx(result[title], **SAME), key
        assert len(found) >= len(members)
        evaluator.reset()
        collection.reset()


def several():
    return {
        f"{kind.__name__}@{k}": kind(k)
        for kind in (weft.metrics.nDCG, weft.metrics.MRR, weft.metrics.HitRate)
        for k in (1, 5, 10)
    }


def expected(rows=slice(None)):
    evaluator = weft.Evaluator(["nDCG", "MRR", "HitRate"], top_k=[1, 5, 10])
    evaluator.update(SCORES[rows], TARGET[rows])
    result = evaluator.compute()
    return {name: result[name] for name in several()}


@pytest.mark.parametrize("groups", [True, False])
def test_collection_of_several_cutoffs(groups):
    collection = MetricCollection(several(), compute_groups=groups)
    collection.update(*all_misses()[:2])
    collection.reset()
    first = collection(SCORES[:9], TARGET[:9])
    assert floats(first) == pytest.approx(expected(slice(0, 9)), **SAME)
    collection.update(SCORES[9:], TARGET[9:])
    assert floats(collection.compute()) == pytest.approx(expected(), **SAME)


def test_collections_can_be_cloned_extended_and_nested():
    collection = MetricCollection(
        {"shallow": MetricCollection({"nDCG@1": weft.metrics.nDCG(1)}), "MRR": weft.metrics.MRR(10)}
    )
    collection.add_metrics({"HitRate@5": weft.metrics.HitRate(5)})
    train, val = collection.clone(prefix="train_"), collection.clone(prefix="val_", postfix="_all")
    train.update(SCORES[:9], TARGET[:9])
    val.update(SCORES, TARGET)
    some, whole = expected(slice(0, 9)), expected()
    assert floats(train.compute()) == pytest.approx(
        {
            "train_shallow_nDCG@1": some["nDCG@1"],
            "train_MRR": some["MRR@10"],
            "train_HitRate@5": some["HitRate@5"],
        },
        **SAME,
    )
    assert set(val.compute()) == {"val_shallow_nDCG@1_all", "val_MRR_all", "val_HitRate@5_all"}
    assert float(val.compute()["val_MRR_all"]) == pytest.approx(whole["MRR@10"], **SAME)
    figures = val.plot()
    assert len(figures) == 3
    pyplot.close("all")


def test_collection_separates_metrics_with_other_inputs():
    """Without a hit their states agree; what they are about does not."""
    made = {
        "a": weft.metrics.EPC(K, train=other_train(1)),
        "b": weft.metrics.EPC(K, train=other_train(2)),
    }
    collection = MetricCollection(made)
    alone = {name: metric.clone() for name, metric in made.items()}
    for batch in (all_misses(), (SCORES, TARGET, EVERYONE)):
        collection.update(*batch)
        for metric in alone.values():
            metric.update(*batch)
    found = floats(collection.compute())
    assert found == pytest.approx(
        {name: float(metric.compute()) for name, metric in alone.items()}, **SAME
    )
    assert found["a"] != found["b"]


def test_collection_of_single_target_metrics():
    target = TARGET.argmax(1)
    collection = MetricCollection(
        {f"{kind.__name__}@{k}": kind(k) for kind in (weft.HR, weft.NDCG, weft.MRR) for k in (1, 5)}
    )
    evaluator = weft.Evaluator(["HitRate", "nDCG", "MRR"], top_k=[1, 5])
    for rows in EVERYONE.split(9):
        collection.update(weft.get_topk_ranks(SCORES[rows], target[rows], topk=5))
        evaluator.update(SCORES[rows], target[rows])
    result = evaluator.compute()
    names = {"HR": "HitRate", "NDCG": "nDCG", "MRR": "MRR"}
    wanted = {
        name: result[names[name.partition("@")[0]] + "@" + name.partition("@")[2]]
        for name in collection
    }
    assert floats(collection.compute()) == pytest.approx(wanted, **SAME)


# --------------------------------------------------------------------------------------------------


def test_tracker():
    tracker = MetricTracker(
        MetricCollection(
            {"nDCG": weft.metrics.nDCG(K), "Gini": weft.metrics.Gini(K, num_items=ITEMS)}
        )
    )
    values = []
    for noise in (2.0, 0.0, 1.0):  # the second is the best
        tracker.increment()
        scores = (
            SCORES
            + TARGET
            + noise * torch.rand(SCORES.shape, generator=torch.Generator().manual_seed(3)) * 9
        )
        tracker.update(scores, TARGET)
        values.append(floats(tracker.compute()))
    best, step = tracker.best_metric(return_step=True)
    assert step["nDCG"] == 1 and best["nDCG"] == max(value["nDCG"] for value in values)
    assert best["Gini"] == min(value["Gini"] for value in values)  # lower is better
    assert tracker.compute_all()["nDCG"].tolist() == [value["nDCG"] for value in values]


@every_metric
def test_tracker_of_one_metric(name):
    metric = fresh(name)
    tracker = MetricTracker(metric, maximize=bool(metric.higher_is_better))
    for rows in (slice(0, 9), slice(9, USERS)):
        tracker.increment()
        tracker.update(*arguments(metric, rows))
        assert floats(tracker.compute()) == pytest.approx(
            computed(feed(fresh(name), rows.start, rows.stop)), **SAME
        )
    assert tracker.n_steps == 2


@every_metric
def test_running(name):
    """The last three batches, whatever the kind of states."""
    running = Running(fresh(name), window=3)
    for start in range(0, USERS, 6):
        running.update(*arguments(fresh(name), slice(start, start + 6)))
    assert floats(running.compute()) == pytest.approx(
        computed(feed(fresh(name), 24, USERS)), **SAME
    )


def test_min_and_max():
    metric = MinMaxMetric(weft.metrics.nDCG(K))
    values = []
    for rows in EVERYONE.split(10):
        metric.update(SCORES[rows], TARGET[rows])
        found = metric.compute()
        values.append(float(found["raw"]))
    assert (float(found["min"]), float(found["max"])) == (min(values), max(values))
    assert values[-1] == pytest.approx(expected_of(weft.metrics.nDCG(K)))


def expected_of(metric):
    return float(feed(metric).compute())


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["multinomial", "poisson"])
def test_bootstrapper_resamples_users(strategy):
    """Rows are users, so that its spread is that of the Evaluator's own intervals, up to the noise
    of resampling.
    """
    torch.manual_seed(5)
    users = 300
    scores = torch.rand(users, ITEMS)
    target = (torch.rand(users, ITEMS) < 0.2).float()
    names = {"nDCG@5": weft.metrics.nDCG(5), "Gini@5": weft.metrics.Gini(5, num_items=ITEMS)}
    evaluator = weft.Evaluator(list(names), num_items=ITEMS, bootstrap=400)
    evaluator.update(scores, target, torch.arange(users))
    result = evaluator.compute()
    for name, metric in names.items():
        wrapped = BootStrapper(
            metric,
            num_bootstraps=400,
            sampling_strategy=strategy,
            quantile=torch.tensor([0.025, 0.975]).double(),
        )
        wrapped.update(scores, target, torch.arange(users))
        found, entry = wrapped.compute(), result.entry(name)
        assert float(found["std"]) == pytest.approx(entry.boot_std_error, rel=0.2), name
        low, high = found["quantile"].tolist()
        width = entry.boot_high - entry.boot_low
        assert (
            abs(low - entry.boot_low) < 0.15 * width and abs(high - entry.boot_high) < 0.15 * width
        ), name


def test_bootstrapper_of_ranks():
    torch.manual_seed(5)
    wrapped = BootStrapper(weft.HR(K), num_bootstraps=200, sampling_strategy="multinomial")
    ranks = weft.get_topk_ranks(SCORES, TARGET.argmax(1), K)
    wrapped.update(ranks)
    share = float((ranks <= K).double().mean())
    assert float(wrapped.compute()["std"]) == pytest.approx(
        (share * (1 - share) / USERS) ** 0.5, rel=0.2
    )


def test_several_tasks():
    tasks = MultitaskWrapper(
        {"lists": MetricCollection({"nDCG": weft.metrics.nDCG(K)}), "ratings": weft.metrics.RMSE()},
        prefix="val_",
    )
    found = tasks({"lists": SCORES, "ratings": SCORES * 5}, {"lists": TARGET, "ratings": TARGET})
    assert float(found["val_lists"]["nDCG"]) == pytest.approx(expected_of(weft.metrics.nDCG(K)))
    rmse = weft.metrics.RMSE()
    rmse.update(SCORES * 5, TARGET)
    assert float(tasks.compute()["val_ratings"]) == pytest.approx(float(rmse.compute()))


def test_transformed_inputs():
    higher = LambdaInputTransformer(weft.metrics.nDCG(K), transform_pred=lambda preds: -preds)
    higher.update(-SCORES, TARGET, EVERYONE)
    assert float(higher.compute()) == pytest.approx(expected_of(weft.metrics.nDCG(K)))
    thresholded = BinaryTargetTransformer(weft.metrics.Recall(K), threshold=4)
    ratings = TARGET + (torch.arange(ITEMS) % 3)  # 3 to 5 where there is something
    thresholded.update(SCORES, ratings)
    asked = weft.metrics.Recall(K, relevance_threshold=4.5)
    asked.update(SCORES, ratings)
    assert float(thresholded.compute()) == pytest.approx(float(asked.compute()))


def test_metrics_by_label_return_a_dict():
    """ClasswiseWrapper labels the elements of a tensor; these metrics give a dict with the labels
    themselves.
    """
    metric = fresh("BiasDisparityBR")
    found = feed(metric).compute()
    assert next(iter(found)) == "BiasDisparityBR@5[F, 1]" and len(found) == 6
    collection = MetricCollection(
        {"fair": fresh("BiasDisparityBR"), "seen": fresh("BiasDisparityBS")}, prefix="val_"
    )
    assert set(feed(collection).compute()) > {f"val_{name}" for name in found}


class PerPosition(weft.TopKMetric):
    """Of an author: the share of hits at each position, a value for each."""

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("hits", torch.zeros(k, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("rows", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, preds, **kwargs):
        self.hits = self.hits + kwargs[f"top_{self.k}_binary_relevance"].sum(0)
        self.rows = self.rows + len(preds)

    def compute(self):
        return self.hits / self.rows


def test_classwise_wrapper_labels_tensors():
    metric = ClasswiseWrapper(PerPosition(3), labels=["first", "second", "third"], prefix="hits_")
    found = floats(metric(SCORES, TARGET))
    ranked = np.take_along_axis(TARGET.numpy() > 0, np.argsort(-SCORES.numpy(), axis=1), 1).mean(0)
    assert found == pytest.approx(dict(zip(["hits_first", "hits_second", "hits_third"], ranked)))
    PerPosition(3).plot([torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.2, 0.3, 0.4])])
    pyplot.close("all")


def test_custom_metrics_cover_all_base_classes():
    kinds = (weft.UserAverageTopKMetric, weft.RatingMetric, weft.TopKMetric, weft.BaseMetric)
    assert {
        next(kind for kind in kinds if issubclass(metric, kind)) for metric in CUSTOM_METRICS
    } == set(kinds)
    assert [needs_cutoff(metric) for metric in CUSTOM_METRICS] == [True, False, False, True]


@pytest.mark.slow
def test_the_metrics_of_torchmetrics_are_imported_when_they_are_used():
    code = """
import sys
import weft
weft.evaluate(torch.rand(1, 2), {0: [0]}, metrics="nDCG@1")
assert "torchmetrics.metric" in sys.modules
assert "torchmetrics.functional" not in sys.modules and "scipy.signal" not in sys.modules
import torchmetrics
assert torchmetrics.Metric is torchmetrics.metric.Metric
assert isinstance(torchmetrics.MetricCollection([weft.metrics.nDCG(k=1)]), torch.nn.Module)
assert "torchmetrics.functional" in sys.modules and torchmetrics.__version__
"""
    subprocess.run([sys.executable, "-c", f"import torch{code}"], check=True, timeout=120)


@pytest.mark.slow
def test_modules_of_torchmetrics_are_imported_after_weft():
    """Each once, although the package is executed only now."""
    code = """
import weft
weft.metrics.nDCG(k=1)
from torchmetrics.retrieval import RetrievalMAP
import torchmetrics.retrieval.base
assert issubclass(RetrievalMAP, torchmetrics.retrieval.base.RetrievalMetric)
assert issubclass(torchmetrics.RetrievalMAP, RetrievalMAP)
assert torchmetrics.retrieval.__spec__.origin.endswith("__init__.py")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
