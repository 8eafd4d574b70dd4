"""Results as tables in text: CSV, JSON, Markdown, LaTeX; and a run's results as files in a folder."""

from __future__ import annotations

import json
import math
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import InputError
from weft.evaluation.atomic_files import Writer, write_files
from weft.evaluation.metric_value import BOOTSTRAP_COLUMNS, MetricValue
from weft.evaluation.result import Result, frame_schema
from weft.evaluation.result_io import result_files, table_path
from weft.metrics.names import format_labels
from weft.statistics.markup import escape_latex, escape_markdown, latex_table, markdown_table

if TYPE_CHECKING:
    import polars as pl

SUMMARY = (
    "model",
    "metric",
    "k",
    "value",
    "std_error",
    "ci_low",
    "ci_high",
    "users",
    "higher_is_better",
)


# --------------------------------------------------------------------------------------------------


def summary(results: Sequence[Result]) -> pl.DataFrame:
    """One row per model, metric and cut-off: value, standard error, 95 % interval, users, and
    whether higher is better.

    `higher_is_better` is null for a metric that has no such direction. If users were resampled,
    bootstrap intervals too."""
    import polars as pl

    columns = (
        *SUMMARY,
        *(BOOTSTRAP_COLUMNS if any(result.is_bootstrapped for result in results) else ()),
    )
    rows = [
        {column: getattr(value, column) for column in columns[2:]}
        | {"model": result.name, "metric": value.metric + format_labels(value.cell)}
        for result in results
        for value in result.values
    ]
    kinds = dict.fromkeys(columns, pl.Float64) | {
        "model": pl.String,
        "metric": pl.String,
        "k": pl.Int64,
        "users": pl.Int64,
    }
    return pl.DataFrame(rows, schema=kinds | {"higher_is_better": pl.Boolean})


def to_csv(results: Sequence[Result]) -> str:
    """The summary as CSV. Undefined is NaN, what does not apply is empty."""
    return summary(results).write_csv()


def to_json(results: Sequence[Result]) -> str:
    """A list with one object per model, as `Result.save` writes it. Undefined is null."""
    return (
        json.dumps(
            [result.to_dict() for result in results], indent=2, ensure_ascii=False, allow_nan=False
        )
        + "\n"
    )


def to_markdown(results: Sequence[Result]) -> str:
    """A pipe table with the best values in bold; models run down, or metrics if there are more of
    them. Slices are a second one.
    """
    head, rows = _grid(results, escape_markdown, lambda text: f"**{text}**" if text else "", "±")
    has_slices = any(result.slices is not None for result in results)
    return markdown_table(head, rows) + (f"\n{slices_to_markdown(results)}" if has_slices else "")


def to_latex(results: Sequence[Result]) -> str:
    r"""A `tabular` for the package booktabs with the best values in bold. Models run down, or
    metrics if there are more of them."""
    head, rows = _grid(results, escape_latex, lambda text: rf"\textbf{{{text}}}", r"$\pm$")
    note = "95 % confidence intervals over users; the best value of each metric is bold."
    return latex_table(head, rows, [note])


def slices(results: Sequence[Result]) -> pl.DataFrame:
    """The rows of all models' slices, with the model first."""
    import polars as pl

    found = [
        result.slices.select(pl.lit(result.name).alias("model"), pl.all())
        for result in results
        if result.slices is not None
    ]
    return (
        pl.concat(found)
        if found
        else pl.DataFrame(schema={"model": pl.String, **frame_schema("slices")})
    )


def slices_to_csv(results: Sequence[Result]) -> str:
    """The slices of all models as CSV. Undefined is NaN, what does not apply is empty."""
    return slices(results).write_csv()


