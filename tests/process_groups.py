"""Run a function in several processes of one torch.distributed group over gloo."""

import socket
import time

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

# A server that has loaded torch forks the processes, so that they do not load it again.
_SERVED = mp.get_context("forkserver")
_SERVED.set_forkserver_preload(
    ["torch", "torchmetrics", "weft.evaluation.evaluator", "weft.evaluation.api"]
)


def run_in_processes(number, work):
    """Return the results of `work(rank, number)`, a module's function, in `number` processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    queue = _SERVED.Queue()
    processes = mp.start_processes(
        _process,
        args=(number, port, queue, work),
        nprocs=number,
        join=False,
        start_method="forkserver",
    )
    found, deadline = {}, time.monotonic() + 300
    while len(found) < number:
        while not queue.empty():  # a process with unsent results does not end
            rank, given = queue.get()
            found[rank] = given
        processes.join(timeout=0.2)  # raises the error of a process
        if time.monotonic() > deadline:
            for process in processes.processes:
                process.kill()
            pytest.fail(f"the {number} processes did not finish within five minutes")
    while not processes.join(timeout=1):
        pass
    return [found[rank] for rank in range(number)]


def _process(rank, number, port, queue, work):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=number
    )
    queue.put((rank, work(rank, number)))
    dist.barrier()  # no process ends while another still communicates
    dist.destroy_process_group()
