"""The kinds of charts, and how to draw one or all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
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
# The kinds to choose from if none is given, the best ones first.
_PREFERRED = ("cutoffs", "slices", "values", *KINDS)
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
    kind: str | None = None,
    *,
    width: int = _WIDTH,
    height: int | None = None,
    **options: Any,
) -> Figure:
    """Return one standalone chart of a size in pixels; see `ReportMixin.plot` for no kind.

    Raises `MissingInput` with what to evaluate if the results lack its data, and `SettingError` for
    an unknown kind or option.
    """
    width = check_int("width", width, least=100)
    height = None if height is None else check_int("height", height, least=50)
    if kind is None:
        return _draw_preferred(context, options, lambda one: Canvas(one, width, height))
    draw = KINDS[check_choice("kind", kind, tuple(KINDS))]
    known = _option_names(kind)
    for option in options:
        if option not in known:
            names = ", ".join([*known, "width", "height"])
            raise SettingError(
                f"{kind} has no option {option!r}.{did_you_mean(option, known)} It has: {names}."
            )
    return draw(context, Canvas(kind, width, height), **options)


def _option_names(kind: str) -> list[str]:
    return [*inspect.signature(KINDS[kind]).parameters][2:]


def _draw_preferred(
    context: ReportContext, options: dict[str, Any], make_canvas: Callable[[str], Canvas]
) -> Figure:
    """Return the first kind of chart that has data and all of the options."""
    kinds = [kind for kind in _PREFERRED if options.keys() <= {*_option_names(kind)}]
    if not kinds:
        raise _unknown_options(options)
    for kind in kinds:
        if kind == "slices" and len(context.models) > 1:  # the models come first
            continue
        with suppress(MissingInput):
            return KINDS[kind](context, make_canvas(kind), **options)
    raise MissingInput(
        "there is no value to plot; evaluate at least one metric that has a defined value."
    )


def _unknown_options(options: dict[str, Any]) -> SettingError:
    """Return the error for options that no kind of chart has all of."""
    known = dict.fromkeys(name for kind in KINDS for name in _option_names(kind))
    unknown = next((name for name in options if name not in known), "")
    return SettingError(
        f"no kind of chart has the options {', '.join(options)}."
        f"{did_you_mean(unknown, known)} Give a kind: one of {', '.join(KINDS)}."
    )
