"""Text of the code as Markdown: nothing in it is markup, except code that it quotes."""

from __future__ import annotations

import re

_MARKUP = re.compile(r"([\\`*_\[\]<>$|{}])")
_QUOTED = re.compile(r"(?:pip install )?(?<!\w)'([^'\s][^']*)'(?!\w)")


def escape(text: str) -> str:
    """Return a help text as Markdown; `'...'` is set as code, commands without their quotes."""
    plain = text.replace("\\[", "[")  # an escape of rich
    pieces, end = [], 0
    for quoted in _QUOTED.finditer(plain):
        text = quoted[1] if quoted[1].startswith("weft ") else quoted[0]
        pieces += [_MARKUP.sub(r"\\\1", plain[end : quoted.start()]), code(text)]
        end = quoted.end()
    return "".join([*pieces, _MARKUP.sub(r"\\\1", plain[end:])])


def code(value: object) -> str:
    """Return a value as code."""
    return f"`` {value} ``" if "`" in str(value) else f"`{value}`"
