"""Partitions of the users in the partitions of a DataFrame: their results, stored and merged."""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weft.engines.partitioned.partitions import Partitions, use_cores
from weft.engines.spark.failures import convert_errors
from weft.engines.spark.sessions import ignore_pandas_warning

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
S = TypeVar("S")

_FAN_IN = 16  # results that one task, or the driver, combines
# Java holds several copies of a row, and limits a value to 2 GB.
_CHUNK_BYTES = 1 << 22
_MAX_INLINE_BYTES = 1 << 16  # larger values are broadcast
_PICKLE_SCHEMA = "part int, chunk int, content binary"


def _write_value(value: Any) -> Iterator[pa.RecordBatch]:
    """Yield a pickled value as rows (part, chunk, content)."""
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    part = pa.array([0 if context is None else context.partitionId()], pa.int32())
    content = memoryview(_pickle(value))
    for chunk, start in enumerate(range(0, len(content), _CHUNK_BYTES)):
        piece = pa.array([content[start : start + _CHUNK_BYTES]], pa.binary())
        yield pa.record_batch(
            [part, pa.array([chunk], pa.int32()), piece], names=["part", "chunk", "content"]
        )


def _read_values(batches: Iterable[pa.RecordBatch]) -> list[Any]:
    """Return the values in rows of `_write_value`, ordered by partition."""
    chunks: dict[int, dict[int, bytes]] = {}
    for batch in batches:
        for part, chunk, content in zip(*(column.to_pylist() for column in batch.columns)):
            chunks.setdefault(part, {})[chunk] = content
    values = []
    for part in sorted(chunks):
        ordered = [content for _, content in sorted(chunks.pop(part).items())]
        values.append(pickle.loads(ordered[0] if len(ordered) == 1 else b"".join(ordered)))
    return values


def _read_value(batches: Iterable[pa.RecordBatch]) -> Any:
    (value,) = _read_values(batches)
    return value


def _pickle(value: Any) -> bytes:
    from pyspark import cloudpickle

    content: bytes = cloudpickle.dumps(value, protocol=5)  # type: ignore[no-untyped-call]
    return content


class SharedValue:
    """A value for workers: sent with each task if it is small, else broadcast to each machine."""

    def __init__(self, spark: SparkSession, value: Any) -> None:
        # A broadcast would pickle too, but not what a notebook defines.
        content = _pickle(value)
        self._content, self._broadcast = content, None
        if len(content) >= _MAX_INLINE_BYTES:
            self._content = b""
            self._broadcast = spark.sparkContext.broadcast(content)

    @property
    def value(self) -> Any:
        if self._broadcast is None:
            return pickle.loads(self._content)
        content = self._broadcast.value
        if id(content) not in _UNPICKLED:  # a worker process serves several partitions
            _UNPICKLED.clear()
            _UNPICKLED[id(content)] = content, pickle.loads(content)
        return _UNPICKLED[id(content)][1]

    def destroy(self) -> None:
        """Free a broadcast."""
        if self._broadcast is not None:
            self._broadcast.destroy()


# The last unpickled broadcast, by the identity of its content, which its entry keeps alive.
_UNPICKLED: dict[int, tuple[bytes, Any]] = {}


def set_up_task() -> None:
    """Use as many threads as the task has cores; keep objects of modules out of its garbage."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return
    use_cores(context.cpus())
    _freeze_modules()


_num_frozen_modules = 0


def _freeze_modules() -> None:
    """Exclude the objects of imported modules from garbage collection.

    Spark collects garbage after each task, which takes a tenth of a second with those of torch.
    At the start of a task there is no garbage, which would be excluded too.
    """
    global _num_frozen_modules
    if len(sys.modules) > _num_frozen_modules:
        gc.freeze()
        _num_frozen_modules = len(sys.modules)


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SparkPartitions(Partitions[T], Generic[T]):
    """A value per partition of a DataFrame; `read` makes it from the batches of the partition."""

    frame: DataFrame
    number: int
    read: Callable[[Iterable[pa.RecordBatch]], T]
    # Values that Spark needs to compute lost partitions again.
    shared: tuple[SharedValue, ...] = ()

    def map(self, function: Callable[[T], S]) -> SparkPartitions[S]:
        """Apply a function to each partition and store the pickled results in Spark."""
        from pyspark import StorageLevel

        shared = SharedValue(self.frame.sparkSession, function)
        stored = self._apply(shared).persist(StorageLevel.MEMORY_AND_DISK)
        return SparkPartitions(stored, self.number, _read_value, (shared,))

    def map_reduce(self, function: Callable[[T], S], combine: Callable[[list[S]], S]) -> S:
        """Apply a function to each partition; executors combine the results as a tree."""
        spark = self.frame.sparkSession
        shared, shared_combine = (SharedValue(spark, each) for each in (function, combine))

        def combine_values(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            set_up_task()
            if values := _read_values(batches):  # a Spark partition may be empty
                yield from _write_value(shared_combine.value(values))

        try:
            with convert_errors(), ignore_pandas_warning():
                rows, num_left = self._apply(shared), self.number
                while num_left > _FAN_IN:
                    num_left = -(-num_left // _FAN_IN)
                    rows = rows.repartition(num_left, "part")
                    rows = rows.mapInArrow(combine_values, _PICKLE_SCHEMA)
                values = _read_values(rows.toArrow().to_batches())
        finally:
            shared.destroy()
            shared_combine.destroy()
        return combine(values)

    def to_table(self, function: Callable[[T], pl.DataFrame]) -> DataFrame:
        """Apply a function to each partition and return its frames as one Spark DataFrame."""
        read, shared = self.read, SharedValue(self.frame.sparkSession, function)

        def make_frame(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            set_up_task()
            yield from shared.value(read(batches)).to_arrow().to_batches()

        empty = self.map_reduce(partial(_clear_rows, function), _first)
        with ignore_pandas_warning():
            schema = self.frame.sparkSession.createDataFrame(empty.to_arrow()).schema
            return self.frame.mapInArrow(make_frame, schema)

    def release(self) -> None:
        """Free what Spark stores for these partitions."""
        self.frame.unpersist()
        for shared in self.shared:
            shared.destroy()

    def _apply(self, shared: SharedValue) -> DataFrame:
        read = self.read

        def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            set_up_task()
            yield from _write_value(shared.value(read(batches)))

        with ignore_pandas_warning():
            return self.frame.mapInArrow(apply, _PICKLE_SCHEMA)


def _clear_rows(function: Callable[[T], pl.DataFrame], value: T) -> pl.DataFrame:
    return function(value).clear()


def _first(values: list[S]) -> S:
    return values[0]
