"""Evaluation on Spark with two tasks matches one process."""

import gc
import os
import re
import shutil
import signal
import sys
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np
import polars as pl
import polars.testing
import pytest

import weft
from engines import check_custom_metrics, require_spark
from local_engine import assert_same
from test_partitioned import (
    CLUSTERS,
    FEATURES,
    GROUPS,
    ITEMS,
    LISTS,
    OF_LISTS,
    SLICES,
    TRAIN,
    TRUTH,
    WITH_EMPTY_ROWS,
    WITH_EMPTY_TRAIN,
)
from weft.engines.spark import SparkResult, evaluate, session
from weft.engines.spark.failures import root_cause
from weft.engines.spark.local_files import find_local_files, open_files
from weft.engines.spark.shuffle import _partition_keys, default_parts
from weft.engines.spark.spark_partitions import (
    SparkPartitions,
    _freeze_modules,
    _read_values,
    _write_value,
)
from weft.errors import EngineError, InputError, MissingExtra, SettingError

slow = pytest.mark.slow
FEW = {"metrics": ["nDCG", "Recall", "Gini"], "top_k": [3, 8]}


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session that runs a task that was lost twice more."""
    require_spark()
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(
        sys.modules[__name__]
    )  # workers do not know the modules of tests
    here = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("spark"))  # where tables lie
    with session("local[2,3]") as running:
        yield running
    os.chdir(here)


@pytest.fixture(scope="module")
def sent(spark):
    """A polars frame as one of Spark's."""
    return lambda frame: spark.createDataFrame(frame.to_arrow())


def labels(given):
    """Labels of users as a frame, without those that are missing."""
    known = {user: label for user, label in given.items() if label is not None}
    return pl.DataFrame({"user": list(known), "label": list(known.values())})


# --------------------------------------------------------------------------------------------------


@slow
def test_all_metrics_match_one_process(spark, sent, tmp_path):
    parts = [tmp_path / "truth" / f"{number}.parquet" for number in range(3)]
    parts[0].parent.mkdir()
    for number, path in enumerate(
        parts
    ):  # each user in all files, which have ids of different widths
        TRUTH.gather_every(3, number).cast(
            {"user": (pl.Int64, pl.Int32, pl.UInt8)[number], "rating": pl.Float32}
        ).write_parquet(path)
    sent(TRAIN.rename({"user": "visitor_id"})).write.mode("overwrite").saveAsTable("met")
    given = {name: SLICES[name] for name in ("parity", "age")}
    age = {"of": sent(labels(SLICES["age"]["of"])), "by": SLICES["age"]["by"]}
    slices = {**given, "parity": sent(labels(SLICES["parity"])), "age": age}
    settings = {
        "metrics": OF_LISTS,
        "top_k": [3, 8],
        "per_user": True,
        "exposure": True,
        "bootstrap": 20,
        "name": "lists",
    }
    expected = weft.evaluate(
        LISTS,
        TRUTH,
        train=TRAIN,
        user_groups=GROUPS,
        item_clusters=CLUSTERS,
        item_features=FEATURES,
        slices=given,
        **settings,
    )
    found = evaluate(
        sent(LISTS),
        str(parts[0].parent),
        train="default.met",
        user_groups=sent(labels(GROUPS)),
        item_clusters=sent(
            pl.DataFrame({"item": list(CLUSTERS), "label": list(CLUSTERS.values())})
        ),
        item_features=FEATURES,
        slices=slices,
        parts=3,
        **settings,
    )
    assert (
        isinstance(found, SparkResult) and found.per_user is None and found.provenance["parts"] == 3
    )
    assert_same(found.collected(), expected)
    found.per_user_table.write.parquet(str(tmp_path / "per_user"))
    written = pl.read_parquet(tmp_path / "per_user" / "*.parquet")
    pl.testing.assert_frame_equal(written, expected.per_user, check_row_order=False, abs_tol=1e-9)
    assert "nDCG" in str(found)
    assert weft.load_result(found.save(tmp_path / "found.json"))["nDCG@8"] == found["nDCG@8"]
    assert weft.compare([found.collected(), expected], metrics=["nDCG@8"]).to_frame()["difference"][
        0
    ] == pytest.approx(0)


