"""Parsing of JSON text, with everything that it can get wrong as one exception."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

_MAX_DEPTH = 100  # of arrays and objects inside of each other
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)
_LONG_INTEGER = re.compile(r"[0-9]{4301,}")  # the limit of Python's int()
# Escapes: a pair of surrogates, half a pair (the group), or any other.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL)


class RepeatingObject(dict[str, Any]):
    """A JSON object with the keys `repeated` more than once in its text."""

    repeated: tuple[str, ...] = ()


class JsonError(ValueError):
    """Text that is not JSON, or that cannot be read; `position` counts characters from 0."""

    def __init__(self, reason: str, text: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position
        self.line = text.count("\n", 0, position) + 1
        self.column = position - text.rfind("\n", 0, position)

    def __str__(self) -> str:
        return f"{self.reason}, at line {self.line}, column {self.column}"


def parse_json(text: str) -> Any:
    """Return the content of JSON text; raise `JsonError` if it is none.

    Objects that give a key twice are a `RepeatingObject`; see `repeated_keys`. Arrays and objects
    of more than 100 levels, and integers of more than 4,300 digits, are errors.
    """
    try:
        return json.loads(text, object_pairs_hook=_build_object)
    except json.JSONDecodeError as error:
        raise JsonError(error.msg, text, error.pos) from None
    except RecursionError:
        raise JsonError("nested too deeply", text, _find_depth(text)) from None
    except ValueError:
        found = _LONG_INTEGER.search(text)
        position = found.start() if found else 0
        raise JsonError("an integer of more than 4,300 digits", text, position) from None


def check_surrogates(text: str) -> None:
    r"""Raise `JsonError` for half of a pair of surrogates (`\ud800`), which is no character."""
    for escape in _ESCAPE.finditer(text):
        if escape[1]:
            reason = f"{escape[0]}.. is an unpaired surrogate, which is not a valid character"
            raise JsonError(reason, text, escape.start())


def repeated_keys(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the keys that the text of a JSON object gives more than once."""
    return row.repeated if isinstance(row, RepeatingObject) else ()


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; `json.loads` alone drops all but the last value of a key."""
    row = dict(pairs)
    if len(row) == len(pairs):
        return row
    repeating = RepeatingObject(row)
    counts = Counter(key for key, _ in pairs)
    repeating.repeated = tuple(key for key, count in counts.items() if count > 1)
    return repeating


def _find_depth(text: str) -> int:
    """Return the first position with more than `_MAX_DEPTH` open arrays and objects."""
    depth = 0
    for token in _STRUCTURE.finditer(text):
        depth += (token[0] in "[{") - (token[0] in "]}")
        if depth > _MAX_DEPTH:
            return token.start()
    return 0
