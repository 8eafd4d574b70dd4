"""Comparison of models over folds and seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from weft._choices import CorrectionName, choices
from weft.data.pandas_frames import to_pandas
from weft.errors import (
    SettingError,
    check_choice,
    check_float,
    check_int,
    read_list,
    setting_ref,
)
from weft.metrics.names import format_labels
from weft.statistics.comparison_text import CORRECTION_NAMES
from weft.statistics.corrections import adjust, find_families
from weft.statistics.experiment.model_pairs import pair_models
from weft.statistics.experiment.run_tests import (
    RunTest,
    align_folds,
    corrected_t,
    hierarchical,
    seeds_t,
)
from weft.statistics.experiment.variation import group_folds, group_runs

if TYPE_CHECKING:
    import polars as pl

    from weft.statistics.experiment.runs import Run

RunTestName = Literal["hierarchical", "corrected_t", "seeds_t"]
RUN_TESTS = choices(RunTestName)


@dataclass(frozen=True, eq=False, repr=False)
class RunComparison:
    """A comparison of models over folds and seeds; returned by `Experiment.compare`.

    Attributes
    ----------
    rows
        The rows of `to_frame` as dicts.
    alpha, correction
        Significance level, and correction of the p-values.
    notes
        Remarks, such as the reason why a test has no p-value.
    """

    rows: tuple[dict[str, Any], ...]
    alpha: float
    correction: str
    notes: tuple[str, ...] = ()

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row per data set, pair of models, metric and test.

        Returns
        -------
        polars.DataFrame
            The columns:

            - `dataset`, `model_a`, `model_b`, `metric`, `k`, `test`: the names, and the cut-off or
              null.
            - `difference`, `std_error`: the mean of model_a minus that of model_b, over folds of
              the means over seeds, and its standard error.
            - `ci_low`, `ci_high`: the ends of its interval at level 1 - alpha.
            - `df`: the degrees of freedom of Student's t.
            - `p_value`, `p_adjusted`: the p-value, and the p-value adjusted over all pairs of
              models on one data set and metric under one test.
            - `significant`: whether `p_adjusted` is at most alpha; null without a p-value.
            - `runs`, `users`: the number of runs of both models, and of users that were resampled.
        """
        import polars as pl

        schema: dict[str, Any] = dict.fromkeys(_COLUMNS, pl.Float64)
        schema |= dict.fromkeys(("dataset", "model_a", "model_b", "metric", "test"), pl.String)
        schema |= dict.fromkeys(("k", "runs", "users"), pl.Int64) | {"significant": pl.Boolean}
        return pl.DataFrame(list(self.rows), schema=schema)

    def to_pandas(self) -> Any:
        """Return the rows of `to_frame` as a pandas frame; pyarrow is not needed."""
        return to_pandas(self.to_frame())

    def describe_adjustment(self) -> str:
        """Return how the p-values are adjusted, over which pairs of models, and alpha."""
        adjusted = "not adjusted"
        if self.correction != "none":
            name = CORRECTION_NAMES[self.correction]
            adjusted = f"adjusted by {name} over the pairs of models on each data set and metric"
        return f"p-values {adjusted}, alpha = {self.alpha:g}"

    def __repr__(self) -> str:
        head = f"Differences between models; {self.describe_adjustment()}"
        lines = [head, *self._format_rows(), "* significant"]
        return "\n".join([*lines, *(f"- {note}" for note in self.notes)])

    def _format_rows(self) -> list[str]:
        """Return the lines of a table with a row per difference."""
        level = f"{100 * (1 - self.alpha):.6g}% interval"
        cells = [("models", "data set", "metric", "test", "difference", level, "p-value")]
        for row in self.rows:
            metric = row["metric"] if row["k"] is None else f"{row['metric']}@{row['k']}"
            star = "*" if row["significant"] else " "
            cells.append(
                (
                    f"{row['model_a']} - {row['model_b']}",
                    row["dataset"] or "-",
                    metric,
                    row["test"],
                    _format_or_dash(row["difference"], "+.4f"),
                    _format_interval(row["ci_low"], row["ci_high"]),
                    _format_or_dash(row["p_adjusted"], ".3g") + star,
                )
            )
        widths = [max(map(len, column)) for column in zip(*cells)]
        is_number = [number >= _NUM_WORDS for number in range(len(widths))]
        return [
            "  ".join(
                text.rjust(width) if right else text.ljust(width)
                for text, width, right in zip(line, widths, is_number)
            ).rstrip()
            for line in cells
        ]


def _format_or_dash(number: float, form: str) -> str:
    return "-" if math.isnan(number) else format(number, form)


