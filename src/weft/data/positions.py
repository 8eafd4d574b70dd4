"""Ids of truth and train that are read as positions: row and column numbers of scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft._choices import POSITIONS
from weft.errors import InputError, SettingError, render, setting_ref, warn_about_input

if TYPE_CHECKING:
    import polars as pl

_AXES = {"user": "row", "item": "column"}


def are_positions(ids: Any) -> bool:
    """True if the caller declares that ids are row or column numbers."""
    return isinstance(ids, str) and ids.casefold() == POSITIONS


def check_declared(users: Any, items: Any, *, has_lists: bool, is_model: bool) -> None:
    """Raise `SettingError` if positions are declared for a source with ids of another kind."""
    if are_positions(users) and is_model:
        raise SettingError(
            f"{setting_ref('users', users)} means that user ids are row numbers of scores, but a "
            "model is called with user ids. Remove it."
        )
    for setting, ids, axis in (("users", users, "row"), ("items", items, "column")):
        if are_positions(ids) and has_lists:
            raise SettingError(
                f"{setting_ref(setting, ids)} means that {setting.removesuffix('s')} ids are "
                f"{axis} numbers of scores, but recommendation lists contain "
                f"{setting.removesuffix('s')} ids. Remove it."
            )


def describe_ids(
    positional: Collection[str], given: Collection[str], *, has_lists: bool
) -> dict[str, str]:
    """Return how the ids of users and items were read, for the provenance of a result.

    `positional` are the kinds of ids that are positions, `given` those that the caller listed.
    """
    described = {}
    for kind in ("user", "item"):
        described[f"{kind}s"] = "lists" if has_lists else "truth"
        if kind in positional:
            described[f"{kind}s"] = POSITIONS
        elif kind in given:
            described[f"{kind}s"] = "given"
    return described


@dataclass(frozen=True)
class PositionalIds:
    """The kinds of ids ("user", "item") that are positions, and the caller's declarations."""

    sizes: Mapping[str, int]  # rows or columns, of each kind with positions as ids
    declared: frozenset[str]  # kinds for which the caller gave "positions"
    inputs: tuple[str, ...]  # those with ids: "truth", "train"
    frames: tuple[str, ...]  # those of them that are frames or files
    is_unsaid: bool  # True if the caller gave neither users= nor items=
    origin: str = "the scores"

    def notes(self, ids: Mapping[str, Sequence[pl.Series]]) -> list[str]:
        """Return the notes on ids that are positions but not declared to be.

        `ids` are those of truth and train, by kind. Raises `InputError` for frames and files if the
        caller did not say what their ids are. Warns of ids that may count from 1.
        """
        kinds = [kind for kind in self.sizes if any(map(len, ids[kind]))]
        if not kinds:
            return []
        if self.frames and self.is_unsaid:
            raise self._unsaid(kinds)
        unsaid = [kind for kind in kinds if kind not in self.declared]
        notes = []
        for kind in unsaid:
            if not any((part == 0).any() for part in ids[kind]):
                notes.append(render(self._describe_no_zero(kind)))
                warn_about_input(notes[-1])
        if unsaid:
            read = " and ".join(f"{kind} ids are read as {_AXES[kind]} numbers" for kind in unsaid)
            notes.append(f"{read} of {self.origin}")
        return notes

    def _describe_no_zero(self, kind: str) -> str:
        axis, setting, inputs = _AXES[kind], f"{kind}s", " and ".join(self.inputs)
        return (
            f"no {kind} of {inputs} has the id 0, so the ids may start at 1, but they are read as "
            f"{axis} numbers of {self.origin}, 0 to {self.sizes[kind] - 1}. Give the ids of the "
            f"{axis}s with {setting_ref(setting)}[...], or {setting_ref(setting, POSITIONS)} if "
            f"they are {axis} numbers"
        )

    def _unsaid(self, kinds: Sequence[str]) -> InputError:
        inputs = " and ".join(self.frames)
        axes = " and ".join(f"{_AXES[kind]}s" for kind in kinds)
        settings = " and ".join(setting_ref(f"{kind}s") for kind in kinds)
        positions = ", ".join(setting_ref(f"{kind}s", POSITIONS) for kind in kinds)
        return InputError(
            f"{inputs} {'has' if len(self.frames) == 1 else 'have'} ids, but it is not known which "
            f"{axes} of {self.origin} they belong to. Give the ids of the {axes} with {settings}, "
            f"or {positions} if the ids are the numbers of the {axes}, from 0."
        )
