"""Builders of layers and encodings that several charts share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from weft.report.charts.canvas import Canvas, Layer
from weft.report.charts.short_labels import distinct_labels, text_pixels
from weft.report.charts.theme import MUTED, colour_scale, display_name, shape_scale
from weft.report.context import ReportContext

NARROW = "width < 560"  # Vega expression: true for a chart on a small screen
_NARROW_LABEL_PIXELS, _WIDE_LABEL_PIXELS = 120, 230  # the longest labels of names
_LABEL_GAP_PIXELS = 14
_ROW_LABEL_PIXELS = 120
_HEADING_PIXELS = (300, 500)  # of headings above rows, on a narrow chart and on a wide one
NUMBER_FORMAT = ",.6~r"  # of numbers in tooltips: all digits that the data have
INTERVAL_FIELDS = (("low:Q", "95% from"), ("high:Q", "95% to"))


@dataclass(frozen=True)
class NameLabels:
    """The labels of names as charts show them: on a narrow chart and on a wide one.

    Different names have different labels, so that marks do not limit the width of these texts.
    """

    narrow: Mapping[str, str]
    wide: Mapping[str, str]

    @property
    def pixels(self) -> str:
        """A Vega expression: the room that the longest label needs."""
        narrow, wide = (
            round(max(map(text_pixels, labels.values()), default=0)) + _LABEL_GAP_PIXELS
            for labels in (self.narrow, self.wide)
        )
        return f"({NARROW} ? {narrow} : {wide})"

    def look_up(self, canvas: Canvas, layer: Layer, field: str) -> Layer:
        """Return the layer with the labels of the names in a field, for `LABEL_TEXT`."""
        rows = [
            {"name": name, "narrow": label, "wide": self.wide[name]}
            for name, label in self.narrow.items()
        ]
        lookup = canvas.lookup(rows, "name", "narrow", "wide")
        return layer.transform_lookup(field, from_=lookup)


LABEL_TEXT = f"({NARROW} ? datum.narrow : datum.wide)"  # Vega expression, see `NameLabels`


def name_labels(names: Iterable[str]) -> NameLabels:
    """Return the labels of names as charts display them."""
    shown = [*map(display_name, names)]
    narrow, wide = (
        distinct_labels(shown, pixels) for pixels in (_NARROW_LABEL_PIXELS, _WIDE_LABEL_PIXELS)
    )
    return NameLabels(narrow, wide)


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


def range_with_margins(right: str, left: str = "0") -> list[Any]:
    """Return the range of a horizontal scale with margins for labels: pixels as expressions."""
    return [alt.ExprRef(left), alt.ExprRef(f"width - {right}")]


def end_labels(labels: Layer, x: alt.X, y: alt.Y, colour: alt.Color) -> Layer:
    """Return the labels of models, which were looked up, at the ends of their lines."""
    mark = labels.mark_text(align="left", baseline="middle", dx=9, text=alt.ExprRef(LABEL_TEXT))
    return mark.encode(x=x, y=y, color=colour, tooltip=tooltips("model:N"))


def label_width(labels: Iterable[Mapping[str, Any]]) -> int:
    """Return the width of a column of row labels in pixels, without headings of sections."""
    widths = (text_pixels(label["narrow"]) for label in labels if not label["head"])
    return round(max(widths, default=0)) + _LABEL_GAP_PIXELS


def shorten_row_labels(labels: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return label rows with labels that fit, `narrow` and `wide`, as `NameLabels` has them."""

    def shorten(is_head: bool, pixels: float) -> dict[str, str]:
        return distinct_labels([one["label"] for one in labels if one["head"] == is_head], pixels)

    groups = shorten(False, _ROW_LABEL_PIXELS)
    narrow, wide = (shorten(True, pixels) for pixels in _HEADING_PIXELS)
    return [
        one
        | {"narrow": (narrow if one["head"] else groups)[one["label"]]}
        | {"wide": (wide if one["head"] else groups)[one["label"]]}
        for one in labels
    ]


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
    return shorten_row_labels(labels), rows


def row_labels(labels: Layer) -> list[Layer]:
    """Return the names of rows at their left, and the headings of their sections in bold."""

    def mark(condition: str, **style: Any) -> Layer:
        texts = labels.transform_filter(condition)
        text = alt.ExprRef(LABEL_TEXT)
        return texts.mark_text(align="left", baseline="middle", text=text, **style).encode(
            x=alt.value(0),
            y=alt.Y("row:O", axis=None),
            tooltip=tooltips(("hover:N", "group")),
        )

    return [mark("datum.head", fontWeight="bold"), mark("!datum.head", color=MUTED)]
