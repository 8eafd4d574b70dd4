"""The critical-difference diagram: average ranks of models over several data sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt

from weft.errors import check_int
from weft.report.charts.canvas import Canvas, Layer, Texts
from weft.report.charts.marks import tooltips
from weft.report.charts.short_labels import distinct_labels, text_pixels
from weft.report.charts.theme import INK, MUTED, display_name
from weft.statistics.experiment import DatasetRanking

_ROW_PIXELS = 22
_BAR_PIXELS = 12  # between bars of models that do not differ
_MIN_AXIS_PIXELS = 110
_MIN_NAME_PIXELS = 130  # of names, left and right of the axis
_NAME_GAP_PIXELS = 8


def draw_ranks(ranking: DatasetRanking, *, width: int) -> alt.TopLevelMixin:
    """Draw the models on an axis of average ranks, the best at the left.

    A line leads from each model to its name, of the better half at the left and of the others at
    the right. A bar joins models that do not differ significantly.
    """
    canvas = Canvas("ranks", check_int("width", width, least=3 * _MIN_NAME_PIXELS))
    labels = _shorten_names(ranking, width)
    name_pixels = _measure_names(labels)
    size = len(ranking.models)
    top = _BAR_PIXELS * (len(ranking.cliques) + 1)
    height = top + _ROW_PIXELS * math.ceil(size / 2) + 6
    x = alt.Scale(domain=[1, size], nice=False, range=[name_pixels, width - name_pixels])
    y = alt.Scale(domain=[0, height], range=[0, height], nice=False)
    axis = alt.Axis(
        orient="top",
        values=[*range(1, size + 1)],
        format="d",
        grid=False,
        domain=True,
        domainColor=INK,
        ticks=True,
        tickColor=INK,
    )
    layers = [
        *_draw_models(
            canvas, ranking, labels, top, alt.X("rank:Q", scale=x, title=None, axis=axis), y
        ),
        *_draw_cliques(canvas, ranking, x, y),
    ]
    title = f"Average rank by {ranking.metric} over {len(ranking.datasets)} data sets"
    if not math.isnan(ranking.critical_difference):
        title += f" (critical difference {ranking.critical_difference:.2f})"
    texts: Texts = {(): describe_ranks(ranking)}
    table = [{"model": model, "average rank": rank} for model, rank in _ranks(ranking)]
    return canvas.figure(title, layers, [], texts, table, height=height, axis=title).chart


def describe_ranks(ranking: DatasetRanking) -> str:
    """Return the average ranks, and which models do not differ, in words."""
    ranks = ", ".join(f"{model} {rank:.2f}" for model, rank in _ranks(ranking))
    groups = "; ".join(" and ".join(group) for group in ranking.cliques)
    equal = f" Not significantly different: {groups}." if groups else ""
    return f"Average ranks, 1 is best: {ranks}.{equal}"


def _ranks(ranking: DatasetRanking) -> list[tuple[str, float]]:
    return list(ranking.average_ranks.items())


def _shorten_names(ranking: DatasetRanking, width: int) -> dict[str, str]:
    """Return the average rank and the name of each model, which leave room for the axis."""
    ranks = {model: f"{rank:.2f}  " for model, rank in _ranks(ranking)}
    room = (width - _MIN_AXIS_PIXELS) // 2 - _NAME_GAP_PIXELS
    names = distinct_labels(
        [*map(display_name, ranks)], room - max(map(text_pixels, ranks.values()))
    )
    return {model: rank + names[display_name(model)] for model, rank in ranks.items()}


def _measure_names(labels: Mapping[str, str]) -> int:
    """Return the width of the longest label in pixels."""
    longest = max(map(text_pixels, labels.values()))
    return max(_MIN_NAME_PIXELS, math.ceil(longest) + _NAME_GAP_PIXELS)


def _draw_models(
    canvas: Canvas,
    ranking: DatasetRanking,
    labels: Mapping[str, str],
    top: int,
    x: alt.X,
    y_scale: alt.Scale,
) -> list[Layer]:
    """Return for each model a line down to its row, a line to the margin, and its name."""
    size = len(ranking.models)
    half = math.ceil(size / 2)
    layers: list[Layer] = []
    line: dict[str, Any] = {"strokeWidth": 1, "color": MUTED}
    y = alt.Y("row:Q", axis=None, scale=y_scale)
    tooltip = tooltips("model:N")
    for is_left in (True, False):
        rows = [
            {
                "model": display_name(model),
                "label": labels[model],
                "rank": rank,
                "row": top + _ROW_PIXELS * ((number if is_left else size - 1 - number) + 1),
                "zero": 0,
            }
            for number, (model, rank) in enumerate(_ranks(ranking))
            if (number < half) == is_left
        ]
        base, edge = canvas.chart(rows), 0 if is_left else int(canvas.width)
        name: dict[str, Any] = {"align": "left" if is_left else "right", "dy": -7, "color": INK}
        layers += [
            base.mark_rule(**line).encode(x=x, y=y, y2="zero:Q"),
            base.mark_rule(**line).encode(x=x, x2=alt.value(edge), y=y),
            base.mark_text(**name).encode(x=alt.value(edge), y=y, text="label:N", tooltip=tooltip),
        ]
    return layers


def _draw_cliques(
    canvas: Canvas, ranking: DatasetRanking, x_scale: alt.Scale, y_scale: alt.Scale
) -> list[Layer]:
    """Return a thick bar for each group of models that do not differ significantly."""
    ranks = ranking.average_ranks
    rows = [
        {"from": ranks[group[0]], "to": ranks[group[-1]], "row": _BAR_PIXELS * (number + 1)}
        for number, group in enumerate(ranking.cliques)
    ]
    if not rows:
        return []
    bars = canvas.chart(rows).mark_rule(strokeWidth=5, strokeCap="round", color=INK)
    y = alt.Y("row:Q", axis=None, scale=y_scale)
    return [bars.encode(x=alt.X("from:Q", scale=x_scale), x2="to:Q", y=y)]
