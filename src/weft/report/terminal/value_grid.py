"""Grids of values with their intervals as bars or margins, fitted to the width of a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from weft.evaluation.metric_value import MetricValue
from weft.report.number_format import with_places
from weft.report.terminal.bars import BarSymbols, Ends, draw_bar
from weft.report.terminal.console_text import empty_table, fold_name, pad_left

MIN_BAR, MAX_BAR = 7, 16  # width of a bar
COLUMN_GAP = 3  # width between two columns
_MAX_NAME = 24  # width to which a long name may be folded
_MANY_ROWS = 8  # with as many rows, families are separated by lines


@dataclass(frozen=True)
class GridCell:
    """A value as text with room for its star, its margin as text, and the ends of its interval.

    Without an interval both ends are the value; without a value they are None.
    """

    text: Text
    margin: str = ""
    ends: Ends | None = None

    @property
    def size(self) -> float:
        """The width of the interval."""
        return 0.0 if self.ends is None else self.ends[2] - self.ends[0]


@dataclass(frozen=True)
class GridRow:
    """A metric at its cut-off with a cell per model (or group); its bars share a scale."""

    name: str
    family: str
    cells: list[GridCell]

    @property
    def has_interval(self) -> bool:
        """True if some cell has an interval."""
        return any(cell.size > 0 for cell in self.cells)

    @property
    def widest(self) -> str:
        """The margin of the widest interval."""
        return max(self.cells, key=lambda cell: cell.size).margin

    @property
    def text_width(self) -> int:
        """The width of the longest value."""
        return max(cell.text.cell_len for cell in self.cells)

    def bar(self, cell: GridCell, width: int, symbols: BarSymbols) -> Text:
        """Return the bar of a cell, blank if no cell has an interval.

        A scale without an interval would make every difference look large.
        """
        if cell.ends is None or not self.has_interval:
            return Text(" " * width)
        known = [one.ends for one in self.cells if one.ends is not None]
        scale = min(low for low, _, _ in known), max(high for _, _, high in known)
        return Text(draw_bar(cell.ends, scale, width, symbols), style="cyan")


def star_text(text: str, *, is_best: bool) -> Text:
    """Return a number with a star in bold if it is the best, else with a space."""
    return Text(text + "*", style="bold") if is_best else Text(text + " ")


def number_or_dash(number: float, digits: int) -> str:
    """Return a number with this many digits after the point, "-" if it is undefined."""
    return "-" if math.isnan(number) else with_places(number, digits)


def value_cell(
    value: MetricValue | None, digits: int, symbols: BarSymbols, *, is_best: bool = False
) -> GridCell:
    """Return the cell of a value with this many digits after the point."""
    if value is None:
        return GridCell(Text("- ", style="dim"))
    if math.isnan(value.value):
        return GridCell(Text("undefined ", style="dim"))
    low, high, kind = value.interval
    text = star_text(with_places(value.value, digits), is_best=is_best)
    if kind == "none" or not all(map(math.isfinite, (low, value.value, high))):
        return GridCell(text, "", (value.value,) * 3 if math.isfinite(value.value) else None)
    ends = (min(low, value.value), value.value, max(high, value.value))
    margin = f"[{with_places(low, digits)}, {with_places(high, digits)}]"
    if kind == "normal":
        margin = f"{symbols.margin} {with_places((high - low) / 2, digits)}"
    return GridCell(text, margin, ends)


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ColumnWidths:
    """The widths of a table with a row per metric and a column per model; 0 means left out."""

    name: int
    values: list[int]
    margins: Sequence[int] | None
    bar: int
    models: list[int]
    widest: int


def metrics_as_rows(
    models: Sequence[str],
    rows: Sequence[GridRow],
    width: int,
    margins: Sequence[int] | None,
    symbols: BarSymbols,
) -> Table | None:
    """Return a table with a row per metric, or None if it is wider than `width`.

    Values have bars and margins of these widths (0: none). If `margins` is None, they have neither,
    and a last column has the widest margin of each metric.
    """
    widths = _fit_columns(models, rows, width, margins)
    if widths is None:
        return None
    table = empty_table()
    table.add_column("metric", width=widths.name)
    for model, column in zip(models, widths.models):
        table.add_column(fold_name(model, column), width=column)
    if widths.widest:
        table.add_column("widest\ninterval", width=widths.widest)

    def line(row: GridRow) -> list[Text]:
        cells = []
        for index, cell in enumerate(row.cells):
            text = pad_left(cell.text, widths.values[index])
            if margins is not None:
                margin = f" {cell.margin:<{margins[index]}}" if margins[index] else ""
                text.append(margin, style="dim").append(" ")
                text.append_text(row.bar(cell, widths.bar, symbols))
            cells.append(text)
        last = [Text(row.widest, style="dim")] if widths.widest else []
        return [fold_name(row.name, widths.name), *cells, *last]

    _add_lines(table, rows, line)
    return table


def _fit_columns(
    models: Sequence[str], rows: Sequence[GridRow], width: int, margins: Sequence[int] | None
) -> _ColumnWidths | None:
    """Return the widths of the columns, or None if they do not fit."""
    has_bars = margins is not None
    values = [
        max((row.cells[index].text.cell_len for row in rows), default=1)
        for index in range(len(models))
    ]
    numbers = list(map(sum, zip(values, map(_after_space, margins or [0] * len(models)))))
    widest = 0 if has_bars else _widest_column(rows)
    fixed = sum(numbers) + COLUMN_GAP * len(models) + (COLUMN_GAP + widest if widest else 0)
    longest = max([len("metric"), *(cell_len(row.name) for row in rows)])
    least = _after_space(MIN_BAR) * len(models) if has_bars else 0
    name = longest if longest + fixed + least <= width else min(longest, _MAX_NAME)
    free = width - name - fixed
    if free < least:
        return None
    bar = min(MAX_BAR, free // len(models) - 1) if has_bars else 0
    columns = [number + _after_space(bar) for number in numbers]
    heads = [max(column, min(cell_len(model), 10)) for column, model in zip(columns, models)]
    if sum(heads) - sum(columns) <= free - _after_space(bar) * len(models):  # else they are folded
        columns = heads
    return _ColumnWidths(name, values, margins, bar, columns, widest)


def _after_space(width: int) -> int:
    """Return the width of a part of a column with the space before it; 0 if it is left out."""
    return width + 1 if width else 0


def _widest_column(rows: Sequence[GridRow]) -> int:
    """Return the width of the column of widest margins, 0 if there are none."""
    widest = max((cell_len(row.widest) for row in rows), default=0)
    return max(len("interval"), widest) if widest else 0


def single_model_table(model: str, rows: Sequence[GridRow]) -> Table:
    """Return a table with a row per metric and the values of one model with their margins."""
    cells = [row.cells[0] for row in rows]
    values = max((cell.text.cell_len for cell in cells), default=0)
    margins = max((cell_len(cell.margin) for cell in cells), default=0)
    table = empty_table()
    table.add_column("metric", overflow="fold")
    table.add_column(Text(model), overflow="fold", min_width=values + margins + 1)

    def line(row: GridRow) -> list[Text]:
        cell = row.cells[0]
        margin = f" {cell.margin}" if cell.margin else ""
        return [Text(row.name), pad_left(cell.text, values).append(margin, style="dim")]

    _add_lines(table, rows, line)
    return table


def _add_lines(
    table: Table, rows: Sequence[GridRow], line: Callable[[GridRow], list[Text]]
) -> None:
    """Add a line per metric; families of many metrics are separated."""
    family = rows[0].family if len(rows) >= _MANY_ROWS else None
    for row in rows:
        if family not in (None, row.family):
            table.add_section()
            family = row.family
        table.add_row(*line(row))


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeadColumns:
    """The columns of words at the left of a table with a column per metric: heads and lines."""

    heads: Sequence[str]
    lines: Sequence[Sequence[str]]

    @property
    def widths(self) -> list[int]:
        """The widths of the columns."""
        return [
            min(_MAX_NAME, max(cell_len(head), *(cell_len(line[index]) for line in self.lines)))
            for index, head in enumerate(self.heads)
        ]

    def free_width(self, width: int) -> int:
        """Return the width that is left for columns of metrics and the gaps before them."""
        return width - sum(self.widths) - COLUMN_GAP * (len(self.heads) - 1)


@dataclass(frozen=True)
class MetricColumn:
    """A metric as a column: its width, and the width of the values in it."""

    row: GridRow
    width: int
    values: int

    def cell(self, index: int, symbols: BarSymbols | None) -> Text:
        """Return the value of a line, with a bar if there are symbols."""
        cell = self.row.cells[index]
        text = pad_left(cell.text, self.values)
        if symbols is None:
            return text
        bar_width = min(MAX_BAR, self.width - self.values - 1)
        return text.append(" ").append_text(self.row.bar(cell, bar_width, symbols))


def metrics_as_columns(
    lead: LeadColumns,
    rows: Sequence[GridRow],
    width: int,
    symbols: BarSymbols | None,
    *,
    has_margins: bool = False,
) -> list[Table]:
    """Return tables with as many metrics across as fit, with bars if there are symbols.

    `has_margins` adds a last line with the widest margin of each metric.
    """
    free = lead.free_width(width)
    bars = [0] if symbols is None else range(MAX_BAR, MIN_BAR - 1, -1)
    # The widest bars that need no further table.
    parts = min((split_columns(rows, free, bar, has_margins=has_margins) for bar in bars), key=len)
    tables = []
    for columns in parts:
        table = _table_of_columns(lead, columns, symbols)
        if has_margins and any(column.row.has_interval for column in columns):
            table.add_section()
            blanks = [""] * (len(lead.heads) - 1)
            widest = (Text(column.row.widest, style="dim") for column in columns)
            head = fold_name("widest interval", lead.widths[0])
            table.add_row(head, *blanks, *widest)
        tables.append(table)
    return tables


def _table_of_columns(
    lead: LeadColumns, columns: Sequence[MetricColumn], symbols: BarSymbols | None
) -> Table:
    table = empty_table()
    for head, size in zip(lead.heads, lead.widths):
        table.add_column(head, width=size)
    for column in columns:
        table.add_column(fold_name(column.row.name, column.width), width=column.width)
    for index, line in enumerate(lead.lines):
        words = map(fold_name, line, lead.widths)
        table.add_row(*words, *(column.cell(index, symbols) for column in columns))
    return table


def split_columns(
    rows: Sequence[GridRow], free: int, bar: int, *, has_margins: bool = False
) -> list[list[MetricColumn]]:
    """Return the metrics of each table, for bars of this width (0: none)."""
    parts: list[list[MetricColumn]] = []
    left = 0
    for row in rows:
        values = row.text_width
        width = max(values + _after_space(bar), min(cell_len(row.name), _MAX_NAME))
        if has_margins:
            width = max(width, *(cell_len(cell.margin) for cell in row.cells))
        if width + COLUMN_GAP > left:
            parts.append([])
            left = free
        parts[-1].append(MetricColumn(row, width, values))
        left -= width + COLUMN_GAP
    return parts