@slow
def test_ranks_string_ids_and_more_partitions_than_users(sent, monkeypatch):
    monkeypatch.setattr("weft.engines.spark.spark_partitions._FAN_IN", 3)  # merged on two levels

    def few(frame):
        return frame.filter(pl.col("user") < 9).with_columns(
            pl.format("u{}", "user").alias("user"), pl.format("i{}", "item").alias("item")
        )

    lists = LISTS.with_columns(
        rank=pl.col("score").rank("ordinal", descending=True).over("user").cast(pl.Int32)
    ).drop("score")
    settings = {
        **FEW,
        "seed": 3,
        "slices": {"side": {f"u{user}": bool(user % 2) for user in range(9)}},
    }
    found = evaluate(sent(few(lists)), sent(few(TRUTH)), parts=12, train=few(TRAIN), **settings)
    assert_same(found, weft.evaluate(few(lists), few(TRUTH), train=few(TRAIN), **settings))


@slow
@pytest.mark.usefixtures("spark")
def test_users_without_items_in_train_do_not_count():
    settings = {"metrics": OF_LISTS, "top_k": [2, 4], **WITH_EMPTY_TRAIN}
    expected = weft.evaluate(*WITH_EMPTY_ROWS, **settings)
    assert_same(evaluate(*WITH_EMPTY_ROWS, parts=3, **settings), expected)


@slow
def test_reads_lists_as_arrays(spark, sent):
    ordered = LISTS.sort("user", "score", descending=[False, True])
    lists = dict(ordered.group_by("user", maintain_order=True).agg("item").iter_rows()) | {
        2: [],
        99: [],
    }
    arrays = spark.createDataFrame([*lists.items(), (98, None)], "userId int, items array<int>")
    truth = {
        user: dict(zip(rows["item"], rows["rating"]))
        for (user,), rows in TRUTH.group_by("user", maintain_order=True)
    } | {98: {}}
    assert_same(
        evaluate(arrays, truth, parts=2, **FEW), weft.evaluate(lists | {98: []}, truth, **FEW)
    )

    ranked = ordered.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"))
    structs = ranked.group_by("user").agg(recommendations=pl.struct(movieId="item", rating="score"))
    settings = {"metrics": ["nDCG", "RMSE"], "top_k": 5}
    assert_same(
        evaluate(sent(structs), TRUTH, parts=2, **settings),
        weft.evaluate(ranked, TRUTH, **settings),
    )


@slow
def test_sampled_candidates_and_skew(spark, sent):
    mine = pl.DataFrame(
        {"user": [7] * 4000, "item": np.arange(4000) % ITEMS}
    )  # one user has most of all rows
    train = pl.concat([TRAIN, mine])
    candidates = pl.concat([LISTS.select("user", "item"), TRUTH.select("user", "item")]).unique()
    settings = {**FEW, "train": train, "strategy": "sampled", "num_negatives": 9, "seed": 5}
    found = evaluate(
        sent(LISTS)
        .repartition(3)
        .groupBy("user", "item")
        .max("score")
        .withColumnRenamed("max(score)", "score"),
        TRUTH,
        **settings,
    )
    assert_same(found, weft.evaluate(LISTS, TRUTH, **settings))
    assert found.provenance["parts"] == 1  # so few rows are not worth more
    assert (
        spark.sparkContext._jsc.getPersistentRDDs().size() <= 1
    )  # of the table of the first test; all else was released
    sent(candidates).createOrReplaceTempView("offered")
    settings = {**FEW, "ties": "random", "duplicates": "keep-best"}
    found = evaluate(
        pl.concat([LISTS, LISTS]), sent(TRUTH), candidates="offered", parts=3, **settings
    )
    assert_same(
        found, weft.evaluate(pl.concat([LISTS, LISTS]), TRUTH, candidates=candidates, **settings)
    )


