"""What charts have in common: their size, the choices a reader makes, data as they go into a chart,
labels that do not overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import altair as alt

from weft.errors import SettingError, check_choice
from weft.evaluation.metric_value import MetricValue
from weft.metrics.registry import canonical_name
from weft.report.charts.theme import MUTED, config
from weft.report.context import ReportContext

if TYPE_CHECKING:
    import polars as pl

LABELS = 108  # pixels for the labels beside a chart
LINE = 14  # pixels between the baselines of two labels
NUMBER = ",.6~r"  # as charts show numbers on hover: all figures that the data have
_FIGURES = 5
Texts = dict[tuple[str, ...], str]  # what is to be seen, by an option of every choice
Drawn = Any  # a part of a chart; Altair's types for them do not survive its methods


@dataclass(frozen=True, eq=False)
class Figure:
    """A chart: `title` says what it shows, `text` what is to be seen in it, for those who do not
    see it; `table` has its data.

    `texts` has such a text for everything that the reader can choose, by what was chosen in each
    select."""

    kind: str
    title: str
    text: str
    chart: alt.TopLevelMixin
    table: pl.DataFrame
    texts: Mapping[tuple[str, ...], str] = field(default_factory=dict)


@dataclass(frozen=True)
class Canvas:
    """Where a chart is drawn: in a page, as wide as there is room and with choices for the reader,
    or alone, of a fixed size.
    """

    width: int | Literal["container"] = "container"
    height: int | None = None
    # The data of the chart by name: Altair copies a chart with every method, and data that are part
    # of it too.
    datasets: dict[str, list[dict[str, Any]]] = field(default_factory=dict, repr=False)

    @property
    def has_choices(self) -> bool:
        """Whether the reader may choose, by a select, what is shown."""
        return self.width == "container"

    def data(self, rows: Iterable[Mapping[str, Any]]) -> alt.NamedData:
        """Rows as data of the chart; numbers are rounded, what is undefined is null."""
        plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
        known = (name for name, data in self.datasets.items() if data == plain)
        name = next(
            known, f"rows_{len(self.datasets)}"
        )  # Vega-Lite has names such as data_0 of its own
        self.datasets[name] = plain
        return alt.NamedData(name)

    def source(self, rows: Iterable[Mapping[str, Any]], *choices: Choice) -> Drawn:
        """A chart without marks of these rows, of those that the reader chose."""
        chart = alt.Chart(self.data(rows))
        for choice in choices:
            if choice.is_free:
                chart = chart.transform_filter(choice.condition)
        return chart


@dataclass(frozen=True)
class Choice:
    """What a reader chooses: `field` of the data is one of the `options`, first the first."""

    field: str
    label: str
    options: Sequence[str]

    @property
    def parameter(self) -> alt.Parameter:
        """The select."""
        select = alt.binding_select(options=[*self.options], name=f"{self.label} ")
        return alt.param(name=self._name, value=self.options[0], bind=select)

    @property
    def _name(self) -> str:
        return f"{self.field}_choice"

    @property
    def is_free(self) -> bool:
        """Whether there is more than one option."""
        return len(self.options) > 1

    @property
    def condition(self) -> str:
        """Which rows were chosen, as an expression."""
        return f"datum.{self.field} === {self._name}"

    @property
    def shown(self) -> alt.ExprRef | str:
        """What was chosen, as a text in the chart."""
        return alt.ExprRef(self._name) if self.is_free else self.options[0]


def by_choice(texts: Texts, *choices: Choice) -> Texts:
    """Texts by what the reader can choose, from those by an option of every choice."""
    return {
        tuple(option for option, choice in zip(key, choices) if choice.is_free): text
        for key, text in texts.items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return (
            float(f"{value:.{_FIGURES}g}") if abs(value) < 10**_FIGURES else round(value)
        )  # counts stay whole
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


def finish(
    layers: Sequence[Drawn],
    canvas: Canvas,
    *choices: Choice,
    height: Any,
    text: str,
    title: Any = None,
) -> Drawn:
    """Layers as one chart of its size. `title` stands above it on the left, where it names the
    upright axis.
    """
    chart: Drawn = alt.layer(*layers)
    free = [choice.parameter for choice in choices if choice.is_free]
    chart = chart.add_params(*free) if free else chart
    more = {} if title is None else {"title": alt.TitleParams(text=title)}
    chart = chart.properties(
        width=canvas.width,
        height=canvas.height or height,
        description=text,
        config=alt.Config.from_dict(config()),
        **more,
    )
    chart.datasets = canvas.datasets
    return chart


def below(rows: Drawn, field: str) -> Drawn:
    """A title of the horizontal axis that changes with a choice, which Vega-Lite's own cannot: a
    field of the one row chosen.
    """
    mark = rows.mark_text(
        align="right", baseline="top", fontSize=12, limit=alt.ExprRef("min(360, width - 84)")
    )
    return mark.encode(
        x=alt.value(alt.ExprRef("width")),
        y=alt.value(alt.ExprRef("height + 26")),
        text=f"{field}:N",
    )


def ends(rows: Drawn, low: str, high: str, value: str) -> Drawn:
    """Rows with `from` and `to`, the ends of an interval; both at the value where there is none, so
    that nothing is seen of it.
    """
    valid = f"isValid(datum.{low})"
    at = {
        "from": f"{valid} ? datum.{low} : datum.{value}",
        "to": f"{valid} ? datum.{high} : datum.{value}",
    }
    return rows.transform_calculate(**at)


def room_right(pixels: int = LABELS, left: int = 0) -> list[Any]:
    """The range of a horizontal scale that leaves room for labels."""
    return [left, alt.ExprRef(f"width - {pixels}") if pixels else alt.ExprRef("width")]


def end_labels(
    labels: Drawn, x: alt.X, y: alt.Y, colour: alt.Color, limit: int = LABELS - 10
) -> Drawn:
    """Names at the ends of lines."""
    mark = labels.mark_text(align="left", baseline="middle", dx=9, limit=limit)
    return mark.encode(
        x=x,
        y=y,
        text=alt.Text("model:N"),
        color=colour,
        tooltip=[alt.Tooltip("model:N", title="model")],
    )


def room_left(labels: Iterable[str]) -> int:
    """Pixels for the names of rows, left of them."""
    return min(LABELS, max((7 * len(label) for label in labels), default=0) + 14)


def row_labels(labels: Drawn, room: int) -> list[Drawn]:
    """The names of rows, left of them, and of the sections that they form, in bold."""

    def marked(condition: str, **looks: Any) -> Drawn:
        mark = labels.transform_filter(condition).mark_text(
            align="left", baseline="middle", **looks
        )
        told = [alt.Tooltip("hover:N", title="group")]
        return mark.encode(
            x=alt.value(0), y=alt.Y("row:O", axis=None), text=alt.Text("label:N"), tooltip=told
        )

    bold = marked("datum.head", fontWeight="bold", limit=alt.ExprRef("width"))
    return [bold, marked("!datum.head", color=MUTED, limit=room - 8)]


# --------------------------------------------------------------------------------------------------


def number(value: float, sign: str = "") -> str:
    """A number in a sentence: four figures, at most three of them behind the point."""
    if not math.isfinite(value):
        return "undefined"
    if 0 < abs(value) < 0.001:
        return f"{value:{sign}.2g}"
    before = len(f"{abs(value):.0f}")
    return f"{value:{sign},.{max(0, 4 - before)}f}"


def percent(part: float, whole: float) -> str:
    """A share: "41 %"; "0.4 %" below one."""
    share = 100 * part / whole if whole else 0.0
    if 0 < share < 1 or 99 < share < 100:
        return f"{share:.1f} %"
    return f"{math.floor(share + 0.5)} %"  # a half goes up, as where Vega rounds


def form(values: Iterable[float], figures: int = 3) -> str:
    """The format of numbers that stand below each other: as many digits behind the point for all."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    before = len(f"{largest:.0f}")
    return f",.{max(0, figures + 1 - before)}f"


