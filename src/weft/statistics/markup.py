"""Text tables in a language: CSV, Markdown, LaTeX (for the package booktabs), HTML and typst."""

from __future__ import annotations

import html
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
# Lines of HTML tables, as booktabs has them.
_HEAD_LINES = "border-top:1.5pt solid;border-bottom:0.75pt solid;"
_BOTTOM_LINE = "border-bottom:1.5pt solid;"
_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "±": r"$\pm$",
    "−": "$-$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "→": r"$\rightarrow$",
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


def escape_html(text: str) -> str:
    """Escape text for one cell of an HTML table."""
    return html.escape(_to_one_line(text))


def escape_typst(text: str) -> str:
    """Escape text for one cell of a typst table: every sign that could mean something in it."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", _to_one_line(text))


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
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    words: int = 1,
    *,
    caption: str | None = None,
    label: str | None = None,
) -> str:
    """Return a `tabular` of escaped cells, with the notes as comments above it.

    All but the first `words` columns are numbers. With a caption (LaTeX) or a label it is inside of
    a `table`.
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
    if caption is not None or label is not None:
        lines = [
            r"\begin{table}[t]",
            r"\centering",
            *([] if caption is None else [rf"\caption{{{caption}}}"]),
            *([] if label is None else [rf"\label{{{label}}}"]),
            *lines,
            r"\end{table}",
        ]
    return "\n".join(lines) + "\n"


def html_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    words: int = 1,
    *,
    caption: str | None = None,
    label: str | None = None,
) -> str:
    """Return a `<table>` of escaped cells, with the notes in a paragraph below it.

    The lines of the table are styles of its cells, which word processors keep when it is pasted.
    """

    def line(cells: Sequence[str], tag: str, borders: str) -> str:
        return "".join(
            f'<{tag} style="text-align:{"left" if column < words else "right"};'
            f'padding:2pt 6pt;{borders}">{cell}</{tag}>'
            for column, cell in enumerate(cells)
        )

    last = len(rows) - 1
    body = [
        f"<tr>{line(row, 'td', _BOTTOM_LINE if number == last else '')}</tr>"
        for number, row in enumerate(rows)
    ]
    name = "" if label is None else f' id="{html.escape(label)}"'
    title = "" if caption is None else f"<caption>{caption}</caption>\n"
    below = f"<p>{'; '.join(map(escape_html, notes))}.</p>\n" if notes else ""
    return (
        f'<table{name} style="border-collapse:collapse">\n{title}'
        f"<thead>\n<tr>{line(head, 'th', _HEAD_LINES)}</tr>\n</thead>\n"
        f"<tbody>\n{chr(10).join(body)}\n</tbody>\n</table>\n{below}"
    )


def typst_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    words: int = 1,
    *,
    caption: str | None = None,
    label: str | None = None,
) -> str:
    """Return a `table` of escaped cells, with the notes as comments above it.

    With a caption (typst) or a label it is inside of a `figure`.
    """

    def line(cells: Sequence[str]) -> str:
        return ", ".join(f"[{cell}]" for cell in cells) + ","

    alignment = ["left"] * words + ["right"] * (len(head) - words)
    lines = [
        "table(",
        f"  columns: {len(head)},",
        f"  align: ({', '.join(alignment)},),",
        "  stroke: none,",
        "  table.hline(stroke: 0.8pt),",
        f"  table.header({line(head)}),",
        "  table.hline(stroke: 0.5pt),",
        *(f"  {line(row)}" for row in rows),
        "  table.hline(stroke: 0.8pt),",
        ")",
    ]
    if caption is not None or label is not None:
        title = [] if caption is None else [f"  caption: [{caption}],"]
        lines = ["figure(", *(f"  {one}" for one in lines[:-1]), "  ),", *title, ")"]
        lines[-1] += "" if label is None else f" <{label}>"
    lines[0] = f"#{lines[0]}"
    return "\n".join([*(f"// {_to_one_line(note)}" for note in notes), *lines]) + "\n"
