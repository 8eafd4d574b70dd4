"""Files of 20 million recommendations and 2 million truth rows: the memory that their evaluation
takes, and its time.

The unit of time is that of merely reading the lists by polars.

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

USERS, LENGTH, RELEVANT, ITEMS = 200_000, 100, 10, 50_000
METRICS = ("nDCG", "MAP", "MRR", "Precision", "Recall", "HitRate")
CUTOFFS = (5, 10, 20, 50, 100)
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


def compare(users: int = USERS) -> Iterator[Row]:
    """Parquet and CSV, integer and string ids; and integers whose rows are in no order."""
    with tempfile.TemporaryDirectory() as folder:
        for ids in ("integer", "string", "shuffled integer"):
            for kind in ("parquet", "csv") if ids != "shuffled integer" else ("parquet",):
                lists, truth = (str(Path(folder) / f"{name}.{kind}") for name in ("lists", "truth"))
                _alone("make", lists, truth, ids, str(users))
                read, evaluated = _alone("read", lists), _alone("evaluate", lists, truth)
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


def make(lists: str, truth: str, ids: str, users: int) -> None:
    """Write lists, best first, and a truth of which a part was found."""
    import numpy as np
    import polars as pl

    generator = np.random.default_rng(0)
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
    everyone = generator.permutation(users)
    scores = np.sort(generator.random((users, LENGTH)), axis=1)[:, ::-1]
    recommended = pl.DataFrame(
        {"user": everyone.repeat(LENGTH), "item": listed.ravel(), "score": scores.ravel()}
    )
    wanted = pl.DataFrame({"user": everyone.repeat(RELEVANT), "item": relevant.ravel()}).unique(
        maintain_order=True
    )
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
    if what == "make":
        make(*arguments[:3], int(arguments[3]))  # type: ignore[arg-type,misc]
        start = time.perf_counter()
    elif what == "read":
        import polars as pl

        start = time.perf_counter()
        (pl.read_parquet if arguments[0].endswith("parquet") else pl.read_csv)(arguments[0])
    else:
        from weft import evaluate

        start = time.perf_counter()
        evaluate(arguments[0], arguments[1], metrics=METRICS, top_k=CUTOFFS)
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                "seconds": seconds,
                "gibibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
