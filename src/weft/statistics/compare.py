"""Comparison of models by significance tests over their shared users."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.errors import InputError, SettingError, check_choice, check_int, setting_ref
from weft.evaluation.result import Result, describe_differences
from weft.metrics.names import parse_name, split_labels
from weft.metrics.registry import canonical_name
from weft.statistics.comparison import Comparison
from weft.statistics.comparison_text import row_metric
from weft.statistics.corrections import CORRECTIONS, FAMILIES
from weft.statistics.effect_sizes import effect_sizes
from weft.statistics.pair_statistics import Pairs, PairStatistics
from weft.statistics.pairing import AlignedUsers, align_users
from weft.statistics.pareto import find_fronts
from weft.statistics.randomization import RandomizationTest
from weft.statistics.significance_tests import (
    ALTERNATIVES,
    SUMMARY_TESTS,
    TESTS,
    UNDIRECTED,
    UNPAIRED,
    VALUE_TESTS,
    TestResult,
    run_value_test,
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
    named = _name_results(results)
    correction = check_choice("correction", correction, CORRECTIONS)
    family = check_choice("family", family, FAMILIES)
    alternative = check_choice("alternative", alternative, ALTERNATIVES)
    resamples, seed = check_int("resamples", resamples), check_int("seed", seed, least=0)
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha < 1:
        raise SettingError(f"{setting_ref('alpha', alpha)}; it must be between 0 and 1.")
    chosen_tests = _check_tests(tests, alternative)
    requested = None if metrics is None else _as_list("metrics", metrics)
    columns, notes = _shared_columns(named, requested)
    aligned = align_users(named)
    pairs = list(itertools.combinations(range(len(named)), 2))
    randomization = RandomizationTest(alternative, resamples, seed)
    outcome = _run_tests(aligned, columns, pairs, chosen_tests, randomization)
    rows = _build_rows(list(named), aligned, columns, pairs, outcome, alpha)
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
        means={column: dict(zip(named, means)) for column, means in zip(columns, outcome.means)},
        notes=tuple(notes),
        fronts=find_fronts(named),
        resamples=resamples,
        seed=seed,
    ).adjusted(correction)


def _as_list(name: str, names: str | Sequence[str]) -> list[str]:
    listed = [names] if isinstance(names, str) else list(names)
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
    if isinstance(results, Mapping):
        named = {str(name): result for name, result in results.items()}
    else:
        named = {}
        for result in results:
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
    results: Mapping[str, Result], metrics: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return the metrics to compare, and notes on metrics that not every result has per user."""
    shared = set.intersection(
        *(
            set(result.per_user.columns)
            for result in results.values()
            if result.per_user is not None
        )
    ) - {"user"}
    first = next(iter(results.values()))
    notes = []
    if metrics is None:
        columns = [name for name in first if name in shared]
        names = dict.fromkeys(name for result in results.values() for name in result)
        if lost := dict.fromkeys(split_labels(name)[0] for name in names if name not in shared):
            notes = [
                f"not compared, because not every model has a value per user: {', '.join(lost)}"
            ]
    else:
        columns = list(
            dict.fromkeys(
                first.entry(name).name if name in first else canonical_name(name)
                for name in metrics
            )
        )
        for name in columns:
            if name not in shared:
                raise SettingError(
                    f"{name!r} cannot be compared: not every result has it per user. All have: "
                    f"{', '.join(sorted(shared))}.",
                    setting="metrics",
                )
    if not columns:
        raise InputError(
            "the results share no metric with a value per user; evaluate them with the same "
            "metrics."
        )
    return columns, notes


@dataclass(frozen=True)
class _TestOutcome:
    """Statistics of all pairs and metrics, test results `[pairs, metrics]`, means by metric."""

    statistics: PairStatistics
    tests: dict[str, TestResult]
    means: list[list[float]]  # [metrics][models], over the users that all models have


