"""Spark sessions: the caller's, the active one, or a new one."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.engines.spark.failures import java_error, root_cause
from weft.errors import EngineError, MissingExtra, SettingError, setting_ref

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def require_spark() -> None:
    """Import PySpark and its dependencies; raise MissingExtra if one is not installed."""
    try:
        import pandas  # noqa: F401  (PySpark needs it)
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            "weft.engines.spark needs PySpark; install it with: pip install 'weft[spark]'"
        ) from error


@contextmanager
def session(address: str | None = None, *, progress: bool = False) -> Iterator[SparkSession]:
    """Yield the active session, which is left as it is, or a new one, which is stopped at the end.

    `address` is the URL of a master for a new session, such as `local[4]` or `spark://host:7077`;
    by default all cores of this machine. With `progress`, a bar on standard error shows the
    progress of each stage.
    """
    with open_session(None, address, stop=True, progress=progress) as spark:
        yield spark


@contextmanager
def open_session(
    spark: Any, address: str | None, *, stop: bool, progress: bool = False
) -> Iterator[SparkSession]:
    """Yield the given session, the active one, or a new one.

    A new session is stopped at the end if `stop` is True, and always after an error.
    """
    require_spark()
    from pyspark.sql import SparkSession

    existing = spark if spark is not None else SparkSession.getActiveSession()
    if existing is not None:
        _check_session(existing, address)
        yield existing
        return
    created = _create_session(address or "local[*]", progress)
    try:
        yield created
    except BaseException:
        created.stop()
        raise
    if stop:
        created.stop()


def _check_session(spark: Any, address: str | None) -> None:
    from pyspark.sql import SparkSession

    if not isinstance(spark, SparkSession) or not hasattr(spark, "_jsparkSession"):
        kind = f"{type(spark).__module__}.{type(spark).__name__}"
        raise SettingError(
            f"{setting_ref('spark')} is a {kind}; expected a session of Spark, none of Spark "
            "Connect, which has no broadcasts."
        )
    if address is not None and address != spark.sparkContext.master:
        raise SettingError(
            f"{setting_ref('address', address)}, but there is a session at "
            f"{spark.sparkContext.master!r} already; leave out {setting_ref('address')}, or stop "
            "the session first."
        )


def _create_session(address: str, progress: bool) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if address.startswith("sc://"):
        raise SettingError(
            f"{setting_ref('address', address)} is of Spark Connect, which has no broadcasts; "
            "expected the URL of a master."
        )
    _check_java()
    builder = SparkSession.builder.master(address).appName("weft")
    for name, value in _session_options(address, progress).items():
        builder = builder.config(name, value)
    # Spark prints its progress bar on standard error, like all messages of Java.
    with _capture_stderr(not progress) as read_lines:
        try:
            with ignore_pandas_warning():
                return builder.getOrCreate()
        except (PySparkException, java_error()) as error:
            reason = root_cause(str(error)).rstrip(".")
            errors = [line for line in read_lines() if "rror" in line or "xception" in line]
            more = f" Message of Java: {errors[0].strip()}" if errors else ""
            raise EngineError(f"Spark cannot be started at {address!r}: {reason}.{more}") from None


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=str(Path(home, "bin")) if home else None) is None:
        place = f" in JAVA_HOME={home}" if home else ""
        raise EngineError(
            f"Spark needs Java 17 or later, and there is none{place}: install it (Debian: "
            "default-jre-headless), or name its folder in JAVA_HOME."
        )


def _session_options(address: str, progress: bool) -> dict[str, str]:
    """Return the options of a new session; set the environment variables of its Python workers."""
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(progress).lower(),
        "spark.log.level": "FATAL",  # failures are raised as errors
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if not address.startswith("local"):  # a cluster may have its own Python: the caller's variables
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        return options
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    configured = {"SPARK_DRIVER_MEMORY", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"}
    if not configured & os.environ.keys():
        # A local session runs in the driver, which has 1 GB by default.
        options["spark.driver.memory"] = f"{_quarter_of_memory_mb()}m"
    return options


@contextmanager
def _capture_stderr(is_enabled: bool) -> Iterator[Callable[[], list[str]]]:
    """Redirect standard error of processes started here to a file, now and later.

    Yields a function that returns the lines so far. Java prints several lines at its start,
    whatever its log level is.
    """
    if not is_enabled:
        yield list
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:

        def read_lines() -> list[str]:
            file.seek(0)
            return file.read().decode(errors="replace").splitlines()

        original = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield read_lines
        finally:
            os.dup2(original, 2)
            os.close(original)


def _quarter_of_memory_mb() -> int:
    """Return a quarter of the machine's memory in megabytes, at least 1 GB."""
    return max(1024, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 22)


@contextmanager
def ignore_pandas_warning() -> Iterator[None]:
    """Ignore PySpark's warning about new versions of pandas, which is not used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "PySpark does not yet fully support pandas", FutureWarning
        )
        yield
