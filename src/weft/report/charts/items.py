"""Charts of the items: how recommendations are spread over the catalogue, and how popular the recommended items are."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from weft.errors import MissingInput, SettingError
from weft.report.charts.drawing import Canvas, Choice, Figure, end_labels, finish, hover, listed, number, room_right, source, spread
from weft.report.charts.theme import INK, MUTED, colour_scale, coloured, colours, named, shape_scale
from weft.report.subject import Subject

_HEIGHT = 320
_POINTS = 48  # of a curve
_USUAL = 10
_LINE = 17  # pixels between two lines of the key
_CATALOGUE, _TRAIN = "all items", "train data"


def _frames(kind: str, subject: Subject, canvas: Canvas, k: int | None) -> tuple[dict[str, pl.DataFrame], list[int]]:
    """The tables of the models that have one, and the cut-offs of the chart, the usual one first."""
    frames = {
        model: frame for model, result in subject.results.items() if (frame := getattr(result, kind)) is not None and len(frame)
    }
    if not frames:
        more = " and train=" if kind == "popularity" else ""
        raise MissingInput(f"{kind} needs how often each item is recommended: evaluate with exposure=True{more}.")
    known = sorted({at for frame in frames.values() for at in frame["k"].to_list()})
    if k is not None:
        if isinstance(k, bool) or k not in known:
            raise SettingError(f"k={k!r}; {kind} is known at k = {', '.join(map(str, known))}.")
        return frames, [k]
    first = _USUAL if _USUAL in known else known[0]
    return frames, [first, *(at for at in known if at != first)] if canvas.has_choices else [first]


def exposure(subject: Subject, canvas: Canvas, k: int | None = None) -> Figure:
    """Lorenz curves: which share of all recommendations the least recommended items get; the diagonal is equality."""
    frames, ks = _frames("exposure", subject, canvas, k)
    choice = Choice("cut", "Cut-off", [f"k = {at}" for at in ks])
    own = coloured(subject)
    rows, key, table = [], [], []
    told: dict[str, float] = {}
    for at, label in zip(ks, choice.options):
        ginis = {}
        for model in sorted(frames, key=lambda model: model in own):
            curve = frames[model].filter(pl.col("k") == at).sort("items", "recommendations")
            x, y = curve["items"].to_numpy(), curve["recommendations"].to_numpy()
            if len(x) < 2 or not np.isfinite(y).all():
                continue  # nothing was recommended
            gini = (
                subject.results[model][f"Gini@{at}"]
                if f"Gini@{at}" in subject.results[model]
                else float(1 - 2 * np.trapezoid(y, x))
            )
            ginis[model] = gini
            x, y = _thinned(x, y)
            rows.append(
                {"cut": label, "model": named(model), "gini": gini, "own": model in own, "items": x.tolist(), "got": y.tolist()}
            )
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
        told = told or ginis
        listed_ = sorted((model for model in ginis if model in own), key=lambda model: ginis[model])
        key += [
            {"cut": label, "model": named(model), "text": f"{number(ginis[model])}  {named(model)}", "at": place}
            for place, model in enumerate(listed_)
        ]
    if not rows:
        raise MissingInput("exposure: no model recommended anything.")
    base = source(rows, choice).transform_flatten(["items", "got"])
    domain = alt.Scale(domain=[0, 1])
    axis: dict[str, Any] = {"format": ".0%", "values": [0, 0.25, 0.5, 0.75, 1]}
    x_, y_ = (
        alt.X("items:Q", scale=domain, axis=alt.Axis(title="share of items, least recommended first", titleAnchor="end", **axis)),
        alt.Y("got:Q", scale=domain, axis=alt.Axis(title=None, **axis)),
    )
    colour = alt.Color("model:N", scale=colour_scale(subject), legend=None)
    told_on_hover = [
        alt.Tooltip("model:N", title="model"),
        alt.Tooltip("cut:N", title="cut-off"),
        alt.Tooltip("gini:Q", title="Gini", format=".4f"),
        alt.Tooltip("items:Q", title="of the items", format=".1%"),
        alt.Tooltip("got:Q", title="of the recommendations", format=".1%"),
    ]
    words = source(key, choice)
    place = alt.Y("at:Q", axis=None, scale=alt.Scale(domain=[0, 1], range=[24, 24 + _LINE], nice=False, zero=False))
    keys = alt.layer(
        words.mark_point(filled=True, size=60, opacity=1).encode(
            x=alt.value(12), y=place, color=colour, shape=alt.Shape("model:N", scale=shape_scale(subject), legend=None)
        ),
        words.mark_text(align="left", limit=140).encode(
            x=alt.value(22), y=place, text="text:N", color=colour, tooltip=[alt.Tooltip("model:N", title="model")]
        ),
        source([{}]).mark_text(align="left", text="Gini, lower is more equal", color=MUTED).encode(x=alt.value(6), y=alt.value(8)),
    )
    layers = [
        source([{"items": 0, "got": 0}, {"items": 1, "got": 1}])
        .mark_line(color=MUTED, strokeDash=[4, 4], strokeWidth=1)
        .encode(x=x_, y=y_),
        base.mark_line(strokeWidth=2).encode(
            x=x_, y=y_, color=colour, opacity=alt.condition("datum.own", alt.value(1.0), alt.value(0.5))
        ),
        base.mark_point(size=90, opacity=0, filled=True).encode(x=x_, y=y_, tooltip=told_on_hover),
    ]
    ordered = sorted(told, key=lambda model: told[model])
    text = (
        f"Lorenz curves of the items recommended in the top {ks[0]}, from equality (Gini 0) to one item for all (Gini 1). Gini, most equal "
        f"first: {listed([f'{named(model)} {number(told[model])}' for model in ordered])}."
    )
    chart = finish(
        [alt.layer(*layers), keys], canvas, choice, height=_HEIGHT, text=text, title="share of recommendations"
    ).resolve_scale(y="independent")
    return Figure("exposure", "How recommendations are spread over the items", text, chart, pl.DataFrame(table))


def _thinned(x: Any, y: Any) -> tuple[Any, Any]:
    """Some points of a curve, evenly along it; always the first and the last."""
    if len(x) <= _POINTS:
        return x, y
    along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    kept = np.unique(np.searchsorted(along, np.linspace(0, along[-1], _POINTS)).clip(0, len(x) - 1))
    return x[kept], y[kept]


def popularity(subject: Subject, canvas: Canvas, k: int | None = None) -> Figure:
    """What is recommended by popularity: the share of each bin of items, against its share of the items and of train data."""
    frames, ks = _frames("popularity", subject, canvas, k)
    choice = Choice("cut", "Cut-off", [f"k = {at}" for at in ks])
    own = coloured(subject)
    lines, ends, table = [], [], []
    bins: list[str] = []
    text = ""
    for at, label in zip(ks, choice.options):
        shares: dict[str, Any] = {}
        for model in sorted(frames, key=lambda model: model in own):
            frame = frames[model].filter(pl.col("k") == at).sort("low")
            if not len(frame):
                continue
            names = [_bin(low, high) for low, high in zip(frame["low"].to_list(), frame["high"].to_list())]
            if not shares:  # the catalogue and train are the same for all models
                bins = [*dict.fromkeys([*bins, *names])]
                shares |= {_CATALOGUE: (names, frame["items"].to_numpy()), _TRAIN: (names, frame["interactions"].to_numpy())}
            shares[named(model)] = (names, frame["recommendations"].to_numpy())
        drawn = {name: (names, counts / counts.sum()) for name, (names, counts) in shares.items() if counts.sum() > 0}
        kept = [name for name in drawn if name in (_CATALOGUE, _TRAIN) or name in {named(model) for model in own}]
        top = max(float(share.max()) for _, share in drawn.values())
        places = spread([float(drawn[name][1][-1]) for name in kept], 0.0, top, canvas.height or _HEIGHT)
        for name, (names, share) in drawn.items():
            lines.append(
                {
                    "cut": label,
                    "model": name,
                    "own": name in kept,
                    "bin": names,
                    "share": share.tolist(),
                    "reference": name in (_CATALOGUE, _TRAIN),
                }
            )
            table += [
                {"cut-off": at, "train interactions": one, "of": name, "share": float(part)} for one, part in zip(names, share)
            ]
        ends += [{"cut": label, "model": name, "bin": drawn[name][0][-1], "at": place} for name, place in zip(kept, places)]
        text = text or _popularity_text(at, drawn)
    more = [(_CATALOGUE, MUTED), (_TRAIN, INK)]
    colour = alt.Color("model:N", scale=colour_scale(subject, more), legend=None)
    base = source(lines, choice).transform_flatten(["bin", "share"])
    x = alt.X(
        "bin:O",
        sort=bins,
        scale=alt.Scale(type="point", padding=0.3, range=room_right()),
        axis=alt.Axis(
            title="train interactions of the item", titleAnchor="start", labelAngle=-35 if len(bins) > 6 else 0, grid=False
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
        base.transform_filter("datum.reference").mark_line(strokeDash=[5, 4], strokeWidth=1.5).encode(x=x, y=y, color=colour),
        base.transform_filter("datum.reference").mark_point(size=120, opacity=0, filled=True).encode(x=x, y=y, tooltip=told),
        models.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, opacity=opacity),
        models.mark_point(filled=True, size=55).encode(
            x=x,
            y=y,
            color=colour,
            opacity=opacity,
            tooltip=told,
            shape=alt.Shape("model:N", scale=shape_scale(subject), legend=None),
        ),
        end_labels(source(ends, choice), x, alt.Y("at:Q", scale=scale, title=None), colour),
    ]
    chart = finish(
        layers, canvas, choice, height=_HEIGHT, text=text, title="share of recommendations, of items and of train interactions"
    )
    return Figure("popularity", "Popularity of what is recommended", text, chart, pl.DataFrame(table))


def _bin(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _popularity_text(k: int, drawn: dict[str, Any]) -> str:
    names, items = drawn[_CATALOGUE]
    interactions = drawn[_TRAIN][1] if _TRAIN in drawn else items
    models = [f"{name} {share[-1]:.0%}" for name, (_, share) in drawn.items() if name not in (_CATALOGUE, _TRAIN)]
    return (
        f"Share of recommendations in the top {k} by popularity of the items. The most popular ones ({names[-1]} train interactions) are "
        f"{items[-1]:.1%} of the items and {interactions[-1]:.0%} of the train interactions; of the recommendations they have: {listed(models)}."
    )
