"""Files: every layout gives the values of the frame, and broken files give clear messages."""

import bz2
import gzip
import json
import lzma
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import weft
from weft.data.readers.files import FileTable, read_table
from weft.errors import InputError, SettingError

GOLDEN = Path(__file__).parents[2] / "shared" / "golden"
needs_golden = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason=f"the golden values are not here: {GOLDEN}"
)

LISTS = pl.DataFrame(
    {
        "user": ["ann", "ann", "ann", "bob", "bob", "cid"],
        "item": ["tea", "rye", "fig", "rye", "oat", "tea"],
        "score": [0.9, 0.5, 0.25, 3.0, -2.5, 0.125],
    }
)
TRUTH = pl.DataFrame(
    {
        "user": ["ann", "ann", "bob", "dan"],
        "item": ["rye", "fig", "oat", "tea"],
        "rating": [3.0, 1.0, 5.0, 2.0],
    }
)
METRICS = {"metrics": ["nDCG", "MRR", "Recall", "ItemCoverage", "LAUC"], "top_k": [1, 3]}


def numbers(source=LISTS, truth=TRUTH, **how):
    """Every value as text, in which NaN is NaN."""
    return repr(
        weft.evaluate(source, truth, **METRICS, **how)
        .to_frame()
        .select("metric", "k", "value")
        .rows()
    )


EXPECTED = numbers()


def write(frame, path, layout):
    """A frame in one of the layouts."""
    header, separator = layout not in HEADERLESS, SEPARATORS.get(layout)
    if layout == "parquet":
        frame.write_parquet(path)
    elif layout == "jsonl":
        frame.write_ndjson(path)
    elif layout in ("spaces", "::"):
        gap = "::" if layout == "::" else " \t "
        path.write_text(
            "\n".join(gap.join(map(str, row)) for row in [frame.columns, *frame.rows()]) + "\n"
        )
    elif layout == "recbole":
        types = {
            "user": "user_id:token",
            "item": "item_id:token",
            "rating": "rating:float",
            "score": "score:float",
        }
        frame.rename({name: types[name] for name in frame.columns}).write_csv(path, separator="\t")
    elif layout == "trec":
        scored = "score" in frame.columns
        rows = (
            f"{row[0]} Q0 {row[1]} 1\t {row[2]!r} run\n"
            if scored
            else f"{row[0]} 0 {row[1]} {int(row[2])}\n"
            for row in frame.rows()
        )
        path.write_text("".join(rows))
    elif layout == "ranx":
        table = {}
        for user, item, value in frame.rows():
            table.setdefault(user, {})[item] = value
        path.write_text(json.dumps(table))
    else:
        frame.write_csv(path, separator=separator, include_header=header)
    return path


SEPARATORS = {
    "csv": ",",
    "tsv": "\t",
    "semicolon": ";",
    "pipe": "|",
    "warprec": "\t",
    "headerless": ",",
}
HEADERLESS = ("warprec", "headerless")
SUFFIXES = {
    "csv": ".csv",
    "tsv": ".tsv",
    "parquet": ".parquet",
    "jsonl": ".jsonl",
    "recbole": ".inter",
    "ranx": ".json",
    "warprec": ".tsv",
}
LAYOUTS = (*SEPARATORS, "parquet", "jsonl", "spaces", "::", "recbole", "trec", "ranx")


def zstd(data):
    """A frame of Zstandard with one block, which is not compressed (RFC 8878): Python has no writer
    before 3.14.
    """
    size = len(data)
    return (
        b"\x28\xb5\x2f\xfd"
        + b"\xa0"
        + size.to_bytes(4, "little")
        + (size << 3 | 1).to_bytes(3, "little")
        + data
    )


PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_values(layout, packer, tmp_path):
    paths = []
    for name, frame in (("lists", LISTS), ("truth", TRUTH)):
        path = write(frame, tmp_path / f"{name}{SUFFIXES.get(layout, '.txt')}", layout)
        packed = path.with_name(path.name + packer)
        packed.write_bytes(PACKERS[packer](path.read_bytes()))
        paths.append(packed)
    assert numbers(*paths) == EXPECTED
    assert numbers(str(paths[0]), weft.File(paths[1])) == EXPECTED
    result = weft.evaluate(*paths, **METRICS)
    assert result.name == "lists" and result.provenance["files"] == {
        "source": str(paths[0]),
        "truth": str(paths[1]),
    }
    assert any("no header" in note for note in result.notes) == (layout in HEADERLESS)


def test_reads_zstandard(tmp_path):
    for name, text in (
        ("lists.csv.zst", LISTS.write_csv()),
        ("lists.jsonl.zst", LISTS.write_ndjson()),
    ):
        (tmp_path / name).write_bytes(zstd(text.encode()))
        assert numbers(tmp_path / name) == EXPECTED


@pytest.mark.parametrize("layout", LAYOUTS)
def test_reads_folders_of_part_files(layout, tmp_path):
    folder = tmp_path / "lists"
    folder.mkdir()
    suffix = SUFFIXES.get(layout, ".txt")
    for number, cut in enumerate((slice(0, 3), slice(3, 5), slice(5, 6))):
        write(LISTS[cut], folder / f"part-{number}{suffix}", layout)
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.crc").write_bytes(b"\0\1")
    assert numbers(folder) == EXPECTED
    assert numbers(folder / "part-*") == EXPECTED
    assert numbers(str(folder / "part-[0-2]*")) == EXPECTED


@pytest.mark.parametrize("form", ["csv", "txt", "jsonl", "json", "parquet", "csv.gz", "csv.zst"])
@pytest.mark.parametrize("name", ["x[1]", "x?", "*", "[!y]1", "x**", "[x", "a[1]/x", "a*/x[1]"])
def test_names_with_pattern_characters_are_names(name, form, tmp_path):
    def save(frame, name):
        path = tmp_path / f"{name}.{form}"
        path.parent.mkdir(exist_ok=True)
        layout = {"txt": "spaces", "json": "ranx"}.get(form, form.partition(".")[0])
        plain = write(frame, tmp_path / "plain", layout)
        packer = {"gz": gzip.compress, "zst": zstd}.get(form.rpartition(".")[2], bytes)
        path.write_bytes(packer(plain.read_bytes()))
        plain.unlink()
        return path

    for other in ("x1", "y1", "a1/x", "a1/x1"):
        save(LISTS.with_columns(item=pl.lit("other") + pl.col("item")), other)
    path = save(LISTS, name)
    assert numbers(path) == EXPECTED == numbers(weft.File(path))
    only = path.with_name("only")
    only.mkdir()
    path.rename(only / path.name)
    assert numbers(only) == EXPECTED  # as a part file of a folder


# --------------------------------------------------------------------------------------------------

names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=6)
ids = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 99), st.integers(0, 2**40))
floats = st.floats(-1e9, 1e9).map(lambda value: value + 0.0)


@st.composite
def problems(draw):
    """Lists and truth that have users and items in common, under ids of either type."""
    users, items = (
        draw(st.lists(draw(st.sampled_from([ids, names])), min_size=1, max_size=6, unique=True))
        for _ in range(2)
    )
    pairs = st.lists(
        st.tuples(st.sampled_from(users), st.sampled_from(items)),
        min_size=1,
        max_size=20,
        unique=True,
    )
    listed, relevant = draw(pairs), draw(pairs)
    relevant = [*relevant, *([listed[0]] if listed[0] not in relevant else [])]
    score = draw(st.lists(floats, min_size=len(listed), max_size=len(listed)))
    rating = draw(st.lists(st.integers(0, 9), min_size=len(relevant), max_size=len(relevant)))
    schema = {
        "user": pl.Int64 if isinstance(users[0], int) else pl.String,
        "item": pl.Int64 if isinstance(items[0], int) else pl.String,
    }
    return (
        pl.DataFrame(
            [(*pair, value) for pair, value in zip(listed, score)],
            {**schema, "score": pl.Float64},
            orient="row",
        ),
        pl.DataFrame(
            [(*pair, value) for pair, value in zip(relevant, rating)],
            {**schema, "rating": pl.Float64},
            orient="row",
        ),
    )


