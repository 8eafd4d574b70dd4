"""What charts have in common: their size, the choices a reader makes, data as they go into a chart, labels that do not overlap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import altair as alt

from weft.errors import SettingError, one_of
from weft.registry import canonical
from weft.report.charts.theme import INK, MUTED, config
from weft.report.subject import Subject
from weft.result import MetricValue

if TYPE_CHECKING:
    import polars as pl

LABELS = 108  # pixels for the labels beside a chart
LINE = 14  # pixels between the baselines of two labels
NUMBER = ",.6~r"  # as charts show numbers on hover: all six figures that the data have
_FIGURES = 6


@dataclass(frozen=True, eq=False)
class Figure:
    """A chart: `title` says what it shows, `text` what is to be seen in it, for those who do not see it; `table` has its data."""

    kind: str
    title: str
    text: str
    chart: alt.TopLevelMixin
    table: pl.DataFrame


@dataclass(frozen=True)
class Canvas:
    """Where a chart is drawn: in a page, as wide as there is room and with choices for the reader, or alone, of a fixed size."""

    width: int | Literal["container"] = "container"
    height: int | None = None

    @property
    def has_choices(self) -> bool:
        """Whether the reader may choose, by a select, what is shown."""
        return self.width == "container"


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


def source(rows: Iterable[Mapping[str, Any]], *choices: Choice) -> alt.Chart:
    """A chart without marks of these rows, of those that the reader chose; numbers are rounded, what is undefined is null."""
    chart = alt.Chart(alt.InlineData(values=[{name: _plain(value) for name, value in row.items()} for row in rows]))
    for choice in choices:
        if choice.is_free:
            chart = chart.transform_filter(choice.condition)
    return chart


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_FIGURES}g}") if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


def finish(
    layers: Sequence[alt.Chart], canvas: Canvas, *choices: Choice, height: Any, text: str, title: Any = None
) -> alt.LayerChart:
    """Layers as one chart of its size. `title` stands above it on the left, where it names the upright axis."""
    chart = alt.layer(*layers)
    free = [choice.parameter for choice in choices if choice.is_free]
    chart = chart.add_params(*free) if free else chart
    more = {} if title is None else {"title": alt.TitleParams(text=title)}
    return chart.properties(
        width=canvas.width, height=canvas.height or height, description=text, config=alt.Config.from_dict(config()), **more
    )


def below(text: str | alt.ExprRef, at: Any = "width") -> alt.Chart:
    """A title of the horizontal axis that may change with a choice, which Vega-Lite's own cannot."""
    x = alt.ExprRef(at) if isinstance(at, str) else at
    mark = alt.Chart(alt.InlineData(values=[{}])).mark_text(
        align="right", baseline="top", fontSize=12, color=INK, text=text, tooltip=None
    )
    return mark.encode(x=alt.value(x), y=alt.value(alt.ExprRef("height + 26")))


def room_right(pixels: int = LABELS, left: int = 0) -> list[Any]:
    """The range of a horizontal scale that leaves room for labels."""
    return [left, alt.ExprRef(f"width - {pixels}") if pixels else alt.ExprRef("width")]


def end_labels(labels: alt.Chart, x: alt.X, y: alt.Y, colour: alt.Color, limit: int = LABELS - 10) -> alt.Chart:
    """Names at the ends of lines."""
    mark = labels.mark_text(align="left", baseline="middle", dx=9, limit=limit)
    return mark.encode(x=x, y=y, text=alt.Text("model:N"), color=colour, tooltip=[alt.Tooltip("model:N", title="model")])


def row_labels(labels: alt.Chart, limit: int = LABELS - 8) -> list[alt.Chart]:
    """The names of rows, left of them, and of the sections that they form, in bold."""

    def marked(condition: str, **looks: Any) -> alt.Chart:
        mark = labels.transform_filter(condition).mark_text(align="left", baseline="middle", **looks)
        return mark.encode(
            x=alt.value(0), y=alt.Y("row:O", axis=None), text=alt.Text("label:N"), tooltip=[alt.Tooltip("hover:N", title="group")]
        )

    return [marked("datum.head", fontWeight="bold", limit=2 * LABELS), marked("!datum.head", color=MUTED, limit=limit)]


