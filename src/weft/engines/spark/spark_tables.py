"""Inputs as Spark tables with known columns: DataFrames, tables by name, Parquet, local data."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.readers.files import File, FileTable
from weft.data.readers.roles import find_column_name
from weft.engines.partitioned.local_inputs import assign_roles, check_id_types, read_local
from weft.engines.partitioned.partitions import ALL_USERS, INPUTS_WITH_ALL_USERS, InputOrigin
from weft.engines.spark.failures import java_error, root_cause
from weft.engines.spark.sessions import ignore_pandas_warning
from weft.engines.spark.spark_columns import (
    ID_ROLES,
    POSITION,
    column_by_name,
    convert_column,
    explode_arrays,
    find_label_type,
    widen_schema,
)
from weft.engines.spark.spark_partitions import POLARS_TYPES
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
_PARQUET_SUFFIXES = (".parquet", ".pq")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:/")
_TABLE_NAME = re.compile(r"(\w+|`[^`]+`)(\.(\w+|`[^`]+`)){0,2}")


@dataclass(frozen=True)
class SparkTable:
    """The rows of a frame of the partitions (`key`): user and optionally item, score, rank, ...

    If `has_user_rows`, rows marked in the column `ALL_USERS` only name a user, and belong to the
    frame `key + ALL_USERS`.
    """

    key: str
    frame: DataFrame
    origin: InputOrigin
    label_type: str = "String"  # polars type
    has_user_rows: bool = False

    @property
    def has_text_labels(self) -> bool:
        """True if labels are sent as text: all but floats."""
        return "label" in self.frame.columns and self.label_type != "Float64"


@dataclass(frozen=True)
class _OpenedInput:
    """An input as a DataFrame (None: the driver reads it), its name in messages, and its path."""

    frame: DataFrame | None
    where: str
    path: str | None = None


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

    def release(self) -> None:
        """Free persisted frames."""
        for frame in self._persisted:
            frame.unpersist()

    def collect_items(self, data: Any, argument: str) -> Any:
        """Return an input about items: Spark tables as polars frames, other data unchanged."""
        if not is_spark_frame(data):
            if not isinstance(data, str) or not (_URL.match(data) or self._is_table(data)):
                return data
            data = self._open_address(data, argument).frame
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
        opened = _OpenedInput(data, argument)
        if not is_spark_frame(data):
            opened = self._open_address(data, argument)
        frame, where = opened.frame, opened.where
        if frame is None:
            return self._open_local(data, argument)
        if frame.isStreaming:
            raise InputError(
                f"{where} is a stream; expected a DataFrame that ends. Write it to a table first."
            )
        declared, ids = (data.columns, data.ids) if isinstance(data, File) else ({}, "auto")
        frame, has_arrays = explode_arrays(frame, where, declared)
        names = [name for name in frame.columns if name != POSITION]
        roles, unused = assign_roles(names, argument, where, declared)
        if argument == "source" and not has_arrays and not {"score", "rank"} & roles.keys():
            raise InputError(
                f"{where} has the columns {frame.columns}, with neither scores nor ranks, and rows "
                "of Spark have no order. Add a column 'score' or 'rank', or give each list as an "
                "array, the best first."
            )
        types = {field.name: field.dataType for field in frame.schema.fields}
        columns = {
            role: convert_column(role, name, types[name], where=where, ids=ids)
            for role, name in roles.items()
        }
        label_type = "String"
        if (label := roles.get("label")) is not None:
            label_type = find_label_type(types[label], label, where)
        if has_arrays and argument == "source":
            columns["rank"] = column_by_name(POSITION) + 1.0
        origin = InputOrigin(where, opened.path, unused, columns=tuple(columns))
        self.origins[argument] = origin
        has_user_rows = has_arrays and argument in INPUTS_WITH_ALL_USERS
        if has_user_rows:
            columns[ALL_USERS] = column_by_name(POSITION).isNull()
        elif has_arrays:
            frame = frame.where(column_by_name(POSITION).isNotNull())
        frame = frame.select(*(column.alias(role) for role, column in columns.items()))
        return [SparkTable(argument, self._persist(frame), origin, label_type, has_user_rows)]

    def check_ids(self, tables: list[SparkTable]) -> None:
        """Raise InputError for ids of wrong or different types; reads rows only in that case."""
        has_one_type = True
        for role in ID_ROLES:
            frames = [table.frame for table in tables if role in table.frame.columns]
            types = {frame.schema[role].dataType.simpleString() for frame in frames}
            has_one_type &= len(types) <= 1 and types <= set(POLARS_TYPES)
        if has_one_type:
            return
        samples = {}
        for table in tables:
            roles = [role for role in ID_ROLES if role in table.frame.columns]
            samples[table.key] = _collect(table.frame.select(*roles).limit(3))
        check_id_types(samples, {table.key: table.origin for table in tables})

    def _open_address(self, data: Any, argument: str) -> _OpenedInput:
        """Open a table by its name, or Parquet by its path."""
        from pyspark.errors import PySparkException

        if isinstance(data, FileTable) or not isinstance(data, (str, Path, File)):
            return _OpenedInput(None, argument)
        address = data.address if isinstance(data, File) else str(data)
        where = f"{argument} ({address})"
        if isinstance(data, str) and self._is_table(data):
            return _OpenedInput(self.spark.table(data), where)
        file_format = data.format if isinstance(data, File) else None
        if file_format != "parquet" and (file_format is not None or _is_other_file(address)):
            return _OpenedInput(None, where, address)
        try:
            schema = self.spark.read.parquet(address).schema
        except (PySparkException, java_error()) as error:
            is_missing = "PATH_NOT_FOUND" in str(error)
            if is_missing and isinstance(data, str) and _may_be_table(data):
                raise InputError(
                    f"{argument} is {data!r}, which is neither a table that this session knows nor "
                    "a path. Give the name of a table (db.table), the path of files, or a "
                    "DataFrame."
                ) from None
            if is_missing and not _URL.match(address):
                return _OpenedInput(None, where, address)  # the driver's error lists similar files
            raise InputError(
                f"{where} cannot be read as Parquet: {root_cause(str(error))}"
            ) from None
        frame = self.spark.read.schema(widen_schema(schema)).parquet(address)
        return _OpenedInput(frame, where, address)

    def _is_table(self, name: str) -> bool:
        from pyspark.errors import AnalysisException

        try:
            return bool(_TABLE_NAME.fullmatch(name)) and self.spark.catalog.tableExists(name)
        except AnalysisException:  # a namespace that the catalogue cannot have
            return False

    def _open_local(self, data: Any, argument: str) -> list[SparkTable]:
        """Read an input on the driver and send it to Spark."""
        frames, origin = read_local(data, argument)
        self.origins[argument] = origin
        tables = []
        for key, frame in frames.items():
            label_type = "String"
            if "label" in frame.columns:
                label_type, python_type = _local_label_type(frame["label"].dtype)
                frame = frame.with_columns(frame["label"].cast(python_type))
            with ignore_pandas_warning():
                spark_frame = self.spark.createDataFrame(frame.to_arrow())
            tables.append(SparkTable(key, spark_frame, origin, label_type))
        return tables

    def _persist(self, frame: DataFrame) -> DataFrame:
        from pyspark import StorageLevel

        if self.counts_rows and not _is_only_read(frame):
            self._persisted.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame


def _local_label_type(kind: Any) -> tuple[str, type]:
    """Return the polars and the Python type in which labels are sent to Spark."""
    if kind.is_integer():
        return "Int64", int
    if kind.is_float():
        return "Float64", float
    return ("Boolean", bool) if str(kind) == "Boolean" else ("String", str)


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
    exists = Path(address).exists() or bool(glob.glob(address))
    return exists and not _has_parquet(address)


def _has_parquet(address: str) -> bool:
    path = Path(address)
    paths: Iterable[Path] = map(Path, glob.glob(address))
    if path.is_file():
        paths = [path]
    elif path.is_dir():
        paths = path.rglob("*")
    visible = (each for each in paths if not each.name.startswith((".", "_")))
    return any(
        each.suffix.casefold() in _PARQUET_SUFFIXES or (each.is_dir() and _has_parquet(str(each)))
        for each in visible
    )


def _is_only_read(frame: DataFrame) -> bool:
    """Return True if the rows of a frame are read without expensive computation."""

    def node_names(plan: Any) -> Iterator[str]:
        yield plan.nodeName().partition(" ")[0]
        children = plan.children()
        for index in range(children.size()):
            yield from node_names(children.apply(index))

    return set(node_names(frame._jdf.queryExecution().optimizedPlan())) <= _READING_NODES
