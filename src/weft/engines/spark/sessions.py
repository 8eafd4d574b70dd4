"""Spark sessions: the caller's, the active one, or a new one."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.engines.captured_stderr import CapturedStderr, capture_stderr
from weft.engines.spark.failures import java_error, root_cause
from weft.errors import EngineError, MissingExtra, SettingError, setting_ref

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGED = re.compile(r"\S+ \S+ (?P<level>INFO|WARN|ERROR) [\w$]+: (?P<message>.+)")
_LOGGERS = {  # log level by name below org.apache.spark
    "deploy.client": "WARN",
    "scheduler.TaskSchedulerImpl": "WARN",
    "scheduler.cluster": "WARN",
    "scheduler.cluster.StandaloneSchedulerBackend": "INFO",  # the end of executors
}
_java_output: CapturedStderr | None = None  # of Java, if this process started it


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
def session(address: str | None = None) -> Iterator[SparkSession]:
    """Yield a Spark session, for use in a `with` statement.

    It is the active session, which is left as it is, or a new one, which is stopped at the end.
    `address` is the URL of a master for a new session, such as `local[4]` or `spark://host:7077`;
    by default all cores of this machine are used.
    """
    with open_session(None, address, stop=True) as spark:
        yield spark


@contextmanager
def open_session(spark: Any, address: str | None, *, stop: bool) -> Iterator[SparkSession]:
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
    created = _create_session(address or "local[*]")
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
            f"{setting_ref('spark')} is a {kind}; expected a classic Spark session; Spark Connect "
            "has no broadcasts."
        )
    if address is not None and address != spark.sparkContext.master:
        raise SettingError(
            f"{setting_ref('address', address)}, but there is already a session at "
            f"{spark.sparkContext.master!r}; remove {setting_ref('address')}, or stop the session "
            "first."
        )


def _create_session(address: str) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    global _java_output
    if address.startswith("sc://"):
        raise SettingError(
            f"{setting_ref('address', address)} is an address of Spark Connect, which has no "
            "broadcasts; expected the URL of a master."
        )
    _check_java()
    builder = SparkSession.builder.master(address).appName("weft")
    for name, value in _session_options(address).items():
        builder = builder.config(name, value)
    # Java prints several lines at its start, whatever its log level is.
    with capture_stderr() as output:
        if SparkContext._gateway is None:  # Java is started here, and keeps this standard error
            _java_output = output
            atexit.register(output.close)
        try:
            with ignore_pandas_warning():
                created = builder.getOrCreate()
        except (PySparkException, java_error()) as error:
            raise _start_error(address, error, output.read_lines()) from None
        finally:
            if output is not _java_output:
                output.close()
    if not address.startswith("local"):
        _start_log(created)
    return created


def _start_error(address: str, error: Exception, lines: list[str]) -> EngineError:
    """Return the error of a session that could not be started; `lines` are the output of Java."""
    reason = root_cause(str(error)).rstrip(".")
    errors = [line for line in lines if "rror" in line or "xception" in line]
    more = f" Message of Java: {errors[0].strip()}" if errors else ""
    return EngineError(f"Spark cannot be started at {address!r}: {reason}.{more}")


def _start_log(spark: SparkSession) -> None:
    """Let Spark log messages about executors and the cluster, for `read_java_log`."""
    read_java_log()
    logging: Any = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    for name, level in _LOGGERS.items():
        logging.core.config.Configurator.setLevel(
            f"org.apache.spark.{name}", getattr(logging.Level, level)
        )


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=str(Path(home, "bin")) if home else None) is None:
        place = f" in JAVA_HOME={home}" if home else ""
        raise EngineError(
            f"Spark needs Java 17 or later, which was not found{place}: install it (Debian: "
            "default-jre-headless), or set JAVA_HOME to its folder."
        )


def _session_options(address: str) -> dict[str, str]:
    """Return the options of a new session; set the environment variables of its Python workers."""
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
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


def read_java_log() -> list[tuple[str, str]]:
    """Return the level and message of each line that Spark has logged since the last call.

    The list is empty if this process did not start Java.
    """
    lines = [] if _java_output is None else _java_output.read_lines()
    found = (_LOGGED.match(line) for line in lines)
    return [(match["level"], match["message"]) for match in found if match is not None]


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
