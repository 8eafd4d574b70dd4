"""Resolve a path to files (folders of part files, glob patterns) and unpack compressed ones."""

from __future__ import annotations

import bz2
import difflib
import glob
import gzip
import lzma
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import InputError

if TYPE_CHECKING:
    import polars as pl

HEAD_BYTES = 1 << 16  # read to detect the layout of a file
FIELD_SEPARATOR = "\x1f"  # a character that occurs in no text file
# Compression by the first bytes of a file; suffixes are not reliable.
_COMPRESSIONS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "Zstandard",
}
_OPENERS: dict[str, Callable[..., Any]] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
_EXTRA_RETURNS = re.compile(rb"\r+\n\Z")
_UNSUPPORTED = {
    b"PK\x03\x04": "a ZIP archive, or a spreadsheet",
    b"7z\xbc\xaf": "a 7z archive",
    b"\x04\x22\x4d\x18": "LZ4",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
    b"ARROW1": "an Arrow file",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy array",
}


@dataclass(frozen=True)
class PartFile:
    """One file of a data set: its own path, and the path of its uncompressed content."""

    path: Path
    plain: Path

    def head(self) -> bytes:
        """Return the first 64 KiB of the content."""
        with self.plain.open("rb") as stream:
            return stream.read(HEAD_BYTES)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield (line number from 1, line); raise `InputError` for a line that is not UTF-8."""
        with self.plain.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                try:
                    yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(
                        f"{self.path}, line {number}: the bytes "
                        f"{line[error.start : error.start + 4]!r} are not UTF-8. Convert the "
                        "file, for example from Latin-1: iconv -f latin1 -t utf8."
                    ) from None

    def check_encoding(self) -> None:
        """Raise `InputError` with the number of the first line that is not UTF-8."""
        for _ in self.lines():
            pass


def scan_lines(path: Path, num_skipped: int = 0) -> pl.LazyFrame:
    """Scan the lines of a text file, after `num_skipped` ones, as the column `line`."""
    import polars as pl

    return pl.scan_csv(
        path,
        has_header=False,
        skip_rows=num_skipped,
        separator=FIELD_SEPARATOR,
        quote_char=None,
        schema={"line": pl.String},
        glob=False,
    )


@contextmanager
def open_parts(path: Path, where: str) -> Iterator[list[PartFile]]:
    """Provide the files of a path; compressed ones are unpacked into a temporary folder.

    They are unpacked once because a file is read up to three times (each column of strings, then
    all columns), and because its layout and row errors need plain bytes. `where` names the data in
    messages.
    """
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        yield [
            _open_part(part, Path(folder) / str(number), where)
            for number, part in enumerate(find_files(path, where))
        ]


def find_files(path: Path, where: str) -> list[Path]:
    """Return the file, the files of a folder, or the files that match a pattern, sorted."""
    try:
        if path.is_dir():
            return _files_of_folder(path, where)
        if path.exists():
            return [path]
        matches = sorted(map(Path, glob.glob(str(path)))) if glob.has_magic(str(path)) else []
    except OSError as error:
        raise _cannot_read(path, where, error) from None
    matches = [match for match in matches if match.is_file()]
    if matches:
        return matches
    raise InputError(f"{_label(where, path)}: there is no such file.{_similar_path(path)}")


def _files_of_folder(folder: Path, where: str) -> list[Path]:
    entries = sorted(folder.iterdir())
    files = [entry for entry in entries if entry.is_file() and entry.name[0] not in "._"]
    if files:
        return files
    folders = [entry.name for entry in entries if entry.is_dir()]
    content = "no file"
    if folders:
        content = f"only folders ({', '.join(folders[:3])}); give a pattern: {folder}/*/*"
    raise InputError(
        f"{_label(where, folder)}: this is a folder with {content} to read (names that start with "
        ". or _ do not count)."
    )


def _similar_path(path: Path) -> str:
    """Return a hint at an existing path with a similar name, or an empty string."""
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f" There is no folder {path.parent} either." if not path.parent.exists() else ""
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f" Did you mean {str(path.parent / close[0])!r}?" if close else ""


def _label(where: str, path: Path) -> str:
    """Return the name of the data in messages, with the path unless it contains it."""
    return where if str(path) in where else f"{where}: {path}"


def _cannot_read(path: Path, where: str, error: OSError) -> InputError:
    reason = error.strerror or str(error)
    if isinstance(error, PermissionError):
        reason = "you have no permission to read it"
    return InputError(f"{_label(where, path)} cannot be read: {reason}.")


def _open_part(path: Path, target: Path, where: str) -> PartFile:
    try:
        with path.open("rb") as stream:
            start = stream.read(16)
    except OSError as error:
        raise _cannot_read(path, where, error) from None
    if not start:
        raise InputError(f"{_label(where, path)} is empty.")
    for magic, kind in _UNSUPPORTED.items():
        if start.startswith(magic):
            raise InputError(
                f"{_label(where, path)} is {kind}, which is not read here; expected UTF-8 text or "
                "Parquet, as it is or packed by gzip, bzip2, xz or zstd."
            )
    for magic, compression in _COMPRESSIONS.items():
        if start.startswith(magic):
            target = target.with_suffix(path.with_suffix("").suffix)
            _unpack(path, target, _label(where, path), compression)
            return _repair_line_ends(
                PartFile(path, target), target.with_name(f"{target.name}-lines")
            )
    return _repair_line_ends(PartFile(path, path), target)


def _repair_line_ends(part: PartFile, target: Path) -> PartFile:
    """Write lines that end in CR CR LF (converted twice) to `target` with LF; return the part.

    Polars removes one CR alone, and the other would become a part of the last field.
    """
    head = part.head()
    if b"\r\r\n" not in head or head.startswith(b"PAR1"):
        return part
    with part.plain.open("rb") as source, target.open("wb") as sink:
        sink.writelines(_EXTRA_RETURNS.sub(b"\n", line) for line in source)
    return PartFile(part.path, target)


def _unpack(path: Path, target: Path, label: str, compression: str) -> None:
    """Write the uncompressed content of a file to `target`."""
    import polars as pl

    try:
        if compression == "Zstandard":
            _unpack_lines(path, target)
        else:
            with _OPENERS[compression](path, "rb") as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
    except (EOFError, OSError, zlib.error, lzma.LZMAError, pl.exceptions.PolarsError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # an error of the disk
            raise InputError(f"{label} cannot be unpacked: {error.strerror}.") from None
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{label} is packed by {compression}, but it ends too early or is damaged ({reason}); "
            "make or fetch it again."
        ) from None
    if target.stat().st_size == 0:
        raise InputError(f"{label} is empty.")


def _unpack_lines(path: Path, target: Path) -> None:
    """Unpack text with polars: the standard library has no Zstandard before Python 3.14."""
    import polars as pl

    try:
        scan_lines(path).sink_csv(target, include_header=False, quote_style="never")
    except pl.exceptions.NoDataError:
        target.touch()
