"""Assignment of interactions to the parts of a split.

Rows of a user are ordered by time or by the hash of seed, user and item, never by their order in
the data, and parts are taken from the end of that order. Rows that must be in one part have
equal keys in that order, and take the part of the first of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.errors import InputError, SettingError, agree, setting_ref
from weft.evaluation.splitting.split_rows import SplitRows, parse_moment
from weft.evaluation.splitting.split_settings import SplitSettings, exact_share

TRAIN, VALIDATION, TEST = 0, 1, 2
Parts = NDArray[np.int16]
Ints = NDArray[np.int64]


def assign_parts(rows: SplitRows, settings: SplitSettings, where: str) -> Parts:
    """Return the part of each row, or its fold from 0 on, `[rows]`."""
    if settings.method == "timeline":
        return _split_timeline(rows, settings, where)
    if settings.method == "folds":
        return _assign_folds(rows, settings)
    if settings.method == "random" and settings.per == "global":
        return _split_by_hash(rows, settings)
    return _split_users(rows, settings)


# --------------------------------------------------------------------------------------------------


def _split_timeline(rows: SplitRows, settings: SplitSettings, where: str) -> Parts:
    """Split at points in time; rows at the same time are in the same part, the earlier one."""
    assert rows.times is not None
    parts = np.full(len(rows), TRAIN, dtype=np.int16)
    if settings.test_from is not None:
        test_from = parse_moment("test_from", settings.test_from, rows)
        if settings.validation_from is not None:
            validation_from = parse_moment("validation_from", settings.validation_from, rows)
            if validation_from >= test_from:
                raise SettingError(
                    f"{setting_ref('validation_from', settings.validation_from)} must be earlier "
                    f"than {setting_ref('test_from', settings.test_from)}."
                )
            parts[rows.times >= validation_from] = VALIDATION
        parts[rows.times >= test_from] = TEST
        return parts
    num_test, num_validation = _count_held_out(np.array([len(rows)]), settings)
    first_test = len(rows) - int(num_test[0])
    first_validation = first_test - int(num_validation[0])
    ordered = np.partition(rows.times, (first_validation - 1, first_test - 1))
    parts[rows.times > ordered[first_validation - 1]] = VALIDATION
    parts[rows.times > ordered[first_test - 1]] = TEST
    if not (parts == TEST).any():
        latest = rows.describe_time(rows.times.max())
        num_last = int((rows.times == rows.times.max()).sum())
        raise InputError(
            f"{where}: {setting_ref('test_share', settings.test_share)} of {len(rows):,} rows "
            "leaves no test rows, because rows with the same timestamp stay together and "
            f"{agree(num_last, '{n} row{s} {have}')} the last one, {latest}. Give a larger "
            f"share, or {setting_ref('test_from', latest)}."
        )
    return parts


def _count_held_out(sizes: Ints, settings: SplitSettings) -> tuple[Ints, Ints]:
    """Return the numbers of test and of validation rows for numbers of rows, rounded down."""
    if settings.method == "leave-last-out":
        held_out = (settings.n or 0), (settings.validation_n or 0)
        has_enough = sizes > sum(held_out)  # other users are in train only
        return has_enough * np.int64(held_out[0]), has_enough * np.int64(held_out[1])
    shares = map(exact_share, (settings.test_share, settings.validation_share))
    test, validation = (sizes * share.numerator // share.denominator for share in shares)
    return test, validation


# --------------------------------------------------------------------------------------------------


def _split_users(rows: SplitRows, settings: SplitSettings) -> Parts:
    """Split the rows of each user, in the order of time or of hashes."""
    by: list[Any] = [rows.pair_keys]
    is_temporal = settings.method != "random"
    if is_temporal:
        by = [rows.times] if settings.ties == "together" else [rows.times, rows.pair_keys]
    order = sort_rows(rows.users, *by)
    keeps_ties = not is_temporal or settings.ties == "together"
    positions, sizes = _find_positions(rows.users[order])
    if keeps_ties:
        positions = positions[_first_of_ties(positions, by[0][order])]
    num_test, num_validation = _count_held_out(sizes, settings)
    first_test = sizes - num_test
    found = (positions >= first_test - num_validation).astype(np.int16)
    found[positions >= first_test] = TEST
    parts = np.empty(len(rows), dtype=np.int16)
    parts[order] = found
    return parts


def sort_rows(*keys: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the order of rows by some keys, the first of which matters most; it is stable."""
    frame = pl.DataFrame({str(number): key for number, key in enumerate(keys)})
    return frame.select(pl.arg_sort_by(frame.columns, maintain_order=True)).to_series().to_numpy()


def _find_positions(users: NDArray[np.int32]) -> tuple[Ints, Ints]:
    """Return the position of each row among those of its user, and their number.

    The rows are sorted by user.
    """
    starts = np.flatnonzero(np.diff(users, prepend=-1))
    lengths = np.diff(starts, append=len(users))
    positions = np.arange(len(users)) - np.repeat(starts, lengths)
    return positions, np.repeat(lengths, lengths)


def _first_of_ties(positions: Ints, keys: NDArray[Any]) -> Ints:
    """Return the index of the first row of the user with the same key, for each row in order."""
    is_first = positions == 0
    is_first[1:] |= keys[1:] != keys[:-1]
    return np.maximum.accumulate(np.where(is_first, np.arange(len(keys)), 0))


# --------------------------------------------------------------------------------------------------


def _split_by_hash(rows: SplitRows, settings: SplitSettings) -> Parts:
    """Split all rows by their hash alone, so that no row depends on another."""
    test = exact_share(settings.test_share)
    held_out = test + exact_share(settings.validation_share)
    parts = np.full(len(rows), TRAIN, dtype=np.int16)
    parts[rows.pair_keys < np.uint64(int(held_out * 2**64))] = VALIDATION
    parts[rows.pair_keys < np.uint64(int(test * 2**64))] = TEST
    return parts


def _assign_folds(rows: SplitRows, settings: SplitSettings) -> Parts:
    """Return the fold of each row; repetitions of a user and an item are in the same fold."""
    assert settings.folds is not None
    num_folds = np.uint64(settings.folds)
    if settings.per == "global":
        return (((rows.pair_keys >> np.uint64(32)) * num_folds) >> np.uint64(32)).astype(np.int16)
    order = sort_rows(rows.users, rows.pair_keys)
    users = rows.users[order]
    positions, _ = _find_positions(users)
    first = _first_of_ties(positions, rows.pair_keys[order])
    # Distinct pairs are counted within each user, from a start that differs between users.
    counts = np.cumsum(first == np.arange(len(first)))
    ranks = counts - counts[np.arange(len(first)) - positions]
    starts = (rows.user_keys % num_folds).astype(np.int64)[users]
    folds = np.empty(len(rows), dtype=np.int16)
    folds[order] = (starts + ranks) % settings.folds
    return folds
