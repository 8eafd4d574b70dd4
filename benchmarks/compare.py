"""Comparing many models on many metrics over many users: what each test costs beside reading the
values per user.

    python -m benchmarks compare

The unit is the time that polars takes to read the models' tables, one Parquet file each. As many
threads as they like."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result
from weft.statistics import compare
from weft.statistics.significance_tests import USER_TESTS

MODELS, METRICS, CUTOFFS, USERS = 10, 40, (5, 10, 20, 50, 100), 100_000


@dataclass(frozen=True)
class Row:
    """What was asked for, as a multiple of reading the tables, and in seconds."""

    case: str
    ratio: float
    seconds: float


def make(
    models: int = MODELS, metrics: int = METRICS, users: int = USERS, *, continuous: bool = False
) -> dict[str, Result]:
    """Results with values per user: shares of hits, as most metrics have few values; or all
    different ones.
    """
    made = {}
    for model in range(models):
        generator = np.random.default_rng(model)
        columns: dict[str, np.ndarray] = {"user": np.arange(users)}
        for metric in range(metrics):
            for k in CUTOFFS:
                drawn = generator.random(users) ** (1 + metric / metrics) * (1 + model / 50)
                # A sixth are like nDCG, with a value for each place of a hit; the others like
                # recall, with a dozen.
                steps = 2_000 if metric % 6 == 0 else 12
                columns[f"M{metric}@{k}"] = drawn if continuous else np.floor(drawn * steps) / steps
        values = tuple(
            MetricValue(
                name.split("@")[0],
                int(name.split("@")[1]),
                float(column.mean()),
                users=users,
                higher_is_better=True,
            )
            for name, column in columns.items()
            if name != "user"
        )
        made[f"model {model}"] = Result(values, f"model {model}", per_user=pl.DataFrame(columns))
    return made


def measure(
    models: int = MODELS,
    metrics: int = METRICS,
    users: int = USERS,
    tests: Sequence[str] = USER_TESTS,
) -> Iterator[Row]:
    """The tests one by one, each with everything beside it; then the paired t-test on values that
    all differ.

    The tables are read before each, so that a busy machine slows both alike.
    """
    for continuous in (False, True):
        made = make(models, metrics, users, continuous=continuous)
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{number}.parquet" for number in range(models)]
            for path, result in zip(paths, made.values()):
                assert result.per_user is not None
                result.per_user.write_parquet(path)
            for test in ("paired_t",) if continuous else tests:
                reading = _seconds(lambda: [pl.read_parquet(path) for path in paths])  # noqa: B023
                seconds = _seconds(lambda: compare(made, tests=test))  # noqa: B023
                yield Row(
                    f"{test}{', no two values alike' if continuous else ''}",
                    seconds / reading,
                    seconds,
                )


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
