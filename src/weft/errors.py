"""The exception tree, references to settings inside messages, and argument checks.

WeftError
├── InputError          data that cannot be evaluated: shapes, ids, scores, ratings, files
│   └── MissingInput    a metric needs something that was not given
├── SettingError        an invalid argument, parameter or metric
│   ├── UnknownMetric
│   └── UnknownParameter
├── MetricError         an exception in the code of a metric that is not Weft's
├── MissingExtra        a package that is not installed
├── TrackerError        an experiment tracker cannot store a result
└── EngineError         Ray or Spark cannot be reached, or a task there failed

InputWarning            data that can be evaluated, but is probably not what was intended
EngineWarning           Ray or Spark waits for resources, or has lost a worker

Messages state what was got, what was expected and how to fix it. A message refers to a setting
through `setting_ref`, so that Python prints `top_k=[10]`, the command line `--top-k 10` and a
configuration `top_k: 10`; messages are not rewritten afterwards.
"""

from __future__ import annotations

import difflib
import math
import numbers
import operator
import os
import re
import sys
import warnings
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any, TypeVar, overload

__all__ = [
    "EngineError",
    "EngineWarning",
    "InputError",
    "InputWarning",
    "MetricError",
    "MissingExtra",
    "MissingInput",
    "SettingError",
    "TrackerError",
    "UnknownMetric",
    "UnknownParameter",
    "WeftError",
]

ChoiceT = TypeVar("ChoiceT", bound=str)  # a `Literal` type

# A reference to a setting inside a message: \x02 name \x1f repr(value), possibly empty, \x03.
_REFERENCE = re.compile("\x02([^\x1f\x03]*)\x1f([^\x03]*)\x03")
_NO_VALUE = object()
# Control characters except tab and line feed, characters that override the direction of text, and
# lone surrogates, which cannot be encoded.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    r"""Return the text with characters that could steer a terminal printed as `\u001b`.

    Names, labels and ids come from data: all printed text goes through this function, messages by
    `render`, the output of commands by `weft.cli`. Escapes are also valid inside JSON.
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plain_text(text: object) -> str:
    r"""Return text that can be encoded: bytes of file names that are not UTF-8 become `\udce9`."""
    return str(text).encode(errors="backslashreplace").decode()


# Words of a text about several things, and those of a text about one.
_NUMBER_FORMS = {
    "are": "is",
    "have": "has",
    "belong": "belongs",
    "count": "counts",
    "keep": "keeps",
    "match": "matches",
    "remain": "remains",
    "repeat": "repeats",
    "they": "it",
    "them": "it",
    "their": "its",
}


def agree(number: int, template: str, **fields: object) -> str:
    """Fill a template with a number of things and the words that depend on it.

    `"{n} user{s} {have} no list"` becomes `1 user has no list` or `2,000 users have no list`.
    """
    is_one = number == 1
    words = {word: one if is_one else word for word, one in _NUMBER_FORMS.items()}
    return template.format(n=f"{number:,}", s="" if is_one else "s", **words, **fields)


def hint_url(path: object) -> str:
    """Return a hint for a path that was given as a URL, such as `s3://lake/als`, else no text."""
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)):
        return ""
    return (
        " This is a URL, which weft.engines.spark and weft.engines.ray read in Python; here, give "
        "the path of a downloaded or mounted copy."
    )


def describe_type(value: object) -> str:
    """Return the type of a value with its article, such as "an int", or "None"."""
    if value is None:
        return "None"
    name = type(value).__name__
    article = "an" if name[:1] in "AEIOaeio" or name.startswith("ndarray") else "a"
    return f"{article} {name}"


def setting_ref(name: str, value: object = _NO_VALUE) -> str:
    """Return a reference to a setting for use inside the message of a `WeftError`.

    `str(error)` prints it as `name=value`, or `name=` if no value is given; `error.render(style)`
    prints it the way that the caller's interface spells settings.
    """
    return f"\x02{name}\x1f{'' if value is _NO_VALUE else repr(value)}\x03"


