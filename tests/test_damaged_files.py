"""Damaged, odd and unreadable files give one message with the file and the position."""

import gzip
import os
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import weft
from weft.cli import app
from weft.data.readers import scans
from weft.data.readers.files import read_table
from weft.errors import InputError, SettingError
from weft.evaluation.table_digests import write_table

LISTS = "user,item,score\nann,tea,2\nann,rye,1\nbob,tea,1\n"
TRUTH = "user,item\nann,rye\nbob,tea\n"
OPTIONS = ["--metrics", "nDCG,ItemCoverage", "--top-k", "2"]
MANY = b"".join(b"u%d,i%d,%d\n" % (row, row % 50, row) for row in range(20_000))


def run(*arguments, **options):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **options)


def write(folder, name, data):
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def rows(path):
    table = read_table(path, "lists")
    return list(zip(*(table.columns[role].to_list() for role in ("user", "item", "score"))))


HEADER = b"user,item,score\n"
LONG = b"x" * 200_000
DAMAGED = {
    "a lone quote at the end": (
        "a.csv",
        HEADER + b'ann,tea,1\nann,rye,"',
        ["line 3", "a quote is not closed"],
    ),
    "a quote that is not closed in the last field": (
        "a.csv",
        HEADER + b'ann,tea,1\nann,rye,"2',
        ["line 3", "a quote is not closed"],
    ),
    "a quote that is open up to the end of a large file": (
        "a.csv",
        HEADER + MANY + b'ann,"tea,2\n' + MANY,
        ["line 20002", "a quote is not closed"],
    ),
    "a quote that is open among quoted fields": (
        "a.csv",
        HEADER + b'"ann","tea","1"\n"bob,"tea","1"\n"bob","rye","1"\n',
        ["line 3", "quote"],
    ),
    "quotes in the middle of fields": (
        "a.csv",
        HEADER + b'5" disk,"tea",1\n"ann"x,"tea","1"\n',
        ["line 2", "in the middle of a field"],
    ),
    "a mistake after a field of 200 KB": (
        "a.csv",
        HEADER + b"ann,tea,1\nann," + LONG + b",2\nann,rye,good\n",
        ["line 4", "'good'"],
    ),
    "one line of 5 MB": ("a.csv", b"user,item,score," * 350_000, ["line 1", "no line break"]),
    "a number with an underscore": ("a.csv", HEADER + b"ann,tea,1_0\n", ["line 2", "'1_0'"]),
    "an empty id in quotes": ("a.csv", HEADER + b'ann,tea,1\nann,"",2\n', ["line 3", "no item id"]),
    "a unit separator": ("a.txt", b"ann::tea::9\nann::r\x1fe::2\n", ["line 2", r"'\x1f'"]),
    "deep JSON Lines": (
        "a.jsonl",
        b'{"user": 1, "item": 2, "score": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        ["line 1", "nested too deeply, at character 131"],
    ),
    "deep JSON Lines below many others": (
        "a.jsonl",
        b'{"user": 1, "item": 2, "score": 1}\n' * 300
        + b'{"user": 1, "item": 2, "score": '
        + b"[" * 100_000
        + b"]" * 100_000
        + b"}\n",
        ["line 301", "nested too deeply"],
    ),
    "deep ranx JSON": (
        "a.json",
        b'{"ann":\n {"tea": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        ["line 2", "nested too deeply", "column 108"],
    ),
    "an integer of 5,000 digits in JSON Lines": (
        "a.jsonl",
        b'{"user": 1, "item": 2, "score": ' + b"1" * 5000 + b"}\n",
        ["line 1", "4,300 digits", "character 32"],
    ),
    "an integer of 5,000 digits in ranx JSON": (
        "a.json",
        b'{"ann":\n {"tea": ' + b"1" * 5000 + b"}}",
        ["line 2", "4,300 digits", "column 10"],
    ),
    "half of a pair of surrogates in JSON Lines": (
        "a.jsonl",
        b'{"user": "ann", "item": "tea", "score": 1}\n{"user": "ann", "item": "\\ud83d"}\n',
        ["line 2", r"'\ud83d'", "an unpaired surrogate"],
    ),
    "half of a pair of surrogates in ranx JSON": (
        "a.json",
        b'{"ann": {"tea": 1,\n"\\udc00": 2}}',
        ["line 2", "an unpaired surrogate", "column 2"],
    ),
    "JSON Lines with a byte order mark inside": (
        "a.jsonl",
        b'{"user": 1, "item": 2, "score": 1}\n\xef\xbb\xbf{"user": 1, "item": 3, "score": 1}\n',
        ["line 2", "not JSON"],
    ),
}


