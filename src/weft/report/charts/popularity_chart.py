"""The popularity of recommended items, compared with the catalogue and the train data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from weft.report.charts import marks, selection
from weft.report.charts.canvas import Canvas, Figure, Layer, SelectBox, Texts
from weft.report.charts.label_layout import spread_labels
from weft.report.charts.phrases import describe_grey, list_names
from weft.report.charts.theme import INK, MUTED, coloured_models, display_name
from weft.report.context import ReportContext

_HEIGHT = 320
_Edges = tuple[int, int]  # lowest and highest number of train interactions of a bin


@dataclass(frozen=True)
class _Bins:
    """The bins of popularity, and the names of the two reference lines."""

    edges: list[_Edges]
    catalogue: str
    train: str

    @property
    def labels(self) -> list[str]:
        return [f"{low:,}" if low == high else f"{low:,}–{high:,}" for low, high in self.edges]

    def is_reference(self, name: str) -> bool:
        return name in (self.catalogue, self.train)


@dataclass(frozen=True)
class _Shares:
    """The distribution of a model's recommendations, or of a reference, over the bins."""

    name: str
    is_labelled: bool
    bins: list[int]
    shares: Any


def popularity(context: ReportContext, canvas: Canvas, k: int | None = None) -> Figure:
    """Draw the share of each bin of items by popularity in the recommendations.

    References are its share of the items and of the train interactions.
    """
    frames, cutoffs = selection.select_frames("popularity", context, canvas, k)
    select = selection.cutoff_select(cutoffs)
    bins = _select_bins(context, frames)
    lines = {k: _select_shares(context, frames, bins, k) for k in cutoffs}
    layers = _build_layers(context, canvas, select, bins, lines)
    texts: Texts = {
        (label,): _describe(context, k, bins, lines[k]) for k, label in zip(cutoffs, select.options)
    }
    table = [
        {
            "cut-off": k,
            "train interactions": bins.labels[bin_],
            "of": line.name,
            "share": float(share),
        }
        for k in cutoffs
        for line in lines[k]
        for bin_, share in zip(line.bins, line.shares)
    ]
    title, axis = "Popularity of recommended items", "share of recommendations"
    return canvas.figure(title, layers, [select], texts, table, height=_HEIGHT, axis=axis)


def _select_bins(context: ReportContext, frames: dict[str, pl.DataFrame]) -> _Bins:
    names = [display_name(model) for model in context.models]
    edges = {row for frame in frames.values() for row in frame.select("low", "high").iter_rows()}
    return _Bins(sorted(edges), _unused_name("all items", names), _unused_name("train data", names))


def _unused_name(name: str, used: Collection[str]) -> str:
    while name in used:
        name += "*"
    return name


def _select_shares(
    context: ReportContext, frames: dict[str, pl.DataFrame], bins: _Bins, k: int
) -> list[_Shares]:
    """Return the lines of the references, which are equal for all models, and of the models."""
    indices = {edges: index for index, edges in enumerate(bins.edges)}
    counts: dict[str, tuple[list[int], Any]] = {}
    for model, frame in frames.items():
        rows = frame.filter(pl.col("k") == k).sort("low", "high")
        of_rows = [indices[edges] for edges in rows.select("low", "high").iter_rows()]
        if not of_rows:
            continue
        if not counts:
            counts[bins.catalogue] = (of_rows, rows["items"].to_numpy())
            counts[bins.train] = (of_rows, rows["interactions"].to_numpy())
        counts[display_name(model)] = (of_rows, rows["recommendations"].to_numpy())
    labelled = {bins.catalogue, bins.train, *map(display_name, coloured_models(context))}
    return [
        _Shares(name, name in labelled, of_rows, count / count.sum())
        for name, (of_rows, count) in counts.items()
        if count.sum() > 0
    ]


