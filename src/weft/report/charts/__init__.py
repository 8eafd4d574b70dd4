"""The charts of a report, and of `Result.plot` and `Comparison.plot`."""

from __future__ import annotations

from weft.report.requirements import require

require()  # says which extra to install, before Altair is missed

from weft.report.charts.drawing import Figure  # noqa: E402
from weft.report.charts.kinds import KINDS, figure, figures  # noqa: E402
from weft.report.charts.theme import colours  # noqa: E402

__all__ = ["KINDS", "Figure", "colours", "figure", "figures"]
