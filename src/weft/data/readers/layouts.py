"""How a file is laid out: its format, separator and header, found from its name and its first
lines.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from weft.data.readers.paths import PartFile
from weft.data.readers.roles import KNOWN, fold
from weft.errors import InputError

FORMATS = ("csv", "tsv", "parquet", "jsonl", "json", "recbole", "trec")
SPACES = " "  # any number of spaces and tabs
# In the order in which they are tried. "::" is how MovieLens writes.
_SEPARATORS = ("\t", "::", ",", ";", "|", SPACES)
_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".inter": "recbole",
    ".tsv": "tsv",
    ".qrels": "trec",
    ".trec": "trec",
}
_NAMES = {SPACES: "spaces", "\t": "a tab"}
_SAMPLE = 200  # lines that are looked at
INTEGER = re.compile(r"0|-?[1-9][0-9]*")  # as one would write it: 007, +7 and 7.0 are text
TREC_RUN = ("query", "q0", "docno", "rank", "score", "tag")
TREC_QRELS = ("query", "iteration", "docno", "relevance")


@dataclass(frozen=True)
class FileLayout:
    """`format` is "text" (a line for each row), "jsonl", "json" or "parquet"; `names` are the
    columns, in order.

    `first` is how many lines come before the first row; `sample` are rows from the start. `kind`:
    "run" or "qrels" of TREC."""

    format: str
    names: tuple[str, ...]
    separator: str = ""
    header: bool = True
    first: int = 0
    sample: tuple[Any, ...] = ()
    kind: str = ""
    types: Mapping[str, Any] = field(default_factory=dict)  # of columns that have one


def recognise(
    part: PartFile,
    *,
    form: str | None,
    separator: str | None,
    header: bool | None,
    named: tuple[str, ...],
    only_ids: bool,
) -> FileLayout:
    """The layout of a part; what is given is not looked for. `named` are columns that the caller
    names.

    `only_ids`: it may hold an id per line and nothing else, so that spaces separate nothing.
    """
    head = part.head()
    found = form or _format(part, head)
    if found == "parquet":
        return _parquet(part)
    if head.startswith(b"PAR1"):
        raise InputError(f"{part.path} is a Parquet file, but format={form!r} was given.")
    text = _text(part, head)
    if found in ("jsonl", "json") or (
        form is None and text.lstrip().startswith("{") and separator is None
    ):
        return _json(part, text, form or (found if found == "jsonl" else None))
    return _delimited(part, text, found, separator, header, named, only_ids)


def _format(part: PartFile, head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return "parquet"
    for suffix in reversed([suffix.casefold() for suffix in part.path.suffixes]):
        if suffix in _SUFFIXES:
            return _SUFFIXES[suffix]
    return "csv"


def _text(part: PartFile, head: bytes) -> str:
    """The first lines, whole ones if there is more."""
    if len(head) == 1 << 16 and b"\n" in head:
        head = head[: head.rindex(b"\n") + 1]
    try:
        return head.decode("utf-8-sig")
    except UnicodeDecodeError:
        for _ in part.lines():  # says which line it is
            pass
        raise InputError(f"{part.path} is not text in UTF-8.") from None


def _parquet(part: PartFile) -> FileLayout:
    import polars as pl

    try:
        schema = pl.scan_parquet(part.plain).collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise broken_parquet(part, error) from None
    return FileLayout("parquet", tuple(schema.names()), types=dict(schema))


def broken_parquet(part: PartFile, error: Exception) -> InputError:
    """What to say of a Parquet file that cannot be read."""
    reason = str(error).partition("\n")[0]
    return InputError(
        f"{part.path} is not a whole Parquet file: it is truncated or damaged ({reason}). Write or "
        "fetch it again."
    )


# --------------------------------------------------------------------------------------------------


def _json(part: PartFile, text: str, form: str | None) -> FileLayout:
    if text.lstrip().startswith("["):
        raise InputError(
            f"{part.path} is one JSON array; write JSON Lines instead: one object per line."
        )
    lines = [line for line in islice(io.StringIO(text), _SAMPLE) if line.strip()]
    if not lines:
        raise InputError(f"{part.path} is empty.")
    if form != "jsonl":
        try:
            first = json.loads(lines[0])
            nested = (
                isinstance(first, dict)
                and len(first) > 0
                and all(isinstance(row, dict) for row in first.values())
            )
        except json.JSONDecodeError:
            nested = True  # an object over several lines
        if form == "json" or nested:
            return FileLayout("json", ("query", "document", "value"))
    rows = list(islice(_objects(part, iter(enumerate(lines, start=1))), _SAMPLE))
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    types = {name: {type(row[name]) for row in rows if row.get(name) is not None} for name in names}
    return FileLayout("jsonl", names, sample=tuple(rows), types=types)


def _objects(part: PartFile, lines: Iterator[tuple[int, str]]) -> Iterator[dict[str, Any]]:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(
                f"{part.path}, line {number}: {_short(line)} is not JSON ({error.msg}, at "
                f"character {error.pos})."
            ) from None
        if not isinstance(row, dict):
            raise InputError(
                f'{part.path}, line {number}: {_short(line)} is not an object; expected {{"user": ..., "item": ...}}.'
            )
        yield {**row}


def json_rows(part: PartFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a part with their lines."""
    for number, line in part.lines():
        for row in _objects(part, iter([(number, line)])):
            yield number, row


# --------------------------------------------------------------------------------------------------


