"""Markdown text: tables and lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def join_lines(lines: Iterable[str]) -> str:
    """Return a text of lines that ends with one line break."""
    return "\n".join(lines).rstrip() + "\n"
