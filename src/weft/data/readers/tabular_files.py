"""Reading of delimited text, Parquet and JSON Lines with polars."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from weft.data.readers.column_reader import collect_columns
from weft.data.readers.file_settings import SPACES
from weft.data.readers.layouts import TREC_COMMENT, FileLayout, is_csv_separator
from weft.data.readers.paths import FIELD_SEPARATOR, scan_lines
from weft.data.readers.roles import ID_ROLES, NUMBER_ROLES
from weft.data.readers.row_errors import (
    check_rows,
    has_no_rows,
    has_quoted_field,
    has_short_lines,
    has_suspect_lines,
)
from weft.errors import InputError, setting_ref

if TYPE_CHECKING:
    import polars as pl

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")  # canonical integers: 007, +7 and 7.0 are text
# Types of ids in text, by the next wider one that is tried if a type does not hold all ids.
_WIDER_TYPE = {"int32": "int64", "int64": "string"}
_EXACT_LIMIT = 2**53  # integers beyond it are rounded by float64
_Types = dict[str, Any]  # the polars type of each role's column


def read_text(
    layouts: list[FileLayout], roles: Mapping[str, str], ids: str, where: str
) -> dict[str, pl.Series]:
    """Return the column of each role; raise `InputError` or a polars error for invalid rows."""
    import polars as pl

    if not layouts[0].sample and all(map(has_no_rows, layouts)):
        return {
            role: pl.Series(dtype=pl.Int64 if role in ID_ROLES else pl.Float64) for role in roles
        }
    scan = _TextScan(layouts, roles, ids)
    columns = scan.read()
    is_irregular = columns.pop("irregular").any()
    if is_irregular and scan.is_csv:  # short rows, or only empty fields
        is_irregular = any(map(has_short_lines, layouts))
    typed = (column for role, column in columns.items() if role in (*ID_ROLES, *NUMBER_ROLES))
    if is_irregular or any(column.null_count() for column in typed):
        check_rows(layouts, roles, ids)  # short rows, missing ids, values that are no numbers
    if "label" in columns:
        columns["label"] = _cast_labels(columns["label"])
    return columns


class _TextScan:
    """A scan over text files that starts with the fastest way to read them and can be relaxed."""

    def __init__(self, layouts: list[FileLayout], roles: Mapping[str, str], ids: str) -> None:
        self._layouts = layouts
        self._positions = {role: layouts[0].names.index(name) for role, name in roles.items()}
        self._id_types = {
            role: _guess_id_type(layouts[0].sample, position, ids)
            for role, position in self._positions.items()
            if role in ID_ROLES
        }
        self.is_csv = is_csv_separator(layouts[0].separator)
        self._parses_numbers = self.is_csv
        self._allows_quotes = True

    def read(self) -> dict[str, pl.Series]:
        """Return the column of each role, and `irregular`; see `_scan`. Empty rows are skipped."""
        import polars as pl

        while True:
            try:
                columns = self._collect()
            except pl.exceptions.PolarsError:
                if not self._relax():
                    raise
                continue
            if not self._widen_id_types(columns):
                return columns

    def _relax(self) -> bool:
        """Read in a way that accepts more files; False if there is none."""
        if self._parses_numbers:
            self._parses_numbers = False  # numbers that polars' parser refuses, as with spaces
            return True
        if self._allows_quotes and not any(map(has_quoted_field, self._layouts)):
            self._allows_quotes = False  # quotes inside fields, such as inches
            return True
        return False

    def _widen_id_types(self, columns: Mapping[str, pl.Series]) -> bool:
        """Use wider types for ids that did not fit; False if all did."""
        too_narrow = [
            role
            for role, kind in self._id_types.items()
            if columns[role].null_count() and kind in _WIDER_TYPE
        ]
        self._id_types.update((role, _WIDER_TYPE[self._id_types[role]]) for role in too_narrow)
        return bool(too_narrow)

    def _collect(self) -> dict[str, pl.Series]:
        import polars as pl

        scan = pl.concat([self._scan(layout) for layout in self._layouts])
        columns = {role: pl.col(str(position)) for role, position in self._positions.items()}
        for role, column in columns.items():
            if role in ID_ROLES:
                columns[role] = _cast_ids(column, self._id_types[role])
            elif role in NUMBER_ROLES and not self._parses_numbers:
                columns[role] = column.str.strip_chars().cast(pl.Float64, strict=False)
        columns["irregular"] = pl.col("irregular")
        strings = {role for role, kind in self._id_types.items() if kind == "string"}
        return collect_columns(scan.filter(~pl.col("is_empty")), columns, strings)

    def _scan(self, layout: FileLayout) -> pl.LazyFrame:
        """Scan columns "0", "1", ..., `is_empty`, and `irregular` (wrong number of fields?)."""
        import polars as pl

        if not self.is_csv:
            return _scan_lines(layout)
        numbers = set()
        if self._parses_numbers:
            numbers = {self._positions[role] for role in NUMBER_ROLES if role in self._positions}
        scan = pl.scan_csv(
            layout.part.plain,
            has_header=False,
            skip_rows=layout.num_skipped,
            separator=layout.separator,
            quote_char='"' if self._allows_quotes else None,
            schema={
                str(number): pl.Float64 if number in numbers else pl.String
                for number in range(len(layout.names))
            },
            glob=False,
        )
        # All columns are selected: only then polars refuses rows with more fields.
        return scan.with_columns(
            is_empty=pl.all_horizontal(pl.all().is_null()),
            irregular=pl.col(str(len(layout.names) - 1)).is_null(),
        )


def _scan_lines(layout: FileLayout) -> pl.LazyFrame:
    """Scan lines and split them at spaces, or at a separator of several characters."""
    import polars as pl

    scan = scan_lines(layout.part.plain, layout.num_skipped)
    if layout.trec:
        scan = scan.filter(~pl.col("line").str.starts_with(TREC_COMMENT))
    if layout.separator == SPACES:
        line = pl.col("line").str.strip_chars(" \t\r\n")
        line = line.str.replace_all(r"[ \t]+", FIELD_SEPARATOR)
    else:
        line = pl.col("line").str.replace_all(layout.separator, FIELD_SEPARATOR, literal=True)
    names = [str(number) for number in range(len(layout.names))]
    fields = line.str.split_exact(FIELD_SEPARATOR, len(names))
    scan = scan.select(fields.struct.rename_fields([*names, "rest"]).alias("fields"))
    present = [pl.when(pl.col(name) != "").then(pl.col(name)).alias(name) for name in names]
    is_long = pl.col("rest").is_not_null() & pl.lit(not layout.has_open_end)
    irregular = is_long | pl.col(names[-1]).is_null()
    scan = scan.unnest("fields").select(*present, irregular=irregular)
    return scan.with_columns(is_empty=pl.all_horizontal(pl.col(names).is_null()))


def _guess_id_type(sample: Sequence[Any], position: int, ids: str) -> str:
    """Return the narrowest type that may hold the ids of a column, from its first values."""
    if ids != "auto":
        return ids
    values = [row[position] for row in sample if len(row) > position]
    if not all(map(_INTEGER.fullmatch, values)):
        return "string"
    return "int32" if all(len(value) < 10 for value in values) else "int64"


def _cast_ids(column: pl.Expr, kind: str) -> pl.Expr:
    """Return ids of a type; null where a value does not fit integers."""
    import polars as pl

    if kind == "string":
        return column
    if kind == "integer":
        return column.str.strip_chars().cast(pl.Int64, strict=False)
    # polars also reads 007, +7 and -0 as integers.
    has_leading_zero = column.str.starts_with("0") & (column.str.len_bytes() > 1)
    is_canonical = ~(has_leading_zero | column.str.contains(r"^(\+|-0)"))
    dtype = pl.Int32 if kind == "int32" else pl.Int64
    return pl.when(is_canonical).then(column.cast(dtype, strict=False))


def _cast_labels(labels: pl.Series) -> pl.Series:
    """Return labels as integers if all are canonical integers, else as strings."""
    import polars as pl

    values = labels.drop_nulls().unique()
    are_integers = all(_INTEGER.fullmatch(label) and len(label) < 19 for label in values)
    return labels.cast(pl.Int64) if len(values) and are_integers else labels


def read_typed(
    layouts: list[FileLayout], roles: Mapping[str, str], ids: str, where: str
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
    columns = _collect_narrow(layouts, types, roles, strings, where)
    check_precision(columns, types, roles, where)
    if any(columns[role].null_count() for role in columns if role in ID_ROLES):
        check_rows(layouts, roles, ids)
    return columns


def _collect_narrow(
    layouts: list[FileLayout],
    types: list[_Types],
    roles: Mapping[str, str],
    strings: set[str],
    where: str,
) -> dict[str, pl.Series]:
    """Read all parts, with integer ids of 32 bits, or of 64 if they do not fit."""
    import polars as pl

    for integer in (pl.Int32, pl.Int64):
        with suppress(pl.exceptions.InvalidOperationError):
            return _collect_typed(layouts, types, roles, strings=strings, integer=integer)
    raise InputError(
        f"{where} has ids beyond 63 bits; read them as strings, with the setting "
        f"{setting_ref('ids', 'string')} of the file."
    )


def _collect_typed(
    layouts: list[FileLayout],
    types: list[_Types],
    roles: Mapping[str, str],
    *,
    strings: set[str],
    integer: Any,
) -> dict[str, pl.Series]:
    """Read all parts, with ids of the roles `strings` as strings and other ids as `integer`."""
    import polars as pl

    def select(role: str, dtype: Any) -> pl.Expr:
        column = convert_column(role, roles[role], dtype, is_string=role in strings)
        is_integer = role in ID_ROLES and role not in strings and dtype.is_integer()
        return column.cast(integer) if is_integer else column

    scans = []
    for layout, part_types in zip(layouts, types):
        if layout.format == "parquet":
            scan = pl.scan_parquet(layout.part.plain, glob=False)
        else:
            schema = {roles[role]: dtype for role, dtype in part_types.items()}
            path = glob.escape(str(layout.part.plain))  # polars reads names as patterns
            scan = pl.scan_ndjson(path, schema=schema)
        scans.append(scan.select(select(role, dtype) for role, dtype in part_types.items()))
    scan = pl.concat(scans)
    return collect_columns(scan, {role: pl.col(role) for role in roles}, strings)


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
    return column.cast(pl.Float64) if role in NUMBER_ROLES else column


def _column_type(layout: FileLayout, role: str, name: str) -> Any:
    """Return the polars type of a column; in JSON Lines from the types of its first values."""
    import polars as pl

    types = layout.types[name]
    if layout.format == "parquet":
        return types
    if role in NUMBER_ROLES:
        return pl.Float64() if types <= {int, float, bool} else pl.String()
    if types == {list}:
        inner = {type(value) for row in layout.sample for value in row.get(name) or ()}
        return pl.List(pl.Int64 if inner == {int} else pl.String)
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
        f"{layout.part.path}: {name!r} is {names} in different lines; write all in one way."
    )


def _check_types(layout: FileLayout, types: _Types, roles: Mapping[str, str], ids: str) -> None:
    """Raise `InputError` for ids that are neither integers nor strings, and for non-numbers."""
    for role, dtype in types.items():
        if error := describe_wrong_type(role, dtype):
            if role in NUMBER_ROLES:
                check_rows([layout], roles, ids)  # raises for JSON Lines
            first = _first_string(layout, roles[role], dtype)
            raise InputError(
                f"{layout.part.path}: the column {roles[role]!r} holds {dtype}{first}; {error}."
            )


def describe_wrong_type(role: str, dtype: Any) -> str:
    """Return the rule that the type of a column breaks; empty if there is none."""
    import polars as pl

    is_string = dtype in (pl.String, pl.Categorical) or isinstance(dtype, pl.Enum)
    if role in ID_ROLES and not (dtype.is_integer() or is_string):
        return f"{role} ids are integers or strings"
    if role in NUMBER_ROLES and not (dtype.is_numeric() or dtype == pl.Boolean):
        return f"a {role} must be a number"
    return ""


def _first_string(layout: FileLayout, name: str, dtype: Any) -> str:
    """Return the first value of a Parquet column of strings, for a message."""
    import polars as pl

    if dtype != pl.String:
        return ""
    scan = pl.scan_parquet(layout.part.plain, glob=False)
    values = scan.select(name).head(1).collect().to_series()
    return f" (row 0: {values[0]!r})" if len(values) else ""


def find_string_ids(
    names: Sequence[str], types: Sequence[_Types], ids: str, where: str
) -> set[str]:
    """Return the roles whose ids are read as strings, by the types of the part files `names`.

    Raises `InputError` if ids are integers in one part and strings in another.
    """
    roles = [role for role in ID_ROLES if role in types[0]]
    if ids != "auto":
        return set(roles) if ids == "string" else set()
    for role in roles:
        kinds = ["integers" if part[role].is_integer() else "strings" for part in types]
        other = next((number for number, kind in enumerate(kinds) if kind != kinds[0]), None)
        if other is not None:
            raise InputError(
                f"{where}: {names[0]} has {kinds[0]} as {role} ids, {names[other]} has "
                f"{kinds[other]}. Write them alike, or read all as strings, with the setting "
                f"{setting_ref('ids', 'string')} of the file."
            )
    return {role for role in roles if not types[0][role].is_integer()}


def check_precision(
    columns: Mapping[str, pl.Series], types: Sequence[_Types], roles: Mapping[str, str], where: str
) -> None:
    """Raise `InputError` for integers that float64 rounds."""
    for role in NUMBER_ROLES:
        if role not in roles or not any(part[role].is_integer() for part in types):
            continue
        if (columns[role].abs() > _EXACT_LIMIT).any():
            raise InputError(
                f"{where}: the column {roles[role]!r} has integers beyond 2**53, which float64 "
                "cannot tell apart; rescale them."
            )
