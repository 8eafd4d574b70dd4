"""Charts of the users of two models: by how much they differ, and who gains and who loses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from scipy import special

from weft.errors import InputError, MissingInput, SettingError, one_of
from weft.report.charts.drawing import (
    LABELS,
    Canvas,
    Choice,
    Figure,
    below,
    find,
    finish,
    hover,
    number,
    percent,
    room_right,
    row_labels,
    source,
)
from weft.report.charts.theme import GRID, INK, MUTED, OTHER, colour_scale, named
from weft.report.subject import Subject
from weft.result import MetricValue
from weft.significance.users import Aligned, Floats, align

_SIDE = 20  # bins on each side of 0
_HEIGHT = 320
_HEAD = 66  # pixels above the histogram, for the bar of wins, ties and losses
_ROW = 22
_FEW = 4  # models, of which every pair is offered
_METRICS = 4  # offered
_GROUPS = 12  # shown of each kind of group, those with most users
Pair = tuple[str, str]


@dataclass(frozen=True)
class _Paired:
    """The users that two models share on a metric: their differences, a - b."""

    a: str
    b: str
    value: MetricValue  # of the metric, for its name and direction
    differences: Floats
    rows: Any  # of these users among all

    @property
    def pair(self) -> str:
        return f"{named(self.a)} against {named(self.b)}"

    @property
    def right(self) -> str:
        """Whom a difference above 0 favours."""
        return self.b if self.value.higher_is_better is False else self.a

    @property
    def left(self) -> str:
        return self.a if self.right == self.b else self.b

    @property
    def word(self) -> str:
        return "higher" if self.value.higher_is_better is None else "better"

    @cached_property
    def counts(self) -> tuple[int, int, int]:
        """Users left of 0, at it and right of it."""
        found = self.differences
        return int((found < 0).sum()), int((found == 0).sum()), int((found > 0).sum())


def _pairs(
    kind: str, subject: Subject, canvas: Canvas, pair: Sequence[str] | None, metric: str | None
) -> tuple[list[_Paired], Aligned, Choice, Choice]:
    """Every pair and metric of the chart, the first choice first."""
    if len(subject.models) < 2:
        raise MissingInput(f"{kind} is about two models: compare results, weft.compare([a, b]).plot({kind!r}).")
    tables = {model: result for model, result in subject.results.items() if result.per_user is not None}
    if len(tables) < 2:
        raise MissingInput(f"{kind} needs the values of each user of two models: evaluate them with per_user=True.")
    try:
        aligned = align(tables)
    except InputError as error:
        raise MissingInput(f"{kind} pairs users: {error}") from error
    shared = set.intersection(*(set(table.columns) for table in aligned.tables)) - {"user"}
    offered = [name for name in aligned.tables[0].columns if name in shared and all(name in result for result in tables.values())]
    if not offered:
        raise MissingInput(f"{kind} needs a metric that has a value for each user of every model, such as nDCG.")
    heads = [name for name in subject.headlines if name in offered] or offered
    metrics = heads[:_METRICS] if canvas.has_choices else heads[:1]
    if metric is not None:
        metrics = [find("metric", metric, offered)]
    places = {model: at for at, model in enumerate(tables)}
    found = []
    for name in metrics:
        values = aligned.values(name)
        entry = next(iter(tables.values())).entry(name)
        for a, b in _wanted(subject, [*tables], pair, canvas):
            differences = values[places[a]] - values[places[b]]
            rows = np.flatnonzero(np.isfinite(differences))
            if len(rows):
                found.append(_Paired(a, b, entry, differences[rows], rows))
    if not found:
        raise MissingInput(f"{kind}: no user has a defined value of {' or '.join(metrics)} from both models.")
    choices = (
        Choice("pair", "Models", [*dict.fromkeys(one.pair for one in found)]),
        Choice("metric", "Metric", [*dict.fromkeys(one.value.name for one in found)]),
    )
    return found, aligned, *choices


def _wanted(subject: Subject, models: list[str], pair: Sequence[str] | None, canvas: Canvas) -> list[Pair]:
    """The pairs of the chart: the best model by the first headline metric against each other, and all pairs of few models."""
    if pair is not None:
        if isinstance(pair, str) or len([*pair]) != 2:
            raise SettingError(f"pair={pair!r}; it must be two models, such as pair=({models[0]!r}, {models[1]!r}).")
        a, b = (model if model in models else one_of("pair", model, tuple(models)) for model in pair)
        if a == b:
            raise SettingError(f"pair={pair!r}; a model is compared with another one.")
        return [(a, b)]
    leader = subject.leader(subject.headlines[0]) if subject.headlines else None
    first = leader if leader in models else models[0]
    others = [model for model in models if model != first]
    if not canvas.has_choices:
        seconds = [model for model in others if model == _second(subject, others)]
        return [(first, (seconds or others)[0])]
    found = [(first, other) for other in others]
    return found + ([*combinations(others, 2)] if len(models) <= _FEW else [])


def _second(subject: Subject, others: list[str]) -> str | None:
    """The best of the others."""
    rest = Subject({model: subject.results[model] for model in others})
    return rest.leader(subject.headlines[0]) if subject.headlines else None


def mean_interval(differences: Floats) -> tuple[float, float, float]:
    """The mean and its 95 % interval by Student's t, as `weft.compare` has it; without an interval for one user."""
    n, mean = len(differences), float(differences.mean())
    if n < 2:
        return mean, math.nan, math.nan
    margin = float(special.stdtrit(n - 1, 0.975) * differences.std(ddof=1) / math.sqrt(n))
    return mean, mean - margin, mean + margin


