"""Charts of groups: metrics by slice of users, and what groups of users get of clusters of items."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import polars as pl

from weft.errors import MissingInput, SettingError, one_of
from weft.report.charts.drawing import (
    LABELS,
    NUMBER,
    Canvas,
    Choice,
    Figure,
    better,
    find,
    finish,
    hover,
    number,
    row_labels,
    source,
)
from weft.report.charts.theme import DIVERGING, INK, ON_DARK, ON_LIGHT, SEQUENTIAL, named
from weft.report.subject import Subject
from weft.result import MetricValue

_ROW = 24
_ROWS = 40  # groups of all slices together
_COLUMNS = 8  # that have room for numbers
_METRICS = 6  # offered
_CELLS = 3000  # of bias disparity; of more, only those at the usual cut-off
_SLICE_LABELS = LABELS + 52  # pixels; the number of users stands there too


def _columns(title: str | None, names: list[str]) -> alt.Axis:
    """The heads of columns; slanted where there are many."""
    slanted = len(names) > 4 or max(map(len, names)) > 12
    return alt.Axis(
        orient="top",
        title=title,
        labelAngle=-40 if slanted else 0,
        labelLimit=90,
        labelColor=INK,
        labelAlign="left" if slanted else "center",
    )


def _cells(
    base: alt.Chart, x: alt.X, y: alt.Y, colour: alt.Color, dark: str, told: list[alt.Tooltip], *, words: bool, form: str
) -> list[alt.Chart]:
    """Coloured cells with their numbers; `dark` is the condition of cells on which letters are light."""
    layers = [base.mark_rect(stroke="white", strokeWidth=1).encode(x=x, y=y, color=colour, tooltip=told)]
    if words:
        letters = alt.condition(dark, alt.value(ON_DARK), alt.value(ON_LIGHT))
        text = alt.Text("value:Q", format=form)
        layers.append(
            base.transform_filter("isValid(datum.value)")
            .mark_text(fontSize=11)
            .encode(x=x, y=y, text=text, color=letters, tooltip=told)
        )
    return layers


def slices(subject: Subject, canvas: Canvas, metric: str | None = None) -> Figure:
    """A metric by slice: groups of users down, models across."""
    found: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}  # metric: slice and group: model: value
    values: dict[str, MetricValue] = {}
    users: dict[tuple[str, str], int] = {}
    for model, result in subject.results.items():
        for row in () if result.slices is None else result.slices.iter_rows(named=True):
            value = MetricValue(row["metric"], row["k"], math.nan if row["value"] is None else row["value"], users=row["users"])
            group = (row["slice"], row["group"])
            found.setdefault(value.name, {}).setdefault(group, {})[model] = value
            users[group] = max(users.get(group, 0), row["users"] or 0)
            if value.name in result:
                values.setdefault(value.name, result.entry(value.name))
    found = {
        name: of for name, of in found.items() if any(math.isfinite(one.value) for cells in of.values() for one in cells.values())
    }
    if not found:
        raise MissingInput("slices needs metrics by group of users: evaluate with slices={name: {user: label}}.")
    heads = [name for name in subject.headlines if name in found] or [*found][:_METRICS]
    shown = heads[:_METRICS] if canvas.has_choices else heads[:1]
    if metric is not None:
        shown = [find("metric", metric, [*found])]
    metrics = {name: name + (better(values[name]) if name in values else "") for name in shown}
    choice = Choice("metric", "Metric", [*metrics.values()])
    groups, left_out = _largest(users)
    labels: list[dict[str, Any]] = []
    rows: dict[tuple[str, str], int] = {}
    for slice_, group in groups:
        if not labels or labels[-1]["slice"] != slice_:
            labels.append({"row": len(labels), "label": named(slice_), "slice": slice_, "head": True, "hover": slice_, "users": ""})
        rows[slice_, group] = len(labels)
        many = users[slice_, group]
        labels.append(
            {
                "row": len(labels),
                "label": named(group),
                "slice": slice_,
                "head": False,
                "hover": f"{slice_}: {named(group)}",
                "users": f"{many:,} user{'' if many == 1 else 's'}",
            }
        )
    models = [model for model in subject.models if any(model in cells for of in found.values() for cells in of.values())]
    data, table = [], []
    for name, label in metrics.items():
        finite = [one.value for group in groups for one in found[name].get(group, {}).values() if math.isfinite(one.value)]
        low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
        for model in models:
            cells = [(rows[group], one) for group in groups if (one := found[name].get(group, {}).get(model)) is not None]
            data.append(
                {
                    "metric": label,
                    "model": named(model),
                    "least": low,
                    "extent": (high - low) or 1.0,
                    "row": [row for row, _ in cells],
                    "value": [one.value for _, one in cells],
                    "users": [one.users for _, one in cells],
                }
            )
        table += [
            {"metric": name, "slice": group[0], "group": group[1], "model": model, "value": one.value, "users": one.users}
            for group in groups
            for model, one in found[name].get(group, {}).items()
        ]
    base = (
        source(data, choice)
        .transform_flatten(["row", "value", "users"])
        .transform_calculate(shade="isValid(datum.value) ? (datum.value - datum.least) / datum.extent : null")
        .transform_lookup("row", from_=alt.LookupData(alt.InlineData(values=labels), key="row", fields=["hover"]))
    )
    names = [*map(named, models)]
    x = alt.X(
        "model:N",
        sort=names,
        scale=alt.Scale(domain=names, range=[_SLICE_LABELS, alt.ExprRef("width")], paddingInner=0.0),
        axis=_columns(None, names),
    )
    y = alt.Y("row:O", axis=None, scale=alt.Scale(domain=[*range(len(labels))]))
    colour = alt.Color("shade:Q", scale=alt.Scale(domain=[0, 1], range=[*SEQUENTIAL]), legend=None)
    told = hover(("hover:N", "group"), ("model:N", "model"), ("metric:N", "metric"), ("value:Q", "value"), ("users:Q", "users"))
    layers = _cells(base, x, y, colour, "datum.shade > 0.5", told, words=len(models) <= _COLUMNS, form=",.3~r")
    layers += row_labels(source(labels), LABELS - 18)
    layers.append(source(labels).mark_text(align="right").encode(x=alt.value(_SLICE_LABELS - 8), y=y, text="users:N"))
    first = next(iter(metrics))
    text = _slice_text(first, {group: found[first].get(group, {}) for group in groups})
    text += "".join(f" Of {name}, {many} smaller groups are left out." for name, many in left_out.items())
    caption = (
        alt.ExprRef(f"{choice.shown.expr} + ', darker is higher'")
        if isinstance(choice.shown, alt.ExprRef)
        else f"{choice.shown}, darker is higher"
    )
    chart = finish(layers, canvas, choice, height=alt.Step(_ROW), text=text, title=caption)
    return Figure("slices", "Metrics by slice" if choice.is_free else f"{first} by slice", text, chart, pl.DataFrame(table))


def _largest(users: dict[tuple[str, str], int]) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """The groups of each slice that have most users, in their order; and of how many groups of which slice there is no room."""
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
    cells = [(one.value, group, model) for group, of in groups.items() for model, one in of.items() if math.isfinite(one.value)]
    said = f"{metric} of {len(groups)} groups of users."
    if not cells:
        return said
    (low, where, who), (high, there, whose) = min(cells), max(cells)
    return (
        f"{said} Highest: {number(high)} for {there[0]} {named(there[1])} with {named(whose)}; "
        f"lowest: {number(low)} for {where[0]} {named(where[1])} with {named(who)}."
    )


# --------------------------------------------------------------------------------------------------------------------- bias


def bias(subject: Subject, canvas: Canvas, metric: str | None = None, model: str | None = None) -> Figure:
    """Bias disparity: groups of users down, for each model; clusters of items across. Neutral is light."""
    found: dict[str, dict[str, dict[tuple[str, ...], MetricValue]]] = {}  # metric: model: labels
    for name, result in subject.results.items():
        for value in result.values:
            if value.metric.startswith("BiasDisparity") and len(value.cell) == 2:
                found.setdefault(value.plain_name, {}).setdefault(name, {})[value.cell] = value
    found = {
        name: of for name, of in found.items() if any(math.isfinite(one.value) for cells in of.values() for one in cells.values())
    }
    if not found:
        raise MissingInput("bias needs BiasDisparityBD (or BR, BS): evaluate it with train=, user_groups= and item_clusters=.")
    order = sorted(found, key=lambda name: (not name.startswith("BiasDisparityBD"), not name.startswith("BiasDisparityBR")))
    usual = sorted(order, key=lambda name: _of(found[name]).k != 10 and len({_of(one).k for one in found.values()}) > 1)
    default = next((name for name in usual if name.startswith(order[0][:15])), order[0])
    offered = [default, *(name for name in order if name != default)]
    if sum(len(cells) for of in found.values() for cells in of.values()) > _CELLS:
        offered = [name for name in offered if _of(found[name]).k in (_of(found[default]).k, None)]
    shown = offered if canvas.has_choices else [default]
    if metric is not None:
        shown = [find("metric", metric, [*found])]
    metrics = {name: f"{name}{better(_of(found[name]))}" for name in shown}
    choice = Choice("metric", "Metric", [*metrics.values()])
    if model is not None and model not in subject.models:
        model = one_of("model", model, tuple(subject.models))

    data, labels, table = [], [], []
    clusters: dict[str, None] = {}
    for name, label in metrics.items():
        is_ratio = _of(found[name]).target == 1
        furthest = max(
            (abs(_apart(one.value, is_ratio)) for of in found[name].values() for one in of.values() if math.isfinite(one.value)),
            default=1.0,
        )
        limit = min(furthest, 3.0 if is_ratio else 2.0) or 1.0
        row = 0
        sections = {one: found[name][one] for one in ([model] if model is not None else subject.models) if one in found[name]}
        if name.startswith("BiasDisparityBS"):  # about train, the same for all models
            sections = dict([*sections.items()][:1])
        for one, cells in sections.items():
            title = "train data" if name.startswith("BiasDisparityBS") else named(one)
            if len(sections) > 1:
                labels.append({"metric": label, "row": row, "label": title, "head": True, "hover": title})
                row += 1
            for group in dict.fromkeys(labels_of[0] for labels_of in cells):
                labels.append(
                    {"metric": label, "row": row, "label": named(group), "head": False, "hover": f"{title}: {named(group)}"}
                )
                across = {labels_of[1]: cell for labels_of, cell in cells.items() if labels_of[0] == group}
                clusters |= dict.fromkeys(map(named, across))
                data.append(
                    {
                        "metric": label,
                        "row": row,
                        "model": title,
                        "group": named(group),
                        "cluster": [*map(named, across)],
                        "value": [cell.value for cell in across.values()],
                        "shade": [max(-1.0, min(1.0, _apart(cell.value, is_ratio) / limit)) for cell in across.values()],
                    }
                )
                table += [
                    {"metric": name, "model": title, "user group": group, "item cluster": cluster, "value": cell.value}
                    for cluster, cell in across.items()
                ]
                row += 1
    if not data:
        raise SettingError(f"{model!r} has no bias disparity; choose one of {', '.join(map(repr, next(iter(found.values()))))}.")
    base = source(data, choice).transform_flatten(["cluster", "value", "shade"])
    names = [*clusters]
    x = alt.X(
        "cluster:N", sort=names, scale=alt.Scale(domain=names, range=[LABELS, alt.ExprRef("width")]), axis=_columns(None, names)
    )
    y = alt.Y("row:O", axis=None)
    colour = alt.Color("shade:Q", scale=alt.Scale(domain=[-1, 0, 1], range=[*DIVERGING]), legend=None)
    told = hover(
        ("model:N", "model"), ("group:N", "user group"), ("cluster:N", "item cluster"), ("metric:N", "metric"), ("value:Q", "value")
    )
    layers = _cells(
        base, x, y, colour, "abs(datum.shade) > 0.55", told, words=len(names) <= _COLUMNS, form="+.2f" if False else ".2f"
    )
    layers += row_labels(source(labels, choice))
    first = next(iter(metrics))
    text = _bias_text(metrics[first], found[first])
    chart = finish(layers, canvas, choice, height=alt.Step(_ROW), text=text, title=choice.shown)
    return Figure("bias", "Bias disparity: user groups and item clusters", text, chart, pl.DataFrame(table))


def _of(models: dict[str, dict[tuple[str, ...], MetricValue]]) -> MetricValue:
    return next(iter(next(iter(models.values())).values()))


def _apart(value: float, is_ratio: bool) -> float:
    """How far a value is from neutral: disparities by difference; ratios by doublings, so that a half is as far as a double."""
    if not is_ratio or not math.isfinite(value):
        return value
    return math.log2(value) if value > 0 else -math.inf


def _bias_text(label: str, models: dict[str, dict[tuple[str, ...], MetricValue]]) -> str:
    cells = [(one.value, labels, model) for model, of in models.items() for labels, one in of.items() if math.isfinite(one.value)]
    (low, where, who), (high, there, whose) = min(cells), max(cells)
    return (
        f"{label} by user group and item cluster. Highest: {number(high)} for group {named(there[0])} and cluster {named(there[1])} with "
        f"{named(whose)}; lowest: {number(low)} for group {named(where[0])} and cluster {named(where[1])} with {named(who)}."
    )
