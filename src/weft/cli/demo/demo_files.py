"""The data of the demo as files, on which the commands of the README run."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from weft.cli.demo import demo_data
from weft.evaluation.result import Result

GENRE_SEPARATOR = "|"


def input_files(results: Sequence[Result]) -> dict[str, str]:
    """Return the text of each file by its name: data and, from results that keep them, lists."""
    data = demo_data.load()
    frames = {
        "ratings.csv": pl.concat([data.train, data.test]),
        "train.csv": data.train,
        "test.csv": data.test,
        "users.csv": data.users,
        "items.csv": data.items.with_columns(pl.col("genres").list.join(GENRE_SEPARATOR)),
    }
    frames |= {
        f"{result.name}.csv": result.lists.select("user", "item", "rank")
        for result in results
        if result.lists is not None
    }
    return {name: frame.write_csv() for name, frame in frames.items()}
