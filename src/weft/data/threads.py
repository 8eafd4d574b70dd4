"""Threads on the CPU: how many a process may use, and operations of torch on one of them.

Torch runs an operation on several threads (OpenMP) that wait for each other at its end. For small
operations that costs more than it saves, and many times more if other processes are busy. Weft
therefore splits users over threads, and lets each operation run on one."""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

import torch

from weft.data.cgroups import iter_cgroups
from weft.data.forks import is_forked

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

_LIBRARIES = {"linux": "libtorch_cpu.so", "darwin": "libtorch_cpu.dylib"}


class _ThreadState(threading.local):
    torch_threads: int | None = None  # the caller's number while `one_thread` runs


_state = _ThreadState()


class _Setters(NamedTuple):
    """Functions that set the number of threads of OpenMP and of MKL for the calling thread alone,
    which torch's own setter cannot do.

    That of MKL returns the previous number, 0 if the calling thread had none of its own.
    """

    openmp: Callable[[int], object]
    mkl: Callable[[int], int]


@cache
def _load_setters() -> _Setters | None:
    """Return the setters of the libraries that torch uses; None without OpenMP or its setter."""
    name = _LIBRARIES.get(sys.platform)
    if name is None or "OpenMP" not in torch.__config__.parallel_info():
        return None
    try:  # the symbols of a library are looked up in those that it is linked to, too
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / name))
        openmp = library.omp_set_num_threads
    except (OSError, AttributeError):
        return None
    return _Setters(openmp, getattr(library, "MKL_Set_Num_Threads_Local", lambda number: 0))


def use_one_thread() -> None:
    """Limit the operations of torch to one thread in the calling thread, which has just started."""
    setters = _load_setters()
    # The first call of get_num_threads in a thread resets the number: it must come first.
    if torch.get_num_threads() > 1 and setters is not None:
        setters.openmp(1)
        setters.mkl(1)


def one_thread(function: Callable[Parameters, Value]) -> Callable[Parameters, Value]:
    """Decorate a function: operations of torch in it run on one thread.

    Other threads of the caller keep their number, and the calling thread has its own afterwards."""

    @wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Value:
        number, setters = torch.get_num_threads(), _load_setters()
        of_mkl = 0
        try:  # no context manager: an interrupt at the start of its exit would skip the exit
            if number > 1 and setters is not None:
                _state.torch_threads = number
                of_mkl = setters.mkl(1)
                setters.openmp(1)
            return function(*args, **kwargs)
        finally:
            if number > 1 and setters is not None:
                try:
                    setters.openmp(_state.torch_threads or number)
                finally:
                    setters.mkl(of_mkl)
                    _state.torch_threads = None

    return run


def with_caller_threads(
    function: Callable[Parameters, Value], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Value:
    """Call a function of the caller with the number of torch's threads that the caller has set.

    If the function sets another number, the caller keeps it."""
    number, setters = _state.torch_threads, _load_setters()
    if number is None or setters is None or is_forked():  # OpenMP does not survive a fork
        return function(*args, **kwargs)
    try:
        setters.openmp(number)
        setters.mkl(0)
        _state.torch_threads = None
        return function(*args, **kwargs)
    finally:
        _state.torch_threads = torch.get_num_threads()
        setters.openmp(1)
        setters.mkl(1)


def count_threads(requested: int | None = None) -> int:
    """Return how many threads to use: the number requested, or by default as many as torch uses,
    and no more than the CPUs that this process may use.
    """
    if requested is not None:
        return requested
    return min(_state.torch_threads or torch.get_num_threads(), usable_cpus())


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use: by its affinity and its cgroups."""
    if hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count() or 1
    return max(1, math.ceil(min(cpus, cgroup_cpus())))


@cache
def cgroup_cpus(root: Path = Path("/")) -> float:
    """Return the quota of CPUs of this process's cgroups (version 1 or 2); infinite without one.

    `root` is the folder that holds `proc` and `sys`."""
    quotas = (quota for group in iter_cgroups("cpu", root) for quota in _read_quota(group))
    return min(quotas, default=math.inf)


def _read_quota(group: Path) -> Iterator[float]:
    """Yield the quota of a cgroup in CPUs, if it has one."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            names = "cpu.cfs_quota_us", "cpu.cfs_period_us"
            quota, period = ((group / name).read_text().strip() for name in names)
        if quota != "max" and int(quota) > 0:
            yield int(quota) / int(period)
    except (OSError, ValueError):  # there is none, or none that can be read
        return
