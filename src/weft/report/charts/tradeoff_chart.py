"""An accuracy metric against another metric, with the Pareto front."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import altair as alt

from weft.errors import MissingInput, SettingError
from weft.evaluation.metric_value import MetricValue
from weft.report.charts import marks, selection
from weft.report.charts.canvas import Canvas, Figure, Layer, SelectBox, Texts
from weft.report.charts.label_layout import place_point_labels
from weft.report.charts.phrases import (
    describe_grey,
    describe_intervals,
    list_names,
    name_with_direction,
    short_number,
)
from weft.report.charts.selection import Values
from weft.report.charts.theme import MUTED, PAPER, coloured_models, display_name
from weft.report.context import ReportContext, metric_family
from weft.statistics.pareto import pareto_optimal

_HEIGHT = 320
_LEGEND_PIXELS = 84  # of the Pareto front, left of the caption of the horizontal axis
# Families of the vertical axis; a metric that is not registered here ("other") may be anything.
_ACCURACY = ("accuracy", "rating", "other")
_FAMILY_ORDER = {"diversity": 0, "novelty": 1, "bias": 2, "coverage": 3}  # of the horizontal axis
_FIELDS = ["model", "front", "x", "x1", "x2", "at", "side"]


@dataclass(frozen=True)
class _Points:
    """The models by two metrics: (value across, value upright), and the models on the front."""

    name: str
    label: str
    values: dict[str, tuple[MetricValue, MetricValue]]
    front: list[str]

    def to_row(self, context: ReportContext, height: int) -> dict[str, Any]:
        points = {model: (x.value, y.value) for model, (x, y) in self.values.items()}
        coloured = coloured_models(context)
        narrow = marks.name_labels(coloured).narrow
        labels = {model: narrow[display_name(model)] for model in coloured}
        placed = place_point_labels(points, labels, height)
        rows = []
        for model, (x, _) in self.values.items():
            at, side = placed.get(model, (None, None))
            point = (x.value, *x.interval[:2], at, side)
            rows.append((display_name(model), model in self.front, *point))
        return {"metric": self.label} | dict(zip(_FIELDS, map(list, zip(*rows))))


def tradeoff(
    context: ReportContext, canvas: Canvas, x: str | None = None, y: str | None = None
) -> Figure:
    """Draw an accuracy metric against another one: a point per model, and the Pareto front."""
    known, upright, across = _select_metrics(context, canvas, x, y)
    all_points = (_select_points(context, known, name, upright) for name in across)
    points = [one for one in all_points if one.values]
    if not points:
        raise MissingInput(
            f"the chart 'tradeoff' needs a model with both metrics; none has both {across[0]} and "
            f"{upright}."
        )
    upright_label, *labels = (
        name_with_direction(selection.first_value(known[name])) for name in (upright, *across)
    )
    select = SelectBox("metric", "Horizontal axis", labels)
    rows = [one.to_row(context, canvas.height or _HEIGHT) for one in points]
    layers = _build_layers(context, canvas, select, rows, known[upright])
    texts: Texts = {}
    for one in points:
        pairs = one.values.values()
        intervals = describe_intervals((value for pair in pairs for value in pair), "lines")
        opening = f"{upright_label} versus {one.label}: one point per model{intervals}."
        texts[one.label,] = f"{opening} {_describe_front(one, upright)}{describe_grey(context)}"
    other = "other metrics" if select.is_shown else points[0].name
    title = f"{upright} versus {other}"
    table = [row for one in points for row in _to_table(one, upright)]
    return canvas.figure(title, layers, [select], texts, table, height=_HEIGHT, axis=upright_label)


def _select_metrics(
    context: ReportContext, canvas: Canvas, x: str | None, y: str | None
) -> tuple[dict[str, Values], str, list[str]]:
    """Return all values by metric, the upright metric, and the metrics across, the default first.

    Raises `MissingInput` if there are fewer than two models or metrics.
    """
    if len(context.models) < 2:
        raise MissingInput(
            "the chart 'tradeoff' needs two or more models; compare results, such as "
            "weft.compare([a, b]).plot('tradeoff')."
        )
    known = {
        name: values
        for name, values in selection.values_by_name(context).items()
        if selection.first_value(values).merit is not None
    }
    upright = (
        _accuracy_metric(context, known) if y is None else selection.find_offered("y", y, [*known])
    )
    beyond = _metrics_beyond_accuracy(context, known, upright)
    if x is None and not beyond:
        raise MissingInput(
            "the chart 'tradeoff' needs an accuracy metric and a metric of another kind; evaluate, "
            "for example, nDCG and Gini."
        )
    default = beyond[0] if x is None else selection.find_offered("x", x, [*known])
    if default == upright:
        raise SettingError(f"x and y are both {upright!r}; choose two different metrics.")
    return known, upright, selection.shown_metrics(canvas, default, x, beyond)


def _accuracy_metric(context: ReportContext, known: dict[str, Values]) -> str:
    for name in [*context.headlines, *known]:
        if metric_family(name) in _ACCURACY:
            return name
    raise MissingInput(
        "the chart 'tradeoff' needs an accuracy metric; evaluate, for example, nDCG, or give y=."
    )


def _metrics_beyond_accuracy(
    context: ReportContext, known: dict[str, Values], upright: str
) -> list[str]:
    """Return metrics of other families at the same cut-off or without one; headlines first."""
    cutoffs = (selection.first_value(known[upright]).k, None)
    excluded = {metric_family(upright), *_ACCURACY[:2]}
    names = [
        name
        for name, values in known.items()
        if name != upright
        and selection.first_value(values).k in cutoffs
        and metric_family(name) not in excluded
    ]

    def key(name: str) -> tuple[bool, int]:
        return name not in context.headlines, _FAMILY_ORDER.get(metric_family(name), 9)

    return sorted(names, key=key)


def _select_points(
    context: ReportContext, known: dict[str, Values], name: str, upright: str
) -> _Points:
    values = {
        model: (known[name][model], known[upright][model])
        for model in context.models
        if model in known[name] and model in known[upright]
    }
    merits = {model: [value.merit or 0.0 for value in pair] for model, pair in values.items()}
    front = [*pareto_optimal(merits)] if values else []
    return _Points(name, name_with_direction(selection.first_value(known[name])), values, front)


def _build_layers(
    context: ReportContext,
    canvas: Canvas,
    select: SelectBox,
    rows: list[dict[str, Any]],
    upright: Values,
) -> list[Layer]:
    """Return the front, intervals, points, their names, and the caption of the horizontal axis."""
    names = marks.name_labels(coloured_models(context))
    base = canvas.chart(rows, select).transform_flatten(_FIELDS)
    base = base.transform_lookup("model", from_=_look_up_heights(canvas, upright))
    x_scale, y_scale = alt.Scale(zero=False, padding=16), alt.Scale(zero=False, padding=12)
    x = alt.X("x:Q", scale=x_scale, axis=alt.Axis(title=None))
    y = alt.Y("y:Q", scale=y_scale, title=None)
    colour = marks.model_colour(context)
    tooltip = marks.tooltips(
        "model:N",
        *(("x:Q", "horizontal axis"), ("x1:Q", "95% from"), ("x2:Q", "95% to")),
        ("y:Q", next(iter(upright.values())).plain_name),
        *(("y1:Q", "95% from "), ("y2:Q", "95% to ")),
        ("metric:N", "metric of the horizontal axis"),
    )
    front = base.transform_filter("datum.front")
    return [
        front.mark_line(strokeDash=[5, 4], strokeWidth=1.5, color=MUTED).encode(x=x, y=y),
        *_interval_layers(base, x, y, colour),
        front.mark_point(size=260, color=MUTED, strokeWidth=1.2, opacity=1).encode(x=x, y=y),
        base.mark_point(filled=True, size=85, opacity=1).encode(
            x=x, y=y, color=colour, shape=marks.model_shape(context), tooltip=tooltip
        ),
        *_name_layers(names.look_up(canvas, base, "model"), x, y_scale, colour, tooltip),
        marks.axis_caption(
            canvas.chart([{"metric": one} for one in select.options], select),
            "metric",
            reserved=_LEGEND_PIXELS,
        ),
        canvas.chart([{}])
        .mark_text(align="left", baseline="top", color=MUTED, text="○ Pareto front")
        .encode(x=alt.value(0), y=alt.value(alt.ExprRef("height + 27"))),
    ]


def _look_up_heights(canvas: Canvas, upright: Values) -> alt.LookupData:
    """Return the values of the vertical axis with their intervals, by model."""
    heights = [
        {"model": display_name(model), "y": value.value}
        | {"y1": value.interval.low, "y2": value.interval.high}
        for model, value in upright.items()
    ]
    return canvas.lookup(heights, "model", "y", "y1", "y2")


def _interval_layers(base: Layer, x: alt.X, y: alt.Y, colour: alt.Color) -> list[Layer]:
    """Return the intervals of both axes."""
    horizontal, vertical = (
        marks.add_interval_ends(base, f"{axis}1", f"{axis}2", axis).mark_rule(opacity=0.6)
        for axis in ("x", "y")
    )
    x_start = alt.X("from:Q", scale=x["scale"], axis=alt.Axis(title=None))
    y_start = alt.Y("from:Q", scale=y["scale"], title=None)
    return [
        horizontal.encode(x=x_start, x2="to:Q", y=y, color=colour),
        vertical.encode(x=x, y=y_start, y2="to:Q", color=colour),
    ]


def _name_layers(
    base: Layer, x: alt.X, y_scale: alt.Scale, colour: alt.Color, tooltip: list[alt.Tooltip]
) -> list[Layer]:
    """Return the names of models left or right of their points, on a background without lines."""
    sides: tuple[tuple[str, Literal["right", "left"], int], ...]
    sides = (("left", "right", -12), ("right", "left", 12))
    layers = []
    for side, align, shift in sides:
        texts = base.transform_filter(f"datum.side === '{side}'")
        text = alt.ExprRef(marks.LABEL_TEXT)
        style = {"align": align, "dx": shift, "text": text, "baseline": "middle"}
        encoding = {"x": x, "y": alt.Y("at:Q", scale=y_scale, title=None)}
        layers.append(texts.mark_text(**style, stroke=PAPER, strokeWidth=4).encode(**encoding))
        layers.append(texts.mark_text(**style).encode(**encoding, color=colour, tooltip=tooltip))
    return layers


def _to_table(points: _Points, upright: str) -> list[dict[str, Any]]:
    return [
        {
            "model": model,
            "x metric": points.name,
            "x value": x.value,
            "y metric": upright,
            "y value": y.value,
            "on the Pareto front": model in points.front,
        }
        for model, (x, y) in points.values.items()
    ]


def _describe_front(points: _Points, upright: str) -> str:
    front = sorted(points.front, key=lambda model: points.values[model][0].value)
    leaders = []
    for model in front:
        x, y = (short_number(value.value) for value in points.values[model])
        leaders.append(f"{display_name(model)} ({points.name} {x}, {upright} {y})")
    others = [display_name(model) for model in points.values if model not in points.front]
    not_on_front = f" Not on the front: {list_names(others)}." if others else ""
    return (
        "Circles mark the Pareto front: models for which no other model is better in one metric "
        f"and at least as good in the other. On the front: {list_names(leaders)}.{not_on_front}"
    )
