"""The table of two models: values, differences with intervals, p-values, effect sizes, users."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from weft.report.number_format import common_places, probability, whole_percent, with_places
from weft.report.terminal.bars import BarSymbols, draw_bar
from weft.report.terminal.console_text import empty_table, fold_name, pad_left
from weft.report.terminal.value_grid import (
    COLUMN_GAP,
    MAX_BAR,
    MIN_BAR,
    number_or_dash,
    star_text,
)
from weft.statistics import Comparison
from weft.statistics.comparison_text import name_interval, row_metric

_MIN_NAME, _LEAST_NAME, _WIDE_NAME = 6, 11, 24  # widths of the column of metrics
_NUM_VALUES = 2  # columns of values before those of the difference
_CORRECTIONS = {"holm": "(Holm)", "bonferroni": "(Bonf.)", "fdr": "(FDR)"}
_SYMMETRIC = (None, "swaps")  # forms of tests with symmetric intervals
_DIFFERENCE, _INTERVAL, _BAR = "difference", "interval", "bar"
_P_VALUE, _EFFECT_SIZE, _USERS = "p-value", "effect size", "higher/equal/lower"
Row = Mapping[str, Any]  # of `Comparison.rows`


@dataclass(frozen=True)
class _Column:
    """A column with its head, in lines, and its cells; `term` names it in the legend."""

    term: str
    head: str
    cells: Sequence[Text]

    @property
    def text_width(self) -> int:
        """The width of the widest cell."""
        return max(cell.cell_len for cell in self.cells)

    @property
    def width(self) -> int:
        """The width of the widest cell and line of the head."""
        return max(self.text_width, *(cell_len(line) for line in self.head.split("\n")))

    @property
    def is_blank(self) -> bool:
        """True if no cell has a number."""
        return all(cell.plain.strip() == "-" for cell in self.cells)


def pair_table(
    comparison: Comparison, rows: Sequence[Row], width: int, symbols: BarSymbols
) -> tuple[Table, list[str], list[str]]:
    """Return a table with a row per metric, fitted to `width`, its terms, and those left out.

    If there is no room for the interval in a column of its own, it follows the difference; if that
    does not fit either, the last columns are left out.
    """
    names = [row_metric(row) for row in rows]
    longest = max(_MIN_NAME, *map(cell_len, names))
    columns, hidden = _choose_columns(comparison, rows, width, longest, symbols)
    name = min(longest, max(_MIN_NAME, width - _total_width(columns)))
    free = width - name - _total_width(columns)
    bar = _fit_bar(rows, free)
    if bar:
        position = max(n for n, one in enumerate(columns) if one.term in (_DIFFERENCE, _INTERVAL))
        bars = [_difference_bar(row, bar, symbols) for row in rows]
        columns.insert(position + 1, _Column(_BAR, " " * (bar // 2) + "0", bars))
        free -= bar + COLUMN_GAP
    table = empty_table()
    table.add_column("metric", width=name)
    for column, model in zip(columns, (rows[0]["model_a"], rows[0]["model_b"])):
        more = max(0, min(free, cell_len(model) - column.width))
        free -= more
        table.add_column(fold_name(model, column.width + more), width=column.width + more)
    for column in columns[_NUM_VALUES:]:
        table.add_column(Text(column.head), width=column.width)
    for metric, *cells in zip(names, *(_aligned_cells(column) for column in columns)):
        table.add_row(fold_name(metric, name), *cells)
    return table, [column.term for column in columns], hidden


def _aligned_cells(column: _Column) -> list[Text]:
    return [pad_left(cell, column.text_width) for cell in column.cells]


def _total_width(columns: Sequence[_Column]) -> int:
    """Return the width of columns with the gaps before them."""
    return sum(column.width + COLUMN_GAP for column in columns)


def _choose_columns(
    comparison: Comparison, rows: Sequence[Row], width: int, longest: int, symbols: BarSymbols
) -> tuple[list[_Column], list[str]]:
    """Return the columns that fit next to names up to `longest`, and the terms of the others."""
    level = name_interval(comparison, rows).removeprefix("adjusted ")
    values = _value_columns(comparison, rows)
    further = [
        _Column(_P_VALUE, _p_value_head(comparison, rows), _p_value_cells(comparison, rows)),
        _Column(_EFFECT_SIZE, "effect\nsize", _effect_cells(rows)),
        _Column(_USERS, "users higher/\nequal/lower", _user_cells(rows)),
    ]
    further = [column for column in further if not column.is_blank]
    differences, intervals, margins = _difference_cells(rows, symbols)
    wide = [
        *values,
        _Column(_DIFFERENCE, "difference", differences),
        _Column(_INTERVAL, level, intervals),
        *further,
    ]
    if min(longest, _WIDE_NAME) + _total_width(wide) <= width:
        return wide, []
    heads = {_USERS: "higher/\nequal/\nlower"}
    shown = [
        *values,
        _Column(_DIFFERENCE, f"difference and\n{level}", margins),
        *(replace(column, head=heads.get(column.term, column.head)) for column in further),
    ]
    hidden: list[str] = []
    least_name = min(longest, _LEAST_NAME)
    while len(shown) > _NUM_VALUES + 1 and least_name + _total_width(shown) > width:
        hidden.insert(0, shown.pop().term)
    return shown, hidden


def _fit_bar(rows: Sequence[Row], free: int) -> int:
    """Return the width of the bars of differences, 0 if there is no room or no interval.

    It is odd, so that 0 is in the middle.
    """
    width = min(MAX_BAR, free - COLUMN_GAP)
    has_interval = any(not math.isnan(row["ci_low"]) for row in rows)
    return width - 1 + width % 2 if width >= MIN_BAR and has_interval else 0


def _difference_bar(row: Row, width: int, symbols: BarSymbols) -> Text:
    ends = (row["ci_low"], row["difference"], row["ci_high"])
    limit = max(map(abs, ends))
    if math.isnan(limit):
        return Text("", style="cyan")
    return Text(draw_bar(ends, (-limit, limit), width, symbols, zero=True), style="cyan")


# --------------------------------------------------------------------------------------------------


def _digits(row: Row) -> int:
    return common_places((row["mean_a"], row["mean_b"]))


def _value_columns(comparison: Comparison, rows: Sequence[Row]) -> list[_Column]:
    """Return the values of both models; a star marks one that is significantly better."""
    columns = []
    for model, mean in (("model_a", "mean_a"), ("model_b", "mean_b")):
        cells = [
            star_text(
                number_or_dash(row[mean], _digits(row)),
                is_best=comparison.winner(row) == row[model],
            )
            for row in rows
        ]
        columns.append(_Column(mean, "", cells))
    return columns


def _difference_cells(
    rows: Sequence[Row], symbols: BarSymbols
) -> tuple[list[Text], list[Text], list[Text]]:
    """Return differences, their intervals, and a shorter form with both."""
    differences, intervals, combined = [], [], []
    for row in rows:
        digits, low, high = _digits(row), row["ci_low"], row["ci_high"]
        sign = "+" if row["difference"] > 0 else ""
        text = sign + number_or_dash(row["difference"], digits)
        half = high - row["difference"]
        ends = f"[{with_places(low, digits)}, {with_places(high, digits)}]"
        is_symmetric = row["form"] in _SYMMETRIC
        margin = f"{symbols.margin} {with_places(half, digits)}" if is_symmetric else ends
        has_interval = not (math.isnan(half) or high == low)
        differences.append(Text(text))
        intervals.append(Text(ends if has_interval else "-"))
        combined.append(Text(f"{text} {margin}" if has_interval else text))
    return differences, intervals, combined


def _p_value_head(comparison: Comparison, rows: Sequence[Row]) -> str:
    """Return "p-value", below it the correction if there is one."""
    is_adjusted = comparison.correction != "none" and any(row["family_size"] > 1 for row in rows)
    return f"p-value\n{_CORRECTIONS[comparison.correction]}" if is_adjusted else "p-value"


def _p_value_cells(comparison: Comparison, rows: Sequence[Row]) -> list[Text]:
    cells = []
    for row in rows:
        text = "- "
        if not math.isnan(row["p_adjusted"]):
            text = probability(row["p_adjusted"], comparison.alpha)
            text = text.removeprefix("= ").replace("< ", "<")
            text += "*" if row["significant"] else " "
        cells.append(Text(text))
    return cells


def _effect_cells(rows: Sequence[Row]) -> list[Text]:
    sizes = (row["effect_size"] for row in rows)
    return [Text("-" if math.isnan(size) else f"{size:+.2f}") for size in sizes]


def _user_cells(rows: Sequence[Row]) -> list[Text]:
    """Return the percentages of users with a higher, equal and lower value of the first model."""
    cells = []
    for row in rows:
        shares = [row[name] for name in ("wins", "ties", "losses")]
        is_known = not any(map(math.isnan, shares))
        cells.append(
            Text("/".join(str(whole_percent(share)) for share in shares) + "%" if is_known else "-")
        )
    return cells


def pairs_legend(
    comparison: Comparison, shown: Collection[str], hidden: Collection[str], symbols: BarSymbols
) -> dict[str, str]:
    """Return the meanings of the terms of the tables of pairs, and the terms that are left out."""
    interval = name_interval(comparison, comparison.rows)
    has_half = any(row["form"] in _SYMMETRIC for row in comparison.rows) and _INTERVAL not in shown
    half = f" ({symbols.margin} half its width)" if has_half else ""
    meanings = {
        _DIFFERENCE: f"first model minus second model, with its {interval}{half}",
        _BAR: f"the difference with its interval; {symbols.zero} marks 0",
        _EFFECT_SIZE: (
            "mean of the differences per user divided by their standard deviation (Cohen's d)"
        ),
        _USERS: "share of users whose value is higher, equal or lower with the first model",
    }
    legend = {
        symbols.example if term == _BAR else term: meaning
        for term, meaning in meanings.items()
        if term in shown
    }
    legend["*"] = (
        f"significant (p-value at most {comparison.alpha:g}); next to a value: the significantly "
        "better model"
    )
    left_out = [term for term in (_P_VALUE, _EFFECT_SIZE, _USERS) if term in hidden]
    if left_out:
        legend["not shown"] = f"{', '.join(left_out)}; use a wider terminal or --format csv"
    return legend
