"""One metric against another: who is best at both, and what is traded for what."""

from __future__ import annotations

from typing import Literal

import altair as alt
import polars as pl

from weft.errors import MissingInput, SettingError
from weft.report.charts.drawing import (
    LABELS,
    LINE,
    Canvas,
    Choice,
    Figure,
    Texts,
    Values,
    below,
    by_choice,
    direction,
    ends,
    find,
    finish,
    hover,
    in_chart,
    listed,
    models_in_words,
    number,
    values_by_name,
)
from weft.report.charts.theme import MUTED, PAPER, colour_scale, coloured, named, shape_scale
from weft.report.context import ReportContext, metric_family
from weft.statistics.pareto import pareto_optimal

_HEIGHT = 320
_ACCURACY = (
    "accuracy",
    "rating",
    "other",
)  # what a trade-off trades for; metrics that are not registered here may be anything
_Box = tuple[float, float, float]  # from, to, and the middle of its height, in pixels
_NARROW = 230  # pixels that points have on a narrow screen, for labels that fit there too


def tradeoff(
    context: ReportContext, canvas: Canvas, x: str | None = None, y: str | None = None
) -> Figure:
    """An accuracy metric against another one: a point per model, and the Pareto front."""
    if len(context.models) < 2:
        raise MissingInput(
            "tradeoff needs two models or more: compare results, weft.compare([a, "
            "b]).plot('tradeoff')."
        )
    known = {
        name: of
        for name, of in values_by_name(context).items()
        if next(iter(of.values())).merit is not None
    }
    upright = _accuracy(context, known) if y is None else find("y", y, [*known])
    beyond = _beyond(context, known, upright)
    if x is None and not beyond:
        raise MissingInput(
            "tradeoff needs a metric beyond accuracy beside an accuracy metric: evaluate, say, "
            "nDCG and Gini."
        )
    default = beyond[0] if x is None else find("x", x, [*known])
    if default == upright:
        raise SettingError(f"x and y are both {upright!r}; a trade-off is between two metrics.")
    shown = in_chart(canvas, default, x, beyond)
    labels = {name: direction(next(iter(known[name].values()))) for name in shown}
    choice = Choice("metric", "Against", [*labels.values()])
    height = canvas.height or _HEIGHT

    rows, table = [], []
    fronts: dict[str, list[str]] = {}
    for name, label in labels.items():
        points = {
            model: (known[name][model], known[upright][model])
            for model in context.models
            if model in known[name] and model in known[upright]
        }
        if not points:
            continue
        front = pareto_optimal(
            {model: [one.merit or 0.0 for one in pair] for model, pair in points.items()}
        )
        fronts[name] = sorted(front, key=lambda model: points[model][0].value)
        placed = _labels(
            context, {model: (a.value, b.value) for model, (a, b) in points.items()}, height
        )
        across = [pair[0] for pair in points.values()]
        rows.append(
            {
                "metric": label,
                "model": [*map(named, points)],
                "front": [model in front for model in points],
                "x": [one.value for one in across],
                "x1": [one.interval.low for one in across],
                "x2": [one.interval.high for one in across],
                "at": [placed[model][0] if model in placed else None for model in points],
                "side": [placed[model][1] if model in placed else None for model in points],
            }
        )
        table += [
            {
                "model": model,
                "metric across": name,
                "value across": one.value,
                "metric upright": upright,
                "value upright": other.value,
                "on the Pareto front": model in front,
            }
            for model, (one, other) in points.items()
        ]
    if not rows:
        raise MissingInput(f"tradeoff: no model has both {default} and {upright}.")

    ups = [
        {"model": named(model), "y": one.value, "y1": one.interval.low, "y2": one.interval.high}
        for model, one in known[upright].items()
    ]
    base = (
        canvas.source(rows, choice)
        .transform_flatten(["model", "front", "x", "x1", "x2", "at", "side"])
        .transform_lookup(
            "model", from_=alt.LookupData(canvas.data(ups), key="model", fields=["y", "y1", "y2"])
        )
    )
    over, up_scale = alt.Scale(zero=False, padding=16), alt.Scale(zero=False, padding=12)
    axis = alt.Axis(title=None)
    at = {"x": alt.X("x:Q", scale=over, axis=axis), "y": alt.Y("y:Q", scale=up_scale, title=None)}
    colour = alt.Color("model:N", scale=colour_scale(context), legend=None)
    upright_label = direction(next(iter(known[upright].values())))
    told = hover(
        ("model:N", "model"),
        ("x:Q", "across"),
        ("x1:Q", "95 % from"),
        ("x2:Q", "95 % to"),
        ("y:Q", upright),
        ("y1:Q", "95 % from "),
        ("y2:Q", "95 % to "),
        ("metric:N", "across is"),
    )
    layers = [
        base.transform_filter("datum.front")
        .mark_line(strokeDash=[5, 4], strokeWidth=1.5, color=MUTED)
        .encode(**at),
        ends(base, "x1", "x2", "x")
        .mark_rule(opacity=0.6)
        .encode(x=alt.X("from:Q", scale=over, axis=axis), x2="to:Q", y=at["y"], color=colour),
        ends(base, "y1", "y2", "y")
        .mark_rule(opacity=0.6)
        .encode(x=at["x"], y=alt.Y("from:Q", scale=up_scale, title=None), y2="to:Q", color=colour),
        base.transform_filter("datum.front")
        .mark_point(size=260, color=MUTED, strokeWidth=1.2, opacity=1)
        .encode(**at),
        base.mark_point(filled=True, size=85, opacity=1).encode(
            **at,
            color=colour,
            shape=alt.Shape("model:N", scale=shape_scale(context), legend=None),
            tooltip=told,
        ),
    ]
    words = base.transform_calculate(height="isValid(datum.at) ? datum.at : datum.y")
    sides: tuple[tuple[str, Literal["right", "left"], int], ...] = (
        ("left", "right", -12),
        ("right", "left", 12),
    )
    for side, anchor, shift in sides:
        here = words.transform_calculate(label=f"datum.side === '{side}' ? datum.model : ''")
        place = {"align": anchor, "dx": shift, "limit": LABELS, "baseline": "middle"}
        written = {
            "x": at["x"],
            "y": alt.Y("height:Q", scale=up_scale, title=None),
            "text": "label:N",
        }
        layers.append(
            here.mark_text(**place, stroke=PAPER, strokeWidth=4).encode(**written)
        )  # so that no line crosses a name
        layers.append(here.mark_text(**place).encode(**written, color=colour, tooltip=told))
    layers.append(
        below(canvas.source([{"metric": label} for label in labels.values()], choice), "metric")
    )
    key = canvas.source([{}]).mark_text(
        align="left", baseline="top", color=MUTED, text="○ Pareto front"
    )
    layers.append(key.encode(x=alt.value(0), y=alt.value(alt.ExprRef("height + 27"))))
    texts: Texts = {}
    for name, best in fronts.items():
        leaders = [
            f"{named(model)} ({name} {number(known[name][model].value)}, {upright} "
            f"{number(known[upright][model].value)})"
            for model in best
        ]
        beaten = [
            named(str(row["model"]))
            for row in table
            if row["metric across"] == name and not row["on the Pareto front"]
        ]
        texts[labels[name],] = (
            f"{upright_label} against {labels[name]} for {models_in_words(context)}. "
            "On the Pareto front, where no other model is as good in both and better in one: "
            f"{listed(leaders)}." + (f" Not on it: {listed(beaten)}." if beaten else "")
        )
    first = next(iter(fronts))
    text = texts[labels[first],]
    chart = finish(layers, canvas, choice, height=_HEIGHT, text=text, title=upright_label)
    title = f"{upright} against what it costs" if choice.is_free else f"{upright} against {first}"
    return Figure("tradeoff", title, text, chart, pl.DataFrame(table), by_choice(texts, choice))


