"""Differences of two models per user: the pairs and metrics that a chart offers."""

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
from weft.evaluation.result import Result
from weft.report.charts.canvas import Canvas, SelectBox
from weft.report.charts.marks import NameLabels, name_labels
from weft.report.charts.selection import headline_metrics
from weft.report.charts.theme import display_name, rank_models
from weft.report.context import ReportContext
from weft.statistics.pairing import AlignedUsers, Floats, align_users

_MAX_MODELS_ALL_PAIRS = 4  # with more models, only pairs with the best one are offered
_MAX_METRICS = 4


@dataclass(frozen=True)
class UserDifferences:
    """The differences a - b of two models on a metric, of the users that both have."""

    a: str
    b: str
    value: MetricValue  # of the metric, for its name and direction
    differences: Floats
    rows: Any  # indices of these users among all aligned users
    labels: NameLabels  # of all paired models

    @property
    def key(self) -> dict[str, str]:
        """The options of the select boxes."""
        return {"pair": self.option, "metric": self.value.name}

    @property
    def names(self) -> dict[str, str]:
        """The models and the metric in tables and tooltips."""
        return {"models": self.pair, "metric": self.value.name}

    @property
    def pair(self) -> str:
        """The names of both models."""
        return f"{display_name(self.a)} vs. {display_name(self.b)}"

    @property
    def option(self) -> str:
        """The option of the select box, with short names."""
        a, b = (self.labels.wide[display_name(model)] for model in (self.a, self.b))
        return f"{a} vs. {b}"

    @property
    def right(self) -> str:
        """The model that a difference above 0 favours, as charts show it."""
        return display_name(self.b if self.value.higher_is_better is False else self.a)

    @property
    def left(self) -> str:
        """The model that a difference below 0 favours, as charts show it."""
        return display_name(self.a if self.value.higher_is_better is False else self.b)

    @property
    def adjective(self) -> str:
        """A word for the favoured model."""
        return "higher" if self.value.higher_is_better is None else "better"

    @property
    def axis(self) -> str:
        """The title of the axis of differences."""
        return f"difference in {self.value.name}"

    @property
    def subtraction(self) -> str:
        """The difference in words."""
        return f"{display_name(self.a)} − {display_name(self.b)}"

    @cached_property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of users below 0, at 0 and above 0."""
        signs = np.sign(self.differences)
        below, equal, above = (int((signs == sign).sum()) for sign in (-1, 0, 1))
        return below, equal, above


def select_differences(
    kind: str,
    context: ReportContext,
    canvas: Canvas,
    pair: Sequence[str] | None,
    metric: str | None,
) -> tuple[list[UserDifferences], AlignedUsers]:
    """Return the differences of every pair and metric of the chart, the defaults first.

    Raises `MissingInput` if there are no values per user to pair.
    """
    results, aligned = _align_users(kind, context)
    metrics = headline_metrics(
        context, canvas, metric, _paired_metrics(kind, results, aligned), _MAX_METRICS
    )
    pairs = _select_pairs(context, [*results], pair, canvas)
    index = {model: place for place, model in enumerate(results)}
    labels = name_labels(results)
    found = []
    for name in metrics:
        values = aligned.values(name)
        entry = next(iter(results.values())).entry(name)
        for a, b in pairs:
            differences = values[index[a]] - values[index[b]]
            rows = np.flatnonzero(np.isfinite(differences))
            if len(rows):
                found.append(UserDifferences(a, b, entry, differences[rows], rows, labels))
    if not found:
        raise MissingInput(
            f"the chart {kind!r} needs users with a defined value of {' or '.join(metrics)} in "
            "both models; there are none."
        )
    return found, aligned


def difference_selects(found: list[UserDifferences]) -> tuple[SelectBox, SelectBox]:
    """Return the select boxes of the pair and the metric."""
    return (
        SelectBox("pair", "Models", [*dict.fromkeys(one.option for one in found)]),
        SelectBox("metric", "Metric", [*dict.fromkeys(one.value.name for one in found)]),
    )


def _align_users(kind: str, context: ReportContext) -> tuple[dict[str, Result], AlignedUsers]:
    """Return the results with values per user, and these values aligned by user."""
    if len(context.models) < 2:
        raise MissingInput(
            f"the chart {kind!r} needs two models; compare results, such as weft.compare([a, "
            f"b]).plot({kind!r})."
        )
    results = {
        model: result for model, result in context.results.items() if result.per_user is not None
    }
    if len(results) < 2:
        raise MissingInput(
            f"the chart {kind!r} needs per-user values of two models; evaluate them with "
            "per_user=True."
        )
    try:
        return results, align_users(results)
    except InputError as error:
        raise MissingInput(f"the chart {kind!r} pairs users: {error}") from error


def _paired_metrics(kind: str, results: dict[str, Result], aligned: AlignedUsers) -> list[str]:
    """Return the metrics for which every model has values per user."""
    shared = set.intersection(*(set(table.columns) for table in aligned.tables)) - {"user"}
    offered = [
        name
        for name in aligned.tables[0].columns
        if name in shared and all(name in result for result in results.values())
    ]
    if not offered:
        raise MissingInput(
            f"the chart {kind!r} needs a metric that has per-user values in every model, such as "
            "nDCG."
        )
    return offered


def _select_pairs(
    context: ReportContext, models: list[str], pair: Sequence[str] | None, canvas: Canvas
) -> list[tuple[str, str]]:
    """Return the requested pair, or the best model against each other, then the other pairs.

    The best model is the one by the first headline metric; the other pairs follow if there are few
    models.
    """
    if pair is not None:
        return [_check_pair(models, pair)]
    ranked = rank_models(context, context.headlines[0]) if context.headlines else models
    best, *others = [model for model in ranked if model in models]
    if not canvas.has_selects:
        return [(best, others[0])]
    pairs = [(best, other) for other in others]
    return pairs + ([*combinations(others, 2)] if len(models) <= _MAX_MODELS_ALL_PAIRS else [])


def _check_pair(models: list[str], pair: Sequence[str]) -> tuple[str, str]:
    if isinstance(pair, str) or len([*pair]) != 2:
        raise SettingError(
            f"pair={pair!r}; it must be two models, such as pair=({models[0]!r}, {models[1]!r})."
        )
    a, b = (
        model if model in models else check_choice("pair", model, tuple(models)) for model in pair
    )
    if a == b:
        raise SettingError(f"pair={pair!r}; choose two different models.")
    return a, b


def mean_interval(differences: Floats) -> tuple[float, float, float]:
    """Return the mean and its 95% interval by Student's t, without a correction.

    The interval of a single user is NaN.
    """
    n, mean = len(differences), float(differences.mean())
    if n < 2:
        return mean, math.nan, math.nan
    margin = float(special.stdtrit(n - 1, 0.975) * differences.std(ddof=1) / math.sqrt(n))
    return mean, mean - margin, mean + margin
