"""Detection of a file's layout: its format, separator, header and columns."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Any

from weft.data.readers.file_settings import SPACES, File
from weft.data.readers.json_text import JsonError, parse_json
from weft.data.readers.paths import HEAD_BYTES, PartFile
from weft.data.readers.roles import KNOWN, check_unique_columns, fold
from weft.data.readers.scans import catch_panics, scan_parquet
from weft.data.readers.text_rows import SAMPLE_ROWS, shorten, split_rows
from weft.errors import InputError, setting_ref

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
TREC_COMMENT = "#"  # lines that start with it are no rows of TREC files
_TREC_COLUMNS = {
    "run": ("query", "q0", "docno", "rank", "score", "tag"),
    "qrels": ("query", "iteration", "docno", "relevance"),
}
TREC_WIDTHS = tuple(map(len, _TREC_COLUMNS.values()))


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

    @property
    def has_open_end(self) -> bool:
        """True if rows may have further fields: words after the tag of a TREC run."""
        return self.trec == "run"


def detect_layout(part: PartFile, file: File, is_id_list: bool) -> FileLayout:
    """Return the layout of a part file; what `file` declares is not detected.

    `is_id_list`: the file may hold one id per line, so that spaces separate nothing.
    """
    head = part.head()
    form = file.format or _detect_format(part, head, file)
    if form == "parquet":
        return _parquet_layout(part)
    if head.startswith(b"PAR1"):
        raise InputError(
            f"{part.path} is a Parquet file, but {setting_ref('format', file.format)} was given."
        )
    text = _decode_head(part, head)
    is_object = text.lstrip().startswith("{")
    if form in ("jsonl", "json") or (file.format is None and is_object and file.separator is None):
        return _json_layout(part, text, file.format or (form if form == "jsonl" else None))
    if not text.strip():
        raise InputError(f"{part.path} is empty.")
    if len(head) > HEAD_BYTES and b"\n" not in head:
        raise InputError(
            f"{part.path}, line 1: there is no line break in the first {len(head):,} bytes; "
            "expected text with one row per line."
        )
    return _trec_layout(part, text, form, file) or _text_layout(part, text, form, file, is_id_list)


def _detect_format(part: PartFile, head: bytes, file: File) -> str:
    if head.startswith(b"PAR1"):
        return "parquet"
    if file.separator is not None:  # a table of text, whatever its suffix
        return "csv"
    suffixes = (suffix.casefold() for suffix in reversed(part.path.suffixes))
    return next((_FORMAT_OF_SUFFIX[name] for name in suffixes if name in _FORMAT_OF_SUFFIX), "csv")


def _decode_head(part: PartFile, head: bytes) -> str:
    """Return the head as text, without an incomplete last line if it has others."""
    if len(head) >= HEAD_BYTES and b"\n" in head:
        head = head[: head.rindex(b"\n") + 1]
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        return decoder.decode(head, final=len(head) < HEAD_BYTES)
    except UnicodeDecodeError:
        part.check_encoding()
        raise InputError(f"{part.path} is not text in UTF-8.") from None


def _parquet_layout(part: PartFile) -> FileLayout:
    import polars as pl

    try:
        with catch_panics():
            schema = scan_parquet(part.plain).collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise broken_parquet(part, error) from None
    return FileLayout(part, "parquet", tuple(schema.names()), types=dict(schema))


def broken_parquet(part: PartFile, error: Exception) -> InputError:
    """Return the error for a Parquet file that polars cannot read."""
    reason = str(error).partition("\n")[0]
    return InputError(
        f"{part.path} is not a complete Parquet file: it is truncated or damaged ({reason}). "
        "Write or download it again."
    )


def _json_layout(part: PartFile, text: str, form: str | None) -> FileLayout:
    """Distinguish JSON Lines from one object `{query: {document: number}}`."""
    if text.lstrip().startswith("["):
        raise InputError(
            f"{part.path} is one JSON array; write JSON Lines instead: one object per line."
        )
    lines = list(islice(io.StringIO(text), SAMPLE_ROWS))
    first = next(filter(str.strip, lines), None)
    if first is None:
        raise InputError(f"{part.path} is empty.")
    if form == "json" or (form != "jsonl" and _is_nested_object(first)):
        return FileLayout(part, "json", ("query", "document", "value"))
    rows = [row for _, row in _parse_objects(part, enumerate(lines, start=1))]
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    types = {name: {type(row[name]) for row in rows if row.get(name) is not None} for name in names}
    return FileLayout(part, "jsonl", names, sample=tuple(rows), types=types)


def _is_nested_object(line: str) -> bool:
    """True if a line begins an object of objects, possibly over several lines."""
    try:
        first = parse_json(line)
    except JsonError:
        return True
    return (
        isinstance(first, dict)
        and len(first) > 0
        and all(isinstance(row, dict) for row in first.values())
    )


def json_rows(part: PartFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for each line of JSON Lines that is not empty."""
    return _parse_objects(part, part.lines())


