"""Writing the results of a run to a folder: one JSON file per model, and summaries."""

from __future__ import annotations

import re
import shutil
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.evaluation.atomic_files import Writer, write_files
from weft.evaluation.result import Result
from weft.evaluation.result_io import result_files, table_path
from weft.report.result_formats import slices_to_csv, to_csv

SUMMARY_FILE = "summary.csv"
SLICES_FILE = "slices.csv"
_NAME_BYTES = 100
# Names of devices on Windows, also with an extension.
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|\Z)", re.IGNORECASE)


def save_results(
    results: Sequence[Result], folder: Path, *, guard_formulas: bool = True
) -> list[Path]:
    """Write each result as NAME.json with its values per user, and `summary.csv`; all or nothing.

    Returns the paths of the results in order, then of the summary, then of `slices.csv` if there
    are slices. `guard_formulas` is that of `csv_table`. Values per user that are in Spark are
    written by Spark, as folders of Parquet files that replace existing ones.
    """
    paths = result_paths([result.name for result in results], folder)
    tables = {path: getattr(result, "per_user_table", None) for result, path in zip(results, paths)}
    in_spark = {
        table_path(path, "per_user"): table for path, table in tables.items() if table is not None
    }
    summaries = {
        folder / SUMMARY_FILE: _text_writer(to_csv(results, guard_formulas=guard_formulas))
    }
    if any(result.slices is not None for result in results):
        slices = slices_to_csv(results, guard_formulas=guard_formulas)
        summaries[folder / SLICES_FILE] = _text_writer(slices)
    with _spark_folders(in_spark) as written:
        files: dict[Path, Writer] = {}
        for result, path in zip(results, paths):
            table = written.get(table_path(path, "per_user"))
            external = {} if table is None else {"per_user": table}
            files |= result_files(result, path, external=external)
        write_files(files | summaries)
    return [*paths, *summaries]


def _text_writer(text: str) -> Writer:
    return lambda file: file.write(text.encode())


def result_paths(names: Sequence[str], folder: Path) -> list[Path]:
    """Return the path of each model's result file."""
    return [folder / f"{name}.json" for name in file_names(names)]


@contextmanager
def _spark_folders(tables: Mapping[Path, Any]) -> Iterator[Mapping[Path, Path]]:
    """Write Spark tables to temporary folders, and move them to their paths if the block succeeds.

    Yields the temporary folder of each path. Raises `InputError` if the files are not on this
    machine.
    """
    written: dict[Path, Path] = {}
    try:
        for path, table in tables.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            parent = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name[:40]}."))
            written[path] = parent / path.name
            table.write.parquet(f"file://{written[path].absolute()}")
            if not any(written[path].glob("*.parquet")):
                raise InputError(
                    f"{path}: Spark wrote the values per user, but they are not here: each "
                    "machine wrote to a disk of its own. Give a folder that all machines share."
                )
        yield written
        for path, folder in written.items():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            folder.rename(path)
    finally:
        for folder in written.values():
            shutil.rmtree(folder.parent)


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
