"""Reading of YAML files, with an explanation of syntax errors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.config.document import Document, Keys
from weft.config.yaml_limits import check_limits
from weft.errors import SettingError

_SHOWN_CHARACTERS = 60  # of a value in a message
# Problems that the YAML loader reports, with their meaning and how to fix them.
_EXPLANATIONS = {
    r"'\\t'": "found a tab; YAML is indented with spaces only. Replace the tab with spaces.",
    r'duplicate key "(.*?)" with value': "the key {0!r} occurs twice in one mapping; remove one.",
    r"undefined alias '(.*)'": "*{0} refers to an anchor that is not defined above; define it with "
    "&{0}.",
    r"expected ',' or '\]'": "the '[' at {opened} is not closed; add ']', or a comma before this "
    "position.",
    r"expected ',' or '}'": "the '{{' at {opened} is not closed; add '}}', or a comma before this "
    "position.",
    r"quoted scalar.*end of": "the quote at {opened} is not closed; add the closing quote.",
    r"another document": "a second document starts here ('---'); a configuration is one document. "
    "Remove it.",
    r"found character '(.)' that cannot start any token": "a value cannot begin with {0!r}; quote "
    "the value.",
}
_INDENTATION_PROBLEM = r"mapping values are not allowed|<block end>|could not find expected ':'"


def read_yaml(path: str | Path) -> Document:
    """Read a YAML file into plain values.

    Raises `SettingError` with line and column for a file that is not valid YAML.
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
        text = str(tree)
        shown = text if len(text) < _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
        what = "a list" if isinstance(tree, list) else f"the value {shown!r}"
        raise SettingError(
            f"{path}:1:1: the file contains {what}; expected sections such as 'evaluation:', "
            "'data:' and 'models:'."
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
        raise SettingError(f"{path}: this is a folder; expected a YAML file.") from None
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
            check_limits(path, YAML(typ="rt").parse(text))
            return YAML(typ="rt").load(text)
    except SettingError:  # of the limits; it is a ValueError
        raise
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark is not None else (0, 0)
        raise SettingError(
            f"{path}:{line + 1}:{column + 1}: {_explain(error, text, line, column)}"
        ) from None
    except AttributeError:  # the loader treats a scalar as a collection, because of its tag
        raise SettingError(
            f"{path}: a tag such as !!set or !!omap does not fit its value; remove the tag."
        ) from None
    except TypeError:
        raise SettingError(f"{path}: a key is a list or a mapping; keys must be names.") from None
    except (YAMLError, ValueError, LookupError) as error:  # of values that do not fit their tag
        offset = getattr(error, "position", None)
        where = ""
        if isinstance(offset, int):
            before = text[:offset]
            where = f":{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
        reason = " ".join(str(getattr(error, "reason", "") or error).split())
        raise SettingError(f"{path}{where}: the file is not valid YAML: {reason}.") from None


def _explain(error: Any, text: str, line: int, column: int) -> str:
    """Return the meaning of an error of the YAML loader, and how to fix it."""
    details = ", ".join(str(part) for part in (error.context, error.problem) if part)
    opened = "above"
    if error.context_mark:
        opened = f"line {error.context_mark.line + 1}, column {error.context_mark.column + 1}"
    for pattern, explanation in _EXPLANATIONS.items():
        if match := re.search(pattern, details, re.DOTALL):
            return explanation.format(*match.groups(), opened=opened)
    if re.search(_INDENTATION_PROBLEM, details):
        return _explain_indentation(text.split("\n"), line, column)
    return f"the file is not valid YAML here: {details}."


def _explain_indentation(lines: list[str], line: int, column: int) -> str:
    """Return the message for a key in the wrong column, or a colon inside a value."""
    key = _key_of(lines[line]) if line < len(lines) else None
    if key is None:
        return "expected 'key: value' here; check the indentation of this line and the one above."
    if key[1] in (column, column - len(key[0])):
        for number in range(line - 1, -1, -1):
            above = _key_of(lines[number])
            if above is None and re.match(r"\s*[\w-]", lines[number]):
                written = repr(lines[number].strip())
                return (
                    f"line {number + 1} ({written}) has no ':' after its key; write 'key: value'."
                )
            if above is not None:
                return (
                    f"bad indentation: {key[0]!r} starts in column {key[1] + 1}, but {above[0]!r} "
                    f"in line {number + 1} starts in column {above[1] + 1}. Keys of one mapping "
                    "start in the same column; a mapping or list below its key is indented "
                    "further."
                )
    return (
        "this line contains a second ': '; quote the value, or move the inner key to its own line."
    )


def _key_of(line: str) -> tuple[str, int] | None:
    """Return the first key of a line and its column."""
    match = re.match(r"[ ]*(?:-[ ]+)*([^\s#\-\[{][^:#]*?)[ ]*:(?:\s|$)", line)
    return None if match is None else (match[1], match.start(1))


def _unknown_tag(node: Any) -> str | None:
    """Return the tag of a node if it is not one of YAML itself."""
    tag = getattr(getattr(node, "tag", None), "value", None)
    is_known = tag is None or str(tag).startswith("tag:yaml.org,2002:")
    return None if is_known and type(node).__name__ != "TaggedScalar" else str(tag)


def _plain(node: Any, keys: Keys, document: Document) -> Any:
    """Return the value as plain Python with text keys; a tag is a problem of the document."""
    if tag := _unknown_tag(node):
        document.add_problem(keys, f"the tag {tag} is not supported; remove it.")
        return None
    if isinstance(node, Mapping):
        return {str(key): _plain(value, (*keys, str(key)), document) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value, (*keys, index), document) for index, value in enumerate(node)]
    if node is None or isinstance(node, bool):
        return node
    if type(node).__name__ == "ScalarBoolean":  # a boolean with an anchor, which is an int
        return bool(node)
    kind = next((kind for kind in (int, float, str) if isinstance(node, kind)), str)
    return kind(node)
