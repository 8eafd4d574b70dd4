"""Tables for the terminal: as wide as it is, with small bars for intervals."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result
from weft.report.context import ReportContext, metric_family
from weft.report.number_format import common_places, probability, with_places
from weft.report.result_formats import MetricRow, metric_rows
from weft.report.text import Verdict, counts_line, list_notes, verdicts
from weft.statistics import Comparison
from weft.statistics.comparison_text import row_metric

__all__ = [
    "BarSymbols",
    "comparison_tables",
    "comparison_verdicts",
    "console_symbols",
    "counts_line",
    "note_lines",
    "paragraph",
    "results_tables",
    "slice_tables",
    "trimmed_table",
]

_NAME = 24  # columns that a long name may be folded to
_LEAST, _MOST = 7, 16  # columns of a bar
_BETWEEN = 3  # columns between two cells
_FEW = 3  # models, whose pairs are all shown
_IN_NUMBERS = "in numbers: a wider terminal, --format csv"
_MANY_ROWS = 8  # are parted by family
_FEW_TABLES = 3  # so many with bars are better than one without


class BarSymbols(NamedTuple):
    """What bars and margins are made of."""

    left: str = "├"
    line: str = "─"
    right: str = "┤"
    point: str = "●"
    zero: str = "┊"
    margin: str = "±"


UNICODE = BarSymbols()
ASCII = BarSymbols("[", "-", "]", "o", ":", "+-")


def console_symbols(console: Console) -> BarSymbols:
    """The signs that a console can show."""
    return ASCII if console.options.ascii_only or console.legacy_windows else UNICODE


def paragraph(text: str, width: int, style: str = "", *, first: str = "") -> Text:
    """A text in lines that end where they end: no spaces behind them, and no number apart from its
    %. All stand behind `first`.
    """
    kept = re.sub(r"(\d) %", "\\1\u00a0%", text)
    filler = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    filler.initial_indent, filler.subsequent_indent = first, " " * len(first)
    return Text(filler.fill(kept).replace("\u00a0%", " %"), style=style)


def trimmed_table(*heads: str, numbers: int = 0) -> tuple[Table, _Trimmed]:
    """A table to be filled, of which the last columns hold numbers, and what to print of it."""
    table = _table()
    for at, head in enumerate(heads):
        is_number = at >= len(heads) - numbers
        table.add_column(
            head,
            justify="right" if is_number else "left",
            no_wrap=is_number or at == 0,
            overflow="fold",
        )
    return table, _Trimmed(table)


class _Trimmed:
    """A table without spaces at the ends of its lines, which would go into files and pipes."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self.table, options, pad=False):
            while line and not line[-1].text.strip():
                line.pop()
            if line:
                line[-1] = Segment(line[-1].text.rstrip(), line[-1].style)
            yield from line
            yield Segment.line()


@dataclass(frozen=True)
class _Cell:
    """A value as text with a place for its star, its margin as text, and the value between the ends
    of its interval.
    """

    text: Text
    margin: str = ""
    ends: tuple[float, float, float] | None = (
        None  # low, value, high; low and high are the value if there is no interval
    )

    @property
    def size(self) -> float:
        """How wide the interval is."""
        return 0.0 if self.ends is None else self.ends[2] - self.ends[0]


@dataclass(frozen=True)
class _Row:
    """A metric at its cut-off, with a cell for each model; bars have the same scale in all of them."""

    name: str
    family: str
    cells: list[_Cell]

    @property
    def has_interval(self) -> bool:
        return any(cell.size > 0 for cell in self.cells)

    @property
    def widest(self) -> str:
        """The margin of the widest interval."""
        return max(self.cells, key=lambda cell: cell.size).margin

    def bar(self, cell: _Cell, width: int, signs: BarSymbols) -> Text:
        """Nothing where no model has an interval: a scale without one makes every difference look
        large.
        """
        if cell.ends is None or not self.has_interval:
            return Text(" " * width)
        known = [one.ends for one in self.cells if one.ends is not None]
        scale = min(low for low, _, _ in known), max(high for _, _, high in known)
        return Text(_bar(cell.ends, scale, width, signs), style="cyan")


