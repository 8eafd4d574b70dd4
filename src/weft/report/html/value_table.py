"""The table of the page: every value with its interval, who is best, and who differs significantly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.evaluation.metric_value import MetricValue
from weft.report.context import ReportContext, metric_family
from weft.report.number_format import common_places
from weft.report.result_formats import MetricRow
from weft.statistics.comparison import MeanCell

FEW = 5  # models that stand beside each other; more of them run down
_ACROSS = 6  # metrics beside each other, where models run down: as many as a sheet of paper holds


@dataclass(frozen=True)
class Metric:
    """What the table says of a metric: its name, cut-off and family, and in which direction a value
    is better.
    """

    name: str
    cutoff: int | None
    family: str
    arrow: str
    direction: str


@dataclass(frozen=True)
class ValueCell:
    """A value as it is shown; `data` has the value and the ends of its interval, for sorting and
    copying.
    """

    text: str
    margin: str
    is_best: bool
    mark: str
    data: str


@dataclass(frozen=True)
class Row:
    """A row; its head is a metric or the name of a model."""

    head: Any
    cells: Sequence[ValueCell]


@dataclass(frozen=True)
class ValueTable:
    """Metrics run down in groups, models across; or models down and metrics of one cut-off across."""

    number: int
    caption: str
    columns: Sequence[Any]  # what stands above them: names of models, or metrics
    groups: Sequence[tuple[str, Sequence[Row]]]
    metrics: Sequence[Metric]
    cutoff: int | None = None  # of all its columns

    @property
    def rows(self) -> list[Row]:
        """The rows of all groups."""
        return [row for _, rows in self.groups for row in rows]

    @property
    def style(self) -> str:
        """Room for the longest interval and the most letters, so that numbers stand below each
        other.
        """
        cells = [cell for row in self.rows for cell in row.cells]
        margin, mark = (
            max((len(text) for text in texts), default=0)
            for texts in zip(*((c.margin, c.mark) for c in cells))
        )
        return f"#table-{self.number} {{ --margin: {margin}; --mark: {mark}; }}\n"


def value_tables(context: ReportContext) -> list[ValueTable]:
    """Every value that is not about a label. If there are many models: a table for each family and
    cut-off, fit for paper.
    """
    lines = [line for line in context.metric_rows if not _some(line).cell]
    metrics = [_metric(line) for line in lines]
    grid = (
        context.comparison.grid(context.test)
        if context.comparison is not None and context.test is not None
        else {}
    )
    cells = {line.name: _cells(context.models, line, grid.get(line.name, {})) for line in lines}
    families = list(dict.fromkeys(metric.family for metric in metrics))
    if len(context.models) <= FEW:
        groups = [
            (family, [Row(one, cells[one.name]) for one in metrics if one.family == family])
            for family in families
        ]
        return (
            [ValueTable(0, "Values of all metrics", context.models, groups, metrics)]
            if groups
            else []
        )
    tables: list[ValueTable] = []
    for family in families:
        members = [metric for metric in metrics if metric.family == family]
        for cutoff in dict.fromkeys(metric.cutoff for metric in members):
            beside = [metric for metric in members if metric.cutoff == cutoff]
            caption = family if cutoff is None else f"{family} at {cutoff}"
            for start in range(0, len(beside), _ACROSS):
                some = beside[start : start + _ACROSS]
                rows = [
                    Row(model, [cells[metric.name][at] for metric in some])
                    for at, model in enumerate(context.models)
                ]
                part = (
                    f", {start // _ACROSS + 1} of {math.ceil(len(beside) / _ACROSS)}"
                    if len(beside) > _ACROSS
                    else ""
                )
                tables.append(
                    ValueTable(len(tables), caption + part, some, [("", rows)], some, cutoff)
                )
    return tables


def label_values(context: ReportContext) -> dict[str, list[Any]]:
    """The values about labels, such as `BiasDisparityBD@10[F, Drama]`, by column: the metric and
    each model.
    """
    lines = [line for line in context.metric_rows if _some(line).cell]
    values = [[None if value is None else value.value for value in line.values] for line in lines]
    return {"metric": [line.name for line in lines]} | {
        model: [row[at] for row in values] for at, model in enumerate(context.models)
    }


def legend(context: ReportContext, tables: Sequence[ValueTable]) -> list[str]:
    """What to know to read the tables."""
    cells = [cell for table in tables for row in table.rows for cell in row.cells]
    kinds = {
        value.interval.kind
        for result in context.results.values()
        for value in result.values
        if not value.cell
    }
    said = (
        ["★ best value of the metric, in its own direction (↑ higher, ↓ lower, → closest)"]
        if any(c.is_best for c in cells)
        else []
    )
    if kinds & {"normal", "bootstrap", "BCa"}:
        shown = [
            *(["± half the width of the normal 95 % interval"] if "normal" in kinds else []),
            *(["[low, high] 95 % interval by bootstrap"] if kinds & {"bootstrap", "BCa"} else []),
        ]
        said.append(
            "; ".join(shown)
            + " over users"
            + ("; the line below shows where it lies" if len(context.models) > 1 else "")
        )
    if context.comparison is not None and context.test is not None:
        remarks = [remark[:1].upper() + remark[1:] for remark in context.comparison.legend()]
        said.append("; ".join([*remarks, context.comparison.caption(context.test)]))
    return said


def _some(line: MetricRow) -> MetricValue:
    """The value of any model."""
    return next(value for value in line.values if value is not None)


def _metric(line: MetricRow) -> Metric:
    value = _some(line)
    family = metric_family(line.name).capitalize()
    if value.higher_is_better is not None:
        higher = value.higher_is_better
        return Metric(
            line.name,
            value.k,
            family,
            "↑" if higher else "↓",
            "higher is better" if higher else "lower is better",
        )
    if value.target is not None:
        return Metric(
            line.name,
            value.k,
            family,
            f"→ {value.target:g}",
            f"closer to {value.target:g} is better",
        )
    return Metric(line.name, value.k, family, "", "")


def _cells(
    models: Sequence[str], line: MetricRow, compared: Mapping[str, MeanCell]
) -> list[ValueCell]:
    digits = common_places(value.value for value in line.values if value is not None)
    found = []
    for model, value in zip(models, line.values):
        if value is None or math.isnan(value.value):
            found.append(ValueCell("–" if value is None else "undefined", "", False, "", ""))
            continue
        low, high, kind = value.interval
        margin = {"none": "", "normal": f"± {(high - low) / 2:.{digits}f}"}.get(
            kind, f"[{low:.{digits}f}, {high:.{digits}f}]"
        )
        ends = "" if kind == "none" else f" {low:.6g} {high:.6g}"
        mark = compared[model].mark if model in compared else ""
        found.append(
            ValueCell(
                f"{value.value:.{digits}f}",
                margin,
                line.is_best(value),
                mark,
                f"{_number(value.value)}{ends}",
            )
        )
    return found


def _number(number: float) -> str:
    """As JavaScript reads it."""
    return f"{number:.6g}".replace("inf", "Infinity")
