"""The look of charts: colours and shapes that stay with a model, one typeface, quiet axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from weft.report.charts.short_labels import TEXT_PIXELS
from weft.report.context import ReportContext

FONT = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', Arial, "
    "sans-serif"
)
# Texts, axes and grid lines use these colours only, so that a page can replace them in dark mode by
# their attributes.
INK = "#1f2328"
MUTED = "#57606a"
GRID = "#e4e7eb"
PAPER = "#ffffff"

# Eight colours with a contrast of at least 3:1 to white and to #16181d that are distinguishable for
# normal and colour-blind vision (found by search, checked by a test), and a shape for each. Further
# models share a grey.
COLOURS = ("#2f6fc8", "#d96c0c", "#00a587", "#c30096", "#875a69", "#a587b4", "#c32d0f", "#5a784b")
SHAPES = (
    *("circle", "square", "triangle-up", "diamond"),
    *("cross", "triangle-down", "triangle-right", "triangle-left"),
)
OTHER = "#80868f"  # models without a colour of their own
EQUAL = "#b4bac2"  # users for whom two models are equal
# Heat maps: from low to high, and from below neutral to above it. Cells keep their colours in dark
# mode, because they have numbers on them.
SEQUENTIAL = ("#eaf1fa", "#0f3d7d")
DIVERGING = ("#17488c", "#f4f4f4", "#9a4500")
ON_LIGHT, ON_DARK = "#16181c", "#fefefe"
# The shade above which numbers on cells are light.
SEQUENTIAL_DARK, DIVERGING_DARK = 0.65, 0.74


def display_name(name: str) -> str:
    """Return the name of a model or group as charts show it: a blank one is quoted."""
    return name if name.strip() else repr(name)


def coloured_models(context: ReportContext) -> list[str]:
    """Return the models with a colour of their own, in order.

    These are all of up to eight models, else the best eight by the first headline metric.
    """
    models = context.models
    if len(models) <= len(COLOURS):
        return models
    best = set(models[: len(COLOURS)])
    if context.headlines:
        best = set(rank_models(context, context.headlines[0])[: len(COLOURS)])
    return [model for model in models if model in best]


def rank_models(context: ReportContext, metric: str) -> list[str]:
    """Return the models from best to worst by a metric; those without a value are last."""

    def key(model: str) -> tuple[bool, float]:
        result = context.results[model]
        merit = result.entry(metric).merit if metric in result else None
        if merit is None or merit != merit:
            return True, 0.0
        return False, -merit

    return sorted(context.models, key=key)


def model_colours(context: ReportContext) -> dict[str, str]:
    """Return the colour of each model in all charts."""
    own = dict(zip(coloured_models(context), COLOURS))
    return {model: own.get(model, OTHER) for model in context.models}


def colour_scale(context: ReportContext, more: Sequence[tuple[str, str]] = ()) -> alt.Scale:
    """Return the scale from names to colours; `more` are further names with their colours."""
    pairs = [(display_name(model), colour) for model, colour in model_colours(context).items()]
    pairs += more
    return alt.Scale(domain=[name for name, _ in pairs], range=[colour for _, colour in pairs])


def shape_scale(context: ReportContext) -> alt.Scale:
    """Return the scale from names of models to the shapes of their points."""
    own = dict(zip(coloured_models(context), SHAPES))
    return alt.Scale(
        domain=[*map(display_name, context.models)],
        range=[own.get(model, "circle") for model in context.models],
    )


def vega_config() -> dict[str, Any]:
    """Return the Vega-Lite configuration of every chart."""
    axis = {
        "labelColor": MUTED,
        "labelFontSize": TEXT_PIXELS,
        "labelOverlap": True,
        "titleColor": INK,
        "titleFontSize": TEXT_PIXELS,
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
            "fontSize": TEXT_PIXELS,
            "fontWeight": "normal",
            "anchor": "start",
            "frame": "group",
            "offset": 10,
        },
        "text": {"fontSize": TEXT_PIXELS, "color": INK},
        "legend": {"labelColor": INK, "titleColor": INK},
    }
