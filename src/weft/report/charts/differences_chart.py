"""A histogram of the differences of two models per user."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import numpy as np

from weft.errors import agree
from weft.report.charts import marks
from weft.report.charts.canvas import Canvas, Figure, Layer, SelectBox, Texts
from weft.report.charts.phrases import short_number, short_percent
from weft.report.charts.theme import EQUAL, INK, MUTED, PAPER
from weft.report.charts.user_differences import (
    UserDifferences,
    difference_selects,
    mean_interval,
    select_differences,
)
from weft.report.context import ReportContext
from weft.statistics.pairing import Floats

_SIDE_BINS = 20  # on each side of 0
_HEIGHT = 320
_HEAD_PIXELS = 66  # above the histogram, for the bar of wins, ties and losses


def differences(
    context: ReportContext,
    canvas: Canvas,
    pair: Sequence[str] | None = None,
    metric: str | None = None,
) -> Figure:
    """Draw a histogram of the differences of two models per user, with their mean.

    A bar above it has the numbers of wins, ties and losses.
    """
    found, _ = select_differences("differences", context, canvas, pair, metric)
    selects = difference_selects(found)
    layers = _build_layers(context, canvas, selects, found)
    remark = ", not adjusted for the number of pairs" if len(context.models) > 2 else ""
    texts: Texts = {(one.option, one.value.name): _describe(one, remark) for one in found}
    title = f"{found[0].value.name} differences per user: {found[0].pair}"
    if any(select.is_shown for select in selects):
        title = "Differences per user"
    table = [row for one in found for row in _to_table(one)]
    return canvas.figure(title, layers, selects, texts, table, height=_HEIGHT, x="independent")


def _histogram(differences: Floats) -> tuple[Floats, Any]:
    """Return edges and counts of bins on both sides of 0, without ties.

    The outermost bins hold all differences beyond them, if these are far away and rare. A bin
    includes its edge that is further from 0.
    """
    nonzero = differences[differences != 0]
    largest = float(np.abs(nonzero).max()) if len(nonzero) else 1.0
    usual = float(np.quantile(np.abs(nonzero), 0.995)) if len(nonzero) else 1.0
    limit = usual if largest > 2 * usual else largest
    edges = np.linspace(-limit, limit, 2 * _SIDE_BINS + 1)
    steps = np.ceil(np.minimum(np.abs(nonzero), limit) / limit * _SIDE_BINS * (1 - 1e-12))
    steps = steps.astype(int).clip(1, _SIDE_BINS)
    bins = np.where(nonzero > 0, _SIDE_BINS + steps - 1, _SIDE_BINS - steps)
    return edges, np.bincount(bins, minlength=2 * _SIDE_BINS)


def _to_row(one: UserDifferences) -> dict[str, Any]:
    edges, counts = _histogram(one.differences)
    filled = np.flatnonzero(counts)
    mean, low, high = mean_interval(one.differences)
    interval = (
        "" if math.isnan(low) else f" ({short_number(low, '+')} to {short_number(high, '+')})"
    )
    return (
        one.key
        | {"left": one.left, "right": one.right, "word": one.adjective}
        | {"models": one.pair, "axis": one.axis}
        | dict(zip(("less", "same", "more"), one.counts))
        | {"mean": mean, "low": low, "high": high}
        | {"text": f"mean {short_number(mean, '+')}{interval}"}
        | {"wide": float(edges[1] - edges[0])}
        | {"from": edges[filled].tolist(), "users": counts[filled].tolist()}
    )


def _to_table(one: UserDifferences) -> list[dict[str, Any]]:
    """Return the filled bins and the ties; the outermost bins extend to the largest difference."""
    edges, counts = _histogram(one.differences)
    edges[0] = min(edges[0], one.differences.min())
    edges[-1] = max(edges[-1], one.differences.max())
    bins = [(edges[at], edges[at + 1], counts[at]) for at in np.flatnonzero(counts)]
    bins.append((0.0, 0.0, one.counts[1]))
    return [
        one.names | {"difference from": float(start), "to": float(end), "users": int(count)}
        for start, end, count in sorted(bins)
    ]


def _build_layers(
    context: ReportContext,
    canvas: Canvas,
    selects: Sequence[SelectBox],
    found: Sequence[UserDifferences],
) -> list[Layer]:
    """Return the histogram with the mean, the bar above it, and the caption of the axis."""
    base = canvas.chart([_to_row(one) for one in found], *selects)
    colour = marks.model_colour(context, [("", EQUAL)], field="who:N")
    bins = base.transform_flatten(["from", "users"]).transform_calculate(
        to="datum['from'] + datum.wide",
        who="datum['from'] < -datum.wide / 2 ? datum.left : datum.right",
    )
    x = alt.X("from:Q", axis=alt.Axis(title=None, grid=False), scale=alt.Scale(nice=False))
    y_scale = alt.Scale(range=[alt.ExprRef("height"), _HEAD_PIXELS])
    y = alt.Y("users:Q", scale=y_scale, axis=alt.Axis(title="users", format=",d", tickMinStep=1))
    full_height = {"y": alt.value(_HEAD_PIXELS), "y2": alt.value(alt.ExprRef("height"))}
    names = ("models:N", "metric:N")
    bin_tooltip = marks.tooltips(*names, ("from:Q", "difference from"), "to:Q", "users:Q")
    mean_tooltip = marks.tooltips(*names, ("mean:Q", "mean difference"), *marks.INTERVAL_FIELDS)
    zero = canvas.chart([{"at": 0}])
    interval = marks.add_interval_ends(base, "low", "high", "mean").mark_rect(
        color=INK, opacity=0.18
    )
    histogram = alt.layer(
        bins.mark_bar(binSpacing=1).encode(
            x=x, x2="to:Q", y=y, y2=alt.datum(0), color=colour, tooltip=bin_tooltip
        ),
        zero.mark_rule(color=MUTED, strokeDash=[2, 3]).encode(x="at:Q", **full_height),
        interval.encode(x="from:Q", x2="to:Q", **full_height),
        base.mark_rule(color=INK, strokeWidth=1.5).encode(
            x="mean:Q", **full_height, tooltip=mean_tooltip
        ),
        base.mark_text(baseline="bottom", dy=-4).encode(
            x="mean:Q", y=alt.value(_HEAD_PIXELS), text="text:N"
        ),
    )
    shares = found[0].labels.look_up(canvas, _add_shares(base), "who")
    share_bar = alt.layer(*_build_share_bar(shares, colour))
    return [histogram, share_bar, marks.axis_caption(base, "axis")]


def _build_share_bar(shares: Layer, colour: alt.Color) -> list[Layer]:
    """Return a bar of the users below 0, at 0 and above 0, with their numbers."""
    x = alt.X("begin:Q", axis=None, scale=alt.Scale(domain=[0, 1], nice=False))
    tooltip = marks.tooltips(("name:N", "model"), ("users_text:N", "users"))
    bar = shares.mark_bar(height=10, stroke=PAPER)
    layers = [bar.encode(x=x, x2="end:Q", y=alt.value(36), color=colour, tooltip=tooltip)]
    sides: tuple[tuple[str, Literal["left", "center", "right"], str], ...]
    sides = (("less", "left", "0"), ("same", "center", "width / 2"), ("more", "right", "width"))
    for side, align, position in sides:
        share = shares.transform_filter(f"datum.side === '{side}'")
        x_value = alt.value(alt.ExprRef(position))
        text = alt.ExprRef(f"datum.who === '' ? 'equal' : {marks.LABEL_TEXT}")
        name = share.mark_text(align=align, text=text, fontWeight="bold")
        words = f"datum.who === '' || {marks.NARROW} ? '' : datum.word + ' for '"
        number_text = alt.ExprRef(f"({words}) + datum.users_text")
        number = share.mark_text(align=align, color=MUTED, text=number_text)
        layers.append(name.encode(x=x_value, y=alt.value(6), tooltip=tooltip))
        layers.append(number.encode(x=x_value, y=alt.value(21)))
    return layers


def _add_shares(base: Layer) -> Layer:
    """Return a row per side with the ends of its bar, its name and its number of users as text."""
    return (
        base.transform_fold(["less", "same", "more"], as_=["side", "count"])
        .transform_calculate(
            total="datum.less + datum.same + datum.more",
            start="datum.side === 'less' ? 0 : datum.side === 'same' ? datum.less : datum.less + "
            "datum.same",
            who="datum.side === 'less' ? datum.left : datum.side === 'more' ? datum.right : ''",
        )
        .transform_calculate(
            begin="datum.start / datum.total",
            end="(datum.start + datum.count) / datum.total",
            name="datum.who === '' ? 'equal' : datum.who",
            percent="100 * datum.count / datum.total",
        )
        .transform_calculate(
            form="datum.percent > 0 && datum.percent < 1 || datum.percent > 99 && datum.percent < "
            "100 ? '.1f' : '.0f'",
        )
        .transform_calculate(
            users_text="format(datum.count, ',') + ' (' + format(datum.percent, datum.form) + '%)'"
        )
    )


def _describe(one: UserDifferences, remark: str) -> str:
    total = len(one.differences)
    left, ties, right = (f"{count:,} ({short_percent(count, total)})" for count in one.counts)
    mean, low, high = (short_number(value, "+") for value in mean_interval(one.differences))
    edges, _ = _histogram(one.differences)
    is_clipped = np.abs(one.differences).max() > edges[-1] * (1 + 1e-9)
    outer = " The outermost bars include all larger differences." if is_clipped else ""
    interval = "" if low == "undefined" else f" (grey band: 95% interval {low} to {high}{remark})"
    return (
        f"Histogram of the difference in {one.value.name} ({one.subtraction}) of each user, for "
        f"{agree(total, '{n} user{s}')}. {one.right} is {one.adjective} for {right}, "
        f"{one.left} for {left}; {ties} are equal and not in the histogram. The solid line "
        f"is the mean difference, {mean}{interval}.{outer}"
    )
