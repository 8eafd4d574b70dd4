"""Reading of delimited text with polars."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.data.precision import has_large_numbers
from weft.data.readers.column_reader import CollectColumns
from weft.data.readers.file_settings import SPACES
from weft.data.readers.layouts import TREC_COMMENT, FileLayout
from weft.data.readers.roles import ID_ROLES, is_number_role
from weft.data.readers.row_errors import (
    check_quotes,
    check_rows,
    has_long_integers,
    has_no_rows,
    has_quoted_field,
    has_short_lines,
    has_suspect_quotes,
)
from weft.data.readers.scans import FIELD_SEPARATOR, scan_lines
from weft.data.readers.text_rows import is_csv_separator

if TYPE_CHECKING:
    import polars as pl

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")  # canonical integers: 007, +7 and 7.0 are text
# Types of ids in text, by the next wider one that is tried if a type does not hold all ids.
_WIDER_TYPE = {"int32": "int64", "int64": "string"}


def read_text(
    layouts: list[FileLayout],
    roles: Mapping[str, str],
    ids: str,
    collect: CollectColumns,
) -> dict[str, pl.Series]:
    """Return the column of each role; raise `InputError` or a polars error for invalid rows."""
    import polars as pl

    if not layouts[0].sample and all(map(has_no_rows, layouts)):
        return {
            role: pl.Series(dtype=pl.Int64 if role in ID_ROLES else pl.Float64) for role in roles
        }
    scan = _TextScan(layouts, roles, ids, collect)
    for layout in layouts if scan.is_csv else ():
        if has_suspect_quotes(layout):
            check_quotes(layout)
    columns = scan.read()
    if _has_suspect_rows(columns, layouts, is_csv=scan.is_csv):
        check_rows(layouts, roles, ids)
    del columns["irregular"]
    if "label" in columns:
        columns["label"] = _cast_labels(columns["label"])
    return columns


def _has_suspect_rows(
    columns: Mapping[str, pl.Series], layouts: list[FileLayout], *, is_csv: bool
) -> bool:
    """True if rows may be short, without an id, or with a value that is no number or was rounded.

    `check_rows` decides.
    """
    is_irregular = columns["irregular"].any()  # in CSV also rows with an empty last field
    if is_irregular and (not is_csv or any(map(has_short_lines, layouts))):
        return True
    numbers = list(filter(is_number_role, columns))
    has_large = any(has_large_numbers(columns[role]) for role in numbers)
    if has_large and any(map(has_long_integers, layouts)):
        return True
    typed = {*numbers, *ID_ROLES} & columns.keys()
    return any(columns[role].null_count() for role in typed)


class _TextScan:
    """A scan over text files that starts with the fastest way to read them and can be relaxed."""

    def __init__(
        self,
        layouts: list[FileLayout],
        roles: Mapping[str, str],
        ids: str,
        collect: CollectColumns,
    ) -> None:
        self._layouts = layouts
        self._collect_columns = collect
        self._positions = {role: layouts[0].names.index(name) for role, name in roles.items()}
        self._id_types = {
            role: _guess_id_type(layouts[0].sample, position, ids)
            for role, position in self._positions.items()
            if role in ID_ROLES
        }
        self.is_csv = is_csv_separator(layouts[0].separator)
        self._parses_numbers = self.is_csv
        self._allows_quotes = True
        self._has_quoted_empty_ids = False

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
            if not (self._widen_id_types(columns) or self._drop_empty_ids(columns)):
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

    def _drop_empty_ids(self, columns: Mapping[str, pl.Series]) -> bool:
        """Read empty fields in quotes like those without, if ids are among them; False if not."""
        import polars as pl

        ids = [columns[role] for role, kind in self._id_types.items() if kind == "string"]
        texts = [one.dtype.categories if isinstance(one.dtype, pl.Enum) else one for one in ids]
        is_first = not self._has_quoted_empty_ids
        self._has_quoted_empty_ids = any((text == "").any() for text in texts)
        return is_first and self._has_quoted_empty_ids

    def _collect(self) -> dict[str, pl.Series]:
        import polars as pl

        scan = pl.concat([self._scan(layout) for layout in self._layouts])
        columns = {role: pl.col(str(position)) for role, position in self._positions.items()}
        for role, column in columns.items():
            if role in ID_ROLES:
                columns[role] = _cast_ids(column, self._id_types[role])
            elif is_number_role(role) and not self._parses_numbers:
                columns[role] = column.str.strip_chars().cast(pl.Float64, strict=False)
        columns["irregular"] = pl.col("irregular")
        strings = {role for role, kind in self._id_types.items() if kind == "string"}
        return self._collect_columns(scan.filter(~pl.col("is_empty")), columns, strings)

    def _scan(self, layout: FileLayout) -> pl.LazyFrame:
        """Scan columns "0", "1", ..., `is_empty`, and `irregular` (wrong number of fields?)."""
        import polars as pl

        if not self.is_csv:
            return _scan_lines(layout)
        numbers = set()
        if self._parses_numbers:
            numbers = {self._positions[role] for role in self._positions if is_number_role(role)}
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
        if self._has_quoted_empty_ids:
            scan = scan.with_columns(pl.col(pl.String).replace("", None))
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
