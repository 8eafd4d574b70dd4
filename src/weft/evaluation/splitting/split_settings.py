"""`SplitSettings`: every option of a split, with its default, help text and rules.

The command-line options of `weft split` and the manifest are derived from this model. Importing
this module loads neither torch nor polars.
"""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from weft._choices import ColdIds, RepeatedPairs, SplitMethod, SplitScope, TimeTies
from weft.errors import SettingError, check_int, setting_ref
from weft.evaluation.setting_rules import Bool, Seed, checked, one_of, setting_error

# The options that only some methods have, with their defaults; None: there is none.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "timeline": {
        "test_share": 0.2,
        "validation_share": None,
        "test_from": None,
        "validation_from": None,
    },
    "user-timeline": {"test_share": 0.2, "validation_share": None, "ties": "break"},
    "leave-last-out": {"n": 1, "validation_n": None, "ties": "break"},
    "random": {"test_share": 0.2, "validation_share": None, "per": "user"},
    "folds": {"folds": 5, "per": "user"},
}
TEMPORAL_METHODS = ("timeline", "user-timeline", "leave-last-out")
_MAX_DENOMINATOR = 10**6  # of shares, so that 0.29 of 100 rows are 29, not 28
_MAX_FOLDS = 1000


def _read_share(name: str, value: Any) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 < value < 1:
        raise SettingError(
            f"{setting_ref(name, value)}; it must be a number above 0 and below 1, a share of the "
            "interactions."
        )
    return float(value)


def _read_moment(name: str, value: Any) -> str:
    """Return a timestamp as a text: a number or a date in ISO 8601."""
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if is_number and math.isfinite(value):
        return str(value)
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise SettingError(
        f"{setting_ref(name, value)}; it must be a timestamp as in the data: a number, or a date "
        "such as '2024-06-30' or '2024-06-30T12:00:00'."
    )


def _read_folds(name: str, value: Any) -> int:
    number = check_int(name, value, least=2)
    if number > _MAX_FOLDS:
        raise SettingError(f"{setting_ref(name, value)}; it must be at most {_MAX_FOLDS}.")
    return number


_Share = Annotated[float | None, checked(_read_share)]
_Moment = Annotated[str | None, checked(_read_moment)]
_Count = Annotated[int | None, checked(check_int)]
_Minimum = Annotated[int, checked(check_int)]


