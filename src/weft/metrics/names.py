"""The one grammar of metric names: `nDCG@10`, `F1(metric_name_1=nDCG(gain=linear), beta=0.5)@20`.

A name is a value: it parses, compares and prints back. What a name means (which metric, which
defaults) is the registry's.

    name   := word [ "(" [ param { "," param } ] ")" ] [ "@" integer ]
    param  := word "=" value
    value  := number | True | False | None | string | "[" [ value { "," value } ] "]" | name

A result may hold several values of one metric, by label: `BiasDisparityBR@10[F, Drama]`. Labels are
anything, in quotes where they would be misread."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn, Union

from weft.errors import SettingError

Value = Union[None, bool, int, float, str, "tuple[Value, ...]", "MetricSpec"]

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w.]))
  | (?P<word>[A-Za-z_][\w-]*)
  | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<sign>[()\[\],=@])
    )""",
    re.VERBOSE,
)
_WORD = re.compile(r"[A-Za-z_][\w-]*\Z")
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_LABELS = re.compile(rf"\s*(?:{_QUOTED}|[^\s,\[\]'\"][^,\[\]]*)\s*")
# Labels stand behind a whole name: after its cut-off, its parameters, or its word, never inside the
# parameters.
_CELL = re.compile(rf"(?<=[\w)])\s*\[(?P<labels>{_LABELS.pattern}(?:,{_LABELS.pattern})*)\]\Z")
_LABEL = re.compile(r"[^\s,\[\]'\"](?:[^,\[\]]*[^\s,\[\]])?\Z")
# "none" in lower case is a word: several parameters have a value of that name.
_CONSTANTS: dict[str, bool | None] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "None": None,
}


@dataclass(frozen=True)
class MetricSpec:
    """A metric's name, parameters in their order, and cut-off, as written."""

    name: str
    params: tuple[tuple[str, Value], ...] = ()
    k: int | None = None

    def __str__(self) -> str:
        inside = ", ".join(f"{key}={_print(value)}" for key, value in self.params)
        return (
            self.name + (f"({inside})" if inside else "") + ("" if self.k is None else f"@{self.k}")
        )

    def with_cutoff(self, k: int | None) -> MetricSpec:
        """The same metric at another cut-off."""
        return MetricSpec(self.name, self.params, k)


def parse_name(text: str) -> MetricSpec:
    """Read a name.

    >>> parse("F1(metric_name_1=nDCG, beta=0.5)@10")
    Spec(name='F1', params=(('metric_name_1', 'nDCG'), ('beta', 0.5)), k=10)
    >>> str(parse(" ndcg( gain = linear ) @ 5 "))
    'ndcg(gain=linear)@5'
    """
    return _Parser(text).whole()


def format_labels(labels: Iterable[object]) -> str:
    """Labels behind a name: `[F, Drama]`; nothing for no labels."""
    texts = [str(label) for label in labels]
    return (
        "["
        + ", ".join(
            text if _LABEL.match(text) and text.isprintable() else _quote(text) for text in texts
        )
        + "]"
        if texts
        else ""
    )


def split_labels(text: str) -> tuple[str, tuple[str, ...]]:
    """A name and the labels behind it, if any.

    >>> split_labels("BiasDisparityBR@10[F, Drama]")
    ('BiasDisparityBR@10', ('F', 'Drama'))
    """
    match = _CELL.search(text.rstrip())
    if match is None:
        return text, ()
    labels = tuple(_unquote(label.strip()) for label in _LABELS.findall(match["labels"]))
    return text[: match.start()], labels


def unquoted_characters(text: str) -> Iterator[tuple[int, str]]:
    """The characters of a text that are neither in brackets nor in quotes, with their positions."""
    depth, quote, before = 0, "", " "
    skip = False
    for position, sign in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip = sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in "'\"" and before in " ([,=":  # elsewhere it is an apostrophe
            quote = sign
        elif sign in "([":
            depth += 1
        elif sign in ")]":
            depth = max(0, depth - 1)
        elif depth == 0:
            yield position, sign
        before = sign


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return (
        "'"
        + "".join(sign if sign.isprintable() else f"\\u{{{ord(sign):x}}}" for sign in escaped)
        + "'"
    )


def _unquote(text: str) -> str:
    return (
        re.sub(
            r"\\u\{([0-9a-f]+)\}|\\(.)",
            lambda found: chr(int(found[1], 16)) if found[1] else found[2],
            text[1:-1],
        )
        if len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
        else text
    )


def _print(value: Value) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_print, value)) + "]"
    if isinstance(value, str):
        plain = _WORD.match(value) and value not in _CONSTANTS
        return value if plain else _quote(value)
    return str(value) if isinstance(value, MetricSpec) else repr(value)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                self.fail(
                    position + len(text[position:]) - len(text[position:].lstrip()),
                    "a name, a number or a sign",
                )
            self.tokens.append(
                (match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
            )
            position = match.end()
        self.next = 0

    def fail(self, position: int, expected: str) -> NoReturn:
        raise SettingError(
            f"cannot read the metric name {self.text!r}: expected {expected} at character "
            f"{position + 1}. "
            "Names look like 'nDCG@10' or 'F1(metric_name_1=nDCG, metric_name_2=MAP, beta=0.5)@10'."
        )

    def peek(self) -> tuple[str, str, int]:
        return (
            self.tokens[self.next] if self.next < len(self.tokens) else ("end", "", len(self.text))
        )

    def take(self, kind: str, text: str | None = None) -> str:
        found, token, position = self.peek()
        if found != kind or (text is not None and token != text):
            self.fail(
                position,
                repr(text) if text else {"word": "a name", "number": "a number"}.get(kind, kind),
            )
        self.next += 1
        return token

    def accept(self, sign: str) -> bool:
        if self.peek()[:2] == ("sign", sign):
            self.next += 1
            return True
        return False

    def whole(self) -> MetricSpec:
        spec = self.spec()
        if self.peek()[0] != "end":
            self.fail(self.peek()[2], "the end")
        return spec

    def spec(self) -> MetricSpec:
        name = self.take("word")
        params: list[tuple[str, Value]] = []
        if self.accept("("):
            while not self.accept(")"):
                if params:
                    self.take("sign", ",")
                key = self.take("word")
                if key in dict(params):
                    raise SettingError(
                        f"the metric name {self.text!r} gives the parameter {key!r} twice; keep "
                        "one."
                    )
                self.take("sign", "=")
                params.append((key, self.value()))
        k = None
        if self.accept("@"):
            digits, position = self.peek()[1], self.peek()[2]
            self.take("number")
            if not digits.isdigit() or int(digits) < 1:
                self.fail(position, "a whole number from 1 up, the cut-off,")
            k = int(digits)
        return MetricSpec(name, tuple(params), k)

    def value(self) -> Value:
        kind, token, position = self.peek()
        if kind == "number":
            number = float(token) if re.search(r"[.eE]", token) else int(token)
            if number in (math.inf, -math.inf):
                self.fail(position, "a number that a float can hold")
            self.next += 1
            return number
        if kind == "string":
            self.next += 1
            return _unquote(token)
        if self.accept("["):
            values: list[Value] = []
            while not self.accept("]"):
                if values:
                    self.take("sign", ",")
                values.append(self.value())
            return tuple(values)
        if kind == "word" and token in _CONSTANTS:
            self.next += 1
            return _CONSTANTS[token]
        if kind != "word":
            self.fail(position, "a value")
        spec = self.spec()
        return spec.name if spec == MetricSpec(spec.name) else spec
