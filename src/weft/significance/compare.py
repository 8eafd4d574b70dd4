"""Results side by side, user by user."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import InputError, SettingError, one_of
from weft.names import parse, split_cell
from weft.registry import canonical
from weft.result import Z95, Result
from weft.significance.pareto import Front, fronts
from weft.significance.tests import CORRECTIONS, TESTS, UNPAIRED, adjust, paired_test, unpaired_test

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Comparison:
    """Every pair of models on every metric under every test, one row each."""

    rows: tuple[Mapping[str, Any], ...]
    results: Mapping[str, Result]
    correction: str
    alpha: float
    notes: tuple[str, ...] = ()
    fronts: Mapping[str, Front] = field(default_factory=dict)  # for each Hypervolume of the models' own values, by its name

    def to_frame(self) -> pl.DataFrame:
        """model_a, model_b, metric, k, test, statistic, p_value, p_adjusted, significant, means, difference, interval, ...

        `difference` is mean_a - mean_b over the users that both models have, with its 95 % interval; `effect_size` is the mean
        difference over its standard deviation (paired Cohen's d); `left_out` are users undefined for either model.
        """
        import polars as pl

        floats = ("statistic", "p_value", "p_adjusted", "mean_a", "mean_b", "difference", "ci_low", "ci_high", "effect_size")
        kinds = dict.fromkeys(floats, pl.Float64) | {"k": pl.Int64, "significant": pl.Boolean}
        return pl.DataFrame(list(self.rows), schema_overrides=kinds, infer_schema_length=None)


def compare(
    results: Sequence[Result] | Mapping[str, Result],
    *,
    metrics: Sequence[str] | None = None,
    tests: Sequence[str] = ("paired_t",),
    correction: str = "holm",
    alpha: float = 0.05,
) -> Comparison:
    """Compare models over the users that they share.

    The results must have kept their values per user (`per_user=True`). `tests`: `"paired_t"` and `"wilcoxon"` pair the values of
    each user; `"kruskal"` and `"mann_whitney"` ignore the pairing. p-values are adjusted per test over all pairs of models and
    all metrics of the comparison; `significant` says whether the adjusted one is below `alpha`. Where all results have a
    Hypervolume of the model's values, `fronts` tells who lies on the Pareto front of its parts, and the hypervolume of the front.

    >>> import torch, weft
    >>> truth = torch.eye(4)
    >>> good, bad = (weft.evaluate(s, truth, metrics="MRR@4", per_user=True) for s in (torch.eye(4), 1 - torch.eye(4)))
    >>> weft.compare({"good": good, "bad": bad}).to_frame()["difference"].to_list()
    [0.75]
    """
    named = _named(results)
    tests = [one_of("tests", test, TESTS) for test in tests]
    correction = one_of("correction", correction, CORRECTIONS)
    if not 0 < alpha < 1:
        raise SettingError(f"alpha={alpha!r}; it must lie between 0 and 1.")
    columns, notes = _shared_columns(named, metrics)
    if unpaired := [test for test in tests if test in UNPAIRED]:
        notes.append(
            f"{' and '.join(unpaired)} {'take' if len(unpaired) > 1 else 'takes'} the users of two models for independent samples, "
            "although they are the same users; paired_t and wilcoxon pair them"
        )
    rows: list[dict[str, Any]] = []
    for (name_a, a), (name_b, b) in itertools.combinations(named.items(), 2):
        pairs = _pair(name_a, a, name_b, b, columns)
        for column in columns:
            of_a, of_b = pairs[column].to_numpy(), pairs[f"{column} of b"].to_numpy()
            defined = ~(np.isnan(of_a) | np.isnan(of_b))
            row = _describe(of_a[defined], of_b[defined]) | {"left_out": int((~defined).sum())}
            spec = parse(column)
            head = {"model_a": name_a, "model_b": name_b, "metric": str(spec.at(None)), "k": spec.k}
            for test in tests:
                if test in UNPAIRED:
                    statistic, p_value = unpaired_test(test, of_a[defined], of_b[defined])
                else:
                    statistic, p_value = paired_test(test, (of_a - of_b)[defined])
                rows.append({**head, "test": test, "statistic": statistic, "p_value": p_value, **row})
    finished = [row for test in tests for row in _adjusted([row for row in rows if row["test"] == test], correction, alpha)]
    return Comparison(tuple(finished), named, correction, alpha, tuple(notes), fronts(named))


def _named(results: Sequence[Result] | Mapping[str, Result]) -> dict[str, Result]:
    if isinstance(results, Mapping):
        named = dict(results)
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
                f"the result {name!r} has no values per user, which a comparison pairs; evaluate it with per_user=True."
            )
    return named


def _shared_columns(named: dict[str, Result], metrics: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The metrics that every result has per user, and what to say about the others."""
    tables = [set(result.per_user.columns) - {"user"} for result in named.values() if result.per_user is not None]
    shared = set.intersection(*tables)
    first = next(iter(named.values()))
    if metrics is None:
        everything = list(dict.fromkeys(name for result in named.values() for name in result))
        lost = list(dict.fromkeys(split_cell(name)[0] for name in everything if name not in shared))
        notes = [f"not compared, because not every model has a value per user: {', '.join(lost)}"] if lost else []
        columns = [name for name in first if name in shared]
    else:
        columns, notes = [first.entry(name).name if name in first else canonical(name) for name in metrics], []
        for name in columns:
            if name not in shared:
                raise SettingError(
                    f"{name!r} cannot be compared: not every result has it per user. All have: {', '.join(sorted(shared))}."
                )
    if not columns:
        raise InputError("the results share no metric with a value per user; evaluate them with the same metrics.")
    return columns, notes


def _pair(name_a: str, a: Result, name_b: str, b: Result, columns: list[str]) -> pl.DataFrame:
    import polars as pl

    assert a.per_user is not None and b.per_user is not None
    if a.per_user["user"].dtype != b.per_user["user"].dtype:
        raise InputError(
            f"{name_a!r} has users of type {a.per_user['user'].dtype}, {name_b!r} of type {b.per_user['user'].dtype}; "
            "1 and '1' are different users. Evaluate both with the same kind of ids."
        )
    renamed = b.per_user.select("user", *(pl.col(column).alias(f"{column} of b") for column in columns))
    pairs = a.per_user.select("user", *columns).join(renamed, on="user", how="full", coalesce=True)
    if pairs.drop_nulls().is_empty():
        raise InputError(f"{name_a!r} and {name_b!r} share no user; were they evaluated on the same truth?")
    return pairs.with_columns(pl.exclude("user").fill_null(float("nan")))


def _describe(of_a: Any, of_b: Any) -> dict[str, Any]:
    n = len(of_a)
    if n == 0:
        undefined = dict.fromkeys(("mean_a", "mean_b", "difference", "ci_low", "ci_high", "effect_size"), math.nan)
        return {**undefined, "users": 0}
    differences = of_a - of_b
    mean = float(differences.mean())
    spread = float(differences.std(ddof=1)) if n > 1 else math.nan
    margin = Z95 * spread / math.sqrt(n)
    return {
        "mean_a": float(of_a.mean()),
        "mean_b": float(of_b.mean()),
        "difference": mean,
        "ci_low": mean - margin,
        "ci_high": mean + margin,
        "effect_size": mean / spread if spread > 0 else math.nan,
        "users": n,
    }


def _adjusted(family: list[dict[str, Any]], correction: str, alpha: float) -> list[dict[str, Any]]:
    """One family of tests with adjusted p-values, columns in reading order."""
    adjusted = adjust(np.array([row["p_value"] for row in family], dtype=np.float64), correction)
    finished = []
    for row, p in zip(family, adjusted.tolist()):
        first = ("model_a", "model_b", "metric", "k", "test", "statistic", "p_value")
        judged = {"p_adjusted": p, "significant": None if math.isnan(p) else p < alpha}
        finished.append({name: row[name] for name in first} | judged | row)
    return finished
