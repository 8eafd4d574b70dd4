"""Partitions of the users in the partitions of a DataFrame; pickles of what is kept of them, and the
tree that merges.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weft.engines.partitioned.partitions import Partition, Partitions
from weft.engines.spark.failures import explained
from weft.engines.spark.sessions import quiet

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

T = TypeVar("T")
S = TypeVar("S")

POLARS = {"bigint": "Int64", "string": "String"}  # what ids are, in Spark and in polars
_FAN_IN = 16  # what one task joins, and what comes to the driver at once
_CHUNK = (
    1 << 22
    # bytes of a kept value in one row: Java has several copies of a row at hand, and its values end
    # at 2 GB
)
_SMALL = 1 << 16  # bytes that are sent with every task
_CONTENTS = "part int, chunk int, content binary"


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """One frame of a part: which columns of the shuffled table it has, under which names."""

    key: str
    ids: Mapping[str, str]  # with their polars types
    value: str | None = None  # what the numbers are called
    has_rank: bool = False
    label: str | None = None  # its polars type

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The frame, from its rows."""
        import polars as pl

        columns = {role: pl.col(role).cast(_polars(kind)) for role, kind in self.ids.items()}
        if self.value is not None:
            columns[self.value] = pl.col("value").fill_null(float("nan"))
        if self.has_rank:
            columns["rank"] = pl.col("rank").fill_null(float("nan"))
        if self.label == "Float64":
            columns["label"] = pl.col("value")
        elif self.label is not None:
            columns["label"] = (
                pl.col("label") == "true"
                if self.label == "Boolean"
                else pl.col("label").cast(_polars(self.label))
            )
        return rows.select(**columns)


def _polars(name: str) -> Any:
    import polars as pl

    return getattr(pl, name)


def read_part(
    layout: tuple[Layout, ...], kinds: Mapping[str, str], batches: Iterable[pa.RecordBatch]
) -> Partition:
    """The rows of a partition as frames. `kinds`: of the ids, in Spark."""
    import polars as pl
    import pyarrow as pa

    met = list(batches)
    if met:
        rows = pl.from_arrow(pa.Table.from_batches(met))
        assert isinstance(rows, pl.DataFrame)
    else:
        schema = {"argument": pl.Int8, "value": pl.Float64, "rank": pl.Float64, "label": pl.String}
        rows = pl.DataFrame(
            schema=schema | {role: _polars(POLARS[kind]) for role, kind in kinds.items()}
        )
    return Partition(
        {
            frame.key: frame.of(rows.filter(pl.col("argument") == number))
            for number, frame in enumerate(layout)
        }
    )


# --------------------------------------------------------------------------------------------------


def _written(made: Any) -> Iterator[pa.RecordBatch]:
    """A value as rows (part, chunk, content)."""
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    part = pa.array([0 if context is None else context.partitionId()], pa.int32())
    content = memoryview(_pickled(made))
    for chunk, start in enumerate(range(0, len(content), _CHUNK)):
        some = pa.array([content[start : start + _CHUNK]], pa.binary())
        yield pa.record_batch(
            [part, pa.array([chunk], pa.int32()), some], names=["part", "chunk", "content"]
        )


def _contents(batches: Iterable[pa.RecordBatch]) -> list[Any]:
    """The values in these rows, in the order of their parts."""
    chunks: dict[int, dict[int, bytes]] = {}
    for batch in batches:
        for part, chunk, content in zip(*(column.to_pylist() for column in batch.columns)):
            chunks.setdefault(part, {})[chunk] = content
    values = []
    for part in sorted(chunks):
        ordered = [content for _, content in sorted(chunks.pop(part).items())]
        values.append(pickle.loads(ordered[0] if len(ordered) == 1 else b"".join(ordered)))
    return values


def _only(batches: Iterable[pa.RecordBatch]) -> Any:
    (value,) = _contents(batches)
    return value


def _pickled(what: Any) -> bytes:
    from pyspark import cloudpickle

    content: bytes = cloudpickle.dumps(what, protocol=5)  # type: ignore[no-untyped-call]
    return content