class DiesOnce(weft.UserAverageTopKMetric):
    """Hits, after the process that first looks for them has died."""

    higher_is_better = True
    marker = ""

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        if not os.path.exists(self.marker):
            open(self.marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return top_k_rel.sum(dim=1).float()


@slow
def test_failed_workers_are_replaced_and_users_count_once(sent, tmp_path, monkeypatch):
    monkeypatch.setattr(DiesOnce, "marker", str(tmp_path / "died"))
    settings = {"metrics": [*FEW["metrics"], DiesOnce(k=5)], "top_k": [3, 8], "bootstrap": 10}
    found = evaluate(sent(LISTS), sent(TRUTH), train=sent(TRAIN), parts=3, **settings)
    assert os.path.exists(DiesOnce.marker)
    assert_same(found, weft.evaluate(LISTS, TRUTH, train=TRAIN, **settings))


# --------------------------------------------------------------------------------------------------


def local_error(*given, **settings):
    with pytest.raises(InputError) as raised:
        weft.evaluate(*given, **settings)
    return str(raised.value)


@slow
def test_errors_show_rows_without_java(spark, sent, tmp_path):
    def error(source, truth=TRUTH, **more):
        with pytest.raises((InputError, EngineError)) as raised:
            evaluate(source, truth, parts=2, **FEW, **more)
        assert raised.value.__suppress_context__ or raised.value.__context__ is None
        assert "\tat " not in str(raised.value) and "org.apache" not in str(raised.value)
        return str(raised.value)

    wrong = LISTS.with_columns(score=pl.when(pl.col("user") == 20).then(np.nan).otherwise("score"))
    assert re.search(
        r"source has scores that are not finite numbers:\n  a row: user 20, item \d+, score nan",
        error(sent(wrong)),
    )
    twice = pl.concat([TRUTH, TRUTH.filter(pl.col("user") == 11).head(1)])
    message = error(sent(LISTS), sent(twice))
    assert (
        "truth has 1 repeated (user, item) row" in message
        and f"user 11, item {TRUTH.filter(pl.col('user') == 11)['item'][0]}" in message
    )
    nobody = sent(TRUTH).union(
        spark.createDataFrame([(None, 3, 1.0)], "user long, item long, rating double")
    )
    assert "truth has no user id in 1 row:" in error(sent(LISTS), nobody)
    assert "integers beyond 2**53" in error(sent(LISTS.with_columns(score=pl.lit(2**60))))
    (tmp_path / "mixed").mkdir()
    LISTS.write_parquet(tmp_path / "mixed" / "1.parquet")
    LISTS.cast({"user": pl.String}).write_parquet(tmp_path / "mixed" / "2.parquet")
    assert re.search(
        r"Spark cannot read the data: .*mixed/\d.parquet", error(str(tmp_path / "mixed"))
    )
    with pytest.raises(
        EngineError, match=r"a task of Spark failed: ZeroDivisionError: .* \(file .*test_spark.py"
    ):
        SparkPartitions(spark.range(2), 2, list).map_reduce(_fails, max)


def _fails(*_):
    return 1 // 0


@slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("argument", "renamed", "part"),
    [
        ("source", {"score": "points"}, "b"),  # read as nulls
        ("truth", {"rating": "stars"}, "a"),  # the first file: the others' ratings are not found
        ("truth", {"item": None}, "b"),  # missing, not renamed
        ("user_groups", {"label": None}, "b"),  # nulls would be users without a group
    ],
)
def test_part_files_with_other_columns_are_named(argument, renamed, part, tmp_path):
    inputs = {"source": LISTS, "truth": TRUTH, "user_groups": labels(GROUPS)}
    folder = tmp_path / argument
    folder.mkdir()
    ((old, new),) = renamed.items()
    for name in "abc":
        frame = inputs[argument].with_columns(extra=1)
        if name == part:
            frame = frame.drop(old) if new is None else frame.rename({old: new})
        frame.write_parquet(folder / f"{name}.parquet")
    inputs[argument] = str(folder)
    other = "b" if part == "a" else part  # the first file counts as the right one
    with pytest.raises(
        InputError, match=rf"the parts of a folder .*/a.parquet has .* but .*/{other}.parquet has"
    ):
        evaluate(**inputs, parts=2, **FEW)


@slow
@pytest.mark.usefixtures("spark")
def test_progress_counts_tasks(monkeypatch):
    shown = []

    @contextmanager
    def record(description, *, is_enabled):
        yield lambda finished, total: shown.append((description, is_enabled, finished, total))

    monkeypatch.setattr("weft.engines.spark.job_watch.progress_bar", record)
    monkeypatch.setattr("weft.engines.spark.job_watch._POLL_SECONDS", 0.01)
    evaluate(LISTS, TRUTH, parts=12, progress=True, **FEW)
    assert {(description, is_enabled) for description, is_enabled, *_ in shown} == {
        ("tasks of Spark", True)
    }
    assert all(finished <= total for *_, finished, total in shown)
    assert any(finished for *_, finished, total in shown if total == 12)


