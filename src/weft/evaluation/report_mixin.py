"""Methods of results and comparisons that delegate to the report.

This is the only module that imports from a package above its own, when a method is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from altair import TopLevelMixin

    from weft.statistics import Comparison
    from weft.statistics.experiment import DatasetRanking


class ReportMixin:
    """`to_html` and `plot` for `Result` and `Comparison`."""

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """Return the report as one self-contained HTML page.

        It is also written to `path` if given. `title` replaces the title of the page. Needs the
        extra `weft[report]`.
        """
        from weft.report.context import ReportContext
        from weft.report.html import render, write

        text = render(ReportContext.from_result(self), title=title)
        if path is not None:
            write(text, path)
        return text

    def plot(self, kind: str | None = None, **options: Any) -> TopLevelMixin:
        """Return a chart of the report as an Altair chart.

        Needs the extra `weft[report]`. `chart.save("chart.svg")` writes the chart as SVG, PNG or
        PDF, depending on the name of the file.

        Parameters
        ----------
        kind
            Kind of the chart. Default: the first of cutoffs, slices (for one model), values,
            tradeoff and further kinds for which data exist and that has all of the options.
        options
            Options of the kind; `docs/guide/report.md` lists the kinds and their options.
        """
        from weft.report.charts import figure
        from weft.report.context import ReportContext

        return figure(ReportContext.from_result(self), kind, **options).chart


class ComparisonTextMixin:
    """The text of `print(comparison)`."""

    def __repr__(self: Comparison) -> str:  # type: ignore[misc]
        from weft.report.terminal import comparison_text

        return comparison_text(self)


class RankPlotMixin:
    """`plot` for rankings of models over data sets."""

    def plot(self: DatasetRanking, *, width: int = 640) -> TopLevelMixin:  # type: ignore[misc]
        """Return the critical-difference diagram as an Altair chart.

        Models are on an axis of average ranks, with the best model at the left. A bar joins models
        that do not differ significantly. `width` is in pixels. Needs the extra `weft[report]`.
        `chart.save("ranks.svg")` writes the chart as SVG, PNG or PDF, depending on the name of the
        file.
        """
        from weft.report.charts.ranks_chart import draw_ranks

        return draw_ranks(self, width=width)
