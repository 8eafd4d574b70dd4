"""`weft.table`: the values of several models as one table, for papers, pages and other tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from weft.data.pandas_frames import to_pandas
from weft.errors import (
    SettingError,
    check_bool,
    check_choice,
    check_int,
    check_type,
    escape_controls,
    read_list,
    setting_ref,
)
from weft.evaluation.result import Result
from weft.metrics.names import format_labels
from weft.statistics.comparison import Comparison
from weft.statistics.comparison_text import row_metric
from weft.statistics.markup import csv_table
from weft.statistics.metric_rows import MetricRow, metric_rows, skill_rows, unique_names
from weft.statistics.table_layout import TableLayout

if TYPE_CHECKING:
    import polars as pl

Spread = Literal["auto", "interval", "std_error", "std", "none"]
_SPREADS = ("auto", "interval", "std_error", "std", "none")


# Columns of `ResultTable.to_frame` after model, run and metric.
_COLUMNS = ("k", "value", "std_error", "ci_low", "ci_high", "users", "higher_is_better")


@dataclass(frozen=True, eq=False, repr=False)
class ResultTable:
    """A table with the values of several models, in which the best values are marked.

    `weft.table` is another name of this class. The best value of a metric is bold; with three
    models or more, the second best is underlined.

    Parameters
    ----------
    results
        Results in a list or by name, a `Comparison`, or several results of each model:
        `{"als": [first, second], "pop": [third]}`. Several results are runs (seeds, folds), of
        which the mean is shown.
    metrics
        Names of the metrics to show, in order. By default all metrics of the results, or those that
        were compared.
    baseline
        Model to compare with. In a table of a comparison, † marks models that are significantly
        better than the baseline and ‡ those that are worse. Without a baseline, models that share a
        letter do not differ significantly; if there are two models, * marks the better one.
    test
        Test of the comparison that decides on significance. By default the first test of the
        comparison that a metric has.
    improvement
        Add the relative change of each value against the baseline.
    spread
        Variation to show: `"interval"` (95%, over users), `"std_error"` (over users), `"std"` (over
        the runs of a model) or `"none"`. With `"auto"`, the default, it is `"std"` for runs,
        `"none"` for a comparison, and otherwise `"interval"`.
    digits
        Number of decimals. Default: 4, or 2 with `percent`.
    percent
        Multiply the values of metrics between 0 and 1 by 100.
    arrows
        Show the direction of each metric: ↑ if higher is better, ↓ if lower is better, → for a
        target. Default: True.
    rows
        `"models"` or `"metrics"`: what the rows are. With `"auto"`, the default, whichever are more
        numerous.
    marks
        Marks of models by metric, instead of those of a comparison: `{"nDCG@10": {"als": "†"}}`.
    notes
        Further lines that explain the table.

    Raises
    ------
    SettingError
        If an option is invalid, or does not apply to these results.

    Examples
    --------
    >>> import weft
    >>> truth = {"ann": ["x"], "bob": ["z"]}
    >>> good = weft.evaluate({"ann": ["x"], "bob": ["z"]}, truth, metrics="MRR@2", name="good")
    >>> bad = weft.evaluate({"ann": ["y", "x"], "bob": ["y"]}, truth, metrics="MRR@2", name="bad")
    >>> print(weft.table([good, bad], spread="none", digits=2).to_markdown())
    | model |  MRR@2 ↑ |
    | ----- | -------: |
    | good  | **1.00** |
    | bad   |     0.25 |
    <BLANKLINE>
    bold: best.
    <BLANKLINE>
    """

    results: Sequence[Result] | Mapping[str, Result | Sequence[Result]] | Comparison
    metrics: str | Sequence[str] | None = None
    _: KW_ONLY
    baseline: str | None = None
    test: str | None = None
    improvement: bool = False
    spread: Spread = "auto"
    digits: int | None = None
    percent: bool = False
    arrows: bool = True
    rows: Literal["auto", "models", "metrics"] = "auto"
    marks: Mapping[str, Mapping[str, str]] | None = None
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("improvement", "percent", "arrows"):
            check_bool(name, getattr(self, name))
        check_choice("spread", self.spread, _SPREADS)
        check_choice("rows", self.rows, ("auto", "models", "metrics"))
        if self.digits is not None:
            check_int("digits", self.digits, least=0)
        if self.baseline is not None:
            check_choice("baseline", self.baseline, tuple(self.runs))
        if self.improvement and self.baseline is None:
            raise SettingError(
                f"{setting_ref('improvement', True)} needs the model to improve on; give "
                f"{setting_ref('baseline')} one of {', '.join(map(repr, self.runs))}."
            )
        if self.test is not None and self.comparison is None:
            raise SettingError(
                f"{setting_ref('test', self.test)} applies to a comparison, but these are results; "
                "give weft.table(weft.compare(results), test=...)."
            )
        if self.has_runs and self.spread in ("interval", "std_error"):
            raise SettingError(
                f"{setting_ref('spread', self.spread)} is over the users of one run, but a model "
                "has several runs; give 'std' or 'none'."
            )
        _ = self.metric_rows

    # ----------------------------------------------------------------------------------------------

    @cached_property
    def runs(self) -> dict[str, tuple[Result, ...]]:
        """The results of each model, in order."""
        results = self.results
        if isinstance(results, Comparison):
            results = results.results
        if isinstance(results, Result):
            results = [results]
        if not isinstance(results, Mapping):
            expected = "results of weft.evaluate, in a list or by name, or a comparison"
            listed = read_list("results", results, expected)
            for result in listed:
                check_type("an element of results", result, Result, "a result of weft.evaluate")
            results = unique_names(listed)
        runs = {
            str(name): tuple(one if isinstance(one, (list, tuple)) else [one])
            for name, one in results.items()
        }
        for of_model in runs.values():
            for result in of_model:
                check_type("an element of results", result, Result, "a result of weft.evaluate")
        if not runs or not all(runs.values()):
            raise SettingError("there is no result to show; give at least one of each model.")
        return runs

    @property
    def has_runs(self) -> bool:
        """True if some model has several results."""
        return any(len(of_model) > 1 for of_model in self.runs.values())

    @property
    def models(self) -> list[str]:
        """The names of the models, in order."""
        return list(self.runs)

    @property
    def comparison(self) -> Comparison | None:
        """The comparison, None if the table was built from results."""
        return self.results if isinstance(self.results, Comparison) else None

    @cached_property
    def tests(self) -> dict[str, str]:
        """The test that decides on significance, by metric."""
        comparison = self.comparison
        if comparison is None:
            return {}
        order = comparison.tests
        chosen = order if self.test is None else (check_choice("test", self.test, order),)
        found = {(row["test"], row_metric(row)) for row in comparison.rows}
        return {
            metric: next(test for test in chosen if (test, metric) in found)
            for metric in comparison.means
            if any((test, metric) in found for test in chosen)
        }

    @cached_property
    def metric_rows(self) -> list[MetricRow]:
        """The metrics of the table, with the values of all runs of all models."""
        flat = [result for of_model in self.runs.values() for result in of_model]
        rows = metric_rows(flat)
        rows += skill_rows(rows)
        by_name = {row.name: row for row in rows}
        if self.metrics is None:
            return [row for row in rows if self.comparison is None or row.name in self.tests]
        names = [self.metrics] if isinstance(self.metrics, str) else self.metrics
        listed = read_list("metrics", names, "names of metrics")
        return [by_name[_find_name(name, flat, by_name)] for name in listed]

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row per model and metric.

        The columns are those of `Result.to_frame`, and `higher_is_better`, which is null for a
        metric without a direction. If models have several results, there is one row for each, with
        its number in the column `run`.
        """
        import polars as pl

        further = dict.fromkeys(
            column
            for of_model in self.runs.values()
            for result in of_model
            for column in result.further_columns
        )
        columns = (*_COLUMNS, *further)
        names = {row.name for row in self.metric_rows}
        rows = [
            {"model": model, "run": run, "metric": value.metric + format_labels(value.cell)}
            | {column: getattr(value, column) for column in columns}
            for model, of_model in self.runs.items()
            for run, result in enumerate(of_model)
            for value in result.entries
            if value.name in names
        ]
        schema: dict[str, Any] = {"model": pl.String, "run": pl.Int64, "metric": pl.String}
        schema |= dict.fromkeys(columns, pl.Float64)
        schema |= {"k": pl.Int64, "users": pl.Int64, "higher_is_better": pl.Boolean}
        frame = pl.DataFrame(rows, schema=schema)
        return frame if self.has_runs else frame.drop("run")

    def to_pandas(self) -> Any:
        """Return the rows of `to_frame` as a pandas frame; pyarrow is not needed."""
        return to_pandas(self.to_frame())

    def to_csv(self, *, guard_formulas: bool = True) -> str:
        """Return the rows of `to_frame` as CSV.

        Undefined values are NaN, and values that do not apply are empty. With `guard_formulas`,
        text that a spreadsheet would evaluate starts with an apostrophe.
        """
        return csv_table(self.to_frame(), guard_formulas=guard_formulas)

    def to_markdown(self, *, caption: str | None = None) -> str:
        """Return a Markdown table, below its caption if one is given."""
        return self.render("markdown", caption=caption)

    def to_latex(self, *, caption: str | None = None, label: str | None = None) -> str:
        """Return a LaTeX `tabular` for the package booktabs.

        With a caption (LaTeX code) or a label, it is inside a `table`. The notes on the table are
        comments above it.
        """
        return self.render("latex", caption=caption, label=label)

    def to_html(self, *, caption: str | None = None, label: str | None = None) -> str:
        """Return an HTML `<table>`, which word processors keep when it is pasted.

        `caption` is HTML code; `label` is the id of the table.
        """
        return self.render("html", caption=caption, label=label)

    def to_typst(self, *, caption: str | None = None, label: str | None = None) -> str:
        """Return a typst `table`, in a `figure` if it has a caption (typst code) or a label."""
        return self.render("typst", caption=caption, label=label)

    def render(self, form: str, *, caption: str | None = None, label: str | None = None) -> str:
        """Return the table in a markup language.

        Parameters
        ----------
        form
            `"markdown"`, `"latex"`, `"html"` or `"typst"`.
        caption
            Caption, in this language.
        label
            Label of the table; Markdown has none.
        """
        return TableLayout(self).text_table().render(form, caption=caption, label=label)

    def __repr__(self) -> str:
        return escape_controls(self.to_markdown())

    def _repr_html_(self) -> str:
        return self.to_html()


table = ResultTable


def _find_name(name: object, results: Sequence[Result], known: Mapping[str, MetricRow]) -> str:
    """Return the name of a metric of the results, in any spelling. Raises `SettingError`."""
    if isinstance(name, str) and name in known:
        return name
    for result in results:
        if name in result:
            return result.entry(str(name)).name
    raise SettingError(
        f"{setting_ref('metrics')} has {name!r}, which no result has; they have: "
        f"{', '.join(known)}."
    )
