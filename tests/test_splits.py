"""`weft.split` and `weft split`: parts by definition, no leaks, whatever the order of rows."""

import datetime
import gzip
import json
import shlex
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles_splits as oracle
import weft
from doc_commands import run_weft
from weft.errors import InputError, SettingError, UnknownParameter
from weft.evaluation.splitting import split_files
from weft.evaluation.splitting.manifest import MANIFEST_NAME, find_manifest, read_manifest
from weft.evaluation.splitting.split import SplitOptions
from weft.evaluation.splitting.split_settings import SplitSettings

PAIRS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 8)), min_size=1, max_size=40, unique=True
)
TIMES = st.lists(st.integers(0, 7), min_size=40, max_size=40)
ORDERS = st.randoms(use_true_random=False)
SHARES = st.sampled_from([0.1, 0.2, 0.29, 0.5])


def make_rows(pairs, times):
    return [(f"u{user}", f"i{item}", time) for (user, item), time in zip(pairs, times)]


def make_frame(rows):
    return pl.DataFrame(
        rows, schema={"user": pl.String, "item": pl.String, "timestamp": pl.Int64}, orient="row"
    )


def find_parts(split):
    """Return {row: part} of a split, or {row: fold}; every row is in exactly one part."""
    if split.folds:
        named = [(fold.number, fold.test) for fold in split.folds]
    else:
        named = [("train", split.train), ("test", split.test)]
        named += [("validation", split.validation)] if split.validation is not None else []
    rows = [(row, name) for name, frame in named for row in frame.rows()]
    assert len(rows) == len({row for row, _ in rows})
    return dict(rows)


def split_or_none(frame, method, **options):
    """Return a split, None if a part is empty, which is an error."""
    try:
        return weft.split(frame, method, **options)
    except InputError as error:
        if "leaves no" in str(error) or "no rows remain" in str(error):
            return None
        raise


def check_against(rows, expected, method, **options):
    """Compare a split with {row: part} of the oracle; it must be an error if a part is empty."""
    split = split_or_none(make_frame(rows), method, **options)
    needed = {"train", "test"}
    if any(value is not None for name, value in options.items() if "validation" in name):
        needed.add("validation")
    if method == "folds":  # two or more folds: then each of them has a train part
        needed = set(range(1, options["folds"] + 1))
    if split is None:
        assert not needed <= set(expected.values())
    else:
        assert find_parts(split) == expected
    return split


# --------------------------------------------------------------------------------------------------


@given(PAIRS, TIMES, SHARES, st.sampled_from([None, 0.1, 0.25]))
def test_timeline_is_that_of_the_definition_and_has_no_leak(pairs, times, share, validation):
    rows = make_rows(pairs, times)
    expected = oracle.timeline(rows, test_share=share, validation_share=validation)
    options = {"test_share": share, "validation_share": validation}
    split = check_against(rows, expected, "timeline", **options)
    if split is not None:
        ends = [split.train["timestamp"].max()]
        ends += [] if split.validation is None else [split.validation["timestamp"].max()]
        assert max(ends) < split.test["timestamp"].min()
        if split.validation is not None:
            assert ends[0] < split.validation["timestamp"].min()


@given(PAIRS, TIMES, st.integers(1, 7), st.sampled_from([None, 1, 2]))
def test_timeline_at_points_in_time(pairs, times, test_from, before):
    rows = make_rows(pairs, times)
    moments = {"test_from": test_from}
    moments |= {} if before is None else {"validation_from": test_from - before}
    check_against(rows, oracle.timeline_at(rows, **moments), "timeline", **moments)


def check_no_user_leak(split):
    """No row of a user is later than any row of a later part of the same user."""
    frames = [split.train, split.validation, split.test]
    for earlier in range(2):
        for later in range(earlier + 1, 3):
            if frames[earlier] is None or frames[later] is None:
                continue
            last = frames[earlier].group_by("user").agg(last=pl.col("timestamp").max())
            first = frames[later].group_by("user").agg(first=pl.col("timestamp").min())
            both = last.join(first, on="user")
            is_strict = split.settings.ties == "together"
            leaks = both["last"] >= both["first"] if is_strict else both["last"] > both["first"]
            assert not leaks.any()