def _bar(
    ends: tuple[float, float, float],
    scale: tuple[float, float],
    width: int,
    signs: BarSymbols,
    *,
    zero: bool = False,
) -> str:
    """An interval with its value, on a scale; `zero` marks where that is.

    >>> _bar((2.0, 4.0, 8.0), (0.0, 10.0), 11, UNICODE)
    '  ├─●───┤  '
    """
    bottom, top = scale

    unit = 0.0 if top <= bottom else (width - 1) / (top - bottom)

    def place(number: float) -> int:
        return round(unit * (number - bottom)) if unit else (width - 1) // 2

    value = place(ends[1])  # both sides are rounded alike
    low, high = (
        max(0, value - round(unit * (ends[1] - ends[0]))),
        min(width - 1, value + round(unit * (ends[2] - ends[1]))),
    )
    drawn = [" "] * width
    drawn[low : high + 1] = signs.line * (high + 1 - low)
    if low < high:
        drawn[low], drawn[high] = signs.left, signs.right
    if zero:
        drawn[place(0.0)] = signs.zero
    drawn[value] = signs.point
    return "".join(drawn)


# --------------------------------------------------------------------------------------------------


def results_tables(
    results: Sequence[Result], width: int, signs: BarSymbols = UNICODE
) -> tuple[str, list[_Trimmed]]:
    """How to read the tables, and the tables.

    Metrics down and models across, each value with its margin and a bar for its interval, or with a
    bar alone, as `width` allows. Many models run down, with as many metrics across as fit, in turn.
    Where there is no room for all intervals, the widest one of each metric is told. The best value
    of each metric has a star."""
    rows = [_result_row(line, signs) for line in metric_rows(results)]
    models = [result.name for result in results]
    star = ["* best"] if len(models) > 1 else []
    shows = any(row.has_interval for row in rows)
    if len(models) == 1:
        legend = ["95 % intervals over users"] if shows else []
        return "; ".join(legend), [_Trimmed(_one_model(models[0], rows))]
    margins = [
        max((cell_len(row.cells[at].margin) for row in rows), default=0)
        for at in range(len(models))
    ]
    drawn = f"{signs.left}{signs.line}{signs.point}{signs.line}{signs.right}"
    for wanted in [margins, [0] * len(models)] if shows else []:
        table = _metrics_down(models, rows, width, wanted, signs)
        if table is not None:
            said = f"{signs.margin} and {drawn}" if any(wanted) else drawn
            legend = [
                f"{said}: 95 % intervals over users, on a scale for each row",
                *star,
                *([] if any(wanted) else [_IN_NUMBERS]),
            ]
            return "; ".join(legend), [_Trimmed(table)]
    with_bars = _models_down(models, rows, width, signs, bars=True) if shows else None
    plain = _metrics_down(models, rows, width, None, signs)
    if with_bars is not None and len(with_bars) <= (
        _FEW_TABLES - 1 if plain is not None else _FEW_TABLES
    ):
        legend = [
            f"{drawn}: 95 % intervals over users, on a scale for each metric",
            *star,
            _IN_NUMBERS,
        ]
        return "; ".join(legend), [_Trimmed(table) for table in with_bars]
    tables = [plain] if plain is not None else _models_down(models, rows, width, signs, bars=False)
    legend = (
        [
            "widest: the widest of the 95 % intervals over users; all of them: --format csv, --out "
            "DIR"
        ]
        if shows
        else []
    )
    return "; ".join([*star, *legend]), [_Trimmed(table) for table in tables]


def _result_row(line: MetricRow, signs: BarSymbols) -> _Row:
    values = [value for value in line.values if value is not None]
    digits = common_places(value.value for value in values)
    cells = [_cell(value, digits, signs, best=line.is_best(value)) for value in line.values]
    return _Row(line.name, metric_family(line.name), cells)


