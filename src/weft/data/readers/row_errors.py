"""Errors in the rows of a file and their lines, found row by row after a fast reader failed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any

from weft.data.precision import EXACT_LIMIT, find_inexact, inexact_integers
from weft.data.readers.json_text import repeated_keys
from weft.data.readers.layouts import (
    TREC_COMMENT,
    TREC_WIDTHS,
    FileLayout,
    broken_parquet,
    is_number,
    json_rows,
)
from weft.data.readers.paths import PartFile
from weft.data.readers.roles import ID_ROLES, is_number_role
from weft.data.readers.scans import FIELD_SEPARATOR, collect, scan_lines, scan_parquet
from weft.data.readers.text_rows import shorten, split_lines
from weft.errors import InputError, setting_ref

if TYPE_CHECKING:
    import polars as pl

# A pair of surrogates in JSON text, and one that remains without its other half.
_SURROGATES = r"\\u[dD][89abAB]..\\u[dD][c-fC-F].."
_SURROGATE = r"\\u[dD][89a-fA-F]"
_SURROGATE_CODE = re.compile("[\ud800-\udfff]")


def _text_rows(
    layout: FileLayout, *, allows_stray_quotes: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Yield (line on which the row starts, fields), without header and rows of empty fields."""
    last = 0
    lines = (text for _, text in layout.part.lines())
    for end, row, has_open_quote, has_stray_quote in split_lines(lines, layout.separator):
        start, last = last + 1, end
        if has_stray_quote and not allows_stray_quotes:
            raise _stray_quote(f"{layout.part.path}, line {start}:")
        if has_open_quote:
            raise InputError(
                f"{layout.part.path}, line {start}: a quote is not closed before the end of the "
                "file. Inside a quoted field, quotes must be doubled."
            )
        if start <= layout.num_skipped or not any(row):
            continue
        if not (layout.trec and row[0].startswith(TREC_COMMENT)):
            yield start, row


def iter_locations(layout: FileLayout) -> Iterator[str]:
    """Yield the location ("line 17" or "row 3") of each row of a part file."""
    import polars as pl

    if layout.format == "parquet":
        num_rows = collect(scan_parquet(layout.part.plain).select(pl.len())).item()
        yield from (f"row {number}" for number in range(num_rows))
    elif layout.format == "jsonl":
        yield from (f"line {line}" for line, _ in json_rows(layout.part))
    elif layout.format == "text":
        yield from (f"line {line}" for line, _ in _text_rows(layout))


def has_no_rows(layout: FileLayout) -> bool:
    """True if only empty lines follow the header."""
    return all(
        not line.strip() for number, line in layout.part.lines() if number > layout.num_skipped
    )


def has_quoted_field(layout: FileLayout) -> bool:
    """True if a field of the file starts with a quote."""
    import polars as pl

    line = pl.col("line")
    is_opening = line.str.starts_with('"') | line.str.contains(f'{layout.separator}"', literal=True)
    return _has_line(layout, is_opening)


def has_suspect_quotes(layout: FileLayout) -> bool:
    """True if CSV with fields in quotes may have others that are open, or inside of fields.

    Polars may split such rows in the wrong places; `check_quotes` decides."""
    import polars as pl

    if not any(b'"' in chunk for chunk in layout.part.chunks()) or not has_quoted_field(layout):
        return False
    line, separator = pl.col("line"), re.escape(layout.separator)
    is_odd = line.str.count_matches('"', literal=True) % 2 == 1
    is_inside = line.str.contains(rf'[^"{separator}]"[^"{separator}\r]')
    return _has_line(layout, is_odd | is_inside)


def check_quotes(layout: FileLayout) -> None:
    """Raise `InputError` with the first line that has a quote in the middle of a field."""
    for _ in _text_rows(layout, allows_stray_quotes=False):
        pass


def has_short_lines(layout: FileLayout) -> bool:
    """True if a line of CSV has too few separators, or quotes that span lines.

    No line may have too many, which polars refuses.
    """
    import polars as pl

    if _has_separators_of_full_lines(layout):
        return False
    unquoted = pl.col("line").str.replace_all('"[^"]*"', "x")
    num_fields = unquoted.str.count_matches(layout.separator, literal=True) + 1
    is_short = (num_fields < len(layout.names)) & (unquoted != "")
    return _has_line(layout, is_short | unquoted.str.contains('"', literal=True))


