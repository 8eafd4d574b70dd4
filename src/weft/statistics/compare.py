"""Comparison of models by significance tests over their shared users."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from weft.data.forks import check_fork
from weft.errors import (
    SettingError,
    check_choice,
    check_int,
    check_type,
    read_list,
    setting_ref,
)
from weft.evaluation.result import Result
from weft.evaluation.result_differences import describe_differences
from weft.statistics.comparison import Comparison
from weft.statistics.comparison_rows import shorten
from weft.statistics.comparison_text import row_metric
from weft.statistics.corrections import CORRECTIONS, FAMILIES
from weft.statistics.metric_rows import unique_names
from weft.statistics.paired_bootstrap import BootstrapTest, DifferenceKey
from weft.statistics.pairing import align_users
from weft.statistics.pareto import find_fronts
from weft.statistics.planned_tests import TestPlan, plan_tests
from weft.statistics.randomization import RandomizationTest
from weft.statistics.resampled_difference import ResampledDifference
from weft.statistics.significance_tests import ALTERNATIVES, TESTS, UNDIRECTED, UNPAIRED
from weft.statistics.user_tests import build_rows, run_tests

if TYPE_CHECKING:
    from weft._choices import Alternative, CorrectionFamily, CorrectionName, TestName


def compare(
    results: Sequence[Result] | Mapping[str, Result],
    *,
    metrics: str | Sequence[str] | None = None,
    tests: TestName | Sequence[TestName] | None = None,
    correction: CorrectionName = "holm",
    family: CorrectionFamily = "metric",
    alternative: Alternative = "two-sided",
    alpha: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare models by significance tests over the users that they share.

    For every pair of models and every metric, the comparison has the difference, its p-value and
    confidence interval, and effect sizes. If all results have a Hypervolume of the values of the
    model, `Comparison.fronts` also has the Pareto front of its parts.

    Parameters
    ----------
    results
        Results of `weft.evaluate`, at least two, in a list or by name.
    metrics
        Names of the metrics to compare. By default all that the tests can compare.
    tests
        One or several significance tests. By default, metrics with a value per user have a paired
        t-test, and all others the bootstrap test if the results have resamples.

        - `"paired_t"`, `"wilcoxon"`, `"randomization"`, `"sign"`: paired by user. They need results
          with values per user (`per_user=True`).
        - `"kruskal"`, `"mann_whitney"`: ignore the pairing. They also need values per user.
        - `"bootstrap"`: needs results with resamples (`bootstrap=1000`) of the same users, drawn
          with one seed, and also tests metrics without values per user.
    correction
        Adjustment of the p-values of a family of tests: `"holm"` (default), `"bonferroni"`, `"fdr"`
        or `"none"`. Confidence intervals are adjusted in the same way.
    family
        Tests with p-values that are adjusted jointly. Tests without a p-value, such as for
        models that agree for every user, belong to no family.

        - `"metric"` (default): all pairs of models on one metric, under one test.
        - `"test"`: all pairs of models and all metrics, under one test.
        - `"pair"`: all metrics of one pair of models, under one test.
        - `"all"`: all tests.
    alternative
        `"two-sided"` (default), or whether the first model of a pair has `"greater"` or `"less"`
        values.
    alpha
        Significance level: a difference is significant if its adjusted p-value is at most `alpha`.
    resamples
        Number of resamples of the randomization test.
    seed
        Seed of the randomization test.

    Returns
    -------
    Comparison
        The rows of all tests, means of the models, and notes.

    Raises
    ------
    SettingError
        If there are fewer than two results, or an option is invalid.
    InputError
        If the results lack values per user, or cannot be paired.

    Examples
    --------
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
    chosen = None if tests is None else _check_tests(tests, alternative)
    plan = plan_tests(named, chosen, metrics)
    outcome = _run_plan(named, plan, RandomizationTest(alternative, resamples, seed), alpha)
    if chosen is not None:
        outcome.rows.sort(key=lambda row: chosen.index(row["test"]))
    comparison = Comparison(
        rows=tuple(outcome.rows),
        results=named,
        correction=correction,
        alpha=alpha,
        tests=tuple(dict.fromkeys(row["test"] for row in outcome.rows)),
        family=family,
        alternative=alternative,
        means=outcome.means,
        notes=(*plan.notes, *_notes(outcome.rows), *outcome.notes, *_pair_notes(named)),
        fronts=find_fronts(named),
        resamples=resamples,
        seed=seed,
        differences=outcome.differences,
    ).adjusted(correction)
    return replace(comparison, notes=(*comparison.notes, *_resolution_notes(comparison)))


@dataclass(frozen=True)
class _Outcome:
    """The rows of all tests, means by metric and model, and those of the bootstrap test."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    means: dict[str, dict[str, float]] = field(default_factory=dict)
    differences: dict[DifferenceKey, ResampledDifference] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _run_plan(
    results: Mapping[str, Result], plan: TestPlan, randomization: RandomizationTest, alpha: float
) -> _Outcome:
    """Run the tests of a plan on all pairs of models."""
    outcome, models = _Outcome(), list(results)
    pairs = list(itertools.combinations(range(len(models)), 2))
    if plan.user_tests:
        aligned = align_users(results)
        tested = run_tests(aligned, plan.user_metrics, pairs, plan.user_tests, randomization, alpha)
        outcome.rows.extend(build_rows(models, aligned, pairs, plan.user_tests, tested))
        outcome.means.update({one.name: dict(zip(models, one.means)) for one in tested})
    if plan.bootstrap_metrics:
        bootstrap = BootstrapTest(results, randomization.alternative)
        outcome.differences.update(bootstrap.run(plan.bootstrap_metrics, pairs))
        outcome.rows.extend(bootstrap.rows(outcome.differences))
        outcome.notes.extend(bootstrap.notes(outcome.differences))
    for name in plan.bootstrap_metrics:
        outcome.means.setdefault(name, {model: results[model][name] for model in models})
    return outcome


