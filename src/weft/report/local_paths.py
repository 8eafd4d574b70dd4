"""Paths of files in a report: without the folders of the machine on which it was made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from weft.evaluation.result import Result
from weft.report.context import ReportContext

_FIELDS = ("files", "configuration")  # of the provenance, which have paths


def hide_folders(context: ReportContext) -> ReportContext:
    """Return the context with absolute paths relative to the folder that all of them share.

    A report may be sent to others, who do not need the folders of this machine.
    """
    paths = _find_paths(context)
    if not paths:
        return context
    folder = os.path.commonpath([os.path.dirname(path) for path in paths])

    def shorten(text: str) -> str:
        if not _is_absolute(text):
            return text
        is_root = os.path.dirname(folder) == folder
        return os.path.basename(text) if is_root else os.path.relpath(text, folder)

    def shorten_within(text: str) -> str:
        for path in sorted(paths, key=len, reverse=True):
            text = text.replace(path, shorten(path))
        return text

    return replace(
        context,
        results={
            name: _shorten(one, shorten, shorten_within) for name, one in context.results.items()
        },
        warnings=tuple(map(shorten_within, context.warnings)),
    )


def _find_paths(context: ReportContext) -> set[str]:
    """Return the absolute paths in the provenance of all results."""
    return {
        text
        for result in context.results.values()
        for field in _FIELDS
        for text in _find_texts(result.provenance.get(field))
        if _is_absolute(text)
    }


def _shorten(
    result: Result, shorten: Callable[[str], str], shorten_within: Callable[[str], str]
) -> Result:
    fields = {
        field: _map_texts(result.provenance[field], shorten)
        for field in _FIELDS
        if field in result.provenance
    }
    notes = tuple(map(shorten_within, result.notes))
    return replace(result, provenance={**result.provenance, **fields}, notes=notes)


def _is_absolute(text: str) -> bool:
    return PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()


def _find_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _find_texts(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _find_texts(entry)


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_texts(entry, change) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_map_texts(entry, change) for entry in value]
    return value
