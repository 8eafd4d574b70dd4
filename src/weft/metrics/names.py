"""The grammar of metric names: `nDCG@10`, `F1(metric_name_1=nDCG(gain=linear), beta=0.5)@20`, and
arithmetic on them: `nDCG@10 * Recall@10`.

A name is a value: it parses, compares and prints back. The registry has the metric and the
defaults that it means. Importing this module does not load torch.

    name   := word [ "(" [ param { "," param } ] ")" ] [ "@" integer ]
    param  := word "=" value
    value  := number | True | False | None | string | "[" [ value { "," value } ] "]" | name | data
    data   := "<" text ">"
    sum    := product { ("+" | "-") product }
    product := power { ("*" | "/") power }
    power  := operand [ "**" operand ]
    operand := number | name | "(" sum ")"

Parameters that are arrays, tensors or other data stand in a name by type and digest, `weights=
<float32 tensor [3] 0f8e1a5b7c2d>`: only a metric object holds them (see `DataValue`).

A metric may have several values, one per label: `BiasDisparityBR@10[F, Drama]`. A label is any
text, in quotes where it would be ambiguous.
"""

from __future__ import annotations

import hashlib
import math
import pickle
import re
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn, Union

from weft.errors import SettingError, plain_text

Value = Union[None, bool, int, float, str, "tuple[Value, ...]", "MetricSpec", "DataValue"]

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w.]))
  | (?P<word>[A-Za-z_][\w-]*)
  | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<data><[^<>]+>)
  | (?P<sign>\*\*|[()\[\],=@+*/-])
    )""",
    re.VERBOSE,
)
_MAX_CHARACTERS = 10_000
_MAX_DIGITS = 400  # more than the largest float has
_MAX_DEPTH = 20  # of nested lists and names
_WORD = re.compile(r"[A-Za-z_][\w-]*\Z")
_CODE_POINT = "(?!d[89a-f])[0-9a-f]{1,4}|(?:10|[1-9a-f])[0-9a-f]{4}"  # without surrogates
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_LABELS = re.compile(rf"\s*(?:{_QUOTED}|[^\s,\[\]'\"][^,\[\]]*)\s*")
# Labels follow a complete name: its cut-off, its parameters or its word.
_CELL = re.compile(rf"(?<=[\w)])\s*\[(?P<labels>{_LABELS.pattern}(?:,{_LABELS.pattern})*)\]\Z")
_LABEL = re.compile(r"[^\s,\[\]'\"](?:[^,\[\]]*[^\s,\[\]])?\Z")
_PRECEDENCE = (("+", "-"), ("*", "/"), ("**",))  # of operations, from low to high
# "none" in lower case is a word: several parameters have a value of that name.
_CONSTANTS: dict[str, bool | None] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "None": None,
}


@dataclass(frozen=True)
class DataValue:
    """A parameter that is an array, a tensor or other data: equal if type and content are.

    `text` describes the content with a digest. `data` is None in a name that was parsed: a metric
    cannot be built from that."""

    text: str
    data: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def from_data(cls, data: Any) -> DataValue:
        """Return the value of an array, a tensor, or another object that has no hash."""
        kind = type(data).__name__
        if hasattr(data, "dtype") and hasattr(data, "shape"):
            form = "tensor" if hasattr(data, "detach") else "array"
            kind = f"{str(data.dtype).removeprefix('torch.')} {form} {list(data.shape)}"
        return cls(f"<{kind} {hashlib.sha256(_content(data)).hexdigest()[:12]}>", data)


@dataclass(frozen=True)
class MetricSpec:
    """A metric name, its parameters in order, and its cut-off, as written."""

    name: str
    params: tuple[tuple[str, Value], ...] = ()
    k: int | None = None

    def __str__(self) -> str:
        cutoff = "" if self.k is None else f"@{self.k}"
        if not self.params:
            return self.name + cutoff
        params = ", ".join(f"{key}={_format_value(value)}" for key, value in self.params)
        return f"{self.name}({params}){cutoff}"

    def with_cutoff(self, k: int | None) -> MetricSpec:
        """Return the spec with another cut-off, None for no cut-off."""
        return MetricSpec(self.name, self.params, k)  # called often; `replace` is slow

    @property
    def definition(self) -> str:
        """A text that is equal in all processes for equal metrics, and differs for others."""
        return str(self)


@lru_cache(maxsize=1024)
def parse_name(text: str) -> MetricSpec:
    """Parse a name; raises `SettingError` with the position of the first mistake.

    >>> parse_name("F1(metric_name_1=nDCG, beta=0.5)@10")
    MetricSpec(name='F1', params=(('metric_name_1', 'nDCG'), ('beta', 0.5)), k=10)
    >>> str(parse_name(" ndcg( gain = linear ) @ 5 "))
    'ndcg(gain=linear)@5'
    """
    return _Parser(text).parse()


def as_value(value: Any) -> Value:
    """Return a parameter as names hold it: lists as tuples, NumPy scalars as Python numbers, arrays
    and tensors by their content.
    """
    if isinstance(value, (list, tuple)):
        return tuple(map(as_value, value))
    plain: Value = value
    if type(value).__module__ == "numpy" and hasattr(value, "item") and value.shape == ():
        plain = value.item()
    elif hasattr(value, "detach") or not isinstance(value, Hashable):
        plain = DataValue.from_data(value)
    return plain


def holds_data(value: Value) -> bool:
    """Return True if a value, or a value inside it, is data that may change in place."""
    if isinstance(value, MetricSpec):
        return any(holds_data(parameter) for _, parameter in value.params)
    if isinstance(value, tuple):
        return any(map(holds_data, value))
    return isinstance(value, DataValue)


def restore_data(value: Value, spec: MetricSpec) -> Any:
    """Return a parameter with the arrays and tensors that it was made with."""
    if isinstance(value, DataValue):
        if value.data is None:
            raise SettingError(
                f"{spec} was made with {value.text}, of which the name contains only a digest; "
                "give the metric object instead of the name."
            )
        return value.data
    if isinstance(value, tuple) and holds_data(value):
        return tuple(restore_data(one, spec) for one in value)
    return value


def _content(data: Any) -> bytes:
    """Return bytes that are equal for equal content."""
    if hasattr(data, "detach"):
        import torch

        dense = data.detach().cpu().to_dense().resolve_conj()
        dense = torch.view_as_real(dense) if dense.is_complex() else dense
        return dense.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    if hasattr(data, "tobytes") and not data.dtype.hasobject:
        content: bytes = data.tobytes()
        return content
    if isinstance(data, dict):
        return repr([(key, as_value(value)) for key, value in data.items()]).encode()
    if isinstance(data, set):
        return repr(sorted(map(repr, data))).encode()
    return pickle.dumps(data.tolist() if hasattr(data, "tolist") else data)


def format_labels(labels: Iterable[object]) -> str:
    """Return labels as they follow a name, `[F, Drama]`; an empty string for no labels."""
    texts = [str(label) for label in labels]
    if not texts:
        return ""
    quoted = (text if _LABEL.match(text) and text.isprintable() else _quote(text) for text in texts)
    return f"[{', '.join(quoted)}]"


def split_labels(text: str) -> tuple[str, tuple[str, ...]]:
    """Split a text into a metric name and the labels that follow it, if any.

    >>> split_labels("BiasDisparityBR@10[F, Drama]")
    ('BiasDisparityBR@10', ('F', 'Drama'))
    """
    match = _CELL.search(text.rstrip())
    if match is None:
        return text, ()
    labels = tuple(_unquote(label.strip()) for label in _LABELS.findall(match["labels"]))
    return text[: match.start()], labels


def unquoted_characters(text: str) -> Iterator[tuple[int, str]]:
    """Yield (position, character) of the characters that are neither in brackets nor in quotes."""
    depth, quote, previous = 0, "", " "
    is_escaped = False
    for position, character in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif quote:
            is_escaped = character == "\\"
            quote = "" if character == quote else quote
        elif character in "'\"" and previous in " ([,=":  # elsewhere it is an apostrophe
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth = max(0, depth - 1)
        elif depth == 0:
            yield position, character
        previous = character


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    printable = (char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in escaped)
    return f"'{''.join(printable)}'"


def _unquote(text: str) -> str:
    if len(text) < 2 or text[0] != text[-1] or text[0] not in "'\"":
        return text

    def unescape(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else match[2]

    return re.sub(rf"\\u\{{({_CODE_POINT})\}}|\\(.)", unescape, text[1:-1], flags=re.DOTALL)


def _format_value(value: Value) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_format_value, value)) + "]"
    if isinstance(value, str):
        is_plain = _WORD.match(value) and value not in _CONSTANTS
        return value if is_plain else _quote(value)
    if isinstance(value, DataValue):
        return value.text
    return str(value) if isinstance(value, MetricSpec) else repr(value)


class _Parser:
    """A recursive-descent parser of one name."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        if len(text) > _MAX_CHARACTERS or plain_text(text) != text:
            self.fail(0, f"at most {_MAX_CHARACTERS:,} characters of valid UTF-8")
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                start = len(text) - len(text[position:].lstrip())
                self.fail(start, "a name, a number or a symbol")
            kind = match.lastgroup
            if kind == "number" and len(match[kind]) > _MAX_DIGITS:
                self.fail(match.start(kind), f"a number of at most {_MAX_DIGITS} characters")
            self.tokens.append((kind, match[kind], match.start(kind)))
            position = match.end()
        self.next = 0
        self.depth = 0  # of nested lists and names

    def fail(self, position: int, expected: str) -> NoReturn:
        shown = self.text if len(self.text) <= 100 else f"{self.text[:100]}..."
        raise SettingError(
            f"cannot read the metric name {shown!r}: expected {expected} at character "
            f"{position + 1}. Examples of names: 'nDCG@10', 'F1(metric_name_1=nDCG, "
            "metric_name_2=MAP, beta=0.5)@10'."
        )

    def peek(self) -> tuple[str, str, int]:
        end = ("end", "", len(self.text))
        return self.tokens[self.next] if self.next < len(self.tokens) else end

    def expect(self, kind: str, text: str | None = None) -> str:
        actual, token, position = self.peek()
        if actual != kind or (text is not None and token != text):
            expected = {"word": "a name", "number": "a number"}.get(kind, kind)
            self.fail(position, repr(text) if text else expected)
        self.next += 1
        return token

    def accept(self, sign: str) -> bool:
        if self.peek()[:2] == ("sign", sign):
            self.next += 1
            return True
        return False

    def parse(self) -> MetricSpec:
        parsed = self.operation()
        if self.peek()[0] != "end":
            self.fail(self.peek()[2], "the end")
        if not isinstance(parsed, MetricSpec):
            self.fail(0, "a name")
        return parsed

    def operation(self, level: int = 0) -> MetricSpec | float:
        """Parse operations of a precedence and above; those of equal precedence from the left."""
        if level == len(_PRECEDENCE):
            return self.operand()
        left = self.operation(level + 1)
        while self.peek()[0] == "sign" and self.peek()[1] in _PRECEDENCE[level]:
            symbol, position = self.expect("sign"), self.peek()[2]
            right = self.operation(level + 1)
            if not isinstance(left, MetricSpec) and not isinstance(right, MetricSpec):
                self.fail(position, "the name of a metric, because both operands are numbers,")
            from weft.metrics.arithmetic import arithmetic_spec

            left = arithmetic_spec(symbol, left, right)
        return left

    def operand(self) -> MetricSpec | float:
        if self.peek()[0] == "number":
            number = self.value()
            assert isinstance(number, (int, float))
            return number
        if not self.accept("("):
            return self.spec()
        self.descend(self.peek()[2])
        inner = self.operation()
        self.expect("sign", ")")
        self.depth -= 1
        return inner

    def descend(self, position: int) -> None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.fail(position, f"at most {_MAX_DEPTH} levels of nested names or lists")

    def spec(self) -> MetricSpec:
        name = self.expect("word")
        params: list[tuple[str, Value]] = []
        if self.accept("("):
            while not self.accept(")"):
                if params:
                    self.expect("sign", ",")
                key = self.expect("word")
                if key in dict(params):
                    raise SettingError(
                        f"the metric name {self.text!r} has the parameter {key!r} twice; remove "
                        "one."
                    )
                self.expect("sign", "=")
                params.append((key, self.value()))
        k = None
        if self.accept("@"):
            digits, position = self.peek()[1], self.peek()[2]
            self.expect("number")
            if not digits.isdigit() or int(digits) < 1:
                self.fail(position, "a cut-off, an integer of at least 1,")
            k = int(digits)
        return MetricSpec(name, tuple(params), k)

    def value(self) -> Value:
        kind, token, position = self.peek()
        if kind == "number":
            number = float(token) if re.search(r"[.eE]", token) else int(token)
            if number in (math.inf, -math.inf):
                self.fail(position, "a number in the range of a float")
            self.next += 1
            return number
        if kind == "string":
            self.next += 1
            return _unquote(token)
        if kind == "data":
            self.next += 1
            return DataValue(token)
        if kind == "word" and token in _CONSTANTS:
            self.next += 1
            return _CONSTANTS[token]
        return self.nested_value()

    def nested_value(self) -> Value:
        kind, _, position = self.peek()
        self.descend(position)
        value: Value
        if self.accept("["):
            values: list[Value] = []
            while not self.accept("]"):
                if values:
                    self.expect("sign", ",")
                values.append(self.value())
            value = tuple(values)
        elif kind == "word":
            spec = self.spec()
            value = spec.name if spec == MetricSpec(spec.name) else spec
        else:
            self.fail(position, "a value")
        self.depth -= 1
        return value