# -------------------------------------------------------------------------------------------------------------- differences


def differences(subject: Subject, canvas: Canvas, pair: Sequence[str] | None = None, metric: str | None = None) -> Figure:
    """By how much two models differ for each user: a histogram, with wins, ties and losses above it and the mean drawn."""
    found, _, *choices = _pairs("differences", subject, canvas, pair, metric)
    bins, bars, means, table = [], [], [], []
    for one in found:
        key = {"pair": one.pair, "metric": one.value.name}
        edges, counts, is_cut = _histogram(one.differences)
        filled = np.flatnonzero(counts)
        bins.append(
            key
            | {"left": named(one.left), "right": named(one.right), "wide": edges[1] - edges[0], "limit": edges[-1]}
            | {"from": edges[filled].tolist(), "users": counts[filled].tolist()}
        )
        total = len(one.differences)
        ends = np.cumsum([0, *one.counts]) / total
        words = (f"{named(one.left)} {one.word}", "equal", f"{named(one.right)} {one.word}")
        sides = ("left", "middle", "right")
        for side, count, word, start, end in zip(sides, one.counts, words, ends[:-1].tolist(), ends[1:].tolist()):
            who = {"left": named(one.left), "middle": "", "right": named(one.right)}[side]
            bars.append(
                key
                | {
                    "side": side,
                    "who": who,
                    "word": word,
                    "count": f"{count:,} ({percent(count, total)})",
                    "from": start,
                    "to": end,
                }
            )
        mean, low, high = mean_interval(one.differences)
        means.append(
            key
            | {"mean": mean, "low": low, "high": high, "text": f"mean {number(mean, '+')}" + _between(low, high)}
            | {"axis": f"{one.value.name}: {named(one.a)} less {named(one.b)}"}
        )
        table += [
            key | {"difference from": start, "to": start + edges[1] - edges[0], "users": int(count)}
            for start, count in zip(edges[:-1].tolist(), counts.tolist())
            if count and start < 0
        ]
        table += [key | {"difference from": 0.0, "to": 0.0, "users": one.counts[1]}]
        table += [
            key | {"difference from": start, "to": start + edges[1] - edges[0], "users": int(count)}
            for start, count in zip(edges[:-1].tolist(), counts.tolist())
            if count and start >= 0
        ]

    colour = alt.Color("who:N", scale=colour_scale(subject, [("", OTHER)]), legend=None)
    base = (
        source(bins, *choices)
        .transform_flatten(["from", "users"])
        .transform_calculate(to="datum['from'] + datum.wide", who="datum['from'] < -datum.wide / 2 ? datum.left : datum.right")
    )
    x = alt.X("from:Q", axis=alt.Axis(title=None, grid=False), scale=alt.Scale(nice=False))
    y_scale = alt.Scale(range=[alt.ExprRef("height"), _HEAD])
    y = alt.Y("users:Q", scale=y_scale, axis=alt.Axis(title=None, format=",d", tickMinStep=1))
    full = {"y": alt.value(_HEAD), "y2": alt.value(alt.ExprRef("height"))}
    mean_rows = source(means, *choices)
    histogram = alt.layer(
        base.mark_bar(binSpacing=1).encode(
            x=x,
            x2="to:Q",
            y=y,
            color=colour,
            tooltip=hover(
                ("pair:N", "models"), ("metric:N", "metric"), ("from:Q", "difference from"), ("to:Q", "to"), ("users:Q", "users")
            ),
        ),
        source([{"at": 0}]).mark_rule(color=MUTED, strokeDash=[2, 3]).encode(x="at:Q", **full),
        mean_rows.transform_filter("isValid(datum.low)").mark_rect(color=INK, opacity=0.18).encode(x="low:Q", x2="high:Q", **full),
        mean_rows.mark_rule(color=INK, strokeWidth=1.5).encode(
            x="mean:Q",
            **full,
            tooltip=hover(
                ("pair:N", "models"),
                ("metric:N", "metric"),
                ("mean:Q", "mean difference"),
                ("low:Q", "95 % from"),
                ("high:Q", "95 % to"),
            ),
        ),
        mean_rows.mark_text(baseline="bottom", dy=-4).encode(x="mean:Q", y=alt.value(_HEAD), text="text:N"),
    )
    shares = source(bars, *choices)
    share_x = alt.X("from:Q", axis=None, scale=alt.Scale(domain=[0, 1], nice=False))
    told = hover(("word:N", "users"), ("count:N", "number"))
    bar = [shares.mark_bar(height=10, stroke="white").encode(x=share_x, x2="to:Q", y=alt.value(36), color=colour, tooltip=told)]
    for side, align_, at in (("left", "left", "0"), ("middle", "center", "width / 2"), ("right", "right", "width")):
        here = shares.transform_filter(f"datum.side === '{side}'")
        place = alt.value(alt.ExprRef(at))
        bar.append(
            here.mark_text(align=align_, limit=LABELS + 14, fontWeight="bold").encode(
                x=place, y=alt.value(6), text="word:N", tooltip=told
            )
        )
        bar.append(here.mark_text(align=align_, color=MUTED).encode(x=place, y=alt.value(21), text="count:N"))
    first, axis = found[0], below_text(source(means, *choices))
    text = _difference_text(first)
    layers = [histogram, alt.layer(*bar), axis]
    chart = finish(layers, canvas, *choices, height=_HEIGHT, text=text).resolve_scale(x="independent")
    title = (
        "Differences of each user"
        if any(choice.is_free for choice in choices)
        else f"{first.value.name} of each user: {first.pair}"
    )
    return Figure("differences", title, text, chart, pl.DataFrame(table))


