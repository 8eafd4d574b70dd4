"""What an evaluation takes beside its input and its result: the peak of the process above what it
has before and after (Linux).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import torch

from benchmarks.data import CUTOFFS, SIX, SIZES, make
from weft.ranking.kernels import any_device as anywhere
from weft.ranking.kernels import using

FACTORS = {"20,000 x 50,000": (20_000, 50_000), "2,000 x 1,000,000": (2_000, 1_000_000)}


def beyond_the_scores(size: str, metrics: str) -> float:
    """The peak of the pass over a score matrix, as a share of one batch of scores; truth, train and
    labels are read before.

    `metrics`: "six", "all", or "torch" for six with torch alone.
    """
    return _alone("matrix", size, metrics)


def of_factors(case: str, users: int) -> float:
    """The peak of an evaluation of factors (d = 64), as a multiple of one batch of scores."""
    return _alone("factors", case, str(users))


def _alone(*arguments: str) -> float:
    # Memory goes back to the system when it is freed, so that the process never has more than is in
    # use.
    malloc = {
        "MALLOC_MMAP_THRESHOLD_": "8192",
        "MALLOC_TRIM_THRESHOLD_": "8192",
        "MALLOC_MMAP_MAX_": "1000000",
    }
    command = [sys.executable, "-m", "benchmarks.memory", *arguments]
    answer = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **malloc}
    )
    return float(answer.stdout.strip().splitlines()[-1])


def _resident(field: str) -> int:
    """Bytes of the process: `VmRSS` now, `VmHWM` at the peak since it was forgotten."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(
        next(line for line in status.splitlines() if line.startswith(field)).split()[1]
    )


def _forget_peak() -> None:
    ctypes.CDLL(None).malloc_trim(0)  # what was freed before would hide what is taken now
    Path("/proc/self/clear_refs").write_text("5")


def _measure_matrix(size: str, metrics: str) -> float:
    import weft
    from benchmarks.cases import ALL_METRICS, evaluation

    items, users = SIZES[size]
    names = ALL_METRICS if metrics == "all" else SIX
    evaluation(make(items, 64), names)  # what is made once and kept
    problem = make(items, users)
    before: list[int] = []

    def scores(wanted: torch.Tensor) -> torch.Tensor:
        if not before:  # truth, train and labels have been read
            _forget_peak()
            before.append(_resident("VmRSS"))
        return problem.scores[int(wanted[0]) : int(wanted[-1]) + 1]

    rows = min(users, 1024)
    about = problem.about if metrics == "all" else {}
    inputs = {"train": problem.train, "users": range(users), "items": range(items), **about}
    result = weft.evaluate(
        scores, problem.truth, metrics=names, top_k=CUTOFFS, batch_size=rows, **inputs
    )
    return _peak(before[0], result) / (4 * items * rows)


def _measure_factors(case: str, users: int) -> float:
    import weft

    _, items = FACTORS[case]
    generator = torch.Generator().manual_seed(0)
    factors = weft.Factors(
        torch.randn(users, 64, generator=generator), torch.randn(items, 64, generator=generator)
    )
    truth = _truth(users, items)
    weft.evaluate(
        weft.Factors(torch.randn(8, 64), torch.randn(items, 64)),
        _truth(8, items),
        metrics=SIX,
        top_k=CUTOFFS,
    )
    _forget_peak()
    before = _resident("VmRSS")
    result = weft.evaluate(factors, truth, metrics=SIX, top_k=CUTOFFS)
    return _peak(before, result) / (4 * items * max(1, min(1024, (1 << 24) // items)))


def _peak(before: int, result: object) -> int:
    """The peak above what was there before, and above what is there now that there is a result."""
    assert result is not None
    return _resident("VmHWM") - max(before, _resident("VmRSS"))


def _truth(users: int, items: int) -> object:
    import numpy as np
    from scipy.sparse import csr_matrix

    from benchmarks.data import RELEVANT, draw

    cells = draw(users, items, RELEVANT, np.random.default_rng(0))
    return csr_matrix(
        (np.ones(cells.size), cells.ravel(), np.arange(0, cells.size + 1, RELEVANT)),
        shape=(users, items),
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    kind, case, detail = sys.argv[1:]
    with using(anywhere) if detail == "torch" else nullcontext():
        print(
            _measure_matrix(case, detail)
            if kind == "matrix"
            else _measure_factors(case, int(detail))
        )
