"""Bias disparity of user groups and item clusters: a heat map."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import altair as alt

from weft.errors import MissingInput, SettingError, check_choice
from weft.evaluation.metric_value import MetricValue
from weft.report.charts import marks, selection
from weft.report.charts.canvas import Canvas, Figure, Layer, SelectBox, Texts
from weft.report.charts.heatmap import (
    ROW_PIXELS,
    describe_extremes,
    finite_values,
    heatmap_layers,
)
from weft.report.charts.phrases import direction_suffix
from weft.report.charts.theme import DIVERGING, DIVERGING_DARK, display_name
from weft.report.context import USUAL_CUTOFF, ReportContext

_METRICS = ("BiasDisparityBD", "BiasDisparityBR", "BiasDisparityBS")
_TRAIN_METRIC = "BiasDisparityBS"  # of the train data, so equal for all models
_MAX_CELLS = 3000  # of more cells, only those at one cut-off are offered
_MAX_ROWS = 32  # of more rows, one model is selected
_MAX_DOUBLINGS = 3.0  # eight times as much, or as little, has the darkest shade
_Cells = dict[tuple[str, ...], MetricValue]  # by user group and item cluster
_Disparity = dict[str, _Cells]  # by model


@dataclass(frozen=True)
class _Layout:
    """The metrics, models, user groups and item clusters of the chart.

    If there are too many rows, it `selects_model`: the rows are the groups of one model. Otherwise
    the models are sections, one below the other.
    """

    disparities: dict[str, _Disparity]  # by name of the metric
    models: list[str]
    groups: list[str]
    clusters: list[str]
    selects_model: bool

    @property
    def metric_select(self) -> SelectBox:
        return SelectBox("metric", "Metric", [*map(self.label, self.disparities)])

    @property
    def model_select(self) -> SelectBox:
        models = [*map(display_name, self.models)] if self.selects_model else ["all"]
        return SelectBox("model", "Model", models)

    def label(self, metric: str) -> str:
        return metric + direction_suffix(_any_value(self.disparities[metric]))

    def of_models(self, metric: str) -> _Disparity:
        """Return the cells of a metric of the shown models that have it."""
        disparity = self.disparities[metric]
        return {model: disparity[model] for model in self.models if model in disparity}


@dataclass(frozen=True)
class _HeatmapRow:
    """A row of the heat map: a user group of a model, or the heading of a model (no group)."""

    metric: str
    key: dict[str, str]  # the options of the select boxes that show it
    row: int
    title: str
    group: str | None
    values: dict[str, float]  # by item cluster

    def to_label(self) -> dict[str, Any]:
        label, hover = self.title, self.title
        if self.group is not None:
            label = display_name(self.group)
            hover = f"{self.title}: {label}"
        is_head = self.group is None
        return self.key | {"row": self.row, "label": label, "head": is_head, "hover": hover}

    def to_table(self) -> list[dict[str, Any]]:
        names = {"metric": self.metric, "model": self.title, "user group": self.group}
        return [
            names | {"item cluster": cluster, "value": value}
            for cluster, value in self.values.items()
        ]


def bias(
    context: ReportContext, canvas: Canvas, metric: str | None = None, model: str | None = None
) -> Figure:
    """Draw bias disparity: groups of users down, for each model; clusters of items across.

    Neutral is light.
    """
    layout = _select_layout(context, canvas, metric, model)
    rows = [row for name in layout.disparities for row in _place_rows(layout, name)]
    labels = _group_labels(layout) if layout.selects_model else [row.to_label() for row in rows]
    labels = marks.shorten_row_labels(labels)
    selects = [layout.metric_select, layout.model_select]
    title = "Bias disparity by user group and item cluster"
    if not selects[0].is_shown:
        title = f"{next(iter(layout.disparities))} by user group and item cluster"
    layers = _build_layers(canvas, layout, rows, labels)
    table = [line for row in rows for line in row.to_table()]
    height, axis = ROW_PIXELS * _count_rows(labels), selects[0].selected
    return canvas.figure(title, layers, selects, _describe(layout), table, height=height, axis=axis)


def _select_layout(
    context: ReportContext, canvas: Canvas, metric: str | None, model: str | None
) -> _Layout:
    """Return what the chart shows. Raises `MissingInput` without bias disparity."""
    known = _find_disparities(context)
    shown = _offered_metrics(known)[: None if canvas.has_selects else 1]
    if metric is not None:
        shown = [selection.find_offered("metric", metric, [*known])]
    disparities = {name: known[name] for name in shown}
    models = _select_models(context, known, disparities, model)
    pairs = [pair for disparity in known.values() for cells in disparity.values() for pair in cells]
    groups = [*dict.fromkeys(group for group, _ in pairs)]
    clusters = [*dict.fromkeys(display_name(cluster) for _, cluster in pairs)]
    selects_model = canvas.has_selects and len(models) * (len(groups) + 1) > _MAX_ROWS
    return _Layout(disparities, models, groups, clusters, selects_model)


def _find_disparities(context: ReportContext) -> dict[str, _Disparity]:
    """Return every metric of bias disparity that is defined for some cell."""
    found: dict[str, _Disparity] = {}
    for model, result in context.results.items():
        for value in result.entries:
            if value.metric.startswith(_METRICS) and len(value.cell) == 2:
                found.setdefault(value.plain_name, {}).setdefault(model, {})[value.cell] = value
    known = {name: disparity for name, disparity in found.items() if finite_values(disparity)}
    if not known:
        raise MissingInput(
            "the chart 'bias' needs BiasDisparityBD (or BR, BS); evaluate it with train=, "
            "user_groups= and item_clusters=."
        )
    return known


def _select_models(
    context: ReportContext,
    known: dict[str, _Disparity],
    shown: dict[str, _Disparity],
    model: str | None,
) -> list[str]:
    """Return the requested model, or all that have values."""
    with_values = dict.fromkeys(one for disparity in known.values() for one in disparity)
    if model is None:
        return [one for one in context.models if one in with_values]
    if model not in context.models:
        model = check_choice("model", model, tuple(context.models))
    if not any(model in disparity for disparity in shown.values()):
        raise SettingError(
            f"{model!r} has no bias disparity; choose one of {', '.join(map(repr, with_values))}."
        )
    return [model]


def _offered_metrics(known: dict[str, _Disparity]) -> list[str]:
    """Return the metrics in order, the usual cut-off first; one cut-off if there are many cells."""

    def key(name: str) -> tuple[int, bool]:
        kind = _METRICS.index(name[: len(_METRICS[0])])
        return kind, _any_value(known[name]).k != USUAL_CUTOFF

    order = sorted(known, key=key)
    num_cells = sum(len(cells) for disparity in known.values() for cells in disparity.values())
    if num_cells <= _MAX_CELLS:
        return order
    cutoffs = (_any_value(known[order[0]]).k, None)
    return [name for name in order if _any_value(known[name]).k in cutoffs]


def _any_value(disparity: _Disparity) -> MetricValue:
    return next(iter(next(iter(disparity.values())).values()))


def _place_rows(layout: _Layout, metric: str) -> Iterator[_HeatmapRow]:
    """Yield the rows of a metric from top to bottom."""
    sections = [*layout.of_models(metric).items()]
    is_train = metric.startswith(_TRAIN_METRIC)
    if is_train and not layout.selects_model:
        sections = sections[:1]
    row = 0
    for model, cells in sections:
        shown = display_name(model)
        key = {"metric": layout.label(metric), "model": shown if layout.selects_model else "all"}
        title = "train data" if is_train else shown
        if len(sections) > 1 and not layout.selects_model:
            yield _HeatmapRow(metric, key, row, title, None, {})
            row += 1
        by_group: dict[str, dict[str, float]] = {}
        for (group, cluster), value in cells.items():
            by_group.setdefault(group, {})[cluster] = value.value
        for group, values in by_group.items():
            row = layout.groups.index(group) if layout.selects_model else row
            yield _HeatmapRow(metric, key, row, title, group, values)
            row += 1


def _group_labels(layout: _Layout) -> list[dict[str, Any]]:
    """Return the labels of the rows if one model is selected."""
    shared = {"metric": "all", "model": "all", "head": False}
    names = enumerate(map(display_name, layout.groups))
    return [shared | {"row": row, "label": name, "hover": name} for row, name in names]


def _to_cells(layout: _Layout, row: _HeatmapRow, shading: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a row's cells; `at` are the indices of the columns."""
    names = {"row": row.row, "of": row.title, "group": display_name(row.group or "")}
    columns = [layout.clusters.index(display_name(cluster)) for cluster in row.values]
    return row.key | names | shading | {"at": columns, "value": [*row.values.values()]}


