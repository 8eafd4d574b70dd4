"""Tables and verdicts of a comparison for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from weft.report.context import ReportContext, metric_family
from weft.report.number_format import common_places, probability, with_places
from weft.report.terminal.bars import UNICODE, BarSymbols, draw_bar
from weft.report.terminal.console_text import TrimmedTable, empty_table, fold_name, pad_left
from weft.report.terminal.result_tables import plain_tables
from weft.report.terminal.value_grid import (
    COLUMN_GAP,
    MAX_BAR,
    MIN_BAR,
    GridCell,
    GridRow,
    star_text,
)
from weft.report.text import Verdict, verdicts
from weft.statistics import Comparison
from weft.statistics.comparison_text import name_interval, row_metric

_MAX_MODELS_ALL_PAIRS = 3
_MIN_NAME, _USUAL_NAME = 6, 14  # widths of the column of metrics
_HEADS = ("difference", "p", "d", "wins")  # of the columns after the two means
_DIFFERENCE = 2  # index of the column of differences
_Row = Mapping[str, Any]  # of `Comparison.rows`


def comparison_tables(
    comparison: Comparison, width: int, symbols: BarSymbols = UNICODE, *, pairs: bool | None = None
) -> list[tuple[str, list[TrimmedTable]]]:
    """Return captions and the tables below them.

    For each test: the means of three models or more with their letters; then for each pair of
    models means, difference with its interval, adjusted p-value, effect size and wins. `pairs` adds
    the latter; by default they follow for at most three models.
    """
    shown: list[tuple[str, list[TrimmedTable]]] = []
    shows_pairs = len(comparison.results) <= _MAX_MODELS_ALL_PAIRS if pairs is None else pairs
    for test in comparison.tests:
        if len(comparison.results) > 2:
            caption = "; ".join([comparison.caption(test), "* best", *comparison.legend()])
            rows = _mean_rows(comparison, test)
            tables = plain_tables([*comparison.results], rows, width, symbols)
            shown.append((caption, [TrimmedTable(table) for table in tables]))
        for (a, b), of_pair in _rows_by_pair(comparison, test).items() if shows_pairs else ():
            table, hidden = _pair_table(comparison, of_pair, width, symbols)
            caption = f"{a} against {b}: {comparison.caption(test)}{hidden}"
            shown.append((caption, [TrimmedTable(table)]))
    return shown


def pairs_legend(comparison: Comparison) -> str:
    """Return the meaning of the columns of the tables of pairs."""
    return (
        f"* significant, and the better model; difference with its "
        f"{name_interval(comparison, comparison.rows)}; d: difference / deviation; wins: % of "
        "users with a higher value of the first : the second model"
    )


def comparison_verdicts(comparison: Comparison) -> list[Verdict]:
    """Return the verdicts on the headlines of the compared metrics."""
    results = {
        model: replace(
            result,
            entries=tuple(value for value in result.entries if value.name in comparison.means),
        )
        for model, result in comparison.results.items()
    }
    return verdicts(ReportContext(results, comparison))


def _mean_rows(comparison: Comparison, test: str) -> list[GridRow]:
    """Return the means of all models with the letters of the test."""
    grid = comparison.grid(test)
    letters = max(len(cell.mark) for line in grid.values() for cell in line.values())
    rows = []
    for metric, line in grid.items():
        digits = common_places(cell.mean for cell in line.values())
        cells = []
        for cell in line.values():
            text = star_text(_number_or_dash(cell.mean, digits), is_best=cell.best)
            mark = f" {cell.mark:<{letters}}" if letters else ""
            cells.append(GridCell(text.append(mark, style="not bold")))
        rows.append(GridRow(metric, metric_family(metric), cells))
    return rows


def _rows_by_pair(comparison: Comparison, test: str) -> dict[tuple[str, str], list[_Row]]:
    pairs: dict[tuple[str, str], list[_Row]] = {}
    for row in comparison.rows:
        if row["test"] == test:
            pairs.setdefault((row["model_a"], row["model_b"]), []).append(row)
    return pairs


@dataclass(frozen=True)
class _PairWidths:
    """The widths of a pair's table: the metric, the columns that fit, and the bar (0: none)."""

    name: int
    columns: list[int]
    bar: int


