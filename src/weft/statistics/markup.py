"""Tables as text: Markdown with pipes, LaTeX for the package booktabs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is, in one cell of a pipe table."""
    return re.sub(r"([\\`*_\[\]<>|~&#])", r"\\\1", _one_line(text))


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


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is, in one cell of a table; a number's minus sign becomes a real
    one.
    """
    plain = _one_line(text)
    if re.fullmatch(r"-\d\S*", plain):
        return "$-$" + plain[1:]
    return "".join(_LATEX.get(sign, sign) for sign in plain)


def _one_line(text: str) -> str:
    return re.sub(
        r"\s+",
        " ",
        "".join(" " if unicodedata.category(sign).startswith("C") else sign for sign in text),
    ).strip()


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A pipe table; the first `words` columns hold words, the others numbers."""
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
    """A LaTeX table with remarks above it; the first `words` columns hold words, the others
    numbers.
    """
    body = [" & ".join(row) + r" \\" for row in rows]
    text = [
        *(f"% {_one_line(note)}" for note in notes),
        r"% \usepackage{booktabs}",
        rf"\begin{{tabular}}{{{'l' * words}{'r' * (len(head) - words)}}}",
        r"\toprule",
        " & ".join(head) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(text) + "\n"
