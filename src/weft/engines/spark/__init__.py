"""Spark: all rows of a user come into one partition, partitions are evaluated by `mapInArrow`, and
what comes of them is merged.

Recommendation lists, truth, train, candidates and labels go into one table, which is shuffled by
user once. Each partition is a part of the users. What is kept of a part (a pickle) lies beside it
in Spark's storage; what is merged goes through a tree of executors, so that only what is of the
size of the catalogue, a few times, comes to the driver. Spark runs again what was lost with a
worker."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from weft._choices import CandidatePool, choices
from weft.data.recommendations import are_lists
from weft.data.slices import parse_slices
from weft.engines.partitioned.driver import evaluate_partitions
from weft.engines.partitioned.empty_run import check_arguments
from weft.engines.partitioned.partition_results import collect_user_tables, get_user_values
from weft.engines.partitioned.partitions import ALL_USERS, Partition
from weft.engines.spark.failures import explained
from weft.engines.spark.sessions import require, running, session
from weft.engines.spark.spark_partitions import POLARS, Layout, SparkPartitions, read_part
from weft.engines.spark.spark_tables import Reader, Rows, is_spark_frame, quoted
from weft.errors import InputError, check_int
from weft.evaluation.api import evaluate as evaluate_alone
from weft.evaluation.result import Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkResult", "evaluate", "session"]

# Rows of a part, where the number of parts is not given: at most so many, and so many before
# another part is worth its start.
_ROWS_OF_PART = 1 << 21
_FEW_ROWS = 1 << 16


@dataclass(frozen=True, eq=False, repr=False)
class SparkResult(Result):
    """A Result whose values per user stay in Spark.

    `per_user_table`, with `per_user=True`, is a Spark DataFrame: user, and a column per metric, as
    `Result.per_user` has them. It can be written as Parquet, and is valid as long as the session
    runs."""

    per_user_table: DataFrame | None = None
    answers: SparkPartitions[Any] | None = None  # of the parts, which the table is read from

    def collected(self) -> Result:
        """The same with what is known of each user in the memory of this process, for
        `weft.compare`.
        """
        known = {one.name: getattr(self, one.name) for one in fields(Result)}
        if self.answers is not None:
            known["per_user"], known["user_labels"] = collect_user_tables(self.answers)
        return Result(**known)


def evaluate(
    source: Any,
    truth: Any,
    *,
    spark: SparkSession | None = None,
    parts: int | None = None,
    address: str | None = None,
    **settings: Any,
) -> SparkResult:
    """`weft.evaluate` on Spark: the same arguments, the same values.

    source, truth, train, candidates, user_groups, slices
        A Spark DataFrame, the name of a table, the path of Parquet as Spark reads it (a folder, a
        pattern, `s3a://...`), or whatever `weft.evaluate` reads, which the driver then holds.
        Recommendation lists have a score or a rank, or are arrays: a row per user, with an array of
        items or of structs (item, score), the best first, as `ALSModel.recommendForAllUsers` gives
        them.
    items, item_clusters, item_features
        As for `weft.evaluate`, or one of the above; the driver collects them.
    spark, address
        The session; without it the active one, or else a new one at `address` (the URL of a master,
        by default all cores of this machine), which is stopped at the end, unless a per-user table
        needs it.
    parts
        In how many parts the users are evaluated. By default as many as tasks run at once, and more
        where a part would have more than two million rows.

    With `per_user=True` the values of users stay in Spark: `result.per_user_table`.
    """
    bound = inspect.signature(evaluate_alone).bind(source, truth, **settings)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    parts = None if parts is None else check_int("parts", parts)
    require()
    if not is_spark_frame(source) and not are_lists(source):
        raise InputError(
            f"source is a {type(source).__name__}; Spark evaluates recommendation lists: a "
            "DataFrame (user, item, and a score or a "
            "rank), a table, or a path. Models are evaluated by weft.evaluate, or on several "
            "machines by weft.engines.ray.evaluate."
        )
    given = {
        name: arguments[name]
        for name in ("source", "truth", "train", "user_groups")
        if arguments[name] is not None
    }
    if not (
        isinstance(arguments["candidates"], str)
        and arguments["candidates"].casefold() in choices(CandidatePool)
    ):
        given["candidates"] = arguments["candidates"]
        arguments["candidates"] = _GIVEN  # the name of a table is none that checks of settings know
    check_arguments(arguments, has_lists=True, engine="Spark")
    for one in parse_slices(arguments["slices"], has_train=arguments["train"] is not None):
        if one.source is not None:
            given[one.where] = one.source
            by = {} if one.cut is None else {"by": str(one.cut)}
            arguments["slices"] = {
                **arguments["slices"],
                one.name: {"of": _GIVEN, **by} if by else _GIVEN,
            }
    with (
        running(
            spark, address, stops=not arguments["per_user"], progress=arguments["progress"]
        ) as found,
        explained(),
    ):
        return _evaluate(found, given, arguments, parts)


_GIVEN = True  # where rows lie in the parts


def _evaluate(
    spark: SparkSession, given: dict[str, Any], arguments: dict[str, Any], parts: int | None
) -> SparkResult:
    reader = Reader(spark, counts=parts is None)
    for name in ("items", "item_clusters", "item_features"):
        arguments[name] = reader.small(arguments[name], name)
    parted = answers = None
    is_done = False
    try:
        rows = [one for name, some in given.items() for one in reader.open(some, name)]
        reader.refuse_ids(rows)
        parted = _partition(spark, rows, parts)
        result, answers = evaluate_partitions(parted, reader.origins, arguments, engine="Spark")
        known = {one.name: getattr(result, one.name) for one in fields(Result)}
        if not arguments["per_user"]:
            return SparkResult(**known)
        assert isinstance(answers, SparkPartitions)
        table = answers.table(get_user_values)
        is_done = True
        return SparkResult(**known, per_user_table=table, answers=answers)
    finally:
        reader.release()
        if parted is not None:
            parted.release()
        if answers is not None and not is_done:
            answers.release()


def _partition(
    spark: SparkSession, rows: list[Rows], parts: int | None
) -> SparkPartitions[Partition]:
    """All rows in one table, those of a user in one partition.

    Its columns: argument (which of the frames of a part the row is of), user, item, value (a score,
    a rating, or a label with a fraction), and, where somebody has them, rank and label (as text).
    """
    from pyspark.sql import functions

    kinds = {}
    for role in ("user", "item"):
        types = [
            one.frame.schema[role].dataType.simpleString()
            for one in rows
            if role in one.frame.columns
        ]
        kinds[role] = next(
            (kind for kind in types if kind in POLARS), "bigint"
        )  # others have no rows: their ids were looked at
    has_rank = any("rank" in one.frame.columns for one in rows)
    has_text = any(one.is_text for one in rows)
    nothing = functions.lit(None)
    layout: list[Layout] = []
    tables: list[DataFrame] = []
    for one in rows:
        has = set(one.frame.columns)
        number = functions.lit(len(layout))
        value = next((name for name in ("score", "rating") if name in has), None)
        numbers = value or ("label" if "label" in has and not one.is_text else None)
        ids: dict[str, str] = {
            role: POLARS[kinds[role]] for role in ("user", "item") if role in has
        }
        layout.append(
            Layout(one.key, ids, value, "rank" in has, one.labels if "label" in has else None)
        )
        if one.names_users:
            number = functions.when(quoted(ALL_USERS), len(layout)).otherwise(number)
            layout.append(Layout(one.key + ALL_USERS, {"user": POLARS[kinds["user"]]}))
        columns = {
            "argument": number.cast("tinyint"),
            "user": quoted("user").cast(kinds["user"]),
            "item": (quoted("item") if "item" in has else nothing).cast(kinds["item"]),
            "value": (nothing if numbers is None else quoted(numbers)).cast("double"),
        }
        if has_rank:
            columns["rank"] = (quoted("rank") if "rank" in has else nothing).cast("double")
        if has_text:
            columns["label"] = (quoted("label") if one.is_text else nothing).cast("string")
        tables.append(one.frame.select(*(column.alias(name) for name, column in columns.items())))
    everything = reduce(lambda one, other: one.unionByName(other), tables)
    number_of_parts = parts or _enough(spark, everything.count())
    shuffled = SparkPartitions(
        everything.repartition(number_of_parts, "user"),
        number_of_parts,
        partial(read_part, tuple(layout), kinds),
    )
    return shuffled.map(
        _itself
    )  # rows go from Java to Python once; what is kept is read several times


def _itself(part: Partition) -> Partition:
    return part


def _enough(spark: SparkSession, rows: int) -> int:
    """How many parts so many rows are worth."""
    at_once = spark.sparkContext.defaultParallelism
    return max(1, -(-rows // _ROWS_OF_PART), min(at_once, -(-rows // _FEW_ROWS)))
