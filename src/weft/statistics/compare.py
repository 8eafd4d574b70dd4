"""Results side by side, user by user."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from weft.errors import InputError, SettingError, check_choice, check_int
from weft.evaluation.result import Result, describe_differences
from weft.metrics.names import parse_name, split_labels
from weft.metrics.registry import canonical_name
from weft.statistics import significance_tests as known
from weft.statistics.comparison import Comparison, row_metric
from weft.statistics.corrections import CORRECTIONS, FAMILIES
from weft.statistics.effect_sizes import effects
from weft.statistics.pair_statistics import Pairs, PairStatistics, measure, stack
from weft.statistics.pairing import AlignedUsers, Floats, align
from weft.statistics.pareto import fronts
from weft.statistics.randomization import randomization
from weft.statistics.significance_tests import ALTERNATIVES, TESTS, UNDIRECTED, UNPAIRED

_WORKERS = 4  # metrics at a time; each takes a few copies of its values
_NAMED = 5  # in a note


def compare(
    results: Sequence[Result] | Mapping[str, Result],
    *,
    metrics: str | Sequence[str] | None = None,
    tests: str | Sequence[str] = ("paired_t",),
    correction: str = "holm",
    family: str = "test",
    alternative: str = "two-sided",
    alpha: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare models over the users that they share.

    The results must have kept their values per user (`per_user=True`). `tests`: `"paired_t"`,
    `"wilcoxon"`, `"randomization"` and `"sign"` pair the values of each user; `"kruskal"` and
    `"mann_whitney"` ignore the pairing. `alternative`: `"two-sided"`, or that the first of two
    models has `"greater"` or `"less"` values. `resamples` and `seed` are those of the randomisation
    test.

    p-values are adjusted by `correction` (`"holm"`, `"bonferroni"`, `"fdr"`, `"none"`) within each
    `family`: `"test"`, all pairs of models and metrics under one test; `"metric"`, all pairs on one
    metric under one test; `"pair"`, all metrics of one pair under one test; or `"all"` tests.
    `significant` says whether the adjusted one is at most `alpha`. What has no p-value, such as a
    metric on which two models agree for every user, counts in no family.

    Where all results have a Hypervolume of the model's values, `fronts` tells who lies on the
    Pareto front of its parts, and the hypervolume of the front.

    >>> import torch, weft
    >>> truth = torch.eye(4)
    >>> good, bad = (weft.evaluate(s, truth, metrics="MRR@4", per_user=True) for s in (torch.eye(4), 1 - torch.eye(4)))
    >>> weft.compare({"good": good, "bad": bad}).to_frame()["difference"].to_list()
    [0.75]
    """
    named = _named(results)
    wanted = list(
        dict.fromkeys(check_choice("tests", test, TESTS) for test in _listed("tests", tests))
    )
    correction = check_choice("correction", correction, CORRECTIONS)
    family = check_choice("family", family, FAMILIES)
    alternative = check_choice("alternative", alternative, ALTERNATIVES)
    resamples, seed = check_int("resamples", resamples), check_int("seed", seed, least=0)
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha < 1:
        raise SettingError(f"alpha={alpha!r}; it must lie between 0 and 1.")
    for test in wanted:
        if test in UNDIRECTED and alternative != "two-sided":
            raise SettingError(
                f"tests={test!r} knows no direction, but alternative={alternative!r} asks for one; "
                "leave it out, or test two-sided."
            )
    columns, notes = _shared_columns(
        named, None if metrics is None else _listed("metrics", metrics)
    )
    aligned = align(named)
    pairs = list(itertools.combinations(range(len(named)), 2))
    measures, direct, means = _measure_all(aligned, columns, pairs, wanted, alternative)
    outcomes = {test: direct[test] for test in wanted if test == "wilcoxon"}
    if "randomization" in wanted:
        outcomes["randomization"] = randomization(
            aligned, columns, pairs, alternative, resamples, seed
        )
    for test in wanted:
        if test not in outcomes:
            outcomes[test] = getattr(known, test)(measures, alternative)
    if "mann_whitney" in wanted:  # a few users without ties have an exact distribution
        exact = ~np.isnan(direct["mann_whitney"][1])
        for found, better in zip(outcomes["mann_whitney"], direct["mann_whitney"]):
            found[exact] = better[exact]
    rows = _rows(
        list(named), aligned, columns, pairs, wanted, outcomes, measures, effects(measures, alpha)
    )
    notes += _notes(rows, wanted)
    (first, result), *others = named.items()
    notes += [
        said
        for name, other in others
        for said in describe_differences(other, repr(name), result, repr(first))
    ]
    comparison = Comparison(
        tuple(rows),
        named,
        correction,
        alpha,
        tuple(wanted),
        family,
        alternative,
        {column: dict(zip(named, of_one)) for column, of_one in zip(columns, means)},
        tuple(notes),
        fronts(named),
        resamples,
        seed,
    )
    return comparison.adjusted(correction)


def _listed(name: str, given: str | Sequence[str]) -> list[str]:
    listed = [given] if isinstance(given, str) else list(given)
    if not listed:
        raise SettingError(f"{name} is empty; name at least one, or leave it out.")
    return listed


def _named(results: Sequence[Result] | Mapping[str, Result]) -> dict[str, Result]:
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
                "it with per_user=True."
            )
    return named