def below_text(rows: alt.Chart) -> alt.Chart:
    """The title of the horizontal axis, from the data."""
    mark = rows.mark_text(align="right", baseline="top", fontSize=12, limit=340)
    return mark.encode(x=alt.value(alt.ExprRef("width")), y=alt.value(alt.ExprRef("height + 26")), text="axis:N")


def _between(low: float, high: float) -> str:
    return "" if math.isnan(low) else f" ({number(low, '+')} to {number(high, '+')})"


def _histogram(differences: Floats) -> tuple[Floats, Any, bool]:
    """Edges and counts of bins on both sides of 0, ties left out. The outermost hold what lies beyond, if that is far and rare."""
    apart = differences[differences != 0]
    far = float(np.abs(apart).max()) if len(apart) else 1.0
    usual = float(np.quantile(np.abs(apart), 0.995)) if len(apart) else 1.0
    is_cut = far > 2 * usual
    limit = usual if is_cut else far
    edges = np.linspace(-limit, limit, 2 * _SIDE + 1)
    # A bin holds its outer edge: a difference of 0.05 stands left of 0.05, as one of -0.05 stands right of -0.05.
    step = np.ceil(np.abs(np.clip(apart, -limit, limit)) / limit * _SIDE * (1 - 1e-12)).astype(int)
    places = np.where(apart > 0, _SIDE + step - 1, _SIDE - step)
    return edges, np.bincount(places, minlength=2 * _SIDE), is_cut


