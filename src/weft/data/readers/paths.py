"""Which files a path means, and their bytes: folders of parts, patterns, compression."""

from __future__ import annotations

import bz2
import difflib
import glob
import gzip
import lzma
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import InputError

# What a file starts with tells how it is packed; names may lie.
_PACKED: dict[bytes, tuple[str, Callable[..., Any] | None]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"BZh": ("bzip2", bz2.open),
    b"\xfd7zXZ\x00": ("xz", lzma.open),
    b"\x28\xb5\x2f\xfd": ("Zstandard", None),
}
_NOT_READ = {
    b"PK\x03\x04": "a ZIP archive, or a spreadsheet",
    b"7z\xbc\xaf": "a 7z archive",
    b"\x04\x22\x4d\x18": "LZ4",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
    b"ARROW1": "an Arrow file",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy array",
}
_ENOUGH = 1 << 16  # bytes from which a layout is recognised


@dataclass(frozen=True)
class PartFile:
    """One file: its own path, and where its bytes can be read as they were before they were packed."""

    path: Path
    plain: Path

    def head(self) -> bytes:
        """The first bytes."""
        with self.plain.open("rb") as stream:
            return stream.read(_ENOUGH)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Each line with its number, from 1. A line that is not UTF-8 is an error."""
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


@contextmanager
def open_parts(path: Path, where: str) -> Iterator[list[PartFile]]:
    """The files that a path means, unpacked into a temporary folder if they are packed. `where`
    says whose they are.
    """
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        yield [
            _unpacked(part, Path(folder) / str(number), where)
            for number, part in enumerate(find_files(path, where))
        ]


def find_files(path: Path, where: str) -> list[Path]:
    """The files that a path means, in order: a file, those of a folder, those that a pattern fits."""
    try:
        if path.is_dir():
            return _inside(path, where)
        if path.exists():
            return [path]
        found = sorted(map(Path, glob.glob(str(path)))) if glob.has_magic(str(path)) else []
    except OSError as error:
        raise _refused(path, where, error) from None
    found = [one for one in found if one.is_file()]
    if found:
        return found
    raise InputError(f"{_of(where, path)}: there is no such file.{_near(path)}")


def _inside(folder: Path, where: str) -> list[Path]:
    inside = sorted(folder.iterdir())
    parts = [one for one in inside if one.is_file() and not one.name.startswith((".", "_"))]
    if parts:
        return parts
    deeper = [one.name for one in inside if one.is_dir()]
    what = (
        f"only folders ({', '.join(deeper[:3])}); give a pattern: {folder}/*/*"
        if deeper
        else "no file"
    )
    raise InputError(
        f"{_of(where, folder)}: this is a folder with {what} to read (names that start with . or _ "
        "do not count)."
    )


def _near(path: Path) -> str:
    """What else there is of a similar name."""
    try:
        names = [one.name for one in path.parent.iterdir()]
    except OSError:
        return f" There is no folder {path.parent} either." if not path.parent.exists() else ""
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f" Did you mean {str(path.parent / close[0])!r}?" if close else ""


def _of(where: str, path: Path) -> str:
    """What is read, with the path of the part if that is not said yet."""
    return where if str(path) in where else f"{where}: {path}"


def _refused(path: Path, where: str, error: OSError) -> InputError:
    why = (
        "you have no permission to read it"
        if isinstance(error, PermissionError)
        else error.strerror or str(error)
    )
    return InputError(f"{_of(where, path)} cannot be read: {why}.")


def _unpacked(path: Path, target: Path, where: str) -> PartFile:
    try:
        with path.open("rb") as stream:
            start = stream.read(16)
    except OSError as error:
        raise _refused(path, where, error) from None
    if not start:
        raise InputError(f"{_of(where, path)} is empty.")
    if what := next((what for magic, what in _NOT_READ.items() if start.startswith(magic)), None):
        raise InputError(
            f"{_of(where, path)} is {what}, which is not read here; expected UTF-8 text or "
            "Parquet, as it is or packed by gzip, "
            "bzip2, xz or zstd."
        )
    packed = next(
        ((name, opener) for magic, (name, opener) in _PACKED.items() if start.startswith(magic)),
        None,
    )
    if packed is None:
        return PartFile(path, path)
    name, opener = packed
    target = target.with_suffix(path.with_suffix("").suffix)
    try:
        if opener is None:
            _unpack_zstd(path, target)
        else:
            with opener(path, "rb") as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
    except (EOFError, OSError, zlib.error, lzma.LZMAError, InputError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's, not the data's
            raise InputError(f"{_of(where, path)} cannot be unpacked: {error.strerror}.") from None
        raise InputError(
            f"{_of(where, path)} is packed by {name}, but it ends too early or is damaged "
            f"({error}); make or fetch it again."
        ) from None
    if target.stat().st_size == 0:
        raise InputError(f"{_of(where, path)} is empty.")
    return PartFile(path, target)


def _unpack_zstd(path: Path, target: Path) -> None:
    """By Python where it can (from 3.14 on), else line by line by polars, which can read packed
    text.
    """
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        _unpack_text_by_polars(path, target)
        return
    with zstd.open(path, "rb") as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)


def _unpack_text_by_polars(path: Path, target: Path) -> None:
    import polars as pl

    try:
        lines = pl.scan_csv(
            path, has_header=False, separator="\x1f", quote_char=None, schema={"line": pl.String}
        )
        lines.sink_csv(target, include_header=False, quote_style="never")
    except pl.exceptions.NoDataError:
        target.touch()
    except pl.exceptions.PolarsError as error:
        raise InputError(str(error).partition("\n")[0]) from None
