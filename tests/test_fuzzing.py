"""Mutated files and names give a result or a `WeftError`, never another exception.

The fast tier draws some hundred cases from fixed seeds, the slow tier more from others."""

import bz2
import csv
import gzip
import io
import lzma
import math
import random

import polars as pl
import pytest

import weft
from weft.config import load
from weft.config.gates import parse_gate
from weft.data.readers.files import read_table
from weft.errors import WeftError
from weft.metrics.names import parse_name, split_labels

TOKENS = [
    *(b'"', b",", b"\n", b"\r", b"\r\n", b"\t", b" ", b"{", b"}", b"[", b"]", b":", b"\\", b"#"),
    *(
        b"\\u",
        b"\\ud800",
        b"\xff",
        b"\0",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b"\x1f",
        b"\x0b",
        b'""',
    ),
    *(b"NaN", b"Infinity", b"-inf", b"1e999", b"null", b"true", b"-", b".", b"0", b"Q0", b"1_0"),
    *(b"9007199254740993", b"9" * 30, b"1" * 5000, b"[" * 2000, b'{"a":' * 2000, b"(" * 2000),
    *(
        b"user",
        b"item",
        b"score",
        b"rank",
        b"&a",
        b"*a",
        b"<<: *a",
        b"!!python/name:x",
        b"- ",
        b"@",
    ),
]


def mutate(draw, data):
    """Some bytes changed, removed, repeated or replaced by tokens that formats know."""
    data = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 2, 3, 6])):
        start = draw.randrange(len(data) + 1)
        end = min(len(data), start + draw.choice([1, 1, 2, 5, 20]))
        kind = draw.randrange(6)
        if kind == 0 and start < len(data):
            data[start] = draw.randrange(256)
        elif kind == 1:
            del data[start:end]
        elif kind == 2:
            data[start:start] = draw.choice(TOKENS)
        elif kind == 3:
            data[start:start] = data[start:end] * draw.choice([1, 2, 50])
        elif kind == 4:
            del data[start:]
        else:
            data[start:end] = draw.choice(TOKENS)
    return bytes(data)


def attempt(case, function, *arguments, **options):
    """Return True if the call has an outcome, False if it raises a `WeftError` with a message."""
    try:
        function(*arguments, **options)
    except WeftError as error:
        message = error.message
    except BaseException as error:
        raise AssertionError(f"{type(error).__name__} for {case!r}") from error
    else:
        return True
    assert message, f"an error without a message for {case!r}"
    return False


def tiers(seed, fast, slow):
    """Seeds and numbers of cases of the two tiers."""
    return pytest.mark.parametrize(
        ("seed", "num_cases"),
        [(seed, fast), pytest.param(seed + 1, slow, marks=pytest.mark.slow)],
        ids=["fast", "slow"],
    )


WORDS = pl.DataFrame(
    {
        "user": ["a", "a", "b", "b", "c", "d7"],
        "item": ["x", "y", "x", "z", "é", "w"],
        "score": [1.5, 0.25, -3, 4e2, 1e-3, 7.0],
    }
)
NUMBERS = pl.DataFrame({"user": [1, 1, 2, 7], "item": [10, 11, 10, 10**6], "score": [4, 3, 2, 0]})
TEXT = WORDS.write_csv().encode()


def join(separator, template="{}{s}{}{s}{}\n"):
    return "".join(template.format(*row, s=separator) for row in WORDS.rows()).encode()


FILES = {
    "a.csv": [TEXT, NUMBERS.write_csv().encode(), WORDS.write_csv(quote_style="always").encode()],
    "plain.csv": [join(",")],
    "a.tsv": [WORDS.write_csv(separator="\t").encode()],
    "a.dat": [join("::"), join("  ")],
    "a.jsonl": [WORDS.write_ndjson().encode(), NUMBERS.write_ndjson().encode()],
    "a.trec": [join(" ", "{}{s}Q0{s}{} 1 {} run\n")],
    "a.qrels": [join(" ", "{}{s}0{s}{} 1\n")],
    "a.json": [b'{"a": {"x": 1.5, "y": 2},\n "b": {"x": -3}, "c": {}}', b'{"1": {"10": 1}}'],
    "a.csv.gz": [gzip.compress(TEXT)],
    "a.csv.bz2": [bz2.compress(TEXT)],
    "a.csv.xz": [lzma.compress(TEXT)],
}
USES = ("lists", "truth", "train", "items", "user_groups", "item_features", "candidates")


@tiers(1, 250, 4000)
def test_data_files(seed, num_cases, tmp_path):
    draw = random.Random(seed)
    num_read = 0
    for _ in range(num_cases):
        name = draw.choice(list(FILES))
        data = mutate(draw, draw.choice(FILES[name]))
        path = tmp_path / name
        path.write_bytes(data)
        use = "truth" if name == "a.qrels" else draw.choice(USES)
        file = weft.File(path, ids=draw.choice(["auto", "auto", "string", "integer"]))
        case = (name, use, file.ids, data)
        num_read += attempt(case, read_table, file, "data", use=use)
    assert num_cases / 20 < num_read < num_cases * 0.9


def parquet(frame):
    sink = io.BytesIO()
    frame.write_parquet(sink)
    return sink.getvalue()


@tiers(3, 60, 400)
def test_parquet_files(seed, num_cases, tmp_path):
    # Headers of pages are left alone: polars allocates as many rows as they say, and aborts.
    draw = random.Random(seed)
    path = tmp_path / "a.parquet"
    num_refused = 0
    for _ in range(num_cases):
        data = bytearray(parquet(draw.choice([WORDS, NUMBERS])))
        pages = [place for place in range(len(data)) if data[place : place + 3] == b"\x28\xb5\x2f"]
        start = draw.choice(pages) + draw.randrange(8)
        if draw.random() < 0.5:
            data[start] ^= 1 << draw.randrange(8)
        else:
            del data[draw.randrange(len(data)) :]
        path.write_bytes(data)
        num_refused += not attempt(bytes(data), read_table, path, "lists")
    assert num_refused > num_cases / 3


