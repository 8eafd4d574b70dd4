"""Files of results, found by a pattern with placeholders for the labels of runs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.errors import InputError, SettingError, setting_ref

Label = str | int
FIELDS = ("dataset", "model", "fold", "seed")
_PLACEHOLDER = re.compile(r"\{(\w*)\}")


def find_results(pattern: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the files that match the pattern with their labels, in the order of their names."""
    expression = re.compile(_to_expression(pattern))
    start = re.split(r"[^/]*\{", pattern, maxsplit=1)[0]
    paths = [Path(pattern)] if start == pattern else sorted(Path(start or ".").rglob("*.json"))
    matches = [(path, expression.fullmatch(path.as_posix())) for path in paths]
    if not any(match for _, match in matches):
        raise InputError(f"no result file matches the pattern {pattern!r}.")
    for path, match in matches:
        if match is not None:
            labels = match.groupdict()
            yield path, {name: _to_label(name, text) for name, text in labels.items()}


def _to_expression(pattern: str) -> str:
    """Return the regular expression of a pattern. Raises `SettingError` for other placeholders."""
    fields = _PLACEHOLDER.findall(pattern)
    for field in filter(None, fields):
        if field not in FIELDS or fields.count(field) > 1:
            raise SettingError(
                f"{setting_ref('pattern', pattern)} has the placeholder {{{field}}}; expected "
                f"{', '.join(f'{{{name}}}' for name in FIELDS)} or {{}}, each label once."
            )
    pieces = map(re.escape, _PLACEHOLDER.split(pattern)[::2])
    groups = (f"(?P<{field}>[^/]+?)" if field else "[^/]+?" for field in fields)
    return "".join(
        itertools.chain.from_iterable(itertools.zip_longest(pieces, groups, fillvalue=""))
    )


def _to_label(name: str, text: str) -> Label:
    is_number = name in ("fold", "seed") and text.isdecimal()
    return int(text) if is_number else text
