"""Errors in the rows of a file and their lines, found row by row after a fast reader failed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any

from weft.data.readers.layouts import (
    TREC_COMMENT,
    TREC_WIDTHS,
    FileLayout,
    is_number,
    json_rows,
    repeated_keys,
    split_lines,
)
from weft.data.readers.paths import PartFile, scan_lines
from weft.data.readers.roles import ID_ROLES, NUMBER_ROLES
from weft.errors import InputError, setting_ref


def _text_rows(layout: FileLayout) -> Iterator[tuple[int, list[str]]]:
    """Yield (line on which the row starts, fields), without header and rows of empty fields."""
    last = 0
    for line, row in split_lines((text for _, text in layout.part.lines()), layout.separator):
        start, last = last + 1, line
        is_comment = layout.trec and row and row[0].startswith(TREC_COMMENT)
        if any(row) and start > layout.num_skipped and not is_comment:
            yield start, row


def iter_locations(layout: FileLayout) -> Iterator[str]:
    """Yield the location ("line 17" or "row 3") of each row of a part file."""
    import polars as pl

    if layout.format == "parquet":
        scan = pl.scan_parquet(layout.part.plain, glob=False)
        yield from (f"row {number}" for number in range(scan.select(pl.len()).collect().item()))
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
    opening = f'{layout.separator}"'
    return any(line.startswith('"') or opening in line for _, line in layout.part.lines())


def has_short_lines(layout: FileLayout) -> bool:
    """True if a line of CSV has too few separators, or quotes that span lines."""
    import polars as pl

    lines = scan_lines(layout.part.plain, layout.num_skipped)
    unquoted = pl.col("line").str.replace_all('"[^"]*"', "x")
    num_fields = unquoted.str.count_matches(layout.separator, literal=True) + 1
    is_short = (num_fields < len(layout.names)) & (unquoted != "")
    found = lines.select((is_short | unquoted.str.contains('"', literal=True)).any())
    return bool(found.collect(engine="streaming").item())


def has_suspect_lines(layout: FileLayout, roles: Mapping[str, str]) -> bool:
    """True if a line of JSON Lines may be invalid in a way that polars accepts.

    Polars keeps the first value of a key that is given twice, and makes strings of other values in
    a column of strings. Inner keys and keys with escapes are suspect too: `check_rows` decides.
    """
    import polars as pl

    line = pl.col("line")
    suspects = [line.str.contains(r'"[^"]*\\[^"]*"\s*:')]
    for role, name in roles.items():
        key = rf"{re.escape(json.dumps(name, ensure_ascii=False))}\s*:"
        suspects.append(line.str.count_matches(key) > 1)
        if role in ID_ROLES and layout.types[name] == {str}:
            suspects.append(line.str.contains(rf'{key}\s*[^"n\s]'))  # neither a string nor null
    found = scan_lines(layout.part.plain).select(pl.any_horizontal(suspects).any())
    return bool(found.collect(engine="streaming").item())


def check_quotes(layouts: list[FileLayout]) -> None:
    """Raise `InputError` with the first line on which a quote is not closed."""
    for layout in layouts:
        for number, line in layout.part.lines():
            if line.count('"') % 2:
                raise InputError(
                    f"{layout.part.path}, line {number}: a quote is left open. Inside a field in "
                    "quotes, a quote is doubled."
                )


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
    shown = ", ".join(map(repr, row[:6])) + (", ..." if len(row) > 6 else "")
    return InputError(
        f"{location} {len(row)} field{'s' * (len(row) != 1)} ({shown}) where the "
        f"{'header' if layout.has_header else 'first'} has {len(layout.names)}. Repair the line; a "
        f"value that holds the separator {layout.separator!r} must stand in quotes."
    )


def _check_id(value: str, role: str, ids: str, location: str) -> None:
    if role in ID_ROLES and value == "":
        raise InputError(f"{location} there is no {role} id; every row needs one.")
    if role in ID_ROLES and ids == "integer" and not _is_int64(value):
        raise InputError(
            f"{location} the {role} id is {value!r}, which is no integer, but "
            f"{setting_ref('ids', 'integer')}."
        )


def _check_number(value: str, role: str, layout: FileLayout, position: int, location: str) -> None:
    if role not in NUMBER_ROLES or value == "" or is_number(value):
        return
    hint = ""
    if is_number(value.replace(",", ".")):
        hint = " Decimals are written with a point."
    elif not layout.has_header and len(layout.names) in TREC_WIDTHS:
        hint = f" If this is a TREC file, say so: {setting_ref('format', 'trec')}."
    raise InputError(
        f"{location} the {role} (column {layout.names[position]!r}) is {value!r}; expected a "
        f"number.{hint}"
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
                raise InputError(f"{location} the key {name!r} is given twice; keep one.")
            value = row.get(name)
            if role in ID_ROLES:
                _check_json_id(value, role, name, types=layout.types[name], location=location)
            elif role in NUMBER_ROLES and not isinstance(value, (int, float, NoneType)):
                raise InputError(
                    f"{location} the {role} ({name!r}) is {value!r}; expected a number."
                )


def _check_json_id(value: Any, role: str, name: str, *, types: set[type], location: str) -> None:
    if value is None:
        raise InputError(f"{location} there is no {role} id ({name!r}); every row needs one.")
    if type(value) not in (int, str) or type(value) not in types:
        expected = "an integer" if types == {int} else "a string"
        raise InputError(
            f"{location} the {role} id is {value!r}; expected {expected}, as in the lines before."
        )


def _check_parquet(part: PartFile, roles: Mapping[str, str], ids: str) -> None:
    import polars as pl

    for role, name in roles.items():
        if role not in ID_ROLES:
            continue
        column = pl.scan_parquet(part.plain, glob=False).select(name).with_row_index("weft row")
        missing = column.filter(pl.col(name).is_null()).head(1).collect()
        if len(missing):
            raise InputError(
                f"{part.path}, row {missing[0, 0]}: there is no {role} id (column {name!r}); every "
                "row needs one."
            )
        is_invalid = pl.col(name).cast(pl.String).cast(pl.Int64, strict=False).is_null()
        invalid = column.filter(is_invalid).head(1).collect()
        if ids == "integer" and len(invalid):
            raise InputError(
                f"{part.path}: the {role} id {str(invalid[0, 1])!r} is no integer, but "
                f"{setting_ref('ids', 'integer')}."
            )
