"""A YAML document with the position of every value, and its problems with those positions."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft._choices import POSITIONS
from weft._input_kinds import NAMED_INPUTS
from weft.errors import SettingError, WeftError, render, setting_ref

Keys = tuple[str | int, ...]  # the path to a value: ("evaluation", "metrics", 2)
SettingStyle = Callable[[str, str], str]  # spells a setting and the repr of its value
# Words that YAML reads as a number, a boolean or nothing, unless they are in quotes.
_NOT_TEXT = re.compile(r"[-+]?[\d.][\d_.]*(e[-+]?\d+)?|true|false|null", re.IGNORECASE)
_FILES = ("truth", "users", "items", *NAMED_INPUTS)


def show_keys(keys: Keys) -> str:
    """Return keys as text, such as `evaluation.metrics[2]`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".")


def show(value: Any) -> str:
    """Return a value as YAML writes it; mappings and lists by their kind."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, (list, tuple)) else repr(value)


def from_home(text: str) -> Path:
    """Return a path in which ~ is the home folder."""
    return Path(os.path.expanduser(text))


def configuration_style(name: str, value: str) -> str:
    """Print a reference to a setting as a configuration spells it: `top_k: [10, 20]`."""
    if name in _FILES or name.startswith("inputs."):
        return f"data.{name}: {POSITIONS}" if value == repr(POSITIONS) else f"data.{name}"
    return f"{name}: {_yaml(parse_repr(value))}" if value else name


def parse_repr(text: str) -> Any:
    """Return the value with this repr; text that is not the repr of plain values as it is."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _yaml(value: Any) -> str:
    """Return plain values in the flow style of YAML."""
    if isinstance(value, dict):
        pairs = (f"{key}: {_yaml(part)}" for key, part in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_yaml, value))}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    is_plain = isinstance(value, str) and re.fullmatch(r"[\w./-]+(\([\w, ]*\))?", value)
    return value if is_plain and not _NOT_TEXT.fullmatch(value) else repr(value)


def setting_name(keys: Keys) -> str:
    """Return the name by which messages refer to the setting at these keys."""
    section, *rest = map(str, keys)
    if section == "data" and rest[:1] == ["inputs"] and len(rest) > 1:
        return f"inputs.{rest[1]}"
    if section == "models" and rest:
        return f"models.{rest[0]}"
    if section in ("evaluation", "data", "engine") and rest and rest[0] != "name":
        return rest[0]
    return section


