"""Nothing that a caller gives is ever written to: by any metric, kernel, thread or process."""

import multiprocessing
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import shared_memory
from pathlib import Path

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

import weft
from weft._native import is_built
from weft.ranking.kernels import any_device, native_cpu, numpy_cpu, using

USERS, ITEMS = 60, 300
METRICS = ["nDCG@5", "Recall@20", "AUC", "GAUC", "Gini@10", "RMSE", "EFD@5"]
KERNELS = [numpy_cpu, any_device, *([native_cpu] if is_built() else [])]
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64]
TIES = ["index", "random", "expected", "optimistic", "pessimistic"]


def draw(seed=0, dtype=torch.float32):
    """Scores with ties and items that are not offered, a truth, and two train sets."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-50, 50, (USERS, ITEMS), generator=generator).to(dtype)
    if dtype.is_floating_point:
        scores = scores / 4
        scores[torch.rand((USERS, ITEMS), generator=generator) < 0.02] = -torch.inf
    marks = torch.rand((USERS, ITEMS), generator=generator)
    first = (marks < 0.2).int()
    second = ((marks > 0.3) & (marks < 0.6)).int()
    return scores, (marks > 0.95).float(), first, second


def bits(data):
    """The memory of an array or a tensor, to be compared bit by bit."""
    if isinstance(data, torch.Tensor):
        data = data.contiguous().view(torch.uint8 if data.ndim else data.dtype).numpy()
    return np.ascontiguousarray(data).tobytes()


def by_name(result):
    return {value.name: value.value for value in result.entries}


# ------------------------------------------------------------------------------ threads, processes


@pytest.mark.parametrize("kernel", KERNELS)
def test_threads_share_a_matrix_with_different_train_sets(kernel):
    scores, truth, *trains = draw()
    before = bits(scores)
    metrics = ["nDCG@5", "AUC", "Gini@10"]

    def run(number):
        with using(kernel):
            result = weft.evaluate(
                scores, truth, train=trains[number % 2], metrics=metrics, batch_size=17
            )
        return by_name(result)

    expected = [run(0), run(1)]
    assert expected[0] != expected[1]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run, range(64)))
    assert all(result == expected[number % 2] for number, result in enumerate(results))
    assert bits(scores) == before


def evaluate_shared(name, number, repetitions):
    """Evaluate scores in shared memory, in another process, and return the values."""
    memory = shared_memory.SharedMemory(name)
    scores = np.ndarray((USERS, ITEMS), dtype=np.float32, buffer=memory.buf)
    _, truth, *trains = draw()
    results = {
        tuple(by_name(weft.evaluate(scores, truth, train=trains[number], metrics=METRICS)).items())
        for _ in range(repetitions)
    }
    del scores
    memory.close()
    return results


@pytest.mark.slow
def test_processes_share_a_matrix():
    given, truth, *trains = draw()
    memory = shared_memory.SharedMemory(create=True, size=given.numel() * 4)
    try:
        scores = np.ndarray((USERS, ITEMS), dtype=np.float32, buffer=memory.buf)
        scores[:] = given.numpy()
        context = multiprocessing.get_context("spawn")
        with context.Pool(2) as pool:
            results = pool.starmap(evaluate_shared, [(memory.name, one, 40) for one in (0, 1)])
        for train, found in zip(trains, results):
            expected = weft.evaluate(given, truth, train=train, metrics=METRICS)
            assert found == {tuple(by_name(expected).items())}
        assert bits(scores) == bits(given.numpy())
        del scores
    finally:
        memory.close()
        memory.unlink()


# ------------------------------------------------------------------------------- kinds of memory


def test_read_only_and_mapped_arrays_are_as_good_as_others(tmp_path):
    scores, truth, train, _ = draw()
    expected = by_name(weft.evaluate(scores, truth, train=train, metrics=METRICS))
    path = tmp_path / "scores"
    scores.numpy().tofile(path)
    locked = scores.numpy().copy()
    locked.flags.writeable = False
    maps = [np.memmap(path, np.float32, mode, shape=(USERS, ITEMS)) for mode in ("r", "r+", "c")]
    for array in (locked, *maps):
        for settings in ({}, {"batch_size": 7}):
            got = weft.evaluate(array, truth, train=train, metrics=METRICS, **settings)
            assert by_name(got) == pytest.approx(expected, rel=1e-12, nan_ok=True)
        assert bits(array) == bits(scores.numpy())
    assert path.read_bytes() == bits(scores.numpy())
    assert not locked.flags.writeable


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_of_any_type_and_layout_stay_as_they_are(dtype, kernel, ties):
    scores, truth, train, _ = draw(dtype=dtype)
    wide = torch.zeros((USERS, 2 * ITEMS), dtype=dtype)
    wide[:, ::2] = scores
    layouts = {
        "contiguous": scores.clone(),
        "every second column": wide[:, ::2],
        "transposed": scores.t().contiguous().t(),
    }
    before = {name: bits(given) for name, given in layouts.items()}
    with using(kernel):
        results = [
            by_name(weft.evaluate(given, truth, train=train, metrics=METRICS, ties=ties, seed=3))
            for given in layouts.values()
        ]
        evaluator = weft.Evaluator(METRICS, train=train, ties=ties, seed=3, mask_seen=True)
        for rows in torch.arange(USERS).split(13):
            evaluator.update(layouts["contiguous"][rows[0] : rows[-1] + 1], truth[rows], rows)
    assert results[0] == results[1] == results[2]
    assert by_name(evaluator.compute()) == pytest.approx(results[0], rel=1e-12, nan_ok=True)
    assert {name: bits(given) for name, given in layouts.items()} == before


def test_a_model_may_return_its_own_tensor():
    scores, truth, train, _ = draw()
    before = bits(scores)
    expected = by_name(weft.evaluate(scores, truth, train=train, metrics=METRICS, batch_size=10))

    def model(users):
        return scores[int(users[0]) : int(users[-1]) + 1]

    for _ in range(2):
        got = weft.evaluate(model, truth, train=train, metrics=METRICS, batch_size=10)
        assert by_name(got) == expected
    assert bits(scores) == before


def test_sampled_candidates_leave_the_scores_as_they_are():
    scores, truth, train, _ = draw()
    before = bits(scores)
    weft.evaluate(
        scores, truth, train=train, metrics=METRICS[:2], strategy="sampled", num_negatives=20
    )
    assert bits(scores) == before


class Fails(weft.TopKMetric):
    """Fails in the middle of a run."""

    _REQUIRED_COMPONENTS = {weft.MetricBlock.VALID_USERS}

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.calls = 0

    def update(self, preds, **kwargs):
        self.calls += 1
        if self.calls == 3:
            raise KeyboardInterrupt

    def compute(self):
        return torch.zeros(())


def test_scores_stay_as_they_are_when_a_run_fails():
    scores, truth, train, _ = draw()
    before = bits(scores)
    with pytest.raises(KeyboardInterrupt):
        weft.evaluate(scores, truth, train=train, metrics=["AUC", Fails(k=3)], batch_size=10)
    assert bits(scores) == before
    scores[40, 3] = torch.nan
    before = bits(scores)
    for ties in TIES:
        with pytest.raises(weft.errors.InputError, match="NaN, first in row 40, column 3"):
            weft.evaluate(scores, truth, train=train, metrics=METRICS, ties=ties)
    assert bits(scores) == before


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("cell", ["relevant", "seen", "other"])
def test_invalid_scores_are_refused_wherever_they_are(ties, value, cell):
    scores, truth, train, _ = draw()
    which = {"relevant": truth > 0, "seen": train > 0, "other": (truth == 0) & (train == 0)}[cell]
    for row, item in which.nonzero()[:: max(1, int(which.sum()) // 7)].tolist():
        given = scores.clone()
        given[row, item] = value
        for kernel in KERNELS:
            for metrics in (["nDCG@3"], ["AUC"]):
                with using(kernel), pytest.raises(weft.errors.InputError, match=f"row {row}, col"):
                    weft.evaluate(given, truth, train=train, metrics=metrics, ties=ties)


@pytest.mark.parametrize("settings", [{"per_user": True}, {"bootstrap": 20}])
def test_a_caller_may_reuse_its_tensors(settings):
    """User indices are kept by the evaluator; a loader may write the next batch to their tensor."""
    scores, truth, train, _ = draw()
    expected, got = (
        weft.Evaluator(METRICS, train=train, mask_seen=True, seed=1, **settings) for _ in range(2)
    )
    buffers = scores[:20].clone(), truth[:20].clone(), torch.arange(20)
    for start in (40, 0, 20):
        rows = torch.arange(start, start + 20)
        for buffer, given in zip(buffers, (scores[rows], truth[rows], rows)):
            buffer.copy_(given)
        expected.update(scores[rows], truth[rows], rows.clone())
        got.update(*buffers)
    for buffer in buffers:
        buffer.zero_()
    first, second = expected.compute(), got.compute()
    assert list(second.entries) == list(first.entries)
    if "per_user" in settings:
        assert second.per_user.equals(first.per_user)


# ------------------------------------------------------------------------------- read-only pages

ON_READ_ONLY_PAGES = '''
import sys, tempfile, warnings
import numpy as np, torch, weft
from torchmetrics import MetricCollection
from tests.test_caller_data import KERNELS, METRICS, TIES, USERS, draw
from weft.metrics.registry import built_in_metrics
from weft.ranking.kernels import using

warnings.simplefilter("ignore")


class Unlocked:
    def __init__(self, array):
        self.array = array
        address = array.__array_interface__["data"][0]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def read_only(tensor):
    """A tensor on pages that the system does not let anybody write to."""
    file = tempfile.NamedTemporaryFile()
    tensor.contiguous().view(torch.uint8).numpy().tofile(file.name)
    array = np.memmap(file.name, np.uint8, "r").reshape(tensor.shape[0], -1)
    return torch.from_numpy(np.asarray(Unlocked(array))).view(tensor.dtype).view(tensor.shape)


if sys.argv[1] == "write":  # shows that a write is found
    read_only(draw()[0])[0, 0] = 1.0

for dtype in (torch.float32, torch.float64, torch.bfloat16):
    scores, truth, train, _ = (read_only(x) for x in draw(dtype=dtype))
    users = read_only(torch.arange(USERS)[:, None])[:, 0]
    groups = {"user_groups": ["a", "b"] * (USERS // 2), "item_clusters": [1, 2, 3] * 100,
              "item_features": [{n % 7, n % 5} for n in range(300)]}
    names = [metric.example or metric.__name__ for metric in built_in_metrics()
             if metric.__name__ not in ("Intersection", "Unexpectedness")]  # need other lists
    for kernel in KERNELS:
        with using(kernel):
            weft.evaluate(scores, truth, train=train, metrics=names, top_k=[1, 5, 20], **groups)
            weft.evaluate(scores, truth, train=train.numpy(), metrics=names, top_k=5,
                          bootstrap=20, **groups)
            for ties in TIES:
                weft.evaluate(scores, truth, train=train, metrics=METRICS, ties=ties)
    weft.evaluate(scores, truth, train=train, metrics=METRICS[:2], strategy="sampled",
                  num_negatives=20)
    weft.evaluate(lambda users: scores, truth, train=train, metrics=METRICS)
    sizes = {"num_users": USERS, "num_items": 300}
    evaluator = weft.Evaluator(names, top_k=5, train=train, **sizes, **groups)
    evaluator.update(scores, truth, users)
    evaluator.compute()
    collection = MetricCollection({"ndcg": weft.metrics.nDCG(k=5), "auc": weft.metrics.AUC()})
    collection.update(scores, truth, users)
    collection.compute()
    weft.metrics.RMSE().update(scores, truth)
    for ties in ("index", "random", "optimistic", "pessimistic"):
        weft.get_topk_ranks(scores, users, 10, ties=ties)
print("done")
'''


@pytest.mark.slow
@pytest.mark.parametrize("action", ["read", "write"])
def test_nothing_is_written_on_read_only_pages(action):
    done = subprocess.run(
        [sys.executable, "-c", ON_READ_ONLY_PAGES, action],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    if action == "write":
        assert done.returncode < 0, "a write was not found"
    else:
        assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-2000:]


# ------------------------------------------------------------------------------ metrics of authors


def overwrite(tensors):
    """Write to tensors in every way."""
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor):
            tensor.clamp_(min=0, max=1)
            tensor[:1].numpy()[...] = 1
            tensor.add_(1)


class Vandal(weft.UserAverageTopKMetric):
    """Overwrites everything it is given, and what it was given before."""

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.kept = []

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        value = top_k_rel.double().mean(1)
        overwrite([*self.kept, preds, target, top_k_rel, *kwargs.values()])
        self.kept = [preds, target, top_k_rel, *kwargs.values()]
        return value


class VandalOfStates(weft.TopKMetric):
    """Does the same in its `update`."""

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.kept = []

    def update(self, preds, **kwargs):
        users = kwargs["valid_users"]
        self.total += users.sum()
        users += self.valid_users(kwargs["binary_relevance"])
        overwrite([*self.kept, preds, *kwargs.values()])
        self.kept = [preds, *kwargs.values()]

    def compute(self):
        return self.total


class VandalOfRatings(weft.RatingMetric):
    """Does the same to ratings."""

    def compute_errors(self, preds, target):
        errors = (preds - target).abs()
        overwrite([preds, target])
        return errors


class Reader(weft.TopKMetric):
    """Adds up all that it is given."""

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, preds, **kwargs):
        for number, tensor in enumerate((preds, *(kwargs[name] for name in sorted(kwargs)))):
            self.total += (number + 1) * tensor.double().clamp(min=-9).sum()

    def compute(self):
        return self.total


def vandals():
    return [Vandal(k=5), VandalOfStates(k=5), VandalOfRatings()]


@pytest.mark.parametrize("source", ["scores", "masked scores", "lists"])
def test_metrics_of_authors_change_nothing(source):
    scores, truth, train, _ = draw()
    assert scores.numel() > 1 << 14  # so that dense blocks are copied lazily
    given = scores
    if source == "lists":
        order = scores.argsort(1, descending=True)[:, :30]
        given = {
            user: dict(zip(row.tolist(), scores[user, row].tolist()))
            for user, row in enumerate(order)
        }
    settings = {"train": train, "mask_seen": source == "masked scores", "batch_size": 25}
    names = [*(METRICS if source != "lists" else METRICS[:2]), "NumRetrieved@10", "ARP@5"]
    before, truth_before = bits(scores), bits(truth)
    expected = weft.evaluate(given, truth, metrics=[*names, Reader(k=5)], **settings)
    for metrics in (
        [*vandals(), *names, Reader(k=5)],
        [*names, Reader(k=5), *vandals()],
        [VandalOfStates(k=5), Reader(k=5), VandalOfStates(k=7), *names],
    ):
        got = weft.evaluate(given, truth, metrics=metrics, **settings)
        assert {name: got[name] for name in expected} == by_name(expected)
        assert got["VandalOfStates@5"] == int((truth > 0).any(1).sum())
        assert bits(scores) == before and bits(truth) == truth_before


def test_metrics_of_authors_alone_and_in_a_collection_change_nothing():
    scores, truth, *_ = draw()
    users = torch.arange(USERS)
    before = [bits(given) for given in (scores, truth, users)]
    alone = {"ndcg": weft.metrics.nDCG(k=5), "reader": Reader(k=5), "auc": weft.metrics.AUC()}
    for metric in alone.values():
        metric.update(scores, truth, users)
    spoiled = {str(metric.spec): metric for metric in vandals()}
    collection = MetricCollection(
        {**spoiled, "ndcg": weft.metrics.nDCG(k=5), "reader": Reader(k=5)}
        | {"auc": weft.metrics.AUC()}
    )
    for _ in range(2):
        collection.update(scores, truth, users)
        got = collection.compute()
        assert {name: got[name] for name in alone} == {
            name: metric.compute() for name, metric in alone.items()
        }
        collection.reset()
    assert [bits(given) for given in (scores, truth, users)] == before


def test_blocks_that_a_caller_gives_stay_as_they_are():
    scores, truth, *_ = draw()
    blocks = {"binary_relevance": truth, "valid_users": torch.ones(USERS)}
    before = [bits(given) for given in (scores, *blocks.values())]
    metric = VandalOfStates(k=5)
    metric.update(scores, **blocks)
    assert float(metric.compute()) == USERS
    assert [bits(given) for given in (scores, *blocks.values())] == before


def test_a_metric_that_does_not_read_the_scores_costs_no_copy_of_them(monkeypatch):
    from weft.ranking import MaskedScores

    copies = []
    monkeypatch.setattr(
        MaskedScores, "to_dense", lambda self: copies.append(1) or self.data.clone()
    )

    class ByRelevance(weft.UserAverageTopKMetric):
        _REQUIRED_COMPONENTS = {weft.MetricBlock.TOP_K_BINARY_RELEVANCE}

        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return top_k_rel.double().mean(1)

    class ByScores(ByRelevance):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            def highest():
                return preds.amax(1)

            return highest().double()

    scores, truth, *_ = draw()
    weft.evaluate(scores, truth, metrics=[ByRelevance(k=3)])
    assert copies == []
    result = weft.evaluate(scores, truth, metrics=[ByScores(k=3), ByScores(k=4)])
    assert copies == [1]
    has_truth = (truth > 0).any(1)
    assert result["ByScores@3"] == pytest.approx(float(scores.amax(1)[has_truth].mean()))
