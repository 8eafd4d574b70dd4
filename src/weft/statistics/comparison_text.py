"""Text of comparisons: captions, JSON, Markdown and LaTeX."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from weft.statistics.markup import escape_latex, escape_markdown, latex_table, markdown_table
from weft.statistics.significance_tests import UNPAIRED

if TYPE_CHECKING:
    from weft.statistics.comparison import Comparison, MeanCell

FORMAT = "weft-comparison"
VERSION = 1
_UNPAIRED_MARK = "†"  # after the name of a test that ignores the pairing
_UNPAIRED_NOTE = (
    f"{_UNPAIRED_MARK} takes the users of two models for independent samples, although they are "
    "the same users"
)
# The columns of a table of pairs; the first four are words.
_PAIR_COLUMNS = (
    "model_a",
    "model_b",
    "metric",
    "test",
    "mean_a",
    "mean_b",
    "difference",
    "ci_low",
    "ci_high",
    "p_adjusted",
    "significant",
    "effect_size",
    "cliffs_delta",
    "wins",
    "ties",
    "losses",
)
_WORD_COLUMNS = 4
_FAMILY_TEXT = {
    "test": "",
    "metric": " per metric",
    "pair": " per pair of models",
    "all": " over all tests",
}


def row_metric(row: Mapping[str, Any]) -> str:
    """Return the metric of a row at its cut-off."""
    return str(row["metric"]) if row["k"] is None else f"{row['metric']}@{row['k']}"


def caption(comparison: Comparison, test: str) -> str:
    """Return the test, the correction of its p-values and alpha as text."""
    name = f"{test}{_UNPAIRED_MARK}" if test in UNPAIRED else test
    if comparison.alternative != "two-sided":
        name += f", {comparison.alternative}"
    adjusted = "p not adjusted"
    if comparison.correction != "none":
        adjusted = f"p adjusted by {comparison.correction}{_FAMILY_TEXT[comparison.family]}"
    return f"{name}, {adjusted}, alpha {comparison.alpha:g}"


def to_json(comparison: Comparison) -> str:
    """Return the comparison as JSON; undefined is null."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: plain(item) for name, item in value.items()}
        return None if isinstance(value, float) and not math.isfinite(value) else value

    document = {
        "format": FORMAT,
        "version": VERSION,
        "models": list(comparison.results),
        "tests": list(comparison.tests),
        "correction": comparison.correction,
        "family": comparison.family,
        "alternative": comparison.alternative,
        "alpha": comparison.alpha,
        "rows": [plain(row) for row in comparison.rows],
        "means": plain(comparison.means),
        "letters": {test: comparison.letters(test) for test in comparison.tests},
        "fronts": {
            name: plain({"models": list(front.models), "hypervolume": front.hypervolume})
            for name, front in comparison.fronts.items()
        },
        "notes": list(comparison.notes),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_markdown(comparison: Comparison, *, pairs: bool) -> str:
    """Return a pipe table per test, or one of all pairs; see `Comparison.to_markdown`."""
    fronts = "".join(f"\n{escape_markdown(line)}\n" for line in comparison.describe_fronts())
    unpaired = "".join(f"\n{note}.\n" for note in _unpaired_notes(comparison.tests))
    if pairs:
        head = [escape_markdown(name) for name in _PAIR_COLUMNS]
        rows = _pair_cells(comparison, escape_markdown)
        return markdown_table(head, rows, _WORD_COLUMNS) + unpaired + fronts

    def cell(mean: MeanCell) -> str:
        text = escape_markdown(str(mean))
        text = f"**{text}**" if mean.best else text
        return f"{text} {escape_markdown(mean.mark)}" if mean.mark else text

    tables = []
    for test in comparison.tests:
        note = "; ".join([caption(comparison, test), "bold: best", *comparison.legend()])
        table = markdown_table(*_grid_cells(comparison, test, cell, escape_markdown))
        tables.append(f"{table}\n{escape_markdown(note)}.\n")
    return "\n".join(tables) + unpaired + fronts


def to_latex(comparison: Comparison, *, pairs: bool) -> str:
    """Return a `tabular` per test, or one of all pairs; see `Comparison.to_latex`."""
    fronts = comparison.describe_fronts()
    if pairs:
        notes = [
            f"{caption(comparison, test)}; 95 % confidence intervals of the differences"
            for test in comparison.tests
        ]
        return latex_table(
            [escape_latex(name) for name in _PAIR_COLUMNS],
            _pair_cells(comparison, escape_latex),
            [*notes, *_unpaired_notes(comparison.tests), *fronts],
            _WORD_COLUMNS,
        )

    def cell(mean: MeanCell) -> str:
        text = escape_latex(str(mean))
        text = rf"\textbf{{{text}}}" if mean.best else text
        return rf"{text}\textsuperscript{{{mean.mark}}}" if mean.mark else text

    tables = []
    for test in comparison.tests:
        notes = [f"{caption(comparison, test)}; bold: best", *comparison.legend()]
        notes += [*_unpaired_notes((test,)), *fronts]
        tables.append(latex_table(*_grid_cells(comparison, test, cell, escape_latex), notes))
    return "\n".join(tables)


def _unpaired_notes(tests: tuple[str, ...]) -> list[str]:
    return [_UNPAIRED_NOTE] if any(test in UNPAIRED for test in tests) else []


def _grid_cells(
    comparison: Comparison,
    test: str,
    cell: Callable[[MeanCell], str],
    escape: Callable[[str], str],
) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table of means; the longer dimension has the rows."""
    grid, models = comparison.grid(test), list(comparison.results)
    if len(grid) > len(models):
        head = ["metric", *map(escape, models)]
        return head, [
            [escape(metric), *(cell(means[model]) for model in models)]
            for metric, means in grid.items()
        ]
    head = ["model", *map(escape, grid)]
    return head, [
        [escape(model), *(cell(means[model]) for means in grid.values())] for model in models
    ]


def _pair_cells(comparison: Comparison, escape: Callable[[str], str]) -> list[list[str]]:
    """Return the escaped cells of the table of all pairs."""

    def text(row: Mapping[str, Any], name: str) -> str:
        value = row_metric(row) if name == "metric" else row[name]
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            return f"{value:.2g}" if name == "p_adjusted" else f"{value:.4f}"
        return str(value) + (_UNPAIRED_MARK if name == "test" and not row["paired"] else "")

    return [[escape(text(row, name)) for name in _PAIR_COLUMNS] for row in comparison.rows]
