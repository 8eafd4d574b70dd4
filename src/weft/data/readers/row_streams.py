"""Files that are read in batches of rows, because they do not fit into memory."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Collection, Iterator, Mapping
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

from weft.data.precision import EXACT_LIMIT
from weft.data.readers.paths import HEAD_BYTES, find_compression, find_files
from weft.data.readers.pipes import is_pipe
from weft.data.readers.roles import ID_ROLES, is_number_role
from weft.data.readers.scans import catch_panics, collect, scan_parquet

if TYPE_CHECKING:
    import polars as pl

_BATCH_ROWS = 1 << 20
_PACKED_ROW_BYTES = 4  # of a row of compressed text, about


def estimate_rows(path: Path, where: str) -> tuple[int, bool]:
    """Return the number of rows of a file or a folder, and whether all parts are Parquet.

    The number is exact for Parquet, else a guess; 0 for pipes and unreadable files."""
    import polars as pl

    if is_pipe(path):
        return 0, False  # its size is not known before it is read, which is possible only once
    total, are_parquet = 0, True
    for part in find_files(path, where):
        try:
            num_rows, is_parquet = _estimate_part(part)
        except (pl.exceptions.PolarsError, OSError, ValueError, TypeError):
            return 0, False  # damaged, which reading it reports, or a name that is not UTF-8
        total += num_rows
        are_parquet = are_parquet and is_parquet
    return total, are_parquet


def _estimate_part(part: Path) -> tuple[int, bool]:
    import polars as pl

    with part.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    if head.startswith(b"PAR1"):
        return collect(scan_parquet(part).select(pl.len())).item(), True
    size = part.stat().st_size
    if find_compression(head):
        return size // _PACKED_ROW_BYTES, False
    return size * max(1, head.count(b"\n")) // max(1, len(head)), False


class RowStream:
    """The rows of a file as a scan. `collect` takes the place of `collect_columns`.

    If they are `in_place`, rows are scanned in their own files, else in a temporary Parquet file.
    `frame` has a column for each role; it is None until `collect` is called.
    """

    def __init__(self, *, in_place: bool) -> None:
        self._in_place = in_place
        self.frame: pl.LazyFrame | None = None
        self.num_rows = 0
        self.has_invalid_numbers = False  # True if a number is missing or not finite

    def collect(
        self, scan: pl.LazyFrame, columns: Mapping[str, pl.Expr], strings: Collection[str]
    ) -> dict[str, pl.Series]:
        """Return a few rows that have every kind of error that any of the rows has.

        The checks of the readers have the same outcome for them as for all rows.
        """
        frame = scan.select(**columns)
        self.frame = frame = frame if self._in_place else self._write(frame)
        rows = self._find_examples(frame)
        return {name: rows[name] for name in columns}

    def _write(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        folder = tempfile.mkdtemp(prefix="weft-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder) / "rows.parquet"
        with catch_panics():
            frame.sink_parquet(path, compression="lz4")
        return scan_parquet(path)

    def _find_examples(self, frame: pl.LazyFrame) -> pl.DataFrame:
        import polars as pl

        schema = frame.collect_schema()
        suspects = _find_suspects(schema)
        numbers = [name for name in schema if is_number_role(name)]
        invalid = [~pl.col(name).is_finite().fill_null(False) for name in numbers]
        tests = [each.any().alias(str(number)) for number, each in enumerate((*invalid, *suspects))]
        facts = collect(frame.select(pl.len().alias("rows"), *tests)).row(0)
        self.num_rows = facts[0]
        self.has_invalid_numbers = any(facts[1 : 1 + len(invalid)])
        found = compress(suspects, facts[1 + len(invalid) :])
        examples = [frame.head(1), *(frame.filter(suspect).head(1) for suspect in found)]
        return collect(pl.concat(examples))

    def filter(self, rows: pl.Expr) -> pl.DataFrame:
        """Return some rows, with their numbers as the column `row`."""
        assert self.frame is not None
        return collect(self.frame.with_row_index("row").filter(rows))

    def distinct(self, role: str) -> pl.Series:
        """Return the distinct ids of a role, in any order."""
        assert self.frame is not None
        return collect(self.frame.select(role).unique())[role]

    def batches(self, columns: Mapping[str, pl.Expr]) -> Iterator[pl.DataFrame]:
        """Yield columns of the rows in their order, about a million rows at once."""
        assert self.frame is not None
        with catch_panics():
            yield from self.frame.select(**columns).collect_batches(
                chunk_size=_BATCH_ROWS, maintain_order=True, engine="streaming"
            )


def _find_suspects(schema: pl.Schema) -> list[pl.Expr]:
    """Return a condition for each kind of rows that the readers check one by one."""
    import polars as pl

    ids = [name for name in schema if name in ID_ROLES]
    suspects = [pl.col(name).is_null() for name in ids]
    suspects += [pl.col(name) == "" for name in ids if schema[name] == pl.String]
    suspects += [pl.col(name).abs() >= EXACT_LIMIT for name in schema if is_number_role(name)]
    if "irregular" in schema:
        suspects.append(pl.col("irregular"))
    return suspects
