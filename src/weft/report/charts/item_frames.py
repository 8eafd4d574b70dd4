"""Selection of the per-item tables of results, for charts of exposure and popularity."""

from __future__ import annotations

import polars as pl

from weft.errors import MissingInput, SettingError
from weft.report.charts.canvas import Canvas, SelectBox
from weft.report.charts.theme import coloured_models
from weft.report.context import USUAL_CUTOFF, ReportContext


def select_frames(
    kind: str, context: ReportContext, canvas: Canvas, k: int | None
) -> tuple[dict[str, pl.DataFrame], list[int]]:
    """Return the tables `kind` of the models that have one, and the cut-offs, the default first.

    Models with a colour are last, so that they are drawn on top. Raises `MissingInput` if no result
    has the table, and `SettingError` if it lacks the cut-off.
    """
    coloured = coloured_models(context)
    frames: dict[str, pl.DataFrame] = {}
    for model in sorted(context.models, key=lambda model: model in coloured):
        frame = getattr(context.results[model], kind)
        if frame is not None and len(frame):
            frames[model] = frame
    if not frames:
        more = " and train=" if kind == "popularity" else ""
        raise MissingInput(
            f"{kind} needs how often each item is recommended: evaluate with exposure=True{more}."
        )
    known = sorted({k for frame in frames.values() for k in frame["k"].to_list()})
    if k is not None:
        if isinstance(k, bool) or k not in known:
            raise SettingError(f"k={k!r}; {kind} is known at k = {', '.join(map(str, known))}.")
        return frames, [k]
    default = USUAL_CUTOFF if USUAL_CUTOFF in known else known[0]
    return frames, [default, *(k for k in known if k != default and canvas.has_selects)]


def cutoff_select(cutoffs: list[int]) -> SelectBox:
    """Return the select box of the cut-off."""
    return SelectBox("cut", "Cut-off", [f"k = {k}" for k in cutoffs])
