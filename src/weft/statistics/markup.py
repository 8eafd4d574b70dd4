"""Text tables: CSV, Markdown pipe tables, and LaTeX tables for the package booktabs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.errors import check_bool

if TYPE_CHECKING:
    import polars as pl

# Text that a spreadsheet would evaluate, and text that is a number.
_FORMULA = r"^[=+\-@\t\r\n]"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "†": r"\textdagger{}",
    # After the end of a row, a bracket or a star would be read as its argument.
    **{sign: f"{{{sign}}}" for sign in "[]*"},
}


def csv_table(frame: pl.DataFrame, *, guard_formulas: bool = True) -> str:
    """Return the frame as CSV.

    With `guard_formulas`, text that begins with `=`, `+`, `-`, `@`, a tab or a line break gets a
    leading apostrophe, so that spreadsheets do not evaluate it. Numbers stay as they are.
    """
    import polars as pl

    if check_bool("guard_formulas", guard_formulas):
        text = pl.col(pl.String)
        is_formula = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
        frame = frame.with_columns(pl.when(is_formula).then("'" + text).otherwise(text).name.keep())
    return frame.write_csv()


def escape_markdown(text: str) -> str:
    """Escape text for one cell of a Markdown table."""
    return re.sub(r"([\\`*_\[\]<>|~&#])", r"\\\1", _to_one_line(text))


def escape_latex(text: str) -> str:
    """Escape text for one cell of a LaTeX table; the hyphen of a number becomes a minus sign."""
    plain = _to_one_line(text)
    if re.fullmatch(r"-\d\S*", plain):
        return "$-$" + plain[1:]
    return "".join(_LATEX.get(sign, sign) for sign in plain)


def _to_one_line(text: str) -> str:
    """Replace control characters and runs of white space by single spaces."""
    printable = (" " if unicodedata.category(sign).startswith("C") else sign for sign in text)
    return re.sub(r"\s+", " ", "".join(printable)).strip()


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """Return a pipe table of escaped cells; all but the first `words` columns are numbers."""
    widths = [max(3, *(len(row[column]) for row in (head, *rows))) for column in range(len(head))]
    rule = [
        "-" * width if column < words else "-" * (width - 1) + ":"
        for column, width in enumerate(widths)
    ]
    aligned = [
        [
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        for row in (head, rule, *rows)
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in aligned)


def latex_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = (), words: int = 1
) -> str:
    """Return a `tabular` of escaped cells, with the notes as comments above it.

    All but the first `words` columns are numbers.
    """
    lines = [
        *(f"% {_to_one_line(note)}" for note in notes),
        r"% \usepackage{booktabs}",
        rf"\begin{{tabular}}{{{'l' * words}{'r' * (len(head) - words)}}}",
        r"\toprule",
        " & ".join(head) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"
