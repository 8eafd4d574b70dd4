"""Pipes in the place of files: `<(zcat x.gz)`, `/dev/stdin`, named pipes."""

from __future__ import annotations

import shutil
import stat
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.data.readers.file_settings import File
from weft.errors import InputError


class PipeBuffer:
    """The content of a pipe as a temporary file, which is removed with this object.

    A pipe can be read once, but a file is read several times, the last time for the lines of rows
    in messages.
    """

    def __init__(self, path: Path) -> None:
        folder = tempfile.mkdtemp(prefix="weft-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.plain = Path(folder) / "pipe"
        with path.open("rb") as source, self.plain.open("wb") as sink:
            shutil.copyfileobj(source, sink)


def is_pipe(path: Path) -> bool:
    """True for a pipe or another file that can be read once, such as a terminal."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # a reader reports that there is no such file
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def read_pipe(path: Path, where: str) -> PipeBuffer | None:
    """Return the content of a pipe, None for other files; `where` names the data in messages.

    Raises `InputError` for errors of the system.
    """
    if not is_pipe(path):
        return None
    try:
        return PipeBuffer(path)
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror}.") from None


def check_pipes(inputs: Mapping[str, Any]) -> None:
    """Raise `InputError` if two inputs are the same pipe: nothing would be left for the second."""
    names: dict[tuple[int, int], str] = {}
    for name, data in inputs.items():
        path = data.path if isinstance(data, File) else data
        if not isinstance(path, (str, Path)) or not is_pipe(Path(path)):
            continue
        status = Path(path).stat()
        other = names.setdefault((status.st_dev, status.st_ino), name)
        if other != name:
            raise InputError(
                f"{other} and {name} are the same pipe ({path}), which can be read only once. Use "
                "a separate pipe for each, or a file."
            )
