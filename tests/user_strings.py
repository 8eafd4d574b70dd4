"""Every text of `src/weft` that a user can read, extracted from the syntax trees of its modules.

`python tests/user_strings.py [PREFIX ...]` prints them, one per line, with file, line and kind; a
prefix such as `cli` restricts the output to a package. Expressions inside f-strings are printed in
braces. Docstrings are left out, except those of commands, which are their help.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import weft

SOURCE = Path(weft.__file__).parent

# Keyword arguments whose texts are always shown, even if they are a single word.
_SHOWN_KEYWORDS = {
    "description": "description",
    "epilog": "help",
    "help": "help",
    "metavar": "help",
    "rich_help_panel": "heading",
    "short_help": "help",
    "title": "heading",
}
_WARNING_FUNCTIONS = {"warn", "warn_about_input"}
_EXCEPTIONS = re.compile(r"(\w+Error|Missing(Input|Extra)|Unknown(Metric|Parameter))$")
# Two words with a space between them: not an identifier, a format or a regular expression.
_PROSE = re.compile(r"[A-Za-z}'\"),.:;]\s+[A-Za-z{'\"(]")
_TECHNICAL = re.compile(r"\(\?|\\[wdsS]|^\s*[.#]?[\w-]+ *\{[^}]*:|SELECT |^[@<]")


@dataclass(frozen=True)
class UserString:
    """A text with its place; `kind` is error, warning, help, description, heading or text."""

    path: str
    line: int
    kind: str
    text: str

    @property
    def place(self) -> str:
        """The file and line, for messages."""
        return f"{self.path}:{self.line}"


def user_strings(source: Path = SOURCE) -> list[UserString]:
    """Return the texts of all modules under a folder, sorted by place."""
    found = [
        text
        for path in sorted(source.rglob("*.py"))
        for text in strings_of_module(
            path.read_text(encoding="utf-8"), path.relative_to(source).as_posix()
        )
    ]
    return sorted(found, key=lambda text: (text.path, text.line))


def strings_of_module(code: str, path: str) -> Iterator[UserString]:
    """Yield the texts of one module."""
    tree = ast.parse(code)
    yield from _visit(tree, path, "text")
    if path.startswith("cli/") and path.endswith("_command.py"):
        name = path.removeprefix("cli/").removesuffix("_command.py")
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                yield UserString(path, node.lineno, "help", ast.get_docstring(node) or "")


def _visit(node: ast.AST, path: str, kind: str) -> Iterator[UserString]:
    if isinstance(node, ast.Call):
        yield from _visit_call(node, path, kind)
        return
    text = _text(node)
    if text is not None:
        if _is_prose(text) or (kind not in ("text", "error", "warning") and text.strip()):
            yield UserString(path, getattr(node, "lineno", 0), kind, text)
        if isinstance(node, (ast.JoinedStr, ast.BinOp)):
            yield from _visit_placeholders(node, path, kind)
        return
    for child in _visible_children(node):
        yield from _visit(child, path, kind)


def _visit_call(node: ast.Call, path: str, kind: str) -> Iterator[UserString]:
    name = _name(node.func)
    inner = kind
    if name in _WARNING_FUNCTIONS:
        inner = "warning"
    elif _EXCEPTIONS.search(name):
        inner = "error"
    elif name not in ("join", "cast", "replace"):
        inner = "text"  # an argument of another function need not be the end of a message
    yield from _visit(node.func, path, "text")
    for argument in node.args:
        yield from _visit(argument, path, inner)
    for keyword in node.keywords:
        yield from _visit(keyword.value, path, _SHOWN_KEYWORDS.get(keyword.arg or "", inner))


def _visit_placeholders(node: ast.AST, path: str, kind: str) -> Iterator[UserString]:
    """Yield texts inside the braces of f-strings, such as alternatives of a conditional."""
    for part in ast.walk(node):
        if isinstance(part, ast.FormattedValue):
            yield from _visit(part.value, path, "text")


def _visible_children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children that can contain texts: no docstrings, annotations, assertions."""
    if isinstance(node, (ast.Assert, ast.Subscript)):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            if isinstance(value, ast.Subscript) and _name(value.value) == "Annotated":
                yield from ast.iter_child_nodes(value.slice)
            continue
        for child in value if isinstance(value, list) else [value]:
            is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and not is_docstring:
                yield child


def _text(node: ast.AST) -> str | None:
    """Return the text of a literal, an f-string or a sum of them; None for other nodes."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = [_text(part) for part in node.values]
        return "".join(part or "" for part in parts)
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value) + "}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        if left is None and right is None:
            return None
        sides = zip((left, right), (node.left, node.right), strict=True)
        return "".join(
            "{" + ast.unparse(side) + "}" if text is None else text for text, side in sides
        )
    return None


def _is_prose(text: str) -> bool:
    words = re.sub(r"\{[^{}]*\}", "x", text)
    return bool(_PROSE.search(words)) and not _TECHNICAL.search(words)


def _name(node: ast.AST) -> str:
    """Return the last name of a dotted expression, an empty text for others."""
    return getattr(node, "attr", None) or getattr(node, "id", "")


def main(prefixes: list[str]) -> None:
    """Print the texts of the packages with these prefixes, all without one."""
    for text in user_strings():
        if not prefixes or text.path.startswith(tuple(prefixes)):
            print(f"{text.place} [{text.kind}] {text.text!r}")


if __name__ == "__main__":
    main(sys.argv[1:])