def draw_field(draw):
    if draw.random() < 0.7:
        return draw.choice(["a", "b", "é", "0", "07", "x y", " z", '5" d', 'a"b"c'])
    return '"' + "".join(draw.choice(["a", ",", '""', "\n", " "]) for _ in range(3)) + '"'


def draw_csv(draw):
    numbers = ["1", "0.5", "-2", "1e3", ".5", "+4", " 1", '"3"', '""', "", "inf", "x", "1_0", "007"]
    end = draw.choice(["\n", "\n", "\r\n"])
    rows = [["user", "item", "score"]]
    for _ in range(draw.randint(1, 5)):
        row = [draw_field(draw), draw_field(draw), draw.choice(numbers), "more"]
        rows.append(row[: draw.choice([3] * 12 + [2, 4])])
    text = "".join(",".join(row) + end for row in rows)
    return text[: -draw.randint(1, 4)] if draw.random() < 0.2 else text


def read_plainly(text):
    """The rows of a simple CSV file; None if the csv module or `float` refuses it."""
    try:
        _, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        rows = [row for row in rows if any(row)]
        if not all(len(row) == 3 and row[0] and row[1] and "_" not in row[2] for row in rows):
            return None
        return [(user, item, float(score or "nan")) for user, item, score in rows]
    except (csv.Error, ValueError):
        return None


def collect_rows(path, rows):
    columns = read_table(weft.File(path, ids="string"), "lists").columns
    rows += zip(*(columns[role].to_list() for role in ("user", "item", "score")))


@tiers(5, 250, 4000)
def test_csv_files_have_the_rows_of_a_plain_reader(seed, num_cases, tmp_path):
    draw = random.Random(seed)
    path = tmp_path / "a.csv"
    num_compared = 0
    for _ in range(num_cases):
        text = draw_csv(draw)
        path.write_bytes(text.encode())
        expected, found = read_plainly(text), []
        if attempt(text, collect_rows, path, found) and expected is not None:
            assert repr(found) == repr(expected), text
            num_compared += 1
    assert num_compared > num_cases / 10


YAML = b"""\
evaluation:
  metrics: [nDCG, "F1(beta=0.5)", Recall]
  top_k: &k [1, 2]
  ties: index
  slices: {age: {path: users.csv, columns: {label: item}}}
data:
  truth: {path: truth.csv, columns: {user: 0, item: 1}, header: false}
  train: train.csv
models:
  a: lists.csv
  b: {path: lists.csv, ids: string}
"""


@tiers(7, 25, 600)
def test_yaml_files(seed, num_cases, tmp_path):
    draw = random.Random(seed)
    for name in ("truth.csv", "train.csv", "lists.csv", "users.csv"):
        (tmp_path / name).write_bytes(TEXT)
    path = tmp_path / "run.yaml"
    path.write_bytes(YAML)
    load(path)  # without a change, the file is valid
    num_loaded = 0
    for _ in range(num_cases):
        data = mutate(draw, YAML)
        path.write_bytes(data)
        num_loaded += attempt(data, load, path)
    assert num_loaded < num_cases


@tiers(9, 150, 1500)
def test_result_files(seed, num_cases, tmp_path):
    draw = random.Random(seed)
    lists, truth = {1: [1, 2], 2: [2, 1], 3: [3]}, {1: [1], 2: [1], 3: [2]}
    options = {"metrics": ["nDCG", "Gini"], "top_k": [1, 2], "per_user": True, "bootstrap": 10}
    good = weft.evaluate(lists, truth, **options, slices={"group": {1: "x", 2: "y", 3: "x"}})
    path = good.save(tmp_path / "good.json")
    saved = path.read_bytes()

    def use():
        result = weft.load_result(path)
        assert repr(result) and result.to_frame() is not None
        weft.compare([result, good])

    num_used = 0
    for _ in range(num_cases):
        data = mutate(draw, saved)
        path.write_bytes(data)
        num_used += attempt(data, use)
    assert 0 < num_used < num_cases


NAMES = [
    "nDCG(gain=linear)@10",
    "F1(metric_name_1=nDCG(discount='natural'), beta=0.5)@20",
    "BiasDisparityBR@10[F, 'Drama, old']",
    "Precision@5",
    "a: nDCG@10 >= 0.31",
    "Recall@20 >= baseline.json - 0.005",
]


@tiers(11, 500, 8000)
def test_metric_names_and_gates(seed, num_cases):
    draw = random.Random(seed)
    num_parsed = 0
    for _ in range(num_cases):
        text = mutate(draw, draw.choice(NAMES).encode()).decode(errors="surrogateescape")
        attempt(text, parse_gate, text)
        name, _ = split_labels(text)
        if attempt(text, parse_name, name):
            assert parse_name(str(parse_name(name))) == parse_name(name), text
            num_parsed += 1
            attempt(text, weft.evaluate, {1: [1]}, {1: [1]}, metrics=name, top_k=1)
    assert num_parsed > num_cases / 20


def test_plain_reader_refuses_what_it_should():
    assert read_plainly('user,item,score\na,"b",\n')[0][:2] == ("a", "b")
    assert math.isnan(read_plainly('user,item,score\na,"b",\n')[0][2])
    assert read_plainly("user,item,score\na,b\n") is None
