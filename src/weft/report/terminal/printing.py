"""Printing of comparisons and notes on a console, for the command line and for `print`."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console

from weft.errors import escape_controls
from weft.report.terminal.bars import console_symbols
from weft.report.terminal.comparison_tables import comparison_tables, comparison_verdicts
from weft.report.terminal.console_text import paragraph
from weft.statistics import Comparison

_DEFAULT_WIDTH = 100  # without a terminal


def comparison_text(comparison: Comparison) -> str:
    """Return what `print_comparison` prints, as wide as the terminal."""
    width = shutil.get_terminal_size((_DEFAULT_WIDTH, 0)).columns
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, color_system=None, force_terminal=False, force_jupyter=False
    )
    print_comparison(console, comparison)
    return escape_controls(stream.getvalue().rstrip("\n"))


def print_comparison(
    console: Console, comparison: Comparison, *, pairs: bool | None = None
) -> None:
    """Print verdicts, tables, settings and notes. `pairs` is that of `comparison_tables`."""
    for verdict in comparison_verdicts(comparison):
        sentence = paragraph(verdict.sentence, console.width)
        sentence.stylize("bold", 0, len(verdict.metric))
        console.print(sentence)
        console.print()
    tables = comparison_tables(comparison, console.width, console_symbols(console), pairs=pairs)
    for number, (title, below) in enumerate(tables.blocks):
        if number:
            console.print()
        console.print(paragraph(title, console.width, "bold" if below else "italic"))
        print_tables(console, below)
    if tables.legend:
        console.print()
    longest = max(map(len, tables.legend), default=0)
    for term, meaning in tables.legend.items():
        first = f"{term:<{longest}}  "
        console.print(paragraph(meaning, console.width, "dim", first=first))
    print_comparison_notes(console, comparison)


def print_comparison_notes(console: Console, comparison: Comparison) -> None:
    """Print what accompanies the tables of a comparison: Pareto fronts, lists and notes."""
    lines = (*comparison.describe_fronts(), *comparison.describe_lists())
    if lines:
        console.print()
    for line in lines:
        console.print(paragraph(line, console.width))
    print_notes(console, comparison.notes)


def print_notes(console: Console, notes: Sequence[str]) -> None:
    """Print notes as a list below an empty line."""
    if notes:
        console.print()
    for note in notes:
        console.print(paragraph(note, console.width, "dim", first="- "))


def print_tables(console: Console, tables: Iterable[Any]) -> None:
    """Print tables with an empty line between them."""
    for number, table in enumerate(tables):
        if number:
            console.print()
        console.print(table)
