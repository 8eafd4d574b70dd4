"""Tables of results and of their slices for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.table import Table

from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result
from weft.report.context import metric_family
from weft.report.number_format import common_places, with_places
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
from weft.statistics.metric_rows import MetricRow, metric_rows, skill_rows

_MAX_SLICE_ROWS = 24  # of a table with the groups of a slice
_MAX_BAR_TABLES = 3  # as many tables with bars are better than one without


def note_lines(results: Sequence[Result]) -> list[str]:
    """Return the notes of the results: first those of all models, then of each."""
    return list_notes([(result.name, result) for result in results])


def results_tables(
    results: Sequence[Result],
    width: int,
    symbols: BarSymbols = UNICODE,
    *,
    numbers: str = "--format csv",
) -> tuple[str, list[TrimmedTable]]:
    """Return a legend and the tables of the values, fitted to `width`.

    `numbers` names what shows the intervals as numbers if the tables have no room for them.

    Rows are metrics and columns are models, each value with its margin and a bar for its interval,
    or only with a bar. Many models become rows, in several tables if needed. If there is no room
    for intervals, the widest one of each metric is shown. The best value of each metric has a star.
    """
    metrics = metric_rows(results)
    rows = [_to_grid_row(row, symbols) for row in (*metrics, *skill_rows(metrics))]
    models = [result.name for result in results]
    has_intervals = any(row.has_interval for row in rows)
    if len(models) == 1:
        legend = f"{_margin_signs(rows, symbols)} 95% interval over users" if has_intervals else ""
        return legend, [TrimmedTable(single_model_table(models[0], rows))]
    layout = _layout_with_bars(models, rows, width, symbols, numbers) if has_intervals else None
    if layout is None:
        explanation = (
            f"; widest interval: the widest 95% interval over users of all models. For all "
            f"intervals, use {numbers}."
        )
        legend = "* best value" + (explanation if has_intervals else "")
        layout = legend, plain_tables(models, rows, width, symbols)
    return layout[0], [TrimmedTable(table) for table in layout[1]]


def _margin_signs(rows: Sequence[GridRow], symbols: BarSymbols) -> str:
    """Return the signs by which the margins of rows are recognized: "±", "[ ]" or both."""
    margins = [cell.margin for row in rows for cell in row.cells]
    signs = {symbols.margin: symbols.margin, "[": "[ ]"}
    shown = [signs[sign] for sign in signs if any(one.startswith(sign) for one in margins)]
    return " and ".join(shown)


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
    models: Sequence[str], rows: Sequence[GridRow], width: int, symbols: BarSymbols, numbers: str
) -> tuple[str, list[Table]] | None:
    """Return the legend and the tables with bars, or None if they need too many tables."""
    margins = [
        max((cell_len(row.cells[index].margin) for row in rows), default=0)
        for index in range(len(models))
    ]
    legend = f"{symbols.example} 95% interval over users (scale per {{}}); * best value"
    pointer = f". For numbers, use a wider terminal or {numbers}."
    table = metrics_as_rows(models, rows, width, margins, symbols)
    if table is not None:
        return f"{_margin_signs(rows, symbols)} and {legend.format('row')}", [table]
    table = metrics_as_rows(models, rows, width, [0] * len(models), symbols)
    if table is not None:
        return legend.format("row") + pointer, [table]
    lead = LeadColumns(["model"], [[model] for model in models])
    tables = metrics_as_columns(lead, rows, width, symbols)
    fits_plain = metrics_as_rows(models, rows, width, None, symbols) is not None
    if len(tables) > _MAX_BAR_TABLES - fits_plain:
        return None
    return legend.format("metric") + pointer, tables


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
    """Return a title and a table for each slice, with models as columns.

    One model, or more models than fit, have a table each: rows are groups with their users, and
    columns are as many metrics as fit.
    """
    sliced = [result for result in results if result.slices is not None]
    names = dict.fromkeys(name for one in sliced for name in _slice_names(one))
    tables = []
    for name in names:
        own = [result for result in sliced if name in _slice_names(result)]
        shared = _models_table(own, name, width, symbols) if len(own) > 1 else None
        alone = [] if shared else [_slice_table(result, name, width, symbols) for result in own]
        tables += [shared] if shared else alone
    return tables


def _slice_names(result: Result) -> list[str]:
    assert result.slices is not None
    names: list[str] = result.slices["slice"].unique(maintain_order=True).to_list()
    return names


class _SliceValues:
    """The values of one slice of a result, by metric and group, and the users of each group.

    `compares_models`: values have a direction, so that the best of several models is known. Groups
    of one model are not compared: the best of them means little.
    """

    def __init__(self, result: Result, name: str, *, compares_models: bool) -> None:
        self.values: dict[tuple[str, str], MetricValue] = {}
        self.users: dict[str, int] = {}
        whole = {value.name: value for value in result.entries if compares_models}
        for row in result.slice(name).iter_rows(named=True):
            group, users = row["group"], row["users"]
            value = MetricValue(row["metric"], row["k"], row["value"], row["std_error"], users)
            if value.name in whole:
                known = whole[value.name]
                value = replace(value, higher_is_better=known.higher_is_better, target=known.target)
            self.values[value.name, group] = value
            self.users[group] = max(self.users.get(group, 0), users or 0)

    @property
    def metrics(self) -> list[str]:
        """The metrics at their cut-offs, in order."""
        return list(dict.fromkeys(metric for metric, _ in self.values))


def _models_table(
    results: Sequence[Result], name: str, width: int, symbols: BarSymbols
) -> tuple[str, TrimmedTable] | None:
    """Return a row for each metric and group, with models as columns; None if they do not fit."""
    slices = [_SliceValues(result, name, compares_models=True) for result in results]
    users: dict[str, int] = {}
    for one in slices:
        users |= {group: max(users.get(group, 0), size) for group, size in one.users.items()}
    metrics = list(dict.fromkeys(metric for one in slices for metric in one.metrics))
    shown = metrics[: max(1, _MAX_SLICE_ROWS // len(users))]
    rows = [*_group_rows(slices, shown, list(users), symbols)]
    models = [result.name for result in results]
    margins = [
        max(cell_len(row.cells[model].margin) for row in rows) for model in range(len(models))
    ]
    layouts = (margins, [0] * len(models), None)
    tables = (metrics_as_rows(models, rows, width, widths, symbols) for widths in layouts)
    table = next((one for one in tables if one is not None), None)
    if table is None:
        return None
    sizes = ", ".join(f"{group} = {size:,}" for group, size in users.items())
    return f"By {name} (users: {sizes}){_left_out(shown, metrics)}", TrimmedTable(table)


def _group_rows(
    slices: Sequence[_SliceValues],
    metrics: Sequence[str],
    groups: Sequence[str],
    symbols: BarSymbols,
) -> Iterator[GridRow]:
    """Yield a row with a cell per model for each metric and group that some model has."""
    for metric in metrics:
        for group in groups:
            values = MetricRow(metric, tuple(one.values.get((metric, group)) for one in slices))
            if any(value is not None for value in values.values):
                row = _to_grid_row(values, symbols)
                yield replace(row, name=f"{metric} {group}", family=metric)


def _left_out(shown: Sequence[str], metrics: Sequence[str]) -> str:
    """Return how many metrics a table shows, if it does not show all."""
    if len(shown) == len(metrics):
        return ""
    counts = f"{len(shown)} of {len(metrics)} metrics"
    return f" ({counts}; for all of them, use --format json or --out DIR)"


def _slice_table(
    result: Result, name: str, width: int, symbols: BarSymbols
) -> tuple[str, TrimmedTable]:
    slice_ = _SliceValues(result, name, compares_models=False)
    users, metrics = slice_.users, slice_.metrics
    by_metric = (
        MetricRow(metric, tuple(slice_.values.get((metric, group)) for group in users))
        for metric in metrics
    )
    rows = [_to_grid_row(row, symbols) for row in by_metric]
    size = max(len(f"{number:,}") for number in users.values())
    lines = [[group, f"{users[group]:>{size},}"] for group in users]
    lead = LeadColumns(["group", "users"], lines)
    num_shown = len(split_columns(rows, lead.free_width(width), MIN_BAR)[0])
    (table,) = metrics_as_columns(lead, rows[:num_shown], width, symbols)
    title = f"{result.name} by {name}{_left_out(metrics[:num_shown], metrics)}"
    return title, TrimmedTable(table)
