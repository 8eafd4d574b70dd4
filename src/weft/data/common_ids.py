"""Checks that recommendation lists and truth have users and items in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.data.interactions import InteractionTable
from weft.data.recommendations import EncodedLists
from weft.data.sources import ListSource
from weft.data.vocabulary import Vocabulary, distinct_ids
from weft.errors import InputError, setting_ref

if TYPE_CHECKING:
    import polars as pl

NO_HITS = (
    "no item of the truth is in any list, so there can be no hits. Check that both use the same "
    "ids."
)
# List positions that are compared with the truth at once.
_TILE_POSITIONS = 1 << 19


def check_common_items(lists: str, truth: str, listed: Vocabulary, others: list[pl.Series]) -> None:
    """Raise `InputError` if no listed item is in the truth (the first of `others`) or in train."""
    if not listed.size or not len(others[0]):
        return
    if all((listed.encode(ids, "") < 0).all() for ids in others):
        raise InputError(
            f"{lists} and {truth} have no item in common: the lists have {show_ids(listed.ids)}, "
            f"the truth {show_ids(others[0])}. Use the same ids in both; if the ids are correct "
            f"and there are no hits, give the catalogue as {setting_ref('items')}."
        )


def common_user_notes(
    source: ListSource, users: Vocabulary, truth: InteractionTable
) -> Iterator[str]:
    """Yield a note if lists and truth have no user in common. Raises `InputError` for files."""
    judged = distinct_ids(truth.named_users)
    if users.size and len(judged) and (users.encode(judged, truth.where) < 0).all():
        lists = source.table
        are_files = lists.file is not None or truth.table is not None
        yield no_common_user(lists.where, truth.where, users.ids, judged, are_files=are_files)


def no_common_user(
    lists: str, truth: str, listed: pl.Series, judged: pl.Series, *, are_files: bool
) -> str:
    """Return the note that lists and truth have no user in common; raise it if one is a file."""
    note = (
        f"{lists} and {truth} have no user in common: the lists have {show_ids(listed)}, the "
        f"truth {show_ids(judged)}"
    )
    if are_files:
        raise InputError(
            f"{note}. Use the same ids in both, and check that both come from the same data set."
        )
    return note


def has_common_items(lists: EncodedLists, relevant: NDArray[np.int64]) -> bool:
    """Return True if an item of the truth is in a list, or if either is empty."""
    listed = lists.items
    if not len(listed) or not len(relevant):
        return True
    # One more for empty positions, which have negative codes.
    is_relevant = np.zeros(lists.num_items + 1, dtype=np.bool_)
    is_relevant[relevant] = True
    return any(
        is_relevant[np.maximum(listed[start : start + _TILE_POSITIONS], -1)].any()
        for start in range(0, len(listed), _TILE_POSITIONS)
    )


def show_ids(ids: pl.Series) -> str:
    """Return the first ids, for a message."""
    return ", ".join(map(repr, ids.head(3))) + (", ..." if len(ids) > 3 else "")