@pytest.mark.parametrize(("name", "data", "says"), DAMAGED.values(), ids=DAMAGED)
def test_commands_name_the_position_of_damage(name, data, says, tmp_path):
    path, truth = write(tmp_path, name, data), write(tmp_path, "truth.csv", TRUTH)
    outcome = run("evaluate", "--recs", path, "--truth", truth, *OPTIONS)
    assert outcome.exit_code == 2, outcome.output
    assert outcome.output.startswith("error: ") and len(outcome.output) < 600
    for word in [name, *says]:
        assert word in outcome.output


ODD = {
    "old Mac": ("a.csv", LISTS.replace("\n", "\r")),
    "old Mac, tabs": ("a.tsv", LISTS.replace("\n", "\r").replace(",", "\t")),
    "old Mac, large": ("a.csv", (HEADER + MANY).replace(b"\n", b"\r")),
    "old Mac, TREC": ("a.trec", "ann Q0 tea 1 2.0 t\rann Q0 rye 2 1.0 t\rbob Q0 tea 1 1.0 t\r"),
    "a mark before JSON Lines": (
        "a.jsonl",
        b"\xef\xbb\xbf" + pl.read_csv(LISTS.encode()).write_ndjson().encode(),
    ),
    "a mark before ranx JSON": (
        "a.json",
        b'\xef\xbb\xbf{"ann": {"tea": 2, "rye": 1}, "bob": {"tea": 1}}',
    ),
    "pairs of surrogates": (
        "a.jsonl",
        b'{"user": "ann", "item": "\\ud83c\\udf75", "score": 1}\n'
        b'{"user": "ann", "item": "\\\\ud83c", "score": 1}\n',
    ),
}
ODD_ROWS = {
    "old Mac, large": [(f"u{row}", f"i{row % 50}", float(row)) for row in range(20_000)],
    "pairs of surrogates": [("ann", "\N{TEACUP WITHOUT HANDLE}", 1.0), ("ann", r"\ud83c", 1.0)],
}
ROWS = [("ann", "tea", 2.0), ("ann", "rye", 1.0), ("bob", "tea", 1.0)]


@pytest.mark.parametrize("case", ODD)
def test_reads_odd_files(case, tmp_path):
    assert rows(write(tmp_path, *ODD[case])) == ODD_ROWS.get(case, ROWS)


def test_reads_long_fields_and_long_first_rows(tmp_path):
    long = LONG.decode()
    path = write(tmp_path, "a.csv", f'user,item,score\n{long},tea,1\nbob,"{long},",2\n')
    assert rows(path) == [(long, "tea", 1.0), ("bob", f"{long},", 2.0)]
    names = ",".join(f"column{number}" for number in range(10_000))  # a header of 100 KB
    path = write(tmp_path, "b.csv", f"user,item,score,{names}\nann,tea,1{',x' * 10_000}\n")
    assert rows(path) == [("ann", "tea", 1.0)]


def test_reads_empty_fields_in_quotes_like_others(tmp_path):
    path = write(tmp_path, "a.csv", 'user,item,score\n"ann","tea","2"\n"","",""\n"bob","rye",""\n')
    first, second = rows(path)
    assert first == ("ann", "tea", 2.0)
    assert second[:2] == ("bob", "rye") and np.isnan(second[2])


