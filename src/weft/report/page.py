"""The report as one HTML page."""

from __future__ import annotations

from pathlib import Path

from weft.report.subject import Subject
from weft.result import write_whole


def render(subject: Subject, *, title: str | None = None) -> str:
    """The text of the page."""
    return f"<!doctype html><title>{title or 'Weft'}</title>{len(subject.models)}"


def write(text: str, path: str | Path) -> Path:
    """Write a page, whole or not at all."""
    path = Path(path)
    write_whole({path: lambda file: file.write(text.encode())})
    return path
