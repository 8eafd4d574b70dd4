"""The tables of a call: DataFrames, tables by name, Parquet by path, and what the driver holds, as
rows of known columns.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.readers.files import File, FileTable
from weft.data.readers.roles import find_column_name
from weft.engines.partitioned import local_inputs
from weft.engines.partitioned.partitions import ALL_USERS, InputOrigin
from weft.engines.spark.failures import java_error, root_cause
from weft.engines.spark.sessions import quiet
from weft.engines.spark.spark_partitions import POLARS
from weft.errors import InputError

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import Column, DataFrame, SparkSession

_IDS = ("user", "item")
_WITH_EVERYONE = ("source", "truth")
_PLACE = " place"  # in an array; no column of a caller's is called so
_ELEMENT = " element"
# What a plan consists of if its rows are merely read, so that counting them costs little.
_READS = {
    "HiveTableRelation",
    "InMemoryRelation",
    "LocalRelation",
    "LogicalRDD",
    "LogicalRelation",
    "RelationV2",
    "Range",
}
_READS |= {"Filter", "Generate", "Project", "Union"}
_PARQUET = (".parquet", ".pq")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:/")
_NAME = re.compile(r"(\w+|`[^`]+`)(\.(\w+|`[^`]+`)){0,2}")


@dataclass(frozen=True)
class Rows:
    """The rows of a frame of the parts (`key`) in Spark: user and, as far as there are any, item,
    score, rank, rating, label.

    If it `names_users`, the rows that are marked in the column ALL_USERS merely name a user: they go
    into the frame `key + ALL_USERS`."""

    key: str
    frame: DataFrame
    origin: InputOrigin
    labels: str = "String"  # the polars type of the label
    names_users: bool = False

    @property
    def is_text(self) -> bool:
        """Whether there are labels that are sent as text: numbers with a fraction are not."""
        return "label" in self.frame.columns and self.labels != "Float64"


def is_spark_frame(given: Any) -> bool:
    """Whether this is a DataFrame of Spark's."""
    return type(given).__module__.startswith("pyspark.sql") and hasattr(given, "mapInArrow")


def quoted(name: str) -> Column:
    """The column of this very name, whatever dots there are in it."""
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")


