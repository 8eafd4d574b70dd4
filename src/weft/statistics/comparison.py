"""What a comparison found: every two models on every metric under every test, as frames and tables."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import SettingError, check_choice
from weft.evaluation.atomic_files import write_files
from weft.evaluation.report_mixin import ReportMixin
from weft.evaluation.result import Result
from weft.statistics.corrections import CORRECTIONS, adjust_families
from weft.statistics.letters import compact_letters
from weft.statistics.markup import escape_latex, escape_markdown, latex_table, markdown_table
from weft.statistics.pareto import ParetoFront, pareto_optimal
from weft.statistics.significance_tests import UNPAIRED

if TYPE_CHECKING:
    import polars as pl

FORMAT = "weft-comparison"
VERSION = 1
UNPAIRED_MARK = "†"  # behind the name of a test that ignores the pairing
UNPAIRED_NOTE = f"{UNPAIRED_MARK} takes the users of two models for independent samples, although they are the same users"
# What a reader looks for, of the many columns of a comparison.
_READ = (
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
_WORDS = 4  # how many of them hold words
_KINDS = {
    "k": "Int64",
    "significant": "Boolean",
    "users": "Int64",
    "left_out": "Int64",
    "paired": "Boolean",
}


@dataclass(frozen=True)
class MeanCell:
    """A model's mean on a metric: whether no model is better, and its letters, or a star, if it has
    any.
    """

    mean: float
    best: bool
    mark: str

    def __str__(self) -> str:
        return "-" if math.isnan(self.mean) else f"{self.mean:.4f}"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(ReportMixin):
    """Every pair of models on every metric under every test, one row each; and the models' means on
    every metric.
    """

    rows: tuple[Mapping[str, Any], ...]
    results: Mapping[str, Result]
    correction: str
    alpha: float
    tests: tuple[str, ...] = ()
    family: str = "test"
    alternative: str = "two-sided"
    means: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict
    )  # metric: model: over the users that all models have
    notes: tuple[str, ...] = ()
    fronts: Mapping[str, ParetoFront] = field(
        default_factory=dict
    )  # for each Hypervolume of the models' own values, by its name
    resamples: int = 10_000  # of the randomisation test
    seed: int = 0

    # ----------------------------------------------------------------------------------------------

    def to_frame(self) -> pl.DataFrame:
        """model_a, model_b, metric, k, test, statistic, p_value, p_adjusted, significant, means,
        difference, interval, ...

        `difference` is mean_a - mean_b over the users that both models have, with its 95 % interval
        (Student's t); `effect_size` is the mean difference over its standard deviation (paired
        Cohen's d). `cliffs_delta` takes every value of a against every value of b: the share that
        is above, less the share that is below. `wins`, `ties` and `losses` are shares of users by
        value: a > b, a = b, a < b. `detectable` is the smallest true mean difference that so many
        users would show with a power of 0.8 in a two-sided paired t-test at alpha. `users` were
        compared; `left_out` are those undefined for either model. `paired` is false for a test that
        ignores the pairing."""
        import polars as pl

        words = ("model_a", "model_b", "metric", "test")
        kinds = {
            name: getattr(pl, _KINDS.get(name, "String" if name in words else "Float64"))
            for name in self.rows[0]
        }
        return pl.DataFrame(
            {name: [row[name] for row in self.rows] for name in kinds}, schema=kinds
        )

    def front_frame(self) -> pl.DataFrame:
        """One row per Hypervolume and model: front, model, on_front, hypervolume (of the front)."""
        import polars as pl

        rows = [
            (name, model, model in front.models, front.hypervolume)
            for name, front in self.fronts.items()
            for model in self.results
        ]
        kinds = {
            "front": pl.String,
            "model": pl.String,
            "on_front": pl.Boolean,
            "hypervolume": pl.Float64,
        }
        return pl.DataFrame(rows, schema=kinds, orient="row")

    def pareto(self, metrics: Sequence[str]) -> tuple[str, ...]:
        """The models that no other beats in all of these metrics, each in its own direction;
        undefined ones are left out.

        Any metric that all results have will do, with or without values per user:
        `comparison.pareto(["nDCG@10", "Gini@10"])`."""
        points: dict[str, list[float]] = {model: [] for model in self.results}
        for metric in [metrics] if isinstance(metrics, str) else metrics:
            for model, result in self.results.items():
                if metric not in result:
                    raise SettingError(
                        f"{metric!r} was not evaluated for {model!r}; it has: {', '.join(result)}."
                    )
                merit = result.entry(metric).merit
                if merit is None:
                    raise SettingError(
                        f"{metric!r} has no direction, so that no value of it is better than "
                        "another."
                    )
                points[model].append(merit)
        return pareto_optimal(points)

    def adjusted(self, correction: str) -> Comparison:
        """The same tests under another correction."""
        correction = check_choice("correction", correction, CORRECTIONS)
        p = adjust_families(
            np.array([row["p_value"] for row in self.rows]),
            [self._family(row) for row in self.rows],
            correction,
        )
        judged = (
            {"p_adjusted": p, "significant": None if math.isnan(p) else p <= self.alpha}
            for p in p.tolist()
        )
        return replace(
            self,
            rows=tuple({**row, **more} for row, more in zip(self.rows, judged)),
            correction=correction,
        )

    def _family(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """What the tests have in common that are adjusted together."""
        members = {
            "test": ("test",),
            "metric": ("test", "metric", "k"),
            "pair": ("test", "model_a", "model_b"),
            "all": (),
        }
        return tuple(row[name] for name in members[self.family])

    def letters(self, test: str) -> dict[str, dict[str, str]]:
        """Of every metric and model: models that share a letter do not differ significantly. The
        best model has an a.

        Only for two-sided comparisons; otherwise empty.
        """
        if self.alternative != "two-sided":
            return {}
        marked = self._marked(test, letters=True)
        return {
            metric: {model: cell.mark for model, cell in line.items()}
            for metric, line in marked.items()
        }

    def grid(self, test: str) -> dict[str, dict[str, MeanCell]]:
        """Of every metric and model: the mean, who is best, and letters; a star at the better one
        of two that differ.
        """
        return self._marked(test, letters=len(self.results) > 2)

    def _marked(self, test: str, *, letters: bool) -> dict[str, dict[str, MeanCell]]:
        test = check_choice("test", test, self.tests)
        differ: dict[str, list[Mapping[str, Any]]] = {}
        for row in self.rows:
            if row["test"] == test and row["significant"]:
                differ.setdefault(row_metric(row), []).append(row)
        found = {}
        for metric, means in self.means.items():
            rows = differ.get(metric, [])
            merits = self._merits(metric, means)
            marks = dict.fromkeys(means, "")
            if letters and self.alternative == "two-sided":
                ranked = sorted(
                    means, key=lambda model: -_last_if_nan(merits.get(model, means[model]))
                )
                marks = compact_letters(ranked, [(row["model_a"], row["model_b"]) for row in rows])
            elif not letters:
                for row in rows:
                    marks |= {winner: "*" for winner in (self.winner(row),) if winner}
            best = max(merits.values()) if len(set(merits.values())) > 1 else None
            found[metric] = {
                model: MeanCell(mean, best is not None and merits.get(model) == best, marks[model])
                for model, mean in means.items()
            }
        return found

    def _merits(self, metric: str, means: Mapping[str, float]) -> dict[str, float]:
        """How good each model is, more is better; without those that are undefined, or all if the
        metric has no direction.
        """
        entry = next(iter(self.results.values())).entry(metric)
        merits = {model: replace(entry, value=mean).merit for model, mean in means.items()}
        return {
            model: merit
            for model, merit in merits.items()
            if merit is not None and not math.isnan(merit)
        }

    def winner(self, row: Mapping[str, Any]) -> str | None:
        """The better model of a row with a significant difference, in the metric's own direction."""
        merits = self._merits(
            row_metric(row), {row["model_a"]: row["mean_a"], row["model_b"]: row["mean_b"]}
        )
        if not row["significant"] or len(set(merits.values())) < 2:
            return None
        return max(merits, key=lambda model: merits[model])

    # ----------------------------------------------------------------------------------------------

    def caption(self, test: str) -> str:
        """How the p-values of this test came about."""
        one_sided = "" if self.alternative == "two-sided" else f", {self.alternative}"
        over = {
            "test": "",
            "metric": " per metric",
            "pair": " per pair of models",
            "all": " over all tests",
        }[self.family]
        adjusted = (
            "p not adjusted"
            if self.correction == "none"
            else f"p adjusted by {self.correction}{over}"
        )
        return f"{test}{UNPAIRED_MARK if test in UNPAIRED else ''}{one_sided}, {adjusted}, alpha {self.alpha:g}"

    def remarks(self) -> list[str]:
        """What to know to read a grid."""
        if len(self.results) == 2:
            said = ["* significantly better"]
        elif self.alternative == "two-sided":
            said = ["models that share a letter do not differ significantly"]
        else:
            said = []
        return said

    def front_lines(self) -> list[str]:
        """Who lies on each Pareto front, in words."""
        return [
            f"{name}: {', '.join(front.models) or 'nobody'} on the Pareto front, hypervolume "
            f"{front.hypervolume:.4f}"
            for name, front in self.fronts.items()
        ]

    def to_csv(self) -> str:
        """All columns of the frame as CSV. Undefined is NaN, what does not apply is empty."""
        return self.to_frame().write_csv()

    def to_json(self) -> str:
        """Settings, all rows of the frame, the models' means and letters, Pareto fronts, notes.
        Undefined is null.
        """

        def plain(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: plain(one) for name, one in value.items()}
            return None if isinstance(value, float) and not math.isfinite(value) else value

        document = {
            "format": FORMAT,
            "version": VERSION,
            "models": list(self.results),
            "tests": list(self.tests),
            "correction": self.correction,
            "family": self.family,
            "alternative": self.alternative,
            "alpha": self.alpha,
            "rows": [plain(row) for row in self.rows],
            "means": plain(self.means),
            "letters": {test: self.letters(test) for test in self.tests},
            "fronts": {
                name: plain({"models": list(one.models), "hypervolume": one.hypervolume})
                for name, one in self.fronts.items()
            },
            "notes": list(self.notes),
        }
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def to_markdown(self, *, pairs: bool = False) -> str:
        """A pipe table per test: models and metrics with the best mean in bold, and letters (a star
        for two models).

        With `pairs`, every pair of models in one table instead: means, difference, interval,
        adjusted p-value, effect sizes."""
        fronts = "".join(f"\n{escape_markdown(line)}\n" for line in self.front_lines())
        if pairs:
            head = [escape_markdown(name) for name in _READ]
            return (
                markdown_table(head, self._cells(escape_markdown), _WORDS)
                + self._note_of_unpaired()
                + fronts
            )

        def cell(one: MeanCell) -> str:
            text = escape_markdown(str(one))
            return (f"**{text}**" if one.best else text) + (
                f" {escape_markdown(one.mark)}" if one.mark else ""
            )

        parts = []
        for test in self.tests:
            said = "; ".join([self.caption(test), "bold: best", *self.remarks()])
            head, rows = self._grid_cells(test, cell, escape_markdown)
            parts.append(f"{markdown_table(head, rows)}\n{escape_markdown(said)}.\n")
        return "\n".join(parts) + self._note_of_unpaired() + fronts

    def to_latex(self, *, pairs: bool = False) -> str:
        r"""A `tabular` per test for the package booktabs: the best mean in bold, letters (a star
        for two models) as superscripts.

        With `pairs`, every pair of models in one table instead.
        """
        if pairs:
            notes = [
                f"{self.caption(test)}; 95 % confidence intervals of the differences"
                for test in self.tests
            ]
            notes += [UNPAIRED_NOTE] if any(test in UNPAIRED for test in self.tests) else []
            return latex_table(
                [escape_latex(name) for name in _READ],
                self._cells(escape_latex),
                notes + self.front_lines(),
                _WORDS,
            )

        def cell(one: MeanCell) -> str:
            text = escape_latex(str(one))
            return (rf"\textbf{{{text}}}" if one.best else text) + (
                rf"\textsuperscript{{{one.mark}}}" if one.mark else ""
            )

        parts = []
        for test in self.tests:
            notes = [
                f"{self.caption(test)}; bold: best",
                *self.remarks(),
                *([UNPAIRED_NOTE] if test in UNPAIRED else []),
            ]
            notes += self.front_lines()
            parts.append(latex_table(*self._grid_cells(test, cell, escape_latex), notes))
        return "\n".join(parts)

    def save(self, path: str | Path, *, pairs: bool = False) -> Path:
        """Write the comparison, whole or not at all: as .json, .csv, .parquet, .md or .tex, by the
        name of the file.
        """
        path = Path(path)
        form = SUFFIXES.get(path.suffix.lower())
        if form is None:
            raise SettingError(
                f"{path}: the name of a comparison's file ends in one of {', '.join(SUFFIXES)}."
            )
        if form == "parquet":
            write_files({path: self.to_frame().write_parquet})
        else:
            text = self.to_text(form, pairs=pairs)
            write_files({path: lambda file: file.write(text.encode())})
        return path

    def to_text(self, form: str, *, pairs: bool = False) -> str:
        """The comparison as `"json"`, `"csv"`, `"markdown"` or `"latex"`."""
        makers: dict[str, Callable[[], str]] = {
            "json": self.to_json,
            "csv": self.to_csv,
            "markdown": lambda: self.to_markdown(pairs=pairs),
            "latex": lambda: self.to_latex(pairs=pairs),
        }
        return makers[check_choice("format", form, tuple(makers))]()

    def __repr__(self) -> str:
        return "\n".join([self.to_markdown(), *(f"- {note}" for note in self.notes)])

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def _note_of_unpaired(self) -> str:
        return f"\n{UNPAIRED_NOTE}.\n" if any(test in UNPAIRED for test in self.tests) else ""

    def _grid_cells(
        self, test: str, cell: Callable[[MeanCell], str], escape: Callable[[str], str]
    ) -> tuple[list[str], list[list[str]]]:
        """A head and rows of finished cells; the longer side runs down."""
        grid = self.grid(test)
        models = list(self.results)
        if len(grid) > len(models):
            return (
                ["metric", *map(escape, models)],
                [
                    [escape(metric), *(cell(line[model]) for model in models)]
                    for metric, line in grid.items()
                ],
            )
        return (
            ["model", *map(escape, grid)],
            [[escape(model), *(cell(line[model]) for line in grid.values())] for model in models],
        )

    def _cells(self, escape: Callable[[str], str]) -> list[list[str]]:
        def text(row: Mapping[str, Any], name: str) -> str:
            value = row_metric(row) if name == "metric" else row[name]
            if value is None or (isinstance(value, float) and math.isnan(value)):
                return "-"
            if isinstance(value, bool):
                return "yes" if value else "no"
            if isinstance(value, float):
                return f"{value:.2g}" if name == "p_adjusted" else f"{value:.4f}"
            return str(value) + (UNPAIRED_MARK if name == "test" and not row["paired"] else "")

        return [[escape(text(row, name)) for name in _READ] for row in self.rows]


SUFFIXES = {
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".md": "markdown",
    ".markdown": "markdown",
    ".tex": "latex",
}


def row_metric(row: Mapping[str, Any]) -> str:
    """The metric of a row at its cut-off."""
    return str(row["metric"]) if row["k"] is None else f"{row['metric']}@{row['k']}"


def _last_if_nan(number: float) -> float:
    return -math.inf if math.isnan(number) else number
