"""What Weft itself costs: the main table, the worst cases of the top k, and how cost grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

import weft
from benchmarks.clock import Ratio, measure
from benchmarks.data import CUTOFFS, SIX, SIZES, Problem, make
from weft.metrics.declarations import required_inputs
from weft.metrics.registry import built_in_metrics
from weft.ranking import top_k
from weft.ranking.kernels import any_device as anywhere
from weft.ranking.kernels import using

# All but those of lists of another model.
ALL_METRICS = [
    metric.example or metric.__name__
    for metric in built_in_metrics()
    if "reference" not in required_inputs(metric)
]
BASELINE = "torch.topk(scores, 100)"
# The goals, S / M / L.
WANTED = {
    "exact top 100": (0.45, 0.42, 0.25),
    "six metrics": (0.28, 0.22, 0.15),
    "all metrics": (0.65, 0.65, 0.65),
    "six metrics, torch alone": (1.1, 1.1, 0.5),
}


def evaluation(problem: Problem, metrics: list[str], **settings: Any) -> weft.Result:
    """A whole evaluation: reading truth and train, masking, all metrics at all cut-offs, the
    result.
    """
    about = problem.about if metrics is not SIX else {}
    return weft.evaluate(
        problem.scores,
        problem.truth,
        train=problem.train,
        metrics=metrics,
        top_k=CUTOFFS,
        **about,
        **settings,
    )


def main_cases(problem: Problem) -> dict[str, Callable[[], object]]:
    """The rows of the main table."""

    def torch_alone() -> object:
        with using(anywhere):
            return evaluation(problem, SIX)

    return {
        BASELINE: lambda: torch.topk(problem.scores, 100),
        "one pass over the scores (their sum)": lambda: problem.scores.sum(),
        "exact top 100": lambda: top_k(problem.scores, 100),
        "six metrics": lambda: evaluation(problem, SIX),
        "all metrics": lambda: evaluation(problem, ALL_METRICS),
        "six metrics, torch alone": torch_alone,
    }


def main_table(sizes: list[str], rounds: int) -> dict[str, dict[str, Ratio]]:
    """For each size, the rows of the main table."""
    return {size: measure(main_cases(make(*SIZES[size])), BASELINE, rounds) for size in sizes}


# --------------------------------------------------------------------------------------------------


def worst_scores(users: int, items: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Scores in which very many are equal, or that come in the most unlucky order."""
    generator = torch.Generator().manual_seed(0)
    random = torch.randn(users, items, generator=generator)
    yield "random", random
    yield "integers 0 to 4", torch.randint(0, 5, (users, items), generator=generator).float()
    yield "rounded to bfloat16", random.bfloat16().float()
    yield (
        "99 % zeros",
        torch.where(torch.rand(users, items, generator=generator) < 0.99, 0.0, random),
    )
    yield "constant", torch.full((users, items), 0.5)
    yield "ascending", torch.arange(items).float().repeat(users, 1)
    yield "descending", -torch.arange(items).float().repeat(users, 1)
    yield "bfloat16", random.bfloat16()
    yield "float64", random.double()


def worst_cases(sizes: list[str], rounds: int) -> dict[str, dict[str, Ratio]]:
    """For each size and kind of scores, the exact top 100 as a multiple of `torch.topk` on the same
    scores; checked first.
    """
    found: dict[str, dict[str, Ratio]] = {}
    for size in sizes:
        items, users = SIZES[size]
        for kind, scores in worst_scores(max(16, users // 8), items):
            few = scores[:8].double()
            if not torch.equal(
                top_k(scores[:8], 100)[1],
                few.sort(dim=1, descending=True, stable=True).indices[:, :100],
            ):
                raise AssertionError(
                    f"the top 100 of {kind} scores at {size} is not that of a stable sort"
                )
            work = {
                BASELINE: lambda scores=scores: torch.topk(scores, 100),
                "ours": lambda scores=scores: top_k(scores, 100),
            }
            found.setdefault(size, {})[kind] = measure(work, BASELINE, rounds)["ours"]
    return found


# --------------------------------------------------------------------------------------------------


def growth(rounds: int) -> dict[str, list[tuple[int, Ratio]]]:
    """Cost against users, items and the number of metrics, each as a multiple of its first
    point.
    """
    items, users = SIZES["S"]
    largest = make(items, 4 * users)
    by_users = {n: largest.first(n) for n in (users // 4, users // 2, users, 2 * users, 4 * users)}
    by_items = {n: make(n, 500) for n in (5_000, 10_000, 20_000, 40_000, 80_000)}
    problem = by_users[users]
    by_metrics = {n: METRICS_BY_COST[:n] for n in (1, 6, 12, 20, 30, len(ALL_METRICS))}
    return {
        "users": _grow(
            {n: lambda given=given: evaluation(given, SIX) for n, given in by_users.items()}, rounds
        ),
        "items": _grow(
            {n: lambda given=given: evaluation(given, SIX) for n, given in by_items.items()}, rounds
        ),
        "metrics": _grow(
            {n: lambda names=names: evaluation(problem, names) for n, names in by_metrics.items()},
            rounds,
        ),
    }


# The six first, then those that need no more than the lists, AUC and GAUC last: they alone look at
# every score again.
METRICS_BY_COST = [
    *SIX,
    *(name for name in ALL_METRICS if name not in (*SIX, "AUC", "GAUC")),
    "AUC",
    "GAUC",
]


def _grow(work: dict[int, Callable[[], object]], rounds: int) -> list[tuple[int, Ratio]]:
    first = str(next(iter(work)))
    ratios = measure({str(n): call for n, call in work.items()}, first, rounds)
    return [(int(n), ratio) for n, ratio in ratios.items()]
