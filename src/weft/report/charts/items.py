"""Charts of the items: how recommendations are spread over the catalogue, and how popular the
recommended items are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from weft.errors import MissingInput, SettingError
from weft.report.charts.drawing import (
    Canvas,
    Choice,
    Figure,
    Texts,
    by_choice,
    end_labels,
    finish,
    listed,
    number,
    room_right,
    spread,
)
from weft.report.charts.theme import INK, MUTED, colour_scale, coloured, named, shape_scale
from weft.report.context import USUAL_CUTOFF, ReportContext

_HEIGHT = 320
_POINTS = 48  # of a curve; half of it for models without a colour of their own
_LINE = 17  # pixels between two lines of the key


def _frames(
    kind: str, context: ReportContext, canvas: Canvas, k: int | None
) -> tuple[dict[str, pl.DataFrame], list[int]]:
    """The tables of the models that have one, and the cut-offs of the chart, the usual one first."""
    frames = {
        model: frame
        for model, result in context.results.items()
        if (frame := getattr(result, kind)) is not None and len(frame)
    }
    if not frames:
        more = " and train=" if kind == "popularity" else ""
        raise MissingInput(
            f"{kind} needs how often each item is recommended: evaluate with exposure=True{more}."
        )
    known = sorted({at for frame in frames.values() for at in frame["k"].to_list()})
    if k is not None:
        if isinstance(k, bool) or k not in known:
            raise SettingError(f"k={k!r}; {kind} is known at k = {', '.join(map(str, known))}.")
        return frames, [k]
    first = USUAL_CUTOFF if USUAL_CUTOFF in known else known[0]
    return frames, [first, *(at for at in known if at != first)] if canvas.has_choices else [first]


def exposure(context: ReportContext, canvas: Canvas, k: int | None = None) -> Figure:
    """Lorenz curves: which share of all recommendations the least recommended items get; the
    diagonal is equality.
    """
    frames, ks = _frames("exposure", context, canvas, k)
    choice = Choice("cut", "Cut-off", [f"k = {at}" for at in ks])
    own = coloured(context)
    rows, key, table = [], [], []
    texts: Texts = {}
    for at, label in zip(ks, choice.options):
        ginis: dict[str, float] = {}
        for model in sorted(frames, key=lambda model: model in own):
            curve = frames[model].filter(pl.col("k") == at).sort("items", "recommendations")
            x, y = curve["items"].to_numpy(), curve["recommendations"].to_numpy()
            if len(x) < 2 or not np.isfinite(y).all():
                continue  # nothing was recommended
            gini = (
                context.results[model][f"Gini@{at}"]
                if f"Gini@{at}" in context.results[model]
                else float(1 - 2 * np.trapezoid(y, x))
            )
            ginis[model] = gini
            for share in (0.5, 0.8, 0.9, 0.99):
                table.append(
                    {
                        "cut-off": at,
                        "model": model,
                        "Gini": gini,
                        "least recommended share of items": share,
                        "share of recommendations": float(np.interp(share, x, y)),
                    }
                )
            x, y = _thinned(x, y, _POINTS if model in own else _POINTS // 2)
            rows.append(
                {
                    "cut": label,
                    "model": named(model),
                    "gini": gini,
                    "own": model in own,
                    "items": x.tolist(),
                    "got": y.tolist(),
                }
            )
        if ginis:
            ordered = [
                f"{named(model)} {number(ginis[model])}"
                for model in sorted(ginis, key=lambda model: ginis[model])
            ]
            texts[label,] = (
                f"Lorenz curves of the items recommended in the top {at}, from equality (Gini 0) "
                "to one item for all (Gini 1). "
                f"Gini, most equal first: {listed(ordered)}."
            )
        listed_ = sorted((model for model in ginis if model in own), key=lambda model: ginis[model])
        key += [
            {
                "cut": label,
                "model": named(model),
                "text": f"{number(ginis[model])}  {named(model)}",
                "at": place,
            }
            for place, model in enumerate(listed_)
        ]
    if not rows:
        raise MissingInput("exposure: no model recommended anything.")
    base = canvas.source(rows, choice).transform_flatten(["items", "got"])
    domain = alt.Scale(domain=[0, 1])
    axis: dict[str, Any] = {"format": ".0%", "values": [0, 0.25, 0.5, 0.75, 1]}
    x_, y_ = (
        alt.X(
            "items:Q",
            scale=domain,
            axis=alt.Axis(
                title="share of items, least recommended first", titleAnchor="end", **axis
            ),
        ),
        alt.Y("got:Q", scale=domain, axis=alt.Axis(title=None, **axis)),
    )
    colour = alt.Color("model:N", scale=colour_scale(context), legend=None)
    told_on_hover = [
        alt.Tooltip("model:N", title="model"),
        alt.Tooltip("cut:N", title="cut-off"),
        alt.Tooltip("gini:Q", title="Gini", format=".4f"),
        alt.Tooltip("items:Q", title="of the items", format=".1%"),
        alt.Tooltip("got:Q", title="of the recommendations", format=".1%"),
    ]
    words = canvas.source(key, choice)
    place = alt.Y(
        "at:Q",
        axis=None,
        scale=alt.Scale(domain=[0, 1], range=[24, 24 + _LINE], nice=False, zero=False),
    )
    keys = alt.layer(
        words.mark_point(filled=True, size=60, opacity=1).encode(
            x=alt.value(12),
            y=place,
            color=colour,
            shape=alt.Shape("model:N", scale=shape_scale(context), legend=None),
        ),
        words.mark_text(align="left", limit=140).encode(
            x=alt.value(22),
            y=place,
            text="text:N",
            color=colour,
            tooltip=[alt.Tooltip("model:N", title="model")],
        ),
        canvas.source([{}])
        .mark_text(align="left", text="Gini, lower is more equal", color=MUTED)
        .encode(x=alt.value(6), y=alt.value(8)),
    )
    layers = [
        canvas.source([{"items": 0, "got": 0}, {"items": 1, "got": 1}])
        .mark_line(color=MUTED, strokeDash=[4, 4], strokeWidth=1)
        .encode(x=x_, y=y_),
        base.mark_line(strokeWidth=2).encode(
            x=x_,
            y=y_,
            color=colour,
            opacity=alt.condition("datum.own", alt.value(1.0), alt.value(0.5)),
        ),
        base.mark_point(size=90, opacity=0, filled=True).encode(x=x_, y=y_, tooltip=told_on_hover),
    ]
    text = next(iter(texts.values()))
    chart = finish(
        [alt.layer(*layers), keys],
        canvas,
        choice,
        height=_HEIGHT,
        text=text,
        title="share of recommendations",
    ).resolve_scale(y="independent")
    title = "How recommendations are spread over the items"
    return Figure("exposure", title, text, chart, pl.DataFrame(table), by_choice(texts, choice))


def _thinned(x: Any, y: Any, points: int) -> tuple[Any, Any]:
    """Some points of a curve, evenly along it; always the first and the last."""
    if len(x) <= points:
        return x, y
    along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    kept = np.unique(np.searchsorted(along, np.linspace(0, along[-1], points)).clip(0, len(x) - 1))
    return x[kept].round(4), y[kept].round(4)


def popularity(context: ReportContext, canvas: Canvas, k: int | None = None) -> Figure:
    """What is recommended by popularity: the share of each bin of items, against its share of the
    items and of train data.
    """
    frames, ks = _frames("popularity", context, canvas, k)
    choice = Choice("cut", "Cut-off", [f"k = {at}" for at in ks])
    own = coloured(context)
    names = {model: named(model) for model in context.models}
    catalogue, train = (_unlike(name, names.values()) for name in ("all items", "train data"))
    edges = sorted(
        {row for frame in frames.values() for row in frame.select("low", "high").iter_rows()}
    )
    places = {edge: at for at, edge in enumerate(edges)}
    lines, ends, table = [], [], []
    texts: Texts = {}
    for at, label in zip(ks, choice.options):
        counts: dict[str, Any] = {}
        for model in sorted(frames, key=lambda model: model in own):
            frame = frames[model].filter(pl.col("k") == at).sort("low", "high")
            bins = [places[edge] for edge in frame.select("low", "high").iter_rows()]
            if len(bins) and not counts:  # the catalogue and train are the same for all models
                counts = {
                    catalogue: (bins, frame["items"].to_numpy()),
                    train: (bins, frame["interactions"].to_numpy()),
                }
            if len(bins):
                counts[names[model]] = (bins, frame["recommendations"].to_numpy())
        drawn = {
            name: (bins, many / many.sum())
            for name, (bins, many) in counts.items()
            if many.sum() > 0
        }
        kept = [
            name for name in drawn if name in (catalogue, train, *(names[model] for model in own))
        ]
        top = max(float(share.max()) for _, share in drawn.values())
        heights = spread(
            [float(drawn[name][1][-1]) for name in kept], 0.0, top, canvas.height or _HEIGHT
        )
        ends += [
            {"cut": label, "model": name, "bin": _bin(*edges[drawn[name][0][-1]]), "at": height}
            for name, height in zip(kept, heights)
        ]
        for name, (bins, share) in drawn.items():
            is_reference = name in (catalogue, train)
            about = {"cut": label, "model": name, "own": name in kept, "reference": is_reference}
            lines.append(about | {"at": bins, "share": share.round(5).tolist()})
            table += [
                {
                    "cut-off": at,
                    "train interactions": _bin(*edges[one]),
                    "of": name,
                    "share": float(part),
                }
                for one, part in zip(bins, share)
            ]
        texts[label,] = _popularity_text(at, _bin(*edges[-1]), drawn, catalogue, train)
    ticks = [_bin(*edge) for edge in edges]
    more = [(catalogue, MUTED), (train, INK)]
    colour = alt.Color("model:N", scale=colour_scale(context, more), legend=None)
    numbered = canvas.data([{"at": at, "bin": name} for at, name in enumerate(ticks)])
    base = canvas.source(lines, choice).transform_flatten(["at", "share"])
    base = base.transform_lookup("at", from_=alt.LookupData(numbered, key="at", fields=["bin"]))
    x = alt.X(
        "bin:O",
        sort=ticks,
        scale=alt.Scale(type="point", padding=0.3, range=room_right()),
        axis=alt.Axis(
            title="train interactions of the item",
            titleAnchor="start",
            labelAngle=-35 if len(ticks) > 6 else 0,
            grid=False,
        ),
    )
    scale = alt.Scale(zero=True)
    y = alt.Y("share:Q", scale=scale, axis=alt.Axis(title=None, format=".0%"))
    told = [
        alt.Tooltip("model:N", title="of"),
        alt.Tooltip("cut:N", title="cut-off"),
        alt.Tooltip("bin:N", title="train interactions"),
        alt.Tooltip("share:Q", title="share", format=".2%"),
    ]
    opacity = alt.condition("datum.own", alt.value(1.0), alt.value(0.5))
    models = base.transform_filter("!datum.reference")
    layers = [
        base.transform_filter("datum.reference")
        .mark_line(strokeDash=[5, 4], strokeWidth=1.5)
        .encode(x=x, y=y, color=colour),
        base.transform_filter("datum.reference")
        .mark_point(size=120, opacity=0, filled=True)
        .encode(x=x, y=y, tooltip=told),
        models.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, opacity=opacity),
        models.mark_point(filled=True, size=55).encode(
            x=x,
            y=y,
            color=colour,
            opacity=opacity,
            tooltip=told,
            shape=alt.Shape("model:N", scale=shape_scale(context), legend=None),
        ),
        end_labels(canvas.source(ends, choice), x, alt.Y("at:Q", scale=scale, title=None), colour),
    ]
    text = next(iter(texts.values()))
    chart = finish(
        layers, canvas, choice, height=_HEIGHT, text=text, title="share by popularity of the item"
    )
    title = "Popularity of what is recommended"
    return Figure("popularity", title, text, chart, pl.DataFrame(table), by_choice(texts, choice))


def _bin(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _unlike(name: str, taken: Iterable[str]) -> str:
    """A name that no model has."""
    while name in taken:
        name += "*"
    return name


def _popularity_text(k: int, most: str, drawn: dict[str, Any], catalogue: str, train: str) -> str:
    last = {name: float(share[-1]) for name, (_, share) in drawn.items()}
    models = [
        f"{name} {share:.0%}" for name, share in last.items() if name not in (catalogue, train)
    ]
    return (
        f"Share of recommendations in the top {k} by popularity of the items. Those with {most} "
        "train interactions are "
        f"{last.get(catalogue, 0):.1%} of the items and have {last.get(train, 0):.0%} of the train "
        "interactions; of the "
        f"recommendations they have: {listed(models)}."
    )