def test_json_of_ranx_where_it_does_not_fit(tmp_path):
    path = write(tmp_path, "a.json", '{"ann": {"tea": 2, "rye": 1}}')
    table = read_table(path, "candidates")
    assert table.columns["item"].to_list() == ["tea", "rye"] and list(table.columns) == [
        "user",
        "item",
    ]
    for use in ("items", "users", "user_groups", "item_features"):
        with pytest.raises(InputError, match=r"a.json.* is JSON \{query: .* expected a table with"):
            read_table(path, use)
    with pytest.raises(InputError, match="expected a table with rank"):
        read_table(weft.File(path, columns={"rank": "value"}), "lists")


def test_panics_of_polars_are_errors(tmp_path, monkeypatch):
    class Panicking:
        def collect(self, *arguments, **options):
            raise pl.exceptions.PanicException("index out of bounds")

    with pytest.raises(
        pl.exceptions.ComputeError, match="polars could not read the file: index out of bounds"
    ):
        scans.collect(Panicking())
    # A lone quote at the end of a file makes polars panic.
    path = write(tmp_path, "a.csv", 'user,item,score\na"b,tea,1\nann,rye,"')
    truth = write(tmp_path, "truth.csv", TRUTH)
    outcome = run("evaluate", "--recs", path, "--truth", truth, *OPTIONS)
    assert (outcome.exit_code, "a.csv, line 2" in outcome.output) == (2, True), outcome.output
    monkeypatch.setattr(weft.config.run, "read_table", Panicking().collect)
    outcome = run("evaluate", "--recs", path, "--truth", truth, *OPTIONS)
    assert outcome.exit_code == 3 and "index out of bounds" in outcome.output


@pytest.mark.parametrize("place", [0, 2, -1])
def test_damaged_pages_of_parquet_name_the_part(place, tmp_path):
    folder = tmp_path / "lists"
    folder.mkdir()
    frame = pl.DataFrame(
        {
            "user": [f"user {row}" for row in range(5000)],
            "item": [f"item {row * 7919 % 5003}" for row in range(5000)],
            "score": np.random.default_rng(1).random(5000),
        }
    )
    for part in ("a", "b", "c"):
        frame.with_columns(user=pl.col("user") + part).write_parquet(folder / f"{part}.parquet")
    data = bytearray((folder / "b.parquet").read_bytes())
    # The pages of the columns are stored one after the other, packed by Zstandard.
    pages = [found.start() for found in re.finditer(rb"\x28\xb5\x2f\xfd", data)]
    data[pages[place]] ^= 0xFF
    (folder / "b.parquet").write_bytes(data)
    with pytest.raises(InputError, match=r"b\.parquet is not a complete Parquet file"):
        read_table(folder, "lists")


NOT_UTF8 = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".csv.gz", ".trec"])
def test_names_of_files_need_not_be_utf8(suffix, tmp_path):
    frame = pl.read_csv(LISTS.encode())
    plain = tmp_path / f"plain{suffix}"
    if suffix == ".csv.gz":
        plain.write_bytes(gzip.compress(LISTS.encode()))
    elif suffix == ".trec":
        plain.write_text("".join(f"{u} Q0 {i} 1 {s} run\n" for u, i, s in frame.rows()))
    else:
        writers = {".csv": "write_csv", ".jsonl": "write_ndjson", ".parquet": "write_parquet"}
        getattr(frame, writers[suffix])(plain)
    path = tmp_path / f"{NOT_UTF8}{suffix}"
    plain.rename(path)
    truth = write(tmp_path, "truth.csv", TRUTH)
    out = tmp_path / f"out-{NOT_UTF8}"
    common = ["--truth", truth, *OPTIONS, "--per-user", "--report", tmp_path / f"{NOT_UTF8}.html"]
    outcome = run("evaluate", "--recs", path, *common, "--out", out)
    assert outcome.exit_code == 0, outcome.output
    saved = weft.load_result(next(out.glob("caf_*.json")))
    assert (saved.name.removesuffix(".trec"), saved.per_user.height) == ("caf?", 2)
    assert saved.provenance["files"]["source"] == rf"{tmp_path}/caf\udce9{suffix}"
    with pytest.raises(SettingError, match="must be a string"):
        weft.evaluate(path, truth, metrics="nDCG", top_k=2, name=NOT_UTF8)