def _parse_objects(
    part: PartFile, lines: Iterable[tuple[int, str]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in lines:
        if not line.strip():
            continue
        location = f"{part.path}, line {number}: {shorten(line)}"
        try:
            row = parse_json(line)
        except JsonError as error:
            raise InputError(
                f"{location} is not JSON ({error.reason}, at character {error.position})."
            ) from None
        if not isinstance(row, dict):
            raise InputError(f'{location} is not an object; expected {{"user": ..., "item": ...}}.')
        yield number, row


def _trec_layout(part: PartFile, text: str, form: str, file: File) -> FileLayout | None:
    """Return the layout of a TREC file; None if it is another table.

    Runs and qrels are detected by their content, with less strict rules if a format, a suffix or a
    name declares a file as one. Raise `InputError` if it is not, and nothing else is declared.
    """
    if file.is_declared_table:
        return None
    rows = split_rows(_drop_comments(text), SPACES)
    is_expected = form == "trec" or "qrels" in part.path.name.casefold()
    if trec := _detect_trec(rows, is_expected=is_expected):
        names = _TREC_COLUMNS[trec]
        sample = tuple(rows)
        return FileLayout(part, "text", names, SPACES, has_header=False, sample=sample, trec=trec)
    if form == "trec" and (file.format == "trec" or not file.columns):
        first = text.lstrip().partition("\n")[0]
        raise InputError(
            f"{part.path} is not a TREC file: expected lines 'query Q0 document rank score tag' (a "
            "run) or 'query 0 document relevance' (qrels), got "
            f"{shorten(first)}."
        )
    return None


def _drop_comments(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith(TREC_COMMENT))


def _detect_trec(rows: list[list[str]], *, is_expected: bool) -> str:
    """Return "run", "qrels", or an empty string if the rows are of neither.

    If a TREC file is expected, the second column may hold anything, as in trec_eval. If not, that
    of qrels must be 0 or "Q0", and that of a run "Q0", or one text in all rows, as is its tag.
    """
    if all(len(row) >= 6 and is_number(row[4]) for row in rows):
        is_run = is_expected or _has_second(rows, {"q0"}) or _has_ranks_and_tag(rows)
        return "run" if is_run else ""
    if all(len(row) == 4 and re.fullmatch("-?[0-9]{1,3}", row[3]) for row in rows):
        return "qrels" if is_expected or _has_second(rows, {"0", "q0"}) else ""
    return ""


def _has_second(rows: list[list[str]], texts: set[str]) -> bool:
    return {row[1].casefold() for row in rows} <= texts


def _has_ranks_and_tag(rows: list[list[str]]) -> bool:
    """True if several rows have ranks, and the same text in the second and the last column."""
    constants = {(row[1], row[5]) for row in rows}
    return len(constants) == 1 < len(rows) and all(row[3].isdigit() for row in rows)


def _text_layout(part: PartFile, text: str, form: str, file: File, is_id_list: bool) -> FileLayout:
    lines = text.split("\n")
    first = _find_content(lines, 0)
    separator, rows = _choose_separator(part, "\n".join(lines[first:]), form, file, is_id_list)
    has_header = file.header
    if has_header is None:
        has_header = _detect_header(part, rows, tuple(file.columns.values()))
    names = tuple(f"column {number}" for number in range(len(rows[0])))
    num_skipped = first
    if has_header:
        check_unique_columns(rows[0], part.path)
        names, rows = tuple(rows[0]), rows[1:]
        num_breaks = sum(name.count("\n") for name in names)  # in quotes; polars counts one line
        num_skipped = _find_content(lines, first + 1 + num_breaks) - num_breaks
    return FileLayout(part, "text", names, separator, has_header, num_skipped, sample=tuple(rows))


def _find_content(lines: list[str], start: int) -> int:
    """Return the number of the first line from `start` on that is not empty."""
    end = len(lines) - (lines[-1] == "")  # text that ends in a line feed has no line after it
    return next((row for row in range(start, end) if lines[row].strip()), end)


def _choose_separator(
    part: PartFile, body: str, form: str, file: File, is_id_list: bool
) -> tuple[str, list[list[str]]]:
    """Return the separator and the first rows; detect it only if it is not declared."""
    separator = file.separator or ("\t" if form in ("tsv", "recbole") else None)
    if separator is not None:
        rows = split_rows(body, separator)
        is_complete = file.separator is not None and file.header is not None and file.columns
        if len(rows[0]) > 1 or is_complete:
            return separator, rows
    detected = _detect_separator(body, is_id_list)
    detected_rows = split_rows(body, detected)
    if separator is None:
        return detected, detected_rows
    if len(detected_rows[0]) == 1:
        return separator, rows
    if file.separator:
        raise InputError(
            f"{part.path} has one column when it is split at {_name_separator(separator)}: "
            f"{shorten(rows[0][0])}. It appears to be separated by {_name_separator(detected)}: "
            f"{setting_ref('separator', detected)}."
        )
    return detected, detected_rows


def _name_separator(separator: str) -> str:
    return _SEPARATOR_NAMES.get(separator, repr(separator))


def _detect_separator(text: str, is_id_list: bool) -> str:
    """Return the separator that splits all rows into equally many fields.

    If there is none: the separator that splits the first row into known names, or into most fields.
    """
    candidates = _SEPARATORS[:-1] if is_id_list else _SEPARATORS
    rows = {separator: split_rows(text, separator) for separator in candidates}
    regular = [name for name in candidates if _is_regular(rows[name])]
    if regular:
        is_padded = regular[0] == "\t" and SPACES in rows and _is_padded(rows["\t"], rows[SPACES])
        return SPACES if is_padded else regular[0]
    named = [name for name in candidates if len(KNOWN & set(map(fold, rows[name][0]))) > 1]
    best = max(named or _SEPARATORS[:-1], key=lambda name: name != SPACES and len(rows[name][0]))
    return best if len(rows[best][0]) > 1 else ","


def _is_regular(rows: list[list[str]]) -> bool:
    """True if all rows have the same number of fields, more than one."""
    return len(rows[0]) > 1 and len(set(map(len, rows))) == 1


def _is_padded(by_tab: list[list[str]], by_spaces: list[list[str]]) -> bool:
    """True if fields between tabs are padded with spaces that separate nothing else."""
    has_padding = any(value != value.strip() for row in by_tab for value in row)
    return has_padding and [len(row) for row in by_spaces] == [len(row) for row in by_tab]


def is_number(text: str) -> bool:
    """True if the text is a number, as `float` reads it, but without underscores."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text and text.isascii()


def _detect_header(part: PartFile, rows: list[list[str]], columns: tuple[str | int, ...]) -> bool:
    """True if the first row has a known name, or text above numbers; raise if it is ambiguous."""
    first, others = rows[0], rows[1:]
    folded = {fold(name) for name in first}
    if folded & KNOWN or folded & {fold(name) for name in columns if isinstance(name, str)}:
        return True
    if any(map(is_number, first)) or len(first) == 1:
        return False
    for value, column in zip(first, zip_longest(*others)):
        values = set(column) - {None}  # rows may be short
        if all(map(is_number, values)):
            return True
        if value in values:
            return False  # an id that occurs again
    example = setting_ref("columns", {"user": "visitor", "item": "sku"})
    raise InputError(
        f"{part.path}: the first line, {first}, could contain the names of the columns or the "
        f"first row. Specify which: {setting_ref('header', True)} with {setting_ref('columns')} "
        f"for unknown names, such as {example}; or {setting_ref('header', False)}."
    )
