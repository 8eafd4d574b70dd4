"""The charts of a report, and of `Result.plot` and `Comparison.plot`."""

from __future__ import annotations

from weft.report import require_report_extra

require_report_extra()  # names the missing extra before the import of Altair fails

from weft.report.charts.canvas import Figure  # noqa: E402
from weft.report.charts.kinds import KINDS, figure, figures  # noqa: E402
from weft.report.charts.theme import model_colours  # noqa: E402

__all__ = ["KINDS", "Figure", "figure", "figures", "model_colours"]
