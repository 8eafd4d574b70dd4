"""The result of a comparison: every pair of models on every metric under every test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.pandas_frames import to_pandas
from weft.errors import SettingError, check_choice, check_path, read_list
from weft.evaluation.atomic_files import Writer, text_writer, write_files
from weft.evaluation.report_mixin import ComparisonTextMixin, ReportMixin
from weft.evaluation.result import Result
from weft.evaluation.table_digests import write_table
from weft.statistics import comparison_text
from weft.statistics.adjusted_rows import adjust_rows
from weft.statistics.comparison_marks import MeanCell, find_merits, mark_means
from weft.statistics.comparison_text import row_metric
from weft.statistics.corrections import CORRECTIONS
from weft.statistics.list_overlap import compare_lists
from weft.statistics.markup import csv_table
from weft.statistics.paired_bootstrap import DifferenceKey
from weft.statistics.pareto import ParetoFront, pareto_optimal
from weft.statistics.resampled_difference import ResampledDifference
from weft.statistics.text_tables import LANGUAGES

if TYPE_CHECKING:
    import polars as pl

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


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(ComparisonTextMixin, ReportMixin):
    """A comparison of models, with a row for every pair of models, metric and test.

    `weft.compare` returns it, and `print` shows it as the command `weft compare` does.

    Attributes
    ----------
    rows
        The rows of `to_frame` as mappings.
    results
        The compared results by name.
    correction, alpha, tests, family, alternative
        Settings of the comparison, as in `weft.compare`.
    means
        Mean of each model over the users that all models share, by metric and model.
    notes
        Remarks on the tests, such as the number of users that are left out.
    fronts
        Pareto front of each Hypervolume, by its name.
    resamples, seed
        Settings of the randomization test.
    differences
        Resampled differences of the bootstrap test, by both models and metric.

    Examples
    --------
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
        """Return a frame with one row per pair of models, metric and test.

        Rows of the bootstrap test have no effect sizes, and the values of the two models as means,
        each over all of its own users.

        Returns
        -------
        polars.DataFrame
            The columns:

            - `model_a`, `model_b`, `metric`, `k`, `test`: the names, and the cut-off or null.
            - `statistic`, `p_value`: the statistic and the p-value of the test.
            - `p_adjusted`: the p-value after the correction for its family.
            - `significant`: whether `p_adjusted` is at most `alpha`; null without a p-value.
            - `family_size`: the number of tests with a p-value in the family of the row.
            - `mean_a`, `mean_b`: the means over the users that both models have.
            - `difference`, `std_error`: `mean_a - mean_b` and its standard error.
            - `ci_low`, `ci_high`: the ends of the interval of the difference, by Student's t. With
              the paired t-test it excludes 0 if and only if the row is significant; with a
              one-sided test this holds for the end on the tested side.
            - `ci_level`: the level of this interval, at which the correction decides. With
              `"bonferroni"`, all intervals of a family jointly have the confidence 1 - alpha (1 -
              2 alpha for one-sided tests).
            - `effect_size`: the mean difference divided by the standard deviation of the
              differences (paired Cohen's d).
            - `cliffs_delta`: comparing every value of a with every value of b, the share of pairs
              in which a is greater, minus the share in which b is greater.
            - `wins`, `ties`, `losses`: the shares of users with a > b, a = b and a < b.
            - `detectable`: the smallest true mean difference that a two-sided paired t-test at
              `alpha` detects with a power of 0.8 for this number of users, without correction.
            - `users`, `left_out`: the numbers of users that were compared, and of users without a
              defined value for one of the models.
            - `paired`: false for a test that ignores the pairing.
            - `form`: the kind of interval of the bootstrap test, `"bca"`, `"percentile"` or
              `"swaps"` (of the lists of two models); its ends are `ci_low` and `ci_high`.
            - `boot_low`, `boot_high`: the ends of the percentile interval of the bootstrap at the
              same level.
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
        """Return a frame with one row per Hypervolume and model.

        The columns are `front`, `model`, `on_front` (whether the model is on the Pareto front) and
        `hypervolume` (of the front).
        """
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
        """Return the models that no other model dominates on these metrics.

        For each metric, its direction decides which value is better. Models with an undefined value
        are left out. Any metric that all results have can be used, with or without values per user:
        `comparison.pareto(["nDCG@10", "Gini@10"])`. Raises `SettingError` for a metric that was not
        evaluated or has no direction.
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
        """Return the similarity of the recommendation lists of every two models.

        Values are means over the users who have a list of both models. The results must have lists
        (`keep_lists=True`), otherwise `InputError` is raised.

        Parameters
        ----------
        k
            Cut-off of the lists, by default the largest one that all results have. Shorter lists
            are compared as they are.
        p
            Persistence of the rank-biased overlap, between 0 and 1.

        Returns
        -------
        polars.DataFrame
            One row per ordered pair of models, with the columns:

            - `model_a`, `model_b`, `k`, `users`: the models, the cut-off and the number of users.
            - `overlap`: the number of shared items divided by k.
            - `intersection`: the share of the list of model_a that is in the list of model_b.
            - `jaccard`: the number of shared items divided by the number of items in either list.
            - `rbo`: the rank-biased overlap up to depth k, (1 - p) Σ_d p^(d-1) · (shared items up
              to d) / d (Webber et al. 2010, doi 10.1145/1852102.1852106).
            - `rbo_normalized`: `rbo` divided by its highest value, 1 - p^k.
            - `rbo_extrapolated`: the rank-biased overlap if the overlap at k continues below it.
            - `promoted`: the number of items of model_a that model_b does not have in its top k.
            - `deepest_promotion`: how many positions below k the lowest of these items is in the
              kept list of model_b; 0 if it is not there.
        """
        return compare_lists(self.results, k, p)

    def describe_lists(self) -> list[str]:
        """Return a line of text per pair of models with kept lists: their similarity."""
        return comparison_text.describe_lists(self)

    def adjusted(self, correction: str) -> Comparison:
        """Return the comparison with p-values and intervals adjusted by another correction."""
        correction = check_choice("correction", correction, CORRECTIONS)
        return replace(self, rows=adjust_rows(self, correction), correction=correction)

    def letters(self, test: str) -> dict[str, dict[str, str]]:
        """Return letters by metric and model.

        Models that share a letter do not differ significantly; the best model has the letter a.
        Empty for one-sided comparisons.
        """
        if self.alternative != "two-sided":
            return {}
        return {
            metric: {model: cell.mark for model, cell in cells.items()}
            for metric, cells in mark_means(self, test, letters=True).items()
        }

    def grid(self, test: str) -> dict[str, dict[str, MeanCell]]:
        """Return means by metric and model, with the best one and significant differences.

        Differences are marked by letters, between two models by a star at the better one.
        """
        return mark_means(self, test, letters=len(self.results) > 2)

    def winner(self, row: Mapping[str, Any]) -> str | None:
        """Return the better model of a row, None if the difference is not significant."""
        means = {row["model_a"]: row["mean_a"], row["model_b"]: row["mean_b"]}
        merits = find_merits(self, row_metric(row), means)
        if not row["significant"] or len(set(merits.values())) < 2:
            return None
        return max(merits, key=lambda model: merits[model])

    # ----------------------------------------------------------------------------------------------

    def caption(self, test: str) -> str:
        """Return a text with the test, the correction of its p-values and alpha.

        Raises `SettingError` if the comparison does not have the test.
        """
        return comparison_text.caption(self, check_choice("test", test, tuple(self.tests)))

    def legend(self) -> list[str]:
        """Return the meaning of the marks in tables."""
        if len(self.results) == 2:
            return ["* significantly better"]
        if self.alternative == "two-sided":
            return ["models that share a letter do not differ significantly"]
        return []

    def describe_fronts(self) -> list[str]:
        """Return a line of text per Pareto front: its models and its hypervolume."""
        return comparison_text.describe_fronts(self)

    def to_csv(self, *, guard_formulas: bool = True) -> str:
        """Return the rows of `to_frame` as CSV.

        Undefined values are NaN, and values that do not apply are empty. With `guard_formulas`,
        text that a spreadsheet would evaluate starts with an apostrophe.
        """
        return csv_table(self.to_frame(), guard_formulas=guard_formulas)

    def to_json(self) -> str:
        """Return settings, rows, means, letters, Pareto fronts and notes as JSON.

        Undefined values are null.
        """
        return comparison_text.to_json(self)

    def to_markdown(self, *, pairs: bool = False) -> str:
        """Return one Markdown table per test: means, the best one in bold, and letters or a star.

        With `pairs`, return one table of all pairs of models instead: means, difference, interval,
        adjusted p-value and effect sizes.
        """
        return comparison_text.render(self, "markdown", pairs=pairs)

    def to_latex(self, *, pairs: bool = False) -> str:
        """Return one LaTeX `tabular` per test, for the package booktabs.

        The best mean is bold. Letters, or a star if there are two models, are superscripts. With
        `pairs`, return one table of all pairs of models instead. `weft.table(comparison, ...)` has
        more options: a baseline, captions and other metrics.
        """
        return comparison_text.render(self, "latex", pairs=pairs)

    def to_text(self, form: str, *, pairs: bool = False, guard_formulas: bool = True) -> str:
        """Return the comparison as JSON, CSV, or a table in Markdown, LaTeX, HTML or typst."""
        form = check_choice("format", form, ("json", "csv", *LANGUAGES))
        if form in LANGUAGES:
            return comparison_text.render(self, form, pairs=pairs)
        return self.to_json() if form == "json" else self.to_csv(guard_formulas=guard_formulas)

    def save(self, path: str | Path, *, pairs: bool = False, guard_formulas: bool = True) -> Path:
        """Write the comparison to a file, completely or not at all, and return the path.

        Parameters
        ----------
        path
            The suffix decides the format: `.json`, `.csv`, `.parquet`, `.md` or `.markdown`,
            `.tex`, or `.typ`.
        pairs
            As in `to_markdown` and `to_latex`.
        guard_formulas
            As in `to_csv`.
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
