"""Print the table of tools: `python -m benchmarks.peers [S] [M] [L] [--tools warprec,ranx] [--sets
six]`.
"""

from __future__ import annotations

import argparse

import torch

from benchmarks.data import SIZES
from benchmarks.peers import PEERS, compare

COLUMNS = "{:24} {:4} {:>5} {:5} {:>7} {:>6}  {:24} {:24} {:24}"


def main() -> None:
    """Name what cannot be measured, print a row for each thing measured, and what was not
    compared.
    """
    parser = argparse.ArgumentParser(
        description="Other tools' CPU time as multiples of torch.topk(scores, 100)'s and of Weft's."
    )
    parser.add_argument(
        "sizes",
        nargs="*",
        default=["S", "M"],
        metavar=",".join(SIZES),
        help="how large the data are; S M unless told",
    )
    parser.add_argument("--tools", default=",".join(PEERS), help="%(default)s")
    parser.add_argument("--sets", default="six,large", help="of metrics: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="%(default)s")
    given = parser.parse_args()
    tools = given.tools.split(",")
    torch.set_num_threads(1)
    for name in list(tools):
        if reason := PEERS[name].absence():
            print(reason)
            tools.remove(name)
    print(
        COLUMNS.format(
            "tool",
            "size",
            "users",
            "set",
            "metrics",
            "equal",
            "tool / topk",
            "Weft / topk",
            "tool / Weft",
        )
    )
    for row in compare(given.sizes, tools, given.sets.split(","), given.rounds):
        tool = f"{row.tool} {row.version}"
        ratios = (str(found) for found in (row.tool_to_topk, row.weft_to_topk, row.tool_to_weft))
        print(
            COLUMNS.format(
                tool, row.size, row.users, row.metrics, len(row.names), row.equal, *ratios
            ),
            flush=True,
        )
    for name in tools:
        for metric, reason in PEERS[name].differs.items():
            print(f"{name}'s {metric} is not compared: {reason}.")


if __name__ == "__main__":
    main()
