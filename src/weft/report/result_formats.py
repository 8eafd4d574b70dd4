"""Results as text in a file format: CSV, JSON, Markdown, LaTeX, HTML or typst."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result, frame_schema
from weft.statistics.markup import csv_table, escape_markdown, markdown_table
from weft.statistics.result_table import ResultTable

if TYPE_CHECKING:
    import polars as pl


def to_csv(results: Sequence[Result], *, guard_formulas: bool = True) -> str:
    """Return `ResultTable.to_frame` as CSV. Undefined values are NaN."""
    return ResultTable(results).to_csv(guard_formulas=guard_formulas)


def to_json(results: Sequence[Result]) -> str:
    """Return a list with one object per model, as `Result.save` writes it. Undefined is null."""
    objects = [result.to_dict() for result in results]
    return json.dumps(objects, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_markdown(results: Sequence[Result]) -> str:
    """Return a pipe table with the best values in bold, and a second one for the slices, if any."""
    has_slices = not slices(results).is_empty()
    tables = [ResultTable(results).to_markdown()]
    return "\n".join(tables + ([slices_to_markdown(results)] if has_slices else []))


def slices(results: Sequence[Result]) -> pl.DataFrame:
    """Return the rows of all models' slices, with the model as the first column."""
    import polars as pl

    frames = [
        result.slices.select(pl.lit(result.name).alias("model"), pl.all())
        for result in results
        if result.slices is not None
    ]
    if not frames:
        return pl.DataFrame(schema={"model": pl.String, **frame_schema("slices")})
    return pl.concat(frames)


def slices_to_csv(results: Sequence[Result], *, guard_formulas: bool = True) -> str:
    """Return all slices as CSV. Undefined values are NaN, fields that do not apply are empty."""
    return csv_table(slices(results), guard_formulas=guard_formulas)


def slices_to_markdown(results: Sequence[Result]) -> str:
    """Return a pipe table with a row per model, slice and group, and a column per metric."""
    texts: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in slices(results).iter_rows(named=True):
        value = MetricValue(row["metric"], row["k"], row["value"], row["std_error"], row["users"])
        has_interval = value.interval.kind != "none"
        margin = f" ± {(value.ci_high - value.ci_low) / 2:.4f}" if has_interval else ""
        text = "undefined" if math.isnan(value.value) else f"{value.value:.4f}{margin}"
        texts.setdefault((row["model"], row["slice"], row["group"]), {})[value.name] = text
    metrics = list(dict.fromkeys(name for values in texts.values() for name in values))
    rows = [
        [*map(escape_markdown, key), *(values.get(name, "-") for name in metrics)]
        for key, values in texts.items()
    ]
    head = ["model", "slice", "group", *map(escape_markdown, metrics)]
    return markdown_table(head, rows, words=3)


# The choices of `--format`.
RESULT_FORMATS: dict[str, Callable[[Sequence[Result]], str]] = {
    "json": to_json,
    "csv": to_csv,
    "markdown": to_markdown,
    "latex": lambda results: ResultTable(results).to_latex(),
    "html": lambda results: ResultTable(results).to_html(),
    "typst": lambda results: ResultTable(results).to_typst(),
}
