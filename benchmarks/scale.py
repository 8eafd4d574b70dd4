"""The four ways to evaluate lists of many users: what each takes to start, per row, and in memory
(Linux).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ITEMS, LENGTH, RELEVANT, FILES = 50_000, 100, 5, 8
METRICS = ["nDCG", "Recall", "Precision", "MAP", "MRR", "HitRate", "ItemCoverage", "Gini"]
CUTOFFS = [5, 10, 20, 50, 100]


@dataclass(frozen=True)
class Run:
    """Seconds to start and to evaluate, and the most memory of all its processes together, in
    bytes.

    To start is to import, start the engine, and evaluate something tiny, so that all workers have
    imported too."""

    start: float
    evaluate: float
    memory: float
    value: float  # of one metric, which all ways must agree on


def make(folder: Path, rows: int) -> None:
    """Lists of so many rows and their truth, in Parquet files; the rows of a file belong to a
    stretch of users.
    """
    import polars as pl

    generator = np.random.default_rng(0)
    users = rows // LENGTH
    for name in ("lists", "truth"):
        (folder / name).mkdir(parents=True)
    for number, some in enumerate(np.array_split(np.arange(users), FILES)):
        # Distinct items without a draw per user: an arithmetic walk through the catalogue with a
        # step that is prime to its size.
        start, step = (
            generator.integers(ITEMS, size=(len(some), 1)),
            2 * generator.integers(1, 999, size=(len(some), 1)) * 5 + 1,
        )
        items = (start + step * np.arange(LENGTH)) % ITEMS
        scores = -np.sort(-generator.random((len(some), LENGTH)))
        lists = {
            "user": np.repeat(some, LENGTH),
            "item": items.reshape(-1),
            "score": scores.reshape(-1),
        }
        pl.DataFrame(lists).write_parquet(folder / "lists" / f"{number}.parquet")
        wanted = np.sort(generator.integers(2 * LENGTH, size=(len(some), 4 * RELEVANT)))
        first = np.concatenate(
            [np.ones((len(some), 1), dtype=bool), wanted[:, 1:] != wanted[:, :-1]], axis=1
        )
        rows_of, columns = np.nonzero(first & (np.cumsum(first, axis=1) <= RELEVANT))
        met = (start[rows_of, 0] + step[rows_of, 0] * wanted[rows_of, columns]) % ITEMS
        pl.DataFrame({"user": some[rows_of], "item": met}).write_parquet(
            folder / "truth" / f"{number}.parquet"
        )


def measure(way: str, folder: Path, parts: int | None = None) -> Run:
    """One way, in processes of its own."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "benchmarks.scale",
        way,
        str(folder),
        str(parts or ""),
    ]
    began = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True)
        peak = [0]
        watch = threading.Thread(target=_watch, args=(child.pid, peak, child))
        watch.start()
        answer, _ = child.communicate()
        watch.join()
        if child.returncode:
            said.seek(0)
            raise RuntimeError(f"{way} failed:\n{said.read().decode()[-2000:]}")
    found = json.loads(answer.strip().splitlines()[-1])
    return Run(found["began"] - began, found["seconds"], peak[0], found["value"])


def _watch(root: int, peak: list[int], child: subprocess.Popen[str]) -> None:
    while child.poll() is None:
        peak[0] = max(peak[0], sum(map(_memory, process_tree(root))))
        time.sleep(0.2)


def process_tree(root: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:  # it has ended meanwhile
                continue
    found, known = [root], {root}
    for process in found:
        more = [
            child for child, parent in parents.items() if parent == process and child not in known
        ]
        found += more
        known.update(more)
    return found


def _memory(process: int) -> int:
    """What a process takes, its share of what it has in common with others."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * int(next((line.split()[1] for line in lines if line.startswith("Pss:")), 0))


def _evaluate(way: str, folder: Path, parts: int | None) -> None:
    """In a process of its own: start, with a tiny evaluation so that everything is loaded
    everywhere; evaluate; print.
    """
    with _ready(way, parts) as evaluate:
        tiny = {user: [user % 7, 8] for user in range(100)}
        evaluate(tiny, tiny, **({"parts": 8} if way in ("ray", "spark") else {}))
        began = time.perf_counter()
        result = evaluate(folder / "lists", folder / "truth")
        print(
            json.dumps(
                {"began": began, "seconds": time.perf_counter() - began, "value": result["nDCG@10"]}
            ),
            flush=True,
        )


@contextmanager
def _ready(way: str, parts: int | None) -> Iterator[Callable[..., Any]]:
    settings: dict[str, Any] = {"metrics": METRICS, "top_k": CUTOFFS}
    if way == "one process":
        import weft

        yield partial(weft.evaluate, **settings)
    elif way == "two processes":
        import torch.distributed as dist

        from weft.engines import distributed

        rank = int(os.environ.get("RANK", "0"))
        os.environ |= {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": os.environ.get("MASTER_PORT", str(20_000 + os.getpid() % 20_000)),
        }
        again = [sys.executable, "-W", "ignore", "-m", "benchmarks.scale", *sys.argv[1:]]
        other = (
            subprocess.Popen(again, env={**os.environ, "RANK": "1"}, stdout=subprocess.DEVNULL)
            if rank == 0
            else None
        )
        dist.init_process_group("gloo", rank=rank, world_size=2)
        yield partial(distributed.evaluate, **settings)
        dist.destroy_process_group()
        if other is not None:
            other.wait()
    elif way == "ray":
        import ray

        from weft.engines import ray as on_ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
        yield partial(on_ray.evaluate, parts=parts, **settings)
    else:
        from weft.engines import spark as on_spark

        with on_spark.session("local[2]") as session:
            yield partial(on_spark.evaluate, spark=session, parts=parts, **settings)


if __name__ == "__main__":
    _evaluate(
        sys.argv[1],
        Path(sys.argv[2]),
        int(sys.argv[3]) if len(sys.argv) > 3 and sys.argv[3] else None,
    )
