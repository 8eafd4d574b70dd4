"""The charts of a report."""

from __future__ import annotations

from weft.report.charts.figure import Figure, figure, figures

__all__ = ["Figure", "figure", "figures"]
