"""Slices: users in groups, by a label or by a number that is cut into ranges."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from weft.data.devices import DeviceColumn
from weft.data.labels import Labels, read_labels
from weft.data.readers.files import is_file, read_table
from weft.data.sorted_values import SortedArray, SortedValues
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError, MissingInput, SettingError, did_you_mean, setting_ref

# Numbers that are known of every user, from train.
BUILT_IN = ("activity", "item_popularity")
_CUTS = ("quantiles", "bins")
_EXPRESSION = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")
_HOW = "quantiles(4) (groups of about equal size) or bins(5, 20) (below 5, from 5 to below 20, from 20 up)"


@dataclass(frozen=True)
class Cut:
    """How numbers become groups: `"quantiles"` of so many, or `"bins"` that start at these numbers."""

    kind: str
    numbers: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(f'{number:g}' for number in self.numbers)})"

    @classmethod
    def parse(cls, text: Any, where: str) -> Cut:
        """`"quantiles(4)"` or `"bins(5, 20)"`; anything else is refused."""
        found = _EXPRESSION.fullmatch(text) if isinstance(text, str) else None
        kind = found[1].casefold() if found else ""
        if found is None or kind not in _CUTS:
            raise SettingError(
                f"{where} has {text!r};{did_you_mean(kind or str(text), _CUTS)} expected {_HOW}."
            )
        try:
            numbers = tuple(float(number) for number in found[2].split(","))
        except ValueError:
            raise SettingError(
                f"{where} has {text!r}, with something that is no number; expected {_HOW}."
            ) from None
        if kind == "quantiles" and not (
            len(numbers) == 1 and numbers[0].is_integer() and numbers[0] >= 2
        ):
            raise SettingError(
                f"{where} has {text!r}; quantiles take one whole number from 2 up, as in "
                "quantiles(4)."
            )
        if kind == "bins" and not (
            all(map(math.isfinite, numbers)) and all(a < b for a, b in pairwise(numbers))
        ):
            raise SettingError(
                f"{where} has {text!r}; bins take the numbers at which groups start, ascending, as "
                "in bins(5, 20)."
            )
        return cls(kind, numbers)

    def find_edges(self, ordered: SortedValues[np.float64]) -> list[float]:
        """Where each group but the first starts. Quantiles of these numbers never part equal ones:
        there may be fewer of them.
        """
        if self.kind == "bins":
            return list(self.numbers)
        if ordered.size == 0:
            return []
        places = np.arange(1, int(self.numbers[0])) * ordered.size / int(self.numbers[0])
        tied = ordered.select(np.minimum(places.astype(np.int64), ordered.size - 1))
        # Equal numbers go where they leave the groups most alike.
        ends = np.stack([ordered.count_below(tied), ordered.count_up_to(tied)])
        away = np.where((ends > 0) & (ends < ordered.size), np.abs(ends - places), np.inf)
        cuts = ends[away.argmin(0), np.arange(len(places))][np.isfinite(away.min(0))]
        return sorted({float(number) for number in ordered.select(np.unique(cuts))})


@dataclass(frozen=True)
class UserSlice:
    """A slice as asked for: labels (`cut` is None) or numbers per user; `of` is None for the
    built-in number of this name.
    """

    name: str
    source: Any
    cut: Cut | None

    @property
    def where(self) -> str:
        """What messages call it."""
        return f"slices[{self.name!r}]"

    def read_labels(self, users: Vocabulary, in_order: int) -> Labels:
        """The labels that were given."""
        return read_labels(self._read(), self.where, users, in_order=in_order)

    def read_numbers(self, users: Vocabulary, in_order: int) -> NDArray[np.float64]:
        """The number of each user; NaN for none."""
        found = self.read_labels(users, in_order)
        values = np.array([*(_number(name, self.where) for name in found.names), math.nan])
        numbers: NDArray[np.float64] = values[found.codes.values.numpy()]
        return numbers

    def _read(self) -> Any:
        return (
            read_table(self.source, self.where, use="user_groups")
            if is_file(self.source)
            else self.source
        )


def _number(label: Any, where: str) -> float:
    try:
        number = math.inf if isinstance(label, bool) else float(label)  # files hold text
    except ValueError:
        number = math.inf
    if math.isinf(number):
        raise InputError(
            f"{where} has {label!r}, which is no finite number; expected a number for each user, "
            "or none."
        )
    return number


def parse_slices(given: Mapping[str, Any] | None, *, has_train: bool) -> tuple[UserSlice, ...]:
    """The slices that were asked for; refuses what cannot be meant, before any data is read."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise SettingError(
            f"slices is a {type(given).__name__}; expected {{name: labels of users, or how to group them}}."
        )
    return tuple(_parse(name, wanted, has_train) for name, wanted in given.items())


