"""Ids of users or items, and the numbers 0, 1, 2, ... that stand for them inside."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError, setting_ref

if TYPE_CHECKING:
    import polars as pl

Codes = NDArray[np.int64]


class Vocabulary:
    """The ids of one kind ("user" or "item") in order; the position of an id is its code.

    Without ids, an id *is* its code: a row or column number below `size`. `origin` says in messages
    whose ids, or rows and columns, these are."""

    def __init__(
        self, kind: str, size: int, ids: pl.Series | None = None, *, origin: str | None = None
    ) -> None:
        self.kind = kind
        self.size = size
        self._ids = ids
        self.origin = origin

    @classmethod
    def from_size(cls, kind: str, size: int, *, origin: str = "the scores") -> Vocabulary:
        """Row or column numbers as ids."""
        return cls(kind, size, origin=origin)

    @classmethod
    def from_data(cls, kind: str, ids: Sequence[pl.Series], *, origin: str) -> Vocabulary:
        """Every id that occurs, in order: numbers by size, text by its characters. All of one type."""
        import polars as pl

        met = [distinct(part) for part in ids if len(part)]  # integers of 64 bits, or strings
        everything = (
            distinct(pl.concat(met))
            if len(met) > 1
            else met[0]
            if met
            else pl.Series(dtype=pl.Int64)
        )
        return cls(kind, len(everything), everything, origin=origin)

    @classmethod
    def from_ids(cls, kind: str, ids: Any, *, where: str | None = None) -> Vocabulary:
        """The given ids, in the given order; each id once."""
        series = id_series(ids, kind, where or f"{kind}s=")
        repeated = series.filter(series.is_duplicated())
        if len(repeated):
            raise InputError(
                f"{where or f'{kind}s='} holds the id {repeated[0]!r} "
                f"{(series == repeated[0]).sum()} times; each {kind} id must "
                "occur once."
            )
        return cls(kind, len(series), series, origin=where)

    @property
    def is_positional(self) -> bool:
        """Whether ids are row or column numbers."""
        return self._ids is None

    @cached_property
    def ids(self) -> pl.Series:
        """All ids in the order of their codes."""
        import polars as pl

        return (
            pl.int_range(self.size, dtype=pl.Int64, eager=True) if self._ids is None else self._ids
        )

    def encode(
        self, ids: pl.Series, where: str, *, dtype: type[np.signedinteger[Any]] = np.int64
    ) -> NDArray[Any]:
        """The code of each id, -1 for an id that is not here. `where` names the data in messages,
        `dtype` must hold the codes.
        """
        import polars as pl

        if len(ids) == 0 or (self.size == 0 and not self.is_positional):
            return np.full(len(ids), -1, dtype=dtype)
        own = self.ids
        if own.dtype.is_integer() != ids.dtype.is_integer():
            if self._ids is None:
                line = "row" if self.kind == "user" else "column"
                raise InputError(
                    f"{where} has {_describe(ids)} as {self.kind} ids, but without {self.kind}s= "
                    f"ids are {line} numbers of "
                    f"{self.origin}, 0 to {self.size - 1}. Give the ids of the {line}s of "
                    f"{self.origin} as {self.kind}s=[...]."
                )
            raise InputError(
                f"{where} has {_describe(ids)} as {self.kind} ids, but "
                f"{self.origin or f'{self.kind}s='} has {_describe(own)}. "
                "Convert one of them: 1 and '1' are different ids. Ids of files are read as "
                f"strings with the setting {setting_ref('ids', 'string')} of the file."
            )
        if isinstance(ids.dtype, pl.Enum):  # strings that are codes already
            return _look_up(
                self.encode(ids.dtype.categories, where, dtype=dtype), ids.to_physical().to_numpy()
            )
        if self._ids is None:
            codes = ids.to_numpy().astype(np.int64)
            return np.where((codes >= 0) & (codes < self.size), codes, -1).astype(dtype, copy=False)
        if own.dtype.is_integer() and (span := _span(own, self.size + len(ids))) is not None:
            # Whole numbers that lie close together are looked up in a table, which is many times
            # faster than a join.
            low, high = span
            wanted, all_inside = ids.to_numpy(), ids.min() >= low and ids.max() <= high  # type: ignore[operator]
            if (
                all_inside and high - low + 1 == self.size and own.is_sorted()
            ):  # low, low + 1, low + 2, ...
                codes = wanted - wanted.dtype.type(low) if low else wanted
                return codes.astype(dtype, copy=codes is wanted)
            places = np.full(high - low + 1, -1, dtype=dtype)
            places[own.to_numpy() - low] = np.arange(self.size)
            if all_inside:
                return _look_up(places, wanted, low)
            inside = (wanted >= low) & (wanted <= high)
            return np.where(
                inside, places[np.where(inside, wanted, low).astype(np.int64) - low], -1
            )
        ids = ids.cast(own.dtype)
        table = pl.DataFrame({"id": own, "code": np.arange(self.size, dtype=np.int64)})
        found = pl.DataFrame({"id": ids}).join(table, on="id", how="left", maintain_order="left")
        return found["code"].fill_null(-1).to_numpy().astype(dtype, copy=False)

    def extend(self, ids: pl.Series) -> Vocabulary:
        """The same vocabulary with further ids behind its own."""
        import polars as pl

        ids = ids.cast(pl.Int64 if ids.dtype.is_integer() else pl.String)
        return Vocabulary(
            self.kind,
            self.size + len(ids),
            pl.concat([self.ids, ids]) if self.size else ids,
            origin=self.origin,
        )

    def sorted_by_text_descending(self) -> Vocabulary:
        """The same ids with the last first, in the order of their text."""
        import polars as pl

        return Vocabulary(
            self.kind,
            self.size,
            self.ids.gather(self.ids.cast(pl.String).arg_sort(descending=True)),
            origin=self.origin,
        )

    def hash_keys(self) -> Codes:
        """A number for each id that depends on the id alone, for hashing: not on its place or on
        the machine.
        """
        if self._ids is None:
            return np.arange(self.size, dtype=np.int64)
        if self._ids.dtype.is_integer():
            return self._ids.to_numpy(writable=True)
        digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in self._ids)
        return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)

    def hash_keys_of(self, codes: Codes) -> Codes:
        """The key of each of these codes, at the cost of the ids among them."""
        import polars as pl

        met = np.zeros(self.size, dtype=np.bool_)
        met[codes] = True
        keys = np.arange(self.size, dtype=np.int64)
        if self._ids is not None:
            keys[met] = Vocabulary(self.kind, 0, self._ids.filter(pl.Series(met))).hash_keys()
        return keys[codes]


def distinct(ids: pl.Series) -> pl.Series:
    """Each id once, in order: integers of 64 bits, or strings."""
    import polars as pl

    if isinstance(ids.dtype, pl.Enum):  # sorted already
        met = np.zeros(len(ids.dtype.categories), dtype=np.bool_)
        met[ids.to_physical().to_numpy()] = True
        return ids.dtype.categories.filter(met)
    if ids.dtype.is_integer() and len(ids) and (span := _span(ids, len(ids))) is not None:
        low, high = span
        met = np.zeros(high - low + 1, dtype=np.bool_)
        met[ids.to_numpy() - low if low else ids.to_numpy()] = True
        return pl.Series(np.flatnonzero(met) + low, dtype=pl.Int64)
    ids = ids.cast(pl.Int64 if ids.dtype.is_integer() else pl.String)
    return ids.unique(maintain_order=True).sort()  # in polars 2.1 faster than without the order


# Ids that are looked up at once: NumPy widens the codes that it takes as places.
_AT_ONCE = 1 << 20


def _look_up(table: NDArray[Any], places: NDArray[Any], low: int = 0) -> NDArray[Any]:
    """What stands at each place of a table that starts at `low`."""
    if places.dtype == np.int64 and not low:
        return np.take(table, places)
    found = np.empty(len(places), dtype=table.dtype)
    for start in range(0, len(places), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        found[some] = table[places[some].astype(np.int64) - low if low else places[some]]
    return found


def _span(ids: pl.Series, count: int) -> tuple[int, int] | None:
    """The lowest and the highest of some whole numbers, if a table of all between them costs no
    more than `count` ids do.
    """
    low, high = int(ids.min()), int(ids.max())  # type: ignore[arg-type]
    return (low, high) if high - low < 4 * count + (1 << 16) else None


def id_series(ids: Any, kind: str, where: str) -> pl.Series:
    """Ids as a polars series of Int64 or String; refuses missing, mixed and other ids."""
    import polars as pl

    if not isinstance(ids, pl.Series):
        if hasattr(ids, "detach"):  # a torch tensor
            ids = ids.detach().cpu().numpy()
        if isinstance(ids, (str, bytes, set, frozenset)) or not hasattr(ids, "__iter__"):
            raise InputError(
                f"{where} is {ids!r}, a {type(ids).__name__}, which has no order of {kind} ids; "
                "give them as a list or an array."
            )
        if not isinstance(ids, np.ndarray):
            ids = list(ids)
        ids = _series_of_values(ids, kind, where)
    return _checked(ids, kind, where)


def _checked(ids: pl.Series, kind: str, where: str) -> pl.Series:
    import polars as pl

    if ids.null_count():
        row = int(ids.is_null().arg_true()[0])
        raise InputError(f"{where} has no {kind} id in row {row}; every row needs one.")
    if ids.dtype.is_integer():
        if ids.dtype == pl.UInt64 and (ids >= 2**63).any():
            raise InputError(
                f"{where} has the {kind} id {ids.max()!r}, beyond 63 bits; give such ids as "
                "strings."
            )
        return ids.cast(pl.Int64)
    if ids.dtype in (pl.String, pl.Categorical) or isinstance(ids.dtype, pl.Enum):
        return ids.cast(pl.String)
    if len(ids) == 0:
        return ids.cast(pl.Int64)
    raise InputError(f"{where} has {_describe(ids)} as {kind} ids; ids are integers or strings.")


def _series_of_values(values: Sequence[Any] | NDArray[Any], kind: str, where: str) -> pl.Series:
    import polars as pl

    if isinstance(values, np.ndarray) and values.dtype.kind in "iufbUS":
        return pl.Series(values.astype(str) if values.dtype.kind in "US" else values)
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    types = {type(value) for value in plain if value is not None}
    if len(types) > 1:
        shown = ", ".join(sorted(kind_.__name__ for kind_ in types))
        raise InputError(
            f"{where} mixes {kind} ids of types {shown}; ids are all integers or all strings."
        )
    if types - {int, str}:
        raise InputError(
            f"{where} has {kind} ids of type {types.pop().__name__}; ids are integers or strings."
        )
    beyond = next(
        (value for value in plain if isinstance(value, int) and not -(2**63) <= value < 2**63), None
    )
    if beyond is not None:
        raise InputError(
            f"{where} has the {kind} id {beyond}, beyond 64 bits; give such ids as strings."
        )
    return pl.Series(plain, dtype=pl.String if types == {str} else pl.Int64)


def _describe(ids: pl.Series) -> str:
    import polars as pl

    is_text = ids.dtype == pl.String or isinstance(ids.dtype, pl.Enum)
    name = "integers" if ids.dtype.is_integer() else "strings" if is_text else str(ids.dtype)
    shown = ids.head(3).to_list()
    if is_text and all(
        value is not None and value.isdigit() for value in shown
    ):  # what else makes them strings
        shown += (
            ids.filter(~ids.cast(pl.String).str.contains("^[0-9]+$").fill_null(False))
            .head(1)
            .to_list()
        )
    return f"{name} ({', '.join(map(repr, shown))}{', ...' if len(ids) > len(shown) else ''})"
