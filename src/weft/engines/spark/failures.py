"""What goes wrong in Spark, as one message, without the stacks of Java."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import EngineError, InputError, WeftError

_CONDITION = r"\[[A-Z_]+(\.[A-Z_]+)*\] "  # Spark's name of an error


def java_error() -> type[Exception]:
    """What Java raises, as it comes to Python."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped, unused-ignore]

    found: type[Exception] = Py4JError
    return found


@contextmanager
def explained() -> Iterator[None]:
    """Errors of Spark become errors of Weft."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, java_error()) as error:
        raise _explanation(error) from None


def _explanation(error: Exception) -> WeftError:
    text, condition = str(error), getattr(error, "getCondition", lambda: None)()
    if condition == "USER_RAISED_EXCEPTION":  # `tables.refuse`
        return InputError(error.getMessageParameters()["errorMessage"])  # type: ignore[attr-defined]
    if "Traceback (most recent call last)" in text:
        return EngineError(f"a task of Spark failed: {_python_error(text)}")
    if "Python worker exited unexpectedly" in text:
        return EngineError(
            "a Python worker of Spark died again and again, mostly for lack of memory; give more "
            "and smaller parts (parts=), or "
            "more memory to each executor (spark.executor.memoryOverhead)."
        )
    reason = root_cause(text)
    if "FAILED_READ_FILE" in text or "CAST_" in (condition or ""):
        return InputError(f"Spark cannot read the data: {reason}")
    return EngineError(f"Spark failed: {reason}")


def _python_error(text: str) -> str:
    """What a worker raised, and where."""
    traceback = text.rpartition("Traceback (most recent call last):")[2]
    lines = [
        re.sub(r"\s*(SQLSTATE: \w+)?$", "", line)
        for line in traceback.partition("JVM stacktrace")[0].splitlines()
    ]
    lines = [
        line
        for line in lines
        if line and not re.match(r"\tat |\t\.\.\. |Caused by: |Driver stacktrace", line)
    ]
    last = max((number for number, line in enumerate(lines) if line.startswith("  ")), default=-1)
    said = "\n".join(lines[last + 1 :]) or "no reason was given"
    place = next(
        (line.strip() for line in reversed(lines) if re.match(r'  File ".*\.py"', line)), None
    )
    if "No module named 'weft'" in said:
        said += ". Install weft with all it needs on the executors, too."
    return said if place is None else f"{said} ({place[0].lower()}{place[1:]})"


def root_cause(text: str) -> str:
    """What a Java error says, in one line: Spark's own message if there is one, else that of the
    innermost cause.
    """
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not re.match(r"\s+(at |\.\.\. )", line)
    ]
    named = next((line for line in lines if re.search(_CONDITION, line)), None)
    causes = [line for line in lines if line.startswith(("Caused by: ", ": "))]
    said = re.sub(rf"^.*?{_CONDITION}", "", named or (causes or lines or [""])[-1])
    said = re.sub(r"^(Caused by: |: )?(([\w$]+\.)+[\w$]+: )?", "", said)
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", said).strip() or "no reason was given"
