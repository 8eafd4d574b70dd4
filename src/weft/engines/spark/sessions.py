"""Sessions of Spark: the caller's, the active one, or a new one."""

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
from weft.errors import EngineError, MissingExtra, SettingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def require() -> None:
    """Import PySpark and what it needs; where one of them is missing, say how to install them."""
    try:
        import pandas  # noqa: F401  (PySpark insists)
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            "weft.engines.spark needs PySpark; install it with: pip install 'weft[spark]'"
        ) from error


@contextmanager
def session(address: str | None = None, *, progress: bool = False) -> Iterator[SparkSession]:
    """The active session, which is left as it is, or else a new one at `address`, which is stopped
    at the end.

    `address`: the URL of a master, such as `local[4]` or `spark://host:7077`; by default all cores
    of this machine. `progress`: whether a bar on standard error tells how far each stage is."""
    with running(None, address, stops=True, progress=progress) as found:
        yield found


@contextmanager
def running(
    given: Any, address: str | None, *, stops: bool, progress: bool = False
) -> Iterator[SparkSession]:
    """The given session, the active one, or a new one, which `stops` at the end, and in any case if
    something fails.
    """
    require()
    from pyspark.sql import SparkSession

    found = given if given is not None else SparkSession.getActiveSession()
    if found is not None:
        if not isinstance(found, SparkSession) or not hasattr(found, "_jsparkSession"):
            kind = f"{type(found).__module__}.{type(found).__name__}"
            raise SettingError(
                f"spark= is a {kind}; expected a session of Spark, none of Spark Connect, which "
                "has no broadcasts."
            )
        if address is not None and address != found.sparkContext.master:
            raise SettingError(
                f"address={address!r}, but there is a session at {found.sparkContext.master!r} "
                "already; leave out address=, or "
                "stop the session first."
            )
        yield found
        return
    built = _new(address or "local[*]", progress)
    try:
        yield built
    except BaseException:
        built.stop()
        raise
    if stops:
        built.stop()


def _new(address: str, progress: bool) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if address.startswith("sc://"):
        raise SettingError(
            f"address={address!r} is of Spark Connect, which has no broadcasts; expected the URL "
            "of a master."
        )
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=str(Path(home, "bin")) if home else None) is None:
        raise EngineError(
            "Spark needs Java 17 or later, and there is "
            f"none{f' in JAVA_HOME={home}' if home else ''}: install it (Debian: "
            "default-jre-headless), or name its folder in JAVA_HOME."
        )
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(progress).lower(),
        "spark.log.level": "FATAL",  # what fails is told by an error
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if address.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        if (
            not {"SPARK_DRIVER_MEMORY", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"} & os.environ.keys()
        ):  # the caller's own choice
            options["spark.driver.memory"] = (
                f"{_quarter_of_memory()}m"  # all of Spark is in it here; its default is 1 GB
            )
    else:  # where the cluster has its own Python, the caller says so
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(address).appName("weft")
    for name, value in options.items():
        builder = builder.config(name, value)
    with _said_aside(
        not progress
    ) as said:  # the bar of progress is printed where Java prints all else
        try:
            with quiet():
                return builder.getOrCreate()
        except (PySparkException, java_error()) as error:
            reason = root_cause(str(error)).rstrip(".")
            complaints = [line for line in said() if "rror" in line or "xception" in line]
            more = f" Java said: {complaints[0].strip()}" if complaints else ""
            raise EngineError(f"Spark cannot be started at {address!r}: {reason}.{more}") from None


@contextmanager
def _said_aside(is_wanted: bool) -> Iterator[Callable[[], list[str]]]:
    """What a process that is started here says on standard error goes aside, then and later; gives
    its lines so far.

    Java greets with half a dozen lines, whatever its level of logging.
    """
    if not is_wanted:
        yield list
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as aside:

        def said() -> list[str]:
            aside.seek(0)
            return aside.read().decode(errors="replace").splitlines()

        ours = os.dup(2)
        os.dup2(aside.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(ours, 2)
            os.close(ours)


def _quarter_of_memory() -> int:
    """In megabytes, at least 1 GB."""
    return max(1024, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 22)


@contextmanager
def quiet() -> Iterator[None]:
    """Without PySpark's warning about new versions of pandas, which is not used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "PySpark does not yet fully support pandas", FutureWarning
        )
        yield
