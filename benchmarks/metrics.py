"""The cost of one further metric: the pass with six accuracy metrics and this one, as a multiple of
that with the six.
"""

from __future__ import annotations

from dataclasses import dataclass

import weft
from benchmarks.clock import cpu_seconds
from benchmarks.data import CUTOFFS, SIX, Problem
from weft.metrics.registry import built_in_metrics

EVERY_METRIC = [metric.example or metric.__name__ for metric in built_in_metrics()]
_DIMENSIONS = 16  # of item vectors


@dataclass(frozen=True)
class Costs:
    """Multiples of the time of the six metrics: with each other metric, and of all together.

    `metrics` is sorted, the costliest first. `seconds` is the CPU time of the six."""

    metrics: dict[str, float]
    together: float
    seconds: float

    @property
    def added(self) -> float:
        """The sum of what each metric adds to the six by itself, with the six."""
        return 1 + sum(ratio - 1 for ratio in self.metrics.values())


def compare(problem: Problem, rounds: int, names: list[str] | None = None) -> Costs:
    """Measure each metric at five cut-offs, in turn, from prepared inputs to the result.

    The lowest times of all rounds are divided: other work on the machine only adds to a time."""
    others = [name for name in names or EVERY_METRIC if name not in SIX]
    work = {"six": [*SIX], **{name: [*SIX, name] for name in others}, "all": [*SIX, *others]}
    inputs = _further_inputs(problem)
    lowest = dict.fromkeys(work, float("inf"))
    for number in range(rounds + 1):  # the first round warms up
        for name, metrics in work.items():
            seconds = _pass_seconds(problem, metrics, inputs)
            if number:
                lowest[name] = min(lowest[name], seconds)
    six = lowest["six"]
    ratios = {name: lowest[name] / six for name in others}
    ordered = dict(sorted(ratios.items(), key=lambda pair: -pair[1]))
    return Costs(ordered, lowest["all"] / six, six)


def _further_inputs(problem: Problem) -> dict[str, object]:
    """Lists of another model, and vectors of items."""
    best = problem.scores[:, : problem.items // 2].topk(10).indices
    return {
        "reference": dict(enumerate(best.tolist())),
        "item_vectors": problem.scores[:_DIMENSIONS].T.contiguous(),
    }


def _pass_seconds(problem: Problem, metrics: list[str], inputs: dict[str, object]) -> float:
    """The CPU time from inputs that are read to the result."""
    prepared = weft.prepare(
        problem.truth,
        train=problem.train,
        metrics=metrics,
        top_k=CUTOFFS,
        items="positions",
        users="positions",
        inputs=inputs,
        **problem.about,
    )
    run = prepared.start(problem.scores)

    def evaluate() -> object:
        run.run()
        return run.result()

    return cpu_seconds(evaluate)