def slices_to_markdown(results: Sequence[Result]) -> str:
    """A pipe table with a row for each model, slice and group, and a column for each metric."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in slices(results).iter_rows(named=True):
        value = MetricValue(row["metric"], row["k"], row["value"], row["std_error"], row["users"])
        margin = (
            "" if value.interval.kind == "none" else f" ± {(value.ci_high - value.ci_low) / 2:.4f}"
        )
        text = "undefined" if math.isnan(value.value) else f"{value.value:.4f}{margin}"
        found.setdefault((row["model"], row["slice"], row["group"]), {})[value.name] = text
    metrics = list(dict.fromkeys(name for values in found.values() for name in values))
    rows = [
        [*map(escape_markdown, key), *(values.get(name, "-") for name in metrics)]
        for key, values in found.items()
    ]
    return markdown_table(
        ["model", "slice", "group", *map(escape_markdown, metrics)], rows, words=3
    )


@dataclass(frozen=True)
class Line:
    """A metric at its cut-off, with the values of all models; None where a model does not have it."""

    name: str
    values: tuple[MetricValue | None, ...]

    def is_best(self, value: MetricValue | None) -> bool:
        """Whether no model is better, and some are worse. Nobody is best at what is undefined or
        has no direction.
        """
        merits = {
            value.merit
            for value in self.values
            if value and value.merit is not None and not math.isnan(value.value)
        }
        return value is not None and len(merits) > 1 and value.merit == max(merits)


def lines(results: Sequence[Result]) -> list[Line]:
    """Every metric that any of the models has, in order."""
    names = list(dict.fromkeys(name for result in results for name in result))
    found = [{value.name: value for value in result.values} for result in results]
    return [Line(name, tuple(values.get(name) for values in found)) for name in names]


def _grid(
    results: Sequence[Result],
    escape: Callable[[str], str],
    mark: Callable[[str], str],
    plus_minus: str,
) -> tuple[list[str], list[list[str]]]:
    """A head and rows of finished cells; the longer side runs down."""

    def cell(line: Line, value: MetricValue | None) -> str:
        if value is None:
            return escape("-")
        text = escape(f"{value.value:.4f}" if not math.isnan(value.value) else "undefined")
        low, high, kind = value.interval
        margin = (
            f"{plus_minus} {(high - low) / 2:.4f}"
            if kind == "normal"
            else escape(f"[{low:.4f}, {high:.4f}]")
        )
        return (mark(text) if line.is_best(value) else text) + (
            "" if kind == "none" else f" {margin}"
        )

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


# --------------------------------------------------------------------------------------------------

SUMMARY_FILE = "summary.csv"
SLICES_FILE = "slices.csv"


def save_all(results: Sequence[Result], folder: Path) -> list[Path]:
    """Write each result as NAME.json, its values per user, if kept, beside it, and `summary.csv`:
    all of them, or none.

    The files of the results come first in the answer, in order, then the summary, then `slices.csv`
    if there are slices. Values per user that are in Spark are written by Spark, as folders in the
    place of files; what stood in their place is replaced."""
    places = places_of([result.name for result in results], folder)
    kept = {
        place: getattr(result, "per_user_table", None) for result, place in zip(results, places)
    }
    in_spark = {place: table for place, table in kept.items() if table is not None}
    files: dict[Path, Writer] = {}
    for result, place in zip(results, places):
        files |= result_files(result, place, external=["per_user"] if place in in_spark else [])
    text = to_csv(results)
    files[folder / SUMMARY_FILE] = lambda file: file.write(text.encode())
    places.append(folder / SUMMARY_FILE)
    if any(result.slices is not None for result in results):
        of_groups = slices_to_csv(results)
        files[folder / SLICES_FILE] = lambda file: file.write(of_groups.encode())
        places.append(folder / SLICES_FILE)
    with _written_by_spark(
        {table_path(place, "per_user"): table for place, table in in_spark.items()}
    ):
        write_files(files)
    return places


def places_of(names: Sequence[str], folder: Path) -> list[Path]:
    """Where the results of these models are written."""
    return [folder / f"{name}.json" for name in file_names(names)]


@contextmanager
def _written_by_spark(tables: Mapping[Path, Any]) -> Iterator[None]:
    """Tables of Spark, as folders of Parquet: in their places when all is well behind the block, or
    nowhere.
    """
    written: dict[Path, Path] = {}
    try:
        for place, table in tables.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            written[place] = (
                Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name[:40]}.")) / place.name
            )
            table.write.parquet(f"file://{written[place].absolute()}")
            if not any(written[place].glob("*.parquet")):
                raise InputError(
                    f"{place}: Spark wrote the values per user, but they are not here: each "
                    "machine wrote to a disk of its own. "
                    "Give a folder that all machines share."
                )
        yield
        for place, folder in written.items():
            if place.is_dir():
                shutil.rmtree(place)
            place.unlink(missing_ok=True)
            folder.rename(place)
    finally:
        for folder in written.values():
            shutil.rmtree(folder.parent)


# Names that mean a device on Windows, whatever follows the first dot.
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|\Z)", re.IGNORECASE)


def file_names(names: Sequence[str]) -> list[str]:
    """A safe name for the file of each model: one folder, every system, no two alike, even where
    case does not count.

    >>> file_names(["als", "a/b", "../x", "ALS", ""])
    ['als', 'a_b', '_x', 'ALS-2', 'model']
    """
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        safe = re.sub(r"[^\w.+=@-]+", "_", unicodedata.normalize("NFC", name)).lstrip(".-")
        safe = (
            safe.encode()[:100].decode(errors="ignore").rstrip(".") or "model"
        )  # file systems count bytes
        safe = f"_{safe}" if _DEVICES.match(safe) else safe
        unique, copy = safe, 2
        while unique.casefold() in taken:
            unique, copy = f"{safe}-{copy}", copy + 1
        taken.add(unique.casefold())
        found.append(unique)
    return found
