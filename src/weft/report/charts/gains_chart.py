"""The mean difference of two models in groups of users: who gains and who loses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from weft.errors import MissingInput, agree
from weft.evaluation.result import Result
from weft.report.charts import marks
from weft.report.charts.canvas import Canvas, Figure, Layer, SelectBox, Texts
from weft.report.charts.phrases import describe_omitted, short_number
from weft.report.charts.theme import INK, MUTED, display_name
from weft.report.charts.user_differences import (
    UserDifferences,
    difference_selects,
    mean_interval,
    select_differences,
)
from weft.report.context import ReportContext
from weft.statistics.pairing import AlignedUsers

_ROW_PIXELS = 22
_USERS_PIXELS = 76  # room for the number of users
_MAX_GROUPS = 36  # of all kinds of groups; of each kind those with most users
_SLICE_PREFIX = "slices["
_NO_GROUPS = (
    "the chart 'gains' needs user groups; evaluate with per_user=True and train=, user_groups= or "
    "slices=."
)


@dataclass(frozen=True)
class _UserGroup:
    section: str
    label: str
    members: Any  # mask of all aligned users


@dataclass(frozen=True)
class _GroupMean:
    """The mean difference in a group, with its 95% interval."""

    group: _UserGroup
    row: int
    mean: float
    low: float
    high: float
    users: int


def gains(
    context: ReportContext,
    canvas: Canvas,
    pair: Sequence[str] | None = None,
    metric: str | None = None,
) -> Figure:
    """Draw the mean difference of two models in groups of users, with 95% intervals."""
    found, aligned = select_differences("gains", context, canvas, pair, metric)
    groups, omitted = _select_groups(context, aligned)
    labels, rows = marks.section_labels((group.section, group.label) for group in groups)
    means = [_group_means(one, groups, rows) for one in found]
    if not means[0]:
        raise MissingInput(_NO_GROUPS)
    selects = difference_selects(found)
    data = [_to_row(one, of_groups) for one, of_groups in zip(found, means)]
    layers = _build_layers(canvas, selects, data, labels)
    layers += _side_captions(canvas, canvas.chart(data, *selects), found[0].labels)
    texts: Texts = {
        (one.option, one.value.name): _describe(one, of_groups) + describe_omitted(omitted)
        for one, of_groups in zip(found, means)
        if of_groups
    }
    title = f"Mean {found[0].value.name} differences by user group: {found[0].pair}"
    table = [
        one.names | _to_table_row(mean)
        for one, of_groups in zip(found, means)
        for mean in of_groups
    ]
    if any(select.is_shown for select in selects):
        title = "Mean differences by user group"
    height = _ROW_PIXELS * len(labels)
    return canvas.figure(title, layers, selects, texts, table, height=height)


def _select_groups(
    context: ReportContext, aligned: AlignedUsers
) -> tuple[list[_UserGroup], dict[str, int]]:
    """Return the groups of users by activity, user group and slice, and how many are omitted."""
    results = context.results.values()
    result = next((result for result in results if result.user_labels is not None), None)
    if result is None or result.user_labels is None:
        raise MissingInput(_NO_GROUPS)
    users = pl.DataFrame({"user": aligned.users})
    labels = result.user_labels.unique("user")
    labels = labels.with_columns(pl.col("user").cast(aligned.users.dtype))
    known = users.join(labels, on="user", how="left", maintain_order="left")
    columns = _distinct_columns(known)
    max_groups = max(4, _MAX_GROUPS // max(1, len(columns)))
    groups: list[_UserGroup] = []
    omitted = {}
    for column in columns:
        if column == "activity":
            groups += _activity_groups(known[column])
            continue
        section, order = _section_of(column, result)
        of_column = _largest_groups(known[column].cast(pl.String), section, order, max_groups)
        groups += of_column
        num_omitted = known[column].drop_nulls().n_unique() - len(of_column)
        if num_omitted:
            omitted[section] = num_omitted
    if not groups:
        raise MissingInput(_NO_GROUPS)
    return groups, omitted


def _distinct_columns(known: pl.DataFrame) -> list[str]:
    """Return the columns to group by, without those that repeat a slice."""
    columns = known.columns[1:]
    slices = [column for column in columns if column.startswith(_SLICE_PREFIX)]
    repeated = {"activity"} if "slices[activity]" in slices else set()
    if "user_groups" in columns:
        groups = known["user_groups"]
        repeated |= {"user_groups"} if any(known[one].equals(groups) for one in slices) else set()
    return [column for column in columns if column not in repeated]


def _section_of(column: str, result: Result) -> tuple[str, list[str]]:
    """Return the heading of a column of labels, and the order of its groups if it is a slice."""
    if not (column.startswith(_SLICE_PREFIX) and column.endswith("]")):
        return {"user_groups": "user group"}.get(column, column), []
    section = column[len(_SLICE_PREFIX) : -1]
    if result.slices is None:
        return section, []
    # Slices have an order of their own, such as "up to 5", "6 to 9".
    groups = result.slices.filter(pl.col("slice") == section)["group"]
    return section, groups.unique(maintain_order=True).to_list()


def _largest_groups(
    labels: pl.Series, section: str, order: list[str], max_groups: int
) -> list[_UserGroup]:
    """Return the groups with most users, in the given order."""
    sizes = labels.drop_nulls().value_counts(sort=True)
    places = {label: place for place, label in enumerate(order)}
    largest = sorted(
        sizes[labels.name][:max_groups], key=lambda label: (places.get(label, len(places)), label)
    )
    return [
        _UserGroup(section, label, (labels == label).fill_null(False).to_numpy())
        for label in largest
    ]


def _activity_groups(activity: pl.Series) -> list[_UserGroup]:
    """Return quarters of the users by train interactions; equal numbers share a group."""
    numbers = activity.cast(pl.Float64).to_numpy()
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        return []
    cuts = np.unique(np.quantile(known, [0.25, 0.5, 0.75], method="inverted_cdf"))
    quarters = np.searchsorted(cuts, numbers, side="left")
    groups = []
    for quarter in range(len(cuts) + 1):
        members = (quarters == quarter) & np.isfinite(numbers)
        if members.any():
            low, high = int(numbers[members].min()), int(numbers[members].max())
            label = f"{low:,}" if low == high else f"{low:,} to {high:,}"
            groups.append(_UserGroup("train interactions", label, members))
    return groups


def _group_means(
    one: UserDifferences, groups: list[_UserGroup], rows: list[int]
) -> list[_GroupMean]:
    """Return the mean differences in the groups that have users of both models."""
    means = []
    for group, row in zip(groups, rows):
        differences = one.differences[group.members[one.rows]]
        if len(differences):
            means.append(_GroupMean(group, row, *mean_interval(differences), len(differences)))
    return means


def _to_row(one: UserDifferences, means: list[_GroupMean]) -> dict[str, Any]:
    sides = {"left": one.left, "right": one.right, "word": one.adjective}
    columns = ("row", "mean", "low", "high", "users")
    lists = {column: [getattr(mean, column) for mean in means] for column in columns}
    return one.key | {"models": one.pair, "axis": one.axis} | sides | lists


def _to_table_row(mean: _GroupMean) -> dict[str, Any]:
    return {
        "by": mean.group.section,
        "group": mean.group.label,
        "mean difference": mean.mean,
        "95% from": mean.low,
        "95% to": mean.high,
        "users": mean.users,
    }


_FORMAT_USERS = "format(datum.users, ',') + (datum.users === 1 ? ' user' : ' users')"


def _build_layers(
    canvas: Canvas,
    selects: Sequence[SelectBox],
    rows: list[dict[str, Any]],
    labels: list[dict[str, Any]],
) -> list[Layer]:
    """Return zero, intervals, means, numbers of users, labels, and the title of the axis."""
    above = canvas.chart(rows, *selects)
    base = (
        above.transform_flatten(["row", "mean", "low", "high", "users"])
        .transform_lookup("row", from_=canvas.lookup(labels, "row", "hover"))
        .transform_calculate(users_text=_FORMAT_USERS)
    )
    width = marks.label_width(labels)
    scale = alt.Scale(range=marks.range_with_margins(f"{_USERS_PIXELS}", f"{width}"), padding=8)
    y = alt.Y("row:O", axis=None, scale=alt.Scale(domain=[*range(len(labels))]))
    right_edge = alt.value(alt.ExprRef("width"))
    tooltip = marks.tooltips(
        ("hover:N", "group"),
        *("models:N", "metric:N", ("mean:Q", "mean difference")),
        *marks.INTERVAL_FIELDS,
        "users:Q",
    )

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=scale, axis=alt.Axis(title=None))

    intervals = marks.add_interval_ends(base, "low", "high", "mean").mark_rule(
        strokeWidth=2.5, color=INK, strokeCap="round"
    )
    return [
        canvas.chart([{"at": 0}]).mark_rule(color=MUTED).encode(x=x("at")),
        intervals.encode(x=x("from"), x2="to:Q", y=y, tooltip=tooltip),
        base.mark_point(filled=True, size=60, color=INK, opacity=1).encode(
            x=x("mean"), y=y, tooltip=tooltip
        ),
        base.mark_text(align="right", color=MUTED).encode(x=right_edge, y=y, text="users_text:N"),
        *marks.row_labels(canvas.chart(labels)),
        marks.axis_caption(above, "axis"),
    ]


def _side_captions(canvas: Canvas, rows: Layer, labels: marks.NameLabels) -> list[Layer]:
    """Return the names of the models that differences to the left and to the right favour."""
    style: dict[str, Any] = {"baseline": "bottom", "dy": -6}
    label, y = marks.LABEL_TEXT, alt.value(0)
    left = labels.look_up(canvas, rows, "left").mark_text(
        align="left", text=alt.ExprRef(f"'← ' + {label} + ' ' + datum.word"), **style
    )
    right = labels.look_up(canvas, rows, "right").mark_text(
        align="right", text=alt.ExprRef(f"{label} + ' ' + datum.word + ' →'"), **style
    )
    return [
        left.encode(x=alt.value(0), y=y, tooltip=marks.tooltips(("left:N", "model"))),
        right.encode(
            x=alt.value(alt.ExprRef("width")), y=y, tooltip=marks.tooltips(("right:N", "model"))
        ),
    ]


def _describe(one: UserDifferences, means: list[_GroupMean]) -> str:
    texts = []
    for mean in means:
        name = f"{mean.group.section}: {display_name(mean.group.label)}"
        number = short_number(mean.mean, "+")
        texts.append((mean.mean, f"{number} ({name}, {agree(mean.users, '{n} user{s}')})"))
    return (
        f"Mean difference in {one.value.name} ({one.subtraction}) of each user group, with 95% "
        f"intervals as lines. Highest: {max(texts)[1]}; lowest: {min(texts)[1]}."
    )
