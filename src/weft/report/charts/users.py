"""Charts of the users of two models: by how much they differ, and who gains and who loses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import numpy as np
import polars as pl

from weft.errors import MissingInput
from weft.report.charts.drawing import (
    Canvas,
    Figure,
    Texts,
    below,
    by_choice,
    ends,
    finish,
    hover,
    number,
    percent,
    room_left,
    room_right,
    row_labels,
)
from weft.report.charts.pairs import Paired, mean_interval, pairs
from weft.report.charts.theme import EQUAL, INK, MUTED, PAPER, colour_scale, named
from weft.report.context import ReportContext
from weft.statistics.pairing import AlignedUsers, Floats

_SIDE = 20  # bins on each side of 0
_HEIGHT = 320
_HEAD = 66  # pixels above the histogram, for the bar of wins, ties and losses
_ROW = 22
_GROUPS = 36  # shown of all kinds together, of each kind those with most users
_NO_GROUPS = (
    "gains needs groups of users: evaluate with per_user=True and train=, user_groups= or slices=."
)


def differences(
    context: ReportContext,
    canvas: Canvas,
    pair: Sequence[str] | None = None,
    metric: str | None = None,
) -> Figure:
    """By how much two models differ for each user: a histogram, with wins, ties and losses above it
    and the mean drawn.
    """
    found, _, *choices = pairs("differences", context, canvas, pair, metric)
    rows, table = [], []
    for one in found:
        edges, counts = _histogram(one.differences)
        filled = np.flatnonzero(counts)
        mean, low, high = mean_interval(one.differences)
        between = "" if math.isnan(low) else f" ({number(low, '+')} to {number(high, '+')})"
        rows.append(
            one.key
            | {
                "left": named(one.left),
                "right": named(one.right),
                "word": one.word,
                "axis": one.axis,
            }
            | dict(zip(("less", "same", "more"), one.counts))
            | {"mean": mean, "low": low, "high": high, "text": f"mean {number(mean, '+')}{between}"}
            | {
                "wide": float(edges[1] - edges[0]),
                "from": edges[filled].tolist(),
                "users": counts[filled].tolist(),
            }
        )
        extents = [
            min(edges[0], one.differences.min()),
            *edges[1:-1],
            max(edges[-1], one.differences.max()),
        ]  # with all beyond
        bins = [(extents[at], extents[at + 1], counts[at]) for at in filled] + [
            (0.0, 0.0, one.counts[1])
        ]
        table += [
            one.key | {"difference from": float(start), "to": float(end), "users": int(many)}
            for start, end, many in sorted(bins)
        ]

    base = canvas.source(rows, *choices)
    bins_ = base.transform_flatten(["from", "users"]).transform_calculate(
        to="datum['from'] + datum.wide",
        who="datum['from'] < -datum.wide / 2 ? datum.left : datum.right",
    )
    colour = alt.Color("who:N", scale=colour_scale(context, [("", EQUAL)]), legend=None)
    x = alt.X("from:Q", axis=alt.Axis(title=None, grid=False), scale=alt.Scale(nice=False))
    y_scale = alt.Scale(range=[alt.ExprRef("height"), _HEAD])
    y = alt.Y("users:Q", scale=y_scale, axis=alt.Axis(title=None, format=",d", tickMinStep=1))
    upright = {"y": alt.value(_HEAD), "y2": alt.value(alt.ExprRef("height"))}
    about = (("pair:N", "models"), ("metric:N", "metric"))
    of_bins = hover(*about, ("from:Q", "difference from"), ("to:Q", "to"), ("users:Q", "users"))
    of_mean = hover(
        *about, ("mean:Q", "mean difference"), ("low:Q", "95 % from"), ("high:Q", "95 % to")
    )
    histogram = [
        bins_.mark_bar(binSpacing=1).encode(
            x=x, x2="to:Q", y=y, y2=alt.datum(0), color=colour, tooltip=of_bins
        ),
        canvas.source([{"at": 0}])
        .mark_rule(color=MUTED, strokeDash=[2, 3])
        .encode(x="at:Q", **upright),
        ends(base, "low", "high", "mean")
        .mark_rect(color=INK, opacity=0.18)
        .encode(x="from:Q", x2="to:Q", **upright),
        base.mark_rule(color=INK, strokeWidth=1.5).encode(x="mean:Q", **upright, tooltip=of_mean),
        base.mark_text(baseline="bottom", dy=-4).encode(
            x="mean:Q", y=alt.value(_HEAD), text="text:N"
        ),
    ]
    first = found[0]
    texts: Texts = {(one.pair, one.value.name): _difference_text(one) for one in found}
    text = texts[first.pair, first.value.name]
    layers = [alt.layer(*histogram), alt.layer(*_shares(base, colour)), below(base, "axis")]
    chart = finish(layers, canvas, *choices, height=_HEIGHT, text=text).resolve_scale(
        x="independent"
    )
    is_free = any(choice.is_free for choice in choices)
    title = (
        "Differences of each user" if is_free else f"{first.value.name} of each user: {first.pair}"
    )
    return Figure(
        "differences", title, text, chart, pl.DataFrame(table), by_choice(texts, *choices)
    )


def _shares(base: Any, colour: alt.Color) -> list[Any]:
    """A bar of the users left of 0, at it and right of it, with their numbers."""
    shares = (
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
            before="datum.who === '' ? '' : datum.word + ' for '",
        )
        .transform_calculate(
            said="datum.before + format(datum.count, ',') + ' (' + format(datum.percent, "
            "datum.form) + ' %)'"
        )
    )
    x = alt.X("begin:Q", axis=None, scale=alt.Scale(domain=[0, 1], nice=False))
    told = hover(("name:N", "model"), ("said:N", "users"))
    found = [
        shares.mark_bar(height=10, stroke=PAPER).encode(
            x=x, x2="end:Q", y=alt.value(36), color=colour, tooltip=told
        )
    ]
    places: tuple[tuple[str, Literal["left", "center", "right"], str], ...]
    places = (("less", "left", "0"), ("same", "center", "width / 2"), ("more", "right", "width"))
    for side, anchor, at in places:
        here = shares.transform_filter(f"datum.side === '{side}'")
        place = alt.value(alt.ExprRef(at))
        head = here.mark_text(align=anchor, limit=alt.ExprRef("width / 2 - 28"), fontWeight="bold")
        found.append(head.encode(x=place, y=alt.value(6), text="name:N", tooltip=told))
        found.append(
            here.mark_text(align=anchor, color=MUTED).encode(
                x=place, y=alt.value(21), text="said:N"
            )
        )
    return found


def _histogram(differences: Floats) -> tuple[Floats, Any]:
    """Edges and counts of bins on both sides of 0, ties left out. The outermost hold what lies
    beyond, if that is far and rare.
    """
    apart = differences[differences != 0]
    far = float(np.abs(apart).max()) if len(apart) else 1.0
    usual = float(np.quantile(np.abs(apart), 0.995)) if len(apart) else 1.0
    limit = usual if far > 2 * usual else far
    edges = np.linspace(-limit, limit, 2 * _SIDE + 1)
    # A bin holds its outer edge: a difference of 0.05 stands left of 0.05, as one of -0.05 stands
    # right of -0.05.
    step = (
        np.ceil(np.minimum(np.abs(apart), limit) / limit * _SIDE * (1 - 1e-12))
        .astype(int)
        .clip(1, _SIDE)
    )
    places = np.where(apart > 0, _SIDE + step - 1, _SIDE - step)
    return edges, np.bincount(places, minlength=2 * _SIDE)


def _difference_text(one: Paired) -> str:
    total = len(one.differences)
    left, ties, right = (f"{count:,} ({percent(count, total)})" for count in one.counts)
    mean, low, high = mean_interval(one.differences)
    interval = (
        "" if math.isnan(low) else f", 95 % interval {number(low, '+')} to {number(high, '+')}"
    )
    return (
        f"{one.value.name} of {_users(total)}, {named(one.a)} less {named(one.b)}: "
        f"{named(one.right)} is {one.word} for {right}, "
        f"{named(one.left)} for {left}, and {ties} are equal; mean difference "
        f"{number(mean, '+')}{interval}."
    )


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Group:
    section: str
    label: str
    members: Any  # whether each of all users is in it


def gains(
    context: ReportContext,
    canvas: Canvas,
    pair: Sequence[str] | None = None,
    metric: str | None = None,
) -> Figure:
    """Who gains and who loses: the mean difference of two models in groups of users, with 95 %
    intervals.
    """
    found, aligned, *choices = pairs("gains", context, canvas, pair, metric)
    groups, left_out = _groups(context, aligned)
    if not groups:
        raise MissingInput(_NO_GROUPS)
    labels: list[dict[str, Any]] = []
    places = []
    for group in groups:
        if not labels or labels[-1]["section"] != group.section:
            head = {
                "label": group.section,
                "section": group.section,
                "head": True,
                "hover": group.section,
            }
            labels.append({"row": len(labels)} | head)
        places.append(len(labels))
        hovered = f"{group.section}: {named(group.label)}"
        labels.append(
            {
                "row": len(labels),
                "label": named(group.label),
                "section": group.section,
                "head": False,
                "hover": hovered,
            }
        )
    rows, table = [], []
    texts: Texts = {}
    for one in found:
        means, told = [], []
        for place, group in zip(places, groups):
            inside = one.differences[group.members[one.rows]]
            if not len(inside):
                continue
            mean, low, high = mean_interval(inside)
            means.append((place, mean, low, high, len(inside)))
            of_group = {
                "by": group.section,
                "group": group.label,
                "mean difference": mean,
                "95 % from": low,
                "95 % to": high,
            }
            table.append(one.key | of_group | {"users": len(inside)})
            told.append(
                (
                    mean,
                    f"{group.section} {named(group.label)} ({number(mean, '+')}, "
                    f"{_users(len(inside))})",
                )
            )
        columns = [[*column] for column in zip(*means)] or [[]] * 5
        sides = {
            "axis": one.axis,
            "left": f"← {named(one.left)} {one.word}",
            "right": f"{named(one.right)} {one.word} →",
        }
        rows.append(one.key | sides | dict(zip(("row", "mean", "low", "high", "users"), columns)))
        if told:
            texts[one.pair, one.value.name] = (
                f"Mean difference in {one.value.name}, {named(one.a)} less {named(one.b)}, by "
                "group of users. "
                f"Highest for {max(told)[1]}, lowest for {min(told)[1]}."
                + "".join(
                    f" Of {section}, {many} smaller groups are left out."
                    for section, many in left_out.items()
                )
            )
    first = found[0]
    text = texts.get((first.pair, first.value.name))
    if text is None:
        raise MissingInput(_NO_GROUPS)

    above = canvas.source(rows, *choices)
    base = (
        above.transform_flatten(["row", "mean", "low", "high", "users"])
        .transform_lookup(
            "row", from_=alt.LookupData(canvas.data(labels), key="row", fields=["hover"])
        )
        .transform_calculate(
            said="format(datum.users, ',') + (datum.users === 1 ? ' user' : ' users')"
        )
    )
    room = room_left(label["label"] for label in labels)
    scale = alt.Scale(range=room_right(70, room + 8), padding=8)
    axis = alt.Axis(title=None)
    y = alt.Y("row:O", axis=None, scale=alt.Scale(domain=[*range(len(labels))]))
    on_hover = hover(
        ("hover:N", "group"),
        ("pair:N", "models"),
        ("metric:N", "metric"),
        ("mean:Q", "mean difference"),
        ("low:Q", "95 % from"),
        ("high:Q", "95 % to"),
        ("users:Q", "users"),
    )
    bars = ends(base, "low", "high", "mean").mark_rule(
        strokeWidth=2.5, color=INK, strokeCap="round"
    )
    captions = {"baseline": "bottom", "limit": alt.ExprRef("width / 2 - 6"), "dy": -6}
    layers = [
        canvas.source([{"at": 0}])
        .mark_rule(color=MUTED)
        .encode(x=alt.X("at:Q", scale=scale, axis=axis)),
        bars.encode(x=alt.X("from:Q", scale=scale, axis=axis), x2="to:Q", y=y, tooltip=on_hover),
        base.mark_point(filled=True, size=60, color=INK, opacity=1).encode(
            x=alt.X("mean:Q", scale=scale, axis=axis), y=y, tooltip=on_hover
        ),
        base.mark_text(align="right", color=MUTED).encode(
            x=alt.value(alt.ExprRef("width")), y=y, text="said:N"
        ),
        *row_labels(canvas.source(labels), room),
        above.mark_text(align="left", **captions).encode(
            x=alt.value(0), y=alt.value(0), text="left:N"
        ),
        above.mark_text(align="right", **captions).encode(
            x=alt.value(alt.ExprRef("width")), y=alt.value(0), text="right:N"
        ),
        below(above, "axis"),
    ]
    chart = finish(layers, canvas, *choices, height=_ROW * len(labels), text=text)
    is_free = any(choice.is_free for choice in choices)
    title = (
        "Who gains and who loses"
        if is_free
        else f"{first.value.name} by group of users: {first.pair}"
    )
    return Figure("gains", title, text, chart, pl.DataFrame(table), by_choice(texts, *choices))


def _users(count: int) -> str:
    return "1 user" if count == 1 else f"{count:,} users"


def _groups(context: ReportContext, aligned: AlignedUsers) -> tuple[list[_Group], dict[str, int]]:
    """The groups of users by activity, user group and slice; and of how many groups of a kind there
    is no room.
    """
    result = next(
        (result for result in context.results.values() if result.user_labels is not None), None
    )
    if result is None or result.user_labels is None:
        raise MissingInput(_NO_GROUPS)
    users = pl.DataFrame({"user": aligned.users})
    labels = result.user_labels.unique("user").with_columns(
        pl.col("user").cast(aligned.users.dtype)
    )
    known = users.join(labels, on="user", how="left", maintain_order="left")
    found: list[_Group] = []
    left_out = {}
    columns = _different(known)
    room = max(4, _GROUPS // max(1, len(columns)))
    for column in columns:
        if column == "activity":
            found += _by_activity(known[column])
            continue
        section = {"user_groups": "user group"}.get(column, column)
        order: list[str] = []
        if column.startswith("slices[") and column.endswith("]"):
            section = column[len("slices[") : -1]
            if (
                result.slices is not None
            ):  # where groups stand in their own order, such as "up to 5", "6 to 9"
                order = (
                    result.slices.filter(pl.col("slice") == section)["group"]
                    .unique(maintain_order=True)
                    .to_list()
                )
        texts = known[column].cast(pl.String)
        sizes = texts.drop_nulls().value_counts(sort=True)
        if len(sizes) > room:
            left_out[section] = len(sizes) - room
        places = {label: place for place, label in enumerate(order)}
        largest = sorted(
            sizes[column][:room], key=lambda label: (places.get(label, len(places)), label)
        )
        found += [
            _Group(section, label, (texts == label).fill_null(False).to_numpy())
            for label in largest
        ]
    return found, left_out


def _different(known: pl.DataFrame) -> list[str]:
    """The columns to group by: not the activity if a slice is by it, nor user groups that are a
    slice, too.
    """
    columns = known.columns[1:]
    slices = [column for column in columns if column.startswith("slices[")]
    left_out = {"activity"} if "slices[activity]" in slices else set()
    if "user_groups" in columns and any(
        known[column].equals(known["user_groups"]) for column in slices
    ):
        left_out.add("user_groups")
    return [column for column in columns if column not in left_out]


def _by_activity(activity: pl.Series) -> list[_Group]:
    """Users in quarters by their train interactions; those with equally many stay together."""
    numbers = activity.cast(pl.Float64).to_numpy()
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        return []
    cuts = np.unique(np.quantile(known, [0.25, 0.5, 0.75], method="inverted_cdf"))
    places = np.searchsorted(cuts, numbers, side="left")
    found = []
    for place in range(len(cuts) + 1):
        inside = (places == place) & np.isfinite(numbers)
        if inside.any():
            low, high = int(numbers[inside].min()), int(numbers[inside].max())
            found.append(
                _Group(
                    "interactions", f"{low:,}" if low == high else f"{low:,} to {high:,}", inside
                )
            )
    return found
