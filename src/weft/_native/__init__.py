"""Compiled loops for operations that NumPy lacks, called through ctypes.

The library exists if a C++ compiler was present at installation. Every caller has a fallback with
the same answer."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

_PATH = Path(__file__).with_name("_native.so")


@cache
def is_built() -> bool:
    """Return True if the compiled library exists."""
    return _PATH.exists()


@cache
def _load_function(name: str) -> Any:
    try:
        function = getattr(ctypes.CDLL(str(_PATH)), name)
    except AttributeError:
        raise ImportError(
            f"the compiled library {_PATH} has no function {name!r}: it is older than the code. "
            "Install Weft again, in the same way as before: pip install . or pip install -e ."
        ) from None
    function.restype = ctypes.c_int64
    return function


def _convert(argument: NDArray[Any] | int | None) -> Any:
    if argument is None:
        return None
    if isinstance(argument, int):
        return ctypes.c_int64(argument)
    assert argument.flags.c_contiguous and argument.flags.aligned
    return ctypes.c_void_p(argument.ctypes.data)


def call(name: str, *arguments: NDArray[Any] | int | None) -> int:
    """Call a function with contiguous arrays of the types it expects, integers, or None.

    Return its result, which has no meaning for functions without one."""
    return int(_load_function(name)(*map(_convert, arguments)))