def _run_tests(
    aligned: AlignedUsers,
    columns: Sequence[str],
    pairs: Pairs,
    tests: Sequence[str],
    randomization: RandomizationTest,
) -> _TestOutcome:
    """Run all tests on all pairs and metrics, several metrics at a time."""
    alternative = randomization.alternative
    value_tests = [test for test in tests if test in VALUE_TESTS]

    def run(column: str) -> tuple[PairStatistics, list[TestResult], list[float]]:
        values = aligned.values(column)
        statistics = PairStatistics.compute(values, pairs)
        outcomes = [
            run_value_test(test, values, pairs, users=statistics.users, alternative=alternative)
            for test in value_tests
        ]
        has_all = ~np.isnan(values).any(axis=0)
        means = np.full(len(values), np.nan)
        if has_all.any():
            means = values[:, has_all].mean(axis=1)
        return statistics, outcomes, means.tolist()

    with ThreadPoolExecutor(min(_WORKERS, os.cpu_count() or 1)) as pool:  # NumPy frees the GIL
        by_column = list(pool.map(run, columns))
    statistics = PairStatistics.stack([done[0] for done in by_column])
    by_value: dict[str, TestResult] = {}
    for index, test in enumerate(value_tests):
        outcomes = [done[1][index] for done in by_column]
        statistic, p_value = (np.stack(part, axis=1) for part in zip(*outcomes))
        by_value[test] = statistic, p_value
    results: dict[str, TestResult] = {}
    for test in tests:
        if test == "randomization":
            results[test] = randomization.run(aligned, columns, pairs)
        elif test in SUMMARY_TESTS:
            results[test] = SUMMARY_TESTS[test](statistics, alternative)
        else:
            results[test] = by_value[test]
    if "mann_whitney" in by_value:  # exact for a few users without ties
        is_exact = ~np.isnan(by_value["mann_whitney"][1])
        for approximate, exact in zip(results["mann_whitney"], by_value["mann_whitney"]):
            approximate[is_exact] = exact[is_exact]
    return _TestOutcome(statistics, results, [done[2] for done in by_column])


def _build_rows(
    models: Sequence[str],
    aligned: AlignedUsers,
    columns: Sequence[str],
    pairs: Pairs,
    outcome: _TestOutcome,
    alpha: float,
) -> list[dict[str, Any]]:
    """Return a row per test, pair and metric, with p-values that are not yet adjusted."""
    specs = [parse_name(column) for column in columns]
    names = [(str(spec.with_cutoff(None)), spec.k) for spec in specs]
    present = aligned.is_present
    either = [int(np.count_nonzero(present[a] | present[b])) for a, b in pairs]
    effects = {
        name: values.tolist() for name, values in effect_sizes(outcome.statistics, alpha).items()
    }
    users = outcome.statistics.users.astype(int).tolist()
    rows = []
    for test, results in outcome.tests.items():
        statistics, p_values = (values.tolist() for values in results)
        for (pair, (a, b)), (column, (metric, k)) in itertools.product(
            enumerate(pairs), enumerate(names)
        ):
            rows.append(
                {
                    "model_a": models[a],
                    "model_b": models[b],
                    "metric": metric,
                    "k": k,
                    "test": test,
                    "statistic": statistics[pair][column],
                    "p_value": p_values[pair][column],
                    "p_adjusted": p_values[pair][column],
                    "significant": None,
                    "family_size": 0,
                    **{name: values[pair][column] for name, values in effects.items()},
                    "users": users[pair][column],
                    "left_out": either[pair] - users[pair][column],
                    "paired": test not in UNPAIRED,
                }
            )
    return rows


def _notes(rows: Sequence[Mapping[str, Any]], tests: Sequence[str]) -> list[str]:
    """Return notes on unpaired tests, missing p-values and users that are left out."""
    notes = []
    if unpaired := [test for test in tests if test in UNPAIRED]:
        notes.append(
            f"{' and '.join(unpaired)} {'take' if len(unpaired) > 1 else 'takes'} the users of two "
            "models for independent samples, although they are the same users; the other tests "
            "pair them"
        )
    undefined = list(
        dict.fromkeys(
            f"{row['model_a']} and {row['model_b']} on {row_metric(row)}"
            for row in rows
            if math.isnan(row["p_value"])
        )
    )
    if undefined:
        more = len(undefined) - _NAMES_IN_NOTE
        shown = ", ".join(undefined[:_NAMES_IN_NOTE]) + (f" and {more} more" if more > 0 else "")
        notes.append(
            "no p-value, and so in no family of tests, where nothing differs or fewer than two "
            f"users have both values: {shown}"
        )
    if left_out := max((row["left_out"] for row in rows), default=0):
        notes.append(
            "users that are undefined, or missing, for one of two models are left out: up to "
            f"{left_out:,} (column left_out)"
        )
    return notes
