"""Union of all inputs into one Spark table, with all rows of a user in one partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from weft.engines.partitioned.partitions import ALL_USERS, Partition
from weft.engines.spark.spark_columns import ID_ROLES, ID_TYPES, POLARS_TYPES, column_by_name
from weft.engines.spark.spark_partitions import SparkPartitions
from weft.engines.spark.spark_tables import SparkTable

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# Rows of a partition if the number of partitions is not given: at most, and at least.
_MAX_ROWS = 1 << 21
_MIN_ROWS = 1 << 16
_ARGUMENT = "argument"  # the column with the number of the frame that a row belongs to


@dataclass(frozen=True)
class FrameLayout:
    """The columns of a frame of the partitions, with their polars types by name."""

    key: str
    columns: Mapping[str, str]

    def select_frame(self, rows: pl.DataFrame | None) -> pl.DataFrame:
        """Return the frame from its rows of the shuffled table; None: there are no rows."""
        import polars as pl

        if rows is None:
            return pl.DataFrame(
                schema={name: _polars_type(kind) for name, kind in self.columns.items()}
            )
        columns = {}
        for name, kind in self.columns.items():
            columns[name] = pl.col(_shuffled_name(name, kind)).cast(_polars_type(kind))
            if name in ("score", "rating", "rank"):
                columns[name] = columns[name].fill_null(float("nan"))
        return rows.select(**columns)


def _polars_type(name: str) -> Any:
    import polars as pl

    return getattr(pl, name)


def _shuffled_name(name: str, kind: str) -> str:
    """Return the name of a column in the shuffled table; labels of each type have their own."""
    return f"label {kind}" if name == "label" else name


def shuffle_by_user(
    spark: SparkSession, tables: list[SparkTable], parts: int | None
) -> SparkPartitions[Partition]:
    """Return the rows of all tables in one, partitioned by user."""
    id_types = {role: _find_id_type(tables, role) for role in ID_ROLES}
    layouts: list[FrameLayout] = []
    frames: list[DataFrame] = []
    for table in tables:
        columns = _column_types(table, id_types)
        frames.append(_number_rows(table, columns, len(layouts)))
        layouts.append(FrameLayout(table.key, columns))
        if table.has_user_rows:
            layouts.append(FrameLayout(table.key + ALL_USERS, {"user": columns["user"]}))
    rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    number = parts or _default_parts(spark, rows.count())
    read = partial(_read_partition, tuple(layouts))
    shuffled = SparkPartitions(rows.repartition(number, "user"), number, read)
    # Stored as pickles, since partitions are read several times: Java sends its rows only once.
    return shuffled.map(_identity)


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


def _number_rows(table: SparkTable, columns: Mapping[str, str], number: int) -> DataFrame:
    """Return the rows with the number of their frame: `number`, or the next one for user rows."""
    from pyspark.sql import functions

    argument = functions.lit(number)
    if table.has_user_rows:
        argument = functions.when(column_by_name(ALL_USERS), number + 1).otherwise(argument)
    spark_types = {kind: name for name, kind in POLARS_TYPES.items()}
    selected = [argument.cast("tinyint").alias(_ARGUMENT)]
    for name, kind in columns.items():
        column = column_by_name(name).cast(spark_types[kind])
        selected.append(column.alias(_shuffled_name(name, kind)))
    return table.frame.select(*selected)


def _read_partition(
    layouts: tuple[FrameLayout, ...], batches: Iterable[pa.RecordBatch]
) -> Partition:
    """Return the rows of a Spark partition as frames."""
    import polars as pl
    import pyarrow as pa

    if not (filled := list(batches)):
        return Partition({layout.key: layout.select_frame(None) for layout in layouts})
    rows = pl.from_arrow(pa.Table.from_batches(filled))
    assert isinstance(rows, pl.DataFrame)
    return Partition(
        {
            layout.key: layout.select_frame(rows.filter(pl.col(_ARGUMENT) == number))
            for number, layout in enumerate(layouts)
        }
    )


def _identity(partition: Partition) -> Partition:
    return partition


def _default_parts(spark: SparkSession, num_rows: int) -> int:
    """Return the number of partitions for a number of rows and the tasks that run at once."""
    num_tasks = spark.sparkContext.defaultParallelism
    return max(1, -(-num_rows // _MAX_ROWS), min(num_tasks, -(-num_rows // _MIN_ROWS)))
