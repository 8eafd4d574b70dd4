"""Reading of JSON objects `{query: {document: number}}`, as ranx writes them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.data.precision import find_inexact, inexact_integers
from weft.data.readers.json_text import JsonError, check_surrogates, parse_json, repeated_keys
from weft.data.readers.layouts import FileLayout
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
                f"{layout.part.path} has the query {min(duplicates)!r}, which is also in another "
                "part."
            )
        rows.update(content)
    _check_numbers(rows, value_role, where)
    queries = _cast_ids(pl.Series(list(rows), dtype=pl.String), ids, "user", where)
    items = pl.Series(list(chain.from_iterable(rows.values())), dtype=pl.String)
    numbers = list(chain.from_iterable(row.values() for row in rows.values()))
    owners = np.repeat(
        np.arange(len(rows)), np.array(list(map(len, rows.values())), dtype=np.int64)
    )
    columns = {
        "user": queries.gather(owners),
        "item": _cast_ids(items, ids, "item", where),
        value_role: pl.Series(numbers, dtype=pl.Float64, strict=False),
    }
    return columns, queries


def _parse(part: PartFile) -> dict[str, dict[str, Any]]:
    part.check_encoding()
    text = part.plain.read_text(encoding="utf-8-sig")
    try:
        content = parse_json(text)
        check_surrogates(text)
    except JsonError as error:
        raise InputError(
            f"{part.path}, line {error.line}: this is not JSON ({error.reason}, at column "
            f"{error.column})."
        ) from None
    if not isinstance(content, dict) or not all(isinstance(row, dict) for row in content.values()):
        raise InputError(
            f"{part.path} is JSON, but neither {{query: {{document: score}}}}, as written by "
            "ranx, nor JSON Lines."
        )
    if queries := repeated_keys(content):
        raise InputError(f"{part.path} has the query {queries[0]!r} twice; remove one.")
    for query, row in content.items():
        if documents := repeated_keys(row):
            raise InputError(
                f"{part.path}, query {query!r}: the document {documents[0]!r} occurs twice; "
                "remove one."
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
            if len(find_inexact([number])):
                location = f"query {query!r}, document {document!r}"
                raise inexact_integers(where, location, number, value_role)


def _cast_ids(texts: pl.Series, ids: str, role: str, where: str) -> pl.Series:
    """Return ids as strings or as integers; with "auto", integers if all are canonical."""
    import polars as pl

    integers = texts.cast(pl.Int64, strict=False)
    if ids == "auto":
        are_canonical = (integers.cast(pl.String) == texts).fill_null(False).all()  # 007 is not
        return integers if are_canonical else texts
    if ids == "integer" and integers.null_count():
        invalid = texts.filter(integers.is_null())[0]
        raise InputError(
            f"{where} has the {role} id {invalid!r}, which is not an integer, but the setting is "
            f"{setting_ref('ids', 'integer')}."
        )
    return integers if ids == "integer" else texts
