"""Lists that are ready, in a polars frame (user, item, score): Weft and the tools that take lists,
from the same frame to numbers.

    python -m benchmarks.ready_lists --tools rectools,ranx

As in `benchmarks.peers`, the truth is put into a tool's form once and not timed, the lists each
time. Weft reads both each time."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

import weft
from benchmarks.clock import Ratio
from benchmarks.data import CUTOFFS, RELEVANT, SIX, draw
from benchmarks.peers.comparison import check, in_turns, ratio
from benchmarks.peers.peer import Run, Values, cells
from benchmarks.peers.tools import PEERS, pytrec_names, ranx_names, rectools_metrics

USERS, ITEMS, LENGTH = 20_000, 50_000, 100
FOUND = 4  # of the relevant items, how many are in the list


@dataclass(frozen=True)
class Row:
    """What was measured of a tool."""

    tool: str
    version: str
    names: tuple[str, ...]  # the metrics that it has
    equal: int  # values that are Weft's
    tool_to_weft: Ratio


def make(users: int = USERS, seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Lists, best first, and a truth of which less than half was found."""
    generator = np.random.default_rng(seed)
    items = draw(users, ITEMS, LENGTH + RELEVANT - FOUND, generator)
    listed, missed = items[:, :LENGTH], items[:, LENGTH:]
    relevant = np.hstack([generator.permuted(listed, axis=1)[:, :FOUND], missed])
    scores = (
        np.arange(LENGTH, 0, -1) + generator.random(listed.shape) / 2
    )  # far enough apart for pytrec_eval's single precision
    everyone = np.arange(users)
    return (
        pl.DataFrame(
            {"user": everyone.repeat(LENGTH), "item": listed.ravel(), "score": scores.ravel()}
        ),
        pl.DataFrame({"user": everyone.repeat(RELEVANT), "item": relevant.ravel()}),
    )


def compare(tools: Iterable[str] | None = None, rounds: int = 5) -> Iterator[Row]:
    """Measure the tools that can be imported. Values that differ raise before any time is taken."""
    lists, truth = make()
    for name in TOOLS if tools is None else tools:
        if PEERS[name].absence() is None:
            yield _measure(name, lists, truth, rounds)


def _measure(name: str, lists: pl.DataFrame, truth: pl.DataFrame, rounds: int) -> Row:
    peer, (metrics, prepare) = PEERS[name], TOOLS[name]
    specs = [peer.spec(metric) for metric in metrics]

    def evaluation() -> weft.Result:
        return weft.evaluate(lists, truth, metrics=specs, top_k=CUTOFFS)

    run = prepare(lists, truth, metrics)
    equal = check(peer, metrics, run(), evaluation())
    seconds = in_turns({"weft": evaluation, "tool": run}, rounds)
    return Row(name, peer.version, tuple(metrics), equal, ratio(seconds["tool"], seconds["weft"]))


def _rectools(lists: pl.DataFrame, truth: pl.DataFrame, metrics: list[str]) -> Run:
    from rectools import Columns
    from rectools.metrics import calc_metrics

    asked = rectools_metrics(metrics)
    columns = {"user": Columns.User, "item": Columns.Item}
    wanted = truth.rename(columns).to_pandas()

    def run() -> Values:
        ranked = lists.with_columns(pl.int_range(1, pl.len() + 1).over("user").alias(Columns.Rank))
        values = calc_metrics(asked, ranked.rename(columns).to_pandas(), wanted)
        return {name: float(value) for name, value in values.items()}

    return run


def _replay(lists: pl.DataFrame, truth: pl.DataFrame, metrics: list[str]) -> Run:
    """Its metrics of polars frames, all at once as its manual advises."""
    from replay import metrics as replay_metrics

    theirs = {"nDCG": "NDCG"}
    asked = [getattr(replay_metrics, theirs.get(name, name))(CUTOFFS) for name in metrics]
    together = replay_metrics.OfflineMetrics(
        asked, query_column="user", item_column="item", rating_column="score"
    )

    def run() -> Values:
        values = together(lists, truth)
        return {
            f"{name}@{k}": float(values[f"{theirs.get(name, name)}@{k}"])
            for name, k in cells(metrics)
        }

    return run


def _ranx(lists: pl.DataFrame, truth: pl.DataFrame, metrics: list[str]) -> Run:
    import ranx

    names, judgements = (
        ranx_names(metrics),
        ranx.Qrels(_nested(truth.with_columns(score=pl.lit(1)))),
    )

    def run() -> Values:
        values = ranx.evaluate(judgements, ranx.Run(_nested(lists)), list(names), threads=1)
        return {names[name]: float(value) for name, value in values.items()}

    return run


def _pytrec_eval(lists: pl.DataFrame, truth: pl.DataFrame, metrics: list[str]) -> Run:
    import pytrec_eval

    names = pytrec_names(metrics)
    evaluator = pytrec_eval.RelevanceEvaluator(
        _nested(truth.with_columns(score=pl.lit(1))), list(names)
    )

    def run() -> Values:
        per_user = evaluator.evaluate(_nested(lists)).values()
        return {
            names[name]: float(np.mean([values[name] for values in per_user])) for name in names
        }

    return run


def _nested(frame: pl.DataFrame) -> dict[str, dict[str, float]]:
    """`{user: {item: score}}` with ids as text, as TREC tools want it."""
    rows = (
        frame.with_columns(pl.col("user", "item").cast(pl.String))
        .group_by("user", maintain_order=True)
        .agg("item", "score")
    )
    return {user: dict(zip(items, scores)) for user, items, scores in rows.iter_rows()}


TOOLS: dict[str, tuple[list[str], Callable[[pl.DataFrame, pl.DataFrame, list[str]], Run]]] = {
    "rectools": (SIX, _rectools),
    "pytrec_eval": (PEERS["pytrec_eval"].sets["six"], _pytrec_eval),
    "ranx": (SIX, _ranx),
    "replay": (SIX, _replay),
}


def main() -> None:
    """Print how many times Weft's CPU time each tool takes."""
    parser = argparse.ArgumentParser(
        description=f"{USERS} lists of {LENGTH} items, tools' CPU time as multiples of Weft's."
    )
    parser.add_argument("--tools", default=",".join(TOOLS), help="%(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="%(default)s")
    given = parser.parse_args()
    tools = given.tools.split(",")
    torch.set_num_threads(1)
    for name in tools:
        if reason := PEERS[name].absence():
            print(reason)
    print(f"{'tool':24} {'metrics':>7} {'equal':>5}  tool / Weft")
    for row in compare(tools, given.rounds):
        print(
            f"{row.tool + ' ' + row.version:24} {len(row.names):7} {row.equal:5}  "
            f"{row.tool_to_weft}",
            flush=True,
        )


if __name__ == "__main__":
    main()