def _shading(disparity: _Disparity) -> dict[str, Any]:
    """Return the number format, the neutral value and the distance of the darkest shade."""
    neutral = _any_value(disparity).target or 0.0
    distances = [abs(_doublings(value, neutral)) for value, _, _ in finite_values(disparity)]
    limit = min(max(distances, default=1.0), _MAX_DOUBLINGS) or 1.0
    return {"form": ",.2f" if neutral else "+,.2f", "neutral": neutral, "limit": limit}


def _doublings(value: float, neutral: float) -> float:
    """Return log2 of the ratio to neutral. BD is a ratio less 1, BR and BS are ratios."""
    ratio = value + 1 - neutral
    return math.log2(ratio) if ratio > 0 else -math.inf


def _count_rows(labels: Iterable[dict[str, Any]]) -> int:
    return 1 + max(int(label["row"]) for label in labels)


def _build_layers(
    canvas: Canvas, layout: _Layout, rows: list[_HeatmapRow], labels: list[dict[str, Any]]
) -> list[Layer]:
    """Return the cells and the labels of their rows."""
    shadings = {name: _shading(layout.disparities[name]) for name in layout.disparities}
    columns = [{"at": index, "column": name} for index, name in enumerate(layout.clusters)]
    lookup = canvas.lookup(columns, "at", "column")
    cells = [_to_cells(layout, row, shadings[row.metric]) for row in rows if row.group is not None]
    base = (
        canvas.chart(cells, layout.metric_select, layout.model_select)
        .transform_flatten(["at", "value"])
        .transform_lookup("at", from_=lookup)
        .transform_calculate(distance="log(max(datum.value + 1 - datum.neutral, 0.0001)) / LN2")
        .transform_calculate(
            shade="isValid(datum.value) ? clamp(datum.distance / datum.limit, -1, 1) : null"
        )
    )
    width = marks.label_width(labels)
    heatmap = heatmap_layers(
        canvas,
        base,
        layout.clusters,
        _count_rows(labels),
        left=width,
        is_dark=f"abs(datum.shade) > {DIVERGING_DARK}",
        colours=alt.Scale(domain=[-1, 0, 1], range=[*DIVERGING], interpolate="rgb"),
        tooltip=marks.tooltips(
            ("of:N", "model"),
            ("group:N", "user group"),
            ("column:N", "item cluster"),
            "metric:N",
            "value:Q",
        ),
    )
    selects = [] if layout.selects_model else [layout.metric_select]
    return heatmap + marks.row_labels(canvas.chart(labels, *selects))


def _describe(layout: _Layout) -> Texts:
    texts: Texts = {}
    for name in layout.disparities:
        cells, label = layout.of_models(name), layout.label(name)
        parts = {"all": cells}
        if layout.selects_model:
            parts = {display_name(model): {model: cells[model]} for model in cells}
        texts |= {(label, key): _describe_cells(label, part) for key, part in parts.items()}
    return texts


def _describe_cells(label: str, disparity: _Disparity) -> str:
    values = [(value, labels, model) for value, model, labels in finite_values(disparity)]
    if not values:
        return f"{label} by user group and item cluster is undefined."

    def name(labels: tuple[str, ...], model: str) -> str:
        group, cluster = map(display_name, labels)
        return f"{group} and {cluster}, model: {display_name(model)}"

    return (
        f"{label} of each user group (row) and item cluster (column). Orange is above neutral, "
        "blue is below. The colours are logarithmic: half and double are equally dark. "
        f"{describe_extremes(values, name)}"
    )
