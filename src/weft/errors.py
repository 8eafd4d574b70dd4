"""What can go wrong for a user, as one tree.

WeftError
├── InputError          data that cannot be evaluated: shapes, ids, scores, ratings, files
│   └── MissingInput    a metric needs something that was not given
├── SettingError        an argument, parameter or metric that cannot be meant
│   ├── UnknownMetric
│   └── UnknownParameter
├── MissingExtra        a package that is not installed
└── EngineError         Ray or Spark cannot be reached, or a task there failed

Every message says what was got, what was expected and how to fix it.
"""

from __future__ import annotations

import difflib
import math
import numbers
import operator
from collections.abc import Iterable


class WeftError(Exception):
    """The base of every error that Weft raises on purpose."""


class InputError(WeftError, ValueError):
    """Data that cannot be evaluated."""


class MissingInput(InputError):
    """A metric needs an input that was not given."""


class SettingError(WeftError, ValueError):
    """An argument, parameter or metric that cannot be meant."""


class MissingExtra(WeftError, ImportError):
    """A package that only an extra of Weft brings is not installed."""


class EngineError(WeftError, RuntimeError):
    """Ray or Spark cannot be reached, or a task there failed."""


class UnknownMetric(SettingError):
    """No metric of this name is registered."""


class UnknownParameter(SettingError, TypeError):
    """The metric has no parameter of this name."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`" Did you mean 'nDCG'?"` when something known is close to `word`, else an empty string."""
    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return f" Did you mean {by_folded[close[0]]!r}?" if close else ""


def one_of(parameter: str, value: object, allowed: tuple[str, ...]) -> str:
    """The allowed spelling of `value`, whatever its case; refuses anything else."""
    if isinstance(value, str):
        for option in allowed:
            if option.casefold() == value.casefold():
                return option
    hint = did_you_mean(str(value), allowed)
    raise SettingError(f"{parameter}={value!r} is not known. Choose one of {', '.join(map(repr, allowed))}.{hint}")


def whole_number(name: str, value: object, *, least: int = 1) -> int:
    """`value` as an int of at least `least`; refuses booleans, fractions and text. NumPy's integers are welcome."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or not least <= number < 2**63:
        raise SettingError(f"{name}={value!r}; it must be a whole number from {least} up.")
    return number


def real_number(name: str, value: object, *, more: str = "") -> float:
    """`value` as a finite number, an int if it is whole; refuses booleans and text. `more` says what else it must be."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise SettingError(f"{name}={value!r}; it must be a number{more}.")
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def true_or_false(name: str, value: object) -> bool:
    """`value` as a bool; refuses whatever is not one."""
    if type(value).__name__ not in ("bool", "bool_"):  # Python's or NumPy's
        raise SettingError(f"{name}={value!r}; it must be True or False.")
    return bool(value)