@slow
def test_rejects_unsupported_settings(spark, sent, tmp_path):
    lists, truth = sent(LISTS), sent(TRUTH)
    lists.count()
    before = spark.sparkContext.statusTracker().getJobIdsForGroup(None)
    assert before
    refused = [
        (np.zeros((3, 4)), truth, "source is an ndarray; Spark evaluates recommendation lists"),
        (
            "nowhere",
            truth,
            "source is 'nowhere', which is neither a table of this session nor a path",
        ),
        (
            "no.where",
            truth,
            "source is 'no.where', which is neither a table of this session nor a path",
        ),
        (lists, "test.csv", "test.csv"),
        (
            lists,
            weft.File("s3q://bucket/test"),
            re.escape("truth (s3q://bucket/test) cannot be read as Parquet"),
        ),
        (lists.drop("score"), truth, "without scores or ranks, and rows of Spark have no order"),
        (
            lists.withColumnRenamed("user", "whom"),
            truth,
            "source has the columns .*; expected one named 'user'",
        ),
        (
            lists.selectExpr("user", "item", "'high' score"),
            truth,
            "the column 'score' has the type string; scores must be numbers",
        ),
        (
            lists.selectExpr("user", "array(item) a", "array(score) b"),
            truth,
            "source has the arrays 'a', 'b'",
        ),
        (
            lists.selectExpr("user", "cast(item as double) item", "score"),
            truth,
            "ids are integers or strings",
        ),
    ]
    for source, wanted, message in refused:
        with pytest.raises((InputError, SettingError), match=message):
            evaluate(source, wanted, **FEW)
    with pytest.raises(InputError) as raised:
        evaluate(lists, sent(TRUTH.cast({"user": pl.String})), **FEW)
    expected = local_error(LISTS, TRUTH.cast({"user": pl.String}), **FEW)
    assert re.sub(r"\(.*?\)", "", str(raised.value)) == re.sub(
        r"\(.*?\)", "", expected
    )  # which ids are shown may differ
    for settings, message in [
        ({"checkpoint": "here"}, "checkpoint="),
        ({"metrics": ["nDCGG"]}, "nDCGG"),
        ({"parts": 0}, "parts=0"),
        ({"users": [1]}, "users="),
        ({"address": "local[7]"}, "there is already a session at 'local"),
        ({"candidates": "colder"}, "candidates is 'colder', which is neither a table"),
        (
            {"user_groups": lists.selectExpr("user", "date'2020-01-01' label")},
            "has the type date; labels are strings or numbers",
        ),
    ]:
        with pytest.raises((InputError, SettingError), match=re.escape(message)):
            evaluate(lists, truth, **FEW | settings)
    after = spark.sparkContext.statusTracker().getJobIdsForGroup(None)
    assert max(after) - max(before) <= 4  # the rows whose ids are shown: two arguments, twice


def test_errors_name_the_cause_in_one_line():
    java = """An error occurred while calling o31.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 failed: java.io.IOException: gone
\tat org.apache.spark.Some.thing(Some.scala:1)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.File(File.java:2)
\t... 3 more"""  # noqa: E501
    assert root_cause(java) == "No space left on device"
    assert (
        root_cause("[PATH_NOT_FOUND] Path does not exist: file:/none. SQLSTATE: 42K03")
        == "Path does not exist: file:/none."
    )
    assert root_cause("") == "no reason was given"


@pytest.fixture(scope="module")
def by_user(tmp_path_factory):
    """The lists, user by user, in two Parquet files; and the truth."""
    folder = tmp_path_factory.mktemp("by_user")
    (folder / "lists").mkdir()
    rows = LISTS.sort("user")
    for number, part in enumerate((rows.head(200), rows.slice(200))):
        part.write_parquet(folder / "lists" / f"{number}.parquet", row_group_size=50)
    TRUTH.write_parquet(folder / "truth.parquet", row_group_size=50)
    return str(folder / "lists"), str(folder / "truth.parquet")


@slow
def test_workers_read_files_without_a_shuffle(spark, by_user, monkeypatch):
    monkeypatch.setattr("weft.engines.spark.shuffle_by_user", _fails)
    settings = {**FEW, "train": TRAIN, "user_groups": GROUPS}
    expected = weft.evaluate(*by_user, **settings)
    assert_same(evaluate(*by_user, parts=3, **settings), expected)
    frames = [spark.read.parquet(path) for path in by_user]
    frames[0] = frames[0].select("user", "item", "score")
    expected = weft.evaluate(LISTS, TRUTH, **settings)
    assert_same(evaluate(*frames, parts=3, **settings), expected)


