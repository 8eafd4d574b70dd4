"""A chart with all that belongs to it, and which charts there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import altair as alt

from weft.errors import one_of
from weft.report.subject import Subject

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Figure:
    """A chart: `title` says what it shows, `text` what is to be seen in it, for those who do not see it; `table` has its data."""

    kind: str
    title: str
    text: str
    chart: alt.TopLevelMixin
    table: pl.DataFrame


def figures(subject: Subject) -> list[Figure]:
    """All charts that the results have data for, in the order of the report."""
    return [figure(subject, "cutoffs")]


def figure(subject: Subject, kind: str, **options: Any) -> Figure:
    """One chart."""
    kind = one_of("kind", kind, ("cutoffs",))
    import polars as pl

    rows = [
        {"model": model, "metric": value.metric, "k": value.k, "value": value.value}
        for model, result in subject.results.items()
        for value in result.values
        if value.k is not None and value.metric == subject.headlines[0].partition("@")[0]
    ]
    table = pl.DataFrame(rows)
    chart = (
        alt.Chart(table)
        .mark_line(point=True)
        .encode(x="k:Q", y="value:Q", color="model:N", tooltip=["model", "k", "value"])
        .properties(width="container", height=280)
    )
    return Figure(kind, "Metric against cut-off", "A line per model.", chart, table)
