"""Tables that tasks of Ray read: Parquet files and Ray Datasets."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.readers.files import File
from weft.data.readers.paths import find_files
from weft.data.readers.pipes import is_pipe
from weft.data.readers.typed_files import (
    describe_wrong_type,
    find_string_ids,
)
from weft.engines.partitioned.local_inputs import assign_roles
from weft.engines.partitioned.parquet_rows import (
    RowReader,
    RowSpan,
    read_footers,
    split_files,
)
from weft.engines.partitioned.partitions import InputOrigin, first_line
from weft.engines.partitioned.user_split import split_by_user
from weft.engines.ray.ray_partitions import (
    RETRIES,
    TaskError,
    from_arrow,
    run_task,
    set_thread_counts,
    to_arrow,
    unwrap_ray_errors,
)
from weft.errors import InputError

if TYPE_CHECKING:
    pass

_FILES_PER_TASK = 64  # files of which one task reads the footers
_SAMPLE_ROWS = 3


@dataclass(frozen=True)
class RayTable:
    """A table that tasks read, from files or from blocks in the object store."""

    reader: RowReader
    num_rows: int
    files: Sequence[tuple[str, int]] = ()  # (path, number of rows)
    blocks: Sequence[Any] = ()

    def split(self, max_rows: int) -> Iterator[tuple[tuple[RowSpan, ...], tuple[Any, ...]]]:
        """Yield the spans and the blocks that each task reads, of about `max_rows` rows."""
        if not self.files:
            step = max(1, max_rows * len(self.blocks) // max(1, self.num_rows))
            for start in range(0, len(self.blocks), step):
                yield (), tuple(self.blocks[start : start + step])
            return
        for spans in split_files(self.files, max_rows):
            yield spans, ()


def split_rows(
    reader: RowReader, spans: Sequence[RowSpan], number: int, checksum: int, *blocks: Any
) -> Any:
    """Read some rows and split them by user: an Arrow table per partition, or an error for each."""
    pieces = run_task(_split_rows, reader, spans, number, checksum, *blocks)
    pieces = [pieces] * number if isinstance(pieces, TaskError) else pieces
    return pieces if number > 1 else pieces[0]


def _split_rows(
    reader: RowReader, spans: Sequence[RowSpan], number: int, checksum: int, *blocks: Any
) -> list[Any]:
    import polars as pl

    if spans:
        frame = reader.read_spans(spans)
    else:
        row_name = f"{reader.where}, row"
        frame = pl.concat([reader.convert(from_arrow(block), row_name) for block in blocks])
    return [to_arrow(piece) for piece in split_by_user(frame, number, checksum)]


def read_sample(reader: RowReader, spans: Sequence[RowSpan], *blocks: Any) -> Any:
    """Return the first rows, to check the types of ids."""
    set_thread_counts()
    if spans:
        return reader.read_spans([replace(spans[0], num_rows=min(_SAMPLE_ROWS, spans[0].num_rows))])
    frames = (from_arrow(block).head(_SAMPLE_ROWS) for block in blocks)
    first = next((frame for frame in frames if len(frame)), None)
    sample = from_arrow(blocks[0]).clear() if first is None else first
    return reader.convert(sample, f"{reader.where}, row")


# --------------------------------------------------------------------------------------------------


def is_dataset(data: Any) -> bool:
    """Return True for a Ray Dataset, without importing ray.data."""
    return any(
        kind.__name__ == "Dataset" and kind.__module__.startswith("ray.data")
        for kind in type(data).__mro__
    )


def collect_dataset(data: Any, argument: str) -> Any:
    """Return all rows of a small Dataset, of `items` the distinct ids; other data unchanged."""
    if not is_dataset(data):
        return data
    import polars as pl
    import ray

    frame = pl.concat([from_arrow(block) for block in ray.get(data.to_arrow_refs())])
    if argument != "items":
        return frame
    roles, _ = assign_roles(frame.columns, argument, f"{argument} (a Ray Dataset)")
    return frame[roles["item"]].unique(maintain_order=True)


def find_parquet_files(file: File, argument: str) -> list[str]:
    """Return the paths of Parquet files; an empty list for files of another format."""
    import ray

    if file.format not in (None, "parquet"):
        return []
    if "://" in file.address:
        task = ray.remote(max_retries=RETRIES)(_list_url)
        with unwrap_ray_errors():
            urls: list[str] = ray.get(task.remote(file.address, argument))
        return urls
    paths = find_files(file.path, f"{argument} ({file.path})")
    if is_pipe(file.path):  # read in this process, once
        return []
    if file.format is None:
        with paths[0].open("rb") as stream:
            if stream.read(4) != b"PAR1":
                return []
    return [os.path.abspath(path) for path in paths]


def _list_url(url: str, argument: str) -> list[str]:
    """Return the files of a URL, sorted."""
    import polars as pl

    if url.endswith((".parquet", ".pq")) and not glob.has_magic(url):
        return [url]
    column = "weft path"
    try:
        scan = pl.scan_parquet(url, hive_partitioning=False, include_file_paths=column)
        return sorted(
            scan.select(column).unique().collect(engine="streaming").to_series().to_list()
        )
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"{argument} ({url}) cannot be read as Parquet: {first_line(error)}."
        ) from None


def open_files(file: File, paths: Sequence[str], argument: str) -> tuple[RayTable, InputOrigin]:
    """Return Parquet files as a table; raise InputError if their schemas do not fit."""
    where = f"{argument} ({file.address})"
    footers = _read_all_footers(paths, where)
    _, first = footers[0]
    for path, (_, types) in zip(paths, footers):
        if list(types) != list(first):
            raise InputError(
                f"the parts of a folder must have the same columns: {paths[0]} has {list(first)}, "
                f"but {path} has {list(types)}."
            )
    columns, unused = assign_roles(list(first), argument, where, file.columns)
    part_types = [_column_types(columns, part, path) for path, (_, part) in zip(paths, footers)]
    strings = find_string_ids([Path(path).name for path in paths], part_types, file.ids, where)
    num_rows = [number for number, _ in footers]
    reader = _build_reader(argument, where, columns, strings)
    table = RayTable(reader, sum(num_rows), files=list(zip(paths, num_rows)))
    return table, InputOrigin(where, file.address, unused, columns=reader.names)


def _read_all_footers(paths: Sequence[str], where: str) -> list[tuple[int, dict[str, Any]]]:
    """Read the footers of Parquet files, in tasks if there are many."""
    import ray

    if len(paths) <= _FILES_PER_TASK:
        return read_footers(paths, where)
    task = ray.remote(max_retries=RETRIES)(read_footers)
    starts = range(0, len(paths), _FILES_PER_TASK)
    references = [task.remote(paths[start : start + _FILES_PER_TASK], where) for start in starts]
    with unwrap_ray_errors():
        return [footer for footers in ray.get(references) for footer in footers]


def open_dataset(data: Any, argument: str) -> tuple[RayTable, InputOrigin]:
    """Return a Ray Dataset as a table of its blocks."""
    import pyarrow

    where = f"{argument} (a Ray Dataset)"
    names = data.columns()
    if not names:
        raise InputError(f"{where} has no rows.")
    columns, unused = assign_roles(names, argument, where)
    if argument == "source" and not columns.keys() & {"score", "rank"}:
        raise InputError(
            f"{where} has the columns {names}, without scores or ranks. The rows of a Ray Dataset "
            "have no order; add a column 'score' or 'rank'."
        )
    dataset = data.materialize()
    schema = dataset.schema()
    types = from_arrow(pyarrow.schema(list(zip(schema.names, schema.types))).empty_table()).schema
    strings = find_string_ids([where], [_column_types(columns, types, where)], "auto", where)
    reader = _build_reader(argument, where, columns, strings)
    table = RayTable(reader, dataset.count(), blocks=dataset.to_arrow_refs())
    return table, InputOrigin(where, None, unused, columns=reader.names)


def _build_reader(
    argument: str, where: str, columns: Mapping[str, str], strings: set[str]
) -> RowReader:
    ranks_by_row = argument == "source" and not columns.keys() & {"score", "rank"}
    return RowReader(where, columns, frozenset(strings), ranks_by_row)


def _column_types(
    columns: Mapping[str, str], types: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Return the type of each role's column; raise InputError for one that does not fit."""
    for role, name in columns.items():
        if error := describe_wrong_type(role, types[name]):
            raise InputError(f"{where}: the column {name!r} has the type {types[name]}; {error}.")
    return {role: types[name] for role, name in columns.items()}
