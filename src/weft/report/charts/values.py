"""Charts of the values of models: against the cut-off, side by side, and one metric against
another.
"""

from __future__ import annotations

import math
from typing import Literal

import altair as alt

from weft.errors import MissingInput
from weft.report.charts.drawing import (
    LABELS,
    Canvas,
    Choice,
    Figure,
    Texts,
    Values,
    better,
    by_choice,
    direction,
    end_labels,
    ends,
    find,
    finish,
    form,
    hover,
    in_chart,
    models_in_words,
    number,
    room_right,
    spread,
    value_table,
    values_by_name,
)
from weft.report.charts.theme import INK, colour_scale, coloured, named, shape_scale
from weft.report.context import USUAL_CUTOFF, ReportContext

_HEIGHT = 300
_ROW = 24  # pixels of a model's row
_MANY = 60  # metrics at cut-offs to choose from; of more, only those at the usual cut-off


def cutoffs(context: ReportContext, canvas: Canvas, metric: str | None = None) -> Figure:
    """A metric against its cut-off: one line per model, with bands of 95 % intervals."""
    by_metric: dict[str, dict[int, Values]] = {}
    for values in values_by_name(context).values():
        one = next(iter(values.values()))
        if one.k is not None:
            by_metric.setdefault(one.metric, {})[one.k] = values
    by_metric = {name: at for name, at in by_metric.items() if len(at) > 1}
    if not by_metric:
        raise MissingInput(
            "cutoffs draws a metric against its cut-off: evaluate at two or more, such as "
            "top_k=[5, 10, 20]."
        )
    firsts = [
        name
        for name in dict.fromkeys(
            context.results[model].entry(line).metric
            for line in context.headlines
            for model in context.models
            if line in context.results[model]
        )
        if name in by_metric
    ]
    default = max(firsts or by_metric, key=lambda name: len(by_metric[name]))
    shown = in_chart(
        canvas,
        default if metric is None else find("metric", metric, [*by_metric]),
        metric,
        [*by_metric],
    )
    labels = {
        name: name + better(next(iter(next(iter(by_metric[name].values())).values())))
        for name in shown
    }
    choice = Choice("metric", "Metric", [*labels.values()])

    own = coloured(context)
    order = sorted(context.models, key=lambda model: model in own)  # coloured lines on top
    lines, labelled = [], []
    for name, label in labels.items():
        at = dict(sorted(by_metric[name].items()))
        drawn = [model for model in order if any(model in values for values in at.values())]
        every = [[values.get(model) for values in at.values()] for model in drawn]
        intervals = [
            [one.interval if one and model in own else None for one in line]
            for model, line in zip(drawn, every)
        ]
        lines.append(
            {
                "metric": label,
                "k": [*at],
                "model": [*map(named, drawn)],
                "own": [model in own for model in drawn],
                "value": [[one.value if one else None for one in line] for line in every],
                "low": [[one.low if one else None for one in line] for line in intervals],
                "high": [[one.high if one else None for one in line] for line in intervals],
            }
        )
        last = {
            model: [(k, one.value) for k, one in zip(at, line) if one][-1]
            for model, line in zip(drawn, every)
            if model in own
        }
        ys = [one.value for line in every for one in line if one]
        ys += [
            end
            for line in intervals
            for one in line
            if one
            for end in one[:2]
            if math.isfinite(end)
        ]
        places = spread([y for _, y in last.values()], min(ys), max(ys), canvas.height or _HEIGHT)
        labelled += [
            {"metric": label, "model": named(model), "k": k, "at": place}
            for (model, (k, _)), place in zip(last.items(), places)
        ]

    ks = sorted({k for name in shown for k in by_metric[name]})
    kind: Literal["log", "linear"] = "log" if len(ks) > 2 and ks[-1] >= 8 * ks[0] else "linear"
    x = alt.X(
        "k:Q",
        scale=alt.Scale(
            type=kind,
            zero=alt.Undefined if kind == "log" else False,
            nice=False,
            padding=10,
            range=room_right(),
        ),
        axis=alt.Axis(values=ks, grid=False, format="d", title="cut-off k", titleAnchor="start"),
    )
    scale = alt.Scale(zero=False)
    colour = alt.Color("model:N", scale=colour_scale(context), legend=None)
    opacity = alt.condition("datum.own", alt.value(1.0), alt.value(0.55))
    base = canvas.source(lines, choice).transform_flatten(["model", "own", "value", "low", "high"])
    base = base.transform_flatten(["k", "value", "low", "high"]).transform_filter(
        "isValid(datum.value)"
    )
    told = hover(
        ("model:N", "model"),
        ("metric:N", "metric"),
        ("k:Q", "k"),
        ("value:Q", "value"),
        ("low:Q", "95 % from"),
        ("high:Q", "95 % to"),
    )
    y = alt.Y("value:Q", scale=scale, title=None)
    banded = ends(base.transform_filter("datum.own"), "low", "high", "value")
    layers = [
        banded.mark_area(opacity=0.14).encode(
            x=x, y=alt.Y("from:Q", scale=scale, title=None), y2="to:Q", color=colour
        ),
        base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, opacity=opacity),
        base.mark_point(filled=True, size=55).encode(
            x=x,
            y=y,
            color=colour,
            opacity=opacity,
            shape=alt.Shape("model:N", scale=shape_scale(context), legend=None),
            tooltip=told,
        ),
        end_labels(
            canvas.source(labelled, choice), x, alt.Y("at:Q", scale=scale, title=None), colour
        ),
    ]
    first = next(iter(labels))
    texts: Texts = {
        (label,): _cutoff_text(context, name, by_metric[name]) for name, label in labels.items()
    }
    text = texts[labels[first],]
    chart = finish(layers, canvas, choice, height=_HEIGHT, text=text, title=choice.shown)
    table = value_table(
        (name, k, model, value)
        for name in shown
        for k, values in sorted(by_metric[name].items())
        for model, value in values.items()
    )
    title = "Metrics against the cut-off" if choice.is_free else f"{first} against the cut-off"
    return Figure("cutoffs", title, text, chart, table, by_choice(texts, choice))


