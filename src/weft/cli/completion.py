"""Shell completion of option values. Importing it does not load torch."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path


def complete_words(*words: str) -> Callable[[str], list[str]]:
    """Return a completion function that offers these words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def metric_names() -> list[str]:
    """Return the built-in metrics, read from their source files: importing them takes seconds."""
    folder = Path(__file__).parents[1] / "metrics"
    definition = re.compile(r"^@register\nclass (\w+)", re.MULTILINE)
    return sorted(
        name
        for file in folder.rglob("*.py")
        for name in definition.findall(file.read_text(encoding="utf-8"))
    )


def complete_metrics(incomplete: str) -> list[str]:
    """Complete the last of several metrics between commas."""
    before, comma, last = incomplete.rpartition(",")
    return [
        before + comma + name
        for name in metric_names()
        if name.casefold().startswith(last.casefold())
    ]
