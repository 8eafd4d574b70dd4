"""Measure and print, as Markdown: `python -m benchmarks [SECTION ...] [--sizes S M L]`."""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch

from benchmarks import (
    cases,
    collection,
    compare,
    engines,
    files,
    memory,
    peers,
    ready_lists,
    repeated,
    sampled,
    scale,
    threads,
)
from benchmarks import metrics as metric_costs
from benchmarks.clock import Ratio
from benchmarks.data import SIZES, make

ROWS = {"S": 1_000_000, "M": 4_000_000, "L": 16_000_000}  # of lists, for engines
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "growth.png"


def main() -> None:
    """Run the chosen sections, or all."""
    sections: dict[str, Callable[[argparse.Namespace], None]] = {
        "main": show_main,
        "worst": show_worst,
        "growth": show_growth,
        "metrics": show_metrics,
        "threads": show_threads,
        "memory": show_memory,
        "import": show_import,
        "lists": show_lists,
        "files": show_files,
        "sampled": show_sampled,
        "collection": show_collection,
        "repeated": show_repeated,
        "compare": show_compare,
        "scale": show_scale,
        "engines": show_engines,
        "peers": show_peers,
    }
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="CPU time of one thread, as ratios. See docs/develop/benchmarks.md.",
    )
    parser.add_argument(
        "sections",
        nargs="*",
        default=list(sections),
        help=f"{', '.join(sections)}; all unless told",
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        default=list(SIZES),
        choices=SIZES,
        help="how large the data are; S M L unless told",
    )
    parser.add_argument(
        "--rounds", type=int, default=7, help="of everything in turn; %(default)s unless told"
    )
    given = parser.parse_args()
    if unknown := [name for name in given.sections if name not in sections]:
        parser.error(f"there is no section {unknown[0]!r}; choose from {', '.join(sections)}")
    torch.set_num_threads(1)
    processor = next(
        (line.partition(":")[2].strip() for line in _cpu_info() if line.startswith("model name")),
        platform.machine(),
    )
    found = ", ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "polars"))
    print(f"One thread of {processor}, Python {platform.python_version()}, {found}.")
    for name in given.sections:
        print(f"\n## {name}\n", flush=True)
        sections[name](given)


def _cpu_info() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    head = list(head)
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def _by_size(found: dict[str, dict[str, Ratio]]) -> Iterable[list[object]]:
    for name in next(iter(found.values())):
        yield [name, *(found[size][name] for size in found)]


def show_main(given: argparse.Namespace) -> None:
    """The main table, with what is wanted."""
    print(
        f"Multiples of `{cases.BASELINE}` in the same round: median (lowest-highest), and what is "
        "wanted.\n"
    )
    found = cases.main_table(given.sizes, given.rounds)
    wanted = {name: dict(zip(SIZES, goals)) for name, goals in cases.WANTED.items()}
    rows = [
        [
            *row,
            " / ".join(f"{wanted[str(row[0])][size]:g}" for size in found)
            if row[0] in wanted
            else "",
        ]
        for row in _by_size(found)
    ]
    _table(
        [
            "",
            *(f"{size}: {SIZES[size][1]:,} users x {SIZES[size][0]:,} items" for size in found),
            "wanted",
        ],
        rows,
    )
    ratios = (
        f"{found[size]['all metrics'].median / found[size]['six metrics'].median:.1f}"
        for size in found
    )
    print(f"\nAll metrics cost {' / '.join(ratios)} times the six.")


def show_worst(given: argparse.Namespace) -> None:
    """The top 100 of scores with many ties or in an unlucky order."""
    print(
        "The exact top 100 as a multiple of `torch.topk` on the same scores; at most 3 is wanted. "
        "All equal a stable sort.\n"
    )
    found = cases.worst_cases(given.sizes, given.rounds)
    _table(["scores", *found], _by_size(found))


def show_growth(given: argparse.Namespace) -> None:
    """How cost grows with users, items and metrics, in numbers and as a picture."""
    found = cases.growth(given.rounds)
    for what, points in found.items():
        print(f"{what}: " + ", ".join(f"{n:,}: {ratio}" for n, ratio in points))
    if find_spec("matplotlib") is None:
        print("(no picture: pip install matplotlib)")
        return
    draw(found)


