"""Text of comparisons: captions, JSON, Markdown and LaTeX."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from weft.metrics.names import format_labels, split_labels
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
# The tests of a family, and a family of one test.
_FAMILY_TEXTS = {
    "metric": ("the pairs of models of each metric", "one pair of models per metric"),
    "test": ("all pairs of models and metrics", "one pair of models and metric"),
    "pair": ("the metrics of each pair of models", "one metric per pair of models"),
    "all": ("all pairs of models, metrics and tests", "one pair of models, metric and test"),
}
# The tests of one family by their number.
_MEMBER_TEXTS = {
    "metric": "the {:,} pairs of models on this metric",
    "test": "the {:,} pairs of models and metrics",
    "pair": "the {:,} metrics of this pair of models",
    "all": "the {:,} pairs of models, metrics and tests",
}
_CORRECTION_NAMES = {
    "holm": "Holm's correction",
    "bonferroni": "Bonferroni's correction",
    "fdr": "Benjamini and Hochberg's correction",
}


def row_metric(row: Mapping[str, Any]) -> str:
    """Return the metric of a row at its cut-off."""
    if row["k"] is None:
        return str(row["metric"])
    plain, labels = split_labels(row["metric"])
    return f"{plain}@{row['k']}{format_labels(labels)}"


def caption(comparison: Comparison, test: str) -> str:
    """Return the test, the correction of its p-values and alpha as text."""
    name = f"{test}{_UNPAIRED_MARK}" if test in UNPAIRED else test
    if comparison.alternative != "two-sided":
        name += f", {comparison.alternative}"
    several, one = _FAMILY_TEXTS[comparison.family]
    if comparison.correction == "none":
        adjusted = "p not adjusted"
    elif any(row["family_size"] > 1 for row in comparison.rows if row["test"] == test):
        adjusted = f"p adjusted by {comparison.correction} over {several}"
    else:
        adjusted = f"p not adjusted ({one})"
    return f"{name}, {adjusted}, alpha {comparison.alpha:g}"


def describe_correction(comparison: Comparison, row: Mapping[str, Any]) -> str:
    """Return how the p-value of a row was adjusted and over which tests, as the end of a clause."""
    if comparison.correction == "none":
        return ", not corrected for the number of tests"
    if row["family_size"] < 2:
        return f", not corrected: {_FAMILY_TEXTS[comparison.family][1]}"
    members = _MEMBER_TEXTS[comparison.family].format(row["family_size"])
    return f" after {_CORRECTION_NAMES[comparison.correction]} over {members}"


def name_interval(comparison: Comparison, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the name of the intervals of rows: "95 % interval", or "adjusted 95 % interval".

    The ends of the interval of a one-sided test at 0.05 are those of a 90 % interval.
    """
    sides = 1 if comparison.alternative == "two-sided" else 2
    level = f"{100 * max(0, 1 - sides * comparison.alpha):.6g} % interval"
    is_adjusted = comparison.correction != "none" and any(row["family_size"] > 1 for row in rows)
    return f"adjusted {level}" if is_adjusted else level


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
        table = markdown_table(head, _pair_cells(comparison, escape_markdown), _WORD_COLUMNS)
        captions = "".join(f"\n{escape_markdown(one)}.\n" for one in _pair_captions(comparison))
        return table + captions + unpaired + fronts

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
        return latex_table(
            [escape_latex(name) for name in _PAIR_COLUMNS],
            _pair_cells(comparison, escape_latex),
            [*_pair_captions(comparison), *_unpaired_notes(comparison.tests), *fronts],
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


def _pair_captions(comparison: Comparison) -> list[str]:
    """Return the caption of each test with the kind of the intervals ci_low to ci_high."""
    return [
        f"{caption(comparison, test)}; {name_interval(comparison, rows)} of the difference"
        for test in comparison.tests
        for rows in [[row for row in comparison.rows if row["test"] == test]]
    ]


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
    rows = []
    for row in comparison.rows:
        test = row["test"] if row["paired"] else row["test"] + _UNPAIRED_MARK
        p = row["p_adjusted"]
        texts = {"metric": row_metric(row), "test": test, "p_adjusted": _format_cell(p, ".2g")}
        cells = {name: _format_cell(row[name]) for name in _PAIR_COLUMNS} | texts
        rows.append([escape(text) for text in cells.values()])
    return rows


def _format_cell(value: Any, form: str = ".4f") -> str:
    if value is None or value != value:  # NaN
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format(value, form) if isinstance(value, float) else str(value)