def _difference_text(one: _Paired) -> str:
    total = len(one.differences)
    left, ties, right = (f"{count:,} ({percent(count, total)})" for count in one.counts)
    mean, low, high = mean_interval(one.differences)
    interval = "" if math.isnan(low) else f", 95 % interval {number(low, '+')} to {number(high, '+')}"
    return (
        f"{one.value.name} of {total:,} users, {named(one.a)} less {named(one.b)}: {named(one.right)} is {one.word} for {right}, "
        f"{named(one.left)} for {left}, and {ties} are equal; mean difference {number(mean, '+')}{interval}."
    )


# -------------------------------------------------------------------------------------------------------------------- gains


@dataclass(frozen=True)
class _Group:
    section: str
    label: str
    members: Any  # whether each of all users is in it


def gains(subject: Subject, canvas: Canvas, pair: Sequence[str] | None = None, metric: str | None = None) -> Figure:
    """Who gains and who loses: the mean difference of two models in groups of users, with 95 % intervals."""
    if len(subject.models) > 1 and all(result.user_labels is None for result in subject.results.values()):
        raise MissingInput("gains needs groups of users: evaluate with per_user=True and train=, user_groups= or slices=.")
    found, aligned, *choices = _pairs("gains", subject, canvas, pair, metric)
    groups, left_out = _groups(subject, aligned)
    if not groups:
        raise MissingInput("gains needs groups of users: evaluate with per_user=True and train=, user_groups= or slices=.")
    labels: list[dict[str, Any]] = []
    rows = []
    for group in groups:
        if not labels or labels[-1]["section"] != group.section:
            labels.append(
                {"row": len(labels), "label": group.section, "section": group.section, "head": True, "hover": group.section}
            )
        rows.append(len(labels))
        labels.append(
            {
                "row": len(labels),
                "label": named(group.label),
                "section": group.section,
                "head": False,
                "hover": f"{group.section}: {named(group.label)}",
            }
        )
    data, captions, table, told = [], [], [], []
    for one in found:
        key = {"pair": one.pair, "metric": one.value.name}
        means = []
        for row, group in zip(rows, groups):
            inside = one.differences[group.members[one.rows]]
            if len(inside):
                means.append((row, *mean_interval(inside), len(inside)))
                table.append(
                    key
                    | {
                        "by": group.section,
                        "group": group.label,
                        "mean difference": means[-1][1],
                        "95 % from": means[-1][2],
                        "95 % to": means[-1][3],
                        "users": len(inside),
                    }
                )
                if one is found[0]:
                    told.append((group, means[-1][1], len(inside)))
        columns = zip(*means) if means else [[]] * 5
        data.append(key | {name: [*column] for name, column in zip(("row", "mean", "low", "high", "users"), columns)})
        captions.append(
            key
            | {
                "axis": f"{one.value.name}: {named(one.a)} less {named(one.b)}",
                "right": f"{named(one.right)} {one.word} →",
                "left": f"← {named(one.left)} {one.word}",
            }
        )
    base = (
        source(data, *choices)
        .transform_flatten(["row", "mean", "low", "high", "users"])
        .transform_lookup("row", from_=alt.LookupData(alt.InlineData(values=labels), key="row", fields=["section", "hover"]))
        .transform_calculate(said="format(datum.users, ',') + (datum.users == 1 ? ' user' : ' users')")
    )
    scale = alt.Scale(range=room_right(70, LABELS + 12), padding=8)
    y = alt.Y("row:O", axis=None, scale=alt.Scale(domain=[*range(len(labels))]))
    x = alt.X("mean:Q", scale=scale, axis=alt.Axis(title=None))
    told_on_hover = hover(
        ("hover:N", "group"),
        ("pair:N", "models"),
        ("metric:N", "metric"),
        ("mean:Q", "mean difference"),
        ("low:Q", "95 % from"),
        ("high:Q", "95 % to"),
        ("users:Q", "users"),
    )
    above = source(captions, *choices)
    start, end = alt.value(LABELS + 12), alt.value(alt.ExprRef("width - 70"))
    layers = [
        source([{"at": 0}]).mark_rule(color=MUTED).encode(x=alt.X("at:Q", scale=scale, axis=alt.Axis(title=None))),
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=2.5, color=INK, strokeCap="round")
        .encode(x=alt.X("low:Q", scale=scale, axis=alt.Axis(title=None)), x2="high:Q", y=y, tooltip=told_on_hover),
        base.mark_point(filled=True, size=60, color=INK, opacity=1).encode(x=x, y=y, tooltip=told_on_hover),
        base.mark_text(align="right", color=MUTED).encode(x=alt.value(alt.ExprRef("width")), y=y, text="said:N"),
        *row_labels(source(labels)),
        above.mark_text(align="left", baseline="bottom", limit=LABELS).encode(x=start, y=alt.value(-6), text="left:N"),
        above.mark_text(align="right", baseline="bottom", limit=LABELS).encode(x=end, y=alt.value(-6), text="right:N"),
        below_text(above),
    ]
    first = found[0]
    best, worst = max(told, key=lambda one: one[1]), min(told, key=lambda one: one[1])
    text = (
        f"Mean difference in {first.value.name}, {named(first.a)} less {named(first.b)}, by group of users. "
        f"Highest for {best[0].section} {named(best[0].label)} ({number(best[1], '+')}, {_users(best[2])}), "
        f"lowest for {worst[0].section} {named(worst[0].label)} ({number(worst[1], '+')}, {_users(worst[2])})."
        + "".join(f" Of {section}, {many - _GROUPS} smaller groups are left out." for section, many in left_out.items())
    )
    chart = finish(layers, canvas, *choices, height=alt.Step(_ROW), text=text)
    title = (
        "Who gains and who loses"
        if any(choice.is_free for choice in choices)
        else f"{first.value.name} by group of users: {first.pair}"
    )
    return Figure("gains", title, text, chart, pl.DataFrame(table))


