"""How a finding is tried out: the data, another way to treat them, and what that does to the metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from weft.checks import Effect, Finding
from weft.checks.tables import SHOWN, Table
from weft.result import Result
from weft.run import evaluate

KINDS = ("user", "item")


@dataclass(frozen=True)
class Inputs:
    """Everything that was given: lists by model, truth, train, catalogue."""

    lists: Mapping[str, Table]
    truth: Table
    train: Table | None
    items: pl.Series | None

    def tables(self) -> dict[str, Table]:
        """All tables by name."""
        return {**self.lists, "truth": self.truth, **({} if self.train is None else {"train": self.train})}

    def map(self, change: Callable[[Table], Table]) -> Inputs:
        """The same with every table changed."""
        lists = {name: change(table) for name, table in self.lists.items()}
        return Inputs(lists, change(self.truth), None if self.train is None else change(self.train), self.items)

    def with_lists(self, table: Table) -> Inputs:
        """The same with other lists of one model."""
        return replace(self, lists={**self.lists, table.where: table})

    def with_whole_catalogue(self) -> Inputs:
        """The same with a catalogue, if there is one, that holds each item once and all that occur."""
        if self.items is None:
            return self
        occurring = [self.items, *(table.items for table in self.tables().values() if len(table.frame))]
        return replace(self, items=pl.concat(occurring).unique(maintain_order=True))

    def of_users(self, users: pl.Series, *, keep: bool) -> Inputs | None:
        """Only some users of lists and truth, or all but those; None where nobody of the truth is left."""
        truth = self.truth.of_users(users, keep=keep)
        lists = {name: table.of_users(users, keep=keep) for name, table in self.lists.items()}
        return replace(self, lists=lists, truth=truth) if len(truth.users) else None


@dataclass(frozen=True, eq=False)
class Treatment:
    """Another way to evaluate: other data, other settings. Data of None cannot be evaluated; no change at all moves nothing.

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

    def __init__(self, whole: Inputs, settings: Mapping[str, Any], values: Mapping[str, Mapping[str, float]]) -> None:
        self._whole = whole
        self._settings = settings
        self._values = values
        self._done: dict[tuple[str, Treatment], dict[str, float] | None] = {}

    def finding(self, one: Found) -> Finding:
        """What was found, with its effect on each model that it concerns."""
        models = [one.where] if one.where in self._whole.lists else list(self._whole.lists)
        effects = tuple(
            Effect(model, treatment.name, metric, None if one.severity == "error" else value, treated[metric])
            for model in models
            for treatment in one.treatments
            if (treated := self._values_after(model, treatment)) is not None
            for metric, value in self._values[model].items()
            if metric in treated
        )
        remark = one.remark or ("" if effects else "no user would be left to evaluate without what was found")
        return Finding(one.kind, one.severity, one.where, one.message, one.count, one.examples, effects, one.fix, remark)

    def _values_after(self, model: str, treatment: Treatment) -> dict[str, float] | None:
        if treatment.change is None and not treatment.settings:
            return dict(self._values[model])
        key = (model, treatment)
        if key not in self._done:
            data = self._whole if treatment.change is None else treatment.change(self._whole)
            self._done[key] = None
            if data is not None:
                # A treatment may bring back rows of items that the repaired data do not have.
                result = evaluate_model(data.with_whole_catalogue(), model, {**self._settings, **treatment.settings})
                names = treatment.names or {value.name: value.name for value in result.values}
                self._done[key] = {asked: result[name] for asked, name in names.items()}
        return self._done[key]


def evaluate_model(data: Inputs, model: str, settings: Mapping[str, Any]) -> Result:
    """The lists of one model, evaluated."""
    return evaluate(
        data.lists[model].for_evaluation(),
        data.truth.for_evaluation(),
        train=None if data.train is None else data.train.for_evaluation(),
        items=data.items,
        name=model,
        **settings,
    )


def first_ids(kind: str, ids: pl.Series) -> tuple[dict[str, Any], ...]:
    """The first of some users or items, as examples."""
    return tuple({kind: value} for value in ids.head(SHOWN))


def many(count: int, noun: str) -> str:
    """`1 user`, `2 users`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def in_words(parts: list[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
