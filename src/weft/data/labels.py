"""Labels of users and items: one group or cluster each, or a set of features."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.devices import DeviceColumn, is_host_readable
from weft.data.interaction_readers import read_interactions
from weft.data.interaction_table import MAX_EXAMPLES
from weft.data.interactions import Interactions, digest
from weft.data.readers.files import is_file, read_table
from weft.data.readers.roles import COLUMNS, find_column_name
from weft.data.vocabulary import Vocabulary, id_series
from weft.errors import InputError, SettingError

if TYPE_CHECKING:
    import polars as pl

    from weft.data.readers.files import FileTable

Label = str | int | float | bool


@dataclass(frozen=True)
class Labels:
    """A label per user or item: `codes [n]` into `names`, -1 for none. `unknown` labels belonged to
    ids that are not evaluated.
    """

    codes: DeviceColumn
    names: tuple[Label, ...]
    num_unknown: int = 0

    def equals(self, other: Labels) -> bool:
        """Whether both give the same labels to the same numbers."""
        return self.names == other.names and torch.equal(self.codes.values, other.codes.values)

    def fingerprint(self) -> str:
        """A short digest."""
        return digest(self.codes.values.cpu().numpy(), about=self.names)

    def renumber(self, names: tuple[Label, ...]) -> Labels:
        """The same labels, numbered as these are, which hold them all."""
        places = {name: number for number, name in enumerate(names)}
        numbers = torch.tensor([*(places[name] for name in self.names), -1], dtype=torch.int64)
        return Labels(DeviceColumn(numbers[self.codes.values]), names, self.num_unknown)

    @property
    def size(self) -> int:
        """The number of users or items, with a label or without."""
        return len(self.codes)

    @property
    def num_unlabelled(self) -> int:
        """How many have no label."""
        return int(np.count_nonzero(self.codes.values.cpu().numpy() < 0))

    @cached_property
    def sizes(self) -> torch.Tensor:
        """How many have each label, `[names]`."""
        return torch.bincount(self.codes.values + 1, minlength=len(self.names) + 1)[1:].double()


@dataclass(frozen=True)
class Features:
    """A set of features per item: those of item i are `codes[offsets[i]:offsets[i + 1]]`, numbers
    into `names`.
    """

    offsets: DeviceColumn
    codes: DeviceColumn
    names: tuple[Label, ...]
    num_unknown: int = 0

    def equals(self, other: Features) -> bool:
        """Whether both give the same features to the same items."""
        pairs = ((self.offsets, other.offsets), (self.codes, other.codes))
        return self.names == other.names and all(
            torch.equal(mine.values, theirs.values) for mine, theirs in pairs
        )

    def fingerprint(self) -> str:
        """A short digest."""
        return digest(
            *(part.values.cpu().numpy() for part in (self.offsets, self.codes)), about=self.names
        )

    @property
    def size(self) -> int:
        """The number of items, with features or without."""
        return len(self.offsets) - 1

    @cached_property
    def max_per_item(self) -> int:
        """The features of the item that has most."""
        return int(np.diff(self.offsets.values.numpy()).max(initial=0))

    def lookup(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """The features of items `[n]`, where -1 is none: for each pair the place of the item and
        the feature's code.

        Where the host does not see how many these are, each item has as many as the one that has
        most, -1 behind its last."""
        offsets, codes = self.offsets.to(items.device), self.codes.to(items.device)
        known = items.clamp(min=0)
        first = offsets.index_select(0, known)
        counts = torch.where(items < 0, 0, offsets.index_select(0, known + 1) - first)
        places = torch.arange(len(items), device=items.device)
        if is_host_readable(items.device):
            cell = torch.repeat_interleave(places, counts)
            feature = (
                (first - counts.cumsum(0) + counts)
                .index_select(0, cell)
                .add_(torch.arange(len(cell)))
            )
            return cell, codes.index_select(0, feature)
        number = torch.arange(self.max_per_item, device=items.device)
        has = number < counts[:, None]
        found = (
            codes[torch.where(has, first[:, None] + number, 0)]
            if self.max_per_item
            else codes.new_empty(has.shape)
        )
        return places[:, None].expand_as(has).reshape(-1), torch.where(has, found, -1).reshape(-1)

    @property
    def num_unlabelled(self) -> int:
        """Items without a feature."""
        return int(np.count_nonzero(np.diff(self.offsets.values.cpu().numpy()) == 0))


NO_LABELS = Labels(DeviceColumn(torch.empty(0, dtype=torch.int64)), ())
NO_FEATURES = Features(
    DeviceColumn(torch.zeros(1, dtype=torch.int64)),
    DeviceColumn(torch.empty(0, dtype=torch.int64)),
    (),
)


def read_labels(given: Any, where: str, ids: Vocabulary, *, in_order: int | None = None) -> Labels:
    """A label for each id: `{id: label}`, a frame (id, label), or labels in the order of the (first
    `in_order`) ids.

    `in_order=0`: the caller knows no order. Missing labels are no label.
    """
    if isinstance(given, Labels):
        if given.size < ids.size:
            raise InputError(
                f"{where} has labels for {given.size} {ids.kind}s, but there are {ids.size}."
            )
        return given
    if getattr(given, "ndim", 1) > 1 and not hasattr(given, "columns"):
        raise InputError(
            f"{where} has shape {list(given.shape)}; expected one label for each {ids.kind}."
        )
    codes, numbers, names, unknown = _encoded(
        given, where, ids, ids.size if in_order is None else in_order
    )
    if len(codes) == ids.size and (codes == np.arange(ids.size)).all():  # one each, in order
        return Labels(
            DeviceColumn(torch.as_tensor(np.require(numbers, requirements="W"))), names, unknown
        )
    chosen = np.full(ids.size, -1, dtype=np.int64)
    chosen[codes] = numbers
    differing = chosen[codes] != numbers
    if differing.any():
        kept = ids.ids.gather(codes[differing][:MAX_EXAMPLES])
        shown = ", ".join(map(repr, kept))
        raise InputError(
            f"{where} gives more than one label to the same {ids.kind}: "
            f"{shown}{', ...' if differing.sum() > MAX_EXAMPLES else ''}. "
            f"Each {ids.kind} has one label here; remove the others."
        )
    return Labels(DeviceColumn(torch.as_tensor(chosen)), names, unknown)


def read_features(
    given: Any, where: str, ids: Vocabulary, *, in_order: int | None = None
) -> Features:
    """A set of features for each id: `{id: features}`, a frame (id, feature) with a row each, or a
    matrix `[ids, features]`.

    Or a list of sets in the order of the ids, unless `in_order=0`: the caller knows no order.
    """
    if isinstance(given, Features):
        if given.size != ids.size:
            raise InputError(
                f"{where} has features of {given.size} {ids.kind}s, but there are {ids.size}."
            )
        return given
    if _is_in_order(given) and given.shape[0] == ids.size:
        names, numbers = _numbered_integers(given.indices.astype(np.int64))
        return Features(
            DeviceColumn(torch.as_tensor(given.indptr.astype(np.int64))),
            DeviceColumn(torch.as_tensor(numbers)),
            names,
        )
    codes, numbers, names, unknown = _encoded(
        given, where, ids, ids.size if in_order is None else in_order
    )
    rows = Interactions.from_codes(
        codes, numbers, np.ones(len(codes)), ids.size, max(1, len(names))
    )
    rows = rows.filter(~rows.find_duplicates())  # each feature of an item once
    return Features(
        DeviceColumn(torch.as_tensor(rows.offsets)),
        DeviceColumn(torch.as_tensor(rows.items)),
        names,
        unknown,
    )


def label_names(names: Iterable[Label], where: str) -> tuple[Label, ...]:
    """All these labels, each once and in order. What cannot stand beside each other is refused."""
    return _numbered(list(names), where)[0]


def read_positional_labels(given: Any, where: str, kind: str, size: int | None) -> Labels:
    """Labels of row or column numbers; how many there are may follow from the labels."""
    return (
        given
        if isinstance(given, Labels)
        else read_labels(given, where, _numbers(given, where, kind, size))
    )


def read_positional_features(given: Any, size: int | None) -> Features:
    """Features of column numbers; how many there are may follow from the features."""
    where = "item_features"
    return (
        given
        if isinstance(given, Features)
        else read_features(given, where, _numbers(given, where, "item", size))
    )


def _numbers(given: Any, where: str, kind: str, size: int | None) -> Vocabulary:
    if (
        size is None
        and not isinstance(given, Mapping)
        and not hasattr(given, "columns")
        and hasattr(given, "__len__")
    ):
        size = given.shape[0] if hasattr(given, "shape") else len(given)
    if size is None:
        raise SettingError(
            f"{where}= does not tell how many {kind}s there are; give num_{kind}s= beside it."
        )
    return Vocabulary.from_size(kind, size)


# Labels as they are read: integers and strings in columns, which are numbered at once, or anything
# in a list.
Given = Union[NDArray[np.int64], "pl.Series", list[Any]]


def _encoded(
    given: Any, where: str, ids: Vocabulary, in_order: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[Label, ...], int]:
    """(id code, label number) pairs without the missing ones, the labels, and how many pairs belong
    to ids unknown here.
    """
    codes, labels = _pairs(given, where, ids, in_order)
    known = codes >= 0
    unknown = 0
    if not known.all():
        unknown = _count_present(_select(labels, ~known))
        codes, labels = codes[known], _select(labels, known)
    names, numbers = _numbered(labels, where)
    if len(numbers) and numbers.min() < 0:
        codes, numbers = codes[numbers >= 0], numbers[numbers >= 0]
    return codes, numbers, names, unknown


def _select(labels: Given, which: NDArray[np.bool_]) -> Given:
    if isinstance(labels, list):
        return [label for label, is_chosen in zip(labels, which) if is_chosen]
    return labels[which] if isinstance(labels, np.ndarray) else labels.filter(which)


def _count_present(labels: Given) -> int:
    if isinstance(labels, list):
        return sum(_plain(label) is not None for label in labels)
    return len(labels) if isinstance(labels, np.ndarray) else len(labels) - labels.null_count()


def _pairs(
    given: Any, where: str, ids: Vocabulary, in_order: int
) -> tuple[NDArray[np.int64], Given]:
    """The code of an id (-1: not known here) for each label; an id may have several, and labels may
    be missing.
    """
    if is_file(given):
        return _from_table(read_table(given, where), ids)
    library, name = type(given).__module__.partition(".")[0], type(given).__name__
    if library == "pandas" and name == "Series":  # its index holds the ids
        return _paired(given.index.tolist(), given.tolist(), where, ids)
    if isinstance(given, Mapping):
        names = [name for name, labels in given.items() for _ in _several(labels)]
        owners = ids.encode(id_series(names, ids.kind, where), where)
        return owners, [label for labels in given.values() for label in _several(labels)]
    if library in ("polars", "pandas") and name in ("DataFrame", "LazyFrame"):
        return _from_frame(given.collect() if name == "LazyFrame" else given, where, ids)
    if (library == "scipy" and hasattr(given, "tocoo")) or getattr(given, "ndim", 1) == 2:
        return _from_matrix(given, where, ids)
    labels = _column(given)
    if (
        not isinstance(labels, (list, tuple, np.ndarray))
        and type(labels).__module__.partition(".")[0] != "polars"
    ):
        raise InputError(
            f"{where} is a {name}; expected {{id: label}}, a frame with a column of ids and one of "
            "labels, or a list."
        )
    if in_order == 0 and ids.size:
        hint = (
            ""
            if (ids.origin or "").startswith("source") and ids.kind == "user"
            else f", or {ids.kind}s="
        )  # lists name their users themselves
        raise InputError(
            f"{where} is a list, but the {ids.kind}s are in no order that you gave; give {{id: "
            f"label}}{hint}."
        )
    if len(labels) != in_order:
        raise InputError(
            f"{where} has {len(labels)} labels for {in_order} {ids.kind}s; give one for each, or "
            f"{{id: label}} for some."
        )
    if isinstance(labels, (list, tuple)) and any(
        kind in _SEVERAL or hasattr(kind, "tolist") for kind in set(map(type, labels))
    ):
        return _pairs(dict(zip(ids.ids, labels)), where, ids, in_order)
    return np.arange(len(labels), dtype=np.int64), list(labels) if isinstance(
        labels, tuple
    ) else labels


def _column(given: Any) -> Any:
    """Integers as an array and strings as a series; everything else as it is, arrays and series as
    a list.
    """
    import polars as pl

    if isinstance(given, pl.Series):
        if given.dtype.is_integer() and not given.null_count():
            return given.cast(pl.Int64).to_numpy()
        return given if given.dtype == pl.String else given.to_list()
    if isinstance(given, torch.Tensor):
        given = given.detach().cpu().numpy()
    if (
        isinstance(given, np.ndarray)
        and given.dtype.kind in "iu"
        and (given.dtype != np.uint64 or not (given >= 1 << 63).any())
    ):
        return given.astype(np.int64)
    if isinstance(given, np.ndarray) and given.dtype.kind == "U":
        return pl.Series(given)
    return given.tolist() if hasattr(given, "tolist") else given


_SEVERAL = (list, tuple, set, frozenset)


def _several(labels: Any) -> Iterable[Any]:
    if hasattr(labels, "tolist"):  # NumPy's and torch's arrays and numbers
        labels = labels.tolist()
    return labels if isinstance(labels, _SEVERAL) else [labels]


def _is_in_order(given: Any) -> bool:
    """Whether this is a sparse matrix that holds the features of each row as `Features` does:
    ascending, each once.
    """
    if not (type(given).__module__.startswith("scipy") and getattr(given, "format", "") == "csr"):
        return False
    values = given.data
    return (
        values.dtype.kind in "biuf"
        and given.has_canonical_format
        and bool((np.isfinite(values) & (values != 0)).all())
    )


def _from_matrix(given: Any, where: str, ids: Vocabulary) -> tuple[NDArray[np.int64], Given]:
    """The columns that are not 0 in each row."""
    kind = f"{ids.kind}s"
    try:
        cells = read_interactions(given, where)
    except InputError:
        raise InputError(
            f"{where} is a matrix, but not of finite numbers; expected 0 or 1 for each of the "
            f"{kind} and features."
        ) from None
    if cells.shape is None or cells.shape[0] != ids.size:
        raise InputError(
            f"{where} is a matrix of {(cells.shape or (0,))[0]} rows, but there are {ids.size} "
            f"{kind}."
        )
    owners, features = cells.users.to_numpy(), cells.items.to_numpy()
    stored = cells.values != 0
    return (owners, features) if stored.all() else (owners[stored], features[stored])


def _from_table(table: FileTable, known: Vocabulary) -> tuple[NDArray[np.int64], Given]:
    ids, labels = table.columns[known.kind], table.columns["label"]
    if isinstance(column := _column(labels), list):
        return _paired(ids.to_list(), labels.to_list(), table.where, known)
    return known.encode(ids, table.where), column


def _from_frame(frame: Any, where: str, known: Vocabulary) -> tuple[NDArray[np.int64], Given]:
    kind = known.kind
    columns = [str(column) for column in frame.columns]
    doubled = [name for name in columns if columns.count(name) > 1]
    if doubled:
        raise InputError(f"{where} has the column {doubled[0]!r} twice; rename or drop one.")
    id_column = find_column_name(columns, kind, where)
    if id_column is None:
        raise InputError(
            f"{where} has the columns {columns}; expected one named {COLUMNS[kind][0]!r} with the "
            f"{kind} ids."
        )
    others = [name for name in columns if name != id_column]
    named = [name for name in others if find_column_name([name], "label", where)]
    if len(others) != 1 and len(named) != 1:
        raise InputError(
            f"{where} has the columns {columns}; expected {id_column!r} and one with the labels. "
            "Select two columns, for example "
            f"frame.select({id_column!r}, 'label')."
        )
    real = dict(zip(columns, frame.columns))  # pandas has columns whose names are no text
    ids, labels = (
        frame[real[name]] for name in (id_column, others[0] if len(others) == 1 else named[0])
    )
    if not isinstance(column := _column(labels), list) and type(labels).__module__.startswith(
        "polars"
    ):
        return known.encode(id_series(ids, kind, where), where), column
    return _paired(ids.to_list(), labels.to_list(), where, known)


def _paired(
    ids: list[Any], labels: list[Any], where: str, known: Vocabulary
) -> tuple[NDArray[np.int64], list[Any]]:
    """An id for each label, where an id may have several."""
    pairs = [
        (_plain(name), label) for name, several in zip(ids, labels) for label in _several(several)
    ]
    return known.encode(id_series([name for name, _ in pairs], known.kind, where), where), [
        label for _, label in pairs
    ]


def _plain(label: Any) -> Any:
    """A label as Python's own value; None where it is missing. Whole floats, which pandas makes of
    integers, are integers.
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


