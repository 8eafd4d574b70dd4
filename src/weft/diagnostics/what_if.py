"""Alternative treatments of the data of a finding, and their effects on the metrics."""

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
    """The inputs of the evaluation of one model: lists, truth, train, catalogue."""

    lists: RawTable
    truth: RawTable
    train: RawTable | None
    items: pl.Series | None

    def tables(self) -> dict[str, RawTable]:
        """Return all tables by name."""
        return {
            table.where: table
            for table in (self.lists, self.truth, self.train)
            if table is not None
        }

    def map(self, change: Callable[[RawTable], RawTable]) -> Inputs:
        """Return the inputs with a function applied to every table."""
        return Inputs(
            change(self.lists),
            change(self.truth),
            None if self.train is None else change(self.train),
            self.items,
        )

    def catalogue(self) -> pl.Series | None:
        """Return the catalogue without repetitions, extended by all items that occur, or None."""
        if self.items is None:
            return None
        occurring = [
            self.items,
            *(table.items for table in self.tables().values() if len(table.frame)),
        ]
        return pl.concat(occurring).unique(maintain_order=True)

    def filter_users(self, users: pl.Series, *, keep: bool) -> Inputs | None:
        """Return the inputs with only some users of lists and truth, or with all others.

        None if the truth then has no users.
        """
        truth = self.truth.filter_users(users, keep=keep)
        if not len(truth.users):
            return None
        return replace(self, lists=self.lists.filter_users(users, keep=keep), truth=truth)


@dataclass(frozen=True, eq=False)
class Treatment:
    """An alternative evaluation with changed data (`change`) or changed settings.

    Without either, the values are those of the repaired data. `change` returns None if nothing is
    left to evaluate. `names` maps a requested metric to the metric that replaces it.
    """

    name: str
    change: Callable[[Inputs], Inputs | None] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DraftFinding:
    """A finding before its effects are evaluated."""

    kind: str
    severity: str
    where: str
    message: str
    count: int
    examples: tuple[Mapping[str, Any], ...]
    treatments: tuple[Treatment, ...]
    fix: str
    remark: str = ""


def draft_from_rows(
    kind: str,
    severity: str,
    table: RawTable,
    rows: pl.DataFrame,
    *,
    message: str,
    fix: str,
    treatments: tuple[Treatment, ...] = (),
    remark: str = "",
) -> DraftFinding | None:
    """Return a finding about some rows of a table, or None if there are no such rows.

    The message is "{count} of {all rows} {message}"; the examples are the first of the rows.
    """
    if not len(rows):
        return None
    text = f"{len(rows):,} of {table.rows:,} {message}"
    examples = table.examples(rows)
    return DraftFinding(
        kind, severity, table.where, text, len(rows), examples, treatments, fix, remark
    )


def drop_absent(*drafts: DraftFinding | None) -> list[DraftFinding]:
    """Return the findings that are not None, in order."""
    return [draft for draft in drafts if draft is not None]


class EffectEvaluator:
    """Evaluates treatments and compares them with the repaired data, each treatment once."""

    def __init__(
        self, repaired: Inputs, settings: Mapping[str, Any], values: Mapping[str, float]
    ) -> None:
        self._repaired = repaired
        self._settings = settings
        self._values = values
        self._cache: dict[Treatment, Mapping[str, float] | None] = {}

    def complete(self, draft: DraftFinding) -> Finding:
        """Return the finding with the effects of its treatments."""
        effects = tuple(
            Effect(
                self._repaired.lists.where,
                treatment.name,
                metric,
                None if draft.severity == "error" else value,
                treated[metric],
            )
            for treatment in draft.treatments
            if (treated := self._values_after(treatment)) is not None
            for metric, value in self._values.items()
            if metric in treated
        )
        remark = draft.remark
        if not remark and not effects:
            remark = "no user would be left to evaluate without what was found"
        return Finding(
            draft.kind,
            draft.severity,
            draft.where,
            draft.message,
            draft.count,
            draft.examples,
            effects,
            draft.fix,
            remark,
        )

    def _values_after(self, treatment: Treatment) -> Mapping[str, float] | None:
        if treatment.change is None and not treatment.settings:
            return self._values
        if treatment not in self._cache:
            data = self._repaired if treatment.change is None else treatment.change(self._repaired)
            self._cache[treatment] = None
            if data is not None:
                result = evaluate_tables(data, {**self._settings, **treatment.settings})
                names = treatment.names or {value.name: value.name for value in result.values}
                self._cache[treatment] = {
                    requested: result[name] for requested, name in names.items()
                }
        return self._cache[treatment]


def evaluate_tables(data: Inputs, settings: Mapping[str, Any]) -> Result:
    """Evaluate the tables; items that the catalogue lacks are added to it."""
    return evaluate(
        data.lists.for_evaluation(),
        data.truth.for_evaluation(),
        train=None if data.train is None else data.train.for_evaluation(),
        items=data.catalogue(),
        name=data.lists.where,
        **settings,
    )


def first_ids(kind: str, ids: pl.Series) -> tuple[dict[str, Any], ...]:
    """Return the first users or items as examples."""
    return tuple({kind: value} for value in ids.head(MAX_EXAMPLES))


def count_noun(count: int, noun: str) -> str:
    """Return a count with its noun: `1 user`, `2 users`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def join_words(parts: list[str]) -> str:
    """Join words into a phrase: `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
