"""Steps that the readers of all file formats share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.data.readers.role_assignment import UNTYPED_ROLES
from weft.data.readers.roles import ID_ROLES
from weft.errors import InputError

if TYPE_CHECKING:
    import polars as pl


def collect_columns(scan: pl.LazyFrame, columns: Mapping[str, pl.Expr]) -> dict[str, pl.Series]:
    """Return columns of a scan, each in one chunk of memory."""
    frame = scan.select(**columns).collect(engine="streaming")
    # One column after the other, so that there are never two copies of all columns.
    return {name: frame.drop_in_place(name).rechunk() for name in frame.columns}


def enum_of_strings(scan: pl.LazyFrame, column: pl.Expr) -> pl.Enum:
    """Return the type of a column of strings: its sorted values, so that codes are reproducible."""
    import polars as pl

    # Not `column.unique()` inside a select, which would hold the whole column in memory.
    values = scan.select(column.alias("id")).unique().collect(engine="streaming")["id"]
    return pl.Enum(values.drop_nulls().sort())


def check_no_missing_ids(columns: dict[str, pl.Series], where: str) -> None:
    """Raise `InputError` for rows without an id; replace missing numbers by NaN, as in frames."""
    for role, column in columns.items():
        if role in ID_ROLES and column.null_count():
            row = int(column.is_null().arg_true()[0])
            raise InputError(f"{where} has no {role} id in row {row}; every row needs one.")
        if role not in (*ID_ROLES, *UNTYPED_ROLES):
            columns[role] = column.fill_null(float("nan"))
