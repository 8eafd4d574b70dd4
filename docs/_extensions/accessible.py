"""Sphinx extension: HTML that screen readers, keyboards and narrow screens handle.

- Code blocks and tables that scroll can be focused, so that the arrow keys scroll them.
- Signatures with a parameter per line are no definition lists without terms.
- Code in tables, such as `nDCG(gain=exponential_shifted)`, can be broken into several lines.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.S)
_TAGS = {
    "<dl>": '<span class="sig-lines">',
    "</dl>": "</span>",
    "<dd>": '<span class="sig-line">',
    "</dd>": "</span>",
}
_TAG = re.compile("|".join(_TAGS))
_TABLE = re.compile(r"<tbody>.*?</tbody>", re.S)
_CODE = re.compile(r'(?<=<span class="pre">)[^<]+')
_BREAK = re.compile(r"(?<=[(=/])(?=\w)")


def adapt_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document
) -> None:
    """Change the HTML of a page before it is written."""
    body = context.get("body")
    if not body:
        return
    body = body.replace("<pre>", '<pre tabindex="0">')
    for name in ("table-wrapper", "output text_html"):
        body = body.replace(f'<div class="{name}', f'<div tabindex="0" class="{name}')
    body = _TABLE.sub(lambda table: _CODE.sub(_allow_breaks, table[0]), body)
    context["body"] = _SIGNATURE.sub(_replace_lists, body)


def _replace_lists(signature: re.Match[str]) -> str:
    return _TAG.sub(lambda tag: _TAGS[tag[0]], signature[0])


def _allow_breaks(text: re.Match[str]) -> str:
    return _BREAK.sub("<wbr>", text[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the change, after those of the theme."""
    app.connect("html-page-context", adapt_page, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
