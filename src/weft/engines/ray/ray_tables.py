"""Tables that tasks read: Parquet files and Ray Datasets, split by user into pieces that lie in the
object store.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.readers.files import File
from weft.data.readers.paths import find_files
from weft.engines.partitioned.local_inputs import assign_roles
from weft.engines.partitioned.partitions import InputOrigin
from weft.engines.ray.ray_partitions import (
    RETRIES,
    Failed,
    attempted,
    first_line,
    from_arrow,
    own_errors,
    settle,
    to_arrow,
)
from weft.errors import EngineError, InputError

if TYPE_CHECKING:
    import polars as pl

_FILES_AT_ONCE = 64  # whose footers one task reads
_IDS = ("user", "item")


@dataclass(frozen=True)
class Span:
    """Consecutive rows of a Parquet file; `before`: how many rows of the table come before them."""

    path: str
    first: int
    rows: int
    before: int


@dataclass(frozen=True)
class Reading:
    """How to read rows of a table: the column of each role, and what becomes of it."""

    where: str
    columns: Mapping[str, str]
    strings: frozenset[str]  # ids that are, or become, strings; the others are integers
    numbered: bool = False  # lists as they stand: the number of a row is its rank

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of what is read."""
        return (*self.columns, *(("rank",) if self.numbered else ()))

    def _expressions(self, types: Mapping[str, Any]) -> list[pl.Expr]:
        """The columns under the names of their roles. Ids that are neither integers nor strings
        stay what they are.
        """
        import polars as pl

        chosen = []
        for role, name in self.columns.items():
            column, dtype = pl.col(name), types[name]
            if role in self.strings:
                column = column.cast(pl.String) if _is_text(dtype) or dtype.is_integer() else column
            elif role in _IDS:
                text = column.cast(pl.String).cast(pl.Int64, strict=False)
                column = (
                    column.cast(pl.Int64)
                    if dtype.is_integer()
                    else text
                    if _is_text(dtype)
                    else column
                )
            elif role != "label":
                column = column.cast(pl.Float64).fill_null(float("nan"))
            elif isinstance(dtype, (pl.Enum, pl.Categorical)):
                column = column.cast(pl.String)
            chosen.append(column.alias(role))
        return chosen

    def of_spans(self, spans: Sequence[Span]) -> pl.DataFrame:
        """Rows of Parquet files."""
        import polars as pl

        found = []
        for span in spans:
            try:
                frame = (
                    _scan(span.path)
                    .slice(span.first, span.rows)
                    .select(*dict.fromkeys(self.columns.values()))
                    .collect()
                )
            except (OSError, pl.exceptions.PolarsError) as error:
                raise InputError(
                    f"{self.where}: a task of Ray cannot read {span.path}: {first_line(error)}. "
                    "Files must be visible on every "
                    "machine of the cluster, and must not change meanwhile."
                ) from None
            if len(frame) != span.rows:
                raise InputError(
                    f"{self.where}: {span.path} has other rows than a moment ago; it must not "
                    "change meanwhile."
                )
            found.append(self.canonical(frame, f"{span.path}, row", span.first))
        frame = pl.concat(found) if len(found) > 1 else found[0]
        if not self.numbered:
            return frame
        before = spans[0].before
        return frame.with_columns(rank=pl.int_range(before, before + len(frame)).cast(pl.Float64))

    def canonical(self, frame: pl.DataFrame, at: str, first: int = 0) -> pl.DataFrame:
        """The same rows with the columns that play a role, by role; refuses missing ids and numbers
        that float64 does not hold.
        """
        import polars as pl

        try:
            found = frame.select(self._expressions(frame.schema))
        except pl.exceptions.InvalidOperationError:
            raise InputError(
                f"{self.where} has ids beyond 63 bits; read them as strings: weft.File(path, "
                "ids='string')."
            ) from None
        for role, name in self.columns.items():
            if role in _IDS and found[role].null_count():
                row = int(found[role].is_null().arg_true()[0])
                given = frame[name][row]
                if given is not None:
                    raise InputError(
                        f"{self.where}: the {role} id {given!r} is no integer, but ids='integer'."
                    )
                raise InputError(
                    f"{at} {first + row}: there is no {role} id (column {name!r}); every row needs "
                    "one."
                )
            is_number = role not in _IDS and role != "label"
            if is_number and frame.schema[name].is_integer() and (found[role].abs() > 2**53).any():
                raise InputError(
                    f"{self.where}: the column {name!r} has integers beyond 2**53, which float64 "
                    "cannot tell apart; rescale them."
                )
        return found


