"""How a finding is tried out: the data, another way to treat them, and what that does to the
metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from weft.data.interaction_table import MAX_EXAMPLES
from weft.diagnostics import Effect, Finding
from weft.diagnostics.reading import RawTable
from weft.evaluation.api import evaluate
from weft.evaluation.result import Result

KINDS = ("user", "item")


@dataclass(frozen=True)
class Inputs:
    """Everything that one model is evaluated on: its lists, truth, train, catalogue."""

    lists: RawTable
    truth: RawTable
    train: RawTable | None
    items: pl.Series | None

    def tables(self) -> dict[str, RawTable]:
        """All tables by name."""
        return {
            table.where: table
            for table in (self.lists, self.truth, self.train)
            if table is not None
        }

    def map(self, change: Callable[[RawTable], RawTable]) -> Inputs:
        """The same with every table changed."""
        return Inputs(
            change(self.lists),
            change(self.truth),
            None if self.train is None else change(self.train),
            self.items,
        )

    def catalogue(self) -> pl.Series | None:
        """The catalogue, if there is one, with each item once and with all that occur."""
        if self.items is None:
            return None
        occurring = [
            self.items,
            *(table.items for table in self.tables().values() if len(table.frame)),
        ]
        return pl.concat(occurring).unique(maintain_order=True)

    def of_users(self, users: pl.Series, *, keep: bool) -> Inputs | None:
        """Only some users of lists and truth, or all but those; None where nobody of the truth is
        left.
        """
        truth = self.truth.of_users(users, keep=keep)
        return (
            replace(self, lists=self.lists.of_users(users, keep=keep), truth=truth)
            if len(truth.users)
            else None
        )


@dataclass(frozen=True, eq=False)
class Treatment:
    """Another way to evaluate: other data, other settings. Data of None cannot be evaluated; no
    change at all moves nothing.

    `names`: for a metric that was asked for, the one to look at instead.
    """

    name: str
    change: Callable[[Inputs], Inputs | None] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """A finding before its effects are known."""

    kind: str
    severity: str
    where: str
    message: str
    count: int
    examples: tuple[Mapping[str, Any], ...]
    treatments: tuple[Treatment, ...]
    fix: str
    remark: str = ""


class Trial:
    """Evaluates treatments against the values with errors repaired, each treatment once."""

    def __init__(
        self, whole: Inputs, settings: Mapping[str, Any], values: Mapping[str, float]
    ) -> None:
        self._whole = whole
        self._settings = settings
        self._values = values
        self._done: dict[Treatment, Mapping[str, float] | None] = {}

    def finding(self, one: Found) -> Finding:
        """What was found, with its effect."""
        effects = tuple(
            Effect(
                self._whole.lists.where,
                treatment.name,
                metric,
                None if one.severity == "error" else value,
                treated[metric],
            )
            for treatment in one.treatments
            if (treated := self._values_after(treatment)) is not None
            for metric, value in self._values.items()
            if metric in treated
        )
        remark = one.remark or (
            "" if effects else "no user would be left to evaluate without what was found"
        )
        return Finding(
            one.kind,
            one.severity,
            one.where,
            one.message,
            one.count,
            one.examples,
            effects,
            one.fix,
            remark,
        )

    def _values_after(self, treatment: Treatment) -> Mapping[str, float] | None:
        if treatment.change is None and not treatment.settings:
            return self._values
        if treatment not in self._done:
            data = self._whole if treatment.change is None else treatment.change(self._whole)
            self._done[treatment] = None
            if data is not None:
                result = evaluate_tables(data, {**self._settings, **treatment.settings})
                names = treatment.names or {value.name: value.name for value in result.values}
                self._done[treatment] = {asked: result[name] for asked, name in names.items()}
        return self._done[treatment]


def evaluate_tables(data: Inputs, settings: Mapping[str, Any]) -> Result:
    """What `weft.evaluate` makes of the tables; a catalogue is widened by what it lacks."""
    return evaluate(
        data.lists.for_evaluation(),
        data.truth.for_evaluation(),
        train=None if data.train is None else data.train.for_evaluation(),
        items=data.catalogue(),
        name=data.lists.where,
        **settings,
    )


def first_ids(kind: str, ids: pl.Series) -> tuple[dict[str, Any], ...]:
    """The first of some users or items, as examples."""
    return tuple({kind: value} for value in ids.head(MAX_EXAMPLES))


def many(count: int, noun: str) -> str:
    """`1 user`, `2 users`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def in_words(parts: list[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
