"""Rules of settings: validation of single ones, and rules between them.

Also how the command line and YAML spell a setting (`Option`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, WithJsonSchema

from weft._choices import CandidatePool, choices
from weft.errors import (
    SettingError,
    UnknownParameter,
    WeftError,
    check_bool,
    check_choice,
    check_float,
    check_int,
    describe_type,
    did_you_mean,
    plain_text,
    setting_ref,
)
from weft.metrics.names import MetricSpec

if TYPE_CHECKING:
    from weft.evaluation.settings import EvaluationSettings

# Panels of options in the help of commands.
INPUT = "Input"
METRICS = "Metrics"
EVALUATION = "Evaluation"
SAMPLING = "Candidates and sampling"
UNCERTAINTY = "Uncertainty and slices"
OUTPUT = "Output"
EXECUTION = "Execution (does not change results)"


@dataclass(frozen=True)
class Option:
    """How an interface other than Python offers a setting.

    `flag` is the command-line spelling, None if the command line does not offer it; `key` is the
    key in the YAML section `evaluation`, None if YAML does not offer it; by default ("auto") both
    follow from the name of the setting. `recorded` is when
    `Result.settings` has the setting by its value: always, if it is not None, if it is not the
    default, or for runs over all users of a source.
    """

    panel: str
    flag: str | None = "auto"
    key: str | None = "auto"
    short_flag: str | None = None
    metavar: str | None = None
    in_evaluate: bool = True
    changes_results: bool = True
    recorded: Literal["always", "if given", "if changed", "of a run", "no"] = "no"

    def named(self, name: str) -> Option:
        """Return the option with its flag and key spelled out."""
        flag = f"--{name.replace('_', '-')}" if self.flag == "auto" else self.flag
        return replace(self, flag=flag, key=name if self.key == "auto" else self.key)


@dataclass(frozen=True)
class SettingField:
    """One field of `EvaluationSettings`, as the interfaces need it."""

    name: str
    annotation: Any
    default: Any
    description: str
    choices: tuple[str, ...]
    option: Option


def read_metrics(value: object) -> tuple[Any, ...]:
    """Return the metrics as a tuple; a single metric needs no list."""
    is_single = isinstance(value, (str, MetricSpec, type)) or hasattr(value, "parameter_aliases")
    if is_single:
        return (value,)
    if isinstance(value, Mapping):
        raise SettingError(
            f"{setting_ref('metrics')} is {describe_type(value)}; expected a list of names or of "
            "metric objects, such as the values of the dict."
        )
    if not _is_iterable(value):
        raise SettingError(
            f"{setting_ref('metrics', value)}; expected names, such as metrics=['nDCG', "
            "'Recall'], or metric objects."
        )
    return tuple(value)  # type: ignore[arg-type]


def _is_iterable(value: object) -> bool:
    """Return True for iterables; arrays and tensors without dimensions only look like them."""
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0


def read_cutoffs(value: Any) -> tuple[int, ...] | None:
    """Return the cut-offs as a tuple of integers of at least 1."""
    if value is None:
        return None
    values = value if _is_iterable(value) and not isinstance(value, str) else [value]
    cutoffs = []
    for k in values:
        try:
            cutoffs.append(check_int("top_k", k))
        except SettingError:
            raise SettingError(
                f"{setting_ref('top_k', k)}; cut-offs are integers of at least 1, such as "
                f"{setting_ref('top_k', [10, 20])}.",
                setting="top_k",
            ) from None
    return tuple(cutoffs)


def read_mask_seen(value: Any) -> bool | str:
    """Return True, False or "auto"."""
    if isinstance(value, str) and value.casefold() == "auto":
        return "auto"
    try:
        return check_bool("mask_seen", value)
    except SettingError:
        raise SettingError(
            f"{setting_ref('mask_seen', value)} is not known; choose True, False or 'auto'."
        ) from None


def read_slices(value: Any) -> dict[str, Any] | None:
    """Return the slices by name, None for none."""
    return _read_named(value, "slices", "labels of users, or a rule that groups them")


def read_item_slices(value: Any) -> dict[str, Any] | None:
    """Return the item slices by name, None for none."""
    return _read_named(
        value, "item_slices", "labels of items, or a rule that groups relevant items"
    )


def _read_named(value: Any, setting: str, expected: str) -> dict[str, Any] | None:
    if value is None or isinstance(value, Mapping):
        return None if value is None else dict(value)
    raise SettingError(
        f"{setting_ref(setting)} is {describe_type(value)}; expected {{name: {expected}}}.",
        setting=setting,
    )


def read_gamma(name: str, value: Any) -> float:
    """Return the weight of variance against bias: above 0 and at most 1."""
    number = float(check_float(name, value, more=" above 0 and at most 1"))
    if not 0 < number <= 1:
        raise SettingError(
            f"{setting_ref(name, value)}; it must be a number above 0 and at most 1: the weight "
            "of variance against bias."
        )
    return number


def read_power(name: str, value: Any) -> float:
    """Return an exponent, a number of at least 0."""
    number = check_float(name, value, more=" of at least 0")
    if number < 0:
        raise SettingError(f"{setting_ref(name, value)}; it must be a number of at least 0.")
    return number


def read_text(name: str, value: Any) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value or plain_text(value) != value:
        raise SettingError(f"{setting_ref(name, value)}; it must be a string.")
    return value


_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([KMGT]?)(i?)B?", re.IGNORECASE)


def read_memory(name: str, value: Any) -> int:
    """Return a number of bytes, at least 1, given as a number or as a string such as "1.5GiB"."""
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None:
        number, unit, is_binary = found.groups()
        power = " KMGT".index(unit.upper() or " ")
        value = int(float(number) * (1024 if is_binary else 1000) ** power)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingError(
            f"{setting_ref(name, value)}; it must be a positive number of bytes, or a string such "
            "as '4GiB' or '500MB'."
        )
    return value


def checked(check: Callable[..., Any], **constraints: Any) -> BeforeValidator:
    """Return a validator that calls `check(field_name, value, **constraints)`, except for None."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        return None if value is None else check(info.field_name, value, **constraints)

    return BeforeValidator(validate)


