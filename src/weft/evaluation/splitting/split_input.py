"""Interactions to split, from a file or a frame, with all their columns."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from weft.data.frames import is_frame, open_frame
from weft.data.readers.file_settings import File
from weft.data.readers.files import FileTable, name_columns, read_table
from weft.data.readers.layouts import FileLayout
from weft.data.readers.paths import find_files
from weft.data.readers.role_assignment import assign_frame_roles
from weft.data.readers.roles import ID_ROLES
from weft.data.readers.row_streams import RowStream, estimate_rows
from weft.data.readers.scans import catch_panics, collect, scan_parquet
from weft.data.readers.typed_files import convert_column, describe_wrong_type
from weft.errors import InputError, describe_type, plain_text

WHERE = "interactions"
_MAX_ROWS_SHOWN = 3
_MASK = "is in the part"  # a column in addition to those of the data


@dataclass(frozen=True)
class SplitInput:
    """Interactions with all their columns, which are scanned whenever they are needed.

    `keys` has the columns user, item and, if there is one, timestamp. `verbatim` has the columns of
    the data as they are written there, `typed` with ratings as numbers; rows have the same order.
    """

    where: str  # the data in messages
    keys: pl.LazyFrame
    verbatim: pl.LazyFrame
    typed: pl.LazyFrame
    roles: Mapping[str, str]  # the name of each column with a role
    layout: FileLayout | None = None  # of files
    paths: tuple[Path, ...] = ()  # of files; the plain content of a pipe
    path: Path | None = None  # as it was given
    locate_rows: Callable[[Sequence[int]], list[str]] = field(
        default=lambda rows: [f"row {row}" for row in rows]
    )
    owners: tuple[Any, ...] = ()  # objects that remove temporary files when they are not used

    def describe_rows(self, rows: Sequence[int]) -> str:
        """Return the location of the first of some rows: "line 17, line 20, ..."."""
        shown = ", ".join(self.locate_rows(rows[:_MAX_ROWS_SHOWN]))
        return shown + (", ..." if len(rows) > _MAX_ROWS_SHOWN else "")

    def digest(self) -> str | None:
        """Return the digest of the files, None for frames."""
        return digest_files(self.paths) if self.paths else None

    def check_ids(self) -> None:
        """Raise `InputError` for rows without a user or an item."""
        for role in ID_ROLES:
            missing = find_rows(self.keys, pl.col(role).is_null())
            if missing:
                raise InputError(
                    f"{self.where} has no {role} id in {self.describe_rows(missing)}; every row "
                    "needs one."
                )

    def check_ratings(self) -> None:
        """Raise `InputError` for ratings in text that are no numbers."""
        name = self.roles.get("rating")
        if name is None or self.verbatim is self.typed:
            return
        rating = pl.col(name)
        if self.verbatim.collect_schema()[name] != pl.String:
            return
        wrong = find_rows(self.verbatim, rating.is_not_null() & parse_number(rating).is_null())
        if wrong:
            raise InputError(
                f"{self.where} has a {name!r} that is not a number in {self.describe_rows(wrong)}."
            )


def parse_number(column: pl.Expr) -> pl.Expr:
    """Return text as numbers, null where it is none."""
    return column.str.strip_chars().cast(pl.Float64, strict=False)


def find_rows(frame: pl.LazyFrame, condition: pl.Expr) -> list[int]:
    """Return the numbers of the first rows that meet a condition, one more than are shown."""
    rows = frame.select(is_found=condition).with_row_index("row").filter("is_found").select("row")
    return collect(rows.head(_MAX_ROWS_SHOWN + 1))["row"].to_list()


def filter_rows(frame: pl.LazyFrame, mask: pl.Series) -> pl.LazyFrame:
    """Return the rows of a mask `[rows]`, in their order."""
    masked = pl.concat([frame, mask.alias(_MASK).to_frame().lazy()], how="horizontal")
    return masked.filter(_MASK).drop(_MASK)


def digest_files(paths: Sequence[Path]) -> str:
    """Return the SHA-256 digest of a file, or of the digests and names of several."""
    digests = []
    for path in paths:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    if len(paths) == 1:
        return f"sha256:{digests[0]}"
    lines = "".join(f"{digest}  {plain_text(path.name)}\n" for digest, path in zip(digests, paths))
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


# --------------------------------------------------------------------------------------------------


def open_input(data: Any) -> SplitInput:
    """Return interactions from a path, a `File` or a frame; raise `InputError` for others."""
    if isinstance(data, (str, Path, File)):
        opened = _open_file(data if isinstance(data, File) else File(Path(data)))
    elif is_frame(data):
        opened = _open_frame(data)
    else:
        raise InputError(
            f"{WHERE} is {describe_type(data)}; expected a path, a weft.File, or a polars or "
            "pandas frame (user, item, rating, timestamp)."
        )
    opened.check_ids()
    opened.check_ratings()
    return opened


def _open_file(file: File) -> SplitInput:
    are_parquet = estimate_rows(file.path, f"{WHERE} ({file.path})")[1]
    rows = RowStream(in_place=are_parquet)
    table = read_table(file, WHERE, use="timed", collect=rows.collect, verbatim=True)
    layout = table.layout
    assert layout is not None
    if not len(next(iter(table.columns.values()))):
        raise InputError(f"{table.where} has no rows.")
    # One JSON object is read into memory.
    frame = pl.DataFrame(dict(table.columns)).lazy() if rows.frame is None else rows.frame
    keys = frame.select(role for role in (*ID_ROLES, "timestamp") if role in table.columns)
    paths = (table.pipe.plain,) if table.pipe else tuple(find_files(file.path, table.where))
    verbatim, typed, roles = _file_columns(table, layout, frame)
    if are_parquet:
        verbatim = typed = pl.concat(
            [scan_parquet(path) for path in paths], how="vertical_relaxed"
        ).select(layout.names)
    return SplitInput(
        table.where,
        keys,
        verbatim,
        typed,
        roles,
        layout,
        paths,
        file.path,
        table.locate_rows,
        (rows, table),
    )


def _file_columns(
    table: FileTable, layout: FileLayout, frame: pl.LazyFrame
) -> tuple[pl.LazyFrame, pl.LazyFrame, dict[str, str]]:
    """Return the columns as they are written, with types, and the names of those with a role.

    Columns without a header are named after their roles, so that the parts can be read by name.
    """
    if layout.format == "json":
        named = frame.select(*table.columns)
        return named, named, {role: role for role in table.columns}
    names = {name: name for name in layout.names}
    if not layout.has_header:
        names |= {name: role for role, name in table.roles.items()}
    internal = name_columns(layout.names, table.roles)
    verbatim = frame.select(pl.col(key).alias(names[name]) for key, name in internal.items())
    roles = {role: names[name] for role, name in table.roles.items()}
    return verbatim, _type_columns(verbatim, roles, layout), roles


def _type_columns(
    verbatim: pl.LazyFrame, roles: Mapping[str, str], layout: FileLayout
) -> pl.LazyFrame:
    """Return columns with integer ids of 64 bits, and text of ratings and times as numbers."""
    schema = verbatim.collect_schema()
    casts = [
        pl.col(roles[role]).cast(pl.Int64) for role in ID_ROLES if schema[roles[role]].is_integer()
    ]
    if layout.format == "text" and "rating" in roles:
        casts.append(parse_number(pl.col(roles["rating"])).alias(roles["rating"]))
    if layout.format == "text" and "timestamp" in roles:
        casts += _time_casts(verbatim, roles["timestamp"])
    return verbatim.with_columns(casts)


def _time_casts(verbatim: pl.LazyFrame, name: str) -> list[pl.Expr]:
    """Return the cast of a column of times to integers or else numbers, none if they are text."""
    time, types = pl.col(name), {"integer": pl.Int64, "number": pl.Float64}
    failures = collect(
        verbatim.select(
            time.cast(dtype, strict=False).is_null().any().alias(kind)
            for kind, dtype in types.items()
        )
    ).row(0, named=True)
    return [time.cast(dtype) for kind, dtype in types.items() if not failures[kind]][:1]


def _open_frame(data: Any) -> SplitInput:
    owners: tuple[Any, ...] = ()
    if isinstance(data, pl.LazyFrame):
        # A query may give its rows in another order when it runs again.
        folder = _TemporaryFolder()
        path, owners = folder.path / "rows.parquet", (folder,)
        with catch_panics():
            data.sink_parquet(path, compression="lz4")
        frame = scan_parquet(path)
    elif isinstance(data, pl.DataFrame):
        frame = data.lazy()
    else:
        columns, get_column = open_frame(data, WHERE)
        frame = pl.DataFrame({name: pl.Series(get_column(name)) for name in columns}).lazy()
    schema = frame.collect_schema()
    roles, _ = assign_frame_roles(schema.names(), {}, "timed", WHERE)
    for role in ID_ROLES:
        if error := describe_wrong_type(role, schema[roles[role]]):
            name = roles[role]
            raise InputError(f"{WHERE}: the column {name!r} has the type {schema[name]}; {error}.")
    if not collect(frame.select(pl.len())).item():
        raise InputError(f"{WHERE} has no rows.")
    keys = frame.select(
        convert_column(
            role, roles[role], schema[roles[role]], is_string=not schema[roles[role]].is_integer()
        )
        if role in ID_ROLES
        else pl.col(roles[role]).alias(role)
        for role in (*ID_ROLES, "timestamp")
        if role in roles
    )
    return SplitInput(WHERE, keys, frame, frame, roles, owners=owners)


class _TemporaryFolder:
    """A folder that is removed with this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="weft-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
