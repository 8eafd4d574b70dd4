"""Two processes equal one: every metric, synchronised by TorchMetrics over gloo, with uneven shares."""

import socket
import time

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from everything import BUILT_IN, VARIANTS, about
from weft.names import parse
from weft.registry import build, takes_k

USERS, ITEMS, K = 41, 19, 5


def metrics():
    specs = [parse(name) for name in (*BUILT_IN, *VARIANTS)]
    train = (torch.rand((USERS, ITEMS), generator=torch.Generator().manual_seed(1)) < 0.3).int()
    inputs = {**about(USERS, ITEMS), "train": train, "num_users": USERS, "num_items": ITEMS}
    return {str(spec): build(spec.at(K) if takes_k(spec.name) else spec, inputs=inputs) for spec in specs}


def computed(metric):
    """The value, or the value of each label."""
    value = metric.compute()
    return {name: float(one) for name, one in value.items()} if isinstance(value, dict) else {"value": float(value)}


def data():
    generator = torch.Generator().manual_seed(0)
    return torch.rand((USERS, ITEMS), generator=generator), (torch.rand((USERS, ITEMS), generator=generator) < 0.2) * 3.0


def work(rank, port, queue):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    scores, target = data()
    share = slice(0, 11) if rank == 0 else slice(11, None)
    found = {}
    for name, metric in metrics().items():
        metric.update(scores[share], target[share], torch.arange(USERS)[share])
        found[name] = computed(metric)
    queue.put((rank, found))
    dist.barrier()  # nobody leaves while another still listens
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_equal_one():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    queue = mp.get_context("spawn").SimpleQueue()
    processes = mp.spawn(work, args=(port, queue), nprocs=2, join=False)
    deadline = time.monotonic() + 120
    while not processes.join(timeout=5):  # False while any still runs; raises what a process raised
        if time.monotonic() > deadline:
            for process in processes.processes:
                process.kill()
            pytest.fail("the two processes did not finish within two minutes")
    found = dict(queue.get() for _ in range(2))
    scores, target = data()
    for name, metric in metrics().items():
        metric.update(scores, target)
        expected = computed(metric)
        assert found[0][name] == pytest.approx(expected, abs=1e-9, nan_ok=True), name
        assert found[1][name] == pytest.approx(expected, abs=1e-9, nan_ok=True), name