def one_of(literal: Any, *, is_required: bool = False) -> BeforeValidator:
    """Return a validator that accepts a name of a `Literal` in any case, and None if optional."""
    names = choices(literal)

    def validate(value: Any, info: ValidationInfo) -> Any:
        if value is None and not is_required:
            return None
        return check_choice(str(info.field_name), value, names)

    return BeforeValidator(validate)


Bool = Annotated[bool, BeforeValidator(lambda value, info: check_bool(info.field_name, value))]
Seed = Annotated[
    int,
    Field(ge=0),
    BeforeValidator(lambda value, info: check_int(info.field_name, value, least=0)),
]
Device = Annotated[
    Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None})
]
MemorySize = Annotated[
    Any,
    checked(read_memory),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}, {"type": "null"}],
            "default": None,
        }
    ),
]
Metrics = Annotated[
    tuple[Any, ...],
    BeforeValidator(read_metrics),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
]
Cutoffs = Annotated[tuple[Annotated[int, Field(ge=1)], ...] | None, BeforeValidator(read_cutoffs)]


def setting_error(error: ValidationError, known: Iterable[str]) -> SettingError:
    """Return the `SettingError` for the first problem that pydantic found; `known` are settings."""
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(name, known)
        return UnknownParameter(f"unknown setting {name!r}.{hint}", setting=name)
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, SettingError):
        return cause
    return SettingError(f"{setting_ref(name, first['input'])}: {first['msg']}.", setting=name)


_POOLS = tuple(name for name in choices(CandidatePool) if name != "given")


def split_candidates(candidates: Any) -> tuple[str, Any]:
    """Return the candidate pool that a `candidates` argument names, and the data it holds.

    The data is None unless the pool is "given": items per user, as a table, a dict or a path.
    """
    if isinstance(candidates, str):
        for name in _POOLS:
            if name == candidates.casefold():
                return name, None
        if Path(candidates).suffix or Path(candidates).exists():
            return "given", candidates
    elif candidates is not None:
        return "given", candidates
    is_file = "" if candidates is None else ", and there is no such file"
    hint = "" if candidates is None else did_you_mean(candidates, _POOLS)
    raise SettingError(
        f"{setting_ref('candidates', candidates)} is not known{is_file}. Choose one of "
        f"{', '.join(map(repr, _POOLS))}, or give items per user.{hint}"
    )


# --------------------------------------------------------------------------------------------------
# Rules between settings


def threshold_conflict(threshold: float) -> WeftError:
    """Return the error for a relevance threshold where ratings are ignored."""
    return SettingError(
        f"{setting_ref('relevance_threshold', threshold)} compares ratings, but "
        f"{setting_ref('implicit', True)} ignores them; remove one of the two."
    )


def estimator_conflicts(settings: EvaluationSettings) -> Iterator[WeftError]:
    """Yield an error for each option of rank estimators that another option excludes."""
    chosen = setting_ref("estimator", settings.estimator)
    if settings.gamma is not None and settings.estimator != "bias_variance":
        is_missing = settings.estimator is None
        yield SettingError(
            f"{setting_ref('gamma', settings.gamma)} is a parameter of "
            f"{setting_ref('estimator', 'bias_variance')}; "
            + (
                "give that too, or leave gamma out."
                if is_missing
                else f"{chosen} has no such parameter."
            )
        )
    if settings.estimator is None:
        return
    if settings.strategy != "sampled":
        yield SettingError(
            f"{chosen} estimates the values of a full ranking from sampled negatives, but "
            f"{setting_ref('strategy', settings.strategy)} samples none; set "
            f"{setting_ref('strategy', 'sampled')}, or remove the estimator."
        )
    if settings.candidates == "given":
        yield SettingError(
            f"{chosen} needs negatives that are sampled uniformly by Weft, but candidates are "
            "given. Remove the candidates or the estimator."
        )
    if settings.negative_sampling == "popularity":
        yield SettingError(
            f"{chosen} needs negatives that are sampled uniformly, not "
            f"{setting_ref('negative_sampling', 'popularity')}. Set "
            f"{setting_ref('negative_sampling', 'uniform')}, or remove the estimator."
        )
