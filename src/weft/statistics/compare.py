"""Comparison of models by significance tests over their shared users."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.data.forks import check_fork
from weft.data.threads import usable_cpus
from weft.errors import (
    InputError,
    SettingError,
    check_choice,
    check_int,
    check_type,
    read_list,
    setting_ref,
)
from weft.evaluation.result import Result, describe_differences
from weft.metrics.names import parse_name, split_labels
from weft.metrics.registry import canonical_name
from weft.statistics.comparison import Comparison
from weft.statistics.comparison_text import row_metric
from weft.statistics.corrections import CORRECTIONS, FAMILIES
from weft.statistics.effect_sizes import effect_sizes
from weft.statistics.pair_statistics import Pairs, PairStatistics
from weft.statistics.pairing import AlignedUsers, Floats, align_users
from weft.statistics.pareto import find_fronts
from weft.statistics.randomization import RandomizationTest
from weft.statistics.significance_tests import (
    ALTERNATIVES,
    METRIC_TESTS,
    TESTS,
    UNDIRECTED,
    UNPAIRED,
    TestData,
    TestResult,
)

_WORKERS = 4  # metrics at a time; each takes a few copies of its values
_NAMES_IN_NOTE = 5


def compare(
    results: Sequence[Result] | Mapping[str, Result],
    *,
    metrics: str | Sequence[str] | None = None,
    tests: str | Sequence[str] = ("paired_t",),
    correction: str = "holm",
    family: str = "metric",
    alternative: str = "two-sided",
    alpha: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare models over the users that they share.

    The results must have values per user (`per_user=True`). `tests`: `"paired_t"`, `"wilcoxon"`,
    `"randomization"` and `"sign"` pair the values of each user; `"kruskal"` and `"mann_whitney"`
    ignore the pairing. `alternative`: `"two-sided"`, or that the first of two models has
    `"greater"` or `"less"` values. `resamples` and `seed` are those of the randomization test.

    p-values are adjusted by `correction` (`"holm"`, `"bonferroni"`, `"fdr"`, `"none"`) within each
    `family`: `"metric"`, all pairs of models on one metric under one test; `"test"`, all pairs of
    models and metrics under one test; `"pair"`, all metrics of one pair under one test; or `"all"`
    tests. A difference is `significant` if the adjusted p-value is at most `alpha`; its interval is
    adjusted in the same way (see `Comparison.to_frame`). Tests without a p-value, such as on a
    metric on which two models agree for every user, belong to no family.

    If all results have a Hypervolume of the values of the model, `fronts` has the Pareto front of
    its parts and the hypervolume of the front.

    >>> import torch, weft
    >>> truth = torch.eye(4)
    >>> settings = {"metrics": "MRR@4", "per_user": True}
    >>> good = weft.evaluate(torch.eye(4), truth, **settings)
    >>> bad = weft.evaluate(1 - torch.eye(4), truth, **settings)
    >>> weft.compare({"good": good, "bad": bad}).to_frame()["difference"].to_list()
    [0.75]
    """
    check_fork("a comparison of tables")
    named = _name_results(results)
    correction = check_choice("correction", correction, CORRECTIONS)
    family = check_choice("family", family, FAMILIES)
    alternative = check_choice("alternative", alternative, ALTERNATIVES)
    resamples, seed = check_int("resamples", resamples), check_int("seed", seed, least=0)
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha < 1:
        raise SettingError(f"{setting_ref('alpha', alpha)}; it must be between 0 and 1.")
    chosen_tests = _check_tests(tests, alternative)
    columns, notes = _shared_columns(named, metrics)
    aligned = align_users(named)
    pairs = list(itertools.combinations(range(len(named)), 2))
    randomization = RandomizationTest(alternative, resamples, seed)
    tested = _run_tests(aligned, columns, pairs, chosen_tests, randomization, alpha)
    rows = list(_build_rows(list(named), aligned, pairs, chosen_tests, tested))
    notes += _notes(rows, chosen_tests)
    (first, reference), *others = named.items()
    for name, result in others:
        notes += describe_differences(result, repr(name), reference, repr(first))
    return Comparison(
        rows=tuple(rows),
        results=named,
        correction=correction,
        alpha=alpha,
        tests=tuple(chosen_tests),
        family=family,
        alternative=alternative,
        means={metric.name: dict(zip(named, metric.means)) for metric in tested},
        notes=tuple(notes),
        fronts=find_fronts(named),
        resamples=resamples,
        seed=seed,
    ).adjusted(correction)


def _as_list(name: str, names: str | Sequence[str]) -> list[str]:
    listed = read_list(name, names, "a name, or a list of names")
    if not listed:
        raise SettingError(f"{name} is empty; name at least one, or leave it out.", setting=name)
    return listed


def _check_tests(tests: str | Sequence[str], alternative: str) -> list[str]:
    """Return the tests without repetitions; refuse those without the alternative."""
    chosen = [check_choice("tests", test, TESTS) for test in _as_list("tests", tests)]
    for test in chosen:
        if test in UNDIRECTED and alternative != "two-sided":
            raise SettingError(
                f"{setting_ref('tests', test)} has no direction, but "
                f"{setting_ref('alternative', alternative)} asks for one; leave it out, or test "
                "two-sided."
            )
    return list(dict.fromkeys(chosen))


