"""A YAML file with the place of everything in it, and what is wrong with it, said with that place."""

from __future__ import annotations

import datetime
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.errors import SettingError

Keys = tuple[str | int, ...]  # the way to a value: ("evaluation", "metrics", 2)
_SHOWN = 60  # characters of a value in a message


def show_keys(keys: Keys) -> str:
    """`evaluation.metrics[2]`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(
        "."
    )


def show(value: Any) -> str:
    """A value as its writer would recognise it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, (list, tuple)) else repr(value)


def from_home(written: str) -> Path:
    """A path, in which ~ is the home folder; a ~ that names nobody is an ordinary sign."""
    return Path(os.path.expanduser(written))


@dataclass
class Document:
    """Plain values, and where each of them stands in its file; values that are not from a file have
    no place.
    """

    values: dict[str, Any]
    name: str | None = None  # of the file
    tree: Any = None  # the same values as the YAML loader gave them, with line marks
    moved: dict[Keys, Keys] = field(
        default_factory=dict
    )  # values that were read under another key, and that key
    given: set[Keys] = field(default_factory=set)  # values that replaced those of the file
    problems: list[tuple[tuple[int, int], str]] = field(default_factory=list)
    wrong: set[Keys] = field(default_factory=set)
    noted: list[tuple[tuple[int, int], str]] = field(default_factory=list)

    def problem(self, keys: Keys, message: str, *, at_key: bool = False) -> None:
        """Note that something is wrong at a value, or at the key itself."""
        place, line = self._place(keys, message, at_key)
        self.wrong.add(keys)
        if (place, line) not in self.problems:
            self.problems.append((place, line))

    def warn(self, keys: Keys, message: str) -> None:
        """Note what a reader should know."""
        self.noted.append(self._place(keys, message, at_key=True))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was noted, each once, in the order of the file."""
        return tuple(
            dict.fromkeys(line for _, line in sorted(self.noted, key=lambda noted: noted[0]))
        )

    def is_wrong(self, keys: Keys) -> bool:
        """Whether something is wrong with this value or a part of it."""
        return any(known[: len(keys)] == keys for known in self.wrong)

    def refuse(self) -> None:
        """Raise one error for all problems, in the order of the file."""
        if self.problems:
            raise SettingError(
                "\n".join(line for _, line in sorted(self.problems, key=lambda problem: problem[0]))
            )

    def move(self, new: Keys, old: Keys) -> None:
        """Remember under which key the file has a value."""
        self.moved[new] = old

    def _origin(self, keys: Keys) -> Keys:
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.moved:
                return self.moved[keys[:length]] + keys[length:]
        return keys

    def _place(self, keys: Keys, message: str, at_key: bool) -> tuple[tuple[int, int], str]:
        """Line and column for sorting, and the message with file, line, column and key."""
        named = self._origin(keys)
        position = None
        if self.tree is not None and not any(keys[: len(given)] == given for given in self.given):
            position, depth = _find(self.tree, named, at_key)
            named = named[: max(depth, 1)] if depth < len(named) and not at_key else named
        else:
            named = named[: max(_depth(self.values, named), 1)]
        message = " ".join(message.split("\n"))
        where = "" if position is None else f"{self.name}:{position[0] + 1}:{position[1] + 1}: "
        what = show_keys(named)
        return position or (0, 0), f"{where}{what}: {message}" if what else f"{where}{message}"


def _depth(values: Any, keys: Keys) -> int:
    """How many of the keys lead into the values: a path that is given alone has no key 'path'."""
    for depth, key in enumerate(keys):
        if not isinstance(values, (dict, list)) or (isinstance(values, dict) and key not in values):
            return depth
        values = values[key]  # type: ignore[index]
    return len(keys)


def _find(tree: Any, keys: Keys, at_key: bool) -> tuple[tuple[int, int], int]:
    """The place of a value, or of the nearest thing around it that is there, and how many of its
    keys lead there.
    """
    node, place, depth = tree, (0, 0), 0
    for depth, key in enumerate(keys):
        holder = _holder(node, key)
        if holder is None:
            return place, depth
        marks = holder.lc.data[_own_key(holder, key)]
        last = depth == len(keys) - 1
        # A mapping or list below its key is named by the key: its own place is that of its first
        # line.
        inner = holder[_own_key(holder, key)]
        below = len(marks) == 4 and marks[2] != marks[0]
        use_key = len(marks) == 2 or (last and at_key) or below
        place = (marks[0], marks[1]) if use_key else (marks[2], marks[3])
        node = inner
    return place, depth + 1 if keys else 0


def _own_key(holder: Any, key: str | int) -> Any:
    """The key as the YAML loader has it: `1` where names are text."""
    if key in holder.lc.data:
        return key
    return next(own for own in holder.lc.data if str(own) == str(key))


def _holder(node: Any, key: str | int) -> Any:
    """The mapping or list that has a mark for the key: the node itself, or what was merged into it
    with `<<`.
    """
    data = getattr(getattr(node, "lc", None), "data", None) or {}
    if isinstance(node, Mapping):
        if any(str(own) == str(key) for own in data):
            return node
        merged = getattr(node, "merge", None) or ()
        return next(
            (found for other in merged if (found := _holder(_merged(other), key)) is not None), None
        )
    return node if isinstance(key, int) and key in data else None


def _merged(entry: Any) -> Any:
    return entry[1] if isinstance(entry, tuple) else entry  # older loaders keep (position, mapping)


# --------------------------------------------------------------------------------------------------


def read(path: str | Path) -> Document:
    """Read a YAML file. Values are plain Python; what YAML itself refuses is one error with its
    line and column.
    """
    path = Path(path)
    text = _text(path)
    tree = _parse(path, text)
    if tree is None:
        raise SettingError(
            f"{path}: the file is empty; expected sections such as 'evaluation:', 'data:' and "
            "'models:'."
        )
    if not isinstance(tree, Mapping):
        shown = str(tree) if len(str(tree)) < _SHOWN else f"{str(tree)[:_SHOWN]}..."
        what = "a list" if isinstance(tree, list) else f"the value {shown!r}"
        raise SettingError(
            f"{path}:1:1: the file holds {what}; expected sections with a name, such as "
            "'evaluation:', 'data:' and 'models:'."
        )
    document = Document({}, str(path), tree)
    document.values = _plain(tree, (), document) or {}
    return document


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise SettingError(f"{path}: there is no such file; expected a YAML file.") from None
    except IsADirectoryError:
        raise SettingError(f"{path}: is a folder; expected a YAML file.") from None
    except OSError as error:
        raise SettingError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        raise SettingError(
            f"{path}:{line}:{column}: the file is not UTF-8 text; save it as UTF-8."
        ) from None


def _parse(path: Path, text: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        with warnings.catch_warnings():  # an anchor that is defined again is legal
            warnings.simplefilter("ignore")
            return YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark is not None else (0, 0)
        raise SettingError(
            f"{path}:{line + 1}:{column + 1}: {_explain(error, text, line, column)}"
        ) from None
    except RecursionError:
        raise SettingError(f"{path}: lists or mappings are nested too deeply to be read.") from None
    except TypeError:
        raise SettingError(f"{path}: a key is a list or a mapping; keys are names.") from None
    except (
        YAMLError,
        ValueError,
        LookupError,
    ) as error:  # the last two for values that do not fit their tag
        at = getattr(error, "position", None)
        before = text[:at] if isinstance(at, int) else ""
        where = (
            f":{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
            if isinstance(at, int)
            else ""
        )
        reason = " ".join(str(getattr(error, "reason", "") or error).split())
        raise SettingError(f"{path}{where}: the file is not valid YAML: {reason}.") from None


def _explain(error: Any, text: str, line: int, column: int) -> str:
    """What a complaint of the YAML loader means, and what to do."""
    problem, context = str(error.problem or ""), str(error.context or "")
    opened = (
        f"line {error.context_mark.line + 1}, column {error.context_mark.column + 1}"
        if error.context_mark
        else "above"
    )
    if "'\\t'" in problem:
        return "there is a tab here; YAML is indented with spaces only. Replace the tab by spaces."
    if found := re.search(r'duplicate key "(.*?)" with value', problem, re.DOTALL):
        return f"the key {found[1]!r} is given twice in one mapping; keep one."
    if found := re.search(r"undefined alias '(.*)'", problem):
        return f"*{found[1]} refers to an anchor that is not defined above; write &{found[1]} where its value stands."
    if found := re.search(r"expected ',' or '([\]}])'", problem):
        return f"the '{'[' if found[1] == ']' else '{'}' of {opened} is not closed; add '{found[1]}', or a comma before this."
    if "quoted scalar" in context and "end of" in problem:
        return f"the quote of {opened} is not closed; add the closing quote."
    if "another document" in problem:
        return "a second document starts here ('---'); a configuration is one document. Remove it."
    if found := re.search(r"found character '(.)' that cannot start any token", problem):
        return f"a value cannot begin with {found[1]!r}; put it in quotes."
    if (
        "mapping values are not allowed" in problem
        or "<block end>" in problem
        or "could not find expected ':'" in problem
    ):
        return _explain_indentation(text.split("\n"), line, column)
    return f"the file is not valid YAML here: {', '.join(part for part in (context, problem) if part)}."


def _explain_indentation(lines: list[str], line: int, column: int) -> str:
    """A key in a column of its own, or a colon inside a value."""
    key = _key_of(lines[line]) if line < len(lines) else None
    if key is not None and key[1] in (column, column - len(key[0])):
        for number in range(line - 1, -1, -1):
            above = _key_of(lines[number])
            if above is None and re.match(r"\s*[\w-]", lines[number]):
                return f"line {number + 1} ({lines[number].strip()!r}) has no ':' behind its key; write 'key: value'."
            if above is not None:
                return (
                    f"bad indentation: {key[0]!r} starts in column {key[1] + 1}, but {above[0]!r} "
                    f"in line {number + 1} starts in "
                    f"column {above[1] + 1}. Keys of one mapping start in the same column; what "
                    "belongs to a key without a "
                    "value of its own stands further right."
                )
    if key is not None:
        return "there is a second ': ' in this line; put the value in quotes, or give the inner key a line of its own."
    return "expected 'key: value' here; check the indentation of this line and the one above."


def _key_of(line: str) -> tuple[str, int] | None:
    """The first key of a line and its column."""
    found = re.match(r"[ ]*(?:-[ ]+)*([^\s#\-\[{][^:#]*?)[ ]*:(?:\s|$)", line)
    return None if found is None else (found[1], found.start(1))


def _plain(node: Any, keys: Keys, document: Document) -> Any:
    """The value as plain Python; keys are text. What has no plain value is a problem of the
    document.
    """
    tag = getattr(getattr(node, "tag", None), "value", None)
    if type(node).__name__ == "TaggedScalar" or (
        tag is not None and not str(tag).startswith("tag:yaml.org,2002:")
    ):
        document.problem(keys, f"the tag {tag} has no meaning here; remove it.")
        return None
    if isinstance(node, Mapping):
        return {str(key): _plain(value, (*keys, str(key)), document) for key, value in node.items()}
    if isinstance(node, (list, set)):
        return [_plain(value, (*keys, index), document) for index, value in enumerate(node)]
    if isinstance(node, bool) or node is None:
        return node
    for kind in (int, float, str):
        if isinstance(node, kind):
            return kind(node)
    if isinstance(node, (datetime.date, datetime.datetime)):
        return str(node)
    return bool(node) if type(node).__name__ == "ScalarBoolean" else str(node)


def drop_none(values: Any, *, keep: Iterable[str] = ()) -> Any:
    """Values without keys that have none: a key with nothing behind it was not given. Inside
    `keep`, None is a value.
    """
    if isinstance(values, dict):
        return {
            key: value if key in keep else drop_none(value, keep=keep)
            for key, value in values.items()
            if value is not None
        }
    return [drop_none(value, keep=keep) for value in values] if isinstance(values, list) else values
