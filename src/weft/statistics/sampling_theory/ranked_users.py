"""Ranks of the relevant items of users, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from weft.data.devices import read_array
from weft.errors import InputError, SettingError, check_unmasked, describe_type, setting_ref
from weft.statistics.pairing import Integers


@dataclass(frozen=True)
class RankedUsers:
    """Users with a relevant item, and the ranks of their relevant items, best first."""

    counts: Integers  # relevant items of each user, [users]
    above: Integers  # irrelevant items above each relevant item, [sum of counts]
    eligible: Integers  # irrelevant items of each user, [users]

    @classmethod
    def read(cls, ranks: Any, num_items: Any, source: str = "ranks") -> RankedUsers:
        """Read ranks as callers give them; `source` names them in messages."""
        rows = _read_rows(ranks, source)
        counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        sizes = read_array(num_items, "num_items")
        if sizes.dtype.kind not in "iu" or sizes.shape not in ((), counts.shape):
            raise SettingError(
                f"{setting_ref('num_items', num_items)}; give the number of ranked items, one for "
                "all users or one for each."
            )
        sizes = np.broadcast_to(sizes, counts.shape).astype(np.int64)
        if len(counts) == 0 or counts.sum() == 0:
            raise InputError(
                f"{source} are empty; give one rank for each user, or a list of ranks for each "
                "user."
            )
        flat = np.concatenate(rows)
        owners = np.repeat(np.arange(len(counts)), counts)
        flat = flat[np.lexsort((flat, owners))]
        is_wrong = (flat < 1) | (flat > sizes[owners])
        if is_wrong.any():
            raise InputError(
                f"{source} contain {flat[is_wrong][0]}; ranks are integers from 1 to num_items, "
                f"which is {sizes[owners][is_wrong][0]} for this user."
            )
        if ((flat[1:] == flat[:-1]) & (owners[1:] == owners[:-1])).any():
            raise InputError(
                f"{source} give the same rank to two items of a user; each rank may occur once."
            )
        has_items = counts > 0
        users = cls(counts[has_items], flat, (sizes - counts)[has_items])
        return cls(users.counts, flat - users.item_numbers, users.eligible)

    @property
    def item_numbers(self) -> Integers:
        """The rank, from 1, of each relevant item among those of its user."""
        first = np.repeat(self.counts.cumsum() - self.counts, self.counts)
        return np.arange(1, len(first) + 1) - first


def _read_rows(ranks: Any, source: str) -> list[Integers]:
    """Return the ranks of each user as an array of integers."""
    if isinstance(ranks, Tensor):
        ranks = read_array(ranks, source)
    if (
        isinstance(ranks, (str, Mapping))
        or getattr(ranks, "ndim", 1) == 0
        or not hasattr(ranks, "__len__")
    ):
        raise InputError(
            f"{source} are {describe_type(ranks)}; give one rank for each user, or a list of "
            "ranks for each user."
        )
    check_unmasked(ranks, source, "give the rank of every user")
    rows = [np.atleast_1d(read_array(row, source)) for row in ranks]
    return [_check_row(row, source) for row in rows]


def _check_row(row: NDArray[Any], source: str) -> Integers:
    """Return the ranks of a user. Raises `InputError` if they are not integers."""
    if row.ndim != 1 or (row.dtype.kind not in "iu" and len(row)):
        raise InputError(f"{source} contain {row.tolist()!r}; ranks are integers of at least 1.")
    return row.astype(np.int64)