@given(PAIRS, TIMES, SHARES, st.sampled_from([None, 0.2]), st.sampled_from(["break", "together"]))
def test_user_timeline_is_that_of_the_definition(pairs, times, share, validation, ties):
    rows = make_rows(pairs, times)
    options = {"test_share": share, "validation_share": validation, "ties": ties, "seed": 3}
    split = check_against(rows, oracle.user_timeline(rows, **options), "user-timeline", **options)
    if split is not None:
        check_no_user_leak(split)


@given(PAIRS, TIMES, st.integers(1, 3), st.integers(0, 2), st.sampled_from(["break", "together"]))
def test_leave_last_out_is_that_of_the_definition(pairs, times, n, validation_n, ties):
    rows = make_rows(pairs, times)
    options = {"n": n, "ties": ties, "seed": 3}
    expected = oracle.leave_last_out(rows, **options, validation_n=validation_n)
    options |= {"validation_n": validation_n} if validation_n else {}
    split = check_against(rows, expected, "leave-last-out", **options)
    if split is not None:
        check_no_user_leak(split)
        if ties == "break":  # exactly n of every user with enough rows
            sizes = Counter(row[0] for row in rows)
            held_out = Counter(split.test["user"])
            assert held_out == {u: n for u, size in sizes.items() if size > n + validation_n}


@given(PAIRS, TIMES, SHARES, st.sampled_from([None, 0.3]), st.integers(0, 5))
def test_random_per_user_is_that_of_the_definition(pairs, times, share, validation, seed):
    rows = make_rows(pairs, times)
    options = {"test_share": share, "validation_share": validation, "seed": seed}
    check_against(rows, oracle.random_per_user(rows, **options), "random", **options)


@given(PAIRS, TIMES, SHARES, st.sampled_from([None, 0.25]), st.integers(0, 5))
def test_random_global_is_that_of_the_definition(pairs, times, share, validation, seed):
    rows = make_rows(pairs, times)
    options = {"test_share": share, "validation_share": validation, "seed": seed}
    expected = oracle.random_global(rows, **options)
    check_against(rows, expected, "random", per="global", **options)


@given(PAIRS, TIMES, st.integers(2, 5), st.integers(0, 5), st.sampled_from(["user", "global"]))
def test_folds_are_those_of_the_definition(pairs, times, folds, seed, per):
    rows = make_rows(pairs, times)
    define = {"user": oracle.folds_per_user, "global": oracle.folds_global}[per]
    expected = define(rows, folds=folds, seed=seed)
    split = check_against(rows, expected, "folds", folds=folds, seed=seed, per=per)
    if split is not None:
        for fold in split.folds:
            assert set(fold.train.rows()) == set(rows) - set(fold.test.rows())


METHODS = {
    "timeline": {"test_share": 0.3, "validation_share": 0.2},
    "user-timeline": {"test_share": 0.3, "validation_share": 0.2},
    "leave-last-out": {"n": 1, "validation_n": 1},
    "random": {"test_share": 0.3, "validation_share": 0.2},
    "folds": {"folds": 3},
}


@given(PAIRS, TIMES, ORDERS, st.sampled_from(sorted(METHODS)))
def test_parts_do_not_depend_on_the_order_of_rows(pairs, times, order, method):
    rows = make_rows(pairs, times)
    shuffled = order.sample(rows, len(rows))
    split = split_or_none(make_frame(rows), method, **METHODS[method])
    other = split_or_none(make_frame(shuffled), method, **METHODS[method])
    assert (split is None) == (other is None)
    if split is not None:
        assert find_parts(split) == find_parts(other)


@given(PAIRS, TIMES, st.sampled_from(sorted(METHODS)), st.booleans(), st.integers(1, 3))
def test_every_interaction_is_in_one_part_or_counted(pairs, times, method, drop, least):
    rows = make_rows(pairs, times)
    cold = "drop" if drop else "keep"
    minima = {"min_user_interactions": least, "min_item_interactions": least, "core": least > 1}
    frame = make_frame(rows)
    split = split_or_none(
        frame, method, cold_users=cold, cold_items=cold, **METHODS[method], **minima
    )
    if split is None:
        return
    kept = oracle.core(rows, users=least, items=least)
    dropped = split.manifest["dropped"]
    assert dropped["few_interactions"] == len(rows) - len(kept)
    parts = find_parts(split)
    assert set(parts) <= set(kept)
    cold_rows = dropped["cold_users"] + dropped["cold_items"]
    assert len(parts) + cold_rows == len(kept)
    if drop:
        for train, test in _train_and_test(split):
            assert set(test["user"]) <= set(train["user"])
            assert set(test["item"]) <= set(train["item"])


