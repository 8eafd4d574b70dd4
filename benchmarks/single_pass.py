"""What a whole evaluation costs, as multiples of `torch.topk(scores, 100)` alone on the same scores.

    python benchmarks/single_pass.py            # sizes S and M; add L for a million items

CPU time of one thread, runs interleaved, median of several. Ratios only: these depend far less on the machine than times.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import csr_matrix

import weft
from weft.ranking import top_k
from weft.registry import all_metrics

SIZES = {"S": (3_706, 2_000), "M": (50_000, 300), "L": (1_000_000, 16)}  # items, users
CUTOFFS = [5, 10, 20, 50, 100]
SIX = ["Precision", "Recall", "HitRate", "MAP", "MRR", "nDCG"]
TWELVE = [*SIX, "MAR", "nDCGRendle2020", "F1", "LAUC", "AUC", "GAUC"]
FORTY = [metric.example or metric.__name__ for metric in all_metrics()]
ROUNDS = 5


def cells(users: int, items: int, per_user: int, generator: np.random.Generator) -> csr_matrix:
    """About `per_user` random cells for each user."""
    rows = np.repeat(np.arange(users), per_user)
    columns = generator.integers(0, items, len(rows))
    matrix = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(users, items))
    matrix.data[:] = 1  # repeated cells were summed
    return matrix


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main(sizes: list[str]) -> None:
    """Print one row of ratios per size."""
    torch.set_num_threads(1)
    for size in sizes:
        items, users = SIZES[size]
        generator = np.random.default_rng(0)
        scores = torch.randn(users, items, generator=torch.Generator().manual_seed(0))
        truth, train = cells(users, items, 10, generator), cells(users, items, 100, generator)

        about = {
            "user_groups": generator.choice(["F", "M"], users).tolist(),
            "item_clusters": generator.integers(0, 20, items).tolist(),
            "item_features": csr_matrix((np.ones(3 * items), generator.integers(0, 20, 3 * items), np.arange(0, 3 * items + 1, 3))),
        }

        def run(metrics: list[str], scores=scores, truth=truth, train=train, **about: object) -> object:
            return weft.evaluate(scores, truth, train=train, metrics=metrics, top_k=CUTOFFS, **about)

        work = {
            "torch.topk": lambda scores=scores: torch.topk(scores, 100),
            "one pass (sum)": lambda scores=scores: scores.sum(),
            "exact top 100": lambda scores=scores: top_k(scores, 100),
            "six metrics": lambda run=run: run(SIX),
            "all twelve": lambda run=run: run(TWELVE),
            "all forty": lambda run=run, about=about: run(FORTY, **about),
        }
        times: dict[str, list[float]] = {name: [] for name in work}
        for _ in range(ROUNDS):
            for name, call in work.items():
                times[name].append(cpu_seconds(call))
        base = statistics.median(times["torch.topk"])
        ratios = {name: statistics.median(found) / base for name, found in times.items()}
        print(f"{size} ({users:,} users x {items:,} items): " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))


if __name__ == "__main__":
    main(sys.argv[1:] or ["S", "M"])
