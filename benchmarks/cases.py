"""What Weft itself costs, as multiples of `torch.topk(scores, 100)` on the same scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import weft
from benchmarks.data import CUTOFFS, SIX, Problem
from weft.ranking import top_k
from weft.registry import all_metrics

FORTY = [metric.example or metric.__name__ for metric in all_metrics()]


def evaluation(problem: Problem, metrics: list[str], **settings: Any) -> weft.Result:
    """A whole evaluation: reading truth and train, masking, all metrics at all cut-offs, the result."""
    about = problem.about if metrics is FORTY else {}
    return weft.evaluate(problem.scores, problem.truth, train=problem.train, metrics=metrics, top_k=CUTOFFS, **about, **settings)


def main_cases(problem: Problem) -> dict[str, Callable[[], object]]:
    """The rows of the main table."""
    return {
        "torch.topk": lambda: torch.topk(problem.scores, 100),
        "one pass (sum)": lambda: problem.scores.sum(),
        "exact top 100": lambda: top_k(problem.scores, 100),
        "six metrics": lambda: evaluation(problem, SIX),
        "all forty": lambda: evaluation(problem, FORTY),
    }