def _train_and_test(split):
    if split.folds:
        return [(fold.train, fold.test) for fold in split.folds]
    return [(split.train, split.validation), (split.train, split.test)]


def test_random_shares_are_close_to_what_was_asked_for():
    users, items = np.divmod(np.arange(200 * 200), 200)
    frame = pl.DataFrame({"user": users, "item": items})
    split = weft.split(frame, "random", per="global", test_share=0.2, validation_share=0.1)
    # Five standard deviations of a binomial count are 400 rows.
    assert abs(len(split.test) - 8000) < 400
    assert abs(len(split.validation) - 4000) < 300
    folds = weft.split(frame, "folds", per="global", folds=4)
    assert all(abs(len(fold.test) - 10000) < 430 for fold in folds.folds)
    other = weft.split(frame, "random", per="global", test_share=0.2, seed=1)
    both = len(set(split.test.rows()) & set(other.test.rows()))
    assert abs(both - 1600) < 200  # seeds are independent


def test_shares_are_meant_as_they_are_written():
    rows = [("ann", f"i{number}", number) for number in range(100)]
    for share, number in ((0.29, 29), (1 / 3, 33), (0.57, 57)):
        assert len(weft.split(make_frame(rows), "user-timeline", test_share=share).test) == number
    assert len(weft.split(make_frame(rows[:3]), "random", test_share=1 / 3).test) == 1


def test_integer_and_text_ids_split_alike():
    rows = [(user, item) for user in range(9) for item in range(9)]
    numbers = pl.DataFrame(rows, schema=["user", "item"], orient="row")
    texts = numbers.cast(pl.String)
    split, other = (weft.split(frame, "random", seed=4) for frame in (numbers, texts))
    assert split.test.cast(pl.String).equals(other.test)


# --------------------------------------------------------------------------------------------------


def test_users_with_few_interactions_stay_in_train():
    rows = [("ann", "a", 1), ("bob", "a", 1), ("bob", "b", 2), ("cid", "a", 1), ("cid", "b", 2)]
    rows += [("cid", "c", 3)]
    split = weft.split(make_frame(rows), "leave-last-out", n=1, validation_n=1)
    assert split.test.rows() == [("cid", "c", 3)]
    assert split.validation.rows() == [("cid", "b", 2)]
    assert len(split.train) == 4


def test_equal_timestamps_everywhere():
    rows = [("ann", item, 5) for item in "abcde"]
    broken = weft.split(make_frame(rows), "user-timeline", test_share=0.4)
    assert len(broken.test) == 2
    with pytest.raises(InputError, match="leaves no rows for test"):
        weft.split(make_frame(rows), "user-timeline", test_share=0.4, ties="together")
    with pytest.raises(InputError, match=r"5 rows have the last one, 5[.] Give a larger share"):
        weft.split(make_frame(rows), "timeline")


def test_repeated_interactions():
    rows = [("ann", "a", 3), ("ann", "b", 1), ("ann", "a", 1), ("ann", "c", 2), ("ann", "a", 2)]
    frame = make_frame(rows)
    with pytest.raises(InputError, match=r"2 rows that repeat .*: row 0, row 4"):
        weft.split(frame, "leave-last-out")
    first = weft.split(frame, "leave-last-out", duplicates="first")
    assert set(find_parts(first)) == {("ann", "a", 1), ("ann", "b", 1), ("ann", "c", 2)}
    assert first.manifest["dropped"]["duplicates"] == 2
    last = weft.split(frame, "leave-last-out", duplicates="last")
    assert last.test.rows() == [("ann", "a", 3)]
    kept = weft.split(frame, "leave-last-out", duplicates="keep")
    assert len(kept.train) + len(kept.test) == 5
    without_time = frame.drop("timestamp")
    by_row = weft.split(without_time, "random", duplicates="first", test_share=0.4)
    assert by_row.manifest["dropped"]["duplicates"] == 2


def test_kept_repetitions_of_random_splits_stay_together():
    rows = [(f"u{user}", f"i{item % 7}", item) for user in range(20) for item in range(21)]
    for method, options in (("random", {"test_share": 0.4}), ("folds", {"folds": 3})):
        for per in ("user", "global"):
            split = weft.split(make_frame(rows), method, per=per, duplicates="keep", **options)
            for train, test in [(one.train, one.test) for one in split.folds] or [
                (split.train, split.test)
            ]:
                seen = {row[:2] for row in train.rows()}
                assert not seen & {row[:2] for row in test.rows()}


