"""Results as tables in text: CSV, JSON, Markdown, LaTeX; and a run's results as files in a folder."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weft.markup import escape_latex, escape_markdown, pipes, tabular
from weft.names import print_cell
from weft.result import Z95, MetricValue, Result, Writer, write_whole

if TYPE_CHECKING:
    import polars as pl

SUMMARY = ("model", "metric", "k", "value", "std_error", "ci_low", "ci_high", "users", "higher_is_better")


# ---------------------------------------------------------------------------------------------------------------- results


def summary(results: Sequence[Result]) -> pl.DataFrame:
    """One row per model, metric and cut-off: value, standard error, 95 % interval, users, and whether higher is better.

    `higher_is_better` is null for a metric that has no such direction.
    """
    import polars as pl

    rows = [
        {column: getattr(value, column) for column in SUMMARY[2:]}
        | {"model": result.name, "metric": value.metric + print_cell(value.cell)}
        for result in results
        for value in result.values
    ]
    kinds = dict.fromkeys(SUMMARY, pl.Float64) | {"model": pl.String, "metric": pl.String, "k": pl.Int64, "users": pl.Int64}
    return pl.DataFrame(rows, schema=kinds | {"higher_is_better": pl.Boolean})


def to_csv(results: Sequence[Result]) -> str:
    """The summary as CSV. Undefined is NaN, what does not apply is empty."""
    return summary(results).write_csv()


def to_json(results: Sequence[Result]) -> str:
    """A list with one object per model, as `Result.save` writes it. Undefined is null."""
    return json.dumps([result.to_dict() for result in results], indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_markdown(results: Sequence[Result]) -> str:
    """A pipe table with the best values in bold. Models run down, or metrics if there are more of them."""
    head, rows = _grid(results, escape_markdown, lambda text: f"**{text}**" if text else "", "±")
    return pipes(head, rows)


def to_latex(results: Sequence[Result]) -> str:
    r"""A `tabular` for the package booktabs with the best values in bold. Models run down, or metrics if there are more of them."""
    head, rows = _grid(results, escape_latex, lambda text: rf"\textbf{{{text}}}", r"$\pm$")
    note = "95 % confidence intervals over users; the best value of each metric is bold."
    return tabular(head, rows, [note])


@dataclass(frozen=True)
class Line:
    """A metric at its cut-off, with the values of all models; None where a model does not have it."""

    name: str
    values: tuple[MetricValue | None, ...]

    def is_best(self, value: MetricValue | None) -> bool:
        """Whether no model is better, and some are worse. Nobody is best at what is undefined or has no direction."""
        merits = {value.merit for value in self.values if value and value.merit is not None and not math.isnan(value.value)}
        return value is not None and len(merits) > 1 and value.merit == max(merits)


def lines(results: Sequence[Result]) -> list[Line]:
    """Every metric that any of the models has, in order."""
    names = list(dict.fromkeys(name for result in results for name in result))
    found = [{value.name: value for value in result.values} for result in results]
    return [Line(name, tuple(values.get(name) for values in found)) for name in names]


def _grid(
    results: Sequence[Result], escape: Callable[[str], str], mark: Callable[[str], str], plus_minus: str
) -> tuple[list[str], list[list[str]]]:
    """A head and rows of finished cells; the longer side runs down."""

    def cell(line: Line, value: MetricValue | None) -> str:
        if value is None:
            return escape("-")
        text = escape(f"{value.value:.4f}" if not math.isnan(value.value) else "undefined")
        margin = "" if math.isnan(value.std_error) else f" {plus_minus} {Z95 * value.std_error:.4f}"
        return (mark(text) if line.is_best(value) else text) + margin

    every = lines(results)
    models = [escape(result.name) for result in results]
    columns = [[cell(line, value) for value in line.values] for line in every]
    if len(every) > len(models):
        return ["metric", *models], [[escape(line.name), *row] for line, row in zip(every, columns)]
    rows = [[model, *row] for model, row in zip(models, map(list, zip(*columns)))]
    return ["model", *(escape(line.name) for line in every)], rows


# What `--format` offers.
RESULT_FORMATS: dict[str, Callable[[Sequence[Result]], str]] = {
    "json": to_json,
    "csv": to_csv,
    "markdown": to_markdown,
    "latex": to_latex,
}


# --------------------------------------------------------------------------------------------------------------- files

SUMMARY_FILE = "summary.csv"


def save_all(results: Sequence[Result], folder: Path) -> list[Path]:
    """Write each result as NAME.json, its values per user, if kept, beside it, and `summary.csv`: all of them, or none.

    The files of the results come first in the answer, in order, then the summary.
    """
    places = [folder / f"{name}.json" for name in file_names([result.name for result in results])]
    files: dict[Path, Writer] = {}
    for result, place in zip(results, places):
        files |= result.files(place)
    text = to_csv(results)
    files[folder / SUMMARY_FILE] = lambda file: file.write(text.encode())
    write_whole(files)
    return [*places, folder / SUMMARY_FILE]


# Names that mean a device on Windows, whatever follows the first dot.
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|\Z)", re.IGNORECASE)


def file_names(names: Sequence[str]) -> list[str]:
    """A safe name for the file of each model: one folder, every system, no two alike, even where case does not count.

    >>> file_names(["als", "a/b", "../x", "ALS", ""])
    ['als', 'a_b', '_x', 'ALS-2', 'model']
    """
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        safe = re.sub(r"[^\w.+=@-]+", "_", unicodedata.normalize("NFC", name)).lstrip(".-")
        safe = safe.encode()[:100].decode(errors="ignore").rstrip(".") or "model"  # file systems count bytes
        safe = f"_{safe}" if _DEVICES.match(safe) else safe
        unique, copy = safe, 2
        while unique.casefold() in taken:
            unique, copy = f"{safe}-{copy}", copy + 1
        taken.add(unique.casefold())
        found.append(unique)
    return found
