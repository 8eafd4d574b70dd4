"""The cost of metrics in a TorchMetrics collection, which share one ranking, beside an Evaluator
with the same metrics.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torchmetrics import MetricCollection

import weft
from benchmarks.clock import Ratio, measure
from benchmarks.data import CUTOFFS, SIX, Problem

EVALUATOR, USERS, BATCH = "Evaluator", 1_024, 256


def cases(problem: Problem) -> dict[str, Callable[[], dict[str, torch.Tensor]]]:
    """Six metrics at five cut-offs, and one of them alone."""
    target = [torch.as_tensor(problem.truth[row].indices) for row in range(problem.users)]
    ids = torch.nn.utils.rnn.pad_sequence(target, batch_first=True, padding_value=-1)
    made = {f"{name}@{k}": (getattr(weft.metrics, name), k) for name in SIX for k in CUTOFFS}
    evaluator = weft.Evaluator(SIX, top_k=CUTOFFS)
    thirty = MetricCollection({name: kind(k) for name, (kind, k) in made.items()})
    one = MetricCollection({"nDCG@100": weft.metrics.nDCG(100)})

    def run(metrics: weft.Evaluator | MetricCollection) -> dict[str, torch.Tensor]:
        metrics.reset()
        for rows in torch.arange(problem.users).split(BATCH):
            metrics.update(problem.scores[rows[0] : rows[-1] + 1], ids[rows])
        found = metrics.compute()
        return found.to_tensors() if isinstance(found, weft.Result) else found

    everything = {EVALUATOR: evaluator, "collection": thirty, "one metric": one}
    return {name: lambda metrics=metrics: run(metrics) for name, metrics in everything.items()}


def compare(problem: Problem, rounds: int) -> dict[str, Ratio]:
    """Each as a multiple of the Evaluator."""
    return measure(cases(problem), EVALUATOR, rounds)
