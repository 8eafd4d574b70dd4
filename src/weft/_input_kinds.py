"""Kinds of inputs that metrics read besides scores and truth, and the inputs that Weft names.

A metric declares its inputs by name: `needs = {"price": weft.ItemNumbers(missing=0.0)}`. Reading,
files, states, workers, messages and the command line follow from the kind. Importing this module
does not load torch.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from weft.errors import SettingError

_FILE_COLUMN = re.compile(r"(.+\.[A-Za-z0-9]+):([^:/\\]+)")


def split_column(text: str) -> tuple[str, str | None]:
    """Return the path and the column of `users.csv:gender`; None if the text is only a path."""
    found = _FILE_COLUMN.fullmatch(text.strip())
    return (found[1], found[2]) if found else (text, None)


@dataclass(frozen=True, kw_only=True, eq=False)
class InputKind:
    """An input that a metric reads for each item or user.

    An input that is not `required` may be left out of a run; the metric then lacks it in
    `self.inputs`. `description` replaces the general one in messages."""

    axis: ClassVar[str]  # "item" or "user"; "interaction" for pairs of both
    form: ClassVar[str]  # "number", "vector", "label", "features", "list" or "interactions"
    title: ClassVar[str]  # "a number per item"
    accepted: ClassVar[str]  # the forms in which callers give it

    required: bool = True
    description: str = ""

    @property
    def use(self) -> str:
        """The kind of file that holds such inputs, for the columns that are read."""
        return f"{self.axis} {self.form}"

    def describe(self) -> str:
        """Return what the input is, for messages."""
        return self.description or self.title

    def agrees(self, other: InputKind) -> bool:
        """True if both read the same values from the same data."""
        return type(self) is type(other)

    def without_error(self) -> InputKind:
        """Return the kind for data in which every id may lack a value."""
        return self


@dataclass(frozen=True, kw_only=True, eq=False)
class _NumericKind(InputKind):
    """Numbers or vectors. `missing` is the value of ids without one: a number, NaN, or `"error"`,
    which refuses inputs that lack an id."""

    missing: float | Literal["error"] = "error"

    def __post_init__(self) -> None:
        is_number = isinstance(self.missing, (int, float)) and not isinstance(self.missing, bool)
        if self.missing != "error" and (not is_number or math.isinf(self.missing)):
            raise SettingError(
                f"{type(self).__name__} got missing={self.missing!r}; expected a finite number, "
                "math.nan or 'error'."
            )

    def without_error(self) -> InputKind:
        return replace(self, missing=math.nan) if self.missing == "error" else self

    def agrees(self, other: InputKind) -> bool:
        is_same = super().agrees(other)
        return is_same and repr(self.missing) == repr(getattr(other, "missing", None))


class ItemNumbers(_NumericKind):
    """An input with a number for each item, such as a price.

    `missing` is the value of items without a number: a number, NaN, or `"error"` (default), which
    raises an error. Every kind of input has the parameters `required` (False if a run can leave out
    the input; the metric then lacks it in `self.inputs`) and `description` (for messages).

    >>> import weft
    >>> needs = {"price": weft.ItemNumbers(missing=0.0)}  # an attribute of a metric class
    >>> needs["price"].describe()
    'a number per item'
    """

    axis, form, title = "item", "number", "a number per item"
    accepted = "a file, a frame, {item: number} or a list"


class UserNumbers(_NumericKind):
    """An input with a number for each user, such as a budget.

    `missing` is as in `ItemNumbers`.

    >>> import weft
    >>> needs = {"budget": weft.UserNumbers()}  # an attribute of a metric class
    >>> needs["budget"].describe()
    'a number per user'
    """

    axis, form, title = "user", "number", "a number per user"
    accepted = "a file, a frame, {user: number} or a list"


class ItemVectors(_NumericKind):
    """An input with a vector for each item, such as an embedding.

    `missing` is as in `ItemNumbers`.

    >>> import weft
    >>> needs = {"embedding": weft.ItemVectors()}  # an attribute of a metric class
    >>> needs["embedding"].describe()
    'a vector per item'
    """

    axis, form, title = "item", "vector", "a vector per item"
    accepted = "a matrix [items, d], weft.Factors, a file, a frame or {item: vector}"


class UserVectors(_NumericKind):
    """An input with a vector for each user.

    `missing` is as in `ItemNumbers`.

    >>> import weft
    >>> needs = {"taste": weft.UserVectors()}  # an attribute of a metric class
    >>> needs["taste"].describe()
    'a vector per user'
    """

    axis, form, title = "user", "vector", "a vector per user"
    accepted = "a matrix [users, d], a file, a frame or {user: vector}"


class ItemLabels(InputKind):
    """An input with a label, a text or a number, for each item; items can lack a label.

    >>> import weft
    >>> needs = {"brand": weft.ItemLabels()}  # an attribute of a metric class
    >>> needs["brand"].describe()
    'a label per item'
    """

    axis, form, title = "item", "label", "a label per item"
    accepted = "a file, a frame or {item: label}"


class UserLabels(InputKind):
    """An input with a label, a text or a number, for each user; users can lack a label.

    >>> import weft
    >>> needs = {"country": weft.UserLabels()}  # an attribute of a metric class
    >>> needs["country"].describe()
    'a label per user'
    """

    axis, form, title = "user", "label", "a label per user"
    accepted = "a file, a frame or {user: label}"


class UserLists(InputKind):
    """An input with a list of items for each user, such as the recommendations of another model.

    Lists have the best item first.

    >>> import weft
    >>> needs = {"baseline": weft.UserLists()}  # an attribute of a metric class
    >>> needs["baseline"].describe()
    'a list of items per user'
    """

    axis, form, title = "user", "list", "a list of items per user"
    use = "lists"
    accepted = "a file, a frame (user, item, and score or rank) or {user: [items]}"


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemFeatures(InputKind):
    """An input with a set of features for each item.

    Text is split into features at `separator`; by default it is one feature.

    >>> import weft
    >>> needs = {"genres": weft.ItemFeatures(separator="|")}  # an attribute of a metric class
    >>> needs["genres"].describe()
    'the features of each item'
    """

    axis, form, title = "item", "features", "the features of each item"
    accepted = "a file, a frame or {item: [features]}"

    separator: str | None = field(default=None)


class TrainInteractions(InputKind):
    """An input with the train interactions.

    >>> import weft
    >>> needs = {"train": weft.TrainInteractions()}  # an attribute of a metric class
    >>> needs["train"].describe()
    'the train interactions'
    """

    axis, form, title = "interaction", "interactions", "the train interactions"
    use = "train"
    accepted = "a file, a frame, a matrix or {user: [items]}"


# The inputs that Weft's own metrics read. The first four are arguments of `weft.evaluate`, options
# of the command line and keys of a configuration under their own names.
BUILT_IN_INPUTS: dict[str, InputKind] = {
    "train": TrainInteractions(),
    "user_groups": UserLabels(),
    "item_clusters": ItemLabels(),
    "item_features": ItemFeatures(),
    "item_vectors": ItemVectors(missing=math.nan),
    "propensities": ItemNumbers(description="the probability that each item is observed"),
    "reference": UserLists(description="the recommendation lists of another model"),
}
NAMED_INPUTS = ("train", "user_groups", "item_clusters", "item_features")
SIDE_INPUTS = NAMED_INPUTS[1:]  # without train, which is a table of interactions like the truth


def built_in_inputs(*names: str) -> dict[str, InputKind]:
    """Return some of the inputs that Weft names, as a metric declares them."""
    return {name: BUILT_IN_INPUTS[name] for name in names}