def _name_results(results: Sequence[Result] | Mapping[str, Result]) -> dict[str, Result]:
    """Return the results by unique names. Raises if one has no values per user."""
    listed = results.values() if isinstance(results, Mapping) else results
    listed = read_list("results", listed, "results of weft.evaluate, in a list or by name")
    for result in listed:
        check_type("results", result, Result, "results of weft.evaluate with per_user=True")
    if isinstance(results, Mapping):
        named = {str(name): result for name, result in results.items()}
    else:
        named = {}
        for result in listed:
            name, copy = result.name, 2
            while name in named:
                name, copy = f"{result.name} ({copy})", copy + 1
            named[name] = result
    if len(named) < 2:
        raise SettingError(f"compare needs at least two results; got {len(named)}.")
    for name, result in named.items():
        if result.per_user is None:
            raise InputError(
                f"the result {name!r} has no values per user, which a comparison pairs; evaluate "
                f"it with {setting_ref('per_user', True)}."
            )
    return named


def _shared_columns(
    results: Mapping[str, Result], metrics: str | Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return the metrics to compare, and notes on metrics that not every result has per user."""
    tables = [result.per_user for result in results.values() if result.per_user is not None]
    shared = set.intersection(*(set(table.columns) for table in tables)) - {"user"}
    first = next(iter(results.values()))
    if metrics is not None:
        return _requested_columns(first, _as_list("metrics", metrics), shared), []
    columns = [name for name in first if name in shared]
    if not columns:
        raise InputError(
            "the results share no metric with a value per user; evaluate them with the same "
            "metrics."
        )
    names = itertools.chain.from_iterable(results.values())
    lost = dict.fromkeys(split_labels(name)[0] for name in names if name not in shared)
    note = f"not compared, because not every model has a value per user: {', '.join(lost)}"
    return columns, [note] if lost else []


def _requested_columns(first: Result, metrics: Sequence[str], shared: set[str]) -> list[str]:
    for name in metrics:
        check_type("metrics", name, str, "names of metrics, such as 'nDCG@10'")
    columns = dict.fromkeys(
        first.entry(name).name if name in first else canonical_name(name) for name in metrics
    )
    for name in columns:
        if name not in shared:
            raise SettingError(
                f"{name!r} cannot be compared: not every result has it per user. All have: "
                f"{', '.join(sorted(shared))}.",
                setting="metrics",
            )
    return list(columns)


@dataclass(frozen=True)
class _TestedMetric:
    """A metric with its tests, and the columns of effect sizes, `[pairs]`."""

    name: str
    tests: dict[str, TestResult]
    effects: dict[str, Floats]
    users: Floats
    means: list[float]  # of each model, over the users that all models have


def _run_tests(
    aligned: AlignedUsers,
    columns: Sequence[str],
    pairs: Pairs,
    tests: Sequence[str],
    randomization: RandomizationTest,
    alpha: float,
) -> list[_TestedMetric]:
    """Run all tests on all pairs and metrics, several metrics at a time."""

    def run(column: str) -> _TestedMetric:
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
        return _TestedMetric(column, outcomes, effects, data.statistics.users, means.tolist())

    with ThreadPoolExecutor(min(_WORKERS, usable_cpus())) as pool:  # NumPy frees the GIL
        metrics = list(pool.map(run, columns))
    if "randomization" in tests:
        for metric, *result in zip(metrics, *randomization.run(aligned, columns, pairs)):
            metric.tests["randomization"] = (result[0], result[1])
    return metrics


def _build_rows(
    models: Sequence[str],
    aligned: AlignedUsers,
    pairs: Pairs,
    tests: Sequence[str],
    metrics: Sequence[_TestedMetric],
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
        yield {
            "model_a": models[a],
            "model_b": models[b],
            "metric": str(spec.with_cutoff(None)),
            "k": spec.k,
            "test": test,
            "statistic": statistic,
            "p_value": p_value,
            "p_adjusted": p_value,
            "significant": None,
            "family_size": 0,
            **{name: float(values[pair]) for name, values in metric.effects.items()},
            "users": users,
            "left_out": either[pair] - users,
            "paired": test not in UNPAIRED,
        }


def _notes(rows: Sequence[Mapping[str, Any]], tests: Sequence[str]) -> list[str]:
    """Return notes on unpaired tests, missing p-values and users that are left out."""
    notes = []
    if unpaired := [test for test in tests if test in UNPAIRED]:
        notes.append(
            f"{' and '.join(unpaired)} {'take' if len(unpaired) > 1 else 'takes'} the users of two "
            "models for independent samples, although they are the same users; the other tests "
            "pair them"
        )
    undefined = dict.fromkeys(
        f"{row['model_a']} and {row['model_b']} on {row_metric(row)}"
        for row in rows
        if math.isnan(row["p_value"])
    )
    if undefined:
        more = len(undefined) - _NAMES_IN_NOTE
        shown = ", ".join(list(undefined)[:_NAMES_IN_NOTE])
        notes.append(
            "no p-value, and so in no family of tests, where nothing differs or fewer than two "
            f"users have both values: {shown}{f' and {more} more' if more > 0 else ''}"
        )
    if left_out := max((row["left_out"] for row in rows), default=0):
        notes.append(
            "users that are undefined, or missing, for one of two models are left out: up to "
            f"{left_out:,} (column left_out)"
        )
    return notes
