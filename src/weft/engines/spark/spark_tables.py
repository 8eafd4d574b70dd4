"""Inputs as Spark tables with known columns: DataFrames, tables by name, Parquet, local data."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.readers.files import File
from weft.data.readers.roles import find_column_name
from weft.engines.partitioned.local_inputs import (
    DriverInput,
    assign_roles,
    check_id_types,
    read_local,
)
from weft.engines.partitioned.parquet_rows import ParquetTable
from weft.engines.partitioned.partitions import ALL_USERS, INPUTS_WITH_ALL_USERS, InputOrigin
from weft.engines.spark.failures import java_error, root_cause
from weft.engines.spark.local_files import LocalFile, find_local_files, open_files
from weft.engines.spark.parquet_parts import check_part_columns, may_differ
from weft.engines.spark.sessions import ignore_pandas_warning
from weft.engines.spark.spark_columns import (
    ID_ROLES,
    ID_TYPES,
    POSITION,
    column_by_name,
    convert_columns,
    explode_arrays,
    widen_schema,
)
from weft.errors import InputError

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

# Nodes of a plan that only reads rows, so that counting them costs little.
_READING_NODES = {
    "HiveTableRelation",
    "InMemoryRelation",
    "LocalRelation",
    "LogicalRDD",
    "LogicalRelation",
    "RelationV2",
    "Range",
    "Filter",
    "Generate",
    "Project",
    "Union",
}
# Inputs in which a null is an error, which reveals a file that lacks a column. Labels may be null:
# the columns of all files of other inputs are compared first.
_COMPLETE_INPUTS = ("source", "truth", "train", "candidates")
_PARQUET_SUFFIXES = (".parquet", ".pq")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:/")
_TABLE_NAME = re.compile(r"(\w+|`[^`]+`)(\.(\w+|`[^`]+`)){0,2}")


@dataclass(frozen=True)
class SparkTable:
    """The rows of a frame of the partitions (`key`): user and optionally item, score, rank, ...

    If `has_user_rows`, rows marked in the column `ALL_USERS` only name a user, and belong to the
    frame `key + ALL_USERS`. `files` are the Parquet files with exactly these rows, if workers can
    read them without Spark; `local` are the rows, if the driver has them.
    """

    key: str
    frame: DataFrame
    origin: InputOrigin
    label_type: str = "String"  # polars type
    has_user_rows: bool = False
    files: ParquetTable | None = None
    local: pl.DataFrame | None = None


@dataclass(frozen=True)
class _OpenedInput:
    """An input as a DataFrame, its name in messages, and the path of its files."""

    frame: DataFrame
    where: str
    path: str | None = None
    files: Sequence[LocalFile] = ()  # that workers can read without Spark


def is_spark_frame(data: Any) -> bool:
    """Return True for a Spark DataFrame."""
    return type(data).__module__.startswith("pyspark.sql") and hasattr(data, "mapInArrow")


class SparkReader:
    """Opens the inputs of an evaluation.

    If `counts_rows`, frames that need computation are persisted, so that counting their rows does
    not compute them twice.
    """

    def __init__(self, spark: SparkSession, *, counts_rows: bool) -> None:
        self.spark = spark
        self.counts_rows = counts_rows
        self.origins: dict[str, InputOrigin] = {}
        self._persisted: list[DataFrame] = []
        self._parquet: list[tuple[DataFrame, str]] = []  # with their names in messages

    def release(self) -> None:
        """Free persisted frames."""
        for frame in self._persisted:
            frame.unpersist()

    def check_parts(self) -> None:
        """Raise InputError if the files of an input have different columns."""
        for frame, where in self._parquet:
            check_part_columns(frame, where)

    def collect_items(self, data: Any, argument: str) -> Any:
        """Return an input that the driver reads: Spark tables as polars frames, other data
        unchanged."""
        if not is_spark_frame(data):
            if not isinstance(data, str) or not (_URL.match(data) or self._is_table(data)):
                return data
            opened = self._open_frame(data, argument)
            assert opened is not None
            data = opened.frame
        frame = _collect(data)
        if argument != "items":
            return frame
        if len(frame.columns) == 1:
            return frame.to_series()
        column = find_column_name(frame.columns, "item", argument)
        if column is None:
            raise InputError(
                f"{argument} has the columns {frame.columns}; expected one named 'item' with the "
                "item ids."
            )
        return frame[column].unique(maintain_order=True)

    def open(self, data: Any, argument: str) -> list[SparkTable]:
        """Return an input with rows of users as Spark tables."""
        if isinstance(data, DriverInput):
            data = data.collect(self.collect_items)
        opened = self._open_frame(data, argument)
        if opened is None:
            return self._open_local(data, argument)
        if opened.frame.isStreaming:
            raise InputError(
                f"{opened.where} is a stream; expected a batch DataFrame. Write it to a table "
                "first."
            )
        where = opened.where
        declared, ids = (data.columns, data.ids) if isinstance(data, File) else ({}, "auto")
        frame, has_arrays = explode_arrays(opened.frame, where, declared)
        names = [name for name in frame.columns if name != POSITION]
        roles, unused = assign_roles(names, argument, where, declared)
        if argument == "source" and not has_arrays:
            _check_order(roles, names, where)
        columns, label_type = convert_columns(frame, roles, where=where, ids=ids)
        if has_arrays and argument == "source":
            columns["rank"] = column_by_name(POSITION) + 1.0
        files = None
        if not has_arrays and ids == "auto":
            files = open_files(opened.files, roles, where, frame.schema)
        num_rows = None if files is None else files.num_rows
        origin = InputOrigin(where, opened.path, unused, columns=tuple(columns), num_rows=num_rows)
        self.origins[argument] = origin
        has_user_rows = has_arrays and argument in INPUTS_WITH_ALL_USERS
        if has_user_rows:
            columns[ALL_USERS] = column_by_name(POSITION).isNull()
        elif has_arrays:
            frame = frame.where(column_by_name(POSITION).isNotNull())
        frame = frame.select(*(column.alias(role) for role, column in columns.items()))
        frame = self._persist(frame)
        return [SparkTable(argument, frame, origin, label_type, has_user_rows, files)]

    def check_ids(self, tables: list[SparkTable]) -> None:
        """Raise InputError for ids of wrong or different types; reads rows only in that case."""
        has_one_type = True
        for role in ID_ROLES:
            frames = [table.frame for table in tables if role in table.frame.columns]
            types = {frame.schema[role].dataType.simpleString() for frame in frames}
            has_one_type &= len(types) <= 1 and types <= set(ID_TYPES)
        if has_one_type:
            return
        samples = {}
        for table in tables:
            roles = [role for role in ID_ROLES if role in table.frame.columns]
            samples[table.key] = _collect(table.frame.select(*roles).limit(3))
        check_id_types(samples, {table.key: table.origin for table in tables})

    def _open_frame(self, data: Any, argument: str) -> _OpenedInput | None:
        """Open a DataFrame, a table by its name, or Parquet; None if the driver reads the data."""
        if is_spark_frame(data):
            return _OpenedInput(data, argument, files=find_local_files(data))
        if not isinstance(data, (str, Path, File)):
            return None
        file = data if isinstance(data, File) else File(data)
        where = f"{argument} ({file.address})"
        if isinstance(data, str) and self._is_table(data):
            frame = self.spark.table(data)
            return _OpenedInput(frame, where, files=find_local_files(frame))
        if file.format not in (None, "parquet"):
            return None
        if file.format is None and _is_other_file(file.address):
            return None
        may_be_table = isinstance(data, str) and _may_be_table(data)
        schema = self._read_schema(file.address, argument, may_be_table=may_be_table)
        if schema is None:
            return None
        frame = self.spark.read.schema(widen_schema(schema)).parquet(file.address)
        self._parquet.append((frame, where))
        files = find_local_files(frame)
        if not files and (
            argument not in _COMPLETE_INPUTS or may_differ(self.spark, file.address, schema.names)
        ):
            check_part_columns(frame, where)
        return _OpenedInput(frame, where, file.address, files)

    def _read_schema(self, address: str, argument: str, *, may_be_table: bool) -> Any:
        """Return the schema of Parquet; None for a missing path, which the driver explains."""
        from pyspark.errors import PySparkException

        try:
            return self.spark.read.parquet(address).schema
        except (PySparkException, java_error()) as error:
            text = str(error)
        if "PATH_NOT_FOUND" not in text or _URL.match(address):
            raise InputError(
                f"{argument} ({address}) cannot be read as Parquet: {root_cause(text)}"
            )
        if may_be_table:
            raise InputError(
                f"{argument} is {address!r}, which is neither a table of this session nor a path. "
                "Give the name of a table (db.table), the path of files, or a DataFrame."
            )
        return None

    def _is_table(self, name: str) -> bool:
        from pyspark.errors import AnalysisException

        try:
            return bool(_TABLE_NAME.fullmatch(name)) and self.spark.catalog.tableExists(name)
        except AnalysisException:  # a namespace that the catalogue cannot have
            return False

    def _open_local(self, data: Any, argument: str) -> list[SparkTable]:
        """Read an input on the driver and send it to Spark."""
        import polars as pl

        frames, origin = read_local(data, argument)
        self.origins[argument] = origin
        tables = []
        for key, frame in frames.items():
            label_type = "String"
            if "label" in frame.columns:
                label_type = _local_label_type(frame["label"].dtype)
                frame = frame.with_columns(frame["label"].cast(getattr(pl, label_type)))
            with ignore_pandas_warning():
                spark_frame = self.spark.createDataFrame(frame.to_arrow())
            tables.append(SparkTable(key, spark_frame, origin, label_type, local=frame))
        return tables

    def _persist(self, frame: DataFrame) -> DataFrame:
        from pyspark import StorageLevel

        if self.counts_rows and not _is_only_read(frame):
            self._persisted.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame


def _check_order(roles: Mapping[str, str], names: list[str], where: str) -> None:
    if not {"score", "rank"} & roles.keys():
        raise InputError(
            f"{where} has the columns {names}, without scores or ranks, and rows of Spark have no "
            "order. Add a column 'score' or 'rank', or give each list as an array, best first."
        )


def _local_label_type(kind: Any) -> str:
    """Return the polars type in which labels are sent to Spark."""
    if kind.is_integer():
        return "Int64"
    if kind.is_float():
        return "Float64"
    return "Boolean" if str(kind) == "Boolean" else "String"


def _collect(frame: DataFrame) -> pl.DataFrame:
    import polars as pl

    with ignore_pandas_warning():
        collected = pl.from_arrow(frame.toArrow())
    assert isinstance(collected, pl.DataFrame)
    return collected


def _may_be_table(name: str) -> bool:
    return bool(_TABLE_NAME.fullmatch(name)) and Path(name).suffix not in _PARQUET_SUFFIXES


def _is_other_file(address: str) -> bool:
    """Return True if a path of the driver exists and has no Parquet files, by their names."""
    if _URL.match(address):
        return False
    paths = [address] if Path(address).exists() else glob.glob(address)
    return bool(paths) and not any(_has_parquet(Path(path)) for path in paths)


def _has_parquet(path: Path) -> bool:
    return any(
        each.suffix.casefold() in _PARQUET_SUFFIXES and not each.name.startswith((".", "_"))
        for each in (path.rglob("*") if path.is_dir() else [path])
    )


def _is_only_read(frame: DataFrame) -> bool:
    """Return True if the rows of a frame are read without expensive computation."""

    def node_names(plan: Any) -> Iterator[str]:
        yield plan.nodeName().partition(" ")[0]
        children = plan.children()
        for index in range(children.size()):
            yield from node_names(children.apply(index))

    return set(node_names(frame._jdf.queryExecution().optimizedPlan())) <= _READING_NODES
