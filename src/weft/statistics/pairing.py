"""The users of all compared models, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError
from weft.evaluation.result import Result

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AlignedUsers:
    """The tables of all models, and the row of each of their users among the users of any model.

    A model whose users are all of them, in order, has None for its rows: nothing has to be moved.
    """

    tables: tuple[pl.DataFrame, ...]
    users: pl.Series
    rows: tuple[Places | None, ...]

    def values(self, column: str) -> Floats:
        """The values of every model, `[models, users]`; NaN where a model lacks the user or its
        value is undefined.
        """
        found = np.full((len(self.tables), len(self.users)), np.nan)
        for into, table, rows in zip(found, self.tables, self.rows):
            values = table[column].to_numpy()
            if rows is None:
                into[:] = values
            else:
                into[rows] = values
        return found

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Which models have which users, `[models, users]`."""
        found = np.zeros((len(self.tables), len(self.users)), dtype=bool)
        for into, rows in zip(found, self.rows):
            into[slice(None) if rows is None else rows] = True
        return found

    @cached_property
    def order(self) -> Places:
        """The rows in the order of the users' ids, so that what is random does not depend on the
        order of a table.
        """
        return self.users.arg_sort().to_numpy().astype(np.int64)


def align(named: Mapping[str, Result]) -> AlignedUsers:
    """Pair the users of the models by their ids; each pair of models must share some."""
    import polars as pl

    tables = [result.per_user for result in named.values() if result.per_user is not None]
    ids = _of_one_kind(dict(zip(named, (table["user"] for table in tables))))
    for name, of_one in zip(named, ids):
        if of_one.n_unique() < len(of_one):
            twice = of_one.filter(of_one.is_duplicated())[0]
            raise InputError(
                f"{name!r} has the user {twice!r} more than once; a comparison pairs users, so "
                "each must stand once."
            )
    if all(other.equals(ids[0]) for other in ids[1:]):
        aligned = AlignedUsers(tuple(tables), ids[0], (None,) * len(ids))
    else:
        users = pl.concat(ids).unique(maintain_order=True)
        numbered = pl.DataFrame({"user": users}).with_row_index("row")
        joined = (
            pl.DataFrame({"user": of_one}).join(
                numbered, on="user", how="left", maintain_order="left"
            )
            for of_one in ids
        )
        aligned = AlignedUsers(
            tuple(tables),
            users,
            tuple(frame["row"].to_numpy().astype(np.int64) for frame in joined),
        )
    shared = aligned.known.astype(np.float32) @ aligned.known.T.astype(np.float32)
    for a, b in np.argwhere(np.triu(shared == 0, 1)).tolist()[:1]:
        names = list(named)
        raise InputError(
            f"{names[a]!r} and {names[b]!r} share no user; were they evaluated on the same truth?"
        )
    if len(aligned.users) == 0:
        raise InputError(
            f"{' and '.join(map(repr, named))} have no users; there is nothing to compare."
        )
    return aligned


def _of_one_kind(ids: Mapping[str, pl.Series]) -> list[pl.Series]:
    """The ids of all models as one type; numbers are never taken for texts."""
    import polars as pl

    (first, sample), *others = ids.items()
    for name, of_one in others:
        if of_one.dtype != sample.dtype and not (
            of_one.dtype.is_integer() and sample.dtype.is_integer()
        ):
            raise InputError(
                f"{first!r} has users of type {sample.dtype}, {name!r} of type {of_one.dtype}; "
                "1 and '1' are different users. Evaluate both with the same kind of ids."
            )
    if len({of_one.dtype for of_one in ids.values()}) > 1:  # integers of several widths
        return [of_one.cast(pl.Int128) for of_one in ids.values()]
    return list(ids.values())
