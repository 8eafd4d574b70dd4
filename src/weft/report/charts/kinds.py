"""The kinds of charts, and how to draw one or all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from weft.errors import MissingInput, SettingError, check_choice, check_int, did_you_mean
from weft.report.charts.bias_chart import bias
from weft.report.charts.canvas import Canvas, Figure
from weft.report.charts.cutoffs_chart import cutoffs
from weft.report.charts.differences_chart import differences
from weft.report.charts.exposure_chart import exposure
from weft.report.charts.gains_chart import gains
from weft.report.charts.popularity_chart import popularity
from weft.report.charts.slices_chart import slices
from weft.report.charts.tradeoff_chart import tradeoff
from weft.report.charts.values_chart import values
from weft.report.context import ReportContext

# In the order of the report. A function takes the context, the canvas and the options of its kind.
KINDS: dict[str, Callable[..., Figure]] = {
    "cutoffs": cutoffs,
    "values": values,
    "tradeoff": tradeoff,
    "differences": differences,
    "gains": gains,
    "slices": slices,
    "exposure": exposure,
    "popularity": popularity,
    "bias": bias,
}
_WIDTH = 640  # pixels of a standalone chart


def figures(context: ReportContext) -> list[Figure]:
    """Return all charts that the results have data for, with select boxes, as wide as the page."""
    drawn = []
    for kind, draw in KINDS.items():
        if kind == "values" and len(context.models) == 1:  # the table of values shows as much
            continue
        try:
            drawn.append(draw(context, Canvas(kind)))
        except MissingInput:  # the data of this chart were not evaluated
            continue
    return drawn


def figure(
    context: ReportContext,
    kind: str,
    *,
    width: int = _WIDTH,
    height: int | None = None,
    **options: Any,
) -> Figure:
    """Return one standalone chart of a size in pixels.

    Raises `MissingInput` with what to evaluate if the results lack its data, and `SettingError` for
    an unknown kind or option.
    """
    draw = KINDS[check_choice("kind", kind, tuple(KINDS))]
    known = [*inspect.signature(draw).parameters][2:]
    for option in options:
        if option not in known:
            names = ", ".join([*known, "width", "height"])
            raise SettingError(
                f"{kind} has no option {option!r}.{did_you_mean(option, known)} It has: {names}."
            )
    canvas = Canvas(
        kind,
        check_int("width", width, least=100),
        None if height is None else check_int("height", height, least=50),
    )
    return draw(context, canvas, **options)
