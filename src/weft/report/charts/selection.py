"""Selection of the metrics, values and tables that a chart shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import polars as pl

from weft.errors import MissingInput, SettingError, check_choice
from weft.evaluation.metric_value import MetricValue
from weft.metrics.registry import canonical_name
from weft.report.charts.canvas import Canvas, SelectBox
from weft.report.charts.theme import coloured_models
from weft.report.context import USUAL_CUTOFF, ReportContext

Values = dict[str, MetricValue]  # by model


def find_offered(parameter: str, name: str, offered: Sequence[str]) -> str:
    """Return the offered metric that `name` means, in any spelling.

    Raises `SettingError` for `parameter` if there is none.
    """
    with suppress(SettingError):  # a metric that is not registered here is found by its exact name
        if isinstance(name, str) and canonical_name(name) in offered:
            return canonical_name(name)
    return check_choice(parameter, name, tuple(offered))


def values_by_name(context: ReportContext) -> dict[str, Values]:
    """Return the defined values of every metric at its cut-off, without values of single labels."""
    values_by_name: dict[str, Values] = {}
    for row in context.metric_rows:
        values = {
            model: value
            for model, value in zip(context.models, row.values)
            if value is not None and math.isfinite(value.value)
        }
        if values and not first_value(values).cell:
            values_by_name[row.name] = values
    return values_by_name


def first_value(values: Mapping[str, MetricValue]) -> MetricValue:
    """Return the value of the first model."""
    return next(iter(values.values()))


def shown_metrics(
    canvas: Canvas, default: str, requested: str | None, offered: Sequence[str]
) -> list[str]:
    """Return all offered metrics, the default first; only the default if there is no select box."""
    if requested is not None or not canvas.has_selects:
        return [default]
    return [default, *(name for name in offered if name != default)]


def headline_metrics(
    context: ReportContext,
    canvas: Canvas,
    requested: str | None,
    offered: Sequence[str],
    limit: int,
) -> list[str]:
    """Return the requested metric, or up to `limit` headline metrics; one without a select box."""
    if requested is not None:
        return [find_offered("metric", requested, offered)]
    headlines = [name for name in context.headlines if name in offered] or offered
    return [*headlines[: limit if canvas.has_selects else 1]]


def value_table(rows: Iterable[tuple[str, int | None, str, MetricValue]]) -> pl.DataFrame:
    """Return a table of metric, cut-off (if there are any), model, value, interval and users."""
    schema = {"metric": pl.String, "cut-off": pl.Int64, "model": pl.String, "value": pl.Float64}
    schema |= {"95% from": pl.Float64, "95% to": pl.Float64, "users": pl.Int64}
    records = [
        (name, k, model, value.value, value.interval.low, value.interval.high, value.users)
        for name, k, model, value in rows
    ]
    table = pl.DataFrame(records, schema=schema, orient="row")
    return table.drop("cut-off") if table["cut-off"].is_null().all() else table


def select_frames(
    kind: str, context: ReportContext, canvas: Canvas, k: int | None
) -> tuple[dict[str, pl.DataFrame], list[int]]:
    """Return the per-item tables `kind` of the models that have one, and the cut-offs.

    The default cut-off is first; models with a colour are last, so that they are drawn on top.
    Raises `MissingInput` if no result has the table, and `SettingError` if it lacks the cut-off.
    """
    coloured = coloured_models(context)
    models = sorted(context.models, key=lambda model: model in coloured)
    tables = {model: getattr(context.results[model], kind) for model in models}
    frames = {model: table for model, table in tables.items() if table is not None and len(table)}
    if not frames:
        more = " and train=" if kind == "popularity" else ""
        raise MissingInput(
            f"the chart {kind!r} needs the number of recommendations of each item; evaluate with "
            f"exposure=True{more}."
        )
    known = set().union(*(frame["k"] for frame in frames.values()))
    cutoffs = sorted(known, key=lambda cutoff: (cutoff != USUAL_CUTOFF, cutoff))
    if k is None:
        return frames, cutoffs if canvas.has_selects else cutoffs[:1]
    if isinstance(k, bool) or k not in known:
        listed = ", ".join(map(str, sorted(known)))
        raise SettingError(f"k={k!r}; the chart {kind!r} is available at k = {listed}.")
    return frames, [k]


def cutoff_select(cutoffs: list[int]) -> SelectBox:
    """Return the select box of the cut-off."""
    return SelectBox("cut", "Cut-off", [f"k = {k}" for k in cutoffs])