def _cutoff_text(context: ReportContext, metric: str, at: dict[int, Values]) -> str:
    k = USUAL_CUTOFF if USUAL_CUTOFF in at else max(at)
    said = f"{metric} at k = {', '.join(map(str, sorted(at)))} for {models_in_words(context)}"
    return f"{said}: at k = {k} {_standing(at[k])}."


def _standing(values: Values) -> str:
    """Who leads, and what the others have: the first five."""
    ordered = _best_first(values)
    merits = {value.merit for value in values.values()}
    first, *others = ordered
    lead = f"{named(first)} {'leads with' if len(merits - {None}) > 1 else 'has'} {number(values[first].value)}"
    told = [f"{named(model)} has {number(values[model].value)}" for model in others[:4]]
    if len(others) > 5:
        told.append(
            f"{len(others) - 5} models lie between, and {named(others[-1])} has "
            f"{number(values[others[-1]].value)}"
        )
    elif len(others) == 5:
        told.append(f"{named(others[-1])} has {number(values[others[-1]].value)}")
    return ", ".join([lead, *told])


def _best_first(values: Values) -> list[str]:
    """The models from best to worst; by value, if the metric has no direction."""

    def key(model: str) -> float:
        merit = values[model].merit
        return -(values[model].value if merit is None else merit)

    return sorted(values, key=key)


def values(context: ReportContext, canvas: Canvas, metric: str | None = None) -> Figure:
    """A metric of all models: a point each, with its 95 % interval, the best on top."""
    known = values_by_name(context)
    if not known:
        raise MissingInput("values draws a metric of each model, but none has a defined value.")
    default = next(iter([*context.headlines, *known]))
    offered = [*known] if len(known) <= _MANY else _at_usual(known, context)
    shown = in_chart(
        canvas, default if metric is None else find("metric", metric, [*known]), metric, offered
    )
    labels = {name: direction(next(iter(known[name].values()))) for name in shown}
    choice = Choice("metric", "Metric", [*labels.values()])
    rows = []
    for name, label in labels.items():
        best = _best_first(known[name])
        of = [known[name][model] for model in best]
        rows.append(
            {
                "metric": label,
                "form": form([one.value for one in of], 4),
                "model": [*map(named, best)],
                "rank": [*range(len(best))],
                "value": [one.value for one in of],
                "low": [one.interval.low for one in of],
                "high": [one.interval.high for one in of],
                "users": [one.users for one in of],
            }
        )
    base = canvas.source(rows, choice).transform_flatten(
        ["model", "rank", "value", "low", "high", "users"]
    )
    base = base.transform_calculate(text="format(datum.value, datum.form)")
    y = alt.Y(
        "model:N",
        sort=alt.EncodingSortField("rank", op="min"),
        title=None,
        axis=alt.Axis(labelLimit=LABELS, labelColor=INK, labelOverlap=False, grid=False),
    )
    scale = alt.Scale(zero=False, padding=12, range=room_right(64))
    x = alt.X("value:Q", scale=scale, title=None)
    colour = alt.Color("model:N", scale=colour_scale(context), legend=None)
    told = hover(
        ("model:N", "model"),
        ("metric:N", "metric"),
        ("value:Q", "value"),
        ("low:Q", "95 % from"),
        ("high:Q", "95 % to"),
        ("users:Q", "users"),
    )
    layers = [
        ends(base, "low", "high", "value")
        .mark_rule(strokeWidth=2.5, strokeCap="round")
        .encode(
            x=alt.X("from:Q", scale=scale, title=None), x2="to:Q", y=y, color=colour, tooltip=told
        ),
        base.mark_point(filled=True, size=75, opacity=1).encode(
            x=x,
            y=y,
            color=colour,
            shape=alt.Shape("model:N", scale=shape_scale(context), legend=None),
            tooltip=told,
        ),
        base.mark_text(align="right").encode(x=alt.value(alt.ExprRef("width")), y=y, text="text:N"),
    ]
    first = next(iter(labels))
    texts: Texts = {
        (label,): f"{label} of {models_in_words(context)}: {_standing(known[name])}."
        for name, label in labels.items()
    }
    text = texts[labels[first],]
    chart = finish(
        layers,
        canvas,
        choice,
        height=_ROW * max(len(known[name]) for name in labels),
        text=text,
        title=choice.shown,
    )
    table = value_table(
        (name, None, model, value) for name in shown for model, value in known[name].items()
    )
    title = "Models side by side" if choice.is_free else f"{first} of each model"
    return Figure("values", title, text, chart, table, by_choice(texts, choice))


def _at_usual(known: dict[str, Values], context: ReportContext) -> list[str]:
    """Of every metric one cut-off: that of the headline metrics, if there is one."""
    usual = {next(iter(known[name].values())).k for name in context.headlines if name in known}
    found: dict[str, str] = {}
    for name, of in known.items():
        one = next(iter(of.values()))
        if one.metric not in found or one.k in usual:
            found[one.metric] = name
    return list(found.values())
