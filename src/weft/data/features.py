"""Features: a set of labels of each item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.data.devices import DeviceColumn, is_host_readable
from weft.data.interaction_readers import check_scipy_pointers
from weft.data.interactions import Interactions, digest
from weft.data.label_readers import (
    EncodedLabels,
    Label,
    encode_labels,
    number_integers,
    number_labels,
)
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError

# Separators of several features in one value, as files have them, and the share of values with
# them that is suspicious. Names of single features often contain a comma, and rarely the others.
_SEPARATORS = {"|": 0.2, ";": 0.2, ",": 0.5}


@dataclass(frozen=True)
class Features:
    """A set of features per item: `codes[offsets[i]:offsets[i + 1]]` into `names` for item i.

    `num_unknown` features belonged to ids that are not evaluated. `notes` are remarks on the values
    that were read, for the result.
    """

    offsets: DeviceColumn
    codes: DeviceColumn
    names: tuple[Label, ...]
    num_unknown: int = 0
    notes: tuple[str, ...] = ()

    def equals(self, other: Features) -> bool:
        """True if both give the same features to the same items."""
        return (
            self.names == other.names
            and torch.equal(self.offsets.values, other.offsets.values)
            and torch.equal(self.codes.values, other.codes.values)
        )

    def fingerprint(self) -> str:
        """Return a short digest."""
        arrays = (part.values.cpu().numpy() for part in (self.offsets, self.codes))
        return digest(*arrays, about=self.names)

    @property
    def size(self) -> int:
        """The number of items, with or without features."""
        return len(self.offsets) - 1

    @cached_property
    def max_per_item(self) -> int:
        """The largest number of features of an item."""
        return int(np.diff(self.offsets.values.numpy()).max(initial=0))

    @cached_property
    def table(self) -> Tensor:
        """1 for each feature of an item, else 0, `[1 + items, features]`; no item comes first."""
        table = torch.zeros((1 + self.size, len(self.names)), dtype=torch.float64)
        index, codes = self.lookup(torch.arange(self.size))
        return table.index_put_((index + 1, codes), table.new_ones(()), accumulate=True)

    @cached_property
    def share_table(self) -> Tensor:
        """`table` with 1 / m for each of the m features of an item."""
        return self.table / self.table.sum(1, keepdim=True).clamp_(min=1)

    def lookup(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """Return (index into `items`, feature code) for each feature of items `[n]`, -1 = none.

        Where the host cannot read the number of features, each item has `max_per_item` pairs, with
        a code of -1 after its last feature.
        """
        offsets, codes = self.offsets.to(items.device), self.codes.to(items.device)
        known = items.clamp(min=0)
        first = offsets.index_select(0, known)
        after = offsets.index_select(0, (known + 1).clamp_(max=self.size))  # 0 of no items
        counts = torch.where(items < 0, 0, after - first)
        indices = torch.arange(len(items), device=items.device)
        if is_host_readable(items.device):
            index = torch.repeat_interleave(indices, counts)
            starts = (first - counts.cumsum(0) + counts).index_select(0, index)
            return index, codes.index_select(0, starts.add_(torch.arange(len(index))))
        numbers = torch.arange(self.max_per_item, device=items.device)
        has_feature = numbers < counts[:, None]
        found = codes.new_empty(has_feature.shape)
        if self.max_per_item:
            found = codes[torch.where(has_feature, first[:, None] + numbers, 0)]
        index = indices[:, None].expand_as(has_feature)
        return index.reshape(-1), torch.where(has_feature, found, -1).reshape(-1)

    @property
    def num_unlabelled(self) -> int:
        """The number of items without a feature."""
        return int(np.count_nonzero(np.diff(self.offsets.values.cpu().numpy()) == 0))


NO_FEATURES = Features(
    DeviceColumn(torch.zeros(1, dtype=torch.int64)),
    DeviceColumn(torch.empty(0, dtype=torch.int64)),
    (),
)


def read_features(
    data: Any,
    where: str,
    ids: Vocabulary,
    *,
    num_in_order: int | None = None,
    separator: str | None = None,
) -> Features:
    """Return a set of features for each id.

    `data` is `{id: features}`, a frame (id, feature) with a row for each feature, a matrix
    `[ids, features]` of 0 and 1, or a sequence of sets for the first `num_in_order` ids (by default
    all; 0: ids have no known order). Text is split at the separator.
    """
    if isinstance(data, Features):
        if data.size != ids.size:
            raise InputError(
                f"{where} has features of {data.size} {ids.kind}s, but there are {ids.size}."
            )
        return data
    if _is_canonical_csr(data, where) and data.shape[0] == ids.size:
        names, numbers = number_integers(data.indices.astype(np.int64))
        offsets = torch.as_tensor(data.indptr.astype(np.int64))
        return Features(DeviceColumn(offsets), DeviceColumn(torch.as_tensor(numbers)), names)
    encoded = encode_labels(data, where, ids, ids.size if num_in_order is None else num_in_order)
    _check_features(encoded.names, where)
    notes = tuple(_separator_notes(encoded, where, separator))
    if separator is not None:
        encoded = _split(encoded, separator, where)
    rows = Interactions.from_codes(
        encoded.codes,
        encoded.numbers,
        np.ones(len(encoded.codes)),
        ids.size,
        max(1, len(encoded.names)),
    )
    rows = rows.filter(~rows.find_duplicates())
    offsets, codes = torch.as_tensor(rows.offsets), torch.as_tensor(rows.items)
    return Features(
        DeviceColumn(offsets), DeviceColumn(codes), encoded.names, encoded.num_unknown, notes
    )


def _check_features(names: tuple[Label, ...], where: str) -> None:
    """Raise `InputError` for numbers with a fraction, such as those of an embedding."""
    fraction = next((name for name in names if isinstance(name, float)), None)
    if fraction is not None:
        raise InputError(
            f"{where} has the feature {fraction}; features are a set of strings or integers for "
            "each item, not a vector. Give the names of the features of each item."
        )


def _separator_notes(encoded: EncodedLabels, where: str, separator: str | None) -> Iterator[str]:
    """Yield a note if many values look like several features, or if none has the separator."""
    for candidate in _SEPARATORS if separator is None else (separator,):
        is_in_name = [isinstance(name, str) and candidate in name for name in encoded.names]
        num_values = int(np.array(is_in_name, dtype=np.bool_)[encoded.numbers].sum())
        if separator is not None and num_values == 0:
            yield f"no value of {where} contains the feature_separator {separator!r}"
        elif separator is None and num_values > _SEPARATORS[candidate] * len(encoded.numbers):
            name = encoded.names[is_in_name.index(True)]
            yield (
                f"{num_values:,} of {len(encoded.numbers):,} values of {where} contain "
                f"{candidate!r}, such as {name!r}, and count as one feature each; "
                f"feature_separator={candidate!r} splits them"
            )
            return


def _split(encoded: EncodedLabels, separator: str, where: str) -> EncodedLabels:
    """Return the labels with text split at a separator, without spaces around and empty parts."""
    parts = [
        [part.strip() for part in name.split(separator) if part.strip()]
        if isinstance(name, str)
        else [name]
        for name in encoded.names
    ]
    names, numbers = number_labels(list(chain.from_iterable(parts)), where)
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    counts = lengths[encoded.numbers]
    starts = (np.cumsum(lengths) - lengths)[encoded.numbers]
    # The numbers of the parts of a name are consecutive.
    first = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return replace(
        encoded,
        codes=np.repeat(encoded.codes, counts),
        numbers=numbers[first + np.arange(len(first))],
        names=names,
    )


def _is_canonical_csr(data: Any, where: str) -> bool:
    """True for a scipy CSR matrix with ascending, unique columns and no values but 1."""
    is_csr = type(data).__module__.startswith("scipy") and getattr(data, "format", "") == "csr"
    if not is_csr:
        return False
    check_scipy_pointers(data, where)
    columns = data.indices
    is_inside = len(columns) == 0 or 0 <= columns.min() <= columns.max() < data.shape[1]
    has_ones = len(columns) == data.indptr[-1] and bool((data.data == 1).all())
    return is_inside and has_ones and bool(data.has_canonical_format)
