"""Files of 20 million recommendations and 2 million truth rows: the memory that their evaluation
takes, and its time; and the memory of 100 million recommendations that are sorted on disk.

The unit of time is that of merely reading the lists by polars; both are the best of some rounds.

    python -m benchmarks files

Every measurement is a process of its own, with as many threads as it likes.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

USERS, LENGTH, RELEVANT, ITEMS = 200_000, 100, 10, 50_000
METRICS = ("nDCG", "MAP", "MRR", "Precision", "Recall", "HitRate")
CUTOFFS = (5, 10, 20, 50, 100)
LARGE_USERS, LARGE_MEMORY = 1_000_000, "1GiB"  # in a folder of part files
PART_USERS = 50_000
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")


@dataclass(frozen=True)
class Row:
    """One pair of files: time as a multiple of `polars.read_...` of the lists, and peaks of memory
    in GiB.
    """

    case: str
    megabytes: float
    ratio: float
    peak: float
    peak_of_reading: float


@dataclass(frozen=True)
class LargeRow:
    """Lists that are sorted on disk: seconds, and GiB beyond the interpreter and libraries."""

    rows: int
    megabytes: float
    memory: str
    peak_beyond_libraries: float
    seconds: float


def measure_large(users: int = LARGE_USERS, memory: str = LARGE_MEMORY) -> LargeRow:
    """Evaluate a folder of Parquet files that needs more than `memory`."""
    with tempfile.TemporaryDirectory() as folder:
        lists, truth = (Path(folder) / name for name in ("lists", "truth"))
        _alone("make parts", str(lists), str(truth), str(users))
        size = sum(part.stat().st_size for part in lists.iterdir())
        found = _alone("evaluate", str(lists), str(truth), memory)
    beyond = found["gibibytes"] - found["gibibytes of libraries"]
    return LargeRow(users * LENGTH, size / 1e6, memory, beyond, found["seconds"])


def compare(users: int = USERS, rounds: int = 3) -> Iterator[Row]:
    """Parquet and CSV, integer and string ids; and integers whose rows are in no order."""
    with tempfile.TemporaryDirectory() as folder:
        for ids in ("integer", "string", "shuffled integer"):
            for kind in ("parquet", "csv") if ids != "shuffled integer" else ("parquet",):
                lists, truth = (str(Path(folder) / f"{name}.{kind}") for name in ("lists", "truth"))
                _alone("make", lists, truth, ids, str(users))
                pairs = [
                    (_alone("read", lists), _alone("evaluate", lists, truth)) for _ in range(rounds)
                ]
                read, evaluated = (
                    {name: min(each[name] for each in runs) for name in runs[0]}
                    for runs in zip(*pairs)
                )
                yield Row(
                    f"{ids} ids, {kind}",
                    Path(lists).stat().st_size / 1e6,
                    evaluated["seconds"] / read["seconds"],
                    evaluated["gibibytes"],
                    read["gibibytes"],
                )


def _alone(*arguments: str) -> dict[str, float]:
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    # -P: the modules beside this one are not those that libraries may import under the same names.
    command = [sys.executable, "-P", __file__, *arguments]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return found


def draw(everyone: Any, generator: Any) -> tuple[Any, Any]:
    """Return the lists of some users, best first, and a truth of which a part was found."""
    import numpy as np
    import polars as pl

    users = len(everyone)
    # A stride that has no factor in common with the number of items gives each user different
    # items.
    first, stride = (
        generator.integers(0, ITEMS, (users, 1)),
        generator.choice([7, 11, 13, 17, 19, 23], (users, 1)),
    )
    listed = (first + stride * np.arange(LENGTH)) % ITEMS
    relevant = (
        first + stride * generator.integers(0, 24, (users, RELEVANT)).cumsum(axis=1)
    ) % ITEMS
    scores = np.sort(generator.random((users, LENGTH)), axis=1)[:, ::-1]
    recommended = pl.DataFrame(
        {"user": everyone.repeat(LENGTH), "item": listed.ravel(), "score": scores.ravel()}
    )
    wanted = pl.DataFrame({"user": everyone.repeat(RELEVANT), "item": relevant.ravel()}).unique(
        maintain_order=True
    )
    return recommended, wanted


def make_parts(lists: str, truth: str, users: int) -> None:
    """Write folders of Parquet files, with users in any order."""
    import numpy as np

    generator = np.random.default_rng(0)
    everyone = generator.permutation(users)
    folders = [Path(lists), Path(truth)]
    for folder in folders:
        folder.mkdir()
    for start in range(0, users, PART_USERS):
        frames = draw(everyone[start : start + PART_USERS], generator)
        for frame, folder in zip(frames, folders):
            frame.write_parquet(folder / f"{start:09}.parquet")


def make(lists: str, truth: str, ids: str, users: int) -> None:
    """Write lists and a truth, each to one file."""
    import numpy as np
    import polars as pl

    generator = np.random.default_rng(0)
    recommended, wanted = draw(generator.permutation(users), generator)
    for frame, path in ((recommended, lists), (wanted, truth)):
        if ids == "string":
            frame = frame.with_columns(
                pl.format("user-{}", pl.col("user").cast(pl.String).str.zfill(9)).alias("user"),
                pl.format("item-{}", pl.col("item").cast(pl.String).str.zfill(9)).alias("item"),
            )
        if ids == "shuffled integer":
            frame = frame.sample(fraction=1, shuffle=True, seed=0)
        if path.endswith("parquet"):
            frame.write_parquet(path)
        else:
            frame.write_csv(path)


def main(what: str, *arguments: str) -> None:
    """Do one thing and print what it took."""
    of_libraries = 0.0
    if what.startswith("make"):
        write = make_parts if what == "make parts" else make
        start = time.perf_counter()
        write(*arguments[:-1], int(arguments[-1]))  # type: ignore[arg-type,call-arg]
    elif what == "read":
        import polars as pl

        start = time.perf_counter()
        (pl.read_parquet if arguments[0].endswith("parquet") else pl.read_csv)(arguments[0])
    else:
        import polars  # noqa: F401 - imported before the clock starts, as for reading

        from weft import evaluate

        if memory := arguments[2] if len(arguments) > 2 else None:
            evaluate({1: [1]}, {1: [1]}, metrics=METRICS, top_k=CUTOFFS)
        of_libraries = _peak()
        start = time.perf_counter()
        evaluate(arguments[0], arguments[1], metrics=METRICS, top_k=CUTOFFS, memory=memory)
    seconds = time.perf_counter() - start
    measured = {"seconds": seconds, "gibibytes": _peak(), "gibibytes of libraries": of_libraries}
    print(json.dumps(measured))


def _peak() -> float:
    """Return the peak of memory of this process in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


if __name__ == "__main__":
    main(*sys.argv[1:])
