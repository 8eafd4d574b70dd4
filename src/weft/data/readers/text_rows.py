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
            line = line.rstrip(_LINE_END)
            yield TextRow(number, line.split(separator) if line else [])


def _split_csv(lines: Iterable[str], separator: str) -> Iterator[TextRow]:
    """Yield rows of fields that may be in quotes, in which a doubled quote stands for one."""
    fields: list[str] = []
    number, field, is_open, is_stray = 0, "", False, False
    for number, line in enumerate(lines, start=1):
        if not is_open and '"' not in line:
            line = line.rstrip(_LINE_END)
            yield TextRow(number, line.split(separator) if line else [])
            continue
        start, starts_field = 0, not is_open
        while True:
            if starts_field and line.startswith('"', start):
                is_open, start = True, start + 1
            is_stray |= not is_open and _is_stray(line, start, separator)
            end = line.find('"' if is_open else separator, start)
            if end < 0:
                break
            field += line[start:end]
            starts_field = not is_open
            if starts_field:
                fields, field = [*fields, field], ""
            elif line.startswith('""', end):
                field, end = f'{field}"', end + 1
            else:
                is_open = False
            start = end + 1
        field += line[start:] if is_open else line[start:].rstrip(_LINE_END)
        if not is_open:
            yield TextRow(number, [*fields, field], has_stray_quote=is_stray)
            fields, field, is_stray = [], "", False
    if is_open:
        yield TextRow(number, [*fields, field], has_open_quote=True)


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
