"""Resolve a path to files (folders of part files, glob patterns) and unpack compressed ones."""

from __future__ import annotations

import bz2
import codecs
import difflib
import glob
import gzip
import lzma
import re
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.data.readers.pipes import PipeBuffer
from weft.data.readers.scans import catch_panics, scan_lines
from weft.errors import InputError, hint_url, plain_text

HEAD_BYTES = 1 << 16  # read to detect the layout of a file
_CHUNK_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 22  # of a longer first line
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
        """Return the first 64 KiB of the content, and more if they are less than a line."""
        with self.plain.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
            return head if b"\n" in head else head + stream.readline(_MAX_LINE_BYTES)

    def chunks(self) -> Iterator[bytes]:
        """Yield the content in pieces of 1 MiB."""
        with self.plain.open("rb") as stream:
            yield from iter(lambda: stream.read(_CHUNK_BYTES), b"")

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


@contextmanager
def open_parts(path: Path, where: str, pipe: PipeBuffer | None = None) -> Iterator[list[PartFile]]:
    """Provide the files of a path; compressed ones are unpacked into a temporary folder.

    They are unpacked once because a file is read up to three times (each column of strings, then
    all columns), and because its layout and row errors need plain bytes. `where` names the data in
    messages; `pipe` is the content of a path that is a pipe.
    """
    folder = _TemporaryFolder()
    try:
        parts = [PartFile(part, part) for part in ([] if pipe else find_files(path, where))]
        parts += [PartFile(path, pipe.plain)] if pipe else []
        yield [
            _open_part(part, folder.path / str(number), where) for number, part in enumerate(parts)
        ]
    finally:
        shutil.rmtree(folder.path, ignore_errors=True)


class _TemporaryFolder:
    """A folder that is removed with this object, if an interrupt stopped its removal before."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="weft-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def find_files(path: Path, where: str) -> list[Path]:
    """Return the file, the files of a folder, or the files that match a pattern, sorted."""
    try:
        if path.is_dir():
            return _files_of_folder(path, where)
        if path.exists():
            return [path]
        matches = sorted(map(Path, glob.glob(str(path)))) if glob.has_magic(str(path)) else []
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: no name that a file can have
        raise _cannot_read(path, where, error) from None
    matches = [match for match in matches if match.is_file()]
    if matches:
        return matches
    hint = hint_url(path) or _similar_path(path)
    raise InputError(f"{_label(where, path)}: there is no such file.{hint}")


def _files_of_folder(folder: Path, where: str) -> list[Path]:
    entries = sorted(folder.iterdir())
    files = [entry for entry in entries if entry.is_file() and entry.name[0] not in "._"]
    if files:
        return files
    folders = [entry.name for entry in entries if entry.is_dir()]
    shown = ", ".join(folders[:3]) + (", ..." if len(folders) > 3 else "")
    hint = f" It has folders ({shown}); to read their files, give {folder}/*/*" if folders else ""
    raise InputError(
        f"{_label(where, folder)}: this is a folder with no file to read (names that start with "
        f". or _ are ignored).{hint}"
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


def _cannot_read(path: Path, where: str, error: OSError | ValueError) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, PermissionError):
        reason = "you have no permission to read it"
    return InputError(f"{_label(where, path)} cannot be read: {reason}.")


def find_compression(start: bytes) -> str:
    """Return the compression of a file by its first bytes; empty if it has none."""
    return next((kind for magic, kind in _COMPRESSIONS.items() if start.startswith(magic)), "")


def _open_part(part: PartFile, target: Path, where: str) -> PartFile:
    """Return the part with plain content, which is written to `target` if it has to be changed."""
    path = part.path
    try:
        with part.plain.open("rb") as stream:
            start = stream.read(16)
    except OSError as error:
        raise _cannot_read(path, where, error) from None
    if not start:
        raise InputError(f"{_label(where, path)} is empty.")
    part = _link_readable(part, target)
    for magic, kind in _UNSUPPORTED.items():
        if start.startswith(magic):
            raise InputError(
                f"{_label(where, path)} is {kind}, which is not supported; expected UTF-8 text or "
                "Parquet, uncompressed or compressed with gzip, bzip2, xz or zstd."
            )
    if compression := find_compression(start):
        _unpack(part.plain, target, _label(where, path), compression)
        part = PartFile(path, target)
    return _repair_text(part, target.with_name(f"{target.name}-text"))


def _link_readable(part: PartFile, target: Path) -> PartFile:
    """Return the part; a link next to `target` if its name is not UTF-8, which polars needs."""
    if plain_text(part.plain) == str(part.plain):
        return part
    link = target.with_name(f"{target.name}-link")
    link.symlink_to(part.plain.absolute())
    return PartFile(part.path, link)


def _repair_text(part: PartFile, target: Path) -> PartFile:
    """Return the part; its text is rewritten as `target` if polars would misread it.

    Polars removes one CR of lines that end in CR CR LF (converted twice), so that the other would
    become a part of the last field; it does not know lines that end in CR alone (old Macs), nor the
    byte order mark of JSON.
    """
    head = part.head()
    if head.startswith(b"PAR1"):
        return part
    has_mark = head.startswith(codecs.BOM_UTF8) and head[3:].lstrip()[:1] == b"{"
    is_old_mac = b"\r" in head and _has_no_line_feed(part)
    if not (has_mark or is_old_mac or b"\r\r\n" in head):
        return part
    with part.plain.open("rb") as source, target.open("wb") as sink:
        source.seek(len(codecs.BOM_UTF8) if has_mark else 0)
        if is_old_mac:
            pieces = iter(lambda: source.read(_CHUNK_BYTES).replace(b"\r", b"\n"), b"")
            sink.writelines(pieces)
        else:
            sink.writelines(_EXTRA_RETURNS.sub(b"\n", line) for line in source)
    return PartFile(part.path, target)


def _has_no_line_feed(part: PartFile) -> bool:
    """True if no line of the content ends in LF."""
    return not any(b"\n" in chunk for chunk in part.chunks())


def _unpack(path: Path, target: Path, label: str, compression: str) -> None:
    """Write the uncompressed content of a file to `target`."""
    import polars as pl

    try:
        if compression == "Zstandard":
            _unpack_lines(path, target)
        else:
            with _OPENERS[compression](path, "rb") as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink, _CHUNK_BYTES)
    except (EOFError, OSError, zlib.error, lzma.LZMAError, pl.exceptions.PolarsError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # an error of the disk
            raise InputError(f"{label} cannot be decompressed: {error.strerror}.") from None
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{label} is a {compression} file that is truncated or damaged ({reason}); write or "
            "download it again."
        ) from None
    if target.stat().st_size == 0:
        raise InputError(f"{label} is empty.")


def _unpack_lines(path: Path, target: Path) -> None:
    """Unpack text with polars: the standard library has no Zstandard before Python 3.14."""
    import polars as pl

    try:
        with catch_panics():
            scan_lines(path).sink_csv(target, include_header=False, quote_style="never")
    except pl.exceptions.NoDataError:
        target.touch()
