"""Writing the results of a run to a folder: one JSON file per model, and summaries."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.evaluation.atomic_files import FolderWriter, Writer, text_writer, write_files
from weft.evaluation.result import Result
from weft.evaluation.result_io import result_files, table_path
from weft.report.result_formats import slices_to_csv, to_csv

SUMMARY_FILE = "summary.csv"
SLICES_FILE = "slices.csv"
_NAME_BYTES = 100
# Names of devices on Windows, also with an extension.
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|\Z)", re.IGNORECASE)


def save_results(
    results: Sequence[Result],
    folder: Path,
    *,
    report: Mapping[Path, str] | None = None,
    guard_formulas: bool = True,
) -> list[Path]:
    """Write each result as NAME.json with its values per user, and `summary.csv`; all or nothing.

    Returns the paths of the results in order, then of the summary, then of `slices.csv` if there
    are slices. `report` is the text of a report by its path, which is written with them.
    `guard_formulas` is that of `csv_table`. Values per user that are in Spark are written by Spark,
    as folders of Parquet files that replace existing ones.
    """
    paths = result_paths([result.name for result in results], folder)
    files: dict[Path, Writer] = {}
    folders: dict[Path, FolderWriter] = {}
    for result, path in zip(results, paths):
        table = getattr(result, "per_user_table", None)
        spark_folders = {} if table is None else {"per_user": _spark_writer(table, path)}
        own_files, own_folders = result_files(result, path, spark_folders)
        files |= own_files
        folders |= own_folders
    summaries = {folder / SUMMARY_FILE: text_writer(to_csv(results, guard_formulas=guard_formulas))}
    if any(result.slices is not None for result in results):
        slices = slices_to_csv(results, guard_formulas=guard_formulas)
        summaries[folder / SLICES_FILE] = text_writer(slices)
    pages = {path: text_writer(text) for path, text in (report or {}).items()}
    write_files(files | summaries | pages, folders)
    return [*paths, *summaries]


def result_paths(names: Sequence[str], folder: Path) -> list[Path]:
    """Return the path of each model's result file."""
    return [folder / f"{name}.json" for name in file_names(names)]


def _spark_writer(table: Any, path: Path) -> FolderWriter:
    """Return a function that lets Spark write the values per user of the result at `path`.

    It raises `InputError` if the files are not on this machine.
    """

    def write(folder: Path) -> None:
        table.write.parquet(f"file://{folder.absolute()}")
        if not any(folder.glob("*.parquet")):
            raise InputError(
                f"{table_path(path, 'per_user')}: Spark wrote the values per user, but they are "
                "not on this machine: each machine wrote to its own disk. Give a folder that all "
                "machines share."
            )

    return write


def file_names(names: Sequence[str]) -> list[str]:
    """Return a file name for each model that is valid on every system, unique regardless of case.

    Names of the summaries are not used.

    >>> file_names(["als", "a/b", "../x", "ALS", "", "summary"])
    ['als', 'a_b', '_x', 'ALS-2', 'model', 'summary-2']
    """
    unique_names: list[str] = []
    used = {Path(file).stem for file in (SUMMARY_FILE, SLICES_FILE)}
    for name in names:
        safe = re.sub(r"[^\w.+=@-]+", "_", unicodedata.normalize("NFC", name)).lstrip(".-")
        safe = safe.encode()[:_NAME_BYTES].decode(errors="ignore").rstrip(".") or "model"
        safe = f"_{safe}" if _DEVICES.match(safe) else safe
        unique, copy = safe, 2
        while unique.casefold() in used:
            unique, copy = f"{safe}-{copy}", copy + 1
        used.add(unique.casefold())
        unique_names.append(unique)
    return unique_names
