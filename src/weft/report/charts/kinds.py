"""Which charts there are, and how they are asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from weft.errors import MissingInput, SettingError, check_choice, check_int, did_you_mean
from weft.report.charts.drawing import Canvas, Figure
from weft.report.charts.groups import bias, slices
from weft.report.charts.items import exposure, popularity
from weft.report.charts.tradeoffs import tradeoff
from weft.report.charts.users import differences, gains
from weft.report.charts.values import cutoffs, values
from weft.report.context import ReportContext

# In the order of the report.
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
_WIDTH = 640  # pixels of a chart that stands alone


def figures(context: ReportContext) -> list[Figure]:
    """All charts that the results have data for, in the order of the report: as wide as their
    place, with selects for choices.
    """
    found = []
    for kind, draw in KINDS.items():
        if kind == "values" and len(context.models) == 1:  # the table says as much
            continue
        try:
            found.append(draw(context, Canvas()))
        except MissingInput:  # what this chart is about was not evaluated
            continue
    return found


def figure(
    context: ReportContext,
    kind: str,
    *,
    width: int = _WIDTH,
    height: int | None = None,
    **options: Any,
) -> Figure:
    """One chart that stands alone, `width` pixels wide. What was not evaluated is refused, with
    what to evaluate.
    """
    draw = KINDS[check_choice("kind", kind, tuple(KINDS))]
    known = [*inspect.signature(draw).parameters][2:]
    for option in options:
        if option not in known:
            taken = ", ".join([*known, "width", "height"])
            raise SettingError(
                f"{kind} has no option {option!r}.{did_you_mean(option, known)} It has: {taken}."
            )
    canvas = Canvas(
        check_int("width", width, least=100),
        None if height is None else check_int("height", height, least=50),
    )
    return draw(context, canvas, **options)
