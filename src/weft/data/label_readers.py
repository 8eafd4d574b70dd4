"""Readers of labels of users and items from files, frames, dicts, matrices and sequences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import torch
from numpy.typing import NDArray

from weft.data.frames import collect_frame, is_frame
from weft.data.interaction_readers import read_unchecked
from weft.data.readers.files import is_file, read_table
from weft.data.readers.roles import COLUMNS, check_unique_columns, find_column_name
from weft.data.vocabulary import Vocabulary, id_series
from weft.errors import (
    InputError,
    SettingError,
    agree,
    check_int,
    check_unmasked,
    describe_type,
    setting_ref,
)

if TYPE_CHECKING:
    import polars as pl


Label = str | int | float | bool
# Labels before they are numbered: integers (Int64) and strings as a series, others as a list.
RawLabels = Union["pl.Series", list[Any]]
_COLLECTIONS = (list, tuple, set, frozenset)


@dataclass(frozen=True)
class EncodedLabels:
    """Pairs of an id's code and a label's number into `names`; `num_unknown` had unknown ids."""

    codes: NDArray[np.int64]
    numbers: NDArray[np.int64]
    names: tuple[Label, ...]
    num_unknown: int


def encode_labels(data: Any, where: str, ids: Vocabulary, num_in_order: int) -> EncodedLabels:
    """Read labels of ids; missing labels are left out.

    A sequence holds the labels of the first `num_in_order` ids; 0: ids have no known order.
    """
    codes, labels = _read_pairs(data, where, ids, num_in_order)
    is_known = codes >= 0
    num_unknown = 0
    if not is_known.all():
        num_unknown = _count_present(_filter(labels, ~is_known))
        codes, labels = codes[is_known], _filter(labels, is_known)
    names, numbers = number_labels(labels, where)
    if len(numbers) and numbers.min() < 0:
        codes, numbers = codes[numbers >= 0], numbers[numbers >= 0]
    return EncodedLabels(codes, numbers, names, num_unknown)


def infer_vocabulary(data: Any, where: str, kind: str, size: int | None) -> Vocabulary:
    """Return a vocabulary of positions; its size may follow from a sequence of labels."""
    is_sequence = hasattr(data, "__len__") and not (
        isinstance(data, Mapping) or hasattr(data, "columns") or getattr(data, "ndim", 1) == 0
    )
    if size is not None:
        size = check_int(f"num_{kind}s", size)
    elif is_sequence:
        size = data.shape[0] if hasattr(data, "shape") else len(data)
    if size is None:
        raise SettingError(
            f"{setting_ref(where)} does not determine the number of {kind}s; give "
            f"{setting_ref(f'num_{kind}s')} with it."
        )
    return Vocabulary.from_size(kind, size)


def _filter(labels: RawLabels, mask: NDArray[np.bool_]) -> RawLabels:
    if isinstance(labels, list):
        return list(itertools.compress(labels, mask))
    return labels.filter(mask)


def _count_present(labels: RawLabels) -> int:
    if isinstance(labels, list):
        return sum(_to_plain(label) is not None for label in labels)
    return len(labels) - labels.null_count()


def _read_pairs(
    data: Any, where: str, ids: Vocabulary, num_in_order: int
) -> tuple[NDArray[np.int64], RawLabels]:
    """Return the code of an id (-1: unknown) for each label; an id may have several labels."""
    if is_file(data):
        table = read_table(data, where)
        return _from_columns(table.columns[ids.kind], table.columns["label"], table.where, ids)
    if isinstance(data, Mapping):
        return _flatten(data.keys(), data.values(), where, ids)
    if is_frame(data):
        frame = collect_frame(data, where)
        return _from_columns(*_find_label_columns(frame, ids.kind, where), where, ids)
    library = type(data).__module__.partition(".")[0]
    if library == "pandas" and hasattr(data, "index"):  # a series with the ids in its index
        return _from_columns(data.index, data, where, ids)
    if (library == "scipy" and hasattr(data, "tocoo")) or getattr(data, "ndim", 1) == 2:
        return _from_matrix(data, where, ids)
    return _from_sequence(data, where, ids, num_in_order)


def _from_columns(
    ids: Any, labels: Any, where: str, known: Vocabulary
) -> tuple[NDArray[np.int64], RawLabels]:
    import polars as pl

    raw = _to_raw_labels(labels)
    if isinstance(raw, list):
        return _flatten(map(_to_plain, ids), raw, where, known)
    is_enum = isinstance(ids.dtype, pl.Enum)  # of a file, which has been checked
    return known.encode(ids if is_enum else id_series(ids, known.kind, where), where), raw


def _from_sequence(
    data: Any, where: str, ids: Vocabulary, num_in_order: int
) -> tuple[NDArray[np.int64], RawLabels]:
    import polars as pl

    labels = list(data) if isinstance(data, tuple) else _to_raw_labels(data)
    if not isinstance(labels, (list, pl.Series)):
        raise InputError(
            f"{where} is {describe_type(data)}; expected {{id: label}}, a frame with a column of "
            "ids and one of labels, or a list."
        )
    check_in_order(len(labels), where, ids, num_in_order, value="label")
    types = set(map(type, labels)) if isinstance(labels, list) else set()
    if any(kind in _COLLECTIONS or hasattr(kind, "tolist") for kind in types):
        return _flatten(ids.ids, labels, where, ids)
    return np.arange(len(labels), dtype=np.int64), labels


def check_in_order(
    length: int, where: str, ids: Vocabulary, num_in_order: int, *, value: str
) -> None:
    """Raise `InputError` unless a sequence has a value for each id, in a known order."""
    if num_in_order == 0 and ids.size:
        # Lists name their users themselves, so that users= is not an option.
        are_listed_users = (ids.origin or "").startswith("source") and ids.kind == "user"
        hint = "" if are_listed_users else f", or {setting_ref(f'{ids.kind}s')}"
        raise InputError(
            f"{where} is a list, but the order of the {ids.kind}s is not known; give "
            f"{{id: {value}}}{hint}."
        )
    if length != num_in_order:
        raise InputError(
            f"{where} has {agree(length, '{n} {value}{s}', value=value)} for "
            f"{agree(num_in_order, '{n} {kind}{s}', kind=ids.kind)}; give one for each, or "
            f"{{id: {value}}} for some."
        )


def _to_raw_labels(data: Any) -> Any:
    """Return integers and strings as a series, other arrays and series as a list."""
    import polars as pl

    if isinstance(data, torch.Tensor):
        data = data.detach().cpu().numpy()
    if np.ma.is_masked(data):
        return data.tolist()  # None where there is no label
    if isinstance(data, np.ndarray) and data.dtype.kind in "iuU":
        data = pl.Series(data)
    if not isinstance(data, pl.Series):
        return data.tolist() if hasattr(data, "tolist") else data
    if data.dtype.is_integer():
        integers = data.cast(pl.Int64, strict=False)
        return data.to_list() if integers.null_count() else integers  # missing, or beyond 63 bits
    return data if data.dtype == pl.String else data.to_list()


def _to_collection(labels: Any) -> Collection[Any]:
    """Return the labels of one id as a collection."""
    if hasattr(labels, "tolist"):  # NumPy's and torch's arrays and numbers
        labels = labels.tolist()
    return labels if isinstance(labels, _COLLECTIONS) else [labels]


def _from_matrix(data: Any, where: str, ids: Vocabulary) -> tuple[NDArray[np.int64], RawLabels]:
    """Return the columns that are not 0 in each row."""
    kinds = f"{ids.kind}s"
    check_unmasked(data, where, "give array.filled(0), where 0 means no feature")
    table = read_unchecked(data, where, use="truth")
    if not np.isfinite(table.values).all():
        raise InputError(
            f"{where} is a matrix, but not of finite numbers; expected 0 or 1 for each of the "
            f"{kinds} and features."
        )
    is_set = table.values != 0
    if (is_other := is_set & (table.values != 1)).any():
        raise InputError(
            f"{where} is a matrix with the value {table.values[is_other][0]:g}; expected 0 or 1 "
            f"for each of the {kinds} and features: a set of features, not a vector of weights or "
            "ids. Give matrix != 0 if every other value means that an item has the feature."
        )
    num_rows = 0 if table.shape is None else table.shape[0]
    if table.shape is None or num_rows != ids.size:
        raise InputError(
            f"{where} is a matrix of {num_rows} rows, but there are {ids.size} {kinds}."
        )
    return table.users.to_numpy()[is_set], table.items.filter(is_set)


def _find_label_columns(frame: Any, kind: str, where: str) -> tuple[Any, Any]:
    """Return the column of ids and the column of labels of a frame."""
    columns = [str(column) for column in frame.columns]
    check_unique_columns(columns, where)
    id_column = find_column_name(columns, kind, where)
    if id_column is None:
        raise InputError(
            f"{where} has the columns {columns}; expected one named {COLUMNS[kind][0]!r} with the "
            f"{kind} ids."
        )
    others = [name for name in columns if name != id_column]
    if len(others) != 1:
        others = [name for name in others if find_column_name([name], "label", where)]
    if len(others) != 1:
        raise InputError(
            f"{where} has the columns {columns}; expected {id_column!r} and one with the labels. "
            f"Select two columns, for example frame[[{id_column!r}, 'label']]."
        )
    names = dict(zip(columns, frame.columns))  # pandas allows names that are not text
    return frame[names[id_column]], frame[names[others[0]]]


def _flatten(
    ids: Iterable[Any], labels: Iterable[Any], where: str, known: Vocabulary
) -> tuple[NDArray[np.int64], list[Any]]:
    """Return the code of an id for each label, where an id may have a collection of labels."""
    owners: list[Any] = []
    flat: list[Any] = []
    for owner, label in zip(ids, labels):
        collection = _to_collection(label)
        owners += [owner] * len(collection)
        flat += collection
    return known.encode(id_series(owners, known.kind, where), where), flat


def _to_plain(label: Any) -> Any:
    """Return a label as a Python value, None if it is missing.

    Floats without a fraction become integers, because pandas turns integers into such floats.
    """
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, float):
        if math.isnan(label):
            return None
        return int(label) if label.is_integer() else label
    return label


def number_labels(labels: RawLabels, where: str) -> tuple[tuple[Label, ...], NDArray[np.int64]]:
    """Return distinct labels, numbers before text, and the number of each (-1: missing)."""
    if not isinstance(labels, list):
        is_integer = labels.dtype.is_integer()
        return number_integers(labels.to_numpy()) if is_integer else _number_strings(labels)
    types = set(map(type, labels)) - {type(None)}
    if types not in ({str}, {int}):
        labels = [_to_plain(label) for label in labels]
        types = set(map(type, labels)) - {type(None)}
    _check_types(labels, types, where)
    names = sorted(set(labels) - {None}, key=lambda label: (isinstance(label, str), label))
    by_text: dict[str, Label] = {}
    for name in names:
        if by_text.setdefault(str(name), name) is not name:
            raise InputError(
                f"{where} has both {by_text[str(name)]!r} and {name!r} as labels; use one of them."
            )
    numbers = {name: number for number, name in enumerate(names)}
    found = map(numbers.get, labels, itertools.repeat(-1))
    return tuple(names), np.fromiter(found, dtype=np.int64, count=len(labels))


def _check_types(labels: list[Any], types: set[type], where: str) -> None:
    for kind in types - {str, int, float, bool}:
        label = next(label for label in labels if type(label) is kind)
        raise InputError(
            f"{where} has the label {label!r}, a {kind.__name__}; labels are strings or numbers."
        )
    if bool in types and types & {int, float}:
        truth_value = next(label for label in labels if type(label) is bool)
        number = next(label for label in labels if type(label) in (int, float))
        raise InputError(f"{where} has both {truth_value} and {number} as labels.")


def number_integers(labels: NDArray[np.int64]) -> tuple[tuple[Label, ...], NDArray[np.int64]]:
    """Return distinct integers in order, and the number of each label."""
    lowest = int(labels.min()) if len(labels) else 0
    if len(labels) == 0 or int(labels.max()) - lowest > 4 * len(labels):
        names, numbers = np.unique(labels, return_inverse=True)
        return tuple(names.tolist()), numbers.astype(np.int64)
    # Most labels are in a small range: counting is faster than sorting.
    shifted = labels - lowest if lowest else labels
    is_present = np.bincount(shifted) > 0
    numbers = shifted if is_present.all() else (np.cumsum(is_present) - 1).take(shifted)
    return tuple((np.flatnonzero(is_present) + lowest).tolist()), numbers


def _number_strings(labels: pl.Series) -> tuple[tuple[Label, ...], NDArray[np.int64]]:
    import polars as pl

    names = labels.drop_nulls().unique().sort()
    numbers = labels.cast(pl.Enum(names)).to_physical().cast(pl.Int64).fill_null(-1)
    return tuple(names.to_list()), numbers.to_numpy()