def direction(value: MetricValue) -> str:
    """The name of a metric at its cut-off, and which way is better: `Gini@10 (lower is better)`."""
    return value.plain_name + better(value)


def better(value: MetricValue) -> str:
    """Which way is better, in brackets; nothing for a metric without a direction."""
    if value.higher_is_better is None:
        return "" if value.target is None else f" ({value.target:g} is neutral)"
    return f" ({'higher' if value.higher_is_better else 'lower'} is better)"


def find(parameter: str, wanted: str, offered: Sequence[str]) -> str:
    """The offered metric that is meant, in any spelling."""
    with suppress(SettingError):  # a metric that is not registered here is taken by its name
        if isinstance(wanted, str) and canonical_name(wanted) in offered:
            return canonical_name(wanted)
    return check_choice(parameter, wanted, tuple(offered))


# --------------------------------------------------------------------------------------------------


def spread(places: Sequence[float], low: float, high: float, pixels: float) -> list[float]:
    """Places for labels beside these ones, near them and a line apart, on an axis from `low` to
    `high` of so many pixels.

    >>> [round(place, 2) for place in spread([0.5, 0.5, 0.9], 0.0, 1.0, 140)]
    [0.44, 0.56, 0.9]
    """
    found = [*places]
    for _ in range(2):  # labels may reach beyond the axis, which then grows
        extent = max([high, *found]) - min([low, *found])
        gap = (
            (extent or 1.0) * 1.12 * LINE / pixels
        )  # axes end on round numbers, somewhat further out
        found = _apart(places, gap)
    return found