@slow
@pytest.mark.usefixtures("spark")
def test_rows_of_users_in_many_files_are_shuffled(by_user, tmp_path, monkeypatch):
    monkeypatch.setattr("weft.engines.partitioned.user_ranges._MAX_REPETITION", 0)
    monkeypatch.setattr("weft.engines.spark.shuffle._ROWS_SPLIT", 90)
    settings = {**FEW, "train": TRAIN}
    assert_same(evaluate(*by_user, parts=3, **settings), weft.evaluate(*by_user, **settings))
    path = tmp_path / "lists.parquet"
    LISTS.with_columns(item=pl.when(pl.int_range(pl.len()) != 99).then("item")).write_parquet(path)
    with pytest.raises(InputError, match=r"lists.parquet, row 99: there is no item id"):
        evaluate(str(path), by_user[1], parts=3, **FEW)


@slow
def test_files_of_other_frames_are_not_read(spark, by_user, sent, tmp_path):
    read = spark.read.parquet(by_user[0])
    read.write.parquet(str(tmp_path / "plain and simple"))
    plain = find_local_files(spark.read.parquet(str(tmp_path / "plain and simple")))
    assert sum(file.num_rows for file in plain) == len(LISTS)
    read.write.partitionBy("item").parquet(str(tmp_path / "by_item"))
    read.write.csv(str(tmp_path / "text"))
    others = [
        read.where("user > 3"),
        read.withColumn("score", read["score"] + 1),
        read.union(read),
        read.limit(5),
        sent(LISTS),
        spark.read.parquet(str(tmp_path / "by_item")),
        spark.read.csv(str(tmp_path / "text")),
    ]
    assert [find_local_files(frame) for frame in others] == [[]] * len(others)
    (file,) = find_local_files(spark.read.parquet(by_user[1]))
    roles = {"user": "user", "item": "item"}
    assert open_files([file], roles, "truth", read.schema).num_rows == len(TRUTH)
    for other in (pl.String, pl.Float64, pl.Boolean):
        changed = file._replace(types={**file.types, "item": other()})
        assert open_files([changed], roles, "truth", read.schema) is None


def test_modules_are_no_garbage_of_tasks(monkeypatch):
    monkeypatch.setattr("weft.engines.spark.spark_partitions._num_frozen_modules", 0)
    try:
        _freeze_modules()
        number = gc.get_freeze_count()
        assert number > 10_000
        more = [[] for _ in range(1000)]
        _freeze_modules()  # no further module was imported
        assert gc.get_freeze_count() <= number and more
    finally:
        gc.unfreeze()


@slow
@pytest.mark.parametrize("number", [1, 2, 7, 40])
def test_each_partition_has_a_key(spark, number):
    keys = _partition_keys(number)
    frame = spark.createDataFrame([(key,) for key in keys], "key int").repartition(number, "key")
    found = frame.selectExpr("key", "spark_partition_id() part").collect()
    assert [key for key, _ in sorted(found, key=lambda row: row.part)] == keys


def test_default_parts_are_a_multiple_of_the_tasks():
    session = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=6))
    numbers = [default_parts(session, rows) for rows in (0, 10**5, 10**6, 24 * 2**20, 25 * 2**20)]
    assert numbers == [1, 2, 6, 6, 12]


def test_large_values_are_split_and_joined(monkeypatch):
    require_spark()
    monkeypatch.setattr("weft.engines.spark.spark_partitions._CHUNK_BYTES", 100)
    batches = list(_write_value(list(range(1000))))
    assert len(batches) > 10
    assert _read_values(reversed(batches)) == [list(range(1000))]


def test_reports_missing_spark_or_java(monkeypatch):
    require_spark()
    run = partial(evaluate, {1: [2]}, {1: [2]}, **FEW)
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None:
        monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
        with pytest.raises(EngineError, match="Spark needs Java 17 or later, which was not found"):
            run()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'weft[spark]'")):
        run()


@slow
@pytest.mark.usefixtures("spark")
def test_custom_modules_are_sent_to_the_workers(tmp_path, monkeypatch):
    check_custom_metrics(tmp_path, "spark", monkeypatch)
