"""Charts of groups: metrics by slice of users, and what groups of users get of clusters of items."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import polars as pl

from weft.errors import MissingInput, SettingError, check_choice
from weft.evaluation.metric_value import MetricValue
from weft.report.charts.drawing import (
    Canvas,
    Choice,
    Drawn,
    Figure,
    Texts,
    better,
    by_choice,
    find,
    finish,
    form,
    hover,
    number,
    room_left,
    row_labels,
)
from weft.report.charts.theme import (
    DIVERGING,
    DIVERGING_DARK,
    INK,
    MUTED,
    ON_DARK,
    ON_LIGHT,
    PAPER,
    SEQUENTIAL,
    SEQUENTIAL_DARK,
    named,
)
from weft.report.context import USUAL_CUTOFF, ReportContext

_ROW = 24
_ROWS = 40  # groups of all slices together
_COLUMNS = 24  # that may have room for numbers
_NUMBER = 34  # pixels that a number takes
_METRICS = 6  # offered
_CELLS = 3000  # of bias disparity; of more, only those at the usual cut-off
_TALL = 32  # rows of bias disparity; of more, one model is chosen
_USERS = 66  # pixels for the number of users
_Disparity = dict[str, dict[tuple[str, ...], MetricValue]]  # model: user group and item cluster


def _columns(names: list[str], room: int) -> alt.Axis:
    """The heads of columns beside labels of so many pixels; slanted where they have no room."""
    needed = len(names) * (7 * max(map(len, names)) + 8) + room
    slanted = f"width < {needed}"
    return alt.Axis(
        orient="top",
        title=None,
        labelAngle=alt.ExprRef(f"{slanted} ? -40 : 0"),
        labelAlign=alt.ExprRef(f"{slanted} ? 'left' : 'center'"),
        labelLimit=90,
        labelColor=INK,
        labelOverlap=len(names) > 10,
    )


def _cells(
    base: Drawn,
    names: list[str],
    rows: int,
    room: int,
    dark: str,
    colour: alt.Scale,
    told: list[alt.Tooltip],
) -> list[Drawn]:
    """Coloured cells with their numbers, a column for each name; `dark` is the condition of cells
    on which letters are light.
    """
    x = alt.X(
        "column:N",
        sort=names,
        scale=alt.Scale(domain=names, range=[room, alt.ExprRef("width")]),
        axis=_columns(names, room),
    )
    y = alt.Y("row:O", axis=None, scale=alt.Scale(domain=[*range(rows)]))
    shade = alt.Color("shade:Q", scale=colour, legend=None)
    layers = [
        base.mark_rect(stroke=PAPER, strokeWidth=1).encode(x=x, y=y, color=shade, tooltip=told)
    ]
    if len(names) <= _COLUMNS:
        letters = alt.condition(dark, alt.value(ON_DARK), alt.value(ON_LIGHT))
        text = base.transform_filter("isValid(datum.value)").transform_calculate(
            text="format(datum.value, datum.form)"
        )
        size = alt.ExprRef(f"clamp((width - {room}) / {3.3 * len(names):.1f}, 7, 11)")
        seen = (
            alt.ExprRef(f"width - {room} < {_NUMBER * len(names)} ? 0 : 1")
            if len(names) > 10
            else alt.Undefined
        )
        layers.append(
            text.mark_text(fontSize=size, opacity=seen).encode(
                x=x, y=y, text="text:N", color=letters, tooltip=told
            )
        )
    return layers


def slices(context: ReportContext, canvas: Canvas, metric: str | None = None) -> Figure:
    """A metric by slice: groups of users down, models across."""
    found: dict[
        str, dict[tuple[str, str], dict[str, Any]]
    ] = {}  # metric: slice and group: model: value
    values: dict[str, MetricValue] = {}
    users: dict[tuple[str, str], int] = {}
    for model, result in context.results.items():
        for row in () if result.slices is None else result.slices.iter_rows(named=True):
            value = MetricValue(
                row["metric"],
                row["k"],
                math.nan if row["value"] is None else row["value"],
                users=row["users"],
            )
            group = (row["slice"], row["group"])
            found.setdefault(value.name, {}).setdefault(group, {})[model] = value
            users[group] = max(users.get(group, 0), row["users"] or 0)
            if value.name in result:
                values.setdefault(value.name, result.entry(value.name))
    found = {
        name: of
        for name, of in found.items()
        if any(math.isfinite(one.value) for cells in of.values() for one in cells.values())
    }
    if not found:
        raise MissingInput(
            "slices needs metrics by group of users: evaluate with slices={name: {user: label}}."
        )
    heads = [name for name in context.headlines if name in found] or [*found][:_METRICS]
    shown = heads[:_METRICS] if canvas.has_choices else heads[:1]
    if metric is not None:
        shown = [find("metric", metric, [*found])]
    metrics = {name: name + (better(values[name]) if name in values else "") for name in shown}
    choice = Choice("metric", "Metric", [*metrics.values()])
    groups, left_out = _largest(users)
    labels: list[dict[str, Any]] = []
    rows: dict[tuple[str, str], int] = {}
    for slice_, label in groups:
        if not labels or labels[-1]["slice"] != slice_:
            labels.append(
                {
                    "row": len(labels),
                    "label": named(slice_),
                    "slice": slice_,
                    "head": True,
                    "hover": slice_,
                    "users": "",
                }
            )
        rows[slice_, label] = len(labels)
        many = users[slice_, label]
        labels.append(
            {
                "row": len(labels),
                "label": named(label),
                "slice": slice_,
                "head": False,
                "hover": f"{slice_}: {named(label)}",
                "users": f"{many:,} user{'' if many == 1 else 's'}",
            }
        )
    models = [
        model
        for model in context.models
        if any(model in cells for of in found.values() for cells in of.values())
    ]
    data, table = [], []
    for name, title in metrics.items():
        finite = [
            one.value
            for group in groups
            for one in found[name].get(group, {}).values()
            if math.isfinite(one.value)
        ]
        low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
        for model in models:
            cells = [
                (rows[group], one)
                for group in groups
                if (one := found[name].get(group, {}).get(model)) is not None
            ]
            data.append(
                {
                    "metric": title,
                    "column": named(model),
                    "least": low,
                    "extent": (high - low) or 1.0,
                    "form": form(finite),
                    "row": [row for row, _ in cells],
                    "value": [one.value for _, one in cells],
                    "users": [one.users for _, one in cells],
                }
            )
        table += [
            {
                "metric": name,
                "slice": group[0],
                "group": group[1],
                "model": model,
                "value": one.value,
                "users": one.users,
            }
            for group in groups
            for model, one in found[name].get(group, {}).items()
        ]
    base = (
        canvas.source(data, choice)
        .transform_flatten(["row", "value", "users"])
        .transform_calculate(
            shade="isValid(datum.value) ? (datum.value - datum.least) / datum.extent : null"
        )
        .transform_lookup(
            "row", from_=alt.LookupData(canvas.data(labels), key="row", fields=["hover"])
        )
    )
    room = room_left(label["label"] for label in labels if not label["head"])
    told = hover(
        ("hover:N", "group"),
        ("column:N", "model"),
        ("metric:N", "metric"),
        ("value:Q", "value"),
        ("users:Q", "users"),
    )
    scale = alt.Scale(domain=[0, 1], range=[*SEQUENTIAL], interpolate="rgb")
    layers = _cells(
        base,
        [*map(named, models)],
        len(labels),
        room + _USERS,
        f"datum.shade > {SEQUENTIAL_DARK}",
        scale,
        told,
    )
    layers += row_labels(canvas.source(labels), room)
    counts = canvas.source(labels).mark_text(align="right", color=MUTED)
    layers.append(
        counts.encode(x=alt.value(room + _USERS - 8), y=alt.Y("row:O", axis=None), text="users:N")
    )
    first = next(iter(metrics))
    more = "".join(
        f" Of {name}, {many} smaller groups are left out." for name, many in left_out.items()
    )
    texts: Texts = {
        (title,): _slice_text(name, {group: found[name].get(group, {}) for group in groups}) + more
        for name, title in metrics.items()
    }
    text = texts[metrics[first],]
    caption = (
        alt.ExprRef(f"{choice.shown.expr} + ', darker is higher'")
        if isinstance(choice.shown, alt.ExprRef)
        else f"{choice.shown}, darker is higher"
    )
    chart = finish(layers, canvas, choice, height=_ROW * len(labels), text=text, title=caption)
    title = "Metrics by slice" if choice.is_free else f"{first} by slice"
    return Figure("slices", title, text, chart, pl.DataFrame(table), by_choice(texts, choice))


def _largest(users: dict[tuple[str, str], int]) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """The groups of each slice that have most users, in their order; and of how many groups of
    which slice there is no room.
    """
    by_slice: dict[str, list[tuple[str, str]]] = {}
    for group in users:
        by_slice.setdefault(group[0], []).append(group)
    room = max(4, _ROWS // len(by_slice))
    kept, left_out = [], {}
    for name, groups in by_slice.items():
        largest = set(sorted(groups, key=lambda group: -users[group])[:room])
        kept += [group for group in groups if group in largest]
        if len(groups) > room:
            left_out[name] = len(groups) - room
    return kept, left_out


def _slice_text(metric: str, groups: dict[tuple[str, str], dict[str, MetricValue]]) -> str:
    cells = [
        (one.value, group, model)
        for group, of in groups.items()
        for model, one in of.items()
        if math.isfinite(one.value)
    ]
    said = f"{metric} of {len(groups)} groups of users."
    if not cells:
        return said
    (low, where, who), (high, there, whose) = min(cells), max(cells)
    return (
        f"{said} Highest: {number(high)} for {there[0]} {named(there[1])} with {named(whose)}; "
        f"lowest: {number(low)} for {where[0]} {named(where[1])} with {named(who)}."
    )


# --------------------------------------------------------------------------------------------------


def bias(
    context: ReportContext, canvas: Canvas, metric: str | None = None, model: str | None = None
) -> Figure:
    """Bias disparity: groups of users down, for each model; clusters of items across. Neutral is
    light.
    """
    found = _disparities(context)
    if not found:
        raise MissingInput(
            "bias needs BiasDisparityBD (or BR, BS): evaluate it with train=, user_groups= and "
            "item_clusters=."
        )
    kinds = ("BiasDisparityBD", "BiasDisparityBR", "BiasDisparityBS")
    order = sorted(
        found,
        key=lambda name: (kinds.index(name[: len(kinds[0])]), _of(found[name]).k != USUAL_CUTOFF),
    )
    default = order[0]
    offered = order
    if sum(len(cells) for of in found.values() for cells in of.values()) > _CELLS:
        offered = [name for name in order if _of(found[name]).k in (_of(found[default]).k, None)]
    shown = offered if canvas.has_choices else [default]
    if metric is not None:
        shown = [find("metric", metric, [*found])]
    metrics = {name: f"{name}{better(_of(found[name]))}" for name in shown}
    choice = Choice("metric", "Metric", [*metrics.values()])
    if model is not None and model not in context.models:
        model = check_choice("model", model, tuple(context.models))

    of_models = (
        [one for one in context.models if any(one in of for of in found.values())]
        if model is None
        else [model]
    )
    groups = [
        *dict.fromkeys(cell[0] for of in found.values() for cells in of.values() for cell in cells)
    ]
    is_tall = canvas.has_choices and len(of_models) * (len(groups) + 1) > _TALL
    who = Choice("model", "Model", [*map(named, of_models)] if is_tall else ["all"])
    names = [
        *dict.fromkeys(
            named(cell[1]) for of in found.values() for cells in of.values() for cell in cells
        )
    ]
    data, table = [], []
    labels: list[dict[str, Any]] = []
    for name, label in metrics.items():
        neutral = _of(found[name]).target or 0.0
        is_train = name.startswith("BiasDisparityBS")  # the same for all models
        values = [one.value for of in found[name].values() for one in of.values()]
        furthest = max(
            (abs(_doublings(value, neutral)) for value in values if math.isfinite(value)),
            default=1.0,
        )
        limit = min(furthest, 3.0) or 1.0  # eight times as much, or as little, is dark enough
        sections = [one for one in of_models if one in found[name]][
            : 1 if is_train and not is_tall else None
        ]
        row = 0
        for one in sections:
            key = {"metric": label, "model": named(one) if is_tall else "all"}
            title = "train data" if is_train else named(one)
            if len(sections) > 1 and not is_tall:
                labels.append(key | {"row": row, "label": title, "head": True, "hover": title})
                row += 1
            for group in dict.fromkeys(cell[0] for cell in found[name][one]):
                row = groups.index(group) if is_tall else row  # of every model the same
                if not is_tall:
                    labels.append(
                        key
                        | {
                            "row": row,
                            "label": named(group),
                            "head": False,
                            "hover": f"{title}: {named(group)}",
                        }
                    )
                across = {
                    cell[1]: value.value
                    for cell, value in found[name][one].items()
                    if cell[0] == group
                }
                shown_as = {
                    "form": ",.2f" if neutral else "+,.2f",
                    "neutral": neutral,
                    "limit": limit,
                }
                cells = {
                    "at": [names.index(named(cluster)) for cluster in across],
                    "value": [*across.values()],
                }
                data.append(
                    key | {"row": row, "of": title, "group": named(group)} | shown_as | cells
                )
                table += [
                    {
                        "metric": name,
                        "model": title,
                        "user group": group,
                        "item cluster": cluster,
                        "value": value,
                    }
                    for cluster, value in across.items()
                ]
                row += 1
    if not data:
        raise SettingError(
            f"{model!r} has no bias disparity; choose one of "
            f"{', '.join(map(repr, _models_of(found)))}."
        )
    if is_tall:
        shared = {"metric": "all", "model": "all", "head": False}
        labels = [
            shared | {"row": row, "label": named(group), "hover": named(group)}
            for row, group in enumerate(groups)
        ]
    columns = canvas.data([{"at": at, "column": name} for at, name in enumerate(names)])
    base = (
        canvas.source(data, choice, who)
        .transform_flatten(["at", "value"])
        .transform_lookup("at", from_=alt.LookupData(columns, key="at", fields=["column"]))
        .transform_calculate(apart="log(max(datum.value + 1 - datum.neutral, 0.0001)) / LN2")
        .transform_calculate(
            shade="isValid(datum.value) ? clamp(datum.apart / datum.limit, -1, 1) : null"
        )
    )
    room = room_left(label["label"] for label in labels if not label["head"])
    told = hover(
        ("of:N", "model"),
        ("group:N", "user group"),
        ("column:N", "item cluster"),
        ("metric:N", "metric"),
        ("value:Q", "value"),
    )
    rows = 1 + max(label["row"] for label in labels)
    scale = alt.Scale(domain=[-1, 0, 1], range=[*DIVERGING], interpolate="rgb")
    layers = _cells(
        base, names, rows, room, f"abs(datum.shade) > {DIVERGING_DARK}", scale, told
    ) + row_labels(canvas.source(labels, *([] if is_tall else [choice])), room)
    first = next(iter(metrics))
    texts: Texts = {}
    for name, label in metrics.items():
        known = {one: found[name][one] for one in of_models if one in found[name]}
        by_model = (
            {named(one): {one: cells} for one, cells in known.items()}
            if is_tall
            else {"all": known}
        )
        texts |= {(label, whose): _bias_text(label, some) for whose, some in by_model.items()}
    text = next(iter(texts.values()))
    chart = finish(layers, canvas, choice, who, height=_ROW * rows, text=text, title=choice.shown)
    title = (
        "Bias disparity: user groups and item clusters"
        if choice.is_free
        else f"{first} by user group and item cluster"
    )
    return Figure("bias", title, text, chart, pl.DataFrame(table), by_choice(texts, choice, who))


def _models_of(found: dict[str, _Disparity]) -> list[str]:
    return [*dict.fromkeys(model for of in found.values() for model in of)]


def _disparities(context: ReportContext) -> dict[str, _Disparity]:
    """Every metric of bias disparity that is defined anywhere."""
    found: dict[str, _Disparity] = {}
    for model, result in context.results.items():
        for value in result.values:
            if (
                value.metric.startswith(("BiasDisparityBD", "BiasDisparityBR", "BiasDisparityBS"))
                and len(value.cell) == 2
            ):
                found.setdefault(value.plain_name, {}).setdefault(model, {})[value.cell] = value
    return {
        name: of
        for name, of in found.items()
        if any(math.isfinite(one.value) for cells in of.values() for one in cells.values())
    }


def _of(models: _Disparity) -> MetricValue:
    return next(iter(next(iter(models.values())).values()))


def _doublings(value: float, neutral: float) -> float:
    """How far a value is from neutral: a half is as far as a double. BD is a ratio less 1, BR and
    BS are ratios.
    """
    ratio = value + 1 - neutral
    return math.log2(ratio) if ratio > 0 else -math.inf


def _bias_text(label: str, models: _Disparity) -> str:
    cells = [
        (one.value, labels, model)
        for model, of in models.items()
        for labels, one in of.items()
        if math.isfinite(one.value)
    ]
    (low, where, who), (high, there, whose) = min(cells), max(cells)
    return (
        f"{label} by user group and item cluster. Highest: {number(high)} for {named(there[0])} "
        f"and {named(there[1])} "
        f"with {named(whose)}; lowest: {number(low)} for {named(where[0])} and {named(where[1])} "
        f"with {named(who)}. "
        "Orange is above neutral, blue below; a half is as dark as a double."
    )
