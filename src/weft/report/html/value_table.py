"""The tables of the page: every value with its interval, the best ones, and significance marks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.report.context import ReportContext, metric_family
from weft.report.number_format import common_places
from weft.report.verdict_phrases import caption_test
from weft.statistics.comparison_marks import MeanCell
from weft.statistics.metric_rows import MetricRow, skill_rows

MAX_MODEL_COLUMNS = 5  # more models are rows
_MAX_METRIC_COLUMNS = 6  # as many as fit on a sheet of paper


@dataclass(frozen=True)
class MetricHeading:
    """The name of a metric in a table, with its cut-off, family and direction."""

    name: str
    cutoff: int | None
    family: str
    arrow: str
    direction: str


@dataclass(frozen=True)
class ValueCell:
    """A value as it is shown; `data` has the value and the ends of its interval as numbers."""

    text: str
    margin: str
    is_best: bool
    mark: str
    data: str


@dataclass(frozen=True)
class ValueRow:
    """A row; its head is a `MetricHeading` or the name of a model."""

    head: Any
    cells: Sequence[ValueCell]


@dataclass(frozen=True)
class ValueTable:
    """Metrics down by family and models across; or models down and metrics across."""

    number: int
    caption: str
    columns: Sequence[Any]  # names of models, or metric headings
    groups: Sequence[tuple[str, Sequence[ValueRow]]]
    metrics: Sequence[MetricHeading]
    cutoff: int | None = None  # of all metrics, if they are columns

    @property
    def rows(self) -> list[ValueRow]:
        """The rows of all groups."""
        return [row for _, rows in self.groups for row in rows]

    @property
    def style(self) -> str:
        """CSS variables with the lengths of the longest margin and mark, which align numbers."""
        cells = [cell for row in self.rows for cell in row.cells]
        margin = max((len(cell.margin) for cell in cells), default=0)
        mark = max((len(cell.mark) for cell in cells), default=0)
        return f"#table-{self.number} {{ --margin: {margin}; --mark: {mark}; }}\n"


def value_tables(context: ReportContext) -> list[ValueTable]:
    """Return one table of all values that have no labels; of many models, several narrow tables.

    Many models have a table for each family and cut-off, which fits on paper.
    """
    rows = [row for row in context.metric_rows if not row.any_value.cell]
    rows += skill_rows(rows)
    headings = [_heading(row) for row in rows]
    cells = _cells_by_metric(context, rows)
    families: dict[str, list[MetricHeading]] = {}
    for heading in headings:
        families.setdefault(heading.family, []).append(heading)
    if len(context.models) > MAX_MODEL_COLUMNS:
        return _narrow_tables(context.models, families, cells)
    groups = [
        (family, [ValueRow(heading, cells[heading.name]) for heading in members])
        for family, members in families.items()
    ]
    caption = "Values of all metrics"
    return [ValueTable(0, caption, context.models, groups, headings)] if groups else []


def _narrow_tables(
    models: Sequence[str],
    families: Mapping[str, list[MetricHeading]],
    cells: Mapping[str, list[ValueCell]],
) -> list[ValueTable]:
    """Return tables with a row per model and metrics of one family and cut-off across."""
    tables: list[ValueTable] = []
    for caption, columns in _split_headings(families):
        rows = [
            ValueRow(model, [cells[heading.name][index] for heading in columns])
            for index, model in enumerate(models)
        ]
        groups, cutoff = [("", rows)], columns[0].cutoff
        tables.append(ValueTable(len(tables), caption, columns, groups, columns, cutoff))
    return tables


def _split_headings(
    families: Mapping[str, list[MetricHeading]],
) -> Iterator[tuple[str, list[MetricHeading]]]:
    """Yield the caption and the metrics of each table."""
    for family, members in families.items():
        for cutoff in dict.fromkeys(heading.cutoff for heading in members):
            headings = [heading for heading in members if heading.cutoff == cutoff]
            caption = family if cutoff is None else f"{family} at {cutoff}"
            num_parts = math.ceil(len(headings) / _MAX_METRIC_COLUMNS)
            for part in range(num_parts):
                start = part * _MAX_METRIC_COLUMNS
                suffix = f", {part + 1} of {num_parts}" if num_parts > 1 else ""
                yield caption + suffix, headings[start : start + _MAX_METRIC_COLUMNS]


def label_values(context: ReportContext) -> dict[str, list[Any]]:
    """Return values of labels, such as `BiasDisparityBD@10[F, Drama]`, in columns.

    The first column is the metric; each model has one.
    """
    rows = [row for row in context.metric_rows if row.any_value.cell]
    values = [[None if value is None else value.value for value in row.values] for row in rows]
    columns = {model: [row[i] for row in values] for i, model in enumerate(context.models)}
    return {"metric": [row.name for row in rows]} | columns


def legend(context: ReportContext, tables: Sequence[ValueTable]) -> list[str]:
    """Return the lines of the legend below the tables."""
    lines = []
    if any(cell.is_best for table in tables for row in table.rows for cell in row.cells):
        lines.append(
            "★ best value of the metric (↑ higher is better, ↓ lower is better, → closer to the "
            "number is better)"
        )
    lines += _interval_legend(context)
    if any(heading.family == "Skill" for table in tables for heading in table.metrics):
        lines.append(
            "skill: (value - random) / (best - random), where random is the expected value of a "
            "random order and best the best reachable value (both in brackets)"
        )
    return lines + _comparison_legend(context)


def _comparison_legend(context: ReportContext) -> list[str]:
    if context.comparison is None:
        return []
    remarks = [remark[:1].upper() + remark[1:] for remark in context.comparison.legend()]
    tests = dict.fromkeys(context.tests.values())
    captions = [caption_test(context.comparison, test) for test in tests]
    return ["; ".join([*remarks, *captions])]


def _interval_legend(context: ReportContext) -> list[str]:
    values = (value for result in context.results.values() for value in result.entries)
    kinds = {value.interval.kind for value in values if not value.cell}
    texts = {
        "± half-width of the 95% interval over users (normal approximation)": "normal" in kinds,
        "[low, high] 95% bootstrap interval over users": kinds & {"bootstrap", "BCa"},
    }
    shown = "; ".join(text for text, is_shown in texts.items() if is_shown)
    if not shown:
        return []
    bars = (
        "bar below a value: its interval, on one scale for all models (from the lowest to the "
        "highest end of the intervals of this metric); the mark on the bar is the value"
    )
    return [shown, *([bars] if len(context.models) > 1 else [])]


def _heading(row: MetricRow) -> MetricHeading:
    value = row.any_value
    arrow = direction = ""
    if value.higher_is_better is not None:
        arrow = "↑" if value.higher_is_better else "↓"
        direction = f"{'higher' if value.higher_is_better else 'lower'} is better"
    elif value.target is not None:
        arrow, direction = f"→ {value.target:g}", f"closer to {value.target:g} is better"
    family = "Skill" if row.is_skill else metric_family(row.name).capitalize()
    return MetricHeading(row.name, value.k, family, arrow, direction)


def _cells_by_metric(
    context: ReportContext, rows: Sequence[MetricRow]
) -> dict[str, list[ValueCell]]:
    grid: Mapping[str, Mapping[str, MeanCell]] = {}
    if context.comparison is not None:
        grids = {test: context.comparison.grid(test) for test in set(context.tests.values())}
        grid = {metric: grids[test][metric] for metric, test in context.tests.items()}
    return {row.name: _cells(context.models, row, grid.get(row.name, {})) for row in rows}


def _cells(
    models: Sequence[str], row: MetricRow, compared: Mapping[str, MeanCell]
) -> list[ValueCell]:
    """Return a cell per model; `compared` has the marks of the models that were compared."""
    digits = common_places(value.value for value in row.values if value is not None)
    cells = []
    for model, value in zip(models, row.values):
        if value is None or math.isnan(value.value):
            cells.append(ValueCell("–" if value is None else "undefined", "", False, "", ""))
            continue
        low, high, kind = value.interval
        reached = f"({value.floor:.{digits}f} to {value.ceiling:.{digits}f})"
        margins = {
            "none": reached if row.is_skill else "",
            "normal": f"± {(high - low) / 2:.{digits}f}",
        }
        margin = margins.get(kind, f"[{low:.{digits}f}, {high:.{digits}f}]")
        ends = "" if kind == "none" else f" {low:.6g} {high:.6g}"
        data = f"{value.value:.6g}".replace("inf", "Infinity") + ends  # as JavaScript reads it
        mark = compared[model].mark if model in compared else ""
        text = f"{value.value:.{digits}f}"
        cells.append(ValueCell(text, margin, row.is_best(value), mark, data))
    return cells
