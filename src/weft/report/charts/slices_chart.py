"""Metrics by slice of users or relevant items: a heat map of groups and models."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from weft.errors import MissingInput, agree
from weft.evaluation.metric_value import MetricValue
from weft.report.charts import marks, selection
from weft.report.charts.canvas import Canvas, Figure, Layer, SelectBox, Texts
from weft.report.charts.heatmap import (
    ROW_PIXELS,
    describe_extremes,
    finite_values,
    heatmap_layers,
)
from weft.report.charts.phrases import (
    common_format,
    describe_omitted,
    direction_suffix,
)
from weft.report.charts.selection import Values
from weft.report.charts.theme import MUTED, SEQUENTIAL, SEQUENTIAL_DARK, display_name
from weft.report.context import ReportContext

_MAX_ROWS = 40  # groups of all slices
_MAX_METRICS = 6
_USERS_PIXELS = 72  # room for the number of users
_Group = tuple[str, str]  # slice and label


@dataclass
class _SliceValues:
    """The values by metric, group and model; the users of each group; metrics with directions."""

    values: dict[str, dict[_Group, Values]] = field(default_factory=dict)
    users: dict[_Group, int] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)

    @property
    def models(self) -> set[str]:
        by_group = (groups.values() for groups in self.values.values())
        return {model for groups in by_group for values in groups for model in values}

    def cells(self, metric: str, groups: list[_Group]) -> dict[_Group, Values]:
        """Return the values of a metric in these groups."""
        return {group: self.values[metric].get(group, {}) for group in groups}


def slices(context: ReportContext, canvas: Canvas, metric: str | None = None) -> Figure:
    """Draw a metric by slice: groups of users or relevant items down, models across."""
    found = _select_values(context)
    metrics = selection.headline_metrics(context, canvas, metric, [*found.values], _MAX_METRICS)
    titles = {name: found.titles.get(name, name) for name in metrics}
    select = SelectBox("metric", "Metric", [*titles.values()])
    groups, omitted = _largest_groups(found.users)
    labels, places = marks.section_labels(groups)
    users = {
        place: agree(found.users[group], "{n} user{s}") for group, place in zip(groups, places)
    }
    labels = [label | {"users": users.get(label["row"], "")} for label in labels]
    models = [model for model in context.models if model in found.models]
    rows, table = [], []
    texts: Texts = {}
    for name, label in titles.items():
        cells = found.cells(name, groups)
        rows += _to_rows(label, cells, places, models)
        table += _to_table(name, cells)
        texts[label,] = _describe(name, cells) + describe_omitted(omitted)
    layers = _build_layers(canvas, select, rows, labels, [*map(display_name, models)])
    axis: Any = f"{select.selected}, darker is higher"
    if isinstance(select.selected, alt.ExprRef):
        axis = alt.ExprRef(f"{select.selected.expr} + ', darker is higher'")
    title = "Metrics by slice" if select.is_shown else f"{metrics[0]} by slice"
    height = ROW_PIXELS * len(labels)
    return canvas.figure(title, layers, [select], texts, table, height=height, axis=axis)


def _select_values(context: ReportContext) -> _SliceValues:
    """Return the values of all slices of metrics that are defined for some group."""
    found = _SliceValues()
    for model, result in context.results.items():
        for row in () if result.slices is None else result.slices.iter_rows(named=True):
            number = math.nan if row["value"] is None else row["value"]
            value = MetricValue(row["metric"], row["k"], number, users=row["users"])
            group = (row["slice"], row["group"])
            found.values.setdefault(value.name, {}).setdefault(group, {})[model] = value
            found.users[group] = max(found.users.get(group, 0), row["users"] or 0)
            if value.name in result:
                title = value.name + direction_suffix(result.entry(value.name))
                found.titles.setdefault(value.name, title)
    found.values = {name: cells for name, cells in found.values.items() if finite_values(cells)}
    if not found.values:
        raise MissingInput(
            "the chart 'slices' needs metrics by group; evaluate with slices={name: {user: label}} "
            "or item_slices={name: {item: label}}."
        )
    return found


def _largest_groups(users: dict[_Group, int]) -> tuple[list[_Group], dict[str, int]]:
    """Return the groups with most users of each slice, in order, and how many are omitted."""
    by_slice: dict[str, list[_Group]] = {}
    for group in users:
        by_slice.setdefault(group[0], []).append(group)
    max_groups = max(4, _MAX_ROWS // len(by_slice))
    shown, omitted = [], {}
    for name, groups in by_slice.items():
        largest = set(sorted(groups, key=lambda group: -users[group])[:max_groups])
        shown += [group for group in groups if group in largest]
        if len(groups) > max_groups:
            omitted[name] = len(groups) - max_groups
    return shown, omitted


def _to_rows(
    title: str, cells: dict[_Group, Values], places: list[int], models: list[str]
) -> list[dict[str, Any]]:
    """Return a row per model, with lists of the rows, values and users of its cells."""
    finite = [value for value, _, _ in finite_values(cells)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    scale = {"least": low, "extent": (high - low) or 1.0, "form": common_format(finite)}
    rows = []
    for model in models:
        column = [
            (place, values[model])
            for place, values in zip(places, cells.values())
            if model in values
        ]
        lists = {
            "row": [place for place, _ in column],
            "value": [value.value for _, value in column],
            "users": [value.users for _, value in column],
        }
        rows.append({"metric": title, "column": display_name(model)} | scale | lists)
    return rows


def _build_layers(
    canvas: Canvas,
    select: SelectBox,
    rows: list[dict[str, Any]],
    labels: list[dict[str, Any]],
    columns: list[str],
) -> list[Layer]:
    """Return the cells, the labels of their rows, and the number of users of each group."""
    base = canvas.chart(rows, select).transform_flatten(["row", "value", "users"])
    shade = "isValid(datum.value) ? (datum.value - datum.least) / datum.extent : null"
    base = base.transform_calculate(shade=shade).transform_lookup(
        "row", from_=canvas.lookup(labels, "row", "hover")
    )
    width = marks.label_width(labels)
    cells = heatmap_layers(
        canvas,
        base,
        columns,
        len(labels),
        left=width + _USERS_PIXELS,
        is_dark=f"datum.shade > {SEQUENTIAL_DARK}",
        colours=alt.Scale(domain=[0, 1], range=[*SEQUENTIAL], interpolate="rgb"),
        tooltip=marks.tooltips(
            ("hover:N", "group"), ("column:N", "model"), "metric:N", "value:Q", "users:Q"
        ),
    )
    users = canvas.chart(labels).mark_text(align="right", color=MUTED)
    x, y = alt.value(width + _USERS_PIXELS - 8), alt.Y("row:O", axis=None)
    return [
        *cells,
        *marks.row_labels(canvas.chart(labels)),
        users.encode(x=x, y=y, text="users:N"),
    ]


def _to_table(metric: str, cells: dict[_Group, Values]) -> list[dict[str, Any]]:
    return [
        {
            "metric": metric,
            "slice": slice_,
            "group": label,
            "model": model,
            "value": value.value,
            "users": value.users,
        }
        for (slice_, label), values in cells.items()
        for model, value in values.items()
    ]


def _describe(metric: str, cells: dict[_Group, Values]) -> str:
    text = f"{metric} of each group and model; a darker cell is a higher value."
    values = finite_values(cells)
    if not values:
        return text

    def name(group: _Group, model: str) -> str:
        return f"{group[0]}: {display_name(group[1])}, model: {display_name(model)}"

    return f"{text} {describe_extremes(values, name)}"
