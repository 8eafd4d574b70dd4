"""Rows of delimited text, split in Python: for the layout of a file and for errors in its rows.

The `csv` module is not used: it refuses fields of more than 128 KiB and carriage returns inside of
lines, and does not report a quote that is left open."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from weft.data.readers.file_settings import SPACES

SAMPLE_ROWS = 200  # read from the start of a file to detect its layout
_GAP = re.compile(r"[ \t]+")
_LINE_END = "\r\n"


class TextRow(NamedTuple):
    """The fields of a row, none for an empty line, and the line on which it ends, from 1."""

    end: int
    fields: list[str]
    has_open_quote: bool = False  # the text ends inside of quotes
    has_stray_quote: bool = False  # in a field without quotes, or before the end of one in quotes


def split_lines(lines: Iterable[str], separator: str) -> Iterator[TextRow]:
    """Yield the row of each line; a row of CSV goes on as long as a quote is open."""
    if is_csv_separator(separator):
        yield from _split_csv(lines, separator)
        return
    for number, line in enumerate(lines, start=1):
        if separator == SPACES:
            line = line.strip(" \t\r\n")
            yield TextRow(number, _GAP.split(line) if line else [])
        else:
            yield TextRow(number, _split_unquoted(line, separator))


def _split_unquoted(line: str, separator: str) -> list[str]:
    """Return the fields of a line without quotes; none if it is empty."""
    line = line.rstrip(_LINE_END)
    return line.split(separator) if line else []


def _split_csv(lines: Iterable[str], separator: str) -> Iterator[TextRow]:
    """Yield rows of fields that may be in quotes, in which a doubled quote means one."""
    number, row = 0, _QuotedRow(separator)
    for number, line in enumerate(lines, start=1):
        if not row.is_open and '"' not in line:
            yield TextRow(number, _split_unquoted(line, separator))
            continue
        row.add(line)
        if not row.is_open:
            yield TextRow(number, row.fields, has_stray_quote=row.has_stray_quote)
            row = _QuotedRow(separator)
    if row.is_open:
        yield TextRow(number, row.fields, has_open_quote=True)


class _QuotedRow:
    """A row of CSV with quotes, which goes on with the next line as long as one is open."""

    def __init__(self, separator: str) -> None:
        self.is_open = False
        self.has_stray_quote = False
        self._separator = separator
        self._fields: list[list[str]] = [[]]  # each in pieces

    @property
    def fields(self) -> list[str]:
        """The fields of all lines that were added."""
        return ["".join(pieces) for pieces in self._fields]

    def add(self, line: str) -> None:
        """Split the next line of the row."""
        start, starts_field = 0, not self.is_open
        while True:
            if starts_field and line.startswith('"', start):
                self.is_open, start = True, start + 1
            self.has_stray_quote |= not self.is_open and _is_stray(line, start, self._separator)
            end = line.find('"' if self.is_open else self._separator, start)
            if end < 0:
                break
            self._fields[-1].append(line[start:end])
            starts_field = not self.is_open
            if starts_field:
                self._fields.append([])
            elif line.startswith('""', end):
                self._fields[-1].append('"')
                end += 1
            else:
                self.is_open = False
            start = end + 1
        rest = line[start:]
        self._fields[-1].append(rest if self.is_open else rest.rstrip(_LINE_END))


def _is_stray(line: str, start: int, separator: str) -> bool:
    """True if the field without quotes at `start`, or what follows a closing quote, has one."""
    rest = line[start:].partition(separator)[0].rstrip(_LINE_END)
    return '"' in rest or (rest != "" and line[start - 1 : start] == '"')


def is_csv_separator(separator: str) -> bool:
    """True if rows are split at one character and fields may be quoted, as in CSV."""
    return len(separator) == 1 and separator != SPACES


def split_rows(text: str, separator: str) -> list[list[str]]:
    """Return the fields of the first rows that are not empty; at least one row."""
    rows = split_lines(io.StringIO(text, newline="\n"), separator)
    return list(islice((row.fields for row in rows if row.fields), SAMPLE_ROWS)) or [[""]]


def shorten(text: str) -> str:
    """Return text of a file for a message, in quotes and cut after 60 characters."""
    text = text.rstrip(_LINE_END)
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