def test_cold_rows_are_counted_or_dropped():
    rows = [("ann", "a", 1), ("ann", "b", 2), ("bob", "a", 8), ("ann", "c", 9)]
    kept = weft.split(make_frame(rows), "timeline", test_from=5)
    assert len(kept.test) == 2
    entry = kept.manifest["files"][1]
    assert (entry["cold_user_rows"], entry["cold_item_rows"]) == (1, 1)
    dropped = weft.split(make_frame(rows), "timeline", test_from=5, cold_users="drop")
    assert dropped.test.rows() == [("ann", "c", 9)]
    assert dropped.manifest["dropped"]["cold_users"] == 1
    with pytest.raises(InputError, match="leaves no rows for test"):
        weft.split(make_frame(rows), "timeline", test_from=5, cold_users="drop", cold_items="drop")


def test_minima_without_core_count_once():
    rows = [("ann", "a", 1), ("ann", "b", 2), ("ann", "c", 3), ("bob", "a", 4), ("cid", "b", 5)]
    split = weft.split(make_frame(rows), "leave-last-out", min_user_interactions=2)
    assert set(split.train["user"]) == {"ann"}
    assert split.manifest["dropped"]["few_interactions"] == 2
    with pytest.raises(InputError, match="no rows remain"):
        weft.split(
            make_frame(rows),
            "leave-last-out",
            min_user_interactions=2,
            min_item_interactions=2,
            core=True,
        )


# --------------------------------------------------------------------------------------------------


def write_ratings(path, lines=None):
    lines = lines or [f"u{n % 9},i{n // 9},{n % 5 + 1},{1000 + 7 * n % 90}" for n in range(90)]
    path.write_text("\n".join(["user,item,rating,timestamp", *lines]) + "\n")
    return path


def test_missing_and_unreadable_timestamps_name_their_lines(tmp_path):
    path = write_ratings(tmp_path / "r.csv", ["a,x,1,5", "a,y,1,", "b,x,1,7", "b,y,1,"])
    with pytest.raises(InputError, match="no timestamp in line 3, line 5; every row needs one"):
        weft.split(path, "leave-last-out")
    assert len(weft.split(path, "random", test_share=0.5).test) == 2
    path = write_ratings(tmp_path / "r.csv", ["a,x,1,5", "a,y,1,soon", "b,x,1,7"])
    with pytest.raises(InputError, match="the timestamp in line 3 is not a valid integer"):
        weft.split(path, "leave-last-out")
    path = write_ratings(tmp_path / "r.csv", ["a,x,1,30.12.2020", "a,y,1,31.12.2020"])
    with pytest.raises(InputError, match="line 2, line 3 is neither a number nor a date in ISO"):
        weft.split(path, "leave-last-out")
    path = write_ratings(tmp_path / "r.csv", ["a,x,good,5", "a,y,1,6"])
    with pytest.raises(InputError, match="a 'rating' that is not a number in line 2"):
        weft.split(path, "leave-last-out")
    path.write_text("user,item\na,x\na,y\n")
    with pytest.raises(InputError, match=r"has no column of timestamps.* Name it in the setting"):
        weft.split(path, "timeline")
    with pytest.raises(InputError, match=r"has no column of timestamps.* Rename the column, or"):
        weft.split(pl.read_csv(path), "timeline")


@pytest.mark.parametrize(
    ("texts", "cut"),
    [
        (["2024-01-01", "2024-01-02", "2024-02-01"], datetime.date(2024, 1, 15)),
        (["2024-01-01 10:00:00", "2024-01-01 11:30:00.5", "2024-01-02 09:00:00"], "2024-01-02"),
        (
            ["2024-01-01T10:00:00Z", "2024-01-01T10:00:00+01:00", "2024-01-03T00:00:00Z"],
            "2024-01-02",
        ),
        (["9", "10", "100"], 50),
        (["9.5", "10.25", "100"], 50.5),
    ],
)
def test_timestamps_in_text(tmp_path, texts, cut):
    lines = [f"a,i{number},1,{text}" for number, text in enumerate(texts)]
    path = write_ratings(tmp_path / "r.csv", lines)
    split = weft.split(path, "timeline", test_from=cut)
    assert split.test["item"].to_list() == ["i2"]
    parts = split.save(tmp_path / "parts")
    assert parts[1].read_text().splitlines()[1] == lines[2]  # as it was written


