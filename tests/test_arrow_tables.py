"""Tables with Arrow's stream interface in every place of a frame: pyarrow, DuckDB, any other."""

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import weft
from weft.data.frames import is_frame
from weft.errors import InputError

LISTS = pl.DataFrame(
    {
        "user": ["a", "a", "b", "b", "c", "c"],
        "item": [1, 2, 3, 1, 2, 4],
        "score": [0.9, 0.5, 0.8, 0.7, 0.6, 0.1],
    }
)
FRAMES = {
    "truth": pl.DataFrame({"user": ["a", "b", "c"], "item": [2, 1, 2], "rating": [1.0, 2.0, 1.0]}),
    "train": pl.DataFrame({"user": ["a", "b", "c", "c"], "item": [3, 2, 1, 3]}),
    "user_groups": pl.DataFrame({"user": ["a", "b", "c"], "label": ["x", "y", "x"]}),
    "item_clusters": pl.DataFrame({"item": [1, 2, 3, 4], "label": ["p", "q", "p", "q"]}),
    "item_features": pl.DataFrame({"item": [1, 2, 2, 3, 4], "feature": ["r", "r", "s", "s", "t"]}),
    "candidates": LISTS.select("user", "item"),
}


VECTORS = pl.DataFrame({"item": [1, 2, 3, 4], "x": [0.1, 0.2, 0.5, 1.0], "y": [1.0, 0.0, 0.5, 0.2]})


class Streamed:
    """A table of a library that Weft does not know."""

    def __init__(self, frame):
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self._frame.__arrow_c_stream__(requested_schema)


def to_duckdb(frame):
    arrow = frame.to_arrow()
    connection = duckdb.connect()
    connection.register("arrow", arrow)
    return connection.sql("select * from arrow")


KINDS = {
    "pyarrow": pl.DataFrame.to_arrow,
    "duckdb": to_duckdb,
    "record batch": lambda frame: frame.to_arrow().combine_chunks().to_batches()[0],
    "any": Streamed,
}


def evaluate(convert, **more):
    frames = {name: convert(frame) for name, frame in FRAMES.items()} | more
    return weft.evaluate(
        convert(LISTS),
        frames.pop("truth"),
        metrics=["nDCG", "Gini", "EPC", "BiasDisparityBD", "SRecall", "ILD"],
        top_k=2,
        inputs={"item_vectors": convert(VECTORS)},
        slices={"sex": convert(FRAMES["user_groups"])},
        **frames,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_arrow_tables_are_read_as_frames(kind):
    found, expected = evaluate(KINDS[kind]), evaluate(lambda frame: frame)
    assert found == expected and len(found) >= 5
    assert found.slices.equals(expected.slices) and found.counts == expected.counts


@pytest.mark.parametrize("kind", KINDS)
def test_arrow_tables_are_checked_as_frames(kind):
    convert = KINDS[kind]
    checked = weft.check(convert(LISTS), convert(FRAMES["truth"]), train=convert(FRAMES["train"]))
    expected = weft.check(LISTS, FRAMES["truth"], train=FRAMES["train"])
    assert checked.values == expected.values and checked.findings == expected.findings


def test_columns_are_not_tables():
    table = LISTS.to_arrow()
    assert is_frame(table) and is_frame(table.to_reader()) and not is_frame(table["user"])
    assert not is_frame(LISTS["user"]) and not is_frame(pa.array([1, 2])) and not is_frame(Streamed)


def test_missing_columns_are_named():
    with pytest.raises(InputError, match="lists"):
        weft.evaluate(LISTS.select("score").to_arrow(), FRAMES["truth"], metrics="MRR@2")
    with pytest.raises(InputError, match=r"truth.*'item'"):
        weft.evaluate(LISTS, to_duckdb(FRAMES["truth"].drop("item")), metrics="MRR@2")


def test_broken_streams_are_errors():
    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise TypeError("the connection is closed")

    with pytest.raises(InputError, match=r"truth is a .*Broken.*the connection is closed"):
        weft.evaluate(LISTS, Broken(), metrics="MRR@2")
