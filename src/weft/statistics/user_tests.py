"""Significance tests on the values per user of all pairs of models and metrics."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.data.threads import usable_cpus
from weft.metrics.names import parse_name
from weft.statistics.comparison_rows import build_row
from weft.statistics.effect_sizes import effect_sizes
from weft.statistics.pair_statistics import Pairs, PairStatistics
from weft.statistics.pairing import AlignedUsers, Floats
from weft.statistics.randomization import RandomizationTest
from weft.statistics.significance_tests import METRIC_TESTS, UNPAIRED, TestData, TestResult

_WORKERS = 4  # metrics at a time; each takes a few copies of its values


@dataclass(frozen=True)
class TestedMetric:
    """A metric with its tests, and the columns of effect sizes, `[pairs]`."""

    name: str
    tests: dict[str, TestResult]
    effects: dict[str, Floats]
    users: Floats
    means: list[float]  # of each model, over the users that all models have


def run_tests(
    aligned: AlignedUsers,
    columns: Sequence[str],
    pairs: Pairs,
    tests: Sequence[str],
    randomization: RandomizationTest,
    alpha: float,
) -> list[TestedMetric]:
    """Run all tests on all pairs and metrics, several metrics at a time."""

    def run(column: str) -> TestedMetric:
        values = aligned.values(column)
        data = TestData(values, pairs, PairStatistics.compute(values, pairs))
        outcomes = {
            test: METRIC_TESTS[test](data, randomization.alternative)
            for test in tests
            if test in METRIC_TESTS
        }
        has_all = ~np.isnan(values).any(axis=0)
        means = np.full(len(values), np.nan)
        if has_all.any():
            means = values[:, has_all].mean(axis=1)
        effects = effect_sizes(data.statistics, alpha)
        return TestedMetric(column, outcomes, effects, data.statistics.users, means.tolist())

    with ThreadPoolExecutor(min(_WORKERS, usable_cpus())) as pool:  # NumPy frees the GIL
        metrics = list(pool.map(run, columns))
    if "randomization" in tests:
        for metric, *result in zip(metrics, *randomization.run(aligned, columns, pairs)):
            metric.tests["randomization"] = (result[0], result[1])
    return metrics


def build_rows(
    models: Sequence[str],
    aligned: AlignedUsers,
    pairs: Pairs,
    tests: Sequence[str],
    metrics: Sequence[TestedMetric],
) -> Iterator[dict[str, Any]]:
    """Yield a row per test, pair and metric, with p-values that are not yet adjusted."""
    present = aligned.is_present
    either = [int(np.count_nonzero(present[a] | present[b])) for a, b in pairs]
    specs = [parse_name(metric.name) for metric in metrics]
    for test, (pair, (a, b)), (metric, spec) in itertools.product(
        tests, enumerate(pairs), zip(metrics, specs)
    ):
        statistic, p_value = (float(values[pair]) for values in metric.tests[test])
        users = int(metric.users[pair])
        yield build_row(
            model_a=models[a],
            model_b=models[b],
            metric=str(spec.with_cutoff(None)),
            k=spec.k,
            test=test,
            statistic=statistic,
            p_value=p_value,
            **{name: float(values[pair]) for name, values in metric.effects.items()},
            users=users,
            left_out=either[pair] - users,
            paired=test not in UNPAIRED,
        )