# ------------------------------------------------------------------------------------------------------------------ numbers


def number(value: float, sign: str = "") -> str:
    """A number in a sentence: four figures, at most three of them behind the point."""
    if not math.isfinite(value):
        return "undefined"
    if 0 < abs(value) < 0.001:
        return f"{value:{sign}.1g}"
    before = len(f"{abs(value):.0f}")
    return f"{value:{sign},.{max(0, 4 - before)}f}"


def percent(part: float, whole: float) -> str:
    """A share: "41 %"; "0.4 %" below one."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.1f} %" if 0 < share < 1 or 99 < share < 100 else f"{share:.0f} %"


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
        if isinstance(wanted, str) and canonical(wanted) in offered:
            return canonical(wanted)
    return one_of(parameter, wanted, tuple(offered))


# ------------------------------------------------------------------------------------------------------------------- labels


def spread(places: Sequence[float], low: float, high: float, pixels: float) -> list[float]:
    """Places for labels beside these ones, near them and a line apart, on an axis from `low` to `high` of so many pixels.

    >>> [round(place, 2) for place in spread([0.5, 0.5, 0.9], 0.0, 1.0, 140)]
    [0.44, 0.56, 0.9]
    """
    found = [*places]
    for _ in range(2):  # labels may reach beyond the axis, which then grows
        extent = max([high, *found]) - min([low, *found])
        gap = (extent or 1.0) * 1.12 * LINE / pixels  # axes end on round numbers, somewhat further out
        found = _apart(places, gap)
    return found


def _apart(places: Sequence[float], gap: float) -> list[float]:
    """The nearest places that are `gap` apart, in the same order: runs of labels that touch move as one."""
    order = sorted(range(len(places)), key=lambda at: places[at])
    runs: list[tuple[float, int]] = []  # where the labels of a run would start, on average; and how many they are
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


# ------------------------------------------------------------------------------------------------------------------- values

Values = dict[str, MetricValue]  # by model


def values_by_name(subject: Subject) -> dict[str, Values]:
    """The defined values of every metric at its cut-off, by model; without those that are by label, such as of clusters."""
    found: dict[str, Values] = {}
    for line in subject.lines:
        of = {model: value for model, value in zip(subject.models, line.values) if value is not None and math.isfinite(value.value)}
        if of and not next(iter(of.values())).cell:
            found[line.name] = of
    return found


def in_chart(canvas: Canvas, default: str, asked: str | None, offered: Sequence[str]) -> list[str]:
    """What is in the chart: all that is offered, the default first, or only that one."""
    if asked is not None or not canvas.has_choices:
        return [default]
    return [default, *(name for name in offered if name != default)]


def value_table(rows: Iterable[tuple[str, int | None, str, MetricValue]]) -> pl.DataFrame:
    """Values as people read them: metric, cut-off (if there are any), model, value, interval, users."""
    import polars as pl

    kinds = {"metric": pl.String, "cut-off": pl.Int64, "model": pl.String, "value": pl.Float64}
    kinds |= {"95 % from": pl.Float64, "95 % to": pl.Float64, "users": pl.Int64}
    found = [(name, k, model, one.value, one.interval.low, one.interval.high, one.users) for name, k, model, one in rows]
    table = pl.DataFrame(found, schema=kinds, orient="row")
    return table.drop("cut-off") if table["cut-off"].is_null().all() else table


def hover(*fields: tuple[str, str]) -> list[alt.Tooltip]:
    """What a chart tells on hover: fields with their titles."""
    return [alt.Tooltip(field, title=title, **({"format": NUMBER} if field.endswith(":Q") else {})) for field, title in fields]


def models_in_words(subject: Subject) -> str:
    """How many models there are."""
    return "1 model" if len(subject.models) == 1 else f"{len(subject.models)} models"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, the first ones if they are many."""
    return ", ".join(names) if len(names) < 7 else f"{', '.join(names[:5])} and {len(names) - 5} more"
