"""Tables and verdicts of a comparison for the terminal."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.errors import agree
from weft.report.context import ReportContext, metric_family
from weft.report.number_format import common_places
from weft.report.terminal.bars import UNICODE, BarSymbols
from weft.report.terminal.console_text import TrimmedTable
from weft.report.terminal.pair_table import Row, pair_table, pairs_legend
from weft.report.terminal.result_tables import plain_tables
from weft.report.terminal.value_grid import GridCell, GridRow, number_or_dash, star_text
from weft.report.text import Verdict, verdicts
from weft.statistics import Comparison

_MAX_MODELS_ALL_PAIRS = 3


@dataclass(frozen=True)
class ComparisonTables:
    """Titles with the tables below them, and the terms of the tables of pairs with meanings."""

    blocks: list[tuple[str, list[TrimmedTable]]]
    legend: dict[str, str]


def comparison_tables(
    comparison: Comparison, width: int, symbols: BarSymbols = UNICODE, *, pairs: bool | None = None
) -> ComparisonTables:
    """Return the tables of a comparison, fitted to `width`.

    For each test: its settings; the means of three models or more with their letters; a table for
    each pair of models. `pairs` adds the latter; by default they follow for at most three models.
    """
    blocks: list[tuple[str, list[TrimmedTable]]] = []
    shown: dict[str, None] = {}  # terms
    hidden: dict[str, None] = {}
    shows_pairs = len(comparison.results) <= _MAX_MODELS_ALL_PAIRS if pairs is None else pairs
    for test in comparison.tests:
        blocks.append((_describe_test(comparison, test), []))
        if len(comparison.results) > 2:
            title = "; ".join(["Values of all models: * best", *comparison.legend()])
            rows = _mean_rows(comparison, test)
            tables = plain_tables([*comparison.results], rows, width, symbols)
            blocks.append((title, [TrimmedTable(table) for table in tables]))
        for (a, b), of_pair in _rows_by_pair(comparison, test).items() if shows_pairs else ():
            table, terms, left_out = pair_table(comparison, of_pair, width, symbols)
            blocks.append((f"{a} - {b}", [TrimmedTable(table)]))
            shown |= dict.fromkeys(terms)
            hidden |= dict.fromkeys(left_out)
    legend = pairs_legend(comparison, shown, hidden, symbols) if shown else {}
    return ComparisonTables(blocks, legend)


def _describe_test(comparison: Comparison, test: str) -> str:
    """Return the test, the correction and the number of compared users as a sentence."""
    numbers = sorted({row["users"] for row in comparison.rows if row["test"] == test})
    lowest = "" if len(numbers) == 1 else f"{numbers[0]:,} to "
    caption = comparison.caption(test)
    users = lowest + agree(numbers[-1], "{n} user{s}")
    return f"{caption[:1].upper()}{caption[1:]}; {users}"


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
            text = star_text(number_or_dash(cell.mean, digits), is_best=cell.best)
            mark = f" {cell.mark:<{letters}}" if letters else ""
            cells.append(GridCell(text.append(mark, style="not bold")))
        rows.append(GridRow(metric, metric_family(metric), cells))
    return rows


def _rows_by_pair(comparison: Comparison, test: str) -> dict[tuple[str, str], list[Row]]:
    pairs: dict[tuple[str, str], list[Row]] = {}
    for row in comparison.rows:
        if row["test"] == test:
            pairs.setdefault((row["model_a"], row["model_b"]), []).append(row)
    return pairs
