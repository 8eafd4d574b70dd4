"""Tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from weft.report.tables import Line, lines
from weft.result import MetricValue, Result
from weft.significance import Comparison

LEGEND = "95 % confidence intervals over users; * best"
_NAME = 24  # columns that a long name may be folded to


def results_tables(results: Sequence[Result], width: int) -> list[Table]:
    """Metrics down and models across; or, if that is wider than `width`, models down and as many metrics across as fit, in turn."""
    every = lines(results)
    longest = max((len(line.name) for line in every), default=0)
    across = sum(3 + max(8, *(_width(line.values[at]) for line in every)) for at in range(len(results)))
    if len(results) == 1 or across + 4 + min(longest, _NAME) <= width:
        return [results_table(results)]
    room = width - min(max(cell_len(result.name) for result in results), _NAME) - 4
    tables: list[list[Line]] = []
    left = 0
    for line in every:
        needed = 3 + max(min(len(line.name), _NAME), *map(_width, line.values))
        if needed > left:
            tables.append([])
            left = room
        tables[-1].append(line)
        left -= needed
    return [_turned(results, part) for part in tables]


def results_table(results: Sequence[Result]) -> Table:
    """Metrics down, models across: value ± half of the 95 % interval, the best value of each row marked with a star."""
    table = Table()
    table.add_column("metric", overflow="fold")
    for result in results:
        numbers = max((_width(value) for value in result.values), default=1)
        table.add_column(Text(result.name), justify="right", overflow="fold", min_width=numbers)
    group = None
    for line in lines(results):
        metric = next(value.metric for value in line.values if value is not None)
        if group is not None and metric != group:
            table.add_section()
        group = metric
        table.add_row(Text(line.name), *(_cell(value, line.is_best(value)) for value in line.values))
    return table


def _turned(results: Sequence[Result], part: Sequence[Line]) -> Table:
    table = Table()
    table.add_column("model", overflow="fold")
    for line in part:
        numbers = max(map(_width, line.values))  # names are folded, numbers are not
        table.add_column(Text(line.name), justify="right", overflow="fold", min_width=numbers, max_width=max(_NAME, numbers))
    for at, result in enumerate(results):
        table.add_row(Text(result.name), *(_cell(line.values[at], line.is_best(line.values[at])) for line in part))
    return table


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


def comparison_tables(comparison: Comparison) -> list[Table]:
    """One table per pair of models and test: means, difference with its interval, adjusted p-value, and who is better."""
    tables = []
    for (a, b, test), rows in _grouped(comparison).items():
        title = Text(f"{a} against {b}: {test}, p adjusted by {comparison.correction}, * significant at {comparison.alpha:g}")
        table = Table(title=title, title_style="italic", title_justify="left")
        table.add_column("metric", overflow="fold")
        for column in (Text(a), Text(b), "difference", "95 % interval", "p"):
            table.add_column(column, justify="right")
        table.add_column("better")
        for name, row in rows.items():
            p = "-" if math.isnan(row["p_adjusted"]) else f"{row['p_adjusted']:.2g}{'*' if row['significant'] else ' '}"
            interval = "-" if math.isnan(row["ci_low"]) else f"{row['ci_low']:+.4f} {row['ci_high']:+.4f}"
            means = (f"{row['mean_a']:.4f}", f"{row['mean_b']:.4f}", f"{row['difference']:+.4f}")
            table.add_row(Text(name), *means, interval, p, Text(_winner(comparison.results, name, row)))
        tables.append(table)
    return tables


def _grouped(comparison: Comparison) -> dict[tuple[str, str, str], dict[str, Mapping[str, Any]]]:
    groups: dict[tuple[str, str, str], dict[str, Mapping[str, Any]]] = {}
    for row in comparison.rows:
        name = row["metric"] if row["k"] is None else f"{row['metric']}@{row['k']}"
        groups.setdefault((row["model_a"], row["model_b"], row["test"]), {})[name] = row
    return groups


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


def _width(value: MetricValue | None) -> int:
    """How wide a cell is."""
    return 1 if value is None else len(_number(value)) + 1 + len(_margin(value))


def _winner(results: Mapping[str, Result], name: str, row: Mapping[str, Any]) -> str:
    entry = results[row["model_a"]].entry(name)
    of_a, of_b = (replace(entry, value=row[mean]).merit for mean in ("mean_a", "mean_b"))
    if not row["significant"] or of_a is None or of_b is None:
        return ""
    return str(row["model_a"] if of_a > of_b else row["model_b"])


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