@dataclass(frozen=True)
class Rows:
    """A table that tasks read: how, and what each task takes, either spans of files or blocks in
    the object store.
    """

    reading: Reading
    rows: int
    files: Sequence[tuple[str, int]] = ()  # paths and rows
    blocks: Sequence[Any] = ()

    def shares(self, at_most: int) -> Iterator[tuple[tuple[Span, ...], tuple[Any, ...]]]:
        """What each task reads: about so many rows."""
        if not self.files:
            step = max(1, at_most * len(self.blocks) // max(1, self.rows))
            for start in range(0, len(self.blocks), step):
                yield (), tuple(self.blocks[start : start + step])
            return
        share: list[Span] = []
        room, before = at_most, 0
        for path, rows in self.files:
            if rows > room and share:
                yield tuple(share), ()
                share, room = [], at_most
            first = 0
            while rows - first > at_most:
                yield (Span(path, first, at_most, before + first),), ()
                first += at_most
            if rows or not self.rows:
                share.append(Span(path, first, rows - first, before + first))
            room, before = room - (rows - first), before + rows
        if share:
            yield tuple(share), ()


def _is_text(dtype: Any) -> bool:
    import polars as pl

    return isinstance(dtype, (pl.String, pl.Categorical, pl.Enum))


def _scan(path: str) -> pl.LazyFrame:
    import polars as pl

    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def split(reading: Reading, spans: Sequence[Span], parts: int, stamp: int, *blocks: Any) -> Any:
    """Read some rows, and give each part those of its users: an Arrow table each, or what went
    wrong.
    """
    pieces = attempted(_split, reading, spans, parts, stamp, *blocks)
    pieces = [pieces] * parts if isinstance(pieces, Failed) else pieces
    return pieces if parts > 1 else pieces[0]


def _split(
    reading: Reading, spans: Sequence[Span], parts: int, stamp: int, *blocks: Any
) -> list[Any]:
    import polars as pl

    if spans:
        frame = reading.of_spans(spans)
    else:
        frame = pl.concat(
            [reading.canonical(from_arrow(block), f"{reading.where}, row") for block in blocks]
        )
    return [to_arrow(piece) for piece in by_part(frame, parts, stamp)]


def by_part(frame: pl.DataFrame, parts: int, stamp: int) -> list[pl.DataFrame]:
    """The rows of each part, in order. A user is in the same part of every table, on every machine."""
    import polars as pl

    if stamp != stamp_of_hashes():
        raise EngineError(
            "the machines of the cluster have different versions of polars; install the same on "
            "all of them."
        )
    if parts == 1:
        return [frame]
    kind = pl.UInt16 if parts < 1 << 16 else pl.UInt32
    keyed = frame.with_columns((pl.col("user").hash(0) % parts).cast(kind).alias("weft part"))
    found = keyed.partition_by("weft part", as_dict=True, include_key=False, maintain_order=True)
    nothing = frame.clear()
    return [found.get((part,), nothing) for part in range(parts)]


def stamp_of_hashes() -> int:
    """By which two machines see that they hash alike."""
    import polars as pl

    hashes = [
        *pl.Series([-1, 0, 1, 2**40]).hash(0),
        *pl.Series(["", "weft", "a longer text, and é"]).hash(0),
    ]
    return sum(number * hashed for number, hashed in enumerate(hashes, start=1))


def head(reading: Reading, spans: Sequence[Span], *blocks: Any) -> Any:
    """The first rows, to see what ids are like."""
    settle()
    if spans:
        return reading.of_spans([replace(spans[0], rows=min(3, spans[0].rows))])
    found = (from_arrow(block).head(3) for block in blocks)
    first = next((frame for frame in found if len(frame)), None)
    return reading.canonical(
        from_arrow(blocks[0]).clear() if first is None else first, f"{reading.where}, row"
    )


# --------------------------------------------------------------------------------------------------


def is_dataset(given: Any) -> bool:
    """Whether this is a Ray Dataset; asked without importing ray.data."""
    return any(
        kind.__name__ == "Dataset" and kind.__module__.startswith("ray.data")
        for kind in type(given).__mro__
    )


def brought_here(dataset: Any, argument: str) -> pl.DataFrame | pl.Series:
    """All rows of a Dataset that is small; of items, their ids."""
    import polars as pl
    import ray

    frame = pl.concat([from_arrow(block) for block in ray.get(dataset.to_arrow_refs())])
    if argument != "items":
        return frame
    found, _ = assign_roles(frame.columns, argument, f"{argument} (a Ray Dataset)")
    return frame[found["item"]].unique(maintain_order=True)


def parquet_files(file: File, argument: str) -> list[str]:
    """The paths of the Parquet files that were given; none if they are of another format."""
    import ray

    if file.format not in (None, "parquet"):
        return []
    if "://" in file.address:
        with own_errors():
            found: list[str] = ray.get(
                ray.remote(max_retries=RETRIES)(_listed).remote(file.address, argument)
            )
        return found
    paths = find_files(file.path, f"{argument} ({file.path})")
    if file.format is None:
        with paths[0].open("rb") as stream:
            if stream.read(4) != b"PAR1":
                return []
    return [os.path.abspath(path) for path in paths]


def _listed(url: str, argument: str) -> list[str]:
    """The files that a URL means, in order."""
    import polars as pl

    if url.endswith((".parquet", ".pq")) and not glob.has_magic(url):
        return [url]
    try:
        named = pl.scan_parquet(
            url, hive_partitioning=False, include_file_paths="weft path"
        ).select("weft path")
        return sorted(named.unique().collect(engine="streaming").to_series().to_list())
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"{argument} ({url}) cannot be read as Parquet: {first_line(error)}."
        ) from None