def _parse(name: Any, wanted: Any, has_train: bool) -> UserSlice:
    if not isinstance(name, str) or not name.strip():
        raise SettingError(f"slices has the name {name!r}; expected text.")
    where = f"slices[{name!r}]"
    if isinstance(wanted, Mapping) and set(wanted) == {"of", "by"}:
        return UserSlice(name, wanted["of"], Cut.parse(wanted["by"], f"{where}['by']"))
    if not isinstance(wanted, str) or not (name in BUILT_IN or _EXPRESSION.fullmatch(wanted)):
        return UserSlice(name, wanted, None)
    cut = Cut.parse(wanted, where)
    if name not in BUILT_IN:
        raise SettingError(
            f"{where} is {wanted!r}, but {name!r} is no number that is known of users.{did_you_mean(name, BUILT_IN)} Known: "
            f"{', '.join(BUILT_IN)}; for your own numbers give {{'of': a number per user, 'by': {wanted!r}}}."
        )
    if not has_train:
        raise MissingInput(
            f"{where} counts train interactions and needs {setting_ref('train')}.",
            setting="slices",
        )
    return UserSlice(name, None, cut)


def cut_numbers(numbers: NDArray[np.float64], among: NDArray[np.bool_], cut: Cut) -> Labels:
    """Users in groups by their numbers (NaN: in none). Quantiles are those of the users `among`.

    The names of the groups tell their range.
    """
    known = ~np.isnan(numbers)
    if not (known & among).any():
        return Labels(DeviceColumn(torch.full((len(numbers),), -1)), ())
    starts = cut.find_edges(SortedArray(numbers[known & among]))
    return cut_at(numbers, starts, tuple(ranges(starts, are_whole=are_whole(numbers))))


def are_whole(numbers: NDArray[np.float64]) -> bool:
    """Whether all are whole numbers, or none at all (NaN)."""
    known = numbers[~np.isnan(numbers)]
    return bool((known == np.floor(known)).all())


def cut_at(numbers: NDArray[np.float64], starts: list[float], names: tuple[str, ...]) -> Labels:
    """Users in groups that start at these numbers, all but the first. NaN is in none."""
    codes = np.where(
        np.isnan(numbers) | (len(names) == 0), -1, np.searchsorted(starts, numbers, "right")
    )
    return Labels(DeviceColumn(torch.as_tensor(codes.astype(np.int64))), names)


def ranges(starts: list[float], *, are_whole: bool) -> list[str]:
    """What each group holds, in words."""
    if not starts:
        return ["all"]
    if are_whole:
        first = list(dict.fromkeys(math.ceil(start) for start in starts))
        if len(first) == len(starts):
            middle = [
                f"{low} to {high - 1}" if high - 1 > low else f"{low}"
                for low, high in pairwise(first)
            ]
            return [f"up to {first[0] - 1}", *middle, f"{first[-1]} and more"]
    digits = next(
        digits
        for digits in range(4, 18)
        if digits == 17 or len({f"{one:.{digits}g}" for one in starts}) == len(starts)
    )
    shown = [f"{start:.{digits}g}" for start in starts]
    return [
        f"below {shown[0]}",
        *(f"{low} to below {high}" for low, high in pairwise(shown)),
        f"{shown[-1]} and more",
    ]