def is_text_of_integers(frame):
    return any(
        frame[name].dtype == pl.String and frame[name].str.contains(r"^(0|-?[1-9][0-9]*)$").all()
        for name in ("user", "item")
    )


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    problem=problems(),
    layout=st.sampled_from(["csv", "tsv", "semicolon", "pipe", "parquet", "jsonl", "ranx"]),
)
def test_any_frame_in_any_layout_gives_the_same_values(problem, layout, tmp_path):
    lists, truth = problem
    paths = [
        write(frame, tmp_path / f"{name}{SUFFIXES.get(layout, '.txt')}", layout)
        for name, frame in (("l", lists), ("t", truth))
    ]
    how = "auto"
    if layout not in ("parquet", "jsonl"):
        # Text has no types: strings that look like integers are read as integers, unless the caller
        # says otherwise.
        kinds = {frame[name].dtype for frame in problem for name in ("user", "item")}
        how = "auto" if len(kinds) > 1 else "integer" if kinds == {pl.Int64} else "string"
        if how == "auto" and (is_text_of_integers(lists) or is_text_of_integers(truth)):
            return
    files = [weft.File(path, ids=how) for path in paths]
    assert numbers(*files) == numbers(lists, truth)


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "item", "score"),
    [
        ("userId", "itemId", "Score"),
        ("User ID", "Item ID", "prediction"),
        ("uid", "iid", "rating"),
        ("query", "docno", "score"),
        ("qid", "doc_id", "score"),
        ("session_id", "product-id", "score"),
        ("USER", "movieId", "pred"),
        ("customer_id", "sku", "value"),
        ("user_id:token", "item_id:token", "score:float"),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_finds_columns_by_name(user, item, score, suffix, tmp_path):
    frame = LISTS.select(
        pl.lit(1).alias("no"),
        pl.col("score").alias(score),
        pl.col("item").alias(item),
        pl.col("user").alias(user),
    )
    path = tmp_path / f"lists.{suffix}"
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    assert numbers(path) == EXPECTED
    assert numbers(frame) == EXPECTED  # frames in memory have the same names


def test_reads_frames_of_lenskit_and_rectools(tmp_path):
    ranked = LISTS.sort("score").with_columns(
        rank=pl.col("score").rank(descending=True).over("user").cast(pl.Int64), score=pl.lit(0.0)
    )
    lenskit, rectools, old = (
        tmp_path / "lenskit.csv",
        tmp_path / "rectools.parquet",
        tmp_path / "old.csv",
    )
    ranked.rename({"user": "user_id", "item": "item_id"}).select(
        "item_id", "score", "rank", "user_id"
    ).write_csv(lenskit)
    ranked.rename({"user": "user_id", "item": "item_id"}).write_parquet(rectools)
    ranked.with_columns(Algorithm=pl.lit("als")).write_csv(old)
    for path in (lenskit, rectools, old):
        assert numbers(path) == EXPECTED
    assert any(
        "the ranks are used" in note for note in weft.evaluate(lenskit, TRUTH, **METRICS).notes
    )


def test_reads_declared_columns(tmp_path):
    path = tmp_path / "lists.csv"
    LISTS.rename({"user": "who", "item": "what", "score": "how much"}).write_csv(path)
    for columns in (
        {"user": "who", "item": "what", "score": "how much"},
        {"user": 0, "item": 1, "score": 2},
    ):
        assert numbers(weft.File(path, columns=columns)) == EXPECTED
    with pytest.raises(
        InputError, match=r"no column 'wat' for the item; it has .*'what'.*Did you mean 'what'"
    ):
        read_table(weft.File(path, columns={"user": "who", "item": "wat"}), "source")
    with pytest.raises(InputError, match="3 columns, numbered from 0; columns= gives number 7"):
        read_table(weft.File(path, columns={"user": 7, "item": 1}), "source")


def test_rows_without_scores_or_ranks_keep_their_order(tmp_path):
    path = tmp_path / "lists.csv"
    LISTS.select("user", "item").write_csv(path)
    assert numbers(path) == EXPECTED
    LISTS.rename({"score": "scroe"}).write_csv(path)
    with pytest.raises(
        InputError,
        match=r"no column of scores or ranks, but a column 'scroe'. Did you mean 'score'",
    ):
        weft.evaluate(path, TRUTH, **METRICS)


def test_reads_files_without_header_by_position(tmp_path):
    path = tmp_path / "lists.tsv"
    stamped = LISTS.with_columns(timestamp=pl.lit(881250949))
    stamped.write_csv(path, separator="\t", include_header=False)
    assert numbers(path) == EXPECTED
    assert (
        numbers(weft.File(path, header=False, columns={"user": 0, "item": 1, "score": 2}))
        == EXPECTED
    )
    swapped = LISTS.select("item", "user", "score")
    swapped.write_csv(path, separator="\t", include_header=False)
    assert numbers(weft.File(path, columns={"item": 0, "user": 1, "score": 2})) == EXPECTED
    # Only names, and none of them known: a header, or a row?
    path.write_text("anna\ttea\nbert\trye\n")
    with pytest.raises(
        InputError,
        match=r"could contain the names of the columns or the first row.*header=True.*header=False",
    ):
        read_table(path, "truth")
    assert len(read_table(weft.File(path, header=False), "truth")) == 2
    path.write_text("anna\ttea\nanna\trye\n")  # anna is there again: data
    assert len(read_table(path, "truth")) == 2


def test_rejects_ranks_without_header(tmp_path):
    path = tmp_path / "lists.csv"
    path.write_text("1,10,1\n1,11,2\n1,12,3\n2,10,1\n2,11,2\n")
    with pytest.raises(InputError, match=r"counts 1, 2, 3.*like ranks"):
        read_table(path, "source")
    table = read_table(weft.File(path, columns={"user": 0, "item": 1, "rank": 2}), "source")
    assert table.columns["rank"].to_list() == [1, 2, 3, 1, 2]


def test_rejects_wrong_settings_of_a_file():
    for wrong, says in (
        ({"format": "xlsx"}, "format='xlsx' is not known"),
        ({"ids": "int"}, "ids='int'.*Did you mean 'integer'"),
        ({"separator": ""}, "separator=''"),
        ({"header": "no"}, "header='no'"),
        ({"columns": {"usr": "a"}}, "the unknown role 'usr'.*Did you mean 'user'"),
        ({"columns": {"user": -1}}, "position, counted from 0"),
        ({"columns": ["user"]}, "expected {role: column}"),
    ):
        with pytest.raises(SettingError, match=says):
            weft.File("a.csv", **wrong)
    with pytest.raises(SettingError, match="path="):
        weft.File("")
    with pytest.raises(SettingError, match=r"^path is a DataFrame; .* without weft\.File"):
        weft.File(pl.DataFrame({"user": ["ann"], "item": ["tea"], "stars": [4]}))


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["1", "20", "-3", "0"], [1, 20, -3, 0]),
        (["1", "007"], ["1", "007"]),
        (["1", "+7"], ["1", "+7"]),
        (["1", "-0"], ["1", "-0"]),
        (["1", "7.0"], ["1", "7.0"]),
        (["1", "x7"], ["1", "x7"]),
        (["1", "2147483648"], [1, 2147483648]),
        (["1", "9223372036854775807"], [1, 2**63 - 1]),
        (["1", "9223372036854775808"], ["1", "9223372036854775808"]),
    ],
)
@pytest.mark.parametrize("seen_first", [True, False], ids=["in the sample", "behind the sample"])
@pytest.mark.parametrize("separator", [",", " "])
def test_keeps_ids_as_written(given, kept, seen_first, separator, tmp_path):
    path, filler = tmp_path / "t.csv", [] if seen_first else ["5"] * 1000
    path.write_text(
        "user,item\n".replace(",", separator)
        + "".join(f"{one}{separator}{one}\n" for one in [*filler, *given])
    )
    table = read_table(path, "truth")
    wanted = [*([5] * len(filler) if isinstance(kept[0], int) else filler), *kept]
    assert table.columns["user"].to_list() == table.columns["item"].to_list() == wanted


