"""Numbers and vectors: one of each user or item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft._input_kinds import InputKind
from weft.data.devices import DeviceColumn
from weft.data.interactions import MAX_EXAMPLES, digest
from weft.data.number_readers import Floats, read_values
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError


@dataclass(frozen=True)
class Numbers:
    """A number per user or item by code, `values [n]`, or a vector, `[n, d]`.

    `missing` is a mask `[n]` of the codes without a value, which have that of their kind;
    `num_unknown` values belonged to ids that are not evaluated.
    """

    values: DeviceColumn
    missing: DeviceColumn
    num_unknown: int = 0

    def lookup(self, codes: Tensor) -> Tensor:
        """Return the value of each code, `[*codes]` or `[*codes, d]`, on the device of the codes.

        The code -1, for no item after the end of a list, has 0."""
        return self.values.lookup(codes)

    def lacks(self, codes: Tensor) -> Tensor:
        """Return True for each code without a value."""
        return self.missing.lookup(codes, True)

    def equals(self, other: Numbers) -> bool:
        """True if both give the same values to the same codes."""
        return self.fingerprint() == other.fingerprint()

    def fingerprint(self) -> str:
        """Return a short digest."""
        values = self.values.values.cpu().numpy()
        return digest(values, about=(values.shape, str(values.dtype)))

    def select(self, codes: NDArray[np.int64]) -> Numbers:
        """Return the values of some codes, in their order."""
        values, missing = self.values.values[codes], self.missing.values[codes]
        return Numbers(DeviceColumn(values), DeviceColumn(missing), self.num_unknown)

    @property
    def is_vector(self) -> bool:
        """True for vectors, False for numbers."""
        return self.values.values.ndim == 2

    @property
    def size(self) -> int:
        """The number of users or items, with or without a value."""
        return len(self.values)

    @property
    def num_unlabelled(self) -> int:
        """The number of users or items without a value."""
        return int(np.count_nonzero(self.missing.values.cpu().numpy()))


def empty_numbers(kind: InputKind) -> Numbers:
    """Return the numbers or vectors of no user or item."""
    shape = (0, 1) if kind.form == "vector" else (0,)
    values = torch.empty(shape, dtype=torch.float64)
    return Numbers(DeviceColumn(values), DeviceColumn(torch.empty(0, dtype=torch.bool)))


def read_numbers(
    data: Any,
    where: str,
    ids: Vocabulary,
    kind: InputKind,
    *,
    num_in_order: int | None = None,
    num_required: int | None = None,
) -> Numbers:
    """Return a number or a vector for each id, from `{id: value}`, a frame (id, value; of vectors
    an id and a list, or a column per dimension), an array or a sequence.

    A sequence holds the values of the first `num_in_order` ids, by default of all; 0: ids have no
    known order. The first `num_required` ids, by default all, must have a value if the kind
    requires it. Raises `InputError` if an id has several values, or for values that are not finite.
    """
    if isinstance(data, Numbers):
        if data.size < ids.size:
            raise InputError(
                f"{where} has values for {data.size} {ids.kind}s, but there are {ids.size}."
            )
        return data
    in_order = ids.size if num_in_order is None else num_in_order
    codes, values = read_values(data, where, ids, kind.form, num_in_order=in_order)
    is_known = codes >= 0
    num_unknown = int((~is_known).sum())
    if num_unknown:
        codes, values = codes[is_known], values[is_known]
    table = np.full((ids.size, *values.shape[1:]), np.nan, dtype=values.dtype)
    table[codes] = values
    _check_unique(codes, values, table, where=where, ids=ids)
    is_missing = np.any(np.isnan(table), axis=tuple(range(1, table.ndim)))
    required = is_missing[: ids.size if num_required is None else num_required]
    missing = getattr(kind, "missing", np.nan)
    if missing == "error" and required.any():
        shown = _show_ids(ids, np.flatnonzero(required))
        raise InputError(
            f"{where} has no {kind.form} for {required.sum():,} of {len(required):,} {ids.kind}s: "
            f"{shown}. Give one for each {ids.kind}."
        )
    table[is_missing] = np.nan if missing == "error" else missing
    values_on_cpu, mask = torch.as_tensor(table), torch.as_tensor(is_missing)
    return Numbers(DeviceColumn(values_on_cpu), DeviceColumn(mask), num_unknown)


def _check_unique(
    codes: NDArray[np.int64], values: Floats, table: Floats, *, where: str, ids: Vocabulary
) -> None:
    """Raise `InputError` if an id has several values."""
    if len(codes) <= 1 or (codes[1:] > codes[:-1]).all():
        return
    differs = (table[codes] != values) & ~np.isnan(values)
    differs = differs if differs.ndim == 1 else differs.any(1)
    if differs.any():
        raise InputError(
            f"{where} gives more than one value to the same {ids.kind}: "
            f"{_show_ids(ids, codes[differs])}. Each {ids.kind} has one; remove the others."
        )


def _show_ids(ids: Vocabulary, codes: NDArray[np.int64]) -> str:
    shown = ", ".join(map(repr, ids.ids.gather(codes[:MAX_EXAMPLES])))
    return shown + (", ..." if len(codes) > MAX_EXAMPLES else "")