class SplitSettings(BaseModel):
    """Every option of a split, validated and frozen. Use `from_options`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Annotated[SplitMethod, one_of(SplitMethod, is_required=True)] = Field(
        description="Method of the split. The test set contains the interactions after one point "
        "in time (timeline), the last share of each user's interactions (user-timeline), the last "
        "n interactions of each user (leave-last-out), a random share (random), or each of k "
        "random parts in turn (folds)."
    )
    test_share: _Share = Field(
        default=None,
        description="Share of the interactions in the test set, for timeline, user-timeline and "
        "random. Default: 0.2.",
    )
    validation_share: _Share = Field(
        default=None,
        description="Share of the interactions in the validation set, for timeline, user-timeline "
        "and random. Default: no validation set.",
    )
    test_from: _Moment = Field(
        default=None,
        description="First timestamp of the test set, instead of a share, for timeline.",
    )
    validation_from: _Moment = Field(
        default=None,
        description="First timestamp of the validation set, before the test set, for timeline.",
    )
    n: _Count = Field(
        default=None,
        description="Number of the last interactions of each user in the test set, for "
        "leave-last-out. Default: 1.",
    )
    validation_n: _Count = Field(
        default=None,
        description="Number of interactions of each user in the validation set, before those of "
        "the test set, for leave-last-out. Default: no validation set.",
    )
    folds: Annotated[int | None, checked(_read_folds)] = Field(
        default=None, description="Number of folds, for the method folds. Default: 5."
    )
    per: Annotated[SplitScope | None, one_of(SplitScope)] = Field(
        default=None,
        description="Whether the interactions of each user are divided separately (user), or all "
        "interactions together (global), for random and folds. Default: user.",
    )
    ties: Annotated[TimeTies | None, one_of(TimeTies)] = Field(
        default=None,
        description="Treatment of interactions of a user that have the same timestamp at the "
        "border of two sets, for user-timeline and leave-last-out: order them by a hash of seed, "
        "user and item (break), or put all of them into the earlier set (together). The method "
        "timeline always keeps them together. Default: break.",
    )
    duplicates: Annotated[RepeatedPairs, one_of(RepeatedPairs, is_required=True)] = Field(
        default="error",
        description="Treatment of repeated interactions of a user with an item: raise an error "
        "(error), keep only the first or last one by timestamp or else by row (first, last), or "
        "keep all of them (keep).",
    )
    min_user_interactions: _Minimum = Field(
        default=1,
        description="Minimum number of interactions per user. Users with fewer are "
        "dropped before the split.",
    )
    min_item_interactions: _Minimum = Field(
        default=1,
        description="Minimum number of interactions per item. Items with fewer are "
        "dropped before the split.",
    )
    core: Bool = Field(
        default=False,
        description="Apply both minima repeatedly until all remaining users and items have enough "
        "interactions (k-core).",
    )
    cold_users: Annotated[ColdIds, one_of(ColdIds, is_required=True)] = Field(
        default="keep",
        description="Treatment of validation and test interactions of users who are not in train: "
        "keep or drop.",
    )
    cold_items: Annotated[ColdIds, one_of(ColdIds, is_required=True)] = Field(
        default="keep",
        description="Treatment of validation and test interactions of items that are not in "
        "train: keep or drop.",
    )
    seed: Seed = Field(default=0, description="Seed of the random numbers.")

    @classmethod
    def from_options(cls, **options: Any) -> Self:
        """Return validated settings, with the defaults of the method.

        Raises `SettingError` for a value that is not allowed, and for an option that the method
        does not have.
        """
        try:
            settings = cls(**options)
        except ValidationError as error:
            raise setting_error(error, cls.model_fields) from None
        defaults = _DEFAULTS[settings.method]
        if settings.test_from is not None:
            defaults = {**defaults, "test_share": None}
        missing = {name: defaults[name] for name in defaults if getattr(settings, name) is None}
        return settings.model_copy(update=missing)

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        for error in self._conflicts():
            raise error
        return self

    def _conflicts(self) -> Iterator[SettingError]:
        yield from self._foreign_options()
        yield from self._cut_conflicts()
        if self.core and self.min_user_interactions == self.min_item_interactions == 1:
            yield SettingError(
                f"{setting_ref('core', True)} repeats {setting_ref('min_user_interactions')} and "
                f"{setting_ref('min_item_interactions')}; give at least one of them."
            )

    def _foreign_options(self) -> Iterator[SettingError]:
        """Yield an error for each option that the method does not have."""
        for name in dict.fromkeys(name for options in _DEFAULTS.values() for name in options):
            if getattr(self, name) is None or name in _DEFAULTS[self.method]:
                continue
            methods = [method for method, options in _DEFAULTS.items() if name in options]
            yield SettingError(
                f"{setting_ref(name, getattr(self, name))} is an option of "
                f"{' or '.join(setting_ref('method', method) for method in methods)}, not of "
                f"{setting_ref('method', self.method)}; remove it, or choose another method."
            )

    def _cut_conflicts(self) -> Iterator[SettingError]:
        """Yield an error for points in time and shares that exclude each other."""
        moments = self._given("test_from", "validation_from")
        shares = self._given("test_share", "validation_share")
        if moments and shares:
            yield SettingError(
                f"{setting_ref(moments[0])} and {setting_ref(shares[0])} exclude each other; give "
                "points in time or shares."
            )
        if moments == ["validation_from"]:
            yield SettingError(
                f"{setting_ref('validation_from')} needs {setting_ref('test_from')}, the point in "
                "time at which validation ends."
            )
        test_share = self.test_share or _DEFAULTS[self.method].get("test_share") or 0
        held_out = test_share + (self.validation_share or 0)
        if held_out >= 1:
            yield SettingError(
                f"the shares of test and validation add up to {held_out:g}; "
                f"{setting_ref('test_share')} and {setting_ref('validation_share')} must leave "
                "some interactions for train."
            )

    def _given(self, *names: str) -> list[str]:
        return [name for name in names if getattr(self, name) is not None]

    # ----------------------------------------------------------------------------------------------

    @property
    def is_temporal(self) -> bool:
        """True if the method needs timestamps."""
        return self.method in TEMPORAL_METHODS

    @property
    def has_validation(self) -> bool:
        """True if there is a validation part."""
        options = (self.validation_share, self.validation_from, self.validation_n)
        return any(option is not None for option in options)

    def parameters(self) -> dict[str, Any]:
        """Return the options that matter for the method, without the method, for a manifest."""
        given = self.model_dump(exclude={"method"}, exclude_none=True)
        return {name: value for name, value in given.items() if name != "core" or value}


def exact_share(share: float | None) -> Fraction:
    """Return a share as the fraction that was meant: 0.29 is 29/100; None is 0."""
    return Fraction(share or 0).limit_denominator(_MAX_DENOMINATOR)