def python_style(name: str, value: str) -> str:
    """Print a reference to a setting as a Python keyword argument.

    `inputs.price` is an entry of the argument `inputs`."""
    argument, dot, entry = name.partition(".")
    return f"{argument}={{{entry!r}: ...}}" if dot and argument == "inputs" else f"{name}={value}"


def render(message: str, style: Callable[[str, str], str] = python_style) -> str:
    """Return the message with each reference to a setting printed by `style(name, repr_of_value)`.

    `repr_of_value` is empty where the message names the setting without a value. Control characters
    are escaped.
    """
    return escape_controls(
        _REFERENCE.sub(lambda reference: style(reference[1], reference[2]), message)
    )


def name_parameters(message: str, names: Container[str]) -> str:
    """Return the message with references to these names printed as parameters, `alpha=2`.

    A parameter of a metric can have the name of a setting, of which other interfaces have another
    spelling.
    """

    def print_parameter(reference: re.Match[str]) -> str:
        return python_style(*reference.groups()) if reference[1] in names else reference[0]

    return _REFERENCE.sub(print_parameter, message)


class WeftError(Exception):
    """Base class of all errors that Weft raises on purpose.

    The attribute `setting` has the name of the setting or argument concerned, by default the first
    one that the message refers to; None if there is no single one.

    >>> import weft
    >>> try:
    ...     weft.evaluate([[0.1]], {0: [0]}, metrics="nDCG", top_k=0)
    ... except weft.WeftError as error:
    ...     print(error.setting)
    top_k
    """

    def __init__(self, message: str = "", *, setting: str | None = None) -> None:
        super().__init__(message)
        found = _REFERENCE.search(message)
        self.setting = setting or (found[1] if found else None)

    def __str__(self) -> str:
        return self.render()

    @property
    def message(self) -> str:
        """The message with references to settings, for use inside another message."""
        return str(self.args[0]) if self.args else ""

    def render(self, style: Callable[[str, str], str] = python_style) -> str:
        """Return the message as text.

        `style(name, repr_of_value)` returns the spelling of a setting, by default that of Python,
        `top_k=[10]`.
        """
        return render(self.message, style)


class InputError(WeftError, ValueError):
    """Raised for data that cannot be evaluated."""


class MissingInput(InputError):
    """Raised if a metric needs an input that was not given."""


class SettingError(WeftError, ValueError):
    """Raised for an invalid argument, parameter or metric."""


class MetricError(WeftError, RuntimeError):
    """Raised for an exception in the code of a custom metric.

    `__cause__` is this exception, unless it was raised on a worker of an engine.
    """


class MissingExtra(WeftError, ImportError):
    """Raised if a package that an extra of Weft installs is missing."""


class TrackerError(WeftError, RuntimeError):
    """Raised if an experiment tracker cannot store a result."""


class EngineError(WeftError, RuntimeError):
    """Raised if Ray or Spark cannot be reached, or a task there fails."""


class UnknownMetric(SettingError):
    """Raised if no metric of a name is registered."""


class UnknownParameter(SettingError, TypeError):
    """Raised if a metric or function has no parameter of a name."""


class InputWarning(UserWarning):
    """Issued for data that can be evaluated, but are probably not what was intended.

    The result has the warning as a note.
    """


class EngineWarning(UserWarning):
    """Issued if Ray or Spark waits for resources, or has lost a worker.

    The evaluation continues.
    """


def warn_about_input(message: str) -> None:
    """Issue an `InputWarning` at the line outside of Weft that called it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("weft."):
        level, frame = level + 1, frame.f_back
    warnings.warn(render(message), InputWarning, stacklevel=level)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `" Did you mean 'nDCG'?"` for the known name closest to `word`, if one is close."""
    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return f" Did you mean {by_folded[close[0]]!r}?" if close else ""


