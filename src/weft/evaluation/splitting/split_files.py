"""Writing of the parts of a split, with their manifest."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import polars as pl

from weft._choices import SplitFormat, choices
from weft.data.readers.layouts import FileLayout
from weft.data.readers.scans import catch_panics
from weft.data.readers.text_rows import is_csv_separator
from weft.errors import InputError, check_choice, check_path, setting_ref
from weft.evaluation.atomic_files import Writer, write_files
from weft.evaluation.splitting.manifest import MANIFEST_NAME, SplitManifest, read_manifest
from weft.evaluation.splitting.split_input import SplitInput, digest_files, filter_rows

if TYPE_CHECKING:
    from weft.evaluation.splitting.split import Split, SplitPart

WriteRows = Callable[[pl.LazyFrame, IO[bytes]], None]
_COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst", ".zstd")


def save_split(
    split: Split, folder: str | Path, *, format_: str | None, overwrite: bool
) -> list[Path]:
    """Write all parts and the manifest, or nothing; return the paths, the manifest last."""
    folder = check_path("folder", folder)
    suffix, rows, write = _choose_format(split.data, format_)
    paths = [folder / f"{part.place}{suffix}" for part in split.parts]
    manifest = folder / MANIFEST_NAME
    stale = _check_replaceable([*paths, manifest], overwrite=overwrite)
    _check_input_stays(split.data, [*paths, *stale])
    entries: dict[SplitPart, dict[str, Any]] = {}

    def write_part(file: IO[bytes], part: SplitPart) -> None:
        path = Path(file.name)
        _write_rows(filter_rows(rows, part.mask), file, write, path.name)
        file.flush()
        entries[part] = {"file": path.name, "digest": digest_files([path])}

    def write_manifest(file: IO[bytes]) -> None:
        files = [entries[part] | entry for part, entry in zip(split.parts, split.manifest["files"])]
        text = json.dumps({**split.manifest, "files": files}, indent=2, ensure_ascii=False)
        file.write(f"{text}\n".encode())

    writers: dict[Path, Writer] = {
        path: partial(write_part, part=part) for path, part in zip(paths, split.parts)
    }
    write_files({**writers, manifest: write_manifest})
    for path in stale:
        path.unlink(missing_ok=True)
    return [*paths, manifest]


def _check_replaceable(paths: list[Path], *, overwrite: bool) -> list[Path]:
    """Return files of an earlier split in the folder that the new split does not have.

    Raises `InputError` if files would be replaced without `overwrite`.
    """
    existing = [path for path in paths if path.exists()]
    if existing and not overwrite:
        raise InputError(
            f"{existing[0]} exists already; give another folder, or replace the files of the "
            f"earlier split: {setting_ref('overwrite', True)}."
        )
    manifest = paths[-1]
    if manifest not in existing:
        return []
    earlier: SplitManifest = read_manifest(manifest)
    listed = [manifest.with_name(Path(entry["file"]).name) for entry in earlier.content["files"]]
    return [path for path in listed if path not in paths]


def _check_input_stays(data: SplitInput, replaced: list[Path]) -> None:
    """Raise `InputError` if the data itself would be replaced or removed."""
    inputs = {path.resolve() for path in data.paths}
    for path in replaced:
        if path.resolve() in inputs:
            raise InputError(
                f"{path}: this is the input file, which would be overwritten; give another folder."
            )


def _write_rows(frame: pl.LazyFrame, file: IO[bytes], write: WriteRows, place: str) -> None:
    try:
        with catch_panics():
            write(frame, file)
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{place}: cannot be written ({reason}).") from None


# --------------------------------------------------------------------------------------------------


def _choose_format(data: SplitInput, format_: str | None) -> tuple[str, pl.LazyFrame, WriteRows]:
    """Return the suffix of the files, the rows with their columns, and the function that writes."""
    if format_ is not None:
        format_ = check_choice("format", format_, choices(SplitFormat))
    layout = data.layout
    if layout is None or layout.format in ("json", "parquet") or format_ is not None:
        default = "jsonl" if layout is not None and layout.format == "json" else "parquet"
        chosen = format_ or default
        return f".{chosen}", data.typed, _WRITERS[chosen]
    if layout.format == "jsonl":
        return ".jsonl", data.verbatim, _WRITERS["jsonl"]
    return _text_suffix(data), data.verbatim, partial(_write_text, layout=layout)


def _text_suffix(data: SplitInput) -> str:
    """Return the suffix of the text file that was read, without that of its compression."""
    assert data.path is not None and data.layout is not None
    suffixes = [name for name in data.path.suffixes if name.lower() not in _COMPRESSIONS]
    is_one_file = len(data.paths) == 1 and suffixes and data.path.is_file()
    default = ".tsv" if data.layout.separator == "\t" else ".csv"
    return suffixes[-1] if is_one_file else default


def _write_text(frame: pl.LazyFrame, file: IO[bytes], layout: FileLayout) -> None:
    """Write text with the separator and the header of the file that was read."""
    separator = layout.separator
    if is_csv_separator(separator):
        frame.sink_csv(
            file,
            include_header=layout.has_header and not layout.trec,
            separator=separator,
            maintain_order=True,
        )
        return
    if layout.has_header:
        file.write(f"{separator.join(layout.names)}\n".encode())
        file.flush()
    columns = [pl.col(name).cast(pl.String).fill_null("") for name in frame.collect_schema()]
    lines = frame.select(line=pl.concat_str(columns, separator=separator))
    lines.sink_csv(file, include_header=False, quote_style="never", maintain_order=True)


def _write_csv(frame: pl.LazyFrame, file: IO[bytes], separator: str) -> None:
    frame.sink_csv(file, separator=separator, maintain_order=True)


_WRITERS: dict[str, WriteRows] = {
    "csv": partial(_write_csv, separator=","),
    "tsv": partial(_write_csv, separator="\t"),
    "parquet": lambda frame, file: frame.sink_parquet(file, maintain_order=True),
    "jsonl": lambda frame, file: frame.sink_ndjson(file, maintain_order=True),
}
