"""Heat maps: coloured cells with numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import altair as alt

from weft.evaluation.metric_value import MetricValue
from weft.report.charts.canvas import Layer
from weft.report.charts.phrases import short_number
from weft.report.charts.theme import INK, ON_DARK, ON_LIGHT, PAPER

ROW_PIXELS = 24
_MAX_NUMBERED_COLUMNS = 24  # with more columns, cells have no numbers
_NUMBER_PIXELS = 34
_MANY_COLUMNS = 10  # with more columns, labels may be dropped


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
        f"Highest: {short_number(high)} for {name(*high_cell)}; lowest: {short_number(low)} for "
        f"{name(*low_cell)}."
    )


def heatmap_layers(
    cells: Layer,
    columns: list[str],
    num_rows: int,
    *,
    left: int,
    is_dark: str,
    colours: alt.Scale,
    tooltip: list[alt.Tooltip],
) -> list[Layer]:
    """Return cells with fields `row`, `column`, `shade`, `value` and `form`, and their numbers.

    The cells begin `left` pixels from the left; `is_dark` is the Vega condition of cells with light
    numbers.
    """
    scale = alt.Scale(domain=columns, range=[left, alt.ExprRef("width")])
    x = alt.X("column:N", sort=columns, scale=scale, axis=_column_axis(columns, left))
    y = alt.Y("row:O", axis=None, scale=alt.Scale(domain=[*range(num_rows)]))
    shade = alt.Color("shade:Q", scale=colours, legend=None)
    rectangles = cells.mark_rect(stroke=PAPER, strokeWidth=1)
    layers = [rectangles.encode(x=x, y=y, color=shade, tooltip=tooltip)]
    if len(columns) <= _MAX_NUMBERED_COLUMNS:
        colour = alt.condition(is_dark, alt.value(ON_DARK), alt.value(ON_LIGHT))
        texts = cells.transform_filter("isValid(datum.value)").transform_calculate(
            text="format(datum.value, datum.form)"
        )
        size = alt.ExprRef(f"clamp((width - {left}) / {3.3 * len(columns):.1f}, 7, 11)")
        is_narrow = f"width - {left} < {_NUMBER_PIXELS * len(columns)}"
        has_opacity = len(columns) > _MANY_COLUMNS
        opacity = alt.ExprRef(f"{is_narrow} ? 0 : 1") if has_opacity else alt.Undefined
        mark = texts.mark_text(fontSize=size, opacity=opacity)
        layers.append(mark.encode(x=x, y=y, text="text:N", color=colour, tooltip=tooltip))
    return layers


def _column_axis(columns: list[str], left: int) -> alt.Axis:
    """Return the heads of the columns, slanted if they do not fit."""
    needed = len(columns) * (7 * max(map(len, columns)) + 8) + left
    is_slanted = f"width < {needed}"
    return alt.Axis(
        orient="top",
        title=None,
        labelAngle=alt.ExprRef(f"{is_slanted} ? -40 : 0"),
        labelAlign=alt.ExprRef(f"{is_slanted} ? 'left' : 'center'"),
        labelLimit=90,
        labelColor=INK,
        labelOverlap=len(columns) > _MANY_COLUMNS,
    )
