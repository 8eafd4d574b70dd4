"""Recommendation lists of files that do not fit into memory, against the same lists in memory."""

import gzip
import os
import weakref

import numpy as np
import polars as pl
import pytest

import weft
from weft.data.memory import available_memory, memory_budget
from weft.data.recommendations import ListTable, SpilledLists, open_lists, spilled_lists
from weft.data.recommendations.disk_arrays import DiskArray
from weft.errors import InputError, SettingError
from weft.evaluation import checkpoint
from weft.evaluation.setting_rules import read_memory

USERS, ITEMS = 120, 40
METRICS = ["nDCG", "MAP", "MRR", "Gini", "ItemCoverage", "LAUC"]
FIELDS = ("value", "std_error", "users", "boot_low", "boot_high", "bca_low", "bca_high")
TABLES = ("per_user", "user_labels", "slices", "exposure", "popularity")


@pytest.fixture(autouse=True)
def small_partitions(monkeypatch):
    monkeypatch.setattr(spilled_lists, "_MIN_PARTITION_ROWS", 100)


def draw(ids="integer", order="score", seed=0):
    """Return lists with ties in any order of rows, a truth, and train."""
    generator = np.random.default_rng(seed)
    rows = [
        (user, int(item), rank + 1, float(np.round(generator.normal(), 1)))
        for user in range(USERS)
        for rank, item in enumerate(
            generator.choice(ITEMS, int(generator.integers(1, 15)), replace=False)
        )
    ]
    lists = pl.DataFrame(rows, schema=["user", "item", "rank", "score"], orient="row")
    lists = lists.sample(fraction=1, shuffle=True, seed=seed)
    lists = lists.drop(
        {"score": ["rank"], "rank": ["score"], "both": []}.get(order, ["rank", "score"])
    )
    truth, train = (
        pl.DataFrame(
            {
                "user": np.arange(first, USERS + first).repeat(3),
                "item": generator.integers(0, ITEMS, USERS * 3),
            }
        ).unique(maintain_order=True)
        for first in (5, 0)
    )
    if ids == "string":
        texts = [pl.format("u{}", "user").alias("user"), pl.format("i{}", "item").alias("item")]
        return [frame.with_columns(texts) for frame in (lists, truth, train)]
    return [lists, truth, train]


def write(frame, path):
    """Write a frame in the format of a suffix; `.parts` is a folder of Parquet files."""
    if path.suffix == ".parts":
        path.mkdir()
        for number, part in enumerate(frame.iter_slices(200)):
            part.write_parquet(path / f"{number}.parquet")
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(frame.write_csv().encode()))
    elif path.suffix == ".trec":
        run = frame.select("user", pl.lit("Q0"), "item", one=1, score="score", tag=pl.lit("tag"))
        run.write_csv(path, separator=" ", include_header=False)
    else:
        {".parquet": frame.write_parquet, ".csv": frame.write_csv, ".jsonl": frame.write_ndjson}[
            path.suffix
        ](path)
    return path


def assert_equal_results(path, truth, **options):
    """Check that results are bit-equal whether the lists are in memory or on disk."""
    settings = {"metrics": METRICS, "top_k": [3, 10], **options}
    expected = weft.evaluate(path, truth, **settings)
    compare_results(weft.evaluate(path, truth, memory=1, **settings), expected)


def compare_results(found, expected):
    """Check that two results are bit-equal."""
    for one, other in zip(found.entries, expected.entries, strict=True):
        assert one.name == other.name
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    assert (found.counts, found.notes) == (expected.counts, expected.notes)
    assert (found.settings, found.name) == (expected.settings, expected.name)
    for name in ("fingerprint", "files", "ids"):
        assert found.provenance[name] == expected.provenance[name]
    for name in TABLES:
        table, other = getattr(found, name), getattr(expected, name)
        assert (table is None) == (other is None)
        assert table is None or table.equals(other)


@pytest.mark.parametrize("ids", ["integer", "string"])
@pytest.mark.parametrize("suffix", ["parquet", "parts", "csv", "csv.gz", "jsonl", "trec"])
def test_every_format_has_the_results_of_lists_in_memory(ids, suffix, tmp_path):
    lists, truth, train = draw(ids)
    path = write(lists, tmp_path / f"lists.{suffix}")
    table = open_lists(path, memory=1)
    assert isinstance(table, SpilledLists) and isinstance(open_lists(path), ListTable)
    assert_equal_results(path, truth, train=train, per_user=True)


