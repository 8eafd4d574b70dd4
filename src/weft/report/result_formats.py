"""Results as text in a file format: CSV, JSON, Markdown or LaTeX."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result, frame_schema
from weft.metrics.names import format_labels
from weft.statistics.markup import (
    csv_table,
    escape_latex,
    escape_markdown,
    latex_table,
    markdown_table,
)

if TYPE_CHECKING:
    import polars as pl

SUMMARY_COLUMNS = (
    *("model", "metric", "k", "value", "std_error"),
    *("ci_low", "ci_high", "users", "higher_is_better"),
)


def summary(results: Sequence[Result]) -> pl.DataFrame:
    """Return one row per model, metric and cut-off, with value, standard error and 95 % interval.

    `higher_is_better` is null for a metric without a direction. Columns of floor, ceiling and
    skill, and of bootstrap intervals, follow if some result has them.
    """
    import polars as pl

    further = dict.fromkeys(column for result in results for column in result.further_columns)
    columns = (*SUMMARY_COLUMNS, *further)
    rows = [
        {column: getattr(value, column) for column in columns[2:]}
        | {"model": result.name, "metric": value.metric + format_labels(value.cell)}
        for result in results
        for value in result.entries
    ]
    schema: dict[str, Any] = dict.fromkeys(columns, pl.Float64)
    schema |= {"model": pl.String, "metric": pl.String, "k": pl.Int64, "users": pl.Int64}
    return pl.DataFrame(rows, schema=schema | {"higher_is_better": pl.Boolean})


def to_csv(results: Sequence[Result], *, guard_formulas: bool = True) -> str:
    """Return the summary as CSV. Undefined values are NaN, fields that do not apply are empty."""
    return csv_table(summary(results), guard_formulas=guard_formulas)


def to_json(results: Sequence[Result]) -> str:
    """Return a list with one object per model, as `Result.save` writes it. Undefined is null."""
    objects = [result.to_dict() for result in results]
    return json.dumps(objects, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_markdown(results: Sequence[Result]) -> str:
    """Return a pipe table with the best values in bold, and a second one for the slices, if any.

    Models are rows, or metrics if there are more of them.
    """
    head, rows = _grid(results, escape_markdown, lambda text: f"**{text}**" if text else "", "±")
    has_slices = not slices(results).is_empty()
    return markdown_table(head, rows) + (f"\n{slices_to_markdown(results)}" if has_slices else "")


def to_latex(results: Sequence[Result]) -> str:
    r"""Return a `tabular` for the package booktabs with the best values in bold.

    Models are rows, or metrics if there are more of them.
    """
    head, rows = _grid(results, escape_latex, lambda text: rf"\textbf{{{text}}}", r"$\pm$")
    note = "95 % confidence intervals over users; the best value of each metric is bold."
    return latex_table(head, rows, [note])


def slices(results: Sequence[Result]) -> pl.DataFrame:
    """Return the rows of all models' slices, with the model as the first column."""
    import polars as pl

    frames = [
        result.slices.select(pl.lit(result.name).alias("model"), pl.all())
        for result in results
        if result.slices is not None
    ]
    if not frames:
        return pl.DataFrame(schema={"model": pl.String, **frame_schema("slices")})
    return pl.concat(frames)


def slices_to_csv(results: Sequence[Result], *, guard_formulas: bool = True) -> str:
    """Return all slices as CSV. Undefined values are NaN, fields that do not apply are empty."""
    return csv_table(slices(results), guard_formulas=guard_formulas)


def slices_to_markdown(results: Sequence[Result]) -> str:
    """Return a pipe table with a row per model, slice and group, and a column per metric."""
    texts: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in slices(results).iter_rows(named=True):
        value = MetricValue(row["metric"], row["k"], row["value"], row["std_error"], row["users"])
        has_interval = value.interval.kind != "none"
        margin = f" ± {(value.ci_high - value.ci_low) / 2:.4f}" if has_interval else ""
        text = "undefined" if math.isnan(value.value) else f"{value.value:.4f}{margin}"
        texts.setdefault((row["model"], row["slice"], row["group"]), {})[value.name] = text
    metrics = list(dict.fromkeys(name for values in texts.values() for name in values))
    rows = [
        [*map(escape_markdown, key), *(values.get(name, "-") for name in metrics)]
        for key, values in texts.items()
    ]
    head = ["model", "slice", "group", *map(escape_markdown, metrics)]
    return markdown_table(head, rows, words=3)


@dataclass(frozen=True)
class MetricRow:
    """A metric at its cut-off with the values of all models, None for a model without it.

    `is_skill`: the values are the skill of the models in a metric.
    """

    name: str
    values: tuple[MetricValue | None, ...]
    is_skill: bool = False

    def is_best(self, value: MetricValue | None) -> bool:
        """True if no model is better than `value` and some are worse.

        No value is best if the metric is undefined or has no direction.
        """
        merits = {
            value.merit
            for value in self.values
            if value and value.merit is not None and not math.isnan(value.value)
        }
        return value is not None and len(merits) > 1 and value.merit == max(merits)

    @property
    def any_value(self) -> MetricValue:
        """The value of the first model that has one."""
        return next(value for value in self.values if value is not None)


def metric_rows(results: Sequence[Result]) -> list[MetricRow]:
    """Return every metric of any of the models, in order."""
    names = list(dict.fromkeys(name for result in results for name in result))
    by_name = [{value.name: value for value in result.entries} for result in results]
    return [MetricRow(name, tuple(values.get(name) for values in by_name)) for name in names]


def skill_rows(rows: Sequence[MetricRow]) -> list[MetricRow]:
    """Return a row with the skill of the models for each metric that has a floor and a ceiling."""
    return [
        MetricRow(f"skill of {row.name}", tuple(map(_to_skill, row.values)), is_skill=True)
        for row in rows
        if any(value is not None and not math.isnan(value.floor) for value in row.values)
    ]


def _to_skill(value: MetricValue | None) -> MetricValue | None:
    """Return the skill as a value of its own, with the same floor and ceiling."""
    if value is None:
        return None
    return MetricValue(
        f"skill of {value.metric}",
        value.k,
        value.skill,
        users=value.users,
        higher_is_better=True,
        floor=value.floor,
        ceiling=value.ceiling,
    )


def _grid(
    results: Sequence[Result],
    escape: Callable[[str], str],
    mark: Callable[[str], str],
    plus_minus: str,
) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of formatted cells; the longer side are the rows."""

    def cell(row: MetricRow, value: MetricValue | None) -> str:
        if value is None:
            return escape("-")
        text = escape("undefined" if math.isnan(value.value) else f"{value.value:.4f}")
        low, high, kind = value.interval
        margins = {"none": "", "normal": f" {plus_minus} {(high - low) / 2:.4f}"}
        margin = margins.get(kind, " " + escape(f"[{low:.4f}, {high:.4f}]"))
        return (mark(text) if row.is_best(value) else text) + margin

    metrics = metric_rows(results)
    metrics += skill_rows(metrics)
    models = [escape(result.name) for result in results]
    cells = [[cell(row, value) for value in row.values] for row in metrics]
    if len(metrics) > len(models):
        rows = [[escape(row.name), *line] for row, line in zip(metrics, cells)]
        return ["metric", *models], rows
    rows = [[model, *line] for model, line in zip(models, map(list, zip(*cells)))]
    return ["model", *(escape(row.name) for row in metrics)], rows


# The choices of `--format`.
RESULT_FORMATS: dict[str, Callable[[Sequence[Result]], str]] = {
    "json": to_json,
    "csv": to_csv,
    "markdown": to_markdown,
    "latex": to_latex,
}
