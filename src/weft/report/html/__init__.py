"""The report as one HTML page."""

from __future__ import annotations

from weft.report.html.page import render, write

__all__ = ["render", "write"]
