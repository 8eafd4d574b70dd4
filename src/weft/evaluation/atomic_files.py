"""Atomic writing of files: those of one folder are a set.

A set is written to a stage, which is a hidden folder on the same file system, and becomes visible
by one rename:

- in a new folder, by renaming the folder;
- as a single file, by renaming the file;
- as several files of an existing folder, by renaming the link `current` of the stage. Each visible
  file is replaced by a link through `current`, which leads to the old files and then to the new
  ones. At the end the files take the places of the links.

`_Stage.settle` ends each of these, wherever it stopped. If a process is killed, the next one that
writes to the folder settles for it; until then, links show the old files or the new ones. Without
symbolic links, files are replaced one after another, which only a killed process leaves mixed.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from weft.errors import InputError

try:
    import fcntl
except ImportError:  # Windows, where stages of killed processes stay
    fcntl = None  # type: ignore[assignment]

HIDDEN_FOLDER = ".weft-writing"  # the folder of the stages
_UP = os.path.join("..", "..", "..", "")  # from the old files of a stage to those that are visible

Writer = Callable[[IO[bytes]], Any]  # writes the content of a file
FolderWriter = Callable[[Path], Any]  # creates a folder at a path


def text_writer(text: str) -> Writer:
    """Return a function that writes a text."""
    return lambda file: file.write(text.encode())


def write_files(
    files: Mapping[Path, Writer], folders: Mapping[Path, FolderWriter] | None = None
) -> None:
    """Write all files of a folder, or none; several folders one after another.

    `folders` are written before the files; they may replace folders, which files never do. Missing
    parents are created. After an exception a parent is as it was before, or complete if an
    interrupt came at the end. An `OSError` becomes an `InputError` with the path.
    """
    folders = folders or {}
    parents = {path: Path(os.path.realpath(path.parent)) for path in (*folders, *files)}
    for parent in dict.fromkeys(parents.values()):
        _write_set(
            parent,
            {path: write for path, write in files.items() if parents[path] == parent},
            {path: write for path, write in folders.items() if parents[path] == parent},
        )


def _write_set(
    folder: Path, files: Mapping[Path, Writer], folders: Mapping[Path, FolderWriter]
) -> None:
    """Write all files and folders of a folder, or none."""
    paths = [*folders, *files]
    is_written = False
    while not is_written:
        stage = _Stage(folder)
        try:
            try:
                with _named_errors(paths[0]):
                    if stage.claim():
                        _fill(stage.content, files, folders)
                        is_written = stage.show([path.name for path in paths])
            finally:
                stage.close()
        finally:
            stage.close()  # once more, in case an interrupt came before the first was done


def _fill(
    content: Path, files: Mapping[Path, Writer], folders: Mapping[Path, FolderWriter]
) -> None:
    """Write everything to the folder `content` of a stage."""
    for path, write_folder in folders.items():
        with _named_errors(path):
            write_folder(content / path.name)
    for path, write in files.items():
        with _named_errors(path):
            with (content / path.name).open("xb") as file:
                write(file)
            if path.is_dir() and not path.is_symlink():
                raise IsADirectoryError(0, "it is a folder")


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` into an `InputError` that names the path."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}).") from None


class _Stage:
    """A hidden folder for new files, `content`, which it puts in their places.

    It has the folders `old` and `new`, the link `current` to one of them while visible files are
    links, and the file `lock`, which is locked as long as its process lives.
    """

    def __init__(self, folder: Path, name: str | None = None) -> None:
        missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        self._missing = missing[-1] if missing else None
        self._folder = self._missing.parent if self._missing else folder
        self._path = self._folder / HIDDEN_FOLDER / (name or secrets.token_hex(8))
        self._old, self._new = self._path / "old", self._path / "new"
        self._current = self._path / "current"
        self._lock: IO[bytes] | None = None
        self.content = self._new / folder.relative_to(self._missing or folder)

    def claim(self) -> bool:
        """Create the stage, and settle those of processes that were killed.

        Returns False if another process removed it in the meantime.
        """
        stages = self._path.parent
        if stages.is_symlink():
            raise NotADirectoryError(0, f"{stages} is a link; remove it")
        with suppress(FileExistsError):
            stages.mkdir()
            shutil.copymode(self._folder, stages)  # for all who may write to the folder
        try:
            for name in os.listdir(stages):
                _Stage(self._folder, name).settle_if_abandoned()
            self._path.mkdir()
            self._old.mkdir()
            self.content.mkdir(parents=True)
            self._take_lock()
        except (FileNotFoundError, BlockingIOError):
            return False
        return self._path.exists()

    def _take_lock(self) -> bool:
        """Lock the stage; return False if there are no locks here.

        Raises `BlockingIOError` if another process has locked it.
        """
        if fcntl is None:
            return False
        self._lock = (self._path / "lock").open("ab")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            return False
        return True

    def settle_if_abandoned(self) -> None:
        """Settle the stage of another process if that was killed."""
        with suppress(OSError):  # it lives, or it belongs to another user
            if self._take_lock():
                self.settle()
        self._unlock()

    def close(self) -> None:
        """Settle and unlock the stage."""
        with _named_errors(self._path):
            self.settle()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def show(self, names: Sequence[str]) -> bool:
        """Make the files of these names visible.

        Returns False if another process has created the folder in the meantime.
        """
        if self._missing is not None:
            try:
                self._new.rename(self._missing)
            except OSError:
                if self._missing.exists():
                    return False
                raise
        elif len(names) == 1:
            os.replace(self._new / names[0], self._folder / names[0])
        else:
            self._replace(names)
        return True

    def _replace(self, names: Sequence[str]) -> None:
        """Replace several files at once, or one after another if there are no links."""
        try:
            self._current.symlink_to("old")
        except (OSError, NotImplementedError):
            self._replace_one_by_one(names)
            return
        link = self._path / "link"
        for name in names:
            self._keep_old(name)
            link.symlink_to(self._link_text(name))
            os.replace(link, self._folder / name)
        link.symlink_to("new")
        os.replace(link, self._current)

    def _keep_old(self, name: str) -> None:
        """Add the visible file of a name, if there is one, to the old files."""
        path, old = self._folder / name, self._old / name
        if path.is_symlink():
            old.symlink_to(os.path.join(_UP, path.readlink()))
        elif path.is_dir():
            path.rename(old)
        elif path.exists():
            try:
                os.link(path, old)
            except OSError:  # a file of another user, or a file system without hard links
                shutil.copy2(path, old)

    def _link_text(self, name: str) -> str:
        return os.path.join(HIDDEN_FOLDER, self._path.name, "current", name)

    def _replace_one_by_one(self, names: Sequence[str]) -> None:
        replaced = []
        try:
            for name in names:
                replaced.append(name)
                with suppress(FileNotFoundError):
                    os.replace(self._folder / name, self._old / name)
                os.replace(self._new / name, self._folder / name)
        except BaseException:
            for name in replaced:
                if not os.path.lexists(self._new / name):
                    os.replace(self._folder / name, self._new / name)
                with suppress(FileNotFoundError):
                    os.replace(self._old / name, self._folder / name)
            raise

    def settle(self) -> None:
        """Put the files that links show in the places of the links, and remove the stage."""
        side = os.readlink(self._current) if self._current.is_symlink() else None
        if side in ("old", "new"):
            for name in {*os.listdir(self._old), *os.listdir(self._new)}:
                self._settle_file(name, self._path / side / name)
            self._current.unlink()
        if self._path.exists():
            shutil.rmtree(self._path)
        with suppress(OSError):  # it has stages of other processes, or does not exist
            self._path.parent.rmdir()

    def _settle_file(self, name: str, shown: Path) -> None:
        """Put a file in its place if there is a link to it, or a folder if there is nothing."""
        path = self._folder / name
        is_link = path.is_symlink() and os.readlink(path) == self._link_text(name)
        is_folder = shown.is_dir() and not shown.is_symlink()
        if is_folder:
            if is_link:
                path.unlink()
            if not os.path.lexists(path):
                shown.rename(path)
        elif not is_link:
            return
        elif shown.is_symlink():
            link = self._path / "link"
            link.unlink(missing_ok=True)
            link.symlink_to(os.readlink(shown).removeprefix(_UP))
            os.replace(link, path)
        elif shown.exists():
            os.replace(shown, path)
        else:
            path.unlink()
