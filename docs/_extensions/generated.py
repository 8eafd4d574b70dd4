"""Sphinx extension: parts of pages that are written from the code when the site is built.

A page contains a line such as `<!-- generated: commands -->`, which is replaced by the text that a
function of `GENERATORS` returns. Such parts cannot become outdated.
"""

from __future__ import annotations

import re

import choice_types
import command_reference
import metric_classes
import settings_reference
from sphinx.application import Sphinx
from sphinx.util import logging

GENERATORS = {
    "choice types": choice_types.render,
    "commands": command_reference.render,
    "metric classes": metric_classes.render,
    "settings": settings_reference.render,
}
MARK = re.compile(r"^<!-- generated: (.+) -->$", re.M)
logger = logging.getLogger(__name__)


def fill_in(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the marks of a page by generated text."""

    def generate(mark: re.Match[str]) -> str:
        if mark[1] not in GENERATORS:
            logger.warning("unknown generated text %r", mark[1], location=docname)
            return ""
        return GENERATORS[mark[1]]()

    source[0] = MARK.sub(generate, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the replacement."""
    app.connect("source-read", fill_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
