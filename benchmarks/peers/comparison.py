"""A tool beside Weft and `torch.topk`: first the values, then the times, in turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch

import weft
from benchmarks.clock import Ratio, cpu_seconds
from benchmarks.data import CUTOFFS, SIZES, Problem, make
from benchmarks.peers.peer import Peer, Values, cell, cells
from benchmarks.peers.tools import PEERS
from weft.metrics.names import parse_name


class DifferenceError(Exception):
    """A tool's number is not Weft's, and no known difference of definition says why."""


@dataclass(frozen=True)
class Row:
    """What was measured: one tool, one size, one set of metrics."""

    tool: str
    version: str
    size: str
    users: int
    metrics: str  # "six" or "large"
    names: tuple[str, ...]  # those of the set that the tool has
    equal: int  # values that are Weft's
    tool_to_topk: Ratio
    weft_to_topk: Ratio
    tool_to_weft: Ratio


def compare(
    sizes: Iterable[str],
    tools: Iterable[str] | None = None,
    sets: Iterable[str] = ("six", "large"),
    rounds: int = 5,
) -> Iterator[Row]:
    """Measure the tools that can be imported. Values that differ without a known reason raise
    before any time is taken.
    """
    present = [
        PEERS[name] for name in (PEERS if tools is None else tools) if PEERS[name].absence() is None
    ]
    sets = list(sets)
    for size in sizes:
        whole = make(*SIZES[size])
        for peer in present:
            for title, metrics in peer.sets.items():
                if title in sets:
                    yield _measure(
                        peer, size, peer.part(whole, size, title), title, metrics, rounds
                    )


def _measure(
    peer: Peer, size: str, problem: Problem, title: str, metrics: list[str], rounds: int
) -> Row:
    # No scores are tied and no user is empty, so that of a profile only the parameters of metrics
    # matter.
    specs = [peer.spec(name) for name in metrics]

    def evaluation() -> weft.Result:
        return weft.evaluate(
            problem.scores, problem.truth, train=problem.train, metrics=specs, top_k=CUTOFFS
        )

    run = peer.prepare(problem, metrics)
    equal = check(peer, metrics, run(), evaluation())
    seconds = in_turns(
        {
            "torch.topk": lambda: torch.topk(problem.scores, max(CUTOFFS)),
            "weft": evaluation,
            "tool": run,
        },
        rounds,
    )
    return Row(
        tool=peer.name,
        version=peer.version,
        size=size,
        users=problem.users,
        metrics=title,
        names=tuple(metrics),
        equal=equal,
        tool_to_topk=ratio(seconds["tool"], seconds["torch.topk"]),
        weft_to_topk=ratio(seconds["weft"], seconds["torch.topk"]),
        tool_to_weft=ratio(seconds["tool"], seconds["weft"]),
    )


def check(peer: Peer, metrics: list[str], found: Values, result: weft.Result) -> int:
    """How many values equal Weft's: all, but those that are known to differ."""
    expected = {
        cell(name, k): result[str(peer.spec(name).with_cutoff(k))] for name, k in cells(metrics)
    }
    compared = [name for name in expected if parse_name(name).name not in peer.differs]
    wrong = [
        f"{name} is {found.get(name)!r} and Weft's {expected[name]!r}"
        for name in compared
        if not abs(found.get(name, float("nan")) - expected[name])
        <= peer.tolerance * max(1.0, abs(expected[name]))
    ]
    if wrong:
        raise DifferenceError(f"{peer.name} {peer.version}: {'; '.join(wrong)}.")
    return len(compared)


def in_turns(work: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each call by round. What needs warming up was run before, when values were
    compared.
    """
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, call in work.items():
            seconds[name].append(cpu_seconds(call))
    return seconds


def ratio(seconds: list[float], baseline: list[float]) -> Ratio:
    """Of two things measured in the same rounds."""
    ratios = [spent / base for spent, base in zip(seconds, baseline)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))
