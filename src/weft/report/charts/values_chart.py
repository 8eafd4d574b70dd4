"""A metric of all models, one below the other."""

from __future__ import annotations

from typing import Any

import altair as alt

from weft.errors import MissingInput
from weft.report.charts import marks, selection
from weft.report.charts.canvas import Canvas, Figure, Layer, SelectBox, Texts
from weft.report.charts.phrases import (
    best_first,
    common_format,
    describe_intervals,
    describe_ranking,
    name_with_direction,
)
from weft.report.charts.selection import Values
from weft.report.charts.theme import display_name
from weft.report.context import ReportContext

_ROW_PIXELS = 24
_NUMBER_PIXELS = 64  # room for the numbers at the right
_MAX_OFFERED = 60  # metrics at their cut-offs; of more, one cut-off of each metric is offered


def values(context: ReportContext, canvas: Canvas, metric: str | None = None) -> Figure:
    """Draw a metric of all models: a point each, with its 95% interval, the best on top."""
    by_name = _select_values(context, canvas, metric)
    labels = {name: name_with_direction(selection.first_value(by_name[name])) for name in by_name}
    select = SelectBox("metric", "Metric", [*labels.values()])
    rows = [_to_row(labels[name], by_name[name]) for name in by_name]
    layers = _build_layers(context, canvas, canvas.chart(rows, select))
    texts: Texts = {(label,): _describe(label, by_name[name]) for name, label in labels.items()}
    table = selection.value_table(
        (name, None, model, value)
        for name, of_models in by_name.items()
        for model, value in of_models.items()
    )
    title = "Metric values by model" if select.is_shown else f"{next(iter(by_name))} by model"
    height, axis = _ROW_PIXELS * max(map(len, by_name.values())), select.selected
    return canvas.figure(title, layers, [select], texts, table, height=height, axis=axis)


def _select_values(context: ReportContext, canvas: Canvas, metric: str | None) -> dict[str, Values]:
    """Return the values of the metrics of the chart by model; the default metric first."""
    known = selection.values_by_name(context)
    if not known:
        raise MissingInput("the chart 'values' needs a metric with a defined value.")
    offered = [*known] if len(known) <= _MAX_OFFERED else _one_cutoff_each(context, known)
    default = next(iter([*context.headlines, *known]))
    if metric is not None:
        default = selection.find_offered("metric", metric, [*known])
    return {name: known[name] for name in selection.shown_metrics(canvas, default, metric, offered)}


def _one_cutoff_each(context: ReportContext, known: dict[str, Values]) -> list[str]:
    """Return every metric at one cut-off: that of the headline metrics, if it has it."""
    usual = {selection.first_value(known[name]).k for name in context.headlines if name in known}
    names: dict[str, str] = {}
    for name, of_models in known.items():
        value = selection.first_value(of_models)
        if value.metric not in names or value.k in usual:
            names[value.metric] = name
    return list(names.values())


def _to_row(label: str, of_models: Values) -> dict[str, Any]:
    models = best_first(of_models)
    ordered = [of_models[model] for model in models]
    return {
        "metric": label,
        "form": common_format([value.value for value in ordered], 4),
        "model": [*map(display_name, models)],
        "rank": [*range(len(models))],
        "value": [value.value for value in ordered],
        "low": [value.interval.low for value in ordered],
        "high": [value.interval.high for value in ordered],
        "users": [value.users for value in ordered],
    }


def _describe(label: str, of_models: Values) -> str:
    has_direction = selection.first_value(of_models).merit is not None
    order = "the best at the top" if has_direction else "the highest at the top"
    intervals = describe_intervals(of_models.values(), "lines")
    return f"{label} of each model, {order}{intervals}. {describe_ranking(of_models)}."


def _build_layers(context: ReportContext, canvas: Canvas, rows: Layer) -> list[Layer]:
    """Return intervals, points, names of models, and values as numbers."""
    labels = marks.name_labels(context.models)
    base = rows.transform_flatten(["model", "rank", "value", "low", "high", "users"])
    base = base.transform_calculate(text="format(datum.value, datum.form)")
    y = alt.Y("model:N", sort=alt.EncodingSortField("rank", op="min"), axis=None)
    x_range = marks.range_with_margins(f"{_NUMBER_PIXELS}", labels.pixels)
    scale = alt.Scale(zero=False, padding=12, range=x_range)
    start = alt.X("from:Q", scale=scale, title=None)
    colour = marks.model_colour(context)
    tooltip = marks.tooltips("model:N", "metric:N", "value:Q", *marks.INTERVAL_FIELDS, "users:Q")
    return [
        marks.add_interval_ends(base, "low", "high", "value")
        .mark_rule(strokeWidth=2.5, strokeCap="round")
        .encode(x=start, x2="to:Q", y=y, color=colour, tooltip=tooltip),
        base.mark_point(filled=True, size=75, opacity=1).encode(
            x=alt.X("value:Q", scale=scale, title=None),
            y=y,
            color=colour,
            shape=marks.model_shape(context),
            tooltip=tooltip,
        ),
        labels.look_up(canvas, base, "model")
        .mark_text(align="left", text=alt.ExprRef(marks.LABEL_TEXT))
        .encode(x=alt.value(0), y=y, tooltip=tooltip),
        base.mark_text(align="right").encode(x=alt.value(alt.ExprRef("width")), y=y, text="text:N"),
    ]