def _pair_table(
    comparison: Comparison, rows: Sequence[_Row], width: int, symbols: BarSymbols
) -> tuple[Table, str]:
    """Return the table of a pair, and a hint about columns that do not fit."""
    cells = [_pair_cells(comparison, row, symbols) for row in rows]
    text_widths = [max(text.cell_len for text in column) for column in zip(*cells)]
    widths = _fit_pair_columns(rows, text_widths, width)
    num_shown = len(widths.columns)
    heads: list[tuple[Text | str, int]] = [("metric", widths.name)]
    models = (rows[0]["model_a"], rows[0]["model_b"])
    heads += [(fold_name(model, size), size) for model, size in zip(models, widths.columns)]
    heads += zip(_HEADS, widths.columns[2:])
    if widths.bar:
        heads.insert(_DIFFERENCE + 2, (" " * (widths.bar // 2) + "0", widths.bar))
    table = empty_table()
    for head, size in heads:
        table.add_column(head, width=size)
    for row, line in zip(rows, cells):
        texts = [pad_left(text, size) for text, size in zip(line[:num_shown], text_widths)]
        if widths.bar:
            texts.insert(_DIFFERENCE + 1, _difference_bar(row, widths.bar, symbols))
        table.add_row(fold_name(row_metric(row), widths.name), *texts)
    hidden = " and ".join(_HEADS[num_shown - 2 :])
    return table, f"; {hidden}: --format csv, or a wider terminal" if hidden else ""


def _fit_pair_columns(rows: Sequence[_Row], text_widths: list[int], width: int) -> _PairWidths:
    """Return the widths; the last columns are left out if there is no room for them."""
    longest = max(_MIN_NAME, *(cell_len(row_metric(row)) for row in rows))
    heads = ("", "", *_HEADS)
    columns = [max(size, len(head)) for size, head in zip(text_widths, heads)]
    least_name = min(longest, _USUAL_NAME)
    while (
        len(columns) > _DIFFERENCE + 1
        and least_name + sum(columns) + COLUMN_GAP * len(columns) > width
    ):
        columns.pop()
    free = width - sum(columns) - COLUMN_GAP * len(columns)
    name = min(longest, max(_MIN_NAME, free))
    free -= name
    bar = min(MAX_BAR, free - COLUMN_GAP)
    has_interval = any(not math.isnan(row["ci_low"]) for row in rows)
    bar = bar - 1 + bar % 2 if bar >= MIN_BAR and has_interval else 0  # odd: 0 is in the middle
    free -= bar + COLUMN_GAP if bar else 0
    for index, model in enumerate((rows[0]["model_a"], rows[0]["model_b"])):
        more = max(0, min(free, cell_len(model) - columns[index]))
        columns[index] += more
        free -= more
    return _PairWidths(name, columns, bar)


def _difference_bar(row: _Row, width: int, symbols: BarSymbols) -> Text:
    ends = (row["ci_low"], row["difference"], row["ci_high"])
    limit = max(map(abs, ends))
    if math.isnan(limit):
        return Text("", style="cyan")
    return Text(draw_bar(ends, (-limit, limit), width, symbols, zero=True), style="cyan")


def _pair_cells(comparison: Comparison, row: _Row, symbols: BarSymbols) -> list[Text]:
    """Return means, difference, p-value, effect size and wins of a pair on one metric."""
    winner = comparison.winner(row)
    digits = common_places((row["mean_a"], row["mean_b"]))
    means = [
        star_text(_number_or_dash(row[mean], digits), is_best=winner == row[model])
        for model, mean in (("model_a", "mean_a"), ("model_b", "mean_b"))
    ]
    sign = "+" if row["difference"] > 0 else ""
    difference = _number_or_dash(row["difference"], digits) + _margin(row, digits, symbols)
    p = "- "
    if not math.isnan(row["p_adjusted"]):
        p = probability(row["p_adjusted"], comparison.alpha).removeprefix("= ").replace("< ", "<")
        p += "*" if row["significant"] else " "
    effect = "-" if math.isnan(row["effect_size"]) else f"{row['effect_size']:+.2f}"
    wins = "-" if math.isnan(row["wins"]) else f"{100 * row['wins']:.0f}:{100 * row['losses']:.0f}"
    return [*means, *map(Text, (sign + difference, p, effect, wins))]


def _margin(row: _Row, digits: int, symbols: BarSymbols) -> str:
    """Return the half width of the interval of a difference, or its ends if it is not symmetric."""
    low, high = row["ci_low"], row["ci_high"]
    half = high - row["difference"]
    if math.isnan(half) or high == low:
        return ""
    if row["form"] in (None, "swaps"):
        return f" {symbols.margin} {with_places(half, digits)}"
    return f" [{with_places(low, digits)}, {with_places(high, digits)}]"


def _number_or_dash(number: float, digits: int) -> str:
    return "-" if math.isnan(number) else with_places(number, digits)
