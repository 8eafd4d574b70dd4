"""Forked processes, which lack the threads that libraries started before the fork.

OpenMP and polars would wait for these threads forever. Weft runs the operations of torch on one
thread there, and refuses what needs the threads of polars."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from weft.errors import EngineError

_TASKS = Path("/proc/self/task")


class _Fork:
    """The events of a fork of this process."""

    is_child = False
    lacks_polars_threads = False
    has_polars_threads = False  # of this process, when it forks


def _look_for_polars() -> None:
    """Find out whether polars has started its threads, before a fork."""
    if "polars" in sys.modules and not _Fork.has_polars_threads:
        # Elsewhere than on Linux, threads cannot be recognized by their names.
        names = _thread_names() if _TASKS.exists() else ["polars-0"]
        # Those of its pool have numbers; one that only an import starts is "polars-ooc-cleaner".
        _Fork.has_polars_threads = any(re.match(r"polars-\d", name) for name in names)


def _thread_names() -> Iterator[str]:
    for task in _TASKS.iterdir():
        with suppress(OSError):  # it has ended meanwhile
            yield (task / "comm").read_text()


def _note_child() -> None:
    _Fork.is_child = True
    _Fork.lacks_polars_threads |= _Fork.has_polars_threads
    _Fork.has_polars_threads = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_look_for_polars, after_in_child=_note_child)


def is_forked() -> bool:
    """Return True if this process was forked after this module was imported."""
    return _Fork.is_child


def check_fork(what: str, *inputs: Any) -> None:
    """Raise `EngineError` in a process that lacks the threads of polars, if they may be needed.

    They are not for inputs that are matrices or None. `what` needs them otherwise."""
    if not _Fork.lacks_polars_threads or (inputs and all(map(_is_plain, inputs))):
        return
    raise EngineError(
        f"this process was forked from one that has used polars and lacks its threads, so {what} "
        'would wait forever. Start processes with multiprocessing.get_context("spawn") '
        '(a DataLoader with multiprocessing_context="spawn"), or give scores, truth and train as '
        "matrices, without ids, labels, slices and values per user."
    )


def _is_plain(data: Any) -> bool:
    """Return True for data that is read without polars."""
    if data is None or (isinstance(data, str) and data == "positions"):
        return True
    is_sparse = type(data).__module__.startswith("scipy.sparse")
    return isinstance(data, (np.ndarray, Tensor, range)) or is_sparse
