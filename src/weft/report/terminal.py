"""Tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from weft.report.tables import lines
from weft.result import MetricValue, Result
from weft.significance import Comparison
from weft.significance.comparison import row_name

LEGEND = "95 % confidence intervals over users; * best"
Justify = Literal["left", "right"]
_NAME = 24  # columns that a long name may be folded to
_FEW = 3  # models, whose pairs are all shown


@dataclass(frozen=True)
class _Row:
    """A metric at its cut-off, and the cell of each model; rows of one group stand together."""

    name: str
    group: str
    cells: list[Text]


def results_tables(results: Sequence[Result], width: int) -> list[Table]:
    """Metrics down and models across; or, if that is wider than `width`, models down and as many metrics across as fit, in turn.

    Value ± half of the 95 % interval, the best value of each metric marked with a star.
    """
    rows = []
    for line in lines(results):
        group = next(value.metric for value in line.values if value is not None)
        rows.append(_Row(line.name, group, [_cell(value, line.is_best(value)) for value in line.values]))
    return _tables([result.name for result in results], rows, width)


def _tables(models: Sequence[str], rows: Sequence[_Row], width: int, justify: Justify = "right") -> list[Table]:
    longest = max((len(row.name) for row in rows), default=0)
    across = sum(3 + max(8, *(row.cells[at].cell_len for row in rows)) for at in range(len(models))) if rows else 0
    if len(models) == 1 or across + 4 + min(longest, _NAME) <= width:
        return [_metrics_down(models, rows, justify)]
    room = width - min(max(map(cell_len, models)), _NAME) - 4
    tables: list[list[_Row]] = []
    left = 0
    for row in rows:
        needed = 3 + max(min(len(row.name), _NAME), _numbers(row))
        if needed > left:
            tables.append([])
            left = room
        tables[-1].append(row)
        left -= needed
    return [_models_down(models, part, justify) for part in tables]


def _metrics_down(models: Sequence[str], rows: Sequence[_Row], justify: Justify) -> Table:
    table = Table()
    table.add_column("metric", overflow="fold")
    for at, model in enumerate(models):
        numbers = max((row.cells[at].cell_len for row in rows), default=1)
        table.add_column(Text(model), justify=justify, overflow="fold", min_width=numbers)
    group = None
    for row in rows:
        if group is not None and row.group != group:
            table.add_section()
        group = row.group
        table.add_row(Text(row.name), *row.cells)
    return table


def _models_down(models: Sequence[str], rows: Sequence[_Row], justify: Justify) -> Table:
    table = Table()
    table.add_column("model", overflow="fold")
    for row in rows:
        numbers = _numbers(row)  # names are folded, numbers are not
        table.add_column(Text(row.name), justify=justify, overflow="fold", min_width=numbers, max_width=max(_NAME, numbers))
    for at, model in enumerate(models):
        table.add_row(Text(model), *(row.cells[at] for row in rows))
    return table


def _numbers(row: _Row) -> int:
    """How wide its cells are."""
    return max(cell.cell_len for cell in row.cells)


def counts_line(results: Sequence[Result]) -> str:
    """On how many users and items the models were evaluated."""

    def told(count: str, one: str, many: str) -> str:
        numbers = sorted({result.counts.get(count, 0) for result in results})
        among = f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"
        return f"{among} {one if numbers == [1] else many}"

    parts = [
        told("evaluated_users", "evaluated user", "evaluated users"),
        told("items", "item", "items"),
        told("relevant_items", "relevant interaction", "relevant interactions"),
    ]
    masks = {result.settings.get("mask_seen") for result in results}
    return ", ".join(parts) + ("; what users have seen is masked" if masks == {True} else "") + "."


def note_lines(results: Sequence[Result]) -> list[str]:
    """What to know about the numbers: first of all models, then of each."""
    shared = set.intersection(*(set(result.notes) for result in results))
    said = []
    if len({result.counts.get("items") for result in results}) > 1:
        said.append("the models have different catalogues, which moves what counts items: give one as --items")
    said += [f"all: {note}" if len(results) > 1 else note for note in results[0].notes if note in shared]
    return said + [f"{result.name}: {note}" for result in results for note in result.notes if note not in shared]


def comparison_tables(comparison: Comparison, width: int, *, pairs: bool | None = None) -> list[tuple[str, list[Table]]]:
    """What to say above some tables, and the tables.

    For each test, the models' means with their letters, if there are three models or more; then, for each pair of models, means,
    difference with its interval, adjusted p-value, effect size and the shares of users who win. `pairs`: whether these follow;
    None means if there are at most three models.
    """
    shown: list[tuple[str, list[Table]]] = []
    for test in comparison.tests:
        if len(comparison.results) > 2:
            said = "; ".join([comparison.caption(test), "* best", *comparison.remarks()])
            shown.append((said, _tables(list(comparison.results), _grid_rows(comparison, test), width, "left")))
        if pairs or (pairs is None and len(comparison.results) <= _FEW):
            for (a, b), rows in _by_pair(comparison, test).items():
                shown.append((f"{a} against {b}: {comparison.caption(test)}", [_pair_table(comparison, a, b, rows, width)]))
    return shown


def _grid_rows(comparison: Comparison, test: str) -> list[_Row]:
    grid = comparison.grid(test)
    every = [cell for line in grid.values() for cell in line.values()]
    numbers, letters = max(len(str(cell)) for cell in every), max(len(cell.mark) for cell in every)
    rows = []
    for metric, line in grid.items():
        cells = []
        for cell in line.values():
            text = Text(f"{cell!s:>{numbers}}" + ("*" if cell.best else " "), style="bold" if cell.best else "")
            cells.append(text.append(f" {cell.mark:<{letters}}" if letters else "", style="not bold"))
        rows.append(_Row(metric, metric.rpartition("@")[0] or metric, cells))
    return rows


def _by_pair(comparison: Comparison, test: str) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in comparison.rows:
        if row["test"] == test:
            groups.setdefault((row["model_a"], row["model_b"]), []).append(row)
    return groups


PAIRS_LEGEND = (
    "* significant, and the better model; ± 95 % interval; d: difference / deviation;\n"
    "wins: % of users with a higher value of the first model : of the second"
)


def _pair_table(comparison: Comparison, a: str, b: str, rows: Sequence[Mapping[str, Any]], width: int) -> Table:
    lines = []
    for row in rows:
        winner = comparison.winner(row)
        means = [
            Text(_short(row[mean]) + ("*" if winner == model else " "), style="bold" if winner == model else "")
            for model, mean in ((a, "mean_a"), (b, "mean_b"))
        ]
        margin = "" if math.isnan(row["ci_high"]) else f" ± {_short(row['ci_high'] - row['difference'])}"
        difference = _short(row["difference"], sign="+") + margin
        p = "-" if math.isnan(row["p_adjusted"]) else f"{row['p_adjusted']:.2g}" + ("*" if row["significant"] else " ")
        effect = "-" if math.isnan(row["effect_size"]) else f"{row['effect_size']:+.2f}"
        wins = "-" if math.isnan(row["wins"]) else f"{100 * row['wins']:.0f}:{100 * row['losses']:.0f}"
        lines.append([Text(row_name(row)), *means, *map(Text, (difference, p, effect, wins))])
    heads = ["metric", a, b, "difference", "p", "d", "wins"]
    named = (0, 0, 0, *map(len, heads[3:]))  # names may be folded, other heads not
    widths = [max(least, *(line[at].cell_len for line in lines)) for at, least in enumerate(named)]
    longest, widths[0] = widths[0], 7
    shown = next(many for many in (7, 6, 5) if many == 5 or sum(widths[:many]) + 3 * many + 1 <= width)
    for at in range(1, shown):
        for line in lines:  # rich would move what ends in a space
            line[at].pad_left(widths[at] - line[at].cell_len)
    free = width - sum(widths[:shown]) - 3 * shown - 1
    for at, wish in ((0, longest), (1, cell_len(a)), (2, cell_len(b))):  # long names may take what is left
        more = max(0, min(free, wish - widths[at]))
        widths[at], free = widths[at] + more, free - more
    table = Table()
    for head, needed in zip(heads[:shown], widths):
        table.add_column(Text(head), overflow="fold", width=max(needed, 1))
    for line in lines:
        table.add_row(*line[:shown])
    return table


def _short(number: float, sign: str = "") -> str:
    """Five figures, at most four of them behind the point."""
    if math.isnan(number):
        return "-"
    before = len(f"{abs(number):.0f}")
    return f"{number:{sign}.{max(0, 5 - before)}f}"


def _cell(value: MetricValue | None, best: bool) -> Text:
    if value is None:
        return Text("-", style="dim")
    return Text(_number(value) + ("*" if best else " "), style="bold" if best else "").append(_margin(value), style="not bold dim")


def _number(value: MetricValue) -> str:
    return f"{value.value:.4f}"


def _margin(value: MetricValue) -> str:
    low, high, kind = value.interval
    if kind in ("normal", "none"):
        return "" if kind == "none" else f" ± {(high - low) / 2:.4f}"
    return f" [{low:.4f}, {high:.4f}]"


def slice_tables(results: Sequence[Result], width: int) -> list[Table]:
    """For each model and slice a table: groups down, with their users, and as many metrics across as fit into `width`."""
    tables = []
    for result in results:
        names = [] if result.slices is None else result.slices["slice"].unique(maintain_order=True).to_list()
        tables += [_slice_table(result, name, width) for name in names]
    return tables


def _slice_table(result: Result, name: str, width: int) -> Table:
    groups: dict[str, dict[str, Text]] = {}
    users: dict[str, int] = {}
    for row in result.slice(name).iter_rows(named=True):
        value = MetricValue(row["metric"], row["k"], row["value"], row["std_error"], row["users"])
        groups.setdefault(row["group"], {})[value.name] = _cell(value, False)
        users[row["group"]] = max(users.get(row["group"], 0), row["users"] or 0)
    metrics = list(dict.fromkeys(metric for cells in groups.values() for metric in cells))
    table = Table(title=Text(f"{result.name} by {name}"), title_style="italic", title_justify="left")
    table.add_column("group", overflow="fold", max_width=_NAME)
    table.add_column("users", justify="right")
    left = width - min(max(5, *map(cell_len, groups)), _NAME) - 3 - max(5, *(len(f"{number:,}") for number in users.values())) - 4
    shown: list[str] = []
    for metric in metrics:
        numbers = max(cells[metric].cell_len for cells in groups.values())
        wide = max(numbers, min(len(metric), _NAME))
        if shown and wide + 3 > left:
            break
        shown.append(metric)
        left -= wide + 3
        table.add_column(Text(metric), justify="right", overflow="fold", min_width=numbers, max_width=max(numbers, _NAME))
    for group, cells in groups.items():
        table.add_row(Text(group), f"{users[group]:,}", *(cells[metric] for metric in shown))
    if len(shown) < len(metrics):
        table.caption = f"{len(shown)} of {len(metrics)} metrics; the result holds all of them"
    return table
