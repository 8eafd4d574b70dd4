"""The text of a `ResultTable`: titles, numbers, spreads, marks and the lines that explain them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.evaluation.metric_value import MetricValue
from weft.metrics.names import parse_name
from weft.metrics.registry import prototype
from weft.statistics.comparison_text import row_metric
from weft.statistics.metric_rows import MetricRow
from weft.statistics.text_tables import TextCell, TextTable

if TYPE_CHECKING:
    from weft.statistics.result_table import ResultTable

BETTER, WORSE = "†", "‡"  # significantly, than the baseline
_SPREAD_NOTES = {
    "interval": "95% intervals over users",
    "std_error": "standard errors over users",
    "std": "standard deviations over runs",
}


class TableLayout:
    """Builds the text table of a `ResultTable`."""

    def __init__(self, table: ResultTable) -> None:
        self._table = table

    def text_table(self) -> TextTable:
        """Return the formatted table, in no language yet."""
        titles = [self._title(row) for row in self._table.metric_rows]
        cells = [self._cells(row) for row in self._table.metric_rows]
        are_metrics_rows = self._table.rows == "metrics" or (
            self._table.rows == "auto" and len(titles) > len(self._table.models)
        )
        if are_metrics_rows:
            lines = [(TextCell(title), *line) for title, line in zip(titles, cells)]
            return TextTable(("metric", *self._table.models), lines, self._legend(cells))
        columns = list(zip(*cells)) or [()] * len(self._table.models)
        lines = [(TextCell(model), *line) for model, line in zip(self._table.models, columns)]
        return TextTable(("model", *titles), lines, self._legend(cells))

    def _title(self, row: MetricRow) -> str:
        value = row.any_value
        arrow = {True: " ↑", False: " ↓", None: ""}[value.higher_is_better]
        if value.higher_is_better is None and value.target is not None:
            arrow = f" → {value.target:g}"
        unit = " (%)" if self._scale(row) == 100 else ""
        return row.name + unit + (arrow if self._table.arrows else "")

    def _scale(self, row: MetricRow) -> int:
        """Return 100 for a metric that is shown in per cent, else 1."""
        return 100 if self._table.percent and (row.is_skill or _is_share(row.any_value)) else 1

    def _cells(self, row: MetricRow) -> list[TextCell]:
        """Return the cell of each model."""
        values = self.summarize(row)
        merits = {
            model: value.merit
            for model, value in values.items()
            if value is not None and value.merit is not None and not math.isnan(value.value)
        }
        ranked = sorted({merit for merit in merits.values() if merit is not None}, reverse=True)
        best = ranked[0] if len(ranked) > 1 else None
        second = ranked[1] if len(ranked) > 1 and len(merits) > 2 else None
        marks = self._marks(row.name)
        return [
            TextCell(
                self._number(value, self._scale(row)),
                " ".join(filter(None, (self._margin(row, model, value), change))),
                marks.get(model, ""),
                is_best=best is not None and merits.get(model) == best,
                is_second=second is not None and merits.get(model) == second,
            )
            for model, value in values.items()
            for change in [self._change(value, values)]
        ]

    def summarize(self, row: MetricRow) -> dict[str, MetricValue | None]:
        """Return the value of each model: of its result, or the mean of its runs.

        Of a comparison, it is the mean over the users that all models have, if there is one.
        """
        means = (
            {} if self._table.comparison is None else self._table.comparison.means.get(row.name, {})
        )
        summaries: dict[str, MetricValue | None] = {}
        for model, values in self._split(row).items():
            summaries[model] = None
            if values:
                mean = means.get(model, fmean(value.value for value in values))
                summaries[model] = replace(values[0], value=mean)
        return summaries

    def _split(self, row: MetricRow) -> dict[str, list[MetricValue]]:
        """Return the values of the runs of each model."""
        values = iter(row.values)
        return {
            model: [value for _, value in zip(of_model, values) if value is not None]
            for model, of_model in self._table.runs.items()
        }

    def _number(self, value: MetricValue | None, scale: int) -> str:
        if value is None:
            return "-"
        return "undefined" if math.isnan(value.value) else self._format(value.value * scale)

    def _format(self, number: float) -> str:
        digits = (
            (2 if self._table.percent else 4) if self._table.digits is None else self._table.digits
        )
        return f"{number:.{digits}f}"

    @property
    def _spread(self) -> str:
        if self._table.spread != "auto":
            return self._table.spread
        if self._table.has_runs:
            return "std"
        return "interval" if self._table.comparison is None else "none"

    def _margin(self, row: MetricRow, model: str, value: MetricValue | None) -> str:
        """Return the spread of a value as text."""
        scale, spread = self._scale(row), self._spread
        if value is None or math.isnan(value.value) or spread == "none":
            return ""
        if spread == "interval":
            low, high, kind = value.interval
            if kind not in ("none", "normal"):
                return f"[{self._format(low * scale)}, {self._format(high * scale)}]"
            half = (high - low) / 2
        elif spread == "std_error":
            half = value.std_error
        else:
            values = [one.value for one in self._split(row)[model]]
            half = stdev(values) if len(values) > 1 else math.nan
        return "" if math.isnan(half) else f"± {self._format(half * scale)}"

    def _change(self, value: MetricValue | None, values: Mapping[str, MetricValue | None]) -> str:
        """Return the relative change against the baseline as text."""
        base = (
            values[self._table.baseline]
            if self._table.improvement and self._table.baseline is not None
            else None
        )
        if value is None or base is None or value is base or not base.value:
            return ""
        change = 100 * (value.value - base.value) / abs(base.value)
        if math.isnan(change):
            return ""
        return f"({change:+.1f}%)".replace("-", "−")

    def _marks(self, metric: str) -> Mapping[str, str]:
        """Return the marks of significant differences by model."""
        if self._table.marks is not None:
            return self._table.marks.get(metric, {})
        comparison, test = self._table.comparison, self._table.tests.get(metric)
        if comparison is None or test is None:
            return {}
        if self._table.baseline is None:
            cells = comparison.grid(test)[metric]
            return {model: cell.mark for model, cell in cells.items()}
        marks = {}
        for row in comparison.rows:
            if row["test"] != test or row_metric(row) != metric:
                continue
            winner, pair = comparison.winner(row), (row["model_a"], row["model_b"])
            if winner is not None and self._table.baseline in pair:
                (other,) = (model for model in pair if model != self._table.baseline)
                marks[other] = BETTER if winner == other else WORSE
        return marks

    def _legend(self, cells: Sequence[Sequence[TextCell]]) -> list[str]:
        """Return the lines that explain the table."""
        table, flat = self._table, [cell for line in cells for cell in line]
        caption, marks = self._describe_marks()
        notes = [
            *caption,
            *(["bold: best"] if any(cell.is_best for cell in flat) else []),
            *(["underlined: second best"] if any(cell.is_second for cell in flat) else []),
            *marks,
        ]
        signs = {"±": "±", "[": "[ ]"}
        shown = [signs[one] for one in signs if any(cell.margin.startswith(one) for cell in flat)]
        if shown:
            notes.append(f"{' and '.join(shown)}: {_SPREAD_NOTES[self._spread]}")
        if table.improvement:
            notes.append(f"in brackets: change relative to {table.baseline}")
        return [*notes, *table.notes]

    def _describe_marks(self) -> tuple[list[str], list[str]]:
        """Return the test of the marks, and their meaning; both empty without a comparison."""
        table = self._table
        shown = (table.tests.get(row.name) for row in table.metric_rows)
        tests = dict.fromkeys(test for test in shown if test is not None)
        if table.comparison is None or not tests or table.marks is not None:
            return [], []
        caption = [table.comparison.caption(test) for test in tests]
        if table.baseline is None:
            return caption, table.comparison.legend()
        legend = [f"{BETTER} significantly better than {table.baseline}, {WORSE} worse"]
        return caption, legend + self._describe_untested()

    def _describe_untested(self) -> list[str]:
        """Return the metrics without a test in the comparison with the baseline, as a line."""
        names = [row.name for row in self._table.metric_rows if row.name not in self._table.tests]
        return [f"not tested: {', '.join(names)}"] if names else []


def _is_share(value: MetricValue) -> bool:
    """True if the metric is between -1 and 1; False if it is not registered here."""
    try:
        # In a table of several data sets, their names precede those of metrics: `ml: nDCG@10`.
        low, high = prototype(parse_name(value.plain_name.rpartition(": ")[2])).bounds
    except WeftError:
        return False
    return low is not None and high is not None and low >= -1 and high <= 1