def _users(count: int) -> str:
    return "1 user" if count == 1 else f"{count:,} users"


def _groups(subject: Subject, aligned: Aligned) -> tuple[list[_Group], dict[str, int]]:
    """The groups of users by activity, user group and slice; and, where there are too many of a kind, how many there are."""
    labels = next(result.user_labels for result in subject.results.values() if result.user_labels is not None)
    users = pl.DataFrame({"user": aligned.users})
    known = users.join(
        labels.unique("user").with_columns(pl.col("user").cast(aligned.users.dtype)), on="user", how="left", maintain_order="left"
    )
    found: list[_Group] = []
    left_out = {}
    for column in known.columns[1:]:
        if column == "activity":
            found += _by_activity(known[column])
            continue
        section = {"user_groups": "user group"}.get(column, column)
        if column.startswith("slices[") and column.endswith("]"):
            section = column[len("slices[") : -1]
        texts = known[column].cast(pl.String)
        sizes = texts.drop_nulls().value_counts(sort=True)
        if len(sizes) > _GROUPS:
            left_out[section] = len(sizes)
        kept = set(sizes[column][:_GROUPS].to_list())
        ordered = [label for label in texts.drop_nulls().unique().sort().to_list() if label in kept]
        found += [_Group(section, label, (texts == label).fill_null(False).to_numpy()) for label in ordered]
    return found, left_out


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
            found.append(_Group("train interactions", f"{low:,}" if low == high else f"{low:,} to {high:,}", inside))
    return found
