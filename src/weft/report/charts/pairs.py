"""Two models, user by user: which pairs and metrics a chart offers, and by how much their users
differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy import special

from weft.errors import InputError, MissingInput, SettingError, check_choice
from weft.evaluation.metric_value import MetricValue
from weft.report.charts.drawing import Canvas, Choice, find
from weft.report.charts.theme import named, ranked
from weft.report.context import ReportContext
from weft.statistics.pairing import AlignedUsers, Floats, align_users

_FEW = 4  # models, of which every pair is offered
_METRICS = 4  # offered


@dataclass(frozen=True)
class Paired:
    """The users that two models share on a metric: their differences, a - b."""

    a: str
    b: str
    value: MetricValue  # of the metric, for its name and direction
    differences: Floats
    rows: Any  # of these users among all

    @property
    def key(self) -> dict[str, str]:
        """What a reader chooses it by."""
        return {"pair": self.pair, "metric": self.value.name}

    @property
    def pair(self) -> str:
        """The names of both models."""
        return f"{named(self.a)} against {named(self.b)}"

    @property
    def right(self) -> str:
        """Whom a difference above 0 favours."""
        return self.b if self.value.higher_is_better is False else self.a

    @property
    def left(self) -> str:
        """Whom a difference below 0 favours."""
        return self.a if self.right == self.b else self.b

    @property
    def word(self) -> str:
        """What the favoured one is."""
        return "higher" if self.value.higher_is_better is None else "better"

    @property
    def axis(self) -> str:
        """What a difference is."""
        return f"{self.value.name}: {named(self.a)} less {named(self.b)}"

    @cached_property
    def counts(self) -> tuple[int, int, int]:
        """Users left of 0, at it and right of it."""
        found = self.differences
        return int((found < 0).sum()), int((found == 0).sum()), int((found > 0).sum())


def pairs(
    kind: str,
    context: ReportContext,
    canvas: Canvas,
    pair: Sequence[str] | None,
    metric: str | None,
) -> tuple[list[Paired], AlignedUsers, Choice, Choice]:
    """Every pair and metric of the chart, the first choice first."""
    if len(context.models) < 2:
        raise MissingInput(
            f"{kind} is about two models: compare results, weft.compare([a, b]).plot({kind!r})."
        )
    tables = {
        model: result for model, result in context.results.items() if result.per_user is not None
    }
    if len(tables) < 2:
        raise MissingInput(
            f"{kind} needs the values of each user of two models: evaluate them with per_user=True."
        )
    try:
        aligned = align_users(tables)
    except InputError as error:
        raise MissingInput(f"{kind} pairs users: {error}") from error
    shared = set.intersection(*(set(table.columns) for table in aligned.tables)) - {"user"}
    offered = [
        name
        for name in aligned.tables[0].columns
        if name in shared and all(name in result for result in tables.values())
    ]
    if not offered:
        raise MissingInput(
            f"{kind} needs a metric that has a value for each user of every model, such as nDCG."
        )
    heads = [name for name in context.headlines if name in offered] or offered
    metrics = heads[:_METRICS] if canvas.has_choices else heads[:1]
    if metric is not None:
        metrics = [find("metric", metric, offered)]
    places = {model: at for at, model in enumerate(tables)}
    found = []
    for name in metrics:
        values = aligned.values(name)
        entry = next(iter(tables.values())).entry(name)
        for a, b in _wanted(context, [*tables], pair, canvas):
            differences = values[places[a]] - values[places[b]]
            rows = np.flatnonzero(np.isfinite(differences))
            if len(rows):
                found.append(Paired(a, b, entry, differences[rows], rows))
    if not found:
        raise MissingInput(
            f"{kind}: no user has a defined value of {' or '.join(metrics)} from both models."
        )
    choices = (
        Choice("pair", "Models", [*dict.fromkeys(one.pair for one in found)]),
        Choice("metric", "Metric", [*dict.fromkeys(one.value.name for one in found)]),
    )
    return found, aligned, *choices


def _wanted(
    context: ReportContext, models: list[str], pair: Sequence[str] | None, canvas: Canvas
) -> list[tuple[str, str]]:
    """The pairs of the chart: the best model by the first headline metric against each other, and
    all pairs of few models.
    """
    if pair is not None:
        if isinstance(pair, str) or len([*pair]) != 2:
            raise SettingError(
                f"pair={pair!r}; it must be two models, such as pair=({models[0]!r}, "
                f"{models[1]!r})."
            )
        a, b = (
            model if model in models else check_choice("pair", model, tuple(models))
            for model in pair
        )
        if a == b:
            raise SettingError(f"pair={pair!r}; a model is compared with another one.")
        return [(a, b)]
    best = [
        model
        for model in (ranked(context, context.headlines[0]) if context.headlines else models)
        if model in models
    ]
    if not canvas.has_choices:
        return [(best[0], best[1])]
    others = best[1:]
    found = [(best[0], other) for other in others]
    return found + ([*combinations(others, 2)] if len(models) <= _FEW else [])


def mean_interval(differences: Floats) -> tuple[float, float, float]:
    """The mean and its 95 % interval by Student's t, as `weft.compare` has it; without an interval
    for one user.
    """
    n, mean = len(differences), float(differences.mean())
    if n < 2:
        return mean, math.nan, math.nan
    margin = float(special.stdtrit(n - 1, 0.975) * differences.std(ddof=1) / math.sqrt(n))
    return mean, mean - margin, mean + margin
