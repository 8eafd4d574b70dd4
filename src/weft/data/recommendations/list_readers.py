"""Readers of recommendation lists from files, frames and dicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data.interaction_readers import is_frame, open_frame, read_ids, read_numbers
from weft.data.interaction_table import InteractionTable
from weft.data.readers.files import FileTable, is_file, read_table
from weft.data.readers.roles import COLUMNS, find_column, find_column_name
from weft.data.recommendations.list_table import ListTable
from weft.data.vocabulary import id_series
from weft.errors import InputError, did_you_mean, setting_ref

_EXACT_LIMIT = 2**53  # integers beyond it are rounded by float64


def are_lists(data: Any) -> bool:
    """True if a source of this type is read as recommendation lists."""
    return isinstance(data, Mapping) or is_frame(data) or is_file(data)


def read_lists(data: Any, where: str = "source") -> ListTable:
    """Return lists from a file, a frame or a dict. `where` names them in messages."""
    if isinstance(data, Mapping):
        return _from_dict(data, where)
    if is_file(data):
        return _from_file(read_table(data, where, use="lists"))
    return _from_frame(data, where)


def _from_frame(frame: Any, where: str) -> ListTable:
    columns, get_column = open_frame(frame, where)
    if not any(find_column_name(columns, role, where) for role in ("user", "item")):
        raise InputError(
            f"{where} is a {type(frame).__name__} with the columns {columns}. It is read as "
            "recommendation lists: expected the columns 'user', 'item' and, if there is one, "
            "'score' or 'rank'. Scores [users, items] are given as an array: frame.to_numpy(), "
            f"with {setting_ref('users')} and {setting_ref('items')}."
        )
    users, items = read_ids(columns, get_column, where)
    roles = ("user", "item", "score", "rank")
    names = {role: find_column(columns, role, where) for role in roles}
    unused = tuple(name for name in columns if name not in names.values())
    scores = ranks = None
    if (name := names["score"]) is not None:
        scores = read_numbers(get_column(name), name, where, "score")
        _check_precision(get_column(name), name, where)
    if (name := names["rank"]) is not None:
        ranks = read_numbers(get_column(name), name, where, "rank")
    values, value_name = (np.zeros(len(users)), "") if scores is None else (scores, "score")
    entries = InteractionTable(where, users, items, values, value_name=value_name)
    return _build(entries, ranks, unused)


def _from_file(table: FileTable) -> ListTable:
    scores, ranks = (table.columns.get(role) for role in ("score", "rank"))
    entries = InteractionTable(
        table.where,
        table.columns["user"],
        table.columns["item"],
        np.zeros(len(table)) if scores is None else scores.to_numpy(),
        all_users=table.all_users,
        value_name="" if scores is None else "score",
        table=table,
    )
    return _build(entries, None if ranks is None else ranks.to_numpy(), table.unused_columns)


def _build(
    entries: InteractionTable,
    ranks: NDArray[np.float64] | None,
    unused_columns: tuple[str, ...],
) -> ListTable:
    """Return checked lists; raise `InputError` for scores and ranks that are not finite."""
    if not entries.value_name and ranks is None:
        _check_similar_names(unused_columns, entries.where)
    entries.check_finite()
    if ranks is not None:
        replace(entries, values=ranks, value_name="rank").check_finite()
    return ListTable(entries, ranks, unused_columns)


def _check_similar_names(unused_columns: tuple[str, ...], where: str) -> None:
    """Raise if lists without scores and ranks have a column with nearly the name of one."""
    for name in unused_columns:
        if hint := did_you_mean(name, (*COLUMNS["score"], *COLUMNS["rank"])):
            raise InputError(
                f"{where} has neither a column of scores nor one of ranks, but one named "
                f"{name!r}.{hint} Rename it, or drop it if the rows of each user stand best first."
            )


def _check_precision(scores: Any, name: str, where: str) -> None:
    """Raise `InputError` for integers that float64 would merge into ties."""
    import polars as pl

    numbers = scores if isinstance(scores, pl.Series) else pl.Series(scores, strict=False)
    extremes = (numbers.min(), numbers.max()) if numbers.dtype.is_integer() and len(numbers) else ()
    if any(abs(int(extreme)) > _EXACT_LIMIT for extreme in extremes):  # type: ignore[arg-type]
        raise InputError(
            f"{where}: the column {name!r} has integers beyond 2**53, which float64 cannot tell "
            "apart; rescale the scores."
        )


def _from_dict(data: Mapping[Any, Any], where: str) -> ListTable:
    has_scores = _has_scores(data, where)
    lists = [_list_of_items(row, user, where) for user, row in data.items()]
    all_users = id_series(list(data), "user", where)
    users = all_users
    if lists:
        users = all_users.gather(np.repeat(np.arange(len(lists)), list(map(len, lists))))
    items = id_series(list(chain.from_iterable(lists)), "item", where)
    values = np.zeros(len(items))
    if has_scores:
        scores = list(chain.from_iterable(row.values() for row in lists))
        try:
            values = np.array([float(score) for score in scores], dtype=np.float64)
        except (TypeError, ValueError):
            wrong = next(score for score in scores if not hasattr(score, "__float__"))
            raise InputError(f"{where} has the score {wrong!r}; scores must be numbers.") from None
    # Lists without items lack no scores.
    value_name = "score" if has_scores or not len(items) else ""
    entries = InteractionTable(
        where, users, items, values, all_users=all_users, value_name=value_name
    )
    return _build(entries, None, ())


def _has_scores(data: Mapping[Any, Any], where: str) -> bool:
    """True if rows are `{item: score}`; raise if only some are."""
    has_scores = [isinstance(row, Mapping) for row in data.values()]
    if any(has_scores) and not all(has_scores):
        user = next(user for user, has_score in zip(data, has_scores) if not has_score)
        raise InputError(
            f"{where} has scores for some users but none for {user!r}; give {{item: score}} for "
            "all, or lists for all."
        )
    return any(has_scores)


def _list_of_items(row: Any, user: Any, where: str) -> Any:
    """Return a sized list, or a mapping, of the items of a user."""
    if isinstance(row, (str, bytes, set, frozenset)) or not hasattr(row, "__iter__"):
        raise InputError(
            f"{where}[{user!r}] is {row!r}; expected a list of items, best first, or "
            "{item: score}."
        )
    if hasattr(row, "tolist"):
        return row.tolist()
    return row if hasattr(row, "__len__") else list(row)
