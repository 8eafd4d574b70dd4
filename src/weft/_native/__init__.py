"""Compiled loops, where a C++ compiler was at hand when Weft was installed: what NumPy has no
operation for.

Plain functions over arrays, called through ctypes. Whoever uses one has another way to the same
answer."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

_PATH = Path(__file__).with_name("_native.so")


@cache
def is_built() -> bool:
    """Whether there is a compiled library."""
    return _PATH.exists()


@cache
def _function(name: str) -> Any:
    function = getattr(ctypes.CDLL(str(_PATH)), name)
    function.restype = ctypes.c_int64
    return function


def call(name: str, *arguments: NDArray[Any] | int | None) -> int:
    """Call a function with arrays (contiguous, of the types that it expects), whole numbers, or
    None for no array.

    What it returns, if anything.
    """
    assert all(
        one.flags.c_contiguous for one in arguments if one is not None and not isinstance(one, int)
    )
    values = [
        ctypes.c_int64(one)
        if isinstance(one, int)
        else None
        if one is None
        else ctypes.c_void_p(one.ctypes.data)
        for one in arguments
    ]
    return int(_function(name)(*values))