def _has_separators_of_full_lines(layout: FileLayout) -> bool:
    """True if there are no quotes, and as many separators as lines need: a fast count of bytes."""
    if layout.num_skipped > layout.has_header:  # lines of any length above the header
        return False
    separator, last = layout.separator.encode(), b"\n"
    num_lines = num_separators = 0
    for chunk in layout.part.chunks():
        if b'"' in chunk:
            return False
        num_separators += chunk.count(separator)
        num_lines += chunk.count(b"\n")
        last = chunk[-1:]
    return num_separators == (num_lines + (last != b"\n")) * (len(layout.names) - 1)


def _has_line(layout: FileLayout, condition: pl.Expr) -> bool:
    """True if a line below the header fulfils a condition on the column `line`."""
    lines = scan_lines(layout.part.plain, layout.num_skipped)
    return bool(collect(lines.select(condition.any())).item())


def has_suspect_lines(layout: FileLayout, roles: Mapping[str, str]) -> bool:
    """True if a line of JSON Lines may be invalid in a way that polars accepts.

    Polars keeps the first value of a key that is given twice, makes strings of other values in a
    column of strings, and replaces surrogates without their other half. Inner keys and keys with
    escapes are suspect too: `check_rows` decides.
    """
    import polars as pl

    line, suspects = pl.col("line"), []
    if any(b"\\" in chunk for chunk in layout.part.chunks()):  # most files have no escapes
        suspects.append(line.str.contains(r'"[^"]*\\[^"]*"\s*:'))
        suspects.append(line.str.replace_all(_SURROGATES, "").str.contains(_SURROGATE))
    for role, name in roles.items():
        key = rf"{re.escape(json.dumps(name, ensure_ascii=False))}\s*:"
        suspects.append(line.str.count_matches(key) > 1)
        if role in ID_ROLES and layout.types[name] == {str}:
            suspects.append(line.str.contains(rf'{key}\s*[^"n\s]'))  # neither a string nor null
    return _has_line(layout, pl.any_horizontal(suspects))


def has_long_integers(layout: FileLayout) -> bool:
    """True if a line has a number of 16 digits or more without a point, or text that looks so."""
    import polars as pl

    return _has_line(layout, pl.col("line").str.contains(r"(?:^|[^.0-9])[0-9]{16,}(?:$|[^.0-9eE])"))


def _stray_quote(location: str) -> InputError:
    return InputError(
        f"{location} a quote is not closed, or is in the middle of a field. A field that contains "
        "quotes must be quoted, with each inner quote doubled."
    )


def check_lines(layouts: list[FileLayout]) -> None:
    """Raise `InputError` with the first line that polars splits in another way than Python."""
    for layout in layouts:
        separator = re.escape(layout.separator)
        quoted = re.compile(rf'(^|{separator})"(?:[^"]|"")*"(?={separator}|[\r\n]|$)')
        for number, line in layout.part.lines():
            location = f"{layout.part.path}, line {number}:"
            if FIELD_SEPARATOR in line:
                raise InputError(f"{location} the character {FIELD_SEPARATOR!r} is not supported.")
            if '"' in quoted.sub(r"\1", line):
                raise _stray_quote(location)


def check_rows(layouts: list[FileLayout], roles: Mapping[str, str], ids: str) -> None:
    """Raise `InputError` with the line of the first invalid row; return if all rows are valid."""
    for layout in layouts:
        if layout.format == "text":
            _check_text(layout, roles, ids)
        elif layout.format == "jsonl":
            _check_json_lines(layout, roles)
        elif layout.format == "parquet":
            _check_parquet(layout.part, roles, ids)


def _check_text(layout: FileLayout, roles: Mapping[str, str], ids: str) -> None:
    positions = {role: layout.names.index(name) for role, name in roles.items()}
    for line, row in _text_rows(layout):
        location = f"{layout.part.path}, line {line}:"
        has_extra_fields = len(row) > len(layout.names) and not layout.has_open_end
        if has_extra_fields or len(row) < len(layout.names):
            raise _wrong_number_of_fields(layout, row, location)
        for role, position in positions.items():
            _check_id(row[position], role, ids, location)
            _check_number(row[position], role, layout, position, location)


def _wrong_number_of_fields(layout: FileLayout, row: list[str], location: str) -> InputError:
    shown = ", ".join(map(shorten, row[:6])) + (", ..." if len(row) > 6 else "")
    return InputError(
        f"{location} {len(row)} field{'s' * (len(row) != 1)} ({shown}) where the "
        f"{'header' if layout.has_header else 'first'} has {len(layout.names)}. Repair the line; "
        f"a value that contains the separator {layout.separator!r} must be quoted."
    )