def open_files(file: File, paths: Sequence[str], argument: str) -> tuple[Rows, InputOrigin]:
    """Parquet files as a table that tasks read. Whatever their footers tell to be wrong is refused."""
    import ray

    where = f"{argument} ({file.address})"
    some = [paths[start : start + _FILES_AT_ONCE] for start in range(0, len(paths), _FILES_AT_ONCE)]
    if len(some) == 1:
        found = _survey(paths, where)
    else:
        task = ray.remote(max_retries=RETRIES)(_survey)
        with own_errors():
            found = [
                one for few in ray.get([task.remote(few, where) for few in some]) for one in few
            ]
    _, first = found[0]
    for path, (_, types) in zip(paths, found):
        if list(types) != list(first):
            raise InputError(
                f"the parts of a folder must have the same columns: {paths[0]} has {list(first)}, "
                f"but {path} has {list(types)}."
            )
    columns, unread = assign_roles(list(first), argument, where, file.columns)
    for path, (_, types) in zip(paths, found):
        for role, name in columns.items():
            _refuse_type(role, name, types[name], path)
            if (
                role in _IDS
                and file.ids == "auto"
                and types[name].is_integer() != first[name].is_integer()
            ):
                kinds = [
                    "integers" if of[name].is_integer() else "strings" for of in (first, types)
                ]
                raise InputError(
                    f"{where}: {Path(paths[0]).name} has {kinds[0]} as {role} ids, "
                    f"{Path(path).name} has {kinds[1]}. Write them "
                    "alike, or read all as strings: weft.File(path, ids='string')."
                )
    numbers = [number for number, _ in found]
    table = Rows(
        _reading(argument, where, columns, first, file.ids),
        sum(numbers),
        files=list(zip(paths, numbers)),
    )
    return table, InputOrigin(where, file.address, unread, columns=table.reading.names)


def _survey(paths: Sequence[str], where: str) -> list[tuple[int, dict[str, Any]]]:
    """The number of rows and the types of the columns of Parquet files, from their footers."""
    import polars as pl

    found = []
    for path in paths:
        try:
            scan = _scan(path)
            found.append((int(scan.select(pl.len()).collect().item()), dict(scan.collect_schema())))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(
                f"{where}: {path} cannot be read as Parquet: {first_line(error)}."
            ) from None
    return found


def open_dataset(given: Any, argument: str) -> tuple[Rows, InputOrigin]:
    """A Ray Dataset as a table whose blocks tasks read where they lie."""
    import pyarrow

    where = f"{argument} (a Ray Dataset)"
    names = given.columns()
    if not names:
        raise InputError(f"{where} has no rows.")
    columns, unread = assign_roles(names, argument, where)
    if argument == "source" and not columns.keys() & {"score", "rank"}:
        raise InputError(
            f"{where} has the columns {names}: neither scores nor ranks. A Ray Dataset has no "
            "order in which its rows stand best "
            "first; add a column 'score' or 'rank'."
        )
    made = given.materialize()
    schema = made.schema()
    types = from_arrow(pyarrow.schema(list(zip(schema.names, schema.types))).empty_table()).schema
    for role, name in columns.items():
        _refuse_type(role, name, types[name], where)
    table = Rows(
        _reading(argument, where, columns, types), made.count(), blocks=made.to_arrow_refs()
    )
    return table, InputOrigin(where, None, unread, columns=table.reading.names)


def _reading(
    argument: str,
    where: str,
    columns: Mapping[str, str],
    types: Mapping[str, Any],
    ids: str = "auto",
) -> Reading:
    are_strings = {
        role
        for role, name in columns.items()
        if ids == "string" or (ids == "auto" and not types[name].is_integer())
    }
    in_order = argument == "source" and not columns.keys() & {"score", "rank"}
    return Reading(where, columns, frozenset(are_strings.intersection(_IDS)), in_order)


def _refuse_type(role: str, name: str, dtype: Any, where: str) -> None:
    import polars as pl

    if role in _IDS and not (dtype.is_integer() or _is_text(dtype)):
        raise InputError(
            f"{where}: the column {name!r} holds {dtype}; {role} ids are integers or strings."
        )
    if role in ("score", "rank", "rating") and not (dtype.is_numeric() or dtype == pl.Boolean):
        raise InputError(f"{where}: the column {name!r} holds {dtype}; a {role} must be a number.")
