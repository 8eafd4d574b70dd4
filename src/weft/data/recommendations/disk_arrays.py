"""Arrays on disk, for data that do not fit into memory."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from weft.errors import InputError, setting_ref


class DiskArray:
    """An array in a temporary file that disappears with it; `values [size]` is writable."""

    def __init__(self, dtype: DTypeLike, size: int) -> None:
        num_bytes = max(1, size * np.dtype(dtype).itemsize)
        try:
            with tempfile.TemporaryFile(prefix="weft-") as file:
                if hasattr(os, "posix_fallocate"):  # a full disk would end the process later
                    os.posix_fallocate(file.fileno(), 0, num_bytes)
                else:
                    file.truncate(num_bytes)
                self._map = mmap.mmap(file.fileno(), num_bytes)
        except OSError as error:
            raise InputError(
                f"recommendation lists that do not fit into {setting_ref('memory')} are sorted in "
                f"the temporary folder {tempfile.gettempdir()}, which has no space for "
                f"{num_bytes:,} bytes ({error.strerror}). Set the environment variable TMPDIR to "
                "a folder with more space, or allow more memory."
            ) from None
        self.values: NDArray[Any] = np.frombuffer(self._map, dtype=dtype, count=size)

    def release(self) -> None:
        """Return the memory of pages that were read or written; they stay on disk."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
