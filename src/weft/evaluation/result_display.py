"""Results and comparisons, shown: as one HTML page, as charts. The one place where the line turns
back.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from altair import TopLevelMixin


class Shown:
    """What can be looked at."""

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """The report: one HTML page that needs nothing else. Also written to `path`, if one is
        given, whole or not at all.

        Needs the extra `weft[report]`.
        """
        from weft.report.context import Subject
        from weft.report.html import render, write

        text = render(Subject.of(self), title=title)
        if path is not None:
            write(text, path)
        return text

    def plot(self, kind: str, **options: Any) -> TopLevelMixin:
        """A chart of the report as an Altair chart: `.save("chart.svg")` writes it as SVG, PNG or
        PDF, by the name of the file.

        Needs the extra `weft[report]`; `docs/report.md` has all kinds and their options.
        """
        from weft.report.charts import figure
        from weft.report.context import Subject

        return figure(Subject.of(self), kind, **options).chart
