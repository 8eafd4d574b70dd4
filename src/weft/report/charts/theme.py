"""How charts look: colours and shapes that stay with a model, one typeface, quiet axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from weft.report.context import ReportContext

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"
# Every text, axis and grid line has one of these colours, so that a page can recolour them for dark
# mode by their attributes.
INK = "#1f2328"
MUTED = "#57606a"
GRID = "#e4e7eb"
PAPER = "#ffffff"

# Eight colours with a contrast of at least 3:1 to white and to #16181d that stay apart for normal
# and colour-blind eyes (found by search, kept by a test), and a shape for each. Further models
# share a grey.
COLOURS = ("#2f6fc8", "#d96c0c", "#00a587", "#c30096", "#875a69", "#a587b4", "#c32d0f", "#5a784b")
SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
OTHER = "#80868f"
EQUAL = "#b4bac2"  # what is of no model
# Heat maps: from few to many, and from less than neutral to more. Words stand on the cells: they
# keep their colours in dark mode.
SEQUENTIAL = ("#eaf1fa", "#0f3d7d")
DIVERGING = ("#17488c", "#f4f4f4", "#9a4500")
ON_LIGHT, ON_DARK = "#16181c", "#fefefe"
# From which shade on letters are light.
SEQUENTIAL_DARK, DIVERGING_DARK = 0.65, 0.74


def named(model: str) -> str:
    """The name of a model, or of a group, as charts show it: one that is blank is quoted, so that
    it can be seen.
    """
    return model if model.strip() else repr(model)


def coloured(context: ReportContext) -> list[str]:
    """The models with a colour of their own, in order: all of up to eight, else the best eight by
    the first headline metric.
    """
    models = context.models
    if len(models) <= len(COLOURS):
        return models
    best = set(models[: len(COLOURS)])
    if context.headlines:
        best = set(ranked(context, context.headlines[0])[: len(COLOURS)])
    return [model for model in models if model in best]


def ranked(context: ReportContext, metric: str) -> list[str]:
    """The models from best to worst by a metric, in its own direction; those without a value last."""

    def merit(model: str) -> tuple[bool, float]:
        result = context.results[model]
        value = result.entry(metric).merit if metric in result else None
        undefined = value is None or value != value
        return undefined, 0.0 if undefined or value is None else -value

    return sorted(context.models, key=merit)


def colours(context: ReportContext) -> dict[str, str]:
    """The colour of each model, in all charts."""
    own = dict(zip(coloured(context), COLOURS))
    return {model: own.get(model, OTHER) for model in context.models}


def colour_scale(context: ReportContext, more: Sequence[tuple[str, str]] = ()) -> alt.Scale:
    """Names of models to their colours; `more` are further names with their colours."""
    pairs = [(named(model), colour) for model, colour in colours(context).items()] + [*more]
    return alt.Scale(domain=[name for name, _ in pairs], range=[colour for _, colour in pairs])


def shape_scale(context: ReportContext) -> alt.Scale:
    """Names of models to the shapes of their points."""
    own = dict(zip(coloured(context), SHAPES))
    return alt.Scale(
        domain=[*map(named, context.models)],
        range=[own.get(model, "circle") for model in context.models],
    )


def config() -> dict[str, Any]:
    """Vega-Lite's configuration of every chart."""
    axis = {
        "labelColor": MUTED,
        "labelFontSize": 11,
        "labelOverlap": True,
        "titleColor": INK,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gridColor": GRID,
        "domain": False,
        "ticks": False,
        "labelPadding": 6,
        "tickCount": 5,
    }
    return {
        "font": FONT,
        "background": PAPER,
        "view": {"stroke": None},
        "axis": axis,
        "title": {
            "color": INK,
            "fontSize": 12,
            "fontWeight": "normal",
            "anchor": "start",
            "frame": "group",
            "offset": 10,
        },
        "text": {"fontSize": 11, "color": INK},
        "legend": {"labelColor": INK, "titleColor": INK},
    }
