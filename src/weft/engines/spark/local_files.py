"""Parquet files of Spark DataFrames, which workers can read without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from weft.data.readers.roles import ID_ROLES, NUMBER_ROLES
from weft.engines.partitioned.parquet_rows import ParquetTable, RowReader, read_footers
from weft.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class LocalFile(NamedTuple):
    """A Parquet file in the file system, with the polars types of its columns."""

    path: str
    num_rows: int
    types: Mapping[str, Any]


def find_local_files(frame: DataFrame) -> list[LocalFile]:
    """Return the Parquet files of a frame that only reads their columns, all the same in each.

    None for other frames, and for files that this machine does not have in its file system.
    """
    paths = _find_paths(frame)
    try:
        footers = read_footers(paths, "")
    except InputError:
        return []  # Spark reports it, if it cannot read the file either
    files = [LocalFile(path, *footer) for path, footer in zip(paths, footers)]
    are_alike = all(list(file.types) == list(files[0].types) for file in files)
    return files if are_alike else []


def _find_paths(frame: DataFrame) -> list[str]:
    """Return the paths of local Parquet files of which a frame reads columns as they are."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    if plan.nodeName() == "Project" and _has_plain_columns(plan):
        plan = plan.child()
    if not plan.nodeName().startswith("LogicalRelation") or not _is_parquet(plan.relation()):
        return []
    urls = [urlsplit(url) for url in sorted(frame.inputFiles())]
    if any(url.scheme != "file" or url.netloc for url in urls):
        return []
    return [unquote(url.path) for url in urls]


def _has_plain_columns(projection: Any) -> bool:
    """Return True if a projection selects columns, without new names and expressions."""
    columns = projection.projectList()
    names = {columns.apply(index).nodeName() for index in range(columns.size())}
    return names == {"AttributeReference"}


def _is_parquet(relation: Any) -> bool:
    """Return True if a relation is Parquet files; False if names of folders are columns of it."""
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return False
    return relation.fileFormat().toString() == "Parquet" and not relation.partitionSchema().size()


def open_files(
    files: Sequence[LocalFile], roles: Mapping[str, str], where: str, schema: Any
) -> ParquetTable | None:
    """Return files as a table with the columns of these roles; None if there are none.

    None also if polars does not read a column as Spark does; `schema` is that of Spark.
    """
    for file in files:
        for role, name in roles.items():
            if name not in file.types or not _is_alike(role, file.types[name], schema[name]):
                return None
    if not files:
        return None
    first = files[0].types
    strings = {role for role in ID_ROLES if role in roles and not first[roles[role]].is_integer()}
    reader = RowReader(where, roles, frozenset(strings))
    return ParquetTable(reader, [(file.path, file.num_rows) for file in files])


def _is_alike(role: str, dtype: Any, field: Any) -> bool:
    """Return True if polars reads a column as Spark does: integers, strings, or numbers."""
    import polars as pl
    from pyspark.sql import types

    if role in NUMBER_ROLES:
        is_number = dtype.is_integer() or dtype.is_float()
        return is_number and isinstance(field.dataType, types.NumericType)
    if dtype == pl.String:
        return isinstance(field.dataType, types.StringType)
    return dtype.is_integer() and isinstance(field.dataType, types.IntegralType)
