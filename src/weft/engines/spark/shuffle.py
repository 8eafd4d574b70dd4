"""Union of all inputs into one Spark table, with all rows of a user in one partition."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

from weft.engines.partitioned.partitions import ALL_USERS, Partition
from weft.engines.spark.spark_columns import column_by_name
from weft.engines.spark.spark_partitions import (
    POLARS_TYPES,
    FrameLayout,
    SparkPartitions,
    read_partition,
)
from weft.engines.spark.spark_tables import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Rows of a partition if the number of partitions is not given: at most, and at least.
_MAX_ROWS = 1 << 21
_MIN_ROWS = 1 << 16


def shuffle_by_user(
    spark: SparkSession, tables: list[SparkTable], parts: int | None
) -> SparkPartitions[Partition]:
    """Return all rows in one table, partitioned by user.

    Its columns: argument (the number of the frame that a row belongs to), user, item, value (a
    score, a rating, or a float label), and, if any table has them, rank and label (as text).
    """
    id_types = {role: _find_id_type(tables, role) for role in ("user", "item")}
    has_rank = any("rank" in table.frame.columns for table in tables)
    has_text = any(table.has_text_labels for table in tables)
    layouts: list[FrameLayout] = []
    frames: list[DataFrame] = []
    for table in tables:
        columns = _select_columns(table, len(layouts), id_types)
        names = [*columns][:4] + ["rank"] * has_rank + ["label"] * has_text
        frames.append(table.frame.select(*(columns[name].alias(name) for name in names)))
        layouts += _build_layouts(table, id_types)
    rows = reduce(lambda left, right: left.unionByName(right), frames)
    number = parts or _default_parts(spark, rows.count())
    read = partial(read_partition, tuple(layouts), id_types)
    shuffled = SparkPartitions(rows.repartition(number, "user"), number, read)
    # Stored as pickles, since partitions are read several times: Java sends its rows only once.
    return shuffled.map(_identity)


def _find_id_type(tables: list[SparkTable], role: str) -> str:
    """Return the Spark type of ids; tables of another type have no rows, as was checked."""
    frames = [table.frame for table in tables if role in table.frame.columns]
    types = [frame.schema[role].dataType.simpleString() for frame in frames]
    return next((kind for kind in types if kind in POLARS_TYPES), "bigint")


def _value_column(table: SparkTable) -> str | None:
    """Return the name of the column with scores or ratings."""
    return next((name for name in ("score", "rating") if name in table.frame.columns), None)


def _build_layouts(table: SparkTable, id_types: dict[str, str]) -> list[FrameLayout]:
    """Return the layout of the table's frame and, if it has user rows, that of its users."""
    present = table.frame.columns
    ids = {role: POLARS_TYPES[kind] for role, kind in id_types.items() if role in present}
    label_type = table.label_type if "label" in present else None
    layouts = [FrameLayout(table.key, ids, _value_column(table), "rank" in present, label_type)]
    if table.has_user_rows:
        layouts.append(FrameLayout(table.key + ALL_USERS, {"user": ids["user"]}))
    return layouts


def _select_columns(table: SparkTable, number: int, id_types: dict[str, str]) -> dict[str, Column]:
    """Return the columns of the united table; `number` is that of the table's first frame."""
    from pyspark.sql import functions

    present = table.frame.columns

    def select(name: str | None, kind: str) -> Column:
        is_present = name is not None and name in present
        column = column_by_name(str(name)) if is_present else functions.lit(None)
        return column.cast(kind)

    argument = functions.lit(number)
    if table.has_user_rows:
        argument = functions.when(column_by_name(ALL_USERS), number + 1).otherwise(argument)
    numbers = _value_column(table) or ("label" if not table.has_text_labels else None)
    return {
        "argument": argument.cast("tinyint"),
        "user": select("user", id_types["user"]),
        "item": select("item", id_types["item"]),
        "value": select(numbers, "double"),
        "rank": select("rank", "double"),
        "label": select("label" if table.has_text_labels else None, "string"),
    }


def _identity(partition: Partition) -> Partition:
    return partition


def _default_parts(spark: SparkSession, num_rows: int) -> int:
    """Return the number of partitions for a number of rows and the tasks that run at once."""
    num_tasks = spark.sparkContext.defaultParallelism
    return max(1, -(-num_rows // _MAX_ROWS), min(num_tasks, -(-num_rows // _MIN_ROWS)))
