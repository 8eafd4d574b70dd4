"""Reading of Parquet and JSON Lines with polars."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from weft.data.precision import find_inexact, has_large_numbers, inexact_integers
from weft.data.readers.column_reader import CollectColumns
from weft.data.readers.layouts import FileLayout
from weft.data.readers.roles import ID_ROLES, is_number_role
from weft.data.readers.row_errors import check_rows, has_long_integers, has_suspect_lines
from weft.data.readers.scans import collect, scan_parquet
from weft.data.vocabulary import hint_at_lists
from weft.errors import InputError, setting_ref

if TYPE_CHECKING:
    import polars as pl

_Types = dict[str, Any]  # the polars type of each role's column


def read_typed(
    layouts: list[FileLayout],
    roles: Mapping[str, str],
    ids: str,
    where: str,
    collect_columns: CollectColumns,
) -> dict[str, pl.Series]:
    """Return the column of each role; raise `InputError` or a polars error for invalid rows."""
    types = [
        {role: _column_type(layout, role, name) for role, name in roles.items()}
        for layout in layouts
    ]
    for layout, part_types in zip(layouts, types):
        _check_types(layout, part_types, roles, ids)
        if layout.format == "jsonl" and has_suspect_lines(layout, roles):
            check_rows([layout], roles, ids)
    names = [layout.part.path.name for layout in layouts]
    strings = find_string_ids(names, types, ids, where)
    columns = _collect_narrow(layouts, types, roles, strings, where, collect_columns)
    _check_exact(layouts, columns, roles, ids)
    if any(columns[role].null_count() for role in columns if role in ID_ROLES):
        check_rows(layouts, roles, ids)
    return columns


def _collect_narrow(
    layouts: list[FileLayout],
    types: list[_Types],
    roles: Mapping[str, str],
    strings: set[str],
    where: str,
    collect_columns: CollectColumns,
) -> dict[str, pl.Series]:
    """Read all parts, with integer ids of 32 bits, or of 64; `InputError` if they fit neither."""
    import polars as pl

    for integer in (pl.Int32, pl.Int64):
        scan = _scan_typed(layouts, types, roles, strings=strings, integer=integer)
        with suppress(pl.exceptions.InvalidOperationError):
            return collect_columns(scan, {role: pl.col(role) for role in roles}, strings)
    raise InputError(
        f"{where} has ids beyond 63 bits; read them as strings, with the setting "
        f"{setting_ref('ids', 'string')} of the file."
    )


def _scan_typed(
    layouts: list[FileLayout],
    types: list[_Types],
    roles: Mapping[str, str],
    *,
    strings: set[str],
    integer: Any,
) -> pl.LazyFrame:
    """Scan all parts, with ids of the roles `strings` as strings and other ids as `integer`."""
    import polars as pl

    def select(role: str, dtype: Any) -> pl.Expr:
        column = convert_column(role, roles[role], dtype, is_string=role in strings)
        is_integer = role in ID_ROLES and role not in strings and dtype.is_integer()
        return column.cast(integer) if is_integer else column

    scans = []
    for layout, part_types in zip(layouts, types):
        if layout.format == "parquet":
            scan = scan_parquet(layout.part.plain)
        else:
            schema = {roles[role]: dtype for role, dtype in part_types.items()}
            path = glob.escape(str(layout.part.plain))  # polars reads names as patterns
            scan = pl.scan_ndjson(path, schema=schema)
        scans.append(scan.select(select(role, dtype) for role, dtype in part_types.items()))
    return pl.concat(scans)


def convert_column(role: str, name: str, dtype: Any, *, is_string: bool) -> pl.Expr:
    """Return the column of a role: ids as Int64 or, if `is_string`, String; numbers as Float64."""
    import polars as pl

    column = pl.col(name).alias(role)
    if is_string:
        return column.cast(pl.String)
    if role in ID_ROLES and dtype.is_integer():
        return column.cast(pl.Int64)
    if role in ID_ROLES:
        return column.cast(pl.String).cast(pl.Int64, strict=False)
    return column.cast(pl.Float64) if is_number_role(role) else column


def _column_type(layout: FileLayout, role: str, name: str) -> Any:
    """Return the polars type of a column; in JSON Lines from the types of its first values."""
    import polars as pl

    types = layout.types[name]
    if layout.format == "parquet":
        return types
    if is_number_role(role):
        return pl.Float64() if types <= {int, float, bool} else pl.String()
    if types == {list}:
        return _list_type(layout, name)
    dtypes = (
        ({int}, pl.Int64()),
        ({int, float}, pl.Float64()),
        ({bool}, pl.Boolean()),
        ({str}, pl.String()),
    )
    for kinds, dtype in dtypes:
        if types <= kinds:
            return dtype
    names = " and ".join(sorted(kind.__name__ for kind in types))
    raise InputError(
        f"{layout.part.path}: {name!r} is {names} in different lines; use one type in all lines."
    )


def _list_type(layout: FileLayout, name: str) -> pl.List:
    """Return the polars type of lists in JSON Lines, from the types of their first values."""
    import polars as pl

    inner = {type(value) for row in layout.sample for value in row.get(name) or ()}
    if inner and inner <= {int, float}:
        return pl.List(pl.Int64 if inner == {int} else pl.Float64)
    return pl.List(pl.String)


def _check_types(layout: FileLayout, types: _Types, roles: Mapping[str, str], ids: str) -> None:
    """Raise `InputError` for ids that are neither integers nor strings, and for non-numbers."""
    for role, dtype in types.items():
        if error := describe_wrong_type(role, dtype):
            if is_number_role(role):
                check_rows([layout], roles, ids)  # raises for JSON Lines
            first = _first_string(layout, roles[role], dtype)
            raise InputError(
                f"{layout.part.path}: the column {roles[role]!r} has the type {dtype}{first}; "
                f"{error}."
            )


def describe_wrong_type(role: str, dtype: Any) -> str:
    """Return the rule that the type of a column breaks; empty if there is none."""
    import polars as pl

    is_string = dtype in (pl.String, pl.Categorical) or isinstance(dtype, pl.Enum)
    if role in ID_ROLES and not (dtype.is_integer() or is_string):
        return f"{role} ids are integers or strings{hint_at_lists(dtype)}"
    if is_number_role(role) and not (dtype.is_numeric() or dtype == pl.Boolean):
        return f"a {role} must be a number"
    return ""


def _first_string(layout: FileLayout, name: str, dtype: Any) -> str:
    """Return the first value of a Parquet column of strings, for a message."""
    import polars as pl

    if dtype != pl.String:
        return ""
    values = collect(scan_parquet(layout.part.plain).select(name).head(1)).to_series()
    return f" (row 0: {values[0]!r})" if len(values) else ""


def find_string_ids(
    names: Sequence[str], types: Sequence[_Types], ids: str, where: str
) -> set[str]:
    """Return the roles with ids that are read as strings, by the types of the part files `names`.

    Raises `InputError` if ids are integers in one part and strings in another.
    """
    roles = [role for role in ID_ROLES if role in types[0]]
    if ids != "auto":
        return set(roles) if ids == "string" else set()
    for role in roles:
        _check_alike(names, [part[role] for part in types], role, where)
    return {role for role in roles if not types[0][role].is_integer()}


def _check_alike(names: Sequence[str], dtypes: Sequence[Any], role: str, where: str) -> None:
    """Raise `InputError` if ids are integers in one part file and strings in another."""
    kinds = ["integers" if dtype.is_integer() else "strings" for dtype in dtypes]
    for name, kind in zip(names, kinds):
        if kind != kinds[0]:
            raise InputError(
                f"{where}: {names[0]} has {kinds[0]} as {role} ids, {name} has {kind}. Use one "
                "type in all files, or read the ids as strings with the setting "
                f"{setting_ref('ids', 'string')} of the file."
            )


def _check_exact(
    layouts: list[FileLayout], columns: Mapping[str, pl.Series], roles: Mapping[str, str], ids: str
) -> None:
    """Raise `InputError` for integers that float64 has rounded."""
    large = {
        role: roles[role]
        for role in roles
        if is_number_role(role) and has_large_numbers(columns[role])
    }
    for layout in layouts if large else ():
        if layout.format == "jsonl" and has_long_integers(layout):
            check_rows([layout], roles, ids)
        if layout.format == "parquet":
            check_exact_columns(
                collect(scan_parquet(layout.part.plain).select(*large.values())),
                large,
                where=str(layout.part.path),
                row_name="row",
            )


def check_exact_columns(
    frame: pl.DataFrame, roles: Mapping[str, str], *, where: str, row_name: str, start: int = 0
) -> None:
    """Raise `InputError` for integers that float64 rounds, in the columns of some roles."""
    for role, name in roles.items():
        rows = find_inexact(frame[name] if is_number_role(role) else [])
        if len(rows):
            row = int(rows[0])
            location = f"{row_name} {start + row}"
            what = f"{where}: the column {name!r}"
            raise inexact_integers(what, location, frame[name][row], role)
