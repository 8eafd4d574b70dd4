"""All inputs in one Spark table, with all rows of a user in one partition.

Tasks split the rows of each input by user into pieces, one for each partition, and Spark shuffles
the pieces: a binary value for thousands of rows, not the rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.engines.partitioned.parquet_rows import RowReader, RowSpan, split_files
from weft.engines.partitioned.partitions import ALL_USERS, Partition, PartitionFailure
from weft.engines.partitioned.user_split import hash_checksum, split_by_user
from weft.engines.spark.sessions import ignore_pandas_warning
from weft.engines.spark.spark_columns import ID_ROLES, ID_TYPES, POLARS_TYPES, column_by_name
from weft.engines.spark.spark_partitions import SparkPartitions, set_up_task
from weft.engines.spark.spark_tables import SparkTable
from weft.errors import InputError

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# Rows of a partition if the number of partitions is not given: at most, and at least.
_MAX_ROWS = 1 << 22
_MIN_ROWS = 1 << 16
_ROWS_SPLIT = 1 << 21  # rows that a task splits at once
_PIECE_SCHEMA = "key int, frame int, content binary"
_FAILURE = -1  # in place of the number of a frame: the content is a pickled `PartitionFailure`


@dataclass(frozen=True)
class FrameLayout:
    """The columns of a frame of the partitions, with their polars types by name."""

    key: str
    columns: Mapping[str, str]

    def build_frame(self, pieces: list[Any]) -> pl.DataFrame:
        """Return the frame from its pieces."""
        import polars as pl
        import pyarrow as pa

        if not pieces:
            types = {name: getattr(pl, kind) for name, kind in self.columns.items()}
            return pl.DataFrame(schema=types)
        tables = [pa.ipc.open_stream(piece).read_all() for piece in pieces]
        return pl.DataFrame(pa.concat_tables(tables)).rechunk()

    def convert(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows of Spark with the types of the frame; missing numbers become NaN."""
        import polars as pl

        columns = {}
        for name, kind in self.columns.items():
            columns[name] = pl.col(name).cast(getattr(pl, kind))
            if name in ("score", "rating", "rank"):
                columns[name] = columns[name].fill_null(float("nan"))
        return rows.select(**columns)


def shuffle_by_user(
    spark: SparkSession, tables: list[SparkTable], parts: int | None
) -> SparkPartitions[Any]:
    """Return the rows of all tables in one, partitioned by user and stored by Spark."""
    from pyspark import StorageLevel

    id_types = {role: _find_id_type(tables, role) for role in ID_ROLES}
    number = parts or default_parts(spark, sum(map(_count_rows, tables)))
    keys, checksum = _partition_keys(number), hash_checksum()
    layouts: list[FrameLayout] = []
    pieces = []
    for table in tables:
        columns = _column_types(table, id_types)
        own = [FrameLayout(table.key, columns)]
        if table.has_user_rows:
            own.append(FrameLayout(table.key + ALL_USERS, {"user": columns["user"]}))
        numbered = list(enumerate(own, len(layouts)))
        read = _join_batches
        frame = _cast_columns(table, columns)
        if table.files is not None:
            spans = list(split_files(table.files.files, _ROWS_SPLIT))
            read = partial(_read_spans, table.files.reader, spans)
            frame = spark.range(0, len(spans), 1, len(spans))  # one in each task
        with ignore_pandas_warning():
            make_pieces = _piece_maker(read, numbered, keys, checksum)
            pieces.append(frame.mapInArrow(make_pieces, _PIECE_SCHEMA))
        layouts += own
    shuffled = reduce(lambda left, right: left.union(right), pieces).repartition(number, "key")
    stored = shuffled.persist(StorageLevel.MEMORY_AND_DISK)  # partitions are read several times
    return SparkPartitions(stored, number, partial(_read_partition, tuple(layouts)))


def _find_id_type(tables: list[SparkTable], role: str) -> str:
    """Return the polars type of ids; tables of another type have no rows, as was checked."""
    frames = [table.frame for table in tables if role in table.frame.columns]
    types = [frame.schema[role].dataType.simpleString() for frame in frames]
    return next((POLARS_TYPES[kind] for kind in types if kind in ID_TYPES), "Int64")


def _column_types(table: SparkTable, id_types: Mapping[str, str]) -> dict[str, str]:
    """Return the polars types of the columns of a table."""
    types = {**id_types, "label": table.label_type}
    names = [name for name in table.frame.columns if name != ALL_USERS]
    return {name: types.get(name, "Float64") for name in names}


def _cast_columns(table: SparkTable, columns: Mapping[str, str]) -> DataFrame:
    spark_types = {kind: name for name, kind in POLARS_TYPES.items()}
    casts = [
        column_by_name(name).cast(spark_types[kind]).alias(name) for name, kind in columns.items()
    ]
    return table.frame.select(*casts, *([ALL_USERS] if table.has_user_rows else []))


def _count_rows(table: SparkTable) -> int:
    return table.frame.count() if table.files is None else table.files.num_rows


