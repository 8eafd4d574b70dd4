"""Detection of a file's layout: its format, separator, header and columns."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from weft._choices import FileFormat, choices
from weft.data.readers.paths import HEAD_BYTES, PartFile
from weft.data.readers.roles import KNOWN, check_unique_columns, fold
from weft.errors import InputError, setting_ref

FORMATS = choices(FileFormat)
SPACES = " "  # any number of spaces and tabs
# Separators in the order in which they are tried. MovieLens uses "::".
_SEPARATORS = ("\t", "::", ",", ";", "|", SPACES)
_FORMAT_OF_SUFFIX = {
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
_SEPARATOR_NAMES = {SPACES: "spaces", "\t": "a tab"}
_SAMPLE_ROWS = 200
_TREC_COLUMNS = {
    "run": ("query", "q0", "docno", "rank", "score", "tag"),
    "qrels": ("query", "iteration", "docno", "relevance"),
}


@dataclass(frozen=True)
class FileLayout:
    """The layout of one part file.

    `format` is "text" (one line per row), "jsonl", "json" or "parquet". `num_skipped` lines come
    before the first row. `sample` holds rows from the start. `trec` is "run" or "qrels" for files
    of TREC. `types` maps columns to polars types (Parquet) or to sets of Python types (JSON Lines).
    """

    part: PartFile
    format: str
    names: tuple[str, ...]
    separator: str = ""
    has_header: bool = True
    num_skipped: int = 0
    sample: tuple[Any, ...] = ()
    trec: str = ""
    types: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LayoutOptions:
    """The layout as far as the caller declares it; None and () are to be detected.

    `columns` are names or positions. `is_id_list`: the file may hold one id per line, so that
    spaces separate nothing.
    """

    format: str | None = None
    separator: str | None = None
    header: bool | None = None
    columns: tuple[str | int, ...] = ()
    is_id_list: bool = False

    @property
    def is_complete(self) -> bool:
        """True if nothing is left to detect in a text file."""
        return self.separator is not None and self.header is not None and bool(self.columns)


def detect_layout(part: PartFile, options: LayoutOptions) -> FileLayout:
    """Return the layout of a part file; what `options` declares is not detected."""
    head = part.head()
    form = options.format or _detect_format(part, head)
    if form == "parquet":
        return _parquet_layout(part)
    if head.startswith(b"PAR1"):
        raise InputError(
            f"{part.path} is a Parquet file, but {setting_ref('format', options.format)} was given."
        )
    text = _decode_head(part, head)
    is_object = text.lstrip().startswith("{")
    if form in ("jsonl", "json") or (
        options.format is None and is_object and options.separator is None
    ):
        return _json_layout(part, text, options.format or (form if form == "jsonl" else None))
    return _text_layout(part, text, form, options)


def _detect_format(part: PartFile, head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return "parquet"
    suffixes = (suffix.casefold() for suffix in reversed(part.path.suffixes))
    return next((_FORMAT_OF_SUFFIX[name] for name in suffixes if name in _FORMAT_OF_SUFFIX), "csv")


def _decode_head(part: PartFile, head: bytes) -> str:
    """Return the head as text, without an incomplete last line."""
    if len(head) == HEAD_BYTES and b"\n" in head:
        head = head[: head.rindex(b"\n") + 1]
    try:
        return head.decode("utf-8-sig")
    except UnicodeDecodeError:
        part.check_encoding()
        raise InputError(f"{part.path} is not text in UTF-8.") from None


def _parquet_layout(part: PartFile) -> FileLayout:
    import polars as pl

    try:
        schema = pl.scan_parquet(part.plain).collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise broken_parquet(part, error) from None
    return FileLayout(part, "parquet", tuple(schema.names()), types=dict(schema))


def broken_parquet(part: PartFile, error: Exception) -> InputError:
    """Return the error for a Parquet file that polars cannot read."""
    reason = str(error).partition("\n")[0]
    return InputError(
        f"{part.path} is not a whole Parquet file: it is truncated or damaged ({reason}). Write or "
        "fetch it again."
    )


def _json_layout(part: PartFile, text: str, form: str | None) -> FileLayout:
    """Distinguish JSON Lines from one object `{query: {document: number}}`."""
    if text.lstrip().startswith("["):
        raise InputError(
            f"{part.path} is one JSON array; write JSON Lines instead: one object per line."
        )
    numbered = enumerate(islice(io.StringIO(text), _SAMPLE_ROWS), start=1)
    lines = [(number, line) for number, line in numbered if line.strip()]
    if not lines:
        raise InputError(f"{part.path} is empty.")
    if form == "json" or (form != "jsonl" and _is_nested_object(lines[0][1])):
        return FileLayout(part, "json", ("query", "document", "value"))
    rows = [parse_object(part, number, line) for number, line in lines]
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    types = {name: {type(row[name]) for row in rows if row.get(name) is not None} for name in names}
    return FileLayout(part, "jsonl", names, sample=tuple(rows), types=types)


def _is_nested_object(line: str) -> bool:
    """True if a line begins an object of objects, possibly over several lines."""
    try:
        first = json.loads(line)
    except json.JSONDecodeError:
        return True
    return (
        isinstance(first, dict)
        and len(first) > 0
        and all(isinstance(row, dict) for row in first.values())
    )


def parse_object(part: PartFile, number: int, line: str) -> dict[str, Any]:
    """Return the JSON object on a line; raise `InputError` with the line's number."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{part.path}, line {number}: {_shorten(line)} is not JSON ({error.msg}, at "
            f"character {error.pos})."
        ) from None
    if not isinstance(row, dict):
        raise InputError(
            f"{part.path}, line {number}: {_shorten(line)} is not an object; expected "
            '{"user": ..., "item": ...}.'
        )
    return row