def _shared_columns(
    named: dict[str, Result], metrics: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """The metrics that every result has per user, and what to say about the others."""
    tables = [
        set(result.per_user.columns) - {"user"}
        for result in named.values()
        if result.per_user is not None
    ]
    shared = set.intersection(*tables)
    first = next(iter(named.values()))
    if metrics is None:
        everything = list(dict.fromkeys(name for result in named.values() for name in result))
        lost = list(
            dict.fromkeys(split_labels(name)[0] for name in everything if name not in shared)
        )
        notes = (
            [f"not compared, because not every model has a value per user: {', '.join(lost)}"]
            if lost
            else []
        )
        columns = [name for name in first if name in shared]
    else:
        columns, notes = (
            [first.entry(name).name if name in first else canonical_name(name) for name in metrics],
            [],
        )
        columns = list(dict.fromkeys(columns))
        for name in columns:
            if name not in shared:
                raise SettingError(
                    f"{name!r} cannot be compared: not every result has it per user. All have: "
                    f"{', '.join(sorted(shared))}."
                )
    if not columns:
        raise InputError(
            "the results share no metric with a value per user; evaluate them with the same "
            "metrics."
        )
    return columns, notes


def _measure_all(
    aligned: AlignedUsers,
    columns: Sequence[str],
    pairs: Pairs,
    wanted: Sequence[str],
    alternative: str,
) -> tuple[PairStatistics, dict[str, tuple[Floats, Floats]], list[list[float]]]:
    """The measures of all pairs and metrics, what tests on the values themselves say, and each
    metric's means by model.
    """
    direct = [test for test in wanted if test in ("wilcoxon", "mann_whitney")]

    def one(column: str) -> tuple[PairStatistics, list[tuple[Floats, Floats]], list[float]]:
        values = aligned.values(column)
        found = measure(values, pairs)
        outcomes = [
            known.over_pairs(test, values, pairs, found.users, alternative) for test in direct
        ]
        everybody = ~np.isnan(values).any(axis=0)
        means = (
            values[:, everybody].mean(axis=1) if everybody.any() else np.full(len(values), np.nan)
        )
        return found, outcomes, means.tolist()

    with ThreadPoolExecutor(
        min(_WORKERS, os.cpu_count() or 1)
    ) as pool:  # NumPy lets other threads run
        found = list(pool.map(one, columns))
    outcomes = {
        test: (
            np.stack([done[1][at][0] for done in found], axis=1),
            np.stack([done[1][at][1] for done in found], axis=1),
        )
        for at, test in enumerate(direct)
    }
    return stack([done[0] for done in found]), outcomes, [done[2] for done in found]


def _rows(
    models: list[str],
    aligned: AlignedUsers,
    columns: Sequence[str],
    pairs: Pairs,
    wanted: Sequence[str],
    outcomes: Mapping[str, tuple[Floats, Floats]],
    measures: PairStatistics,
    beside: Mapping[str, Floats],
) -> list[dict[str, Any]]:
    """A row per test, pair and metric; p-values are adjusted later."""
    specs = [parse_name(column) for column in columns]
    names = [(str(spec.with_cutoff(None)), spec.k) for spec in specs]
    either = [int(np.count_nonzero(aligned.known[a] | aligned.known[b])) for a, b in pairs]
    plain = {name: values.tolist() for name, values in beside.items()}
    users = measures.users.astype(int).tolist()
    rows = []
    for test in wanted:
        statistics, p_values = (values.tolist() for values in outcomes[test])
        for pair, (a, b) in enumerate(pairs):
            for at, (metric, k) in enumerate(names):
                rows.append(
                    {
                        "model_a": models[a],
                        "model_b": models[b],
                        "metric": metric,
                        "k": k,
                        "test": test,
                        "statistic": statistics[pair][at],
                        "p_value": p_values[pair][at],
                        "p_adjusted": p_values[pair][at],
                        "significant": None,
                        **{name: values[pair][at] for name, values in plain.items()},
                        "users": users[pair][at],
                        "left_out": either[pair] - users[pair][at],
                        "paired": test not in UNPAIRED,
                    }
                )
    return rows


def _notes(rows: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> list[str]:
    """What to know about the numbers."""
    notes = []
    if unpaired := [test for test in wanted if test in UNPAIRED]:
        notes.append(
            f"{' and '.join(unpaired)} {'take' if len(unpaired) > 1 else 'takes'} the users of two "
            "models for independent samples, "
            "although they are the same users; the other tests pair them"
        )
    undefined: dict[str, None] = {}
    for row in rows:
        if math.isnan(row["p_value"]):
            undefined[f"{row['model_a']} and {row['model_b']} on {row_metric(row)}"] = None
    if undefined:
        shown = ", ".join(list(undefined)[:_NAMED]) + (
            f" and {len(undefined) - _NAMED} more" if len(undefined) > _NAMED else ""
        )
        notes.append(
            "no p-value, and so in no family of tests, where nothing differs or fewer than two "
            f"users have both values: {shown}"
        )
    left_out = max((row["left_out"] for row in rows), default=0)
    if left_out:
        notes.append(
            "users that are undefined, or missing, for one of two models are left out: up to "
            f"{left_out:,} (column left_out)"
        )
    return notes