def show_metrics(given: argparse.Namespace) -> None:
    """The cost of each metric beside six others, and of all in one pass."""
    print(
        "Six accuracy metrics and one more at five cut-offs, as a multiple of the six: the lowest "
        f"CPU time of {given.rounds} rounds over that of the six.\n"
    )
    sizes = [size for size in given.sizes if size != "L"]
    found = {size: metric_costs.compare(make(*SIZES[size]), given.rounds) for size in sizes}
    if not found:
        return
    names = found[sizes[0]].metrics
    _table(
        ["one more", *sizes],
        [[name, *(f"{found[size].metrics[name]:.2f}" for size in sizes)] for name in names],
    )
    for size, costs in found.items():
        print(
            f"\n{size}: all metrics in one pass take {costs.together:.2f} times the six "
            f"({1e3 * costs.seconds:.0f} ms); one by one they would add up to {costs.added:.2f}."
        )


def draw(found: dict[str, list[tuple[int, Ratio]]]) -> None:
    """The curves side by side, each against the line of a cost that grows in proportion."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for axis, (what, points) in zip(axes, found.items()):
        numbers = [n for n, _ in points]
        medians = [ratio.median for _, ratio in points]
        spread = [
            [ratio.median - ratio.low for _, ratio in points],
            [ratio.high - ratio.median for _, ratio in points],
        ]
        axis.plot(
            numbers,
            [n / numbers[0] for n in numbers],
            color="0.7",
            linestyle="--",
            label="in proportion",
        )
        axis.errorbar(
            numbers,
            medians,
            yerr=spread,
            color="#0072b2",
            marker="o",
            markersize=4,
            capsize=3,
            label="measured",
        )
        axis.set(
            xlabel=f"number of {what}",
            ylabel=f"CPU time (1 = {numbers[0]:,} {what if numbers[0] > 1 else what[:-1]})",
            xlim=(0, None),
            ylim=(0, None),
        )
        axis.spines[["top", "right"]].set_visible(False)
        axis.xaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    axes[0].legend(frameon=False)
    figure.savefig(PICTURE, dpi=110)
    print(f"\n![How cost grows]({PICTURE.name})")


def show_threads(given: argparse.Namespace) -> None:
    """All threads against one, quiet and beside a busy process; and by the number of threads."""
    with threads.all_threads() as cpus:
        print(
            f"Wall time on all {cpus} CPUs as a multiple of that on one, alone on the machine and "
            "beside a process that uses torch with all threads; at most 0.6 and 1.2 are wanted on "
            "two CPUs.\n"
        )
    quiet: list[list[object]] = []
    busy: list[list[object]] = []
    for size in given.sizes:
        problem = make(*SIZES[size])
        for name, metrics in threads.SETS.items():
            quiet.append([f"{size}, {name}", threads.compare(problem, metrics, given.rounds)])
            with threads.busy_process():
                busy.append([threads.compare(problem, metrics, given.rounds)])
    _table(["", "alone", "beside a busy process"], (a + b for a, b in zip(quiet, busy)))
    points = threads.curve(make(*SIZES["M"]), given.rounds)
    print("\nM, six metrics, by threads: " + ", ".join(f"{n}: {ratio}" for n, ratio in points))


def show_memory(given: argparse.Namespace) -> None:
    """What an evaluation takes beside its input and its result."""
    print(
        "The peak beyond scores, inputs and result, as a share of one batch of scores; at most 0.5 "
        "is wanted.\n"
    )
    kinds = {"six metrics": "six", "all metrics": "all", "six metrics, torch alone": "torch"}
    shares = [
        [size, *(f"{memory.beyond_the_scores(size, kind):.2f}" for kind in kinds.values())]
        for size in given.sizes
    ]
    _table(["", *kinds], shares)
    print(
        "\nFrom factors (d = 64), as a multiple of one batch of scores, for a quarter of the users "
        "and for all:\n"
    )
    rows = (
        [case, *(f"{memory.of_factors(case, n):.2f}" for n in (users // 4, users))]
        for case, (users, _) in memory.FACTORS.items()
    )
    _table(["", "a quarter", "all"], rows)


def show_import(given: argparse.Namespace) -> None:
    """What an import costs beside that of torch."""
    programs = {
        "import torch": "import torch",
        "import weft": "import weft",
        "import torch, torchmetrics": "import torch, torchmetrics",
        "from weft import evaluate": "from weft import evaluate",
    }
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(given.rounds):
        for name, program in programs.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            seconds[name].append(time.perf_counter() - start)
    base = statistics.median(seconds["import torch"])
    _table(
        ["", "multiple of `import torch`"],
        ([f"`{name}`", f"{statistics.median(of) / base:.2f}"] for name, of in seconds.items()),
    )


def show_lists(given: argparse.Namespace) -> None:
    """Ready lists from a polars frame, beside the tools that take lists."""
    print(
        "How many times Weft's time other tools take, from the same polars frame; at least 5 is "
        "wanted.\n"
    )
    rows = ready_lists.compare(rounds=given.rounds)
    _table(
        ["tool", "metrics", "values equal", "tool / Weft"],
        ([f"{r.tool} {r.version}", len(r.names), r.equal, r.tool_to_weft] for r in rows),
    )


def show_files(given: argparse.Namespace) -> None:
    """Files of many rows, from disk to numbers."""
    print(
        f"{files.USERS * files.LENGTH:,} rows of lists, {files.USERS * files.RELEVANT:,} of truth; "
        "six metrics, five cut-offs.\n"
    )
    rows = (
        [
            r.case,
            f"{r.megabytes:,.0f} MB",
            f"{r.ratio:.1f}",
            f"{r.peak:.2f} GiB",
            f"{r.peak_of_reading:.2f} GiB",
        ]
        for r in files.compare()
    )
    _table(["", "file", "time / polars reads it", "peak memory", "peak when polars reads it"], rows)
    large = files.measure_large()
    print(
        f"\n{large.rows:,} rows ({large.megabytes:,.0f} MB of Parquet) with memory={large.memory}, "
        f"sorted on disk: {large.peak_beyond_libraries:.2f} GiB beyond the interpreter and "
        f"libraries, {large.seconds:.0f} s."
    )


def show_sampled(given: argparse.Namespace) -> None:
    """All items against sampled candidates."""
    size = (
        f"{sampled.USERS:,} users x {sampled.ITEMS:,} items from factors (d = {sampled.DIMENSIONS})"
    )
    print(f"{size}, six metrics at five cut-offs, as multiples of {sampled.UNIFORM}.\n")
    _table(["", "time"], sampled.compare(rounds=min(3, given.rounds)).items())


def show_collection(given: argparse.Namespace) -> None:
    """Thirty metrics on their own against an Evaluator."""
    users = f"{collection.USERS:,} users in batches of {collection.BATCH}"
    print(f"Six metrics at five cut-offs over {users}, as multiples of an Evaluator.\n")
    sizes = [size for size in given.sizes if size != "L"]
    found = {
        size: collection.compare(make(SIZES[size][0], collection.USERS), given.rounds)
        for size in sizes
    }
    _table(
        ["", *sizes],
        [[name, *(found[size][name] for size in sizes)] for name in found[sizes[0]]]
        if sizes
        else [],
    )


def show_repeated(given: argparse.Namespace) -> None:
    """One more model on prepared inputs against the pass alone."""
    size = f"{repeated.USERS:,} users x {repeated.ITEMS:,} items"
    print(f"Six metrics at five cut-offs, {size}, as multiples of the pass over the users.\n")
    found = repeated.compare(make(repeated.ITEMS, repeated.USERS), 4 * given.rounds)
    _table(["", "CPU time"], found.items())
    small = f"{repeated.SMALL_USERS} users x {repeated.SMALL_ITEMS} items"
    print(f"\nA small evaluation ({small}): {repeated.small_milliseconds(given.rounds):.1f} ms.")


def show_compare(given: argparse.Namespace) -> None:
    """Tests between many models on many metrics."""
    columns = compare.METRICS * len(compare.CUTOFFS)
    print(
        f"{compare.MODELS} models x {columns} metrics x {compare.USERS:,} users, as a multiple of "
        "reading their tables by polars.\n"
    )
    _table(
        ["test", "time / polars reads the values", "seconds"],
        ([r.case, f"{r.ratio:.1f}", f"{r.seconds:.1f}"] for r in compare.measure()),
    )


def show_scale(given: argparse.Namespace) -> None:
    """The four ways to evaluate many lists: how each grows with rows, and engines with parts."""
    print(
        "Wall time and memory of all processes together, each way in processes of its own, two "
        "cores at its disposal.\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        installed = _installed_engines()
        table: list[list[object]] = []
        for size in given.sizes:
            data = Path(folder, size)
            scale.make(data, ROWS[size])
            alone = None
            for way in ("one process", "two processes", *installed):
                run = scale.measure(way, data)
                alone = alone or run
                assert abs(run.value - alone.value) < 1e-9, (way, run, alone)
                seconds = f"{run.evaluate / alone.evaluate:.2f}"
                speed = f"{ROWS[size] / run.evaluate / 1e6:.2f}"
                more = f"{run.memory / alone.memory:.1f}"
                table.append(
                    [
                        f"{ROWS[size]:,}",
                        way,
                        f"{run.start:.0f} s",
                        seconds,
                        speed,
                        more,
                        f"{run.memory / 1e9:.1f} GB",
                    ]
                )
        head = (
            "rows",
            "way",
            "start",
            "time / one process",
            "million rows/s",
            "memory / one process",
            "memory",
        )
        _table(head, table)
        size = given.sizes[len(given.sizes) // 2]
        alone = scale.measure("one process", Path(folder, size))
        print(f"\n{ROWS[size]:,} rows by parts, as multiples of one process:\n")
        found = []
        for parts in (2, 8, 32, 128):
            both = [
                scale.measure(way, Path(folder, size), parts).evaluate / alone.evaluate
                for way in installed
            ]
            found.append([parts, *(f"{one:.2f}" for one in both)])
        _table(("parts", *installed), found)


def _installed_engines() -> list[str]:
    packages = {"ray": "ray", "spark": "pyspark"}
    return [engine for engine, package in packages.items() if find_spec(package) is not None]


def show_engines(given: argparse.Namespace) -> None:
    """CPU time of Ray and Spark, which are running, as multiples of one process, by process."""
    print(
        "Core-seconds of all processes, two cores, in a running session whose workers have "
        "imported everything. At most 5 times one process is wanted of Spark, 1.1 of Ray, for "
        "files of 16 million rows.\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        for size in given.sizes:
            engines.make(Path(folder, size), ROWS[size])
        for engine in _installed_engines():
            for size in given.sizes:
                found = engines.measure(engine, Path(folder, size), min(3, given.rounds))
                _show_engine(engine, ROWS[size], found)


def _show_engine(engine: str, rows: int, found: dict[str, list[engines.Spent]]) -> None:
    kinds = ["driver", "workers", "Java", "other"]
    table: list[list[object]] = []
    for name, rounds in found.items():
        order = engines.ANY_ORDER if name.endswith(engines.ANY_ORDER) else ""
        alone = found[engines.ONE_PROCESS + order]
        ratios = [own.total / one.total for own, one in zip(rounds, alone)]
        ratio = Ratio(statistics.median(ratios), min(ratios), max(ratios))
        seconds = [
            f"{statistics.median(spent.seconds.get(kind, 0) for spent in rounds):.2f}"
            for kind in kinds
        ]
        total = f"{statistics.median(spent.total for spent in rounds):.2f}"
        memory = f"{statistics.median(spent.memory for spent in rounds) / 1e9:.2f} GB"
        table.append([name, ratio, total, *seconds, memory])
    print(f"{engine}, {rows:,} rows\n")
    _table(["", "ratio", "core-seconds", *kinds, "largest worker"], table)
    print(flush=True)


def show_peers(given: argparse.Namespace) -> None:
    """Other tools on the same scores, as far as they are installed."""
    for peer in peers.PEERS.values():
        if reason := peer.absence():
            print(f"- {reason}")
    print()
    rows = (
        [
            f"{r.tool} {r.version}",
            r.size,
            f"{r.users:,}",
            r.metrics,
            len(r.names),
            r.equal,
            r.tool_to_topk,
            r.weft_to_topk,
            r.tool_to_weft,
        ]
        for r in peers.compare(given.sizes, rounds=min(3, given.rounds))
    )
    _table(
        [
            "tool",
            "size",
            "users",
            "set",
            "metrics",
            "values equal",
            "tool / topk",
            "Weft / topk",
            "tool / Weft",
        ],
        rows,
    )
    print()
    for peer in peers.PEERS.values():
        for metric, reason in peer.differs.items():
            print(f"- {peer.name}'s {metric} is not compared: {reason}.")


if __name__ == "__main__":
    main()
