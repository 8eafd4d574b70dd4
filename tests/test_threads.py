"""Threads: how many are used, and that the caller's settings of torch stay as they are."""

import itertools
import os
import subprocess
import sys
import threading

import pytest
import torch

import weft
from weft.data import team, threads
from weft.data.team import Team
from weft.errors import InputError, MetricError
from weft.ranking.kernels import native_cpu

USERS, ITEMS = 40, 60
SCORES = torch.randn(USERS, ITEMS, generator=torch.Generator().manual_seed(0))
TRUTH = {user: [user % ITEMS, (7 * user + 3) % ITEMS] for user in range(USERS)}
METRICS = ["nDCG", "AUC", "Gini"]


@pytest.fixture(autouse=True)
def three_threads():
    number = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(number)


def threads_of_another_thread() -> int:
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    other.start()
    other.join()
    return found[0]


class Observer(weft.BaseMetric):
    """Notes torch's threads where metrics are computed, and fails if told."""

    found: list[tuple[int, int]] = []
    error: type[BaseException] | None = None

    def update(self, preds, **kwargs):
        self.found.append((torch.get_num_threads(), threads_of_another_thread()))
        if self.error is not None:
            raise self.error("told to")

    def compute(self):
        self.found.append((torch.get_num_threads(), threads_of_another_thread()))
        return torch.tensor(0.0)


@pytest.fixture
def observer(monkeypatch):
    monkeypatch.setattr(Observer, "found", [])
    return Observer


def evaluators():
    evaluator = weft.Evaluator(metrics=[Observer(), *METRICS], top_k=[5], num_items=ITEMS)

    def update():
        target = torch.zeros(USERS, ITEMS).scatter_(1, torch.tensor(list(TRUTH.values())), 1)
        evaluator.update(SCORES, target)
        evaluator.compute()
        evaluator(SCORES, target)

    yield update
    yield lambda: weft.evaluate(SCORES, TRUTH, metrics=[Observer(), *METRICS], top_k=[5])


@pytest.mark.parametrize("number", [0, 1])
def test_operations_run_on_one_thread(observer, number):
    list(evaluators())[number]()
    assert set(observer.found) == {(1, 3)}
    assert torch.get_num_threads() == threads_of_another_thread() == 3


@pytest.mark.parametrize(
    ("error", "raised"), [(ValueError, MetricError), (KeyboardInterrupt, KeyboardInterrupt)]
)
@pytest.mark.parametrize("number", [0, 1])
def test_threads_of_the_caller_return_after_errors(observer, monkeypatch, number, error, raised):
    monkeypatch.setattr(observer, "error", error)
    with pytest.raises(raised, match="told to"):
        list(evaluators())[number]()
    assert torch.get_num_threads() == threads_of_another_thread() == 3


def test_models_run_in_the_thread_and_with_the_threads_of_the_caller():
    found = set()

    def score(users):
        found.add((threading.get_ident(), torch.get_num_threads()))
        return SCORES[users]

    weft.evaluate(score, TRUTH, metrics="nDCG@5", batch_size=7)
    assert found == {(threading.get_ident(), 3)}


