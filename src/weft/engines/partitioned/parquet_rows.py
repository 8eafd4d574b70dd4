"""Rows of Parquet files, read by workers with polars."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.data.readers.roles import ID_ROLES, NUMBER_ROLES
from weft.data.readers.typed_files import check_exact_columns, convert_column
from weft.data.recommendations import ROW_RANK_OFFSET
from weft.engines.partitioned.partitions import first_line
from weft.errors import InputError, setting_ref

if TYPE_CHECKING:
    import polars as pl

    from weft.engines.partitioned.user_ranges import UserRange


@dataclass(frozen=True)
class RowSpan:
    """Consecutive rows of a Parquet file; `offset` rows of the table precede them."""

    path: str
    start: int
    num_rows: int
    offset: int


@dataclass(frozen=True)
class RowReader:
    """Reads rows of a table: selects the column of each role and converts it."""

    where: str
    columns: Mapping[str, str]
    string_ids: frozenset[str]  # roles of ids that are read as strings; the others are integers
    ranks_by_row: bool = False  # row numbers are ranks: lists without scores and ranks

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the frames that are read."""
        return (*self.columns, "rank") if self.ranks_by_row else tuple(self.columns)

    def read_spans(self, spans: Sequence[RowSpan]) -> pl.DataFrame:
        """Read rows of Parquet files."""
        import polars as pl

        frames = [self._read_span(span) for span in spans]
        frame = pl.concat(frames) if len(frames) > 1 else frames[0]
        if not self.ranks_by_row:
            return frame
        first = spans[0].offset
        return frame.with_columns(rank=pl.int_range(first, first + len(frame)) + ROW_RANK_OFFSET)

    def read_users(self, span: RowSpan, users: UserRange) -> pl.DataFrame:
        """Read the rows of some users from a file; `span` is the whole file."""
        selected = scan_file(span.path).filter(users.contains(self.columns["user"]))
        frame = self._collect(selected, span.path)
        try:
            return self.convert(frame, f"{span.path}, row")
        except InputError:
            self._read_span(span)  # raises it with the number of the row
            raise

    def select(self, roles: Collection[str]) -> RowReader:
        """Return a reader of the columns of some roles."""
        columns = {role: name for role, name in self.columns.items() if role in roles}
        return replace(self, columns=columns)

    def _collect(self, scan: pl.LazyFrame, path: str) -> pl.DataFrame:
        import polars as pl

        names = dict.fromkeys(self.columns.values())
        try:
            return scan.select(*names).collect()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(
                f"{self.where}: a worker cannot read {path}: {first_line(error)}. Files must be "
                "accessible on every machine of the cluster, and must not change during the "
                "evaluation."
            ) from None

    def _read_span(self, span: RowSpan) -> pl.DataFrame:
        scan = scan_file(span.path).slice(span.start, span.num_rows)
        frame = self._collect(scan, span.path)
        if len(frame) != span.num_rows:
            raise InputError(
                f"{self.where}: {span.path} has changed; it must not change during the evaluation."
            )
        return self.convert(frame, f"{span.path}, row", span.start)

    def convert(self, frame: pl.DataFrame, row_name: str, start: int = 0) -> pl.DataFrame:
        """Return the columns by role.

        Raises InputError for missing ids and for integers that float64 does not represent;
        `row_name` and the row number, from `start`, name a row in messages.
        """
        import polars as pl

        types = {role: frame.schema[name] for role, name in self.columns.items()}
        try:
            converted = frame.select(
                convert_column(role, name, types[role], is_string=role in self.string_ids)
                for role, name in self.columns.items()
            )
        except pl.exceptions.InvalidOperationError:
            raise InputError(
                f"{self.where} has ids beyond 63 bits; read them as strings, with the setting "
                f"{setting_ref('ids', 'string')} of the file."
            ) from None
        check_exact_columns(frame, self.columns, where=self.where, row_name=row_name, start=start)
        for role in self.columns.keys() & set(ID_ROLES):
            self._check_ids(converted[role], frame[self.columns[role]], row_name, start)
        return converted.with_columns(
            pl.col(pl.Categorical, pl.Enum).cast(pl.String),  # labels
            *(pl.col(role).fill_null(float("nan")) for role in NUMBER_ROLES if role in types),
        )

    def _check_ids(self, ids: pl.Series, original: pl.Series, row_name: str, start: int) -> None:
        if not ids.null_count():
            return
        row = int(ids.is_null().arg_true()[0])
        if original[row] is not None:
            raise InputError(
                f"{self.where}: the {ids.name} id {original[row]!r} is not an integer, but the "
                f"setting is {setting_ref('ids', 'integer')}."
            )
        raise InputError(
            f"{row_name} {start + row}: there is no {ids.name} id (column {original.name!r}); "
            "every row needs one."
        )


@dataclass(frozen=True)
class ParquetTable:
    """A table in Parquet files, with the number of rows of each."""

    reader: RowReader
    files: Sequence[tuple[str, int]]

    @property
    def num_rows(self) -> int:
        """Rows of all files."""
        return sum(num_rows for _, num_rows in self.files)


def split_files(files: Sequence[tuple[str, int]], max_rows: int) -> Iterator[tuple[RowSpan, ...]]:
    """Yield spans of files, given with their numbers of rows, in groups of about `max_rows` rows.

    A table without rows has one group, from which its types are known.
    """
    group: list[RowSpan] = []
    room = max_rows
    for span in _cut_files(files, max_rows):
        if span.num_rows > room and group:
            yield tuple(group)
            group, room = [], max_rows
        group.append(span)
        room -= span.num_rows
    if group:
        yield tuple(group)


def _cut_files(files: Sequence[tuple[str, int]], max_rows: int) -> Iterator[RowSpan]:
    """Yield spans of at most `max_rows` rows; of a table without rows, those of its files."""
    offset, has_rows = 0, any(num_rows for _, num_rows in files)
    for path, num_rows in files:
        for start in range(0, num_rows if has_rows else 1, max_rows):
            yield RowSpan(path, start, min(max_rows, num_rows - start), offset + start)
        offset += num_rows


def scan_file(path: str) -> pl.LazyFrame:
    """Scan one Parquet file; its name is no pattern, and its folders are no columns."""
    import polars as pl

    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def read_footers(paths: Sequence[str], where: str) -> list[tuple[int, dict[str, Any]]]:
    """Return (number of rows, types of the columns) of Parquet files."""
    import polars as pl

    footers = []
    for path in paths:
        try:
            scan = scan_file(path)
            num_rows = int(scan.select(pl.len()).collect().item())
            footers.append((num_rows, dict(scan.collect_schema())))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(
                f"{where}: {path} cannot be read as Parquet: {first_line(error)}."
            ) from None
    return footers
