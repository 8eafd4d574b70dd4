"""Sphinx extension: entries of the API reference.

Each entry begins with its stability label. A list in a docstring that follows a line of text
directly, as Markdown allows, is separated from it.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

import weft

_ITEM = re.compile(r"(\s*)[-*] \S")
_LABELLED = ("class", "function", "exception", "data")
_RETURNED = "Returned by public functions; its module is internal."


def stability(name: str) -> str:
    """Return the label of a public name: its own, or that of the module that contains it."""
    parts = name.removeprefix("weft.").split(".")
    prefixes = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next(weft._STABILITY[prefix] for prefix in prefixes if prefix in weft._STABILITY)


def add_label(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Put the stability label before the docstring."""
    if what in _LABELLED:
        label = stability(name)
        link = f":doc:`{label.capitalize()} </develop/stability>`"
        text = _RETURNED if label == "internal" else link
        lines[:0] = [".. container:: stability", "", f"   {text}", ""]


def separate_lists(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Put a blank line before a list that follows a paragraph."""
    for number in range(len(lines) - 1, 0, -1):
        item = _ITEM.match(lines[number])
        before = lines[number - 1]
        is_first = item and before.strip() and not _ITEM.match(before)
        if is_first and len(before) - len(before.lstrip()) == len(item[1]):
            lines.insert(number, "")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the functions above."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", separate_lists)
    app.connect("autodoc-process-docstring", add_label)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