@pytest.mark.parametrize("order", ["rank", "both", "rows"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_every_order_of_lists(order, suffix, tmp_path):
    lists, truth, _ = draw(order=order)
    path = write(lists, tmp_path / f"lists.{suffix}")
    assert_equal_results(path, truth, per_user=True)
    if order == "rank":  # ranks that are no positions, in one list of all
        fraction = pl.when(pl.int_range(pl.len()) == 3).then(pl.col("rank") + 0.5).otherwise("rank")
        gaps = lists.filter(pl.col("rank") != 2)
        for name, frame in (("gaps", gaps), ("fraction", gaps.with_columns(rank=fraction))):
            assert_equal_results(write(frame, tmp_path / f"{name}.{suffix}"), truth)


OPTIONS = {
    "masked": {"mask_seen": True, "exposure": True},
    "skipped": {"extra_users": "skip", "per_user": True},
    "bootstrap": {"bootstrap": 20, "slices": {"activity": "quantiles(2)"}},
    "listed": {"candidates": "listed", "metrics": ["AUC", "nDCG@3"], "top_k": None},
    "sampled": {"strategy": "sampled", "num_negatives": 7, "items": list(range(ITEMS))},
    "profile": {"profile": "trec_eval", "metrics": ["nDCG", "MAP"]},
    "random": {"ties": "random", "seed": 3},
    "small batches": {"batch_size": 7, "missing_lists": "skip"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_has_the_results_of_lists_in_memory(name, tmp_path):
    lists, truth, train = draw()
    path = write(lists, tmp_path / "lists.parquet")
    assert_equal_results(path, truth, train=train, **OPTIONS[name])


@pytest.mark.parametrize(("before", "after"), [(None, 1), (1, None), (1, 1)])
def test_resumes_an_interrupted_evaluation(before, after, tmp_path, monkeypatch):
    """The lists may be in memory before the interrupt and on disk after it, and the reverse."""
    monkeypatch.setattr(checkpoint, "_SAVE_SECONDS", 0.0)
    lists, truth, _ = draw()
    path = write(lists, tmp_path / "lists.parquet")
    settings = {"metrics": METRICS, "top_k": [3, 10], "per_user": True, "batch_size": 25}
    add, users = weft.Evaluator.add, []

    def record(self, inputs, *ranked):
        users.append(inputs.users.tolist())
        add(self, inputs, *ranked)

    def interrupt(*arguments):
        if len(users) == 3:
            raise KeyboardInterrupt
        record(*arguments)

    monkeypatch.setattr(weft.Evaluator, "add", record)
    expected, batches = weft.evaluate(path, truth, **settings), users[:]
    users.clear()
    settings["checkpoint"] = tmp_path / "run.state"
    monkeypatch.setattr(weft.Evaluator, "add", interrupt)
    with pytest.raises(KeyboardInterrupt):
        weft.evaluate(path, truth, memory=before, **settings)
    monkeypatch.setattr(weft.Evaluator, "add", record)
    compare_results(weft.evaluate(path, truth, memory=after, **settings), expected)
    assert users == batches  # each batch once, the first three before the interrupt


def test_keeps_the_best_of_repeated_items(tmp_path):
    lists, truth, _ = draw()
    path = write(pl.concat([lists, lists.head(90)]), tmp_path / "lists.parquet")
    assert_equal_results(path, truth, duplicates="keep-best")
    assert (
        weft.evaluate(path, truth, metrics="MRR@3", duplicates="keep-best", memory=1).counts[
            "duplicates_dropped"
        ]
        == 90
    )


def spoil(frame, column, value, rows=(3, 400, 41)):
    """Return a frame with a value in some rows of a column."""
    return frame.with_row_index().select(
        pl.when(pl.col("index").is_in(rows)).then(value).otherwise(column).alias(column)
        if name == column
        else name
        for name in frame.columns
    )


ERRORS = {
    "repeated items": (lambda lists: pl.concat([lists, lists.gather([7, 300, 20, 1, 90, 33])]), {}),
    "no item": (lambda lists: spoil(lists, "item", None), {}),
    "no user": (lambda lists: spoil(lists, "user", None), {}),
    "no score": (lambda lists: spoil(lists, "score", None), {}),
    "infinite score": (lambda lists: spoil(lists, "score", float("inf")), {}),
    "unknown items": (lambda lists: spoil(lists, "item", 99), {"items": list(range(ITEMS))}),
    "other users": (lambda lists: lists.with_columns(user=pl.col("user") + 1000), {}),
    "other items": (lambda lists: lists.with_columns(item=pl.col("item") + 1000), {}),
    "other type of ids": (lambda lists: lists.with_columns(item=pl.format("i{}", "item")), {}),
    "beyond precision": (lambda lists: lists.with_columns(score=pl.lit(2**53 + 1)), {}),
    "empty ids": (lambda lists: lists.with_columns(item=pl.lit("")), {}),
    "similar name": (lambda lists: lists.rename({"score": "scoer"}), {}),
    "no scores": (lambda lists: lists.drop("score"), {"metrics": ["RMSE"], "top_k": None}),
    "repeated ranks": (
        lambda lists: lists.drop("score").with_columns(rank=pl.col("item") // 2 + 1),
        {},
    ),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_errors_are_those_of_lists_in_memory(name, suffix, tmp_path):
    lists, truth, _ = draw()
    change, options = ERRORS[name]
    path = write(change(lists), tmp_path / f"lists.{suffix}")
    settings = {"metrics": ["nDCG"], "top_k": [3], **options}
    messages = []
    for memory in (None, 1):
        with pytest.raises(weft.WeftError) as error:
            weft.evaluate(path, truth, memory=memory, **settings)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_reads_one_json_object_into_memory_with_a_note(tmp_path):
    lists, truth, _ = draw("string")
    path = tmp_path / "run.json"
    rows = lists.group_by("user", maintain_order=True).agg("item", "score")
    run = {user: dict(zip(items, scores)) for user, items, scores in rows.iter_rows()}
    path.write_text(str(run).replace("'", '"'))
    found, expected = (
        weft.evaluate(path, truth, metrics="MRR@3", memory=memory) for memory in (1, None)
    )
    assert found["MRR@3"] == expected["MRR@3"]
    assert set(found.notes) - set(expected.notes) == {
        "run.json is one JSON object, which is read into memory regardless of its size"
    }


def test_temporary_files_disappear(tmp_path, monkeypatch):
    lists, truth, _ = draw()
    path = write(lists, tmp_path / "lists.csv")
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    weft.evaluate(path, truth, metrics="MRR@3", memory=1)
    assert not list(folder.iterdir())


def test_disk_arrays_keep_released_values_and_end_with_their_last_view():
    array = DiskArray(np.float64, 100_000)
    array.values[:] = np.arange(100_000)
    array.release()
    assert (array.values == np.arange(100_000)).all()
    view, reference = array.values[:3], weakref.ref(array._map)
    del array
    assert reference() is not None and view.tolist() == [0, 1, 2]
    del view
    assert reference() is None


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot reserve space")
def test_a_full_disk_is_an_error(tmp_path, monkeypatch):
    lists, truth, _ = draw()
    path = write(lists, tmp_path / "lists.parquet")

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    with pytest.raises(InputError, match=r"no space for .* bytes \(No space left.*TMPDIR"):
        weft.evaluate(path, truth, metrics="MRR@3", memory=1)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (1, 1),
        ("17", 17),
        ("4GiB", 4 << 30),
        ("1.5 gib", 3 << 29),
        ("500MB", 500_000_000),
        ("2k", 2000),
    ],
)
def test_reads_sizes_of_memory(text, number):
    assert read_memory("memory", text) == number == memory_budget(number)


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "much", "0", "-1GiB", ""])
def test_rejects_wrong_sizes_of_memory(value):
    with pytest.raises(SettingError, match=r"memory=.*'4GiB'"):
        weft.evaluate({1: [1]}, {1: [1]}, metrics="MRR@1", memory=value)


GROUPS = {
    "version 2": ("0::/a/b", "sys/fs/cgroup/a", "memory.max", "memory.current", "inactive_file"),
    "version 1": (
        "4:memory:/a",
        "sys/fs/cgroup/memory/a",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
}


@pytest.mark.parametrize("version", GROUPS)
def test_available_memory_respects_limits_of_groups(version, tmp_path):
    line, folder, limit, usage, inactive = GROUPS[version]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 99 kB\nMemAvailable: 64 kB\n")
    assert available_memory(tmp_path) == 64 << 10
    (tmp_path / "proc/self/cgroup").write_text(f"{line}\n")
    assert available_memory(tmp_path) == 64 << 10
    group = tmp_path / folder
    group.mkdir(parents=True)
    (group / limit).write_text("5000\n")
    (group / usage).write_text("3000\n")
    (group / "memory.stat").write_text(f"anon 7\n{inactive} 1000\n")
    assert available_memory(tmp_path) == 3000
    (group / limit).write_text("max\n" if version == "version 2" else "9223372036854771712\n")
    assert available_memory(tmp_path) == 64 << 10
