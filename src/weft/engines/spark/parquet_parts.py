"""The columns of the files of a Parquet folder; Spark reads nulls where a file lacks a column."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from weft.engines.spark.failures import java_error, root_cause
from weft.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_THREADS = 8


def may_differ(spark: SparkSession, address: str, names: list[str]) -> bool:
    """Return True if files have columns beyond `names`, or types that cannot be merged.

    One job reads the footers of all files. It does not see that a file lacks a column.
    """
    from pyspark.errors import PySparkException

    reader = spark.read.option("mergeSchema", "true")
    try:
        return len(reader.parquet(address).schema.names) != len(names)
    except (PySparkException, java_error()):
        return True


def check_part_columns(frame: DataFrame, where: str) -> None:
    """Raise InputError, with the file, if the files of a frame have different columns.

    The driver reads their footers.
    """
    context: Any = frame.sparkSession.sparkContext
    java, configuration = context._jvm, context._jsc.hadoopConfiguration()

    def read_columns(url: str) -> tuple[str, list[str]]:
        path = java.org.apache.hadoop.fs.Path(java.java.net.URI(url))
        file = java.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, configuration)
        try:
            reader = java.org.apache.parquet.hadoop.ParquetFileReader.open(file)
        except java_error() as error:
            reason = root_cause(str(error))
            raise InputError(f"{where}: {path} cannot be read as Parquet: {reason}") from None
        fields = reader.getFileMetaData().getSchema().getFields()
        names = [fields.get(index).getName() for index in range(fields.size())]
        reader.close()
        return path.toString(), names

    with ThreadPoolExecutor(_THREADS) as threads:
        files = list(threads.map(read_columns, sorted(frame.inputFiles())))
    (first, expected), *others = files or [("", [])]
    for path, names in others:
        if {name.casefold() for name in names} != {name.casefold() for name in expected}:
            raise InputError(
                f"{where}: the parts of a folder must have the same columns: {first} has "
                f"{expected}, but {path} has {names}."
            )