@overload
def check_choice(parameter: str, value: ChoiceT, allowed: tuple[str, ...]) -> ChoiceT: ...
@overload
def check_choice(parameter: str, value: object, allowed: tuple[str, ...]) -> str: ...
def check_choice(parameter: str, value: object, allowed: tuple[str, ...]) -> str:
    """Return the allowed spelling of `value`, ignoring case; raise `SettingError` for others."""
    if isinstance(value, str):
        for option in allowed:
            if option.casefold() == value.casefold():
                return option
    hint = did_you_mean(str(value), allowed)
    raise SettingError(
        f"{setting_ref(parameter, value)} is not known. Choose one of "
        f"{', '.join(map(repr, allowed))}.{hint}"
    )


def _argument_name(name: str) -> str:
    """Return the argument that a description such as `F1 got beta` ends with."""
    return name.rpartition(" ")[2]


def check_int(name: str, value: object, *, least: int = 1) -> int:
    """Return `value` as an int of at least `least`; NumPy's integers are accepted.

    Raises `SettingError` for other values, such as booleans, fractions and text.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or not least <= number < 2**63:
        most = " and below 2**63" if number is not None and number >= 2**63 else ""
        raise SettingError(
            f"{setting_ref(name, value)}; it must be an integer of at least {least}{most}.",
            setting=_argument_name(name),
        )
    return number


def check_float(name: str, value: object, *, more: str = "") -> float:
    """Return `value` as a finite number, and as an int if it has no fraction.

    Raises `SettingError` for other values, such as booleans and text; `more` names further
    conditions in its message.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        is_infinite = isinstance(value, numbers.Real) and math.isinf(value)
        raise SettingError(
            f"{setting_ref(name, value)}; it must be a {'finite ' * is_infinite}number{more}.",
            setting=_argument_name(name),
        )
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def check_bool(name: str, value: object) -> bool:
    """Return `value` as a bool; raise `SettingError` for other types."""
    if type(value).__name__ not in ("bool", "bool_"):  # Python's or NumPy's
        raise SettingError(f"{setting_ref(name, value)}; it must be True or False.")
    return bool(value)


def check_path(name: str, value: object) -> Path:
    """Return `value` as the path of a file; raise `SettingError` for other types."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise SettingError(f"{setting_ref(name, value)}; it must be the path of a file.")
    path = Path(value)
    if not path.name or "\0" in str(path):
        raise SettingError(
            f"{setting_ref(name, str(path))}; it must be the path of a file, with a name and "
            "without null characters."
        )
    return path


def check_type(name: str, value: object, kind: type, expected: str) -> None:
    """Raise `SettingError` for a value of another type; `expected` describes the right one."""
    if not isinstance(value, kind):
        raise SettingError(
            f"{name} is {describe_type(value)}; expected {expected}.", setting=_argument_name(name)
        )


def read_list(name: str, value: object, expected: str) -> list[Any]:
    """Return the elements of an iterable as a list, and a single text as a list of one."""
    if isinstance(value, (str, bytes)):
        return [value]
    try:
        return list(value)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        raise SettingError(
            f"{name} is {describe_type(value)}; expected {expected}.", setting=name
        ) from None


def check_unmasked(data: object, what: str, fix: str) -> None:
    """Raise `InputError` for an array with masked cells, which conversions would drop silently."""
    from numpy import ma  # settings are read without NumPy

    if isinstance(data, ma.MaskedArray) and ma.is_masked(data):
        masked = agree(int(data.mask.sum()), "{n} masked value{s}")
        raise InputError(f"{what} is a masked array with {masked}; {fix}.")


def check_threshold(threshold: object) -> float | None:
    """Return a relevance threshold as a float, None if there is none.

    Raises `SettingError` for a threshold that would make absent items relevant.
    """
    if threshold is None:
        return None
    try:
        number = float(threshold)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(threshold, (str, bool)) or not 0 < number < math.inf:
        raise SettingError(
            f"{setting_ref('relevance_threshold', threshold)}; it must be a number above 0: the "
            "lowest rating of a relevant item."
        )
    return number
