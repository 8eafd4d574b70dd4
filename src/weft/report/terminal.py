"""Tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.table import Table
from rich.text import Text

from weft.result import Z95, MetricValue, Result
from weft.significance import Comparison


def results_table(results: Sequence[Result]) -> Table:
    """Metrics down, models across: value ± half of the 95 % interval, the best value of each row marked with a star."""
    table = Table(
        title="95 % confidence intervals over users; * best", title_style="italic", title_justify="left", caption_justify="left"
    )
    table.add_column("metric", overflow="fold")
    for result in results:
        table.add_column(Text(result.name), justify="right", no_wrap=True)
    names = list(dict.fromkeys(name for result in results for name in result))
    group = None
    for name in names:
        values = [result.entry(name) if name in result else None for result in results]
        metric = next(value.metric for value in values if value is not None)
        if group is not None and metric != group:
            table.add_section()
        group = metric
        best = _best([value for value in values if value is not None])
        table.add_row(
            Text(name), *(_cell(value, value is not None and best is not None and value.merit == best) for value in values)
        )
    return table


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


def _best(values: Sequence[MetricValue]) -> float | None:
    """The merit of the best of several values; None where there is nothing to choose."""
    merits = {value.merit for value in values if value.merit is not None and not math.isnan(value.value)}
    return max(merits) if len(merits) > 1 else None


def _cell(value: MetricValue | None, best: bool) -> Text:
    if value is None:
        return Text("-", style="dim")
    margin = "" if math.isnan(value.std_error) else f" ± {Z95 * value.std_error:.4f}"
    star = "*" if best else " "
    return Text(f"{value.value:.4f}{star}", style="bold" if best else "").append(margin, style="not bold dim")


def _winner(results: Mapping[str, Result], name: str, row: Mapping[str, Any]) -> str:
    entry = results[row["model_a"]].entry(name)
    of_a, of_b = (replace(entry, value=row[mean]).merit for mean in ("mean_a", "mean_b"))
    if not row["significant"] or of_a is None or of_b is None:
        return ""
    return str(row["model_a"] if of_a > of_b else row["model_b"])
