"""Which tests of a comparison are run on which metrics."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.errors import InputError, SettingError, check_type, read_list, render, setting_ref
from weft.evaluation.result import Result
from weft.evaluation.result_io import describe_missing_table
from weft.metrics.registry import canonical_name
from weft.statistics.paired_bootstrap import BootstrapTest, find_obstacle
from weft.statistics.untested import check_requested, describe_untested

_DEFAULT_TEST = "paired_t"


@dataclass(frozen=True)
class TestPlan:
    """Tests on values per user with their metrics, and the metrics of the bootstrap test."""

    __test__ = False  # not a test of pytest

    user_tests: list[str]
    user_metrics: list[str]
    bootstrap_metrics: list[str]
    notes: list[str]

    @property
    def metrics(self) -> set[str]:
        """All metrics that are tested."""
        return {*self.user_metrics, *self.bootstrap_metrics}

    @property
    def tested(self) -> set[tuple[str, str]]:
        """All tests with their metrics."""
        by_user = set(itertools.product(self.user_tests, self.user_metrics))
        return by_user | {("bootstrap", metric) for metric in self.bootstrap_metrics}

    def select(self, requested: Sequence[str]) -> TestPlan:
        """Return the plan for some of its metrics."""
        by_user = [name for name in requested if name in self.user_metrics]
        bootstrap = [name for name in requested if name in self.bootstrap_metrics]
        return TestPlan(self.user_tests if by_user else [], by_user, bootstrap, [])


def plan_tests(
    results: Mapping[str, Result],
    tests: Sequence[str] | None,
    metrics: str | Sequence[str] | None,
) -> TestPlan:
    """Return the tests to run; `tests` is None for the default, `metrics` is None for all.

    By default, metrics with a value per user have a paired t-test, and all others the bootstrap
    test if the results have paired resamples. Raises `InputError` if the results lack what a
    requested test needs.
    """
    user_tests = _choose_user_tests(results, tests)
    user_metrics = _find_user_metrics(results) if user_tests else []
    bootstrap, notes = _find_bootstrap_metrics(results, tests)
    if tests is None:
        bootstrap = [name for name in bootstrap if name not in user_metrics]
    plan = TestPlan(user_tests if user_metrics else [], user_metrics, bootstrap, notes)
    if metrics is not None:
        requested = _read_requested(next(iter(results.values())), metrics)
        check_requested(results, requested, plan.metrics, tests)
        return plan.select(requested)
    if not plan.metrics:
        raise InputError(
            "the results share no metric with a value per user or resamples; evaluate them with "
            "the same metrics."
        )
    return replace(plan, notes=[*notes, *describe_untested(results, plan.metrics)])


def _choose_user_tests(results: Mapping[str, Result], tests: Sequence[str] | None) -> list[str]:
    """Return the tests on values per user. Raises if a result lacks values or resamples."""
    lacking = [name for name, result in results.items() if result.per_user is None]
    if tests is None:
        if lacking and _prefers_bootstrap(results):
            return []
        tests = [_DEFAULT_TEST]
    chosen = [test for test in tests if test != "bootstrap"]
    if lacking and chosen:
        raise _missing_values_error(lacking[0], results[lacking[0]])
    return chosen


def _missing_values_error(name: str, result: Result) -> InputError:
    """Return the error that a result has no values per user."""
    if missing := describe_missing_table(result, "per_user"):
        return InputError(f"{missing}; a comparison pairs them: put the file there.")
    return InputError(
        f"the result {name!r} has no values per user, which a comparison pairs; evaluate it with "
        f"{setting_ref('per_user', True)}, or evaluate all with {setting_ref('bootstrap', 1000)} "
        f"and compare with {setting_ref('tests', 'bootstrap')}."
    )


def _prefers_bootstrap(results: Mapping[str, Result]) -> bool:
    """Return True if results without values per user have paired resamples.

    Raises `InputError` if they have resamples that are not paired."""
    obstacle = find_obstacle(results)
    if obstacle is not None and _have_resamples(results):
        raise InputError(obstacle)
    return obstacle is None


def _have_resamples(results: Mapping[str, Result]) -> bool:
    return all(result.resamples is not None for result in results.values())


def _find_user_metrics(results: Mapping[str, Result]) -> list[str]:
    """Return the metrics that all results have per user."""
    tables = [result.per_user for result in results.values() if result.per_user is not None]
    shared = set.intersection(*(set(table.columns) for table in tables))
    return [name for name in next(iter(results.values())) if name in shared]


def _find_bootstrap_metrics(
    results: Mapping[str, Result], tests: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return the metrics with paired resamples, and notes on others if they were not requested."""
    if tests is not None and "bootstrap" not in tests:
        return [], []
    is_requested = tests is not None
    if obstacle := find_obstacle(results):
        if is_requested:
            raise InputError(obstacle)
        return [], [f"no bootstrap test: {render(obstacle)}"] if _have_resamples(results) else []
    test = BootstrapTest(results)
    if (obstacle := test.find_swap_obstacle()) is None:
        return test.metrics, []
    message = f"{', '.join(test.swapped_metrics)} cannot be tested: {obstacle}"
    if is_requested:
        raise InputError(message)
    return [name for name in test.metrics if name not in test.swapped_metrics], [message]


def _read_requested(first: Result, metrics: str | Sequence[str]) -> list[str]:
    listed = read_list("metrics", metrics, "a name, or a list of names")
    if not listed:
        raise SettingError(
            "metrics is empty; name at least one metric, or remove the argument.", setting="metrics"
        )
    for name in listed:
        check_type("metrics", name, str, "names of metrics, such as 'nDCG@10'")
    return list(
        dict.fromkeys(
            first.entry(name).name if name in first else canonical_name(name) for name in listed
        )
    )
