"""Vocabularies: the ids of users or items, and their codes 0, 1, 2, ..."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError, check_unmasked, describe_type, setting_ref

if TYPE_CHECKING:
    import polars as pl

Codes = NDArray[np.int64]
_LOOK_UP_ROWS = 1 << 16  # looked up at once, because NumPy widens the codes that it indexes with


class Vocabulary:
    """The ids of one kind ("user" or "item") in order; the position of an id is its code.

    Without ids, it is positional: an id is a row or column number below `size`. `origin` names the
    data with these ids, or with these rows and columns, in messages.
    """

    def __init__(
        self, kind: str, size: int, ids: pl.Series | None = None, *, origin: str | None = None
    ) -> None:
        self.kind = kind
        self.size = size
        self._ids = ids
        self.is_positional = ids is None  # True if ids are row or column numbers
        self.origin = origin

    @classmethod
    def from_size(cls, kind: str, size: int, *, origin: str = "the scores") -> Vocabulary:
        """Return a positional vocabulary."""
        return cls(kind, size, origin=origin)

    @classmethod
    def from_data(cls, kind: str, ids: Sequence[pl.Series], *, origin: str) -> Vocabulary:
        """Return a vocabulary of all distinct ids, sorted; all series have ids of one type."""
        import polars as pl

        parts = [distinct_ids(part) for part in ids if len(part)]
        if len(parts) > 1:
            parts = [distinct_ids(pl.concat(parts))]
        series = parts[0] if parts else pl.Series(dtype=pl.Int64)
        return cls(kind, len(series), series, origin=origin)

    @classmethod
    def from_ids(cls, kind: str, ids: Any, *, where: str | None = None) -> Vocabulary:
        """Return a vocabulary of these ids in their order; raise `InputError` for duplicates."""
        name = where or setting_ref(f"{kind}s")
        series = id_series(ids, kind, name)
        duplicates = series.filter(series.is_duplicated())
        if len(duplicates):
            raise InputError(
                f"{name} has the id {duplicates[0]!r} {(series == duplicates[0]).sum()} times; "
                f"each {kind} id must occur once."
            )
        return cls(kind, len(series), series, origin=where)

    @cached_property
    def ids(self) -> pl.Series:
        """All ids in the order of their codes."""
        import polars as pl

        if self._ids is None:
            return pl.int_range(self.size, dtype=pl.Int64, eager=True)
        return self._ids

    def encode(
        self, ids: pl.Series, where: str, *, dtype: type[np.signedinteger[Any]] = np.int64
    ) -> NDArray[Any]:
        """Return the code of each id, -1 for unknown ids.

        `where` names the data in messages; `dtype` must hold the codes. Ids that are their own
        codes are not copied: the array is then read-only.
        """
        import polars as pl

        if len(ids) == 0 or (self.size == 0 and not self.is_positional):
            return np.full(len(ids), -1, dtype=dtype)
        own = self.ids
        if own.dtype.is_integer() != ids.dtype.is_integer():
            raise self._wrong_type(ids, where)
        if isinstance(ids.dtype, pl.Enum):  # strings that are codes already
            categories, numbers = ids.dtype.categories, ids.to_physical().to_numpy()
            if categories.equals(own):
                return numbers.astype(dtype)
            return _look_up(self.encode(categories, where, dtype=dtype), numbers)
        if self._ids is None:
            codes = ids.to_numpy().astype(np.int64)
            return np.where((codes >= 0) & (codes < self.size), codes, -1).astype(dtype, copy=False)
        if own.dtype.is_integer() and (span := _span(own, self.size + len(ids))) is not None:
            return self._encode_by_table(ids, span, dtype)
        table = pl.DataFrame({"id": own, "code": np.arange(self.size, dtype=np.int64)})
        frame = pl.DataFrame({"id": ids.cast(own.dtype)})
        found = frame.join(table, on="id", how="left", maintain_order="left")
        return found["code"].fill_null(-1).to_numpy().astype(dtype, copy=False)

    def _encode_by_table(
        self, ids: pl.Series, span: tuple[int, int], dtype: type[np.signedinteger[Any]]
    ) -> NDArray[Any]:
        """Encode integers of a small span, many times faster than by a join."""
        (low, high), own, sought = span, self.ids, ids.to_numpy()
        are_inside = ids.min() >= low and ids.max() <= high  # type: ignore[operator]
        is_range = high - low + 1 == self.size and own.is_sorted()  # low, low + 1, low + 2, ...
        if are_inside and is_range:
            codes = sought - sought.dtype.type(low) if low else sought
            return codes.astype(dtype, copy=False)
        table = np.full(high - low + 1, -1, dtype=dtype)
        table[own.to_numpy() - low] = np.arange(self.size)
        if are_inside:
            return _look_up(table, sought, low)
        is_inside = (sought >= low) & (sought <= high)
        places = np.where(is_inside, sought, low).astype(np.int64) - low
        return np.where(is_inside, table[places], -1)

    def _wrong_type(self, ids: pl.Series, where: str) -> InputError:
        """Return the error for integers where ids are strings, and the other way round."""
        setting = setting_ref(f"{self.kind}s")
        if self._ids is None:
            axis = "row" if self.kind == "user" else "column"
            return InputError(
                f"{where} has {_describe(ids)} as {self.kind} ids, but without {setting} ids are "
                f"{axis} numbers of {self.origin}, 0 to {self.size - 1}. Give the ids of the "
                f"{axis}s of {self.origin} with {setting}."
            )
        return InputError(
            f"{where} has {_describe(ids)} as {self.kind} ids, but {self.origin or setting} has "
            f"{_describe(self.ids)}. Convert one of them: 1 and '1' are different ids. To read "
            f"the ids of a file as strings, use its setting {setting_ref('ids', 'string')}."
        )

    def extend(self, ids: pl.Series) -> Vocabulary:
        """Return a vocabulary with further ids after its own."""
        import polars as pl

        ids = ids.cast(pl.Int64 if ids.dtype.is_integer() else pl.String)
        all_ids = pl.concat([self.ids, ids]) if self.size else ids
        return Vocabulary(self.kind, len(all_ids), all_ids, origin=self.origin)

    def select(self, codes: Codes) -> Vocabulary:
        """Return a vocabulary of the ids of some codes, in their order."""
        return Vocabulary(self.kind, len(codes), self.ids.gather(codes), origin=self.origin)

    def sorted_by_text_descending(self) -> Vocabulary:
        """Return a vocabulary of these ids as text, in descending order."""
        import polars as pl

        order = self.ids.cast(pl.String).arg_sort(descending=True)
        return Vocabulary(self.kind, self.size, self.ids.gather(order), origin=self.origin)

    def hash_keys(self) -> Codes:
        """Return a number for each id that depends on the id alone, for hashing, `[size]`."""
        import polars as pl

        if self._ids is None:
            return np.arange(self.size, dtype=np.int64)
        if self._ids.dtype.is_integer():
            return self._ids.to_numpy(writable=True)
        texts = self._ids.cast(pl.Binary)
        digests = [hashlib.blake2b(text, digest_size=8).digest() for text in texts.to_list()]
        return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)

    def hash_keys_of(self, codes: Codes) -> Codes:
        """Return hash keys by code, `[size]`; only those of `codes` are set, the rest is 0."""
        import polars as pl

        if self._ids is None or self._ids.dtype.is_integer():
            return self.hash_keys()
        is_used = np.zeros(self.size, dtype=np.bool_)
        is_used[codes] = True
        used = self._ids.filter(pl.Series(is_used))
        keys = np.zeros(self.size, dtype=np.int64)
        keys[is_used] = Vocabulary(self.kind, len(used), used).hash_keys()
        return keys


def distinct_ids(ids: pl.Series) -> pl.Series:
    """Return each id once, sorted, as Int64 or String."""
    import polars as pl

    if isinstance(ids.dtype, pl.Enum):  # categories are sorted
        is_used = np.zeros(len(ids.dtype.categories), dtype=np.bool_)
        is_used[ids.to_physical().to_numpy()] = True
        return ids.dtype.categories.filter(is_used)
    if ids.dtype.is_integer() and len(ids) and (span := _span(ids, len(ids))) is not None:
        low, high = span
        is_used = np.zeros(high - low + 1, dtype=np.bool_)
        values = ids.to_numpy()
        for start in range(0, len(values), _LOOK_UP_ROWS):
            tile = values[start : start + _LOOK_UP_ROWS]
            is_used[tile - low if low else tile] = True
        return pl.Series(np.flatnonzero(is_used) + low, dtype=pl.Int64)
    ids = ids.cast(pl.Int64 if ids.dtype.is_integer() else pl.String)
    return ids.unique(maintain_order=True).sort()  # in polars 2.1 faster than without the order


def _look_up(table: NDArray[Any], keys: NDArray[Any], low: int = 0) -> NDArray[Any]:
    """Return `table[keys - low]`."""
    if keys.dtype == np.int64 and not low:
        return np.take(table, keys)
    values = np.empty(len(keys), dtype=table.dtype)
    for start in range(0, len(keys), _LOOK_UP_ROWS):
        rows = slice(start, start + _LOOK_UP_ROWS)
        values[rows] = table[keys[rows].astype(np.int64) - low if low else keys[rows]]
    return values


def _span(ids: pl.Series, num_ids: int) -> tuple[int, int] | None:
    """Return the lowest and highest integer; None if a table of that size costs too much."""
    low, high = int(ids.min()), int(ids.max())  # type: ignore[arg-type]
    return (low, high) if high - low < 4 * num_ids + (1 << 16) else None


def id_series(ids: Any, kind: str, where: str) -> pl.Series:
    """Return ids as a series of Int64 or String; raise `InputError` for other and missing ids."""
    return _check_ids(series_of_ids(ids, kind, where), kind, where)


def series_of_ids(ids: Any, kind: str, where: str) -> pl.Series:
    """Return ids as a series of any type, null for None; raise `InputError` for mixed types."""
    import polars as pl

    if isinstance(ids, pl.Series):
        return ids
    if hasattr(ids, "detach"):  # a torch tensor
        from weft.data.devices import read_array

        ids = read_array(ids, where)
    if isinstance(ids, (str, bytes, set, frozenset)) or not hasattr(ids, "__iter__"):
        raise InputError(
            f"{where} is {ids!r}, {describe_type(ids)}, which has no order; give the {kind} ids "
            "as a list or an array."
        )
    check_unmasked(ids, where, "give an id for every element, or array.compressed()")
    return _series_of_values(ids if isinstance(ids, np.ndarray) else list(ids), kind, where)


def _check_ids(ids: pl.Series, kind: str, where: str) -> pl.Series:
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
    raise InputError(
        f"{where} has {_describe(ids)} as {kind} ids; ids are integers or "
        f"strings{hint_at_lists(ids.dtype)}."
    )


def hint_at_lists(dtype: Any) -> str:
    """Return how to convert a column with a list in each row; empty for other columns."""
    import polars as pl

    if dtype not in (pl.List, pl.Array):
        return ""
    return "; write one row for each item of a list, as frame.explode in polars does"


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
    if types == {str}:
        return pl.Series(plain, dtype=pl.String)
    try:
        return pl.Series(plain, dtype=pl.Int64)
    except (TypeError, OverflowError):
        beyond = next(
            value for value in plain if value is not None and not -(2**63) <= value < 2**63
        )
        raise InputError(
            f"{where} has the {kind} id {beyond}, beyond 64 bits; give such ids as strings."
        ) from None


def _describe(ids: pl.Series) -> str:
    """Return the type of ids and the first of them, for messages."""
    import polars as pl

    shown = ids.head(3).to_list()
    if ids.dtype.is_integer():
        name = "integers"
    elif ids.dtype == pl.String or isinstance(ids.dtype, pl.Enum):
        name = "strings"
        if all(value is not None and value.isdigit() for value in shown):
            # An id that shows why these are strings.
            is_number = ids.cast(pl.String).str.contains("^[0-9]+$").fill_null(False)
            shown += ids.filter(~is_number).head(1).to_list()
    else:
        name = str(ids.dtype)
    return f"{name} ({', '.join(map(repr, shown))}{', ...' if len(ids) > len(shown) else ''})"
