"""Files of interactions, recommendation lists and labels: how to read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import InputError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class File:
    """A file, or a folder of parts, and what cannot be told from it.

    `columns` names what plays a role: `{"user": "visitor", "item": "sku"}`, or by position, from 0: `{"user": 0, "item": 2}`.
    """

    path: Path
    format: str | None = None
    separator: str | None = None
    header: bool | None = None
    columns: Mapping[str, str | int] = field(default_factory=dict)


def is_file(given: Any) -> bool:
    """Whether this names a file to read."""
    return isinstance(given, (str, Path, File))


def read_table(given: str | Path | File, where: str) -> pl.DataFrame:
    """A table with the columns that were found, under the names of their roles. `where` says what it is: "truth", "train"."""
    import polars as pl

    file = given if isinstance(given, File) else File(Path(given))
    if file.path.suffix == ".parquet":
        return pl.read_parquet(file.path)
    if file.path.suffix in (".csv", ".tsv", ".gz"):
        separator = file.separator or ("\t" if ".tsv" in file.path.suffixes else ",")
        return pl.read_csv(file.path, separator=separator, has_header=file.header is not False)
    raise InputError(f"{where}: {file.path} is not a file that can be read; expected CSV, TSV or Parquet.")
