"""Partitions by ranges of users, read from Parquet files, have each row once."""

import pickle

import numpy as np
import polars as pl
import polars.testing
import pytest

import weft
from local_engine import PickledPartitions, assert_same, make_lists
from weft.engines.partitioned import user_ranges
from weft.engines.partitioned.driver import evaluate_partitions, take_user_inputs
from weft.engines.partitioned.parquet_rows import ParquetTable, RowReader
from weft.engines.partitioned.partitions import InputOrigin
from weft.engines.partitioned.user_ranges import UserRange, split_into_ranges
from weft.errors import InputError
from weft.evaluation.api import bind_arguments

_, LISTS, TRUTH = make_lists(np.random.default_rng(4), 60, 40)
WITH_TEXT = pl.concat_str(pl.lit("u"), pl.col("user")).alias("user")


def write(folder, frame, *, number=3, row_group_size=40, **options):
    """Write a frame to several files; return it as a table."""
    folder.mkdir()
    step = max(1, -(-len(frame) // number))
    files = []
    for part in range(number):
        rows = frame.slice(part * step, step)
        path = folder / f"{part}.parquet"
        rows.write_parquet(path, row_group_size=row_group_size, **options)
        files.append((str(path), len(rows)))
    strings = {name for name in ("user", "item") if frame.schema[name] == pl.String}
    columns = {name: name for name in frame.columns}
    return ParquetTable(RowReader(folder.name, columns, frozenset(strings)), files)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("number", [1, 2, 5, 9])
def test_each_row_is_in_one_partition(tmp_path, number, text):
    lists, truth = LISTS.sort("user"), TRUTH
    if text:
        lists, truth = lists.with_columns(WITH_TEXT).sort("user"), truth.with_columns(WITH_TEXT)
    tables = {"source": write(tmp_path / "source", lists)}
    partitions = split_into_ranges(tables, {"truth": truth}, number)
    assert len(partitions) == number
    partitions = pickle.loads(pickle.dumps(partitions))
    for name, expected in (("source", lists), ("truth", truth)):
        frames = [partition.frames[name] for partition in partitions]
        pl.testing.assert_frame_equal(pl.concat(frames), expected, check_row_order=False)
    users = [set(partition.frames["source"]["user"]) for partition in partitions]
    assert sum(map(len, users)) == lists["user"].n_unique()
    for partition, own in zip(partitions, users):  # the truth of a user is beside the lists
        others = set(lists["user"]) - own
        assert not others & set(partition.frames["truth"]["user"])


def test_ranges_have_about_as_many_rows(tmp_path):
    users = np.repeat(np.arange(1000) ** 2, 3)  # more and more apart
    frame = pl.DataFrame({"user": users, "item": np.arange(len(users))})
    table = write(tmp_path / "truth", frame, row_group_size=100)
    sizes = [len(each.frames["truth"]) for each in split_into_ranges({"truth": table}, {}, 7)]
    assert max(sizes) < 1.2 * len(frame) / 7


def test_only_needed_columns_and_files_are_read(tmp_path, monkeypatch):
    tables = {"source": write(tmp_path / "source", LISTS.sort("user"), number=6)}
    first, *_ = split_into_ranges(tables, {}, 6)
    opened = []
    collect = RowReader._collect

    def record(reader, scan, path):
        opened.append(path)
        return collect(reader, scan, path)

    monkeypatch.setattr(RowReader, "_collect", record)
    selected = first.select(["user", "item"]).frames
    assert selected["source"].columns == ["user", "item"]
    assert list(selected) == ["source"] and len(selected) == 1 and "truth" not in selected
    assert len(opened) <= 2


def test_matches_one_process(tmp_path):
    lists, truth = LISTS.sort("user"), TRUTH.cast({"user": pl.UInt8, "rating": pl.Float32})
    tables = {"source": write(tmp_path / "a", lists), "truth": write(tmp_path / "b", truth)}
    settings = {"metrics": ["nDCG", "Gini", "MRR"], "top_k": [3, 8], "bootstrap": 10}
    _, arguments, positions = take_user_inputs(
        bind_arguments(LISTS, TRUTH, settings), has_lists=True, engine="the test"
    )
    origins = {
        name: InputOrigin(name, columns=table.reader.names, num_rows=table.num_rows)
        for name, table in tables.items()
    }
    partitions = split_into_ranges(tables, {}, 4)
    pickled = PickledPartitions([pickle.dumps(partition) for partition in partitions])
    found, _ = evaluate_partitions(pickled, origins, arguments, positions, engine="the test")
    assert_same(found, weft.evaluate(LISTS, TRUTH, **settings))
    pl.concat([lists, lists.head(1)]).write_parquet(tables["source"].files[0][0])
    with pytest.raises(InputError, match=r"source has [\d,]+ rows now, but had \d+ before"):
        evaluate_partitions(pickled, origins, arguments, positions, engine="the test")


def test_errors_name_the_row(tmp_path):
    is_last = pl.int_range(pl.len()) == len(LISTS) - 1
    lists = LISTS.sort("user").with_columns(item=pl.when(~is_last).then("item"))
    table = write(tmp_path / "source", lists, number=1)
    *_, last = split_into_ranges({"source": table}, {}, 3)
    with pytest.raises(InputError, match=rf"0.parquet, row {len(LISTS) - 1}: there is no item id"):
        last.frames["source"]
    (tmp_path / "source" / "0.parquet").unlink()
    with pytest.raises(InputError, match=r"a worker cannot read .*0.parquet"):
        last.frames["source"]


@pytest.mark.parametrize(
    "reason",
    [
        "spread",
        "null",
        "no statistics",
        "categories",
        "types",
        "frame types",
        "row order",
        "frame size",
        "frame null",
    ],
)
def test_other_rows_are_split(tmp_path, monkeypatch, reason):
    lists, truth, options = LISTS.sort("user"), TRUTH, {}
    if reason == "spread":
        lists = LISTS.sample(fraction=1, shuffle=True, seed=0)
    if reason == "null":
        lists = lists.with_columns(user=pl.when(pl.col("user") != 7).then("user"))
    if reason == "no statistics":
        options = {"statistics": False}
    if reason == "categories":
        lists = lists.with_columns(WITH_TEXT).cast({"user": pl.Categorical})
        truth = truth.with_columns(WITH_TEXT)
    if reason == "frame types":
        truth = truth.with_columns(WITH_TEXT)
    if reason == "frame null":
        truth = truth.with_columns(user=pl.when(pl.col("user") != 7).then("user"))
    if reason == "frame size":
        monkeypatch.setattr(user_ranges, "_MAX_FRAME_BYTES", 10)
    table = write(tmp_path / "source", lists, **options)
    reader = table.reader
    if reason in ("types", "categories"):
        reader = RowReader("source", reader.columns, frozenset(["user"]))
    if reason == "row order":
        reader = RowReader("source", reader.columns, frozenset(), ranks_by_row=True)
    tables = {"source": ParquetTable(reader, table.files)}
    assert split_into_ranges(tables, {"truth": truth}, 6) is None


def test_urls_and_many_files_are_split(tmp_path, monkeypatch):
    table = write(tmp_path / "source", LISTS.sort("user"))
    urls = ParquetTable(
        table.reader, [("s3://lake" + path, number) for path, number in table.files]
    )
    assert split_into_ranges({"source": urls}, {}, 2) is None
    monkeypatch.setattr(user_ranges, "_MAX_FILES", 2)
    assert split_into_ranges({"source": table}, {}, 2) is None


def test_tables_without_rows(tmp_path):
    table = write(tmp_path / "source", LISTS.sort("user"))
    empty = write(tmp_path / "train", TRUTH.head(0), number=1)
    assert split_into_ranges({"train": empty}, {}, 2) is None
    for partition in split_into_ranges({"source": table, "train": empty}, {}, 2):
        assert partition.frames["train"].schema == TRUTH.schema


def test_limits_beyond_the_type_of_a_column():
    frame = pl.DataFrame({"user": pl.Series([0, 7, 255], dtype=pl.UInt8)})
    for limits, number in (((-5, 300), 3), ((300, None), 0), ((None, -5), 0), ((7, 255), 1)):
        assert len(frame.filter(UserRange(*limits).contains("user"))) == number
    assert len(frame.lazy().filter(UserRange(None, None).contains("user")).collect()) == 3