class _Sent:
    """Something that workers need: with each task if it is small, else to each machine once, and
    unpickled once by a worker.
    """

    def __init__(self, frame: DataFrame, what: Any) -> None:
        content = _pickled(what)  # broadcasts pickle, too, but not what a notebook defines
        self._content = content if len(content) < _SMALL else None
        self._broadcast = (
            None
            if self._content is not None
            else frame.sparkSession.sparkContext.broadcast(content)
        )

    @property
    def value(self) -> Any:
        if self._broadcast is None:
            assert self._content is not None
            return pickle.loads(self._content)
        content = self._broadcast.value
        if id(content) not in _UNPICKLED:  # workers live on, and meet it again with the next part
            _UNPICKLED.clear()
            _UNPICKLED[id(content)] = content, pickle.loads(content)
        return _UNPICKLED[id(content)][1]

    def forget(self) -> None:
        if self._broadcast is not None:
            self._broadcast.destroy()


_UNPICKLED: dict[
    int, tuple[bytes, Any]
] = {}  # by identity of the content, which lives as long as its entry


def _settle_threads() -> None:
    """As many threads as the task has cores: tasks run side by side."""
    from pyspark import TaskContext

    context = TaskContext.get()
    cores = 1 if context is None else context.cpus()
    os.environ.setdefault(
        "POLARS_MAX_THREADS", str(cores)
    )  # read when polars is imported, which a new worker has not done yet
    import torch

    if torch.get_num_threads() != cores:
        torch.set_num_threads(cores)


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SparkPartitions(Partitions[T], Generic[T]):
    """Partitions in the partitions of a DataFrame, one in each. `read` makes a part of the batches of
    its partition.
    """

    frame: DataFrame
    number: int
    read: Callable[[Iterable[pa.RecordBatch]], T]
    sent: tuple[_Sent, ...] = field(
        default=()
    )  # what they were made by, and are made by again if they are lost

    def map(self, work: Callable[[T], S]) -> SparkPartitions[S]:
        """Do this with each part, and keep a pickle of what comes of it."""
        from pyspark import StorageLevel

        sent = _Sent(self.frame, work)
        return SparkPartitions(
            self._mapped(sent).persist(StorageLevel.MEMORY_AND_DISK), self.number, _only, (sent,)
        )

    def map_reduce(self, work: Callable[[T], S], join: Callable[[list[S]], S]) -> S:
        """Do this with each part; executors join what comes of some, until few are left for the
        driver.
        """
        sent, joins = _Sent(self.frame, work), _Sent(self.frame, join)

        def join_some(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            _settle_threads()
            if values := _contents(batches):  # no part may have come here
                yield from _written(joins.value(values))

        try:
            with explained(), quiet():
                rows, left = self._mapped(sent), self.number
                while left > _FAN_IN:
                    left = -(-left // _FAN_IN)
                    rows = rows.repartition(left, "part").mapInArrow(join_some, _CONTENTS)
                values = _contents(rows.toArrow().to_batches())
        finally:
            sent.forget()
            joins.forget()
        return join(values)

    def table(self, work: Callable[[T], pl.DataFrame]) -> DataFrame:
        """Do this with each part, and put the frames that come of it below each other. They stay in
        Spark.
        """
        read, sent = self.read, _Sent(self.frame, work)

        def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            _settle_threads()
            yield from sent.value(read(batches)).to_arrow().to_batches()

        empty = self.map_reduce(partial(_no_rows, work), _first)
        with quiet():
            schema = self.frame.sparkSession.createDataFrame(empty.to_arrow()).schema
            return self.frame.mapInArrow(make, schema)

    def release(self) -> None:
        """Give back what Spark stores for these parts."""
        self.frame.unpersist()
        for sent in self.sent:
            sent.forget()

    def _mapped(self, sent: _Sent) -> DataFrame:
        read = self.read

        def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            _settle_threads()
            yield from _written(sent.value(read(batches)))

        with quiet():
            return self.frame.mapInArrow(make, _CONTENTS)


def _no_rows(work: Callable[[T], pl.DataFrame], part: T) -> pl.DataFrame:
    return work(part).clear()


def _first(some: list[S]) -> S:
    return some[0]
