"""Reading of delimited text files with polars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.data.readers.column_data import check_no_missing_ids, collect_columns, enum_of_strings
from weft.data.readers.layouts import INTEGER, SPACES, FileLayout, is_csv_separator
from weft.data.readers.role_assignment import UNTYPED_ROLES
from weft.data.readers.roles import ID_ROLES
from weft.data.readers.row_errors import check_rows, has_quoted_field

if TYPE_CHECKING:
    import polars as pl

_FIELD_SEPARATOR = "\x1f"  # a character that occurs in no text file
# Types of ids in text, by the next wider one that is tried if a type does not hold all ids.
_WIDER_TYPE = {"int32": "int64", "int64": "string"}


def read_text(
    layouts: list[FileLayout], roles: Mapping[str, str], ids: str, where: str
) -> dict[str, pl.Series]:
    """Return the column of each role; raise `InputError` or a polars error for invalid rows."""
    import polars as pl

    if not layouts[0].sample and all(map(_has_no_rows, layouts)):
        return {
            role: pl.Series(dtype=pl.Int64 if role in ID_ROLES else pl.Float64) for role in roles
        }
    scan = _TextScan(layouts, roles)
    types = {
        role: _guess_id_type(layouts[0].sample, scan.positions[role], ids)
        for role in roles
        if role in ID_ROLES
    }
    while True:
        try:
            columns = scan.collect(types)
        except pl.exceptions.PolarsError:
            if not scan.relax():
                raise
            continue
        if columns.pop("extra").any() and not scan.is_csv:
            check_rows(layouts, roles, ids)
        too_narrow = [
            role
            for role, kind in types.items()
            if columns[role].null_count() and kind in _WIDER_TYPE
        ]
        if not too_narrow:
            break
        types.update((role, _WIDER_TYPE[types[role]]) for role in too_narrow)
    if any(columns[role].null_count() for role in (*types, *scan.number_roles)):
        check_rows(layouts, roles, ids)  # short rows, missing ids, values that are no numbers
    check_no_missing_ids(columns, where)
    if "label" in columns:
        columns["label"] = _cast_labels(columns["label"])
    return columns


class _TextScan:
    """A scan over text files that starts with the fastest way to read them and can be relaxed."""

    def __init__(self, layouts: list[FileLayout], roles: Mapping[str, str]) -> None:
        self._layouts, self._roles = layouts, roles
        self.positions = {role: layouts[0].names.index(name) for role, name in roles.items()}
        self.number_roles = [role for role in roles if role not in (*ID_ROLES, *UNTYPED_ROLES)]
        self.is_csv = is_csv_separator(layouts[0].separator)
        self._parses_numbers = self.is_csv
        self._allows_quotes = True

    def relax(self) -> bool:
        """Read in a way that accepts more files; False if there is none."""
        if self._parses_numbers:
            self._parses_numbers = False  # numbers that polars' parser refuses, as with spaces
            return True
        if self._allows_quotes and not any(map(has_quoted_field, self._layouts)):
            self._allows_quotes = False  # quotes inside fields, such as inches
            return True
        return False

    def collect(self, types: Mapping[str, str]) -> dict[str, pl.Series]:
        """Return the column of each role, with ids of `types`, and `extra`; skip empty lines."""
        import polars as pl

        scan = pl.concat([self._scan(layout) for layout in self._layouts])
        ids = {role: pl.col(str(self.positions[role])) for role in types}
        columns = {role: _cast_ids(column, types[role], scan) for role, column in ids.items()}
        for role in self.number_roles:
            column = pl.col(str(self.positions[role]))
            if not self._parses_numbers:
                column = column.str.strip_chars().cast(pl.Float64, strict=False)
            columns[role] = column
        for role in UNTYPED_ROLES:
            if role in self._roles:
                columns[role] = pl.col(str(self.positions[role]))
        has_ids = ~pl.all_horizontal(column.is_null() for column in ids.values())
        return collect_columns(scan.filter(has_ids), {**columns, "extra": pl.col("extra")})

    def _scan(self, layout: FileLayout) -> pl.LazyFrame:
        """Scan columns "0", "1", ... and `extra`: whether a row may have more fields or fewer."""
        import polars as pl

        if not self.is_csv:
            return _scan_lines(layout)
        numbers = {self.positions[role] for role in self.number_roles if self._parses_numbers}
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
        return scan.with_columns(extra=pl.any_horizontal(pl.all().is_null()))


def _scan_lines(layout: FileLayout) -> pl.LazyFrame:
    """Scan lines and split them at spaces, or at a separator of several characters."""
    import polars as pl

    scan = pl.scan_csv(
        layout.part.plain,
        has_header=False,
        skip_rows=layout.num_skipped,
        separator=_FIELD_SEPARATOR,
        quote_char=None,
        schema={"line": pl.String},
        glob=False,
    )
    if layout.separator == SPACES:
        line = pl.col("line").str.strip_chars(" \t\r\n")
        line = line.str.replace_all(r"[ \t]+", _FIELD_SEPARATOR)
    else:
        line = pl.col("line").str.replace_all(layout.separator, _FIELD_SEPARATOR, literal=True)
    names = [str(number) for number in range(len(layout.names))]
    fields = line.str.split_exact(_FIELD_SEPARATOR, len(names))
    scan = scan.select(fields.struct.rename_fields([*names, "rest"]).alias("fields"))
    present = [pl.when(pl.col(name) != "").then(pl.col(name)).alias(name) for name in names]
    return scan.unnest("fields").select(*present, extra=pl.col("rest").is_not_null())


def _guess_id_type(sample: Sequence[Any], position: int, ids: str) -> str:
    """Return the narrowest type that may hold the ids of a column, from its first values."""
    if ids != "auto":
        return ids
    values = [row[position] for row in sample if len(row) > position]
    if not all(map(INTEGER.fullmatch, values)):
        return "string"
    return "int32" if all(len(value) < 10 for value in values) else "int64"


def _cast_ids(column: pl.Expr, kind: str, scan: pl.LazyFrame) -> pl.Expr:
    """Return ids of a type; null where a value does not fit integers."""
    import polars as pl

    if kind == "string":
        return column.cast(enum_of_strings(scan, column))
    if kind == "integer":
        return column.str.strip_chars().cast(pl.Int64, strict=False)
    # polars also reads 007, +7 and -0 as integers.
    has_leading_zero = column.str.starts_with("0") & (column.str.len_bytes() > 1)
    is_canonical = ~(has_leading_zero | column.str.contains(r"^(\+|-0)"))
    dtype = pl.Int32 if kind == "int32" else pl.Int64
    return pl.when(is_canonical).then(column.cast(dtype, strict=False))


def _has_no_rows(layout: FileLayout) -> bool:
    """True if only empty lines follow the header."""
    return all(
        not line.strip() for number, line in layout.part.lines() if number > layout.num_skipped
    )


def _cast_labels(labels: pl.Series) -> pl.Series:
    """Return labels as integers if all are canonical integers, else as strings."""
    import polars as pl

    values = labels.drop_nulls().unique()
    are_integers = all(INTEGER.fullmatch(label) and len(label) < 19 for label in values)
    return labels.cast(pl.Int64) if len(values) and are_integers else labels
