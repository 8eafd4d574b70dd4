"""Lorenz curves of how recommendations are distributed over the items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from weft.errors import MissingInput
from weft.report.charts import marks, selection
from weft.report.charts.canvas import Canvas, Figure, Layer, SelectBox, Texts
from weft.report.charts.phrases import describe_grey, list_names, short_number
from weft.report.charts.theme import MUTED, coloured_models, display_name
from weft.report.context import ReportContext

_HEIGHT = 320
_MAX_POINTS = 48  # of a curve; half of it for models without a colour of their own
_LINE_PIXELS = 17  # distance of two lines of the legend
_TABLE_SHARES = (0.5, 0.8, 0.9, 0.99)


@dataclass(frozen=True)
class _Curve:
    """The Lorenz curve of a model: share of items, and share of recommendations that they get."""

    model: str
    is_coloured: bool
    gini: float
    items: Any
    recommendations: Any

    def to_row(self, cutoff: str) -> dict[str, Any]:
        max_points = _MAX_POINTS if self.is_coloured else _MAX_POINTS // 2
        items, recommendations = _thin_curve(self.items, self.recommendations, max_points)
        return {
            "cut": cutoff,
            "model": display_name(self.model),
            "gini": self.gini,
            "own": self.is_coloured,
            "items": items.tolist(),
            "got": recommendations.tolist(),
        }

    def to_table(self, k: int) -> list[dict[str, Any]]:
        return [
            {
                "cut-off": k,
                "model": self.model,
                "Gini": self.gini,
                "least recommended share of items": share,
                "share of recommendations": float(
                    np.interp(share, self.items, self.recommendations)
                ),
            }
            for share in _TABLE_SHARES
        ]


def exposure(context: ReportContext, canvas: Canvas, k: int | None = None) -> Figure:
    """Draw Lorenz curves: the share of all recommendations that the least recommended items get.

    The diagonal is equality.
    """
    frames, cutoffs = selection.select_frames("exposure", context, canvas, k)
    select = selection.cutoff_select(cutoffs)
    curves = {k: _select_curves(context, frames, k) for k in cutoffs}
    if not any(curves.values()):
        raise MissingInput("the chart 'exposure' needs recommendations; all lists are empty.")
    layers = [
        _build_curves(context, canvas, select, curves),
        _build_legend(context, canvas, select, curves),
    ]
    texts: Texts = {
        (label,): _describe(context, k, curves[k])
        for k, label in zip(cutoffs, select.options)
        if curves[k]
    }
    title, axis = "Distribution of recommendations over items", "share of recommendations"
    table = [row for k in cutoffs for curve in curves[k] for row in curve.to_table(k)]
    return canvas.figure(
        title,
        layers,
        [select],
        texts,
        table,
        height=_HEIGHT,
        axis=axis,
        y="independent",
    )


def _select_curves(context: ReportContext, frames: dict[str, pl.DataFrame], k: int) -> list[_Curve]:
    """Return the curves of the models that recommended anything."""
    coloured = coloured_models(context)
    curves = []
    for model, frame in frames.items():
        points = frame.filter(pl.col("k") == k).sort("items", "recommendations")
        x, y = points["items"].to_numpy(), points["recommendations"].to_numpy()
        if len(x) < 2 or not np.isfinite(y).all():
            continue
        result = context.results[model]
        name = f"Gini@{k}"
        gini = result[name] if name in result else float(1 - 2 * np.trapezoid(y, x))
        curves.append(_Curve(model, model in coloured, gini, x, y))
    return curves


def _thin_curve(x: Any, y: Any, max_points: int) -> tuple[Any, Any]:
    """Return at most `max_points` points, evenly along the curve, with the first and the last."""
    if len(x) <= max_points:
        return x, y
    along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    indices = np.searchsorted(along, np.linspace(0, along[-1], max_points)).clip(0, len(x) - 1)
    indices = np.unique(indices)
    return x[indices].round(4), y[indices].round(4)


def _build_curves(
    context: ReportContext, canvas: Canvas, select: SelectBox, curves: dict[int, list[_Curve]]
) -> Layer:
    """Return the diagonal, the curves, and invisible points with tooltips."""
    rows = [
        curve.to_row(label)
        for of_cutoff, label in zip(curves.values(), select.options)
        for curve in of_cutoff
    ]
    base = canvas.chart(rows, select).transform_flatten(["items", "got"])
    domain = alt.Scale(domain=[0, 1])
    ticks: dict[str, Any] = {"format": ".0%", "values": [0, 0.25, 0.5, 0.75, 1]}
    x_title = "share of items, the least recommended first"
    x = alt.X("items:Q", scale=domain, axis=alt.Axis(title=x_title, titleAnchor="end", **ticks))
    y = alt.Y("got:Q", scale=domain, axis=alt.Axis(title=None, **ticks))
    opacity = alt.condition("datum.own", alt.value(1.0), alt.value(0.5))
    tooltip = marks.tooltips(
        "model:N",
        ("cut:N", "cut-off"),
        ("gini:Q", "Gini", ".4f"),
        ("items:Q", "share of items", ".1%"),
        ("got:Q", "share of recommendations", ".1%"),
    )
    diagonal = canvas.chart([{"items": 0, "got": 0}, {"items": 1, "got": 1}])
    return alt.layer(
        diagonal.mark_line(color=MUTED, strokeDash=[4, 4], strokeWidth=1).encode(x=x, y=y),
        base.mark_line(strokeWidth=2).encode(
            x=x, y=y, color=marks.model_colour(context), opacity=opacity
        ),
        base.mark_point(size=90, opacity=0, filled=True).encode(x=x, y=y, tooltip=tooltip),
    )


def _build_legend(
    context: ReportContext, canvas: Canvas, select: SelectBox, curves: dict[int, list[_Curve]]
) -> Layer:
    """Return the coloured models with their Gini, the most equal first."""
    rows = []
    for of_cutoff, label in zip(curves.values(), select.options):
        ordered = sorted((one for one in of_cutoff if one.is_coloured), key=lambda one: one.gini)
        for place, curve in enumerate(ordered):
            name, gini = display_name(curve.model), short_number(curve.gini)
            rows.append({"cut": label, "model": name, "gini": gini, "at": place})
    names = marks.name_labels(coloured_models(context))
    entries = names.look_up(canvas, canvas.chart(rows, select), "model")
    colour = marks.model_colour(context)
    scale = alt.Scale(domain=[0, 1], range=[24, 24 + _LINE_PIXELS], nice=False, zero=False)
    y = alt.Y("at:Q", axis=None, scale=scale)
    return alt.layer(
        entries.mark_point(filled=True, size=60, opacity=1).encode(
            x=alt.value(12), y=y, color=colour, shape=marks.model_shape(context)
        ),
        entries.mark_text(
            align="left", text=alt.ExprRef(f"datum.gini + '  ' + {marks.LABEL_TEXT}")
        ).encode(x=alt.value(22), y=y, color=colour, tooltip=marks.tooltips("model:N")),
        canvas.chart([{}])
        .mark_text(align="left", text="Gini index (lower is more equal)", color=MUTED)
        .encode(x=alt.value(6), y=alt.value(8)),
    )


def _describe(context: ReportContext, k: int, curves: list[_Curve]) -> str:
    ordered = [
        f"{display_name(curve.model)} {short_number(curve.gini)}"
        for curve in sorted(curves, key=lambda curve: curve.gini)
    ]
    return (
        f"Lorenz curves of the recommendations in the top {k}: the share of all recommendations "
        "that the least recommended items have together. On the dashed diagonal, all items are "
        "recommended equally often, and the Gini index is 0; it is close to 1 if few items have "
        f"most recommendations. Gini index, most equal first: {list_names(ordered)}."
        f"{describe_grey(context)}"
    )
