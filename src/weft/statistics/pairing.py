"""Pairing of users: the per-user values of all compared models, aligned by user id."""

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
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AlignedUsers:
    """Per-user tables of all models, and the row of each of their users among all `users`.

    `rows` is None for a model that has all users in order, so that no values have to be moved.
    """

    tables: tuple[pl.DataFrame, ...]
    users: pl.Series
    rows: tuple[Integers | None, ...]

    def values(self, column: str) -> Floats:
        """Return the values of every model, `[models, users]`; NaN if missing or undefined."""
        aligned = np.full((len(self.tables), len(self.users)), np.nan)
        for target, table, rows in zip(aligned, self.tables, self.rows):
            target[slice(None) if rows is None else rows] = table[column].to_numpy()
        return aligned

    @cached_property
    def is_present(self) -> NDArray[np.bool_]:
        """True for the users of each model, `[models, users]`."""
        mask = np.zeros((len(self.tables), len(self.users)), dtype=bool)
        for target, rows in zip(mask, self.rows):
            target[slice(None) if rows is None else rows] = True
        return mask

    @cached_property
    def order(self) -> Integers:
        """The users in order of their ids, so that random draws do not depend on tables."""
        return self.users.arg_sort().to_numpy().astype(np.int64)


def align_users(results: Mapping[str, Result]) -> AlignedUsers:
    """Pair the users of the models by their ids.

    Raises `InputError` if a model has a user twice, or two models share no user.
    """
    import polars as pl

    tables = tuple(result.per_user for result in results.values() if result.per_user is not None)
    ids = _unify_types(dict(zip(results, (table["user"] for table in tables))))
    for name, model_ids in zip(results, ids):
        if model_ids.n_unique() < len(model_ids):
            repeated = model_ids.filter(model_ids.is_duplicated())[0]
            raise InputError(
                f"{name!r} has the user {repeated!r} more than once; a comparison pairs users, so "
                "each may occur once."
            )
    if all(model_ids.equals(ids[0]) for model_ids in ids[1:]):
        aligned = AlignedUsers(tables, ids[0], (None,) * len(ids))
    else:
        users = pl.concat(ids).unique(maintain_order=True)
        index = pl.DataFrame({"user": users}).with_row_index("row")
        joined = (
            pl.DataFrame({"user": model_ids}).join(
                index, on="user", how="left", maintain_order="left"
            )
            for model_ids in ids
        )
        rows = tuple(frame["row"].to_numpy().astype(np.int64) for frame in joined)
        aligned = AlignedUsers(tables, users, rows)
    _check_overlap(list(results), aligned)
    return aligned


def _check_overlap(names: list[str], aligned: AlignedUsers) -> None:
    """Raise `InputError` if there are no users, or two models share none."""
    present = aligned.is_present.astype(np.float32)
    for a, b in np.argwhere(np.triu(present @ present.T == 0, 1)).tolist()[:1]:
        raise InputError(
            f"{names[a]!r} and {names[b]!r} share no user; were they evaluated on the same truth?"
        )
    if len(aligned.users) == 0:
        raise InputError(
            f"{' and '.join(map(repr, names))} have no users; there is nothing to compare."
        )


def _unify_types(ids: Mapping[str, pl.Series]) -> list[pl.Series]:
    """Return the ids of all models as one type. Raises `InputError` for numbers and strings."""
    import polars as pl

    (first, sample), *others = ids.items()
    for name, model_ids in others:
        both_integers = model_ids.dtype.is_integer() and sample.dtype.is_integer()
        if model_ids.dtype != sample.dtype and not both_integers:
            raise InputError(
                f"{first!r} has users of type {sample.dtype}, {name!r} of type {model_ids.dtype}; "
                "1 and '1' are different users. Evaluate both with the same kind of ids."
            )
    if len({model_ids.dtype for model_ids in ids.values()}) > 1:  # integers of several widths
        return [model_ids.cast(pl.Int128) for model_ids in ids.values()]
    return list(ids.values())