def _pair_notes(results: Mapping[str, Result]) -> Iterator[str]:
    """Yield notes on evaluations that differ from the first."""
    (first, reference), *others = results.items()
    for name, result in others:
        yield from describe_differences(result, repr(name), reference, repr(first))


def _resolution_notes(comparison: Comparison) -> Iterator[str]:
    """Yield a note if so few resamples cannot show that a difference is significant."""
    sides = 2 if comparison.alternative == "two-sided" else 1
    for row in comparison.rows:
        if row["test"] != "bootstrap":
            continue
        key = (row["model_a"], row["model_b"], row_metric(row))
        draws = len(comparison.differences[key].draws)
        is_adjusted = comparison.correction != "none" and row["family_size"] > 1
        factor = row["family_size"] if is_adjusted else 1
        least = (1 if row["form"] == "swaps" else sides) / (draws + 1)
        if least * factor > comparison.alpha:
            family = f"with {factor:,} tests in a family, " if is_adjusted else ""
            yield (
                f"{draws:,} resamples are too few for the bootstrap test: {family}no "
                f"{'adjusted ' * is_adjusted}p-value can be at most {comparison.alpha:g}; evaluate "
                "with more"
            )
            return


def _check_tests(tests: str | Sequence[str], alternative: str) -> list[str]:
    """Return the tests without repetitions; refuse those without the alternative."""
    listed = read_list("tests", tests, "a name, or a list of names")
    if not listed:
        raise SettingError(
            "tests is empty; name at least one test, or remove the argument.", setting="tests"
        )
    chosen = [check_choice("tests", test, TESTS) for test in listed]
    for test in chosen:
        if test in UNDIRECTED and alternative != "two-sided":
            raise SettingError(
                f"{setting_ref('tests', test)} is always two-sided, but the setting is "
                f"{setting_ref('alternative', alternative)}; remove one of the two."
            )
    return list(dict.fromkeys(chosen))


def _name_results(results: Sequence[Result] | Mapping[str, Result]) -> dict[str, Result]:
    """Return the results by unique names."""
    listed = results.values() if isinstance(results, Mapping) else results
    listed = read_list("results", listed, "results of weft.evaluate, in a list or by name")
    for result in listed:
        check_type("an element of results", result, Result, "a result of weft.evaluate")
    if isinstance(results, Mapping):
        named = {str(name): result for name, result in results.items()}
    else:
        named = unique_names(listed)
    if len(named) < 2:
        raise SettingError(f"compare needs at least two results; got {len(named)}.")
    return named


def _notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return notes on unpaired tests, missing p-values and users that are left out."""
    notes = []
    tests = dict.fromkeys(row["test"] for row in rows)
    if unpaired := [test for test in tests if test in UNPAIRED]:
        notes.append(
            f"{' and '.join(unpaired)} {'treat' if len(unpaired) > 1 else 'treats'} the users of "
            "two models as independent samples, although they are the same users; the other tests "
            "are paired"
        )
    undefined = dict.fromkeys(
        f"{row['model_a']} and {row['model_b']} on {row_metric(row)}"
        for row in rows
        if math.isnan(row["p_value"])
    )
    if undefined:
        notes.append(
            "no p-value (and not counted by the correction), because nothing differs or fewer than "
            f"two users have both values: {shorten(undefined)}"
        )
    if left_out := max((row["left_out"] for row in rows), default=0):
        notes.append(
            "users with an undefined or missing value for one of two models are excluded: up to "
            f"{left_out:,} (column left_out)"
        )
    return notes
