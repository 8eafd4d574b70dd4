"""Rows that a split leaves out: repetitions, rare users and items, and cold users and items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError, agree, setting_ref
from weft.evaluation.splitting.assignment import sort_rows
from weft.evaluation.splitting.split_input import SplitInput
from weft.evaluation.splitting.split_rows import SplitRows
from weft.evaluation.splitting.split_settings import SplitSettings

Mask = NDArray[np.bool_]


def find_repetitions(rows: SplitRows, settings: SplitSettings, data: SplitInput) -> Mask:
    """Return the rows that are dropped because their user and item occur in another row.

    Raises `InputError` with the rows for `duplicates="error"`.
    """
    is_dropped = np.zeros(len(rows), dtype=np.bool_)
    if settings.duplicates == "keep":
        return is_dropped
    by_time = () if rows.times is None else (rows.times,)
    order = sort_rows(rows.users, rows.items, *by_time)
    users, items = rows.users[order], rows.items[order]
    is_repeated = (users[1:] == users[:-1]) & (items[1:] == items[:-1])
    # Of a run of equal pairs, all but the first one, or all but the last one.
    dropped = order[:-1] if settings.duplicates == "last" else order[1:]
    is_dropped[dropped[is_repeated]] = True
    if settings.duplicates == "error" and is_dropped.any():
        where = data.describe_rows(np.flatnonzero(is_dropped).tolist())
        repeated = agree(int(is_dropped.sum()), "{n} row{s} that {repeat}")
        raise InputError(
            f"{data.where} has {repeated} the user and the item of another row: {where}. "
            f"Keep one of them, {setting_ref('duplicates', 'first')} or "
            f"{setting_ref('duplicates', 'last')}, or all, {setting_ref('duplicates', 'keep')} "
            "(weft.evaluate raises an error for repetitions within a part)."
        )
    return is_dropped


def find_rare(rows: SplitRows, settings: SplitSettings) -> Mask:
    """Return the rows of users and items with too few interactions, `[rows]`."""
    is_kept = np.ones(len(rows), dtype=np.bool_)
    while True:
        users = np.bincount(rows.users[is_kept], minlength=rows.num_users)
        items = np.bincount(rows.items[is_kept], minlength=rows.num_items)
        is_rare = (users < settings.min_user_interactions)[rows.users]
        is_rare |= (items < settings.min_item_interactions)[rows.items]
        is_stable = not (is_rare & is_kept).any()
        is_kept &= ~is_rare
        if is_stable or not settings.core:
            return ~is_kept


def find_cold(rows: SplitRows, in_train: Mask, in_test: Mask) -> tuple[Mask, Mask]:
    """Return the rows of `in_test` with users, and those with items, that train does not have."""
    has_user = np.zeros(rows.num_users, dtype=np.bool_)
    has_item = np.zeros(rows.num_items, dtype=np.bool_)
    has_user[rows.users[in_train]] = True
    has_item[rows.items[in_train]] = True
    return in_test & ~has_user[rows.users], in_test & ~has_item[rows.items]
