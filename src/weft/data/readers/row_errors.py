"""What is wrong with a file, and where: found row by row, slowly, once it is known that something
is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, NoReturn

from weft.data.readers.layouts import FileLayout, json_rows, split_lines
from weft.data.readers.paths import PartFile
from weft.errors import InputError

IDS = ("user", "item")


def _text_rows(part: PartFile, layout: FileLayout) -> Iterator[tuple[int, list[str]]]:
    """The rows of a part with the lines on which they start, without header and empty lines."""
    last = 0
    for line, row in split_lines((text for _, text in part.lines()), layout.separator):
        start, last = last + 1, line
        if row and start > layout.first:
            yield start, row


def places(
    parts: list[PartFile], layouts: list[FileLayout], roles: Mapping[str, str]
) -> Iterator[tuple[PartFile, str]]:
    """Where each row of a table stands, in the order of the table."""
    import polars as pl

    for part, layout in zip(parts, layouts):
        if layout.format == "text":
            named = [layout.names.index(name) for role, name in roles.items() if role in IDS]
            for line, row in _text_rows(part, layout):
                if any(len(row) > place and row[place] for place in named):
                    yield part, f"line {line}"
        elif layout.format == "jsonl":
            for line, _ in json_rows(part):
                yield part, f"line {line}"
        elif layout.format == "parquet":
            for number in range(
                pl.scan_parquet(part.plain, glob=False).select(pl.len()).collect().item()
            ):
                yield part, f"row {number}"


def has_quoted(part: PartFile, layout: FileLayout) -> bool:
    """Whether a field of a part stands in quotes."""
    mark = f'{layout.separator}"'
    return any(line.startswith('"') or mark in line for _, line in part.lines())


def refuse_odd_quotes(parts: list[PartFile]) -> None:
    """Say on which line quotes do not come in pairs."""
    for part in parts:
        for number, line in part.lines():
            if line.count('"') % 2:
                raise InputError(
                    f"{part.path}, line {number}: a quote is left open. Inside a field in quotes, "
                    "a quote is doubled."
                )


def explain(
    parts: list[PartFile], layouts: list[FileLayout], roles: dict[str, str], ids: str
) -> None:
    """Look for what is wrong row by row, and say it with its line. Nothing is said where nothing is
    found.
    """
    for part, layout in zip(parts, layouts):
        if layout.format == "text":
            _explain_text(part, layout, roles, ids)
        elif layout.format == "jsonl":
            _explain_json(part, layout, roles)
        elif layout.format == "parquet":
            _explain_parquet(part, roles, ids)


def _explain_text(part: PartFile, layout: FileLayout, roles: dict[str, str], ids: str) -> None:
    width = len(layout.names)
    places = {role: layout.names.index(name) for role, name in roles.items()}
    for line, row in _text_rows(part, layout):
        at = f"{part.path}, line {line}:"
        if len(row) != width and (
            len(row) > width or any(len(row) <= place for place in places.values())
        ):
            shown = ", ".join(map(repr, row[:6])) + (", ..." if len(row) > 6 else "")
            raise InputError(
                f"{at} {len(row)} field{'s' * (len(row) != 1)} ({shown}) where the "
                f"{'header' if layout.header else 'first'} has "
                f"{width}. Repair the line; a value that holds the separator {layout.separator!r} "
                "must stand in quotes."
            )
        if not any(row[place] for role, place in places.items() if role in IDS):
            continue
        for role, place in places.items():
            value = row[place]
            if role in ("label", "timestamp"):
                continue
            if value == "" and role in IDS:
                raise InputError(f"{at} there is no {role} id; every row needs one.")
            if value != "" and role not in IDS and not _is_real(value):
                hint = (
                    " Decimals are written with a point."
                    if _is_real(value.replace(",", "."))
                    else ""
                )
                raise InputError(
                    f"{at} the {role} (column {roles[role]!r}) is {value!r}; expected a "
                    f"number.{hint}"
                )
            if role in IDS and ids == "integer" and not _is_whole(value):
                raise InputError(
                    f"{at} the {role} id is {value!r}, which is no integer, but ids='integer'."
                )


def _is_whole(text: str) -> bool:
    try:
        return -(2**63) <= int(text) < 2**63
    except ValueError:
        return False


def _is_real(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _explain_json(part: PartFile, layout: FileLayout, roles: dict[str, str]) -> None:
    for line, row in json_rows(part):
        at = f"{part.path}, line {line}:"
        for role, name in roles.items():
            value = row.get(name)
            if role in ("label", "timestamp"):
                continue
            if role in IDS:
                if value is None:
                    raise InputError(f"{at} there is no {role} id ({name!r}); every row needs one.")
                kinds = layout.types[name]
                if type(value) not in (int, str) or type(value) not in kinds:
                    expected = "an integer" if kinds == {int} else "a string"
                    raise InputError(
                        f"{at} the {role} id is {value!r}; expected {expected}, as in the lines "
                        "before."
                    )
            elif not isinstance(value, (int, float, NoneType)):
                raise InputError(f"{at} the {role} ({name!r}) is {value!r}; expected a number.")


def explain_number(part: PartFile, role: str, name: str, dtype: Any) -> NoReturn:
    """Say which value of a column is no number."""
    import polars as pl

    if part.head()[:1] == b"{":
        for line, row in json_rows(part):
            if isinstance(row.get(name), str) or not isinstance(
                row.get(name), (int, float, NoneType)
            ):
                raise InputError(
                    f"{part.path}, line {line}: the {role} ({name!r}) is {row.get(name)!r}; "
                    "expected a number."
                )
    shown = (
        pl.scan_parquet(part.plain, glob=False).select(name).head(1).collect().to_series()
        if dtype == pl.String
        else None
    )
    example = f" (row 0: {shown[0]!r})" if shown is not None and len(shown) else ""
    raise InputError(
        f"{part.path}: the column {name!r} holds {dtype}{example}; a {role} must be a number."
    )


def _explain_parquet(part: PartFile, roles: dict[str, str], ids: str) -> None:
    import polars as pl

    for role, name in roles.items():
        if role not in IDS:
            continue
        missing = (
            pl.scan_parquet(part.plain, glob=False)
            .select(pl.col(name).is_null().arg_true().head(1))
            .collect()
            .to_series()
        )
        if len(missing):
            raise InputError(
                f"{part.path}, row {missing[0]}: there is no {role} id (column {name!r}); every "
                "row needs one."
            )
        if ids == "integer":
            text = pl.col(name).cast(pl.String)
            wrong = (
                pl.scan_parquet(part.plain, glob=False)
                .select(text)
                .filter(text.cast(pl.Int64, strict=False).is_null())
                .head(1)
            )
            found = wrong.collect().to_series()
            if len(found):
                raise InputError(
                    f"{part.path}: the {role} id {found[0]!r} is no integer, but ids='integer'."
                )