def _cell(
    value: MetricValue | None, digits: int, signs: BarSymbols, *, best: bool = False
) -> _Cell:
    if value is None:
        return _Cell(Text("- ", style="dim"))
    if math.isnan(value.value):
        return _Cell(Text("undefined ", style="dim"))
    low, high, kind = value.interval
    text = Text(
        with_places(value.value, digits) + ("*" if best else " "), style="bold" if best else ""
    )
    if kind == "none" or not all(map(math.isfinite, (low, value.value, high))):
        return _Cell(text, "", (value.value,) * 3 if math.isfinite(value.value) else None)
    ends = (min(low, value.value), value.value, max(high, value.value))
    if kind == "normal":
        return _Cell(text, f"{signs.margin} {with_places((high - low) / 2, digits)}", ends)
    return _Cell(text, f"[{with_places(low, digits)}, {with_places(high, digits)}]", ends)


def _table() -> Table:
    return Table(box=box.SQUARE, show_edge=False, pad_edge=False)


def _metrics_down(
    models: Sequence[str],
    rows: Sequence[_Row],
    width: int,
    margins: Sequence[int] | None,
    signs: BarSymbols,
) -> Table | None:
    """Metrics down and models across with bars, and margins of these widths; without margins, one
    of them for each metric.

    None if that is wider than `width`.
    """
    values = [
        max((row.cells[at].text.cell_len for row in rows), default=1) for at in range(len(models))
    ]
    numbers = [
        value + (margin + 1 if margin else 0)
        for value, margin in zip(values, margins or [0] * len(models))
    ]
    last = max((cell_len(row.widest) for row in rows), default=0) if margins is None else 0
    last = max(6, last) if last else 0
    fixed = sum(numbers) + _BETWEEN * len(models) + (_BETWEEN + last if last else 0)
    longest = max(6, *(cell_len(row.name) for row in rows)) if rows else 6
    least = 0 if margins is None else (_LEAST + 1) * len(models)
    name = longest if longest + fixed + least <= width else min(longest, _NAME)
    free = width - name - fixed
    if free < least:
        return None
    drawn = 0 if margins is None else min(_MOST, free // len(models) - 1)
    columns = [number + (drawn + 1 if drawn else 0) for number in numbers]
    wished = [max(column, min(cell_len(model), 10)) for column, model in zip(columns, models)]
    if sum(wished) - sum(columns) <= free - (drawn + 1 if drawn else 0) * len(
        models
    ):  # else heads give way to numbers
        columns = wished
    table = _table()
    table.add_column("metric", width=name)
    for model, column in zip(models, columns):
        table.add_column(_folded(model, column), width=column)
    if last:
        table.add_column("widest", width=last)
    family = rows[0].family if len(rows) >= _MANY_ROWS else None
    for row in rows:
        if family not in (None, row.family):
            table.add_section()
            family = row.family
        cells = []
        for at, cell in enumerate(row.cells):
            text = Text(" " * (values[at] - cell.text.cell_len)).append_text(cell.text)
            if margins is not None:
                text.append(f" {cell.margin:<{margins[at]}}" if margins[at] else "", style="dim")
                text.append(" ").append_text(row.bar(cell, drawn, signs))
            cells.append(text)
        table.add_row(
            _folded(row.name, name), *cells, *([Text(row.widest, style="dim")] if last else [])
        )
    return table


def _one_model(model: str, rows: Sequence[_Row]) -> Table:
    values, margins = (
        max((cell_len(text) for text in texts), default=0)
        for texts in (
            [row.cells[0].text.plain for row in rows],
            [row.cells[0].margin for row in rows],
        )
    )
    table = _table()
    table.add_column("metric", overflow="fold")
    table.add_column(Text(model), overflow="fold", min_width=values + margins + 1)
    family = rows[0].family if len(rows) >= _MANY_ROWS else None
    for row in rows:
        if family not in (None, row.family):
            table.add_section()
            family = row.family
        text = Text(" " * (values - row.cells[0].text.cell_len)).append_text(row.cells[0].text)
        table.add_row(
            Text(row.name),
            text.append(f" {row.cells[0].margin}" if row.cells[0].margin else "", style="dim"),
        )
    return table


def _models_down(
    models: Sequence[str], rows: Sequence[_Row], width: int, signs: BarSymbols, *, bars: bool
) -> list[Table]:
    """Models down, and as many metrics across as fit, in turn."""
    leads = [[model] for model in models]
    return _down(["model"], leads, rows, width, signs, bars=bars, ends_with_margin=not bars)


def _down(
    heads: Sequence[str],
    leads: Sequence[Sequence[str]],
    rows: Sequence[_Row],
    width: int,
    signs: BarSymbols,
    *,
    bars: bool,
    ends_with_margin: bool = False,
) -> list[Table]:
    """Tables with a line for each cell of the metrics, some columns of words before them, and in
    the end the widest margin.
    """
    first = _first(heads, leads)
    room = _room(width, first)
    parts = _parts(rows, room, 0, ends_with_margin)
    if bars:  # as wide as they can be without one more table
        tried = [_parts(rows, room, bar, ends_with_margin) for bar in range(_MOST, _LEAST - 1, -1)]
        parts = min(tried, key=len)
    tables = []
    for part in parts:
        table = _table()
        for head, column in zip(heads, first):
            table.add_column(head, width=column)
        for row, column, _ in part:
            table.add_column(_folded(row.name, column), width=column)
        for at, lead in enumerate(leads):
            cells = []
            for row, column, numbers in part:
                cell = row.cells[at]
                text = Text(" " * (numbers - cell.text.cell_len)).append_text(cell.text)
                cells.append(
                    text.append(" ").append_text(
                        row.bar(cell, min(_MOST, column - numbers - 1), signs)
                    )
                    if bars
                    else text
                )
            table.add_row(*(_folded(word, size) for word, size in zip(lead, first)), *cells)
        if ends_with_margin and any(row.has_interval for row, _, _ in part):
            table.add_section()
            table.add_row(
                "widest",
                *[""] * (len(heads) - 1),
                *(Text(row.widest, style="dim") for row, _, _ in part),
            )
        tables.append(table)
    return tables


def _first(heads: Sequence[str], leads: Sequence[Sequence[str]]) -> list[int]:
    """How wide the columns of words are."""
    return [
        min(_NAME, max(cell_len(head), *(cell_len(lead[at]) for lead in leads)))
        for at, head in enumerate(heads)
    ]


def _room(width: int, first: Sequence[int]) -> int:
    """What they leave for the columns of metrics, with what stands before each of these."""
    return width - sum(first) - _BETWEEN * (len(first) - 1)


def _parts(
    rows: Sequence[_Row], room: int, bar: int, has_margin: bool
) -> list[list[tuple[_Row, int, int]]]:
    """Which metrics stand together in a table of this width, each with the width of its column and
    of its numbers.
    """
    parts: list[list[tuple[_Row, int, int]]] = []
    left = 0
    for row in rows:
        numbers = max(cell.text.cell_len for cell in row.cells)
        column = max(numbers + (bar + 1 if bar else 0), min(cell_len(row.name), _NAME))
        column = (
            max(column, *(cell_len(cell.margin) for cell in row.cells)) if has_margin else column
        )
        if column + _BETWEEN > left:
            parts.append([])
            left = room
        parts[-1].append((row, column, numbers))
        left -= column + _BETWEEN
    return parts


def _folded(name: str, width: int) -> Text:
    """A name in lines of this width, broken where its parts end if it can be."""
    found, line = [], ""
    for part in (
        re.findall(r"[^\s_\-./=,(@]*[\s_\-./=,(]*|@.*", name) if cell_len(name) > width else [name]
    ):
        if line and cell_len(line + part.rstrip()) > width:
            found.append(line.rstrip())
            line = ""
        line += part
        while cell_len(line.rstrip()) > width:
            cut = next(
                at for at in range(len(line), 0, -1) if cell_len(line[:at]) <= width or at == 1
            )
            found.append(line[:cut])
            line = line[cut:]
    return Text("\n".join([*found, line] if line or not found else found))


def note_lines(results: Sequence[Result]) -> list[str]:
    """What to know about the numbers: first of all models, then of each."""
    return list_notes([(result.name, result) for result in results])


# --------------------------------------------------------------------------------------------------


def comparison_tables(
    comparison: Comparison, width: int, signs: BarSymbols = UNICODE, *, pairs: bool | None = None
) -> list[tuple[str, list[_Trimmed]]]:
    """What to say above some tables, and the tables.

    For each test, the models' means with their letters, if there are three models or more; then,
    for each pair of models, means, difference with its interval, adjusted p-value, effect size and
    the shares of users who win. `pairs`: whether these follow; None means if there are at most
    three models."""
    shown: list[tuple[str, list[_Trimmed]]] = []
    for test in comparison.tests:
        if len(comparison.results) > 2:
            said = "; ".join([comparison.caption(test), "* best", *comparison.legend()])
            rows, models = _grid_rows(comparison, test), list(comparison.results)
            table = _metrics_down(models, rows, width, None, signs)
            tables = (
                [table]
                if table is not None
                else _models_down(models, rows, width, signs, bars=False)
            )
            shown.append((said, [_Trimmed(table) for table in tables]))
        if pairs or (pairs is None and len(comparison.results) <= _FEW):
            for (a, b), of_pair in _by_pair(comparison, test).items():
                table, legend = _pair_table(comparison, a, b, of_pair, width, signs)
                shown.append(
                    (f"{a} against {b}: {comparison.caption(test)}{legend}", [_Trimmed(table)])
                )
    return shown


def comparison_verdicts(comparison: Comparison) -> list[Verdict]:
    """What was found of the first of the compared metrics, in words; of those that could not be
    compared a note tells.
    """
    results = {
        model: replace(
            result, values=tuple(value for value in result.values if value.name in comparison.means)
        )
        for model, result in comparison.results.items()
    }
    return verdicts(ReportContext(results, comparison))


def _grid_rows(comparison: Comparison, test: str) -> list[_Row]:
    grid = comparison.grid(test)
    letters = max(len(cell.mark) for line in grid.values() for cell in line.values())
    rows = []
    for metric, line in grid.items():
        digits = common_places(cell.mean for cell in line.values())
        cells = []
        for cell in line.values():
            number = "-" if math.isnan(cell.mean) else with_places(cell.mean, digits)
            text = Text(number + ("*" if cell.best else " "), style="bold" if cell.best else "")
            cells.append(
                _Cell(text.append(f" {cell.mark:<{letters}}" if letters else "", style="not bold"))
            )
        rows.append(_Row(metric, metric_family(metric), cells))
    return rows


def _by_pair(comparison: Comparison, test: str) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in comparison.rows:
        if row["test"] == test:
            groups.setdefault((row["model_a"], row["model_b"]), []).append(row)
    return groups


PAIRS_LEGEND = (
    "* significant, and the better model; difference with its 95 % interval; d: difference / "
    "deviation; "
    "wins: % of users with a higher value of the first : the second model"
)
_HEADS = ("difference", "p", "d", "wins")


def _pair_table(
    comparison: Comparison,
    a: str,
    b: str,
    rows: Sequence[Mapping[str, Any]],
    width: int,
    signs: BarSymbols,
) -> tuple[Table, str]:
    """The table of a pair, and what to say of columns that have no room."""
    cells = [_pair_cells(comparison, a, b, row, signs) for row in rows]
    names = max(6, *(cell_len(row_metric(row)) for row in rows))
    numbers = [max(line[at].cell_len for line in cells) for at in range(len(cells[0]))]
    least = [*numbers[:2], *(max(number, len(head)) for number, head in zip(numbers[2:], _HEADS))]
    shown = next(
        many
        for many in (6, 5, 4, 3)
        if many == 3 or min(names, 14) + sum(least[:many]) + _BETWEEN * many <= width
    )
    free = width - sum(least[:shown]) - _BETWEEN * shown
    name = min(names, max(6, free))
    free -= name
    bar = min(_MOST, free - _BETWEEN)
    bar = (
        bar - 1 + bar % 2
        if bar >= _LEAST and any(not math.isnan(row["ci_low"]) for row in rows)
        else 0
    )  # zero has the middle
    free -= bar + _BETWEEN if bar else 0
    widths = list(least)
    for at, model in ((0, a), (1, b)):  # names may take what is left
        more = max(0, min(free, cell_len(model) - widths[at]))
        widths[at], free = widths[at] + more, free - more
    table = _table()
    table.add_column("metric", width=name)
    for at, model in ((0, a), (1, b)):
        table.add_column(_folded(model, widths[at]), width=widths[at])
    for at, head in enumerate(_HEADS[: shown - 2], start=2):
        table.add_column(head, width=widths[at])
        if bar and head == "difference":
            table.add_column("".join((" " * (bar // 2), "0")), width=bar)
    for row, line in zip(rows, cells):
        texts = []
        for at, text in enumerate(line[:shown]):
            text.pad_left(numbers[at] - text.cell_len)
            texts.append(text)
        if bar:
            ends = (row["ci_low"], row["difference"], row["ci_high"])
            most = max(map(abs, ends))
            drawn = "" if math.isnan(most) else _bar(ends, (-most, most), bar, signs, zero=True)
            texts.insert(3, Text(drawn, style="cyan"))
        table.add_row(_folded(row_metric(row), name), *texts)
    hidden = [*_HEADS[shown - 2 :]]
    return table, f"; {' and '.join(hidden)}: --format csv, or a wider terminal" if hidden else ""


def _pair_cells(
    comparison: Comparison, a: str, b: str, row: Mapping[str, Any], signs: BarSymbols
) -> list[Text]:
    winner = comparison.winner(row)
    digits = common_places((row["mean_a"], row["mean_b"]))
    means = [
        Text(
            _or_dash(row[mean], digits) + ("*" if winner == model else " "),
            style="bold" if winner == model else "",
        )
        for model, mean in ((a, "mean_a"), (b, "mean_b"))
    ]
    half = row["ci_high"] - row["difference"]
    margin = "" if math.isnan(half) or half == 0 else f" {signs.margin} {with_places(half, digits)}"
    sign = "+" if row["difference"] > 0 else ""
    difference = _or_dash(row["difference"], digits)
    p = "- "
    if not math.isnan(row["p_adjusted"]):
        p = probability(row["p_adjusted"], comparison.alpha).removeprefix("= ").replace("< ", "<")
        p += "*" if row["significant"] else " "
    effect = "-" if math.isnan(row["effect_size"]) else f"{row['effect_size']:+.2f}"
    wins = "-" if math.isnan(row["wins"]) else f"{100 * row['wins']:.0f}:{100 * row['losses']:.0f}"
    return [*means, *map(Text, (sign + difference + margin, p, effect, wins))]


def _or_dash(number: float, digits: int) -> str:
    return "-" if math.isnan(number) else with_places(number, digits)


# --------------------------------------------------------------------------------------------------


def slice_tables(
    results: Sequence[Result], width: int, signs: BarSymbols = UNICODE
) -> list[tuple[str, _Trimmed]]:
    """For each model and slice what to say, and a table: groups down, with their users, and as many
    metrics as fit across.
    """
    tables = []
    for result in results:
        names = (
            []
            if result.slices is None
            else result.slices["slice"].unique(maintain_order=True).to_list()
        )
        tables += [_slice_table(result, name, width, signs) for name in names]
    return tables


def _slice_table(result: Result, name: str, width: int, signs: BarSymbols) -> tuple[str, _Trimmed]:
    groups: dict[str, dict[str, MetricValue]] = {}
    users: dict[str, int] = {}
    for row in result.slice(name).iter_rows(named=True):
        value = MetricValue(row["metric"], row["k"], row["value"], row["std_error"], row["users"])
        groups.setdefault(row["group"], {})[value.name] = value
        users[row["group"]] = max(users.get(row["group"], 0), row["users"] or 0)
    metrics = list(dict.fromkeys(metric for values in groups.values() for metric in values))
    rows = []
    for metric in metrics:
        values = [of_group.get(metric) for of_group in groups.values()]
        digits = common_places(value.value for value in values if value is not None)
        rows.append(
            _Row(metric, metric_family(metric), [_cell(value, digits, signs) for value in values])
        )
    size = max(len(f"{number:,}") for number in users.values())
    leads = [[group, f"{users[group]:>{size},}"] for group in groups]
    heads = ["group", "users"]
    shown = len(_parts(rows, _room(width, _first(heads, leads)), _LEAST, False)[0])
    (table,) = _down(heads, leads, rows[:shown], width, signs, bars=True)
    more = (
        ""
        if shown == len(rows)
        else f" ({shown} of {len(rows)} metrics; all of them: --format json, --out DIR)"
    )
    return f"{result.name} by {name}{more}", _Trimmed(table)