def test_reads_ids_of_a_declared_type(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("user,item\n1,007\n2,8\n")
    assert read_table(weft.File(path, ids="string"), "truth").columns["user"].to_list() == [
        "1",
        "2",
    ]
    assert read_table(weft.File(path, ids="integer"), "truth").columns["item"].to_list() == [7, 8]
    path.write_text("user,item\n1,007\n2,x\n")
    with pytest.raises(
        InputError, match=r"t.csv, line 3: the item id is 'x', which is not an integer"
    ):
        read_table(weft.File(path, ids="integer"), "truth")
    pl.DataFrame({"user": [1, 2], "item": ["3", "04"]}).write_parquet(tmp_path / "t.parquet")
    assert read_table(weft.File(tmp_path / "t.parquet", ids="string"), "truth").columns[
        "user"
    ].to_list() == ["1", "2"]
    assert read_table(weft.File(tmp_path / "t.parquet", ids="integer"), "truth").columns[
        "item"
    ].to_list() == [3, 4]


@pytest.mark.parametrize("kind", ["user", "item"])
def test_rejects_ids_of_different_types(kind, tmp_path):
    lists, truth = tmp_path / "lists.csv", tmp_path / "truth.csv"
    lists.write_text("user,item,score\n1,10,0.5\n2,11,0.25\n")
    other = "3,10" if kind == "user" else "1,12"
    truth.write_text(
        f"user,item\n1,10\n2,11\n{other.replace('3' if kind == 'user' else '12', 'x7')}\n"
    )
    with pytest.raises(InputError) as caught:
        weft.evaluate(lists, truth, **METRICS)
    for word in (
        str(lists),
        str(truth),
        "integers",
        "strings",
        "'x7'",
        f"{kind} ids",
        "ids='string'",
    ):
        assert word in str(caught.value)
    result = weft.evaluate(
        weft.File(lists, ids="string"), weft.File(truth, ids="string"), **METRICS
    )
    assert result["MRR@1"] > 0


def test_rejects_files_without_common_ids(tmp_path):
    lists, truth = tmp_path / "lists.csv", tmp_path / "truth.csv"
    LISTS.write_csv(lists)
    TRUTH.with_columns(user=pl.col("user").str.to_uppercase()).write_csv(truth)
    with pytest.raises(
        InputError,
        match=r"(?s)lists.csv\) and truth .*truth.csv\) have no user in common: .*'ann'.*'ANN'",
    ):
        weft.evaluate(lists, truth, **METRICS)
    TRUTH.with_columns(item=pl.col("item") + "!").write_csv(truth)
    with pytest.raises(InputError, match=r"no item in common: .*'fig'.*'fig!'.*items="):
        weft.evaluate(lists, truth, **METRICS)
    items = ["tea", "rye", "fig", "oat", "tea!", "rye!", "fig!", "oat!"]
    result = weft.evaluate(lists, truth, items=items, **METRICS)
    assert result["MRR@3"] == 0 and any(
        "no item of the truth is in any list" in note for note in result.notes
    )
    in_memory = weft.evaluate({"a": ["x"]}, {"b": ["x"]}, metrics="MRR@1")
    assert any("no user in common" in note for note in in_memory.notes)


# --------------------------------------------------------------------------------------------------

TWICE = pl.DataFrame(
    {
        "user": ["a", "a", "b", "a", "a"],
        "item": ["x", "y", "x", "x", "y"],
        "score": [0.1, 0.5, 0.3, 0.9, 0.2],
    }
)


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_rejects_or_drops_duplicates(form, tmp_path):
    path = tmp_path / f"lists.{form}"
    TWICE.write_csv(path) if form == "csv" else TWICE.write_parquet(path)
    source = TWICE if form == "frame" else path
    truth = {"a": ["x"], "b": ["x"]}
    first = {
        "frame": "row 3: user 'a', item 'x'",
        "csv": "line 5: user 'a', item 'x'",
        "parquet": "row 3: user 'a', item 'x'",
    }[form]
    with pytest.raises(InputError, match=f"(?s)has the same item twice.*{first}.*keep-best"):
        weft.evaluate(source, truth, metrics="MRR@5")
    result = weft.evaluate(
        source, truth, metrics=["MRR", "NumRetrieved"], top_k=5, duplicates="keep-best"
    )
    assert result["MRR@5"] == 1 and result["NumRetrieved@5"] == 1.5  # a: x 0.9, y 0.5
    assert result.counts["duplicates_dropped"] == 2 and any(
        "2 rows repeat an item" in note for note in result.notes
    )
    once = weft.evaluate(TWICE[:3], truth, metrics="MRR@5", duplicates="keep-best")
    assert once["MRR@5"] == 0.75 and once.counts["duplicates_dropped"] == 0


def test_duplicates_of_dicts_and_ranks():
    kept = weft.evaluate(
        {"a": ["y", "x", "y", "x"]},
        {"a": ["x"]},
        metrics=["MRR@2", "NumRetrieved@4"],
        duplicates="keep-best",
    )
    assert (
        kept["MRR@2"] == 0.5
        and kept["NumRetrieved@4"] == 2
        and kept.counts["duplicates_dropped"] == 2
    )
    ranked = pl.DataFrame({"user": [1, 1, 1], "item": [5, 6, 5], "rank": [3, 2, 1]})
    assert weft.evaluate(ranked, {1: [5]}, metrics="MRR@1", duplicates="keep-best")["MRR@1"] == 1
    tied = pl.DataFrame({"user": [1, 1, 1], "item": [5, 5, 6], "rank": [1, 2, 1]})
    with pytest.raises(
        InputError, match=r"(?s)the same rank to several items.*row 2: user 1, item 6"
    ):
        weft.evaluate(tied, {1: [5]}, metrics="MRR@1", duplicates="keep-best")
    with pytest.raises(SettingError, match="duplicates='best'"):
        weft.evaluate(TWICE, {"a": ["x"]}, metrics="MRR@1", duplicates="best")
    with pytest.raises(SettingError, match="applies to recommendation lists"):
        weft.evaluate(np.eye(2), {0: [1]}, metrics="MRR@1", duplicates="keep-best")


def test_errors_name_lines(tmp_path):
    path = tmp_path / "lists.csv"
    path.write_text('user,item,score\n\na,"x\ny",1\n\na,z,nan\nb,z,1\n')
    with pytest.raises(
        InputError,
        match=(
            r"(?s)lists.csv\) has scores that are not finite.*line 6: user 'a', item 'z', score "
            r"nan"
        ),
    ):
        weft.evaluate(path, {"a": ["z"]}, metrics="MRR@1")
    truth = tmp_path / "truth.tsv"
    truth.write_text("user\titem\trating\na\tz\t1\na\tq\t-1\na\tz\t2\n")
    with pytest.raises(
        InputError, match=r"(?s)negative ratings.*line 3: user 'a', item 'q', rating -1"
    ):
        weft.evaluate({"a": ["z"]}, truth, metrics="MRR@1")
    with pytest.raises(
        InputError, match=r"(?s)repeated .user, item. row:.*line 4: user 'a', item 'z'"
    ):
        weft.evaluate({"a": ["z"]}, truth, metrics="MRR@1", relevance_threshold=1)
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, text in enumerate(("user,item\na,x\n", "user,item\na,z\na,x\n")):
        (folder / f"{number}.csv").write_text(text)
    with pytest.raises(InputError, match=r"(?s)same item twice.*1.csv, line 3: user 'a', item 'x'"):
        weft.evaluate(folder, {"a": ["z"]}, metrics="MRR@1")
    with pytest.raises(
        InputError, match=r"(?s)not in the catalogue.*1.csv, line 2: user 'a', item 'z'"
    ):
        weft.evaluate(folder, {"a": ["x"]}, items=["x"], metrics="MRR@1")


def test_counts_missing_and_extra_users(tmp_path):
    lists = tmp_path / "lists.csv"
    LISTS.write_csv(lists)
    result = weft.evaluate(lists, TRUTH, **METRICS)
    assert result.counts["missing_users"] == 1 and result.counts["users_without_truth"] == 1
    assert any("1 of 4 users is not in the truth" in note for note in result.notes)
    assert any(
        "1 user of the truth has no list and is evaluated with an empty one" in note
        for note in result.notes
    )


def test_every_argument_takes_a_file(tmp_path):
    train = pl.DataFrame({"user": ["ann", "bob", "bob"], "item": ["tea", "fig", "oat"]})
    groups = {"ann": "F", "bob": "M", "cid": "M", "dan": "F"}
    clusters = {"tea": 1, "rye": 2, "fig": 2, "oat": 2}
    features = {"tea": ["hot", "wet"], "rye": ["dry"], "fig": ["dry"], "oat": ["dry"]}
    train.write_csv(tmp_path / "train.csv.txt")
    (tmp_path / "items.txt").write_text("tea\nrye\nfig\noat\nsoy\n")
    (tmp_path / "groups.tsv").write_text("ann\tF\nbob\tM\ncid\tM\ndan\tF\n")
    (tmp_path / "clusters.csv").write_text(
        "item,name,cluster\n" + "".join(f"{item},x,{label}\n" for item, label in clusters.items())
    )
    pairs = pl.DataFrame(
        [(item, one) for item, several in features.items() for one in several],
        ["item", "feature"],
        orient="row",
    )
    pairs.write_parquet(tmp_path / "features.parquet")
    (tmp_path / "features.jsonl").write_text(
        "".join(json.dumps({"item": i, "tags": tags}) + "\n" for i, tags in features.items())
    )
    how = {"metrics": ["nDCG", "SRecall", "RSP", "UserMADRanking", "EPC", "Gini"], "top_k": 3}
    expected = weft.evaluate(
        LISTS,
        TRUTH,
        train=train,
        items=["tea", "rye", "fig", "oat", "soy"],
        user_groups=groups,
        item_clusters=clusters,
        item_features=features,
        **how,
    )
    for tags in ("features.parquet", "features.jsonl"):
        result = weft.evaluate(
            LISTS,
            TRUTH,
            train=tmp_path / "train.csv.txt",
            items=tmp_path / "items.txt",
            user_groups=weft.File(tmp_path / "groups.tsv", header=False),
            item_clusters=tmp_path / "clusters.csv",
            item_features=tmp_path / tags,
            **how,
        )
        assert_frame_equal(result.to_frame(), expected.to_frame())
    assert set(result.provenance["files"]) == {
        "train",
        "items",
        "user_groups",
        "item_clusters",
        "item_features",
    }


def test_reads_catalogues(tmp_path):
    path = tmp_path / "catalogue.csv"
    path.write_text(
        "item,title\n3,a\n1,b\n3,c\n"
    )  # as in a table of interactions: each item counts once
    found = weft.evaluate(
        {1: [1]}, {1: [1]}, items=path, metrics="ItemCoverage(as_fraction=True)@1"
    )
    assert found["ItemCoverage(as_fraction=True)@1"] == 0.5
    path.write_text("3\n1\n3\n")
    with pytest.raises(InputError, match="has the id 3 2 times"):
        weft.evaluate({1: [1]}, {1: [1]}, items=path, metrics="MRR@1")
    users, items = tmp_path / "users.txt", tmp_path / "items.txt"
    users.write_text("ann\nbob\n")
    items.write_text("x\ny\nz\n")
    result = weft.evaluate(
        np.eye(2, 3), {"ann": ["x"], "bob": ["z"]}, users=users, items=items, metrics="MRR@3"
    )
    assert result["MRR@3"] == pytest.approx((1 + 1 / 3) / 2)


def test_reads_a_table_once(tmp_path):
    path = tmp_path / "truth.csv"
    TRUTH.write_csv(path)
    table = read_table(path, "truth")
    assert isinstance(table, FileTable) and read_table(table, "truth") is table
    path.unlink()
    assert numbers(LISTS, table) == EXPECTED == numbers(LISTS, table)


# --------------------------------------------------------------------------------------------------

PARQUET = b"PAR1" + b"\0" * 20
BROKEN = {
    "empty": ("a.csv", b"", ["a.csv", "is empty"]),
    "only empty lines": ("a.csv", b"\n\n", ["a.csv is empty"]),
    "only a header": ("a.csv", b"user,item,score\n", ["a.csv", "has no rows below its header"]),
    "bad UTF-8": (
        "a.csv",
        b"user,item,score\nann,tea,1\nbob,caf\xe9,1\n",
        ["a.csv, line 3", "not UTF-8", "iconv"],
    ),
    "UTF-16": ("a.csv", "user,item\na,b\n".encode("utf-16"), ["a.csv", "UTF-16"]),
    "a row too long": (
        "a.csv",
        b"user,item,score\nann,tea,1\nann,rye,1,9\n",
        ["a.csv, line 3", "4 fields", "header has 3", "'9'"],
    ),
    "a long row, unread columns": (
        "a.csv",
        b"user,item,score,x,y\nann,tea,1,2,3\nann,rye,1,2,3,4\n",
        ["a.csv, line 3", "6 fields", "header has 5"],
    ),
    "a row too short": (
        "a.csv",
        b"user,item,score\nann,tea,1\nann,rye\n",
        ["a.csv, line 3", "2 fields", "header has 3"],
    ),
    "the first row too short": (
        "a.csv",
        b"user,item,score\nann,tea\nann,rye,1\n",
        ["a.csv, line 2", "2 fields"],
    ),
    "the first row too long": (
        "a.csv",
        b"user,item,score\nann,tea,1,1\nann,rye,1\n",
        ["a.csv, line 2", "4 fields"],
    ),
    "short by spaces": (
        "a.txt",
        b"user item score\nann tea 1\nann 1\n",
        ["a.txt, line 3", "2 fields"],
    ),
    "long by spaces": (
        "a.txt",
        b"user item score\nann tea 1\nann rye 1 1\n",
        ["a.txt, line 3", "4 fields"],
    ),
    "a quote that stays open": (
        "a.csv",
        b'user,item,score\nann,"tea,1\nann,rye,1\n',
        ["a.csv, line 2", "a quote is not closed"],
    ),
    "text among numbers": (
        "a.csv",
        b"user,item,score\nann,tea,1\nann,rye,high\n",
        ["a.csv, line 3", "'high'", "expected a number"],
    ),
    "text by spaces": (
        "a.txt",
        b"user item score\nann tea 1\nann rye high\n",
        ["a.txt, line 3", "'high'", "expected a number"],
    ),
    "a decimal comma": (
        "a.csv",
        b"user;item;score\nann;tea;0,5\n",
        ["a.csv, line 2", "'0,5'", "Use a point as the decimal separator"],
    ),
    "text as ranks": (
        "a.csv",
        b"user,item,rank\nann,tea,first\n",
        ["a.csv, line 2", "the rank", "'first'"],
    ),
    "no number": (
        "a.csv",
        b"user,item,score\nann,tea,1\nann,rye,\n",
        ["a.csv", "scores that are not finite numbers", "line 3: user 'ann', item 'rye'"],
    ),
    "no id": (
        "a.csv",
        b"user,item,score\nann,tea,1\n,rye,1\n",
        ["a.csv, line 3", "there is no user id"],
    ),
    "no item column": (
        "a.csv",
        b"user,itm,score\nann,tea,1\n",
        ["a.csv", "'itm'", "expected one named 'item'", "columns="],
    ),
    "one column": ("a.csv", b"user\nann\n", ["a.csv", "one column", "separator="]),
    "two columns for a role": (
        "a.csv",
        b"user_id,userId,item\na,a,b\n",
        ["'user_id' and 'userId'", "rename or remove one"],
    ),
    "a column twice": ("a.csv", b"user,user,item\na,a,b\n", ["'user' twice"]),
    "truncated Parquet": ("a.parquet", PARQUET, ["a.parquet", "not a complete Parquet file"]),
    "no Parquet": ("a.parquet", b"user,item\na,b\n", ["a.parquet", "not a complete Parquet file"]),
    "truncated gzip": (
        "a.csv.gz",
        gzip.compress(b"user,item,score\n" + b"ann,tea,1\n" * 999)[:40],
        ["a.csv.gz", "gzip", "truncated or damaged"],
    ),
    "damaged xz": (
        "a.csv.xz",
        lzma.compress(b"user,item\n" * 99)[:50],
        ["a.csv.xz", "xz", "truncated or damaged"],
    ),
    "damaged bzip2": (
        "a.csv.bz2",
        bz2.compress(b"user,item\n" * 99)[:30],
        ["a.csv.bz2", "bzip2", "truncated or damaged"],
    ),
    "damaged zstd": ("a.csv.zst", b"\x28\xb5\x2f\xfd\x04\x00\x01", ["a.csv.zst", "Zstandard"]),
    "an archive": ("a.zip", b"PK\x03\x04\x00\x00", ["a.zip", "ZIP archive", "not supported"]),
    "no JSON": (
        "a.jsonl",
        b'{"user": 1, "item": 2}\n{"user": 1, "item":\n',
        ["a.jsonl, line 2", "is not JSON"],
    ),
    "no object": (
        "a.jsonl",
        b'{"user": 1, "item": 2}\n[1, 2]\n',
        ["a.jsonl, line 2", "not an object"],
    ),
    "text in JSON": (
        "a.jsonl",
        b'{"user": 1, "item": 2, "score": "x"}\n',
        ["a.jsonl, line 1", "'x'", "expected a number"],
    ),
    "mixed ids in JSON": (
        "a.jsonl",
        b'{"user": 1, "item": 2}\n{"user": "1", "item": 2}\n',
        ["a.jsonl", "'user'", "int and str"],
    ),
    "mixed ids far in JSON": (
        "a.jsonl",
        b'{"user": 1, "item": 2}\n' * 300 + b'{"user": "x", "item": 2}\n',
        ["a.jsonl, line 301", "'x'", "expected an integer"],
    ),
    "no id in JSON": (
        "a.jsonl",
        b'{"user": 1, "item": 2}\n{"item": 2}\n',
        ["a.jsonl, line 2", "no user id"],
    ),
    "a key twice in JSON": (
        "a.jsonl",
        b'{"user": 1, "item": 2}\n{"user": 1, "item": 2, "user": 3}\n',
        ["a.jsonl, line 2", "'user'", "twice"],
    ),
    "a key twice far in JSON": (
        "a.jsonl",
        b'{"user": 1, "item": 2}\n' * 300 + b'{"item": 2, "user" : 1, "item" :2}\n',
        ["a.jsonl, line 301", "'item'", "twice"],
    ),
    "a key twice, once with escapes": (
        "a.jsonl",
        b'{"user": 1, "item": 2}\n' * 300 + b'{"user": 1, "us\\u0065r": 3, "item": 2}\n',
        ["a.jsonl, line 301", "'user'", "twice"],
    ),
    "a score twice in JSON": (
        "a.jsonl",
        b'{"user": 1, "item": 2, "score": 1, "score": 2}\n',
        ["a.jsonl, line 1", "'score'", "twice"],
    ),
    "a query twice": (
        "a.json",
        b'{"q1": {"d1": 1}, "q2": {"d1": 1},\n"q1": {"d2": 2}}',
        ["a.json", "query 'q1' twice"],
    ),
    "a document twice": (
        "a.json",
        b'{"q1": {"d1": 1}, "q2": {"d1": 1, "d2": 1, "d1": 2}}',
        ["a.json, query 'q2'", "document 'd1'", "twice"],
    ),
    "a JSON array": ("a.json", b'[{"user": 1}]', ["a.json", "one JSON array", "JSON Lines"]),
    "broken JSON": ("a.json", b'{"q1": {"d1": 1.0,\n "d2": }}', ["a.json, line 2", "not JSON"]),
    "text in ranx": ("a.json", b'{"q1": {"d1": "x"}}', ["a.json", "'q1'", "'d1'", "'x'", "number"]),
    "qrels as a run": ("a.qrels", b"1 0 d1 1\n1 0 d2 0\n", ["a.qrels", "TREC qrels", "swapped"]),
    "no TREC": ("a.trec", b"user,item\n1,2\n", ["a.trec", "not a TREC file", "'user,item'"]),
}


@pytest.mark.parametrize(("name", "data", "says"), BROKEN.values(), ids=BROKEN)
def test_rejects_broken_files(name, data, says, tmp_path):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        weft.evaluate(path, TRUTH, **METRICS)
    message = str(caught.value)
    for word in says:
        assert word in message
    assert caught.value.__cause__ is None and "polars" not in message.casefold()


def test_rejects_broken_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    for frame, says in (
        (
            LISTS.with_columns(score=pl.lit("high")),
            "'score' has the type String .row 0: 'high'.; a score must be a number",
        ),
        (
            LISTS.with_columns(user=pl.lit(1.5)),
            "'user' has the type Float64; user ids are integers or strings",
        ),
        (
            LISTS.with_columns(pl.when(pl.col("item") != "oat").then("item").alias("item")),
            "a.parquet, row 4: there is no item id",
        ),
        (
            LISTS.with_columns(pl.when(pl.col("item") != "oat").then("score").alias("score")),
            "row 4: user",
        ),
        (LISTS.rename({"user": "visiter"}), "'visiter'.*Did you mean 'visitor'"),
        (LISTS.with_columns(item=pl.concat_list("item")), "write one row for each item of a list"),
    ):
        frame.write_parquet(path)
        with pytest.raises(InputError, match=says):
            weft.evaluate(path, TRUTH, **METRICS)
    LISTS.write_parquet(path)
    whole = path.read_bytes()
    for end in (3, 50, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(InputError, match=r"a.parquet"):
            weft.evaluate(path, TRUTH, **METRICS)


def test_reads_quoted_values(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('user\titem\na\t"5 ""inch"" pipe"\nb\t"x\ty"\n')
    assert read_table(path, "truth").columns["item"].to_list() == ['5 "inch" pipe', "x\ty"]
    path.write_text('user\titem\na\t5" pipe\nb\tx\n')  # nothing stands in quotes: this is one
    assert read_table(path, "truth").columns["item"].to_list() == ['5" pipe', "x"]
    path.write_text('user\titem\na\t"7 pipe"\na\t5" pipe\nb\tx\n')
    with pytest.raises(InputError, match=r"a.tsv, line 3: a quote is not closed"):
        read_table(path, "truth")


WRONG_ROWS = {
    ",,0.7,": "there is no user id",
    ",,,5": "there is no user id",
    "ann,rye,1": "3 fields",
    "ann,rye": "2 fields",
    '"a,n,n",rye,1': "3 fields",
}


@pytest.mark.parametrize(
    ("row", "separator"),
    [
        (row, separator)
        for row in WRONG_ROWS
        for separator in (",", "\t", "::")
        if not ('"' in row and separator == "::")  # only CSV has quoted fields
    ],
)
def test_rejects_rows_without_ids_and_short_rows(row, separator, tmp_path):
    path = tmp_path / "a.txt"
    rows = ["user,item,score,note", *["ann,tea,1,x"] * 300, ",,,", "", row, "bob,tea,1,x"]
    path.write_text("\n".join(rows).replace(",", separator))
    with pytest.raises(InputError, match=rf"a.txt, line 304: {WRONG_ROWS[row]}"):
        read_table(path, "source")


def test_rejects_short_rows_of_other_files(tmp_path):
    path = tmp_path / "a.txt"
    for use, text, says in (
        ("source", "user item score note\nann tea 1 x\nann rye 1\n", "line 3: 3 fields"),
        ("items", "item,note\ntea,x\nrye\n", "line 3: 1 field "),
        ("items", "item,note\ntea,x\n,y\n", "line 3: there is no item id"),
        ("user_groups", "user,label\nann,x\nbob\n", "line 3: 1 field "),
        ("user_groups", "user,label\nann,x\n,y\n", "line 3: there is no user id"),
        ("source", TREC_RUN * 100 + "q1 Q0 d3 3 0.25\n", "line 301: 5 fields"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=rf"a.txt, {says}"):
            read_table(path, use)


@pytest.mark.parametrize("separator", [",", "\t", "::"])
def test_reads_empty_fields_and_skips_empty_rows(separator, tmp_path):
    path = tmp_path / "a.txt"
    rows = ["user,item,score,note", "ann,tea,1,x", ",,,", "ann,rye,2,", "", "bob,tea,3,"]
    if separator != "::":
        rows += ['cid,"t,e,a",4,', 'cid,"r\ny""e",5,"x\ny"', "dan,tea,6,"]
    path.write_text("\n".join(rows).replace(",", separator))
    table = read_table(path, "source")
    assert table.columns["score"].to_list() == list(range(1, len(table) + 1))
    lines = ["line 2", "line 4", "line 6", "line 7", "line 8", "line 11"]
    assert table.locate_rows(range(len(table))) == lines[: len(table)]


@pytest.mark.parametrize("value", ["true", "[1]", '{"a": 1}', "[]", "7", "7.0", "-1", "1e3"])
@pytest.mark.parametrize("role", ["user", "item"])
def test_rejects_other_values_among_strings_of_json_anywhere(role, value, tmp_path):
    path = tmp_path / "a.jsonl"
    ids = {"user": '"u"', "item": '"i"', role: value}
    last = f'{{"user" : {ids["user"]}, "item":{ids["item"]}}}\n'
    for num_before in (1, 300):
        path.write_text('{"user": "ann", "item": "tea"}\n' * num_before + last)
        with pytest.raises(
            InputError, match=rf"a.jsonl(: '{role}' is|, line 301: the {role} id is)"
        ):
            read_table(path, "truth")


def test_reads_json_keys_that_only_look_repeated(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [
        {"user": "ann", "item": '"user": "user":', "context": {"user": 1, "item": 2}},
        {"user": "b\\", "item": "caf\u00e9", "no\u00ebl": "user"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = read_table(path, "truth")
    assert table.columns["user"].to_list() == ["ann", "b\\"]
    assert table.columns["item"].to_list() == ['"user": "user":', "caf\u00e9"]


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("separator", [",", "\t", "::", " "])
def test_reads_lines_that_were_converted_twice(separator, packer, tmp_path):
    rows = [
        "score,user,item",
        "1,ann,tea",
        "",
        "2,ann,rye",
        '3,bob,"fig"',
        "4,cid,tea",
        "x,dan,oat",
    ]
    if separator in ("::", " "):
        rows = [row.replace('"', "") for row in rows]
    path = tmp_path / f"a.txt{packer}"
    for end in ("\r\r\n", "\r\r\r\n"):
        lines = [row.replace(",", separator) + end for row in rows]
        path.write_bytes(PACKERS[packer]("".join(lines[:-1]).encode()))
        table = read_table(path, "source")
        assert table.columns["user"].to_list() == ["ann", "ann", "bob", "cid"]
        assert table.columns["item"].to_list() == ["tea", "rye", "fig", "tea"]
        assert table.columns["score"].to_list() == [1, 2, 3, 4]
        assert table.locate_rows([0, 1, 3]) == ["line 2", "line 4", "line 6"]
        path.write_bytes(PACKERS[packer]("".join(lines).encode()))
        with pytest.raises(InputError, match=rf"a.txt{packer}, line 7: the score .* is 'x'"):
            read_table(path, "source")


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1e", "\x85", "\u2028", "\u2029", "\xa0"])
@pytest.mark.parametrize("separator", [",", "\t", "::", " "])
def test_characters_that_only_python_breaks_lines_at_lose_no_row(separator, end, tmp_path):
    path = tmp_path / "a.txt"
    rows = ["user,item,score", "ann,tea,1", "bob,rye,2"]
    header, *body = (row.replace(",", separator) + "\n" for row in rows)
    for text in (
        header[:-1] + end + "\n" + "".join(body),
        end + "\n" + header + "".join(body),
        header + end + "\n" + "".join(body),
    ):
        path.write_text(text, encoding="utf-8")
        assert read_table(path, "source").columns["user"].to_list() == ["ann", "bob"]


def test_reads_all_rows_below_line_breaks_in_the_header(tmp_path):
    path = tmp_path / "a.csv"
    for name in ("score", "sco\nre", "\nscore", "score\n\n", "score\r\n\r\n"):
        for gap in ("", "\n", "\n \n"):
            path.write_bytes(f'{gap}user,item,"{name}"\n{gap}ann,tea,1\nbob,rye,2\n'.encode())
            table = read_table(weft.File(path, columns={"score": name}), "source")
            assert table.columns["user"].to_list() == ["ann", "bob"], (name, gap)


def test_rejects_integers_beyond_float_precision(tmp_path):
    path = tmp_path / "a.parquet"
    LISTS.with_columns(score=pl.lit(2**60)).write_parquet(path)
    with pytest.raises(InputError, match=r"'score' has integers beyond 2\*\*53"):
        read_table(path, "source")


def test_rejects_wrong_separators(tmp_path):
    path = tmp_path / "a.csv"
    LISTS.write_csv(path, separator=";")
    with pytest.raises(
        InputError,
        match=r"a.csv has one column when it is split at ',': 'user;item;score'.*separator=';'",
    ):
        read_table(weft.File(path, separator=","), "source")
    assert numbers(path) == EXPECTED == numbers(weft.File(path, separator="semicolon"))


def test_rejects_unreadable_folders_and_paths(tmp_path):
    def refused(path, says):
        with pytest.raises(InputError, match=says):
            weft.evaluate(path, TRUTH, **METRICS)

    LISTS.write_csv(tmp_path / "recommendations.csv")
    refused(tmp_path / "recomendations.csv", "no such file. Did you mean '.*recommendations.csv'")
    refused(tmp_path / "nowhere" / "a.csv", "no such file. There is no folder .*nowhere")
    refused("s3://lake/als.parquet", "no such file. This is a URL, which weft.engines.spark and")
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    refused(folder, "parts.: this is a folder with no file to read")
    (folder / "day=1").mkdir()
    refused(folder, r"It has folders .day=1.; to read their files, give .*parts/\*/\*")
    refused(folder / "*.csv", "no such file")
    LISTS[:3].write_csv(folder / "0.csv")
    LISTS[3:].select("item", "user", "score").write_csv(folder / "1.csv")
    refused(
        folder,
        r"same columns: .*0.csv has \['user', 'item', 'score'\], but .*1.csv has \['item', "
        r"'user', 'score'\]",
    )
    LISTS[3:].write_parquet(folder / "1.csv")
    refused(folder, "same columns")
    (folder / "1.csv").write_bytes(b"")
    refused(folder, "1.csv is empty")


def test_rejects_files_without_permission(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    LISTS.write_csv(path)

    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)  # to root, everything is permitted
    with pytest.raises(InputError, match=r"source .*a.csv. cannot be read: you have no permission"):
        weft.evaluate(path, TRUTH, **METRICS)


# --------------------------------------------------------------------------------------------------


TREC_RUN = "q1 Q0 d1 1 0.5 tag\nq1 Q0 d2 2 0.75 tag\nq2 Q0 d1 1 2 tag\n"
TREC_QRELS = "q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\n"
TREC_RUNS = {
    "words after the tag": TREC_RUN.replace("tag\n", "tag of a run\n", 2),
    "comments": "# a run\n" + TREC_RUN.replace("q2", "# of two queries\nq2"),
    "another second column": TREC_RUN.replace("Q0", "0"),
    "tabs and padding": TREC_RUN.replace(" 1 ", "\t1\t  "),
}
TREC_TRUTHS = {
    "comments": "#comment\n" + TREC_QRELS + "# the end\n",
    "iterations": TREC_QRELS.replace(" 0 d2", " 4.5 d2").replace(" 0 d3", " 1 d3"),
    "windows": TREC_QRELS.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("kind", TREC_RUNS)
def test_reads_trec_runs_as_trec_eval(kind, tmp_path):
    path = tmp_path / "als.txt"
    path.write_text(TREC_RUNS[kind])
    table = read_table(path, "source")
    assert table.columns["user"].to_list() == ["q1", "q1", "q2"]
    assert table.columns["item"].to_list() == ["d1", "d2", "d1"]
    assert table.columns["score"].to_list() == [0.5, 0.75, 2]


def test_errors_count_comment_lines_of_trec_files(tmp_path):
    path = tmp_path / "als.run"
    path.write_text("# a run\n" + TREC_RUN + "q1 Q0 d1 3 0.1 tag\n")
    with pytest.raises(InputError, match="line 5: user 'q1', item 'd1'"):
        weft.evaluate(path, {"q1": ["d1"]}, metrics="MRR@1")
    path.write_text("# a run\n" + TREC_RUN * 99 + "q1 Q0 d1 3 x tag of a run\n")
    with pytest.raises(InputError, match=r"line 299: the score .* is 'x'; expected a number"):
        read_table(path, "source")


@pytest.mark.parametrize("kind", TREC_TRUTHS)
@pytest.mark.parametrize("file", ["a.qrels", "qrels-covid_d5_j0.5-5.txt", weft.File])
def test_reads_qrels_as_trec_eval(kind, file, tmp_path):
    path = tmp_path / (file if isinstance(file, str) else "judged.txt")
    path.write_text(TREC_TRUTHS[kind])
    data = path if isinstance(file, str) else weft.File(path, format="trec")
    table = read_table(data, "truth")
    assert table.columns["user"].to_list() == ["q1", "q1", "q2"]
    assert table.columns["item"].to_list() == ["d1", "d2", "d3"]
    assert table.columns["rating"].to_list() == [1, 0, 2]


def test_rejects_undeclared_qrels_with_iterations(tmp_path):
    path = tmp_path / "judged.txt"
    path.write_text("1 4.5 005b2j4b 2\n1 4 00fmeepz 1\n")
    with pytest.raises(InputError, match=r"is '005b2j4b'; expected a number. .*format='trec'"):
        read_table(path, "truth")
    path.write_text("1 4 17 2\n1 5 18 1\n")  # user, item, rating and something else
    assert read_table(path, "truth").columns["rating"].to_list() == [17, 18]


@pytest.mark.parametrize("suffix", ["qrels", "trec", "json", "parquet", "inter", "csv"])
def test_reads_declared_tables_with_any_suffix(suffix, tmp_path):
    path = tmp_path / f"a.{suffix}"
    path.write_text("who;what;grade\nann;0;5\nbob;0;4\n")
    columns = {"user": "who", "item": "what", "rating": "grade"}
    table = read_table(weft.File(path, separator=";", header=True, columns=columns), "truth")
    assert table.columns["rating"].to_list() == [5, 4]
    path.write_text("ann 0 5 1\nbob 0 4 1\n")  # qrels, if nothing is declared
    columns = {"user": 0, "item": 1, "rating": 2}
    table = read_table(weft.File(path, separator="spaces", header=False, columns=columns), "truth")
    assert table.columns["item"].to_list() == [0, 0]
    assert table.columns["rating"].to_list() == [5, 4]


# Arguments of each output of trec_eval's own tests (its Makefile).
TREC_TESTS = {
    "out.test": ("results.test", "qrels.test", {}),
    "out.test.a": ("results.test", "qrels.test.with-comments", {}),
    "out.test.aq": ("results.test", "qrels.test", {}),
    "out.test.aqc": ("results.trunc", "qrels.test", {"missing_lists": "zero"}),
    "out.test.aqcM": ("results.trunc", "qrels.test", {"missing_lists": "zero"}),
    "out.test.aql": ("results.test", "qrels.rel_level", {"relevance_threshold": 2}),
    "out.test.meas_params": ("results.test", "qrels.test", {}),
    "out.comment.test": ("results.comment.test", "qrels.comment.test", {}),
}
# Weft's name of a measure; `{k}` is the whole list where the measure has no cut-off.
TREC_NAMES = {
    r"map": "MAP@{k}",
    r"recip_rank": "MRR@{k}",
    r"ndcg": "nDCG(ideal=full)@{k}",
    r"ndcg_1=3,2=9,4=4.5": "nDCG(gain=[[1, 3], [2, 9], [4, 4.5]], ideal=full)@{k}",
    r"set_P": "Precision(denominator=list)@{k}",
    r"set_recall": "Recall@{k}",
    r"set_F": "F1@{k}",
    r"Rprec": "RPrecision@{k}",
    r"Rprec_mult_(?P<x>.*)": "RPrecision(multiple={x})@{k}",
    r"bpref": "bpref@{k}",
    r"infAP": "infAP@{k}",
    r"rbp": "RBP@{k}",
    r"rbp_resid": "RBPResidual@{k}",
    r"P_(?P<k>\d+)": "Precision@{k}",
    r"recall_(?P<k>\d+)": "Recall@{k}",
    r"ndcg_cut_(?P<k>\d+)": "nDCG@{k}",
    r"map_cut_(?P<k>\d+)": "MAP@{k}",
    r"success_(?P<k>\d+)": "HitRate@{k}",
    r"relative_P_(?P<k>\d+)": "Recall(normalizer=capped)@{k}",
    r"iprec_at_recall_(?P<x>.*)": "IPrec(recall={x})@{k}",
    r"11pt_avg": "IPrec@{k}",
    r"11pt_avg_(?P<x>.*)": "IPrec(recall=[{x}])@{k}",
}
# Judgements above 1 are divided by the highest of the topic, negative ones are none, and a missing
# list has no residual: in Weft it is 1.
TREC_DIFFERS = {"out.test.aql": ("rbp", "rbp_resid", "infAP"), "out.test.aqc": ("rbp_resid",)}
TREC_DIFFERS["out.test.aqcM"] = TREC_DIFFERS["out.test.aqc"]


def trec_eval_values(output):
    """The values that Weft has, {(query, metric): value}; those of whole lists at a depth."""
    values, depth = {}, 100 if output.endswith("M") else 2000
    for line in (GOLDEN / "trec_eval" / output).read_text().splitlines():
        name, query, value = line.split()
        if name in TREC_DIFFERS.get(output, ()):
            continue
        for pattern, ours in TREC_NAMES.items():
            if match := re.fullmatch(pattern, name):
                k = int(match.groupdict().get("k", depth))
                if k <= depth:
                    ours = ours.format(**{**match.groupdict(), "k": k})
                    values[query, ours] = float(value)
    return values


@needs_golden
@pytest.mark.parametrize("output", TREC_TESTS)
def test_examples_of_trec_eval_match(output):
    """What trec_eval prints in its own tests, to its four digits."""
    run, qrels, how = TREC_TESTS[output]
    wanted = trec_eval_values(output)
    assert len(wanted) >= 10
    # The level of relevance (-l) does not concern nDCG, which reads grades.
    for of_grades in (False, True):
        metrics = sorted({name for _, name in wanted if name.startswith("nDCG") == of_grades})
        if not metrics:
            continue
        result = weft.evaluate(
            GOLDEN / "trec_eval" / run,
            GOLDEN / "trec_eval" / qrels,
            profile="trec_eval",
            metrics=metrics,
            per_user=True,
            **{key: value for key, value in how.items() if key == "missing_lists" or not of_grades},
        )
        values = {("all", name): result[name] for name in metrics}
        for row in result.per_user.iter_rows(named=True):
            values |= {(str(row["user"]), name): row[result.entry(name).name] for name in metrics}
        found = {key: values[key] for key in wanted if key[1] in metrics}
        assert found == pytest.approx({key: wanted[key] for key in found}, abs=5.1e-5)


@needs_golden
def test_tied_scores_rank_as_in_trec_eval(tmp_path):
    """The popularity of MovieLens 100K has many ties: values of pytrec_eval on the raw scores, from
    a TREC run and from the CSV.
    """
    case = json.loads(gzip.decompress((GOLDEN / "golden.json.gz").read_bytes()))[
        "ml100k_tlo/pop/bin|raw scores with ties"
    ]
    data = GOLDEN / "ml100k_tlo"
    lists = pl.read_csv(data / "rec_pop.csv.gz")
    run, qrels = tmp_path / "pop.run", tmp_path / "test.qrels"
    run.write_text(
        "".join(
            f"{user} Q0 {item} {rank} {score} pop\n" for user, item, score, rank in lists.rows()
        )
    )
    qrels.write_text(
        "".join(f"{row[0]} 0 {row[1]} 1\n" for row in pl.read_csv(data / "test.csv.gz").rows())
    )
    names = {
        "ndcg_cut_{k}": "nDCG@{k}",
        "map_cut_{k}": "MAP@{k}",
        "P_{k}": "Precision@{k}",
        "recall_{k}": "Recall@{k}",
    }
    cutoffs = (1, 5, 10, 20, 50, 100)
    wanted = {
        ours.format(k=k): case["pytrec_eval"][theirs.format(k=k)]
        for theirs, ours in names.items()
        for k in cutoffs
    }
    how = {
        "profile": "trec_eval",
        "metrics": [name.removesuffix("@{k}") for name in names.values()],
        "top_k": cutoffs,
    }
    result = weft.evaluate(run, qrels, **how)
    assert {name: result[name] for name in wanted} == pytest.approx(wanted, rel=0, abs=1e-12)
    scored = weft.evaluate(
        lists.drop("rank"), pl.read_csv(data / "test.csv.gz").select("user", "item"), **how
    )
    assert {name: scored[name] for name in wanted} == {name: result[name] for name in wanted}


@needs_golden
def test_golden_files_match_other_tools():
    """The lists and the split of MovieLens 100K, packed, by path: what RecTools and ranx print."""
    golden, data = (
        json.loads(gzip.decompress((GOLDEN / "golden.json.gz").read_bytes())),
        GOLDEN / "ml100k_tlo",
    )
    how = {"train": data / "train.csv.gz", "items": data / "items.txt", "top_k": [10, 20]}
    for model in ("itemknn", "pop"):
        source, truth = data / f"rec_{model}.csv.gz", data / "test.csv.gz"
        stored = golden[f"ml100k_tlo/{model}/rating"]
        result = weft.evaluate(source, truth, profile="ranx", metrics=["nDCG", "MAP", "MRR"], **how)
        wanted = {
            f"{ours}@{k}": stored["ranx"][f"{theirs}@{k}"]
            for ours, theirs in (("nDCG", "ndcg"), ("MAP", "map"), ("MRR", "mrr"))
            for k in (10, 20)
        }
        assert {name: result[name] for name in wanted} == pytest.approx(wanted, rel=0, abs=1e-9)
        stored = golden[f"ml100k_tlo/{model}/thr4"]["rectools"]
        result = weft.evaluate(
            source,
            truth,
            profile="rectools",
            relevance_threshold=4,
            metrics=["nDCG", "MAP", "Recall"],
            **how,
        )
        wanted = {
            f"{ours}@{k}": stored[f"{theirs}@{k}"]
            for ours, theirs in (("nDCG", "NDCG"), ("MAP", "MAP"), ("Recall", "Recall"))
            for k in (10, 20)
        }
        assert {name: result[name] for name in wanted} == pytest.approx(wanted, rel=0, abs=1e-9)


def test_negative_judgements_of_qrels(tmp_path):
    qrels = tmp_path / "a.qrels"
    qrels.write_text("q1 0 d1 2\nq1 0 d2 -1\nq2 0 d1 0\n")
    result = weft.evaluate(
        {"q1": ["d2", "d1"], "q2": ["d1"]}, qrels, profile="trec_eval", metrics="MRR@2"
    )
    assert result["MRR@2"] == 0.25 and any(
        "1 negative judgement counts as 0" in note for note in result.notes
    )


def test_uses_ranks_of_a_run_on_request(tmp_path):
    run = tmp_path / "a.run"
    run.write_text("q Q0 d1 1 0.5 x\nq Q0 d2 2 0.9 x\n")
    assert weft.evaluate(run, {"q": ["d2"]}, metrics="MRR@2")["MRR@2"] == 1
    asked = weft.File(run, columns={"rank": "rank"})
    assert weft.evaluate(asked, {"q": ["d2"]}, metrics="MRR@2")["MRR@2"] == 0.5


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("run_rows", [1, 7, 8, 100])
def test_reads_strings_in_runs(tmp_path, suffix, run_rows):
    """Users that come in runs are read in another way than those in any order."""
    users = [f"u{number % 97}" for number in range(120) for _ in range(run_rows)]
    items = [f"i{number % 31}" for number in range(len(users))]
    frame = pl.DataFrame({"user": users, "item": items, "rating": 1.0})
    path = tmp_path / f"truth.{suffix}"
    {"csv": frame.write_csv, "parquet": frame.write_parquet, "jsonl": frame.write_ndjson}[suffix](
        path
    )
    columns = read_table(path, "truth").columns
    assert columns["user"].to_list() == users and columns["item"].to_list() == items
    for name, values in (("user", users), ("item", items)):
        assert columns[name].dtype.categories.to_list() == sorted(set(values))
    users[9] = None
    frame.with_columns(user=pl.Series(users)).write_parquet(tmp_path / "missing.parquet")
    with pytest.raises(InputError, match=r"missing\.parquet, row 9: there is no user id"):
        read_table(tmp_path / "missing.parquet", "truth")


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("short", ["9,2", "9,2,3", "", None])
@pytest.mark.parametrize("above", ["", "\n"])
def test_empty_last_fields_are_told_from_short_rows(above, short, end, tmp_path):
    """Counts of separators and lines prove that no row is short, or every line is checked."""
    rows = [f"{user},2,1.0," for user in range(8)]
    if short is not None:
        rows.insert(4, short)
    path = tmp_path / "truth.csv"
    path.write_text(above + "\n".join(["user,item,rating,note", *rows]) + end)
    if short:
        line = 6 + len(above)
        with pytest.raises(InputError, match=rf"line {line}: \d fields? .*the header has 4"):
            read_table(path, "truth")
    else:
        assert read_table(path, "truth").columns["user"].to_list() == list(range(8))


@pytest.mark.parametrize("order", ["grouped", "mixed"])
def test_strings_become_codes_of_their_sorted_values(order, tmp_path):
    """Whatever order they come in, and in however many chunks."""
    users = [f"u{number % 97}" for number in range(5000)]
    users = sorted(users, reverse=True) if order == "grouped" else users
    items = [f"i{number * 7 % 1009}" for number in range(5000)]
    scores = [float(number % 13) for number in range(5000)]
    frame = pl.DataFrame({"user": users, "item": items, "score": scores})
    frame.write_parquet(tmp_path / "lists.parquet", row_group_size=300)
    columns = read_table(tmp_path / "lists.parquet", "lists").columns
    for name in ("user", "item"):
        assert columns[name].to_list() == frame[name].to_list()
        assert columns[name].dtype == pl.Enum(frame[name].unique().sort())
    assert columns["score"].to_list() == scores
    assert all(column.n_chunks() == 1 for column in columns.values())


def test_suggests_no_column_of_another_role():
    table = pl.DataFrame({"user_id": ["a"], "rating": [1], "timestamp": [2]})  # rating ~ asin
    with pytest.raises(InputError, match=r"'asin'\)\. Rename the column"):
        weft.evaluate({"a": ["x"]}, table, metrics="MRR@1")
