"""Atomic writing of one or several files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from weft.errors import InputError

_LINKS_FOLLOW = os.link not in os.supports_follow_symlinks  # where the system leaves no choice
Writer = Callable[[IO[bytes]], Any]  # writes the content of a file


def write_files(files: Mapping[Path, Writer]) -> None:
    """Write all files or none. Each is written to a temporary file in its folder, then moved.

    Missing folders are created. If anything fails, earlier versions of the files are restored and
    everything that was created is removed. An `OSError` becomes an `InputError` with the path.
    """
    temporary: dict[Path, Path] = {}
    backups: dict[Path, Path] = {}
    moved: list[Path] = []
    new_folders: list[Path] = []
    path = next(iter(files))
    try:
        for path, write in files.items():
            _make_folders(path, new_folders)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
            temporary[path] = Path(name)
            with os.fdopen(handle, "wb") as file:
                write(file)
            os.chmod(name, 0o666 & ~_umask())
        for path, source in temporary.items():
            if path.is_dir():
                raise IsADirectoryError(0, "it is a folder")
            if os.path.lexists(path):  # a link is replaced and restored itself, not its target
                backups[path] = source.with_name(f"{source.name}.old")
                os.link(path, backups[path], follow_symlinks=_LINKS_FOLLOW)
            os.replace(source, path)
            moved.append(path)
        new_folders.clear()
    except BaseException as error:
        _undo(moved, backups)
        if isinstance(error, OSError):
            raise InputError(f"{path}: cannot be written ({error.strerror}).") from None
        raise
    finally:
        for leftover in (*temporary.values(), *backups.values()):
            leftover.unlink(missing_ok=True)
        for folder in reversed(new_folders):
            with suppress(OSError):  # another process has written into it
                folder.rmdir()


def _undo(moved: Iterable[Path], backups: Mapping[Path, Path]) -> None:
    """Restore the earlier version of each moved file, or remove it if there was none."""
    for target in moved:
        if target in backups:
            os.replace(backups[target], target)
        else:
            target.unlink()


def _make_folders(path: Path, new_folders: list[Path]) -> None:
    """Create the missing parents of a path, and append each to `new_folders`."""
    for folder in reversed([folder for folder in path.parents if not folder.exists()]):
        folder.mkdir(exist_ok=True)
        new_folders.append(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