@dataclass
class Document:
    """Plain values and their positions in the file; values without a file have no position."""

    values: dict[str, Any]
    name: str | None = None  # the path of the file
    tree: Any = None  # the values as the YAML loader returns them, with line marks
    moved: dict[Keys, Keys] = field(default_factory=dict)  # renamed keys: new to old
    overridden: set[Keys] = field(default_factory=set)  # values that are not from the file
    override_style: SettingStyle | None = None  # spells settings that are not from the file
    _problems: list[tuple[tuple[int, int], str]] = field(default_factory=list)
    _problem_keys: set[Keys] = field(default_factory=set)
    _warnings: list[tuple[tuple[int, int], str]] = field(default_factory=list)

    def add_problem(self, keys: Keys, message: str, *, at_key: bool = False) -> None:
        """Add a problem of a value, or of the key itself. The message may refer to settings."""
        position, line = self._locate(keys, message, at_key=at_key)
        self._problem_keys.add(keys)
        if (position, line) not in self._problems:
            self._problems.append((position, line))

    def add_warning(self, keys: Keys, message: str) -> None:
        """Add a warning at a key."""
        self._warnings.append(self._locate(keys, message, at_key=True))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings, each once, in the order of the file."""
        ordered = sorted(self._warnings, key=lambda warning: warning[0])
        return tuple(dict.fromkeys(line for _, line in ordered))

    @contextmanager
    def collect(self, keys: Keys) -> Iterator[None]:
        """Add a `WeftError` that is raised inside as a problem of the value at these keys."""
        try:
            yield
        except WeftError as error:
            self.add_problem(keys, error.message)

    def has_problem(self, keys: Keys) -> bool:
        """Return True if the value or a part of it has a problem."""
        return any(known[: len(keys)] == keys for known in self._problem_keys)

    def raise_problems(self) -> None:
        """Raise one `SettingError` for all problems, in the order of the file."""
        if self._problems:
            ordered = sorted(self._problems, key=lambda problem: problem[0])
            raise SettingError("\n".join(line for _, line in ordered))

    def spell(self, name: str, value: str) -> str:
        """Print a reference to a setting as the file or the option spells it."""
        is_option = self.tree is None or any(setting_name(keys) == name for keys in self.overridden)
        if is_option and self.override_style is not None:
            return self.override_style(name, value)
        return configuration_style(name, value)

    def locate_error(self, error: WeftError) -> None:
        """Spell the settings of an error's message, and add the position of its setting."""
        message = render(error.message, self.spell)
        for section in ("evaluation", "data"):
            values = self.values.get(section)
            keys = (section, error.setting or "")
            is_in_file = self.tree is not None and keys not in self.overridden
            if is_in_file and isinstance(values, dict) and error.setting in values:
                message = self._locate(keys, error.message, at_key=False)[1]
        error.args = (message,)

    def _is_overridden(self, keys: Keys) -> bool:
        return any(keys[: len(replaced)] == replaced for replaced in self.overridden)

    def _locate(self, keys: Keys, message: str, *, at_key: bool) -> tuple[tuple[int, int], str]:
        """Return line and column for sorting, and the message with file, line, column and key."""
        shown = self._original_keys(keys)
        position = None
        if self.tree is not None and not self._is_overridden(keys):
            position, depth = _find(self.tree, shown, at_key)
            depth = len(shown) if at_key else depth
        else:
            depth = _depth(self.values, shown)
        shown = shown[: max(depth, 1)]
        where = "" if position is None else f"{self.name}:{position[0] + 1}:{position[1] + 1}: "
        if keys and not _names(message, setting_name(keys)):
            if position is None and self.override_style is not None:
                where += f"{self.override_style(setting_name(keys), '')}: "
            else:
                where += f"{show_keys(shown[:-1] if _names(message, str(keys[-1])) else shown)}: "
        text = render(message, self.spell)
        if "\n  File " not in text:  # the lines of an author's code stay lines
            text = " ".join(text.split("\n"))
        return position or (0, 0), where + text

    def _original_keys(self, keys: Keys) -> Keys:
        """Return the keys of the file from which a value was renamed."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.moved:
                return self.moved[keys[:length]] + keys[length:]
        return keys


def _names(message: str, setting: str) -> bool:
    """Return True if the message starts with a reference to the setting."""
    return message.startswith(setting_ref(setting)[:-1])


def _depth(values: Any, keys: Keys) -> int:
    """Return how many of the keys exist: a path that is given alone has no key 'path'."""
    for depth, key in enumerate(keys):
        if not isinstance(values, (dict, list)) or (isinstance(values, dict) and key not in values):
            return depth
        values = values[key]  # type: ignore[index]
    return len(keys)


def _find(tree: Any, keys: Keys, at_key: bool) -> tuple[tuple[int, int], int]:
    """Return line and column of a value, or of the innermost mapping around it that exists.

    Also returns how many of the keys exist.
    """
    node, position = tree, (0, 0)
    for depth, key in enumerate(keys):
        entry = _find_entry(node, key)
        if entry is None:
            return position, depth
        marks, node = entry
        is_last = depth == len(keys) - 1
        # A mapping or list below its key has the position of its first line: use the key's.
        is_below = len(marks) == 4 and marks[2] != marks[0]
        use_key = len(marks) == 2 or (is_last and at_key) or is_below
        position = (marks[0], marks[1]) if use_key else (marks[2], marks[3])
    return position, len(keys)


def _find_entry(node: Any, key: str | int) -> tuple[Any, Any] | None:
    """Return the marks and the value of a key of a node, or of a mapping merged by `<<`."""
    marks = getattr(getattr(node, "lc", None), "data", None) or {}
    for own in marks:
        # The loader may have another type, such as the integer 1 for the name "1".
        if own == key or (isinstance(node, Mapping) and str(own) == str(key)):
            return marks[own], node[own]
    for merged in getattr(node, "merge", None) or ():
        mapping = merged[1] if isinstance(merged, tuple) else merged  # a pair in older loaders
        if (entry := _find_entry(mapping, key)) is not None:
            return entry
    return None