def _check_id(value: str, role: str, ids: str, location: str) -> None:
    if role in ID_ROLES and value == "":
        raise InputError(f"{location} there is no {role} id; every row needs one.")
    if role in ID_ROLES and ids == "integer" and not _is_int64(value):
        raise InputError(
            f"{location} the {role} id is {shorten(value)}, which is not an integer, but the "
            f"setting is {setting_ref('ids', 'integer')}."
        )


def _check_number(value: str, role: str, layout: FileLayout, position: int, location: str) -> None:
    if not is_number_role(role) or value == "":
        return
    if is_number(value):
        digits = value.strip().lstrip("+-").lstrip("0")
        if digits.isdigit() and (len(digits) > 16 or int(digits) > EXACT_LIMIT):
            what = f"{layout.part.path}: the column {layout.names[position]!r}"
            raise inexact_integers(what, location.rpartition(", ")[2].rstrip(":"), value, role)
        return
    hint = ""
    if is_number(value.replace(",", ".")):
        hint = " Use a point as the decimal separator."
    elif not layout.has_header and len(layout.names) in TREC_WIDTHS:
        hint = f" If this is a TREC file, set {setting_ref('format', 'trec')}."
    raise InputError(
        f"{location} the {role} (column {layout.names[position]!r}) is {shorten(value)}; expected "
        f"a number.{hint}"
    )


def _is_int64(text: str) -> bool:
    try:
        return -(2**63) <= int(text) < 2**63
    except ValueError:
        return False


def _check_json_lines(layout: FileLayout, roles: Mapping[str, str]) -> None:
    for line, row in json_rows(layout.part):
        location = f"{layout.part.path}, line {line}:"
        for role, name in roles.items():
            if name in repeated_keys(row):
                raise InputError(f"{location} the key {name!r} occurs twice; remove one.")
            value = row.get(name)
            if isinstance(value, str) and _SURROGATE_CODE.search(value):
                raise InputError(
                    f"{location} the {role} is {shorten(value)}, with an unpaired surrogate, "
                    "which is not a valid character. Write the complete pair, or the character."
                )
            if role in ID_ROLES:
                _check_json_id(value, role, name, types=layout.types[name], location=location)
            elif is_number_role(role):
                _check_json_number(value, role, name, location)


def _check_json_id(value: Any, role: str, name: str, *, types: set[type], location: str) -> None:
    if value is None:
        raise InputError(f"{location} there is no {role} id ({name!r}); every row needs one.")
    if type(value) not in (int, str) or type(value) not in types:
        expected = "an integer" if types == {int} else "a string"
        raise InputError(
            f"{location} the {role} id is {value!r}; expected {expected}, as in the lines before."
        )


def _check_json_number(value: Any, role: str, name: str, location: str) -> None:
    """Raise `InputError` for a value that is no number, or an integer that float64 rounds."""
    if not isinstance(value, (int, float, NoneType)):
        raise InputError(f"{location} the {role} ({name!r}) is {value!r}; expected a number.")
    if len(find_inexact([value])):
        path, _, line = location.rpartition(", ")
        raise inexact_integers(f"{path}: the key {name!r}", line.rstrip(":"), value, role)


def _check_parquet(part: PartFile, roles: Mapping[str, str], ids: str) -> None:
    import polars as pl

    try:
        collect(scan_parquet(part.plain).select(pl.col(*roles.values()).is_null().sum()))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise broken_parquet(part, error) from None
    for role, name in roles.items():
        if role not in ID_ROLES:
            continue
        column = scan_parquet(part.plain).select(name).with_row_index("weft row")
        missing = collect(column.filter(pl.col(name).is_null()).head(1))
        if len(missing):
            raise InputError(
                f"{part.path}, row {missing[0, 0]}: there is no {role} id (column {name!r}); every "
                "row needs one."
            )
        is_invalid = pl.col(name).cast(pl.String).cast(pl.Int64, strict=False).is_null()
        invalid = collect(column.filter(is_invalid).head(1))
        if ids == "integer" and len(invalid):
            raise InputError(
                f"{part.path}: the {role} id {str(invalid[0, 1])!r} is not an integer, but the "
                f"setting is {setting_ref('ids', 'integer')}."
            )
