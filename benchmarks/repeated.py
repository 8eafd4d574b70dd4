"""The cost of one more model on prepared inputs, and of a whole evaluation, beside the pass alone:
the loop over batches, without reading the inputs and computing the result.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import weft
from benchmarks.clock import Ratio, cpu_seconds
from benchmarks.data import CUTOFFS, SIX, Problem, make

USERS, ITEMS = 943, 1_682
SMALL_USERS, SMALL_ITEMS = 20, 250
PASS = "the pass alone"


def compare(problem: Problem, rounds: int) -> dict[str, Ratio]:
    """Each as a multiple of the pass."""
    options = {"train": problem.train, "metrics": SIX, "top_k": CUTOFFS}
    prepared = weft.prepare(problem.truth, **options)
    work: dict[str, Callable[[], object]] = {
        PASS: lambda: None,
        "prepared.evaluate": lambda: prepared.evaluate(problem.scores),
        "weft.evaluate": lambda: weft.evaluate(problem.scores, problem.truth, **options),
    }
    ratios: dict[str, list[float]] = {name: [] for name in work}
    for number in range(rounds + 1):  # the first round warms up
        work[PASS] = prepared.start(problem.scores).run
        seconds = {name: cpu_seconds(call) for name, call in work.items()}
        if number:
            for name, spent in seconds.items():
                ratios[name].append(spent / seconds[PASS])
    return {
        name: Ratio(statistics.median(found), min(found), max(found))
        for name, found in ratios.items()
    }


def small_milliseconds(rounds: int) -> float:
    """The CPU time of a small evaluation: what an evaluation costs whatever its size."""
    problem = make(SMALL_ITEMS, SMALL_USERS)
    seconds = [
        cpu_seconds(
            lambda: weft.evaluate(
                problem.scores, problem.truth, train=problem.train, metrics=SIX, top_k=[5, 10]
            )
        )
        for _ in range(10 * rounds)
    ]
    return 1e3 * statistics.median(seconds)
