"""Digests of the tables about users, which tie them to the JSON file of their result."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


class _HashingFile:
    """A file for writing that computes the SHA-256 digest of what is written.

    It keeps an error of the disk, which polars reports as a Parquet file out of specification."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self._file.flush()


def write_table(table: pl.DataFrame, file: IO[bytes]) -> str:
    """Write the table as Parquet and return the digest of the file; raises `OSError`."""
    import polars as pl

    hashing = _HashingFile(file)
    try:
        table.write_parquet(hashing)  # type: ignore[arg-type]  # it needs only write and flush
    except pl.exceptions.PolarsError:
        if hashing.error is None:
            raise
        raise hashing.error from None
    return f"sha256:{hashing.sha256.hexdigest()}"


def digest_table(path: Path) -> str:
    """Return the digest of a Parquet file, or of a folder of them with their names."""
    if not path.is_dir():
        return f"sha256:{_hexdigest(path)}"
    parts = sorted(path.glob("*.parquet"), key=lambda part: part.name)
    lines = "".join(f"{_hexdigest(part)}  {part.name}\n" for part in parts)
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def _hexdigest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
