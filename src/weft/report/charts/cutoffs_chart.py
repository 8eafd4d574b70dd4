"""A metric against its cut-off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import altair as alt

from weft.errors import MissingInput
from weft.evaluation.metric_value import MetricValue
from weft.report.charts import marks, selection
from weft.report.charts.canvas import Canvas, Figure, Layer, SelectBox, Texts
from weft.report.charts.label_layout import spread_labels
from weft.report.charts.phrases import (
    describe_grey,
    describe_intervals,
    describe_ranking,
    direction_suffix,
)
from weft.report.charts.selection import Values
from weft.report.charts.theme import coloured_models, display_name
from weft.report.context import USUAL_CUTOFF, ReportContext

_HEIGHT = 300
_ByCutoff = dict[int, Values]


@dataclass(frozen=True)
class _MetricLines:
    """The lines of one metric: for each model its defined values by cut-off."""

    label: str
    cutoffs: list[int]
    values: dict[str, dict[int, MetricValue]]
    coloured: list[str]  # models with an interval and a label at the line

    def _numbers(self, model: str) -> list[tuple[float | None, ...]]:
        """Return value, low and high at each cut-off; only coloured models have an interval."""
        numbers: list[tuple[float | None, ...]] = []
        for k in self.cutoffs:
            value = self.values[model].get(k)
            interval = value.interval[:2] if value and model in self.coloured else (None, None)
            numbers.append((value.value if value else None, *interval))
        return numbers

    def to_row(self) -> dict[str, Any]:
        columns = (zip(*self._numbers(model)) for model in self.values)
        value, low, high = (map(list, part) for part in zip(*columns))
        return {
            "metric": self.label,
            "k": self.cutoffs,
            "model": [*map(display_name, self.values)],
            "own": [model in self.coloured for model in self.values],
            "value": [*value],
            "low": [*low],
            "high": [*high],
        }

    def to_label_rows(self, pixels: int) -> list[dict[str, Any]]:
        """Return the positions of the names at the ends of coloured lines."""
        coloured = [model for model in self.values if model in self.coloured]
        last = [max(self.values[model].items()) for model in coloured]
        numbers = chain.from_iterable(chain.from_iterable(map(self._numbers, self.values)))
        extent = [number for number in numbers if number is not None and math.isfinite(number)]
        ends = [value.value for _, value in last]
        positions = spread_labels(ends, min(extent), max(extent), pixels)
        return [
            {"metric": self.label, "model": display_name(model), "k": k, "at": position}
            for model, (k, _), position in zip(coloured, last, positions)
        ]


def cutoffs(context: ReportContext, canvas: Canvas, metric: str | None = None) -> Figure:
    """Draw a metric against its cut-off: one line per model, with bands of 95% intervals."""
    by_metric = _select_values(context, canvas, metric)
    labels = {
        name: name + direction_suffix(selection.first_value(next(iter(by_cutoff.values()))))
        for name, by_cutoff in by_metric.items()
    }
    select = SelectBox("metric", "Metric", [*labels.values()])
    lines = [_to_lines(context, labels[name], by_metric[name]) for name in by_metric]
    layers = _build_layers(context, canvas, select, lines)
    texts: Texts = {
        (labels[name],): _describe(context, name, by_cutoff)
        for name, by_cutoff in by_metric.items()
    }
    table = selection.value_table(
        (name, k, model, value)
        for name, by_cutoff in by_metric.items()
        for k, values in by_cutoff.items()
        for model, value in values.items()
    )
    shown = "Metrics" if select.is_shown else next(iter(by_metric))
    title, axis = f"{shown} by cut-off", select.selected
    return canvas.figure(title, layers, [select], texts, table, height=_HEIGHT, axis=axis)


def _select_values(
    context: ReportContext, canvas: Canvas, metric: str | None
) -> dict[str, _ByCutoff]:
    """Return the values of the metrics of the chart by cut-off, ascending; the default first."""
    by_metric: dict[str, _ByCutoff] = {}
    for values in selection.values_by_name(context).values():
        value = selection.first_value(values)
        if value.k is not None:
            by_metric.setdefault(value.metric, {})[value.k] = values
    by_metric = {name: at for name, at in by_metric.items() if len(at) > 1}
    if not by_metric:
        raise MissingInput(
            "the chart 'cutoffs' needs a metric at two or more cut-offs; evaluate with several, "
            "such as top_k=[5, 10, 20]."
        )
    if metric is None:
        headlines = _headline_names(context, by_metric)
        default = max(headlines or by_metric, key=lambda name: len(by_metric[name]))
    else:
        default = selection.find_offered("metric", metric, [*by_metric])
    shown = selection.shown_metrics(canvas, default, metric, [*by_metric])
    return {name: dict(sorted(by_metric[name].items())) for name in shown}


def _headline_names(context: ReportContext, by_metric: dict[str, _ByCutoff]) -> list[str]:
    """Return the headline metrics without their cut-offs."""
    names = dict.fromkeys(
        result.entry(headline).metric
        for headline in context.headlines
        for result in context.results.values()
        if headline in result
    )
    return [name for name in names if name in by_metric]


def _to_lines(context: ReportContext, label: str, by_cutoff: _ByCutoff) -> _MetricLines:
    coloured = coloured_models(context)
    order = sorted(context.models, key=lambda model: model in coloured)  # coloured lines on top
    values = {
        model: {k: values[model] for k, values in by_cutoff.items() if model in values}
        for model in order
    }
    drawn = {model: line for model, line in values.items() if line}
    return _MetricLines(label, [*by_cutoff], drawn, coloured)


def _build_layers(
    context: ReportContext, canvas: Canvas, select: SelectBox, lines: list[_MetricLines]
) -> list[Layer]:
    """Return bands, lines, points and the names at the ends of the lines."""
    names = marks.name_labels(coloured_models(context))
    x = _cutoff_axis(sorted({k for line in lines for k in line.cutoffs}), names.pixels)
    scale = alt.Scale(zero=False)
    y = alt.Y("value:Q", scale=scale, title=None)
    colour = marks.model_colour(context)
    opacity = alt.condition("datum.own", alt.value(1.0), alt.value(0.55))
    base = (
        canvas.chart([line.to_row() for line in lines], select)
        .transform_flatten(["model", "own", "value", "low", "high"])
        .transform_flatten(["k", "value", "low", "high"])
        .transform_filter("isValid(datum.value)")
    )
    bands = marks.add_interval_ends(base.transform_filter("datum.own"), "low", "high", "value")
    rows = [row for line in lines for row in line.to_label_rows(canvas.height or _HEIGHT)]
    labels = names.look_up(canvas, canvas.chart(rows, select), "model")
    return [
        bands.mark_area(opacity=0.14).encode(
            x=x, y=alt.Y("from:Q", scale=scale, title=None), y2="to:Q", color=colour
        ),
        base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, opacity=opacity),
        base.mark_point(filled=True, size=55).encode(
            x=x,
            y=y,
            color=colour,
            opacity=opacity,
            shape=marks.model_shape(context),
            tooltip=marks.tooltips("model:N", "metric:N", "k:Q", "value:Q", *marks.INTERVAL_FIELDS),
        ),
        marks.end_labels(labels, x, alt.Y("at:Q", scale=scale, title=None), colour),
    ]


def _cutoff_axis(cutoffs: list[int], label_pixels: str) -> alt.X:
    """Return the horizontal axis, logarithmic if the cut-offs differ widely.

    The room at its right, for the names of models, is given as an expression.
    """
    is_log = len(cutoffs) > 2 and cutoffs[-1] >= 8 * cutoffs[0]
    kind: Literal["log", "linear"] = "log" if is_log else "linear"
    scale = alt.Scale(
        type=kind,
        zero=alt.Undefined if is_log else False,
        nice=False,
        padding=10,
        range=marks.range_with_margins(label_pixels),
    )
    axis = alt.Axis(values=cutoffs, grid=False, format="d", title="cut-off k", titleAnchor="start")
    return alt.X("k:Q", scale=scale, axis=axis)


def _describe(context: ReportContext, metric: str, by_cutoff: _ByCutoff) -> str:
    k = USUAL_CUTOFF if USUAL_CUTOFF in by_cutoff else max(by_cutoff)
    values = (value for models in by_cutoff.values() for value in models.values())
    return (
        f"{metric} at k = {', '.join(map(str, by_cutoff))}: one line per model"
        f"{describe_intervals(values, 'bands')}. At k = {k}, {describe_ranking(by_cutoff[k])}."
        f"{describe_grey(context)}"
    )