def _delimited(
    part: PartFile,
    text: str,
    form: str,
    separator: str | None,
    header: bool | None,
    named: tuple[str, ...],
    only_ids: bool,
) -> FileLayout:
    before = len(text) - len(text.lstrip("\r\n"))
    first = text[:before].count("\n")  # empty lines at the start
    if not text.strip():
        raise InputError(f"{part.path} is empty.")
    trec = separator is None and header is not True and _trec(_split(text[before:], SPACES))
    if form == "trec" and not trec:
        raise InputError(
            f"{part.path} is not a TREC file: expected lines 'query Q0 document rank score tag' (a run) or 'query 0 document "
            f"relevance' (qrels), got {_short(text[before:].splitlines()[0])}."
        )
    if trec:
        fields: tuple[str, ...] = TREC_RUN if trec == "run" else TREC_QRELS
        return FileLayout(
            "text", fields, SPACES, False, first, tuple(_split(text[before:], SPACES)), trec
        )
    chosen = separator or (
        "\t" if form in ("tsv", "recbole") else _separator(text[before:], only_ids)
    )
    rows = _split(text[before:], chosen)
    if (
        (better := _separator(text[before:], only_ids)) != chosen
        and len(rows[0]) == 1
        and len(_split(text[before:], better)[0]) > 1
    ):
        if separator is not None:
            raise InputError(
                f"{part.path} has one column when it is split at {_name(chosen)}: {_short(rows[0][0])}. It looks as if it were "
                f"separated by {_name(better)}: separator={better!r}."
            )
        chosen, rows = better, _split(text[before:], better)
    has_header = _has_header(part, rows, named) if header is None else header
    names = (
        _unique(part, rows[0])
        if has_header
        else tuple(f"column {number}" for number in range(len(rows[0])))
    )
    sample = rows[1:] if has_header else rows
    first += has_header
    lines = text.splitlines()
    while first < len(lines) and not lines[first].strip():
        first += 1  # empty lines below the header
    return FileLayout("text", names, chosen, has_header, first, tuple(sample))


def _name(separator: str) -> str:
    return _NAMES.get(separator, repr(separator))


def _short(text: str) -> str:
    text = text.rstrip("\r\n")
    return repr(text if len(text) <= 60 else f"{text[:60]}...")


def split_lines(lines: Iterator[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each row, and the number of the line on which it ends; no fields for an empty
    line.
    """
    if is_plain(separator):
        reader = csv.reader(lines, delimiter=separator, strict=False)
        for row in reader:
            yield reader.line_num, row
        return
    for number, line in enumerate(lines, start=1):
        line = line.strip() if separator == SPACES else line.rstrip("\r\n")
        yield (
            number,
            [] if not line else line.split() if separator == SPACES else line.split(separator),
        )


def is_plain(separator: str) -> bool:
    """Whether rows are split at one character, with quotes, as in CSV."""
    return len(separator) == 1 and separator != SPACES


def _split(text: str, separator: str) -> list[list[str]]:
    rows = split_lines(iter(io.StringIO(text, newline="")), separator)
    return list(islice((row for _, row in rows if row), _SAMPLE)) or [[""]]


def _separator(text: str, only_ids: bool) -> str:
    """The separator that splits all rows into equally many fields; or else the first row into known
    names, or into most fields.
    """
    candidates = _SEPARATORS[:-1] if only_ids else _SEPARATORS
    rows = {separator: _split(text, separator) for separator in candidates}
    for separator, found in rows.items():
        if len(found[0]) > 1 and len({len(row) for row in found}) == 1:
            loose = separator == "\t" and any(
                field != field.strip() for row in found for field in row
            )
            return (
                SPACES
                if loose
                and [len(row) for row in rows.get(SPACES, ())] == [len(row) for row in found]
                else separator
            )
    names = {separator: len(KNOWN & set(map(fold, found[0]))) for separator, found in rows.items()}
    most = max(
        candidates,
        key=lambda separator: (
            names[separator] > 1,
            separator != SPACES and len(rows[separator][0]),
        ),
    )
    return most if len(rows[most][0]) > 1 and (most != SPACES or names[most] > 1) else ","


def _trec(rows: list[list[str]]) -> str:
    widths = {len(row) for row in rows}
    if widths == {6} and all(row[1].casefold() == "q0" and _is_number(row[4]) for row in rows):
        return "run"
    if widths == {4} and all(
        row[1] in ("0", "Q0", "q0") and re.fullmatch(r"-?[0-9]{1,3}", row[3]) for row in rows
    ):
        return "qrels"
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _has_header(part: PartFile, rows: list[list[str]], named: tuple[str, ...]) -> bool:
    """Whether the first row names the columns: by a name that is known, or as text over numbers.
    Else it is data, or an error.
    """
    first, others = rows[0], rows[1:]
    folded = {fold(name) for name in first}
    if folded & KNOWN or folded & {fold(name) for name in named}:
        return True
    if any(map(_is_number, first)) or len(first) == 1:
        return False
    for number, value in enumerate(first):
        column = [row[number] for row in others if len(row) > number]
        if column and all(map(_is_number, column)):
            return True  # names that are not known, over numbers
        if value in column:
            return False  # the same id again
    raise InputError(
        f"{part.path}: the first line, {first}, may be the names of columns or the first row. Say which: header=True with columns= "
        "for unknown names, such as columns={'user': 'visitor', 'item': 'sku'}; or header=False."
    )


def _unique(part: PartFile, names: list[str]) -> tuple[str, ...]:
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise InputError(f"{part.path} has the column {doubled[0]!r} twice; rename or drop one.")
    return tuple(names)
