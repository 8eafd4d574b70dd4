"""CPU time of one thread, in turns: every round runs everything once, so that a busy machine slows
all alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """How many times the baseline something takes: the median over rounds, the lowest and the
    highest.
    """

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_short(self.median)} ({_short(self.low)}-{_short(self.high)})"


def measure(
    work: Mapping[str, Callable[[], object]],
    baseline: str,
    rounds: int = 7,
    *,
    seconds: Callable[[Callable[[], object]], float] | None = None,
) -> dict[str, Ratio]:
    """The CPU time of each call (or other `seconds`) as a multiple of the baseline's in the same
    round. A first round warms up and is not counted.
    """
    seconds = seconds or cpu_seconds
    ratios: dict[str, list[float]] = {name: [] for name in work}
    for number in range(rounds + 1):
        spent = {name: seconds(call) for name, call in work.items()}
        if number:
            for name in spent:
                ratios[name].append(spent[name] / spent[baseline])
    return {
        name: Ratio(statistics.median(found), min(found), max(found))
        for name, found in ratios.items()
    }


def cpu_seconds(call: Callable[[], object]) -> float:
    """The CPU time of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def wall_seconds(call: Callable[[], object]) -> float:
    """The wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _short(number: float) -> str:
    """Three figures, or all digits before the point."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"