class Reader:
    """Opens what a call is given. If it `counts`, what is work to compute is kept, so that its rows
    can be counted first.
    """

    def __init__(self, spark: SparkSession, *, counts: bool) -> None:
        self.spark = spark
        self.counts = counts
        self.origins: dict[str, InputOrigin] = {}
        self._kept: list[DataFrame] = []

    def release(self) -> None:
        """Give back what was kept."""
        for frame in self._kept:
            frame.unpersist()

    def small(self, given: Any, argument: str) -> Any:
        """What is of the size of the catalogue: Spark's tables as polars' frames, all else as it
        is.
        """
        if not is_spark_frame(given):
            if not isinstance(given, str) or not (_URL.match(given) or self._is_table(given)):
                return given
            given = self._opened(given, argument)[0]
        frame = _collected(given)
        if argument != "items":
            return frame
        column = (
            frame.columns[0]
            if len(frame.columns) == 1
            else find_column_name(frame.columns, "item", argument)
        )
        if column is None:
            raise InputError(
                f"{argument} has the columns {frame.columns}; expected one named 'item' with the "
                "item ids."
            )
        return (
            frame[column] if len(frame.columns) == 1 else frame[column].unique(maintain_order=True)
        )

    def open(self, given: Any, argument: str) -> list[Rows]:
        """An argument as rows of Spark."""
        frame, where, path = (
            (given, argument, None) if is_spark_frame(given) else self._opened(given, argument)
        )
        if frame is None:
            return self._held(given, argument)
        named, ids = (given.columns, given.ids) if isinstance(given, File) else ({}, "auto")
        if frame.isStreaming:
            raise InputError(
                f"{where} is a stream; expected a DataFrame that ends. Write it to a table first."
            )
        frame, from_arrays = _exploded(frame, where, named)
        roles, unread = local_inputs.assign_roles(
            [name for name in frame.columns if name != _PLACE], argument, where, named
        )
        if argument == "source" and not from_arrays and not {"score", "rank"} & roles.keys():
            raise InputError(
                f"{where} has the columns {frame.columns}, with neither scores nor ranks, and rows "
                "of Spark have no order. Add a "
                "column 'score' or 'rank', or give each list as an array, the best first."
            )
        types = {one.name: one.dataType for one in frame.schema.fields}
        columns = {
            role: _column(role, name, types[name], where, ids) for role, name in roles.items()
        }
        labels = (
            _label_type(types[roles["label"]], roles["label"], where)
            if "label" in roles
            else "String"
        )
        if from_arrays and argument == "source":
            columns["rank"] = quoted(_PLACE) + 1.0
        self.origins[argument] = origin = InputOrigin(where, path, unread, columns=tuple(columns))
        names_users = from_arrays and argument in _WITH_EVERYONE
        if names_users:
            columns[ALL_USERS] = quoted(_PLACE).isNull()
        elif from_arrays:
            frame = frame.where(quoted(_PLACE).isNotNull())
        frame = frame.select(*(column.alias(role) for role, column in columns.items()))
        return [Rows(argument, self._countable(frame), origin, labels, names_users)]

    def refuse_ids(self, rows: list[Rows]) -> None:
        """Refuse ids that are none, or of different types. Types tell; rows are looked at only
        where something is wrong.
        """
        types = {
            role: {_type(one.frame, role) for one in rows if role in one.frame.columns}
            for role in _IDS
        }
        if all(len(met) <= 1 and met <= set(POLARS) for met in types.values()):
            return
        samples = {
            one.key: _collected(
                one.frame.select(*(role for role in _IDS if role in one.frame.columns)).limit(3)
            )
            for one in rows
        }
        local_inputs.check_id_types(samples, {one.key: one.origin for one in rows})

    def _opened(self, given: Any, argument: str) -> tuple[DataFrame | None, str, str | None]:
        """A table or Parquet as a DataFrame (None: for the driver to read), what messages call it,
        and its path.
        """
        from pyspark.errors import PySparkException

        if isinstance(given, FileTable) or not isinstance(given, (str, Path, File)):
            return None, argument, None
        address = given.address if isinstance(given, File) else str(given)
        where = f"{argument} ({address})"
        if isinstance(given, str) and self._is_table(given):
            return self.spark.table(given), where, None
        is_parquet = isinstance(given, File) and given.format == "parquet"
        is_here = not _URL.match(address) and (Path(address).exists() or bool(glob.glob(address)))
        if not is_parquet and (
            (isinstance(given, File) and given.format is not None)
            or (is_here and not _holds_parquet(address))
        ):
            return None, where, address
        try:
            frame = self.spark.read.parquet(address)
        except (PySparkException, java_error()) as error:
            is_nowhere = "PATH_NOT_FOUND" in str(error)
            if (
                is_nowhere
                and isinstance(given, str)
                and _NAME.fullmatch(given)
                and Path(given).suffix not in _PARQUET
            ):
                raise InputError(
                    f"{argument} is {given!r}, which is neither a table that this session knows "
                    "nor a path. Give the name of a "
                    "table (db.table), the path of files, or a DataFrame."
                ) from None
            if is_nowhere and not _URL.match(address):
                return None, where, address  # the driver says what else there is
            raise InputError(
                f"{where} cannot be read as Parquet: {root_cause(str(error))}"
            ) from None
        # Some files may hold their numbers in fewer bits than others.
        return self.spark.read.schema(_widened(frame.schema)).parquet(address), where, address

    def _is_table(self, name: str) -> bool:
        from pyspark.errors import AnalysisException

        try:
            return bool(_NAME.fullmatch(name)) and self.spark.catalog.tableExists(name)
        except AnalysisException:  # a namespace that the catalogue cannot have
            return False

    def _held(self, given: Any, argument: str) -> list[Rows]:
        """What the driver holds, sent to Spark."""
        frames, origin = local_inputs.read_local(given, argument)
        self.origins[argument] = origin
        found = []
        for key, frame in frames.items():
            labels = "String"
            if "label" in frame.columns:
                kind = frame["label"].dtype
                labels = (
                    "Int64"
                    if kind.is_integer()
                    else "Float64"
                    if kind.is_float()
                    else "Boolean"
                    if str(kind) == "Boolean"
                    else "String"
                )
                frame = frame.with_columns(
                    frame["label"].cast(
                        {"Int64": int, "Float64": float, "Boolean": bool, "String": str}[labels]
                    )
                )
            with quiet():
                found.append(
                    Rows(key, self.spark.createDataFrame(frame.to_arrow()), origin, labels)
                )
        return found

    def _countable(self, frame: DataFrame) -> DataFrame:
        from pyspark import StorageLevel

        if not self.counts or _is_read(frame):
            return frame
        self._kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame


def _type(frame: DataFrame, column: str) -> str:
    return frame.schema[column].dataType.simpleString()


def _collected(frame: DataFrame) -> pl.DataFrame:
    import polars as pl

    with quiet():
        found = pl.from_arrow(frame.toArrow())
    assert isinstance(found, pl.DataFrame)
    return found


def _holds_parquet(address: str) -> bool:
    """Whether this path of the driver's means Parquet, by the names of its files."""
    path = Path(address)
    found = (
        [path]
        if path.is_file()
        else path.rglob("*")
        if path.is_dir()
        else map(Path, glob.glob(address))
    )
    files = (one for one in found if not one.name.startswith((".", "_")))
    return any(
        one.suffix.casefold() in _PARQUET or (one.is_dir() and _holds_parquet(str(one)))
        for one in files
    )


