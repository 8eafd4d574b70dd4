"""Wall time of all threads against one: on a quiet machine, and beside a busy process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch

from benchmarks.cases import evaluation
from benchmarks.clock import Ratio, measure, wall_seconds
from benchmarks.data import SIX, Problem
from weft.data.threads import usable_cpus

SETS = {
    "six metrics": SIX,
    "22 metrics": [
        *SIX,
        *("F1", "MAR", "nDCGRendle2020", "AUC", "GAUC", "LAUC", "ItemCoverage", "NumRetrieved"),
        *("UserCoverage", "EFD", "EPC", "Gini", "ShannonEntropy", "ACLT", "APLT", "ARP"),
    ],
}
ONE, ALL = "one thread", "all threads"
# What another evaluation or a training run does: large and small operations on all threads.
_BUSY = """
import torch
matrix = torch.randn(1500, 1500)
numbers = torch.randint(0, 5000, (200_000,))
print("ready", flush=True)
while True:
    matrix @ matrix
    for _ in range(50):
        torch.bincount(numbers), matrix.sum(1), torch.special.xlogy(matrix[:99], matrix[:99].abs())
"""


@contextmanager
def all_threads() -> Iterator[int]:
    """Let torch use all CPUs, as it does by default; yield their number."""
    before, number = torch.get_num_threads(), usable_cpus()
    torch.set_num_threads(number)
    try:
        yield number
    finally:
        torch.set_num_threads(before)


@contextmanager
def busy_process() -> Iterator[None]:
    """Run another process that uses torch with all threads."""
    command = [sys.executable, "-c", _BUSY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()


def compare(problem: Problem, names: list[str], rounds: int) -> Ratio:
    """Wall time of all threads as a multiple of that of one thread."""
    problem = replace(problem, about={})
    work: dict[str, Callable[[], object]] = {
        ONE: partial(evaluation, problem, names, threads=1),
        ALL: partial(evaluation, problem, names),
    }
    with all_threads():
        return measure(work, ONE, rounds, seconds=wall_seconds)[ALL]


def curve(problem: Problem, rounds: int) -> list[tuple[int, Ratio]]:
    """Wall time of six metrics by the number of threads, as a multiple of that of one thread."""
    with all_threads() as cpus:
        numbers = sorted({1, *(n for n in (2, 4, 8, 16, 32, 64) if n < cpus), cpus})
        work = {str(n): partial(evaluation, problem, SIX, threads=n) for n in numbers}
        found = measure(work, "1", rounds, seconds=wall_seconds)
    return [(n, found[str(n)]) for n in numbers]