def _piece_maker(
    read: Callable[[Iterable[pa.RecordBatch]], Iterator[pl.DataFrame]],
    layouts: list[tuple[int, FrameLayout]],
    keys: list[int],
    checksum: int,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` that splits rows of a table into pieces by user.

    `read` yields rows of the table. `layouts` are its frames, with their numbers: that of its rows,
    and possibly that of rows that only name a user. `keys` has the key of each partition. An error
    becomes a piece of the first partition.
    """

    def make_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import polars as pl

        set_up_task()
        try:
            for rows in read(batches):
                frames = [rows]
                if len(layouts) > 1:
                    frames = [rows.filter(~pl.col(ALL_USERS)), rows.filter(pl.col(ALL_USERS))]
                for (number, layout), frame in zip(layouts, frames):
                    split = split_by_user(layout.convert(frame), len(keys), checksum)
                    yield from _write_pieces(number, keys, split)
        except InputError as error:
            failure = PartitionFailure(type(error), error.message)
            yield _write_row(keys[0], _FAILURE, pickle.dumps(failure))

    return make_pieces


def _read_spans(
    reader: RowReader, spans: Sequence[Sequence[RowSpan]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pl.DataFrame]:
    """Yield rows of files; the batches have the numbers of their spans."""
    for batch in batches:
        for number in batch["id"].to_pylist():
            yield reader.read_spans(spans[number])


def _join_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """Yield the rows of several batches at a time."""
    import polars as pl
    import pyarrow as pa

    group: list[pa.RecordBatch] = []
    num_rows = 0
    for batch in batches:
        group.append(batch)
        num_rows += batch.num_rows
        if num_rows >= _ROWS_SPLIT:
            yield pl.DataFrame(pa.Table.from_batches(group))
            group, num_rows = [], 0
    if group:
        yield pl.DataFrame(pa.Table.from_batches(group))


def _write_pieces(
    number: int, keys: list[int], frames: list[pl.DataFrame]
) -> Iterator[pa.RecordBatch]:
    """Yield a row (key, frame, content) for each piece that has rows."""
    import polars as pl
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression="lz4")  # rows of a user repeat its id
    for key, frame in zip(keys, frames):
        if len(frame):
            table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
            content = pa.BufferOutputStream()
            with pa.ipc.new_stream(content, table.schema, options=options) as stream:
                stream.write_table(table)
            yield _write_row(key, number, memoryview(content.getvalue()))


def _write_row(key: int, number: int, content: bytes | memoryview) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [pa.array([key], pa.int32()), pa.array([number], pa.int32())]
    columns.append(pa.array([content], pa.binary()))
    return pa.record_batch(columns, names=["key", "frame", "content"])


def _read_partition(
    layouts: tuple[FrameLayout, ...], batches: Iterable[pa.RecordBatch]
) -> Partition | PartitionFailure:
    """Return the pieces of a Spark partition as frames, or the error of a task that made them."""
    pieces: list[list[Any]] = [[] for _ in layouts]
    for batch in batches:
        for number, content in zip(batch["frame"].to_pylist(), batch["content"]):
            if number == _FAILURE:
                failure: PartitionFailure = pickle.loads(content.as_py())
                return failure
            pieces[number].append(content.as_buffer())
    return Partition({layout.key: layout.build_frame(own) for layout, own in zip(layouts, pieces)})


def _partition_keys(number: int) -> list[int]:
    """Return integers that Spark distributes one to each of `number` partitions.

    Spark takes the Murmur3 hash of an integer (x86, 32 bits, seed 42), modulo the number.
    """
    keys: dict[int, int] = {}
    start = 0
    while len(keys) < number:
        numbers = np.arange(start, start + 16 * number, dtype=np.uint32)
        for partition, key in zip((_murmur3(numbers) % number).tolist(), numbers.tolist()):
            keys.setdefault(partition, key)
        start += 16 * number
    return [keys[partition] for partition in range(number)]


def _murmur3(numbers: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return the hashes of integers as Spark computes them, signed."""

    def rotate(values: Any, bits: int) -> Any:
        return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))

    mixed = rotate(numbers * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    hashed: NDArray[np.uint32] = rotate(np.uint32(42) ^ mixed, 13) * np.uint32(5) + np.uint32(
        0xE6546B64
    )
    hashed ^= np.uint32(4)  # the length in bytes
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashed = (hashed ^ (hashed >> np.uint32(shift))) * np.uint32(factor)
    hashed ^= hashed >> np.uint32(16)
    return hashed.view(np.int32).astype(np.int64)


def default_parts(spark: SparkSession, num_rows: int) -> int:
    """Return the number of partitions: as many as tasks run at once, or a multiple of that.

    Few rows have fewer partitions.
    """
    num_tasks = spark.sparkContext.defaultParallelism
    rounds = -(-num_rows // (_MAX_ROWS * num_tasks))
    return max(1, min(num_tasks * max(1, rounds), -(-num_rows // _MIN_ROWS)))
