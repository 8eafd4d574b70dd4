"""Errors of Spark as short messages, without Java stack traces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import EngineError, InputError, WeftError, setting_ref

_CONDITION = r"\[[A-Z_]+(\.[A-Z_]+)*\] "  # Spark's name of an error
_NO_PROGRAM = re.compile(r'Cannot run program "(?P<name>[^"]+)".*?error=\d+, (?P<reason>[^\n]+)')
_INTERPRETER = (
    "The environment variable PYSPARK_PYTHON (or the setting spark.pyspark.python) must name a "
    "Python interpreter that exists on every machine, has the version of the driver's Python, and "
    "has weft installed."
)
_NO_REASON = "no reason was given"


def java_error() -> type[Exception]:
    """Return the class of Java errors in Python."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped, unused-ignore]

    kind: type[Exception] = Py4JError
    return kind


@contextmanager
def convert_errors() -> Iterator[None]:
    """Raise errors of Spark as errors of Weft."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, java_error()) as error:
        raise _to_weft_error(error) from None


def _to_weft_error(error: Exception) -> WeftError:
    text, condition = str(error), getattr(error, "getCondition", lambda: None)()
    if condition == "USER_RAISED_EXCEPTION":  # `spark_columns._raise_in_query`
        return InputError(error.getMessageParameters()["errorMessage"])  # type: ignore[attr-defined]
    if "Traceback (most recent call last)" in text:
        return EngineError(f"a task of Spark failed: {_python_error(text)}")
    if "Python worker exited unexpectedly" in text:
        return EngineError(
            "a Python worker of Spark died repeatedly, probably for lack of memory; use more "
            f"partitions ({setting_ref('parts')}), or more memory for each executor "
            "(spark.executor.memoryOverhead)."
        )
    if program := _NO_PROGRAM.search(text):
        return EngineError(
            f"the executors of Spark cannot start Python: {program['name']!r} cannot be run there "
            f"({program['reason'].strip()}). {_INTERPRETER}"
        )
    reason = root_cause(text)
    if "FAILED_READ_FILE" in text or "CAST_" in (condition or ""):
        return InputError(f"Spark cannot read the data: {reason}")
    return EngineError(f"Spark failed: {reason}")


def _python_error(text: str) -> str:
    """Return the error of a Python worker and its place in the code."""
    traceback = text.rpartition("Traceback (most recent call last):")[2]
    lines = [
        re.sub(r"\s*(SQLSTATE: \w+)?$", "", line)
        for line in traceback.partition("JVM stacktrace")[0].splitlines()
    ]
    java = re.compile(r"\tat |\t\.\.\. |Caused by: |Driver stacktrace")
    lines = [line for line in lines if line and not java.match(line)]
    last = max((number for number, line in enumerate(lines) if line.startswith("  ")), default=-1)
    message = "\n".join(lines[last + 1 :]) or _NO_REASON
    places = [line.strip() for line in lines if re.match(r'  File ".*\.py"', line)]
    if "No module named" in message or "PYTHON_VERSION_MISMATCH" in message:
        message = f"{message.rstrip('.')}. Install weft with its dependencies there. {_INTERPRETER}"
    return f"{message} ({places[-1][0].lower()}{places[-1][1:]})" if places else message


def root_cause(text: str) -> str:
    """Return the message of a Java error in one line: Spark's own, or that of the first cause."""
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not re.match(r"\s+(at |\.\.\. )", line)
    ]
    named = next((line for line in lines if re.search(_CONDITION, line)), None)
    causes = [line for line in lines if line.startswith(("Caused by: ", ": "))]
    message = re.sub(rf"^.*?{_CONDITION}", "", named or (causes or lines or [""])[-1])
    message = re.sub(r"^(Caused by: |: )?(([\w$]+\.)+[\w$]+: )?", "", message)
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", message).strip() or _NO_REASON