def test_offsets_count_in_the_order_of_time(tmp_path):
    lines = ["a,early,1,2024-01-01T10:00:00+02:00", "a,late,1,2024-01-01T09:00:00Z"]
    split = weft.split(write_ratings(tmp_path / "r.csv", lines), "leave-last-out")
    assert split.test["item"].to_list() == ["late"]
    assert split.manifest["files"][1]["first"] == "2024-01-01T09:00:00"


def test_points_in_time_of_another_kind_are_refused(tmp_path):
    path = write_ratings(tmp_path / "r.csv")
    with pytest.raises(SettingError, match=r"are numbers; .* 2024-01-01 is 1704067200 in seconds"):
        weft.split(path, "timeline", test_from="2024-01-01")
    dated = write_ratings(tmp_path / "d.csv", ["a,x,1,2024-01-01", "a,y,1,2024-01-02"])
    with pytest.raises(SettingError, match="the timestamps are dates"):
        weft.split(dated, "timeline", test_from=17)
    with pytest.raises(SettingError, match="validation_from='9' must be earlier than test_from"):
        weft.split(path, "timeline", test_from=8, validation_from=9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "leave-one"}, "Choose one of .*'leave-last-out'"),
        ({"method": "random", "n": 1}, "n=1 is an option of method='leave-last-out'"),
        ({"method": "timeline", "ties": "break"}, "ties='break' is an option of"),
        ({"method": "random", "test_share": 1.0}, "above 0 and below 1"),
        ({"method": "random", "test_share": True}, "above 0 and below 1"),
        ({"method": "random", "validation_share": 0.8}, "must leave some interactions for train"),
        ({"method": "timeline", "test_share": 0.1, "test_from": 3}, "points in time or shares"),
        ({"method": "timeline", "validation_from": 3}, "needs test_from="),
        ({"method": "timeline", "test_from": float("nan")}, "a timestamp as in the data"),
        ({"method": "folds", "folds": 1}, "integer of at least 2"),
        ({"method": "folds", "validation_share": 0.1}, "is an option of"),
        ({"method": "random", "core": True}, "core=True repeats"),
        ({"method": "random", "cold_users": "maybe"}, "'keep', 'drop'"),
        ({"method": "random", "duplicates": None}, "is not known"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(SettingError, match=message):
        weft.split(make_frame([("a", "b", 1), ("a", "c", 2)]), **options)


def test_unknown_options_and_data_are_refused():
    with pytest.raises(UnknownParameter, match="Did you mean 'test_share'"):
        weft.split(make_frame([("a", "b", 1)]), "random", test_shares=0.1)
    with pytest.raises(InputError, match="is a list; expected a path"):
        weft.split([("a", "b")], "random")
    with pytest.raises(InputError, match="user ids are integers or strings"):
        weft.split(pl.DataFrame({"user": [1.0], "item": ["a"]}), "random")
    with pytest.raises(InputError, match="no item id in row 1"):
        weft.split(pl.DataFrame({"user": ["a", "b"], "item": ["a", None]}), "random")
    with pytest.raises(InputError, match="has no rows"):
        weft.split(
            pl.DataFrame({"user": [], "item": []}, schema={"user": pl.Int64, "item": pl.Int64}),
            "random",
        )


def test_options_are_the_fields_of_the_settings():
    assert list(SplitOptions.__annotations__) == list(SplitSettings.model_fields)[1:]


# --------------------------------------------------------------------------------------------------


def test_frames_of_all_kinds_split_alike():
    rows = make_rows([(n % 6, n // 6) for n in range(36)], [n * 5 % 36 for n in range(36)])
    frame = make_frame(rows).with_columns(note=pl.lit("x"))
    expected = weft.split(frame, "leave-last-out", n=2).test
    pandas = pd.DataFrame(frame.to_dict(as_series=False))
    for data in (frame.lazy(), pandas, frame.cast({"user": pl.Categorical})):
        assert (
            weft.split(data, "leave-last-out", n=2).test.cast({"user": pl.String}).equals(expected)
        )


def test_save_keeps_text_as_it_is_written(tmp_path):
    path = tmp_path / "ratings.csv"
    lines = [f'u{n % 4},i{n // 4},{n % 5}.50,{n},"a, ""b"" {n}"' for n in range(20)]
    path.write_text("\n".join(["user,item,rating,timestamp,note", *lines]) + "\n")
    split = weft.split(path, "leave-last-out", n=2)
    written = split.save(tmp_path / "parts")
    assert [one.name for one in written] == ["train.csv", "test.csv", MANIFEST_NAME]
    train, test = (one.read_text().splitlines() for one in written[:2])
    assert train[0] == test[0] == "user,item,rating,timestamp,note"
    assert sorted(train[1:] + test[1:]) == sorted(lines)
    assert [line for line in lines if line in test] == test[1:]  # in the order of the file
    assert split.test["rating"].dtype == pl.Float64
    assert split.test["timestamp"].dtype == pl.Int64


LAYOUTS = {
    "semicolon.csv": "user;item;rating;timestamp\n"
    + "".join(f"u{n % 5};i{n // 5};3;{n}\n" for n in range(25)),
    "movielens.dat": "".join(f"{n % 5}::{n // 5}::4::{n}\n" for n in range(25)),
    "no-header.tsv": "".join(f"{n % 5}\t{n // 5}\t4\t{n}\n" for n in range(25)),
    "atomic.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    + "".join(f"{n % 5}\t{n // 5}\t4\t{n}\n" for n in range(25)),
    "lines.jsonl": "".join(
        f'{{"user":"u{n % 5}","item":"i{n // 5}","timestamp":{n}}}\n' for n in range(25)
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_parts_have_the_layout_of_the_file(tmp_path, name):
    path = tmp_path / name
    path.write_text(LAYOUTS[name])
    split = weft.split(path, "leave-last-out")
    train, test, manifest = split.save(tmp_path / "parts")
    assert train.suffix == test.suffix == path.suffix
    lines = train.read_text().splitlines() + test.read_text().splitlines()
    assert set(lines) == set(LAYOUTS[name].splitlines())
    assert len(split.test) == 5
    assert "user" in split.test.columns or name == "atomic.inter"
    lists = {user: [item] for user, item in split.test.select(split.test.columns[:2]).rows()}
    for truth in (test, split.test):
        assert weft.evaluate(lists, truth, train=train, metrics="nDCG", top_k=1)["nDCG@1"] == 1.0
    assert find_manifest(test) == read_manifest(manifest)


def test_compressed_files_and_folders_and_other_formats(tmp_path):
    text = LAYOUTS["semicolon.csv"]
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(text.encode()))
    split = weft.split(tmp_path / "r.csv.gz", "leave-last-out")
    assert split.save(tmp_path / "a")[0].name == "train.csv"
    folder = tmp_path / "parts-of-data"
    folder.mkdir()
    frame = split.data.typed.collect()
    frame[:10].write_parquet(folder / "0.parquet")
    frame[10:].write_parquet(folder / "1.parquet")
    other = weft.split(folder, "leave-last-out")
    assert other.test.equals(split.test)
    assert pl.read_parquet(other.save(tmp_path / "b")[1]).equals(split.test)
    for format_ in ("csv", "tsv", "parquet", "jsonl"):
        saved = split.save(tmp_path / format_, format=format_)
        again = weft.split(saved[0], "leave-last-out")
        assert sorted(find_parts(again)) == sorted(split.train.rows())
    json_path = tmp_path / "ranx.json"
    json_path.write_text(json.dumps({"q1": {"d1": 1, "d2": 2}, "q2": {"d1": 3, "d3": 1}}))
    ranx = weft.split(json_path, "random", test_share=0.5)
    assert len(ranx.test) == 2
    assert ranx.save(tmp_path / "json")[0].suffix == ".jsonl"


def test_columns_of_a_file_can_be_named(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("visitor,sku,when\n" + "".join(f"{n % 3},{n // 3},{n}\n" for n in range(12)))
    file = weft.File(path, columns={"user": "visitor", "item": "sku", "timestamp": "when"})
    split = weft.split(file, "leave-last-out")
    assert split.test.columns == ["visitor", "sku", "when"]
    assert split.manifest["columns"] == {"user": "visitor", "item": "sku", "timestamp": "when"}


def test_the_same_input_gives_the_same_files(tmp_path):
    path = write_ratings(tmp_path / "r.csv")
    first, second = (weft.split(path, "random", seed=5).save(tmp_path / name) for name in "ab")
    assert [one.read_bytes() for one in first] == [one.read_bytes() for one in second]


def test_existing_files_are_replaced_only_on_request(tmp_path):
    path = write_ratings(tmp_path / "r.csv")
    folder = tmp_path / "parts"
    weft.split(path, "user-timeline", validation_share=0.2).save(folder)
    split = weft.split(path, "folds", folds=2)
    (folder / "notes.txt").write_text("mine")
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    with pytest.raises(InputError, match=r"exists already; .* overwrite=True"):
        split.save(folder)
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before
    split.save(folder, overwrite=True)
    names = [f"fold-{n}-{part}.csv" for n in (1, 2) for part in ("test", "train")]
    assert sorted(one.name for one in folder.iterdir()) == [*names, "notes.txt", MANIFEST_NAME]
    with pytest.raises(InputError, match="this is the input file"):
        weft.split(folder / names[0], "folds", folds=2).save(folder, overwrite=True)


def test_nothing_is_written_if_one_file_fails(tmp_path, monkeypatch):
    path = write_ratings(tmp_path / "r.csv")
    split = weft.split(path, "leave-last-out")
    write = split_files._write_rows

    def fail(frame, file, writer, place):
        if place.startswith("test"):
            raise OSError(28, "No space left on device")
        write(frame, file, writer, place)

    monkeypatch.setattr(split_files, "_write_rows", fail)
    with pytest.raises(InputError, match="No space left"):
        split.save(tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


def test_parts_of_folds_and_missing_parts(tmp_path):
    split = weft.split(write_ratings(tmp_path / "r.csv"), "folds", folds=3)
    with pytest.raises(SettingError, match=r"no such part; it has fold-1-train, .* split.folds"):
        split.train  # noqa: B018
    assert split.validation is None
    assert len(split.folds) == 3
    assert split.scan("test", fold=2).collect().equals(split.folds[1].test)


def test_broken_manifests_are_refused(tmp_path):
    path = tmp_path / MANIFEST_NAME
    for text, message in (
        ("{", "cannot be read"),
        ("[]", "not a manifest of a split"),
        ('{"format": "weft-split", "version": 1}', "not a manifest of a split"),
        (
            '{"format": "weft-split", "version": 9, "method": "x", "parameters": {}, "files": []}',
            "version 9 of the format",
        ),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            find_manifest(tmp_path / "test.csv")


# --------------------------------------------------------------------------------------------------


def test_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_ratings(tmp_path / "r.csv")
    done = run_weft(
        shlex.split(
            "split r.csv --method leave-last-out --n 2 --validation-n 1 --out parts "
            "--cold-items drop"
        )
    )
    assert done.code == 0
    assert "Written: parts/train.csv, parts/validation.csv, parts/test.csv" in done.output
    manifest = json.loads((tmp_path / "parts" / MANIFEST_NAME).read_text())
    assert manifest["parameters"]["n"] == 2
    assert manifest["parameters"]["cold_items"] == "drop"
    split = weft.split("r.csv", "leave-last-out", n=2, validation_n=1, cold_items="drop")
    assert [entry["rows"] for entry in manifest["files"]] == [
        entry["rows"] for entry in split.manifest["files"]
    ]
    lists = split.test.select("user", "item", score=pl.lit(1.0) / pl.int_range(1, pl.len() + 1))
    lists.write_csv("lists.csv")
    done = run_weft(
        shlex.split(
            "evaluate --recs lists.csv --truth parts/test.csv --train parts/train.csv -m Recall "
            "-k 5 --format csv"
        )
    )
    assert done.code == 0
    assert ",1.0," in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "p"], "--method must be given"),
        (["--method", "random"], "--out must be given"),
        (["--method", "random", "--n", "1", "--out", "p"], "--n 1 is an option of --method leave"),
        (["--method", "leave-last-out", "--out", "r.csv"], "is a file; give a folder"),
        (["--method", "timeline", "--test-from", "2024-01-01", "--out", "p"], "--test-from 2024"),
        (["--method", "random", "--out", "p", "--format", "xlsx"], "--format xlsx is not known"),
        (["--method", "random", "--out", "p", "--column", "user=visitor"], "no column 'visitor'"),
    ],
)
def test_command_line_errors(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    write_ratings(tmp_path / "r.csv")
    done = run_weft(["split", "r.csv", *words])
    assert done.code == 2
    assert message in done.output
    assert not (tmp_path / "p").exists()
