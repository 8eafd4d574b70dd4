"""Columns of Spark DataFrames: conversion by role, and lists in arrays as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weft.data.readers.roles import find_column_name
from weft.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ID_ROLES = ("user", "item")
ID_TYPES = ("bigint", "string")
# Types of the columns in partitions: Spark -> polars.
POLARS_TYPES = {"bigint": "Int64", "string": "String", "double": "Float64", "boolean": "Boolean"}
POSITION = " position"  # in an array, from 0; the space avoids names of the caller's columns
_ELEMENT = " element"


def column_by_name(name: str) -> Column:
    """Return the column of exactly this name, also if it contains dots."""
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")


def explode_arrays(
    frame: DataFrame, where: str, declared: Mapping[str, str | int]
) -> tuple[DataFrame, bool]:
    """Return lists in arrays, a row per user, as a row per item; and True if there were arrays.

    The rows have the column `POSITION`, which is null for an empty list.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    array, element_type = _find_array(frame, where, declared)
    if array is None:
        return frame, False
    scalars = [name for name in frame.columns if not _is_array(frame, name)]
    rows = frame.select(
        *map(column_by_name, scalars),
        functions.posexplode_outer(column_by_name(array)).alias(POSITION, _ELEMENT),
    )
    element = column_by_name(_ELEMENT)
    if isinstance(element_type, StructType):
        scalars = [name for name in scalars if name not in element_type.names]
        fields = [element.getField(name).alias(name) for name in element_type.names]
    else:
        fields = [element.alias(_declared_item(frame, declared) or "item")]
    return rows.select(*map(column_by_name, scalars), *fields, column_by_name(POSITION)), True


def _is_array(frame: DataFrame, name: str) -> bool:
    from pyspark.sql.types import ArrayType

    return isinstance(frame.schema[name].dataType, ArrayType)


def _declared_item(frame: DataFrame, declared: Mapping[str, str | int]) -> str | None:
    """Return the name of the item column that the caller declares."""
    item = declared.get("item")
    if isinstance(item, int):
        return frame.columns[item] if item < len(frame.columns) else None
    return item


def _find_array(
    frame: DataFrame, where: str, declared: Mapping[str, str | int]
) -> tuple[str | None, Any]:
    """Return the name and the element type of the array with the items, None if there is none."""
    from pyspark.sql.types import ArrayType

    arrays = {
        field.name: field.dataType.elementType
        for field in frame.schema.fields
        if isinstance(field.dataType, ArrayType)
    }
    if not arrays:
        return None, None
    item = _declared_item(frame, declared)
    scalars = [name for name in frame.columns if name not in arrays]
    if item in scalars or (item is None and find_column_name(scalars, "item", where) is not None):
        return None, None
    if item in arrays:
        return item, arrays[item]
    if len(arrays) > 1:
        raise InputError(
            f"{where} has the arrays {', '.join(map(repr, arrays))}; expected one, with the items "
            "of each user or with structs (item, score). arrays_zip makes one of several."
        )
    return next(iter(arrays.items()))


def convert_columns(
    frame: DataFrame, roles: Mapping[str, str], *, where: str, ids: str
) -> tuple[dict[str, Column], str]:
    """Return the column of each role, and the polars type of labels.

    Ids become long or string, numbers double; labels are unchanged.
    """
    from pyspark.sql import types

    columns, label_type = {}, "String"
    for role, name in roles.items():
        kind = frame.schema[name].dataType
        if role in ID_ROLES:
            columns[role] = _convert_ids(role, name, kind, where=where, ids=ids)
        elif role != "label":
            columns[role] = _convert_numbers(role, name, kind, where)
        else:
            label_type, column = _find_label_type(kind, name, where), column_by_name(name)
            is_decimal = isinstance(kind, types.DecimalType)
            columns[role] = column.cast("double") if is_decimal else column
    return columns, label_type


def _convert_ids(role: str, name: str, kind: Any, *, where: str, ids: str) -> Column:
    from pyspark.sql import functions, types

    column = column_by_name(name)
    if isinstance(kind, types.StringType):
        if ids != "integer":
            return column.cast("string")
        number = functions.trim(column).try_cast("long")
        message = (
            f"{where}: the column {name!r} has {role} ids that are not integers, but "
            "ids='integer' was given."
        )
        is_wrong = column.isNotNull() & number.isNull()
        return functions.when(is_wrong, _raise_in_query(message)).otherwise(number)
    if not isinstance(kind, types.IntegralType) and not _is_whole_decimal(kind):
        return column  # `SparkReader.check_ids` raises an error, with examples
    if ids == "string":
        return column.cast("string")
    if not _is_whole_decimal(kind):
        return column.cast("long")
    message = f"{where} has {role} ids beyond 63 bits; give such ids as strings."
    is_large = (column >= 2**63) | (column < -(2**63))
    return functions.when(is_large, _raise_in_query(message)).otherwise(column.cast("long"))


def _convert_numbers(role: str, name: str, kind: Any, where: str) -> Column:
    from pyspark.sql import functions, types

    column = column_by_name(name)
    if not isinstance(kind, (types.NumericType, types.BooleanType, types.NullType)):
        raise InputError(
            f"{where}: the column {name!r} has the type {kind.simpleString()}; {role}s must be "
            "numbers."
        )
    if not isinstance(kind, types.LongType) and not _is_whole_decimal(kind):
        return column.cast("double")
    advice = ", or give ranks" if role == "score" else ""
    message = (
        f"{where}: the column {name!r} has integers beyond 2**53, which float64 cannot represent "
        f"exactly; rescale the {role}s{advice}."
    )
    is_large = (column > 2**53) | (column < -(2**53))
    return functions.when(is_large, _raise_in_query(message)).otherwise(column.cast("double"))


def _is_whole_decimal(kind: Any) -> bool:
    """Return True for decimals without fraction, in which databases store integers."""
    from pyspark.sql import types

    return isinstance(kind, types.DecimalType) and kind.scale == 0


def _raise_in_query(message: str) -> Column:
    """Return a column that raises an error when evaluated; the caller gets an InputError."""
    from pyspark.sql import functions

    return functions.raise_error(functions.lit(message))


def _find_label_type(kind: Any, name: str, where: str) -> str:
    """Return the polars type of a label column."""
    from pyspark.sql import types

    known: list[tuple[Any, str]] = [
        (types.StringType, "String"),
        (types.IntegralType, "Int64"),
        (types.BooleanType, "Boolean"),
        (types.NumericType, "Float64"),
        (types.NullType, "String"),
    ]
    for spark_type, polars_type in known:
        if isinstance(kind, spark_type):
            return polars_type
    raise InputError(
        f"{where}: the column {name!r} has the type {kind.simpleString()}; labels are strings or "
        "numbers."
    )


def widen_schema(schema: Any) -> Any:
    """Return the schema with 64-bit integers and floats: files may differ in their precision."""
    from pyspark.sql import types

    wide: dict[type, Any] = dict.fromkeys(
        (types.ByteType, types.ShortType, types.IntegerType), types.LongType()
    )
    wide[types.FloatType] = types.DoubleType()
    return types.StructType(
        [
            types.StructField(
                field.name, wide.get(type(field.dataType), field.dataType), field.nullable
            )
            for field in schema.fields
        ]
    )