def _format_interval(low: float, high: float) -> str:
    return "-" if math.isnan(low) else f"[{low:.4f}, {high:.4f}]"


_NUM_WORDS = 4  # columns of the printed table that are words
_COLUMNS = (
    *("dataset", "model_a", "model_b", "metric", "k", "test", "difference", "std_error"),
    *("ci_low", "ci_high", "df", "p_value", "p_adjusted", "significant", "runs", "users"),
)


@dataclass(frozen=True, kw_only=True)
class RunTestSettings:
    """The tests of a comparison of runs, and their options.

    `"hierarchical"` is a bootstrap of users, and of seeds within folds: it needs values per user,
    and is about these train sets. `"corrected_t"` is the corrected resampled t-test of Nadeau and
    Bengio: it needs two folds or more, and is about train sets in general. `test_ratio` is the size
    of a test part over that of a train part, by default 1 / (folds - 1), that of k folds.
    `"seeds_t"` is Welch's t-test over the seeds of each fold: it needs two seeds or more, and takes
    the users as given.
    `resamples` and `seed` are those of the bootstrap. p-values are adjusted by `correction` over
    the pairs of models on one data set and metric, and are significant up to `alpha`. Without
    `tests`, the first two are run on the runs that allow them, and the third where neither is.
    """

    tests: Sequence[RunTestName] | RunTestName | None = None
    correction: CorrectionName = "holm"
    alpha: float = 0.05
    resamples: int = 2000
    seed: int = 0
    test_ratio: float | None = None

    def __post_init__(self) -> None:
        for test in self.chosen_tests:
            check_choice("tests", test, RUN_TESTS)
        check_choice("correction", self.correction, choices(CorrectionName))
        check_int("resamples", self.resamples, least=2)
        check_int("seed", self.seed, least=0)
        if not 0 < check_float("alpha", self.alpha) < 1:
            raise SettingError(f"{setting_ref('alpha', self.alpha)}; it must be between 0 and 1.")
        if self.test_ratio is not None and check_float("test_ratio", self.test_ratio) < 0:
            raise SettingError(
                f"{setting_ref('test_ratio', self.test_ratio)}; it must be a number of at least 0."
            )

    @property
    def chosen_tests(self) -> list[str]:
        """The tests without repetitions."""
        if self.tests is None:
            return list(RUN_TESTS)
        return list(dict.fromkeys(read_list("tests", self.tests, "a name, or a list of names")))


def compare_runs(
    runs: Sequence[Run],
    metrics: Sequence[str],
    *,
    baseline: str | None = None,
    settings: RunTestSettings,
) -> RunComparison:
    """Compare every two models, or each with the baseline, on each data set and metric.

    A test that lacks what it needs has no p-value, and the notes say why.
    """
    rows: list[dict[str, Any]] = []
    notes: dict[str, None] = {}
    for pair in _find_pairs(runs, baseline):
        for name in metrics:
            is_tested = False
            for test in settings.chosen_tests:
                if settings.tests is None and test == "seeds_t" and is_tested:
                    continue
                outcome, reason = _run_test(test, pair, name, settings)
                if reason:
                    notes[f"no p-value for {test}: {reason}"] = None
                if settings.tests is not None or not reason:
                    rows.append(_to_row(pair, name, test, outcome, settings.alpha))
                    is_tested = True
        if "hierarchical" in settings.chosen_tests and pair.has_single_seeds:
            notes[_SINGLE_SEEDS] = None
    _adjust_rows(rows, settings.correction, settings.alpha)
    return RunComparison(tuple(rows), settings.alpha, settings.correction, tuple(notes))


_SINGLE_SEEDS = (
    "some folds have one seed: the interval of the hierarchical test does not include the "
    "variation between training runs, and a difference may come from the seed alone"
)


class _CannotTest(Exception):
    """Runs lack what a test needs; the text names it."""


@dataclass(frozen=True, eq=False)
class _Pair:
    """The runs of two models on one data set, by the folds that both have."""

    dataset: str
    models: tuple[str, str]
    folds: tuple[dict[Any, list[Run]], dict[Any, list[Run]]]

    @property
    def has_single_seeds(self) -> bool:
        """True if a model has one run on some fold."""
        return any(len(runs) == 1 for folds in self.folds for runs in folds.values())


def _find_pairs(runs: Sequence[Run], baseline: str | None) -> Iterator[_Pair]:
    """Yield every two models on each data set, or each model and the baseline."""
    by_dataset: dict[str, dict[str, dict[Any, list[Run]]]] = {}
    for (dataset, model), group in group_runs(runs).items():
        by_dataset.setdefault(dataset, {})[model] = group_folds(group)
    for dataset, models in by_dataset.items():
        for first, second in pair_models(models, baseline):
            shared = [fold for fold in models[first] if fold in models[second]]
            of_first, of_second = (
                {fold: models[model][fold] for fold in shared} for model in (first, second)
            )
            yield _Pair(dataset, (first, second), (of_first, of_second))


