"""Builders of layers and encodings that several charts share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from weft.report.charts.canvas import Layer
from weft.report.charts.theme import MUTED, colour_scale, display_name, shape_scale
from weft.report.context import ReportContext

LABEL_PIXELS = 108  # room for the labels at the side of a chart
NUMBER_FORMAT = ",.6~r"  # of numbers in tooltips: all digits that the data have
INTERVAL_FIELDS = (("low:Q", "95% from"), ("high:Q", "95% to"))


def model_colour(
    context: ReportContext, more: Sequence[tuple[str, str]] = (), *, field: str = "model:N"
) -> alt.Color:
    """Return the colour of a model; `more` are further names with their colours."""
    return alt.Color(field, scale=colour_scale(context, more), legend=None)


def model_shape(context: ReportContext) -> alt.Shape:
    """Return the shape of a model's points."""
    return alt.Shape("model:N", scale=shape_scale(context), legend=None)


def tooltips(*fields: str | tuple[str, ...]) -> list[alt.Tooltip]:
    """Return tooltips of fields: (field, title) or (field, title, number format).

    A field without a title has its name as the title.
    """
    found = []
    for entry in fields:
        field, title, *form = (entry, entry[:-2]) if isinstance(entry, str) else entry
        default = NUMBER_FORMAT if field.endswith(":Q") else alt.Undefined
        found.append(alt.Tooltip(field, title=title, format=form[0] if form else default))
    return found


def axis_caption(rows: Layer, field: str, *, reserved: int = 0) -> Layer:
    """Return a title of the horizontal axis that follows a select box: a field of the one row.

    The titles of Vega-Lite's own axes are constant. `reserved` pixels at the left remain free.
    """
    limit = alt.ExprRef(f"min(480, width - {reserved})")
    mark = rows.mark_text(align="right", baseline="top", fontSize=12, limit=limit)
    return mark.encode(
        x=alt.value(alt.ExprRef("width")),
        y=alt.value(alt.ExprRef("height + 26")),
        text=f"{field}:N",
    )


def add_interval_ends(rows: Layer, low: str, high: str, value: str) -> Layer:
    """Return rows with the ends of an interval as `from` and `to`; the value if there is none."""
    is_valid = f"isValid(datum.{low})"
    ends = {
        "from": f"{is_valid} ? datum.{low} : datum.{value}",
        "to": f"{is_valid} ? datum.{high} : datum.{value}",
    }
    return rows.transform_calculate(**ends)


def range_with_margins(right: int = LABEL_PIXELS, left: int = 0) -> list[Any]:
    """Return the range of a horizontal scale with margins for labels, in pixels."""
    return [left, alt.ExprRef(f"width - {right}")]


def end_labels(labels: Layer, x: alt.X, y: alt.Y, colour: alt.Color) -> Layer:
    """Return the names of models at the ends of their lines."""
    mark = labels.mark_text(align="left", baseline="middle", dx=9, limit=LABEL_PIXELS - 10)
    text = alt.Text("model:N")
    return mark.encode(x=x, y=y, text=text, color=colour, tooltip=tooltips("model:N"))


def label_width(labels: Iterable[str]) -> int:
    """Return the width of a column of row labels in pixels."""
    return min(LABEL_PIXELS, max((7 * len(label) for label in labels), default=0) + 14)


def section_labels(groups: Iterable[tuple[str, str]]) -> tuple[list[dict[str, Any]], list[int]]:
    """Return label rows of groups below the headings of their sections, and the row of each group.

    Groups are pairs of section and label.
    """
    labels: list[dict[str, Any]] = []
    rows = []
    for section, label in groups:
        if not labels or labels[-1]["section"] != section:
            head = {"label": display_name(section), "section": section, "head": True}
            labels.append({"row": len(labels)} | head | {"hover": section})
        rows.append(len(labels))
        shown = display_name(label)
        row = {"row": len(labels), "label": shown, "section": section, "head": False}
        labels.append(row | {"hover": f"{section}: {shown}"})
    return labels, rows


def row_labels(labels: Layer, width: int) -> list[Layer]:
    """Return the names of rows at their left, and the headings of their sections in bold."""

    def mark(condition: str, **style: Any) -> Layer:
        texts = labels.transform_filter(condition)
        return texts.mark_text(align="left", baseline="middle", **style).encode(
            x=alt.value(0),
            y=alt.Y("row:O", axis=None),
            text=alt.Text("label:N"),
            tooltip=tooltips(("hover:N", "group")),
        )

    heads = mark("datum.head", fontWeight="bold", limit=alt.ExprRef("width"))
    return [heads, mark("!datum.head", color=MUTED, limit=width - 8)]
