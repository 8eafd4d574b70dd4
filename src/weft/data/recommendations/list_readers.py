"""The reader of recommendation lists from files, frames and dicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.data.interaction_readers import is_frame, read_rows
from weft.data.readers.files import is_file
from weft.data.readers.roles import COLUMNS
from weft.data.recommendations.list_table import ListTable
from weft.errors import InputError, did_you_mean


def are_lists(data: Any) -> bool:
    """True if a source of this type is read as recommendation lists."""
    return isinstance(data, Mapping) or is_frame(data) or is_file(data)


def read_lists(data: Any, where: str = "source") -> ListTable:
    """Return lists from a file, a frame or a dict. `where` names them in messages.

    Raise `InputError` for scores and ranks that are not finite.
    """
    rows = read_rows(data, where, use="lists")
    entries = rows.to_interactions("score", 0.0)
    ranks = rows.frame["rank"].to_numpy() if "rank" in rows.frame.columns else None
    if not entries.value_name and ranks is None:
        _check_similar_names(rows.unused_columns, entries.where)
    entries.check_finite()
    if ranks is not None:
        replace(entries, values=ranks, value_name="rank").check_finite()
    return ListTable(entries, ranks, rows.unused_columns)


def _check_similar_names(unused_columns: tuple[str, ...], where: str) -> None:
    """Raise if lists without scores and ranks have a column with nearly the name of one."""
    for name in unused_columns:
        if hint := did_you_mean(name, (*COLUMNS["score"], *COLUMNS["rank"])):
            raise InputError(
                f"{where} has neither a column of scores nor one of ranks, but one named "
                f"{name!r}.{hint} Rename it, or drop it if the rows of each user stand best first."
            )
