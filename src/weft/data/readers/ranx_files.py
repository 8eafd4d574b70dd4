"""Reading of JSON objects `{query: {document: number}}`, as ranx writes them."""

from __future__ import annotations

import json
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from weft.data.readers.layouts import INTEGER, FileLayout
from weft.data.readers.paths import PartFile
from weft.errors import InputError, setting_ref

if TYPE_CHECKING:
    import polars as pl


def read_ranx(
    layouts: list[FileLayout], value_role: str, ids: str, where: str
) -> tuple[dict[str, pl.Series], pl.Series]:
    """Return the columns user, item and `value_role` ("score" or "rating"), and all queries."""
    import polars as pl

    rows: dict[str, dict[str, Any]] = {}
    for layout in layouts:
        content = _parse(layout.part)
        if duplicates := rows.keys() & content.keys():
            raise InputError(
                f"{layout.part.path} has the query {min(duplicates)!r} of another part."
            )
        rows.update(content)
    _check_numbers(rows, value_role, where)
    queries = chain.from_iterable(repeat(query, len(row)) for query, row in rows.items())
    users = pl.Series(list(queries), dtype=pl.String)
    items = pl.Series(list(chain.from_iterable(rows.values())), dtype=pl.String)
    numbers = list(chain.from_iterable(row.values() for row in rows.values()))
    values = pl.Series(numbers, dtype=pl.Float64, strict=False)
    all_users = pl.Series(list(rows), dtype=pl.String)
    if ids == "integer" or (ids == "auto" and all(map(_is_int64, rows))):
        users = _cast_to_integers(users, "user", where)
        all_users = _cast_to_integers(all_users, "user", where)
    if ids == "integer" or (ids == "auto" and all(map(_is_int64, items.unique()))):
        items = _cast_to_integers(items, "item", where)
    return {"user": users, "item": items, value_role: values}, all_users


def _parse(part: PartFile) -> dict[str, dict[str, Any]]:
    part.check_encoding()
    try:
        content = json.loads(part.plain.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise InputError(
            f"{part.path}, line {error.lineno}: this is not JSON ({error.msg}, at column "
            f"{error.colno})."
        ) from None
    if not isinstance(content, dict) or not all(isinstance(row, dict) for row in content.values()):
        raise InputError(
            f"{part.path} is JSON, but not {{query: {{document: score}}}}, which ranx writes, and "
            "not JSON Lines."
        )
    return content


def _check_numbers(rows: dict[str, dict[str, Any]], value_role: str, where: str) -> None:
    for query, row in rows.items():
        for document, number in row.items():
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise InputError(
                    f"{where}, query {query!r}: the {value_role} of {document!r} is {number!r}; "
                    "expected a number."
                )


def _is_int64(text: str) -> bool:
    return len(text) <= 20 and INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def _cast_to_integers(ids: pl.Series, role: str, where: str) -> pl.Series:
    import polars as pl

    integers = ids.cast(pl.Int64, strict=False)
    if integers.null_count():
        invalid = ids.filter(integers.is_null())[0]
        raise InputError(
            f"{where} has the {role} id {invalid!r}, which is no integer, but "
            f"{setting_ref('ids', 'integer')}."
        )
    return integers
