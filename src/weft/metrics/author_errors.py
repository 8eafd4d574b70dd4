"""Exceptions in the code of authors' metrics, reported as errors of these metrics."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from weft.errors import MetricError, WeftError

_PACKAGE = os.path.join(Path(__file__).parents[1], "")  # ends with a separator


@contextmanager
def author_errors() -> Iterator[None]:
    """Raise `MetricError` for an exception in the code of a metric that is not Weft's own, or in
    the formula of a composite. Errors of Weft and other exceptions pass.
    """
    try:
        yield
    except (WeftError, MemoryError):
        raise
    except Exception as error:
        found = _find_author(error.__traceback__)
        if found is None:
            raise
        raise _describe(error, *found) from error


def _find_author(trace: TracebackType | None) -> tuple[Any, TracebackType] | None:
    """Return the metric (or accumulator) with the author's code that raised, and the traceback from
    that code on.
    """
    caller = None  # `self` of the frame before, if that is in Weft
    while trace is not None:
        code, values = trace.tb_frame.f_code, trace.tb_frame.f_locals
        owner = values.get(code.co_varnames[0]) if code.co_argcount else None
        if code.co_filename.startswith(_PACKAGE):
            caller = owner
        elif type(caller).__name__ == "Composite":
            return caller, trace
        elif _is_authors(type(owner)):
            return owner, trace
        else:
            caller = None
        trace = trace.tb_next
    return None


def _is_authors(kind: type) -> bool:
    """Return True for a class of another module that derives from one of Weft's metrics."""
    bases = (base.__module__ for base in kind.__mro__)
    return not kind.__module__.startswith("weft.") and any(
        module.startswith("weft.metrics.") for module in bases
    )


def _describe(error: Exception, metric: Any, trace: TracebackType) -> MetricError:
    kind = type(metric)
    try:
        name = str(metric.spec)
    except Exception:  # its constructor did not finish
        name = kind.__name__
    origin = f"the class {kind.__module__}.{kind.__qualname__}"
    if kind.__name__ == "Composite":
        origin = "the formula of a composite"
    frames = "".join(traceback.format_list(traceback.extract_tb(trace)))
    message = traceback.format_exception_only(error)[-1].strip()
    return MetricError(
        f"the metric {name} failed: {message}\nThe error was raised in {origin}:\n{frames.rstrip()}"
    )
