"""Heat maps: coloured cells with numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import altair as alt

from weft.evaluation.metric_value import MetricValue
from weft.report.charts.canvas import Canvas, Layer
from weft.report.charts.marks import name_labels, tooltips
from weft.report.charts.phrases import short_number
from weft.report.charts.short_labels import TEXT_PIXELS, text_pixels
from weft.report.charts.theme import INK, ON_DARK, ON_LIGHT, PAPER

ROW_PIXELS = 24
_MAX_NUMBERED_COLUMNS = 24  # with more columns, cells have no numbers
_NUMBER_PIXELS = 30  # in narrower columns, cells have no numbers
_SLANTED_PIXELS = 17  # in narrower columns, only every second or third label is shown


def finite_values(
    table: Mapping[Any, Mapping[Any, MetricValue]],
) -> list[tuple[float, Any, Any]]:
    """Return the finite values of a table with the keys of their rows and columns."""
    return [
        (value.value, row, column)
        for row, values in table.items()
        for column, value in values.items()
        if math.isfinite(value.value)
    ]


def describe_extremes(values: list[tuple[float, Any, Any]], name: Callable[[Any, Any], str]) -> str:
    """Return a sentence on the highest and the lowest of `finite_values`; `name` names a cell."""
    (high, *high_cell), (low, *low_cell) = max(values), min(values)
    return (
        f"Highest: {short_number(high)} ({name(*high_cell)}); lowest: {short_number(low)} "
        f"({name(*low_cell)})."
    )


def heatmap_layers(
    canvas: Canvas,
    cells: Layer,
    columns: list[str],
    num_rows: int,
    *,
    left: int,
    is_dark: str,
    colours: alt.Scale,
    tooltip: list[alt.Tooltip],
) -> list[Layer]:
    """Return cells, their numbers, and the labels of the columns above them.

    `cells` have the fields `row`, `column`, `shade`, `value` and `form`. They begin `left` pixels
    from the left; `is_dark` is the Vega condition of cells with light numbers.
    """
    scale = alt.Scale(domain=columns, range=[left, alt.ExprRef("width")])
    x = alt.X("column:N", sort=columns, scale=scale, axis=None)
    y = alt.Y("row:O", axis=None, scale=alt.Scale(domain=[*range(num_rows)]))
    shade = alt.Color("shade:Q", scale=colours, legend=None)
    rectangles = cells.mark_rect(stroke=PAPER, strokeWidth=1)
    layers = [rectangles.encode(x=x, y=y, color=shade, tooltip=tooltip)]
    layers.append(_column_labels(canvas, columns, x, left))
    if len(columns) <= _MAX_NUMBERED_COLUMNS:
        colour = alt.condition(is_dark, alt.value(ON_DARK), alt.value(ON_LIGHT))
        texts = cells.transform_filter("isValid(datum.value)").transform_calculate(
            text="format(datum.value, datum.form)"
        )
        column = f"(width - {left}) / {len(columns)}"
        size = alt.ExprRef(f"clamp({column} / 3.4, 9, {TEXT_PIXELS})")
        opacity = alt.ExprRef(f"{column} < {_NUMBER_PIXELS} ? 0 : 1")
        mark = texts.mark_text(fontSize=size, opacity=opacity)
        layers.append(mark.encode(x=x, y=y, text="text:N", color=colour, tooltip=tooltip))
    return layers


def _column_labels(canvas: Canvas, columns: list[str], x: alt.X, left: int) -> Layer:
    """Return the labels of the columns: wide if these fit, else narrow, slanted if needed."""
    labels = name_labels(columns)
    rows = [{"column": name, "index": index} for index, name in enumerate(columns)]
    narrow, wide = (
        max(map(text_pixels, texts.values())) + 8 for texts in (labels.narrow, labels.wide)
    )
    column = f"(width - {left}) / {len(columns)}"
    fits = f"{column} >= {narrow:.0f}"
    step = f"ceil({_SLANTED_PIXELS} / ({column}))"
    mark = labels.look_up(canvas, canvas.chart(rows), "column").mark_text(
        text=alt.ExprRef(f"{column} >= {wide:.0f} ? datum.wide : datum.narrow"),
        angle=alt.ExprRef(f"{fits} ? 0 : 40"),  # slanted labels reach to the left, where room is
        align=alt.ExprRef(f"{fits} ? 'center' : 'right'"),
        opacity=alt.ExprRef(f"{fits} || datum.index % {step} === 0 ? 1 : 0"),
        baseline="bottom",
        dy=-6,
        color=INK,
    )
    return mark.encode(x=x, y=alt.value(0), tooltip=tooltips("column:N"))