def _run_test(test: str, pair: _Pair, name: str, settings: RunTestSettings) -> tuple[RunTest, str]:
    """Return the outcome of a test, and why it has none."""
    try:
        return _TESTS[test](pair, name, settings), ""
    except _CannotTest as reason:
        return RunTest(), str(reason)


def _test_folds(pair: _Pair, name: str, settings: RunTestSettings) -> RunTest:
    """Run the corrected t-test on differences by fold and seed, or by fold if seeds differ."""
    num_folds = len(pair.folds[0])
    if num_folds < 2:
        raise _CannotTest("two models need at least two shared folds")
    first, second = _paired_values(pair, name)
    differences = [value - second[key] for key, value in first.items()]
    ratio = 1 / (num_folds - 1) if settings.test_ratio is None else settings.test_ratio
    return corrected_t(differences, test_ratio=ratio)


def _paired_values(pair: _Pair, name: str) -> list[dict[object, float]]:
    """Return the values of both models by fold and seed, or their means by fold if seeds differ."""
    by_run: list[dict[object, float]] = [
        {(run.fold, run.seed): run.result[name] for runs in folds.values() for run in runs}
        for folds in pair.folds
    ]
    if by_run[0].keys() == by_run[1].keys():
        return by_run
    return [
        {fold: float(np.mean([run.result[name] for run in runs])) for fold, runs in folds.items()}
        for folds in pair.folds
    ]


def _test_users(pair: _Pair, name: str, settings: RunTestSettings) -> RunTest:
    """Run the hierarchical bootstrap on the values per user."""
    first, second = pair.folds
    if not first:
        raise _CannotTest("two models share no fold")
    tables = [(_user_tables(first[fold], name), _user_tables(second[fold], name)) for fold in first]
    folds = align_folds(tables, name)
    return hierarchical(folds, resamples=settings.resamples, seed=settings.seed)


def _user_tables(runs: Sequence[Run], name: str) -> list[pl.DataFrame]:
    """Return the per-user tables of runs. Raises `_CannotTest` if one lacks the metric."""
    tables = [run.result.per_user for run in runs]
    known = [table for table in tables if table is not None and name in table.columns]
    if len(known) < len(tables):
        raise _CannotTest(
            f"not every run has a value of {name} per user; evaluate with per_user=True, if the "
            "metric has one"
        )
    return known


def _test_seeds(pair: _Pair, name: str, settings: RunTestSettings) -> RunTest:
    """Run Welch's t-test over the seeds of each fold."""
    if not pair.folds[0] or pair.has_single_seeds:
        raise _CannotTest("two models need at least two seeds on every fold")
    first, second = (
        [[run.result[name] for run in runs] for runs in folds.values()] for folds in pair.folds
    )
    return seeds_t(first, second)


_TESTS: dict[str, Callable[[_Pair, str, RunTestSettings], RunTest]] = {
    "hierarchical": _test_users,
    "corrected_t": _test_folds,
    "seeds_t": _test_seeds,
}


def _to_row(pair: _Pair, name: str, test: str, outcome: RunTest, alpha: float) -> dict[str, Any]:
    entry = next(run for runs in pair.folds[0].values() for run in runs).result.entry(name)
    half = outcome.half_width(alpha)
    return {
        "dataset": pair.dataset,
        "model_a": pair.models[0],
        "model_b": pair.models[1],
        "metric": entry.metric + format_labels(entry.cell),
        "k": entry.k,
        "test": test,
        "difference": outcome.difference,
        "std_error": outcome.std_error,
        "ci_low": outcome.difference - half,
        "ci_high": outcome.difference + half,
        "df": outcome.freedom,
        "p_value": outcome.p_value,
        "p_adjusted": outcome.p_value,
        "significant": None,
        "runs": outcome.runs,
        "users": outcome.users,
    }


def _adjust_rows(rows: list[dict[str, Any]], correction: str, alpha: float) -> None:
    """Adjust the p-values of all pairs of models on one data set and metric under one test."""
    keys = ((row["dataset"], row["metric"], row["k"], row["test"]) for row in rows)
    for family in find_families(keys):
        adjusted = adjust(np.array([rows[index]["p_value"] for index in family]), correction)
        for index, p_value in zip(family, adjusted.tolist()):
            is_known = not math.isnan(p_value)
            rows[index] |= {
                "p_adjusted": p_value,
                "significant": p_value <= alpha if is_known else None,
            }