def json_rows(part: PartFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for each line of JSON Lines that is not empty."""
    for number, line in part.lines():
        if line.strip():
            yield number, parse_object(part, number, line)


def _text_layout(part: PartFile, text: str, form: str, options: LayoutOptions) -> FileLayout:
    if not text.strip():
        raise InputError(f"{part.path} is empty.")
    body = text.lstrip("\r\n")
    num_skipped = text[: len(text) - len(body)].count("\n")
    if options.separator is None and options.header is not True:
        rows = split_rows(body, SPACES)
        if trec := _detect_trec(rows):
            return FileLayout(
                part,
                "text",
                _TREC_COLUMNS[trec],
                SPACES,
                has_header=False,
                num_skipped=num_skipped,
                sample=tuple(rows),
                trec=trec,
            )
    if form == "trec":
        raise InputError(
            f"{part.path} is not a TREC file: expected lines 'query Q0 document rank score tag' (a "
            "run) or 'query 0 document relevance' (qrels), got "
            f"{_shorten(body.splitlines()[0])}."
        )
    separator, rows = _choose_separator(part, body, form, options)
    has_header = options.header
    if has_header is None:
        has_header = _detect_header(part, rows, options.columns)
    names = tuple(f"column {number}" for number in range(len(rows[0])))
    if has_header:
        check_unique_columns(rows[0], part.path)
        names = tuple(rows[0])
    num_skipped += has_header
    lines = text.splitlines()
    while num_skipped < len(lines) and not lines[num_skipped].strip():
        num_skipped += 1  # empty lines below the header
    sample = tuple(rows[1:] if has_header else rows)
    return FileLayout(part, "text", names, separator, has_header, num_skipped, sample=sample)


def _choose_separator(
    part: PartFile, body: str, form: str, options: LayoutOptions
) -> tuple[str, list[list[str]]]:
    """Return the separator and the first rows; detect it only if it is not declared."""
    declared = options.separator
    separator = declared or ("\t" if form in ("tsv", "recbole") else None)
    if separator is None:
        separator = _detect_separator(body, options.is_id_list)
        return separator, split_rows(body, separator)
    rows = split_rows(body, separator)
    if len(rows[0]) > 1 or options.is_complete:
        return separator, rows
    better = _detect_separator(body, options.is_id_list)
    better_rows = split_rows(body, better)
    if len(better_rows[0]) == 1:
        return separator, rows
    if declared:
        raise InputError(
            f"{part.path} has one column when it is split at {_name_separator(declared)}: "
            f"{_shorten(rows[0][0])}. It looks as if it were separated by "
            f"{_name_separator(better)}: {setting_ref('separator', better)}."
        )
    return better, better_rows


def _name_separator(separator: str) -> str:
    return _SEPARATOR_NAMES.get(separator, repr(separator))


def _shorten(text: str) -> str:
    text = text.rstrip("\r\n")
    return repr(text if len(text) <= 60 else f"{text[:60]}...")


def split_lines(lines: Iterator[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of the line on which the row ends, fields); no fields for an empty line."""
    if is_csv_separator(separator):
        reader = csv.reader(lines, delimiter=separator, strict=False)
        for row in reader:
            yield reader.line_num, row
        return
    for number, line in enumerate(lines, start=1):
        if separator == SPACES:
            yield number, line.split()
        else:
            line = line.rstrip("\r\n")
            yield number, line.split(separator) if line else []


def is_csv_separator(separator: str) -> bool:
    """True if rows are split at one character and fields may be quoted, as in CSV."""
    return len(separator) == 1 and separator != SPACES


def split_rows(text: str, separator: str) -> list[list[str]]:
    """Return the fields of the first rows that are not empty; at least one row."""
    rows = split_lines(iter(io.StringIO(text, newline="")), separator)
    return list(islice((row for _, row in rows if row), _SAMPLE_ROWS)) or [[""]]


def _detect_separator(text: str, is_id_list: bool) -> str:
    """Return the separator that splits all rows into equally many fields.

    If there is none: the separator that splits the first row into known names, or into most fields.
    """
    candidates = _SEPARATORS[:-1] if is_id_list else _SEPARATORS
    rows = {separator: split_rows(text, separator) for separator in candidates}
    for separator, split in rows.items():
        if len(split[0]) > 1 and len({len(row) for row in split}) == 1:
            if separator == "\t" and SPACES in rows and _is_padded(split, rows[SPACES]):
                return SPACES
            return separator
    num_known = {name: len(KNOWN & set(map(fold, split[0]))) for name, split in rows.items()}
    best = max(
        candidates,
        key=lambda name: (num_known[name] > 1, name != SPACES and len(rows[name][0])),
    )
    if len(rows[best][0]) > 1 and (best != SPACES or num_known[best] > 1):
        return best
    return ","


def _is_padded(by_tab: list[list[str]], by_spaces: list[list[str]]) -> bool:
    """True if fields between tabs are padded with spaces that separate nothing else."""
    has_padding = any(value != value.strip() for row in by_tab for value in row)
    return has_padding and [len(row) for row in by_spaces] == [len(row) for row in by_tab]


def _detect_trec(rows: list[list[str]]) -> str:
    """Return "run", "qrels", or an empty string if the rows are of neither."""
    widths = {len(row) for row in rows}
    if widths == {6} and all(row[1].casefold() == "q0" and is_number(row[4]) for row in rows):
        return "run"
    if widths == {4} and all(
        row[1] in ("0", "Q0", "q0") and re.fullmatch(r"-?[0-9]{1,3}", row[3]) for row in rows
    ):
        return "qrels"
    return ""


def is_number(text: str) -> bool:
    """True if the text is a number, as `float` reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _detect_header(part: PartFile, rows: list[list[str]], columns: tuple[str | int, ...]) -> bool:
    """True if the first row has a known name, or text above numbers; raise if it is ambiguous."""
    first, others = rows[0], rows[1:]
    folded = {fold(name) for name in first}
    if folded & KNOWN or folded & {fold(name) for name in columns if isinstance(name, str)}:
        return True
    if any(map(is_number, first)) or len(first) == 1:
        return False
    for number, value in enumerate(first):
        column = [row[number] for row in others if len(row) > number]
        if column and all(map(is_number, column)):
            return True
        if value in column:
            return False  # an id that occurs again
    example = setting_ref("columns", {"user": "visitor", "item": "sku"})
    raise InputError(
        f"{part.path}: the first line, {first}, may be the names of columns or the first row. Say "
        f"which: {setting_ref('header', True)} with {setting_ref('columns')} for unknown names, "
        f"such as {example}; or {setting_ref('header', False)}."
    )
