"""Text of comparisons: captions, JSON and tables."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from weft.metrics.names import format_labels, split_labels
from weft.statistics.significance_tests import UNPAIRED
from weft.statistics.text_tables import TextCell, TextTable

if TYPE_CHECKING:
    from weft.statistics.comparison import Comparison

FORMAT = "weft-comparison"
VERSION = 1
TEST_NAMES = {
    "paired_t": "paired t-test",
    "wilcoxon": "Wilcoxon's signed-rank test",
    "randomization": "paired randomization test",
    "sign": "sign test",
    "kruskal": "Kruskal-Wallis test",
    "mann_whitney": "Mann-Whitney U test",
    "bootstrap": "paired bootstrap test",
}
_UNPAIRED_MARK = "†"  # after the name of a test that ignores the pairing
_UNPAIRED_NOTE = (
    f"{_UNPAIRED_MARK} treats the users of two models as independent samples, although they are "
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
# The tests of every family by their number, and a family of one test.
_FAMILY_TEXTS = {
    "metric": ("the {} pairs of models on each metric", "one pair of models per metric"),
    "test": ("all {} pairs of models and metrics", "one pair of models and metric"),
    "pair": ("the {} metrics of each pair of models", "one metric per pair of models"),
    "all": ("all {} pairs of models, metrics and tests", "one pair of models, metric and test"),
}
# The tests of one family by their number.
_MEMBER_TEXTS = {
    "metric": "the {:,} pairs of models on this metric",
    "test": "the {:,} pairs of models and metrics",
    "pair": "the {:,} metrics of this pair of models",
    "all": "the {:,} pairs of models, metrics and tests",
}
CORRECTION_NAMES = {
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
    """Return the test, the correction of its p-values with the number of tests, and alpha."""
    name = TEST_NAMES[test] + (_UNPAIRED_MARK if test in UNPAIRED else "")
    if comparison.alternative != "two-sided":
        name += f", one-sided ({comparison.alternative})"
    return f"{name}, {describe_adjustment(comparison, test)}"


def describe_adjustment(comparison: Comparison, test: str) -> str:
    """Return how the p-values of a test are adjusted, over how many tests, and alpha."""
    return f"{_describe_correction_of(comparison, test)}, alpha = {comparison.alpha:g}"


def _describe_correction_of(comparison: Comparison, test: str) -> str:
    if comparison.correction == "none":
        return "p-values not adjusted"
    sizes = {row["family_size"] for row in comparison.rows if row["test"] == test}
    several, one = _FAMILY_TEXTS[comparison.family]
    largest = max(sizes)
    if largest < 2:
        return f"p-values not adjusted ({one})"
    count = f"{largest:,}" if sizes <= {0, largest} else f"up to {largest:,}"
    members = several.format(count)
    return f"p-values adjusted by {CORRECTION_NAMES[comparison.correction]} over {members}"


def describe_correction(comparison: Comparison, row: Mapping[str, Any]) -> str:
    """Return how the p-value of a row was adjusted and over which tests, as the end of a clause."""
    if comparison.correction == "none":
        return ", not adjusted for the number of tests"
    if row["family_size"] < 2:
        return f", not adjusted: {_FAMILY_TEXTS[comparison.family][1]}"
    members = _MEMBER_TEXTS[comparison.family].format(row["family_size"])
    return f" after {CORRECTION_NAMES[comparison.correction]} over {members}"


def name_interval(comparison: Comparison, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the name of the intervals of rows: "95% interval", or "adjusted 95% interval".

    The ends of the interval of a one-sided test at 0.05 are those of a 90% interval.
    """
    sides = 1 if comparison.alternative == "two-sided" else 2
    level = f"{100 * max(0, 1 - sides * comparison.alpha):.6g}% interval"
    is_adjusted = comparison.correction != "none" and any(row["family_size"] > 1 for row in rows)
    return f"adjusted {level}" if is_adjusted else level


def describe_lists(comparison: Comparison) -> list[str]:
    """Return a line per pair of models with kept lists: how similar their lists are."""
    if any(result.lists is None for result in comparison.results.values()):
        return []
    order = list(comparison.results)
    return [
        f"lists of {row['model_a']} and {row['model_b']} at {row['k']}: overlap "
        f"{row['overlap']:.4f}, RBO {row['rbo_extrapolated']:.4f}"
        for row in comparison.lists().iter_rows(named=True)
        if order.index(row["model_a"]) < order.index(row["model_b"])
    ]


def describe_fronts(comparison: Comparison) -> list[str]:
    """Return a line per Pareto front: its models and its hypervolume."""
    return [
        f"{name}: {', '.join(front.models) or 'no model'} on the Pareto front, hypervolume "
        f"{front.hypervolume:.4f}"
        for name, front in comparison.fronts.items()
    ]


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


def render(comparison: Comparison, form: str, *, pairs: bool) -> str:
    """Return a table per test, or one of all pairs, in one of `text_tables.LANGUAGES`."""
    from weft.statistics.result_table import ResultTable

    further = [*_unpaired_notes(comparison.tests), *comparison.describe_fronts()]
    if pairs:
        notes = [*_pair_captions(comparison), *further]
        return TextTable(_PAIR_COLUMNS, _pair_cells(comparison), notes, _WORD_COLUMNS).render(form)
    tables = [
        ResultTable(comparison, test=test, notes=further if test == comparison.tests[-1] else ())
        for test in comparison.tests
    ]
    return "\n".join(table.render(form) for table in tables)


def _pair_captions(comparison: Comparison) -> list[str]:
    """Return the caption of each test with the kind of the intervals ci_low to ci_high."""
    return [
        f"{caption(comparison, test)}; {name_interval(comparison, rows)} of the difference"
        for test in comparison.tests
        for rows in [[row for row in comparison.rows if row["test"] == test]]
    ]


def _unpaired_notes(tests: tuple[str, ...]) -> list[str]:
    return [_UNPAIRED_NOTE] if any(test in UNPAIRED for test in tests) else []


def _pair_cells(comparison: Comparison) -> list[list[TextCell]]:
    """Return the cells of the table of all pairs."""
    rows = []
    for row in comparison.rows:
        test = row["test"] if row["paired"] else row["test"] + _UNPAIRED_MARK
        p = row["p_adjusted"]
        texts = {"metric": row_metric(row), "test": test, "p_adjusted": _format_cell(p, ".2g")}
        cells = {name: _format_cell(row[name]) for name in _PAIR_COLUMNS} | texts
        rows.append([TextCell(text) for text in cells.values()])
    return rows


def _format_cell(value: Any, form: str = ".4f") -> str:
    if value is None or value != value:  # NaN
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format(value, form) if isinstance(value, float) else str(value)
