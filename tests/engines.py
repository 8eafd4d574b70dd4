"""Real engines for tests: Ray, and Spark with its Java. Without one, tests are skipped, or fail
under WEFT_REQUIRE_ENGINES=1.
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

import pytest


def require_ray() -> None:
    """Go on only where Ray is installed."""
    if find_spec("ray") is None:
        _is_missing("no Ray; install it with: pip install -c constraints.txt '.[ray]'")


def require_spark() -> None:
    """Go on only where Spark and a Java for it are installed."""
    if find_spec("pyspark") is None:
        _is_missing("no Spark; install it with: pip install -c constraints.txt '.[spark]'")
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=os.path.join(home, "bin") if home else None) is None:
        _is_missing(
            "no Java for Spark; install Debian's default-jre-headless, or name a Java in JAVA_HOME"
        )


def _is_missing(what: str) -> None:
    if os.environ.get("WEFT_REQUIRE_ENGINES") == "1":
        pytest.fail(what)
    pytest.skip(what)
