"""Results and comparisons as people read them."""

from __future__ import annotations

from importlib import import_module

from weft.errors import MissingExtra


def require_report_extra() -> None:
    """Import Altair, Jinja and vl-convert. Raises `MissingExtra` if one of them is missing."""
    try:
        for package in ("altair", "jinja2", "vl_convert"):
            import_module(package)
    except ImportError as error:
        raise MissingExtra(
            "a report needs Altair, Jinja and vl-convert; install them with: pip install "
            "'weft[report]'"
        ) from error