def test_models_may_evaluate_and_change_the_number_of_threads():
    def score(users):
        weft.evaluate(SCORES, TRUTH, metrics="nDCG@5")
        assert torch.get_num_threads() in (2, 3)
        torch.set_num_threads(2)
        return SCORES[users]

    weft.evaluate(score, TRUTH, metrics="nDCG@5", batch_size=7)
    assert torch.get_num_threads() == threads_of_another_thread() == 2


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="counts threads in /proc")
def test_evaluation_starts_no_thread_of_openmp():
    program = """
import os, numpy as np, torch, weft
torch.set_num_threads(3)
rng = np.random.default_rng(0)
scores = rng.standard_normal((400, 20_000), dtype=np.float32)
truth = {user: rng.choice(20_000, 10, replace=False).tolist() for user in range(400)}
settings = dict(metrics=["nDCG", "AUC", "Gini", "ShannonEntropy", "EPC", "F1"], top_k=[10, 100],
                train=truth, mask_seen=False, bootstrap=10, per_user=True)
small = {user: truth[user] for user in range(4)}
weft.evaluate(scores[:4], small, **settings | {"train": small})
def names():
    tasks = "/proc/self/task"
    return sorted(open(f"{tasks}/{task}/comm").read() for task in os.listdir(tasks))
before = names()
weft.evaluate(scores, truth, **settings)
assert names() == before, (before, names())
torch.ones(1_000_000).sum()  # starts them
assert len(names()) > len(before)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=120)


# --------------------------------------------------------------------------------------------------

GENERATOR = torch.Generator().manual_seed(1)
MANY = torch.randn(90, 40_000, generator=GENERATOR)  # several native calls per batch of 30 users
LARGE_TRUTH = {user: [user, 3 * user + 1, 39_999 - user] for user in range(90)}
LARGE_TRAIN = {user: [user + 5, 2 * user + 100] for user in range(90)}
SOURCES = {
    "matrix": MANY,
    "float16": MANY.half(),
    "factors": weft.Factors(
        torch.randn(90, 8, generator=GENERATOR), torch.randn(40_000, 8, generator=GENERATOR)
    ),
    "model": lambda users: MANY[users],
    "lists": {user: MANY[user].topk(50).indices.tolist() for user in range(90)},
}
OPTIONS = {
    "plain": {},
    "expected ties": {"ties": "expected"},
    "bootstrap": {
        "bootstrap": 20,
        "per_user": True,
        "slices": {"half": {user: user % 2 for user in range(90)}},
    },
    "sampled": {"strategy": "sampled", "num_negatives": 20},
    "one batch": {"batch_size": 90},
}


def helpers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "weft"]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("source", SOURCES)
def test_results_are_equal_for_any_number_of_threads(source, options):
    settings = {"metrics": ["nDCG", "AUC", "Gini", "EPC", "MAP"], "top_k": [3, 10]}
    if source == "lists":
        settings["metrics"] = ["nDCG", "Gini", "MAP"]
        settings["items"] = range(40_000)
    settings |= {"train": LARGE_TRAIN, "batch_size": 30, **OPTIONS[options]}
    first, *others = (
        weft.evaluate(SOURCES[source], LARGE_TRUTH, threads=number, **settings)
        for number in (1, 2, 3, 7)
    )
    for other in others:
        assert [repr(value) for value in other.entries] == [repr(value) for value in first.entries]
        assert other.counts == first.counts
        assert other.provenance["fingerprint"] == first.provenance["fingerprint"]
        if first.per_user is not None:
            assert other.per_user.equals(first.per_user)
    assert not helpers()


def test_number_of_threads_is_used(monkeypatch):
    sizes = []
    monkeypatch.setattr(team, "Team", lambda size: sizes.append(size) or Team(size))
    weft.evaluate(SCORES, TRUTH, metrics="nDCG@5", threads=4)
    evaluator = weft.Evaluator(metrics="nDCG@5", threads=5)
    evaluator.update(SCORES, torch.ones_like(SCORES))
    assert sizes == [4, 4, 5]  # reading, the pass, an update


def test_models_may_return_the_same_memory():
    memory = torch.empty(10, ITEMS)

    def score(users):
        return memory[: len(users)].copy_(SCORES[users])

    settings = {"metrics": METRICS, "top_k": [5], "batch_size": 10}
    expected = weft.evaluate(SCORES, TRUTH, **settings, threads=1)
    assert weft.evaluate(score, TRUTH, **settings, threads=3).entries == expected.entries


@pytest.mark.parametrize("number", [1, 2, 4])
def test_first_error_in_the_order_of_users_is_raised(number):
    scores = MANY.clone()
    scores[70, 3], scores[45, 7] = float("nan"), float("inf")
    settings = {"metrics": "nDCG@5", "batch_size": 20, "threads": number}
    with pytest.raises(InputError, match=r"45\b"):
        weft.evaluate(scores, LARGE_TRUTH, **settings)
    assert not helpers()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("place", ["native call", "ranking", "adding"])
def test_errors_and_interrupts_end_all_threads(monkeypatch, place, error):
    names = {
        "native call": (native_cpu, "call"),
        "ranking": (weft.Evaluator, "rank"),
        "adding": (weft.Evaluator, "add"),
    }
    owner, name = names[place]
    original, calls = getattr(owner, name), itertools.count()

    def fail(*args, **kwargs):
        if next(calls) == 2:
            raise error("told to")
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(error, match="told to"):
        weft.evaluate(MANY, LARGE_TRUTH, metrics="nDCG@5", batch_size=20, threads=3)
    assert not helpers() and torch.get_num_threads() == 3


@pytest.mark.parametrize("number", [1, 2, 3])
def test_resumed_evaluation_is_equal_for_any_number_of_threads(monkeypatch, tmp_path, number):
    monkeypatch.setattr("weft.evaluation.checkpoint._SAVE_SECONDS", 0.0)
    settings = {"metrics": METRICS, "top_k": [5], "batch_size": 20}
    expected = weft.evaluate(MANY, LARGE_TRUTH, **settings, threads=1)
    add, calls = weft.Evaluator.add, itertools.count()

    def fail(self, *args):
        if next(calls) == 3:
            raise KeyboardInterrupt
        add(self, *args)

    settings["checkpoint"] = tmp_path / "state"
    with monkeypatch.context() as patch:
        patch.setattr(weft.Evaluator, "add", fail)
        with pytest.raises(KeyboardInterrupt):
            weft.evaluate(MANY, LARGE_TRUTH, **settings, threads=number)
    resumed = weft.evaluate(MANY, LARGE_TRUTH, **settings, threads=number)
    assert resumed.entries == expected.entries and resumed.counts == expected.counts


def test_team_shares_loops_and_runs_tasks_ahead():
    found = []
    with team.open_team(3) as three:
        future = three.submit(lambda: team.share_loop(found.append, range(50)) or "done")
        three.loop(found.append, range(50, 100))
        assert three.result(future) == "done" and len(helpers()) == 2
        failing = three.submit(lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            three.result(failing)
        with pytest.raises(ZeroDivisionError):
            three.loop(lambda number: 1 / (number - 5), range(10))
    assert sorted(found) == list(range(100)) and not helpers()


def test_team_without_helpers_works_in_the_calling_thread():
    found = set()
    with Team(1) as one:
        one.loop(lambda number: found.add((number, threading.get_ident())), range(3))
        assert one.result(one.submit(threading.get_ident)) == threading.get_ident()
    assert found == {(number, threading.get_ident()) for number in range(3)}


# --------------------------------------------------------------------------------------------------


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


CGROUPS = {
    "version 2": (
        {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "150000 100000\n"},
        1.5,
    ),
    "version 2, quota of a group above": (
        {
            "proc/self/cgroup": "0::/job/step\n",
            "sys/fs/cgroup/job/cpu.max": "200000 100000\n",
            "sys/fs/cgroup/job/step/cpu.max": "max 100000\n",
        },
        2.0,
    ),
    "version 2 in a container": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"},
        4.0,
    ),
    "version 2 without a quota": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"},
        float("inf"),
    ),
    "version 1": (
        {
            "proc/self/cgroup": "5:memory:/job\n4:cpu,cpuacct:/job\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/job/cpu.cfs_quota_us": "1\n",
        },
        0.5,
    ),
    "version 1, path of the host": (
        {
            "proc/self/cgroup": "4:cpu:/docker/0a1b\n0::/docker/0a1b\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        3.0,
    ),
    "version 1 without a quota": (
        {
            "proc/self/cgroup": "4:cpu:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        float("inf"),
    ),
    "no cgroups": ({}, float("inf")),
    "unreadable": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "wrong\n"},
        float("inf"),
    ),
}


@pytest.mark.parametrize("name", CGROUPS)
def test_quota_of_cgroups(name, tmp_path):
    files, cpus = CGROUPS[name]
    write(tmp_path, files)
    assert threads.cgroup_cpus(tmp_path) == cpus


def test_number_of_threads_is_the_least_of_all_bounds(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(8), raising=False)
    for of_torch, quota, expected in ((3, 6.0, 3), (6, 2.5, 3), (16, float("inf"), 8), (4, 0.1, 1)):
        torch.set_num_threads(of_torch)
        monkeypatch.setattr(threads, "cgroup_cpus", lambda quota=quota: quota)
        assert threads.count_threads() == expected
        assert threads.one_thread(threads.count_threads)() == expected  # of the caller
        assert threads.count_threads(5) == 5


def test_without_affinity_all_cpus_count(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    monkeypatch.setattr(threads, "cgroup_cpus", lambda: float("inf"))
    assert threads.usable_cpus() == 7
