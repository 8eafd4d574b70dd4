"""CPU time of Ray and Spark on many lists, of all their processes together, against one process
(Linux).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import scale

ONE_PROCESS, ANY_ORDER = "one process", ", rows in any order"
BY_USER, SPREAD = "by_user", "spread"  # folders: rows of a user together, rows in any order
PARTS = (4, 16, 64)
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def make(folder: Path, rows: int) -> None:
    """Lists of so many rows and their truth, in files user by user, and again in any order."""
    import polars as pl

    scale.make(folder / BY_USER, rows)
    for name in ("lists", "truth"):
        whole = pl.read_parquet(folder / BY_USER / name / "*.parquet")
        (folder / SPREAD / name).mkdir(parents=True)
        size = -(-len(whole) // scale.FILES)
        for number, part in enumerate(
            whole.sample(fraction=1, shuffle=True, seed=0).iter_slices(size)
        ):
            part.write_parquet(folder / SPREAD / name / f"{number}.parquet")


@dataclass(frozen=True)
class Spent:
    """Core-seconds by kind of process, and the most memory of one worker, in bytes."""

    seconds: dict[str, float]
    memory: float

    @property
    def total(self) -> float:
        """Core-seconds of all processes."""
        return sum(self.seconds.values())


def measure(engine: str, folder: Path, rounds: int) -> dict[str, list[Spent]]:
    """What each case takes in each round; in processes of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.engines", engine]
    done = subprocess.run(
        [*command, str(folder), str(rounds)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{engine} failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return {name: [Spent(**spent) for spent in rounds] for name, rounds in found.items()}


def _run(engine: str, folder: Path, rounds: int) -> None:
    """In a process of its own: start the engine; in each round, everything in turn; print. The
    first round warms up and is not counted.
    """
    spent: dict[str, list[dict[str, Any]]] = {}
    values: dict[str, float] = {}
    with _cases(engine, folder) as cases:
        for number in range(rounds + 1):
            for name, call in cases.items():
                _reset_peaks()
                before = _cpu_seconds()
                result = call()
                after = _cpu_seconds()
                if result is not None:
                    values[name] = result["nDCG@10"]
                    assert abs(values[name] - values[ONE_PROCESS]) < 1e-9, values
                after.subtract(before)
                if number:
                    found = asdict(Spent(dict(after), _peak_of_workers()))
                    spent.setdefault(name, []).append(found)
    print(json.dumps(spent), flush=True)


def _reset_peaks() -> None:
    """Let the peaks of memory begin anew; worker processes are used again."""
    for process in scale.process_tree(os.getpid()):
        with suppress(OSError):
            Path(f"/proc/{process}/clear_refs").write_text("5")


def _peak_of_workers() -> int:
    peaks = [0]
    for process in scale.process_tree(os.getpid()):
        with suppress(OSError):
            if _kind(process, Path(f"/proc/{process}/cmdline").read_text()) == "workers":
                status = Path(f"/proc/{process}/status").read_text()
                peaks.append(1024 * int(status.partition("VmHWM:")[2].split()[0]))
    return max(peaks)


def _cpu_seconds() -> Counter[str]:
    """The CPU time of this process and all that descend from it, by kind, also of ended ones."""
    found = Counter[str]()
    for process in scale.process_tree(os.getpid()):
        try:
            times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]
            command = Path(f"/proc/{process}/cmdline").read_text()
        except OSError:  # it has ended meanwhile
            continue
        found[_kind(process, command)] += sum(map(int, times)) / _TICKS_PER_SECOND
    return found


def _kind(process: int, command: str) -> str:
    if process == os.getpid():
        return "driver"
    if "java" in command.partition("\0")[0]:
        return "Java"
    return "workers" if command.startswith("ray::") or "pyspark" in command else "other"


@contextmanager
def _cases(engine: str, folder: Path) -> Iterator[Mapping[str, Callable[[], Any]]]:
    import weft

    settings: dict[str, Any] = {"metrics": scale.METRICS, "top_k": scale.CUTOFFS}
    by_user, spread = (
        [str(folder / order / name) for name in ("lists", "truth")] for order in (BY_USER, SPREAD)
    )
    cases: dict[str, Callable[[], Any]] = {
        ONE_PROCESS: partial(weft.evaluate, *by_user, **settings),
        ONE_PROCESS + ANY_ORDER: partial(weft.evaluate, *spread, **settings),
    }
    if engine == "ray":
        import ray

        from weft.engines import ray as on_ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
        evaluate = partial(on_ray.evaluate, **settings)
        cases["files"] = partial(evaluate, *by_user)
        cases["files" + ANY_ORDER] = partial(evaluate, *spread)
        yield cases | _by_parts(partial(evaluate, *by_user))
        ray.shutdown()
        return
    from weft.engines import spark as on_spark

    with on_spark.session("local[2]") as session:
        evaluate = partial(on_spark.evaluate, spark=session, **settings)
        frames = [session.read.parquet(path) for path in by_user]
        computed = [frame.where("user >= 0") for frame in frames]
        cases["files"] = partial(evaluate, *by_user)
        cases["DataFrames of files"] = partial(evaluate, *frames)
        cases["files" + ANY_ORDER] = partial(evaluate, *spread)
        cases["computed DataFrames"] = partial(evaluate, *computed)
        lists = frames[0]
        plain = {
            "Spark reads the lists": lists,
            "Spark counts their rows by user": lists.groupBy("user").count(),
            "Spark shuffles them by user": lists.repartition(4, "user"),
            "Spark hands them to Python and back": lists.mapInArrow(_return, lists.schema),
        }
        cases |= _by_parts(partial(evaluate, *by_user))
        cases |= {name: partial(_compute, frame) for name, frame in plain.items()}
        yield cases


def _by_parts(evaluate: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    return {f"files in {parts} parts": partial(evaluate, parts=parts) for parts in PARTS}


def _return(batches: Any) -> Any:
    return batches


def _compute(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
