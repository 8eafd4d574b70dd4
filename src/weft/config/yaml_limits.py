"""Limits on the nesting of a YAML file and on what its aliases repeat."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import SettingError

_MAX_DEPTH = 50  # of lists and mappings inside each other
_MAX_REPEATED_VALUES = 100_000
_VALUE_CHARACTERS = 64  # of text that count as one value


def check_limits(path: Path, events: Iterable[Any]) -> None:
    """Raise `SettingError` with line and column for a file that is too large once aliases expand.

    `events` are those of the YAML parser, so that nothing has been built yet. An alias counts as
    the node that it refers to.
    """
    expansion = _Expansion()
    for event in events:
        problem = expansion.add(event)
        if problem is not None:
            mark = event.start_mark
            raise SettingError(f"{path}:{mark.line + 1}:{mark.column + 1}: {problem}")


@dataclass
class _Branch:
    """A list, a mapping or a scalar, with the values in it and the levels of nesting below it."""

    anchor: str | None
    values: int = 1
    depth: int = 0


class _Expansion:
    """The branches of a file that are open, those that have an anchor, and what aliases repeat."""

    def __init__(self) -> None:
        self._open: list[_Branch] = []
        self._anchored: dict[str, _Branch] = {}
        self._repeated_values = 0

    def add(self, event: Any) -> str | None:
        """Add an event of the parser; return the problem that it is, None if it is none."""
        kind = type(event).__name__
        if kind in ("MappingStartEvent", "SequenceStartEvent"):
            self._open.append(_Branch(event.anchor))
            self._anchored.pop(event.anchor, None)
            return self._check_depth(0)
        if kind in ("MappingEndEvent", "SequenceEndEvent"):
            branch = self._open.pop()
            self._close(_Branch(branch.anchor, branch.values, branch.depth + 1))
        elif kind == "ScalarEvent":
            self._close(_Branch(event.anchor, 1 + len(event.value) // _VALUE_CHARACTERS))
        elif kind == "AliasEvent":
            return self._repeat(event.anchor)
        return None

    def _close(self, branch: _Branch) -> None:
        if branch.anchor is not None:
            self._anchored[branch.anchor] = branch
        self._add_to_parent(branch)

    def _add_to_parent(self, branch: _Branch) -> None:
        if self._open:
            parent = self._open[-1]
            parent.values += branch.values
            parent.depth = max(parent.depth, branch.depth)

    def _repeat(self, anchor: str) -> str | None:
        branch = self._anchored.get(anchor)
        if branch is None:
            if any(parent.anchor == anchor for parent in self._open):
                return f"*{anchor} refers to &{anchor}, which contains it; remove the alias."
            return None  # an anchor that does not exist is an error of the loader
        self._add_to_parent(branch)
        self._repeated_values += branch.values
        if self._repeated_values > _MAX_REPEATED_VALUES:
            return (
                f"aliases up to *{anchor} expand to more than {_MAX_REPEATED_VALUES:,} values, "
                "which is the limit; remove aliases of aliases."
            )
        return self._check_depth(branch.depth)

    def _check_depth(self, depth: int) -> str | None:
        if len(self._open) + depth <= _MAX_DEPTH:
            return None
        return (
            f"lists or mappings are nested more than {_MAX_DEPTH} levels deep, which is the limit."
        )
