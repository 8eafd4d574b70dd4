"""The charts of a report, and of `Result.plot` and `Comparison.plot`."""

from __future__ import annotations

from weft.report.charts.drawing import Figure
from weft.report.charts.kinds import KINDS, figure, figures
from weft.report.charts.theme import colours

__all__ = ["KINDS", "Figure", "colours", "figure", "figures"]
