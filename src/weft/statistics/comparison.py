"""The result of a comparison: every pair of models on every metric under every test."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.data.pandas_frames import to_pandas
from weft.errors import SettingError, check_choice, check_path, read_list
from weft.evaluation.atomic_files import Writer, text_writer, write_files
from weft.evaluation.report_mixin import ComparisonTextMixin, ReportMixin
from weft.evaluation.result import Result
from weft.evaluation.table_digests import write_table
from weft.statistics import comparison_text
from weft.statistics.comparison_text import row_metric
from weft.statistics.corrections import CORRECTIONS, adjust, find_families, interval_alphas
from weft.statistics.letters import compact_letters
from weft.statistics.list_overlap import compare_lists
from weft.statistics.markup import csv_table
from weft.statistics.paired_bootstrap import DifferenceKey
from weft.statistics.pareto import ParetoFront, pareto_optimal
from weft.statistics.resampled_difference import ResampledDifference
from weft.statistics.text_tables import LANGUAGES

if TYPE_CHECKING:
    import polars as pl

_FAMILY_COLUMNS = {
    "test": ("test",),
    "metric": ("test", "metric", "k"),
    "pair": ("test", "model_a", "model_b"),
    "all": (),
}
# The formats of `Comparison.save` by file suffix.
SUFFIXES = {
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".md": "markdown",
    ".markdown": "markdown",
    ".tex": "latex",
    ".typ": "typst",
}


@dataclass(frozen=True)
class MeanCell:
    """A mean of a model; `best` if no model is better, `mark` has its letters or star."""

    mean: float
    best: bool
    mark: str

    def __str__(self) -> str:
        return "-" if math.isnan(self.mean) else f"{self.mean:.4f}"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(ComparisonTextMixin, ReportMixin):
    """A comparison of models: a row for every pair of models, metric and test.

    `weft.compare` builds it, and `print` shows it as `weft compare` does. `rows` are those of
    `to_frame`, and `results` the compared results by name. `means` has the mean of each metric and
    model over the users that all models share; `fronts` the Pareto front of each Hypervolume by
    its name; `resamples` and `seed` are those of the randomization test; `differences` the
    resampled differences of the bootstrap test, by both models and metric.

    >>> import weft
    >>> truth = {"ann": ["x"], "bob": ["z"]}
    >>> lists = {"a": {"ann": ["x"], "bob": ["z"]}, "b": {"bob": ["y", "z"]}}
    >>> settings = {"metrics": "MRR@2", "per_user": True}
    >>> results = [weft.evaluate(lists[name], truth, name=name, **settings) for name in lists]
    >>> comparison = weft.compare(results)
    >>> comparison.to_frame().select("model_a", "model_b", "difference", "significant").row(0)
    ('a', 'b', 0.75, False)
    """

    rows: tuple[Mapping[str, Any], ...]
    results: Mapping[str, Result]
    correction: str
    alpha: float
    tests: tuple[str, ...] = ()
    family: str = "metric"
    alternative: str = "two-sided"
    means: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    fronts: Mapping[str, ParetoFront] = field(default_factory=dict)
    resamples: int = 10_000
    seed: int = 0
    differences: Mapping[DifferenceKey, ResampledDifference] = field(default_factory=dict)

    def to_frame(self) -> pl.DataFrame:
        """Return a row per pair of models, metric and test.

        Columns: `model_a`, `model_b`, `metric`, `k`, `test`; its `statistic` and `p_value`;
        `p_adjusted`, which `correction` gives over the `family_size` tests with a p-value in the
        row's `family`; `significant`, true if `p_adjusted` is at most `alpha`; `mean_a`, `mean_b`
        and those below.

        `difference` is mean_a - mean_b over the users that both models have, `std_error` its
        standard error, and `ci_low` to `ci_high` its interval by Student's t. The interval has the
        level `ci_level` at which the correction decides, so that for the paired t-test it excludes
        0 if and only if the row is significant; of a one-sided test this holds for the end that it
        asks about. Under "bonferroni" the intervals of a family all hold with a confidence of
        1 - alpha (1 - 2 alpha for one-sided tests).

        `effect_size` is the mean difference over its standard deviation (paired Cohen's d).
        `cliffs_delta` compares every value of a with every value of b: the share that is above,
        less the share that is below. `wins`, `ties` and `losses` are shares of users by value:
        a > b, a = b, a < b. `detectable` is the smallest true mean difference that so many users
        would show with a power of 0.8 in a two-sided paired t-test at alpha, without correction.
        `users` were compared; `left_out` are those undefined for either model. `paired` is false
        for a test that ignores the pairing.

        Rows of the bootstrap test have no effect sizes, and the values of the models as means over
        their own users. `form` is the form of the test, whose interval is `ci_low` to `ci_high`:
        "bca", "percentile" or "swaps" (of the lists of two models); `boot_low` to `boot_high` is
        the percentile interval of the bootstrap at the same level.
        """
        import polars as pl

        types: dict[str, Any] = dict.fromkeys(self.rows[0], pl.Float64)
        types |= dict.fromkeys(("model_a", "model_b", "metric", "test", "form"), pl.String)
        types |= dict.fromkeys(("k", "users", "left_out", "family_size"), pl.Int64)
        types |= dict.fromkeys(("significant", "paired"), pl.Boolean)
        return pl.DataFrame(
            {name: [row[name] for row in self.rows] for name in types}, schema=types
        )

    def to_pandas(self) -> Any:
        """Return the rows of `to_frame` as a pandas frame; pyarrow is not needed."""
        return to_pandas(self.to_frame())

    def front_frame(self) -> pl.DataFrame:
        """Return a row per Hypervolume and model: front, model, on_front, hypervolume (of it)."""
        import polars as pl

        rows = [
            (name, model, model in front.models, front.hypervolume)
            for name, front in self.fronts.items()
            for model in self.results
        ]
        schema = {
            "front": pl.String,
            "model": pl.String,
            "on_front": pl.Boolean,
            "hypervolume": pl.Float64,
        }
        return pl.DataFrame(rows, schema=schema, orient="row")

    def pareto(self, metrics: Sequence[str]) -> tuple[str, ...]:
        """Return the models that no other dominates on these metrics.

        Each metric counts in its own direction; models with an undefined value are left out. Any
        metric that all results have can be used, with or without values per user:
        `comparison.pareto(["nDCG@10", "Gini@10"])`.
        """
        points: dict[str, list[float]] = {model: [] for model in self.results}
        for metric in read_list("metrics", metrics, "names of metrics"):
            for model, result in self.results.items():
                if metric not in result:
                    raise SettingError(
                        f"{metric!r} was not evaluated for {model!r}; it has: {', '.join(result)}."
                    )
                merit = result.entry(metric).merit
                if merit is None:
                    raise SettingError(
                        f"{metric!r} has no direction: no value of it is better than another. Give "
                        "metrics for which higher or lower is better."
                    )
                points[model].append(merit)
        return pareto_optimal(points)

    def lists(self, k: int | None = None, p: float = 0.9) -> pl.DataFrame:
        """Return how similar the lists of every two models are, as means over users who have both.

        The results must have lists (`keep_lists=True`). Lists are cut at `k`, by default the
        largest cut-off that all have; lists that end earlier count as they are. Of the items of
        both lists, `overlap` is their share of k, `intersection` of the list of model_a, `jaccard`
        of the items of either. `rbo` is the rank-biased overlap with persistence `p`,
        (1 - p) Σ_d p^(d-1) · (items of both up to d) / d for d up to k; `rbo_normalized` divides
        it by its highest value, 1 - p^k; `rbo_extrapolated` assumes that the overlap at k goes on
        (Webber et al. 2010, doi 10.1145/1852102.1852106). `promoted` is the number of items of
        model_a that model_b does not have up to k, `deepest_promotion` how far below k the lowest
        of them is in the kept list of model_b.
        """
        return compare_lists(self.results, k, p)

    def describe_lists(self) -> list[str]:
        """Return a line of text per pair of models with kept lists: their similarity."""
        return comparison_text.describe_lists(self)

    def adjusted(self, correction: str) -> Comparison:
        """Return the comparison with p-values and intervals adjusted by another correction."""
        from scipy import special

        correction = check_choice("correction", correction, CORRECTIONS)
        p_values, users, errors, differences = (
            np.array([row[name] for row in self.rows], dtype=float)
            for name in ("p_value", "users", "std_error", "difference")
        )
        p_adjusted, alphas, sizes = np.empty((3, len(self.rows)))
        columns = _FAMILY_COLUMNS[self.family]
        for family in find_families(tuple(row[name] for name in columns) for row in self.rows):
            p_adjusted[family] = adjust(p_values[family], correction)
            alphas[family] = interval_alphas(p_values[family], correction, self.alpha)
            sizes[family] = np.count_nonzero(~np.isnan(p_values[family]))
        if self.alternative != "two-sided":  # each end of the interval belongs to a one-sided test
            alphas = np.minimum(2 * alphas, 1)
        margins = special.stdtrit(np.maximum(users - 1, 1), 1 - alphas / 2) * errors
        adjusted = {
            "p_adjusted": p_adjusted,
            "family_size": sizes.astype(int),
            "ci_low": differences - margins,
            "ci_high": differences + margins,
            "ci_level": 1 - alphas,
        }
        table = zip(*(one.tolist() for one in adjusted.values()))
        rows = tuple(
            {**row, **dict(zip(adjusted, values)), "significant": self._is_significant(values[0])}
            | self._resampled_intervals(row, alpha)
            for row, values, alpha in zip(self.rows, table, alphas.tolist())
        )
        return replace(self, rows=rows, correction=correction)

    def _resampled_intervals(self, row: Mapping[str, Any], alpha: float) -> dict[str, float]:
        """Return the intervals of a bootstrap test by column; empty for other tests."""
        if row["test"] != "bootstrap":
            return {}
        drawn = self.differences[row["model_a"], row["model_b"], row_metric(row)]
        ends = (*drawn.interval(alpha), *drawn.percentiles(alpha))
        return dict(zip(("ci_low", "ci_high", "boot_low", "boot_high"), ends))

    def _is_significant(self, p_adjusted: float) -> bool | None:
        return None if math.isnan(p_adjusted) else p_adjusted <= self.alpha

    def letters(self, test: str) -> dict[str, dict[str, str]]:
        """Return letters by metric and model; models that share one do not differ significantly.

        The best model has an a. Empty for one-sided comparisons.
        """
        if self.alternative != "two-sided":
            return {}
        return {
            metric: {model: cell.mark for model, cell in cells.items()}
            for metric, cells in self._mark_cells(test, letters=True).items()
        }

    def grid(self, test: str) -> dict[str, dict[str, MeanCell]]:
        """Return means by metric and model, with the best one and significant differences.

        Differences are marked by letters, between two models by a star at the better one.
        """
        return self._mark_cells(test, letters=len(self.results) > 2)

    def _mark_cells(self, test: str, *, letters: bool) -> dict[str, dict[str, MeanCell]]:
        test = check_choice("test", test, self.tests)
        significant: dict[str, list[Mapping[str, Any]]] = {}
        for row in self.rows:
            if row["test"] == test:
                found = significant.setdefault(row_metric(row), [])
                found += [row] if row["significant"] else []
        grid = {}
        for metric in significant:
            means = self.means[metric]
            merits = self._merits(metric, means)
            marks = self._marks(metric, significant[metric], letters=letters)
            best = max(merits.values()) if len(set(merits.values())) > 1 else None
            grid[metric] = {
                model: MeanCell(mean, best is not None and merits.get(model) == best, marks[model])
                for model, mean in means.items()
            }
        return grid

    def _marks(
        self, metric: str, significant: Sequence[Mapping[str, Any]], *, letters: bool
    ) -> dict[str, str]:
        """Return the letters of each model, or a star for winners of significant differences."""
        means = self.means[metric]
        if letters and self.alternative == "two-sided":
            merits = self._merits(metric, means)

            def badness(model: str) -> float:  # undefined means come last
                merit = merits.get(model, means[model])
                return math.inf if math.isnan(merit) else -merit

            pairs = [(row["model_a"], row["model_b"]) for row in significant]
            return compact_letters(sorted(means, key=badness), pairs)
        marks = dict.fromkeys(means, "")
        if not letters:
            marks |= {winner: "*" for row in significant if (winner := self.winner(row))}
        return marks

    def _merits(self, metric: str, means: Mapping[str, float]) -> dict[str, float]:
        """Return the defined means as quantities to maximize; empty if there is no direction."""
        entry = next(iter(self.results.values())).entry(metric)
        merits = {model: replace(entry, value=mean).merit for model, mean in means.items()}
        return {
            model: merit
            for model, merit in merits.items()
            if merit is not None and not math.isnan(merit)
        }

    def winner(self, row: Mapping[str, Any]) -> str | None:
        """Return the better model of a row, None if the difference is not significant."""
        means = {row["model_a"]: row["mean_a"], row["model_b"]: row["mean_b"]}
        merits = self._merits(row_metric(row), means)
        if not row["significant"] or len(set(merits.values())) < 2:
            return None
        return max(merits, key=lambda model: merits[model])

    # ----------------------------------------------------------------------------------------------

    def caption(self, test: str) -> str:
        """Return the test, the correction of its p-values and alpha as text."""
        return comparison_text.caption(self, test)

    def legend(self) -> list[str]:
        """Return the meaning of the marks in a grid."""
        if len(self.results) == 2:
            return ["* significantly better"]
        if self.alternative == "two-sided":
            return ["models that share a letter do not differ significantly"]
        return []

    def describe_fronts(self) -> list[str]:
        """Return a line of text per Pareto front: its models and its hypervolume."""
        return comparison_text.describe_fronts(self)

    def to_csv(self, *, guard_formulas: bool = True) -> str:
        """Return all columns of the frame as CSV. Undefined is NaN, not applicable is empty.

        With `guard_formulas`, text that a spreadsheet would evaluate gets a leading apostrophe.
        """
        return csv_table(self.to_frame(), guard_formulas=guard_formulas)

    def to_json(self) -> str:
        """Return settings, rows, means, letters, Pareto fronts and notes. Undefined is null."""
        return comparison_text.to_json(self)

    def to_markdown(self, *, pairs: bool = False) -> str:
        """Return a pipe table per test: means, the best in bold, and letters or a star.

        With `pairs`, one table of every pair of models instead: means, difference, interval,
        adjusted p-value, effect sizes.
        """
        return comparison_text.render(self, "markdown", pairs=pairs)

    def to_latex(self, *, pairs: bool = False) -> str:
        """Return a `tabular` per test for the package booktabs: means, the best in bold.

        Letters, or a star for two models, are superscripts. `weft.table(comparison, ...)` has more
        options: a baseline, captions, other metrics. With `pairs`, one table of every pair
        of models instead.
        """
        return comparison_text.render(self, "latex", pairs=pairs)

    def to_text(self, form: str, *, pairs: bool = False, guard_formulas: bool = True) -> str:
        """Return the comparison as JSON, CSV, or a table in Markdown, LaTeX, HTML or typst."""
        form = check_choice("format", form, ("json", "csv", *LANGUAGES))
        if form in LANGUAGES:
            return comparison_text.render(self, form, pairs=pairs)
        return self.to_json() if form == "json" else self.to_csv(guard_formulas=guard_formulas)

    def save(self, path: str | Path, *, pairs: bool = False, guard_formulas: bool = True) -> Path:
        """Write the comparison atomically, in the format of its suffix, one of `SUFFIXES`.

        `pairs` is that of `to_markdown` and `to_latex`, `guard_formulas` that of `to_csv`.
        """
        path = check_path("path", path)
        write_files({path: self.file_writer(path, pairs=pairs, guard_formulas=guard_formulas)})
        return path

    def file_writer(self, path: Path, *, pairs: bool, guard_formulas: bool) -> Writer:
        """Return a function that writes the file of `save`."""
        form = SUFFIXES.get(path.suffix.lower())
        if form is None:
            raise SettingError(
                f"{path}: the name of a comparison's file ends in one of {', '.join(SUFFIXES)}."
            )
        if form == "parquet":
            return partial(write_table, self.to_frame())
        return text_writer(self.to_text(form, pairs=pairs, guard_formulas=guard_formulas))

    def _repr_html_(self) -> str:
        return self.to_text("html")
