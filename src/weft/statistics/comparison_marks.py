"""Marks of a comparison: the best mean of each metric, and letters or stars of models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.errors import check_choice
from weft.statistics.comparison_text import row_metric
from weft.statistics.letters import compact_letters

if TYPE_CHECKING:
    from weft.statistics.comparison import Comparison


@dataclass(frozen=True)
class MeanCell:
    """A mean of a model; `best` if no model is better, `mark` has its letters or star."""

    mean: float
    best: bool
    mark: str

    def __str__(self) -> str:
        return "-" if math.isnan(self.mean) else f"{self.mean:.4f}"


def mark_means(
    comparison: Comparison, test: str, *, letters: bool
) -> dict[str, dict[str, MeanCell]]:
    """Return means by metric and model, with marks by letters, or a star for the better model."""
    test = check_choice("test", test, comparison.tests)
    significant: dict[str, list[Mapping[str, Any]]] = {}
    for row in comparison.rows:
        if row["test"] == test:
            found = significant.setdefault(row_metric(row), [])
            found += [row] if row["significant"] else []
    grid = {}
    for metric in significant:
        means = comparison.means[metric]
        merits = find_merits(comparison, metric, means)
        marks = _find_marks(comparison, metric, significant[metric], letters=letters)
        best = max(merits.values()) if len(set(merits.values())) > 1 else None
        grid[metric] = {
            model: MeanCell(mean, best is not None and merits.get(model) == best, marks[model])
            for model, mean in means.items()
        }
    return grid


def _find_marks(
    comparison: Comparison, metric: str, significant: Sequence[Mapping[str, Any]], *, letters: bool
) -> dict[str, str]:
    """Return the letters of each model, or a star for winners of significant differences."""
    means = comparison.means[metric]
    if letters and comparison.alternative == "two-sided":
        merits = find_merits(comparison, metric, means)

        def badness(model: str) -> float:  # undefined means come last
            merit = merits.get(model, means[model])
            return math.inf if math.isnan(merit) else -merit

        pairs = [(row["model_a"], row["model_b"]) for row in significant]
        return compact_letters(sorted(means, key=badness), pairs)
    marks = dict.fromkeys(means, "")
    if not letters:
        winners = (comparison.winner(row) for row in significant)
        marks |= {winner: "*" for winner in winners if winner}
    return marks


def find_merits(
    comparison: Comparison, metric: str, means: Mapping[str, float]
) -> dict[str, float]:
    """Return the defined means as quantities to maximize; empty if there is no direction."""
    entry = next(iter(comparison.results.values())).entry(metric)
    merits = {model: replace(entry, value=mean).merit for model, mean in means.items()}
    return {
        model: merit
        for model, merit in merits.items()
        if merit is not None and not math.isnan(merit)
    }
