"""What is known of a tool: its metrics, how it is run, and where its definitions are others than
Weft's.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from benchmarks.data import CUTOFFS, SIX, Problem
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.profiles import PROFILES

INSTALL = "pip install --no-deps -r benchmarks/requirements-peers.txt"
LARGE = [
    *SIX,
    "AUC",
    "GAUC",
    "ItemCoverage",
    "Gini",
    "ShannonEntropy",
    "EPC",
    "EFD",
    "ARP",
    "APLT",
    "PopREO",
]
WITHOUT_CUTOFF = ("AUC", "GAUC")
Values = dict[str, float]  # by Weft's names, such as "nDCG@10"
Run = Callable[[], Values]


@dataclass(frozen=True)
class Peer:
    """A tool that is measured."""

    name: str
    package: str  # as pip knows it
    module: str  # what is imported
    prepare: Callable[[Problem, list[str]], Run]  # for a problem and metrics: what is timed
    metrics: list[str]  # of LARGE, what it has; a name with a cut-off means this one only
    profile: str | None = None  # of Weft, which knows the tool's definitions
    most_users: Mapping[str, int] = field(
        default_factory=dict
    )  # of "M", or of "M large", where all would take many minutes
    differs: Mapping[str, str] = field(
        default_factory=dict
    )  # metrics that are not compared, and why
    tolerance: float = 1e-6

    @property
    def version(self) -> str:
        """The version that is installed."""
        return version(self.package)

    @property
    def sets(self) -> dict[str, list[str]]:
        """Its metrics among the six, and all of them if there are more."""
        six = [name for name in self.metrics if parse_name(name).name in SIX]
        return {"six": six, **({"large": self.metrics} if len(self.metrics) > len(six) else {})}

    def part(self, problem: Problem, size: str, title: str) -> Problem:
        """As many of the users as the tool can do in a few minutes."""
        return problem.first(
            self.most_users.get(f"{size} {title}", self.most_users.get(size, problem.users))
        )

    def absence(self) -> str | None:
        """Why it cannot be measured here; None if it can."""
        try:
            importlib.import_module(self.module)
        except ModuleNotFoundError as error:
            return f"{self.name} is not installed ({error}): {INSTALL}"
        except (
            Exception
        ) as error:  # of any kind: WarpRec, for one, is a syntax error before Python 3.12
            return f"{self.name} cannot be imported: {type(error).__name__}: {error}"
        return None

    def spec(self, metric: str) -> MetricSpec:
        """A metric of Weft with the tool's parameters; as Weft defines it, where no profile knows
        them.
        """
        asked = parse_name(metric)
        covers = {} if self.profile is None else PROFILES[self.profile].covers
        return MetricSpec(asked.name, tuple(covers.get(asked.name, {}).items()), asked.k)


def cells(metrics: list[str]) -> list[tuple[str, int | None]]:
    """Each metric with each of its cut-offs."""
    found: list[tuple[str, int | None]] = []
    for metric in metrics:
        asked = parse_name(metric)
        cutoffs = [asked.k] if asked.k else [None] if asked.name in WITHOUT_CUTOFF else CUTOFFS
        found.extend((asked.name, k) for k in cutoffs)
    return found


def cell(name: str, k: int | None) -> str:
    """The name of a value: `nDCG@10`, `GAUC`."""
    return name if k is None else f"{name}@{k}"
