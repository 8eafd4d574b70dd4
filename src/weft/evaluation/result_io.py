"""Files of results: JSON, with the tables about users as Parquet in the same folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from weft.data.readers.json_text import parse_json
from weft.data.readers.scans import catch_panics
from weft.errors import InputError, check_path, plain_text
from weft.evaluation.atomic_files import FolderWriter, Writer
from weft.evaluation.document_fields import (
    check_list,
    check_mapping,
    check_number,
    check_present,
    check_text,
    check_whole,
    describe,
    read_file,
    reject,
)
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.resamples import Resamples
from weft.evaluation.result import FORMAT, FRAMES, VERSION, Result, frame_schema
from weft.evaluation.table_digests import digest_table, write_table

if TYPE_CHECKING:
    import polars as pl

# Tables about users, which have files of their own, and their names in messages.
_USER_TABLES = {
    "per_user": "per-user values",
    "user_labels": "labels of the users",
    "lists": "recommendation lists",
}
# Tables of resamples, which have files as well.
_RESAMPLE_TABLES = {"resamples": "bootstrap resamples", "exposure_parts": "exposures of items"}
_TABLES = _USER_TABLES | _RESAMPLE_TABLES
_NAME_BYTES = 255  # of a file, as file systems allow
_PROVENANCE = {"fingerprint", "ids", "files", "configuration"}  # fields that have fields
_DIGESTS = "digests"  # key of the tables' digests in the JSON file


def result_files(
    result: Result, path: Path, folders: Mapping[str, FolderWriter] | None = None
) -> tuple[dict[Path, Writer], dict[Path, FolderWriter]]:
    """Return the files and folders of a result that is saved as `path`, for `write_files`.

    The JSON file holds the digests of the tables, and therefore comes last. `folders` writes tables
    that become folders.
    """
    tables = {name: table for name in _USER_TABLES if (table := getattr(result, name)) is not None}
    if result.resamples is not None:
        tables |= result.resamples.to_tables()
    folders = folders or {}
    digests: dict[str, str] = {}
    document = result.to_dict()
    document |= {name: table_path(path, name).name for name in (*tables, *folders)}

    def write_document(file: IO[bytes]) -> None:
        fields = document | ({_DIGESTS: digests} if digests else {})
        text = json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        file.write(text.encode())

    def table_writer(name: str, table: pl.DataFrame) -> Writer:
        return lambda file: digests.update({name: write_table(table, file)})

    def folder_writer(name: str, write: FolderWriter) -> FolderWriter:
        def write_and_digest(folder: Path) -> None:
            write(folder)
            digests[name] = digest_table(folder)

        return write_and_digest

    files: dict[Path, Writer] = {
        path.with_name(document[name]): table_writer(name, table) for name, table in tables.items()
    }
    return files | {path: write_document}, {
        path.with_name(document[name]): folder_writer(name, write)
        for name, write in folders.items()
    }


def table_path(path: Path, table: str) -> Path:
    """Return the path of a table about users of the result that is saved as `path`."""
    return path.with_name(
        f"{path.stem}.{table}.parquet" if path.suffix == ".json" else f"{path.name}-{table}.parquet"
    )


def load_result(path: str | Path) -> Result:
    """Read a result that `Result.save` wrote.

    Tables with a row per user that are missing from the folder are None, and a note is added.
    Raises `InputError` for a file that is not a result, is incomplete, or has another version of
    the format, and for tables that were not saved with this result.

    >>> import tempfile, weft
    >>> result = weft.evaluate({"ann": ["x", "y"]}, {"ann": ["y"]}, metrics="MRR@2")
    >>> path = result.save(f"{tempfile.mkdtemp()}/als.json")
    >>> weft.load_result(path)["MRR@2"]
    0.5
    """
    path = check_path("path", path)
    document = _read_document(path)
    try:
        fields, files, digests = _read_fields(document)
    except InputError as error:
        raise InputError(f"{path}: {error} Evaluate again.") from None
    notes = fields.pop("notes")
    tables = {}
    for table, file in files.items():
        if file is None:
            continue
        found = _read_table(path.with_name(file), digests.get(table), path, table)
        if found is None:
            notes.append(
                f"{_describe_saved(table)}{file}, which is not in the folder of {path.name}"
            )
        else:
            tables[table] = found
    fields |= {name: tables[name] for name in _USER_TABLES if name in tables}
    if "resamples" in tables:
        fields["resamples"] = _read_resamples(path, document, tables, fields["entries"])
    return Result(notes=tuple(notes), **fields)


def describe_missing_table(result: Result, table: str) -> str:
    """Return the note of `load_result` about a table that was not in the folder, or ""."""
    start = _describe_saved(table)
    return next((note for note in result.notes if note.startswith(start)), "")


def _describe_saved(table: str) -> str:
    return f"the {_TABLES[table]} were saved in "


def _read_resamples(
    path: Path,
    document: Mapping[str, Any],
    tables: Mapping[str, pl.DataFrame],
    values: Sequence[MetricValue],
) -> Resamples:
    """Return the resamples of a result. Raises `InputError` for fields that are wrong."""
    try:
        resamples = Resamples.from_tables(document.get("resampling"), tables)
        for name in resamples.names:
            if name not in {value.name for value in values}:
                reject("the table of resamples", f"of {name!r}", "metrics that have a value")
        return resamples
    except InputError as error:
        raise InputError(f"{path}: {error} Evaluate again.") from None


def _read_fields(
    document: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, str | None], dict[str, str]]:
    """Return the fields of a result, the files of its tables, and their digests.

    Raises `InputError` with the name of a field that `Result.to_dict` cannot have written."""
    required = ("values", "name", "counts", "notes", "settings", "provenance", "per_user")
    check_present(document, required)
    values = _read_values(document["values"])
    counts = check_mapping(document["counts"], "counts")
    provenance = _read_provenance(document["provenance"])
    digests = check_mapping(document.get(_DIGESTS, {}), _DIGESTS)  # missing from older files
    fields = {
        "entries": values,
        "name": check_text(document["name"], "name"),
        "counts": {name: check_whole(one, f"counts[{name!r}]") for name, one in counts.items()},
        "settings": _read_settings(document["settings"]),
        "provenance": provenance,
        "notes": [check_text(one, "notes") for one in check_list(document["notes"], "notes")],
        **{
            name: _frame_from_rows(name, document[name])
            for name in FRAMES
            if document.get(name) is not None
        },
    }
    files = {name: _file_name(name, document.get(name)) for name in _TABLES}
    return fields, files, {name: check_text(digests[name], _DIGESTS) for name in digests}


def _read_values(plain: object) -> tuple[MetricValue, ...]:
    """Return the values of a result, each name once."""
    rows = check_list(plain, "values")
    values = tuple(MetricValue.from_dict(row, f"values[{n}]") for n, row in enumerate(rows))
    if len({one.name for one in values}) < len(values):
        reject("values", describe(rows), "each value once")
    return values


def _read_provenance(plain: object) -> dict[str, Any]:
    """Return the provenance, in which the fields of `_PROVENANCE` are mappings."""
    provenance = check_mapping(plain, "provenance")
    for name in _PROVENANCE & provenance.keys():
        check_mapping(provenance[name], f"provenance[{name!r}]")
    return provenance


def _read_document(path: Path) -> dict[str, Any]:
    """Read the JSON file of a result and check its format and version."""
    expected = "expected a result, as Result.save and weft evaluate --out write it"
    content = read_file(path, expected)
    try:
        document = parse_json(content.decode())
    except ValueError as error:
        raise InputError(f"{path}: this is not a JSON file ({error}); {expected}.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(
            f"{path}: this is not a Weft result; expected a file written by Result.save or weft "
            "evaluate --out."
        )
    if document.get("version") != VERSION:
        provenance = document.get("provenance")
        writer = provenance.get("weft", "unknown") if isinstance(provenance, dict) else "unknown"
        raise InputError(
            f"{path}: written in version {document.get('version')!r} of the result format, but "
            f"this Weft reads version {VERSION}; evaluate again, or use the Weft that wrote it "
            f"({writer})."
        )
    return document


def _read_settings(settings: object) -> dict[str, Any]:
    """Return the settings under their present names; older files have `correction`."""
    settings = check_mapping(settings, "settings")
    return {"estimator" if name == "correction" else name: settings[name] for name in settings}


def _file_name(table: str, name: Any) -> str | None:
    """Check that `name` is a file name without a folder, or None."""
    if name is None:
        return None
    is_name = isinstance(name, str) and name not in ("", "..") and Path(name).name == name
    if not is_name or "\0" in name or len(os.fsencode(name)) > _NAME_BYTES:
        reject(table, describe(name), "the name of a file in the same folder")
    return str(name)


def _read_table(
    path: Path, digest: str | None, result_path: Path, table: str
) -> pl.DataFrame | None:
    """Read a Parquet file, or a folder of them sorted by user; None if there is none.

    Raises `InputError` if the table has another digest than the result, unless that has none.
    """
    import polars as pl

    if not path.exists():
        return None
    try:
        if digest is not None and digest != digest_table(path):
            raise InputError(
                f"{path}: this is not the Parquet table that was saved with {result_path.name} "
                "(its digest differs); files of two results were mixed, or one was changed. "
                "Restore the original file, or evaluate again."
            )
        with catch_panics():
            if path.is_dir():
                parts = map(_read_parquet, sorted(path.glob("*.parquet")))
                return _check_table(pl.concat(parts).sort("user"), path)
            return _check_table(_read_parquet(path), path, is_about_users=table in _USER_TABLES)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"{path}: cannot be read as Parquet ({error}); remove it, or evaluate again."
        ) from None


def _check_table(table: pl.DataFrame, path: Path, *, is_about_users: bool = True) -> pl.DataFrame:
    """Return a table. Raises `InputError` if it lacks users, or has nested values."""
    if is_about_users and "user" not in table.columns:
        raise InputError(f"{path}: there is no column 'user'; expected a table of a result.")
    for name, dtype in table.schema.items():
        if dtype.is_nested():
            raise InputError(f"{path}: the column {name!r} is {dtype}; expected single values.")
    return table


def _read_parquet(path: Path) -> pl.DataFrame:
    """Read one Parquet file; polars takes paths in UTF-8 alone."""
    import polars as pl

    source = path if plain_text(path) == str(path) else path.read_bytes()
    return pl.read_parquet(source, glob=False)


def _frame_from_rows(name: str, rows: object) -> pl.DataFrame:
    """Build a table of `FRAMES` from its rows in a JSON document."""
    import polars as pl

    schema = frame_schema(name)
    checks = {pl.String: check_text, pl.Int64: _check_integer, pl.Float64: check_number}
    columns: dict[str, list[Any]] = {column: [] for column in schema}
    for number, row in enumerate(check_list(rows, name)):
        fields = check_mapping(row, f"{name}[{number}]")
        for column, dtype in schema.items():
            check_present(fields, [column], f"{name}[{number}]")
            field = f"{name}[{number}][{column!r}]"
            columns[column].append(checks[dtype](fields[column], field))
    return pl.DataFrame(columns, schema=schema)


def _check_integer(value: object, field: str) -> int | None:
    return None if value is None else check_whole(value, field, least=-(1 << 63))
