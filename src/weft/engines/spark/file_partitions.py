"""Partitions that workers read from Parquet files themselves, without Java and a shuffle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from weft.engines.partitioned.partitions import Partition
from weft.engines.partitioned.user_ranges import split_into_ranges
from weft.engines.spark.shuffle import default_parts
from weft.engines.spark.spark_partitions import SharedValue, SparkPartitions
from weft.engines.spark.spark_tables import SparkTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def read_by_ranges(
    spark: SparkSession, tables: Sequence[SparkTable], parts: int | None
) -> SparkPartitions[Partition] | None:
    """Return partitions that read their rows from files; None if rows are to be shuffled."""
    files = {table.key: table.files for table in tables if table.files is not None}
    frames = {table.key: table.local for table in tables if table.local is not None}
    if not files or len(files) + len(frames) < len(tables):
        return None
    num_rows = sum(each.num_rows for each in files.values()) + sum(map(len, frames.values()))
    number = parts or default_parts(spark, num_rows)
    partitions = split_into_ranges(files, frames, number)
    if partitions is None:
        return None
    shared = SharedValue(spark, partitions)
    numbers = spark.range(0, number, 1, number)  # one in each partition
    return SparkPartitions(numbers, number, partial(_select_partition, shared), (shared,))


def _select_partition(shared: SharedValue, batches: Iterable[pa.RecordBatch]) -> Partition:
    (number,) = [number for batch in batches for number in batch["id"].to_pylist()]
    partition: Partition = shared.value[number]
    return partition
