"""The types of options that have a closed set of values, each with the values."""

from __future__ import annotations

from typing import get_origin

from weft import _choices


def render() -> str:
    """Return an entry for each `Literal` type of `weft._choices` as MyST Markdown."""
    types = {name: kind for name, kind in vars(_choices).items() if get_origin(kind) is not None}
    return "\n\n".join(_entry(name, kind) for name, kind in sorted(types.items()))


def _entry(name: str, kind: object) -> str:
    values = ", ".join(f"`{value!r}`" for value in _choices.choices(kind))
    return f"```{{py:type}} {name}\n{values}\n```"
