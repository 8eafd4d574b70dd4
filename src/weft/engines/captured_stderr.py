"""Standard error of engines, which their native code and Java write to directly."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


class CapturedStderr:
    """A file that has replaced standard error of this process and of processes it started.

    Those processes write to it as long as they run. It is read without moving the position at which
    they write.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as a process writes)
        self._position = 0

    def fileno(self) -> int:
        return self._file.fileno()

    def read_lines(self) -> list[str]:
        """Return the complete lines since the last call."""
        size = os.fstat(self.fileno()).st_size - self._position
        content = os.pread(self.fileno(), size, self._position)
        content = content[: content.rfind(b"\n") + 1]
        self._position += len(content)
        return content.decode(errors="replace").splitlines()

    def close(self) -> None:
        self._file.close()


@contextmanager
def capture_stderr() -> Iterator[CapturedStderr]:
    """Redirect standard error to a file, also that of processes started meanwhile."""
    captured = CapturedStderr()
    sys.stderr.flush()
    original = os.dup(2)
    os.dup2(captured.fileno(), 2)
    try:
        yield captured
    finally:
        os.dup2(original, 2)
        os.close(original)
