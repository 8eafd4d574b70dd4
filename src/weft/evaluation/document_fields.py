"""Reading of files, and checks of the fields that were read, before anything uses them.

Each check raises `InputError` with the name of the field, its content and what was expected. A
digest shows that a file was damaged, not who wrote it: every index is checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from weft.errors import InputError

Value = TypeVar("Value")
_SHOWN_LENGTH = 60  # of a wrong value in a message


def read_file(path: Path, expected: str) -> bytes:
    """Return the content of a file. Raises `InputError`, which names what was expected."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; {expected}.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {expected}.") from None


def reject(field: str, got: str, expected: str) -> NoReturn:
    """Raise `InputError` for a field; `got` is a text about the value."""
    raise InputError(f"{field} is {got}; expected {expected}. The file is damaged or was changed.")


def describe(value: object) -> str:
    """Return a value for a message, shortened."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"a tensor {list(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, (Mapping, list)):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}..."


def check_mapping(
    value: object, field: str, names: Collection[str] | None = None
) -> dict[str, Any]:
    """Return a mapping from strings, with exactly these names if they are given."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        reject(field, describe(value), "fields by name")
    if names is not None:
        check_present(value, names, field)
        for name in value:
            if name not in names:
                reject(f"{field}[{describe(name)}]", describe(value[name]), "no such field")
    return dict(value)


def check_present(fields: Mapping[str, object], names: Iterable[str], field: str = "") -> None:
    """Check that no name is missing; `field` names the mapping, unless it is the whole file."""
    for name in names:
        if name not in fields:
            reject(f"{field}[{name!r}]" if field else name, "missing", "a value")


def check_optional(
    value: object, field: str, check: Callable[[object, str], Value]
) -> Value | None:
    """Return None, or a value that passes `check`."""
    return None if value is None else check(value, field)


def check_list(value: object, field: str, length: int | None = None) -> list[Any]:
    """Return a list, of this length if one is given."""
    if not isinstance(value, (list, tuple)) or length not in (None, len(value)):
        reject(field, describe(value), "a list" if length is None else f"a list of {length}")
    return list(value)


def check_text(value: object, field: str) -> str:
    """Return a string."""
    if not isinstance(value, str):
        reject(field, describe(value), "a string")
    return value


def check_whole(value: object, field: str, *, least: int = 0, end: int = 1 << 63) -> int:
    """Return an integer from `least` to below `end`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < end:
        reject(field, describe(value), f"an integer from {least} to {end - 1}")
    return value


def check_flag(value: object, field: str) -> bool:
    """Return a bool."""
    if not isinstance(value, bool):
        reject(field, describe(value), "True or False")
    return value


def check_number(value: object, field: str) -> float:
    """Return a number; None is NaN."""
    if value is None:
        return math.nan
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or (isinstance(value, int) and abs(value) >= 1 << 1023):
        reject(field, describe(value), "a number")
    return value  # type: ignore[return-value]