def _numbered(labels: Given, where: str) -> tuple[tuple[Label, ...], NDArray[np.int64]]:
    """The different labels in order, numbers before words; and the number of each, -1 where it is
    missing.
    """
    if isinstance(labels, np.ndarray):
        return _numbered_integers(labels)
    if not isinstance(labels, list):
        return _numbered_strings(labels)
    kinds = set(map(type, labels)) - {type(None)}
    if kinds != {str} and kinds != {int}:
        labels = [_plain(label) for label in labels]
        kinds = set(map(type, labels)) - {type(None)}
    for kind in kinds - {str, int, float, bool}:
        label = next(label for label in labels if type(label) is kind)
        raise InputError(
            f"{where} has the label {label!r}, a {kind.__name__}; labels are strings or numbers."
        )
    if bool in kinds and kinds & {int, float}:
        number = next(label for label in labels if type(label) in (int, float))
        raise InputError(
            f"{where} has both {next(label for label in labels if type(label) is bool)} and "
            f"{number} as labels."
        )
    names = sorted(set(labels) - {None}, key=lambda label: (isinstance(label, str), label))
    by_text: dict[str, Label] = {}
    for name in names:
        if by_text.setdefault(str(name), name) is not name:
            raise InputError(
                f"{where} has both {by_text[str(name)]!r} and {name!r} as labels; write them in "
                "one way."
            )
    numbers = {name: number for number, name in enumerate(names)}
    found = np.fromiter(
        map(numbers.get, labels, itertools.repeat(-1)), dtype=np.int64, count=len(labels)
    )
    return tuple(names), found


def _numbered_integers(labels: NDArray[np.int64]) -> tuple[tuple[Label, ...], NDArray[np.int64]]:
    lowest = int(labels.min()) if len(labels) else 0
    if len(labels) == 0 or int(labels.max()) - lowest > 4 * len(labels):
        names, numbers = np.unique(labels, return_inverse=True)
        return tuple(names.tolist()), numbers.astype(np.int64)
    # Close together, as they mostly are: counted instead of sorted.
    shifted = labels - lowest if lowest else labels
    present = np.bincount(shifted) > 0
    numbers = shifted if present.all() else (np.cumsum(present) - 1).take(shifted)
    return tuple((np.flatnonzero(present) + lowest).tolist()), numbers


def _numbered_strings(labels: pl.Series) -> tuple[tuple[Label, ...], NDArray[np.int64]]:
    import polars as pl

    names = labels.drop_nulls().unique().sort()
    numbers = labels.cast(pl.Enum(names)).to_physical().cast(pl.Int64).fill_null(-1)
    return tuple(names.to_list()), numbers.to_numpy()