def run_process(code, *arguments):
    process = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True
    )
    return process.returncode, process.stderr


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
from weft.cli import app
app()
"""


@pytest.mark.slow
def test_a_full_disk_is_reported_with_the_file(tmp_path):
    users = range(20_000)
    lists = write(tmp_path, "lists.csv", HEADER + b"".join(b"%d,1,1\n" % user for user in users))
    truth = write(tmp_path, "truth.csv", b"user,item\n" + b"".join(b"%d,1\n" % u for u in users))
    out = tmp_path / "out"
    arguments = ["--recs", f"a={lists}", "--truth", truth, *OPTIONS, "--out", out, "--per-user"]
    code, message = run_process(LIMITED, "evaluate", *arguments)
    assert code == 2, message
    assert "a.per_user.parquet: cannot be written (File too large)" in message
    assert not out.exists()
    code, message = run_process(
        "import sys; from weft.cli import app; sys.stdout = open('/dev/full', 'w'); app()",
        *("evaluate", "--recs", f"a={lists}", "--truth", truth, *OPTIONS),
    )
    assert (code, message.endswith("error: No space left on device\n")) == (2, True), message


def test_a_full_disk_while_a_comparison_is_written():
    results = [
        weft.evaluate(lists, {1: [1], 2: [2]}, metrics="nDCG", top_k=1, per_user=True, name=name)
        for name, lists in {"a": {1: [1], 2: [1]}, "b": {1: [2], 2: [2]}}.items()
    ]
    compared = weft.compare(results).to_frame()
    with open("/dev/full", "wb", 0) as full, pytest.raises(OSError, match="No space left"):
        write_table(compared, full)


def test_metric_names_have_limits():
    for name, says in {
        "F1(a=" * 900 + ")" * 900: "levels of nested names or lists at character 106",
        "F1(a=" + "[" * 900 + "]" * 900 + ")": "at most 20 levels of nested names or lists",
        "nDCG@" + "1" * 5000: "a number of at most 400 characters at character 6",
        "F1(beta=" + "1" * 5000 + ")@10": "a number of at most 400 characters at character 9",
        "nDCG(gain='\ud800')": "at most 10,000 characters of valid UTF-8",
        "n" * 20_000: "at most 10,000 characters",
    }.items():
        with pytest.raises(SettingError) as caught:
            weft.evaluate({1: [1]}, {1: [1]}, metrics=name, top_k=1)
        assert says in str(caught.value) and len(str(caught.value)) < 500
    deep = "F1(a=" * 19 + "nDCG" + ")" * 19
    assert str(weft.metrics.names.parse_name(deep)) == deep
    quoted = weft.metrics.names.parse_name(r"F1(a='\u{110000}\u{d800}\u{1f375}')").params
    assert quoted == (("a", "u{110000}u{d800}\N{TEACUP WITHOUT HANDLE}"),)


@pytest.mark.parametrize("replaced", [False, True])
def test_modules_that_exit_are_errors(tmp_path, monkeypatch, replaced):
    if replaced:  # as libraries do that end their own processes first
        leave = sys.exit
        monkeypatch.setattr(sys, "exit", lambda code=None: leave(code))
    write(tmp_path, "lists.csv", LISTS)
    write(tmp_path, "truth.csv", TRUTH)
    write(tmp_path, "own.py", "import sys\n\nsys.exit(0)\n")
    for module in ("own.py", "own"):
        text = (
            f"evaluation: {{custom_modules: [{module}], metrics: [nDCG], top_k: [2]}}\n"
            "data: {truth: truth.csv}\nmodels: {a: lists.csv}\n"
        )
        outcome = run("evaluate", write(tmp_path, "run.yaml", text))
        assert outcome.exit_code == 2
        assert "own.py cannot be imported: it calls sys.exit (line 3 of " in outcome.output


# Pipes.


def pipe(text):
    """The path of a pipe with some content, and the number that has to be closed."""
    reader, writer = os.pipe()
    os.write(writer, text.encode() if isinstance(text, str) else text)
    os.close(writer)
    return Path(f"/dev/fd/{reader}"), reader


def parquet(text):
    sink = BytesIO()
    pl.read_csv(text.encode()).write_parquet(sink)
    return sink.getvalue()


CONTENTS = {
    "csv": LISTS.encode(),
    "tsv": LISTS.replace(",", "\t").encode(),
    "jsonl": pl.read_csv(LISTS.encode()).write_ndjson().encode(),
    "ranx": b'{"ann": {"tea": 2, "rye": 1}, "bob": {"tea": 1}}',
    "trec": b"ann Q0 tea 1 2.0 t\nann Q0 rye 2 1.0 t\nbob Q0 tea 1 1.0 t\n",
    "gzip": gzip.compress(LISTS.encode()),
    "parquet": parquet(LISTS),
}


@pytest.mark.parametrize("content", CONTENTS)
def test_reads_pipes_once(content, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path, number = pipe(CONTENTS[content])
    try:
        table = read_table(path, "lists")
    finally:
        os.close(number)
    assert [table.columns[role].to_list() for role in ("user", "item", "score")] == list(
        map(list, zip(*ROWS))
    )
    where = "row 2" if content in ("parquet", "ranx") else "line 4"
    lines = {"trec": "line 3", "jsonl": "line 3"}
    assert table.locate_rows([2]) == [lines.get(content, where)]
    del table
    assert list(tmp_path.iterdir()) == []


def test_commands_read_pipes(tmp_path):
    truth = write(tmp_path, "truth.csv", TRUTH)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for command in ("evaluate", "check"):
        writer = subprocess.Popen(["/bin/sh", "-c", 'printf "$1" > "$0"', fifo, LISTS])
        outcome = run(command, "--recs", f"a={fifo}", "--truth", truth, *OPTIONS)
        assert (writer.wait(), outcome.exit_code) == (0, 0), outcome.output
    path, number = pipe(LISTS)
    try:
        result = weft.evaluate(path, truth, metrics="nDCG", top_k=2)
    finally:
        os.close(number)
    assert (
        result["nDCG@2"]
        == weft.evaluate(write(tmp_path, "lists.csv", LISTS), truth, metrics="nDCG", top_k=2)[
            "nDCG@2"
        ]
    )


def test_a_pipe_for_two_inputs_is_refused(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    truth = write(tmp_path, "truth.csv", TRUTH)
    for inputs, names in {
        ("--recs", f"a={fifo}", "--truth", fifo): "truth and a",
        ("--recs", f"a={fifo}", "--recs", f"b={fifo}", "--truth", truth): "a and b",
    }.items():
        for command in ("evaluate", "check"):
            outcome = run(command, *inputs, *OPTIONS)
            assert outcome.exit_code == 2
            for name in names.split(" and "):
                assert name in outcome.output
            assert f"are the same pipe ({fifo}), which can be read only once" in outcome.output
    outcome = run("evaluate", "--recs", f"truth={fifo}", "--truth", fifo, *OPTIONS)
    assert (outcome.exit_code, "truth and --recs truth are the" in outcome.output) == (2, True)
    with pytest.raises(InputError, match="truth and train are the same pipe"):
        weft.evaluate({1: [1]}, fifo, train=weft.File(fifo), metrics="nDCG", top_k=1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000 + "]" * 100_000, "nested too deeply, at line 1, column 101"),
        ('{"version":\n' + "1" * 5000 + "}", "4,300 digits, at line 2, column 1"),
        ('{"format": ', "Expecting value, at line 1, column 12"),
        ('{"format": 1, "format": 2}', "not a Weft result"),
    ],
)
def test_wrong_json_of_results(text, says, tmp_path):
    path = write(tmp_path, "a.json", text)
    with pytest.raises(InputError) as caught:
        weft.load_result(path)
    assert str(path) in str(caught.value) and says in str(caught.value)
    assert run("compare", path, path).exit_code == 2
