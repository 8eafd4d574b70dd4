"""Tables of results and of their slices for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.table import Table

from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result
from weft.report.context import metric_family
from weft.report.number_format import common_places, with_places
from weft.report.result_formats import MetricRow, metric_rows, skill_rows
from weft.report.terminal.bars import UNICODE, BarSymbols
from weft.report.terminal.console_text import TrimmedTable
from weft.report.terminal.value_grid import (
    MIN_BAR,
    GridRow,
    LeadColumns,
    metrics_as_columns,
    metrics_as_rows,
    single_model_table,
    split_columns,
    value_cell,
)
from weft.report.text import list_notes

_IN_NUMBERS = "in numbers: a wider terminal, --format csv"
_MAX_BAR_TABLES = 3  # as many tables with bars are better than one without


def note_lines(results: Sequence[Result]) -> list[str]:
    """Return the notes of the results: first those of all models, then of each."""
    return list_notes([(result.name, result) for result in results])


def results_tables(
    results: Sequence[Result], width: int, symbols: BarSymbols = UNICODE
) -> tuple[str, list[TrimmedTable]]:
    """Return a legend and the tables of the values, fitted to `width`.

    Rows are metrics and columns are models, each value with its margin and a bar for its interval,
    or only with a bar. Many models become rows, in several tables if needed. If there is no room
    for intervals, the widest one of each metric is shown. The best value of each metric has a star.
    """
    metrics = metric_rows(results)
    rows = [_to_grid_row(row, symbols) for row in (*metrics, *skill_rows(metrics))]
    models = [result.name for result in results]
    has_intervals = any(row.has_interval for row in rows)
    if len(models) == 1:
        legend = "95 % intervals over users" if has_intervals else ""
        return legend, [TrimmedTable(single_model_table(models[0], rows))]
    layout = _layout_with_bars(models, rows, width, symbols) if has_intervals else None
    if layout is None:
        explanation = (
            "; widest: the widest of the 95 % intervals over users; all of them: --format csv, "
            "--out DIR"
        )
        legend = "* best" + (explanation if has_intervals else "")
        layout = legend, plain_tables(models, rows, width, symbols)
    return layout[0], [TrimmedTable(table) for table in layout[1]]


def plain_tables(
    models: Sequence[str], rows: Sequence[GridRow], width: int, symbols: BarSymbols
) -> list[Table]:
    """Return tables without bars; models are rows if they do not fit as columns."""
    table = metrics_as_rows(models, rows, width, None, symbols)
    if table is not None:
        return [table]
    lead = LeadColumns(["model"], [[model] for model in models])
    return metrics_as_columns(lead, rows, width, None, has_margins=True)


def _layout_with_bars(
    models: Sequence[str], rows: Sequence[GridRow], width: int, symbols: BarSymbols
) -> tuple[str, list[Table]] | None:
    """Return the legend and the tables with bars, or None if they need too many tables."""
    margins = [
        max((cell_len(row.cells[index].margin) for row in rows), default=0)
        for index in range(len(models))
    ]
    intervals = "95 % intervals over users, on a scale for each"
    table = metrics_as_rows(models, rows, width, margins, symbols)
    if table is not None:
        in_numbers = "" if any(margins) else f"; {_IN_NUMBERS}"
        shown = f"{symbols.margin} and {symbols.example}" if any(margins) else symbols.example
        return f"{shown}: {intervals} row; * best{in_numbers}", [table]
    table = metrics_as_rows(models, rows, width, [0] * len(models), symbols)
    if table is not None:
        return f"{symbols.example}: {intervals} row; * best; {_IN_NUMBERS}", [table]
    lead = LeadColumns(["model"], [[model] for model in models])
    tables = metrics_as_columns(lead, rows, width, symbols)
    fits_plain = metrics_as_rows(models, rows, width, None, symbols) is not None
    if len(tables) > _MAX_BAR_TABLES - fits_plain:
        return None
    return f"{symbols.example}: {intervals} metric; * best; {_IN_NUMBERS}", tables


def _to_grid_row(row: MetricRow, symbols: BarSymbols) -> GridRow:
    digits = common_places(value.value for value in row.values if value is not None)
    cells = [value_cell(value, digits, symbols, is_best=row.is_best(value)) for value in row.values]
    if row.is_skill and len(cells) == 1:
        low, high = (
            with_places(end, digits) for end in (row.any_value.floor, row.any_value.ceiling)
        )
        cells = [replace(cells[0], margin=f"floor {low}, ceiling {high}")]
    return GridRow(row.name, "skill" if row.is_skill else metric_family(row.name), cells)


# --------------------------------------------------------------------------------------------------


def slice_tables(
    results: Sequence[Result], width: int, symbols: BarSymbols = UNICODE
) -> list[tuple[str, TrimmedTable]]:
    """Return a title and a table for each model and slice.

    Rows are groups with their users; columns are as many metrics as fit.
    """
    tables = []
    for result in results:
        if result.slices is not None:
            names = result.slices["slice"].unique(maintain_order=True).to_list()
            tables += [_slice_table(result, name, width, symbols) for name in names]
    return tables


def _slice_table(
    result: Result, name: str, width: int, symbols: BarSymbols
) -> tuple[str, TrimmedTable]:
    groups: dict[str, dict[str, MetricValue]] = {}
    users: dict[str, int] = {}
    for row in result.slice(name).iter_rows(named=True):
        value = MetricValue(row["metric"], row["k"], row["value"], row["std_error"], row["users"])
        groups.setdefault(row["group"], {})[value.name] = value
        users[row["group"]] = max(users.get(row["group"], 0), row["users"] or 0)
    metrics = dict.fromkeys(metric for values in groups.values() for metric in values)
    by_metric = (
        MetricRow(metric, tuple(values.get(metric) for values in groups.values()))
        for metric in metrics
    )
    rows = [_to_grid_row(row, symbols) for row in by_metric]
    size = max(len(f"{number:,}") for number in users.values())
    lines = [[group, f"{users[group]:>{size},}"] for group in groups]
    lead = LeadColumns(["group", "users"], lines)
    num_shown = len(split_columns(rows, lead.free_width(width), MIN_BAR)[0])
    (table,) = metrics_as_columns(lead, rows[:num_shown], width, symbols)
    title = f"{result.name} by {name}"
    if num_shown < len(rows):
        title += f" ({num_shown} of {len(rows)} metrics; all of them: --format json, --out DIR)"
    return title, TrimmedTable(table)
