"""Figures, and the canvas on which a chart is composed from layers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import altair as alt
import polars as pl

from weft.report.charts.theme import vega_config

_DIGITS = 5  # significant digits of numbers in the data of a chart
Texts = dict[tuple[str, ...], str]  # descriptions by the selected option of every select box
Layer = Any  # an Altair chart or layer; its types do not survive Altair's methods


@dataclass(frozen=True, eq=False)
class Figure:
    """A chart with a title, a description in a sentence, and its data as a table.

    `texts` has a description for every combination of options of the select boxes; `text` is the
    one of the initial options.
    """

    kind: str
    title: str
    text: str
    chart: alt.TopLevelMixin
    table: pl.DataFrame
    texts: Mapping[tuple[str, ...], str] = field(default_factory=dict)


@dataclass(frozen=True)
class SelectBox:
    """A select box with which a reader filters rows by `field`; the first option is selected."""

    field: str
    label: str
    options: Sequence[str]

    @property
    def parameter(self) -> alt.Parameter:
        """The Vega-Lite parameter that is bound to the select box."""
        binding = alt.binding_select(options=[*self.options], name=f"{self.label} ")
        return alt.param(name=self._name, value=self.options[0], bind=binding)

    @property
    def _name(self) -> str:
        return f"{self.field}_choice"

    @property
    def is_shown(self) -> bool:
        """True if there is more than one option."""
        return len(self.options) > 1

    @property
    def condition(self) -> str:
        """A Vega expression that is true for rows of the selected option."""
        return f"datum.{self.field} === {self._name}"

    @property
    def selected(self) -> alt.ExprRef | str:
        """The selected option, as a text in the chart."""
        return alt.ExprRef(self._name) if self.is_shown else self.options[0]


@dataclass(frozen=True)
class Canvas:
    """The kind of a chart, its size and its data.

    In a page (`width="container"`) a chart has select boxes; a standalone chart has a fixed width
    in pixels and none.
    """

    kind: str
    width: int | Literal["container"] = "container"
    height: int | None = None
    # Data are kept by name outside of the chart, because every Altair method copies the chart.
    datasets: dict[str, list[dict[str, Any]]] = field(default_factory=dict, repr=False)

    @property
    def has_selects(self) -> bool:
        """True if the reader may select what is shown."""
        return self.width == "container"

    def add_data(self, rows: Iterable[Mapping[str, Any]]) -> alt.NamedData:
        """Add rows to the data of the chart. Numbers are rounded; undefined ones become null."""
        plain = [{name: _to_json_value(value) for name, value in row.items()} for row in rows]
        known = (name for name, data in self.datasets.items() if data == plain)
        # Vega-Lite itself uses names such as data_0.
        name = next(known, f"rows_{len(self.datasets)}")
        self.datasets[name] = plain
        return alt.NamedData(name)

    def lookup(self, rows: Iterable[Mapping[str, Any]], key: str, *fields: str) -> alt.LookupData:
        """Add rows to the data, for a lookup of fields by a key."""
        return alt.LookupData(self.add_data(rows), key=key, fields=[*fields])

    def chart(self, rows: Iterable[Mapping[str, Any]], *selects: SelectBox) -> Layer:
        """Return a chart without marks of the rows that are selected."""
        chart = alt.Chart(self.add_data(rows))
        for select in selects:
            if select.is_shown:
                chart = chart.transform_filter(select.condition)
        return chart

    def figure(
        self,
        title: str,
        layers: Sequence[Layer],
        selects: Sequence[SelectBox],
        texts: Texts,
        table: pl.DataFrame | list[dict[str, Any]],
        *,
        height: int,
        axis: Any = None,
        **resolved_scales: Any,
    ) -> Figure:
        """Return the layers as a figure; `axis` above its left edge names the vertical axis.

        `texts` are by an option of each select box, the initial options first.
        """
        chart: Layer = alt.layer(*layers)
        parameters = [select.parameter for select in selects if select.is_shown]
        chart = chart.add_params(*parameters) if parameters else chart
        text = next(iter(texts.values()))
        chart = chart.properties(
            width=self.width,
            height=self.height or height,
            description=text,
            config=alt.Config.from_dict(vega_config()),
            **({} if axis is None else {"title": alt.TitleParams(text=axis)}),
        )
        chart.datasets = self.datasets
        chart = chart.resolve_scale(**resolved_scales) if resolved_scales else chart
        shown = {
            tuple(option for option, select in zip(options, selects) if select.is_shown): text
            for options, text in texts.items()
        }
        return Figure(self.kind, title, text, chart, pl.DataFrame(table), shown)


def _to_json_value(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        is_small = abs(value) < 10**_DIGITS
        return float(f"{value:.{_DIGITS}g}") if is_small else round(value)  # counts stay exact
    if isinstance(value, (list, tuple)):
        return [_to_json_value(entry) for entry in value]
    return value
