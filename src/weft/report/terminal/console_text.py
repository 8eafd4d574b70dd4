"""Paragraphs, folded names and tables for the terminal, without trailing spaces."""

from __future__ import annotations

import re
import textwrap

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

# The pieces of a name between which it may be broken: words with their separators, and the cut-off.
_NAME_PIECES = re.compile(r"[^\s_\-./=,(@]*[\s_\-./=,(]*|@.*")
# Spaces of these are no places to break a line.
_UNBREAKABLE = re.compile(r"\d %|\w+ [<=] (?=[\d.])")
_FIXED_SPACE = "\ue000"  # of the private use area


def paragraph(text: str, width: int, style: str = "", *, first: str = "") -> Text:
    """Return a text in lines of at most `width`, without trailing spaces.

    There is no break before a % and within `p < 0.001`. `first` precedes the first line; the others
    are indented by its length.
    """
    joined = _UNBREAKABLE.sub(lambda match: match[0].replace(" ", _FIXED_SPACE), text)
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    wrapper.initial_indent, wrapper.subsequent_indent = first, " " * len(first)
    return Text(wrapper.fill(joined).replace(_FIXED_SPACE, " "), style=style)


class TrimmedTable:
    """A table that is printed without trailing spaces, which would go into files and pipes."""

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


def empty_table() -> Table:
    """Return a table without columns, in the style of all tables."""
    return Table(box=box.SQUARE, show_edge=False, pad_edge=False)


def trimmed_table(*heads: str, numbers: int = 0) -> tuple[Table, TrimmedTable]:
    """Return a table to be filled, and what to print of it.

    The last columns, as many as `numbers`, are aligned to the right.
    """
    table = empty_table()
    for index, head in enumerate(heads):
        is_number = index >= len(heads) - numbers
        justify = "right" if is_number else "left"
        no_wrap = is_number or index == 0
        table.add_column(head, justify=justify, no_wrap=no_wrap, overflow="fold")  # type: ignore[arg-type]
    return table, TrimmedTable(table)


def pad_left(text: Text, width: int) -> Text:
    """Return a copy of a text, aligned to the right in a column of this width."""
    return Text(" " * (width - text.cell_len)).append_text(text)


def fold_name(name: str, width: int) -> Text:
    """Return a name in lines of this width, broken between its pieces where possible."""
    lines, line = [], ""
    for piece in _NAME_PIECES.findall(name) if cell_len(name) > width else [name]:
        if line and cell_len(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece
        while cell_len(line.rstrip()) > width:
            lengths = range(len(line), 0, -1)
            cut = next(n for n in lengths if cell_len(line[:n]) <= width or n == 1)
            lines.append(line[:cut])
            line = line[cut:]
    return Text("\n".join([*lines, line] if line or not lines else lines))
