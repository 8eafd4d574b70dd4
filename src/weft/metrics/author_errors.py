"""Exceptions in the code of authors' metrics, reported as errors of these metrics."""

from __future__ import annotations

import inspect
import os
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from weft.errors import MetricError, WeftError

_PACKAGE = os.path.join(Path(__file__).parents[1], "")  # ends with a separator
_WRONG_ARGUMENTS = re.compile(r"(\S+)\.(\w+)\(\) (?:got|missing|takes) ")


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
        if found := _find_author(error.__traceback__):
            raise _describe(error, *found) from error
        if called := _find_called(error):
            raise _describe_call(error, *called) from error
        raise


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


def _find_called(error: Exception) -> tuple[Any, str] | None:
    """Return the metric of an author, and the name of its method that Weft called, if the method
    does not take the arguments of the call.
    """
    match = _WRONG_ARGUMENTS.match(str(error)) if isinstance(error, TypeError) else None
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if match is None or last is None:
        return None
    for value in last.tb_frame.f_locals.values():
        value = getattr(value, "_function", value)  # of an accumulator
        metric = getattr(value, "__self__", value)
        names = (base.__qualname__ for base in type(metric).__mro__)
        if _is_authors(type(metric)) and match[1] in names:
            return metric, match[2]
    return None


def _describe_call(error: Exception, metric: Any, method: str) -> MetricError:
    bases = (base for base in type(metric).__mro__ if base.__module__.startswith("weft."))
    original = next((vars(base)[method] for base in bases if method in vars(base)), None)
    shown = "self, lists"  # the function of an accumulator
    if original is not None:
        parameters = inspect.signature(original).parameters.values()
        shown = ", ".join(str(one.replace(annotation=one.empty)) for one in parameters)
    hint = f"It must be defined as {method}({shown})."
    if method == "__init__":
        hint = "A constructor must take **settings and pass them to super().__init__."
    return MetricError(f"the metric {_name(metric)} failed: TypeError: {error}. {hint}")


def _name(metric: Any) -> str:
    try:
        return str(metric.spec)
    except Exception:  # its constructor did not finish
        return type(metric).__name__


def _describe(error: Exception, metric: Any, trace: TracebackType) -> MetricError:
    kind, name = type(metric), _name(metric)
    origin = f"the class {kind.__module__}.{kind.__qualname__}"
    if kind.__name__ == "Composite":
        origin = "the formula of a composite"
    frames = "".join(traceback.format_list(traceback.extract_tb(trace)))
    message = traceback.format_exception_only(error)[-1].strip()
    return MetricError(
        f"the metric {name} failed: {message}\nThe error was raised in {origin}:\n{frames.rstrip()}"
    )