def _build_layers(
    context: ReportContext,
    canvas: Canvas,
    select: SelectBox,
    bins: _Bins,
    lines: dict[int, list[_Shares]],
) -> list[Layer]:
    """Return the references, the lines and points of the models, and names at the ends."""
    rows, label_rows = _to_rows(select, bins, lines, canvas.height or _HEIGHT)
    names = marks.name_labels([*coloured_models(context), bins.catalogue, bins.train])
    labels = names.look_up(canvas, canvas.chart(label_rows, select), "model")
    bin_names = [{"at": index, "bin": name} for index, name in enumerate(bins.labels)]
    lookup = canvas.lookup(bin_names, "at", "bin")
    base = canvas.chart(rows, select).transform_flatten(["at", "share"])
    base = base.transform_lookup("at", from_=lookup)
    x = _bin_axis(bins.labels, names.pixels)
    scale = alt.Scale(zero=True, domainMin=0)
    y = alt.Y("share:Q", scale=scale, axis=alt.Axis(title=None, format=".0%"))
    colour = marks.model_colour(context, [(bins.catalogue, MUTED), (bins.train, INK)])
    opacity = alt.condition("datum.own", alt.value(1.0), alt.value(0.5))
    tooltip = marks.tooltips(
        ("model:N", "of"),
        ("cut:N", "cut-off"),
        ("bin:N", "train interactions"),
        ("share:Q", "share", ".2%"),
    )
    references = base.transform_filter("datum.reference")
    models = base.transform_filter("!datum.reference")
    styled = {"x": x, "y": y, "color": colour, "opacity": opacity}
    return [
        references.mark_line(strokeDash=[5, 4], strokeWidth=1.5).encode(x=x, y=y, color=colour),
        references.mark_point(size=120, opacity=0, filled=True).encode(x=x, y=y, tooltip=tooltip),
        models.mark_line(strokeWidth=2).encode(**styled),
        models.mark_point(filled=True, size=55).encode(
            **styled, tooltip=tooltip, shape=marks.model_shape(context)
        ),
        marks.end_labels(labels, x, alt.Y("at:Q", scale=scale, title=None), colour),
    ]


def _bin_axis(ticks: list[str], label_pixels: str) -> alt.X:
    axis = alt.Axis(
        title="train interactions of the item",
        titleAnchor="start",
        labelAngle=-35 if len(ticks) > 6 else 0,
        grid=False,
    )
    x_scale = alt.Scale(type="point", padding=0.3, range=marks.range_with_margins(label_pixels))
    return alt.X("bin:O", sort=ticks, scale=x_scale, axis=axis)


def _to_rows(
    select: SelectBox, bins: _Bins, lines: dict[int, list[_Shares]], pixels: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of the lines, and of the names at their ends."""
    rows, labels = [], []
    for of_cutoff, label in zip(lines.values(), select.options):
        labelled = [line for line in of_cutoff if line.is_labelled]
        top = max(float(line.shares.max()) for line in of_cutoff)
        ends = [float(line.shares[-1]) for line in labelled]
        for line, position in zip(labelled, spread_labels(ends, 0.0, top, pixels, is_bounded=True)):
            last = bins.labels[line.bins[-1]]
            labels.append({"cut": label, "model": line.name, "bin": last, "at": position})
        for line in of_cutoff:
            kind = {"own": line.is_labelled, "reference": bins.is_reference(line.name)}
            points = {"at": line.bins, "share": line.shares.round(5).tolist()}
            rows.append({"cut": label, "model": line.name} | kind | points)
    return rows, labels


def _describe(context: ReportContext, k: int, bins: _Bins, lines: list[_Shares]) -> str:
    last = {line.name: float(line.shares[-1]) for line in lines}
    of_items, of_train = last.get(bins.catalogue, 0), last.get(bins.train, 0)
    models = [f"{name} {share:.0%}" for name, share in last.items() if not bins.is_reference(name)]
    return (
        f"Share of the recommendations in the top {k} that are items with this number of train "
        f"interactions. Dashed lines are the share of these items in the catalogue "
        f"({bins.catalogue}) and in the train interactions ({bins.train}). Items with "
        f"{bins.labels[-1]} train interactions are {of_items:.1%} of the items and {of_train:.0%} "
        f"of the train interactions. Their share of the recommendations: {list_names(models)}."
        f"{describe_grey(context)}"
    )