def _accuracy(context: ReportContext, known: dict[str, Values]) -> str:
    for name in [*context.headlines, *known]:
        if metric_family(name) in _ACCURACY:
            return name
    raise MissingInput("tradeoff needs an accuracy metric: evaluate, say, nDCG; or give y=.")


def _beyond(context: ReportContext, known: dict[str, Values], upright: str) -> list[str]:
    """What accuracy may be traded for: at the same cut-off, or without one; the headline metrics
    first.
    """
    k = next(iter(known[upright].values())).k
    families = {metric_family(upright), *_ACCURACY[:2]}
    found = [
        name
        for name, of in known.items()
        if next(iter(of.values())).k in (k, None)
        and metric_family(name) not in families
        and name != upright
    ]
    order = {"diversity": 0, "novelty": 1, "bias": 2, "coverage": 3}
    return sorted(
        found, key=lambda name: (name not in context.headlines, order.get(metric_family(name), 9))
    )


def _labels(
    context: ReportContext, points: dict[str, tuple[float, float]], height: int
) -> dict[str, tuple[float, str]]:
    """For the models with a colour, where the label stands: its height, and on which side; free of
    other labels and points.
    """
    lows, highs = (
        [min(axis) for axis in zip(*points.values())],
        [max(axis) for axis in zip(*points.values())],
    )
    spans = [(high - low) or 1.0 for low, high in zip(lows, highs)]
    at = {
        model: (_NARROW * (x - lows[0]) / spans[0], height * (y - lows[1]) / spans[1])
        for model, (x, y) in points.items()
    }
    taken: list[_Box] = [(x - 6, x + 6, y) for x, y in at.values()]
    found: dict[str, tuple[float, str]] = {}
    for model in sorted(
        (model for model in coloured(context) if model in at), key=lambda model: at[model][1]
    ):
        x, y = at[model]
        wide = min(6.5 * len(named(model)), LABELS) + 12
        boxes: dict[tuple[float, str], _Box] = {}  # the nearest first
        for shift in (0.0, 9.0, -9.0, 18.0, -18.0, 27.0, -27.0, 36.0, -36.0):
            for side in ("left", "right") if x > _NARROW / 2 else ("right", "left"):
                boxes[shift, side] = (
                    (x - wide, x - 8, y + shift) if side == "left" else (x + 8, x + wide, y + shift)
                )
        shift, side = min(boxes, key=lambda one: _crowding(boxes[one], taken))
        taken.append(boxes[shift, side])
        found[model] = (points[model][1] + shift * spans[1] / height, side)
    return found


def _crowding(box: _Box, taken: list[_Box]) -> int:
    """How many labels and points are in the way; to stand outside of the chart is worse."""
    start, end, middle = box
    touched = sum(
        start < right and left < end and abs(middle - at) < LINE for left, right, at in taken
    )
    return touched + 3 * (start < -20 or end > _NARROW + 20)
