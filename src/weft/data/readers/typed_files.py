"""Reading of files with typed columns: Parquet and JSON Lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weft.data.readers.column_data import check_no_missing_ids, collect_columns, enum_of_strings
from weft.data.readers.layouts import FileLayout
from weft.data.readers.role_assignment import UNTYPED_ROLES
from weft.data.readers.roles import ID_ROLES
from weft.data.readers.row_errors import check_rows, raise_not_numeric
from weft.errors import InputError, setting_ref

if TYPE_CHECKING:
    import polars as pl

_Types = dict[str, Any]  # the polars type of each role's column
_EXACT_LIMIT = 2**53  # integers beyond it are rounded by float64


def read_typed(
    layouts: list[FileLayout], roles: Mapping[str, str], ids: str, where: str
) -> dict[str, pl.Series]:
    """Return the column of each role; raise `InputError` or a polars error for invalid rows."""
    import polars as pl

    types = [_column_types(layout, roles) for layout in layouts]
    _check_types(layouts, types, roles)
    if ids == "auto":
        _check_same_id_types(layouts, types, where)
    strings = {
        role
        for role in ID_ROLES
        if role in roles
        and (ids == "string" or (ids == "auto" and not types[0][role].is_integer()))
    }
    try:
        columns = _collect(layouts, types, roles, strings=strings, integer=pl.Int32)
    except pl.exceptions.InvalidOperationError:
        try:
            columns = _collect(layouts, types, roles, strings=strings, integer=pl.Int64)
        except pl.exceptions.InvalidOperationError:
            raise InputError(
                f"{where} has ids beyond 63 bits; read them as strings, with the setting "
                f"{setting_ref('ids', 'string')} of the file."
            ) from None
    _check_precision(columns, types, roles, where)
    if any(columns[role].null_count() for role in columns if role in ID_ROLES):
        check_rows(layouts, roles, ids)
    check_no_missing_ids(columns, where)
    return columns


def _collect(
    layouts: list[FileLayout],
    types: list[_Types],
    roles: Mapping[str, str],
    *,
    strings: set[str],
    integer: Any,
) -> dict[str, pl.Series]:
    """Read all parts, with ids of the roles `strings` as strings and other ids as `integer`."""
    import polars as pl

    scans = []
    for layout, part_types in zip(layouts, types):
        if layout.format == "parquet":
            scan = pl.scan_parquet(layout.part.plain, glob=False)
        else:
            schema = {roles[role]: part_types[role] for role in roles}
            scan = pl.scan_ndjson(layout.part.plain, schema=schema)
        selected = []
        for role, name in roles.items():
            column = pl.col(name).alias(role)
            if role in strings:
                column = column.cast(pl.String)
            elif role in ID_ROLES and not part_types[role].is_integer():
                column = column.cast(pl.String).cast(pl.Int64, strict=False)
            elif role in ID_ROLES:
                column = column.cast(integer)
            elif role not in UNTYPED_ROLES:
                column = column.cast(pl.Float64)
            selected.append(column)
        scans.append(scan.select(selected))
    scan = pl.concat(scans)
    columns = {role: pl.col(role) for role in roles}
    for role in strings:
        columns[role] = pl.col(role).cast(enum_of_strings(scan, pl.col(role)))
    return collect_columns(scan, columns)


def _column_types(layout: FileLayout, roles: Mapping[str, str]) -> _Types:
    if layout.format == "parquet":
        return {role: layout.types[name] for role, name in roles.items()}
    return {role: _json_type(layout, role, name) for role, name in roles.items()}


def _json_type(layout: FileLayout, role: str, name: str) -> Any:
    """Return the polars type of a column of JSON Lines, from the types of its first values."""
    import polars as pl

    types = layout.types[name]
    if role not in (*ID_ROLES, *UNTYPED_ROLES):
        return pl.Float64() if types <= {int, float, bool} else pl.String()
    if types == {list}:
        inner = {type(value) for row in layout.sample for value in row.get(name) or ()}
        return pl.List(pl.Int64 if inner == {int} else pl.String)
    choices = (
        (types <= {int}, pl.Int64()),
        (types <= {int, float}, pl.Float64()),
        (types == {bool}, pl.Boolean()),
        (types == {str}, pl.String()),
    )
    for is_match, dtype in choices:
        if is_match:
            return dtype
    kinds = " and ".join(sorted(kind.__name__ for kind in types))
    raise InputError(
        f"{layout.part.path}: {name!r} is {kinds} in different lines; write all in one way."
    )


def _check_types(layouts: list[FileLayout], types: list[_Types], roles: Mapping[str, str]) -> None:
    """Raise `InputError` for ids that are neither integers nor strings, and for non-numbers."""
    import polars as pl

    for layout, part_types in zip(layouts, types):
        for role, dtype in part_types.items():
            if role in ID_ROLES:
                is_string = dtype in (pl.String, pl.Categorical) or isinstance(dtype, pl.Enum)
                if not (dtype.is_integer() or is_string):
                    raise InputError(
                        f"{layout.part.path}: the column {roles[role]!r} holds {dtype}; {role} ids "
                        "are integers or strings."
                    )
            elif role not in UNTYPED_ROLES and not (dtype.is_numeric() or dtype == pl.Boolean):
                raise_not_numeric(layout.part, role, roles[role], dtype)


def _check_same_id_types(layouts: list[FileLayout], types: list[_Types], where: str) -> None:
    """Raise `InputError` if ids are integers in one part and strings in another."""
    for role in ID_ROLES:
        if role not in types[0]:
            continue
        kinds = ["integers" if part[role].is_integer() else "strings" for part in types]
        other = next((number for number, kind in enumerate(kinds) if kind != kinds[0]), None)
        if other is not None:
            raise InputError(
                f"{where}: {layouts[0].part.path.name} has {kinds[0]} as {role} ids, "
                f"{layouts[other].part.path.name} has {kinds[other]}. Write them alike, or "
                f"read all as strings, with the setting {setting_ref('ids', 'string')} of the file."
            )


def _check_precision(
    columns: dict[str, pl.Series], types: list[_Types], roles: Mapping[str, str], where: str
) -> None:
    """Raise `InputError` for integers that float64 rounds."""
    for role, column in columns.items():
        if role in (*ID_ROLES, *UNTYPED_ROLES) or not any(
            part[role].is_integer() for part in types
        ):
            continue
        if (column.abs() > _EXACT_LIMIT).any():
            raise InputError(
                f"{where}: the column {roles[role]!r} has integers beyond 2**53, which float64 "
                "cannot tell apart; rescale them."
            )
