"""Results and comparisons for the terminal: tables that fit its width, bars for intervals."""

from __future__ import annotations

from weft.report.terminal.bars import ASCII, UNICODE, BarSymbols, console_symbols
from weft.report.terminal.comparison_tables import comparison_tables, comparison_verdicts
from weft.report.terminal.console_text import paragraph, trimmed_table
from weft.report.terminal.printing import (
    comparison_text,
    print_comparison,
    print_comparison_notes,
    print_notes,
    print_tables,
)
from weft.report.terminal.result_tables import note_lines, results_tables, slice_tables
from weft.report.text import counts_line

__all__ = [
    "ASCII",
    "UNICODE",
    "BarSymbols",
    "comparison_tables",
    "comparison_text",
    "comparison_verdicts",
    "console_symbols",
    "counts_line",
    "note_lines",
    "paragraph",
    "print_comparison",
    "print_comparison_notes",
    "print_notes",
    "print_tables",
    "results_tables",
    "slice_tables",
    "trimmed_table",
]