def _apart(places: Sequence[float], gap: float) -> list[float]:
    """The nearest places that are `gap` apart, in the same order: runs of labels that touch move as
    one.
    """
    order = sorted(range(len(places)), key=lambda at: places[at])
    runs: list[
        tuple[float, int]
    ] = []  # where the labels of a run would start, on average; and how many they are
    for rank, at in enumerate(order):
        start, many = places[at] - rank * gap, 1
        while runs and runs[-1][0] >= start:
            before, more = runs.pop()
            start, many = (before * more + start * many) / (more + many), more + many
        runs.append((start, many))
    starts = [start for start, many in runs for _ in range(many)]
    found = [0.0] * len(places)
    for rank, at in enumerate(order):
        found[at] = starts[rank] + rank * gap
    return found


# --------------------------------------------------------------------------------------------------

Values = dict[str, MetricValue]  # by model


def values_by_name(context: ReportContext) -> dict[str, Values]:
    """The defined values of every metric at its cut-off, by model; without those that are by label,
    such as of clusters.
    """
    found: dict[str, Values] = {}
    for line in context.metric_rows:
        of = {
            model: value
            for model, value in zip(context.models, line.values)
            if value is not None and math.isfinite(value.value)
        }
        if of and not next(iter(of.values())).cell:
            found[line.name] = of
    return found


def in_chart(canvas: Canvas, default: str, asked: str | None, offered: Sequence[str]) -> list[str]:
    """What is in the chart: all that is offered, the default first, or only that one."""
    if asked is not None or not canvas.has_choices:
        return [default]
    return [default, *(name for name in offered if name != default)]


def value_table(rows: Iterable[tuple[str, int | None, str, MetricValue]]) -> pl.DataFrame:
    """Values as people read them: metric, cut-off (if there are any), model, value, interval,
    users.
    """
    import polars as pl

    kinds = {"metric": pl.String, "cut-off": pl.Int64, "model": pl.String, "value": pl.Float64}
    kinds |= {"95 % from": pl.Float64, "95 % to": pl.Float64, "users": pl.Int64}
    found = [
        (name, k, model, one.value, one.interval.low, one.interval.high, one.users)
        for name, k, model, one in rows
    ]
    table = pl.DataFrame(found, schema=kinds, orient="row")
    return table.drop("cut-off") if table["cut-off"].is_null().all() else table


def hover(*fields: tuple[str, str]) -> list[alt.Tooltip]:
    """What a chart tells on hover: fields with their titles."""
    return [
        alt.Tooltip(field, title=title, format=NUMBER if field.endswith(":Q") else alt.Undefined)
        for field, title in fields
    ]


def models_in_words(context: ReportContext) -> str:
    """How many models there are."""
    return "1 model" if len(context.models) == 1 else f"{len(context.models)} models"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, the first ones if they are many."""
    return (
        ", ".join(names) if len(names) < 7 else f"{', '.join(names[:5])} and {len(names) - 5} more"
    )
