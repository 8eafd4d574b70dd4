"""Evaluation on Spark.

Each Spark partition has all rows of its users: workers read them from Parquet files, a range of
users each, or the rows of all inputs are split by user and shuffled once. `mapInArrow` evaluates
the partitions. Their pickled results stay in Spark's storage; states are merged as a tree of
executors, so that only data of the size of the catalogue comes to the driver. Spark repeats work
that was lost with a worker.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from weft.data.positions import PositionalIds
from weft.data.recommendations import are_lists
from weft.engines.partitioned.custom_code import sent_by_value
from weft.engines.partitioned.driver import (
    collect_item_inputs,
    evaluate_partitions,
    take_user_inputs,
)
from weft.engines.partitioned.partition_results import collect_user_tables, get_user_values
from weft.engines.spark.failures import convert_errors
from weft.engines.spark.file_partitions import read_by_ranges
from weft.engines.spark.job_watch import watch_jobs
from weft.engines.spark.sessions import open_session, require_spark, session
from weft.engines.spark.shuffle import shuffle_by_user
from weft.engines.spark.spark_partitions import SparkPartitions
from weft.engines.spark.spark_tables import SparkReader, is_spark_frame
from weft.errors import InputError, check_int, describe_type
from weft.evaluation.api import bind_arguments
from weft.evaluation.result import Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkResult", "evaluate", "session"]


@dataclass(frozen=True, eq=False, repr=False)
class SparkResult(Result):
    """A `Result` with its values per user in Spark.

    Attributes
    ----------
    per_user_table
        With `per_user=True`, a Spark DataFrame with the columns of `Result.per_user`. It can be
        written as Parquet, and is valid while the session runs.
    """

    per_user_table: DataFrame | None = None
    partition_results: SparkPartitions[Any] | None = None  # from which the table is computed

    def collected(self) -> Result:
        """Return a `Result` with the values of users in the memory of this process."""
        values = _field_values(self)
        if self.partition_results is not None:
            tables = collect_user_tables(self.partition_results)
            values["per_user"], values["user_labels"] = tables
        return Result(**values)


def _field_values(result: Result) -> dict[str, Any]:
    """Return the arguments that build a Result with the content of another."""
    return {each.name: getattr(result, each.name) for each in fields(Result)}


def evaluate(
    source: Any,
    truth: Any,
    *,
    spark: SparkSession | None = None,
    parts: int | None = None,
    address: str | None = None,
    **settings: Any,
) -> SparkResult:
    """Evaluate recommendation lists on Spark, with the same values as `weft.evaluate`.

    Parameters
    ----------
    source
        Recommendation lists in one of these forms:

        - A Spark DataFrame, the name of a table, or the path of Parquet as Spark reads it (a
          folder, a pattern, `s3a://...`), with the columns user, item, and a score or a rank; or
          with a row per user and an array of items or of structs (item, score), the best item
          first, as from `ALSModel.recommendForAllUsers`.
        - Any other recommendation lists of `weft.evaluate`, which the driver reads.
    truth
        Test interactions (ground truth): a DataFrame, table or path of the same kind, or any other
        form of `weft.evaluate`.
    spark
        The session. Default: the active one, or a new one, which is stopped at the end unless a
        per-user table needs it.
    parts
        Number of partitions of the users. Default: the number of tasks that run at once, or a
        multiple of it if a partition would have more than four million rows.
    address
        URL of the master for a new session. Default: all cores of this machine.
    settings
        Other keyword arguments of `weft.evaluate`. `train`, `candidates`, `user_groups` and
        `slices` can have the forms of `truth`; so can `items`, `item_clusters` and `item_features`,
        which the driver collects.

    Returns
    -------
    SparkResult
        The result. With `per_user=True`, the values of users stay in Spark
        (`SparkResult.per_user_table`).

    Raises
    ------
    EngineError
        If Spark cannot be reached, or a task fails.
    """
    parts = None if parts is None else check_int("parts", parts)
    require_spark()
    if not is_spark_frame(source) and not are_lists(source):
        raise InputError(
            f"source is {describe_type(source)}; Spark evaluates recommendation lists: a "
            "DataFrame (user, item, and a score or a rank), a table, or a path. Models are "
            "evaluated by weft.evaluate, or on several machines by weft.engines.ray.evaluate."
        )
    inputs, arguments, positions = take_user_inputs(
        bind_arguments(source, truth, settings),
        has_lists=True,
        engine="Spark",
        has_table_names=True,
    )
    from pyspark import cloudpickle

    with (
        sent_by_value(cloudpickle, arguments["metrics"]),
        open_session(spark, address, stop=not arguments["per_user"]) as opened,
        watch_jobs(opened, progress=arguments["progress"]),
        convert_errors(),
    ):
        return _evaluate(opened, inputs, arguments, positions, parts)


def _evaluate(
    spark: SparkSession,
    inputs: dict[str, Any],
    arguments: dict[str, Any],
    positions: PositionalIds,
    parts: int | None,
) -> SparkResult:
    reader = SparkReader(spark, counts_rows=parts is None)
    collect_item_inputs(arguments, reader.collect_items)
    partitions = results = None
    keeps_results = False
    try:
        tables = [table for name, data in inputs.items() for table in reader.open(data, name)]
        reader.check_ids(tables)
        partitions = read_by_ranges(spark, tables, parts) or shuffle_by_user(spark, tables, parts)
        result, results = evaluate_partitions(
            partitions, reader.origins, arguments, positions, engine="Spark"
        )
        values = _field_values(result)
        if not arguments["per_user"]:
            return SparkResult(**values)
        assert isinstance(results, SparkPartitions)
        table = results.to_table(get_user_values)
        keeps_results = True
        return SparkResult(**values, per_user_table=table, partition_results=results)
    except InputError:
        reader.check_parts()  # nulls of a file without the column are reported as such
        raise
    finally:
        reader.release()
        if partitions is not None:
            partitions.release()
        if results is not None and not keeps_results:
            results.release()