def _widened(schema: Any) -> Any:
    """The same columns, with integers of 64 bits and floats of double precision."""
    from pyspark.sql import types

    wide: dict[type, Any] = dict.fromkeys(
        (types.ByteType, types.ShortType, types.IntegerType), types.LongType()
    )
    wide |= {types.FloatType: types.DoubleType()}
    kinds = [
        (one.name, wide.get(type(one.dataType), one.dataType), one.nullable)
        for one in schema.fields
    ]
    return types.StructType([types.StructField(*kind) for kind in kinds])


def _is_read(frame: DataFrame) -> bool:
    """Whether the rows of a frame are merely read."""

    def nodes(plan: Any) -> Iterator[str]:
        yield plan.nodeName().partition(" ")[0]
        children = plan.children()
        for number in range(children.size()):
            yield from nodes(children.apply(number))

    return set(nodes(frame._jdf.queryExecution().optimizedPlan())) <= _READS


def _exploded(
    frame: DataFrame, where: str, named: Mapping[str, str | int]
) -> tuple[DataFrame, bool]:
    """Lists that are arrays, a row per user, as a row per item with its place; the place of what is
    empty is null.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import ArrayType, StructType

    arrays = {
        one.name: one.dataType.elementType
        for one in frame.schema.fields
        if isinstance(one.dataType, ArrayType)
    }
    plain = [name for name in frame.columns if name not in arrays]
    wanted = named.get("item")
    if isinstance(wanted, int):
        wanted = frame.columns[wanted] if wanted < len(frame.columns) else None
    if (
        not arrays
        or wanted in plain
        or (wanted is None and find_column_name(plain, "item", where) is not None)
    ):
        return frame, False
    if len(arrays) > 1 and wanted not in arrays:
        raise InputError(
            f"{where} has the arrays {', '.join(map(repr, arrays))}; expected one, with the items "
            "of each user or with structs "
            "(item, score). arrays_zip makes one of several."
        )
    array = wanted if wanted in arrays else next(iter(arrays))
    rows = frame.select(
        *map(quoted, plain), functions.posexplode_outer(quoted(str(array))).alias(_PLACE, _ELEMENT)
    )
    if isinstance(kind := arrays[str(array)], StructType):
        inside = [quoted(_ELEMENT).getField(name).alias(name) for name in kind.names]
        return rows.select(
            *(quoted(name) for name in plain if name not in kind.names), *inside, quoted(_PLACE)
        ), True
    return rows.select(
        *map(quoted, plain),
        quoted(_ELEMENT).alias(wanted if isinstance(wanted, str) else "item"),
        quoted(_PLACE),
    ), True


def _refuse(message: str) -> Column:
    """Raises an error in the job, which comes to the caller as an InputError."""
    from pyspark.sql import functions

    return functions.raise_error(functions.lit(message))


def _column(role: str, name: str, kind: Any, where: str, ids: str) -> Column:
    """A column as its role wants it: ids as long or string, numbers as double, labels as they are."""
    from pyspark.sql import functions, types

    column = quoted(name)
    is_whole = isinstance(kind, types.DecimalType) and kind.scale == 0  # as databases have them
    if role == "label":
        return column.cast("double") if isinstance(kind, types.DecimalType) else column
    if role in _IDS:
        if isinstance(kind, types.StringType):
            if ids != "integer":
                return column.cast("string")
            number = functions.trim(column).try_cast("long")
            wrong = f"{where}: the column {name!r} has {role} ids that are no integers, but ids='integer' was given."
            return functions.when(column.isNotNull() & number.isNull(), _refuse(wrong)).otherwise(
                number
            )
        if not isinstance(kind, types.IntegralType) and not is_whole:
            return column  # refused, with some of them
        if ids == "string" or not is_whole:
            return column.cast("string" if ids == "string" else "long")
        beyond = _refuse(f"{where} has {role} ids beyond 63 bits; give such ids as strings.")
        return functions.when((column >= 2**63) | (column < -(2**63)), beyond).otherwise(
            column.cast("long")
        )
    if not isinstance(kind, (types.NumericType, types.BooleanType, types.NullType)):
        raise InputError(
            f"{where}: the column {name!r} holds {kind.simpleString()}; {role}s must be numbers."
        )
    if not isinstance(kind, types.LongType) and not is_whole:
        return column.cast("double")
    them = "the scores" if role == "score" else "them"
    beyond = _refuse(
        f"{where}: the column {name!r} has integers beyond 2**53, which float64 cannot tell apart; "
        f"rescale {them}."
    )
    return functions.when((column > 2**53) | (column < -(2**53)), beyond).otherwise(
        column.cast("double")
    )


def _label_type(kind: Any, name: str, where: str) -> str:
    """The polars type of labels."""
    from pyspark.sql import types

    known: list[tuple[Any, str]] = [
        (types.StringType, "String"),
        (types.IntegralType, "Int64"),
        (types.BooleanType, "Boolean"),
    ]
    for one, polars in (*known, (types.NumericType, "Float64"), (types.NullType, "String")):
        if isinstance(kind, one):
            return polars
    raise InputError(
        f"{where}: the column {name!r} holds {kind.simpleString()}; labels are strings or numbers."
    )
